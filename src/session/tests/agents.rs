//! Named agents: each has its own model, route, instructions, tools and limits.

use std::iter::repeat_with;

use serde_json::json;

use super::mock_llm::{RecordedRequest, Reply};
use super::scenario::{Config, Scenario, bash, unavailable};
use crate::domain::*;
use crate::session::*;
use crate::store::ContentChoice;

fn system(request: &RecordedRequest) -> &str {
    request.body["system"][0]["text"].as_str().unwrap()
}

#[test]
fn a_named_agent_has_its_own_prompt_model_tools_and_limits() {
    let scenario = Scenario::with_tables(
        "[agent.researcher]\nmodel = 'wise'\nmode = 'plan'\nmax_steps = 1\n\
         prompt_file = 'researcher.md'\ntools = ['read_*', 'grep', 'bash']\ndeny_tools = 'bash'\n",
    );
    std::fs::write(scenario.path("config/agentls/researcher.md"), "Only read.\n").unwrap();
    let client = scenario.start();
    let session = client.session_of_agent("researcher");
    assert_eq!(client.inspect(&session).choice.mode, Mode::Plan);
    scenario.push(bash("true"));
    let end = client.ask(&session, "look").end;
    assert_eq!(
        (end.reason, end.state),
        (TerminalReason::MaxTurns, TurnState::Failed)
    );
    let request = scenario.wait_for_request(0);
    assert_eq!(request.body["model"], "wise");
    let prompt = system(&request);
    assert!(prompt.starts_with("Only read.\n\nWhat tools return"), "{prompt}");
    // Its list allows `read_skill` as well, but there is no skill.
    let tools = request.body["tools"].as_array().unwrap().iter();
    let tools: Vec<_> = tools.map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(tools, ["read_file", "grep"]);
    // A tool that the agent does not have cannot be called either.
    let result = client.next_call(&session, ToolCallStatus::Failed).result.unwrap();
    assert!(result.text.contains("bash"), "{result:?}");

    // The default agent is unaffected.
    client.ask(&client.session(), "hello");
    let request = scenario.wait_for_request(1);
    assert_eq!(request.body["model"], "mock-model");
    let prompt = system(&request);
    assert!(prompt.starts_with("You are a coding agent"), "{prompt}");
    assert!(
        prompt.contains("Act by calling tools"),
        "an unknown model gets the text for open models"
    );
    let nobody = NewSession {
        agent: Some("nobody".to_owned()),
        ..NewSession::default()
    };
    let refused = client.try_session(nobody).unwrap_err();
    assert_eq!(refused, NewSessionError::UnknownAgent("nobody".to_owned()));
}

#[test]
fn an_agent_and_a_model_that_are_gone_are_named_and_nothing_becomes_looser() {
    let scenario = Scenario::with_tables(
        "[agent.reviewer]\nmode = 'plan'\n\
         [provider.gone]\nkind = 'openai'\nbase_url = 'http://127.0.0.1:9/'\napi_key = 'k'\n",
    );
    let client = scenario.start();
    let chosen = NewSession {
        agent: Some("reviewer".to_owned()),
        choice: ContentChoice {
            model: Some("gone/model".to_owned()),
            ..ContentChoice::default()
        },
        ..NewSession::default()
    };
    let [session, other] = [(); 2].map(|()| client.session_with(chosen.clone()));
    for session in [&session, &other] {
        let title = "t".to_owned();
        let rename = |reply| SessionCommand::Rename { title, reply };
        client.request(session, rename).unwrap();
    }
    scenario.configure(Config::default());
    assert_eq!(client.reload_config(), []);
    for _ in 0..2 {
        let write = json!({"path": "b.txt", "content": "x"});
        client.call_freely(&session, Reply::tool("write_file", write));
        assert_eq!(scenario.requested_models().last().unwrap(), "mock-model");
    }
    assert_eq!(scenario.read("b.txt"), None, "the mode is still `plan`");
    let warnings = client.warnings_with(&session, "reviewer");
    let [first, second] = &warnings[..] else {
        panic!("{warnings:?}")
    };
    assert!(
        first.contains("gone/model") && first.contains("mock/mock-model is used"),
        "{first}"
    );
    assert!(
        !second.contains("gone/model"),
        "the session has another model: {second}"
    );
    drop(client);

    let client = scenario.start();
    for (session, has_model) in [(&session, false), (&other, true)] {
        let snapshot = client.load(session).snapshot;
        assert_eq!(snapshot.choice.mode, Mode::Plan);
        let gone = client.configured.describe_gone(&snapshot).unwrap();
        assert!(
            gone.contains("reviewer") && gone.contains("gone/model") == has_model,
            "{gone}"
        );
    }
}

#[test]
fn missing_prompt_file_warns_and_the_default_prompt_applies() {
    let scenario = Scenario::with_tables("[agent.x]\nprompt_file = 'gone.md'\n");
    let client = scenario.start();
    let session = client.session_of_agent("x");
    client.ask(&session, "hello");
    assert!(system(&scenario.wait_for_request(0)).starts_with("You are a coding agent"));
    let warnings = client.warnings(&session, "instructions_problem");
    let [warning] = &warnings[..] else {
        panic!("{warnings:?}")
    };
    assert!(warning.contains("gone.md: it is missing"), "{warning}");
    // The file appears later.
    scenario.mock().allow_rewrites();
    std::fs::write(scenario.path("config/agentls/gone.md"), "Here now.").unwrap();
    client.ask(&session, "again");
    assert!(system(&scenario.wait_for_request(1)).starts_with("Here now."));
}

#[test]
fn agent_route_takes_precedence_over_the_providers_fallback() {
    let scenario = Scenario::with(Config {
        provider: "fallback = \"responses\"".to_owned(),
        tables: "[agent.x]\nroute = ['other/special', 'responses']\n".to_owned(),
        ..Config::default()
    });
    // Exhaust the retries of the first provider.
    scenario.push_all(repeat_with(unavailable).take(4));
    let client = scenario.start();
    let session = client.session_of_agent("x");
    let outcome = client.ask(&session, "hello");
    assert_eq!(outcome.end.state, TurnState::Completed);
    assert_eq!(client.model_switches(&session)[0].1, "other/special");
    assert_eq!(scenario.requested_models()[4], "special");
}

#[test]
fn untrusted_folder_cannot_set_an_agents_prompt_file() {
    let scenario = Scenario::new();
    let secret = scenario.path("secret.md");
    std::fs::write(&secret, "do not tell").unwrap();
    let config = format!("[agent.default]\nprompt_file = '{}'\n", secret.display());
    scenario.write(".agentls/config.toml", config);
    let client = scenario.start();
    client.ask(&client.session(), "hello");
    assert!(!scenario.raw_request(0).contains("do not tell"));
}
