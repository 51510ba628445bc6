//! Decodes the events of the Messages API.
//!
//! Tolerates what gateways change: repeated starts, missing or reused indexes, missing stops. Tool calls complete
//! only with valid JSON, or at a regular end of the answer. Knows no bytes and no clock; see `crate::provider::decode`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use crate::domain::Usage;
use crate::provider::decode::{
    ApiDecoder, DecodeError, DecodeResult, EventQueue, StreamProgress, ToolInput, complete_tools,
};
use crate::provider::fields::{
    kind, needed_input, needed_object, needed_text, optional_number, parse_event, read_source, text,
};
use crate::provider::sse::SseEvent;
use crate::provider::stream::{SearchReport, StopReason, StreamEvent};
use crate::provider::thought_tags::ThoughtSplitter;

/// The state of one answer.
#[derive(Debug, Default)]
pub(crate) struct MessagesDecoder {
    started: bool,
    /// The id of the message, if the server sends one.
    id: Option<String>,
    /// Our index for each index of the server. If the server reuses one, it maps to the later block.
    indexes: HashMap<u64, u32>,
    /// The block that began last.
    last: Option<u32>,
    blocks: BTreeMap<u32, StreamBlock>,
    tools: BTreeMap<u32, ToolInput>,
    completed: BTreeSet<u32>,
    usage: Usage,
    searches: u64,
    thoughts: ThoughtSplitter,
    stop: Option<StopReason>,
}

/// A block that has begun but not ended.
#[derive(Debug)]
enum StreamBlock {
    Thinking { signature: String },
    Tool { full_input: Option<String> },
    Other,
}

impl MessagesDecoder {
    /// Creates the decoder of an answer, in whose text an engine may have left thoughts.
    pub(crate) fn new(may_have_thoughts: bool) -> Self {
        Self {
            thoughts: ThoughtSplitter::new(may_have_thoughts),
            ..Self::default()
        }
    }
}

impl ApiDecoder for MessagesDecoder {
    fn decode_event(&mut self, event: &SseEvent, out: &mut EventQueue) -> DecodeResult {
        let Some(value) = parse_event(event)? else {
            return Ok(StreamProgress::Nothing);
        };
        match kind(&value, event)? {
            "message_start" => self.message_started(&value["message"], out),
            "content_block_start" => self.block_started(&value, out),
            "content_block_delta" => self.decode_delta(&value, out),
            "content_block_stop" => {
                if let Some(index) = self.index_of(&value).or(self.last) {
                    self.block_ended(index, out);
                }
                Ok(StreamProgress::Event)
            }
            "message_delta" => {
                self.record_usage(&value["usage"], out);
                let delta = &value["delta"];
                if let Some(reason) = text(delta, "stop_reason").filter(|reason| !reason.is_empty()) {
                    self.stop = Some(stop_reason(reason, &delta["stop_details"]));
                }
                Ok(StreamProgress::Event)
            }
            "message_stop" => {
                self.finish_answer(out);
                Ok(StreamProgress::Event)
            }
            "ping" => Ok(StreamProgress::Nothing),
            "error" => Err(DecodeError::Reported(event.data.clone())),
            _ if !value["error"].is_null() => Err(DecodeError::Reported(event.data.clone())),
            // The API may add new kinds of events.
            _ => Ok(StreamProgress::Event),
        }
    }

    /// Ends the answer. After a stop reason it is complete, even without its last event.
    fn finish_stream(&mut self, out: &mut EventQueue) -> DecodeResult<()> {
        if self.stop.is_none() {
            return Err(DecodeError::truncated_stream());
        }
        self.finish_answer(out);
        Ok(())
    }

    fn may_end(&self) -> bool {
        self.stop.is_some()
    }
}

impl MessagesDecoder {
    /// Handles the start of a message. Some gateways send it twice. A different id begins another message, which voids
    /// the one before it.
    fn message_started(&mut self, message: &Value, out: &mut EventQueue) -> DecodeResult {
        let id = text(message, "id");
        let is_other = matches!((&self.id, id), (Some(first), Some(id)) if first != id);
        if is_other && self.last.is_some() {
            // The first message may already be on screen, so the call fails and is made again (R-PROV-3).
            return Err(DecodeError::broken_stream(
                "the provider began another message in the middle of the answer",
            ));
        }
        if is_other {
            *self = Self::default();
        }
        if !std::mem::replace(&mut self.started, true) {
            self.id = id.map(str::to_owned);
            self.record_usage(&message["usage"], out);
        }
        Ok(StreamProgress::Event)
    }

