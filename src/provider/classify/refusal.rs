//! Recognizes an error that refuses a part of the request, or tools of it, and finds which.
//!
//! The words for each part are in `request_part`. Whether the request has the tools is the caller's matter.

use super::error_body::ErrorBody;
use super::output_limit;
use super::refused_tools::{find_refused_tools, is_about_messages, refuses_unnamed_tool};
use crate::provider::error::ProviderFault;
use crate::provider::request_part::{REFUSAL_RULES, RequestPart, RequestParts, ToolPointer};

/// Chooses the fault if the provider refuses a part of the request that it works without.
/// `parts` are those that the request has, if they are known.
pub(super) fn choose_refusal(
    status: Option<u16>,
    body: &ErrorBody,
    parts: Option<&RequestParts>,
) -> Option<ProviderFault> {
    let is_template = status == Some(500);
    if !is_template && status.is_some_and(|status| !matches!(status, 400 | 422)) {
        return None;
    }
    let part = find_refused_part(body, parts);
    if let Some(part) = part.filter(|part| !is_template || part.is_of_template()) {
        return Some(ProviderFault::PartRefused(part));
    }
    let is_tool = refuses_unnamed_tool(&body.statement);
    let mut tools = if is_template && !is_tool {
        Vec::new()
    } else {
        find_tools(body)
    };
    if tools.is_empty() && is_tool {
        tools.push(ToolPointer::Unnamed);
    }
    (!tools.is_empty()).then_some(ProviderFault::ToolsRefused(tools))
}

/// Returns the part of the request that the provider refuses, if the request works without it.
fn find_refused_part(body: &ErrorBody, parts: Option<&RequestParts>) -> Option<RequestPart> {
    let is_sent = |part: &RequestPart| match part {
        // History is no field, so the caller of the provider looks for reasoning.
        RequestPart::Reasoning => true,
        // Only who has sent the limit knows its other name.
        RequestPart::OutputLimitName => parts.is_some_and(|parts| parts.contains(part)),
        _ => parts.is_none_or(|parts| parts.contains(part)),
    };
    // A limit that is too high is lowered instead, and one that is too low is no unknown parameter.
    let is_value = |part: &RequestPart| {
        matches!(part, RequestPart::OutputLimit | RequestPart::OutputLimitName)
            && refuses_limit(&body.statement)
    };
    let rule = REFUSAL_RULES.iter().find(|rule| {
        is_sent(&rule.part)
            && !is_value(&rule.part)
            && (contains_phrase(body, rule.phrases)
                || rule.fields.iter().any(|field| refuses_parameter(body, field)))
    });
    // A path comes after the path that contains it, and the error may mean either.
    let extra_fields = || {
        parts
            .into_iter()
            .flatten()
            .rev()
            .find(|part| is_extra_field(body, part))
    };
    rule.map(|rule| &rule.part).or_else(extra_fields).cloned()
}

/// Returns whether an error refuses this part, and the part is a configured field.
fn is_extra_field(body: &ErrorBody, part: &RequestPart) -> bool {
    let RequestPart::ExtraField(path) = part else {
        return false;
    };
    let (_, name) = path.rsplit_once('.').unwrap_or(("", path));
    refuses_parameter(body, &name.to_lowercase())
}

/// Returns whether an error refuses the value of an output limit.
fn refuses_limit(text: &str) -> bool {
    output_limit::is_refused(text) || ["minimum", "at least"].iter().any(|words| text.contains(words))
}

fn contains_phrase(body: &ErrorBody, phrases: &[&str]) -> bool {
    let fields = [&body.statement, &body.code, &body.parameter];
    phrases
        .iter()
        .any(|words| fields.iter().any(|field| field.contains(words)))
}

/// Returns the tools whose definitions the provider refuses: by its field for that, or else by its words.
fn find_tools(body: &ErrorBody) -> Vec<ToolPointer> {
    let named = find_refused_tools(&body.parameter);
    if is_about_messages(&body.parameter) {
        Vec::new()
    } else if named.is_empty() {
        find_refused_tools(&body.statement)
    } else {
        named
    }
}

