//! Owns a session's background processes. They outlive the turn that started them, but never their session (I8).
//!
//! Unread output is kept up to a bound, the newest part of it; a process never waits for a reader. Must not know tools
//! or settings: callers pass a finished command. Starting and stopping are in [`crate::workspace::process`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::join_all;
use tokio::sync::watch;

use crate::base::CancellationToken;
use crate::base::spawn::{AbortOnDrop, spawn};
use crate::base::utf8::Decoder;
use crate::workspace::process::{Command, CommandEnd, Launcher, Output, Process, SpawnError, StopMode};
use crate::workspace::{CommandConfinement, SandboxAccess, WatchedCommand};

/// Most background processes of a session, including ended ones that are still listed.
pub const MAX_BACKGROUND: usize = 16;
/// Most unread output kept for each process, in bytes.
pub const MAX_UNREAD: usize = 256 << 10;
/// Pause after each full chunk, so that draining a process that floods its output does not take a whole core.
const FLOOD_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);
/// Size in bytes from which a chunk counts as full: more output is waiting behind it.
const FULL_PIECE: usize = 64 << 10;

/// The background processes of one session. Dropping it kills them all.
#[derive(Debug, Default)]
pub struct Background {
    jobs: Mutex<Jobs>,
}

#[derive(Debug, Default)]
struct Jobs {
    started: u32,
    /// Set when the session ends; nothing starts afterwards.
    closed: bool,
    list: Vec<BackgroundJob>,
}

#[derive(Debug)]
struct BackgroundJob {
    id: String,
    title: String,
    process: Arc<Process>,
    unread: Arc<Mutex<UnreadOutput>>,
    ending: watch::Receiver<Option<CommandEnd>>,
    /// `None` if it is not confined.
    confinement: Option<CommandConfinement>,
    _reader: AbortOnDrop<()>,
}

/// A started command that goes on in the background.
#[derive(Debug)]
pub struct StartedCommand {
    pub process: Process,
    pub output: Output,
    /// Holds the start of a character whose rest was not read yet.
    pub decoder: Decoder,
    /// Finished once nothing of the command is left.
    pub watched: WatchedCommand,
    /// `None` if it is not confined.
    pub confinement: Option<CommandConfinement>,
}

/// A snapshot of a background process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundStatus {
    /// `bg1`, `bg2`, and so on, in order of start.
    pub id: String,
    /// As given to [`Background::start`].
    pub title: String,
    pub pid: u32,
    /// `None` while it runs.
    pub ending: Option<CommandEnd>,
}

/// The output of a background process since it was last read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundOutput {
    pub status: BackgroundStatus,
    pub text: String,
    /// Bytes before `text` that were discarded because more than [`MAX_UNREAD`] bytes were unread.
    pub dropped: u64,
    /// What its sandbox allows; `None` if it is not confined.
    pub access: Option<SandboxAccess>,
    /// A sentence for each host that the sandbox refused since then; `None` if it has no proxy.
    pub refused_hosts: Option<Vec<String>>,
}

/// The reason why an operation on a background process failed.
#[derive(Debug, thiserror::Error)]
pub enum BackgroundError {
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// [`MAX_BACKGROUND`] processes are running.
    #[error("{MAX_BACKGROUND} background processes are already running; end one first")]
    TooMany,
    /// [`Background::end_all`] was called: the session ends.
    #[error("the session is closing; cannot start a background process")]
    Closed,
    #[error("no background process `{id}`: {known}")]
    Unknown {
        id: String,
        /// The ids that exist, as the end of the sentence.
        known: String,
    },
}

/// Output that nobody has read: its newest [`MAX_UNREAD`] bytes.
#[derive(Debug, Default)]
struct UnreadOutput {
    text: VecDeque<u8>,
    dropped: u64,
}

impl UnreadOutput {
    fn push(&mut self, text: &str) {
        self.text.extend(text.as_bytes());
        let mut excess = self.text.len().saturating_sub(MAX_UNREAD);
        // Also drop the rest of a character that the cut would split.
        while excess > 0 && self.text.get(excess).is_some_and(|byte| byte & 0xc0 == 0x80) {
            excess += 1;
        }
        self.text.drain(..excess);
        self.dropped += excess as u64;
    }

    fn take(&mut self) -> (String, u64) {
        let bytes = Vec::from(std::mem::take(&mut self.text));
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (text, std::mem::take(&mut self.dropped))
    }
}

impl BackgroundJob {
    fn new(id: String, title: &str, command: StartedCommand, stop: Option<StopOnCancel>) -> Self {
        let process = Arc::new(command.process);
        let unread = Arc::new(Mutex::new(UnreadOutput::default()));
        let watched = command.watched;
        let (tell_end, ending) = watch::channel(None);
        let output = read_all(command.output, command.decoder, process.clone(), unread.clone());
        let stopping = stop_on_cancel(process.clone(), stop);
        let reader = async move {
            let ending = read_until_ended(output, stopping).await;
            watched.finish().await;
            // Announce the end last, so that whoever sees it finds the complete output.
            tell_end.send_replace(Some(ending));
        };
        Self {
            id,
            title: title.to_owned(),
            process,
            unread,
            ending,
            confinement: command.confinement,
            _reader: spawn(reader),
        }
    }

