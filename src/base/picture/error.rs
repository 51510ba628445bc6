//! The reasons why a picture cannot be scaled.

/// Most pixels of a picture that is decoded.
pub(super) const MAX_PIXELS: u64 = 50_000_000;

/// The reason why a picture cannot be scaled.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    #[error("it has {0} × {1} pixels; at most {limit} million can be scaled", limit = MAX_PIXELS / 1_000_000)]
    TooLarge(u32, u32),
    #[error("it cannot be decoded: {0}")]
    Malformed(String),
    #[error("canceled")]
    Cancelled,
}

impl PictureError {
    pub(super) fn malformed(error: impl std::fmt::Display) -> Self {
        Self::Malformed(error.to_string())
    }
}
