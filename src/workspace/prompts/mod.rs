//! Files that people write for the agent: instructions, skills, commands (R-LOOP-5).
//!
//! They are in the user's folder and in the workspace folders. All text is data: it may start nothing and allow
//! nothing, whoever wrote it. Must not know models or sessions; [`Sources`] is the entry point.

mod commands;
mod file;
mod instructions;
mod skills;

use std::path::PathBuf;
use std::sync::Arc;

pub use commands::{
    BadCommand, CommandArgument, CommandOrigin, Commands, PromptCommand, parse_command_call,
    split_quoted_words,
};
pub use instructions::{Instruction, LoadedInstructions, MAX_ALL};
pub use skills::{Skill, SkillError, Skills};

use super::read_deny::ReadDeny;
use super::roots::{Folder, Roots};
use crate::config::Redactor;

/// The folders to search for prompt files.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub user: Option<PathBuf>,
    /// The nearest last.
    pub folders: Vec<SourceFolder>,
    /// Named by the configuration; its text replaces the built-in instructions.
    pub prompt_file: Option<PathBuf>,
    /// The session's working directory; the folders between it and its workspace folder are searched too.
    pub cwd: PathBuf,
    /// Removes keys from every text.
    pub redactor: Redactor,
    /// The paths that need approval to be read.
    pub denied: ReadDeny,
}

/// A workspace folder to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFolder {
    pub path: PathBuf,
    /// Whether the user trusts it.
    pub trusted: bool,
}

/// A folder to search, with its limits.
#[derive(Clone, Debug)]
struct PromptFolder {
    dir: PathBuf,
    trusted: bool,
    /// Links must not lead out of these roots; `None` allows any target.
    within: Option<Arc<Roots>>,
    redactor: Redactor,
    denied: ReadDeny,
}

impl Sources {
    /// Lists the user's folder first, then the workspace folders, the nearest last.
    fn list_folders(&self) -> Vec<PromptFolder> {
        let folders: Vec<Folder> = self
            .folders
            .iter()
            .map(|folder| Folder {
                name: String::new(),
                path: folder.path.clone(),
            })
            .collect();
        let roots = Arc::new(Roots::new(&folders));
        let user = self.user.iter().map(|dir| PromptFolder {
            dir: dir.clone(),
            trusted: true,
            within: None,
            redactor: self.redactor.clone(),
            denied: self.denied.clone(),
        });
        let workspace = self.folders.iter().map(|folder| PromptFolder {
            dir: folder.path.clone(),
            trusted: folder.trusted,
            within: Some(roots.clone()),
            redactor: self.redactor.clone(),
            denied: self.denied.clone(),
        });
        user.chain(workspace).collect()
    }
}
