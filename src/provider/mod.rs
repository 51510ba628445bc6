//! LLM APIs as one typed stream; what may go wrong with them, and the arithmetic of trying again.
//!
//! Knows HTTP and the APIs' shapes; knows nothing of turns, tools' meaning, sessions or clients.
//! A provider never retries by itself: a failed call is one [`ProviderError`], and `turn` decides.

mod error;
mod request;
mod stream;
mod tmp_stub;
pub use tmp_stub::*;

pub use error::{Disposition, Fault, Phase, ProviderError};
pub use request::{Effort, Item, Request, Shape};
pub use stream::{EventStream, StopReason, StreamEvent};

use std::sync::Arc;

use futures::future::BoxFuture;

/// An LLM API with an account. One streaming call; dropping the future or the stream closes the
/// connection at once (R-PROV-8).
pub trait Provider: Send + Sync + 'static {
    /// The configured name: `anthropic`, `work`, ….
    fn name(&self) -> &str;

    /// Makes the call. The stream yields events, then ends after exactly one [`StreamEvent::Stop`], or
    /// yields exactly one error and ends.
    fn stream(&self, request: Arc<Request>) -> BoxFuture<'static, Result<EventStream, ProviderError>>;
}
