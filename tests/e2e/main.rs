//! The real binary over real pipes, with a mock LLM behind it (quality.md §3).
//!
//! One module per topic. `harness` contains the world they run in, and checks invariants on every message of every
//! test.
#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    unreachable_pub,
    reason = "a test that fails says so by a panic; its helpers are for this crate alone"
)]

mod agents;
mod harness;
#[path = "../support/mcp_peer.rs"]
mod mcp_peer;
#[path = "../support/mock_llm.rs"]
mod mock_llm;
#[path = "../support/tls_server.rs"]
mod tls_server;

mod acp;
mod approvals;
mod arguments;
mod bash;
mod cancel;
mod cassettes;
mod checkpoints;
mod clock;
mod commands;
mod conduct;
mod context;
mod crash;
mod credentials;
mod delegate;
mod diagnostics;
mod editor;
mod environment;
mod faults;
mod flood;
mod flood_of_input;
mod git;
mod hanging_folder;
mod hidden_text;
mod hooks;
mod hostile;
mod hostile_repository;
mod instructions;
mod keys;
mod kills;
mod language;
mod lifecycle;
mod limits;
mod mcp;
mod mcp_bad_servers;
mod mcp_elicitation;
mod mcp_env_files;
mod mcp_login;
mod mcp_prompts;
mod mcp_real_servers;
mod mcp_revisions;
mod mcp_sampling;
mod models;
mod network;
mod own_programs;
mod own_sandbox;
mod own_tools;
mod own_work;
mod patch;
mod plan;
mod prompt;
mod queue;
mod reading;
mod retry;
mod revert;
mod route;
mod sandbox;
mod sandbox_background;
mod sandbox_created_files;
mod sandbox_network;
mod sandbox_real_work;
mod sandbox_steering;
mod sandbox_tmp;
mod sessions;
mod settings;
mod store;
mod symbol_names;
mod transitions;
mod trust;
mod web;
mod wire;
