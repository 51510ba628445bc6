//! A running command: waits for it, stops it in stages, and collects its output.
//!
//! Dropping a [`Process`] kills the command and all its descendants (I8). Must not signal processes itself: the helper
//! does that, and [`super::orphans`] if the helper fails.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, Shutdown, recvmsg, send, shutdown,
};
use tokio::io::Interest;
use tokio::net::{UnixStream, unix::pipe};
use tokio::sync::watch;

use crate::base::CancellationToken;
use crate::base::clock;
use crate::base::spawn::{AbortOnDrop, spawn};
use crate::workspace::process::exec_protocol::{HelperReport, StopStage};
use crate::workspace::process::orphans::{self, Helper};
use crate::workspace::process::output::{Output, Stream};
use crate::workspace::process::state::{ExitStatus, State};

/// From SIGINT to SIGTERM, and from SIGTERM to SIGKILL (R-CANCEL).
const STEP: Duration = Duration::from_secs(1);
/// Wait for all processes to be gone after SIGKILL; so an interrupt takes at most 2.5 s (R-CANCEL).
const AFTER_KILL: Duration = Duration::from_millis(500);
/// The helper's share of [`AFTER_KILL`]; then the server kills the helper and takes over.
const HELPER_ANSWERS: Duration = Duration::from_millis(250);
/// Longest line from the helper, in bytes.
const LINE_LIMIT: usize = 64 << 10;

/// A running command. Take it apart to read, write, and wait at the same time.
#[derive(Debug)]
pub struct Child {
    /// Waits for the command and stops it; dropping this kills everything.
    pub process: Process,
    /// Read it: unread output makes the command wait.
    pub output: Output,
    /// For [`Stdin::Piped`](crate::workspace::process::Stdin::Piped) only; dropping it closes the command's input.
    pub stdin: Option<pipe::Sender>,
}

/// The handle on a command and all its descendants.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    control: Arc<UnixStream>,
    state: watch::Receiver<State>,
    overdue: CancellationToken,
}

/// The end of a command and its descendants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    /// Of the command itself.
    pub status: ExitStatus,
    /// No process of the command is left. False only for what the kernel does not let us kill.
    pub is_gone: bool,
}

/// How to stop a command (R-CANCEL).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// SIGINT, SIGTERM after 1 s, SIGKILL after 2 s.
    Interrupt,
    /// Lets it finish for up to this long, then goes on as [`StopMode::Interrupt`].
    Finish(Duration),
    /// The server ends: SIGTERM, SIGKILL after 1 s.
    ServerEnd,
}

/// The output of a command, up to a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collected {
    pub status: ExitStatus,
    /// Includes standard error if merged.
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// There was more than the limit; the rest was read and discarded.
    pub cut: bool,
}

/// Reads the helper's lines.
pub(super) struct HelperReports {
    control: Arc<UnixStream>,
    buffer: Vec<u8>,
    /// The socket that came with a report.
    socket: Option<OwnedFd>,
}

impl HelperReports {
    pub(super) fn new(control: Arc<UnixStream>) -> Self {
        Self {
            control,
            buffer: Vec::new(),
            socket: None,
        }
    }

    /// Returns the socket that came with [`HelperReport::Listening`].
    pub(super) fn take_socket(&mut self) -> Option<OwnedFd> {
        self.socket.take()
    }

    /// Returns the next report; `None` at the end, or after a malformed one.
    pub(super) async fn next(&mut self) -> Option<HelperReport> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer) {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return HelperReport::parse(std::str::from_utf8(&line[..end]).ok()?);
            }
            if self.buffer.len() > LINE_LIMIT {
                return None;
            }
            self.control.readable().await.ok()?;
            match self.receive() {
                Ok(0) => return None,
                Ok(_) => {}
                // Readiness may be a false alarm.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }
}

