//! Local engines other than Ollama: the windows that they have loaded.

use serde_json::json;

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
