//! Keeping requests within the window (R-CTX): when the history is made smaller, and the call that writes the notes.
//!
//! What goes and what stands in its place is `context::compact`'s, pure; here are the calls and the events.

use std::sync::Arc;

use super::attempt::Shows;
use super::course::Course;
use super::port::Stopped;
use super::step::{Asked, call};
use super::{ResolvedModel, TurnContext};
use crate::context::compact::{self, Middle};
use crate::domain::{CompactTrigger, Compaction, Event, Message, Summary};
use crate::provider::{Item, Request};

/// Of the window so many tokens stay free for the answer (R-CTX-1).
const RESERVE: u64 = 8_192;

/// Above this part of what is left, in percent, the history is made smaller before the call (R-CTX-1).
const THRESHOLD_PERCENT: u64 = 75;

/// So often a notes call that does not fit itself is made again, each time with a round less.
const SHORTER: u32 = 3;

/// So many failures in a row, and automatic compaction rests (R-CTX-2).
pub(crate) const FAILURES: u32 = 3;

/// The longest notes, in tokens.
const NOTES: u32 = 4_000;

/// What a turn does about a full window.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextPolicy {
    /// Makes the history smaller by itself.
    pub auto_compact: bool,
    /// `provider/model`, `provider` or `model` that writes the notes; none: the one that is asked.
    pub compaction_model: Option<String>,
}

impl Default for ContextPolicy {
    fn default() -> Self {
        Self {
            auto_compact: true,
            compaction_model: None,
        }
    }
}

/// Whether a request of so many tokens is made smaller before it is sent.
pub(super) fn above_threshold(tokens: u64, window: u64) -> bool {
    tokens > window.saturating_sub(RESERVE) * THRESHOLD_PERCENT / 100
}

/// Whether a request of so many tokens leaves no room for an answer.
pub(super) fn is_full(tokens: u64, window: u64) -> bool {
    tokens > window.saturating_sub(RESERVE)
}

/// Replaces large old results by stubs; whether there were any.
pub(super) async fn collapse(
    cx: &TurnContext,
    course: &Course,
    items: &[Arc<Item>],
) -> Result<bool, Stopped> {
    let stubs = compact::large_results(items);
    if stubs.is_empty() {
        return Ok(false);
    }
    let smaller = Compaction {
        stubs,
        ..as_it_is(course, items, CompactTrigger::Overflow)
    };
    tell(cx, course, items, smaller).await?;
    Ok(true)
}

/// Replaces all pictures by stubs.
pub(super) async fn drop_pictures(
    cx: &TurnContext,
    course: &Course,
    items: &[Arc<Item>],
) -> Result<(), Stopped> {
    let smaller = Compaction {
        pictures: true,
        ..as_it_is(course, items, CompactTrigger::Picture)
    };
    tell(cx, course, items, smaller).await
}

/// Replaces the middle of the history by notes; whether that made it smaller.
pub(super) async fn summarise(
    cx: &TurnContext,
    course: &mut Course,
    items: &[Arc<Item>],
    trigger: CompactTrigger,
    instructions: Option<&str>,
) -> Result<bool, Stopped> {
    let Some(middle) = compact::middle(items) else {
        return Ok(false);
    };
    let before = compact::tokens(items);
    let after = |text: &str| before - compact::tokens(middle.of(items)) + compact::summary_tokens(text);
    let written = notes(cx, course, middle, items, instructions).await?;
    let written = written.filter(|text| compact::shrinks(before, after(text)));
    let digest = written.is_none();
    let text = written.unwrap_or_else(|| compact::digest(middle.of(items)));
    if after(&text) >= before {
        return Ok(false);
    }
    let summary: Summary = middle.summary(items, text, digest);
    let smaller = Compaction {
        summary: Some(summary),
        ..as_it_is(course, items, trigger)
    };
    cx.totals.compactions.add(1);
    tell(cx, course, items, smaller).await?;
    Ok(true)
}

/// Has a model write the notes; none when it fails or says nothing.
async fn notes(
    cx: &TurnContext,
    course: &mut Course,
    middle: Middle,
    items: &[Arc<Item>],
    instructions: Option<&str>,
) -> Result<Option<String>, Stopped> {
    let model = writer(cx, course).await?;
    let mut part = Some(middle);
    for _ in 0..=SHORTER {
        let Some(some) = part else { break };
        let prompt = Message::user_text(compact::transcript(some.of(items), instructions));
        let request = Arc::new(Request {
            model: model.model.clone(),
            system: compact::SUMMARY_SYSTEM.into(),
            messages: vec![Item::new(prompt)],
            tools: Arc::new([]),
            max_output_tokens: NOTES.min(model.info.max_output),
            effort: None,
        });
        match call(cx, &model, request, &mut course.used, Shows::Nothing).await? {
            Asked::Answered(answered) => {
                let text = answered.answer.message.map(|message| message.text());
                return Ok(text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()));
            }
            Asked::TooLong { .. } => part = some.without_oldest(items),
            Asked::ImageRefused(_) | Asked::Failed(_) => break,
        }
    }
    Ok(None)
}

/// Who writes the notes.
async fn writer(cx: &TurnContext, course: &Course) -> Result<ResolvedModel, Stopped> {
    let Some(named) = &cx.context.compaction_model else {
        return Ok(course.model.clone());
    };
    let choice = super::ModelChoice {
        model: Some(named.clone()),
        ..cx.choice.clone()
    };
    let resolved = tokio::select! { biased;
        () = cx.cancel.cancelled() => return Err(Stopped),
        resolved = cx.models.resolve(&choice) => resolved,
    };
    match resolved {
        Ok(model) => Ok(model),
        Err(error) => {
            let message = format!("compaction_model {named:?} cannot be used: {error}; the session's model is asked");
            cx.port.emit(warning("compaction_model", message)).await?;
            Ok(course.model.clone())
        }
    }
}

pub(super) fn warning(code: &str, message: String) -> Event {
    Event::Warning {
        code: code.to_owned(),
        message,
    }
}

/// A compaction that changes nothing yet.
fn as_it_is(course: &Course, items: &[Arc<Item>], trigger: CompactTrigger) -> Compaction {
    Compaction {
        trigger,
        tokens_before: course.estimate(items),
        tokens_after: 0,
        messages_before: u32::try_from(items.len()).unwrap_or(u32::MAX),
        messages_after: 0,
        summary: None,
        stubs: Vec::new(),
        pictures: false,
    }
}

async fn tell(
    cx: &TurnContext,
    course: &Course,
    items: &[Arc<Item>],
    mut smaller: Compaction,
) -> Result<(), Stopped> {
    let after = compact::applied(items, &smaller);
    smaller.tokens_after = course.estimate(&after);
    smaller.messages_after = u32::try_from(after.len()).unwrap_or(u32::MAX);
    cx.port.emit(Event::Compacted(Arc::new(smaller))).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_is_the_specifications() {
        assert!(!above_threshold(143_856, 200_000));
        assert!(above_threshold(143_857, 200_000));
        assert!(!is_full(191_808, 200_000));
        assert!(is_full(191_809, 200_000));
        assert!(above_threshold(1, 4_000), "a window below the reserve is always full");
    }
}
