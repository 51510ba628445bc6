//! Shortens fields. Each notification has one budget, spent in the order of its fields.
//!
//! Invariant: no notification exceeds 256 KiB, whatever it combines (R-WIRE-3). The whole text stays available through
//! a reference, which [`content`] resolves.

use serde_json::Value;

use super::sanitize;
use crate::base::text::{one_line, prefix_within, strip_control_characters, suffix_within};
use crate::domain::ToolResult;
use crate::protocol::{LONG_FIELD, MAX_NOTIFICATION, TruncatedField, TruncatedFields};

/// Bytes of escaped JSON that the long fields of one notification may take together. The rest is for names, numbers
/// and references.
const BUDGET: usize = MAX_NOTIFICATION - 56 * 1024;

/// Longest line for the user, in bytes.
const LINE: usize = 4 * 1024;

/// Longest title, in characters.
const TITLE: usize = 300;

/// Bytes that a list element costs besides its texts.
const ELEMENT: usize = 256;

/// The remaining budget of one notification.
pub(super) struct FieldBudget {
    seq: u64,
    remaining: usize,
    field: usize,
}

impl FieldBudget {
    /// Creates the budget of the event with number `seq`.
    pub(super) fn new(seq: u64) -> Self {
        Self {
            seq,
            remaining: BUDGET,
            field: LONG_FIELD,
        }
    }

    /// Creates a budget that cuts nothing, for texts that are read back in pieces.
    pub(super) fn new_unlimited() -> Self {
        Self {
            seq: 0,
            remaining: usize::MAX,
            field: usize::MAX,
        }
    }

    /// Fits a long text: keeps its beginning and adds a reference to the whole.
    ///
    /// `parent` is the path of the object that holds the field `name`; it is empty for the notification itself.
    pub(super) fn text(
        &mut self,
        parent: &str,
        name: &str,
        text: &str,
        more: &mut TruncatedFields,
    ) -> String {
        let head = self.take_prefix(text);
        if head.len() < text.len() {
            more.insert(
                name.to_owned(),
                self.build_reference(&sanitize::path(parent, name), text.len()),
            );
        }
        head.to_owned()
    }

    /// Fits a tool's output, made safe to show: keeps its beginning and its end, and adds a reference to the whole.
    pub(super) fn fit_output(&mut self, result: &ToolResult, more: &mut TruncatedFields) -> String {
        let text = sanitize::sanitize_output(&result.text);
        let head = self.take_prefix(&text);
        // The tail comes from the rest, so that it never overlaps with the head.
        let rest = &text[head.len()..];
        let tail = self.take_suffix(rest);
        let mut cut = (!rest.is_empty()).then(|| self.build_reference("output", text.len()));
        // The tool cut its output before: the kept file is the only whole text.
        if let Some(full) = &result.full {
            cut = Some(TruncatedField {
                reference: sanitize::content_reference(&full.name),
                bytes: full.bytes,
                tail: None,
            });
        }
        if let Some(mut cut) = cut {
            cut.tail = (!tail.is_empty()).then(|| tail.to_owned());
            more.insert("output".to_owned(), cut);
        }
        head.to_owned()
    }

    /// Fits a JSON value.
    ///
    /// Long strings in it are cut so that its other fields stay readable. If that is not enough, the beginning of its
    /// text takes its place as a string.
    pub(super) fn fit_json(
        &mut self,
        parent: &str,
        name: &str,
        value: &Value,
        more: &mut TruncatedFields,
    ) -> Value {
        let full_text = sanitize::to_json(value);
        let available = self.field.min(self.remaining);
        if full_text.len() <= available {
            self.remaining -= full_text.len();
            return value.clone();
        }
        more.insert(
            name.to_owned(),
            self.build_reference(&sanitize::path(parent, name), full_text.len()),
        );
        // Shortens in steps, so that as much as possible of the strings stays.
        for longest in [16 * 1024, 4 * 1024, 1024, 256]
            .into_iter()
            .filter(|longest| *longest < available)
        {
            let short = with_short_strings(value, longest);
            let length = sanitize::to_json(&short).len();
            if length <= available {
                self.remaining -= length;
                return short;
            }
        }
        Value::String(self.take_prefix(&full_text).to_owned())
    }

    /// Fits a line for the user. A line that is too long is cut without a reference.
    pub(super) fn fit_line(&mut self, text: &str) -> String {
        // Bounds the work on a huge text; the exact cut follows.
        let begin = prefix_within(text, 2 * LINE);
        let clean = strip_control_characters(begin);
        let head = fitting_prefix(&clean, LINE, self.remaining);
        self.remaining -= escaped_len(head);
        if head.len() < clean.len() || begin.len() < text.len() {
            format!("{head}…")
        } else {
            head.to_owned()
        }
    }

    /// Fits a title into one line.
    pub(super) fn fit_title(&mut self, text: &str) -> String {
        self.fit_line(&one_line(
            &strip_control_characters(prefix_within(text, 2 * LINE)),
            TITLE,
        ))
    }

