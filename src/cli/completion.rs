//! Completes command lines for shells: names of commands and options, and values such as sessions, models and agents.
//!
//! The script of `agentls completions` runs agentls with [`VARIABLE`] at each completion. Nothing starts and nothing changes
//! then, such as the store's version, and a slow disk completes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};

use super::args::Arguments;
use super::style::clean_line;
use crate::config::{ConfigSource, HasModel, Settings, Trust, strip_provider};
use crate::provider::models::{current_day, list_offered_models};

/// Names the shell that asks for a completion. Not clap's own name, which other programs may set for a server.
const VARIABLE: &str = "AGENTLS_COMPLETE";

/// How long values may take.
const LIMIT: Duration = Duration::from_millis(200);

/// Reads the sessions that were used last from a data folder: their ids and titles.
pub type SessionReader = fn(&Path) -> Vec<(String, Option<String>)>;

/// Answers a shell, if one asks. Returns whether that is so; nothing else must be printed then.
///
/// # Errors
/// The shell is unknown, or standard output cannot be written.
pub fn answer_shell(
    source: impl Fn() -> ConfigSource,
    folder: Option<PathBuf>,
    read_sessions: SessionReader,
) -> Result<bool, clap::Error> {
    let command = || {
        let values = Arc::new(ValueSource {
            read_sessions,
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
    read_sessions: SessionReader,
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
        arg.add(ArgValueCandidates::new(move || {
            let values = values.clone();
            list_in_time(move || list(&values))
        }))
    });
    command.mut_subcommands(|command| with_values(command, values))
}

impl ValueSource {
    fn list_sessions(&self) -> Vec<CompletionCandidate> {
        let Some(places) = &self.source.places else {
            return Vec::new();
        };
        let sessions = (self.read_sessions)(&places.data_dir).into_iter();
        let candidates = sessions.map(|(id, title)| {
            // A line end would begin another candidate.
            let title = title.map(|title| clean_line(&title, 60));
            CompletionCandidate::new(id).help(title.map(Into::into))
        });
        candidates.collect()
    }

    /// Lists the models of the providers that can be called, as far as that is known without asking them.
    fn list_models(&self) -> Vec<CompletionCandidate> {
        let (settings, today) = (self.load_settings(), current_day());
        let usable = settings.providers.values();
        let usable = usable.filter(|provider| provider.configured || provider.api_key.is_some());
        let is_unknown: HasModel<'_> = &|_, _| None;
        let models = usable.flat_map(|provider| {
            let name = &provider.name;
            let own = provider.model.as_deref();
            let own = own.map(|model| strip_provider(name, model, is_unknown).to_owned());
            let offered = list_offered_models(name, None, today);
            let offered = offered.into_iter().filter(|model| own.as_ref() != Some(model));
            let models: Vec<_> = own.iter().cloned().chain(offered).collect();
            models
                .into_iter()
                .map(move |model| format!("{name}/{model}").into())
        });
        models.collect()
    }

    /// Reads the settings as if the folder were not trusted.
    fn load_settings(&self) -> Arc<Settings> {
        let folder = self.folder.as_deref();
        self.source.load_settings(folder, &Trust::default()).settings
    }
}

/// Lists values on a thread, which the end of the process ends; none if that takes too long. A completion has nowhere to say
/// why.
fn list_in_time(
    list: impl FnOnce() -> Vec<CompletionCandidate> + Send + 'static,
) -> Vec<CompletionCandidate> {
    let (sender, listed) = sync_channel(1);
    std::thread::spawn(move || {
        // Nobody may wait any more.
        let _ = sender.send(list());
    });
    listed.recv_timeout(LIMIT).unwrap_or_default()
}
