//! Parses lines at the prompt: slash commands, and text for the agent.
//!
//! Runs nothing, asks no server, and reads no disk.

use crate::base::nearest::nearest_name;
use crate::protocol::{Effort, Mode};

/// A slash command.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Slash {
    Help,
    Model(Option<String>, Option<Effort>),
    Mode(Option<Mode>),
    /// Search words; `None` lists all sessions.
    Sessions(Option<String>),
    /// A number of the last list, or an id.
    Load(String),
    New,
    Resume,
    /// What the summary must keep.
    Compact(Option<String>),
    Cost,
    Tools,
    Grants,
    Revoke(String),
    Title(String),
    /// True shows what trust would activate and asks; false revokes trust.
    Trust(bool),
    Reload,
    /// How many of the last turns that changed files.
    Revert(usize),
    Redo,
    Diff(usize),
    /// Which output to show in full, counted from the last one.
    Output(usize),
    Queue(QueueCommand),
    Mcp(McpCommand),
    Fork,
    /// The file to write; `None` names it after the session.
    Export(Option<String>),
    /// The name of a command that the client does not know; the session may define it.
    Own(String),
    Quit,
}

/// A command's line in the help.
pub(super) struct CommandHelp {
    pub(super) usage: &'static str,
    pub(super) does: &'static str,
}

const fn define_command(usage: &'static str, does: &'static str) -> CommandHelp {
    CommandHelp { usage, does }
}

/// All commands, in the order of the help.
pub(super) const COMMANDS: [CommandHelp; 24] = [
    define_command("/help", "this list"),
    define_command(
        "/model [NAME [EFFORT]]",
        "list models, or set the model and its effort: none, minimal, low, medium, high, xhigh, max",
    ),
    define_command("/mode [plan|ask|autoEdit|full]", "how freely the agent may act"),
    define_command("/resume", "continue the canceled or interrupted turn"),
    define_command(
        "/compact [WORDS]",
        "replace old messages by a summary; optionally say what to keep",
    ),
    define_command(
        "/output [N]",
        "full output of the last call (or the Nth from the end)",
    ),
    define_command(
        "/diff [N]",
        "files changed by the last turn (or the Nth from the end)",
    ),
    define_command("/revert [N]", "revert the files of the last turn (or the last N)"),
    define_command("/redo", "restore what was reverted last"),
    define_command(
        "/queue [WORDS | send [N] | drop N]",
        "list queued prompts, or add one; works during a turn",
    ),
    define_command("/new", "a new session"),
    define_command("/fork", "fork: continue from here in a new session"),
    define_command("/export [FILE.md|FILE.json]", "write this session to a file"),
    define_command("/sessions [WORDS]", "list sessions, or search them"),
    define_command("/load NUMBER|ID", "another session"),
    define_command("/title TEXT", "give this session a title"),
    define_command("/cost", "tokens and dollars of this session"),
    define_command("/tools", "what the agent can use"),
    define_command(
        "/mcp [restart|login|logout NAME]",
        "list the MCP servers with their states, or act on one",
    ),
    define_command(
        "/grants [revoke NUMBER|ID]",
        "list what is allowed beyond one call, or revoke a grant",
    ),
    define_command("/revoke NUMBER|ID", "the same as /grants revoke"),
    define_command(
        "/trust [no]",
        "show what this folder's settings would activate, and ask; `no` ends the trust",
    ),
    define_command("/reload", "reload the configuration"),
    define_command("/quit", "leave (also Ctrl-D)"),
];

/// An action on the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum QueueCommand {
    List,
    Add(String),
    /// Its number in the list.
    Drop(usize),
    /// Its number in the list; `None` sends the next one.
    Send(Option<usize>),
}

/// An action on MCP servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum McpCommand {
    List,
    Restart(String),
    Login(String),
    Logout(String),
}

/// The modes with their names and meanings.
pub(super) const MODES: [(Mode, &str, &str); 4] = [
    (Mode::Plan, "plan", "reads only"),
    (
        Mode::Ask,
        "ask",
        "reads need no approval; edits, commands and the network do",
    ),
    (
        Mode::AutoEdit,
        "autoEdit",
        "edits inside the workspace need no approval either",
    ),
    (Mode::Full, "full", "all is free"),
];

/// Returns the name of a mode.
pub(super) fn mode_name(mode: Mode) -> &'static str {
    MODES
        .iter()
        .find(|(known, _, _)| *known == mode)
        .map_or("", |(_, name, _)| name)
}

/// Returns the commands' names, for completion.
pub(super) fn list_command_names() -> impl Iterator<Item = &'static str> {
    COMMANDS
        .iter()
        .filter_map(|command| command.usage.split(' ').next())
}

