//! Asks about files that make programs run and that a confined process created or changed.
//!
//! They are put aside first and come back if the user keeps them, so a missing answer leaves nothing that runs. What
//! others may have made is put aside after the answer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::ToolContext;
use crate::base::text::reveal_hidden_characters;
use crate::domain::user_request::CHOICE_FIELD;
use crate::domain::{AgentQuestion, InquiryReply};
use crate::workspace::{SteeringChange, SteeringOutcome};

/// The choice that lets the files have their names.
const KEEP: &str = "keep";
/// Most files that the question names.
const MAX_NAMED: usize = 10;

/// Puts aside what confined processes have made since they started, asks the user about it, and returns notes for the
/// model. After a cancel nobody is asked.
///
/// `earlier` is as in [`crate::workspace::Workspace::settle_steering`].
pub(super) async fn settle_created_files(
    cx: &ToolContext,
    earlier: Option<BTreeSet<PathBuf>>,
) -> Vec<String> {
    let mut notes = Vec::new();
    let mut changes = Vec::new();
    let mut put_back = BTreeSet::new();
    for change in cx.workspace.settle_steering(&cx.cwd, earlier, true).await {
        match &change.outcome {
            SteeringOutcome::Aside(_) | SteeringOutcome::Undecided => changes.push(change),
            SteeringOutcome::PutBack => {
                if !put_back
                    .iter()
                    .any(|outer: &PathBuf| change.path.starts_with(outer))
                {
                    notes.push(describe(cx, &change));
                }
                put_back.insert(change.path);
            }
            SteeringOutcome::Failed(_) => notes.push(describe(cx, &change)),
        }
    }
    if changes.is_empty() {
        return notes;
    }
    if wants_to_keep(cx, &changes).await {
        for change in changes {
            let text = describe(cx, &change);
            if let Err(error) = cx.workspace.keep_steering(&cx.cwd, change).await {
                notes.push(format!("[{text}, and renaming it back failed: {error}]"));
            }
        }
        return notes;
    }
    let mut texts = Vec::new();
    for change in changes {
        let change = match change.outcome {
            SteeringOutcome::Undecided => cx.workspace.put_steering_aside(change).await,
            _ => Some(change),
        };
        texts.extend(change.map(|change| describe(cx, &change)));
    }
    notes.push(format!(
        "[commands in the sandbox must not make files that make other programs run, so these were renamed:\n{}\n\
         If the task needs one, create it with write_file, which asks the user]",
        texts.join("\n")
    ));
    notes
}

/// Says what happened to a file and who obeys it, for people and the model.
fn describe(cx: &ToolContext, change: &SteeringChange) -> String {
    // The command chose the names.
    let show =
        |path: &Path| reveal_hidden_characters(&cx.workspace.format_for_model(&cx.cwd, path)).into_owned();
    let (path, reader) = (show(&change.path), change.reader);
    match &change.outcome {
        SteeringOutcome::Aside(aside) => format!("`{path}` (obeyed by {reader}) is now `{}`", show(aside)),
        SteeringOutcome::Undecided => {
            format!("`{path}` (obeyed by {reader}) appeared while a process ran in the sandbox")
        }
        SteeringOutcome::PutBack => {
            format!("[a command in the sandbox removed `{path}`, which {reader} obeys; it is back]")
        }
        SteeringOutcome::Failed(error) => format!(
            "[a command in the sandbox changed `{path}`, which {reader} obeys, and putting it aside or back failed: \
             {error}]"
        ),
    }
}

async fn wants_to_keep(cx: &ToolContext, changes: &[SteeringChange]) -> bool {
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
        AgentQuestion::with_choices(text, Some(detail.join("\n")), &[(KEEP, "Keep"), ("aside", leave)]);
    let reply = tokio::select! { biased;
        () = cx.cancel.cancelled() => None,
        reply = cx.asker.request_reply(question) => reply,
    };
    match reply {
        Some(InquiryReply::Answers(answers)) => {
            let answer = answers.get(CHOICE_FIELD);
            answer.is_some_and(|values| values.iter().any(|value| value == KEEP))
        }
        Some(_) | None => false,
    }
}
