//! What the files of a workspace folder that make programs run were at one moment, and how they differ from then.
//!
//! Follows no link when it reads or writes. Where the sandbox has no mounts to protect such files, their contents are
//! kept too, within bounds. Must not decide who has changed a file: `steering_watch` does.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::base::nofollow::{self, FileKind, OpenFolder, RegularFile};
use crate::sandbox::{SteeringInventory, read_todo_commands};

/// Largest file whose content is kept, and most bytes of all of them.
const MAX_FILE: u64 = 1 << 20;
const MAX_BYTES: usize = 8 << 20;
/// Most files whose contents are kept.
const MAX_FILES: usize = 2_000;

/// How a snapshot is taken.
#[derive(Clone, Debug, Default)]
pub(super) struct SnapshotOptions {
    /// Also keeps contents, because no mount protects the files.
    pub(super) keeps_contents: bool,
    /// Further paths that make programs run here.
    pub(super) named: Vec<PathBuf>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct SteeringSnapshot {
    entries: BTreeMap<PathBuf, SteeringState>,
    /// See [`SteeringInventory::has_closed_submodules`].
    pub(super) has_closed_submodules: bool,
    bytes: usize,
}

/// What one path was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SteeringState {
    Folder,
    /// With its content and mode, if they are kept.
    File(Option<(Vec<u8>, u32)>),
    Link {
        target: OsString,
        /// Where it leads in the end; `None` if nothing is there.
        leads_to: Option<PathBuf>,
    },
    /// The commands in the list of a rebase; `None` if it cannot be read.
    TodoList(Option<Vec<Vec<u8>>>),
    Other,
}

/// A path that differs between two snapshots.
#[derive(Debug)]
pub(super) struct SteeringDifference {
    pub(super) path: PathBuf,
    /// `None` if nothing was there.
    pub(super) before: Option<SteeringState>,
    pub(super) is_gone: bool,
}

impl SteeringSnapshot {
    /// Reads a folder. `before` is the snapshot that it will be compared with, if it is not the first. Blocks.
    pub(super) fn take(folder: &Path, options: &SnapshotOptions, before: Option<&Self>) -> Self {
        let inventory = match before {
            None => SteeringInventory::before_command(folder),
            Some(before) => SteeringInventory::after_command(folder, before.has_closed_submodules),
        };
        let mut snapshot = Self {
            has_closed_submodules: inventory.has_closed_submodules,
            ..Self::default()
        };
        for path in inventory.paths.into_iter().chain(options.named.iter().cloned()) {
            snapshot.add(path, options);
        }
        snapshot
    }

    fn add(&mut self, path: PathBuf, options: &SnapshotOptions) {
        let Some(kind) = nofollow::kind(&path) else { return };
        let state = match kind {
            FileKind::Folder => {
                // A repository's files that run something are on the list themselves.
                let is_repository = nofollow::kind(&path.join("objects")).is_some();
                if options.keeps_contents && !is_repository && self.entries.len() < MAX_FILES {
                    self.add_entries(&path, options);
                }
                SteeringState::Folder
            }
            FileKind::Regular => match read_todo_commands(&path) {
                Some(commands) if commands.is_empty() => {
                    SteeringState::File(options.keeps_contents.then(|| self.read_file(&path)).flatten())
                }
                commands => SteeringState::TodoList(commands),
            },
            FileKind::Link => match read_link(&path) {
                Ok(target) => SteeringState::Link {
                    target,
                    leads_to: std::fs::canonicalize(&path).ok(),
                },
                Err(_) => SteeringState::Other,
            },
            FileKind::Pipe | FileKind::Socket | FileKind::Device => SteeringState::Other,
        };
        self.entries.insert(path, state);
    }

    fn add_entries(&mut self, folder: &Path, options: &SnapshotOptions) {
        let entries = OpenFolder::open(folder).and_then(|folder| folder.read_entries());
        for entry in entries.into_iter().flatten().flatten() {
            self.add(folder.join(entry.name), options);
        }
    }

    fn read_file(&mut self, path: &Path) -> Option<(Vec<u8>, u32)> {
        let mut file = RegularFile::open(path).ok()?;
        let mode = file.metadata().mode() & 0o7777;
        let content = file.read(MAX_FILE).ok()?;
        self.bytes += content.len();
        (self.bytes <= MAX_BYTES).then_some((content, mode))
    }

    /// Lists what is new, different, or gone, with folders before what is in them. A list of a rebase may only get
    /// shorter without being different.
    pub(super) fn find_differences(&self, now: &Self) -> Vec<SteeringDifference> {
        let mut found: BTreeMap<&PathBuf, bool> = BTreeMap::new();
        for (path, state) in &now.entries {
            if self.entries.get(path).is_none_or(|before| !before.allows(state)) {
                found.insert(path, false);
            }
        }
        let gone = self
            .entries
            .iter()
            .filter(|(path, _)| !now.entries.contains_key(*path));
        found.extend(gone.map(|(path, _)| (path, true)));
        let to_difference = |(path, is_gone): (&PathBuf, bool)| SteeringDifference {
            path: path.clone(),
            before: self.entries.get(path).cloned(),
            is_gone,
        };
        found.into_iter().map(to_difference).collect()
    }

    /// Takes over what a path and everything below it are in another snapshot.
    pub(super) fn accept(&mut self, path: &Path, now: &Self) {
        self.entries.retain(|known, _| !known.starts_with(path));
        let accepted = now.entries.iter().filter(|(known, _)| known.starts_with(path));
        self.entries
            .extend(accepted.map(|(path, state)| (path.clone(), state.clone())));
    }
}

impl SteeringState {
    fn allows(&self, now: &Self) -> bool {
        match (self, now) {
            (Self::TodoList(Some(before)), Self::TodoList(Some(now))) => {
                now.iter().all(|command| before.contains(command))
            }
            _ => self == now,
        }
    }

    /// Creates again what was at a path, which must be free.
    ///
    /// # Errors
    /// Something is there, its content was not kept, a link would lead elsewhere now, or the system refuses.
    pub(super) fn put_back(&self, path: &Path) -> io::Result<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let folder = OpenFolder::open_for_traversal(parent)?;
        match self {
            Self::Folder => OpenFolder::create_all(path).map(drop),
            Self::File(Some((content, mode))) => {
                let mut file = folder.create_file(name, 0o600)?;
                file.write_all(content)?;
                file.set_permissions(Permissions::from_mode(*mode))
            }
            Self::Link { target, leads_to } => {
                if std::fs::canonicalize(parent.join(target)).ok() != *leads_to {
                    return Err(io::Error::other("it would lead elsewhere now"));
                }
                folder.create_link(target, name)
            }
            Self::File(None) | Self::TodoList(_) | Self::Other => {
                Err(io::Error::other("its content was not kept"))
            }
        }
    }
}

fn read_link(path: &Path) -> io::Result<OsString> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    OpenFolder::open_for_traversal(parent)?.read_link(name)
}
