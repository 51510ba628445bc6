//! Keys of providers: comparing them, and why an editor gave none.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};

use crate::domain::{AgentError, ErrorCode};
use crate::tool::EditorError;

/// Why the editor returned no key, by provider.
pub(super) type FailedCredentials = BTreeMap<String, EditorError>;

/// Compares two keys.
pub(super) fn is_same_key(one: Option<&SecretString>, other: Option<&SecretString>) -> bool {
    one.map(ExposeSecret::expose_secret) == other.map(ExposeSecret::expose_secret)
}

/// Adds to a missing-key error why the editor did not help.
pub(super) fn explain_missing_key(mut error: AgentError, unanswered: &FailedCredentials) -> AgentError {
    if error.code == ErrorCode::Config
        && let Some((name, reason)) = unanswered.first_key_value()
    {
        error.message = format!("{}; asked for the key of {name}: {reason}", error.message);
    }
    error
}
