//! The prompts of each session that have no answer yet: one that runs, or ends after its cancel, and one that waits for
//! that end.
//!
//! Users press stop and go on typing, so the next prompt often arrives while the canceled one still ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::CancellationToken;
use crate::domain::SessionId;

/// The open prompts of all sessions; clones share them.
#[derive(Clone, Default)]
pub(super) struct OpenPrompts(Arc<Mutex<HashMap<SessionId, Vec<Arc<PromptState>>>>>);

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
    /// The prompts before it, all canceled.
    earlier: Vec<Arc<PromptState>>,
    state: Arc<PromptState>,
}

impl OpenPrompts {
    /// Adds a prompt whose request is canceled by `request`. Returns `None` if one is open that nobody has canceled.
    pub(super) fn open(&self, session: &SessionId, request: &CancellationToken) -> Option<OpenPrompt> {
        let mut sessions = self.lock();
        let open = sessions.entry(session.clone()).or_default();
        if open.iter().any(|prompt| !prompt.canceled.is_cancelled()) {
            return None;
        }
        let state = Arc::new(PromptState {
            canceled: request.child_token(),
            posted: CancellationToken::new(),
            ended: CancellationToken::new(),
        });
        let earlier = open.clone();
        open.push(state.clone());
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
        for prompt in sessions.get(session).into_iter().flatten() {
            was_waiting |= !prompt.canceled.is_cancelled() && !prompt.posted.is_cancelled();
            prompt.canceled.cancel();
        }
        // The turn before a waiting prompt is canceled already, and a second cancel would skip its graceful end.
        if !was_waiting {
            cancel_turn();
        }
    }

    /// Waits until the session has the prompts that are open now, so that what follows does not overtake them.
    pub(super) async fn wait_until_posted(&self, session: &SessionId) {
        let open = self.lock().get(session).cloned().unwrap_or_default();
        for prompt in open {
            prompt.posted.cancelled().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Vec<Arc<PromptState>>>> {
        // The map is consistent after every statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenPrompt {
    /// Resolves when the prompt is canceled, also by `$/cancel_request`.
    pub(super) async fn wait_for_cancel(&self) {
        self.state.canceled.cancelled().await;
    }

    /// Waits for the end of the prompts before it.
    pub(super) async fn wait_for_turn(&self) {
        for prompt in &self.earlier {
            prompt.ended.cancelled().await;
        }
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

impl Drop for OpenPrompt {
    fn drop(&mut self) {
        let mut sessions = self.prompts.lock();
        if let Some(open) = sessions.get_mut(&self.session) {
            open.retain(|prompt| !Arc::ptr_eq(prompt, &self.state));
            if open.is_empty() {
                sessions.remove(&self.session);
            }
        }
        self.state.posted.cancel();
        self.state.ended.cancel();
    }
}
