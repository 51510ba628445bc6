//! A turn without a provider, and its transitions on the wire. All other reasons: `session::tests::transitions`.

use serde_json::{Value, json};

use crate::harness::{Client, Config, World};

/// Returns the reasons of a turn's transitions, then reason, state and error code of its end.
pub fn course(client: &Client, session: &str, result: &Value) -> Vec<String> {
    let mut course = client.reasons(session);
    let code = result["error"]["code"].as_str().unwrap_or("no error");
    course.push(format!(
        "{} / {} / {code}",
        result["reason"].as_str().unwrap(),
        result["state"].as_str().unwrap()
    ));
    course
}

#[test]
fn missing_provider_error_lists_the_options() {
    let world = World::with(Config {
        full_text: Some(String::new()),
        ..Config::default()
    });
    if std::net::TcpStream::connect(("127.0.0.1", 11434)).is_ok() {
        eprintln!("an Ollama is running here: nothing to see");
        return;
    }
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "do it"));
    assert_eq!(
        course(&client, &session, &result),
        ["not_configured", "not_configured / failed / config"]
    );
    let user_action = result["error"]["userAction"].as_str().unwrap();
    for keyword in ["key", "Ollama", "agentls demo"] {
        assert!(
            user_action.to_lowercase().contains(&keyword.to_lowercase()),
            "{user_action}"
        );
    }
    // Once a provider is configured, the session works.
    world.configure(Config::default());
    let _: Value = client.call("agent/reloadConfig", json!({}));
    assert_eq!(client.ask(&session, "again").text, "ok");
}
