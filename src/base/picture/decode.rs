//! Decodes PNG and JPEG into a scaler, within limits that hold before anything is decoded.

use std::io::Cursor;

use png::Transformations;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::error::PictureError;
use super::scale::{Pixels, Scaler};
use crate::base::CancellationToken;

/// Most bytes that a PNG's extra chunks may take when they are unpacked.
const MAX_CHUNKS: usize = 8 << 20;
/// Most bytes of an interlaced PNG, which is decoded as a whole.
const MAX_INTERLACED: usize = 200 << 20;
/// Most scans of a progressive JPEG; encoders write about ten.
const MAX_SCANS: usize = 32;

fn open_png(bytes: &[u8]) -> png::Decoder<Cursor<&[u8]>> {
    let limits = png::Limits { bytes: MAX_CHUNKS };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(Transformations::normalize_to_color8());
    decoder
}

/// Returns the width and height that the header states.
pub(super) fn read_png_size(bytes: &[u8]) -> Result<(u32, u32), PictureError> {
    let mut decoder = open_png(bytes);
    let info = decoder.read_header_info().map_err(PictureError::malformed)?;
    Ok((info.width, info.height))
}

pub(super) fn scale_png(bytes: &[u8], edge: u32, stop: &CancellationToken) -> Result<Pixels, PictureError> {
    let mut reader = open_png(bytes).read_info().map_err(PictureError::malformed)?;
    let size = reader.info().size();
    let channels = reader.output_color_type().0.samples();
    let mut scaler = Scaler::new(size, channels, edge);
    if reader.info().interlaced {
        let needed = reader
            .output_buffer_size()
            .filter(|needed| *needed <= MAX_INTERLACED);
        let needed = needed.ok_or(PictureError::TooLarge(size.0, size.1))?;
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

/// Returns the width and height that the header states.
pub(super) fn read_jpeg_size(bytes: &[u8]) -> Result<(u32, u32), PictureError> {
    let mut decoder = open_jpeg(bytes);
    decoder.decode_headers().map_err(PictureError::malformed)?;
    let info = decoder
        .info()
        .ok_or_else(|| PictureError::malformed("it has no header"))?;
    Ok((u32::from(info.width), u32::from(info.height)))
}

pub(super) fn scale_jpeg(bytes: &[u8], edge: u32, stop: &CancellationToken) -> Result<Pixels, PictureError> {
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
