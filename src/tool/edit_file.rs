//! `edit_file`: replaces pieces of text in a file, several in one call, all or nothing.
//!
//! `workspace::edit` and `workspace::notebook` compute the new text, and [`super::change`] writes it. Must not touch
//! the disk itself.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

use super::change::{self, PlanPurpose};
use super::content_change::{self, ContentChange, load_editable_file};
use super::files;
use super::output::refuse_input;
use super::{CallPreview, Tool, ToolContext, ToolError, ToolOutput};
use crate::domain::Effect;
use crate::workspace::edit::{self, EditedText, Replacement};
use crate::workspace::text_file::TextFile;
use crate::workspace::{ResolvedPath, SeenVersion, notebook};

/// The most edits of one call: each searches the whole file.
const MAX_EDITS: usize = 1_000;

/// The `edit_file` tool.
pub struct EditFile;

/// The arguments of `edit_file`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditFileInput {
    /// The file: absolute, relative to the working directory, or `rootName/path` in another workspace
    /// folder.
    path: String,
    /// The replacements, made in order, each in the text that those before it left. If one cannot be made,
    /// none is.
    edits: Vec<Edit>,
}

/// One replacement.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The text to replace, exactly as it stands in the file, white space included, without line numbers.
    /// Must occur exactly once unless replace_all is set: add lines round it to make it unique.
    old_text: String,
    /// The text to put there; empty to delete.
    new_text: String,
    /// Replace every occurrence. Default: false.
    replace_all: Option<bool>,
}

impl Tool for EditFile {
    type Input = EditFileInput;

    const NAME: &'static str = "edit_file";

    const FINISHES_ON_CANCEL: bool = true;

    const DESCRIPTION: &'static str = "Replaces pieces of text in a file, several at once, all or nothing. \
        Read the file first, so that the old text matches. Write line ends as \\n: those of the file are \
        kept. To write a whole file use write_file.";

    fn call_title(&self, input: &EditFileInput) -> String {
        files::format_title("Edit", &input.path)
    }

    fn predict_effect(&self, input: &EditFileInput, cx: &ToolContext) -> Result<Effect, ToolError> {
        change::predict_effect(cx, &input.path)
    }

    async fn preview_change(
        &self,
        input: &EditFileInput,
        cx: &ToolContext,
    ) -> Result<CallPreview, ToolError> {
        let plan = input.clone();
        change::build_preview(cx, input.path.clone(), move |cx, target, aim| {
            plan.plan_change(cx, target, aim)
        })
        .await
    }

    /// Returns true: writes are short and atomic, so a cancel waits for them (R-CANCEL).
    async fn run(&self, input: EditFileInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        change::apply_plan(&cx, input.path.clone(), move |cx, target, aim| {
            input.plan_change(cx, target, aim)
        })
        .await
    }
}

impl EditFileInput {
    fn plan_change(
        self,
        cx: &ToolContext,
        target: &ResolvedPath,
        aim: PlanPurpose,
    ) -> Result<ContentChange, ToolError> {
        let Some(before) = load_editable_file(cx, target)? else {
            return refuse_input(format!(
                "`{}` does not exist{}; to create a file use write_file",
                target.display,
                files::suggest_similar_paths(cx, &target.absolute)
            ));
        };
        if self.edits.len() > MAX_EDITS {
            return refuse_input(format!(
                "at most {MAX_EDITS} edits are possible in one call, and these are {}; nothing was changed. Make several \
                 calls, or write the whole file with write_file",
                self.edits.len()
            ));
        }
        let edits: Vec<Replacement> = self.edits.into_iter().map(Replacement::from).collect();
        let edited = if notebook::is_notebook(&target.absolute) {
            notebook::apply(&before.text, &edits)
        } else {
            edit::apply(&before.text, &edits)
        };
        build_change(cx, target, aim, before, edited)
    }
}

