//! Limits of a turn, a session and a day, and the answers to them: raise, stop, cancel, crash and ask again.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::mock_llm::{Gate, Reply};
use super::scenario::{Client, Config, Scenario, read_file, write_file};
use crate::domain::*;
use crate::session::*;

/// A scenario with these settings of the default agent.
fn limited(agent: &str) -> Scenario {
    let scenario = Scenario::with_agent(agent);
    scenario.write("a.txt", "a\n");
    scenario
}

fn reached(inquiry: &Inquiry) -> &LimitReached {
    match &inquiry.subject {
        RequestSubject::Limit(reached) => reached,
        RequestSubject::Question(question) => panic!("not a limit: {question:?}"),
    }
}

/// Waits for the next question about a limit, which must be this one.
fn next_limit(client: &Client, session: &SessionId, limit: LimitName) -> Arc<Inquiry> {
    let inquiry = client.next_inquiry(session);
    assert_eq!(reached(&inquiry).limit, limit, "{inquiry:?}");
    inquiry
}

fn inquiries(client: &Client, session: &SessionId) -> usize {
    client.count(session, |event| matches!(event, Event::InquiryRequested(_)))
}

/// Returns what the session has cost so far, in US dollars.
fn session_cost(client: &Client, session: &SessionId) -> f64 {
    let costs = client.all(session, |event| match event {
        Event::Usage { session_cost, .. } => Some(*session_cost),
        _ => None,
    });
    costs.last().unwrap().unwrap().to_usd()
}

fn error_message(outcome: &TurnOutcome) -> &str {
    &outcome.end.error.as_ref().unwrap().message
}

fn assert_nothing_is_open(client: &Client) {
    let approvals = client.wait_for(client.sessions.open_approvals()).unwrap();
    let inquiries = client.wait_for(client.sessions.open_inquiries()).unwrap();
    assert!(
        approvals.is_empty() && inquiries.is_empty(),
        "{approvals:?} {inquiries:?}"
    );
}

#[test]
fn wall_time_limit_interrupts_a_turn_and_it_can_be_resumed() {
    let scenario = limited("max_wall_time_s = 1.5");
    scenario.push(Reply::text("hm").gate(&Gate::new()));
    let client = scenario.start();
    let session = client.session();
    let begun_ms = scenario.wall_ms();
    let outcome = client.ask(&session, "do it");
    assert_eq!(
        client.course(&session, &outcome),
        ["wall_time", "wall_time / interrupted / wall_time_exceeded"]
    );
    assert_eq!(error_message(&outcome), "the turn has run for 1.5 s, its limit");
    assert_eq!(scenario.wall_ms() - begun_ms, 1_500);
    assert_eq!(client.outcome(client.resume(&session)).text, "ok");
}

#[test]
fn waiting_for_an_approval_is_not_wall_time() {
    let scenario = limited("max_wall_time_s = 1.5");
    scenario.push(write_file("x", "x"));
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    scenario.advance(Duration::from_secs(36_000));
    client.decide(&approval, DecisionKind::Allow);
    assert_eq!(client.outcome(turn).text, "ok");
}

#[test]
fn wall_time_limit_can_be_raised() {
    let scenario = limited("max_wall_time_s = 1.5");
    let gate = Gate::new();
    scenario.push(read_file("a.txt").gate(&gate));
    let client = scenario.start_asking();
    let session = client.session();
    let turn = client.prompt(&session, "do it");
    let inquiry = next_limit(&client, &session, LimitName::WallTime);
    // The running step completes, but no further call is made.
    gate.release();
    client.next_call(&session, ToolCallStatus::Completed);
    scenario.advance(Duration::from_secs(3_600));
    assert_eq!(scenario.requests(), 1);
    client.raise(&inquiry, 60.0);
    let outcome = client.outcome(turn);
    assert_eq!(scenario.requests(), 2);
    assert_eq!(
        client.course(&session, &outcome),
        ["next_turn", "completed", "completed / completed / no error"]
    );
    let (_, reply, by) = client.next_reply(&session);
    assert_eq!((reply, by), (InquiryReply::Raise(60), ResolvedBy::Person));
}

