//! Reasoning is sent back to the model that produced it, and to no other.
//!
//! The mock refuses signatures that it did not issue for the requested model, and tool loops that lost their reasoning
//! while thinking is on.

use serde_json::{Value, json};

use super::mock_llm::Reply;
use super::scenario::{Config, Scenario};
use crate::domain::*;
use crate::session::NewSession;
use crate::store::ContentChoice;

/// Returns the block types of every assistant message of a request.
fn block_kinds(scenario: &Scenario, request: usize) -> Vec<Vec<String>> {
    let request = scenario.wait_for_request(request);
    let messages = request.messages().iter();
    messages
        .filter(|message| message["role"] == "assistant")
        .map(|message| {
            let blocks = message["content"].as_array().unwrap().iter();
            blocks
                .map(|block| block["type"].as_str().unwrap().to_owned())
                .collect()
        })
        .collect()
}

fn has_thinking(scenario: &Scenario, request: usize) -> bool {
    scenario.wait_for_request(request).body["thinking"].is_object()
}

/// A scenario whose models think, with these complete tables.
fn thinking(tables: &str) -> Scenario {
    let scenario = Scenario::with(Config {
        agent: "reasoning_effort = \"high\"".to_owned(),
        tables: format!("[model.\"mock-two\"]\nmax_output_tokens = 64000\n{tables}"),
        ..Config::default()
    });
    scenario.write("a.txt", "hello");
    scenario
}

fn think() -> Reply {
    Reply::new().reasoning("Let me look.").redacted("b3BhcXVl")
}

fn think_and_read() -> Reply {
    think().call("read_file", json!({"path": "a.txt"}))
}

fn think_and_write() -> Reply {
    think().call("write_file", json!({"path": "x", "content": "x"}))
}

#[test]
fn redacted_reasoning_is_sent_back_unchanged() {
    let scenario = thinking("");
    let look = Reply::new()
        .redacted("b3BhcXVl")
        .call("read_file", json!({"path": "a.txt"}));
    scenario.push(look);
    let client = scenario.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "look").text, "ok");
    client.ask(&session, "and now?");
    for request in [1, 2] {
        let block = &scenario.wait_for_request(request).body["messages"][1]["content"][0];
        assert_eq!(*block, json!({"type": "redacted_thinking", "data": "b3BhcXVl"}));
    }
}

#[test]
fn encrypted_reasoning_is_sent_back_with_its_calls() {
    let scenario = thinking("");
    scenario.push(think_and_read());
    let client = scenario.start();
    let session = client.session_of_model("responses/responses-model");
    assert_eq!(client.ask(&session, "look").text, "ok");
    client.ask(&session, "and now?");
    client.set_model(&session, "mock/mock-model").unwrap();
    client.ask(&session, "and you?");
    client.set_model(&session, "responses/responses-model").unwrap();
    client.ask(&session, "and again?");
    for request in [1, 2, 4] {
        let items = &scenario.wait_for_request(request).body["input"];
        let summary = json!([{"type": "summary_text", "text": "Let me look."}]);
        assert_eq!(
            items[1],
            json!({"type": "reasoning", "id": "rs_mock0", "summary": summary, "encrypted_content": "c2lnbmVk"})
        );
        assert_eq!(items[2]["encrypted_content"], "b3BhcXVl");
        assert_eq!(items[3]["type"], "function_call");
        assert_eq!(items[4]["type"], "function_call_output");
    }
    assert!(!scenario.raw_request(3).contains("c2lnbmVk"));
}

