//! What a provider refuses, and what the request works without, is left out for the rest of the session.

use serde_json::{Value, json};

use super::mock_llm::{Api, Gate, RecordedRequest, Reply};
use super::scenario::{Client, Config, Scenario};
use crate::domain::*;
use crate::provider::Effort;

/// A scenario with a provider for each API, in which all models reason, with two custom tools and more tables.
fn with_all_apis(tables: &str) -> Scenario {
    let scenario = Scenario::new();
    let mock = scenario.mock();
    let tables = format!(
        "[provider.g]\nkind = \"gemini\"\nbase_url = \"{}\"\napi_key = \"key\"\n\
         [provider.local]\nkind = \"ollama\"\nbase_url = \"{}\"\napi_key = \"none\"\n\
         [model.\"mock-two\"]\nmax_output_tokens = 64000\n\
         [tool.first]\ncommand = \"true\"\ndescription = \"Does one thing.\"\n\
         [tool.second]\ncommand = \"true\"\ndescription = \"Does another thing.\"\n{tables}",
        mock.gemini_url(),
        mock.anthropic_url(),
    );
    mock.list_models(&["qwen3:8b"]);
    mock.allow_rewrites();
    scenario.configure(Config {
        agent: "reasoning_effort = \"high\"".to_owned(),
        tables,
        ..Config::default()
    });
    scenario.write("a.txt", "hello");
    scenario
}

fn left_out(client: &Client, session: &SessionId) -> Vec<String> {
    client.warnings(session, "part_left_out")
}

#[test]
fn refused_optional_parts_are_left_out_for_the_rest_of_the_session() {
    let thinking = "rejected the switch of its reasoning";
    for (model, words, field, warning) in [
        (
            "mock/mock-two",
            "thinking: Extra inputs are not permitted",
            "/thinking",
            thinking,
        ),
        (
            "mock/mock-two",
            "system.0.cache_control: Extra inputs are not permitted",
            "/system/0/cache_control",
            "; prompts may cost more",
        ),
        (
            "other/m",
            "Unrecognized request argument supplied: stream_options",
            "/stream_options",
            "; tokens and costs may be estimates",
        ),
        (
            "other/m",
            "Unsupported value: 'reasoning_effort' does not support 'high' with this model.",
            "/reasoning_effort",
            "rejected the setting `reasoning_effort`",
        ),
        (
            "responses/m",
            "Unknown parameter: 'store'.",
            "/store",
            "; the provider may keep the conversation",
        ),
        (
            "responses/m",
            "Your organization must be verified to generate reasoning summaries.",
            "/reasoning/summary",
            "rejected a summary of its reasoning",
        ),
        (
            "responses/m",
            "Encrypted content is not supported with this model.",
            "/include",
            "",
        ),
        (
            "responses/m",
            "Unknown parameter: 'tools[0].strict'.",
            "/tools/0/strict",
            "",
        ),
        (
            "g/gemini-2.5-flash",
            "Thinking is not enabled for models/gemini-2.5-flash",
            "/generationConfig/thinkingConfig",
            thinking,
        ),
        (
            "local/qwen3:8b",
            "\"qwen3:8b\" does not support thinking",
            "/think",
            thinking,
        ),
    ] {
        let scenario = with_all_apis("");
        // It demands what is left out here.
        scenario.mock().unchecked();
        let client = scenario.start();
        let session = client.session_of_model(model);
        scenario.push(Reply::error(400, "invalid_request_error", words));
        let outcome = client.ask(&session, "hello");
        assert_eq!(outcome.text, "ok", "{words}");
        client.ask(&session, "again");
        let sent = [0, 1, 2].map(|at| scenario.wait_for_request(at).body.pointer(field).is_some());
        assert_eq!(sent, [true, false, false], "{words}");
        let warnings = left_out(&client, &session);
        if warning.is_empty() {
            assert!(warnings.is_empty(), "{warnings:?}");
        } else {
            assert!(
                warnings.len() == 1 && warnings[0].contains(warning) && warnings[0].contains(words),
                "{words}: {warnings:?}"
            );
        }
        // Another model gets it.
        client.set_model(&session, "mock/mock-two").unwrap();
        client.ask(&session, "and you?");
        let body = &scenario.wait_for_request(3).body;
        assert_eq!(
            body["thinking"].is_object(),
            !model.starts_with("mock/") || field != "/thinking"
        );
    }
}