/// Returns whether the error refuses the parameter `name` of the request, or its value, in one of the usual phrases.
/// The word alone may come from the conversation.
fn refuses_parameter(body: &ErrorBody, name: &str) -> bool {
    #[rustfmt::skip]
    const BEFORE: [&str; 12] = [
        "unsupported value:", "unsupported parameter:", "unknown parameter:", "unrecognized parameter:",
        "unknown name", "unknown field", "unexpected keyword argument", "argument supplied:",
        "not supported on this model:", "not support the", "not support parameter", "are not allowed (",
    ];
    const AFTER: [&str; 12] = [
        "is not supported",
        "is unsupported",
        "is not allowed",
        "is not permitted",
        "was unexpected",
        "parameter is not supported",
        "extra inputs are not permitted",
        "extra fields not permitted",
        // vLLM writes its list of errors as Python does: `'loc': ('body', 'store'), 'msg': 'Extra …'`.
        "), 'msg': 'extra inputs are not permitted",
        "input should be",
        "is deprecated",
        "may only be set to",
    ];
    // What precedes an unquoted name of a parameter. Elsewhere it is a plain word: `Tool usage is not supported`.
    const BEFORE_NAMES: [&str; 6] = [":", ";", "parameter", "argument", "property", "field"];
    let is_mark = |letter: char| letter.is_whitespace() || "'\"`:".contains(letter);
    let is_refused = |(at, _): (usize, &str)| {
        let (before, after) = (&body.statement[..at], &body.statement[at + name.len()..]);
        let rest = before.trim_end_matches(is_of_path);
        let before = rest.trim_end_matches(|letter| is_mark(letter) && letter != ':');
        let (path, marks) = (&body.statement[rest.len()..at], &rest[before.len()..]);
        let is_name = name.contains('_')
            || !path.is_empty()
            || after.starts_with(['.', '['])
            || before.is_empty()
            || marks.contains(['\'', '"', '`', '\n'])
            || BEFORE_NAMES.iter().any(|word| before.ends_with(word));
        let after = skip_fields(after).map(|after| after.trim_start_matches(is_mark));
        is_path_of_ours(path)
            && after.is_some_and(|after| {
                BEFORE.iter().any(|words| before.ends_with(words))
                    || is_name && AFTER.iter().any(|words| after.starts_with(words))
            })
    };
    let is_parameter = |(at, _): (usize, &str)| {
        let (before, after) = (&body.parameter[..at], &body.parameter[at + name.len()..]);
        is_path_of_ours(before) && skip_fields(after) == Some("")
    };
    body.parameter.match_indices(name).any(is_parameter) || body.statement.match_indices(name).any(is_refused)
}

fn is_of_path(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "._[]".contains(letter)
}

/// Returns whether fields at this path are agentls's own, not those of a tool's arguments.
fn is_path_of_ours(path: &str) -> bool {
    (path.is_empty() || path.ends_with(['.', ']'])) && !is_path_of_tool(path)
}

/// Returns whether a path leads into the schema or the arguments of a tool.
pub(super) fn is_path_of_tool(path: &str) -> bool {
    const FIELDS: [&str; 5] = ["properties", "schema", "parameters", "arguments", ".input."];
    FIELDS.iter().any(|word| path.contains(word))
}

/// Returns what follows a name and its fields, as in `thinking.budget_tokens: …`; `None` in the middle of a word.
fn skip_fields(after: &str) -> Option<&str> {
    let is_end = |letter: char| !letter.is_ascii_alphanumeric() && !"_-".contains(letter);
    match after.strip_prefix(['.', '[']) {
        Some(fields) => Some(fields.trim_start_matches(is_of_path)),
        None => after.chars().next().is_none_or(is_end).then_some(after),
    }
}
