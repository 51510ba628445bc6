//! A tool of an MCP server, as the model and the turn see it.
//!
//! It turns the server's result into ours, with bounds. The connection is the job of [`crate::mcp`].

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::created_files::settle_created_files;
use super::mcp_content::{RenderedContent, render_contents};
use super::mcp_requests::answer_requests;
use super::output::{fail_with_message, refuse_input};
use super::run_command::with_notes;
use super::{DynTool, PreparedCall, ToolContext, ToolError, ToolOutput, ToolProgress, files, schema};
use crate::base::CancellationToken;
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::domain::{Effect, EffectKind, ForeignTool, SandboxPolicy, ToolSpec};
use crate::mcp::{McpCall, McpCallResult, McpError, ServedTool};

/// Reports of progress that may wait for a slow client. Further ones are dropped.
const PROGRESS_QUEUE: usize = 16;

/// A tool of an MCP server.
pub struct McpServerTool {
    served: ServedTool,
    rule_name: String,
}

/// A call with arguments that fit the schema as far as we know it.
struct McpToolCall {
    tool: Arc<McpServerTool>,
    arguments: Map<String, Value>,
}

impl McpServerTool {
    /// Creates the tool.
    pub fn new(served: ServedTool) -> Self {
        Self {
            rule_name: served.rule_name(),
            served,
        }
    }

    /// Returns whether a call needs no approval by itself: the server says so, and the settings believe it.
    fn is_trusted_to_read(&self) -> bool {
        self.served.settings.trust_annotations && self.served.tool.claims_read_only
    }
}

impl DynTool for McpServerTool {
    fn name(&self) -> &str {
        &self.served.name
    }

    fn rule_name(&self) -> &str {
        &self.rule_name
    }

    fn owner(&self) -> Option<String> {
        Some(format!("the MCP server {}", self.served.settings.name))
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            freeform: None,
            name: self.served.name.clone(),
            description: self.served.tool.description.clone(),
            schema: self.served.tool.schema.sent().clone(),
        }
    }

    fn restore_names(&self, input: &Value) -> Result<Option<Value>, String> {
        self.served.tool.schema.restore_names(input)
    }

    fn prepare_call(self: Arc<Self>, input: &Value) -> Result<Box<dyn PreparedCall>, String> {
        let input = self.restore_names(input)?.unwrap_or_else(|| input.clone());
        let problem = schema::explain_mismatch(self.served.tool.schema.own(), &input);
        match (problem, input) {
            (None, Value::Object(arguments)) => Ok(Box::new(McpToolCall {
                arguments,
                tool: self,
            })),
            (problem, _) => Err(format!(
                "invalid arguments for {}: {}",
                self.served.name,
                problem.unwrap_or_else(|| "expected an object".to_owned())
            )),
        }
    }
}

impl PreparedCall for McpToolCall {
    /// Names server, tool, and arguments: they are what a user approves.
    fn title(&self) -> String {
        let name = self.tool.rule_name.trim_start_matches("mcp:");
        let arguments = Value::Object(self.arguments.clone()).to_string();
        let title = if self.arguments.is_empty() {
            name.to_owned()
        } else {
            format!("{name} {arguments}")
        };
        one_line(&reveal_hidden_characters(&title), 160)
    }

    fn predict_effect(&self, _cx: &ToolContext) -> Result<Effect, ToolError> {
        let only_reads = self.tool.is_trusted_to_read();
        let settings = &self.tool.served.settings;
        let has_program = settings.command.is_some();
        Ok(Effect {
            has_program,
            sandbox: has_program.then(|| settings.sandbox_policy()),
            // Nobody knows what it does, so it counts as the most that a call can do.
            kind: if only_reads {
                EffectKind::Read
            } else {
                EffectKind::Execute
            },
            subject: Value::Object(self.arguments.clone()).to_string(),
            foreign: Some(ForeignTool {
                name: self.tool.rule_name.clone(),
                only_reads,
                definition: Arc::new(self.tool.served.define()),
            }),
            ..Effect::none()
        })
    }

    /// A cancel is passed on to the server, which takes at most half a second.
    fn finishes_on_cancel(&self) -> bool {
        true
    }

