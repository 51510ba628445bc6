//! Session methods: new, list, load, rename, fork, export, delete and revert, and a session's mode and model.

use serde_json::Value;
use tower_lsp::jsonrpc::Result;

use super::super::error::RequestError;
use super::super::service::Service;
use super::super::state::{folder_param, invalid_param, session_param};
use super::super::{from_wire, to_wire};
use super::approvals::{open_approvals, open_inquiries, split_by_kind};
use super::info::effort_to_wire;
use super::store_failed;
use crate::domain::{Envelope, Mode, SessionId};
use crate::protocol::{
    DeleteSessionParams, EmptyResult, EventRecord, ExportSessionParams, ExportSessionResult,
    ForkSessionParams, ForkSessionResult, ListSessionsParams, ListSessionsResult, LoadSessionParams,
    LoadSessionResult, NewSessionParams, NewSessionResult, PartialMessage, RenameSessionParams, RevertParams,
    RevertResult, SessionInfo, SessionState, SetModeParams, SetModelParams,
};
use crate::provider::Effort;
use crate::session::{self, EffortChoice, NewSessionError, SessionCommand, SessionManager, SessionSnapshot};
use crate::store::{
    ContentChoice, EventPage, EventWindow, SessionHit, SessionQuery, SkippedRow, StoreError, StoreHealth,
    StoredEvent,
};
use crate::transport::outbox::Outgoing;

impl Service {
    pub(in crate::server) async fn new_session(&self, params: Value) -> Result<NewSessionResult> {
        let params: NewSessionParams = self.parse_params(params)?;
        let cwd = match &params.cwd {
            Some(cwd) => folder_param("cwd", cwd)?,
            None => self.state.folders().swap_remove(0),
        };
        let is_folder = tokio::fs::metadata(&cwd).await.is_ok_and(|meta| meta.is_dir());
        if !is_folder {
            return Err(invalid_param("cwd", format!("{} is not a folder", cwd.display())));
        }
        let folder = self.state.find_folder(&cwd);
        // Trust comes first: it decides which settings of the folder apply.
        self.state.resolve_trust(&folder).await;
        self.state.report_problems(&folder);
        let wanted = session::NewSession {
            folder,
            cwd,
            agent: params.agent,
            choice: ContentChoice {
                model: params.model.map(|model| model.trim().to_owned()),
                effort: params.effort.map(|effort| Effort::from(effort).name().to_owned()),
                mode: params.mode.map(Mode::from),
            },
            remembered: params.remembered,
        };
        let opened = self
            .state
            .sessions
            .open_new_session(&self.state.configured, wanted)
            .await;
        let created = opened.map_err(RequestError::from)?;
        self.push_warning("model_gone", created.model_gone.as_deref());
        Ok(NewSessionResult {
            session_id: created.id.to_string(),
            model: created.model,
            mode: created.mode.into(),
            effort: created.effort.map(effort_to_wire),
            seq: 0,
        })
    }

    pub(in crate::server) async fn list_sessions(&self, params: Value) -> Result<ListSessionsResult> {
        let params: ListSessionsParams = self.parse_params(params)?;
        let cwd = params
            .cwd
            .as_deref()
            .map(|cwd| folder_param("cwd", cwd))
            .transpose()?;
        let limit = from_wire::parse_session_limit(&params)? as usize;
        let query = SessionQuery {
            cwd: cwd.map(|cwd| cwd.display().to_string()),
            query: params.query,
            cursor: params.cursor,
            limit,
        };
        let page = self.state.sessions.list_sessions(query).await;
        let page = page.map_err(store_failed)?;
        let running: Vec<SessionId> = self.state.sessions.running_sessions();
        Ok(ListSessionsResult {
            sessions: page
                .sessions
                .iter()
                .map(|hit| to_session_info(hit, &running))
                .collect(),
            next_cursor: page.next_cursor,
        })
    }

