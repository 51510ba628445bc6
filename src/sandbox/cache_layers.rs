//! Keeps what confined commands change in the caches of build tools apart, for each workspace: the layers of `overlayfs`.
//!
//! A command sees a cache of the user with the layer of its workspace on top, and writes only that layer. So no program
//! of another project runs what it left. Owns the folder `build-caches` in the data folder, which the sandbox hides; its
//! layout is
//!
//! ```text
//! build-caches/<workspace>/<cache>/upper   what commands have changed
//! build-caches/<workspace>/<cache>/work-N  what the kernel needs for one mount
//! build-caches/<workspace>/slot-N          locked by the command that uses all `work-N`
//! ```
//!
//! Commands lock the folder of their workspace together, and who removes it locks it alone. Must not know how layers are
//! mounted: that is `linux::overlay`.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use crate::base::clock;
use crate::base::hash::sha256;

/// The folder of all layers, in the data folder.
const FOLDER: &str = "build-caches";
/// The file whose time says when the layers were last looked through.
const LOOKED_THROUGH: &str = "looked-through";
/// How long a layer that no command uses is kept.
const MAX_UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Most bytes of the layers of one workspace.
const MAX_BYTES: u64 = 10 << 30;
/// Most files of the layers of one workspace.
const MAX_FILES: u64 = 2_000_000;
/// How often the layers are looked through.
const LOOK_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// Most commands that write the layers of a workspace at the same time.
const MAX_SLOTS: usize = 64;
/// Most times that a folder is locked which another process removes just then.
const MAX_TRIES: usize = 10;

/// Returns the folder of the layers of a workspace. It need not exist.
pub fn locate_layers(data: &Path, workspace: &[PathBuf]) -> PathBuf {
    let mut folders: Vec<&[u8]> = workspace
        .iter()
        .map(|path| path.as_os_str().as_encoded_bytes())
        .collect();
    folders.sort_unstable();
    data.join(FOLDER).join(sha256(&folders.join(&0)))
}

/// The layers of a workspace, as one command uses them. They are locked until this is dropped.
#[derive(Debug)]
pub(super) struct UsedLayers {
    folder: PathBuf,
    slot: usize,
    _locks: [File; 2],
}

/// The folders of one layer.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) upper: PathBuf,
    pub(super) work: PathBuf,
}

impl UsedLayers {
    /// Locks the layers in a folder, which is created if it is missing.
    pub(super) fn lock(folder: &Path) -> io::Result<Self> {
        for _ in 0..MAX_TRIES {
            create_private(folder)?;
            let Ok(whole) = File::open(folder) else { continue };
            whole.lock_shared()?;
            // Another process may have removed it just before.
            if !is_at(&whole, folder) {
                continue;
            }
            for slot in 0..MAX_SLOTS {
                let path = folder.join(format!("slot-{slot}"));
                let mut options = OpenOptions::new();
                let created = options
                    .create(true)
                    .truncate(false)
                    .write(true)
                    .mode(0o600)
                    .open(&path)?;
                created.set_modified(UNIX_EPOCH + since_epoch())?;
                // An open file that could be written would keep its mount from becoming read-only.
                drop(created);
                let file = File::open(&path)?;
                match file.try_lock() {
                    Ok(()) => {
                        return Ok(Self {
                            folder: fs::canonicalize(folder)?,
                            slot,
                            _locks: [whole, file],
                        });
                    }
                    Err(TryLockError::WouldBlock) => {}
                    Err(TryLockError::Error(error)) => return Err(error),
                }
            }
            return Err(io::Error::other(
                "too many commands use the caches of this workspace",
            ));
        }
        Err(io::Error::other("the layers of this workspace disappear"))
    }

    /// Returns the layer of a cache, with a new folder for the kernel, which refuses one that it has used.
    pub(super) fn open_layer(&self, cache: &Path) -> io::Result<Layer> {
        let folder = self.folder.join(sha256(cache.as_os_str().as_encoded_bytes()));
        let layer = Layer {
            upper: folder.join("upper"),
            work: folder.join(format!("work-{}", self.slot)),
        };
        remove_layers(&layer.work)?;
        create_private(&layer.upper)?;
        create_private(&layer.work)?;
        Ok(layer)
    }
}

