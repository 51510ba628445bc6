//! Shows a Jupyter notebook to a model: the cells with their sources, and their outputs as text and pictures.
//!
//! Owns how much of an output is shown. Must not know how a notebook is stored or edited; see `workspace::notebook`.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::base::picture;
use crate::base::text::{cut_middle, one_line, strip_control_characters};
use crate::domain::MediaData;
use crate::workspace::notebook::{Cell, Notebook, read_lines};

/// Most lines of one output.
const MAX_OUTPUT_LINES: usize = 40;
/// Most characters of one output.
const MAX_OUTPUT: usize = 4_000;
/// Largest picture that is attached, in bytes of base64.
const MAX_PICTURE: usize = 1 << 20;

/// A notebook as a text, with the pictures of its outputs.
#[derive(Debug)]
pub struct RenderedNotebook {
    /// What kind of file it is, and how it is edited.
    pub note: String,
    pub text: String,
    /// Each with the line of `text` that mentions it, from 1.
    pub pictures: Vec<(usize, MediaData)>,
}

/// Renders the text of a notebook's file.
///
/// # Errors
/// The reason as text if it is not a notebook of format 4.
pub fn render(text: &str) -> Result<RenderedNotebook, String> {
    let notebook = Notebook::parse(text)?;
    let language = notebook
        .language
        .map_or_else(String::new, |language| format!(" in {}", one_line(&language, 40)));
    let mut rendered = RenderedNotebook {
        note: format!(
            "notebook{language}, {} cells; edit the source of a cell as it is shown here. To add or \
             remove cells, edit the file's JSON, which grep and bash show",
            notebook.cells.len()
        ),
        text: String::new(),
        pictures: Vec::new(),
    };
    for (number, cell) in (1..).zip(&notebook.cells) {
        rendered.push_cell(number, cell);
    }
    Ok(rendered)
}

impl RenderedNotebook {
    fn push_cell(&mut self, number: usize, cell: &Cell) {
        self.push_lines(&cell.heading(number));
        self.push_lines(&cell.source);
        for output in &cell.outputs {
            self.push_lines(&format!("--- output of cell {number} ---"));
            self.push_output(output);
        }
    }

