//! Pictures in a user's message, made fit for models. It must not know where a message comes from.

use crate::base::CancellationToken;
use crate::domain::Block;
use crate::tool::fit_picture::fit_picture;

/// Scales down the pictures that are larger than models see, and corrects media types. Blocks for up to some seconds.
///
/// # Errors
/// A provider would refuse a picture. The text, for the user, names it by its number.
pub(super) fn fit_pictures(content: &mut [Block]) -> Result<(), String> {
    let images = content.iter_mut().filter_map(|block| match block {
        Block::Image(image) if !image.is_document() => Some(image),
        _ => None,
    });
    for (number, image) in (1..).zip(images) {
        let fitted = fit_picture(image.data.clone(), &CancellationToken::new());
        (*image, _) =
            fitted.map_err(|error| format!("picture {number} of the message cannot be sent: {error}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::domain::{MediaData, PDF};

    const DOT: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    fn to_image(media_type: &str, bytes: &[u8]) -> Block {
        Block::Image(MediaData {
            media_type: media_type.to_owned(),
            data: STANDARD.encode(bytes).into(),
        })
    }

    #[test]
    fn only_what_does_not_fit_is_changed() {
        let mut large = Vec::new();
        let mut encoder = png::Encoder::new(&mut large, 4_000, 2_000);
        encoder.set_color(png::ColorType::Grayscale);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&vec![7; 8_000_000]).unwrap();
        writer.finish().unwrap();
        let png = STANDARD.decode(DOT).unwrap();
        let document = Block::Image(MediaData {
            media_type: PDF.to_owned(),
            data: "?".into(),
        });
        let mut content = vec![
            Block::Text("see".to_owned()),
            to_image("image/jpeg", &large),
            to_image("image/gif", &png),
            document.clone(),
            to_image("image/png", &png),
        ];
        fit_pictures(&mut content).unwrap();
        let Block::Image(scaled) = content.remove(1) else {
            panic!("{content:?}")
        };
        assert_eq!(scaled.media_type, "image/png");
        let bytes = STANDARD.decode(&*scaled.data).unwrap();
        let (width, height) = (&bytes[16..20], &bytes[20..24]);
        assert_eq!(
            (width, height),
            (&1_568_u32.to_be_bytes()[..], &784_u32.to_be_bytes()[..])
        );
        let png = to_image("image/png", &png);
        assert_eq!(
            content,
            [Block::Text("see".to_owned()), png.clone(), document, png.clone()]
        );
        for (damaged, reason) in [
            (&b"\x89PNG\r\n\x1a\n...."[..], "it cannot be decoded: "),
            (b"GIF89a....", "it cannot be decoded: "),
            (&large[..large.len() - 20], "it cannot be decoded: "),
            (
                b"?",
                "it cannot be decoded: its format is not PNG, JPEG, GIF, or WebP",
            ),
        ] {
            let mut content = [png.clone(), to_image("image/png", damaged)];
            let error = fit_pictures(&mut content).unwrap_err();
            let expected = format!("picture 2 of the message cannot be sent: {reason}");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
