//! The helper `agentls __exec`: runs one command and leaves no process behind (I8).
//!
//! Uses no runtime, no logging, no settings: one `poll` loop over the socket to the server (its stdin), deaths of
//! children, and signals to itself. It signals the command's group and every descendant, and ends when `wait` reports
//! that it has no child. As a child subreaper it also waits for processes that left their group, session, or parent.
//! The server half is in [`super::child`] and [`super::spawn`].

use std::ffi::{OsStr, OsString};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use std::{fmt, io};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, send, sendmsg,
};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, setsid, wait};
use signal_hook::consts::signal as signals;

use crate::base::clock;
use crate::domain::SandboxNetwork;
use crate::sandbox::list_proxy_variables;
#[cfg(target_os = "linux")]
use crate::sandbox::{self, BubblewrapCommand, SandboxPlan};
#[cfg(target_os = "linux")]
use crate::workspace::process::exec_protocol::{
    BUBBLEWRAP_INNER_STAGE, BUBBLEWRAP_STAGE, EXEC_COMMAND, INNER_STAGE, OUTER_STAGE,
};
use crate::workspace::process::exec_protocol::{
    ExecRequest, HelperReport, REQUEST_LIMIT, StartRefusal, StopStage,
};
use crate::workspace::process::long_script::LongScript;
use crate::workspace::process::process_tree::ProcessTree;

/// Time limit for killing what does not die (asleep in the kernel, or another user's).
const SWEEP_LIMIT: Duration = Duration::from_secs(5);
/// How long a snapshot of the process table is used while children are dying.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// First and longest pause between two snapshots while nothing dies.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

/// Runs the helper; `args` are those after `__exec`: none, or a stage of the sandbox. Returns the exit code.
///
/// 0 means that it did its work, whatever the command did; 2 that no server started it; 3 that processes are left.
pub fn exec_main(mut args: impl Iterator<Item = OsString>) -> i32 {
    let outcome = match args.next() {
        None => run_exec_helper(Vec::new()),
        #[cfg(target_os = "linux")]
        Some(stage) if stage == OUTER_STAGE => run_outer_stage(),
        #[cfg(target_os = "linux")]
        Some(stage) if stage == INNER_STAGE => run_exec_helper(args.map(PathBuf::from).collect()),
        #[cfg(target_os = "linux")]
        Some(stage) if stage == BUBBLEWRAP_STAGE => run_bubblewrap_stage(&args.collect::<Vec<_>>()),
        #[cfg(target_os = "linux")]
        Some(stage) if stage == BUBBLEWRAP_INNER_STAGE => run_inside_bubblewrap(&args.collect::<Vec<_>>()),
        Some(_) => Err(io::Error::other("takes no arguments")),
    };
    match outcome {
        Ok(0) => 0,
        Ok(_) => 3,
        Err(error) => {
            let _ = writeln!(
                io::stderr(),
                "agentls __exec is started by agentls itself: {error}"
            );
            2
        }
    }
}

/// Moves into a user namespace, and runs the helper again as process 1 of the PID namespace below it.
///
/// That process takes the request, which is not read here, and its end is the end of everything in the namespace.
#[cfg(target_os = "linux")]
fn run_outer_stage() -> io::Result<u32> {
    setsid()?;
    let server = Server::new();
    #[expect(
        clippy::disallowed_methods,
        reason = "this starts the helper again, not a command"
    )]
    let started = sandbox::close_inherited_files()
        .map(|()| sandbox::list_relative_sockets())
        .and_then(|sockets| sandbox::create_user_namespace().map(|()| sockets))
        .map_err(|error| error.to_string())
        .and_then(|sockets| {
            let mut inner = Command::new("/proc/self/exe");
            inner
                .arg0("agentls")
                .args([EXEC_COMMAND, INNER_STAGE])
                .args(sockets);
            inner
                .spawn()
                .map_err(|error| format!("cannot start process 1: {error}"))
        });
    match started {
        Ok(mut inner) => Ok(u32::from(!inner.wait()?.success())),
        Err(reason) => refuse_start(server, reason),
    }
}

/// Lets bubblewrap run the helper again, as process 1 inside, by a plan in words.
#[cfg(target_os = "linux")]
fn run_bubblewrap_stage(plan: &[OsString]) -> io::Result<u32> {
    setsid()?;
    let server = Server::new();
    let plan = SandboxPlan::from_words(plan).ok_or_else(|| make_invalid_data_error("not a plan"))?;
    let reason = match sandbox::close_inherited_files() {
        Ok(()) => match run_current_bubblewrap(&plan) {
            Ok((Some(SETUP_FAILED), errors)) => errors,
            Ok((code, _)) => return Ok(u32::from(code != Some(0))),
            Err(reason) => reason,
        },
        Err(error) => error.to_string(),
    };
    refuse_start(server, reason)
}

