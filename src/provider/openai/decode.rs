//! Decodes Chat Completions chunks in the many variants that servers send.
//!
//! Knows no server by name: each variant is recognized by its shape. Knows no bytes and no clock; see
//! `crate::provider::decode`.

use serde_json::{Value, json};

use super::opaque::OpaqueReasoning;
use crate::domain::{Cost, Usage};
use crate::provider::decode::{
    ApiDecoder, DecodeError, DecodeResult, EventQueue, StreamProgress, ToolInput, complete_tools,
};
use crate::provider::error::ProviderFault;
use crate::provider::fields::{
    needed_input, needed_object, needed_objects, needed_text, optional_number, parse_event, text,
};
use crate::provider::sse::SseEvent;
use crate::provider::stream::{StopReason, StreamEvent};
use crate::provider::thought_tags::ThoughtSplitter;

/// The state of one answer.
#[derive(Debug, Default)]
pub(crate) struct ChatDecoder {
    tools: Vec<ToolState>,
    refusal: String,
    opaque: OpaqueReasoning,
    thoughts: ThoughtSplitter,
    usage: Option<(Usage, Option<Cost>)>,
    finish: Option<StopReason>,
    has_content: bool,
    /// The current piece contained content.
    fresh: bool,
}

/// A tool call that is arriving.
#[derive(Debug, Default)]
struct ToolState {
    /// The server's index of the call, if it sends one.
    number: Option<u64>,
    /// The server's id of the call; may stay empty.
    id: String,
    /// Empty until it arrives.
    name: String,
    input: ToolInput,
    /// The name arrived again after the complete input.
    named_again: bool,
    /// Input that arrived before the name.
    early: String,
    /// Opaque data that the server requires back with the call.
    extra: Value,
}

impl ChatDecoder {
    /// Creates the decoder of an answer, in whose text an engine may have left thoughts.
    pub(crate) fn new(may_have_thoughts: bool) -> Self {
        Self {
            thoughts: ThoughtSplitter::new(may_have_thoughts),
            ..Self::default()
        }
    }
}

impl ApiDecoder for ChatDecoder {
    fn decode_event(&mut self, event: &SseEvent, out: &mut EventQueue) -> DecodeResult {
        if event.data.trim() == "[DONE]" {
            self.finish_answer(out)?;
            return Ok(StreamProgress::Event);
        }
        let Some(chunk) = parse_event(event)? else {
            return Ok(StreamProgress::Nothing);
        };
        if !chunk["error"].is_null() || chunk["object"] == "error" {
            return Err(DecodeError::Reported(event.data.clone()));
        }
        let mut progress = StreamProgress::Event;
        let mut usage = &chunk["usage"];
        for choice in needed_objects(&chunk, "choices")? {
            // We request one choice, so only the first is read.
            if optional_number(choice, "index").unwrap_or(0) == 0 {
                progress = progress.max(self.decode_choice(choice, &event.data, out)?);
            }
            // Moonshot sends the usage inside the choice.
            if !usage.is_object() {
                usage = &choice["usage"];
            }
        }
        self.record_usage(usage, out);
        Ok(progress)
    }

    fn finish_stream(&mut self, out: &mut EventQueue) -> DecodeResult<()> {
        if self.finish.is_none() {
            return Err(DecodeError::truncated_stream());
        }
        self.finish_answer(out)
    }

    fn may_end(&self) -> bool {
        self.finish.is_some()
    }
}

impl ChatDecoder {
    fn decode_choice(&mut self, choice: &Value, data: &str, out: &mut EventQueue) -> DecodeResult {
        let delta = needed_object(choice, "delta")?.filter(|delta| *delta != &json!({}));
        // Some servers answer with one whole message. With or after a piece it only repeats the content.
        let message = if delta.is_some() || self.has_content {
            None
        } else {
            needed_object(choice, "message")?
        };
        let progress = match delta.or(message) {
            Some(delta) => self.decode_delta(delta, out)?,
            None => StreamProgress::Event,
        };
        if let Some(reason) = text(choice, "finish_reason").filter(|reason| !reason.is_empty()) {
            self.finish = Some(self.stop_reason(reason, data)?);
        }
        Ok(progress)
    }

