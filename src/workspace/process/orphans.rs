//! Adopts processes whose helper was killed, so that the server can kill and reap them (R-CANCEL, I8).
//!
//! A command may kill or stop the helper that supervises it. Once the server is a child subreaper, it inherits whatever
//! that helper leaves behind. The server itself starts only helpers, all through [`spawn_helper`], so any other child
//! is such an orphan. Never touched: processes in a session of the server, or of a process that descended from it
//! before [`adopt_orphans`]. Nothing here waits for a helper, whose status tokio collects.
//!
//! Out of reach: a command that kills the server and the helper at the same moment. Only a PID namespace helps there.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use crate::base::clock;
use crate::base::spawn::{run_blocking, spawn};

#[cfg(target_os = "linux")]
use super::process_tree;

/// Time limit of a sweep when processes do not die.
const SWEEP_LIMIT: Duration = Duration::from_secs(2);
/// Pause between two snapshots of the process table.
const PAUSE: Duration = Duration::from_millis(2);
/// Time for a helper to end after its socket was closed, before the server takes over.
const HELPER_ENDS_WITHIN: Duration = Duration::from_millis(500);

/// Sessions that are not ours; set once this process adopts orphans.
static FOREIGN_SESSIONS: OnceLock<BTreeSet<i32>> = OnceLock::new();
/// Held for writing while our children are examined, so that none of them is a helper not yet listed.
static STARTING: RwLock<()> = RwLock::new(());
/// Helpers not collected yet.
static HELPERS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// Makes this process the parent of every orphan below it. For the server, which starts nothing but helpers.
///
/// Does nothing as process 1 of a container, which also inherits orphans of strangers, or if `/proc` does not show this
/// process.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpid, set_child_subreaper};
        let own = getpid().as_raw_nonzero().get();
        // Read from `/proc`: rustix reports an error for 0, which is the session if it began outside of our namespace.
        let Some(row) = process_tree::read_own_row() else {
            return;
        };
        if getpid().is_init() || set_child_subreaper(Some(getpid())).is_err() {
            return;
        }
        // Whatever already runs below us was not started by a helper.
        let before = process_tree::read_descendants(own);
        let mut foreign: BTreeSet<i32> = before.iter().map(|row| row.session).collect();
        foreign.insert(row.session);
        let _ = FOREIGN_SESSIONS.set(foreign);
    }
}

/// Returns whether this process inherits orphans.
pub(super) fn are_adopted() -> bool {
    FOREIGN_SESSIONS.get().is_some()
}

/// A started helper. It is collected even if dropped.
#[derive(Debug)]
pub(super) struct Helper {
    child: Option<tokio::process::Child>,
    pid: u32,
}

/// Starts a helper and lists it.
pub(super) fn spawn_helper(command: &mut tokio::process::Command) -> io::Result<Helper> {
    // Held until the helper is listed: see `STARTING`.
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn()?;
    let pid = child.id().unwrap_or(0);
    lock_helpers().insert(pid);
    Ok(Helper {
        child: Some(child),
        pid,
    })
}

impl Helper {
    /// Returns its process id.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for the helper's end and kills what is left of its session.
    ///
    /// Without adoption, the session is all that is known. The helper is not collected yet, so its pid is still its
    /// own.
    #[cfg(target_os = "linux")]
    pub(super) async fn kill_session(&self) {
        use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
        let Some(session) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return;
        };
        let kill = move || {
            // NOWAIT leaves the status for tokio to collect.
            let _ = waitid(
                WaitId::Pid(session),
                WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
            );
            process_tree::kill_session(session.as_raw_nonzero().get());
        };
        let _ = run_blocking(kill).await;
    }

    /// Continues the helper if something stopped it. It is not collected yet, so its pid is still its own.
    pub(super) fn send_sigcont(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::CONT);
        }
    }

    /// Waits until the helper has ended and nothing of its command is left; returns how many processes are.
    ///
    /// `force` kills the helper immediately; otherwise it has 500 ms.
    pub(super) async fn wait_for_cleanup(mut self, force: bool) -> u32 {
        match self.child.take() {
            Some(child) => wait_for_helper_cleanup(child, self.pid, force).await,
            None => 0,
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Without a runtime nothing could wait for the helper.
        if let Some(child) = self.child.take()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            let pid = self.pid;
            spawn(async move { wait_for_helper_cleanup(child, pid, false).await }).detach();
        }
    }
}

async fn wait_for_helper_cleanup(mut child: tokio::process::Child, pid: u32, force: bool) -> u32 {
    let mut status = None;
    if !are_adopted() {
        // Without adoption nothing else can end the command, so wait for the helper however long it takes.
        status = child.wait().await.ok();
    } else if !force {
        status = clock::timeout(HELPER_ENDS_WITHIN, child.wait())
            .await
            .ok()
            .and_then(Result::ok);
    }
    if status.is_none() {
        let _ = child.start_kill();
        status = child.wait().await.ok();
    }
    // Only now: a listed helper is never mistaken for an orphan.
    lock_helpers().remove(&pid);
    // Exit code 0 means that the helper has left no process behind.
    if status.is_some_and(|status| status.success()) {
        0
    } else {
        run_blocking(sweep_orphans).await.unwrap_or(0)
    }
}

fn lock_helpers() -> MutexGuard<'static, BTreeSet<u32>> {
    HELPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills and reaps every orphan that this process inherited, with all descendants; returns how many are left.
///
/// Takes at most 2 s, and one look at our children if there is nothing to do.
#[cfg(target_os = "linux")]
pub fn sweep_orphans() -> u32 {
    use rustix::process::{Pid, Signal, WaitOptions, waitpid};

    let Some(foreign) = FOREIGN_SESSIONS.get() else {
        return 0;
    };
    let end = clock::now() + SWEEP_LIMIT;
    loop {
        let looking = STARTING.write().unwrap_or_else(PoisonError::into_inner);
        let orphans = find_orphans(foreign);
        if orphans.is_empty() {
            return 0;
        }
        for orphan in &orphans {
            let below = process_tree::read_descendants(orphan.pid);
            for row in below.iter().chain([orphan]) {
                process_tree::kill_row(row, Signal::KILL);
            }
            // By its pid: any other wait could take a status that tokio waits for.
            let _ = waitpid(Pid::from_raw(orphan.pid), WaitOptions::NOHANG);
        }
        // Free the lock before the pause, so that helpers can start.
        drop(looking);
        if clock::now() >= end {
            tracing::warn!(
                left = orphans.len(),
                "processes of a command that killed its helper do not end"
            );
            return u32::try_from(orphans.len()).unwrap_or(u32::MAX);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Returns the children of this process that are neither helpers nor foreign.
#[cfg(target_os = "linux")]
fn find_orphans(foreign: &BTreeSet<i32>) -> Vec<process_tree::ProcessRow> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let helpers = lock_helpers();
    let is_helper = |pid: i32| u32::try_from(pid).is_ok_and(|pid| helpers.contains(&pid));
    process_tree::read_children(own)
        .into_iter()
        .filter(|row| !is_helper(row.pid) && !foreign.contains(&row.session))
        .collect()
}

/// Does nothing: on this system, this process does not inherit orphans.
#[cfg(not(target_os = "linux"))]
pub fn sweep_orphans() -> u32 {
    let _ = (SWEEP_LIMIT, PAUSE, clock::now);
    0
}
