//! Pictures in a user's message, made fit for models. It must not know where a message comes from.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::base::CancellationToken;
use crate::base::picture::{self, detect_media_type};
use crate::domain::{Block, MediaData};

/// Scales down the pictures that are larger than models see, and corrects media types. Blocks for up to some seconds.
///
/// What cannot be read here stays as it is: the provider may be able to. If it refuses, the turn goes on without the
/// picture.
pub(super) fn fit_pictures(content: &mut [Block]) {
    for block in content {
        if let Block::Image(image) = block
            && let Some(fitted) = fit_picture(image)
        {
            *image = fitted;
        }
    }
}

fn fit_picture(image: &MediaData) -> Option<MediaData> {
    let bytes = STANDARD.decode(image.data.as_bytes()).ok()?;
    let media_type = detect_media_type(&bytes)?;
    if let Ok(Some(scaled)) = picture::scale_down(&bytes, &CancellationToken::new()) {
        return Some(MediaData {
            media_type: scaled.media_type.to_owned(),
            data: STANDARD.encode(&scaled.bytes).into(),
        });
    }
    // A provider refuses a picture that is not what it is called.
    (media_type != image.media_type).then(|| MediaData {
        media_type: media_type.to_owned(),
        data: image.data.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let damaged = to_image("image/png", b"\x89PNG\r\n\x1a\n....");
        let gif = to_image("image/gif", b"GIF89a....");
        let mut content = vec![
            Block::Text("see".to_owned()),
            to_image("image/jpeg", &large),
            damaged.clone(),
            to_image("image/png", b"GIF89a...."),
            gif.clone(),
            to_image("image/png", b"?"),
        ];
        let odd = content[5].clone();
        fit_pictures(&mut content);
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
        assert_eq!(
            content,
            [Block::Text("see".to_owned()), damaged, gif.clone(), gif, odd]
        );
    }
}
