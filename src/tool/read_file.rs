//! `read_file`: reads numbered lines of a text file, the cells of a notebook, an image, or a PDF.
//!
//! Owns the limits of one call and what counts as text. Records in the read log what the model has seen (R-TOOL-3).
//! Must not resolve editor state itself; `workspace` decides between buffer and disk.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;

use super::files::{self, NumberedLines, build_location, count_lines};
use super::output::refuse_input;
use super::{Tool, ToolContext, ToolError, ToolOutput, notebook, outline, stored_output};
use crate::base::CancellationToken;
use crate::base::picture::{self, PictureError};
use crate::domain::{Effect, EffectKind, MediaData, PDF};
use crate::workspace::media_file::{MediaFile, read_media};
use crate::workspace::notebook::is_notebook;
use crate::workspace::text_file::{Encoding, NotText, is_binary};
use crate::workspace::{Buffer, LoadError, load};

/// Most lines per call (R-TOOL).
const MAX_LINES: usize = 2_000;
/// Most bytes per call (R-TOOL). A small window has room for less.
const MAX_BYTES: usize = 64 << 10;
/// Most pictures of a notebook that one call shows.
const MAX_PICTURES: usize = 5;
/// Bytes at the start of a file that show what it is.
const HEAD: u64 = 8 << 10;

/// The `read_file` tool.
pub struct ReadFile;

/// The arguments of `read_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadFileInput {
    /// The file: absolute, relative to the working directory, or `rootName/path` in another workspace
    /// folder. Also a `tool-output:` path, which a result names if it was cut.
    path: String,
    /// The first line to read, counted from 1. Default: 1; 0 is the same.
    offset: Option<usize>,
    /// How many lines to read. Default and maximum: 2000.
    #[schemars(range(min = 1))]
    limit: Option<usize>,
}

impl ReadFileInput {
    fn first_line(&self) -> usize {
        self.offset.unwrap_or(1).max(1)
    }

    fn line_limit(&self) -> usize {
        self.limit.unwrap_or(MAX_LINES).clamp(1, MAX_LINES)
    }
}

impl Tool for ReadFile {
    type Input = ReadFileInput;

    const NAME: &'static str = "read_file";

    const DESCRIPTION: &'static str = "Reads a file and gives its lines, each after its number and a tab \
        (the number and the tab are not part of the file). At most 2000 lines or 64 KiB at a time; the last \
        line of the answer says how to go on. A file that is open in the editor is read with its unsaved \
        changes. Pictures (PNG, JPEG, GIF, WebP) and PDFs are shown to you, notebooks as cells. Folders: use \
        list_dir. To find text in many files use grep.";

    fn call_title(&self, input: &ReadFileInput) -> String {
        let lines = match (input.offset, input.limit) {
            (None, None) => String::new(),
            (_, None) => format!(" from line {}", input.first_line()),
            (_, Some(_)) => format!(
                " lines {}–{}",
                input.first_line(),
                input.first_line().saturating_add(input.line_limit() - 1)
            ),
        };
        files::format_title("Read", &format!("{}{lines}", input.path))
    }

    fn predict_effect(&self, input: &ReadFileInput, cx: &ToolContext) -> Result<Effect, ToolError> {
        if stored_output::stored_name(&input.path).is_some() {
            return Ok(stored_output::build_effect(&input.path));
        }
        let target = cx.resolve_path(&input.path)?;
        Ok(files::build_effect(EffectKind::Read, &[target]))
    }

    async fn run(&self, input: ReadFileInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let inner = cx.clone();
        let is_from_start = input.offset.is_none() && input.limit.is_none();
        let mut file = files::run_blocking(&cx, move |stop| read(&inner, &input, stop)).await?;
        if let Some(path) = file.cut_path.filter(|_| is_from_start) {
            outline::append_outline(&cx, &path, &mut file.output).await;
        }
        Ok(file.output)
    }
}

/// Returns the most bytes of one call.
fn result_limit(cx: &ToolContext) -> usize {
    cx.max_result_bytes(MAX_BYTES)
}

