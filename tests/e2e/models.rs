//! Models: listing, prices, which one a session uses, and the remembered choice.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, Config, World, now};
use crate::mock_llm::Reply;

/// A world whose provider `anthropic` is the mock, with extra lines for the provider and the agent.
fn world(provider: &str, agent: &str) -> World {
    let world = World::new();
    configure(&world, provider, agent, "");
    world
}

fn configure(world: &World, provider: &str, agent: &str, tables: &str) {
    let (address, openai, key) = (
        world.mock().anthropic_url(),
        world.mock().openai_url(),
        &world.secrets()[2],
    );
    let full_text = format!(
        "[provider.anthropic]\nbase_url = \"{address}\"\napi_key = \"{key}\"\n{provider}\n\
         [provider.work]\nkind = \"openai\"\nbase_url = \"{openai}\"\napi_key = \"{key}\"\nmodel = \"ours\"\n\
         [agent.default]\nprovider = \"anthropic\"\n{agent}\n{tables}"
    );
    world.configure(Config {
        full_text: Some(full_text),
        ..Config::default()
    });
}

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
fn without_a_usable_provider_a_name_must_not_begin_with_an_unknown_one() {
    let world = World::with(Config {
        full_text: Some("[agent.default]\nprovider = \"nowhere\"\n".to_owned()),
        ..Config::default()
    });
    let client = world.start();
    let session = client.session();
    let refused = set_model(&client, &session, "org/model").unwrap_err();
    assert!(
        refused.starts_with("unknown provider org in org/model"),
        "{refused}"
    );
    set_model(&client, &session, "anthropic/claude-sonnet-5").unwrap();
    // What has no provider's name gets the one that is configured by then.
    set_model(&client, &session, "model").unwrap();
}

#[test]
fn paid_model_at_a_local_address_costs_its_list_price() {
    let world = world("model = \"claude-sonnet-5\"", "max_session_cost = 1.0");
    world.mock().push(Reply::text("dear").tokens(0, 200_000));
    let client = world.start();
    let session = client.session();
    let first = client.ask(&session, "one");
    assert_eq!(first.cost_usd, Some(2.0));
    let second = json!(client.ask(&session, "two"));
    assert_eq!(second["reason"], "budget_exceeded", "{second}");
    assert_eq!(world.requests(), 1);
    // A model that only a local engine can have is free; the list shows both kinds.
    let session = client.session_with(json!({"model": "work/qwen3:8b"}));
    world.mock().push(Reply::text("free").tokens(0, 900_000));
    assert_eq!(client.ask(&session, "three").cost_usd, Some(0.0));
    let listed: Value = client.call("agent/listModels", json!({}));
    let paid = models(&listed, "anthropic", "pricing");
    assert!(
        paid.iter().all(|(_, pricing)| pricing == "list") && paid.len() > 2,
        "{paid:?}"
    );
    assert_eq!(
        models(&listed, "work", "pricing"),
        [("work/ours".to_owned(), json!("free"))]
    );
}

