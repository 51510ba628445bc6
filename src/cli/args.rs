//! The command line, as clap parses it.
//!
//! Only shapes and help texts live here: the `///` comments of fields and variants are the text of `--help` and of the
//! generated command-line reference. [`super::run_command`] decides what a command does.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// An LLM coding agent behind any editor. Without a command it serves an editor over stdin and stdout.
#[derive(Debug, Parser)]
#[command(name = "agentls", version, about)]
pub struct Arguments {
    /// The command to run.
    #[command(subcommand)]
    pub command: Option<CliCommand>,
    /// What editors add.
    #[command(flatten)]
    pub editor: EditorArgs,
    /// The same as `agentls chat --continue`.
    #[arg(short, long, conflicts_with = "stdio")]
    pub r#continue: bool,
    /// The options of every command.
    #[command(flatten)]
    pub shared: GlobalArgs,
}

impl Arguments {
    /// Parses the command line. Exits the program if it is not valid, with a hint where another command is meant.
    pub fn parse_or_exit() -> Self {
        Self::try_parse().unwrap_or_else(|error| match suggest_command(&error) {
            Some(hint) => {
                let message = format!("there is no such command; {hint}");
                Self::command()
                    .error(ErrorKind::InvalidSubcommand, message)
                    .exit()
            }
            None => error.exit(),
        })
    }

    /// Returns the command. Exits the program if options do not fit together.
    pub fn into_command(self) -> Option<CliCommand> {
        match self.command {
            None if self.r#continue => Some(CliCommand::Resume { id: None }),
            Some(_) if self.r#continue => {
                let message = "--continue must follow the command: `agentls chat --continue`";
                Self::command().error(ErrorKind::ArgumentConflict, message).exit()
            }
            Some(CliCommand::Mcp {
                command: Some(McpCommand::Add(add)),
            }) if add.command.is_empty() && add.url.is_none() => {
                let name = add.name;
                let message = format!(
                    "say what {name} is: a program (`agentls mcp add {name} -- COMMAND`) or an address (`agentls mcp add \
                     {name} --url URL`)"
                );
                Self::command()
                    .error(ErrorKind::MissingRequiredArgument, message)
                    .exit()
            }
            command => command,
        }
    }
}

/// Accepts a model, `provider/model`, or a provider.
fn parse_model(text: &str) -> Result<String, String> {
    let (provider, model) = text.split_once('/').unwrap_or((text, text));
    if provider.trim().is_empty() || model.trim().is_empty() {
        return Err("it names no model; write PROVIDER/MODEL, as `agentls models` lists them".to_owned());
    }
    Ok(text.to_owned())
}

/// Accepts a level, or a filter that names one. A single other word would silence the log instead.
fn parse_log_filter(text: &str) -> Result<String, String> {
    let is_level = matches!(text, "off" | "error" | "warn" | "info" | "debug" | "trace");
    let names_more = text.contains(['=', ',', ':']);
    if is_level || names_more && EnvFilter::try_new(text).is_ok() {
        return Ok(text.to_owned());
    }
    Err(
        "use off, error, warn, info, debug, trace, or a filter such as info,agentls::provider=debug"
            .to_owned(),
    )
}

/// Commands of other programs that people try, and what to use here.
const OTHER_COMMANDS: [(&[&str], &str); 6] = [
    (
        &["auth", "signin", "sign-in", "key", "keys"],
        "`agentls login` stores the key of a provider",
    ),
    (
        &["init", "setup", "configure"],
        "nothing must be set up: `agentls login` stores a key, `agentls chat` starts, and `agentls docs configuration` \
         shows the settings",
    ),
    (
        &["update", "upgrade", "self-update"],
        "agentls does not update itself: use what installed it (`agentls docs install`); `agentls models update` fetches \
         newer data about models",
    ),
    (
        &["show", "path", "edit", "get", "set", "list", "ls"],
        "`agentls config check` names the configuration files, which you edit with your own editor; `agentls doctor` \
         shows what is in use, and `agentls sessions` lists sessions",
    ),
    (
        &["ask", "exec", "prompt", "p"],
        "`agentls run \"…\"` runs one prompt, and `agentls chat` talks",
    ),
    (
        &["history", "log", "logs"],
        "`agentls sessions` lists sessions; `agentls doctor` names the log file",
    ),
];

