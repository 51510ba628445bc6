//! Policies of a turn: what failures do to it (R-ERR-3), tool circuits (R-TOOL-4), planning, reflection and the
//! doom-loop guard (R-LOOP-2, -3, -6).

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

fn read_missing_file() -> Reply {
    Reply::tool("read_file", json!({"path": "missing.txt"}))
}

fn sleeping_command() -> Reply {
    Reply::tool("bash", json!({"command": "sleep 30"}))
}

/// A tool that is ended at its time limit. A command of `bash` would go on in the background.
const SLEEPING_TOOL: &str = "[tool.slow]\ndescription = \"Sleeps.\"\ncommand = \"sleep 30\"\neffect = \"read\"\n\
                             timeout_s = 0.3\n[tool.slow.schema]\nadditionalProperties = false\n";

fn sleeping_tool() -> Reply {
    Reply::tool("slow", json!({}))
}

/// A tool that fails as long as a file is missing.
const LOOKUP_TOOL: &str = "[tool.lookup]\ndescription = \"Looks.\"\ncommand = \"cat there.txt\"\neffect = \"read\"\n\
                           [tool.lookup.schema]\nadditionalProperties = false\n";

fn lookup() -> Reply {
    Reply::tool("lookup", json!({}))
}

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
fn tool_failures_and_timeouts_follow_their_own_policies() {
    let continued = ["next_turn", "completed", "completed / completed / no error"];
    let degraded = ["next_turn", "completed", "completed / degraded / no error"];
    let failed = ["tool_failed", "tool_failed / failed / tool_execution"];
    let cases: [(&str, Reply, Vec<&str>); 10] = [
        ("", read_missing_file(), continued.to_vec()),
        (
            "tool_failure = \"continue\"",
            read_missing_file(),
            continued.to_vec(),
        ),
        (
            "tool_failure = \"degrade\"",
            read_missing_file(),
            degraded.to_vec(),
        ),
        ("tool_failure = \"fail\"", read_missing_file(), failed.to_vec()),
        ("tool_failure = \"fail\"", sleeping_tool(), continued.to_vec()),
        ("tool_timeout = \"fail\"", read_missing_file(), continued.to_vec()),
        ("tool_timeout = \"degrade\"", sleeping_tool(), degraded.to_vec()),
        ("tool_timeout = \"fail\"", sleeping_tool(), failed.to_vec()),
        ("tool_timeout = \"fail\"", sleeping_command(), continued.to_vec()),
        // A command with a nonzero exit code has failed, although the model reads a result.
        (
            "tool_failure = \"fail\"",
            Reply::tool("bash", json!({"command": "echo why; exit 3"})),
            failed.to_vec(),
        ),
    ];
    for (agent, reply, wanted) in cases {
        let world = world(agent, &format!("[tool.bash]\ntimeout_s = 0.3\n{SLEEPING_TOOL}"));
        world.mock().push(reply);
        let client = world.start();
        let session = full_session(&client);
        let result = json!(client.ask(&session, "do it"));
        assert_eq!(course(&client, &session, &result), wanted, "{agent}: {result}");
        if result["state"] == "failed" {
            let error = &result["error"];
            let exited = error["cause"].as_str().unwrap().contains("exit code: 3");
            let (tool, failure) = match (agent.contains("timeout"), exited) {
                (true, _) => ("slow", "timed out"),
                (false, true) => ("bash", "failed"),
                (false, false) => ("read_file", "failed"),
            };
            assert_eq!(error["message"], format!("the tool {tool} {failure}"));
            assert_eq!(error["class"], "terminal");
            let cause = error["cause"].as_str().unwrap();
            assert!(
                exited || cause.contains("missing.txt") || cause.contains("timed out after 0.3 s"),
                "{cause}"
            );
        }
        // A later turn is unaffected.
        assert_eq!(json!(client.ask(&session, "go on").state), "completed", "{agent}");
    }
}

