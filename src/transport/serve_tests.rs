//! The loop, driven by a test client over an in-memory pipe. Time is paused where it matters.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

use tower_lsp::jsonrpc::Error;

use super::*;
use crate::transport::stdio::StdoutWriter;
use crate::transport::writer::FrameWriter;
use crate::transport::{Framing, Outgoing};

type Reply = BoxFuture<'static, Result<Option<Response>, String>>;

/// The actions of the handlers, in order.
type Record = Arc<Mutex<Vec<String>>>;

struct FakeHandlers {
    record: Record,
    mailbox: mpsc::Sender<i64>,
}

impl Service<Request> for FakeHandlers {
    type Response = Option<Response>;
    type Error = String;
    type Future = Reply;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Reply {
        let (method, id, params) = request.into_parts();
        let params = params.unwrap_or_default();
        assert!(method != "panicCall", "in call");
        let (record, mailbox) = (self.record.clone(), self.mailbox.clone());
        async move {
            let result = match &*method {
                "echo" | "initialize" | "initialized" | "shutdown" => params,
                "wait" | "agent/prompt" => {
                    cancel_token().cancelled().await;
                    json!("ended by its token")
                }
                "deaf" | "agent/compact" => std::future::pending().await,
                "panic" => panic!("at once"),
                "panicLater" => {
                    tokio::task::yield_now().await;
                    panic!("later")
                }
                "post" => {
                    // A Tokio channel with spare capacity: it must not wait, however many requests there are.
                    mailbox
                        .send(params.as_i64().or(params[0].as_i64()).unwrap())
                        .await
                        .unwrap();
                    params
                }
                "sleep" => {
                    clock::sleep(Duration::from_millis(params[0].as_u64().unwrap())).await;
                    record.lock().unwrap().push("slept".to_owned());
                    params
                }
                "none" => return Ok(None),
                "broken" => return Err("gone".to_owned()),
                "own" => {
                    let error = Error {
                        code: ErrorCode::RequestCancelled,
                        message: "own".into(),
                        data: Some(json!({"turnId": 1})),
                    };
                    return Ok(id.map(|id| Response::from_error(id, error)));
                }
                "bare" => return Ok(id.map(|id| Response::from_error(id, Error::invalid_params("bare")))),
                _ => return Ok(id.map(|id| Response::from_error(id, Error::method_not_found()))),
            };
            Ok(id.map(|id| Response::from_ok(id, result)))
        }
        .boxed()
    }
}

struct TestClient {
    input: Option<DuplexStream>,
    sent: mpsc::UnboundedReceiver<Value>,
    outbox: Outbox,
    root: CancellationToken,
    serving: AbortOnDrop<ServeResult>,
    posted: mpsc::Receiver<i64>,
    /// Requests of the service to the client.
    requests: ClientRequests,
    record: Record,
}

fn start() -> TestClient {
    start_with(|_| async {})
}

