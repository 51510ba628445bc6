//! Keeps what confined commands change in the caches of build tools apart, in the layers of `overlayfs`.
//!
//! A command sees a cache of the user with the layer of its workspace on top, and writes only that layer. So no program
//! of another project runs what it left. Owns the folder `build-caches` in the data folder, which the sandbox hides; its
//! layout is
//!
//! ```text
//! build-caches/<workspace>/<number>          locked by the one command that uses it
//! build-caches/<workspace>/<number>/<cache>  `upper` has what commands have changed, `work` is the kernel's
//! build-caches/removed-<random>              what is being removed
//! ```
//!
//! Commands at the same time have layers of their own, since the kernel does not share one between mounts. Must not know
//! how layers are mounted: that is `linux::overlay`.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::base::clock;
use crate::base::hash::sha256;
use crate::base::random::random_token;

/// The folder of all layers, in the data folder.
const FOLDER: &str = "build-caches";
/// The start of the names of folders that are being removed.
const REMOVED: &str = "removed-";
/// The file whose time says when the layers were last looked through.
const LOOKED_THROUGH: &str = "looked-through";
/// How often they are looked through.
const LOOK_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a layer that no command uses is kept.
const MAX_UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Most bytes of all layers. Those that were used last are kept.
const MAX_BYTES: u64 = 20 << 30;
/// What a file counts at least, so that there are not too many.
const LEAST_OF_FILE: u64 = 4096;
/// Most commands of a workspace that have a layer at the same time.
const MAX_AT_ONCE: usize = 64;

/// Returns the folder of the layers of a workspace. It need not exist.
pub fn locate_layers(data: &Path, workspace: &[PathBuf]) -> PathBuf {
    let mut folders: Vec<&[u8]> = workspace
        .iter()
        .map(|path| path.as_os_str().as_encoded_bytes())
        .collect();
    folders.sort_unstable();
    data.join(FOLDER).join(sha256(&folders.join(&0)))
}

/// The layers of one command. They are locked until this is dropped.
#[derive(Debug)]
pub(super) struct CommandLayers {
    folder: PathBuf,
    _lock: File,
}

/// The folders of the layer of one cache.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) upper: PathBuf,
    pub(super) work: PathBuf,
}

