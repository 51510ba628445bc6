//! The second edge of the program: the Agent Client Protocol, version 1, on the same sessions (R-ACP).
//!
//! It converts requests to session commands and events to `session/update` notifications. It never calls a provider or
//! a tool. What [`crate::server`] does too is in [`crate::session`], so that both edges behave alike.
//!
//! The messages are plain JSON, because the protocol's own crate makes `serde_json` keep the order of keys in the whole
//! program, and so changes stored records and requests to providers. The tests check every frame against the official
//! schema.
//!
//! Invariants: nothing leaves that is not one line of JSON; text of an attempt that may be retried is held back, or a
//! visible line says that it was discarded ([`feed`]). Start reading at [`run_acp`], then [`service`].

mod client;
mod context;
mod driver;
mod editor;
mod error;
mod feed;
mod held_text;
mod links;
mod login;
mod mcp_servers;
mod open_prompts;
mod opening;
mod options;
mod params;
mod prompt;
mod questions;
mod replay;
mod run;
mod service;
mod sessions;
#[cfg(feature = "sim")]
mod sim_edge;
mod sink;
mod updates;

pub use run::{AcpOptions, run_acp};
#[cfg(feature = "sim")]
pub use sim_edge::{AcpEdge, AcpEvents, TYPED};
