//! Mounts a cache of a build tool with the layer of a workspace on top, by `overlayfs`.
//!
//! Works in a user namespace from Linux 5.11 on, if the file systems of both support it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen,
};

use crate::sandbox::cache_layers::UsedLayers;

/// Mounts a cache with its layer, detached from the tree; `None` if that is not possible here.
pub(super) fn mount_layered(cache: &Path, layers: &UsedLayers) -> Option<OwnedFd> {
    let layer = layers.open_layer(cache).ok()?;
    let folders = [cache, &layer.upper, &layer.work].map(open_folder);
    let [Ok(cache), Ok(upper), Ok(work)] = &folders else {
        return None;
    };
    mount_overlay([cache, upper, work]).ok()
}

fn mount_overlay([lower, upper, work]: [&OwnedFd; 3]) -> Result<OwnedFd, Errno> {
    let overlay = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, folder) in [("lowerdir", lower), ("upperdir", upper), ("workdir", work)] {
        // A path would have to be quoted, and could lead elsewhere by now.
        let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
        fsconfig_set_string(&overlay, name, path.as_str())?;
    }
    // Several commands may write the same layer, which an index forbids.
    fsconfig_set_string(&overlay, "index", "off")?;
    // A user namespace may set no other attributes.
    fsconfig_set_flag(&overlay, "userxattr")?;
    // Otherwise the end of each command waits until everything is on the disk that any program has written.
    fsconfig_set_flag(&overlay, "volatile")?;
    fsconfig_create(&overlay)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(&overlay, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Opens a folder whose path is resolved already.
fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}
