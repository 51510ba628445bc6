//! Decodes the lines of Ollama's API: each is a piece of the message, the last one has the counts. Calls arrive whole.
//! Knows no bytes and no clock; see `crate::provider::decode`.

use serde_json::Value;

use crate::domain::Usage;
use crate::provider::decode::{ApiDecoder, DecodeError, DecodeResult, EventQueue, StreamProgress};
use crate::provider::fields::{
    needed_input, needed_object, needed_objects, needed_text, optional_number, parse_event, text,
};
use crate::provider::sse::SseEvent;
use crate::provider::stream::{StopReason, StreamEvent};
use crate::provider::thought_tags::ThoughtSplitter;

/// The state of one answer.
#[derive(Debug, Default)]
pub(crate) struct OllamaDecoder {
    calls: u32,
    thoughts: ThoughtSplitter,
}

impl ApiDecoder for OllamaDecoder {
    fn decode_event(&mut self, event: &SseEvent, out: &mut EventQueue) -> DecodeResult {
        let Some(value) = parse_event(event)? else {
            return Ok(StreamProgress::Nothing);
        };
        if !value["error"].is_null() {
            return Err(DecodeError::Reported(event.data.clone()));
        }
        let mut progress = StreamProgress::Event;
        if let Some(message) = needed_object(&value, "message")? {
            let thinking = text(message, "thinking").unwrap_or_default();
            let content = needed_text(message, "content")?;
            if !thinking.is_empty() {
                self.thoughts.expect_text(out);
                out.push(StreamEvent::Reasoning(thinking.to_owned()));
                progress = StreamProgress::Content;
            }
            if !content.is_empty() {
                self.thoughts.push(content, out);
                progress = StreamProgress::Content;
            }
            for call in needed_objects(message, "tool_calls")? {
                self.push_call(call, out)?;
                progress = StreamProgress::Content;
            }
        }
        if value["done"] == true {
            self.finish_answer(&value, out);
        }
        Ok(progress)
    }
}

impl OllamaDecoder {
    fn push_call(&mut self, call: &Value, out: &mut EventQueue) -> DecodeResult<()> {
        let function = needed_object(call, "function")?.unwrap_or(&Value::Null);
        let Some(name) = text(function, "name").filter(|name| !name.is_empty()) else {
            return Err(DecodeError::broken_stream(
                "a tool call of the answer has no name",
            ));
        };
        let arguments = needed_input(function, "arguments")?;
        let index = self.calls;
        self.calls += 1;
        self.thoughts.flush(out);
        out.push(StreamEvent::ToolUseStarted {
            index,
            name: name.to_owned(),
        });
        out.push(StreamEvent::ToolUseAttached {
            index,
            id: text(call, "id").filter(|id| !id.is_empty()).map(str::to_owned),
            extra: None,
        });
        out.push(StreamEvent::ToolInput {
            index,
            json: if arguments.is_empty() {
                "{}".to_owned()
            } else {
                arguments
            },
        });
        out.push(StreamEvent::ToolUseCompleted { index });
        Ok(())
    }

    fn finish_answer(&mut self, last: &Value, out: &mut EventQueue) {
        let stop = match text(last, "done_reason") {
            Some("length") => StopReason::MaxTokens,
            // "stop", and future reasons.
            _ if self.calls > 0 => StopReason::ToolUse,
            _ => StopReason::EndTurn,
        };
        self.thoughts.finish(&stop, out);
        let usage = Usage {
            input: optional_number(last, "prompt_eval_count").unwrap_or(0),
            output: optional_number(last, "eval_count").unwrap_or(0),
            ..Usage::default()
        };
        if usage != Usage::default() {
            out.push(StreamEvent::Usage { usage, cost: None });
        }
        out.push(StreamEvent::Stop(stop));
    }
}
