//! Tool results that take too much of a history: which become stubs, which are shortened, and what stays of each.
//!
//! Pure. `compact` applies what is decided here.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::base::text::cut_middle;
use crate::context::sizes::{ContextSizes, RETAINED_MESSAGES};
use crate::context::tokens::{estimate_message_tokens, estimate_result_tokens, estimate_total_tokens};
use crate::domain::{Block, Role, ShortenedResult, ToolCallId, ToolResult};
use crate::provider::HistoryItem;

/// How many characters stay at most of a recent result that the window has no room for.
const SHORTENED_CHARACTERS: u64 = 4_000;

/// How many characters stay of it at least.
const LEAST_SHORTENED: u64 = 200;

/// The tokens of what says that a result was shortened, and where all of it is.
const LOCATION_TOKENS: u64 = 60;

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

/// Returns the index of the first of the last messages that always stay: at most [`RETAINED_MESSAGES`] with at most
/// `tokens` together, and everything that the model has not answered yet.
pub(super) fn find_retained(items: &[Arc<HistoryItem>], tokens: u64) -> usize {
    let answered = items
        .iter()
        .rposition(|item| item.message.role == Role::Assistant)
        .map_or(0, |at| at + 1);
    let mut left = tokens;
    let mut first = items.len();
    for item in items.iter().rev().take(RETAINED_MESSAGES) {
        let size = item.estimated_tokens(estimate_message_tokens);
        if size > left {
            break;
        }
        left -= size;
        first -= 1;
    }
    // The last message stays in any case.
    first.min(answered).min(items.len().saturating_sub(1))
}

/// Results that become stubs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StubPlan {
    pub calls: Vec<ToolCallId>,
    /// The tokens that this saves.
    pub saved: u64,
}

/// Chooses the results that become stubs so that the messages have at most `goal` tokens: the oldest large ones before
/// the last messages that always stay. What was read of files that were edited goes last.
pub fn choose_stubs(items: &[Arc<HistoryItem>], sizes: &ContextSizes, goal: u64) -> StubPlan {
    let old = &items[..find_retained(items, sizes.retained)];
    let needed = find_needed_calls(items);
    let (later, first): (Vec<_>, Vec<_>) =
        find_large_results(old, sizes.large_result).partition(|(id, _)| needed.contains(id));
    let excess = estimate_total_tokens(items).saturating_sub(goal);
    let mut plan = StubPlan::default();
    for (id, result) in first.into_iter().chain(later) {
        if plan.saved >= excess {
            break;
        }
        let stub = estimate_result_tokens(&stub_tool_result(result));
        plan.saved += estimate_result_tokens(result).saturating_sub(stub);
        plan.calls.push(id.clone());
    }
    plan
}

/// Returns the results that become stubs before a history above its room is summarized; empty if a summary is better:
/// because the conversation is not small, or because stubs would free little, or too little while a summary helps.
pub fn stubs_before_summary(
    items: &[Arc<HistoryItem>],
    sizes: &ContextSizes,
    summary_helps: bool,
) -> Vec<ToolCallId> {
    let plan = choose_stubs(items, sizes, sizes.goal);
    let after = estimate_total_tokens(items).saturating_sub(plan.saved);
    let is_enough = after <= sizes.room || !summary_helps;
    if sizes.stubs_first && is_enough && plan.saved > sizes.room / 10 {
        plan.calls
    } else {
        Vec::new()
    }
}

/// Recent results that keep only their start and their end.
#[derive(Clone, Debug, Default)]
pub struct ShorteningPlan<'a> {
    pub results: Vec<(&'a ToolCallId, &'a Arc<ToolResult>)>,
    /// The characters that stay of each.
    pub characters: usize,
}

/// Chooses results among the last messages, which always stay, to be shortened so that the messages have at most `goal`
/// tokens: the longest ones that are longer than their share.
pub fn plan_shortening<'a>(
    items: &'a [Arc<HistoryItem>],
    sizes: &ContextSizes,
    goal: u64,
) -> ShorteningPlan<'a> {
    let recent = &items[find_retained(items, sizes.retained)..];
    let mut results: Vec<_> = find_large_results(recent, sizes.large_result).collect();
    results.sort_by_key(|(_, result)| std::cmp::Reverse(result.text.len()));
    let tokens = |result: &ToolResult| estimate_result_tokens(result);
    let mut total = estimate_total_tokens(items);
    let others = total - results.iter().map(|(_, result)| tokens(result)).sum::<u64>();
    let share = goal.saturating_sub(others) / (results.len() as u64).max(1);
    let share = share.saturating_sub(LOCATION_TOKENS).saturating_mul(4);
    let characters = share.clamp(LEAST_SHORTENED, SHORTENED_CHARACTERS);
    let mut plan = ShorteningPlan {
        results: Vec::new(),
        characters: characters as usize,
    };
    for (id, result) in results {
        if total <= goal {
            break;
        }
        if result.text.len() as u64 > characters + characters / 4 + 4 * LOCATION_TOKENS {
            total -= tokens(result).saturating_sub(characters / 4 + LOCATION_TOKENS);
            plan.results.push((id, result));
        }
    }
    plan
}

