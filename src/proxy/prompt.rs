//! How the proxy of a command asks the user.

use futures::future::BoxFuture;

use crate::domain::HostTarget;

/// Asks the user whether a command may connect to a host.
pub trait HostPrompt: Send + Sync {
    /// Returns whether anyone can be asked now (default: yes). A host that nobody could be asked about is asked about
    /// later.
    fn can_ask(&self) -> bool {
        true
    }

    /// Returns whether a host is asked about again if nobody answered (default: no). What runs for long outlives those
    /// who could not answer.
    fn asks_again(&self) -> bool {
        false
    }

    /// Waits for the answer, however long it takes. `None` if nobody can be asked, or nobody answers.
    fn ask(&self, target: &HostTarget) -> BoxFuture<'static, Option<bool>>;
}

/// Leaves every question without an answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPrompt;

impl HostPrompt for NoPrompt {
    fn can_ask(&self) -> bool {
        false
    }

    fn ask(&self, _target: &HostTarget) -> BoxFuture<'static, Option<bool>> {
        Box::pin(std::future::ready(None))
    }
}
