//! Decodes pictures into a scaler, within limits that hold before anything is decoded.

use std::io::Cursor;

use image_webp::WebPDecoder;
use memchr::memmem;
use png::Transformations;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::error::PictureError;
use super::scale::{Pixels, Scaler};
use crate::base::CancellationToken;

/// Most pixels of a picture that is decoded.
const MAX_PIXELS: u64 = 50_000_000;
/// Most pixels of a WebP, whose decoder needs up to 12 bytes for each: a frame, the canvas, and the result.
const MAX_WEBP_PIXELS: u64 = 20_000_000;
/// Most bytes that a PNG's extra chunks may take when they are unpacked.
const MAX_CHUNKS: usize = 8 << 20;
/// Most bytes of an interlaced PNG, which is decoded as a whole.
const MAX_INTERLACED: usize = 200 << 20;
/// Most scans of a progressive JPEG; encoders write about ten.
const MAX_SCANS: usize = 32;

/// Returns the most pixels that a picture of this media type may have.
pub(super) fn max_pixels(media_type: &str) -> u64 {
    if media_type == "image/webp" {
        MAX_WEBP_PIXELS
    } else {
        MAX_PIXELS
    }
}

/// Returns the width and height that the header states.
pub(super) fn read_size(media_type: &str, bytes: &[u8]) -> Result<(u32, u32), PictureError> {
    match media_type {
        "image/png" => read_png_size(bytes),
        "image/jpeg" => read_jpeg_size(bytes),
        "image/gif" => open_gif(bytes).map(|gif| (gif.width().into(), gif.height().into())),
        _ => open_webp(bytes).map(|webp| webp.dimensions()),
    }
}

/// Returns whether the end of a picture is missing. The end of a GIF is optional.
pub(super) fn is_cut_off(media_type: &str, bytes: &[u8]) -> bool {
    match media_type {
        // The last chunk has no data, so its checksum is always the same.
        "image/png" => memmem::rfind(bytes, b"IEND\xaeB`\x82").is_none(),
        // A preview in the header has an end of its own, before the last scan.
        "image/jpeg" => memmem::rfind(bytes, b"\xff\xda")
            .is_none_or(|scan| memmem::find(&bytes[scan..], b"\xff\xd9").is_none()),
        "image/webp" => {
            let length = bytes.get(4..8).and_then(|length| length.try_into().ok());
            length.is_none_or(|length| u64::from(u32::from_le_bytes(length)) + 8 > bytes.len() as u64)
        }
        _ => false,
    }
}

/// Returns the scaled picture, and whether it was compressed with loss. The caller has checked its size.
pub(super) fn scale(
    media_type: &str,
    bytes: &[u8],
    edge: u32,
    stop: &CancellationToken,
) -> Result<(Pixels, bool), PictureError> {
    match media_type {
        "image/png" => scale_png(bytes, edge, stop).map(|pixels| (pixels, false)),
        "image/jpeg" => scale_jpeg(bytes, edge, stop).map(|pixels| (pixels, true)),
        "image/gif" => scale_gif(bytes, edge, stop).map(|pixels| (pixels, false)),
        _ => scale_webp(bytes, edge, stop),
    }
}

fn open_png(bytes: &[u8]) -> png::Decoder<Cursor<&[u8]>> {
    let limits = png::Limits { bytes: MAX_CHUNKS };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(Transformations::normalize_to_color8());
    decoder
}

fn read_png_size(bytes: &[u8]) -> Result<(u32, u32), PictureError> {
    let mut decoder = open_png(bytes);
    let info = decoder.read_header_info().map_err(PictureError::malformed)?;
    Ok((info.width, info.height))
}

