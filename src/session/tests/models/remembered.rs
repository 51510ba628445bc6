//! The choice of a model that outlives its session, its server, or its provider.

use super::scenario::{Client, Scenario};
use super::{set_model, vendor};
use crate::domain::*;
use crate::provider::Effort;
use crate::session::*;
use crate::store::ContentChoice;

/// Creates a session whose gaps are filled with the last choice.
fn create_remembered(client: &Client, choice: ContentChoice) -> CreatedSession {
    let wanted = NewSession {
        choice,
        remembered: true,
        ..NewSession::default()
    };
    client.try_session(wanted).unwrap()
}

/// Returns model, effort and mode of a new session.
fn chosen(created: &CreatedSession) -> (Option<&str>, Option<Effort>, Mode) {
    (created.model.as_deref(), created.effort, created.mode)
}

fn remembered(client: &Client) -> CreatedSession {
    create_remembered(client, ContentChoice::default())
}

/// Chooses a model and a high effort.
fn choose_own_model(client: &Client, session: &SessionId) {
    let (model, effort) = ("work/ours".to_owned(), EffortChoice::Chosen(Effort::High));
    let choose = client
        .sessions
        .choose_model(&client.configured, session, Some(model), Some(effort));
    client.wait_for(choose).unwrap();
}

#[test]
fn last_choice_is_remembered_per_folder() {
    let scenario = vendor("model = \"claude-sonnet-5\"", "");
    let client = scenario.start();
    let nothing = (None, None, Mode::Ask);
    assert_eq!(chosen(&remembered(&client)), nothing);
    let session = client.session();
    choose_own_model(&client, &session);
    client.set_mode(&session, Mode::AutoEdit);
    let last = (Some("work/ours"), Some(Effort::High), Mode::AutoEdit);
    assert_eq!(chosen(&remembered(&client)), last);
    // `full` is never remembered, and a session without `remembered` gets the configured values.
    client.set_mode(&session, Mode::Full);
    assert_eq!(chosen(&remembered(&client)), last);
    assert_eq!(
        chosen(&client.try_session(NewSession::default()).unwrap()),
        nothing
    );
    // Params of the new session win, and become the remembered choice.
    let explicit = ContentChoice {
        effort: Some("low".to_owned()),
        mode: Some(Mode::Full),
        ..ContentChoice::default()
    };
    assert_eq!(
        chosen(&create_remembered(&client, explicit)),
        (Some("work/ours"), Some(Effort::Low), Mode::Full)
    );
    let last = (Some("work/ours"), Some(Effort::Low), Mode::AutoEdit);
    assert_eq!(chosen(&remembered(&client)), last);
    // Another folder has no remembered choice.
    let elsewhere = scenario.path("elsewhere");
    std::fs::create_dir_all(&elsewhere).unwrap();
    let other = client.try_session(NewSession {
        folder: elsewhere,
        remembered: true,
        ..NewSession::default()
    });
    assert_eq!(chosen(&other.unwrap()), nothing);
    drop(client);
    // A restarted server remembers it, and calls the model with that effort.
    let client = scenario.start();
    let created = remembered(&client);
    assert_eq!(chosen(&created), last);
    client.ask(&created.id, "hello");
    let body = &scenario.wait_for_request(0).body;
    assert_eq!(
        (&body["model"], &body["reasoning_effort"]),
        (&"ours".into(), &"low".into())
    );
    drop(client);
    // If the provider is gone, its model is forgotten with a warning.
    scenario.edit_config(|text| text.replace("[provider.work]", "[provider.house]"));
    let client = scenario.start();
    let created = remembered(&client);
    assert_eq!(chosen(&created), (None, Some(Effort::Low), Mode::AutoEdit));
    let warning = created.model_gone.unwrap();
    assert!(warning.contains("work/ours"), "{warning}");
}

