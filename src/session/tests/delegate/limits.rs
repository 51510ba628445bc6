//! Limits that a turn shares with its sub-agents.

use std::time::Duration;

use serde_json::{Value, json};

use super::mock_llm::Reply;
use super::scenario::{Scenario, read_file};
use super::{ScriptedAgents, delegate, delegate_output, nested_events, requests_of, start};
use crate::domain::*;

/// A model that costs one dollar per thousand tokens.
const EXPENSIVE_MODEL: &str = "[model.mock-dear]\ninput = 1000.0\noutput = 1000.0\ncontext_window = 200000\n";

#[test]
fn turn_budget_includes_its_children() {
    let (scenario, agents) = start("model = \"mock-dear\"\nmax_turn_cost = 20.0", EXPENSIVE_MODEL);
    let call = |n: u64| Reply::tool("read_file", json!({"path": "a.txt", "offset": n})).tokens(4_000, 10);
    agents.push_reply("me", delegate(json!({"prompt": "child: x"})).tokens(4_000, 10));
    (0..40).for_each(|n| _ = agents.push_reply("child", call(n)));
    let client = scenario.start();
    let session = client.session();
    let end = client.ask(&session, "me: do it").end;
    assert_eq!(
        (end.reason, end.state),
        (TerminalReason::BudgetExceeded, TurnState::Failed),
        "{end:?}"
    );
    let output = delegate_output(&client, &session);
    assert!(output.contains("[budget_exceeded] turn cost $"), "{output}");
    // I14: the overrun is at most one call in flight.
    let cost = end.cost.unwrap().to_usd();
    assert!(cost < 20.0 + 4.1, "{cost}");
}

#[test]
fn children_at_a_limit_ask_once_and_share_the_raise() {
    let (scenario, agents) = start("model = \"mock-dear\"\nmax_turn_cost = 9.0", EXPENSIVE_MODEL);
    let names = ["a", "b", "c"];
    let tasks = names.map(|name| json!({"prompt": format!("{name}: x")}));
    agents.push_reply(
        "me",
        delegate(json!({"prompt": "", "tasks": tasks})).tokens(4_000, 10),
    );
    for name in names {
        // The limit counts what the requests in progress may cost, so these must be so at the same time.
        let first = read_file("a.txt").tokens(10, 10);
        agents
            .push_reply(name, first.delay(Duration::from_secs(1)))
            .push_reply(name, Reply::text("done").tokens(10, 10));
    }
    agents.push_reply("me", Reply::text("done").tokens(10, 10));
    let client = scenario.start_asking();
    let session = client.session();
    let turn = client.prompt(&session, "me: do it");
    let inquiry = client.next_inquiry(&session);
    let RequestSubject::Limit(reached) = &inquiry.subject else {
        panic!("{inquiry:?}")
    };
    assert_eq!(reached.limit, LimitName::TurnCost);
    client.raise(&inquiry, 500.0);
    assert_eq!(client.outcome(turn).text, "done");
    let inquiries = client.all(&session, |event| match event {
        Event::InquiryRequested(inquiry) => Some(inquiry.clone()),
        _ => None,
    });
    assert_eq!(inquiries.len(), 1, "{inquiries:?}");
}

#[test]
fn eight_children_survive_repeated_429_responses() {
    let scenario = Scenario::with_provider("max_retries = 8");
    let agents = ScriptedAgents::of(&scenario);
    let names: Vec<String> = (0..8).map(|n| format!("c{n}")).collect();
    let tasks = names.iter().map(|name| json!({"prompt": format!("{name}: x")}));
    let throttled = |n: usize| {
        Reply::error(429, "rate_limit_error", "slow down")
            .header("retry-after-ms", &(20 + 10 * n).to_string())
            .header("anthropic-ratelimit-requests-limit", "50")
            .header("anthropic-ratelimit-requests-remaining", "0")
            .header("anthropic-ratelimit-requests-reset", "1s")
    };
    let tasks = tasks.collect::<Vec<Value>>();
    agents.push_reply("me", delegate(json!({"prompt": "", "tasks": tasks})));
    for name in &names {
        (0..3).for_each(|n| _ = agents.push_reply(name, throttled(n)));
        agents.push_reply(name, Reply::text(format!("{name} is done")));
    }
    agents.push_reply("me", Reply::text("done"));
    let client = scenario.start();
    let session = client.session();
    let began_ms = scenario.wall_ms();
    assert_eq!(client.ask(&session, "me: do it").text, "done");
    let took_ms = scenario.wall_ms() - began_ms;
    assert!(took_ms < 60_000, "{took_ms}");
    let output = delegate_output(&client, &session);
    assert!(output.starts_with("[8 of 8 sub-agents succeeded]"), "{output}");
    let retries = nested_events(&client, &session, |event| {
        matches!(event, Event::Retry { .. }).then_some(())
    });
    assert_eq!(retries.len(), 24);
    assert_eq!(
        client.retry_delays(&session),
        [0; 0],
        "all retries are of children"
    );
    // The pacer is shared per account and reports the waits of children.
    let waits = nested_events(&client, &session, |event| {
        matches!(event, Event::Wait { .. }).then_some(())
    });
    assert!(!waits.is_empty());
}

#[test]
fn max_subagents_limits_the_subagents_of_a_turn() {
    let (scenario, agents) = start("max_subagents = 3", "");
    let delegate_both = |names: [&str; 2]| {
        let tasks = names.map(|name| json!({"prompt": format!("{name}: go")}));
        delegate(json!({"prompt": "", "tasks": tasks, "join": "allow_failures"}))
    };
    agents
        .push_reply("me", delegate_both(["one", "two"]))
        .push_reply("me", delegate_both(["three", "four"]));
    let client = scenario.start();
    client.ask(&client.session(), "me: go");
    let request_counts = ["one", "two", "three", "four"].map(|name| requests_of(&scenario, name).len());
    assert_eq!(request_counts[..2], [1, 1]);
    assert_eq!(request_counts[2] + request_counts[3], 1, "{request_counts:?}");
    let sent = requests_of(&scenario, "me")[2].body.to_string();
    assert!(
        sent.contains("max_subagents") && sent.contains("3 sub-agents"),
        "{sent}"
    );
}
