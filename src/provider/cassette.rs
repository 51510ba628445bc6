//! The cassette format, which `script` plays and `record` writes, and its conversion to and from stream events.
//!
//! A cassette is JSON: one document `{"cassette": 1, "exchanges": […]}`, or one exchange on each line.
//! An exchange contains an answer, and may name the request that it answers:
//!
//! ```json
//! {"when": {"prompt": "fix the bug", "step": 0, "model": "demo"},
//!  "repeat": true,
//!  "events": [
//!    {"reasoning": "Let me look."},
//!    {"delay_ms": 300},
//!    {"text": "I read the file first.", "chunk": 8, "delay_ms": 20},
//!    {"tool": {"name": "read_file", "input": {"path": "src/main.rs"}}},
//!    {"usage": {"input": 1200, "output": 40, "cache_read": 0, "cache_write": 0, "cost": 0.01}},
//!    {"stop": "tool_use"}]}
//! ```
//!
//! - `when`: `prompt` occurs in the last prompt (in any case). `step` is the number of tool messages after it.
//!   `model` is the name of the model. Without `when` an exchange matches every call.
//! - The first match is played. It is used up unless it has `repeat`.
//! - `text` and `reasoning` may have `chunk` (characters in each piece) and `delay_ms` (wait before each piece).
//! - `error`: `{"status": 529, "message": "Overloaded", "retry_after_ms": 50}` fails like that response: as the first
//!   event before the answer, otherwise during it. `{"cut": true}` breaks the answer off.
//! - `stop` is optional: the default is `tool_use` after a tool, otherwise `end_turn`. Other values: `max_tokens`,
//!   `refusal` (with the provider's `words`), `pause_turn`, `window_full`.
//!
//! Calls of real providers are recorded (see `record`) in this format too, one line for each call. Such an exchange
//! has `recorded` with its time and source, which replay ignores. Its events may also be:
//!
//! - `reasoning` with its `signature` (a signature alone belongs to reasoning that was not shown), or `redacted`;
//! - `tool` with its input as `json` if that is invalid JSON or `input` would be written differently, and with
//!   `unfinished` if it was cut;
//! - `error` with its classified `fault` and every known detail: replayed unchanged;
//! - `{"cancelled": true}`: this side canceled the call. Replayed as a cut.

use std::borrow::Cow;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::account::ProviderAccount;
use super::classify::{self, RefusedResponse};
use super::error::{Failure, ProviderError, ProviderFault, TimeoutPhase};
use super::request::ModelRequest;
use super::request_part::RequestPart;
use super::stream::{SearchReport, StopReason, StreamEvent};
use crate::domain::{Cost, Message, Role, Usage};

/// How much of a prompt a recording keeps, in characters: enough to recognize it.
const PROMPT_PREFIX_CHARS: usize = 200;

// Unknown fields are refused throughout, so that a typo in a handwritten cassette is an error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cassette {
    cassette: u32,
    exchanges: Vec<RecordedExchange>,
}

/// An answer, and the request that it matches.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedExchange {
    /// The source of a recording; replay ignores it. The first field, so that our lines are recognized by their start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) recorded: Option<RecordedEvent>,
    #[serde(default)]
    pub(super) when: CassetteMatch,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) repeat: bool,
    pub(super) events: Vec<CassetteEvent>,
}

/// The source of a recorded exchange.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct RecordedEvent {
    /// Milliseconds since the epoch.
    pub(super) at_ms: i64,
    pub(super) provider: String,
    pub(super) kind: String,
    pub(super) model: String,
}

/// The beginning of every recorded line.
pub(super) const RECORDED: &str = "{\"recorded\":";

/// The conditions under which an exchange matches a request; an absent one matches always.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CassetteMatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
}

/// One entry of `events`; see the module's documentation for the combinations.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CassetteEvent {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) redacted: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool: Option<CassetteTool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) search: Option<SearchReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<RecordedTokens>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) words: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<RecordedError>,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) cut: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(super) cancelled: bool,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) delay_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) chunk: Option<usize>,
}

/// A tool call in a cassette.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CassetteTool {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(super) input: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) json: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) unfinished: bool,
}

/// The usage of a call: tokens, and the cost in US dollars if the provider reported one.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RecordedTokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
}