/// Builds the change of a file from its edited text. If the file has changed since the model knew it, only an exact edit
/// is made, and a note says what has changed.
pub(super) fn build_change(
    cx: &ToolContext,
    target: &ResolvedPath,
    aim: PlanPurpose,
    before: TextFile,
    edited: Result<EditedText, impl fmt::Display>,
) -> Result<ContentChange, ToolError> {
    let mut is_known = true;
    let mut change_since = None;
    let read_log = cx.workspace.read_log();
    if read_log.compare_text(&target.absolute, &before.text) == SeenVersion::Changed {
        let is_exact = edited.as_ref().is_ok_and(|edited| edited.notes.is_empty());
        if !is_exact {
            // Otherwise the model would learn "not found" instead of the text that has changed.
            return Err(change::refuse_changed(cx, target, &before, aim));
        }
        let (note, is_complete) = describe_change(cx, target, &before.text);
        (change_since, is_known) = (Some(note), is_complete);
    }
    let edited = edited.map_err(|error| ToolError::Misfit(format!("`{}`: {error}", target.display)))?;
    let places = match edited.places {
        1 => String::new(),
        places => format!(" in {places} places"),
    };
    Ok(ContentChange {
        after: content_change::with_text(target, &before, edited.text)?,
        before: Some(before),
        done: format!("edited {}{places}", target.display),
        notes: edited.notes.into_iter().chain(change_since).collect(),
        is_known,
        new_mode: 0,
    })
}

/// Says how a file differs from the text that the model knows, and returns whether that is all.
fn describe_change(cx: &ToolContext, target: &ResolvedPath, now: &str) -> (String, bool) {
    match content_change::format_change_since(cx, target, now) {
        Some((difference, is_complete)) => {
            let note = format!(
                "the file had changed since you read it; the edit is made in the new text:\n{difference}"
            );
            (note, is_complete)
        }
        None => {
            let note = "the file had changed since you read it; read it again before you change more of it";
            (note.to_owned(), false)
        }
    }
}