#[test]
fn stop_at_a_limit_interrupts_the_turn() {
    let scenario = limited("max_wall_time_s = 1.5");
    scenario.push(Reply::text("hm").gate(&Gate::new()));
    let client = scenario.start_asking();
    let session = client.session();
    let turn = client.prompt(&session, "do it");
    let inquiry = next_limit(&client, &session, LimitName::WallTime);
    client.reply(&inquiry, InquiryReply::Stop);
    let outcome = client.outcome(turn);
    assert_eq!(
        client.course(&session, &outcome),
        ["stopped_by_user", "stopped_by_user / interrupted / no error"]
    );
    // The first answer wins.
    let late = client.try_answer(&inquiry.id, InquiryAnswer::Reply(InquiryReply::Stop));
    assert_eq!(late, Err(CommandError::UnknownInquiry(inquiry.id.clone())));
    assert_eq!(client.outcome(client.resume(&session)).text, "ok");
}

#[test]
fn cancel_settles_an_open_limit() {
    let scenario = limited("max_wall_time_s = 1.5");
    scenario.push(Reply::text("hm").gate(&Gate::new()));
    let client = scenario.start_asking();
    let session = client.session();
    let turn = client.prompt(&session, "do it");
    next_limit(&client, &session, LimitName::WallTime);
    client.cancel(&session);
    assert_eq!(client.outcome(turn).end.state, TurnState::Cancelled);
    let (_, reply, by) = client.next_reply(&session);
    assert_eq!((reply, by), (InquiryReply::Stop, ResolvedBy::Cancel));
    assert_nothing_is_open(&client);
}

/// Ends a server abruptly while a session asks for more time. Returns the session and the id of the question.
fn crash_at_limit(scenario: &Scenario) -> (SessionId, InquiryId) {
    scenario.push(Reply::text("hm").gate(&Gate::new()));
    let client = scenario.start_asking();
    let session = client.session();
    let _turn = client.prompt(&session, "do it");
    let inquiry = next_limit(&client, &session, LimitName::WallTime);
    client.kill();
    (session, inquiry.id.clone())
}

#[test]
fn limit_answer_before_the_resume_is_kept() {
    let scenario = limited("max_wall_time_s = 1.5");
    let (session, limit) = crash_at_limit(&scenario);
    let client = scenario.start_asking();
    let stop = || InquiryAnswer::Reply(InquiryReply::Stop);
    client.try_answer(&limit, stop()).unwrap();
    let late = client.try_answer(&limit, stop());
    assert_eq!(late, Err(CommandError::UnknownInquiry(limit)));
    assert_nothing_is_open(&client);
    // The answer survives another crash.
    client.kill();
    let client = scenario.start_asking();
    client.load(&session);
    let outcome = client.outcome(client.resume(&session));
    assert_eq!(outcome.end.reason, TerminalReason::StoppedByUser);
    assert_eq!(scenario.requests(), 1, "the model was not called");
}

#[test]
fn new_prompt_settles_an_open_limit() {
    let scenario = limited("max_wall_time_s = 1.5");
    let (session, limit) = crash_at_limit(&scenario);
    let client = scenario.start_asking();
    client.load(&session);
    assert_eq!(client.ask(&session, "something else").text, "ok");
    let (inquiry, _, by) = client.next_reply(&session);
    assert_eq!((&inquiry.id, by), (&limit, ResolvedBy::NewPrompt));
}

/// A model that costs one dollar per thousand tokens; each request here costs about that much.
const EXPENSIVE_MODEL: &str = "[model.dear]\ninput = 1000.0\noutput = 1000.0\n";