/// Refuses the command. Takes the request first: a server that is still writing it would not see why.
#[cfg(target_os = "linux")]
fn refuse_start(server: Server, reason: String) -> io::Result<u32> {
    server.receive_request()?;
    server.send_report(&HelperReport::Refused(StartRefusal::Sandbox, reason));
    Ok(0)
}

/// What bubblewrap exits with if it cannot set up the sandbox. The helper inside uses other codes.
#[cfg(target_os = "linux")]
const SETUP_FAILED: i32 = 1;

/// Runs bubblewrap, and again if it failed and a path has changed since the rules were resolved.
///
/// bubblewrap mounts by path. Sockets of other programs come and go at any time, so once more is not always enough.
#[cfg(target_os = "linux")]
fn run_current_bubblewrap(plan: &SandboxPlan) -> Result<(Option<i32>, String), String> {
    const MOST_ATTEMPTS: usize = 20;
    let mut attempt = 1;
    loop {
        let bubblewrap = BubblewrapCommand::prepare(plan).map_err(|error| error.to_string())?;
        let outcome = run_bubblewrap(&bubblewrap)?;
        if outcome.0 != Some(SETUP_FAILED) || attempt == MOST_ATTEMPTS || !bubblewrap.is_outdated() {
            return Ok(outcome);
        }
        attempt += 1;
    }
}

/// Runs bubblewrap to its end, and returns its exit code with what it wrote to standard error.
#[cfg(target_os = "linux")]
fn run_bubblewrap(bubblewrap: &BubblewrapCommand) -> Result<(Option<i32>, String), String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this starts the helper again, not a command"
    )]
    let child = Command::new(&bubblewrap.program)
        .args(&bubblewrap.args)
        .args([EXEC_COMMAND, BUBBLEWRAP_INNER_STAGE])
        .args(&bubblewrap.expected)
        .stderr(Stdio::piped())
        .spawn();
    let output = child.and_then(std::process::Child::wait_with_output);
    let output = output.map_err(|error| format!("cannot start bubblewrap: {error}"))?;
    let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok((output.status.code(), errors))
}

/// Runs the command of one request in the sandbox that bubblewrap has set up.
#[cfg(target_os = "linux")]
fn run_inside_bubblewrap(expected: &[OsString]) -> io::Result<u32> {
    let checked = sandbox::close_inherited_files().and_then(|()| sandbox::check_inside(expected));
    if let Err(error) = checked {
        return refuse_start(Server::new(), error.to_string());
    }
    run_exec_helper(Vec::new())
}

/// Runs the command of one request and returns how many processes are left.
///
/// `relative_sockets` are what the outer stage of the sandbox found.
fn run_exec_helper(relative_sockets: Vec<PathBuf>) -> io::Result<u32> {
    // Away from any terminal, and the only owner of the process groups that are created below.
    setsid()?;
    let server = Server::new();
    let (request, stdio) = server.receive_request()?;
    // Before other descriptors are opened, so that its own has a short number.
    let script = LongScript::take_from(&request.argv);
    let inbox = SignalInbox::new()?;
    // Before the start, so that no descendant can escape to another parent.
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(getpid()))?;

    let started = confine(&request, relative_sockets)
        .and_then(|()| open_proxy_socket(&request, server))
        .and_then(|port| Ok((port, script.map_err(|error| explain_start_error(&error))?)))
        .and_then(|(port, script)| start(&request, stdio, port, script));
    match started {
        Ok(main) => {
            server.send_report(&HelperReport::Started(main.as_raw_nonzero().get().unsigned_abs()));
            let root = getpid();
            let remaining = CommandSupervisor {
                server,
                inbox,
                process_tree: ProcessTree { root, main },
                main_alive: true,
            }
            .supervise_command();
            server.send_report(&HelperReport::Gone(remaining));
            return Ok(remaining);
        }
        Err((refusal, text)) => server.send_report(&HelperReport::Refused(refusal, text)),
    }
    Ok(0)
}

/// Confines this process, and with it the command, as the request says.
#[cfg(target_os = "linux")]
fn confine(request: &ExecRequest, relative_sockets: Vec<PathBuf>) -> Result<(), (StartRefusal, String)> {
    match &request.sandbox {
        Some(plan) => {
            sandbox::enter(plan, relative_sockets).map_err(|error| (StartRefusal::Sandbox, error.to_string()))
        }
        None => Ok(()),
    }
}

