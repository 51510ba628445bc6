//! A rule's text, and what it matches (R-APPR-1). Knows nothing of modes or of the order of rules.
//!
//! ```text
//! rule    = tool [ "(" pattern ")" ]
//! tool    = a tool's name; "*" stands for any text: "*", "mcp:server/*"
//! pattern = what the call is about; in it "\" takes the meaning of the next character away
//! ```
//!
//! - Without a pattern the rule matches every call of the tool. `bash` allows any command line, also one
//!   that cannot be taken apart.
//! - For commands (`bash(git status *)`) the pattern is compared with **one simple command**: its words,
//!   unquoted, joined by one space; a word with white space or shell characters in it is written in
//!   single quotes, a prefix `NAME=value` stays in front. A pattern that ends in ` *` matches the bare command
//!   too. A pattern never reaches over `;`, `|`, `&`, a line's end or into `$(…)`: `policy` judges each part on
//!   its own. Redirections that write, expansions, assignments and wrappers (`sudo`, `sh -c`, `xargs`) belong to
//!   `policy` and `command`.
//! - `*` in a command is read narrowly where a rule allows ([`Rule::allows_command`]) and widely where it denies
//!   or demands a question ([`Rule::matches_text`]). Widely it is any text. Narrowly a `*` right behind a word ends
//!   that word (`ls*` is `ls` or `ls …`, never `lsof`), a `*` behind other characters stays inside its word
//!   (`cat src/*`), and no `*` reaches over a `/` in the first word: `*` alone is the only pattern for any program.
//! - Other agents' `Bash(git status:*)` and `mcp__server__tool` mean `bash(git status *)` and `mcp:server/tool`.
//! - For files (`edit_file(src/**)`) it is a glob: `*` and `?` stay within one folder, `**` does not. A
//!   relative pattern is compared with the path relative to its workspace folder, one that begins with
//!   `/` with the absolute path; a final `/` means all that is below.
//! - For the network (`web_fetch(https://docs.rs/*)`) `*` in the host stays within the host.
//! - For MCP tools `*` matches any text of the call's subject.

use std::fmt;
use std::str::FromStr;

use globset::{GlobBuilder, GlobMatcher};

use super::secret;

mod check;

/// The longest rule, in bytes.
const MAX_BYTES: usize = 4096;

/// Why a text is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Nothing there.
    #[error("empty rule: write a tool's name, as in `read_file`, or `bash(git status *)`")]
    Empty,
    /// Beyond the limit.
    #[error("rule of {0} bytes is too long: at most {MAX_BYTES}")]
    TooLong(usize),
    /// What stands before the pattern is no tool name.
    #[error(
        "`{0}` is not a tool's name: write the tool, then its pattern in parentheses, as in `bash(git status *)`"
    )]
    Tool(String),
    /// No end of the pattern, or text behind it.
    #[error(
        "rule `{0}`: parentheses do not match: the pattern ends with the rule; write `\\(` and `\\)` for those that belong to it"
    )]
    Parentheses(String),
    /// `bash()`.
    #[error("rule `{0}` has an empty pattern: leave the parentheses out to match every call")]
    EmptyPattern(String),
    /// A line's end or another control character.
    #[error("rule `{0}` has a control character in it")]
    Control(String),
    /// Not a glob.
    #[error("rule `{rule}`: the pattern is not a valid glob: {reason}")]
    Glob {
        /// The rule.
        rule: String,
        /// What is wrong.
        reason: String,
    },
    /// No tool has this name.
    #[error("rule `{rule}`: there is no tool `{tool}`{}", format_suggestion(.instead))]
    UnknownTool {
        /// The rule.
        rule: String,
        /// The name.
        tool: String,
        /// The nearest rule that is right.
        instead: Option<String>,
    },
    /// The pattern fits no call of the tool.
    #[error("rule `{rule}` never matches: {why}{}", format_suggestion(.instead))]
    NeverMatches {
        /// The rule.
        rule: String,
        /// Why.
        why: &'static str,
        /// The nearest rule that is right.
        instead: Option<String>,
    },
}

fn format_suggestion(instead: &Option<String>) -> String {
    instead
        .as_ref()
        .map_or_else(String::new, |rule| format!("; write {rule}"))
}

