//! The prompt: a line editor with history, and completion of commands and files.
//!
//! rustyline reads the terminal on a thread of its own while the rest of the client continues. Knows no server.

use std::borrow::Cow;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};

use crate::cli::mentions::complete_mention;
use crate::cli::slash::{MODES, list_command_names};
use crate::cli::style::{Color, Styler};

/// How many lines the history keeps.
const HISTORY: usize = 1_000;
/// How long after Esc another key still belongs to it, in ms: long enough for an arrow key over a slow connection.
const LONE_ESC_MS: u16 = 500;

/// The result of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PromptLine {
    Words(String),
    /// Ctrl-C on an empty line.
    Interrupted,
    /// Ctrl-C on typed text, which is the newest line of the history now.
    Cleared,
    /// Ctrl-D, or the terminal is gone.
    End,
}

/// The line editor with its history file.
pub(super) struct ChatInput {
    editor: Editor<InputHelper, FileHistory>,
    history: Option<PathBuf>,
}

impl ChatInput {
    /// Opens the editor with the history in `state_dir`. Without that folder it keeps no history on disk.
    pub(super) fn open(
        styler: Styler,
        folder: &Path,
        state_dir: Option<&Path>,
    ) -> Result<Self, ReadlineError> {
        let config = Config::builder()
            .max_history_size(HISTORY)?
            .history_ignore_dups(true)?
            // As in shells: a leading space keeps a line out of the history.
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .bracketed_paste(true)
            // A lone Esc does nothing; without a limit it would take the next key, however late, for Alt with that key.
            .keyseq_timeout(Some(LONE_ESC_MS))
            .build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(InputHelper {
            styler,
            folder: folder.to_path_buf(),
            own: Vec::new(),
            line: TypedLine::default(),
        }));
        // Prompts are private: only the owner may read the folder and the file.
        let history = state_dir.and_then(|dir| {
            let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
            created.ok().map(|()| dir.join("chat_history"))
        });
        if let Some(history) = &history {
            // The file does not exist before the first chat.
            let _ = editor.load_history(history);
        }
        Ok(Self { editor, history })
    }

    /// Sets the commands to complete in addition to the built-in ones.
    pub(super) fn complete_too(&mut self, commands: impl Iterator<Item = String>) {
        if let Some(help) = self.editor.helper_mut() {
            help.own = commands.collect();
        }
    }

    /// Returns the line that is being typed while another thread reads.
    pub(super) fn typed_line(&self) -> TypedLine {
        self.editor
            .helper()
            .map(|help| help.line.clone())
            .unwrap_or_default()
    }

    /// Reads a line, starting with `draft`. Blocks.
    pub(super) fn read(&mut self, draft: &str) -> PromptLine {
        let read = match draft {
            "" => self.editor.readline("› "),
            draft => self.editor.readline_with_initial("› ", (draft, "")),
        };
        match read {
            Ok(line) => {
                let line = line.replace("\\\n", "\n");
                self.save_history_line(&line);
                PromptLine::Words(line)
            }
            Err(ReadlineError::Interrupted) => {
                let cleared = self.editor.helper().map(|help| help.line.take());
                let cleared = cleared.filter(|line| !line.trim().is_empty());
                match cleared {
                    Some(line) => {
                        self.save_history_line(&line);
                        PromptLine::Cleared
                    }
                    None => PromptLine::Interrupted,
                }
            }
            Err(_) => PromptLine::End,
        }
    }

    /// Adds a line to the history, without sending it.
    pub(super) fn save_history_line(&mut self, line: &str) {
        if line.trim().is_empty() || !self.editor.add_history_entry(line).unwrap_or(false) {
            return;
        }
        if let Some(history) = &self.history {
            // Append, because another chat may have written in the meantime. A failed write must not end the chat.
            let _ = self.editor.append_history(history);
        }
    }
}

/// What is typed now, for others than the thread that reads it too.
#[derive(Clone, Default)]
pub(super) struct TypedLine(Arc<Mutex<String>>);

impl TypedLine {
    pub(super) fn set(&self, line: &str) {
        line.clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn take(&self) -> String {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct InputHelper {
    styler: Styler,
    folder: PathBuf,
    /// The user's own commands, each with its `/`.
    own: Vec<String>,
    /// The editor does not return it after a Ctrl-C.
    line: TypedLine,
}

impl Helper for InputHelper {}

impl Hinter for InputHelper {
    type Hint = String;

    /// Offers nothing. The editor calls this with each change of the line.
    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        self.line.set(line);
        None
    }
}

impl Highlighter for InputHelper {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _default: bool) -> Cow<'b, str> {
        self.styler.paint_text(Color::BoldCyan, prompt).into()
    }
}

impl Validator for InputHelper {
    /// A backslash at the end continues the prompt on the next line.
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if context.input().ends_with('\\') {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

impl Completer for InputHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, found) = complete_line(&line[..pos], &self.folder, &self.own);
        let pairs = found.into_iter().map(|text| Pair {
            display: text.clone(),
            replacement: text,
        });
        Ok((start, pairs.collect()))
    }
}

/// Returns the completions of the end of `line`, and where they start.
fn complete_line(line: &str, folder: &Path, own: &[String]) -> (usize, Vec<String>) {
    if line.starts_with('/') && !line.contains(' ') {
        let known = list_command_names().map(str::to_owned).chain(own.iter().cloned());
        return (
            0,
            known
                .filter(|name| name.starts_with(line))
                .map(|name| format!("{name} "))
                .collect(),
        );
    }
    if let Some(typed) = line.strip_prefix("/mode ") {
        let modes = MODES.iter().map(|(_, name, _)| (*name).to_owned());
        return (6, modes.filter(|name| name.starts_with(typed)).collect());
    }
    complete_mention(line, folder).unwrap_or((line.len(), Vec::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_modes_and_files_are_completed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        for file in ["src/a.rs", "src/b.rs", "set.txt", ".hidden"] {
            fs::write(folder.path().join(file), "").unwrap();
        }
        let complete = |line: &str| complete_line(line, folder.path(), &["/mine".to_owned()]);
        assert_eq!(
            complete("/mod"),
            (0, vec!["/model ".to_owned(), "/mode ".to_owned()])
        );
        assert_eq!(complete("/mi"), (0, vec!["/mine ".to_owned()]));
        assert_eq!(complete("/mode au"), (6, vec!["autoEdit".to_owned()]));
        assert_eq!(
            complete("see @s"),
            (5, vec!["set.txt".to_owned(), "src/".to_owned()])
        );
        assert_eq!(complete("@src/a"), (1, vec!["src/a.rs".to_owned()]));
        assert_eq!(complete("word"), (4, Vec::new()));
    }
}
