//! The server's side of a child process: start it, wait for it, stop it in stages.
//!
//! Dropping a [`Process`] kills the command and all that descends from it. Nothing here may start a
//! process but the helper.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, send, sendmsg, shutdown};
use tokio::net::{UnixStream, unix::pipe};
use tokio::sync::watch;

use crate::base::CancellationToken;
use crate::base::clock::{self, Instant};
use crate::base::spawn::{Task, spawn};
use crate::workspace::process::output::{Output, Stream};
use crate::workspace::process::wire::{EXEC_COMMAND, REQUEST_LIMIT, Refusal, Report, Request, Stage};

/// From SIGINT to SIGTERM, and from SIGTERM to SIGKILL (R-CANCEL).
const STEP: Duration = Duration::from_secs(1);
/// How long `finish` lets a command go on (R-CANCEL).
const FINISH: Duration = Duration::from_secs(5);
/// How long to wait for all to be gone after SIGKILL: so a stop takes 2.5 s or 7.5 s at the most.
const AFTER_KILL: Duration = Duration::from_millis(500);
/// The longest line that the helper may send.
const LINE_LIMIT: usize = 64 << 10;

/// Starts commands, each under a helper of its own.
#[derive(Clone, Debug)]
pub struct Launcher {
    helper: PathBuf,
    strip_env: BTreeSet<String>,
}

/// A command to start. Its environment is ours, less what the launcher strips, with the additions.
#[derive(Clone, Debug)]
pub struct Command {
    argv: Vec<OsString>,
    /// Starts `sh` where there is no `bash`.
    shell: bool,
    cwd: PathBuf,
    env: BTreeMap<OsString, Option<OsString>>,
    stdin: Stdin,
    merge: bool,
}

/// What a command reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing.
    #[default]
    Null,
    /// These bytes.
    Bytes(Vec<u8>),
    /// What is written to [`Child::stdin`].
    Piped,
}

/// A running command. Take it apart to read, write and wait at the same time.
#[derive(Debug)]
pub struct Child {
    /// Waits for it and stops it; dropping this kills everything.
    pub process: Process,
    /// Its output. Unread output makes the command wait.
    pub output: Output,
    /// Its input, for [`Stdin::Piped`]; dropping this is its end of file.
    pub stdin: Option<pipe::Sender>,
}

/// The handle on a command and all that descends from it.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    control: Arc<UnixStream>,
    state: watch::Receiver<State>,
    _watcher: Task<()>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// Nobody knows: the helper was killed from outside, or the command could not be.
    Unknown,
}

impl ExitStatus {
    /// Whether it exited with 0.
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }
}

/// How a command and its descendants ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The command's own end.
    pub status: ExitStatus,
    /// No process of it is left. False only for what the kernel does not let us kill.
    pub gone: bool,
}

/// How to stop a command (R-CANCEL).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// SIGINT, SIGTERM after 1 s, SIGKILL after 2 s.
    Interrupt,
    /// Let it finish for 5 s, then as [`Stop::Interrupt`].
    Finish,
    /// The server ends: SIGTERM, SIGKILL after 1 s.
    ServerEnd,
}

/// Everything a command wrote, up to a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collected {
    /// The command's end.
    pub status: ExitStatus,
    /// Standard output (and error where merged).
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// More came than the limit; the rest was read and thrown away.
    pub cut: bool,
}

/// Why a command did not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The working directory cannot be used.
    #[error("cannot use working directory {}: {reason}", path.display())]
    WorkingDirectory {
        /// The directory.
        path: PathBuf,
        /// The system's word.
        reason: String,
    },
    /// There is no such program.
    #[error("cannot find program `{program}`: check its name and PATH ({reason})")]
    NotFound {
        /// The program, without arguments.
        program: String,
        /// The system's word.
        reason: String,
    },
    /// The system refused.
    #[error("cannot start program `{program}`: {reason}")]
    Refused {
        /// The program, without arguments.
        program: String,
        /// The system's word.
        reason: String,
    },
    /// Our own helper did not work.
    #[error("cannot start the process helper {}: {reason}", helper.display())]
    Helper {
        /// The helper's program.
        helper: PathBuf,
        /// What happened.
        reason: String,
    },
}

/// What is known of a command.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Running,
    Ended(ExitStatus),
    Gone {
        status: ExitStatus,
        left: u32,
        at: Instant,
    },
}

impl State {
    pub(super) fn gone_at(&self) -> Option<Instant> {
        match self {
            Self::Gone { at, .. } => Some(*at),
            Self::Running | Self::Ended(_) => None,
        }
    }

