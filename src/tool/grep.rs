//! `grep`: searches the text of files with ripgrep's libraries.
//!
//! Open files are searched with their unsaved text. Files that usually contain secrets are searched only if named
//! (R-SEC). [`super::walk`] decides which files are visited, and [`super::grep_hits`] what is shown of the matches.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use super::file_filter::FileFilter;
use super::files;
use super::grep_hits::{self, GrepOutput, HitCollector, OutputMode};
use super::output::refuse_input;
use super::skipped::{SkipReason, SkippedEntries};
use super::text_reader::TextReader;
use super::walk::{self, FileWalk, MAX_TIME, WalkBound, WalkEnd, WalkScope};
use super::{Tool, ToolContext, ToolError, ToolOutput, stored_output};
use crate::base::nofollow::{self, FileKind, RegularFile};
use crate::base::secret_path::is_secret_like;
use crate::domain::{Effect, EffectKind};
use crate::workspace::{Buffer, ReadDeny, ResolvedPath};

/// Longest line searched, in bytes; a file with a longer line is not searched to its end.
const MAX_HEAP: usize = 32 << 20;
const MAX_CONTEXT: usize = 10;
/// Longest pattern, in bytes: a search for a longer one cannot be canceled within a line.
const MAX_PATTERN: usize = 16 << 10;

/// The `grep` tool.
pub struct Grep;

/// The arguments of `grep`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrepInput {
    /// What to look for: a regular expression in Rust's syntax, matched within one line unless multiline is
    /// set.
    pattern: String,
    /// The folder or file to search in, or a `tool-output:` path, which a result names if it was cut. Default:
    /// the working directory and all other workspace folders.
    path: Option<String>,
    /// Only files whose path matches, like `*.rs` or `src/**/*.ts,!*.test.ts`, relative to the folder searched.
    glob: Option<String>,
    /// Only files of this type, by ripgrep's names, like `rust`, `py`, `ts` or `md`.
    #[serde(rename = "type")]
    file_type: Option<String>,
    /// Take capitals and small letters as the same. Default: false.
    ignore_case: Option<bool>,
    /// Take the pattern as plain text. Default: false.
    literal: Option<bool>,
    /// Also search in hidden files and folders, whose names start with a dot. Default: only in those that glob
    /// names.
    hidden: Option<bool>,
    /// Let a match span several lines; then `.` matches line ends too. Default: false.
    multiline: Option<bool>,
    /// What to give: matching lines (`content`), only the paths of files with a match
    /// (`files_with_matches`), or each such path with the number of matches (`count`). Default: content.
    output_mode: Option<OutputMode>,
    /// How many lines to show before and after each match, with `content`. Default: 0.
    #[schemars(range(min = 0, max = 10))]
    context: Option<usize>,
    /// How many results to give at most. Default and maximum: 1000.
    #[schemars(range(min = 1))]
    limit: Option<usize>,
    /// How many results to leave out first, to go on where a result ended. Default: 0.
    offset: Option<usize>,
}

impl Tool for Grep {
    type Input = GrepInput;

    const NAME: &'static str = "grep";

    const DESCRIPTION: &'static str = "Searches the text of files for a regular expression and gives the \
        matching lines as path:line:text (lines of context as path-line-text). What .gitignore excludes, \
        binary files and files that usually hold secrets are left out; an empty result says so. Gives at most \
        about 12 KB, or what it found within 10 seconds; the end says how to go on. Files open in the editor are searched with their unsaved changes.";

    fn call_title(&self, input: &GrepInput) -> String {
        let location = input
            .path
            .as_ref()
            .map_or_else(String::new, |path| format!(" in {path}"));
        files::format_title("Search", &format!("{}{location}", input.pattern))
    }

    fn predict_effect(&self, input: &GrepInput, cx: &ToolContext) -> Result<Effect, ToolError> {
        if let Some(path) = input.stored_path() {
            return Ok(stored_output::build_effect(path));
        }
        Ok(files::build_effect(EffectKind::Read, &input.resolve_starts(cx)?))
    }

