//! Approvals: the request, its decision, and grants for longer than one call.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    EventHeader, LimitRequestedNotification, QuestionRequestedNotification, SettledBy, TruncatedFields,
};

/// How freely the agent may act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// The agent only reads.
    Plan,
    /// Reading is free; commands, writes and network access need approval.
    Ask,
    /// Edits inside the workspace are free too, and commands that the sandbox confines in full.
    AutoEdit,
    /// Everything is free.
    Full,
}

/// The possible harm of an effect, judged by what it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Risk {
    /// It only reads, inside the workspace.
    Low,
    /// It changes files inside the workspace, or runs a program without signs of more.
    Medium,
    /// It uses the network, secrets, privileges, files outside the workspace or files that make programs run. Also a
    /// recursive deletion, or a command that cannot be fully parsed.
    High,
}

/// The user's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    /// Allows this call.
    Allow,
    /// Allows it for the rest of the session.
    AllowSession,
    /// Allows it from now on in this workspace.
    AllowAlways,
    /// Denies this call.
    Deny,
}

/// Something that a command would delete or overwrite for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Loss {
    /// A path, or what it is in words: `an entry of the stash`.
    pub what: String,
    /// The size of the file in bytes. Absent if it is not a file, or if the size is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Losses that a list leaves out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MoreLosses {
    /// How many are known.
    pub count: u64,
    /// Whether there may be more than `count`: not everything was looked at.
    pub is_partial: bool,
}

/// Params of `agent/approvalRequested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequestedNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// Its id; it stays the same if the request is repeated after a restart.
    pub approval_id: String,
    /// The waiting call.
    pub tool_call_id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments of the call; long strings in them may be cut.
    pub input: Value,
    /// One line for the user.
    pub title: String,
    /// The folder in which it would run.
    pub cwd: String,
    /// The full command line or URL as the user should read it. Characters that are invisible or change the reading
    /// order are written out (`<U+202E>`). Show this instead of `input`. Absent for tools that have neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    /// Options of the call that change its effect, and how its command or its MCP server is confined, as short phrases:
    /// `keeps running in the background`, `runs in the sandbox (full, writes in the workspace)`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The planned changes, as a unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The possible harm.
    pub risk: Risk,
    /// The reason for the request, for the user.
    pub why: String,
    /// The rule that `allowSession` and `allowAlways` would add. Absent if there is none; then do not offer those two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What the command would delete or overwrite for good, largest first; at most 20 entries. What a revert brings back
    /// is not listed. `why` names the first three.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loses: Vec<Loss>,
    /// What `loses` leaves out. Absent if it lists all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loses_more: Option<MoreLosses>,
    /// The reasons in `why` that are not losses, for clients that show `loses`. Absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_why: Option<String>,
    /// References to the full text of cut fields.
    #[serde(default, skip_serializing_if = "TruncatedFields::is_empty")]
    pub more: TruncatedFields,
}

/// Params of `agent/approvalResolved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalResolvedNotification {
    /// Session, event number, turn and time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The approval.
    pub approval_id: String,
    /// The call that it was about.
    pub tool_call_id: String,
    /// The decision.
    pub decision: Decision,
    /// What settled it.
    pub by: SettledBy,
    /// What the model reads about a denial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// The arguments as the user edited them; long strings in them may be cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The rule that was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// References to the full text of cut fields.
    #[serde(default, skip_serializing_if = "TruncatedFields::is_empty")]
    pub more: TruncatedFields,
}

/// Params of `agent/approvalRespond`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRespondParams {
    /// The approval.
    pub approval_id: String,
    /// The user's decision.
    pub decision: Decision,
    /// What the model reads; only with `deny`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// The full edited arguments; not with `deny`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The rule to add instead of the offered one; only with `allowSession` and `allowAlways`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// Params of `agent/listApprovals`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListApprovalsParams {
    /// Only those of this session; absent for all sessions that no other server has open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Result of `agent/listApprovals`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListApprovalsResult {
    /// The open approvals, oldest first, as they were requested.
    pub approvals: Vec<ApprovalRequestedNotification>,
    /// The limits that wait for an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitRequestedNotification>,
    /// The questions that wait for an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionRequestedNotification>,
}

/// The reach of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum GrantScope {
    /// One session.
    Session,
    /// Every session in the workspace folder.
    Workspace,
}

/// A permission of the user beyond one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// Its id, for `agent/revokeGrant`.
    pub grant_id: String,
    /// The rule, as in the configuration: `bash(git status *)`.
    pub rule: String,
    /// Its reach.
    pub scope: GrantScope,
    /// The workspace folder that it was given for.
    pub folder: String,
    /// When it was given, in ms since the Unix epoch.
    pub granted_at: i64,
}

/// Params of `agent/listGrants`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListGrantsParams {
    /// The session whose grants are listed; absent for all grants of workspace folders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Result of `agent/listGrants`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListGrantsResult {
    /// The grants, newest first.
    pub grants: Vec<Grant>,
}

/// Params of `agent/revokeGrant`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevokeGrantParams {
    /// The grant.
    pub grant_id: String,
}
