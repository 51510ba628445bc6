//! Wire types: the messages between client and server, as Rust types with serde and a schema.
//!
//! This module owns the shapes and the table of all methods and notifications. `tests/repository/generated` derives from them what
//! is published: protocol.md's reference, JSON Schema, TypeScript and Lua types. It knows no other module, not even
//! `domain`: the converters live in `server::to_wire` and `server::from_wire`.
//!
//! Rules for the types (R-WIRE): fields are camelCase. An optional field without a value is omitted. Both sides ignore
//! unknown fields. Every field has a doc comment, because that comment is the reference. A method is `agent/<name>`
//! with `<Name>Params` and `<Name>Result` (or [`EmptyResult`], [`PromptResult`]); a notification has
//! `<Name>Notification`. A new one needs a type, a line in [`table`] and an example in `examples.json`.

mod approval;
mod approval_keys;
mod checkpoint;
mod common;
mod config;
mod content;
mod editor;
mod error;
mod initialize;
mod inquiry;
mod language;
mod mcp;
mod message;
mod metrics;
mod model;
mod prompt;
mod queue;
mod session;
mod status;
pub mod table;
mod tool_call;
mod turn;

pub use approval::*;
pub use approval_keys::*;
pub use checkpoint::*;
pub use common::*;
pub use config::*;
pub use content::*;
pub use editor::*;
pub use error::*;
pub use initialize::*;
pub use inquiry::*;
pub use language::*;
pub use mcp::*;
pub use message::*;
pub use metrics::*;
pub use model::*;
pub use prompt::*;
pub use queue::*;
pub use session::*;
pub use status::*;
pub use table::ServerNotification;
pub use tool_call::*;
pub use turn::*;

/// Longest notification, in bytes of JSON (R-WIRE-3).
pub const MAX_NOTIFICATION: usize = 256 * 1024;

/// Longest part of a field that a notification carries, in bytes of text. Output carries the same again from its end.
pub const LONG_FIELD: usize = 64 * 1024;
