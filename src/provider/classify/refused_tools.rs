//! Finds the tools whose definitions an error refuses.
//!
//! Pure text matching. Expects texts in lower case. Whether the request has such tools is the caller's matter.

use crate::provider::request_part::ToolPointer;

/// What is before the position of a tool. Gemini has all functions in one tool, so the first kind counts alone.
const POSITIONS: [&[&str]; 2] = [
    &[
        "function_declarations[",
        "functiondeclarations[",
        "function_declarations.",
        "functiondeclarations.",
    ],
    &["tools[", "tools.", "'tools', "],
];

/// What is before the name of a tool.
const BEFORE_NAMES: [&str; 6] = [
    "function '",
    "function \"",
    "function `",
    "tool '",
    "tool \"",
    "tool `",
];

/// What is after the name of a tool (Vertex AI).
const AFTER_NAMES: [&str; 2] = ["` functiondeclaration", "` function_declaration"];

/// The words of errors about the definition of a tool, and about a call of one.
const ABOUT_DEFINITIONS: [&str; 4] = ["schema", "parameters", "declaration", "description"];
const ABOUT_CALLS: [&str; 3] = ["tool call", "tool_call", "tool_use"];

/// Returns the tools that `text` refuses, each once.
pub(super) fn find_refused_tools(text: &str) -> Vec<ToolPointer> {
    let mut found: Vec<ToolPointer> = Vec::new();
    for words in POSITIONS {
        let rest = words.iter().flat_map(|word| text.match_indices(word));
        let indexes = rest.filter_map(|(at, word)| leading_index(&text[at + word.len()..]));
        found.extend(indexes.map(ToolPointer::Index));
        if !found.is_empty() {
            break;
        }
    }
    // A call that does not fit is the model's mistake, not the definition's.
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if found.is_empty() && has(&ABOUT_DEFINITIONS) && !has(&ABOUT_CALLS) {
        let before = BEFORE_NAMES.iter().flat_map(|word| text.match_indices(word));
        found.extend(before.filter_map(|(at, word)| {
            let rest = &text[at + word.len()..];
            to_name(&rest[..rest.find(|c| !is_of_name(c))?])
        }));
        let after = AFTER_NAMES.iter().flat_map(|word| text.match_indices(word));
        found.extend(after.filter_map(|(at, _)| {
            let rest = &text[..at];
            to_name(&rest[rest.trim_end_matches(is_of_name).len()..])
        }));
    }
    let mut distinct = Vec::new();
    for tool in found {
        if !distinct.contains(&tool) {
            distinct.push(tool);
        }
    }
    distinct
}

fn leading_index(text: &str) -> Option<usize> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

fn to_name(name: &str) -> Option<ToolPointer> {
    (!name.is_empty()).then(|| ToolPointer::Name(name.to_owned()))
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}
