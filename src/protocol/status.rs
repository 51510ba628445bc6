//! The state of the session or the server: warnings, the session's own data, a status line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CircuitInfo, Effort, EventHeader, McpServerHealth, Mode, QueueState};

/// Params of `agent/warning`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WarningNotification {
    /// The session; absent if it concerns the whole server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Its number in the session; absent without a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The turn that caused it; absent if no turn did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// When it happened, in ms since the Unix epoch; absent without a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<i64>,
    /// Its subject, as a stable code.
    pub code: String,
    /// The text for the user.
    pub message: String,
    /// The call that delegated to the sub-agent this is about; absent for the turn itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// Params of `agent/sessionUpdated`: only what changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionUpdatedNotification {
    /// Session, event number, turn and time.
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
    /// The reasoning effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// All prompts that wait for the end of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueState>,
}

/// The purpose of an instruction file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum InstructionKind {
    /// The `prompt_file` of a named agent, which replaces the built-in instructions.
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

/// An instruction file, as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstructionFile {
    /// Its absolute path.
    pub path: String,
    /// Its purpose.
    pub kind: InstructionKind,
    /// The name of a skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Bytes of it that are used; 0 if it was left out.
    pub bytes: u64,
    /// Whether it belongs to the user, or lies in a folder that the user trusts.
    pub trusted: bool,
    /// The reason why it was cut or left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Params of `agent/instructions`: all files behind the agent's instructions from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstructionsNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The files, in the order that the agent reads them. Of each kind, the nearest file comes last.
    pub files: Vec<InstructionFile>,
    /// Number of further files that did not fit into this list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
}

/// Whether the server is working.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ServerState {
    /// No turn is running.
    Idle,
    /// A turn is running.
    Busy,
}

/// Params of `agent/status`: the state of the whole server, for a status bar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusNotification {
    /// Whether the server is working.
    pub state: ServerState,
    /// Number of running turns.
    pub running_turns: u32,
    /// Number of approvals, limits and questions that wait for the user.
    pub open_approvals: u32,
    /// One line for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    /// Circuits that are not closed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub circuits: Vec<CircuitInfo>,
    /// The MCP servers that sessions use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<McpServerHealth>,
    /// Warnings that concern the whole server and still apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<ServerWarning>,
    /// How commands are confined. Absent before the first session. If the settings of open folders differ, those that
    /// confine the least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxStatus>,
}

/// How commands are confined on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxStatus {
    /// How the operating system enforces it, such as `namespaces`; `none` if it does not, and `off` if the settings
    /// disable the sandbox.
    pub method: String,
    /// How much of it holds.
    pub level: SandboxLevel,
    /// What of the network commands may use. Absent if nothing confines them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<SandboxNetwork>,
    /// What commands may do, one entry for each mode. A hook or a tool may have its own policy.
    pub policies: Vec<ModePolicy>,
}

/// What commands may do in a mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModePolicy {
    /// The mode of the session.
    pub mode: Mode,
    /// What its commands may do.
    pub policy: SandboxPolicy,
}

/// How much of the sandbox a method enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SandboxLevel {
    /// Nothing: commands need approval as without a sandbox.
    None,
    /// A part: commands need approval as without a sandbox.
    Partial,
    /// All of it.
    Full,
}

/// What of the network a command may use in the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SandboxNetwork {
    /// Nothing but servers that it starts itself.
    Offline,
    /// Hosts that the user allows, through a proxy.
    Proxy,
    /// Everything.
    Open,
}

/// What a command may do in the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SandboxPolicy {
    /// It writes nothing but its temporary folder.
    ReadOnly,
    /// It writes in the workspace folders, its temporary folder, and the caches of build tools.
    Workspace,
    /// It is not confined.
    Off,
}

/// A warning that concerns the whole server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerWarning {
    /// Its subject, as a stable code.
    pub code: String,
    /// The text for the user.
    pub message: String,
}
