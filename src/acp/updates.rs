//! Single `session/update` notifications: values of the domain in the protocol's shapes. Keeps no state.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::error::translate_method_names;
use super::held_text::ChunkKind;
use crate::base::text::{prefix_within, reveal_hidden_characters, strip_control_characters};
use crate::base::uri;
use crate::domain::{
    Block, CircuitState, Cost, Event, FileLocation, Mode, PlanItem, PlanStatus, Reference, ToolCallStatus,
    ToolResult,
};
use crate::workspace::diff::{DiffSides, build_file_header};
use crate::workspace::prompts::PromptCommand;

/// Bytes of arguments beyond which they are left out: the content of the call shows what matters.
const MAX_INPUT: usize = 64 << 10;

/// The slash command that makes the history smaller.
pub(super) const COMPACT: &str = "compact";

/// Hunks of a diff that are shown as such. A file that has more than are left is text.
const MAX_HUNKS: usize = 200;

/// Returns the name of the update that carries a piece of a message.
pub(super) fn chunk_name(kind: ChunkKind) -> &'static str {
    match kind {
        ChunkKind::Text => "agent_message_chunk",
        ChunkKind::Thought => "agent_thought_chunk",
    }
}

/// Builds a piece of a message.
pub(super) fn text_chunk(update: &str, message: &str, text: &str) -> Value {
    json!({"sessionUpdate": update, "messageId": message, "content": text_block(text)})
}

/// Builds a block of text without control characters.
pub(super) fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": strip_control_characters(text)})
}

/// Converts a block of a user's message.
pub(super) fn user_block(block: &Block, cwd: &Path) -> Option<Value> {
    match block {
        Block::Text(text) => Some(text_block(text)),
        // The protocol has pictures only; the reference before a document names it.
        Block::Image(image) if image.is_document() => None,
        Block::Image(image) => {
            Some(json!({"type": "image", "mimeType": image.media_type, "data": &*image.data}))
        }
        // The text of the user names it.
        Block::Reference(reference) if reference.kind.is_from_server() => None,
        Block::Reference(reference) => Some(reference_link(reference, cwd)),
        Block::Reasoning { .. } | Block::ToolUse { .. } | Block::ToolResult { .. } => None,
    }
}

fn reference_link(reference: &Reference, cwd: &Path) -> Value {
    let mut uri = uri::uri_of(&cwd.join(&reference.path));
    if let Some((first, last)) = reference.lines {
        uri.push_str(&format!("#L{first}:{last}"));
    }
    json!({"type": "resource_link", "name": reference.path, "uri": uri})
}

/// Returns the kind of a tool, which selects its icon.
pub(super) fn tool_kind(name: &str) -> &'static str {
    match name {
        "read_file" | "read_skill" | "diagnostics" => "read",
        "write_file" | "edit_file" | "apply_patch" | "rename_symbol" | "fix_code" => "edit",
        "glob" | "grep" | "list_dir" | "find_symbol" | "find_references" | "go_to_definition" => "search",
        "bash" | "bash_output" | "bash_kill" => "execute",
        "web_fetch" | "web_search" => "fetch",
        "update_plan" | "delegate" => "think",
        _ => "other",
    }
}

/// Returns the status of a call. The protocol has one word for all ends but success.
pub(super) fn tool_status(status: ToolCallStatus) -> &'static str {
    match status {
        ToolCallStatus::Pending | ToolCallStatus::AwaitingApproval => "pending",
        ToolCallStatus::Running => "in_progress",
        ToolCallStatus::Completed => "completed",
        ToolCallStatus::Failed | ToolCallStatus::Denied | ToolCallStatus::Cancelled => "failed",
    }
}

/// Converts the arguments of a call, unless they are too long to show.
pub(super) fn raw_input(input: &Value) -> Option<Value> {
    (input.is_object() && input.to_string().len() <= MAX_INPUT).then(|| input.clone())
}

/// Converts the places that a call concerns.
pub(super) fn locations(places: &[FileLocation]) -> Vec<Value> {
    let place = |place: &FileLocation| {
        let path = uri::path_of(&place.uri).ok()?;
        let mut shown = json!({"path": path});
        if let Some(line) = place.line {
            shown["line"] = line.into();
        }
        Some(shown)
    };
    places.iter().filter_map(place).collect()
}