#[test]
fn configured_fields_are_sent_over_every_api_until_they_are_refused() {
    for (model, words, field, name) in [
        (
            "mock/m",
            "`top_k` is deprecated for this model.",
            "/top_k",
            "extra_body.top_k",
        ),
        (
            "mock/m",
            "`temperature` may only be set to 1 when thinking is enabled.",
            "/temperature",
            "temperature",
        ),
        (
            "other/m",
            "Unsupported value: 'temperature' does not support 0.5 with this model.",
            "/temperature",
            "temperature",
        ),
        (
            "responses/m",
            "Unknown parameter: 'top_k'.",
            "/top_k",
            "extra_body.top_k",
        ),
        (
            "g/m",
            "Invalid JSON payload received. Unknown name \"topK\" at 'generation_config': Cannot find field.",
            "/generationConfig/topK",
            "extra_body.generationConfig.topK",
        ),
        (
            "g/m",
            "invalid temperature",
            "/generationConfig/temperature",
            "temperature",
        ),
        (
            "local/m",
            "invalid temperature",
            "/options/temperature",
            "temperature",
        ),
    ] {
        let tables =
            "[model.m]\ntemperature = 0.5\nextra_body = { top_k = 20, generationConfig = { topK = 30 } }";
        let scenario = with_all_apis(tables);
        scenario.mock().list_models(&["m"]);
        scenario.mock().unchecked();
        let client = scenario.start();
        let session = client.session_of_model(model);
        scenario.push(Reply::error(400, "invalid_request_error", words));
        assert_eq!(client.ask(&session, "hello").text, "ok", "{words}");
        client.ask(&session, "again");
        let bodies = [0, 1, 2].map(|at| scenario.wait_for_request(at).body.clone());
        let sent = |field: &str| bodies.clone().map(|body| body.pointer(field).is_some());
        assert_eq!(sent(field), [true, false, false], "{model} {words}");
        let other = if field == "/top_k" {
            "/generationConfig/topK"
        } else {
            "/top_k"
        };
        assert_eq!(sent(other), [true; 3], "{model} {words}");
        let warnings = left_out(&client, &session);
        let name = format!("rejected the setting `{name}`");
        assert!(
            warnings.len() == 1 && warnings[0].contains(&name) && warnings[0].contains(words),
            "{words}: {warnings:?}"
        );
    }
}

/// The model may accept another effort. The refused one is never sent again.
#[test]
fn a_refused_effort_is_left_out_only_while_it_is_set() {
    let scenario = with_all_apis("");
    scenario.mock().respond_with(|request| {
        let words = "Unsupported value: 'reasoning_effort' does not support 'high' with this model.";
        (request.body["reasoning_effort"] == "high").then(|| Reply::error(400, "x", words))
    });
    let client = scenario.start();
    let session = client.session_of_model("other/m");
    let sent = || scenario.wait_for_request(scenario.requests() - 1).body["reasoning_effort"].clone();
    client.ask(&session, "hello");
    assert_eq!((sent(), scenario.requests()), (Value::Null, 2));
    client.set_effort(&session, Effort::Low);
    client.ask(&session, "again");
    assert_eq!((sent(), scenario.requests()), (json!("low"), 3));
    client.set_effort(&session, Effort::High);
    client.ask(&session, "and now?");
    assert_eq!((sent(), scenario.requests()), (Value::Null, 4));
    assert_eq!(left_out(&client, &session).len(), 1);
}