impl CommandLayers {
    /// Locks the first layers in the folder of a workspace that no other command uses.
    pub(super) fn lock(workspace: &Path) -> io::Result<Self> {
        for number in 0..MAX_AT_ONCE {
            let path = workspace.join(number.to_string());
            create_private(&path)?;
            // Another process may remove it just then, or have done so before it is locked.
            let Ok(folder) = File::open(&path) else { continue };
            match folder.try_lock() {
                Ok(()) if is_at(&folder, &path) => {
                    folder.set_modified(now())?;
                    return Ok(Self {
                        folder: fs::canonicalize(path)?,
                        _lock: folder,
                    });
                }
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::Error::other(
            "too many commands use the caches of this workspace",
        ))
    }

    /// Returns the layer of a cache, which belongs to the folder that is at this path now.
    pub(super) fn open_layer(&self, cache: &Path) -> io::Result<Layer> {
        let mut name = cache.as_os_str().as_encoded_bytes().to_vec();
        name.extend(fs::symlink_metadata(cache)?.ino().to_ne_bytes());
        let folder = self.folder.join(sha256(&name));
        let layer = Layer {
            upper: folder.join("upper"),
            work: folder.join("work"),
        };
        create_private(&layer.upper)?;
        create_private(&layer.work)?;
        // By this the kernel says that the machine may have stopped before all was written. What a tool writes to its
        // cache without a layer can be lost in the same way.
        let _ = remove_tree(&layer.work.join("work/incompat"));
        Ok(layer)
    }
}

/// Removes the layers that no command used for a month, and the oldest beyond a total size. Looks through them once a
/// day, and leaves those that a command uses. Blocks on the disk, which may take seconds.
pub fn remove_old_layers(data: &Path) {
    let root = data.join(FOLDER);
    let stamp = root.join(LOOKED_THROUGH);
    if !root.is_dir() || find_age(&stamp).is_some_and(|age| age < LOOK_EVERY) {
        return;
    }
    let _ = fs::write(&stamp, "");
    let mut layers = Vec::new();
    for entry in list_folders(&root) {
        if entry.file_name().is_some_and(is_removed) {
            let _ = remove_tree(&entry);
        } else {
            layers.extend(list_folders(&entry).filter_map(|layer| Some((find_age(&layer)?, layer))));
        }
    }
    layers.sort();
    let mut total = 0;
    for (age, layer) in layers {
        let Some(_lock) = File::open(&layer).ok().filter(|folder| folder.try_lock().is_ok()) else {
            continue;
        };
        total += measure(&layer, MAX_BYTES);
        if age > MAX_UNUSED || total > MAX_BYTES {
            let removed = root.join(format!("{REMOVED}{}", random_token(20)));
            // A command that comes meanwhile has a new one.
            let _ = fs::rename(&layer, &removed).and_then(|()| remove_tree(&removed));
            // Fails while it has another one.
            let _ = layer.parent().map(fs::remove_dir);
        }
    }
}

/// Removes a folder with what is in it, although neither the folders of the kernel nor those of some tools let their
/// owner.
///
/// # Errors
/// Something of it cannot be removed. A folder that does not exist is no error.
pub fn remove_layers(folder: &Path) -> io::Result<()> {
    match remove_tree(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn is_removed(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(REMOVED.as_bytes())
}

fn list_folders(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
}

/// Returns the size of what is in a folder, in bytes. Stops beyond a limit.
fn measure(folder: &Path, limit: u64) -> u64 {
    let mut size = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(found) = entry.metadata() else { continue };
        size += (found.blocks() * 512).max(LEAST_OF_FILE);
        if found.is_dir() {
            size += measure(&entry.path(), limit.saturating_sub(size));
        }
        if size > limit {
            break;
        }
    }
    size
}

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
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn is_at(file: &File, path: &Path) -> bool {
    let identify = |found: fs::Metadata| (found.dev(), found.ino());
    let (opened, named) = (file.metadata(), fs::symlink_metadata(path));
    opened.is_ok_and(|opened| named.is_ok_and(|named| identify(opened) == identify(named)))
}

/// Returns how long ago a file or folder was changed; `None` if there is none.
fn find_age(path: &Path) -> Option<Duration> {
    let changed = fs::symlink_metadata(path).ok()?.modified().ok()?;
    Some(now().duration_since(changed).unwrap_or_default())
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(clock::wall_ms().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_age(path: &Path, age: Duration) {
        File::open(path).unwrap().set_modified(now() - age).unwrap();
    }

    fn open(layers: &CommandLayers) -> Layer {
        layers.open_layer(Path::new("/")).unwrap()
    }

    #[test]
    fn layers_that_nobody_uses_are_removed_once_a_day() {
        let data = tempfile::tempdir().unwrap();
        let root = data.path().join(FOLDER);
        let [old, used, new] = ["old", "used", "new"].map(|name| {
            let folder = locate_layers(data.path(), &[name.into()]);
            let layers = CommandLayers::lock(&folder).unwrap();
            let layer = open(&layers);
            // As the kernel and Go leave theirs.
            for (name, mode) in [("work", 0o000), ("read-only", 0o555)] {
                let folder = layer.work.join(name);
                fs::create_dir(&folder).unwrap();
                fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
            }
            folder
        });
        fs::create_dir(root.join("removed-by-a-process-that-was-killed")).unwrap();
        let month = MAX_UNUSED + Duration::from_secs(1);
        let _lock = CommandLayers::lock(&used).unwrap();
        for folder in [&old, &used] {
            set_age(&folder.join("0"), month);
        }
        remove_old_layers(data.path());
        let exist = || [&old, &used, &new].map(|folder| folder.exists());
        assert_eq!(exist(), [false, true, true]);
        assert_eq!(list_folders(&root).count(), 2, "nothing else is left");
        set_age(&new.join("0"), month);
        remove_old_layers(data.path());
        assert_eq!(exist(), [false, true, true], "looked through a moment ago");
        set_age(&root.join(LOOKED_THROUGH), LOOK_EVERY);
        remove_old_layers(data.path());
        assert_eq!(exist(), [false, true, false]);
    }

    #[test]
    fn commands_at_the_same_time_have_layers_of_their_own() {
        let data = tempfile::tempdir().unwrap();
        let folder = locate_layers(data.path(), &["/b".into(), "/a".into()]);
        assert_eq!(folder, locate_layers(data.path(), &["/a".into(), "/b".into()]));
        let first = CommandLayers::lock(&folder).unwrap();
        let second = CommandLayers::lock(&folder).unwrap();
        assert_ne!(open(&first).upper, open(&second).upper);
        let upper = open(&first).upper;
        drop(first);
        assert_eq!(open(&CommandLayers::lock(&folder).unwrap()).upper, upper);
    }

    #[test]
    fn a_total_size_counts_small_files_as_larger_ones() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        fs::write(folder.path().join("a/empty"), "").unwrap();
        fs::write(folder.path().join("large"), [1; 40_000]).unwrap();
        assert!(measure(folder.path(), u64::MAX) >= 2 * LEAST_OF_FILE + 40_000);
        assert!(measure(folder.path(), 1) > 1);
    }
}
