//! A list of words, in one string: tables of names stay readable as blocks of text.

/// Words, separated by blanks.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordList(pub(super) &'static str);

impl WordList {
    pub(super) fn contains(self, word: &str) -> bool {
        self.iter().any(|listed| listed == word)
    }

    pub(super) fn iter(self) -> std::str::SplitWhitespace<'static> {
        self.0.split_whitespace()
    }
}