/// Both requests had the part when the first refusal came.
#[test]
fn a_part_that_another_request_has_learned_is_left_out() {
    let scenario = with_all_apis("");
    scenario.push(
        Reply::new()
            .call("delegate", json!({"prompt": "child one"}))
            .call("delegate", json!({"prompt": "child two"})),
    );
    let (gate, mut refusals) = (Gate::new(), 0);
    scenario.mock().respond_with(move |request| {
        let is_refused = request.last_text().starts_with("child") && request.body["thinking"].is_object();
        refusals += u32::from(is_refused);
        if refusals == 2 {
            gate.release();
        }
        let words = "thinking: Extra inputs are not permitted";
        is_refused.then(|| Reply::error(400, "invalid_request_error", words).gate_first(&gate))
    });
    let client = scenario.start();
    let session = client.session_of_model("mock/mock-two");
    assert_eq!(client.ask(&session, "ask both").text, "ok");
    // The parent twice, and each child twice.
    assert_eq!(scenario.requests(), 6);
    let last = scenario.wait_for_request(5);
    assert!(!last.body.to_string().contains("Extra inputs"), "{}", last.body);
    assert!(last.body["thinking"].is_null());
}

/// The provider repeats the conversation, so it means something else.
#[test]
fn a_part_without_which_the_request_fails_as_before_comes_back() {
    let scenario = with_all_apis("");
    // It demands what is left out here.
    scenario.mock().unchecked();
    let client = scenario.start();
    let session = client.session_of_model("responses/m");
    let words = "Cannot read this: \"Unknown parameter: 'store'. Unknown parameter: 'include'.\"";
    for _ in 0..3 {
        scenario.push(Reply::error(400, "x", words));
    }
    let end = client.ask(&session, "hello").end;
    assert_eq!(end.state, TurnState::Failed);
    assert_eq!(client.ask(&session, "again").text, "ok");
    let sent = [0, 1, 2, 3].map(|at| {
        let body = &scenario.wait_for_request(at).body;
        (body.get("include").is_some(), body.get("store").is_some())
    });
    assert_eq!(sent, [(true, true), (false, true), (false, false), (true, true)]);
}

/// Lets a turn fail, and the next one not. Returns which of their requests have `field`.
fn fail_with(scenario: &Scenario, session: &SessionId, client: &Client, field: &str) -> Vec<bool> {
    let from = scenario.requests();
    assert_eq!(client.ask(session, "hello").end.state, TurnState::Failed);
    scenario.mock().respond_with(|_| None);
    assert_eq!(client.ask(session, "again").text, "ok");
    (from..scenario.requests())
        .map(|at| scenario.wait_for_request(at).body.pointer(field).is_some())
        .collect()
}

#[test]
fn a_part_comes_back_although_each_error_has_an_id_of_its_own() {
    let scenario = with_all_apis("");
    scenario.mock().unchecked();
    let client = scenario.start();
    let session = client.session_of_model("responses/m");
    let mut requests = 0;
    scenario.mock().respond_with(move |_| {
        requests += 1;
        // A failure in between says nothing about the part.
        if requests == 2 {
            return Some(Reply::error(503, "x", "busy, try again"));
        }
        let words = format!(
            "Cannot read this: \"Unknown parameter: 'store'.\" (request id: req-{requests}f-a, 2026-12-01 10:0{requests}:00)"
        );
        Some(Reply::error(400, "x", &words))
    });
    assert_eq!(
        fail_with(&scenario, &session, &client, "/store"),
        [true, false, false, true]
    );
    assert_eq!(left_out(&client, &session).len(), 1);
    assert_eq!(
        client.warnings(&session, "part_restored"),
        [
            "responses/m fails in the same way without the request to store nothing; later requests have it again"
        ]
    );
}

