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
