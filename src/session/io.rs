//! What an operation waits for: reads and writes as futures that own all they need.
//!
//! The actor polls them next to its loop and applies their results in `steps`, so a slow disk or folder never holds up
//! a cancel or a running turn. This module must not know the actor.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::oneshot;

use super::command::{CommandError, RevertReply, SessionInfo};
use super::counts::EventCounts;
use super::mentions::{self, MentionReader};
use super::models::ModelVerdict;
use super::pictures::fit_pictures;
use super::server_content::{self, ServerReader};
use super::services::{Services, SessionSettings};
use super::state::SessionState;
use crate::base::CancellationToken;
use crate::base::clock;
use crate::base::spawn::{TaskError, run_blocking};
use crate::domain::{Block, SessionId};
use crate::mcp::McpFolder;
use crate::store::{
    ContentChoice, Holder, LockError, PendingEvent, SessionLock, SessionRow, SkippedRow, StoreError,
    StoreHealth, StoredEvent, StoredPermissions,
};
use crate::workspace::Workspace;
use crate::workspace::prompts::parse_command_call;

/// How long reading the slash-command files may take.
const READING: Duration = Duration::from_secs(2);
/// How long a cancel of a request may take to reach an MCP server.
const CANCELING: Duration = Duration::from_millis(500);

/// The result of a step.
pub(super) enum IoOutcome {
    Lock(Result<SessionLock, LockError>),
    Row(Result<Box<StoredRow>, CommandError>),
    Folded(Result<Box<StoredSession>, CommandError>),
    Grants(Result<GrantsRead, CommandError>),
    Message(Result<ExpandedMessage, CommandError>),
    Settings(Result<Box<SessionSettings>, CommandError>),
    Name(Result<JudgedName, CommandError>),
    Counts(EventCounts),
    Reverted(Result<RevertReply, CommandError>),
    Deleted(Result<(), CommandError>),
    Stored(bool),
}

/// A message as the model gets it.
pub(super) struct ExpandedMessage {
    pub(super) content: Vec<Block>,
    /// The MCP servers that were needed. They run as long as the session holds this.
    pub(super) mcp: Option<Arc<McpFolder>>,
    /// What the user mentioned and the message does not contain, each as a sentence.
    pub(super) problems: Vec<String>,
}

/// What ends the wait for MCP servers early.
pub(super) struct ExpansionCancel {
    /// The message starts a turn, which the cancel ends then. Without a turn, the message is refused.
    pub(super) starts_turn: bool,
    pub(super) canceled: BoxFuture<'static, ()>,
}

/// A session's row and pending records, without its events.
pub(super) struct StoredRow {
    pub(super) row: SessionRow,
    pub(super) pending: Vec<PendingEvent>,
    pub(super) skipped: Vec<SkippedRow>,
    pub(super) last_end: Option<StoredEvent>,
    /// Another server holds the session, with an open turn.
    pub(super) is_running_elsewhere: bool,
}

/// A whole session, folded.
pub(super) struct StoredSession {
    pub(super) row: SessionRow,
    pub(super) state: SessionState,
    pub(super) pending: Vec<PendingEvent>,
    pub(super) skipped: Vec<SkippedRow>,
    pub(super) permissions: StoredPermissions,
}

/// The grants in the store.
pub(super) enum GrantsRead {
    /// All of them.
    All(StoredPermissions),
    /// Memory knows more than the disk, which fails.
    OnlyInMemory,
    /// They could not be read.
    Unread,
}

/// Waits for everything that was recorded before it, and returns the store's health then.
pub(super) type Flushed = oneshot::Receiver<StoreHealth>;

async fn wait_for_flush(flushed: Flushed) -> Result<StoreHealth, StoreError> {
    flushed.await.map_err(|_| StoreError::Closed)
}

fn to_refusal(_: TaskError) -> CommandError {
    // A panic has been reported already.
    StoreError::Closed.into()
}

/// Takes the session's lock, if it is free within `wait`.
pub(super) async fn lock_session(
    services: Arc<Services>,
    session: SessionId,
    wait: Duration,
) -> Result<SessionLock, LockError> {
    let holder = Holder::for_this_process((services.client_name)());
    services
        .store
        .locks
        .acquire_session(&session, &holder, wait)
        .await
}

