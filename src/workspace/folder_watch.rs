//! Learns from the kernel which names in a set of folders have changed (inotify).
//!
//! Blocks, but never waits. Reports names only; must not know what is in the files, or why someone watches them. There
//! is no watch where changes could be missed: on other systems, on network file systems, and where too few watches
//! would be left for other programs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;

#[cfg(target_os = "linux")]
pub(super) use linux::FolderWatch;
#[cfg(not(target_os = "linux"))]
pub(super) use none::FolderWatch;

/// What has changed since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NameChanges {
    /// Names of what is or was no folder, by folder.
    pub names: BTreeMap<PathBuf, BTreeSet<OsString>>,
    /// Folders below the watched ones that came, went, or changed their permissions.
    pub folders: BTreeSet<PathBuf>,
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::{BTreeMap, HashMap};
    use std::ffi::OsStr;
    use std::mem::MaybeUninit;
    use std::ops::Bound;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
    use rustix::io::Errno;

    use crate::base::nofollow;
    use crate::workspace::folder_watch::NameChanges;

    /// Where the kernel says how many watches a user may have.
    const LIMIT_FILE: &str = "/proc/sys/fs/inotify/max_user_watches";
    /// The part of them that one tree may use: editors watch folders too.
    const SHARE: usize = 8;
    /// Most events read at once. If there are more, looking at everything is cheaper.
    const MAX_EVENTS: usize = 200_000;

    /// File systems on which nothing changes without this kernel (`linux/magic.h`; ZFS: its `zfs_vfsops.h`).
    const LOCAL: [u64; 9] = [
        0xEF53,      // ext2, ext3, ext4
        0x5846_5342, // XFS
        0x9123_683E, // btrfs
        0x0102_1994, // tmpfs
        0x794C_7630, // overlayfs
        0xF2F5_2010, // F2FS
        0x2FC1_2FC1, // ZFS
        0xCA45_1A4E, // bcachefs
        0x8584_58F6, // ramfs
    ];

    #[expect(clippy::allow_attributes, reason = "needed on some systems only")]
    #[allow(clippy::unnecessary_cast, reason = "the field's type differs between systems")]
    fn is_local(folder: &Path) -> bool {
        let found = rustix::fs::statfs(folder);
        found.is_ok_and(|found| LOCAL.contains(&(found.f_type as u64)))
    }

    /// Watches folders.
    #[derive(Debug)]
    pub(in super::super) struct FolderWatch {
        descriptor: OwnedFd,
        folders: HashMap<i32, PathBuf>,
        by_path: BTreeMap<PathBuf, i32>,
        most: usize,
        is_complete: bool,
    }

    impl FolderWatch {
        /// Creates a watch for folders below `roots`; `None` if changes there could go unnoticed.
        pub(in super::super) fn for_roots(roots: &[PathBuf]) -> Option<Self> {
            // Each folder has one watch, which belongs to one root.
            let is_inside =
                |root: &PathBuf| roots.iter().any(|other| root != other && root.starts_with(other));
            if roots.iter().any(is_inside) {
                return None;
            }
            let limit = String::from_utf8(nofollow::read(Path::new(LIMIT_FILE), 64).ok()?).ok()?;
            let limit: usize = limit.trim().parse().ok()?;
            Some(Self {
                descriptor: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?,
                folders: HashMap::new(),
                by_path: BTreeMap::new(),
                most: limit / SHARE,
                is_complete: true,
            })
        }

        /// Watches the names in a folder. Call it before you read the folder.
        pub(in super::super) fn add(&mut self, folder: &Path) {
            self.is_complete &= self.try_add(folder);
        }

        /// Watches the names in a folder. Returns false if changes there could be missed.
        pub(in super::super) fn try_add(&mut self, folder: &Path) -> bool {
            let flags = WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::MODIFY
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::ATTRIB
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF
                | WatchFlags::ONLYDIR
                | WatchFlags::DONT_FOLLOW;
            if self.folders.len() >= self.most || !is_local(folder) {
                return false;
            }
            let watch = match inotify::add_watch(&self.descriptor, folder, flags) {
                Ok(watch) => watch,
                // We cannot read it either. Its parent folder reports when that changes.
                Err(Errno::ACCESS) => return true,
                Err(_) => return false,
            };
            let other = self.folders.insert(watch, folder.to_owned());
            // A folder that is mounted in two places reports only one of them.
            self.is_complete &= other.is_none_or(|other| other == folder);
            self.by_path.insert(folder.to_owned(), watch);
            true
        }

        /// Returns whether all folders that were added are watched.
        pub(in super::super) fn is_complete(&self) -> bool {
            self.is_complete
        }

        /// Returns whether a folder is watched.
        pub(in super::super) fn has(&self, folder: &Path) -> bool {
            self.by_path.contains_key(folder)
        }

        /// Ends the watch of a folder and of all below it.
        pub(in super::super) fn forget_below(&mut self, folder: &Path) {
            let from = (Bound::Included(folder), Bound::Unbounded);
            let below = self.by_path.range::<Path, _>(from);
            let below: Vec<PathBuf> = below
                .map(|(path, _)| path.clone())
                .take_while(|path| path.starts_with(folder))
                .collect();
            for path in below {
                if let Some(watch) = self.by_path.remove(&path) {
                    self.folders.remove(&watch);
                    // It is gone already if the folder is.
                    let _ = inotify::remove_watch(&self.descriptor, watch);
                }
            }
        }

        /// Returns what has changed since the last call; `None` if that is unknown.
        pub(in super::super) fn read_changes(&mut self) -> Option<NameChanges> {
            let mut changes = NameChanges::default();
            let mut buffer = vec![MaybeUninit::uninit(); 64 << 10];
            let mut reader = Reader::new(&self.descriptor, &mut buffer);
            for _ in 0..MAX_EVENTS {
                let event = match reader.next() {
                    Ok(event) => event,
                    Err(Errno::AGAIN) => return Some(changes),
                    Err(Errno::INTR) => continue,
                    Err(_) => return None,
                };
                let is_lost = ReadFlags::QUEUE_OVERFLOW | ReadFlags::UNMOUNT;
                if event.events().intersects(is_lost) {
                    return None;
                }
                let Some(folder) = self.folders.get(&event.wd()) else {
                    continue;
                };
                let Some(name) = event.file_name() else {
                    let is_top = !folder
                        .parent()
                        .is_some_and(|parent| self.by_path.contains_key(parent));
                    if is_top {
                        return None;
                    }
                    continue;
                };
                let name = OsStr::from_bytes(name.to_bytes());
                if event.events().contains(ReadFlags::ISDIR) {
                    changes.folders.insert(folder.join(name));
                } else if let Some(names) = changes.names.get_mut(folder) {
                    names.insert(name.to_owned());
                } else {
                    changes.names.insert(folder.clone(), [name.to_owned()].into());
                }
            }
            None
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod none {
    use std::path::{Path, PathBuf};

    use crate::workspace::folder_watch::NameChanges;

    /// There is none on this system.
    #[derive(Debug)]
    pub(in super::super) enum FolderWatch {}

    impl FolderWatch {
        pub(in super::super) fn for_roots(_: &[PathBuf]) -> Option<Self> {
            None
        }

        pub(in super::super) fn add(&mut self, _: &Path) {
            match *self {}
        }

        pub(in super::super) fn try_add(&mut self, _: &Path) -> bool {
            match *self {}
        }

        pub(in super::super) fn is_complete(&self) -> bool {
            match *self {}
        }

        pub(in super::super) fn has(&self, _: &Path) -> bool {
            match *self {}
        }

        pub(in super::super) fn forget_below(&mut self, _: &Path) {
            match *self {}
        }

        pub(in super::super) fn read_changes(&mut self) -> Option<NameChanges> {
            match *self {}
        }
    }
}