fn start_with<F>(on_end: impl FnOnce(EndReason) -> F + Send + 'static) -> TestClient
where
    F: Future<Output = ()> + Send + 'static,
{
    let (input, theirs) = tokio::io::duplex(64 << 10);
    let outbox = Outbox::new(Duration::ZERO);
    let root = CancellationToken::new();
    let (sender, sent) = mpsc::unbounded_channel();
    let written = spawn({
        let outbox = outbox.clone();
        async move {
            let mut batch = Vec::new();
            while outbox.take(&mut batch, 128 << 10).await {
                for slot in batch.drain(..) {
                    let mut bytes = Vec::new();
                    slot.write_to(&mut bytes);
                    let at = memchr::memmem::find(&bytes, b"\r\n\r\n").unwrap() + 4;
                    let _ = sender.send(serde_json::from_slice(&bytes[at..]).unwrap());
                }
            }
        }
    });
    let (mailbox, posted) = mpsc::channel(10_000);
    let requests = ClientRequests::new(outbox.clone(), Dialect::LanguageServer);
    let record = Record::default();
    let connection = Connection {
        input: theirs,
        service: FakeHandlers {
            record: record.clone(),
            mailbox,
        },
        requests: requests.clone(),
        outbox: outbox.clone(),
        written: written.map(drop).boxed(),
        root: root.clone(),
        options: ConnectionOptions {
            exempt: &["agent/prompt", "agent/compact"],
            ..ConnectionOptions::default()
        },
    };
    let serving = spawn(connection.serve_until_end(on_end));
    TestClient {
        input: Some(input),
        sent,
        outbox,
        root,
        serving,
        posted,
        requests,
        record,
    }
}

fn frame(body: &str) -> String {
    format!("Content-Length: {}\r\n\r\n{body}", body.len())
}

fn request(id: impl Into<Value>, method: &str, params: Value) -> String {
    let id: Value = id.into();
    frame(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string())
}

fn notification(method: &str, params: Value) -> String {
    frame(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string())
}

fn cancel(id: impl Into<Value>) -> String {
    let id: Value = id.into();
    notification("$/cancelRequest", json!({"id": id}))
}

impl TestClient {
    async fn send(&mut self, text: impl AsRef<[u8]>) {
        self.input
            .as_mut()
            .unwrap()
            .write_all(text.as_ref())
            .await
            .unwrap();
    }

    async fn next(&mut self) -> Value {
        self.sent.recv().await.expect("an answer")
    }

    /// Returns id and result, or id and error code.
    async fn answer(&mut self) -> (Value, Value) {
        let message = self.next().await;
        outcome(&message)
    }

    async fn end(mut self) -> (ServeResult, Vec<Value>) {
        let result = (&mut self.serving).await.unwrap();
        let mut rest = Vec::new();
        while let Some(message) = self.sent.recv().await {
            rest.push(message);
        }
        (result, rest)
    }
}

fn outcome(message: &Value) -> (Value, Value) {
    let outcome = message.get("result").unwrap_or(&message["error"]["code"]);
    (message["id"].clone(), outcome.clone())
}

#[tokio::test]
async fn handlers_start_in_wire_order() {
    let mut client = start();
    for at in 0..2_000_i64 {
        let text = match at % 2 {
            0 => notification("post", json!([at])),
            _ => request(at, "post", json!([at])),
        };
        client.send(text).await;
    }
    for at in 0..2_000 {
        assert_eq!(client.posted.recv().await, Some(at));
    }
    for at in (1..2_000).step_by(2) {
        assert_eq!(client.answer().await, (json!(at), json!([at])));
    }
}

#[test]
fn answers_leave_while_a_long_message_is_parsed() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut client = start();
        let (release, released) = std::sync::mpsc::channel::<()>();
        // Parsing has to wait for this.
        let busy = spawn(run_blocking(move || released.recv().unwrap()));
        let long = json!(["x".repeat(PARSED_IN_LOOP)]);
        let requests = [
            request(1, "sleep", json!([1])),
            request(2, "echo", long.clone()),
            request(3, "echo", json!([3])),
        ];
        client
            .send(requests[0].clone() + &requests[1][..PARSED_IN_LOOP])
            .await;
        client
            .send(requests[1][PARSED_IN_LOOP..].to_owned() + &requests[2])
            .await;
        assert_eq!(client.answer().await, (json!(1), json!([1])));
        release.send(()).unwrap();
        busy.await.unwrap().unwrap();
        assert_eq!(client.answer().await, (json!(2), long));
        assert_eq!(client.answer().await, (json!(3), json!([3])));
    });
}

#[tokio::test]
async fn a_cancel_right_after_its_request_takes_effect() {
    let mut client = start();
    for id in 0..300 {
        client.send(request(id, "wait", json!([])) + &cancel(id)).await;
        assert_eq!(client.answer().await, (json!(id), json!("ended by its token")));
    }
    client
        .send(request("7", "wait", json!([])) + &cancel(7) + &cancel("7"))
        .await;
    assert_eq!(client.answer().await, (json!("7"), json!("ended by its token")));
}

