//! `glob`: finds files by name.
//!
//! Owns the pattern and the result; [`super::walk`] decides which files are visited. Must not read contents.

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use super::files;
use super::output::refuse_input;
use super::search_pattern::{NamePattern, find_hidden_names};
use super::skipped::SkippedEntries;
use super::walk::{self, FileWalk, MAX_RESULTS, MAX_TIME, WalkBound, WalkEnd, WalkScope};
use super::{Tool, ToolContext, ToolError, ToolOutput};
use crate::base::nofollow::{self, FileKind};
use crate::domain::{Effect, EffectKind};
use crate::workspace::ResolvedPath;

/// The `glob` tool.
pub struct Glob;

/// The arguments of `glob`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GlobInput {
    /// What the path must look like: `*` and `?` stay within a name, `**` spans folders, `{a,b}` is a
    /// choice, `[a-z]` a range unless a name has these brackets. A pattern without `/` matches names at any depth. Examples: `*.rs`,
    /// `src/**/*.{ts,tsx}`.
    pattern: String,
    /// The folder to search in. Default: the working directory and all other workspace folders.
    path: Option<String>,
    /// Also search in hidden files and folders, whose names start with a dot. Default: only in those that the
    /// pattern names, like `.github/**`.
    hidden: Option<bool>,
}

/// Where to walk, and what to match there.
struct GlobSearch {
    starts: Vec<ResolvedPath>,
    /// Relative to the start.
    pattern: String,
    /// Whether a pattern without `/` matches at any depth.
    is_deep: bool,
}

impl Tool for Glob {
    type Input = GlobInput;

    const NAME: &'static str = "glob";

    const DESCRIPTION: &'static str = "Finds files whose path matches a pattern, sorted by path. What \
        .gitignore excludes is left out, links are not followed; an empty result says what was left out. \
        Gives at most 1000 files, or what it found within 10 seconds. To search in the text of files use grep.";

    fn call_title(&self, input: &GlobInput) -> String {
        let location = input
            .path
            .as_ref()
            .map_or_else(String::new, |path| format!(" in {path}"));
        files::format_title("Find", &format!("{}{location}", input.pattern))
    }

    fn predict_effect(&self, input: &GlobInput, cx: &ToolContext) -> Result<Effect, ToolError> {
        Ok(files::build_effect(
            EffectKind::Read,
            &input.build_search(cx)?.starts,
        ))
    }

    async fn run(&self, input: GlobInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let inner = cx.clone();
        files::run_blocking(&cx, move |stop| {
            find(&inner, &input, &WalkBound::new(stop, MAX_TIME)).map(ToolOutput::text)
        })
        .await
    }
}

impl GlobInput {
    fn build_search(&self, cx: &ToolContext) -> Result<GlobSearch, ToolError> {
        let pattern = self.pattern.strip_prefix("./").unwrap_or(&self.pattern);
        let (folder, rest) = split(pattern);
        if rest.is_empty() {
            return refuse_input(format!(
                "`{}` names no file; to see a folder use list_dir",
                self.pattern
            ));
        }
        // Only the literal start of the pattern is resolved and judged; a later `..` would escape that.
        if rest.split('/').any(|part| part == "..") {
            return refuse_input(format!("`{}`: `..` cannot follow a wildcard", self.pattern));
        }
        let start = match (&self.path, folder) {
            (None, "") => None,
            (None, folder) => Some(folder.to_owned()),
            (Some(path), "") => Some(path.clone()),
            (Some(_), folder) if folder.starts_with(['/', '~']) => Some(folder.to_owned()),
            (Some(path), folder) => Some(format!("{}/{folder}", path.trim_end_matches('/'))),
        };
        let starts = match start {
            None => walk::resolve_default_starts(cx)?,
            Some(start) => vec![cx.resolve_path(&start)?],
        };
        // Only a pattern without any `/` matches at any depth.
        Ok(GlobSearch {
            starts,
            pattern: rest.to_owned(),
            is_deep: !pattern.contains('/'),
        })
    }
}

/// Splits a pattern into its literal folder and the rest.
fn split(pattern: &str) -> (&str, &str) {
    let literal = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    match pattern[..literal].rfind('/') {
        Some(0) => ("/", &pattern[1..]),
        Some(at) => (&pattern[..at], &pattern[at + 1..]),
        None => ("", pattern),
    }
}

/// The files found so far.
#[derive(Default)]
struct FoundFiles {
    /// Files whose names have the brackets of the pattern.
    literal: Vec<String>,
    others: Vec<String>,
}

