//! A session's system prompt: where its files are looked for, and what is made of them.

use std::path::PathBuf;
use std::sync::Arc;

use super::command::SessionInfo;
use super::configured::Configured;
use crate::config::AgentSettings;
use crate::context::{SystemInputs, system_prompt};
use crate::turn::{Briefing, System};
use crate::workspace::prompts::{SourceFolder, Sources};

impl Configured {
    /// Gives the system prompt of a session, from files as they are when it is asked.
    pub(super) fn briefing(&self, session: &SessionInfo, agent: &AgentSettings) -> System {
        let roots = self.roots();
        let mut sources = self.sources(session);
        sources.prompt_file.clone_from(&agent.prompt_file);
        let agent_prompt = agent.system_prompt.clone();
        let cwd = session.cwd.clone();
        System::Files(Arc::new(move || {
            let found = sources.instructions();
            let system = system_prompt(&SystemInputs {
                agent_prompt: found.prompt.clone().or_else(|| agent_prompt.clone()),
                cwd: cwd.clone(),
                roots: roots.clone(),
                instructions: &found.texts,
                skills: &found.skills,
            });
            Briefing {
                system,
                files: found.files.into(),
                skills: found.skills,
            }
        }))
    }

    /// Where a session's files for the agent are looked for: the session's own folder is the nearest.
    pub(super) fn sources(&self, session: &SessionInfo) -> Sources {
        let mut folders: Vec<PathBuf> = self.roots().into_iter().map(|(_, path)| path).collect();
        folders.retain(|folder| *folder != session.folder);
        folders.push(session.folder.clone());
        let source = |path: PathBuf| SourceFolder {
            trusted: self.folder(&path).loaded.trusted,
            path,
        };
        Sources {
            user: self.user_folder(),
            folders: folders.into_iter().map(source).collect(),
            cwd: session.cwd.clone(),
            prompt_file: None,
        }
    }
}
