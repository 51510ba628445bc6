//! Policies of a turn with real commands, and circuits on the wire. The rest is in `session::tests::conduct`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, Config, World};
use crate::mock_llm::Reply;
use crate::transitions::course;

fn world(agent: &str, tables: &str) -> World {
    World::with(Config {
        agent: agent.to_owned(),
        tables: tables.to_owned(),
        ..Config::default()
    })
}

/// A tool that fails as long as a file is missing.
const LOOKUP_TOOL: &str = "[tool.lookup]\ndescription = \"Looks.\"\ncommand = \"cat there.txt\"\neffect = \"read\"\n\
                           [tool.lookup.schema]\nadditionalProperties = false\n";

fn full_session(client: &Client) -> String {
    client.session_with(json!({"mode": "full"}))
}

/// Returns the name and state of every circuit notification of a session so far.
fn circuits(client: &Client, session: &str) -> Vec<(String, String)> {
    client
        .all(session, "agent/circuit")
        .iter()
        .map(|notification| {
            (
                notification.text("name").to_owned(),
                notification.text("state").to_owned(),
            )
        })
        .collect()
}

#[test]
fn nonzero_exit_is_a_failure_for_all_but_the_model() {
    let world = world("", "");
    for number in 0..4 {
        let command = format!("echo out; exit 7 # {number}");
        world
            .mock()
            .push(Reply::tool("bash", json!({"command": command})));
    }
    let client = world.start();
    let session = full_session(&client);
    client.ask(&session, "do it");
    let calls = client.all(&session, "agent/toolCall");
    let finished: Vec<_> = calls
        .iter()
        .filter(|call| !call.params["output"].is_null())
        .collect();
    assert_eq!(finished.len(), 4);
    for call in finished {
        assert_eq!(call.text("status"), "failed", "{call:?}");
        assert_eq!(call.params["exitCode"], 7, "{call:?}");
        assert_eq!(call.text("output"), "out\nexit code: 7");
    }
    // The model gets a normal result, not a tool error.
    let last = world.mock().requests().last().unwrap().body.to_string();
    assert!(
        last.contains("exit code: 7") && !last.contains("\"is_error\":true"),
        "{last}"
    );
    // The commands failed, but the shell works.
    assert_eq!(circuits(&client, &session), []);
}

#[test]
fn the_third_equal_failure_of_commands_is_reported_and_opens_no_circuit() {
    let world = world("", "");
    for number in 0..5 {
        let failing = format!("echo {number} > log.txt; echo 'error: no database'; exit 3");
        for command in [failing.as_str(), "true"] {
            world
                .mock()
                .push(Reply::tool("bash", json!({"command": command})));
        }
    }
    let client = world.start();
    let session = full_session(&client);
    client.ask(&session, "migrate");
    let calls = client.all(&session, "agent/toolCall");
    let outputs = calls.iter().filter(|call| !call.params["output"].is_null());
    let counts = outputs.filter_map(|call| {
        let (_, note) = call.text("output").split_once("[Commands have failed ")?;
        Some(
            note.split_once(" times in this turn in the same way (error")?
                .0
                .to_owned(),
        )
    });
    assert_eq!(counts.collect::<Vec<_>>(), ["3", "4", "5"]);
    let warnings = client.all(&session, "agent/warning");
    let repeated = warnings
        .iter()
        .filter(|warning| warning.text("code") == "repeated_failure");
    let repeated: Vec<&str> = repeated.map(|warning| warning.text("message")).collect();
    assert!(
        repeated.len() == 1 && repeated[0].contains("3 times in the same way (error: no database)"),
        "{repeated:?}"
    );
    assert_eq!(circuits(&client, &session), []);
}

#[test]
fn polling_a_background_process_is_not_a_loop() {
    let world = world("", "");
    let start = json!({"command": "sleep 20", "background": true});
    world.mock().push(Reply::tool("bash", start));
    for _ in 0..6 {
        world
            .mock()
            .push(Reply::tool("bash_output", json!({"id": "bg1"})));
    }
    let client = world.start();
    let session = full_session(&client);
    assert_eq!(client.ask(&session, "wait").text, "ok");
    let calls = client.all(&session, "agent/toolCall");
    let held_back = calls
        .iter()
        .filter(|notification| notification.params.to_string().contains("Not run"));
    assert_eq!(held_back.count(), 0);
    let read = calls.iter().filter(|notification| {
        notification.text("name") == "bash_output" && notification.text("status") == "completed"
    });
    assert_eq!(read.count(), 6);
    let _: Value = client.call("agent/deleteSession", json!({"sessionId": session}));
}