    fn current_ending(&self) -> Option<CommandEnd> {
        *self.ending.borrow()
    }

    fn to_status(&self) -> BackgroundStatus {
        BackgroundStatus {
            id: self.id.clone(),
            title: self.title.clone(),
            pid: self.process.pid(),
            ending: self.current_ending(),
        }
    }

    fn read(&self) -> BackgroundOutput {
        // Take the status before the text: no output follows the end, so a status with an ending comes with all output.
        let status = self.to_status();
        let (text, dropped) = lock(&self.unread).take();
        let confinement = self.confinement.as_ref();
        let network = confinement.and_then(|confinement| confinement.network.as_ref());
        BackgroundOutput {
            status,
            text,
            dropped,
            access: confinement.map(|confinement| confinement.access.clone()),
            refused_hosts: network.map(|network| network.take_refusals()),
        }
    }
}

/// Stops a background process when the turn that started it in the foreground is canceled.
#[derive(Clone, Debug)]
pub struct StopOnCancel {
    pub cancel: CancellationToken,
    pub mode: StopMode,
}

async fn stop_on_cancel(process: Arc<Process>, stop: Option<StopOnCancel>) {
    let Some(StopOnCancel { cancel, mode }) = stop else {
        return std::future::pending().await;
    };
    cancel.cancelled().await;
    process.stop(mode, &CancellationToken::new()).await;
}

/// Reads to the end, and meanwhile waits for a reason to stop the process: it could not end while nobody reads.
async fn read_until_ended(
    output: impl Future<Output = CommandEnd>,
    stopping: impl Future<Output = ()>,
) -> CommandEnd {
    let mut output = std::pin::pin!(output);
    tokio::select! {
        biased;
        ending = &mut output => ending,
        () = stopping => output.await,
    }
}

async fn read_all(
    mut output: Output,
    mut decoder: Decoder,
    process: Arc<Process>,
    unread: Arc<Mutex<UnreadOutput>>,
) -> CommandEnd {
    while let Some(chunk) = output.next().await {
        let text = decoder.push(&chunk.bytes);
        lock(&unread).push(&text);
        if chunk.bytes.len() >= FULL_PIECE {
            tokio::time::sleep(FLOOD_PAUSE).await;
        }
    }
    lock(&unread).push(decoder.finish_text());
    process.wait_until_gone().await
}

impl Background {
    /// Starts a command that runs until it ends, is killed, or the session ends.
    ///
    /// `cancel` aborts the start. `watched` is finished once nothing of the command is left. Dropping the future kills
    /// what it started.
    ///
    /// # Errors
    /// The command does not start, too many processes are running, or the session is ending.
    pub async fn start(
        &self,
        cancel: &CancellationToken,
        launcher: &Launcher,
        command: Command,
        title: &str,
        watched: WatchedCommand,
    ) -> Result<BackgroundStatus, BackgroundError> {
        // Check before the spawn too, so that a full list starts nothing. Others may come before `adopt` checks
        // again.
        let room = self.lock_jobs().make_room();
        let confinement = command.confinement();
        let child = match room {
            Ok(()) => launcher.spawn_until(cancel, command).await.map_err(Into::into),
            Err(error) => Err(error),
        };
        let (child, watched) = watched.finish_unless_started(child).await?;
        let started = StartedCommand {
            process: child.process,
            output: child.output,
            decoder: Decoder::default(),
            watched,
            confinement,
        };
        match self.adopt(started, title, None) {
            Ok(status) => Ok(status),
            Err((error, started)) => {
                // A process that is on no list would outlive the session (I8).
                started.process.kill();
                started.process.wait_until_gone().await;
                started.watched.finish().await;
                Err(error)
            }
        }
    }

    /// Lets a started command go on in the background until it ends, is killed, or the session ends.
    ///
    /// # Errors
    /// Too many processes are running, or the session is ending. The command is returned, and still runs.
    pub fn adopt(
        &self,
        command: StartedCommand,
        title: &str,
        stop: Option<StopOnCancel>,
    ) -> Result<BackgroundStatus, (BackgroundError, Box<StartedCommand>)> {
        let mut jobs = self.lock_jobs();
        if let Err(error) = jobs.make_room() {
            return Err((error, Box::new(command)));
        }
        jobs.started += 1;
        let job = BackgroundJob::new(format!("bg{}", jobs.started), title, command, stop);
        let status = job.to_status();
        jobs.list.push(job);
        Ok(status)
    }

    /// Lists the running processes and those that ended last, in order of start.
    pub fn list_jobs(&self) -> Vec<BackgroundStatus> {
        self.lock_jobs()
            .list
            .iter()
            .map(BackgroundJob::to_status)
            .collect()
    }

    /// Returns whether no process is running. A session with a running process is not idle (R-SESS-6).
    pub fn is_empty(&self) -> bool {
        self.lock_jobs()
            .list
            .iter()
            .all(|job| job.current_ending().is_some())
    }

