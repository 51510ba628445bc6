//! Pictures for models: recognizing them, and scaling down those that are larger than a model sees.
//!
//! Decodes PNG, JPEG, GIF, and WebP; of an animation, the first frame. Everything is bounded before it is decoded, so that
//! a small file cannot claim much memory, and one picture is decoded at a time. Blocks for up to some seconds: call it off
//! the async threads.

mod decode;
mod error;
mod scale;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use super::CancellationToken;
pub use error::PictureError;
use scale::Pixels;

/// Most bytes of a picture that a request takes: 5 MiB as base64, the limit of the APIs.
pub const MAX_BYTES: u64 = 15 << 18;
/// Most bytes of a picture that is scaled down.
pub const MAX_SOURCE_BYTES: u64 = 64 << 20;
/// The longest edge that is sent, in pixels. Anthropic scales larger pictures down to this, OpenAI to a similar size.
pub const MAX_EDGE: u32 = 1_568;
/// Of 100; what remains visible at this quality is more than a model needs.
const JPEG_QUALITY: u8 = 85;

/// Holds the memory of one decoded picture.
static DECODING: Mutex<()> = Mutex::new(());

/// Returns the media type by the first bytes, if every provider accepts it.
pub fn detect_media_type(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// A picture that was scaled down or compressed.
#[derive(Debug, PartialEq, Eq)]
pub struct ScaledPicture {
    pub media_type: &'static str,
    pub bytes: Vec<u8>,
    /// Width and height before, in pixels.
    pub from: (u32, u32),
    /// Width and height now.
    pub to: (u32, u32),
}

impl ScaledPicture {
    /// Says what was done, as a part of a sentence for the model.
    pub fn describe(&self) -> String {
        let ((width, height), (new_width, new_height)) = (self.from, self.to);
        if self.from == self.to {
            return "compressed".to_owned();
        }
        format!("scaled down from {width} × {height} to {new_width} × {new_height} pixels")
    }
}

/// Scales a picture down if it has more pixels or bytes than a model takes. `None` if it is fine as it is.
///
/// # Errors
/// The picture is damaged or too large, or the call was canceled.
pub fn scale_down(bytes: &[u8], stop: &CancellationToken) -> Result<Option<ScaledPicture>, PictureError> {
    // A damaged picture must not end more than this, whatever the decoders make of it.
    catch_unwind(AssertUnwindSafe(|| scale_to_fit(bytes, stop)))
        .unwrap_or_else(|_| Err(PictureError::malformed("the decoder failed")))
}

/// Checks a picture without decoding it, as far as that goes. Returns its media type by the bytes.
///
/// # Errors
/// Its header is damaged, its end is missing, or it has more pixels than are scaled.
pub fn check(bytes: &[u8]) -> Result<&'static str, PictureError> {
    let (format, _) = catch_unwind(|| read_header(bytes))
        .unwrap_or_else(|_| Err(PictureError::malformed("the decoder failed")))?;
    if decode::is_cut_off(format, bytes) {
        return Err(PictureError::CutOff);
    }
    Ok(format)
}

/// Returns the media type, the width, and the height.
fn read_header(bytes: &[u8]) -> Result<(&'static str, (u32, u32)), PictureError> {
    let format = detect_media_type(bytes)
        .ok_or_else(|| PictureError::malformed("its format is not PNG, JPEG, GIF, or WebP"))?;
    let (width, height) = decode::read_size(format, bytes)?;
    let max_pixels = decode::max_pixels(format);
    if u64::from(width) * u64::from(height) > max_pixels {
        return Err(PictureError::TooLarge(width, height, max_pixels));
    }
    Ok((format, (width, height)))
}

fn scale_to_fit(bytes: &[u8], stop: &CancellationToken) -> Result<Option<ScaledPicture>, PictureError> {
    let (format, size) = read_header(bytes)?;
    let (width, height) = size;
    if width.max(height) <= MAX_EDGE && bytes.len() as u64 <= MAX_BYTES {
        // Nothing decodes it here, and a provider would refuse it.
        let is_cut_off = decode::is_cut_off(format, bytes);
        return if is_cut_off {
            Err(PictureError::CutOff)
        } else {
            Ok(None)
        };
    }
    let _one_at_a_time = DECODING.lock().unwrap_or_else(PoisonError::into_inner);
    let (pixels, is_lossy) = decode::scale(format, bytes, MAX_EDGE, stop)?;
    let (media_type, written) = encode(&pixels, is_lossy)?;
    Ok(Some(ScaledPicture {
        media_type,
        bytes: written,
        from: size,
        to: (pixels.width, pixels.height),
    }))
}

/// Writes a PNG if it fits and a JPEG would lose something: what was not lossy before, and transparency.
fn encode(pixels: &Pixels, is_lossy: bool) -> Result<(&'static str, Vec<u8>), PictureError> {
    if !is_lossy || pixels.has_alpha() {
        let png = encode_png(pixels).map_err(PictureError::malformed)?;
        if png.len() as u64 <= MAX_BYTES {
            return Ok(("image/png", png));
        }
    }
    Ok((
        "image/jpeg",
        encode_jpeg(pixels).map_err(PictureError::malformed)?,
    ))
}

fn encode_png(pixels: &Pixels) -> Result<Vec<u8>, png::EncodingError> {
    let mut written = Vec::new();
    let mut encoder = png::Encoder::new(&mut written, pixels.width, pixels.height);
    encoder.set_color(match pixels.channels {
        1 => png::ColorType::Grayscale,
        2 => png::ColorType::GrayscaleAlpha,
        3 => png::ColorType::Rgb,
        _ => png::ColorType::Rgba,
    });
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels.data)?;
    writer.finish()?;
    Ok(written)
}

fn encode_jpeg(pixels: &Pixels) -> Result<Vec<u8>, io::Error> {
    let opaque = pixels.flatten_on_white();
    let color = if opaque.channels == 1 {
        jpeg_encoder::ColorType::Luma
    } else {
        jpeg_encoder::ColorType::Rgb
    };
    let mut written = Vec::new();
    // Both edges are at most `MAX_EDGE`.
    let edge = |length: u32| u16::try_from(length).map_err(io::Error::other);
    jpeg_encoder::Encoder::new(&mut written, JPEG_QUALITY)
        .encode(&opaque.data, edge(opaque.width)?, edge(opaque.height)?, color)
        .map_err(io::Error::other)?;
    Ok(written)
}

#[cfg(test)]
mod tests;
