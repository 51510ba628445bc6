//! Jupyter notebooks: their cells, and replacements in the sources of cells. Pure.
//!
//! A notebook is JSON, but a model reads and edits the sources of its cells. Only the JSON of a changed source is
//! written, in the layout that the file has; every other byte stays. Must not know how cells are shown; see
//! `tool::notebook`.

mod edit;

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::base::text::one_line;
pub use edit::{apply, apply_hunks};

/// Returns whether the name of the file is that of a notebook.
pub fn is_notebook(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("ipynb"))
}

/// A notebook of format 4.
#[derive(Debug)]
pub struct Notebook<'a> {
    /// The language of its code cells, if it is stated.
    pub language: Option<String>,
    pub cells: Vec<Cell<'a>>,
}

/// A cell of a notebook.
#[derive(Debug)]
pub struct Cell<'a> {
    /// `code`, `markdown`, or `raw`.
    pub kind: String,
    pub source: String,
    /// The number that the cell got when it was last executed.
    pub execution_count: Option<u64>,
    pub outputs: Vec<Value>,
    /// The source as it is in the file: a string, or a list of lines.
    raw_source: &'a RawValue,
}

impl<'a> Notebook<'a> {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// The reason as text if it is not a notebook of format 4.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let file: NotebookFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let cells = file.cells.into_iter().map(Cell::from_file);
        Ok(Self {
            language: find_language(&file.metadata),
            cells: cells.collect::<Result<_, _>>()?,
        })
    }
}

impl<'a> Cell<'a> {
    fn from_file(cell: CellFile<'a>) -> Result<Self, String> {
        let source: Lines =
            serde_json::from_str(cell.source.get()).map_err(|error| format!("a cell's source: {error}"))?;
        Ok(Self {
            kind: cell.cell_type,
            source: source.join(),
            execution_count: cell.execution_count.and_then(|count| count.as_u64()),
            outputs: cell.outputs.unwrap_or_default(),
            raw_source: cell.source,
        })
    }

    /// Returns the line above the cell where a model reads it; `number` is its place, from 1.
    pub fn heading(&self, number: usize) -> String {
        let count = (self.execution_count).map_or_else(String::new, |count| format!(", run as [{count}]"));
        format!("=== cell {number}, {}{count} ===", one_line(&self.kind, 40))
    }

    /// Returns `text`, from which the cell was read, with another source of the cell.
    fn replace_source(&self, text: &str, source: &str) -> String {
        let raw = self.raw_source.get();
        // The value borrows from `text`.
        let start = raw.as_ptr().addr() - text.as_ptr().addr();
        let place = start..start + raw.len();
        let written = if raw.starts_with('[') {
            write_lines(text, place.clone(), source)
        } else {
            write_string(source)
        };
        [&text[..place.start], &written, &text[place.end..]].concat()
    }
}

#[derive(Deserialize)]
struct NotebookFile<'a> {
    #[serde(borrow)]
    cells: Vec<CellFile<'a>>,
    #[serde(default)]
    metadata: Value,
}

#[derive(Deserialize)]
struct CellFile<'a> {
    cell_type: String,
    #[serde(borrow)]
    source: &'a RawValue,
    execution_count: Option<Value>,
    outputs: Option<Vec<Value>>,
}

/// A text as notebooks keep it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Lines {
    Whole(String),
    /// Each with its line feed.
    Split(Vec<String>),
}

impl Lines {
    fn join(self) -> String {
        match self {
            Self::Whole(text) => text,
            Self::Split(lines) => lines.concat(),
        }
    }
}

/// Returns the text of a value that is a string or a list of lines; `None` if it is neither.
pub fn read_lines(value: &Value) -> Option<String> {
    Lines::deserialize(value).ok().map(Lines::join)
}

fn find_language(metadata: &Value) -> Option<String> {
    let stated = ["/language_info/name", "/kernelspec/language"];
    let stated = stated.iter().find_map(|at| metadata.pointer(at)?.as_str());
    stated.map(str::to_owned)
}

/// Writes a source as a list of lines, laid out like the one at `place`. Lines that stay keep their bytes.
fn write_lines(text: &str, place: Range<usize>, source: &str) -> String {
    let raw = &text[place.clone()];
    let items: Vec<&RawValue> = serde_json::from_str(raw).unwrap_or_default();
    let lines: Vec<String> = source
        .split_inclusive('\n')
        .map(|line| {
            let is_same = |item: &&&RawValue| {
                serde_json::from_str::<String>(item.get()).is_ok_and(|known| known == line)
            };
            match items.iter().find(is_same) {
                Some(item) => item.get().to_owned(),
                None => write_string(line),
            }
        })
        .collect();
    if lines.is_empty() {
        return "[]".to_owned();
    }
    let Layout { open, between, close } = Layout::find(text, place, &items);
    format!("[{open}{}{close}]", lines.join(&between))
}

/// What is before, between, and after the lines of a list.
struct Layout {
    open: String,
    between: String,
    close: String,
}

impl Layout {
    fn find(text: &str, place: Range<usize>, items: &[&RawValue]) -> Self {
        let offset = |at: &str| at.as_ptr().addr() - text.as_ptr().addr();
        let (Some(first), Some(last)) = (items.first(), items.last()) else {
            return Self::guess(text, place.start);
        };
        let (first, last) = (first.get(), last.get());
        let open = text[place.start + 1..offset(first)].to_owned();
        let between = match items.get(1) {
            Some(second) => text[offset(first) + first.len()..offset(second.get())].to_owned(),
            None if open.contains('\n') => format!(",{open}"),
            None => ", ".to_owned(),
        };
        let close = text[offset(last) + last.len()..place.end - 1].to_owned();
        Self { open, between, close }
    }

    /// Lays out a list that is empty so far: one line each, if the file has lines.
    fn guess(text: &str, start: usize) -> Self {
        let indentation = |line: &str| line[..line.len() - line.trim_start().len()].to_owned();
        let Some(feed) = text[..start].rfind('\n') else {
            return Self {
                open: String::new(),
                between: ", ".to_owned(),
                close: String::new(),
            };
        };
        let end = if text[..feed].ends_with('\r') {
            "\r\n"
        } else {
            "\n"
        };
        let own = indentation(&text[feed + 1..start]);
        // The first line that is indented is so by one level.
        let level = text.lines().map(indentation).find(|level| !level.is_empty());
        let open = format!("{end}{own}{}", level.unwrap_or_default());
        Self {
            between: format!(",{open}"),
            open,
            close: format!("{end}{own}"),
        }
    }
}

fn write_string(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests;
