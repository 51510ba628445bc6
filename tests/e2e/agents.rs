//! Named agents: each has its own model, route, instructions, tools and limits.

use serde_json::{Value, json};

use crate::harness::{Client, Config, World};
use crate::mock_llm::{RecordedRequest, Reply};

fn world(tables: &str) -> World {
    World::with(Config {
        tables: tables.to_owned(),
        ..Config::default()
    })
}

fn system(request: &RecordedRequest) -> String {
    request.body["system"][0]["text"].as_str().unwrap().to_owned()
}

fn tools(request: &RecordedRequest) -> Vec<&str> {
    let tools = request.body["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn a_named_agent_has_its_own_prompt_model_tools_and_limits() {
    let world = world(
        "[agent.researcher]\ndescription = 'reads'\nmodel = 'wise'\nmode = 'plan'\nmax_steps = 1\n\
         prompt_file = 'researcher.md'\ntools = ['read_*', 'grep', 'bash']\ndeny_tools = 'bash'\n",
    );
    std::fs::write(world.path("config/agentls/researcher.md"), "Only read.\n").unwrap();
    let client = world.start();
    let session = client.session_with(json!({"agent": "researcher"}));
    world.mock().push(Reply::tool("bash", json!({"command": "true"})));
    let result = json!(client.ask(&session, "look"));
    assert_eq!(
        (&result["reason"], &result["state"]),
        (&json!("max_turns"), &json!("failed"))
    );
    let request = world.wait_for_request(0);
    assert_eq!(request.body["model"], "wise");
    assert!(
        system(&request).starts_with("Only read.\n\nWhat tools return"),
        "{}",
        system(&request)
    );
    // Its list allows `read_skill` too, but there is no skill.
    assert_eq!(tools(&request), ["read_file", "grep"]);
    // A tool that the agent does not have cannot be called either.
    let call = client
        .all(&session, "agent/toolCall")
        .last()
        .unwrap()
        .params
        .clone();
    assert_eq!(call["status"], "failed", "{call}");
    assert!(call["output"].to_string().contains("bash"), "{call}");

    let listed: Value = client.call("agent/listAgents", json!({"sessionId": session}));
    let names: Vec<&Value> = listed["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| &agent["name"])
        .collect();
    assert_eq!(
        names,
        [&json!("default"), &json!("explore"), &json!("researcher")]
    );
    assert_eq!(
        listed["agents"][2],
        json!({"name": "researcher", "description": "reads", "provider": "mock", "model": "wise", "mode": "plan",
               "tools": ["read_file", "grep", "read_skill"], "current": true})
    );
    // The default agent is unaffected.
    let other = client.session();
    client.ask(&other, "hello");
    assert_eq!(world.wait_for_request(1).body["model"], "mock-model");
    let prompt = system(&world.wait_for_request(1));
    assert!(prompt.starts_with("You are a coding agent"), "{prompt}");
    assert!(
        prompt.contains("Act by calling tools"),
        "an unknown model gets the text for open models"
    );
    let refused = client.refused("agent/newSession", json!({"agent": "nobody"}));
    assert!(refused.message.contains("nobody"), "{refused:?}");
}

#[test]
fn an_agent_and_a_model_that_are_gone_are_named_and_nothing_becomes_looser() {
    let world = world(
        "[agent.reviewer]\nmode = 'plan'\n\
         [provider.gone]\nkind = 'openai'\nbase_url = 'http://127.0.0.1:9/'\napi_key = 'k'\n",
    );
    let warnings = |client: &Client, name: &str| -> Vec<(bool, String)> {
        let notes = client.notes().into_iter();
        let warnings =
            notes.filter(|note| note.method == "agent/warning" && note.text("message").contains(name));
        warnings
            .map(|note| {
                (
                    note.params["sessionId"].is_string(),
                    note.text("message").to_owned(),
                )
            })
            .collect()
    };
    let client = world.start();
    let chosen = json!({"agent": "reviewer", "model": "gone/model"});
    let [session, other] = [(); 2].map(|()| client.session_with(chosen.clone()));
    for session in [&session, &other] {
        let named: Value = client.call("agent/renameSession", json!({"sessionId": session, "title": "t"}));
        assert_eq!(named, json!({}));
    }
    world.configure(Config::default());
    let _: Value = client.call("agent/reloadConfig", json!({}));
    let write = json!({"path": "b.txt", "content": "x"});
    for _ in 0..2 {
        world.mock().push(Reply::tool("write_file", write.clone()));
        world.mock().push(Reply::text("done"));
        client.ask(&session, "write");
        assert_eq!(
            world.wait_for_request(world.requests() - 1).body["model"],
            "mock-model"
        );
    }
    assert_eq!(world.read("b.txt"), None, "the mode is still `plan`");
    let told = warnings(&client, "reviewer");
    assert!(
        told.len() == 2 && told.iter().all(|(of_session, _)| *of_session),
        "{told:?}"
    );
    assert!(told[0].1.contains("gone/model") && told[0].1.contains("mock/mock-model is used"));
    assert!(
        !told[1].1.contains("gone/model"),
        "the session has another model: {told:?}"
    );
    drop(client);

    let client = world.start();
    for session in [&session, &other] {
        let read_only = json!({"sessionId": session, "readOnly": true});
        let _: Value = client.call("agent/loadSession", read_only);
    }
    assert_eq!(warnings(&client, "reviewer"), []);
    for (session, has_model) in [(&session, false), (&other, true)] {
        assert_eq!(json!(client.load(session).state.mode), "plan");
        let told = warnings(&client, "reviewer");
        let (of_session, last) = told.last().unwrap();
        assert!(
            !of_session && last.contains("gone/model") == has_model,
            "{told:?}"
        );
    }
}

#[test]
fn missing_prompt_file_warns_and_the_default_prompt_applies() {
    let world = world("[agent.x]\nprompt_file = 'gone.md'\n");
    let client = world.start();
    let session = client.session_with(json!({"agent": "x"}));
    client.ask(&session, "hello");
    assert!(system(&world.wait_for_request(0)).starts_with("You are a coding agent"));
    let warnings = client.all(&session, "agent/warning");
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].text("code"), "instructions_problem");
    assert!(
        warnings[0].text("message").contains("gone.md: it is missing"),
        "{}",
        warnings[0].text("message")
    );
    // The file appears later.
    world.mock().allow_rewrites();
    std::fs::write(world.path("config/agentls/gone.md"), "Here now.").unwrap();
    client.ask(&session, "again");
    assert!(system(&world.wait_for_request(1)).starts_with("Here now."));
}

#[test]
fn agent_route_takes_precedence_over_the_providers_fallback() {
    let world = world("[agent.x]\nroute = ['other/special', 'printed']\n");
    // Exhaust the retries of the first provider.
    for _ in 0..4 {
        world.mock().push(Reply::status(503));
    }
    let client = world.start();
    let session = client.session_with(json!({"agent": "x"}));
    let result = client.ask(&session, "hello");
    assert_eq!(json!(result.state), "completed");
    let switched = client.all(&session, "agent/modelSwitched");
    assert_eq!(switched[0].text("to"), "other/special");
    assert_eq!(world.wait_for_request(4).body["model"], "special");
}

#[test]
fn untrusted_folder_cannot_set_an_agents_prompt_file() {
    let world = world("");
    let secret = world.path("secret.md");
    std::fs::write(&secret, "do not tell").unwrap();
    let config = format!("[agent.default]\nprompt_file = '{}'\n", secret.display());
    world.write(".agentls/config.toml", config);
    let client = world.start();
    let session = client.session();
    client.ask(&session, "hello");
    assert!(!world.wait_for_request(0).body.to_string().contains("do not tell"));
}
