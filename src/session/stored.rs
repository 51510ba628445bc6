//! What the edge reads and changes in the store without a session's actor: lists, pages, contents, grants, trust and the
//! last choice.
//!
//! The server goes through these operations, so it never reaches for the store itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::SessionManager;
use super::command::SessionInfo;
use crate::base::clock;
use crate::base::counters::Totals;
use crate::config::Redactor;
use crate::domain::{Grant, SessionId};
use crate::store::{
    ContentChoice, ContentPiece, EventCursor, EventPage, EventWindow, RowWrite, SessionPage, SessionQuery,
    SessionRow, StoreError, StoreHealth, StoreWrite, StoredEvent,
};
use crate::tool::{DynTool, Registry};

/// Time that a new session waits for earlier writes to reach the disk.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// What the store knows about the trust of a folder.
#[derive(Clone, Debug, Default)]
pub struct StoredTrust {
    /// `None` if the user never decided.
    pub trusted: Option<bool>,
    /// The fingerprint of what the user accepted; see [`FolderDescription`](crate::config::FolderDescription).
    pub accepted: Option<String>,
    /// The accepted redirect of each provider's key.
    pub redirects: BTreeMap<String, String>,
}

impl StoredTrust {
    /// Returns what an unreadable store counts as.
    pub fn denied() -> Self {
        Self {
            trusted: Some(false),
            ..Self::default()
        }
    }
}

impl SessionManager {
    /// Knows the API keys that must reach no model and no store (I15).
    pub fn redactor(&self) -> &Redactor {
        &self.services().redactor
    }

    /// Returns the server's counters.
    pub fn totals(&self) -> &Totals {
        &self.services().totals
    }

    /// Returns the tools for this client, including the configuration's `own` tools.
    pub fn client_tools(&self, own: &[Arc<dyn DynTool>]) -> Arc<Registry> {
        self.services().client_tools(own)
    }

    /// Returns whether there is a built-in tool of this name.
    pub fn has_tool(&self, name: &str) -> bool {
        self.services().tools.get(name).is_some()
    }

    /// Waits until everything that was sent to the store is stored and passed on.
    ///
    /// # Errors
    /// [`StoreError::Closed`] if the store has ended.
    pub async fn flush(&self) -> Result<StoreHealth, StoreError> {
        self.services().store.writes.flush_writes().await
    }

    /// Returns whether writes reach the disk now.
    pub fn store_health(&self) -> StoreHealth {
        self.services().store.writes.health()
    }

    /// Lists stored sessions.
    ///
    /// # Errors
    /// The store cannot be read, or the cursor is invalid.
    pub async fn list_sessions(&self, query: SessionQuery) -> Result<SessionPage, StoreError> {
        self.services().store.reader.list_sessions(query).await
    }

    /// Returns a stored session's row.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn find_row(&self, id: &SessionId) -> Result<Option<SessionRow>, StoreError> {
        self.services().store.reader.read_session(id).await
    }

    /// Returns a page of a session's stored events.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn read_events(
        &self,
        id: &SessionId,
        window: EventWindow,
        limit: usize,
    ) -> Result<EventPage, StoreError> {
        self.services().store.reader.read_events(id, window, limit).await
    }

    /// Walks over all stored events of a session.
    pub fn walk_events(&self, id: &SessionId) -> EventCursor {
        self.services().store.reader.walk_events(id, 0)
    }

    /// Returns a stored event; `None` if there is none, or if its record cannot be read.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn read_event(&self, id: &SessionId, seq: u64) -> Result<Option<StoredEvent>, StoreError> {
        let stored = self.services().store.reader.read_event(id, seq).await?;
        Ok(stored.and_then(Result::ok))
    }

    /// Returns a piece of a long output that a session has kept.
    ///
    /// # Errors
    /// The name is invalid, or the disk fails.
    pub async fn read_content(
        &self,
        id: &SessionId,
        name: &str,
        offset: u64,
        limit: usize,
    ) -> Result<Option<ContentPiece>, StoreError> {
        self.services().store.content.read(id, name, offset, limit).await
    }

    /// Returns the last choice for new sessions like this one; nothing if it cannot be read.
    pub async fn last_choice(&self, info: &SessionInfo) -> ContentChoice {
        let store = &self.services().store;
        // A recent choice may still be on its way to a slow disk.
        let _ = clock::timeout(FLUSH_TIMEOUT, store.writes.flush_writes()).await;
        let folder = info.folder.display().to_string();
        let agent = info.agent.as_deref().unwrap_or_default();
        let last = store.reader.read_choice(&folder, agent).await;
        let last = last.unwrap_or_else(|error| {
            tracing::warn!(%error, "the last choice of model and mode was not read");
            None
        });
        last.unwrap_or_default()
    }

    /// Returns the grants of a folder, with those of `session`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn list_grants(
        &self,
        folder: &Path,
        session: Option<&SessionId>,
    ) -> Result<Vec<Grant>, StoreError> {
        let folder = folder.display().to_string();
        self.services().store.reader.list_grants(&folder, session).await
    }

    /// Revokes a grant everywhere. Returns whether there was one.
    ///
    /// # Errors
    /// The store fails.
    pub async fn revoke_grant(&self, grant: &str) -> Result<bool, StoreError> {
        let store = &self.services().store;
        // A live session must drop the grant first: until then it would still allow calls.
        let was_live = self.revoke_live_grant(grant).await;
        if !was_live && !store.reader.has_grant(grant).await? {
            return Ok(false);
        }
        let id = grant.to_owned();
        store
            .writes
            .send(StoreWrite::Row(RowWrite::RevokeGrant { id }))
            .await?;
        store.writes.flush_writes().await?;
        Ok(true)
    }

    /// Returns the stored trust of a folder.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn read_trust(&self, folder: &Path) -> Result<StoredTrust, StoreError> {
        let reader = &self.services().store.reader;
        let trusted = reader.read_trust(&folder.display().to_string()).await?;
        let accepted = reader.trusted_folders().await?.remove(folder).flatten();
        let redirects = reader.list_redirects().await?;
        let of_folder = redirects.into_iter().filter(|(of, _, _)| of == folder);
        Ok(StoredTrust {
            trusted,
            accepted,
            redirects: of_folder.map(|(_, provider, to)| (provider, to)).collect(),
        })
    }

    /// Stores whether a folder is trusted, the fingerprint of what was accepted, and which of its redirects (provider and
    /// target) are accepted. Returns the store's health after that.
    ///
    /// # Errors
    /// The store has ended or refuses the write.
    pub async fn store_trust(
        &self,
        folder: &Path,
        trusted: bool,
        accepted: Option<String>,
        redirects: Vec<(String, String)>,
    ) -> Result<StoreHealth, StoreError> {
        let writes = &self.services().store.writes;
        let write = StoreWrite::Row(RowWrite::SetTrust {
            folder: folder.display().to_string(),
            trusted,
            accepted,
            redirects,
            at_ms: clock::wall_ms(),
        });
        writes.send(write).await?;
        writes.flush_writes().await
    }
}
