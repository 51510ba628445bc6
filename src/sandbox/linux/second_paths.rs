//! Finds further paths of what is hidden: other mounts of the same file system, and hard links.
//!
//! Rules go by path, so a second path would show what the first one hides. A copy is not a second path, nor is a snapshot
//! of a file system, whose files are others.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::mount_table::unescape;
use crate::sandbox::plan::PathRule;

/// Most files in a hidden folder whose hard links are looked for.
const MAX_IN_FOLDER: usize = 100;
/// Most files among which hard links are looked for.
const MAX_SEARCHED: usize = 50_000;

/// A mount: a folder or file of a file system, and where it is.
struct Mount {
    /// The numbers of the file system's device.
    device: Vec<u8>,
    /// What of the file system it shows.
    root: PathBuf,
    point: PathBuf,
}

/// A file, whatever its path.
type Identity = (u64, u64);

/// Adds rules for the further paths of what rules hide. Looks at the mounts, and searches what the command writes if a
/// hidden file has several names.
pub(super) fn add_second_paths(rules: &mut Vec<(PathRule, PathBuf)>) {
    let mounts = read_mounts();
    // Right behind its rule: what is shown later stays so.
    let with_others = std::mem::take(rules).into_iter().flat_map(|(rule, path)| {
        let others = match rule {
            PathRule::Hide | PathRule::Blank => list_other_mounts(&mounts, &path, true),
            PathRule::Empty => list_other_mounts(&mounts, &path, false),
            _ => Vec::new(),
        };
        let others = others.into_iter().map(move |other| (rule, other));
        std::iter::once((rule, path)).chain(others)
    });
    *rules = with_others.collect();
    let linked = list_linked_files(rules);
    let found = find_links(rules, &linked);
    rules.extend(found);
}

fn read_mounts() -> Vec<Mount> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let read = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        Some(Mount {
            device: fields.next()?.to_owned(),
            root: unescape(fields.next()?),
            point: unescape(fields.next()?),
        })
    };
    table.split(|byte| *byte == b'\n').filter_map(read).collect()
}

/// Lists where other mounts show what is at a path, and, if `has_parts`, where they show only a part of it.
fn list_other_mounts(mounts: &[Mount], path: &Path, has_parts: bool) -> Vec<PathBuf> {
    // A later mount at the same place covers the earlier one.
    let around = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    let Some(own) = around.max_by_key(|mount| mount.point.components().count()) else {
        return Vec::new();
    };
    let Ok(below) = path.strip_prefix(&own.point) else {
        return Vec::new();
    };
    let inside = join(&own.root, below);
    let mut found = Vec::new();
    for mount in mounts.iter().filter(|mount| mount.device == own.device) {
        let (first, second) = if let Ok(below) = inside.strip_prefix(&mount.root) {
            (path.to_owned(), join(&mount.point, below))
        } else if let Ok(part) = mount.root.strip_prefix(&inside)
            && has_parts
        {
            (path.join(part), mount.point.clone())
        } else {
            continue;
        };
        // Another mount may cover it.
        if first != second && is_same(&first, &second) && !found.contains(&second) {
            found.push(second);
        }
    }
    found
}

/// Joins a path, without a slash at the end of a file's if nothing follows.
fn join(folder: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() {
        folder.to_owned()
    } else {
        folder.join(below)
    }
}

fn is_same(first: &Path, second: &Path) -> bool {
    let look_at = |path: &Path| fs::symlink_metadata(path).map(|found| identify(&found)).ok();
    look_at(first).is_some_and(|first| look_at(second) == Some(first))
}

fn identify(found: &Metadata) -> Identity {
    (found.dev(), found.ino())
}

/// Lists the hidden files that have several names, with their rules: single ones, and those at the top of folders.
fn list_linked_files(rules: &[(PathRule, PathBuf)]) -> BTreeMap<Identity, PathRule> {
    let mut linked = BTreeMap::new();
    let mut add = |rule: PathRule, found: &Metadata| {
        if found.is_file() && found.nlink() > 1 {
            linked.insert(identify(found), rule);
        }
    };
    for (rule, path) in rules {
        if !matches!(rule, PathRule::Hide | PathRule::Blank) {
            continue;
        }
        let Ok(found) = fs::symlink_metadata(path) else {
            continue;
        };
        add(*rule, &found);
        if found.is_dir() {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            let entries = entries.take(MAX_IN_FOLDER);
            entries
                .filter_map(|entry| entry.metadata().ok())
                .for_each(|found| add(*rule, &found));
        }
    }
    linked
}

/// Finds the names of files in what the command writes: its workspace, above all.
fn find_links(
    rules: &[(PathRule, PathBuf)],
    linked: &BTreeMap<Identity, PathRule>,
) -> Vec<(PathRule, PathBuf)> {
    let mut found = Vec::new();
    if linked.is_empty() {
        return found;
    }
    let mut left = MAX_SEARCHED;
    let written = rules.iter().filter(|(rule, _)| rule.is_writable());
    let mut folders: Vec<PathBuf> = written.map(|(_, path)| path.clone()).collect();
    // One in another is searched with that.
    let all = folders.clone();
    folders.retain(|folder| {
        !all.iter()
            .any(|outer| folder != outer && folder.starts_with(outer))
    });
    folders.dedup();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if left == 0 {
                return found;
            }
            left -= 1;
            let Ok(status) = entry.metadata() else { continue };
            if status.is_dir() {
                folders.push(entry.path());
            } else if let Some(rule) = linked.get(&identify(&status)) {
                found.push((*rule, entry.path()));
            }
        }
    }
    found
}