fn scale_png(bytes: &[u8], edge: u32, stop: &CancellationToken) -> Result<Pixels, PictureError> {
    let mut reader = open_png(bytes).read_info().map_err(PictureError::malformed)?;
    let size = reader.info().size();
    let channels = reader.output_color_type().0.samples();
    let mut scaler = Scaler::new(size, channels, edge);
    if reader.info().interlaced {
        let needed = reader
            .output_buffer_size()
            .filter(|needed| *needed <= MAX_INTERLACED);
        let needed = needed.ok_or(PictureError::TooLarge(size.0, size.1, MAX_PIXELS))?;
        let mut whole = vec![0; needed];
        reader.next_frame(&mut whole).map_err(PictureError::malformed)?;
        push_rows(&mut scaler, &whole, size.0 as usize * channels, stop)?;
    } else {
        while let Some(row) = reader.next_row().map_err(PictureError::malformed)? {
            push_rows(&mut scaler, row.data(), size.0 as usize * channels, stop)?;
        }
    }
    Ok(scaler.finish())
}

fn open_jpeg(bytes: &[u8]) -> JpegDecoder<ZCursor<&[u8]>> {
    let options = DecoderOptions::new_safe()
        .set_max_width(usize::from(u16::MAX))
        .set_max_height(usize::from(u16::MAX))
        .jpeg_set_max_scans(MAX_SCANS);
    JpegDecoder::new_with_options(ZCursor::new(bytes), options)
}

fn read_jpeg_size(bytes: &[u8]) -> Result<(u32, u32), PictureError> {
    let mut decoder = open_jpeg(bytes);
    decoder.decode_headers().map_err(PictureError::malformed)?;
    let info = decoder
        .info()
        .ok_or_else(|| PictureError::malformed("it has no header"))?;
    Ok((u32::from(info.width), u32::from(info.height)))
}

fn scale_jpeg(bytes: &[u8], edge: u32, stop: &CancellationToken) -> Result<Pixels, PictureError> {
    let mut decoder = open_jpeg(bytes);
    decoder.decode_headers().map_err(PictureError::malformed)?;
    // Everything else, such as CMYK, becomes RGB.
    let (color, channels) = match decoder.input_colorspace() {
        Some(ColorSpace::Luma) => (ColorSpace::Luma, 1),
        _ => (ColorSpace::RGB, 3),
    };
    let options = decoder.options().jpeg_set_out_colorspace(color);
    decoder.set_options(options);
    let info = decoder
        .info()
        .ok_or_else(|| PictureError::malformed("it has no header"))?;
    let size = (u32::from(info.width), u32::from(info.height));
    let whole = decoder.decode().map_err(PictureError::malformed)?;
    let mut scaler = Scaler::new(size, channels, edge);
    push_rows(&mut scaler, &whole, size.0 as usize * channels, stop)?;
    let orientation = decoder.exif().and_then(|exif| read_orientation(exif));
    Ok(scaler.finish().set_upright(orientation.unwrap_or(1)))
}

fn open_gif(bytes: &[u8]) -> Result<gif::Decoder<&[u8]>, PictureError> {
    let mut options = gif::DecodeOptions::new();
    // A frame has at most the pixels of the screen, and those are limited.
    options.check_frame_consistency(true);
    options.read_info(bytes).map_err(PictureError::malformed)
}

/// Scales the first frame, which may cover only a part of the screen.
fn scale_gif(bytes: &[u8], edge: u32, stop: &CancellationToken) -> Result<Pixels, PictureError> {
    let mut decoder = open_gif(bytes)?;
    let (width, height) = (decoder.width(), decoder.height());
    let shared_palette = decoder.global_palette().unwrap_or_default().to_vec();
    let frame = decoder.read_next_frame().map_err(PictureError::malformed)?;
    let frame = frame.ok_or_else(|| PictureError::malformed("it has no frame"))?;
    let palette = frame.palette.as_deref().unwrap_or(&shared_palette);
    let mut lines = frame.buffer.chunks_exact(usize::from(frame.width).max(1));
    let mut scaler = Scaler::new((width.into(), height.into()), 4, edge);
    let mut row = vec![0; usize::from(width) * 4];
    for y in 0..height {
        row.fill(0);
        let line = if y < frame.top { None } else { lines.next() };
        let covered = row[usize::from(frame.left) * 4..].chunks_exact_mut(4);
        for (pixel, index) in covered.zip(line.unwrap_or_default()) {
            let color = usize::from(*index) * 3;
            if frame.transparent != Some(*index)
                && let Some(color) = palette.get(color..color + 3)
            {
                pixel[..3].copy_from_slice(color);
                pixel[3] = u8::MAX;
            }
        }
        push_rows(&mut scaler, &row, row.len(), stop)?;
    }
    Ok(scaler.finish())
}

