//! Facts that the client reported about itself, and its user's trust decisions until the store has them.
//!
//! Plain values behind one lock. Which trust applies to a path is decided in [`super::state`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::domain::Attendance;
use crate::tool::EditorAbilities;
use crate::workspace::Folder;

/// Most active workspace folders: each has settings, instructions, and a trust decision of its own.
const MAX_FOLDERS: usize = 256;

/// Facts that the client reported about itself.
#[derive(Debug, Default)]
pub(super) struct ClientInfo {
    pub(super) name: String,
    pub(super) utf8: bool,
    /// Who answers there.
    pub(super) attendance: Attendance,
    /// Its abilities as an editor.
    pub(super) editor: EditorAbilities,
    /// The active workspace folders.
    pub(super) folders: Vec<Folder>,
    /// Workspace folders beyond the limit. They replace folders that the client removes.
    unused_folders: Vec<Folder>,
    /// The editor's own statement about the trust of its workspace folders.
    pub(super) trusted: Option<bool>,
    /// The user's trust decisions that the store may not have yet.
    pub(super) trust_overrides: HashMap<PathBuf, TrustDecision>,
    /// Number of such decisions so far; detects a decision made during a read.
    pub(super) decisions: u64,
}

/// The user's decision about a folder, until the store has it.
#[derive(Clone, Debug)]
pub(super) struct TrustDecision {
    pub(super) number: u64,
    pub(super) trusted: bool,
    /// The fingerprint of what was accepted.
    pub(super) accepted: Option<String>,
    /// Redirects accepted with it: provider and target.
    pub(super) redirects: BTreeMap<String, String>,
    /// Whether redirects in the store still apply.
    pub(super) keeps_stored: bool,
}

impl ClientInfo {
    /// Replaces the workspace folders.
    pub(super) fn set_folders(&mut self, mut folders: Vec<Folder>) {
        self.unused_folders = folders.split_off(folders.len().min(MAX_FOLDERS));
        self.folders = folders;
    }

    /// Adds and removes workspace folders. Returns those that are no longer active.
    pub(super) fn change_folders(&mut self, added: Vec<Folder>, removed: &[Folder]) -> Vec<PathBuf> {
        let removed: HashSet<&Path> = removed.iter().map(|folder| folder.path.as_path()).collect();
        let mut folders = std::mem::take(&mut self.folders);
        let dropped = folders.iter().filter(|folder| removed.contains(&*folder.path));
        let dropped = dropped.map(|folder| folder.path.clone()).collect();
        folders.append(&mut self.unused_folders);
        folders.retain(|folder| !removed.contains(&*folder.path));
        let mut known: HashSet<PathBuf> = folders.iter().map(|folder| folder.path.clone()).collect();
        folders.extend(
            added
                .into_iter()
                .filter(|folder| known.insert(folder.path.clone())),
        );
        self.set_folders(folders);
        dropped
    }

    /// Describes for people which workspace folders are inactive, if there are any.
    pub(super) fn describe_unused_folders(&self) -> Option<String> {
        let used = self.folders.len();
        let all = used + self.unused_folders.len();
        (all > used).then(|| {
            format!("agentls uses the first {used} of {all} workspace folders; remove folders that you do not need")
        })
    }

    /// Returns how many decisions about folders the user has made.
    pub(super) fn count_decisions(&self) -> u64 {
        self.decisions
    }

    /// Records the user's decision about a folder and returns its number.
    pub(super) fn decide_trust(
        &mut self,
        folder: &Path,
        trusted: bool,
        accepted: Option<String>,
        accepted_redirects: &[(String, String)],
    ) -> u64 {
        self.decisions += 1;
        let number = self.decisions;
        let before = self.trust_overrides.remove(folder).filter(|_| trusted);
        // Withdrawn trust also withdraws the accepted redirects, even those still in the store.
        let keeps_stored = trusted
            && before
                .as_ref()
                .is_none_or(|before| before.trusted && before.keeps_stored);
        let mut redirects = before.map(|before| before.redirects).unwrap_or_default();
        redirects.extend(accepted_redirects.iter().cloned());
        let decision = TrustDecision {
            number,
            trusted,
            accepted,
            redirects,
            keeps_stored,
        };
        self.trust_overrides.insert(folder.to_path_buf(), decision);
        number
    }

    /// Whether the editor trusts this folder. Its statement covers its own workspace folders only.
    pub(super) fn is_trusted_folder(&self, folder: &Path) -> bool {
        self.trusted == Some(true) && self.folders.iter().any(|own| own.path == folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_beyond_the_limit_replace_removed_ones() {
        let folders = |numbers: std::ops::Range<usize>| -> Vec<Folder> {
            let folder = |n| Folder {
                name: String::new(),
                path: format!("/w/{n}").into(),
            };
            numbers.map(folder).collect()
        };
        let mut client = ClientInfo::default();
        client.set_folders(folders(0..300));
        assert_eq!(client.folders, folders(0..256));
        let warning = client.describe_unused_folders().unwrap();
        assert!(warning.contains("256 of 300"), "{warning}");
        let dropped = client.change_folders(folders(295..310), &folders(0..100));
        assert_eq!(dropped.len(), 100);
        assert_eq!(client.folders, folders(100..310));
        assert_eq!(client.describe_unused_folders(), None);
        assert!(client.change_folders(Vec::new(), &folders(0..100)).is_empty());
    }
}