    fn run(self: Box<Self>, cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        async move {
            let settings = &self.tool.served.settings;
            let may_create =
                settings.command.is_some() && settings.sandbox_policy() == SandboxPolicy::Workspace;
            if !may_create {
                return self.call_server(&cx).await;
            }
            let earlier = cx.workspace.list_steering_changes(&cx.cwd).await;
            let mut result = self.call_server(&cx).await;
            let mut created = settle_created_files(&cx, earlier).await;
            let notes = std::mem::take(&mut created.notes);
            // After other errors, the next check reports them.
            if let Ok(ToolOutput { text, .. })
            | Err(ToolError::Reported(text) | ToolError::WrongInput(text)) = &mut result
            {
                if !notes.is_empty() {
                    *text = with_notes(text, notes);
                }
                created.mark_reported();
            }
            result
        }
        .boxed()
    }
}

impl McpToolCall {
    async fn call_server(self: Box<Self>, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let (progress, mut reports) = mpsc::channel(PROGRESS_QUEUE);
        // One place, because a server has at most one open request.
        let (requests, requested) = mpsc::channel(1);
        let call = McpCall {
            session: cx.session.clone(),
            tool: self.tool.served.tool.name.clone(),
            arguments: self.arguments,
            limit: self.tool.served.settings.timeout_s.0,
            cancel: cx.cancel.clone(),
            progress,
            requests,
        };
        let pass_on = async {
            while let Some(report) = reports.recv().await {
                // Without a receiver the turn has ended, and the call ends by its cancel.
                let _ = cx.send_progress(ToolProgress::Output(report)).await;
            }
        };
        let answer = answer_requests(cx, &self.tool.rule_name, requested);
        // The channels close with the call, so all end.
        let (result, (), sampled) =
            futures::future::join3(self.tool.served.call(call), pass_on, answer).await;
        match result {
            Ok(result) => {
                let mismatch = explain_output(self.tool.served.tool.output_schema.as_deref(), &result);
                let output = files::run_blocking(cx, move |stop| Ok(to_output(result, stop))).await?;
                let output = with_remark(output, &mismatch.unwrap_or_default());
                Ok(with_remark(output, &sampled))
            }
            Err(McpError::Cancelled) => Err(ToolError::Cancelled),
            Err(McpError::TimedOut(limit)) => Ok(ToolOutput::timed_out(limit)),
            Err(error) => {
                let text = format!("MCP server {}: {error}", self.tool.served.settings.name);
                match error {
                    McpError::WrongInput(_) | McpError::VisitFirst(..) => refuse_input(text),
                    _ => fail_with_message(text),
                }
            }
        }
    }
}

/// Puts a remark before a result: what the server asked the model, or what is wrong with the result.
fn with_remark(mut output: ToolOutput, remark: &str) -> ToolOutput {
    if !remark.is_empty() {
        output.text = format!("[{}]\n{}", remark.trim_end(), output.text);
    }
    output
}

/// Explains to the model in one line why a structured result is not what the tool promises.
fn explain_output(schema: Option<&Value>, result: &McpCallResult) -> Option<String> {
    let structured = result.structured.as_ref().filter(|_| !result.is_error)?;
    let problem = schema::explain_mismatch_at(schema?, structured, "structuredContent")?;
    let problem = one_line(&reveal_hidden_characters(&problem), 300);
    Some(format!(
        "the result does not match the output schema of the tool: {problem}"
    ))
}

/// Largest texts and structured results that are compared value by value, in bytes.
const MAX_COMPARED: usize = 16 << 10;

/// Whether a text already has what a structured result has: many servers repeat it, for clients that do not know it.
fn repeats(text: &str, structured: &Value) -> bool {
    let json = structured.to_string();
    if matches!(json.as_str(), "{}" | "[]" | "null")
        || text.contains(&json)
        || serde_json::from_str::<Value>(text).is_ok_and(|value| value == *structured)
    {
        return true;
    }
    if text.len().max(json.len()) > MAX_COMPARED {
        return false;
    }
    let mut leaves = Vec::new();
    collect_leaves(structured, &mut leaves);
    // Short words and numbers can be in any text.
    let is_telling = |leaf: &&Value| match leaf {
        Value::String(text) => text.len() > 3,
        Value::Number(number) => number.to_string().len() > 3,
        _ => false,
    };
    let has = |leaf: &&Value| match leaf {
        Value::String(leaf) => text.contains(leaf.as_str()),
        leaf => text.contains(&leaf.to_string()),
    };
    leaves.iter().any(is_telling) && leaves.iter().all(has)
}

fn collect_leaves<'v>(value: &'v Value, leaves: &mut Vec<&'v Value>) {
    match value {
        Value::Object(fields) => fields.values().for_each(|value| collect_leaves(value, leaves)),
        Value::Array(items) => items.iter().for_each(|value| collect_leaves(value, leaves)),
        leaf => leaves.push(leaf),
    }
}

