//! Approvals: the question about an effect, its decision, and what was allowed for longer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{EventHeader, LimitRequestedNotification, MoreFields, QuestionRequestedNotification};

/// How freely the agent may act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Mode {
    /// Read only.
    Plan,
    /// Reads are free; commands, writes and the network ask.
    Ask,
    /// Edits inside the workspace are free too.
    AutoEdit,
    /// All is free.
    Full,
}

/// How much harm an effect could do, by what it touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Risk {
    /// Only reads, inside the workspace.
    Low,
    /// Changes files inside the workspace, or runs a program that shows no sign of more.
    Medium,
    /// Network, secrets, files outside the workspace or that make programs run, recursive deletion, privileges, or a
    /// command that cannot be fully read.
    High,
}

/// What a person decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    /// This once.
    Allow,
    /// For the rest of the session.
    AllowSession,
    /// From now on in this workspace.
    AllowAlways,
    /// No.
    Deny,
}

/// By what an approval was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SettledBy {
    /// The person answered.
    Person,
    /// A rule or a grant that came meanwhile.
    Rule,
    /// A cancel denied it.
    Cancel,
    /// Its time ran out.
    Timeout,
    /// A new prompt was sent instead.
    NewPrompt,
}

/// Params of `agent/approvalRequested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequestedNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// Its id; the same when it is asked again after a restart.
    pub approval_id: String,
    /// The call that waits.
    pub tool_call_id: String,
    /// The tool's name.
    pub name: String,
    /// The call's arguments; long strings in it may be cut.
    pub input: Value,
    /// A line for people.
    pub title: String,
    /// The folder in which it would run.
    pub cwd: String,
    /// The command line or address as a person should read it, in full: characters that are invisible or change the
    /// reading order are written out (`<U+202E>`). Show this, not `input`. Absent for tools that have neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    /// Options of the call that change what it does, as short phrases: `keeps running in the background`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// What it would change, as a unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// How much harm it could do.
    pub risk: Risk,
    /// Why it is asked, for people.
    pub why: String,
    /// The rule that `allowSession` and `allowAlways` would keep; absent when none can be, and then those
    /// two are not offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Where the whole of a cut field is.
    #[serde(default, skip_serializing_if = "MoreFields::is_empty")]
    pub more: MoreFields,
}

/// Params of `agent/approvalResolved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalResolvedNotification {
    /// Session, number, turn, time.
    #[serde(flatten)]
    pub header: EventHeader,
    /// The question.
    pub approval_id: String,
    /// The call it was about.
    pub tool_call_id: String,
    /// What was decided.
    pub decision: Decision,
    /// By what.
    pub by: SettledBy,
    /// What the model is told about a denial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// The arguments as the person edited them; long strings in it may be cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The rule that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Where the whole of a cut field is.
    #[serde(default, skip_serializing_if = "MoreFields::is_empty")]
    pub more: MoreFields,
}

/// Params of `agent/approvalRespond`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRespondParams {
    /// The question.
    pub approval_id: String,
    /// What the person decides.
    pub decision: Decision,
    /// What the model is told; only with `deny`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<String>,
    /// Edited arguments, whole; not with `deny`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// The rule to keep instead of the offered one; only with `allowSession` and `allowAlways`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// Params of `agent/listApprovals`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListApprovalsParams {
    /// Only those of this session; absent: of every session that no other server has open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Result of `agent/listApprovals`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListApprovalsResult {
    /// The open approvals, oldest first, as they were asked.
    pub approvals: Vec<ApprovalRequestedNotification>,
    /// The limits that wait for an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitRequestedNotification>,
    /// The questions that wait for an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionRequestedNotification>,
}

/// How far a grant reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum GrantScope {
    /// One session.
    Session,
    /// Every session in the workspace folder.
    Workspace,
}

/// Something that a person has allowed beyond one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// Its id, to revoke it.
    pub grant_id: String,
    /// The rule, as in the configuration: `bash(git status *)`.
    pub rule: String,
    /// How far it reaches.
    pub scope: GrantScope,
    /// The workspace folder it was given for.
    pub folder: String,
    /// When it was given, in ms since the Unix epoch.
    pub granted_at: i64,
}

/// Params of `agent/listGrants`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListGrantsParams {
    /// What holds in this session; absent: all that is kept for workspace folders.
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
