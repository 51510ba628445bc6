//! Limits (R-BUDGET) and the answers to them: raise, stop, cancel, crash and ask again.

use serde_json::{Value, json};

use crate::harness::{Client, Config, Id, Notification, World};
use crate::mock_llm::{Gate, Reply};

/// A world with these settings of the default agent.
fn world(agent: &str) -> World {
    let world = World::with(Config {
        agent: agent.to_owned(),
        // What the system prompt says about a sandbox would cost a little, and not on every machine.
        tables: "[sandbox]\nenabled = false".to_owned(),
        ..Config::default()
    });
    world.write("a.txt", "a\n");
    world
}

fn read() -> Reply {
    Reply::tool("read_file", json!({"path": "a.txt"}))
}

/// Returns the reasons of a turn's transitions, then reason, state and error code of its end.
fn course(client: &Client, session: &str, result: &Value) -> Vec<String> {
    let mut course = client.reasons(session);
    let code = result["error"]["code"].as_str().unwrap_or("no error");
    course.push(format!(
        "{} / {} / {code}",
        result["reason"].as_str().unwrap(),
        result["state"].as_str().unwrap()
    ));
    course
}

/// Waits for the next limit question, which must be about `name`.
fn next_limit(client: &Client, session: &str, name: &str) -> std::sync::Arc<Notification> {
    let limit_request = client.next(session, "agent/limitRequested");
    assert_eq!(limit_request.text("limit"), name, "{:?}", limit_request.params);
    limit_request
}

fn respond(client: &Client, limit_request: &Notification, more: Value) {
    let mut params = json!({"limitId": limit_request.text("limitId")});
    params
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let _: Value = client.call("agent/limitRespond", params);
}

fn resume(client: &Client, session: &str) -> Id {
    client.send("agent/resumeTurn", json!({"sessionId": session}))
}

#[test]
fn wall_time_limit_interrupts_a_turn_and_it_can_be_resumed() {
    let world = world("max_wall_time_s = 1.5");
    world.mock().push(Reply::text("hm").gate(&Gate::new()));
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "do it"));
    assert_eq!(
        course(&client, &session, &result),
        ["wall_time", "wall_time / interrupted / wall_time_exceeded"]
    );
    assert_eq!(
        result["error"]["message"],
        "the turn has run for 1.5 s, its limit"
    );
    assert_eq!(client.prompt_result(&resume(&client, &session)).text, "ok");
}

#[test]
fn waiting_for_an_approval_is_not_wall_time() {
    let world = world("max_wall_time_s = 1.5");
    let call = Reply::tool("write_file", json!({"path": "x", "content": "x"}));
    world.mock().push(call);
    let client = world.start();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    // Longer than the limit of 1.5 s: the turn must not end while the approval is open.
    std::thread::sleep(std::time::Duration::from_millis(2_000));
    client.decide(&approval, "allow");
    assert_eq!(client.prompt_result(&id).text, "ok");
}

#[test]
fn wall_time_limit_can_be_raised() {
    let world = world("max_wall_time_s = 1.5");
    let gate = Gate::new();
    world.mock().push(read().gate(&gate));
    let client = world.start_asking();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    let limit_request = next_limit(&client, &session, "max_wall_time_s");
    // The running step completes, but no further call is made.
    gate.release();
    client.tool_call(&session, "completed");
    assert_eq!(world.requests(), 1);
    respond(&client, &limit_request, json!({"raiseBy": 60}));
    let done = json!(client.prompt_result(&id));
    assert_eq!(world.requests(), 2);
    assert_eq!(
        course(&client, &session, &done),
        ["next_turn", "completed", "completed / completed / no error"]
    );
    let resolved = client.next(&session, "agent/limitResolved");
    assert_eq!(
        (&resolved.params["outcome"], &resolved.params["raisedBy"]),
        (&json!("raised"), &json!(60.0))
    );
}