impl FoundFiles {
    /// Adds a file; `false` if there are too many.
    fn add(&mut self, is_literal: bool, path: impl FnOnce() -> String) -> bool {
        let files = if is_literal {
            &mut self.literal
        } else {
            &mut self.others
        };
        // One more than fits shows that there are more.
        if files.len() <= MAX_RESULTS {
            files.push(path());
        }
        files.len() <= MAX_RESULTS
    }

    /// Returns the files with the brackets as a name; without any, all.
    fn into_results(self) -> Vec<String> {
        if self.literal.is_empty() {
            self.others
        } else {
            self.literal
        }
    }
}

impl GlobSearch {
    fn build_scope(&self, input: &GlobInput) -> WalkScope {
        // A single name below the start needs no deeper walk.
        let is_flat = !self.is_deep && !self.pattern.contains('/') && !self.pattern.contains("**");
        WalkScope {
            hidden: input.hidden.unwrap_or(false),
            hidden_names: find_hidden_names(&self.pattern),
            // The start is the literal folder already.
            folders: Vec::new(),
            max_depth: is_flat.then_some(1),
            counts_folders: true,
            counts_secrets: false,
        }
    }
}

fn find(cx: &ToolContext, input: &GlobInput, bound: &WalkBound) -> Result<String, ToolError> {
    let search = input.build_search(cx)?;
    let pattern = NamePattern::new(&search.pattern, search.is_deep)?;
    let is_wanted = |_: &Path, below: &Path| pattern.is_match(below);
    let (mut found, mut skipped) = (FoundFiles::default(), SkippedEntries::default());
    let mut is_full = false;
    let mut is_late = false;
    let mut rules = String::new();
    for start in &search.starts {
        if nofollow::kind(&start.absolute) != Some(FileKind::Folder) {
            let suggestions = files::suggest_similar_paths(cx, &start.absolute);
            return refuse_input(format!("`{}` is not a folder{suggestions}", start.display));
        }
        let scope = search.build_scope(input);
        let mut walk = FileWalk::new(cx, &start.absolute, scope, &is_wanted, bound);
        for path in walk.by_ref() {
            if bound.check_end().is_some() {
                break;
            }
            let below = path.strip_prefix(&start.absolute).unwrap_or(&path);
            let is_literal = pattern.is_literal_match(below);
            let has_room = found.add(is_literal, || files::display_path(cx, &path));
            // A name with the brackets of the pattern, which wins, may follow.
            is_full = !has_room && (is_literal || !pattern.has_literal_reading());
            if is_full {
                break;
            }
        }
        skipped.absorb(walk.take_skipped());
        rules.push_str(&walk.unusable_rules(cx));
        match bound.check_end() {
            Some(WalkEnd::Cancelled) => return Err(ToolError::Cancelled),
            Some(WalkEnd::TimeUp) => is_late = true,
            None => {}
        }
        if is_full || is_late {
            break;
        }
    }
    let mut results = found.into_results();
    if results.is_empty()
        && let Some(error) = pattern.into_class_error()
    {
        return Err(error);
    }
    let end = if is_late {
        Some("stopped after 10 seconds; there may be more".to_owned())
    } else {
        (results.len() > MAX_RESULTS)
            .then(|| format!("the first {MAX_RESULTS} files; there are more: narrow the pattern or the path"))
    };
    results.truncate(MAX_RESULTS);
    Ok(format_result(&results, end.as_deref(), &skipped, &rules))
}

