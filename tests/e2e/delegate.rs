//! Sub-agents (R-SUB): their results, what clients see of them, and what they share with the parent turn.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, Config, Notification, World, now};
use crate::mock_llm::{Gate, RecordedRequest, Reply};

/// Scripted replies by agent name: the first message of each conversation starts with `name:`.
#[derive(Clone, Default)]
struct ScriptedAgents(Arc<Mutex<HashMap<String, VecDeque<Reply>>>>);

impl ScriptedAgents {
    fn of(world: &World) -> Self {
        let cast = Self::default();
        let replies = cast.clone();
        world.mock().respond_with(move |request| {
            let mut replies = replies.0.lock().unwrap();
            replies.get_mut(&agent_name(request))?.pop_front()
        });
        cast
    }

    fn push_reply(&self, agent: &str, reply: Reply) -> &Self {
        let mut replies = self.0.lock().unwrap();
        replies.entry(agent.to_owned()).or_default().push_back(reply);
        self
    }
}

/// Returns the name of the agent that made a request.
fn agent_name(request: &RecordedRequest) -> String {
    let first = &request.messages()[0]["content"];
    let text = first
        .as_str()
        .or_else(|| first[0]["text"].as_str())
        .unwrap_or_default();
    text.split(':').next().unwrap_or_default().to_owned()
}

/// Returns the requests of one agent.
fn requests_of(world: &World, name: &str) -> Vec<Arc<RecordedRequest>> {
    let mut all = world.mock().requests();
    all.retain(|request| agent_name(request) == name);
    all
}

fn world_with(agent: &str, tables: &str) -> (World, ScriptedAgents) {
    let world = World::with(Config {
        agent: agent.to_owned(),
        tables: tables.to_owned(),
        // Without retries a failure is final immediately.
        provider: "max_retries = 0".to_owned(),
        ..Config::default()
    });
    world.write("a.txt", "one\n");
    let cast = ScriptedAgents::of(&world);
    (world, cast)
}

fn world() -> (World, ScriptedAgents) {
    world_with("", "")
}

fn delegate(input: Value) -> Reply {
    Reply::tool("delegate", input)
}

/// A permanent model error.
fn permanent_error() -> Reply {
    Reply::error(400, "invalid_request_error", "no such thing")
}

/// Returns the last notification with the result of a `delegate` call.
fn result(client: &Client, session: &str) -> Arc<Notification> {
    let calls = client.all(session, "agent/toolCall");
    let of_it = |notification: &&Arc<Notification>| {
        notification.text("name") == "delegate" && !notification.params["output"].is_null()
    };
    calls.iter().rev().find(of_it).unwrap().clone()
}

