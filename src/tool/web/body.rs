//! Reads the body of a response: limits it, decompresses it within the limit, detects its kind, decodes it to text.
//!
//! Everything here comes from outside, so memory is bounded whatever the server sends. Must not follow what it says.

use std::io::{self, Write};

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE};

use crate::base::error_chain::innermost_message;

/// Most bytes of a body that are read, decompressed.
pub(in crate::tool) const MAX_BODY: usize = 5 << 20;
/// How far into a page its own charset declaration is looked for, in bytes.
const PRESCAN: usize = 1_024;

/// The kind of content in a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::tool) enum ContentKind {
    Html,
    /// Text of any other kind.
    Text,
    /// Not text; contains the media type.
    Other(String),
}

/// The body of a response.
#[derive(Debug)]
pub(in crate::tool) struct FetchedBody {
    pub(in crate::tool) kind: ContentKind,
    /// As declared, or as the content looks.
    pub(in crate::tool) media_type: String,
    /// Empty if the content is not text.
    pub(in crate::tool) text: String,
    /// Bytes read, decompressed.
    pub(in crate::tool) bytes: usize,
    /// The body is longer than what was read.
    pub(in crate::tool) cut: bool,
}

impl FetchedBody {
    /// Reads at most [`MAX_BODY`] bytes.
    ///
    /// # Errors
    /// The reason, as text, why the body cannot be read.
    pub(in crate::tool) async fn read(mut response: reqwest::Response) -> Result<Self, String> {
        let header = |name| {
            let value = response.headers().get(name)?;
            Some(String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase())
        };
        let content_type = header(CONTENT_TYPE).unwrap_or_default();
        let mut unpacker = Unpacker::from_encoding(header(CONTENT_ENCODING).as_deref())?;
        let media_type = content_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned();
        // Do not download what cannot be shown.
        if let ContentKind::Other(_) = kind_of(&media_type)
            && !media_type.is_empty()
        {
            return Ok(Self {
                kind: kind_of(&media_type),
                bytes: response.content_length().unwrap_or_default() as usize,
                media_type,
                text: String::new(),
                cut: false,
            });
        }
        let mut cut = false;
        loop {
            let piece = response.chunk().await;
            let piece = piece.map_err(|error| {
                if error.is_timeout() {
                    "the response stalled".to_owned()
                } else {
                    format!("the response broke off: {}", innermost_message(&error))
                }
            })?;
            let Some(piece) = piece else { break };
            if !unpacker.push(&piece)? {
                cut = true;
                break;
            }
        }
        let bytes = unpacker.into_bytes()?;
        Ok(Self::from_bytes(
            &bytes,
            media_type,
            parse_charset(&content_type),
            cut,
        ))
    }

    fn from_bytes(
        bytes: &[u8],
        mut media_type: String,
        charset: Option<&'static Encoding>,
        cut: bool,
    ) -> Self {
        if media_type.is_empty() {
            media_type = looks_like(bytes).to_owned();
        }
        let kind = kind_of(&media_type);
        let text = match &kind {
            ContentKind::Other(_) => String::new(),
            ContentKind::Html | ContentKind::Text => {
                let declared = charset.or_else(|| {
                    (kind == ContentKind::Html)
                        .then(|| find_declared_charset(bytes))
                        .flatten()
                });
                decode_text(bytes, declared, cut)
            }
        };
        Self {
            kind,
            media_type,
            text,
            bytes: bytes.len(),
            cut,
        }
    }
}

fn kind_of(media_type: &str) -> ContentKind {
    match media_type {
        "text/html" | "application/xhtml+xml" => ContentKind::Html,
        text if text.starts_with("text/") || text.ends_with("+json") || text.ends_with("+xml") => {
            ContentKind::Text
        }
        "application/json"
        | "application/ld+json"
        | "application/x-ndjson"
        | "application/jsonl"
        | "application/xml"
        | "application/yaml"
        | "application/x-yaml"
        | "application/toml"
        | "application/javascript"
        | "application/x-javascript"
        | "application/ecmascript"
        | "application/x-sh"
        | "application/sql"
        | "application/graphql" => ContentKind::Text,
        other => ContentKind::Other(other.to_owned()),
    }
}

/// Guesses the media type of content without a declared one.
fn looks_like(bytes: &[u8]) -> &'static str {
    let start = &bytes[..bytes.len().min(PRESCAN)];
    let start = String::from_utf8_lossy(start).trim_start().to_ascii_lowercase();
    if start.contains('\0') {
        return "application/octet-stream";
    }
    if start.starts_with("<!doctype html") || start.starts_with("<html") {
        "text/html"
    } else {
        "text/plain"
    }
}

