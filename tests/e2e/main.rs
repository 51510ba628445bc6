//! The real binary over real pipes, with a mock LLM behind it (quality.md §3).
//!
//! One module for each theme; `harness` holds the world they run in and the invariants that are checked on
//! every message of every test.
#![cfg(unix)]

mod harness;
#[path = "../support/mock_llm.rs"]
mod mock_llm;

mod approvals;
mod cancel;
mod crash;
mod flood;
mod lifecycle;
mod prompt;
mod retry;
mod sessions;
mod transitions;
mod wire;