/// An error in a cassette, handwritten or recorded.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RecordedError {
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    /// The classified fault. Without it, `status` and `message` are classified.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    /// The limit that an error named, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    /// When a quota refills, in ms since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    reset_at_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Parses the exchanges of a cassette.
///
/// # Errors
///
/// Fails with a description if the text is empty, malformed, or of an unsupported version.
pub(super) fn parse(text: &str) -> Result<Vec<RecordedExchange>, String> {
    let document = serde_json::from_str::<Cassette>(text);
    match document {
        Ok(Cassette {
            cassette: 1,
            exchanges,
        }) => return Ok(exchanges),
        Ok(Cassette { cassette, .. }) => {
            return Err(format!("version {cassette} is not supported, only 1 is"));
        }
        Err(error)
            // Recognizable as a document, so reading it as lines would only hide the real error.
            if serde_json::from_str::<Value>(text).is_ok_and(|value| value.get("cassette").is_some()) =>
        {
            return Err(error.to_string());
        }
        Err(_) => {}
    }
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let last = text.lines().count();
    let mut exchanges: Vec<RecordedExchange> = Vec::new();
    for (at, line) in lines {
        match serde_json::from_str(line) {
            Ok(exchange) => exchanges.push(exchange),
            // A server was killed while it wrote this line.
            Err(_) if at + 1 == last && is_torn(text) => {}
            Err(error) => return Err(format!("line {}: {error}", at + 1)),
        }
    }
    if exchanges.is_empty() {
        Err("it is empty".to_owned())
    } else {
        Ok(exchanges)
    }
}

/// Reports whether a text ends in the middle of a recorded line.
pub(super) fn is_torn(text: &str) -> bool {
    let tail = text.rsplit('\n').next().unwrap_or_default();
    let starts = !tail.is_empty() && (tail.starts_with(RECORDED) || RECORDED.starts_with(tail));
    starts && serde_json::from_str::<serde::de::IgnoredAny>(tail).is_err()
}

impl CassetteMatch {
    /// Returns what identifies a request: the beginning of its prompt, and its step.
    /// `clean` removes secrets. A prompt is kept only up to the first one, so that no part of a secret is stored.
    pub(super) fn from_request(request: &ModelRequest, clean: impl Fn(&str) -> Option<String>) -> Self {
        let (prompt, step) = last_prompt_and_step(request);
        let without = clean(&prompt).unwrap_or_else(|| prompt.clone());
        let same = prompt.chars().zip(without.chars());
        let known_by: String = same
            .take_while(|(original, clean)| original == clean)
            .map(|(original, _)| original)
            .take(PROMPT_PREFIX_CHARS)
            .collect();
        Self {
            prompt: (!known_by.is_empty()).then_some(known_by),
            step: Some(step),
            model: None,
        }
    }

    /// Reports whether the exchange answers `request`.
    pub(super) fn matches_request(&self, request: &ModelRequest) -> bool {
        let (prompt, step) = last_prompt_and_step(request);
        self.prompt
            .as_ref()
            .is_none_or(|part| prompt.to_lowercase().contains(&part.to_lowercase()))
            && self.step.is_none_or(|wanted| wanted == step)
            && self.model.as_ref().is_none_or(|model| *model == request.model)
    }
}

/// Returns the last prompt of a request, and the number of steps after it.
fn last_prompt_and_step(request: &ModelRequest) -> (String, usize) {
    // Hidden user messages are the agent's own, not prompts.
    let is_prompt = |message: &Message| message.role == Role::User && !message.hidden;
    let messages = request.messages.iter().map(|item| &item.message);
    let steps = messages.clone().rev().take_while(|message| !is_prompt(message));
    let step = steps.filter(|message| message.role == Role::Tool).count();
    let prompt = messages.rev().find(|message| is_prompt(message));
    (prompt.map(Message::text).unwrap_or_default(), step)
}

impl CassetteTool {
    /// Records a call whose input arrived as `json`. Keeps the text itself if `input` would not reproduce it exactly.
    pub(super) fn from_json(name: String, json: String, unfinished: bool) -> Self {
        let input = serde_json::from_str(&json).unwrap_or(Value::Null);
        let written = input.to_string();
        // White space and the order of keys may differ, so only an identical text is stored as `input`.
        let same = !input.is_null() && written == json;
        Self {
            name,
            input: if same { input } else { Value::Null },
            json: (!same).then_some(json),
            unfinished,
        }
    }

    /// Returns the input as it was sent.
    pub(super) fn input_json(&self) -> String {
        self.json.clone().unwrap_or_else(|| self.input.to_string())
    }
}

impl RecordedTokens {
    pub(super) fn from_usage(usage: Usage, cost: Option<Cost>) -> Self {
        Self {
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            cost: cost.map(Cost::to_usd),
        }
    }

