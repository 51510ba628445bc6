//! The front matter of a Markdown file: `key: value` lines between two lines of `---`.
//!
//! Pure. Parses a small, strict part of YAML, which is all that skills and commands use: plain and quoted texts,
//! `>` and `|` blocks, and continued lines.

use std::collections::BTreeMap;

/// A Markdown file, split into its front matter and its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrontMatter<'a> {
    /// The keys and values of the front matter; empty if the file has none.
    pub head: BTreeMap<String, String>,
    /// The text after the front matter.
    pub body: &'a str,
}

/// Splits a file into its front matter and its body. A byte order mark is dropped, and so are blank lines before the front
/// matter.
///
/// # Errors
/// The front matter has no closing `---`, or contains a line that is not `key: value`. The text names the line.
pub fn split_front_matter(text: &str) -> Result<FrontMatter<'_>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(rest) = after_fence(text) else {
        return Ok(FrontMatter {
            head: BTreeMap::new(),
            body: text,
        });
    };
    let mut lines: Vec<&str> = Vec::new();
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        at += line.len();
        if line.trim_end() == "---" {
            return Ok(FrontMatter {
                head: parse_head(&lines)?,
                body: &rest[at..],
            });
        }
        lines.push(line.trim_end());
    }
    Err("its front matter does not end: add a line with `---`".to_owned())
}

fn after_fence(text: &str) -> Option<&str> {
    let blank = text.len() - text.trim_start().len();
    let start = text[..blank].rfind('\n').map_or(0, |end| end + 1);
    let (first, rest) = text[start..].split_once('\n')?;
    (first.trim_end() == "---").then_some(rest)
}

fn parse_head(lines: &[&str]) -> Result<BTreeMap<String, String>, String> {
    let mut head = BTreeMap::new();
    let mut lines = lines.iter().copied().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        if line.is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        // `number` counts from 0, and the opening fence is line 1.
        let wrong = || format!("line {} of its front matter is not `key: value`", number + 2);
        if line.starts_with([' ', '\t']) {
            return Err(wrong());
        }
        let (key, value) = line.split_once(':').ok_or_else(wrong)?;
        // The value continues in indented lines, and past blank ones.
        let mut more = Vec::new();
        while let Some((_, next)) =
            lines.next_if(|(_, next)| next.is_empty() || next.starts_with([' ', '\t']))
        {
            more.push(next.trim());
        }
        let value = match value.trim() {
            "|" | "|-" => more.join("\n").trim().to_owned(),
            ">" | ">-" => fold_lines("", &more),
            plain => strip_quotes(&fold_lines(plain, &more)),
        };
        head.insert(key.trim().to_owned(), value);
    }
    Ok(head)
}

/// Joins the lines of a folded value with spaces.
fn fold_lines(first: &str, more: &[&str]) -> String {
    let words = std::iter::once(first).chain(more.iter().copied());
    words
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn strip_quotes(text: &str) -> String {
    for quote in ['"', '\''] {
        let inner = text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
        if let Some(inner) = inner {
            return match quote {
                '"' => inner.replace("\\\"", "\"").replace("\\\\", "\\"),
                _ => inner.replace("''", "'"),
            };
        }
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_and_parses_front_matter() {
        for (text, wanted, body) in [
            ("no head", vec![], "no head"),
            ("", vec![], ""),
            ("---\n---\nbody\n", vec![], "body\n"),
            ("\n \n---\na: b\n---\nbody\n", vec![("a", "b")], "body\n"),
            ("\n\nbody\n", vec![], "\n\nbody\n"),
            (
                "---\nname: a\ndescription: b: c\n---\n\nx",
                vec![("description", "b: c"), ("name", "a")],
                "\nx",
            ),
            (
                "\u{feff}---\r\nname: 'it''s'\r\n---\r\nx",
                vec![("name", "it's")],
                "x",
            ),
            (
                "---\nd: \"say \\\"x\\\"\"\n# no\n\ne:\n---\n",
                vec![("d", "say \"x\""), ("e", "")],
                "",
            ),
            (
                "---\nd: one\n  two\n  three\nn: x\n---\n",
                vec![("d", "one two three"), ("n", "x")],
                "",
            ),
            (
                "---\nd: >-\n  one\n\n  two\nl: |\n  one\n  two\n---\n",
                vec![("d", "one two"), ("l", "one\ntwo")],
                "",
            ),
            // A list is kept as text instead of being parsed.
            ("---\ntools:\n  - a\n  - b\n---\n", vec![("tools", "- a - b")], ""),
        ] {
            let parted = split_front_matter(text).unwrap();
            let head: Vec<_> = parted
                .head
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_str()))
                .collect();
            assert_eq!(head, wanted, "{text:?}");
            assert_eq!(parted.body, body, "{text:?}");
        }
        for (text, expected) in [
            ("---\nname: a\n", "does not end"),
            ("---\nname\n---\n", "line 2"),
            ("---\na: b\n\n- c\n---\n", "line 4"),
            ("---\n  a: b\n---\n", "line 2"),
        ] {
            assert!(
                split_front_matter(text).unwrap_err().contains(expected),
                "{text:?}"
            );
        }
    }
}
