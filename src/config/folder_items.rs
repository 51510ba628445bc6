//! What a folder's own files would activate if the folder were trusted: for the person who decides about it.
//!
//! Invariants: every text is shown as the file has it (no variable is put in), nothing invisible stays invisible, and
//! nothing is cut without saying so. Reads only what `layers` has parsed; starts nothing.

use std::path::Path;

use crate::base::text::{cut_middle, reveal_hidden_characters};

use super::tree::{ConfigLocation, Node, Source, SpannedValue, join};
use super::trust;

/// How many items are listed at most.
const MAX_ITEMS: usize = 200;
/// The longest text of an item, in characters; its middle is cut.
const MAX_TEXT: usize = 2_000;

/// What kind of thing a folder's files activate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderItemKind {
    /// A command that runs at a moment of every turn.
    Hook,
    /// A tool whose call runs a command.
    Tool,
    /// Any other setting that an untrusted folder may not set.
    Setting,
}

/// One thing that a folder's files activate where the folder is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderItem {
    /// What it is.
    pub kind: FolderItemKind,
    /// The hook's or tool's name, or the setting's key.
    pub name: String,
    /// When it runs, or what is set; and where that is written.
    pub detail: String,
    /// What it runs.
    pub command: Option<String>,
}

/// What the folder at `root` would activate. `folder`: what its files say, each later one over the earlier; `unusable`:
/// settings that they state and that cannot be used now; `user`: the user's own file.
pub(super) fn folder_items<'a>(
    mut folder: SpannedValue,
    unusable: impl IntoIterator<Item = &'a String>,
    user: &SpannedValue,
    root: &Path,
) -> Vec<FolderItem> {
    let mut items = take_commands(&mut folder, FolderItemKind::Hook, root);
    items.extend(take_commands(&mut folder, FolderItemKind::Tool, root));
    for (path, value) in trust::take_refused(&mut folder, user) {
        collect_settings(&path, &value, root, &mut items);
    }
    for path in unusable {
        if trust::is_forbidden(path) {
            let detail = "is set, but invalid".to_owned();
            items.push(build_item(FolderItemKind::Setting, path, detail, None));
        }
    }
    if items.len() > MAX_ITEMS {
        let more = items.len() - (MAX_ITEMS - 1);
        items.truncate(MAX_ITEMS - 1);
        let detail =
            format!("{more} more are not listed; read the folder's `.agentls` files before you trust it");
        items.push(build_item(FolderItemKind::Setting, "…", detail, None));
    }
    items
}

/// Takes the hooks, or the tools that are commands, out of the tree.
fn take_commands(folder: &mut SpannedValue, kind: FolderItemKind, root: &Path) -> Vec<FolderItem> {
    let (table, keys): (&str, &[&str]) = match kind {
        FolderItemKind::Hook => ("hook", &["on", "command", "tool", "timeout_s", "enabled"]),
        _ => ("tool", &["command", "description", "schema", "effect"]),
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
        if kind == FolderItemKind::Tool && entry.find(&["command"]).is_none() {
            continue;
        }
        let mut said = Vec::new();
        let mut command = None;
        for key in keys {
            match entry.take(&[key]) {
                Some(value) if *key == "command" => command = Some(command_text(&value)),
                Some(value) => said.push(format!("{key} = {}", format_value(&value))),
                None => {}
            }
        }
        said.push(format_location(&at, root));
        items.push(build_item(kind, name, said.join(", "), command));
    }
    items
}

/// A command as it is run: one text for the shell, or its words.
fn command_text(value: &SpannedValue) -> String {
    match (&value.raw, value.text()) {
        (Some(raw), _) => raw.to_string(),
        (None, Some(text)) => text.to_owned(),
        (None, None) => format_value(value),
    }
}

/// The plain values below a path, one item each.
fn collect_settings(path: &str, value: &SpannedValue, root: &Path, items: &mut Vec<FolderItem>) {
    match &value.node {
        Node::Table(entries) => {
            for (key, value) in entries {
                collect_settings(&join(path, key), value, root, items);
            }
        }
        _ => {
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

/// A value on one line, with the names of variables.
fn format_value(value: &SpannedValue) -> String {
    value.raw_json().to_string()
}

/// Where a value is written.
fn format_location(at: &ConfigLocation, root: &Path) -> String {
    match &*at.origin {
        Source::File(file) => {
            let file = file.strip_prefix(root).unwrap_or(file);
            format!("from {}:{}", file.display(), at.line)
        }
        other => format!("from {other}"),
    }
}

fn build_item(kind: FolderItemKind, name: &str, detail: String, command: Option<String>) -> FolderItem {
    FolderItem {
        kind,
        name: reveal_and_truncate(name),
        detail: reveal_and_truncate(&detail),
        command: command.map(|command| reveal_and_truncate(&command)),
    }
}

/// With everything visible, and of bounded length.
fn reveal_and_truncate(text: &str) -> String {
    let text = reveal_hidden_characters(text);
    cut_middle(&text, MAX_TEXT).unwrap_or_else(|| text.into_owned())
}
