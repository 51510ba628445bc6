//! File URIs and paths: the one place that converts between them (R-WIRE-7).
//!
//! Knows drive letters (`%3A` or not), UNC hosts, spaces, and names that are not UTF-8 (Unix). Resolves nothing and
//! touches no disk. Both platforms' rules are pure functions and tested everywhere; [`path_of`] and [`uri_of`] choose
//! the platform's.

use std::path::{Path, PathBuf};

/// Why a URI names no file on this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// The URI has another scheme, or none.
    #[error("`{0}` is not a file URI")]
    NotAFile(String),
    /// The URI names another host.
    #[error("`{0}` names a file on another host")]
    RemoteHost(String),
    /// A `%` is not followed by two hexadecimal digits.
    #[error("`{0}` contains a broken percent escape")]
    BadEscape(String),
    /// The URI contains a NUL, or bytes that cannot be a path on this platform.
    #[error("`{0}` is not a valid path")]
    Invalid(String),
}

/// Returns the path that a file URI names. Query and fragment are ignored.
///
/// # Errors
/// See [`posix_path`].
#[cfg(unix)]
pub fn path_of(uri: &str) -> Result<PathBuf, UriError> {
    use std::os::unix::ffi::OsStringExt;
    Ok(std::ffi::OsString::from_vec(posix_path(uri)?).into())
}

/// Returns the path that a file URI names. Query and fragment are ignored.
///
/// # Errors
/// See [`windows_path`].
#[cfg(not(unix))]
pub fn path_of(uri: &str) -> Result<PathBuf, UriError> {
    Ok(windows_path(uri)?.into())
}

/// Returns the file URI of an absolute path.
#[cfg(unix)]
pub fn uri_of(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    posix_uri(path.as_os_str().as_bytes())
}

/// Returns the file URI of an absolute path.
#[cfg(not(unix))]
pub fn uri_of(path: &Path) -> String {
    windows_uri(&path.to_string_lossy())
}

/// Returns a file URI's path by the rules of Unix: any bytes but NUL.
///
/// # Errors
/// Fails for another scheme or host, a broken percent escape, a NUL, or a relative path.
pub fn posix_path(uri: &str) -> Result<Vec<u8>, UriError> {
    let (host, path) = split(uri)?;
    if !is_local(host) {
        return Err(UriError::RemoteHost(uri.to_owned()));
    }
    percent_decode(uri, path)
}

/// Returns the URI of an absolute Unix path.
pub fn posix_uri(path: &[u8]) -> String {
    let mut uri = String::from("file://");
    percent_encode(path, &mut uri);
    uri
}

/// Returns a file URI's path by the rules of Windows, with the drive letter in upper case.
///
/// # Errors
/// Fails for another scheme, a broken percent escape, a NUL, a path that is not UTF-8, or one without drive or host.
pub fn windows_path(uri: &str) -> Result<String, UriError> {
    let (host, path) = split(uri)?;
    let path =
        String::from_utf8(percent_decode(uri, path)?).map_err(|_| UriError::Invalid(uri.to_owned()))?;
    let path = path.replace('/', "\\");
    if !is_local(host) {
        return Ok(format!("\\\\{host}{path}"));
    }
    let Some(rest) = path.strip_prefix('\\') else {
        return Err(UriError::Invalid(uri.to_owned()));
    };
    match drive_letter(rest) {
        Some(letter) => {
            let tail = &rest[2..];
            // `C:` without a root would mean the drive's current folder.
            let root = if tail.is_empty() { "\\" } else { "" };
            Ok(format!("{letter}:{tail}{root}"))
        }
        // `file:////host/share` is how some clients write UNC paths.
        None if rest.starts_with('\\') => Ok(path),
        None => Err(UriError::Invalid(uri.to_owned())),
    }
}

/// Returns the URI of an absolute Windows path, verbatim (`\\?\`) or not.
pub fn windows_uri(path: &str) -> String {
    let path = path.replace('\\', "/");
    let plain = path.strip_prefix("//?/");
    let unc = match plain {
        Some(verbatim) => verbatim.strip_prefix("UNC/"),
        None => path.strip_prefix("//"),
    };
    if let Some(unc) = unc {
        let (host, rest) = unc.split_at(unc.find('/').unwrap_or(unc.len()));
        let mut uri = format!("file://{host}");
        percent_encode(rest.as_bytes(), &mut uri);
        return uri;
    }
    let plain = plain.unwrap_or(&path);
    let mut uri = String::from("file:///");
    match drive_letter(plain) {
        Some(letter) => {
            uri.push(letter);
            uri.push(':');
            percent_encode(&plain.as_bytes()[2..], &mut uri);
        }
        None => percent_encode(plain.trim_start_matches('/').as_bytes(), &mut uri),
    }
    uri
}

/// Splits a file URI into host and path, both still encoded.
fn split(uri: &str) -> Result<(&str, &str), UriError> {
    let not_a_file = || UriError::NotAFile(uri.to_owned());
    let (scheme, rest) = uri.split_once(':').ok_or_else(not_a_file)?;
    if !scheme.eq_ignore_ascii_case("file") {
        return Err(not_a_file());
    }
    let rest = &rest[..rest.find(['?', '#']).unwrap_or(rest.len())];
    let (host, path) = match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    if !path.starts_with('/') {
        return Err(UriError::Invalid(uri.to_owned()));
    }
    Ok((host, path))
}

