//! Tools for tests, which need no process: each does what its test says.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};

use crate::domain::{Effect, ToolSpec};
use crate::tool::{DynTool, PreparedCall, ToolContext, ToolError, ToolOutput};

type Run = dyn Fn(Value, ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync;

/// A tool that accepts any arguments.
#[derive(Clone)]
pub(in crate::session::tests) struct TestTool {
    name: &'static str,
    effect: Effect,
    finishes_on_cancel: bool,
    run: Arc<Run>,
}

impl TestTool {
    /// Creates a tool that runs `run` with the arguments of a call.
    pub(in crate::session::tests) fn new<F>(
        name: &'static str,
        run: impl Fn(Value, ToolContext) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        Self {
            name,
            effect: Effect::none(),
            finishes_on_cancel: false,
            run: Arc::new(move |input, cx| run(input, cx).boxed()),
        }
    }

    /// Creates a tool that returns `text`.
    pub(in crate::session::tests) fn succeeding(name: &'static str, text: &'static str) -> Self {
        Self::new(name, move |_, _| async move { Ok(ToolOutput::text(text)) })
    }

    /// Creates a tool that fails with `message`.
    pub(in crate::session::tests) fn failing(name: &'static str, message: &'static str) -> Self {
        Self::new(name, move |_, _| async move {
            Err(ToolError::Reported(message.to_owned()))
        })
    }

    /// Creates a tool that never ends.
    pub(in crate::session::tests) fn endless(name: &'static str) -> Self {
        Self::new(name, |_, _| std::future::pending())
    }

    /// Sets what its calls do outside the session.
    pub(in crate::session::tests) fn with_effect(self, effect: Effect) -> Self {
        Self { effect, ..self }
    }

    /// Makes a cancel wait for its calls.
    pub(in crate::session::tests) fn that_finishes_on_cancel(self) -> Self {
        Self {
            finishes_on_cancel: true,
            ..self
        }
    }
}

impl DynTool for TestTool {
    fn name(&self) -> &str {
        self.name
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.to_owned(),
            description: "A tool of a test.".to_owned(),
            schema: Arc::new(json!({"type": "object"})),
            freeform: None,
        }
    }

    fn prepare_call(self: Arc<Self>, input: &Value) -> Result<Box<dyn PreparedCall>, String> {
        Ok(Box::new(TestCall {
            tool: self,
            input: input.clone(),
        }))
    }
}

struct TestCall {
    tool: Arc<TestTool>,
    input: Value,
}

impl PreparedCall for TestCall {
    fn title(&self) -> String {
        self.tool.name.to_owned()
    }

    fn predict_effect(&self, _: &ToolContext) -> Result<Effect, ToolError> {
        Ok(self.tool.effect.clone())
    }

    fn timeout(&self) -> Option<Duration> {
        // The configuration may set another one.
        Some(Duration::from_secs(120))
    }

    fn finishes_on_cancel(&self) -> bool {
        self.tool.finishes_on_cancel
    }

    fn run(self: Box<Self>, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        (self.tool.run)(self.input, cx)
    }
}