fn expensive(agent: &str, provider: &str) -> Scenario {
    let scenario = Scenario::with(Config {
        agent: agent.to_owned(),
        provider: provider.to_owned(),
        tables: EXPENSIVE_MODEL.to_owned(),
        ..Config::default()
    });
    scenario.write("a.txt", "a\n");
    scenario
}

fn expensive_session(client: &Client) -> SessionId {
    client.session_of_model("mock/dear")
}

/// Makes an answer cost `dollars`.
fn reply_costing(reply: Reply, dollars: u64) -> Reply {
    reply.tokens(0, dollars * 1_000)
}

#[test]
fn call_that_would_exceed_the_session_limit_is_not_made() {
    let scenario = limited("max_session_cost = 5.0");
    // The output of this one call costs $5.115, which exceeds the limit.
    scenario.push(read_file("a.txt").tokens(0, 341_000));
    let client = scenario.start();
    let session = client.session();
    let outcome = client.ask(&session, "do it");
    assert_eq!(
        client.course(&session, &outcome),
        [
            "next_turn",
            "budget_exceeded",
            "budget_exceeded / failed / budget_exceeded"
        ]
    );
    assert_eq!(error_message(&outcome), "session cost $5.13 exceeds limit $5.00");
    assert_eq!(scenario.requests(), 1);
    assert_eq!(
        client.warnings(&session, "limit_near"),
        ["session cost is $5.12 of the limit of $5.00"]
    );
    // The limit applies to this session, even after a restart, and to no other.
    drop(client);
    let client = scenario.start();
    client.load(&session);
    let again = client.ask(&session, "again");
    assert_eq!(again.end.reason, TerminalReason::BudgetExceeded);
    assert_eq!(scenario.requests(), 1);
    let other = client.session();
    assert_eq!(client.ask(&other, "hi").text, "ok");
}

#[test]
fn warning_at_80_percent_comes_once() {
    let scenario = limited("max_session_cost = 100.0");
    for tokens in [5_000_000, 400_000, 10_000, 10_000] {
        scenario.push(read_file("a.txt").tokens(0, tokens));
    }
    let client = scenario.start();
    let session = client.session();
    client.ask(&session, "do it");
    assert_eq!(
        client.warnings(&session, "limit_near"),
        ["session cost is $81.00 of the limit of $100.00"]
    );
}

#[test]
fn missing_usage_is_estimated_for_limits() {
    let scenario = expensive("max_session_cost = 30.0", "");
    scenario.mock().default_reply(Reply::text("ok").tokens(0, 0));
    let client = scenario.start();
    let session = expensive_session(&client);
    let mut rounds = 0;
    while client.ask(&session, "go on").end.reason == TerminalReason::Completed {
        rounds += 1;
        assert!(rounds < 40, "the limit is never reached");
    }
    let cost = session_cost(&client, &session);
    assert!((20.0..=30.0).contains(&cost), "{cost}");
}

#[test]
fn cancelled_calls_without_usage_still_cost() {
    let scenario = expensive("max_session_cost = 30.0", "");
    let client = scenario.start();
    // Chat Completions report usage only at the end of an answer.
    let session = client.session_of_model("other/dear");
    let mut rounds = 0;
    loop {
        let gate = Gate::new();
        scenario.push(Reply::text("on and on").tokens(0, 0).gate(&gate));
        let turn = client.prompt(&session, "go on");
        client.next_text(&session);
        client.cancel(&session);
        let end = client.outcome(turn).end;
        assert_eq!(end.reason, TerminalReason::AbortedStreaming);
        let cost = session_cost(&client, &session);
        rounds += 1;
        assert!(rounds < 40, "the limit is never near: {cost}");
        if cost > 20.0 {
            break;
        }
    }
    scenario.mock().default_reply(Reply::text("ok").tokens(0, 0));
    while client.ask(&session, "go on").end.reason == TerminalReason::Completed {
        rounds += 1;
        assert!(rounds < 40, "the limit is never reached");
    }
}

