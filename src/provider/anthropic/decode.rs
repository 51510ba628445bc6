//! The Messages API's events.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::domain::Usage;
use crate::provider::decode::{ApiDecoder, Out, Progress, ToolInput, Wrong, complete_tools};
use crate::provider::sse::SseEvent;
use crate::provider::stream::{StopReason, StreamEvent};

/// What has come of an answer.
#[derive(Debug, Default)]
pub(crate) struct MessagesDecoder {
    started: bool,
    blocks: BTreeMap<u32, Open>,
    tools: BTreeMap<u32, ToolInput>,
    completed: Vec<u32>,
    usage: Usage,
    stop: Option<StopReason>,
    stopped: bool,
}

/// A block that has begun and not ended.
#[derive(Debug)]
enum Open {
    Thinking { signature: String },
    Tool { whole: Option<Value> },
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: u32,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u32,
        delta: Delta,
    },
    ContentBlockStop {
        index: u32,
    },
    MessageDelta {
        delta: End,
        #[serde(default)]
        usage: Option<Tokens>,
    },
    MessageStop {},
    Ping {},
    Error {},
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    usage: Option<Tokens>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: String,
    },
    RedactedThinking {
        #[serde(default)]
        data: String,
    },
    ToolUse {
        name: String,
        #[serde(default)]
        input: Value,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
#[expect(clippy::enum_variant_names, reason = "the API's words")]
enum Delta {
    #[serde(rename = "text_delta")]
    TextDelta { text: String },
    #[serde(rename = "thinking_delta")]
    ThinkingDelta { thinking: String },
    #[serde(rename = "signature_delta")]
    SignatureDelta { signature: String },
    #[serde(rename = "input_json_delta")]
    InputJsonDelta { partial_json: String },
    #[serde(other)]
    UnknownDelta,
}

#[derive(Deserialize)]
struct End {
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    stop_details: Option<Value>,
}

/// Counts are the answer's so far; what is absent has not changed.
#[derive(Deserialize)]
struct Tokens {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
}

impl ApiDecoder for MessagesDecoder {
    fn event(&mut self, event: &SseEvent, out: &mut Out) -> Result<Progress, Wrong> {
        let data = event.data.trim();
        if data.is_empty() || data == "[DONE]" {
            return Ok(Progress::Nothing);
        }
        let parsed = match serde_json::from_str(data) {
            Ok(parsed) => parsed,
            Err(error) => return not_an_event(data, &error),
        };
        match parsed {
            Event::MessageStart { message } => {
                // Some gateways send it twice.
                if !std::mem::replace(&mut self.started, true) {
                    self.count(message.usage, out);
                }
                Ok(Progress::Event)
            }
            Event::ContentBlockStart { index, content_block } => {
                Ok(self.block_started(index, content_block, out))
            }
            Event::ContentBlockDelta { index, delta } => self.delta(index, delta, out),
            Event::ContentBlockStop { index } => {
                self.block_ended(index, out);
                Ok(Progress::Event)
            }
            Event::MessageDelta { delta, usage } => {
                self.count(usage, out);
                if let Some(reason) = delta.stop_reason {
                    self.stop = Some(stop_reason(&reason, delta.stop_details.as_ref()));
                }
                Ok(Progress::Event)
            }
            Event::MessageStop {} => {
                self.finish(out);
                Ok(Progress::Event)
            }
            Event::Ping {} => Ok(Progress::Nothing),
            Event::Error {} => Err(Wrong::Told(data.to_owned())),
            // New kinds of events come to be.
            Event::Unknown => Ok(Progress::Event),
        }
    }

    fn end(&mut self, _out: &mut Out) -> Result<(), Wrong> {
        Err(Wrong::broken("the stream ended in the middle of the answer"))
    }

    fn has_stopped(&self) -> bool {
        self.stopped
    }
}

/// Gateways send errors without the type that makes them events.
fn not_an_event(data: &str, error: &serde_json::Error) -> Result<Progress, Wrong> {
    let told = serde_json::from_str::<Value>(data).is_ok_and(|value| value.get("error").is_some());
    Err(match told {
        true => Wrong::Told(data.to_owned()),
        false => Wrong::broken(format!("an event of the stream is not as it should be: {error}")),
    })
}

impl MessagesDecoder {
    fn count(&mut self, tokens: Option<Tokens>, out: &mut Out) {
        let Some(tokens) = tokens else { return };
        let before = self.usage;
        let set = |field: &mut u64, count: Option<u64>| *field = count.unwrap_or(*field);
        set(&mut self.usage.input, tokens.input_tokens);
        set(&mut self.usage.output, tokens.output_tokens);
        set(&mut self.usage.cache_read, tokens.cache_read_input_tokens);
        set(&mut self.usage.cache_write, tokens.cache_creation_input_tokens);
        if self.usage != before {
            out.push(StreamEvent::Usage {
                usage: self.usage,
                cost: None,
            });
        }
    }

    fn block_started(&mut self, index: u32, block: Block, out: &mut Out) -> Progress {
        let mut progress = Progress::Event;
        let open = match block {
            Block::Text { text } => {
                progress = say(StreamEvent::Text(text), out);
                Open::Other
            }
            Block::Thinking { thinking, signature } => {
                progress = say(StreamEvent::Reasoning(thinking), out);
                Open::Thinking { signature }
            }
            Block::RedactedThinking { data } => {
                out.push(StreamEvent::RedactedReasoning(data));
                progress = Progress::Content;
                Open::Other
            }
            Block::ToolUse { name, input } => {
                out.push(StreamEvent::ToolUseStarted { index, name });
                self.tools.insert(index, ToolInput::default());
                progress = Progress::Content;
                let given = input.as_object().is_some_and(|input| !input.is_empty());
                Open::Tool {
                    whole: given.then_some(input),
                }
            }
            Block::Unknown => Open::Other,
        };
        self.blocks.insert(index, open);
        progress
    }

    fn delta(&mut self, index: u32, delta: Delta, out: &mut Out) -> Result<Progress, Wrong> {
        Ok(match delta {
            Delta::TextDelta { text } => say(StreamEvent::Text(text), out),
            Delta::ThinkingDelta { thinking } => say(StreamEvent::Reasoning(thinking), out),
            Delta::SignatureDelta { signature: piece } => {
                if let Some(Open::Thinking { signature }) = self.blocks.get_mut(&index) {
                    signature.push_str(&piece);
                }
                Progress::Event
            }
            Delta::InputJsonDelta { partial_json } => {
                let Some(input) = self.tools.get_mut(&index) else {
                    // The input of a tool that the server runs itself.
                    return match self.blocks.contains_key(&index) {
                        true => Ok(Progress::Event),
                        false => Err(Wrong::broken("a tool's input came before its name")),
                    };
                };
                input.push(&partial_json);
                say(
                    StreamEvent::ToolInput {
                        index,
                        json: partial_json,
                    },
                    out,
                )
            }
            Delta::UnknownDelta => Progress::Event,
        })
    }

    fn block_ended(&mut self, index: u32, out: &mut Out) {
        match self.blocks.remove(&index) {
            Some(Open::Thinking { signature }) if !signature.is_empty() => {
                out.push(StreamEvent::ReasoningSignature(signature));
            }
            Some(Open::Tool { whole }) => {
                let Some(input) = self.tools.get_mut(&index) else {
                    return;
                };
                if let (true, Some(whole)) = (input.is_empty(), whole) {
                    let json = whole.to_string();
                    input.push(&json);
                    out.push(StreamEvent::ToolInput { index, json });
                }
                if input.is_whole() {
                    self.completed.push(index);
                    out.push(StreamEvent::ToolUseCompleted { index });
                }
            }
            Some(Open::Thinking { .. } | Open::Other) | None => {}
        }
    }

    fn finish(&mut self, out: &mut Out) {
        let stop = match (self.stop.take(), self.tools.is_empty()) {
            (Some(StopReason::EndTurn) | None, false) => StopReason::ToolUse,
            (Some(StopReason::ToolUse) | None, true) => StopReason::EndTurn,
            (Some(stop), _) => stop,
        };
        let rest = self
            .tools
            .iter()
            .filter(|(index, _)| !self.completed.contains(index));
        complete_tools(rest.map(|(index, input)| (*index, input)), &stop, out);
        self.stopped = true;
        out.push(StreamEvent::Stop(stop));
    }
}

/// Pushes a piece of content; an empty one is none.
fn say(event: StreamEvent, out: &mut Out) -> Progress {
    let empty = match &event {
        StreamEvent::Text(text) | StreamEvent::Reasoning(text) => text.is_empty(),
        StreamEvent::ToolInput { json, .. } => json.is_empty(),
        _ => false,
    };
    if empty {
        return Progress::Event;
    }
    out.push(event);
    Progress::Content
}

fn stop_reason(reason: &str, details: Option<&Value>) -> StopReason {
    match reason {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::MaxTokens,
        "refusal" => {
            let words = details.and_then(|details| details["explanation"].as_str());
            StopReason::Refusal(words.map(str::to_owned))
        }
        "pause_turn" => StopReason::PauseTurn,
        "model_context_window_exceeded" => StopReason::WindowFull,
        // "end_turn", "stop_sequence", and what may come to be.
        _ => StopReason::EndTurn,
    }
}
