//! The command line, as clap sees it.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};

/// An LLM coding agent behind any editor. Without a command it serves an editor over stdin and stdout.
#[derive(Debug, Parser)]
#[command(name = "agentls", version, about)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<CliCommand>,
    /// Accepted and ignored: many LSP clients add it to whatever they start.
    #[arg(long, hide = true)]
    pub stdio: bool,
    /// The same as `agentls chat --continue`.
    #[arg(short, long, conflicts_with = "stdio")]
    pub r#continue: bool,
    /// What holds for every command.
    #[command(flatten)]
    pub shared: GlobalArgs,
}

impl Arguments {
    /// The command; ends the program when `--continue` is given to another one.
    pub fn into_command(self) -> Option<CliCommand> {
        match self.command {
            None if self.r#continue => Some(CliCommand::Resume { id: None }),
            Some(_) if self.r#continue => {
                let what = "--continue must follow the command: `agentls chat --continue`";
                Self::command().error(ErrorKind::ArgumentConflict, what).exit()
            }
            command => command,
        }
    }
}

/// What holds for every command.
#[derive(Clone, Debug, Default, Args)]
pub struct GlobalArgs {
    /// Read this configuration file instead of the usual one.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Ask this provider.
    #[arg(long, global = true, value_name = "NAME")]
    pub provider: Option<String>,
    /// Ask this model.
    #[arg(long, global = true, value_name = "NAME")]
    pub model: Option<String>,
    /// How freely the agent may act.
    #[arg(long, global = true, value_name = "MODE", value_parser = ["plan", "ask", "autoEdit", "full"])]
    pub mode: Option<String>,
    /// What to log: off, error, warn, info, debug, trace, or a filter.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log: Option<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Serve an editor over stdin and stdout (the default).
    Serve {
        /// Accepted and ignored: editors pass it by custom.
        #[arg(long, hide = true)]
        stdio: bool,
    },
    /// See the whole job without a key and without a network: a scratch workspace, a scripted model.
    Demo {
        /// Answer questions with yes instead of asking.
        #[arg(short, long)]
        yes: bool,
    },
    /// Talk to the agent here in the terminal.
    Chat {
        /// Begin with this agent of the configuration.
        #[arg(long, value_name = "NAME", conflicts_with_all = ["session", "continue"])]
        agent: Option<String>,
        /// Resume this session; the beginning of its id is enough.
        #[arg(long, value_name = "ID", conflicts_with = "continue")]
        session: Option<String>,
        /// Resume the session used last in this folder.
        #[arg(short, long)]
        r#continue: bool,
        /// The folder to work in; the current one when absent.
        dir: Option<PathBuf>,
    },
    /// Resume a session in the terminal: the same as `chat --session ID`, or `chat --continue` without an id.
    Resume {
        /// The session; the beginning of its id is enough.
        id: Option<String>,
    },
    /// Run one prompt, for scripts: the answer on stdout, progress on stderr.
    #[command(after_help = RUN_HELP)]
    Run(RunArguments),
    /// The sessions that are stored.
    Sessions {
        /// What to do with them; `list` when absent.
        #[command(subcommand)]
        command: Option<SessionsCommand>,
        /// As JSON.
        #[arg(long, global = true)]
        json: bool,
    },
    /// The configuration: its schema, and what is wrong in yours.
    Config {
        /// What to tell; `check` when absent.
        #[command(subcommand)]
        command: Option<ConfigCommand>,
    },
    /// The models that can be chosen. Exit code: 1 when there is none.
    Models {
        /// Ask no provider for its own list.
        #[arg(long)]
        offline: bool,
        /// As JSON: the result of `agent/listModels`.
        #[arg(long)]
        json: bool,
    },
    /// What is configured, whether it works, and what to do where it does not. Exit code: 1 when something fails.
    Doctor {
        /// Ask no provider.
        #[arg(long)]
        offline: bool,
        /// As JSON: {version, ok, problems, warnings, checks: [{name, state: ok|info|warn|fail, message, hint?}]}.
        #[arg(long)]
        json: bool,
    },
    /// Show the documentation, which needs no network. Without a topic, list the topics.
    Docs {
        /// The topic, such as `hooks` or `editors/neovim`.
        topic: Option<String>,
    },
    /// The completions of a shell, to be put where it looks for them.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
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

/// What to run, and how.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// The prompt; `-` reads it from stdin. @path points at a file.
    #[arg(short, long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Every notification as a line of JSON, then {"result": …} or {"error": …}, each with the sessionId.
    #[arg(long)]
    pub json: bool,
    /// Use this agent of the configuration.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["session", "continue"])]
    pub agent: Option<String>,
    /// Resume this session; the beginning of its id is enough.
    #[arg(long, value_name = "ID", conflicts_with = "continue")]
    pub session: Option<String>,
    /// Resume the session used last in this folder; a new one when there is none.
    #[arg(short, long)]
    pub r#continue: bool,
    /// Allow whatever needs approval. Without it, anything that needs approval is denied.
    #[arg(short, long)]
    pub yes: bool,
    /// The folder to work in; the current one when absent.
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// The prompt; with -p: the folder to work in.
    #[arg(value_name = "PROMPT")]
    pub words: Vec<String>,
}

/// What a session is exported as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ExportAs {
    /// For people.
    Markdown,
    /// For programs.
    Json,
}

/// What to do with sessions.
#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// Lists them, those used last first.
    List {
        /// How many at most; 50 when absent.
        #[arg(short = 'n', long, value_name = "COUNT")]
        limit: Option<u32>,
    },
    /// Shows what was said and done. The beginning of an id is enough.
    Show {
        /// The session.
        id: String,
    },
    /// Export a session as Markdown or JSON.
    Export {
        /// The session. The beginning of an id is enough.
        id: String,
        /// As what.
        #[arg(short, long, value_enum, default_value_t = ExportAs::Markdown)]
        format: ExportAs,
        /// To this file; to the standard output when absent.
        #[arg(short, long, value_name = "FILE")]
        output: Option<std::path::PathBuf>,
    },
    /// Finds sessions by words in titles, prompts and answers.
    Search {
        /// The words.
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Delete a session permanently.
    Delete {
        /// The session.
        id: String,
        /// Without asking.
        #[arg(short, long)]
        yes: bool,
    },
    /// Gives one another title.
    Rename {
        /// The session.
        id: String,
        /// The title.
        #[arg(required = true)]
        title: Vec<String>,
    },
}

/// What to tell of the configuration.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Prints the JSON Schema of the configuration file.
    Schema,
    /// Prints what is wrong, like a compiler; exit code 1 when there are errors.
    Check {
        /// The folder whose own configuration counts too; the current one when absent.
        dir: Option<PathBuf>,
    },
    /// Tells what the rules say about a call, without running it: allowed, asked or denied, by which rule, and what
    /// "always" would remember. Exit code: 0 allowed, 1 asked, 2 usage error, 3 denied.
    Test {
        /// The command line; for another tool what its rules are matched against: a path, an address.
        subject: String,
        /// The tool that is called.
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
    fn the_arguments_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn lines_are_read() {
        let parse = |line: &str| Arguments::try_parse_from(line.split(' '));
        assert!(parse("agentls").unwrap().command.is_none());
        assert!(parse("agentls --stdio").unwrap().command.is_none());
        assert!(parse("agentls --stdin").is_err());
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