/// Wraps a text as content of a tool call.
pub(super) fn text_content(text: &str) -> Value {
    json!({"type": "content", "content": text_block(text)})
}

/// Wraps a text that a user approves as a block of code, so that it cannot hide a part of itself as Markdown does. Its
/// fence is longer than any in the text.
pub(super) fn code_content(language: &str, text: &str) -> Value {
    let text = reveal_hidden_characters(text);
    let runs = text.split(|ch| ch != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or_default().max(2) + 1);
    text_content(&format!("{fence}{language}\n{text}\n{fence}"))
}

/// Converts the result of a call.
pub(super) fn result_content(result: &ToolResult) -> Vec<Value> {
    let mut content = Vec::new();
    if !result.text.trim().is_empty() {
        content.push(text_content(&result.text));
    }
    content.extend(result.pictures().map(|image| {
        let image = json!({"type": "image", "mimeType": image.media_type, "data": &*image.data});
        json!({"type": "content", "content": image})
    }));
    content
}

/// Converts a unified diff to one block for each hunk, with the lines around the change.
///
/// A file stays text if it was removed empty, if it was moved, or if its diff was cut: the protocol has no block for these.
pub(super) fn diff_content(diff: &str, places: &[FileLocation], cwd: &Path) -> Vec<Value> {
    let diff = reveal_hidden_characters(diff);
    let places: Vec<PathBuf> = places
        .iter()
        .filter_map(|place| uri::path_of(&place.uri).ok())
        .collect();
    let files = split_files(&diff);
    let (mut content, mut room) = (Vec::new(), MAX_HUNKS);
    for file in &files {
        let [old, new] = read_header(file);
        let is_moved = old.zip(new).is_some_and(|(old, new)| old != new);
        let name = new.or(old);
        let path = name.and_then(|name| find_place(name, &places, cwd));
        // A header does not show every character of a name.
        let path = path.or_else(|| places.first().filter(|_| files.len() == 1).cloned());
        let path = path.or_else(|| Some(cwd.join(name?)));
        let hunks = path.map(|path| split_hunks(file, &path)).unwrap_or_default();
        if hunks.is_empty() || hunks.len() > room || is_moved || file.contains("\n[…") {
            content.push(code_content("diff", file));
        } else {
            room -= hunks.len();
            content.extend(hunks);
        }
    }
    content
}

/// Splits a unified diff before the names of each file. Lines of a hunk may look like these.
fn split_files(diff: &str) -> Vec<&str> {
    let (mut files, mut start, mut at) = (Vec::new(), 0, 0);
    // The lines that the hunk still has on its old and its new side.
    let mut rest = [0_usize; 2];
    for line in diff.split_inclusive('\n') {
        let sides: &[usize] = match line.as_bytes().first() {
            _ if rest == [0, 0] => {
                if line.starts_with("--- ") && at > start {
                    files.push(&diff[start..at]);
                    start = at;
                }
                rest = read_hunk_lengths(line).unwrap_or_default();
                &[]
            }
            Some(b'-') => &[0],
            Some(b'+') => &[1],
            Some(b'\\') => &[],
            // Where the diff was cut, the rest of the hunk is missing.
            Some(b'[') => {
                rest = [0, 0];
                &[]
            }
            Some(_) | None => &[0, 1],
        };
        for side in sides {
            rest[*side] = rest[*side].saturating_sub(1);
        }
        at += line.len();
    }
    files.extend((at > start).then(|| &diff[start..]));
    files
}

/// Reads how many lines a hunk has on each side: `@@ -1,2 +3 @@` → 2 and 1.
fn read_hunk_lengths(line: &str) -> Option<[usize; 2]> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(' ')?;
    let length = |range: &str| {
        range
            .split_once(',')
            .map_or(Some(1), |(_, length)| length.parse().ok())
    };
    Some([length(old)?, length(new)?])
}

