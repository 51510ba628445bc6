//! JSON-RPC over bytes: frames with limits, one ordered outbox, dispatch with cancel tokens.
//!
//! Knows JSON-RPC and the life of a language server, nothing of agents. In reading order:
//!
//! - [`frame`]: bytes to bodies, with limits; finds its way back after garbage.
//! - [`message`]: a body to a request, an answer, or the error it deserves.
//! - [`serve`]: the loop: handlers polled in wire order, cancel tokens, panics caught, an end that always comes.
//! - [`queue`], [`outbox`], [`writer`]: the one ordered way out and the thread behind it.
//! - [`stdio`], [`parent`]: the process's own pipes, and the process at their other end.

pub mod frame;
pub mod message;
pub mod outbox;
pub mod parent;
pub mod queue;
pub mod serve;
pub mod stdio;
pub mod writer;

pub use message::protocol_error;
pub use outbox::{Outbox, Outgoing};
pub use serve::{Connection, ConnectionOptions, End, Ended, cancel_token};
pub use stdio::{Stdio, claim_stdio, raise_open_files};
pub use writer::FrameWriter;
