//! The registry of live sessions: finds them, loads them on demand, and ends them.
//!
//! It owns the mailboxes and tasks of the actors. It must not know a session's state: every question is a
//! [`SessionCommand`]. One lock covers posting and unloading, so that no command is lost to an actor that leaves.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};

use super::actor::Actor;
use super::choices::remembered_choice_write;
use super::command::{CommandError, SessionCommand, SessionInfo, SessionSnapshot};
use super::live_sessions::{LiveSession, LiveSessionTable, LiveSessions, ServerActivity};
use super::residency::LoadState;
use super::services::Services;
use crate::base::spawn::spawn;
use crate::domain::{ApprovalId, InquiryId, Mode, OpenApproval, OpenInquiry, SessionId, TurnId};
use crate::provider::Effort;
use crate::store::{ContentChoice, Holder, RowWrite, StoreError, StoreWrite};

/// Commands of one session that may wait. More are rejected as busy.
const MAILBOX: usize = 256;

/// All live sessions of a server; clones share them.
#[derive(Clone)]
pub struct SessionManager {
    services: Arc<Services>,
    roll: Arc<LiveSessions>,
}

impl SessionManager {
    /// Creates a manager without live sessions.
    pub fn new(services: Arc<Services>) -> Self {
        Self {
            services,
            roll: Arc::default(),
        }
    }

    /// Returns what the sessions share.
    pub fn services(&self) -> &Arc<Services> {
        &self.services
    }

    /// Creates a session with the given choices, and takes it: no other server works in it while this one runs. Blocks
    /// briefly, for the file of its lock.
    pub fn create_session(&self, info: SessionInfo, choice: ContentChoice) -> (SessionId, Mode) {
        let mode = choice.mode.unwrap_or_else(|| {
            self.services
                .profiles
                .default_mode(&info.folder, info.agent.as_deref())
        });
        let id = info.id.clone();
        let mut roll = self.roll.lock();
        if !roll.is_shutting_down {
            self.start(&mut roll, info, LoadState::New, |actor| {
                actor.state.choice.mode = mode;
                actor.state.choice.model = choice.model;
                actor.state.choice.effort = choice.effort.as_deref().and_then(Effort::from_name);
                self.store_new_session(actor);
            });
        }
        (id, mode)
    }

    /// Stores a new session, so that a client that has kept its id can load it in a later server.
    fn store_new_session(&self, actor: &mut Actor) {
        let holder = Holder::for_this_process((self.services.client_name)());
        match self.services.store.locks.try_acquire(&actor.info.id, &holder) {
            Ok(lock) => actor.residency.lock = Some(lock),
            // Nobody else can find it then; its first command tries again.
            Err(error) => return tracing::warn!(%error, "a session without a prompt was not stored"),
        }
        let row = Box::new(actor.session_row());
        let write = StoreWrite::Row(RowWrite::CreateSession(row));
        if self.services.store.writes.try_send(write).is_err() {
            tracing::warn!("a session without a prompt was not stored");
        }
    }

    /// Remembers the user's choice for new sessions of a folder. If the store is not ready, the choice is forgotten.
    pub fn remember_choice(&self, info: &SessionInfo, choice: ContentChoice) {
        if let Some(write) = remembered_choice_write(info, choice)
            && self.services.store.writes.try_send(write).is_err()
        {
            tracing::warn!("a choice for new sessions was not stored");
        }
    }

    /// Posts a command. Loads the session first if it is not live; a session that does not exist answers so itself.
    ///
    /// # Errors
    /// [`CommandError::Ending`] if the server shuts down, [`CommandError::Busy`] if the session's mailbox is full.
    pub fn post_command(&self, id: &SessionId, command: SessionCommand) -> Result<(), CommandError> {
        let mut roll = self.roll.lock();
        if roll.is_shutting_down {
            return Err(CommandError::Ending);
        }
        // Only a bug ends an actor that is still in the table.
        if roll.live.get(id).is_some_and(|live| live.commands.is_closed()) {
            roll.live.remove(id);
        }
        // A placeholder: the actor reads its row from the store, and answers `UnknownSession` if there is none.
        if !roll.live.contains_key(id) {
            let info = SessionInfo {
                id: id.clone(),
                folder: PathBuf::new(),
                cwd: PathBuf::new(),
                agent: None,
            };
            self.start(&mut roll, info, LoadState::Stored, |_| {});
        }
        let Some(live) = roll.live.get_mut(id) else {
            return Err(CommandError::Ending);
        };
        live.post(command)
    }