    /// Takes the output since the last read.
    ///
    /// # Errors
    /// [`BackgroundError::Unknown`] if no process has this id.
    pub fn read(&self, id: &str) -> Result<BackgroundOutput, BackgroundError> {
        Ok(self.lock_jobs().get(id)?.read())
    }

    /// Waits until the process has ended. Dropping the future does no harm.
    ///
    /// # Errors
    /// [`BackgroundError::Unknown`] if no process has this id.
    pub async fn wait_until_ended(&self, id: &str) -> Result<(), BackgroundError> {
        let mut ending = self.lock_jobs().get(id)?.ending.clone();
        // The sender is gone only if the process was removed meanwhile, which is an end too.
        let _ = ending.wait_for(Option::is_some).await;
        Ok(())
    }

    /// Ends a process and removes it from the list, returning the rest of its output.
    ///
    /// Sends SIGTERM, and SIGKILL after 1 s or as soon as `force_cancel` is canceled. Takes at most 1.5 s.
    ///
    /// # Errors
    /// [`BackgroundError::Unknown`] if no process has this id, or if another caller removed it meanwhile.
    pub async fn kill_job(
        &self,
        id: &str,
        force_cancel: &CancellationToken,
    ) -> Result<BackgroundOutput, BackgroundError> {
        // Take the process out of the lock: stopping it takes up to 1.5 s.
        let process = self.lock_jobs().get(id)?.process.clone();
        let ending = process.stop(StopMode::ServerEnd, force_cancel).await;
        if ending.is_gone {
            // The reader drains the output before it announces the end.
            self.wait_until_ended(id).await?;
        }
        let mut jobs = self.lock_jobs();
        let mut last = jobs.get(id)?.read();
        last.status.ending.get_or_insert(ending);
        jobs.list.retain(|job| job.id != id);
        Ok(last)
    }

    /// Ends all processes concurrently, as [`Background::kill_job`] does; nothing starts afterwards.
    ///
    /// Called when a session is unloaded or deleted, and when the server ends.
    pub async fn end_all(&self) {
        // `closed` is set under the lock that reads the list, so no process can start in between.
        let processes: Vec<_> = {
            let mut jobs = self.lock_jobs();
            jobs.closed = true;
            jobs.list.iter().map(|job| job.process.clone()).collect()
        };
        let force_cancel = CancellationToken::new();
        join_all(
            processes
                .iter()
                .map(|process| process.stop(StopMode::ServerEnd, &force_cancel)),
        )
        .await;
    }

    fn lock_jobs(&self) -> MutexGuard<'_, Jobs> {
        lock(&self.jobs)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // An aborted reader still holds its process for a moment, so dropping the list alone would kill too late.
        for job in &self.lock_jobs().list {
            job.process.kill();
        }
    }
}

impl Jobs {
    fn get(&self, id: &str) -> Result<&BackgroundJob, BackgroundError> {
        self.list
            .iter()
            .find(|job| job.id == id)
            .ok_or_else(|| BackgroundError::Unknown {
                id: id.to_owned(),
                known: match &self.list[..] {
                    [] => "there is none".to_owned(),
                    jobs => {
                        let ids: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
                        format!("there are {}", ids.join(", "))
                    }
                },
            })
    }

    /// Makes room for one more process. A full list drops the oldest process that has ended.
    fn make_room(&mut self) -> Result<(), BackgroundError> {
        if self.closed {
            return Err(BackgroundError::Closed);
        }
        if self.list.len() < MAX_BACKGROUND {
            return Ok(());
        }
        let Some(index) = self.list.iter().position(|job| job.current_ending().is_some()) else {
            return Err(BackgroundError::TooMany);
        };
        self.list.remove(index);
        Ok(())
    }
}

// A panic is the failure of one call only (R-TOOL-5), so a poisoned lock stays usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unread_output_keeps_the_newest() {
        let mut unread = UnreadOutput::default();
        unread.push("old");
        unread.push(&"é".repeat(MAX_UNREAD / 2));
        assert_eq!(unread.take(), ("é".repeat(MAX_UNREAD / 2), 3));
        assert_eq!(unread.take(), (String::new(), 0));
        unread.push(&"é".repeat(MAX_UNREAD / 2));
        unread.push("x");
        assert_eq!(unread.take(), (format!("{}x", "é".repeat(MAX_UNREAD / 2 - 1)), 2));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn unread_output_is_a_bounded_suffix_of_all_output(pieces in prop::collection::vec("[aé😀]{0,40}", 0..6), times in 1_usize..9_000) {
            let pieces: Vec<String> = pieces.iter().map(|piece| piece.repeat(times)).collect();
            let mut unread = UnreadOutput::default();
            pieces.iter().for_each(|piece| unread.push(piece));
            let all = pieces.concat();
            let (text, dropped) = unread.take();
            prop_assert!(text.len() <= MAX_UNREAD && all.ends_with(&text));
            prop_assert_eq!(text.len() as u64 + dropped, all.len() as u64);
        }
    }
}