    /// Records the usage. Counts are totals so far; an absent one has not changed.
    fn record_usage(&mut self, tokens: &Value, out: &mut EventQueue) {
        let before = self.usage;
        for (total, field) in [
            (&mut self.usage.input, "input_tokens"),
            (&mut self.usage.output, "output_tokens"),
            (&mut self.usage.cache_read, "cache_read_input_tokens"),
            (&mut self.usage.cache_write, "cache_creation_input_tokens"),
        ] {
            *total = optional_number(tokens, field).unwrap_or(*total);
        }
        if self.usage != before {
            out.push(StreamEvent::Usage {
                usage: self.usage,
                cost: None,
            });
        }
        let searches = optional_number(&tokens["server_tool_use"], "web_search_requests");
        if let Some(searches) = searches.filter(|count| *count > self.searches) {
            self.searches = searches;
            let searches = u32::try_from(searches).unwrap_or(u32::MAX);
            out.push(StreamEvent::Search(SearchReport::Searches(searches)));
        }
    }

    fn block_started(&mut self, event: &Value, out: &mut EventQueue) -> DecodeResult {
        let Some(block) = needed_object(event, "content_block")? else {
            return Err(DecodeError::broken_stream(
                "a block of the answer began without its content",
            ));
        };
        let index = self.next_index(optional_number(event, "index"));
        let mut progress = StreamProgress::Event;
        let open = match needed_text(block, "type")? {
            "text" => {
                progress = self.push_text(needed_text(block, "text")?, out);
                StreamBlock::Other
            }
            "thinking" => {
                self.thoughts.expect_text(out);
                let thinking = text(block, "thinking").unwrap_or_default();
                progress = out.push_content(StreamEvent::Reasoning(thinking.to_owned()));
                let signature = text(block, "signature").unwrap_or_default().to_owned();
                StreamBlock::Thinking { signature }
            }
            "redacted_thinking" => {
                self.thoughts.expect_text(out);
                if let Some(data) = text(block, "data") {
                    out.push(StreamEvent::RedactedReasoning(data.to_owned()));
                    progress = StreamProgress::Content;
                }
                StreamBlock::Other
            }
            "tool_use" => {
                progress = StreamProgress::Content;
                self.tool_started(index, block, out)?
            }
            "server_tool_use" => {
                // The search takes a while, and nothing else shows that the provider is at work.
                progress = StreamProgress::Content;
                StreamBlock::Other
            }
            "web_search_tool_result" => {
                push_search_result(&block["content"], out);
                progress = StreamProgress::Content;
                StreamBlock::Other
            }
            "" => return Err(DecodeError::broken_stream("a block of the answer has no type")),
            _ => StreamBlock::Other,
        };
        self.blocks.insert(index, open);
        Ok(progress)
    }

    /// Pushes a piece of text. Engines without a reasoning parser leave thoughts in it.
    fn push_text(&mut self, piece: &str, out: &mut EventQueue) -> StreamProgress {
        if piece.is_empty() {
            return StreamProgress::Event;
        }
        self.thoughts.push(piece, out);
        StreamProgress::Content
    }

    /// Returns a free index: the server's own, unless it reuses one or sends none.
    fn next_index(&mut self, sent: Option<u64>) -> u32 {
        let free = |index: &u32| !self.blocks.contains_key(index) && !self.tools.contains_key(index);
        let index = sent
            .and_then(|sent| u32::try_from(sent).ok())
            .filter(free)
            .or_else(|| (0..=u32::MAX).find(free))
            .unwrap_or_default();
        self.last = Some(index);
        if let Some(sent) = sent {
            self.indexes.insert(sent, index);
        }
        index
    }

    /// Returns the block that an event refers to; without an index, the one that began last.
    fn index_of(&self, event: &Value) -> Option<u32> {
        match optional_number(event, "index") {
            Some(sent) => self.indexes.get(&sent).copied(),
            None => self.last,
        }
    }

    fn tool_started(&mut self, index: u32, block: &Value, out: &mut EventQueue) -> DecodeResult<StreamBlock> {
        let Some(name) = text(block, "name").filter(|name| !name.is_empty()) else {
            return Err(DecodeError::broken_stream(
                "a tool call of the answer has no name",
            ));
        };
        let name = name.to_owned();
        self.thoughts.flush(out);
        out.push(StreamEvent::ToolUseStarted { index, name });
        if let Some(id) = text(block, "id").filter(|id| !id.is_empty()) {
            out.push(StreamEvent::ToolUseAttached {
                index,
                id: Some(id.to_owned()),
                extra: None,
            });
        }
        self.tools.insert(index, ToolInput::default());
        // Usually an empty placeholder. Some servers send the whole input here, which is used if no pieces follow.
        let full_input = match &block["input"] {
            Value::Null => None,
            Value::Object(input) if input.is_empty() => None,
            Value::String(json) => Some(json.clone()),
            other => Some(other.to_string()),
        };
        Ok(StreamBlock::Tool { full_input })
    }