/// What a call has read.
struct ReadResult {
    output: ToolOutput,
    /// The resolved path of a text file that has more lines.
    cut_path: Option<PathBuf>,
}

fn read(cx: &ToolContext, input: &ReadFileInput, stop: &CancellationToken) -> Result<ReadResult, ToolError> {
    if let Some(name) = stored_output::stored_name(&input.path) {
        let reader = BufReader::new(cx.open_stored_output(name)?);
        let output = read_stream(
            input,
            reader,
            stop,
            "the whole output of a call",
            result_limit(cx),
        )?;
        return Ok(ReadResult {
            output: ToolOutput {
                paged: true,
                ..output
            },
            cut_path: None,
        });
    }
    let path = cx.resolve_path(&input.path)?.absolute;
    let buffer = cx.workspace.overlay().lookup_buffer(&path);
    let mut file = match &buffer {
        Buffer::Unsaved(document) => read_text(cx, input, &path, &document.text, &buffer)?,
        Buffer::Saved | Buffer::Unknown => read_disk(cx, input, &path, &buffer, stop)?,
    };
    // The lines of a notebook are those of its cells.
    let line = input.offset.filter(|_| !is_notebook(&path));
    file.output.locations = vec![build_location(&path, line)];
    file.output.paged = true;
    Ok(file)
}

/// Opens the file once, so that the file examined is the file read.
fn read_disk(
    cx: &ToolContext,
    input: &ReadFileInput,
    path: &Path,
    buffer: &Buffer,
    stop: &CancellationToken,
) -> Result<ReadResult, ToolError> {
    let mut file = match load::open(path) {
        Ok(file) => file,
        Err(LoadError::Folder(_)) => {
            return refuse_input(format!("`{}` is a folder; use list_dir", input.path));
        }
        Err(LoadError::Missing(_)) => {
            let suggestions = files::suggest_similar_paths(cx, path);
            return refuse_input(format!("`{}` does not exist{suggestions}", input.path));
        }
        Err(error) => return Err(error.into()),
    };
    let length = file.metadata().len();
    let failed =
        |error: io::Error| files::explain_io_error(format!("cannot read `{}`: {error}", input.path), &error);
    // Before the check for text: an image is binary too.
    if let Some(media) = read_media(&input.path, &mut file).map_err(ToolError::Reported)? {
        return Ok(ReadResult {
            output: show_media(input, media, stop)?,
            cut_path: None,
        });
    }
    let head = file.read_start(HEAD).map_err(failed)?;
    let note = match load::from_file(path, &mut file) {
        Ok(file) => {
            let mut result = read_text(cx, input, path, &file.text, buffer)?;
            if let Encoding::Guessed(encoding) = file.encoding {
                let name = encoding.name();
                let note = format!(
                    "[not UTF-8, most likely {name}: an edit may add only ASCII and characters that the file has]\n"
                );
                result.output.text.insert_str(0, &note);
            }
            return Ok(result);
        }
        // UTF-16 contains NULs too, so its marks exclude a file from being binary.
        Err(_)
            if is_binary(&head) && !head.starts_with(&[0xff, 0xfe]) && !head.starts_with(&[0xfe, 0xff]) =>
        {
            return refuse_input(format!(
                "`{}` is a binary file of {length} bytes; it cannot be read as text",
                input.path
            ));
        }
        // Too large to hold, or in another code page: readable, but not editable.
        Err(LoadError::TooLarge { .. }) => "large file; it cannot be edited",
        Err(LoadError::NotText {
            source: NotText::NotUtf8 { .. },
            ..
        }) => "not UTF-8: invalid bytes are shown as \u{fffd}; it cannot be edited",
        Err(error) => return Err(error.into()),
    };
    let start = BufReader::new(file.into_file().map_err(failed)?);
    Ok(ReadResult {
        output: read_stream(input, start, stop, note, result_limit(cx))?,
        cut_path: None,
    })
}

