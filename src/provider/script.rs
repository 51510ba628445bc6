//! The embedded provider: replays a cassette in-process, without a network or a key (R-PROV).
//!
//! Behaves like any other provider, including failures and delays, so that demos and tests run the real code.
//! See `cassette` for the format, and `record` for what writes one.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use url::Url;

use super::Provider;
use super::account::ProviderAccount;
use super::cassette::{RecordedExchange, parse};
use super::error::{Failure, ProviderError, ProviderFault};
use super::request::ModelRequest;
use super::stream::{EventStream, StopReason, StreamEvent};
use crate::base::clock;
use crate::config::ApiKind;
use crate::domain::circuit::CircuitPolicy;

/// A provider that plays a cassette.
#[derive(Debug)]
pub struct Script {
    account: Arc<ProviderAccount>,
    /// `None` in place of an exchange that is used up.
    exchanges: Mutex<Vec<Option<Arc<RecordedExchange>>>>,
}

/// An event or failure, and the wait before it.
#[derive(Debug)]
struct ScriptStep {
    wait: Duration,
    event: Result<StreamEvent, Failure>,
}

impl Script {
    /// Reads a cassette from a file.
    ///
    /// # Errors
    ///
    /// Fails if the file is unreadable or is not a valid cassette.
    pub(crate) fn read(name: &str, path: &Path) -> Result<Self, Failure> {
        let wrong = |problem: String| {
            Failure::new(
                ProviderFault::Local,
                format!("cannot replay cassette {}: {problem}", path.display()),
            )
        };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        Self::parse(name, &text).map_err(wrong)
    }

    /// Creates a provider called `name` that plays the text of a cassette.
    ///
    /// # Errors
    ///
    /// Fails with a description if `cassette` is empty, malformed, or of an unsupported version.
    pub fn parse(name: &str, cassette: &str) -> Result<Self, String> {
        let exchanges = parse(cassette)?;
        #[expect(clippy::expect_used, reason = "a constant")]
        let base = Url::parse("script:cassette").expect("an address");
        let account = ProviderAccount {
            name: name.to_owned(),
            kind: ApiKind::Script,
            base,
            secrets: Vec::new(),
            redactor: crate::config::Redactor::default(),
            health: super::AccountHealth::new(name, CircuitPolicy::default()),
        };
        let exchanges = exchanges
            .into_iter()
            .map(|exchange| Some(Arc::new(exchange)))
            .collect();
        Ok(Self {
            account: Arc::new(account),
            exchanges: Mutex::new(exchanges),
        })
    }

    /// Takes the first exchange that matches, or clones it if it repeats.
    fn take_matching_exchange(&self, request: &ModelRequest) -> Option<Arc<RecordedExchange>> {
        let mut exchanges = self.exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |slot: &&mut Option<Arc<RecordedExchange>>| {
            slot.as_ref()
                .is_some_and(|exchange| exchange.when.matches_request(request))
        };
        let slot = exchanges.iter_mut().find(fits)?;
        if slot.as_ref()?.repeat {
            slot.clone()
        } else {
            slot.take()
        }
    }
}

impl Provider for Script {
    fn name(&self) -> &str {
        &self.account.name
    }

    fn open_stream(
        &self,
        request: Arc<ModelRequest>,
    ) -> BoxFuture<'static, Result<EventStream, ProviderError>> {
        let account = self.account.clone();
        let model = request.model.clone();
        let Some(exchange) = self.take_matching_exchange(&request) else {
            let failure = Failure::new(ProviderFault::Local, "the cassette has no answer for this call");
            return std::future::ready(Err(account.build_provider_error(&model, failure))).boxed();
        };
        let mut beats = build_steps(&exchange, &account, &model).into_iter();
        async move {
            // A failure before any event is a refused call, not a broken stream.
            if let Some(ScriptStep { event: Err(_), .. }) = beats.as_slice().first()
                && let Some(ScriptStep {
                    wait,
                    event: Err(failure),
                }) = beats.next()
            {
                clock::sleep(wait).await;
                return Err(account.build_provider_error(&model, failure));
            }
            let events =
                futures::stream::unfold((beats, account, model), |(mut beats, account, model)| async {
                    let beat = beats.next()?;
                    if !beat.wait.is_zero() {
                        clock::sleep(beat.wait).await;
                    }
                    let event = beat
                        .event
                        .map_err(|failure| account.build_provider_error(&model, failure));
                    Some((event, (beats, account, model)))
                });
            Ok(events.boxed())
        }
        .boxed()
    }
}

