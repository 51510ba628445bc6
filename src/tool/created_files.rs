//! Asks about files that make programs run and that a confined process created or changed.
//!
//! They are put aside first and come back if the user keeps them, so a missing answer leaves nothing that runs. What
//! others may have made keeps its name until there is an answer.

use std::path::Path;

use super::ToolContext;
use crate::base::text::reveal_hidden_characters;
use crate::domain::user_request::CHOICE_FIELD;
use crate::domain::{AgentQuestion, InquiryReply};
use crate::workspace::{EarlierChanges, SteeringChange, SteeringOutcome};

/// The choice that lets the files have their names.
const KEEP: &str = "keep";
/// The choice that gives them other names, or lets them have those.
const RENAME: &str = "aside";
/// Most files that the question names.
const MAX_NAMED: usize = 10;

/// What the model must know about files that make programs run.
#[derive(Default)]
pub(super) struct CreatedFiles {
    pub(super) notes: Vec<String>,
    changes: Vec<SteeringChange>,
}

impl CreatedFiles {
    /// Records that the notes surely reach the model. Otherwise, the next check returns them again.
    pub(super) fn mark_reported(mut self) {
        self.changes.iter_mut().for_each(SteeringChange::mark_reported);
    }
}

/// Puts aside what confined processes have made since they started, asks the user about it, and returns notes for the
/// model. After a cancel nobody is asked.
///
/// `earlier` is as in [`crate::workspace::Workspace::settle_steering`].
pub(super) async fn settle_created_files(cx: &ToolContext, earlier: EarlierChanges) -> CreatedFiles {
    let mut created = CreatedFiles::default();
    let notes = &mut created.notes;
    let mut changes = cx.workspace.settle_steering(&cx.cwd, earlier).await;
    changes.extend(cx.workspace.take_unreported_steering(&cx.cwd).await);
    let is_back = |change: &SteeringChange| matches!(change.outcome, SteeringOutcome::PutBack);
    let is_over =
        |change: &mut SteeringChange| is_back(change) || matches!(change.outcome, SteeringOutcome::Failed(_));
    for change in changes.extract_if(.., is_over) {
        let is_around = |outer: &SteeringChange| is_back(outer) && change.path.starts_with(&outer.path);
        if !is_back(&change) || !created.changes.iter().any(is_around) {
            notes.push(format!("[{}]", describe(cx, &change)));
        }
        created.changes.push(change);
    }
    if changes.is_empty() {
        return created;
    }
    let answer = ask_to_keep(cx, &changes).await;
    let (mut renamed, mut undecided) = (Vec::new(), Vec::new());
    for mut change in changes {
        let text = describe(cx, &change);
        match (&change.outcome, answer) {
            (_, Some(true)) => {
                let kept;
                (change, kept) = cx.workspace.keep_steering(&cx.cwd, change).await;
                match kept {
                    Ok(None) => {}
                    Ok(Some(replaced)) => {
                        let replaced = format_path(cx, &replaced);
                        notes.push(format!(
                            "[{text}, and is kept; what was put back in its place is now `{replaced}`]"
                        ));
                    }
                    Err(error) => notes.push(format!("[{text}, and renaming it back failed: {error}]")),
                }
            }
            (SteeringOutcome::Undecided, None) => undecided.push(text),
            (SteeringOutcome::Undecided, Some(false)) => {
                let Some(put) = cx.workspace.put_steering_aside(&cx.cwd, change).await else {
                    continue;
                };
                change = put;
                renamed.push(describe(cx, &change));
            }
            _ => renamed.push(text),
        }
        created.changes.push(change);
    }
    if !renamed.is_empty() {
        notes.push(format!(
            "[commands in the sandbox must not make files that make other programs run, so these were renamed:\n{}\n\
             If the task needs one, create it with write_file, which asks the user]",
            renamed.join("\n")
        ));
    }
    if !undecided.is_empty() {
        notes.push(format!(
            "[the user or a command in the sandbox made files that make other programs run; they keep their names \
             until the user has answered:\n{}]",
            undecided.join("\n")
        ));
    }
    created
}

fn describe(cx: &ToolContext, change: &SteeringChange) -> String {
    change.describe(|path| format_path(cx, path))
}

/// The command chose the names.
fn format_path(cx: &ToolContext, path: &Path) -> String {
    reveal_hidden_characters(&cx.workspace.format_for_model(&cx.cwd, path)).into_owned()
}

/// Asks whether to keep the files; `None` without an answer.
async fn ask_to_keep(cx: &ToolContext, changes: &[SteeringChange]) -> Option<bool> {
    let named = changes.iter().take(MAX_NAMED);
    let mut detail: Vec<String> = named.map(|change| describe(cx, change)).collect();
    if changes.len() > MAX_NAMED {
        detail.push(format!("and {} more", changes.len() - MAX_NAMED));
    }
    let is_undecided = |change: &SteeringChange| matches!(change.outcome, SteeringOutcome::Undecided);
    let (text, leave) = if changes.iter().any(is_undecided) {
        (
            "Files that make other programs run are new. You or a command in the sandbox made them. Keep them?",
            "Rename them",
        )
    } else {
        (
            "A command in the sandbox created files that make other programs run. Keep them?",
            "Leave them renamed",
        )
    };
    let question =
        AgentQuestion::with_choices(text, Some(detail.join("\n")), &[(KEEP, "Keep"), (RENAME, leave)]);
    let reply = tokio::select! { biased;
        () = cx.cancel.cancelled() => None,
        reply = cx.asker.request_reply(question) => reply,
    };
    let Some(InquiryReply::Answers(answers)) = reply else {
        return None;
    };
    match answers.get(CHOICE_FIELD)?.first()?.as_str() {
        KEEP => Some(true),
        RENAME => Some(false),
        _ => None,
    }
}
