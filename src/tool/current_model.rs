//! The interface to the model of the current step, for tools that need an answer of it.
//!
//! Declared here and implemented by the turn, so that no tool knows a provider. Values only: must not do any I/O.

use futures::future::BoxFuture;

use crate::base::CancellationToken;
use crate::config::EditTool;
use crate::domain::{Message, WebSource};
pub use crate::mcp::{SamplingAnswer, SamplingStop};

/// The model of the current step.
pub trait CurrentModel: Send + Sync {
    /// Returns the tool with which it changes parts of files.
    fn edit_tool(&self) -> EditTool;

    /// Returns the longest result of one call that its window has room for, in bytes.
    fn max_result_bytes(&self) -> usize;

    /// Returns whether it can search the web.
    fn can_search(&self) -> bool;

    /// Makes one search of the web. After a cancel it ends within milliseconds, with what it cost counted.
    fn search(&self, job: SearchJob) -> BoxFuture<'static, Result<SearchAnswer, ModelFailure>>;

    /// Answers messages, without tools. After a cancel it ends within milliseconds, with what it cost counted.
    fn sample(&self, job: SampleJob) -> BoxFuture<'static, Result<SamplingAnswer, ModelFailure>>;
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

/// Messages that an MCP server wants to have answered.
#[derive(Clone, Debug)]
pub struct SampleJob {
    /// `None` for one of ours.
    pub system: Option<String>,
    pub messages: Vec<Message>,
    /// The longest answer, in tokens.
    pub max_tokens: u32,
    /// Texts before which the answer ends.
    pub stops: Vec<String>,
    pub cancel: CancellationToken,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelFailure {
    Cancelled,
    /// The reason, and what to do, for whoever asked.
    Failed(String),
}
