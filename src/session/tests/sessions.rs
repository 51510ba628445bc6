//! Stored sessions: list, search, names, deletion, and what is shown of them later.

use tokio::sync::oneshot;

use super::mock_llm::{Gate, Reply};
use super::scenario::{Client, Scenario};
use crate::domain::*;
use crate::session::*;
use crate::store::{SessionPage, SessionQuery};

type Answer<T> = oneshot::Sender<Result<T, CommandError>>;

fn list(client: &Client, query: SessionQuery) -> SessionPage {
    client.settle();
    client.wait_for(client.sessions.list_sessions(query)).unwrap()
}

/// Returns the sessions that contain all words of a query.
fn search(client: &Client, words: &str) -> Vec<SessionId> {
    let query = SessionQuery {
        query: Some(words.to_owned()),
        ..SessionQuery::default()
    };
    ids(list(client, query))
}

fn ids(page: SessionPage) -> Vec<SessionId> {
    page.sessions.into_iter().map(|hit| hit.session.id).collect()
}

fn rename(client: &Client, session: &SessionId, title: &str) {
    let title = title.to_owned();
    client
        .request(session, |reply| SessionCommand::Rename { title, reply })
        .unwrap();
}

fn delete(client: &Client, session: &SessionId) {
    client
        .request(session, |reply| SessionCommand::Delete { reply })
        .unwrap();
}

/// Sends a command without waiting for its answer.
fn post<T>(
    client: &Client,
    session: &SessionId,
    command: impl FnOnce(Answer<T>) -> SessionCommand,
) -> oneshot::Receiver<Result<T, CommandError>> {
    let (reply, answer) = oneshot::channel();
    let posted = async { client.sessions.post_command(session, command(reply)) };
    client.scenario.block_on(posted).unwrap();
    answer
}

/// Asserts that a session can neither be loaded nor prompted.
fn assert_unknown(client: &Client, session: &SessionId) {
    let unknown = CommandError::UnknownSession(session.clone());
    let load = |reply| SessionCommand::Load {
        read_only: false,
        reply,
    };
    assert_eq!(client.request(session, load).unwrap_err(), unknown);
    let refused = client.started(client.prompt(session, "hello")).unwrap_err();
    assert_eq!(refused, unknown);
}

#[test]
fn sessions_are_listed_searched_renamed_and_deleted() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let (first, second, _empty) = (client.session(), client.session(), client.session());
    scenario
        .mock()
        .push_for("zebra", Reply::text("An animal with stripes."));
    client.ask(&first, "tell me of the zebra, please");
    // Newer by the clock, too.
    scenario.advance(std::time::Duration::from_secs(1));
    client.ask(&second, "and what about cats?");
    let all = list(&client, SessionQuery::default());
    let row = all.sessions[1].session.clone();
    assert_eq!(row.title.as_deref(), Some("tell me of the zebra, please"));
    assert_eq!(row.cwd, scenario.workspace().display().to_string());
    // Newest first, without the one in which nothing happened.
    assert_eq!(ids(all), [second.clone(), first.clone()]);
    for (query, wanted) in [
        ("zebra", vec![&first]),
        ("stripes", vec![&first]),
        ("cats", vec![&second]),
        ("dogs", vec![]),
        ("\"'*(", vec![]),
    ] {
        let found = search(&client, query);
        assert_eq!(found.iter().collect::<Vec<_>>(), wanted, "{query}");
    }
    let mut cursor = None;
    for wanted in [&second, &first] {
        let page = list(
            &client,
            SessionQuery {
                limit: 1,
                cursor: cursor.take(),
                ..SessionQuery::default()
            },
        );
        cursor.clone_from(&page.next_cursor);
        assert_eq!(ids(page), std::slice::from_ref(wanted));
    }
    let nowhere = SessionQuery {
        cwd: Some("/nowhere".to_owned()),
        ..SessionQuery::default()
    };
    assert_eq!(ids(list(&client, nowhere)), []);
    rename(&client, &first, "Stripes");
    client.wait_until(
        &first,
        |event| matches!(event, Event::SessionUpdated { title, .. } if title.as_deref() == Some("Stripes")),
    );
    assert_eq!(search(&client, "Stripes"), std::slice::from_ref(&first));
    delete(&client, &first);
    assert_eq!(ids(list(&client, SessionQuery::default())), [second]);
    assert_unknown(&client, &first);
}

