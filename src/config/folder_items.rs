//! What a folder's own files would activate if the folder were trusted, listed for the user who decides.
//!
//! Invariants: texts appear as they are in the file, with variables unexpanded. Invisible characters become visible.
//! Every cut is announced, and what was cut or not listed keeps the folder from being trusted. Reads only what `layers` has parsed; starts nothing.

use std::path::Path;

use serde_json::Value;

use crate::base::credential_env::is_credential;
use crate::base::hash::sha256;
use crate::base::text::{cut_middle, reveal_hidden_characters};
use crate::base::web_address::hide_secrets;

use super::location::{ConfigLocation, ValueSource};
use super::schema::find_trust_rule;
use super::tree::{Node, SpannedValue, join};
use super::trust;
use super::untrusted::Untrusted;

/// How many items are listed.
const MAX_ITEMS: usize = 200;
/// The longest text of an item, in characters. A longer one loses its middle.
const MAX_TEXT: usize = 4_000;

/// The kinds of things that a folder's files activate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderItemKind {
    /// A command that runs at a certain moment of every turn.
    Hook,
    /// A tool whose call runs a command.
    Tool,
    /// An MCP server: a program that runs, or an address that is contacted.
    McpServer,
    /// Any other setting that an untrusted folder must not set.
    Setting,
    /// A setting or hook of a git repository, which git follows only in a trusted folder.
    GitSetting,
}

/// One thing that a folder's files would activate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderItem {
    pub kind: FolderItemKind,
    /// The name of the hook or tool, or the key of the setting.
    pub name: String,
    /// When it runs or what it sets, and where that is written.
    pub detail: String,
    /// The command that it runs.
    pub command: Option<String>,
    /// Whether a user sees all of it. Otherwise the folder must not be trusted.
    pub is_complete: bool,
}

impl FolderItem {
    /// Creates an item whose texts are safe to show: invisible characters are visible, and long texts are cut.
    pub fn new(kind: FolderItemKind, name: &str, detail: &str, command: Option<String>) -> Self {
        let mut is_complete = true;
        let mut show = |text: &str| {
            let (text, is_cut) = reveal_and_truncate(text);
            is_complete &= !is_cut;
            text
        };
        Self {
            kind,
            name: show(name),
            detail: show(detail),
            command: command.map(|command| show(&command)),
            is_complete,
        }
    }

    /// Creates the note that stands for items that are not listed.
    pub fn new_omission(kind: FolderItemKind, detail: &str) -> Self {
        Self {
            is_complete: false,
            ..Self::new(kind, "…", detail, None)
        }
    }
}

/// An MCP server that a folder's files name, as they state it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FolderMcpServer {
    pub(super) name: String,
    /// The program that would run, or the address.
    pub(super) target: String,
    /// The file, relative to the folder.
    pub(super) source: String,
}

/// Lists the MCP servers that the files of the folder at `root` name.
pub(super) fn folder_mcp_servers(folder: &SpannedValue, root: &Path) -> Vec<FolderMcpServer> {
    let Some(Node::Table(servers)) = folder.find(&["mcp"]).map(|tree| &tree.node) else {
        return Vec::new();
    };
    let described = servers.iter().filter_map(|(name, entry)| {
        // Without either, the entry only adjusts a server.
        let stated = entry.find(&["command"]).or_else(|| entry.find(&["url"]))?;
        let target = server_command(entry).unwrap_or_else(|| command_text(stated));
        Some(FolderMcpServer {
            name: reveal_and_truncate(name).0,
            target: reveal_and_truncate(&target).0,
            source: stated.at.format_source(root),
        })
    });
    described.take(MAX_ITEMS).collect()
}

/// Lists what the folder at `root` would activate. `folder` holds its merged files, and `unusable` the settings in them
/// that are invalid now. `user` is the user's own file.
pub(super) fn folder_items<'a>(
    mut folder: SpannedValue,
    unusable: impl IntoIterator<Item = &'a String>,
    user: &SpannedValue,
    root: &Path,
) -> Vec<FolderItem> {
    let mut items = take_commands(&mut folder, FolderItemKind::Hook, root);
    items.extend(take_commands(&mut folder, FolderItemKind::Tool, root));
    items.extend(take_mcp_servers(&mut folder, user, root));
    for (path, value) in trust::take_refused(&mut folder, user) {
        collect_settings(&path, &value, root, &mut items);
    }
    // Listed too: an invalid setting may become valid later, for example when its variable is set.
    for path in unusable {
        if trust::is_forbidden(path) {
            let detail = "is set, but invalid".to_owned();
            items.push(build_item(FolderItemKind::Setting, path, detail, None));
        }
    }
    if items.len() > MAX_ITEMS {
        // One place is for the note itself.
        let more = items.len() - (MAX_ITEMS - 1);
        items.truncate(MAX_ITEMS - 1);
        let detail = format!("{more} more are not listed, so the folder cannot be trusted here");
        items.push(FolderItem::new_omission(FolderItemKind::Setting, &detail));
    }
    items
}

/// Returns a hash of all settings in a folder's files that only trust may activate, as they are written. Where they are
/// written does not matter.
pub(super) fn compute_fingerprint(folder: &SpannedValue) -> String {
    let mut text = String::new();
    collect_trusted(folder, "", &mut text);
    sha256(text.as_bytes())
}

fn collect_trusted(value: &SpannedValue, path: &str, text: &mut String) {
    if !path.is_empty() && find_trust_rule(path).untrusted != Untrusted::Any {
        text.push_str(&format!("{path:?} = {}\n", value.raw_json()));
    } else if let Node::Table(entries) = &value.node {
        for (key, value) in entries {
            collect_trusted(value, &join(path, key), text);
        }
    }
}

