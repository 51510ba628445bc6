//! Content hashes, which name stored contents.

use std::fmt::Write as _;

use ring::digest::{SHA256, digest};

/// Returns the SHA-256 of `bytes` in lower-case hexadecimal, 64 characters.
pub fn sha256(bytes: &[u8]) -> String {
    let mut name = String::with_capacity(64);
    for byte in digest(&SHA256, bytes).as_ref() {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    #[test]
    fn sha256_of_nothing_matches_the_published_digest() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(super::sha256(b""), empty);
    }
}
