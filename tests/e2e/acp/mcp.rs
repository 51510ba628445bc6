//! MCP servers over the Agent Client Protocol: those that the client names, and those of the configuration (R-MCP).

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::client::{AcpClient, chunk_text};
use crate::harness::{Config, World};
use crate::mcp::{peer_script, peer_table, servers, world_with};
use crate::mcp_login::{login, world_at};
use crate::mcp_peer::{HttpPeer, log_in_by_browser};
use crate::mock_llm::Reply;
use crate::own_programs::{HostileClone, list_servers};

const NOTICES: &str = r#"{"session": {"notices": {}}}"#;

/// A value that must be neither logged nor stored.
const CANARY: &str = "sk-canary-of-an-mcp-server-0123456789";

fn start(world: &World) -> AcpClient {
    AcpClient::start(world, serde_json::from_str(NOTICES).unwrap())
}

/// Returns an entry that runs the scripted server. The process first writes its id and `$API_KEY` into `note`.
fn program(name: &str, note: &Path, arguments: &str) -> Value {
    let script = format!(
        "echo $$ \"$API_KEY\" > '{}'; exec python3 '{}' {arguments}",
        note.display(),
        peer_script().display()
    );
    json!({
        "name": name, "command": "/bin/sh", "args": ["-c", script],
        "env": [{"name": "API_KEY", "value": CANARY}],
    })
}

