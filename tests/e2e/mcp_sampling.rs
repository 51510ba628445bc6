//! MCP servers that ask the model during a call (R-MCP).

use std::time::Duration;

use agentls::protocol::TurnState;
use serde_json::{Value, json};

use crate::harness::{Client, Config, World};
use crate::mcp::{call_tool, peer_table, world_with};
use crate::mock_llm::{Gate, Reply};

const ALLOW: &str = "sampling = true\n[approvals]\nallow = [\"mcp:*\"]";

fn push_call(world: &World, input: Value) {
    world.mock().push(Reply::tool("mcp__peer__sample", input));
}

/// Returns the text of the tool's result in the last request.
fn last_result(world: &World) -> String {
    let request = world.wait_for_request(world.requests() - 1);
    let content = &request.messages().last().unwrap()["content"][0]["content"];
    let text = content.as_str().or_else(|| content[0]["text"].as_str());
    text.unwrap().to_owned()
}

/// Returns what the server got, from the last line of the result.
fn answer_in_last_request(world: &World) -> Value {
    serde_json::from_str(last_result(world).lines().last().unwrap()).unwrap()
}

/// Lets the server ask the model, which gives `reply`. Returns what the server got.
fn sample(world: &World, client: &Client, session: &str, params: Value, reply: Reply) -> Value {
    push_call(world, json!({"params": params}));
    world.mock().push(reply);
    client.ask(session, "go");
    answer_in_last_request(world)
}

#[test]
fn the_model_answers_the_server_and_the_cost_counts() {
    let world = world_with(&[], ALLOW);
    let client = world.start();
    let session = client.session();
    let image = json!({"type": "image", "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==", "mimeType": "image/png"});
    let messages = json!([
        {"role": "user", "content": {"type": "text", "text": "What is this?"}},
        {"role": "assistant", "content": {"type": "text", "text": "Show it."}},
        {"role": "user", "content": [{"type": "text", "text": "Here."}, image]},
    ]);
    let params =
        json!({"messages": messages, "systemPrompt": "Be brief.", "maxTokens": 77, "stopSequences": ["END"]});
    let reply = Reply::text("A pixel. END of it").tokens(1_000, 100);
    let answer = sample(&world, &client, &session, params, reply);
    assert_eq!(
        answer["result"]["content"],
        json!({"type": "text", "text": "A pixel. "})
    );
    assert_eq!(answer["result"]["role"], "assistant");
    assert_eq!(answer["result"]["stopReason"], "stopSequence");
    let request = world.wait_for_request(1);
    let body = &request.body;
    assert_eq!(answer["result"]["model"], body["model"]);
    assert_eq!(body["max_tokens"], 77);
    assert!(
        body.get("tools")
            .is_none_or(|tools| tools.as_array().unwrap().is_empty()),
        "{body}"
    );
    assert!(body["system"].to_string().contains("Be brief."), "{body}");
    assert_eq!(body["messages"].as_array().unwrap().len(), 3);
    assert_eq!(body["messages"][2]["content"][1]["type"], "image");
    let live: String = (client.all(&session, "agent/toolOutputDelta").iter())
        .map(|delta| delta.text("text").to_owned())
        .collect();
    assert!(
        live.contains("peer asks the model: Here.") && live.contains("the model answers: A pixel."),
        "{live}"
    );
    let kept = "[peer asks the model: Here.\nthe model answers: A pixel.]\n{";
    assert!(last_result(&world).starts_with(kept), "{}", last_result(&world));
    let usage = client.all(&session, "agent/usage");
    let total = &usage.last().unwrap().params["turn"];
    assert!(total["inputTokens"].as_u64().unwrap() >= 1_000, "{total}");
}

#[test]
fn a_request_that_no_model_can_answer_is_refused_and_the_server_goes_on() {
    let world = world_with(&[], ALLOW);
    let client = world.start();
    let session = client.session();
    let refused = call_tool(
        &world,
        &client,
        &session,
        "sample",
        json!({"params": {"messages": []}}),
    );
    assert!(
        refused.contains("-32602") && refused.contains("1 to 100"),
        "{refused}"
    );
    push_call(&world, json!({"times": 11}));
    for _ in 0..10 {
        world.mock().push(Reply::text("yes"));
    }
    client.ask(&session, "go");
    let answers = answer_in_last_request(&world);
    assert_eq!(answers[9]["result"]["content"]["text"], "yes", "{answers}");
    assert!(
        answers[10]["error"]["message"]
            .as_str()
            .unwrap()
            .contains("too often"),
        "{answers}"
    );
}

