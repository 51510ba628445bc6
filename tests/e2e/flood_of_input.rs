//! Input that is valid but huge, from the editor or the model: the server keeps answering, says what it leaves out, and
//! comes to rest.

use serde_json::{Value, json};

use crate::harness::{Client, Config, Options, World, is_sample, now, resident, wait_until_stable};
use crate::mock_llm::Reply;

/// Returns the CPU time that a process has used, in ticks.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum()
}

/// Waits until the server no longer computes.
fn wait_until_at_rest(client: &Client) {
    // Timers may use a little CPU at any time.
    wait_until_stable("the server's CPU time", || cpu_ticks(client.pid()) / 5);
}

/// Waits until the server has given back what it needed beyond `before`, but for 32 MiB.
fn wait_until_memory_returns(world: &World, client: &Client, before: u64) {
    world.wait_until(|| resident(client.pid()).0 < before + (32 << 20));
}

/// Waits until the messages of the status's warnings satisfy a condition.
fn wait_for_warnings(world: &World, client: &Client, is_met: impl Fn(&[String]) -> bool) {
    world.wait_until(|| {
        let notes = client.notes();
        let last = notes.iter().rfind(|note| note.method == "agent/status");
        let warnings = last
            .and_then(|note| note.params["warnings"].as_array())
            .into_iter();
        let text = |warning: &Value| warning["message"].as_str().unwrap_or_default().to_owned();
        is_met(&warnings.flatten().map(text).collect::<Vec<_>>())
    });
}

#[test]
fn changes_in_a_long_line_do_not_delay_answers() {
    let world = World::new();
    let client = world.start();
    let uri = world.uri("long.txt");
    let text = "a".repeat(25 << 20);
    let document = json!({"uri": uri, "version": 1, "languageId": "text", "text": text});
    let (before, _) = resident(client.pid());
    client.notify("textDocument/didOpen", json!({"textDocument": document}));
    let changes: Vec<Value> = (0..200)
        .map(|n| {
            let place = json!({"line": 0, "character": (12 << 20) + 7 * n});
            json!({"range": {"start": place, "end": place}, "text": "b"})
        })
        .collect();
    client.settled();
    let start = now();
    let document = json!({"uri": uri, "version": 2});
    client.notify(
        "textDocument/didChange",
        json!({"textDocument": document, "contentChanges": changes}),
    );
    client.ping();
    eprintln!(
        "flood: an answer after 200 changes of one notification in {:?}",
        start.elapsed()
    );
    for (n, change) in changes.iter().enumerate() {
        let document = json!({"uri": uri, "version": 3 + n});
        client.notify(
            "textDocument/didChange",
            json!({"textDocument": document, "contentChanges": [change]}),
        );
    }
    client.ping();
    eprintln!(
        "flood: an answer after 200 notifications in {:?}",
        start.elapsed()
    );
    wait_until_at_rest(&client);
    eprintln!("flood: at rest after {:?}", start.elapsed());
    client.notify("textDocument/didClose", json!({"textDocument": {"uri": uri}}));
    client.ping();
    wait_until_memory_returns(&world, &client, before);
}

#[test]
fn workspace_folders_beyond_the_limit_are_reported_and_not_used() {
    let world = World::new();
    let client = world.launch(Options::default());
    let mut params = client.initialize_params(None);
    let more: Vec<Value> = (0..20_000)
        .map(|n| json!({"uri": format!("file://{}/folder-{n}", world.workspace().display()), "name": "folder"}))
        .collect();
    let folders = params["workspaceFolders"].as_array_mut().unwrap();
    folders.extend(more.iter().cloned());
    let start = now();
    let _: Value = client.call("initialize", params);
    client.initialized();
    client.ping();
    eprintln!("flood: an answer after 20,000 folders in {:?}", start.elapsed());
    let session = client.session();
    assert_eq!(client.ask(&session, "hello").text, "ok");
    eprintln!("flood: a turn with 20,000 folders in {:?}", start.elapsed());
    wait_for_warnings(&world, &client, |messages| {
        messages
            .iter()
            .any(|message| message.contains("256 of 20001 workspace folders"))
    });
    let event = json!({"added": [], "removed": more});
    client.notify("workspace/didChangeWorkspaceFolders", json!({"event": event}));
    client.ping();
    eprintln!("flood: an answer after they are gone in {:?}", start.elapsed());
    wait_for_warnings(&world, &client, <[String]>::is_empty);
}

#[test]
fn tool_calls_beyond_the_limit_of_a_message_are_left_out() {
    let world = World::new();
    world.write("a.txt", "a");
    let client = world.start();
    let session = client.session();
    let call = |reply: Reply, n| reply.call("read_file", json!({"path": "a.txt", "limit": n + 1}));
    world.mock().push((0..10_000).fold(Reply::new(), call));
    let start = now();
    assert_eq!(client.ask(&session, "read all").text, "ok");
    eprintln!("flood: 10,000 calls in {:?}", start.elapsed());
    let request = world.wait_for_request(1).body.to_string();
    assert_eq!(request.matches("\"tool_use\"").count(), 128);
    assert!(request.contains("9872 more calls"), "{request}");
    assert!(
        client.all(&session, "agent/warning")[0]
            .text("message")
            .contains("9872")
    );
}

#[test]
fn message_with_a_million_keys_is_refused() {
    let world = World::new();
    let client = world.start();
    let members: Vec<String> = (0..1_000_000).map(|n| format!("\"key-{n}\":{n}")).collect();
    let body = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":\"huge\",\"method\":\"agent/listTools\",\"params\":{{{}}}}}",
        members.join(",")
    );
    let id = client.expect_answer(&json!("huge"), "agent/listTools", "");
    let start = now();
    client.frame(body.as_bytes());
    client.ping();
    eprintln!("flood: an answer after a million keys in {:?}", start.elapsed());
    let error = client.refusal(&id);
    assert_eq!(error.code, -32600);
    assert!(error.message.contains("values"), "{error:?}");
}

#[test]
fn canceled_delegation_in_depth_comes_to_rest() {
    let (most, enough) = if is_sample() { (200, 100) } else { (1000, 500) };
    let world = World::with(Config {
        agent: format!("max_subagents = {most}\nmax_steps = 1000"),
        ..Config::default()
    });
    let tasks: Vec<Value> = (0..32).map(|n| json!({"prompt": format!("part {n}")})).collect();
    world.mock().respond_with(move |_| {
        let call = |reply: Reply, _| reply.call("delegate", json!({"prompt": "", "tasks": tasks}));
        Some((0..8).fold(Reply::new(), call))
    });
    let client = world.start();
    let session = client.session();
    let (before, _) = resident(client.pid());
    let id = client.prompt(&session, "explode");
    world.wait_until(|| world.requests() > enough);
    let start = now();
    client.cancel(&session);
    assert_eq!(json!(client.prompt_result(&id).state), "cancelled");
    eprintln!(
        "flood: canceled in {:?}, {} requests",
        start.elapsed(),
        world.requests()
    );
    wait_until_at_rest(&client);
    eprintln!("flood: at rest after {:?}", start.elapsed());
    wait_until_memory_returns(&world, &client, before);
}
