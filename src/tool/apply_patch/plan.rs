//! What a patch does to each file: computes the new texts, and makes the changes one by one.
//!
//! Each step computes its change again when it is made, under the file's lock, so that nothing is written over a text
//! that nobody has seen.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::parse::{FileAction, FilePatch};
use crate::base::nofollow;
use crate::tool::change::{self, PlanPurpose};
use crate::tool::content_change::{ContentChange, load_editable_file};
use crate::tool::edit_file::build_change;
use crate::tool::files;
use crate::tool::output::{fail_with_message, refuse_input};
use crate::tool::removal::{self, FileRemoval};
use crate::tool::{ToolContext, ToolError, ToolOutput};
use crate::workspace::ResolvedPath;
use crate::workspace::diff::{Diff, DiffSides, build_file_header, build_unified_diff};
use crate::workspace::edit::Hunk;
use crate::workspace::notebook::apply_hunks;
use crate::workspace::text_file::{TextFile, unix_lines};

impl FilePatch {
    /// Returns the paths that the patch names for the file: the old one, and the new one if it moves.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let to = match &self.action {
            FileAction::Update { to: Some(to), .. } => Some(to.as_str()),
            FileAction::Update { to: None, .. } | FileAction::Add(_) | FileAction::Delete => None,
        };
        std::iter::once(self.path.as_str()).chain(to)
    }
}

/// A path as the patch names it, and where it leads.
#[derive(Clone)]
pub(super) struct NamedFile {
    given: String,
    target: ResolvedPath,
}

/// The change of one file.
#[derive(Clone)]
pub(super) enum FileStep {
    Add(NamedFile, String),
    Update(NamedFile, Vec<Hunk>),
    Move {
        from: NamedFile,
        to: NamedFile,
        hunks: Vec<Hunk>,
    },
    Delete(NamedFile),
}

/// Resolves the paths of a patch, and joins the updates of the same file. Blocks.
///
/// # Errors
/// A path cannot be resolved, or a file is named for two things that depend on each other.
pub(super) fn plan_steps(cx: &ToolContext, patches: Vec<FilePatch>) -> Result<Vec<FileStep>, ToolError> {
    let mut steps: Vec<FileStep> = Vec::new();
    let mut by_file: HashMap<PathBuf, usize> = HashMap::new();
    for FilePatch { path, action } in patches {
        let file = name_file(cx, path)?;
        let step = match action {
            FileAction::Add(text) => FileStep::Add(file, text),
            FileAction::Delete => FileStep::Delete(file),
            FileAction::Update { to: None, hunks } => FileStep::Update(file, hunks),
            FileAction::Update { to: Some(to), hunks } => {
                let to = name_file(cx, to)?;
                if to.target.absolute == file.target.absolute {
                    FileStep::Update(file, hunks)
                } else {
                    FileStep::Move {
                        from: file,
                        to,
                        hunks,
                    }
                }
            }
        };
        let known = step
            .targets()
            .filter_map(|target| by_file.get(&target.absolute))
            .min();
        match (known.map(|at| &mut steps[*at]), step) {
            (None, step) => {
                let files = step.targets().map(|target| target.absolute.clone());
                by_file.extend(files.map(|file| (file, steps.len())));
                steps.push(step);
            }
            // Both are about the file as it is now.
            (Some(FileStep::Update(_, known)), FileStep::Update(_, hunks)) => known.extend(hunks),
            (Some(known), _) => {
                let name = known.name();
                return refuse_input(format!("the patch names `{name}` twice; use one patch for each"));
            }
        }
    }
    Ok(steps)
}

fn name_file(cx: &ToolContext, given: String) -> Result<NamedFile, ToolError> {
    let target = cx.resolve_path(&given)?;
    Ok(NamedFile { given, target })
}

impl FileStep {
    /// Returns the files that it touches.
    pub(super) fn targets(&self) -> impl Iterator<Item = &ResolvedPath> {
        let (one, other) = match self {
            Self::Add(file, _) | Self::Update(file, _) | Self::Delete(file) => (file, None),
            Self::Move { from, to, .. } => (from, Some(to)),
        };
        std::iter::once(one).chain(other).map(|file| &file.target)
    }

    /// Returns the name of the file for the model.
    pub(super) fn name(&self) -> String {
        self.targets()
            .next()
            .map_or_else(String::new, |target| target.display.clone())
    }

    /// Computes the change of the file as it is now, and returns its diff. Blocks.
    ///
    /// # Errors
    /// The change cannot be made.
    pub(super) fn compute_diff(&self, cx: &ToolContext, aim: PlanPurpose) -> Result<String, ToolError> {
        match self {
            Self::Add(file, text) => {
                let change = plan_addition(cx, &file.target, text)?;
                Ok(change.compute_diff(&file.target).text)
            }
            Self::Update(file, hunks) => {
                let change = plan_update(cx, &file.target, aim, hunks)?;
                Ok(change.compute_diff(&file.target).text)
            }
            Self::Move { from, to, hunks } => {
                let change = plan_move(cx, from, to, aim, hunks)?;
                Ok(change.compute_diff(&from.target, &to.target).text)
            }
            Self::Delete(file) => {
                let removal = FileRemoval::plan(cx, &file.given, &file.target, aim)?;
                Ok(removal.compute_diff(&file.target).text)
            }
        }
    }

