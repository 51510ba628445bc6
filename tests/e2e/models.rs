//! Models on the wire: lists, the choice of a model, and the remembered choice; and a local Ollama. What else they
//! decide is tested in `session::tests::models`.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::harness::{Client, Config, World};

/// Returns the models of a provider, each with the value of `field`.
fn models(listed: &Value, provider: &str, field: &str) -> Vec<(String, Value)> {
    let models = listed["models"].as_array().unwrap().iter();
    models
        .filter(|model| model["provider"] == provider)
        .map(|model| (model["model"].as_str().unwrap().to_owned(), model[field].clone()))
        .collect()
}

fn set_model(client: &Client, session: &str, model: &str) -> Result<(), String> {
    let id = client.send("agent/setModel", json!({"sessionId": session, "model": model}));
    client.answer(&id).map(|_| ()).map_err(|error| {
        assert_eq!(error.data["refusal"], "unknownModel");
        error.message
    })
}

#[test]
fn models_are_listed_with_prices_and_what_providers_offer() {
    let world = World::new();
    world.mock().list_models(&["house-model", "other-model"]);
    let client = world.start();
    let find = |listed: &Value, name: &str| {
        let models = listed["models"].as_array().unwrap();
        let found = models.iter().find(|model| model["model"] == name);
        found.unwrap_or_else(|| panic!("{name}: {listed}")).clone()
    };
    let listed: Value = client.call("agent/listModels", json!({}));
    let own = find(&listed, "mock/mock-model");
    assert_eq!(
        (&own["provider"], &own["current"]),
        (&json!("mock"), &json!(true))
    );
    assert_eq!(
        (&own["pricing"], &own["listed"]),
        (&json!("configured"), &Value::Null)
    );
    assert_ne!(find(&listed, "other/other-model")["current"], true);
    let live: Value = client.call("agent/listModels", json!({"live": true}));
    assert_eq!(find(&live, "mock/mock-model")["listed"], false);
    assert_eq!(find(&live, "other/other-model")["listed"], true);
    assert_eq!(find(&live, "other/house-model")["listed"], true);
    let refused = client.refused("agent/newSession", json!({"model": "other/"}));
    assert!(refused.message.contains("names no model"), "{refused:?}");
    let wrong = set_model(&client, &client.session(), "otter/other-model").unwrap_err();
    assert!(wrong.contains("did you mean other?"), "{wrong}");
}

