//! What an MCP server sends, as text and images that every provider accepts.

use super::fit_picture::fit_picture;
use crate::base::CancellationToken;
use crate::domain::MediaData;
use crate::mcp::McpContent;

/// The most images of a result.
const MAX_IMAGES: usize = 10;

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
            McpContent::Image { .. } if images.len() >= MAX_IMAGES => {
                format!("[an image is not shown: a result has at most {MAX_IMAGES}]")
            }
            // What a server calls it does not count.
            McpContent::Image { data, .. } => match fit_picture(data.into(), stop) {
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

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::base::picture::MAX_BYTES;

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
                STANDARD.encode([b"GIF89a".as_slice(), &vec![0; MAX_BYTES as usize]].concat()),
                "an image is not shown: it cannot be decoded",
            ),
            (
                STANDARD.encode(b"\x89PNG\r\n\x1a\n...."),
                "an image is not shown: it cannot be decoded",
            ),
        ] {
            let output = render_contents(vec![image(data)], &CancellationToken::new());
            assert!(
                output.images.is_empty() && output.text.contains(reason),
                "{}",
                output.text
            );
        }
        let url = image(format!("data:image/png;base64,{PIXEL}"));
        let output = render_contents(vec![url], &CancellationToken::new());
        assert_eq!(&*output.images[0].data, PIXEL);
        let many = vec![image(PIXEL.to_owned()); MAX_IMAGES + 2];
        assert_eq!(
            render_contents(many, &CancellationToken::new()).images.len(),
            MAX_IMAGES
        );
    }
}