/// Parses a line as a command; `None` for text to the agent. A path is not a command.
pub(super) fn parse(line: &str) -> Option<Result<Slash, String>> {
    let bare = line.trim().strip_prefix('/')?;
    let (name, rest) = bare.split_once(char::is_whitespace).unwrap_or((bare, ""));
    if name.contains('/') || name.is_empty() {
        return None;
    }
    let rest = rest.trim();
    let some = (!rest.is_empty()).then(|| rest.to_owned());
    let needed = || some.clone().ok_or_else(|| format_usage(name));
    Some(match name {
        "help" | "?" => Ok(Slash::Help),
        "model" => parse_model(rest),
        "mode" => match rest {
            "" => Ok(Slash::Mode(None)),
            named => MODES
                .iter()
                .find(|(_, name, _)| name.eq_ignore_ascii_case(named))
                .map(|(mode, _, _)| Slash::Mode(Some(*mode)))
                .ok_or_else(|| format_usage(name)),
        },
        "sessions" => Ok(Slash::Sessions(some)),
        "load" => needed().map(Slash::Load),
        "new" | "clear" => Ok(Slash::New),
        "resume" => Ok(Slash::Resume),
        "compact" => Ok(Slash::Compact(some)),
        "cost" => Ok(Slash::Cost),
        "tools" => Ok(Slash::Tools),
        "grants" => match rest.strip_prefix("revoke ").map(str::trim) {
            Some(which) if !which.is_empty() => Ok(Slash::Revoke(which.to_owned())),
            _ if rest.is_empty() => Ok(Slash::Grants),
            _ => Err(format_usage(name)),
        },
        "revoke" => needed().map(Slash::Revoke),
        "title" => needed().map(Slash::Title),
        "trust" => match rest {
            "" => Ok(Slash::Trust(true)),
            "no" => Ok(Slash::Trust(false)),
            _ => Err(format_usage(name)),
        },
        "reload" => Ok(Slash::Reload),
        "diff" => parse_turn_count(rest)
            .map(Slash::Diff)
            .ok_or_else(|| format_usage(name)),
        "output" => parse_turn_count(rest)
            .map(Slash::Output)
            .ok_or_else(|| format_usage(name)),
        "revert" | "undo" => parse_turn_count(rest)
            .map(Slash::Revert)
            .ok_or_else(|| format_usage(name)),
        "redo" => Ok(Slash::Redo),
        "queue" => parse_queue(rest)
            .map(Slash::Queue)
            .ok_or_else(|| format_usage(name)),
        "mcp" => parse_mcp(rest).map(Slash::Mcp).ok_or_else(|| format_usage(name)),
        "fork" => Ok(Slash::Fork),
        "export" => Ok(Slash::Export(some)),
        "quit" | "exit" | "q" => Ok(Slash::Quit),
        _ => Ok(Slash::Own(name.to_owned())),
    })
}

/// Parses a count; 1 if it is absent.
fn parse_turn_count(rest: &str) -> Option<usize> {
    match rest {
        "" => Some(1),
        count => count.parse().ok().filter(|count| *count > 0),
    }
}

/// Parses the words after `/queue`; `None` if a required number is missing.
fn parse_queue(words: &str) -> Option<QueueCommand> {
    let number = |words: &str| words.trim().parse::<usize>().ok();
    match words.split_once(char::is_whitespace) {
        None if words.is_empty() => Some(QueueCommand::List),
        None if words == "send" => Some(QueueCommand::Send(None)),
        Some(("send", rest)) if number(rest).is_some() => Some(QueueCommand::Send(number(rest))),
        Some(("drop", rest)) if number(rest).is_some() => number(rest).map(QueueCommand::Drop),
        None if words == "drop" => None,
        // `send` and `drop` are actions only with a number; otherwise they start a prompt such as "send it to me".
        _ => Some(QueueCommand::Add(words.to_owned())),
    }
}

/// Parses the words after `/mcp`; `None` if the name is missing.
fn parse_mcp(words: &str) -> Option<McpCommand> {
    let mut words = words.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (None, ..) => Some(McpCommand::List),
        (Some(action), Some(name), None) => match action {
            "restart" => Some(McpCommand::Restart(name.to_owned())),
            "login" => Some(McpCommand::Login(name.to_owned())),
            "logout" => Some(McpCommand::Logout(name.to_owned())),
            _ => None,
        },
        _ => None,
    }
}

fn parse_model(rest: &str) -> Result<Slash, String> {
    let mut words = rest.split_whitespace();
    let name = words.next().map(str::to_owned);
    let effort = match words.next() {
        None => None,
        Some(word) => {
            let effort = serde_json::from_value::<Effort>(word.into());
            Some(effort.map_err(|_| format_usage("model"))?)
        }
    };
    Ok(Slash::Model(name, effort))
}

