//! Circuits of providers on the wire: in lists, metrics, the status and a reset. Which provider takes over, and when no
//! call is made, is tested in `session::tests::{route, takeover}`.

use serde_json::{Value, json};

use crate::harness::{Config, World};
use crate::mock_llm::Reply;

pub fn unavailable() -> Reply {
    Reply::error(503, "api_error", "down")
}

pub fn overloaded() -> Reply {
    Reply::error(529, "overloaded_error", "Overloaded")
}

#[test]
fn open_circuit_is_shown_everywhere_until_its_reset() {
    let world = World::with(Config {
        provider: "max_retries = 4\nfallback = \"other\"".to_owned(),
        ..Config::default()
    });
    for _ in 0..5 {
        world.mock().push_for("mock-model", unavailable());
    }
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "one").text, "ok");
    let open = client.next(&session, "agent/circuit");
    let until = open.params["until"].as_i64().unwrap();
    let circuit = json!({"subject": "provider", "name": "mock", "state": "open", "until": until});
    let listed: Value = client.call("agent/listModels", json!({}));
    let of = |name: &str| {
        let providers = listed["providers"].as_array().unwrap();
        let found = providers.iter().find(|provider| provider["provider"] == name);
        found.unwrap().clone()
    };
    assert_eq!(of("mock")["circuit"], circuit, "{listed}");
    assert_eq!(of("mock")["health"], "failing");
    assert_eq!(of("other")["circuit"], Value::Null);
    assert_eq!(of("other")["health"], "ok");
    let metrics: Value = client.call("agent/metrics", json!({}));
    assert_eq!(metrics["circuits"][0], circuit, "{metrics}");
    let statuses = || {
        let notes = client.notes().into_iter();
        notes.filter(|notification| notification.method == "agent/status")
    };
    world.wait_until(|| statuses().any(|status| status.params["circuits"][0] == circuit));
    let reset = |name: &str| json!({"subject": "provider", "name": name});
    let done: Value = client.call("agent/resetCircuit", reset("mock"));
    assert_eq!(done, json!({"wasOpen": true}));
    let done: Value = client.call("agent/resetCircuit", reset("mock"));
    assert_eq!(done, json!({"wasOpen": false}));
    world.wait_until(|| {
        let last = statuses().last();
        last.is_some_and(|status| status.params.get("circuits").is_none())
    });
    client.ask(&session, "two");
    let states: Vec<Value> = client
        .all(&session, "agent/circuit")
        .iter()
        .map(|circuit| circuit.params["state"].clone())
        .collect();
    assert_eq!(states, ["open", "closed"]);
    let refused = client.refused("agent/resetCircuit", reset("nobody"));
    assert_eq!(refused.data["refusal"], "unknownCircuit", "{refused:?}");
}