#[test]
fn a_tool_without_which_the_request_fails_as_before_comes_back() {
    let scenario = with_all_apis("");
    let client = scenario.start();
    let session = client.session_of_model("other/m");
    scenario.mock().respond_with(|_| {
        let words = "Invalid schema for function 'first': array schema missing items.";
        Some(Reply::error(400, "invalid_request_error", words))
    });
    assert_eq!(client.ask(&session, "hello").end.state, TurnState::Failed);
    scenario.mock().respond_with(|_| None);
    assert_eq!(client.ask(&session, "again").text, "ok");
    let offered = [0, 1, 2].map(|at| tools(&scenario.wait_for_request(at)).contains(&"first"));
    assert_eq!(offered, [true, false, true]);
    let restored = client.warnings(&session, "part_restored");
    assert!(
        restored.len() == 1 && restored[0].contains("the tool first of the configuration"),
        "{restored:?}"
    );
}

/// Nothing can be left out of a request that does not have it.
#[test]
fn a_refusal_of_what_the_request_did_not_have_ends_the_turn() {
    let scenario = with_all_apis("");
    let client = scenario.start();
    let session = client.session_of_model("other/m");
    scenario.push(Reply::error(400, "x", "Unknown parameter: 'store'."));
    let end = client.ask(&session, "hello").end;
    assert_eq!(end.state, TurnState::Failed);
    assert_eq!(scenario.requests(), 1);
    assert!(left_out(&client, &session).is_empty());
}

/// Returns the names of the tools of a request, in order.
fn tools(request: &RecordedRequest) -> Vec<&str> {
    let listed = match request.api {
        Api::Gemini => &request.body["tools"][0]["functionDeclarations"],
        _ => &request.body["tools"],
    };
    let names = listed.as_array().unwrap().iter();
    names
        .map(|tool| {
            tool["function"]["name"]
                .as_str()
                .or(tool["name"].as_str())
                .unwrap()
        })
        .collect()
}

/// Makes the mock refuse requests with this tool, in the words of their API.
fn refuse_tool(scenario: &Scenario, refused: &'static str) {
    scenario.mock().respond_with(move |request| {
        let at = tools(request).iter().position(|name| *name == refused)?;
        let words = match request.api {
            Api::Anthropic => format!("tools.{at}.custom.input_schema: JSON schema is invalid."),
            Api::OpenAi => format!("Invalid schema for function '{refused}': array schema missing items."),
            Api::Gemini => format!(
                "* GenerateContentRequest.tools[0].function_declarations[{at}].parameters.properties: should be non-empty"
            ),
            Api::Responses | Api::Ollama => {
                // Its field alone names the tool, and the code is one of prompts that are too long.
                let error = json!({"message": "Invalid value: string too long.", "code": "string_above_max_length",
                    "param": format!("tools[{at}].description")});
                let reply = Reply::status(400).header("content-type", "application/json");
                return Some(reply.body(json!({"error": error}).to_string()));
            }
        };
        Some(Reply::error(400, "invalid_request_error", &words))
    });
}

#[test]
fn a_refused_tool_is_left_out_for_the_rest_of_the_session() {
    for model in [
        "mock/mock-two",
        "other/m",
        "responses/m",
        "g/gemini-2.5-flash",
        "local/qwen3:8b",
    ] {
        let scenario = with_all_apis("");
        refuse_tool(&scenario, "second");
        let client = scenario.start();
        let session = client.session_of_model(model);
        assert_eq!(client.ask(&session, "hello").text, "ok", "{model}");
        client.ask(&session, "again");
        let offered = [0, 1, 2].map(|at| {
            let request = scenario.wait_for_request(at);
            let names = tools(&request);
            assert!(
                names.contains(&"first") && names.contains(&"bash"),
                "{model}: {names:?}"
            );
            names.contains(&"second")
        });
        assert_eq!(offered, [true, false, false], "{model}");
        let warnings = left_out(&client, &session);
        assert!(
            warnings.len() == 1 && warnings[0].contains("rejected the tool second of the configuration ("),
            "{model}: {warnings:?}"
        );
    }
}

