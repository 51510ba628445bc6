//! Files that are not text but that models can see: pictures and PDFs.
//!
//! Owns how they are recognized and how large they may be. Must not scale pictures; that takes long.

use crate::base::nofollow::RegularFile;
use crate::base::picture;
use crate::domain::PDF;

/// Largest PDF, in bytes. Every request of the session carries it until a compaction, and APIs take 20 MB in all.
pub const MAX_DOCUMENT: u64 = 6 << 20;
/// Bytes at the start of a file that show what it is.
const HEAD: u64 = 16;

/// A picture or a PDF, as it is in its file.
#[derive(Debug)]
pub struct MediaFile {
    /// As in [`MediaData`](crate::domain::MediaData).
    pub media_type: &'static str,
    pub bytes: Vec<u8>,
}

/// Reads `file` if it is a picture or a PDF; `None` if it is neither. Blocks.
///
/// # Errors
/// It is too large or cannot be read. The text, for the model or the user, calls it `name`.
pub fn read_media(name: &str, file: &mut RegularFile) -> Result<Option<MediaFile>, String> {
    let head = file
        .read_start(HEAD)
        .map_err(|error| format!("cannot read `{name}`: {error}"))?;
    let length = file.metadata().len();
    let (media_type, limit) = if head.starts_with(b"%PDF-") {
        if length > MAX_DOCUMENT {
            return Err(format!(
                "`{name}` is a PDF of {length} bytes; at most {MAX_DOCUMENT} can be shown. Extract the text of the \
                 pages that you need, for example with the command `pdftotext -f FIRST -l LAST FILE -`"
            ));
        }
        (PDF, MAX_DOCUMENT)
    } else if let Some(media_type) = picture::detect_media_type(&head) {
        if length > picture::MAX_SOURCE_BYTES {
            return Err(format!(
                "`{name}` is a picture of {length} bytes; at most {} can be shown",
                picture::MAX_SOURCE_BYTES
            ));
        }
        (media_type, picture::MAX_SOURCE_BYTES)
    } else {
        return Ok(None);
    };
    let bytes = file
        .read(limit)
        .map_err(|error| format!("cannot read `{name}`: {error}"))?;
    Ok(Some(MediaFile { media_type, bytes }))
}