fn new_session(client: &AcpClient, world: &World, servers: Value) -> String {
    let params = json!({"cwd": world.workspace(), "mcpServers": servers});
    client.call("session/new", params)["sessionId"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Asks for a tool, allows the call, and returns the result as the model reads it.
fn call_tool(world: &World, client: &AcpClient, session: &str, tool: &str, input: Value) -> String {
    world.mock().push(Reply::tool(tool, input));
    world.mock().push(Reply::text("done"));
    let prompt = client.prompt(session, "go");
    let asked = client.asked("session/request_permission");
    client.respond(
        &asked,
        json!({"outcome": {"outcome": "selected", "optionId": "allow"}}),
    );
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    let request = world.wait_for_request(world.requests() - 1);
    request.messages().last().unwrap()["content"][0].to_string()
}

/// Returns the id of the process that has written `note`.
fn process_id(note: &Path) -> Option<String> {
    let text = std::fs::read_to_string(note).ok()?;
    text.split_whitespace().next().map(str::to_owned)
}

fn is_running(note: &Path) -> bool {
    process_id(note).is_some_and(|id| Path::new("/proc").join(id).exists())
}

/// Returns the files below a folder that contain the text.
fn files_with(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if memchr::memmem::find(&std::fs::read(&path).unwrap(), text.as_bytes()).is_some() {
            found.push(path);
        }
    }
    found
}

#[test]
fn programs_of_the_client_run_from_the_first_prompt_until_the_session_closes() {
    let world = World::new();
    let client = start(&world);
    let note = world.path("note");
    let session = new_session(&client, &world, json!([program("My files", &note, "")]));
    assert!(!note.exists(), "nothing starts before a prompt");
    world
        .mock()
        .push(Reply::tool("mcp__My-files__echo", json!({"text": "hello"})));
    world.mock().push(Reply::text("done"));
    let prompt = client.prompt(&session, "echo");
    let asked = client.asked("session/request_permission");
    let call = &asked["params"]["toolCall"];
    assert_eq!(call["title"], r#"My-files/echo {"text":"hello"}"#);
    assert_eq!(call["rawInput"], json!({"text": "hello"}));
    let shown = &call["content"][0]["content"]["text"];
    assert_eq!(shown, "```json\n{\n  \"text\": \"hello\"\n}\n```");
    client.respond(
        &asked,
        json!({"outcome": {"outcome": "selected", "optionId": "allow"}}),
    );
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    let updates = client.taken_updates();
    let last = updates
        .iter()
        .rfind(|update| update["toolCallId"] == call["toolCallId"])
        .unwrap();
    assert_eq!(last["status"], "completed");
    assert!(last["content"].to_string().contains("hello"), "{last}");

    assert!(std::fs::read_to_string(&note).unwrap().contains(CANARY));
    assert!(is_running(&note));
    client.call("session/close", json!({"sessionId": session}));
    world.wait_until(|| !is_running(&note));
    drop(client);
    for folder in ["data", "state"] {
        assert_eq!(files_with(&world.path(folder), CANARY), Vec::<PathBuf>::new());
    }
}

#[test]
fn prompts_of_the_clients_servers_are_commands() {
    let world = World::new();
    let client = start(&world);
    let session = new_session(&client, &world, json!([program("own", &world.path("note"), "")]));
    world.mock().push(Reply::text("hello"));
    client.prompt(&session, "hello");
    client.take(|message| {
        let commands = &message["params"]["update"]["availableCommands"];
        commands.to_string().contains("mcp__own__plain")
    });
}

#[test]
fn a_loaded_or_resumed_session_has_the_servers_that_its_client_names_now() {
    let world = World::new();
    world.mock().allow_rewrites();
    let client = start(&world);
    let (first, second) = (world.path("first"), world.path("second"));
    let session = new_session(&client, &world, json!([program("one", &first, "")]));
    call_tool(&world, &client, &session, "mcp__one__echo", json!({"text": "1"}));
    let reopen = |method: &str, servers: Value| {
        let params = json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": servers});
        client.call(method, params);
    };
    let same = process_id(&first);
    reopen("session/resume", json!([program("one", &first, "")]));
    call_tool(&world, &client, &session, "mcp__one__echo", json!({"text": "2"}));
    assert_eq!(process_id(&first), same, "the same server goes on running");
    reopen("session/load", json!([program("two", &second, "")]));
    let read = call_tool(
        &world,
        &client,
        &session,
        "mcp__two__echo",
        json!({"text": "three"}),
    );
    assert!(read.contains("three"), "{read}");
    world.wait_until(|| !is_running(&first));
    assert!(is_running(&second));
    client.call("session/delete", json!({"sessionId": session}));
    world.wait_until(|| !is_running(&second));
}

#[test]
fn servers_at_an_address_get_their_headers() {
    let world = World::new();
    let peer = HttpPeer::start(&[]);
    let client = start(&world);
    // A key that the provider uses too. Redaction of the params must not reach the server's own header.
    let key = format!("Bearer {}", world.secrets()[0]);
    let server = json!({
        "type": "http", "name": "remote", "url": peer.url.as_str(), "headers": [{"name": "Authorization", "value": key}],
    });
    let session = new_session(&client, &world, json!([server]));
    let read = call_tool(
        &world,
        &client,
        &session,
        "mcp__remote__echo",
        json!({"text": "far"}),
    );
    assert!(read.contains("far"), "{read}");
    let requests = peer.events().into_iter();
    let authorized = requests.filter(|event| {
        let headers = event["headers"].as_object();
        headers.is_some_and(|headers| {
            headers
                .iter()
                .any(|(name, value)| name.eq_ignore_ascii_case("authorization") && *value == key.as_str())
        })
    });
    assert!(authorized.count() > 0);
}

#[test]
fn a_server_of_the_client_comes_before_a_configured_one_of_its_name() {
    let world = world_with(&["--start", "exit"], "");
    let client = start(&world);
    let note = world.path("note");
    let servers = json!([program("peer", &note, "")]);
    // A client learns the session's id by the answer, and drops what comes before.
    let open = |method: &str, params: Value, known: &str| {
        let id = client.request(method, params);
        let is_early = |message: &Value| {
            message["method"] == "session/update" && message["params"]["sessionId"] != known
        };
        let first = client.take(|message| message["id"] == id || is_early(message));
        assert_eq!(first["id"], id, "{first}");
        let title = "The editor's MCP servers are used: peer";
        client.take(|message| message["params"]["update"]["title"] == title);
        first["result"]["sessionId"].as_str().unwrap().to_owned()
    };
    let params = json!({"cwd": world.workspace(), "mcpServers": servers});
    let session = open("session/new", params, "");
    let read = call_tool(
        &world,
        &client,
        &session,
        "mcp__peer__echo",
        json!({"text": "hello"}),
    );
    assert!(read.contains("hello"), "{read}");
    let params = json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": servers});
    open("session/fork", params, &session);
}

#[test]
fn the_servers_of_the_client_are_named_once_in_the_conversation() {
    let world = world_with(&["--start", "exit"], "");
    let client = AcpClient::start(&world, json!({}));
    let servers = json!([program("peer", &world.path("note"), "")]);
    let session = new_session(&client, &world, servers.clone());
    let mut shown = String::new();
    for _ in 0..2 {
        for _ in 0..2 {
            let params = json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": servers});
            client.call("session/load", params);
            // Follows the notes of the load.
            client.update("available_commands_update");
        }
        world.mock().push(Reply::text("done"));
        client.answer(client.prompt(&session, "go"));
        shown += &chunk_text(&client.taken_updates(), "agent_message_chunk");
    }
    assert_eq!(
        shown.matches("The editor's MCP servers are used: peer").count(),
        1,
        "{shown}"
    );
}

#[test]
fn both_kinds_of_servers_work_side_by_side() {
    let world = world_with(&[], "[approvals]\nallow = [\"mcp:peer/echo\"]");
    // There are so many tools that the model loads definitions.
    world.mock().allow_rewrites();
    let client = start(&world);
    let note = world.path("note");
    let session = new_session(&client, &world, json!([program("other", &note, "")]));
    // A rule for one server says nothing about another.
    call_tool(
        &world,
        &client,
        &session,
        "mcp__other__echo",
        json!({"text": "hello"}),
    );
    let plain = client.new_session(&world);
    world
        .mock()
        .push(Reply::tool("mcp__peer__echo", json!({"text": "hello"})));
    world.mock().push(Reply::text("done"));
    let prompt = client.prompt(&plain, "go");
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    let offered = world.wait_for_request(world.requests() - 1).body["tools"].to_string();
    assert!(offered.contains("mcp__peer__echo") && !offered.contains("mcp__other"));
}

#[test]
fn a_server_that_fails_is_reported_once_a_turn() {
    let world = World::new();
    let client = start(&world);
    let note = world.path("note");
    let session = new_session(&client, &world, json!([program("broken", &note, "--start exit")]));
    for _ in 0..2 {
        world.mock().push(Reply::text("done"));
        client.answer(client.prompt(&session, "go"));
    }
    let updates = client.taken_updates();
    let failures = updates
        .iter()
        .filter(|update| update["sessionUpdate"] == "notice")
        .filter(|update| {
            update["title"].as_str().unwrap().contains(
                "broken: it ended with exit code 3; the last line of its log: fatal: no configuration found",
            )
        });
    // The second turn begins within the pause before the next start, and waits for that.
    assert_eq!(failures.count(), 2, "{updates:#?}");
}

#[test]
fn the_users_own_settings_adjust_a_server_that_the_client_names() {
    for project in ["", "[mcp.peer]\ndeny_tools = []\ntrust_annotations = false\n"] {
        let world = World::with(Config {
            tables:
                "[mcp.peer]\ndeny_tools = [\"fail\"]\ntrust_annotations = true\n[mcp.off]\nenabled = false"
                    .to_owned(),
            ..Config::default()
        });
        let path = world.path("config/agentls/config.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("trusted = [{:?}]\n{text}", world.workspace())).unwrap();
        world.write(".agentls/config.toml", project);
        let client = start(&world);
        let servers = json!([
            program("peer", &world.path("peer"), ""),
            program("off", &world.path("off"), "")
        ]);
        let session = new_session(&client, &world, servers);
        world
            .mock()
            .push(Reply::tool("mcp__peer__echo", json!({"text": "hello"})));
        world.mock().push(Reply::text("done"));
        // Nobody is asked about a call that only reads.
        client.answer(client.prompt(&session, "go"));
        let result = world.wait_for_request(1).messages().last().unwrap()["content"][0].to_string();
        assert!(result.contains("hello"), "{result}");
        let tools = world.wait_for_request(0).body["tools"].to_string();
        assert!(tools.contains("mcp__peer__echo") && !tools.contains("mcp__peer__fail"));
        assert!(!tools.contains("mcp__off") && !world.path("off").exists());
    }
}

#[test]
fn entries_that_cannot_be_used_are_left_out_and_named() {
    let world = World::new();
    let client = AcpClient::launch(&world);
    let initialized = client.call(
        "initialize",
        json!({"protocolVersion": 1, "clientCapabilities": serde_json::from_str::<Value>(NOTICES).unwrap()}),
    );
    assert_eq!(
        initialized["agentCapabilities"]["mcpCapabilities"],
        json!({"http": true, "sse": false})
    );
    let secret = json!([{"name": "A", "value": [CANARY]}]);
    new_session(
        &client,
        &world,
        json!([
            {"type": "sse", "name": "old", "url": "https://127.0.0.1/sse", "headers": []},
            {"name": "a", "command": "x", "args": [], "env": secret},
        ]),
    );
    let notice = client.take(|message| {
        message["params"]["update"]["title"]
            .as_str()
            .is_some_and(|title| title.contains("left out"))
    });
    let why = notice["params"]["update"]["description"].as_str().unwrap();
    assert!(
        why.contains("\"old\" uses the transport `sse`, which is not supported")
            && why.contains("mcpServers[1]: needs a `name`"),
        "{why}"
    );
    assert!(!why.contains(CANARY), "{why}");
}

#[test]
fn progress_of_a_call_is_shown_as_its_content() {
    let world = world_with(&[], "[approvals]\nallow = [\"mcp:peer/*\"]");
    let client = start(&world);
    let session = client.new_session(&world);
    world
        .mock()
        .push(Reply::tool("mcp__peer__progress", json!({"count": 3})));
    world.mock().push(Reply::text("done"));
    client.answer(client.prompt(&session, "go"));
    let updates = client.taken_updates();
    let contents: Vec<String> = updates
        .iter()
        .filter(|update| update["sessionUpdate"] == "tool_call_update")
        .map(|update| update["content"].to_string())
        .collect();
    assert!(
        contents.iter().any(|content| content.contains("[1 of 3] part 1")),
        "{contents:?}"
    );
    assert!(contents.last().unwrap().contains("3 parts done"), "{contents:?}");
}

#[test]
fn a_cancel_during_a_call_ends_the_turn_and_tells_the_server() {
    let world = World::new();
    world.mock().allow_rewrites();
    let client = start(&world);
    let (note, log) = (world.path("note"), world.path("log"));
    let arguments = format!("--log '{}'", log.display());
    let session = new_session(&client, &world, json!([program("slow", &note, &arguments)]));
    world.mock().push(Reply::tool("mcp__slow__hang", json!({})));
    let prompt = client.prompt(&session, "go");
    let asked = client.asked("session/request_permission");
    client.respond(
        &asked,
        json!({"outcome": {"outcome": "selected", "optionId": "allow"}}),
    );
    let logged = |text: &str| std::fs::read_to_string(&log).is_ok_and(|log| log.contains(text));
    world.wait_until(|| logged("\"name\": \"hang\""));
    client.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "cancelled");
    world.wait_until(|| logged("notifications/cancelled"));
    let calls = client.taken_updates();
    let last = calls
        .iter()
        .rfind(|update| update["toolCallId"] == asked["params"]["toolCall"]["toolCallId"]);
    assert_eq!(last.unwrap()["status"], "failed");
    let read = call_tool(
        &world,
        &client,
        &session,
        "mcp__slow__echo",
        json!({"text": "next"}),
    );
    assert!(read.contains("next"), "{read}");
}

#[test]
fn a_server_that_needs_a_login_says_so() {
    let peer = HttpPeer::start(&["--oauth"]);
    let world = World::with(Config {
        tables: format!("[mcp.remote]\nurl = \"{}\"", peer.url),
        ..Default::default()
    });
    // This client shows no notices, so it is a thought.
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    world.mock().push(Reply::text("done"));
    client.answer(client.prompt(&session, "go"));
    let thoughts = chunk_text(&client.taken_updates(), "agent_thought_chunk");
    assert!(
        thoughts.contains("MCP server remote: ") && thoughts.contains("login"),
        "{thoughts}"
    );
}

#[test]
fn a_login_at_its_address_counts_for_a_server_of_the_client() {
    let peer = HttpPeer::start(&["--oauth"]);
    let world = world_at(&peer, "");
    world.mock().allow_rewrites();
    let client = AcpClient::start(&world, json!({}));
    let server = json!({"type": "http", "name": "named", "url": peer.url.as_str(), "headers": []});
    let session = new_session(&client, &world, json!([server]));
    world.mock().push(Reply::text("done"));
    client.answer(client.prompt(&session, "go"));
    let thoughts = chunk_text(&client.taken_updates(), "agent_thought_chunk");
    for advice in [
        "; run `agentls mcp add named --url URL`, then `agentls mcp login named`",
        "; run `agentls mcp login peer`",
    ] {
        assert!(thoughts.contains(advice), "{advice}: {thoughts}");
    }
    let editor = world.start();
    log_in_by_browser(&login(&editor));
    world.wait_until(|| servers(&editor)[0]["loggedIn"] == true);
    world
        .mock()
        .push(Reply::tool("mcp__named__echo", json!({"text": "hello"})));
    world.mock().push(Reply::text("done"));
    client.answer(client.prompt(&session, "go"));
    let request = world.wait_for_request(world.requests() - 1);
    let read = request.messages().last().unwrap()["content"][0].to_string();
    assert!(read.contains("hello"), "{read}");
}

#[test]
fn a_changed_configuration_counts_once_a_session_is_opened() {
    // After content of one server, calls of another would ask.
    let agent = "mode = \"full\"";
    let world = World::with(Config {
        agent: agent.to_owned(),
        ..Config::default()
    });
    world.mock().allow_rewrites();
    let client = start(&world);
    let session = client.new_session(&world);
    world.mock().push(Reply::text("done"));
    client.answer(client.prompt(&session, "go"));
    let open = json!({"sessionId": session, "cwd": world.workspace(), "mcpServers": []});
    for (number, method) in ["session/load", "session/resume", "session/fork", "session/new"]
        .into_iter()
        .enumerate()
    {
        // Each time under another name, so that nothing earlier counts.
        let table = peer_table(&[], "");
        world.configure(Config {
            agent: agent.to_owned(),
            tables: table.replace("mcp.peer", &format!("mcp.peer{number}")),
            ..Config::default()
        });
        let opened = client.call(method, open.clone());
        let opened = opened["sessionId"].as_str().unwrap_or(&session);
        let tool = format!("mcp__peer{number}__echo");
        world.mock().push(Reply::tool(&tool, json!({"text": method})));
        world.mock().push(Reply::text("done"));
        client.answer(client.prompt(opened, "go"));
        let request = world.wait_for_request(world.requests() - 1);
        let read = request.messages().last().unwrap()["content"][0].to_string();
        assert!(read.contains(method), "{read}");
    }
}

#[test]
fn servers_of_a_folder_stay_off_until_it_is_trusted() {
    let world = World::new();
    let note = world.path("note");
    let own = world.path("own");
    let entry = program("peer", &note, "");
    world.write(
        ".mcp.json",
        json!({"mcpServers": {"peer": {"command": "/bin/sh", "args": entry["args"]}}}).to_string(),
    );
    let client = start(&world);
    // What the client names is its user's, whatever the folder is.
    let session = new_session(&client, &world, json!([program("own", &own, "")]));
    world.mock().push(Reply::text("done"));
    client.answer(client.prompt(&session, "go"));
    let offered = world.wait_for_request(0).body["tools"].to_string();
    assert!(offered.contains("mcp__own__echo") && !offered.contains("mcp__peer"));
    assert!(is_running(&own) && !note.exists());
}

#[test]
fn prompts_of_servers_are_commands_and_follow_changes() {
    let world = world_with(&[], "[approvals]\nallow = [\"mcp:peer/*\"]");
    let client = start(&world);
    let session = client.new_session(&world);
    let first = client.update("available_commands_update").to_string();
    assert!(!first.contains("mcp__peer__"), "no server has started: {first}");
    world
        .mock()
        .push(Reply::tool("mcp__peer__change_prompts", json!({})));
    world.mock().push(Reply::text("done"));
    let prompt = client.prompt(&session, "go");
    let names = |update: &Value| -> Vec<String> {
        let commands = update["availableCommands"].as_array().unwrap();
        let names = commands.iter().map(|command| command["name"].as_str().unwrap());
        names.map(str::to_owned).collect()
    };
    let started = names(&client.update("available_commands_update"));
    assert!(
        started.contains(&"mcp__peer__plain".to_owned()) && started.contains(&"compact".to_owned()),
        "{started:?}"
    );
    let changed = names(&client.update("available_commands_update"));
    assert!(
        changed.contains(&"mcp__peer__added".to_owned()) && !changed.contains(&"mcp__peer__plain".to_owned()),
        "{changed:?}"
    );
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    world.mock().push(Reply::text("done"));
    client.answer(client.prompt(&session, "/mcp__peer__added"));
    let request = world.wait_for_request(world.requests() - 1);
    let last = request.messages().last().unwrap().to_string();
    assert!(last.contains("An added prompt."), "{last}");
}

#[test]
fn an_address_is_asked_about_as_the_client_announces() {
    let world = world_with(&[], "[approvals]\nallow = [\"mcp:peer/*\"]");
    let client = AcpClient::start(&world, json!({"elicitation": {"url": {}}}));
    let session = client.new_session(&world);
    let ask = |tool: &str| {
        world
            .mock()
            .push(Reply::tool(&format!("mcp__peer__{tool}"), json!({})));
        world.mock().push(Reply::text("done"));
        client.prompt(&session, "go")
    };
    let read_result = |prompt: i64| {
        assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
        let request = world.wait_for_request(world.requests() - 1);
        request.messages().last().unwrap()["content"][0].to_string()
    };
    for action in ["accept", "decline"] {
        let prompt = ask("elicit_url");
        let asked = client.asked("elicitation/create");
        let params = &asked["params"];
        assert_eq!(
            (&params["mode"], &params["sessionId"]),
            (&json!("url"), &json!(session))
        );
        assert_eq!(params["url"], "https://peer.example/sign-in?id=1");
        assert!(
            params["message"].as_str().unwrap().contains("Please sign in."),
            "{params}"
        );
        client.respond(&asked, json!({"action": action}));
        let result = read_result(prompt);
        assert!(result.contains(action), "{result}");
    }
    // It shows no forms, and says so.
    let result = read_result(ask("elicit_form"));
    assert!(result.contains("decline"), "{result}");
    let updates = serde_json::to_string(&client.taken_updates()).unwrap();
    assert!(updates.contains("the editor shows no forms"), "{updates}");
}

fn start_with_forms(world: &World) -> AcpClient {
    AcpClient::start(world, json!({"elicitation": {"form": {}}}))
}

#[test]
fn answers_that_do_not_fit_are_asked_again_and_the_others_are_kept() {
    let world = world_with(&[], "[approvals]\nallow = [\"mcp:peer/*\"]");
    let client = start_with_forms(&world);
    let session = client.new_session(&world);
    let ask = || {
        let call = Reply::tool("mcp__peer__elicit_form", json!({}));
        world.mock().push(call);
        world.mock().push(Reply::text("done"));
        client.prompt(&session, "go")
    };
    let read_result = |prompt: i64| {
        assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
        let request = world.wait_for_request(world.requests() - 1);
        let result = request.messages().last().unwrap()["content"][0].to_string();
        result.replace([' ', '\\'], "")
    };
    let prompt = ask();
    let asked = client.asked("elicitation/create");
    let fields = &asked["params"]["requestedSchema"]["properties"];
    for (name, value_type) in [("name", "string"), ("age", "integer"), ("share", "number")] {
        assert_eq!(fields[name]["type"], value_type, "{fields}");
    }
    assert_eq!(
        (&fields["agree"]["type"], &fields["agree"]["default"]),
        (&json!("boolean"), &json!(false))
    );
    let name = json!({
        "type": "string", "title": "Your name", "description": "As it should appear.", "minLength": 2, "maxLength": 20,
    });
    assert_eq!(fields["name"], name);
    assert_eq!(fields["email"]["format"], "email");
    assert_eq!(
        (&fields["age"]["minimum"], &fields["age"]["maximum"]),
        (&json!(0), &json!(150))
    );
    let content = json!({"age": 36, "agree": true, "color": "blue", "unknown": "x"});
    client.respond(&asked, json!({"action": "accept", "content": content}));
    let asked = client.asked("elicitation/create");
    let params = &asked["params"];
    let fields = params["requestedSchema"]["properties"].as_object().unwrap();
    assert_eq!(fields.len(), 2, "{fields:?}");
    let message = params["message"].as_str().unwrap();
    assert!(message.starts_with("\"name\" must be answered\n"), "{message}");
    let content = json!({"name": "Ada", "color": "green"});
    client.respond(&asked, json!({"action": "accept", "content": content}));
    let result = read_result(prompt);
    for part in [
        r#""name":"Ada""#,
        r#""age":36"#,
        r#""agree":true"#,
        r#""color":"green""#,
    ] {
        assert!(result.contains(part), "{part}: {result}");
    }
    client.taken_updates();
    let prompt = ask();
    for _ in 0..3 {
        let asked = client.asked("elicitation/create");
        client.respond(&asked, json!({"action": "accept", "content": {}}));
    }
    let result = read_result(prompt);
    assert!(result.contains("decline"), "{result}");
    let note = chunk_text(&client.taken_updates(), "agent_thought_chunk");
    assert!(
        note.contains("did not fit 3 times: \"name\" must be answered"),
        "{note}"
    );
}

#[test]
fn a_form_of_a_server_is_shown_by_the_client() {
    let world = world_with(&[], "[approvals]\nallow = [\"mcp:peer/*\"]");
    let ask = |client: &AcpClient, answer: Option<Value>| {
        let session = client.new_session(&world);
        world
            .mock()
            .push(Reply::tool("mcp__peer__elicit_form", json!({})));
        world.mock().push(Reply::text("done"));
        let prompt = client.prompt(&session, "go");
        if let Some(answer) = answer {
            let asked = client.asked("elicitation/create");
            let params = &asked["params"];
            assert!(
                params["message"]
                    .as_str()
                    .unwrap()
                    .starts_with("The MCP server peer asks: Who are you?"),
                "{params}"
            );
            assert_eq!(params["requestedSchema"]["required"], json!(["name"]));
            client.respond(&asked, answer);
        }
        assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
        let request = world.wait_for_request(world.requests() - 1);
        request.messages().last().unwrap()["content"][0].to_string()
    };
    let client = start_with_forms(&world);
    let content = json!({"name": "Ada", "age": "36", "color": "green", "size": "l", "tags": ["a", "c"]});
    let read = ask(&client, Some(json!({"action": "accept", "content": content})));
    for part in [
        "accept",
        r#"\"name\": \"Ada\""#,
        r#"\"age\": 36"#,
        r#"[\"a\", \"c\"]"#,
    ] {
        let wanted = part.replace(' ', "");
        assert!(read.replace(' ', "").contains(&wanted), "{part}: {read}");
    }
    let declined = ask(&client, Some(json!({"action": "decline"})));
    assert!(declined.contains("decline"), "{declined}");
    drop(client);
    let client = AcpClient::start(&world, json!({}));
    let unanswered = ask(&client, None);
    assert!(
        unanswered.contains("decline") || unanswered.contains("cancel"),
        "{unanswered}"
    );
}

#[test]
fn a_clone_does_not_provide_the_programs_that_the_editor_names() {
    let clone = HostileClone::new(String::new());
    let client = AcpClient::launch_with(&clone.world, &clone.env());
    let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
    client.call("initialize", params);
    let session = new_session(&client, &clone.world, list_servers());
    clone.world.mock().push(Reply::text("done"));
    let prompt = client.prompt(&session, "hi");
    assert_eq!(client.answer(prompt)["result"]["stopReason"], "end_turn");
    // The turn has waited for all of them.
    assert_eq!(clone.take_ran(), Vec::<&str>::new());
}
