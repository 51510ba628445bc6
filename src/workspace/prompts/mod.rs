//! Files that people write for the agent: instructions, skills, commands (R-LOOP-5). Found in the user's folder and in
//! the workspace folders. All text is data: it may start nothing and allow nothing, whoever wrote it.

mod commands;
mod file;
mod instructions;
mod skills;

use std::path::PathBuf;
use std::sync::Arc;

pub use commands::{BadCommand, Commands, PromptCommand, parse_command_call};
pub use instructions::{FoundInstruction, Instruction, MAX_ALL};
pub use skills::{Skill, SkillError, Skills};

use super::roots::{Folder, Roots};
use crate::config::Redactor;

/// Where such files are looked for.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The user's own folder.
    pub user: Option<PathBuf>,
    /// The workspace folders, the nearest last.
    pub folders: Vec<SourceFolder>,
    /// A file that the configuration names, of instructions that stand in the place of the built-in ones.
    pub prompt_file: Option<PathBuf>,
    /// The session's working directory; what lies between its folder and it is looked at too.
    pub cwd: PathBuf,
    /// Takes keys out of every text.
    pub redactor: Redactor,
}

/// A workspace folder to look into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFolder {
    /// Where it is.
    pub path: PathBuf,
    /// The person trusts it.
    pub trusted: bool,
}

/// A folder in which files are looked for.
#[derive(Clone, Debug)]
struct PromptPlace {
    dir: PathBuf,
    trusted: bool,
    /// Links may not lead out of these; none: they may lead anywhere.
    within: Option<Arc<Roots>>,
    redactor: Redactor,
}

impl Sources {
    /// The user's folder first, then the workspace folders, the nearest last.
    fn list_places(&self) -> Vec<PromptPlace> {
        let folders: Vec<Folder> = self
            .folders
            .iter()
            .map(|folder| Folder {
                name: String::new(),
                path: folder.path.clone(),
            })
            .collect();
        let roots = Arc::new(Roots::new(&folders));
        let user = self.user.iter().map(|dir| PromptPlace {
            dir: dir.clone(),
            trusted: true,
            within: None,
            redactor: self.redactor.clone(),
        });
        let workspace = self.folders.iter().map(|folder| PromptPlace {
            dir: folder.path.clone(),
            trusted: folder.trusted,
            within: Some(roots.clone()),
            redactor: self.redactor.clone(),
        });
        user.chain(workspace).collect()
    }
}