#[test]
fn session_limit_is_raised_for_the_session() {
    let scenario = expensive("max_session_cost = 9.0", "");
    scenario.push(reply_costing(read_file("a.txt"), 10));
    // A client without questions has no `ask_user` tool, so the restart changes the requests.
    scenario.mock().allow_rewrites();
    let client = scenario.start_asking();
    let session = expensive_session(&client);
    let turn = client.prompt(&session, "do it");
    let inquiry = next_limit(&client, &session, LimitName::SessionCost);
    assert_eq!(reached(&inquiry).most, Cost::from_usd(9.0).0);
    assert!(reached(&inquiry).used > Cost::from_usd(10.0).0, "{inquiry:?}");
    client.raise(&inquiry, 100.0);
    assert_eq!(client.outcome(turn).text, "ok");
    assert_eq!(client.ask(&session, "more").text, "ok");
    // The raise survives a restart.
    drop(client);
    let client = scenario.start();
    client.load(&session);
    assert_eq!(client.ask(&session, "more").text, "ok");
}

#[test]
fn turn_limit_applies_to_one_turn() {
    let scenario = expensive("max_turn_cost = 9.0", "");
    scenario.push(reply_costing(read_file("a.txt"), 10));
    let client = scenario.start();
    let session = expensive_session(&client);
    let outcome = client.ask(&session, "do it");
    assert_eq!(outcome.end.reason, TerminalReason::BudgetExceeded);
    let message = error_message(&outcome);
    assert!(message.starts_with("turn cost $"), "{message}");
    assert_eq!(client.ask(&session, "next").text, "ok");
}

#[test]
fn stop_at_a_money_limit_interrupts_the_turn() {
    let scenario = expensive("max_session_cost = 9.0", "");
    scenario.push(reply_costing(read_file("a.txt"), 10));
    let client = scenario.start_asking();
    let session = expensive_session(&client);
    let turn = client.prompt(&session, "do it");
    let inquiry = next_limit(&client, &session, LimitName::SessionCost);
    client.reply(&inquiry, InquiryReply::Stop);
    let outcome = client.outcome(turn);
    assert_eq!(
        client.course(&session, &outcome),
        [
            "next_turn",
            "stopped_by_user",
            "stopped_by_user / interrupted / no error"
        ]
    );
}

/// Opens a session and exhausts its limit of $100 in six rounds.
fn exhausted_session(scenario: &Scenario, client: &Client) -> SessionId {
    let session = expensive_session(client);
    for n in 0..6 {
        scenario.push(reply_costing(Reply::text("ok"), 17));
        client.ask(&session, format!("q{n}"));
    }
    session
}

#[test]
fn manual_compaction_obeys_money_limits() {
    let scenario = expensive("max_session_cost = 100.0", "");
    for can_ask in [false, true] {
        let client = if can_ask {
            scenario.start_asking()
        } else {
            scenario.start()
        };
        let session = exhausted_session(&scenario, &client);
        let before = client.reasons(&session).len();
        let calls = scenario.requests();
        let turn = client.compact(&session);
        if can_ask {
            let inquiry = next_limit(&client, &session, LimitName::SessionCost);
            client.reply(&inquiry, InquiryReply::Stop);
        }
        let outcome = client.outcome(turn);
        let expected = if can_ask {
            ["stopped_by_user", "stopped_by_user / interrupted / no error"]
        } else {
            ["budget_exceeded", "budget_exceeded / failed / budget_exceeded"]
        };
        assert_eq!(client.course(&session, &outcome)[before..], expected);
        assert_eq!(scenario.requests(), calls);
        let compactions = client.count(&session, |event| matches!(event, Event::Compacted(_)));
        assert_eq!(compactions, 0);
        assert!(client.warnings(&session, "compaction_failed").is_empty());
    }
}

