//! agentls: an LLM coding agent behind any editor, spoken to over stdio JSON-RPC.
//!
//! The modules in reading order; who may import whom is a table in `tests/architecture.rs`:
//!
//! - [`domain`] -- the vocabulary, plain values.
//! - [`base`] -- clock, tasks, text, paths; knows nothing of agents.
//! - [`transport`] -- frames, ordered outbox, dispatch; knows JSON-RPC, nothing of agents.
//! - [`protocol`] -- the wire types and what is generated from them.
//! - [`config`] -- typed settings, layers, trust, diagnostics.
//! - [`provider`] -- LLM APIs as one typed stream.
//! - [`context`] -- what the model sees.
//! - [`approval`] -- may this effect happen, must a person be asked.
//! - [`workspace`] -- files, unsaved buffers, edits, child processes.
//! - [`tool`] -- what the model can do.
//! - [`turn`] -- the agent loop.
//! - [`session`] -- one actor per session.
//! - [`mod@store`] -- SQLite, one writer and many readers.
//! - [`server`] -- the edge to editors.
//! - [`cli`] -- the terminal clients of the same server.
//! - [`observe`] -- logging set-up.
//! - `sim` -- the deterministic simulator, with the feature of that name.

pub mod approval;
pub mod base;
pub mod cli;
pub mod config;
pub mod context;
pub mod domain;
pub mod observe;
#[warn(missing_docs, reason = "each field's comment is its reference")]
pub mod protocol;
pub mod provider;
pub mod server;
pub mod session;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod store;
pub mod tool;
pub mod transport;
pub mod turn;
pub mod workspace;
