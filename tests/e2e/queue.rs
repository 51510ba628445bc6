//! `agent/queue` on the wire: shapes and refusals. What the queue does is tested in `session::tests::queue`.

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

#[test]
fn queue_is_shown_as_it_changes() {
    let world = World::new();
    let gate = Gate::new();
    world.mock().push(Reply::text("first").gate(&gate));
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
    let three = add(&client, &session, "tree");
    let edit = json!({"promptId": three, "prompt": "three"});
    let edited = queue(&client, &session, "edit", edit);
    assert_eq!(queued_texts(&edited), ["two", "three"]);
    let remaining = queue(&client, &session, "remove", json!({"promptId": two}));
    assert_eq!(queued_texts(&remaining), ["three"]);
    assert_eq!(queue(&client, &session, "list", json!({})), remaining);
    assert_eq!(client.load(&session).state.queue.unwrap().prompts.len(), 1);
    let sent = queue(&client, &session, "sendNow", json!({"promptId": three}));
    gate.release();
    assert_eq!(sent["turnId"], client.prompt_result(&first).turn_id);
    let started = queue(&client, &session, "add", json!({"prompt": "four"}));
    let turn = client.next_matching(&session, "agent/turnStarted", |notification| {
        notification.text("by") == "queue"
    });
    assert_eq!(started["turnId"], turn.text("turnId"));
    client.next_matching(&session, "agent/turnEnded", |notification| {
        notification.text("turnId") == turn.text("turnId")
    });
    assert_eq!(
        queue(&client, &session, "list", json!({})),
        json!({"paused": false, "prompts": []})
    );
}

#[test]
fn invalid_queue_requests_are_refused() {
    let world = World::new();
    let gate = Gate::new();
    world.mock().push(Reply::text("never").gate(&gate));
    let client = world.start();
    let session = client.session();
    let first = client.prompt(&session, "one");
    world.wait_at_gate(&gate);
    for mut params in [
        json!({"action": "edit", "prompt": "x"}),
        json!({"action": "remove"}),
    ] {
        params["sessionId"] = json!(session);
        params["promptId"] = json!("gone");
        let error = client.refused("agent/queue", params);
        assert_eq!(error.data["refusal"], "unknownPrompt", "{error:?}");
    }
    let error = client.refused("agent/queue", json!({"sessionId": session, "action": "add"}));
    assert_eq!(
        (&error.data["refusal"], &error.data["field"]),
        (&json!("badParams"), &json!("prompt"))
    );
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
