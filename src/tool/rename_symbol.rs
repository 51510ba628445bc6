//! `rename_symbol`: renames a symbol in all files, by the editor's language servers (R-LANG).
//!
//! The language servers say once what to replace; [`super::change`] makes the changes, file by file, as for edits. All
//! files are approved together, and what was approved is what is made: in all files, or in none.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::Deserialize;

use super::change;
use super::content_change::{ContentChange, load_editable_file};
use super::files::{self, build_location};
use super::language;
use super::locate_symbol::locate_symbol;
use super::new_errors;
use super::output::{fail_with_message, refuse_input};
use super::symbol_path::split_path;
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
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameSymbolInput {
    /// The symbol's name as it stands in the file, such as `total` or `Cart.total`.
    symbol: String,
    /// A file that declares or uses the symbol.
    path: String,
    /// The line in that file where the symbol is meant. Needed only if the file has several of this name.
    line: Option<u32>,
    /// The new name, without what contains the symbol, but with a sign that belongs to it: `.button`.
    new_name: String,
    /// The start of the result, which tells the symbol that was found.
    #[serde(skip)]
    headline: Mutex<String>,
    #[serde(skip)]
    known: Mutex<KnownRenames>,
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
        let sign = leading_signs(&input.symbol);
        let lacks_sign = [".", "#"].contains(&sign) && !input.new_name.starts_with(sign);
        if lacks_sign || !is_identifier(&input.new_name) {
            return refuse_input(format!(
                "new_name: `{}` is no name; give one of letters, digits, `_`, `$`, and `-`, with the signs of the \
                 language before or after it, such as `.`, `#`, or `?`",
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
            return refuse_input(
                "a file outside the workspace, or one that may hold secrets, is only edited",
            );
        }
        let renames = find_renames(input, cx).await?;
        let targets: Vec<ResolvedPath> = renames.iter().map(|rename| rename.target.clone()).collect();
        Ok(files::build_effect(EffectKind::Write, &targets))
    }

    async fn preview_change(
        &self,
        input: &RenameSymbolInput,
        cx: &ToolContext,
    ) -> Result<CallPreview, ToolError> {
        let renames = find_renames(input, cx).await?;
        let inner = cx.clone();
        let preview = files::run_blocking(cx, move |_| {
            let (mut diff, mut locations) = (String::new(), Vec::new());
            for rename in renames.iter() {
                let change = rename.compute_change(&inner)?;
                diff.push_str(&change.compute_diff(&rename.target).text);
                locations.push(build_location(&rename.target.absolute, None));
            }
            Ok(CallPreview {
                diff: Some(diff.into()),
                locations,
            })
        })
        .await?;
        input.lock_known().is_shown = true;
        Ok(preview)
    }

    /// Returns true: a cancel between two files would leave a half renamed symbol.
    fn finishes_on_cancel(&self) -> bool {
        true
    }

    async fn run(&self, input: RenameSymbolInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let renames = find_renames(&input, &cx).await?;
        let inner = cx.clone();
        let planned = files::run_blocking(&cx, move |_| {
            let mut planned = Vec::with_capacity(renames.len());
            for rename in renames.iter() {
                inner.resolve_path(&rename.target.absolute.display().to_string())?;
                planned.push((rename.clone(), rename.compute_change(&inner)?));
            }
            Ok(planned)
        })
        .await?;
        let targets = planned.iter().map(|(rename, _)| rename.target.clone()).collect();
        let baseline = new_errors::record_errors(&cx, targets).await;
        if cx.cancel.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let mut output = apply_renames(&input, &cx, planned).await?;
        if let Some(baseline) = baseline {
            baseline.add_new_errors(&cx, &mut output).await;
        }
        Ok(output)
    }
}

impl RenameSymbolInput {
    fn lock_known(&self) -> MutexGuard<'_, KnownRenames> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the language servers answered for a call.
#[derive(Debug, Default)]
struct KnownRenames {
    /// Empty until they are asked.
    renames: Arc<[FileRename]>,
    /// Whether the user has seen the change.
    is_shown: bool,
}

/// The replacements in one file.
#[derive(Clone, Debug)]
struct FileRename {
    target: ResolvedPath,
    edits: Vec<TextEdit>,
    words: RenameWords,
    /// The hash of the text that the positions refer to.
    text_hash: Option<u64>,
}

/// The words of the old and of the new name, without what is around them, such as `r#` or `$`.
#[derive(Clone, Debug)]
struct RenameWords {
    old: Vec<String>,
    new: Vec<String>,
    /// All letters of both names.
    letters: String,
}

impl RenameWords {
    fn new(input: &RenameSymbolInput) -> Self {
        let list = |name: &str| list_words(name).map(str::to_owned).collect();
        Self {
            old: list(split_path(&input.symbol).last().unwrap_or(&input.symbol)),
            new: list(&input.new_name),
            letters: format!("{}{}", input.symbol, input.new_name),
        }
    }

    /// Returns whether the old name is at `range`, and no other word, and whether `new_text` only renames it.
    ///
    /// Language servers also insert before a name, or delete what a shorthand leaves out: `{ total: sum }` becomes
    /// `{ sum }`.
    fn allow_edit(&self, text: &str, range: std::ops::Range<usize>, new_text: &str) -> bool {
        let (before, after) = (&text[..range.start], &text[range.end..]);
        let start = before.trim_end_matches(is_of_word).len();
        let end = text.len() - after.trim_start_matches(is_of_word).len();
        let has = |words: &[String], word: &str| words.iter().any(|known| known == word);
        let touched: Vec<&str> = list_words(&text[start..end]).collect();
        // Some servers send only the part of the name that differs.
        let made = format!("{}{new_text}{}", &text[start..range.start], &text[range.end..end]);
        let replaced = &text[range];
        let is_name = |name: &str, words: &[String]| {
            let name = name.trim_matches(' ');
            let name = name.strip_prefix("r#").unwrap_or(name);
            let quoted = name.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
            let is_sign = |letter| {
                "#$@'?!\"".contains(letter) && self.letters.contains(letter)
                    || ".#$@'?!\"".contains(letter) && replaced.contains(letter)
            };
            let name = quoted.unwrap_or(name).trim_matches(is_sign);
            list_words(name).next().is_some()
                && list_words(name).all(|word| has(words, word))
                && name.chars().all(|letter| is_of_word(letter) || letter == '-')
        };
        // In shorthands, import aliases, and arguments, the new name is joined to the old one.
        let is_pair = [":", " as ", "="].iter().any(|joint| {
            made.split_once(joint).is_some_and(|(left, right)| {
                is_name(left, &self.old) && is_name(right, &self.new)
                    || is_name(left, &self.new) && is_name(right, &self.old)
            })
        });
        (is_pair || is_name(&made, &self.new))
            && leading_signs(&made) == leading_signs(&text[start..end])
            && touched.iter().any(|word| has(&self.old, word))
            && touched
                .iter()
                .all(|word| has(&self.old, word) || has(&self.new, word))
    }
}

/// Returns whether `name` can be the name of a symbol: a word with the signs that languages put before or after one.
fn is_identifier(name: &str) -> bool {
    let name = name.strip_prefix("r#").unwrap_or(name);
    let name = name.trim_start_matches(['.', '#', '@', '\'']);
    let name = name.strip_suffix(['?', '!', '\'']).unwrap_or(name);
    !name.is_empty()
        && name
            .chars()
            .all(|letter| is_of_word(letter) || matches!(letter, '$' | '-'))
}

/// Returns the signs before a name that are a part of it, such as CSS's `.` and PHP's `$`.
fn leading_signs(name: &str) -> &str {
    &name[..name.len() - name.trim_start_matches(['.', '#', '$', '@', '\'']).len()]
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn list_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter| !is_of_word(letter))
        .filter(|word| !word.is_empty())
}

/// Returns what to replace. The language servers are asked once, and again if a file changes before the user has seen the
/// change. After that, the call is refused: only what was approved is made.
async fn find_renames(input: &RenameSymbolInput, cx: &ToolContext) -> Result<Arc<[FileRename]>, ToolError> {
    let (known, is_shown) = {
        let known = input.lock_known();
        (known.renames.clone(), known.is_shown)
    };
    let (inner, checked) = (cx.clone(), known.clone());
    let changed = files::run_blocking(cx, move |_| {
        let changed = (checked.iter()).find(|rename| hash_text(&inner, &rename.target) != rename.text_hash);
        Ok(changed.map(|rename| rename.target.display.clone()))
    });
    match changed.await? {
        None if !known.is_empty() => Ok(known),
        Some(file) if is_shown => refuse_input(format!(
            "`{file}` has changed since the user was asked; nothing was renamed. Call the tool again"
        )),
        _ => {
            let renames: Arc<[FileRename]> = request_renames(input, cx).await?.into();
            input.lock_known().renames = renames.clone();
            Ok(renames)
        }
    }
}

fn hash_text(cx: &ToolContext, target: &ResolvedPath) -> Option<u64> {
    let loaded = cx.workspace.load_file(&target.absolute).ok()?;
    let mut hasher = DefaultHasher::new();
    loaded.file.text.hash(&mut hasher);
    Some(hasher.finish())
}

/// Asks the language servers what to replace; the file of the call comes first. At least one file.
async fn request_renames(input: &RenameSymbolInput, cx: &ToolContext) -> Result<Vec<FileRename>, ToolError> {
    let target = language::open_target(cx, &input.path).await?;
    let (at, name) = locate_symbol(cx, &target, &input.symbol, input.line).await?;
    let headline = format!("{}:{}: renamed `{name}`", target.file.display, at.line + 1);
    *input.headline.lock().unwrap_or_else(PoisonError::into_inner) = headline;
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
        return refuse_input(format!(
            "the language servers cannot rename `{}` there; edit the files instead",
            input.symbol
        ));
    }
    if found.len() > MAX_FILES {
        return refuse_input(format!(
            "more than {MAX_FILES} files use the symbol; edit them by a command"
        ));
    }
    let (inner, words) = (cx.clone(), RenameWords::new(input));
    let mut renames = files::run_blocking(cx, move |_| {
        let resolve = |DocumentEdits { uri, mut edits }| {
            edits.sort_by_key(|edit| edit.range.start);
            let target = inner.workspace.resolve_path(&inner.cwd, &uri)?;
            if !target.inside {
                return refuse_input(format!(
                    "the symbol is also used in `{}`, which is outside the workspace; edit the files instead",
                    target.display
                ));
            }
            Ok(FileRename {
                text_hash: hash_text(&inner, &target),
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
        return refuse_input("the language servers named a file twice; edit the files instead");
    }
    Ok(renames)
}

impl FileRename {
    /// Computes the change of the file as it is now.
    fn compute_change(&self, cx: &ToolContext) -> Result<ContentChange, ToolError> {
        let Some(before) = load_editable_file(cx, &self.target)? else {
            return refuse_input(format!("`{}` does not exist any more", self.target.display));
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
            if !self.words.allow_edit(&text, start..end, &edit.text) {
                return refuse_input(format!(
                    "the language servers also change other text than the symbol's name, in line {} of `{}`; edit the \
                     files instead",
                    edit.range.start.line + 1,
                    self.target.display
                ));
            }
            text.replace_range(start..end, &edit.text);
        }
        Ok(self.build_change(cx, before, text))
    }

    async fn apply_change(&self, cx: &ToolContext, change: ContentChange) -> Result<ToolOutput, ToolError> {
        let path = self.target.absolute.display().to_string();
        change::apply_plan(cx, path, move |_, _, _| Ok(change)).await
    }

    fn build_change(&self, cx: &ToolContext, before: TextFile, text: String) -> ContentChange {
        let seen = cx.workspace.read_log().find_text(&self.target.absolute);
        ContentChange {
            new_mode: 0,
            is_known: seen.is_some_and(|seen| unix_lines(&seen) == unix_lines(&before.text)),
            after: TextFile {
                text,
                encoding: before.encoding,
            },
            before: Some(before),
            done: format!("renamed in {}", self.target.display),
            notes: Vec::new(),
        }
    }
}

/// Makes the changes. If one fails, those before it are undone.
async fn apply_renames(
    input: &RenameSymbolInput,
    cx: &ToolContext,
    planned: Vec<(FileRename, ContentChange)>,
) -> Result<ToolOutput, ToolError> {
    let (total, places): (usize, usize) = (
        planned.len(),
        planned.iter().map(|(rename, _)| rename.edits.len()).sum(),
    );
    let quiet = ToolContext {
        reports_new_errors: false,
        // Only a second cancel stops between two files.
        cancel: cx.force_cancel.clone(),
        ..cx.clone()
    };
    let mut output = ToolOutput::default();
    let (mut diff, mut done, mut made) = (String::new(), String::new(), Vec::new());
    for (rename, change) in planned {
        let (before, after) = (change.before.clone().unwrap_or_default(), change.after.clone());
        match rename.apply_change(&quiet, change).await {
            Ok(one) => {
                diff.push_str(one.diff.as_deref().unwrap_or_default());
                output.locations.extend(one.locations);
                done.push('\n');
                done.push_str(one.text.strip_prefix("renamed in ").unwrap_or(&one.text));
                made.push((rename, before, after));
            }
            Err(error) if made.is_empty() => return Err(error),
            Err(error) => {
                let kept = undo_changes(&quiet, made).await;
                return fail_with_message(format!("no file was renamed{kept}: {error}"));
            }
        }
    }
    let (places_word, files_word) = (plural("place", places), plural("file", total));
    output.text = format!(
        "{} to `{}` in {places_word} of {files_word}:",
        input.headline.lock().unwrap_or_else(PoisonError::into_inner),
        input.new_name
    );
    output.text.push_str(&done);
    output.diff = Some(diff.into());
    Ok(output)
}

/// Gives files their old texts again. Returns a part of a sentence that names those that have changed since.
async fn undo_changes(cx: &ToolContext, made: Vec<(FileRename, TextFile, TextFile)>) -> String {
    let mut kept = Vec::new();
    for (rename, before, after) in made.into_iter().rev() {
        let undo = rename.build_change(cx, after, before.text);
        if rename.apply_change(cx, undo).await.is_err() {
            kept.push(rename.target.display);
        }
    }
    if kept.is_empty() {
        return String::new();
    }
    format!(", except in {}, which could not be changed back", kept.join(", "))
}

fn plural(word: &str, count: usize) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_languages_are_taken_and_code_is_not() {
        for name in [
            "sum", "größe", "合計", "_x9", "$el", "a-b", "#id", "@@all", "'a", "empty?", "save!", "r#type",
            ".button",
        ] {
            assert!(is_identifier(name), "{name}");
        }
        for name in [
            "", "#", "a b", "a\nb", "a;b", "a()", "a{", "a.b", "sum=1", "a,b", "<a>", "a?b",
        ] {
            assert!(!is_identifier(name), "{name}");
        }
    }

    #[test]
    fn an_edit_leaves_the_new_name_alone_or_joined_to_the_old_one() {
        let input =
            serde_json::from_value(serde_json::json!({"symbol": "total", "path": "a", "new_name": "sum"}));
        let words = RenameWords::new(&input.unwrap());
        let text = "send(total)";
        for made in [
            "sum",
            "total: sum",
            "total=sum",
            "sum as total",
            "r#sum",
            "`sum`",
            "sum:total",
        ] {
            assert!(words.allow_edit(text, 5..10, made), "{made}");
        }
        for made in [
            "sum=sum,total",
            "#sum",
            "sum=sum",
            "sum,total",
            "sum total",
            "sum?",
            "sum:",
            "total",
            "sum as total as sum",
            "",
        ] {
            assert!(!words.allow_edit(text, 5..10, made), "{made}");
        }
        assert!(words.allow_edit("$total", 0..6, "$sum"));
        for (text, made) in [
            ("$total", "sum"),
            (".total", "sum"),
            ("#total", "sum"),
            ("$total", "$$sum"),
        ] {
            assert!(!words.allow_edit(text, 0..6, made), "{made} for {text}");
        }
        assert!(words.allow_edit(".total { }", 0..6, ".sum"));
    }
}