#[test]
fn stop_at_a_limit_interrupts_the_turn() {
    let world = world("max_wall_time_s = 1.5");
    world.mock().push(Reply::text("hm").gate(&Gate::new()));
    let client = world.start_asking();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    let limit_request = next_limit(&client, &session, "max_wall_time_s");
    respond(&client, &limit_request, json!({"stop": true}));
    let done = json!(client.prompt_result(&id));
    assert_eq!(
        course(&client, &session, &done),
        ["stopped_by_user", "stopped_by_user / interrupted / no error"]
    );
    // The first answer wins.
    let late = json!({"limitId": limit_request.text("limitId"), "stop": true});
    let error = client.refused("agent/limitRespond", late);
    assert_eq!(error.data["refusal"], "unknownQuestion");
    assert_eq!(client.prompt_result(&resume(&client, &session)).text, "ok");
}

#[test]
fn cancel_settles_an_open_limit() {
    let world = world("max_wall_time_s = 1.5");
    world.mock().push(Reply::text("hm").gate(&Gate::new()));
    let client = world.start_asking();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    next_limit(&client, &session, "max_wall_time_s");
    client.cancel(&session);
    assert_eq!(json!(client.prompt_result(&id))["state"], "cancelled");
    let resolved = client.next(&session, "agent/limitResolved");
    assert_eq!(
        (resolved.text("outcome"), resolved.text("by")),
        ("stopped", "cancel")
    );
    let open: Value = client.call("agent/listApprovals", json!({}));
    assert_eq!(open, json!({"approvals": []}));
}

#[test]
fn invalid_limit_answers_are_refused() {
    let world = world("max_wall_time_s = 1.5");
    world.mock().push(Reply::text("hm").gate(&Gate::new()));
    let client = world.start_asking();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    let limit_request = next_limit(&client, &session, "max_wall_time_s");
    let limit = limit_request.text("limitId");
    for (method, params, field) in [
        (
            "agent/limitRespond",
            json!({"limitId": limit, "raiseBy": 0}),
            "raiseBy",
        ),
        (
            "agent/limitRespond",
            json!({"limitId": limit, "raiseBy": -1}),
            "raiseBy",
        ),
        (
            "agent/limitRespond",
            json!({"limitId": limit, "raiseBy": 1e30}),
            "answer",
        ),
        ("agent/limitRespond", json!({"limitId": limit}), "answer"),
        (
            "agent/limitRespond",
            json!({"limitId": limit, "raiseBy": 1, "stop": true}),
            "raiseBy",
        ),
        (
            "agent/questionRespond",
            json!({"questionId": limit, "dismissed": true}),
            "answer",
        ),
        ("agent/questionRespond", json!({"questionId": limit}), "answers"),
    ] {
        let error = client.refused(method, params.clone());
        assert_eq!(error.data["field"], field, "{params} {}", error.message);
    }
    let nobody = client.refused("agent/limitRespond", json!({"limitId": "ask_none", "stop": true}));
    assert_eq!(nobody.data["refusal"], "unknownQuestion");
    respond(&client, &limit_request, json!({"stop": true}));
    client.prompt_result(&id);
}

/// Kills a server while a session asks for more time. Returns the session and the id of the limit question.
fn crash_at_limit(world: &World) -> (String, String) {
    world.mock().push(Reply::text("hm").gate(&Gate::new()));
    let client = world.start_asking();
    let session = client.session();
    client.prompt(&session, "do it");
    let limit_request = next_limit(&client, &session, "max_wall_time_s");
    let id = limit_request.text("limitId").to_owned();
    client.kill();
    (session, id)
}

#[test]
fn limit_stays_open_after_a_crash_and_is_asked_again_on_resume() {
    let world = world("max_wall_time_s = 1.5");
    let (session, limit_id) = crash_at_limit(&world);
    let client = world.start_asking();
    let listed: Value = client.call("agent/listApprovals", json!({}));
    assert_eq!(listed["limits"][0]["limitId"], limit_id.as_str(), "{listed}");
    let loaded = client.load(&session);
    assert_eq!(loaded.open_limits[0].limit_id, limit_id);
    let id = resume(&client, &session);
    let limit_request = next_limit(&client, &session, "max_wall_time_s");
    assert_eq!(limit_request.text("limitId"), limit_id);
    respond(&client, &limit_request, json!({"raiseBy": 60}));
    assert_eq!(client.prompt_result(&id).text, "ok");
}