#[test]
fn denials_and_invalid_arguments_never_fail_the_turn() {
    let world = world("tool_failure = \"fail\"", "[approvals]\ndeny = [\"bash\"]\n");
    world.mock().push(Reply::tool("read_file", json!({"wrong": 1})));
    world.mock().push(Reply::tool("no_such_tool", json!({})));
    world.mock().push(Reply::tool("bash", json!({"command": "true"})));
    world
        .mock()
        .push(Reply::tool("write_file", json!({"path": "x", "content": "x"})));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    client.decide(&client.next_approval(&session), "deny");
    assert_eq!(json!(client.prompt_result(&id).state), "completed");
}

#[test]
fn policy_fail_cancels_calls_that_have_not_started() {
    let world = world("tool_failure = \"fail\"", "");
    let both = Reply::new()
        .call("bash", json!({"command": "exit 7"}))
        .call("bash", json!({"command": "touch made"}));
    world.mock().push(both);
    let client = world.start();
    let session = client.session_with(json!({"mode": "ask"}));
    let id = client.prompt(&session, "do it");
    // Both wait for their answers, so that the second has certainly not started when the first fails.
    let questions = [client.next_approval(&session), client.next_approval(&session)];
    let [failing, waiting] = ["exit 7", "touch made"].map(|command| {
        let mut questions = questions.iter();
        questions
            .find(|question| question.params["input"]["command"] == command)
            .unwrap()
    });
    client.decide(failing, "allow");
    client.next_matching(&session, "agent/toolCall", |call| {
        call.params["status"] == "failed"
    });
    client.decide(waiting, "allow");
    let result = json!(client.prompt_result(&id));
    assert_eq!(result["reason"], "tool_failed");
    let last = client
        .all(&session, "agent/toolCall")
        .last()
        .unwrap()
        .params
        .clone();
    assert_eq!(
        (&last["name"], &last["status"]),
        (&json!("bash"), &json!("cancelled")),
        "{last}"
    );
    assert!(!world.workspace().join("made").exists());
    assert_eq!(client.ask(&session, "go on").text, "ok");
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
fn tool_circuit_can_be_reset() {
    let world = world("", LOOKUP_TOOL);
    for _ in 0..3 {
        world.mock().push(lookup());
        world.mock().push(Reply::tool("list_dir", json!({})));
    }
    let client = world.start();
    let session = full_session(&client);
    client.ask(&session, "read it");
    let other = full_session(&client);
    let reset = |session: &str| json!({"subject": "tool", "name": "lookup", "sessionId": session});
    let done: serde_json::Value = client.call("agent/resetCircuit", reset(&other));
    assert_eq!(done, json!({"wasOpen": false}));
    let done: serde_json::Value = client.call("agent/resetCircuit", reset(&session));
    assert_eq!(done, json!({"wasOpen": true}));
    let state = |state: &str| ("lookup".to_owned(), state.to_owned());
    // The notification follows once the event is stored; the answer does not wait for it.
    client.next_matching(&session, "agent/circuit", |notification| {
        notification.text("state") == "closed"
    });
    assert_eq!(circuits(&client, &session), [state("open"), state("closed")]);
    world.write("there.txt", "here\n");
    world.mock().push(lookup());
    client.ask(&session, "again");
    let last = client
        .all(&session, "agent/toolCall")
        .last()
        .unwrap()
        .params
        .clone();
    assert_eq!(last["status"], "completed", "{last}");
    let all = json!({"subject": "tool", "name": "lookup"});
    let done: serde_json::Value = client.call("agent/resetCircuit", all);
    assert_eq!(done, json!({"wasOpen": false}));
    let nobody = json!({"subject": "tool", "name": "nobody"});
    let refused = client.refused("agent/resetCircuit", nobody);
    assert_eq!(refused.data["refusal"], "unknownCircuit", "{refused:?}");
}

#[test]
fn edits_that_do_not_fit_say_nothing_about_the_tool() {
    let world = World::new();
    world.write("a.txt", "right\nlast\n");
    let edit = |old: &str| json!({"path": "a.txt", "edits": [{"old_text": old, "new_text": "edited"}]});
    let wrong = ["wrong 1", "wrong 2", "wrong 3", "wrong 4"];
    let wrong = wrong
        .iter()
        .fold(Reply::new(), |reply, old| reply.call("edit_file", edit(old)));
    let client = world.start();
    for mode in ["autoEdit", "ask"] {
        world.mock().push(wrong.clone());
        world.mock().push(Reply::tool(
            "edit_file",
            edit(if mode == "ask" { "edited" } else { "right" }),
        ));
        let session = client.session_with(json!({"mode": mode}));
        let id = client.prompt(&session, "edit it");
        if mode == "ask" {
            client.decide(&client.next_approval(&session), "allow");
        }
        client.prompt_result(&id);
        client.tool_call(&session, "completed");
        assert_eq!(circuits(&client, &session), [], "{mode}");
    }
}

#[test]
fn wrong_input_says_nothing_about_the_tool() {
    let world = World::new();
    world.write("a.txt", "one\n");
    let client = world.start();
    let wrong = [
        ("read_file", json!({"path": "missing.txt"})),
        ("read_file", json!({"path": "a.txt", "offset": 9})),
        ("bash", json!({"command": "true", "workdir": "missing"})),
        ("bash", json!({"command": "true", "timeout_s": -1})),
        ("grep", json!({"pattern": "("})),
        ("glob", json!({"pattern": "*", "path": "missing"})),
        ("list_dir", json!({"path": "a.txt"})),
    ];
    for (tool, arguments) in wrong {
        let session = full_session(&client);
        for turn in ["one", "two", "three", "four"] {
            world.mock().push(Reply::tool(tool, arguments.clone()));
            client.ask(&session, turn);
            client.tool_call(&session, "failed");
        }
        assert_eq!(circuits(&client, &session), [], "{tool} {arguments}");
    }
}

#[test]
fn failing_tool_opens_its_circuit_until_a_trial_succeeds() {
    let world = world(
        "",
        &format!("[tool.default]\ncircuit_cooldown_s = 0.5\n{LOOKUP_TOOL}"),
    );
    for _ in 0..3 {
        world.mock().push(lookup());
        // A call of another tool in between avoids the doom-loop guard and does not reset the circuit.
        world.mock().push(Reply::tool("list_dir", json!({})));
    }
    world.mock().push(lookup());
    let client = world.start();
    let session = full_session(&client);
    client.ask(&session, "read it");
    let open = ("lookup".to_owned(), "open".to_owned());
    assert_eq!(circuits(&client, &session), [open]);
    let open_circuit = client.all(&session, "agent/circuit")[0].params.clone();
    assert_eq!(open_circuit["subject"], "tool");
    let until = open_circuit["until"].as_i64().unwrap();
    assert!(until > 1_700_000_000_000);
    let metrics: Value = client.call("agent/metrics", json!({"sessionId": session}));
    let listed = metrics["circuits"].as_array().unwrap().iter();
    let listed: Vec<_> = listed.filter(|circuit| circuit["subject"] == "tool").collect();
    assert_eq!(listed.len(), 1, "{metrics}");
    assert_eq!(
        (&listed[0]["name"], &listed[0]["state"]),
        (&json!("lookup"), &json!("open"))
    );
    assert!(
        (listed[0]["until"].as_i64().unwrap() - until).abs() < 50,
        "{metrics}"
    );
    let refused = client
        .all(&session, "agent/toolCall")
        .last()
        .unwrap()
        .params
        .clone();
    assert_eq!(refused["status"], "failed");
    let output = refused["output"].as_str().unwrap();
    assert!(
        output.contains("its circuit is open") && output.contains("there.txt"),
        "{output}"
    );
    assert!(refused["durationMs"].is_null(), "it did not run: {refused}");
    // Circuits of tools are per session.
    let other = full_session(&client);
    world.mock().push(lookup());
    client.ask(&other, "read it");
    assert_eq!(circuits(&client, &other), []);
    // The first trial fails, the second one succeeds.
    let half = ("lookup".to_owned(), "halfOpen".to_owned());
    for then in ["open", "closed"] {
        std::thread::sleep(std::time::Duration::from_millis(600));
        if then == "closed" {
            world.write("there.txt", "here\n");
        }
        world.mock().push(lookup());
        client.ask(&session, "again");
        let circuits = circuits(&client, &session);
        let [.., before, last] = &circuits[..] else {
            panic!("{circuits:?}")
        };
        assert_eq!((before, last.1.as_str()), (&half, then));
    }
    world.mock().push(lookup());
    client.ask(&session, "again");
    let last = client
        .all(&session, "agent/toolCall")
        .last()
        .unwrap()
        .params
        .clone();
    assert_eq!(last["status"], "completed");
}

#[test]
fn planning_asks_for_a_plan_at_the_first_prompt_only() {
    let world = world("planning = true", "");
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "build it"));
    assert_eq!(
        course(&client, &session, &result),
        ["planning", "completed", "completed / completed / no error"]
    );
    let last_text = world.wait_for_request(0).last_text();
    assert!(
        last_text.contains("at most 5 steps") && last_text.contains("go wrong"),
        "{last_text}"
    );
    assert!(String::from_utf8_lossy(&world.wait_for_request(0).raw).contains("build it"));
    // The planning message and the note about the environment are hidden and sent only once, even after a restart.
    let hidden: Vec<bool> = client
        .all(&session, "agent/message")
        .iter()
        .map(|notification| notification.params["hidden"] == true)
        .collect();
    assert_eq!(hidden, [false, true, true, false]);
    client.ask(&session, "more");
    drop(client);
    let client = world.start();
    client.load(&session);
    client.ask(&session, "more");
    assert_eq!(client.reasons(&session), ["completed"]);
    for n in [1, 2] {
        assert_eq!(world.wait_for_request(n).last_text(), "more");
    }
}

