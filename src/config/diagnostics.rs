//! Problems in a configuration: where they are, what is wrong, and what was probably meant.

use std::fmt;

use super::location::ConfigLocation;
pub(super) use crate::base::nearest::nearest_name;
use crate::base::text::reveal_hidden_characters;
use crate::domain::words::word_enum;

/// How to trust a folder, in every client.
pub const HOW_TO_TRUST: &str =
    "`/trust` in `agentls chat`, `:AgentTrust` in Neovim, or `Agent: Trust Folder…` in VS Code";

/// Says what to do about a setting of a folder that is not trusted.
pub(super) fn trust_hint() -> String {
    format!("to use it, trust the folder ({HOW_TO_TRUST}), or list it under `trusted` in your own config")
}

word_enum! {
    /// How serious a problem is, in the words of compilers.
    pub enum ConfigSeverity {
        /// A value is unusable.
        Error = "error",
        /// Something is ignored, or does not do what it seems to do.
        Warning = "warning",
    }
}

/// One problem. Never contains the value of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: ConfigSeverity,
    /// The path of the file, or `initializationOptions`, the name of the environment variable, or the flag.
    pub file: String,
    /// The line, from 1; 0 in a source without lines (`initializationOptions`, environment, flags).
    pub line: u32,
    /// The column in characters, from 1; 0 in a source without lines.
    pub column: u32,
    /// The setting, such as `provider.anthropic.model`; empty if the whole file is affected.
    pub key: String,
    pub message: String,
    /// How to fix it, or what was probably meant.
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

    /// Formats the file and the line for people.
    pub fn format_location(&self) -> String {
        match self.line {
            0 => self.file.clone(),
            line => format!("{}:{line}", self.file),
        }
    }

    /// Explains, for people, why this problem may hide rules that deny or ask, or loosen the sandbox; `None` if it
    /// cannot. An unreadable file or a misspelled list may have contained some.
    pub(super) fn lost_rules(&self) -> Option<String> {
        let (table, setting) = self.split_key();
        let is_list = nearest_name(table, ["approvals", "permissions"]).is_some()
            // A lost `allow` rule only makes more calls ask, so it is safe.
            && !matches!(setting, "allow" | "timeout_s")
            // What an untrusted folder must not set would have loosened.
            && !(setting == "sandboxed" && self.needs_trust());
        let subject = match self.key.as_str() {
            "" if self.severity == ConfigSeverity::Error => "the configuration",
            key if is_list || self.loosens_sandbox() => key,
            _ => return None,
        };
        Some(format!(
            "{subject} ({}) is invalid: {}",
            self.format_location(),
            self.message
        ))
    }

    /// Returns whether this problem may leave commands less confined than the configuration meant: it concerns all of a
    /// file, or a setting of `[sandbox]` that only restricts.
    pub fn loosens_sandbox(&self) -> bool {
        let (table, setting) = self.split_key();
        let is_error = self.severity == ConfigSeverity::Error;
        let is_lost = || table != "sandbox" || nearest_name(setting, ["read", "read_deny"]).is_some();
        is_error && table.is_empty() || nearest_name(table, ["sandbox"]).is_some() && (is_error || is_lost())
    }

    /// Returns the table of the setting, and its name in there.
    fn split_key(&self) -> (&str, &str) {
        self.key.split_once('.').unwrap_or((&self.key, ""))
    }

    /// Whether trust of the folder is all that the setting lacks.
    pub fn needs_trust(&self) -> bool {
        self.hint.as_ref() == Some(&trust_hint())
    }

    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    /// Formats on one line and with hidden characters visible: keys and values may come from other people's files.
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
    fn hidden_characters_are_shown() {
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
        let revealed = "␛]52;c;x␇<U+009B>2J<U+202E><U+E0041>a␊b␍c␉d";
        assert_eq!(
            line,
            format!("/w/{revealed}:1:1: error: {revealed}: {revealed} ({revealed})")
        );
    }

    #[test]
    fn problems_print_like_compiler_messages() {
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
