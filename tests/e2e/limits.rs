//! Limits on the wire, after a crash, and across servers. What they decide is tested in `session::tests::limits`.

use std::sync::Arc;
use std::time::Duration;

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

/// Waits for the next limit question, which must be about `name`.
fn next_limit(client: &Client, session: &str, name: &str) -> Arc<Notification> {
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

/// Starts a turn that takes too long. Returns its prompt and the question about the limit.
fn reach_limit(world: &World, client: &Client, session: &str) -> (Id, Arc<Notification>) {
    let gate = Gate::new();
    world.mock().push(Reply::text("hm").gate(&gate));
    let id = client.prompt(session, "do it");
    world.wait_at_gate(&gate);
    client.advance(Duration::from_secs(3_600));
    (id, next_limit(client, session, "max_wall_time_s"))
}

fn resume(client: &Client, session: &str) -> Id {
    client.send("agent/resumeTurn", json!({"sessionId": session}))
}

#[test]
fn invalid_limit_answers_are_refused() {
    let world = world("max_wall_time_s = 3600");
    let client = world.start_asking();
    let session = client.session();
    let (id, limit_request) = reach_limit(&world, &client, &session);
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

#[test]
fn limit_stays_open_after_a_crash_and_is_asked_again_on_resume() {
    let world = world("max_wall_time_s = 3600");
    let client = world.start_asking();
    let session = client.session();
    let (_, limit_request) = reach_limit(&world, &client, &session);
    let limit_id = limit_request.text("limitId");
    client.kill();
    let client = world.start_asking();
    let listed: Value = client.call("agent/listApprovals", json!({}));
    assert_eq!(listed["limits"][0]["limitId"], limit_id, "{listed}");
    let loaded = client.load(&session);
    assert_eq!(loaded.open_limits[0].limit_id, limit_id);
    let id = resume(&client, &session);
    let limit_request = next_limit(&client, &session, "max_wall_time_s");
    assert_eq!(limit_request.text("limitId"), limit_id);
    respond(&client, &limit_request, json!({"raiseBy": 60}));
    assert_eq!(client.prompt_result(&id).text, "ok");
}

#[test]
fn log_names_the_cost_and_its_limit() {
    let world = world("max_session_cost = 5.0");
    // The output of this one call costs $5.115.
    let read = Reply::tool("read_file", json!({"path": "a.txt"}));
    world.mock().push(read.tokens(0, 341_000));
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "do it"));
    assert_eq!(
        result["error"]["message"],
        "session cost $5.13 exceeds limit $5.00"
    );
    // The log is written by a thread of its own.
    world.wait_until(|| {
        let log = client.log();
        log.contains("session_cost=5.115") && log.contains("max_session_cost=5")
    });
}

#[test]
fn day_limit_and_its_raise_are_shared_across_servers() {
    // One dollar per thousand tokens; each request here costs about that much.
    let world = World::with(Config {
        agent: "max_day_cost = 9.0".to_owned(),
        tables: "[model.dear]\ninput = 1000.0\noutput = 1000.0\n".to_owned(),
        ..Config::default()
    });
    let expensive_session = |client: &Client| client.session_with(json!({"model": "mock/dear"}));
    let here = world.start_asking();
    let there = world.start();
    let session = expensive_session(&here);
    world.mock().push(Reply::text("there").tokens(0, 10_000));
    let other = expensive_session(&there);
    assert_eq!(there.ask(&other, "spend").text, "there");
    let id = here.prompt(&session, "do it");
    let limit_request = next_limit(&here, &session, "max_day_cost");
    respond(&here, &limit_request, json!({"raiseBy": 100}));
    assert_eq!(here.prompt_result(&id).text, "ok");
    // The raise applies to the other server, too.
    assert_eq!(there.ask(&other, "more").text, "ok");
}
