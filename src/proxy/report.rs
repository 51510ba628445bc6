//! What happened in the proxy of a command: the hosts that were refused and why, and whether the user is being asked.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::domain::HostTarget;

/// Most hosts that the user is asked about for one command.
pub(super) const MAX_QUESTIONS: usize = 10;

/// Most refused hosts that are kept for the report.
const MAX_REFUSED: usize = 20;

/// What happened in a proxy, for whoever runs the command.
#[derive(Debug, Default)]
pub struct ProxyReport {
    refused: Mutex<Vec<(HostTarget, Denial)>>,
    is_asking: watch::Sender<bool>,
}

/// Why a host was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denial {
    /// The user said no, in this session.
    ByUser,
    /// Nobody could be asked, or nobody answered.
    Unanswered,
    /// The command asked for too many hosts.
    TooMany,
    /// Its address is not public, and no entry names it.
    Private(&'static str),
}

impl Denial {
    /// Describes the refusal of a target in one sentence, with what the user can do.
    pub(super) fn describe(self, target: &HostTarget) -> String {
        let rule = target.to_rule();
        format!("{target} was refused: {self}. The user can allow it with [sandbox] allow_hosts: \"{rule}\"")
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByUser => f.write_str("the user has denied it"),
            Self::Unanswered => {
                f.write_str("it is not an allowed host, and nobody answered a question about it")
            }
            Self::TooMany => write!(
                f,
                "it is not an allowed host, and a command may cause questions about {MAX_QUESTIONS} hosts only"
            ),
            Self::Private(kind) => write!(f, "its address is {kind}, which no answer opens"),
        }
    }
}

impl ProxyReport {
    /// Returns a sentence for each host that was refused since the last call.
    pub fn take_refusals(&self) -> Vec<String> {
        let refused = std::mem::take(&mut *self.lock_refused());
        refused
            .iter()
            .map(|(target, denial)| denial.describe(target))
            .collect()
    }

    /// Says whether the user is being asked.
    pub(super) fn set_asking(&self, is_asking: bool) {
        self.is_asking.send_replace(is_asking);
    }

    /// Returns whether the user is being asked, as it changes. The command waits meanwhile.
    pub fn subscribe_asking(&self) -> watch::Receiver<bool> {
        self.is_asking.subscribe()
    }

    pub(super) fn add_refusal(&self, target: &HostTarget, denial: Denial) {
        let mut refused = self.lock_refused();
        if refused.len() < MAX_REFUSED && !refused.iter().any(|(known, _)| known == target) {
            refused.push((target.clone(), denial));
        }
    }

    fn lock_refused(&self) -> MutexGuard<'_, Vec<(HostTarget, Denial)>> {
        // The list is consistent after every statement.
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
