//! Models that stand in for another one: a cheap one for a reading agent, or one that the provider has.

use serde_json::{Value, json};

use super::mock_llm::Reply;
use super::scenario::{Scenario, bash};
use super::vendor;
use crate::domain::*;

fn delegate(prompt: &str) -> Reply {
    Reply::tool("delegate", json!({"prompt": prompt, "agent": "explore"}))
}

fn gone() -> Reply {
    Reply::error(404, "not_found_error", "model: it was shut down")
}

/// Lets the built-in agent `explore` answer, and returns its two requests. Between them it tries to write a file.
fn explore(scenario: &Scenario) -> [Value; 2] {
    scenario.push_all([
        delegate("Where is it?"),
        bash("touch written"),
        Reply::text("In src/a.rs:1."),
        Reply::text("done"),
    ]);
    let client = scenario.start();
    let session = client.session_in_mode(Mode::Full);
    assert_eq!(client.ask(&session, "find it").text, "done");
    assert_eq!(scenario.read("written"), None);
    let requests = scenario.mock().requests();
    let answered = json!(requests[3].messages().last()).to_string();
    assert!(answered.contains("In src/a.rs:1."), "{answered}");
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
    let [first, second] = explore(&vendor("model = \"claude-opus-5\"", ""));
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
    let [first, _] = explore(&vendor("model = \"claude-inhouse\"", ""));
    assert_eq!(first["model"], "claude-inhouse");
    let agent = "[agent.explore]\nmodel = \"claude-sonnet-5\"\n";
    let [first, _] = explore(&vendor("model = \"claude-opus-5\"", agent));
    assert_eq!(first["model"], "claude-sonnet-5");
    assert!(first["system"].to_string().contains("You explore a code base"));
    let agent = "[agent.explore]\ncheap_model = false\nsystem_prompt = \"Look.\"\n";
    let [first, _] = explore(&vendor("model = \"claude-opus-5\"", agent));
    assert_eq!(first["model"], "claude-opus-5");
    assert!(first["system"].to_string().contains("Look."));
}

#[test]
fn a_cheap_model_that_the_provider_lacks_gives_way_to_the_callers() {
    let scenario = vendor("model = \"claude-opus-5\"", "");
    scenario.push_all([
        delegate("Where is it?"),
        Reply::error(404, "not_found_error", "model: claude-haiku-5-5"),
        Reply::text("In src/a.rs:1."),
        Reply::text("done"),
    ]);
    let client = scenario.start();
    let session = client.session_in_mode(Mode::Full);
    assert_eq!(client.ask(&session, "find it").text, "done");
    let models = scenario.requested_models();
    assert!(models[1].starts_with("claude-haiku"), "{models:?}");
    assert_eq!([&models[0], &models[2], &models[3]], ["claude-opus-5"; 3]);
    let answered = json!(scenario.wait_for_request(3).messages().last()).to_string();
    assert!(answered.contains("In src/a.rs:1."), "{answered}");
    let switches = || {
        client.all(&session, |event| match event {
            Event::Nested(nested) => match &nested.event {
                Event::ModelSwitched { why, .. } => Some(why.clone()),
                _ => None,
            },
            Event::ModelSwitched { why, .. } => Some(why.clone()),
            _ => None,
        })
    };
    let [why] = &switches()[..] else {
        panic!("{:?}", switches())
    };
    assert!(why.starts_with("anthropic has no claude-haiku"), "{why}");
    // The next call does not try the missing model again.
    scenario.push_all([
        delegate("And that?"),
        Reply::text("In src/b.rs:2."),
        Reply::text("done"),
    ]);
    assert_eq!(client.ask(&session, "find that, too").text, "done");
    let model = &scenario.requested_models()[5];
    assert!(!model.contains("haiku"), "{model}");
    assert_eq!(switches().len(), 1);
}

#[test]
fn a_default_model_that_the_provider_lacks_gives_way_to_one_of_its_list() {
    let scenario = vendor("", "");
    scenario
        .mock()
        .list_models(&["claude-haiku-5-5", "claude-sonnet-5"]);
    // Listed, but not for this account.
    scenario.push_all([gone(), Reply::text("one"), Reply::text("two")]);
    let client = scenario.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "hello").text, "one");
    assert_eq!(client.ask(&session, "again").text, "two");
    let [first, other @ ..] = &scenario.requested_models()[..] else {
        panic!()
    };
    assert!(first.starts_with("claude-sonnet-5-"), "{first}");
    assert_eq!(other, ["claude-sonnet-5"; 2]);
    assert_eq!(scenario.mock().lists(), 1);
    let switches = client.model_switches(&session);
    let [(_, _, why)] = &switches[..] else {
        panic!("{switches:?}")
    };
    assert!(why.starts_with(&format!("anthropic has no {first}: ")), "{why}");
    // Another session does not try it again, and its replacement is a default too.
    scenario.push_all([gone(), Reply::text("three")]);
    assert_eq!(client.ask(&client.session(), "more").text, "three");
    assert_eq!(
        scenario.requested_models()[3..],
        ["claude-sonnet-5", "claude-haiku-5-5"]
    );
    // A model that a person has named is not replaced.
    let named = client.session_of_model("anthropic/claude-opus-5");
    scenario.push(gone());
    let failed = client.ask(&named, "hello");
    assert_eq!(failed.end.reason, TerminalReason::ModelError, "{failed:?}");
    assert_eq!(scenario.requests(), 6);
}

#[test]
fn a_default_model_is_not_replaced_without_the_list_of_the_provider() {
    let scenario = vendor("", "");
    // A key that may not list the models.
    scenario.mock().list_for("another key");
    let client = scenario.start();
    let fails = |requests| {
        scenario.push(gone());
        let failed = client.ask(&client.session(), "hello");
        assert_eq!(failed.end.reason, TerminalReason::ModelError, "{failed:?}");
        assert_eq!(scenario.requests(), requests);
    };
    fails(1);
    // A list without any model that is known here, as of a gateway: none is better than another.
    scenario.mock().list_for("sk-listed");
    fails(2);
}