/// One rule: which calls of which tool.
#[derive(Clone)]
pub struct Rule {
    tool: TextPattern,
    tool_name: String,
    pattern: Option<Pattern>,
}

#[derive(Clone)]
struct Pattern {
    source: String,
    text: TextPattern,
    /// What a rule that denies matches, where that is more than `text`.
    wide: Option<TextPattern>,
    path: Option<GlobMatcher>,
}

impl Rule {
    /// The rule that `text` writes.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(RuleError::Empty);
        }
        if text.len() > MAX_BYTES {
            return Err(RuleError::TooLong(text.len()));
        }
        if text.chars().any(char::is_control) {
            return Err(RuleError::Control(text.escape_debug().to_string()));
        }
        let (tool, pattern) = match text.split_once('(') {
            None => (text, None),
            Some((tool, _)) => (tool, Some(&text[tool.len()..])),
        };
        let of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '*');
        if tool.is_empty() || !tool.chars().all(of_name) {
            return Err(RuleError::Tool(tool.to_owned()));
        }
        let meant = meant_tool(tool);
        let pattern = match pattern {
            None => None,
            Some(rest) => Some(Pattern::parse(text, &meant, rest)?),
        };
        Ok(Self {
            tool: TextPattern::parse(&meant),
            tool_name: tool.to_owned(),
            pattern,
        })
    }

    /// Rules that are written in one text, separated by commas, as "always" stores them.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, RuleError> {
        let mut rules = Vec::new();
        let mut depth = 0_usize;
        let mut start = 0;
        let mut escaped = false;
        for (at, ch) in text.char_indices() {
            if std::mem::take(&mut escaped) {
                continue;
            }
            match ch {
                '\\' => escaped = true,
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                ',' if depth == 0 => {
                    rules.push(Self::parse(&text[start..at])?);
                    start = at + 1;
                }
                _ => {}
            }
        }
        rules.push(Self::parse(&text[start..])?);
        Ok(rules)
    }

    /// The rule for exactly this command, file or address, if it can be written.
    pub(crate) fn with_exact_pattern(tool: &str, subject: &str) -> Option<Self> {
        Self::parse(&format!("{tool}({})", escape_subject(subject))).ok()
    }

    /// Whether it has no pattern: it then matches every call of its tool.
    pub(crate) fn is_bare(&self) -> bool {
        self.pattern.is_none()
    }

    /// Whether it is about this tool.
    pub(crate) fn matches_tool(&self, tool: &str) -> bool {
        self.tool.is_match(tool)
    }

    /// Whether the pattern has no `*`: it then describes one text.
    pub(crate) fn is_exact(&self) -> bool {
        self.pattern
            .as_ref()
            .is_some_and(|pattern| pattern.text.pieces.len() == 1)
    }

    /// Whether the pattern allows a simple command: `*` is read narrowly.
    pub(crate) fn allows_command(&self, command: &str) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| {
            pattern.text.matches_words(command)
                || pattern
                    .text
                    .without_optional_tail()
                    .is_some_and(|head| head == command)
        })
    }

    /// Whether the pattern matches a text as a whole (a simple command, an MCP call's subject): `*` is any text.
    pub(crate) fn matches_text(&self, subject: &str) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| {
            pattern.widest_text().is_match(subject)
                || pattern
                    .text
                    .without_optional_tail()
                    .is_some_and(|head| head == subject)
        })
    }

    /// Whether the pattern could match what `subject` becomes: `subject` is known only up to `known`
    /// bytes, anything may follow.
    pub(crate) fn may_match_text(&self, known: &str) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| {
            let head = pattern.widest_text().literal_prefix();
            head.starts_with(known) || known.starts_with(head) || head.trim_end() == known
        })
    }

    /// Whether the pattern begins with `/`, and so is compared with absolute paths.
    pub(crate) fn is_absolute(&self) -> bool {
        self.pattern
            .as_ref()
            .is_some_and(|pattern| pattern.source.starts_with('/'))
    }

    /// Whether the glob matches a path: relative or absolute as the pattern is.
    pub(crate) fn matches_path(&self, path: &std::path::Path) -> bool {
        self.pattern
            .as_ref()
            .is_none_or(|pattern| pattern.path.as_ref().is_some_and(|glob| glob.is_match(path)))
    }

    /// Whether it matches an address. Addresses that people and programs read differently (a user
    /// name, a backslash, white space) match no pattern.
    pub(crate) fn matches_url(&self, url: &str) -> bool {
        let Some(pattern) = &self.pattern else {
            return true;
        };
        let odd = |c: char| c == '\\' || c.is_whitespace() || c.is_control();
        let (Some((base, rest)), Some((want_base, want_rest))) = (split_url(url), split_url(&pattern.source))
        else {
            return false;
        };
        !url.contains(odd)
            && !base.contains('@')
            && TextPattern::parse(&want_base.to_lowercase()).is_match(&base.to_lowercase())
            && TextPattern::parse(want_rest).is_match(rest)
    }

    /// Whether a rule that denies matches an address: any scheme and port of the host, also with a final dot.
    pub(crate) fn denies_url(&self, url: &str) -> bool {
        let host_of = |base: &str| base.split_once("://").map(|(_, host)| host.to_lowercase());
        let without_port = |host: &str| match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name.to_owned(),
            Some(_) | None => host.to_owned(),
        };
        let Some(pattern) = &self.pattern else {
            return true;
        };
        let (Some((base, rest)), Some((want_base, want_rest))) = (split_url(url), split_url(&pattern.source))
        else {
            return false;
        };
        let (Some(host), Some(want)) = (host_of(base), host_of(want_base)) else {
            return false;
        };
        let name = without_port(host.rsplit('@').next().unwrap_or(&host));
        TextPattern::parse(&without_port(&want)).is_match(name.trim_end_matches('.'))
            && TextPattern::parse(want_rest).is_match(rest)
    }

    /// Whether the pattern has this very word in it, so that its writer thought of it.
    pub(crate) fn spells_word(&self, word: &str) -> bool {
        self.pattern
            .as_ref()
            .is_some_and(|pattern| pattern.text.literal_words().any(|spelt| spelt == word))
    }

    /// Whether the pattern's first word is this.
    pub(crate) fn spells_first(&self, word: &str) -> bool {
        self.pattern
            .as_ref()
            .is_some_and(|pattern| pattern.text.first_word() == Some(word))
    }

    /// Whether the pattern has this folder's name in it as a component.
    pub(crate) fn spells_folder(&self, folder: &str) -> bool {
        self.pattern
            .as_ref()
            .is_some_and(|pattern| pattern.source.split('/').any(|part| part == folder))
    }

    /// Whether the pattern itself names a secret-like file: only then does the rule open one.
    pub(crate) fn names_secret(&self) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| {
            let plain = pattern.source.replace('\\', "");
            secret::named_in(&plain).is_some()
        })
    }
}