#[test]
fn final_answer_of_a_child_becomes_the_call_result() {
    let (world, cast) = world();
    cast.push_reply(
        "me",
        Reply::text("I ask another. ")
            .call("delegate", json!({"prompt": "child: look"}))
            .tokens(100, 10),
    )
    .push_reply(
        "child",
        Reply::text("Reading.")
            .call("read_file", json!({"path": "a.txt"}))
            .tokens(20, 2),
    )
    .push_reply("child", Reply::text("It says one.").tokens(30, 3))
    .push_reply("me", Reply::text("done").tokens(200, 20));
    let client = world.start();
    let session = client.session();
    let done = client.ask(&session, "me: do it");
    assert_eq!(
        (done.text.as_str(), json!(done.state)),
        ("done", json!("completed"))
    );

    let call = result(&client, &session);
    assert_eq!(call.text("status"), "completed");
    let output = call.text("output");
    assert!(
        output.starts_with("[the sub-agent: completed; 50 tokens in, 5 out, $0.000")
            && output.ends_with("]\n\nIt says one."),
        "{output}"
    );
    // The child's calls are nested, its text is streamed as output of the call, and it is not shown as a message.
    let parent = call.text("toolCallId");
    let calls = client.all(&session, "agent/toolCall");
    let nested: Vec<&str> = (calls.iter())
        .filter(|notification| notification.text("parentToolCallId") == parent)
        .map(|notification| notification.text("status"))
        .collect();
    assert_eq!(nested, ["pending", "running", "completed"]);
    assert!(!client.streamed_text(&session).contains("Reading"));
    let live: String = (client.all(&session, "agent/toolOutputDelta").iter())
        .filter(|notification| notification.text("toolCallId") == parent)
        .map(|notification| notification.text("text").to_owned())
        .collect();
    assert_eq!(live, "Reading.\nIt says one.\n");

    // The child has its own history, but the same tools and instructions.
    let (mine, its) = (requests_of(&world, "me"), requests_of(&world, "child"));
    assert_eq!((mine.len(), its.len()), (2, 2));
    for key in ["tools", "system", "model"] {
        assert_eq!(mine[0].body[key], its[0].body[key], "{key}");
    }
    assert_eq!(its[0].messages().len(), 1);
    assert!(
        its[0]
            .last_text()
            .starts_with("child: look\n\n[You work for another agent")
    );

    // The child's usage counts for the turn, but takes nothing of its context.
    let usage = client.all(&session, "agent/usage");
    let figures: Vec<_> = usage
        .iter()
        .map(|notification| {
            (
                notification.params["turn"]["inputTokens"].as_u64(),
                notification.params["contextUsed"].as_u64(),
            )
        })
        .collect();
    let some = |turn, context| (Some(turn), Some(context));
    assert_eq!(
        figures,
        [some(100, 110), some(120, 110), some(150, 110), some(350, 220)]
    );
    assert_eq!((done.usage.input_tokens, done.usage.output_tokens), (350, 35));
    assert!(done.cost_usd.unwrap() > 0.0);

    // A loaded session includes the child's usage; the parent's history does not include its text.
    let loaded = client.load(&session);
    assert_eq!(loaded.state.usage.input_tokens, 350);
    client.ask(&session, "me: more");
    let body = requests_of(&world, "me").last().unwrap().body.to_string();
    assert!(
        body.contains("It says one.") && !body.contains("Reading."),
        "{body}"
    );
}

#[test]
fn continued_answer_of_a_child_reaches_its_parent_in_full() {
    let (world, cast) = world();
    cast.push_reply("me", delegate(json!({"prompt": "child: count"})))
        .push_reply("child", Reply::text("void").stop("max_tokens"))
        .push_reply("child", Reply::text("first half, ").stop("max_tokens"))
        .push_reply("child", Reply::text("second half").stop("pause_turn"))
        .push_reply("child", Reply::text(", end"))
        .push_reply("me", Reply::text("done"));
    let client = world.start();
    let session = client.session();
    client.ask(&session, "me: do it");
    let output = result(&client, &session);
    assert!(
        output.text("output").contains("\n\nfirst half, second half, end"),
        "{output:?}"
    );
}

#[test]
fn each_join_policy_decides_the_outcome() {
    let task = |prompt: &str| json!({"prompt": prompt});
    let tasks = json!([task("a: x"), task("b: x"), task("c: x")]);
    // Join, which of a, b, c fail, then the expected status, end and text of the result.
    for (join, fail, status, end, expected) in [
        (
            "all_required",
            "",
            "completed",
            "completed",
            "[3 of 3 sub-agents succeeded]",
        ),
        (
            "all_required",
            "b",
            "failed",
            "join_violated",
            "[2 of 3 sub-agents succeeded; all of them were required]",
        ),
        (
            "",
            "b",
            "failed",
            "completed",
            "[2 of 3 sub-agents succeeded; all of them were required]",
        ),
        (
            "allow_failures",
            "abc",
            "completed",
            "completed",
            "[0 of 3 sub-agents succeeded]",
        ),
        (
            "first_success",
            "ab",
            "completed",
            "completed",
            "[1 of 3 sub-agents succeeded]",
        ),
        (
            "first_success",
            "abc",
            "failed",
            "join_violated",
            "that is too few",
        ),
        (
            "quorum(2)",
            "a",
            "completed",
            "completed",
            "[2 of 3 sub-agents succeeded]",
        ),
        ("quorum(2)", "ab", "failed", "join_violated", "that is too few"),
    ] {
        let (world, cast) = world();
        let mut input = json!({"prompt": "", "tasks": tasks});
        if !join.is_empty() {
            input["join"] = json!(join);
        }
        cast.push_reply("me", delegate(input));
        for name in ["a", "b", "c"] {
            cast.push_reply(
                name,
                if fail.contains(name) {
                    permanent_error()
                } else {
                    Reply::text(format!("{name} is done"))
                },
            );
        }
        cast.push_reply("me", Reply::text("done"));
        let client = world.start();
        let session = client.session();
        let done = json!(client.ask(&session, "me: do it"));
        let call = result(&client, &session);
        assert_eq!(
            (call.text("status"), &done["reason"]),
            (status, &json!(end)),
            "{join} {fail}"
        );
        assert!(
            call.text("output").contains(expected),
            "{join} {fail}: {}",
            call.text("output")
        );
        if end == "join_violated" {
            assert_eq!(
                (&done["state"], &done["error"]["code"]),
                (&json!("failed"), &json!("tool_execution"))
            );
            assert_eq!(done["error"]["message"], "too few sub-agents succeeded");
            assert_eq!(client.reasons(&session).last().unwrap(), "join_violated");
        }
    }
}

