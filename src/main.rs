//! The binary: arguments, logging, runtime, exit code.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::exit;

use agentls::cli::{self, Arguments, CliCommand, GlobalArgs};
use agentls::config::{ConfigPaths, ConfigSource, Env, Flags, Redactor, Trust};
use agentls::observe;
use agentls::server::{self, ServeOptions};
use agentls::transport;
use agentls::workspace::process::{EXEC_COMMAND, adopt_orphans, deny_inspection, exec_main, sweep_orphans};
use clap::Parser;

fn main() {
    // Before anything else: our environment holds keys, and our memory will.
    deny_inspection();
    let mut args = std::env::args_os().skip(1);
    // Before anything is set up: the helper must start within a millisecond.
    if args.next().as_deref() == Some(OsStr::new(EXEC_COMMAND)) {
        exit(exec_main(args));
    }
    let arguments = Arguments::parse();
    let shared = arguments.shared.clone();
    let code = match arguments.into_command() {
        None | Some(CliCommand::Serve { .. }) => serve_editor(&shared),
        Some(command) => run_client(command, &shared),
    };
    exit(code.unwrap_or_else(|error| {
        // Stdout may be the client's: what went wrong before serving is told on stderr.
        let error = agentls::base::text::strip_control_characters(&error.to_string()).into_owned();
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("agentls: {error}\n"));
        1
    }));
}

/// A client at a terminal, of a server that it starts.
fn run_client(command: CliCommand, shared: &GlobalArgs) -> std::io::Result<i32> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let source = ConfigSource {
        // So that the configuration is judged as the server judges it.
        tools: server::tool_names(),
        ..build_config_source(shared)
    };
    let trust = match (&command, &source.places) {
        // A store that cannot be read trusts nothing.
        (CliCommand::Config { .. } | CliCommand::Doctor { .. }, Some(places)) => {
            let stored = runtime.block_on(server::stored_trust(places.data_dir.clone()));
            let (folders, redirects) = stored.unwrap_or_default();
            Trust { folders, redirects }
        }
        _ => Trust::default(),
    };
    let code = runtime.block_on(cli::run_command(command, shared, &source, &trust, current_dir()?));
    // A line that is being read is not waited for.
    runtime.shutdown_background();
    Ok(code)
}

const BY_HAND: &str = "agentls: waiting for an editor on stdin (Ctrl-C ends this; try `agentls chat`)\n";

/// Serves an editor. Stdout is moved aside before anything could print to it.
fn serve_editor(shared: &GlobalArgs) -> std::io::Result<i32> {
    let by_hand = std::io::stdin().is_terminal();
    let stdio = transport::claim_stdio().map_err(std::io::Error::other)?;
    transport::raise_open_files();
    adopt_orphans();
    let source = build_config_source(shared);
    let Some(places) = source.places.clone() else {
        return Err(std::io::Error::other(
            "no home folder: set HOME, or XDG_DATA_HOME and XDG_CONFIG_HOME",
        ));
    };
    let redactor = Redactor::default();
    let settings = source.load_settings(None, &Default::default()).settings;
    redactor.learn_all(&settings);
    // Without a log the server serves all the same.
    let logging = observe::init_logging(&settings.logging, &redactor);
    if let Err(error) = &logging {
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("agentls: {error}\n"));
    }
    if by_hand {
        // Without a word it would look as if it hung.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), BY_HAND.as_bytes());
    }
    let options = ServeOptions {
        home: source.env.home_dir().map(ToOwned::to_owned),
        source,
        redactor,
        data: places.data_dir,
        cwd: current_dir()?,
        stdio,
        on_settings: Box::new(move |settings| {
            if let Ok(Some(log)) = &logging
                && let Err(error) = log.reload_settings(&settings.logging)
            {
                tracing::warn!(%error, "the log settings were not applied");
            }
        }),
        delta_frame: settings.server.delta_frame,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(server::run_server(options));
    runtime.shutdown_background();
    sweep_orphans();
    code
}

#[expect(
    clippy::disallowed_methods,
    reason = "main reads it once; everyone else is told"
)]
fn current_dir() -> std::io::Result<PathBuf> {
    std::env::current_dir()
}

fn build_config_source(shared: &GlobalArgs) -> ConfigSource {
    let env = Env::from_process();
    ConfigSource {
        places: ConfigPaths::from_env(&env, shared.config.as_deref()),
        flags: Flags {
            provider: shared.provider.clone(),
            model: shared.model.clone(),
            mode: shared.mode.clone(),
            log: shared.log.clone(),
        },
        env,
        ..ConfigSource::default()
    }
}