/// Converts an exchange to the steps that replay it.
fn build_steps(exchange: &RecordedExchange, account: &ProviderAccount, model: &str) -> Vec<ScriptStep> {
    let mut beats = ScriptSteps::default();
    let mut tools = 0;
    for event in &exchange.events {
        beats.each = Duration::from_millis(event.delay_ms);
        if let Some(text) = &event.text {
            split_into_chunks(text, event.chunk)
                .for_each(|piece| beats.push_step(Ok(StreamEvent::Text(piece))));
        } else if event.reasoning.is_some() || event.signature.is_some() {
            let text = event.reasoning.as_deref().unwrap_or_default();
            split_into_chunks(text, event.chunk)
                .for_each(|piece| beats.push_step(Ok(StreamEvent::Reasoning(piece))));
            if let Some(proof) = &event.signature {
                beats.each = Duration::ZERO;
                beats.push_step(Ok(StreamEvent::ReasoningSignature(proof.clone())));
            }
        } else if let Some(data) = &event.redacted {
            beats.push_step(Ok(StreamEvent::RedactedReasoning(data.clone())));
        } else if let Some(tool) = &event.tool {
            let index = tools;
            tools += 1;
            beats.push_step(Ok(StreamEvent::ToolUseStarted {
                index,
                name: tool.name.clone(),
            }));
            let json = tool.input_json();
            if !json.is_empty() {
                beats.push_step(Ok(StreamEvent::ToolInput { index, json }));
            }
            beats.each = Duration::ZERO;
            if !tool.unfinished {
                beats.push_step(Ok(StreamEvent::ToolUseCompleted { index }));
            }
        } else if let Some(report) = &event.search {
            beats.push_step(Ok(StreamEvent::Search(report.clone())));
        } else if let Some(tokens) = &event.usage {
            beats.push_step(Ok(tokens.to_usage_event()));
        } else if let Some(failure) = event.to_failure(account, model) {
            beats.push_step(Err(failure));
            // Nothing may follow an error or a stop, so later events are ignored.
            return beats.list;
        } else if let Some(stop) = event.to_stop_reason() {
            beats.push_step(Ok(StreamEvent::Stop(stop)));
            return beats.list;
        } else {
            // An event with only a delay adds it to the wait before the next step.
            beats.before += beats.each;
        }
    }
    let reason = if tools > 0 {
        StopReason::ToolUse
    } else {
        StopReason::EndTurn
    };
    beats.each = Duration::ZERO;
    beats.push_step(Ok(StreamEvent::Stop(reason)));
    beats.list
}

/// The steps so far, the delay left by events without content, and the delay of the current event.
#[derive(Default)]
struct ScriptSteps {
    list: Vec<ScriptStep>,
    before: Duration,
    each: Duration,
}

impl ScriptSteps {
    fn push_step(&mut self, event: Result<StreamEvent, Failure>) {
        let wait = std::mem::take(&mut self.before) + self.each;
        self.list.push(ScriptStep { wait, event });
    }
}

