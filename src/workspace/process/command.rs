//! Describes a command to start. Plain values: nothing here starts a process or looks at the disk.
//!
//! See [`super::spawn`] for what happens to them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::domain::{SandboxMethod, SandboxNetwork};
use crate::proxy::{CommandProxy, ProxyReport};
use crate::sandbox::{CommandNeeds, PathRule, SandboxPlan};
use crate::workspace::process::exec_protocol::{BUBBLEWRAP_STAGE, OUTER_STAGE};
use crate::workspace::{CommandConfinement, SandboxAccess};

/// Inherited variables by which a script would read other files than the rules examined: another folder for `cd src`,
/// hidden files for `*` and for searches.
const CHANGES_MEANING: [&str; 6] = [
    "BASHOPTS",
    "CDPATH",
    "GLOBIGNORE",
    "GREP_OPTIONS",
    "RIPGREP_CONFIG_PATH",
    "SHELLOPTS",
];

/// A command to start. It inherits our environment without what the launcher strips, plus the additions made here.
#[derive(Clone)]
pub struct Command {
    pub(super) argv: Vec<OsString>,
    /// Falls back to `sh` if there is no `bash`.
    pub(super) shell: bool,
    /// We choose the program ourselves, so no workspace folder may provide it.
    pub(super) ours: bool,
    /// No workspace folder may decide what it runs; see [`Command::look_up_outside`].
    pub(super) looks_up_outside: bool,
    pub(super) cwd: PathBuf,
    pub(super) env: BTreeMap<OsString, Option<OsString>>,
    pub(super) stdin: Stdin,
    pub(super) merge: bool,
    /// Settings for every git process below it.
    pub(super) git: Vec<(String, String)>,
    /// What it may do; `None` if it is not confined.
    pub(super) sandbox: Option<SandboxPlan>,
    /// Texts that may name paths which its sandbox shows; see [`Command::show_named_paths`].
    pub(super) shown_texts: Vec<OsString>,
    /// Connects it to allowed hosts, if its sandbox has no other network.
    pub(super) proxy: Option<Arc<CommandProxy>>,
}

/// The standard input of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stdin {
    #[default]
    Null,
    Bytes(Vec<u8>),
    /// That of this process.
    Inherited,
    /// Whatever is written to [`Child::stdin`](crate::workspace::process::Child::stdin).
    Piped,
}

impl Command {
    /// Creates a command from a program and its arguments, in the directory `/`.
    ///
    /// The program is looked up in the absolute entries of PATH.
    pub fn from_argv<I>(argv: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<OsString>,
    {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            shell: false,
            ours: false,
            looks_up_outside: false,
            cwd: PathBuf::from("/"),
            env: BTreeMap::new(),
            stdin: Stdin::Null,
            merge: false,
            git: Vec::new(),
            sandbox: None,
            shown_texts: Vec::new(),
            proxy: None,
        }
    }

    /// Creates a command that runs a script with `bash -c`, or `sh -c` if there is no bash.
    pub fn from_script(script: impl Into<OsString>) -> Self {
        let command = Self {
            shell: true,
            ours: true,
            ..Self::from_argv([OsString::from("bash"), "-c".into(), script.into()])
        };
        CHANGES_MEANING.into_iter().fold(command, Self::env_remove)
    }

    /// Confines the command (default: it is not confined). If the plan cannot be enforced, it does not start.
    #[must_use]
    pub fn sandbox(mut self, plan: SandboxPlan) -> Self {
        self.sandbox = Some(plan);
        self
    }

    /// Takes the workspace folders out of the PATH that it inherits, and does not pass on other variables by which they
    /// would decide what runs, such as `PYTHONPATH`. What [`Command::env`] sets stays.
    ///
    /// For programs of the user that run outside of the sandbox.
    #[must_use]
    pub fn look_up_outside(mut self) -> Self {
        self.looks_up_outside = true;
        self
    }

    /// Lets its sandbox show what its words and variables so far name below the machine's `/tmp`.
    ///
    /// For commands that the user's settings define. What the model or a workspace names is not shown.
    #[must_use]
    pub fn show_named_paths(mut self) -> Self {
        let variables = self.env.values().flatten();
        self.shown_texts = self.argv.iter().chain(variables).cloned().collect();
        self
    }

    /// Returns what it needs to see, wherever that is, with the variables that it inherits.
    pub(in crate::workspace) fn list_needs(
        &self,
        inherited: impl Fn(&str) -> Option<PathBuf>,
    ) -> CommandNeeds {
        let variable = |name: &str| match self.env.get(OsStr::new(name)) {
            Some(own) => own.clone().map(PathBuf::from),
            None => inherited(name),
        };
        CommandNeeds {
            program: self.argv.first().cloned().unwrap_or_default(),
            cwd: self.cwd.clone(),
            path: variable("PATH").unwrap_or_default().into_os_string(),
            texts: self.shown_texts.clone(),
            ..CommandNeeds::default()
        }
        .with_tool_variables(variable)
    }