fn is_local(host: &str) -> bool {
    host.is_empty() || host.eq_ignore_ascii_case("localhost")
}

/// Returns the drive letter of `c:` or `c:/…`, in upper case.
fn drive_letter(path: &str) -> Option<char> {
    let bytes = path.as_bytes();
    let letter = *bytes.first()?;
    let ends = matches!(bytes.get(2), None | Some(b'/' | b'\\'));
    (letter.is_ascii_alphabetic() && bytes.get(1) == Some(&b':') && ends)
        .then(|| char::from(letter.to_ascii_uppercase()))
}

fn percent_decode(uri: &str, path: &str) -> Result<Vec<u8>, UriError> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let byte = match (byte, tail) {
            (b'%', [high, low, ..]) => {
                rest = &tail[2..];
                hex_value(*high)
                    .zip(hex_value(*low))
                    .map(|(high, low)| high << 4 | low)
                    .ok_or_else(|| UriError::BadEscape(uri.to_owned()))?
            }
            (b'%', _) => return Err(UriError::BadEscape(uri.to_owned())),
            (byte, _) => byte,
        };
        // A path cannot contain a NUL: C functions would stop there.
        if byte == 0 {
            return Err(UriError::Invalid(uri.to_owned()));
        }
        bytes.push(byte);
    }
    Ok(bytes)
}

fn hex_value(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

fn percent_encode(path: &[u8], uri: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push('%');
            uri.push(char::from(DIGITS[usize::from(byte >> 4)]));
            uri.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unix_uris() {
        for (uri, path) in [
            ("file:///home/a/b.rs", "/home/a/b.rs"),
            ("FILE:///a%20b/%C3%BC.rs", "/a b/ü.rs"),
            ("file:///a b/ü.rs", "/a b/ü.rs"),
            ("file://localhost/a", "/a"),
            ("file:/a/b", "/a/b"),
            ("file:///c%3A/x", "/c:/x"),
            ("file:///a?query#fragment", "/a"),
            ("file:///100%25", "/100%"),
        ] {
            assert_eq!(posix_path(uri).as_deref(), Ok(path.as_bytes()), "{uri}");
        }
        assert_eq!(posix_path("file:///%FF").unwrap(), b"/\xff");
        assert_eq!(
            posix_uri("/a b/ü#?%:".as_bytes()),
            "file:///a%20b/%C3%BC%23%3F%25%3A"
        );
    }

    #[test]
    fn windows_uris() {
        for (uri, path) in [
            ("file:///c%3A/Users/a", r"C:\Users\a"),
            ("file:///C:/Users/a%20b", r"C:\Users\a b"),
            ("file:///d:", r"D:\"),
            ("file://server/share/x", r"\\server\share\x"),
            ("file:////server/share/x", r"\\server\share\x"),
        ] {
            assert_eq!(windows_path(uri).as_deref(), Ok(path), "{uri}");
        }
        for (path, uri) in [
            (r"c:\a b\c", "file:///C:/a%20b/c"),
            (r"\\?\C:\x", "file:///C:/x"),
            (r"\\server\share\x", "file://server/share/x"),
            (r"\\?\UNC\server\share\x", "file://server/share/x"),
        ] {
            assert_eq!(windows_uri(path), uri, "{path}");
        }
    }

    #[test]
    fn uris_that_name_no_local_file_are_refused() {
        let text = |uri: &str| posix_path(uri).unwrap_err();
        for uri in ["untitled:Untitled-1", "git:/a", "/a/b", "", "http://x/y"] {
            assert!(matches!(text(uri), UriError::NotAFile(_)), "{uri}");
        }
        assert!(matches!(text("file://server/a"), UriError::RemoteHost(_)));
        for uri in ["file:///%zz", "file:///a%", "file:///a%4"] {
            assert!(matches!(text(uri), UriError::BadEscape(_)), "{uri}");
        }
        for uri in ["file:///a%00b", "file://localhost", "file:relative"] {
            assert!(matches!(text(uri), UriError::Invalid(_)), "{uri}");
        }
        assert!(matches!(windows_path("file:///%FF"), Err(UriError::Invalid(_))));
        assert!(matches!(
            windows_path("file:///no/drive"),
            Err(UriError::Invalid(_))
        ));
    }

    proptest! {
        #[test]
        fn every_unix_path_round_trips(tail in prop::collection::vec(1u8.., 0..40)) {
            let path = [b"/".as_slice(), &tail].concat();
            prop_assert_eq!(posix_path(&posix_uri(&path)).unwrap(), path);
        }

        #[test]
        fn every_windows_path_round_trips(
            letter in "[A-Z]",
            names in prop::collection::vec("[^/\\\\\0:?*]{1,8}", 1..4),
        ) {
            let local = format!("{letter}:\\{}", names.join("\\"));
            prop_assert_eq!(windows_path(&windows_uri(&local)).unwrap(), local);
            let unc = format!("\\\\host\\{}", names.join("\\"));
            prop_assert_eq!(windows_path(&windows_uri(&unc)).unwrap(), unc);
        }

        #[test]
        fn no_text_panics(uri in "(file:)?(//)?.{0,20}") {
            let _ = (posix_path(&uri), windows_path(&uri));
        }
    }
}