/// Reads a session's row and pending records.
pub(super) async fn read_row(
    services: Arc<Services>,
    session: SessionId,
    is_locked: bool,
) -> Result<Box<StoredRow>, CommandError> {
    let reader = &services.store.reader;
    let row = reader.read_session(&session).await?;
    let row = row.ok_or_else(|| CommandError::UnknownSession(session.clone()))?;
    let (pending, skipped) = reader.read_pending(&session).await?;
    let last_end = reader.last_end(&session).await?;
    let is_running_elsewhere =
        row.open_turn.is_some() && !is_locked && services.store.locks.is_held(&session).unwrap_or(false);
    Ok(Box::new(StoredRow {
        row,
        pending,
        skipped,
        last_end,
        is_running_elsewhere,
    }))
}

/// Reads a whole session and folds its events.
pub(super) async fn fold_session(
    services: Arc<Services>,
    session: SessionId,
) -> Result<Box<StoredSession>, CommandError> {
    let reader = &services.store.reader;
    let row = reader.read_session(&session).await?;
    let row = row.ok_or_else(|| CommandError::UnknownSession(session.clone()))?;
    let mut state = SessionState::from_row(&row);
    // The fold finds the open turn itself.
    state.turns.open_turn = None;
    let mut skipped = Vec::new();
    let mut pages = reader.walk_events(&session, 0);
    while let Some(page) = pages.next().await? {
        for stored in &page.events {
            state.apply(stored);
        }
        skipped.extend(page.skipped);
    }
    // The row is written together with the events. If it knows more, the record that said so was torn.
    state.spending.usage = row.usage;
    state.spending.cost = row.cost;
    state.spending.known_cost = state.spending.known_cost.max(row.cost.unwrap_or_default());
    let (pending, torn) = reader.read_pending(&session).await?;
    skipped.extend(torn);
    let permissions = reader.read_permissions(&row.folder, &session).await?;
    Ok(Box::new(StoredSession {
        row,
        state,
        pending,
        skipped,
        permissions,
    }))
}

/// Reads the grants again: those of the folder may have been added by another session or server.
///
/// # Errors
/// A newer agentls has migrated the store, so nothing that begins now could be kept (R-SESS-5).
pub(super) async fn read_grants(
    services: Arc<Services>,
    session: SessionId,
    folder: String,
    flushed: Option<Flushed>,
) -> Result<GrantsRead, CommandError> {
    // Grants of this session may not be on the disk yet. While the disk fails, memory has the newest state.
    if let Some(flushed) = flushed
        && !matches!(wait_for_flush(flushed).await, Ok(StoreHealth::Ok))
    {
        return Ok(GrantsRead::OnlyInMemory);
    }
    match services.store.reader.read_permissions(&folder, &session).await {
        Ok(stored) => Ok(GrantsRead::All(stored)),
        Err(error @ StoreError::NewerSchema { .. }) => Err(error.into()),
        Err(error) => {
            tracing::warn!(%error, "grants were not read");
            Ok(GrantsRead::Unread)
        }
    }
}

/// Returns whether a message contains something that [`expand_message`] changes.
pub(super) fn needs_expansion(content: &[Block]) -> bool {
    let is_command = matches!(content.first(), Some(Block::Text(text)) if parse_command_call(text).is_some());
    is_command
        || content.iter().any(|block| match block {
            Block::Text(text) => mentions::may_mention(text) || server_content::may_mention(text),
            Block::Reference(_) | Block::Image(_) => true,
            Block::Reasoning { .. } | Block::ToolUse { .. } | Block::ToolResult { .. } => false,
        })
}

