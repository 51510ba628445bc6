//! Notices a server that has stopped answering, such as one that is suspended.
//!
//! Pure: the caller passes the time, and sends what is due.

use std::time::Duration;

use crate::base::clock::{self, Instant};

/// After this time without a message, the server is asked for one.
const SILENCE: Duration = Duration::from_secs(5);
/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HangStep {
    Nothing,
    /// Send a request that every server answers at once.
    Ping,
    /// Tell the user that the server does not answer.
    Tell,
}

/// When the server was last heard.
pub(super) struct HangWatch {
    heard: Instant,
    asked: Option<Instant>,
    is_told: bool,
}

impl HangWatch {
    pub(super) fn new() -> Self {
        Self {
            heard: clock::now(),
            asked: None,
            is_told: false,
        }
    }

    /// Notes a message of the server.
    pub(super) fn note_message(&mut self) {
        *self = Self::new();
    }

    /// Returns what is due, once.
    pub(super) fn check(&mut self, now: Instant) -> HangStep {
        match self.asked {
            None if now.saturating_duration_since(self.heard) >= SILENCE => {
                self.asked = Some(now);
                HangStep::Ping
            }
            Some(asked) if !self.is_told && now.saturating_duration_since(asked) >= PATIENCE => {
                self.is_told = true;
                HangStep::Tell
            }
            _ => HangStep::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_asked_once_and_then_told_of_once() {
        let mut hang = HangWatch::new();
        let start = clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(hang.check(at(4)), HangStep::Nothing);
        assert_eq!(hang.check(at(5)), HangStep::Ping);
        assert_eq!(hang.check(at(9)), HangStep::Nothing);
        assert_eq!(hang.check(at(10)), HangStep::Tell);
        assert_eq!(hang.check(at(60)), HangStep::Nothing);
        hang.note_message();
        assert_eq!(hang.check(start), HangStep::Nothing);
    }
}