    pub(in crate::server) async fn load_session(&self, params: Value) -> Result<LoadSessionResult> {
        let params: LoadSessionParams = self.parse_params(params)?;
        let wanted = from_wire::parse_page(&params)?;
        let id = session_param(&params.session_id);
        let row = self.state.sessions.find_row(&id).await;
        if let Some(row) = row.map_err(store_failed)? {
            // Trust comes first: it decides which settings the session loads.
            self.state.resolve_trust(row.folder.as_ref()).await;
        }
        let read_only = params.read_only;
        let loaded = self
            .ask_session(&id, |reply| SessionCommand::Load { read_only, reply })
            .await?;
        // An error means that the store ended with the server: then the stored events are all there are.
        let _ = loaded.passed.await;
        let page = read_page(&self.state.sessions, &id, &wanted, loaded.snapshot.seq).await?;
        self.warn_skipped(&id, loaded.skipped, &page.skipped);
        let gone = self.state.configured.describe_gone(&loaded.snapshot);
        self.push_warning("model_gone", gone.filter(|_| !read_only).as_deref());
        let events = page
            .events
            .iter()
            .map(|stored| to_event_record(&id, stored))
            .collect();
        let (open_limits, open_questions) = split_by_kind(open_inquiries(&loaded.snapshot));
        Ok(LoadSessionResult {
            events,
            has_earlier: page.more_before,
            open_approvals: open_approvals(&loaded.snapshot),
            open_limits,
            open_questions,
            partial: loaded.partial.map(|partial| PartialMessage {
                message_id: partial.message.to_string(),
                text: partial.text,
                offset: 0,
                reasoning: partial.reasoning,
            }),
            instructions: to_wire::instruction_files(
                loaded.snapshot.instructions.as_deref().unwrap_or_default(),
            ),
            seq: loaded.snapshot.seq,
            state: state_of(&loaded.snapshot),
        })
    }

    /// Reports unreadable records once per load. It is not an event of the session, because each load finds them again.
    fn warn_skipped(&self, session: &SessionId, mut skipped: Vec<SkippedRow>, page: &[SkippedRow]) {
        let more = page.iter().filter(|record| !skipped.contains(record));
        let more: Vec<SkippedRow> = more.cloned().collect();
        skipped.extend(more);
        let message = SkippedRow::format_warning(session, &skipped);
        self.push_warning(SkippedRow::CODE, message.as_deref());
    }

    /// Sends a warning that belongs to no event, if there is one.
    fn push_warning(&self, code: &str, message: Option<&str>) {
        let Some(message) = message else { return };
        tracing::warn!(code, "{message}");
        self.state.outbox.push(Outgoing::Notification {
            body: to_wire::encode_frame(&to_wire::server_warning(code, message)),
            group: None,
            permit: None,
        });
    }

    pub(in crate::server) async fn rename_session(&self, params: Value) -> Result<EmptyResult> {
        let params: RenameSessionParams = self.parse_params(params)?;
        let title = from_wire::parse_title(&params)?;
        let id = session_param(&params.session_id);
        self.ask_session(&id, |reply| SessionCommand::Rename { title, reply })
            .await?;
        Ok(EmptyResult {})
    }

    pub(in crate::server) async fn fork_session(&self, params: Value) -> Result<ForkSessionResult> {
        let params: ForkSessionParams = self.parse_params(params)?;
        let id = session_param(&params.session_id);
        let turn = params.turn_id.map(Into::into);
        let forked = self.state.sessions.fork_session(&id, turn).await;
        let (fork, title) = forked.map_err(|refused| super::request_error(&id, refused))?;
        Ok(ForkSessionResult {
            session_id: fork.to_string(),
            title,
        })
    }

    pub(in crate::server) async fn export_session(&self, params: Value) -> Result<ExportSessionResult> {
        let params: ExportSessionParams = self.parse_params(params)?;
        let id = session_param(&params.session_id);
        // Read-only needs no lock, so it also exports a session that another server has open.
        let load = |reply| SessionCommand::Load {
            read_only: true,
            reply,
        };
        let loaded = self.ask_session(&id, load).await?;
        // An error means that the store ended with the server: then the stored events are all there are.
        let _ = loaded.passed.await;
        let mut export = to_wire::Export::new(params.format, &id, &state_of(&loaded.snapshot));
        let mut pages = self.state.sessions.walk_events(&id);
        let mut last = 0;
        while let Some(page) = pages.next().await.map_err(store_failed)? {
            last = page.span.map_or(last, |(_, last)| last);
            for stored in &page.events {
                export.add_event(&id, stored);
            }
        }
        // Events that exist only in memory would be missing without notice.
        if last < loaded.snapshot.seq && self.state.sessions.store_health() != StoreHealth::Ok {
            return Err(store_failed(StoreError::NotWritable).into());
        }
        Ok(ExportSessionResult {
            text: export.into_text(),
        })
    }

