//! Sets up logging (R-OBS): tracing goes to a rolling file that only its owner can read, with secrets removed.
//!
//! Never writes to stdout, which carries frames only (I11). A slow or full disk costs log lines, never a turn.
//! Counters are in `base`, so that every module can use them. `rolling` owns the file.

mod rolling;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Dispatch;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

use crate::config::{LogFormat, LoggingSettings, Redactor};

use rolling::RollingFile;

/// How many lines may wait for the disk. More are dropped, because a slow disk must not slow a turn.
const WAITING_LINES: usize = 8_192;

/// Why logging could not be set up or reconfigured.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter has invalid syntax.
    #[error("invalid log filter `{0}`; use levels per module such as `info,agentls::provider=debug`")]
    Filter(String),
    #[error("logging is already set up in this process")]
    AlreadySet,
}

/// Keeps the log open. Dropping it writes the lines that still wait.
pub struct LogGuard {
    filter: reload::Handle<EnvFilter, Registry>,
    file: Arc<Mutex<PathBuf>>,
    _worker: WorkerGuard,
}

impl LogGuard {
    /// Applies another level, filter or file. The format stays until the next start.
    ///
    /// # Errors
    ///
    /// Fails if the filter has invalid syntax; nothing changes then.
    pub fn reload_settings(&self, settings: &LoggingSettings) -> Result<(), LogError> {
        // Checked first, so that an invalid filter changes nothing.
        let filter = build_filter(settings)?;
        // Fails only if the subscriber is gone, and then nothing is logged anyway.
        _ = self.filter.reload(filter);
        if let Some(file) = &settings.file {
            self.file
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone_from(file);
        }
        Ok(())
    }
}

/// Sets up logging for the whole process. The first line creates the file. Returns `None` if no file is configured.
///
/// # Errors
///
/// Fails if the filter has invalid syntax, or logging is already set up in this process.
pub fn init_logging(settings: &LoggingSettings, redactor: &Redactor) -> Result<Option<LogGuard>, LogError> {
    let Some((dispatch, guard)) = build(settings, redactor)? else {
        return Ok(None);
    };
    dispatch.try_init().map_err(|_| LogError::AlreadySet)?;
    Ok(Some(guard))
}

fn build(settings: &LoggingSettings, redactor: &Redactor) -> Result<Option<(Dispatch, LogGuard)>, LogError> {
    let filter = build_filter(settings)?;
    let Some(file) = &settings.file else {
        return Ok(None);
    };
    let file = Arc::new(Mutex::new(file.clone()));
    let writer = RedactingLogWriter {
        // A clone shares its secrets, so keys learned after the start are removed too.
        redactor: redactor.clone(),
        inner: RollingFile::new(file.clone()),
    };
    let (writer, worker) = NonBlockingBuilder::default()
        // A full queue drops lines instead of blocking the caller.
        .lossy(true)
        .buffered_lines_limit(WAITING_LINES)
        .thread_name("agentls-log")
        .finish(writer);
    let (filter, handle) = reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(false);
    let lines = match settings.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let dispatch = Dispatch::new(Registry::default().with(filter).with(lines));
    Ok(Some((
        dispatch,
        LogGuard {
            filter: handle,
            file,
            _worker: worker,
        },
    )))
}

fn build_filter(settings: &LoggingSettings) -> Result<EnvFilter, LogError> {
    let directives = settings.to_filter_directives();
    let filter = EnvFilter::try_new(&directives).map_err(|_| LogError::Filter(directives.clone()))?;
    // The MCP client writes whole messages below `warn`: whoever wants them must name it.
    if filter.max_level_hint() > Some(LevelFilter::WARN) {
        return EnvFilter::try_new(format!("rmcp=warn,{directives}"))
            .map_err(|_| LogError::Filter(directives));
    }
    Ok(filter)
}

/// Removes secrets from each line. Only the log's own thread calls it, one whole line at a time, so no secret is
/// split over two writes.
struct RedactingLogWriter<W> {
    redactor: Redactor,
    inner: W,
}

