//! Session methods: new, load, resume, fork, list, close and delete.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use time::OffsetDateTime;
use tower_lsp::jsonrpc::{Error, Id};

use super::context::{AcpContext, folder_key};
use super::error::{command_refusal, invalid_param, new_session_refusal, store_refusal};
use super::mcp_servers::{NamedServers, name_servers};
use super::open_prompts::ChangeKind;
use super::opening::Opening;
use super::options;
use super::params::{ListSessionsParams, LoadSessionParams, NewSessionParams, SessionParams};
use super::replay::Replay;
use super::sink::{ClientQuestion, QuestionSubject};
use super::updates::Notice;
use crate::base::spawn::run_blocking;
use crate::domain::{SessionId, ToolCallUpdate};
use crate::session::{NewSession, SessionCommand, SessionSnapshot};
use crate::store::{SessionQuery, SessionRow, SkippedRow};

/// Sessions in one page of the list.
const PAGE: usize = 50;
/// How often a session is closed. A command that arrives at the same time, such as a look at its options, keeps it.
const CLOSE_ATTEMPTS: usize = 10;

/// Creates a session.
pub(super) async fn new_session(
    state: &AcpContext,
    request: Id,
    params: NewSessionParams,
    servers: NamedServers,
) -> Result<Value, Error> {
    let cwd = checked_folder("cwd", &params.cwd).await?;
    let (others, not_used) = check_folders(params.additional_directories).await;
    state.configured.refresh_config(&cwd);
    // Trust comes first: it decides which settings of the folder apply.
    state.resolve_trust(&cwd).await;
    let wanted = NewSession {
        folder: cwd.clone(),
        cwd: cwd.clone(),
        remembered: true,
        ..NewSession::default()
    };
    let created = state.sessions.open_new_session(&state.configured, wanted).await;
    let created = created.map_err(new_session_refusal)?;
    state.configured.set_session_folders(&created.id, &cwd, &others);
    state.editor.note_folder(&created.id, &cwd, &params.cwd);
    let options = state.feed_options(&created.id, &cwd, &cwd);
    state.feeds.set_options(&created.id, options);
    let gone = created.model_gone;
    let gone = gone.map(|message| Notice::new("warning", "model_gone", message));
    let of_servers = name_servers(state, &created.id, &cwd, &servers);
    let notes = [gone, not_used].into_iter().chain(of_servers).flatten().collect();
    let options = options::config_options(state, &created.id).await?;
    let answer = json!({
        "sessionId": created.id.as_str(),
        "modes": options::mode_state(created.mode),
        "configOptions": options,
    });
    state.introduce_after(request, created.id, notes);
    Ok(answer)
}

/// Returns the keys of a session's folders besides its working directory, and a warning about those that are none.
async fn check_folders(given: Option<Vec<PathBuf>>) -> (Vec<PathBuf>, Option<Notice>) {
    let (mut folders, mut refused) = (Vec::new(), Vec::new());
    for path in given.unwrap_or_default() {
        match checked_folder("additionalDirectories", &path).await {
            Ok(folder) => folders.push(folder),
            Err(error) => refused.push(error.message),
        }
    }
    let refused = (!refused.is_empty()).then(|| format!("not used: {}", refused.join("; ")));
    let notice = refused.map(|message| Notice::new("warning", "folder_not_used", message));
    (folders, notice)
}

/// Returns a folder's key; refuses a path that is not a folder.
async fn checked_folder(param: &str, path: &Path) -> Result<PathBuf, Error> {
    if !path.is_absolute() {
        return Err(invalid_param(format!("{param}: must be an absolute path")));
    }
    let folder = folder_key(path);
    let checked = folder.clone();
    let is_folder = run_blocking(move || checked.is_dir()).await;
    if is_folder.unwrap_or_default() {
        Ok(folder)
    } else {
        Err(invalid_param(format!(
            "{param}: {} is not a folder",
            folder.display()
        )))
    }
}

/// Forks a session at the end of its last finished turn, and opens the fork without its history.
pub(super) async fn fork_session(
    state: &AcpContext,
    request: Id,
    params: LoadSessionParams,
    servers: NamedServers,
) -> Result<Value, Error> {
    let id = SessionId::from(params.session_id);
    let snapshot = options::inspect(state, &id).await?;
    refuse_other_folder(&folder_key(&params.cwd), &snapshot.info.cwd)?;
    let forked = state.sessions.fork_session(&id, None).await;
    let (fork, _) = forked.map_err(command_refusal)?;
    let params = LoadSessionParams {
        session_id: fork.to_string(),
        ..params
    };
    let mut answer = open_session(state, request, params, (servers, false)).await?;
    answer["sessionId"] = fork.as_str().into();
    Ok(answer)
}

