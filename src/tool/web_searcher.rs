//! The interface to whatever searches the web.
//!
//! Declared here and implemented by the turn, so that the `web_search` tool knows no provider. Values only: must not do
//! any I/O.

use futures::future::BoxFuture;

use crate::base::CancellationToken;
use crate::domain::WebSource;

/// Searches the web.
pub trait WebSearcher: Send + Sync {
    /// Makes one search. After a cancel it ends within milliseconds, with what it cost counted.
    fn search(&self, job: SearchJob) -> BoxFuture<'static, Result<SearchAnswer, SearchFailure>>;
}

/// A search.
#[derive(Clone, Debug)]
pub struct SearchJob {
    pub query: String,
    pub cancel: CancellationToken,
}

/// The answer to a search. All of it comes from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchAnswer {
    pub text: String,
    /// The pages that were found or cited.
    pub sources: Vec<WebSource>,
    /// Whether the provider searched at all, instead of answering from what its model knows.
    pub has_searched: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchFailure {
    Cancelled,
    /// The reason, and what to do, for the model.
    Failed(String),
}
