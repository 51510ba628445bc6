//! What the configured rules and the mode decide.

use serde_json::json;

use super::allow_with;
use super::mock_llm::Reply;
use super::scenario::{Scenario, bash, fake_bash, read_file, write_file};
use crate::domain::*;

#[test]
fn configured_rules_decide_and_deny_wins() {
    let scenario = Scenario::with_tables(
        "[approvals]\nallow = [\"write_file(free/**)\"]\ndeny = [\"write_file(**/secret.txt)\"]\n\
         require_approval = [\"read_file(slow/**)\"]\n",
    );
    scenario.write("slow/a", "a\n");
    let client = scenario.start();
    let session = client.session_in_mode(Mode::Full);
    let both = Reply::new()
        .call("write_file", json!({"path": "free/a", "content": "a"}))
        .call("write_file", json!({"path": "free/secret.txt", "content": "a"}));
    client.call_freely(&session, both);
    assert_eq!(
        (
            scenario.read("free/a").as_deref(),
            scenario.read("free/secret.txt")
        ),
        (Some("a"), None)
    );
    client.next_call(&session, ToolCallStatus::Denied);
    client.call_asking(&session, read_file("slow/a"), DecisionKind::Allow);
    // Edited input cannot bypass a deny rule either.
    let edited = allow_with(json!({"path": "secret.txt", "content": "b"}));
    client.call_deciding(&client.session(), write_file("b", "b"), edited);
    assert_eq!(scenario.read("secret.txt"), None);
}

/// External testers found that `bsh(touch*)` was ignored: in mode `full` the command ran.
#[test]
fn invalid_deny_rule_makes_everything_but_reads_ask() {
    let scenario = Scenario::with_tables("[approvals]\nallow = [\"bash\"]\ndeny = [\"bsh(touch*)\"]\n");
    scenario.write("a", "content a\n");
    let client = scenario.start_with_tools([fake_bash()]);
    let session = client.session_in_mode(Mode::Full);
    client.call_freely(&session, read_file("a"));
    let approval = client.call_asking(&session, bash("touch ran"), DecisionKind::Deny);
    let reason = approval.why;
    assert!(reason.starts_with("the deny rule `bsh(touch*)` ("), "{reason}");
    assert!(reason.contains("is invalid"), "{reason}");
    assert_eq!(approval.rule, None);
    assert_eq!(scenario.read("ran"), None);
}

/// With a `deny` rule, known commands run in mode `full` and others ask. In mode `ask` no rule allows what bash
/// does implicitly.
#[test]
fn commands_that_may_run_hidden_commands_ask() {
    let scenario = Scenario::with_tables("[approvals]\nallow = [\"bash(ls*)\"]\ndeny = [\"bash(touch*)\"]\n");
    let client = scenario.start_with_tools([fake_bash()]);
    for (mode, command, needs_approval) in [
        (Mode::Full, "ls -la", false),
        (Mode::Full, "frobnicate touch ran", true),
        (Mode::Full, "x='a[$(touch ran)]'; ((x))", true),
        (Mode::Full, "source /dev/stdin <<< 'touch ran'", true),
        (Mode::Ask, "ls", false),
        (Mode::Ask, "{ ls; } {PATH}>/dev/null", true),
        (Mode::Ask, "ls </dev/tcp/127.0.0.1/1", true),
        (Mode::Ask, "ls/evil", true),
    ] {
        let session = client.session_in_mode(mode);
        if needs_approval {
            client.call_asking(&session, bash(command), DecisionKind::Deny);
        } else {
            client.call_freely(&session, bash(command));
        }
    }
}

#[test]
fn plan_mode_changes_nothing() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = client.session_in_mode(Mode::Plan);
    client.call_freely(&session, write_file("a", "a"));
    assert_eq!(scenario.read("a"), None);
    client.next_call(&session, ToolCallStatus::Denied);
}
