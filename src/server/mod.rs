//! The edge: the tower-lsp service, the method table, thin handlers, converters.
//!
//! A handler converts its params, posts one command to a session, waits, and converts back. It touches no
//! provider, tool or disk but to read what a prompt refers to. What must change in the order of arrival
//! (document sync, cancel, prompt) is posted before the first await.

mod documents;
pub mod editor;
mod error;
mod event_sink;
pub mod from_wire;
mod handlers;
mod lifecycle;
mod run;
mod server_warnings;
mod service;
mod state;
pub mod to_wire;

pub use crate::store::stored_trust;
pub use run::{ServeOptions, run_server, tool_names};
pub use state::SettingsHook;