#[test]
fn subagent_failure_policy_decides_the_turns_end() {
    for (policy, reason, state) in [
        ("continue", "completed", "completed"),
        ("degrade", "completed", "degraded"),
        ("fail", "subagent_failed", "failed"),
    ] {
        let (world, cast) = world_with(&format!("subagent_failure = \"{policy}\""), "");
        cast.push_reply("me", delegate(json!({"prompt": "child: x"})))
            .push_reply("child", permanent_error())
            .push_reply("me", Reply::text("done"));
        let client = world.start();
        let session = client.session();
        let done = json!(client.ask(&session, "me: do it"));
        assert_eq!((&done["reason"], &done["state"]), (&json!(reason), &json!(state)));
        if policy == "fail" {
            assert_eq!(done["error"]["message"], "a sub-agent failed");
            assert!(
                done["error"]["cause"].to_string().contains("no such thing"),
                "{done}"
            );
        }
    }
}

#[test]
fn first_success_cancels_the_others_and_closes_their_connections() {
    let (world, cast) = world();
    let (slow, quick) = (Gate::new(), Gate::new());
    let tasks = json!([{"prompt": "slow: x"}, {"prompt": "quick: x"}]);
    cast.push_reply(
        "me",
        delegate(json!({"prompt": "", "tasks": tasks, "join": "first_success"})),
    )
    .push_reply("slow", Reply::text("I think\nthat").gate(&slow))
    .push_reply("quick", Reply::text("found").gate_first(&quick))
    .push_reply("me", Reply::text("done"));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "me: do it");
    client.next_matching(&session, "agent/toolOutputDelta", |notification| {
        notification.text("text").contains("I think")
    });
    quick.release();
    assert_eq!(client.prompt_result(&id).text, "done");
    let output = result(&client, &session).text("output").to_owned();
    assert!(
        output.contains("## 1: cancelled; ") && output.contains("I think"),
        "{output}"
    );
    assert!(output.contains("## 2: completed"), "{output}");
    let slow = requests_of(&world, "slow")[0].clone();
    assert!(world.closed(&slow).dropped);
}

#[test]
fn delegation_stops_at_depth_three() {
    let (world, cast) = world();
    for (name, next) in [("me", "one"), ("one", "two"), ("two", "three")] {
        cast.push_reply(name, delegate(json!({"prompt": format!("{next}: go on")})));
    }
    cast.push_reply("three", delegate(json!({"prompt": "four: go on"})));
    for name in ["three", "two", "one", "me"] {
        cast.push_reply(name, Reply::text(format!("{name} is done")));
    }
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "me: do it").text, "me is done");
    let delegates = |name: &str| {
        let tools = requests_of(&world, name)[0].body["tools"].to_string();
        tools.contains("\"delegate\"")
    };
    assert_eq!(
        ["me", "one", "two", "three"].map(delegates),
        [true, true, true, false]
    );
    assert!(requests_of(&world, "four").is_empty());
    let refused = requests_of(&world, "three")[1].body.to_string();
    assert!(refused.contains("unknown tool"), "{refused}");
    // Each call names the call that caused it as its parent.
    let mut parents: HashMap<String, String> = HashMap::new();
    for notification in client.all(&session, "agent/toolCall") {
        parents.insert(
            notification.text("toolCallId").to_owned(),
            notification.text("parentToolCallId").to_owned(),
        );
    }
    let depth = |mut id: String| {
        let mut depth = 0;
        while let Some(parent) = parents.get(&id).filter(|parent| !parent.is_empty()) {
            (id, depth) = (parent.clone(), depth + 1);
        }
        depth
    };
    let mut depths: Vec<usize> = parents.keys().cloned().map(depth).collect();
    depths.sort_unstable();
    assert_eq!(depths, [0, 1, 2, 3]);
}

