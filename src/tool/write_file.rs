//! `write_file`: writes a whole file, new or replaced.
//!
//! Decides the new text, with the line ends and encoding of the old one; [`super::change`] writes it. Must not touch
//! the disk itself.

use schemars::JsonSchema;
use serde::Deserialize;

use super::change::{self, PlanPurpose};
use super::content_change::{self, ContentChange, load_editable_file};
use super::files;
use super::output::refuse_input;
use super::{CallPreview, Tool, ToolContext, ToolError, ToolOutput};
use crate::domain::Effect;
use crate::workspace::text_file::{MAX_TEXT, TextFile, unix_lines, with_line_ends_of};
use crate::workspace::{ResolvedPath, SeenVersion};

/// The `write_file` tool.
pub struct WriteFile;

/// The arguments of `write_file`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteFileInput {
    /// The file: absolute, relative to the working directory, or `rootName/path` in another workspace
    /// folder. Missing folders are created.
    path: String,
    /// The whole content of the file. Usually ends with a line feed.
    content: String,
}

impl Tool for WriteFile {
    type Input = WriteFileInput;

    const NAME: &'static str = "write_file";

    const FINISHES_ON_CANCEL: bool = true;

    const DESCRIPTION: &'static str = "Writes a whole file: a new one, or in place of one that you have \
        read before. Folders on the way are created. To change parts of a file, edit it instead. Line ends and \
        encoding of a file that is replaced are kept.";

    fn call_title(&self, input: &WriteFileInput) -> String {
        files::format_title("Write", &input.path)
    }

    fn predict_effect(&self, input: &WriteFileInput, cx: &ToolContext) -> Result<Effect, ToolError> {
        change::predict_effect(cx, &input.path)
    }

    async fn preview_change(
        &self,
        input: &WriteFileInput,
        cx: &ToolContext,
    ) -> Result<CallPreview, ToolError> {
        let plan = input.clone();
        change::build_preview(cx, input.path.clone(), move |cx, target, aim| {
            plan.plan_change(cx, target, aim)
        })
        .await
    }

    /// Returns true: writes are short and atomic, so a cancel waits for them (R-CANCEL).
    async fn run(&self, input: WriteFileInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        change::apply_plan(&cx, input.path.clone(), move |cx, target, aim| {
            input.plan_change(cx, target, aim)
        })
        .await
    }
}

