//! Slash commands: prompts from files of the user and of the workspace.

use serde_json::{Value, json};

use crate::harness::{Client, World};
use crate::mock_llm::{Gate, Reply};

/// Returns the user messages of a session, as clients show them.
fn user_messages(client: &Client, session: &str) -> Vec<String> {
    let notes = client.all(session, "agent/message");
    let of_user = notes
        .iter()
        .filter(|notification| notification.text("role") == "user" && notification.params["hidden"] != true);
    of_user
        .map(|notification| {
            notification.params["content"][0]["text"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
}

#[test]
fn slash_command_is_expanded_for_the_model_and_the_client() {
    let world = World::new();
    std::fs::create_dir_all(world.path("config/agentls/commands")).unwrap();
    let mine =
        "---\ndescription: Reviews\nargument-hint: \"[file]\"\n---\nReview $1 with care. ($ARGUMENTS)\n";
    std::fs::write(world.path("config/agentls/commands/review.md"), mine).unwrap();
    world.write(".agentls/commands/ship.md", "Ship it.");
    world.write(".agentls/commands/void.md", "");
    let client = world.start();
    let session = client.session();
    client.ask(&session, "/review src/a.rs now");
    let wanted = "Review src/a.rs with care. (src/a.rs now)";
    assert_eq!(world.wait_for_request(0).last_text(), wanted);
    assert_eq!(user_messages(&client, &session), [wanted]);
    // The title is what the user typed.
    let titled = client.all(&session, "agent/sessionUpdated");
    assert_eq!(titled[0].text("title"), "/review src/a.rs now");
    // Text that is not a command is sent unchanged.
    for (n, words) in ["/nothing here", "/etc/hosts is what?", "see /ship"]
        .iter()
        .enumerate()
    {
        client.ask(&session, *words);
        assert_eq!(world.wait_for_request(n + 1).last_text(), *words);
    }
    let refused = client.refused("agent/prompt", json!({"sessionId": session, "prompt": "/void"}));
    assert!(refused.message.contains("/void cannot be used"), "{refused:?}");

    let listed: Value = client.call("agent/listCommands", json!({"sessionId": session}));
    let commands: Vec<Value> = listed["commands"].as_array().unwrap().to_vec();
    let names: Vec<&str> = commands
        .iter()
        .map(|command| command["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["review", "ship", "void"]);
    assert_eq!(
        (
            &commands[0]["description"],
            &commands[0]["argumentHint"],
            &commands[0]["trusted"]
        ),
        (&json!("Reviews"), &json!("[file]"), &json!(true))
    );
    assert_eq!(
        (&commands[1]["trusted"], &commands[2]["problem"]),
        (&json!(false), &json!("it is empty"))
    );
    let all: Value = client.call("agent/listCommands", json!({}));
    assert_eq!(all, listed);
}

#[test]
fn steer_expands_slash_commands() {
    let world = World::new();
    world.write(".agentls/commands/hurry.md", "Be quick about $ARGUMENTS.");
    let gate = Gate::new();
    world.mock().push(Reply::text("working").gate(&gate));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "work");
    world.wait_at_gate(&gate);
    let _: Value = client.call(
        "agent/steer",
        json!({"sessionId": session, "prompt": "/hurry it"}),
    );
    gate.release();
    client.prompt_result(&id);
    assert_eq!(user_messages(&client, &session), ["work", "Be quick about it."]);
}