/// How the line begins that ends a shortened result.
const SHORTENED: &str = "[shortened, because the context window has no room for more; ";

/// Returns where all of a result is, if it was shortened before.
pub fn find_location(shortened: &ToolResult) -> Option<String> {
    // Notes about media may follow. The text itself is untrusted.
    let mut notes = shortened
        .text
        .lines()
        .rev()
        .take_while(|line| line.starts_with('['));
    let location = notes.find_map(|line| line.strip_prefix(SHORTENED)?.strip_suffix(']'));
    location.map(str::to_owned)
}

/// Returns the start and the end of a long result; `location` says where all of it is.
pub fn shorten_result(
    call: &ToolCallId,
    result: &ToolResult,
    characters: usize,
    location: Option<String>,
) -> ShortenedResult {
    // The last line of an earlier shortening would be repeated.
    let earlier = result.text.rfind(&format!("\n{SHORTENED}"));
    let text = earlier.filter(|_| find_location(result).is_some());
    let text = text.map_or(&*result.text, |at| &result.text[..at]);
    let cut = cut_middle(text, characters).unwrap_or_else(|| text.to_owned());
    let location = location.unwrap_or_else(|| "make the call again for a part of it".to_owned());
    ShortenedResult {
        call: call.clone(),
        text: format!("{cut}\n{SHORTENED}{location}]"),
    }
}

/// Returns the calls whose large results are old enough to be replaced by stubs while there is still room; empty as
/// long as that would save less than [`STUB_BATCH_TOKENS`]. Files that were edited keep what was read of them.
pub fn outdated_results(items: &[Arc<HistoryItem>], sizes: &ContextSizes) -> Vec<ToolCallId> {
    let old = &items[..items.len().saturating_sub(RECENT_MESSAGES)];
    let needed = find_needed_calls(items);
    let outdated = find_large_results(old, sizes.large_result).filter(|(id, _)| !needed.contains(id));
    let (ids, tokens): (Vec<ToolCallId>, Vec<u64>) = outdated
        .map(|(id, result)| (id.clone(), estimate_result_tokens(result)))
        .unzip();
    if tokens.iter().sum::<u64>() < STUB_BATCH_TOKENS {
        return Vec::new();
    }
    ids
}

