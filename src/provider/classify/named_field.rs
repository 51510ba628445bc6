//! Finds the one optional field of a request that an error names, whatever words it uses.
//!
//! A word counts only where it is written as a name: quoted, in a path, before `=` or `:`, or with an underscore. An error
//! that names a field without which no request works is about that one. Expects texts in lower case.

use std::ops::Range;

use super::refusal::is_path_of_tool;
use crate::provider::request_part::{REFUSAL_RULES, RequestPart, RequestParts};

/// How many characters of an error count. The complaint comes first, and the conversation may follow.
const LONGEST: usize = 600;

/// A quotation of so many words is not a name.
const QUOTED_WORDS: usize = 3;

/// The fields without which no request works.
#[rustfmt::skip]
const NEEDED: [&str; 17] = [
    "model", "messages", "contents", "content", "input", "prompt", "tools", "tool", "tool_choice",
    "functions", "function", "system", "instructions", "systeminstruction", "system_instruction", "role",
    "parts",
];

/// Names that servers also write as two words.
const WORDS: [(&str, &str); 3] = [
    ("thinking budget", "thinking_budget"),
    ("thinking level", "thinking_level"),
    ("reasoning effort", "reasoning_effort"),
];

/// What is before or after a name that is a plain word.
const FIELD_WORDS: [&str; 6] = ["parameter", "field", "argument", "property", "option", "key"];

/// What a server says of the fields that it knows, in front of `fields` or the like and their names.
const KNOWN: [&str; 8] = [
    "allowed",
    "valid",
    "supported",
    "permitted",
    "accepted",
    "available",
    "known",
    "expected",
];

/// What such a list contains.
const LISTED: [&str; 9] = [
    "parameters",
    "params",
    "fields",
    "arguments",
    "properties",
    "options",
    "keys",
    "names",
    "values",
];

/// How a sentence that begins with the name of a field goes on.
const VERBS: [&str; 4] = [" must ", " is ", " should ", " cannot "];

/// Returns the part if an error names it alone, or first in a list. `parameter` is what the error is about, if it says so.
pub(super) fn find_named_part(statement: &str, parameter: &str, parts: &RequestParts) -> Option<RequestPart> {
    if let Some((part, _)) = find_part(parameter, parts) {
        return Some(part);
    }
    if names_needed_field(parameter) {
        return None;
    }
    let end = statement.char_indices().nth(LONGEST);
    let text = remove_quotations(&statement[..end.map_or(statement.len(), |(at, _)| at)]);
    let text = WORDS.iter().fold(remove_choices(&text), |text, (words, name)| {
        text.replace(words, name)
    });
    let mut named: Vec<(RequestPart, Range<usize>)> = Vec::new();
    for range in find_paths(&text) {
        let path = &text[range.clone()];
        let found = find_part(path, parts).filter(|(_, name)| is_name(&text, &range, name));
        if let Some((part, _)) = found {
            named.push((part, range));
        } else if names_needed_field(path)
            && is_name(&text, &range, path)
            // `for model=m-1` says what the request is, not what is wrong with it.
            && !text[range.end..].starts_with('=')
        {
            return None;
        }
    }
    let is_list = named.windows(2).all(|pair| {
        let between = text[pair[0].1.end..pair[1].1.start].replace("and", "");
        pair[0].0 == pair[1].0 || between.chars().all(|c| " ,'\"`[]".contains(c))
    });
    named.into_iter().next().map(|(part, _)| part).filter(|_| is_list)
}

fn names_needed_field(path: &str) -> bool {
    path.split(is_separator).any(|name| NEEDED.contains(&name))
}

/// Returns the places of all words and paths, without the brackets around them.
fn find_paths(text: &str) -> Vec<Range<usize>> {
    let is_of_path = |c: char| c.is_alphanumeric() || "._-[]".contains(c);
    let mut paths = Vec::new();
    let mut at = 0;
    for piece in text.split_inclusive(|c| !is_of_path(c)) {
        let path = piece.trim_end_matches(|c| !is_of_path(c));
        let core = path.trim_start_matches(['[', ']', '.', '-']);
        let start = at + path.len() - core.len();
        let core = core.trim_end_matches(['[', ']', '.', '-']);
        if !core.is_empty() {
            paths.push(start..start + core.len());
        }
        at += piece.len();
    }
    paths
}