#[test]
fn refused_reasoning_is_left_out_for_the_rest_of_the_session() {
    for (model, code, words) in [
        (
            "responses/responses-model",
            "invalid_encrypted_content",
            "The encrypted content gAAA... could not be verified.",
        ),
        (
            "mock/mock-model",
            "invalid_request_error",
            "messages.1.content.0: Invalid `signature` in `thinking` block",
        ),
    ] {
        let scenario = thinking("");
        scenario.mock().allow_rewrites();
        let client = scenario.start();
        let session = client.session_of_model(model);
        let has_reasoning = |at: usize| scenario.raw_request(at).contains("c2lnbmVk");
        let refusal = || Reply::error(400, code, words);
        scenario.push(think().with_text("one"));
        client.ask(&session, "look");
        scenario.push_all([refusal(), think().with_text("two")]);
        assert_eq!(client.ask(&session, "and now?").text, "two", "{model}");
        assert_eq!([1, 2].map(has_reasoning), [true, false], "{model}");
        assert_eq!(client.warnings(&session, "part_left_out").len(), 1, "{model}");
        // Later reasoning is sent back, what was refused is not.
        client.ask(&session, "go on");
        let raw = scenario.raw_request(3);
        assert_eq!(raw.matches("c2lnbmVk").count(), 1, "{model}: {raw}");
        // A second refusal of the same reasoning ends the turn.
        scenario.push_all([refusal(), refusal()]);
        let end = client.ask(&session, "more").end;
        assert_eq!(end.state, TurnState::Failed, "{model}");
    }
}

#[test]
fn a_refused_verbosity_is_left_out_for_the_rest_of_the_session() {
    let scenario = Scenario::new();
    scenario.configure(Config {
        tables: format!(
            "[provider.mine]\nkind = \"openai-responses\"\nbase_url = \"{}\"\napi_key = \"key\"\nverbosity = \"low\"\n",
            scenario.mock().openai_url()
        ),
        ..Config::default()
    });
    let client = scenario.start();
    let session = client.session_of_model("mine/m");
    let words = "Unsupported value: 'low' is not supported with this model.";
    let body = json!({"error": {"message": words, "code": "unsupported_value", "param": "text.verbosity"}});
    let refusal = Reply::status(400).header("content-type", "application/json");
    scenario.push(refusal.body(body.to_string()));
    assert_eq!(client.ask(&session, "hello").text, "ok");
    client.ask(&session, "again");
    let texts = [0, 1, 2].map(|at| scenario.wait_for_request(at).body["text"].clone());
    assert_eq!(texts, [json!({"verbosity": "low"}), Value::Null, Value::Null]);
}

#[test]
fn reasoning_is_sent_only_to_the_model_that_produced_it() {
    let scenario = thinking("");
    let client = scenario.start();
    let session = client.session();
    let own = [
        ["thinking", "redacted_thinking", "tool_use"].as_slice(),
        &["text"],
    ];
    scenario.push(think_and_read());
    client.ask(&session, "look");
    for (model, expected) in [
        ("mock/mock-two", [["tool_use"].as_slice(), &["text"]]),
        ("other/other-model", [[].as_slice(), &[]]),
        ("responses/responses-model", [[].as_slice(), &[]]),
        ("mock/mock-model", own),
    ] {
        client.set_model(&session, model).unwrap();
        client.ask(&session, "and now?");
        let last = scenario.requests() - 1;
        if model.starts_with("mock/") {
            assert_eq!(block_kinds(&scenario, last)[..2], expected, "{model}");
        }
    }
}

#[test]
fn reasoning_without_a_call_is_sent_only_to_the_model_that_produced_it() {
    let scenario = thinking("");
    let client = scenario.start();
    let session = client.session();
    scenario.push(think().with_text("one"));
    client.ask(&session, "look");
    for (model, expected) in [
        ("mock/mock-two", ["text"].as_slice()),
        ("mock/mock-model", &["thinking", "redacted_thinking", "text"]),
    ] {
        client.set_model(&session, model).unwrap();
        client.ask(&session, "and now?");
        let last = scenario.requests() - 1;
        assert_eq!(block_kinds(&scenario, last)[0], expected, "{model}");
    }
}