#[test]
fn money_limit_is_asked_again_after_a_crash_and_can_be_raised() {
    let scenario = expensive("max_session_cost = 9.0", "");
    scenario.push(reply_costing(read_file("a.txt"), 10));
    let client = scenario.start_asking();
    let session = expensive_session(&client);
    let _turn = client.prompt(&session, "do it");
    let inquiry = next_limit(&client, &session, LimitName::SessionCost);
    client.kill();
    let client = scenario.start_asking();
    client.load(&session);
    let turn = client.resume(&session);
    let reopened = next_limit(&client, &session, LimitName::SessionCost);
    assert_eq!(reopened.id, inquiry.id);
    client.raise(&reopened, 100.0);
    assert_eq!(client.outcome(turn).text, "ok");
    assert_eq!(inquiries(&client, &session), 1, "asked once");
}

#[test]
fn day_limit_covers_all_sessions_and_concurrent_calls() {
    let scenario = expensive("max_day_cost = 9.0", "");
    let gate = Gate::new();
    // One call reserves five to seven dollars, and costs next to nothing once it is done.
    scenario.push(Reply::text("one").tokens(0, 1).gate(&gate));
    let client = scenario.start();
    let (one, two) = (expensive_session(&client), expensive_session(&client));
    let first = client.prompt(&one, "x".repeat(4_000));
    scenario.wait_at_gate(&gate);
    let outcome = client.ask(&two, "y".repeat(8_000));
    assert_eq!(outcome.end.reason, TerminalReason::BudgetExceeded);
    let message = error_message(&outcome);
    assert!(
        message.starts_with("day cost $") && message.ends_with(" exceeds limit $9.00"),
        "{message}"
    );
    assert_eq!(scenario.requests(), 1);
    gate.release();
    client.outcome(first);
    // The reservation is released.
    scenario.push(reply_costing(Reply::text("two"), 8));
    assert_eq!(client.ask(&two, "z").text, "two");
    // The day's spending survives a restart.
    drop(client);
    let client = scenario.start();
    let three = expensive_session(&client);
    let again = client.ask(&three, "again");
    assert_eq!(again.end.reason, TerminalReason::BudgetExceeded);
}

#[test]
fn day_limit_ends_with_the_day() {
    let scenario = expensive("max_day_cost = 9.0", "");
    scenario.push(reply_costing(Reply::text("much"), 10));
    let client = scenario.start();
    let session = expensive_session(&client);
    assert_eq!(client.ask(&session, "spend").text, "much");
    let again = client.ask(&session, "again");
    assert_eq!(again.end.reason, TerminalReason::BudgetExceeded);
    scenario.advance(Duration::from_secs(86_400));
    assert_eq!(client.ask(&session, "tomorrow").text, "ok");
}

#[test]
fn provider_day_limit_applies_to_that_provider_only() {
    let scenario = expensive("", "max_day_cost = 9.0");
    scenario.push(reply_costing(Reply::text("much"), 10));
    let client = scenario.start();
    let session = expensive_session(&client);
    client.ask(&session, "spend");
    let outcome = client.ask(&session, "more");
    let message = error_message(&outcome);
    assert!(message.starts_with("day cost at mock $1"), "{message}");
    // The limit does not apply to another provider.
    let elsewhere = client.session_of_model("other/other-model");
    assert_eq!(client.ask(&elsewhere, "hi").text, "ok");
}

/// A scenario with a provider whose address does not look local, so that an unknown price does not count as free.
fn unpriced() -> Scenario {
    let scenario = Scenario::new();
    let far = scenario.mock().far_url();
    scenario.configure(Config {
        agent: "max_session_cost = 5.0".to_owned(),
        tables: format!("[provider.far]\nkind = \"anthropic\"\nbase_url = \"{far}\"\napi_key = \"k\"\n"),
        ..Config::default()
    });
    scenario.write("a.txt", "a\n");
    scenario
}