/// Reads the old and the new name of a file from the header of its diff.
fn read_header(diff: &str) -> [Option<&str>; 2] {
    let mut lines = diff.lines();
    ["--- a/", "+++ b/"].map(|mark| lines.next()?.strip_prefix(mark))
}

/// Finds the file of a header among the places of the call. The header of a file elsewhere lacks the first slash.
fn find_place(name: &str, places: &[PathBuf], cwd: &Path) -> Option<PathBuf> {
    let folders = [cwd, Path::new("/")];
    let paths = folders.map(|folder| folder.join(name));
    let exact = paths.into_iter().find(|path| places.contains(path));
    // The header shows hidden characters of a name. The client opens the file by its real one.
    let to_header = |name: &str| build_file_header(name, DiffSides::OnlyNew);
    let is_shown = |path: &&PathBuf| {
        let mut names = folders
            .iter()
            .filter_map(|folder| path.strip_prefix(folder).ok()?.to_str());
        names.any(|rest| to_header(rest) == to_header(name))
    };
    exact.or_else(|| places.iter().find(is_shown).cloned())
}

fn split_hunks(diff: &str, path: &Path) -> Vec<Value> {
    let is_new = diff.starts_with("--- /dev/null");
    let mut hunks = Vec::new();
    let mut sides: Option<(String, String)> = None;
    let finish = |sides: Option<(String, String)>, hunks: &mut Vec<Value>| {
        if let Some((old, new)) = sides {
            let old = (!is_new).then_some(old);
            hunks.push(json!({"type": "diff", "path": path, "oldText": old, "newText": new}));
        }
    };
    let mut last = b' ';
    for line in diff.split_inclusive('\n') {
        if line.starts_with("@@ ") {
            finish(sides.replace(Default::default()), &mut hunks);
            continue;
        }
        let Some((old, new)) = &mut sides else {
            continue;
        };
        let Some((mark, text)) = line.as_bytes().first().zip(line.get(1..)) else {
            continue;
        };
        if *mark == b'\\' {
            // The line before has no line feed at its end.
            [(old, b'+'), (new, b'-')]
                .into_iter()
                .filter(|(_, other)| last != *other)
                .for_each(|(side, _)| side.truncate(side.len().saturating_sub(1)));
            continue;
        }
        last = *mark;
        if last != b'+' {
            old.push_str(text);
        }
        if last != b'-' {
            new.push_str(text);
        }
    }
    // A file that is created empty has no hunk.
    finish(sides.or_else(|| is_new.then(Default::default)), &mut hunks);
    hunks
}

/// Converts the whole plan.
pub(super) fn plan(items: &[PlanItem]) -> Value {
    let entry = |item: &PlanItem| {
        let status = match item.status {
            PlanStatus::Pending => "pending",
            PlanStatus::InProgress => "in_progress",
            PlanStatus::Completed => "completed",
        };
        json!({"content": item.text, "priority": "medium", "status": status})
    };
    json!({"sessionUpdate": "plan", "entries": items.iter().map(entry).collect::<Vec<_>>()})
}

/// Converts an event that says how full the context is. `last` keeps the window and the cost, which a compaction does not
/// know.
pub(super) fn usage(event: &Event, last: &mut Option<(u64, Option<Cost>)>) -> Option<Value> {
    let used = match event {
        Event::Usage {
            context_used,
            window,
            session_cost,
            ..
        } => {
            *last = Some((*window, *session_cost));
            *context_used
        }
        // Early records lack the number.
        Event::Compacted(compaction) if compaction.tokens_after > 0 => compaction.tokens_after,
        _ => return None,
    };
    let (window, cost) = (*last)?;
    let mut update = json!({"sessionUpdate": "usage_update", "used": used, "size": window});
    if let Some(cost) = cost {
        update["cost"] = json!({"amount": cost.to_usd(), "currency": "USD"});
    }
    Some(update)
}

/// Converts the session's title.
pub(super) fn title(title: &str) -> Value {
    json!({"sessionUpdate": "session_info_update", "title": title})
}

/// Converts the session's mode.
pub(super) fn current_mode(mode: Mode) -> Value {
    json!({"sessionUpdate": "current_mode_update", "currentModeId": mode.name()})
}

