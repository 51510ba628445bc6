//! `apply_patch`: changes any number of files by a patch, all or nothing as far as that can be checked before.
//!
//! `parse` reads the patch, and `plan` computes what becomes of each file. Each is then changed as by `edit_file` and
//! `write_file`, or deleted by [`super::removal`]. Must not touch the disk itself. Models that are trained on it get it
//! in the place of `edit_file`.

mod parse;
mod plan;

use std::collections::HashSet;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use super::change::PlanPurpose;
use super::files::{self, build_location};
use super::new_errors;
use super::output::fail_with_message;
use super::{CallPreview, Tool, ToolContext, ToolError, ToolOutput};
use crate::base::steering::find_steering;
use crate::domain::{Effect, EffectKind, FreeformInput};
use crate::workspace::ResolvedPath;
use parse::{FileAction, FilePatch, parse_patch};
use plan::FileStep;

/// The `apply_patch` tool.
pub struct ApplyPatch;

/// The arguments of `apply_patch`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyPatchInput {
    /// The whole patch.
    patch: String,
}

impl Tool for ApplyPatch {
    type Input = ApplyPatchInput;

    const NAME: &'static str = "apply_patch";

    const FINISHES_ON_CANCEL: bool = true;

    const DESCRIPTION: &'static str = "Changes files by a patch: updates, adds, deletes, and moves any number of them, or \
        none if a part of the patch does not fit. Between `*** Begin Patch` and `*** End Patch` stand `*** Update File: \
        PATH`, `*** Add File: PATH`, and `*** Delete File: PATH`; `*** Move to: PATH` may follow an update. Lines of an \
        update begin with a blank (kept), `-` (removed), or `+` (new). Copy some kept lines around each change, so that \
        it fits at one place only; if it does not, put a line `@@ ` with the enclosing function or class before it. \
        `*** End of File` says that the lines are the last ones. All lines of an added file begin with `+`.";

    const FREEFORM: Option<FreeformInput> = Some(FreeformInput {
        field: "patch",
        grammar: include_str!("grammar.lark"),
    });

    fn call_title(&self, input: &ApplyPatchInput) -> String {
        let files = parse_patch(&input.patch).unwrap_or_default();
        let mut paths = files.iter().flat_map(FilePatch::paths);
        let first = paths.next().unwrap_or("files");
        let object = match paths.count() {
            0 => first.to_owned(),
            1 => format!("{first} and 1 more file"),
            more => format!("{first} and {more} more files"),
        };
        files::format_title("Patch", &object)
    }

    fn predict_effect(&self, input: &ApplyPatchInput, cx: &ToolContext) -> Result<Effect, ToolError> {
        let patches = read_patch(input)?;
        let (mut targets, mut seen) = (Vec::<ResolvedPath>::new(), HashSet::new());
        for patch in &patches {
            for path in patch.paths() {
                let target = files::resolve_written_file(cx, path)?;
                if seen.insert(target.absolute.clone()) {
                    targets.push(target);
                }
            }
        }
        // What asks for care comes first, because that file is named to people.
        let is_plain = |target: &ResolvedPath| {
            target.inside && !target.secret && find_steering(Path::new(&target.display)).is_none()
        };
        targets.sort_by_key(is_plain);
        Ok(Effect {
            stands_for: list_equal_tools(&patches),
            ..files::build_effect(EffectKind::Write, &targets)
        })
    }

    async fn preview_change(
        &self,
        input: &ApplyPatchInput,
        cx: &ToolContext,
    ) -> Result<CallPreview, ToolError> {
        let patches = read_patch(input)?;
        let inner = cx.clone();
        files::run_blocking(cx, move |_| {
            let (mut diff, mut locations) = (String::new(), Vec::new());
            for step in plan::plan_steps(&inner, patches)? {
                diff.push_str(&step.compute_diff(&inner, PlanPurpose::Show)?);
                locations.extend(
                    step.targets()
                        .map(|target| build_location(&target.absolute, None)),
                );
            }
            Ok(CallPreview {
                diff: Some(diff.into()),
                locations,
            })
        })
        .await
    }

    /// Returns true: a cancel between two files would leave a half applied patch.
    async fn run(&self, input: ApplyPatchInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let patches = read_patch(&input)?;
        let inner = cx.clone();
        let steps = files::run_blocking(&cx, move |_| {
            let steps = plan::plan_steps(&inner, patches)?;
            for step in &steps {
                step.compute_diff(&inner, PlanPurpose::Make)?;
            }
            Ok(steps)
        })
        .await?;
        let targets = steps.iter().flat_map(FileStep::targets).cloned().collect();
        let baseline = new_errors::record_errors(&cx, targets).await;
        let mut output = make_steps(&cx, steps).await?;
        if let Some(baseline) = baseline {
            baseline.add_new_errors(&cx, &mut output).await;
        }
        Ok(output)
    }
}

fn read_patch(input: &ApplyPatchInput) -> Result<Vec<FilePatch>, ToolError> {
    parse_patch(&input.patch).map_err(ToolError::WrongInput)
}

/// Returns the tools that together do what the patch does, for rules. To delete or move a file takes as much as to
/// overwrite it.
fn list_equal_tools(patches: &[FilePatch]) -> Vec<&'static str> {
    let edits =
        |patch: &FilePatch| matches!(&patch.action, FileAction::Update { hunks, .. } if !hunks.is_empty());
    let writes = |patch: &FilePatch| !matches!(patch.action, FileAction::Update { to: None, .. });
    let edits = patches.iter().any(edits).then_some("edit_file");
    let writes = patches.iter().any(writes).then_some("write_file");
    edits.into_iter().chain(writes).collect()
}

/// Changes the files in the patch's order. If one fails, the result names those that have changed already.
async fn make_steps(cx: &ToolContext, steps: Vec<FileStep>) -> Result<ToolOutput, ToolError> {
    let quiet = ToolContext {
        new_errors_wait: None,
        ..cx.clone()
    };
    let total = steps.len();
    let mut output = ToolOutput::default();
    let (mut diff, mut done): (String, Vec<String>) = (String::new(), Vec::new());
    for step in steps {
        let name = step.name();
        match step.make(&quiet).await {
            Ok(one) => {
                diff.push_str(one.diff.as_deref().unwrap_or_default());
                output.locations.extend(one.locations);
                done.push(one.text);
            }
            Err(error) if done.is_empty() => return Err(error),
            Err(error) => {
                return fail_with_message(format!(
                    "{name} was not changed: {error}\nOf {total} files, the patch has changed only these:\n{}",
                    done.join("\n")
                ));
            }
        }
    }
    output.text = done.join("\n");
    output.diff = Some(diff.into());
    Ok(output)
}

#[cfg(test)]
mod tests;
