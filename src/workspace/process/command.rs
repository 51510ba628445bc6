//! What to start, said by the caller; plain values.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use crate::workspace::process::git::FOR_COMMANDS;

/// A command to start. Its environment is ours, less what the launcher strips, with the additions.
#[derive(Clone)]
pub struct Command {
    pub(super) argv: Vec<OsString>,
    /// Starts `sh` where there is no `bash`.
    pub(super) shell: bool,
    /// We name the program ourselves, so no workspace folder may provide it.
    pub(super) ours: bool,
    pub(super) cwd: PathBuf,
    pub(super) env: BTreeMap<OsString, Option<OsString>>,
    pub(super) stdin: Stdin,
    pub(super) merge: bool,
    /// Settings for every git below it.
    pub(super) git: Vec<(String, String)>,
}

/// What a command reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing.
    #[default]
    Null,
    /// These bytes.
    Bytes(Vec<u8>),
    /// What is written to [`Child::stdin`](crate::workspace::process::Child::stdin).
    Piped,
}

impl Command {
    /// A program (looked for in the absolute entries of PATH) and its arguments, or a whole `argv`, in the directory `/`.
    pub fn from_argv<I>(argv: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            shell: false,
            ours: false,
            cwd: PathBuf::from("/"),
            env: BTreeMap::new(),
            stdin: Stdin::Null,
            merge: false,
            git: Vec::new(),
        }
    }

    /// A script for `bash -c`, or `sh -c` where there is no bash.
    pub fn from_script(script: impl Into<OsString>) -> Self {
        let command = Self {
            shell: true,
            ours: true,
            ..Self::from_argv([OsString::from("bash"), "-c".into(), script.into()])
        };
        // With it `cd src` may lead to another folder than the one that rules looked at.
        command.env_remove("CDPATH")
    }

    /// Runs it in this directory (default `/`).
    #[must_use]
    pub fn current_dir(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// Adds a variable; wins over what the launcher strips.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), Some(value.into()));
        self
    }

    /// Does not pass a variable on.
    #[must_use]
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), None);
        self
    }

    /// What it reads (default nothing).
    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Sends its standard error where its standard output goes, in the order written (default: separate).
    #[must_use]
    pub fn merge_stderr(mut self) -> Self {
        self.merge = true;
        self
    }

    /// Tells every git below it to start no file system monitor, pager or signature check that a repository's
    /// settings name (R-TOOL-7). Its hooks stay, and what a command itself says with `git -c` wins.
    #[must_use]
    pub fn harden_git(self) -> Self {
        let settings = FOR_COMMANDS.map(|(key, value)| (key.to_owned(), value.to_owned()));
        self.git_settings(settings)
            // Without it, looking at the status writes the index, which runs a hook.
            .env("GIT_OPTIONAL_LOCKS", "0")
    }

    /// Adds settings for every git below it; a later one wins over an earlier one and over those of a repository.
    #[must_use]
    pub fn git_settings(mut self, settings: impl IntoIterator<Item = (String, String)>) -> Self {
        self.git.extend(settings);
        self
    }

    /// Whether its words name git, also in quotes. A program that it runs may still start one by itself.
    pub fn names_git(&self) -> bool {
        self.has_argument_containing("git")
    }

    /// Whether its words hold this text, also in quotes.
    pub(in crate::workspace) fn has_argument_containing(&self, text: &str) -> bool {
        self.argv.iter().any(|word| {
            let word = word.to_string_lossy().replace(['"', '\'', '\\', '\n'], "");
            word.contains(text)
        })
    }

    /// The program's name, for messages.
    pub(super) fn program_name(&self) -> String {
        self.argv
            .first()
            .map_or_else(String::new, |program| program.to_string_lossy().into_owned())
    }
}

/// Without arguments, input and variables: they may hold what no log should.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("program", &self.program_name())
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}
