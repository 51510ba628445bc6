//! Tool results that take too much of a history: which become stubs, which are shortened, and what stays of each.
//!
//! Pure. `compact` applies what is decided here.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::base::text::cut_middle;
use crate::context::tokens::estimate_result_tokens;
use crate::domain::{Block, ShortenedResult, ToolCallId, ToolResult};
use crate::provider::HistoryItem;

/// How many of the last messages always stay verbatim (R-CTX-2).
pub(super) const RETAINED_MESSAGES: usize = 6;

/// The length in bytes above which a tool result counts as large.
const LARGE: usize = 2_000;

/// How many characters stay of a recent result that the window has no room for.
const SHORTENED_CHARACTERS: usize = 4_000;

/// How many of the last messages keep large results that are replaced by stubs while there is still room.
const RECENT_MESSAGES: usize = 20;
/// How many tokens such stubs must save together. Each replacement changes what a provider has cached.
const STUB_BATCH_TOKENS: u64 = 50_000;

/// Tools that change files.
pub(super) const EDITING_TOOLS: [&str; 5] = [
    "edit_file",
    "write_file",
    "apply_patch",
    "rename_symbol",
    "fix_code",
];

/// Returns the calls with large results outside the last [`RETAINED_MESSAGES`] messages that are not stubs yet.
pub fn large_results(items: &[Arc<HistoryItem>]) -> Vec<ToolCallId> {
    find_large_results(items, RETAINED_MESSAGES)
        .map(|(id, _)| id.clone())
        .collect()
}

/// Returns the results within the last [`RETAINED_MESSAGES`] messages that are much longer than shortened ones, with
/// their calls.
pub fn long_recent_results(
    items: &[Arc<HistoryItem>],
) -> impl Iterator<Item = (&ToolCallId, &Arc<ToolResult>)> {
    let recent = items.len().saturating_sub(RETAINED_MESSAGES);
    let blocks = items[recent..].iter().flat_map(|item| &item.message.content);
    blocks.filter_map(|block| match block {
        Block::ToolResult { id, result } if result.text.len() > 2 * SHORTENED_CHARACTERS => {
            Some((id, result))
        }
        _ => None,
    })
}

/// Returns the start and the end of a long result; `location` says where all of it is.
pub fn shorten_result(call: &ToolCallId, result: &ToolResult, location: Option<String>) -> ShortenedResult {
    let cut = cut_middle(&result.text, SHORTENED_CHARACTERS).unwrap_or_else(|| result.text.clone());
    let location = location.unwrap_or_else(|| "make the call again for a part of it".to_owned());
    ShortenedResult {
        call: call.clone(),
        text: format!("{cut}\n[shortened, because the context window has no room for more; {location}]"),
    }
}

/// Returns the calls whose large results are old enough to be replaced by stubs while there is still room; empty as
/// long as that would save less than [`STUB_BATCH_TOKENS`]. Files that were edited keep what was read of them.
pub fn outdated_results(items: &[Arc<HistoryItem>]) -> Vec<ToolCallId> {
    let uses = || {
        let blocks = items.iter().flat_map(|item| &item.message.content);
        blocks.filter_map(|block| match block {
            Block::ToolUse { id, name, input, .. } => Some((id, name.as_str(), &**input)),
            _ => None,
        })
    };
    let edited: BTreeSet<&str> = uses()
        .filter(|(_, name, _)| EDITING_TOOLS.contains(name))
        .flat_map(|(_, _, input)| named_files(input))
        .collect();
    let needed: BTreeSet<&ToolCallId> = uses()
        .filter(|(_, _, input)| named_files(input).any(|path| edited.contains(path)))
        .map(|(id, _, _)| id)
        .collect();
    let outdated = find_large_results(items, RECENT_MESSAGES).filter(|(id, _)| !needed.contains(id));
    let (ids, tokens): (Vec<ToolCallId>, Vec<u64>) = outdated
        .map(|(id, result)| (id.clone(), estimate_result_tokens(result)))
        .unzip();
    if tokens.iter().sum::<u64>() < STUB_BATCH_TOKENS {
        return Vec::new();
    }
    ids
}

/// Returns the files that the arguments of a call name: in the field `path`, or in the lines of a patch.
pub(super) fn named_files(input: &Value) -> impl Iterator<Item = &str> {
    const MARKS: [&str; 4] = [
        "*** Update File:",
        "*** Add File:",
        "*** Delete File:",
        "*** Move to:",
    ];
    let text = |field: &str| input.get(field).and_then(Value::as_str);
    let lines = text("patch").unwrap_or_default().lines();
    let of_patch = lines.filter_map(|line| MARKS.iter().find_map(|mark| line.strip_prefix(mark)));
    text("path").into_iter().chain(of_patch.map(str::trim))
}

/// Returns the large results outside the last `recent` messages that are not stubs yet, with their calls.
fn find_large_results(
    items: &[Arc<HistoryItem>],
    recent: usize,
) -> impl Iterator<Item = (&ToolCallId, &ToolResult)> {
    let old = items.len().saturating_sub(recent);
    let results = items[..old].iter().flat_map(|item| &item.message.content);
    results.filter_map(|block| match block {
        Block::ToolResult { id, result } if is_large(result) => Some((id, &**result)),
        _ => None,
    })
}

fn is_large(result: &ToolResult) -> bool {
    // A stub must not be replaced by another stub.
    !result.text.starts_with(STUB) && (result.text.len() > LARGE || !result.media.is_empty())
}

const STUB: &str = "[left out to save room:";

/// How the line of a result begins that says where all of it is stored; see `tool::stored_output`.
const STORED: &str = "[the whole output has ";

pub(super) fn stub_tool_result(result: &ToolResult) -> ToolResult {
    let stored = result.text.lines().rev().find_map(|line| {
        let (_, location) = line.split_once(STORED)?;
        Some(format!("{}{location}", &STORED[1..]))
    });
    let location = stored.unwrap_or_else(|| {
        "if you need it, make the call again, for a part of it if that is enough]".to_owned()
    });
    let length = result.text.chars().count();
    let text = format!("{STUB} a result of {length} characters; {location}");
    ToolResult {
        text,
        media: Vec::new(),
        is_error: result.is_error,
        full: result.full.clone(),
    }
}
