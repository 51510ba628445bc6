//! Edits a call's input in the user's own editor: JSON out, JSON back.
//!
//! Owns the temporary file and the editor process; `turn` decides what happens with the changed input. The editor has
//! the terminal while it runs, so callers must neither read nor draw until it closes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tokio::process::{Child, Command};

use crate::base::clock;
use crate::base::random;
use crate::config::Env;
use crate::workspace::process::look_up_outside;

/// The grace period for an editor after SIGTERM.
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(1);

/// The editor that the user chose by environment variable.
#[derive(Clone, Debug)]
pub(super) struct ExternalEditor {
    command: Option<String>,
    /// Its `PATH`, without the folder of the chat and the repositories around it.
    path: OsString,
    /// Further variables that lead into these folders, and are not passed on.
    code_variables: Vec<OsString>,
}

/// Why there is no changed input. After `NoJson` and `NoObject`, `turn` keeps the text for another try.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExternalEditError {
    #[error("no editor is set; set VISUAL or EDITOR, for example `EDITOR=nano agentls chat`")]
    NotChosen,
    #[error("cannot write the arguments to a file: {0}")]
    File(io::Error),
    #[error("cannot start the editor `{0}`: {1}")]
    Start(String, io::Error),
    #[error("the editor `{0}` failed ({1}); arguments unchanged")]
    Failed(String, String),
    #[error("cannot read the edited file: {0}; arguments unchanged")]
    Read(io::Error),
    #[error("the file is empty; arguments unchanged")]
    Empty,
    #[error("not valid JSON ({0}); arguments unchanged. Press e to edit again")]
    NoJson(serde_json::Error),
    #[error("not a JSON object {{…}}; arguments unchanged. Press e to edit again")]
    NoObject,
}

impl ExternalEditor {
    /// Reads `VISUAL`, or `EDITOR` if that is unset or empty. The files in `folder` do not decide which program it is.
    pub(super) fn from_env(env: &Env, folder: &Path) -> Self {
        let chosen = env.non_empty("VISUAL").or_else(|| env.non_empty("EDITOR"));
        let path = env.non_empty("PATH").map(OsStr::new);
        let variables = env
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (path, code_variables) = look_up_outside(folder, env.home_dir(), path, variables);
        Self {
            command: chosen.map(str::to_owned),
            path,
            code_variables,
        }
    }

    /// Opens `text` in a file whose name starts with `name`.
    pub(super) fn open(&self, name: &str, text: &str) -> Result<OpenEdit, ExternalEditError> {
        let command = self.command.clone().ok_or(ExternalEditError::NotChosen)?;
        let sheet = TempEditFile::new(name, text).map_err(ExternalEditError::File)?;
        let found = rustix::termios::tcgetattr(io::stdin()).ok();
        let child = self
            .start(&command, &sheet)
            .map_err(|error| ExternalEditError::Start(command.clone(), error))?;
        Ok(OpenEdit {
            command,
            child,
            sheet,
            saved_termios: found,
        })
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the user's own editor, at the user's own terminal"
    )]
    fn start(&self, command: &str, sheet: &TempEditFile) -> io::Result<Child> {
        // Through a shell, as git does: the variable may contain arguments. `exec` replaces the shell with a plain
        // command, so that a signal to our child reaches the editor itself.
        let plain = !command.contains(|ch| "|&;<>()$`\\\"'*?[#~=%\n".contains(ch));
        let exec = if plain { "exec " } else { "" };
        let mut editor = Command::new("/bin/sh");
        for name in &self.code_variables {
            editor.env_remove(name);
        }
        editor
            .args(["-c", &format!("{exec}{command} \"$@\""), command])
            .arg(&sheet.file)
            .env("PATH", &self.path)
            // Some editors run settings and plugins of the folder where they start.
            .current_dir(&sheet.folder)
            .kill_on_drop(true)
            .spawn()
    }
}

/// An open editor and the file that it edits.
#[derive(Debug)]
pub(super) struct OpenEdit {
    command: String,
    child: Child,
    sheet: TempEditFile,
    /// The terminal's settings before the editor started.
    saved_termios: Option<rustix::termios::Termios>,
}

impl OpenEdit {
    /// Returns the editor's command line, as the user set it.
    pub(super) fn command(&self) -> &str {
        &self.command
    }

    /// Waits until the editor closes, then returns the content of the file. Cancel-safe; may be called again.
    pub(super) async fn wait_until_closed(&mut self) -> Result<String, ExternalEditError> {
        let status = self.child.wait().await.map_err(ExternalEditError::Read)?;
        if !status.success() {
            return Err(ExternalEditError::Failed(
                self.command.clone(),
                status.to_string(),
            ));
        }
        fs::read_to_string(&self.sheet.file).map_err(ExternalEditError::Read)
    }
}

