//! Errors as people and clients see them (R-ERR-1, R-WIRE-6).

use std::fmt;
use std::ops::Deref;

/// What went wrong, as a stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it; the table is R-ERR-1")]
pub enum ErrorCode {
    MaxIterations,
    ProviderError,
    ToolExecution,
    ContextLimit,
    BudgetExceeded,
    Cancelled,
    CircuitOpen,
    QuotaExhausted,
    EmptyResponse,
    ToolCallsExceeded,
    WallTimeExceeded,
    Config,
    Session,
    Protocol,
    Store,
    Internal,
}

impl ErrorCode {
    /// All codes.
    pub const ALL: [Self; 16] = [
        Self::MaxIterations,
        Self::ProviderError,
        Self::ToolExecution,
        Self::ContextLimit,
        Self::BudgetExceeded,
        Self::Cancelled,
        Self::CircuitOpen,
        Self::QuotaExhausted,
        Self::EmptyResponse,
        Self::ToolCallsExceeded,
        Self::WallTimeExceeded,
        Self::Config,
        Self::Session,
        Self::Protocol,
        Self::Store,
        Self::Internal,
    ];

    /// Its name on the wire and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxIterations => "max_iterations",
            Self::ProviderError => "provider_error",
            Self::ToolExecution => "tool_execution",
            Self::ContextLimit => "context_limit",
            Self::BudgetExceeded => "budget_exceeded",
            Self::Cancelled => "cancelled",
            Self::CircuitOpen => "circuit_open",
            Self::QuotaExhausted => "quota_exhausted",
            Self::EmptyResponse => "empty_response",
            Self::ToolCallsExceeded => "tool_calls_exceeded",
            Self::WallTimeExceeded => "wall_time_exceeded",
            Self::Config => "config",
            Self::Session => "session",
            Self::Protocol => "protocol",
            Self::Store => "store",
            Self::Internal => "internal",
        }
    }

    /// The code of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.name() == name)
    }
}

/// What can be done about an error (R-ERR-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The same again may succeed.
    Retryable,
    /// It will not mend by itself.
    Terminal,
    /// The turn went on.
    NonFatal,
}

impl ErrorClass {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Retryable => "retryable",
            Self::Terminal => "terminal",
            Self::NonFatal => "non_fatal",
        }
    }
}

/// What lies behind an error. It is text, as it is stored and sent: the error that said it may be of another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause(String);

impl From<String> for Cause {
    fn from(words: String) -> Self {
        Self(words)
    }
}

impl From<Cause> for String {
    fn from(cause: Cause) -> Self {
        cause.0
    }
}

impl Deref for Cause {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Cause {}

/// An error with all that a client needs to show it and say what to do. Printed `[code] message: cause`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentError {
    /// What went wrong.
    pub code: ErrorCode,
    /// What can be done about it.
    pub class: ErrorClass,
    /// What went wrong, for people.
    pub message: String,
    /// What lies behind it.
    pub cause: Option<Cause>,
    /// The provider's name.
    pub provider: Option<String>,
    /// The model's name.
    pub model: Option<String>,
    /// The HTTP status.
    pub status: Option<u16>,
    /// The provider's id of the request, for its support.
    pub request_id: Option<String>,
    /// How long the provider asks to wait.
    pub retry_after_ms: Option<u64>,
    /// When a quota is filled again, in ms since the epoch.
    pub reset_at: Option<i64>,
    /// What the person can do; several ways are separate lines.
    pub user_action: Option<String>,
    /// How many tries were made.
    pub attempts: Option<u32>,
}

impl AgentError {
    /// A terminal error of `code`.
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
        }
    }

    /// Adds what lies behind it.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<String>) -> Self {
        self.cause = Some(Cause(cause.into()));
        self
    }

    /// Adds what the person can do.
    #[must_use]
    pub fn with_user_action(mut self, action: impl Into<String>) -> Self {
        self.user_action = Some(action.into());
        self
    }
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.code.name(), self.message)?;
        match &self.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
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
