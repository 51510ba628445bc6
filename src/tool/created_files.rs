//! Asks about files that make programs run and that a confined command created.
//!
//! They are put aside first and come back if the user keeps them, so a missing answer leaves nothing that runs.

use std::path::PathBuf;

use super::ToolContext;
use crate::base::text::reveal_hidden_characters;
use crate::domain::user_request::CHOICE_FIELD;
use crate::domain::{AgentQuestion, InquiryReply};
use crate::workspace::CreatedSteering;

/// The choice that gives the files their names back.
const KEEP: &str = "keep";
/// Most files that the question names.
const MAX_NAMED: usize = 10;

/// A created file that has another name now.
struct AsideFile {
    path: PathBuf,
    aside: PathBuf,
    /// Both names and who obeys it, for people and the model.
    text: String,
}

/// Puts aside what confined commands have created since they started, asks the user about it, and returns notes for the
/// model. After a cancel nobody is asked.
pub(super) async fn settle_created_files(cx: &ToolContext) -> Vec<String> {
    let mut notes = Vec::new();
    let mut files = Vec::new();
    for CreatedSteering { path, reader, aside } in cx.workspace.put_created_aside(&cx.cwd).await {
        // The command chose the names.
        let show = |path: &PathBuf| {
            reveal_hidden_characters(&cx.workspace.format_for_model(&cx.cwd, path)).into_owned()
        };
        match aside {
            Ok(aside) => files.push(AsideFile {
                text: format!("`{}` (obeyed by {}) is now `{}`", show(&path), reader, show(&aside)),
                path,
                aside,
            }),
            Err(error) => notes.push(format!(
                "[a command in the sandbox created `{}`, which {reader} obeys, and renaming it failed: {error}]",
                show(&path)
            )),
        }
    }
    if files.is_empty() {
        return notes;
    }
    let texts: Vec<&str> = files.iter().map(|file| &*file.text).collect();
    let texts = texts.join("\n");
    if !wants_to_keep(cx, &files).await {
        notes.push(format!(
            "[commands in the sandbox must not create files that make other programs run, so these were renamed:\n\
             {texts}\nIf the task needs one, create it with write_file, which asks the user]"
        ));
        return notes;
    }
    for file in files {
        if let Err(error) = cx.workspace.restore_kept(file.path, file.aside).await {
            notes.push(format!("[{}, and renaming it back failed: {error}]", file.text));
        }
    }
    notes
}

async fn wants_to_keep(cx: &ToolContext, files: &[AsideFile]) -> bool {
    let mut detail: Vec<String> = files
        .iter()
        .take(MAX_NAMED)
        .map(|file| file.text.clone())
        .collect();
    if files.len() > MAX_NAMED {
        detail.push(format!("and {} more", files.len() - MAX_NAMED));
    }
    let question = AgentQuestion::with_choices(
        "A command in the sandbox created files that make other programs run. Keep them?",
        Some(detail.join("\n")),
        &[(KEEP, "Keep"), ("aside", "Leave them renamed")],
    );
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
