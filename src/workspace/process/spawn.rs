//! The server's side of starting a child process: everything goes through the helper.
//!
//! What the helper and the command get is passed over a socket pair, so that no descriptor is ever
//! inheritable and starts cannot catch each other's. Nothing here may start a process but the helper.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSlice, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, sendmsg, shutdown};
use tokio::net::{UnixStream, unix::pipe};

use crate::base::CancellationToken;
use crate::workspace::process::child::{Child, Process, Reports};
use crate::workspace::process::command::{Command, Stdin};
use crate::workspace::process::exec_protocol::{
    EXEC_COMMAND, ExecRequest, HelperReport, REQUEST_LIMIT, StartRefusal,
};
use crate::workspace::process::lookup::{absolute_entries, find_outside};
use crate::workspace::process::orphans::{Helper, spawn_helper};
use crate::workspace::process::output::Output;

/// How long a start that was cancelled may take to be gone: milliseconds, but on a machine that is busy.
const GONE_WITHIN: Duration = Duration::from_secs(2);
/// How often a helper that has not told of the start yet is woken.
const WAKE_EVERY: Duration = Duration::from_millis(100);

/// Starts commands, each under a helper of its own.
#[derive(Clone, Debug)]
pub struct Launcher {
    helper: PathBuf,
    strip_env: BTreeSet<String>,
    /// The workspace folders.
    folders: Vec<PathBuf>,
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
    /// It was cancelled before it ran; nothing of it is left.
    #[error("the command was cancelled before it ran")]
    Cancelled,
}