    fn decode_delta(&mut self, event: &Value, out: &mut EventQueue) -> DecodeResult {
        let Some(delta) = needed_object(event, "delta")? else {
            return Ok(StreamProgress::Event);
        };
        Ok(match needed_text(delta, "type")? {
            "text_delta" => self.push_text(needed_text(delta, "text")?, out),
            "thinking_delta" => {
                let thinking = text(delta, "thinking").unwrap_or_default();
                out.push_content(StreamEvent::Reasoning(thinking.to_owned()))
            }
            "signature_delta" => {
                let at = self.index_of(event).and_then(|index| self.blocks.get_mut(&index));
                if let Some(StreamBlock::Thinking { signature }) = at {
                    signature.push_str(text(delta, "signature").unwrap_or_default());
                }
                StreamProgress::Event
            }
            "citations_delta" => {
                push_source(&delta["citation"], out);
                StreamProgress::Event
            }
            "input_json_delta" => self.tool_input(event, needed_input(delta, "partial_json")?, out)?,
            "" => return Err(DecodeError::broken_stream("a piece of the answer has no type")),
            _ => StreamProgress::Event,
        })
    }

    fn tool_input(&mut self, event: &Value, json: String, out: &mut EventQueue) -> DecodeResult {
        let index = self.index_of(event);
        let tool = index.and_then(|index| Some((index, self.tools.get_mut(&index)?)));
        match tool {
            Some((index, input)) if !self.completed.contains(&index) => {
                input.push(&json);
                Ok(out.push_content(StreamEvent::ToolInput { index, json }))
            }
            Some(_) if json.is_empty() => Ok(StreamProgress::Event),
            Some(_) => Err(DecodeError::broken_stream("a tool's input went on after its end")),
            // Input of a tool that the server runs itself.
            None if index.is_some_and(|index| self.blocks.contains_key(&index)) => Ok(StreamProgress::Event),
            None => Err(DecodeError::broken_stream("a tool's input came before its name")),
        }
    }

    fn block_ended(&mut self, index: u32, out: &mut EventQueue) {
        match self.blocks.remove(&index) {
            Some(StreamBlock::Thinking { signature }) if !signature.is_empty() => {
                out.push(StreamEvent::ReasoningSignature(signature));
            }
            Some(StreamBlock::Tool { full_input }) => {
                let Some(input) = self.tools.get_mut(&index) else {
                    return;
                };
                if let (true, Some(json)) = (input.is_empty(), full_input) {
                    input.push(&json);
                    out.push(StreamEvent::ToolInput { index, json });
                }
                // Incomplete input waits for the end of the answer, which shows whether it was cut.
                if input.is_complete_json() {
                    self.completed.insert(index);
                    out.push(StreamEvent::ToolUseCompleted { index });
                }
            }
            Some(StreamBlock::Thinking { .. } | StreamBlock::Other) | None => {}
        }
    }

    fn finish_answer(&mut self, out: &mut EventQueue) {
        // Some servers never end their last blocks.
        let open: Vec<u32> = self.blocks.keys().copied().collect();
        for index in open {
            self.block_ended(index, out);
        }
        let stop = match (self.stop.take(), self.tools.is_empty()) {
            (Some(StopReason::EndTurn) | None, false) => StopReason::ToolUse,
            // Without a tool call nothing would run and the turn could not continue.
            (Some(StopReason::ToolUse) | None, true) => StopReason::EndTurn,
            (Some(stop), _) => stop,
        };
        self.thoughts.finish(&stop, out);
        let rest = self
            .tools
            .iter()
            .filter(|(index, _)| !self.completed.contains(index));
        complete_tools(rest.map(|(index, input)| (*index, input)), &stop, out);
        out.push(StreamEvent::Stop(stop));
    }
}

/// Pushes the pages that a search of the provider found, or the reason why it failed.
fn push_search_result(content: &Value, out: &mut EventQueue) {
    match content {
        Value::Array(results) => results.iter().for_each(|result| push_source(result, out)),
        failure => {
            if let Some(code) = text(failure, "error_code") {
                out.push(StreamEvent::Search(SearchReport::Failed(code.to_owned())));
            }
        }
    }
}

fn push_source(page: &Value, out: &mut EventQueue) {
    if let Some(source) = read_source(page, "url") {
        out.push(source);
    }
}

fn stop_reason(reason: &str, details: &Value) -> StopReason {
    match reason {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal(text(details, "explanation").map(str::to_owned)),
        "pause_turn" => StopReason::PauseTurn,
        "model_context_window_exceeded" => StopReason::WindowFull,
        // "end_turn", "stop_sequence", and future reasons.
        _ => StopReason::EndTurn,
    }
}