    async fn run(&self, input: GrepInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let inner = cx.clone();
        files::run_blocking(&cx, move |stop| {
            let bound = WalkBound::new(stop, MAX_TIME);
            GrepSearch::new(&inner, &input, bound)?
                .run(&input)
                .map(|text| ToolOutput {
                    paged: true,
                    ..ToolOutput::text(text)
                })
        })
        .await
    }
}

impl GrepInput {
    /// Returns the path if it is that of a stored output.
    fn stored_path(&self) -> Option<&str> {
        let path = self.path.as_deref()?;
        stored_output::stored_name(path).and(Some(path))
    }

    fn resolve_starts(&self, cx: &ToolContext) -> Result<Vec<ResolvedPath>, ToolError> {
        match &self.path {
            Some(path) => Ok(vec![cx.resolve_path(path)?]),
            None => walk::resolve_default_starts(cx),
        }
    }

    /// Builds the matcher that finds where a match is in a long line: without what only fills the line.
    fn build_place_matcher(&self) -> Result<RegexMatcher, ToolError> {
        let filler = if self.literal.unwrap_or(false) { "" } else { ".*" };
        let core = self.pattern.strip_prefix(filler).unwrap_or(&self.pattern);
        let core = core.strip_suffix(filler).unwrap_or(core);
        self.build_matcher(core)
            .or_else(|_| self.build_matcher(&self.pattern))
    }

    fn build_matcher(&self, pattern: &str) -> Result<RegexMatcher, ToolError> {
        if pattern.len() > MAX_PATTERN {
            return Err(ToolError::WrongInput(format!(
                "the pattern has {} bytes, but at most {MAX_PATTERN} are possible; search for a part of it",
                pattern.len()
            )));
        }
        let multiline = self.is_multiline();
        let is_literal = self.literal.unwrap_or(false);
        let accepting_crlf = (multiline && !is_literal).then(|| accept_crlf(pattern));
        let mut builder = RegexMatcherBuilder::new();
        builder
            .case_insensitive(self.ignore_case.unwrap_or(false))
            .fixed_strings(is_literal)
            .multi_line(true)
            .dot_matches_new_line(multiline)
            // This sets the line terminator too, so that a pattern that could match one is an error.
            .crlf(true);
        if multiline {
            builder.line_terminator(None);
        }
        let pattern = accepting_crlf.as_deref().unwrap_or(pattern);
        builder.build(pattern).map_err(|error| {
            let hint = if multiline {
                "set literal for plain text"
            } else {
                "a match cannot span lines unless multiline is set; set literal for plain text"
            };
            ToolError::WrongInput(format!("pattern: {error} ({hint})"))
        })
    }

    fn is_multiline(&self) -> bool {
        self.multiline.unwrap_or(false)
    }
}

/// Returns the regular expression in which each line end of `pattern` may also be that of Windows. In a class it stays.
fn accept_crlf(pattern: &str) -> String {
    let (mut accepting, mut depth) = (String::new(), 0_usize);
    let mut rest = pattern;
    while let Some(letter) = rest.chars().next() {
        let mut is_opening = false;
        let length = match letter {
            '\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            '[' => find_named_class(rest).filter(|_| depth > 0).unwrap_or_else(|| {
                is_opening = true;
                // A `]` right after the start is a letter of the class.
                let inner = rest[1..].strip_prefix('^').unwrap_or(&rest[1..]);
                rest.len() - inner.strip_prefix(']').unwrap_or(inner).len()
            }),
            _ => letter.len_utf8(),
        };
        let (piece, next) = rest.split_at(length);
        let is_line_end = depth == 0 && matches!(piece, "\n" | "\\n");
        accepting.push_str(if is_line_end { r"(?:\r?\n)" } else { piece });
        depth = (depth + usize::from(is_opening)).saturating_sub(usize::from(piece == "]"));
        rest = next;
    }
    accepting
}

