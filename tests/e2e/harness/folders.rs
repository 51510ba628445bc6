//! Views of the machine from outside: changed files, leaked secrets, surviving processes and their memory.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use memchr::memmem;

/// Returns every file below `root` with its content.
pub fn contents(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(folder) = pending.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => pending.push(path),
                Ok(kind) if kind.is_file() => {
                    if let Ok(bytes) = std::fs::read(&path) {
                        found.insert(path, bytes);
                    }
                }
                _ => {}
            }
        }
    }
    found
}

/// Returns a message for each secret in a file below `root`.
pub fn leaks(root: &Path, secrets: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, bytes) in contents(root) {
        found.extend(
            holds(&bytes, secrets)
                .into_iter()
                .map(|secret| format!("{} contains {secret}", path.display())),
        );
    }
    found
}

/// Returns the secrets that `bytes` contains.
pub fn holds(bytes: &[u8], secrets: &[String]) -> Vec<String> {
    secrets
        .iter()
        .filter(|secret| memmem::find(bytes, secret.as_bytes()).is_some())
        .cloned()
        .collect()
}

/// Returns processes whose environment contains `mark`.
///
/// The server and its helpers protect theirs, so only root reads it. For others, the server with this number counts, and
/// what it has started.
pub fn marked_processes(mark: &str, server: u32) -> Vec<u32> {
    let (mut found, mut protected) = (Vec::new(), BTreeMap::new());
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return found;
    };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match std::fs::read(entry.path().join("environ")) {
            Ok(environ) if memmem::find(&environ, mark.as_bytes()).is_some() => found.push(pid),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                protected.extend(running_parent(pid).map(|parent| (pid, parent)));
            }
            Ok(_) | Err(_) => {}
        }
    }
    let is_of_server = |pid: &u32| {
        let ancestors = std::iter::successors(Some(*pid), |pid| protected.get(pid).copied());
        ancestors.take(protected.len() + 1).any(|pid| pid == server)
    };
    found.extend(protected.keys().copied().filter(is_of_server));
    found
}

/// Returns the parent of a process; `None` if it has ended.
fn running_parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z").then_some(parent)
}

/// Returns the resident memory of a process in bytes: now and at its peak.
pub fn resident(pid: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}