fn read_text(
    cx: &ToolContext,
    input: &ReadFileInput,
    path: &Path,
    text: &str,
    buffer: &Buffer,
) -> Result<ReadResult, ToolError> {
    let max_bytes = result_limit(cx);
    let (mut output, is_cut) = if is_notebook(path) {
        (read_notebook(input, text, max_bytes)?, false)
    } else {
        let window = render_window(input, text, max_bytes)?;
        let is_cut = window.last < window.total;
        (ToolOutput::text(window.text), is_cut)
    };
    let note = match buffer {
        Buffer::Saved => "",
        Buffer::Unsaved(_) => "[unsaved text from the editor]\n",
        Buffer::Unknown => "[text on disk; the editor may have unsaved changes]\n",
    };
    output.text.insert_str(0, note);
    // The whole text is recorded, so a change outside of the lines shown counts too.
    cx.workspace.read_log().record_text(path, text);
    Ok(ReadResult {
        output,
        cut_path: is_cut.then(|| path.to_owned()),
    })
}

/// Shows a notebook by its cells, with the pictures of the lines shown.
fn read_notebook(input: &ReadFileInput, text: &str, max_bytes: usize) -> Result<ToolOutput, ToolError> {
    let rendered = match notebook::render(text) {
        Ok(rendered) => rendered,
        Err(reason) => {
            let shown = render_window(input, text, max_bytes)?.text;
            return Ok(ToolOutput::text(format!(
                "[not a valid notebook ({reason}): this is its text]\n{shown}"
            )));
        }
    };
    if rendered.text.is_empty() {
        return Ok(ToolOutput::text("[the notebook has no cells]"));
    }
    let window = render_window(input, &rendered.text, max_bytes)?;
    let mut images: Vec<MediaData> = rendered
        .pictures
        .into_iter()
        .filter(|(line, _)| (window.first..=window.last).contains(line))
        .map(|(_, image)| image)
        .collect();
    let more = images.len().saturating_sub(MAX_PICTURES);
    images.truncate(MAX_PICTURES);
    let unshown = if more > 0 {
        format!("; the last {more} pictures are not shown")
    } else {
        String::new()
    };
    Ok(ToolOutput {
        text: format!("[{}{unshown}]\n{}", rendered.note, window.text),
        media: images,
        ..ToolOutput::default()
    })
}

/// The lines of a text that one call shows.
struct Window {
    /// Numbered, with a last line that says how to go on.
    text: String,
    first: usize,
    last: usize,
    total: usize,
}

fn render_window(input: &ReadFileInput, text: &str, max_bytes: usize) -> Result<Window, ToolError> {
    let (first, total) = (input.first_line(), count_lines(text));
    if text.is_empty() {
        return Ok(Window {
            text: "[the file is empty]".to_owned(),
            first,
            last: total,
            total,
        });
    }
    if first > total {
        return refuse_input(format!(
            "`{}` has only {total} lines; line {first} is beyond its end",
            input.path
        ));
    }
    let mut listing = NumberedLines::default();
    let lines = text
        .split_inclusive('\n')
        .skip(first - 1)
        .take(input.line_limit());
    for (number, line) in (first..).zip(lines) {
        let bare = line.strip_suffix('\n').unwrap_or(line);
        listing.push(number, bare, bare.len(), max_bytes);
        if listing.full {
            break;
        }
    }
    let last = listing.last;
    let mut output = listing.text;
    if last < total {
        output.push_str(&format!(
            "[lines {first} to {last} of {total}; continue with offset {}]",
            last + 1
        ));
    } else if first > 1 {
        output.push_str(&format!(
            "[lines {first} to {last} of {total}: the end of the file]"
        ));
    }
    Ok(Window {
        text: output,
        first,
        last,
        total,
    })
}

