//! The binary: arguments, logging, runtime, exit code.

fn main() {}
