//! Reads messages from a byte stream, in whichever framing its protocol uses.
//!
//! The decoders find the messages; see [`super::frame`] and [`super::lines`].

use tokio::io::{AsyncRead, AsyncReadExt};

use super::frame::{FrameDecoder, FrameItem, FrameLimits};
use super::lines::{Framing, LineDecoder};

/// Reads frames from a byte stream.
#[derive(Debug)]
pub struct FrameReader<R> {
    input: R,
    decoder: Decoder,
}

#[derive(Debug)]
enum Decoder {
    Header(FrameDecoder),
    Lines(LineDecoder),
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Creates a reader at the start of `input`, with LSP's headers.
    pub fn new(input: R, limits: FrameLimits) -> Self {
        Self::with_framing(input, limits, Framing::Header)
    }

    /// Creates a reader at the start of `input`.
    pub fn with_framing(input: R, limits: FrameLimits, framing: Framing) -> Self {
        let decoder = match framing {
            Framing::Header => Decoder::Header(FrameDecoder::new(limits)),
            Framing::Lines => Decoder::Lines(LineDecoder::new(limits.frame)),
        };
        Self { input, decoder }
    }

    /// Returns the next item, or `None` at the end of input. Cancel-safe.
    ///
    /// # Errors
    /// The I/O error of `input`.
    pub async fn read(&mut self) -> std::io::Result<Option<FrameItem>> {
        loop {
            let (item, at_boundary) = match &mut self.decoder {
                Decoder::Header(decoder) => (decoder.pop(), decoder.is_at_boundary()),
                Decoder::Lines(decoder) => (decoder.pop(), decoder.is_at_boundary()),
            };
            if let Some(item) = item {
                return Ok(Some(item));
            }
            let buffer = match &mut self.decoder {
                Decoder::Header(decoder) => decoder.reserve_read_buffer(),
                Decoder::Lines(decoder) => decoder.reserve_read_buffer(),
            };
            if self.input.read_buf(buffer).await? == 0 {
                if !at_boundary {
                    tracing::warn!("input ended within a message");
                }
                return Ok(None);
            }
        }
    }
}