#[test]
fn timed_out_child_reports_its_partial_result() {
    let (world, cast) = world_with("mode = \"full\"", "[tool.delegate]\ntimeout_s = 0.5\n");
    cast.push_reply("me", delegate(json!({"prompt": "child: x"})))
        .push_reply(
            "child",
            Reply::text("I wait.").call("bash", json!({"command": "sleep 60"})),
        )
        .push_reply("me", Reply::text("done"));
    let observed_world = world.clone();
    let replies = cast.clone();
    world.mock().respond_with(move |request| {
        // The final step offers no tools.
        let last = request.body["tools"].as_array().is_none_or(Vec::is_empty);
        if last && request.last_text().contains("The time for this task is up") {
            return Some(Reply::text("half of it"));
        }
        replies
            .0
            .lock()
            .unwrap()
            .get_mut(&agent_name(request))?
            .pop_front()
    });
    let client = world.start();
    let session = client.session();
    let began = now();
    assert_eq!(client.ask(&session, "me: do it").text, "done");
    assert!(began.elapsed() < Duration::from_secs(20));
    let call = result(&client, &session);
    assert_eq!(call.text("status"), "failed");
    let output = call.text("output");
    assert!(
        output.contains("timed out") && output.ends_with("half of it"),
        "{output}"
    );
    let bash = client.all(&session, "agent/toolCall");
    let bash = bash
        .iter()
        .rev()
        .find(|notification| notification.text("name") == "bash")
        .unwrap();
    assert_eq!(bash.text("status"), "cancelled");
    assert_eq!(observed_world.requests(), 4);
    assert_eq!(client.processes(), 1, "the command is gone");
}

#[test]
fn waiting_for_an_approval_does_not_use_the_childs_time() {
    let (world, cast) = world_with("", "[tool.delegate]\ntimeout_s = 1.0\n");
    cast.push_reply("me", delegate(json!({"prompt": "child: x"})))
        .push_reply(
            "child",
            Reply::tool("write_file", json!({"path": "b.txt", "content": "b"})),
        )
        .push_reply("child", Reply::text("written"))
        .push_reply("me", Reply::text("done"));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "me: do it");
    let approval = client.next_approval(&session);
    // Longer than the limit of 1 s: the child must not time out while the approval is open.
    std::thread::sleep(Duration::from_millis(1_400));
    client.decide(&approval, "allow");
    assert_eq!(client.prompt_result(&id).text, "done");
    let output = result(&client, &session).text("output").to_owned();
    assert!(
        output.contains("completed") && output.ends_with("written"),
        "{output}"
    );
    assert_eq!(world.read("b.txt").as_deref(), Some("b"));
    // A change by a child belongs to the turn.
    let diff = client.next(&session, "agent/turnDiff");
    assert!(diff.params.to_string().contains("b.txt"), "{:?}", diff.params);
}

