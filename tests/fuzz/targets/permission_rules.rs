//! Rules, and what they judge.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| agentls::approval::fuzz_tests::check_rule(bytes));