#[test]
fn live_model_lists_are_fetched_in_parallel_and_kept() {
    let world = world("", "");
    world.mock().list_models(&[
        "claude-sonnet-5",
        "claude-sonnet-99",
        "text-embedding-3-large",
        "claude-opus-98",
    ]);
    // Two servers that accept connections and never answer.
    let silent: Vec<TcpListener> = (0..2)
        .map(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap())
        .collect();
    let tables: String = silent
        .iter()
        .enumerate()
        .map(|(n, listener)| {
            let address = listener.local_addr().unwrap();
            format!(
                "[provider.silent{n}]\nkind = \"openai\"\nbase_url = \"http://{address}/v1\"\nmodel = \"s\"\n"
            )
        })
        .collect();
    configure(&world, "", "", &tables);
    let client = world.start();
    let before: Value = client.call("agent/listModels", json!({}));
    assert!(
        models(&before, "anthropic", "listed")
            .iter()
            .all(|(_, listed)| listed.is_null())
    );
    assert_eq!(world.mock().lists(), 0);
    let start = now();
    let live: Value = client.call("agent/listModels", json!({"live": true}));
    // The silent servers are asked in parallel: a bound with slack for a slow machine.
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    let listed = |name: &str| (format!("anthropic/{name}"), json!(true));
    assert_eq!(
        models(&live, "anthropic", "listed"),
        [
            listed("claude-sonnet-99"),
            listed("claude-opus-98"),
            listed("claude-sonnet-5")
        ]
    );
    assert_eq!(
        models(&live, "silent0", "listed"),
        [("silent0/s".to_owned(), Value::Null)]
    );
    assert_eq!(
        models(&live, "work", "listed")[0],
        ("work/ours".to_owned(), json!(false))
    );
    // Later lists keep the result without asking again, and the default is the newest model of its family.
    let list_count = world.mock().lists();
    let second_list: Value = client.call("agent/listModels", json!({}));
    assert_eq!(
        models(&second_list, "anthropic", "listed"),
        models(&live, "anthropic", "listed")
    );
    let current = models(&second_list, "anthropic", "current");
    assert_eq!(current[0], ("anthropic/claude-sonnet-99".to_owned(), json!(true)));
    assert_eq!(world.mock().lists(), list_count);
    let session = client.session();
    client.ask(&session, "hello");
    assert_eq!(world.wait_for_request(0).body["model"], "claude-sonnet-99");
}

#[test]
fn conversation_keeps_its_first_model() {
    for lists_old in [false, true] {
        let world = world("", "");
        let client = world.start();
        let session = client.session();
        client.ask(&session, "one");
        let old = world.wait_for_request(0).body["model"]
            .as_str()
            .unwrap()
            .to_owned();
        let newest = "claude-sonnet-99";
        let names = [newest, old.as_str()];
        world
            .mock()
            .list_models(if lists_old { &names } else { &names[..1] });
        let read_list = |client: &Client| {
            let live: Value = client.call("agent/listModels", json!({"live": true}));
            let listed = models(&live, "anthropic", "listed");
            let of_newest = (format!("anthropic/{newest}"), json!(true));
            assert!(listed.contains(&of_newest), "{listed:?}");
        };
        read_list(&client);
        client.ask(&session, "two");
        assert_eq!(world.wait_for_request(1).body["model"], old, "{lists_old}");
        // The default stays while the server runs, unless the provider no longer lists it.
        client.ask(&client.session(), "three");
        let default = if lists_old { old.as_str() } else { newest };
        assert_eq!(world.wait_for_request(2).body["model"], default, "{lists_old}");
        drop(client);
        // A restarted server keeps it, too; a new conversation starts with the newest model.
        let client = world.start();
        read_list(&client);
        client.load(&session);
        client.ask(&session, "four");
        assert_eq!(world.wait_for_request(3).body["model"], old, "{lists_old}");
        client.ask(&client.session(), "five");
        assert_eq!(world.wait_for_request(4).body["model"], newest, "{lists_old}");
    }
}

#[test]
fn unknown_model_is_refused_with_suggestions() {
    let world = world("", "");
    world
        .mock()
        .list_models(&["claude-sonnet-5", "claude-opus-4-8", "house-model"]);
    let client = world.start();
    let session = client.session();
    for free in [
        "anthropic/claude-sonnet-5",
        "claude-opus-4-8",
        "work/anything",
        "anthropic",
        "house-model",
    ] {
        assert_eq!(set_model(&client, &session, free), Ok(()), "{free}");
    }
    assert_eq!(world.mock().lists(), 0);
    let wrong = set_model(&client, &session, "claude-sonet-9").unwrap_err();
    assert_eq!(
        wrong,
        "unknown model anthropic/claude-sonet-9, did you mean anthropic/claude-sonnet-5? see agent/listModels"
    );
    assert_eq!(world.mock().lists(), 1);
    let wrong = client.refused("agent/newSession", json!({"model": "anthropic/claude-sonet-9"}));
    assert!(wrong.message.contains("claude-sonnet-5"), "{}", wrong.message);
    let wrong = set_model(&client, &session, "antropic/claude-sonnet-5").unwrap_err();
    assert_eq!(
        wrong,
        "unknown provider antropic in antropic/claude-sonnet-5, did you mean anthropic? the providers are anthropic, work"
    );
    for nothing in ["work/", "work/ ", "anthropic/", "work/a\u{7}b"] {
        let wrong = set_model(&client, &session, nothing).unwrap_err();
        assert!(
            wrong.contains("names no model; give provider/model, as agent/listModels shows it"),
            "{wrong}"
        );
        let wrong = client.refused("agent/newSession", json!({"model": nothing}));
        assert!(wrong.message.contains("names no model"), "{}", wrong.message);
    }
    // A refused model changes nothing.
    client.ask(&session, "hello");
    assert_eq!(world.wait_for_request(0).body["model"], "house-model");
}

