//! Finds the Unix sockets that a command could connect to by their paths.
//!
//! No namespace separates them, and `connect` needs no right to write. Landlock denies it from its ninth version on; on
//! older kernels `mounts` covers what is listed here. A socket that appears later stays open to the command.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::sandbox::plan::PathRule;

/// Lists the sockets of this network namespace. Those in folders that are replaced anyway do no harm.
pub(super) fn list_reachable_sockets(rules: &[(PathRule, PathBuf)]) -> Vec<PathBuf> {
    let table = fs::read("/proc/net/unix").unwrap_or_default();
    let folders: Vec<&Path> = rules
        .iter()
        .filter(|(rule, _)| *rule == PathRule::Write)
        .map(|(_, path)| path.as_path())
        .collect();
    let mut found: Vec<PathBuf> = table
        .split(|byte| *byte == b'\n')
        .filter_map(read_path)
        .flat_map(|path| {
            // The table has the path as its server wrote it, which may be relative to a folder that we do not know.
            let bases = if path.is_absolute() {
                vec![Path::new("/")]
            } else {
                folders.clone()
            };
            bases
                .into_iter()
                .map(move |folder| folder.join(path))
                .collect::<Vec<_>>()
        })
        .filter_map(|path| fs::canonicalize(path).ok())
        .collect();
    found.sort();
    found.dedup();
    found
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
