//! Tools for tests, which need no process: each does what its test says. And calls of the built-in ones.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};

use crate::domain::{Effect, ToolSpec};
use crate::session::tests::mock_llm::Reply;
use crate::tool::bash::Bash;
use crate::tool::{CallPreview, DynTool, PreparedCall, ToolContext, ToolError, ToolOutput};

/// Returns an answer that calls `read_file`.
pub(in crate::session::tests) fn read_file(path: &str) -> Reply {
    Reply::tool("read_file", json!({"path": path}))
}

/// Returns an answer that calls `write_file`.
pub(in crate::session::tests) fn write_file(path: &str, content: &str) -> Reply {
    Reply::tool("write_file", json!({"path": path, "content": content}))
}

/// Returns an answer that calls `bash`.
pub(in crate::session::tests) fn bash(command: &str) -> Reply {
    Reply::tool("bash", json!({"command": command}))
}

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

/// A real tool whose calls run differently. Approval and the order of calls judge them as always.
struct ChangedTool {
    real: Arc<dyn DynTool>,
    run: Arc<ChangedRun>,
}

type ChangedRun = dyn Fn(Box<dyn PreparedCall>, Value, ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>>
    + Send
    + Sync;

/// Replaces how the calls of a real tool run: `run` gets the real call, its arguments and its context.
pub(in crate::session::tests) fn change_tool<F>(
    real: Arc<dyn DynTool>,
    run: impl Fn(Box<dyn PreparedCall>, Value, ToolContext) -> F + Send + Sync + 'static,
) -> Arc<dyn DynTool>
where
    F: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    let run = Arc::new(move |real: Box<dyn PreparedCall>, input, cx| run(real, input, cx).boxed());
    Arc::new(ChangedTool { real, run })
}

/// Creates the tool `bash` without processes: `touch` creates its files, and every other command does nothing.
pub(in crate::session::tests) fn fake_bash() -> Arc<dyn DynTool> {
    change_tool(Arc::new(Bash), |_, input, cx| async move {
        let command = input["command"].as_str().unwrap_or_default();
        let files = command.strip_prefix("touch ").unwrap_or_default();
        for file in files.split_whitespace() {
            std::fs::write(cx.cwd.join(file), "").unwrap();
        }
        Ok(ToolOutput::text("done"))
    })
}

impl DynTool for ChangedTool {
    fn name(&self) -> &str {
        self.real.name()
    }

    fn is_wait_tool(&self) -> bool {
        self.real.is_wait_tool()
    }

    fn has_workspace_path(&self) -> bool {
        self.real.has_workspace_path()
    }

    fn spec(&self) -> ToolSpec {
        self.real.spec()
    }

    fn prepare_call(self: Arc<Self>, input: &Value) -> Result<Box<dyn PreparedCall>, String> {
        Ok(Box::new(ChangedCall {
            real: self.real.clone().prepare_call(input)?,
            input: input.clone(),
            run: self.run.clone(),
        }))
    }
}

struct ChangedCall {
    real: Box<dyn PreparedCall>,
    input: Value,
    run: Arc<ChangedRun>,
}

impl PreparedCall for ChangedCall {
    fn title(&self) -> String {
        self.real.title()
    }

    fn predict_effect(&self, cx: &ToolContext) -> Result<Effect, ToolError> {
        self.real.predict_effect(cx)
    }

    fn complete_effect<'a>(
        &'a self,
        effect: Effect,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<Effect, ToolError>> {
        self.real.complete_effect(effect, cx)
    }

    fn effect_may_grow(&self) -> bool {
        self.real.effect_may_grow()
    }

    fn reads_workspace(&self) -> bool {
        self.real.reads_workspace()
    }

    fn preview_change<'a>(&'a self, cx: &'a ToolContext) -> BoxFuture<'a, Result<CallPreview, ToolError>> {
        self.real.preview_change(cx)
    }

    fn timeout(&self) -> Option<Duration> {
        self.real.timeout()
    }

    fn finishes_on_cancel(&self) -> bool {
        self.real.finishes_on_cancel()
    }

    fn run(self: Box<Self>, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        (self.run)(self.real, self.input, cx)
    }
}
