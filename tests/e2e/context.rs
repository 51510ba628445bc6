//! Compaction on the wire. When and how a history becomes smaller is tested in `session::tests::context`.

use serde_json::{Value, json};

use crate::harness::{Client, World};
use crate::mock_llm::{Gate, Reply};

fn notes() -> Reply {
    Reply::text("the user wants lorem ipsum").tokens(0, 0)
}

/// Opens a session and holds six rounds of talk with answers of about 1,000 tokens.
fn session_with_long_answers(world: &World, client: &Client) -> String {
    let session = client.session();
    for round in 0..6 {
        let answer = format!("fine: {}", "lorem ipsum ".repeat(330));
        world.mock().push(Reply::text(&answer).tokens(0, 0));
        client.ask(&session, format!("q{round}"));
    }
    session
}

#[test]
fn compaction_is_shown_refused_and_canceled_on_the_wire() {
    let world = World::new();
    let client = world.start();
    let session = session_with_long_answers(&world, &client);
    // A cancel of the request ends the compaction.
    let gate = Gate::new();
    world.mock().push(notes().gate(&gate));
    let at = world.requests();
    let params = json!({"sessionId": session});
    let id = client.send("agent/compact", params.clone());
    world.wait_at_gate(&gate);
    let prompt = json!({"sessionId": session, "prompt": "x"});
    for (method, params) in [("agent/compact", params.clone()), ("agent/prompt", prompt)] {
        let error = client.refused(method, params);
        assert_eq!(error.data["refusal"], "turnRunning", "{error:?}");
    }
    client.cancel_request(&id);
    let result = json!(client.cancelled(&id));
    assert_eq!(
        (&result["reason"], &result["state"], &result["error"]["code"]),
        (
            &json!("aborted_streaming"),
            &json!("cancelled"),
            &json!("cancelled")
        )
    );
    assert!(world.closed(&world.wait_for_request(at)).dropped);
    assert!(client.all(&session, "agent/compacted").is_empty());
    let error = client.refused("agent/resumeTurn", params);
    assert_eq!(error.data["refusal"], "nothingToResume", "{error:?}");
    // The next one is not canceled.
    world.mock().push(notes());
    let params = json!({"sessionId": session, "instructions": "keep the numbers"});
    let result: Value = client.call("agent/compact", params);
    assert_eq!(
        (&result["reason"], &result["text"]),
        (&json!("completed"), &json!(""))
    );
    let started = client.all(&session, "agent/turnStarted");
    assert_eq!(started.last().unwrap().text("by"), "compact");
    let compaction = client.next(&session, "agent/compacted");
    assert_eq!(compaction.text("trigger"), "manual");
    assert!(
        compaction
            .text("summary")
            .starts_with("the user wants lorem ipsum"),
        "{compaction:?}"
    );
    for tokens in ["tokensBefore", "tokensAfter"] {
        assert!(result[tokens].as_u64().unwrap() > 0, "{result}");
        assert_eq!(result[tokens], compaction.params[tokens], "{result}");
    }
    let metrics: Value = client.call("agent/metrics", json!({"sessionId": session}));
    assert_eq!(metrics["session"]["compactions"], 1, "{metrics}");
    assert_eq!(metrics["totals"]["compactions"], 1, "{metrics}");
}