#[tokio::test(start_paused = true)]
async fn only_exempt_handlers_outlive_the_grace_period_of_a_cancel() {
    let mut client = start();
    client
        .send(request(1, "deaf", json!([])) + &request(2, "agent/compact", json!([])))
        .await;
    client.send(cancel(1) + &cancel(2)).await;
    let start = crate::base::clock::now();
    assert_eq!(client.answer().await, (json!(1), json!(-32_800)));
    assert_eq!(start.elapsed(), Duration::from_millis(1_500));
    clock::sleep(Duration::from_secs(3_600)).await;
    assert!(client.sent.try_recv().is_err());
    client
        .send(request(3, "agent/prompt", json!([])) + &cancel(3))
        .await;
    assert_eq!(client.answer().await, (json!(3), json!("ended by its token")));
}

#[tokio::test]
async fn panics_and_failures_are_answered_with_errors() {
    let mut client = start();
    for (method, code) in [
        ("panic", -32_603),
        ("panicLater", -32_603),
        ("panicCall", -32_603),
        ("broken", -32_603),
        ("none", -32_601),
        ("$/unknown", -32_601),
        ("agent/unknown", -32_601),
        ("bare", -32_602),
        ("exit", -32_600),
        ("$/cancelRequest", -32_600),
    ] {
        client
            .send(notification(method, json!([])).replace("\"exit\"", "\"none\""))
            .await;
        client.send(request(1, method, json!([]))).await;
        let message = client.next().await;
        assert_eq!(outcome(&message), (json!(1), json!(code)), "{method}");
        assert!(message["error"]["data"]["code"].is_string(), "{message}");
        assert_eq!(message["error"]["data"]["message"], message["error"]["message"]);
        client.send(request(1, "echo", json!([2]))).await;
        assert_eq!(client.answer().await, (json!(1), json!([2])), "after {method}");
    }
    client.send(request(1, "own", json!([]))).await;
    assert_eq!(
        client.next().await["error"]["data"],
        json!({"turnId": 1}),
        "a handler's data stays"
    );
}

#[tokio::test]
async fn a_reused_live_id_is_refused_and_the_first_request_answered() {
    let mut client = start();
    client
        .send(request(1, "wait", json!([])) + &request(1, "echo", json!([])))
        .await;
    assert_eq!(client.answer().await, (json!(1), json!(-32_600)));
    client.send(request("1", "echo", json!([]))).await;
    assert_eq!(
        client.answer().await,
        (json!("1"), json!([])),
        "a text is another id"
    );
    client.send(cancel(1)).await;
    assert_eq!(client.answer().await, (json!(1), json!("ended by its token")));
    client.send(request(1, "echo", json!([]))).await;
    assert_eq!(client.answer().await, (json!(1), json!([])), "free again");
}

#[tokio::test]
async fn excess_requests_are_refused_and_running_ones_can_be_cancelled() {
    let mut client = start();
    for id in 0..4_096 {
        client.send(request(id, "wait", json!([]))).await;
    }
    client.send(request(9_999, "echo", json!([]))).await;
    let message = client.next().await;
    assert_eq!(outcome(&message), (json!(9_999), json!(-32_000)));
    assert_eq!(message["error"]["data"]["class"], "retryable");
    client.send(cancel(4_000)).await;
    assert_eq!(client.answer().await, (json!(4_000), json!("ended by its token")));
    client.send(request(9_999, "echo", json!([]))).await;
    assert_eq!(client.answer().await, (json!(9_999), json!([])));
}

