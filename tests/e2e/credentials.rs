//! API keys that the editor provides through `agent/getCredential` (R-SEC): requested only if there is no other key,
//! used, and shown nowhere. After every test the harness checks that no key is in the store, the log or the trace.

use std::time::Duration;

use agentls::protocol::TurnState;
use serde_json::{Value, json};

use crate::harness::{Client, Config, Options, ServerRequest, World};
use crate::mock_llm::Reply;

const ASK: &str = "agent/getCredential";

/// A world whose provider needs a key and has none.
fn world(more: &str) -> World {
    let world = World::new();
    configure(&world, more);
    world
}

fn configure(world: &World, more: &str) {
    let base = world.mock().anthropic_url();
    world.configure(Config {
        full_text: Some(format!(
            "[provider.anthropic]\nbase_url = \"{base}\"\nmodel = \"mock-model\"\ninitial_backoff_ms = 20\n{more}\n\
             [logging]\nfilter = \"trace\"\n",
        )),
        ..Config::default()
    });
}

/// A key that the harness searches for everywhere.
fn key(world: &World) -> String {
    world.secrets()[2].clone()
}

fn another_key(world: &World) -> String {
    world.secrets()[1].clone()
}

/// Starts a server whose client provides keys.
fn start(world: &World) -> Client {
    start_with(world, Options::default())
}

/// Starts a server whose client provides keys, with a clock that stands still.
fn start_frozen(world: &World) -> Client {
    let options = Options {
        frozen: true,
        ..Options::default()
    };
    start_with(world, options)
}

fn start_with(world: &World, options: Options) -> Client {
    let client = world.launch(options);
    client.take_requests();
    let mut params = client.initialize_params(None);
    params["capabilities"] = json!({"experimental": {"agent": {"client": {"getCredential": true}}}});
    let answer: Value = client.call("initialize", params);
    let features = &answer["capabilities"]["experimental"]["agent"]["features"];
    assert!(features.to_string().contains("credentials"), "{features}");
    client.initialized();
    client
}

/// Waits until the server asks for the key of `provider`.
fn expect_key_request(client: &Client, provider: &str) -> ServerRequest {
    let request = client.server_asks(ASK);
    assert_eq!(request.params, json!({"provider": provider}));
    request
}

fn provide_key(client: &Client, provider: &str, key: &str) {
    client.reply(&expect_key_request(client, provider), json!({"apiKey": key}));
}

fn provider<'a>(listed: &'a Value, name: &str) -> &'a Value {
    let providers = listed["providers"].as_array().unwrap();
    let found = providers.iter().find(|provider| provider["provider"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {listed}"))
}

#[test]
fn key_is_requested_once_used_and_never_shown() {
    let world = world("");
    let tape = world.path("tapes/work.jsonl");
    configure(&world, &format!("record = \"{}\"", tape.display()));
    let key = key(&world);
    world.write("notes.txt", format!("the key is {key}\n"));
    let client = start(&world);
    let session = client.session();
    assert_eq!(
        client.server_requests(),
        0,
        "nothing is asked before it is needed"
    );
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "notes.txt"})));
    world.mock().push(Reply::error(
        400,
        "invalid_request_error",
        &format!("nonsense with {key}"),
    ));
    let prompt = client.prompt(&session, "look");
    provide_key(&client, "anthropic", &key);
    let failed = client.prompt_result(&prompt);
    assert_eq!(failed.state, TurnState::Failed);
    assert!(
        !serde_json::to_string(&failed).unwrap().contains(&key),
        "{failed:?}"
    );
    for index in [0, 1] {
        assert_eq!(
            world.wait_for_request(index).header("x-api-key"),
            Some(key.as_str())
        );
    }
    let sent = world.wait_for_request(1).body.to_string();
    assert!(sent.contains("the key is ***") && !sent.contains(&key), "{sent}");
    world.mock().push(Reply::text("again"));
    assert_eq!(client.ask(&session, "again").text, "again");
    let metrics: Value = client.call("agent/metrics", json!({"sessionId": session}));
    let notifications = client
        .notes()
        .into_iter()
        .map(|notification| notification.params.to_string());
    let all: String = notifications.chain([metrics.to_string()]).collect();
    assert!(!all.contains(&key));
    let taped = std::fs::read_to_string(&tape).unwrap();
    assert!(taped.contains("again") && !taped.contains(&key), "{taped}");
}

