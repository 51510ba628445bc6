//! Converts prompts: complete blocks, and references whose text must still be read.
//!
//! Checks shapes only. The caller resolves a [`PendingReference`], because it has the workspace.

use std::sync::Arc;

use base64::Engine as _;
use url::Url;

use crate::domain::{Block, MediaData, ReferenceKind};
use crate::protocol::{PromptBlock, PromptContent, Range, Severity};
use crate::server::error::RequestError;
use crate::session::{PendingReference, TextSpan};

/// Media types of images that every provider accepts.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A part of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub enum PromptPart {
    /// Complete.
    Block(Block),
    /// The caller resolves it into a [`Block::Reference`].
    Reference(PendingReference),
}

/// Parses a prompt.
///
/// # Errors
/// [`RequestError::BadParams`] if a block is malformed, or if the prompt has no text, reference or image.
pub fn parse_prompt(content: PromptContent) -> Result<Vec<PromptPart>, RequestError> {
    let blocks = match content {
        PromptContent::Text(text) if text.trim().is_empty() => return Err(empty_prompt_error()),
        PromptContent::Text(text) => return Ok(vec![PromptPart::Block(Block::Text(text))]),
        PromptContent::Blocks(blocks) => blocks,
    };
    let mut parts = Vec::with_capacity(blocks.len());
    for (index, block) in blocks.into_iter().enumerate() {
        let at = |field: &str| format!("prompt[{index}].{field}");
        let part = match block {
            PromptBlock::Text { text } if text.trim().is_empty() => continue,
            PromptBlock::Text { text } => PromptPart::Block(Block::Text(text)),
            PromptBlock::Reference { uri, range } => PromptPart::Reference(PendingReference {
                kind: ReferenceKind::File,
                uri: checked_uri(uri, &at("uri"))?,
                span: range.map(|range| to_line_span(range, &at("range"))).transpose()?,
                text: None,
            }),
            PromptBlock::Selection { uri, range, text } => PromptPart::Reference(PendingReference {
                kind: ReferenceKind::Selection,
                uri: checked_uri(uri, &at("uri"))?,
                span: Some(to_line_span(range, &at("range"))?),
                text,
            }),
            PromptBlock::Diagnostic {
                uri,
                range,
                message,
                severity,
                source,
            } => {
                if message.trim().is_empty() {
                    return Err(RequestError::invalid_param(at("message"), "must not be empty"));
                }
                PromptPart::Reference(PendingReference {
                    kind: ReferenceKind::Diagnostic,
                    uri: checked_uri(uri, &at("uri"))?,
                    span: Some(to_line_span(range, &at("range"))?),
                    text: Some(format_diagnostic(&message, severity, source.as_deref())),
                })
            }
            PromptBlock::Image { media_type, data } => {
                if !IMAGES.contains(&media_type.as_str()) {
                    return Err(RequestError::invalid_param(
                        at("mediaType"),
                        format!("must be one of {}", IMAGES.join(", ")),
                    ));
                }
                let bytes = base64::engine::general_purpose::STANDARD.decode(&data);
                if bytes.is_ok_and(|bytes| !bytes.is_empty()) {
                    PromptPart::Block(Block::Image(MediaData {
                        media_type,
                        data: Arc::from(data),
                    }))
                } else {
                    return Err(RequestError::invalid_param(
                        at("data"),
                        "must be Base64 with padding, without line breaks",
                    ));
                }
            }
        };
        parts.push(part);
    }
    if parts.is_empty() {
        return Err(empty_prompt_error());
    }
    Ok(parts)
}

fn empty_prompt_error() -> RequestError {
    RequestError::invalid_param("prompt", "must not be empty")
}

fn checked_uri(uri: String, field: &str) -> Result<String, RequestError> {
    // Only the form is checked: an unsaved document has a URI like `untitled:1`.
    match Url::parse(&uri) {
        Ok(_) => Ok(uri),
        Err(_) => Err(RequestError::invalid_param(
            field,
            "must be a URI such as file:///home/ann/shop/src/total.ts",
        )),
    }
}

/// Returns the lines that a range touches. A range that ends at the start of a line does not touch that line.
fn to_line_span(range: Range, field: &str) -> Result<TextSpan, RequestError> {
    if range.end < range.start {
        return Err(RequestError::invalid_param(
            field,
            "must not end before it starts",
        ));
    }
    let first = range.start.line;
    let mut last = range.end.line;
    if range.end.character == 0 && last > first {
        last -= 1;
    }
    Ok(TextSpan {
        first: first.saturating_add(1),
        last: last.saturating_add(1),
    })
}

fn format_diagnostic(message: &str, severity: Option<Severity>, source: Option<&str>) -> String {
    let severity = match severity {
        None => "",
        Some(Severity::Error) => "error: ",
        Some(Severity::Warning) => "warning: ",
        Some(Severity::Information) => "information: ",
        Some(Severity::Hint) => "hint: ",
    };
    match source {
        Some(source) => format!("{severity}{message} ({source})"),
        None => format!("{severity}{message}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(prompt: Value) -> Result<Vec<PromptPart>, RequestError> {
        super::parse_prompt(serde_json::from_value(prompt).unwrap())
    }

    #[test]
    fn text_and_blocks_are_parsed() {
        let range = json!({"start": {"line": 4, "character": 2}, "end": {"line": 6, "character": 0}});
        let parts = read(json!([
            {"type": "text", "text": "look"},
            {"type": "text", "text": " "},
            {"type": "reference", "uri": "file:///a%20b.rs"},
            {"type": "selection", "uri": "untitled:1", "range": range, "text": "x"},
            {"type": "diagnostic", "uri": "file:///a.rs", "range": range, "message": "unused", "severity": "warning", "source": "rustc"},
            {"type": "image", "mediaType": "image/png", "data": "aGk="},
        ]))
        .unwrap();
        assert_eq!(parts.len(), 5);
        assert_eq!(parts[0], PromptPart::Block(Block::Text("look".to_owned())));
        let PromptPart::Reference(selection) = &parts[2] else {
            panic!("{parts:?}");
        };
        assert_eq!(selection.span, Some(TextSpan { first: 5, last: 6 }));
        let PromptPart::Reference(diagnostic) = &parts[3] else {
            panic!("{parts:?}");
        };
        assert_eq!(diagnostic.text.as_deref(), Some("warning: unused (rustc)"));
    }

    #[test]
    fn errors_name_the_wrong_field() {
        let backward = json!({"start": {"line": 4, "character": 2}, "end": {"line": 4, "character": 1}});
        for (prompt, expected) in [
            (json!(" \n"), "prompt: must not be empty"),
            (json!([]), "prompt: must not be empty"),
            (json!([{"type": "text", "text": ""}]), "prompt: must not be empty"),
            (
                json!([{"type": "reference", "uri": "src/a.rs"}]),
                "prompt[0].uri: must be a URI",
            ),
            (
                json!([{"type": "text", "text": "a"}, {"type": "selection", "uri": "file:///a", "range": backward}]),
                "prompt[1].range: must not end before",
            ),
            (
                json!([{"type": "image", "mediaType": "image/tiff", "data": "aGk="}]),
                "prompt[0].mediaType: must be one of image/png",
            ),
            (
                json!([{"type": "image", "mediaType": "image/png", "data": "a b"}]),
                "prompt[0].data: must be Base64",
            ),
            (
                json!([{"type": "image", "mediaType": "image/png", "data": ""}]),
                "prompt[0].data: must",
            ),
        ] {
            let error = read(prompt).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
