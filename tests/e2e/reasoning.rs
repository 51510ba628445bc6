//! Reasoning is sent back to the model that produced it, and to no other (R-LOOP-4).
//!
//! The mock refuses signatures that it did not issue for the requested model, and tool loops that lost their reasoning
//! while thinking is on.

use serde_json::{Value, json};

use crate::harness::{Client, Config, World};
use crate::mock_llm::{MockLlm, Reply};

/// Returns the block types of every assistant message of a request.
fn block_kinds(world: &World, request: usize) -> Vec<Vec<String>> {
    let body = &world.wait_for_request(request).body;
    let messages = body["messages"].as_array().unwrap().iter();
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

fn has_thinking(world: &World, request: usize) -> bool {
    world.wait_for_request(request).body["thinking"].is_object()
}

fn set_model(client: &Client, session: &str, model: &str) {
    let params = json!({"sessionId": session, "model": model});
    let _: Value = client.call("agent/setModel", params);
}

fn thinking_config() -> Config {
    Config {
        agent: "reasoning_effort = \"high\"".to_owned(),
        tables: "[model.\"mock-two\"]\nmax_output_tokens = 64000".to_owned(),
        ..Config::default()
    }
}

fn read() -> Reply {
    Reply::new().reasoning("Let me look.").redacted("b3BhcXVl")
}

#[test]
fn redacted_reasoning_is_sent_back_unchanged() {
    let world = World::with(thinking_config());
    world.write("a.txt", "hello");
    let look = Reply::new()
        .redacted("b3BhcXVl")
        .call("read_file", json!({"path": "a.txt"}));
    world.mock().push(look);
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "look").text, "ok");
    client.ask(&session, "and now?");
    for request in [1, 2] {
        let block = &world.wait_for_request(request).body["messages"][1]["content"][0];
        assert_eq!(*block, json!({"type": "redacted_thinking", "data": "b3BhcXVl"}));
    }
}

#[test]
fn encrypted_reasoning_is_sent_back_with_its_calls() {
    let world = World::with(thinking_config());
    world.write("a.txt", "hello");
    world
        .mock()
        .push(read().call("read_file", json!({"path": "a.txt"})));
    let client = world.start();
    let session = client.session_with(json!({"model": "responses/responses-model"}));
    assert_eq!(client.ask(&session, "look").text, "ok");
    client.ask(&session, "and now?");
    set_model(&client, &session, "mock/mock-model");
    client.ask(&session, "and you?");
    set_model(&client, &session, "responses/responses-model");
    client.ask(&session, "and again?");
    for request in [1, 2, 4] {
        let items = &world.wait_for_request(request).body["input"];
        let summary = json!([{"type": "summary_text", "text": "Let me look."}]);
        assert_eq!(
            items[1],
            json!({"type": "reasoning", "id": "rs_mock0", "summary": summary, "encrypted_content": "c2lnbmVk"})
        );
        assert_eq!(items[2]["encrypted_content"], "b3BhcXVl");
        assert_eq!(items[3]["type"], "function_call");
        assert_eq!(items[4]["type"], "function_call_output");
    }
    assert!(!String::from_utf8_lossy(&world.wait_for_request(3).raw).contains("c2lnbmVk"));
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
        let world = World::with(thinking_config());
        world.mock().allow_rewrites();
        let client = world.start();
        let session = client.session_with(json!({"model": model}));
        let has_reasoning =
            |at: usize| String::from_utf8_lossy(&world.wait_for_request(at).raw).contains("c2lnbmVk");
        world.mock().push(read().with_text("one"));
        client.ask(&session, "look");
        world.mock().push(Reply::error(400, code, words));
        world.mock().push(read().with_text("two"));
        assert_eq!(client.ask(&session, "and now?").text, "two", "{model}");
        assert_eq!([1, 2].map(has_reasoning), [true, false], "{model}");
        let warnings = client.all(&session, "agent/warning");
        let warnings = warnings.iter().filter(|one| one.text("code") == "part_left_out");
        assert_eq!(warnings.count(), 1, "{model}");
        // Later reasoning is sent back, what was refused is not.
        client.ask(&session, "go on");
        let raw = String::from_utf8_lossy(&world.wait_for_request(3).raw).into_owned();
        assert_eq!(raw.matches("c2lnbmVk").count(), 1, "{model}: {raw}");
        // A second refusal of the same reasoning ends the turn.
        world.mock().push(Reply::error(400, code, words));
        world.mock().push(Reply::error(400, code, words));
        assert_eq!(json!(client.ask(&session, "more"))["state"], "failed", "{model}");
    }
}

#[test]
fn a_refused_verbosity_is_left_out_for_the_rest_of_the_session() {
    let world = World::new();
    world.configure(Config {
        tables: format!(
            "[provider.mine]\nkind = \"openai-responses\"\nbase_url = \"{}\"\napi_key = \"key\"\nverbosity = \"low\"\n",
            world.mock().openai_url()
        ),
        ..Config::default()
    });
    let client = world.start();
    let session = client.session_with(json!({"model": "mine/m"}));
    let words = "Unsupported value: 'low' is not supported with this model.";
    let body = json!({"error": {"message": words, "code": "unsupported_value", "param": "text.verbosity"}});
    let refusal = Reply::status(400).header("content-type", "application/json");
    world.mock().push(refusal.body(body.to_string()));
    assert_eq!(client.ask(&session, "hello").text, "ok");
    client.ask(&session, "again");
    let texts = [0, 1, 2].map(|at| world.wait_for_request(at).body["text"].clone());
    assert_eq!(texts, [json!({"verbosity": "low"}), Value::Null, Value::Null]);
}