impl Pattern {
    /// `rest` begins with the opening parenthesis.
    fn parse(rule: &str, tool: &str, rest: &str) -> Result<Self, RuleError> {
        let unbalanced = || RuleError::Parentheses(rule.to_owned());
        let mut depth = 0_usize;
        let mut escaped = false;
        let mut end = None;
        for (at, ch) in rest.char_indices() {
            if end.is_some() {
                return Err(unbalanced());
            }
            if std::mem::take(&mut escaped) {
                continue;
            }
            match ch {
                '\\' => escaped = true,
                '(' => depth += 1,
                ')' => {
                    depth -= 1;
                    if depth == 0 {
                        end = Some(at);
                    }
                }
                _ => {}
            }
        }
        let source = &rest[1..end.ok_or_else(unbalanced)?];
        if source.trim().is_empty() {
            return Err(RuleError::EmptyPattern(rule.to_owned()));
        }
        // `touch:*` is other agents' way to write `touch *`; a rule that denies matches `touch:x` too.
        let prefix = source.strip_suffix(":*").filter(|_| tool == "bash");
        let mut glob = source.strip_prefix("./").unwrap_or(source).to_owned();
        if glob.ends_with('/') {
            glob.push_str("**");
        }
        // `bash([ -f x ])` is a fine command, and no path glob.
        let path = if tool == "bash" || tool.starts_with("mcp:") {
            None
        } else {
            let built = GlobBuilder::new(&glob)
                .literal_separator(true)
                .backslash_escape(true)
                .build()
                .map_err(|error| RuleError::Glob {
                    rule: rule.to_owned(),
                    reason: error.kind().to_string(),
                })?;
            Some(built.compile_matcher())
        };
        Ok(Self {
            source: source.to_owned(),
            text: prefix.map_or_else(
                || TextPattern::parse(source),
                |head| TextPattern::parse(&format!("{head} *")),
            ),
            wide: prefix.map(|head| TextPattern::parse(&format!("{head}*"))),
            path,
        })
    }