/// Returns what to use in place of a command that does not exist.
fn suggest_command(error: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let known = |(names, _): &&(&[&str], &'static str)| names.contains(&name.as_str());
    OTHER_COMMANDS.iter().find(known).map(|(_, hint)| *hint)
}

/// What many LSP clients add to every server that they start. Accepted and ignored.
#[derive(Clone, Debug, Default, Args)]
pub struct EditorArgs {
    /// We always use stdin and stdout.
    #[arg(long, hide = true)]
    pub stdio: bool,
    /// `initialize` names the same process, and the server ends with it.
    #[arg(long = "clientProcessId", hide = true, value_name = "PID")]
    pub client_process_id: Option<i64>,
}

/// The options that every command accepts.
#[derive(Clone, Debug, Default, Args)]
pub struct GlobalArgs {
    /// Read this configuration file instead of the usual one.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Use this provider.
    #[arg(long, global = true, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub provider: Option<String>,
    /// Use this model.
    #[arg(long, global = true, value_name = "NAME", value_parser = parse_model)]
    pub model: Option<String>,
    /// How freely the agent may act.
    #[arg(long, global = true, value_name = "MODE", value_parser = ["plan", "ask", "autoEdit", "full"])]
    pub mode: Option<String>,
    /// What to log: off, error, warn, info, debug, trace, or a filter.
    #[arg(long, global = true, value_name = "LEVEL", value_parser = parse_log_filter)]
    pub log: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Serve an editor over stdin and stdout (the default).
    Serve {
        /// What editors add.
        #[command(flatten)]
        editor: EditorArgs,
    },
    /// Serve an editor that speaks the Agent Client Protocol, over stdin and stdout.
    Acp {
        /// What to do; serve when absent.
        #[command(subcommand)]
        command: Option<AcpCommand>,
    },
    /// Try everything without a key or a network: a scratch workspace and a scripted model.
    Demo {
        /// Answer approvals with yes instead of asking.
        #[arg(short, long)]
        yes: bool,
    },
    /// Talk to the agent in the terminal.
    Chat {
        /// Start with this configured agent.
        #[arg(long, value_name = "NAME", conflicts_with_all = ["session", "continue"])]
        agent: Option<String>,
        /// Resume this session; a prefix of its id is enough.
        #[arg(long, value_name = "ID", conflicts_with = "continue")]
        session: Option<String>,
        /// Resume the session last used in this folder.
        #[arg(short, long)]
        r#continue: bool,
        /// What applies to the turns.
        #[command(flatten)]
        turn: TurnArgs,
        /// The folder to work in; the current one when absent.
        dir: Option<PathBuf>,
    },
    /// Resume a session in the terminal: the same as `chat --session ID`, or `chat --continue` without an id.
    Resume {
        /// The session; a prefix of its id is enough.
        id: Option<String>,
    },
    /// Run one prompt, for scripts: the answer on stdout, progress on stderr.
    #[command(after_help = RUN_HELP)]
    Run(RunArguments),
    /// Store the key of a provider: asks for it, tries it, and keeps it in a file that only you can read.
    Login(LoginArguments),
    /// Remove the key of a provider that `agentls login` has stored.
    Logout(LogoutArguments),
    /// List, show, search and change stored sessions.
    Sessions {
        /// What to do; `list` when absent.
        #[command(subcommand)]
        command: Option<SessionsCommand>,
        /// Print JSON.
        #[arg(long, global = true)]
        json: bool,
    },
    /// Check the configuration, or print its schema.
    Config {
        /// What to do; `check` when absent.
        #[command(subcommand)]
        command: Option<ConfigCommand>,
    },
    /// List the models you can choose, or fetch newer data about models. Exit code: 1 when there are none.
    #[command(args_conflicts_with_subcommands = true)]
    Models {
        /// Do not query providers for their own lists.
        #[arg(long)]
        offline: bool,
        /// Print JSON: the result of `agent/listModels`.
        #[arg(long)]
        json: bool,
        /// What to do; list when absent.
        #[command(subcommand)]
        command: Option<ModelsCommand>,
    },
    /// Report what is configured, whether it works, and how to fix what does not. Exit code: 1 when a check fails.
    Doctor {
        /// Do not contact providers.
        #[arg(long)]
        offline: bool,
        /// Print JSON: {version, ok, problems, warnings, checks: [{name, state: ok|info|warn|fail, message, hint?}]}.
        #[arg(long)]
        json: bool,
    },
    /// List, try and change MCP servers, and log in to them.
    Mcp {
        /// What to do; `list` when absent.
        #[command(subcommand)]
        command: Option<McpCommand>,
    },
    /// Run a command as the agent's commands run, or test what holds them.
    Sandbox {
        /// What to do.
        #[command(subcommand)]
        command: SandboxCommand,
    },
    /// Print the built-in instructions, to read them or to start your own `prompt_file` from them.
    Prompt {
        /// The model; they differ by its family. Without it, those for an unknown model.
        model: Option<String>,
    },
    /// Show the documentation offline. Without a topic, list the topics.
    Docs {
        /// The topic, such as `hooks` or `editors/neovim`.
        topic: Option<String>,
    },
    /// Print a script for shell completions, those of sessions, models and agents included; save it where your shell looks
    /// for it.
    Completions {
        /// The shell to complete for.
        shell: clap_complete::Shell,
    },
}

/// The options of commands that send prompts.
#[derive(Clone, Debug, Default, Args)]
pub struct TurnArgs {
    /// How hard the model thinks. A model that lacks a level gets the nearest one that it has.
    #[arg(long, value_name = "LEVEL", value_parser = ["none", "minimal", "low", "medium", "high", "xhigh", "max"])]
    pub effort: Option<String>,
    /// The most that each prompt may cost, in US dollars; an agent with its own `max_turn_cost` keeps that.
    #[arg(long, value_name = "DOLLARS", value_parser = parse_dollars)]
    pub max_cost: Option<f64>,
}

fn parse_dollars(text: &str) -> Result<f64, String> {
    let amount = text
        .parse()
        .ok()
        .filter(|amount| (0.0..=1_000_000.0).contains(amount));
    amount.ok_or_else(|| "expected an amount from 0 to 1000000, such as 0.5".to_owned())
}

const RUN_HELP: &str = "\
Stdin, when it is not a terminal, is context of the prompt: `git diff | agentls run \"review this\"`. It is read to its
end; `< /dev/null` says that there is none. Without a prompt it is the prompt.

Exit codes, the first that applies:
  130  canceled or interrupted
    2  usage error: nothing was run
    1  failed
    4  degraded: the answer was cut, or something on the way failed
    3  the turn ended well, but something was denied
    0  done";

/// The options of `agentls run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// The prompt; `-` reads it from stdin. Write @path to refer to a file.
    #[arg(short, long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Print every notification as a line of JSON, then {"result": …} or {"error": …}, each with the sessionId.
    #[arg(long)]
    pub json: bool,
    /// Print no progress on stderr, only errors.
    #[arg(short, long)]
    pub quiet: bool,
    /// Use this configured agent.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["session", "continue"])]
    pub agent: Option<String>,
    /// Resume this session; a prefix of its id is enough.
    #[arg(long, value_name = "ID", conflicts_with = "continue")]
    pub session: Option<String>,
    /// Resume the session last used in this folder; start a new one if there is none.
    #[arg(short, long)]
    pub r#continue: bool,
    /// Allow everything that needs approval. Without it, anything that needs approval is denied.
    #[arg(short, long)]
    pub yes: bool,
    /// How many model calls the prompt may cause; an agent with its own `max_steps` keeps that. Default: 200.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_steps: Option<u32>,
    /// What applies to the turn.
    #[command(flatten)]
    pub turn: TurnArgs,
    /// The folder to work in; the current one when absent.
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// The prompt. With -p: the folder to work in.
    #[arg(value_name = "PROMPT")]
    pub words: Vec<String>,
}

