//! `rename_symbol`: renames a symbol in all files, by the editor's language servers (R-LANG).
//!
//! The language servers say what to replace; [`super::proposed_edit`] makes the changes. An answer that does more than
//! rename is refused.

use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::Deserialize;

use super::change;
use super::files;
use super::language;
use super::locate_symbol::locate_symbol;
use super::output::refuse_input;
use super::proposed_edit::{self, FileEdit, ProposedEdit};
use super::symbol_path::split_path;
use super::{CallPreview, LanguageQuery, LanguageQueryKind, Tool, ToolContext, ToolError, ToolOutput};
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::domain::Effect;

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
    edit: ProposedEdit,
}

impl Tool for RenameSymbol {
    type Input = RenameSymbolInput;

    const NAME: &'static str = "rename_symbol";

    const FINISHES_ON_CANCEL: bool = true;

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
            let given = one_line(&reveal_hidden_characters(&input.new_name), 80);
            let meant = if lacks_sign && is_identifier(&input.new_name) {
                format!(": `{sign}{given}`")
            } else {
                String::new()
            };
            return refuse_input(format!(
                "new_name: `{given}` is no name; give one of letters, digits, `_`, `$`, and `-`, with the signs of the \
                 language before or after it, such as `.`, `#`, or `?`{meant}"
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
        let request = request_change(input, cx);
        input.edit.complete_effect(cx, effect, request).await
    }

    async fn preview_change(
        &self,
        input: &RenameSymbolInput,
        cx: &ToolContext,
    ) -> Result<CallPreview, ToolError> {
        input.edit.preview(cx, request_change(input, cx)).await
    }

    /// Returns true: a cancel between two files would leave a half renamed symbol.
    async fn run(&self, input: RenameSymbolInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let edited = input.edit.find(&cx, request_change(&input, &cx)).await?;
        let (places, total) = (edited.iter().map(|file| file.places).sum(), edited.len());
        let (places, total) = (plural("place", places), plural("file", total));
        let headline = input
            .headline
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let headline = format!("{headline} to `{}` in {places} of {total}:", input.new_name);
        proposed_edit::apply_changes(&cx, edited, headline, false).await
    }
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

/// Asks the language servers what to replace. At least one file.
async fn request_change(input: &RenameSymbolInput, cx: &ToolContext) -> Result<Vec<FileEdit>, ToolError> {
    let target = language::open_target(cx, &input.path).await?;
    let (at, name) = locate_symbol(cx, &target, &input.symbol, input.line).await?;
    let headline = format!("{}:{}: renamed `{name}`", target.file.display, at.line + 1);
    *input.headline.lock().unwrap_or_else(PoisonError::into_inner) = headline;
    let limit = proposed_edit::MAX_FILES + 1;
    let mut query = LanguageQuery::new(LanguageQueryKind::Rename, target.uri.clone(), Some(at), limit);
    query.text = Some(input.new_name.clone());
    let mut found = language::query(cx, query).await?.edits;
    found.retain(|file| !file.edits.is_empty());
    let words = RenameWords::new(input);
    let allow_edit = move |text: &str, range, new_text: &str| words.allow_edit(text, range, new_text);
    let edited = proposed_edit::compute_changes(cx, target, found, allow_edit).await?;
    if edited.is_empty() {
        return refuse_input(format!(
            "the language servers cannot rename `{}` there; edit the files instead",
            input.symbol
        ));
    }
    Ok(edited)
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
