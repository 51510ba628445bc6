//! The HTTP providers over real sockets, against a mock that misbehaves as scripted.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use crate::frozen_clock::FrozenClock;
use crate::support::mock_llm::{Cut, Gate, MockLlm, Reply};
use agentls::domain::{Block, Message, MessageId, Role, ToolResult, ToolSpec, Usage};
use agentls::provider::{
    ApiKind, CallLimits, Disposition, EventStream, HistoryItem, ModelRequest, Provider, ProviderError,
    ProviderFault, ProviderSpec, StopReason, StreamEvent, TimeoutPhase, build,
};
use futures::{StreamExt, poll};
use serde_json::json;

const KINDS: [ApiKind; 4] = [
    ApiKind::Anthropic,
    ApiKind::OpenAi,
    ApiKind::Responses,
    ApiKind::Gemini,
];

fn spec(mock: &MockLlm, kind: ApiKind) -> ProviderSpec {
    let base = match kind {
        ApiKind::Anthropic | ApiKind::Ollama => mock.anthropic_url(),
        ApiKind::Gemini => mock.gemini_url(),
        _ => mock.openai_url(),
    };
    ProviderSpec {
        base_url: Some(base),
        api_key: Some("canary-key".to_owned().into()),
        ..ProviderSpec::new("work", kind)
    }
}

fn provider(mock: &MockLlm, kind: ApiKind) -> Arc<dyn Provider> {
    build(&spec(mock, kind)).unwrap()
}

fn request(messages: Vec<Message>) -> Arc<ModelRequest> {
    Arc::new(ModelRequest {
        model: "claude-sonnet-4-20250514".into(),
        system: "Be brief.".into(),
        messages: messages.into_iter().map(HistoryItem::new).collect(),
        tools: Arc::new([ToolSpec {
            freeform: None,
            name: "read_file".into(),
            description: "Reads.".into(),
            schema: json!({"type": "object"}).into(),
        }]),
        max_output_tokens: 1_000,
        is_limit_assumed: false,
        effort: None,
        cache_key: None,
        context_window: Some(40_960),
        web_search: false,
        omitted: Default::default(),
    })
}

fn hello() -> Arc<ModelRequest> {
    request(vec![Message::user_text("hello")])
}

async fn open(provider: &Arc<dyn Provider>) -> Result<EventStream, ProviderError> {
    provider.open_stream(hello()).await
}

async fn collect(provider: &Arc<dyn Provider>) -> Result<Vec<StreamEvent>, ProviderError> {
    let mut stream = open(provider).await?;
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => {
                assert!(stream.next().await.is_none(), "an event follows the error");
                return Err(error);
            }
        }
    }
    Ok(events)
}

fn text_of(events: &[StreamEvent]) -> String {
    events
        .iter()
        .filter_map(|e| {
            if let StreamEvent::Text(text) = e {
                Some(text.as_str())
            } else {
                None
            }
        })
        .collect()
}