#[test]
fn unknown_price_warns_once_without_a_user() {
    let scenario = unpriced();
    scenario.push(read_file("a.txt"));
    let client = scenario.start();
    let session = client.session_of_model("far/nobody-knows");
    assert_eq!(client.ask(&session, "do it").text, "ok");
    assert_eq!(client.ask(&session, "more").text, "ok");
    assert_eq!(
        client.warnings(&session, "unknown_price"),
        ["the price of far/nobody-knows is unknown, so spending limits cannot cover it"]
    );
}

#[test]
fn unknown_price_is_asked_about_once_per_session() {
    let scenario = unpriced();
    scenario.push(read_file("a.txt"));
    let client = scenario.start_asking();
    let session = client.session_of_model("far/nobody-knows");
    let turn = client.prompt(&session, "do it");
    let inquiry = next_limit(&client, &session, LimitName::UnknownPrice);
    assert_eq!(reached(&inquiry).model.as_deref(), Some("far/nobody-knows"));
    let refused = client.try_answer(&inquiry.id, InquiryAnswer::RaiseBy(1.0));
    assert!(matches!(refused, Err(CommandError::BadReply(_))), "{refused:?}");
    client.reply(&inquiry, InquiryReply::Accept);
    assert_eq!(client.outcome(turn).text, "ok");
    assert_eq!(client.ask(&session, "more").text, "ok");
    assert_eq!(inquiries(&client, &session), 1);
    assert!(client.warnings(&session, "unknown_price").is_empty());
    // Another session asks again, and the user may stop.
    let other = client.session_of_model("far/nobody-knows");
    let turn = client.prompt(&other, "do it");
    let inquiry = next_limit(&client, &other, LimitName::UnknownPrice);
    client.reply(&inquiry, InquiryReply::Stop);
    assert_eq!(client.outcome(turn).end.reason, TerminalReason::StoppedByUser);
}

#[test]
fn tool_calls_are_limited_and_each_has_its_result() {
    let scenario = limited("max_tool_calls = 2");
    scenario.push(read_file("a.txt"));
    let two = Reply::new()
        .call("read_file", json!({"path": "a.txt"}))
        .call("read_file", json!({"path": "b.txt"}));
    scenario.push(two);
    let client = scenario.start();
    let session = client.session();
    let outcome = client.ask(&session, "do it");
    assert_eq!(
        client.course(&session, &outcome),
        [
            "next_turn",
            "max_tool_calls",
            "max_tool_calls / failed / tool_calls_exceeded"
        ]
    );
    assert_eq!(error_message(&outcome), "reached 2 tool calls without completion");
    let refused = client.next_call(&session, ToolCallStatus::Failed);
    let text = &refused.result.as_ref().unwrap().text;
    assert!(text.contains("limit of tool calls"), "{text}");
    // The history is valid, and a new turn has its own limit.
    scenario.push(read_file("a.txt"));
    assert_eq!(client.ask(&session, "go on").text, "ok");
}

#[test]
fn there_are_more_steps_where_nobody_can_raise_them() {
    for (can_ask, settings, steps) in [(true, "", 50), (false, "", 200), (false, "max_steps = 3", 3)] {
        let scenario = limited(settings);
        // Each call differs, so that the turn does not count as stuck.
        scenario.mock().respond_with(|request| {
            let pattern = format!("*{}", request.index);
            Some(Reply::tool("glob", json!({"pattern": pattern})))
        });
        let client = if can_ask {
            scenario.start_asking()
        } else {
            scenario.start()
        };
        let session = client.session();
        let turn = client.prompt(&session, "do it");
        if can_ask {
            let inquiry = next_limit(&client, &session, LimitName::Steps);
            client.reply(&inquiry, InquiryReply::Stop);
        }
        let reason = client.outcome(turn).end.reason;
        let expected = if can_ask {
            TerminalReason::StoppedByUser
        } else {
            TerminalReason::MaxTurns
        };
        assert_eq!(reason, expected);
        assert_eq!(scenario.requests(), steps, "{can_ask} {settings}");
    }
}