/// Returns the part whose field is the last in a path that has one, with the name of the field.
fn find_part<'t>(path: &'t str, parts: &RequestParts) -> Option<(RequestPart, &'t str)> {
    if is_path_of_tool(path) {
        return None;
    }
    path.rsplit(is_separator).find_map(|name| {
        let rule = REFUSAL_RULES.iter().find(|rule| {
            let is_field = |field: &&str| *field == name || field.contains('.') && path.ends_with(field);
            parts.contains(&rule.part)
                // A wrong value of these has rules of its own.
                && !matches!(rule.part, RequestPart::OutputLimit | RequestPart::OutputLimitName)
                && rule.fields.iter().any(is_field)
        });
        let is_extra = |part: &&RequestPart| match part {
            RequestPart::ExtraField(path) => path
                .rsplit('.')
                .next()
                .is_some_and(|last| last.eq_ignore_ascii_case(name)),
            _ => false,
        };
        let part = rule
            .map(|rule| &rule.part)
            .or_else(|| parts.iter().find(is_extra))?;
        Some((part.clone(), name))
    })
}

fn is_separator(c: char) -> bool {
    ".[]".contains(c)
}

/// Returns whether the path at `range` is written as a name. `name` is the field that matters in it.
fn is_name(text: &str, range: &Range<usize>, name: &str) -> bool {
    let (before, after) = (&text[..range.start], &text[range.end..]);
    let is_enclosed = match before.chars().next_back() {
        Some('[') => after.starts_with(']'),
        Some(mark @ ('\'' | '"' | '`')) => after.trim_start_matches('\\').starts_with(mark),
        _ => false,
    };
    let path = &text[range.clone()];
    let fields = path.split(is_separator).filter(|name| !name.is_empty());
    let lead = before.trim_end_matches(' ');
    let begins_clause = lead.is_empty() || lead.ends_with([':', ';', '\n', '#']);
    let follows_word = lead.ends_with(':') || FIELD_WORDS.iter().any(|word| lead.ends_with(word));
    let begins_sentence = lead.is_empty() || lead.ends_with('\n');
    is_enclosed
        || name.contains('_')
        || fields.count() > 1
        || after.starts_with('=')
        || begins_clause && after.starts_with(':')
        || follows_word && (after.trim().is_empty() || after.starts_with([',', ';', '.', '\n', '(']))
        || FIELD_WORDS.iter().any(|word| {
            after
                .strip_prefix(' ')
                .is_some_and(|after| after.starts_with(word))
        })
        || begins_sentence && VERBS.iter().any(|verb| after.starts_with(verb))
}

/// Removes the lists of what a server accepts, up to the ends of their sentences: `allowed fields: model, tools`.
fn remove_choices(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = find_choices(rest) {
        kept.push_str(&rest[..start]);
        let list = &rest[start..];
        let ends = [". ", "\n", ";"].iter().filter_map(|end| list.find(end));
        rest = &list[ends.min().unwrap_or(list.len())..];
    }
    kept + rest
}

/// Returns where the first list of what a server accepts begins.
fn find_choices(text: &str) -> Option<usize> {
    let one_of = text.match_indices("one of ").map(|(at, words)| at + words.len());
    let one_of = one_of.filter(|at| !text[*at..].starts_with("the "));
    let known = KNOWN.iter().flat_map(|word| text.match_indices(word));
    let known = known.filter_map(|(at, word)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        let is_word = !before.ends_with(char::is_alphanumeric) && !before.trim_end().ends_with("not");
        let colon = after.find(':').map(|at| (at, ":"));
        let verb = after.find(" are ").map(|at| (at, " are "));
        let (length, mark) = colon.into_iter().chain(verb).min()?;
        let what = after[..length].trim();
        let is_list = LISTED.iter().any(|word| what.ends_with(word)) && what.split(' ').count() < 4
            || what.is_empty() && mark == ":" && before.trim_end().ends_with(['.', ',', ';', '(']);
        (is_word && is_list).then_some(at + word.len() + length + mark.len())
    });
    one_of.chain(known).min()
}

/// Removes quotations of several words, where the conversation may be repeated. The message of an inner error stays.
fn remove_quotations(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\'', '"', '`']) {
        let mark = &rest[at..=at];
        kept.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
        let opening = &kept[..kept.len() - 1];
        if opening.ends_with(char::is_alphanumeric) || is_message_key(opening) {
            continue;
        }
        let is_end = |(at, _): &(usize, &str)| !rest[at + 1..].starts_with(char::is_alphanumeric);
        if let Some((end, _)) = rest.match_indices(mark).find(is_end) {
            if rest[..end].split_whitespace().count() < QUOTED_WORDS {
                kept.push_str(&rest[..end]);
            }
            kept.push_str(mark);
            rest = &rest[end + 1..];
        }
    }
    kept.push_str(rest);
    kept
}

/// Returns whether a text ends with the key of an error's message, as in `{"message": `.
fn is_message_key(text: &str) -> bool {
    const KEYS: [&str; 5] = ["message", "msg", "error", "detail", "reason"];
    let key = text.trim_end_matches([' ', '\\']).strip_suffix(':');
    let key = key.and_then(|key| key.strip_suffix(['"', '\'']));
    key.is_some_and(|key| KEYS.iter().any(|word| key.trim_end_matches('\\').ends_with(word)))
}
