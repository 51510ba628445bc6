//! Bytes that a client sends.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| agentls::transport::frame::fuzz_tests::check_frames(bytes));
