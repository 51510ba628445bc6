//! What the integration tests share.

pub mod mock_llm;