/// Reads lines without holding the rest of the file.
fn read_stream(
    input: &ReadFileInput,
    mut reader: impl BufRead,
    stop: &CancellationToken,
    note: &str,
    max_bytes: usize,
) -> Result<ToolOutput, ToolError> {
    let first = input.first_line();
    let mut listing = NumberedLines::default();
    let mut line = Vec::new();
    let mut number = 0;
    let more = loop {
        if stop.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let length = next_line(&mut reader, &mut line, stop)
            .map_err(|error| ToolError::Reported(format!("cannot read `{}`: {error}", input.path)))?;
        if length == 0 {
            break false;
        }
        number += 1;
        if number < first {
            continue;
        }
        if number >= first + input.line_limit() {
            break true;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        listing.push(number, text, length, max_bytes);
        if listing.full {
            break true;
        }
    };
    if number < first {
        return refuse_input(format!(
            "`{}` has only {number} lines; line {first} is beyond its end",
            input.path
        ));
    }
    let last = listing.last;
    let rest = if more {
        format!("; continue with offset {}", last + 1)
    } else {
        ": the end of the file".to_owned()
    };
    Ok(ToolOutput::text(format!(
        "[{note}]\n{}[lines {first} to {last}{rest}]",
        listing.text
    )))
}

/// Reads a line and keeps at most its start. Returns its full length with the line feed, 0 at the end.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>, stop: &CancellationToken) -> io::Result<usize> {
    const KEEP: usize = 4 * files::MAX_LINE;
    line.clear();
    let mut length = 0;
    loop {
        let chunk = reader.fill_buf()?;
        let end = memchr::memchr(b'\n', chunk).map(|at| at + 1);
        let consumed = end.unwrap_or(chunk.len());
        line.extend_from_slice(&chunk[..consumed.min(KEEP.saturating_sub(line.len()))]);
        reader.consume(consumed);
        length += consumed;
        // A line that never ends must not delay a cancel.
        if consumed == 0 || end.is_some() || stop.is_cancelled() {
            return Ok(length);
        }
    }
}

/// Shows a PDF as a whole, or a picture in the size that models see. The turn replaces what the model cannot see.
fn show_media(
    input: &ReadFileInput,
    media: MediaFile,
    stop: &CancellationToken,
) -> Result<ToolOutput, ToolError> {
    let MediaFile { media_type, bytes } = media;
    if media_type == PDF {
        let text = format!("[a PDF of {} bytes, with all its pages]", bytes.len());
        return Ok(build_media_output(text, media_type, &bytes));
    }
    let (media_type, bytes, note) = match picture::scale_down(&bytes, stop) {
        Ok(Some(scaled)) => {
            let note = format!(", {}", scaled.describe());
            (scaled.media_type, scaled.bytes, note)
        }
        Ok(None) => (media_type, bytes, String::new()),
        Err(PictureError::Cancelled) => return Err(ToolError::Cancelled),
        // A provider would refuse it, and the whole request with it.
        Err(error) => return refuse_input(format!("`{}` cannot be shown: {error}", input.path)),
    };
    let text = format!("[a picture, {media_type}, {} bytes{note}]", bytes.len());
    Ok(build_media_output(text, media_type, &bytes))
}

