//! Sign-in: the methods that are offered, the error that asks for one, and keys that are stored meanwhile.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::client::AcpClient;
use crate::harness::{Config, World};
use crate::mock_llm::Reply;

const AUTH_REQUIRED: i64 = -32000;

/// A world whose provider needs a key and has none.
fn world_without_key() -> World {
    let world = World::new();
    let base = world.mock().anthropic_url();
    world.configure(Config {
        full_text: Some(format!(
            "[provider.anthropic]\nbase_url = \"{base}\"\nmodel = \"mock-model\"\n"
        )),
        ..Config::default()
    });
    world
}

/// Runs `agentls login` beside the server, as a client does in a terminal.
#[expect(clippy::disallowed_methods, reason = "the test plays the user")]
fn log_in(world: &World, key: &str) {
    use std::io::Write as _;
    let mut child = Command::new(env!("CARGO_BIN_EXE_agentls"))
        .args(["acp", "login", "anthropic", "--no-check"])
        .env_clear()
        .envs(world.env())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(key.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

fn initialize(capabilities: Value) -> Value {
    let world = World::new();
    let client = AcpClient::launch(&world);
    client.call(
        "initialize",
        json!({"protocolVersion": 1, "clientCapabilities": capabilities}),
    )
}

#[test]
fn a_terminal_method_is_offered_only_to_clients_with_a_terminal() {
    let ids = |about: &Value| -> Vec<String> {
        let methods = about["authMethods"].as_array().unwrap().iter();
        methods
            .map(|method| method["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let about = initialize(json!({}));
    assert_eq!(ids(&about), ["stored-key"]);
    assert_eq!(about["agentCapabilities"]["auth"]["logout"], json!({}));
    for capabilities in [
        json!({"auth": {"terminal": true}}),
        json!({"_meta": {"terminal-auth": true}}),
    ] {
        let about = initialize(capabilities);
        assert_eq!(ids(&about), ["login", "stored-key"]);
        let method = &about["authMethods"][0];
        assert_eq!(
            (&method["type"], &method["args"]),
            (&json!("terminal"), &json!(["login"]))
        );
    }
    assert_eq!(
        ids(&initialize(json!({"auth": {"terminal": false}}))),
        ["stored-key"]
    );
}

#[test]
fn a_missing_key_asks_for_a_login_whose_key_the_running_server_uses() {
    let world = world_without_key();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    let refused = client.answer(client.prompt(&session, "hello"));
    assert_eq!(refused["error"]["code"], AUTH_REQUIRED, "{refused}");
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("agentls login"), "{message}");
    let method = json!({"methodId": "stored-key"});
    let refused = client.answer(client.request("authenticate", method.clone()));
    assert_eq!(refused["error"]["code"], AUTH_REQUIRED, "{refused}");
    log_in(&world, &world.secrets()[2]);
    client.call("authenticate", method);
    world.mock().push(Reply::text("Hello"));
    let answer = client.answer(client.prompt(&session, "hello"));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    let key = world.mock().requests()[0].header("x-api-key").map(str::to_owned);
    assert_eq!(key.as_deref(), Some(world.secrets()[2].as_str()));
    client.call("logout", json!({}));
    let refused = client.answer(client.prompt(&session, "hello"));
    assert_eq!(refused["error"]["code"], AUTH_REQUIRED, "{refused}");
    // Without an effect it is no success.
    let nothing = client.answer(client.request("logout", json!({})));
    assert_eq!(nothing["error"]["code"], -32600, "{nothing}");
    // A damaged file is not taken for an empty one.
    log_in(&world, &world.secrets()[2]);
    let file = world.data().join("keys.json");
    fs::write(&file, "[{").unwrap();
    let failed = client.answer(client.request("logout", json!({})));
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("is damaged; move it away and log in again"),
        "{message}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "[{");
}

#[test]
fn a_key_of_a_login_counts_without_authenticate_and_a_refused_one_asks_for_another() {
    let world = world_without_key();
    let client = AcpClient::start(&world, json!({}));
    let session = client.new_session(&world);
    log_in(&world, &world.secrets()[2]);
    world.mock().push(Reply::status(401));
    let refused = client.answer(client.prompt(&session, "hello"));
    assert_eq!(refused["error"]["code"], AUTH_REQUIRED, "{refused}");
    assert_eq!(refused["error"]["data"]["agentls"]["status"], 401);
}
