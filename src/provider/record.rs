//! Records the calls of a provider as lines of a cassette, which `script` plays (R-PROV).
//!
//! A line contains the events of a call, not its bytes. It has no header or address, and of the request only the
//! beginning of the prompt. Known secrets are removed from every text (I15). Each call, also a canceled one, is
//! written in one piece when it ends. Recording never breaks a call and delays its end by at most
//! [`WRITE_WAIT`]. If the disk fails, the line is lost and the session of the next call gets one warning.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::cassette::{
    CassetteEvent, CassetteMatch, CassetteTool, RECORDED, RecordedEvent as Origin, RecordedExchange,
    RecordedTokens,
};
use super::{EventStream, ModelRequest, Provider, ProviderError, StreamEvent};
use crate::base::clock;
use crate::config::ApiKind;
use crate::config::Redactor;

/// How long the end of an answer waits for its line. A stalled disk must not block the turn.
const WRITE_WAIT: Duration = Duration::from_millis(50);

/// How many bytes at the end of a file are searched for a torn line.
const TAIL: u64 = 64 << 20;

/// A wrapper that records every call of a provider.
pub(super) struct RecordingProvider {
    inner: Arc<dyn Provider>,
    kind: ApiKind,
    tape: Arc<RecordingFile>,
}

impl RecordingProvider {
    /// Wraps `inner`, which records to `path` from now on. The file is created with the first line.
    pub(super) fn new(inner: Arc<dyn Provider>, kind: ApiKind, path: PathBuf, redactor: Redactor) -> Self {
        Self {
            kind,
            tape: Arc::new(RecordingFile {
                name: inner.name().to_owned(),
                path,
                redactor,
                failed: AtomicBool::new(false),
                notice: Mutex::default(),
                writing: Mutex::default(),
            }),
            inner,
        }
    }
}

impl Provider for RecordingProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn model_origin(&self, model: &str) -> Arc<str> {
        self.inner.model_origin(model)
    }

    fn take_pending_notice(&self) -> Option<String> {
        let mut notice = self.tape.notice.lock().unwrap_or_else(PoisonError::into_inner);
        notice.take()
    }

    fn open_stream(
        &self,
        request: Arc<ModelRequest>,
    ) -> BoxFuture<'static, Result<EventStream, ProviderError>> {
        let origin = Origin {
            at_ms: clock::wall_ms(),
            provider: self.inner.name().to_owned(),
            kind: self.kind.name().to_owned(),
            model: request.model.clone(),
        };
        let when = CassetteMatch::from_request(&request, |prompt| self.tape.redact_secrets(prompt));
        let mut take = Recording::new(self.tape.clone(), origin, when);
        let opened = self.inner.open_stream(request);
        async move {
            let events = match opened.await {
                Ok(events) => events,
                Err(error) => {
                    take.record_event(&Err(error.clone()));
                    // Written before the error is passed on, so that whoever sees the error finds the line.
                    take.flush_line().await;
                    return Err(error);
                }
            };
            let events = futures::stream::unfold((events, take), |(mut events, mut take)| async move {
                let next = events.next().await?;
                if take.record_event(&next) {
                    take.flush_line().await;
                }
                Some((next, (events, take)))
            });
            Ok(events.boxed())
        }
        .boxed()
    }
}

/// The line of a running call. If it is dropped before the end, it is written as a canceled call.
struct Recording {
    tape: Arc<RecordingFile>,
    /// `None` once it was handed to the writer.
    exchange: Option<RecordedExchange>,
    /// The tool calls so far, with their place in the exchange and their input.
    tools: Vec<RecordedToolCall>,
}

struct RecordedToolCall {
    index: u32,
    at: usize,
    name: String,
    json: String,
    unfinished: bool,
}

impl Recording {
    fn new(tape: Arc<RecordingFile>, origin: Origin, when: CassetteMatch) -> Self {
        let exchange = RecordedExchange {
            recorded: Some(origin),
            when,
            ..RecordedExchange::default()
        };
        Self {
            tape,
            exchange: Some(exchange),
            tools: Vec::new(),
        }
    }

