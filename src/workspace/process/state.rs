//! How far a command has come. Plain values: nothing here waits.

use crate::base::clock::Instant;

/// The exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    Code(i32),
    Signal(i32),
    /// The helper was killed from outside, or the command could not be killed.
    Unknown,
}

impl ExitStatus {
    /// Returns whether the command exited with 0.
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }
}

/// What is known about a command.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Running,
    Ended(ExitStatus),
    Gone {
        status: ExitStatus,
        remaining: u32,
        at: Instant,
    },
}

impl State {
    pub(super) fn gone_at(&self) -> Option<Instant> {
        match self {
            Self::Gone { at, .. } => Some(*at),
            Self::Running | Self::Ended(_) => None,
        }
    }

    pub(super) fn exit_status(&self) -> Option<ExitStatus> {
        match self {
            Self::Running => None,
            Self::Ended(status) | Self::Gone { status, .. } => Some(*status),
        }
    }
}