#[test]
fn a_refused_tool_of_agentls_itself_is_named() {
    let scenario = with_all_apis("");
    refuse_tool(&scenario, "bash");
    let client = scenario.start();
    let session = client.session_of_model("mock/mock-two");
    let error = client.ask(&session, "hello").end.error.unwrap();
    let action = error.user_action.unwrap();
    assert!(
        action.contains("agentls's own tool `bash`") && action.contains("deny_tools"),
        "{action}"
    );
    assert_eq!(scenario.requests(), 1);
    assert!(left_out(&client, &session).is_empty());
}

/// Returns the `reasoning_content` of the calls in a request.
fn reasoning_of_calls(request: &RecordedRequest) -> Vec<Value> {
    let messages = request.messages().iter();
    messages
        .filter(|message| message["tool_calls"].is_array())
        .map(|message| message["reasoning_content"].clone())
        .collect()
}

#[test]
fn calls_of_another_model_go_to_deepseek_with_reasoning() {
    let scenario = with_all_apis("");
    let address = scenario.mock().openai_url();
    scenario.edit_config(|text| {
        format!(
            "{text}\n[provider.deepseek]\nkind = \"openai\"\nbase_url = \"{address}\"\napi_key = \"key\"\n"
        )
    });
    let client = scenario.start();
    // The second one is not known to demand reasoning, and learns it.
    for (model, refusals) in [("deepseek/deepseek-v4-pro", 0), ("other/m", 1)] {
        let session = client.session_of_model("mock/mock-two");
        let call = || Reply::tool("read_file", json!({"path": "a.txt"}));
        scenario.push_all([call(), Reply::text("one"), call()]);
        client.ask(&session, "look");
        client.set_model(&session, model).unwrap();
        scenario.mock().respond_with(|request| {
            let is_missing = |reasoning: &Value| reasoning.as_str().is_none_or(str::is_empty);
            let words = "Missing `reasoning_content` field in the assistant message at message index 3";
            reasoning_of_calls(request)
                .iter()
                .any(is_missing)
                .then(|| Reply::error(400, "invalid_request_error", words))
        });
        let before = scenario.requests();
        // Its own call has no reasoning either.
        assert_eq!(client.ask(&session, "and you?").text, "ok", "{model}");
        assert_eq!(scenario.requests() - before, 2 + refusals, "{model}");
        let last = scenario.wait_for_request(scenario.requests() - 1);
        assert_eq!(reasoning_of_calls(&last), [" ", " "], "{model}");
        assert!(left_out(&client, &session).is_empty());
        scenario.mock().respond_with(|_| None);
    }
    // A server that refuses the field gets none.
    let session = client.session_of_model("deepseek/deepseek-v4-pro");
    scenario.mock().respond_with(|request| {
        let is_there = reasoning_of_calls(request).iter().any(Value::is_string);
        let words = "'messages.2' : property 'reasoning_content' is unsupported";
        is_there.then(|| Reply::error(400, "invalid_request_error", words))
    });
    scenario.push(Reply::tool("read_file", json!({"path": "a.txt"})));
    assert_eq!(client.ask(&session, "look").text, "ok");
}

#[test]
fn an_ollama_model_without_thinking_is_not_asked_to_think() {
    let scenario = with_all_apis("");
    let facts = |abilities: &[&str]| json!({"capabilities": abilities});
    scenario.mock().list_models(&["plain:8b", "thinker:8b"]);
    scenario
        .mock()
        .show_model("plain:8b", facts(&["completion", "tools"]));
    scenario
        .mock()
        .show_model("thinker:8b", facts(&["tools", "thinking"]));
    let client = scenario.start();
    for (at, (model, think)) in [("plain:8b", Value::Null), ("thinker:8b", json!(true))]
        .into_iter()
        .enumerate()
    {
        let session = client.session_of_model(&format!("local/{model}"));
        client.ask(&session, "hello");
        assert_eq!(scenario.wait_for_request(at).body["think"], think, "{model}");
        let warnings =
            client.warnings_with(&session, "does not reason; the reasoning effort high is not used");
        assert_eq!(warnings.len(), usize::from(think.is_null()), "{model}");
    }
}
