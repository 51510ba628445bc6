//! Editors that wait for a person even where there is no terminal. Knows their names and how they work alone; knows no
//! rules.

use super::programs::{WRAPPERS, base_name};
use super::shell::{self, ShellWord, SimpleCommand};
use crate::base::word_list::WordList;

/// Without a terminal, other editors, such as `nano` and `emacs`, end by themselves.
const WAITING_EDITORS: WordList = WordList("vi vim nvim rvim vimdiff nvimdiff vim.basic vim.tiny vim.nox");

/// What names git's editor, besides the editor's own name.
const GIT_EDITOR_NAMES: WordList =
    WordList("EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR core.editor sequence.editor");

/// Commands of git that open an editor, unless their arguments give the text.
const GIT_COMMANDS: WordList = WordList("commit rebase merge tag revert");

/// Explains to the model why a command line would wait for a person, if it surely opens an editor.
pub fn explain_waiting_editor(line: &str) -> Option<String> {
    let parsed = shell::parse(line);
    let editor = parsed.commands.iter().find_map(find_waiting_editor)?;
    Some(format!(
        "not run: `{editor}` would wait for a person, and nobody can type here. Change files with the tools made for \
         it; give git its text with -m, or let it keep the old one with --no-edit or GIT_EDITOR=true"
    ))
}

fn find_waiting_editor(command: &SimpleCommand) -> Option<String> {
    // Its keys may come from a file.
    if command.redirects.iter().any(|redirect| !redirect.writes) {
        return None;
    }
    let words: Option<Vec<&str>> = command.words.iter().map(ShellWord::as_literal).collect();
    let mut settings: Vec<&str> = command
        .assignments
        .iter()
        .filter_map(ShellWord::as_literal)
        .collect();
    let words = words?;
    // It only asks where a program is.
    if matches!(words[..], ["command", "-v" | "-V", ..]) {
        return None;
    }
    let mut rest = &words[..];
    while let [word, next @ ..] = rest
        && (WRAPPERS.contains(base_name(word)) || word.starts_with('-') || word.contains('='))
    {
        settings.push(word);
        rest = next;
    }
    let (program, arguments) = rest.split_first()?;
    if WAITING_EDITORS.contains(base_name(program)) {
        return (!arguments.iter().any(works_alone)).then(|| (*program).to_owned());
    }
    if base_name(program) != "git" {
        return None;
    }
    let options = arguments.windows(2).filter(|pair| pair[0] == "-c");
    settings.extend(options.map(|pair| pair[1]));
    if !opens_editor(arguments) {
        return None;
    }
    settings.into_iter().find(is_waiting_setting).map(str::to_owned)
}

/// Whether this command of git opens an editor.
fn opens_editor(arguments: &[&str]) -> bool {
    const TEXT_OPTIONS: [&str; 5] = ["--message", "--file", "--no-edit", "--reuse-message", "--fixup"];
    let gives_text = |argument: &&str| {
        let letters = argument.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        letters.is_some_and(|letters| letters.contains(['m', 'F', 'C']))
            || TEXT_OPTIONS.iter().any(|option| argument.starts_with(option))
    };
    let command = arguments
        .iter()
        .position(|argument| GIT_COMMANDS.contains(argument));
    command.is_some_and(|at| !arguments[at..].iter().any(gives_text))
}

/// Whether `NAME=VALUE` makes git open an editor that waits.
fn is_waiting_setting(setting: &&str) -> bool {
    let Some((name, value)) = setting.split_once('=') else {
        return false;
    };
    let mut words = value.split_whitespace();
    GIT_EDITOR_NAMES.contains(name)
        && words
            .next()
            .is_some_and(|program| WAITING_EDITORS.contains(base_name(program)))
        && !words.any(|word| works_alone(&word))
}

/// Whether an argument gives the editor commands or a script, or makes it end at once.
fn works_alone(argument: &&str) -> bool {
    let options = [
        "-v",
        "-r",
        "--server",
        "--remote",
        "--embed",
        "-c",
        "-e",
        "-E",
        "-s",
        "-S",
        "-l",
        "-h",
        "--cmd",
        "--headless",
        "--version",
        "--help",
        "--api",
    ];
    argument.starts_with('+') || options.iter().any(|option| argument.starts_with(option))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn editors_that_wait_for_a_person_are_found() {
        for (line, editor) in [
            ("vi f", Some("vi")),
            ("cd src && /usr/bin/vim -n a.rs", Some("/usr/bin/vim")),
            ("sudo -E nvim f", Some("nvim")),
            ("echo x | vim -", Some("vim")),
            ("EDITOR=vim git commit -a", Some("EDITOR=vim")),
            ("env GIT_EDITOR='vim -f' git commit", Some("GIT_EDITOR=vim -f")),
            (
                "git -c core.editor='vim -n' rebase -i HEAD~2",
                Some("core.editor=vim -n"),
            ),
            ("vim -es -c '%s/a/b/' -c wq f", None),
            ("nvim --headless +q", None),
            ("vim --version", None),
            ("vim f < keys", None),
            ("vim $flags f", None),
            ("GIT_EDITOR=true git commit --amend", None),
            ("EDITOR='vim -c wq' git commit", None),
            ("EDITOR=vim make", None),
            ("command -v vim", None),
            ("EDITOR=vim git log", None),
            ("git -c core.editor=vim commit -am x", None),
            ("./view model.stl", None),
            ("nvim -v", None),
            ("git grep -e core.editor=vim", None),
            ("ls vim", None),
        ] {
            let parsed = shell::parse(line);
            let found = parsed.commands.iter().find_map(find_waiting_editor);
            assert_eq!(found.as_deref(), editor, "{line}");
        }
    }
}