    fn status(&self) -> Option<ExitStatus> {
        match self {
            Self::Running => None,
            Self::Ended(status) | Self::Gone { status, .. } => Some(*status),
        }
    }
}

impl Command {
    /// A program (looked for in PATH) and its arguments, or a whole `argv`, in the directory `/`.
    pub fn argv<I>(argv: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            shell: false,
            cwd: PathBuf::from("/"),
            env: BTreeMap::new(),
            stdin: Stdin::Null,
            merge: false,
        }
    }

    /// A script for `bash -c`, or `sh -c` where there is no bash.
    pub fn shell(script: impl Into<OsString>) -> Self {
        Self {
            shell: true,
            ..Self::argv([OsString::from("bash"), "-c".into(), script.into()])
        }
    }

    /// Runs it in this directory (default `/`).
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// Adds a variable; wins over what the launcher strips.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), Some(value.into()));
        self
    }

    /// Does not pass a variable on.
    #[must_use]
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), None);
        self
    }

    /// What it reads (default nothing).
    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Sends its standard error where its standard output goes, in the order written (default: separate).
    #[must_use]
    pub fn merge_stderr(mut self) -> Self {
        self.merge = true;
        self
    }

    fn program(&self) -> String {
        self.argv
            .first()
            .map_or_else(String::new, |program| program.to_string_lossy().into_owned())
    }
}

impl Launcher {
    /// A launcher whose helper is this very binary; `strip_env`: variables that no child gets (R-SEC).
    pub fn new(strip_env: impl IntoIterator<Item = String>) -> Self {
        let helper = if cfg!(target_os = "linux") {
            // Names the running file even after it was replaced by an update.
            PathBuf::from("/proc/self/exe")
        } else {
            std::env::current_exe().unwrap_or_else(|_| PathBuf::from("agentls"))
        };
        Self::with_helper(helper, strip_env)
    }

    /// A launcher whose helper is `helper __exec`, for programs that are not agentls themselves.
    pub fn with_helper(helper: impl Into<PathBuf>, strip_env: impl IntoIterator<Item = String>) -> Self {
        Self {
            helper: helper.into(),
            strip_env: strip_env.into_iter().collect(),
        }
    }

    /// Starts a command and waits until it runs (about 2 ms). Dropping the future kills what it
    /// started.
    pub async fn spawn(&self, mut command: Command) -> Result<Child, SpawnError> {
        match self.start(&command).await {
            Err(SpawnError::NotFound { .. }) if command.shell => {
                command.argv[0] = "sh".into();
                self.start(&command).await
            }
            outcome => outcome,
        }
    }

    async fn start(&self, command: &Command) -> Result<Child, SpawnError> {
        let failed = |error: io::Error| SpawnError::Helper {
            helper: self.helper.clone(),
            reason: error.to_string(),
        };
        let (theirs, pipes) = Pipes::new(command).map_err(failed)?;
        let request = Request {
            cwd: command.cwd.clone(),
            argv: command.argv.clone(),
        }
        .encode();
        for (wrong, reason) in [
            (command.argv.is_empty(), "no program given"),
            (request.len() > REQUEST_LIMIT, "argument list too long"),
        ] {
            if wrong {
                return Err(refused(command, Refusal::Other, reason.into()));
            }
        }
        let (control, end) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
        send_head(&control, request.len() as u32, &theirs).map_err(failed)?;
        drop(theirs);
        let helper = self.helper(command, end.into()).map_err(failed)?;

        control.set_nonblocking(true).map_err(failed)?;
        let control = Arc::new(UnixStream::from_std(control).map_err(failed)?);
        write_all(&control, &request).await.map_err(failed)?;
        let mut reports = Reports {
            control: control.clone(),
            buffer: Vec::new(),
        };
        let pid = match reports.next().await {
            Some(Report::Started(pid)) => pid,
            Some(Report::Refused(why, reason)) => return Err(refused(command, why, reason)),
            _ => {
                return Err(failed(io::Error::other(
                    "it ended before the command was started",
                )));
            }
        };
        let (sender, state) = watch::channel(State::Running);
        Ok(Child {
            output: Output::new(pipes.stdout, pipes.stderr, state.clone()),
            stdin: pipes.stdin,
            process: Process {
                pid,
                control,
                state,
                _watcher: spawn(watch_over(helper, reports, sender)),
            },
        })
    }

