//! What must hold for any bytes that a client sends. A fuzz target calls [`check_frames`]; so do tests, with its seeds.

use super::*;

/// Small limits, so that short inputs reach them.
const LIMITS: FrameLimits = FrameLimits {
    header: 128,
    frame: 64,
    skip: 1_000,
};

/// A frame that must be found after anything.
const LAST: &[u8] = b"Content-Length: 4\r\n\r\nlast";

/// Checks the decoder with any bytes.
///
/// # Panics
/// Panics if the items depend on how reads cut the bytes, if a frame after garbage is lost, or if the buffer exceeds
/// the limits.
pub fn check_frames(bytes: &[u8]) {
    let whole = decode([bytes]);
    assert_eq!(decode(bytes.chunks(1)), whole, "read byte by byte");
    let cut = usize::from(bytes.first().copied().unwrap_or_default()) % 31 + 2;
    assert_eq!(decode(bytes.chunks(cut)), whole, "read in pieces of {cut} bytes");
    check_memory(bytes);
    // A claimed body may swallow up to 1,000 bytes, and a header block 128.
    let padding = [b'.'; 1_200];
    assert_finds_last(&[bytes, &padding, b"\r\n\r\n", LAST]);
    // Nothing that starts a frame precedes it, so no byte of it may be swallowed.
    if find_name(&[bytes, b":"].concat()).is_none() {
        assert_finds_last(&[bytes, b"\r\n\r\n", LAST]);
    }
}

fn decode<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<FrameItem> {
    let mut decoder = FrameDecoder::new(LIMITS);
    let mut items = Vec::new();
    for chunk in chunks {
        decoder.push(chunk);
        items.extend(std::iter::from_fn(|| decoder.pop()));
    }
    items
}

fn assert_finds_last(parts: &[&[u8]]) {
    let items = decode([parts.concat().as_slice()]);
    assert_eq!(
        items.last(),
        Some(&FrameItem::Frame(Bytes::from_static(b"last"))),
        "the frame after the input is lost: {items:?}"
    );
}

/// Reads like [`super::super::reader`], and checks what is kept after each read.
fn check_memory(bytes: &[u8]) {
    const PIECE: usize = 16;
    let mut decoder = FrameDecoder::new(LIMITS);
    for chunk in bytes.chunks(PIECE) {
        decoder.reserve_read_buffer().extend_from_slice(chunk);
        while let Some(item) = decoder.pop() {
            if let FrameItem::Frame(body) = item {
                assert!(
                    body.len() as u64 <= LIMITS.frame,
                    "a frame of {} bytes",
                    body.len()
                );
            }
        }
        let kept = decoder.buffer.len();
        assert!(kept <= LIMITS.header, "{kept} bytes are kept");
        let capacity = decoder.buffer.capacity();
        assert!(capacity <= 2 * READ, "room for {capacity} bytes is kept");
    }
}

#[cfg(test)]
mod tests {
    use crate::base::testing::read_fuzz_seeds;

    #[test]
    fn every_seed_of_the_frame_reader_passes() {
        for (name, seed) in read_fuzz_seeds("frame_reader") {
            println!("{name}");
            super::check_frames(&seed);
        }
    }
}
