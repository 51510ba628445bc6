//! References to cut texts, and their resolution for `agent/readContent`.
//!
//! `e:<seq>:<path>` is a field of an event; `c:<name>` is content that a session keeps in a file.
//!
//! Invariant: the resolved text is exactly the shown one, so that offsets match those of the cut field.

use std::borrow::Cow;

use super::sanitize::{readable_diff, readable_subject, sanitize_output, to_json};
use super::truncate::FieldBudget;
use super::{message, values};
use crate::domain::{Block, Event, InquiryReply, PlanItem, RequestSubject};
use crate::protocol::ReadContentResult;

/// Bytes that `agent/readContent` returns by default.
pub const DEFAULT_LIMIT: u64 = 64 * 1024;

/// Bytes that `agent/readContent` returns at most.
pub const MAX_LIMIT: u64 = 1024 * 1024;

/// The target of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentPointer {
    /// A field of an event; [`extract_field`] reads it.
    Event {
        /// Number of the event.
        seq: u64,
        /// Path of the field.
        path: String,
    },
    /// Content kept in a file of this name, which the store reads.
    Kept(String),
}

impl ContentPointer {
    /// Parses a reference; returns `None` for a foreign one.
    pub fn parse(reference: &str) -> Option<Self> {
        if let Some(name) = reference.strip_prefix("c:") {
            return Some(Self::Kept(name.to_owned()));
        }
        let (seq, path) = reference.strip_prefix("e:")?.split_once(':')?;
        Some(Self::Event {
            seq: seq.parse().ok()?,
            path: path.to_owned(),
        })
    }
}

/// Returns the whole text of a cut field, or `None` if the event has no such field.
pub fn extract_field<'a>(event: &'a Event, path: &str) -> Option<Cow<'a, str>> {
    match event {
        Event::TurnEnded(end) => match split(path) {
            ("unusedSteers", None) => Some(to_steers_json(&end.unused_steers).into()),
            ("unusedSteers", Some(rest)) => {
                let (index, rest) = rest.split_once('/')?;
                block_field(end.unused_steers.get(index.parse::<usize>().ok()?)?, rest)
            }
            _ => None,
        },
        Event::Message(message) => match split(path) {
            ("content", None) => Some(to_json(&message::to_message_blocks(&message.content)).into()),
            ("content", Some(rest)) => block_field(&message.content, rest),
            _ => None,
        },
        Event::ToolCall(update) => match split(path) {
            ("output", None) => update.result.as_ref().map(|result| sanitize_output(&result.text)),
            ("diff", None) => update.diff.as_ref().map(|diff| readable_diff(diff)),
            ("input", None) => update.input.as_ref().map(|input| to_json(&**input).into()),
            ("images", Some(rest)) => {
                let (index, rest) = rest.split_once('/')?;
                let image = update
                    .result
                    .as_ref()?
                    .pictures()
                    .nth(index.parse::<usize>().ok()?)?;
                (rest == "data").then_some(Cow::Borrowed(&*image.data))
            }
            _ => None,
        },
        Event::ApprovalRequested(approval) => match path {
            "diff" => approval.diff.as_ref().map(|diff| readable_diff(diff)),
            "input" => Some(to_json(&*approval.input).into()),
            "shown" => readable_subject(&approval.input),
            _ => None,
        },
        Event::ApprovalResolved { decision, .. } => match path {
            "feedback" => decision.feedback.as_deref().map(Cow::Borrowed),
            "input" => decision.input.as_ref().map(|input| to_json(&**input).into()),
            _ => None,
        },
        Event::Compacted(compaction) => match path {
            "summary" => compaction
                .summary
                .as_ref()
                .map(|summary| summary.text.as_str().into()),
            _ => None,
        },
        Event::InquiryRequested(inquiry) => match (&inquiry.subject, path) {
            (RequestSubject::Question(question), "text") => Some(Cow::Borrowed(&question.text)),
            (RequestSubject::Question(question), "detail") => question.detail.as_deref().map(Cow::Borrowed),
            (RequestSubject::Question(_) | RequestSubject::Limit(_), _) => None,
        },
        Event::InquiryResolved {
            reply: InquiryReply::Answers(answers),
            ..
        } => (path == "answers").then(|| to_json(answers).into()),
        Event::Plan { items } => (path == "items").then(|| to_plan_json(items).into()),
        Event::Nested(nested) => extract_field(&nested.event, path),
        Event::TurnStarted { .. }
        | Event::InquiryResolved { .. }
        | Event::MessageRetracted { .. }
        | Event::Transition { .. }
        | Event::Retry { .. }
        | Event::Wait { .. }
        | Event::ModelSwitched { .. }
        | Event::Circuit { .. }
        | Event::Usage { .. }
        | Event::Warning { .. }
        | Event::Instructions { .. }
        | Event::SessionUpdated { .. }
        | Event::QueueChanged(_)
        | Event::TurnDiff(_) => None,
    }
}

