//! The foundation of every end-to-end test: a world (folders, configuration, mock LLM), servers in it over real
//! pipes, and clients that check the protocol's invariants while they read.

mod checker;
mod client;
mod event_log;
mod file_server;
mod folders;
mod frames;
mod inbox;
mod world;

pub use client::{Client, KilledOutput, framed};
pub use event_log::{event_log, screen, short};
pub use file_server::FileServer;
pub use folders::{contents, leaks, resident};
pub use inbox::{Id, Notification, ServerRequest};
pub use world::{Config, Options, World};

use std::time::{Duration, Instant};

/// Returns whether the longest tables run only some of their cases, as in the gate. `.ci/nightly` runs all.
#[expect(clippy::disallowed_methods, reason = "the script that runs the tests decides")]
pub fn is_sample() -> bool {
    std::env::var_os("AGENTLS_TEST_SAMPLE").is_some()
}

/// How long anything may take before a test gives up: a failure bound, never a measure.
pub const WAIT_LIMIT: Duration = Duration::from_secs(180);

/// Returns the real time.
#[expect(clippy::disallowed_methods, reason = "real pipes have real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Pauses between two looks at a state that has no event. The only fixed pause of these tests.
pub fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

/// Waits until `look` returns the same value for 700 ms, and returns that value. There is no event for "nothing
/// happens any more", so it polls.
pub fn wait_until_stable<T: PartialEq + std::fmt::Debug>(description: &str, look: impl Fn() -> T) -> T {
    const STABLE_FOR: Duration = Duration::from_millis(700);
    let start = now();
    let (mut value, mut since) = (look(), start);
    while since.elapsed() < STABLE_FOR {
        assert!(
            start.elapsed() < WAIT_LIMIT,
            "{description} does not come to rest: {value:?}"
        );
        pause();
        let newer = look();
        if newer != value {
            (value, since) = (newer, now());
        }
    }
    value
}