/// Returns the length of a class such as `[:alpha:]` at the start of the text.
fn find_named_class(text: &str) -> Option<usize> {
    let name = text.strip_prefix("[:")?;
    let end = name.find(":]")?;
    let is_name = name[..end]
        .trim_start_matches('^')
        .chars()
        .all(|c| c.is_ascii_lowercase());
    is_name.then_some(2 + end + 2)
}

/// A search in progress.
struct GrepSearch<'a> {
    cx: &'a ToolContext,
    matcher: RegexMatcher,
    place_matcher: RegexMatcher,
    searcher: Searcher,
    starts: Vec<ResolvedPath>,
    filter: Rc<FileFilter>,
    bound: WalkBound,
    out: GrepOutput,
    skipped: SkippedEntries,
    /// Notes about ignore files that had no effect.
    rules: String,
    denied: ReadDeny,
    /// The pattern has letters that other encodings than UTF-8 write with other bytes.
    is_beyond_ascii: bool,
}

impl<'a> GrepSearch<'a> {
    fn new(cx: &'a ToolContext, input: &GrepInput, bound: WalkBound) -> Result<Self, ToolError> {
        let mode = input.output_mode.unwrap_or_default();
        let context = match mode {
            OutputMode::Content => input.context.unwrap_or(0).min(MAX_CONTEXT),
            OutputMode::FilesWithMatches | OutputMode::Count => 0,
        };
        let starts = match input.stored_path() {
            Some(_) => Vec::new(),
            None => input.resolve_starts(cx)?,
        };
        let filter = FileFilter::new(input.glob.as_deref(), input.file_type.as_deref(), cx, &starts)?;
        Ok(Self {
            cx,
            matcher: input.build_matcher(&input.pattern)?,
            place_matcher: input.build_place_matcher()?,
            searcher: SearcherBuilder::new()
                .line_terminator(LineTerminator::crlf())
                .line_number(true)
                .multi_line(input.is_multiline())
                .before_context(context)
                .after_context(context)
                // `TextReader` detects it.
                .binary_detection(BinaryDetection::none())
                .heap_limit(Some(MAX_HEAP))
                .build(),
            starts,
            filter: Rc::new(filter),
            bound,
            out: GrepOutput::new(
                mode,
                context > 0,
                input.offset.unwrap_or(0),
                input.limit,
                cx.max_result_bytes(grep_hits::MAX_BYTES),
            ),
            skipped: SkippedEntries::default(),
            rules: String::new(),
            denied: cx.workspace.shared().read_deny(Some(&cx.cwd)),
            is_beyond_ascii: !input.pattern.is_ascii(),
        })
    }

    fn run(mut self, input: &GrepInput) -> Result<String, ToolError> {
        if let Some(path) = input.stored_path() {
            return self.run_in_stored_output(path);
        }
        let mut halt = None;
        for start in std::mem::take(&mut self.starts) {
            let path = &start.absolute;
            let kind = nofollow::kind(path);
            if kind != Some(FileKind::Folder) {
                // A file named by the call is searched, whatever its name. It may exist only in the editor.
                if self.cx.workspace.overlay().lookup_buffer(path) == Buffer::Saved
                    && kind != Some(FileKind::Regular)
                {
                    let suggestions = files::suggest_similar_paths(self.cx, path);
                    return refuse_input(format!(
                        "`{}` is not a file or folder{suggestions}",
                        start.display
                    ));
                }
                halt = self.search_file(path, true);
                break;
            }
            halt = self.search_folder(path, input.hidden.unwrap_or(false));
            if halt.is_some() || self.out.is_full() {
                break;
            }
        }
        self.finish(halt)
    }

