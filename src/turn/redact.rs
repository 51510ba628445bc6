//! Removes known API keys from tool output on its way to the model, the store and the client (I15, R-SEC).
//!
//! This covers every accidental disclosure, such as a log, a dump of the environment, or a configuration file. A key
//! that is taken apart on purpose is not recognized. Which keys are known is the [`Redactor`]'s business.

use std::borrow::Cow;
use std::io::Read;
use std::sync::Arc;

use crate::base::text::escape_hidden_characters;
use crate::config::{RedactedPieces, Redactor};
use crate::domain::ContentRef;
use crate::tool::{CallPreview, ContentSink, ContentWriter, ToolOutput};

/// Explains the replacement to the model, which might otherwise write `***` into the file.
const NOTE: &str = "\n[*** stands for a key that is not shown; do not write it back]";

/// Replaces every key in a tool's output by `***`.
pub(super) fn redact_output(redactor: &Redactor, mut output: ToolOutput) -> ToolOutput {
    // Make invisible characters visible, so that output cannot carry text that only a model reads.
    if let Cow::Owned(exposed) = escape_hidden_characters(&output.text) {
        output.text = exposed;
    }
    if let Some(clean) = redactor.redact_content(&output.text) {
        output.text = clean;
        output.text.push_str(NOTE);
    }
    output.diff = redact_diff(redactor, output.diff);
    output
}

/// Replaces every key in a text for the model.
pub(super) fn text(redactor: &Redactor, text: String) -> String {
    redactor.redact_content(&text).unwrap_or(text)
}

/// Replaces every key in a preview for people.
pub(super) fn redact_preview(redactor: &Redactor, mut preview: CallPreview) -> CallPreview {
    preview.diff = redact_diff(redactor, preview.diff);
    preview
}

fn redact_diff(redactor: &Redactor, diff: Option<Arc<str>>) -> Option<Arc<str>> {
    diff.map(|diff| redactor.redact_content(&diff).map_or(diff, Arc::from))
}

/// Stores a tool's output without keys.
pub(super) struct RedactingSink {
    keep: Arc<dyn ContentSink>,
    redactor: Redactor,
}

impl RedactingSink {
    pub(super) fn new(keep: Arc<dyn ContentSink>, redactor: Redactor) -> Self {
        Self { keep, redactor }
    }
}

impl ContentSink for RedactingSink {
    fn create_writer(&self, name: &str) -> Result<Box<dyn ContentWriter>, String> {
        let writer = self.keep.create_writer(name)?;
        let pieces = self.redactor.redact_pieces();
        Ok(Box::new(RedactingWriter { writer, pieces }))
    }

    fn open_reader(&self, name: &str) -> Result<Box<dyn Read + Send>, String> {
        self.keep.open_reader(name)
    }
}

struct RedactingWriter {
    writer: Box<dyn ContentWriter>,
    pieces: RedactedPieces,
}

impl ContentWriter for RedactingWriter {
    fn append_text(&mut self, text: &str) -> Result<(), String> {
        let clean = self.pieces.push(text);
        self.writer.append_text(&clean)
    }

    fn finish(mut self: Box<Self>) -> Result<ContentRef, String> {
        // The end of the text may have been held back as the possible start of a key.
        let rest = self.pieces.flush_held();
        self.writer.append_text(&rest)?;
        self.writer.finish()
    }
}
