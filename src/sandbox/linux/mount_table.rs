//! The mounts that this process sees, as the kernel lists them.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Lists where this process sees mounts, the earlier ones first.
pub(super) fn list_mount_points() -> io::Result<Vec<PathBuf>> {
    let table = fs::read("/proc/self/mountinfo")?;
    let lines = table.split(|byte| *byte == b'\n');
    let paths = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4).map(unescape));
    Ok(paths.collect())
}

/// Decodes a path of the mount table, which has blanks and the like as octal numbers.
pub(super) fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        if *first == b'\\'
            && let Some(digits) = tail.get(..3)
            && let Ok(digits) = std::str::from_utf8(digits)
            && let Ok(byte) = u8::from_str_radix(digits, 8)
        {
            bytes.push(byte);
            rest = &tail[3..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn octal_numbers_in_mount_tables_are_decoded() {
        assert_eq!(unescape(br"/mnt/a\040b\134c"), Path::new(r"/mnt/a b\c"));
        assert_eq!(unescape(br"/mnt/\9"), Path::new(r"/mnt/\9"));
    }
}
