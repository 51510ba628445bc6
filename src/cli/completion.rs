//! Completes command lines for shells: names of commands and options, and values such as sessions, models and agents.
//!
//! The script of `agentls completions` runs agentls with [`VARIABLE`] at each completion. Values come from agentls's own
//! commands, so nothing here opens the store.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};
use serde_json::Value;

use super::args::Arguments;
use super::style::clean_line;
use crate::config::{ConfigSource, Settings, Trust};

/// Names the shell that asks for a completion. Not clap's own name, which other programs may set for a server.
const VARIABLE: &str = "AGENTLS_COMPLETE";

/// Answers a shell, if one asks. Returns whether that is so; nothing else must be printed then.
///
/// # Errors
/// The shell is unknown, or standard output cannot be written.
pub fn answer_shell(source: impl Fn() -> ConfigSource, folder: Option<PathBuf>) -> Result<bool, clap::Error> {
    let command = || {
        let values = Arc::new(ValueSource {
            program: std::env::current_exe().unwrap_or_else(|_| env!("CARGO_PKG_NAME").into()),
            source: source(),
            folder: folder.clone(),
        });
        with_values(Arguments::command(), &values)
    };
    let answer = CompleteEnv::with_factory(command).var(VARIABLE);
    answer.try_complete(std::env::args_os(), folder.as_deref())
}

/// Returns the script that lets a shell ask.
pub(super) fn build_script(shell: Shell) -> std::io::Result<String> {
    let (name, mut script) = (env!("CARGO_PKG_NAME"), Vec::new());
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string());
    let completer = completer.ok_or_else(|| std::io::Error::other(format!("no completions for {shell}")))?;
    completer.write_registration(VARIABLE, name, name, name, &mut script)?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// Where values come from.
struct ValueSource {
    program: PathBuf,
    source: ConfigSource,
    folder: Option<PathBuf>,
}

/// Adds to all arguments with a known meaning where their values come from.
fn with_values(command: clap::Command, values: &Arc<ValueSource>) -> clap::Command {
    let command = command.mut_args(|arg| {
        let list: fn(&ValueSource) -> Vec<CompletionCandidate> = match arg.get_id().as_str() {
            "session" | "id" => ValueSource::list_sessions,
            "model" => ValueSource::list_models,
            "agent" => |values| values.load_settings().agents.keys().map(Into::into).collect(),
            "provider" => |values| values.load_settings().providers.keys().map(Into::into).collect(),
            _ => return arg,
        };
        let values = values.clone();
        arg.add(ArgValueCandidates::new(move || list(&values)))
    });
    command.mut_subcommands(|command| with_values(command, values))
}

impl ValueSource {
    fn list_sessions(&self) -> Vec<CompletionCandidate> {
        // The last used ones.
        let listed = self.run_json(&["sessions", "--json", "list", "-n", "100"]);
        let sessions = listed.as_array().into_iter().flatten();
        let candidates = sessions.filter_map(|session| {
            // A line end would begin another candidate.
            let title = session["title"].as_str().map(|title| clean_line(title, 60));
            let id = session["sessionId"].as_str()?;
            Some(CompletionCandidate::new(id).help(title.map(Into::into)))
        });
        candidates.collect()
    }

    fn list_models(&self) -> Vec<CompletionCandidate> {
        let listed = self.run_json(&["models", "--offline", "--json"]);
        let models = listed["models"].as_array().into_iter().flatten();
        let candidates = models.filter_map(|model| {
            let (provider, model) = (model["provider"].as_str()?, model["model"].as_str()?);
            Some(format!("{provider}/{model}").into())
        });
        candidates.collect()
    }

    /// Reads the settings as if the folder were not trusted.
    fn load_settings(&self) -> Arc<Settings> {
        let folder = self.folder.as_deref();
        self.source.load_settings(folder, &Trust::default()).settings
    }

    /// Runs a command of agentls; null if it fails. A completion has nowhere to say why.
    #[expect(
        clippy::disallowed_methods,
        reason = "agentls itself, at a completion: no runtime is there, and nothing else runs"
    )]
    fn run_json(&self, arguments: &[&str]) -> Value {
        let folder = self.folder.as_deref().unwrap_or(Path::new("."));
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(folder).env_remove(VARIABLE);
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
        let read = output.map(|output| serde_json::from_slice(&output.stdout).unwrap_or_default());
        read.unwrap_or_default()
    }
}