/// What an editor can start in a terminal, with the same command as the server.
#[derive(Debug, Subcommand)]
pub enum AcpCommand {
    /// The same as `agentls login`.
    #[command(hide = true)]
    Login(LoginArguments),
}

/// The options of `agentls login`.
#[derive(Debug, Args)]
pub struct LoginArguments {
    /// The provider, such as `anthropic`; chosen from a list when absent.
    pub provider: Option<String>,
    /// Read the key from standard input: `agentls login groq --with-key - < key.txt`. A pipe does the same.
    #[arg(long, value_name = "-", value_parser = ["-"], requires = "provider")]
    pub with_key: Option<String>,
    /// Store the key without trying it.
    #[arg(long)]
    pub no_check: bool,
    /// List the providers that have a key, and where it is from.
    #[arg(long, conflicts_with_all = ["provider", "no_check"])]
    pub list: bool,
    /// With --list, print JSON: [{provider, from, unusedLogin}].
    #[arg(long, requires = "list")]
    pub json: bool,
}

/// The options of `agentls logout`.
#[derive(Debug, Args)]
pub struct LogoutArguments {
    /// The provider; the only login when absent.
    pub provider: Option<String>,
    /// Remove the keys of all logins.
    #[arg(long, conflicts_with = "provider")]
    pub all: bool,
}