/// Opens a stored session. With `replays`, its history precedes the answer.
pub(super) async fn open_session(
    state: &AcpContext,
    request: Id,
    params: LoadSessionParams,
    (servers, replays): (NamedServers, bool),
) -> Result<Value, Error> {
    let id = SessionId::from(params.session_id);
    // A close before it has ended, and one after it waits.
    state.begin_change(&request, &id, ChangeKind::Other).await;
    let cwd = folder_key(&params.cwd);
    let (others, not_used) = check_folders(params.additional_directories).await;
    let row = state.sessions.find_row(&id).await.map_err(store_refusal)?;
    if let Some(row) = &row {
        state.configured.refresh_config(row.folder.as_ref());
        refuse_other_folder(&cwd, row.cwd.as_ref())?;
        // Trust comes first: it decides which settings the session loads.
        state.resolve_trust(row.folder.as_ref()).await;
        state.editor.note_folder(&id, &cwd, &params.cwd);
        let options = state.feed_options(&id, row.folder.as_ref(), row.cwd.as_ref());
        state.feeds.set_options(&id, options);
    }
    let opening = state.feeds.begin_opening(&id);
    let replay = replays.then(|| state.feeds.begin_replay(&id));
    let load = |reply| SessionCommand::Load {
        read_only: false,
        reply,
    };
    let loaded = state.sessions.send_request(&id, load).await;
    let loaded = loaded.map_err(command_refusal)?;
    // A session in which nothing has happened yet may have no row.
    refuse_other_folder(&cwd, &loaded.snapshot.info.cwd)?;
    state.configured.set_session_folders(&id, &cwd, &others);
    // An error means that the store ended with the server: then the stored events are all there are.
    let _ = loaded.passed.await;
    let mut skipped = loaded.skipped;
    if let Some(mut replay) = replay {
        replay_history(state, &loaded.snapshot, &mut skipped).await?;
        replay.tail.open_calls.clone_from(&loaded.open_calls);
        replay.tail.seq = loaded.snapshot.seq;
        replay.tail.partial = loaded.partial;
    }
    let skipped = SkippedRow::format_warning(&id, &skipped);
    let skipped = skipped.map(|message| Notice::new("warning", SkippedRow::CODE, message));
    let gone = state.configured.describe_gone(&loaded.snapshot);
    let gone = gone.map(|message| Notice::new("warning", "model_gone", message));
    let of_servers = name_servers(state, &id, &loaded.snapshot.info.folder, &servers);
    ask_open_questions(state, &opening, &loaded.snapshot, &loaded.open_calls);
    let answer = json!({
        "modes": options::mode_state(loaded.snapshot.choice.mode),
        "configOptions": options::config_options(state, &id).await?,
    });
    let notes = [skipped, gone, not_used]
        .into_iter()
        .chain(of_servers)
        .flatten()
        .collect();
    state.introduce_after(request, id, notes);
    Ok(answer)
}

/// Refuses to open a session in another folder than its own: its tools would work elsewhere than the user expects.
fn refuse_other_folder(cwd: &Path, own: &Path) -> Result<(), Error> {
    if folder_key(own) == cwd {
        return Ok(());
    }
    Err(invalid_param(format!(
        "cwd: the session belongs to {}; open it there, or start a new session in {}",
        own.display(),
        cwd.display()
    )))
}

/// Sends the stored history up to the last event of the snapshot, without the calls that have not ended. Later events
/// are sent as they happen.
async fn replay_history(
    state: &AcpContext,
    snapshot: &SessionSnapshot,
    skipped: &mut Vec<SkippedRow>,
) -> Result<(), Error> {
    let id = &snapshot.info.id;
    let cwd = snapshot.info.cwd.clone();
    let (mut replay, options) = (Replay::new(&cwd), state.feeds.options(id));
    let mut pages = state.sessions.walk_events(id);
    while let Some(page) = pages.next().await.map_err(store_refusal)? {
        for stored in page.events.iter().filter(|stored| stored.seq <= snapshot.seq) {
            for mut update in replay.add_event(stored) {
                options.name_paths(&mut update);
                state.feeds.send(id, update);
            }
        }
        let known = page
            .skipped
            .into_iter()
            .filter(|record| !skipped.contains(record));
        let known: Vec<SkippedRow> = known.collect();
        skipped.extend(known);
        // A client that reads slowly slows the replay down.
        state.outbox.wait_for_room().await;
    }
    for update in replay.finish() {
        state.feeds.send(id, update);
    }
    Ok(())
}