    fn decode_delta(&mut self, delta: &Value, out: &mut EventQueue) -> DecodeResult {
        self.fresh = false;
        // A piece may repeat its reasoning under several names; only the first is used.
        let thought = non_empty_text(&delta["reasoning_content"])
            .or_else(|| non_empty_text(&delta["reasoning"]))
            .or_else(|| join_entry_texts(&delta["reasoning_details"]));
        self.push_thought(thought, out);
        self.opaque.push_delta(delta);
        match &delta["content"] {
            Value::Array(parts) => self.decode_parts(parts, out)?,
            _ => self.push_text(needed_text(delta, "content")?, out),
        }
        self.refusal.push_str(text(delta, "refusal").unwrap_or_default());
        for call in needed_objects(delta, "tool_calls")? {
            let function = needed_object(call, "function")?.unwrap_or(&Value::Null);
            self.decode_tool_call(call, function, out)?;
        }
        // The deprecated form with a single call.
        if let Some(function) = needed_object(delta, "function_call")? {
            self.decode_tool_call(&json!({"index": 0}), function, out)?;
        }
        self.has_content |= self.fresh;
        Ok(if self.fresh {
            StreamProgress::Content
        } else {
            StreamProgress::Event
        })
    }

    /// Decodes content in parts, as Mistral's thinking models send it.
    fn decode_parts(&mut self, parts: &[Value], out: &mut EventQueue) -> DecodeResult<()> {
        for part in parts {
            if let Some(thinking) = part.get("thinking") {
                let text = non_empty_text(thinking).or_else(|| join_entry_texts(thinking));
                self.push_thought(text, out);
            } else {
                let holder = json!({"content": part});
                let part_text = if part.is_object() {
                    needed_text(part, "text")?
                } else {
                    needed_text(&holder, "content")?
                };
                self.push_text(part_text, out);
            }
        }
        Ok(())
    }

    fn push_text(&mut self, text: &str, out: &mut EventQueue) {
        self.fresh |= !text.is_empty();
        self.thoughts.push(text, out);
    }

    fn push_thought(&mut self, text: Option<String>, out: &mut EventQueue) {
        if text.is_some() {
            self.thoughts.expect_text(out);
        }
        self.push_content(text.map(StreamEvent::Reasoning), out);
    }

    fn push_content(&mut self, event: Option<StreamEvent>, out: &mut EventQueue) {
        if let Some(event) = event {
            self.fresh = true;
            out.push(event);
        }
    }

    fn decode_tool_call(&mut self, call: &Value, function: &Value, out: &mut EventQueue) -> DecodeResult<()> {
        let name = text(function, "name").unwrap_or_default();
        let mut piece = needed_input(function, "arguments")?;
        let (sent, id) = (
            optional_number(call, "index"),
            text(call, "id").unwrap_or_default(),
        );
        let (at, name) = self.resolve_tool_call(sent, id, name, &piece);
        let tool = &mut self.tools[at];
        let index = at as u32;
        if call["extra_content"].is_object() {
            tool.extra = call["extra_content"].clone();
        }
        if !name.is_empty() && tool.name.is_empty() {
            name.clone_into(&mut tool.name);
            piece.insert_str(0, &std::mem::take(&mut tool.early));
            self.fresh = true;
            self.thoughts.flush(out);
            out.push(StreamEvent::ToolUseStarted { index, name });
        }
        if tool.name.is_empty() {
            tool.early.push_str(&piece);
        } else if !piece.is_empty() {
            tool.input.push(&piece);
            self.push_content(Some(StreamEvent::ToolInput { index, json: piece }), out);
        }
        Ok(())
    }

