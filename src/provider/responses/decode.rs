//! Decodes the events of the Responses API.
//!
//! An answer is a list of items; [`WireItems`] finds the one that an event refers to. Content usually arrives in
//! pieces and again as a whole item. Each piece is pushed once, so servers that send only whole items work too.
//! Knows no bytes and no clock; see `crate::provider::decode`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::freeform::{CLOSING, FreeformFields, escape};
use super::items::{WireItem, WireItemKind, WireItems};
use crate::domain::{ToolSpec, Usage};
use crate::provider::decode::{
    ApiDecoder, DecodeError, DecodeResult, EventQueue, StreamProgress, ToolInput, complete_tools,
};
use crate::provider::fields::{
    kind, needed_input, needed_text, optional_list, optional_number, parse_event, read_source, text,
};
use crate::provider::sse::SseEvent;
use crate::provider::stream::{SearchReport, StopReason, StreamEvent};
use crate::provider::thought_tags::ThoughtSplitter;

/// Separates the texts of two messages, and the parts of reasoning.
pub(super) const BREAK: &str = "\n\n";

/// The type of an item that calls a tool with plain text.
const CUSTOM_CALL: &str = "custom_tool_call";

/// The state of one answer.
#[derive(Debug, Default)]
pub(crate) struct ResponsesDecoder {
    /// The id of the response, if the server sends one.
    id: Option<String>,
    items: WireItems,
    tools: Vec<StreamedCall>,
    freeform: FreeformFields,
    /// The phase of the last message with text. The outer `None`: no message yet.
    phase: Option<Option<String>>,
    refusal: String,
    usage: Usage,
    searches: u32,
    thoughts: ThoughtSplitter,
}

#[derive(Debug, Default)]
struct StreamedCall {
    input: ToolInput,
    /// The name has arrived.
    has_started: bool,
    /// Input that arrived before the name.
    early: String,
    attached: bool,
    completed: bool,
    /// The input is plain text, which becomes JSON here.
    is_freeform: bool,
    /// The length of the JSON before the plain text.
    opening: usize,
    /// The server has said that the plain text is complete.
    is_whole: bool,
}

/// The encrypted reasoning of the API, in the form that a signature stores.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct EncryptedReasoning {
    #[serde(default)]
    pub(super) id: String,
    #[serde(rename = "encrypted_content")]
    pub(super) encrypted: String,
}

impl EncryptedReasoning {
    /// Reads a signature; `None` if it belongs to another API.
    pub(super) fn read(signature: &str) -> Option<Self> {
        serde_json::from_str(signature).ok()
    }

    /// Converts to the text that a signature stores.
    pub(super) fn write(&self) -> String {
        json!(self).to_string()
    }
}

/// The phase of the text that follows (`commentary`, `final_answer`), stored as opaque reasoning before it.
/// Unknown fields are refused, so that it is not confused with [`EncryptedReasoning`].
#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TextPhase {
    pub(super) phase: Option<String>,
}

impl TextPhase {
    /// Reads a stored phase; `None` for any other opaque reasoning.
    pub(super) fn read(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }
}

