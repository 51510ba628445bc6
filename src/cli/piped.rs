//! Input piped into `agentls run`: reads it to its end, and frames it as context of the prompt.
//!
//! A pipe may never end, so the wait is announced and a signal ends it. Knows no server.

use std::io::{self, Read};
use std::time::Duration;

use super::signals::Signals;
use crate::base::clock;

/// The largest accepted input, in bytes. A larger one hardly fits into a model's context window.
const MAX_BYTES: usize = 512 << 10;
/// After this time the wait is announced.
const SILENCE: Duration = Duration::from_secs(1);

/// Why the input cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum PipedError {
    #[error("cannot read stdin: {0}")]
    Io(#[from] io::Error),
    #[error(
        "stdin exceeds {} KiB; save it in the folder and refer to it with @path",
        MAX_BYTES >> 10
    )]
    TooLong,
    #[error("stdin is not text; save it in the folder and refer to it with @path")]
    Binary,
    #[error("interrupted while reading stdin")]
    Interrupted,
}

/// Reads all of stdin as text. Replaces invalid UTF-8; the second value counts the replacements.
///
/// # Errors
///
/// If stdin cannot be read, is larger than 512 KiB or contains a NUL byte, or if a signal arrives first.
pub(super) async fn read_stdin(
    signals: &mut Signals,
    announce: impl FnOnce(),
) -> Result<(String, usize), PipedError> {
    // A blocking read cannot be canceled. After a signal its thread stays behind until the program exits.
    let reading = tokio::task::spawn_blocking(|| {
        let mut bytes = Vec::new();
        // One byte beyond the limit shows that the input is too long.
        let read = io::stdin().take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
        read.map(|_| bytes)
    });
    tokio::pin!(reading);
    let mut announce = Some(announce);
    let read = loop {
        tokio::select! { biased;
            read = &mut reading => break read.map_err(io::Error::other)?,
            _ = signals.next() => return Err(PipedError::Interrupted),
            () = clock::sleep(SILENCE), if announce.is_some() => {
                if let Some(announce) = announce.take() {
                    announce();
                }
            }
        }
    };
    decode_input(read?)
}

fn decode_input(bytes: Vec<u8>) -> Result<(String, usize), PipedError> {
    if bytes.contains(&0) {
        return Err(PipedError::Binary);
    }
    if bytes.len() > MAX_BYTES {
        return Err(PipedError::TooLong);
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => (text, 0),
        Err(error) => {
            let chunks = error.as_bytes().utf8_chunks();
            let broken = chunks.filter(|chunk| !chunk.invalid().is_empty()).count();
            (String::from_utf8_lossy(error.as_bytes()).into_owned(), broken)
        }
    })
}

/// Wraps the text in a tag that no part of the text can close.
pub(super) fn wrap_in_tag(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut name = "stdin".to_owned();
    let mut number = 1;
    while lower.contains(&format!("</{name}>")) {
        number += 1;
        name = format!("stdin-{number}");
    }
    format!("<{name}>\n{}\n</{name}>", text.trim_end_matches(['\n', '\r']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_accepted_and_binary_or_long_input_is_refused() {
        assert_eq!(decode_input(b"a\n".to_vec()).unwrap(), ("a\n".to_owned(), 0));
        let (text, broken) = decode_input(b"caf\xe9 \xff\xfe.".to_vec()).unwrap();
        assert_eq!((text.as_str(), broken), ("caf\u{fffd} \u{fffd}\u{fffd}.", 3));
        assert!(matches!(decode_input(b"P\0N".to_vec()), Err(PipedError::Binary)));
        assert!(decode_input(vec![b'a'; MAX_BYTES]).is_ok());
        assert!(matches!(
            decode_input(vec![b'a'; MAX_BYTES + 1]),
            Err(PipedError::TooLong)
        ));
    }

    #[test]
    fn text_cannot_close_its_tag() {
        assert_eq!(wrap_in_tag("a\n\n"), "<stdin>\na\n</stdin>");
        let framed = wrap_in_tag("a</STDIN>b</stdin-2>");
        assert!(framed.starts_with("<stdin-3>\n") && framed.ends_with("\n</stdin-3>"));
    }
}
