//! Signals to a terminal client: Ctrl-C asks to cancel, the others ask to leave.
//!
//! Knows nothing of what is canceled. Every listener sees every signal that arrives after it began to listen.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals to this process.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalAction {
    /// Ctrl-C.
    Cancel,
    /// The end.
    Leave,
}

impl Signals {
    pub(super) fn install_handlers() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next. Safe to drop at any time.
    pub(super) async fn next(&mut self) -> SignalAction {
        tokio::select! { biased;
            _ = self.terminate.recv() => SignalAction::Leave,
            _ = self.hangup.recv() => SignalAction::Leave,
            _ = self.interrupt.recv() => SignalAction::Cancel,
        }
    }
}
