//! Views of the machine from outside: changed files, leaked secrets, surviving processes and their memory.

use std::collections::BTreeMap;
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
pub fn marked_processes(mark: &str) -> Vec<u32> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return found;
    };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if memmem::find(&environ, mark.as_bytes()).is_some() {
            found.push(pid);
        }
    }
    found
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
