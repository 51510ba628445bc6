//! Tests of scaling pictures, and of the limits.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::decode::read_orientation;
use super::scale::Scaler;
use super::*;

fn png(width: u32, height: u32, pixel: impl Fn(u32, u32) -> [u8; 4]) -> Vec<u8> {
    let mut data = Vec::new();
    for y in 0..height {
        for x in 0..width {
            data.extend(pixel(x, y));
        }
    }
    encode_png(&Pixels {
        width,
        height,
        channels: 4,
        data,
    })
    .unwrap()
}

/// A JPEG whose upper half is black, with an orientation in its EXIF data.
fn jpeg(width: u16, height: u16, orientation: u8) -> Vec<u8> {
    let (columns, rows) = (usize::from(width), usize::from(height));
    let mut data = vec![0; columns * (rows / 2)];
    data.resize(columns * rows, 255);
    let mut written = Vec::new();
    let mut encoder = jpeg_encoder::Encoder::new(&mut written, 90);
    let mut exif = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
    exif.extend([orientation, 0, 0, 0, 0, 0, 0]);
    encoder.add_exif_metadata(&exif).unwrap();
    encoder
        .encode(&data, width, height, jpeg_encoder::ColorType::Luma)
        .unwrap();
    written
}

fn scaled(bytes: &[u8]) -> Option<ScaledPicture> {
    scale_down(bytes, &CancellationToken::new()).unwrap()
}

/// Decodes a result again, whose size needs no more scaling.
fn pixels_of(picture: &ScaledPicture) -> Pixels {
    let stop = CancellationToken::new();
    let (pixels, _) = decode::scale(picture.media_type, &picture.bytes, MAX_EDGE, &stop).unwrap();
    pixels
}

/// A GIF of one color whose frame begins at 2, 2 and ends with the screen, and a second frame.
fn gif(width: u16, height: u16, is_interlaced: bool) -> Vec<u8> {
    let mut written = Vec::new();
    let mut encoder = gif::Encoder::new(&mut written, width, height, &[1, 2, 3, 200, 100, 0]).unwrap();
    let (frame_width, frame_height) = (width - 2, height - 2);
    // The third column is transparent.
    let line = |at: usize| u8::from(at % usize::from(frame_width) != 2);
    let first = gif::Frame {
        left: 2,
        top: 2,
        width: frame_width,
        height: frame_height,
        transparent: Some(0),
        interlaced: is_interlaced,
        buffer: (0..usize::from(frame_width) * usize::from(frame_height))
            .map(line)
            .collect(),
        ..gif::Frame::default()
    };
    encoder.write_frame(&first).unwrap();
    let second = gif::Frame::from_palette_pixels(
        width,
        height,
        vec![0; usize::from(width) * usize::from(height)],
        [9; 3],
        None,
    );
    encoder.write_frame(&second).unwrap();
    drop(encoder);
    written
}

/// The lossy frame of a WebP, 2,000 × 16 pixels: red on the left, blue on the right.
const LOSSY: &str = "\
    EAoAnQEq0AcQAD9xuNhltK8rpyCIApAuCWlu4XSbkAAAd0XiCo57Yi8QVHPbEXiCo57Yi8QVHPbEXiCnp3ReIKjntiLxBUc9sReI\
    KjntiLxBUc9sReIKjKAA/v0TK/1Udjk5/8GF+IP1BqRhjiEaUIAGD999sc/5OH/n7/6kD/ImsF//EJBCAAAAAAA=";

fn lossy() -> Vec<u8> {
    STANDARD.decode(LOSSY).unwrap()
}

/// The bitstream of a lossless frame.
fn lossless(width: u32, height: u32, pixel: [u8; 4]) -> Vec<u8> {
    let mut written = Vec::new();
    image_webp::WebPEncoder::new(&mut written)
        .encode(
            &pixel.repeat((width * height) as usize),
            width,
            height,
            image_webp::ColorType::Rgba8,
        )
        .unwrap();
    // What follows is one chunk.
    written.split_off(20)
}

fn chunk(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut written = [name.as_slice(), &(data.len() as u32).to_le_bytes(), data].concat();
    written.resize(written.len().next_multiple_of(2), 0);
    written
}