#[test]
fn reflection_asks_for_progress_after_some_tool_calls() {
    for (setting, wanted) in [
        ("", vec!["next_turn"; 7]),
        (
            "reflection = true",
            vec![
                "next_turn",
                "next_turn",
                "reflection",
                "next_turn",
                "next_turn",
                "reflection",
                "next_turn",
            ],
        ),
        (
            "reflection = 2",
            vec![
                "next_turn",
                "reflection",
                "next_turn",
                "reflection",
                "next_turn",
                "reflection",
                "next_turn",
            ],
        ),
        ("reflection = false", vec!["next_turn"; 7]),
    ] {
        let world = world(setting, "");
        for n in 0..7 {
            world.write(&format!("{n}.txt"), "x\n");
            world
                .mock()
                .push(Reply::tool("read_file", json!({"path": format!("{n}.txt")})));
        }
        let client = world.start();
        let session = client.session();
        assert_eq!(client.ask(&session, "read all").text, "ok");
        let mut wanted = wanted;
        wanted.push("completed");
        assert_eq!(client.reasons(&session), wanted, "{setting}");
        for (n, reason) in wanted
            .iter()
            .enumerate()
            .filter(|(_, reason)| **reason != "completed")
        {
            let asks_reflection = world
                .wait_for_request(n + 1)
                .last_text()
                .contains("judge your progress");
            assert_eq!(asks_reflection, *reason == "reflection", "{setting} {n}");
        }
        let messages = client.all(&session, "agent/message");
        assert!(
            messages
                .iter()
                .filter(|notification| notification.params.to_string().contains("judge your progress"))
                .all(|notification| notification.params["hidden"] == true)
        );
    }
}

