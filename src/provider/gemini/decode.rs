//! Decodes the events of the Gemini API: each is a piece of the one candidate, with the usage so far.
//!
//! Function calls arrive whole. A thought signature belongs to a part: to a call, to a text, or to an empty text at the
//! end. Knows no bytes and no clock; see `crate::provider::decode`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::domain::Usage;
use crate::provider::decode::{ApiDecoder, DecodeError, DecodeResult, EventQueue, StreamProgress};
use crate::provider::error::ProviderFault;
use crate::provider::fields::{
    needed_object, needed_objects, needed_text, optional_list, optional_number, parse_event, read_source,
    text,
};
use crate::provider::sse::SseEvent;
use crate::provider::stream::{SearchReport, StopReason, StreamEvent};

/// The field of a part, and of what a call has attached.
pub(super) const SIGNATURE: &str = "thoughtSignature";

/// The state of one answer.
#[derive(Debug, Default)]
pub(crate) struct GeminiDecoder {
    calls: u32,
    searches: u32,
    usage: Usage,
    stop: Option<StopReason>,
}

/// The signature of a text, stored as opaque reasoning before it.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TextSignature {
    #[serde(rename = "thoughtSignature")]
    pub(super) value: String,
    /// Whether it belongs to the text that follows; otherwise to an empty text of its own.
    pub(super) has_text: bool,
}

impl TextSignature {
    /// Reads stored opaque reasoning; `None` if it belongs to another API.
    pub(super) fn read(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }
}

impl ApiDecoder for GeminiDecoder {
    fn decode_event(&mut self, event: &SseEvent, out: &mut EventQueue) -> DecodeResult {
        let Some(value) = parse_event(event)? else {
            return Ok(StreamProgress::Nothing);
        };
        if !value["error"].is_null() {
            return Err(DecodeError::Reported(event.data.clone()));
        }
        let mut progress = StreamProgress::Event;
        if let Some(candidate) = needed_objects(&value, "candidates")?.first() {
            let content = needed_object(candidate, "content")?.unwrap_or(&Value::Null);
            for part in needed_objects(content, "parts")? {
                progress = progress.max(self.push_part(part, out)?);
            }
            self.push_grounding(&candidate["groundingMetadata"], out);
            if let Some(reason) = text(candidate, "finishReason") {
                self.stop = Some(read_finish(reason, text(candidate, "finishMessage"))?);
            }
        }
        let feedback = &value["promptFeedback"];
        if let Some(reason) = text(feedback, "blockReason") {
            let words = text(feedback, "blockReasonMessage").unwrap_or(reason);
            self.stop = Some(StopReason::Refusal(Some(words.to_owned())));
        }
        self.record_usage(&value["usageMetadata"], out);
        Ok(progress)
    }

    /// Ends the answer. There is no closing event: the stream just ends after the finish reason.
    fn finish_stream(&mut self, out: &mut EventQueue) -> DecodeResult<()> {
        let stop = match self.stop.take().ok_or_else(DecodeError::truncated_stream)? {
            StopReason::EndTurn if self.calls > 0 => StopReason::ToolUse,
            stop => stop,
        };
        out.push(StreamEvent::Stop(stop));
        Ok(())
    }

    fn may_end(&self) -> bool {
        self.stop.is_some()
    }
}

impl GeminiDecoder {
    fn push_part(&mut self, part: &Value, out: &mut EventQueue) -> DecodeResult {
        let signature = text(part, SIGNATURE).filter(|signature| !signature.is_empty());
        if let Some(call) = needed_object(part, "functionCall")? {
            return self.push_call(call, signature, out);
        }
        let words = needed_text(part, "text")?;
        // Anything but an explicit no hides the text, so that no thought ends up in the answer.
        if !matches!(part["thought"], Value::Null | Value::Bool(false)) {
            if !words.is_empty() {
                out.push(StreamEvent::Reasoning(words.to_owned()));
            }
            if let Some(signature) = signature {
                out.push(StreamEvent::ReasoningSignature(signature.to_owned()));
            }
        } else {
            if let Some(signature) = signature {
                let signature = TextSignature {
                    value: signature.to_owned(),
                    has_text: !words.trim().is_empty(),
                };
                out.push(StreamEvent::RedactedReasoning(json!(signature).to_string()));
            }
            if !words.is_empty() {
                out.push(StreamEvent::Text(words.to_owned()));
            }
        }
        Ok(if words.is_empty() {
            StreamProgress::Event
        } else {
            StreamProgress::Content
        })
    }

