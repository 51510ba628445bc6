//! How a text mentions a file: `@path`, with lines `@path:10` and `@path:10-20`. A name with blanks is quoted
//! (`@"my file.txt":10`), or its blanks are escaped (`@my\ file.txt`).
//!
//! Knows the form only: not which files there are. Pure.

/// A word that begins with `@`.
pub struct MentionWord<'t> {
    /// Where it begins in bytes, after the `@`.
    pub start: usize,
    pub text: &'t str,
}

/// Finds the words that begin with `@`. A quoted name that does not end is a word to the end of its line.
pub fn find_mentions(text: &str) -> Vec<MentionWord<'_>> {
    let mut found = Vec::new();
    let mut next = 0;
    while let Some(at) = text[next..].find('@').map(|skip| next + skip) {
        let start = at + 1;
        let before = text[..at].chars().next_back();
        if before.is_some_and(|letter| !letter.is_whitespace() && !"([{".contains(letter)) {
            next = start;
            continue;
        }
        let name = &text[start..];
        let quoted = name.strip_prefix('"').map(|rest| match find_closing_quote(rest) {
            Some(end) => 1 + end + 1,
            None => name.find('\n').unwrap_or(name.len()),
        });
        let quoted = quoted.unwrap_or(0);
        let length = quoted + find_end(&name[quoted..]);
        found.push(MentionWord {
            start,
            text: &name[..length],
        });
        next = start + length;
    }
    found
}

/// Returns the path and the lines that a word names, without quotes, and without the punctuation of the sentence.
pub fn unquote(word: &str) -> String {
    const PUNCTUATION: [char; 11] = [',', ';', '.', ')', ']', '}', '?', '!', ':', '"', '\''];
    if let Some(rest) = word.strip_prefix('"')
        && let Some(end) = find_closing_quote(rest)
    {
        let name = unescape_quotes(&rest[..end]);
        let lines = rest[end + 1..].trim_end_matches(PUNCTUATION);
        return name + if lines.starts_with(':') { lines } else { "" };
    }
    unescape_blanks(word.trim_end_matches(PUNCTUATION))
}

/// Returns where the quotation ends that has begun before `text`; `None` if it does not end in this line.
pub fn find_closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '\n' => return None,
            '"' if !escaped => return Some(at),
            _ => escaped = letter == '\\' && !escaped,
        }
    }
    None
}

/// Reads a name between quotes.
pub fn unescape_quotes(name: &str) -> String {
    name.replace("\\\"", "\"").replace("\\\\", "\\")
}

/// Reads a name without quotes.
pub fn unescape_blanks(name: &str) -> String {
    name.replace("\\ ", " ").replace("\\\t", "\t")
}

/// Returns where a word ends: at the first blank that is not escaped.
fn find_end(text: &str) -> usize {
    let is_blank = |letter: char| letter == ' ' || letter == '\t';
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        if letter.is_whitespace() && !(escaped && is_blank(letter)) {
            return at;
        }
        escaped = letter == '\\' && !escaped;
    }
    text.len()
}
