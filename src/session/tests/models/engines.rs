//! Local engines other than Ollama: the windows that they have loaded.

use serde_json::json;

use std::time::Duration;

use super::mock_llm::Reply;
use super::scenario::{Client, Scenario};
use crate::domain::*;

/// Returns the window with which a session of `model` works.
fn window_of(client: &Client, model: &str) -> u64 {
    let session = client.session_of_model(model);
    assert_eq!(client.ask(&session, "hello").text, "ok", "{model}");
    let windows = client.all(&session, |event| match event {
        Event::Usage { window, .. } => Some(*window),
        _ => None,
    });
    *windows.last().unwrap()
}

#[test]
fn the_window_that_an_engine_has_loaded_counts() {
    let scenario = Scenario::with_tables("[model.configured]\ncontext_window = 50000\n");
    scenario.mock().list_models(&["qwen3.gguf"]);
    let facts = json!({"meta": {"n_ctx": 16_384, "n_ctx_train": 131_072}});
    scenario.mock().show_model("qwen3.gguf", facts);
    let client = scenario.start();
    assert_eq!(window_of(&client, "other/qwen3.gguf"), 16_384);
    // llama.cpp answers to any name.
    assert_eq!(window_of(&client, "other/default"), 16_384);
    // The user knows better.
    assert_eq!(window_of(&client, "other/configured"), 50_000);
    assert_eq!(scenario.mock().lists(), 1);
}

#[test]
fn lm_studio_says_in_its_own_api_what_it_has_loaded() {
    let scenario = Scenario::new();
    scenario.mock().list_models(&["unknown", "other-model"]);
    let facts = json!({"loaded_context_length": 20_000});
    scenario.mock().show_model("other-model", facts);
    let client = scenario.start();
    assert_eq!(window_of(&client, "other/other-model"), 20_000);
    assert_eq!(window_of(&client, "other/unknown"), 200_000);
}

#[test]
fn a_trained_maximum_is_not_the_loaded_window() {
    let scenario = Scenario::new();
    scenario.mock().list_models(&["loaded", "idle"]);
    for (model, loaded) in [("loaded", json!(20_000)), ("idle", json!(null))] {
        let state = if loaded.is_null() { "not-loaded" } else { "loaded" };
        let facts = json!({"state": state, "max_context_length": 131_072, "loaded_context_length": loaded});
        scenario.mock().show_model(model, facts);
    }
    let client = scenario.start();
    assert_eq!(window_of(&client, "other/loaded"), 20_000);
    // At most what it was trained with.
    assert_eq!(window_of(&client, "other/idle"), 131_072);
    // Its first request loads it.
    let facts = json!({"state": "loaded", "max_context_length": 131_072, "loaded_context_length": 16_384});
    scenario.mock().show_model("idle", facts);
    assert_eq!(window_of(&client, "other/idle"), 131_072);
    scenario.advance(Duration::from_secs(31));
    assert_eq!(window_of(&client, "other/loaded"), 20_000);
    assert_eq!(scenario.mock().lists(), 2);
    assert_eq!(window_of(&client, "other/idle"), 16_384);
    assert_eq!(scenario.mock().lists(), 4);
}

#[test]
fn old_versions_of_llama_cpp_say_elsewhere_what_they_have_loaded() {
    let scenario = Scenario::new();
    scenario.mock().list_models(&["qwen3.gguf"]);
    scenario
        .mock()
        .show_model("qwen3.gguf", json!({"meta": {"n_ctx_train": 131_072}}));
    let props = json!({"default_generation_settings": {"n_ctx": 16_384}});
    scenario.mock().serve_path("/props", 200, props);
    assert_eq!(window_of(&scenario.start(), "other/qwen3.gguf"), 16_384);
}

#[test]
fn an_engine_that_fails_is_soon_asked_again_but_not_at_each_turn() {
    let scenario = Scenario::new();
    scenario.mock().list_models(&["unknown", "other-model"]);
    scenario
        .mock()
        .show_model("other-model", json!({"loaded_context_length": 20_000}));
    scenario
        .mock()
        .serve_path("/api/v0/models", 500, json!({"error": "busy"}));
    let client = scenario.start();
    assert_eq!(window_of(&client, "other/other-model"), 200_000);
    assert_eq!(window_of(&client, "other/other-model"), 200_000);
    assert_eq!(
        scenario.mock().lists(),
        2,
        "the list, and what LM Studio has loaded"
    );
    let found = json!({"data": [{"id": "other-model", "loaded_context_length": 20_000}]});
    scenario.mock().serve_path("/api/v0/models", 200, found);
    scenario.advance(Duration::from_secs(31));
    assert_eq!(window_of(&client, "other/other-model"), 20_000);
    scenario.advance(Duration::from_secs(500));
    assert_eq!(window_of(&client, "other/other-model"), 20_000);
    assert_eq!(scenario.mock().lists(), 4);
}

