//! Approval: may this effect happen? Modes, rules, grants, and shell parsing, all pure.
//!
//! [`judge_tool_call`] is the entry point. It takes a [`Policy`] (mode, rules of the configuration, grants of the
//! user), a tool's name, and its `domain::Effect`, and returns a [`Verdict`]. Nothing here reads a file, asks anyone,
//! or remembers anything: `store` keeps grants, `session` loads them, and `workspace` checks files.
//!
//! - [`rule`]: a rule's text, and what it matches.
//! - `shell`: the parser that splits a command line into simple commands.
//! - `programs`: wrappers, shells, interpreters, and builtins, by name.
//! - `command`: what a command may run, what a rule must spell out, what "always" may offer.
//! - `known`: commands that surely run nothing else, for lines that a `deny` rule watches.
//! - `read_only`: the reviewed commands and options. They are free inside the workspace.
//! - `narrowing`: lets git leave out tracked secrets.
//! - `dangerous_flags`: options of other programs that run programs or write files; a rule must spell them out.
//! - `sed_script`: the same for the scripts of `sed`.
//! - `risk`: how much harm a command could do.
//! - `steering`: files that make programs run.
//! - `base::secret_path`: which files look like secrets.
//! - [`policy`]: the verdict. Start reading there.

mod command;
mod dangerous_flags;
mod editors;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz_tests;
mod known;
mod losses;
mod narrowing;
pub mod policy;
mod programs;
mod read_only;
mod risk;
pub mod rule;
mod sed_script;
use crate::base::secret_path as secret;
mod shell;

pub use editors::explain_waiting_editor;
pub use losses::find_command_losses;
pub use narrowing::leave_out_secrets;
pub use policy::{GrantedRule, Policy, Verdict, choose_sandbox_policy, judge_tool_call};
pub use read_only::{command_files, only_reads};
pub use rule::{Rule, RuleError, describe_rules, narrow_to_file};
