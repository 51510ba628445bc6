//! The interface to whatever runs sub-agents (R-SUB).
//!
//! Declared here and implemented by the session, so that the `delegate` tool does not know turns. Values only: must not
//! do any I/O.

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::mpsc;

use super::ToolProgress;
use crate::base::CancellationToken;
use crate::domain::words::word_enum;
use crate::domain::{Cost, ToolCallId, Usage};

/// Runs sub-agents.
pub trait Spawner: Send + Sync {
    /// Returns the names of the agents that may be requested.
    fn agent_names(&self) -> Vec<String>;

    /// Runs a sub-agent to its end. A cancel ends it within the limits of a turn's cancel (R-CANCEL).
    ///
    /// Nothing of the sub-agent is left when this returns (I10).
    fn run_job(&self, job: SubagentJob) -> BoxFuture<'static, SubagentReport>;
}

/// What a sub-agent is started with.
#[derive(Clone, Debug)]
pub struct SubagentJob {
    /// The call that delegates.
    pub call: ToolCallId,
    /// The named agent; `None` for one like the caller.
    pub agent: Option<String>,
    /// Distinguishes it from others of the call, for people; `None` if it is the only one.
    pub label: Option<String>,
    pub prompt: String,
    /// How long it may work before it has to wrap up.
    pub limit: Duration,
    pub cancel: CancellationToken,
    /// Receives what the sub-agent reports while it runs.
    pub progress: mpsc::Sender<ToolProgress>,
}

/// The result of a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentReport {
    pub state: ChildState,
    /// The reason, if the state does not say everything.
    pub reason: Option<String>,
    /// Its last message, or the part of it that was received.
    pub text: String,
    /// Its tokens, including those of its own sub-agents.
    pub usage: Usage,
    /// Its cost; `None` if the price of a call is unknown.
    pub cost: Option<Cost>,
}

impl SubagentReport {
    /// Creates the report of a sub-agent that produced nothing.
    pub fn new_empty(state: ChildState, reason: impl Into<String>) -> Self {
        Self {
            state,
            reason: Some(reason.into()),
            text: String::new(),
            usage: Usage::default(),
            cost: Some(Cost(0)),
        }
    }
}

word_enum! {
    /// The way a sub-agent ended, in a word or two for the model and people.
    pub enum ChildState {
        Completed = "completed",
        /// It answered, with less than was requested.
        Degraded = "degraded",
        Failed = "failed",
        /// Its time limit ended before it was done; it may have summed up.
        TimedOut = "timed out",
        /// The user stopped it.
        Stopped = "stopped by the user",
        /// It was no longer needed, or the turn was canceled.
        Cancelled = "cancelled",
    }
}

impl ChildState {
    /// Returns whether the answer counts as a success.
    pub fn is_success(self) -> bool {
        match self {
            Self::Completed | Self::Degraded => true,
            Self::Failed | Self::TimedOut | Self::Stopped | Self::Cancelled => false,
        }
    }
}

/// Refuses to delegate, for tests and the deepest sub-agents.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSpawner;

impl Spawner for NoSpawner {
    fn agent_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn run_job(&self, _job: SubagentJob) -> BoxFuture<'static, SubagentReport> {
        Box::pin(async { SubagentReport::new_empty(ChildState::Failed, "delegation is not available here") })
    }
}
