//! Finds rules that match no call: rules for unknown tools, or with patterns that fit nothing.
//!
//! Such a rule is a mistake, and a mistaken `deny` rule must not be lost in silence. Knows the built-in tools and how
//! other agents name theirs; knows nothing of configurations.
//!
//! A rule is refused only if it surely never matches. Names of other agents that do not mean exactly the same here
//! (`Read(…)` also covers their searches) are not guessed: the error suggests the nearest rule.

use super::{OUTSIDE_SANDBOX, Rule, RuleError, SANDBOXED, WEB_SEARCH};
use crate::approval::programs::find_open_runner;
use crate::approval::shell::is_assignment;
use crate::base::nearest::nearest_name;

/// What the calls of a tool are about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RuleSubject {
    Command,
    /// A whole command line, character for character.
    ExactLine,
    File,
    Address,
    /// Calls have nothing that a pattern could be compared with.
    Nothing,
}

/// The built-in tools, and the names for commands of `bash` by their sandbox. A test compares the list with the
/// registry.
const TOOLS: &[(&str, RuleSubject)] = &[
    ("bash", RuleSubject::Command),
    (OUTSIDE_SANDBOX, RuleSubject::ExactLine),
    (SANDBOXED, RuleSubject::Command),
    ("read_file", RuleSubject::File),
    ("list_dir", RuleSubject::File),
    ("glob", RuleSubject::File),
    ("grep", RuleSubject::File),
    ("diagnostics", RuleSubject::File),
    ("find_symbol", RuleSubject::File),
    ("find_references", RuleSubject::File),
    ("go_to_definition", RuleSubject::File),
    ("rename_symbol", RuleSubject::File),
    ("fix_code", RuleSubject::File),
    ("write_file", RuleSubject::File),
    ("edit_file", RuleSubject::File),
    ("apply_patch", RuleSubject::File),
    ("web_fetch", RuleSubject::Address),
    (WEB_SEARCH, RuleSubject::Nothing),
    ("bash_output", RuleSubject::Nothing),
    ("bash_kill", RuleSubject::Nothing),
    ("ask_user", RuleSubject::Nothing),
    ("present_plan", RuleSubject::Nothing),
    ("update_plan", RuleSubject::Nothing),
    ("read_skill", RuleSubject::Nothing),
    ("delegate", RuleSubject::Nothing),
];

/// Tools of other agents, each with the nearest of ours.
const FOREIGN: &[(&str, &[&str])] = &[
    ("Shell", &["bash"]),
    ("shell", &["bash"]),
    ("run_shell_command", &["bash"]),
    ("run_terminal_cmd", &["bash"]),
    ("execute_command", &["bash"]),
    ("Read", &["read_file"]),
    ("ReadFile", &["read_file"]),
    ("read_many_files", &["read_file"]),
    ("Edit", &["edit_file", "write_file"]),
    ("MultiEdit", &["edit_file"]),
    ("replace", &["edit_file"]),
    ("Write", &["write_file"]),
    ("NotebookEdit", &["edit_file"]),
    ("Grep", &["grep"]),
    ("search_file_content", &["grep"]),
    ("Glob", &["glob"]),
    ("LS", &["list_dir"]),
    ("list_directory", &["list_dir"]),
    ("WebFetch", &["web_fetch"]),
    ("WebSearch", &["web_search"]),
    ("google_web_search", &["web_search"]),
    ("Task", &["delegate"]),
    ("TodoWrite", &["update_plan"]),
    ("BashOutput", &["bash_output"]),
    ("KillShell", &["bash_kill"]),
    ("KillBash", &["bash_kill"]),
];

/// Words that begin or end blocks: no simple command begins with one.
const BLOCK_WORDS: &[&str] = &[
    "if", "then", "elif", "else", "fi", "while", "until", "for", "do", "done", "case", "esac", "select",
    "function", "coproc", "{", "}", "!",
];

