//! What may go wrong with a call, by what the caller can do about it (R-PROV-2, architecture §4).

use std::time::Duration;

use crate::domain::{AgentError, ErrorClass, ErrorCode};

/// A failed call. Exactly one per call.
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
#[error("{provider} API error: {message}")]
pub struct ProviderError {
    /// What went wrong.
    pub fault: ProviderFault,
    /// The provider's configured name.
    pub provider: String,
    /// The model that was asked.
    pub model: String,
    /// What went wrong, for people; never holds a secret.
    pub message: String,
    /// The HTTP status.
    pub status: Option<u16>,
    /// The provider's id of the request.
    pub request_id: Option<String>,
    /// How long the provider asks to wait (`retry-after-ms`, `Retry-After`), when it is readable and sane.
    pub retry_after: Option<Duration>,
    /// What the person can do.
    pub user_action: Option<String>,
    /// Whether the provider wants the same request again, where it says so (`x-should-retry`).
    pub should_retry: Option<bool>,
}

/// The kinds of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderFault {
    /// 429 without a used-up quota, 408, 409.
    Throttled,
    /// 529 and its like.
    Overloaded,
    /// Every other 5xx.
    Server,
    /// A time limit of ours (R-PROV-2).
    TimedOut(TimeoutPhase),
    /// Refused, reset, not resolved, closed before an answer.
    Connection,
    /// The certificate was not accepted; the message names the issuer.
    Tls,
    /// The stream ended before its stop event, or was not what it should be.
    BrokenStream,
    /// The provider sent an error inside the stream that is none of the others.
    ErrorEvent,
    /// The prompt does not fit; the real limit in tokens, where the provider names it.
    PromptTooLong {
        /// The window, in tokens.
        limit: Option<u64>,
    },
    /// The output limit of the request is more than the model has; the model's own, where the provider names it.
    OutputLimit {
        /// Tokens of one answer.
        limit: Option<u32>,
    },
    /// A picture was refused.
    ImageRefused,
    /// 401 and 403: the key.
    Unauthorized,
    /// The quota or credit is used up; when it is filled again, in ms since the epoch.
    QuotaExhausted {
        /// When it is filled again.
        reset_at: Option<i64>,
    },
    /// The model or the address does not exist.
    NotFound,
    /// Declined for its content before an answer began.
    ContentPolicy,
    /// Any other 4xx.
    InvalidRequest,
    /// What answered is not the API (an HTML page with 200, say).
    NotTheApi,
    /// Something on this side: a cassette that cannot be read, a key command that failed.
    Local,
}

/// The phase in which a time limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeoutPhase {
    /// Connecting (10 s).
    Connect,
    /// Waiting for headers or the first event (60 s; 300 s for local addresses and with reasoning).
    FirstEvent,
    /// Between content events (90 s; 300 s where the API streams no reasoning).
    Gap,
}

/// What the caller does about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The same request again, after a wait.
    Retry,
    /// The same request again, within `max_timeout_retries`: a time limit was reached.
    RetryTimeout,
    /// Make the history smaller, then again.
    Compact,
    /// Shrink or leave out the picture, then again.
    ShrinkImage,
    /// The next provider of the route, without retrying; if there is none it has failed.
    NextOnRoute,
    /// It has failed.
    Fail,
}

impl ProviderError {
    /// What to do. The provider's own word on retries wins over what its status usually means.
    pub fn disposition(&self) -> Disposition {
        match (self.should_retry, self.usual_disposition()) {
            (Some(false), Disposition::Retry | Disposition::RetryTimeout) => Disposition::NextOnRoute,
            (Some(true), Disposition::Fail) => Disposition::Retry,
            (_, usual) => usual,
        }
    }

    /// One exhaustive match, no look at the text.
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
            ProviderFault::QuotaExhausted { .. } => Disposition::NextOnRoute,
            ProviderFault::Tls
            | ProviderFault::Unauthorized
            | ProviderFault::NotFound
            | ProviderFault::ContentPolicy
            | ProviderFault::OutputLimit { .. }
            | ProviderFault::InvalidRequest
            | ProviderFault::NotTheApi
            | ProviderFault::Local => Disposition::Fail,
        }
    }

    /// As clients see it.
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
            ..AgentError::new(code, format!("{} API error", self.provider))
        }
    }
}
