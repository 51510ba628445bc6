//! Which method a client may call when: the life cycle of LSP.
//!
//! `agent/*` starts with `initialized`, which an LSP client sends before any other request. No notification may leave
//! before it, so an earlier prompt's answer would overtake its notifications (R-WIRE).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::RequestError;

/// The life cycle of a connection; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Lifecycle {
    phase: Arc<Mutex<Phase>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Started,
    /// `initialize` has succeeded.
    Initialized,
    /// The client sent `initialized` after that.
    Open,
    /// The client requested `shutdown` after that.
    ShutDown,
}

impl Lifecycle {
    /// Decides whether a request is answered, and notes a `shutdown`.
    pub(super) fn admit_request(&self, method: &str) -> Result<(), RequestError> {
        let mut phase = self.lock();
        match (*phase, method) {
            (Phase::Started, "initialize") => Ok(()),
            (Phase::Started, _) => Err(RequestError::NotInitialized),
            (Phase::ShutDown, _) => Err(RequestError::ShuttingDown),
            (Phase::Initialized | Phase::Open, "initialize") => Err(RequestError::AlreadyInitialized),
            (Phase::Initialized, method) if method.starts_with("agent/") => Err(RequestError::NotInitialized),
            (Phase::Initialized | Phase::Open, "shutdown") => {
                *phase = Phase::ShutDown;
                Ok(())
            }
            (Phase::Initialized | Phase::Open, _) => Ok(()),
        }
    }

    /// Decides whether a notification is handled, and notes an `initialized`.
    pub(super) fn admit_notification(&self, method: &str) -> bool {
        let mut phase = self.lock();
        if *phase == Phase::Initialized && method == "initialized" {
            *phase = Phase::Open;
        }
        matches!(*phase, Phase::Initialized | Phase::Open)
    }

    /// Notes that `initialize` has succeeded.
    pub(super) fn note_initialized(&self) {
        *self.lock() = Phase::Initialized;
    }

    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_admitted_by_phase() {
        let lifecycle = Lifecycle::default();
        let refusal = |method| {
            lifecycle
                .admit_request(method)
                .err()
                .map(|error| error.to_string())
        };
        let [not_initialized, repeated, shutting_down] = [
            RequestError::NotInitialized,
            RequestError::AlreadyInitialized,
            RequestError::ShuttingDown,
        ]
        .map(|error| Some(error.to_string()));
        for method in ["agent/newSession", "shutdown", "unknown"] {
            assert_eq!(refusal(method), not_initialized, "{method}");
        }
        // Before the answer to `initialize`, it opens nothing.
        assert!(!lifecycle.admit_notification("initialized"));
        assert_eq!(refusal("initialize"), None);
        lifecycle.note_initialized();
        assert_eq!(refusal("initialize"), repeated);
        assert_eq!(refusal("agent/newSession"), not_initialized);
        assert_eq!(refusal("unknown"), None);
        assert!(lifecycle.admit_notification("initialized"));
        assert_eq!(refusal("agent/newSession"), None);
        assert_eq!(refusal("shutdown"), None);
        for method in ["agent/newSession", "shutdown", "initialize"] {
            assert_eq!(refusal(method), shutting_down, "{method}");
        }
        assert!(!lifecycle.admit_notification("textDocument/didOpen"));
    }
}