    /// Converts as many elements of a list as fit. The caller reports the number left out.
    pub(super) fn fit_list<T, U>(
        &mut self,
        items: &[T],
        mut convert: impl FnMut(&mut Self, usize, &T) -> U,
    ) -> Vec<U> {
        let mut list = Vec::with_capacity(items.len().min(1024));
        for (index, item) in items.iter().enumerate() {
            if self.remaining < ELEMENT {
                break;
            }
            self.remaining -= ELEMENT;
            list.push(convert(self, index, item));
        }
        list
    }

    /// Reserves room for a text of `length` bytes, if it fits as a whole.
    pub(super) fn take_uncut(&mut self, length: usize) -> bool {
        let fits = length <= self.field.min(self.remaining);
        if fits {
            self.remaining -= length;
        }
        fits
    }

    /// Adds a reference to a whole list, some elements of which were left out.
    pub(super) fn add_full_reference(&self, name: &str, bytes: usize, more: &mut TruncatedFields) {
        more.insert(name.to_owned(), self.build_reference(name, bytes));
    }

    /// Builds a reference to a field of this event.
    pub(super) fn build_reference(&self, path: &str, bytes: usize) -> TruncatedField {
        TruncatedField {
            reference: sanitize::event_reference(self.seq, path),
            bytes: bytes as u64,
            tail: None,
        }
    }

    fn take_prefix<'a>(&mut self, text: &'a str) -> &'a str {
        let head = fitting_prefix(text, self.field, self.remaining);
        self.remaining -= escaped_len(head);
        head
    }

    fn take_suffix<'a>(&mut self, text: &'a str) -> &'a str {
        let mut tail = suffix_within(text, self.field);
        while escaped_len(tail) > self.remaining {
            tail = suffix_within(tail, tail.len() / 2);
        }
        self.remaining -= escaped_len(tail);
        tail
    }
}

/// Returns the longest prefix of at most `bytes` bytes that takes at most `escaped` bytes as JSON.
fn fitting_prefix(text: &str, bytes: usize, escaped: usize) -> &str {
    let mut head = prefix_within(text, bytes);
    if escaped_len(head) <= escaped {
        return head;
    }
    let mut remaining = escaped;
    let end = head.bytes().position(|byte| {
        let cost = escape_cost(byte);
        let full = cost > remaining;
        remaining = remaining.saturating_sub(cost);
        full
    });
    if let Some(end) = end {
        head = prefix_within(head, end);
    }
    head
}

/// Returns the number of bytes that `text` takes inside a JSON string.
pub(super) fn escaped_len(text: &str) -> usize {
    text.bytes().map(escape_cost).sum()
}

fn escape_cost(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    }
}

fn with_short_strings(value: &Value, longest: usize) -> Value {
    match value {
        Value::String(text) => {
            let head = prefix_within(text, longest);
            Value::String(if head.len() < text.len() {
                format!("{head}…")
            } else {
                head.to_owned()
            })
        }
        Value::Array(items) => Value::Array(
            items
                .iter()
                .map(|item| with_short_strings(item, longest))
                .collect(),
        ),
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(name, field)| (name.clone(), with_short_strings(field, longest)))
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_by_its_escaped_length() {
        let bells = "\u{7}".repeat(100);
        assert_eq!(fitting_prefix(&bells, 1_000, 60).len(), 10);
        assert_eq!(fitting_prefix("aé", 1_000, 2), "a");
        assert_eq!(fitting_prefix("plain", 3, 1_000), "pla");
    }

    #[test]
    fn a_long_input_keeps_its_short_fields() {
        let input = serde_json::json!({"path": "a.rs", "content": "x".repeat(100_000)});
        let mut more = TruncatedFields::new();
        let cut = FieldBudget::new(7).fit_json("", "input", &input, &mut more);
        assert_eq!(cut["path"], "a.rs");
        assert!(cut["content"].as_str().unwrap().ends_with("x…"));
        assert_eq!(more["input"].reference, "e:7:input");
        assert_eq!(more["input"].bytes, 100_028);
    }

    #[test]
    fn long_output_keeps_its_end() {
        let result = ToolResult::ok(format!("begin{}end", "-".repeat(200_000)));
        let mut more = TruncatedFields::new();
        let head = FieldBudget::new(7).fit_output(&result, &mut more);
        assert_eq!(head.len(), LONG_FIELD);
        let tail = more["output"].tail.as_deref().unwrap();
        assert_eq!(tail.len(), LONG_FIELD);
        assert!(tail.ends_with("-end"));
    }

    #[test]
    fn output_of_up_to_twice_the_field_length_is_complete() {
        let result = ToolResult::ok("é".repeat(50_000));
        let mut more = TruncatedFields::new();
        let head = FieldBudget::new(7).fit_output(&result, &mut more);
        assert_eq!(head + more["output"].tail.as_deref().unwrap(), result.text);
    }
}
