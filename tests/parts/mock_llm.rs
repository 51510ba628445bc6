//! Tests of the mock LLM itself: what it sends, and which invalid requests it detects.

use std::time::Duration;

use crate::support::mock_llm::{Gate, MockLlm, Reply};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn post(mock: &MockLlm, path: &str, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(mock.address()).await.unwrap();
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nx-api-key: k\r\n\
         authorization: Bearer k\r\nanthropic-version: 2023-06-01\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut got = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let n = stream.read(&mut buffer).await.unwrap();
        got.extend_from_slice(&buffer[..n]);
        let text = String::from_utf8_lossy(&got);
        if n == 0 || text.contains(end) {
            return text.into_owned();
        }
    }
}

fn hello(model: &str) -> Value {
    json!({"model": model, "stream": true, "max_tokens": 10,
        "messages": [{"role": "user", "content": "hello"}]})
}

#[tokio::test]
async fn replies_in_all_formats_and_keeps_connections_alive() {
    let mock = MockLlm::start();
    mock.push(Reply::text("good day").call("read_file", json!({"path": "a"})));
    mock.push_for("marked", Reply::text("for you"));
    let mut stream = post(&mock, "/v1/messages", &hello("m")).await;
    let text = read_until(&mut stream, "0\r\n\r\n").await;
    assert!(text.contains("event: content_block_delta"), "{text}");
    assert!(text.contains(r#""partial_json":"{\"path\":\"a\"}""#), "{text}");
    assert!(text.contains(r#""stop_reason":"tool_use""#), "{text}");
    let mut stream = post(&mock, "/v1/chat/completions", &hello("marked")).await;
    let text = read_until(&mut stream, "0\r\n\r\n").await;
    assert!(
        text.contains(r#""content":"for""#) && text.contains("[DONE]"),
        "{text}"
    );
    let body = json!({"model": "m", "stream": true, "store": false, "max_output_tokens": 9,
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}]});
    mock.push(
        Reply::new()
            .reasoning("hm")
            .call("read_file", json!({"path": "a"})),
    );
    let stream_text = read_until(&mut post(&mock, "/v1/responses", &body).await, "0\r\n\r\n").await;
    for part in [
        "event: response.created",
        r#""delta":"hm""#,
        r#""encrypted_content":"c2lnbmVk""#,
        r#""delta":"{\"path\":\"a\"}""#,
        "event: response.completed",
    ] {
        assert!(stream_text.contains(part), "{part}: {stream_text}");
    }
    assert_eq!(mock.request(2).await.last_text(), "hello");
    let request = mock.request(1).await;
    assert_eq!(request.last_text(), "hello");
    mock.wait_answered(&request).await;
    drop(stream);
    assert!(!mock.wait_closed(&request).await.dropped);
}

#[tokio::test]
async fn detects_a_peer_that_leaves_at_a_gate() {
    let mock = MockLlm::start();
    let gate = Gate::new();
    mock.push(Reply::text("one").gate(&gate).with_text("two"));
    let mut stream = post(&mock, "/v1/messages", &hello("m")).await;
    mock.wait_gate(&gate).await;
    let text = read_until(&mut stream, "one").await;
    assert!(!text.contains("two"));
    drop(stream);
    let request = mock.request(0).await;
    assert!(mock.wait_closed(&request).await.dropped);
    mock.wait_open(0).await;
}

#[tokio::test]
async fn cuts_drips_floods_and_fails_as_scripted() {
    let mock = MockLlm::start();
    mock.push(Reply::text("a b c d").cut_after(3).drip(7));
    let text = read_until(&mut post(&mock, "/v1/messages", &hello("m")).await, "never").await;
    assert_eq!(text.matches("data: ").count(), 3, "{text}");
    mock.push(Reply::status(429).header("retry-after", "7").body("slow down"));
    let text = read_until(&mut post(&mock, "/v1/messages", &hello("m")).await, "slow down").await;
    assert!(
        text.starts_with("HTTP/1.1 429") && text.contains("retry-after: 7"),
        "{text}"
    );
    mock.push(Reply::flood(64 << 20, 64 << 10));
    let stream = post(&mock, "/v1/messages", &hello("m")).await;
    let request = mock.request(2).await;
    // Nothing reads: the socket accepts only what fits into its buffers.
    let mut last = u64::MAX;
    while request.accepted() != last {
        last = request.accepted();
        agentls::base::clock::sleep(Duration::from_millis(100)).await;
    }
    assert!(last < 16 << 20, "accepted {last}");
    drop(stream);
}

#[tokio::test]
async fn reports_invalid_requests() {
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "t", "input": {}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "x"});
    let user = |content: Value| json!({"role": "user", "content": content});
    let assistant = |content: Value| json!({"role": "assistant", "content": content});
    for (messages, expected) in [
        (vec![user(json!(""))], "message 0 is empty"),
        (
            vec![user(json!("a")), assistant(json!([call("1")])), user(json!("b"))],
            "owed were",
        ),
        (
            vec![
                user(json!("a")),
                assistant(json!([call("1"), call("2")])),
                user(json!([result("2"), result("1")])),
            ],
            "owed were",
        ),
        (vec![user(json!("a")), user(json!([result("1")]))], "owed were []"),
        (
            vec![user(json!("a")), assistant(json!("b"))],
            "must be the user's",
        ),
    ] {
        let mock = MockLlm::start();
        let body = json!({"model": "m", "stream": true, "max_tokens": 5, "messages": messages});
        read_until(&mut post(&mock, "/v1/messages", &body).await, "0\r\n\r\n").await;
        let failures = mock.take_failures();
        assert!(
            failures.iter().any(|failure| failure.contains(expected)),
            "{failures:?}"
        );
    }
}

#[tokio::test]
async fn reports_invalid_requests_of_the_responses_api() {
    let message = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    let user = || message("user", "input_text", "a");
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "t", "arguments": "{}"});
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "x"});
    let thought = |proof: &str| json!({"type": "reasoning", "summary": [], "encrypted_content": proof});
    for (input, expected) in [
        (vec![], "no input"),
        (vec![message("user", "input_text", " ")], "is empty"),
        (vec![message("user", "output_text", "a")], "of role \"user\""),
        (vec![message("tool", "input_text", "a")], "role \"tool\""),
        (vec![call("1"), output("1")], "before any question"),
        (vec![user(), call("1"), user()], "have no output"),
        (
            vec![user(), call("1"), call("2"), output("1"), user(), output("2")],
            "have no output",
        ),
        (
            vec![user(), call("1"), call("2"), output("2"), output("1")],
            "owed were",
        ),
        (
            vec![user(), call("1"), output("1"), call("1"), output("1")],
            "used twice",
        ),
        (vec![user(), call("1")], "have no output"),
        (
            vec![
                user(),
                thought("never given"),
                message("assistant", "output_text", "b"),
            ],
            "never gave",
        ),
        (vec![user(), thought("")], "without its proof"),
        (vec![user(), thought("p"), user()], "without what came of it"),
        (
            vec![user(), json!({"type": "item_reference", "id": "x"})],
            "nothing is stored",
        ),
    ] {
        let mock = MockLlm::start();
        let body =
            json!({"model": "m", "stream": true, "store": false, "max_output_tokens": 5, "input": input});
        read_until(&mut post(&mock, "/v1/responses", &body).await, "0\r\n\r\n").await;
        let failures = mock.take_failures();
        assert!(
            failures.iter().any(|failure| failure.contains(expected)),
            "{expected}: {failures:?}"
        );
    }
}

#[tokio::test]
async fn reports_a_changed_prefix() {
    let mock = MockLlm::start();
    let body = |system: &str, more: &str| {
        let mut messages = vec![json!({"role": "user", "content": "hello"})];
        if !more.is_empty() {
            messages.push(json!({"role": "assistant", "content": more}));
            messages.push(json!({"role": "user", "content": [
                {"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}}]}));
        }
        json!({"model": "m", "stream": true, "max_tokens": 5, "system": system, "messages": messages})
    };
    for (body, fine) in [
        (body("s", ""), true),
        (body("s", "hi"), true),
        (body("s", "hi"), true),
        (body("changed", "hi"), false),
        (body("s", "other"), true),
    ] {
        read_until(&mut post(&mock, "/v1/messages", &body).await, "0\r\n\r\n").await;
        assert_eq!(mock.take_failures().is_empty(), fine, "{body}");
    }
}