    pub(super) fn to_usage_event(&self) -> StreamEvent {
        let usage = Usage {
            input: self.input,
            output: self.output,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
        };
        StreamEvent::Usage {
            usage,
            cost: self.cost.map(Cost::from_usd),
        }
    }
}

impl CassetteEvent {
    pub(super) fn from_stop_reason(reason: &StopReason) -> Self {
        let (stop, words) = match reason {
            StopReason::EndTurn => ("end_turn", None),
            StopReason::ToolUse => ("tool_use", None),
            StopReason::MaxTokens => ("max_tokens", None),
            StopReason::Refusal(words) => ("refusal", words.clone()),
            StopReason::PauseTurn => ("pause_turn", None),
            StopReason::WindowFull => ("window_full", None),
        };
        Self {
            stop: Some(stop.to_owned()),
            words,
            ..Self::default()
        }
    }

    pub(super) fn from_error(error: &ProviderError) -> Self {
        let failed = RecordedError {
            status: error.status,
            message: error.message.clone(),
            retry_after_ms: error.retry_after.map(|wait| wait.as_millis() as u64),
            request_id: error.request_id.clone(),
            fault: Some(fault_name(&error.fault).into_owned()),
            limit: match error.fault {
                ProviderFault::PromptTooLong { limit } => limit,
                _ => None,
            },
            reset_at_ms: match error.fault {
                ProviderFault::QuotaExhausted { reset_at } => reset_at,
                _ => None,
            },
            action: error.user_action.clone(),
        };
        Self {
            error: Some(failed),
            ..Self::default()
        }
    }

    /// Returns the stop reason if this is a `stop`.
    pub(super) fn to_stop_reason(&self) -> Option<StopReason> {
        Some(match self.stop.as_deref()? {
            "tool_use" => StopReason::ToolUse,
            "max_tokens" => StopReason::MaxTokens,
            "refusal" => StopReason::Refusal(self.words.clone()),
            "pause_turn" => StopReason::PauseTurn,
            "window_full" => StopReason::WindowFull,
            _ => StopReason::EndTurn,
        })
    }

    /// Returns the failure if this is an `error`, a `cut` or a cancel.
    pub(super) fn to_failure(&self, account: &ProviderAccount, model: &str) -> Option<Failure> {
        if let Some(failed) = &self.error {
            return Some(failed.to_failure(account, model));
        }
        if self.cancelled {
            return Some(Failure::broken_stream(
                "the call was broken off when it was recorded",
            ));
        }
        self.cut
            .then(|| Failure::broken_stream("the stream ended in the middle of the answer"))
    }
}

impl RecordedError {
    fn to_failure(&self, account: &ProviderAccount, model: &str) -> Failure {
        match self.fault.as_deref().and_then(|name| fault_of(name, self)) {
            Some(fault) => Failure {
                fault,
                message: self.message.clone(),
                status: self.status,
                request_id: self.request_id.clone(),
                retry_after: self.retry_after_ms.map(Duration::from_millis),
                user_action: self.action.clone(),
                should_retry: None,
            },
            None => self.classify_as_response(account, model),
        }
    }

    /// Classifies the error like a response with its status.
    fn classify_as_response(&self, account: &ProviderAccount, model: &str) -> Failure {
        let mut headers = HeaderMap::new();
        if let Some(ms) = self.retry_after_ms {
            headers.insert("retry-after-ms", HeaderValue::from(ms));
        }
        let body = json!({"error": {"message": self.message}}).to_string();
        classify::classify_response(&RefusedResponse {
            account,
            model,
            status: self.status.unwrap_or(500),
            headers: &headers,
            body: &body,
            parts: None,
        })
    }
}

fn fault_name(fault: &ProviderFault) -> Cow<'static, str> {
    Cow::Borrowed(match fault {
        ProviderFault::Throttled => "throttled",
        ProviderFault::Overloaded => "overloaded",
        ProviderFault::Server => "server",
        ProviderFault::TimedOut(TimeoutPhase::Connect) => "connect_timeout",
        ProviderFault::TimedOut(TimeoutPhase::FirstEvent) => "first_event_timeout",
        ProviderFault::TimedOut(TimeoutPhase::Gap) => "gap_timeout",
        ProviderFault::Connection => "connection",
        ProviderFault::Tls => "tls",
        ProviderFault::BrokenStream => "broken_stream",
        ProviderFault::ErrorEvent => "error_event",
        ProviderFault::PromptTooLong { .. } => "prompt_too_long",
        ProviderFault::OutputLimit { .. } => "output_limit",
        ProviderFault::ImageRefused => "image_refused",
        ProviderFault::PartRefused(part) => return part.fault_name(),
        // Which ones, only the message says, so it is classified again.
        ProviderFault::ToolsRefused(_) => "tools_refused",
        ProviderFault::Unauthorized => "unauthorized",
        ProviderFault::QuotaExhausted { .. } => "quota_exhausted",
        ProviderFault::NotFound => "not_found",
        ProviderFault::ContentPolicy => "content_policy",
        ProviderFault::InvalidRequest => "invalid_request",
        ProviderFault::NotTheApi => "not_the_api",
        ProviderFault::Local => "local",
    })
}

