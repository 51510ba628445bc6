//! Models on the wire: lists, the choice of a model, and the remembered choice. What else they decide is tested in
//! `session::tests::models`.

use serde_json::{Value, json};

use crate::harness::{Client, World};

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