impl Default for Launcher {
    /// Strips nothing.
    fn default() -> Self {
        Self::new([])
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
            folders: Vec::new(),
        }
    }

    /// The same launcher, but for the variables that no child gets.
    #[must_use]
    pub fn with_stripped_env(self, strip_env: impl IntoIterator<Item = String>) -> Self {
        Self {
            strip_env: strip_env.into_iter().collect(),
            ..self
        }
    }

    /// The same launcher, for other workspace folders: what we start by ourselves comes from none of them.
    #[must_use]
    pub fn with_workspace_folders(self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        Self {
            folders: folders.into_iter().collect(),
            ..self
        }
    }

    /// Starts a command and waits until it runs (about 2 ms). Dropping the future kills what it
    /// started.
    pub async fn spawn(&self, command: Command) -> Result<Child, SpawnError> {
        self.spawn_until(&CancellationToken::new(), command).await
    }

    /// The same, unless `cancel` comes first: dropped, the start would end by itself, but nobody would know
    /// when; here nothing of it is left when the error is told (I8).
    pub async fn spawn_until(
        &self,
        cancel: &CancellationToken,
        mut command: Command,
    ) -> Result<Child, SpawnError> {
        match self.start(&command, cancel).await {
            Err(SpawnError::NotFound { .. }) if command.shell => {
                command.argv[0] = "sh".into();
                self.start(&command, cancel).await
            }
            outcome => outcome,
        }
    }

    async fn start(&self, command: &Command, cancel: &CancellationToken) -> Result<Child, SpawnError> {
        if cancel.is_cancelled() {
            return Err(SpawnError::Cancelled);
        }
        let failed = |error: io::Error| SpawnError::Helper {
            helper: self.helper.clone(),
            reason: error.to_string(),
        };
        let (theirs, pipes) = Pipes::new(command).map_err(failed)?;
        let path = self.path(command);
        let request = ExecRequest {
            cwd: command.cwd.clone(),
            program: self.own_program(command, &path)?,
            argv: command.argv.clone(),
        }
        .to_bytes();
        for (wrong, reason) in [
            (command.argv.is_empty(), "no program given"),
            (request.len() > REQUEST_LIMIT, "argument list too long"),
        ] {
            if wrong {
                return Err(to_spawn_error(command, StartRefusal::Other, reason.into()));
            }
        }
        let (control, end) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
        send_head(&control, request.len() as u32, &theirs).map_err(failed)?;
        drop(theirs);
        let helper = self.spawn_helper(command, &path, end.into()).map_err(failed)?;

        control.set_nonblocking(true).map_err(failed)?;
        let control = Arc::new(UnixStream::from_std(control).map_err(failed)?);
        let mut reports = Reports::new(control.clone());
        let started = async {
            write_all(&control, &request).await?;
            Ok(reports.next().await)
        };
        let report = tokio::select! { biased;
            () = cancel.cancelled() => {
                give_up(&control, helper).await;
                return Err(SpawnError::Cancelled);
            }
            report = started => report.map_err(failed)?,
            never = keep_awake(&helper) => match never {},
        };
        let pid = match report {
            Some(HelperReport::Started(pid)) => pid,
            Some(HelperReport::Refused(why, reason)) => return Err(to_spawn_error(command, why, reason)),
            _ => {
                // A quick command may have killed it, and would go on.
                give_up(&control, helper).await;
                return Err(failed(io::Error::other("it exited before it reported the start")));
            }
        };
        let process = Process::new(pid, helper, reports);
        Ok(Child {
            output: Output::new(pipes.stdout, pipes.stderr, process.subscribe_state()),
            stdin: pipes.stdin,
            process,
        })
    }

    /// The PATH of the command.
    fn path(&self, command: &Command) -> OsString {
        #[expect(
            clippy::disallowed_methods,
            reason = "what the command inherits is decided here"
        )]
        let inherited = || (!self.strip_env.contains("PATH")).then(|| std::env::var_os("PATH"));
        let path = match command.env.get(OsStr::new("PATH")) {
            Some(given) => given.clone(),
            None => inherited().flatten(),
        };
        absolute_entries(path.as_deref())
    }

    /// Where a program that we name ourselves is; `None` for one that somebody else names.
    fn own_program(&self, command: &Command, path: &OsStr) -> Result<Option<PathBuf>, SpawnError> {
        let Some(name) = command.argv.first().filter(|_| command.ours) else {
            return Ok(None);
        };
        let folders: Vec<PathBuf> = self.folders.iter().chain([&command.cwd]).cloned().collect();
        find_outside(name, path, &folders).map(Some).ok_or_else(|| {
            let reason = "it is not in any absolute PATH entry outside the workspace";
            to_spawn_error(command, StartRefusal::Missing, reason.to_owned())
        })
    }

    /// Starts the helper. It inherits the socket, as its stdin, and nothing else.
    fn spawn_helper(&self, command: &Command, path: &OsStr, end: OwnedFd) -> io::Result<Helper> {
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
        helper.env("PATH", path);
        self.set_git(&mut helper, command);
        spawn_helper(&mut helper)
    }

    /// Adds the settings for git to those that the environment holds already.
    fn set_git(&self, helper: &mut tokio::process::Command, command: &Command) {
        const COUNT: &str = "GIT_CONFIG_COUNT";
        if command.git.is_empty() {
            return;
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "what the command inherits is decided here"
        )]
        let held: usize = std::env::var(COUNT)
            .ok()
            .filter(|_| !self.strip_env.contains(COUNT))
            .and_then(|count| count.parse().ok())
            .unwrap_or(0);
        for (at, (key, value)) in command.git.iter().enumerate() {
            helper.env(format!("GIT_CONFIG_KEY_{}", held + at), key);
            helper.env(format!("GIT_CONFIG_VALUE_{}", held + at), value);
        }
        helper.env(COUNT, (held + command.git.len()).to_string());
    }
}

/// Continues the helper again and again: a quick command can stop it before it has told of the start.
async fn keep_awake(helper: &Helper) -> Infallible {
    loop {
        tokio::time::sleep(WAKE_EVERY).await;
        helper.send_sigcont();
    }
}

/// Has the helper end with whatever it has started, and waits for that.
async fn give_up(control: &UnixStream, helper: Helper) {
    let _ = shutdown(control, Shutdown::Both);
    if tokio::time::timeout(GONE_WITHIN, helper.wait_for_cleanup(false))
        .await
        .is_err()
    {
        tracing::warn!("a command whose start was given up is not gone yet");
    }
}

fn to_spawn_error(command: &Command, why: StartRefusal, reason: String) -> SpawnError {
    match why {
        StartRefusal::Directory => SpawnError::WorkingDirectory {
            path: command.cwd.clone(),
            reason,
        },
        StartRefusal::Missing => SpawnError::NotFound {
            program: command.program_name(),
            reason,
        },
        StartRefusal::Other => SpawnError::Refused {
            program: command.program_name(),
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
