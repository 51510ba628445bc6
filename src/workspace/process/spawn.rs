//! The server's side of starting a child process: everything goes through the helper.
//!
//! The descriptors of the helper and the command are passed over a socket pair. So no descriptor is ever inheritable,
//! and starts cannot catch each other's. Nothing here may start any process but the helper, which is in
//! [`super::exec`].

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
use crate::base::clock;
use crate::base::spawn::AbortOnDrop;
use crate::sandbox::{PathRule, SandboxPlan};
use crate::workspace::process::child::{Child, HelperReports, Process};
use crate::workspace::process::command::{Command, Stdin};
use crate::workspace::process::exec_protocol::{
    EXEC_COMMAND, ExecRequest, HelperReport, REQUEST_LIMIT, StartRefusal,
};
use crate::workspace::process::lookup::{
    absolute_entries, entries_outside, find_inside, find_outside, list_code_variables, list_shell_starters,
};
use crate::workspace::process::orphans::{Helper, spawn_helper};
use crate::workspace::process::output::Output;
use crate::workspace::process::unnamed_file::create_unnamed_file;

/// How long a canceled start may take to be gone. It takes milliseconds, except on a busy machine.
const GONE_WITHIN: Duration = Duration::from_secs(2);
/// How often a helper that has not reported the start yet is continued.
const WAKE_EVERY: Duration = Duration::from_millis(100);

/// Starts commands, each under its own helper.
#[derive(Clone, Debug)]
pub struct Launcher {
    helper: PathBuf,
    strip_env: BTreeSet<String>,
    folders: BTreeSet<PathBuf>,
}

/// The reason why a command did not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("cannot use working directory {}: {reason}", path.display())]
    WorkingDirectory {
        path: PathBuf,
        /// As reported by the system.
        reason: String,
    },
    /// The sandbox hides the working directory.
    #[error("cannot set up the sandbox: it hides {}, as a place of secrets", path.display())]
    HiddenDirectory { path: PathBuf },
    #[error("cannot find program `{program}`: check its name and PATH ({reason})")]
    NotFound {
        /// Without arguments.
        program: String,
        /// As reported by the system.
        reason: String,
    },
    /// The system refused to run it.
    #[error("cannot start program `{program}`: {reason}")]
    Refused {
        /// Without arguments.
        program: String,
        /// As reported by the system.
        reason: String,
    },
    /// The system takes no such arguments: they are too long, or contain a NUL byte.
    #[error("cannot start program `{program}`: {reason}")]
    Arguments {
        /// Without arguments.
        program: String,
        reason: String,
    },
    /// The sandbox could not be set up, so the command did not run.
    #[error("cannot set up the sandbox: {reason}")]
    Sandbox { reason: String },
    /// Our own helper failed.
    #[error("cannot start the process helper {}: {reason}", helper.display())]
    Helper {
        /// Path of the helper's program.
        helper: PathBuf,
        reason: String,
    },
    /// Canceled before it ran; nothing of it is left.
    #[error("the command was canceled before it ran")]
    Cancelled,
}

impl Default for Launcher {
    /// Returns a launcher that strips no variables.
    fn default() -> Self {
        Self::new([])
    }
}

impl Launcher {
    /// Creates a launcher with this binary as the helper; no child receives the variables in `strip_env` (R-SEC).
    pub fn new(strip_env: impl IntoIterator<Item = String>) -> Self {
        let helper = if cfg!(target_os = "linux") {
            // Names the running file even after an update has replaced it.
            PathBuf::from("/proc/self/exe")
        } else {
            std::env::current_exe().unwrap_or_else(|_| PathBuf::from("agentls"))
        };
        Self::with_helper(helper, strip_env)
    }

    /// Creates a launcher whose helper is `helper __exec`, for programs other than agentls.
    pub fn with_helper(helper: impl Into<PathBuf>, strip_env: impl IntoIterator<Item = String>) -> Self {
        Self {
            helper: helper.into(),
            strip_env: strip_env.into_iter().collect(),
            folders: BTreeSet::new(),
        }
    }