/// Returns the encoding that a `Content-Type` names.
fn parse_charset(content_type: &str) -> Option<&'static Encoding> {
    let at = content_type.find("charset=")?;
    let label = content_type[at + "charset=".len()..].split(';').next()?;
    Encoding::for_label(label.trim().trim_matches(['"', '\'']).as_bytes())
}

/// Returns the encoding that a page declares near its start.
fn find_declared_charset(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(PRESCAN)]).to_ascii_lowercase();
    let at = start.find("charset")?;
    let label = start[at + "charset".len()..].trim_start().strip_prefix('=')?;
    let label = label.trim_start().trim_start_matches(['"', '\'']);
    let label = label.split(['"', '\'', ' ', '>', '/', ';']).next()?;
    Encoding::for_label(label.as_bytes())
}

/// Decodes text. A byte order mark wins over the declared encoding, which wins over a guess.
fn decode_text(bytes: &[u8], declared: Option<&'static Encoding>, cut: bool) -> String {
    let (bytes, marked) = match Encoding::for_bom(bytes) {
        Some((encoding, length)) => (&bytes[length..], Some(encoding)),
        None => (bytes, None),
    };
    let guess = || match std::str::from_utf8(bytes) {
        Ok(_) => UTF_8,
        // The cut may split a character.
        Err(error) if cut && error.error_len().is_none() => UTF_8,
        Err(_) => WINDOWS_1252,
    };
    let encoding = marked.or(declared).unwrap_or_else(guess);
    encoding.decode_without_bom_handling(bytes).0.into_owned()
}

/// Decompresses a body up to the limit.
enum Unpacker {
    Plain(BoundedDecoder),
    Gzip(Box<flate2::write::MultiGzDecoder<BoundedDecoder>>),
}

/// Collects bytes up to the limit and refuses more.
#[derive(Debug, Default)]
struct BoundedDecoder {
    bytes: Vec<u8>,
    full: bool,
}