fn open_webp(bytes: &[u8]) -> Result<WebPDecoder<Cursor<&[u8]>>, PictureError> {
    let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(PictureError::malformed)?;
    // Chunks of metadata are part of the file.
    decoder.set_memory_limit(bytes.len());
    Ok(decoder)
}

/// Scales the picture or the first frame. Returns it, and whether it was compressed with loss.
fn scale_webp(bytes: &[u8], edge: u32, stop: &CancellationToken) -> Result<(Pixels, bool), PictureError> {
    let mut decoder = open_webp(bytes)?;
    let size = decoder.dimensions();
    check_lossy_frames(bytes, size)?;
    let channels = if decoder.has_alpha() { 4 } else { 3 };
    let mut whole = vec![0; size.0 as usize * size.1 as usize * channels];
    decoder.read_image(&mut whole).map_err(PictureError::malformed)?;
    let mut scaler = Scaler::new(size, channels, edge);
    push_rows(&mut scaler, &whole, size.0 as usize * channels, stop)?;
    let exif = decoder.exif_metadata().ok().flatten();
    let orientation = exif.and_then(|exif| read_orientation(&exif));
    let pixels = scaler.finish().set_upright(orientation.unwrap_or(1));
    Ok((pixels, decoder.is_lossy()))
}

/// Refuses a WebP with a lossy frame that is larger than the picture: the decoder would find out only after decoding it.
fn check_lossy_frames(bytes: &[u8], (width, height): (u32, u32)) -> Result<(), PictureError> {
    // The chunk's name and length, a tag, and the start code; then width and height, with 14 bits each.
    for at in memmem::find_iter(bytes, b"VP8 ") {
        if let Some([_, _, _, 0x9d, 0x01, 0x2a, a, b, c, d]) = bytes.get(at + 8..at + 18) {
            let edge = |low: u8, high: u8| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
            if edge(*a, *b) > width || edge(*c, *d) > height {
                return Err(PictureError::malformed("a frame is larger than the picture"));
            }
        }
    }
    Ok(())
}

fn push_rows(
    scaler: &mut Scaler,
    rows: &[u8],
    length: usize,
    stop: &CancellationToken,
) -> Result<(), PictureError> {
    for row in rows.chunks_exact(length.max(1)) {
        if stop.is_cancelled() {
            return Err(PictureError::Cancelled);
        }
        scaler.push_row(row);
    }
    Ok(())
}

/// Returns the orientation that EXIF data state: a TIFF header, then the entries of the first folder.
pub(super) fn read_orientation(exif: &[u8]) -> Option<u16> {
    const ORIENTATION: u16 = 0x0112;
    let is_little = exif.starts_with(b"II");
    if !is_little && !exif.starts_with(b"MM") {
        return None;
    }
    let short = |at: usize| {
        let bytes: [u8; 2] = exif.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if is_little {
            u16::from_le_bytes(bytes)
        } else {
            u16::from_be_bytes(bytes)
        })
    };
    let offset: [u8; 4] = exif.get(4..8)?.try_into().ok()?;
    let offset = if is_little {
        u32::from_le_bytes(offset)
    } else {
        u32::from_be_bytes(offset)
    };
    let folder = usize::try_from(offset).ok()?;
    let count = usize::from(short(folder)?);
    (0..count)
        .filter_map(|entry| folder.checked_add(2 + 12 * entry))
        .find(|at| short(*at) == Some(ORIENTATION))
        .and_then(|at| short(at + 8))
}