#[test]
fn a_failure_of_the_provider_is_shown_to_the_user_and_not_to_the_server() {
    let world = world_with(&[], ALLOW);
    let client = world.start();
    let session = client.session();
    let failure = Reply::error(400, "invalid_request_error", "a detail of the account");
    let answer = sample(&world, &client, &session, json!({}), failure);
    assert_eq!(answer["error"]["message"], "the model does not answer");
    let shown = client.all(&session, "agent/toolOutputDelta");
    assert!(
        shown
            .iter()
            .any(|delta| delta.text("text").contains("a detail of the account")),
        "{shown:?}"
    );
}

#[test]
fn a_cancel_ends_the_answer_and_the_next_turn_works() {
    let world = world_with(&[], ALLOW);
    let client = world.start();
    let session = client.session();
    let gate = Gate::new();
    push_call(&world, json!({}));
    world.mock().push(Reply::text("too late").gate(&gate));
    let prompt = client.prompt(&session, "go");
    world.wait_at_gate(&gate);
    client.cancel(&session);
    assert_eq!(json!(client.prompt_result(&prompt).state), "cancelled");
    world.closed(&world.wait_for_request(1));
    let answer = sample(&world, &client, &session, json!({}), Reply::text("in time"));
    assert_eq!(answer["result"]["content"]["text"], "in time", "{answer}");
}

#[test]
fn the_answer_may_take_longer_than_the_call() {
    let world = world_with(&[], &format!("timeout_s = 300\n{ALLOW}"));
    let client = world.start();
    let session = client.session();
    let gate = Gate::new();
    push_call(&world, json!({"params": {}}));
    world.mock().push(Reply::text("slow").gate(&gate));
    let id = client.prompt(&session, "go");
    world.wait_at_gate(&gate);
    client.advance(Duration::from_secs(600));
    client.settled();
    assert!(client.take_answer(&id).is_none(), "the call waits for the model");
    gate.release();
    client.prompt_result(&id);
    let answer = answer_in_last_request(&world);
    assert_eq!(answer["result"]["content"]["text"], "slow", "{answer}");
}

#[test]
fn a_project_cannot_let_its_server_ask_the_model() {
    let world = World::with(Config {
        tables: "[approvals]\nallow = [\"mcp:*\"]".to_owned(),
        ..Config::default()
    });
    world.write(".agentls/config.toml", peer_table(&[], "sampling = true"));
    let client = world.start();
    let session = client.session();
    let _: Value = client.call(
        "agent/setTrust",
        json!({"folder": world.workspace(), "trusted": true}),
    );
    let refused = call_tool(&world, &client, &session, "sample", json!({}));
    assert!(refused.contains("-32601"), "{refused}");
    assert_eq!(world.requests(), 2, "only the turn itself asks the model");
}

#[test]
fn while_two_sessions_call_a_server_no_model_answers_it_and_a_question_says_so() {
    let world = World::new();
    let log = world.path("peer.log");
    world.configure(Config {
        tables: peer_table(&["--log", log.to_str().unwrap()], ALLOW),
        ..Config::default()
    });
    let client = world.start_asking();
    let (busy, asking) = (client.session(), client.session());
    world.mock().push(Reply::tool("mcp__peer__hang", json!({})));
    let waiting = client.prompt(&busy, "wait");
    world.wait_until(|| std::fs::read_to_string(&log).is_ok_and(|log| log.contains("\"hang\"")));
    let messages = json!([{"role": "user", "content": {"type": "text", "text": "Sum up."}}]);
    push_call(&world, json!({"params": {"messages": messages, "maxTokens": 9}}));
    client.ask(&asking, "go");
    let result = last_result(&world);
    assert!(result.contains("calls of several sessions run"), "{result}");
    world
        .mock()
        .push(Reply::tool("mcp__peer__elicit_form", json!({})));
    let asked = client.prompt(&asking, "go");
    let question = client.next(&asking, "agent/questionRequested");
    let detail = question.text("detail");
    assert!(detail.contains("or during one of another session"), "{detail}");
    for (session, prompt) in [(&asking, asked), (&busy, waiting)] {
        client.cancel(session);
        assert_eq!(client.prompt_result(&prompt).state, TurnState::Cancelled);
    }
}
