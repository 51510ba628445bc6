//! Tests of scaling pictures, and of the limits.

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
    match picture.media_type {
        "image/png" => decode::scale_png(&picture.bytes, MAX_EDGE, &stop),
        _ => decode::scale_jpeg(&picture.bytes, MAX_EDGE, &stop),
    }
    .unwrap()
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
    let large = png(2_000, 2, |_, _| [0; 4]);
    assert!(scale_down(&large[..large.len() - 30], &stop).is_err());
    stop.cancel();
    assert!(matches!(scale_down(&large, &stop), Err(PictureError::Cancelled)));
}

/// The checksum of a PNG's chunks.
fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}
