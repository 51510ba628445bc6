//! Describes rules in words for people.

use std::path::Path;

use super::{OUTSIDE_SANDBOX, Rule, SANDBOXED, escape_subject};
use crate::base::text::reveal_hidden_characters;

/// Describes what a rule, or a list of rules, allows. A list that cannot be read stays as it is.
pub fn describe_rules(rules: &str) -> String {
    let shown = reveal_hidden_characters(rules);
    let parsed = Rule::parse_list(&shown).ok();
    let words = parsed.map(|rules| rules.iter().map(Rule::describe).collect::<Vec<_>>().join(" and "));
    words.unwrap_or_else(|| shown.into_owned())
}

/// Returns the rule for one file of the folder that a rule covers, given the file's path without links; `None` if the
/// rule is for something else.
pub fn narrow_to_file(rule: &str, path: &Path) -> Option<String> {
    let folder = rule
        .strip_suffix("/**)")
        .filter(|folder| !folder.contains("), "))?;
    let (tool, _) = folder.split_once('(')?;
    let name = path.file_name()?.to_str()?;
    let is_file_tool =
        tool.ends_with("_file") || matches!(tool, "apply_patch" | "fix_code" | "rename_symbol");
    is_file_tool.then(|| format!("{folder}/{})", escape_subject(name)))
}

impl Rule {
    fn describe(&self) -> String {
        let pattern = self.pattern.as_ref().map(|pattern| pattern.source.as_str());
        if let Some((server, tool)) = self
            .tool_name
            .strip_prefix("mcp:")
            .and_then(|rest| rest.split_once('/'))
        {
            let subject = match tool {
                "*" => format!("every tool of the MCP server {server}"),
                tool => format!("{tool} of the MCP server {server}"),
            };
            return match pattern {
                Some(pattern) => format!("{subject} with `{pattern}`"),
                None => subject,
            };
        }
        match (self.tool_name.as_str(), pattern) {
            ("bash" | "Bash", None) => "every command, also outside of the sandbox".to_owned(),
            ("bash" | "Bash", Some(pattern)) => describe_command(pattern, ""),
            (SANDBOXED, None) => "every command that stays in the sandbox".to_owned(),
            (SANDBOXED, Some(pattern)) => describe_command(pattern, " in the sandbox"),
            (OUTSIDE_SANDBOX, Some(pattern)) => format!("`{pattern}` outside of the sandbox"),
            ("read_file", pattern) => describe_files("reading", pattern),
            ("write_file", pattern) => describe_files("writing", pattern),
            ("edit_file", pattern) => describe_files("edits of", pattern),
            ("*_file", pattern) => describe_files("edits and new files in", pattern),
            ("apply_patch", pattern) => describe_files("patches of", pattern),
            ("rename_symbol", pattern) => describe_files("renames in", pattern),
            ("fix_code", pattern) => describe_files("quick fixes in", pattern),
            ("web_fetch", None) => "reading every web address".to_owned(),
            ("web_fetch", Some(pattern)) => {
                let site = pattern.strip_suffix("/*");
                site.map_or_else(
                    || format!("reading {pattern}"),
                    |site| format!("reading all of {site}"),
                )
            }
            (tool, None) => format!("every call of {tool}"),
            (tool, Some(pattern)) => format!("{tool} with `{pattern}`"),
        }
    }
}

fn describe_command(pattern: &str, place: &str) -> String {
    match pattern
        .strip_suffix(" *")
        .filter(|command| !command.contains(['*', '?', '[']))
    {
        Some(command) => format!("`{command}`{place}, with anything after it"),
        None => format!("`{pattern}`{place}"),
    }
}

fn describe_files(what: &str, pattern: Option<&str>) -> String {
    match pattern {
        None => format!("{what} every file"),
        Some(pattern) => match pattern.strip_suffix("/**") {
            Some(folder) => format!("{what} every file in `{folder}`"),
            None => format!("{what} `{pattern}`"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_for_a_folder_is_narrowed_to_a_file() {
        for (rule, path, narrow) in [
            (
                "write_file(src/**)",
                "./src/a[1].rs",
                Some("write_file(src/a\\[1\\].rs)"),
            ),
            ("*_file(src/deep/**)", "a.rs", Some("*_file(src/deep/a.rs)")),
            (
                "apply_patch(src/**)",
                "/work/src/a.rs",
                Some("apply_patch(src/a.rs)"),
            ),
            ("write_file(src/**)", "src/..", None),
            ("write_file(a.rs)", "a.rs", None),
            ("bash(ls src/**)", "a.rs", None),
            ("edit_file(a), write_file(src/**)", "src/a.rs", None),
        ] {
            let found = narrow_to_file(rule, Path::new(path));
            assert_eq!(found.as_deref(), narrow, "{rule} {path}");
            assert!(found.is_none_or(|found| Rule::parse(&found).is_ok()));
        }
    }

    #[test]
    fn rules_are_described_in_words() {
        for (rules, words) in [
            ("bash_sandboxed", "every command that stays in the sandbox"),
            ("bash_sandboxed(rm -r x)", "`rm -r x` in the sandbox"),
            ("bash_outside(make)", "`make` outside of the sandbox"),
            ("bash(git log *)", "`git log`, with anything after it"),
            ("mcp:tickets/search", "search of the MCP server tickets"),
            ("edit_file(src/**)", "edits of every file in `src`"),
            ("write_file(src/a.rs)", "writing `src/a.rs`"),
            ("web_fetch(https://docs.rs/*)", "reading all of https://docs.rs"),
            ("deploy", "every call of deploy"),
            (
                "bash_sandboxed(a, b), bash_sandboxed(c *)",
                "`a, b` in the sandbox and `c` in the sandbox, with anything after it",
            ),
            ("bash(", "bash("),
        ] {
            assert_eq!(describe_rules(rules), words);
        }
    }
}
