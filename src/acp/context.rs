//! State that the handlers share, and trust of folders.
//!
//! A client of this protocol has no question for trust. So a folder is trusted only if the user has said so elsewhere:
//! in another client of the same store, or in the configuration (R-SEC, fail closed).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tower_lsp::jsonrpc::Id;

use super::client::ClientFacts;
use super::editor::AcpEditor;
use super::feed::FeedOptions;
use super::open_prompts::{ChangeKind, OpenChange, OpenPrompts};
use super::sink::Feeds;
use super::updates::Notice;
use crate::base::{CancellationToken, DropGuard};
use crate::config::{Diagnostic, Settings};
use crate::domain::SessionId;
use crate::session::{ConfigStore, SessionManager, StoredTrust};
use crate::transport::ClientRequests;
use crate::transport::outbox::Outbox;
use crate::workspace::WorkspaceShared;
use crate::workspace::resolve::real_path;

/// A function that is called with the settings after they are read.
pub(super) type SettingsHook = Box<dyn Fn(&Settings) + Send + Sync>;

/// State that the handlers share.
pub(super) struct AcpContext {
    pub(super) sessions: SessionManager,
    pub(super) configured: Arc<ConfigStore>,
    pub(super) workspace: Arc<WorkspaceShared>,
    pub(super) facts: Arc<ClientFacts>,
    pub(super) requests: ClientRequests,
    pub(super) editor: Arc<AcpEditor>,
    pub(super) feeds: Feeds,
    pub(super) outbox: Outbox,
    /// Called with the settings of the first folder that is used.
    pub(super) on_settings: SettingsHook,
    /// Set at the end: canceled requests no longer come from the user.
    pub(super) ending: CancellationToken,
    pub(super) prompts: OpenPrompts,
    /// What happens once the request with this id is answered.
    pub(super) follow_ups: Mutex<HashMap<Id, FollowUp>>,
    /// The sessions that were opened, with what is set once their client has been told what it must know before a turn.
    pub(super) introductions: Mutex<HashMap<SessionId, CancellationToken>>,
}

/// What happens once a request is answered.
#[derive(Default)]
pub(super) struct FollowUp {
    /// Ends then: answers that show a session leave in the order of its changes.
    change: Option<OpenChange>,
    introduction: Option<Introduction>,
}

/// What the client of a session may only learn after the session's id.
pub(super) struct Introduction {
    pub(super) session: SessionId,
    pub(super) notes: Vec<Notice>,
    /// Its drop lets the prompts of the session begin.
    pub(super) turns_wait: DropGuard,
}

impl AcpContext {
    /// Returns how a session is shown, by the settings of its folder.
    pub(super) fn feed_options(&self, session: &SessionId, folder: &Path, cwd: &Path) -> FeedOptions {
        let settings = &self.configured.folder_config(folder).loaded.settings;
        FeedOptions {
            shows_notices: ClientFacts::has(&self.facts.shows_notices),
            hold: settings.acp.hold_text_ms.0,
            client_cwd: self.editor.client_path(session, cwd),
            cwd: cwd.to_path_buf(),
        }
    }

    /// Decides whether a folder is trusted, before its settings are read.
    pub(super) async fn resolve_trust(&self, folder: &Path) {
        let stored = self.sessions.read_trust(folder).await;
        // Fail closed: an unreadable store must not make a folder trusted.
        let stored = stored.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read a folder's trust; treating it as untrusted");
            StoredTrust::denied()
        });
        let is_trusted = stored.trusted.unwrap_or(false);
        self.configured
            .set_trust(folder, is_trusted, stored.accepted, &stored.redirects);
        (self.on_settings)(&self.configured.folder_config(folder).loaded.settings);
    }

    /// Tells the user what is not active in a folder, and problems in its configuration.
    pub(super) async fn explain_folder(&self, session: &SessionId, folder: &Path) {
        let described = self.configured.describe_folder(folder);
        let git = self.workspace.list_git_activations(folder).await;
        let count = described.items.len() + git.len();
        if !described.trusted && count > 0 {
            let what = match count {
                1 => "1 setting".to_owned(),
                count => format!("{count} settings"),
            };
            let notice = Notice {
                description: Some(format!(
                    "To see and trust them, run `agentls chat` in {} and enter /trust.",
                    folder.display()
                )),
                ..Notice::new(
                    "warning",
                    "untrustedFolder",
                    format!("This folder is not trusted, so {what} in its own files are not active."),
                )
            };
            self.feeds.add_note(session, notice);
        }
        // The notice above says that of all of them.
        let is_told = |problem: &Diagnostic| !described.trusted && count > 0 && problem.needs_trust();
        let configured = self.configured.folder_config(folder);
        let problems = configured.untold_problems().iter();
        for problem in problems.filter(|problem| !is_told(problem)) {
            let notice = Notice::new("warning", "config", format!("Configuration: {problem}"));
            self.feeds.add_note(session, notice);
        }
    }

    /// Begins a change of a session that lasts until the request is answered. The result waits for what comes before.
    ///
    /// To be called before the first await of the request's handler.
    pub(super) fn begin_change(
        &self,
        request: &Id,
        session: &SessionId,
        kind: ChangeKind,
    ) -> impl Future<Output = ()> + use<> {
        let (change, turn) = self.prompts.open_change(session, kind);
        self.lock_follow_ups().entry(request.clone()).or_default().change = Some(change);
        turn
    }

    /// Has a session introduced once the request is answered.
    pub(super) fn introduce_after(&self, request: Id, session: SessionId, notes: Vec<Notice>) {
        let told = CancellationToken::new();
        self.lock_introductions().insert(session.clone(), told.clone());
        let introduction = Introduction {
            session,
            notes,
            turns_wait: told.drop_guard(),
        };
        self.lock_follow_ups().entry(request).or_default().introduction = Some(introduction);
    }

    /// Waits until the client has been told what it must know before a turn of the session.
    pub(super) async fn wait_for_introduction(&self, session: &SessionId) {
        let told = self.lock_introductions().get(session).cloned();
        if let Some(told) = told {
            told.cancelled().await;
        }
    }

    /// Forgets a session that was closed.
    pub(super) fn forget_introduction(&self, session: &SessionId) {
        self.lock_introductions().remove(session);
    }

    fn lock_introductions(&self) -> MutexGuard<'_, HashMap<SessionId, CancellationToken>> {
        self.introductions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the change of a request that is answered now, and returns the session to introduce.
    pub(super) fn finish_request(&self, request: &Id) -> Option<Introduction> {
        let finished = self.lock_follow_ups().remove(request)?;
        finished.introduction
    }

    fn lock_follow_ups(&self) -> MutexGuard<'_, HashMap<Id, FollowUp>> {
        // The map is consistent after every statement.
        self.follow_ups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the form in which folders are compared and stored: links resolved, no trailing slash.
pub(super) fn folder_key(path: &Path) -> PathBuf {
    real_path(path).unwrap_or_else(|_| path.components().collect())
}