    /// Replaces the names of the variables that no child receives.
    #[must_use]
    pub fn with_stripped_env(self, strip_env: impl IntoIterator<Item = String>) -> Self {
        Self {
            strip_env: strip_env.into_iter().collect(),
            ..self
        }
    }

    /// Adds workspace folders, none of which may provide the programs that we choose ourselves. They stay: sessions may
    /// still work in a folder that is no longer in the workspace.
    #[must_use]
    pub fn add_workspace_folders(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        self.folders.extend(folders);
        self
    }

    /// Returns the program that a shell would run for this name, if it is in a workspace folder. Reads the disk.
    pub fn find_workspace_program(&self, name: &str) -> Option<PathBuf> {
        let path = absolute_entries(self.inherited_path().as_deref());
        find_inside(OsStr::new(name), &path, &self.folders)
    }

    /// Returns whether there is a program of this name outside the workspace folders. Reads the disk.
    pub fn has_outside_program(&self, name: &str) -> bool {
        let path = absolute_entries(self.inherited_path().as_deref());
        find_outside(OsStr::new(name), &path, &self.folders).is_some()
    }

    /// Starts a command and waits until it runs (about 2 ms). Dropping the future kills what it started.
    ///
    /// # Errors
    /// The command or the helper does not start; see [`SpawnError`].
    pub async fn spawn(&self, command: Command) -> Result<Child, SpawnError> {
        self.spawn_until(&CancellationToken::new(), command).await
    }

    /// Starts a command like [`Launcher::spawn`], unless `cancel` comes first.
    ///
    /// A dropped start would end by itself, but nobody would know when. Here nothing of it is left when this returns
    /// the error (I8).
    ///
    /// # Errors
    /// As for [`Launcher::spawn`], and [`SpawnError::Cancelled`].
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
        let (theirs, pipes) = ChildPipes::new(command).map_err(failed)?;
        let path = self.path(command);
        let request = ExecRequest {
            cwd: command.cwd.clone(),
            program: self.own_program(command, &path)?,
            sandbox: command.sandbox.clone(),
            env: self.list_variables(command),
            argv: command.argv.clone(),
        }
        .to_bytes();
        for (wrong, refusal, reason) in [
            (command.argv.is_empty(), StartRefusal::Other, "no program given"),
            (
                request.len() > REQUEST_LIMIT,
                StartRefusal::Arguments,
                "argument list too long",
            ),
        ] {
            if wrong {
                return Err(to_spawn_error(command, refusal, reason.into()));
            }
        }
        let (control, end) = std::os::unix::net::UnixStream::pair().map_err(failed)?;
        // Before the helper starts: with the socket still empty this cannot block.
        send_head(&control, request.len() as u32, &theirs).map_err(failed)?;
        // Our copies would keep the command's output open forever.
        drop(theirs);
        let helper = self.spawn_helper(command, &path, end.into()).map_err(failed)?;