/// Expands a slash command at the start of a message, adds the files and the resources of MCP servers that the user
/// mentions, rewrites file references relative to the session's cwd, as tools print them, and scales large pictures down.
pub(super) async fn expand_message(
    services: Arc<Services>,
    info: SessionInfo,
    workspace: Arc<Workspace>,
    content: Vec<Block>,
    cancel: ExpansionCancel,
) -> Result<ExpandedMessage, CommandError> {
    let typed = content.clone();
    let (content, call) = expand_slash_command(services.clone(), info.clone(), content).await?;
    let (content, problems) = prepare_blocks(&services, info.clone(), workspace, content, &typed).await?;
    // For the turn that is canceled at once.
    let without_servers = cancel.starts_turn.then(|| content.clone());
    let stop = CancellationToken::new();
    let mut adding = std::pin::pin!(add_server_content(services, info, content, &typed, call, &stop));
    tokio::select! { biased;
        () = cancel.canceled => {}
        expanded = &mut adding => {
            let (content, mcp) = expanded?;
            return Ok(ExpandedMessage { content, mcp, problems });
        }
    }
    stop.cancel();
    // Only so that the server learns it.
    let _ = clock::timeout(CANCELING, adding).await;
    match without_servers {
        Some(content) => Ok(ExpandedMessage {
            content,
            mcp: None,
            problems,
        }),
        None => Err(CommandError::Canceled),
    }
}

/// Adds the files that the user's own words mention, and prepares what the message contains. Also returns what could not
/// be added.
async fn prepare_blocks(
    services: &Services,
    info: SessionInfo,
    workspace: Arc<Workspace>,
    mut content: Vec<Block>,
    typed: &[Block],
) -> Result<(Vec<Block>, Vec<String>), CommandError> {
    let typed = typed.to_vec();
    let redactor = services.redactor.clone();
    let prepared = run_blocking(move || {
        let reader = MentionReader {
            cwd: &info.cwd,
            workspace: &workspace,
            redactor: &redactor,
        };
        let mentioned = reader.read_files(&typed);
        content.extend(mentioned.references);
        for block in &mut content {
            if let Block::Reference(reference) = block {
                reference.path = workspace.format_for_model(&info.cwd, Path::new(&reference.path));
            }
        }
        fit_pictures(&mut content).map_err(CommandError::BadCommand)?;
        Ok((content, mentioned.problems))
    });
    prepared.await.map_err(to_refusal)?
}

