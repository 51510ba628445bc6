//! Slash commands: prompt files in `commands/*.md` of the user's folder and `.agentls/commands/*.md` of workspace
//! folders. The list of commands also has those that others offer; expanding those is not done here.
//!
//! A prompt that begins with `/name` stands for the file's text. Must not run anything: a command is only text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::file;
use super::{PromptFolder, Sources};
use crate::base::front_matter;
use crate::base::text::one_line;

/// Most commands loaded from one place.
const MAX_COMMANDS: usize = 200;
/// Longest name, in characters.
const MAX_NAME: usize = 64;
/// Longest description, in characters; the rest is cut.
const MAX_LINE: usize = 300;

/// A slash command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptCommand {
    /// Without the `/`.
    pub name: String,
    pub description: Option<String>,
    /// What its arguments are, for people.
    pub argument_hint: Option<String>,
    /// Its arguments, in order, if they are known.
    pub arguments: Vec<CommandArgument>,
    pub origin: CommandOrigin,
    /// Whether the user trusts the folder that it comes from.
    pub trusted: bool,
    /// Why it cannot be used.
    pub problem: Option<String>,
    body: Option<String>,
}

/// Who offers a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandOrigin {
    /// A prompt file.
    File(PathBuf),
    /// The MCP server with this name.
    Server(String),
}

/// An argument of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandArgument {
    pub name: String,
    pub description: Option<String>,
    pub is_required: bool,
}

/// The commands of a session by name; of two with the same name, the nearer one.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    all: BTreeMap<String, PromptCommand>,
}

/// A command that exists but cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the command /{name} cannot be used: {path}: {why}")]
pub struct BadCommand {
    name: String,
    path: String,
    why: String,
}

impl Sources {
    /// Reads all commands as they are now. Blocks.
    pub fn load_commands(&self) -> Commands {
        let mut commands = Commands::default();
        for source in self.list_folders() {
            for path in list_command_files(&source) {
                // Places come nearest last, so a nearer command replaces a farther one of the same name.
                if let Some(command) = load_command(&source, path) {
                    commands.all.insert(command.name.clone(), command);
                }
            }
        }
        commands
    }
}

impl PromptCommand {
    /// Returns a command that an MCP server offers.
    pub fn from_server(name: String, server: String) -> Self {
        Self {
            name,
            description: None,
            argument_hint: None,
            arguments: Vec::new(),
            origin: CommandOrigin::Server(server),
            // The user has configured the server, or trusts the folder that names it.
            trusted: true,
            problem: None,
            body: None,
        }
    }

    /// Returns the path of its file.
    pub fn path(&self) -> Option<&Path> {
        match &self.origin {
            CommandOrigin::File(path) => Some(path),
            CommandOrigin::Server(_) => None,
        }
    }

    /// Returns the MCP server that offers it.
    pub fn server(&self) -> Option<&str> {
        match &self.origin {
            CommandOrigin::File(_) => None,
            CommandOrigin::Server(server) => Some(server),
        }
    }
}

impl Commands {
    /// Adds a command, unless there is one with its name.
    pub fn add(&mut self, command: PromptCommand) {
        self.all.entry(command.name.clone()).or_insert(command);
    }

    /// Iterates over all commands, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &PromptCommand> {
        self.all.values()
    }

    /// Returns the prompt that `text` stands for; `None` if it does not begin with a known command.
    pub fn expand_prompt(&self, text: &str) -> Option<Result<String, BadCommand>> {
        let (name, rest) = parse_command_call(text)?;
        let command = self.all.get(name)?;
        Some(match &command.body {
            Some(body) => Ok(substitute_arguments(body, rest)),
            None => Err(BadCommand {
                name: name.to_owned(),
                path: command
                    .path()
                    .map(|path| path.display().to_string())
                    .unwrap_or_default(),
                why: command.problem.clone().unwrap_or_default(),
            }),
        })
    }
}

/// Splits a text that begins like a command into its name and arguments.
pub fn parse_command_call(text: &str) -> Option<(&str, &str)> {
    let bare = text.trim_start().strip_prefix('/')?;
    let (name, rest) = bare.split_once(char::is_whitespace).unwrap_or((bare, ""));
    is_name(name).then(|| (name, rest.trim()))
}

fn is_name(name: &str) -> bool {
    let usable = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.chars().count() <= MAX_NAME && name.chars().all(usable)
}

fn list_command_files(source: &PromptFolder) -> Vec<PathBuf> {
    let dir = match source.within {
        None => source.dir.join("commands"),
        Some(_) => source.dir.join(".agentls/commands"),
    };
    let mut found: Vec<PathBuf> = file::list_entry_paths(source, &dir)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    // Sort before the cut, so that the same files are dropped every time.
    found.sort();
    found.truncate(MAX_COMMANDS);
    found
}

fn load_command(source: &PromptFolder, path: PathBuf) -> Option<PromptCommand> {
    let name = path
        .file_stem()?
        .to_str()
        .filter(|name| is_name(name))?
        .to_owned();
    let read = file::read(source, &path)?;
    let mut command = PromptCommand {
        name,
        description: None,
        argument_hint: None,
        arguments: Vec::new(),
        origin: CommandOrigin::File(path),
        trusted: source.trusted,
        problem: None,
        body: None,
    };
    let parted = read.and_then(|prompt_file| match prompt_file.problem {
        // Half a prompt would be a different prompt.
        Some(problem) => Err(problem),
        None => {
            let parted = front_matter::split_front_matter(&prompt_file.text)?;
            Ok((parted.head, parted.body.trim().to_owned()))
        }
    });
    match parted {
        Ok((_, body)) if body.is_empty() => command.problem = Some("it is empty".to_owned()),
        Ok((mut head, body)) => {
            let mut line = |key| head.remove(key).map(|text| one_line(&text, MAX_LINE));
            command.description = line("description");
            command.argument_hint = line("argument-hint");
            command.body = Some(body);
        }
        Err(reason) => command.problem = Some(reason),
    }
    Some(command)
}

