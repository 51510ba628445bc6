//! Contents of files as they are kept for a session: on the disk without the keys that the server knows (I15), which are
//! put in their places again when a content is read. Blocks.

use super::services::Services;
use crate::base::hash;
use crate::config::Redactor;
use crate::domain::SessionId;
use crate::store::{KeptFiles, StoreError};

/// Keeps and reads contents, each under the hash that it has with its keys.
#[derive(Clone)]
pub(super) struct ContentReader {
    kept: KeptFiles,
    redactor: Redactor,
    session: SessionId,
}

impl ContentReader {
    pub(super) fn new(services: &Services, session: &SessionId) -> Self {
        Self {
            kept: services.store.kept.clone(),
            redactor: services.redactor.clone(),
            session: session.clone(),
        }
    }

    /// Keeps a content.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn store_content(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let name = hash::sha256(bytes);
        self.kept
            .save_file(&self.session, &name, &self.redactor.mask_keys(bytes))
    }

    /// Whether something is kept under that hash.
    pub(super) fn has_content(&self, name: &str) -> bool {
        self.kept.has_file(&self.session, name)
    }

    /// What is kept under `hash`; none when nothing is, or it is not what it was: a key in it is not known any more, say.
    pub(super) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let bytes = self.kept.read(&self.session, name).ok()??;
        let bytes = self.redactor.unmask_keys(bytes);
        (hash::sha256(&bytes) == name).then_some(bytes)
    }
}
