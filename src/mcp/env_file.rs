//! The file that `env_file` names: more environment variables for the program of a server.
//!
//! It is read at a start, never when the configuration is loaded. Nothing in it is substituted, because our own
//! environment holds keys. Errors name the file and the line, never the content.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use secrecy::SecretString;

use super::connection::McpError;
use crate::base::nofollow;
use crate::base::spawn::run_blocking;
use crate::base::text::reveal_hidden_characters;
use crate::workspace::resolve::{PathError, real_path};

/// The largest file that is read, in bytes.
const MAX_FILE: u64 = 64 * 1024;

/// The variables of a file.
pub(super) type Variables = BTreeMap<String, SecretString>;

/// Why a line cannot be used.
#[derive(Debug, PartialEq, Eq)]
struct LineError {
    /// From 1.
    line: usize,
    problem: &'static str,
}

/// Reads the variables of a file. With `within`, it must be in that folder, also after its links are resolved.
///
/// # Errors
/// The file does not exist, must not be used, or contains a malformed line.
pub(super) async fn read_env_file(path: &Path, within: Option<&Path>) -> Result<Variables, McpError> {
    let (owned, within) = (path.to_owned(), within.map(Path::to_owned));
    let read = run_blocking(move || read_variables(&owned, within)).await;
    let read = read.unwrap_or_else(|error| Err(error.to_string()));
    let shown = path.display().to_string();
    let shown = reveal_hidden_characters(&shown);
    read.map_err(|problem| McpError::Unusable(format!("the `env_file` {shown} {problem}")))
}

/// Reads the variables. The error completes "the `env_file` PATH …".
fn read_variables(path: &Path, within: Option<PathBuf>) -> Result<Variables, String> {
    let unresolved = |error: PathError| format!("cannot be read: {error}");
    let real = real_path(path).map_err(unresolved)?;
    if let Some(folder) = within {
        let folder = real_path(&folder).map_err(unresolved)?;
        if !real.starts_with(&folder) {
            return Err(format!(
                "is outside of the workspace folder; a server that a project's file names gets only files in {}",
                folder.display()
            ));
        }
    }
    // No link is followed from here on, so that this is the file that was just judged.
    let bytes = nofollow::read(&real, MAX_FILE).map_err(|error| format!("cannot be read: {error}"))?;
    parse_env_file(&bytes).map_err(|error| format!("cannot be used: line {} {}", error.line, error.problem))
}

fn parse_env_file(bytes: &[u8]) -> Result<Variables, LineError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut variables = Variables::new();
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let refuse = |problem| LineError {
            line: at + 1,
            problem,
        };
        let line = std::str::from_utf8(line).map_err(|_| refuse("is not UTF-8 text"))?;
        if let Some((name, value)) = parse_line(line).map_err(refuse)? {
            variables.insert(name.to_owned(), value.into());
        }
    }
    Ok(variables)
}

/// Returns the variable of a line; `None` if the line is blank or a comment.
fn parse_line(line: &str) -> Result<Option<(&str, String)>, &'static str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    if line.contains('\0') {
        return Err("contains a NUL character");
    }
    let (name, value) = line.split_once('=').ok_or("is not NAME=value")?;
    let name = match name.strip_prefix("export") {
        Some(exported) if exported.starts_with([' ', '\t']) => exported,
        _ => name,
    };
    let name = name.trim();
    let is_usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if name.is_empty() || !name.chars().all(is_usable) {
        return Err("has a name with other characters than letters, digits, `_`, `.`, and `-`");
    }
    parse_value(value.trim_start()).map(|value| Some((name, value)))
}

fn parse_value(text: &str) -> Result<String, &'static str> {
    const OPEN: &str = "has a quote without its end";
    let (value, rest) = if let Some(quoted) = text.strip_prefix('\'') {
        let (value, rest) = quoted.split_once('\'').ok_or(OPEN)?;
        (value.to_owned(), rest)
    } else if let Some(quoted) = text.strip_prefix('"') {
        parse_double_quoted(quoted).ok_or(OPEN)?
    } else {
        // A `#` within a word, as in an address, does not begin a comment.
        let end = text.match_indices('#').map(|(at, _)| at);
        let mut end = end.filter(|at| *at == 0 || text[..*at].ends_with([' ', '\t']));
        let value = &text[..end.next().unwrap_or(text.len())];
        return Ok(value.trim_end().to_owned());
    };
    let rest = rest.trim_start();
    if rest.is_empty() || rest.starts_with('#') {
        Ok(value)
    } else {
        Err("has text after a quoted value")
    }
}

