//! Editors that wait for a person even where there is no terminal. Knows their names and how they work alone; knows no
//! rules.

use super::programs::{SHELLS, WRAPPERS, base_name};
use super::shell::{self, ShellWord};
use crate::base::word_list::WordList;

/// Without a terminal, other editors, such as `nano` and `emacs`, end by themselves.
const WAITING_EDITORS: WordList = WordList("vi vim nvim rvim vimdiff nvimdiff vim.basic vim.tiny vim.nox");

/// Commands of git that open an editor, unless their arguments give the text.
const GIT_COMMANDS: WordList = WordList("commit rebase merge tag revert");

/// How deep scripts in arguments are read.
const MAX_DEPTH: usize = 3;

/// Explains to the model why a command line would wait for a person, if it surely opens an editor.
pub fn explain_waiting_editor(line: &str) -> Option<String> {
    let editor = find_in_line(line, 0).or_else(|| find_variable(line).map(str::to_owned))?;
    Some(format!(
        "not run: `{editor}` would wait for a person, and nobody can type here. Change files with the tools made for \
         it; give git its text with -m, or let it keep the old one with --no-edit or GIT_EDITOR=true"
    ))
}

/// Finds a command whose program is the editor of the environment, unless the line sets that itself.
fn find_variable(line: &str) -> Option<&'static str> {
    const NAMES: [(&str, &str); 2] = [("$EDITOR", "${EDITOR"), ("$VISUAL", "${VISUAL")];
    let commands = shell::parse(line).commands;
    let mut programs = commands.iter().filter_map(|command| command.words.first());
    if line.contains("EDITOR=")
        || line.contains("VISUAL=")
        || programs.all(|word| word.as_literal().is_some())
    {
        return None;
    }
    let begins_command = |token: &str| {
        line.match_indices(token).any(|(at, _)| {
            let before = line[..at].trim_end_matches(['"', ' ', '\t']);
            let goes_on = |c: char| c.is_alphanumeric() || c == '_';
            if line[at + token.len()..].starts_with(goes_on) {
                return false;
            }
            before.is_empty() || before.ends_with([';', '&', '|', '(', '{', '\n'])
        })
    };
    let name = NAMES
        .iter()
        .find(|(plain, braced)| begins_command(plain) || begins_command(braced));
    name.map(|(plain, _)| *plain)
}

fn find_in_line(line: &str, depth: usize) -> Option<String> {
    if depth == MAX_DEPTH {
        return None;
    }
    let parsed = shell::parse(line);
    let mut exported: Vec<&str> = Vec::new();
    for command in &parsed.commands {
        // Its keys may come from a file.
        if command.redirects.iter().any(|redirect| !redirect.writes) {
            continue;
        }
        let assignments = command.assignments.iter().filter_map(ShellWord::as_literal);
        let words: Option<Vec<&str>> = command.words.iter().map(ShellWord::as_literal).collect();
        let Some(words) = words else { continue };
        match words.split_first() {
            // `EDITOR` is exported already.
            None => exported.extend(assignments),
            Some((&"export", settings)) => exported.extend(settings),
            Some(_) => {
                let settings = exported.iter().copied().chain(assignments).collect();
                if let Some(editor) = find_in_words(&words, settings, depth) {
                    return Some(editor);
                }
            }
        }
    }
    None
}

/// Finds an editor that waits in a command with these settings for git's editor.
fn find_in_words<'a>(words: &[&'a str], mut settings: Vec<&'a str>, depth: usize) -> Option<String> {
    // It only asks where a program is.
    if matches!(words, ["command", "-v" | "-V", ..]) {
        return None;
    }
    let mut rest = words;
    while let [word, next @ ..] = rest
        && (WRAPPERS.contains(base_name(word))
            || word.starts_with('-')
            || word.contains('=')
            // A limit, such as that of `timeout`.
            || word.starts_with(|c: char| c.is_ascii_digit()))
    {
        settings.push(word);
        rest = next;
    }
    let (program, arguments) = rest.split_first()?;
    let name = base_name(program);
    if WAITING_EDITORS.contains(name) {
        return (!arguments.iter().any(works_alone)).then(|| (*program).to_owned());
    }
    if name == "eval" {
        return find_in_line(&arguments.join(" "), depth + 1);
    }
    if SHELLS.contains(name) {
        let at = arguments.iter().position(|word| *word == "-c")?;
        return find_in_line(arguments.get(at + 1)?, depth + 1);
    }
    if name == "find" {
        let at = arguments
            .iter()
            .position(|word| matches!(*word, "-exec" | "-execdir"))?;
        return find_in_words(&arguments[at + 1..], settings, depth);
    }
    if name != "git" {
        return None;
    }
    let options = arguments.windows(2).filter(|pair| pair[0] == "-c");
    settings.extend(options.map(|pair| pair[1]));
    if !opens_editor(arguments) {
        return None;
    }
    let find = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| settings.iter().rev().find(|setting| names_editor(setting, name)))
    };
    // In git's order. The list of a rebase has an editor of its own.
    let sequence =
        find(&["GIT_SEQUENCE_EDITOR", "sequence.editor"]).filter(|_| arguments.contains(&"rebase"));
    let editor = sequence.or_else(|| find(&["GIT_EDITOR", "core.editor", "VISUAL", "EDITOR"]));
    editor
        .filter(|setting| is_waiting_setting(setting))
        .map(|setting| (*setting).to_owned())
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

/// Whether `NAME=VALUE` is a setting of this name.
fn names_editor(setting: &str, name: &str) -> bool {
    setting.split_once('=').is_some_and(|(of, _)| of == name)
}

/// Whether `NAME=VALUE` makes git open an editor that waits.
fn is_waiting_setting(setting: &str) -> bool {
    let Some((_, value)) = setting.split_once('=') else {
        return false;
    };
    let mut words = value.split_whitespace();
    words
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
            ("bash -c 'cd src; vim f'", Some("vim")),
            ("eval \"vim f\"", Some("vim")),
            ("timeout 5 vim f", Some("vim")),
            ("find . -name f -exec vim {} \\;", Some("vim")),
            ("export EDITOR=vim; git commit --amend", Some("EDITOR=vim")),
            ("EDITOR=vim; git commit --amend", Some("EDITOR=vim")),
            ("export EDITOR=vim; EDITOR=true git commit --amend", None),
            (
                "GIT_EDITOR=vim git -c core.editor=true commit --amend",
                Some("GIT_EDITOR=vim"),
            ),
            (
                "GIT_SEQUENCE_EDITOR=vim GIT_EDITOR=true git rebase -i HEAD~2",
                Some("GIT_SEQUENCE_EDITOR=vim"),
            ),
            ("GIT_EDITOR=true EDITOR=vim git commit --amend", None),
            ("bash -c 'vim -es +q f'", None),
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
            assert_eq!(find_in_line(line, 0).as_deref(), editor, "{line}");
        }
    }

    #[test]
    fn the_editor_of_the_environment_is_found() {
        for (line, editor) in [
            ("$EDITOR f", Some("$EDITOR")),
            ("\"$EDITOR\" f", Some("$EDITOR")),
            ("cd src && ${EDITOR:-vi} f", Some("$EDITOR")),
            ("${VISUAL:-$EDITOR} f", Some("$VISUAL")),
            ("echo $EDITOR", None),
            ("echo \"; $EDITOR f\"", None),
            ("EDITOR=true; $EDITOR f", None),
            ("$EDITORIAL f", None),
            ("$CC -o f f.c", None),
        ] {
            assert_eq!(find_variable(line), editor, "{line}");
        }
    }
}
