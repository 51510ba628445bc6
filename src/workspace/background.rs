//! Owns a session's background processes. They outlive the turn that started them, but never their session (I8).
//!
//! Each has a task that reads its output; it alone holds what nobody has read, and gives it to those who ask. A process
//! never waits for a reader. Must not know tools or settings: callers pass a finished command, and what keeps its output.
//! Starting and stopping are in [`crate::workspace::process`].

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, join_all};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::base::CancellationToken;
use crate::base::clock;
use crate::base::spawn::{AbortOnDrop, spawn};
use crate::base::utf8::Decoder;
use crate::domain::ContentRef;
use crate::workspace::process::{Command, CommandEnd, Launcher, Output, Process, SpawnError, StopMode};
use crate::workspace::{CommandConfinement, SandboxAccess, WatchedCommand};

/// Most background processes of a session, including ended ones that are still listed.
pub const MAX_BACKGROUND: usize = 16;
/// Pause after each full chunk, so that draining a process that floods its output does not take a whole core.
const FLOOD_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);
/// Size in bytes from which a chunk counts as full: more output is waiting behind it.
const FULL_PIECE: usize = 64 << 10;

/// The background processes of one session. Dropping it kills them all.
#[derive(Debug, Default)]
pub struct Background {
    jobs: Mutex<Jobs>,
    /// Notified when a process has ended.
    any_end: Arc<Notify>,
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
    /// Asks the reader for what nobody has read.
    readers: mpsc::Sender<oneshot::Sender<GatheredOutput>>,
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

/// Collects output, in bounded memory.
pub trait OutputCollector: Send {
    /// Adds the next output.
    fn push(&mut self, text: &str);

    /// Waits until there is room for more. Dropping the future loses nothing.
    fn wait_for_room(&mut self) -> BoxFuture<'_, ()>;

    /// Ends the output.
    fn finish(self: Box<Self>) -> BoxFuture<'static, GatheredOutput>;
}

/// The output of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatheredOutput {
    /// For the model; may be empty.
    pub text: String,
    /// Where the complete output is kept if `text` is only a part of it.
    pub full: Option<ContentRef>,
}

/// Makes the collector of what is written until the next read.
pub struct MakeCollector(pub Box<dyn FnMut() -> Box<dyn OutputCollector> + Send>);

impl fmt::Debug for MakeCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MakeCollector")
    }
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
    pub output: GatheredOutput,
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

