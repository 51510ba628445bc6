//! Sessions: new, listed, loaded, renamed, deleted.

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
    /// The folder to work in: a URI or an absolute path; absent: the first workspace folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// An agent of the configuration; absent: `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// A model, as `provider/model`; absent: the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How freely the agent may act; absent: as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// How hard the model thinks; absent: the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Where model, effort or mode is absent, takes what the person chose last in this workspace. The mode `full` is not
    /// remembered.
    #[serde(default, skip_serializing_if = "is_false")]
    pub remembered: bool,
}

/// Result of `agent/newSession`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewSessionResult {
    /// The session.
    pub session_id: String,
    /// The model; absent until it is known, then `agent/sessionUpdated` tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How freely the agent may act.
    pub mode: Mode,
    /// How hard the model thinks; absent: the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The number of the session's last event; 0 when there is none. Notifications go on from there.
    pub seq: u64,
}

/// Params of `agent/listSessions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListSessionsParams {
    /// Only those that work in this folder: a URI or an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Words to look for in titles, prompts and final answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// `nextCursor` of the answer before; absent: from the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// How many at most; 50 when absent, at most 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Result of `agent/listSessions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListSessionsResult {
    /// The sessions, those used last first.
    pub sessions: Vec<SessionInfo>,
    /// The `cursor` of the next page; absent on the last.
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
    /// The folder it works in.
    pub cwd: String,
    /// When it was made, in ms since the Unix epoch.
    pub created_at: i64,
    /// When something last happened in it, in ms since the Unix epoch.
    pub updated_at: i64,
    /// Whether a turn is running, in this server.
    #[serde(default, skip_serializing_if = "is_false")]
    pub running: bool,
    /// The place where `query` was found, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
}

/// Params of `agent/loadSession`. The page is the last `tail` of the events after `afterSeq` and before
/// `beforeSeq`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadSessionParams {
    /// The session.
    pub session_id: String,
    /// Only events after this number: what the client has already. When more than `tail` came since, the
    /// page does not join on, and the client starts over with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<u64>,
    /// Only events before this number: an earlier page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_seq: Option<u64>,
    /// How many events at most: 200 when absent (1,000 with `afterSeq`), at most 1,000; 0 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<u32>,
    /// Only look: needs no lock, so it works while another server has the session; nothing is sent later.
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_only: bool,
}

/// Result of `agent/loadSession`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadSessionResult {
    /// A page of the durable events, oldest first; they are not sent again as notifications.
    pub events: Vec<EventRecord>,
    /// Whether there are earlier events than the page's.
    pub has_earlier: bool,
    /// Approvals that wait for a person, as they were asked; also those asked before the page.
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
    /// The files that the last turn's instructions were made of, as `agent/instructions` told, which may be before the
    /// page. Absent also while nobody has gone on with the session in this server: then all its events are not read yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<InstructionFile>,
    /// The number of the session's last event. Notifications go on from there.
    pub seq: u64,
    /// The session as it is now.
    pub state: SessionState,
}

/// A durable event: the notification that it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventRecord {
    /// The notification's method.
    pub method: String,
    /// The notification's params.
    pub params: Value,
}

/// A message in progress. Deltas that follow go on where it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartialMessage {
    /// The message.
    pub message_id: String,
    /// Its text from `offset` on.
    pub text: String,
    /// UTF-8 bytes of the message's text before `text`; 0 when it is all there.
    pub offset: u64,
    /// Its reasoning so far.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
}

/// A session as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionState {
    /// Its title; absent before the first prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The folder it works in.
    pub cwd: String,
    /// How freely the agent may act.
    pub mode: Mode,
    /// The model, as `provider/model`; absent until it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard the model shall think; absent: as the provider has it by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The turn that is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_turn_id: Option<String>,
    /// The last turn, when `agent/resumeTurn` can go on with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumable_turn_id: Option<String>,
    /// The prompts that wait for the turn's end; absent when there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueState>,
    /// Tokens used in all.
    pub usage: TokenUsage,
    /// What they cost, in US dollars; absent when the cost of one of the calls is not known.
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
    /// The session; a running turn is cancelled first.
    pub session_id: String,
}

/// Params of `agent/forkSession`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkSessionParams {
    /// The session.
    pub session_id: String,
    /// The last turn that the new session has; absent: the last one that has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
}

/// Result of `agent/forkSession`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkSessionResult {
    /// The new session: load it with `agent/loadSession`.
    pub session_id: String,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// What a session is exported as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ExportFormat {
    /// For people: what was said and done.
    #[default]
    Markdown,
    /// For programs: the session and all its events, as notifications, uncut.
    Json,
}

/// Params of `agent/exportSession`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportSessionParams {
    /// The session.
    pub session_id: String,
    /// As what; Markdown when absent.
    #[serde(default)]
    pub format: ExportFormat,
}

/// Result of `agent/exportSession`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportSessionResult {
    /// The session, whole.
    pub text: String,
}
