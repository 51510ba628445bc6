//! Names of models: which are accepted, and what a refusal suggests.

use super::mock_llm::Reply;
use super::scenario::{Config, Scenario};
use super::{configure, refuse_session, set_model, vendor};

#[test]
fn without_a_usable_provider_a_name_must_not_begin_with_an_unknown_one() {
    let scenario = Scenario::with(Config::from_text("[agent.default]\nprovider = \"nowhere\"\n"));
    let client = scenario.start();
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
fn unknown_model_is_refused_with_suggestions() {
    let scenario = vendor("", "");
    scenario
        .mock()
        .list_models(&["claude-sonnet-5", "claude-opus-4-8", "house-model"]);
    let client = scenario.start();
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
    assert_eq!(scenario.mock().lists(), 0);
    let wrong = set_model(&client, &session, "claude-sonet-9").unwrap_err();
    assert_eq!(
        wrong,
        "unknown model anthropic/claude-sonet-9, did you mean anthropic/claude-sonnet-5? see agent/listModels"
    );
    assert_eq!(scenario.mock().lists(), 1);
    let wrong = refuse_session(&client, "anthropic/claude-sonet-9");
    assert!(wrong.contains("claude-sonnet-5"), "{wrong}");
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
        let wrong = refuse_session(&client, nothing);
        assert!(wrong.contains("names no model"), "{wrong}");
    }
    // A refused model changes nothing.
    client.ask(&session, "hello");
    assert_eq!(scenario.requested_models(), ["house-model"]);
}

#[test]
fn misspelled_model_is_refused_without_a_live_list() {
    let scenario = vendor("", "");
    scenario.mock().list_for("another key");
    let client = scenario.start();
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
    let scenario = vendor("model = \"claude-sonnet-55\"", "");
    scenario.push(Reply::error(404, "not_found_error", "model: claude-sonnet-55"));
    let client = scenario.start();
    let error = client.ask(&client.session(), "hello").end.error.unwrap();
    let action = error.user_action.unwrap();
    assert!(
        action.contains("such as claude-sonnet-5-5 or claude-sonnet-") && action.contains("/model"),
        "{action}"
    );
}

#[test]
fn provider_with_a_broken_setting_fails_at_the_turn() {
    let scenario = vendor("", "");
    let broken = "[provider.works]\nkind = \"openai\"\nbase_url = \"nonsense\"\n";
    configure(&scenario, "", "", broken);
    let client = scenario.start();
    let session = client.session();
    // The model name is valid: only the setting is broken, and the turn reports it.
    assert_eq!(set_model(&client, &session, "works/our-own"), Ok(()));
    let message = client.ask(&session, "hello").end.error.unwrap().message;
    assert!(message.contains("`base_url`"), "{message}");
    assert_eq!(scenario.requests(), 0);
}

#[test]
fn retired_model_of_a_vendor_is_refused() {
    // Only at the vendor's own address is it known what was retired. Its list is not needed.
    let scenario = Scenario::with(Config::from_text("[provider.anthropic]\napi_key = \"sk-none\"\n"));
    let client = scenario.start();
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