/// Returns the calls that name files which were edited.
fn find_needed_calls(items: &[Arc<HistoryItem>]) -> BTreeSet<&ToolCallId> {
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
    uses()
        .filter(|(_, _, input)| named_files(input).any(|path| edited.contains(path)))
        .map(|(id, _, _)| id)
        .collect()
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

/// Returns the results of more than `large` bytes that are not stubs yet, with their calls.
fn find_large_results(
    items: &[Arc<HistoryItem>],
    large: usize,
) -> impl Iterator<Item = (&ToolCallId, &Arc<ToolResult>)> {
    let blocks = items.iter().flat_map(|item| &item.message.content);
    blocks.filter_map(move |block| match block {
        Block::ToolResult { id, result } if is_large(result, large) => Some((id, result)),
        _ => None,
    })
}

fn is_large(result: &ToolResult, large: usize) -> bool {
    // A stub must not be replaced by another stub.
    !result.text.starts_with(STUB) && (result.text.len() > large || !result.media.is_empty())
}

const STUB: &str = "[left out to save room:";

/// How the line of a result begins that says where all of it is stored; see `tool::stored_output`.
const STORED: &str = "[the whole output has ";

pub(super) fn stub_tool_result(result: &ToolResult) -> ToolResult {
    let stored = result.text.lines().rev().find_map(|line| {
        let (_, location) = line.split_once(STORED)?;
        Some(format!("{}{}]", &STORED[1..], location.trim_end_matches(']')))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::context::History;
    use crate::domain::{Event, Message, ToolCallStatus, ToolCallUpdate};

    /// Returns a prompt, then a step for each list of lengths: calls with results of these lengths in characters.
    fn history(steps: &[&[usize]]) -> Vec<Arc<HistoryItem>> {
        let mut history = History::default();
        history.apply(&Event::Message(Arc::new(Message::user_text("read"))));
        for (step, lengths) in steps.iter().enumerate() {
            let call = |at: usize| format!("c{step}{at}");
            let content = (0..lengths.len()).map(|at| Block::ToolUse {
                id: call(at).as_str().into(),
                name: "read_file".to_owned(),
                input: Arc::new(json!({"path": format!("f{step}{at}")})),
                attached: None,
            });
            history.apply(&Event::Message(Arc::new(Message {
                role: Role::Assistant,
                content: content.collect(),
                ..Message::user_text("")
            })));
            for (at, length) in lengths.iter().enumerate() {
                let id = call(at).as_str().into();
                let status = ToolCallStatus::Completed;
                history.apply(&Event::ToolCall(ToolCallUpdate {
                    result: Some(Arc::new(ToolResult::ok("x".repeat(*length)))),
                    ..ToolCallUpdate::new(id, "read_file".to_owned(), String::new(), status)
                }));
            }
        }
        history.to_messages()
    }

    fn sizes(window: u64) -> ContextSizes {
        ContextSizes::new(window, window * 9 / 16, 0, 1.0)
    }

    fn stubs(items: &[Arc<HistoryItem>], sizes: &ContextSizes, goal: u64) -> Vec<String> {
        let calls = choose_stubs(items, sizes, goal).calls;
        calls.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_last_messages_stay_as_far_as_they_are_short() {
        let items = history(&[&[4_000], &[4_000], &[4_000], &[4_000]]);
        for (tokens, first) in [(u64::MAX, 3), (2_200, 5), (2_000, 7), (1_010, 8), (0, 8)] {
            assert_eq!(find_retained(&items, tokens), first, "{tokens}");
        }
        // What the model has not answered yet stays, whatever its length.
        let note = HistoryItem::new(Message::user_text("and more"));
        let items = [&items[..], &[note]].concat();
        assert_eq!(find_retained(&items, 0), 8);
        assert_eq!(find_retained(&items[..8], 0), 7, "an answer at the end");
        assert_eq!(find_retained(&items[..1], 0), 0);
        assert_eq!(find_retained(&[], 0), 0);
    }

    #[test]
    fn the_oldest_results_become_stubs_until_the_rest_fits() {
        let items = history(&[&[8_000], &[8_000, 100], &[8_000], &[8_000], &[8_000]]);
        let sizes = sizes(16_384);
        let total = estimate_total_tokens(&items);
        assert_eq!(stubs(&items, &sizes, total), [""; 0]);
        assert_eq!(stubs(&items, &sizes, total - 1), ["c00"]);
        assert_eq!(stubs(&items, &sizes, total - 3_000), ["c00", "c10"]);
        assert_eq!(stubs(&items, &sizes, 0), ["c00", "c10", "c20"]);
        let plan = choose_stubs(&items, &sizes, total - 3_000);
        assert!((3_900..4_000).contains(&plan.saved), "{plan:?}");
    }

    #[test]
    fn stubs_precede_a_summary_only_if_they_free_enough_of_a_small_window() {
        let items = history(&[&[9_000], &[9_000], &[9_000], &[9_000], &[9_000]]);
        let chosen =
            |window: u64, summary_helps| stubs_before_summary(&items, &sizes(window), summary_helps).len();
        assert_eq!(chosen(16_384, true), 4);
        // Even the last messages are too much.
        assert_eq!(chosen(2_048, true), 0);
        assert_eq!(chosen(2_048, false), 4);
        assert_eq!(chosen(200_000, false), 0);
        let short = history(&[&[400_usize][..]; 20]);
        assert_eq!(stubs_before_summary(&short, &sizes(4_096), false), []);
    }

    #[test]
    fn a_result_that_is_shortened_twice_names_all_of_it() {
        let call = ToolCallId::from("c");
        let long = ToolResult::ok("x".repeat(9_000));
        assert_eq!(find_location(&long), None);
        let stored = "[the whole output has 9000 bytes; read_file takes the path `output:c`]";
        for (location, named) in [
            (Some(stored), stored),
            (None, "make the call again for a part of it"),
        ] {
            let once = shorten_result(&call, &long, 4_000, location.map(str::to_owned));
            let once = ToolResult::ok(once.text);
            assert_eq!(find_location(&once).as_deref(), Some(named));
            let twice = shorten_result(&call, &once, 400, find_location(&once));
            let twice = ToolResult::ok(twice.text);
            assert_eq!(find_location(&twice).as_deref(), Some(named));
            assert!(twice.text.contains("[… 8600 characters cut …]"), "{}", twice.text);
            assert_eq!(twice.text.matches(SHORTENED).count(), 1);
            // A note about pictures may follow.
            let noted = ToolResult::ok(format!("{}\n[a picture is here; you cannot see it]", once.text));
            assert_eq!(find_location(&noted).as_deref(), Some(named));
            let stub = stub_tool_result(&noted).text;
            assert!(stub.ends_with(']') && !stub.ends_with("]]"), "{stub}");
        }
        let quoted = format!("{}\nlast line", shorten_result(&call, &long, 400, None).text);
        assert_eq!(find_location(&ToolResult::ok(quoted)), None);
    }

    #[test]
    fn recent_results_are_shortened_to_their_share_until_the_rest_fits() {
        let items = history(&[&[6_000; 12]]);
        let sizes = sizes(16_384);
        let plan = plan_shortening(&items, &sizes, 8_000);
        assert_eq!(plan.results.len(), 12);
        let after =
            estimate_total_tokens(&items) - 12 * (1_500 - plan.characters as u64 / 4 - LOCATION_TOKENS);
        assert!((7_000..=8_000).contains(&after), "{after}");
        // One that fits nowhere keeps something.
        let plan = plan_shortening(&items, &sizes, 0);
        assert_eq!((plan.results.len(), plan.characters), (12, 200));
        // No more than must go.
        let plan = plan_shortening(&items, &sizes, 17_000);
        assert_eq!((plan.results.len(), plan.characters), (3, 4_000));
        assert_eq!(plan_shortening(&items, &sizes, 20_000).results.len(), 0);
    }
}
