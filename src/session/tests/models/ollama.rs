//! A local Ollama: its windows, and its names.

use serde_json::{Value, json};

use super::mock_llm::Reply;
use super::scenario::Scenario;
use super::{list_models, listed_by};
use crate::domain::*;

/// Creates a scenario whose mock is an Ollama with these models and extra `lines`.
fn ollama(models: &[&str], lines: &str) -> Scenario {
    let scenario = Scenario::new();
    let url = scenario.mock().anthropic_url();
    scenario.edit_config(|text| {
        format!("{text}\n[provider.ollama]\nbase_url = \"{url}\"\napi_key = \"none\"\n{lines}\n")
    });
    scenario.mock().list_models(models);
    scenario
}

#[test]
fn a_num_ctx_that_is_too_small_for_the_prompt_is_reported_once() {
    let scenario = ollama(&["qwen3:8b"], "num_ctx = 8192");
    let facts = json!({"model_info": {"qwen3.context_length": 40_960}});
    scenario.mock().show_model("qwen3:8b", facts);
    let client = scenario.start();
    let session = client.session_of_model("ollama/qwen3:8b");
    client.ask(&session, "hello");
    client.ask(&session, "hello again");
    let warnings = client.warnings_with(&session, "");
    let [warning] = &warnings[..] else {
        panic!("{warnings:?}")
    };
    assert!(
        warning.starts_with("num_ctx = 8192 is too small") && warning.contains("[provider.ollama]"),
        "{warning}"
    );
}

/// Ollama cuts prompts silently at its own small window, so each request names a larger one.
#[test]
fn ollama_is_told_the_window_that_the_model_can_have() {
    let cases = [
        (
            "small:1b",
            json!({"model_info": {"x.context_length": 8_192}, "capabilities": ["tools"]}),
            8_192,
        ),
        (
            "large:70b",
            json!({"model_info": {"x.context_length": 262_144}, "capabilities": ["tools"]}),
            65_536,
        ),
        (
            "set:70b",
            json!({"model_info": {"x.context_length": 262_144}, "parameters": "num_ctx    131072\nstop    \"x\""}),
            131_072,
        ),
        (
            "qwen3:8b",
            json!({"model_info": {"qwen3.context_length": 40_960}}),
            40_960,
        ),
    ];
    let scenario = ollama(&cases.each_ref().map(|(model, ..)| *model), "");
    for (model, facts, _) in &cases {
        scenario.mock().show_model(model, facts.clone());
    }
    let client = scenario.start();
    for (at, (model, _, wanted)) in cases.into_iter().enumerate() {
        let session = client.session_of_model(&format!("ollama/{model}"));
        client.ask(&session, "hello");
        let options = &scenario.wait_for_request(at).body["options"];
        assert_eq!(options["num_ctx"], wanted, "{model}");
        // The output limit of a hosted model of the same name says nothing about a local one.
        assert!(options["num_predict"].is_null(), "{model}: {options}");
        let windows = client.all(&session, |event| match event {
            Event::Usage { window, .. } => Some(*window),
            _ => None,
        });
        assert_eq!(windows, [wanted], "{model}");
    }
}

#[test]
fn an_ollama_name_without_a_tag_is_the_latest_and_is_asked_for_first() {
    // More than are asked for.
    let mut names: Vec<String> = (0..70).map(|n| format!("other{n}:7b")).collect();
    names.push("qwen3:latest".to_owned());
    let scenario = ollama(&names.iter().map(String::as_str).collect::<Vec<_>>(), "");
    let facts = json!({"model_info": {"x.context_length": 262_144}, "parameters": "num_ctx    24576"});
    scenario.mock().show_model("qwen3:latest", facts);
    let client = scenario.start();
    let session = client.session_of_model("ollama/qwen3");
    client.ask(&session, "hello");
    assert_eq!(scenario.wait_for_request(0).body["options"]["num_ctx"], 24_576);
    let listed = listed_by(&list_models(&client, true), "ollama");
    assert!(!listed.is_empty());
    assert!(
        listed.iter().all(|(_, listed)| *listed == Some(true)),
        "{listed:?}"
    );
}

#[test]
fn an_ollama_that_refuses_to_be_told_about_truncation_is_asked_without() {
    let scenario = ollama(&["qwen3:8b"], "");
    let refusal = json!({"error": "json: unknown field \"truncate\""});
    let refusal = Reply::status(400)
        .header("content-type", "application/json")
        .body(refusal.to_string());
    scenario.push(refusal);
    let client = scenario.start();
    let session = client.session_of_model("ollama/qwen3:8b");
    assert_eq!(client.ask(&session, "hello").text, "ok");
    let told = |at: usize| {
        let body = &scenario.wait_for_request(at).body;
        (body["truncate"].clone(), body["shift"].clone())
    };
    assert_eq!(told(0), (json!(false), json!(false)));
    assert_eq!(told(1), (Value::Null, Value::Null));
    let warnings = client.warnings(&session, "part_left_out");
    assert!(warnings[0].contains("not to truncate prompts"), "{warnings:?}");
    client.ask(&session, "again");
    assert_eq!(told(2), (Value::Null, Value::Null));
}
