//! What is wrong in a configuration: where, what, and what was probably meant.

use std::fmt;

use super::tree::ConfigLocation;
pub(super) use crate::base::nearest::nearest_name;
use crate::base::text::reveal_hidden_characters;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConfigSeverity {
    /// A value that could not be used.
    Error,
    /// Something that was ignored, or does not do what it seems to.
    Warning,
}

impl ConfigSeverity {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// One problem. Never holds the value of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: ConfigSeverity,
    /// The file's path; or `initializationOptions`, the environment variable's name, the flag.
    pub file: String,
    /// Line, from 1; 0 where there are no lines (`initializationOptions`, environment, flags).
    pub line: u32,
    /// Column in characters, from 1; 0 where there are no lines.
    pub column: u32,
    /// The setting, as in `provider.anthropic.model`; empty when the file as a whole is meant.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to do, or what was probably meant.
    pub hint: Option<String>,
}

impl Diagnostic {
    pub(super) fn new_error(at: &ConfigLocation, key: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            severity: ConfigSeverity::Error,
            file: at.origin.to_string(),
            line: at.line,
            column: at.column,
            key: key.into(),
            message: message.into(),
            hint: None,
        }
    }

    pub(super) fn new_warning(
        at: &ConfigLocation,
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            severity: ConfigSeverity::Warning,
            ..Self::new_error(at, key, message)
        }
    }

    /// The file and the line, for people.
    pub fn format_location(&self) -> String {
        match self.line {
            0 => self.file.clone(),
            line => format!("{}:{line}", self.file),
        }
    }

    /// Why rules that deny or ask may be missing because of this problem, for people; `None` where it is about
    /// something else. A file that cannot be read whole may have had some, so may a misspelled list.
    pub(super) fn lost_rules(&self) -> Option<String> {
        let (table, setting) = self.key.split_once('.').unwrap_or((&self.key, ""));
        let is_list = nearest_name(table, ["approvals", "permissions"]).is_some()
            && !matches!(setting, "allow" | "timeout_s");
        let what = match self.key.as_str() {
            "" if self.severity == ConfigSeverity::Error => "the configuration",
            key if is_list => key,
            _ => return None,
        };
        Some(format!(
            "{what} ({}) is invalid: {}",
            self.format_location(),
            self.message
        ))
    }

    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    /// On one line, and legible: keys and values come from files of others.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let legible = |text: &str| {
            reveal_hidden_characters(text)
                .replace('\n', "␊")
                .replace('\t', "␉")
        };
        f.write_str(&legible(&self.file))?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        write!(f, ": {}: ", self.severity.name())?;
        if !self.key.is_empty() {
            write!(f, "{}: ", legible(&self.key))?;
        }
        f.write_str(&legible(&self.message))?;
        match &self.hint {
            Some(hint) => write!(f, " ({})", legible(hint)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_would_act_on_a_terminal() {
        let evil = "\u{1b}]52;c;x\u{7}\u{9b}2J\u{202e}\u{e0041}a\nb\rc\td";
        let problem = Diagnostic {
            severity: ConfigSeverity::Error,
            file: format!("/w/{evil}"),
            line: 1,
            column: 1,
            key: evil.to_owned(),
            message: evil.to_owned(),
            hint: Some(evil.to_owned()),
        };
        let line = problem.to_string();
        let shown = "␛]52;c;x␇<U+009B>2J<U+202E><U+E0041>a␊b␍c␉d";
        assert_eq!(line, format!("/w/{shown}:1:1: error: {shown}: {shown} ({shown})"));
    }

    #[test]
    fn prints_like_a_compiler() {
        let mut problem = Diagnostic {
            severity: ConfigSeverity::Warning,
            file: "/c.toml".into(),
            line: 3,
            column: 1,
            key: "agent.default.modle".into(),
            message: "unknown setting".into(),
            hint: Some("did you mean `model`?".into()),
        };
        assert_eq!(
            problem.to_string(),
            "/c.toml:3:1: warning: agent.default.modle: unknown setting (did you mean `model`?)"
        );
        problem.line = 0;
        problem.hint = None;
        assert_eq!(
            problem.to_string(),
            "/c.toml: warning: agent.default.modle: unknown setting"
        );
    }
}