impl BackgroundJob {
    fn new(
        id: String,
        title: &str,
        command: StartedCommand,
        collect: MakeCollector,
        stop: Option<StopOnCancel>,
        any_end: Arc<Notify>,
    ) -> Self {
        let process = Arc::new(command.process);
        let watched = command.watched;
        let mut confinement = command.confinement;
        if let Some(confinement) = &mut confinement {
            confinement.access.add_reserved(watched.reserved());
        }
        let (tell_end, ending) = watch::channel(None);
        let (readers, asked) = mpsc::channel(1);
        let mut unread = UnreadOutput::new(collect, asked);
        let stopping = stop_on_cancel(process.clone(), stop);
        let of_process = process.clone();
        let reader = async move {
            // The output waits in the pipe meanwhile.
            watched.store().await;
            let output = read_all(command.output, command.decoder, &of_process, &mut unread);
            let ending = read_until_ended(output, stopping).await;
            watched.finish().await;
            // Announce the end last, so that whoever sees it finds the complete output.
            tell_end.send_replace(Some(ending));
            any_end.notify_one();
            unread.give_until_dropped().await;
        };
        Self {
            id,
            title: title.to_owned(),
            process,
            readers,
            ending,
            confinement,
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

    /// Returns what reads the output. It needs no lock.
    fn read(&self) -> impl Future<Output = BackgroundOutput> + use<> {
        // The status comes before the output: nothing follows the end, so a status with an ending comes with everything.
        let status = self.to_status();
        let readers = self.readers.clone();
        let confinement = self.confinement.clone();
        async move {
            let (answer, output) = oneshot::channel();
            // The reader is gone if the process was removed from the list meanwhile.
            let _ = readers.send(answer).await;
            let output = output.await.unwrap_or_default();
            let network = confinement
                .as_ref()
                .and_then(|confinement| confinement.network.as_ref());
            let refused_hosts = network.map(|network| network.take_refusals());
            BackgroundOutput {
                status,
                output,
                access: confinement.map(|confinement| confinement.access),
                refused_hosts,
            }
        }
    }
}

/// What a process wrote that nobody has read. Owned by its reader.
struct UnreadOutput {
    collect: MakeCollector,
    collector: Box<dyn OutputCollector>,
    /// Each gets the output since the last one.
    asked: mpsc::Receiver<oneshot::Sender<GatheredOutput>>,
}

impl UnreadOutput {
    fn new(mut collect: MakeCollector, asked: mpsc::Receiver<oneshot::Sender<GatheredOutput>>) -> Self {
        let collector = (collect.0)();
        Self {
            collect,
            collector,
            asked,
        }
    }

    async fn give(&mut self, to: oneshot::Sender<GatheredOutput>) {
        let collector = std::mem::replace(&mut self.collector, (self.collect.0)());
        // Whoever has asked reads to the end: see `BashOutput::FINISHES_ON_CANCEL`.
        let _ = to.send(collector.finish().await);
    }

    /// Answers until `done` is. Dropping the future loses nothing that `done` has not lost.
    async fn give_until<T>(&mut self, done: impl Future<Output = T>) -> T {
        let mut done = std::pin::pin!(done);
        loop {
            tokio::select! {
                biased;
                result = &mut done => return result,
                Some(to) = self.asked.recv() => self.give(to).await,
            }
        }
    }

    async fn give_until_dropped(mut self) {
        while let Some(to) = self.asked.recv().await {
            self.give(to).await;
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
    process: &Process,
    unread: &mut UnreadOutput,
) -> CommandEnd {
    while let Some(chunk) = unread.give_until(output.next()).await {
        unread.collector.push(&decoder.push(&chunk.bytes));
        unread.collector.wait_for_room().await;
        if chunk.bytes.len() >= FULL_PIECE {
            unread.give_until(clock::sleep(FLOOD_PAUSE)).await;
        }
    }
    unread.collector.push(decoder.finish_text());
    unread.give_until(process.wait_until_gone()).await
}

/// Stops a process, and waits until its output is read and the files that it may have created are known.
async fn stop_and_drain(
    process: Arc<Process>,
    mut ending: watch::Receiver<Option<CommandEnd>>,
    force_cancel: &CancellationToken,
) {
    if process.stop(StopMode::ServerEnd, force_cancel).await.is_gone {
        // An error means that the reader is gone.
        let _ = ending.wait_for(Option::is_some).await;
    }
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
        (title, collect): (&str, MakeCollector),
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
        match self.adopt(started, (title, collect), None) {
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
        (title, collect): (&str, MakeCollector),
        stop: Option<StopOnCancel>,
    ) -> Result<BackgroundStatus, (BackgroundError, Box<StartedCommand>)> {
        let mut jobs = self.lock_jobs();
        if let Err(error) = jobs.make_room() {
            return Err((error, Box::new(command)));
        }
        jobs.started += 1;
        let id = format!("bg{}", jobs.started);
        let job = BackgroundJob::new(id, title, command, collect, stop, self.any_end.clone());
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

    /// Waits until a process has ended since the last call returned. Only one caller may wait.
    pub async fn wait_for_any_end(&self) {
        self.any_end.notified().await;
    }

    /// Takes the output since the last read.
    ///
    /// # Errors
    /// [`BackgroundError::Unknown`] if no process has this id.
    pub async fn read(&self, id: &str) -> Result<BackgroundOutput, BackgroundError> {
        let reading = self.lock_jobs().get(id)?.read();
        Ok(reading.await)
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
        let mut last = self.read(id).await?;
        last.status.ending.get_or_insert(ending);
        self.lock_jobs().list.retain(|job| job.id != id);
        Ok(last)
    }

    /// Ends all processes concurrently, as [`Background::kill_job`] does; nothing starts afterwards. What they may change is
    /// known when this returns.
    ///
    /// Called when a session is unloaded or deleted, and when the server ends.
    pub async fn end_all(&self) {
        // `closed` is set under the lock that reads the list, so no process can start in between.
        let running: Vec<_> = {
            let mut jobs = self.lock_jobs();
            jobs.closed = true;
            let running = jobs.list.iter();
            running
                .map(|job| (job.process.clone(), job.ending.clone()))
                .collect()
        };
        let force_cancel = CancellationToken::new();
        let stop = |(process, ending)| stop_and_drain(process, ending, &force_cancel);
        join_all(running.into_iter().map(stop)).await;
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
                    [] => {
                        "there is none; those that an earlier agentls started have ended with it".to_owned()
                    }
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
