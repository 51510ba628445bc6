//! Finds the test servers of the MCP SDK in its package, so that they run as they are published.
//!
//! `RMCP_TESTS` is their folder. The calculator leaves it to its users to serve its tools, so that is added.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn main() {
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    let cargo = std::env::var_os("CARGO").expect("Cargo sets it");
    let target = std::env::var("TARGET").expect("Cargo sets it");
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--locked",
            "--format-version",
            "1",
            "--filter-platform",
            &target,
        ])
        .output()
        .expect("cargo metadata runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let sdk = packages
        .iter()
        .find(|package| package["name"] == "rmcp")
        .and_then(|package| Path::new(package["manifest_path"].as_str()?).parent())
        .expect("the package of the SDK");
    let tests = sdk.join("tests");
    println!("cargo::rustc-env=RMCP_TESTS={}", tests.display());
    let calculator = std::fs::read_to_string(tests.join("common/calculator.rs")).expect("the calculator");
    let handler = "impl ServerHandler for Calculator";
    assert!(
        calculator.contains(handler),
        "the calculator has changed: {calculator}"
    );
    let calculator = calculator
        // An included file cannot have attributes of its own.
        .replace("#![allow(dead_code)]", "")
        .replace(
            handler,
            &format!("#[rmcp::tool_handler(router = self.tool_router)]\n{handler}"),
        );
    let out = std::env::var_os("OUT_DIR").expect("Cargo sets it");
    std::fs::write(Path::new(&out).join("calculator.rs"), calculator).expect("a file");
}
