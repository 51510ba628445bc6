//! Recognizes commands whose code comes from the folder that they run in, so that a repository can provide it.
//!
//! Only for warnings: a script can hide what it runs. Must not read the disk.

use super::values::CommandLine;

/// Programs that look for the program to run in the folder where they start, or above it, before anywhere else.
const PACKAGE_RUNNERS: [&str; 13] = [
    "bun", "bunx", "bundle", "cargo", "deno", "go", "npm", "npx", "pipx", "pnpm", "uv", "uvx", "yarn",
];
/// Those of them that do nothing else.
const ONLY_RUNNERS: [&str; 4] = ["bunx", "npx", "pipx", "uvx"];
/// Subcommands of the others that run a package or a script by its name.
const RUNNING_SUBCOMMANDS: [&str; 4] = ["dlx", "exec", "run", "x"];
/// Programs that run a script, with the letters of options that replace it by code in the command.
const INTERPRETERS: [(&str, &str); 10] = [
    (".", ""),
    ("source", ""),
    ("bash", "c"),
    ("dash", "c"),
    ("ksh", "c"),
    ("sh", "c"),
    ("zsh", "c"),
    ("node", "ep"),
    ("perl", "eE"),
    ("ruby", "e"),
];
/// Words of the shell in front of a command.
const SHELL_WORDS: [&str; 12] = [
    "!", "{", "do", "else", "elif", "env", "exec", "if", "then", "time", "until", "while",
];

/// Returns the first program of a hook or tool that is or finds code of the folder where it starts.
pub(super) fn find_folder_code(command: &CommandLine) -> Option<String> {
    match command {
        CommandLine::Argv(argv) => find_in_words(argv.iter().map(String::as_str)),
        CommandLine::Shell(script) => script
            .split(['\n', ';', '|', '&', '(', ')'])
            .find_map(|simple| find_in_words(simple.split_ascii_whitespace().skip_while(is_before_command))),
    }
}

/// Returns whether a program of an MCP server finds its code in the folder where it starts.
pub(super) fn is_package_runner<'a>(program: &str, mut arguments: impl Iterator<Item = &'a str>) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default();
    PACKAGE_RUNNERS.contains(&name) || name.starts_with("python") && arguments.any(|word| word == "-m")
}

/// Returns whether Python imports from the folder where it starts, or runs a script there.
fn python_finds_code<'a>(mut arguments: impl Iterator<Item = &'a str>) -> bool {
    let mut is_isolated = false;
    while let Some(word) = arguments.next() {
        if word.starts_with("--") {
            continue;
        }
        let Some(letters) = word.strip_prefix('-') else {
            return is_relative_path(word);
        };
        // What follows these letters is their value.
        let (flags, last) = letters.split_at(letters.find(['c', 'm', 'W', 'X']).unwrap_or(letters.len()));
        is_isolated |= flags.contains(['I', 'P']);
        if last.starts_with(['c', 'm']) {
            return !is_isolated;
        }
        if last.len() == 1 {
            arguments.next();
        }
    }
    false
}

/// Returns whether an interpreter with these arguments runs a script by a relative path.
fn runs_relative_script(name: &str, arguments: &[&str]) -> bool {
    let Some((_, code)) = INTERPRETERS.iter().find(|(known, _)| *known == name) else {
        return false;
    };
    let has_code =
        |word: &&str| !word.starts_with("--") && word.contains(|letter: char| code.contains(letter));
    let script = arguments.iter().position(|word| !word.starts_with('-'));
    script.is_some_and(|at| !arguments[..at].iter().any(has_code) && is_relative_path(arguments[at]))
}

/// Returns whether a word, where only a path is expected, is a relative one. One that a variable begins may be absolute.
fn is_relative_path(word: &str) -> bool {
    !word.starts_with(['/', '~', '$', '"', '\'', '<', '>', '`'])
}

fn find_in_words<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<String> {
    let program = words.next()?;
    let arguments: Vec<&str> = words.collect();
    let is_relative = program.contains('/') && is_relative_path(program);
    let name = program.rsplit('/').next().unwrap_or_default();
    let subcommand = arguments.iter().find(|word| !word.starts_with('-'));
    let runs_package = ONLY_RUNNERS.contains(&name)
        || PACKAGE_RUNNERS.contains(&name)
            && subcommand.is_some_and(|word| RUNNING_SUBCOMMANDS.contains(word));
    let finds_code = if name.starts_with("python") {
        python_finds_code(arguments.iter().copied())
    } else {
        runs_package || runs_relative_script(name, &arguments)
    };
    (is_relative || finds_code).then(|| program.to_owned())
}

fn is_before_command(word: &&str) -> bool {
    SHELL_WORDS.contains(word) || word.contains('=') && !word.starts_with('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_find_their_code_in_the_folder_are_recognized() {
        for (script, found) in [
            ("npx prettier --write .", Some("npx")),
            ("cd web && CI=1 pnpm dlx x", Some("pnpm")),
            ("if yarn dlx x; then true; fi", Some("yarn")),
            ("/usr/bin/python3 -m black .", Some("/usr/bin/python3")),
            ("deno run x.ts", Some("deno")),
            ("go run ./cmd/x", Some("go")),
            ("npm exec x", Some("npm")),
            ("uvx ruff check", Some("uvx")),
            ("./scripts/deploy test", Some("./scripts/deploy")),
            ("(scripts/deploy)", Some("scripts/deploy")),
            ("cargo fmt || { echo 'no npx here' >&2; exit 2; }", None),
            ("/home/ann/bin/check; ~/bin/x; \"$HOME/bin/y\"", None),
            ("npm test && go build && make && yarn lint", None),
            ("python3 -c 'import json'", Some("python3")),
            ("python3 -W error scripts/x.py", Some("python3")),
            ("python3 -I x.py", Some("python3")),
            ("python3 -I -c 'import json'", None),
            ("python3 -Pm black .; python3 -u ~/bin/x.py -m", None),
            ("bash -e scripts/x.sh", Some("bash")),
            (". ./env && x", Some(".")),
            ("node tools/x.js", Some("node")),
            (
                "bash -ec 'x y' z; sh /usr/x; bash < x; node -e 'x'; perl -ne print x",
                None,
            ),
        ] {
            let of_script = find_folder_code(&CommandLine::Shell(script.to_owned()));
            assert_eq!(of_script.as_deref(), found, "{script}");
        }
        let argv = ["bunx", "x"].map(str::to_owned).to_vec();
        assert_eq!(
            find_folder_code(&CommandLine::Argv(argv)).as_deref(),
            Some("bunx")
        );
    }
}