#[test]
fn cancel_reaches_children_in_every_phase() {
    for phase in ["streaming", "approval", "command", "retry"] {
        let world = World::with(Config {
            agent: if phase == "command" {
                "mode = \"full\"".to_owned()
            } else {
                String::new()
            },
            provider: "max_retry_after_s = 1000".to_owned(),
            ..Config::default()
        });
        let cast = ScriptedAgents::of(&world);
        let gate = Gate::new();
        cast.push_reply(
            "me",
            delegate(json!({"prompt": "", "tasks": [{"prompt": "a: x"}, {"prompt": "b: x"}]})),
        );
        for name in ["a", "b"] {
            let reply = match phase {
                "streaming" => Reply::text("some words\nand").gate(&gate),
                "approval" => {
                    Reply::text("I write").call("write_file", json!({"path": name, "content": "x"}))
                }
                "command" => Reply::text("I run").call("bash", json!({"command": "sleep 60"})),
                _ => Reply::error(429, "rate_limit_error", "slow down").header("retry-after", "900"),
            };
            cast.push_reply(name, reply);
        }
        let client = world.start();
        let session = client.session();
        let id = client.prompt(&session, "me: do it");
        let mut busy = 0;
        while busy < 2 {
            busy += match phase {
                // One delta may contain the text of both children.
                "streaming" => {
                    let delta = client.next(&session, "agent/toolOutputDelta");
                    delta.text("text").matches("some words").count()
                }
                "approval" => {
                    client.next_approval(&session);
                    1
                }
                "command" => {
                    client.next_matching(&session, "agent/toolCall", |notification| {
                        notification.text("name") == "bash" && notification.text("status") == "running"
                    });
                    1
                }
                _ => {
                    let retry = client.next(&session, "agent/retry");
                    assert!(!retry.text("parentToolCallId").is_empty());
                    1
                }
            };
        }
        let began = now();
        client.cancel(&session);
        let done = json!(client.prompt_result(&id));
        let took = began.elapsed();
        assert_eq!(
            (&done["reason"], &done["state"]),
            (&json!("aborted_tools"), &json!("cancelled")),
            "{phase}"
        );
        let bound = if phase == "command" { 3_000 } else { 600 };
        assert!(took < Duration::from_millis(bound), "{phase}: {took:?}");
        let call = result(&client, &session);
        assert_eq!(call.text("status"), "cancelled", "{phase}");
        assert!(
            call.text("output").contains("## 2: cancelled"),
            "{phase}: {}",
            call.text("output")
        );
        assert_eq!(client.processes(), 1, "{phase}");
        // The session still works.
        cast.push_reply("me", Reply::text("fine"));
        assert_eq!(client.ask(&session, "me: again").text, "fine", "{phase}");
    }
}

#[test]
fn crash_closes_a_childs_calls_and_the_turn_can_resume() {
    let (world, cast) = world();
    cast.push_reply("me", delegate(json!({"prompt": "child: x"})))
        .push_reply(
            "child",
            Reply::text("I write").call("write_file", json!({"path": "b.txt", "content": "b"})),
        );
    let client = world.start();
    let session = client.session();
    client.prompt(&session, "me: do it");
    let approval = client.next_approval(&session);
    assert_eq!(approval.text("name"), "write_file");
    client.kill();

    cast.push_reply("me", Reply::text("I do it myself"));
    let client = world.start();
    let loaded = client.load(&session);
    assert!(loaded.open_approvals.is_empty(), "{:?}", loaded.open_approvals);
    let mut open: HashMap<String, String> = HashMap::new();
    for event in loaded
        .events
        .iter()
        .filter(|event| event.method == "agent/toolCall")
    {
        let text = |field: &str| event.params[field].as_str().unwrap_or_default().to_owned();
        open.insert(text("name"), text("status"));
    }
    assert_eq!(open["write_file"], "cancelled");
    assert_eq!(open["delegate"], "cancelled");
    let id = client.send("agent/resumeTurn", json!({"sessionId": session}));
    assert_eq!(client.prompt_result(&id).text, "I do it myself");
    assert!(client.all(&session, "agent/approvalRequested").is_empty());
    assert_eq!(world.read("b.txt"), None);
    assert!(
        requests_of(&world, "me")[1]
            .body
            .to_string()
            .contains("interrupted")
    );
}

#[test]
fn session_grants_apply_to_children() {
    let (world, cast) = world();
    let write = |path: &str| Reply::tool("bash", json!({"command": format!("touch {path}")}));
    cast.push_reply("me", write("x"))
        .push_reply("me", delegate(json!({"prompt": "child: x"})))
        .push_reply("child", write("y"))
        .push_reply("child", Reply::text("done"))
        .push_reply("me", Reply::text("done"));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "me: do it");
    let approval = client.next_approval(&session);
    client.respond(
        json!({"approvalId": approval.text("approvalId"), "decision": "allowSession", "rule": "bash(touch *)"}),
    );
    assert_eq!(client.prompt_result(&id).text, "done");
    assert_eq!(client.all(&session, "agent/approvalRequested").len(), 1);
    assert!(world.read("y").is_some());
}

#[test]
fn denial_of_a_childs_call_reaches_only_the_child() {
    let (world, cast) = world();
    cast.push_reply("me", delegate(json!({"prompt": "child: x"})))
        .push_reply(
            "child",
            Reply::tool("write_file", json!({"path": "b.txt", "content": "b"})),
        )
        .push_reply("child", Reply::text("I may not"))
        .push_reply("me", Reply::text("done"));
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "me: do it");
    let approval = client.next_approval(&session);
    client.respond(
        json!({"approvalId": approval.text("approvalId"), "decision": "deny", "feedback": "not there"}),
    );
    assert_eq!(client.prompt_result(&id).text, "done");
    let body = requests_of(&world, "child")[1].body.to_string();
    assert!(body.contains("Denied by user: not there"), "{body}");
    assert_eq!(world.read("b.txt"), None);
}