#[test]
fn limit_answer_before_the_resume_is_kept() {
    let world = world("max_wall_time_s = 1.5");
    let (session, limit_id) = crash_at_limit(&world);
    let client = world.start_asking();
    let stop = json!({"limitId": limit_id, "stop": true});
    let _: Value = client.call("agent/limitRespond", stop.clone());
    let error = client.refused("agent/limitRespond", stop);
    assert_eq!(error.data["refusal"], "unknownQuestion");
    let open: Value = client.call("agent/listApprovals", json!({}));
    assert_eq!(open, json!({"approvals": []}));
    // The answer survives another crash.
    client.kill();
    let client = world.start_asking();
    client.load(&session);
    let result = json!(client.prompt_result(&resume(&client, &session)));
    assert_eq!(result["reason"], "stopped_by_user", "{result}");
    assert_eq!(world.requests(), 1, "the model was not called");
}

#[test]
fn new_prompt_settles_an_open_limit() {
    let world = world("max_wall_time_s = 1.5");
    let (session, limit_id) = crash_at_limit(&world);
    let client = world.start_asking();
    client.load(&session);
    assert_eq!(client.ask(&session, "something else").text, "ok");
    let resolved = client.next(&session, "agent/limitResolved");
    assert_eq!(resolved.text("limitId"), limit_id);
    assert_eq!(resolved.text("by"), "newPrompt");
}

/// A model that costs one dollar per thousand tokens; each request here costs about that much.
const EXPENSIVE_MODEL: &str = "[model.dear]\ninput = 1000.0\noutput = 1000.0\n";

fn expensive_world(agent: &str, provider: &str) -> World {
    let world = World::with(Config {
        agent: agent.to_owned(),
        provider: provider.to_owned(),
        tables: EXPENSIVE_MODEL.to_owned(),
        ..Config::default()
    });
    world.write("a.txt", "a\n");
    world
}

fn expensive_session(client: &Client) -> String {
    client.session_with(json!({"model": "mock/dear"}))
}

/// Makes an answer cost `dollars`.
fn reply_costing(reply: Reply, dollars: u64) -> Reply {
    reply.tokens(0, dollars * 1_000)
}

/// Returns the messages of a session's warnings with this code.
fn warnings(client: &Client, session: &str, code: &str) -> Vec<String> {
    let all = client.all(session, "agent/warning");
    let of_code = all
        .iter()
        .filter(|notification| notification.text("code") == code);
    of_code
        .map(|notification| notification.text("message").to_owned())
        .collect()
}

#[test]
fn call_that_would_exceed_the_session_limit_is_not_made() {
    let world = world("max_session_cost = 5.0");
    // The output of this one call costs $5.115, which exceeds the limit.
    world.mock().push(read().tokens(0, 341_000));
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "do it"));
    assert_eq!(
        course(&client, &session, &result),
        [
            "next_turn",
            "budget_exceeded",
            "budget_exceeded / failed / budget_exceeded"
        ]
    );
    assert_eq!(
        result["error"]["message"],
        "session cost $5.13 exceeds limit $5.00"
    );
    assert_eq!(world.requests(), 1);
    assert_eq!(
        warnings(&client, &session, "limit_near"),
        ["session cost is $5.12 of the limit of $5.00"]
    );
    // The limit applies to this session, even after a restart, and to no other.
    drop(client);
    let client = world.start();
    client.load(&session);
    assert_eq!(json!(client.ask(&session, "again"))["reason"], "budget_exceeded");
    assert_eq!(world.requests(), 1);
    let other = client.session();
    assert_eq!(client.ask(&other, "hi").text, "ok");
    let log = client.log();
    assert!(
        log.contains("session_cost=5.115") && log.contains("max_session_cost=5"),
        "{log}"
    );
}

#[test]
fn warning_at_80_percent_comes_once() {
    let world = world("max_session_cost = 100.0");
    for tokens in [5_000_000, 400_000, 10_000, 10_000] {
        world.mock().push(read().tokens(0, tokens));
    }
    let client = world.start();
    let session = client.session();
    client.ask(&session, "do it");
    assert_eq!(
        warnings(&client, &session, "limit_near"),
        ["session cost is $81.00 of the limit of $100.00"]
    );
}

