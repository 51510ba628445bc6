//! What is not text: pictures, which users attach to a prompt and tools return, and documents of tools. Plain values.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The media type of a PDF.
pub const PDF: &str = "application/pdf";

/// A picture in a form that every provider accepts, or a document, which only some models accept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct MediaData {
    /// `image/png`, `image/jpeg`, `image/gif`, `image/webp`, or [`PDF`].
    pub media_type: String,
    /// The bytes in base64.
    pub data: Arc<str>,
}

impl MediaData {
    /// Returns whether it is a PDF rather than a picture.
    pub fn is_document(&self) -> bool {
        self.media_type == PDF
    }
}