impl Write for BoundedDecoder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Exactly full is fine; only a byte beyond the limit means that the body is cut.
        let available = MAX_BODY - self.bytes.len();
        if available == 0 && !bytes.is_empty() {
            self.full = true;
            return Err(io::Error::other("full"));
        }
        let accepted = bytes.len().min(available);
        self.bytes.extend_from_slice(&bytes[..accepted]);
        Ok(accepted)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Unpacker {
    fn from_encoding(encoding: Option<&str>) -> Result<Self, String> {
        match encoding.map(str::trim) {
            None | Some("" | "identity") => Ok(Self::Plain(BoundedDecoder::default())),
            Some("gzip" | "x-gzip") => Ok(Self::Gzip(Box::new(flate2::write::MultiGzDecoder::new(
                BoundedDecoder::default(),
            )))),
            Some(other) => Err(format!(
                "the response has an encoding that was not requested: {other}"
            )),
        }
    }

    /// Adds received bytes; returns false if the limit is reached.
    fn push(&mut self, piece: &[u8]) -> Result<bool, String> {
        let written = match self {
            Self::Plain(into) => into.write_all(piece),
            Self::Gzip(decoder) => decoder.write_all(piece),
        };
        match written {
            Ok(()) => Ok(true),
            // The decoder passes on the error of the full buffer, which is a cut and not a failure.
            Err(_) if self.is_full() => Ok(false),
            Err(error) => Err(format!("cannot decompress the response: {error}")),
        }
    }

    fn is_full(&self) -> bool {
        match self {
            Self::Plain(into) => into.full,
            Self::Gzip(decoder) => decoder.get_ref().full,
        }
    }

    fn into_bytes(self) -> Result<Vec<u8>, String> {
        match self {
            Self::Plain(into) => Ok(into.bytes),
            Self::Gzip(mut decoder) if decoder.get_ref().full => {
                Ok(std::mem::take(&mut decoder.get_mut().bytes))
            }
            Self::Gzip(mut decoder) => match decoder.try_finish() {
                Ok(()) => Ok(std::mem::take(&mut decoder.get_mut().bytes)),
                Err(_) if decoder.get_ref().full => Ok(std::mem::take(&mut decoder.get_mut().bytes)),
                Err(error) => Err(format!("cannot decompress the response: {error}")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn unpacked(encoding: &str, pieces: &[&[u8]]) -> Result<(Vec<u8>, bool), String> {
        let mut unpacker = Unpacker::from_encoding(Some(encoding))?;
        let mut cut = false;
        for piece in pieces {
            if !unpacker.push(piece)? {
                cut = true;
                break;
            }
        }
        Ok((unpacker.into_bytes()?, cut))
    }

    #[test]
    fn compression_bombs_are_cut_at_the_limit() {
        let bomb = packed(&vec![0; 64 << 20]);
        assert!(bomb.len() < 200 << 10);
        let (bytes, cut) = unpacked("gzip", &[&bomb]).unwrap();
        assert_eq!((bytes.len(), cut), (MAX_BODY, true));
        let (bytes, cut) = unpacked("identity", &[&vec![1; MAX_BODY], &[2]]).unwrap();
        assert_eq!((bytes.len(), cut), (MAX_BODY, true));
        let (bytes, cut) = unpacked("identity", &[&vec![1; MAX_BODY]]).unwrap();
        assert_eq!((bytes.len(), cut), (MAX_BODY, false));
    }

    #[test]
    fn compressed_bodies_are_decompressed_fully_or_refused() {
        let compressed = packed(b"hello");
        for at in 0..compressed.len() {
            let (bytes, cut) = unpacked("gzip", &[&compressed[..at], &compressed[at..]]).unwrap();
            assert_eq!((&*bytes, cut), (&b"hello"[..], false), "{at}");
        }
        assert!(unpacked("gzip", &[b"no gzip at all"]).is_err());
        assert!(unpacked("gzip", &[&compressed[..compressed.len() - 6]]).is_err());
        assert!(unpacked("br", &[]).unwrap_err().contains("br"));
    }

    #[test]
    fn text_is_decoded_as_declared_or_guessed() {
        let utf16: Vec<u8> = "\u{feff}ü".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (bytes, content_type, want) in [
            (&b"gr\xfc\xdfe"[..], "text/plain; charset=ISO-8859-1", "grüße"),
            (b"gr\xfc\xdfe", "text/plain", "grüße"),
            ("grüße".as_bytes(), "text/plain", "grüße"),
            ("\u{feff}grüße".as_bytes(), "text/plain; charset=latin1", "grüße"),
            (b"\x83e\x83X\x83g", "text/html; charset=\"shift_jis\"", "テスト"),
            (
                b"<meta charset=shift_jis>\x83e",
                "text/html",
                "<meta charset=shift_jis>テ",
            ),
            (
                b"<meta http-equiv=x content='text/html; charset=windows-1251'>\xcf",
                "text/html",
                "<meta http-equiv=x content='text/html; charset=windows-1251'>П",
            ),
            (b"x", "text/plain; charset=nonsense", "x"),
            (&utf16, "text/plain", "ü"),
        ] {
            let content_type = content_type.to_ascii_lowercase();
            let media_type = content_type.split(';').next().unwrap().to_owned();
            let body = FetchedBody::from_bytes(bytes, media_type, parse_charset(&content_type), false);
            assert_eq!(body.text, want, "{content_type}");
        }
        let cut = FetchedBody::from_bytes(&"grü".as_bytes()[..3], "text/plain".to_owned(), None, true);
        assert!(
            cut.text.starts_with("gr") && !cut.text.contains('Ã'),
            "{}",
            cut.text
        );
    }

    #[test]
    fn kinds_are_detected() {
        for (media_type, bytes, kind) in [
            ("text/html", &b""[..], ContentKind::Html),
            ("application/xhtml+xml", b"", ContentKind::Html),
            ("text/markdown", b"", ContentKind::Text),
            ("application/problem+json", b"", ContentKind::Text),
            ("image/svg+xml", b"", ContentKind::Text),
            ("image/png", b"", ContentKind::Other("image/png".to_owned())),
            (
                "application/pdf",
                b"",
                ContentKind::Other("application/pdf".to_owned()),
            ),
            ("", b"  <!DOCTYPE HTML><p>", ContentKind::Html),
            ("", b"plain", ContentKind::Text),
            (
                "",
                b"\x7fELF\0\0",
                ContentKind::Other("application/octet-stream".to_owned()),
            ),
        ] {
            let body = FetchedBody::from_bytes(bytes, media_type.to_owned(), None, false);
            assert_eq!(body.kind, kind, "{media_type}");
        }
    }
}
