//! May this effect happen: modes, rules, grants and shell parsing, all pure.
//!
//! [`judge_tool_call`] is the whole of it: a [`Policy`] (mode, rules of the config, grants of the person), a
//! tool's name and its `domain::Effect` give a [`Verdict`]. Nothing here reads a file, asks anybody or
//! remembers anything; grants are kept by `store` and loaded by `session`.
//!
//! - [`rule`]: a rule's text, and what it matches.
//! - `shell`: a command line taken apart into simple commands.
//! - `command`: what is known of commands: wrappers, interpreters, what "always" may offer.
//! - `known`: commands that surely run nothing else, for lines that a `deny` rule watches.
//! - `read_only`: the reviewed commands and options. They are free where they stay inside the workspace, and only they
//!   are offered as a prefix by "always".
//! - `options`: for some other programs, options that run programs or write files, which a rule must spell.
//! - `risk`: how much harm a command could do.
//! - `steering`: files that make programs run.
//! - `base::secret_path`: which files look like secrets.
//! - [`policy`]: the verdict.

mod command;
mod dangerous_flags;
mod known;
pub mod policy;
mod read_only;
mod risk;
pub mod rule;
use crate::base::secret_path as secret;
mod shell;
mod steering;

pub use policy::{Policy, Verdict, judge_tool_call};
pub use read_only::command_files;
pub use rule::{Rule, RuleError};
