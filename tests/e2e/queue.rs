//! Prompts that wait for the end of the turn (R-WIRE `agent/queue`, R-CANCEL, I16).

use serde_json::{Value, json};

use crate::harness::{Client, World};
use crate::mock_llm::{Gate, Reply};

fn queue(client: &Client, session: &str, action: &str, more: Value) -> Value {
    let mut params = json!({"sessionId": session, "action": action});
    params
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    client.call("agent/queue", params)
}

fn add(client: &Client, session: &str, prompt: &str) -> String {
    let added = queue(client, session, "add", json!({"prompt": prompt}));
    added["promptId"].as_str().unwrap().to_owned()
}

/// Returns the texts of the queued prompts.
fn queued_texts(answer: &Value) -> Vec<&str> {
    let prompts = answer["prompts"].as_array().unwrap();
    let text = |prompt: &'_ Value| prompt["content"][0]["text"].as_str().map(str::len);
    assert!(prompts.iter().all(|prompt| text(prompt).is_some()));
    let text =
        |prompt| -> &str { Value::as_str(&Value::get(prompt, "content").unwrap()[0]["text"]).unwrap() };
    prompts.iter().map(text).collect()
}

/// Waits until a turn started `by` that trigger has ended, and returns its id.
fn wait_for_turn_by(client: &Client, session: &str, by: &str) -> String {
    let started = client.next_matching(session, "agent/turnStarted", |notification| {
        notification.text("by") == by
    });
    let turn = started.text("turnId").to_owned();
    client.next_matching(session, "agent/turnEnded", |notification| {
        notification.text("turnId") == turn
    });
    turn
}

#[test]
fn queued_prompts_are_sent_in_order_after_the_turn() {
    let world = World::new();
    let gate = Gate::new();
    world.mock().push(Reply::text("first").gate(&gate));
    world.mock().push(Reply::text("second"));
    world.mock().push(Reply::text("third"));
    let client = world.start();
    let session = client.session();
    let first = client.prompt(&session, "one");
    world.wait_at_gate(&gate);
    let two = add(&client, &session, "two");
    let update = client.next_matching(&session, "agent/sessionUpdated", |notification| {
        !notification.params["queue"].is_null()
    });
    assert_eq!(
        update.params["queue"],
        json!({"paused": false, "prompts": [{"promptId": two, "text": "two"}]})
    );
    let removed = add(&client, &session, "gone");
    let three = add(&client, &session, "tree");
    let edited = queue(
        &client,
        &session,
        "edit",
        json!({"promptId": three, "prompt": "three"}),
    );
    assert_eq!(queued_texts(&edited), ["two", "gone", "three"]);
    let remaining = queue(&client, &session, "remove", json!({"promptId": removed}));
    assert_eq!(queued_texts(&remaining), ["two", "three"]);
    assert_eq!(queue(&client, &session, "list", json!({})), remaining);
    let loaded = client.load(&session);
    assert_eq!(loaded.state.queue.unwrap().prompts.len(), 2);
    for (action, more) in [("edit", json!({"prompt": "x"})), ("remove", json!({}))] {
        let mut params = json!({"sessionId": session, "action": action, "promptId": removed});
        params
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let error = client.refused("agent/queue", params);
        assert_eq!(error.data["refusal"], "unknownPrompt", "{error:?}");
    }
    let error = client.refused("agent/queue", json!({"sessionId": session, "action": "add"}));
    assert_eq!(
        (&error.data["refusal"], &error.data["field"]),
        (&json!("badParams"), &json!("prompt"))
    );
    gate.release();
    assert_eq!(client.prompt_result(&first).text, "first");
    for text in ["two", "three"] {
        let turn = wait_for_turn_by(&client, &session, "queue");
        let message = client.next_matching(&session, "agent/message", |notification| {
            notification.text("turnId") == turn && notification.text("role") == "user"
        });
        assert_eq!(message.params["content"][0]["text"], text);
    }
    assert_eq!(world.wait_for_request(1).last_text(), "two");
    assert_eq!(world.wait_for_request(2).last_text(), "three");
    assert_eq!(
        queue(&client, &session, "list", json!({})),
        json!({"paused": false, "prompts": []})
    );
}

#[test]
fn queued_prompt_starts_immediately_if_no_turn_runs() {
    let world = World::new();
    let client = world.start();
    let session = client.session();
    let added = queue(&client, &session, "add", json!({"prompt": "go"}));
    assert_eq!(queued_texts(&added), Vec::<&str>::new());
    assert_eq!(
        wait_for_turn_by(&client, &session, "queue"),
        added["turnId"].as_str().unwrap()
    );
    assert_eq!(world.wait_for_request(0).last_text(), "go");
}

