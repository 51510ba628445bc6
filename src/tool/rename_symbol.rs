//! `rename_symbol`: renames a symbol in all files, by the editor's language servers (R-LANG).
//!
//! The language servers say what to replace; [`super::change`] makes the changes, file by file, as for edits. All files
//! are approved together, and all new texts are computed before the first is written.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::change;
use super::content_change::{ContentChange, load_editable_file};
use super::files::{self, build_location};
use super::language;
use super::new_errors;
use super::output::fail_with_message;
use super::{
    CallPreview, DocumentEdits, LanguageQuery, LanguageQueryKind, Tool, ToolContext, ToolError, ToolOutput,
};
use crate::base::position;
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::domain::{Effect, EffectKind};
use crate::workspace::ResolvedPath;
use crate::workspace::text_edits::TextEdit;
use crate::workspace::text_file::{TextFile, unix_lines};

/// Most files that one call changes.
const MAX_FILES: usize = 500;

/// The `rename_symbol` tool.
pub struct RenameSymbol;

/// The arguments of `rename_symbol`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameSymbolInput {
    /// The symbol's name as it stands in the file, such as `total` or `Cart.total`.
    symbol: String,
    /// A file that declares or uses the symbol.
    path: String,
    /// The line in that file where the symbol is meant. Needed only if the file has several of this name.
    line: Option<u32>,
    /// The new name, without what contains the symbol.
    new_name: String,
}

impl Tool for RenameSymbol {
    type Input = RenameSymbolInput;

    const NAME: &'static str = "rename_symbol";

    const EFFECT_MAY_GROW: bool = true;

    const DESCRIPTION: &'static str = "Renames a function, type, variable, or other symbol in all files that use it, \
        through the editor's language servers. Prefer it to edits: it leaves out other symbols of the same name. It \
        does not change comments, strings, or files that the servers do not know.";

    fn call_title(&self, input: &RenameSymbolInput) -> String {
        files::format_title("Rename", &format!("{} to {}", input.symbol, input.new_name))
    }

    fn predict_effect(&self, input: &RenameSymbolInput, cx: &ToolContext) -> Result<Effect, ToolError> {
        let is_blank = |letter: char| letter.is_whitespace() || letter.is_control();
        if input.new_name.is_empty() || input.new_name.contains(is_blank) {
            return fail_with_message(format!(
                "new_name: `{}` is no name; give one without white space",
                one_line(&reveal_hidden_characters(&input.new_name), 80)
            ));
        }
        change::predict_effect(cx, &input.path)
    }

    async fn complete_effect(
        &self,
        input: &RenameSymbolInput,
        effect: Effect,
        cx: &ToolContext,
    ) -> Result<Effect, ToolError> {
        if effect.outside || effect.secret {
            // The symbol is looked up before anybody can be asked.
            return fail_with_message(
                "a file outside the workspace, or one that may hold secrets, is only edited",
            );
        }
        let renames = request_renames(input, cx).await?;
        let targets: Vec<ResolvedPath> = renames.into_iter().map(|rename| rename.target).collect();
        Ok(files::build_effect(EffectKind::Write, &targets))
    }

    async fn preview_change(
        &self,
        input: &RenameSymbolInput,
        cx: &ToolContext,
    ) -> Result<CallPreview, ToolError> {
        let renames = request_renames(input, cx).await?;
        let inner = cx.clone();
        files::run_blocking(cx, move |_| {
            let (mut diff, mut locations) = (String::new(), Vec::new());
            for rename in renames {
                let change = rename.compute_change(&inner)?;
                diff.push_str(&change.compute_diff(&rename.target).text);
                locations.push(build_location(&rename.target.absolute, None));
            }
            Ok(CallPreview {
                diff: Some(diff.into()),
                locations,
            })
        })
        .await
    }

    /// Returns true: a cancel between two files would leave a half renamed symbol.
    fn finishes_on_cancel(&self) -> bool {
        true
    }

