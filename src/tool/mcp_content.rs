//! What an MCP server sends, as text and images that every provider accepts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::base::CancellationToken;
use crate::base::picture::{self, PictureError, detect_media_type};
use crate::base::text::one_line;
use crate::domain::MediaData;
use crate::mcp::McpContent;

/// The most images of a result.
const MAX_IMAGES: usize = 10;
/// The largest image, in bytes of base64; providers refuse larger ones.
const MAX_IMAGE: usize = picture::MAX_BYTES as usize / 3 * 4;

/// Content for a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RenderedContent {
    /// Empty if there is none.
    pub text: String,
    pub images: Vec<MediaData>,
}

/// Converts content. What no model can read is named in the text. The caller cuts a text that is too long.
///
/// Blocks while large images are scaled down. After a cancel, they are left out.
pub fn render_contents(contents: Vec<McpContent>, stop: &CancellationToken) -> RenderedContent {
    let mut texts: Vec<String> = Vec::new();
    let mut images = Vec::new();
    for content in contents {
        texts.push(match content {
            McpContent::Text(text) => text,
            McpContent::Document { uri, text } => format!("[document {uri}]\n{text}"),
            McpContent::Link { uri, name } => format!("[link to {uri}: {name}]"),
            McpContent::Other(what) => format!("[{what}: not shown]"),
            McpContent::Image { media_type, data } => match to_image(&media_type, data, images.len(), stop) {
                Ok((image, note)) => {
                    images.push(image);
                    let Some(note) = note else { continue };
                    format!("[image {}: {note}]", images.len())
                }
                Err(reason) => format!("[an image is not shown: {reason}]"),
            },
        });
    }
    RenderedContent {
        text: texts.join("\n"),
        images,
    }
}

/// Checks an image, because a provider would refuse the whole request for a bad one, and scales down a large one.
/// Returns it with what was done.
fn to_image(
    stated: &str,
    data: String,
    before: usize,
    stop: &CancellationToken,
) -> Result<(MediaData, Option<String>), String> {
    if before >= MAX_IMAGES {
        return Err(format!("a result has at most {MAX_IMAGES}"));
    }
    let bytes = STANDARD
        .decode(data.as_bytes())
        .map_err(|_| "it is not valid base64".to_owned())?;
    // What a server calls it does not count.
    let media_type = detect_media_type(&bytes)
        .ok_or_else(|| format!("{:?} is not PNG, JPEG, GIF, or WebP", one_line(stated, 40)))?;
    match picture::scale_down(&bytes, stop) {
        Ok(Some(scaled)) => {
            let image = MediaData {
                media_type: scaled.media_type.to_owned(),
                data: STANDARD.encode(&scaled.bytes).into(),
            };
            Ok((image, Some(scaled.describe())))
        }
        Err(error @ (PictureError::TooLarge(..) | PictureError::CutOff | PictureError::Cancelled)) => {
            Err(error.to_string())
        }
        Ok(None) | Err(PictureError::Malformed(_)) if data.len() > MAX_IMAGE => {
            Err(format!("it has {} bytes", data.len() / 4 * 3))
        }
        // The provider may be able to read what we cannot.
        Ok(None) | Err(PictureError::Malformed(_)) => {
            let image = MediaData {
                media_type: media_type.to_owned(),
                data: data.into(),
            };
            Ok((image, None))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIXEL: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

    #[test]
    fn images_that_a_provider_would_refuse_are_left_out() {
        let image = |data: String| McpContent::Image {
            media_type: "image/png".to_owned(),
            data,
        };
        for (data, reason) in [
            ("!".to_owned(), "not valid base64"),
            (STANDARD.encode("text"), "is not PNG"),
            (
                STANDARD.encode([b"GIF89a".as_slice(), &vec![0; MAX_IMAGE]].concat()),
                "it has",
            ),
        ] {
            let output = render_contents(vec![image(data)], &CancellationToken::new());
            assert!(
                output.images.is_empty() && output.text.contains(reason),
                "{}",
                output.text
            );
        }
        let many = vec![image(PIXEL.to_owned()); MAX_IMAGES + 2];
        assert_eq!(
            render_contents(many, &CancellationToken::new()).images.len(),
            MAX_IMAGES
        );
    }
}
