//! Prompts and what comes of them: answers, steers, pictures, usage and cost.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::mock_llm::{Gate, Reply};
use super::scenario::{Client, DOT, PendingTurn, Scenario, picture, read_file, write_file};
use crate::domain::*;
use crate::session::*;

/// Starts a turn and waits until its answer has reached a gate after these words.
fn start_to_answer(client: &Client, words: &str) -> (SessionId, PendingTurn, Gate) {
    let gate = Gate::new();
    client.scenario.push(Reply::text(words).gate(&gate));
    let session = client.session();
    let turn = client.prompt(&session, "do it");
    client.scenario.wait_at_gate(&gate);
    (session, turn, gate)
}

#[test]
fn both_apis_serve_a_turn_with_a_tool() {
    for model in ["mock/mock-model", "other/other-model"] {
        let scenario = Scenario::new();
        scenario.write("a.txt", "the content of a\n");
        let look = Reply::new().with_text("I look.");
        scenario.push_all([
            look.call("read_file", json!({"path": "a.txt"})),
            Reply::text("It says: the content of a."),
        ]);
        let client = scenario.start();
        let session = client.session_of_model(model);
        let outcome = client.ask(&session, "what is in a.txt?");
        assert_eq!(outcome.text, "It says: the content of a.", "{model}");
        assert_eq!(client.reasons(&session), ["next_turn", "completed"], "{model}");
        assert!(scenario.raw_request(1).contains("the content of a"), "{model}");
    }
}

#[test]
fn second_prompt_is_refused_and_suggests_steer() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let (session, first, gate) = start_to_answer(&client, "first");
    let refused = client.started(client.prompt(&session, "two")).unwrap_err();
    assert!(matches!(refused, CommandError::TurnRunning(_)), "{refused:?}");
    assert!(refused.to_string().contains("agent/steer"), "{refused}");
    // Another session is unaffected.
    assert_eq!(client.ask(&client.session(), "two").text, "ok");
    gate.release();
    assert_eq!(client.outcome(first).text, "first");
    assert_eq!(client.ask(&session, "three").text, "ok");
}

#[test]
fn steer_joins_before_the_next_call_and_continues_the_turn() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let (session, turn, gate) = start_to_answer(&client, "I am done");
    scenario.push(Reply::text("Now really"));
    let running = client.inspect(&session).turn.unwrap();
    let steer = |text: &str, expected: &TurnId| {
        client.request(&session, |reply| SessionCommand::Steer {
            content: vec![Block::Text(text.to_owned())],
            expected: Some(expected.clone()),
            canceled: crate::base::CancellationToken::new(),
            reply,
        })
    };
    assert_eq!(steer("and mind the tests", &running), Ok(running.clone()));
    let expected = TurnId::from("turn_other");
    let refused = steer("x", &expected).unwrap_err();
    assert_eq!(refused, CommandError::OtherTurn { expected, running });
    gate.release();
    let outcome = client.outcome(turn);
    assert_eq!(outcome.text, "Now really");
    assert_eq!(client.reasons(&session), ["next_turn", "completed"]);
    assert_eq!(scenario.wait_for_request(1).last_text(), "and mind the tests");
    assert!(outcome.end.unused_steers.is_empty());
    assert_eq!(client.steer(&session, "late"), Err(CommandError::NoTurn));
}

#[test]
fn steer_during_a_tool_joins_after_its_results() {
    let scenario = Scenario::new();
    scenario.push(write_file("x", "x"));
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    client.steer(&session, "quickly").unwrap();
    client.decide(&approval, DecisionKind::Allow);
    assert_eq!(client.outcome(turn).text, "ok");
    assert_eq!(client.reasons(&session), ["next_turn", "completed"]);
    assert!(scenario.wait_for_request(1).last_text().ends_with("quickly"));
}

#[test]
fn unused_steers_are_returned_on_cancel() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let (session, turn, _gate) = start_to_answer(&client, "some");
    let steers = ["one more thing", "and another"];
    for text in steers {
        client.steer(&session, text).unwrap();
    }
    client.cancel(&session);
    let end = client.outcome(turn).end;
    assert_eq!(end.state, TurnState::Cancelled);
    assert_eq!(
        end.unused_steers,
        steers.map(|text| vec![Block::Text(text.to_owned())])
    );
    assert_eq!(client.ask(&session, "go on").text, "ok");
    let raw = scenario.raw_request(1);
    assert!(!raw.contains("one more thing"), "given back, not sent");
}

