//! A log file that starts over every day (UTC). The old file gets its date as a suffix and is kept for a week.
//!
//! Several processes may write to one file: each notices the new day by itself, and only one of them moves the file.
//! tracing-appender's rolling file is not used: it adds a date to the name that the user chose, everyone can read its
//! files, it follows links, and its path cannot change at run time. Knows no log levels or formats: it writes whole
//! lines.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use crate::base::clock;
use crate::base::date::format_date;
#[cfg(unix)]
use crate::base::private;

/// How many days old files are kept.
const KEEP_DAYS: i64 = 7;
/// After a failure to open, lines are dropped for this long.
const RETRY_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;

/// The log file. The first line opens it. A failure is reported on stderr and costs only log lines.
pub(super) struct RollingFile {
    path: Arc<Mutex<PathBuf>>,
    now_ms: fn() -> i64,
    open: Option<OpenFile>,
    /// The path that could not be opened, and when to try again, in ms since the epoch.
    failed: Option<(PathBuf, i64)>,
}

struct OpenFile {
    file: File,
    path: PathBuf,
    day: i64,
}

impl RollingFile {
    /// Creates the log at `path`, which a reload may change at any time.
    pub(super) fn new(path: Arc<Mutex<PathBuf>>) -> Self {
        Self {
            path,
            now_ms: clock::wall_ms,
            open: None,
            failed: None,
        }
    }

    /// Returns today's file; opens it if the day or the path has changed. `None` if that failed.
    fn open_current_file(&mut self) -> Option<&mut File> {
        let now = (self.now_ms)();
        let day = now.div_euclid(DAY_MS);
        let path = self.path.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if self
            .open
            .as_ref()
            .is_none_or(|open| open.day != day || open.path != path)
        {
            self.open = None;
            if self
                .failed
                .as_ref()
                .is_some_and(|(failed, until)| *failed == path && now < *until)
            {
                return None;
            }
            match open(&path, day) {
                Ok(file) => self.open = Some(OpenFile { file, path, day }),
                Err(error) => {
                    // At most one message for each RETRY_MS, not one for each line.
                    _ = writeln!(
                        io::stderr(),
                        "agentls: cannot write the log {}: {error}",
                        path.display()
                    );
                    self.failed = Some((path, now + RETRY_MS));
                }
            }
        }
        self.open.as_mut().map(|open| &mut open.file)
    }
}

impl Write for RollingFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(file) = self.open_current_file() {
            // One call writes the whole line, so that lines of several processes do not mix. A full disk costs lines.
            _ = file.write_all(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.open.as_mut().map_or(Ok(()), |open| open.file.flush())
    }
}

fn open(path: &Path, today: i64) -> io::Result<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        match folder.exists() {
            false => make_private(folder)?,
            // Only our own folder is ours to change; the user may have chosen a shared one.
            #[cfg(unix)]
            true if folder.ends_with(env!("CARGO_PKG_NAME")) => private::restrict_to_owner(folder)?,
            true => {}
        }
    }
    rotate_file(path, today);
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
        // `/dev/stderr` is a link by design; any other link could redirect the log.
        if !path.starts_with("/dev") {
            options.custom_flags(private::NO_FOLLOW);
        }
    }
    let file = options.open(path).map_err(|error| {
        if path.is_symlink() {
            io::Error::other("it is a symbolic link; set [logging] file to its target")
        } else {
            error
        }
    })?;
    #[cfg(unix)]
    if file.metadata()?.is_file() {
        // An existing file may be readable by others. If its mode cannot be changed, it stays as it is.
        _ = file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600));
    }
    Ok(file)
}

fn make_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Moves a file from an earlier day to its dated name, and removes files that are too old. Ignores failures, because
/// the log must continue.
fn rotate_file(path: &Path, today: i64) {
    let Some(day) = written_on(path).filter(|day| *day < today) else {
        return;
    };
    // A hard link fails if the name exists, so only one of several processes moves the file.
    if fs::hard_link(path, append_date(path, day)).is_ok() {
        _ = fs::remove_file(path);
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return;
    };
    let oldest = format_date(today - KEEP_DAYS);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let other = entry.file_name();
        let stamp = other
            .to_str()
            .and_then(|other| other.strip_prefix(name)?.strip_prefix('.'));
        if stamp.is_some_and(|stamp| is_date(stamp) && stamp < oldest.as_str()) {
            _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns the day of the last write to a regular file, in days since the epoch.
fn written_on(path: &Path) -> Option<i64> {
    let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let since = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(i64::try_from(since.as_millis()).ok()?.div_euclid(DAY_MS))
}

fn append_date(path: &Path, day: i64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(format_date(day));
    name.into()
}

fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;

    #[test]
    fn dates_are_recognized() {
        assert!(is_date("2026-01-01") && !is_date("2026-01-1x") && !is_date("20260101"));
    }

    #[test]
    fn a_new_day_starts_a_new_file_and_removes_old_ones() {
        static NOW: AtomicI64 = AtomicI64::new(0);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let day = 20_454;
        NOW.store(day * DAY_MS + 5, Ordering::Relaxed);
        let new = || RollingFile {
            now_ms: || NOW.load(Ordering::Relaxed),
            ..RollingFile::new(Arc::new(Mutex::new(path.clone())))
        };
        let (mut one, mut two) = (new(), new());
        for old in [
            "a.log.2025-12-24",
            "a.log.2025-12-26",
            "a.log.txt",
            "b.log.2020-01-01",
        ] {
            fs::write(dir.path().join(old), "old").unwrap();
        }
        one.write_all(b"first\n").unwrap();
        two.write_all(b"second\n").unwrap();
        let written = UNIX_EPOCH + Duration::from_millis((day * DAY_MS) as u64 + 9);
        File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .set_modified(written)
            .unwrap();

        NOW.store((day + 1) * DAY_MS, Ordering::Relaxed);
        one.write_all(b"third\n").unwrap();
        two.write_all(b"fourth\n").unwrap();
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(read("a.log.2026-01-01"), "first\nsecond\n");
        assert_eq!(read("a.log"), "third\nfourth\n");
        let mut names: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(
            names,
            [
                "a.log",
                "a.log.2025-12-26",
                "a.log.2026-01-01",
                "a.log.txt",
                "b.log.2020-01-01"
            ]
        );
    }

    #[test]
    fn an_unwritable_file_costs_only_log_lines() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = RollingFile::new(Arc::new(Mutex::new(dir.path().to_path_buf())));
        log.write_all(b"lost\n").unwrap();
        assert!(log.open.is_none() && log.failed.is_some());
        log.flush().unwrap();
        *log.path.lock().unwrap() = dir.path().join("good.log");
        log.write_all(b"kept\n").unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("good.log")).unwrap(), "kept\n");
    }
}