impl OpenEdit {
    /// Ends the editor and restores the terminal's settings.
    pub(super) async fn terminate_editor(mut self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        // An editor that ignores SIGTERM is killed when this value drops (`kill_on_drop`).
        let _ = clock::timeout(TERMINATE_TIMEOUT, self.child.wait()).await;
        // An editor that dies in raw mode cannot restore the terminal itself.
        if let Some(found) = &self.saved_termios {
            let now = rustix::termios::OptionalActions::Now;
            let _ = rustix::termios::tcsetattr(io::stdin(), now, found);
        }
    }
}

/// Parses the edited text as a call's input, which must be a JSON object.
pub(super) fn parse_input(text: &str) -> Result<Value, ExternalEditError> {
    if text.trim().is_empty() {
        return Err(ExternalEditError::Empty);
    }
    match serde_json::from_str(text) {
        Ok(input @ Value::Object(_)) => Ok(input),
        Ok(_) => Err(ExternalEditError::NoObject),
        Err(error) => Err(ExternalEditError::NoJson(error)),
    }
}

/// Formats an input for the editor.
pub(super) fn text(input: &Value) -> String {
    format!("{input:#}\n")
}

/// A file that only its owner can read, in a folder of its own. Dropping this value removes both.
#[derive(Debug)]
struct TempEditFile {
    folder: PathBuf,
    file: PathBuf,
}

impl TempEditFile {
    fn new(name: &str, text: &str) -> io::Result<Self> {
        // An unpredictable name, because other users can write to the temporary folder.
        let folder = std::env::temp_dir().join(format!("agentls-edit-{}", random::random_token(10)));
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        // The model chose the name: keep only characters that are safe in a file name.
        let plain = |ch: &char| ch.is_ascii_alphanumeric() || matches!(ch, '_' | '-');
        let name: String = name.chars().filter(plain).take(40).collect();
        let file = folder.join(format!("{name}-input.json").trim_start_matches('-'));
        let sheet = Self { folder, file };
        let mut options = fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&sheet.file)?;
        file.write_all(text.as_bytes())?;
        Ok(sheet)
    }
}

impl Drop for TempEditFile {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_json_objects_are_valid_input() {
        let call = json!({"command": "ls -l", "n": 1});
        assert_eq!(parse_input(&text(&call)).unwrap(), call);
        for (text, expected) in [
            ("", "the file is empty"),
            (" \n", "the file is empty"),
            ("[1]", "not a JSON object {…};"),
            (
                "{\"a\": 1,}",
                "not valid JSON (trailing comma at line 1 column 9)",
            ),
            ("{} {}", "not valid JSON"),
        ] {
            let error = parse_input(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    #[tokio::test]
    async fn editor_receives_the_text_and_returns_the_edited_file() {
        fn from(name: &str, command: &str) -> ExternalEditor {
            ExternalEditor::from_env(&Env::from_vars([(name, command)]), Path::new("/w"))
        }
        let editor = |command: &str| from("EDITOR", command);
        assert!(matches!(
            from("VISUAL", "").open("bash", "x"),
            Err(ExternalEditError::NotChosen)
        ));
        let mut open = editor("sed -i s/one/two/").open("../ba sh", "one\n").unwrap();
        assert!(open.sheet.file.ends_with("bash-input.json"));
        let folder = open.sheet.folder.clone();
        assert_eq!(open.wait_until_closed().await.unwrap(), "two\n");
        assert_eq!(open.wait_until_closed().await.unwrap(), "two\n", "again");
        drop(open);
        assert!(!folder.exists());
        let mut open = editor("exit 3;").open("", "one\n").unwrap();
        assert!(open.sheet.file.ends_with("input.json"));
        let failed = open.wait_until_closed().await.unwrap_err().to_string();
        assert!(failed.contains("exit status: 3"), "{failed}");
    }

    #[test]
    fn visual_takes_precedence_over_editor() {
        let env = Env::from_vars([("EDITOR", "ed"), ("VISUAL", "vi")]);
        let editor = ExternalEditor::from_env(&env, Path::new("/w"));
        assert_eq!(editor.command.as_deref(), Some("vi"));
    }

    #[tokio::test]
    async fn only_the_home_folder_of_the_chat_provides_the_editor() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        for name in [".git", "bin", "sub"] {
            fs::create_dir(folder.join(name)).unwrap();
        }
        let program = folder.join("bin/sed");
        fs::write(&program, "#!/bin/sh\necho clone > \"$3\"\n").unwrap();
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let path = format!("{}/bin:/usr/bin:/bin", folder.display());
        let own = folder.display().to_string();
        for (home, cwd, expected) in [
            ("/home/ann", "", "two\n"),
            ("/home/ann", "sub", "two\n"),
            (own.as_str(), "", "clone\n"),
        ] {
            let env = Env::from_vars([("EDITOR", "sed -i s/one/two/"), ("PATH", &path), ("HOME", home)]);
            let editor = ExternalEditor::from_env(&env, &folder.join(cwd));
            let mut open = editor.open("x", "one\n").unwrap();
            let text = open.wait_until_closed().await;
            assert_eq!(text.unwrap(), expected, "{home} {cwd}");
        }
    }
}
