//! Commands that wait for something slow, and what must not wait behind them.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::{Notify, oneshot};

use super::turns::{Endless, TurnFixture};
use crate::domain::{Mode, SessionId, TerminalReason};
use crate::session::*;

type Answer = oneshot::Receiver<Result<(), CommandError>>;

fn post(
    desk: &TurnFixture,
    session: &SessionId,
    command: impl FnOnce(oneshot::Sender<Result<(), CommandError>>) -> SessionCommand,
) -> Answer {
    let (reply, answer) = oneshot::channel();
    desk.sessions.post_command(session, command(reply)).unwrap();
    answer
}

fn set_model(desk: &TurnFixture, session: &SessionId, model: &str) -> Answer {
    post(desk, session, |reply| SessionCommand::SetModel {
        model: Some(model.to_owned()),
        effort: None,
        reply,
    })
}

fn rename(desk: &TurnFixture, session: &SessionId) -> Answer {
    let title = "new".to_owned();
    post(desk, session, |reply| SessionCommand::Rename { title, reply })
}

fn endless(begun: &Arc<Notify>) -> TurnFixture {
    let call = json!({"tool": {"name": "endless", "input": {"at": "x"}}});
    let exchanges = json!([{"events": [call]}, {"events": [call]}]);
    TurnFixture::new(Mode::Full, exchanges, vec![Arc::new(Endless(begun.clone()))])
}

#[tokio::test]
async fn a_hanging_command_holds_up_neither_a_cancel_nor_other_commands() {
    let begun = Arc::new(Notify::new());
    let desk = endless(&begun);
    let session = desk.session();
    let handle = desk.post(&session, "go").await.unwrap().unwrap();
    begun.notified().await;
    let judging = desk.judging.clone();
    let hangs = judging.lock().await;
    let mut model = set_model(&desk, &session, "some/model");
    assert_eq!(rename(&desk, &session).await.unwrap(), Ok(()));
    desk.sessions.cancel_turn(&session, None);
    let ended = handle.wait_for_outcome().await.unwrap();
    assert_eq!(ended.end.reason, TerminalReason::AbortedTools);
    assert!(model.try_recv().is_err(), "the command still waits");
    drop(hangs);
    assert_eq!(model.await.unwrap(), Ok(()));
    desk.end().await;
}

#[tokio::test]
async fn a_cancel_reaches_the_prompt_that_waits_behind_a_hanging_command() {
    let begun = Arc::new(Notify::new());
    let desk = endless(&begun);
    let session = desk.session();
    let judging = desk.judging.clone();
    let hangs = judging.lock().await;
    let model = set_model(&desk, &session, "some/model");
    let prompt = desk.post(&session, "go");
    desk.sessions.cancel_turn(&session, None);
    drop(hangs);
    assert_eq!(model.await.unwrap(), Ok(()));
    let handle = prompt.await.unwrap().unwrap();
    let ended = handle.wait_for_outcome().await.unwrap();
    assert!(
        matches!(
            ended.end.reason,
            TerminalReason::AbortedStreaming | TerminalReason::AbortedTools
        ),
        "{:?}",
        ended.end.reason
    );
    desk.end().await;
}

#[tokio::test]
async fn commands_of_one_kind_keep_their_order() {
    let begun = Arc::new(Notify::new());
    let desk = endless(&begun);
    let session = desk.session();
    let handle = desk.post(&session, "go").await.unwrap().unwrap();
    begun.notified().await;
    let judging = desk.judging.clone();
    let hangs = judging.lock().await;
    let first = set_model(&desk, &session, "first/model");
    let second = set_model(&desk, &session, "second/model");
    drop(hangs);
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (Ok(()), Ok(())));
    let snapshot = desk
        .sessions
        .send_request(&session, |reply| SessionCommand::Inspect { reply })
        .await
        .unwrap();
    assert_eq!(snapshot.choice.model.as_deref(), Some("second/model"));
    desk.sessions.cancel_turn(&session, None);
    handle.wait_for_outcome().await.unwrap();
    desk.end().await;
}