    fn search_folder(&mut self, start: &Path, hidden: bool) -> Option<WalkEnd> {
        let bound = self.bound.clone();
        let filter = self.filter.clone();
        let is_wanted = |path: &Path, below: &Path| filter.is_match(path, below);
        let scope = WalkScope {
            hidden,
            hidden_names: filter.hidden_names(),
            folders: filter.folders(),
            counts_secrets: true,
            ..WalkScope::default()
        };
        let mut found = FileWalk::new(self.cx, start, scope, &is_wanted, &bound);
        let mut halt = None;
        for file in found.by_ref() {
            halt = bound.check_end().or_else(|| self.search_entry(start, &file));
            if halt.is_some() || self.out.is_full() {
                break;
            }
        }
        self.skipped.absorb(found.take_skipped());
        self.rules.push_str(&found.unusable_rules(self.cx));
        halt.or_else(|| bound.check_end())
    }

    fn run_in_stored_output(mut self, path: &str) -> Result<String, ToolError> {
        let name = stored_output::stored_name(path).unwrap_or_default();
        let file = self.cx.open_stored_output(name)?;
        let matchers = [&self.matcher, &self.place_matcher];
        let mut hits =
            HitCollector::new(&mut self.out, self.cx, matchers, Path::new(path)).with_display_path(path);
        let searched = TextReader::new(file, &self.bound)
            .and_then(|reader| self.searcher.search_reader(&self.matcher, reader, &mut hits));
        let halt = searched.err().and_then(|_| self.bound.check_end());
        self.finish(halt)
    }

    fn finish(self, halt: Option<WalkEnd>) -> Result<String, ToolError> {
        match halt {
            Some(WalkEnd::Cancelled) => Err(ToolError::Cancelled),
            Some(WalkEnd::TimeUp) => Ok(self.into_text(Some("stopped after 10 seconds; narrow the search"))),
            None => Ok(self.into_text(None)),
        }
    }

    fn search_entry(&mut self, start: &Path, path: &Path) -> Option<WalkEnd> {
        // The approval covers the folder, not the secrets in it.
        let is_denied = self.denied.covers(path) && !self.denied.covers(start);
        if is_denied || is_secret_like(path) {
            self.skipped.secrets += 1;
            return None;
        }
        self.search_file(path, false)
    }

    /// Searches a file. One that the call names is searched even if it is binary.
    fn search_file(&mut self, path: &Path, is_named: bool) -> Option<WalkEnd> {
        let searched = match self.cx.workspace.overlay().lookup_buffer(path) {
            Buffer::Unsaved(document) => {
                let matchers = [&self.matcher, &self.place_matcher];
                let mut hits = HitCollector::new(&mut self.out, self.cx, matchers, path);
                self.searcher
                    .search_slice(&self.matcher, document.text.as_bytes(), &mut hits)
            }
            // The text of an unknown buffer is not available, so the disk has to do.
            Buffer::Saved | Buffer::Unknown => self.search_on_disk(path, is_named),
        };
        if searched.is_err() {
            // The reader fails too when the search has to end.
            if let Some(halt) = self.bound.check_end() {
                return Some(halt);
            }
            self.skipped.unreadable_files += 1;
        }
        None
    }

    fn search_on_disk(&mut self, path: &Path, is_named: bool) -> io::Result<()> {
        let cx = self.cx;
        let name = || files::display_path(cx, path);
        let file = RegularFile::open(path).map_err(io::Error::other)?;
        let bound = self.bound.clone();
        let mut reader = TextReader::new(file.into_file()?, &bound)?;
        if reader.has_binary_content() && !is_named {
            self.skipped.add(SkipReason::Binary, false, name);
            return Ok(());
        }
        if self.is_beyond_ascii && reader.has_other_encoding() && !reader.has_binary_content() {
            return self.search_decoded(path);
        }
        let matchers = [&self.matcher, &self.place_matcher];
        let mut hits = HitCollector::new(&mut self.out, self.cx, matchers, path);
        let searched = self
            .searcher
            .search_reader(&self.matcher, reader.by_ref(), &mut hits);
        if reader.has_binary_content() && (is_named || hits.has_results()) {
            self.skipped.add_binary_content(name);
        }
        let is_found = hits.has_results();
        if searched.is_ok() && !is_found && self.is_beyond_ascii && reader.has_other_encoding() {
            return self.search_decoded(path);
        }
        searched
    }