/// A model that costs one dollar per thousand tokens.
const EXPENSIVE_MODEL: &str = "[model.mock-dear]\ninput = 1000.0\noutput = 1000.0\ncontext_window = 200000\n";

#[test]
fn turn_budget_includes_its_children() {
    let (world, cast) = world_with("model = \"mock-dear\"\nmax_turn_cost = 20.0", EXPENSIVE_MODEL);
    let call = |n: u64| Reply::tool("read_file", json!({"path": "a.txt", "offset": n})).tokens(4_000, 10);
    cast.push_reply("me", delegate(json!({"prompt": "child: x"})).tokens(4_000, 10));
    (0..40).for_each(|n| _ = cast.push_reply("child", call(n)));
    let client = world.start();
    let session = client.session();
    let done = json!(client.ask(&session, "me: do it"));
    assert_eq!(
        (&done["reason"], &done["state"]),
        (&json!("budget_exceeded"), &json!("failed")),
        "{done}"
    );
    let output = result(&client, &session).text("output").to_owned();
    assert!(output.contains("[budget_exceeded] turn cost $"), "{output}");
    // I14: the overrun is at most one call in flight.
    let cost = done["costUsd"].as_f64().unwrap();
    assert!(cost < 20.0 + 4.1, "{cost}");
}

#[test]
fn children_at_a_limit_ask_once_and_share_the_raise() {
    let (world, cast) = world_with("model = \"mock-dear\"\nmax_turn_cost = 9.0", EXPENSIVE_MODEL);
    let tasks: Vec<Value> = ["a", "b", "c"]
        .iter()
        .map(|name| json!({"prompt": format!("{name}: x")}))
        .collect();
    cast.push_reply(
        "me",
        delegate(json!({"prompt": "", "tasks": tasks})).tokens(4_000, 10),
    );
    for name in ["a", "b", "c"] {
        cast.push_reply(
            name,
            Reply::tool("read_file", json!({"path": "a.txt"})).tokens(10, 10),
        )
        .push_reply(name, Reply::text("done").tokens(10, 10));
    }
    cast.push_reply("me", Reply::text("done").tokens(10, 10));
    let client = world.start_asking();
    let session = client.session();
    let id = client.prompt(&session, "me: do it");
    let limit_request = client.next(&session, "agent/limitRequested");
    assert_eq!(limit_request.text("limit"), "max_turn_cost");
    let _: Value = client.call(
        "agent/limitRespond",
        json!({"limitId": limit_request.text("limitId"), "raiseBy": 500.0}),
    );
    assert_eq!(client.prompt_result(&id).text, "done");
    let limit_requests = client.all(&session, "agent/limitRequested");
    assert_eq!(limit_requests.len(), 1, "{limit_requests:?}");
}

#[test]
fn invalid_delegations_are_errors_for_the_model() {
    let (world, cast) = world_with("", "[agent.reader]\ndescription = 'reads much'\n");
    let too_many_tasks = vec![json!({"prompt": "x"}); 33];
    for input in [
        json!({"prompt": "x", "agent": "nobody"}),
        json!({"prompt": " "}),
        json!({"prompt": "", "tasks": too_many_tasks}),
        json!({"prompt": "x", "join": "most"}),
    ] {
        cast.push_reply("me", delegate(input));
    }
    cast.push_reply("me", Reply::text("done"));
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "me: do it").text, "done");
    let calls = client.all(&session, "agent/toolCall");
    let failed: Vec<&str> = (calls.iter())
        .filter(|notification| notification.text("status") == "failed")
        .map(|notification| notification.text("output"))
        .collect();
    let expected_errors = [
        "the agents are: default, explore, reader",
        "a prompt is empty",
        "1 to 32 tasks, not 33",
        "there is no join \"most\"",
    ];
    assert_eq!(failed.len(), expected_errors.len());
    for (failed, expected) in failed.iter().zip(expected_errors) {
        assert!(failed.contains(expected), "{failed}");
    }
    // The system prompt lists the agents.
    let system = requests_of(&world, "me")[0].body["system"].to_string();
    assert!(system.contains("- reader: reads much"), "{system}");
}