/// Refuses what this system cannot confine. On macOS, `sandbox-exec` confines the command when it starts.
#[cfg(not(target_os = "linux"))]
fn confine(request: &ExecRequest, _relative_sockets: Vec<PathBuf>) -> Result<(), (StartRefusal, String)> {
    match &request.sandbox {
        Some(plan) if cfg!(target_os = "macos") && plan.method == crate::domain::SandboxMethod::Seatbelt => {
            Ok(())
        }
        Some(_) => Err((StartRefusal::Sandbox, "this system has no sandbox".to_owned())),
        None => Ok(()),
    }
}

/// Listens in the network of the command, and passes the socket to the server, if the plan says that it has a proxy.
///
/// Returns the port. The socket stays in this network, wherever it is used.
fn open_proxy_socket(request: &ExecRequest, server: Server) -> Result<Option<u16>, (StartRefusal, String)> {
    let network = request.sandbox.as_ref().map(|plan| plan.network);
    if network != Some(SandboxNetwork::Proxy) {
        return Ok(None);
    }
    let open = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        server.send_socket(&HelperReport::Listening(port), &listener)?;
        Ok(Some(port))
    };
    open().map_err(|error: io::Error| (StartRefusal::Sandbox, format!("cannot open the proxy: {error}")))
}

/// Starts the command in a group of its own; `proxy_port` is the port of its proxy, if it has one. A `script` replaces its
/// arguments.
///
/// Our copies of its descriptors are closed here, so that readers see the end of its output.
fn start(
    request: &ExecRequest,
    [stdin, stdout, stderr]: [OwnedFd; 3],
    proxy_port: Option<u16>,
    script: Option<LongScript>,
) -> Result<Pid, (StartRefusal, String)> {
    // `spawn` fails alike for a missing directory and a missing program.
    // A directory that can be entered but not listed is fine.
    if let Err(error) = std::fs::metadata(request.cwd.join(".")) {
        return Err((StartRefusal::Directory, error.to_string()));
    }
    let (name, args) = request
        .argv
        .split_first()
        .ok_or((StartRefusal::Other, "no program".to_owned()))?;
    let script_args = script.as_ref().map(|script| script.arguments(name));
    let child = name_program(request, name)?
        .args(script_args.as_ref().map_or(args, |args| args.as_slice()))
        .current_dir(&request.cwd)
        .envs(request.env.iter().map(|(name, value)| (name, value)))
        .envs(proxy_port.into_iter().flat_map(list_proxy_variables))
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::from(stdout))
        .stderr(Stdio::from(stderr))
        // A group of its own can be signaled without hitting the helper.
        .process_group(0)
        .spawn();
    match child {
        Ok(child) => i32::try_from(child.id())
            .ok()
            .and_then(Pid::from_raw)
            .ok_or((StartRefusal::Other, "no process id".to_owned())),
        Err(error) => Err(explain_start_error(&error)),
    }
}

/// Returns why the system did not start a command, by the error that it gave.
fn explain_start_error(error: &io::Error) -> (StartRefusal, String) {
    let refusal = match error.kind() {
        io::ErrorKind::NotFound => StartRefusal::Missing,
        // A NUL byte is an invalid input.
        io::ErrorKind::ArgumentListTooLong | io::ErrorKind::InvalidInput => StartRefusal::Arguments,
        _ => StartRefusal::Other,
    };
    (refusal, error.to_string())
}

/// Returns a command without arguments.
#[cfg(not(target_os = "macos"))]
fn name_program(request: &ExecRequest, name: &OsStr) -> Result<Command, (StartRefusal, String)> {
    Ok(name_unconfined_program(request, name))
}

/// Returns a command without arguments, which `sandbox-exec` confines if there is a plan.
#[cfg(target_os = "macos")]
fn name_program(request: &ExecRequest, name: &OsStr) -> Result<Command, (StartRefusal, String)> {
    let Some(plan) = &request.sandbox else {
        return Ok(name_unconfined_program(request, name));
    };
    let profile = crate::sandbox::build_seatbelt_profile(plan)
        .map_err(|error| (StartRefusal::Sandbox, error.to_string()))?;
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place where commands start"
    )]
    let mut command = Command::new("/usr/bin/sandbox-exec");
    command.arg("-p").arg(profile);
    command.arg(request.program.as_deref().unwrap_or(name.as_ref()));
    Ok(command)
}

fn name_unconfined_program(request: &ExecRequest, name: &OsStr) -> Command {
    let program = request.program.as_deref().unwrap_or(name.as_ref());
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place where commands start"
    )]
    let mut command = Command::new(program);
    // The command sees the name that it was called by, wherever the program was found.
    command.arg0(name);
    command
}