    /// Starts the helper. It inherits the socket, as its stdin, and nothing else.
    fn helper(&self, command: &Command, end: OwnedFd) -> io::Result<tokio::process::Child> {
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the one place where helpers start"
        )]
        let mut helper = tokio::process::Command::new(&self.helper);
        helper
            .arg0("agentls")
            .arg(EXEC_COMMAND)
            .stdin(Stdio::from(end))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        for name in &self.strip_env {
            helper.env_remove(name);
        }
        for (name, value) in &command.env {
            match value {
                Some(value) => helper.env(name, value),
                None => helper.env_remove(name),
            };
        }
        helper.spawn()
    }
}

fn refused(command: &Command, why: Refusal, reason: String) -> SpawnError {
    match why {
        Refusal::Directory => SpawnError::WorkingDirectory {
            path: command.cwd.clone(),
            reason,
        },
        Refusal::Missing => SpawnError::NotFound {
            program: command.program(),
            reason,
        },
        Refusal::Other => SpawnError::Refused {
            program: command.program(),
            reason,
        },
    }
}

/// Our ends of the command's stdio.
struct Pipes {
    stdin: Option<pipe::Sender>,
    stdout: pipe::Receiver,
    stderr: Option<pipe::Receiver>,
}

impl Pipes {
    /// The command's stdin, stdout and stderr, and our ends. All are close-on-exec.
    fn new(command: &Command) -> io::Result<([OwnedFd; 3], Self)> {
        let (stdin, our_stdin) = match &command.stdin {
            Stdin::Null => (File::open("/dev/null")?.into(), None),
            Stdin::Bytes(bytes) => (file_of(bytes)?, None),
            Stdin::Piped => {
                let (reader, writer) = io::pipe()?;
                (reader.into(), Some(pipe::Sender::from_owned_fd(writer.into())?))
            }
        };
        let (our_stdout, stdout) = io::pipe()?;
        let (stderr, our_stderr) = if command.merge {
            (stdout.try_clone()?, None)
        } else {
            let (reader, writer) = io::pipe()?;
            (writer, Some(pipe::Receiver::from_owned_fd(reader.into())?))
        };
        let ours = Self {
            stdin: our_stdin,
            stdout: pipe::Receiver::from_owned_fd(our_stdout.into())?,
            stderr: our_stderr,
        };
        Ok(([stdin, stdout.into(), stderr.into()], ours))
    }
}

/// A nameless file that holds `bytes`, to be read from its start: nobody has to feed it.
fn file_of(bytes: &[u8]) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    let mut file = File::from(rustix::fs::memfd_create(
        "stdin",
        rustix::fs::MemfdFlags::CLOEXEC,
    )?);
    #[cfg(not(target_os = "linux"))]
    let mut file = {
        let path = std::env::temp_dir().join(format!("agentls-{}", crate::base::random::token(20)));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        std::fs::remove_file(&path)?;
        file
    };
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// The length of the request, and with it the three descriptors. The socket is new and empty, so
/// this cannot wait.
fn send_head(control: impl AsFd, len: u32, stdio: &[OwnedFd; 3]) -> io::Result<()> {
    let fds = stdio.each_ref().map(AsFd::as_fd);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other("no room for descriptors"));
    }
    let head = len.to_le_bytes();
    let sent = sendmsg(
        control,
        &[IoSlice::new(&head)],
        &mut ancillary,
        SendFlags::empty(),
    )?;
    if sent == head.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

async fn write_all(control: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        control.writable().await?;
        match control.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The helper's lines.
struct Reports {
    control: Arc<UnixStream>,
    buffer: Vec<u8>,
}

impl Reports {
    /// The next report; `None` at the end, or after something that is none.
    async fn next(&mut self) -> Option<Report> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer) {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Report::parse(std::str::from_utf8(&line[..end]).ok()?);
            }
            if self.buffer.len() > LINE_LIMIT {
                return None;
            }
            self.control.readable().await.ok()?;
            match self.control.try_read_buf(&mut self.buffer) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }
}

/// Follows the helper's reports to its end, which is when no process is left.
async fn watch_over(mut helper: tokio::process::Child, mut reports: Reports, state: watch::Sender<State>) {
    let mut status = None;
    let mut left = None;
    while let Some(report) = reports.next().await {
        match report {
            Report::Exited(code) => status = Some(ExitStatus::Code(code)),
            Report::Signalled(signal) => status = Some(ExitStatus::Signal(signal)),
            Report::Gone(count) => left = Some(count),
            Report::Started(_) | Report::Refused(..) => {}
        }
        if let (Some(status), None) = (status, left) {
            state.send_replace(State::Ended(status));
        }
    }
    if left.is_none() {
        // The helper died without a word (SIGKILL): its session is all that we know. It was not
        // waited for yet, so its number is still its own.
        #[cfg(target_os = "linux")]
        if let Some(session) = helper.id().and_then(|id| i32::try_from(id).ok()) {
            let sweep = tokio::task::spawn_blocking(move || super::family::kill_session(session));
            let _ = sweep.await;
        }
    }
    let _ = helper.wait().await;
    state.send_replace(State::Gone {
        status: status.unwrap_or(ExitStatus::Unknown),
        left: left.unwrap_or(0),
        at: clock::now(),
    });
}