#[test]
fn named_subagent_uses_its_own_settings_within_the_parents_limits() {
    let (world, cast) = world_with(
        "mode = \"full\"\ndeny_tools = [\"bash_kill\"]",
        "[agent.reader]\nmode = 'plan'\nmodel = 'wise'\nsystem_prompt = 'Only read.'\nmax_steps = 3\n\
         deny_tools = ['glob']\n[agent.writer]\n",
    );
    let write = |path: &str| Reply::tool("write_file", json!({"path": path, "content": "b"}));
    let tasks = json!([{"prompt": "read: x", "agent": "reader"}, {"prompt": "write: x", "agent": "writer"}]);
    cast.push_reply(
        "me",
        delegate(json!({"prompt": "", "tasks": tasks, "join": "allow_failures"})),
    )
    .push_reply("read", write("r.txt"))
    .push_reply("read", Reply::text("I may not"))
    .push_reply("write", write("w.txt"))
    .push_reply("write", Reply::text("written"))
    .push_reply("me", Reply::text("done"));
    let client = world.start();
    let session = client.session();
    let _: Value = client.call(
        "agent/setModel",
        json!({"sessionId": session, "model": "mock/chosen"}),
    );
    assert_eq!(client.ask(&session, "me: do it").text, "done");
    let reader = requests_of(&world, "read");
    assert_eq!(reader[0].body["model"], "wise");
    assert!(reader[0].body["system"].to_string().contains("Only read."));
    let names = |request: &RecordedRequest| {
        let tools = request.body["tools"].as_array().unwrap();
        tools
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let tools = names(&reader[0]);
    assert!(
        !tools.contains(&"glob".to_owned()) && !tools.contains(&"bash_kill".to_owned()),
        "{tools:?}"
    );
    assert!(tools.contains(&"delegate".to_owned()));
    assert!(reader[1].body.to_string().contains("plan mode is read only"));
    assert_eq!(world.read("r.txt"), None);
    // An agent without a model uses the session's.
    assert_eq!(requests_of(&world, "write")[0].body["model"], "chosen");
    assert_eq!(world.read("w.txt").as_deref(), Some("b"));
}

#[test]
fn subagent_without_a_model_uses_the_callers() {
    let tables = "[agent.lead]\nmodel = 'wise'\nmode = 'full'\n[agent.plain]\n";
    let (world, cast) = world_with("", tables);
    cast.push_reply("me", delegate(json!({"prompt": "child: look", "agent": "plain"})))
        .push_reply(
            "child",
            delegate(json!({"prompt": "grandchild: look", "agent": "plain"})),
        )
        .push_reply("grandchild", Reply::text("seen"))
        .push_reply("child", Reply::text("seen"))
        .push_reply("me", Reply::text("done"));
    let client = world.start();
    let session = client.session_with(json!({"agent": "lead"}));
    assert_eq!(client.ask(&session, "me: do it").text, "done");
    for name in ["me", "child", "grandchild"] {
        assert_eq!(requests_of(&world, name)[0].body["model"], "wise", "{name}");
    }
}

#[test]
fn failed_mcp_server_is_reported_once_for_a_turn_and_its_subagents() {
    let (world, cast) = world_with(
        "",
        "[agent.plain]\n[mcp.peer]\ncommand = 'no-such-program-anywhere'\n",
    );
    let client = world.start();
    let session = client.session();
    for turn in 1..=2 {
        let tasks = ["one", "two"].map(|name| json!({"prompt": format!("{name}: look"), "agent": "plain"}));
        cast.push_reply("me", delegate(json!({"tasks": tasks})))
            .push_reply("one", Reply::text("seen"))
            .push_reply("two", Reply::text("seen"))
            .push_reply("me", Reply::text("done"));
        assert_eq!(client.ask(&session, "me: do it").text, "done");
        let mut warnings = client.all(&session, "agent/warning");
        warnings.retain(|warning| warning.text("code") == "mcp_failed");
        assert_eq!(warnings.len(), turn);
    }
}

#[test]
fn eight_children_survive_repeated_429_responses() {
    let world = World::with(Config {
        provider: "max_retries = 8".to_owned(),
        ..Config::default()
    });
    let cast = ScriptedAgents::of(&world);
    let names: Vec<String> = (0..8).map(|n| format!("c{n}")).collect();
    let tasks: Vec<Value> = names
        .iter()
        .map(|name| json!({"prompt": format!("{name}: x")}))
        .collect();
    let throttled = |n: usize| {
        Reply::error(429, "rate_limit_error", "slow down")
            .header("retry-after-ms", &(20 + 10 * n).to_string())
            .header("anthropic-ratelimit-requests-limit", "50")
            .header("anthropic-ratelimit-requests-remaining", "0")
            .header("anthropic-ratelimit-requests-reset", "1s")
    };
    cast.push_reply("me", delegate(json!({"prompt": "", "tasks": tasks})));
    for name in &names {
        (0..3).for_each(|n| _ = cast.push_reply(name, throttled(n)));
        cast.push_reply(name, Reply::text(format!("{name} is done")));
    }
    cast.push_reply("me", Reply::text("done"));
    let client = world.start();
    let session = client.session();
    let began = now();
    assert_eq!(client.ask(&session, "me: do it").text, "done");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
    let output = result(&client, &session).text("output").to_owned();
    assert!(output.starts_with("[8 of 8 sub-agents succeeded]"), "{output}");
    let retries = client.all(&session, "agent/retry");
    assert_eq!(retries.len(), 24);
    assert!(
        retries
            .iter()
            .all(|retry| !retry.text("parentToolCallId").is_empty())
    );
    // The pacer is shared per account and reports the waits of children.
    let waits = client.all(&session, "agent/wait");
    assert!(
        waits.iter().any(|wait| !wait.text("parentToolCallId").is_empty()),
        "{waits:?}"
    );
}

#[test]
fn tool_hooks_apply_to_children() {
    let (world, cast) = world_with(
        "mode = \"full\"",
        "[hook.no]\non = 'pre_tool'\ntool = 'write_file'\ncommand = 'echo never >&2; exit 2'\n\
         [hook.stop]\non = 'stop'\ncommand = 'echo stop >> stops; exit 0'\n",
    );
    cast.push_reply("me", delegate(json!({"prompt": "child: x"})))
        .push_reply(
            "child",
            Reply::tool("write_file", json!({"path": "b.txt", "content": "b"})),
        )
        .push_reply("child", Reply::text("I may not"))
        .push_reply("me", Reply::text("done"));
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "me: do it").text, "done");
    assert_eq!(world.read("b.txt"), None);
    assert!(requests_of(&world, "child")[1].body.to_string().contains("never"));
    // The stop hook runs for the turn, not for its child.
    assert_eq!(world.read("stops").as_deref(), Some("stop\n"));
}