#[tokio::test]
async fn bad_input_is_answered_and_the_connection_survives() {
    let mut client = start();
    client.send(request("running", "wait", json!([]))).await;
    let bad: [(&[u8], Value, i64); 12] = [
        (b"Content-Length: x\r\n\r\n", json!(null), -32_700),
        (b"Content-Length: 1000000000000\r\n\r\n", json!(null), -32_700),
        (b"Content-Length: -5\r\n\r\n", json!(null), -32_700),
        (b"hello\r\n\r\n", json!(null), -32_700),
        (b"Content-Length: 3\r\n\r\n{]}", json!(null), -32_700),
        (b"Content-Length: 0\r\n\r\n", json!(null), -32_700),
        (b"Content-Length: 2\r\n\r\n\xff\xfe", json!(null), -32_700),
        (b"Content-Length: 2\r\n\r\n[]", json!(null), -32_600),
        (b"Content-Length: 2\r\n\r\n{}", json!(null), -32_600),
        (
            b"Content-Length: 24\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":5}",
            json!(5),
            -32_600,
        ),
        (
            b"Content-Length: 41\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"echo\"}",
            json!(null),
            -32_700,
        ),
        (
            b"Content-Type: x; charset=latin1\r\nContent-Length: 2\r\n\r\n{}",
            json!(null),
            -32_700,
        ),
    ];
    for (bytes, id, code) in bad {
        client.send(bytes).await;
        if bytes.ends_with(b"\"echo\"}") {
            // Two bytes longer than its header claims.
            assert_eq!(client.answer().await, (id.clone(), json!(code)));
            client.send(request(1, "echo", json!([]))).await;
            assert_eq!(client.answer().await, (id, json!(code)));
            assert_eq!(client.answer().await, (json!(1), json!([])));
            continue;
        }
        assert_eq!(
            client.answer().await,
            (id, json!(code)),
            "{}",
            String::from_utf8_lossy(bytes)
        );
        client.send(request(1, "echo", json!([]))).await;
        assert_eq!(client.answer().await, (json!(1), json!([])));
    }
    client.send(cancel("running")).await;
    assert_eq!(
        client.answer().await,
        (json!("running"), json!("ended by its token"))
    );
}

#[tokio::test]
async fn a_frame_over_the_limit_is_skipped() {
    let mut client = start();
    client.send(format!("Content-Length: {}\r\n\r\n", 40 << 20)).await;
    assert_eq!(
        client.answer().await,
        (json!(null), json!(-32_600)),
        "answered before it has come"
    );
    for _ in 0..40 {
        client.send(vec![b'x'; 1 << 20]).await;
    }
    client.send(request(1, "echo", json!([]))).await;
    assert_eq!(client.answer().await, (json!(1), json!([])));
}

