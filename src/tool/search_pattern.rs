//! The patterns for names that `glob` and `grep` take: which hidden names they name, and what their brackets mean.
//!
//! `[id]` is a character class, but also the name of a folder in many web projects. Must not touch the disk.

use std::path::Path;

use super::ToolError;
use crate::base::glob::GlobPattern;
use crate::base::text::one_line;

/// Most patterns that braces expand to. With more, all hidden names count as named.
const MAX_EXPANSIONS: usize = 64;
/// Most parts of a path with brackets whose readings are combined.
const MAX_BRACKET_PARTS: usize = 4;

/// A pattern for paths, in each reading of its brackets.
pub(super) struct NamePattern {
    /// Takes the brackets of at least one part literally.
    literal: Vec<GlobPattern>,
    /// Takes brackets as character classes.
    classes: Result<GlobPattern, ToolError>,
}

impl NamePattern {
    /// Compiles a pattern for paths relative to the start of a walk. With `is_deep`, one without `/` matches names at
    /// any depth.
    ///
    /// # Errors
    /// The pattern is invalid, and its brackets are not a name either.
    pub(super) fn new(pattern: &str, is_deep: bool) -> Result<Self, ToolError> {
        let below = if is_deep && !pattern.contains('/') {
            format!("**/{pattern}")
        } else {
            pattern.to_owned()
        };
        let literal: Vec<GlobPattern> = read_brackets_literally(&below)
            .iter()
            .filter_map(|reading| GlobPattern::for_paths(reading).ok())
            .collect();
        let classes = GlobPattern::for_paths(&below).map_err(|error| {
            let pattern = one_line(pattern, 150);
            ToolError::WrongInput(format!("`{pattern}` is not a valid pattern: {error}"))
        });
        match classes {
            Err(error) if literal.is_empty() => Err(error),
            classes => Ok(Self { literal, classes }),
        }
    }

    /// Returns whether the pattern matches in any reading.
    pub(super) fn is_match(&self, path: &Path) -> bool {
        self.is_literal_match(path) || self.classes.as_ref().is_ok_and(|pattern| pattern.is_match(path))
    }

    /// Returns whether brackets of the pattern are part of the name.
    pub(super) fn is_literal_match(&self, path: &Path) -> bool {
        self.literal.iter().any(|pattern| pattern.is_match(path))
    }

    /// Returns whether a name may match literally.
    pub(super) fn has_literal_reading(&self) -> bool {
        !self.literal.is_empty()
    }

    /// Returns the error if the pattern is valid only with literal brackets.
    pub(super) fn into_class_error(self) -> Option<ToolError> {
        self.classes.err()
    }
}

/// Returns the readings of a pattern that take the brackets of at least one part literally.
pub(super) fn read_brackets_literally(pattern: &str) -> Vec<String> {
    let parts: Vec<&str> = pattern.split('/').collect();
    let bracketed: Vec<usize> = (0..parts.len()).filter(|at| has_brackets(parts[*at])).collect();
    let combinations = match bracketed.len() {
        0 => return Vec::new(),
        count if count > MAX_BRACKET_PARTS => 1,
        count => (1_usize << count) - 1,
    };
    let read = |combination: usize| {
        let mut reading: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
        for (bit, at) in bracketed.iter().enumerate() {
            // The first combination takes all parts literally.
            if combination & (1 << bit) == 0 {
                reading[*at] = escape_brackets(parts[*at]);
            }
        }
        reading.join("/")
    };
    (0..combinations).map(read).collect()
}

/// Returns whether a part of a pattern may be a name with brackets.
pub(super) fn has_brackets(part: &str) -> bool {
    let mut closings = Vec::new();
    let mut letters = part.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => _ = letters.next(),
            '[' => closings.push(']'),
            '{' => closings.push('}'),
            _ if closings.contains(&letter) => return true,
            _ => {}
        }
    }
    false
}

pub(super) fn escape_brackets(part: &str) -> String {
    let mut escaped = String::new();
    let mut letters = part.chars();
    while let Some(letter) = letters.next() {
        if matches!(letter, '[' | ']' | '{' | '}') {
            escaped.push('\\');
        }
        escaped.push(letter);
        if letter == '\\' {
            escaped.extend(letters.next());
        }
    }
    escaped
}