impl<W: Write> Write for RedactingLogWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.inner.write_all(&self.redactor.redact_secrets(line))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LogLevel;

    fn settings(file: PathBuf, format: LogFormat) -> LoggingSettings {
        LoggingSettings {
            file: Some(file),
            format,
            ..LoggingSettings::default()
        }
    }

    #[test]
    fn json_log_is_private_and_contains_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("state/agentls/agentls.log");
        let redactor = Redactor::default();
        let (dispatch, guard) = build(&settings(file.clone(), LogFormat::Json), &redactor)
            .unwrap()
            .unwrap();
        assert!(!file.exists(), "made with the first line");
        redactor.learn_secret(&"sk-very-secret".into());
        tracing::dispatcher::with_default(&dispatch, || {
            tracing::info!(
                model = "m",
                input_tokens = 7,
                key = "sk-very-secret",
                "provider response"
            );
            tracing::debug!("not at this level");
            tracing::info!(target: "hyper", "not ours");
            tracing::warn!(target: "hyper", "not ours, but doubtful");
        });
        drop(guard);
        let text = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(
            (&lines[0]["model"], &lines[0]["input_tokens"], &lines[0]["key"]),
            (&"m".into(), &7.into(), &"***".into())
        );
        assert!(!text.contains("sk-very-secret"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        }
    }

    #[test]
    fn reload_changes_level_and_file() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (dir.path().join("a.log"), dir.path().join("b.log"));
        let (dispatch, guard) = build(&settings(first.clone(), LogFormat::Text), &Redactor::default())
            .unwrap()
            .unwrap();
        tracing::dispatcher::with_default(&dispatch, || {
            tracing::debug!("one");
            let louder = LoggingSettings {
                level: LogLevel::Debug,
                ..settings(second.clone(), LogFormat::Text)
            };
            guard.reload_settings(&louder).unwrap();
            tracing::debug!("two");
        });
        let bad = LoggingSettings {
            filter: Some("a=b=c".into()),
            ..LoggingSettings::default()
        };
        assert!(matches!(guard.reload_settings(&bad), Err(LogError::Filter(_))));
        drop(guard);
        assert!(!first.exists());
        assert!(std::fs::read_to_string(second).unwrap().contains("two"));
    }

    #[test]
    fn the_mcp_client_is_silent_below_warn_unless_it_is_named() {
        for (filter, expected) in [
            ("info", LevelFilter::WARN),
            ("trace", LevelFilter::WARN),
            ("info,rmcp=debug", LevelFilter::DEBUG),
            ("error", LevelFilter::ERROR),
        ] {
            let settings = LoggingSettings {
                filter: Some(filter.into()),
                ..LoggingSettings::default()
            };
            let layer = build_filter(&settings).unwrap();
            let seen = tracing::subscriber::with_default(Registry::default().with(layer), || {
                [
                    (
                        LevelFilter::DEBUG,
                        tracing::enabled!(target: "rmcp::service", tracing::Level::DEBUG),
                    ),
                    (
                        LevelFilter::INFO,
                        tracing::enabled!(target: "rmcp::service", tracing::Level::INFO),
                    ),
                    (
                        LevelFilter::WARN,
                        tracing::enabled!(target: "rmcp::service", tracing::Level::WARN),
                    ),
                    (
                        LevelFilter::ERROR,
                        tracing::enabled!(target: "rmcp::service", tracing::Level::ERROR),
                    ),
                ]
            });
            let lowest = seen.iter().find(|(_, enabled)| *enabled).map(|(level, _)| *level);
            assert_eq!(lowest, Some(expected), "{filter}");
        }
    }

    #[test]
    fn without_a_file_or_level_nothing_is_created() {
        assert!(
            build(&LoggingSettings::default(), &Redactor::default())
                .unwrap()
                .is_none()
        );
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.log");
        let off = LoggingSettings {
            level: LogLevel::Off,
            ..settings(file.clone(), LogFormat::Text)
        };
        let (dispatch, guard) = build(&off, &Redactor::default()).unwrap().unwrap();
        tracing::dispatcher::with_default(&dispatch, || tracing::error!("x"));
        drop(guard);
        assert!(!file.exists());
    }
}
