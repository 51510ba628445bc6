//! Files inside the roots, unsaved buffers, edits, child processes.

pub mod process;
