//! The names of MCP servers. They are parts of rules and of the names of tools, so not every character can be in them.
//! Pure.

use crate::base::text::prefix_within;

/// The longest name, so that the server's tools have names that all providers accept.
const MAX_NAME: usize = 32;
/// The most servers that another program can name at once.
pub const MAX_NAMED_MCP_SERVERS: usize = 100;

/// Returns whether a server can have this name: at most 32 letters, digits, `-`, and single `_`.
pub(super) fn is_mcp_name(name: &str) -> bool {
    let is_usable = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_usable) && !name.contains("__")
}

/// Returns different names, in the same order, for the servers that another program names. A name that can be used
/// stays as it is; that of a later server with the same name gets a number.
pub fn usable_mcp_names(wanted: &[&str]) -> Vec<String> {
    let mut names = vec![String::new(); wanted.len()];
    // What is only similar to a usable name must not take it away.
    for stays in [true, false] {
        for (at, name) in wanted.iter().enumerate() {
            if is_mcp_name(name) == stays {
                names[at] = find_free_name(&shorten_name(name), &names);
            }
        }
    }
    names
}

/// Returns the most telling part of a name that can be used.
fn shorten_name(name: &str) -> String {
    if is_mcp_name(name) {
        return name.to_owned();
    }
    let mut usable = replace_characters(name);
    // The galleries of editors put the owner first, as in `io.github.owner/server`.
    if let Some((_, end)) = name.rsplit_once('/').filter(|_| usable.len() > MAX_NAME) {
        usable = replace_characters(end);
    }
    let usable = prefix_within(&usable, MAX_NAME).trim_end_matches(['-', '_']);
    if usable.is_empty() { "server" } else { usable }.to_owned()
}

/// Replaces characters that cannot be used by `-`, at most one in a row, and none at the start.
fn replace_characters(name: &str) -> String {
    let mut usable = String::new();
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '-'
        };
        if c.is_ascii_alphanumeric() || !(usable.is_empty() || usable.ends_with(c)) {
            usable.push(c);
        }
    }
    usable
}

/// Returns the name, with a number if it is taken.
fn find_free_name(name: &str, taken: &[String]) -> String {
    let numbered = (2..).map(|n| {
        let suffix = format!("-{n}");
        format!("{}{suffix}", prefix_within(name, MAX_NAME - suffix.len()))
    });
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_usable_and_distinct() {
        let (long, digits) = ("x".repeat(40), "7".repeat(31) + "_8");
        for (wanted, expected) in [
            ("files", "files"),
            ("a--b_", "a--b_"),
            ("My Server!", "My-Server"),
            ("a__b", "a_b"),
            ("_ . a", "a"),
            ("\u{1f600}", "server"),
            ("", "server"),
            ("../../etc/passwd", "etc-passwd"),
            ("microsoft/playwright-mcp", "microsoft-playwright-mcp"),
            ("io.github.github/github-mcp-server", "github-mcp-server"),
            (
                "io.github.ChromeDevTools/chrome-devtools-mcp",
                "chrome-devtools-mcp",
            ),
            (&format!("a/{long}"), &"x".repeat(32)),
            (&digits, &"7".repeat(31)),
        ] {
            assert_eq!(usable_mcp_names(&[wanted]), [expected], "{wanted}");
            assert!(is_mcp_name(expected), "{expected}");
        }
        let names = usable_mcp_names(&["a b", "a.b", "a-b", "a-b-2", "files", "files", &long, &long]);
        let (first, second) = ("x".repeat(32), format!("{}-2", "x".repeat(30)));
        assert_eq!(
            names,
            [
                "a-b-3", "a-b-4", "a-b", "a-b-2", "files", "files-2", &first, &second
            ]
        );
    }
}