        control.set_nonblocking(true).map_err(failed)?;
        let control = Arc::new(UnixStream::from_std(control).map_err(failed)?);
        let mut reports = HelperReports::new(control.clone());
        let started = async {
            write_all(&control, &request).await?;
            match reports.next().await {
                // The socket that comes with it is of use only once the command runs.
                Some(HelperReport::Listening(_)) => Ok(reports.next().await),
                report => Ok(report),
            }
        };
        // Cancel first: even a start that has just succeeded is undone.
        let report = tokio::select! { biased;
            () = cancel.cancelled() => {
                give_up(&control, helper).await;
                return Err(SpawnError::Cancelled);
            }
            report = started => report.map_err(failed)?,
            never = hold_helper(&helper) => match never {},
        };
        let pid = match report {
            Some(HelperReport::Started(pid)) => pid,
            Some(HelperReport::Refused(refusal, reason)) => {
                return Err(to_spawn_error(command, refusal, reason));
            }
            _ => {
                // A quick command may have killed the helper, and would go on running.
                give_up(&control, helper).await;
                return Err(failed(io::Error::other("it exited before it reported the start")));
            }
        };
        // Inside of a PID namespace, the command has a number that means nothing outside.
        let pid = if command.needs_namespaces() {
            helper.pid()
        } else {
            pid
        };
        let proxy = match serve_proxy(command, &mut reports) {
            Ok(proxy) => proxy,
            Err(error) => {
                give_up(&control, helper).await;
                return Err(failed(error));
            }
        };
        let process = Process::new(pid, helper, reports, proxy);
        Ok(Child {
            output: Output::new(pipes.stdout, pipes.stderr, process.subscribe_state()),
            stdin: pipes.stdin,
            process,
        })
    }

    /// Returns the PATH of the command.
    fn path(&self, command: &Command) -> OsString {
        match command.env.get(OsStr::new("PATH")) {
            Some(given) => absolute_entries(given.as_deref()),
            None if command.looks_up_outside => {
                let path = absolute_entries(self.inherited_path().as_deref());
                entries_outside(&path, &self.folders)
            }
            None => absolute_entries(self.inherited_path().as_deref()),
        }
    }

    /// Returns the inherited variables by which a workspace folder might decide what the command runs.
    fn list_code_variables(&self, command: &Command) -> Vec<OsString> {
        if !command.looks_up_outside {
            return list_shell_starters(&self.folders, std::env::vars_os());
        }
        list_code_variables(&self.folders, std::env::vars_os())
    }

    fn inherited_path(&self) -> Option<OsString> {
        #[expect(
            clippy::disallowed_methods,
            reason = "what the command inherits is decided here"
        )]
        let inherited = || std::env::var_os("PATH");
        (!self.strip_env.contains("PATH")).then(inherited).flatten()
    }

    /// Returns the path of a program that we choose ourselves; `None` for a program that someone else names.
    fn own_program(&self, command: &Command, path: &OsStr) -> Result<Option<PathBuf>, SpawnError> {
        let Some(name) = command.argv.first().filter(|_| command.ours) else {
            return Ok(None);
        };
        // The working directory counts as a workspace folder: it may contain a program of that name too. Every program
        // would be in `/`, which no repository fills.
        let cwd = Some(&command.cwd).filter(|cwd| cwd.parent().is_some());
        let folders: BTreeSet<PathBuf> = self.folders.iter().chain(cwd).cloned().collect();
        find_outside(name, path, &folders).map(Some).ok_or_else(|| {
            let reason = "it is not in any absolute PATH entry outside the workspace";
            to_spawn_error(command, StartRefusal::Missing, reason.to_owned())
        })
    }

    /// Starts the helper. It inherits the socket as its stdin, and no other descriptor.
    fn spawn_helper(&self, command: &Command, path: &OsStr, end: OwnedFd) -> io::Result<Helper> {
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the one place where helpers start"
        )]
        let mut helper = tokio::process::Command::new(&self.helper);
        helper
            // Otherwise the process list would show `/proc/self/exe`.
            .arg0("agentls")
            .arg(EXEC_COMMAND)
            .args(command.list_stage_words())
            .stdin(Stdio::from(end))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        for name in &self.strip_env {
            helper.env_remove(name);
        }
        // What the command sets comes with the request, and wins over the stripped names.
        for (name, _) in command.env.iter().filter(|(_, value)| value.is_none()) {
            helper.env_remove(name);
        }
        for name in self.list_code_variables(command) {
            helper.env_remove(name);
        }
        // Neither the inherited PATH nor the command's own may bring back relative entries.
        helper.env("PATH", path);
        spawn_helper(&mut helper)
    }

    /// Returns what the command gets beyond what the helper gets.
    fn list_variables(&self, command: &Command) -> Vec<(OsString, OsString)> {
        let own = command.env.iter().filter(|(name, _)| *name != "PATH");
        let own = own.filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
        own.chain(self.list_git_variables(command)).collect()
    }

    /// Returns the settings for git, which are added to those already in the environment.
    fn list_git_variables(&self, command: &Command) -> Vec<(OsString, OsString)> {
        const COUNT: &str = "GIT_CONFIG_COUNT";
        if command.git.is_empty() {
            return Vec::new();
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "what the command inherits is decided here"
        )]
        let inherited: usize = std::env::var(COUNT)
            .ok()
            .filter(|_| !self.strip_env.contains(COUNT))
            .and_then(|count| count.parse().ok())
            .unwrap_or(0);
        let count = (inherited + command.git.len()).to_string();
        let settings = command.git.iter().enumerate().flat_map(|(at, (key, value))| {
            let at = inherited + at;
            [
                (format!("GIT_CONFIG_KEY_{at}"), key.to_string()),
                (format!("GIT_CONFIG_VALUE_{at}"), value.to_string()),
            ]
        });
        let settings = settings.chain([(COUNT.to_owned(), count)]);
        settings
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }
}