/// The format of an exported session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportAs {
    /// A document for people.
    Markdown,
    /// Structured data for programs.
    Json,
}

/// The actions on the sandbox.
#[derive(Debug, Subcommand)]
pub enum SandboxCommand {
    /// Try what a sandboxed command must not be able to do. Exit code: 1 when something was possible.
    Test {
        /// Print JSON: {method, level, failures, checks: [{name, expected, verdict: held|notPromised|notTried|broken}]}.
        #[arg(long)]
        json: bool,
    },
    /// Run a command in the sandbox, with the current folder as the workspace. Exit code: that of the command.
    Run {
        /// Let it write nothing but its temporary folder.
        #[arg(long)]
        read_only: bool,
        /// Let it use the whole network, whatever the settings say.
        #[arg(long)]
        network: bool,
        /// The command and its arguments.
        #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
}

/// The actions on MCP servers.
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// List the servers of the configuration and of the current folder. It starts none.
    List {
        /// Print JSON: {servers: [{name, target, from, state}], problems}.
        #[arg(long)]
        json: bool,
    },
    /// Show the settings of a server. The values of variables and headers stay hidden.
    Get {
        /// The server.
        name: String,
        /// Print JSON, with the same names as without.
        #[arg(long)]
        json: bool,
    },
    /// Add a server to your configuration file: a program after `--`, or an address.
    #[command(after_help = MCP_ADD_HELP)]
    Add(McpAddArguments),
    /// Remove a server and its login from your configuration file.
    Remove {
        /// The server.
        name: String,
    },
    /// Start a server as a session does, and show what it offers. Exit code: 1 when it does not start.
    Test {
        /// The server.
        name: String,
    },
    /// Log in to a server over HTTP: prints the address to open, and waits up to ten minutes. Exit code: 1 when it fails.
    Login {
        /// The server.
        name: String,
    },
    /// Remove the tokens of a login.
    Logout {
        /// The server.
        name: String,
    },
}

const MCP_ADD_HELP: &str = "\
Examples:
  agentls mcp add browser -- npx -y @playwright/mcp
  agentls mcp add tickets --url https://tickets.example.com/mcp --bearer-token-env TICKETS_TOKEN

In the values, ${NAME} stands for an environment variable, so that no secret is in the file: --env 'KEY=${MY_KEY}'";

