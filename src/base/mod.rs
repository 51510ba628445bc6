//! Clock, tasks, randomness, text, counters, TLS. Knows no agents and no protocol.

pub mod backoff;
pub mod backpressure;
pub mod clock;
pub mod counters;
pub mod credential_env;
pub mod error_chain;
pub mod front_matter;
pub mod hash;
pub mod nearest;
pub mod nofollow;
pub mod position;
#[cfg(unix)]
pub mod private;
pub mod random;
pub mod secret_path;
#[cfg(any(test, feature = "sim"))]
pub mod sim_schedule;
pub mod spawn;
pub mod text;
pub mod tls;
mod tls_verifier;
pub mod uri;
pub mod utf8;

pub use tokio_util::sync::CancellationToken;