    /// Makes the change.
    ///
    /// # Errors
    /// The file could not be changed; it is as it was.
    pub(super) async fn make(self, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        match self {
            Self::Add(file, text) => {
                let plan = move |cx: &ToolContext, target: &ResolvedPath, _| plan_addition(cx, target, &text);
                change::apply_plan(cx, file.given, plan).await
            }
            Self::Update(file, hunks) => {
                let plan =
                    move |cx: &ToolContext, target: &ResolvedPath, aim| plan_update(cx, target, aim, &hunks);
                change::apply_plan(cx, file.given, plan).await
            }
            Self::Move { from, to, hunks } => make_move(cx, from, to, hunks).await,
            Self::Delete(file) => removal::remove_file(cx, file.given, None).await,
        }
    }
}

/// Plans a new file. One that exists with the same text has nothing to do.
fn plan_addition(cx: &ToolContext, target: &ResolvedPath, text: &str) -> Result<ContentChange, ToolError> {
    let before = load_editable_file(cx, target)?;
    let after = match &before {
        Some(there) if unix_lines(&there.text) == text => there.clone(),
        Some(_) => {
            return refuse_input(format!(
                "`{}` exists already; change it with `*** Update File`",
                target.display
            ));
        }
        None => TextFile {
            text: text.to_owned(),
            ..TextFile::default()
        },
    };
    Ok(ContentChange {
        before,
        after,
        done: format!("created {}", target.display),
        notes: Vec::new(),
        is_known: true,
        new_mode: 0,
    })
}

fn plan_update(
    cx: &ToolContext,
    target: &ResolvedPath,
    aim: PlanPurpose,
    hunks: &[Hunk],
) -> Result<ContentChange, ToolError> {
    let Some(before) = load_editable_file(cx, target)? else {
        return refuse_input(format!(
            "`{}` does not exist{}; to create it use `*** Add File`",
            target.display,
            files::suggest_similar_paths(cx, &target.absolute)
        ));
    };
    let edited = apply_hunks(&target.absolute, &before.text, hunks);
    build_change(cx, target, aim, before, edited)
}

/// The change of a file that moves.
struct MovePlan {
    /// The text in the old place.
    old: String,
    new: ContentChange,
}

impl MovePlan {
    /// Returns the diff of the content, under both names.
    fn compute_diff(&self, from: &ResolvedPath, to: &ResolvedPath) -> Diff {
        let new = &self.new.after.text;
        let diff = build_unified_diff(&from.display, DiffSides::Both, &self.old, new);
        let names = [(from, 0), (to, 1)].map(|(file, at)| {
            let header = build_file_header(&file.display, DiffSides::Both);
            header
                .split_inclusive('\n')
                .nth(at)
                .unwrap_or_default()
                .to_owned()
        });
        let lines = diff.text.split_inclusive('\n').skip(names.len());
        Diff {
            text: names.concat() + &lines.collect::<String>(),
            ..diff
        }
    }
}

fn plan_move(
    cx: &ToolContext,
    from: &NamedFile,
    to: &NamedFile,
    aim: PlanPurpose,
    hunks: &[Hunk],
) -> Result<MovePlan, ToolError> {
    let removal = FileRemoval::plan(cx, &from.given, &from.target, aim)?;
    if nofollow::kind(&to.target.absolute).is_some() || load_editable_file(cx, &to.target)?.is_some() {
        return refuse_input(format!("`{}` exists already", to.target.display));
    }
    // Without the bits that let a program act for its owner.
    let mode = removal.mode() & 0o777;
    let old = removal.file.text.clone();
    let moved = format!("moved {} to {}", from.target.display, to.target.display);
    let change = if hunks.is_empty() {
        ContentChange {
            before: None,
            after: removal.file,
            done: moved,
            notes: Vec::new(),
            is_known: false,
            new_mode: mode,
        }
    } else {
        let edited = apply_hunks(&from.target.absolute, &old, hunks);
        ContentChange {
            before: None,
            done: moved,
            new_mode: mode,
            ..build_change(cx, &from.target, aim, removal.file, edited)?
        }
    };
    Ok(MovePlan { old, new: change })
}

/// Writes the file in its new place, then deletes the old one if that has not changed meanwhile.
async fn make_move(
    cx: &ToolContext,
    from: NamedFile,
    to: NamedFile,
    hunks: Vec<Hunk>,
) -> Result<ToolOutput, ToolError> {
    let planned = Arc::new(Mutex::new(None));
    let (kept, source, goal) = (planned.clone(), from.clone(), to.clone());
    let plan = move |cx: &ToolContext, _: &ResolvedPath, aim| {
        let plan = plan_move(cx, &source, &goal, aim, &hunks)?;
        let diff = plan.compute_diff(&source.target, &goal.target);
        let text = plan.new.describe(&diff);
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((plan.old, text, diff.text));
        Ok(plan.new)
    };
    let mut output = change::apply_plan(cx, to.given, plan).await?;
    let planned = planned.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some((old, text, diff)) = planned else {
        return Ok(output);
    };
    let name = &from.target.display;
    if let Err(error) = removal::remove_file(cx, from.given, Some(old)).await {
        return fail_with_message(format!("{text}, but `{name}` is still there: {error}"));
    }
    output.text = text;
    output.diff = Some(diff.into());
    Ok(output)
}
