//! Text patterns with `*`, wide for rules that deny and narrow for rules that allow. Knows nothing of tools and rules.

/// A text pattern in which `*` matches anything: the literal pieces between the stars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextPattern {
    pieces: Vec<String>,
}

impl TextPattern {
    pub(super) fn parse(source: &str) -> Self {
        let mut pieces = vec![String::new()];
        let mut chars = source.chars();
        while let Some(ch) = chars.next() {
            let literal = match ch {
                '*' => {
                    pieces.push(String::new());
                    continue;
                }
                '\\' => chars.next().unwrap_or('\\'),
                other => other,
            };
            if let Some(piece) = pieces.last_mut() {
                piece.push(literal);
            }
        }
        Self { pieces }
    }

    /// Returns whether the pattern matches with wide stars.
    ///
    /// The leftmost match of each piece is enough, so each piece is searched for once.
    pub(super) fn is_match(&self, subject: &str) -> bool {
        let [first, middle @ .., last] = self.pieces.as_slice() else {
            return self.pieces.first().is_some_and(|only| only == subject);
        };
        let Some(mut rest) = subject.strip_prefix(first.as_str()) else {
            return false;
        };
        for piece in middle {
            let Some(at) = rest.find(piece.as_str()) else {
                return false;
            };
            rest = &rest[at + piece.len()..];
        }
        rest.ends_with(last.as_str())
    }

    /// Returns whether the pattern matches with narrow stars; see the module's header. `*` alone matches everything.
    pub(super) fn matches_words(&self, subject: &str) -> bool {
        let text = subject.as_bytes();
        let [first, rest @ ..] = self.pieces.as_slice() else {
            return false;
        };
        if rest.is_empty() || (first.is_empty() && rest == [String::new()]) {
            return self.is_match(subject);
        }
        if !subject.starts_with(first.as_str()) {
            return false;
        }
        let first_word = first_word_length(subject);
        // The positions where the text matched so far may end.
        // Positions instead of backtracking: a hostile pattern costs at most text times pattern length.
        let mut ends = vec![false; text.len() + 1];
        ends[first.len()] = true;
        let mut before = first.as_str();
        let mut in_first_word = !first.contains(' ');
        for (index, piece) in rest.iter().enumerate() {
            let starts = star_ends(text, &ends, before, in_first_word, first_word);
            let is_last = index + 1 == rest.len();
            ends = vec![false; text.len() + 1];
            for at in 0..=text.len() {
                let end = at + piece.len();
                if starts[at] && text[at..].starts_with(piece.as_bytes()) && (!is_last || end == text.len()) {
                    ends[end] = true;
                }
            }
            in_first_word &= !piece.contains(' ');
            if !piece.is_empty() {
                before = piece;
            }
        }
        ends[text.len()]
    }

    pub(super) fn has_star(&self) -> bool {
        self.pieces.len() > 1
    }

    /// Returns the literal text before the first `*`.
    pub(super) fn literal_prefix(&self) -> &str {
        self.pieces.first().map_or("", String::as_str)
    }

    /// Returns `git status` for `git status *`.
    pub(super) fn without_optional_tail(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [head, tail] if tail.is_empty() => head.strip_suffix(' '),
            _ => None,
        }
    }

    /// Returns whether a word of a command is in the pattern, and neither contains nor touches a `*`. A quoted word may
    /// contain blanks.
    pub(super) fn spells_word(&self, word: &str) -> bool {
        let last = self.pieces.len() - 1;
        self.pieces.iter().enumerate().any(|(index, piece)| {
            piece.match_indices(word).any(|(at, _)| {
                let (before, after) = (&piece[..at], &piece[at + word.len()..]);
                (before.ends_with(' ') || before.is_empty() && index == 0)
                    && (after.starts_with(' ') || after.is_empty() && index == last)
            })
        })
    }

    pub(super) fn first_word(&self) -> Option<&str> {
        let head = self.literal_prefix();
        match head.split_once(' ') {
            Some((word, _)) => Some(word),
            None if !self.has_star() => Some(head),
            None => None,
        }
    }
}

/// Returns the length of a simple command's first word, as rules see it.
fn first_word_length(command: &str) -> usize {
    let mut quoted = false;
    command
        .find(|c| {
            quoted ^= c == '\'';
            c == ' ' && !quoted
        })
        .unwrap_or(command.len())
}

/// Returns where a narrow `*` may end that begins at a position in `from`, directly after the literal text `before`.
fn star_ends(text: &[u8], from: &[bool], before: &str, in_first_word: bool, first_word: usize) -> Vec<bool> {
    let behind_word = before
        .chars()
        .next_back()
        .is_some_and(|c| c != ' ' && (in_first_word || c.is_alphanumeric() || c == '_'));
    let behind_blank = before.is_empty() || before.ends_with(' ');
    let mut ends = vec![false; text.len() + 1];
    let mut open = false;
    for at in 0..=text.len() {
        // A `*` that begins here takes this byte next.
        if from[at] {
            open |= !behind_word || text.get(at) == Some(&b' ');
        }
        ends[at] = open || from[at];
        let crosses = match text.get(at) {
            Some(b'/') => at < first_word,
            Some(b' ') => !behind_blank && !behind_word,
            Some(_) | None => false,
        };
        open &= !crosses;
    }
    ends
}
