//! Named agents on the wire: their list, and those that are gone. What an agent has of its own is tested in
//! `session::tests::agents`.

use serde_json::{Value, json};

use crate::harness::{Client, Config, World};

fn world(tables: &str) -> World {
    World::with(Config {
        tables: tables.to_owned(),
        ..Config::default()
    })
}

#[test]
fn agents_are_listed_with_their_settings() {
    let world = world(
        "[agent.researcher]\ndescription = 'reads'\nmodel = 'wise'\nmode = 'plan'\n\
         tools = ['read_*', 'grep', 'bash']\ndeny_tools = 'bash'\n",
    );
    let client = world.start();
    let session = client.session_with(json!({"agent": "researcher"}));
    let listed: Value = client.call("agent/listAgents", json!({"sessionId": session}));
    let agents = listed["agents"].as_array().unwrap();
    let names: Vec<&Value> = agents.iter().map(|agent| &agent["name"]).collect();
    assert_eq!(names, ["default", "explore", "researcher"]);
    assert_eq!(
        agents[2],
        json!({"name": "researcher", "description": "reads", "provider": "mock", "model": "wise", "mode": "plan",
               "tools": ["read_file", "grep", "read_skill"], "current": true})
    );
    let refused = client.refused("agent/newSession", json!({"agent": "nobody"}));
    assert!(refused.message.contains("nobody"), "{refused:?}");
}

#[test]
fn a_load_names_an_agent_that_is_gone_unless_it_is_read_only() {
    let world = world("[agent.reviewer]\nmode = 'plan'\n");
    let client = world.start();
    let session = client.session_with(json!({"agent": "reviewer"}));
    let named: Value = client.call("agent/renameSession", json!({"sessionId": session, "title": "t"}));
    assert_eq!(named, json!({}));
    drop(client);
    world.configure(Config::default());
    let client = world.start();
    let warnings = |client: &Client| {
        let mut notes = client.notes();
        notes.retain(|note| note.method == "agent/warning" && note.text("message").contains("reviewer"));
        notes
            .iter()
            .map(|note| note.params["sessionId"].is_string())
            .collect::<Vec<_>>()
    };
    let read_only = json!({"sessionId": session, "readOnly": true});
    let _: Value = client.call("agent/loadSession", read_only);
    assert_eq!(warnings(&client), [false; 0]);
    assert_eq!(json!(client.load(&session).state.mode), "plan");
    assert_eq!(warnings(&client), [false]);
}
