//! Builds a turn's system prompt from the instruction files as they are now, before its first step (R-LOOP-5).
//!
//! Within a turn the prompt is stable, so that the providers' prompt caches hit. Files that changed since the session's
//! last turn are announced. Reading the files is the [`SystemPromptSource`]'s.

use std::collections::BTreeMap;

use super::context::TurnContext;
use super::emit::emit_warning;
use super::session_link::TurnStopped;
use super::settings::SystemPromptSource;
use crate::base::spawn::run_blocking;
use crate::domain::{Event, InstructionFile};
use crate::tool::Tool as _;
use crate::tool::read_skill::ReadSkill;

/// The code of the warning that an instruction file has changed.
const CHANGED: &str = "instructions_changed";
/// The code of the warning that an instruction file was cut or skipped.
const PROBLEM: &str = "instructions_problem";
/// The number of changes, and of problems, that are announced one by one.
const MAX_REPORTED: usize = 10;

/// Loads the system prompt into `cx`, omits the tool for skills if there are none, and announces changed files.
///
/// # Errors
/// [`TurnStopped`] if the turn was canceled, or if the reader panicked.
pub async fn load_system_prompt(cx: &mut TurnContext) -> Result<(), TurnStopped> {
    let read = match &cx.settings.prompt_source {
        SystemPromptSource::Fixed(text) => {
            cx.prompt.text = text.clone();
            return Ok(());
        }
        SystemPromptSource::Files(read) => read.clone(),
    };
    let read = run_blocking(move || read());
    // A cancel abandons a reader that hangs, for example on a network folder.
    let briefing = tokio::select! { biased;
        () = cx.cancel.cancelled() => return Err(TurnStopped),
        read = read => read.map_err(|_| TurnStopped)?,
    };
    cx.prompt = briefing;
    if cx.prompt.skills.is_empty() {
        cx.tools = cx.tools.filter_fixed(|tool| tool != ReadSkill::NAME);
    }
    let (before, now) = (cx.resumption.announced_instructions.as_deref(), &cx.prompt.files);
    // Before the first turn nothing is known: an empty list then equals no files, and nothing is announced.
    if before.unwrap_or_default() == &now[..] {
        return Ok(());
    }
    let warnings = instruction_file_changes(before, now);
    let files = now.clone();
    cx.link.emit_event(Event::Instructions { files }).await?;
    for (code, message) in warnings {
        emit_warning(cx, code, message).await?;
    }
    Ok(())
}

/// Returns the warnings about changes and new problems, as code and message.
fn instruction_file_changes(
    before: Option<&[InstructionFile]>,
    now: &[InstructionFile],
) -> Vec<(&'static str, String)> {
    let by_path = |files: &[InstructionFile]| -> BTreeMap<String, InstructionFile> {
        files
            .iter()
            .map(|file| (file.path.clone(), file.clone()))
            .collect()
    };
    let (old, new) = (by_path(before.unwrap_or_default()), by_path(now));
    let mut notices = Vec::new();
    // In the session's first turn every file would be new, so nothing is announced.
    if before.is_some() {
        for (path, file) in &new {
            match old.get(path) {
                None => notices.push((CHANGED, format!("{path} is new; loaded it"))),
                Some(was) if was.fingerprint != file.fingerprint => {
                    notices.push((CHANGED, format!("{path} changed; reloaded it")));
                }
                Some(_) => {}
            }
        }
        let removed = old.keys().filter(|path| !new.contains_key(*path));
        notices.extend(removed.map(|path| (CHANGED, format!("{path} was removed"))));
    }
    let changes = notices.len();
    for (path, file) in &new {
        let known = old.get(path).and_then(|was| was.problem.as_ref());
        if let Some(problem) = file.problem.as_ref().filter(|problem| known != Some(*problem)) {
            notices.push((PROBLEM, format!("{path}: {problem}")));
        }
    }
    let problems = notices.split_off(changes);
    shorten_changes(notices, CHANGED)
        .into_iter()
        .chain(shorten_changes(problems, PROBLEM))
        .collect()
}

fn shorten_changes(
    mut notices: Vec<(&'static str, String)>,
    code: &'static str,
) -> Vec<(&'static str, String)> {
    if notices.len() > MAX_REPORTED {
        let more = notices.len() - MAX_REPORTED;
        notices.truncate(MAX_REPORTED);
        notices.push((code, format!("and {more} more files")));
    }
    notices
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::InstructionKind;

    fn file(path: &str, fingerprint: &str, problem: Option<&str>) -> InstructionFile {
        InstructionFile {
            path: path.to_owned(),
            kind: InstructionKind::Agents,
            name: None,
            bytes: 1,
            fingerprint: fingerprint.to_owned(),
            trusted: true,
            problem: problem.map(str::to_owned),
        }
    }

    #[test]
    fn changes_and_new_problems_are_announced_once() {
        let messages = |before: Option<&[InstructionFile]>, now: &[InstructionFile]| -> Vec<String> {
            let notices = instruction_file_changes(before, now);
            notices
                .into_iter()
                .map(|(code, message)| format!("{code}: {message}"))
                .collect()
        };
        let old = [
            file("a", "1", None),
            file("b", "1", Some("long")),
            file("c", "1", None),
        ];
        assert_eq!(messages(None, &old), ["instructions_problem: b: long"]);
        let now = [
            file("a", "2", None),
            file("b", "1", Some("long")),
            file("d", "1", Some("bad")),
        ];
        assert_eq!(
            messages(Some(&old), &now),
            [
                "instructions_changed: a changed; reloaded it",
                "instructions_changed: d is new; loaded it",
                "instructions_changed: c was removed",
                "instructions_problem: d: bad",
            ]
        );
        assert!(messages(Some(&now), &now).is_empty());
        let many: Vec<_> = (0..30).map(|n| file(&n.to_string(), "1", None)).collect();
        let notices = messages(Some(&[]), &many);
        assert_eq!(notices.len(), 11);
        assert!(notices[10].ends_with("20 more files"), "{notices:?}");
    }
}
