//! The prompts of each session that have no answer yet: one that runs, or ends after its cancel, and one that waits for
//! that end. And the changes of a session, such as its options or its close, which count in their order with prompts.
//!
//! Users press stop and go on typing, so the next prompt often arrives while the canceled one still ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::CancellationToken;
use crate::domain::SessionId;

/// The open prompts of all sessions; clones share them.
#[derive(Clone, Default)]
pub(super) struct OpenPrompts(Arc<Mutex<HashMap<SessionId, OpenRequests>>>);

/// The open requests of a session.
#[derive(Default)]
struct OpenRequests {
    prompts: Vec<Arc<PromptState>>,
    /// The kind of each, and what is canceled at its end.
    changes: Vec<(ChangeKind, CancellationToken)>,
}

/// What a change of a session waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangeKind {
    /// Earlier modes only, because a mode also applies to a turn that runs.
    Mode,
    /// Earlier prompts, until the session has them, and all earlier changes.
    Other,
}

struct PromptState {
    canceled: CancellationToken,
    /// The session has it, and gets its cancels; or the prompt has ended before.
    posted: CancellationToken,
    ended: CancellationToken,
}

/// A prompt, open until the value is dropped.
pub(super) struct OpenPrompt {
    prompts: OpenPrompts,
    session: SessionId,
    /// Canceled at the ends of the prompts before it, which are all canceled, and of the changes before it.
    earlier: Vec<CancellationToken>,
    state: Arc<PromptState>,
}

/// A change of a session, open until the value is dropped.
pub(super) struct OpenChange {
    prompts: OpenPrompts,
    session: SessionId,
    ended: CancellationToken,
}

impl OpenPrompts {
    /// Adds a prompt whose request is canceled by `request`. Returns `None` if one is open that nobody has canceled.
    pub(super) fn open(&self, session: &SessionId, request: &CancellationToken) -> Option<OpenPrompt> {
        let mut sessions = self.lock();
        let open = sessions.entry(session.clone()).or_default();
        if open.prompts.iter().any(|prompt| !prompt.canceled.is_cancelled()) {
            return None;
        }
        let state = Arc::new(PromptState {
            canceled: request.child_token(),
            posted: CancellationToken::new(),
            ended: CancellationToken::new(),
        });
        let ends = open.prompts.iter().map(|prompt| &prompt.ended);
        let changes = open.changes.iter().map(|(_, ended)| ended);
        let earlier = ends.chain(changes).cloned().collect();
        open.prompts.push(state.clone());
        Some(OpenPrompt {
            prompts: self.clone(),
            session: session.clone(),
            earlier,
            state,
        })
    }

    /// Cancels the prompts of a session. Calls `cancel_turn` unless this ends one that the session does not have yet.
    pub(super) fn cancel(&self, session: &SessionId, cancel_turn: impl FnOnce()) {
        let sessions = self.lock();
        let mut was_waiting = false;
        for prompt in sessions.get(session).iter().flat_map(|open| &open.prompts) {
            was_waiting |= !prompt.canceled.is_cancelled() && !prompt.posted.is_cancelled();
            prompt.canceled.cancel();
        }
        // The turn before a waiting prompt is canceled already, and a second cancel would skip its graceful end.
        if !was_waiting {
            cancel_turn();
        }
    }

    /// Adds a change of a session, and returns it with its wait for what comes before it.
    pub(super) fn open_change(
        &self,
        session: &SessionId,
        kind: ChangeKind,
    ) -> (OpenChange, impl Future<Output = ()> + use<>) {
        let mut sessions = self.lock();
        let open = sessions.entry(session.clone()).or_default();
        let waits_for = |earlier| kind == ChangeKind::Other || earlier == kind;
        let changes = open.changes.iter().filter(|(earlier, _)| waits_for(*earlier));
        let mut earlier: Vec<CancellationToken> = changes.map(|(_, ended)| ended.clone()).collect();
        if kind == ChangeKind::Other {
            earlier.extend(open.prompts.iter().map(|prompt| prompt.posted.clone()));
        }
        let ended = CancellationToken::new();
        open.changes.push((kind, ended.clone()));
        let change = OpenChange {
            prompts: self.clone(),
            session: session.clone(),
            ended,
        };
        (change, async move { wait_for_all(&earlier).await })
    }

    /// Removes what has ended.
    fn remove_ended(&self, session: &SessionId) {
        let mut sessions = self.lock();
        if let Some(open) = sessions.get_mut(session) {
            open.prompts.retain(|prompt| !prompt.ended.is_cancelled());
            open.changes.retain(|(_, ended)| !ended.is_cancelled());
            if open.prompts.is_empty() && open.changes.is_empty() {
                sessions.remove(session);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, OpenRequests>> {
        // The map is consistent after every statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenPrompt {
    /// Resolves when the prompt is canceled, also by `$/cancel_request`.
    pub(super) async fn wait_for_cancel(&self) {
        self.state.canceled.cancelled().await;
    }

    /// Waits for the end of the prompts and the changes before it.
    pub(super) async fn wait_for_turn(&self) {
        wait_for_all(&self.earlier).await;
    }

    /// Gives the prompt to the session by `post`, unless it is canceled.
    pub(super) fn post_unless_canceled<T>(&self, post: impl FnOnce() -> T) -> Option<T> {
        // A cancel comes either before, and then nothing is posted, or after, and then it reaches the session.
        let _sessions = self.prompts.lock();
        if self.state.canceled.is_cancelled() {
            return None;
        }
        let posted = post();
        self.state.posted.cancel();
        Some(posted)
    }
}

async fn wait_for_all(events: &[CancellationToken]) {
    for event in events {
        event.cancelled().await;
    }
}

impl Drop for OpenPrompt {
    fn drop(&mut self) {
        self.state.ended.cancel();
        self.prompts.remove_ended(&self.session);
        self.state.posted.cancel();
    }
}

impl Drop for OpenChange {
    fn drop(&mut self) {
        self.ended.cancel();
        self.prompts.remove_ended(&self.session);
    }
}