impl ApiDecoder for ResponsesDecoder {
    fn decode_event(&mut self, event: &SseEvent, out: &mut EventQueue) -> DecodeResult {
        let Some(value) = parse_event(event)? else {
            return Ok(StreamProgress::Nothing);
        };
        match kind(&value, event)? {
            "response.created" => self.handle_created(&value["response"]),
            "response.output_item.added" => Ok(self.handle_item_added(&value, out)),
            "response.output_item.done" => self.handle_item_done(&value, &value["item"], out),
            "response.output_text.delta" => {
                let at = self
                    .items
                    .resolve_piece(&value, &WireItemKind::Message { has_text: false });
                self.push_text(at, needed_text(&value, "delta")?, out)
            }
            "response.output_text.annotation.added" => {
                push_citation(&value["annotation"], out);
                Ok(StreamProgress::Event)
            }
            "response.refusal.delta" => Ok(self.handle_refusal_delta(&value)),
            "response.reasoning_summary_part.added" => {
                let at = self.items.resolve_piece(&value, &WireItemKind::new_reasoning());
                if let WireItemKind::Reasoning { has_text, part } = &mut self.items.get(at).kind {
                    *part = *has_text;
                }
                Ok(StreamProgress::Event)
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                Ok(self.handle_reasoning_delta(&value, out))
            }
            "response.function_call_arguments.delta" => self.handle_arguments_delta(&value, false, out),
            "response.custom_tool_call_input.delta" => self.handle_arguments_delta(&value, true, out),
            "response.custom_tool_call_input.done" => self.handle_custom_input_done(&value, out),
            "response.completed" | "response.done" => self.handle_response_end(&value, "completed", out),
            "response.incomplete" => self.handle_response_end(&value, "incomplete", out),
            "response.failed" => self.handle_response_end(&value, "failed", out),
            "response.cancelled" => self.handle_response_end(&Value::Null, "cancelled", out),
            "keepalive" | "ping" => Ok(StreamProgress::Nothing),
            "error" => Err(DecodeError::Reported(event.data.clone())),
            _ if !value["error"].is_null() => Err(DecodeError::Reported(event.data.clone())),
            // The API may add new kinds of events.
            _ => Ok(StreamProgress::Event),
        }
    }
}

impl ResponsesDecoder {
    /// Creates the decoder of one answer to a request with these tools. An engine may have left thoughts in its text.
    pub(crate) fn new(tools: &[ToolSpec], may_have_thoughts: bool) -> Self {
        Self {
            freeform: FreeformFields::from_tools(tools),
            thoughts: ThoughtSplitter::new(may_have_thoughts),
            ..Self::default()
        }
    }

    /// Handles the start of a response. Some gateways send it twice. A different id begins another response, which
    /// voids the one before it.
    fn handle_created(&mut self, response: &Value) -> DecodeResult {
        let id = text(response, "id");
        let is_other = matches!((&self.id, id), (Some(first), Some(id)) if first != id);
        if is_other && !self.items.is_empty() {
            return Err(DecodeError::broken_stream(
                "the provider began another response in the middle of the answer",
            ));
        }
        self.id = id.map(str::to_owned).or(self.id.take());
        Ok(StreamProgress::Event)
    }

    fn handle_item_added(&mut self, event: &Value, out: &mut EventQueue) -> StreamProgress {
        let item = &event["item"];
        let kind = match text(item, "type") {
            Some("message") => WireItemKind::Message { has_text: false },
            Some("reasoning") => WireItemKind::new_reasoning(),
            Some("function_call" | CUSTOM_CALL) => WireItemKind::Call(None),
            Some(_) => WireItemKind::Other,
            // The end of the item reveals its type.
            None => return StreamProgress::Event,
        };
        let at = self.items.record_start(event, &kind);
        match kind {
            WireItemKind::Call(_) if text(item, "name").is_some() => {
                let tool = self.get_or_add_tool(at);
                self.tools[tool].is_freeform |= text(item, "type") == Some(CUSTOM_CALL);
                self.begin_tool_call(tool, item, out);
                StreamProgress::Content
            }
            _ => StreamProgress::Event,
        }
    }

    /// Returns the place of an item's tool call in `tools`.
    fn get_or_add_tool(&mut self, at: usize) -> usize {
        let next = self.tools.len();
        match &mut self.items.get(at).kind {
            WireItemKind::Call(Some(tool)) => *tool,
            kind => {
                *kind = WireItemKind::Call(Some(next));
                self.tools.push(StreamedCall::default());
                next
            }
        }
    }

