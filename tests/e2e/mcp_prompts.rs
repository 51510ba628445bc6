//! Prompts of MCP servers as slash commands, and resources that a prompt mentions (R-MCP).

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, Config, World};
use crate::mcp::{call_tool, peer_table, servers, world_with};
use crate::mock_llm::Reply;

const ALLOW: &str = "[approvals]\nallow = [\"mcp:*\"]";

/// Sends a prompt, and returns the blocks of the user's message as the model reads them.
fn send(world: &World, client: &Client, session: &str, prompt: &str) -> Vec<Value> {
    world.mock().push(Reply::text("done"));
    client.ask(session, prompt);
    let request = world.wait_for_request(world.requests() - 1);
    request.messages().last().unwrap()["content"]
        .as_array()
        .unwrap()
        .clone()
}

/// Sends a prompt that is refused, and returns the reason.
pub(crate) fn refusal(client: &Client, session: &str, prompt: &str) -> String {
    let refused = client.refused("agent/prompt", json!({"sessionId": session, "prompt": prompt}));
    refused.message
}

fn commands(client: &Client, session: &str) -> Vec<Value> {
    let listed: Value = client.call("agent/listCommands", json!({"sessionId": session}));
    listed["commands"].as_array().unwrap().clone()
}

#[test]
fn prompts_are_listed_with_their_arguments_and_expanded() {
    let world = world_with(&[], "");
    let client = world.start();
    let session = client.session();
    assert!(commands(&client, &session).is_empty(), "listing starts no server");
    // The first prompt starts the server.
    let blocks = send(
        &world,
        &client,
        &session,
        "/mcp__peer__review src/a.rs \"be brief\"",
    );
    assert_eq!(blocks[0]["text"], "/mcp__peer__review src/a.rs \"be brief\"");
    assert_eq!(
        blocks[1]["text"],
        "<prompt path=\"peer/review\">\n[user]\nReview src/a.rs in the style be brief.\n[assistant]\nWhich part \
         first?\n[user]\nAll of it.\n</prompt>"
    );
    let listed = commands(&client, &session);
    let review = listed
        .iter()
        .find(|command| command["name"] == "mcp__peer__review")
        .unwrap();
    assert_eq!(
        *review,
        json!({
            "name": "mcp__peer__review", "description": "Reviews a file.", "argumentHint": "<file> [style]",
            "arguments": [
                {"name": "file", "description": "The file.", "required": true},
                {"name": "style"},
            ],
            "server": "peer", "trusted": true,
        })
    );
    let message = &client.all(&session, "agent/message")[0].params["content"];
    assert_eq!(
        (&message[1]["kind"], &message[1]["path"]),
        (&json!("prompt"), &json!("peer/review"))
    );
    let plain = send(&world, &client, &session, "/mcp__peer__plain");
    assert!(
        plain[1]["text"].as_str().unwrap().contains("\nA plain prompt.\n"),
        "{plain:?}"
    );
    let image = listed
        .iter()
        .find(|command| command["description"] == "Returns an image.")
        .unwrap();
    let image = send(
        &world,
        &client,
        &session,
        &format!("/{}", image["name"].as_str().unwrap()),
    );
    assert_eq!(image[2]["type"], "image", "{image:?}");
}

#[test]
fn a_prompt_that_cannot_be_used_is_refused_with_the_reason() {
    let world = world_with(&[], "");
    let client = world.start();
    let session = client.session();
    for (prompt, expected) in [
        (
            "/mcp__peer__review",
            "the argument file is missing; it takes <file> [style]",
        ),
        ("/mcp__peer__plain now", "it takes no arguments"),
        (
            "/mcp__peer__nothing",
            "the MCP server peer has no such prompt; it has mcp__peer__review, ",
        ),
    ] {
        let reason = refusal(&client, &session, prompt);
        assert!(reason.contains(expected), "{prompt}: {reason}");
    }
    // Another server's name is no command.
    assert_eq!(send(&world, &client, &session, "/mcp__other__plain").len(), 1);
    assert_eq!(world.requests(), 1);
}

