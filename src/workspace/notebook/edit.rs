//! Replacements in a notebook: in the source of one cell, or in the file's JSON.
//!
//! The sources come first, because they are what a model reads. What is in none of them may be JSON, such as a whole
//! cell; the result must still be a notebook. Whatever is not certain is refused.

use super::Notebook;
use crate::workspace::edit::{self, EditError, EditProblem, EditedText, Replacement};

/// Applies all replacements in order, each to the result of those before it; or none of them.
///
/// A file that is not a notebook is edited as a text.
///
/// # Errors
/// The first replacement that cannot be made, and the reason.
pub fn apply(text: &str, edits: &[Replacement]) -> Result<EditedText, EditError> {
    if edits.is_empty() || Notebook::parse(text).is_err() {
        return edit::apply(text, edits);
    }
    let mut edited = EditedText {
        text: text.to_owned(),
        places: 0,
        notes: Vec::new(),
    };
    for (number, one) in (1..).zip(edits) {
        let made = apply_one(&edited.text, one).map_err(|problem| EditError {
            number,
            of: edits.len(),
            problem,
        })?;
        edited.text = made.text;
        edited.places += made.places;
        edited.notes.extend(made.notes.into_iter().map(|note| {
            if edits.len() > 1 {
                format!("edit {number}: {note}")
            } else {
                note
            }
        }));
    }
    Ok(edited)
}

/// What an edit would do to a cell, by the cell's position.
type CellOutcome = (usize, Result<EditedText, EditProblem>);

fn apply_one(text: &str, edit: &Replacement) -> Result<EditedText, EditProblem> {
    let apply_to = |text: &str| edit::apply(text, std::slice::from_ref(edit)).map_err(|error| error.problem);
    let notebook = match Notebook::parse(text) {
        Ok(notebook) if !edit.old.is_empty() && edit.old != edit.new => notebook,
        // The same answer as for every file.
        _ => return apply_to(text),
    };
    let is_heading = |line: &&str| line.starts_with("=== cell ") && line.ends_with(" ===");
    let heading = edit.new.lines().map(str::trim).find(is_heading);
    if let Some(heading) = heading.filter(|heading| !edit.old.contains(heading)) {
        return Err(EditProblem::CellHeading {
            heading: heading.to_owned(),
        });
    }
    let outcomes: Vec<CellOutcome> = notebook
        .cells
        .iter()
        .map(|cell| apply_to(&cell.source))
        .enumerate()
        .collect();
    let is_exact = |outcome: &CellOutcome| match &outcome.1 {
        Ok(edited) => edited.notes.is_empty(),
        Err(problem) => matches!(problem, EditProblem::Ambiguous { .. } | EditProblem::TooLarge),
    };
    let is_bent = |outcome: &CellOutcome| outcome.1.as_ref().is_ok_and(|edited| edited.places > 0);
    let (exact, others): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(is_exact);
    if !exact.is_empty() {
        return write_cells(text, exact, edit.all);
    }
    let (bent, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_bent);
    if !bent.is_empty() {
        return write_cells(text, bent, false);
    }
    match apply_to(text) {
        Ok(edited) if edited.notes.is_empty() => match Notebook::parse(&edited.text) {
            Ok(_) => Ok(edited),
            Err(reason) => Err(EditProblem::NotebookBroken { reason }),
        },
        Err(problem @ EditProblem::Ambiguous { .. }) => Err(problem),
        _ => explain_unfound(text, others),
    }
}

/// Writes the changed sources. Several cells at once only if all places were asked for.
fn write_cells(text: &str, outcomes: Vec<CellOutcome>, all: bool) -> Result<EditedText, EditProblem> {
    if outcomes.len() > 1 && !all {
        let numbers: Vec<String> = outcomes.iter().map(|(at, _)| (at + 1).to_string()).collect();
        return Err(EditProblem::InCells {
            cells: numbers.join(", "),
        });
    }
    let mut written = EditedText {
        text: text.to_owned(),
        places: 0,
        notes: Vec::new(),
    };
    for (at, outcome) in outcomes {
        let edited = outcome?;
        // The positions in the text have moved.
        let notebook =
            Notebook::parse(&written.text).map_err(|reason| EditProblem::NotebookBroken { reason })?;
        let next = notebook.cells[at].replace_source(&written.text, &edited.text);
        written.text = next;
        written.places += edited.places;
        let notes = edited.notes.into_iter();
        written
            .notes
            .extend(notes.map(|note| format!("cell {}: {note}", at + 1)));
    }
    Ok(written)
}

/// Says that the new text is already there, or where the old one is most similar.
fn explain_unfound(text: &str, outcomes: Vec<CellOutcome>) -> Result<EditedText, EditProblem> {
    let mut hint = ", and nothing is similar; read the file again".to_owned();
    for (at, outcome) in outcomes {
        match outcome {
            Ok(skipped) => {
                return Ok(EditedText {
                    text: text.to_owned(),
                    notes: vec![format!("cell {}: {}", at + 1, skipped.notes.join("; "))],
                    ..skipped
                });
            }
            Err(EditProblem::NotFound { hint: closest }) if closest.contains('\n') => {
                hint = format!("; see cell {}{closest}", at + 1);
            }
            Err(_) => {}
        }
    }
    Err(EditProblem::NotFound {
        hint: format!(" in the source of any cell{hint}"),
    })
}
