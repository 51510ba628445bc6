//! Facts about where the model works: mode, sandbox, folder, system, date, git. They are told in notes of the history,
//! not in the system prompt, so that a change leaves the cached prefix of the requests as it is.
//!
//! Pure. A note tells what no earlier note in the history has told, so the history itself is the record: it is the same
//! after a restart and in a fork, and a compaction that removes a note makes the next one complete again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::text::{cut_middle, escape_hidden_characters, strip_control_characters};
use crate::domain::{Attendance, Message, Mode, Role};
use crate::provider::HistoryItem;

/// How every note begins; a later one recognizes the notes by it.
const OPENING: &str = "<environment>\nFrom agentls, not from the user. It needs no answer.\n";
const CLOSING: &str = "</environment>";
/// The longest line of a value, in bytes.
const MAX_LINE: usize = 1_000;
/// The longest instructions of an MCP server, in bytes.
const MAX_INSTRUCTIONS: usize = 2_000;

/// Something about the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    key: Cow<'static, str>,
    value: String,
    /// It describes the start of the session, so that its changes are not told.
    is_snapshot: bool,
}

impl Fact {
    /// Returns a fact whose changes are told. The value becomes one line.
    pub fn new(key: &'static str, value: &str) -> Self {
        Self {
            key: key.into(),
            value: clean_line(value, MAX_LINE),
            is_snapshot: false,
        }
    }

    /// Returns what an MCP server says about the use of its tools, as one line.
    pub fn instructions(server: &str, text: &str) -> Self {
        Self {
            key: format!("the MCP server {server} says about its tools").into(),
            value: clean_line(text, MAX_INSTRUCTIONS),
            is_snapshot: false,
        }
    }

    /// Returns a fact that is told once, as a list of lines.
    pub fn snapshot(key: &'static str, lines: &[String]) -> Self {
        let lines = lines
            .iter()
            .map(|line| format!("\n    {}", clean_line(line, MAX_LINE)));
        Self {
            key: key.into(),
            value: lines.collect(),
            is_snapshot: true,
        }
    }

    /// Returns whether it is told only once, at the start of a session.
    pub fn is_snapshot(&self) -> bool {
        self.is_snapshot
    }
}

/// Makes a text from outside one line that neither acts on a terminal nor looks like the end of the note.
fn clean_line(text: &str, limit: usize) -> String {
    let text = text.replace(['\n', '\r', '\t'], " ").replace("</", "< /");
    let text = strip_control_characters(&text).into_owned();
    let text = escape_hidden_characters(&text).into_owned();
    cut_middle(&text, limit).map_or(text, |cut| cut.replace('\n', " "))
}

/// Returns whether a message is a note about the environment.
pub fn is_environment_note(message: &Message) -> bool {
    message.hidden && message.role == Role::User && message.text().starts_with(OPENING)
}

/// Returns whether the history has a note about the environment.
pub fn has_environment_note(items: &[Arc<HistoryItem>]) -> bool {
    items.iter().any(|item| is_environment_note(&item.message))
}

/// Returns a note of what the history does not tell yet, or tells differently; `None` if there is nothing.
pub fn build_environment_note(facts: &[Fact], items: &[Arc<HistoryItem>]) -> Option<String> {
    let notes: Vec<String> = items
        .iter()
        .filter(|item| is_environment_note(&item.message))
        .map(|item| item.message.text())
        .collect();
    let mut told = BTreeMap::new();
    for line in notes.iter().flat_map(|note| note.lines()) {
        if let Some((key, value)) = line.strip_prefix("- ").and_then(|line| line.split_once(": ")) {
            told.insert(key, value);
        }
    }
    let is_first = told.is_empty();
    let mut text = String::from(OPENING);
    if !is_first {
        text.push_str("Changed:\n");
    }
    let empty = text.len();
    for fact in facts {
        let is_news = match told.get(&*fact.key) {
            _ if fact.is_snapshot => is_first,
            Some(value) => **value != fact.value,
            None => true,
        };
        if is_news {
            let colon = if fact.is_snapshot { ":" } else { ": " };
            text.push_str(&format!("- {}{colon}{}\n", fact.key, fact.value));
        }
    }
    (text.len() > empty).then(|| text + CLOSING)
}

/// Describes a mode for the model: what is free, what asks, and what is denied. An agent that cannot present a plan
/// (`presents_plan`), such as a sub-agent, only reads in plan mode; its task need not be a plan.
pub fn describe_mode(mode: Mode, presents_plan: bool, attendance: Attendance) -> String {
    let text = match mode {
        Mode::Plan if !presents_plan => {
            "plan. You change nothing. Free: reading in the workspace, and commands that only read, such as ls, cat, rg, \
             git log, git diff. Denied: edits, all other commands, the network. Asks the user: files outside the \
             workspace, and files that look like secrets. If the task needs changes, say which."
        }
        Mode::Plan => {
            "plan. You read and prepare a plan; you change nothing. Free: reading in the workspace, and commands that \
             only read, such as ls, cat, rg, git log, git diff. Denied: edits, all other commands, the network. Asks the \
             user: files outside the workspace, and files that look like secrets. Find out what the plan needs. Ask \
             what only the user can decide. Then present the whole plan with present_plan; only the user's answer \
             ends plan mode."
        }
        Mode::Ask => {
            "ask. Free: reading in the workspace, and commands that only read. Asks the user: edits, all other \
             commands, the network, files outside the workspace, and files that look like secrets."
        }
        Mode::AutoEdit => {
            "autoEdit. Free: reading and editing in the workspace, commands that only read, and commands in a sandbox \
             that holds in full. Asks the user: all other commands, the network, files outside the workspace, files \
             that look like secrets, and files that control programs, such as .git, .vscode, AGENTS.md."
        }
        Mode::Full => "full. Everything is free, except what a rule of the user denies or asks about.",
    };
    let asks = match attendance {
        Attendance::Questions => return text.to_owned(),
        // As in `agentls run`.
        Attendance::Approvals => "Needs the user's approval, and is refused if nobody is there to give it:",
        Attendance::Automatic => "Needs an approval, which is always given at once, without a person:",
    };
    text.replace("Asks the user:", asks)
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
