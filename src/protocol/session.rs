//! Sessions: new, list, load, rename, fork, export, delete.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::is_false;
use super::{
    ApprovalRequestedNotification, Effort, InstructionFile, LimitRequestedNotification, Mode,
    QuestionRequestedNotification, QueueState, TokenUsage,
};

/// Params of `agent/newSession`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewSessionParams {
    /// The folder to work in: a URI or an absolute path; absent for the first workspace folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// A configured agent; absent for `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// A model, as `provider/model`; absent for the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How freely the agent may act; absent for the configured mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The reasoning effort; absent for the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Whether absent values of model, effort and mode come from the user's last choice in this workspace. The mode
    /// `full` is not remembered.
    #[serde(default, skip_serializing_if = "is_false")]
    pub remembered: bool,
}

/// Result of `agent/newSession`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewSessionResult {
    /// The session.
    pub session_id: String,
    /// The model; absent until it is known, when `agent/sessionUpdated` reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How freely the agent may act.
    pub mode: Mode,
    /// The reasoning effort; absent for the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Number of the session's last event; 0 if there is none. Notifications continue from there.
    pub seq: u64,
}

/// Params of `agent/listSessions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListSessionsParams {
    /// Only sessions that work in this folder: a URI or an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Words to search for in titles, prompts and final answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// `nextCursor` of the previous page; absent for the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Largest number of sessions: 50 by default, at most 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Result of `agent/listSessions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListSessionsResult {
    /// The sessions, the most recently used first.
    pub sessions: Vec<SessionInfo>,
    /// The `cursor` of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// The session.
    pub session_id: String,
    /// Its title; absent before the first prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The folder that it works in.
    pub cwd: String,
    /// When it was created, in ms since the Unix epoch.
    pub created_at: i64,
    /// The time of its last event, in ms since the Unix epoch.
    pub updated_at: i64,
    /// Whether a turn is running in this server.
    #[serde(default, skip_serializing_if = "is_false")]
    pub running: bool,
    /// The text around the match of `query`, for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
}

/// Params of `agent/loadSession`. The page consists of the last `tail` events after `afterSeq` and before `beforeSeq`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadSessionParams {
    /// The session.
    pub session_id: String,
    /// Only events after this number, which the client already has. If more than `tail` followed, the page leaves a
    /// gap, and the client starts over with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<u64>,
    /// Only events before this number, for an earlier page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_seq: Option<u64>,
    /// Largest number of events: 200 by default (1,000 with `afterSeq`), at most 1,000; 0 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<u32>,
    /// Whether to only look. This needs no lock, so it works while another server has the session. No notifications
    /// follow.
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_only: bool,
}

/// Result of `agent/loadSession`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadSessionResult {
    /// A page of the durable events, oldest first. They are not sent again as notifications.
    pub events: Vec<EventRecord>,
    /// Whether there are events before the page.
    pub has_earlier: bool,
    /// Approvals that wait for the user, as they were requested, including those from before the page.
    pub open_approvals: Vec<ApprovalRequestedNotification>,
    /// Limits that wait for an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_limits: Vec<LimitRequestedNotification>,
    /// Questions that wait for an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_questions: Vec<QuestionRequestedNotification>,
    /// The message in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<PartialMessage>,
    /// The files behind the last turn's instructions, as in `agent/instructions`, which may precede the page. Also
    /// absent until a turn runs in this server, because until then the server has not read all events of the session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<InstructionFile>,
    /// Number of the session's last event. Notifications continue from there.
    pub seq: u64,
    /// The session as it is now.
    pub state: SessionState,
}

/// A durable event, as its notification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventRecord {
    /// The notification's method.
    pub method: String,
    /// The notification's params.
    pub params: Value,
}

/// A message in progress. The following deltas continue where it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartialMessage {
    /// The message.
    pub message_id: String,
    /// Its text, from `offset`.
    pub text: String,
    /// UTF-8 bytes of the message's text before `text`; 0 if `text` is complete.
    pub offset: u64,
    /// Its reasoning so far.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
}

/// The current state of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionState {
    /// Its title; absent before the first prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The folder that it works in.
    pub cwd: String,
    /// How freely the agent may act.
    pub mode: Mode,
    /// The model, as `provider/model`; absent until it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The reasoning effort; absent for the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The turn that is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_turn_id: Option<String>,
    /// The last turn, if `agent/resumeTurn` can continue it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumable_turn_id: Option<String>,
    /// The prompts that wait for the end of the turn; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueState>,
    /// Tokens used in total.
    pub usage: TokenUsage,
    /// Their cost in US dollars; absent if the cost of any call is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// Params of `agent/renameSession`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenameSessionParams {
    /// The session.
    pub session_id: String,
    /// The new title: one line, at most 200 characters.
    pub title: String,
}

/// Params of `agent/deleteSession`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteSessionParams {
    /// The session; a running turn is canceled first.
    pub session_id: String,
}

/// Params of `agent/forkSession`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkSessionParams {
    /// The session.
    pub session_id: String,
    /// The last turn of the new session; absent for the last turn that has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
}

/// Result of `agent/forkSession`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkSessionResult {
    /// The new session; load it with `agent/loadSession`.
    pub session_id: String,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// The format of an exported session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ExportFormat {
    /// For people: the conversation and the tool calls.
    #[default]
    Markdown,
    /// For programs: the session and all its events, as uncut notifications.
    Json,
}

/// Params of `agent/exportSession`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportSessionParams {
    /// The session.
    pub session_id: String,
    /// The format; Markdown by default.
    #[serde(default)]
    pub format: ExportFormat,
}

/// Result of `agent/exportSession`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportSessionResult {
    /// The exported session.
    pub text: String,
}
