//! Files inside the roots, unsaved buffers, edits, child processes.
//!
//! Knows the disk and processes; knows nothing of tools, models, sessions' histories or clients.

pub mod process;

/// A session's view of files and processes.
#[derive(Debug, Default)]
pub struct Workspace {}
