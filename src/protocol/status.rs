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
    /// The call that delegated to the sub-agent of which this tells; absent: the turn's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
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

/// What a file of instructions is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum InstructionKind {
    /// The `prompt_file` of a named agent, which stands in the place of the built-in instructions.
    Prompt,
    /// `SOUL.md`: who the agent is.
    Soul,
    /// `AGENTS.md`: how to work here.
    Agents,
    /// `TOOLS.md`: how to use the tools.
    Tools,
    /// The `SKILL.md` of a skill.
    Skill,
}

/// A file of instructions, as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstructionFile {
    /// Its absolute path.
    pub path: String,
    /// What it is for.
    pub kind: InstructionKind,
    /// The name of a skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Bytes of it that were taken; 0 where it was left out.
    pub bytes: u64,
    /// Whether it is the person's own, or lies in a folder that the person trusts.
    pub trusted: bool,
    /// Why it was cut or left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Params of `agent/instructions`: all files that the agent's instructions are made of from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstructionsNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The files, in the order in which the agent reads them: of each kind the nearest last.
    pub files: Vec<InstructionFile>,
    /// How many more there are that this list has no room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
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
