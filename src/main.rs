//! The binary: parses arguments, sets up logging and the runtime, and exits with the code of the command.
//!
//! Reads the process environment and the working folder once, and passes both down as values. The order of the steps
//! in `main` and `serve_editor` matters for security and for I11. The server starts in [`agentls::server`], the
//! terminal clients in [`agentls::cli`].

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::exit;
use std::sync::Mutex;

use agentls::acp::{self, AcpOptions};
#[cfg(feature = "sim")]
use agentls::base::clock;
use agentls::base::memory;
use agentls::cli::{self, Arguments, CliCommand, GlobalArgs};
use agentls::config::{ConfigPaths, ConfigSource, Env, Flags, Redactor, Trust};
use agentls::observe;
use agentls::server::{self, ServeOptions};
use agentls::transport;
use agentls::workspace::process::{EXEC_COMMAND, adopt_orphans, deny_inspection, exec_main, sweep_orphans};

/// The threads that a terminal client needs at least, besides the first.
const CLIENT_THREADS: usize = 2;
/// The threads that the server needs at least, besides the workers of its runtime: for the input, the output, the store,
/// and blocking work.
const SERVER_THREADS: usize = 6;

fn main() {
    // First of all: the environment holds keys, and the memory soon will.
    deny_inspection();
    let mut args = std::env::args_os().skip(1);
    // Before any setup: the helper must start within a millisecond.
    if args.next().as_deref() == Some(OsStr::new(EXEC_COMMAND)) {
        exit(exec_main(args));
    }
    memory::release_large_blocks();
    let source = || build_config_source(&GlobalArgs::default());
    let answered = cli::answer_shell(source, current_dir().ok(), server::list_recent_sessions);
    if answered.unwrap_or_else(|error| error.exit()) {
        exit(0);
    }
    let arguments = Arguments::parse_or_exit();
    let shared = arguments.shared.clone();
    let code = match arguments.into_command() {
        None | Some(CliCommand::Serve { .. }) => serve_editor(&shared, EdgeProtocol::LanguageServer),
        Some(CliCommand::Acp { command: None }) => serve_editor(&shared, EdgeProtocol::AgentClient),
        Some(command) => run_client(command, &shared),
    };
    exit(code.unwrap_or_else(|error| {
        // Stdout may belong to the client, so errors before serving go to stderr.
        let error = agentls::base::text::strip_control_characters(&error.to_string()).into_owned();
        // When stderr fails as well, only the exit code is left to report the error.
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("agentls: {error}\n"));
        1
    }));
}

/// Runs a terminal client, which starts a server of its own.
fn run_client(command: CliCommand, shared: &GlobalArgs) -> std::io::Result<i32> {
    check_thread_limit(CLIENT_THREADS)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let source = ConfigSource {
        // The checks need the server's tool names to judge the configuration as the server does.
        tools: server::tool_names(),
        ..build_config_source(shared)
    };
    #[cfg(feature = "sim")]
    if let Some(socket) = source.env.get("AGENTLS_TEST_CLOCK_SOCKET") {
        serve_test_clock(socket)?;
    }
    use_downloaded_models(&source);
    let trust = match (&command, &source.places) {
        // Fail closed: if the store cannot be read, nothing is trusted.
        (CliCommand::Config { .. } | CliCommand::Doctor { .. } | CliCommand::Mcp { .. }, Some(places)) => {
            let stored = runtime.block_on(server::stored_trust(places.data_dir.clone()));
            let (folders, redirects) = stored.unwrap_or_default();
            Trust { folders, redirects }
        }
        _ => Trust::default(),
    };
    let code = runtime.block_on(cli::run_command(command, shared, &source, &trust, current_dir()?));
    // A blocking read of stdin cannot be canceled, so do not wait for it.
    runtime.shutdown_background();
    Ok(code)
}

/// Lets a test advance the time of a terminal client: each connection sends a line with milliseconds, and gets it back
/// when that time has passed.
#[cfg(feature = "sim")]
fn serve_test_clock(socket: &str) -> std::io::Result<()> {
    use std::io::{BufRead as _, Write as _};
    let listener = std::os::unix::net::UnixListener::bind(socket)?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut line = String::new();
            let _ = std::io::BufReader::new(&stream).read_line(&mut line);
            if let Ok(ms) = line.trim().parse() {
                clock::controlled::advance(std::time::Duration::from_millis(ms));
                let _ = (&stream).write_all(line.as_bytes());
            }
        }
    });
    Ok(())
}

