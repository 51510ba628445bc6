//! What every other module builds on: clock, tasks, randomness, text, paths, counters, TLS.
//!
//! Imports nothing else of this crate, and knows no agents and no protocol (see `tests/repository/architecture.rs`).
//! Modules that wrap a system service (`clock`, `random`, `spawn`) exist so that the simulator can replace it.

pub mod address;
pub mod backoff;
pub mod backpressure;
pub mod clock;
pub mod counters;
pub mod credential_env;
pub mod date;
pub mod error_chain;
pub mod front_matter;
pub mod glob;
pub mod half_characters;
pub mod hash;
pub mod lexical_path;
pub mod memory;
pub mod mentions;
pub mod nearest;
pub mod nofollow;
pub mod picture;
pub mod platform;
pub mod position;
#[cfg(unix)]
pub mod private;
pub mod public_resolver;
pub mod random;
pub mod secret_path;
#[cfg(feature = "sim")]
pub mod sim_schedule;
pub mod spawn;
pub mod steering;
#[cfg(test)]
pub(crate) mod testing;
pub mod text;
pub mod tls;
mod tls_verifier;
pub mod uri;
pub mod utf8;
pub mod web_address;
pub mod word_list;

pub use tokio_util::sync::{CancellationToken, DropGuard};
