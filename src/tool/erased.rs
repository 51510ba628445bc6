//! Type-erased tools: JSON in, so that tools with different input types fit in one list.
//!
//! Every [`Tool`] implements [`DynTool`] here; other tools implement it directly. Must not know single tools.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use serde::Deserialize;
use serde_json::Value;

use super::{CallPreview, Tool, ToolContext, ToolError, ToolOutput, schema};
use crate::domain::{Effect, ToolSpec};

/// A tool with any input type.
pub trait DynTool: Send + Sync {
    /// Returns the name that the model calls it by.
    fn name(&self) -> &str;

    /// Returns the name by which rules know it.
    fn rule_name(&self) -> &str {
        self.name()
    }

    /// Returns whether repeating a call with the same arguments is the normal way to wait.
    fn is_wait_tool(&self) -> bool {
        false
    }

    /// Returns whether its field `path`, if it has one, names a file or folder of the workspace.
    fn has_workspace_path(&self) -> bool {
        false
    }

    /// Returns who has added it, for people; `None` for agentls itself.
    fn owner(&self) -> Option<String> {
        None
    }

    /// Returns name, description, and schema for the model.
    fn spec(&self) -> ToolSpec;

    /// Returns the arguments with its own names, if models know them by others.
    ///
    /// # Errors
    /// What is wrong with the arguments, as text for the model.
    fn restore_names(&self, _input: &Value) -> Result<Option<Value>, String> {
        Ok(None)
    }

    /// Checks the arguments.
    ///
    /// # Errors
    /// What is wrong with the arguments, as text for the model.
    fn prepare_call(self: Arc<Self>, input: &Value) -> Result<Box<dyn PreparedCall>, String>;
}

/// A call with valid arguments.
pub trait PreparedCall: Send + Sync {
    /// Returns a line for people.
    fn title(&self) -> String;

    /// Returns what the call would do, which approval judges.
    ///
    /// # Errors
    /// The effect cannot be determined, for example because a path cannot be resolved.
    fn predict_effect(&self, cx: &ToolContext) -> Result<Effect, ToolError>;

    /// Completes the predicted effect with what only the editor knows.
    ///
    /// # Errors
    /// The effect cannot be determined; the call is not made.
    fn complete_effect<'a>(
        &'a self,
        effect: Effect,
        _cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<Effect, ToolError>> {
        async { Ok(effect) }.boxed()
    }

    /// Returns whether `complete_effect` can add files to the predicted effect.
    fn effect_may_grow(&self) -> bool {
        false
    }

    /// Returns whether the result depends on all files of the workspace.
    fn reads_workspace(&self) -> bool {
        false
    }

    /// Returns whether what the call starts goes on after it. Its changes are not recorded then.
    fn goes_on_afterwards(&self) -> bool {
        false
    }

    /// Returns what the call would change, for the user who approves it.
    ///
    /// # Errors
    /// The change cannot be computed.
    fn preview_change<'a>(&'a self, _cx: &'a ToolContext) -> BoxFuture<'a, Result<CallPreview, ToolError>> {
        async { Ok(CallPreview::default()) }.boxed()
    }

    /// Returns the tool's own time limit; `None` if it has none or enforces it itself.
    fn timeout(&self) -> Option<Duration> {
        None
    }

    /// Returns whether a cancel waits for the call to end.
    fn finishes_on_cancel(&self) -> bool {
        false
    }

    /// Runs the call.
    ///
    /// # Errors
    /// The call fails or is canceled; see [`ToolError`].
    fn run(self: Box<Self>, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>>;
}

struct TypedCall<T: Tool> {
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

    fn has_workspace_path(&self) -> bool {
        true
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: T::NAME.to_owned(),
            description: T::DESCRIPTION.to_owned(),
            schema: schema::input_schema::<T::Input>(),
            freeform: T::FREEFORM,
        }
    }

    fn prepare_call(self: Arc<Self>, input: &Value) -> Result<Box<dyn PreparedCall>, String> {
        let schema = schema::input_schema::<T::Input>();
        let problem = match T::Input::deserialize(input) {
            // The types do not express ranges.
            Ok(fits) => match schema::out_of_range(&schema, input) {
                None => {
                    return Ok(Box::new(TypedCall {
                        tool: self,
                        input: fits,
                    }));
                }
                Some(problem) => problem,
            },
            // The schema check gives the clearer text; the deserializer covers what it does not understand.
            Err(error) => schema::explain_mismatch(&schema, input).unwrap_or_else(|| error.to_string()),
        };
        Err(format!("invalid arguments for {}: {problem}", T::NAME))
    }
}

impl<T: Tool> PreparedCall for TypedCall<T> {
    fn title(&self) -> String {
        self.tool.call_title(&self.input)
    }

    fn predict_effect(&self, cx: &ToolContext) -> Result<Effect, ToolError> {
        self.tool.predict_effect(&self.input, cx)
    }

    fn complete_effect<'a>(
        &'a self,
        effect: Effect,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<Effect, ToolError>> {
        self.tool.complete_effect(&self.input, effect, cx).boxed()
    }

    fn effect_may_grow(&self) -> bool {
        T::EFFECT_MAY_GROW
    }

    fn reads_workspace(&self) -> bool {
        T::READS_WORKSPACE
    }

    fn goes_on_afterwards(&self) -> bool {
        self.tool.goes_on_afterwards(&self.input)
    }

    fn preview_change<'a>(&'a self, cx: &'a ToolContext) -> BoxFuture<'a, Result<CallPreview, ToolError>> {
        self.tool.preview_change(&self.input, cx).boxed()
    }

    fn timeout(&self) -> Option<Duration> {
        T::TIMEOUT
    }

    fn finishes_on_cancel(&self) -> bool {
        T::FINISHES_ON_CANCEL
    }

    fn run(self: Box<Self>, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        async move { self.tool.run(self.input, cx).await }.boxed()
    }
}
