//! The binary: arguments, logging, runtime, exit code.

use std::ffi::OsStr;

use agentls::workspace::process::{EXEC_COMMAND, exec_main};

fn main() {
    let mut args = std::env::args_os().skip(1);
    // First of all, before anything is set up: the helper must start within a millisecond.
    if args.next().as_deref() == Some(OsStr::new(EXEC_COMMAND)) {
        std::process::exit(exec_main(args));
    }
}
