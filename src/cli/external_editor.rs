//! The input of a call in a person's own editor: out as JSON, back as JSON.
//!
//! Knows files and the editor; what is done with the changed input is for `turn`. The editor has the terminal
//! while it runs, so nobody may read or draw there meanwhile.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::process::{Child, Command};

use crate::base::random;
use crate::config::Env;

/// How long an editor may take to end when it is told to.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The editor a person has chosen.
#[derive(Clone, Debug)]
pub(super) struct ExternalEditor {
    command: Option<String>,
}

/// Why there is no changed input. What was written is kept where there was any.
#[derive(Debug, thiserror::Error)]
pub(super) enum EditError {
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
    /// `VISUAL`, else `EDITOR`.
    pub(super) fn from_env(env: &Env) -> Self {
        let chosen = env.non_empty("VISUAL").or_else(|| env.non_empty("EDITOR"));
        Self {
            command: chosen.map(str::to_owned),
        }
    }

    /// Opens `text` under a file name that begins with `name`.
    pub(super) fn open(&self, name: &str, text: &str) -> Result<OpenEdit, EditError> {
        let command = self.command.clone().ok_or(EditError::NotChosen)?;
        let sheet = EditSheet::new(name, text).map_err(EditError::File)?;
        let found = rustix::termios::tcgetattr(io::stdin()).ok();
        let child = start(&command, &sheet).map_err(|error| EditError::Start(command.clone(), error))?;
        Ok(OpenEdit {
            command,
            child,
            sheet,
            found,
        })
    }
}

/// An editor that is open.
#[derive(Debug)]
pub(super) struct OpenEdit {
    command: String,
    child: Child,
    sheet: EditSheet,
    /// How the terminal was set before.
    found: Option<rustix::termios::Termios>,
}

impl OpenEdit {
    /// How the person calls it.
    pub(super) fn command(&self) -> &str {
        &self.command
    }

    /// Waits until it is closed; what stands in the file then. Safe to drop and call again.
    pub(super) async fn wait_until_closed(&mut self) -> Result<String, EditError> {
        let status = self.child.wait().await.map_err(EditError::Read)?;
        if !status.success() {
            return Err(EditError::Failed(self.command.clone(), status.to_string()));
        }
        fs::read_to_string(&self.sheet.file).map_err(EditError::Read)
    }
}

impl OpenEdit {
    /// Ends the editor, and leaves the terminal as it was found.
    pub(super) async fn terminate_editor(mut self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        // One that stays is killed with this value.
        let _ = tokio::time::timeout(LAST_WORDS, self.child.wait()).await;
        if let Some(found) = &self.found {
            let now = rustix::termios::OptionalActions::Now;
            let _ = rustix::termios::tcsetattr(io::stdin(), now, found);
        }
    }
}

/// The changed text as a call's input.
pub(super) fn parse_input(text: &str) -> Result<Value, EditError> {
    if text.trim().is_empty() {
        return Err(EditError::Empty);
    }
    match serde_json::from_str(text) {
        Ok(input @ Value::Object(_)) => Ok(input),
        Ok(_) => Err(EditError::NoObject),
        Err(error) => Err(EditError::NoJson(error)),
    }
}

/// An input as it is edited.
pub(super) fn text(input: &Value) -> String {
    format!("{input:#}\n")
}

/// A file that only its owner can read, in a folder of its own; both go with this value.
#[derive(Debug)]
struct EditSheet {
    folder: PathBuf,
    file: PathBuf,
}

impl EditSheet {
    fn new(name: &str, text: &str) -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("agentls-edit-{}", random::random_token(10)));
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        // The name comes from the model.
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

impl Drop for EditSheet {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the person's own editor, at the person's own terminal"
)]
fn start(command: &str, sheet: &EditSheet) -> io::Result<Child> {
    // As others do it: the variable may hold arguments too. A plain command takes the shell's place, so that
    // it can be ended.
    let plain = !command.contains(|ch| "|&;<>()$`\\\"'*?[#~=%\n".contains(ch));
    let exec = if plain { "exec " } else { "" };
    Command::new("sh")
        .args(["-c", &format!("{exec}{command} \"$@\""), command])
        .arg(&sheet.file)
        .kill_on_drop(true)
        .spawn()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn takes_objects_only() {
        let call = json!({"command": "ls -l", "n": 1});
        assert_eq!(parse_input(&text(&call)).unwrap(), call);
        for (text, says) in [
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
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }

    #[tokio::test]
    async fn an_editor_gets_the_text_and_gives_it_back() {
        let editor = |command: &str| ExternalEditor::from_env(&Env::from_vars([("EDITOR", command)]));
        assert!(matches!(
            ExternalEditor::from_env(&Env::from_vars([("VISUAL", "")])).open("bash", "x"),
            Err(EditError::NotChosen)
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
    fn visual_comes_before_editor() {
        let env = Env::from_vars([("EDITOR", "ed"), ("VISUAL", "vi")]);
        assert_eq!(ExternalEditor::from_env(&env).command.as_deref(), Some("vi"));
    }
}
