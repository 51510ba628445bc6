//! JSON-RPC over bytes: frames with limits, one ordered outbox, dispatch with cancel tokens.

pub mod frame;
pub mod message;
pub mod outbox;
pub mod queue;
pub mod writer;
