//! What models add to a text that they copy: line numbers, a code fence, one level of escaping. Pure.

use super::replacement::Replacement;

/// A replacement without something that does not belong to the text.
pub(super) struct Unwrapped {
    pub(super) edit: Replacement,
    /// What was left out, as the object of a sentence.
    pub(super) what: &'static str,
}

/// Returns other readings of a replacement, the likeliest first. Each is certain by itself; none may apply.
pub(super) fn list_readings(edit: &Replacement) -> Vec<Unwrapped> {
    let mut readings = Vec::new();
    let mut add = |what, found: Option<Replacement>| {
        readings.extend(found.map(|edit| Unwrapped { edit, what }));
    };
    let unfenced = remove_fences(edit);
    match remove_line_numbers(unfenced.as_ref().unwrap_or(edit)) {
        Some(unnumbered) => add("line numbers", Some(unnumbered)),
        None => add("a code fence", unfenced),
    }
    add("one level of escaping", remove_escapes(edit));
    readings
}

/// Removes the fence round the old text, and round the new one if it has one too.
fn remove_fences(edit: &Replacement) -> Option<Replacement> {
    let old = remove_fence(&edit.old)?;
    let new = match remove_fence(&edit.new) {
        Some(new) => new,
        None if edit.new.contains("```") => return None,
        None => edit.new.clone(),
    };
    Some(Replacement { old, new, ..*edit })
}

fn remove_fence(text: &str) -> Option<String> {
    let lines: Vec<&str> = text.trim_matches('\n').split('\n').collect();
    let [first, inner @ .., last] = lines.as_slice() else {
        return None;
    };
    let info = first.strip_prefix("```")?;
    (!info.contains('`') && last.trim_end() == "```").then(|| inner.join("\n"))
}

/// Removes the numbers that `read_file` puts before each line. All old lines must have one; new ones may.
fn remove_line_numbers(edit: &Replacement) -> Option<Replacement> {
    let is_numbered = |line: &str| line.trim().is_empty() || strip_number(line).is_some();
    if edit.old.trim().is_empty() || !edit.old.split('\n').all(is_numbered) {
        return None;
    }
    let strip = |text: &str| {
        let lines = text.split('\n').map(|line| strip_number(line).unwrap_or(line));
        lines.collect::<Vec<_>>().join("\n")
    };
    Some(Replacement {
        old: strip(&edit.old),
        new: strip(&edit.new),
        ..*edit
    })
}

fn strip_number(line: &str) -> Option<&str> {
    let (number, rest) = line.split_once('\t')?;
    let number = number.trim();
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(rest)
}

/// Reads both texts as if they were inside a JSON string once more. One with real line ends is not.
fn remove_escapes(edit: &Replacement) -> Option<Replacement> {
    let read = |text: &str| -> Option<String> {
        if text.contains('\n') {
            return None;
        }
        serde_json::from_str(&format!("\"{}\"", escape_bare_quotes(text))).ok()
    };
    let old = read(&edit.old).filter(|old| *old != edit.old)?;
    let new = read(&edit.new)?;
    Some(Replacement { old, new, ..*edit })
}

/// Escapes the quotes that are not escaped yet.
fn escape_bare_quotes(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut after_backslash = false;
    for letter in text.chars() {
        if letter == '"' && !after_backslash {
            escaped.push('\\');
        }
        after_backslash = letter == '\\' && !after_backslash;
        escaped.push(letter);
    }
    escaped
}
