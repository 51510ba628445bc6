//! Glob patterns that cannot panic, whoever wrote them: a model, a repository or a person.
//!
//! It owns the limits. clippy's `disallowed_methods` keeps other modules away from globset's own compilation, which
//! panics where a pattern is too complex for a regular expression.

use std::path::Path;

use globset::{GlobBuilder, GlobSet};

/// The most bytes of a pattern. The work of matching grows with them.
const MAX_BYTES: usize = 1024;
/// The most levels of nested braces. From about 250 on, a pattern cannot be compiled.
const MAX_LEVELS: usize = 16;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct GlobPattern(GlobSet);

/// Why a pattern cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    #[error("it has {0} bytes; the limit is {MAX_BYTES}")]
    TooLong(usize),
    #[error("its braces are nested more than {MAX_LEVELS} levels deep")]
    TooDeep,
    /// It has no meaning, or is too complex.
    #[error("{0}")]
    Invalid(String),
}

impl GlobPattern {
    /// Compiles a pattern for names, and for texts in which `*` also matches `/`.
    ///
    /// # Errors
    /// The pattern is invalid or beyond a limit.
    pub fn for_names(pattern: &str) -> Result<Self, GlobError> {
        Self::compile(pattern, false)
    }

    /// Compiles a pattern for paths, in which only `**` matches `/`.
    ///
    /// # Errors
    /// The pattern is invalid or beyond a limit.
    pub fn for_paths(pattern: &str) -> Result<Self, GlobError> {
        Self::compile(pattern, true)
    }

    fn compile(pattern: &str, literal_separator: bool) -> Result<Self, GlobError> {
        check_limits(pattern)?;
        let glob = GlobBuilder::new(pattern)
            .literal_separator(literal_separator)
            .backslash_escape(true)
            .build()
            .map_err(invalid)?;
        // A set reports what a single glob would panic at.
        GlobSet::new([glob]).map(Self).map_err(invalid)
    }

    /// Returns whether the pattern matches the whole path or name.
    pub fn is_match(&self, path: impl AsRef<Path>) -> bool {
        self.0.is_match(path)
    }
}

/// Checks the limits of a pattern that another library compiles.
///
/// # Errors
/// The pattern is beyond a limit.
pub fn check_limits(pattern: &str) -> Result<(), GlobError> {
    if pattern.len() > MAX_BYTES {
        Err(GlobError::TooLong(pattern.len()))
    } else if nesting_depth(pattern) > MAX_LEVELS {
        Err(GlobError::TooDeep)
    } else {
        Ok(())
    }
}

fn invalid(error: globset::Error) -> GlobError {
    GlobError::Invalid(error.kind().to_string())
}

/// Returns how deep the braces are nested. Escaped and quoted braces count too, which is harmless.
fn nesting_depth(pattern: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for letter in pattern.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_and_paths() {
        for (pattern, name, as_name, as_path) in [
            ("*.rs", "a.rs", true, true),
            ("*.rs", "src/a.rs", true, false),
            ("**/*.rs", "src/a.rs", true, true),
            ("{a,b}.[ch]", "b.h", true, true),
            (r"a\*", "a*", true, true),
            ("a", "b", false, false),
        ] {
            let by_name = GlobPattern::for_names(pattern).unwrap();
            let by_path = GlobPattern::for_paths(pattern).unwrap();
            let found = (by_name.is_match(name), by_path.is_match(name));
            assert_eq!(found, (as_name, as_path), "{pattern} {name}");
        }
    }

    #[test]
    fn pathological_patterns_are_errors_and_never_panic() {
        let nested = |levels: usize| format!("{}a{}", "{".repeat(levels), "}".repeat(levels));
        assert!(GlobPattern::for_names(&nested(MAX_LEVELS)).is_ok());
        for (pattern, problem) in [
            (nested(MAX_LEVELS + 1), "nested"),
            (nested(250), "nested"),
            (nested(100_000), "bytes"),
            ("{".repeat(500), "nested"),
            ("*".repeat(MAX_BYTES + 1), "bytes"),
            ("[".to_owned(), "character class"),
            ("[z-a]".to_owned(), "range"),
            ("{a".to_owned(), "alternate"),
            ("a\\".to_owned(), "dangling"),
        ] {
            let error = GlobPattern::for_names(&pattern).unwrap_err().to_string();
            assert!(error.contains(problem), "{pattern}: {error}");
        }
        for pattern in [
            "*".repeat(MAX_BYTES),
            "[!a]".repeat(256),
            "{a,b}".repeat(200),
            "?".repeat(MAX_BYTES),
        ] {
            assert!(GlobPattern::for_paths(&pattern).is_ok_and(|glob| !glob.is_match("/")));
        }
    }
}