    /// Sets the proxy (default: none), for a command that [needs one](Self::needs_proxy).
    #[must_use]
    pub fn proxy(mut self, proxy: Arc<CommandProxy>) -> Self {
        let direct = proxy.direct_hosts();
        self.proxy = Some(proxy);
        self.env("NO_PROXY", &direct).env("no_proxy", &direct)
    }

    /// Returns whether its sandbox reaches nothing without a proxy, and has a place for one.
    pub fn needs_proxy(&self) -> bool {
        let plan = self.sandbox.as_ref();
        plan.is_some_and(|plan| plan.network == SandboxNetwork::Proxy)
    }

    /// Returns the report of its proxy, if it has one.
    pub fn proxy_report(&self) -> Option<Arc<ProxyReport>> {
        self.proxy.as_ref().map(|proxy| proxy.report())
    }

    /// Returns how it is confined; `None` if it is not.
    pub fn confinement(&self) -> Option<CommandConfinement> {
        Some(CommandConfinement {
            access: SandboxAccess::new(self.sandbox.clone()?, self.cwd.clone()),
            network: self.proxy_report(),
        })
    }

    /// Lists what it can only read of the folders that it writes, besides what is read-only by its name; `None` if it is
    /// not confined.
    pub fn list_read_only(&self) -> Option<Vec<PathBuf>> {
        let rules = self.sandbox.as_ref()?.rules.iter();
        let rules = rules.filter(|(rule, _)| *rule == PathRule::ReadOnly);
        Some(rules.map(|(_, path)| path.clone()).collect())
    }

    /// Returns its words for a user who is asked about it. May contain what must not reach a log (I15).
    pub fn to_line(&self) -> String {
        // The shell itself is no news.
        let words = if self.shell { &self.argv[2..] } else { &self.argv };
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    /// Returns the directory that it runs in.
    pub fn folder(&self) -> &Path {
        &self.cwd
    }

    /// Sets the working directory (default `/`).
    #[must_use]
    pub fn current_dir(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// Adds a variable, even one that the launcher strips.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), Some(value.into()));
        self
    }

    /// Removes an inherited variable.
    #[must_use]
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), None);
        self
    }

    /// Sets the standard input (default: empty).
    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Merges standard error into standard output, in the order written (default: separate).
    #[must_use]
    pub fn merge_stderr(mut self) -> Self {
        self.merge = true;
        self
    }

    /// Adds settings for every git below; a later one wins over an earlier one, and over those of a repository.
    #[must_use]
    pub fn git_settings(mut self, settings: impl IntoIterator<Item = (String, String)>) -> Self {
        self.git.extend(settings);
        self
    }

    /// Returns whether its words name git, in quotes too. A program that it runs may still start git by itself.
    pub fn names_git(&self) -> bool {
        self.has_argument_containing("git")
    }

    /// Returns whether its words contain this text, in quotes too.
    pub(in crate::workspace) fn has_argument_containing(&self, text: &str) -> bool {
        self.argv.iter().any(|word| {
            // Bash removes these characters, so `g'i't` is `git` too.
            let word = word.to_string_lossy().replace(['"', '\'', '\\', '\n'], "");
            word.contains(text)
        })
    }

    /// Returns whether its sandbox consists of namespaces, where its process has another number.
    pub(super) fn needs_namespaces(&self) -> bool {
        let plan = self.sandbox.as_ref();
        plan.is_some_and(|plan| plan.method.has_namespaces())
    }

    /// Returns the arguments that its helper needs to set up namespaces.
    pub(super) fn list_stage_words(&self) -> Vec<OsString> {
        match &self.sandbox {
            Some(plan) if plan.method == SandboxMethod::Namespaces => vec![OUTER_STAGE.into()],
            Some(plan) if plan.method == SandboxMethod::Bubblewrap => {
                // Only the helper inside takes the request, so this one needs the plan in another way.
                let mut words = vec![BUBBLEWRAP_STAGE.into()];
                words.extend(plan.to_words());
                words
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Returns the program's name, for messages.
    pub(super) fn program_name(&self) -> String {
        self.argv
            .first()
            .map_or_else(String::new, |program| program.to_string_lossy().into_owned())
    }
}

/// Omits arguments, input, and variables: they may contain what must not reach a log (I15).
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("program", &self.program_name())
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}
