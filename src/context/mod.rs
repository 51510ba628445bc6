//! What the model sees: the history as a fold over events, the system prompt, token estimates.
//!
//! Knows messages, providers' request types and texts that were read; makes no calls and reads no files.

pub mod compact;
mod history;
mod system;
mod tokens;

pub use history::{History, OpenCall};
pub use system::{SystemInputs, system_prompt};
pub use tokens::{estimate_message_tokens, of_text as estimate_text};