    /// Cancels the running turn, or only `turn` if it is given. A second cancel skips graceful shutdown.
    ///
    /// It is never refused and never lost, however many commands wait. It does nothing if no turn runs.
    pub fn cancel_turn(&self, id: &SessionId, turn: Option<&TurnId>) {
        if let Some(live) = self.roll.lock().live.get(id) {
            live.cancels.request_cancel(live.posted, turn);
        }
    }

    /// Posts a command and waits for its answer.
    ///
    /// # Errors
    /// Those of [`SessionManager::post_command`], and those of the command itself.
    pub async fn send_request<T>(
        &self,
        id: &SessionId,
        command: impl FnOnce(oneshot::Sender<Result<T, CommandError>>) -> SessionCommand,
    ) -> Result<T, CommandError> {
        let (reply, answer) = oneshot::channel();
        self.post_command(id, command(reply))?;
        answer.await.unwrap_or_else(|_| Err(self.lost_answer()))
    }

    /// Returns why a session has dropped a command without an answer.
    pub fn lost_answer(&self) -> CommandError {
        if self.roll.lock().is_shutting_down {
            CommandError::Ending
        } else {
            CommandError::Bug
        }
    }

    /// Posts a command if the session is live. Never loads it. Returns `None` if the session cannot take it.
    pub fn post_to_live(&self, id: &SessionId, command: SessionCommand) -> Option<()> {
        self.roll.lock().live.get_mut(id)?.post(command).ok()
    }

    /// Returns a snapshot of a session if it is live. Never loads it.
    pub async fn inspect_live(&self, id: &SessionId) -> Option<SessionSnapshot> {
        let (reply, answer) = oneshot::channel();
        let inspect = SessionCommand::Inspect { reply };
        self.post_to_live(id, inspect)?;
        answer.await.ok()?.ok()
    }

    /// Returns a snapshot of every live session, ordered by id.
    pub async fn collect_snapshots(&self) -> Vec<SessionSnapshot> {
        let ids = self.roll.session_ids();
        let mut snapshots = Vec::with_capacity(ids.len());
        for id in ids {
            snapshots.extend(self.inspect_live(&id).await);
        }
        snapshots.sort_by(|a, b| a.info.id.cmp(&b.info.id));
        snapshots
    }

    /// Closes the circuit of a tool in every live session. Returns whether one was open.
    pub async fn reset_circuits(&self, tool: &str) -> bool {
        let ids = self.roll.session_ids();
        let mut was_open = false;
        for id in ids {
            let tool = tool.to_owned();
            let reset = self.send_request(&id, |reply| SessionCommand::ResetCircuit { tool, reply });
            // A session that is being unloaded takes its circuits with it.
            was_open |= reset.await.unwrap_or(false);
        }
        was_open
    }

