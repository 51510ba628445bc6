//! Terminal clients of the server: demo, chat, run, sessions, models, doctor, config, docs.
//!
//! Each client starts its own server and talks to it over stdin and stdout, as an editor does. Clients know the
//! protocol
//! and nothing behind it; `config`, `config_test` and `doctor` also read [`crate::config`].
//!
//! Reading order: `client` is the connection, and `turn` drives one turn. `view` renders it with `blocks` and
//! `markdown`
//! on a `screen`. `external_editor` opens the user's own editor. The other modules are the commands.

mod args;
mod blocks;
mod changes;
mod chat;
mod client;
mod config;
mod config_test;
mod demo;
mod docs;
mod doctor;
mod doctor_models;
mod external_editor;
mod held_key;
mod inquiry;
mod keys;
mod markdown;
mod models;
mod notification;
mod piped;
mod recent_calls;
mod run;
mod screen;
mod session_lookup;
mod sessions;
mod signals;
mod slash;
mod style;
mod turn;
mod view;
mod wrap;

pub use args::{Arguments, CliCommand, ConfigCommand, GlobalArgs, RunArguments, SessionsCommand};

use std::io::IsTerminal;
use std::path::PathBuf;

use chat::ChatStart;
use clap::CommandFactory;
use client::Launch;
use run::RunError;
use screen::Screen;
use style::{Color, Styler};

use crate::config::{ConfigSource, Trust};

/// Runs a client command and returns its exit code. `cwd` is the folder the program was started in.
///
/// `trust` holds the user's decisions on folders, for the commands that judge the configuration themselves.
pub async fn run_command(
    command: CliCommand,
    shared: &GlobalArgs,
    source: &ConfigSource,
    trust: &Trust,
    cwd: PathBuf,
) -> i32 {
    match try_run(command, shared, source, trust, cwd).await {
        Ok(code) => code,
        Err(why) => {
            let terminal = std::io::stderr().is_terminal();
            // Through a screen, because an error may quote text that would act on the terminal (R-SEC).
            let mut screen = Screen::with_stderr(terminal, Styler::from_env(&source.env, terminal));
            let mark = screen.styler.paint_text(Color::BoldRed, "agentls:");
            screen.write_line(&format!("{mark} {why}"));
            why.downcast_ref::<RunError>().map_or(1, RunError::exit_code)
        }
    }
}

async fn try_run(
    command: CliCommand,
    shared: &GlobalArgs,
    source: &ConfigSource,
    trust: &Trust,
    cwd: PathBuf,
) -> Result<i32, Box<dyn std::error::Error>> {
    let env = &source.env;
    let shown = std::io::stdout().is_terminal();
    let terminal = std::io::stdin().is_terminal() && shown;
    let stdout = || Screen::with_stdout(shown, Styler::from_env(env, shown));
    let folder = |dir: Option<PathBuf>| {
        let dir = cwd.join(dir.unwrap_or_default());
        dir.canonicalize()
            .ok()
            .filter(|dir| dir.is_dir())
            .ok_or_else(|| format!("{} is not a folder", dir.display()))
    };
    // A named file must exist: its rules may forbid what the defaults allow.
    let named = || match &shared.config {
        Some(path) if !cwd.join(path).is_file() => {
            Err(format!("--config: there is no file {}", path.display()))
        }
        _ => Ok(()),
    };
    let launch = |dir, name| folder(dir).map(|folder| Launch::new(shared, folder, name));
    match command {
        CliCommand::Serve { .. } => Err("a server is not started from here".into()),
        CliCommand::Demo { yes } => Ok(demo::run_demo(yes, env, terminal).await),
        CliCommand::Chat {
            agent,
            session,
            r#continue,
            dir,
        } => {
            let which = match session {
                Some(id) => ChatStart::Id(id),
                None if r#continue => ChatStart::Last,
                None => ChatStart::New(agent),
            };
            named()?;
            let launch = launch(dir, "agentls chat")?;
            Ok(chat::run_chat(which, launch, env, shared.config.as_deref(), terminal).await?)
        }
        CliCommand::Resume { id } => {
            let which = id.map_or(ChatStart::Last, ChatStart::Id);
            let launch = launch(None, "agentls chat")?;
            named()?;
            Ok(chat::run_chat(which, launch, env, shared.config.as_deref(), terminal).await?)
        }
        CliCommand::Run(arguments) => {
            let mut options = run::RunOptions::from_arguments(arguments)?;
            named().map_err(RunError::Usage)?;
            let launch = launch(options.folder.take(), "agentls run").map_err(RunError::Usage)?;
            Ok(run::run_headless(options, launch, env).await?)
        }
        CliCommand::Models { offline, json } => {
            named()?;
            Ok(models::list_models(json, offline, &launch(None, "agentls models")?, env).await?)
        }
        CliCommand::Sessions { command, json } => {
            let command = command.unwrap_or(SessionsCommand::List { limit: None });
            Ok(sessions::run_sessions_command(command, json, launch(None, "agentls sessions")?, env).await?)
        }
        CliCommand::Config { command } => Ok(match command.unwrap_or(ConfigCommand::Check { dir: None }) {
            ConfigCommand::Schema => config::print_schema()?,
            // No `named()` here and in `Doctor`: both report a missing file as one of the problems.
            ConfigCommand::Check { dir } => config::check_config(&mut stdout(), source, trust, &folder(dir)?),
            ConfigCommand::Test {
                subject,
                tool,
                cwd,
                json,
            } => {
                let call = config_test::TestedCall { subject, tool, json };
                match named().and_then(|()| folder(cwd)) {
                    Ok(folder) => config_test::test(call, shared, source, trust, folder, stdout()).await?,
                    Err(why) => config_test::usage_error(&mut stdout(), &why),
                }
            }
        }),
        CliCommand::Doctor { offline, json } => {
            let launch = launch(None, "agentls doctor")?;
            Ok(doctor::run_doctor(offline, json, source, trust, &launch, stdout()).await)
        }
        CliCommand::Docs { topic } => docs::docs(topic.as_deref(), &stdout()),
        CliCommand::Completions { shell } => {
            let mut command = Arguments::command();
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut command, env!("CARGO_PKG_NAME"), &mut text);
            screen::print_to_stdout(&String::from_utf8_lossy(&text))?;
            Ok(0)
        }
    }
}
