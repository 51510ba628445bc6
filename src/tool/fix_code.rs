//! `fix_code`: lists or applies the quick fixes that the editor offers, or formats a file as the editor does (R-LANG).
//!
//! The language servers say what to replace; [`super::proposed_edit`] makes the changes. Must not judge a fix.

use schemars::JsonSchema;
use serde::Deserialize;

use super::language::{self, QueryTarget};
use super::output::refuse_input;
use super::proposed_edit::{self, FileEdit, ProposedEdit};
use super::{
    CallPreview, EditorQuickFix, LanguageQuery, LanguageQueryKind, Tool, ToolContext, ToolError, ToolOutput,
    change, files,
};
use crate::base::position::Position;
use crate::base::text::{one_line, strip_control_characters};
use crate::domain::{Effect, EffectKind};

/// Most fixes of a line that are asked for.
const MAX_FIXES: u32 = 50;
/// The `fix` that formats the file.
const FORMAT: &str = "format";

/// The `fix_code` tool.
pub struct FixCode;

/// The arguments of `fix_code`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FixCodeInput {
    /// The file to fix.
    path: String,
    /// The line of the problem; not needed for `format`.
    line: Option<u32>,
    /// The exact title of a listed fix, or `format`. Without it, the fixes for the line are listed and nothing changes.
    fix: Option<String>,
    #[serde(skip)]
    edit: ProposedEdit,
}

impl Tool for FixCode {
    type Input = FixCodeInput;

    const NAME: &'static str = "fix_code";

    const FINISHES_ON_CANCEL: bool = true;

    const EFFECT_MAY_GROW: bool = true;

    const DESCRIPTION: &'static str = "Lists or applies the quick fixes that the editor's language servers offer for a \
        problem, such as a missing import or a misspelled name, or formats a file with the editor's formatter.";

    fn call_title(&self, input: &FixCodeInput) -> String {
        let fix = input.fix.as_deref().unwrap_or("what the editor offers");
        files::format_title("Fix", &format!("{}: {fix}", input.path))
    }

    fn predict_effect(&self, input: &FixCodeInput, cx: &ToolContext) -> Result<Effect, ToolError> {
        if input.line.is_none() && input.fix.as_deref() != Some(FORMAT) {
            return refuse_input("give the `line` of the problem");
        }
        let mut effect = change::predict_effect(cx, &input.path)?;
        if input.fix.is_none() {
            effect.kind = EffectKind::Read;
        }
        Ok(effect)
    }

    async fn complete_effect(
        &self,
        input: &FixCodeInput,
        effect: Effect,
        cx: &ToolContext,
    ) -> Result<Effect, ToolError> {
        let Some(fix) = &input.fix else { return Ok(effect) };
        let request = request_change(input, fix, cx);
        input.edit.complete_effect(cx, effect, request).await
    }

    async fn preview_change(&self, input: &FixCodeInput, cx: &ToolContext) -> Result<CallPreview, ToolError> {
        let Some(fix) = &input.fix else {
            return Ok(CallPreview::default());
        };
        input.edit.preview(cx, request_change(input, fix, cx)).await
    }

    async fn run(&self, input: FixCodeInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let Some(fix) = &input.fix else {
            let target = language::open_target(&cx, &input.path).await?;
            let fixes = request_fixes(&input, &target, &cx).await?;
            return Ok(ToolOutput::text(list_titles(&fixes)));
        };
        let edited = input.edit.find(&cx, request_change(&input, fix, &cx)).await?;
        if edited.is_empty() {
            return Ok(ToolOutput::text(format!(
                "`{fix}` changes nothing: the file is like that already, or the editor has no formatter for it"
            )));
        }
        let headline = format!("applied `{}`:", clean_title(fix));
        proposed_edit::apply_changes(&cx, edited, headline, true).await
    }
}

/// Asks the language servers for the fixes of the line.
async fn request_fixes(
    input: &FixCodeInput,
    target: &QueryTarget,
    cx: &ToolContext,
) -> Result<Vec<EditorQuickFix>, ToolError> {
    let line = input.line.unwrap_or_default().saturating_sub(1);
    let at = Some(Position { line, character: 0 });
    let query = LanguageQuery::new(LanguageQueryKind::QuickFixes, target.uri.clone(), at, MAX_FIXES);
    Ok(language::query(cx, query).await?.fixes)
}

/// Returns what the fix changes.
async fn request_change(
    input: &FixCodeInput,
    fix: &str,
    cx: &ToolContext,
) -> Result<Vec<FileEdit>, ToolError> {
    let target = language::open_target(cx, &input.path).await?;
    let edits = if fix == FORMAT {
        let query = LanguageQuery::new(LanguageQueryKind::Format, target.uri.clone(), None, 1);
        language::query(cx, query).await?.edits
    } else {
        let mut fixes = request_fixes(input, &target, cx).await?;
        let wanted = clean_title(fix);
        match fixes.iter().position(|fix| clean_title(&fix.title) == wanted) {
            Some(at) => fixes.swap_remove(at).edits,
            None => return refuse_input(format!("no fix is called `{wanted}`. {}", list_titles(&fixes))),
        }
    };
    proposed_edit::compute_changes(cx, target, edits, |_, _, _| true).await
}

fn clean_title(title: &str) -> String {
    one_line(&strip_control_characters(title), 200)
}

fn list_titles(fixes: &[EditorQuickFix]) -> String {
    if fixes.is_empty() {
        return "The editor offers no fix for this line.".to_owned();
    }
    let mut titles: Vec<String> = fixes.iter().map(|fix| clean_title(&fix.title)).collect();
    titles.dedup();
    format!("The editor offers:\n{}", titles.join("\n"))
}
