//! What the outcomes of sub-agents mean for the call and for the turn.

use serde_json::json;

use super::mock_llm::{Gate, Reply};
use super::{
    ScriptedAgents, delegate, delegate_output, delegate_result, permanent_error, requests_of, start,
};
use crate::domain::*;

/// Join, which of a, b, c fail, then the expected status, end and text of the result.
type JoinCase = (
    &'static str,
    &'static str,
    ToolCallStatus,
    TerminalReason,
    &'static str,
);

fn join_cases() -> [JoinCase; 8] {
    use TerminalReason::{Completed as Ended, JoinViolated};
    use ToolCallStatus::{Completed, Failed};
    [
        (
            "all_required",
            "",
            Completed,
            Ended,
            "[3 of 3 sub-agents succeeded]",
        ),
        (
            "all_required",
            "b",
            Failed,
            JoinViolated,
            "[2 of 3 sub-agents succeeded; all of them were required]",
        ),
        (
            "",
            "b",
            Failed,
            Ended,
            "[2 of 3 sub-agents succeeded; all of them were required]",
        ),
        (
            "allow_failures",
            "abc",
            Completed,
            Ended,
            "[0 of 3 sub-agents succeeded]",
        ),
        (
            "first_success",
            "ab",
            Completed,
            Ended,
            "[1 of 3 sub-agents succeeded]",
        ),
        ("first_success", "abc", Failed, JoinViolated, "that is too few"),
        (
            "quorum(2)",
            "a",
            Completed,
            Ended,
            "[2 of 3 sub-agents succeeded]",
        ),
        ("quorum(2)", "ab", Failed, JoinViolated, "that is too few"),
    ]
}

fn script_join(agents: &ScriptedAgents, join: &str, failing: &str) {
    let task = |prompt: &str| json!({"prompt": prompt});
    let tasks = json!([task("a: x"), task("b: x"), task("c: x")]);
    let mut input = json!({"prompt": "", "tasks": tasks});
    if !join.is_empty() {
        input["join"] = json!(join);
    }
    agents.push_reply("me", delegate(input));
    for name in ["a", "b", "c"] {
        let reply = if failing.contains(name) {
            permanent_error()
        } else {
            Reply::text(format!("{name} is done"))
        };
        agents.push_reply(name, reply);
    }
    agents.push_reply("me", Reply::text("done"));
}

#[test]
fn each_join_policy_decides_the_outcome() {
    for (join, failing, status, reason, expected) in join_cases() {
        let (scenario, agents) = start("", "");
        script_join(&agents, join, failing);
        let client = scenario.start();
        let session = client.session();
        let end = client.ask(&session, "me: do it").end;
        let call = delegate_result(&client, &session);
        assert_eq!((call.status, end.reason), (status, reason), "{join} {failing}");
        let output = &call.result.unwrap().text;
        assert!(output.contains(expected), "{join} {failing}: {output}");
        if reason == TerminalReason::JoinViolated {
            let error = end.error.unwrap();
            assert_eq!(
                (end.state, error.code),
                (TurnState::Failed, ErrorCode::ToolExecution)
            );
            assert_eq!(error.message, "too few sub-agents succeeded");
            assert_eq!(client.reasons(&session).last(), Some(&"join_violated"));
        }
    }
}

#[test]
fn subagent_failure_policy_decides_the_turns_end() {
    for (policy, reason, state) in [
        ("continue", TerminalReason::Completed, TurnState::Completed),
        ("degrade", TerminalReason::Completed, TurnState::Degraded),
        ("fail", TerminalReason::SubagentFailed, TurnState::Failed),
    ] {
        let (scenario, agents) = start(&format!("subagent_failure = \"{policy}\""), "");
        agents
            .push_reply("me", delegate(json!({"prompt": "child: x"})))
            .push_reply("child", permanent_error())
            .push_reply("me", Reply::text("done"));
        let client = scenario.start();
        let end = client.ask(&client.session(), "me: do it").end;
        assert_eq!((end.reason, end.state), (reason, state));
        if policy == "fail" {
            let error = end.error.unwrap();
            assert_eq!(error.message, "a sub-agent failed");
            let cause = error.cause.as_deref().unwrap();
            assert!(cause.contains("no such thing"), "{cause}");
        }
    }
}

#[test]
fn first_success_cancels_the_others_and_closes_their_connections() {
    let (scenario, agents) = start("", "");
    let (slow, quick) = (Gate::new(), Gate::new());
    let tasks = json!([{"prompt": "slow: x"}, {"prompt": "quick: x"}]);
    agents
        .push_reply(
            "me",
            delegate(json!({"prompt": "", "tasks": tasks, "join": "first_success"})),
        )
        .push_reply("slow", Reply::text("I think\nthat").gate(&slow))
        .push_reply("quick", Reply::text("found").gate_first(&quick))
        .push_reply("me", Reply::text("done"));
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "me: do it");
    client.next_delta(&session, |delta| match delta {
        Delta::ToolOutput { text, .. } if text.contains("I think") => Some(()),
        _ => None,
    });
    quick.release();
    assert_eq!(client.outcome(turn).text, "done");
    let output = delegate_output(&client, &session);
    assert!(
        output.contains("## 1: cancelled; ") && output.contains("I think"),
        "{output}"
    );
    assert!(output.contains("## 2: completed"), "{output}");
    let slow = requests_of(&scenario, "slow").swap_remove(0);
    let progress = client.wait_for(scenario.mock().wait_closed(&slow));
    assert!(progress.dropped);
}
