//! Texts as clients see them, and the references to what was cut from them.
//!
//! The cut field and the whole text behind its reference both come from here, so that they agree. Cuts nothing itself.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use crate::base::text::{reveal_hidden_characters, strip_control_characters};

/// Returns what a call would run or reach, readable: its command line or its URL. `None` for other calls.
pub(super) fn readable_subject(input: &Value) -> Option<Cow<'_, str>> {
    let subject = input.get("command").or_else(|| input.get("url"))?;
    subject.as_str().map(reveal_hidden_characters)
}

/// Makes a tool's text safe to show.
pub(super) fn sanitize_output(text: &str) -> Cow<'_, str> {
    strip_control_characters(text)
}

/// Makes a change fit to show: reveals hidden characters.
pub(super) fn readable_diff(diff: &str) -> Cow<'_, str> {
    reveal_hidden_characters(diff)
}

pub(super) fn event_reference(seq: u64, path: &str) -> String {
    format!("e:{seq}:{path}")
}

pub(super) fn content_reference(name: &str) -> String {
    format!("c:{name}")
}

/// Returns the path of the field `name` of the object at `parent`.
pub(super) fn path(parent: &str, name: &str) -> String {
    if parent.is_empty() {
        name.to_owned()
    } else {
        format!("{parent}/{name}")
    }
}

pub(super) fn to_value<T: Serialize>(value: &T) -> serde_json::Value {
    #[expect(clippy::expect_used, reason = "wire types have string keys and derived impls")]
    serde_json::to_value(value).expect("wire types serialise")
}

pub(super) fn to_json<T: Serialize + ?Sized>(value: &T) -> String {
    #[expect(clippy::expect_used, reason = "wire types have string keys and derived impls")]
    serde_json::to_string(value).expect("wire types serialise")
}