    pub(in crate::server) async fn delete_session(&self, params: Value) -> Result<EmptyResult> {
        let params: DeleteSessionParams = self.parse_params(params)?;
        let id = session_param(&params.session_id);
        self.ask_session(&id, |reply| SessionCommand::Delete { reply })
            .await?;
        Ok(EmptyResult {})
    }

    pub(in crate::server) async fn revert_turn(&self, params: Value) -> Result<RevertResult> {
        let RevertParams {
            session_id,
            turn_id,
            dry_run,
            redo,
        } = self.parse_params(params)?;
        let id = session_param(&session_id);
        let turn = turn_id.into();
        let done = self
            .ask_session(&id, |reply| SessionCommand::Revert {
                turn,
                dry_run,
                redo,
                reply,
            })
            .await?;
        Ok(to_wire::to_revert_result(&done))
    }

    pub(in crate::server) async fn set_mode(&self, params: Value) -> Result<EmptyResult> {
        let params: SetModeParams = self.parse_params(params)?;
        let mode = Mode::from(params.mode);
        let id = session_param(&params.session_id);
        self.ask_session(&id, |reply| SessionCommand::SetMode { mode, reply })
            .await?;
        Ok(EmptyResult {})
    }

    pub(in crate::server) async fn set_model(&self, params: Value) -> Result<EmptyResult> {
        let params: SetModelParams = self.parse_params(params)?;
        let model = params.model.trim().to_owned();
        if model.is_empty() {
            return Err(invalid_param("model", "name a model as `provider/model`"));
        }
        let effort = params.effort.map(|effort| EffortChoice::Chosen(effort.into()));
        let id = session_param(&params.session_id);
        let sessions = &self.state.sessions;
        let done = sessions
            .choose_model(&self.state.configured, &id, Some(model), effort)
            .await;
        done.map_err(|refused| super::request_error(&id, refused))?;
        Ok(EmptyResult {})
    }
}

impl From<NewSessionError> for RequestError {
    fn from(error: NewSessionError) -> Self {
        match error {
            NewSessionError::UnknownAgent(agent) => Self::UnknownAgent(agent),
            NewSessionError::UnknownModel(reason) => Self::UnknownModel(reason),
        }
    }
}

/// Reads the requested page, up to event `last`. Later events are sent as notifications.
async fn read_page(
    sessions: &SessionManager,
    id: &SessionId,
    wanted: &from_wire::EventRange,
    last: u64,
) -> Result<EventPage> {
    let end = last.saturating_add(1);
    let window = EventWindow::Before(wanted.before.map_or(end, |before| before.min(end)));
    if wanted.tail == 0 {
        return Ok(EventPage::default());
    }
    let mut page = sessions
        .read_events(id, window, wanted.tail as usize)
        .await
        .map_err(store_failed)?;
    let older = page.events.partition_point(|stored| stored.seq <= wanted.after);
    page.events.drain(..older);
    page.more_before &= older == 0;
    Ok(page)
}

fn to_event_record(session: &SessionId, stored: &StoredEvent) -> EventRecord {
    to_wire::event_record(&Envelope {
        session: session.clone(),
        turn: stored.turn.clone(),
        seq: stored.seq,
        at_ms: stored.at_ms,
        event: stored.event.clone(),
        permit: None,
        in_page: false,
    })
}

fn to_session_info(hit: &SessionHit, running: &[SessionId]) -> SessionInfo {
    let row = &hit.session;
    SessionInfo {
        session_id: row.id.to_string(),
        title: row.title.clone(),
        cwd: row.cwd.clone(),
        created_at: row.created_ms,
        updated_at: row.updated_ms,
        running: running.contains(&row.id),
        snippet: hit.found.as_ref().map(|found| found.excerpt.clone()),
    }
}

fn state_of(snapshot: &SessionSnapshot) -> SessionState {
    SessionState {
        title: snapshot.choice.title.clone(),
        cwd: snapshot.info.cwd.display().to_string(),
        mode: snapshot.choice.mode.into(),
        model: snapshot.choice.model.clone(),
        effort: snapshot.choice.effort.map(effort_to_wire),
        running_turn_id: snapshot.turn.as_ref().map(ToString::to_string),
        resumable_turn_id: snapshot.resumable.as_ref().map(ToString::to_string),
        queue: (!snapshot.queue.prompts.is_empty()).then(|| to_wire::to_queue_state(&snapshot.queue)),
        usage: to_wire::to_token_usage(&snapshot.metrics.usage),
        cost_usd: snapshot.metrics.cost.map(crate::domain::Cost::to_usd),
    }
}
