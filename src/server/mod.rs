//! The edge of the program: the service, the method table, thin handlers and converters.
//!
//! A handler converts its params, posts one command to a session, waits, and converts the result. It never calls a
//! provider or a tool, and reads the disk only for what a prompt refers to.
//!
//! Invariant: whatever must keep the order of arrival (document sync, cancel, prompt) is posted before the first
//! await. Start reading at [`run_server`]; [`from_wire`] and [`to_wire`] hold the converters.

mod client_info;
mod documents;
pub mod editor;
mod error;
mod event_sink;
pub mod from_wire;
mod handlers;
mod language_query;
mod lifecycle;
mod lsp;
mod run;
mod server_warnings;
mod service;
mod state;
pub mod to_wire;

pub use crate::store::{list_recent_sessions, stored_trust};
pub use run::{ServeOptions, run_server, tool_names};
pub use state::SettingsHook;
