//! The reasons why a picture cannot be scaled.

/// The reason why a picture cannot be scaled.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// Width, height, and the limit of pixels for the format.
    #[error("it has {0} × {1} pixels; at most {limit} million can be scaled", limit = .2 / 1_000_000)]
    TooLarge(u32, u32, u64),
    #[error("its end is missing, so the file is damaged")]
    CutOff,
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
