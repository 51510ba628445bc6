//! The simulator's control over the scheduler: a seed makes tasks yield, and so run in another order.
//!
//! It can also freeze all tasks together, as a crash does. The state is per thread. Compiled only with the feature
//! `sim`; `spawn` routes every task through here.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

thread_local! {
    static SCHEDULE: RefCell<Option<SimSchedule>> = const { RefCell::new(None) };
}

struct SimSchedule {
    rng: SmallRng,
    yields: u32,
    small_batches: u32,
    memory: usize,
    polls: u64,
    freeze_at: u64,
    frozen: bool,
    waiting: Option<Waker>,
}

/// How much the simulator disturbs the schedule.
#[derive(Clone, Copy, Debug)]
pub struct YieldRate {
    /// Of 1,000 polls of a spawned task, how many are postponed.
    pub yields: u32,
    /// Of 1,000 batches of the store's writer, how many are smaller than they could be.
    pub small_batches: u32,
    /// How many bytes the store may keep in memory while the disk fails.
    pub memory: usize,
    /// The number of polls of spawned tasks after which everything freezes.
    pub freeze_at: u64,
}

/// Starts the seeded schedule on this thread.
pub fn begin_schedule(seed: u64, wildness: YieldRate) {
    SCHEDULE.set(Some(SimSchedule {
        rng: SmallRng::seed_from_u64(seed),
        yields: wildness.yields,
        small_batches: wildness.small_batches,
        memory: wildness.memory,
        polls: 0,
        freeze_at: wildness.freeze_at,
        frozen: false,
        waiting: None,
    }));
}

/// Ends the seeded schedule on this thread, and returns the number of polls it saw.
pub fn end_schedule() -> u64 {
    SCHEDULE.take().map_or(0, |chaos| chaos.polls)
}

/// Returns whether a seeded schedule is active on this thread.
pub(crate) fn is_active() -> bool {
    SCHEDULE.with_borrow(Option::is_some)
}

/// Freezes this thread's schedule: no spawned task is polled any more.
pub fn freeze_tasks() {
    SCHEDULE.with_borrow_mut(|chaos| {
        if let Some(chaos) = chaos {
            chaos.freeze();
        }
    });
}

/// Returns whether the schedule is frozen.
pub fn is_frozen() -> bool {
    SCHEDULE.with_borrow(|chaos| chaos.as_ref().is_some_and(|chaos| chaos.frozen))
}

/// Waits until the schedule is frozen. Only one task may wait at a time.
pub async fn wait_until_frozen() {
    std::future::poll_fn(|cx| {
        SCHEDULE.with_borrow_mut(|chaos| match chaos {
            Some(chaos) if chaos.frozen => Poll::Ready(()),
            Some(chaos) => {
                chaos.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
            None => Poll::Pending,
        })
    })
    .await;
}

/// Returns how many of `most` items the store's writer takes in one batch.
pub(crate) fn at_most(most: usize) -> usize {
    SCHEDULE.with_borrow_mut(|chaos| {
        let Some(chaos) = chaos else { return most };
        if chaos.rng.random_range(0..1_000) < chaos.small_batches {
            chaos.rng.random_range(1..=most.min(4))
        } else {
            most
        }
    })
}

/// Returns how many of `most` bytes the store may keep in memory.
pub(crate) fn retained_bytes(most: usize) -> usize {
    SCHEDULE.with_borrow(|chaos| chaos.as_ref().map_or(most, |chaos| chaos.memory.min(most)))
}

impl SimSchedule {
    fn freeze(&mut self) {
        self.frozen = true;
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
    }

    fn next(&mut self) -> ScheduleChoice {
        self.polls += 1;
        if self.polls >= self.freeze_at {
            self.freeze();
        }
        if self.frozen {
            ScheduleChoice::Freeze
        } else if self.rng.random_range(0..1_000) < self.yields {
            ScheduleChoice::Yield
        } else {
            ScheduleChoice::Go
        }
    }
}

enum ScheduleChoice {
    Go,
    Yield,
    Freeze,
}

/// A spawned task whose polls the seeded schedule may postpone or freeze.
pub(crate) struct ScheduledTask<F>(Pin<Box<F>>);

impl<F> ScheduledTask<F> {
    pub(crate) fn new(future: F) -> Self {
        Self(Box::pin(future))
    }
}

impl<F: Future> Future for ScheduledTask<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let choice =
            SCHEDULE.with_borrow_mut(|chaos| chaos.as_mut().map_or(ScheduleChoice::Go, SimSchedule::next));
        match choice {
            ScheduleChoice::Go => self.0.as_mut().poll(cx),
            ScheduleChoice::Yield => {
                // Wake at once: the task stays runnable and only loses its place in the queue.
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            // No wake-up: a crashed process never runs again either.
            ScheduleChoice::Freeze => Poll::Pending,
        }
    }
}
