//! What is not text: pictures, which users attach to a prompt and tools return. Plain values.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A picture in a form that every provider accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct MediaData {
    /// `image/png`, `image/jpeg`, `image/gif`, or `image/webp`.
    pub media_type: String,
    /// The bytes in base64.
    pub data: Arc<str>,
}