    fn widest_text(&self) -> &TextPattern {
        self.wide.as_ref().unwrap_or(&self.text)
    }
}

/// The tool that a rule means: other agents' names for it where they mean exactly this.
fn meant_tool(tool: &str) -> String {
    let mcp = tool.strip_prefix("mcp__");
    match (tool, mcp.map(|rest| rest.split_once("__").unwrap_or((rest, "*")))) {
        ("Bash", _) => "bash".to_owned(),
        (_, Some((server, tool))) => format!("mcp:{server}/{tool}"),
        (_, None) => tool.to_owned(),
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tool_name)?;
        match &self.pattern {
            None => Ok(()),
            Some(pattern) => write!(f, "({})", pattern.source),
        }
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rule({self})")
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Rule {}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// `subject` as a pattern that matches it alone.
pub(crate) fn escape_subject(subject: &str) -> String {
    let mut pattern = String::with_capacity(subject.len());
    for ch in subject.chars() {
        if matches!(ch, '\\' | '*' | '?' | '[' | ']' | '{' | '}' | '(' | ')' | '!') {
            pattern.push('\\');
        }
        pattern.push(ch);
    }
    pattern
}

/// Scheme and host, and the rest from the first `/`, `?` or `#` on.
fn split_url(url: &str) -> Option<(&str, &str)> {
    let host = url.find("://")? + 3;
    let end = url[host..]
        .find(['/', '?', '#'])
        .map_or(url.len(), |at| host + at);
    Some(url.split_at(end))
}

/// A text pattern in which `*` matches anything: literal pieces with a `*` between each two.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TextPattern {
    pieces: Vec<String>,
}

