//! The environment of commands that no person watches: no colors, no pager, no prompt, and no editor.
//!
//! An editor would wait for somebody until the time limit. So every editor is a command that says so and fails. One
//! that succeeds without a change would make `git rebase -i` or `git commit --amend` do what nobody wanted. What a
//! command itself sets, such as `GIT_EDITOR=true git commit --amend` or `git -c core.editor=…`, wins.

use crate::workspace::process::command::Command;

/// Variables for every program below.
const SET: [(&str, &str); 9] = [
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    // Most programs start it with a shell. Those that split it at blanks start a shell that fails too.
    (
        "EDITOR",
        "sh -c 'echo \"no editor here: pass the text with an option, such as git -m or --no-edit, or set EDITOR to a command that edits the file (EDITOR=true keeps it)\" >&2; exit 1'",
    ),
];

/// Inherited variables that programs prefer to `EDITOR`. They would start the editor of the person who started us.
#[rustfmt::skip]
const UNSET: [&str; 11] = [
    "VISUAL", "FCEDIT", "GH_EDITOR", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "HGEDITOR", "JJ_EDITOR",
    "KUBE_EDITOR", "SUDO_EDITOR", "SVN_EDITOR", "SYSTEMD_EDITOR",
];

/// Settings of git, which wins over `EDITOR`. Git runs them with a shell and appends the file as `"$@"`.
///
/// They are not variables, since a variable would win over `git -c core.editor=…` and over an `EDITOR` that a command
/// sets.
const GIT_SETTINGS: [(&str, &str); 2] = [("core.editor", CORE_EDITOR), ("sequence.editor", SEQUENCE_EDITOR)];

/// Without any editor, it fails: an empty command would run the file that git wants to be edited.
pub(in crate::workspace) const CORE_EDITOR: &str = r#"eval "${VISUAL:-${EDITOR:-false}} \"\$@\"" #"#;
pub(in crate::workspace) const SEQUENCE_EDITOR: &str = r#"eval "$(git var GIT_EDITOR) \"\$@\"" #"#;

impl Command {
    /// Makes programs that want a person end at once, where they ask for a pager, an editor, or an answer.
    #[must_use]
    pub fn unattended(self) -> Self {
        let command = UNSET.into_iter().fold(self, Self::env_remove);
        let settings = GIT_SETTINGS.map(|(key, value)| (key.to_owned(), value.to_owned()));
        SET.into_iter()
            .fold(command, |command, (name, value)| command.env(name, value))
            .git_settings(settings)
    }
}
