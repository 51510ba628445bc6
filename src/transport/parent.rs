//! Watches the process that started the server: when it ends, so does the server.
//!
//! On Linux a pidfd reports the end; elsewhere, and where a sandbox forbids it, polling does. Knows process ids only.

use std::time::Duration;

use crate::base::clock;
use rustix::io::Errno;
use rustix::process::Pid;

/// Polling interval where the system cannot report the end of a process.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The watched process.
#[derive(Debug)]
pub struct ParentProcess {
    pid: Pid,
    watch: ParentWatch,
}

#[derive(Debug)]
enum ParentWatch {
    /// Readable when the process has ended.
    #[cfg(target_os = "linux")]
    Pidfd(tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>),
    Polling,
}

impl ParentProcess {
    /// Watches the process `pid`. Needs a Tokio runtime.
    ///
    /// Returns `None`, with a log line, if the process is not visible here: the editor may run in another container.
    pub fn watch_pid(pid: i64) -> Option<Self> {
        let known = i32::try_from(pid)
            .ok()
            .filter(|pid| *pid > 0)
            .and_then(Pid::from_raw);
        let watch = known.map(|pid| (pid, ParentWatch::from_pid(pid)));
        let Some((pid, Ok(watch))) = watch else {
            tracing::info!(
                pid,
                "the client's process is not to be seen from here, so its end is not watched"
            );
            return None;
        };
        Some(Self { pid, watch })
    }

    /// Waits until the process has ended.
    pub async fn wait_for_exit(&self) {
        match &self.watch {
            #[cfg(target_os = "linux")]
            ParentWatch::Pidfd(fd) => {
                if fd.readable().await.is_ok() {
                    return;
                }
                // An error of the reactor does not mean that the process has ended.
                self.poll_exit().await;
            }
            ParentWatch::Polling => self.poll_exit().await,
        }
    }

    async fn poll_exit(&self) {
        while process_exists(self.pid) {
            clock::sleep(POLL_INTERVAL).await;
        }
    }
}

impl ParentWatch {
    #[cfg(target_os = "linux")]
    #[expect(
        deprecated,
        reason = "the descriptor is owned and moves in; its successor is an unsafe function"
    )]
    fn from_pid(pid: Pid) -> Result<Self, Errno> {
        use tokio::io::{Interest, unix::AsyncFd};
        match rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
            Ok(fd) => Ok(AsyncFd::with_interest(fd, Interest::READABLE).map_or(Self::Polling, Self::Pidfd)),
            Err(Errno::SRCH) => Err(Errno::SRCH),
            // An old kernel or a sandbox does not allow it.
            Err(_) => Self::new_polling(pid),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn from_pid(pid: Pid) -> Result<Self, Errno> {
        Self::new_polling(pid)
    }

    fn new_polling(pid: Pid) -> Result<Self, Errno> {
        process_exists(pid).then_some(Self::Polling).ok_or(Errno::SRCH)
    }
}

/// Any result but "no such process" means that it exists: it may belong to another user.
fn process_exists(pid: Pid) -> bool {
    rustix::process::test_kill_process(pid) != Err(Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test needs a process to watch")]
    fn cat() -> Child {
        Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    #[tokio::test]
    async fn pidfd_reports_the_end_of_the_process() {
        let mut child = cat();
        let pid = i64::from(child.id());
        let parent = ParentProcess::watch_pid(pid).unwrap();
        let mut exit = Box::pin(parent.wait_for_exit());
        assert!(futures::poll!(&mut exit).is_pending());
        child.kill().unwrap();
        exit.await;
        child.wait().unwrap();
        assert!(
            ParentProcess::watch_pid(pid).is_none(),
            "nothing to watch any more"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn polling_notices_the_end_of_the_process() {
        let mut child = cat();
        let pid = Pid::from_child(&child);
        let parent = ParentProcess {
            pid,
            watch: ParentWatch::from_pid(pid)
                .and(ParentWatch::new_polling(pid))
                .unwrap(),
        };
        let mut exit = Box::pin(parent.wait_for_exit());
        assert!(futures::poll!(&mut exit).is_pending());
        child.kill().unwrap();
        child.wait().unwrap();
        exit.await;
    }

    #[tokio::test]
    async fn invalid_process_ids_are_not_watched() {
        for pid in [0, -1, i64::from(i32::MAX), i64::MAX, i64::MIN] {
            assert!(ParentProcess::watch_pid(pid).is_none(), "{pid}");
        }
    }
}
