//! Shared helpers of the file tools: effects, blocking work, errors for the model, numbered lines.
//!
//! Must not know a single tool. Turns the errors of `workspace` into texts that the model can act on.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use rustix::io::Errno;

use crate::base::nofollow::{self, FileKind, OpenFolder};
use crate::base::spawn::{self, TaskError};
use crate::base::{CancellationToken, text, uri};
use crate::domain::{Effect, EffectKind, FileLocation};
use crate::workspace::{LoadError, PathError, ResolvedPath, WriteError};

use super::{ToolContext, ToolError};

/// Longest line shown, in characters.
pub(super) const MAX_LINE: usize = 2_000;

impl From<PathError> for ToolError {
    fn from(error: PathError) -> Self {
        Self::WrongInput(error.to_string())
    }
}

impl From<LoadError> for ToolError {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Io { ref source, .. } => explain_io_error(error.to_string(), source),
            _ => Self::WrongInput(error.to_string()),
        }
    }
}

impl From<WriteError> for ToolError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Io { ref source, .. } => explain_io_error(error.to_string(), source),
            WriteError::Moved(_) => Self::Reported(error.to_string()),
            WriteError::ReadOnly(_) | WriteError::NotAFile(..) | WriteError::Path(_) => {
                Self::WrongInput(error.to_string())
            }
        }
    }
}

/// Returns the error of a call that the system failed, with this text for the model.
///
/// The input is wrong if the call's path is the reason, such as one that is too long or that the user may not read. A
/// full disk or one that fails is the reason for every path.
pub(super) fn explain_io_error(text: String, error: &io::Error) -> ToolError {
    let is_about_path = matches!(
        Errno::from_io_error(error),
        Some(
            Errno::ACCESS
                | Errno::PERM
                | Errno::NOENT
                | Errno::NOTDIR
                | Errno::ISDIR
                | Errno::LOOP
                | Errno::NAMETOOLONG
                | Errno::INVAL
                | Errno::NXIO
                | Errno::NODEV
                | Errno::ROFS
        )
    );
    if is_about_path || error.kind() == io::ErrorKind::InvalidInput {
        ToolError::WrongInput(text)
    } else {
        ToolError::Reported(text)
    }
}

/// Builds the effect of touching `targets`.
pub(super) fn build_effect(kind: EffectKind, targets: &[ResolvedPath]) -> Effect {
    Effect {
        kind,
        paths: targets.iter().map(|target| target.absolute.clone()).collect(),
        subject: targets
            .first()
            .map_or_else(String::new, |target| target.display.clone()),
        outside: targets.iter().any(|target| !target.inside),
        secret: targets.iter().any(|target| target.secret),
        ..Effect::none()
    }
}

/// Formats a line for people: a verb and what it acts on.
pub(super) fn format_title(verb: &str, object: &str) -> String {
    text::one_line(&format!("{verb} {}", text::reveal_hidden_characters(object)), 120)
}

/// Formats the resolved `path` for the model, on one line.
pub(super) fn display_path(cx: &ToolContext, path: &Path) -> String {
    text::name_in_list(&cx.workspace.format_for_model(&cx.cwd, path)).into_owned()
}

/// Resolves the path of a file that is to be written.
///
/// # Errors
/// As for every path, and if it ends as only the name of a folder does.
pub(super) fn resolve_written_file(cx: &ToolContext, given: &str) -> Result<ResolvedPath, ToolError> {
    if given.ends_with('/') {
        return Err(ToolError::WrongInput(format!(
            "`{given}` names a folder; name a file"
        )));
    }
    cx.resolve_path(given)
}

/// Builds a location in a resolved path.
pub(super) fn build_location(path: &Path, line: Option<usize>) -> FileLocation {
    FileLocation {
        uri: uri::uri_of(path),
        line: line.and_then(|line| u32::try_from(line).ok()),
    }
}

/// Runs `work` on a thread that may block. A panic is the failure of this call only (R-TOOL-5).
///
/// `work` receives a token that is canceled with the turn and when the caller is dropped. It must check the token
/// regularly.
pub(super) async fn run_blocking<T, F>(cx: &ToolContext, work: F) -> Result<T, ToolError>
where
    T: Send + 'static,
    F: FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
{
    // A blocking thread cannot be stopped from outside, so dropping the caller only cancels the token.
    let stop = cx.cancel.child_token();
    let _stops_when_dropped = stop.clone().drop_guard();
    match spawn::run_blocking(move || work(&stop)).await {
        Ok(result) => result,
        Err(TaskError::Panicked(message)) => Err(ToolError::Internal(message)),
        // The runtime shuts down.
        Err(TaskError::Aborted) => Err(ToolError::Cancelled),
    }
}