#[test]
fn images_reach_the_model_and_damaged_ones_are_refused() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = client.session();
    let ask = |content: Vec<Block>| client.started(client.prompt_blocks(&session, content));
    let finish = |started: Result<TurnHandle, CommandError>| {
        let outcome = client.wait_for(started.unwrap().wait_for_outcome());
        assert_eq!(outcome.unwrap().end.state, TurnState::Completed);
    };
    finish(ask(vec![picture(), Block::Text("what is it?".to_owned())]));
    assert!(scenario.raw_request(0).contains(DOT));
    let mut large = Vec::new();
    let mut encoder = png::Encoder::new(&mut large, 3_136, 10);
    encoder.set_color(png::ColorType::Grayscale);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&[7; 31_360]).unwrap();
    writer.finish().unwrap();
    let image = |media_type: &str, data: &str| {
        Block::Image(MediaData {
            media_type: media_type.to_owned(),
            data: data.into(),
        })
    };
    finish(ask(vec![image("image/jpeg", &STANDARD.encode(&large))]));
    let request = scenario.wait_for_request(1);
    let source: &Value = &request.messages().last().unwrap()["content"][0]["source"];
    assert_eq!(source["media_type"], "image/png", "its bytes say what it is");
    let sent = STANDARD.decode(source["data"].as_str().unwrap()).unwrap();
    // Width and height in the header.
    assert_eq!(sent[16..24], [0, 0, 6, 32, 0, 0, 0, 5], "scaled down to 1568 × 5");
    for (content, reason) in [
        (
            vec![picture(), image("image/png", &DOT[..60])],
            "picture 2 of the message cannot be sent: its end is missing",
        ),
        (
            vec![image("image/png", "aGVsbG8=")],
            "picture 1 of the message cannot be sent: it cannot be decoded",
        ),
    ] {
        let refused = ask(content).unwrap_err();
        assert!(refused.to_string().contains(reason), "{refused:?}");
    }
    assert_eq!(scenario.requests(), 2, "no turn has started");
}

/// Returns the session's and the turn's tokens, and the tokens in the context, after each step.
fn usage_events(client: &Client, session: &SessionId) -> Vec<(Usage, Usage, u64)> {
    client.all(session, |event| match event {
        Event::Usage {
            session,
            turn,
            context_used,
            window,
            ..
        } => {
            assert_eq!(*window, 200_000);
            Some((*session, *turn, *context_used))
        }
        _ => None,
    })
}

#[test]
fn usage_and_cost_add_up() {
    let scenario = Scenario::new();
    scenario.write("a.txt", "a\n");
    let read = read_file("a.txt");
    scenario.push_all([
        read.tokens(1_000, 100).cached(500, 200),
        Reply::text("done").tokens(2_000, 50),
        Reply::text("again").tokens(10, 20),
    ]);
    let client = scenario.start();
    let session = client.session();
    let end = client.ask(&session, "hello").end;
    let usage = Usage {
        input: 3_000,
        output: 150,
        cache_read: 500,
        cache_write: 200,
    };
    assert_eq!(end.usage, usage);
    // Dollars per million tokens are thousands of nano-dollars per token.
    let cost = 3_000 * 3_000 + 150 * 15_000 + 500 * 300 + 200 * 3_750;
    assert_eq!(end.cost, Some(Cost(cost)));
    client.ask(&session, "more");
    let steps = usage_events(&client, &session);
    let counts = |step: &(Usage, Usage, u64)| (step.0.input, step.1.output);
    let counts: Vec<_> = steps.iter().map(counts).collect();
    assert_eq!(counts, [(1_000, 100), (3_000, 150), (3_010, 20)]);
    assert_eq!(steps[2].2, 30);
    // A canceled call costs what the provider has reported so far.
    let gate = Gate::new();
    scenario.push(Reply::text("half").tokens(700, 50).gate(&gate));
    let turn = client.prompt(&session, "and more");
    scenario.wait_at_gate(&gate);
    client.wait_for_text(&session, "half");
    client.cancel(&session);
    let end = client.outcome(turn).end;
    assert_eq!(end.state, TurnState::Cancelled);
    assert_eq!((end.usage.input, end.usage.output), (700, 1));
    assert_eq!(end.cost, Some(Cost(700 * 3_000 + 15_000)));
    assert_eq!(usage_events(&client, &session)[3].0.input, 3_710);
    let metrics = client.inspect(&session).metrics;
    assert_eq!((metrics.requests, metrics.usage.output), (4, 171));
    assert_eq!(metrics.tool_calls, [("read_file".to_owned(), 1)].into());
}

#[test]
fn first_delta_is_sent_without_delay() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let before_ms = scenario.wall_ms();
    let (session, turn, gate) = start_to_answer(&client, "first");
    assert_eq!(client.next_text(&session), "first");
    assert_eq!(scenario.wall_ms(), before_ms);
    gate.release();
    client.outcome(turn);
}

#[test]
fn fifty_sessions_run_concurrently() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let gate = Gate::new();
    let turns: Vec<_> = (0..50)
        .map(|n| {
            let marker = format!("question-{n}-");
            let reply = Reply::text(format!("answer {n} in several words")).pieces(2);
            scenario.mock().push_for(&marker, reply.gate_first(&gate));
            client.prompt(&client.session(), marker)
        })
        .collect();
    scenario.wait_for_request(49);
    gate.release();
    for (n, turn) in turns.into_iter().enumerate() {
        assert_eq!(client.outcome(turn).text, format!("answer {n} in several words"));
    }
}
