//! Code that several test crates share.

pub mod mock_llm;
