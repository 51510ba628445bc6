//! What the model sees: the history as a fold over events, compaction, the system prompt, and token estimates.
//!
//! Pure: makes no provider calls and reads no files. Knows messages, request types of `provider`, and instruction texts
//! that `workspace` read. Start with `history`.

pub mod compact;
mod environment;
mod history;
mod prompts;
pub mod results;
mod sandbox;
mod sizes;
mod system;
mod tokens;

pub use environment::{
    Fact, build_environment_note, describe_mode, has_environment_note, is_environment_note,
};
pub use history::{History, OpenCall};
pub use prompts::built_in_prompt;
pub use sandbox::describe_sandbox;
pub use sizes::{ContextSizes, max_result_bytes, usable_tokens};
pub use system::{SystemInputs, SystemText, system_prompt};
pub use tokens::{estimate_message_tokens, estimate_text_tokens as estimate_text, estimate_tool_tokens};