    /// Begins a call once it has a name, with the input that arrived before.
    fn begin_tool_call(&mut self, at: usize, item: &Value, out: &mut EventQueue) {
        let index = at as u32;
        let name = text(item, "name").filter(|name| !name.is_empty());
        let tool = &mut self.tools[at];
        if let (Some(name), false) = (name, tool.has_started) {
            tool.has_started = true;
            let name = name.to_owned();
            let opening = tool.is_freeform.then(|| self.freeform.opening(&name));
            self.thoughts.flush(out);
            out.push(StreamEvent::ToolUseStarted { index, name });
            if let Some(opening) = opening {
                self.tools[at].opening = opening.len();
                self.push_tool_json(at, opening, out);
            }
            let tool = &mut self.tools[at];
            let early = std::mem::take(&mut tool.early);
            self.push_tool_input(at, early, out);
        }
        let tool = &mut self.tools[at];
        // The id may arrive after the name, but the attachment must follow the start.
        if let (Some(id), true, false) = (text(item, "call_id"), tool.has_started, tool.attached) {
            tool.attached = true;
            out.push(StreamEvent::ToolUseAttached {
                index,
                id: Some(id.to_owned()).filter(|id| !id.is_empty()),
                extra: None,
            });
        }
    }

    /// Pushes a piece of a message's text. The first piece follows the message's phase, and a break if another message
    /// had text.
    fn push_text(&mut self, at: usize, piece: &str, out: &mut EventQueue) -> DecodeResult {
        if piece.is_empty() {
            return Ok(StreamProgress::Event);
        }
        let WireItem { kind, phase, .. } = self.items.get(at);
        if matches!(kind, WireItemKind::Message { has_text: true }) {
            self.thoughts.push(piece, out);
            return Ok(StreamProgress::Content);
        }
        *kind = WireItemKind::Message { has_text: true };
        let phase = phase.clone();
        let follows = self.phase.is_some();
        // A message without a phase after one with a phase needs an empty marker, or it would inherit that phase.
        if phase.is_some() || self.phase.take().flatten().is_some() {
            let phase = TextPhase { phase: phase.clone() };
            out.push(StreamEvent::RedactedReasoning(json!(phase).to_string()));
        }
        self.phase = Some(phase);
        let text = if follows {
            format!("{BREAK}{piece}")
        } else {
            piece.to_owned()
        };
        self.thoughts.push(&text, out);
        Ok(StreamProgress::Content)
    }

    fn handle_refusal_delta(&mut self, event: &Value) -> StreamProgress {
        let at = self
            .items
            .resolve_piece(event, &WireItemKind::Message { has_text: false });
        // The refusal becomes the stop reason, so the whole item must not add its text again.
        self.items.get(at).kind = WireItemKind::Message { has_text: true };
        let words = text(event, "delta").unwrap_or_default();
        self.refusal.push_str(words);
        if words.is_empty() {
            StreamProgress::Event
        } else {
            StreamProgress::Content
        }
    }

    fn handle_reasoning_delta(&mut self, event: &Value, out: &mut EventQueue) -> StreamProgress {
        let piece = text(event, "delta").unwrap_or_default();
        if piece.is_empty() {
            return StreamProgress::Event;
        }
        self.thoughts.expect_text(out);
        let at = self.items.resolve_piece(event, &WireItemKind::new_reasoning());
        let kind = &mut self.items.get(at).kind;
        let divided = matches!(kind, WireItemKind::Reasoning { part: true, .. });
        *kind = WireItemKind::Reasoning {
            has_text: true,
            part: false,
        };
        let text = if divided {
            format!("{BREAK}{piece}")
        } else {
            piece.to_owned()
        };
        out.push_content(StreamEvent::Reasoning(text))
    }

    fn handle_arguments_delta(
        &mut self,
        event: &Value,
        is_custom: bool,
        out: &mut EventQueue,
    ) -> DecodeResult {
        let piece = if is_custom {
            needed_text(event, "delta")?.to_owned()
        } else {
            needed_input(event, "delta")?
        };
        let at = self.items.resolve_piece(event, &WireItemKind::Call(None));
        // Input of a tool that the server runs itself.
        if matches!(self.items.get(at).kind, WireItemKind::Other) {
            return Ok(StreamProgress::Event);
        }
        let tool = self.get_or_add_tool(at);
        if self.tools[tool].completed && !piece.is_empty() {
            return Err(DecodeError::broken_stream("a tool's input went on after its end"));
        }
        self.note_custom_call(tool, is_custom)?;
        Ok(self.push_tool_input(tool, piece, out))
    }

