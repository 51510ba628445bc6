//! Signals to a terminal client: Ctrl-C requests a cancel, the others request an exit.
//!
//! Does not know what is canceled. Every listener sees every signal that arrives after it was created.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A listener for SIGINT, SIGTERM and SIGHUP.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

/// The action that a signal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalAction {
    /// SIGINT, which Ctrl-C sends.
    Cancel,
    /// SIGTERM or SIGHUP.
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

    /// Waits for the next signal. Cancel-safe.
    pub(super) async fn next(&mut self) -> SignalAction {
        tokio::select! { biased;
            // `biased` keeps this order: a request to leave precedes a request to cancel.
            _ = self.terminate.recv() => SignalAction::Leave,
            _ = self.hangup.recv() => SignalAction::Leave,
            _ = self.interrupt.recv() => SignalAction::Cancel,
        }
    }
}
