//! Replacements in a notebook: in the source of one cell, or in the file's JSON.
//!
//! The sources come first, because they are what a model reads. What is in none of them may be JSON, such as a whole
//! cell; the result must still be a notebook. Whatever is not certain is refused.

use std::path::Path;

use super::{Notebook, is_notebook};
use crate::workspace::edit::{self, EditError, EditProblem, EditedText, Hunk, HunkError, Replacement};

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

/// Applies all hunks of a patch to the text of the file at `path`. In a notebook, that is the sources of the cells as a
/// model reads them, or else the file's JSON.
///
/// # Errors
/// The first hunk that does not fit at exactly one place, and the reason.
pub fn apply_hunks(path: &Path, text: &str, hunks: &[Hunk]) -> Result<EditedText, HunkError> {
    let notebook = is_notebook(path).then(|| Notebook::parse(text));
    let Some(Ok(notebook)) = notebook else {
        return edit::apply_hunks(text, hunks);
    };
    let mut sources = String::new();
    for (number, cell) in (1..).zip(&notebook.cells) {
        let end = if cell.source.is_empty() { "" } else { "\n" };
        sources.extend([&cell.heading(number), "\n", &cell.source, end]);
    }
    let failed = |problem: String| HunkError {
        number: 0,
        of: hunks.len(),
        problem,
    };
    let unfit = match edit::apply_hunks(&sources, hunks) {
        Ok(edited) => match write_sources(text, &notebook, &edited.text) {
            Some(text) => return Ok(EditedText { text, ..edited }),
            None => failed(
                "the patch changes the line above a cell, which only read_file shows; to add or remove cells, change \
                 the file's JSON, which grep and bash show"
                    .to_owned(),
            ),
        },
        Err(error) => error,
    };
    let edited = edit::apply_hunks(text, hunks).map_err(|_| unfit)?;
    let broken = |reason| failed(EditProblem::NotebookBroken { reason }.to_string());
    Notebook::parse(&edited.text).map_err(broken)?;
    Ok(edited)
}

/// Writes the sources that changed; `None` if the lines between the cells are not the same.
fn write_sources(text: &str, notebook: &Notebook<'_>, edited: &str) -> Option<String> {
    let headings = (1..)
        .zip(&notebook.cells)
        .map(|(number, cell)| cell.heading(number));
    if !edited.lines().filter(|line| is_heading(line)).eq(headings) {
        return None;
    }
    let mut sources: Vec<String> = Vec::new();
    for line in edited.split_inclusive('\n') {
        if is_heading(line.trim_end_matches('\n')) {
            sources.push(String::new());
        } else {
            sources.last_mut()?.push_str(line);
        }
    }
    let mut written = text.to_owned();
    for (at, source) in sources.iter().enumerate() {
        let source = source.strip_suffix('\n').unwrap_or(source);
        if source != notebook.cells[at].source {
            // The positions in the text have moved.
            written = Notebook::parse(&written).ok()?.cells[at].replace_source(&written, source);
        }
    }
    Some(written)
}

fn is_heading(line: &str) -> bool {
    line.starts_with("=== cell ") && line.ends_with(" ===")
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
    let heading = edit.new.lines().map(str::trim).find(|line| is_heading(line));
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