impl TextPattern {
    fn parse(source: &str) -> Self {
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

    /// Linear in practice: each piece is looked for once, from the left.
    fn is_match(&self, subject: &str) -> bool {
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

    /// Like `matches`, but a `*` right behind a word ends it, one behind other characters stays inside its word, and
    /// none reaches over a `/` in the first word. `*` alone matches everything.
    fn matches_words(&self, subject: &str) -> bool {
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
        // Where the text before the next `*` may end.
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

    /// The literal text before the first `*`.
    fn literal_prefix(&self) -> &str {
        self.pieces.first().map_or("", String::as_str)
    }

    /// `git status` for `git status *`.
    fn without_optional_tail(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [head, tail] if tail.is_empty() => head.strip_suffix(' '),
            _ => None,
        }
    }

    /// The words that have no `*` in or at them.
    fn literal_words(&self) -> impl Iterator<Item = &str> {
        let last = self.pieces.len() - 1;
        self.pieces.iter().enumerate().flat_map(move |(index, piece)| {
            let mut words: Vec<&str> = piece.split(' ').collect();
            if index < last {
                words.pop();
            }
            if index > 0 && !words.is_empty() {
                words.remove(0);
            }
            words.into_iter().filter(|word| !word.is_empty())
        })
    }

    fn first_word(&self) -> Option<&str> {
        let head = self.literal_prefix();
        match head.split_once(' ') {
            Some((word, _)) => Some(word),
            None if self.pieces.len() == 1 => Some(head),
            None => None,
        }
    }
}

/// How long the first word of a simple command is, as rules see it.
fn first_word_length(command: &str) -> usize {
    let mut quoted = false;
    command
        .find(|c| {
            quoted ^= c == '\'';
            c == ' ' && !quoted
        })
        .unwrap_or(command.len())
}

/// Where a `*` may end that begins where `from` says, behind the literal text `before`.
fn star_ends(text: &[u8], from: &[bool], before: &str, in_first_word: bool, first_word: usize) -> Vec<bool> {
    let behind_word = before
        .chars()
        .next_back()
        .is_some_and(|c| c != ' ' && (in_first_word || c.is_alphanumeric() || c == '_'));
    let behind_blank = before.is_empty() || before.ends_with(' ');
    let mut ends = vec![false; text.len() + 1];
    let mut open = false;
    for at in 0..=text.len() {
        // A `*` that goes on to here takes this byte next.
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    fn rule(text: &str) -> Rule {
        Rule::parse(text).unwrap()
    }

    #[test]
    fn bad_rules_are_told_apart() {
        for (text, error) in [
            ("", "empty rule"),
            ("  ", "empty rule"),
            ("git status", "`git status` is not a tool's name"),
            ("(x)", "`` is not a tool's name"),
            ("bash(", "parentheses do not match"),
            ("bash(a))", "parentheses do not match"),
            ("bash(a) b", "parentheses do not match"),
            ("bash(a\\)", "parentheses do not match"),
            ("bash()", "empty pattern"),
            ("bash( )", "empty pattern"),
            ("bash(a\nb)", "control character"),
            ("edit_file(src/{a)", "not a valid glob"),
            ("edit_file([)", "not a valid glob"),
        ] {
            let found = Rule::parse(text).unwrap_err().to_string();
            assert!(found.contains(error), "{text:?}: {found}");
        }
        assert!(matches!(
            Rule::parse(&"x".repeat(5000)),
            Err(RuleError::TooLong(5000))
        ));
    }

    #[test]
    fn matches_commands() {
        for (pattern, command, hit) in [
            ("bash(git status*)", "git status", true),
            ("bash(git status*)", "git status -s", true),
            ("bash(git status*)", "git stash", false),
            ("bash(git status *)", "git status", true),
            ("bash(git status *)", "git status -s", true),
            ("bash(git status *)", "git statusx", false),
            ("bash(git status)", "git status -s", false),
            ("bash(*)", "anything at all", true),
            ("bash(*.rs)", "cat a.rs", true),
            ("bash(a*a)", "a", false),
            ("bash(a*b*c)", "a-b-b-c", true),
            ("bash(a*b*c)", "a-c-b", false),
            ("bash(echo \\*)", "echo *", true),
            ("bash(echo \\*)", "echo x", false),
            ("bash(f(x))", "f(x)", true),
            ("bash(f\\(x)", "f(x", true),
            ("bash([ -f x ])", "[ -f x ]", true),
        ] {
            assert_eq!(rule(pattern).matches_text(command), hit, "{pattern} {command}");
        }
    }

    #[test]
    fn a_star_behind_a_word_ends_it_where_a_rule_allows() {
        for (pattern, command, allows, denies) in [
            ("bash(ls*)", "ls", true, true),
            ("bash(ls*)", "ls -la src", true, true),
            ("bash(ls*)", "lsof", false, true),
            ("bash(ls*)", "ls/evil", false, true),
            ("bash(ls*)", "ls/../evil.sh", false, true),
            ("bash(ls*)", "'ls x'", false, false),
            ("bash(git status*)", "git status", true, true),
            ("bash(git status*)", "git status -s", true, true),
            ("bash(git status*)", "git statusx", false, true),
            ("bash(git status*)", "git status-x", false, true),
            ("bash(cargo test*)", "cargo testx", false, true),
            ("bash(git stat*us)", "git status", true, true),
            ("bash(git stat*us)", "git stat x us", true, true),
            ("bash(git stat* us)", "git stat x us", true, true),
            ("bash(python3.*)", "python3.12", false, true),
            ("bash(./*)", "./evil", false, true),
            ("bash(*ls)", "/tmp/ls", false, true),
            ("bash(*ls)", "ls", true, true),
            ("bash(* --version)", "ls --version", true, true),
            ("bash(* --version)", "./evil --version", false, true),
            ("bash(* --version)", "'a b/c' --version", false, true),
            ("bash(* --version)", "cargo run x/y --version", true, true),
            ("bash(**)", "./evil", false, true),
            ("bash(*)", "./evil", true, true),
            ("bash(cat src/*)", "cat src/a/b.rs", true, true),
            ("bash(cat src/*)", "cat src/a /etc/passwd", false, true),
            ("bash(cat src/*)", "cat src/", true, true),
            ("bash(cat src/*.rs)", "cat src/a.rs", true, true),
            ("bash(cargo test --*)", "cargo test --release", true, true),
            ("bash(cargo test --*)", "cargo test --x y", false, true),
            ("bash(ls *)", "ls", true, true),
            ("bash(ls *)", "ls a/b c", true, true),
            ("bash(ls * x)", "ls a b x", true, true),
            ("bash(/bin/ls *)", "/bin/ls a/b", true, true),
            ("bash(git* status*)", "git statusx status", true, true),
            ("bash(touch:*)", "touch x", true, true),
            ("bash(touch:*)", "touch", true, true),
            ("bash(touch:*)", "touchx", false, true),
            ("bash(touch:*)", "touch:x", false, true),
            ("Bash(git status:*)", "git status -s", true, true),
            ("Bash(git status:*)", "git statusx", false, true),
            ("bash(npm run build:*)", "npm run build:prod", false, true),
            ("bash(echo é*)", "echo é x", true, true),
            ("bash(echo é*)", "echo éa", false, true),
        ] {
            let rule = rule(pattern);
            assert_eq!(rule.allows_command(command), allows, "{pattern} allows {command}");
            assert_eq!(rule.matches_text(command), denies, "{pattern} denies {command}");
        }
    }

    #[test]
    fn names_of_other_agents_are_understood_where_they_mean_the_same() {
        for (pattern, tool) in [
            ("Bash", "bash"),
            ("Bash(x)", "bash"),
            ("mcp__docs__read_page", "mcp:docs/read_page"),
            ("mcp__docs", "mcp:docs/anything"),
        ] {
            assert!(rule(pattern).matches_tool(tool), "{pattern}");
        }
        assert!(!rule("mcp__docs__read").matches_tool("mcp:docs/write"));
        assert!(!rule("Read").matches_tool("read_file"));
    }

    #[test]
    fn a_denied_host_is_denied_in_each_spelling() {
        let denied = rule("web_fetch(https://evil.example/*)");
        for url in [
            "https://evil.example/",
            "http://evil.example/x",
            "https://EVIL.example/x",
            "https://evil.example:8443/x",
            "https://evil.example./x",
            "https://u@evil.example/x",
        ] {
            assert!(denied.denies_url(url), "{url}");
        }
        for url in [
            "https://example/x",
            "https://notevil.example/x",
            "https://evil.example.org/",
        ] {
            assert!(!denied.denies_url(url), "{url}");
        }
    }

    #[test]
    fn may_match_what_is_not_known_yet() {
        for (pattern, known, may) in [
            ("bash(rm -rf*)", "rm ", true),
            ("bash(rm -rf*)", "", true),
            ("bash(rm -rf*)", "gcc ", false),
            ("bash(rm -rf*)", "rm -rf /", true),
            ("bash(*)", "gcc ", true),
        ] {
            assert_eq!(rule(pattern).may_match_text(known), may, "{pattern} {known}");
        }
    }

    #[test]
    fn matches_paths_and_urls() {
        for (pattern, path, hit) in [
            ("edit_file(src/**)", "src/a/b.rs", true),
            ("edit_file(src/)", "src/a/b.rs", true),
            ("edit_file(./src/*)", "src/b.rs", true),
            ("edit_file(src/*)", "src/a/b.rs", false),
            ("edit_file(src/**)", "/src/a.rs", false),
            ("edit_file(src/**)", "tests/src/a.rs", false),
            ("edit_file(**/*.md)", "docs/a.md", true),
            ("edit_file(**/*.md)", "a.md", true),
            ("edit_file(/tmp/**)", "/tmp/x", true),
            ("edit_file(/tmp/**)", "tmp/x", false),
            ("edit_file(a\\*b)", "a*b", true),
            ("edit_file(a\\*b)", "axb", false),
            ("edit_file(*.{rs,toml})", "a.toml", true),
            ("edit_file", "anything", true),
        ] {
            assert_eq!(
                rule(pattern).matches_path(Path::new(path)),
                hit,
                "{pattern} {path}"
            );
        }
        for (pattern, url, hit) in [
            ("web_fetch(https://docs.rs/*)", "https://docs.rs/a/b?c", true),
            ("web_fetch(https://docs.rs/*)", "https://DOCS.rs/a", true),
            ("web_fetch(https://docs.rs/*)", "https://docs.rs.evil.com/", false),
            ("web_fetch(https://docs.rs/*)", "http://docs.rs/", false),
            ("web_fetch(https://docs.rs*)", "https://docs.rs/", false),
            ("web_fetch(https://*.rs/*)", "https://evil.com/x.rs/", false),
            ("web_fetch(https://*.rs/*)", "https://docs.rs/", true),
            ("web_fetch(https://docs.rs/*)", "https://docs.rs@evil.com/", false),
            ("web_fetch(https://*/*)", "https://docs.rs\\@evil.com/", false),
            ("web_fetch", "anything", true),
        ] {
            assert_eq!(rule(pattern).matches_url(url), hit, "{pattern} {url}");
        }
    }

    #[test]
    fn matches_tools() {
        for (pattern, tool, hit) in [
            ("*", "bash", true),
            ("*", "mcp:a/b", true),
            ("mcp:a/*", "mcp:a/b", true),
            ("mcp:a/*", "mcp:ab/c", false),
            ("read_file", "read_file", true),
            ("read_file", "read_files", false),
            ("*_file(x)", "edit_file", true),
        ] {
            assert_eq!(rule(pattern).matches_tool(tool), hit, "{pattern} {tool}");
        }
    }

    #[test]
    fn spelt_words_are_whole() {
        assert!(rule("bash(sudo apt *)").spells_first("sudo"));
        assert!(rule("bash(sudo)").spells_first("sudo"));
        assert!(!rule("bash(su*)").spells_first("su"));
        assert!(!rule("bash(*)").spells_first("sudo"));
        assert!(rule("bash(find * -exec *)").spells_word("-exec"));
        assert!(!rule("bash(find * -exec*)").spells_word("-exec"));
        assert!(!rule("bash(find *-exec)").spells_word("-exec"));
        assert!(rule("bash(find . -delete)").spells_word("-delete"));
    }

    #[test]
    fn lists() {
        let rules = Rule::parse_list("bash(a, (b), c), read_file,bash(x\\), y)").unwrap();
        let texts: Vec<String> = rules.iter().map(Rule::to_string).collect();
        assert_eq!(texts, ["bash(a, (b), c)", "read_file", "bash(x\\), y)"]);
        assert!(Rule::parse_list("bash(a),").is_err());
    }

    proptest! {
        #[test]
        fn parse_never_panics_and_display_round_trips(text in "\\PC{0,40}|[a-z]{1,5}\\([a-z*() \\\\,/\\[{]{0,20}\\)") {
            if let Ok(rule) = Rule::parse(&text) {
                prop_assert_eq!(rule.to_string(), text.trim());
                prop_assert_eq!(Rule::parse(&rule.to_string()).unwrap(), rule);
            }
            drop(Rule::parse_list(&text));
        }

        #[test]
        fn a_list_reads_back(subjects in prop::collection::vec("[^\\pC]{1,20}", 1..4)) {
            let rules: Vec<Rule> = subjects.iter().filter_map(|s| Rule::with_exact_pattern("bash", s)).collect();
            prop_assume!(!rules.is_empty());
            let list = rules.iter().map(Rule::to_string).collect::<Vec<_>>().join(", ");
            prop_assert_eq!(Rule::parse_list(&list).unwrap(), rules);
        }

        #[test]
        fn an_exact_rule_matches_its_subject_alone(subject in "[^\\pC]{1,20}", other in "[^\\pC]{1,20}") {
            if let Some(rule) = Rule::with_exact_pattern("bash", &subject) {
                prop_assert!(rule.matches_text(&subject) && rule.allows_command(&subject));
                prop_assert_eq!(rule.matches_text(&other), subject == other);
                prop_assert_eq!(rule.allows_command(&other), subject == other);
            }
        }

        /// What a pattern allows it would deny too.
        #[test]
        fn allowing_is_narrower_than_denying(pattern in "[ab/: *-]{1,10}", command in "[ab/: -]{0,14}") {
            if let Ok(rule) = Rule::parse(&format!("bash({pattern})")) {
                prop_assert!(!rule.allows_command(&command) || rule.matches_text(&command));
            }
        }
    }
}