/// The options of `agentls mcp add`.
#[derive(Debug, Args)]
pub struct McpAddArguments {
    /// The name: letters, digits, `-` and single `_`.
    pub name: String,
    /// The address of a server over HTTP.
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    pub url: Option<String>,
    /// A variable for the program; repeat it for more.
    #[arg(long, value_name = "NAME=VALUE", conflicts_with = "url")]
    pub env: Vec<String>,
    /// An HTTP header; repeat it for more.
    #[arg(long, value_name = "NAME: VALUE", conflicts_with = "command")]
    pub header: Vec<String>,
    /// The environment variable that contains a bearer token.
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub bearer_token_env: Option<String>,
    /// The program and its arguments, after `--`.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// The actions on sessions.
#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// List sessions, the last used first.
    List {
        /// How many sessions at most; 50 when absent.
        #[arg(short = 'n', long, value_name = "COUNT")]
        limit: Option<u32>,
    },
    /// Show the transcript of a session. A prefix of its id is enough.
    Show {
        /// The session.
        id: String,
    },
    /// Export a session as Markdown or JSON.
    Export {
        /// The session. A prefix of its id is enough.
        id: String,
        /// The output format.
        #[arg(short, long, value_enum, default_value_t = ExportAs::Markdown)]
        format: ExportAs,
        /// Write to this file; to stdout when absent.
        #[arg(short, long, value_name = "FILE")]
        output: Option<std::path::PathBuf>,
    },
    /// Find sessions by words in titles, prompts and answers.
    Search {
        /// The words to search for.
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Delete a session permanently.
    Delete {
        /// The session.
        id: String,
        /// Delete without asking.
        #[arg(short, long)]
        yes: bool,
    },
    /// Rename a session.
    Rename {
        /// The session.
        id: String,
        /// The new title.
        #[arg(required = true)]
        title: Vec<String>,
    },
}

/// The actions on the data about models.
#[derive(Debug, Subcommand)]
pub enum ModelsCommand {
    /// Fetch newer data about models (windows, prices, abilities), show what differs, and keep it. Nothing else ever
    /// fetches it. Exit code: 1 when nothing was changed because something is wrong.
    Update {
        /// An https:// address or a file: models.dev's api.json, or the models.json of another machine. Default:
        /// `https://models.dev/api.json`.
        #[arg(long, value_name = "SOURCE")]
        from: Option<String>,
    },
}

/// The actions on the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the JSON Schema of the configuration file.
    Schema,
    /// Print problems like a compiler does. Exit code: 1 when there are errors.
    Check {
        /// The folder whose own configuration is included; the current one when absent.
        dir: Option<PathBuf>,
        /// Print JSON: {ok, files, untrusted?, problems: [{severity, file, line, column, key, message, hint?}]}.
        #[arg(long)]
        json: bool,
    },
    /// Show what the rules decide about a call, without running it: allow, ask or deny, the deciding rule, and what
    /// "always" would remember. Exit code: 0 allowed, 1 asked, 2 usage error, 3 denied.
    Test {
        /// The command line. For other tools, the text their rules match: a path or a URL.
        subject: String,
        /// The tool to test.
        #[arg(long, value_name = "NAME", default_value = "bash")]
        tool: String,
        /// The workspace folder; the current one when absent.
        #[arg(long, value_name = "DIR")]
        cwd: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_definitions_pass_clap_checks() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn command_lines_parse_or_are_refused() {
        let parse = |line: &str| Arguments::try_parse_from(line.split(' '));
        assert!(parse("agentls").unwrap().command.is_none());
        assert!(parse("agentls --stdio").unwrap().command.is_none());
        assert!(parse("agentls --stdin").is_err());
        assert!(parse("agentls --stdio --clientProcessId=4711").is_ok());
        assert!(parse("agentls serve --clientProcessId 4711").is_ok());
        let Some(CliCommand::Chat { dir, r#continue, .. }) = parse("agentls chat -c src").unwrap().command
        else {
            panic!("no chat");
        };
        assert_eq!((dir, r#continue), (Some("src".into()), true));
        assert!(parse("agentls chat -c --session x").is_err());
        assert!(parse("agentls chat -c --agent x").is_err());
        assert!(parse("agentls run -p hi --agent x").is_ok());
        for line in [
            "agentls run -c hi",
            "agentls run --session ses_1 -",
            "agentls help run",
        ] {
            let parsed = parse(line);
            let helps = parsed.as_ref().is_err_and(|error| error.exit_code() == 0);
            assert!(helps || parsed.is_ok(), "{line}");
        }
        assert!(parse("agentls run -c --session x hi").is_err());
        assert!(parse("agentls -c").unwrap().r#continue);
        assert!(parse("agentls -c --stdio").is_err());
        assert!(parse("agentls resume ses_1").is_ok() && parse("agentls models --json").is_ok());
        assert!(
            parse("agentls run -p hi --mode fast").is_err(),
            "never a freer mode than was meant"
        );
        let run = parse("agentls run -p hi --model m --json").unwrap();
        assert_eq!(run.shared.model.as_deref(), Some("m"));
        assert!(parse("agentls chat --effort low --max-cost 0.5").is_ok());
        for wrong in [
            "--effort much",
            "--max-cost cheap",
            "--max-cost -1",
            "--max-cost nan",
        ] {
            assert!(parse(&format!("agentls run hi {wrong}")).is_err(), "{wrong}");
        }
        let sessions = parse("agentls sessions search a b --json").unwrap();
        assert!(matches!(
            sessions.command,
            Some(CliCommand::Sessions { command: Some(SessionsCommand::Search { words }), json: true }) if words.len() == 2
        ));
        assert!(parse("agentls completions bash").is_ok());
        assert!(parse("agentls config check").is_ok());
        assert!(parse("agentls config test ls --tool bash --mode plan --cwd . --json").is_ok());
        assert!(parse("agentls config test").is_err());
    }
}