#[test]
fn missing_usage_is_estimated_for_limits() {
    let world = expensive_world("max_session_cost = 30.0", "");
    world.mock().default_reply(Reply::text("ok").tokens(0, 0));
    let client = world.start();
    let session = expensive_session(&client);
    let mut rounds = 0;
    while json!(client.ask(&session, "go on"))["reason"] == "completed" {
        rounds += 1;
        assert!(rounds < 40, "the limit is never reached");
    }
    let cost = &client.all(&session, "agent/usage").pop().unwrap().params["session"]["costUsd"];
    assert!((20.0..=30.0).contains(&cost.as_f64().unwrap()), "{cost}");
}

#[test]
fn cancelled_calls_without_usage_still_cost() {
    let world = expensive_world("max_session_cost = 30.0", "");
    let client = world.start();
    // Chat Completions report usage only at the end of an answer.
    let session = client.session_with(json!({"model": "other/dear"}));
    let mut rounds = 0;
    loop {
        let gate = Gate::new();
        world
            .mock()
            .push(Reply::text("on and on").tokens(0, 0).gate(&gate));
        let id = client.prompt(&session, "go on");
        client.next_matching(&session, "agent/textDelta", |_| true);
        client.cancel(&session);
        let result = json!(client.prompt_result(&id));
        assert_eq!(result["reason"], "aborted_streaming");
        let cost = client.all(&session, "agent/usage").pop().unwrap().params["session"]["costUsd"].clone();
        rounds += 1;
        assert!(rounds < 40, "the limit is never near: {cost}");
        if cost.as_f64().unwrap() > 20.0 {
            break;
        }
    }
    world.mock().default_reply(Reply::text("ok").tokens(0, 0));
    while json!(client.ask(&session, "go on"))["reason"] == "completed" {
        rounds += 1;
        assert!(rounds < 40, "the limit is never reached");
    }
}

#[test]
fn session_limit_is_raised_for_the_session() {
    let world = expensive_world("max_session_cost = 9.0", "");
    world.mock().push(reply_costing(read(), 10));
    // A client without questions has no `ask_user` tool, so the restart changes the requests.
    world.mock().allow_rewrites();
    let client = world.start_asking();
    let session = expensive_session(&client);
    let id = client.prompt(&session, "do it");
    let limit_request = next_limit(&client, &session, "max_session_cost");
    assert_eq!(limit_request.params["max"], 9.0);
    assert!(
        limit_request.params["used"].as_f64().unwrap() > 10.0,
        "{:?}",
        limit_request.params
    );
    respond(&client, &limit_request, json!({"raiseBy": 100}));
    assert_eq!(client.prompt_result(&id).text, "ok");
    assert_eq!(client.ask(&session, "more").text, "ok");
    // The raise survives a restart.
    drop(client);
    let client = world.start();
    client.load(&session);
    assert_eq!(client.ask(&session, "more").text, "ok");
}

#[test]
fn turn_limit_applies_to_one_turn() {
    let world = expensive_world("max_turn_cost = 9.0", "");
    world.mock().push(reply_costing(read(), 10));
    let client = world.start();
    let session = expensive_session(&client);
    let result = json!(client.ask(&session, "do it"));
    assert_eq!(result["reason"], "budget_exceeded", "{result}");
    assert!(
        result["error"]["message"]
            .as_str()
            .unwrap()
            .starts_with("turn cost $"),
        "{result}"
    );
    assert_eq!(client.ask(&session, "next").text, "ok");
}

#[test]
fn stop_at_a_money_limit_interrupts_the_turn() {
    let world = expensive_world("max_session_cost = 9.0", "");
    world.mock().push(reply_costing(read(), 10));
    let client = world.start_asking();
    let session = expensive_session(&client);
    let id = client.prompt(&session, "do it");
    let limit_request = next_limit(&client, &session, "max_session_cost");
    respond(&client, &limit_request, json!({"stop": true}));
    let result = json!(client.prompt_result(&id));
    assert_eq!(
        course(&client, &session, &result),
        [
            "next_turn",
            "stopped_by_user",
            "stopped_by_user / interrupted / no error"
        ]
    );
}

/// Opens a session and exhausts its limit of $100 in six rounds.
fn exhausted_session(world: &World, client: &Client) -> String {
    let session = expensive_session(client);
    for n in 0..6 {
        world.mock().push(reply_costing(Reply::text("ok"), 17));
        client.ask(&session, format!("q{n}"));
    }
    session
}

