//! Bytes that a provider sends.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| agentls::provider::fuzz_tests::check_stream(bytes));
