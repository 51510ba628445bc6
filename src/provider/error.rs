//! The error of a failed call, grouped by what the caller can do about it (R-PROV-2).
//!
//! `classify` chooses the [`ProviderFault`]; this file only maps it to a [`Disposition`] and to the error that
//! clients see. Decisions read the fault, never the message.

use std::time::Duration;

use super::request_part::{RequestPart, ToolPointer};
use crate::domain::{AgentError, ErrorClass, ErrorCode};

/// A failed call. A call produces at most one.
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
#[error("{provider} API error: {message}")]
pub struct ProviderError {
    pub fault: ProviderFault,
    /// The configured name of the provider.
    pub provider: String,
    pub model: String,
    /// A description for the user. Never contains a secret (I15).
    pub message: String,
    pub status: Option<u16>,
    /// The id that the provider gave the request, for its support.
    pub request_id: Option<String>,
    /// The wait that the provider asks for (`retry-after-ms`, `Retry-After`), if it is readable and at most 30 days.
    pub retry_after: Option<Duration>,
    /// What the user can do about it.
    pub user_action: Option<String>,
    /// Whether the provider asks for the same request again, if it says so (`x-should-retry`).
    pub should_retry: Option<bool>,
}

/// A failed call without its account. May contain secrets until [`build_provider_error`] redacts
/// them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) fault: ProviderFault,
    pub(crate) message: String,
    pub(crate) status: Option<u16>,
    pub(crate) request_id: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) user_action: Option<String>,
    pub(crate) should_retry: Option<bool>,
}

impl Failure {
    /// Creates a failure with only a fault and a message.
    pub(crate) fn new(fault: ProviderFault, message: impl Into<String>) -> Self {
        Self {
            fault,
            message: message.into(),
            status: None,
            request_id: None,
            retry_after: None,
            user_action: None,
            should_retry: None,
        }
    }

    /// Creates the failure of a stream that is malformed or ended before its stop event.
    pub(crate) fn broken_stream(message: impl Into<String>) -> Self {
        Self::new(ProviderFault::BrokenStream, message)
    }

    /// Adds what the user can do.
    pub(crate) fn with_user_action(mut self, action: impl Into<String>) -> Self {
        self.user_action = Some(action.into());
        self
    }
}

/// What went wrong with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderFault {
    /// 429 without a used-up quota, 408, 409.
    Throttled,
    /// 529 and equivalent errors.
    Overloaded,
    /// Any other 5xx.
    Server,
    /// One of our own time limits (R-PROV-2).
    TimedOut(TimeoutPhase),
    /// Refused, reset, not resolved, or closed before an answer.
    Connection,
    /// The certificate was rejected; the message names its issuer.
    Tls,
    /// The stream ended before its stop event, or was malformed.
    BrokenStream,
    /// The provider sent an error inside the stream that fits no other fault.
    ErrorEvent,
    /// The prompt does not fit into the context window.
    PromptTooLong {
        /// The window in tokens, if the provider names it.
        limit: Option<u64>,
    },
    /// The request asks for more output than the model allows.
    OutputLimit {
        /// The model's own limit in tokens, if the provider names it.
        limit: Option<u32>,
        /// The window in tokens, if the limit is what the prompt leaves of it.
        window: Option<u64>,
    },
    ImageRefused,
    /// The request works without this part of it.
    PartRefused(RequestPart),
    /// The provider refuses the definitions of these tools.
    ToolsRefused(Vec<ToolPointer>),
    /// 401 and 403: the key was refused.
    Unauthorized,
    /// The quota or credit is used up.
    QuotaExhausted {
        /// When the quota refills, in ms since the epoch.
        reset_at: Option<i64>,
    },
    /// The model or the address does not exist.
    NotFound,
    /// Rejected because of its content before an answer began.
    ContentPolicy,
    /// Any other 4xx.
    InvalidRequest,
    /// Something other than the API answered, such as a web page with status 200.
    NotTheApi,
    /// A problem on this machine: an unreadable cassette, or a key command that failed.
    Local,
}

