//! Mounts the caches of build tools with the layer of a command on top, by `overlayfs`.
//!
//! Works in a user namespace from Linux 5.11 on, if the file systems of both support it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, StatVfsMountFlags, fstatvfs, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen,
};

use super::mount_table::list_mount_points;
use crate::sandbox::cache_layers::CommandLayers;
use crate::sandbox::plan::{PathRule, SandboxPlan};

/// The layers of a command, and where it sees other mounts.
pub(super) struct Overlays {
    layers: CommandLayers,
    mount_points: Vec<PathBuf>,
}

impl Overlays {
    /// Locks the layers for the caches of a plan; `None` if it has no cache, or no layers can be used.
    pub(super) fn prepare(plan: &SandboxPlan, rules: &[(PathRule, PathBuf)]) -> Option<Self> {
        let has_cache = rules.iter().any(|(rule, _)| *rule == PathRule::Cache);
        let folder = plan.cache_layers.as_ref().filter(|_| has_cache)?;
        Some(Self {
            layers: CommandLayers::lock(folder).ok()?,
            mount_points: list_mount_points().ok()?,
        })
    }

    /// Mounts a cache with its layer, detached from the tree; `None` if that is not possible here.
    pub(super) fn mount(&self, cache: &Path) -> Option<OwnedFd> {
        let mut others = self.mount_points.iter();
        // What is mounted in it would be missing.
        if others.any(|point| point != cache && point.starts_with(cache)) {
            return None;
        }
        let layer = self.layers.open_layer(cache).ok()?;
        let folders = [cache, &layer.upper, &layer.work].map(open_folder);
        let [Ok(cache), Ok(upper), Ok(work)] = &folders else {
            return None;
        };
        mount_overlay([cache, upper, work]).ok()
    }
}

fn mount_overlay([lower, upper, work]: [&OwnedFd; 3]) -> Result<OwnedFd, Errno> {
    let overlay = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, folder) in [("lowerdir", lower), ("upperdir", upper), ("workdir", work)] {
        // A path would have to be quoted, and could lead elsewhere by now.
        let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
        fsconfig_set_string(&overlay, name, path.as_str())?;
    }
    // The end of the last command may still be under way, which an index forbids.
    fsconfig_set_string(&overlay, "index", "off")?;
    // A user namespace may set no other attributes.
    fsconfig_set_flag(&overlay, "userxattr")?;
    // Otherwise the end of each command waits until everything is on the disk that any program has written.
    fsconfig_set_flag(&overlay, "volatile")?;
    fsconfig_create(&overlay)?;
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    if fstatvfs(lower)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        attributes |= MountAttrFlags::MOUNT_ATTR_NOEXEC;
    }
    fsmount(&overlay, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Opens a folder whose path is resolved already.
fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}
