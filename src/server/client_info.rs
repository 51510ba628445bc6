//! Facts that the client reported about itself, and its user's trust decisions until the store has them.
//!
//! Plain values behind one lock. Which trust applies to a path is decided in [`super::state`].

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use crate::tool::EditorAbilities;
use crate::workspace::Folder;

/// Facts that the client reported about itself.
#[derive(Debug, Default)]
pub(super) struct ClientInfo {
    pub(super) name: String,
    pub(super) utf8: bool,
    /// Whether it shows limits and questions to the user.
    pub(super) questions: bool,
    /// Its abilities as an editor.
    pub(super) editor: EditorAbilities,
    pub(super) folders: Vec<Folder>,
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
