//! Settings that change between and during turns.

use std::collections::BTreeMap;

use super::mock_llm::{Gate, Reply};
use super::scenario::{Config, Scenario, bash, fake_bash};
use crate::domain::*;

#[test]
fn trust_change_applies_from_the_next_turn() {
    let scenario = Scenario::new();
    scenario.write(
        ".agentls/config.toml",
        "[approvals]\nallow = [\"bash(touch *)\"]\n",
    );
    let client = scenario.start_with_tools([fake_bash()]);
    let session = client.session();
    let call = || bash("touch made");
    for is_trusted in [false, true, false] {
        let folder = scenario.workspace();
        client
            .configured
            .set_trust(&folder, is_trusted, None, &BTreeMap::new());
        if is_trusted {
            client.call_freely(&session, call());
        } else {
            client.call_asking(&session, call(), DecisionKind::Allow);
        }
    }
}

#[test]
fn model_set_during_a_turn_applies_to_the_next_turn() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = client.session();
    client.ask(&session, "one");
    let gate = Gate::new();
    scenario.push(Reply::text("hm").gate(&gate));
    let turn = client.prompt(&session, "two");
    client.set_model(&session, "other/other-model").unwrap();
    scenario.wait_at_gate(&gate);
    gate.release();
    client.outcome(turn);
    let model = client.load(&session).snapshot.choice.model;
    assert_eq!(model.as_deref(), Some("other/other-model"));
    client.ask(&session, "three");
    assert_eq!(
        scenario.requested_models(),
        ["mock-model", "mock-model", "other-model"]
    );
}

#[test]
fn broken_provider_of_a_session_is_not_replaced() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = client.session_of_model("other/other-model");
    assert_eq!(client.ask(&session, "one").text, "ok");
    let broken = "[provider.mock]\nkind = \"anthropic\"\nbase_url = \"URL\"\napi_key = \"k\"\nmodel = \"mock-model\"\n\
                  [provider.other]\nkind = \"openai\"\nmodel = \"other-model\"\n[agent.default]\nprovider = \"mock\"\n";
    let url = scenario.mock().anthropic_url();
    scenario.configure(Config::from_text(broken.replace("URL", &url)));
    client.reload_config();
    let end = client.ask(&session, "two").end;
    assert_eq!(end.reason, TerminalReason::NotConfigured);
    let error = end.error.unwrap();
    assert!(error.message.contains("base_url"), "{error:?}");
    assert_eq!(scenario.requests(), 1);
}