impl HelperReports {
    /// Receives what the helper has sent, and the socket that may come with it. Returns how many bytes it was.
    fn receive(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        // Close-on-exec where the system supports it; only Linux has a method that passes a socket.
        #[cfg(target_os = "linux")]
        let flags = RecvFlags::CMSG_CLOEXEC;
        #[cfg(not(target_os = "linux"))]
        let flags = RecvFlags::empty();
        let received = self.control.try_io(Interest::READABLE, || {
            let slices = &mut [IoSliceMut::new(&mut bytes)];
            Ok(recvmsg(&*self.control, slices, &mut ancillary, flags)?.bytes)
        })?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(sockets) = message {
                self.socket = sockets.last();
            }
        }
        self.buffer.extend_from_slice(&bytes[..received]);
        Ok(received)
    }
}

/// Follows the helper's reports until it ends, which is when no process is left.
///
/// `overdue` means that the helper does not answer: it is killed, and the server takes over. The proxy ends with it.
async fn follow_helper(
    helper: Helper,
    mut reports: HelperReports,
    state: watch::Sender<State>,
    overdue: CancellationToken,
    proxy: Option<AbortOnDrop<()>>,
) {
    let mut status = None;
    let mut remaining = None;
    loop {
        let report = tokio::select! {
            // Reports first: whatever the helper still managed to send counts.
            biased;
            report = reports.next() => report,
            () = overdue.cancelled() => None,
        };
        match report {
            Some(HelperReport::Exited(code)) => status = Some(ExitStatus::Code(code)),
            Some(HelperReport::Signalled(signal)) => status = Some(ExitStatus::Signal(signal)),
            Some(HelperReport::Gone(count)) => remaining = Some(count),
            // These come before this handle exists.
            Some(HelperReport::Listening(_) | HelperReport::Started(_) | HelperReport::Refused(..)) => {}
            None => break,
        }
        // The state must not go back from gone to ended.
        if let (Some(status), None) = (status, remaining) {
            state.send_replace(State::Ended(status));
        }
    }
    #[cfg(target_os = "linux")]
    if remaining.is_none() && !orphans::are_adopted() {
        // The helper may have died without a report (SIGKILL).
        helper.kill_session().await;
    }
    let swept = helper.wait_for_cleanup(overdue.is_cancelled()).await;
    drop(proxy);
    state.send_replace(State::Gone {
        status: status.unwrap_or(ExitStatus::Unknown),
        remaining: if orphans::are_adopted() {
            swept
        } else {
            remaining.unwrap_or(0)
        },
        at: clock::now(),
    });
}

impl Process {
    /// Creates the handle on a started command; `reports` are those after the start. The proxy ends with the command.
    pub(super) fn new(
        pid: u32,
        helper: Helper,
        reports: HelperReports,
        proxy: Option<AbortOnDrop<()>>,
    ) -> Self {
        let (sender, state) = watch::channel(State::Running);
        let overdue = CancellationToken::new();
        let control = reports.control.clone();
        // Detached on purpose: it must outlive this handle to make sure that nothing is left, and ends shortly after
        // the socket is closed.
        spawn(follow_helper(helper, reports, sender, overdue.clone(), proxy)).detach();
        Self {
            pid,
            control,
            state,
            overdue,
        }
    }

    /// Returns the state of the command, as it changes.
    pub(super) fn subscribe_state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Returns the command's process id, which is also that of its group.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for the command itself. Its descendants may still be dying; see [`Process::wait_until_gone`].
    pub async fn wait(&self) -> ExitStatus {
        let mut state = self.state.clone();
        match state.wait_for(|state| state.exit_status().is_some()).await {
            Ok(state) => state.exit_status().unwrap_or(ExitStatus::Unknown),
            Err(_) => ExitStatus::Unknown,
        }
    }

