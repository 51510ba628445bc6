//! The library's service under our loop: the behavior of the dependency that we rely on (dependencies.md §2).

use tower_lsp::jsonrpc::Result;
use tower_lsp::ls_types::{InitializeParams, InitializeResult, MessageType};
use tower_lsp::{Client as LspClient, LanguageServer, LspService};

use super::*;

struct Backend {
    client: LspClient,
    outbox: Outbox,
}

impl LanguageServer for Backend {
    async fn initialize(&self, _: InitializeParams) -> Result<InitializeResult> {
        Ok(InitializeResult::default())
    }

    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }
}

impl Backend {
    /// Sends `count[0]` notifications of each kind, then answers.
    async fn stream(&self, count: Vec<u64>) -> Result<u64> {
        for at in 0..count[0] {
            let body = json!({"method": "ours", "at": at}).to_string().into_bytes();
            self.outbox.push(Outgoing::Notification {
                body,
                group: Some(1),
                permit: None,
            });
            self.client.log_message(MessageType::INFO, "theirs").await;
        }
        Ok(count[0])
    }

    async fn wait(&self) -> Result<String> {
        cancel_token().cancelled().await;
        Ok("own words".to_owned())
    }
}

#[tokio::test]
async fn the_library_keeps_order_lifecycle_and_cancel() {
    let (mut input, theirs) = tokio::io::duplex(64 << 10);
    let (outbox, root) = (Outbox::new(Duration::ZERO), CancellationToken::new());
    let (service, socket) = LspService::build(|client| Backend {
        client,
        outbox: outbox.clone(),
    })
    .custom_method("stream", Backend::stream)
    .custom_method("wait", Backend::wait)
    .finish();
    let (requests, answers) = socket.split();
    let serving = spawn(
        Connection {
            input: theirs,
            service,
            requests,
            answers,
            outbox: outbox.clone(),
            written: futures::future::ready(()),
            root,
            options: ConnectionOptions::default(),
        }
        .serve_until_end(|_| async {}),
    );
    let mut waiting = std::collections::VecDeque::new();
    let mut next = async || {
        while waiting.is_empty() {
            let mut batch = Vec::new();
            assert!(outbox.take(&mut batch, 1 << 20).await);
            for slot in batch {
                let mut bytes = Vec::new();
                slot.write_to(&mut bytes);
                let at = memchr::memmem::find(&bytes, b"\r\n\r\n").unwrap() + 4;
                waiting.push_back(serde_json::from_slice::<Value>(&bytes[at..]).unwrap());
            }
        }
        waiting.pop_front().unwrap()
    };
    let mut send = async |text: String| input.write_all(text.as_bytes()).await.unwrap();

    send(request(0, "stream", json!([1]))).await;
    assert_eq!(outcome(&next().await).1, -32_002);
    let initialize = json!({"capabilities": {}});
    let pipelined = request(1, "initialize", initialize.clone())
        + &request(2, "initialize", initialize)
        + &notification("initialized", json!({}))
        + &request(3, "wait", json!(null))
        + &cancel(3);
    send(pipelined).await;
    assert!(next().await["result"].is_object());
    assert_eq!(outcome(&next().await), (json!(2), json!(-32_600)));
    assert_eq!(outcome(&next().await), (json!(3), json!("own words")));
    for (id, count) in (10..110).zip([1_usize, 2, 3, 5].into_iter().cycle()) {
        send(request(id, "stream", json!([count]))).await;
        let mut methods = Vec::new();
        let answer = loop {
            let message = next().await;
            match message["method"].as_str() {
                Some(method) => methods.push(method.to_owned()),
                None => break message,
            }
        };
        assert_eq!(outcome(&answer), (json!(id), json!(count)));
        for method in ["ours", "window/logMessage"] {
            assert_eq!(
                methods.iter().filter(|name| *name == method).count(),
                count,
                "before the answer"
            );
        }
    }
    send(request(4, "$/unknown", json!({})) + &request(5, "unknown", json!({}))).await;
    assert_eq!(outcome(&next().await), (json!(4), json!(-32_601)));
    let unknown = next().await;
    assert_eq!(unknown["error"]["message"], "no method unknown");
    send(request(6, "shutdown", json!(null)) + &request(7, "wait", json!(null))).await;
    assert_eq!(outcome(&next().await), (json!(6), json!(null)));
    assert_eq!(outcome(&next().await), (json!(7), json!(-32_600)));
    send(notification("exit", json!(null))).await;
    assert_eq!(
        serving.await.unwrap(),
        ServeResult {
            end: EndReason::Exit,
            after_shutdown: true
        }
    );
}