#[test]
fn a_server_that_fails_is_an_error_of_the_prompt() {
    let world = world_with(&["--start", "exit"], "");
    let client = world.start();
    let session = client.session();
    for prompt in ["/mcp__peer__plain", "read @peer:note://one"] {
        let reason = refusal(&client, &session, prompt);
        assert!(
            reason.contains("the MCP server peer does not run: it ended with exit code 3"),
            "{reason}"
        );
    }
    let slow = world_with(&["--start", "hang"], "startup_timeout_s = 10");
    let client = slow.start();
    let session = client.session();
    client.wait_for_sandbox();
    // The clock stands still, because the command waits a little longer than the server may take to start.
    client.freeze();
    let id = client.prompt(&session, "/mcp__peer__plain");
    slow.wait_until(|| client.processes() > 1);
    client.advance(Duration::from_secs(10));
    let reason = client.refusal(&id).message;
    assert!(reason.contains("it did not start within 10 s"), "{reason}");
    client.thaw();
}

#[test]
fn content_of_a_server_that_never_starts_is_refused_with_the_reason() {
    let world = World::with(Config {
        tables: "[mcp.broken]\nurl = \"http://127.0.0.1:9/\"\nbearer_token_env = \"NOT_SET\"\n\
                 [mcp.off]\ncommand = \"off\"\nenabled = false\n"
            .to_owned(),
        ..Config::default()
    });
    let foreign = json!({"mcpServers": {"theirs": {"command": "theirs"}}});
    world.write(".mcp.json", foreign.to_string());
    let client = world.start();
    let session = client.session();
    for (server, expected) in [
        (
            "broken",
            "its settings cannot be used: bearer_token_env: the environment variable NOT_SET is not set",
        ),
        ("off", "`enabled = false` disables it"),
        ("theirs", "the folder is not trusted"),
    ] {
        for prompt in [
            format!("/mcp__{server}__plain"),
            format!("read @{server}:note://one"),
        ] {
            let reason = refusal(&client, &session, &prompt);
            assert!(reason.contains(expected), "{prompt}: {reason}");
        }
    }
    assert_eq!(world.requests(), 0);
    assert_eq!(send(&world, &client, &session, "read @none:note://one").len(), 1);
    // It counts as soon as it can be used.
    world.write(".mcp.json", "{}");
    client.call::<Value>("agent/reloadConfig", json!({}));
    assert_eq!(
        send(&world, &client, &session, "read @theirs:note://one").len(),
        1
    );
}

#[test]
fn the_server_learns_that_nobody_waits_for_a_resource() {
    let world = World::new();
    let log = world.path("peer.log");
    world.configure(Config {
        tables: peer_table(&["--log", log.to_str().unwrap()], ""),
        ..Config::default()
    });
    let client = world.start();
    let session = client.session();
    let count = |text: &str| {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.matches(text).count()
    };
    for number in 1..=2 {
        let asked = client.prompt(&session, "look at @peer:note://hang");
        world.wait_until(|| count("resources/read") == number);
        client.cancel(&session);
        client.prompt_result(&asked);
        world.wait_until(|| count("notifications/cancelled") == number);
    }
}