#[test]
fn refused_key_or_reload_requests_the_key_again() {
    let world = world("");
    let (old, new) = (key(&world), another_key(&world));
    let client = start(&world);
    let session = client.session();
    let refusal = format!("invalid x-api-key {old}");
    world
        .mock()
        .push(Reply::error(401, "authentication_error", &refusal));
    let prompt = client.prompt(&session, "one");
    provide_key(&client, "anthropic", &old);
    let failed = client.prompt_result(&prompt);
    assert_eq!(failed.state, TurnState::Failed);
    let error = format!("{:?}", failed.error.unwrap());
    assert!(
        error.contains("invalid x-api-key") && !error.contains(&old),
        "{error}"
    );
    for (text, reload) in [("two", false), ("three", true)] {
        if reload {
            let _: Value = client.call("agent/reloadConfig", json!({}));
        }
        world.mock().push(Reply::text("well"));
        let prompt = client.prompt(&session, text);
        provide_key(&client, "anthropic", &new);
        assert_eq!(client.prompt_result(&prompt).text, "well");
    }
    assert_eq!(world.wait_for_request(2).header("x-api-key"), Some(new.as_str()));
}

#[test]
fn no_key_request_without_the_capability_or_with_a_configured_key() {
    let world = world("");
    // This client did not announce the capability: the harness fails the test if the server asks.
    let client = world.start();
    let failed = client.ask(&client.session(), "hello");
    let message = failed.error.unwrap().message;
    assert!(
        message.contains("has no API key") || message.contains("no API key is set"),
        "{message}"
    );
    drop(client);
    configure(&world, "api_key = \"sk-of-the-configuration\"");
    let client = start(&world);
    world.mock().push(Reply::text("well"));
    assert_eq!(client.ask(&client.session(), "hello").text, "well");
    assert_eq!(client.server_requests(), 0);
}

#[test]
fn cancel_does_not_wait_for_the_key_and_a_late_key_is_harmless() {
    let world = world("[agent.default]\nprovider = \"anthropic\"");
    let client = start_frozen(&world);
    let session = client.session();
    let prompt = client.prompt(&session, "hello");
    let key_request = expect_key_request(&client, "anthropic");
    client.cancel(&session);
    client.next(&session, "agent/turnEnded");
    assert_eq!(client.prompt_result(&prompt).state, TurnState::Cancelled);
    client.reply(&key_request, json!({"apiKey": key(&world)}));
    world.mock().push(Reply::text("well"));
    let prompt = client.prompt(&session, "again");
    provide_key(&client, "anthropic", &another_key(&world));
    assert_eq!(client.prompt_result(&prompt).text, "well");
    assert_eq!(
        world.wait_for_request(0).header("x-api-key"),
        Some(another_key(&world).as_str())
    );
}

#[test]
fn key_request_times_out_after_ten_seconds() {
    let world = world("[agent.default]\nprovider = \"anthropic\"");
    let client = start_frozen(&world);
    let session = client.session();
    let prompt = client.prompt(&session, "hello");
    let _silent = expect_key_request(&client, "anthropic");
    client.advance(Duration::from_millis(9_999));
    client.settled();
    assert!(client.take_answer(&prompt).is_none(), "it waits for the key");
    client.advance(Duration::from_millis(1));
    let failed = client.prompt_result(&prompt);
    let message = failed.error.unwrap().message;
    assert!(message.contains("did not answer within 10 s"), "{message}");
    // A malformed answer counts as no key, and the error does not repeat it.
    let prompt = client.prompt(&session, "again");
    client.reply(&expect_key_request(&client, "anthropic"), json!(key(&world)));
    let message = client.prompt_result(&prompt).error.unwrap().message;
    assert!(
        message.contains("is malformed") && !message.contains("canary"),
        "{message}"
    );
}

