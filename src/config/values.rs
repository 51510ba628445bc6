//! The types of single settings that are not plain numbers or texts: durations, money, lists, commands.
//!
//! Each carries the unit or the form in which the configuration states it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::domain::Cost;

/// A duration in seconds, with fractions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(from = "f64", into = "f64")]
pub struct Seconds(pub Duration);

impl From<f64> for Seconds {
    /// Converts without a failure: what is not a duration becomes the longest one.
    fn from(seconds: f64) -> Self {
        Self(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }
}

impl From<Seconds> for f64 {
    fn from(seconds: Seconds) -> Self {
        seconds.0.as_secs_f64()
    }
}

/// A duration in whole milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(from = "u64", into = "u64")]
pub struct Milliseconds(pub Duration);

impl From<u64> for Milliseconds {
    fn from(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }
}

impl From<Milliseconds> for u64 {
    fn from(milliseconds: Milliseconds) -> Self {
        Self::try_from(milliseconds.0.as_millis()).unwrap_or(Self::MAX)
    }
}

/// Reads an amount of US dollars.
pub(super) fn read_usd<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cost>, D::Error> {
    Option::<f64>::deserialize(deserializer).map(|usd| usd.map(Cost::from_usd))
}

/// A text or a list of texts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
enum StringOrList {
    /// One text.
    One(String),
    /// Several texts.
    Many(Vec<String>),
}

/// A list of texts, which the configuration may state as one text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(from = "StringOrList")]
pub struct StringList(pub Vec<String>);

impl From<StringOrList> for StringList {
    fn from(stated: StringOrList) -> Self {
        match stated {
            StringOrList::One(text) => Self(vec![text]),
            StringOrList::Many(texts) => Self(texts),
        }
    }
}

impl Deref for StringList {
    type Target = Vec<String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for StringList {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl StringList {
    /// Returns whether a name matches one of these patterns, in which `*` matches any characters.
    pub fn matches_name(&self, name: &str) -> bool {
        self.iter().any(|pattern| matches_pattern(pattern, name))
    }

    /// Returns whether some name that begins with `prefix` may match.
    pub(super) fn may_match_below(&self, prefix: &str) -> bool {
        self.iter().any(|pattern| match pattern.split_once('*') {
            Some((first, _)) => first.starts_with(prefix) || prefix.starts_with(first),
            None => pattern.starts_with(prefix),
        })
    }

    /// Returns whether all names that begin with `prefix` match.
    pub(super) fn matches_all_below(&self, prefix: &str) -> bool {
        self.iter()
            .any(|pattern| pattern.ends_with('*') && matches_pattern(pattern, prefix))
    }
}

/// Returns whether a name matches a pattern. The texts between its `*` must occur in order, the outer ones at the ends.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut remaining) = name.strip_prefix(first) else {
        return false;
    };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        // The leftmost match leaves the most text for the remaining parts, so backtracking is unnecessary.
        match remaining.find(part) {
            Some(at) => remaining = &remaining[at + part.len()..],
            None => return false,
        }
    }
    remaining.ends_with(last)
}

/// The command of a hook or of a tool of the user's own.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(from = "StringOrList")]
pub enum CommandLine {
    /// A script for the shell.
    Shell(String),
    /// A program and its arguments.
    Argv(Vec<String>),
}

impl From<StringOrList> for CommandLine {
    fn from(stated: StringOrList) -> Self {
        match stated {
            StringOrList::One(script) => Self::Shell(script),
            StringOrList::Many(argv) => Self::Argv(argv),
        }
    }
}

impl Default for CommandLine {
    fn default() -> Self {
        Self::Argv(Vec::new())
    }
}

/// Omits the command, which may contain secrets.
impl fmt::Debug for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommandLine")
    }
}

impl CommandLine {
    /// Returns whether there is nothing to run.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Shell(script) => script.trim().is_empty(),
            Self::Argv(argv) => argv.first().is_none_or(String::is_empty),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, fits) in [
            ("bash", "bash", true),
            ("bash", "bash_output", false),
            ("bash*", "bash_output", true),
            ("*", "", true),
            ("*_file", "edit_file", true),
            ("*_file", "edit_files", false),
            ("mcp:*/get*", "mcp:a/b/get_x", true),
            ("*a*a*", "ba", false),
            ("é*", "éa", true),
            ("", "bash", false),
        ] {
            assert_eq!(matches_pattern(pattern, name), fits, "{pattern} {name}");
        }
    }
}
