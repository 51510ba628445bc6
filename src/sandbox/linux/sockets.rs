//! Finds the Unix sockets that a command could connect to by their paths.
//!
//! No namespace separates them, and `connect` needs no right to write. Landlock denies it from its ninth version on; on
//! older kernels `mounts` covers what is listed here. A socket that appears later stays open to the command.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::mount_table::list_mount_points;
use crate::sandbox::plan::PathRule;

/// Most processes in whose folders sockets are looked for.
const MAX_PROCESSES: usize = 5_000;
/// Most paths that are tried.
const MAX_TRIED: usize = 20_000;

/// Lists the sockets of this network namespace, and those that are mounted. Those in replaced folders do no harm.
///
/// Finds those with a relative path only at the top of writable folders; see [`list_relative_sockets`].
pub(super) fn list_reachable_sockets(rules: &[(PathRule, PathBuf)]) -> Vec<PathBuf> {
    let (mut candidates, relative) = read_table();
    // A container may see the socket of a program outside as a mount of its own.
    candidates.extend(list_mount_points().unwrap_or_default());
    for (_, folder) in rules.iter().filter(|(rule, _)| rule.is_writable()) {
        candidates.extend(relative.iter().map(|path| folder.join(path)));
    }
    find_sockets(candidates)
}

/// Lists the sockets whose path is relative to the folder of a process of this user.
///
/// The table does not say to which process a socket belongs, so all are tried. Nobody in another user namespace may
/// read their folders, so this comes before one is created.
pub fn list_relative_sockets() -> Vec<PathBuf> {
    let (_, relative) = read_table();
    if relative.is_empty() {
        return Vec::new();
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let folders: BTreeSet<PathBuf> = processes
        .take(MAX_PROCESSES)
        .filter_map(|process| fs::read_link(process.path().join("cwd")).ok())
        .collect();
    let joined = folders
        .iter()
        .flat_map(|folder| relative.iter().map(|path| folder.join(path)));
    find_sockets(joined.take(MAX_TRIED).collect())
}

/// Returns the absolute and the relative paths in the table of Unix sockets, as their servers wrote them.
fn read_table() -> (Vec<PathBuf>, BTreeSet<PathBuf>) {
    let table = fs::read("/proc/net/unix").unwrap_or_default();
    // The first line is its head.
    let lines = table.split(|byte| *byte == b'\n').skip(1);
    let (mut absolute, mut relative) = (Vec::new(), BTreeSet::new());
    for path in lines.filter_map(read_path) {
        if path.is_absolute() {
            absolute.push(path.to_owned());
        } else {
            relative.insert(path.to_owned());
        }
    }
    (absolute, relative)
}

/// Resolves the paths that lead to sockets.
fn find_sockets(candidates: Vec<PathBuf>) -> Vec<PathBuf> {
    let is_socket = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let found = candidates.into_iter().filter(is_socket);
    let found: BTreeSet<PathBuf> = found.filter_map(|path| fs::canonicalize(path).ok()).collect();
    found.into_iter().collect()
}

/// Returns the path in a line of the table: its eighth column, which may contain blanks.
fn read_path(line: &[u8]) -> Option<&Path> {
    let mut rest = line;
    for _ in 0..7 {
        let start = rest.iter().position(|byte| *byte != b' ')?;
        let length = rest[start..].iter().position(|byte| *byte == b' ')?;
        rest = &rest[start + length..];
    }
    let path = rest.strip_prefix(b" ")?;
    // An `@` means an abstract socket, which the network namespace separates.
    (!path.is_empty() && path[0] != b'@').then(|| Path::new(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_sockets_are_found_with_their_blanks() {
        let line = |path: &str| format!("ffff8880: 00000002 00000000 00010000 0001 01 12345{path}");
        for (text, path) in [
            (line(" /run/a socket"), Some("/run/a socket")),
            (line(" app.sock"), Some("app.sock")),
            (line(" @/tmp/dbus"), None),
            (line(""), None),
            (
                "Num       RefCount Protocol Flags    Type St Inode Path".to_owned(),
                Some("Path"),
            ),
            (String::new(), None),
        ] {
            assert_eq!(read_path(text.as_bytes()), path.map(Path::new), "{text}");
        }
    }
}