fn build_media_output(text: String, media_type: &str, bytes: &[u8]) -> ToolOutput {
    ToolOutput {
        text,
        media: vec![MediaData {
            media_type: media_type.to_owned(),
            data: STANDARD.encode(bytes).into(),
        }],
        ..ToolOutput::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::ToolHarness;
    use super::*;
    use crate::workspace::media_file::MAX_DOCUMENT;

    #[tokio::test]
    async fn lines_are_numbered_and_the_next_offset_is_stated() {
        let harness = ToolHarness::new();
        let text: String = (1..=2_500).map(|n| format!("line {n}\r\n")).collect();
        harness.write("a.txt", &text);
        let read = async |args| harness.call_tool("read_file", args).await.unwrap().text;
        let start = read(json!({"path": "a.txt"})).await;
        assert!(start.starts_with("1\tline 1\n2\tline 2\n"));
        assert!(
            start.ends_with("2000\tline 2000\n[lines 1 to 2000 of 2500; continue with offset 2001]"),
            "{start}"
        );
        let part = read(json!({"path": "a.txt", "offset": 2, "limit": 2})).await;
        assert_eq!(
            part,
            "2\tline 2\n3\tline 3\n[lines 2 to 3 of 2500; continue with offset 4]"
        );
        let end = read(json!({"path": "a.txt", "offset": 2_500})).await;
        assert_eq!(
            end,
            "2500\tline 2500\n[lines 2500 to 2500 of 2500: the end of the file]"
        );
        assert!(
            harness
                .call_expecting_error("read_file", json!({"path": "a.txt", "offset": 2501}))
                .await
                .contains("only 2500 lines")
        );
    }

    #[tokio::test]
    async fn bytes_are_limited_too() {
        let harness = ToolHarness::new();
        harness.write("wide.txt", &format!("{}\n", "x".repeat(1_500)).repeat(200));
        harness.write("line.txt", &"é".repeat(100_000));
        let wide = harness
            .call_tool("read_file", json!({"path": "wide.txt"}))
            .await
            .unwrap();
        assert!(wide.text.len() <= MAX_BYTES + 100 && wide.paged);
        assert!(
            wide.text.contains("of 200; continue with offset 44]"),
            "{}",
            &wide.text[wide.text.len() - 80..]
        );
        let line = harness
            .call_tool("read_file", json!({"path": "line.txt"}))
            .await
            .unwrap()
            .text;
        assert!(line.ends_with("é [… line cut, 200000 bytes long; grep shows the text round a match …]\n"));
        harness.write("empty", "");
        assert_eq!(
            harness
                .call_tool("read_file", json!({"path": "empty"}))
                .await
                .unwrap()
                .text,
            "[the file is empty]"
        );
    }

    #[tokio::test]
    async fn images_are_shown_and_other_binary_files_refused() {
        let harness = ToolHarness::new();
        std::fs::write(harness.path("bin"), b"\x7fELF\0\0").unwrap();
        std::fs::write(harness.path("latin1"), b"\xe4rger\nok\n").unwrap();
        std::fs::write(harness.path("bad.png"), b"\x89PNG\r\n\x1a\n....").unwrap();
        let cut = STANDARD.decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ");
        std::fs::write(harness.path("cut.png"), cut.unwrap()).unwrap();
        let mut big = b"GIF89a".to_vec();
        big.resize(picture::MAX_BYTES as usize + 1, 0);
        let damaged = [b"\xff\xd8\xff", &big[..]].concat();
        std::fs::write(harness.path("damaged.gif"), big).unwrap();
        harness.write("huge.webp", "RIFF....WEBP");
        let huge = std::fs::File::options()
            .write(true)
            .open(harness.path("huge.webp"));
        huge.unwrap().set_len(picture::MAX_SOURCE_BYTES + 1).unwrap();
        std::fs::write(harness.path("damaged.jpg"), damaged).unwrap();
        std::fs::create_dir(harness.path("folder")).unwrap();
        harness.write("src/main.rs", "");
        for (path, text) in [
            ("bin", "`bin` is a binary file of 6 bytes"),
            ("folder", "is a folder; use list_dir"),
            ("latin", "does not exist. Did you mean `latin1`?"),
            ("SRC/x", "nor does its folder. The nearest one that does is `.`"),
            ("src/Main.rs", "Did you mean `src/main.rs`?"),
            ("huge.webp", "67108865 bytes; at most 67108864 can be shown"),
            ("cut.png", "`cut.png` cannot be shown: its end is missing"),
            ("bad.png", "`bad.png` cannot be shown: it cannot be decoded"),
            (
                "damaged.gif",
                "`damaged.gif` cannot be shown: it cannot be decoded",
            ),
            (
                "damaged.jpg",
                "`damaged.jpg` cannot be shown: it cannot be decoded",
            ),
        ] {
            let error = harness
                .call_expecting_error("read_file", json!({"path": path}))
                .await;
            assert!(error.contains(text), "{path}: {error}");
        }
        let latin1 = harness
            .call_tool("read_file", json!({"path": "latin1"}))
            .await
            .unwrap()
            .text;
        assert!(
            latin1.contains("most likely windows-1252") && latin1.ends_with("1\t\u{e4}rger\n2\tok\n"),
            "{latin1}"
        );
        let dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
        std::fs::write(harness.path("a.png"), STANDARD.decode(dot).unwrap()).unwrap();
        let picture = harness
            .call_tool("read_file", json!({"path": "a.png"}))
            .await
            .unwrap();
        assert_eq!(picture.media[0].media_type, "image/png");
        assert_eq!(&*picture.media[0].data, dot);
    }

    #[tokio::test]
    async fn a_pdf_is_given_as_a_whole_if_it_is_not_too_large() {
        let harness = ToolHarness::new();
        harness.write("a.pdf", "%PDF-1.7\n...");
        let mut large = b"%PDF-1.7".to_vec();
        large.resize(MAX_DOCUMENT as usize + 1, 0);
        std::fs::write(harness.path("large.pdf"), large).unwrap();
        let document = harness
            .call_tool("read_file", json!({"path": "a.pdf"}))
            .await
            .unwrap();
        assert_eq!(document.text, "[a PDF of 12 bytes, with all its pages]");
        assert_eq!(document.media[0].media_type, PDF);
        assert_eq!(&*document.media[0].data, "JVBERi0xLjcKLi4u");
        let error = harness
            .call_expecting_error("read_file", json!({"path": "large.pdf"}))
            .await;
        assert!(
            error.contains("6291457 bytes") && error.contains("pdftotext"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_large_picture_is_scaled_down() {
        let harness = ToolHarness::new();
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, 2_000, 1_000);
        encoder.set_color(png::ColorType::Grayscale);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&vec![7; 2_000_000]).unwrap();
        writer.finish().unwrap();
        std::fs::write(harness.path("a.png"), file).unwrap();
        let shown = harness
            .call_tool("read_file", json!({"path": "a.png"}))
            .await
            .unwrap();
        assert!(
            shown
                .text
                .ends_with(" bytes, scaled down from 2000 × 1000 to 1568 × 784 pixels]"),
            "{}",
            shown.text
        );
        let bytes = STANDARD.decode(&*shown.media[0].data).unwrap();
        // The width in the header.
        assert_eq!(bytes[16..20], 1_568_u32.to_be_bytes());
    }

    #[tokio::test]
    async fn large_files_are_streamed() {
        let harness = ToolHarness::new();
        let line = format!("{}\n", "y".repeat(99));
        std::fs::write(harness.path("log"), line.repeat(400_000)).unwrap();
        let part = harness
            .call_tool("read_file", json!({"path": "log", "offset": 390_000, "limit": 2}))
            .await
            .unwrap()
            .text;
        assert!(
            part.starts_with("[large file; it cannot be edited]\n390000\tyyy"),
            "{part}"
        );
        assert!(part.ends_with("[lines 390000 to 390001; continue with offset 390002]"));
        let error = harness
            .call_expecting_error("read_file", json!({"path": "log", "offset": 400_001}))
            .await;
        assert!(error.contains("only 400000 lines"), "{error}");
    }

    #[tokio::test]
    async fn streamed_lines_that_end_with_a_carriage_return_are_whole() {
        let harness = ToolHarness::new();
        // UTF-8 with a wrong byte is streamed.
        std::fs::write(harness.path("mixed.txt"), b"\xc3\xa9\xc3\xa9caf\xe9\r\nplain\r\n").unwrap();
        let text = harness
            .call_tool("read_file", json!({"path": "mixed.txt"}))
            .await
            .unwrap()
            .text;
        assert!(text.contains("1\téécaf\u{fffd}\n2\tplain\n"), "{text}");
    }

    #[tokio::test]
    async fn unsaved_text_is_read() {
        let harness = ToolHarness::new();
        harness.write("a.txt", "disk\n");
        harness.open("a.txt", "buffer\n");
        let text = harness
            .call_tool("read_file", json!({"path": "a.txt"}))
            .await
            .unwrap()
            .text;
        assert_eq!(text, "[unsaved text from the editor]\n1\tbuffer\n");
        // A file that exists only in the editor.
        harness.open("new.txt", "fresh");
        assert!(
            harness
                .call_tool("read_file", json!({"path": "new.txt"}))
                .await
                .unwrap()
                .text
                .ends_with("1\tfresh\n")
        );
    }
}