    /// Records an item of the stream. Returns whether it was the last.
    fn record_event(&mut self, event: &Result<StreamEvent, ProviderError>) -> bool {
        let Some(RecordedExchange { events, .. }) = &mut self.exchange else {
            return false;
        };
        match event {
            Ok(StreamEvent::Text(more)) => match last_content_event(events) {
                Some(CassetteEvent { text: Some(text), .. }) => text.push_str(more),
                _ => events.push(CassetteEvent {
                    text: Some(more.clone()),
                    ..CassetteEvent::default()
                }),
            },
            Ok(StreamEvent::Reasoning(more)) => match last_content_event(events) {
                Some(CassetteEvent {
                    reasoning: Some(text),
                    signature: None,
                    ..
                }) => text.push_str(more),
                _ => events.push(CassetteEvent {
                    reasoning: Some(more.clone()),
                    ..CassetteEvent::default()
                }),
            },
            Ok(StreamEvent::ReasoningSignature(proof)) => match last_content_event(events) {
                Some(CassetteEvent {
                    reasoning: Some(_),
                    signature: signature @ None,
                    ..
                }) => *signature = Some(proof.clone()),
                _ => events.push(CassetteEvent {
                    signature: Some(proof.clone()),
                    ..CassetteEvent::default()
                }),
            },
            Ok(StreamEvent::RedactedReasoning(data)) => events.push(CassetteEvent {
                redacted: Some(data.clone()),
                ..CassetteEvent::default()
            }),
            Ok(StreamEvent::ToolUseStarted { index, name }) => {
                self.tools.push(RecordedToolCall {
                    index: *index,
                    at: events.len(),
                    name: name.clone(),
                    json: String::new(),
                    unfinished: true,
                });
                // Keeps the place; the input is complete only at the end.
                events.push(CassetteEvent::default());
            }
            // A cassette plays under its own ids.
            Ok(StreamEvent::ToolUseAttached { .. }) => {}
            Ok(StreamEvent::ToolInput { index, json }) => {
                if let Some(tool) = self.tools.iter_mut().rfind(|tool| tool.index == *index) {
                    tool.json.push_str(json);
                }
            }
            Ok(StreamEvent::ToolUseCompleted { index }) => {
                if let Some(tool) = self.tools.iter_mut().rfind(|tool| tool.index == *index) {
                    tool.unfinished = false;
                }
            }
            Ok(StreamEvent::Search(report)) => events.push(CassetteEvent {
                search: Some(report.clone()),
                ..CassetteEvent::default()
            }),
            Ok(StreamEvent::Usage { usage, cost }) => {
                let tokens = Some(RecordedTokens::from_usage(*usage, *cost));
                match events.last_mut() {
                    Some(last) if last.usage.is_some() => last.usage = tokens,
                    _ => events.push(CassetteEvent {
                        usage: tokens,
                        ..CassetteEvent::default()
                    }),
                }
            }
            Ok(StreamEvent::Stop(reason)) => {
                events.push(CassetteEvent::from_stop_reason(reason));
                return true;
            }
            Err(error) => {
                events.push(CassetteEvent::from_error(error));
                return true;
            }
        }
        false
    }

    /// Hands the line to the writer and waits for it, at most [`WRITE_WAIT`].
    async fn flush_line(&mut self) {
        if let Some(writing) = self.start_writer() {
            // After the timeout the write continues; only the wait ends.
            let _ = clock::timeout(WRITE_WAIT, writing).await;
        }
    }

    /// Starts the write on a blocking thread; `None` if that happened before or no runtime is left.
    fn start_writer(&mut self) -> Option<JoinHandle<()>> {
        let mut exchange = self.exchange.take()?;
        for tool in self.tools.drain(..) {
            exchange.events[tool.at].tool =
                Some(CassetteTool::from_json(tool.name, tool.json, tool.unfinished));
        }
        let tape = self.tape.clone();
        Some(
            Handle::try_current()
                .ok()?
                .spawn_blocking(move || tape.write(&exchange)),
        )
    }
}

