//! The simulator's hand on the scheduler: a seed that makes tasks yield, and so run in another order, and
//! that can freeze them all at once as a crash does. Per thread; built with the feature `sim` and for unit tests only.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

thread_local! {
    static CHAOS: RefCell<Option<SimSchedule>> = const { RefCell::new(None) };
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

/// How wild it gets.
#[derive(Clone, Copy, Debug)]
pub struct YieldRate {
    /// Of 1,000 polls of a spawned task, so many are put off.
    pub yields: u32,
    /// Of 1,000 batches of the store's writer, so many are smaller than they could be.
    pub small_batches: u32,
    /// How many bytes the store keeps while the disk fails, at most.
    pub memory: usize,
    /// After so many polls of spawned tasks everything freezes.
    pub freeze_at: u64,
}

/// Begins on this thread.
pub fn begin_schedule(seed: u64, wildness: YieldRate) {
    CHAOS.set(Some(SimSchedule {
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

/// Ends on this thread; the polls that were seen.
pub fn end_schedule() -> u64 {
    CHAOS.take().map_or(0, |chaos| chaos.polls)
}

/// Whether it has begun on this thread.
pub(crate) fn is_active() -> bool {
    CHAOS.with_borrow(Option::is_some)
}

/// No spawned task is polled any more.
pub fn freeze_tasks() {
    CHAOS.with_borrow_mut(|chaos| {
        if let Some(chaos) = chaos {
            chaos.freeze();
        }
    });
}

/// Whether everything is frozen.
pub fn is_frozen() -> bool {
    CHAOS.with_borrow(|chaos| chaos.as_ref().is_some_and(|chaos| chaos.frozen))
}

/// Waits until everything is frozen. One waits at a time.
pub async fn wait_until_frozen() {
    std::future::poll_fn(|cx| {
        CHAOS.with_borrow_mut(|chaos| match chaos {
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

/// How much of `most` is taken at once.
pub(crate) fn at_most(most: usize) -> usize {
    CHAOS.with_borrow_mut(|chaos| {
        let Some(chaos) = chaos else { return most };
        if chaos.rng.random_range(0..1_000) < chaos.small_batches {
            chaos.rng.random_range(1..=most.min(4))
        } else {
            most
        }
    })
}

/// How much of `most` bytes is kept.
pub(crate) fn retained_bytes(most: usize) -> usize {
    CHAOS.with_borrow(|chaos| chaos.as_ref().map_or(most, |chaos| chaos.memory.min(most)))
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

/// A spawned task under the seed's hand.
pub(crate) struct Jittered<F>(Pin<Box<F>>);

impl<F> Jittered<F> {
    pub(crate) fn new(future: F) -> Self {
        Self(Box::pin(future))
    }
}

impl<F: Future> Future for Jittered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let choice =
            CHAOS.with_borrow_mut(|chaos| chaos.as_mut().map_or(ScheduleChoice::Go, SimSchedule::next));
        match choice {
            ScheduleChoice::Go => self.0.as_mut().poll(cx),
            ScheduleChoice::Yield => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            ScheduleChoice::Freeze => Poll::Pending,
        }
    }
}