/// Returns a piece of a text: at most `limit` bytes from `offset`, aligned to whole characters.
pub fn read_piece(text: &str, offset: u64, limit: u64) -> ReadContentResult {
    let start = text.floor_char_boundary(usize::try_from(offset).unwrap_or(usize::MAX));
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // A limit shorter than one character must still make progress.
    let mut end = text.floor_char_boundary(start.saturating_add(limit));
    if end == start {
        end = text.ceil_char_boundary(start.saturating_add(1).min(text.len()));
    }
    ReadContentResult {
        text: text[start..end].to_owned(),
        next_offset: (end < text.len()).then_some(end as u64),
        bytes: text.len() as u64,
    }
}

/// Encodes all unused steers as a JSON array.
pub(super) fn to_steers_json(steers: &[Vec<Block>]) -> String {
    let steers: Vec<_> = steers
        .iter()
        .map(|steer| message::to_message_blocks(steer))
        .collect();
    to_json(&steers)
}

/// Encodes the whole plan as a JSON array.
pub(super) fn to_plan_json(items: &[PlanItem]) -> String {
    let mut cutter = FieldBudget::new_unlimited();
    let items: Vec<_> = items
        .iter()
        .map(|item| values::plan_item(&mut cutter, item))
        .collect();
    to_json(&items)
}

fn split(path: &str) -> (&str, Option<&str>) {
    match path.split_once('/') {
        Some((first, rest)) => (first, Some(rest)),
        None => (path, None),
    }
}

fn block_field<'a>(blocks: &'a [Block], path: &str) -> Option<Cow<'a, str>> {
    let (index, name) = path.split_once('/')?;
    match (blocks.get(index.parse::<usize>().ok()?)?, name) {
        (Block::Text(text), "text") | (Block::Reasoning { text, .. }, "text") => Some(text.into()),
        (Block::Reference(reference), "text") => Some((&reference.text).into()),
        (Block::ToolUse { input, .. }, "input") => Some(to_json(&**input).into()),
        (Block::Image(image), "data") => Some(Cow::Borrowed(&*image.data)),
        (
            Block::Text(_)
            | Block::Reasoning { .. }
            | Block::Reference(_)
            | Block::ToolUse { .. }
            | Block::ToolResult { .. }
            | Block::Image(_),
            _,
        ) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_parsed() {
        assert_eq!(
            ContentPointer::parse("e:12:content/0/text"),
            Some(ContentPointer::Event {
                seq: 12,
                path: "content/0/text".to_owned()
            })
        );
        assert_eq!(
            ContentPointer::parse("c:out:1"),
            Some(ContentPointer::Kept("out:1".to_owned()))
        );
        for wrong in ["", "e:", "e:x:text", "x:1"] {
            assert_eq!(ContentPointer::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn pieces_join_to_the_whole_text() {
        let text = "aé€😀".repeat(7);
        for limit in 1..9 {
            let (mut joined, mut offset) = (String::new(), Some(0));
            while let Some(at) = offset {
                let piece = read_piece(&text, at, limit);
                joined += &piece.text;
                offset = piece.next_offset;
            }
            assert_eq!(joined, text, "limit {limit}");
        }
        assert_eq!(read_piece("abc", 99, 5).text, "");
        assert_eq!(read_piece("abc", 99, 5).next_offset, None);
    }
}
