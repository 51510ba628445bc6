//! A session's background processes: they outlive the turn that started them, never their session (I8).
//!
//! Output that nobody has read yet is kept up to a bound, the newest of it; a process never waits for a
//! reader. Knows no tools and no settings.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::join_all;
use tokio::sync::watch;

use crate::base::CancellationToken;
use crate::base::spawn::{AbortOnDrop, spawn};
use crate::base::utf8::Decoder;
use crate::workspace::process::{Child, Command, Ending, Launcher, Output, Process, SpawnError, Stop};

/// How many a session may have.
pub const MAX_BACKGROUND: usize = 16;
/// How much unread output of each is kept, in bytes.
pub const MAX_UNREAD: usize = 256 << 10;
/// What a process that floods waits after each full piece, so that reading it costs no whole core.
const FLOOD_PAUSE: std::time::Duration = std::time::Duration::from_millis(1);
/// A piece of output that is full: more waits behind it.
const FULL_PIECE: usize = 64 << 10;

/// The background processes of one session. Dropping it kills them all.
#[derive(Debug, Default)]
pub struct Background {
    jobs: Mutex<Jobs>,
}

#[derive(Debug, Default)]
struct Jobs {
    started: u32,
    /// The session ends: nothing starts any more.
    closed: bool,
    list: Vec<BackgroundJob>,
}

#[derive(Debug)]
struct BackgroundJob {
    id: String,
    title: String,
    process: Arc<Process>,
    unread: Arc<Mutex<Unread>>,
    ended: watch::Receiver<Option<Ending>>,
    _reader: AbortOnDrop<()>,
}

/// A background process, as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundStatus {
    /// By which it is named: `bg1`, `bg2` and so on.
    pub id: String,
    /// What its starter called it.
    pub title: String,
    /// The system's number of it.
    pub pid: u32,
    /// How it ended; none while it runs.
    pub ended: Option<Ending>,
}

/// What a background process wrote since it was last read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundOutput {
    /// How it stands.
    pub status: BackgroundStatus,
    /// The text.
    pub text: String,
    /// So many bytes came before `text` and are lost, for nobody read them in time.
    pub dropped: u64,
}

/// Why something cannot be done with a background process.
#[derive(Debug, thiserror::Error)]
pub enum BackgroundError {
    /// It did not start.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// Too many run.
    #[error("{MAX_BACKGROUND} background processes are already running; end one first")]
    TooMany,
    /// The session ends.
    #[error("the session is closing; cannot start a background process")]
    Closed,
    /// There is none of that name.
    #[error("no background process `{id}`: {known}")]
    Unknown {
        /// The name.
        id: String,
        /// Those that there are, as text.
        known: String,
    },
}

/// Output that nobody has read, the newest [`MAX_UNREAD`] bytes of it.
#[derive(Debug, Default)]
struct Unread {
    text: VecDeque<u8>,
    dropped: u64,
}

impl Unread {
    fn push(&mut self, text: &str) {
        self.text.extend(text.as_bytes());
        let mut excess = self.text.len().saturating_sub(MAX_UNREAD);
        // Never half a character.
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
    fn new(id: String, title: &str, child: Child) -> Self {
        let process = Arc::new(child.process);
        let unread = Arc::new(Mutex::new(Unread::default()));
        let (tell_end, ended) = watch::channel(None);
        let reader = read_all(child.output, process.clone(), unread.clone(), tell_end);
        Self {
            id,
            title: title.to_owned(),
            process,
            unread,
            ended,
            _reader: spawn(reader),
        }
    }

    fn current_ending(&self) -> Option<Ending> {
        *self.ended.borrow()
    }

    fn to_status(&self) -> BackgroundStatus {
        BackgroundStatus {
            id: self.id.clone(),
            title: self.title.clone(),
            pid: self.process.pid(),
            ended: self.current_ending(),
        }
    }

    fn read(&self) -> BackgroundOutput {
        // The end first: after it nothing comes, so one that is told has all of its output here.
        let status = self.to_status();
        let (text, dropped) = lock(&self.unread).take();
        BackgroundOutput {
            status,
            text,
            dropped,
        }
    }
}

async fn read_all(
    mut output: Output,
    process: Arc<Process>,
    unread: Arc<Mutex<Unread>>,
    ended: watch::Sender<Option<Ending>>,
) {
    let mut decoder = Decoder::default();
    while let Some(chunk) = output.next().await {
        let text = decoder.push(&chunk.bytes);
        lock(&unread).push(&text);
        if chunk.bytes.len() >= FULL_PIECE {
            tokio::time::sleep(FLOOD_PAUSE).await;
        }
    }
    lock(&unread).push(decoder.finish_text());
    let ending = process.wait_until_gone().await;
    ended.send_replace(Some(ending));
}

impl Background {
    /// Starts a command that goes on until it ends, is killed, or the session ends, unless `cancel` comes
    /// first. Dropping the future kills what it started.
    pub async fn start(
        &self,
        cancel: &CancellationToken,
        launcher: &Launcher,
        command: Command,
        title: &str,
    ) -> Result<BackgroundStatus, BackgroundError> {
        self.lock_jobs().make_room()?;
        let child = launcher.spawn_until(cancel, command).await?;
        match self.add_job(child, title) {
            Ok(status) => Ok(status),
            Err((error, child)) => {
                child.process.kill();
                child.process.wait_until_gone().await;
                Err(error)
            }
        }
    }

