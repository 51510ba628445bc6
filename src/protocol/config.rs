//! Configuration and trust.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Severity;

/// Params of `agent/setTrust`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetTrustParams {
    /// The workspace folder: its URI or absolute path.
    pub folder: String,
    /// Whether the folder's own settings may loosen approvals, start anything, or change addresses and keys.
    pub trusted: bool,
    /// Redirects that the user accepted, each after a separate question. Trust alone accepts none. An accepted redirect
    /// stays so until the folder names another address or loses its trust.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accept_redirects: Vec<AcceptedRedirect>,
}

/// A redirect that the user accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AcceptedRedirect {
    /// The provider, as `agent/describeTrust` named it.
    pub provider: String,
    /// The target, exactly as `agent/describeTrust` named it.
    pub to: String,
}

/// Params of `agent/describeTrust`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DescribeTrustParams {
    /// The workspace folder: its URI or absolute path.
    pub folder: String,
}

/// Result of `agent/describeTrust`. All texts show control and invisible characters as visible escapes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DescribeTrustResult {
    /// The folder's path.
    pub folder: String,
    /// Whether it is trusted now.
    pub trusted: bool,
    /// What its own files activate once it is trusted.
    pub activates: Vec<TrustItem>,
    /// Where its own files send the user's keys. Each redirect needs a separate question.
    pub redirects: Vec<ProviderRedirect>,
}

/// Something that a folder's own files activate once the folder is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustItem {
    /// Its kind.
    pub kind: TrustItemKind,
    /// The name of the hook or tool, or the key of the setting; for git also `hooks/NAME`, or `repository` for one
    /// whose settings cannot be examined.
    pub name: String,
    /// When it runs, or the value that it sets; and the file and line.
    pub detail: String,
    /// The command that it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// The kind of a thing that a folder's files activate. Later versions add kinds: show an unknown one by `name` and
/// `detail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TrustItemKind {
    /// A command that runs at a fixed point of every turn.
    Hook,
    /// A tool whose call runs a command.
    Tool,
    /// An MCP server: a program that starts (`command`), or an address that is contacted (in `detail`).
    McpServer,
    /// Another setting that an untrusted folder may not set.
    Setting,
    /// A setting or hook of a git repository in the folder, which git follows only if the folder is trusted.
    GitSetting,
}

/// A folder's attempt to send one of the user's keys to another address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderRedirect {
    /// The provider; `*` if a proxy or certificates affect all of them.
    pub provider: String,
    /// Where the user's own configuration sends requests; absent if only the folder names this provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Where the folder sends them. Show it in full, and send it back exactly to accept it.
    pub to: String,
    /// The user's data that would go there, each as a short phrase.
    pub sends: Vec<String>,
    /// Whether the user accepted it. Until then it is ignored, with a warning.
    pub accepted: bool,
}

/// Params of `agent/reloadConfig`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReloadConfigParams {}

/// Result of `agent/reloadConfig`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReloadConfigResult {
    /// Problems in the files; everything else applies.
    pub problems: Vec<ConfigProblem>,
}

/// A problem in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigProblem {
    /// The file, or another source of the setting: an environment variable, `initializationOptions`.
    pub file: String,
    /// The line, from 1; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Its severity.
    pub severity: Severity,
    /// The problem and the remedy, for the user.
    pub message: String,
}
