//! What models add to a text that they copy: line numbers, a code fence, escapes, entities of HTML. Pure.
//!
//! Both tools use this list. Each reading leaves out one thing, in the old and the new text alike. It is listed only if
//! it is clear how the new text is meant.

use std::ops::Range;

use super::closest;
use super::replacement::Replacement;
use super::whole_lines::split;

/// One way to read a replacement.
pub(super) struct Reading {
    pub(super) edit: Replacement,
    /// What was left out, as the object of a sentence; empty if nothing was.
    what: &'static str,
    scope: Scope,
}

/// Where a reading may apply.
#[derive(PartialEq, Eq)]
enum Scope {
    Anywhere,
    /// The positions of the first and last line, from 0, that the line numbers name.
    Lines(usize, usize),
    /// Nowhere, because it is not clear how the new text is meant. It tells which lines are the closest.
    Nowhere,
}

impl Reading {
    /// Returns the part of `text` to which it may apply; `None` if it does not fit the text.
    ///
    /// Line numbers fit only the lines that they name, and only if these do not begin with numbers of their own.
    fn find_scope(&self, text: &str) -> Option<Range<usize>> {
        let (first, last) = match self.scope {
            Scope::Anywhere => return Some(0..text.len()),
            Scope::Nowhere => return None,
            Scope::Lines(first, last) => (first, last),
        };
        let lines: Vec<&str> = text.split_inclusive('\n').take(last.saturating_add(1)).collect();
        let named = lines.get(first..=last)?;
        if named.iter().any(|line| split_number(line).is_some()) {
            return None;
        }
        let length = |lines: &[&str]| lines.iter().map(|line| line.len()).sum::<usize>();
        let scope = length(&lines[..first])..length(&lines);
        if self.edit.all {
            return text[scope].contains(&self.edit.old).then_some(0..text.len());
        }
        Some(scope)
    }

    /// Returns whether the old text may be anywhere in `there`, which is its scope. Numbered lines begin with it.
    pub(super) fn may_be_within(&self, there: &str) -> bool {
        const LONG: usize = 8;
        if self.edit.all || self.scope == Scope::Anywhere {
            return true;
        }
        let rest = there.strip_prefix(self.edit.old.as_str());
        rest.is_some_and(|rest| matches!(rest, "" | "\n") || self.edit.old.trim().len() >= LONG)
    }

    /// Returns whether nothing is left out.
    pub(super) fn is_literal(&self) -> bool {
        self.what.is_empty()
    }

    /// Returns the note on an edit, with what was left out before it.
    pub(super) fn complete_note(&self, note: Option<String>) -> Option<String> {
        if self.is_literal() {
            return note;
        }
        let left_out = format!("made without {}, which the file does not have", self.what);
        Some(note.map_or_else(|| left_out.clone(), |note| format!("{left_out}; {note}")))
    }
}

/// Returns all readings of a replacement, the literal one first. Each is certain by itself.
pub(super) fn list_readings(edit: Replacement) -> Vec<Reading> {
    let unfenced = remove_fences(&edit);
    let unnumbered = remove_line_numbers(unfenced.as_ref().unwrap_or(&edit));
    let certain = |edit: Replacement| (edit, Scope::Anywhere);
    let if_clear = |(edit, is_clear)| (edit, if is_clear { Scope::Anywhere } else { Scope::Nowhere });
    let found = [
        ("HTML entities", decode_entities(&edit).map(if_clear)),
        (
            "backslashes before quotes",
            remove_backslashes(&edit).map(if_clear),
        ),
        ("one level of escaping", remove_escapes(&edit).map(certain)),
        ("a code fence", unfenced.map(certain)),
        ("line numbers", unnumbered),
        ("", Some(certain(edit))),
    ];
    let found = found.into_iter().rev();
    let readings = found.filter_map(|(what, found)| found.map(|(edit, scope)| Reading { edit, what, scope }));
    // Blank lines alone name no place.
    let names_place = |reading: &Reading| reading.what.is_empty() || !reading.edit.old.trim().is_empty();
    readings.filter(names_place).collect()
}

/// Returns the only result that the readings have in the parts of `text` to which they apply.
///
/// # Errors
/// That of the first reading that has one, or the conflict if two results differ.
pub(super) fn apply_readings<T, E>(
    readings: &[Reading],
    text: &str,
    apply: impl Fn(&Reading, Range<usize>) -> Result<Option<T>, E>,
    is_same: impl Fn(&T, &T) -> bool,
    conflict: impl FnOnce() -> E,
) -> Result<Option<T>, E> {
    let mut only: Option<T> = None;
    for reading in readings {
        let Some(scope) = reading.find_scope(text) else {
            continue;
        };
        match (&only, apply(reading, scope)?) {
            (Some(only), Some(found)) if !is_same(only, &found) => return Err(conflict()),
            (None, found) => only = found,
            (Some(_), _) => {}
        }
    }
    Ok(only)
}

