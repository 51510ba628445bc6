//! Forms of words that have a meaning of their own for bash: names, assignments, descriptors, connections.

use super::ShellWord;

/// Returns whether a redirection to this file is, or may become, one to `/dev/tcp/HOST/PORT` or `/dev/udp/…`.
///
/// bash itself connects there. When in doubt, yes: a target that is unknown in advance counts once it is below `/dev`.
pub(super) fn is_connection(target: &ShellWord) -> bool {
    let (text, is_complete) = match target {
        ShellWord::Literal { text, .. } => (text.as_str(), true),
        ShellWord::Dynamic { known, .. } => (known.as_str(), false),
    };
    if !text.starts_with('/') {
        return false;
    }
    let mut folders: Vec<&str> = Vec::new();
    for folder in text.split('/') {
        match folder {
            "" | "." => {}
            ".." => _ = folders.pop(),
            name => folders.push(name),
        }
    }
    let may_be = |folder: Option<&&str>, names: &[&str]| {
        folder.is_some_and(|name| names.contains(name) || name.contains(['*', '?', '[']))
    };
    may_be(folders.first(), &["dev"]) && (!is_complete || may_be(folders.get(1), &["tcp", "udp"]))
}

pub(super) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns whether a word, as written, is `NAME=…`, `NAME+=…`, or `NAME[…]=…`.
pub(crate) fn is_assignment(raw: &str) -> bool {
    let name = raw.find(|c| !is_name_char(c)).unwrap_or(raw.len());
    let rest = &raw[name..];
    let named = name > 0 && !raw.starts_with(|c: char| c.is_ascii_digit());
    named && (rest.starts_with('=') || rest.starts_with("+=") || rest.starts_with('['))
}

/// Returns whether a word begins with `NAME[`.
pub(super) fn is_element(raw: &str) -> bool {
    raw.find(|c| !is_name_char(c))
        .is_some_and(|at| raw[at..].starts_with('['))
}

/// Returns whether a word is the `{NAME}` of a redirection: a variable receives the descriptor's number.
pub(super) fn is_descriptor_name(raw: &str) -> bool {
    raw.strip_prefix('{')
        .and_then(|raw| raw.strip_suffix('}'))
        .is_some_and(|name| {
            name.starts_with(|c: char| is_name_char(c) && !c.is_ascii_digit())
                && name.chars().all(is_name_char)
        })
}

/// Returns whether the text after `>&` is a descriptor: `1`, `-`, or `2-`.
pub(super) fn is_descriptor(text: &str) -> bool {
    let digits = text.strip_suffix('-').unwrap_or(text);
    !text.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}
