//! Fingerprints of contents, by which they are named.

use std::fmt::Write as _;

use ring::digest::{SHA256, digest};

/// The SHA-256 of `bytes`, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    let mut name = String::with_capacity(64);
    for byte in digest(&SHA256, bytes).as_ref() {
        // Writing to a string does not fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    #[test]
    fn is_the_known_one() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(super::sha256(b""), empty);
    }
}
