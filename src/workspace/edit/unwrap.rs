//! What models add to a text that they copy: line numbers, a code fence, one level of escaping. Pure.

use std::ops::Range;

use super::replacement::Replacement;

/// A replacement without something that does not belong to the text.
pub(super) struct Unwrapped {
    pub(super) edit: Replacement,
    /// What was left out, as the object of a sentence.
    pub(super) what: &'static str,
    /// The positions of the first and last line, from 0, that the line numbers name.
    lines: Option<(usize, usize)>,
}

impl Unwrapped {
    /// Returns the part of `text` to which it may apply; `None` if it does not fit the text.
    ///
    /// Line numbers fit only the lines that they name, and only if these do not begin with numbers of their own.
    pub(super) fn find_scope(&self, text: &str) -> Option<Range<usize>> {
        let Some((first, last)) = self.lines else {
            return Some(0..text.len());
        };
        let lines: Vec<&str> = text.split_inclusive('\n').take(last.saturating_add(1)).collect();
        let named = lines.get(first..=last)?;
        if named.iter().any(|line| strip_number(line).is_some()) {
            return None;
        }
        let length = |lines: &[&str]| lines.iter().map(|line| line.len()).sum::<usize>();
        let scope = length(&lines[..first])..length(&lines);
        if self.edit.all {
            return text[scope].contains(&self.edit.old).then_some(0..text.len());
        }
        Some(scope)
    }
}

/// Returns other readings of a replacement, the likeliest first. Each is certain by itself; none may apply.
pub(super) fn list_readings(edit: &Replacement) -> Vec<Unwrapped> {
    let mut readings = Vec::new();
    let mut add = |what, found: Option<Replacement>, lines| {
        readings.extend(found.map(|edit| Unwrapped { edit, what, lines }));
    };
    let unfenced = remove_fences(edit);
    if let Some((unnumbered, lines)) = remove_line_numbers(unfenced.as_ref().unwrap_or(edit)) {
        add("line numbers", Some(unnumbered), Some(lines));
    }
    add("a code fence", unfenced, None);
    add("one level of escaping", remove_escapes(edit), None);
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

/// Removes the numbers that `read_file` puts before each line, and returns the positions of the first and last line
/// that they name. All old lines must have one, and they must count on; new ones may have one.
fn remove_line_numbers(edit: &Replacement) -> Option<(Replacement, (usize, usize))> {
    let mut first = None;
    let old = edit.old.strip_suffix('\n').unwrap_or(&edit.old);
    for (at, line) in old
        .split('\n')
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let number = &line[..line.len() - strip_number(line)?.len()];
        let begin = number.trim().parse::<usize>().ok()?.checked_sub(at + 1)?;
        if *first.get_or_insert(begin) != begin {
            return None;
        }
    }
    let first = first?;
    let strip = |text: &str| {
        let lines = text.split('\n').map(|line| strip_number(line).unwrap_or(line));
        lines.collect::<Vec<_>>().join("\n")
    };
    let unnumbered = Replacement {
        old: strip(&edit.old),
        new: strip(&edit.new),
        ..*edit
    };
    Some((unnumbered, (first, first.checked_add(old.matches('\n').count())?)))
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