const BY_HAND: &str = "agentls: waiting for an editor on stdin (Ctrl-C ends this; try `agentls chat`)\n";

/// The protocol that the editor speaks.
#[derive(Clone, Copy)]
enum EdgeProtocol {
    LanguageServer,
    AgentClient,
}

/// Serves an editor. Moves stdout aside before anything can print to it (I11).
fn serve_editor(shared: &GlobalArgs, protocol: EdgeProtocol) -> std::io::Result<i32> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    check_thread_limit(workers + SERVER_THREADS)?;
    // Before `claim_stdio`, which moves stdin aside.
    let by_hand = std::io::stdin().is_terminal();
    let stdio = transport::claim_stdio().map_err(std::io::Error::other)?;
    transport::raise_open_files();
    adopt_orphans();
    let source = build_config_source(shared);
    #[cfg(feature = "sim")]
    if source.env.get("AGENTLS_TEST_CLOCK") == Some("frozen") {
        clock::controlled::freeze(clock::now(), clock::wall_ms());
    }
    use_downloaded_models(&source);
    let Some(places) = source.places.clone() else {
        return Err(std::io::Error::other(
            "no home folder: set HOME, or XDG_DATA_HOME and XDG_CONFIG_HOME",
        ));
    };
    let redactor = Redactor::default();
    // Without a root: only `initialize` names one, but a log is needed before.
    let settings = source.load_settings(None, &Default::default()).settings;
    // Before logging starts, so that no log line can contain a key of the configuration.
    redactor.learn_all(&settings);
    // A missing log file must not keep the server from serving.
    let logging = observe::init_logging(&settings.logging, &redactor);
    if let Err(error) = &logging {
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("agentls: {error}\n"));
    }
    if by_hand {
        // At a terminal, a silent server looks as if it hangs.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), BY_HAND.as_bytes());
    }
    let on_settings: server::SettingsHook = Box::new(move |settings| {
        if let Ok(Some(log)) = &logging
            && let Err(error) = log.reload_settings(&settings.logging)
        {
            tracing::warn!(%error, "the log settings were not applied");
        }
    });
    let home = source.env.home_dir().map(ToOwned::to_owned);
    let (data, delta_frame) = (places.data_dir, settings.server.delta_frame_ms.0);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = match protocol {
        EdgeProtocol::LanguageServer => runtime.block_on(server::run_server(ServeOptions {
            source,
            redactor,
            data,
            cwd: current_dir()?,
            home,
            stdio,
            on_settings,
            delta_frame,
        })),
        EdgeProtocol::AgentClient => runtime.block_on(acp::run_acp(AcpOptions {
            source,
            redactor,
            data,
            home,
            stdio,
            on_settings,
            delta_frame,
        })),
    };
    runtime.shutdown_background();
    // After the runtime is gone: nothing can start another process, so this sweep is the last (I8).
    sweep_orphans();
    code
}

/// Checks that this many threads can run at once: without them, the runtime would panic or wait forever.
fn check_thread_limit(count: usize) -> std::io::Result<()> {
    let gate = Mutex::new(());
    std::thread::scope(|scope| {
        // None of them ends before the last one has started.
        let _closed = gate.lock();
        (0..count).try_for_each(|_| {
            let started = std::thread::Builder::new().spawn_scoped(scope, || drop(gate.lock()));
            started.map(drop).map_err(|error| {
                let reason = format!(
                    "the system starts no more threads ({error}); raise the limit on processes (`ulimit -u`, or the container's)"
                );
                std::io::Error::new(error.kind(), reason)
            })
        })
    })
}

#[expect(clippy::disallowed_methods, reason = "main reads it once and passes it on")]
fn current_dir() -> std::io::Result<PathBuf> {
    std::env::current_dir()
}

/// Lets lookups of models use what the user has downloaded.
fn use_downloaded_models(source: &ConfigSource) {
    if let Some(places) = &source.places {
        agentls::provider::models::set_download_file(places.models_file());
    }
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
