//! Git for our own use: runs nothing that a repository's settings name, never prompts, and neither locks nor tidies
//! behind the user's back.
//!
//! Must not decide which git commands run; callers do. For commands that people or the model write, see
//! [`Command::harden_git`].

use std::ffi::OsString;

use crate::workspace::process::command::Command;

/// Repository settings that could start a program, with harmless values.
#[rustfmt::skip]
const SETTINGS: [&str; 15] = [
    "safe.bareRepository=explicit", "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat",
    "core.editor=true", "core.askPass=true", "core.sshCommand=false", "core.alternateRefsCommand=true",
    "diff.external=", "log.showSignature=false", "protocol.ext.allow=never", "submodule.recurse=false",
    "maintenance.auto=false", "gc.auto=0", "credential.helper=",
];

/// The same for commands that people or the model write, limited to settings that their work does not depend on.
///
/// External diffs, text conversions, and filters are not included, since git has no setting that means "none". An empty
/// `diff.external` is a missing program, and only the command line has `--no-ext-diff`.
const FOR_COMMANDS: [(&str, &str); 6] = [
    // A folder of a clone may be a whole repository with its own settings.
    ("safe.bareRepository", "explicit"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.alternateRefsCommand", "true"),
    ("log.showSignature", "false"),
    // Differences inside submodules know no pathspecs.
    ("diff.submodule", "short"),
];

/// Inherited variables that point git at another repository or at a program, or change what its arguments mean. An editor
/// that git started passes some of them on.
#[rustfmt::skip]
const UNSET: [&str; 14] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG_PARAMETERS", "GIT_DIR",
    "GIT_EXTERNAL_DIFF", "GIT_GLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_INDEX_FILE",
    "GIT_LITERAL_PATHSPECS", "GIT_NAMESPACE", "GIT_NOGLOB_PATHSPECS", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX",
    "GIT_WORK_TREE",
];

/// Commands that show diffs, which attributes may route through programs.
const SHOWS_DIFFS: [&str; 3] = ["diff", "show", "log"];

/// Creates `git args…`, hardened against the repository's settings; set its directory with [`Command::current_dir`].
///
/// For local work only: it neither asks for a password nor uses network helpers. Filters that attributes name (clean,
/// smudge) still run if a command reads the work tree.
pub fn git_command<I>(args: I) -> Command
where
    I: IntoIterator,
    I::Item: Into<OsString>,
{
    let mut argv: Vec<OsString> = vec!["git".into(), "--no-pager".into()];
    for setting in SETTINGS {
        argv.extend(["-c".into(), setting.into()]);
    }
    let mut args = args.into_iter().map(Into::into);
    if let Some(first) = args.next() {
        let shows_diffs = SHOWS_DIFFS.iter().any(|name| first == *name);
        argv.push(first);
        // Options of the subcommand, so they follow it.
        if shows_diffs {
            argv.extend(["--no-ext-diff".into(), "--no-textconv".into()]);
        }
    }
    argv.extend(args);
    let mut command = Command::from_argv(argv)
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_OPTIONAL_LOCKS", "0")
        // A partial clone must not fetch missing objects, with whatever program its settings name.
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .env("GIT_ASKPASS", "true")
        .env("GIT_EDITOR", "true")
        .env("GIT_PAGER", "cat")
        .env("LC_ALL", "C")
        .env_remove("GIT_SSH_COMMAND");
    command.ours = true;
    UNSET.into_iter().fold(command, Command::env_remove)
}

/// Returns whether commands never follow this setting of a repository, not even in a folder that the user trusts.
pub fn is_always_replaced(key: &str) -> bool {
    FOR_COMMANDS
        .iter()
        .any(|(replaced, _)| replaced.eq_ignore_ascii_case(key))
}

impl Command {
    /// Keeps every git below from starting a file system monitor, pager, or signature check that a repository names.
    ///
    /// Git finds its repository by the folder alone, as the rules do. The repository's hooks still run, and settings that a
    /// command passes with `git -c` win.
    #[must_use]
    pub fn harden_git(self) -> Self {
        let settings = FOR_COMMANDS.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let command = UNSET.into_iter().fold(self, Command::env_remove);
        command
            .git_settings(settings)
            // Without it, `git status` writes the index, which runs a hook.
            .env("GIT_OPTIONAL_LOCKS", "0")
    }
}
