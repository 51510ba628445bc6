//! Policies of a turn: what failures do to it, tool circuits, planning, reflection, and the guard against loops.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use super::mock_llm::Reply;
use super::scenario::{Client, Config, Options, Scenario, TestTool, bash, read_file, write_file};
use crate::domain::*;
use crate::session::*;
use crate::tool::{DynTool, ToolError, ToolOutput};

fn configured(agent: &str, tables: &str) -> Scenario {
    Scenario::with(Config {
        agent: agent.to_owned(),
        tables: tables.to_owned(),
        ..Config::default()
    })
}

fn read_missing_file() -> Reply {
    read_file("missing.txt")
}

fn start_with_tools(scenario: &Scenario, questions: bool, tools: Vec<TestTool>) -> Client {
    let tools = tools.into_iter().map(|tool| Arc::new(tool) as Arc<dyn DynTool>);
    scenario.start_with(Options {
        questions,
        tools: tools.collect(),
        ..Options::default()
    })
}

/// A tool that fails as long as a file is missing.
fn lookup_tool() -> TestTool {
    TestTool::new("lookup", |_, cx| async move {
        let found = std::fs::read_to_string(cx.cwd.join("there.txt"));
        found
            .map(ToolOutput::text)
            .map_err(|_| ToolError::Reported("there.txt is missing".to_owned()))
    })
}

fn lookup() -> Reply {
    Reply::tool("lookup", json!({}))
}

/// A tool that always returns the same, and counts its runs.
fn counting_tool() -> (TestTool, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let tool = TestTool::new("same", move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(ToolOutput::text("same")) }
    });
    (tool, runs)
}

/// Returns the name and state of every circuit event of a session so far.
fn circuits(client: &Client, session: &SessionId) -> Vec<(String, CircuitState)> {
    client.all(session, |event| match event {
        Event::Circuit { name, state, .. } => Some((name.clone(), *state)),
        _ => None,
    })
}

fn last_call(client: &Client, session: &SessionId) -> ToolCallUpdate {
    let mut calls = client.all(session, |event| match event {
        Event::ToolCall(update) => Some(update.clone()),
        _ => None,
    });
    calls.pop().unwrap()
}

#[test]
fn tool_failures_and_timeouts_follow_their_own_policies() {
    let sleeping = || Reply::tool("slow", json!({}));
    let continued = ["next_turn", "completed", "completed / completed / no error"];
    let degraded = ["next_turn", "completed", "completed / degraded / no error"];
    let failed = ["tool_failed", "tool_failed / failed / tool_execution"];
    let cases: [(&str, Reply, Vec<&str>); 8] = [
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
        ("tool_failure = \"fail\"", sleeping(), continued.to_vec()),
        ("tool_timeout = \"fail\"", read_missing_file(), continued.to_vec()),
        ("tool_timeout = \"degrade\"", sleeping(), degraded.to_vec()),
        ("tool_timeout = \"fail\"", sleeping(), failed.to_vec()),
    ];
    for (agent, reply, wanted) in cases {
        let scenario = configured(agent, "[tool.default]\ntimeout_s = 0.3\n");
        scenario.push(reply);
        let client = start_with_tools(&scenario, false, vec![TestTool::endless("slow")]);
        let session = client.session_in_mode(Mode::Full);
        let outcome = client.ask(&session, "do it");
        assert_eq!(client.course(&session, &outcome), wanted, "{agent}: {outcome:?}");
        if let Some(error) = &outcome.end.error {
            let (tool, failure, why) = if agent.contains("timeout") {
                ("slow", "timed out", "timed out after 0.3 s")
            } else {
                ("read_file", "failed", "missing.txt")
            };
            assert_eq!(error.message, format!("the tool {tool} {failure}"));
            assert_eq!(error.class, ErrorClass::Terminal);
            let cause = error.cause.as_deref().unwrap();
            assert!(cause.contains(why), "{cause}");
        }
        // A later turn is unaffected.
        let later = client.ask(&session, "go on");
        assert_eq!(later.end.state, TurnState::Completed, "{agent}");
    }
}

