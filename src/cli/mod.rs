//! Terminal clients of the server: demo, chat, run, sessions, models, doctor, config, docs.
//!
//! Each client starts its own server and talks to it over stdin and stdout, as an editor does. Clients know the
//! protocol
//! and nothing behind it; `config`, `config_test` and `doctor` also read [`crate::config`], and
//! `prompt` prints texts of [`crate::context`].
//!
//! Reading order: `client` is the connection, and `turn` drives one turn. `view` renders it with `blocks` and
//! `markdown`
//! on a `screen`. `external_editor` opens the user's own editor. The other modules are the commands.

mod args;
mod blocks;
mod changes;
mod chat;
mod client;
mod completion;
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
mod live_area;
mod login;
mod markdown;
mod mcp;
mod mentions;
mod models;
mod models_update;
mod notification;
mod piped;
mod recent_calls;
mod run;
mod sandbox;
mod sandbox_test;
mod sandbox_tools;
mod screen;
mod sent_lines;
mod session_lookup;
mod sessions;
mod signals;
mod slash;
mod style;
mod turn;
mod view;
mod wrap;

pub use args::{
    AcpCommand, Arguments, CliCommand, ConfigCommand, GlobalArgs, McpAddArguments, McpCommand, ModelsCommand,
    RunArguments, SandboxCommand, SessionsCommand, TurnArgs,
};

pub use completion::{SessionReader, answer_shell};

use std::io::IsTerminal;
use std::path::PathBuf;

use chat::ChatStart;
use client::{Launch, parse_mode};
use models_update::update_models;
use run::RunError;
use screen::Screen;
use style::{Color, Styler};

use crate::config::{ConfigSource, Trust};
use crate::context::built_in_prompt;

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
    let context = CommandContext {
        shared,
        source,
        trust,
        cwd,
        is_shown: std::io::stdout().is_terminal(),
    };
    let (code, problem) = match context.run(command).await {
        Ok(0) => match screen::stdout_failure() {
            Some(reason) => (1, format!("cannot write the output: {reason}")),
            None => return 0,
        },
        Ok(code) => return code,
        Err(error) => {
            let code = error.downcast_ref::<RunError>().map_or(1, RunError::exit_code);
            (code, error.to_string())
        }
    };
    let terminal = std::io::stderr().is_terminal();
    // Through a screen, because an error may quote text that would act on the terminal (R-SEC).
    let mut screen = Screen::with_stderr(terminal, Styler::from_env(&source.env, terminal));
    let mark = screen.styler.paint_text(Color::BoldRed, "agentls:");
    screen.write_line(&format!("{mark} {problem}"));
    code
}

type CommandResult = Result<i32, Box<dyn std::error::Error>>;

/// What every command gets.
struct CommandContext<'a> {
    shared: &'a GlobalArgs,
    source: &'a ConfigSource,
    trust: &'a Trust,
    cwd: PathBuf,
    /// Standard output is a terminal.
    is_shown: bool,
}