/// Serves the socket that the helper opened for the command, if it has a proxy. Without one, nothing answers there.
fn serve_proxy(command: &Command, reports: &mut HelperReports) -> io::Result<Option<AbortOnDrop<()>>> {
    match (&command.proxy, reports.take_socket()) {
        (Some(proxy), Some(socket)) => proxy.serve(socket.into()).map(Some),
        (_, None) | (None, _) => Ok(None),
    }
}

/// Continues the helper repeatedly: a quick command can stop it before it reports the start.
async fn hold_helper(helper: &Helper) -> Infallible {
    loop {
        clock::sleep(WAKE_EVERY).await;
        helper.send_sigcont();
    }
}

/// Makes the helper end together with whatever it has started, and waits for that.
async fn give_up(control: &UnixStream, helper: Helper) {
    let _ = shutdown(control, Shutdown::Both);
    if clock::timeout(GONE_WITHIN, helper.wait_for_cleanup(false))
        .await
        .is_err()
    {
        tracing::warn!("a command whose start was given up is not gone yet");
    }
}

fn to_spawn_error(command: &Command, refusal: StartRefusal, reason: String) -> SpawnError {
    let hides = |plan: &SandboxPlan| plan.find_rule(&command.cwd) == Some(PathRule::Hide);
    match refusal {
        StartRefusal::Directory if command.sandbox.as_ref().is_some_and(hides) => {
            SpawnError::HiddenDirectory {
                path: command.cwd.clone(),
            }
        }
        StartRefusal::Directory => SpawnError::WorkingDirectory {
            path: command.cwd.clone(),
            reason,
        },
        StartRefusal::Missing => SpawnError::NotFound {
            program: command.program_name(),
            reason,
        },
        StartRefusal::Arguments => SpawnError::Arguments {
            program: command.program_name(),
            reason,
        },
        StartRefusal::Sandbox => SpawnError::Sandbox { reason },
        StartRefusal::Other => SpawnError::Refused {
            program: command.program_name(),
            reason,
        },
    }
}

/// Our ends of the command's standard streams.
struct ChildPipes {
    stdin: Option<pipe::Sender>,
    stdout: pipe::Receiver,
    stderr: Option<pipe::Receiver>,
}

impl ChildPipes {
    /// Creates the command's stdin, stdout, and stderr, and our ends of them. All are close-on-exec.
    fn new(command: &Command) -> io::Result<([OwnedFd; 3], Self)> {
        let (stdin, our_stdin) = match &command.stdin {
            Stdin::Null => (File::open("/dev/null")?.into(), None),
            Stdin::Bytes(bytes) => (file_of(bytes)?, None),
            Stdin::Inherited => (io::stdin().as_fd().try_clone_to_owned()?, None),
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

/// Creates an unnamed file with `bytes`, to be read from the start: no task has to feed it.
fn file_of(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = create_unnamed_file("stdin")?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// Sends the length of the request together with the three descriptors. The socket is new and empty, so this cannot
/// block.
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
