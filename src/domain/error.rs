//! Errors as users and clients see them (R-ERR-1, R-WIRE-6).
//!
//! Plain values. Each module converts its own errors into [`AgentError`]; the wire format lives in `protocol`.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::words::word_enum;

word_enum! {
    /// A stable, machine-readable name for what went wrong.
    pub enum ErrorCode {
        MaxIterations = "max_iterations",
        ProviderError = "provider_error",
        ToolExecution = "tool_execution",
        ContextLimit = "context_limit",
        BudgetExceeded = "budget_exceeded",
        Cancelled = "cancelled",
        CircuitOpen = "circuit_open",
        QuotaExhausted = "quota_exhausted",
        EmptyResponse = "empty_response",
        ToolCallsExceeded = "tool_calls_exceeded",
        WallTimeExceeded = "wall_time_exceeded",
        Config = "config",
        Session = "session",
        Protocol = "protocol",
        Store = "store",
        Internal = "internal",
    }
}

word_enum! {
    /// Whether an error can be recovered from (R-ERR-2).
    pub enum ErrorClass {
        /// The same request may succeed if it is made again.
        Retryable = "retryable",
        /// Making the request again does not help.
        Terminal = "terminal",
        /// The turn continued in spite of the error.
        NonFatal = "non_fatal",
    }
}

/// The underlying cause of an error, as text. It is stored and sent, so the original error may be from another process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[error("{0}")]
pub struct ErrorCause(String);

impl From<String> for ErrorCause {
    fn from(words: String) -> Self {
        Self(words)
    }
}

impl From<ErrorCause> for String {
    fn from(cause: ErrorCause) -> Self {
        cause.0
    }
}

impl Deref for ErrorCause {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// An error with all that a client needs to show it and to suggest what to do. Printed as `[code] message: cause`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct AgentError {
    pub code: ErrorCode,
    pub class: ErrorClass,
    /// What went wrong, for users.
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<ErrorCause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The HTTP status of the provider's response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's id of the request, for a report to its support.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// How long the provider asks us to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// When an exhausted quota resets, in ms since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_at: Option<i64>,
    /// What the user can do; alternatives are on separate lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_action: Option<String>,
    /// How many attempts were made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// A provider's key is missing or was refused, so that a login may help.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_login: bool,
}

impl AgentError {
    /// Returns a terminal error that has no details yet.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            class: ErrorClass::Terminal,
            message: message.into(),
            cause: None,
            provider: None,
            model: None,
            status: None,
            request_id: None,
            retry_after_ms: None,
            reset_at: None,
            user_action: None,
            attempts: None,
            needs_login: false,
        }
    }

    /// Returns the sentence for people: the message and the cause.
    pub fn describe(&self) -> String {
        match &self.cause {
            Some(cause) => format!("{}: {cause}", self.message),
            None => self.message.clone(),
        }
    }

    /// Sets the underlying cause.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(ErrorCause(cause.into()));
        self
    }

    /// Sets what the user can do, one alternative a line.
    #[must_use]
    pub fn with_user_action(mut self, action: impl Into<String>) -> Self {
        self.user_action = Some(action.into());
        self
    }
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.code.name(), self.describe())
    }
}

impl std::error::Error for AgentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_code_message_and_cause() {
        let error = AgentError::new(ErrorCode::ProviderError, "anthropic API error")
            .with_cause("rate limit exceeded");
        assert_eq!(
            error.to_string(),
            "[provider_error] anthropic API error: rate limit exceeded"
        );
        let source = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(source.as_deref(), Some("rate limit exceeded"));
    }

    #[test]
    fn every_code_has_its_own_name() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_name(code.name()), Some(code));
        }
    }
}
