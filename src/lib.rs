//! agentls: an LLM coding agent behind any editor. It speaks JSON-RPC over stdin and stdout.
//!
//! The modules in reading order. `tests/repository/architecture.rs` holds the table of allowed imports:
//!
//! - [`domain`] -- the vocabulary: plain values.
//! - [`base`] -- clock, tasks, text, paths; knows nothing about agents.
//! - [`transport`] -- frames, ordered outbox, dispatch; knows JSON-RPC and nothing about agents.
//! - [`protocol`] -- the wire types, and the sources of what is generated from them.
//! - [`config`] -- typed settings, layers, trust, diagnostics.
//! - [`provider`] -- LLM APIs as one typed stream.
//! - [`context`] -- what the model sees.
//! - [`oauth`] -- logs in to MCP servers.
//! - [`approval`] -- decides whether an effect may happen and whether a user must approve it.
//! - [`sandbox`] -- what commands may read, write, and reach.
//! - [`proxy`] -- connects sandboxed commands to allowed hosts.
//! - [`workspace`] -- files, unsaved buffers, edits, child processes.
//! - [`mcp`] -- connections to MCP servers.
//! - [`tool`] -- what the model can do.
//! - [`turn`] -- the agent loop.
//! - [`session`] -- one actor per session.
//! - [`mod@store`] -- SQLite, one writer and many readers.
//! - [`server`] -- the edge to editors.
//! - [`cli`] -- the terminal clients of the same server.
//! - [`observe`] -- logging set-up.
//!
//! The deterministic simulator is in `tests/sim`; the feature `sim` compiles its hook, `base::sim_schedule`.

// The layout of what an MCP connection awaits is nested more deeply than 128 types.
#![recursion_limit = "256"]

// Test code that other crates share names this one.
#[cfg(test)]
extern crate self as agentls;

pub mod acp;
pub mod approval;
pub mod base;
pub mod cli;
pub mod config;
pub mod context;
pub mod domain;
pub mod mcp;
pub mod oauth;
pub mod observe;
#[warn(missing_docs, reason = "each field's comment is its reference")]
pub mod protocol;
pub mod provider;
pub mod proxy;
pub mod sandbox;
pub mod server;
pub mod session;
pub mod store;
pub mod tool;
pub mod transport;
pub mod turn;
pub mod workspace;
