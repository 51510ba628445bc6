//! Folders of a session of `agentls acp`: what is said of them before the first turn, further ones, and new files.

use serde_json::{Value, json};

use super::client::{AcpClient, chunk_text};
use super::{choose, files, last_message};
use crate::harness::{Config, World};
use crate::mock_llm::Reply;

/// The prompt follows the answer to `session/new` as fast as a program can write it.
#[test]
fn what_must_be_known_before_a_turn_comes_with_the_first_one() {
    for shows_notices in [false, true] {
        let world = World::new();
        world.write(".mcp.json", r#"{"mcpServers": {"x": {"command": "x"}}}"#);
        world.write(".agentls/config.toml", "nonsense = 1\n");
        let abilities = if shows_notices {
            json!({"session": {"notices": {}}})
        } else {
            json!({})
        };
        let client = AcpClient::start(&world, abilities);
        let session = client.new_session(&world);
        world.mock().push(Reply::text("hello"));
        client.answer(client.prompt(&session, "hello"));
        let updates = client.taken_updates();
        let place = |text: &str| {
            let has_text = |update: &Value| update.to_string().contains(text);
            updates.iter().position(has_text)
        };
        let (notice, answer) = (place("not trusted"), place("hello"));
        assert!(notice.is_some() && notice < answer, "{updates:?}");
    }
}

#[test]
fn a_refused_prompt_comes_after_what_explains_it() {
    let world = World::with(Config {
        tables: "[provider.further]\nnonsense = 1".to_owned(),
        ..Config::default()
    });
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    world
        .mock()
        .push(Reply::error(401, "authentication_error", "invalid x-api-key"));
    let answer = client.answer(client.prompt(&session, "hello"));
    assert!(answer["error"]["message"].is_string(), "{answer}");
    let shown = chunk_text(&client.taken_updates(), "agent_message_chunk");
    assert!(shown.contains("nonsense"), "{shown}");
}

#[test]
fn further_folders_are_part_of_the_workspace_until_they_are_not_named() {
    let world = World::new();
    let other = world.path("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("b.txt"), "in the other folder\n").unwrap();
    let client = AcpClient::start(&world, json!({}));
    let (cwd, path) = (world.workspace(), other.join("b.txt"));
    let new = json!({"cwd": cwd, "mcpServers": [], "additionalDirectories": [other]});
    let session = client.call("session/new", new)["sessionId"].clone();
    let session = session.as_str().unwrap();
    let read = || {
        world.mock().push(Reply::tool("read_file", json!({"path": path})));
        world.mock().push(Reply::text("done"));
        let prompt = client.prompt(session, "read");
        let message = client.take(|message| {
            message["id"] == prompt && message["method"].is_null()
                || message["method"] == "session/request_permission"
        });
        if message["method"].is_null() {
            return "read";
        }
        choose(&client, &message, "deny");
        client.answer(prompt);
        "asked"
    };
    assert_eq!(read(), "read");
    assert!(last_message(&world, 1).contains("in the other folder"));
    let notes = world.mock().requests()[0].environment_notes().join("\n");
    assert!(notes.contains(&other.display().to_string()), "{notes}");
    // The list of a later request is the whole list.
    let mut load = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
    client.call("session/resume", load.clone());
    assert_eq!(read(), "asked");
    load["additionalDirectories"] = json!([other]);
    client.call("session/load", load.clone());
    assert_eq!(read(), "read");
}

#[test]
fn further_folders_that_do_not_exist_are_left_out() {
    let world = World::new();
    let client = AcpClient::start(&world, json!({"session": {"notices": {}}}));
    let folders = json!(["other", world.path("none")]);
    client.call(
        "session/new",
        json!({"cwd": world.workspace(), "mcpServers": [], "additionalDirectories": folders}),
    );
    let notice = client.take(|message| message["params"]["update"]["sessionUpdate"] == "notice");
    let notice = notice["params"]["update"].to_string();
    for words in ["must be an absolute path", "none is not a folder"] {
        assert!(notice.contains(words), "{notice}");
    }
}

/// Has the model create `new/n.txt`. `write` is what the editor does with the request. Returns the file and the result of
/// the call.
fn create_file(write: impl Fn(&World, &Value) -> bool) -> (String, String) {
    let world = World::new();
    let client = AcpClient::start(&world, files());
    let session = client.new_session(&world);
    client.call(
        "session/set_mode",
        json!({"sessionId": session, "modeId": "autoEdit"}),
    );
    let call = json!({"path": "new/n.txt", "content": "text\n"});
    world.mock().push(Reply::tool("write_file", call));
    world.mock().push(Reply::text("done"));
    let prompt = client.prompt(&session, "create");
    loop {
        let message = client.take(|message| {
            message["id"] == prompt && message["method"].is_null()
                || message["method"]
                    .as_str()
                    .is_some_and(|method| method.starts_with("fs/"))
        });
        match message["method"].as_str() {
            None => break,
            Some("fs/write_text_file") if write(&world, &message["params"]) => {
                client.respond(&message, json!({}));
            }
            Some(_) => {
                let refusal = json!({"code": -32002, "message": "no"});
                client.send(&json!({"jsonrpc": "2.0", "id": message["id"], "error": refusal}));
            }
        }
    }
    (world.read("new/n.txt").unwrap(), last_message(&world, 1))
}

#[test]
fn new_files_are_created_by_the_editor() {
    let (text, result) = create_file(|world, params| {
        assert_eq!(params["path"], json!(world.workspace().join("new/n.txt")));
        world.write("new/n.txt", params["content"].as_str().unwrap());
        true
    });
    assert_eq!(text, "text\n");
    assert!(
        result.contains("created") && !result.contains("changed further"),
        "{result}"
    );
    let (text, result) = create_file(|world, _| {
        world.write("new/n.txt", "formatted text\n");
        true
    });
    assert_eq!(text, "formatted text\n");
    assert!(result.contains("changed further"), "{result}");
}

#[test]
fn a_file_that_the_editor_does_not_create_is_written_to_the_disk() {
    // One that refuses, and one that shows a text without saving it.
    for answers in [false, true] {
        let (text, result) = create_file(|_, _| answers);
        assert_eq!(text, "text\n");
        assert!(result.contains("created"), "{result}");
    }
}