    /// Records that a call's input is plain text, which must be known before its input begins.
    fn note_custom_call(&mut self, tool: usize, is_custom: bool) -> DecodeResult<()> {
        let tool = &mut self.tools[tool];
        if is_custom && tool.has_started && !tool.is_freeform {
            return Err(DecodeError::broken_stream("the input of a function is not JSON"));
        }
        tool.is_freeform |= is_custom;
        Ok(())
    }

    /// Pushes a piece of a call's input: JSON, or the plain text of a custom tool.
    fn push_tool_input(&mut self, at: usize, piece: String, out: &mut EventQueue) -> StreamProgress {
        let tool = &mut self.tools[at];
        if !tool.has_started {
            tool.early.push_str(&piece);
            return StreamProgress::Event;
        }
        let json = if tool.is_freeform { escape(&piece) } else { piece };
        self.push_tool_json(at, json, out)
    }

    fn push_tool_json(&mut self, at: usize, json: String, out: &mut EventQueue) -> StreamProgress {
        self.tools[at].input.push(&json);
        out.push_content(StreamEvent::ToolInput {
            index: at as u32,
            json,
        })
    }

    /// Handles a whole item: pushes whatever did not arrive in pieces.
    fn handle_item_done(&mut self, event: &Value, item: &Value, out: &mut EventQueue) -> DecodeResult {
        let kind = match text(item, "type") {
            Some("message") => WireItemKind::Message { has_text: false },
            Some("reasoning") => WireItemKind::new_reasoning(),
            Some("function_call" | CUSTOM_CALL) => WireItemKind::Call(None),
            Some(_) => WireItemKind::Other,
            // Harmless if the content arrived in pieces; a call without its end is completed with the answer.
            None => return Ok(StreamProgress::Event),
        };
        let Some(at) = self.items.record_end(event, item, &kind) else {
            return Ok(StreamProgress::Event);
        };
        match kind {
            WireItemKind::Message { .. } => self.message_done(at, item, out),
            WireItemKind::Reasoning { .. } => Ok(self.reasoning_done(at, item, out)),
            WireItemKind::Call(_) if text(item, "type") == Some(CUSTOM_CALL) => {
                self.custom_call_done(at, item, out)
            }
            WireItemKind::Call(_) => self.call_done(at, item, out),
            WireItemKind::Other => Ok(self.other_done(item, out)),
        }
    }

    fn message_done(&mut self, at: usize, item: &Value, out: &mut EventQueue) -> DecodeResult {
        for part in optional_list(item, "content") {
            for annotation in optional_list(part, "annotations") {
                push_citation(annotation, out);
            }
        }
        if matches!(self.items.get(at).kind, WireItemKind::Message { has_text: true }) {
            return Ok(StreamProgress::Event);
        }
        let mut progress = StreamProgress::Event;
        for part in optional_list(item, "content") {
            self.refusal.push_str(text(part, "refusal").unwrap_or_default());
            progress = progress.max(self.push_text(at, needed_text(part, "text")?, out)?);
        }
        Ok(progress)
    }

    /// Counts the searches of the provider. Opening a found page is not one.
    fn other_done(&mut self, item: &Value, out: &mut EventQueue) -> StreamProgress {
        if text(item, "type") != Some("web_search_call") {
            return StreamProgress::Event;
        }
        if text(item, "status") == Some("failed") {
            out.push(StreamEvent::Search(SearchReport::Failed("failed".to_owned())));
        } else if text(&item["action"], "type").is_none_or(|action| action == "search") {
            self.searches = self.searches.saturating_add(1);
            out.push(StreamEvent::Search(SearchReport::Searches(self.searches)));
        }
        // The search takes a while, and nothing else shows that the provider is at work.
        StreamProgress::Content
    }