/// Converts the slash commands; `/compact` is ours.
pub(super) fn commands<'a>(commands: impl Iterator<Item = &'a PromptCommand>) -> Value {
    let mut list = vec![json!({
        "name": COMPACT,
        "description": "Make the history smaller: a summary replaces its older part",
        "input": {"hint": "what the summary must keep"},
    })];
    let usable = commands.filter(|command| command.problem.is_none());
    list.extend(usable.map(|command| {
        let description = command.description.as_deref().unwrap_or("A prompt of your own");
        let mut shown = json!({"name": command.name, "description": description});
        if let Some(hint) = &command.argument_hint {
            shown["input"] = json!({"hint": hint});
        }
        shown
    }));
    json!({"sessionUpdate": "available_commands_update", "availableCommands": list})
}

/// Something that the user should know while the turn goes on.
#[derive(Debug)]
pub(super) struct Notice {
    pub(super) severity: &'static str,
    pub(super) title: String,
    pub(super) description: Option<String>,
    /// The machine-readable form.
    pub(super) meta: Value,
}

impl Notice {
    /// Builds a notice of an event that has nothing but a text.
    pub(super) fn new(severity: &'static str, event: &str, title: impl Into<String>) -> Self {
        Self {
            severity,
            title: title.into(),
            description: None,
            meta: json!({"event": event}),
        }
    }

    /// Converts an event that only informs; `None` for all others.
    pub(super) fn from_event(event: &Event) -> Option<Self> {
        Some(match event {
            Event::Retry {
                provider,
                model,
                attempt,
                max_retries,
                delay_ms,
                resume_at,
                error,
                next,
            } => Self {
                description: Some(format!("If it fails again: {next}")),
                meta: json!({
                    "event": "retry", "provider": provider, "model": model, "attempt": attempt,
                    "maxRetries": max_retries, "delayMs": delay_ms, "resumeAt": resume_at,
                    "code": error.code.name(), "next": next,
                }),
                ..Self::new(
                    "warning",
                    "retry",
                    format!(
                        "{}; trying again in {:.1} s",
                        error.describe(),
                        *delay_ms as f64 / 1_000.0
                    ),
                )
            },
            Event::Wait { why, until } => Self {
                meta: json!({"event": "wait", "why": why, "until": until}),
                ..Self::new("info", "wait", format!("Waiting: {why}"))
            },
            Event::ModelSwitched { from, to, why } => Self {
                meta: json!({"event": "modelSwitched", "from": from, "to": to}),
                ..Self::new(
                    "warning",
                    "modelSwitched",
                    format!("{to} answers from now on, instead of {from}: {why}"),
                )
            },
            Event::Circuit {
                name, state, until, ..
            } => {
                let (severity, text) = match state {
                    CircuitState::Closed => ("info", "is called again"),
                    CircuitState::HalfOpen => ("info", "is tried again"),
                    CircuitState::Open => ("warning", "failed too often and is not called for a while"),
                };
                Self {
                    meta: json!({"event": "circuit", "name": name, "state": state.name(), "until": until}),
                    ..Self::new(severity, "circuit", format!("{name} {text}"))
                }
            }
            Event::Compacted(compaction) => Self {
                meta: json!({
                    "event": "compacted", "trigger": compaction.trigger.name(),
                    "tokensBefore": compaction.tokens_before, "tokensAfter": compaction.tokens_after,
                }),
                ..Self::new(
                    "info",
                    "compacted",
                    format!(
                        "The history was made smaller: {} tokens became {}",
                        compaction.tokens_before, compaction.tokens_after
                    ),
                )
            },
            Event::Warning { code, message } => Self {
                meta: json!({"event": "warning", "code": code}),
                ..Self::new("warning", "warning", message.clone())
            },
            Event::Nested(nested) => {
                let inner = Self::from_event(&nested.event)?;
                Self {
                    title: format!("Sub-agent: {}", inner.title),
                    ..inner
                }
            }
            _ => return None,
        })
    }