fn format_result(results: &[String], end: Option<&str>, skipped: &SkippedEntries, rules: &str) -> String {
    let mut text = match (results.is_empty(), end) {
        (true, None) => "no files found".to_owned(),
        _ => results.join("\n"),
    };
    if let Some(end) = end {
        text.push_str(&format!("\n[{end}]"));
    }
    if results.is_empty() {
        text.push_str(&format!("\n{}", skipped.describe_empty(false)));
    }
    if !rules.is_empty() {
        text.push_str(&format!("\n{}", rules.trim_end()));
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::super::testing::ToolHarness;
    use super::*;
    use crate::base::CancellationToken;

    async fn found(harness: &ToolHarness, args: Value) -> Vec<String> {
        let output = harness.call_tool("glob", args).await.unwrap();
        output.text.lines().map(str::to_owned).collect()
    }

    #[tokio::test]
    async fn files_are_found_by_pattern() {
        let harness = ToolHarness::with_folders(&["app", "lib"]);
        for path in [
            "src/a.rs",
            "src/deep/b.rs",
            "c.rs",
            ".hidden/d.rs",
            "target/e.rs",
            "../lib/f.rs",
            ".git/g.rs",
        ] {
            harness.write(path, "");
        }
        harness.write(".gitignore", "target/\n");
        let lib = harness.root.parent().unwrap().join("lib");
        for (args, expected) in [
            (
                json!({"pattern": "*.rs"}),
                vec!["c.rs", "src/a.rs", "src/deep/b.rs", "lib/f.rs"],
            ),
            (json!({"pattern": "src/*.rs"}), vec!["src/a.rs"]),
            (
                json!({"pattern": "./src/**/*.rs"}),
                vec!["src/a.rs", "src/deep/b.rs"],
            ),
            (
                json!({"pattern": "*.rs", "path": "src"}),
                vec!["src/a.rs", "src/deep/b.rs"],
            ),
            (
                json!({"pattern": "deep/*", "path": "src/"}),
                vec!["src/deep/b.rs"],
            ),
            (json!({"pattern": "lib/*.rs"}), vec!["lib/f.rs"]),
            (
                json!({"pattern": format!("{}/*", lib.display())}),
                vec!["lib/f.rs"],
            ),
            (json!({"pattern": "**/a.rs"}), vec!["src/a.rs"]),
            (json!({"pattern": "src/a.rs"}), vec!["src/a.rs"]),
            (json!({"pattern": "src/**"}), vec!["src/a.rs", "src/deep/b.rs"]),
            (
                json!({"pattern": "d.rs"}),
                vec![
                    "no files found",
                    "[left out as hidden: 1 folder (`.hidden/`); set hidden to include them]",
                    "[left out by ignore files such as .gitignore: 1 folder (`target/`); name a folder as path to search in it]",
                ],
            ),
            (json!({"pattern": "e.rs", "path": "target"}), vec!["target/e.rs"]),
            (
                json!({"pattern": "{d,g}.rs", "hidden": true}),
                vec![".hidden/d.rs"],
            ),
        ] {
            assert_eq!(found(&harness, args.clone()).await, expected, "{args}");
        }
        for (args, text) in [
            (json!({"pattern": "src/"}), "names no file"),
            (json!({"pattern": "*/../x"}), "`..` cannot follow"),
            (json!({"pattern": "*", "path": "c.rs"}), "is not a folder"),
            (json!({"pattern": "a/["}), "not a valid pattern"),
        ] {
            let error = harness.call_expecting_error("glob", args).await;
            assert!(error.contains(text), "{error}");
        }
    }

    #[tokio::test]
    async fn patterns_outside_are_reported_and_links_not_followed() {
        let harness = ToolHarness::with_folders(&["app"]);
        for (pattern, outside) in [("*.rs", false), ("../**", true), ("/etc/*", true)] {
            let effect = harness
                .predict_effect("glob", json!({"pattern": pattern}))
                .unwrap();
            assert_eq!(effect.outside, outside, "{pattern}");
        }
        #[cfg(unix)]
        {
            harness.write("../out/secret", "");
            std::os::unix::fs::symlink("../out", harness.path("leak")).unwrap();
            assert_eq!(
                found(&harness, json!({"pattern": "**"})).await,
                ["no files found", "[not followed: 1 symbolic link (`leak`)]"]
            );
        }
    }

    #[tokio::test]
    async fn limits_are_stated() {
        let harness = ToolHarness::new();
        for n in 0..=MAX_RESULTS {
            harness.write(&format!("{n:04}"), "");
        }
        let lines = found(&harness, json!({"pattern": "*"})).await;
        assert_eq!(lines.len(), MAX_RESULTS + 1);
        assert!(lines[MAX_RESULTS].starts_with("[the first 1000 files; there are more"));
        let input: GlobInput = serde_json::from_value(json!({"pattern": "*"})).unwrap();
        let stop = CancellationToken::new();
        // A name with the brackets wins, even if it comes late.
        harness.write("z/[0-9]x", "");
        assert_eq!(found(&harness, json!({"pattern": "[0-9]*"})).await, ["z/[0-9]x"]);
        let late = find(&harness.cx, &input, &WalkBound::new(&stop, Duration::ZERO)).unwrap();
        assert_eq!(late, "\n[stopped after 10 seconds; there may be more]");
        stop.cancel();
        let cancelled = find(&harness.cx, &input, &WalkBound::new(&stop, MAX_TIME));
        assert!(matches!(cancelled, Err(ToolError::Cancelled)));
    }
}
