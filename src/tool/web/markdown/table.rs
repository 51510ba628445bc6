//! A table in progress, and its conversion to Markdown. Must not know HTML; the parent module reports rows and cells.

/// Rows of cells, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct HtmlTable {
    rows: Vec<Vec<String>>,
    in_cell: bool,
}

impl HtmlTable {
    pub(super) fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn begin_cell(&mut self) {
        self.in_cell = true;
    }

    /// Ends a cell with the text since the last cell; text outside of cells becomes a row of its own (a caption).
    pub(super) fn end_cell(&mut self, text: &str) {
        let in_cell = std::mem::take(&mut self.in_cell);
        if !in_cell && text.is_empty() {
            return;
        }
        if self.rows.is_empty() || !in_cell {
            self.rows.push(Vec::new());
        }
        if let Some(row) = self.rows.last_mut() {
            row.push(text.replace('\n', " "));
        }
    }

    /// Returns the cells that are not empty.
    pub(super) fn into_cells(self) -> impl Iterator<Item = String> {
        self.rows.into_iter().flatten().filter(|cell| !cell.is_empty())
    }

    /// Converts to Markdown. A table of one column is only layout, so its cells become paragraphs.
    pub(super) fn into_markdown(self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        if columns < 2 {
            return self.into_cells().collect::<Vec<_>>().join("\n\n");
        }
        let mut text = String::new();
        let mut headed = false;
        for row in self
            .rows
            .iter()
            .filter(|row| row.iter().any(|cell| !cell.is_empty()))
        {
            if !text.is_empty() {
                text.push('\n');
            }
            if row.len() == 1 && columns > 1 && !headed {
                // A caption.
                text.push_str(&row[0]);
                text.push('\n');
                continue;
            }
            text.push('|');
            for cell in row {
                text.push(' ');
                text.push_str(&cell.replace('|', "\\|"));
                text.push_str(" |");
            }
            // Markdown needs a header row, so the first row becomes one.
            if !headed {
                headed = true;
                text.push_str("\n|");
                text.push_str(&" --- |".repeat(row.len()));
            }
        }
        text
    }
}
