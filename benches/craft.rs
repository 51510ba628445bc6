//! `cargo bench --bench craft`: what models are sent, what calls leave in the history, and which bent edits succeed.
//!
//! Runs the binary against the mock provider and prints four tables. All figures are sizes and counts, so an
//! unoptimized build (`--profile dev`) gives the same ones. It asserts nothing: changes show in the tables of
//! `benches/RESULTS.md`.
//!
//! `AGENTLS_BENCH_BIN` names another binary to measure.

#![expect(
    clippy::disallowed_methods,
    reason = "the bench reads its own settings and starts real processes"
)]
#![expect(clippy::expect_used, reason = "a bench that cannot measure stops")]
#![expect(clippy::print_stdout, reason = "it prints tables")]
#![expect(unreachable_pub, reason = "modules of one program")]

#[path = "craft/edits.rs"]
mod edits;
#[path = "craft/family.rs"]
mod family;
#[path = "craft/history.rs"]
mod history;
#[path = "../tests/support/mock_llm.rs"]
mod mock_llm;
#[path = "craft/world.rs"]
mod world;

use std::path::PathBuf;

fn main() {
    // `cargo test --all-targets` needs no figures.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let binary = std::env::var_os("AGENTLS_BENCH_BIN")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_agentls")), PathBuf::from);
    println!("{}", family::describe_first_requests(&binary));
    println!("{}", family::describe_tasks(&binary));
    println!("{}", history::describe_results(&binary));
    println!("{}", edits::describe_bent_edits(&binary));
}
