//! What an MCP server sends, as text and images that every provider accepts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::base::text::one_line;
use crate::domain::ImageData;
use crate::mcp::McpContent;

/// The most images of a result.
const MAX_IMAGES: usize = 10;
/// The largest image, in bytes of base64; providers refuse larger ones.
const MAX_IMAGE: usize = 5 << 20;

/// Content for a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RenderedContent {
    /// Empty if there is none.
    pub text: String,
    pub images: Vec<ImageData>,
}

/// Converts content. What no model can read is named in the text. The caller cuts a text that is too long.
pub fn render_contents(contents: Vec<McpContent>) -> RenderedContent {
    let mut texts: Vec<String> = Vec::new();
    let mut images = Vec::new();
    for content in contents {
        texts.push(match content {
            McpContent::Text(text) => text,
            McpContent::Document { uri, text } => format!("[document {uri}]\n{text}"),
            McpContent::Link { uri, name } => format!("[link to {uri}: {name}]"),
            McpContent::Other(what) => format!("[{what}: not shown]"),
            McpContent::Image { media_type, data } => match to_image(&media_type, data, images.len()) {
                Ok(image) => {
                    images.push(image);
                    continue;
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

/// Checks an image: a provider would refuse the whole request for a bad one.
fn to_image(stated: &str, data: String, before: usize) -> Result<ImageData, String> {
    if before >= MAX_IMAGES {
        return Err(format!("a result has at most {MAX_IMAGES}"));
    }
    if data.len() > MAX_IMAGE {
        return Err(format!("it has {} bytes", data.len() / 4 * 3));
    }
    let bytes = STANDARD
        .decode(data.as_bytes())
        .map_err(|_| "it is not valid base64".to_owned())?;
    // What a server calls it does not count.
    let media_type = super::read_file::image_type(&bytes)
        .ok_or_else(|| format!("{:?} is not PNG, JPEG, GIF, or WebP", one_line(stated, 40)))?;
    Ok(ImageData {
        media_type: media_type.to_owned(),
        data: data.into(),
    })
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
            ("A".repeat(MAX_IMAGE + 1), "it has"),
        ] {
            let output = render_contents(vec![image(data)]);
            assert!(
                output.images.is_empty() && output.text.contains(reason),
                "{}",
                output.text
            );
        }
        let many = vec![image(PIXEL.to_owned()); MAX_IMAGES + 2];
        assert_eq!(render_contents(many).images.len(), MAX_IMAGES);
    }
}