/// Returns patterns for the hidden names that `pattern` names, such as `.github` in `.github/**`.
pub(super) fn find_hidden_names(pattern: &str) -> Vec<GlobPattern> {
    let mut expanded = Vec::new();
    if !expand_braces(pattern, &mut expanded) {
        let all = names_a_dot_name(pattern).then(|| GlobPattern::for_names(".*").ok());
        return all.flatten().into_iter().collect();
    }
    let mut names: Vec<&str> = (expanded.iter())
        .flat_map(|path| path.split('/'))
        .filter(|part| {
            let name = part.strip_prefix('\\').unwrap_or(part);
            name.starts_with('.') && name != "." && name != ".."
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    let compile = |name: &&str| {
        let literal = has_brackets(name).then(|| escape_brackets(name));
        [Some((*name).to_owned()), literal]
    };
    (names.iter().flat_map(compile).flatten())
        .filter_map(|name| GlobPattern::for_names(&name).ok())
        .collect()
}

/// Returns whether a part of the pattern may begin with a dot.
fn names_a_dot_name(pattern: &str) -> bool {
    let mut before = '/';
    pattern.chars().any(|letter| {
        let begins = letter == '.' && matches!(before, '/' | '{' | ',' | '\\');
        before = letter;
        begins
    })
}

/// Adds the patterns that the braces of `pattern` expand to; `false` if they are too many.
fn expand_braces(pattern: &str, expanded: &mut Vec<String>) -> bool {
    let Some((start, end, commas)) = find_braces(pattern) else {
        expanded.push(pattern.to_owned());
        return expanded.len() <= MAX_EXPANSIONS;
    };
    let mut from = start + 1;
    commas.into_iter().chain([end]).all(|to| {
        let choice = &pattern[from..to];
        from = to + 1;
        let one = format!("{}{choice}{}", &pattern[..start], &pattern[end + 1..]);
        expand_braces(&one, expanded)
    })
}

/// Finds the first braces: where they start and end, and the commas that separate their choices.
fn find_braces(pattern: &str) -> Option<(usize, usize, Vec<usize>)> {
    let (mut start, mut depth, mut commas) = (0, 0_usize, Vec::new());
    let mut letters = pattern.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => _ = letters.next(),
            '{' => {
                if depth == 0 {
                    start = at;
                }
                depth += 1;
            }
            '}' if depth == 1 => return Some((start, at, commas)),
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 1 => commas.push(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_without_a_separator_match_at_any_depth() {
        for (pattern, path, matches) in [
            ("*.rs", "a/b.rs", true),
            ("a/*.rs", "a/b.rs", true),
            ("a/*.rs", "a/b/c.rs", false),
            ("**/c.rs", "a/b/c.rs", true),
            ("*.{rs,toml}", "Cargo.toml", true),
            ("{{cookiecutter.slug}}/**", "{{cookiecutter.slug}}/setup.py", true),
            ("a{b,c}/*", "a{b,c}/x", true),
            ("a{b,c}/*", "ab/x", true),
        ] {
            let compiled = NamePattern::new(pattern, true).unwrap();
            assert_eq!(compiled.is_match(Path::new(path)), matches, "{pattern} {path}");
        }
        let flat = NamePattern::new("*.rs", false).unwrap();
        assert!(!flat.is_match(Path::new("a/b.rs")));
        let error = NamePattern::new("a[", true).err().unwrap().to_string();
        assert!(error.contains("`a[` is not a valid pattern"), "{error}");
    }

    #[test]
    fn hidden_names_are_those_that_a_pattern_names() {
        let many = "{a,b}".repeat(10);
        let many_with_dot = format!("{many}/.x");
        for (pattern, name, is_named) in [
            (".github/**", ".github", true),
            (".github/**", ".gitlab", false),
            ("**/.env.*", ".env.example", true),
            ("a/{b,.c}/d", ".c", true),
            ("{a/.b,{x,.y}z}", ".b", true),
            ("{a/.b,{x,.y}z}", ".yz", true),
            (r"\.a", ".a", true),
            (".[ab]", ".b", true),
            (".[ab]", ".[ab]", true),
            ("**/*.yml", ".x.yml", false),
            ("?a", ".a", false),
            ("../x", "..", false),
            (&many, ".a", false),
            (&many_with_dot, ".a", true),
            (&many[..10], ".a", false),
            ("{.a", ".a", false),
        ] {
            let named = find_hidden_names(pattern);
            assert_eq!(
                named.iter().any(|found| found.is_match(name)),
                is_named,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn brackets_are_read_literally_in_every_combination() {
        for (pattern, expected) in [
            ("a/*.rs", vec![]),
            ("a/[b", vec![]),
            (r"\[a\]", vec![]),
            ("[a]/x", vec![r"\[a\]/x"]),
            ("[a]/x[b]", vec![r"\[a\]/x\[b\]", r"[a]/x\[b\]", r"\[a\]/x[b]"]),
            ("[[...a]]", vec![r"\[\[...a\]\]"]),
            ("[a]/[b]/[c]/[d]/[e]", vec![r"\[a\]/\[b\]/\[c\]/\[d\]/\[e\]"]),
        ] {
            assert_eq!(read_brackets_literally(pattern), expected, "{pattern}");
        }
    }
}