#[test]
fn reasoning_belongs_to_its_provider_even_after_a_restart() {
    let elsewhere = Scenario::new();
    let scenario = thinking(&format!(
        "[provider.elsewhere]\nkind = \"anthropic\"\nbase_url = \"{}\"\napi_key = \"key\"\nmodel = \"mock-model\"",
        elsewhere.mock().anthropic_url()
    ));
    scenario.push(think_and_read());
    let client = scenario.start();
    let session = client.session();
    client.ask(&session, "look");
    client.set_model(&session, "elsewhere/mock-model").unwrap();
    client.ask(&session, "and there?");
    assert_eq!(elsewhere.requests(), 1);
    drop(client);
    // The stored reasoning still belongs to the first provider.
    let client = scenario.start();
    client.load(&session);
    client.set_model(&session, "mock/mock-model").unwrap();
    client.ask(&session, "and here?");
    let last = scenario.requests() - 1;
    assert_eq!(
        block_kinds(&scenario, last)[0],
        ["thinking", "redacted_thinking", "tool_use"]
    );
}

#[test]
fn tool_loop_continues_with_another_model_without_thinking() {
    let scenario = thinking("");
    let client = scenario.start();
    let session = client.session();
    scenario.push(think_and_write());
    let _abandoned = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    client.kill();
    let client = scenario.start();
    client.load(&session);
    client.set_model(&session, "mock/mock-two").unwrap();
    client.decide(&approval, DecisionKind::Allow);
    assert_eq!(client.outcome(client.resume(&session)).text, "ok");
    assert_eq!(scenario.read("x").unwrap(), "x");
    assert_eq!(scenario.requested_models()[1], "mock-two");
    assert_eq!(block_kinds(&scenario, 1), [["tool_use"]]);
    assert!(has_thinking(&scenario, 0) && !has_thinking(&scenario, 1));
    client.ask(&session, "and now?");
    assert!(has_thinking(&scenario, 2));
}

#[test]
fn prompt_after_cancelled_tools_belongs_to_the_tool_loop() {
    let scenario = thinking("");
    let client = scenario.start();
    let session = client.session();
    scenario.push(think_and_write());
    let turn = client.prompt(&session, "do it");
    client.next_approval(&session);
    client.cancel(&session);
    client.outcome(turn);
    client.set_model(&session, "mock/mock-two").unwrap();
    client.ask(&session, "something else");
    assert!(
        !has_thinking(&scenario, 1),
        "the API merges the results and this prompt into one message"
    );
}

/// The mock refuses a call without the signature that it gave.
#[test]
fn gemini_gets_its_signatures_back_and_the_nearest_effort() {
    let scenario = Scenario::new();
    scenario.configure(Config {
        tables: format!(
            "[provider.g]\nkind = \"gemini\"\nbase_url = \"{}\"\napi_key = \"key-of-google\"\n",
            scenario.mock().gemini_url()
        ),
        ..Config::default()
    });
    scenario.write("a.txt", "hello");
    let read = Reply::new()
        .unsigned_reasoning("hm")
        .call("read_file", json!({"path": "a.txt"}));
    scenario.push_all([read, Reply::text("done")]);
    let client = scenario.start();
    let session = client.session_with(NewSession {
        choice: ContentChoice {
            model: Some("g/gemini-3.8-flash".to_owned()),
            effort: Some("max".to_owned()),
            ..ContentChoice::default()
        },
        ..NewSession::default()
    });
    client.ask(&session, "read it");
    let body = &scenario.wait_for_request(1).body;
    let contents = body["contents"].as_array().unwrap();
    let [.., call, result] = &contents[..] else {
        panic!("{body}")
    };
    assert!(call["parts"][0]["thoughtSignature"].is_string(), "{call}");
    assert_eq!(result["parts"][0]["functionResponse"]["name"], "read_file");
    assert_eq!(
        body["generationConfig"]["thinkingConfig"]["thinkingLevel"],
        "high"
    );
    let warnings = client.warnings_with(&session, "");
    assert_eq!(
        warnings,
        ["gemini-3.8-flash has no reasoning effort max; using high"]
    );
}