#[tokio::test]
async fn the_clients_answers_reach_the_service() {
    let mut client = start();
    let mut first = client.requests.send("ask", &json!([]));
    let mut second = client.requests.send("ask", &json!([]));
    client
        .send(frame(r#"{"jsonrpc":"2.0","id":1,"result":[4]}"#))
        .await;
    assert_eq!(first.wait().await, Ok(json!([4])));
    // Of no request, and to one without the version.
    client
        .send(frame(
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}"#,
        ))
        .await;
    client.send(frame(r#"{"id":2,"result":[4]}"#)).await;
    assert!(second.wait().await.is_err());
    assert!(client.sent.try_recv().is_err(), "no answer to an answer");
}

#[tokio::test]
async fn requests_to_the_client_leave_before_later_answers() {
    let mut client = start();
    client
        .send(request(0, "initialize", json!({})) + &notification("initialized", json!({})))
        .await;
    client.next().await;
    // Dropped, a request is canceled.
    let mut pending = Vec::new();
    for id in 1..200 {
        pending.push(client.requests.send("ask", &json!([])));
        client.send(request(id, "echo", json!([]))).await;
        assert_eq!(client.next().await["method"], "ask");
        assert_eq!(client.answer().await, (json!(id), json!([])));
    }
}

#[tokio::test]
async fn notifications_wait_for_initialized() {
    let push_notification = |outbox: &Outbox| {
        outbox.push(Outgoing::Notification {
            body: br#"{"note":1}"#.to_vec(),
            group: Some(1),
            permit: None,
        });
    };
    let mut client = start();
    push_notification(&client.outbox);
    client
        .send(notification("initialized", json!({})) + &request(1, "echo", json!([])))
        .await;
    assert_eq!(
        client.answer().await,
        (json!(1), json!([])),
        "not before `initialize` is answered"
    );
    client
        .send(request(2, "initialize", json!({"processId": null})))
        .await;
    assert_eq!(client.answer().await, (json!(2), json!({"processId": null})));
    assert_eq!(client.next().await["note"], 1);
}

/// Each way a client can end, with the expected end.
async fn ends() -> Vec<(TestClient, EndReason, bool)> {
    let mut eof = start();
    eof.input = None;
    let mut exit = start();
    exit.send(notification("exit", json!(null))).await;
    let mut orderly = start();
    orderly
        .send(request(1, "shutdown", json!(null)) + &notification("exit", json!(null)))
        .await;
    assert_eq!(orderly.answer().await, (json!(1), json!(null)));
    let mut shutdown_eof = start();
    shutdown_eof.send(request(1, "shutdown", json!(null))).await;
    shutdown_eof.answer().await;
    shutdown_eof.input = None;
    let cancelled = start();
    cancelled.root.cancel();
    vec![
        (eof, EndReason::EndOfInput, false),
        (exit, EndReason::Exit, false),
        (orderly, EndReason::Exit, true),
        (shutdown_eof, EndReason::EndOfInput, true),
        (cancelled, EndReason::Cancelled, false),
    ]
}

#[tokio::test]
async fn each_end_reports_its_cause_and_exit_code() {
    for (client, end, after_shutdown) in ends().await {
        let (result, rest) = client.end().await;
        assert_eq!(result, ServeResult { end, after_shutdown });
        assert_eq!(result.exit_code(), u8::from(!after_shutdown));
        assert!(rest.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_meets_its_deadline_despite_hanging_handlers() {
    let mut client = start_with(|_| std::future::pending());
    client
        .send(request(1, "deaf", json!([])) + &request(2, "agent/compact", json!([])))
        .await;
    client
        .send(notification("deaf", json!([])) + &request(3, "wait", json!([])))
        .await;
    client.send(notification("exit", json!(null))).await;
    let start = crate::base::clock::now();
    assert_eq!(client.answer().await, (json!(3), json!("ended by its token")));
    let (_, mut rest) = client.end().await;
    assert!(
        start.elapsed() <= Duration::from_millis(1_950),
        "{:?}",
        start.elapsed()
    );
    rest.sort_by_key(|message| message["id"].as_i64());
    let rest: Vec<_> = rest.iter().map(outcome).collect();
    assert_eq!(
        rest,
        [(json!(1), json!(-32_800)), (json!(2), json!(-32_603))],
        "everybody is answered"
    );
}

#[tokio::test(start_paused = true)]
async fn a_quick_end_waits_only_the_drain_timeout_for_hanging_handlers() {
    let mut client = start();
    client
        .send(request(1, "deaf", json!([])) + &notification("exit", json!(null)))
        .await;
    let start = crate::base::clock::now();
    let (_, rest) = client.end().await;
    assert_eq!(start.elapsed(), DRAIN_TIMEOUT);
    assert_eq!(outcome(&rest[0]), (json!(1), json!(-32_603)));
}

#[tokio::test(start_paused = true)]
async fn messages_sent_during_the_end_still_leave() {
    let (outbox_in, outbox_of) = tokio::sync::oneshot::channel::<Outbox>();
    let mut client = start_with(|end| async move {
        assert_eq!(end, EndReason::EndOfInput);
        let outbox = outbox_of.await.unwrap();
        clock::sleep(Duration::from_millis(100)).await;
        outbox.push(Outgoing::Notification {
            body: br#"{"turnEnded":1}"#.to_vec(),
            group: Some(1),
            permit: None,
        });
    });
    client
        .send(request(0, "initialize", json!({})) + &notification("initialized", json!({})))
        .await;
    client.next().await;
    client.send(request(1, "sleep", json!([200]))).await;
    client.send(request(2, "agent/prompt", json!([]))).await;
    client.input = None;
    outbox_in.send(client.outbox.clone()).unwrap();
    let record = client.record.clone();
    let (_, rest) = client.end().await;
    assert_eq!(*record.lock().unwrap(), ["slept"]);
    assert_eq!(rest[0], json!({"turnEnded": 1}));
    assert_eq!(outcome(&rest[1]), (json!(1), json!([200])));
    // The handler ended without an answer of its own: stopping it is the job of `on_end`.
    assert_eq!(outcome(&rest[2]), (json!(2), json!(-32_603)));
}

#[tokio::test]
async fn a_panic_in_on_end_keeps_the_cause_of_the_end() {
    let mut client = start_with(|_| async { panic!("in on_end") });
    client.input = None;
    assert_eq!(client.end().await.0.end, EndReason::EndOfInput);
}

#[tokio::test]
async fn the_server_ends_when_the_parent_ends() {
    #[expect(clippy::disallowed_methods, reason = "a test needs a process to watch")]
    let mut parent = std::process::Command::new("cat")
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut client = start();
    client
        .send(request(1, "initialize", json!({"processId": parent.id()})))
        .await;
    client.answer().await;
    client.send(request(2, "echo", json!([]))).await;
    client.answer().await;
    parent.kill().unwrap();
    assert_eq!(client.end().await.0.end, EndReason::ParentGone);
    parent.wait().unwrap();
}

#[tokio::test]
async fn an_invisible_parent_process_is_ignored() {
    let mut client = start();
    client
        .send(request(1, "initialize", json!({"processId": 2_000_000_000})))
        .await;
    client.answer().await;
    client.send(request(2, "echo", json!([]))).await;
    assert_eq!(client.answer().await, (json!(2), json!([])));
}

#[tokio::test(start_paused = true)]
async fn input_is_not_read_while_the_client_does_not_read() {
    let (mut input, theirs) = tokio::io::duplex(64 << 10);
    let (outbox, root) = (Outbox::new(Duration::ZERO), CancellationToken::new());
    let (mailbox, _posted) = mpsc::channel(1);
    let serving = spawn(
        Connection {
            input: theirs,
            service: FakeHandlers {
                record: Record::default(),
                mailbox,
            },
            requests: ClientRequests::new(outbox.clone(), Dialect::LanguageServer),
            outbox: outbox.clone(),
            written: futures::future::ready(()),
            root: root.clone(),
            options: ConnectionOptions::default(),
        }
        .serve_until_end(|_| async {}),
    );
    let bad = "Content-Length: 2\r\n\r\n[]".repeat(1_000);
    let mut sent = 0;
    // Nothing takes from the outbox, so writing stops once the pipe and the queue of answers are full.
    while let Ok(written) = clock::timeout(Duration::from_millis(500), input.write_all(bad.as_bytes())).await
    {
        written.unwrap();
        sent += bad.len();
        assert!(sent < 64 << 20, "input is read without end");
    }
    assert!(!outbox.has_room());
    let mut batch = Vec::new();
    outbox.take(&mut batch, 4 << 20).await;
    input.write_all(b"Content-Length: 2\r\n\r\n[]").await.unwrap();
    root.cancel();
    assert_eq!(serving.await.unwrap().end, EndReason::Cancelled);
}

#[tokio::test]
async fn a_broken_pipe_ends_serving() {
    let (mut input, theirs) = tokio::io::duplex(64 << 10);
    let (outbox, root) = (Outbox::new(Duration::ZERO), CancellationToken::new());
    let (read, write) = rustix::pipe::pipe().unwrap();
    let writer = FrameWriter::start(
        outbox.clone(),
        StdoutWriter::new(write),
        root.clone(),
        Framing::Header,
    )
    .unwrap();
    let (mailbox, _posted) = mpsc::channel(1);
    let serving = spawn(
        Connection {
            input: theirs,
            service: FakeHandlers {
                record: Record::default(),
                mailbox,
            },
            requests: ClientRequests::new(outbox.clone(), Dialect::LanguageServer),
            outbox,
            written: writer,
            root,
            options: ConnectionOptions::default(),
        }
        .serve_until_end(|_| async {}),
    );
    drop(read);
    input
        .write_all(request(1, "echo", json!([])).as_bytes())
        .await
        .unwrap();
    assert_eq!(serving.await.unwrap().end, EndReason::PipeBroken);
}

#[tokio::test]
async fn the_first_poll_ignores_the_cooperative_budget() {
    let (mailbox, _posted) = mpsc::channel(10_000);
    for at in 0..1_000 {
        let mailbox: mpsc::Sender<i64> = mailbox.clone();
        let mut handler = async move {
            mailbox.send(at).await.unwrap();
            None
        }
        .boxed();
        assert!(first_poll(&mut handler).await.is_ready(), "post {at} had to wait");
    }
}
