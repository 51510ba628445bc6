//! What concerns the session or the server as a whole: warnings, the session's own data, a status line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CircuitInfo, Effort, EventHeader, Mode, QueueState};

/// Params of `agent/warning`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WarningNotification {
    /// The session; absent when it concerns the server as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Its number in the session; absent without a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The turn that caused it; absent when none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// When it happened, in ms since the Unix epoch; absent without a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<i64>,
    /// What it is about, as a stable word.
    pub code: String,
    /// What a person should know.
    pub message: String,
}

/// Params of `agent/sessionUpdated`: what changed, and only that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionUpdatedNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The model, as `provider/model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard the model shall think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The prompts that wait for the turn's end, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueState>,
}

/// Whether the server works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ServerState {
    /// No turn is running.
    Idle,
    /// A turn is running.
    Busy,
}

/// Params of `agent/status`: the server as a whole, for a status bar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusNotification {
    /// Whether the server works.
    pub state: ServerState,
    /// How many turns are running.
    pub running_turns: u32,
    /// How many approvals, limits and questions wait for a person.
    pub open_approvals: u32,
    /// A line for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Circuits that are not closed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub circuits: Vec<CircuitInfo>,
    /// Warnings that concern the server as a whole and still hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<ServerWarning>,
}

/// A warning that concerns the server as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerWarning {
    /// What it is about, as a stable word.
    pub code: String,
    /// What a person should know.
    pub message: String,
}