#[test]
fn manual_compaction_obeys_money_limits() {
    let world = expensive_world("max_session_cost = 100.0", "");
    for can_ask in [false, true] {
        let client = if can_ask {
            world.start_asking()
        } else {
            world.start()
        };
        let session = exhausted_session(&world, &client);
        let before = client.reasons(&session).len();
        let calls = world.requests();
        let id = client.send("agent/compact", json!({"sessionId": session}));
        if can_ask {
            let limit_request = next_limit(&client, &session, "max_session_cost");
            respond(&client, &limit_request, json!({"stop": true}));
        }
        let result = client.answer(&id).unwrap();
        let expected = if can_ask {
            ["stopped_by_user", "stopped_by_user / interrupted / no error"]
        } else {
            ["budget_exceeded", "budget_exceeded / failed / budget_exceeded"]
        };
        assert_eq!(course(&client, &session, &result)[before..], expected);
        assert_eq!(world.requests(), calls);
        assert!(client.all(&session, "agent/compacted").is_empty());
        assert!(warnings(&client, &session, "compaction_failed").is_empty());
        drop(client);
    }
}

#[test]
fn money_limit_is_asked_again_after_a_crash_and_can_be_raised() {
    let world = expensive_world("max_session_cost = 9.0", "");
    world.mock().push(reply_costing(read(), 10));
    let client = world.start_asking();
    let session = expensive_session(&client);
    client.prompt(&session, "do it");
    let limit_request = next_limit(&client, &session, "max_session_cost");
    let limit_id = limit_request.text("limitId").to_owned();
    client.kill();
    let client = world.start_asking();
    client.load(&session);
    let id = resume(&client, &session);
    let reopened = next_limit(&client, &session, "max_session_cost");
    assert_eq!(reopened.text("limitId"), limit_id);
    respond(&client, &reopened, json!({"raiseBy": 100}));
    assert_eq!(client.prompt_result(&id).text, "ok");
    assert_eq!(
        client.all(&session, "agent/limitRequested").len(),
        1,
        "asked once"
    );
}

#[test]
fn day_limit_covers_all_sessions_and_concurrent_calls() {
    let world = expensive_world("max_day_cost = 9.0", "");
    let gate = Gate::new();
    // One call reserves five to seven dollars, and costs next to nothing once it is done.
    world.mock().push(Reply::text("one").tokens(0, 1).gate(&gate));
    let client = world.start();
    let (one, two) = (expensive_session(&client), expensive_session(&client));
    let first = client.prompt(&one, "x".repeat(4_000));
    world.wait_at_gate(&gate);
    let result = json!(client.ask(&two, "y".repeat(8_000)));
    assert_eq!(result["reason"], "budget_exceeded", "{result}");
    let message = result["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("day cost $") && message.ends_with(" exceeds limit $9.00"),
        "{message}"
    );
    assert_eq!(world.requests(), 1);
    gate.release();
    client.prompt_result(&first);
    // The reservation is released.
    world.mock().push(reply_costing(Reply::text("two"), 8));
    assert_eq!(client.ask(&two, "z").text, "two");
    // The day's spending survives a restart.
    drop(client);
    let client = world.start();
    let three = expensive_session(&client);
    assert_eq!(json!(client.ask(&three, "again"))["reason"], "budget_exceeded");
}

#[test]
fn day_limit_and_its_raise_are_shared_across_servers() {
    let world = expensive_world("max_day_cost = 9.0", "");
    let here = world.start_asking();
    let there = world.start();
    let session = expensive_session(&here);
    world.mock().push(reply_costing(Reply::text("there"), 10));
    let other = expensive_session(&there);
    assert_eq!(there.ask(&other, "spend").text, "there");
    let id = here.prompt(&session, "do it");
    let limit_request = next_limit(&here, &session, "max_day_cost");
    respond(&here, &limit_request, json!({"raiseBy": 100}));
    assert_eq!(here.prompt_result(&id).text, "ok");
    // The raise applies to the other server, too.
    assert_eq!(there.ask(&other, "more").text, "ok");
}