#[test]
fn commands_fail_the_turn_by_their_exit_code_and_not_by_time() {
    // After its time limit, a command goes on in the background. This does not count as a failure.
    let sleeps = "echo begun; sleep 30";
    let continued = ["next_turn", "completed", "completed / completed / no error"];
    // A command with a nonzero exit code has failed, although the model reads a result.
    let exits = "echo why; exit 3";
    let failed = ["tool_failed", "tool_failed / failed / tool_execution"];
    for (agent, command, wanted) in [
        ("tool_timeout = \"fail\"", sleeps, &continued[..]),
        ("tool_failure = \"fail\"", exits, &failed[..]),
    ] {
        let world = world(agent, "");
        world
            .mock()
            .push(Reply::tool("bash", json!({"command": command})));
        let client = world.start();
        let session = full_session(&client);
        let id = client.prompt(&session, "do it");
        if command == sleeps {
            // From its output on, its time is limited.
            client.next(&session, "agent/toolOutputDelta");
            client.advance(Duration::from_secs(600));
        }
        let result = json!(client.prompt_result(&id));
        assert_eq!(course(&client, &session, &result), wanted, "{agent}: {result}");
        if command == exits {
            assert_eq!(result["error"]["message"], "the tool bash failed");
            let cause = result["error"]["cause"].as_str().unwrap();
            assert!(cause.contains("exit code: 3"), "{cause}");
        }
        // A later turn is unaffected.
        assert_eq!(json!(client.ask(&session, "go on").state), "completed", "{agent}");
        // Its processes end with the session.
        let _: Value = client.call("agent/deleteSession", json!({"sessionId": session}));
    }
}

#[test]
fn circuits_are_shown_and_reset_by_name() {
    let world = world("", LOOKUP_TOOL);
    for _ in 0..3 {
        world.mock().push(Reply::tool("lookup", json!({})));
        world.mock().push(Reply::tool("list_dir", json!({})));
    }
    let client = world.start();
    let session = full_session(&client);
    client.ask(&session, "read it");
    let open = client.next(&session, "agent/circuit").params.clone();
    assert_eq!(
        (&open["subject"], &open["name"], &open["state"]),
        (&json!("tool"), &json!("lookup"), &json!("open"))
    );
    let until = open["until"].as_i64().unwrap();
    assert!(until > 1_700_000_000_000);
    let metrics: Value = client.call("agent/metrics", json!({"sessionId": session}));
    let listed = metrics["circuits"].as_array().unwrap().iter();
    let listed: Vec<_> = listed.filter(|circuit| circuit["subject"] == "tool").collect();
    assert_eq!(listed.len(), 1, "{metrics}");
    assert_eq!(
        (&listed[0]["name"], &listed[0]["state"]),
        (&json!("lookup"), &json!("open"))
    );
    let reset = json!({"subject": "tool", "name": "lookup", "sessionId": session});
    let done: Value = client.call("agent/resetCircuit", reset);
    assert_eq!(done, json!({"wasOpen": true}));
    // The notification follows once the event is stored; the answer does not wait for it.
    client.next_matching(&session, "agent/circuit", |notification| {
        notification.text("state") == "closed"
    });
    let state = |state: &str| ("lookup".to_owned(), state.to_owned());
    assert_eq!(circuits(&client, &session), [state("open"), state("closed")]);
    let all = json!({"subject": "tool", "name": "lookup"});
    let done: Value = client.call("agent/resetCircuit", all);
    assert_eq!(done, json!({"wasOpen": false}));
    let nobody = json!({"subject": "tool", "name": "nobody"});
    let refused = client.refused("agent/resetCircuit", nobody);
    assert_eq!(refused.data["refusal"], "unknownCircuit", "{refused:?}");
}