    async fn run(&self, input: RenameSymbolInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let renames = request_renames(&input, &cx).await?;
        let (inner, computed) = (cx.clone(), renames.clone());
        files::run_blocking(&cx, move |_| {
            for rename in &computed {
                inner.check_judged(&rename.target.display, &rename.target.absolute)?;
                rename.compute_change(&inner)?;
            }
            Ok(())
        })
        .await?;
        let targets = renames.iter().map(|rename| rename.target.clone()).collect();
        let baseline = new_errors::record_errors(&cx, targets).await;
        let mut output = apply_renames(&input, &cx, renames).await?;
        if let Some(baseline) = baseline {
            baseline.add_new_errors(&cx, &mut output).await;
        }
        Ok(output)
    }
}

/// The replacements in one file.
#[derive(Clone)]
struct FileRename {
    target: ResolvedPath,
    edits: Vec<TextEdit>,
    words: RenameWords,
}

/// The words of the old and of the new name, without what is around them, such as `r#` or `$`.
#[derive(Clone)]
struct RenameWords {
    old: Vec<String>,
    new: Vec<String>,
}

impl RenameWords {
    fn new(input: &RenameSymbolInput) -> Self {
        let list = |name| list_words(name).map(str::to_owned).collect();
        Self {
            old: list(language::split_name(&input.symbol).1),
            new: list(&input.new_name),
        }
    }

    /// Returns whether the old name is at `range`, and no other word.
    ///
    /// Language servers also insert before a name, or delete what a shorthand leaves out: `{ total: sum }` becomes
    /// `{ sum }`.
    fn allow_edit(&self, text: &str, range: std::ops::Range<usize>) -> bool {
        let (before, after) = (&text[..range.start], &text[range.end..]);
        let start = before.trim_end_matches(is_of_word).len();
        let end = text.len() - after.trim_start_matches(is_of_word).len();
        let has = |words: &[String], word: &str| words.iter().any(|known| known == word);
        let touched: Vec<&str> = list_words(&text[start..end]).collect();
        touched.iter().any(|word| has(&self.old, word))
            && touched
                .iter()
                .all(|word| has(&self.old, word) || has(&self.new, word))
    }
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn list_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter| !is_of_word(letter))
        .filter(|word| !word.is_empty())
}

/// Asks the language servers what to replace; the file of the call comes first. At least one file.
async fn request_renames(input: &RenameSymbolInput, cx: &ToolContext) -> Result<Vec<FileRename>, ToolError> {
    let target = language::open_target(cx, &input.path).await?;
    let at = language::locate_symbol(cx, &target, &input.symbol, input.line).await?;
    let query = LanguageQuery {
        kind: LanguageQueryKind::Rename,
        uri: Some(target.uri),
        position: Some(at),
        text: Some(input.new_name.clone()),
        limit: u32::try_from(MAX_FILES + 1).unwrap_or(u32::MAX),
    };
    let mut found = language::query(cx, query).await?.edits;
    found.retain(|file| !file.edits.is_empty());
    if found.is_empty() {
        return fail_with_message(format!(
            "the language servers cannot rename `{}` there; edit the files instead",
            input.symbol
        ));
    }
    if found.len() > MAX_FILES {
        return fail_with_message(format!(
            "more than {MAX_FILES} files use the symbol; edit them by a command"
        ));
    }
    let (inner, words) = (cx.clone(), RenameWords::new(input));
    let mut renames = files::run_blocking(cx, move |_| {
        let resolve = |DocumentEdits { uri, mut edits }| {
            edits.sort_by_key(|edit| edit.range.start);
            let target = inner.workspace.resolve_path(&inner.cwd, &uri)?;
            if !target.inside {
                return fail_with_message(format!(
                    "the symbol is also used in `{}`, which is outside the workspace; edit the files instead",
                    target.display
                ));
            }
            Ok(FileRename {
                target,
                edits,
                words: words.clone(),
            })
        };
        found
            .into_iter()
            .map(resolve)
            .collect::<Result<Vec<_>, ToolError>>()
    })
    .await?;
    let key = |rename: &FileRename| {
        (
            rename.target.absolute != target.file.absolute,
            rename.target.absolute.clone(),
        )
    };
    renames.sort_by_key(key);
    if renames
        .windows(2)
        .any(|pair| pair[0].target.absolute == pair[1].target.absolute)
    {
        return fail_with_message("the language servers named a file twice; edit the files instead");
    }
    Ok(renames)
}