/// Returns the end of a sentence that says where the old text is most similar, perhaps without what was added to it.
/// `name` is what the model calls it.
pub(super) fn describe_closest(text: &str, readings: &[Reading], name: &str) -> String {
    let (literal, others) = readings.split_at(1);
    let misfit = others.iter().find_map(|reading| match reading.scope {
        Scope::Anywhere => None,
        Scope::Lines(..) => Some(" at the lines that its line numbers name".to_owned()),
        Scope::Nowhere => text.contains(&reading.edit.old).then(|| {
            format!(
                " exactly, and whether the new text has {} too is not clear",
                reading.what
            )
        }),
    });
    let olds = others.iter().chain(literal).map(|reading| {
        let without = if reading.is_literal() { "" } else { " without " };
        (
            reading.edit.old.as_str(),
            format!("{name}{without}{}", reading.what),
        )
    });
    misfit.unwrap_or_default() + &closest::describe(text, olds)
}

/// Removes the fence round the old text, and round the new one if it has one too. A fence encloses whole lines.
fn remove_fences(edit: &Replacement) -> Option<Replacement> {
    let old = remove_fence(&edit.old)?;
    let new = match remove_fence(&edit.new) {
        Some(new) => new,
        None if edit.new.contains("```") => return None,
        None => edit.new.strip_suffix('\n').unwrap_or(&edit.new).to_owned(),
    };
    // Nothing is left of the lines, not even an empty one.
    let old = if new.is_empty() { old + "\n" } else { old };
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

/// Removes the numbers that tools put before each line, and returns where the rest belongs.
///
/// All old lines must have one. They must count on, and it must be clear which new lines have one.
fn remove_line_numbers(edit: &Replacement) -> Option<(Replacement, Scope)> {
    let old: Vec<&str> = edit.old.split('\n').collect();
    let numbered = old.iter().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let numbered = numbered.map(|(at, line)| Some((at, split_number(line)?)));
    let numbered = numbered.collect::<Option<Vec<(usize, NumberedLine)>>>()?;
    let separator = numbered.first()?.1.separator;
    if numbered.iter().any(|(_, line)| line.separator != separator) {
        return None;
    }
    let is_apart = |rest: &str| rest.is_empty() || rest.starts_with(' ');
    let has_blank = matches!(separator, ':' | '|') && numbered.iter().all(|(_, line)| is_apart(line.rest));
    let strip = |text: &str| {
        let lines = text.split('\n').map(|line| match split_number(line) {
            Some(NumberedLine {
                separator: found,
                rest,
                ..
            }) if found == separator => rest.strip_prefix(' ').filter(|_| has_blank).unwrap_or(rest),
            Some(_) | None => line,
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let unnumbered = Replacement {
        old: strip(&edit.old),
        new: strip(&edit.new),
        ..*edit
    };
    let begin = |(at, line): &(usize, NumberedLine)| line.number.checked_sub(at + 1);
    let first =
        begin(numbered.first()?).filter(|first| numbered.iter().all(|line| begin(line) == Some(*first)));
    let count = split(&edit.old).len().saturating_sub(1);
    let scope = match first.and_then(|first| Some((first, first.checked_add(count)?))) {
        Some(_) if !has_clear_numbers(&old, &edit.new) => Scope::Nowhere,
        Some((first, last)) => Scope::Lines(first, last),
        // They do not count on, so they name no lines.
        None => Scope::Lines(usize::MAX, usize::MAX),
    };
    Some((unnumbered, scope))
}

/// Returns whether the new lines that are no old ones have all numbers, or none. A number is that of an old line, or
/// follows that of the line before; any other may be a part of the text.
fn has_clear_numbers(old: &[&str], new: &str) -> bool {
    let numbers = old.iter().filter_map(|line| split_number(line));
    let numbers: Vec<usize> = numbers.map(|line| line.number).collect();
    let mut before = numbers.first().map_or(0, |first| first.saturating_sub(1));
    let (mut has_numbers, mut has_others) = (false, false);
    for line in new.split('\n').filter(|line| !line.trim().is_empty()) {
        let number = split_number(line).map(|line| line.number);
        if !old.contains(&line) {
            match number {
                Some(number) if number == before + 1 || number > before && numbers.contains(&number) => {
                    has_numbers = true;
                }
                Some(_) => return false,
                None => has_others = true,
            }
        }
        before = number.unwrap_or(before);
    }
    !(has_numbers && has_others)
}

/// A line with a number before it.
struct NumberedLine<'t> {
    number: usize,
    separator: char,
    rest: &'t str,
}

fn split_number(line: &str) -> Option<NumberedLine<'_>> {
    let start = line.trim_start();
    let digits = start.find(|letter: char| !letter.is_ascii_digit())?;
    let rest = start[digits..].trim_start_matches(' ');
    let separator = rest
        .chars()
        .next()
        .filter(|letter| matches!(letter, '\t' | '→' | '|' | ':'))?;
    Some(NumberedLine {
        number: start[..digits].parse().ok()?,
        separator,
        rest: &rest[separator.len_utf8()..],
    })
}

/// Reads both texts as if they were inside a JSON string once more.
///
/// With real line ends, each line is read by itself, and a doubled backslash in the old text must be the reason.
fn remove_escapes(edit: &Replacement) -> Option<Replacement> {
    let has_line_ends = edit.old.contains('\n') || edit.new.contains('\n');
    if has_line_ends && !edit.old.contains("\\\\") {
        return None;
    }
    let read_line = |line: &str| {
        let read: Option<String> = serde_json::from_str(&format!("\"{line}\"")).ok();
        read.filter(|read| !read.contains('\n'))
    };
    let read = |text: &str| -> Option<String> {
        if has_line_ends {
            let lines = text.split('\n').map(read_line);
            return Some(lines.collect::<Option<Vec<_>>>()?.join("\n"));
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

/// Removes a backslash before each quote of a kind, and returns whether it is clear which ones the new text has.
fn remove_backslashes(edit: &Replacement) -> Option<(Replacement, bool)> {
    let (mut old, mut new) = (edit.old.clone(), edit.new.clone());
    // Whether other backslashes are doubled too is not known.
    let mut is_clear = !old.contains("\\\\") && !new.contains("\\\\");
    for quote in ['"', '\''] {
        let escaped = format!("\\{quote}");
        let is_escaped = |text: &str| text.matches(&escaped).count() == text.matches(quote).count();
        if !old.contains(&escaped) || !is_escaped(&old) {
            continue;
        }
        is_clear &= !new.contains(&escaped) || is_escaped(&new);
        old = old.replace(&escaped, &escaped[1..]);
        new = new.replace(&escaped, &escaped[1..]);
    }
    (old != edit.old).then_some((Replacement { old, new, ..*edit }, is_clear))
}

/// The entities of each letter.
const ENTITIES: [(&str, char); 7] = [
    ("&lt;", '<'),
    ("&gt;", '>'),
    ("&quot;", '"'),
    ("&#39;", '\''),
    ("&#x27;", '\''),
    ("&apos;", '\''),
    // The last, so that it makes no other entity.
    ("&amp;", '&'),
];

/// Replaces entities by their letters, and returns whether that is clear: in each text, a letter is always encoded or
/// never.
fn decode_entities(edit: &Replacement) -> Option<(Replacement, bool)> {
    let encoded = |text: &str| -> Vec<char> {
        let found = ENTITIES.iter().filter(|(entity, _)| text.contains(entity));
        found.map(|(_, letter)| *letter).collect()
    };
    let is_whole = |text: &str, letters: &[char]| {
        let bare = ENTITIES
            .iter()
            .fold(text.to_owned(), |text, (entity, _)| text.replace(entity, ""));
        !bare.contains(letters)
    };
    let (old, new) = (encoded(&edit.old), encoded(&edit.new));
    // A letter that only the new text encodes may be meant so, unless both texts are encoded throughout.
    let markup = ['<', '>', '&'];
    let is_throughout = is_whole(&edit.old, &markup) && is_whole(&edit.new, &markup);
    let is_clear = is_whole(&edit.old, &old)
        && is_whole(&edit.new, &new)
        && (is_throughout || new.iter().all(|letter| old.contains(letter)));
    let decode = |text: &str| {
        let letters = ENTITIES.iter();
        letters.fold(text.to_owned(), |text, (entity, letter)| {
            text.replace(entity, letter.encode_utf8(&mut [0; 4]))
        })
    };
    let decoded = Replacement {
        old: decode(&edit.old),
        new: decode(&edit.new),
        ..*edit
    };
    (!old.is_empty()).then_some((decoded, is_clear))
}