    fn reasoning_done(&mut self, at: usize, item: &Value, out: &mut EventQueue) -> StreamProgress {
        let mut has_text = matches!(
            self.items.get(at).kind,
            WireItemKind::Reasoning { has_text: true, .. }
        );
        if !has_text {
            let parts = optional_list(item, "summary")
                .iter()
                .chain(optional_list(item, "content"));
            let texts: Vec<&str> = parts.filter_map(|part| text(part, "text")).collect();
            let text = texts.join(BREAK);
            has_text = !text.is_empty();
            self.thoughts.expect_text(out);
            out.push_content(StreamEvent::Reasoning(text));
        }
        if let Some(encrypted) = text(item, "encrypted_content").filter(|content| !content.is_empty()) {
            let proof = EncryptedReasoning {
                id: text(item, "id").unwrap_or_default().to_owned(),
                encrypted: encrypted.to_owned(),
            };
            out.push(if has_text {
                StreamEvent::ReasoningSignature(proof.write())
            } else {
                StreamEvent::RedactedReasoning(proof.write())
            });
        }
        StreamProgress::Content
    }

    fn call_done(&mut self, at: usize, item: &Value, out: &mut EventQueue) -> DecodeResult {
        let at = self.get_or_add_tool(at);
        self.begin_tool_call(at, item, out);
        if self.tools[at].has_started && self.tools[at].input.is_empty() {
            let input = needed_input(item, "arguments")?;
            self.push_tool_input(at, input, out);
        } else if !self.tools[at]
            .input
            .agrees_with(text(item, "arguments").unwrap_or_default())
        {
            // Which version is right is unknown, so the call fails and is made again.
            return Err(DecodeError::broken_stream(
                "the pieces of a tool's input are not the whole of it",
            ));
        }
        let tool = &mut self.tools[at];
        let is_cut = text(item, "status") == Some("incomplete");
        if tool.has_started && !is_cut && tool.input.is_complete_json() {
            tool.completed = true;
            out.push(StreamEvent::ToolUseCompleted { index: at as u32 });
        }
        Ok(StreamProgress::Content)
    }

    fn custom_call_done(&mut self, at: usize, item: &Value, out: &mut EventQueue) -> DecodeResult {
        let at = self.get_or_add_tool(at);
        self.note_custom_call(at, true)?;
        self.begin_tool_call(at, item, out);
        self.settle_custom_input(at, item, out)?;
        self.tools[at].is_whole = text(item, "status") != Some("incomplete");
        self.complete_custom_call(at, out);
        Ok(StreamProgress::Content)
    }

    /// Handles the end of a custom tool's input, which comes before the end of its item.
    fn handle_custom_input_done(&mut self, event: &Value, out: &mut EventQueue) -> DecodeResult {
        let at = self.items.resolve_piece(event, &WireItemKind::Call(None));
        if matches!(self.items.get(at).kind, WireItemKind::Other) {
            return Ok(StreamProgress::Event);
        }
        let tool = self.get_or_add_tool(at);
        if !self.tools[tool].completed {
            self.note_custom_call(tool, true)?;
            self.settle_custom_input(tool, event, out)?;
            self.tools[tool].is_whole = true;
        }
        Ok(StreamProgress::Event)
    }

    /// Compares the pieces of a custom tool's input with the whole text in `holder`, or pushes that if there were none.
    fn settle_custom_input(&mut self, at: usize, holder: &Value, out: &mut EventQueue) -> DecodeResult<()> {
        let tool = &self.tools[at];
        let pieces = tool.input.text_from(tool.opening);
        if pieces.is_empty() && tool.early.is_empty() {
            let whole = needed_text(holder, "input")?.to_owned();
            self.push_tool_input(at, whole, out);
            return Ok(());
        }
        let whole = text(holder, "input").unwrap_or_default();
        if whole.is_empty() || pieces == escape(whole) || tool.early == whole {
            return Ok(());
        }
        Err(DecodeError::broken_stream(
            "the pieces of a tool's input are not the whole of it",
        ))
    }