impl FileRename {
    /// Computes the change of the file as it is now.
    fn compute_change(&self, cx: &ToolContext) -> Result<ContentChange, ToolError> {
        let Some(before) = load_editable_file(cx, &self.target)? else {
            return fail_with_message(format!("`{}` does not exist any more", self.target.display));
        };
        let overlaps = |pair: &[TextEdit]| pair[0].range.end > pair[1].range.start;
        if self.edits.windows(2).any(overlaps) {
            return fail_with_message(format!(
                "the language servers replace a part of `{}` twice; edit the files instead",
                self.target.display
            ));
        }
        let encoding = cx.workspace.overlay().position_encoding();
        let mut text = before.text.clone();
        // From the end, so that the positions before stay valid.
        for edit in self.edits.iter().rev() {
            let start = position::offset_of(&text, edit.range.start, encoding);
            let end = position::offset_of(&text, edit.range.end, encoding);
            if start > end || edit.range.start.line as usize >= files::count_lines(&text).max(1) {
                return fail_with_message(format!(
                    "`{}` is not as the language servers know it; try again",
                    self.target.display
                ));
            }
            if !self.words.allow_edit(&text, start..end) {
                return fail_with_message(format!(
                    "the language servers also change other text than the symbol's name, in line {} of `{}`; edit the \
                     files instead",
                    edit.range.start.line + 1,
                    self.target.display
                ));
            }
            text.replace_range(start..end, &edit.text);
        }
        let seen = cx.workspace.read_log().find_text(&self.target.absolute);
        Ok(ContentChange {
            new_mode: 0,
            is_known: seen.is_some_and(|seen| unix_lines(&seen) == unix_lines(&before.text)),
            after: TextFile {
                text,
                encoding: before.encoding,
            },
            before: Some(before),
            done: format!("renamed in {}", self.target.display),
            notes: Vec::new(),
        })
    }
}

/// Makes the changes. If one fails, the result names the files that have the new name already.
async fn apply_renames(
    input: &RenameSymbolInput,
    cx: &ToolContext,
    renames: Vec<FileRename>,
) -> Result<ToolOutput, ToolError> {
    let (total, places): (usize, usize) = (
        renames.len(),
        renames.iter().map(|rename| rename.edits.len()).sum(),
    );
    let quiet = ToolContext {
        reports_new_errors: false,
        ..cx.clone()
    };
    let mut output = ToolOutput::default();
    let (mut diff, mut done): (String, Vec<String>) = (String::new(), Vec::new());
    for rename in renames {
        let path: PathBuf = rename.target.absolute.clone();
        let name = rename.target.display.clone();
        let plan = move |cx: &ToolContext, _: &ResolvedPath, _| rename.compute_change(cx);
        match change::apply_plan(&quiet, path.display().to_string(), plan).await {
            Ok(one) => {
                diff.push_str(one.diff.as_deref().unwrap_or_default());
                output.locations.extend(one.locations);
                done.push(one.text.strip_prefix("renamed in ").map_or(name, str::to_owned));
            }
            Err(error) if done.is_empty() => return Err(error),
            Err(error) => {
                return fail_with_message(format!(
                    "{name} was not changed: {error}. Renamed in {} of {total} files so far: {}",
                    done.len(),
                    done.join(", ")
                ));
            }
        }
    }
    let (places_word, files_word) = (plural("place", places), plural("file", total));
    output.text = format!(
        "renamed `{}` to `{}` in {places_word} of {files_word}:",
        input.symbol, input.new_name
    );
    for file in done {
        output.text.push('\n');
        output.text.push_str(&file);
    }
    output.diff = Some(diff.into());
    Ok(output)
}

fn plural(word: &str, count: usize) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}
