//! What tells a changed file from an unchanged one: its size, its times, and its place on the disk.
//!
//! Blocks. Reads no contents.

use std::path::Path;

use rustix::fs::Stat;

use crate::base::nofollow::{self, FileKind};

/// How far a file's times may lag behind the clock, in nanoseconds.
pub(super) const LAG: u128 = 20_000_000;

/// Distinguishes a changed file from an unchanged one without reading it.
///
/// Equal stamps mean the same content. Different ones do not mean another content: the file may only have another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    bytes: u64,
    pub(super) modified: u128,
    pub(super) link: bool,
    mode: u32,
    /// The inode number, 0 if unknown. Another file of the same size and time can take the place of a file.
    pub(super) node: u64,
    /// The file has several names.
    pub(super) has_other_names: bool,
    /// Time of the last change of anything, including its place, in nanoseconds since 1970. Programs can set the
    /// modification time back, but not this one.
    touched: u128,
}

impl FileStamp {
    /// Returns the file's length in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns when the file was last written, in nanoseconds since 1970.
    pub fn modified(&self) -> u128 {
        self.modified
    }

    /// Returns whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        self.link
    }

    /// Returns whether it was written, moved, or otherwise changed at that time or later, in ns since 1970.
    pub fn was_touched_since(&self, time_ns: u128) -> bool {
        self.touched.saturating_add(LAG) >= time_ns
    }

    /// Returns the permission bits.
    pub fn mode(&self) -> u32 {
        self.mode
    }

    /// Returns the inode number, 0 if unknown.
    pub fn inode_number(&self) -> u64 {
        self.node
    }

    /// Returns the inode number of a file with several names; `None` for any other, or if it is unknown.
    pub fn shared_inode_number(&self) -> Option<u64> {
        Some(self.node).filter(|node| self.has_other_names && !self.link && *node != 0)
    }

    /// Returns whether both are the same file on disk, not written in between: it was moved.
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.node != 0 && self.node == other.node && self.looks_like(other)
    }

    /// Returns whether the size, the modification time, and the mode are the same. The content most likely is, too.
    pub fn looks_like(&self, other: &Self) -> bool {
        let of = |stamp: &Self| (stamp.bytes, stamp.modified, stamp.link, stamp.mode);
        of(self) == of(other)
    }
}

/// Reads the stamp of a regular file or link; `None` if a folder on the way has become a link.
pub fn read_stamp(path: &Path) -> Option<FileStamp> {
    stamp_of(&nofollow::status_of(path).ok()?)
}

#[expect(clippy::allow_attributes, reason = "needed on some systems only")]
#[allow(clippy::unnecessary_cast, reason = "the fields' types differ between systems")]
pub(super) fn stamp_of(status: &Stat) -> Option<FileStamp> {
    let nanos = |seconds: i64, nanos: i64| {
        u128::try_from(i128::from(seconds) * 1_000_000_000 + i128::from(nanos)).unwrap_or(0)
    };
    let link = match nofollow::kind_of(status) {
        FileKind::Regular => false,
        FileKind::Link => true,
        _ => return None,
    };
    Some(FileStamp {
        bytes: u64::try_from(status.st_size).unwrap_or(0),
        modified: nanos(status.st_mtime as i64, status.st_mtime_nsec as i64),
        link,
        mode: status.st_mode as u32 & 0o7777,
        node: status.st_ino as u64,
        has_other_names: status.st_nlink as u64 > 1,
        touched: nanos(status.st_ctime as i64, status.st_ctime_nsec as i64),
    })
}
