//! A session's system prompt and slash commands: which folders they come from, and how they are combined.
//!
//! Reading the files is `workspace::prompts`'s; when a turn loads its prompt is `turn::system_prompt`'s.

use std::path::PathBuf;
use std::sync::Arc;

use super::command::SessionInfo;
use super::config_store::ConfigStore;
use crate::base::spawn::run_blocking;
use crate::base::text::one_line;
use crate::config::AgentSettings;
use crate::context::{SystemInputs, system_prompt};
use crate::mcp::{ServedPrompt, describe_arguments};
use crate::tool::Tool;
use crate::tool::delegate::Delegate;
use crate::turn::{SystemPrompt, SystemPromptSource};
use crate::workspace::prompts::{CommandArgument, Commands, PromptCommand, SourceFolder, Sources};

fn to_command(served: ServedPrompt) -> PromptCommand {
    let arguments = served.prompt.arguments.iter().map(|argument| CommandArgument {
        name: argument.name.clone(),
        description: argument.description.clone(),
        is_required: argument.is_required,
    });
    let mut command = PromptCommand::from_server(served.name, served.server);
    command.description.clone_from(&served.prompt.description);
    command.argument_hint = Some(describe_arguments(&served.prompt)).filter(|hint| !hint.is_empty());
    command.arguments = arguments.collect();
    command
}

impl ConfigStore {
    /// Returns the source of a session's system prompt. It reads the files as they are when it is called.
    pub(super) fn system_prompt_source(
        &self,
        session: &SessionInfo,
        agent: &AgentSettings,
    ) -> SystemPromptSource {
        let mut sources = self.prompt_sources(session);
        sources.prompt_file.clone_from(&agent.prompt_file);
        let agent_prompt = agent.system_prompt.clone();
        let agents = self.delegable_agents(session, agent);
        let tools = agent.tool_choice();
        SystemPromptSource::Files(Arc::new(move || {
            let found = sources.load_instructions();
            let system = system_prompt(&SystemInputs {
                agent_prompt: found.prompt.clone().or_else(|| agent_prompt.clone()),
                instructions: &found.texts,
                skills: &found.skills,
                agents: &agents,
                tools: &tools,
            });
            SystemPrompt {
                text: system,
                files: found.files.into(),
                skills: found.skills,
            }
        }))
    }

    /// Returns the agents to which this agent may delegate, as name and description.
    fn delegable_agents(&self, session: &SessionInfo, agent: &AgentSettings) -> Vec<(String, String)> {
        if !agent.tool_choice().is_allowed(Delegate::NAME) {
            return Vec::new();
        }
        let folder = self.folder_config(&session.folder);
        let agents = folder.loaded.settings.agents.values();
        agents
            .filter(|other| other.name != "default" && other.name != agent.name)
            .map(|other| {
                let purpose = other.description.as_deref().unwrap_or("(not described)");
                (other.name.clone(), one_line(purpose, 300))
            })
            .collect()
    }

    /// Returns the slash commands of a session, as they are now: files, and the prompts of servers that run.
    pub async fn list_commands(&self, session: &SessionInfo) -> Commands {
        let sources = self.prompt_sources(session);
        let read = run_blocking(move || sources.load_commands());
        let mut commands = read.await.unwrap_or_default();
        let folder = self.mcp().find_session(&session.id, &session.folder);
        for served in folder.iter().flat_map(|folder| folder.list_prompts()) {
            commands.add(to_command(served));
        }
        commands
    }

    /// Returns where to look for a session's prompt files. The session's own folder comes last, as the nearest
    /// (R-LOOP-5).
    pub(super) fn prompt_sources(&self, session: &SessionInfo) -> Sources {
        let mut folders: Vec<PathBuf> = self.workspace_roots().into_iter().map(|(_, path)| path).collect();
        folders.retain(|folder| *folder != session.folder);
        folders.push(session.folder.clone());
        let source = |path: PathBuf| SourceFolder {
            // Trust is per folder (R-SEC), so each source carries its own.
            trusted: self.folder_config(&path).loaded.trusted,
            path,
        };
        Sources {
            user: self.user_folder(),
            folders: folders.into_iter().map(source).collect(),
            cwd: session.cwd.clone(),
            prompt_file: None,
            redactor: self.redactor.clone(),
            denied: self.shared.read_deny(Some(&session.cwd)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::context::built_in_prompt;
    use crate::tool::create_builtin_tools;

    #[test]
    fn examples_of_calls_are_valid() {
        let prompt = built_in_prompt("glm-5");
        let examples: Vec<(&str, &str)> = prompt
            .lines()
            .filter_map(|line| line.strip_prefix("  - ")?.split_once(": "))
            .collect();
        assert_eq!(examples.len(), 5, "{examples:?}");
        for (name, arguments) in examples {
            let tool = create_builtin_tools()
                .into_iter()
                .find(|tool| tool.name() == name);
            let arguments = serde_json::from_str(arguments).unwrap();
            let prepared = tool.unwrap().prepare_call(&arguments);
            assert!(prepared.is_ok(), "{name}: {:?}", prepared.err());
        }
    }
}