impl WriteFileInput {
    fn plan_change(
        self,
        cx: &ToolContext,
        target: &ResolvedPath,
        aim: PlanPurpose,
    ) -> Result<ContentChange, ToolError> {
        if self.content.len() > MAX_TEXT {
            return refuse_input(format!("content is larger than {} MiB", MAX_TEXT >> 20));
        }
        let Some(before) = load_editable_file(cx, target)? else {
            return Ok(ContentChange {
                new_mode: 0,
                before: None,
                after: TextFile {
                    text: self.content,
                    ..TextFile::default()
                },
                done: format!("created {}", target.display),
                notes: Vec::new(),
                is_known: true,
            });
        };
        // A model writes `\n` whatever the file has, so other line ends alone are not a change.
        let same = unix_lines(&before.text) == unix_lines(&self.content);
        let seen_version = change::check_unchanged(cx, target, &before, aim)?;
        // Overwriting loses text, so the model must have seen it. An empty or equal file has nothing to lose.
        if seen_version == SeenVersion::Never && !before.text.is_empty() && !same {
            return refuse_input(format!(
                "`{}` exists and you have not read it; read it first with read_file",
                target.display
            ));
        }
        let text = if same {
            before.text.clone()
        } else {
            with_line_ends_of(&self.content, &before.text)
        };
        let after = content_change::with_text(target, &before, text)?;
        Ok(ContentChange {
            new_mode: 0,
            before: Some(before),
            after,
            done: format!("wrote {}", target.display),
            notes: Vec::new(),
            is_known: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::ToolHarness;

    #[tokio::test]
    async fn new_files_are_created_with_their_folders() {
        let harness = ToolHarness::new();
        let args = json!({"path": "new/dir/a.txt", "content": "one\ntwo\n"});
        let preview = harness.preview_change("write_file", args.clone()).await.unwrap();
        let output = harness.call_tool("write_file", args).await.unwrap();
        assert_eq!(harness.read("new/dir/a.txt"), "one\ntwo\n");
        assert_eq!(output.text, "created new/dir/a.txt (+2 −0 lines)");
        assert_eq!(output.diff, preview.diff);
        assert_eq!(
            output.diff.as_deref(),
            Some("--- /dev/null\n+++ b/new/dir/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n")
        );
        // The model knows what it wrote.
        harness
            .call_tool(
                "write_file",
                json!({"path": "new/dir/a.txt", "content": "three\n"}),
            )
            .await
            .unwrap();
        assert_eq!(harness.read("new/dir/a.txt"), "three\n");
    }

    #[tokio::test]
    async fn an_unread_file_is_not_overwritten() {
        let harness = ToolHarness::new();
        harness.write("a.txt", "precious\n");
        let args = json!({"path": "a.txt", "content": "new\n"});
        assert!(
            harness
                .call_expecting_error("write_file", args.clone())
                .await
                .contains("read it first")
        );
        harness
            .call_tool("read_file", json!({"path": "a.txt"}))
            .await
            .unwrap();
        harness.write("a.txt", "changed\n");
        let refusal = harness.call_expecting_error("write_file", args.clone()).await;
        assert!(
            refusal.contains("changed since you read it") && refusal.contains("1\tchanged\n"),
            "{refusal}"
        );
        assert_eq!(harness.read("a.txt"), "changed\n");
        // The refusal has shown the current text to the model.
        assert_eq!(
            harness.call_tool("write_file", args).await.unwrap().text,
            "wrote a.txt (+1 −1 lines)"
        );
    }

    #[tokio::test]
    async fn a_long_changed_file_must_be_read_again() {
        let harness = ToolHarness::new();
        harness.write("a.txt", "x\n");
        harness
            .call_tool("read_file", json!({"path": "a.txt"}))
            .await
            .unwrap();
        harness.write("a.txt", &"long line\n".repeat(5_000));
        let args = json!({"path": "a.txt", "content": "new\n"});
        for _ in 0..2 {
            let refusal = harness.call_expecting_error("write_file", args.clone()).await;
            assert!(refusal.contains("of 5000; read the rest") && refusal.len() < 20_000);
        }
    }

    /// An editor that does not know the encoding shows the file in its own way.
    #[tokio::test]
    async fn an_old_encoding_is_kept() {
        for shown in [None, Some("gr\u{fffd}\u{fffd}e = 1\n"), Some("größe = 1\n")] {
            let harness = ToolHarness::new();
            std::fs::write(harness.path("a.c"), b"gr\xf6\xdfe = 1\n").unwrap();
            if let Some(shown) = shown {
                harness.open("a.c", shown);
            }
            let read = harness.call_tool("read_file", json!({"path": "a.c"}));
            assert!(read.await.unwrap().text.ends_with("1\tgröße = 1\n"), "{shown:?}");
            let wrong = json!({"path": "a.c", "content": "größe = 2 // €\n"});
            let refusal = harness.call_expecting_error("write_file", wrong).await;
            assert!(refusal.contains("'€' is neither"), "{refusal}");
            let right = json!({"path": "a.c", "content": "größe = 2; // größer\n"});
            harness.call_tool("write_file", right).await.unwrap();
            let written = std::fs::read(harness.path("a.c")).unwrap();
            assert_eq!(written, b"gr\xf6\xdfe = 2; // gr\xf6\xdfer\n", "{shown:?}");
        }
    }

    #[tokio::test]
    async fn encoding_and_line_ends_are_kept() {
        let harness = ToolHarness::new();
        std::fs::write(harness.path("a.txt"), b"\xef\xbb\xbfa\r\nb\r\n").unwrap();
        harness
            .call_tool("read_file", json!({"path": "a.txt"}))
            .await
            .unwrap();
        harness
            .call_tool("write_file", json!({"path": "a.txt", "content": "\u{feff}x\ny"}))
            .await
            .unwrap();
        assert_eq!(
            std::fs::read(harness.path("a.txt")).unwrap(),
            b"\xef\xbb\xbfx\r\ny"
        );
        let second = harness
            .call_tool("write_file", json!({"path": "a.txt", "content": "x\ny"}))
            .await
            .unwrap();
        assert_eq!(
            (second.text.as_str(), second.diff),
            ("a.txt already has this text", None)
        );
    }

    #[tokio::test]
    async fn unsaved_text_is_not_overwritten() {
        let harness = ToolHarness::new();
        harness.write("a.txt", "disk\n");
        harness.open("a.txt", "buffer\n");
        harness
            .call_tool("read_file", json!({"path": "a.txt"}))
            .await
            .unwrap();
        let args = json!({"path": "a.txt", "content": "new\n"});
        for refusal in [
            harness.call_expecting_error("write_file", args.clone()).await,
            harness
                .preview_change("write_file", args.clone())
                .await
                .unwrap_err(),
        ] {
            assert!(
                refusal.contains("has unsaved changes in the editor") && refusal.contains("save"),
                "{refusal}"
            );
        }
        harness.open("a.txt", "disk\n");
        harness
            .call_tool("read_file", json!({"path": "a.txt"}))
            .await
            .unwrap();
        harness.call_tool("write_file", args).await.unwrap();
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_link_is_kept_and_its_target_changes() {
        let harness = ToolHarness::new();
        harness.write("target", "old\n");
        std::os::unix::fs::symlink("target", harness.path("link")).unwrap();
        harness
            .call_tool("read_file", json!({"path": "link"}))
            .await
            .unwrap();
        harness
            .call_tool("write_file", json!({"path": "link", "content": "new\n"}))
            .await
            .unwrap();
        assert_eq!(harness.read("target"), "new\n");
        assert!(harness.path("link").symlink_metadata().unwrap().is_symlink());
        // A link out of the workspace is a write outside.
        std::os::unix::fs::symlink("/nowhere/else", harness.path("out")).unwrap();
        let effect = harness
            .predict_effect("write_file", json!({"path": "out", "content": ""}))
            .unwrap();
        assert!(effect.outside && effect.paths == [std::path::Path::new("/nowhere/else")]);
    }
}