/// Adds what MCP servers have for the message: a prompt that it calls, and resources that the user's own words mention.
async fn add_server_content(
    services: Arc<Services>,
    info: SessionInfo,
    mut content: Vec<Block>,
    typed: &[Block],
    call: Option<(String, String)>,
    cancel: &CancellationToken,
) -> Result<(Vec<Block>, Option<Arc<McpFolder>>), CommandError> {
    let texts: Vec<&str> = typed
        .iter()
        .filter_map(|block| match block {
            Block::Text(text) if server_content::may_mention(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let mut mcp = None;
    if call.is_some() || !texts.is_empty() {
        let opened = services.clone();
        let opened = run_blocking(move || opened.profiles.mcp_folder(&info));
        mcp = opened.await.map_err(to_refusal)?;
    }
    if let Some(folder) = &mcp {
        let reader = ServerReader {
            folder,
            redactor: &services.redactor,
            cancel,
        };
        if let Some((name, words)) = call {
            let added = reader.expand_prompt(&name, &words).await;
            content.extend(added.map_err(CommandError::BadCommand)?.unwrap_or_default());
        }
        for text in texts {
            let added = reader.read_mentions(text).await;
            content.extend(added.map_err(CommandError::BadCommand)?);
        }
    }
    Ok((content, mcp))
}

/// Expands a slash command that is a file. Returns the name and the words of one that may be a server's prompt.
async fn expand_slash_command(
    services: Arc<Services>,
    info: SessionInfo,
    mut content: Vec<Block>,
) -> Result<(Vec<Block>, Option<(String, String)>), CommandError> {
    let Some(Block::Text(text)) = content.first_mut() else {
        return Ok((content, None));
    };
    let Some((name, words)) = parse_command_call(text) else {
        return Ok((content, None));
    };
    let call = server_content::is_server_prompt(name).then(|| (name.to_owned(), words.to_owned()));
    let prompt = text.clone();
    let read = run_blocking(move || {
        let sources = services.profiles.command_sources(&info)?;
        sources.load_commands().expand_prompt(&prompt)
    });
    match clock::timeout(READING, read).await {
        Ok(Ok(None)) => Ok((content, call)),
        Ok(Ok(Some(Ok(expanded)))) => {
            *text = expanded;
            Ok((content, None))
        }
        Ok(Ok(Some(Err(bad)))) => Err(CommandError::BadCommand(bad.to_string())),
        Ok(Err(_)) | Err(_) => Err(CommandError::BadCommand(
            "cannot read the folders of slash commands; try again, or begin the prompt with a space"
                .to_owned(),
        )),
    }
}

/// Reads the session's current settings.
pub(super) async fn read_settings(
    services: Arc<Services>,
    info: SessionInfo,
) -> Result<Box<SessionSettings>, CommandError> {
    let read = run_blocking(move || Box::new(services.profiles.session_settings(&info)));
    read.await.map_err(to_refusal)
}

/// A name that the user has chosen for a session.
pub(super) enum ChosenName {
    Model(String),
    /// `None` for the default agent.
    Agent(Option<String>),
}

/// What is known about a chosen name.
pub(super) struct JudgedName {
    pub(super) verdict: ModelVerdict,
    /// The model's name with its provider.
    pub(super) full_name: Option<String>,
    /// What new sessions of the agent begin with.
    pub(super) start: ContentChoice,
    /// Why they do not begin with the model that was chosen last.
    pub(super) model_gone: Option<String>,
}

/// Judges whether a model or an agent here can have a name, and completes a model's. It must not contact a provider.
pub(super) async fn judge_name(
    services: Arc<Services>,
    info: SessionInfo,
    name: ChosenName,
) -> Result<JudgedName, CommandError> {
    let profiles = services.profiles.clone();
    let mut start = ContentChoice::default();
    if let ChosenName::Agent(agent) = &name {
        let folder = info.folder.display().to_string();
        let agent = agent.as_deref().unwrap_or_default();
        // Without it, the configuration applies.
        let last = services.store.reader.read_choice(&folder, agent).await;
        start = last.ok().flatten().unwrap_or_default();
    }
    let judged = run_blocking(move || match name {
        ChosenName::Model(model) => JudgedName {
            verdict: profiles.judge_model(&info, &model),
            full_name: Some(profiles.full_model_name(&info, &model)),
            start,
            model_gone: None,
        },
        ChosenName::Agent(agent) => {
            let (start, model_gone) = profiles.recall_choice(&info.folder, agent.as_deref(), start);
            JudgedName {
                verdict: match &agent {
                    Some(name) if !profiles.agent_names(&info).contains(name) => {
                        ModelVerdict::Refuse(format!("unknown agent {name:?}"))
                    }
                    _ => ModelVerdict::Accept,
                },
                full_name: None,
                start: ContentChoice {
                    mode: start
                        .mode
                        .or_else(|| Some(profiles.default_mode(&info.folder, agent.as_deref()))),
                    ..start
                },
                model_gone,
            }
        }
    });
    judged.await.map_err(to_refusal)
}

/// Counts the events of a session that is not open, from the last counted one on.
pub(super) async fn count_events(
    services: Arc<Services>,
    session: SessionId,
    mut counts: EventCounts,
) -> EventCounts {
    let mut pages = services.store.reader.walk_events(&session, counts.through);
    loop {
        match pages.next().await {
            Ok(Some(page)) => {
                for stored in &page.events {
                    counts.apply(stored.seq, &stored.event);
                }
            }
            Ok(None) => return counts,
            Err(error) => {
                tracing::warn!(%session, %error, "events were not counted");
                return counts;
            }
        }
    }
}

/// Deletes a session from the store, then ends its background processes.
pub(super) async fn delete_session(
    services: Arc<Services>,
    session: SessionId,
    workspace: Option<Arc<Workspace>>,
    flushed: Flushed,
) -> Result<(), CommandError> {
    wait_for_flush(flushed).await?;
    services.store.writes.delete_session(session).await?;
    // I8: background processes do not outlive their session.
    if let Some(workspace) = workspace {
        workspace.background().end_all().await;
    }
    Ok(())
}

/// Returns whether the store has the whole session, up to event `last`. What it only holds in memory while the disk
/// fails, or has lost, would be missing after the next load.
pub(super) async fn is_session_stored(
    services: Arc<Services>,
    session: SessionId,
    last: u64,
    flushed: Flushed,
) -> bool {
    if !matches!(wait_for_flush(flushed).await, Ok(StoreHealth::Ok)) {
        return false;
    }
    let row = services.store.reader.read_session(&session).await;
    matches!(row, Ok(Some(row)) if row.last_seq >= last)
}