/// Asks again what a turn has left open.
fn ask_open_questions(
    state: &AcpContext,
    opening: &Opening,
    snapshot: &SessionSnapshot,
    open_calls: &[ToolCallUpdate],
) {
    let ask = |subject| {
        let question = ClientQuestion {
            session: snapshot.info.id.clone(),
            subject,
            is_left_open: snapshot.resumable.is_some(),
        };
        state.feeds.ask_again(opening, question);
    };
    for open in snapshot.questions.undecided_approvals() {
        let call = open_calls.iter().find(|call| call.id == open.approval.tool_call);
        let places = call.map(|call| call.locations.clone()).unwrap_or_default();
        ask(QuestionSubject::Approval(Box::new(open.approval.clone()), places));
    }
    for open in snapshot.questions.unanswered_inquiries() {
        ask(QuestionSubject::Inquiry(open.inquiry.clone()));
    }
}

/// Lists stored sessions, newest first.
pub(super) async fn list_sessions(state: &AcpContext, params: ListSessionsParams) -> Result<Value, Error> {
    if params.cwd.as_deref().is_some_and(Path::is_relative) {
        return Err(invalid_param("cwd: must be an absolute path"));
    }
    let query = SessionQuery {
        cwd: params
            .cwd
            .as_deref()
            .map(|cwd| folder_key(cwd).display().to_string()),
        query: None,
        cursor: params.cursor,
        limit: PAGE,
    };
    let page = state.sessions.list_sessions(query).await.map_err(store_refusal)?;
    let rows = page.sessions.iter().map(|hit| &hit.session);
    // The client knows the folder by the name that it gives it.
    let name_folder = |row: &SessionRow| match &params.cwd {
        Some(named) => named.clone(),
        None => state.editor.client_path(&row.id, row.cwd.as_ref()),
    };
    let sessions: Vec<Value> = rows.map(|row| session_info(row, &name_folder(row))).collect();
    let mut answer = json!({"sessions": sessions});
    if let Some(cursor) = page.next_cursor {
        answer["nextCursor"] = cursor.into();
    }
    Ok(answer)
}

fn session_info(row: &SessionRow, cwd: &Path) -> Value {
    let mut info = json!({
        "sessionId": row.id.as_str(), "cwd": cwd, "updatedAt": format_time(row.updated_ms),
    });
    if let Some(title) = &row.title {
        info["title"] = title.as_str().into();
    }
    info
}

/// Formats a time as ISO 8601 in UTC.
fn format_time(at_ms: i64) -> String {
    let at =
        OffsetDateTime::from_unix_timestamp(at_ms.div_euclid(1_000)).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at_ms.rem_euclid(1_000)
    )
}

/// Cancels the work of a session and unloads it.
pub(super) async fn close_session(
    state: &AcpContext,
    request: &Id,
    params: SessionParams,
) -> Result<Value, Error> {
    let id = leave_session(state, request, params).await;
    for _ in 0..CLOSE_ATTEMPTS {
        if state.sessions.close_session(&id).await.map_err(command_refusal)? {
            break;
        }
    }
    forget_session(state, &id);
    Ok(json!({}))
}

/// Cancels the prompts of a session, waits for earlier changes, and withdraws its questions, so that none of them
/// loads it again. Later changes wait for the answer to the request.
async fn leave_session(state: &AcpContext, request: &Id, params: SessionParams) -> SessionId {
    let id = SessionId::from(params.session_id);
    state.prompts.cancel(&id, || {});
    state.begin_change(request, &id, ChangeKind::Other).await;
    state.feeds.withdraw_questions(&id).await;
    id
}

fn forget_session(state: &AcpContext, id: &SessionId) {
    state.configured.mcp().forget_session(id);
    state.editor.forget_folder(id);
    state.configured.forget_session_folders(id);
    state.forget_introduction(id);
    state.feeds.remove(id);
}

/// Deletes a session with everything that belongs to it.
pub(super) async fn delete_session(
    state: &AcpContext,
    request: &Id,
    params: SessionParams,
) -> Result<Value, Error> {
    let id = leave_session(state, request, params).await;
    let delete = |reply| SessionCommand::Delete { reply };
    let deleted = state.sessions.send_request(&id, delete).await;
    forget_session(state, &id);
    match deleted {
        // In this protocol, deleting a session that does not exist succeeds.
        Ok(()) | Err(crate::session::CommandError::UnknownSession(_)) => Ok(json!({})),
        Err(refused) => Err(command_refusal(refused)),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_iso_8601() {
        assert_eq!(super::format_time(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
    }
}