/// Returns a value in double quotes, and the text after them; `None` if they do not end.
fn parse_double_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' => match chars.next()? {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                escaped @ ('"' | '\\' | '$') => value.push(escaped),
                other => value.extend(['\\', other]),
            },
            other => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, Mode, mkfifoat};
    use secrecy::ExposeSecret as _;

    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        let variables = parse_env_file(text.as_bytes()).unwrap();
        let exposed = variables.iter();
        exposed
            .map(|(name, value)| (name.clone(), value.expose_secret().to_owned()))
            .collect()
    }

    #[test]
    fn lines_are_read_without_substitution() {
        for (line, value) in [
            ("A=one", "one"),
            ("\u{feff}export A = one two \r", "one two"),
            ("A=", ""),
            ("A= # none", ""),
            ("A=http://h/#part # comment", "http://h/#part"),
            ("A='$HOME \\n \"x\"' # comment", "$HOME \\n \"x\""),
            (r#"A="${HOME} \"x\" \n\\ \q" "#, "${HOME} \"x\" \n\\ \\q"),
            ("A=${HOME}$(id)`id`", "${HOME}$(id)`id`"),
            ("# A=x\n\n  A=a=b", "a=b"),
            ("A=first\nA=last", "last"),
        ] {
            assert_eq!(read(line), [("A".to_owned(), value.to_owned())], "{line:?}");
        }
        assert_eq!(read("export=1")[0].0, "export");
        assert_eq!(read("\r\n# nothing\r\n"), []);
    }

    #[test]
    fn malformed_line_is_named_but_not_shown() {
        for (text, line) in [
            (b"A=1\nsecret-word".as_slice(), 2),
            (b"=secret-word", 1),
            (b"\n\nsecret word=1", 3),
            (b"A='secret-word", 1),
            (b"A=\"secret-word\\\"", 1),
            (b"A='secret'-word", 1),
            (b"A=secret\0word", 1),
            (b"A=1\nB=\xffsecret-word", 2),
        ] {
            let error = parse_env_file(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}");
            assert!(!error.problem.contains("secret"), "{error:?}");
        }
    }

    #[tokio::test]
    async fn only_a_small_regular_file_in_the_folder_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
        std::fs::create_dir_all(inside.join("folder")).unwrap();
        std::fs::write(&outside, "A=secret-word").unwrap();
        std::fs::write(inside.join("good"), "A=1").unwrap();
        std::fs::write(inside.join("long"), "#".repeat(64 * 1024 + 1)).unwrap();
        std::fs::write(inside.join("bad"), "A=1\nsecret-word").unwrap();
        symlink("good", inside.join("link")).unwrap();
        symlink(&outside, inside.join("link-out")).unwrap();
        mkfifoat(CWD, inside.join("fifo"), Mode::RUSR).unwrap();
        for (name, problem) in [
            ("good", ""),
            ("link", ""),
            ("folder/../good", ""),
            ("link-out", "is outside of the workspace folder"),
            ("../out", "is outside of the workspace folder"),
            ("/dev/zero", "is outside of the workspace folder"),
            ("none", "none cannot be read: it does not exist"),
            ("folder", "is a folder; only regular files are read"),
            ("fifo", "is a named pipe; only regular files are read"),
            ("long", "at most 65536 are read"),
            ("bad", "bad cannot be used: line 2 is not NAME=value"),
        ] {
            match read_env_file(&inside.join(name), Some(&inside)).await {
                Ok(variables) => assert!(problem.is_empty() && variables.len() == 1, "{name}"),
                Err(error) => {
                    let error = error.to_string();
                    assert!(!problem.is_empty() && error.contains(problem), "{name}: {error}");
                    assert!(!error.contains("secret"), "{error}");
                }
            }
        }
        assert!(read_env_file(&inside.join("link-out"), None).await.is_ok());
        let device = read_env_file(Path::new("/dev/zero"), None).await.unwrap_err();
        assert!(device.to_string().contains("is a device"), "{device}");
    }
}
