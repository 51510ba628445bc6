//! A rule's text, and what it matches (R-APPR-1). Knows nothing of modes or of the order of rules.
//!
//! ```text
//! rule    = tool [ "(" pattern ")" ]
//! tool    = a tool's name; "*" stands for any text: "*", "mcp:server/*"
//! pattern = the subject of the call; "\" makes the next character literal
//! ```
//!
//! - Without a pattern, the rule matches every call of the tool. `bash` allows any command line, even one that cannot
//!   be parsed.
//! - For commands (`bash(git status *)`), the pattern is compared with **one simple command**: its unquoted words,
//!   joined by one space. A word that contains white space or shell characters is written in single quotes. A prefix
//!   `NAME=value` stays in front. A pattern that ends in ` *` matches the bare command too.
//! - A pattern never spans `;`, `|`, `&`, a line end, or `$(…)`: `policy` judges each part separately. Redirections
//!   that write, expansions, assignments, and wrappers (`sudo`, `sh -c`, `xargs`) are up to `policy` and `command`.
//! - A `*` in a command is narrow where a rule allows ([`Rule::allows_command`]), and wide where it denies or demands
//!   a question ([`Rule::matches_text`]). A wide `*` matches any text. A narrow one directly after a word ends that
//!   word: `ls*` matches `ls` and `ls …`, never `lsof`. After other characters it stays within its word (`cat src/*`).
//!   In the first word it never crosses a `/`: `*` alone is the only pattern for every program.
//! - Other agents' `Bash(git status:*)` and `mcp__server__tool` mean `bash(git status *)` and `mcp:server/tool`.
//! - For files (`edit_file(src/**)`), the pattern is a glob: `*` and `?` stay within one folder, `**` does not. A
//!   relative pattern is compared with the path relative to its workspace folder. One that begins with `/` is compared
//!   with the absolute path. A final `/` means everything below.
//! - Where it denies or demands a question, such a rule for one tool that writes files covers all of them.
//! - `bash_outside(make install)` is about one whole command line outside the sandbox, character for character.
//!   `bash_sandboxed` is about all commands in the sandbox, and `bash_sandboxed(cat .env)` about those that a rule for
//!   `bash` with this pattern matches.
//! - For the network (`web_fetch(https://docs.rs/*)`), a `*` in the host stays within the host.
//! - For MCP tools, `*` matches any text of the call's subject.

use std::fmt;
use std::str::FromStr;

use super::secret;
use crate::base::glob::GlobPattern;

mod check;
mod text_pattern;
mod words;

use text_pattern::TextPattern;
pub use words::{describe_rules, narrow_to_file};

/// The longest rule, in bytes.
const MAX_BYTES: usize = 4096;

/// The name in rules for one exact `bash` command line outside the sandbox.
pub(super) const OUTSIDE_SANDBOX: &str = "bash_outside";
/// The name in rules for commands in a sandbox that holds in full.
pub(super) const SANDBOXED: &str = "bash_sandboxed";

/// The tool that makes the edits of `edit_file`, among others.
pub(super) const PATCH_TOOL: &str = "apply_patch";
/// The tool that searches the web. Its effect is a query, not an address, so its rules have no pattern.
pub(super) const WEB_SEARCH: &str = "web_search";

/// The built-in tools that write files.
const WRITING_TOOLS: [&str; 5] = ["edit_file", "write_file", PATCH_TOOL, "rename_symbol", "fix_code"];

/// Why a text is not a valid rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("empty rule: write a tool's name, as in `read_file`, or `bash(git status *)`")]
    Empty,
    #[error("rule of {0} bytes is too long: at most {MAX_BYTES}")]
    TooLong(usize),
    /// The text before the pattern is not a tool's name.
    #[error(
        "`{0}` is not a tool's name: write the tool, then its pattern in parentheses, as in `bash(git status *)`"
    )]
    Tool(String),
    /// The pattern has no end, or text follows it.
    #[error(
        "rule `{0}`: parentheses do not match: the pattern ends with the rule; write `\\(` and `\\)` for those that belong to it"
    )]
    Parentheses(String),
    /// `bash()`.
    #[error("rule `{0}` has an empty pattern: leave the parentheses out to match every call")]
    EmptyPattern(String),
    /// A line end or another control character.
    #[error("rule `{0}` has a control character in it")]
    Control(String),
    /// The pattern is not a valid glob.
    #[error("rule `{rule}`: the pattern is not a valid glob: {reason}")]
    Glob { rule: String, reason: String },
    /// No tool has this name.
    #[error("rule `{rule}`: there is no tool `{tool}`{}", format_suggestion(.instead))]
    UnknownTool {
        rule: String,
        tool: String,
        /// The nearest valid rule, in backquotes.
        instead: Option<String>,
    },
    /// The pattern can match no call of the tool.
    #[error("rule `{rule}` never matches: {why}{}", format_suggestion(.instead))]
    NeverMatches {
        rule: String,
        why: &'static str,
        /// The nearest rule that can match, in backquotes.
        instead: Option<String>,
    },
}

