//! What background commands in the sandbox create: it is found whenever nobody else would look.
#![cfg(target_os = "linux")]

use serde_json::{Value, json};

use crate::harness::{Client, World};
use crate::mock_llm::Reply;
use crate::sandbox::{ConfinedSession, session_in};

/// Creates `.mcp.json` once `go` is there, then `done`, and ends once `end` is there.
const COMMAND: &str = "until [ -e go ]; do sleep 0.05; done; echo x > .mcp.json; touch done; \
    until [ -e end ]; do sleep 0.05; done";

impl ConfinedSession {
    /// Starts a background command in a turn of its own.
    fn start_background(&self, command: &str) {
        let start = self.start_tool("bash", json!({"command": command, "background": true}));
        self.finish(&start);
    }

    /// Lets [`COMMAND`] create its file after its turn.
    fn create_late(&self) {
        self.start_background(COMMAND);
        let world = self.world();
        world.write("go", "");
        world.wait_until(|| world.read("done").is_some());
    }
}

fn list_warnings(client: &Client, session: &str) -> Vec<String> {
    let warnings = client.all(session, "agent/warning").into_iter();
    let created = warnings.filter(|warning| warning.text("code") == "background_created_files");
    created
        .map(|warning| warning.text("message").to_owned())
        .collect()
}

/// Sends a prompt whose turn uses no tool.
fn say_hello(world: &World, client: &Client, session: &str) {
    world.mock().push(Reply::text("hello"));
    client.ask(session, "hello");
}

#[test]
fn what_a_background_command_creates_is_announced_at_the_end_of_the_turn() {
    let Some(session) = ConfinedSession::start("", Vec::new()) else {
        return;
    };
    session.create_late();
    for _ in 0..2 {
        say_hello(session.world(), &session.client, &session.id);
        let warnings = list_warnings(&session.client, &session.id);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].contains("`.mcp.json` (obeyed by agents)"),
            "{warnings:?}"
        );
    }
    assert!(
        session.world().read(".mcp.json").is_some(),
        "it may be the user's"
    );
    session.world().write("end", "");
}

#[test]
fn what_a_background_command_creates_is_announced_when_it_ends() {
    let Some(session) = ConfinedSession::start("", Vec::new()) else {
        return;
    };
    session.create_late();
    assert!(list_warnings(&session.client, &session.id).is_empty());
    session.world().write("end", "");
    let warning = session.client.next(&session.id, "agent/warning");
    assert!(warning.text("message").contains("`.mcp.json`"), "{warning:?}");
    // The next command asks.
    let turn = session.start_command("true");
    let question = session.next_question();
    session.answer(&question, "aside");
    session.finish(&turn);
    assert!(session.world().read("put-aside-.mcp.json").is_some());
}

/// Starts the next server, and checks that it warns once and asks.
fn check_next_server(world: &World) {
    for round in 0..2 {
        let client = world.start();
        let id = session_in(&client, "autoEdit");
        say_hello(world, &client, &id);
        let warnings = list_warnings(&client, &id);
        assert_eq!(warnings.len(), 1, "round {round}: {warnings:?}");
        assert!(warnings[0].contains("`.mcp.json`"), "{warnings:?}");
        client.close_input();
        client.wait_until_gone();
    }
    let client = world.start_with(crate::harness::Options {
        questions: true,
        ..Default::default()
    });
    let id = session_in(&client, "autoEdit");
    world.mock().push(Reply::tool("bash", json!({"command": "true"})));
    let turn = client.prompt(&id, "go");
    let question = client.next(&id, "agent/questionRequested");
    let answers = json!({"questionId": question.text("questionId"), "answers": {"choice": ["aside"]}});
    client.call::<Value>("agent/questionRespond", answers);
    client.prompt_result(&turn);
    assert!(world.read("put-aside-.mcp.json").is_some());
    client.close_input();
    client.wait_until_gone();
    let client = world.start();
    let id = session_in(&client, "autoEdit");
    say_hello(world, &client, &id);
    assert!(list_warnings(&client, &id).is_empty(), "it was answered");
}

#[test]
fn what_a_background_command_created_is_announced_after_the_server_ended() {
    let Some(session) = ConfinedSession::start("", Vec::new()) else {
        return;
    };
    session.create_late();
    session.client.close_input();
    session.client.wait_until_gone();
    let world = session.world();
    assert!(!world.path("work/.vscode").exists(), "its name was only reserved");
    let client = world.start();
    let loaded = client.load(&session.id);
    let page = serde_json::to_string(&loaded).unwrap();
    assert!(
        page.contains("background_created_files"),
        "the session knows: {page}"
    );
    client.close_input();
    client.wait_until_gone();
    check_next_server(world);
}

#[test]
fn what_a_background_command_created_is_announced_after_the_server_was_killed() {
    let Some(session) = ConfinedSession::start("", Vec::new()) else {
        return;
    };
    session.create_late();
    let ConfinedSession { confined, client, .. } = session;
    client.kill();
    check_next_server(&confined.world);
    assert!(!confined.world.path("work/.vscode").exists());
}

#[test]
fn a_background_command_cannot_create_folders_whose_names_are_reserved() {
    let Some(session) = ConfinedSession::start("", Vec::new()) else {
        return;
    };
    let world = session.world();
    world.write(".git/HEAD", "ref: refs/heads/main\n");
    session.start_background(
        "for f in .vscode/tasks.json .idea/x .git/hooks/pre-commit; do mkdir -p $(dirname $f); \
         echo x > $f; rmdir $(dirname $f); mv $(dirname $f) moved; done",
    );
    let wait = session.start_tool("bash_output", json!({"id": "bg1", "wait_s": 60}));
    let result = session.finish(&wait);
    assert!(result.contains("Read-only file system"), "{result}");
    assert!(
        result.contains("does not let this command write"),
        "the model learns what was refused: {result}"
    );
    assert_eq!(session.count_questions(), 0);
    for path in [".vscode", ".idea", ".git/hooks", ".zed", ".claude", ".cursor"] {
        assert!(!world.path("work").join(path).exists(), "{path}");
    }
    // A command in the foreground is checked at once, so it reserves nothing.
    let turn = session.start_command("mkdir .vscode");
    let question = session.next_question();
    session.answer(&question, "keep");
    session.finish(&turn);
    assert!(world.path("work/.vscode").exists());
}
