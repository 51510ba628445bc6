//! All live sessions: finds them, makes them live, ends them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::actor::{Actor, Stage};
use super::command::{Command, Refused, SessionInfo, Snapshot};
use super::house::House;
use crate::base::spawn::{Task, spawn};
use crate::domain::{Mode, SessionId};

/// How many commands of one session may wait; more are refused as busy.
const MAILBOX: usize = 256;

/// All live sessions of a server.
pub struct Sessions {
    house: Arc<House>,
    roll: Arc<Roll>,
}

/// Which sessions are live, and the way to them.
#[derive(Default)]
pub(super) struct Roll {
    live: Mutex<HashMap<SessionId, Live>>,
}

struct Live {
    commands: mpsc::Sender<Command>,
    task: Task<()>,
}

impl Sessions {
    /// No session is live yet.
    pub fn new(house: Arc<House>) -> Self {
        Self { house, roll: Arc::default() }
    }

    /// What the sessions share.
    pub fn house(&self) -> &Arc<House> {
        &self.house
    }

    /// A new session. The store learns of it when something happens in it.
    pub fn create(&self, info: SessionInfo, mode: Option<Mode>, model: Option<String>) -> (SessionId, Mode) {
        let mode =
            mode.unwrap_or_else(|| self.house.profiles.default_mode(&info.folder, info.agent.as_deref()));
        let id = info.id.clone();
        let mut roll = self.roll.lock();
        let live = self.start(info, Stage::New, |actor| {
            actor.state.mode = mode;
            actor.state.model = model;
        });
        roll.insert(id.clone(), live);
        (id, mode)
    }

    /// Posts a command; a session that is not live is made so, and says itself if it does not exist.
    pub fn post(&self, id: &SessionId, command: Command) -> Result<(), Refused> {
        let mut roll = self.roll.lock();
        let live = roll.entry(id.clone()).or_insert_with(|| {
            let info = SessionInfo {
                id: id.clone(),
                folder: PathBuf::new(),
                cwd: PathBuf::new(),
                agent: None,
            };
            self.start(info, Stage::Stored, |_| {})
        });
        live.commands.try_send(command).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Refused::Busy,
            mpsc::error::TrySendError::Closed(_) => Refused::Ending,
        })
    }

    /// Posts a command only if the session is live.
    pub fn post_if_live(&self, id: &SessionId, command: Command) {
        if let Some(live) = self.roll.lock().get(id) {
            // Full: 256 commands wait, and a cancel is one of them already or the session is being flooded.
            let _ = live.commands.try_send(command);
        }
    }

    /// Posts a command and waits for its answer.
    pub async fn ask<T>(
        &self,
        id: &SessionId,
        command: impl FnOnce(oneshot::Sender<Result<T, Refused>>) -> Command,
    ) -> Result<T, Refused> {
        let (reply, answer) = oneshot::channel();
        self.post(id, command(reply))?;
        answer.await.unwrap_or(Err(Refused::Ending))
    }

    /// Where every live session stands.
    pub async fn snapshots(&self) -> Vec<Snapshot> {
        let ids: Vec<SessionId> = self.roll.lock().keys().cloned().collect();
        let mut snapshots = Vec::with_capacity(ids.len());
        for id in ids {
            if let Ok(snapshot) = self.ask(&id, |reply| Command::Inspect { reply }).await {
                snapshots.push(snapshot);
            }
        }
        snapshots.sort_by(|a, b| a.info.id.cmp(&b.info.id));
        snapshots
    }

    /// How many sessions are live.
    pub fn live(&self) -> usize {
        self.roll.lock().len()
    }

    /// Interrupts all turns, stores their ends, releases the locks.
    pub async fn end(&self) {
        let ending: Vec<Live> = self.roll.lock().drain().map(|(_, live)| live).collect();
        for live in &ending {
            // A full mailbox is read before long: the actor is asked to end when there is room.
            if live.commands.try_send(Command::End).is_err() {
                let _ = live.commands.send(Command::End).await;
            }
        }
        for live in ending {
            let _ = live.task.await;
        }
    }

    fn start(&self, info: SessionInfo, stage: Stage, prepare: impl FnOnce(&mut Actor)) -> Live {
        let (commands, mailbox) = mpsc::channel(MAILBOX);
        let mut actor = Actor::new(info, self.house.clone(), self.roll.clone(), mailbox, stage);
        prepare(&mut actor);
        Live { commands, task: spawn(actor.run()) }
    }
}

impl Roll {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Live>> {
        // The map is whole after every statement, so that a panic elsewhere does not spoil it.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle session goes, unless something was posted meanwhile: posting happens under the same lock.
    pub(super) fn retire(&self, id: &SessionId, commands: &mpsc::Receiver<Command>) -> bool {
        let mut live = self.lock();
        if !commands.is_empty() {
            return false;
        }
        if let Some(gone) = live.remove(id) {
            // It is its own task that asks: it ends by itself, and must not be aborted by the drop.
            gone.task.let_go();
        }
        true
    }

    /// A session that left (deleted, unknown) is no longer listed.
    pub(super) fn left(&self, id: &SessionId) {
        if let Some(gone) = self.lock().remove(id) {
            gone.task.let_go();
        }
    }
}