#[tokio::test]
async fn answers_arrive_complete_over_one_kept_connection() {
    for kind in KINDS {
        let mock = MockLlm::start();
        let provider = provider(&mock, kind);
        for _ in 0..3 {
            mock.push(
                Reply::new()
                    .unsigned_reasoning("hm")
                    .with_text("good day to you")
                    .ping()
                    .call_raw("read_file", r#"{"path":"a"}"#, 4)
                    .tokens(30, 7)
                    .cached(20, 10)
                    .drip(5),
            );
            let events = collect(&provider).await.unwrap();
            assert_eq!(text_of(&events), "good day to you");
            // The client reads to the end of the body, which frees the connection for reuse.
            agentls::base::clock::sleep(Duration::from_millis(60)).await;
            assert_eq!(events.last(), Some(&StreamEvent::Stop(StopReason::ToolUse)));
            let usage = events.iter().rev().find_map(|event| match event {
                StreamEvent::Usage { usage, .. } => Some(*usage),
                _ => None,
            });
            let (input, cache_read, cache_write) = match kind {
                // They do not count what they write to their caches.
                ApiKind::Gemini => (40, 20, 0),
                ApiKind::Ollama => (60, 0, 0),
                _ => (30, 20, 10),
            };
            assert_eq!(
                usage,
                Some(Usage {
                    input,
                    output: 7,
                    cache_read,
                    cache_write
                })
            );
        }
        let connections: Vec<_> = mock.requests().iter().map(|request| request.connection).collect();
        assert_eq!(connections, [0, 0, 0], "{kind:?}");
        let request = &mock.requests()[0];
        let key = match kind {
            ApiKind::Anthropic => "x-api-key",
            ApiKind::Gemini => "x-goog-api-key",
            _ => "authorization",
        };
        assert!(request.header(key).unwrap().ends_with("canary-key"));
    }
}

#[tokio::test]
async fn history_with_every_block_is_valid_and_keeps_its_prefix() {
    for kind in KINDS {
        let mock = MockLlm::start();
        let provider = provider(&mock, kind);
        let assistant = Message {
            id: MessageId::new_random(),
            role: Role::Assistant,
            content: vec![
                Block::Reasoning {
                    text: "foreign".into(),
                    signature: None,
                    redacted: false,
                },
                Block::ToolUse {
                    id: "call_1".into(),
                    attached: None,
                    name: "read_file".into(),
                    input: Arc::new(json!({})),
                },
                Block::ToolUse {
                    id: "call_2".into(),
                    attached: None,
                    name: "a.b".into(),
                    input: Arc::new(json!(1)),
                },
            ],
            incomplete: false,
            hidden: false,
        };
        let result = |id: &str, text: &str| Block::ToolResult {
            id: id.into(),
            result: Arc::new(ToolResult::ok(text)),
        };
        let results = Message {
            role: Role::Tool,
            content: vec![result("call_1", ""), result("call_2", "x")],
            ..assistant.clone()
        };
        let mut history = vec![HistoryItem::new(Message::user_text("hello"))];
        for more in [
            vec![assistant, results],
            vec![Message::user_text("steer"), Message::user_text("more")],
        ] {
            let ask = ModelRequest {
                messages: history.clone(),
                ..(*hello()).clone()
            };
            let mut stream = provider.open_stream(Arc::new(ask)).await.unwrap();
            while let Some(event) = stream.next().await {
                event.unwrap();
            }
            history.extend(more.into_iter().map(HistoryItem::new));
        }
        let ask = ModelRequest {
            messages: history,
            ..(*hello()).clone()
        };
        drop(provider.open_stream(Arc::new(ask)).await.unwrap());
        assert_eq!(mock.take_failures(), Vec::<String>::new(), "{kind:?}");
        assert_eq!(mock.requests().len(), 3);
    }
}

#[tokio::test]
async fn dropping_a_stream_or_a_call_closes_the_connection() {
    for kind in KINDS {
        let mock = MockLlm::start();
        let provider = provider(&mock, kind);
        let gate = Gate::new();
        mock.push(Reply::text("one").gate(&gate));
        let mut stream = open(&provider).await.unwrap();
        while !matches!(stream.next().await.unwrap().unwrap(), StreamEvent::Text(_)) {}
        drop(stream);
        let closed = mock.wait_closed(&mock.request(0).await).await;
        assert!(closed.dropped);
        // The same before the head of the response.
        mock.push(Reply::silent());
        let call = provider.open_stream(hello());
        let mut call = Box::pin(call);
        tokio::select! {
            biased;
            _ = &mut call => panic!("the mock does not answer"),
            _ = mock.request(1) => {}
        }
        drop(call);
        assert!(mock.wait_closed(&mock.request(1).await).await.dropped);
        mock.wait_open(0).await;
    }
}

#[tokio::test]
async fn broken_answer_yields_one_error() {
    for kind in KINDS {
        let mock = MockLlm::start();
        let provider = provider(&mock, kind);
        for (reply, fault) in [
            (Reply::text("a b c d").cut_after(4), ProviderFault::BrokenStream),
            (Reply::text("a b c d").reset_after(4), ProviderFault::BrokenStream),
            (Reply::text("a b").without_stop(), ProviderFault::BrokenStream),
            (
                Reply::text("a").fail("overloaded_error", "Overloaded"),
                ProviderFault::Overloaded,
            ),
            (
                Reply::text("a").raw("data: {nonsense\n\n"),
                ProviderFault::BrokenStream,
            ),
            (Reply::hang_up(Cut::Close), ProviderFault::Connection),
            (Reply::hang_up(Cut::Reset), ProviderFault::Connection),
            (Reply::html(), ProviderFault::NotTheApi),
            (
                Reply::status(302).header("location", "https://elsewhere.example/x"),
                ProviderFault::NotTheApi,
            ),
            (
                Reply::error(529, "overloaded_error", "Overloaded"),
                ProviderFault::Overloaded,
            ),
            (
                Reply::status(500)
                    .header("content-type", "text/html")
                    .body("<html>oops</html>"),
                ProviderFault::Server,
            ),
        ] {
            let label = format!("{kind:?} {reply:?}");
            mock.push(reply);
            let error = collect(&provider).await.expect_err(&label);
            assert_eq!(error.fault, fault, "{label}: {error}");
            assert_eq!(
                (error.provider.as_str(), error.model.as_str()),
                ("work", "claude-sonnet-4-20250514")
            );
        }
    }
}

#[tokio::test]
async fn refusals_carry_details_and_no_key() {
    let mock = MockLlm::start();
    let provider = provider(&mock, ApiKind::OpenAi);
    mock.push(Reply::error(429, "rate_limit", "slow down").header("retry-after", "7"));
    let error = collect(&provider).await.unwrap_err();
    assert_eq!((error.fault, error.status), (ProviderFault::Throttled, Some(429)));
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    mock.push(Reply::error(401, "auth", "wrong key: canary-key").header("request-id", "req_9"));
    let error = collect(&provider).await.unwrap_err();
    assert_eq!(error.message, "wrong key: [redacted]");
    assert_eq!(error.request_id.as_deref(), Some("req_9"));
    assert_eq!(
        error.user_action.as_deref(),
        Some("check the key in [provider.work] api_key, or renew that of `agentls login work`")
    );
    assert_eq!(error.disposition(), Disposition::Fail);
}

#[tokio::test]
async fn unreachable_address_is_a_connection_error() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut spec = ProviderSpec::new("ollama", ApiKind::OpenAi);
    spec.base_url = Some(format!("http://{address}/v1"));
    let error = collect(&build(&spec).unwrap()).await.unwrap_err();
    assert_eq!(error.fault, ProviderFault::Connection);
    assert_eq!(error.message, format!("{address} refused the connection"));
    assert_eq!(
        error.user_action.as_deref(),
        Some("is Ollama running? start it with `ollama serve`")
    );
    spec.base_url = Some("http://does-not-exist.invalid/v1".into());
    let error = collect(&build(&spec).unwrap()).await.unwrap_err();
    assert_eq!(error.fault, ProviderFault::Connection, "{error}");
}