/// Removes the hooks, or the tools with a command, from the tree and lists them.
fn take_commands(folder: &mut SpannedValue, kind: FolderItemKind, root: &Path) -> Vec<FolderItem> {
    let (table, keys): (&str, &[&str]) = match kind {
        FolderItemKind::Hook => (
            "hook",
            &["on", "command", "tool", "timeout_s", "enabled", "sandbox"],
        ),
        _ => ("tool", &["command", "description", "schema", "effect", "sandbox"]),
    };
    let Node::Table(top) = &mut folder.node else {
        return Vec::new();
    };
    let Some(Node::Table(entries)) = top.get_mut(table).map(|tree| &mut tree.node) else {
        return Vec::new();
    };
    let mut items = Vec::new();
    for (name, entry) in entries {
        let at = entry.find(&["command"]).unwrap_or(entry).at.clone();
        // Without a command it only sets limits of a built-in tool.
        if kind == FolderItemKind::Tool && entry.find(&["command"]).is_none() {
            continue;
        }
        let mut details = Vec::new();
        let mut command = None;
        for key in keys {
            match entry.take(&[key]) {
                Some(value) if *key == "command" => command = Some(command_text(&value)),
                Some(value) => details.push(format!("{key} = {}", format_value(&value))),
                None => {}
            }
        }
        details.push(format_location(&at, root));
        items.push(build_item(kind, name, details.join(", "), command));
    }
    items
}

/// Removes the MCP servers from the tree and lists them.
fn take_mcp_servers(folder: &mut SpannedValue, user: &SpannedValue, root: &Path) -> Vec<FolderItem> {
    let Some(mut servers) = folder.take(&["mcp"]) else {
        return Vec::new();
    };
    let Node::Table(entries) = &mut servers.node else {
        return Vec::new();
    };
    let mut items = Vec::new();
    for (name, entry) in entries {
        let at = entry.find(&["command"]).unwrap_or(entry).at.clone();
        let states_server =
            |entry: &SpannedValue| entry.find(&["command"]).or(entry.find(&["url"])).is_some();
        let replaces = states_server(entry) && user.find(&["mcp", name]).is_some_and(states_server);
        let command = server_command(entry);
        if command.is_some() {
            entry.take(&["command"]);
            entry.take(&["args"]);
        }
        let mut details = Vec::new();
        if let Node::Table(settings) = &entry.node {
            details.extend(
                settings
                    .iter()
                    .map(|(key, value)| format!("{key} = {}", without_secrets(key, value.raw_json()))),
            );
        }
        if replaces {
            details.push("replaces your own server of this name".to_owned());
        }
        details.push(format_location(&at, root));
        items.push(build_item(
            FolderItemKind::McpServer,
            name,
            details.join(", "),
            command,
        ));
    }
    items
}

/// Hides what looks like a password or a token in a setting of an MCP server. Names of variables stay.
fn without_secrets(key: &str, mut value: Value) -> Value {
    match &mut value {
        Value::String(text) if text.contains("${") || key == "bearer_token_env" => {}
        Value::String(text) if key == "url" => *text = hide_secrets(text),
        Value::String(text) if is_credential(key, text) => *text = "hidden".to_owned(),
        Value::Object(members) => members
            .iter_mut()
            .for_each(|(name, value)| *value = without_secrets(name, value.take())),
        _ => {}
    }
    value
}

/// Returns the command of an MCP server with its arguments; `None` for one at an address.
fn server_command(entry: &SpannedValue) -> Option<String> {
    let command = command_text(entry.find(&["command"])?);
    match entry.find(&["args"]) {
        // As a list, so that the words stay apart.
        Some(args) => Some(format!("{command} {}", format_value(args))),
        None => Some(command),
    }
}

/// Returns a command as written: one text for the shell, or its words.
fn command_text(value: &SpannedValue) -> String {
    match (&value.raw, value.text()) {
        (Some(raw), _) => raw.to_string(),
        (None, Some(text)) => text.to_owned(),
        (None, None) => format_value(value),
    }
}

/// Adds the plain values below a path, one item each.
fn collect_settings(path: &str, value: &SpannedValue, root: &Path, items: &mut Vec<FolderItem>) {
    match &value.node {
        Node::Table(entries) => {
            for (key, value) in entries {
                collect_settings(&join(path, key), value, root, items);
            }
        }
        _ => {
            // A key that is written in the file is a secret, so the list does not repeat it.
            let is_key = path.starts_with("provider.") && path.ends_with(".api_key");
            let text = if is_key && value.raw.is_none() {
                "a key".to_owned()
            } else {
                format_value(value)
            };
            let detail = format!("{text}, {}", format_location(&value.at, root));
            items.push(build_item(FolderItemKind::Setting, path, detail, None));
        }
    }
}

/// Formats a value on one line, with the names of variables.
fn format_value(value: &SpannedValue) -> String {
    value.raw_json().to_string()
}

/// Formats where a value is written.
fn format_location(at: &ConfigLocation, root: &Path) -> String {
    let source = at.format_source(root);
    match &*at.origin {
        ValueSource::File(_) => format!("from {source}:{}", at.line),
        _ => format!("from {source}"),
    }
}

fn build_item(kind: FolderItemKind, name: &str, detail: String, command: Option<String>) -> FolderItem {
    FolderItem::new(kind, name, &detail, command)
}

/// Makes all characters visible and limits the length. Returns also whether the text was cut.
fn reveal_and_truncate(text: &str) -> (String, bool) {
    let text = reveal_hidden_characters(text);
    match cut_middle(&text, MAX_TEXT) {
        Some(cut) => (cut, true),
        None => (text.into_owned(), false),
    }
}