impl From<Edit> for Replacement {
    fn from(edit: Edit) -> Self {
        Self {
            old: edit.old_text,
            new: edit.new_text,
            all: edit.replace_all.unwrap_or(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::ToolHarness;

    fn edit(path: &str, old: &str, new: &str) -> Value {
        json!({"path": path, "edits": [{"old_text": old, "new_text": new}]})
    }

    #[tokio::test]
    async fn an_edit_changes_the_file_and_shows_the_diff() {
        let harness = ToolHarness::new();
        harness.write("a.rs", "fn a() {}\r\nfn b() {}\r\n");
        let args = json!({"path": "a.rs", "edits": [
            {"old_text": "fn a() {}\nfn b", "new_text": "fn a() {}\n\nfn c", "replace_all": null},
            {"old_text": "{}", "new_text": "{ }", "replace_all": true},
        ]});
        let preview = harness.preview_change("edit_file", args.clone()).await.unwrap();
        assert_eq!(harness.read("a.rs"), "fn a() {}\r\nfn b() {}\r\n");
        let output = harness.call_tool("edit_file", args).await.unwrap();
        assert_eq!(harness.read("a.rs"), "fn a() { }\r\n\r\nfn c() { }\r\n");
        assert_eq!(output.text, "edited a.rs in 3 places (+3 −2 lines)");
        assert_eq!(output.diff, preview.diff);
        assert_eq!(output.locations[0].line, Some(1));
    }

    #[tokio::test]
    async fn a_refused_edit_changes_nothing() {
        let harness = ToolHarness::new();
        harness.write("a.txt", "one\ntwo\n");
        std::fs::write(harness.path("mixed"), b"\xc3\xa4\xc3\xa4\xe4\n").unwrap();
        std::fs::write(harness.path("latin1"), b"Gr\xf6\xdfe\n").unwrap();
        for (args, text) in [
            (edit("a.txt", "three", "x"), "`a.txt`: old_text was not found"),
            (
                edit("A.txt", "one", "x"),
                "does not exist. Did you mean `a.txt`?; to create",
            ),
            (edit("mixed", "x", "y"), "not UTF-8"),
            (edit("latin1", "Größe", "Länge"), "'ä' is neither"),
            (edit(".", "x", "y"), "is a folder"),
            (json!({"path": "a.txt", "edits": []}), "no edits were given"),
            (
                json!({"path": "a.txt", "edits": [
                    {"old_text": "one", "new_text": "1"}, {"old_text": "one", "new_text": "2"}]}),
                "edit 2 of 2 (none was made)",
            ),
            (
                json!({"path": "a.txt", "edits": vec![json!({"old_text": "one", "new_text": "one!"}); 1_001]}),
                "at most 1000 edits",
            ),
        ] {
            let error = harness.call_expecting_error("edit_file", args).await;
            assert!(error.contains(text), "{error}");
        }
        assert_eq!(harness.read("a.txt"), "one\ntwo\n");
    }

    #[tokio::test]
    async fn a_file_that_changed_since_it_was_read_takes_only_exact_edits() {
        let harness = ToolHarness::new();
        harness.write("a.txt", "one\n");
        // The file was never read: the match is sufficient.
        harness
            .call_tool("edit_file", edit("a.txt", "one", "two"))
            .await
            .unwrap();
        harness.write("a.txt", "two\n  by a user\n");
        let output = harness
            .call_tool("edit_file", edit("a.txt", "two", "three"))
            .await
            .unwrap();
        assert_eq!(
            output.text,
            "edited a.txt (+1 −1 lines)\nthe file had changed since you read it; the edit is made in the new text:\n\
             @@ -1 +1,2 @@\n two\n+  by a user"
        );
        assert_eq!(harness.read("a.txt"), "three\n  by a user\n");
        // The model knows the text now, so the whole file may be written.
        let whole = json!({"path": "a.txt", "content": "four\n"});
        harness.call_tool("write_file", whole.clone()).await.unwrap();

        harness.write("a.txt", "four\n  by a user\n");
        let refusal = harness
            .call_expecting_error("edit_file", edit("a.txt", "by a user ", "by me"))
            .await;
        assert!(
            refusal.contains("has changed since you read it") && refusal.contains("by a user"),
            "{refusal}"
        );
        // What does not fit is not known, so it is not overwritten.
        let long: String = (0..100).map(|number| format!("line {number}\n")).collect();
        harness.write("a.txt", &long);
        let output = harness
            .call_tool("edit_file", edit("a.txt", "line 17\n", ""))
            .await
            .unwrap();
        assert!(output.text.ends_with("\n[63 more lines]"), "{}", output.text);
        let refusal = harness.call_expecting_error("write_file", whole).await;
        assert!(refusal.contains("has changed since you read it"), "{refusal}");
    }

    #[tokio::test]
    async fn the_result_tells_of_edits_that_were_not_exact() {
        let harness = ToolHarness::new();
        harness.write("a.txt", "one thing\n  two things\n");
        let args = json!({"path": "a.txt", "edits": [
            {"old_text": "two things ", "new_text": "three things"},
            {"old_text": "one", "new_text": "one"},
        ]});
        let output = harness.call_tool("edit_file", args).await.unwrap();
        assert_eq!(harness.read("a.txt"), "one thing\n  three things\n");
        assert_eq!(
            output.text,
            "edited a.txt (+1 −1 lines)\nedit 1: old_text differs from the file in white space or typography; made \
             at line 2 in the file's own form\nedit 2: skipped: old_text and new_text are the same"
        );
        let skipped = harness
            .call_tool("edit_file", edit("a.txt", "one", "one"))
            .await
            .unwrap();
        assert_eq!(
            skipped.text,
            "a.txt already has this text\nskipped: old_text and new_text are the same"
        );
        let absent = harness
            .call_expecting_error("edit_file", edit("a.txt", "absent", "absent"))
            .await;
        assert!(absent.contains("old_text was not found"), "{absent}");
    }

    #[tokio::test]
    async fn parallel_edits_of_one_file_are_all_made() {
        let harness = ToolHarness::new();
        let text: String = (0..20).map(|n| format!("<{n}>\n")).collect();
        harness.write("a.txt", &text);
        let edits = (0..20)
            .map(|n| harness.call_tool("edit_file", edit("a.txt", &format!("<{n}>"), &format!("[{n}]"))));
        for output in futures::future::join_all(edits).await {
            output.unwrap();
        }
        assert_eq!(harness.read("a.txt"), text.replace('<', "[").replace('>', "]"));
    }

    #[tokio::test]
    async fn a_cancel_while_waiting_for_the_file_changes_nothing() {
        let harness = ToolHarness::new();
        harness.write("a.txt", "one\n");
        let path = harness.path("a.txt");
        let _held = harness.cx.workspace.lock(&path).await;
        let mut call = Box::pin(harness.call_tool("edit_file", edit("a.txt", "one", "two")));
        assert!(futures::poll!(&mut call).is_pending());
        harness.cx.cancel.cancel();
        assert_eq!(call.await.unwrap_err(), "canceled");
        assert_eq!(harness.read("a.txt"), "one\n");
    }
}
