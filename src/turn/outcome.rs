//! How a turn ends.

use crate::domain::{AgentError, TerminalReason};

/// How a turn ended that was not stopped from outside.
#[derive(Debug)]
pub struct TurnFinish {
    pub reason: TerminalReason,
    pub error: Option<AgentError>,
    /// The turn reached a limit under policy `degrade` and ended with a summary.
    pub summed_up: bool,
    /// A tool or a sub-agent failed under policy `degrade`.
    pub degraded: bool,
}
