//! Commands that wait for something slow, and what must not wait behind them.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::{Notify, oneshot};

use super::turns::{Endless, TurnFixture};
use crate::domain::{Mode, SessionId, TerminalReason};
use crate::session::*;

type Answer = oneshot::Receiver<Result<(), CommandError>>;

fn post(
    fixture: &TurnFixture,
    session: &SessionId,
    command: impl FnOnce(oneshot::Sender<Result<(), CommandError>>) -> SessionCommand,
) -> Answer {
    let (reply, answer) = oneshot::channel();
    fixture.sessions.post_command(session, command(reply)).unwrap();
    answer
}

fn set_model(fixture: &TurnFixture, session: &SessionId, model: &str) -> Answer {
    post(fixture, session, |reply| SessionCommand::SetModel {
        model: Some(model.to_owned()),
        effort: None,
        refused: None,
        reply,
    })
}

fn rename(fixture: &TurnFixture, session: &SessionId) -> Answer {
    let title = "new".to_owned();
    post(fixture, session, |reply| SessionCommand::Rename { title, reply })
}

fn endless(started: &Arc<Notify>) -> TurnFixture {
    let call = json!({"tool": {"name": "endless", "input": {"at": "x"}}});
    let exchanges = json!([{"events": [call]}, {"events": [call]}]);
    TurnFixture::new(Mode::Full, exchanges, vec![Arc::new(Endless(started.clone()))])
}

#[tokio::test]
async fn a_hanging_command_holds_up_neither_a_cancel_nor_other_commands() {
    let started = Arc::new(Notify::new());
    let fixture = endless(&started);
    let session = fixture.session();
    let handle = fixture.post(&session, "go").await.unwrap().unwrap();
    started.notified().await;
    let judging = fixture.judging.clone();
    let hangs = judging.lock().await;
    let mut model = set_model(&fixture, &session, "some/model");
    assert_eq!(rename(&fixture, &session).await.unwrap(), Ok(()));
    fixture.sessions.cancel_turn(&session, None);
    let outcome = handle.wait_for_outcome().await.unwrap();
    assert_eq!(outcome.end.reason, TerminalReason::AbortedTools);
    assert!(model.try_recv().is_err(), "the command still waits");
    drop(hangs);
    assert_eq!(model.await.unwrap(), Ok(()));
    fixture.end().await;
}

#[tokio::test]
async fn a_cancel_reaches_the_prompt_that_waits_behind_a_hanging_command() {
    let started = Arc::new(Notify::new());
    let fixture = endless(&started);
    let session = fixture.session();
    let judging = fixture.judging.clone();
    let hangs = judging.lock().await;
    let model = set_model(&fixture, &session, "some/model");
    let prompt = fixture.post(&session, "go");
    fixture.sessions.cancel_turn(&session, None);
    drop(hangs);
    assert_eq!(model.await.unwrap(), Ok(()));
    let handle = prompt.await.unwrap().unwrap();
    let outcome = handle.wait_for_outcome().await.unwrap();
    assert!(
        matches!(
            outcome.end.reason,
            TerminalReason::AbortedStreaming | TerminalReason::AbortedTools
        ),
        "{:?}",
        outcome.end.reason
    );
    fixture.end().await;
}

#[tokio::test]
async fn commands_of_one_kind_keep_their_order() {
    let started = Arc::new(Notify::new());
    let fixture = endless(&started);
    let session = fixture.session();
    let handle = fixture.post(&session, "go").await.unwrap().unwrap();
    started.notified().await;
    let judging = fixture.judging.clone();
    let hangs = judging.lock().await;
    let first = set_model(&fixture, &session, "first/model");
    let second = set_model(&fixture, &session, "second/model");
    drop(hangs);
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (Ok(()), Ok(())));
    let snapshot = fixture
        .sessions
        .send_request(&session, |reply| SessionCommand::Inspect { reply })
        .await
        .unwrap();
    assert_eq!(snapshot.choice.model.as_deref(), Some("second/model"));
    fixture.sessions.cancel_turn(&session, None);
    handle.wait_for_outcome().await.unwrap();
    fixture.end().await;
}