#[tokio::test]
async fn untrusted_certificate_error_names_its_issuer() {
    let mut spec = ProviderSpec::new("work", ApiKind::OpenAi);
    spec.base_url = Some(format!("https://{}/v1", crate::tls_server::start()));
    let error = collect(&build(&spec).unwrap()).await.unwrap_err();
    assert_eq!(error.fault, ProviderFault::Tls, "{error}");
    assert!(
        error.message.contains("issued by agentls test root, agentls"),
        "{error}"
    );
    assert!(error.user_action.unwrap().contains("ca_file"));
    let roots = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/tls/root.pem");
    spec.ca_file = Some(roots.into());
    assert_eq!(text_of(&collect(&build(&spec).unwrap()).await.unwrap()), "safe");
    spec.ca_file = Some("/does/not/exist.pem".into());
    let error = collect(&build(&spec).unwrap()).await.unwrap_err();
    assert_eq!(error.fault, ProviderFault::Local);
    assert!(error.message.contains("/does/not/exist.pem"), "{error}");
}

#[tokio::test]
async fn tls_to_a_plain_port_suggests_checking_the_url() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = socket.read_to_end(&mut Vec::new());
    });
    let mut spec = ProviderSpec::new("work", ApiKind::Anthropic);
    spec.base_url = Some(format!("https://{address}"));
    let error = collect(&build(&spec).unwrap()).await.unwrap_err();
    assert_eq!(error.fault, ProviderFault::Tls, "{error}");
    assert_eq!(
        error.user_action.as_deref(),
        Some("does it support https? check [provider.work] base_url")
    );
}