    /// Waits until the command and all its descendants are gone.
    pub async fn wait_until_gone(&self) -> CommandEnd {
        let mut state = self.state.clone();
        match state.wait_for(|state| state.gone_at().is_some()).await.as_deref() {
            Ok(State::Gone {
                status, remaining, ..
            }) => CommandEnd {
                status: *status,
                is_gone: *remaining == 0,
            },
            Ok(_) | Err(_) => CommandEnd {
                status: ExitStatus::Unknown,
                is_gone: false,
            },
        }
    }

    /// Sends SIGINT to the command's group and every descendant.
    pub fn interrupt(&self) {
        self.send_stage(StopStage::Interrupt);
    }

    /// Sends SIGTERM to the command's group and every descendant, stopped ones included.
    pub fn terminate(&self) {
        self.send_stage(StopStage::Terminate);
    }

    /// Sends SIGKILL to every descendant until none is left; see [`Process::wait_until_gone`].
    pub fn kill(&self) {
        self.send_stage(StopStage::Kill);
    }

    fn send_stage(&self, stage: StopStage) {
        // The socket cannot be full with so few bytes, and a closed one means that the command is gone.
        let _ = send(&*self.control, &[stage.to_byte()], SendFlags::DONTWAIT);
    }

    /// Stops the command in stages and returns when no process is left; `force_cancel` (a second cancel) kills immediately.
    ///
    /// Takes at most 2.5 s, with [`StopMode::Finish`] its limit more. Read or drop the output meanwhile: otherwise a
    /// command that writes cannot finish.
    pub async fn stop(&self, mode: StopMode, force_cancel: &CancellationToken) -> CommandEnd {
        let stages = match mode {
            StopMode::Interrupt => vec![
                (Some(StopStage::Interrupt), STEP),
                (Some(StopStage::Terminate), STEP),
            ],
            StopMode::Finish(limit) => vec![
                (None, limit),
                (Some(StopStage::Interrupt), STEP),
                (Some(StopStage::Terminate), STEP),
            ],
            StopMode::ServerEnd => vec![(Some(StopStage::Terminate), STEP)],
        };
        for (stage, limit) in stages {
            if let Some(stage) = stage
                && !force_cancel.is_cancelled()
            {
                self.send_stage(stage);
            }
            tokio::select! {
                biased;
                ending = self.wait_until_gone() => return ending,
                () = force_cancel.cancelled() => break,
                () = clock::sleep(limit) => {}
            }
        }
        self.kill();
        for limit in [HELPER_ANSWERS, AFTER_KILL - HELPER_ANSWERS] {
            if let Ok(ending) = clock::timeout(limit, self.wait_until_gone()).await {
                return ending;
            }
            // Without adoption only the helper can reach the descendants, so it is never cut short.
            if orphans::are_adopted() {
                self.overdue.cancel();
            }
        }
        let status = self.state.borrow().exit_status().unwrap_or(ExitStatus::Unknown);
        CommandEnd {
            status,
            is_gone: false,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Closing is not enough: the watcher holds its half until the helper has ended.
        let _ = shutdown(&*self.control, Shutdown::Both);
    }
}

impl Child {
    /// Runs the command to its end and keeps up to `limit` bytes of each stream. Dropping the future kills the command.
    pub async fn collect_output(self, limit: usize) -> Collected {
        let Self {
            process,
            mut output,
            stdin,
        } = self;
        // A command that reads its input must see the end of it.
        drop(stdin);
        let (mut stdout, mut stderr, mut cut) = (Vec::new(), Vec::new(), false);
        // Read on beyond the limit: a command whose output is not read would never end.
        while let Some(chunk) = output.next().await {
            let buffer = match chunk.stream {
                Stream::Stdout => &mut stdout,
                Stream::Stderr => &mut stderr,
            };
            let length = chunk.bytes.len().min(limit - buffer.len());
            buffer.extend_from_slice(&chunk.bytes[..length]);
            cut |= length < chunk.bytes.len();
        }
        let CommandEnd { status, .. } = process.wait_until_gone().await;
        Collected {
            status,
            stdout,
            stderr,
            cut,
        }
    }
}
