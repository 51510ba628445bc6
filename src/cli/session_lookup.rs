//! Finds the stored session that a user means: by id, by a prefix of one, or the newest of a folder. Loads it.
//!
//! Asks the server for its list and matches on this side; it changes nothing.

use std::path::Path;

use super::client::{ClientError, Launch, ServerClient};
use super::style::{clean_line, fit_line};
use crate::protocol::table::method;
use crate::protocol::{
    EmptyResult, EventRecord, ListSessionsParams, ListSessionsResult, LoadSessionParams, LoadSessionResult,
    Mode, ServerNotification, SessionInfo, SetModeParams, SetModelParams,
};

/// How many sessions are searched for an id prefix.
const LOOKED_THROUGH: u32 = 10_000;
/// What a user reads who wants to continue in a folder without a session.
pub(super) const NO_SESSION: &str = "this folder has no session yet; this is a new one";
/// How many sessions are listed for an ambiguous id.
const NAMED: usize = 10;

/// Returns up to `limit` sessions that contain `query`, or any without one; the last used come first.
pub(super) async fn list_sessions(
    client: &mut ServerClient,
    query: Option<String>,
    limit: u32,
) -> Result<Vec<SessionInfo>, ClientError> {
    let mut found: Vec<SessionInfo> = Vec::new();
    let mut cursor = None;
    loop {
        let rest = limit - found.len() as u32;
        let params = ListSessionsParams {
            query: query.clone(),
            cursor,
            limit: Some(rest.clamp(1, 200)),
            ..ListSessionsParams::default()
        };
        let page: ListSessionsResult = client.request(method::LIST_SESSIONS, &params).await?;
        found.extend(page.sessions);
        found.truncate(limit as usize);
        cursor = page.next_cursor;
        if cursor.is_none() || found.len() as u32 >= limit {
            return Ok(found);
        }
    }
}

/// Returns the session with this id, or the only one whose id starts with it.
///
/// # Errors
///
/// [`ClientError::NoSession`] if none or several match; several are listed. Also if the server does not answer.
pub(super) async fn find_session(client: &mut ServerClient, id: &str) -> Result<String, ClientError> {
    let all = list_sessions(client, None, LOOKED_THROUGH).await?;
    match_session(&all, id).map_err(ClientError::NoSession)
}

/// Returns the session last used in this folder.
pub(super) async fn newest_session(
    client: &mut ServerClient,
    folder: &Path,
) -> Result<Option<String>, ClientError> {
    let params = ListSessionsParams {
        cwd: Some(folder.display().to_string()),
        limit: Some(1),
        ..ListSessionsParams::default()
    };
    let listed: ListSessionsResult = client.request(method::LIST_SESSIONS, &params).await?;
    let newest = listed.sessions.into_iter().next();
    Ok(newest.map(|session| session.session_id))
}

/// Returns the line that says how to continue a session, or that it was not stored.
pub(super) async fn describe_resumption(client: &mut ServerClient, session: &str) -> String {
    let mut listed = is_listed(client, session).await;
    if let Err(ClientError::Refused(_)) = listed {
        // The store may have been replaced just now.
        listed = is_listed(client, session).await;
    }
    match listed {
        Ok(false) => format!("this session could not be stored ({session})"),
        Err(ClientError::Refused(error)) => {
            format!("this session could not be stored ({session}): {}", error.message)
        }
        // A server that is gone stored the session before it reported the first event.
        _ => format!("to resume this session: agentls chat --session {session}"),
    }
}

/// Returns whether the list of all sessions contains this one. The last used, which it mostly is, come first.
async fn is_listed(client: &mut ServerClient, session: &str) -> Result<bool, ClientError> {
    let mut params = ListSessionsParams {
        limit: Some(200),
        ..ListSessionsParams::default()
    };
    loop {
        let page: ListSessionsResult = client.request(method::LIST_SESSIONS, &params).await?;
        if page.sessions.iter().any(|one| one.session_id == session) {
            return Ok(true);
        }
        params.cursor = page.next_cursor;
        if params.cursor.is_none() {
            return Ok(false);
        }
    }
}

/// Loads a session with its newest events: at most `tail` of them, and only those after the number `after`.
pub(super) async fn load_session(
    client: &mut ServerClient,
    session_id: &str,
    after: Option<u64>,
    tail: u32,
) -> Result<LoadSessionResult, ClientError> {
    let params = LoadSessionParams {
        session_id: session_id.to_owned(),
        after_seq: after,
        before_seq: None,
        tail: Some(tail),
        read_only: false,
    };
    client.request(method::LOAD_SESSION, &params).await
}

/// Gives a loaded session the mode, model and effort that the user named for this run.
pub(super) async fn apply_named_choice(
    client: &mut ServerClient,
    session_id: &str,
    current: Mode,
    launch: &Launch,
) -> Result<Mode, ClientError> {
    let session_id = session_id.to_owned();
    let mut model = launch.model.clone();
    if model.is_none() && launch.effort.is_some() {
        model = load_session(client, &session_id, None, 0).await?.state.model;
    }
    if let Some(model) = model {
        let params = SetModelParams {
            session_id: session_id.clone(),
            model,
            effort: launch.effort,
        };
        let _: EmptyResult = client.request(method::SET_MODEL, &params).await?;
    }
    match launch.mode {
        Some(mode) if mode != current => {
            let params = SetModeParams { session_id, mode };
            let _: EmptyResult = client.request(method::SET_MODE, &params).await?;
            Ok(mode)
        }
        _ => Ok(current),
    }
}

/// Parses stored events, and leaves out those that this client does not know.
pub(super) fn parse_events(
    events: impl IntoIterator<Item = EventRecord>,
) -> impl Iterator<Item = ServerNotification> {
    let parse = |event: EventRecord| ServerNotification::parse(&event.method, event.params)?.ok();
    events.into_iter().filter_map(parse)
}

fn match_session(all: &[SessionInfo], id: &str) -> Result<String, String> {
    // An unset shell variable must not select the only session.
    if id.is_empty() {
        return Err("the session id is empty; see `agentls sessions`".to_owned());
    }
    if all.iter().any(|session| session.session_id == id) {
        return Ok(id.to_owned());
    }
    let matching: Vec<&SessionInfo> = all
        .iter()
        .filter(|session| session.session_id.starts_with(id))
        .collect();
    match matching.as_slice() {
        [] => Err(format!("unknown session `{id}`; see `agentls sessions`")),
        [one] => Ok(one.session_id.clone()),
        several => {
            let mut lines = vec![format!("{} sessions begin with `{id}`:", several.len())];
            lines.extend(several.iter().take(NAMED).map(|session| {
                let title = session.title.as_deref().unwrap_or("(no prompt yet)");
                let title = clean_line(title, 200);
                format!("  {}  {}", session.session_id, fit_line(&title, 40))
            }));
            if several.len() > NAMED {
                lines.push(format!("  … and {} more", several.len() - NAMED));
            }
            Err(lines.join("\n"))
        }
    }
}