#[tokio::test]
async fn timeouts_end_a_call_and_close_its_connection() {
    let mock = MockLlm::start();
    // One slice of the time that counts as silence; the clock stands still meanwhile.
    let limit = Duration::from_secs(5);
    let limits = CallLimits {
        first_event: Some(limit),
        gap: Some(limit),
        ..CallLimits::default()
    };
    for (index, kind) in KINDS.into_iter().enumerate() {
        let provider = build(&ProviderSpec {
            limits,
            ..spec(&mock, kind)
        })
        .unwrap();
        for (number, (reply, phase)) in [
            (Reply::silent(), TimeoutPhase::FirstEvent),
            (Reply::text("a").stall(), TimeoutPhase::Gap),
        ]
        .into_iter()
        .enumerate()
        {
            mock.push(reply);
            let clock = FrozenClock::new();
            let call = async {
                let mut stream = open(&provider).await?;
                let mut first = phase == TimeoutPhase::Gap;
                while let Some(event) = stream.next().await {
                    let event = event?;
                    if first && matches!(event, StreamEvent::Text(_)) {
                        first = false;
                        assert!(poll!(stream.next()).is_pending());
                        clock.advance(limit).await;
                    }
                }
                Ok(())
            };
            let silence = async {
                mock.request(2 * index + number).await;
                if phase == TimeoutPhase::FirstEvent {
                    clock.advance(limit).await;
                }
                std::future::pending::<()>().await;
            };
            let ended: Result<(), ProviderError> = tokio::select! {
                ended = call => ended,
                () = silence => unreachable!(),
            };
            let error = ended.unwrap_err();
            drop(clock);
            assert_eq!(error.fault, ProviderFault::TimedOut(phase));
            assert_eq!(error.disposition(), Disposition::RetryTimeout);
        }
        for request in [2 * index, 2 * index + 1] {
            assert!(mock.wait_closed(&mock.request(request).await).await.dropped);
        }
    }
}

#[tokio::test]
async fn stopped_reader_applies_backpressure() {
    let mock = MockLlm::start();
    let provider = provider(&mock, ApiKind::Anthropic);
    mock.push(Reply::flood(256 << 20, 32 << 10));
    let mut stream = open(&provider).await.unwrap();
    let _ = stream.next().await;
    let request = mock.request(0).await;
    let mut accepted = u64::MAX;
    while request.accepted() != accepted {
        accepted = request.accepted();
        agentls::base::clock::sleep(Duration::from_millis(200)).await;
    }
    assert!(
        accepted < 32 << 20,
        "{accepted} bytes were accepted although nothing reads them"
    );
}

#[tokio::test]
async fn hundred_concurrent_calls_complete() {
    let mock = MockLlm::start();
    mock.unchecked();
    mock.default_reply(Reply::deltas((0..50).map(|n| format!("{n} "))));
    let provider = provider(&mock, ApiKind::OpenAi);
    let calls = (0..100).map(|_| collect(&provider));
    for events in futures::future::join_all(calls).await {
        assert!(text_of(&events.unwrap()).ends_with("49 "));
    }
}
