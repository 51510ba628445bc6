//! The command line, as clap sees it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// An LLM coding agent behind any editor. Without a command it serves an editor over stdin and stdout.
#[derive(Debug, Parser)]
#[command(name = "agentls", version, about, disable_help_subcommand = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// What holds for every command.
    #[command(flatten)]
    pub shared: Shared,
}

/// What holds for every command.
#[derive(Clone, Debug, Default, Args)]
pub struct Shared {
    /// Read this configuration file instead of the usual one.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Ask this provider.
    #[arg(long, global = true, value_name = "NAME")]
    pub provider: Option<String>,
    /// Ask this model.
    #[arg(long, global = true, value_name = "NAME")]
    pub model: Option<String>,
    /// How freely the agent may act: plan, ask, autoEdit or full.
    #[arg(long, global = true, value_name = "MODE")]
    pub mode: Option<String>,
    /// What to log: off, error, warn, info, debug, trace, or a filter.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log: Option<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
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
}