#[test]
fn denials_and_invalid_arguments_never_fail_the_turn() {
    let scenario = configured("tool_failure = \"fail\"", "[approvals]\ndeny = [\"bash\"]\n");
    scenario.push(Reply::tool("read_file", json!({"wrong": 1})));
    scenario.push(Reply::tool("no_such_tool", json!({})));
    scenario.push(bash("true"));
    scenario.push(write_file("x", "x"));
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "do it");
    client.decide(&client.next_approval(&session), DecisionKind::Deny);
    assert_eq!(client.outcome(turn).end.state, TurnState::Completed);
    assert_eq!(scenario.requests(), 5);
}

#[test]
fn policy_fail_cancels_calls_that_have_not_started() {
    let scenario = configured("tool_failure = \"fail\"", "");
    scenario.push(Reply::new().call("breaks", json!({})).call("makes", json!({})));
    let execute = || Effect::from_command("something");
    let makes = TestTool::new("makes", |_, cx| async move {
        std::fs::write(cx.cwd.join("made"), "").unwrap();
        Ok(ToolOutput::text("made"))
    });
    let tools = vec![
        TestTool::failing("breaks", "broken").with_effect(execute()),
        makes.with_effect(execute()),
    ];
    let client = start_with_tools(&scenario, false, tools);
    let session = client.session_in_mode(Mode::Ask);
    let turn = client.prompt(&session, "do it");
    // Both wait for their answers, so that the second has certainly not started when the first fails.
    let (failing, waiting) = (client.next_approval(&session), client.next_approval(&session));
    assert_eq!(
        (failing.name.as_str(), waiting.name.as_str()),
        ("breaks", "makes")
    );
    client.decide(&failing, DecisionKind::Allow);
    client.next_call(&session, ToolCallStatus::Failed);
    // The failure has settled the question, or the answer comes too late.
    let _ = client.try_decide(&waiting.id, Decision::from_kind(DecisionKind::Allow));
    assert_eq!(client.outcome(turn).end.reason, TerminalReason::ToolFailed);
    let last = last_call(&client, &session);
    assert_eq!(
        (last.name.as_str(), last.status),
        ("makes", ToolCallStatus::Cancelled)
    );
    assert_eq!(scenario.read("made"), None);
    assert_eq!(client.ask(&session, "go on").text, "ok");
}

#[test]
fn tool_circuit_can_be_reset() {
    let scenario = Scenario::new();
    for _ in 0..3 {
        scenario.push(lookup());
        scenario.push(Reply::tool("list_dir", json!({})));
    }
    let client = start_with_tools(&scenario, false, vec![lookup_tool()]);
    let session = client.session_in_mode(Mode::Full);
    client.ask(&session, "read it");
    let other = client.session_in_mode(Mode::Full);
    let reset = |session: &SessionId| {
        let tool = "lookup".to_owned();
        client.request(session, |reply| SessionCommand::ResetCircuit { tool, reply })
    };
    assert_eq!(reset(&other), Ok(false));
    assert_eq!(reset(&session), Ok(true));
    client.settle();
    let state = |state| ("lookup".to_owned(), state);
    assert_eq!(
        circuits(&client, &session),
        [state(CircuitState::Open), state(CircuitState::Closed)]
    );
    scenario.write("there.txt", "here\n");
    scenario.push(lookup());
    client.ask(&session, "again");
    assert_eq!(last_call(&client, &session).status, ToolCallStatus::Completed);
    assert!(!client.wait_for(client.sessions.reset_circuits("lookup")));
}

#[test]
fn edits_that_do_not_fit_say_nothing_about_the_tool() {
    let scenario = Scenario::new();
    scenario.write("a.txt", "right\nlast\n");
    let edit = |old: &str| json!({"path": "a.txt", "edits": [{"old_text": old, "new_text": "edited"}]});
    let wrong = ["wrong 1", "wrong 2", "wrong 3", "wrong 4"];
    let wrong = wrong
        .iter()
        .fold(Reply::new(), |reply, old| reply.call("edit_file", edit(old)));
    let client = scenario.start();
    for (mode, right) in [(Mode::AutoEdit, "right"), (Mode::Ask, "edited")] {
        scenario.push(wrong.clone());
        scenario.push(Reply::tool("edit_file", edit(right)));
        let session = client.session_in_mode(mode);
        let turn = client.prompt(&session, "edit it");
        if mode == Mode::Ask {
            client.decide(&client.next_approval(&session), DecisionKind::Allow);
        }
        client.outcome(turn);
        client.next_call(&session, ToolCallStatus::Completed);
        assert_eq!(circuits(&client, &session), [], "{mode}");
    }
}

