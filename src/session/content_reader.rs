//! Stores file contents for a session, without the API keys that the server knows (I15), and restores the keys on
//! reading.
//!
//! All functions block.

use super::services::Services;
use crate::base::hash;
use crate::config::Redactor;
use crate::domain::SessionId;
use crate::store::{FileSnapshots, StoreError};

/// Stores and reads contents. Each is named by the hash of its original, with keys.
#[derive(Clone)]
pub(super) struct ContentReader {
    snapshots: FileSnapshots,
    redactor: Redactor,
    session: SessionId,
}

impl ContentReader {
    pub(super) fn new(services: &Services, session: &SessionId) -> Self {
        Self {
            snapshots: services.store.file_snapshots.clone(),
            redactor: services.redactor.clone(),
            session: session.clone(),
        }
    }

    /// Stores a content.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn store_content(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let name = hash::sha256(bytes);
        self.snapshots
            .save_file(&self.session, &name, &self.redactor.mask_keys(bytes))
    }

    /// Returns whether a content with this hash is stored.
    pub(super) fn has_content(&self, name: &str) -> bool {
        self.snapshots.has_file(&self.session, name)
    }

    /// Returns the content with this hash, or `None` if it is missing or cannot be restored exactly. The latter happens
    /// if a key in it is no longer known.
    pub(super) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let bytes = self.snapshots.read(&self.session, name).ok()??;
        let bytes = self.redactor.unmask_keys(bytes);
        // A key that is no longer known stays masked, and a revert must not write that into the file.
        (hash::sha256(&bytes) == name).then_some(bytes)
    }
}