fn too_long(window: u64) -> Reply {
    let message = format!("This model's maximum context length is {window} tokens.");
    Reply::error(400, "invalid_request_error", &message)
}

#[test]
fn a_window_that_a_provider_has_named_outlives_the_server_until_more_fits() {
    let scenario = Scenario::new();
    let client = scenario.start();
    scenario.push(too_long(30_000));
    let session = client.session_of_model("mock/some-model");
    client.ask(&session, "hello");
    assert_eq!(window_of(&client, "mock/some-model"), 30_000);
    drop(client);
    let client = scenario.start();
    assert_eq!(window_of(&client, "mock/some-model"), 30_000);
    assert_eq!(window_of(&client, "other/some-model"), 200_000);
    // The provider counts more than the window: it is larger now.
    scenario.push(Reply::text("ok").tokens(40_000, 1));
    assert_eq!(window_of(&client, "mock/some-model"), 30_000);
    assert_eq!(window_of(&client, "mock/some-model"), 200_000);
    drop(client);
    let client = scenario.start();
    assert_eq!(window_of(&client, "mock/some-model"), 200_000);
    drop(client);
}

#[test]
fn a_stored_window_gives_way_to_what_is_known_now_and_to_time() {
    let scenario = Scenario::new();
    scenario.mock().list_models(&["engine-model"]);
    let client = scenario.start();
    for model in ["mock/some-model", "mock/another", "other/engine-model"] {
        scenario.push(too_long(30_000));
        let session = client.session_of_model(model);
        client.ask(&session, "hello");
        assert_eq!(window_of(&client, model), 30_000, "{model}");
    }
    drop(client);
    scenario
        .mock()
        .show_model("engine-model", json!({"max_model_len": 60_000}));
    scenario.edit_config(|text| format!("{text}\n[model.some-model]\ncontext_window = 50000\n"));
    let client = scenario.start();
    assert_eq!(window_of(&client, "mock/some-model"), 50_000);
    assert_eq!(window_of(&client, "mock/another"), 30_000);
    assert_eq!(window_of(&client, "other/engine-model"), 60_000);
    drop(client);
    // An address may contain a password.
    let addresses = stored_addresses(&scenario);
    assert!(
        !addresses.is_empty() && addresses.iter().all(|address| !address.contains("127.0.0.1")),
        "{addresses:?}"
    );
    scenario.advance(Duration::from_secs(31 * 24 * 60 * 60));
    let client = scenario.start();
    assert_eq!(window_of(&client, "mock/another"), 200_000);
    drop(client);
    assert_eq!(stored_addresses(&scenario), [""; 0]);
}

/// Returns the addresses of the stored windows.
fn stored_addresses(scenario: &Scenario) -> Vec<String> {
    let store = rusqlite::Connection::open(scenario.path("data/agentls/store.db")).unwrap();
    let mut rows = store.prepare("SELECT address FROM windows").unwrap();
    let addresses = rows.query_map([], |row| row.get(0)).unwrap();
    addresses.collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_named_window_gives_way_to_a_larger_report_unless_it_has_disproved_that() {
    let scenario = Scenario::new();
    let report = |window: u64| {
        scenario
            .mock()
            .show_model("other-model", json!({"max_model_len": window}));
    };
    scenario.mock().list_models(&["other-model"]);
    report(60_000);
    let client = scenario.start();
    assert_eq!(window_of(&client, "other/other-model"), 60_000);
    scenario.push(too_long(30_000));
    client.ask(&client.session_of_model("other/other-model"), "hello");
    for client in [client, scenario.start()] {
        assert_eq!(window_of(&client, "other/other-model"), 30_000);
        scenario.advance(Duration::from_secs(601));
        assert_eq!(window_of(&client, "other/other-model"), 30_000);
    }
    let client = scenario.start();
    report(80_000);
    scenario.advance(Duration::from_secs(601));
    assert_eq!(window_of(&client, "other/other-model"), 80_000);
    drop(client);
    assert_eq!(stored_addresses(&scenario), [""; 0]);
}
