//! Clock, tasks, randomness, text, counters. Knows no agents and no protocol.

pub mod backoff;
#[cfg(any(test, feature = "sim"))]
pub mod chaos;
pub mod clock;
pub mod counters;
pub mod flow;
pub mod front_matter;
pub mod hash;
pub mod position;
pub mod random;
pub mod secret_path;
pub mod spawn;
pub mod text;
pub mod uri;
pub mod utf8;

pub use tokio_util::sync::CancellationToken;