#[test]
fn wrong_input_says_nothing_about_the_tool() {
    let scenario = Scenario::new();
    scenario.write("a.txt", "one\n");
    let client = scenario.start();
    let long = "x".repeat(300);
    let wrong = [
        ("read_file", json!({"path": "missing.txt"})),
        ("read_file", json!({"path": long})),
        ("read_file", json!({"path": "a\0b"})),
        ("read_file", json!({"path": "tool-output:missing.txt"})),
        ("write_file", json!({"path": long, "content": "x"})),
        ("bash", json!({"command": "echo a\0b"})),
        ("bash", json!({"command": "true", "workdir": long})),
        ("read_file", json!({"path": "a.txt", "offset": 9})),
        ("bash", json!({"command": "true", "workdir": "missing"})),
        ("bash", json!({"command": "true", "timeout_s": -1})),
        ("grep", json!({"pattern": "("})),
        ("glob", json!({"pattern": "*", "path": "missing"})),
        ("list_dir", json!({"path": "a.txt"})),
        ("list_dir", json!({"path": long})),
        ("web_fetch", json!({"url": "http://127.0.0.1:1/"})),
    ];
    for (tool, arguments) in wrong {
        let session = client.session_in_mode(Mode::Full);
        for turn in ["one", "two", "three", "four"] {
            scenario.push(Reply::tool(tool, arguments.clone()));
            client.ask(&session, turn);
            client.next_call(&session, ToolCallStatus::Failed);
        }
        assert_eq!(circuits(&client, &session), [], "{tool} {arguments}");
    }
}

#[test]
fn failing_tool_opens_its_circuit_until_a_trial_succeeds() {
    let scenario = Scenario::new();
    for n in 0..3 {
        scenario.push(lookup());
        // A new call of another tool in between avoids the loop guard and does not reset the circuit.
        scenario.push(Reply::tool("glob", json!({"pattern": format!("{n}*")})));
    }
    scenario.push(lookup());
    let client = start_with_tools(&scenario, false, vec![lookup_tool()]);
    let session = client.session_in_mode(Mode::Full);
    client.ask(&session, "read it");
    let (subject, name, state, until) = client.next(&session, |event| match event {
        Event::Circuit {
            subject,
            name,
            state,
            until,
        } => Some((*subject, name.clone(), *state, *until)),
        _ => None,
    });
    assert_eq!(
        (subject, name.as_str(), state),
        (CircuitSubject::Tool, "lookup", CircuitState::Open)
    );
    // It opened in this turn, which took no time.
    assert_eq!(until, Some(scenario.wall_ms() + 60_000));
    assert_eq!(circuits(&client, &session).len(), 1);
    let listed = client.inspect(&session).circuits;
    let listed: Vec<_> = listed
        .iter()
        .map(|(name, view)| (name.as_str(), view.state, view.until))
        .collect();
    assert_eq!(listed, [("lookup", CircuitState::Open, until)]);
    let refused = last_call(&client, &session);
    assert_eq!(refused.status, ToolCallStatus::Failed);
    let output = &refused.result.as_ref().unwrap().text;
    assert!(
        output.contains("its circuit is open") && output.contains("there.txt"),
        "{output}"
    );
    assert_eq!(refused.duration_ms, None, "it did not run: {refused:?}");
    // Circuits of tools are per session.
    let other = client.session_in_mode(Mode::Full);
    scenario.push(lookup());
    client.ask(&other, "read it");
    assert_eq!(circuits(&client, &other), []);
    // The first trial fails, the second one succeeds.
    for then in [CircuitState::Open, CircuitState::Closed] {
        scenario.advance(Duration::from_secs(61));
        if then == CircuitState::Closed {
            scenario.write("there.txt", "here\n");
        }
        scenario.push(lookup());
        client.ask(&session, "again");
        let circuits = circuits(&client, &session);
        let [.., before, last] = &circuits[..] else {
            panic!("{circuits:?}")
        };
        let half = ("lookup".to_owned(), CircuitState::HalfOpen);
        assert_eq!((before, last.1), (&half, then));
    }
    scenario.push(lookup());
    client.ask(&session, "again");
    assert_eq!(last_call(&client, &session).status, ToolCallStatus::Completed);
}

