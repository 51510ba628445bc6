//! JSON-RPC over bytes: bounded frames, one ordered outbox, dispatch with cancel tokens.
//!
//! Knows JSON-RPC and the life cycle of a language server, but nothing of agents. In reading order:
//!
//! - [`frame`]: turns bytes into bodies, within limits, and resynchronizes after garbage; [`lines`] does so for lines.
//! - [`reader`]: reads either from a byte stream.
//! - [`message`]: turns a body into a request, an answer, or an error to send back.
//! - [`serve`]: the loop. Polls handlers in wire order, cancels them, catches panics, and always ends.
//! - [`queue`], [`outbox`], [`writer`]: the only way out, ordered, and the thread that writes it.
//! - [`client_requests`]: requests to the client, and their answers; [`dialect`] tells the two protocols apart.
//! - [`stdio`], [`parent`], [`signals`]: the process's own pipes, the process at the other end, and signals.

pub mod client_requests;
pub mod dialect;
pub mod frame;
pub mod lines;
pub mod message;
pub mod outbox;
pub mod parent;
pub mod queue;
pub mod reader;
pub mod serve;
pub mod signals;
pub mod stdio;
pub mod writer;

pub use client_requests::{ClientRequests, PendingRequest};
pub use dialect::Dialect;
pub use lines::Framing;
pub use message::protocol_error;
pub use outbox::{Outbox, Outgoing};
#[cfg(feature = "sim")]
pub use serve::with_cancel_token;
pub use serve::{Connection, ConnectionOptions, EndReason, ServeResult, cancel_token};
pub use signals::end_on_signal;
pub use stdio::{Stdio, claim_stdio, raise_open_files};
pub use writer::FrameWriter;
