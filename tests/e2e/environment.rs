//! What the model is told about its environment: in notes of the history, so that the cached prefix stays.
//!
//! The mock also checks for every request that system prompt, tools, and earlier messages are the bytes of the requests
//! before.

use std::process::Command;

use agentls::protocol::LoadSessionResult;
use serde_json::{Value, json};

use crate::harness::{Client, World};
use crate::mock_llm::Reply;

#[expect(clippy::disallowed_methods, reason = "the test plays the user")]
pub(crate) fn git(world: &World, args: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=n@example.invalid"])
        .args(args)
        .current_dir(world.path("work"))
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// Returns the notes about the environment in the last request.
fn notes(world: &World) -> Vec<String> {
    let request = world.wait_for_request(world.requests() - 1);
    request.environment_notes().to_vec()
}

fn set(client: &Client, session: &str, method: &str, name: &str, value: &str) {
    let _: Value = client.call(method, json!({"sessionId": session, name: value}));
}

/// Asserts that no client shows a note as if the user had typed it.
fn assert_notes_are_hidden(client: &Client, session: &str, loaded: &LoadSessionResult) {
    for message in client.all(session, "agent/message") {
        let is_note = message.params.to_string().contains("<environment>");
        assert_eq!(is_note, message.params["hidden"] == true, "{:?}", message.params);
    }
    assert_eq!(loaded.state.title.as_deref(), Some("one"));
    let export: Value = client.call("agent/exportSession", json!({"sessionId": session}));
    assert!(
        !export["text"].as_str().unwrap().contains("environment>"),
        "{export}"
    );
}

/// Returns a workspace that is a repository with one commit and one new file.
fn world_with_repository() -> World {
    let world = World::new();
    world.write("a.txt", "a\n");
    git(&world, &["init", "-q", "-b", "main"]);
    git(&world, &["add", "a.txt"]);
    git(&world, &["commit", "-q", "-m", "Add </environment> a file"]);
    world.write("new.txt", "b\n");
    world
}

fn check_notes(model: &str) {
    let world = world_with_repository();
    let client = world.start();
    let session = client.session();
    set(&client, &session, "agent/setModel", "model", model);
    client.ask(&session, "one");
    let first = notes(&world);
    assert_eq!(first.len(), 1);
    let model_line = format!("- your model: {model}\n");
    for part in [
        "\n- mode: ask. ",
        "\n- sandbox: ",
        "\n- working folder: /",
        "\n- system: ",
        "\n- shell: bash",
        "\n- date: 20",
        &model_line,
        "\n- git branch: main\n- git main branch: main\n",
    ] {
        assert!(first[0].contains(part), "{part}: {}", first[0]);
    }
    client.ask(&session, "two");
    assert_eq!(notes(&world), first, "nothing has changed");

    set(&client, &session, "agent/setMode", "mode", "plan");
    git(&world, &["checkout", "-q", "-b", "other"]);
    client.ask(&session, "three");
    let changed = notes(&world);
    assert_eq!(changed.len(), 2);
    assert!(changed[1].contains("Changed:\n- mode: plan. "), "{}", changed[1]);
    assert!(changed[1].contains("- git branch: other\n"), "{}", changed[1]);
    for part in ["date", "your model", "main branch", "status", "commits"] {
        assert!(!changed[1].contains(part), "{part}: {}", changed[1]);
    }
    drop(client);

    let client = world.start();
    let loaded = client.load(&session);
    client.ask(&session, "four");
    assert_eq!(notes(&world), changed, "the history is the record");
    let fork: Value = client.call("agent/forkSession", json!({"sessionId": session}));
    client.ask(fork["sessionId"].as_str().unwrap(), "five");
    assert_eq!(notes(&world), changed);
    assert_notes_are_hidden(&client, &session, &loaded);
}

#[test]
fn changes_are_told_in_notes_over_the_messages_api() {
    check_notes("mock/mock-model");
}

#[test]
fn changes_are_told_in_notes_over_chat_completions() {
    check_notes("other/other-model");
}

#[test]
fn changes_are_told_in_notes_over_the_responses_api() {
    check_notes("responses/responses-model");
}

#[test]
fn a_mode_set_while_a_turn_runs_is_told_before_the_next_request() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    world
        .mock()
        .push(Reply::tool("write_file", json!({"path": "x", "content": "y"})));
    let prompt = client.prompt(&session, "write");
    let approval = client.next_approval(&session);
    set(&client, &session, "agent/setMode", "mode", "plan");
    client.decide(&approval, "deny");
    client.prompt_result(&prompt);
    let told = notes(&world);
    assert_eq!(told.len(), 2);
    assert!(told[1].contains("Changed:\n- mode: plan. "), "{}", told[1]);
}

#[test]
fn the_first_note_has_the_status_and_the_last_commits() {
    let world = world_with_repository();
    let client = world.start();
    // On a busy machine, git may be too slow for the first request of a session.
    world.wait_until(|| {
        client.ask(&client.session(), "one");
        let told = notes(&world).concat();
        told.contains("at the start:\n    ?? new.txt\n")
            && told.contains("\n    Add < /environment> a file\n")
    });
}

#[test]
fn the_status_has_paths_from_the_folder_of_the_session() {
    let world = world_with_repository();
    world.write("sub/bü.txt", "b\n");
    git(&world, &["add", "sub"]);
    git(&world, &["commit", "-q", "-m", "Add another file"]);
    git(&world, &["config", "status.relativePaths", "false"]);
    world.write("sub/bü.txt", "c\n");
    let client = world.start();
    world.wait_until(|| {
        client.ask(
            &client.session_with(json!({"cwd": world.path("work/sub")})),
            "one",
        );
        let told = notes(&world).concat();
        assert!(!told.contains("sub/b"), "{told}");
        told.contains("at the start:\n     M bü.txt\n    ?? ../new.txt\n")
    });
}

#[test]
fn a_session_without_a_repository_waits_for_no_git() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    client.ask(&session, "one");
    let told = notes(&world);
    assert!(
        told[0].contains("- git branch: none; this is not a git repository\n"),
        "{}",
        told[0]
    );
    git(&world, &["init", "-q", "-b", "main"]);
    client.ask(&session, "two");
    assert!(notes(&world)[1].contains("Changed:\n- git branch: main\n"));
}

/// git keeps the references of such a repository in tables, and the plain file names no branch.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test plays the user")]
fn the_branch_of_a_repository_with_reftables_is_told() {
    let world = World::new();
    let format = Command::new("git")
        .args(["init", "-q", "-b", "tables", "--ref-format=reftable"])
        .current_dir(world.path("work"))
        .status();
    if !format.unwrap().success() {
        // git before 2.45.
        return;
    }
    let client = world.start();
    // On a busy machine, git may be too slow for the first request of a session.
    world.wait_until(|| {
        client.ask(&client.session(), "one");
        notes(&world).concat().contains("- git branch: tables\n")
    });
    assert!(!notes(&world).concat().contains("not a git repository"));
}
