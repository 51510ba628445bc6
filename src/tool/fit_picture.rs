//! Makes a picture in base64 fit for models, whoever sends it. Files have a check of their own in `read_file`.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::base::CancellationToken;
use crate::base::picture::{self, PictureError};
use crate::domain::MediaData;

/// Checks a picture, and scales down a large one. Returns it with what was done. Blocks for up to some seconds.
///
/// The media type is that of the bytes, whatever the sender calls them.
///
/// # Errors
/// A provider would refuse the picture, and the whole request with it. Or the call was canceled.
pub fn fit_picture(
    data: Arc<str>,
    stop: &CancellationToken,
) -> Result<(MediaData, Option<String>), PictureError> {
    // Some servers send a data URL.
    let data = match data
        .strip_prefix("data:")
        .and_then(|url| url.split_once(";base64,"))
    {
        Some((_, rest)) => Arc::from(rest),
        None => data,
    };
    let bytes = STANDARD
        .decode(data.as_bytes())
        .map_err(|_| PictureError::Malformed("it is not valid base64".to_owned()))?;
    let (media_type, data, done) = match picture::scale_down(&bytes, stop)? {
        Some(scaled) => (
            scaled.media_type,
            STANDARD.encode(&scaled.bytes).into(),
            Some(scaled.describe()),
        ),
        None => (picture::check(&bytes)?, data, None),
    };
    let media_type = media_type.to_owned();
    Ok((MediaData { media_type, data }, done))
}