impl CommandContext<'_> {
    async fn run(&self, command: CliCommand) -> CommandResult {
        let env = &self.source.env;
        match command {
            CliCommand::Login(arguments)
            | CliCommand::Acp {
                command: Some(AcpCommand::Login(arguments)),
            } => {
                self.check_config_exists()?;
                login::log_in(arguments, self.source, &mut self.open_stdout()).await
            }
            CliCommand::Logout(arguments) => {
                self.check_config_exists()?;
                login::log_out(arguments, self.source, &mut self.open_stdout()).await
            }
            CliCommand::Serve { .. } | CliCommand::Acp { command: None } => {
                Err("a server is not started from here".into())
            }
            CliCommand::Demo { yes } => Ok(demo::run_demo(yes, env, self.is_interactive()).await),
            CliCommand::Chat {
                agent,
                session,
                r#continue,
                turn,
                dir,
            } => {
                let which = match session {
                    Some(id) => ChatStart::Id(id),
                    None if r#continue => ChatStart::Last,
                    None => ChatStart::New(agent),
                };
                self.run_chat(which, dir, &turn).await
            }
            CliCommand::Resume { id } => {
                let which = id.map_or(ChatStart::Last, ChatStart::Id);
                self.run_chat(which, None, &TurnArgs::default()).await
            }
            CliCommand::Run(arguments) => {
                let mut options = run::RunOptions::from_arguments(arguments)?;
                self.check_config_exists().map_err(RunError::Usage)?;
                let launch = self.launch(options.folder.take(), "agentls run");
                Ok(run::run_headless(options, launch.map_err(RunError::Usage)?, env).await?)
            }
            CliCommand::Models {
                offline,
                json,
                command,
            } => {
                self.check_config_exists()?;
                if let Some(ModelsCommand::Update { from }) = command {
                    let mut screen = self.open_stdout();
                    return Ok(update_models(from.as_deref(), self.source, self.trust, &mut screen).await?);
                }
                let launch = self.launch(None, "agentls models")?;
                Ok(models::list_models(json, offline, &launch, env).await?)
            }
            CliCommand::Sessions { command, json } => {
                let command = command.unwrap_or(SessionsCommand::List { limit: None });
                let launch = self.launch(None, "agentls sessions")?;
                Ok(sessions::run_sessions_command(command, json, launch, env).await?)
            }
            CliCommand::Config { command } => {
                self.run_config(command.unwrap_or(ConfigCommand::Check {
                    dir: None,
                    json: false,
                }))
                .await
            }
            CliCommand::Doctor { offline, json } => {
                let launch = self.launch(None, "agentls doctor")?;
                let screen = self.open_stdout();
                Ok(doctor::run_doctor(offline, json, self.source, self.trust, &launch, screen).await)
            }
            CliCommand::Mcp { command } => {
                self.check_config_exists()?;
                let commands = mcp::McpCommands::load(self.source, self.trust, self.find_folder(None)?);
                let command = command.unwrap_or(McpCommand::List { json: false });
                commands.run(command, &mut self.open_stdout()).await
            }
            CliCommand::Sandbox { command } => {
                let folder = self.find_folder(None)?;
                let screen = self.open_stdout();
                sandbox::run_sandbox_command(command, self.source, self.trust, folder, screen).await
            }
            CliCommand::Prompt { model } => {
                screen::print_to_stdout(&built_in_prompt(&model.unwrap_or_default()))?;
                Ok(0)
            }
            CliCommand::Docs { topic } => docs::docs(topic.as_deref(), &self.open_stdout()),
            CliCommand::Completions { shell } => {
                screen::print_to_stdout(&completion::build_script(shell)?)?;
                Ok(0)
            }
        }
    }

    async fn run_chat(&self, which: ChatStart, dir: Option<PathBuf>, turn: &TurnArgs) -> CommandResult {
        self.check_config_exists()?;
        let mut launch = self
            .launch(dir.clone(), "agentls chat")
            .map_err(|error| match dir {
                // It may be meant as a prompt.
                Some(dir) => format!(
                    "{error}; for one prompt use `agentls run \"{}\"`, or start `agentls chat` and type it",
                    dir.display()
                ),
                None => error,
            })?;
        launch.apply_turn_args(turn, None);
        let config = self.shared.config.as_deref();
        Ok(chat::run_chat(which, launch, &self.source.env, config, self.is_interactive()).await?)
    }

    async fn run_config(&self, command: ConfigCommand) -> CommandResult {
        let (source, trust) = (self.source, self.trust);
        Ok(match command {
            ConfigCommand::Schema => config::print_schema()?,
            // This and `Doctor` accept a missing file: both report it as one of the problems.
            ConfigCommand::Check { dir, json } => {
                let folder = self.find_folder(dir)?;
                if json {
                    config::print_check(source, trust, &folder)?
                } else {
                    config::check_config(&mut self.open_stdout(), source, trust, &folder)
                }
            }
            ConfigCommand::Test {
                subject,
                tool,
                cwd,
                json,
            } => {
                let call = config_test::TestedCall { subject, tool, json };
                match self.check_config_exists().and_then(|()| self.find_folder(cwd)) {
                    Ok(folder) => {
                        let screen = self.open_stdout();
                        config_test::test(call, self.shared, source, trust, folder, screen).await?
                    }
                    Err(message) => config_test::usage_error(&mut self.open_stdout(), &message),
                }
            }
        })
    }

    fn is_interactive(&self) -> bool {
        std::io::stdin().is_terminal() && self.is_shown
    }

    fn open_stdout(&self) -> Screen {
        Screen::with_stdout(self.is_shown, Styler::from_env(&self.source.env, self.is_shown))
    }

    fn find_folder(&self, dir: Option<PathBuf>) -> Result<PathBuf, String> {
        let dir = self.cwd.join(dir.unwrap_or_default());
        let found = dir.canonicalize().ok().filter(|dir| dir.is_dir());
        found.ok_or_else(|| format!("{} is not a folder", dir.display()))
    }

    /// Checks that a configuration file named by `--config` exists: its rules may forbid what the defaults allow.
    fn check_config_exists(&self) -> Result<(), String> {
        match &self.shared.config {
            Some(path) if !self.cwd.join(path).is_file() => {
                Err(format!("--config: file not found: {}", path.display()))
            }
            _ => Ok(()),
        }
    }

    fn launch(&self, dir: Option<PathBuf>, name: &'static str) -> Result<Launch, String> {
        let mut launch = Launch::new(self.shared, self.find_folder(dir)?, name);
        let named = |variable| self.source.env.non_empty(variable);
        launch.mode = launch.mode.or_else(|| named("AGENTLS_MODE").and_then(parse_mode));
        launch.model = launch.model.or_else(|| named("AGENTLS_MODEL").map(str::to_owned));
        Ok(launch)
    }
}