#[test]
fn misspelled_model_is_refused_without_a_live_list() {
    let world = world("", "");
    world.mock().list_for("another key");
    let client = world.start();
    let session = client.session();
    let wrong = set_model(&client, &session, "claude-sonet-5").unwrap_err();
    assert!(
        wrong.contains("did you mean anthropic/claude-sonnet-5"),
        "{wrong}"
    );
    assert_eq!(set_model(&client, &session, "my-own"), Ok(()));
}

#[test]
fn model_not_found_error_suggests_the_nearest_models() {
    let world = world("model = \"claude-sonnet-55\"", "");
    world
        .mock()
        .push(Reply::error(404, "not_found_error", "model: claude-sonnet-55"));
    let client = world.start();
    let session = client.session();
    let result = json!(client.ask(&session, "hello"));
    let action = result["error"]["userAction"].as_str().unwrap();
    assert!(
        action.contains("such as claude-sonnet-5-5 or claude-sonnet-") && action.contains("/model"),
        "{action}"
    );
}

#[test]
fn last_choice_is_remembered_per_folder() {
    let world = world("model = \"claude-sonnet-5\"", "");
    let client = world.start();
    let fresh = |params: Value| -> Value { client.call("agent/newSession", params) };
    let remembered = json!({"remembered": true});
    let of = |created: &Value| {
        (
            created["model"].clone(),
            created["effort"].clone(),
            created["mode"].clone(),
        )
    };
    let none = (Value::Null, Value::Null, json!("ask"));
    assert_eq!(of(&fresh(remembered.clone())), none);
    let session = client.session();
    let params = json!({"sessionId": session, "model": "work/ours", "effort": "high"});
    let _: Value = client.call("agent/setModel", params);
    let _: Value = client.call("agent/setMode", json!({"sessionId": session, "mode": "autoEdit"}));
    let chosen = (json!("work/ours"), json!("high"), json!("autoEdit"));
    assert_eq!(of(&fresh(remembered.clone())), chosen);
    // `full` is never remembered, and a session without `remembered` gets the configured values.
    let _: Value = client.call("agent/setMode", json!({"sessionId": session, "mode": "full"}));
    assert_eq!(of(&fresh(remembered.clone())), chosen);
    assert_eq!(of(&fresh(json!({}))), none);
    // Params of the new session win, and become the remembered choice.
    let explicit = json!({"remembered": true, "effort": "low", "mode": "full"});
    assert_eq!(
        of(&fresh(explicit)),
        (json!("work/ours"), json!("low"), json!("full"))
    );
    let chosen = (json!("work/ours"), json!("low"), json!("autoEdit"));
    assert_eq!(of(&fresh(remembered.clone())), chosen);
    // Another folder has no remembered choice.
    let elsewhere = world.path("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    let other = fresh(json!({"remembered": true, "cwd": elsewhere}));
    assert_eq!(of(&other), none);
    drop(client);
    // A restarted server remembers it, and calls the model with that effort.
    let client = world.start();
    let created: Value = client.call("agent/newSession", remembered.clone());
    assert_eq!(of(&created), chosen);
    let session = created["sessionId"].as_str().unwrap();
    client.ask(session, "hello");
    let request = world.wait_for_request(0);
    assert_eq!(
        (&request.body["model"], &request.body["reasoning_effort"]),
        (&json!("ours"), &json!("low"))
    );
    drop(client);
    // If the provider is gone, its model is forgotten with a warning.
    let text = std::fs::read_to_string(world.path("config/agentls/config.toml")).unwrap();
    let without = text.replace("[provider.work]", "[provider.house]");
    std::fs::write(world.path("config/agentls/config.toml"), without).unwrap();
    let client = world.start();
    let created: Value = client.call("agent/newSession", remembered);
    assert_eq!(of(&created), (Value::Null, json!("low"), json!("autoEdit")));
    world.wait_until(|| {
        client.notes().iter().any(|notification| {
            notification.method == "agent/warning" && notification.text("message").contains("work/ours")
        })
    });
}

#[test]
fn a_session_keeps_the_provider_of_its_model() {
    const GONE: &str =
        "[provider.gone]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/\"\nmodel = \"g\"\n";
    let world = world("", "");
    let path = world.path("config/agentls/config.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("provider = \"anthropic\"", "provider = \"work\"");
    std::fs::write(&path, format!("{text}{GONE}")).unwrap();
    let client = world.start();
    let early = client.session();
    assert_eq!(set_model(&client, &early, "work/Org/model"), Ok(()));
    drop(client);
    // An earlier version stored the name that the user gave.
    let store = rusqlite::Connection::open(world.data().join("store.db")).unwrap();
    let downgrade = "UPDATE events SET json = replace(json, 'work/Org', 'Org');
        UPDATE sessions SET model = 'Org/model';
        ALTER TABLE sessions DROP COLUMN bare_model;
        PRAGMA user_version = 6;";
    store.execute_batch(downgrade).unwrap();
    drop(store);
    let client = world.start();
    let loaded = client.load(&early);
    assert_eq!(json!(loaded.state.model), "Org/model");
    let chosen = client.session();
    // A provider's own name means its default model.
    assert_eq!(set_model(&client, &chosen, "gone"), Ok(()));
    assert_eq!(json!(client.load(&chosen).state.model), "gone/g");
    let created: Value = client.call("agent/newSession", json!({"model": "gone"}));
    assert_eq!(created["model"], "gone/g");
    drop(client);
    std::fs::write(&path, text).unwrap();
    let client = world.start();
    for (session, model, is_gone) in [(&early, "Org/model", false), (&chosen, "ours", true)] {
        client.load(session);
        client.ask(session, "hello");
        let request = world.wait_for_request(world.requests() - 1);
        assert_eq!(request.body["model"], model);
        let told = client.notes().into_iter().filter(|note| {
            note.method == "agent/warning" && note.text("message").contains("is not configured")
        });
        assert_eq!(told.count() > 0, is_gone, "{model}");
    }
}

#[test]
fn remembered_model_needs_a_usable_provider() {
    let world = world("", "");
    let remembered = json!({"remembered": true});
    let path = world.path("config/agentls/config.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let client = world.start();
    assert_eq!(
        set_model(&client, &client.session(), "claude-sonnet-4-20250514"),
        Ok(())
    );
    drop(client);
    // Another provider is now the default; the remembered model keeps its provider.
    let text = text.replace("provider = \"anthropic\"", "provider = \"work\"");
    std::fs::write(&path, &text).unwrap();
    let client = world.start();
    let created: Value = client.call("agent/newSession", remembered.clone());
    assert_eq!(created["model"], "anthropic/claude-sonnet-4-20250514");
    drop(client);
    // Remove the provider's key, or its address: then it is the vendor's own, which has retired the model.
    for (setting, reason) in [
        ("api_key", "the provider anthropic no longer has an API key"),
        ("base_url", "was retired on 2026-06-15"),
    ] {
        let start = text.find(setting).unwrap();
        let end = start + text[start..].find('\n').unwrap();
        std::fs::write(&path, format!("{}{}", &text[..start], &text[end..])).unwrap();
        let client = world.start();
        let created: Value = client.call("agent/newSession", remembered.clone());
        assert_eq!(created["model"], Value::Null, "{setting}");
        world.wait_until(|| {
            client.notes().iter().any(|notification| {
                notification.method == "agent/warning" && notification.text("message").contains(reason)
            })
        });
    }
}

#[test]
fn provider_with_a_broken_setting_fails_at_the_turn() {
    let world = world("", "");
    configure(
        &world,
        "",
        "",
        "[provider.works]\nkind = \"openai\"\nbase_url = \"nonsense\"\n",
    );
    let client = world.start();
    let session = client.session();
    // The model name is valid: only the setting is broken, and the turn reports it.
    assert_eq!(set_model(&client, &session, "works/our-own"), Ok(()));
    let result = json!(client.ask(&session, "hello"));
    let message = result["error"]["message"].as_str().unwrap();
    assert!(message.contains("`base_url`"), "{message}");
    assert_eq!(world.requests(), 0);
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

/// Lets the built-in agent `explore` answer, and returns its two requests. Between them it tries to write a file.
fn explore(world: &World) -> [Value; 2] {
    let replies = [
        Reply::tool("delegate", json!({"prompt": "Where is it?", "agent": "explore"})),
        Reply::tool("bash", json!({"command": "touch written"})),
        Reply::text("In src/a.rs:1."),
        Reply::text("done"),
    ];
    replies.into_iter().for_each(|reply| world.mock().push(reply));
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    assert_eq!(client.ask(&session, "find it").text, "done");
    assert_eq!(world.read("written"), None);
    let requests = world.mock().requests();
    assert!(
        requests[3]
            .messages()
            .last()
            .unwrap()
            .to_string()
            .contains("In src/a.rs:1.")
    );
    // It answers a question, so nothing asks it for a plan.
    let [note] = requests[1].environment_notes() else {
        panic!("{:?}", requests[1].environment_notes())
    };
    assert!(
        note.contains("- mode: plan. ") && !note.contains("present_plan"),
        "{note}"
    );
    [requests[1].body.clone(), requests[2].body.clone()]
}

#[test]
fn the_explore_agent_reads_on_the_cheapest_model() {
    let [first, second] = explore(&world("model = \"claude-opus-5\"", ""));
    assert!(
        first["model"].as_str().unwrap().starts_with("claude-haiku"),
        "{first}"
    );
    assert!(first["system"].to_string().contains("You explore a code base"));
    let tools = first["tools"].as_array().unwrap().iter();
    let mut tools: Vec<&str> = tools.map(|tool| tool["name"].as_str().unwrap()).collect();
    tools.sort_unstable();
    assert_eq!(tools, ["bash", "glob", "grep", "list_dir", "read_file"]);
    assert!(second["messages"].to_string().contains("plan mode"), "{second}");
}

#[test]
fn the_explore_agent_keeps_a_model_that_is_not_known_to_be_dearer() {
    // A model that the catalogue does not know has no price, so none is known to be cheaper.
    let [first, _] = explore(&world("model = \"claude-inhouse\"", ""));
    assert_eq!(first["model"], "claude-inhouse");
    let agent = "[agent.explore]\nmodel = \"claude-sonnet-5\"\n";
    let [first, _] = explore(&world("model = \"claude-opus-5\"", agent));
    assert_eq!(first["model"], "claude-sonnet-5");
    assert!(first["system"].to_string().contains("You explore a code base"));
    let agent = "[agent.explore]\ncheap_model = false\nsystem_prompt = \"Look.\"\n";
    let [first, _] = explore(&world("model = \"claude-opus-5\"", agent));
    assert_eq!(first["model"], "claude-opus-5");
    assert!(first["system"].to_string().contains("Look."));
}

#[test]
fn a_cheap_model_that_the_provider_lacks_gives_way_to_the_callers() {
    let world = world("model = \"claude-opus-5\"", "");
    let replies = [
        Reply::tool("delegate", json!({"prompt": "Where is it?", "agent": "explore"})),
        Reply::error(404, "not_found_error", "model: claude-haiku-5-5"),
        Reply::text("In src/a.rs:1."),
        Reply::text("done"),
    ];
    replies.into_iter().for_each(|reply| world.mock().push(reply));
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    assert_eq!(client.ask(&session, "find it").text, "done");
    let requests = world.mock().requests();
    let models: Vec<&str> = requests
        .iter()
        .map(|request| request.body["model"].as_str().unwrap())
        .collect();
    assert!(models[1].starts_with("claude-haiku"), "{models:?}");
    assert_eq!([models[0], models[2], models[3]], ["claude-opus-5"; 3]);
    let told = requests[3].messages().last().unwrap().to_string();
    assert!(told.contains("In src/a.rs:1."), "{told}");
    let switched = client.all(&session, "agent/modelSwitched");
    assert_eq!(switched.len(), 1);
    assert!(
        switched[0]
            .text("why")
            .starts_with("anthropic has no claude-haiku")
    );
    // The next call does not try the missing model again.
    let replies = [
        Reply::tool("delegate", json!({"prompt": "And that?", "agent": "explore"})),
        Reply::text("In src/b.rs:2."),
        Reply::text("done"),
    ];
    replies.into_iter().for_each(|reply| world.mock().push(reply));
    assert_eq!(client.ask(&session, "find that, too").text, "done");
    let model = world.wait_for_request(5).body["model"].to_string();
    assert!(!model.contains("haiku"), "{model}");
    assert_eq!(client.all(&session, "agent/modelSwitched").len(), 1);
}

#[test]
fn a_default_model_that_the_provider_lacks_gives_way_to_one_of_its_list() {
    let world = world("", "");
    let gone = || Reply::error(404, "not_found_error", "model: it was shut down");
    world.mock().list_models(&["claude-haiku-5-5", "claude-sonnet-5"]);
    // Listed, but not for this account.
    let replies = [gone(), Reply::text("one"), Reply::text("two")];
    replies.into_iter().for_each(|reply| world.mock().push(reply));
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "hello").text, "one");
    assert_eq!(client.ask(&session, "again").text, "two");
    let models = || -> Vec<String> {
        let requests = world.mock().requests().into_iter();
        requests
            .map(|request| request.body["model"].as_str().unwrap().to_owned())
            .collect()
    };
    let [first, other @ ..] = &models()[..] else {
        panic!()
    };
    assert!(first.starts_with("claude-sonnet-5-"), "{first}");
    assert_eq!(other, ["claude-sonnet-5"; 2]);
    assert_eq!(world.mock().lists(), 1);
    let switched = client.all(&session, "agent/modelSwitched");
    assert_eq!(switched.len(), 1);
    let why = switched[0].text("why").to_owned();
    assert!(why.starts_with(&format!("anthropic has no {first}: ")), "{why}");
    // Another session does not try it again, and its replacement is a default too.
    world.mock().push(gone());
    world.mock().push(Reply::text("three"));
    assert_eq!(client.ask(&client.session(), "more").text, "three");
    assert_eq!(models()[3..], ["claude-sonnet-5", "claude-haiku-5-5"]);
    // A model that a person has named is not replaced.
    let named = client.session_with(json!({"model": "anthropic/claude-opus-5"}));
    world.mock().push(gone());
    let failed = json!(client.ask(&named, "hello"));
    assert_eq!(failed["reason"], "model_error", "{failed}");
    assert_eq!(models().len(), 6);
}

#[test]
fn a_default_model_is_not_replaced_without_the_list_of_the_provider() {
    let world = world("", "");
    let gone = || Reply::error(404, "not_found_error", "model: it was shut down");
    // A key that may not list the models.
    world.mock().list_for("another key");
    let client = world.start();
    let fails = |requests| {
        world.mock().push(gone());
        let failed = json!(client.ask(&client.session(), "hello"));
        assert_eq!(failed["reason"], "model_error", "{failed}");
        assert_eq!(world.requests(), requests);
    };
    fails(1);
    // A list without any model that is known here, as of a gateway: none is better than another.
    world.mock().list_for(&world.secrets()[2]);
    fails(2);
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
