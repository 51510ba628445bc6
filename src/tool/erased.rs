//! The typed trait's erased twin: JSON in, so that tools of all types live in one list.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use serde::Deserialize;
use serde_json::Value;

use super::{Preview, Tool, ToolContext, ToolError, ToolOutput, schema};
use crate::domain::{Effect, ToolSpec};

/// A tool of any input type.
pub trait DynTool: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Whether calling it again with the same arguments is how one waits.
    fn is_wait_tool(&self) -> bool;

    /// As the model is told of it.
    fn spec(&self) -> ToolSpec;

    /// Checks the arguments. An error says what is wrong with them, for the model.
    fn prepare_call(self: Arc<Self>, input: &Value) -> Result<Box<dyn PreparedCall>, String>;
}

/// A call whose arguments are right.
pub trait PreparedCall: Send + Sync {
    /// A line for people.
    fn title(&self) -> String;

    /// What it would do.
    fn predict_effect(&self, cx: &ToolContext) -> Result<Effect, ToolError>;

    /// What it would change, for the person who is asked.
    fn preview_change<'a>(&'a self, cx: &'a ToolContext) -> BoxFuture<'a, Result<Preview, ToolError>>;

    /// How long it may run.
    fn timeout(&self) -> Option<Duration>;

    /// Whether a cancel waits for it.
    fn finishes_on_cancel(&self) -> bool;

    /// Does it.
    fn run(self: Box<Self>, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>>;
}

struct Prepared<T: Tool> {
    tool: Arc<T>,
    input: T::Input,
}

impl<T: Tool> DynTool for T {
    fn name(&self) -> &str {
        T::NAME
    }

    fn is_wait_tool(&self) -> bool {
        T::WAITS
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: T::NAME.to_owned(),
            description: T::DESCRIPTION.to_owned(),
            schema: schema::generate_schema::<T::Input>(),
        }
    }

    fn prepare_call(self: Arc<Self>, input: &Value) -> Result<Box<dyn PreparedCall>, String> {
        let schema = schema::generate_schema::<T::Input>();
        let problem = match T::Input::deserialize(input) {
            // The types say nothing of ranges.
            Ok(fits) => match schema::out_of_range(&schema, input) {
                None => {
                    return Ok(Box::new(Prepared {
                        tool: self,
                        input: fits,
                    }));
                }
                Some(problem) => problem,
            },
            Err(error) => schema::explain_mismatch(&schema, input).unwrap_or_else(|| error.to_string()),
        };
        Err(format!("invalid arguments for {}: {problem}", T::NAME))
    }
}

impl<T: Tool> PreparedCall for Prepared<T> {
    fn title(&self) -> String {
        self.tool.call_title(&self.input)
    }

    fn predict_effect(&self, cx: &ToolContext) -> Result<Effect, ToolError> {
        self.tool.predict_effect(&self.input, cx)
    }

    fn preview_change<'a>(&'a self, cx: &'a ToolContext) -> BoxFuture<'a, Result<Preview, ToolError>> {
        self.tool.preview_change(&self.input, cx).boxed()
    }

    fn timeout(&self) -> Option<Duration> {
        self.tool.call_timeout(&self.input)
    }

    fn finishes_on_cancel(&self) -> bool {
        self.tool.finishes_on_cancel()
    }

    fn run(self: Box<Self>, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        async move { self.tool.run(self.input, cx).await }.boxed()
    }
}