    fn push_lines(&mut self, text: &str) {
        self.text.push_str(text);
        if !text.is_empty() && !text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    fn push_output(&mut self, output: &Value) {
        let text_of = |key: &str| output.get(key).and_then(read_lines);
        match output.get("output_type").and_then(Value::as_str) {
            Some("stream") => self.push_output_text(&text_of("text").unwrap_or_default()),
            Some("error") => {
                let traceback: Vec<&str> = output["traceback"]
                    .as_array()
                    .map(|lines| lines.iter().filter_map(Value::as_str).collect())
                    .unwrap_or_default();
                if traceback.is_empty() {
                    let name = text_of("ename").unwrap_or_default();
                    let value = text_of("evalue").unwrap_or_default();
                    self.push_output_text(&format!("{name}: {value}"));
                } else {
                    self.push_output_text(&traceback.join("\n"));
                }
            }
            _ => self.push_data(&output["data"]),
        }
    }

    /// Adds the forms of one output that a model can read: a text, and pictures.
    fn push_data(&mut self, data: &Value) {
        let Some(forms) = data.as_object() else {
            return self.push_lines("[an output of unknown kind: not shown]");
        };
        let readable = ["text/plain", "text/markdown", "text/latex"];
        let text = readable.iter().find_map(|form| read_lines(forms.get(*form)?));
        let mut is_shown = text.is_some();
        if let Some(text) = text {
            self.push_output_text(&text);
        }
        for (form, content) in forms.iter().filter(|(form, _)| form.starts_with("image/")) {
            is_shown = true;
            self.push_picture(form, &read_lines(content).unwrap_or_default());
        }
        if !is_shown {
            let names: Vec<String> = forms.keys().map(|form| one_line(form, 60)).collect();
            self.push_lines(&format!("[{}: not shown]", names.join(", ")));
        }
    }

    fn push_picture(&mut self, form: &str, data: &str) {
        let data: String = data.split_whitespace().collect();
        let size = data.len() / 4 * 3;
        let bytes = Some(&data).filter(|data| data.len() <= MAX_PICTURE);
        let bytes = bytes.and_then(|data| STANDARD.decode(data).ok());
        match bytes.and_then(|bytes| picture::check(&bytes).ok()) {
            Some(media_type) => {
                self.push_lines(&format!("[a picture, {media_type}, {size} bytes]"));
                let image = MediaData {
                    media_type: media_type.to_owned(),
                    data: data.into(),
                };
                self.pictures
                    .push((memchr::memchr_iter(b'\n', self.text.as_bytes()).count(), image));
            }
            _ => self.push_lines(&format!(
                "[a picture, {}, {size} bytes: not shown]",
                one_line(form, 40)
            )),
        }
    }

    /// Adds a text without what is for terminals, cut in the middle if it is long.
    fn push_output_text(&mut self, text: &str) {
        let clean = strip_control_characters(text);
        let lines: Vec<&str> = clean.lines().collect();
        let kept = if lines.len() > MAX_OUTPUT_LINES {
            let half = MAX_OUTPUT_LINES / 2;
            let mut kept = lines[..half].join("\n");
            let _ = write!(kept, "\n[… {} lines cut …]\n", lines.len() - 2 * half);
            kept + &lines[lines.len() - half..].join("\n")
        } else {
            lines.join("\n")
        };
        let kept = cut_middle(&kept, MAX_OUTPUT).unwrap_or(kept);
        self.push_lines(&kept);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::ToolHarness;
    use super::*;

    const PIXEL: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

    fn notebook() -> Value {
        let log: String = (1..=100).map(|number| format!("row {number}\n")).collect();
        json!({
            "cells": [
                {"cell_type": "markdown", "source": ["# Title\n", "text"]},
                {"cell_type": "code", "execution_count": 7, "source": "plot()", "outputs": [
                    {"output_type": "stream", "name": "stdout", "text": log},
                    {"output_type": "display_data", "data":
                        {"text/plain": ["<Figure>"], "image/png": format!("{PIXEL}\n"), "text/html": "<b>"}},
                    {"output_type": "display_data", "data": {"image/svg+xml": "<svg/>"}},
                    {"output_type": "display_data", "data": {"text/html": "<b>"}},
                    {"output_type": "error", "ename": "E", "evalue": "v",
                     "traceback": ["\u{1b}[31mE\u{1b}[0m", "at 1"]},
                    {"output_type": "error", "ename": "KeyError", "evalue": "x"},
                ]},
            ],
            "metadata": {"kernelspec": {"language": "python"}}, "nbformat": 4
        })
    }

    #[tokio::test]
    async fn a_notebook_is_read_by_cell_with_its_outputs() {
        let harness = ToolHarness::new();
        harness.write("a.ipynb", &notebook().to_string());
        let read = async |args| harness.call_tool("read_file", args).await.unwrap();
        let whole = read(json!({"path": "a.ipynb"})).await;
        assert!(
            whole.text.starts_with(
                "[notebook in python, 2 cells; edit the source of a cell as it is shown here. To"
            ),
            "{}",
            whole.text
        );
        for part in [
            "\n1\t=== cell 1, markdown ===\n2\t# Title\n3\ttext\n4\t=== cell 2, code, run as [7] ===\n5\tplot()\n",
            "6\t--- output of cell 2 ---\n7\trow 1\n",
            "26\trow 20\n27\t[… 60 lines cut …]\n28\trow 81\n",
            "\t<Figure>\n50\t[a picture, image/png, 72 bytes]\n",
            "\t[a picture, image/svg+xml, 3 bytes: not shown]\n",
            "\t[text/html: not shown]\n",
            "\tE\n57\tat 1\n",
            "\tKeyError: x\n",
        ] {
            assert!(whole.text.contains(part), "{part} is not in {}", whole.text);
        }
        assert_eq!(whole.media.len(), 1);
        assert_eq!(&*whole.media[0].data, PIXEL);
        // Lines of the rendered text are no lines of the file.
        assert_eq!(whole.locations[0].line, None);
        let part = read(json!({"path": "a.ipynb", "offset": 2, "limit": 2})).await;
        assert!(
            part.text
                .ends_with("]\n2\t# Title\n3\ttext\n[lines 2 to 3 of 59; continue with offset 4]"),
            "{}",
            part.text
        );
        assert!(part.media.is_empty());
    }

    #[tokio::test]
    async fn what_is_not_a_notebook_is_read_as_text() {
        let harness = ToolHarness::new();
        harness.write("a.ipynb", "{\"cells\": [\n");
        harness.write("empty.ipynb", "{\"cells\": []}");
        let read = async |path| {
            let args = json!({"path": path});
            harness.call_tool("read_file", args).await.unwrap().text
        };
        let text = read("a.ipynb").await;
        assert!(text.starts_with("[not a valid notebook (EOF"), "{text}");
        assert!(text.ends_with("]\n1\t{\"cells\": [\n"), "{text}");
        assert!(read("empty.ipynb").await.ends_with("[the notebook has no cells]"));
    }

    #[tokio::test]
    async fn a_cell_is_edited_as_it_was_read() {
        let harness = ToolHarness::new();
        let before = notebook().to_string();
        harness.write("a.ipynb", &before);
        let edits = json!([{"old_text": "plot()", "new_text": "x = \"1\"\nplot(x)"}]);
        let args = json!({"path": "a.ipynb", "edits": edits});
        harness.call_tool("edit_file", args).await.unwrap();
        let after = before.replace("\"plot()\"", "\"x = \\\"1\\\"\\nplot(x)\"");
        assert_eq!(harness.read("a.ipynb"), after);
        let hunk = "@@ === cell 2, code, run as [7] ===\n-x = \"1\"\n-plot(x)\n+plot()\n";
        let patch =
            |line: &str| format!("*** Begin Patch\n*** Update File: a.ipynb\n{line}{hunk}*** End Patch");
        let args = json!({"patch": patch("")});
        harness.call_tool("apply_patch", args).await.unwrap();
        assert_eq!(harness.read("a.ipynb"), before);
        harness.write("c.ipynb", &after);
        let moved = patch("*** Move to: b.ipynb\n").replace("a.ipynb", "c.ipynb");
        let args = json!({"patch": moved});
        harness.call_tool("apply_patch", args).await.unwrap();
        assert_eq!(harness.read("b.ipynb"), before);
    }
}