/// Replaces `$ARGUMENTS` by all arguments, and `$1` to `$9` by one each.
///
/// One pass: arguments are not expanded again. If the text has no place for them, they follow it.
fn substitute_arguments(body: &str, arguments: &str) -> String {
    let words = split_quoted_words(arguments);
    let mut text = String::with_capacity(body.len() + arguments.len());
    let mut took = false;
    let mut rest = body;
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let digit = after
            .chars()
            .next()
            .and_then(|c| c.to_digit(10))
            .filter(|digit| *digit > 0);
        // `$10` is not an argument.
        let alone = !after.chars().nth(1).is_some_and(|c| c.is_ascii_digit());
        if let Some(behind) = after.strip_prefix("ARGUMENTS") {
            text.push_str(arguments);
            (took, rest) = (true, behind);
        } else if let Some(digit) = digit.filter(|_| alone) {
            text.push_str(words.get(digit as usize - 1).map_or("", String::as_str));
            (took, rest) = (true, &after[1..]);
        } else {
            text.push('$');
            rest = after;
        }
    }
    text.push_str(rest);
    if !took && !arguments.is_empty() {
        text.push_str("\n\n");
        text.push_str(arguments);
    }
    text
}

/// Splits words at white space; quotes keep white space inside a word.
pub fn split_quoted_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            // Only at the start of a word: inside one it is an apostrophe, as in `don't`.
            ('"' | '\'', None) if word.is_none() => {
                quote = Some(c);
                word = Some(String::new());
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::super::SourceFolder;
    use super::*;

    #[test]
    fn arguments_are_substituted() {
        for (body, arguments, wanted) in [
            ("do it", "", "do it"),
            ("do it", "now, please", "do it\n\nnow, please"),
            ("do $ARGUMENTS!", "a  b", "do a  b!"),
            ("$1 and $2 and $3.", "a 'b c'", "a and b c and ."),
            ("$2", "\"x y\" z", "z"),
            ("costs $ 5, $10 or $0, $x", "", "costs $ 5, $10 or $0, $x"),
            ("$1", "$2 $ARGUMENTS", "$2"),
            ("it's $1", "don't stop", "it's don't"),
            ("$ARGUMENTS $1", "ü 'open", "ü 'open ü"),
            ("$", "", "$"),
            ("$€1", "x", "$€1\n\nx"),
        ] {
            assert_eq!(
                substitute_arguments(body, arguments),
                wanted,
                "{body:?} {arguments:?}"
            );
        }
    }

    #[test]
    fn a_path_is_not_a_command() {
        for (text, wanted) in [
            ("/review", Some(("review", ""))),
            ("  /review  a b \n", Some(("review", "a b"))),
            ("/review\nlines", Some(("review", "lines"))),
            ("/etc/passwd is", None),
            ("/ x", None),
            ("a /review", None),
            ("//x", None),
        ] {
            assert_eq!(parse_command_call(text), wanted, "{text:?}");
        }
    }

    #[test]
    fn the_nearer_command_wins_and_broken_ones_are_not_sent() {
        let dir = TempDir::new().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let write = |path: &str, text: &str| {
            let path = base.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("user/commands/review.md", "far");
        write(
            "user/commands/mine.md",
            "---\ndescription: My own\nargument-hint: [file]\n---\nLook at $1.\n",
        );
        write("w/.agentls/commands/review.md", "near");
        write("w/.agentls/commands/open.md", "---\nx: y\n");
        write("w/.agentls/commands/void.md", "---\ndescription: x\n---\n");
        write("w/.agentls/commands/notes.txt", "no");
        write("w/.agentls/commands/a b.md", "no");
        write("out/secret.md", "s");
        symlink(
            base.join("out/secret.md"),
            base.join("w/.agentls/commands/leak.md"),
        )
        .unwrap();
        let sources = Sources {
            user: Some(base.join("user")),
            folders: vec![SourceFolder {
                path: base.join("w"),
                trusted: false,
            }],
            ..Sources::default()
        };
        let commands = sources.load_commands();
        let names: Vec<&str> = commands.iter().map(|command| command.name.as_str()).collect();
        assert_eq!(names, ["leak", "mine", "open", "review", "void"]);
        assert_eq!(commands.expand_prompt("/review"), Some(Ok("near".to_owned())));
        assert_eq!(
            commands.expand_prompt("/mine a.rs"),
            Some(Ok("Look at a.rs.".to_owned()))
        );
        assert_eq!(commands.expand_prompt("/nothing"), None);
        for (text, expected) in [
            ("/leak", "outside"),
            ("/open x", "does not end"),
            ("/void", "it is empty"),
        ] {
            let error = commands.expand_prompt(text).unwrap().unwrap_err().to_string();
            assert!(
                error.contains(expected) && error.starts_with("the command /"),
                "{error}"
            );
        }
        let mine = commands.iter().find(|command| command.name == "mine").unwrap();
        assert_eq!(mine.description.as_deref(), Some("My own"));
        assert_eq!(
            (mine.argument_hint.as_deref(), mine.trusted),
            (Some("[file]"), true)
        );
    }
}
