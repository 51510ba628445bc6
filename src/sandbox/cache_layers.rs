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

use rustix::process::getegid;

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
/// Most layers that are kept. Those that were used last are.
const MAX_KEPT: usize = 200;
/// Most commands of a workspace that have a layer at the same time.
const MAX_AT_ONCE: usize = 64;

/// Returns the folder of the layers of a workspace. It need not exist. Blocks on the disk.
///
/// Another folder at the path of an earlier one has other layers.
pub fn locate_layers(data: &Path, workspace: &[PathBuf]) -> PathBuf {
    let mut folders: Vec<Vec<u8>> = workspace.iter().map(|path| identify(path)).collect();
    folders.sort_unstable();
    data.join(FOLDER).join(sha256(&folders.concat()))
}

/// Names a folder by its path, and by its number in the file system.
fn identify(folder: &Path) -> Vec<u8> {
    let number = fs::symlink_metadata(folder).map_or(0, |found| found.ino());
    let mut name = folder.as_os_str().as_encoded_bytes().to_vec();
    name.push(0);
    name.extend(number.to_ne_bytes());
    name
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
        let mut name = identify(cache);
        // The kernel cannot use a folder of a group that the sandbox does not have.
        name.extend(getegid().as_raw().to_ne_bytes());
        let folder = self.folder.join(sha256(&name));
        let layer = Layer {
            upper: folder.join("upper"),
            work: folder.join("work"),
        };
        create_private(&layer.upper)?;
        create_private(&layer.work)?;
        // By this the kernel says that the machine may have stopped before all was written. What a tool writes to its
        // cache without a layer can be lost in the same way.
        let _ = remove_layers(&layer.work.join("work/incompat"));
        Ok(layer)
    }
}

/// Removes the layers that no command used for a month, and the oldest of too many. Looks through them once a day, and
/// leaves those that a command uses. Blocks on the disk, which may take seconds.
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
            let _ = remove_layers(&entry);
        } else {
            layers.extend(list_folders(&entry).filter_map(|layer| Some((find_age(&layer)?, layer))));
        }
    }
    layers.sort();
    for (at, (age, layer)) in layers.into_iter().enumerate() {
        let Some(_lock) = File::open(&layer).ok().filter(|folder| folder.try_lock().is_ok()) else {
            continue;
        };
        if age > MAX_UNUSED || at >= MAX_KEPT {
            let removed = root.join(format!("{REMOVED}{}", random_token(20)));
            // A command that comes meanwhile has a new one.
            let _ = fs::rename(&layer, &removed).and_then(|()| remove_layers(&removed));
            // Fails while it has another one.
            let _ = layer.parent().map(fs::remove_dir);
        }
    }
}

/// Removes a folder and everything in it, if it exists.
///
/// Commands have made what is in it: paths may be longer than the system takes, folders deeper than a stack, and neither
/// the kernel nor some tools let the owner of a folder list it. So each folder moves to the top before it is removed.
///
/// # Errors
/// Something of it cannot be removed.
pub fn remove_layers(folder: &Path) -> io::Result<()> {
    let mut next = 0_u64;
    let mut left = vec![folder.to_owned()];
    // The folder itself comes last, when the others, which are in it then, are gone.
    while let Some(path) = left.last().cloned() {
        let inner = match empty_folder(&path, folder, &mut next) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            inner => inner?,
        };
        if inner.is_empty() {
            left.pop();
            match fs::remove_dir(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        left.extend(inner);
    }
    Ok(())
}

/// Removes the files of a folder, and moves its folders to the top. Returns these.
fn empty_folder(folder: &Path, top: &Path, next: &mut u64) -> io::Result<Vec<PathBuf>> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    let mut inner = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            fs::remove_file(entry.path())?;
        } else if folder == top {
            inner.push(entry.path());
        } else {
            // Only who may write a folder may move it.
            fs::set_permissions(entry.path(), Permissions::from_mode(0o700))?;
            let moved = loop {
                *next += 1;
                let moved = top.join(format!("moved-{next}"));
                if fs::symlink_metadata(&moved).is_err() {
                    break moved;
                }
            };
            fs::rename(entry.path(), &moved)?;
            inner.push(moved);
        }
    }
    Ok(inner)
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

/// Creates a folder that only its owner can enter, with those around it, unless it exists.
pub(super) fn create_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn is_at(file: &File, path: &Path) -> bool {
    let place = |found: fs::Metadata| (found.dev(), found.ino());
    let (opened, named) = (file.metadata(), fs::symlink_metadata(path));
    opened.is_ok_and(|opened| named.is_ok_and(|named| place(opened) == place(named)))
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
    fn what_is_removed_may_be_deep_and_closed_and_have_long_names() {
        let folder = tempfile::tempdir().unwrap();
        let (top, outside) = (folder.path().join("top"), folder.path().join("outside"));
        fs::create_dir_all(&top).unwrap();
        fs::write(&outside, "").unwrap();
        let name = "n".repeat(250);
        // Each is made at the top, and the ones before it move into it.
        for depth in 0..1500 {
            let next = top.join("next");
            fs::create_dir(&next).unwrap();
            std::os::unix::fs::symlink(&outside, next.join("link")).unwrap();
            fs::write(next.join("moved-1"), "").unwrap();
            if depth > 0 {
                fs::rename(top.join(&name), next.join(&name)).unwrap();
            }
            fs::rename(next, top.join(&name)).unwrap();
        }
        fs::set_permissions(top.join(&name), Permissions::from_mode(0o000)).unwrap();
        remove_layers(&top).unwrap();
        assert!(!top.exists() && outside.exists());
        remove_layers(&top).unwrap();
    }
}
