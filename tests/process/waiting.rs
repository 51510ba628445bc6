//! How the tests of processes wait: for events, for states that have no event, and on a clock that stands still.

use std::future::Future;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up: a failure bound, never a measure.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(180);

/// Polls until a condition holds, for states without an event. The clock may stand still.
pub(crate) async fn wait_until(condition: impl Fn() -> bool, description: impl Fn() -> String) {
    let deadline = Instant::now() + WAIT_LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "waiting for {}", description());
        let pause = || std::thread::sleep(Duration::from_millis(2));
        tokio::task::spawn_blocking(pause).await.unwrap();
    }
}

/// Waits until a process has ended, as the kernel reports it. The clock may stand still.
pub(crate) async fn wait_for_end(process_id: i32, description: impl Fn() -> String) {
    let Some(id) = rustix::process::Pid::from_raw(process_id) else {
        return;
    };
    let Ok(process) = rustix::process::pidfd_open(id, rustix::process::PidfdFlags::empty()) else {
        return;
    };
    let report = move || {
        let mut ends = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
        let limit = rustix::event::Timespec::try_from(WAIT_LIMIT).unwrap();
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut ends, Some(&limit))).unwrap()
    };
    let ended = tokio::task::spawn_blocking(report).await.unwrap();
    assert_eq!(ended, 1, "waiting for {}", description());
}

/// Waits for what would otherwise take forever if it failed. The clock may stand still.
pub(crate) async fn within_limit<T>(future: impl Future<Output = T>) -> T {
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let limit = tokio::task::spawn_blocking(move || {
        assert!(
            is_done.recv_timeout(WAIT_LIMIT) != Err(std::sync::mpsc::RecvTimeoutError::Timeout),
            "nothing happened for {WAIT_LIMIT:?}"
        );
    });
    tokio::pin!(future);
    tokio::select! {
        output = &mut future => {
            drop(done);
            output
        }
        reached = limit => panic!("{reached:?}"),
    }
}
