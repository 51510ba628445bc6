//! Sessions over a real store: loading and leaving them, turns with a scripted model, forks of them.

mod agents;
mod approvals;
mod call_order;
mod cancel;
mod conduct;
mod context;
mod delegate;
mod ends;
mod fixture;
mod forks;
mod limits;
mod loading;
mod mcp_permissions;
#[path = "../../../tests/support/mock_llm.rs"]
mod mock_llm;
mod models;
mod panics;
mod plan;
mod prompts;
mod questions;
mod queue;
mod reasoning;
mod refused_parts;
mod retry;
mod route;
mod scenario;
mod sessions;
mod settings;
mod subagents;
mod takeover;
mod transitions;
mod turns;
mod waiting;
mod web_search;