#[test]
fn remembered_choice_is_returned_and_a_lost_model_is_reported() {
    let world = World::new();
    let client = world.start();
    let of = |created: &Value| ["model", "effort", "mode"].map(|field| created[field].clone());
    let session = client.session();
    let params = json!({"sessionId": session, "model": "other/chosen", "effort": "high"});
    let _: Value = client.call("agent/setModel", params);
    let _: Value = client.call("agent/setMode", json!({"sessionId": session, "mode": "autoEdit"}));
    let created: Value = client.call("agent/newSession", json!({"remembered": true}));
    assert_eq!(
        of(&created),
        ["other/chosen", "high", "autoEdit"].map(Value::from)
    );
    let created: Value = client.call("agent/newSession", json!({}));
    assert_eq!(of(&created), [Value::Null, Value::Null, json!("ask")]);
    drop(client);
    let path = world.path("config/agentls/config.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("[provider.other]", "[provider.house]")).unwrap();
    let client = world.start();
    let created: Value = client.call("agent/newSession", json!({"remembered": true}));
    assert_eq!(of(&created), [Value::Null, json!("high"), json!("autoEdit")]);
    world.wait_until(|| {
        let mut notes = client.notes().into_iter();
        notes.any(|note| note.method == "agent/warning" && note.text("message").contains("other/chosen"))
    });
}

#[test]
fn retired_model_of_a_vendor_is_refused() {
    // Nothing listens on this port, so the vendor's list cannot be read.
    let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let world = World::with(Config {
        full_text: Some(format!(
            "[network]\nproxy = \"http://{closed}\"\n[provider.anthropic]\napi_key = \"sk-none\"\n"
        )),
        ..Config::default()
    });
    let client = world.start();
    let session = client.session();
    let wrong = set_model(&client, &session, "claude-sonnet-4-20250514").unwrap_err();
    assert!(
        wrong.starts_with(
            "model anthropic/claude-sonnet-4-20250514 was retired on 2026-06-15, did you mean anthropic/claude-sonnet-"
        ),
        "{wrong}"
    );
    assert_eq!(set_model(&client, &session, "claude-sonnet-5"), Ok(()));
}

#[test]
fn a_num_ctx_that_is_too_small_for_the_prompt_is_reported_once() {
    let world = World::new();
    world.configure(Config {
        tables: format!(
            "[provider.ollama]\nbase_url = \"{}\"\napi_key = \"none\"\nnum_ctx = 8192\n",
            world.mock().anthropic_url()
        ),
        ..Config::default()
    });
    world.mock().list_models(&["qwen3:8b"]);
    world.mock().show_model(
        "qwen3:8b",
        json!({"model_info": {"qwen3.context_length": 40_960}}),
    );
    let client = world.start();
    let session = client.session_with(json!({"model": "ollama/qwen3:8b"}));
    client.ask(&session, "hello");
    client.ask(&session, "hello again");
    let warnings = client.all(&session, "agent/warning");
    let [warning] = &warnings[..] else {
        panic!("{warnings:?}")
    };
    let message = warning.text("message");
    assert!(
        message.starts_with("num_ctx = 8192 is too small") && message.contains("[provider.ollama]"),
        "{message}"
    );
}

/// Ollama cuts prompts silently at its own small window, so it is told a larger one.
#[test]
fn ollama_is_told_the_window_that_the_model_can_have() {
    let world = World::new();
    let mock = world.mock();
    let table = format!(
        "[provider.ollama]\nbase_url = \"{}\"\napi_key = \"none\"\n",
        mock.anthropic_url()
    );
    world.configure(Config {
        tables: table,
        ..Config::default()
    });
    mock.list_models(&["small:1b", "large:70b", "set:70b", "qwen3:8b"]);
    mock.show_model(
        "small:1b",
        json!({"model_info": {"x.context_length": 8_192}, "capabilities": ["tools"]}),
    );
    mock.show_model(
        "large:70b",
        json!({"model_info": {"x.context_length": 262_144}, "capabilities": ["tools"]}),
    );
    mock.show_model(
        "set:70b",
        json!({"model_info": {"x.context_length": 262_144}, "parameters": "num_ctx    131072\nstop    \"x\""}),
    );
    mock.show_model(
        "qwen3:8b",
        json!({"model_info": {"qwen3.context_length": 40_960}}),
    );
    let client = world.start();
    for (at, (model, window)) in [
        ("small:1b", 8_192),
        ("large:70b", 65_536),
        ("set:70b", 131_072),
        ("qwen3:8b", 40_960),
    ]
    .into_iter()
    .enumerate()
    {
        let session = client.session_with(json!({"model": format!("ollama/{model}")}));
        client.ask(&session, "hello");
        let options = &world.wait_for_request(at).body["options"];
        assert_eq!(options["num_ctx"], window, "{model}");
        // The output limit of a hosted model of the same name says nothing about a local one.
        assert!(options["num_predict"].is_null(), "{model}: {options}");
        let usage = client.all(&session, "agent/usage");
        assert_eq!(usage.last().unwrap().params["contextWindow"], window, "{model}");
    }
}

#[test]
fn an_ollama_name_without_a_tag_is_the_latest_and_is_asked_for_first() {
    let world = World::new();
    let mock = world.mock();
    let table = format!(
        "[provider.ollama]\nbase_url = \"{}\"\napi_key = \"none\"\n",
        mock.anthropic_url()
    );
    world.configure(Config {
        tables: table,
        ..Config::default()
    });
    // More than are asked for.
    let mut names: Vec<String> = (0..70).map(|n| format!("other{n}:7b")).collect();
    names.push("qwen3:latest".to_owned());
    mock.list_models(&names.iter().map(String::as_str).collect::<Vec<_>>());
    mock.show_model(
        "qwen3:latest",
        json!({"model_info": {"x.context_length": 262_144}, "parameters": "num_ctx    24576"}),
    );
    let client = world.start();
    let session = client.session_with(json!({"model": "ollama/qwen3"}));
    client.ask(&session, "hello");
    assert_eq!(world.wait_for_request(0).body["options"]["num_ctx"], 24_576);
    let listed: Value = client.call("agent/listModels", json!({"live": true}));
    let all = models(&listed, "ollama", "listed");
    assert!(all.iter().all(|(_, listed)| *listed == json!(true)), "{all:?}");
}
