//! Clock, tasks, randomness, text, counters, TLS. Knows no agents and no protocol.

pub mod backoff;
pub mod causes;
#[cfg(any(test, feature = "sim"))]
pub mod chaos;
pub mod clock;
pub mod counters;
pub mod credential_env;
pub mod flow;
pub mod front_matter;
pub mod hash;
mod issuer;
pub mod nearest;
pub mod nofollow;
pub mod position;
#[cfg(unix)]
pub mod private;
pub mod random;
pub mod secret_path;
pub mod spawn;
pub mod text;
pub mod tls;
pub mod uri;
pub mod utf8;

pub use tokio_util::sync::CancellationToken;
