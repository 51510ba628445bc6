//! Code that several test crates share.

#[expect(clippy::expect_used, reason = "a mock that fails fails its test")]
pub mod mock_llm;