/// Converts a result. The caller cuts a text that is too long.
fn to_output(result: McpCallResult, stop: &CancellationToken) -> ToolOutput {
    let RenderedContent { mut text, images } = render_contents(result.content, stop);
    if let Some(structured) = &result.structured
        && (text.is_empty() || !repeats(&text, structured))
    {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&structured.to_string());
    }
    if text.is_empty() && images.is_empty() {
        "(no output)".clone_into(&mut text);
    }
    ToolOutput {
        media: images,
        is_error: result.is_error,
        // The server answers, so nothing is broken.
        is_wrong_input: result.is_error,
        ..ToolOutput::text(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::McpContent;

    const PIXEL: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

    fn text(text: &str) -> McpContent {
        McpContent::Text(text.to_owned())
    }

    #[test]
    fn every_kind_of_content_reaches_the_model_or_is_named() {
        let result = McpCallResult {
            content: vec![
                text("one"),
                McpContent::Image {
                    media_type: "image/jpeg".to_owned(),
                    data: PIXEL.to_owned(),
                },
                McpContent::Document {
                    uri: "note://one".to_owned(),
                    text: "inside".to_owned(),
                },
                McpContent::Link {
                    uri: "note://two".to_owned(),
                    name: "two".to_owned(),
                },
                McpContent::Other("sound (audio/wav)".to_owned()),
            ],
            structured: Some(json!({"a": 1})),
            is_error: true,
        };
        let output = to_output(result, &CancellationToken::new());
        assert_eq!(
            output.text,
            "one\n[document note://one]\ninside\n[link to note://two: two]\n[sound (audio/wav): not shown]\n{\"a\":1}"
        );
        // The bytes count, not what the server calls them.
        assert_eq!(output.media[0].media_type, "image/png");
        assert!(output.is_error && output.is_wrong_input);
    }

    #[test]
    fn only_a_result_that_breaks_its_schema_is_remarked() {
        let schema =
            json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]});
        let explain = |structured: Option<Value>, is_error| {
            let result = McpCallResult {
                structured,
                is_error,
                ..McpCallResult::default()
            };
            explain_output(Some(&schema), &result)
        };
        let wrong = Some(json!({"sum": "a\u{202e}\nb"}));
        let remark = explain(wrong.clone(), false).unwrap();
        assert!(
            remark.ends_with(
                "tool: `structuredContent.sum`: expected a whole number, got the string \"a<U+202E> b\""
            ),
            "{remark}"
        );
        assert!(
            explain(Some(json!([])), false)
                .unwrap()
                .contains("expected an object")
        );
        assert_eq!(explain(wrong, true), None);
        assert_eq!(explain(None, false), None);
        assert_eq!(explain(Some(json!({"sum": 4, "more": null})), false), None);
        let structured = Some(json!(1));
        let unknown = McpCallResult {
            structured,
            ..McpCallResult::default()
        };
        assert_eq!(explain_output(None, &unknown), None);
    }

    #[test]
    fn structured_content_follows_a_text_that_does_not_have_it() {
        for (said, structured, shown) in [
            (
                "see structured content",
                json!({"chunks": ["ACC-1"]}),
                "see structured content\n{\"chunks\":[\"ACC-1\"]}",
            ),
            ("{ \"sum\": 42 }", json!({"sum": 42}), "{ \"sum\": 42 }"),
            ("1 result", json!({"count": 1}), "1 result\n{\"count\":1}"),
            (
                "| ACC-1 | 42 |",
                json!({"id": "ACC-1", "sum": 42}),
                "| ACC-1 | 42 |",
            ),
            ("done", json!({}), "done"),
            ("false alarm", json!({"ok": false}), "false alarm\n{\"ok\":false}"),
            ("done", json!({"chunks": []}), "done\n{\"chunks\":[]}"),
            (
                "Result: {\"a\":\"x\\ny\"}",
                json!({"a": "x\ny"}),
                "Result: {\"a\":\"x\\ny\"}",
            ),
        ] {
            let result = McpCallResult {
                content: vec![text(said)],
                structured: Some(structured),
                is_error: false,
            };
            assert_eq!(to_output(result, &CancellationToken::new()).text, shown);
        }
    }

    #[test]
    fn structured_content_stands_in_for_missing_text() {
        let structured = McpCallResult {
            structured: Some(json!({"sum": 42})),
            ..McpCallResult::default()
        };
        let text_of = |result| to_output(result, &CancellationToken::new()).text;
        assert_eq!(text_of(structured), r#"{"sum":42}"#);
        assert_eq!(text_of(McpCallResult::default()), "(no output)");
    }
}
