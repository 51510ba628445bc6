//! Commands on past turns and whole sessions: show outputs and diffs, revert and redo changes, fork, export.
//!
//! The server owns checkpoints and stored events; this module names turns and prints results.

use std::path::Path;

use tokio::io::AsyncWriteExt as _;

use super::Chat;
use crate::base::text;
use crate::cli::blocks;
use crate::cli::client::ClientError;
use crate::cli::style::Color;
use crate::protocol::table::method;
use crate::protocol::{
    ChangeKind, ExportFormat, ExportSessionParams, ExportSessionResult, ForkSessionParams, ForkSessionResult,
    RevertParams, RevertResult,
};

/// How many files are listed.
const NAMED: usize = 20;

impl Chat {
    /// Reverts the changes of the last `turns` turns that changed files.
    pub(super) async fn revert_changes(&mut self, turns: usize) -> Result<(), ClientError> {
        let Some(turn_id) = self.view.changes().to_revert(turns) else {
            self.show_warning("Nothing left to undo in this session.");
            return Ok(());
        };
        self.revert_or_redo(turn_id, false).await
    }

    /// Restores what was reverted last.
    pub(super) async fn redo_changes(&mut self) -> Result<(), ClientError> {
        let Some(turn_id) = self.view.changes().to_redo() else {
            self.show_warning("nothing was reverted");
            return Ok(());
        };
        self.revert_or_redo(turn_id, true).await
    }

    async fn revert_or_redo(&mut self, turn_id: String, redo: bool) -> Result<(), ClientError> {
        let params = RevertParams {
            session_id: self.session.clone(),
            turn_id,
            dry_run: false,
            redo,
        };
        let done: RevertResult = self.request(method::REVERT, &params).await?;
        for file in done.files.iter().take(NAMED) {
            let marker = match file.kind {
                ChangeKind::Created => "+",
                ChangeKind::Modified => "~",
                ChangeKind::Deleted => "−",
            };
            let path = text::strip_control_characters(&file.path).into_owned();
            self.show_hint(format!("  {marker} {path}"));
        }
        let more = done.files.len().saturating_sub(NAMED);
        if more > 0 {
            self.show_hint(format!("  … and {more} more"));
        }
        for conflict in &done.conflicts {
            let path = text::strip_control_characters(&conflict.path).into_owned();
            self.show_warning(format!("! {path} was left unchanged: {}", conflict.why));
        }
        match (done.files.is_empty(), redo) {
            (true, _) if done.conflicts.is_empty() => self.show_hint("Nothing to revert."),
            (true, _) => {}
            (false, false) => self.show_success("reverted; /redo restores it. The agent will learn of it"),
            (false, true) => self.show_success("restored; the agent will learn of it"),
        }
        Ok(())
    }

    /// Shows the diff of one of the last turns that changed files.
    pub(super) fn show_diff(&mut self, turns: usize) {
        let Some(diff) = self.view.changes().find_recent_diff(turns).cloned() else {
            return self.show_warning("No such turn of this session changed files.");
        };
        let styler = self.view.screen.styler;
        for file in &diff.files {
            let lost = if file.unrestorable {
                "; cannot be reverted"
            } else {
                ""
            };
            let path = text::strip_control_characters(&file.path).into_owned();
            let head = format!("{path} (+{} −{}{lost})", file.added, file.removed);
            self.show_note(Color::Cyan, &head);
            let Some(text) = &file.diff else {
                self.show_hint("  changes not shown: not text, or too large");
                continue;
            };
            let width = self.view.screen.width();
            for line in blocks::diff_lines(styler, width, text, true) {
                self.view.screen.write_line(&line);
            }
        }
        if let Some(more) = diff.unlisted {
            self.show_hint(format!("… and {more} more files"));
        }
        if diff.partial {
            self.show_warning("! too many files to check all: commands may have changed others");
        }
    }

    /// Shows the full output of one of the last calls.
    pub(super) async fn show_output(&mut self, number: usize) -> Result<(), ClientError> {
        let Some(call) = self.view.calls.nth_last(number).cloned() else {
            self.show_warning("No such call with output in this chat.");
            return Ok(());
        };
        let text = match &call.reference {
            Some(reference) => self.client.read_full_content(&self.session, reference).await?,
            None => call.text,
        };
        self.show_note(Color::Cyan, &call.title);
        let output = text::strip_control_characters(text.trim_end()).replace('\t', "    ");
        for line in output.lines() {
            self.view.screen.write_line(line);
        }
        Ok(())
    }

    /// Continues in a new session with the history of this one.
    pub(super) async fn fork_session(&mut self) -> Result<(), ClientError> {
        let params = ForkSessionParams {
            session_id: self.session.clone(),
            turn_id: None,
        };
        let fork: ForkSessionResult = self.request(method::FORK_SESSION, &params).await?;
        let before = self.session.clone();
        self.switch_session(fork.session_id).await?;
        self.show_success(&format!(
            "this is a new session from here on; /load {before} returns to the other"
        ));
        Ok(())
    }

    /// Writes the session to a file that must not exist yet.
    pub(super) async fn export_session(&mut self, name: Option<String>) -> Result<(), ClientError> {
        let name = name.unwrap_or_else(|| format!("{}.md", self.session));
        let format = if Path::new(&name).extension().is_some_and(|end| end == "json") {
            ExportFormat::Json
        } else {
            ExportFormat::Markdown
        };
        let params = ExportSessionParams {
            session_id: self.session.clone(),
            format,
        };
        let export: ExportSessionResult = self.request(method::EXPORT_SESSION, &params).await?;
        let path = self.launch.folder.join(&name);
        let opened = tokio::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .await;
        let written = match opened {
            Ok(mut file) => match file.write_all(export.text.as_bytes()).await {
                Ok(()) => file.flush().await,
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        let failed = |error| ClientError::Failed(format!("cannot write {}: {error}", path.display()));
        written.map_err(failed)?;
        self.show_success(&format!("written to {}", path.display()));
        Ok(())
    }
}