    /// Adds what was started, unless others came meanwhile, or the end of the session.
    fn add_job(&self, child: Child, title: &str) -> Result<BackgroundStatus, (BackgroundError, Box<Child>)> {
        let mut jobs = self.lock_jobs();
        if let Err(error) = jobs.make_room() {
            return Err((error, Box::new(child)));
        }
        jobs.started += 1;
        let job = BackgroundJob::new(format!("bg{}", jobs.started), title, child);
        let status = job.to_status();
        jobs.list.push(job);
        Ok(status)
    }

    /// All that run, and the last that ended, in the order of their start.
    pub fn list_jobs(&self) -> Vec<BackgroundStatus> {
        self.lock_jobs()
            .list
            .iter()
            .map(BackgroundJob::to_status)
            .collect()
    }

    /// Whether none runs. A session with one that runs is not idle.
    pub fn is_empty(&self) -> bool {
        self.lock_jobs()
            .list
            .iter()
            .all(|job| job.current_ending().is_some())
    }

    /// Takes what it wrote since it was last read.
    pub fn read(&self, id: &str) -> Result<BackgroundOutput, BackgroundError> {
        Ok(self.lock_jobs().get(id)?.read())
    }

    /// Waits until it has ended. Dropping the future does no harm.
    pub async fn wait_until_ended(&self, id: &str) -> Result<(), BackgroundError> {
        let mut ended = self.lock_jobs().get(id)?.ended.clone();
        // An error means that it was taken away meanwhile, which is an end too.
        let _ = ended.wait_for(Option::is_some).await;
        Ok(())
    }

    /// Ends it (SIGTERM, SIGKILL after 1 s, or at once on `hurry`), and takes it off the list with
    /// the last of its output. At most 1.5 s.
    pub async fn kill_job(
        &self,
        id: &str,
        hurry: &CancellationToken,
    ) -> Result<BackgroundOutput, BackgroundError> {
        let process = self.lock_jobs().get(id)?.process.clone();
        let ending = process.stop(Stop::ServerEnd, hurry).await;
        if ending.gone {
            // The last of its output comes before this.
            self.wait_until_ended(id).await?;
        }
        let mut jobs = self.lock_jobs();
        let mut last = jobs.get(id)?.read();
        last.status.ended.get_or_insert(ending);
        jobs.list.retain(|job| job.id != id);
        Ok(last)
    }

    /// Ends all of them at the same time, as [`Background::kill_job`] does; nothing starts after this. For
    /// a session that is unloaded or deleted, and the end of the server.
    pub async fn end_all(&self) {
        let processes: Vec<_> = {
            let mut jobs = self.lock_jobs();
            jobs.closed = true;
            jobs.list.iter().map(|job| job.process.clone()).collect()
        };
        let hurry = CancellationToken::new();
        join_all(
            processes
                .iter()
                .map(|process| process.stop(Stop::ServerEnd, &hurry)),
        )
        .await;
    }

    fn lock_jobs(&self) -> MutexGuard<'_, Jobs> {
        lock(&self.jobs)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // The readers hold their process for a moment yet, though they are aborted.
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

    /// Room for one more, at the price of the one that ended first.
    fn make_room(&mut self) -> Result<(), BackgroundError> {
        if self.closed {
            return Err(BackgroundError::Closed);
        }
        if self.list.len() < MAX_BACKGROUND {
            return Ok(());
        }
        let Some(ended) = self.list.iter().position(|job| job.current_ending().is_some()) else {
            return Err(BackgroundError::TooMany);
        };
        self.list.remove(ended);
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unread_output_keeps_the_newest() {
        let mut unread = Unread::default();
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
        fn unread_output_is_a_bounded_end_of_all(pieces in prop::collection::vec("[aé😀]{0,40}", 0..6), times in 1_usize..9_000) {
            let pieces: Vec<String> = pieces.iter().map(|piece| piece.repeat(times)).collect();
            let mut unread = Unread::default();
            pieces.iter().for_each(|piece| unread.push(piece));
            let all = pieces.concat();
            let (text, dropped) = unread.take();
            prop_assert!(text.len() <= MAX_UNREAD && all.ends_with(&text));
            prop_assert_eq!(text.len() as u64 + dropped, all.len() as u64);
        }
    }
}