#[test]
fn fallback_provider_gets_its_key_from_the_editor() {
    let world = world("");
    let base = world.mock().openai_url();
    configure(
        &world,
        &format!(
            "max_retries = 0\nfallback = \"openrouter\"\napi_key = \"sk-of-the-configuration\"\n\
             [provider.openrouter]\nbase_url = \"{base}\"\nmodel = \"other-model\"\n[agent.default]\nprovider = \"anthropic\"",
        ),
    );
    let client = start(&world);
    let session = client.session();
    world.mock().push(Reply::error(500, "api_error", "broken"));
    world.mock().push(Reply::text("taken over"));
    let prompt = client.prompt(&session, "hello");
    provide_key(&client, "openrouter", &key(&world));
    assert_eq!(client.prompt_result(&prompt).text, "taken over");
    let bearer = format!("Bearer {}", key(&world));
    assert_eq!(
        world.wait_for_request(1).header("authorization"),
        Some(bearer.as_str())
    );
}

#[test]
fn editor_key_selects_a_provider_without_configuration() {
    let world = World::new();
    world.configure(Config {
        full_text: Some("[logging]\nfilter = \"trace\"\n".to_owned()),
        ..Config::default()
    });
    let client = start(&world);
    let listing = client.send("agent/listModels", json!({}));
    for _ in 0..3 {
        let request = client.server_asks(ASK);
        let of_openai = request.params["provider"] == "openai";
        client.reply(
            &request,
            if of_openai {
                json!({"apiKey": key(&world)})
            } else {
                json!({})
            },
        );
    }
    let listed = client.answer(&listing).unwrap();
    assert_eq!(provider(&listed, "openai")["health"], "unknown", "{listed}");
    let current: Vec<&Value> = listed["models"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|model| model["current"] == true)
        .collect();
    assert_eq!(current.len(), 1);
    assert_eq!(current[0]["provider"], "openai");
    assert!(!listed.to_string().contains("canary"));
}

#[test]
fn key_check_lists_models_and_uses_no_tokens() {
    let world = world("[agent.default]\nprovider = \"anthropic\"");
    let (wrong, right) = (key(&world), another_key(&world));
    world.mock().list_for(&right);
    let client = start(&world);
    let check = || client.send("agent/listModels", json!({"check": "anthropic"}));
    let checked = check();
    client.reply(&expect_key_request(&client, "anthropic"), json!({}));
    let listed = client.answer(&checked).unwrap();
    assert_eq!(
        provider(&listed, "anthropic")["health"],
        "notConfigured",
        "{listed}"
    );
    let _: Value = client.call("agent/reloadConfig", json!({}));
    let checked = check();
    provide_key(&client, "anthropic", &wrong);
    let listed = client.answer(&checked).unwrap();
    let entry = provider(&listed, "anthropic");
    assert_eq!(entry["health"], "failing", "{listed}");
    let message = entry["message"].as_str().unwrap();
    assert!(message.contains("invalid x-api-key"), "{message}");
    assert!(!message.contains(&wrong), "{message}");
    // A refused key is forgotten.
    let checked = check();
    provide_key(&client, "anthropic", &right);
    let listed = client.answer(&checked).unwrap();
    assert_eq!(provider(&listed, "anthropic")["health"], "ok", "{listed}");
    let refused = client.refused("agent/listModels", json!({"check": "nobody"}));
    assert!(refused.message.contains("nobody"), "{refused:?}");
    assert_eq!(world.requests(), 0, "no tokens were asked for");
}
