//! Accumulates a provider's stream into one message: pure, no I/O.
//!
//! It keeps I5 (a completed message equals its deltas joined) and the size limit of R-WIRE-3. It must not decide what a
//! stop reason means: that is `step`'s.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::search_findings::SearchFindings;
use crate::base::half_characters;
use crate::domain::{
    Block, Cost, Delta, Message, MessageId, ProviderCall, Role, Signature, ToolCallId, Usage,
};
use crate::provider::{StopReason, StreamEvent};

/// The largest message, in bytes. A larger one ends the turn with `max_output_tokens` (R-WIRE-3).
pub const MAX_MESSAGE_BYTES: usize = 8 << 20;

/// Most tool calls of a message. No client sees further ones, and they are not part of the message.
pub(super) const MAX_CALLS: usize = 128;

/// A message in progress.
#[derive(Debug)]
pub(super) struct Accumulator {
    id: MessageId,
    blocks: Vec<BlockDraft>,
    /// Positions in `blocks` by the provider's index of the tool use.
    tools: BTreeMap<u32, usize>,
    /// Tool calls that were begun, those beyond the limit included.
    calls: usize,
    text_bytes: u64,
    reasoning_bytes: u64,
    bytes: usize,
    full: bool,
    usage: Usage,
    cost: Option<Cost>,
    findings: SearchFindings,
}

#[derive(Debug)]
enum BlockDraft {
    Text(String),
    Reasoning {
        text: String,
        signature: Option<String>,
        redacted: bool,
    },
    Tool {
        id: ToolCallId,
        name: String,
        json: String,
        attached: Option<Attached>,
        complete: bool,
    },
}

/// What a provider attaches to a tool call: its own id, and opaque data.
type Attached = (Option<String>, Option<Value>);

/// What the driver does about a stream event.
#[derive(Debug, PartialEq)]
pub(super) enum PushResult {
    Show(Delta),
    Quiet,
    /// The model has ended its answer.
    Stopped(StopReason),
}

/// A tool call that the model requests.
#[derive(Clone, Debug)]
pub(super) struct RequestedCall {
    pub(super) id: ToolCallId,
    pub(super) name: String,
    /// The parsed input, or why the text is not a JSON object.
    pub(super) input: Result<Arc<Value>, String>,
}

/// A finished message, with the calls that it requests.
#[derive(Debug)]
pub(super) struct CompletedMessage {
    pub(super) message: Option<Message>,
    pub(super) wanted: Vec<RequestedCall>,
    /// Calls beyond [`MAX_CALLS`].
    pub(super) left_out: usize,
    /// The calls of a cut message, which do not run: the tool, and how many characters of its input came.
    pub(super) cut_calls: Vec<(String, usize)>,
    /// What the provider's own search found; nothing unless the request offered it.
    pub(super) findings: SearchFindings,
}

impl Accumulator {
    pub(super) fn new(id: MessageId) -> Self {
        Self {
            id,
            blocks: Vec::new(),
            tools: BTreeMap::new(),
            calls: 0,
            text_bytes: 0,
            reasoning_bytes: 0,
            bytes: 0,
            full: false,
            usage: Usage::default(),
            cost: None,
            findings: SearchFindings::default(),
        }
    }

    pub(super) fn id(&self) -> &MessageId {
        &self.id
    }

    /// Returns the call's usage, and its cost if the provider reported one.
    pub(super) fn usage_and_cost(&self) -> (Usage, Option<Cost>) {
        (self.usage, self.cost)
    }

    /// Returns the number of searches that the provider made.
    pub(super) fn search_count(&self) -> u32 {
        self.findings.searches
    }

