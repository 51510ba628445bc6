//! Light syntax colors for one line of code: comments, strings, numbers, common keywords.
//!
//! Knows no grammar and keeps no state between lines, because code arrives line by line; a guess may be wrong.

use super::style::{Color, Styler};

/// Sorted by [`compare_ignoring_case`], because [`highlight_line`] searches it in halves.
const KEYWORDS: &[&str] = &[
    "abstract",
    "and",
    "as",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "def",
    "default",
    "defer",
    "del",
    "do",
    "done",
    "elif",
    "else",
    "elsif",
    "end",
    "enum",
    "esac",
    "except",
    "export",
    "extends",
    "false",
    "False",
    "fi",
    "finally",
    "fn",
    "for",
    "foreach",
    "from",
    "func",
    "function",
    "go",
    "if",
    "impl",
    "implements",
    "import",
    "in",
    "interface",
    "is",
    "lambda",
    "let",
    "local",
    "loop",
    "match",
    "mod",
    "module",
    "mut",
    "namespace",
    "new",
    "nil",
    "None",
    "not",
    "null",
    "or",
    "package",
    "pass",
    "private",
    "protected",
    "pub",
    "public",
    "raise",
    "ref",
    "return",
    "select",
    "self",
    "Self",
    "static",
    "struct",
    "super",
    "switch",
    "then",
    "this",
    "throw",
    "trait",
    "true",
    "True",
    "try",
    "type",
    "typedef",
    "unsafe",
    "use",
    "using",
    "var",
    "void",
    "where",
    "while",
    "with",
    "yield",
];

/// Colors `line` by its language's conventions. Without a known language it stays plain.
pub(super) fn highlight_line(styler: Styler, lang: &str, line: &str) -> String {
    if !styler.use_color {
        return line.to_owned();
    }
    let comment: &[&str] = match lang {
        "diff" | "patch" => return diff_line(styler, line),
        "" | "text" | "txt" | "plain" | "console" | "output" | "markdown" | "md" => return line.to_owned(),
        "python" | "py" | "sh" | "bash" | "shell" | "zsh" | "ruby" | "rb" | "toml" | "yaml" | "yml" | "r"
        | "perl" | "dockerfile" | "make" | "makefile" | "ini" | "conf" | "elixir" | "nix" => &["#"],
        "lua" | "sql" | "haskell" | "hs" | "elm" => &["--"],
        "lisp" | "clojure" | "scheme" | "asm" => &[";"],
        "html" | "xml" | "svg" => &["<!--"],
        "vim" => &["\""],
        "php" => &["//", "#"],
        _ => &["//"],
    };
    let mut out = String::with_capacity(line.len() + 32);
    let mut rest = line;
    let mut before = ' ';
    while let Some(ch) = rest.chars().next() {
        let free = !before.is_alphanumeric() && before != '_';
        // `#` starts a comment only after white space: `a#b` is a word in a shell.
        let hash_in_word = |mark: &str| mark == "#" && !before.is_whitespace();
        if comment
            .iter()
            .any(|mark| rest.starts_with(mark) && !hash_in_word(mark))
        {
            out.push_str(&styler.dim_text(rest));
            return out;
        }
        let (length, ink) = match ch {
            '"' | '`' => (measure_string(rest, ch), Some(Color::Green)),
            // `'` is also an apostrophe, a lifetime, or a transpose, so it needs a closing partner.
            '\'' if free && rest[1..].contains('\'') => (measure_string(rest, ch), Some(Color::Green)),
            '0'..='9' if free => (
                measure_span(rest, |c| c.is_alphanumeric() || matches!(c, '.' | '_')),
                Some(Color::Yellow),
            ),
            _ if ch.is_alphabetic() || ch == '_' => {
                let length = measure_span(rest, |c| c.is_alphanumeric() || c == '_');
                let word = &rest[..length];
                (
                    length,
                    KEYWORDS
                        .binary_search_by(|known| compare_ignoring_case(known, word))
                        .is_ok()
                        .then_some(Color::Magenta),
                )
            }
            _ => (ch.len_utf8(), None),
        };
        let (piece, after) = rest.split_at(length);
        match ink {
            Some(ink) => out.push_str(&styler.paint_text(ink, piece)),
            None => out.push_str(piece),
        }
        before = piece.chars().last().unwrap_or(' ');
        rest = after;
    }
    out
}

/// Orders the keyword table: by letters without case, then lowercase first.
fn compare_ignoring_case(known: &str, word: &str) -> std::cmp::Ordering {
    let lower = |text: &str| text.to_ascii_lowercase();
    lower(known).cmp(&lower(word)).then_with(|| word.cmp(known))
}

/// Colors a line of a unified diff.
fn diff_line(styler: Styler, line: &str) -> String {
    diff_ink(line).map_or_else(|| line.to_owned(), |ink| styler.paint_text(ink, line))
}

/// Returns the color of a line of a unified diff; `None` for context lines.
pub(super) fn diff_ink(line: &str) -> Option<Color> {
    match line.as_bytes().first() {
        Some(b'+') => Some(Color::Green),
        Some(b'-') => Some(Color::Red),
        Some(b'@') => Some(Color::Cyan),
        _ => None,
    }
}

fn measure_span(text: &str, part: impl Fn(char) -> bool) -> usize {
    text.find(|c| !part(c)).unwrap_or(text.len())
}

fn measure_string(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, ch) in text.char_indices().skip(1) {
        match ch {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if ch == quote => return at + ch.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(lang: &str, line: &str) -> String {
        let painted = highlight_line(
            Styler {
                use_color: true,
                dumb: false,
            },
            lang,
            line,
        );
        painted
            .replace("\u{1b}[0m", ">")
            .replace("\u{1b}[35m", "<k:")
            .replace("\u{1b}[32m", "<s:")
            .replace("\u{1b}[33m", "<n:")
            .replace("\u{1b}[2m", "<c:")
            .replace("\u{1b}[31m", "<r:")
    }

    #[test]
    fn obvious_tokens_are_colored() {
        for (lang, line, expected) in [
            ("rust", "let x = 1; // one", "<k:let> x = <n:1>; <c:// one>"),
            ("rust", "fn f<'a>(s: &'a str) {", "<k:fn> f<<s:'a>(s: &'>a str) {"),
            (
                "python",
                "return \"a\\\"b\" # c",
                "<k:return> <s:\"a\\\"b\"> <c:# c>",
            ),
            ("css", "x#y", "x#y"),
            ("sh", "echo a#b", "echo a#b"),
            ("py", "None or none", "<k:None> <k:or> none"),
            ("text", "let it be", "let it be"),
            ("diff", "-old", "<r:-old>"),
            ("js", "días = 'é'", "días = <s:'é'>"),
        ] {
            assert_eq!(marked(lang, line), expected);
        }
        assert_eq!(
            highlight_line(
                Styler {
                    use_color: false,
                    dumb: false
                },
                "rust",
                "let x"
            ),
            "let x"
        );
    }

    #[test]
    fn binary_search_finds_every_keyword() {
        for word in KEYWORDS {
            assert!(
                KEYWORDS
                    .binary_search_by(|known| compare_ignoring_case(known, word))
                    .is_ok(),
                "{word}"
            );
        }
    }
}