#[test]
fn cancel_pauses_the_queue_until_send_now() {
    let world = World::new();
    let gate = Gate::new();
    world.mock().push(Reply::text("never").gate(&gate));
    let client = world.start();
    let session = client.session();
    let first = client.prompt(&session, "one");
    world.wait_at_gate(&gate);
    for prompt in ["two", "three", "four"] {
        add(&client, &session, prompt);
    }
    client.cancel(&session);
    assert_eq!(json!(client.prompt_result(&first).state), "cancelled");
    client.next_matching(&session, "agent/sessionUpdated", |notification| {
        notification.params["queue"]["paused"] == true
    });
    let listed = queue(&client, &session, "list", json!({}));
    assert_eq!(
        (&listed["paused"], queued_texts(&listed)),
        (&json!(true), vec!["two", "three", "four"])
    );
    // A prompt that is added while the queue is paused waits, too.
    add(&client, &session, "five");
    assert_eq!(world.requests(), 1);
    let listed = queue(&client, &session, "list", json!({}));
    let three = listed["prompts"][1]["promptId"].clone();
    let sent = queue(&client, &session, "sendNow", json!({"promptId": three}));
    assert!(sent["turnId"].is_string(), "{sent}");
    assert_eq!(sent["paused"], false);
    for _ in 0..4 {
        wait_for_turn_by(&client, &session, "queue");
    }
    let sent_texts: Vec<_> = (1..5)
        .map(|index| world.wait_for_request(index).last_text())
        .collect();
    assert_eq!(sent_texts, ["three", "two", "four", "five"]);
}

#[test]
fn completed_turn_resumes_a_paused_queue() {
    let world = World::new();
    let gate = Gate::new();
    world.mock().push(Reply::text("never").gate(&gate));
    let client = world.start();
    let session = client.session();
    let first = client.prompt(&session, "one");
    world.wait_at_gate(&gate);
    add(&client, &session, "two");
    client.cancel(&session);
    client.prompt_result(&first);
    client.ask(&session, "something else");
    wait_for_turn_by(&client, &session, "queue");
    assert_eq!(world.wait_for_request(2).last_text(), "two");
}

#[test]
fn send_now_joins_the_running_turn() {
    let world = World::new();
    let gate = Gate::new();
    world.mock().push(Reply::text("I am done").gate(&gate));
    world.mock().push(Reply::text("Now really"));
    let client = world.start();
    let session = client.session();
    let first = client.prompt(&session, "one");
    world.wait_at_gate(&gate);
    let id = add(&client, &session, "mind the tests");
    let sent = queue(&client, &session, "sendNow", json!({"promptId": id}));
    assert_eq!(queued_texts(&sent), Vec::<&str>::new());
    gate.release();
    let done = client.prompt_result(&first);
    assert_eq!(sent["turnId"], done.turn_id);
    assert_eq!(done.text, "Now really");
    assert_eq!(world.wait_for_request(1).last_text(), "mind the tests");
}

#[test]
fn queued_prompts_survive_a_kill() {
    let world = World::new();
    let gate = Gate::new();
    world.mock().push(Reply::text("never").gate(&gate));
    let client = world.start();
    let session = client.session();
    client.prompt(&session, "one");
    world.wait_at_gate(&gate);
    for prompt in ["two", "three"] {
        add(&client, &session, prompt);
    }
    client.kill();
    let client = world.start();
    let loaded = client.load(&session);
    let restored = loaded.state.queue.unwrap();
    assert!(restored.paused);
    let texts: Vec<_> = restored
        .prompts
        .iter()
        .map(|prompt| prompt.text.as_str())
        .collect();
    assert_eq!(texts, ["two", "three"]);
    assert_eq!(world.requests(), 1);
    queue(&client, &session, "sendNow", json!({}));
    for _ in 0..2 {
        wait_for_turn_by(&client, &session, "queue");
    }
    assert_eq!(world.wait_for_request(1).last_text(), "two");
    assert_eq!(world.wait_for_request(2).last_text(), "three");
    let client = {
        client.kill();
        world.start()
    };
    assert_eq!(client.load(&session).state.queue, None);
}

#[test]
fn queue_holds_at_most_a_hundred_prompts() {
    let world = World::new();
    let gate = Gate::new();
    world.mock().push(Reply::text("never").gate(&gate));
    let client = world.start();
    let session = client.session();
    let first = client.prompt(&session, "one");
    world.wait_at_gate(&gate);
    for number in 0..100 {
        add(&client, &session, &format!("prompt {number}"));
    }
    let error = client.refused(
        "agent/queue",
        json!({"sessionId": session, "action": "add", "prompt": "one too many"}),
    );
    assert_eq!(error.data["refusal"], "queueFull");
    assert_eq!(error.data["class"], "retryable");
    assert!(error.message.contains("queue is full"), "{error:?}");
    client.cancel(&session);
    client.prompt_result(&first);
}
