//! Lists of words and names, each in one string: tables stay readable as blocks of text.

/// Words, separated by blanks.
#[derive(Clone, Copy, Debug)]
pub struct WordList(pub &'static str);

/// Names, separated by commas: they may contain blanks.
#[derive(Clone, Copy, Debug)]
pub struct NameList(pub &'static str);

impl NameList {
    /// Returns the names in order.
    pub fn iter(self) -> std::str::Split<'static, &'static str> {
        self.0.split(", ")
    }
}

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