#[test]
fn planning_asks_for_a_plan_at_the_first_prompt_only() {
    let scenario = Scenario::with_agent("planning = true");
    let client = scenario.start();
    let session = client.session();
    let outcome = client.ask(&session, "build it");
    assert_eq!(
        client.course(&session, &outcome),
        ["planning", "completed", "completed / completed / no error"]
    );
    let first = scenario.wait_for_request(0);
    let last_text = first.last_text();
    assert!(
        last_text.contains("at most 5 steps") && last_text.contains("go wrong"),
        "{last_text}"
    );
    assert!(String::from_utf8_lossy(&first.raw).contains("build it"));
    // The planning message and the note about the environment are hidden and sent only once, even after a restart.
    let hidden = client.all(&session, |event| match event {
        Event::Message(message) => Some(message.hidden),
        _ => None,
    });
    assert_eq!(hidden, [false, true, true, false]);
    client.ask(&session, "more");
    drop(client);
    let client = scenario.start();
    client.load(&session);
    client.ask(&session, "more");
    assert_eq!(client.reasons(&session), ["completed"]);
    for n in [1, 2] {
        assert_eq!(scenario.wait_for_request(n).last_text(), "more");
    }
}

#[test]
fn reflection_asks_for_progress_after_some_tool_calls() {
    let (next, reflection) = ("next_turn", "reflection");
    for (setting, wanted) in [
        ("", [next; 7]),
        (
            "reflection = true",
            [next, next, reflection, next, next, reflection, next],
        ),
        (
            "reflection = 2",
            [next, reflection, next, reflection, next, reflection, next],
        ),
        ("reflection = false", [next; 7]),
    ] {
        let scenario = Scenario::with_agent(setting);
        for n in 0..7 {
            let path = format!("{n}.txt");
            scenario.write(&path, "x\n");
            scenario.push(read_file(&path));
        }
        let client = scenario.start();
        let session = client.session();
        assert_eq!(client.ask(&session, "read all").text, "ok");
        let reasons = client.reasons(&session);
        assert_eq!(reasons[..7], wanted, "{setting}");
        assert_eq!(reasons[7..], ["completed"], "{setting}");
        for (n, reason) in wanted.into_iter().enumerate() {
            let text = scenario.wait_for_request(n + 1).last_text();
            let asks_reflection = text.contains("judge your progress");
            assert_eq!(asks_reflection, reason == reflection, "{setting} {n}");
        }
        let visible = client.all(&session, |event| match event {
            Event::Message(message) if message.text().contains("judge your progress") => {
                (!message.hidden).then_some(())
            }
            _ => None,
        });
        assert!(visible.is_empty(), "{setting}");
    }
}

#[test]
fn configured_prompts_replace_those_for_planning_and_reflection() {
    let scenario = Scenario::with_agent(
        "planning = true\nplanning_prompt = \"Plan like a chess player.\"\nreflection = 1\nreflection_prompt = \"On \
         course?\"",
    );
    scenario.write("a.txt", "x\n");
    scenario.push(read_file("a.txt"));
    let client = scenario.start();
    let session = client.session();
    client.ask(&session, "play");
    assert_eq!(
        scenario.wait_for_request(0).last_text(),
        "Plan like a chess player."
    );
    assert_eq!(scenario.wait_for_request(1).last_text(), "On course?");
}

