//! A full context window: the request shrinks, the client sees it, and the stored history loses nothing.

mod by_hand;
mod recovery;
mod small_windows;
mod summaries;
mod thresholds;

use std::sync::Arc;

use super::mock_llm::{self, RecordedRequest, Reply};
use super::scenario::{self, Client, Config, Scenario};
use crate::domain::*;
use crate::session::TurnOutcome;

const DONE: &str = "completed / completed / no error";
const FULL: &str = "prompt_too_long / failed / context_limit";

/// About 500 tokens.
fn long_prompt(name: &str) -> String {
    format!("{name}: {}", "lorem ipsum ".repeat(165))
}

/// An answer without a token count, so that it does not correct the estimate.
fn uncounted_ok() -> Reply {
    Reply::text("ok").tokens(0, 0)
}

fn notes() -> Reply {
    Reply::text("the user wants lorem ipsum").tokens(0, 0)
}

fn too_long() -> Reply {
    Reply::error(400, "invalid_request_error", "prompt is too long")
}

fn asks_for_notes(request: &RecordedRequest) -> bool {
    let raw = String::from_utf8_lossy(&request.raw);
    raw.contains("You write the notes with which a coding agent continues")
}

/// Makes the mock answer each request for notes.
fn answer_requests_for_notes(scenario: &Scenario) {
    scenario
        .mock()
        .respond_with(|request| asks_for_notes(request).then(notes));
}

/// A scenario with these complete tables and lines of the default agent.
fn configured(tables: &str, agent: &str) -> Scenario {
    Scenario::with(Config {
        agent: agent.to_owned(),
        tables: tables.to_owned(),
        ..Config::default()
    })
}

fn last_request(scenario: &Scenario) -> Arc<RecordedRequest> {
    scenario.wait_for_request(scenario.requests() - 1)
}

/// Returns one line per message of a request: its role and the start of its text.
fn message_outline(request: &RecordedRequest) -> Vec<String> {
    let messages = request.body["messages"].as_array().unwrap().iter();
    messages
        .map(|message| {
            let first = &message["content"][0];
            let text = match first["type"].as_str() {
                Some("text") => first["text"].as_str().unwrap(),
                Some(other) => other,
                None => message["content"].as_str().unwrap_or("?"),
            };
            let text: String = text.chars().take(31).collect();
            let text = text.split(':').next().unwrap().to_owned();
            format!("{} {text}", message["role"].as_str().unwrap())
        })
        .collect()
}

/// Holds `rounds` rounds of talk. The mock answers unscripted requests with "ok".
fn talk(client: &Client, session: &SessionId, rounds: usize) {
    client.scenario.mock().default_reply(uncounted_ok());
    for round in 0..rounds {
        assert_eq!(client.ask(session, long_prompt(&format!("q{round}"))).text, "ok");
    }
}

/// Opens a session and holds `rounds` rounds of talk.
fn session_with_rounds(client: &Client, rounds: usize) -> SessionId {
    let session = client.session();
    talk(client, &session, rounds);
    session
}

/// Does the same with a model.
fn session_of_model_with_rounds(client: &Client, model: &str, rounds: usize) -> SessionId {
    let session = client.session_of_model(model);
    talk(client, &session, rounds);
    session
}

/// Opens a session and holds six rounds of talk with short prompts and answers of about 1,000 tokens.
fn session_with_long_answers(client: &Client) -> SessionId {
    let session = client.session();
    add_long_answers(client, &session, "q", 6);
    client.scenario.mock().default_reply(uncounted_ok());
    session
}

fn add_long_answers(client: &Client, session: &SessionId, name: &str, rounds: usize) {
    for round in 0..rounds {
        let answer = format!("fine: {}", "lorem ipsum ".repeat(330));
        client.scenario.push(Reply::text(&answer).tokens(0, 0));
        assert_eq!(client.ask(session, format!("{name}{round}")).text, answer);
    }
}

/// Describes a turn's end: its reason, state and error code.
fn describe_end(outcome: &TurnOutcome) -> String {
    let end = &outcome.end;
    let code = end.error.as_ref().map_or("no error", |error| error.code.name());
    format!("{} / {} / {code}", end.reason.name(), end.state.name())
}

/// Returns the reasons of all transitions from index `from` on, then the end of the turn.
fn course(client: &Client, session: &SessionId, from: usize, outcome: &TurnOutcome) -> Vec<String> {
    client.course(session, outcome).split_off(from)
}

fn compactions(client: &Client, session: &SessionId) -> Vec<Arc<Compaction>> {
    client.all(session, |event| match event {
        Event::Compacted(compaction) => Some(compaction.clone()),
        _ => None,
    })
}

/// Returns the text of a compaction's summary.
fn summary_text(compaction: &Compaction) -> &str {
    &compaction.summary.as_ref().unwrap().text
}

/// Compacts the history by hand, and waits for the end.
fn compact(client: &Client, session: &SessionId) -> TurnOutcome {
    client.outcome(client.compact(session))
}

/// Returns the detail of the session's last transition.
fn last_detail(client: &Client, session: &SessionId) -> String {
    let details = client.all(session, |event| match event {
        Event::Transition { detail, .. } => Some(detail.clone()),
        _ => None,
    });
    details.last().unwrap().clone().unwrap_or_default()
}

/// Returns the context window that the session's last usage reports.
fn last_window(client: &Client, session: &SessionId) -> u64 {
    let windows = client.all(session, |event| match event {
        Event::Usage { window, .. } => Some(*window),
        _ => None,
    });
    *windows.last().unwrap()
}