#[test]
fn max_subagents_limits_the_subagents_of_a_turn() {
    let (world, cast) = world_with("max_subagents = 3", "");
    let task = |name: &str| json!({"prompt": format!("{name}: go")});
    cast.push_reply(
        "me",
        delegate(json!({"prompt": "", "tasks": [task("one"), task("two")], "join": "allow_failures"})),
    );
    cast.push_reply(
        "me",
        delegate(json!({"prompt": "", "tasks": [task("three"), task("four")], "join": "allow_failures"})),
    );
    let client = world.start();
    let session = client.session();
    client.ask(&session, "me: go");
    let request_counts = ["one", "two", "three", "four"].map(|name| requests_of(&world, name).len());
    assert_eq!(request_counts[..2], [1, 1]);
    assert_eq!(request_counts[2] + request_counts[3], 1, "{request_counts:?}");
    let sent = requests_of(&world, "me")[2].body.to_string();
    assert!(
        sent.contains("max_subagents") && sent.contains("3 sub-agents"),
        "{sent}"
    );
}

#[test]
fn a_child_learns_that_its_background_commands_end_with_it() {
    let (world, cast) = world();
    let command = json!({"command": "sleep 1000", "background": true});
    for agent in ["me", "child"] {
        cast.push_reply(agent, Reply::tool("bash", command.clone()));
    }
    cast.push_reply("me", delegate(json!({"prompt": "child: serve"})));
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    client.ask(&session, "me: do it");
    for (agent, owner) in [("me", "the session"), ("child", "this agent")] {
        let told = requests_of(&world, agent)[1]
            .messages()
            .last()
            .unwrap()
            .to_string();
        assert!(
            told.contains(&format!("it ends with {owner} at the latest")),
            "{told}"
        );
    }
}
