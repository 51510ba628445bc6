//! Child processes that die with us (architecture §3a, R-CANCEL, I8).
//!
//! Every child starts through our own hidden subcommand `agentls __exec`. The server half is
//! [`Launcher`] and [`Child`]; the helper half is [`exec_main`], which `main` calls before anything
//! else. Both hold one end of a socket pair: the request and the stages of a stop go down, reports
//! come up, and end of file on either side means that the other one is gone. Knows no tools, no
//! sessions, no settings.

mod exec;
mod family;
mod git;
mod output;
mod spawn;
mod wire;

pub use exec::exec_main;
pub use git::git_command;
pub use output::{Chunk, Output, Stream};
pub use spawn::{Child, Collected, Command, Ending, ExitStatus, Launcher, Process, SpawnError, Stdin, Stop};
pub use wire::EXEC_COMMAND;