#[test]
fn reasoning_is_sent_only_to_the_model_that_produced_it() {
    let world = World::with(thinking_config());
    world.write("a.txt", "hello");
    let client = world.start();
    let session = client.session();
    let own = [
        ["thinking", "redacted_thinking", "tool_use"].as_slice(),
        &["text"],
    ];
    world
        .mock()
        .push(read().call("read_file", json!({"path": "a.txt"})));
    client.ask(&session, "look");
    for (model, expected) in [
        ("mock/mock-two", [["tool_use"].as_slice(), &["text"]]),
        ("other/other-model", [[].as_slice(), &[]]),
        ("responses/responses-model", [[].as_slice(), &[]]),
        ("mock/mock-model", own),
    ] {
        set_model(&client, &session, model);
        client.ask(&session, "and now?");
        let last = world.requests() - 1;
        if model.starts_with("mock/") {
            assert_eq!(block_kinds(&world, last)[..2], expected, "{model}");
        }
    }
}

#[test]
fn reasoning_belongs_to_its_provider_even_after_a_restart() {
    let elsewhere = MockLlm::start();
    let mut config = thinking_config();
    config.tables.push_str(&format!(
        "\n[provider.elsewhere]\nkind = \"anthropic\"\nbase_url = \"{}\"\napi_key = \"key\"\nmodel = \"mock-model\"",
        elsewhere.anthropic_url()
    ));
    let world = World::with(config);
    world.write("a.txt", "hello");
    world
        .mock()
        .push(read().call("read_file", json!({"path": "a.txt"})));
    let client = world.start();
    let session = client.session();
    client.ask(&session, "look");
    set_model(&client, &session, "elsewhere/mock-model");
    client.ask(&session, "and there?");
    assert_eq!(elsewhere.requests().len(), 1);
    drop(client);
    // The stored reasoning still belongs to the first provider.
    let client = world.start();
    client.load(&session);
    set_model(&client, &session, "mock/mock-model");
    client.ask(&session, "and here?");
    let last = world.requests() - 1;
    assert_eq!(
        block_kinds(&world, last)[0],
        ["thinking", "redacted_thinking", "tool_use"]
    );
}

#[test]
fn tool_loop_continues_with_another_model_without_thinking() {
    let world = World::with(thinking_config());
    let client = world.start();
    let session = client.session();
    let write = json!({"path": "x", "content": "x"});
    world.mock().push(read().call("write_file", write));
    let _abandoned = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    client.kill();
    let client = world.start();
    client.load(&session);
    set_model(&client, &session, "mock/mock-two");
    client.decide(&approval, "allow");
    let result: Value = client.call("agent/resumeTurn", json!({"sessionId": session}));
    assert_eq!(result["text"], "ok");
    assert_eq!(world.read("x").unwrap(), "x");
    assert_eq!(world.wait_for_request(1).body["model"], "mock-two");
    assert_eq!(block_kinds(&world, 1), [["tool_use"]]);
    assert!(has_thinking(&world, 0) && !has_thinking(&world, 1));
    client.ask(&session, "and now?");
    assert!(has_thinking(&world, 2));
}

#[test]
fn prompt_after_cancelled_tools_belongs_to_the_tool_loop() {
    let world = World::with(thinking_config());
    let client = world.start();
    let session = client.session();
    let write = json!({"path": "x", "content": "x"});
    world.mock().push(read().call("write_file", write));
    let id = client.prompt(&session, "do it");
    client.next_approval(&session);
    client.cancel(&session);
    client.prompt_result(&id);
    set_model(&client, &session, "mock/mock-two");
    client.ask(&session, "something else");
    assert!(
        !has_thinking(&world, 1),
        "the API merges the results and this prompt into one message"
    );
}

/// The mock refuses a call without the signature that it gave.
#[test]
fn gemini_gets_its_signatures_back_and_the_nearest_effort() {
    let world = World::new();
    let address = world.mock().gemini_url();
    world.configure(Config {
        tables: format!(
            "[provider.g]\nkind = \"gemini\"\nbase_url = \"{address}\"\napi_key = \"key-of-google\"\n"
        ),
        ..Config::default()
    });
    world.write("a.txt", "hello");
    world.mock().push(
        Reply::new()
            .unsigned_reasoning("hm")
            .call("read_file", json!({"path": "a.txt"})),
    );
    world.mock().push(Reply::text("done"));
    let client = world.start();
    let session = client.session_with(json!({"model": "g/gemini-3.8-flash", "effort": "max"}));
    client.ask(&session, "read it");
    let body = &world.wait_for_request(1).body;
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
    let warnings = client.all(&session, "agent/warning");
    let texts: Vec<&str> = warnings.iter().map(|warning| warning.text("message")).collect();
    assert_eq!(
        texts,
        ["gemini-3.8-flash has no reasoning effort max; using high"]
    );
}