/// Returns the last event that is neither a usage count nor a search report. Servers send them between pieces of a
/// text. Joining pieces across them keeps a secret in one text, where redaction finds it.
fn last_content_event(events: &mut [CassetteEvent]) -> Option<&mut CassetteEvent> {
    let is_content = |event: &&mut CassetteEvent| event.usage.is_none() && event.search.is_none();
    events.iter_mut().rev().find(is_content)
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some(RecordedExchange { events, .. }) = &mut self.exchange {
            events.push(CassetteEvent {
                cancelled: true,
                ..CassetteEvent::default()
            });
        }
        let Some(writing) = self.start_writer() else {
            return;
        };
        let mut running = self.tape.writing.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|writing| !writing.is_finished());
        running.push(writing);
    }
}

/// The file of a recording.
struct RecordingFile {
    /// The name of the provider.
    name: String,
    path: PathBuf,
    redactor: Redactor,
    /// The last line could not be written, and a warning says so.
    failed: AtomicBool,
    /// The warning for the next session that asks.
    notice: Mutex<Option<String>>,
    /// Lines of canceled calls that are still being written.
    writing: Mutex<Vec<JoinHandle<()>>>,
}

impl RecordingFile {
    /// Returns the text without secrets; `None` if it contains none.
    fn redact_secrets(&self, text: &str) -> Option<String> {
        match self.redactor.redact_text(text) {
            std::borrow::Cow::Borrowed(_) => None,
            std::borrow::Cow::Owned(clean) => Some(clean),
        }
    }