#[test]
fn provider_day_limit_applies_to_that_provider_only() {
    let world = expensive_world("", "max_day_cost = 9.0");
    world.mock().push(reply_costing(Reply::text("much"), 10));
    let client = world.start();
    let session = expensive_session(&client);
    client.ask(&session, "spend");
    let result = json!(client.ask(&session, "more"));
    let message = result["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("day cost at mock $1"), "{message}");
    // The limit does not apply to another provider.
    let elsewhere = client.session_with(json!({"model": "other/other-model"}));
    assert_eq!(client.ask(&elsewhere, "hi").text, "ok");
}

/// A world with a provider whose address does not look local, so that an unknown price does not count as free.
fn unpriced_world() -> World {
    let world = World::new();
    let far = world.mock().anthropic_url().replace("127.0.0.1", "0.0.0.0");
    world.configure(Config {
        agent: "max_session_cost = 5.0".to_owned(),
        tables: format!("[provider.far]\nkind = \"anthropic\"\nbase_url = \"{far}\"\napi_key = \"k\"\n"),
        ..Config::default()
    });
    world.write("a.txt", "a\n");
    world
}

#[test]
fn unknown_price_warns_once_without_a_user() {
    let world = unpriced_world();
    world.mock().push(read());
    let client = world.start();
    let session = client.session_with(json!({"model": "far/nobody-knows"}));
    assert_eq!(client.ask(&session, "do it").text, "ok");
    assert_eq!(client.ask(&session, "more").text, "ok");
    assert_eq!(
        warnings(&client, &session, "unknown_price"),
        ["the price of far/nobody-knows is unknown, so spending limits cannot cover it"]
    );
}

#[test]
fn unknown_price_is_asked_about_once_per_session() {
    let world = unpriced_world();
    world.mock().push(read());
    let client = world.start_asking();
    let session = client.session_with(json!({"model": "far/nobody-knows"}));
    let id = client.prompt(&session, "do it");
    let limit_request = next_limit(&client, &session, "unknown_price");
    assert_eq!(limit_request.text("model"), "far/nobody-knows");
    let error = client.refused(
        "agent/limitRespond",
        json!({"limitId": limit_request.text("limitId"), "raiseBy": 1}),
    );
    assert_eq!(error.data["field"], "answer");
    respond(&client, &limit_request, json!({}));
    assert_eq!(client.prompt_result(&id).text, "ok");
    assert_eq!(client.ask(&session, "more").text, "ok");
    assert_eq!(client.all(&session, "agent/limitRequested").len(), 1);
    assert!(warnings(&client, &session, "unknown_price").is_empty());
    // Another session asks again, and the user may stop.
    let other = client.session_with(json!({"model": "far/nobody-knows"}));
    let id = client.prompt(&other, "do it");
    let limit_request = next_limit(&client, &other, "unknown_price");
    respond(&client, &limit_request, json!({"stop": true}));
    assert_eq!(json!(client.prompt_result(&id))["reason"], "stopped_by_user");
}

#[test]
fn tool_calls_are_limited_and_each_has_its_result() {
    let world = world("max_tool_calls = 2");
    world.mock().push(read());
    let two = Reply::new()
        .call("read_file", json!({"path": "a.txt"}))
        .call("read_file", json!({"path": "b.txt"}));
    world.mock().push(two);
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "do it"));
    assert_eq!(
        course(&client, &session, &result),
        [
            "next_turn",
            "max_tool_calls",
            "max_tool_calls / failed / tool_calls_exceeded"
        ]
    );
    assert_eq!(
        result["error"]["message"],
        "reached 2 tool calls without completion"
    );
    let refused = client.tool_call(&session, "failed");
    assert!(
        refused.params["output"]
            .to_string()
            .contains("limit of tool calls"),
        "{refused:?}"
    );
    // The history is valid, and a new turn has its own limit.
    world.mock().push(read());
    assert_eq!(client.ask(&session, "go on").text, "ok");
}

#[test]
fn there_are_more_steps_where_nobody_can_raise_them() {
    for (can_ask, settings, steps) in [(true, "", 50), (false, "", 200), (false, "max_steps = 3", 3)] {
        let world = world(settings);
        // Each call differs, so that the turn does not count as stuck.
        world.mock().respond_with(|request| {
            let pattern = format!("*{}", request.index);
            Some(Reply::tool("glob", json!({"pattern": pattern})))
        });
        let client = if can_ask {
            world.start_asking()
        } else {
            world.start()
        };
        let session = client.session();
        let id = client.prompt(&session, "do it");
        if can_ask {
            let limit = next_limit(&client, &session, "max_steps");
            respond(&client, &limit, json!({"stop": true}));
        }
        let reason = json!(client.prompt_result(&id).reason);
        assert_eq!(reason, if can_ask { "stopped_by_user" } else { "max_turns" });
        assert_eq!(world.requests(), steps, "{can_ask} {settings}");
    }
}