impl Process {
    /// The command's process id, which is also its group's.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for the command itself. Its descendants are being killed then; see [`Process::gone`].
    pub async fn wait(&self) -> ExitStatus {
        let mut state = self.state.clone();
        match state.wait_for(|state| state.status().is_some()).await {
            Ok(state) => state.status().unwrap_or(ExitStatus::Unknown),
            Err(_) => ExitStatus::Unknown,
        }
    }

    /// Waits until the command and all that descends from it are gone.
    pub async fn gone(&self) -> Ending {
        let mut state = self.state.clone();
        match state.wait_for(|state| state.gone_at().is_some()).await.as_deref() {
            Ok(State::Gone { status, left, .. }) => Ending {
                status: *status,
                gone: *left == 0,
            },
            Ok(_) | Err(_) => Ending {
                status: ExitStatus::Unknown,
                gone: false,
            },
        }
    }

    /// SIGINT to the command's group and every descendant.
    pub fn interrupt(&self) {
        self.stage(Stage::Interrupt);
    }

    /// SIGTERM to the command's group and every descendant, also to stopped ones.
    pub fn terminate(&self) {
        self.stage(Stage::Terminate);
    }

    /// SIGKILL to every descendant until none is left; see [`Process::gone`].
    pub fn kill(&self) {
        self.stage(Stage::Kill);
    }

    fn stage(&self, stage: Stage) {
        // A full socket is impossible with so few bytes, a closed one means that all is over.
        let _ = send(&*self.control, &[stage.byte()], SendFlags::DONTWAIT);
    }

    /// Stops the command in stages and returns when nobody is left; `hurry` (a second cancel) kills
    /// at once. Takes at most 2.5 s, with [`Stop::Finish`] 7.5 s. The output should be read or
    /// dropped meanwhile, else a command that writes cannot finish.
    pub async fn stop(&self, how: Stop, hurry: &CancellationToken) -> Ending {
        let stages: &[(Option<Stage>, Duration)] = match how {
            Stop::Interrupt => &[(Some(Stage::Interrupt), STEP), (Some(Stage::Terminate), STEP)],
            Stop::Finish => &[
                (None, FINISH),
                (Some(Stage::Interrupt), STEP),
                (Some(Stage::Terminate), STEP),
            ],
            Stop::ServerEnd => &[(Some(Stage::Terminate), STEP)],
        };
        for (stage, limit) in stages {
            if let Some(stage) = stage
                && !hurry.is_cancelled()
            {
                self.stage(*stage);
            }
            tokio::select! {
                biased;
                ending = self.gone() => return ending,
                () = hurry.cancelled() => break,
                () = tokio::time::sleep(*limit) => {}
            }
        }
        self.kill();
        match tokio::time::timeout(AFTER_KILL, self.gone()).await {
            Ok(ending) => ending,
            Err(_) => {
                let status = self.state.borrow().status().unwrap_or(ExitStatus::Unknown);
                Ending { status, gone: false }
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Not only closed: the aborted watcher may hold its half for a while yet.
        let _ = shutdown(&*self.control, Shutdown::Both);
    }
}

impl Child {
    /// Runs the command to its end and keeps up to `limit` bytes of each stream. Dropping the future
    /// kills the command.
    pub async fn collect(self, limit: usize) -> Collected {
        let Self {
            process,
            mut output,
            stdin,
        } = self;
        drop(stdin);
        let (mut stdout, mut stderr, mut cut) = (Vec::new(), Vec::new(), false);
        while let Some(chunk) = output.next().await {
            let kept = match chunk.stream {
                Stream::Stdout => &mut stdout,
                Stream::Stderr => &mut stderr,
            };
            let room = chunk.bytes.len().min(limit - kept.len());
            kept.extend_from_slice(&chunk.bytes[..room]);
            cut |= room < chunk.bytes.len();
        }
        let Ending { status, .. } = process.gone().await;
        Collected {
            status,
            stdout,
            stderr,
            cut,
        }
    }
}
