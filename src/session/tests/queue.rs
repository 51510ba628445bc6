//! Prompts that wait for the end of the turn.

use super::mock_llm::{Gate, Reply};
use super::scenario::{Client, PendingTurn, Scenario};
use crate::domain::*;
use crate::session::*;

/// Returns the texts of queued prompts.
fn queued_texts(reply: &QueueReply) -> Vec<&str> {
    let texts = reply.prompts.iter().map(|(_, content)| match &content[..] {
        [Block::Text(text)] => text.as_str(),
        _ => panic!("{content:?}"),
    });
    texts.collect()
}

fn list(client: &Client, session: &SessionId) -> QueueReply {
    client.queue(session, QueueAction::List).unwrap()
}

fn text(text: &str) -> Vec<Block> {
    vec![Block::Text(text.to_owned())]
}

fn add(client: &Client, session: &SessionId, prompt: &str) -> String {
    client.enqueue(session, prompt).added.unwrap()
}

/// Waits until a turn that the queue started has ended, and returns its id.
fn wait_for_queued_turn(client: &Client, session: &SessionId) -> TurnId {
    let turn = client.next_logged(session, |logged| match logged.event {
        Event::TurnStarted {
            by: TurnTrigger::Queue,
            ..
        } => logged.turn.clone(),
        _ => None,
    });
    client.next_logged(session, |logged| {
        let is_its_end = matches!(logged.event, Event::TurnEnded(_)) && logged.turn.as_ref() == Some(&turn);
        is_its_end.then_some(())
    });
    turn
}

/// Starts a turn that waits for its answer. Returns the server, the session, the turn, and what it waits for.
fn start_waiting(scenario: &Scenario) -> (Client, SessionId, PendingTurn, Gate) {
    let gate = Gate::new();
    scenario.push(Reply::text("first").gate(&gate));
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "one");
    scenario.wait_at_gate(&gate);
    (client, session, turn, gate)
}

#[test]
fn queued_prompts_are_sent_in_order_after_the_turn() {
    let scenario = Scenario::new();
    let (client, session, first, gate) = start_waiting(&scenario);
    scenario.push(Reply::text("second"));
    scenario.push(Reply::text("third"));
    let two = add(&client, &session, "two");
    let update = client.next(&session, |event| match event {
        Event::QueueChanged(queue) => Some(queue.clone()),
        _ => None,
    });
    let shown = QueuedPrompt {
        id: two,
        text: "two".to_owned(),
    };
    assert_eq!((update.paused, update.prompts), (false, vec![shown]));
    let removed = add(&client, &session, "gone");
    let three = add(&client, &session, "tree");
    let edited = client.queue(&session, QueueAction::Edit(three, text("three")));
    assert_eq!(queued_texts(&edited.unwrap()), ["two", "gone", "three"]);
    let remaining = client
        .queue(&session, QueueAction::Remove(removed.clone()))
        .unwrap();
    assert_eq!(queued_texts(&remaining), ["two", "three"]);
    assert_eq!(list(&client, &session), remaining);
    assert_eq!(client.load(&session).snapshot.queue.prompts.len(), 2);
    for action in [
        QueueAction::Edit(removed.clone(), text("x")),
        QueueAction::Remove(removed.clone()),
    ] {
        let refused = client.queue(&session, action);
        assert_eq!(refused, Err(CommandError::UnknownPrompt(removed.clone())));
    }
    gate.release();
    assert_eq!(client.outcome(first).text, "first");
    for text in ["two", "three"] {
        let turn = wait_for_queued_turn(&client, &session);
        let prompt = client.next_logged(&session, |logged| match &logged.event {
            Event::Message(message) if message.role == Role::User && logged.turn.as_ref() == Some(&turn) => {
                Some(message.clone())
            }
            _ => None,
        });
        assert_eq!(prompt.text(), text);
    }
    assert_eq!(scenario.wait_for_request(1).last_text(), "two");
    assert_eq!(scenario.wait_for_request(2).last_text(), "three");
    assert_eq!(list(&client, &session), QueueReply::default());
}