    /// Returns the call that a piece belongs to (by its index, otherwise its id, otherwise the last call), and the name
    /// that it brings.
    fn resolve_tool_call(
        &mut self,
        number: Option<u64>,
        id: &str,
        name: &str,
        piece: &str,
    ) -> (usize, String) {
        let known = match (number, id) {
            // From the end: a server that sends index 0 for every call means the latest.
            (Some(number), _) => self.tools.iter().rposition(|tool| tool.number == Some(number)),
            // A name without an index or id begins a new call.
            (None, "") if !name.is_empty() => None,
            (None, "") => self.tools.len().checked_sub(1),
            (None, id) => self.tools.iter().rposition(|tool| tool.id == id),
        };
        let mut name = name.to_owned();
        if let Some(at) = known {
            let tool = &mut self.tools[at];
            if !tool.is_followed_by(id, &name, piece) {
                tool.named_again |= tool.name == name && tool.input.is_complete_json();
                if tool.id.is_empty() {
                    id.clone_into(&mut tool.id);
                }
                return (at, name);
            }
            if name.is_empty() {
                name.clone_from(&tool.name);
            }
        }
        self.tools.push(ToolState {
            number,
            id: id.to_owned(),
            ..ToolState::default()
        });
        (self.tools.len() - 1, name)
    }

    fn stop_reason(&self, reason: &str, data: &str) -> DecodeResult<StopReason> {
        Ok(match reason {
            // Also in the words of the providers behind gateways: GLM, Gemini, Bedrock.
            _ if is_filter(reason) => {
                StopReason::Refusal((!self.refusal.is_empty()).then(|| self.refusal.clone()))
            }
            "length" | "max_tokens" | "model_length" => StopReason::MaxTokens,
            "error" => return Err(DecodeError::Reported(data.to_owned())),
            "insufficient_system_resource" => {
                return Err(DecodeError::Failed(
                    ProviderFault::Overloaded,
                    "the provider ran out of resources".to_owned(),
                ));
            }
            "abort" => return Err(DecodeError::broken_stream("the server aborted the answer")),
            // Several servers send "stop" where they mean "tool_calls".
            _ if self.calls_tools() => StopReason::ToolUse,
            _ if !self.refusal.is_empty() => StopReason::Refusal(Some(self.refusal.clone())),
            _ => StopReason::EndTurn,
        })
    }

    fn calls_tools(&self) -> bool {
        self.tools.iter().any(|tool| !tool.name.is_empty())
    }

    fn record_usage(&mut self, tokens: &Value, out: &mut EventQueue) {
        let (total, output) = (
            optional_number(tokens, "total_tokens"),
            optional_number(tokens, "completion_tokens"),
        );
        let prompt = optional_number(tokens, "prompt_tokens").or_else(|| total?.checked_sub(output?));
        let cost = parse_cost(&tokens["cost"]).map(Cost::from_usd);
        // A piece without counts must not reset the usage to zero.
        if prompt.or(output).is_none() && cost.is_none() {
            return;
        }
        let prompt = prompt.unwrap_or(0);
        let details = &tokens["prompt_tokens_details"];
        // DeepSeek uses the second name, and Moonshot has the first one outside of the details.
        let read = optional_number(details, "cached_tokens")
            .or_else(|| optional_number(tokens, "prompt_cache_hit_tokens"))
            .or_else(|| optional_number(tokens, "cached_tokens"));
        let (read, write) = (
            read.unwrap_or(0),
            optional_number(details, "cache_write_tokens").unwrap_or(0),
        );
        // If the completion count excludes reasoning, the total still includes it.
        let rest = total.unwrap_or(0).saturating_sub(prompt);
        let usage = Usage {
            // This API's prompt count includes cached tokens; ours does not.
            input: prompt.saturating_sub(read.saturating_add(write)),
            output: output.unwrap_or(0).max(rest),
            cache_read: read,
            cache_write: write,
        };
        if self.usage != Some((usage, cost)) {
            self.usage = Some((usage, cost));
            out.push(StreamEvent::Usage { usage, cost });
        }
    }