/// The server's end of the socket.
#[derive(Clone, Copy)]
struct Server {
    fd: BorrowedFd<'static>,
}

impl Server {
    fn new() -> Self {
        let fd = rustix::stdio::stdin();
        Self { fd }
    }

    /// Receives the request and the command's stdin, stdout, and stderr.
    fn receive_request(&self) -> io::Result<(ExecRequest, [OwnedFd; 3])> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut len = [0; 4];
        // Close-on-exec where the system supports it. Elsewhere only the command is started meanwhile, with copies that
        // std makes.
        #[cfg(target_os = "linux")]
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
        #[cfg(not(target_os = "linux"))]
        let flags = RecvFlags::WAITALL;
        let received = recvmsg(self.fd, &mut [IoSliceMut::new(&mut len)], &mut ancillary, flags)?;
        if received.bytes != len.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut fds = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        let stdio = fds
            .try_into()
            .map_err(|_| make_invalid_data_error("not three descriptors"))?;

        let len = u32::from_le_bytes(len) as usize;
        if len > REQUEST_LIMIT {
            return Err(make_invalid_data_error("too long a request"));
        }
        let mut body = vec![0; len];
        let mut filled = 0;
        while filled < len {
            match rustix::io::read(self.fd, &mut body[filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let request =
            ExecRequest::from_bytes(&body).ok_or_else(|| make_invalid_data_error("not a request"))?;
        Ok((request, stdio))
    }

    /// Reports to the server, if it still exists.
    ///
    /// Never waits: a server that does not read must not keep its children alive.
    fn send_report(&self, report: &HelperReport) {
        let _ = send(self.fd, report.to_line().as_bytes(), SendFlags::DONTWAIT);
    }

    /// Reports to the server, and passes a socket with it.
    fn send_socket(&self, report: &HelperReport, socket: &TcpListener) -> io::Result<()> {
        let sockets = [socket.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let line = report.to_line();
        let has_room = ancillary.push(SendAncillaryMessage::ScmRights(&sockets));
        let sent = sendmsg(
            self.fd,
            &[IoSlice::new(line.as_bytes())],
            &mut ancillary,
            SendFlags::DONTWAIT,
        )?;
        if has_room && sent == line.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    }

    /// Reads the next stage after `poll` announced it. A missing server counts as the last stage.
    fn read_stage(&self) -> Option<StopStage> {
        let mut byte = [0];
        match rustix::io::read(self.fd, &mut byte) {
            Ok(1) => Some(StopStage::from_byte(byte[0])),
            Err(Errno::INTR | Errno::AGAIN) => None,
            Ok(_) | Err(_) => Some(StopStage::Kill),
        }
    }
}

fn make_invalid_data_error(message: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Signals to the helper, as readable sockets.
struct SignalInbox {
    deaths: UnixStream,
    /// Requests to end: SIGTERM, SIGINT, SIGHUP, SIGQUIT.
    ends: UnixStream,
}

impl SignalInbox {
    fn new() -> io::Result<Self> {
        let deaths = Self::listen_for_signals(&[signals::SIGCHLD])?;
        let ends = Self::listen_for_signals(&[
            signals::SIGTERM,
            signals::SIGINT,
            signals::SIGHUP,
            signals::SIGQUIT,
        ])?;
        // By default these would end or stop us, and they have no meaning here. The command inherits ignored signals
        // but not handlers.
        let unheard = Arc::new(AtomicBool::new(false));
        for signal in [
            signals::SIGUSR1,
            signals::SIGUSR2,
            signals::SIGALRM,
            signals::SIGVTALRM,
            signals::SIGPROF,
            signals::SIGIO,
            signals::SIGXCPU,
            signals::SIGXFSZ,
            signals::SIGTSTP,
            signals::SIGTTIN,
            signals::SIGTTOU,
        ] {
            signal_hook::flag::register(signal, unheard.clone())?;
        }
        Ok(Self { deaths, ends })
    }

    fn listen_for_signals(which: &[i32]) -> io::Result<UnixStream> {
        let (read, write) = UnixStream::pair()?;
        // Draining must not block once the socket is empty.
        read.set_nonblocking(true)?;
        for &signal in which {
            signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
        }
        Ok(read)
    }

    /// Empties the socket; several signals may have merged into one.
    fn drain_signals(mut stream: &UnixStream) {
        let mut bytes = [0; 256];
        while matches!(stream.read(&mut bytes), Ok(count) if count == bytes.len()) {}
    }

    /// Waits for a death and returns whether there was one.
    fn death_within(&self, limit: Duration) -> bool {
        let happened = wait_until_ready(&mut [PollFd::new(&self.deaths, PollFlags::IN)], Some(limit));
        Self::drain_signals(&self.deaths);
        happened
    }
}

/// Waits until one of `fds` is ready or `limit` has passed; an interrupted wait counts as ready.
fn wait_until_ready(fds: &mut [PollFd<'_>], limit: Option<Duration>) -> bool {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    match poll(fds, limit.as_ref()) {
        Ok(count) => count > 0,
        Err(_) => true,
    }
}

/// Whether there is still a child to wait for.
#[derive(PartialEq, Eq)]
enum ChildrenLeft {
    Some,
    None,
}

/// Supervises a started command.
struct CommandSupervisor {
    server: Server,
    inbox: SignalInbox,
    process_tree: ProcessTree,
    /// The command itself has not been reaped yet.
    main_alive: bool,
}

impl fmt::Debug for CommandSupervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandSupervisor")
            .field("process_tree", &self.process_tree)
            .finish_non_exhaustive()
    }
}

impl CommandSupervisor {
    /// Obeys the server until the command ends or must be killed, then sweeps. Returns how many processes are left.
    ///
    /// The result is 0 except for what the kernel does not let us kill.
    fn supervise_command(&mut self) -> u32 {
        loop {
            let (fd, deaths, ends) = (self.server.fd, self.inbox.deaths.as_fd(), self.inbox.ends.as_fd());
            let mut fds = [fd, deaths, ends].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            wait_until_ready(&mut fds, None);
            let [server, deaths, ends] = fds.map(|fd| !fd.revents().is_empty());
            // Deaths first: once the command has ended, no stage matters any more.
            if deaths {
                SignalInbox::drain_signals(&self.inbox.deaths);
                self.reap_children();
                if !self.main_alive {
                    return self.sweep_descendants();
                }
            }
            if ends {
                SignalInbox::drain_signals(&self.inbox.ends);
                self.apply_stage(StopStage::Terminate);
            }
            if server && let Some(stage) = self.server.read_stage() {
                if stage == StopStage::Kill {
                    return self.sweep_descendants();
                }
                self.apply_stage(stage);
            }
        }
    }

    fn apply_stage(&self, stage: StopStage) {
        let signal = match stage {
            StopStage::Interrupt => Signal::INT,
            StopStage::Terminate => Signal::TERM,
            StopStage::Kill => Signal::KILL,
        };
        self.process_tree.signal_members(signal, self.main_alive);
        // A stopped process cannot handle SIGTERM.
        if stage == StopStage::Terminate {
            self.process_tree.signal_members(Signal::CONT, self.main_alive);
        }
    }

    /// Kills repeatedly until `wait` reports that there is no child.
    ///
    /// A process that was forked after one snapshot is in the next.
    fn sweep_descendants(&mut self) -> u32 {
        let end = clock::now() + SWEEP_LIMIT;
        let mut pause = PAUSE.0;
        // Without a subreaper, orphans are not our children to wait for: kill the group in any case.
        if cfg!(not(target_os = "linux")) {
            self.apply_stage(StopStage::Kill);
        }
        while self.reap_children() == ChildrenLeft::Some {
            if clock::now() >= end {
                return u32::try_from(self.process_tree.count_members().max(1)).unwrap_or(u32::MAX);
            }
            self.apply_stage(StopStage::Kill);
            let must_look_again = clock::now() + LOOK_AGAIN;
            while self.inbox.death_within(pause) {
                pause = PAUSE.0;
                if self.reap_children() == ChildrenLeft::None {
                    return 0;
                }
                if clock::now() >= must_look_again {
                    break;
                }
            }
            pause = (pause * 2).min(PAUSE.1);
        }
        0
    }

    /// Reaps every dead child; reports the command's own end immediately.
    fn reap_children(&mut self) -> ChildrenLeft {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if pid == self.process_tree.main && self.main_alive {
                        self.main_alive = false;
                        self.server.send_report(&to_exit_report(status));
                    }
                }
                Ok(None) => return ChildrenLeft::Some,
                Err(Errno::INTR) => {}
                // No child is left.
                Err(_) => return ChildrenLeft::None,
            }
        }
    }
}

fn to_exit_report(status: WaitStatus) -> HelperReport {
    match status.terminating_signal() {
        Some(signal) => HelperReport::Signalled(signal),
        None => HelperReport::Exited(status.exit_status().unwrap_or(-1)),
    }
}