#[test]
fn a_canceled_request_ends_the_wait_of_a_steer_or_a_queued_prompt() {
    let world = World::new();
    let log = world.path("peer.log");
    world.configure(Config {
        tables: peer_table(&["--log", log.to_str().unwrap()], ALLOW),
        ..Config::default()
    });
    let client = world.start();
    let session = client.session();
    world.mock().push(Reply::tool("mcp__peer__hang", json!({})));
    let turn = client.prompt(&session, "go");
    client.tool_call(&session, "running");
    let content = "look at @peer:note://hang";
    for (number, (method, params)) in [
        ("agent/steer", json!({"sessionId": session, "prompt": content})),
        (
            "agent/queue",
            json!({"sessionId": session, "action": "add", "prompt": content}),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let asked = client.send(method, params);
        world.wait_until(|| {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            log.matches("resources/read").count() == number + 1
        });
        client.cancel_request(&asked);
        let refused = client.refusal(&asked);
        // The transport's own answer to a canceled request has other words, and changes nothing in the session.
        assert_eq!(
            (refused.code, &*refused.message),
            (-32800, "the request was canceled")
        );
    }
    client.cancel(&session);
    client.prompt_result(&turn);
}

#[test]
fn changed_prompts_count_at_once() {
    let world = world_with(&[], ALLOW);
    let client = world.start();
    let session = client.session();
    call_tool(&world, &client, &session, "change_prompts", json!({}));
    let has = |name: &str| {
        commands(&client, &session)
            .iter()
            .any(|command| command["name"] == name)
    };
    world.wait_until(|| has("mcp__peer__added"));
    assert!(!has("mcp__peer__plain"));
    let added = send(&world, &client, &session, "/mcp__peer__added");
    assert!(
        added[1]["text"].as_str().unwrap().contains("An added prompt."),
        "{added:?}"
    );
}

#[test]
fn resources_are_read_when_they_are_mentioned() {
    let world = world_with(&[], "");
    let client = world.start();
    let session = client.session();
    let blocks = send(
        &world,
        &client,
        &session,
        "compare @peer:note://one with @peer:\"note://two words\", @peer:note://pixel and @other:note://x.",
    );
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    assert_eq!(
        texts[1],
        "<resource path=\"peer:note://one\">\nThe text of note://one.\n</resource>"
    );
    assert!(texts[2].contains("The text of note://two words."), "{texts:?}");
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert!(blocks.iter().any(|block| block["type"] == "image"), "{blocks:?}");
    let huge = send(&world, &client, &session, "@peer:note://huge");
    let huge = huge[1]["text"].as_str().unwrap();
    assert!(
        huge.len() < 70_000 && huge.contains("[… truncated …]"),
        "{}",
        huge.len()
    );
    for (prompt, expected) in [
        (
            "@peer:note://none",
            "@peer:note://none cannot be read: Resource not found: note://none",
        ),
        (&*"@peer:note://one ".repeat(11), "at most 10 resources"),
    ] {
        let reason = refusal(&client, &session, prompt);
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn a_cancel_ends_the_wait_for_a_server() {
    for (prompt, is_of_request) in [
        ("look at @peer:note://hang", false),
        ("/mcp__silent__prompt", false),
        ("look at @peer:note://hang", true),
    ] {
        let silent = "[mcp.silent]\ncommand = \"sleep\"\nargs = [\"1000\"]\nstartup_timeout_s = 300\n";
        let world = world_with(&[], silent);
        let client = world.start();
        let session = client.session();
        let asked = client.prompt(&session, prompt);
        world.wait_until(|| client.processes() > 1);
        let result = if is_of_request {
            client.cancel_request(&asked);
            client.cancelled(&asked)
        } else {
            client.cancel(&session);
            client.prompt_result(&asked)
        };
        assert_eq!(json!(result.state), "cancelled");
        assert_eq!(world.requests(), 0, "nobody asks the model");
        world.mock().push(Reply::text("done"));
        let id = client.prompt(&session, "next");
        // It waits for the silent server, which is restarted whenever its time runs out.
        world.wait_until(|| {
            client.advance(Duration::from_secs(300));
            world.requests() == 1
        });
        client.prompt_result(&id);
    }
}

#[test]
fn lists_do_not_wait_for_a_prompt_that_waits_for_a_server() {
    let world = world_with(&[], "");
    let client = world.start();
    let session = client.session();
    send(&world, &client, &session, "/mcp__peer__plain");
    let asked = client.prompt(&session, "look at @peer:note://hang");
    assert!(!commands(&client, &session).is_empty());
    let _: Value = client.call("agent/listMcpServers", json!({"sessionId": session}));
    client.cancel(&session);
    client.prompt_result(&asked);
}

#[test]
fn a_resource_that_does_not_come_ends_by_the_limit() {
    let world = World::new();
    let log = world.path("peer.log");
    world.configure(Config {
        tables: peer_table(&["--log", log.to_str().unwrap()], "timeout_s = 20"),
        ..Config::default()
    });
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "@peer:note://hang");
    world.wait_until(|| std::fs::read_to_string(&log).is_ok_and(|log| log.contains("resources/read")));
    client.advance(Duration::from_secs(20));
    let reason = client.refusal(&id).message;
    assert!(
        reason.contains("@peer:note://hang cannot be read: no answer within 20 s"),
        "{reason}"
    );
    assert_eq!(servers(&client).len(), 1);
}

#[test]
fn content_of_a_server_counts_as_foreign() {
    let world = world_with(&[], "[approvals]\nallow = [\"web_fetch\"]");
    let client = world.start();
    let session = client.session();
    send(&world, &client, &session, "/mcp__peer__plain");
    // A rule allows it, but not after content from outside (R-TOOL-7).
    world
        .mock()
        .push(Reply::tool("web_fetch", json!({"url": "http://127.0.0.1:9/"})));
    let id = client.prompt(&session, "fetch");
    let approval = client.next_approval(&session);
    client.decide(&approval, "deny");
    client.prompt_result(&id);
}