#[test]
fn repeated_calls_are_held_back_until_the_turn_ends_with_what_is_missing() {
    let scenario = Scenario::new();
    scenario.mock().respond_with(|request| {
        let is_last = request.last_text().contains("You kept making the same calls");
        Some(if is_last {
            Reply::text("I lack the name.")
        } else {
            Reply::tool("same", json!({}))
        })
    });
    let (tool, runs) = counting_tool();
    let client = start_with_tools(&scenario, false, vec![tool]);
    let session = client.session_in_mode(Mode::Full);
    let outcome = client.ask(&session, "loop");
    assert_eq!(
        (outcome.end.reason, &*outcome.text),
        (TerminalReason::ModelError, "I lack the name.")
    );
    let error = outcome.end.error.unwrap();
    assert!(
        error.message.contains("repeating the same calls (same)") && error.user_action.is_some(),
        "{error:?}"
    );
    // Two calls ran, three were held back, one ran again, and one ended the turn.
    assert_eq!((scenario.requests(), runs.load(Ordering::Relaxed)), (8, 3));
    let held_back = client.all(&session, |event| match event {
        Event::ToolCall(update) => {
            let result = update.result.as_ref()?;
            Some(result.text.starts_with("Not run"))
        }
        _ => None,
    });
    assert_eq!(held_back, [false, false, true, true, true, false, true]);
    scenario.mock().respond_with(|_| Some(Reply::text("ok")));
    assert_eq!(client.ask(&session, "go on").text, "ok");
}

#[test]
fn doom_loop_question_lets_the_user_decide() {
    for (answer, wanted, ran) in [
        (Some("stop"), "stopped_by_user / interrupted / no error", 2),
        (Some("go_on"), "completed / completed / no error", 3),
        (None, "completed / completed / no error", 2),
    ] {
        let scenario = Scenario::new();
        for _ in 0..4 {
            scenario.push(Reply::tool("same", json!({"what": "echo same"})));
        }
        let (tool, runs) = counting_tool();
        let client = start_with_tools(&scenario, true, vec![tool]);
        let session = client.session_in_mode(Mode::Full);
        let turn = client.prompt(&session, "loop");
        let inquiry = client.next_inquiry(&session);
        let RequestSubject::Question(question) = &inquiry.subject else {
            panic!("{inquiry:?}")
        };
        let text = &question.text;
        assert!(text.contains("repeating the same calls (same)"), "{text}");
        let detail = question.detail.as_deref().unwrap();
        assert!(detail.contains("echo same"), "{detail}");
        let reply = match answer {
            Some(answer) => {
                let answers = [("choice".to_owned(), vec![answer.to_owned()])];
                InquiryReply::Answers(answers.into())
            }
            None => InquiryReply::Dismissed,
        };
        client.reply(&inquiry, reply);
        let outcome = client.outcome(turn);
        let course = client.course(&session, &outcome);
        assert_eq!(course.last().unwrap(), wanted, "{answer:?}");
        assert_eq!(runs.load(Ordering::Relaxed), ran, "{answer:?}");
        // The history is valid whatever the answer was (the mock checks it).
        assert_eq!(client.ask(&session, "and now").text, "ok");
    }
}

/// Codes, classes and exact texts, as clients read them at the end of a turn.
#[test]
fn provider_errors_have_codes_classes_and_texts() {
    use ErrorClass::{Retryable, Terminal};
    let cases = [
        (429, "rate_limit_error", "rate limit exceeded", Retryable),
        (500, "api_error", "oh no", Retryable),
        (529, "overloaded_error", "Overloaded", Retryable),
        (401, "authentication_error", "bad key", Terminal),
        (403, "permission_error", "not you", Terminal),
        (400, "invalid_request_error", "nonsense", Terminal),
    ];
    for (status, kind, message, class) in cases {
        let scenario = Scenario::with_provider("max_retries = 0");
        scenario.push(Reply::error(status, kind, message));
        let client = scenario.start();
        let error = client.ask(&client.session(), "do it").end.error.unwrap();
        assert_eq!(error.code, ErrorCode::ProviderError, "{status}");
        assert_eq!(error.message, "mock API error", "{status}");
        assert_eq!(error.cause.as_deref(), Some(message), "{status}");
        assert_eq!(error.class, class, "{status}");
        assert_eq!(error.provider.as_deref(), Some("mock"), "{status}");
    }
}