fn format_suggestion(instead: &Option<String>) -> String {
    instead
        .as_ref()
        .map_or_else(String::new, |rule| format!("; write {rule}"))
}

/// One rule: which calls of which tools it applies to. Two rules are equal if they are written alike.
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
    /// What a denying rule matches, if that is more than `text`.
    wide: Option<TextPattern>,
    path: Option<GlobPattern>,
}

impl Rule {
    /// Parses one rule.
    ///
    /// # Errors
    /// Fails if the text is empty, longer than 4096 bytes, or not a tool's name with an optional pattern.
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
        let canonical_name = canonical_tool_name(tool);
        let pattern = match pattern {
            None => None,
            Some(rest) => Some(Pattern::parse(text, &canonical_name, rest)?),
        };
        Ok(Self {
            tool: TextPattern::parse(&canonical_name),
            tool_name: tool.to_owned(),
            pattern,
        })
    }

    /// Parses rules in one text, separated by commas, as "always" stores them.
    ///
    /// # Errors
    /// Fails if one of the rules is invalid; see [`Rule::parse`].
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
                // A comma inside a pattern does not separate rules.
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

    /// Returns the rule for exactly this command, file, or URL, if it can be written.
    pub(crate) fn with_exact_pattern(tool: &str, subject: &str) -> Option<Self> {
        Self::parse(&format!("{tool}({})", escape_subject(subject))).ok()
    }

    /// Returns whether the rule has no pattern, and so matches every call of its tool.
    pub(crate) fn is_bare(&self) -> bool {
        self.pattern.is_none()
    }

    /// Returns whether the rule applies to this tool.
    pub(crate) fn matches_tool(&self, tool: &str) -> bool {
        self.tool.is_match(tool)
    }

    /// Returns whether the rule applies to this tool where it denies or demands a question.
    ///
    /// A pattern for one tool that writes files is about the files: another tool must not write them either.
    pub(crate) fn restricts_tool(&self, tool: &str) -> bool {
        let writes_too = || {
            !self.is_bare()
                && WRITING_TOOLS.contains(&tool)
                && WRITING_TOOLS.iter().any(|writing| self.matches_tool(writing))
        };
        let edits_too = || tool == PATCH_TOOL && self.matches_tool("edit_file");
        self.matches_tool(tool) || edits_too() || writes_too()
    }

    /// Returns whether the pattern has no `*`, and so describes one text.
    pub(crate) fn is_exact(&self) -> bool {
        self.pattern
            .as_ref()
            .is_some_and(|pattern| !pattern.text.has_star())
    }

    /// Returns whether the rule is about a command line outside the sandbox.
    pub(crate) fn is_for_outside(&self) -> bool {
        self.tool_name == OUTSIDE_SANDBOX
    }

    /// Returns whether the rule is about exactly this command line outside the sandbox.
    pub(crate) fn matches_outside_line(&self, line: &str) -> bool {
        self.is_for_outside() && self.is_exact() && self.matches_text(line)
    }

    /// Returns whether the rule is about all commands in the sandbox.
    pub(crate) fn covers_sandboxed(&self) -> bool {
        self.tool_name == SANDBOXED && self.is_bare()
    }

    /// Returns whether the rule is about the commands in the sandbox that match its pattern.
    pub(crate) fn is_for_sandboxed_command(&self) -> bool {
        self.tool_name == SANDBOXED && !self.is_bare()
    }

    /// Returns whether the pattern allows a simple command; a `*` is narrow.
    pub(crate) fn allows_command(&self, command: &str) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| {
            pattern.text.matches_words(command) || pattern.text.without_optional_tail() == Some(command)
        })
    }

    /// Returns whether the pattern matches a whole text (a simple command, an MCP call's subject); a `*` is wide.
    pub(crate) fn matches_text(&self, subject: &str) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| {
            pattern.widest_text().is_match(subject) || pattern.text.without_optional_tail() == Some(subject)
        })
    }

    /// Returns whether the pattern could match a text of which only the start is known.
    pub(crate) fn may_match_text(&self, known: &str) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| {
            let head = pattern.widest_text().literal_prefix();
            head.starts_with(known) || known.starts_with(head) || head.trim_end() == known
        })
    }

    /// Returns whether the pattern begins with `/`, and so is compared with absolute paths.
    pub(crate) fn is_absolute(&self) -> bool {
        self.pattern
            .as_ref()
            .is_some_and(|pattern| pattern.source.starts_with('/'))
    }

    /// Returns whether the glob matches a path, which must be relative or absolute as the pattern is.
    pub(crate) fn matches_path(&self, path: &std::path::Path) -> bool {
        self.pattern
            .as_ref()
            .is_none_or(|pattern| pattern.path.as_ref().is_some_and(|glob| glob.is_match(path)))
    }

    /// Returns whether an allowing rule matches a URL.
    ///
    /// A URL that people and programs read differently (a user name, a backslash, white space) matches no pattern.
    pub(crate) fn matches_url(&self, url: &str) -> bool {
        let Some(pattern) = &self.pattern else {
            return true;
        };
        let is_ambiguous = |c: char| c == '\\' || c.is_whitespace() || c.is_control();
        let (Some((base, rest)), Some((want_base, want_rest))) = (split_url(url), split_url(&pattern.source))
        else {
            return false;
        };
        !url.contains(is_ambiguous)
            && !base.contains('@')
            // Compared separately, so that a `*` in the host cannot reach into the path.
            && TextPattern::parse(&want_base.to_lowercase()).is_match(&base.to_lowercase())
            && TextPattern::parse(want_rest).is_match(rest)
    }

    /// Returns whether a denying rule matches a URL: any scheme and port of the host, with or without a final dot.
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
        // A denying rule must not be evaded by another spelling of the host.
        let name = without_port(host.rsplit('@').next().unwrap_or(&host));
        TextPattern::parse(&without_port(&want)).is_match(name.trim_end_matches('.'))
            && TextPattern::parse(want_rest).is_match(rest)
    }

    /// Returns whether the pattern contains exactly this word, so that its author thought of it.
    pub(crate) fn spells_word(&self, word: &str) -> bool {
        self.pattern
            .as_ref()
            .is_some_and(|pattern| pattern.text.spells_word(word))
    }

    /// Returns whether this is the pattern's first word.
    pub(crate) fn spells_first(&self, word: &str) -> bool {
        self.pattern
            .as_ref()
            .is_some_and(|pattern| pattern.text.first_word() == Some(word))
    }

    /// Returns whether the pattern contains this folder's name as a component.
    pub(crate) fn spells_folder(&self, folder: &str) -> bool {
        self.pattern
            .as_ref()
            .is_some_and(|pattern| pattern.source.split('/').any(|part| part == folder))
    }

    /// Returns whether the pattern itself names a secret-like file. No other rule allows one.
    pub(crate) fn names_secret(&self) -> bool {
        self.pattern.as_ref().is_some_and(|pattern| {
            let plain = pattern.source.replace('\\', "");
            secret::named_in(&plain).is_some()
        })
    }
}