/// A WebP with these chunks. The flags: 2 animated, 8 EXIF, 16 alpha.
fn webp(flags: u8, (width, height): (u32, u32), chunks: &[Vec<u8>]) -> Vec<u8> {
    let edge = |length: u32| (length - 1).to_le_bytes();
    let head = [&[flags, 0, 0, 0], &edge(width)[..3], &edge(height)[..3]].concat();
    chunk(
        b"RIFF",
        &[b"WEBP".as_slice(), &chunk(b"VP8X", &head), &chunks.concat()].concat(),
    )
}

/// A frame of an animation, at 4, 2.
fn animated(width: u32, height: u32, chunks: &[Vec<u8>]) -> Vec<u8> {
    let edge = |length: u32| (length - 1).to_le_bytes();
    let head = [
        &[2, 0, 0, 1, 0, 0],
        &edge(width)[..3],
        &edge(height)[..3],
        &[100, 0, 0, 2],
    ]
    .concat();
    chunk(b"ANMF", &[head, chunks.concat()].concat())
}

#[test]
fn only_what_is_larger_than_a_model_sees_is_scaled() {
    assert_eq!(scaled(&png(MAX_EDGE, 3, |_, _| [1, 2, 3, 255])), None);
    assert_eq!(scaled(&jpeg(64, 32, 6)), None);
    // A black frame round a transparent picture.
    let large = png(3_136, 200, |x, _| if x < 100 { [0, 0, 0, 255] } else { [0; 4] });
    let picture = scaled(&large).unwrap();
    assert_eq!((picture.from, picture.to), ((3_136, 200), (MAX_EDGE, 100)));
    assert_eq!(picture.media_type, "image/png");
    let pixels = pixels_of(&picture);
    assert_eq!(pixels.data[49 * 4..51 * 4], [0, 0, 0, 255, 0, 0, 0, 0]);
    let flat = pixels.flatten_on_white();
    assert_eq!(flat.data[49 * 3..51 * 3], [0, 0, 0, 255, 255, 255]);
}

#[test]
fn pixels_are_averages_of_what_they_cover() {
    let scale = |channels, width, row: &[u8]| {
        let mut scaler = Scaler::new((width, 1), channels, 2);
        scaler.push_row(row);
        scaler.push_row(row);
        scaler.finish().data
    };
    assert_eq!(scale(1, 4, &[0, 100, 200, 100]), [50, 150]);
    // The middle one belongs to both.
    assert_eq!(scale(1, 3, &[0, 90, 255]), [30, 200]);
    // What is transparent has no color.
    assert_eq!(scale(2, 4, &[200, 255, 0, 0, 9, 0, 9, 0]), [200, 128, 0, 0]);
}