    /// Removes secrets from every text, including object keys.
    fn clean_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Some(clean) = self.redact_secrets(text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.clean_value(item)),
            Value::Object(map) => {
                let dirty: Vec<String> = map
                    .keys()
                    .filter(|key| self.redact_secrets(key).is_some())
                    .cloned()
                    .collect();
                for key in dirty {
                    if let (Some(value), Some(clean)) = (map.remove(&key), self.redact_secrets(&key)) {
                        map.insert(clean, value);
                    }
                }
                map.values_mut().for_each(|value| self.clean_value(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn encode_line(&self, exchange: &RecordedExchange) -> serde_json::Result<String> {
        // `Value` sorts its keys, but a line is recognized by its beginning, so `recorded` is put first by hand.
        let mut origin = serde_json::to_value(&exchange.recorded)?;
        let mut rest = serde_json::to_value(exchange)?;
        if let Some(rest) = rest.as_object_mut() {
            rest.remove("recorded");
        }
        // Texts are cleaned before they become JSON, where escapes could hide a secret.
        self.clean_value(&mut origin);
        self.clean_value(&mut rest);
        let rest = rest.to_string();
        Ok(format!("{RECORDED}{origin},{}\n", rest.trim_start_matches('{')))
    }

    fn write(&self, exchange: &RecordedExchange) {
        let written = self
            .encode_line(exchange)
            .map_err(io::Error::from)
            .and_then(|line| append_line(&self.path, line.as_bytes()));
        match written {
            Ok(()) => self.failed.store(false, Ordering::Relaxed),
            Err(error) => {
                // One warning for a row of failures; the next success arms it again.
                if !self.failed.swap(true, Ordering::Relaxed) {
                    let path = self.path.display();
                    tracing::warn!(%error, "cannot record calls to {path}");
                    let notice = format!(
                        "cannot record calls of {} to {path}: {error}; everything else continues",
                        self.name
                    );
                    *self.notice.lock().unwrap_or_else(PoisonError::into_inner) = Some(notice);
                }
            }
        }
    }
}

/// Appends a whole line or nothing.
fn append_line(path: &Path, line: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .read(true)
        // Recordings contain prompts and answers, so only the owner may read them.
        .mode(0o600)
        .open(path)?;
    // Other providers and other servers may write to the same file.
    file.lock()?;
    repair_torn_line(&mut file)?;
    let before = file.metadata()?.len();
    file.write_all(line).inspect_err(|_| {
        // If this fails too, the torn line stays until the next write repairs it.
        let _ = file.set_len(before);
    })
}

/// Removes a torn line that a killed server left. Ends any other unfinished line instead, because it is not ours.
fn repair_torn_line(file: &mut File) -> io::Result<()> {
    let len = file.metadata()?.len();
    let mut last = [b'\n'];
    if len > 0 {
        file.read_exact_at(&mut last, len - 1)?;
    }
    if last == [b'\n'] {
        return Ok(());
    }
    let from = len.saturating_sub(TAIL);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(TAIL).read_to_end(&mut tail)?;
    let line = tail
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let is_ours = super::cassette::is_torn(&String::from_utf8_lossy(&tail[line..]));
    // If the tail contains no line start, where the line begins is unknown, so nothing is removed.
    if is_ours && (from == 0 || line > 0) {
        file.set_len(from + line as u64)
    } else {
        file.write_all(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::domain::{Cost, Message, Usage};
    use crate::provider::request::tests::build_request;
    use crate::provider::{ProviderFault, Script, StopReason, TimeoutPhase};

    /// Yields the given events, then stalls.
    struct ScriptedEvents(Vec<Result<StreamEvent, ProviderError>>);

    impl Provider for ScriptedEvents {
        fn name(&self) -> &str {
            "work"
        }

        fn open_stream(
            &self,
            _: Arc<ModelRequest>,
        ) -> BoxFuture<'static, Result<EventStream, ProviderError>> {
            let events = futures::stream::iter(self.0.clone()).chain(futures::stream::pending());
            async move { Ok(events.boxed()) }.boxed()
        }
    }

    const CANARY: &str = "sk-canary-0123456789";

    fn redactor() -> Redactor {
        let redactor = Redactor::default();
        redactor.learn_secret(&CANARY.into());
        redactor
    }

    fn error(fault: ProviderFault) -> ProviderError {
        ProviderError {
            fault,
            provider: "work".into(),
            model: "m".into(),
            message: "what was said".into(),
            status: Some(429),
            request_id: Some("req_1".into()),
            retry_after: Some(Duration::from_millis(1_234)),
            user_action: Some("wait".into()),
            should_retry: None,
        }
    }

    /// Collects events up to a stop or an error. Polling further would stall.
    async fn events(provider: &dyn Provider, prompt: &str) -> Vec<Result<StreamEvent, ProviderError>> {
        let request = Arc::new(build_request("m", vec![Message::user_text(prompt)]));
        let mut stream = match provider.open_stream(request).await {
            Ok(stream) => stream,
            Err(error) => return vec![Err(error)],
        };
        let mut events = Vec::new();
        while let Some(event) = stream.next().await {
            let end = matches!(event, Err(_) | Ok(StreamEvent::Stop(_)));
            events.push(event);
            if end {
                break;
            }
        }
        events
    }

    fn every_event() -> Vec<StreamEvent> {
        let started = |index, name: &str| StreamEvent::ToolUseStarted {
            index,
            name: name.into(),
        };
        let input = |index, json: &str| StreamEvent::ToolInput {
            index,
            json: json.into(),
        };
        vec![
            StreamEvent::Reasoning("hm, hm".into()),
            StreamEvent::ReasoningSignature("proof".into()),
            StreamEvent::RedactedReasoning("opaque".into()),
            StreamEvent::ReasoningSignature("of nothing shown".into()),
            StreamEvent::Text("grüße 😀".into()),
            started(0, "read_file"),
            input(0, "{\"path\": \"a\"}"),
            StreamEvent::ToolUseCompleted { index: 0 },
            started(1, "list"),
            input(1, "{\"x\":1}"),
            StreamEvent::ToolUseCompleted { index: 1 },
            started(2, "cut"),
            input(2, "{\"x\":"),
            StreamEvent::Usage {
                usage: Usage {
                    input: 1,
                    output: 2,
                    cache_read: 3,
                    cache_write: 4,
                },
                cost: Some(Cost(12_500_000)),
            },
        ]
    }

    async fn recorded(
        dir: &tempfile::TempDir,
        scripted_events: Vec<Result<StreamEvent, ProviderError>>,
    ) -> String {
        let path = dir.path().join("new/tape.jsonl");
        let provider = ScriptedEvents(scripted_events);
        let recorded = RecordingProvider::new(Arc::new(provider), ApiKind::OpenAi, path.clone(), redactor());
        events(&recorded, "fix it").await;
        std::fs::read_to_string(path).unwrap()
    }

    #[tokio::test]
    async fn recorded_calls_replay_unchanged() {
        let ends = [
            Ok(StreamEvent::Stop(StopReason::MaxTokens)),
            Ok(StreamEvent::Stop(StopReason::Refusal(Some("I won't".into())))),
            Err(error(ProviderFault::Throttled)),
            Err(error(ProviderFault::TimedOut(TimeoutPhase::Gap))),
            Err(error(ProviderFault::PromptTooLong { limit: Some(7) })),
            Err(error(ProviderFault::QuotaExhausted { reset_at: Some(8) })),
        ];
        for end in ends {
            for first_events in [every_event(), Vec::new()] {
                let dir = tempfile::tempdir().unwrap();
                let scripted_events: Vec<_> = first_events.into_iter().map(Ok).chain([end.clone()]).collect();
                let tape = recorded(&dir, scripted_events.clone()).await;
                let script = Script::parse("work", &tape).unwrap();
                assert_eq!(events(&script, "please fix it").await, scripted_events, "{tape}");
            }
        }
    }

    #[tokio::test]
    async fn a_cancelled_call_is_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tape.jsonl");
        let provider = ScriptedEvents(vec![Ok(StreamEvent::Text("half".into()))]);
        let recorded = RecordingProvider::new(Arc::new(provider), ApiKind::OpenAi, path.clone(), redactor());
        let request = Arc::new(build_request("m", vec![Message::user_text("fix it")]));
        drop(recorded.open_stream(request.clone()));
        let mut stream = recorded.open_stream(request).await.unwrap();
        assert!(stream.next().await.unwrap().is_ok());
        drop(stream);
        let writing = std::mem::take(&mut *recorded.tape.writing.lock().unwrap());
        for line in writing {
            line.await.unwrap();
        }
        let tape = std::fs::read_to_string(&path).unwrap();
        assert_eq!(tape.matches("{\"cancelled\":true}").count(), 2, "{tape}");
        let script = Script::parse("work", &tape).unwrap();
        let (first, second) = (events(&script, "fix it").await, events(&script, "fix it").await);
        let (cut, complete) = if first.len() == 1 {
            (first, second)
        } else {
            (second, first)
        };
        assert_eq!(cut.len(), 1);
        assert_eq!(complete[0], Ok(StreamEvent::Text("half".into())));
        for end in [&cut[0], &complete[1]] {
            assert_eq!(end.as_ref().unwrap_err().fault, ProviderFault::BrokenStream);
        }
    }

    #[tokio::test]
    async fn recordings_contain_no_secret_even_in_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let (start, rest) = CANARY.split_at(7);
        let piece = |text: &str| Ok(StreamEvent::Text(text.to_owned()));
        let scripted_events = vec![
            piece(start),
            piece(rest),
            Ok(StreamEvent::ToolUseStarted {
                index: 0,
                name: CANARY.into(),
            }),
            Ok(StreamEvent::ToolInput {
                index: 0,
                json: format!("{{\"{CANARY}\":[\"{CANARY}\"]}}"),
            }),
            Ok(StreamEvent::ToolUseStarted {
                index: 1,
                name: "t".into(),
            }),
            Ok(StreamEvent::ToolInput {
                index: 1,
                json: format!("{{ \"{CANARY}"),
            }),
            Err(ProviderError {
                message: CANARY.into(),
                user_action: Some(CANARY.into()),
                should_retry: None,
                request_id: Some(CANARY.into()),
                ..error(ProviderFault::Server)
            }),
        ];
        let path = dir.path().join("tape.jsonl");
        let recorded = RecordingProvider::new(
            Arc::new(ScriptedEvents(scripted_events)),
            ApiKind::OpenAi,
            path.clone(),
            redactor(),
        );
        events(&recorded, &format!("use {CANARY}")).await;
        let tape = std::fs::read_to_string(&path).unwrap();
        assert!(!tape.contains(CANARY) && !tape.contains(rest), "{tape}");
        assert_eq!(tape.matches("***").count(), 8, "{tape}");
        assert!(Script::parse("work", &tape).is_ok());
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }

    #[tokio::test]
    async fn usage_between_pieces_does_not_split_text() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tape.jsonl");
        let counted = |output| StreamEvent::Usage {
            usage: Usage {
                output,
                ..Usage::default()
            },
            cost: None,
        };
        let (start, rest) = CANARY.split_at(5);
        let search = crate::provider::SearchReport::Source(crate::domain::WebSource {
            url: "https://a.org/".into(),
            title: "A".into(),
        });
        let scripted_events = vec![
            Ok(StreamEvent::Reasoning(format!("hm {start}"))),
            Ok(counted(1)),
            Ok(StreamEvent::Reasoning(rest.into())),
            Ok(counted(2)),
            Ok(StreamEvent::Text(format!("so {start}"))),
            Ok(counted(3)),
            Ok(StreamEvent::Search(search.clone())),
            Ok(StreamEvent::Text(format!("{rest} it is"))),
            Ok(counted(4)),
            Ok(StreamEvent::Stop(StopReason::EndTurn)),
        ];
        let recorded = RecordingProvider::new(
            Arc::new(ScriptedEvents(scripted_events)),
            ApiKind::OpenAi,
            path.clone(),
            redactor(),
        );
        // The identifying part of a prompt is cut, but never through a secret.
        let prompt = format!("{}{CANARY}", "count ".repeat(32));
        events(&recorded, &prompt).await;
        let tape = std::fs::read_to_string(&path).unwrap();
        assert!(!tape.contains(rest) && !tape.contains("count sk-c"), "{tape}");
        assert!(tape.contains("count count"), "{tape}");
        let played = Script::parse("work", &tape).unwrap();
        let usage = |event: &StreamEvent| match event {
            StreamEvent::Usage { usage, .. } => Some(usage.output),
            _ => None,
        };
        let played: Vec<_> = events(&played, &prompt).await.into_iter().flatten().collect();
        assert_eq!(played.iter().filter_map(usage).next_back(), Some(4), "{played:?}");
        assert!(played.contains(&StreamEvent::Search(search)), "{played:?}");
        let texts = played.iter().filter_map(|event| match event {
            StreamEvent::Text(text) | StreamEvent::Reasoning(text) => Some(text.as_str()),
            _ => None,
        });
        assert_eq!(texts.collect::<String>(), "hm ***so *** it is");
    }

    #[test]
    fn appended_lines_are_whole_whatever_the_file_contained() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tape.jsonl");
        let line = b"{\"recorded\":{},\"events\":[]}\n";
        let full_line = String::from_utf8_lossy(line).into_owned();
        for (before, after) in [
            (String::new(), full_line.clone()),
            (full_line.clone(), format!("{full_line}{full_line}")),
            (
                format!("{full_line}{{\"recorded\":{{\"at"),
                format!("{full_line}{full_line}"),
            ),
            ("{\"rec".to_owned(), full_line.clone()),
            // Not our line, so it stays.
            ("{\n}".to_owned(), format!("{{\n}}\n{full_line}")),
            (full_line.trim_end().to_owned(), format!("{full_line}{full_line}")),
        ] {
            std::fs::write(&path, &before).unwrap();
            append_line(&path, line).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), after, "{before}");
        }
    }

    #[tokio::test]
    async fn a_failing_disk_costs_only_the_line_and_one_warning() {
        let new_provider = || ScriptedEvents(vec![Ok(StreamEvent::Stop(StopReason::EndTurn))]);
        for path in ["/dev/full", "/proc/no/such/place"] {
            let recorded =
                RecordingProvider::new(Arc::new(new_provider()), ApiKind::OpenAi, path.into(), redactor());
            for _ in 0..2 {
                assert_eq!(
                    events(&recorded, "x").await,
                    [Ok(StreamEvent::Stop(StopReason::EndTurn))]
                );
            }
            assert!(recorded.tape.failed.load(Ordering::Relaxed));
            let notice = recorded.take_pending_notice().unwrap();
            assert!(
                notice.starts_with(&format!("cannot record calls of work to {path}: ")),
                "{notice}"
            );
            assert_eq!(recorded.take_pending_notice(), None, "once");
        }
    }
}
