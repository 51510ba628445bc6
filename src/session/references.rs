//! What a prompt points at: a place in a file, read when the prompt arrives.
//!
//! Both edges use it, so that a reference means the same in each. Knows no wire shapes.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::base::{picture, text, uri};
use crate::config::Redactor;
use crate::domain::{Block, MediaData, PDF, Reference, ReferenceKind};
use crate::tool::notebook;
use crate::workspace::load::{self, LoadError};
use crate::workspace::media_file::{MediaFile, read_media};
use crate::workspace::notebook::is_notebook;
use crate::workspace::reference::follow_reference;
use crate::workspace::{Buffer, Roots, WorkspaceShared};

/// Bytes of a file that a reference includes at most. The model can read the rest by itself.
const MAX_REFERENCE: usize = 64 << 10;
/// Most pictures of a notebook that a reference includes.
const MAX_PICTURES: usize = 5;

/// A place in a file that the user points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingReference {
    pub kind: ReferenceKind,
    pub uri: String,
    /// The lines; `None` for the whole file.
    pub span: Option<TextSpan>,
    /// The client's text of a selection, or the message of a diagnostic. Without it, the text is read from the file.
    pub text: Option<String>,
}

/// Lines of a file, counted from 1, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextSpan {
    pub first: u32,
    pub last: u32,
}

/// Returns a reference with its text, and the pictures and documents that it leads to. Reads files without an await,
/// briefly, so that prompts keep their order.
///
/// # Errors
/// What is wrong with the reference, for its author.
pub fn resolve_reference(
    workspace: &WorkspaceShared,
    roots: &Roots,
    redactor: &Redactor,
    pending: PendingReference,
) -> Result<Vec<Block>, String> {
    let (mut reference, media) = read_reference(workspace, roots, redactor, pending)?;
    // Characters that only a model would read become visible escapes.
    reference.text = text::escape_hidden_characters(&reference.text).into_owned();
    let media = media.into_iter().map(Block::Image);
    Ok(std::iter::once(Block::Reference(reference))
        .chain(media)
        .collect())
}

fn read_reference(
    workspace: &WorkspaceShared,
    roots: &Roots,
    redactor: &Redactor,
    pending: PendingReference,
) -> Result<(Reference, Vec<MediaData>), String> {
    let PendingReference {
        kind,
        uri,
        span,
        text,
    } = pending;
    let path = uri::path_of(&uri).map_err(|error| error.to_string())?;
    let lines = span.map(|span| (span.first, span.last));
    // Documents are known by their resolved paths: this path may be another way to the same file.
    // A prompt may come before its session is known, and a link to such a file is no reference in any of them.
    let real = follow_reference(roots, &workspace.read_deny(None), &path);
    // Absolute here: the session knows its folder and makes the path relative.
    let display_path = real.as_deref().unwrap_or(&path).display().to_string();
    let build = |text, media| {
        let path = display_path;
        let reference = Reference {
            kind,
            path,
            lines,
            text,
        };
        Ok((reference, media))
    };
    // With its text at hand, a reference need not lead to a readable file.
    if let Some(text) = text {
        return build(text, Vec::new());
    }
    let real = real.map_err(|error| error.to_string())?;
    let FileContent { note, text, media } =
        read_content(workspace, &real).map_err(|error| format!("{}: {error}", path.display()))?;
    let wanted = match lines {
        Some((from, to)) => text
            .lines()
            .skip(from.saturating_sub(1) as usize)
            .take(to.saturating_add(1).saturating_sub(from) as usize)
            .collect::<Vec<_>>()
            .join("\n"),
        None => text,
    };
    // A known key in the file must reach no model and no store (I15).
    let wanted = redactor.redact_content(&wanted).unwrap_or(wanted);
    let mut excerpt = note + text::prefix_within(&wanted, MAX_REFERENCE);
    if wanted.len() > MAX_REFERENCE {
        excerpt.push_str("\n[… truncated; read the file for the rest …]");
    }
    build(excerpt, media)
}

/// What a model gets of a file, as `read_file` shows it.
struct FileContent {
    /// Says what `text` is, if it is not the file's own.
    note: String,
    text: String,
    media: Vec<MediaData>,
}

fn read_content(workspace: &WorkspaceShared, real: &Path) -> Result<FileContent, String> {
    let to_message = |error: LoadError| error.to_string();
    let is_unsaved = matches!(workspace.overlay().lookup_buffer(real), Buffer::Unsaved(_));
    if !is_unsaved {
        let mut file = load::open(real).map_err(to_message)?;
        if let Some(media) = read_media(&real.display().to_string(), &mut file)? {
            // Models would see nothing, or refuse the whole request.
            if media.media_type != PDF {
                picture::check(&media.bytes)
                    .map_err(|error| format!("the picture cannot be sent: {error}"))?;
            }
            return Ok(describe_media(&media));
        }
    }
    let text = load::load_file(workspace.overlay(), real)
        .map_err(to_message)?
        .file
        .text;
    if is_notebook(real)
        && let Ok(rendered) = notebook::render(&text)
    {
        let pictures = rendered.pictures.into_iter().map(|(_, picture)| picture);
        return Ok(FileContent {
            note: format!("[{}]\n", rendered.note),
            text: rendered.text,
            media: pictures.take(MAX_PICTURES).collect(),
        });
    }
    Ok(FileContent {
        note: String::new(),
        text,
        media: Vec::new(),
    })
}

/// Describes a picture or a PDF, which follows the reference. Pictures are scaled later, in the session.
fn describe_media(file: &MediaFile) -> FileContent {
    let MediaFile { media_type, bytes } = file;
    let length = bytes.len();
    FileContent {
        note: if *media_type == PDF {
            format!("[a PDF of {length} bytes, with all its pages: it follows]")
        } else {
            format!("[a picture, {media_type}, {length} bytes: it follows]")
        },
        text: String::new(),
        media: vec![MediaData {
            media_type: (*media_type).to_owned(),
            data: STANDARD.encode(bytes).into(),
        }],
    }
}