/// Splits `text` into pieces of `chars` characters; one piece without `chars`.
fn split_into_chunks(text: &str, chars: Option<usize>) -> impl Iterator<Item = String> {
    let all: Vec<char> = text.chars().collect();
    let size = chars.unwrap_or(all.len()).max(1);
    let pieces: Vec<String> = all.chunks(size).map(|piece| piece.iter().collect()).collect();
    pieces.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock;
    use crate::domain::{Block, Cost, Message, Role, Usage};
    use crate::provider::request::HistoryItem;
    use crate::provider::request::tests::{build_message, build_request};

    const CASSETTE: &str = r#"{"cassette": 1, "exchanges": [
        {"when": {"prompt": "Fix", "step": 0}, "events": [
            {"reasoning": "Hm."},
            {"delay_ms": 300},
            {"text": "I look.", "chunk": 4, "delay_ms": 20},
            {"tool": {"name": "read_file", "input": {"path": "a"}}},
            {"usage": {"input": 10, "output": 2, "cost": 0.5}}]},
        {"when": {"prompt": "fix", "step": 1}, "events": [{"text": "Done."}, {"stop": "max_tokens"}]},
        {"when": {"model": "busy"}, "repeat": true, "events": [
            {"error": {"status": 529, "message": "Overloaded", "retry_after_ms": 50}}]},
        {"when": {"prompt": "break"}, "events": [{"text": "half"}, {"cut": true}]}]}"#;

    async fn play(
        script: &Script,
        request: ModelRequest,
    ) -> Result<Vec<Result<StreamEvent, ProviderFault>>, ProviderError> {
        let events = script.open_stream(Arc::new(request)).await?;
        Ok(events
            .map(|event| event.map_err(|error| error.fault))
            .collect()
            .await)
    }

    fn prompt(model: &str, text: &str) -> ModelRequest {
        build_request(model, vec![Message::user_text(text)])
    }

    #[tokio::test(start_paused = true)]
    async fn a_cassette_plays_in_chunks_with_delays() {
        let script = Script::parse("demo", CASSETTE).unwrap();
        let start = clock::now();
        let events = play(&script, prompt("m", "please fix it")).await.unwrap();
        assert_eq!(
            events,
            [
                Ok(StreamEvent::Reasoning("Hm.".into())),
                Ok(StreamEvent::Text("I lo".into())),
                Ok(StreamEvent::Text("ok.".into())),
                Ok(StreamEvent::ToolUseStarted {
                    index: 0,
                    name: "read_file".into()
                }),
                Ok(StreamEvent::ToolInput {
                    index: 0,
                    json: r#"{"path":"a"}"#.into()
                }),
                Ok(StreamEvent::ToolUseCompleted { index: 0 }),
                Ok(StreamEvent::Usage {
                    usage: Usage {
                        input: 10,
                        output: 2,
                        ..Usage::default()
                    },
                    cost: Some(Cost(500_000_000)),
                }),
                Ok(StreamEvent::Stop(StopReason::ToolUse)),
            ]
        );
        assert_eq!((clock::now() - start).as_millis(), 340);
        // The exchange is used up, so the same request has no answer.
        let error = play(&script, prompt("m", "please fix it")).await.unwrap_err();
        assert_eq!(error.fault, ProviderFault::Local);
    }

    #[tokio::test(start_paused = true)]
    async fn an_exchange_is_chosen_by_its_step() {
        let script = Script::parse("demo", CASSETTE).unwrap();
        let mut request = prompt("m", "fix");
        request.messages.push(HistoryItem::new(build_message(
            Role::Assistant,
            vec![Block::Text("I look.".into())],
        )));
        request.messages.push(HistoryItem::new(build_message(
            Role::Tool,
            vec![Block::Text("result".into())],
        )));
        let events = play(&script, request).await.unwrap();
        assert_eq!(events[1], Ok(StreamEvent::Stop(StopReason::MaxTokens)));
    }

    #[tokio::test(start_paused = true)]
    async fn errors_and_cuts_replay_as_provider_failures() {
        let script = Script::parse("demo", CASSETTE).unwrap();
        for _ in 0..2 {
            let error = play(&script, prompt("busy", "hello")).await.unwrap_err();
            assert_eq!(error.fault, ProviderFault::Overloaded);
            assert_eq!(error.retry_after, Some(Duration::from_millis(50)));
        }
        let events = play(&script, prompt("m", "break")).await.unwrap();
        assert_eq!(
            events,
            [
                Ok(StreamEvent::Text("half".into())),
                Err(ProviderFault::BrokenStream)
            ]
        );
    }
}
