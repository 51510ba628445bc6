//! One replacement, as a caller asks for it.

/// A text to replace and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    pub old: String,
    pub new: String,
    /// Replaces every occurrence. Otherwise the old text must occur exactly once.
    pub all: bool,
}