/// Returns the fault with this name; `None` for an unknown one.
fn fault_of(name: &str, failed: &RecordedError) -> Option<ProviderFault> {
    let all = [
        ProviderFault::Throttled,
        ProviderFault::Overloaded,
        ProviderFault::Server,
        ProviderFault::TimedOut(TimeoutPhase::Connect),
        ProviderFault::TimedOut(TimeoutPhase::FirstEvent),
        ProviderFault::TimedOut(TimeoutPhase::Gap),
        ProviderFault::Connection,
        ProviderFault::Tls,
        ProviderFault::BrokenStream,
        ProviderFault::ErrorEvent,
        ProviderFault::PromptTooLong { limit: failed.limit },
        ProviderFault::OutputLimit {
            limit: failed.limit.and_then(|limit| u32::try_from(limit).ok()),
            window: None,
        },
        ProviderFault::ImageRefused,
        ProviderFault::Unauthorized,
        ProviderFault::QuotaExhausted {
            reset_at: failed.reset_at_ms,
        },
        ProviderFault::NotFound,
        ProviderFault::ContentPolicy,
        ProviderFault::InvalidRequest,
        ProviderFault::NotTheApi,
        ProviderFault::Local,
    ];
    // Compares with `fault_name`, so that the two directions cannot disagree.
    let part = RequestPart::from_fault_name(name).map(ProviderFault::PartRefused);
    all.into_iter().find(|fault| fault_name(fault) == name).or(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cassettes_parse_as_lines_and_errors_name_their_line() {
        let lines = "{\"events\": [{\"text\": \"a\"}]}\n\n{\"events\": []}\n";
        assert_eq!(parse(lines).unwrap().len(), 2);
        for (text, expected) in [
            ("", "it is empty"),
            (
                "{\"events\": []}\n{\"events\": [{\"tekst\": 1}]}",
                "line 2: unknown field `tekst`",
            ),
            (
                "{\"cassette\": 2, \"exchanges\": []}",
                "version 2 is not supported",
            ),
            ("{\"cassette\": 1, \"exchanges\": [{}]}", "missing field `events`"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_torn_last_line_of_a_recording_is_skipped() {
        let full_line = "{\"recorded\":{\"at_ms\":1,\"provider\":\"p\",\"kind\":\"k\",\"model\":\"m\"},\"when\":{},\"events\":[]}";
        for cut in 1..full_line.len() {
            let text = format!("{full_line}\n{}", &full_line[..cut]);
            assert!(is_torn(&text), "{text}");
            assert_eq!(parse(&text).unwrap().len(), 1, "{text}");
        }
        for text in ["{\"events\": []}\n{\"events\"", "{\n}", full_line, "", "a\n"] {
            assert!(!is_torn(text), "{text}");
        }
        assert!(parse("{\"events\": []}\n{\"events\"").is_err());
    }

    #[test]
    fn fault_names_round_trip() {
        let failed = RecordedError {
            limit: Some(7),
            reset_at_ms: Some(8),
            ..RecordedError::default()
        };
        for fault in [
            ProviderFault::Throttled,
            ProviderFault::TimedOut(TimeoutPhase::Gap),
            ProviderFault::PromptTooLong { limit: Some(7) },
            ProviderFault::QuotaExhausted { reset_at: Some(8) },
            ProviderFault::NotTheApi,
            ProviderFault::PartRefused(RequestPart::Verbosity),
            ProviderFault::PartRefused(RequestPart::NoStorage),
            ProviderFault::PartRefused(RequestPart::ExtraField("options.top_k".into())),
        ] {
            assert_eq!(fault_of(&fault_name(&fault), &failed), Some(fault));
        }
        assert_eq!(fault_of("unknown", &failed), None);
    }

    #[test]
    fn tool_inputs_round_trip_byte_for_byte() {
        for json in ["{\"a\":1}", "{ \"a\": 1 }", "{\"a\":", "", "null", "7"] {
            assert_eq!(
                CassetteTool::from_json("t".into(), json.into(), false).input_json(),
                json
            );
        }
    }
}
