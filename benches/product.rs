//! Finds the program that a bench measures.

use std::path::PathBuf;
use std::process::Command;

/// Returns the program that users install, and builds it if needed. What cargo builds for a bench by itself is a test
/// build, whose clock costs time; it is enough for a run that shows no figures. `AGENTLS_BENCH_BIN` names another
/// program.
pub(crate) fn find_program(is_smoke: bool) -> PathBuf {
    if let Some(binary) = std::env::var_os("AGENTLS_BENCH_BIN") {
        return PathBuf::from(binary);
    }
    if !is_smoke {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--release", "--locked", "--bin", "agentls"])
            .status();
        assert!(
            built.is_ok_and(|status| status.success()),
            "the program could not be built"
        );
    }
    // In the same place as the test build, which it replaces.
    PathBuf::from(env!("CARGO_BIN_EXE_agentls"))
}