#[test]
fn deleted_session_is_unknown_immediately() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = client.session();
    client.ask(&session, "hello");
    // The prompt is posted before the session has taken up the deletion.
    let deleted = post(&client, &session, |reply| SessionCommand::Delete { reply });
    let turn = client.prompt(&session, "hello");
    let unknown = CommandError::UnknownSession(session.clone());
    assert_eq!(client.started(turn).unwrap_err(), unknown);
    assert_eq!(client.wait_for(deleted).unwrap(), Ok(()));
    assert_unknown(&client, &session);
}

#[test]
fn deleting_a_running_session_cancels_it_first() {
    let scenario = Scenario::new();
    let gate = Gate::new();
    scenario.push(Reply::text("half").gate(&gate));
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "hello");
    scenario.wait_at_gate(&gate);
    delete(&client, &session);
    assert_eq!(client.outcome(turn).end.state, TurnState::Cancelled);
    assert_eq!(ids(list(&client, SessionQuery::default())), []);
    assert!(scenario.is_dropped(0));
}

#[test]
fn read_only_load_does_not_disturb_prompts() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = client.session();
    client.ask(&session, "hello");
    drop(client);
    // A session that was only viewed is unloaded immediately; a prompt in between is not lost.
    for is_awaited in [true, false] {
        let client = scenario.start();
        let mut loaded = post(&client, &session, |reply| SessionCommand::Load {
            read_only: true,
            reply,
        });
        if is_awaited {
            assert!(client.wait_for(&mut loaded).unwrap().is_ok());
        }
        assert_eq!(client.ask(&session, "and now?").text, "ok");
        if !is_awaited {
            assert!(client.wait_for(loaded).unwrap().is_ok());
        }
    }
}

#[test]
fn load_includes_the_message_in_progress() {
    let scenario = Scenario::new();
    let gate = Gate::new();
    let half = Reply::text("the first half").gate(&gate);
    scenario.push(half.with_text(" and the second"));
    let client = scenario.start();
    let session = client.session();
    let turn = client.prompt(&session, "hello");
    scenario.wait_at_gate(&gate);
    client.wait_for_text(&session, "half");
    let loaded = client.load(&session);
    assert_eq!(loaded.partial.unwrap().text, "the first half");
    assert!(loaded.snapshot.turn.is_some());
    gate.release();
    assert_eq!(client.outcome(turn).text, "the first half and the second");
}

#[test]
fn model_and_mode_of_a_session_survive_a_restart() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = client.session();
    client.set_model(&session, "other/other-model").unwrap();
    client.set_mode(&session, Mode::Plan);
    client.ask(&session, "hello");
    drop(client);
    let client = scenario.start();
    let choice = client.load(&session).snapshot.choice;
    assert_eq!(
        (choice.mode, choice.model.as_deref(), choice.title.as_deref()),
        (Mode::Plan, Some("other/other-model"), Some("hello"))
    );
    client.ask(&session, "again");
    assert_eq!(scenario.requested_models(), ["other-model"; 2]);
    // It is the current one of the list, too.
    let info = client.inspect(&session);
    let folder = client.configured.folder_config(&scenario.workspace());
    let choice = info.choice.to_model_choice(&info.info);
    let listing = client.wait_for(folder.models.list_models(&choice, false));
    let current = listing.models.into_iter().filter(|model| model.current);
    let current: Vec<_> = current.map(|model| (model.provider, model.model)).collect();
    assert_eq!(current, [("other".to_owned(), "other-model".to_owned())]);
}
