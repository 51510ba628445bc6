//! Command lines that a model writes.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| agentls::approval::fuzz_tests::check_command(bytes));
