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
#[rustfmt::skip]
const BEFORE_NAMES: [&str; 9] = [
    "function '", "function \"", "function `", "tool '", "tool \"", "tool `", "function declaration `",
    "schema for tool ", "schema for function ",
];

/// What begins the names of all tools of MCP servers. Where no name is expected, only these count.
const FOREIGN_NAME: &str = "mcp__";

/// What is after the name of a tool (Vertex AI).
const AFTER_NAMES: [&str; 3] = [
    "` functiondeclaration",
    "` function_declaration",
    " has an invalid parameters schema",
];

/// The words of errors about the definition of a tool, and about a call of one.
const ABOUT_DEFINITIONS: [&str; 6] = [
    "schema",
    "parameters",
    "declaration",
    "description",
    "grammar",
    "toolspec",
];
const ABOUT_CALLS: [&str; 16] = [
    "tool call",
    "tool_call",
    "tool_use",
    "tool result",
    "tool_result",
    "tool output",
    "tool message",
    "function call ",
    "function_call",
    "functioncall",
    "function response",
    "function_response",
    "functionresponse",
    "arguments for",
    "arguments of",
    "arguments to",
];

/// The lists of messages of the APIs. What is behind a position in one is not the definition of a tool.
const MESSAGES: [&str; 4] = ["messages", "contents", "input", "history"];

/// Returns the tools that `text` refuses, each once.
pub(super) fn find_refused_tools(text: &str) -> Vec<ToolPointer> {
    let is_definition = ABOUT_DEFINITIONS.iter().any(|word| text.contains(word)) && !is_about_messages(text);
    let mut found: Vec<ToolPointer> = Vec::new();
    // Servers count from 0 or from 1, so a name is more certain than a position.
    if is_definition {
        found.extend(find_foreign_names(text));
    }
    for words in POSITIONS {
        if !found.is_empty() {
            break;
        }
        let rest = words.iter().flat_map(|word| text.match_indices(word));
        let indexes = rest.filter_map(|(at, word)| leading_index(&text[at + word.len()..]));
        found.extend(indexes.map(ToolPointer::Index));
    }
    if found.is_empty() && is_definition {
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

/// Returns whether `text` refuses the definition of a tool without saying of which: Moonshot, llama.cpp, and Ollama.
pub(super) fn refuses_unnamed_tool(text: &str) -> bool {
    const TEXTS: [&str; 5] = [
        "tools.function.parameters",
        "function name is invalid",
        "json schema conversion failed",
        "failed to parse grammar",
        "go struct field toolfunction",
    ];
    TEXTS.iter().any(|words| text.contains(words)) && !is_about_messages(text)
}

/// Returns whether an error is about a call of a tool or about a message. One that does not fit is the model's mistake, not
/// that of a definition.
pub(super) fn is_about_messages(text: &str) -> bool {
    let is_position = |rest: &str| {
        let index = rest.trim_start_matches(['.', '[', '\'', '"', ',', ' ']);
        rest.starts_with(['.', '[', '\'', '"']) && index.starts_with(|c: char| c.is_ascii_digit())
    };
    let mut positions = MESSAGES
        .iter()
        .flat_map(|list| text.match_indices(list))
        .map(|(at, list)| &text[at + list.len()..]);
    ABOUT_CALLS.iter().any(|words| text.contains(words)) || positions.any(is_position)
}

fn find_foreign_names(text: &str) -> impl Iterator<Item = ToolPointer> {
    text.match_indices(FOREIGN_NAME).filter_map(|(at, _)| {
        let name = &text[at..];
        let end = name.find(|c| !is_of_name(c)).unwrap_or(name.len());
        let is_word = !text[..at].ends_with(is_of_name);
        to_name(name[..end].trim_end_matches('.')).filter(|_| is_word)
    })
}

/// Returns the position at the start of `text`. AWS counts the members of a list from 1.
fn leading_index(text: &str) -> Option<usize> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let index: usize = text[..end].parse().ok()?;
    if text[end..].starts_with(".member.") {
        index.checked_sub(1)
    } else {
        Some(index)
    }
}

fn to_name(name: &str) -> Option<ToolPointer> {
    (!name.is_empty()).then(|| ToolPointer::Name(name.to_owned()))
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}