#[test]
fn queued_prompt_starts_immediately_if_no_turn_runs() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = client.session();
    let added = client.enqueue(&session, "go");
    assert_eq!(queued_texts(&added), [""; 0]);
    assert_eq!(Some(wait_for_queued_turn(&client, &session)), added.turn);
    assert_eq!(scenario.wait_for_request(0).last_text(), "go");
}

#[test]
fn cancel_pauses_the_queue_until_send_now() {
    let scenario = Scenario::new();
    let (client, session, first, _gate) = start_waiting(&scenario);
    for prompt in ["two", "three", "four"] {
        add(&client, &session, prompt);
    }
    client.cancel(&session);
    assert_eq!(client.outcome(first).end.state, TurnState::Cancelled);
    client.wait_until(
        &session,
        |event| matches!(event, Event::QueueChanged(queue) if queue.paused),
    );
    let listed = list(&client, &session);
    assert_eq!(
        (listed.paused, queued_texts(&listed)),
        (true, vec!["two", "three", "four"])
    );
    // A prompt that is added while the queue is paused waits, too.
    add(&client, &session, "five");
    client.settle();
    assert_eq!(scenario.requests(), 1);
    let three = list(&client, &session).prompts[1].0.clone();
    let sent = client.queue(&session, QueueAction::SendNow(Some(three))).unwrap();
    assert!(sent.turn.is_some(), "{sent:?}");
    assert!(!sent.paused);
    for _ in 0..4 {
        wait_for_queued_turn(&client, &session);
    }
    let sent_texts: Vec<_> = (1..5)
        .map(|index| scenario.wait_for_request(index).last_text())
        .collect();
    assert_eq!(sent_texts, ["three", "two", "four", "five"]);
}

#[test]
fn completed_turn_resumes_a_paused_queue() {
    let scenario = Scenario::new();
    let (client, session, first, _gate) = start_waiting(&scenario);
    add(&client, &session, "two");
    client.cancel(&session);
    client.outcome(first);
    client.ask(&session, "something else");
    wait_for_queued_turn(&client, &session);
    assert_eq!(scenario.wait_for_request(2).last_text(), "two");
}

#[test]
fn send_now_joins_the_running_turn() {
    let scenario = Scenario::new();
    let (client, session, first, gate) = start_waiting(&scenario);
    scenario.push(Reply::text("Now really"));
    let id = add(&client, &session, "mind the tests");
    let sent = client.queue(&session, QueueAction::SendNow(Some(id))).unwrap();
    assert_eq!(queued_texts(&sent), [""; 0]);
    gate.release();
    let outcome = client.outcome(first);
    assert_eq!(sent.turn, Some(outcome.turn));
    assert_eq!(outcome.text, "Now really");
    assert_eq!(scenario.wait_for_request(1).last_text(), "mind the tests");
}

#[test]
fn queued_prompts_survive_a_kill() {
    let scenario = Scenario::new();
    let (client, session, ..) = start_waiting(&scenario);
    for prompt in ["two", "three"] {
        add(&client, &session, prompt);
    }
    client.kill();
    let client = scenario.start();
    let restored = client.load(&session).snapshot.queue;
    assert!(restored.paused);
    let texts: Vec<_> = restored
        .prompts
        .iter()
        .map(|prompt| prompt.text.as_str())
        .collect();
    assert_eq!(texts, ["two", "three"]);
    assert_eq!(scenario.requests(), 1);
    client.queue(&session, QueueAction::SendNow(None)).unwrap();
    for _ in 0..2 {
        wait_for_queued_turn(&client, &session);
    }
    assert_eq!(scenario.wait_for_request(1).last_text(), "two");
    assert_eq!(scenario.wait_for_request(2).last_text(), "three");
    client.kill();
    let client = scenario.start();
    assert_eq!(client.load(&session).snapshot.queue, PromptQueue::default());
}

#[test]
fn queue_holds_at_most_a_hundred_prompts() {
    let scenario = Scenario::new();
    let (client, session, first, _gate) = start_waiting(&scenario);
    for number in 0..100 {
        add(&client, &session, &format!("prompt {number}"));
    }
    let refused = client.queue(&session, QueueAction::Add(text("one too many")));
    assert_eq!(refused, Err(CommandError::QueueFull));
    client.cancel(&session);
    client.outcome(first);
}