    /// Returns the received bytes of text, reasoning and calls.
    pub(super) fn received_bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether any output was shown.
    pub(super) fn has_shown(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// Returns whether text or reasoning was shown, which is what remains of a message that is cut.
    pub(super) fn has_output(&self) -> bool {
        self.text_bytes + self.reasoning_bytes > 0
    }

    /// Returns whether the message has reached the size limit and ends here.
    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// Returns the ids of the tool calls that were begun.
    pub(super) fn started_calls(&self) -> Vec<ToolCallId> {
        self.blocks
            .iter()
            .filter_map(|draft| match draft {
                BlockDraft::Tool { id, .. } => Some(id.clone()),
                BlockDraft::Text(_) | BlockDraft::Reasoning { .. } => None,
            })
            .collect()
    }

    pub(super) fn push(&mut self, event: StreamEvent) -> PushResult {
        match event {
            StreamEvent::Text(text) if text.is_empty() => PushResult::Quiet,
            StreamEvent::Text(text) => self.text(text),
            // It belongs to a call that is left out.
            StreamEvent::Reasoning(_)
            | StreamEvent::ReasoningSignature(_)
            | StreamEvent::RedactedReasoning(_)
                if self.calls > MAX_CALLS =>
            {
                PushResult::Quiet
            }
            StreamEvent::Reasoning(text) if text.is_empty() => PushResult::Quiet,
            StreamEvent::Reasoning(text) => self.push_reasoning(text),
            StreamEvent::ReasoningSignature(proof) => {
                match self.blocks.last_mut() {
                    Some(BlockDraft::Reasoning {
                        signature: signature @ None,
                        redacted: false,
                        ..
                    }) => {
                        *signature = Some(proof);
                    }
                    // A signature without reasoning before it is a block of its own: the provider needs it back.
                    _ => self.blocks.push(BlockDraft::Reasoning {
                        text: String::new(),
                        signature: Some(proof),
                        redacted: false,
                    }),
                }
                PushResult::Quiet
            }
            StreamEvent::RedactedReasoning(data) => {
                // Opaque data is kept whole or not at all: half of it would be invalid.
                if self.room_for(data.len()) == data.len() {
                    self.blocks.push(BlockDraft::Reasoning {
                        text: String::new(),
                        signature: Some(data),
                        redacted: true,
                    });
                }
                PushResult::Quiet
            }
            StreamEvent::ToolUseStarted { index, name } => self.start_tool_call(index, name),
            StreamEvent::ToolUseAttached { index, id, extra } => {
                self.attach_to_tool_call(index, (id, extra));
                PushResult::Quiet
            }
            StreamEvent::ToolInput { index, json } => self.tool_input(index, json),
            StreamEvent::ToolUseCompleted { index } => {
                if let Some(BlockDraft::Tool { complete, .. }) =
                    self.tools.get(&index).and_then(|at| self.blocks.get_mut(*at))
                {
                    *complete = true;
                }
                PushResult::Quiet
            }
            StreamEvent::Search(report) => {
                self.findings.record(report);
                PushResult::Quiet
            }
            StreamEvent::Usage { usage, cost } => {
                // Each report covers the whole call so far, so the last one counts.
                self.usage = usage;
                self.cost = cost;
                PushResult::Quiet
            }
            StreamEvent::Stop(reason) => PushResult::Stopped(reason),
        }
    }

    fn start_tool_call(&mut self, index: u32, name: String) -> PushResult {
        self.calls += 1;
        if self.calls > MAX_CALLS {
            // Its input must not go to an earlier call.
            self.tools.remove(&index);
            return PushResult::Quiet;
        }
        // Our own id, because a provider's may repeat within a session.
        let id = ToolCallId::new_random();
        let delta = Delta::ToolInput {
            message: self.id.clone(),
            tool_call: id.clone(),
            name: name.clone(),
            text: String::new(),
        };
        self.tools.insert(index, self.blocks.len());
        self.blocks.push(BlockDraft::Tool {
            id,
            name,
            json: String::new(),
            attached: None,
            complete: false,
        });
        PushResult::Show(delta)
    }

    fn attach_to_tool_call(&mut self, index: u32, attached: Attached) {
        let (id, extra) = &attached;
        let bytes = id.as_ref().map_or(0, String::len) + extra.as_ref().map_or(0, |e| e.to_string().len());
        if self.room_for(bytes) < bytes {
            return;
        }
        if let Some(BlockDraft::Tool { attached: slot, .. }) =
            self.tools.get(&index).and_then(|at| self.blocks.get_mut(*at))
        {
            *slot = Some(attached);
        }
    }

    fn text(&mut self, text: String) -> PushResult {
        let text = self.clip_text(text);
        let offset = self.text_bytes;
        self.text_bytes += text.len() as u64;
        match self.blocks.last_mut() {
            Some(BlockDraft::Text(block)) => block.push_str(&text),
            _ => self.blocks.push(BlockDraft::Text(text.clone())),
        }
        PushResult::Show(Delta::Text {
            message: self.id.clone(),
            offset,
            text,
        })
    }

    fn push_reasoning(&mut self, text: String) -> PushResult {
        let text = self.clip_text(text);
        let offset = self.reasoning_bytes;
        self.reasoning_bytes += text.len() as u64;
        match self.blocks.last_mut() {
            Some(BlockDraft::Reasoning {
                text: block,
                signature: None,
                redacted: false,
            }) => {
                block.push_str(&text);
            }
            _ => self.blocks.push(BlockDraft::Reasoning {
                text: text.clone(),
                signature: None,
                redacted: false,
            }),
        }
        PushResult::Show(Delta::Reasoning {
            message: self.id.clone(),
            offset,
            text,
        })
    }

    fn tool_input(&mut self, index: u32, piece: String) -> PushResult {
        let piece = self.clip_text(piece);
        let Some(BlockDraft::Tool { id, name, json, .. }) =
            self.tools.get(&index).and_then(|at| self.blocks.get_mut(*at))
        else {
            return PushResult::Quiet;
        };
        json.push_str(&piece);
        let delta = Delta::ToolInput {
            message: self.id.clone(),
            tool_call: id.clone(),
            name: name.clone(),
            text: piece,
        };
        PushResult::Show(delta)
    }

    /// Reserves up to `wanted` bytes, and marks the message as full if there is not enough room.
    fn room_for(&mut self, wanted: usize) -> usize {
        let granted = wanted.min(MAX_MESSAGE_BYTES - self.bytes);
        self.bytes += granted;
        self.full |= granted < wanted;
        granted
    }

    fn clip_text(&mut self, mut text: String) -> String {
        let granted = self.room_for(text.len());
        // Never inside a character, so that the cut message is valid text.
        text.truncate(text.floor_char_boundary(granted));
        text
    }

    /// Returns the complete message and the calls that it requests. A `cut` message keeps its text but requests
    /// nothing: a truncated tool call never runs (R-LOOP-1).
    ///
    /// `origin` is the model that reasoning and ids may be returned to. `is_taken` says whether the history already
    /// uses a call id, so that results could not be matched by it.
    pub(super) fn into_message(
        self,
        cut: bool,
        origin: &Arc<str>,
        is_taken: impl Fn(&str) -> bool,
    ) -> CompletedMessage {
        let mut ids = HashSet::new();
        let mut content = Vec::with_capacity(self.blocks.len());
        let mut wanted = Vec::new();
        let mut cut_calls = Vec::new();
        for draft in self.blocks {
            match draft {
                // Blank text too, because it was shown (I5). Providers are not sent it.
                BlockDraft::Text(text) => content.push(Block::Text(text)),
                BlockDraft::Reasoning {
                    text,
                    signature,
                    redacted,
                } => {
                    content.push(Block::Reasoning {
                        text,
                        signature: signature.map(|value| Signature {
                            value,
                            origin: Some(origin.clone()),
                        }),
                        redacted,
                    });
                }
                BlockDraft::Tool { name, json, .. } if cut => cut_calls.push((name, json.chars().count())),
                // R-PROV-3: nothing partial is run.
                BlockDraft::Tool { complete: false, .. } => {}
                BlockDraft::Tool {
                    id,
                    name,
                    json,
                    attached,
                    complete: true,
                } => {
                    let input = parse_input(&json);
                    let attached = attached.and_then(|(id, extra)| {
                        let id = id.filter(|id| !is_taken(id) && ids.insert(id.clone()));
                        (id.is_some() || extra.is_some()).then(|| {
                            Arc::new(ProviderCall {
                                id,
                                extra: extra.map(Arc::new),
                                origin: origin.clone(),
                            })
                        })
                    });
                    content.push(Block::ToolUse {
                        id: id.clone(),
                        name: name.clone(),
                        input: input
                            .clone()
                            // Providers accept only an object here (R-LOOP-4). The model learns of the error from the
                            // call's result.
                            .unwrap_or_else(|_| Arc::new(Value::Object(Default::default()))),
                        attached,
                    });
                    wanted.push(RequestedCall { id, name, input });
                }
            }
        }
        let message = (!content.is_empty()).then_some(Message {
            id: self.id,
            role: Role::Assistant,
            content,
            incomplete: cut,
            hidden: false,
        });
        CompletedMessage {
            message,
            wanted,
            left_out: self.calls.saturating_sub(MAX_CALLS),
            cut_calls,
            findings: self.findings,
        }
    }
}

/// Parses a tool's input, which must be an object; no input at all counts as an empty one. Some models encode the
/// object twice.
fn parse_input(json: &str) -> Result<Arc<Value>, String> {
    if json.trim().is_empty() {
        return Ok(Arc::new(Value::Object(Default::default())));
    }
    let parsed = match half_characters::parse_json::<Value>(json) {
        Ok(Value::String(inner)) => half_characters::parse_json(&inner),
        parsed => parsed,
    };
    match parsed {
        Ok(value @ Value::Object(_)) => Ok(Arc::new(value)),
        // What some models send to a tool without arguments.
        Ok(Value::Null) => Ok(Arc::new(Value::Object(Default::default()))),
        Ok(_) => Err("the input is not a JSON object".to_owned()),
        Err(error) => Err(format!("the input is not valid JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(events: Vec<StreamEvent>, cut: bool) -> (Vec<Delta>, CompletedMessage) {
        let mut accumulator = Accumulator::new(MessageId::from("m"));
        let mut deltas = Vec::new();
        for event in events {
            if let PushResult::Show(delta) = accumulator.push(event) {
                deltas.push(delta);
            }
        }
        (deltas, accumulator.into_message(cut, &"here".into(), |_| false))
    }

    #[test]
    fn no_arguments_are_an_empty_object() {
        for json in ["", " ", "{}", "null", "\"{}\""] {
            assert_eq!(*parse_input(json).unwrap(), serde_json::json!({}), "{json:?}");
        }
        assert!(parse_input("[]").is_err());
    }

    #[test]
    fn text_reasoning_and_tools_keep_their_order() {
        let (_, answer) = run(
            vec![
                StreamEvent::Reasoning("why".into()),
                StreamEvent::ReasoningSignature("proof".into()),
                StreamEvent::Text("I will ".into()),
                StreamEvent::Text("look".into()),
                StreamEvent::ToolUseStarted {
                    index: 3,
                    name: "grep".into(),
                },
                StreamEvent::ToolInput {
                    index: 3,
                    json: r#"{"pattern":"#.into(),
                },
                StreamEvent::ToolInput {
                    index: 3,
                    json: r#""x"}"#.into(),
                },
                StreamEvent::ToolUseCompleted { index: 3 },
            ],
            false,
        );
        let message = answer.message.unwrap();
        assert_eq!(message.text(), "I will look");
        assert_eq!(message.content.len(), 3);
        assert_eq!(
            *answer.wanted[0].input.clone().unwrap(),
            serde_json::json!({"pattern": "x"})
        );
    }

    #[test]
    fn a_cut_message_requests_no_tools() {
        let events = vec![
            StreamEvent::Text("so".into()),
            StreamEvent::ToolUseStarted {
                index: 0,
                name: "bash".into(),
            },
            StreamEvent::ToolUseCompleted { index: 0 },
        ];
        let (_, answer) = run(events, true);
        assert!(answer.wanted.is_empty());
        let message = answer.message.unwrap();
        assert!(message.incomplete);
        assert_eq!(message.tool_uses().count(), 0);
    }

    #[test]
    fn input_that_is_not_an_object_is_an_error() {
        for bad in ["[1]", "{\"a\":", "nul"] {
            let (_, answer) = run(
                vec![
                    StreamEvent::ToolUseStarted {
                        index: 0,
                        name: "bash".into(),
                    },
                    StreamEvent::ToolInput {
                        index: 0,
                        json: bad.into(),
                    },
                    StreamEvent::ToolUseCompleted { index: 0 },
                ],
                false,
            );
            assert!(answer.wanted[0].input.is_err(), "{bad}");
        }
    }

    fn call(index: u32, id: &str, json: &str) -> [StreamEvent; 4] {
        [
            StreamEvent::ToolUseStarted {
                index,
                name: "bash".into(),
            },
            StreamEvent::ToolUseAttached {
                index,
                id: Some(id.into()),
                extra: None,
            },
            StreamEvent::ToolInput {
                index,
                json: json.into(),
            },
            StreamEvent::ToolUseCompleted { index },
        ]
    }

    #[test]
    fn a_provider_call_id_is_kept_unless_it_is_taken() {
        let mut accumulator = Accumulator::new(MessageId::from("m"));
        let ids = ["functions.bash:0", "same", "same", "taken"];
        for (index, id) in ids.iter().enumerate() {
            for event in call(index as u32, id, "{}") {
                accumulator.push(event);
            }
        }
        let answer = accumulator.into_message(false, &"here".into(), |id| id == "taken");
        let message = answer.message.unwrap();
        let provider_ids: Vec<Option<(&str, &str)>> = message
            .content
            .iter()
            .map(|block| match block {
                Block::ToolUse { attached, .. } => {
                    let call = attached.as_ref()?;
                    Some((call.id.as_deref()?, &*call.origin))
                }
                _ => None,
            })
            .collect();
        let here = |id| Some((id, "here"));
        assert_eq!(provider_ids, [here("functions.bash:0"), here("same"), None, None]);
        // Our own ids differ in any case.
        let ours: HashSet<_> = answer.wanted.iter().map(|wanted| wanted.id.clone()).collect();
        assert_eq!(ours.len(), 4);
    }

    #[test]
    fn input_that_is_encoded_twice_is_decoded_twice() {
        let twice = serde_json::to_string(r#"{"command":"ls"}"#).unwrap();
        let thrice = serde_json::to_string(&twice).unwrap();
        let (_, answer) = run(call(0, "a", &twice).into(), false);
        assert_eq!(
            *answer.wanted[0].input.clone().unwrap(),
            serde_json::json!({"command": "ls"})
        );
        for bad in [thrice.as_str(), "\"ls\"", "\"[1]\""] {
            let (_, answer) = run(call(0, "a", bad).into(), false);
            assert!(answer.wanted[0].input.is_err(), "{bad}");
        }
    }

    #[test]
    fn a_message_beyond_8_mib_is_cut_there() {
        let mut accumulator = Accumulator::new(MessageId::from("m"));
        let piece = "x".repeat(1 << 20);
        for _ in 0..8 {
            assert!(matches!(
                accumulator.push(StreamEvent::Text(piece.clone())),
                PushResult::Show(_)
            ));
        }
        assert!(!accumulator.is_full());
        accumulator.push(StreamEvent::Text("y".into()));
        assert!(accumulator.is_full());
        assert_eq!(
            accumulator
                .into_message(true, &"here".into(), |_| false)
                .message
                .unwrap()
                .text()
                .len(),
            MAX_MESSAGE_BYTES
        );
    }

    #[test]
    fn calls_beyond_the_limit_are_counted_and_left_out() {
        let call = |n: usize| {
            // Some providers use an index again.
            let index = (n % MAX_CALLS) as u32;
            let (name, json) = ("grep".to_owned(), format!(r#"{{"pattern":"{n}"}}"#));
            [
                StreamEvent::ToolUseStarted { index, name },
                StreamEvent::ToolInput { index, json },
                StreamEvent::ToolUseCompleted { index },
            ]
        };
        let (deltas, completed) = run((0..MAX_CALLS + 3).flat_map(call).collect(), false);
        assert_eq!((completed.wanted.len(), completed.left_out), (MAX_CALLS, 3));
        assert_eq!(deltas.len(), 2 * MAX_CALLS, "clients see nothing of the others");
        let last = completed.wanted[MAX_CALLS - 1].input.clone().unwrap();
        assert_eq!(last["pattern"], (MAX_CALLS - 1).to_string());
    }

    proptest! {
        /// I5: the shown deltas, joined, are the message's text, and offsets say where each piece begins.
        #[test]
        fn deltas_joined_are_the_message(pieces in prop::collection::vec(("[a-zé\n]{0,8}", any::<bool>()), 0..40)) {
            let events = pieces.iter().map(|(text, is_text)| {
                if *is_text { StreamEvent::Text(text.clone()) } else { StreamEvent::Reasoning(text.clone()) }
            });
            let (shown, _) = run(events.collect(), false);
            let (mut text, mut reasoning) = (String::new(), String::new());
            for delta in &shown {
                match delta {
                    Delta::Text { offset, text: piece, .. } => {
                        prop_assert_eq!(*offset, text.len() as u64);
                        text.push_str(piece);
                    }
                    Delta::Reasoning { offset, text: piece, .. } => {
                        prop_assert_eq!(*offset, reasoning.len() as u64);
                        reasoning.push_str(piece);
                    }
                    other => panic!("{other:?}"),
                }
            }
            let joined: String = pieces.iter().filter(|(_, is_text)| *is_text).map(|(t, _)| t.as_str()).collect();
            prop_assert_eq!(text, joined);
        }
    }
}