/// Numbered lines of a text: the number, a tab, the line.
#[derive(Debug, Default)]
pub(super) struct NumberedLines {
    /// Each line ends with a line feed.
    pub(super) text: String,
    /// The last line in `text`, from 1.
    pub(super) last: usize,
    /// Whether the next line did not fit.
    pub(super) full: bool,
}

impl NumberedLines {
    /// Adds line `number` unless the text would exceed `max` bytes; the first line always fits.
    ///
    /// `line` may be only the start of a line of `length` bytes.
    pub(super) fn push(&mut self, number: usize, line: &str, length: usize, max: usize) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let visible = line
            .char_indices()
            .nth(MAX_LINE)
            .map_or(line, |(at, _)| &line[..at]);
        if !self.text.is_empty() && self.text.len() + visible.len() + 10 > max {
            self.full = true;
            return;
        }
        let _ = write!(self.text, "{number}\t{visible}");
        // Two bytes more may be the `\r\n` that was stripped.
        if visible.len() < line.len() || line.len() + 2 < length {
            let _ = write!(
                self.text,
                " [… line cut, {length} bytes long; grep shows the text round a match …]"
            );
        }
        self.text.push('\n');
        self.last = number;
    }
}

/// Counts the lines of a text; a final line feed does not start another line.
pub(super) fn count_lines(text: &str) -> usize {
    let feeds = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    feeds + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Suggests what `path` may have meant, as a sentence to append; empty if nothing is similar. Blocks.
pub(super) fn suggest_similar_paths(cx: &ToolContext, path: &Path) -> String {
    const MAX_ENTRIES: usize = 5_000;
    // What exists is of the wrong kind, not misspelled.
    if nofollow::kind(path).is_some() {
        return String::new();
    }
    let Some((parent, wanted)) = path.parent().zip(path.file_name()) else {
        return String::new();
    };
    let is_folder = |path: &Path| nofollow::kind(path) == Some(FileKind::Folder);
    if !is_folder(parent) {
        let existing = parent.ancestors().find(|ancestor| is_folder(ancestor));
        return existing.map_or_else(String::new, |existing| {
            format!(
                "; nor does its folder. The nearest one that does is `{}`",
                display_path(cx, existing)
            )
        });
    }
    let wanted = wanted.to_string_lossy().to_lowercase();
    let entries = OpenFolder::open(parent).and_then(|folder| folder.read_entries());
    let mut candidates: Vec<(f64, String)> = entries
        .into_iter()
        .flatten()
        .take(MAX_ENTRIES)
        .filter_map(|entry| {
            let name = entry.ok()?.name.to_string_lossy().into_owned();
            let lower = name.to_lowercase();
            let like = match strsim::osa_distance(&lower, &wanted) {
                0 | 1 => 1.0,
                _ => strsim::jaro_winkler(&lower, &wanted),
            };
            (like > 0.8).then_some((like, name))
        })
        .collect();
    candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let names: Vec<String> = candidates
        .into_iter()
        .take(3)
        .map(|(_, name)| format!("`{}`", display_path(cx, &parent.join(name))))
        .collect();
    if names.is_empty() {
        String::new()
    } else {
        format!(". Did you mean {}?", names.join(" or "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_about_the_path_are_wrong_input() {
        for (error, want) in [
            (Errno::ACCESS, true),
            (Errno::NAMETOOLONG, true),
            (Errno::NOTDIR, true),
            (Errno::NOSPC, false),
            (Errno::IO, false),
            (Errno::MFILE, false),
        ] {
            let text = error.to_string();
            let error = explain_io_error(text.clone(), &error.into());
            assert_eq!(matches!(error, ToolError::WrongInput(_)), want, "{text}");
        }
        let nul = io::Error::from(io::ErrorKind::InvalidInput);
        assert!(matches!(
            explain_io_error(String::new(), &nul),
            ToolError::WrongInput(_)
        ));
    }
}