    /// Returns the session that asked an open approval, live or not.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn find_asking_session(&self, approval: &ApprovalId) -> Result<Option<SessionId>, StoreError> {
        let live = self.roll.approval_session(approval);
        match live {
            Some(session) => Ok(Some(session)),
            // An interrupted turn's approval outlives the unloading of its session (R-APPR-4).
            None => self.services.store.reader.find_approval_owner(approval).await,
        }
    }

    /// Returns the session that asked an open inquiry, live or not.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn inquired_by(&self, inquiry: &InquiryId) -> Result<Option<SessionId>, StoreError> {
        let live = self.roll.inquiry_session(inquiry);
        match live {
            Some(session) => Ok(Some(session)),
            None => self.services.store.reader.find_inquiry_owner(inquiry).await,
        }
    }

    /// Returns the open inquiries that can be answered here, as [`SessionManager::open_approvals`] does.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open_inquiries(&self) -> Result<Vec<(SessionId, OpenInquiry)>, StoreError> {
        let live = self.collect_snapshots().await;
        let store = &self.services.store;
        let mut stored = store.reader.open_inquiries().await?;
        stored.retain(|(session, _)| {
            let known = live.iter().any(|snapshot| snapshot.info.id == *session);
            !known && !store.locks.is_held(session).unwrap_or(false)
        });
        let live = live.into_iter().flat_map(|snapshot| {
            let id = snapshot.info.id.clone();
            let open: Vec<_> = snapshot.questions.unanswered_inquiries().cloned().collect();
            open.into_iter().map(move |open| (id.clone(), open))
        });
        let mut open: Vec<_> = live.chain(stored).collect();
        open.sort_by_key(|(_, open)| open.at_ms);
        Ok(open)
    }

    /// Returns the open approvals that can be answered here: of live sessions, and of interrupted ones that no server
    /// holds. Approvals that are decided and wait for a resume are not included.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn open_approvals(&self) -> Result<Vec<(SessionId, OpenApproval)>, StoreError> {
        let live = self.collect_snapshots().await;
        let store = &self.services.store;
        let mut stored = store.reader.open_approvals().await?;
        stored.retain(|(session, _)| {
            let known = live.iter().any(|snapshot| snapshot.info.id == *session);
            // Another server that holds the session answers for it.
            !known && !store.locks.is_held(session).unwrap_or(false)
        });
        let live = live.into_iter().flat_map(|snapshot| {
            let id = snapshot.info.id.clone();
            let open: Vec<_> = snapshot.questions.undecided_approvals().cloned().collect();
            open.into_iter().map(move |open| (id.clone(), open))
        });
        let mut open: Vec<_> = live.chain(stored).collect();
        open.sort_by_key(|(_, open)| open.at_ms);
        Ok(open)
    }

    /// Returns the sessions with a running turn.
    pub fn running_sessions(&self) -> Vec<SessionId> {
        self.roll.running_sessions()
    }

    /// Subscribes to changes in the number of turns and open approvals.
    pub fn subscribe_activity(&self) -> watch::Receiver<ServerActivity> {
        self.roll.subscribe_activity()
    }

    /// Revokes a grant in every live session. Returns whether one of them had it.
    pub(super) async fn revoke_live_grant(&self, grant: &str) -> bool {
        let ids = self.roll.session_ids();
        let mut had = false;
        for id in ids {
            let (reply, answer) = oneshot::channel();
            if self
                .post_command(
                    &id,
                    SessionCommand::RevokeGrant {
                        id: grant.to_owned(),
                        reply,
                    },
                )
                .is_ok()
            {
                had |= answer.await.unwrap_or(false);
            }
        }
        had
    }

    /// Returns the ids of the live sessions.
    #[cfg(feature = "sim")]
    pub(super) fn live_session_ids(&self) -> Vec<SessionId> {
        self.roll.session_ids()
    }

    /// Returns the number of live sessions.
    pub fn live_session_count(&self) -> usize {
        self.roll.lock().live.len()
    }

    /// Cancels a session's turn, stores its end, and unloads the session. Does nothing if it is not live.
    ///
    /// The session stays live if other commands wait for it, and while the disk fails: what the store only holds in
    /// memory would be missing after the next load, and its numbers would be given out twice (I6). Returns whether the
    /// session was unloaded.
    ///
    /// # Errors
    /// [`CommandError::Ending`] if the server shuts down, [`CommandError::Busy`] if the session's mailbox is full.
    pub async fn close_session(&self, id: &SessionId) -> Result<bool, CommandError> {
        let (reply, closed) = oneshot::channel();
        let commands = {
            let mut roll = self.roll.lock();
            let Some(live) = roll.live.get_mut(id) else {
                return Ok(true);
            };
            live.post(SessionCommand::Close { reply })?;
            live.commands.clone()
        };
        let is_unloaded = closed.await.unwrap_or_else(|_| Err(self.lost_answer()))?;
        if is_unloaded {
            // Its lock is released by then.
            commands.closed().await;
        }
        Ok(is_unloaded)
    }

    /// Interrupts all turns, stores their ends, and releases the locks.
    pub async fn shut_down(&self) {
        let ending = {
            let mut roll = self.roll.lock();
            roll.is_shutting_down = true;
            std::mem::take(&mut roll.live)
        };
        // All are notified before any is awaited, so that they end in parallel.
        let ending: Vec<LiveSession> = ending.into_values().collect();
        for live in &ending {
            // An actor reads a full mailbox soon; wait for room.
            if live.commands.try_send(SessionCommand::End).is_err() {
                let _ = live.commands.send(SessionCommand::End).await;
            }
        }
        for live in ending {
            let _ = live.task.await;
        }
    }

    fn start(
        &self,
        roll: &mut LiveSessionTable,
        info: SessionInfo,
        stage: LoadState,
        prepare: impl FnOnce(&mut Actor),
    ) {
        let (commands, mailbox) = mpsc::channel(MAILBOX);
        let id = info.id.clone();
        roll.started += 1;
        let number = roll.started;
        let mut actor = Actor::new(info, self.services.clone(), self.roll.clone(), mailbox, stage);
        actor.residency.number = number;
        prepare(&mut actor);
        let live = LiveSession {
            commands,
            posted: 0,
            cancels: actor.mailbox.cancels.clone(),
            task: spawn(actor.run_guarded()),
            number,
        };
        roll.live.insert(id, live);
        self.roll.record_session();
    }
}