#[test]
fn photos_stay_jpeg_and_are_turned_upright() {
    // 6: the camera was turned, so that the upper edge is at the left.
    let picture = scaled(&jpeg(3_136, 1_568, 6)).unwrap();
    assert_eq!((picture.media_type, picture.to), ("image/jpeg", (784, 1_568)));
    let pixels = pixels_of(&picture);
    let at = |x: usize, y: usize| pixels.data[y * 784 + x];
    assert!(
        at(20, 700) > 250 && at(760, 700) < 5,
        "{} {}",
        at(20, 700),
        at(760, 700)
    );
    let numbers = Pixels {
        width: 3,
        height: 2,
        channels: 1,
        data: vec![1, 2, 3, 4, 5, 6],
    };
    for (orientation, expected) in [
        (1, [1, 2, 3, 4, 5, 6]),
        (2, [3, 2, 1, 6, 5, 4]),
        (3, [6, 5, 4, 3, 2, 1]),
        (4, [4, 5, 6, 1, 2, 3]),
        (5, [1, 4, 2, 5, 3, 6]),
        (6, [4, 1, 5, 2, 6, 3]),
        (7, [6, 3, 5, 2, 4, 1]),
        (8, [3, 6, 2, 5, 1, 4]),
    ] {
        let upright = numbers.clone().set_upright(orientation);
        assert_eq!(upright.data, expected, "{orientation}");
    }
    assert_eq!(
        read_orientation(b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x05\0\0\0"),
        Some(5)
    );
    for damaged in [
        b"II*\0\xff\xff\xff\xff".as_slice(),
        b"MM\0*\0\0\0\x08\xff\xff",
        b"II",
        b"",
    ] {
        assert_eq!(read_orientation(damaged), None);
    }
}

#[test]
fn the_first_frame_of_a_gif_is_scaled() {
    assert_eq!(
        scaled(&gif(MAX_EDGE as u16, 40, false)),
        None,
        "a small animation stays"
    );
    for is_interlaced in [false, true] {
        let picture = scaled(&gif(3_136, 40, is_interlaced)).unwrap();
        assert_eq!((picture.media_type, picture.to), ("image/png", (MAX_EDGE, 20)));
        let pixels = pixels_of(&picture);
        let at = |x: usize, y: usize| &pixels.data[(y * MAX_EDGE as usize + x) * 4..][..4];
        for (x, y, expected) in [
            (0, 5, [0; 4]),
            (5, 0, [0; 4]),
            (1, 1, [200, 100, 0, 255]),
            (2, 1, [200, 100, 0, 128]),
            (1_567, 19, [200, 100, 0, 255]),
        ] {
            assert_eq!(at(x, y), expected, "{x}, {y} of {is_interlaced}");
        }
    }
}

#[test]
fn the_first_frame_of_a_webp_is_scaled() {
    let still = |width| {
        webp(
            16,
            (width, 4),
            &[chunk(b"VP8L", &lossless(width, 4, [9, 8, 7, 255]))],
        )
    };
    assert_eq!(scaled(&still(MAX_EDGE)), None);
    let picture = scaled(&still(3_136)).unwrap();
    assert_eq!((picture.media_type, picture.to), ("image/png", (MAX_EDGE, 2)));
    assert_eq!(pixels_of(&picture).data[..4], [9, 8, 7, 255]);

    let frame = |color| animated(3_000, 2, &[chunk(b"VP8L", &lossless(3_000, 2, color))]);
    let frames = [chunk(b"ANIM", &[0; 6]), frame([50, 60, 70, 255]), frame([1; 4])];
    let picture = scaled(&webp(2 | 16, (3_136, 4), &frames)).unwrap();
    let pixels = pixels_of(&picture);
    assert_eq!((pixels.width, pixels.height), (MAX_EDGE, 2));
    let second_row = &pixels.data[MAX_EDGE as usize * 4..];
    assert_eq!(
        (&pixels.data[8..12], &second_row[..8]),
        ([0; 4].as_slice(), [0; 8].as_slice())
    );
    assert_eq!(second_row[8..12], [50, 60, 70, 255]);

    // 6: the left edge becomes the upper one.
    let exif = chunk(
        b"EXIF",
        b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0",
    );
    let photo = webp(8, (2_000, 16), &[chunk(b"VP8 ", &lossy()), exif]);
    let picture = scaled(&photo).unwrap();
    assert_eq!((picture.media_type, picture.to), ("image/jpeg", (12, MAX_EDGE)));
    let pixels = pixels_of(&picture);
    let (top, bottom) = (&pixels.data[..3], &pixels.data[pixels.data.len() - 3..]);
    assert!(
        top[0] > 200 && top[2] < 50 && bottom[0] < 50 && bottom[2] > 200,
        "{top:?} {bottom:?}"
    );
}

#[test]
fn noise_that_is_too_large_as_png_becomes_a_jpeg() {
    let noise = |x: u32, y: u32| {
        let [a, b, c, _] = (x.wrapping_mul(2_654_435_761) ^ y.wrapping_mul(2_246_822_519))
            .wrapping_mul(3_266_489_917)
            .to_be_bytes();
        [a, b, c, 255]
    };
    let large = png(1_500, 1_500, noise);
    assert!(large.len() as u64 > MAX_BYTES);
    let picture = scaled(&large).unwrap();
    assert_eq!((picture.media_type, picture.to), ("image/jpeg", (1_500, 1_500)));
    assert!(picture.bytes.len() as u64 <= MAX_BYTES);
}

#[test]
fn bombs_and_damaged_pictures_are_refused_before_they_are_decoded() {
    let mut bomb = png(1, 1, |_, _| [0; 4]);
    // The width and height in the header, and its checksum.
    bomb[16..24].copy_from_slice(&[0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30]);
    let check = crc(&bomb[12..29]);
    bomb[29..33].copy_from_slice(&check.to_be_bytes());
    let stop = CancellationToken::new();
    let error = scale_down(&bomb, &stop).unwrap_err().to_string();
    assert_eq!(
        error,
        "it has 30000 × 30000 pixels; at most 50 million can be scaled"
    );
    for damaged in [b"\x89PNG\r\n\x1a\n....".as_slice(), b"\xff\xd8\xff", b""] {
        let error = scale_down(damaged, &stop).unwrap_err();
        assert!(matches!(error, PictureError::Malformed(_)), "{error}");
    }
    let mut huge_gif = gif(3, 3, false);
    huge_gif[6..10].copy_from_slice(&[0x30, 0x75, 0x30, 0x75]);
    let error = scale_down(&huge_gif, &stop).unwrap_err().to_string();
    assert!(
        error.contains("30000 × 30000 pixels; at most 50 million"),
        "{error}"
    );
    let error = scale_down(&webp(0, (5_000, 5_000), &[chunk(b"VP8 ", &lossy())]), &stop).unwrap_err();
    assert!(error.to_string().contains("at most 20 million"), "{error}");
    let large = png(2_000, 2, |_, _| [0; 4]);
    let alpha = chunk(b"ALPH", &[0; 5]);
    let frame = animated(2, 2, &[alpha, chunk(b"VP8 ", &lossy())]);
    for (damaged, reason) in [
        (large[..large.len() - 30].to_vec(), ""),
        (gif(2_000, 4, false)[..60].to_vec(), ""),
        // A frame beyond the screen.
        (
            [&gif(2_000, 9, false)[..8], &[3, 0], &gif(2_000, 9, false)[10..]].concat(),
            "frame",
        ),
        (
            webp(0, (2_000, 2), &[chunk(b"VP8 ", &lossy())]),
            "larger than the picture",
        ),
        (webp(0, (2_000, 16), &[chunk(b"VP8 ", &lossy()[..40])]), ""),
        // The decoder panics about this one: the frame has another size than its lossy part.
        (
            webp(2 | 16, (2_000, 18), &[chunk(b"ANIM", &[0; 6]), frame]),
            "the decoder failed",
        ),
        // A length of 4 GB.
        (webp(0, (2_000, 16), &[b"VP8 \xff\xff\xff\xff".to_vec()]), ""),
    ] {
        let error = scale_down(&damaged, &stop).unwrap_err();
        assert!(
            matches!(&error, PictureError::Malformed(why) if why.contains(reason)),
            "{reason}: {error}"
        );
    }
    stop.cancel();
    assert!(matches!(scale_down(&large, &stop), Err(PictureError::Cancelled)));
}

#[test]
fn pictures_without_their_end_are_refused_even_if_they_need_no_scaling() {
    let stop = CancellationToken::new();
    let mut photo = jpeg(30, 20, 1);
    // A preview in a segment has an end of its own, and segments may be padded.
    photo.splice(2..2, *b"\xff\xff\xe2\0\x06\xff\xd9\0\0");
    for whole in [
        png(30, 20, |x, y| [x as u8, y as u8, 0, 255]),
        photo,
        webp(0, (2, 2), &[chunk(b"VP8 ", &lossy())]),
    ] {
        assert_eq!(scale_down(&whole, &stop).unwrap(), None);
        for missing in [2, 12, 13, 40] {
            let cut = &whole[..whole.len() - missing];
            let error = scale_down(cut, &stop);
            assert!(
                matches!(error, Err(PictureError::CutOff | PictureError::Malformed(_))),
                "{missing}: {error:?}"
            );
        }
        let error = scale_down(&whole[..whole.len() - 13], &stop).unwrap_err();
        assert_eq!(error.to_string(), "its end is missing, so the file is damaged");
        // Bytes after the end do no harm.
        assert_eq!(scale_down(&[&whole[..], b"\n\0"].concat(), &stop).unwrap(), None);
    }
}

/// The checksum of a PNG's chunks.
fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}