#[test]
fn tool_call_and_step_limits_can_be_raised() {
    let scenario = limited("max_tool_calls = 1\nmax_steps = 2");
    for _ in 0..3 {
        scenario.push(read_file("a.txt"));
    }
    let client = scenario.start_asking();
    let session = client.session();
    let turn = client.prompt(&session, "do it");
    let inquiry = next_limit(&client, &session, LimitName::ToolCalls);
    assert_eq!((reached(&inquiry).used, reached(&inquiry).most), (2, 1));
    client.raise(&inquiry, 5.0);
    let inquiry = next_limit(&client, &session, LimitName::Steps);
    client.raise(&inquiry, 1.0);
    let inquiry = next_limit(&client, &session, LimitName::Steps);
    assert_eq!(reached(&inquiry).most, 3);
    client.raise(&inquiry, 10.0);
    let outcome = client.outcome(turn);
    assert_eq!(
        client.course(&session, &outcome),
        [
            "next_turn",
            "next_turn",
            "next_turn",
            "completed",
            "completed / completed / no error"
        ]
    );
}

#[test]
fn limit_reached_degrade_ends_with_a_summary_without_tools() {
    for (agent, reason) in [
        ("max_steps = 1\nlimit_reached = \"degrade\"", "max_turns"),
        (
            "max_tool_calls = 1\nlimit_reached = \"degrade\"",
            "max_tool_calls",
        ),
    ] {
        let scenario = limited(agent);
        let calls = Reply::new()
            .call("read_file", json!({"path": "a.txt"}))
            .call("read_file", json!({"path": "a.txt"}));
        scenario.push(calls);
        scenario.push(Reply::text("a.txt holds an a"));
        let client = scenario.start();
        let session = client.session();
        let outcome = client.ask(&session, "do it");
        let end = format!("{reason} / degraded / no error");
        assert_eq!(client.course(&session, &outcome), [reason, &end], "{outcome:?}");
        assert_eq!(outcome.text, "a.txt holds an a");
        let last = scenario.wait_for_request(1).body.clone();
        assert!(
            last.get("tools").is_none_or(|tools| tools == &json!([])),
            "{last}"
        );
        assert!(!last["messages"].to_string().contains("tool_use"), "{last}");
        assert_eq!(client.ask(&session, "go on").text, "ok");
    }
}

#[test]
fn failed_final_summary_keeps_the_limit_error() {
    let scenario = limited("max_steps = 1\nlimit_reached = \"degrade\"");
    scenario.push(read_file("a.txt"));
    scenario.push(Reply::error(400, "invalid_request_error", "nonsense"));
    let client = scenario.start();
    let session = client.session();
    let outcome = client.ask(&session, "do it");
    assert_eq!(
        client.course(&session, &outcome),
        ["max_turns", "max_turns / failed / max_iterations"]
    );
    assert_eq!(error_message(&outcome), "reached 1 iterations without completion");
}

#[test]
fn untrusted_folder_can_lower_limits_but_not_raise_them() {
    let scenario = expensive("max_session_cost = 9.0", "");
    scenario.write(
        ".agentls/config.toml",
        "[agent.default]\nmax_session_cost = 900.0\nmax_turn_cost = 4.5\n",
    );
    let client = scenario.start();
    let session = expensive_session(&client);
    scenario.push(reply_costing(read_file("a.txt"), 5));
    let outcome = client.ask(&session, "do it");
    assert!(error_message(&outcome).starts_with("turn cost"), "{outcome:?}");
    scenario.push(reply_costing(Reply::text("much"), 5));
    client.ask(&session, "do it");
    let outcome = client.ask(&session, "do it");
    assert!(error_message(&outcome).starts_with("session cost"), "{outcome:?}");
}
