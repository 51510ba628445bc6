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
    /// Redirects that the person accepted, each after a question of its own. Trusting alone accepts none; one that was
    /// accepted stays so until the folder names another address or is trusted no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accept_redirects: Vec<AcceptedRedirect>,
}

/// A redirect that the person accepts.
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

/// Result of `agent/describeTrust`. Control characters and invisible characters are written out in all texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DescribeTrustResult {
    /// The folder's path.
    pub folder: String,
    /// Whether it is trusted now.
    pub trusted: bool,
    /// What its own files activate where it is trusted.
    pub activates: Vec<TrustItem>,
    /// Where its own files send keys of the person's. Each needs a question of its own.
    pub redirects: Vec<ProviderRedirect>,
}

/// Something that a folder's own files activate where the folder is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustItem {
    /// What it is.
    pub kind: TrustItemKind,
    /// The hook's or tool's name, or the setting's key.
    pub name: String,
    /// When it runs, or what is set; and the file and line.
    pub detail: String,
    /// The command that it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// What a folder's files activate. Later versions add kinds: show an unknown one by its `name` and `detail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TrustItemKind {
    /// A command that runs at a moment of every turn.
    Hook,
    /// A tool whose call runs a command.
    Tool,
    /// Any other setting that an untrusted folder may not set.
    Setting,
}

/// A folder's wish to send a key of the person's to another address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderRedirect {
    /// The provider; `*` where a proxy or certificates concern all of them.
    pub provider: String,
    /// Where the person's own configuration sends requests; absent where only the folder names this provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Where the folder sends them. Show it whole; send it back exactly to accept it.
    pub to: String,
    /// What of the person's would go there, each as a short phrase.
    pub sends: Vec<String>,
    /// Whether the person accepted it. Until then it is ignored, with a warning.
    pub accepted: bool,
}

/// Params of `agent/reloadConfig`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReloadConfigParams {}

/// Result of `agent/reloadConfig`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReloadConfigResult {
    /// What is wrong in the files; the rest is in force.
    pub problems: Vec<ConfigProblem>,
}

/// Something wrong in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigProblem {
    /// The file, or what else the setting came from: a variable, `initializationOptions`.
    pub file: String,
    /// The line, from 1; absent when it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// How grave it is.
    pub severity: Severity,
    /// What is wrong and what would be right, for people.
    pub message: String,
}