/// Removes the layers of workspaces that no command used for a month, and those that are too large. Looks through them
/// once a day, and leaves those that a command uses. Blocks on the disk.
pub fn remove_old_layers(data: &Path) {
    let root = data.join(FOLDER);
    let stamp = root.join(LOOKED_THROUGH);
    let is_new = |path: &Path, limit| find_age(path).is_some_and(|age| age < limit);
    if !root.is_dir() || is_new(&stamp, LOOK_EVERY) {
        return;
    }
    let _ = fs::write(&stamp, "");
    for entry in fs::read_dir(&root).into_iter().flatten().flatten() {
        let folder = entry.path();
        let Ok(whole) = File::open(&folder) else { continue };
        if !folder.is_dir() || whole.try_lock().is_err() {
            continue;
        }
        // The first slot is used by every command that has no other next to it.
        let is_unused = !is_new(&folder.join("slot-0"), MAX_UNUSED);
        if is_unused || !fits(&folder, &mut Sizes::default()) {
            let _ = remove_tree(&folder);
        }
    }
}

/// Removes a folder of layers if it exists, although the kernel has left folders that their owner cannot list.
///
/// # Errors
/// Something of it cannot be removed.
pub fn remove_layers(folder: &Path) -> io::Result<()> {
    match remove_tree(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// What was counted of a layer.
#[derive(Default)]
struct Sizes {
    bytes: u64,
    files: u64,
}

/// Returns whether a folder is as small as a layer may be.
fn fits(folder: &Path, sizes: &mut Sizes) -> bool {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(found) = fs::symlink_metadata(entry.path()) else {
            continue;
        };
        sizes.files += 1;
        sizes.bytes += found.blocks() * 512;
        let is_within = sizes.files <= MAX_FILES && sizes.bytes <= MAX_BYTES;
        if !is_within || found.is_dir() && !fits(&entry.path(), sizes) {
            return false;
        }
    }
    true
}

/// Removes a folder with what is in it. The folders of some tools are read-only.
fn remove_tree(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir(folder)
}

fn create_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn is_at(file: &File, path: &Path) -> bool {
    let identify = |found: fs::Metadata| (found.dev(), found.ino());
    let (opened, named) = (file.metadata(), fs::symlink_metadata(path));
    opened.is_ok_and(|opened| named.is_ok_and(|named| identify(opened) == identify(named)))
}

/// Returns how long ago a file was changed; `None` if there is none.
fn find_age(path: &Path) -> Option<Duration> {
    let changed = fs::symlink_metadata(path).ok()?.modified().ok()?;
    let changed = changed.duration_since(UNIX_EPOCH).ok()?;
    Some(since_epoch().saturating_sub(changed))
}

fn since_epoch() -> Duration {
    Duration::from_millis(clock::wall_ms().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_age(path: &Path, age: Duration) {
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(UNIX_EPOCH + since_epoch() - age).unwrap();
    }

    #[test]
    fn layers_that_nobody_uses_are_removed_once_a_day() {
        let data = tempfile::tempdir().unwrap();
        let [old, used, new] = ["old", "used", "new"].map(|name| {
            let folder = locate_layers(data.path(), &[name.into()]);
            let layers = UsedLayers::lock(&folder).unwrap();
            let layer = layers.open_layer(Path::new("/cache")).unwrap();
            // As the kernel and Go leave theirs.
            for (name, mode) in [("work", 0o000), ("read-only", 0o555)] {
                let folder = layer.work.join(name);
                fs::create_dir(&folder).unwrap();
                fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
            }
            folder
        });
        let month = MAX_UNUSED + Duration::from_secs(1);
        let _lock = UsedLayers::lock(&used).unwrap();
        for folder in [&old, &used] {
            set_age(&folder.join("slot-0"), month);
        }
        remove_old_layers(data.path());
        let exist = || [&old, &used, &new].map(|folder| folder.exists());
        assert_eq!(exist(), [false, true, true]);
        set_age(&new.join("slot-0"), month);
        remove_old_layers(data.path());
        assert_eq!(exist(), [false, true, true], "looked through a moment ago");
        set_age(&data.path().join(FOLDER).join(LOOKED_THROUGH), LOOK_EVERY);
        remove_old_layers(data.path());
        assert_eq!(exist(), [false, true, false]);
    }

    #[test]
    fn commands_at_the_same_time_have_folders_of_their_own_for_the_kernel_only() {
        let data = tempfile::tempdir().unwrap();
        let open = |layers: &UsedLayers| layers.open_layer(Path::new("/cache")).unwrap();
        let folder = locate_layers(data.path(), &["/b".into(), "/a".into()]);
        assert_eq!(folder, locate_layers(data.path(), &["/a".into(), "/b".into()]));
        let first = UsedLayers::lock(&folder).unwrap();
        let second = UsedLayers::lock(&folder).unwrap();
        assert_eq!(open(&first).upper, open(&second).upper);
        assert_ne!(open(&first).work, open(&second).work);
        let work = open(&first).work;
        drop(first);
        assert_eq!(open(&UsedLayers::lock(&folder).unwrap()).work, work);
    }
}