    /// Searches the text of a file in an encoding other than UTF-8.
    fn search_decoded(&mut self, path: &Path) -> io::Result<()> {
        let Ok(loaded) = self.cx.workspace.load_file(path) else {
            return Ok(());
        };
        let matchers = [&self.matcher, &self.place_matcher];
        let mut hits = HitCollector::new(&mut self.out, self.cx, matchers, path);
        self.searcher
            .search_slice(&self.matcher, loaded.file.text.as_bytes(), &mut hits)
    }

    fn into_text(self, halted: Option<&str>) -> String {
        let is_empty = self.out.is_empty();
        let mut text = self.out.into_text(halted.is_none());
        if let Some(halted) = halted {
            let _ = writeln!(text, "[{halted}]");
        }
        if is_empty {
            text.push_str(&self.skipped.describe_empty(true));
        }
        text.push_str(&self.skipped.describe_always(is_empty));
        text.push_str(&self.rules);
        text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::super::testing::ToolHarness;
    use super::*;
    use crate::base::CancellationToken;

    async fn found(harness: &ToolHarness, args: Value) -> String {
        harness.call_tool("grep", args).await.unwrap().text
    }

    #[tokio::test]
    async fn matching_lines_are_found() {
        let harness = ToolHarness::with_folders(&["app", "lib"]);
        harness.write("src/a.rs", "fn one() {}\r\nfn two() {}\r\nlast");
        harness.write("src/b.txt", "FN one\n");
        harness.write("../lib/c.rs", "fn one\n");
        harness.write("target/x.rs", "fn one\n");
        harness.write(".gitignore", "/target\n");
        harness.write(".hidden", "fn one\n");
        std::fs::write(harness.path("bin"), b"fn one\n\0").unwrap();
        for (args, expected) in [
            (
                json!({"pattern": r"fn \w+e\b"}),
                "src/a.rs:1:fn one() {}\nlib/c.rs:1:fn one\n",
            ),
            (
                json!({"pattern": r"\{\}$"}),
                "src/a.rs:1:fn one() {}\nsrc/a.rs:2:fn two() {}\n",
            ),
            (
                json!({"pattern": "() {", "literal": true, "path": "src"}),
                "src/a.rs:1:fn one() {}\nsrc/a.rs:2:fn two() {}\n",
            ),
            (
                json!({"pattern": "fn one", "ignore_case": true, "glob": "*.txt"}),
                "src/b.txt:1:FN one\n",
            ),
            (
                json!({"pattern": "fn one", "glob": "src/*.rs"}),
                "src/a.rs:1:fn one() {}\n",
            ),
            (
                json!({"pattern": "fn one", "ignore_case": true, "glob": "./src/*.{rs,txt}, !a.*"}),
                "src/b.txt:1:FN one\n",
            ),
            (
                json!({"pattern": "fn one", "glob": "!src/"}),
                "lib/c.rs:1:fn one\n",
            ),
            (
                json!({"pattern": "fn one", "glob": "src/,*.txt"}),
                "src/a.rs:1:fn one() {}\n",
            ),
            (
                json!({"pattern": "fn one", "path": "src/a.rs", "glob": "*.rs"}),
                "src/a.rs:1:fn one() {}\n",
            ),
            (
                json!({"pattern": "two", "context": 1}),
                "src/a.rs-1-fn one() {}\nsrc/a.rs:2:fn two() {}\nsrc/a.rs-3-last\n",
            ),
            (
                json!({"pattern": "fn", "output_mode": "files_with_matches"}),
                "src/a.rs\nlib/c.rs\n",
            ),
            (
                json!({"pattern": "fn", "output_mode": "count"}),
                "src/a.rs:2\nlib/c.rs:1\n[3 matches in 2 files]\n",
            ),
            (
                json!({"pattern": "two", "output_mode": "count"}),
                "src/a.rs:1\n[1 match in 1 file]\n",
            ),
            (
                json!({"pattern": "fn", "ignore_case": true, "type": "txt"}),
                "src/b.txt:1:FN one\n",
            ),
            (
                json!({"pattern": r"one.*last", "multiline": true}),
                "src/a.rs:1:fn one() {}\nsrc/a.rs:2:fn two() {}\nsrc/a.rs:3:last\n",
            ),
            (
                json!({"pattern": r"^fn two.*\{\}$", "multiline": true}),
                "src/a.rs:2:fn two() {}\n",
            ),
            (
                json!({"pattern": "fn", "limit": 1, "offset": 1}),
                "src/a.rs:2:fn two() {}\n[results 2 to 2; there are more: continue with offset 2, or narrow the search]\n",
            ),
            (
                json!({"pattern": "fn", "limit": 1, "offset": 2}),
                "lib/c.rs:1:fn one\n",
            ),
            (
                json!({"pattern": "fn", "output_mode": "files_with_matches", "limit": 1}),
                "src/a.rs\n[results 1 to 1; there are more: continue with offset 1, or narrow the search]\n",
            ),
            (
                json!({"pattern": "fn", "output_mode": "count", "offset": 1}),
                "lib/c.rs:1\n[3 matches in 2 files]\n",
            ),
            (
                json!({"pattern": "fn", "offset": 7}),
                "no matches from offset 7 on; there are 3\n",
            ),
            (
                json!({"pattern": "fn one", "path": "target/x.rs"}),
                "target/x.rs:1:fn one\n",
            ),
            (
                json!({"pattern": "fn one", "hidden": true, "glob": ".*"}),
                ".hidden:1:fn one\n",
            ),
            (json!({"pattern": "nothing", "path": "src"}), "no matches\n"),
        ] {
            assert_eq!(found(&harness, args.clone()).await, expected, "{args}");
        }
        for (args, text) in [
            (json!({"pattern": "("}), "unclosed group"),
            (
                json!({"pattern": "a\\nb"}),
                "cannot span lines unless multiline is set",
            ),
            (
                json!({"pattern": "x", "type": "rsut"}),
                "type: `rsut` is not known. Did you mean rst or rust? (to choose files by name, use glob)",
            ),
            (
                json!({"pattern": "x", "path": "scr"}),
                "`scr` is not a file or folder. Did you mean `src`?",
            ),
        ] {
            let error = harness.call_expecting_error("grep", args).await;
            assert!(error.contains(text), "{error}");
        }
    }

    #[tokio::test]
    async fn matches_on_adjacent_lines_are_results_of_their_own() {
        let harness = ToolHarness::new();
        harness.write("a", "f(\n1)\nf(\n2) f(\n3)\nf(\n4)\n\nf(\n5)\n");
        let search = async |mut args: Value| {
            args["pattern"] = json!(r"f\(\n\d\)");
            args["multiline"] = json!(true);
            found(&harness, args).await
        };
        // Two of the five share a line.
        assert_eq!(
            search(json!({"output_mode": "count"})).await,
            "a:4\n[4 matches in 1 file]\n"
        );
        let more = |shown: &str, next: usize| {
            format!("[results {shown}; there are more: continue with offset {next}, or narrow the search]\n")
        };
        assert_eq!(
            search(json!({"limit": 2})).await,
            format!("a:1:f(\na:2:1)\na:3:f(\na:4:2) f(\na:5:3)\n{}", more("1 to 2", 2))
        );
        assert_eq!(
            search(json!({"limit": 1, "offset": 2})).await,
            format!("a:6:f(\na:7:4)\n{}", more("3 to 3", 3))
        );
        assert_eq!(
            search(json!({"offset": 2, "context": 1})).await,
            "a:6:f(\na:7:4)\na-8-\na:9:f(\na:10:5)\n"
        );
        // The same as without `multiline`, where a match may be empty, too.
        harness.write("b", &"x y\n".repeat(30));
        for pattern in ["x", "x *", "y$", "^", "x|\\n"] {
            let args = json!({"pattern": pattern, "path": "b", "output_mode": "count", "multiline": true});
            assert_eq!(
                found(&harness, args).await,
                "b:30\n[30 matches in 1 file]\n",
                "{pattern}"
            );
        }
        let args = json!({"pattern": "x", "path": "b", "multiline": true, "limit": 2, "offset": 20});
        assert!(
            found(&harness, args)
                .await
                .starts_with("b:21:x y\nb:22:x y\n[results 21 to 22;")
        );
    }

    #[tokio::test]
    async fn braces_may_be_part_of_a_name() {
        let harness = ToolHarness::new();
        harness.write("{{cookiecutter.slug}}/setup.py", "name\n");
        let text = found(
            &harness,
            json!({"pattern": "name", "glob": "{{cookiecutter.slug}}/*.py"}),
        )
        .await;
        assert_eq!(text, "{{cookiecutter.slug}}/setup.py:1:name\n");
    }

    #[tokio::test]
    async fn text_in_an_old_encoding_is_found() {
        let harness = ToolHarness::new();
        std::fs::write(harness.path("latin1.txt"), b"Eins\nGr\xf6\xdfe und L\xe4nge\n").unwrap();
        std::fs::write(
            harness.path("shift-jis.txt"),
            b"title\n\x93\xfa\x96\x7b\x8c\xea\x82\xcc\x83\x65\x83\x4c\x83\x58\x83\x67\n",
        )
        .unwrap();
        harness.write("utf8.txt", "Größe\n");
        let text = found(&harness, json!({"pattern": "größe", "ignore_case": true})).await;
        assert_eq!(text, "latin1.txt:2:Größe und Länge\nutf8.txt:1:Größe\n");
        let text = found(&harness, json!({"pattern": "日本語"})).await;
        assert_eq!(text, "shift-jis.txt:2:日本語のテキスト\n");
    }

    #[tokio::test]
    async fn a_match_spans_lines_of_windows_too() {
        let harness = ToolHarness::new();
        harness.write("a", "one\r\ntwo (x]\r\n\r\nthree\r\n");
        let lines = "a:1:one\na:2:two (x]\n";
        for (pattern, literal, expected) in [
            (r"one\ntwo", false, lines),
            ("one\ntwo", false, lines),
            (r"one\r?\ntwo", false, lines),
            (r"one\r\ntwo", false, lines),
            (r"one$\n^two", false, lines),
            (r"one[\r\n]+two", false, lines),
            (r"two [^]\n]+x", false, "a:2:two (x]\n"),
            (r"two [[:alpha:]\n]x", false, "no matches\n"),
            (r"one[^\n]*\ntwo", false, lines),
            (r"[a-z]\n[\w]", false, lines),
            (r"\]\n+three", false, "a:2:two (x]\na:3:\na:4:three\n"),
            (r"one\\ntwo", false, "no matches\n"),
            ("one\r\ntwo (", true, lines),
            (r"one\ntwo", true, "no matches\n"),
        ] {
            let args = json!({"pattern": pattern, "multiline": true, "literal": literal});
            assert_eq!(found(&harness, args).await, expected, "{pattern:?}");
        }
    }

    #[tokio::test]
    async fn groups_with_context_are_separated() {
        let harness = ToolHarness::new();
        harness.write("a", "x\n1\n2\n3\nx\n");
        harness.write("b", "x\n0\n");
        let text = found(&harness, json!({"pattern": "x", "context": 1})).await;
        assert_eq!(text, "a:1:x\na-2-1\n--\na-4-3\na:5:x\n--\nb:1:x\nb-2-0\n");
        let text = found(
            &harness,
            json!({"pattern": "x", "context": 1, "offset": 1, "limit": 1}),
        )
        .await;
        assert_eq!(
            text,
            "a-4-3\na:5:x\n[results 2 to 2; there are more: continue with offset 2, or narrow the search]\n"
        );
        let text = found(&harness, json!({"pattern": "x", "context": 1, "offset": 2})).await;
        assert_eq!(text, "b:1:x\nb-2-0\n");
    }

    #[tokio::test]
    async fn secrets_are_searched_only_when_named() {
        let harness = ToolHarness::new();
        harness.write("key.pem", "needle\n");
        harness.write("a.txt", "needle\n");
        let text = found(&harness, json!({"pattern": "needle"})).await;
        assert!(
            text.starts_with("a.txt:1:needle\n[left out as they look like secrets: 1 file;"),
            "{text}"
        );
        let args = json!({"pattern": "needle", "path": "key.pem"});
        assert!(harness.predict_effect("grep", args.clone()).unwrap().secret);
        assert_eq!(found(&harness, args).await, "key.pem:1:needle\n");
    }

    #[tokio::test]
    async fn unsaved_text_is_searched_instead_of_the_disk() {
        let harness = ToolHarness::new();
        harness.write("a.txt", "on disk\n");
        harness.open("a.txt", "in the buffer\n");
        assert_eq!(
            found(&harness, json!({"pattern": "disk|buffer"})).await,
            "a.txt:1:in the buffer\n"
        );
    }

    #[tokio::test]
    async fn limits_are_stated() {
        let harness = ToolHarness::new();
        harness.write("many.txt", &"x\n".repeat(2_000));
        // The end is left out, and every result is found once on the way through.
        let (mut offset, mut lines) = (0, 0);
        loop {
            let text = found(&harness, json!({"pattern": "x", "offset": offset})).await;
            assert!(text.len() < 12_200, "{}", text.len());
            lines += text.lines().filter(|line| line.starts_with("many.txt:")).count();
            let Some((_, rest)) = text.split_once("continue with offset ") else {
                break;
            };
            offset = rest.split(',').next().unwrap().parse().unwrap();
            assert_eq!(lines, offset);
        }
        assert_eq!(lines, 2_000);
        let pattern = "x?".repeat(10_000);
        let error = harness
            .call_expecting_error("grep", json!({"pattern": pattern}))
            .await;
        assert!(error.contains("has 20000 bytes"), "{error}");
        harness.write("long.txt", &format!("y{}\n", "z".repeat(1_000)));
        assert!(
            found(&harness, json!({"pattern": "y"}))
                .await
                .ends_with("zz [… cut …]\n")
        );
        // Of a long line, the text round the match is shown.
        let numbers: String = (0..9_000).map(|n| format!("n{n}é ")).collect();
        harness.write("one-line.json", &numbers);
        for pattern in ["n4000", ".*n4000.*"] {
            let text = found(&harness, json!({"pattern": pattern, "path": "one-line.json"})).await;
            for part in [
                "one-line.json:1:[… ",
                " bytes …] ",
                "n3990é ",
                "n4000é ",
                "n4030é ",
                " [… cut …]\n",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(text.len() < 800, "{text}");
        }
        let text = found(&harness, json!({"pattern": "n8999", "path": "one-line.json"})).await;
        assert!(text.ends_with("n8999é \n"), "{text}");
        let input: GrepInput = serde_json::from_value(json!({"pattern": "x"})).unwrap();
        let run = |stop: &CancellationToken, time| {
            GrepSearch::new(&harness.cx, &input, WalkBound::new(stop, time))
                .and_then(|search| search.run(&input))
        };
        let stop = CancellationToken::new();
        assert_eq!(
            run(&stop, Duration::ZERO).unwrap(),
            "[stopped after 10 seconds; narrow the search]\n"
        );
        stop.cancel();
        assert!(matches!(run(&stop, MAX_TIME), Err(ToolError::Cancelled)));
    }
}