    fn push_call(&mut self, call: &Value, signature: Option<&str>, out: &mut EventQueue) -> DecodeResult {
        let Some(name) = text(call, "name").filter(|name| !name.is_empty()) else {
            return Err(DecodeError::broken_stream(
                "a function call of the answer has no name",
            ));
        };
        let empty = json!({});
        let args = needed_object(call, "args")?.unwrap_or(&empty);
        let index = self.calls;
        self.calls += 1;
        out.push(StreamEvent::ToolUseStarted {
            index,
            name: name.to_owned(),
        });
        out.push(StreamEvent::ToolUseAttached {
            index,
            id: text(call, "id").filter(|id| !id.is_empty()).map(str::to_owned),
            extra: signature.map(|signature| json!({SIGNATURE: signature})),
        });
        out.push(StreamEvent::ToolInput {
            index,
            json: args.to_string(),
        });
        out.push(StreamEvent::ToolUseCompleted { index });
        Ok(StreamProgress::Content)
    }

    /// Reports the searches of the provider and the pages that they found. Each event may repeat the earlier ones.
    fn push_grounding(&mut self, grounding: &Value, out: &mut EventQueue) {
        let pages = optional_list(grounding, "groundingChunks");
        let queries = optional_list(grounding, "webSearchQueries").len();
        let searches = u32::try_from(queries.max(usize::from(!pages.is_empty()))).unwrap_or(u32::MAX);
        if searches > self.searches {
            self.searches = searches;
            out.push(StreamEvent::Search(SearchReport::Searches(searches)));
        }
        for source in pages.iter().filter_map(|page| read_source(&page["web"], "uri")) {
            out.push(source);
        }
    }

    /// Records the usage. The prompt's count includes what came from the cache, and thoughts are counted apart.
    fn record_usage(&mut self, tokens: &Value, out: &mut EventQueue) {
        let count = |field: &str| optional_number(tokens, field);
        let before = self.usage;
        if let Some(prompt) = count("promptTokenCount") {
            let cached = count("cachedContentTokenCount").unwrap_or(0).min(prompt);
            self.usage.input = prompt - cached;
            self.usage.cache_read = cached;
        }
        let written = [count("candidatesTokenCount"), count("thoughtsTokenCount")];
        if written.iter().any(Option::is_some) {
            self.usage.output = written.into_iter().flatten().fold(0, u64::saturating_add);
        }
        if self.usage != before {
            out.push(StreamEvent::Usage {
                usage: self.usage,
                cost: None,
            });
        }
    }
}

/// Reads why the answer ended.
fn read_finish(reason: &str, words: Option<&str>) -> DecodeResult<StopReason> {
    Ok(match reason {
        "MAX_TOKENS" => StopReason::MaxTokens,
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
        | "IMAGE_SAFETY" | "MODEL_ARMOR" => StopReason::Refusal(Some(words.unwrap_or(reason).to_owned())),
        // The model's own mistakes. The next attempt usually succeeds.
        "MALFORMED_FUNCTION_CALL"
        | "MALFORMED_RESPONSE"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "OTHER" => {
            let words = words.map_or_else(String::new, |words| format!(": {words}"));
            return Err(DecodeError::broken_stream(format!(
                "the provider ended the answer with {reason}{words}"
            )));
        }
        "MISSING_THOUGHT_SIGNATURE" => {
            let words = words.unwrap_or("a function call of the history has no thought signature");
            return Err(DecodeError::Failed(
                ProviderFault::InvalidRequest,
                words.to_owned(),
            ));
        }
        // "STOP", and future reasons.
        _ => StopReason::EndTurn,
    })
}
