//! A list of words, in one string: tables of names stay readable as blocks of text.

/// Words, separated by blanks.
#[derive(Clone, Copy, Debug)]
pub struct WordList(pub &'static str);

impl WordList {
    /// Returns whether it lists this word.
    pub fn contains(self, word: &str) -> bool {
        self.iter().any(|listed| listed == word)
    }

    /// Returns the words in order.
    pub fn iter(self) -> std::str::SplitWhitespace<'static> {
        self.0.split_whitespace()
    }
}