/// The phase of a call in which a time limit was reached. The values are defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeoutPhase {
    /// Connecting (10 s).
    Connect,
    /// Waiting for headers or the first event (60 s; 300 s for local addresses and with reasoning).
    FirstEvent,
    /// Between content events (90 s; 300 s where the API streams no reasoning).
    Gap,
}

/// What the caller does after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Send the same request again after a wait.
    Retry,
    /// Send the same request again, at most `max_timeout_retries` times: a time limit was reached.
    RetryTimeout,
    /// Compact the history, then send it again.
    Compact,
    /// Shrink or remove the image, then send it again.
    ShrinkImage,
    /// Go to the next provider of the route without a retry; without one, fail.
    NextOnRoute,
    /// Fail the call.
    Fail,
}

impl ProviderError {
    /// Returns what to do. The provider's own advice on retries overrides what its status usually means.
    pub fn disposition(&self) -> Disposition {
        match (self.should_retry, self.usual_disposition()) {
            // Compaction and the route stay: the advice covers repeating the same request only.
            (Some(false), Disposition::Retry | Disposition::RetryTimeout) => Disposition::NextOnRoute,
            (Some(true), Disposition::Fail) => Disposition::Retry,
            (_, usual) => usual,
        }
    }

    /// Maps the fault in one exhaustive match, so that a new fault does not compile without a decision here.
    fn usual_disposition(&self) -> Disposition {
        match self.fault {
            ProviderFault::Throttled
            | ProviderFault::Overloaded
            | ProviderFault::Server
            | ProviderFault::Connection
            | ProviderFault::BrokenStream
            | ProviderFault::ErrorEvent => Disposition::Retry,
            ProviderFault::TimedOut(_) => Disposition::RetryTimeout,
            ProviderFault::PromptTooLong { .. } => Disposition::Compact,
            ProviderFault::ImageRefused => Disposition::ShrinkImage,
            // Waiting would not help, but another account may still have quota (R-PROV-2).
            ProviderFault::QuotaExhausted { .. } => Disposition::NextOnRoute,
            ProviderFault::Tls
            | ProviderFault::Unauthorized
            | ProviderFault::NotFound
            | ProviderFault::ContentPolicy
            | ProviderFault::OutputLimit { .. }
            | ProviderFault::PartRefused(_)
            | ProviderFault::ToolsRefused(_)
            | ProviderFault::InvalidRequest
            | ProviderFault::NotTheApi
            | ProviderFault::Local => Disposition::Fail,
        }
    }

    /// Converts the error to the one that clients see.
    pub fn to_agent_error(&self) -> AgentError {
        let (code, reset_at) = match self.fault {
            ProviderFault::QuotaExhausted { reset_at } => (ErrorCode::QuotaExhausted, reset_at),
            ProviderFault::PromptTooLong { .. } => (ErrorCode::ContextLimit, None),
            _ => (ErrorCode::ProviderError, None),
        };
        let class = match self.disposition() {
            Disposition::Retry | Disposition::RetryTimeout => ErrorClass::Retryable,
            Disposition::Compact
            | Disposition::ShrinkImage
            | Disposition::NextOnRoute
            | Disposition::Fail => ErrorClass::Terminal,
        };
        AgentError {
            class,
            cause: Some(self.message.clone().into()),
            provider: Some(self.provider.clone()),
            model: Some(self.model.clone()),
            status: self.status,
            request_id: self.request_id.clone(),
            retry_after_ms: self.retry_after.map(|d| d.as_millis() as u64),
            reset_at,
            user_action: self.user_action.clone(),
            // A key that is accepted may lack a permission.
            needs_login: self.fault == ProviderFault::Unauthorized && self.status != Some(403),
            ..AgentError::new(code, format!("{} API error", self.provider))
        }
    }
}
