//! The way up to whoever runs sub-agents (R-SUB): declared here, implemented by the session, so that the tool that
//! delegates knows no turn. Values only, no I/O.

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::mpsc;

use super::ToolProgress;
use crate::base::CancellationToken;
use crate::domain::{Cost, ToolCallId, Usage};

/// Runs sub-agents.
pub trait Spawner: Send + Sync {
    /// The names of the agents that may be asked for.
    fn agent_names(&self) -> Vec<String>;

    /// Runs one to its end, whichever that is; cancelled, within the bounds of a turn's cancel (R-CANCEL). Nothing of
    /// it is left after that.
    fn run_job(&self, job: SubagentJob) -> BoxFuture<'static, SubagentReport>;
}

/// What a sub-agent is started with.
#[derive(Clone, Debug)]
pub struct SubagentJob {
    /// The call that delegates.
    pub call: ToolCallId,
    /// The named agent; none: one like the caller.
    pub agent: Option<String>,
    /// What tells it from others of the call, for people; none when it is the only one.
    pub label: Option<String>,
    /// What it shall do.
    pub prompt: String,
    /// How long it may work before it has to wrap up.
    pub limit: Duration,
    /// Cancelled when it shall stop.
    pub cancel: CancellationToken,
    /// Where it is told what it says, while it runs.
    pub news: mpsc::Sender<ToolProgress>,
}

/// What became of a sub-agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentReport {
    /// How it ended.
    pub state: ChildState,
    /// Why, where the state does not say all.
    pub why: Option<String>,
    /// What it said last, or as much of it as came.
    pub text: String,
    /// Its tokens, with those of its own sub-agents.
    pub usage: Usage,
    /// What it cost; none where a call's price is not known.
    pub cost: Option<Cost>,
}

impl SubagentReport {
    /// Of one that came to nothing.
    pub fn new_empty(state: ChildState, why: impl Into<String>) -> Self {
        Self {
            state,
            why: Some(why.into()),
            text: String::new(),
            usage: Usage::default(),
            cost: Some(Cost(0)),
        }
    }
}

/// How a sub-agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChildState {
    /// It answered.
    Completed,
    /// It answered less than was asked.
    Degraded,
    /// It could not.
    Failed,
    /// Its time was up before it was done; it may have summed up.
    TimedOut,
    /// The person stopped it.
    Stopped,
    /// It was not needed any more, or the turn was cancelled.
    Cancelled,
}

impl ChildState {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Completed,
        Self::Degraded,
        Self::Failed,
        Self::TimedOut,
        Self::Stopped,
        Self::Cancelled,
    ];

    /// In a word or two, for the model and people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
            Self::TimedOut => "timed out",
            Self::Stopped => "stopped by the user",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether its answer counts.
    pub fn is_success(self) -> bool {
        match self {
            Self::Completed | Self::Degraded => true,
            Self::Failed | Self::TimedOut | Self::Stopped | Self::Cancelled => false,
        }
    }
}

/// Where nothing can be delegated (tests, the deepest sub-agents).
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