fn format_usage(name: &str) -> String {
    let command = COMMANDS
        .iter()
        .find(|command| command.usage[1..].split(' ').next() == Some(name));
    command.map_or_else(
        || describe_unknown_command(name),
        |command| format!("usage: {}", command.usage),
    )
}

/// Describes an unknown command, with the closest known name.
pub(super) fn describe_unknown_command(name: &str) -> String {
    match nearest_name(name, list_command_names().map(|known| &known[1..])) {
        Some(known) => format!("unknown command /{name}; did you mean /{known}?"),
        None => format!("unknown command /{name}; see /help"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_distinguished_from_text() {
        for (line, expected) in [
            ("fix /etc/passwd", None),
            ("/usr/bin/env is what?", None),
            ("/", None),
            ("/help", Some(Ok(Slash::Help))),
            (" /mode AUTOEDIT ", Some(Ok(Slash::Mode(Some(Mode::AutoEdit))))),
            ("/mode", Some(Ok(Slash::Mode(None)))),
            (
                "/model a/b high",
                Some(Ok(Slash::Model(Some("a/b".into()), Some(Effort::High)))),
            ),
            (
                "/model a/b huge",
                Some(Err("usage: /model [NAME [EFFORT]]".into())),
            ),
            ("/load", Some(Err("usage: /load NUMBER|ID".into()))),
            ("/load 3", Some(Ok(Slash::Load("3".into())))),
            ("/title a b", Some(Ok(Slash::Title("a b".into())))),
            ("/trust yes", Some(Err("usage: /trust [no]".into()))),
            ("/trust", Some(Ok(Slash::Trust(true)))),
            ("/grants revoke 2", Some(Ok(Slash::Revoke("2".into())))),
            ("/grants 2", Some(Err("usage: /grants [revoke NUMBER|ID]".into()))),
            ("/sesions x", Some(Ok(Slash::Own("sesions".into())))),
            ("/q", Some(Ok(Slash::Quit))),
            ("/revert", Some(Ok(Slash::Revert(1)))),
            ("/undo 3", Some(Ok(Slash::Revert(3)))),
            ("/revert 0", Some(Err("usage: /revert [N]".into()))),
            ("/diff x", Some(Err("usage: /diff [N]".into()))),
            ("/output 2", Some(Ok(Slash::Output(2)))),
            (
                "/queue go on",
                Some(Ok(Slash::Queue(QueueCommand::Add("go on".into())))),
            ),
            ("/mcp", Some(Ok(Slash::Mcp(McpCommand::List)))),
            (
                "/mcp  restart docs ",
                Some(Ok(Slash::Mcp(McpCommand::Restart("docs".into())))),
            ),
            (
                "/mcp login wiki",
                Some(Ok(Slash::Mcp(McpCommand::Login("wiki".into())))),
            ),
            (
                "/mcp restart",
                Some(Err("usage: /mcp [restart|login|logout NAME]".into())),
            ),
            (
                "/mcp stop docs",
                Some(Err("usage: /mcp [restart|login|logout NAME]".into())),
            ),
            ("/export a.json", Some(Ok(Slash::Export(Some("a.json".into()))))),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }

    #[test]
    fn unknown_command_suggests_the_closest_name() {
        assert_eq!(
            describe_unknown_command("sesions"),
            "unknown command /sesions; did you mean /sessions?"
        );
        assert_eq!(
            describe_unknown_command("frobnicate"),
            "unknown command /frobnicate; see /help"
        );
    }

    #[test]
    fn every_command_in_the_help_parses() {
        for name in list_command_names() {
            let parsed = parse(name).unwrap();
            let own = matches!(parsed, Ok(Slash::Own(_)));
            let known =
                parsed.is_ok() && !own || parsed.as_ref().is_err_and(|error| error.starts_with("usage:"));
            assert!(known, "{name}: {parsed:?}");
        }
    }

    #[test]
    fn text_is_queued_and_numbers_select_prompts() {
        for (words, expected) in [
            ("", Some(QueueCommand::List)),
            ("send", Some(QueueCommand::Send(None))),
            ("send 2", Some(QueueCommand::Send(Some(2)))),
            (
                "send it to me",
                Some(QueueCommand::Add("send it to me".to_owned())),
            ),
            ("drop 1", Some(QueueCommand::Drop(1))),
            ("drop", None),
            (
                "then run the tests",
                Some(QueueCommand::Add("then run the tests".to_owned())),
            ),
        ] {
            assert_eq!(parse_queue(words), expected, "{words}");
        }
    }
}