impl Pattern {
    /// Parses the pattern of `rule`; `rest` begins with the opening parenthesis.
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
                    // `rest` begins with `(`, so the depth is at least 1 here.
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
        // Other agents write `touch:*` for `touch *`. A denying rule also matches `touch:x`, to be safe.
        let is_command = matches!(tool, "bash" | SANDBOXED);
        let prefix = source.strip_suffix(":*").filter(|_| is_command);
        let mut glob = source.strip_prefix("./").unwrap_or(source).to_owned();
        if glob.ends_with('/') {
            glob.push_str("**");
        }
        // `bash([ -f x ])` is a valid command, and an invalid glob.
        let path = if is_command || tool.starts_with("mcp:") {
            None
        } else {
            let built = GlobPattern::for_paths(&glob).map_err(|error| RuleError::Glob {
                rule: rule.to_owned(),
                reason: error.to_string(),
            })?;
            Some(built)
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

/// Returns the tool that a rule means: another agent's name counts if it means exactly the same.
fn canonical_tool_name(tool: &str) -> String {
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
        // A compiled glob cannot be compared, and the text determines everything else.
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

/// Escapes `subject` into a pattern that matches nothing else.
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

/// Splits a URL into scheme and host, and the rest from the first `/`, `?`, or `#` on.
fn split_url(url: &str) -> Option<(&str, &str)> {
    let host = url.find("://")? + 3;
    let end = url[host..]
        .find(['/', '?', '#'])
        .map_or(url.len(), |at| host + at);
    Some(url.split_at(end))
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
    fn each_malformed_rule_has_its_own_error() {
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
    fn patterns_match_whole_commands() {
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
    fn a_star_is_narrow_where_a_rule_allows_and_wide_where_it_denies() {
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
    fn tool_names_of_other_agents_count_if_they_mean_the_same() {
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
    fn a_denied_host_is_denied_in_every_spelling() {
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
    fn a_partly_known_command_may_match() {
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
    fn patterns_match_paths_and_urls() {
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
    fn stars_in_tool_names_match() {
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
    fn a_pattern_for_one_writing_tool_restricts_all() {
        for (pattern, tool, restricts) in [
            ("edit_file(src/**)", "write_file", true),
            ("write_file(src/**)", "edit_file", true),
            ("edit_*(src/**)", "write_file", true),
            ("edit_file(src/**)", "rename_symbol", true),
            ("edit_file(src/**)", "fix_code", true),
            ("edit_file(src/**)", "read_file", false),
            ("read_file(src/**)", "edit_file", false),
            ("edit_file", "write_file", false),
            ("write_file", "write_file", true),
        ] {
            assert_eq!(rule(pattern).restricts_tool(tool), restricts, "{pattern} {tool}");
        }
        assert!(!rule("edit_file(src/**)").matches_tool("write_file"));
    }

    #[test]
    fn only_whole_words_count_as_spelled_out() {
        assert!(rule("bash(sudo apt *)").spells_first("sudo"));
        assert!(rule("bash(sudo)").spells_first("sudo"));
        assert!(!rule("bash(su*)").spells_first("su"));
        assert!(!rule("bash(*)").spells_first("sudo"));
        assert!(rule("bash(find * -exec *)").spells_word("-exec"));
        assert!(!rule("bash(find * -exec*)").spells_word("-exec"));
        assert!(!rule("bash(find *-exec)").spells_word("-exec"));
        assert!(rule("bash(find . -delete)").spells_word("-delete"));
        assert!(rule("bash(sed '1e a b' *)").spells_word("'1e a b'"));
        assert!(!rule("bash(sed '1e a *' x)").spells_word("'1e a b'"));
        assert!(!rule("bash(sed *'1e a b' x)").spells_word("'1e a b'"));
    }

    #[test]
    fn lists_split_at_commas_outside_parentheses() {
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
        fn a_list_of_exact_rules_round_trips(subjects in prop::collection::vec("[^\\pC]{1,20}", 1..4)) {
            let rules: Vec<Rule> = subjects.iter().filter_map(|s| Rule::with_exact_pattern("bash", s)).collect();
            prop_assume!(!rules.is_empty());
            let list = rules.iter().map(Rule::to_string).collect::<Vec<_>>().join(", ");
            prop_assert_eq!(Rule::parse_list(&list).unwrap(), rules);
        }

        #[test]
        fn an_exact_rule_matches_only_its_subject(subject in "[^\\pC]{1,20}", other in "[^\\pC]{1,20}") {
            if let Some(rule) = Rule::with_exact_pattern("bash", &subject) {
                prop_assert!(rule.matches_text(&subject) && rule.allows_command(&subject));
                prop_assert_eq!(rule.matches_text(&other), subject == other);
                prop_assert_eq!(rule.allows_command(&other), subject == other);
            }
        }

        /// Whatever a pattern allows, it would also deny.
        #[test]
        fn allowing_is_narrower_than_denying(pattern in "[ab/: *-]{1,10}", command in "[ab/: -]{0,14}") {
            if let Ok(rule) = Rule::parse(&format!("bash({pattern})")) {
                prop_assert!(!rule.allows_command(&command) || rule.matches_text(&command));
            }
        }
    }
}