#[test]
fn tool_call_and_step_limits_can_be_raised() {
    let world = world("max_tool_calls = 1\nmax_steps = 2");
    for _ in 0..3 {
        world.mock().push(read());
    }
    let client = world.start_asking();
    let session = client.session();
    let id = client.prompt(&session, "do it");
    let limit_request = next_limit(&client, &session, "max_tool_calls");
    assert_eq!(
        (&limit_request.params["used"], &limit_request.params["max"]),
        (&json!(2.0), &json!(1.0))
    );
    respond(&client, &limit_request, json!({"raiseBy": 5}));
    let limit_request = next_limit(&client, &session, "max_steps");
    respond(&client, &limit_request, json!({"raiseBy": 1}));
    let limit_request = next_limit(&client, &session, "max_steps");
    assert_eq!(limit_request.params["max"], 3.0);
    respond(&client, &limit_request, json!({"raiseBy": 10}));
    let result = json!(client.prompt_result(&id));
    assert_eq!(
        course(&client, &session, &result),
        [
            "next_turn",
            "next_turn",
            "next_turn",
            "completed",
            "completed / completed / no error"
        ]
    );
}

#[test]
fn limit_reached_degrade_ends_with_a_summary_without_tools() {
    for (agent, reason) in [
        ("max_steps = 1\nlimit_reached = \"degrade\"", "max_turns"),
        (
            "max_tool_calls = 1\nlimit_reached = \"degrade\"",
            "max_tool_calls",
        ),
    ] {
        let world = world(agent);
        let calls = Reply::new()
            .call("read_file", json!({"path": "a.txt"}))
            .call("read_file", json!({"path": "a.txt"}));
        world.mock().push(calls);
        world.mock().push(Reply::text("a.txt holds an a"));
        let client = world.start();
        let session = client.session();
        let result = json!(client.ask(&session, "do it"));
        let end = format!("{reason} / degraded / no error");
        assert_eq!(course(&client, &session, &result), [reason, &end], "{result}");
        assert_eq!(result["text"], "a.txt holds an a");
        let last = world.wait_for_request(1).body.clone();
        assert!(
            last.get("tools").is_none_or(|tools| tools == &json!([])),
            "{last}"
        );
        assert!(!last["messages"].to_string().contains("tool_use"), "{last}");
        assert_eq!(client.ask(&session, "go on").text, "ok");
    }
}

#[test]
fn failed_final_summary_keeps_the_limit_error() {
    let world = world("max_steps = 1\nlimit_reached = \"degrade\"");
    world.mock().push(read());
    world
        .mock()
        .push(Reply::error(400, "invalid_request_error", "nonsense"));
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "do it"));
    assert_eq!(
        course(&client, &session, &result),
        ["max_turns", "max_turns / failed / max_iterations"]
    );
    assert_eq!(
        result["error"]["message"],
        "reached 1 iterations without completion"
    );
}

#[test]
fn untrusted_folder_can_lower_limits_but_not_raise_them() {
    let world = expensive_world("max_session_cost = 9.0", "");
    world.write(
        ".agentls/config.toml",
        "[agent.default]\nmax_session_cost = 900.0\nmax_turn_cost = 4.5\n",
    );
    let client = world.start();
    let session = expensive_session(&client);
    world.mock().push(reply_costing(read(), 5));
    let result = json!(client.ask(&session, "do it"));
    assert!(
        result["error"]["message"]
            .as_str()
            .unwrap()
            .starts_with("turn cost"),
        "{result}"
    );
    world.mock().push(reply_costing(Reply::text("much"), 5));
    client.ask(&session, "do it");
    let result = json!(client.ask(&session, "do it"));
    assert!(
        result["error"]["message"]
            .as_str()
            .unwrap()
            .starts_with("session cost"),
        "{result}"
    );
}