#[test]
fn remembered_model_needs_a_usable_provider() {
    let scenario = vendor("", "");
    let client = scenario.start();
    let named = "claude-sonnet-4-20250514";
    assert_eq!(set_model(&client, &client.session(), named), Ok(()));
    drop(client);
    // Another provider is now the default; the remembered model keeps its provider.
    let mut configured = String::new();
    scenario.edit_config(|text| {
        configured = text.replace("provider = \"anthropic\"", "provider = \"work\"");
        configured.clone()
    });
    let client = scenario.start();
    let created = remembered(&client);
    assert_eq!(
        created.model.as_deref(),
        Some("anthropic/claude-sonnet-4-20250514")
    );
    drop(client);
    // Remove the provider's key, or its address: then it is the vendor's own, which has retired the model.
    for (setting, reason) in [
        ("api_key", "the provider anthropic no longer has an API key"),
        ("base_url", "was retired on 2026-06-15"),
    ] {
        scenario.edit_config(|_| without_line(&configured, setting));
        let client = scenario.start();
        let created = remembered(&client);
        assert_eq!(created.model, None, "{setting}");
        let warning = created.model_gone.unwrap();
        assert!(warning.contains(reason), "{warning}");
    }
}

/// Removes the first setting of this name.
fn without_line(text: &str, setting: &str) -> String {
    let start = text.find(setting).unwrap();
    let end = start + text[start..].find('\n').unwrap();
    format!("{}{}", &text[..start], &text[end..])
}

/// Turns the store into that of a version that stored a model under the name that the user gave.
fn downgrade_store(scenario: &Scenario) {
    let store = rusqlite::Connection::open(scenario.path("data/agentls/store.db")).unwrap();
    let downgrade = "UPDATE events SET json = replace(json, 'work/Org', 'Org');
        UPDATE sessions SET model = 'Org/model';
        ALTER TABLE sessions DROP COLUMN bare_model;
        ALTER TABLE grants DROP COLUMN tool;
        DROP TABLE tools;
        DROP TABLE windows;
        PRAGMA user_version = 6;";
    store.execute_batch(downgrade).unwrap();
}

#[test]
fn a_session_keeps_the_provider_of_its_model() {
    const GONE: &str =
        "[provider.gone]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/\"\nmodel = \"g\"\n";
    let scenario = vendor("", "");
    let mut configured = String::new();
    scenario.edit_config(|text| {
        configured = text.replace("provider = \"anthropic\"", "provider = \"work\"");
        format!("{configured}{GONE}")
    });
    let client = scenario.start();
    let early = client.session();
    assert_eq!(set_model(&client, &early, "work/Org/model"), Ok(()));
    drop(client);
    downgrade_store(&scenario);
    let client = scenario.start();
    let model = |session| client.load(session).snapshot.choice.model;
    assert_eq!(model(&early).as_deref(), Some("Org/model"));
    let chosen = client.session();
    // A provider's own name means its default model.
    assert_eq!(set_model(&client, &chosen, "gone"), Ok(()));
    assert_eq!(model(&chosen).as_deref(), Some("gone/g"));
    let created = client.try_session(NewSession {
        choice: ContentChoice {
            model: Some("gone".to_owned()),
            ..ContentChoice::default()
        },
        ..NewSession::default()
    });
    assert_eq!(created.unwrap().model.as_deref(), Some("gone/g"));
    drop(client);
    scenario.edit_config(|_| configured);
    let client = scenario.start();
    for (session, model, is_gone) in [(&early, "Org/model", false), (&chosen, "ours", true)] {
        let snapshot = client.load(session).snapshot;
        let gone = client.configured.describe_gone(&snapshot);
        assert_eq!(
            gone.is_some_and(|gone| gone.contains("is not configured")),
            is_gone
        );
        client.ask(session, "hello");
        assert_eq!(scenario.requested_models().pop().unwrap(), model);
        let warnings = client.warnings_with(session, "is not configured");
        assert_eq!(!warnings.is_empty(), is_gone, "{model}");
    }
}