    /// Completes a call of a custom tool if its text is known to be complete.
    fn complete_custom_call(&mut self, at: usize, out: &mut EventQueue) {
        let tool = &self.tools[at];
        if tool.is_freeform && tool.has_started && tool.is_whole && !tool.completed {
            self.tools[at].completed = true;
            self.push_tool_json(at, CLOSING.to_owned(), out);
            out.push(StreamEvent::ToolUseCompleted { index: at as u32 });
        }
    }

    /// Handles the end of the answer. `kind` is the status that the event implies if the response has none.
    fn handle_response_end(&mut self, event: &Value, kind: &str, out: &mut EventQueue) -> DecodeResult {
        let response = &event["response"];
        self.record_usage(&response["usage"], out);
        // Some servers announce no items and send them only here.
        if self.items.is_empty() {
            for item in optional_list(response, "output") {
                self.handle_item_done(&Value::Null, item, out)?;
            }
        }
        let stop = match text(response, "status").unwrap_or(kind) {
            "failed" => {
                let error = &response["error"];
                let reported_error = if error.is_null() {
                    event.clone()
                } else {
                    json!({"error": error})
                };
                return Err(DecodeError::Reported(reported_error.to_string()));
            }
            "cancelled" => return Err(DecodeError::broken_stream("the server aborted the answer")),
            "incomplete" => match text(&response["incomplete_details"], "reason") {
                Some("content_filter") => StopReason::Refusal(self.refusal_text()),
                // Any other reason means that the answer was cut.
                _ => StopReason::MaxTokens,
            },
            // "completed", and future statuses.
            _ if !self.tools.is_empty() => StopReason::ToolUse,
            _ if !self.refusal.is_empty() => StopReason::Refusal(self.refusal_text()),
            _ => StopReason::EndTurn,
        };
        if stop == StopReason::ToolUse && self.tools.iter().any(|tool| !tool.has_started) {
            return Err(DecodeError::broken_stream(
                "a tool call of the answer has no name",
            ));
        }
        if stop == StopReason::ToolUse {
            for at in 0..self.tools.len() {
                self.complete_custom_call(at, out);
            }
            // Nothing in plain text shows where it was cut.
            if self.tools.iter().any(|tool| tool.is_freeform && !tool.completed) {
                return Err(DecodeError::broken_stream("the input of a tool has no end"));
            }
        }
        self.thoughts.finish(&stop, out);
        let rest = self.tools.iter().enumerate();
        let rest = rest.filter(|(_, tool)| tool.has_started && !tool.completed);
        complete_tools(rest.map(|(at, tool)| (at as u32, &tool.input)), &stop, out);
        out.push(StreamEvent::Stop(stop));
        Ok(StreamProgress::Event)
    }

    fn refusal_text(&self) -> Option<String> {
        (!self.refusal.is_empty()).then(|| self.refusal.clone())
    }

    fn record_usage(&mut self, tokens: &Value, out: &mut EventQueue) {
        let (input, output) = (
            optional_number(tokens, "input_tokens"),
            optional_number(tokens, "output_tokens"),
        );
        if input.or(output).is_none() {
            return;
        }
        let cached = &tokens["input_tokens_details"];
        let (read, write) = (
            optional_number(cached, "cached_tokens").unwrap_or(0),
            optional_number(cached, "cache_write_tokens").unwrap_or(0),
        );
        let usage = Usage {
            // This API's input count includes cached tokens; ours does not.
            input: input.unwrap_or(0).saturating_sub(read.saturating_add(write)),
            output: output.unwrap_or(0),
            cache_read: read,
            cache_write: write,
        };
        if usage != self.usage {
            self.usage = usage;
            out.push(StreamEvent::Usage { usage, cost: None });
        }
    }
}

/// Pushes the page that the answer cites.
fn push_citation(annotation: &Value, out: &mut EventQueue) {
    if text(annotation, "type") == Some("url_citation")
        && let Some(source) = read_source(annotation, "url")
    {
        out.push(source);
    }
}