    /// Builds the update: a notice if the client shows them, else a thought with the id `message`.
    pub(super) fn into_update(self, shows_notices: bool, message: &str) -> Value {
        let mut meta = Map::new();
        meta.insert("agentls".to_owned(), self.meta);
        let title = strip_control_characters(prefix_within(&self.title, 2_000));
        let title = translate_method_names(&title);
        if shows_notices {
            let mut update = json!({
                "sessionUpdate": "notice", "severity": self.severity, "title": title, "_meta": meta,
            });
            if let Some(description) = self.description {
                update["description"] = description.into();
            }
            return update;
        }
        let text = match self.description {
            Some(description) => format!("{title}. {description}\n\n"),
            None => format!("{title}\n\n"),
        };
        let mut update = text_chunk(chunk_name(ChunkKind::Thought), message, &text);
        update["_meta"] = meta.into();
        update
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{AgentError, ErrorCode};
    use crate::workspace::diff::build_unified_diff;

    #[test]
    fn a_retry_names_the_cause() {
        let error = AgentError::new(ErrorCode::ProviderError, "mock API error").with_cause("Overloaded");
        let retry = Event::Retry {
            provider: "mock".to_owned(),
            model: "m".to_owned(),
            attempt: 1,
            max_retries: 3,
            delay_ms: 1_100,
            resume_at: 0,
            error,
            next: "2 more attempts".to_owned(),
        };
        let notice = Notice::from_event(&retry).unwrap();
        assert_eq!(notice.title, "mock API error: Overloaded; trying again in 1.1 s");
    }

    #[test]
    fn a_diff_becomes_its_hunks() {
        let old = (1..=40).map(|n| format!("line {n}\n")).collect::<String>();
        let new = old.replace("line 5\n", "five\n").replace("line 40\n", "forty");
        let diff = build_unified_diff("src/a.txt", DiffSides::Both, &old, &new).text;
        let hunks = diff_content(&diff, &[], Path::new("/w"));
        assert_eq!(hunks.len(), 2, "{hunks:?}");
        assert_eq!(hunks[0]["path"], "/w/src/a.txt");
        assert_eq!(
            hunks[0]["newText"],
            "line 2\nline 3\nline 4\nfive\nline 6\nline 7\nline 8\n"
        );
        assert!(hunks[1]["oldText"].as_str().unwrap().ends_with("line 40\n"));
        assert!(hunks[1]["newText"].as_str().unwrap().ends_with("forty"));
    }

    #[test]
    fn a_new_file_has_no_old_text() {
        let diff = build_unified_diff("a.txt", DiffSides::OnlyNew, "", "x\n").text;
        let place = FileLocation {
            uri: "file:///w/a.txt".to_owned(),
            line: None,
        };
        assert_eq!(
            diff_content(&diff, &[place], Path::new("/")),
            [json!({"type": "diff", "path": "/w/a.txt", "oldText": null, "newText": "x\n"})]
        );
        assert!(diff_content("", &[], Path::new("/")).is_empty());
    }

    #[test]
    fn each_file_of_a_diff_is_shown_by_itself() {
        let place = |path: &str| FileLocation {
            uri: format!("file://{path}"),
            line: None,
        };
        let diff = |path: &str, sides, old: &str, new: &str| build_unified_diff(path, sides, old, new).text;
        let item = |path: &str, old: Value, new: &str| json!({"type": "diff", "path": path, "oldText": old, "newText": new});
        let moved = "--- a/b.txt\n+++ b/c.txt\n@@ -1 +1 @@\n-x\n+y\n";
        let big = "x".repeat(16 << 20);
        let too_large = diff("big.txt", DiffSides::Both, &big, "y");
        let cut = "--- a/cut.txt\n+++ b/cut.txt\n@@ -1,9 +1,9 @@\n x\n[… 8 more lines of this diff are not shown …]\n";
        let as_text = |diff: &str| text_content(&format!("```diff\n{diff}\n```"));
        let cases = [
            // Its lines look like the names of files.
            (
                diff("a.sql", DiffSides::Both, "-- a\nb\n", "++ a\nb\n"),
                item("/w/a.sql", json!("-- a\nb\n"), "++ a\nb\n"),
            ),
            (
                diff("end.txt", DiffSides::Both, "x\n", "y"),
                item("/w/end.txt", json!("x\n"), "y"),
            ),
            (
                diff("new.txt", DiffSides::OnlyNew, "", "x\n"),
                item("/w/new.txt", json!(null), "x\n"),
            ),
            (
                diff("sub/a.sql", DiffSides::OnlyOld, "gone", ""),
                item("/w/sub/a.sql", json!("gone"), ""),
            ),
            (
                diff("/etc/x", DiffSides::Both, "1\n", "2\n"),
                item("/etc/x", json!("1\n"), "2\n"),
            ),
            (moved.to_owned(), as_text(moved)),
            (too_large.clone(), as_text(&too_large)),
            (cut.to_owned(), as_text(cut)),
            (
                "--- /dev/null\n+++ b/empty\n".to_owned(),
                item("/w/empty", json!(null), ""),
            ),
            (
                "--- a/bye\n+++ /dev/null\n".to_owned(),
                as_text("--- a/bye\n+++ /dev/null\n"),
            ),
        ];
        let places = ["/w/sub/a.sql", "/w/a.sql", "/w/b.txt", "/etc/x"].map(place);
        let whole: String = cases.iter().map(|(diff, _)| diff.as_str()).collect();
        let shown = diff_content(&whole, &places, Path::new("/w"));
        let wanted: Vec<Value> = cases.into_iter().map(|(_, shown)| shown).collect();
        assert_eq!(shown, wanted);
        // The header does not show a line feed of the name.
        let odd = diff("a\nb", DiffSides::OnlyNew, "", "x\n");
        assert_eq!(
            diff_content(&odd, &[place("/w/a%0Ab")], Path::new("/w")),
            [item("/w/a\nb", json!(null), "x\n")]
        );
    }

    #[test]
    fn a_text_cannot_end_its_block_of_code() {
        let diff = "--- a/a.md\n+++ b/b.md\n@@ -1,2 +1,2 @@\n ```\n-x\n+y ``\n";
        let shown = diff_content(diff, &[], Path::new("/w"));
        assert_eq!(shown, [text_content(&format!("````diff\n{diff}\n````"))]);
    }

    #[test]
    fn a_file_of_very_many_hunks_is_text_and_the_others_are_not() {
        let lines = |changed: &str| -> String {
            let line = |n: usize| if n.is_multiple_of(10) { changed } else { "same\n" };
            (0..=10 * MAX_HUNKS).map(line).collect()
        };
        let small = |n: usize| build_unified_diff(&format!("{n}.txt"), DiffSides::OnlyNew, "", "x\n").text;
        let large = build_unified_diff("big.txt", DiffSides::Both, &lines("old\n"), &lines("new\n")).text;
        let shown = diff_content(
            &[small(1), large.clone(), small(2)].concat(),
            &[],
            Path::new("/w"),
        );
        assert_eq!((shown.len(), &shown[0]["path"]), (3, &json!("/w/1.txt")));
        assert_eq!(shown[1], text_content(&format!("```diff\n{large}\n```")));
        assert_eq!(shown[2]["path"], "/w/2.txt");
        let many: String = (0..=MAX_HUNKS).map(small).collect();
        let shown = diff_content(&many, &[], Path::new("/w"));
        let count = |kind: &str| shown.iter().filter(|item| item["type"] == kind).count();
        assert_eq!((count("diff"), count("content")), (MAX_HUNKS, 1));
    }

    #[test]
    fn a_file_with_hidden_characters_in_its_name_is_shown_under_its_real_path() {
        let names = ["ü\u{202e}.txt", "sub/a\u{200b}b.txt", "/etc/\u{1b}x"];
        let diff = |name: &&str| build_unified_diff(name, DiffSides::OnlyNew, "", "x\n").text;
        let whole: String = names.iter().map(diff).collect();
        let paths = names.map(|name| Path::new("/w").join(name));
        let place = |path: &PathBuf| FileLocation {
            uri: uri::uri_of(path),
            line: None,
        };
        let shown = diff_content(&whole, &paths.each_ref().map(place), Path::new("/w"));
        let shown: Vec<&Value> = shown.iter().map(|item| &item["path"]).collect();
        assert_eq!(shown, paths.each_ref().map(|path| json!(path)).each_ref());
    }
}