#[test]
fn repeated_calls_are_held_back_and_the_step_limit_holds() {
    let world = world("max_steps = 8", "");
    world.write("a.txt", "a\n");
    world.mock().default_reply(Reply::tool(
        "bash",
        json!({"command": "echo x >> ../ran; echo same"}),
    ));
    let client = world.start();
    let session = full_session(&client);
    let result = json!(client.ask(&session, "loop"));
    assert_eq!(result["reason"], "max_turns");
    assert_eq!(world.requests(), 8);
    // Two calls ran, three were held back, then the guard gives up and the rest ran.
    let ran = std::fs::read_to_string(world.path("ran")).unwrap();
    assert_eq!(ran.lines().count(), 5);
    let outcomes: Vec<bool> = client
        .all(&session, "agent/toolCall")
        .iter()
        .filter_map(|notification| {
            notification.params["output"]
                .as_str()
                .map(|output| output.starts_with("Not run"))
        })
        .collect();
    assert_eq!(outcomes, [false, false, true, true, true, false, false, false]);
    world.mock().default_reply(Reply::text("ok"));
    assert_eq!(client.ask(&session, "go on").text, "ok");
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
fn doom_loop_question_lets_the_user_decide() {
    for (answer, wanted) in [
        (Some("stop"), "stopped_by_user / interrupted / no error"),
        (Some("go_on"), "completed / completed / no error"),
        (None, "completed / completed / no error"),
    ] {
        let world = world("", "");
        for _ in 0..4 {
            world.mock().push(Reply::tool(
                "bash",
                json!({"command": "echo x >> ../ran; echo same"}),
            ));
        }
        let client = world.start_asking();
        let session = full_session(&client);
        let id = client.prompt(&session, "loop");
        let question = client.next(&session, "agent/questionRequested");
        assert!(
            question.text("text").contains("repeating the same calls (bash)"),
            "{question:?}"
        );
        assert!(question.text("detail").contains("echo same"), "{question:?}");
        let mut params = json!({"questionId": question.text("questionId")});
        match answer {
            Some(answer) => params["answers"] = json!({"choice": [answer]}),
            None => params["dismissed"] = json!(true),
        }
        let _: Value = client.call("agent/questionRespond", params);
        let result = json!(client.prompt_result(&id));
        assert_eq!(
            course(&client, &session, &result).last().unwrap(),
            wanted,
            "{answer:?}"
        );
        let ran = std::fs::read_to_string(world.path("ran"))
            .unwrap()
            .lines()
            .count();
        assert_eq!(ran, if answer == Some("go_on") { 3 } else { 2 }, "{answer:?}");
        // The history is valid whatever the answer was (the mock checks it).
        assert_eq!(client.ask(&session, "and now").text, "ok");
    }
}

/// R-ERR-1 and -2: codes, classes and exact texts, as clients read them at the end of a turn.
#[test]
fn provider_errors_have_codes_classes_and_texts() {
    let text = |error: &Value| {
        let cause = error["cause"]
            .as_str()
            .map(|cause| format!(": {cause}"))
            .unwrap_or_default();
        format!(
            "[{}] {}{cause}",
            error["code"].as_str().unwrap(),
            error["message"].as_str().unwrap()
        )
    };
    let api = |status, kind, message| Reply::error(status, kind, message);
    let cases = [
        (
            api(429, "rate_limit_error", "rate limit exceeded"),
            "retryable",
            "[provider_error] mock API error: rate limit exceeded",
        ),
        (
            api(500, "api_error", "oh no"),
            "retryable",
            "[provider_error] mock API error: oh no",
        ),
        (
            api(529, "overloaded_error", "Overloaded"),
            "retryable",
            "[provider_error] mock API error: Overloaded",
        ),
        (
            api(401, "authentication_error", "bad key"),
            "terminal",
            "[provider_error] mock API error: bad key",
        ),
        (
            api(403, "permission_error", "not you"),
            "terminal",
            "[provider_error] mock API error: not you",
        ),
        (
            api(400, "invalid_request_error", "nonsense"),
            "terminal",
            "[provider_error] mock API error: nonsense",
        ),
    ];
    for (reply, class, wanted) in cases {
        let world = World::with(Config {
            provider: "max_retries = 0".to_owned(),
            ..Config::default()
        });
        world.mock().push(reply);
        let client = world.start();
        let session = client.session();
        let result = json!(client.ask(&session, "do it"));
        let error = &result["error"];
        assert_eq!(
            (text(error).as_str(), error["class"].as_str()),
            (wanted, Some(class)),
            "{error}"
        );
        assert_eq!(error["provider"], "mock");
    }
}