/// What is wrong with a rule for more than one line outside the sandbox.
const NOT_EXACT: &str =
    "outside the sandbox, a rule names one command line exactly, in parentheses and without `*`";

/// Why a pattern fits nothing, and a pattern that would.
type Fault = (&'static str, Option<String>);

impl Rule {
    /// Parses a rule and checks that it can match a call. `own` are the tools that the configuration defines.
    ///
    /// # Errors
    /// Fails if the rule is malformed, names no tool, or can match no call. The error suggests the nearest valid rule.
    pub fn read(text: &str, own: &[impl AsRef<str>]) -> Result<Self, RuleError> {
        let rule = Self::parse(text)?;
        rule.validate_against_tools(own)?;
        Ok(rule)
    }

    /// Parses rules in one text, separated by commas, and checks each like [`Rule::read`].
    ///
    /// # Errors
    /// Fails for the first rule that is malformed, names no tool, or can match no call.
    pub fn read_list(text: &str, own: &[impl AsRef<str>]) -> Result<Vec<Self>, RuleError> {
        let rules = Self::parse_list(text)?;
        for rule in &rules {
            rule.validate_against_tools(own)?;
        }
        Ok(rules)
    }

    /// Returns a clearer spelling of a rule that allows less than it seems to: `bash(ls *)` for `bash(ls*)`.
    pub fn suggest_rewrite(&self) -> Option<String> {
        let source = &self.pattern.as_ref()?.source;
        let is_for_commands = self.tool.is_match("bash") || self.is_for_sandboxed_command();
        if !is_for_commands || source.ends_with(":*") || self.find_open_assignment().is_some() {
            return None;
        }
        let mut clear = String::new();
        let mut before = ' ';
        let mut chars = source.chars();
        while let Some(c) = chars.next() {
            let behind_word = before.is_alphanumeric() || before == '_';
            if c == '*' && behind_word && chars.as_str().chars().next().is_none_or(|c| c == ' ') {
                clear.push(' ');
            }
            clear.push(c);
            before = c;
            if c == '\\' {
                clear.extend(chars.next());
            }
        }
        (clear != *source).then(|| format!("{}({clear})", self.tool_name))
    }

    /// Returns an assignment before the command whose value has a `*`: such a rule for `bash` allows nothing, since a
    /// variable may make a program run another one.
    pub fn find_open_assignment(&self) -> Option<&str> {
        let source = &self.pattern.as_ref()?.source;
        if !self.tool.is_match("bash") && !self.is_for_sandboxed_command() {
            return None;
        }
        let mut words = source.split(' ').take_while(|word| is_assignment(word));
        words.find(|word| unescape_pattern(word).iter().any(|(_, is_star)| *is_star))
    }

    /// Returns the program by which this rule for `bash` allows any other program: `python3` for `bash(python3 *)`.
    ///
    /// An exact rule, and one that names the script, allows only that.
    pub fn find_open_runner(&self) -> Option<&str> {
        let source = &self.pattern.as_ref()?.source;
        // A first word with a `*` covers no such program.
        if !self.tool.is_match("bash") || source.starts_with('*') {
            return None;
        }
        let stars = source.match_indices('*');
        stars.map(|(at, _)| &source[..at]).find_map(|head| {
            let head = head.strip_suffix(':').unwrap_or(head);
            let mut words: Vec<&str> = head.split_whitespace().collect();
            // A `*` at the end of an argument leaves the argument open: `python3 -c*`, `python3 scripts/*`.
            if words.len() > 1 && !head.ends_with(' ') {
                words.pop();
            }
            words.retain(|word| !word.contains('*'));
            find_open_runner(&words)
        })
    }

    /// Returns whether the rule is about every command, in the sandbox or not.
    pub fn allows_every_command(&self) -> bool {
        let pattern = self.pattern.as_ref().map_or("*", |pattern| &pattern.source);
        self.tool.is_match("bash") && pattern.chars().all(|c| "*: ".contains(c))
    }

    fn validate_against_tools(&self, own: &[impl AsRef<str>]) -> Result<(), RuleError> {
        if let Some(rest) = self.tool_name.strip_prefix("mcp:") {
            let named = rest.contains('*')
                || rest
                    .split_once('/')
                    .is_some_and(|(a, b)| !a.is_empty() && !b.is_empty());
            return if named {
                Ok(())
            } else {
                Err(self.unknown_tool_error(Some(format!("`mcp:{}/*`", rest.trim_matches('/')))))
            };
        }
        // The servers' tools are not known here, so a well-formed name is enough.
        if self.tool_name.starts_with("mcp__") {
            return Ok(());
        }
        let own_tool = own.iter().any(|name| self.tool.is_match(name.as_ref()));
        let subjects: Vec<RuleSubject> = TOOLS
            .iter()
            .filter(|(name, _)| self.tool.is_match(name))
            .map(|(_, subject)| *subject)
            .collect();
        if subjects.is_empty() && !own_tool {
            return Err(self.unknown_tool_error(self.nearest_rule(own)));
        }
        let Some(pattern) = &self.pattern else {
            return if self.tool_name == OUTSIDE_SANDBOX {
                Err(RuleError::NeverMatches {
                    rule: self.to_string(),
                    why: NOT_EXACT,
                    instead: None,
                })
            } else {
                Ok(())
            };
        };
        let mut fault = None;
        for subject in subjects {
            let found = match subject {
                RuleSubject::Command => command_fault(&pattern.source),
                RuleSubject::ExactLine => (!self.is_exact()).then_some((NOT_EXACT, None)),
                RuleSubject::File => file_fault(&pattern.source),
                RuleSubject::Address => address_fault(&pattern.source),
                RuleSubject::Nothing => {
                    Some(("calls of this tool have nothing to compare a pattern with", None))
                }
            };
            // A tool pattern with a `*` may cover several tools: one that the pattern fits is enough.
            match found {
                None => return Ok(()),
                Some(found) => fault = fault.or(Some((subject, found))),
            }
        }
        match fault {
            None => Ok(()),
            Some((subject, (reason, instead))) => Err(RuleError::NeverMatches {
                rule: self.to_string(),
                why: reason,
                instead: match (instead, subject) {
                    (Some(pattern), _) => Some(format!("`{}({pattern})`", self.tool_name)),
                    (None, RuleSubject::Nothing) => Some(format!("`{}`", self.tool_name)),
                    (None, _) => None,
                },
            }),
        }
    }

    fn unknown_tool_error(&self, instead: Option<String>) -> RuleError {
        RuleError::UnknownTool {
            rule: self.to_string(),
            tool: self.tool_name.clone(),
            instead,
        }
    }

    /// Returns the same rule for the tool that was probably meant.
    fn nearest_rule(&self, own: &[impl AsRef<str>]) -> Option<String> {
        if let Some(rest) = self.pattern.as_ref().filter(|_| self.tool_name == "Mcp") {
            return Some(format!("`mcp:{}`", rest.source.replacen(':', "/", 1)));
        }
        let foreign = FOREIGN.iter().find(|(name, _)| *name == self.tool_name);
        let suggestions: Vec<&str> = match foreign {
            Some((_, ours)) => ours.to_vec(),
            None => {
                let names = TOOLS.iter().map(|(name, _)| *name);
                let own = own.iter().map(AsRef::as_ref);
                nearest_name(&self.tool_name, names.chain(own))
                    .into_iter()
                    .collect()
            }
        };
        let written: Vec<String> = suggestions
            .iter()
            .map(|tool| match &self.pattern {
                None => format!("`{tool}`"),
                Some(pattern) => format!(
                    "`{tool}{}`",
                    pattern_for(tool, &pattern.source, foreign.is_some())
                ),
            })
            .collect();
        (!written.is_empty()).then(|| written.join(" and "))
    }
}

/// Translates another agent's pattern for our tool, with parentheses; empty if the tool takes no patterns.
fn pattern_for(tool: &str, source: &str, is_foreign: bool) -> String {
    let subject = TOOLS
        .iter()
        .find(|(name, _)| *name == tool)
        .map(|(_, subject)| *subject);
    let pattern = match subject {
        Some(RuleSubject::Command) => match source.strip_suffix(":*") {
            Some(head) => format!("{head} *"),
            // A pattern without a star matches the start of a command in other agents.
            None if is_foreign && !source.contains('*') => format!("{source} *"),
            None => source.to_owned(),
        },
        Some(RuleSubject::Address) => match source.strip_prefix("domain:") {
            Some(host) => format!("https://{host}/*"),
            None => source.to_owned(),
        },
        Some(RuleSubject::File) => match source.strip_prefix("//") {
            Some(absolute) => format!("/{absolute}"),
            None => source.strip_prefix("./").unwrap_or(source).to_owned(),
        },
        Some(RuleSubject::Nothing) => return String::new(),
        Some(RuleSubject::ExactLine) | None => source.to_owned(),
    };
    format!("({pattern})")
}

/// Returns the characters that a pattern spells, each with whether it is an unescaped `*`.
fn unescape_pattern(source: &str) -> Vec<(char, bool)> {
    let mut spelled = Vec::new();
    let mut chars = source.chars();
    while let Some(c) = chars.next() {
        spelled.push(match c {
            '\\' => (chars.next().unwrap_or('\\'), false),
            c => (c, c == '*'),
        });
    }
    spelled
}

/// Returns why no command matches a pattern.
///
/// Rules see a simple command as `shell::Word::to_rule_text` writes it: outside of single quotes it has no operators.
fn command_fault(source: &str) -> Option<Fault> {
    let plain: String = unescape_pattern(source).into_iter().map(|(c, _)| c).collect();
    let first = plain.split(' ').next().unwrap_or_default();
    if first.contains("://") {
        return Some(("no command begins with an address", None));
    }
    if BLOCK_WORDS.contains(&first) {
        return Some((
            "it is compared with one simple command, and none begins with this word",
            None,
        ));
    }
    let mut quoted = false;
    let mut before = ' ';
    let mut chars = plain.chars().peekable();
    while let Some(c) = chars.next() {
        let reason = match c {
            '\'' => {
                quoted = !quoted;
                None
            }
            _ if quoted => None,
            // `it's` is written as 'it'\''s'.
            '\\' if chars.peek() == Some(&'\'') => {
                chars.next();
                None
            }
            ';' | '|' | '&' => {
                Some("it is compared with one simple command; write one rule for each command")
            }
            '<' | '>' => Some("redirections are no part of the command that it is compared with"),
            '$' | '`' => Some("a text that only the shell knows matches no pattern"),
            '"' | '\\' | '(' | ')' => {
                Some("words with blanks or special characters are written in single quotes")
            }
            '#' if before == ' ' => Some("a word that begins with `#` is written in single quotes"),
            ' ' if before == ' ' => Some("words are separated by one blank"),
            _ => None,
        };
        if let Some(reason) = reason {
            return Some((reason, None));
        }
        before = c;
    }
    // A `*` may stand for the closing quote.
    if quoted && !source.contains('*') {
        return Some(("a single quote is not closed", None));
    }
    if before == ' ' {
        return Some(("it ends with a blank", Some(source.trim_end().to_owned())));
    }
    if !plain.contains('\'') && plain.split(' ').any(has_brace_alternatives) {
        return Some((
            "braces are no alternatives in commands; write one rule for each",
            None,
        ));
    }
    None
}

fn has_brace_alternatives(word: &str) -> bool {
    word.split_once('{')
        .is_some_and(|(_, rest)| rest.contains('}') && (rest.contains(',') || rest.contains("..")))
}

/// Returns why no file matches a pattern. Files are compared by real path, below the workspace folder or from `/`.
fn file_fault(source: &str) -> Option<Fault> {
    if source.contains("://") {
        return Some(("a file has no address", None));
    }
    if source.starts_with('~') {
        return Some(("`~` is not expanded; write the absolute path", None));
    }
    if source.starts_with('!') {
        return Some(("`!` does not negate; write the files that the rule is for", None));
    }
    if source.trim() != source {
        return Some(("it begins or ends with a blank", Some(source.trim().to_owned())));
    }
    if source.ends_with(" *")
        || source.ends_with(":*")
        || [" | ", " && ", " || ", "; "].iter().any(|s| source.contains(s))
    {
        return Some((
            "this is a pattern for commands, and the tool is about files",
            None,
        ));
    }
    let inner = source.strip_prefix("./").unwrap_or(source);
    let below = inner.strip_prefix('/').unwrap_or(inner);
    if below
        .strip_suffix('/')
        .unwrap_or(below)
        .split('/')
        .any(|folder| folder.is_empty())
    {
        let single: Vec<&str> = below.split('/').filter(|folder| !folder.is_empty()).collect();
        let root = if inner.starts_with('/') { "/" } else { "" };
        let instead = (!single.is_empty()).then(|| format!("{root}{}", single.join("/")));
        return Some((
            "no path has two `/` in a row",
            instead.or_else(|| Some("/**".to_owned())),
        ));
    }
    if below.split('/').any(|folder| matches!(folder, "." | "..")) {
        return Some((
            "paths are compared without `.` and `..`; write the path that it leads to",
            None,
        ));
    }
    None
}

/// Returns why no URL matches a pattern.
///
/// URLs are compared as `url::Url` writes them: a path of at least `/`, no default port, no fragment, no user.
fn address_fault(source: &str) -> Option<Fault> {
    const FORM: &str = "it is compared with a whole address, as in `https://docs.rs/*`";
    if let Some(host) = source.strip_prefix("domain:") {
        return Some((FORM, Some(format!("https://{}/*", host.trim()))));
    }
    let Some((scheme, rest)) = source.split_once("://") else {
        let is_host = !source.contains([' ', '(', '{']) && source.contains('.');
        return match source.trim_end_matches('*').trim_end_matches('/') {
            host if is_host && !host.is_empty() && !host.contains('/') => {
                Some((FORM, Some(format!("https://{host}/*"))))
            }
            _ if source == "*" => Some((FORM, Some("https://*/*".to_owned()))),
            _ => Some((FORM, None)),
        };
    };
    if !scheme.contains('*') && !matches!(scheme, "http" | "https") {
        return Some(("only http and https addresses are fetched", None));
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    if host.is_empty() || host.starts_with(':') {
        return Some(("the address has no host", None));
    }
    if host.contains('@') {
        return Some(("addresses with a user name are never fetched", None));
    }
    if source.contains([' ', '#', '\\']) {
        return Some((
            "addresses are compared without blanks, backslashes and fragments",
            None,
        ));
    }
    if !host.is_ascii() {
        return Some(("a host is compared in its ASCII form (`xn--…`)", None));
    }
    let usual = match scheme {
        "https" => host.strip_suffix(":443"),
        _ => host.strip_suffix(":80").filter(|_| scheme == "http"),
    };
    if let Some(host) = usual {
        return Some((
            "an address leaves out the usual port",
            Some(format!("{scheme}://{host}{path}")),
        ));
    }
    if !path.starts_with('/') {
        let host = host.trim_end_matches('*');
        let host = if host.is_empty() { "*" } else { host };
        return Some((
            "each address has a path, at least `/`",
            Some(format!("{scheme}://{host}/*")),
        ));
    }
    None
}

#[cfg(test)]
mod tests;
