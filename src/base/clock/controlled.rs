//! The process's time in a test build: it can stand still, and a test can advance it.
//!
//! Time runs like the system's until [`freeze`] or [`advance`] is called. Both apply to all threads and runtimes of
//! the process. The simulator and unit tests use tokio's paused clock instead, which this leaves alone.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

/// What distinguishes the process's time from the system's.
#[derive(Debug)]
struct Control {
    /// How far it is ahead while it runs.
    ahead: Duration,
    /// The instant at which the time stands still, and the wall time in ms.
    frozen: Option<(Instant, i64)>,
    /// Changes with each jump, so that timers notice it.
    epoch: u64,
    next_timer: u64,
    /// Timers that wait, by number.
    waiting: Option<HashMap<u64, Waker>>,
}

static CONTROL: Mutex<Control> = Mutex::new(Control {
    ahead: Duration::ZERO,
    frozen: None,
    epoch: 0,
    next_timer: 0,
    waiting: None,
});

fn control() -> MutexGuard<'static, Control> {
    CONTROL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    fn now(&self, system: Instant) -> Instant {
        self.frozen.map_or(system + self.ahead, |(at, _)| at)
    }
}

/// Returns the process's time for an instant of the system's.
pub(super) fn apply(system: Instant) -> Instant {
    control().now(system)
}

/// Returns the process's wall time for the system's, both in ms.
pub(super) fn apply_to_wall(system_ms: i64) -> i64 {
    let control = control();
    control
        .frozen
        .map_or(system_ms + control.ahead.as_millis() as i64, |(_, wall_ms)| {
            wall_ms
        })
}

/// Stops the time at what the clock shows now, the wall time in ms; only [`advance`] moves it from now on.
pub fn freeze(now: Instant, wall_ms: i64) {
    let mut control = control();
    control.frozen.get_or_insert((now, wall_ms));
    wake_all(control);
}

/// Lets a stopped time run again. It catches up with the system's, unless it is ahead.
pub fn thaw() {
    let mut control = control();
    #[expect(
        clippy::disallowed_methods,
        reason = "the parent module reads it through this one"
    )]
    let system = Instant::now();
    if let Some((at, _)) = control.frozen.take() {
        control.ahead = at.saturating_duration_since(system);
    }
    wake_all(control);
}

/// Moves the time forward. Timers that are due then fire.
pub fn advance(duration: Duration) {
    let mut control = control();
    match &mut control.frozen {
        Some((at, wall_ms)) => {
            *at += duration;
            *wall_ms += duration.as_millis() as i64;
        }
        None => control.ahead += duration,
    }
    wake_all(control);
}

/// Makes all timers compare their deadlines with the new time.
fn wake_all(mut control: MutexGuard<'static, Control>) {
    control.epoch += 1;
    let wakers = control.waiting.take().unwrap_or_default();
    drop(control);
    wakers.into_values().for_each(Waker::wake);
}

/// A timer, like tokio's of the same name.
#[derive(Debug)]
pub struct Sleep {
    deadline: Instant,
    number: u64,
    /// The epoch in which `timer` was set.
    epoch: u64,
    timer: Pin<Box<tokio::time::Sleep>>,
}

impl Sleep {
    #[expect(clippy::disallowed_methods, reason = "this is the one module that may")]
    pub(super) fn new(deadline: Instant) -> Self {
        let mut control = control();
        control.next_timer += 1;
        let at = to_system(&control, deadline);
        Self {
            deadline,
            number: control.next_timer,
            epoch: control.epoch,
            timer: Box::pin(tokio::time::sleep_until(at)),
        }
    }

    /// Sets another deadline.
    pub fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        let control = control();
        self.deadline = deadline;
        self.epoch = control.epoch;
        let at = to_system(&control, deadline);
        self.timer.as_mut().reset(at);
    }

    /// Returns the deadline.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }
}

/// Returns the instant of the system at which a deadline of the process is due.
fn to_system(control: &Control, deadline: Instant) -> Instant {
    deadline.checked_sub(control.ahead).unwrap_or(deadline)
}

impl Future for Sleep {
    type Output = ();

    #[expect(clippy::disallowed_methods, reason = "this is the one module that may")]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut control = control();
        let is_due = match control.frozen {
            Some((now, _)) => now >= this.deadline,
            None => control.now(Instant::now()) >= this.deadline,
        };
        let is_frozen = control.frozen.is_some();
        let waiting = control.waiting.get_or_insert_default();
        let earlier = if is_due {
            waiting.remove(&this.number)
        } else {
            waiting.insert(this.number, cx.waker().clone())
        };
        if this.epoch != control.epoch {
            this.epoch = control.epoch;
            let at = to_system(&control, this.deadline);
            this.timer.as_mut().reset(at);
        }
        drop(control);
        drop(earlier);
        if is_due {
            return Poll::Ready(());
        }
        if is_frozen {
            return Poll::Pending;
        }
        this.timer.as_mut().poll(cx)
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let earlier = control()
            .waiting
            .as_mut()
            .and_then(|waiting| waiting.remove(&self.number));
        // Outside of the lock: the last waker of a task drops the task, and with it timers that lock again.
        drop(earlier);
    }
}
