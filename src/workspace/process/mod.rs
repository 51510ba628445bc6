//! Child processes that end with us (architecture §3a, R-CANCEL, I8).
//!
//! Every child starts through our own hidden subcommand `agentls __exec`. The server half is [`Launcher`] and
//! [`Child`]; the helper half is [`exec_main`], which `main` calls before anything else. They share a socket pair. The
//! request and the stages of a stop go down, reports come up. End of file on either side means that the other one is
//! gone. Must not know tools, sessions, or settings.

mod child;
mod command;
mod exec;
mod exec_protocol;
mod git;
mod inspection;
mod long_script;
mod lookup;
mod orphans;
mod output;
mod process_tree;
mod spawn;
mod state;
pub(super) mod unattended;
mod unnamed_file;

pub use child::{Child, Collected, CommandEnd, Process, StopMode};
pub use command::{Command, Stdin};
pub use exec::exec_main;
pub use exec_protocol::EXEC_COMMAND;
pub use git::{git_command, is_always_replaced};
pub use inspection::deny_inspection;
pub use lookup::{find_own_program, list_folders_without_programs, look_up_outside};
pub use orphans::{adopt_orphans, sweep_orphans};
pub use output::{Chunk, Output, Stream};
pub use spawn::{Launcher, SpawnError};
pub use state::ExitStatus;
