//! Terminal clients of the server: demo, chat, run, sessions, doctor, config.
//!
//! They start a server of their own and talk to it over its stdin and stdout, as an editor does; they know
//! the protocol and nothing behind it.

mod args;

pub use args::{Arguments, Command, Shared};