    /// Ends the answer: the server sent its closing marker, or the body ended after a finish reason.
    fn finish_answer(&mut self, out: &mut EventQueue) -> DecodeResult<()> {
        if self.tools.iter().any(ToolState::lacks_name) {
            return Err(DecodeError::broken_stream(
                "a tool call of the answer has no name",
            ));
        }
        let stop = match self.finish.take() {
            Some(StopReason::EndTurn) if self.calls_tools() => StopReason::ToolUse,
            Some(stop) => stop,
            // Without a reason, an answer with content and only complete tool inputs counts as complete.
            None => {
                let inputs_are_complete = self.tools.iter().all(|tool| tool.input.is_complete_json());
                if !self.has_content || !inputs_are_complete {
                    return Err(DecodeError::broken_stream("the stream ended without a reason"));
                }
                if self.calls_tools() {
                    StopReason::ToolUse
                } else {
                    StopReason::EndTurn
                }
            }
        };
        self.thoughts.finish(&stop, out);
        let named = || {
            let tools = self.tools.iter().enumerate();
            tools
                .filter(|(_, tool)| !tool.name.is_empty())
                .map(|(at, tool)| (at as u32, tool))
        };
        for (index, tool) in named() {
            tool.push_attachment(index, out);
        }
        complete_tools(named().map(|(index, tool)| (index, &tool.input)), &stop, out);
        if let Some(opaque) = self.opaque.take() {
            out.push(StreamEvent::RedactedReasoning(opaque));
        }
        out.push(StreamEvent::Stop(stop));
        Ok(())
    }
}

impl ToolState {
    /// Reports whether a piece begins another call although it has this call's index or id. Some servers send index 0
    /// or the same id for every call. Such a piece names another tool, has another id, or brings input although this
    /// call's input is complete.
    fn is_followed_by(&self, id: &str, name: &str, piece: &str) -> bool {
        let goes_on = self.input.is_complete_json() && !piece.trim().is_empty();
        if name.is_empty() || self.name.is_empty() {
            return goes_on && self.named_again;
        }
        let has_other_id = !id.is_empty() && !self.id.is_empty() && self.id != id;
        has_other_id || name != self.name || goes_on
    }

    fn lacks_name(&self) -> bool {
        self.name.is_empty() && !(self.id.is_empty() && self.early.is_empty())
    }

    fn push_attachment(&self, index: u32, out: &mut EventQueue) {
        let id = (!self.id.is_empty()).then(|| self.id.clone());
        let extra = Some(&self.extra).filter(|extra| !extra.is_null()).cloned();
        if id.is_some() || extra.is_some() {
            out.push(StreamEvent::ToolUseAttached { index, id, extra });
        }
    }
}

/// Returns whether a finish reason says that a filter, or the model itself, has declined.
fn is_filter(reason: &str) -> bool {
    #[rustfmt::skip]
    const REASONS: [&str; 12] = [
        "content_filter", "content_filtered", "refusal", "sensitive", "safety", "image_safety",
        "prohibited_content", "blocklist", "spii", "recitation", "guardrail_intervened", "guardrails",
    ];
    REASONS.iter().any(|filter| reason.eq_ignore_ascii_case(filter))
}

/// Parses a cost in US dollars: a number (OpenRouter), or an object with the total (Perplexity).
fn parse_cost(cost: &Value) -> Option<f64> {
    cost.as_f64()
        .or_else(|| cost["total_cost"].as_f64())
        .filter(|cost| cost.is_finite() && *cost >= 0.0)
}

/// Returns a text that is not empty.
fn non_empty_text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Joins the texts of OpenRouter's reasoning details or Mistral's thinking parts.
fn join_entry_texts(value: &Value) -> Option<String> {
    let entries = value.as_array()?;
    let text: String = entries
        .iter()
        .filter_map(|entry| entry["text"].as_str().or_else(|| entry["summary"].as_str()))
        .collect();
    (!text.is_empty()).then_some(text)
}
