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

use serde::{Deserialize, Serialize};

use super::write::TemporaryFile;
use crate::base::nofollow::{self, FileKind, OpenFolder, RegularFile};
use crate::sandbox::{COMMON_POINTER, read_todo_commands, visit_steering_files};

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

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct SteeringSnapshot {
    entries: BTreeMap<PathBuf, SteeringState>,
    /// As [`visit_steering_files`] returns it.
    pub(super) has_closed_submodules: bool,
}

/// Takes a snapshot.
struct SnapshotReader<'a> {
    options: &'a SnapshotOptions,
    before: Option<&'a SteeringSnapshot>,
    /// Also keeps the contents of what was not there before, as far as there is room.
    keeps_new: bool,
    snapshot: SteeringSnapshot,
    bytes: usize,
}

/// What one path was. On the disk, without contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SteeringState {
    Folder {
        /// Everything in it is in the snapshot too.
        #[serde(skip)]
        is_expanded: bool,
    },
    /// With its content and mode, if they are kept.
    File(#[serde(skip)] Option<(Vec<u8>, u32)>),
    Link {
        target: OsString,
        /// Where it leads in the end; `None` if nothing is there.
        leads_to: Option<PathBuf>,
    },
    /// The commands that a stopped rebase or cherry-pick runs next; `None` if they cannot be read.
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
    /// Reads a folder. Blocks.
    pub(super) fn take(folder: &Path, options: &SnapshotOptions) -> Self {
        SnapshotReader::read(folder, options, None, true)
    }

    /// Reads a folder again to compare it with this snapshot, so only what is kept here is read. Blocks.
    pub(super) fn take_again(&self, folder: &Path, options: &SnapshotOptions) -> Self {
        SnapshotReader::read(folder, options, Some(self), false)
    }

    /// Reads a folder again so that this snapshot can [`Self::accept`] what is new. Blocks.
    pub(super) fn take_with_new(&self, folder: &Path, options: &SnapshotOptions) -> Self {
        SnapshotReader::read(folder, options, Some(self), true)
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

    /// Forgets a path and everything below it, as if nothing had been there.
    pub(super) fn forget(&mut self, path: &Path) {
        self.entries.retain(|known, _| !known.starts_with(path));
    }

    /// Takes over what a path and everything below it are in another snapshot.
    pub(super) fn accept(&mut self, path: &Path, now: &Self) {
        self.forget(path);
        let accepted = now.entries.iter().filter(|(known, _)| known.starts_with(path));
        self.entries
            .extend(accepted.map(|(path, state)| (path.clone(), state.clone())));
    }
}

impl SnapshotReader<'_> {
    fn read(
        folder: &Path,
        options: &SnapshotOptions,
        before: Option<&SteeringSnapshot>,
        keeps_new: bool,
    ) -> SteeringSnapshot {
        let mut reader = SnapshotReader {
            options,
            before,
            keeps_new,
            snapshot: SteeringSnapshot::default(),
            bytes: 0,
        };
        // Without mounts, nothing closes them.
        let closes_submodules = before.map_or(!options.keeps_contents, |before| before.has_closed_submodules);
        let has_closed_submodules = visit_steering_files(folder, closes_submodules, &mut |path, steers| {
            if steers || keeps_new {
                reader.add(path);
            } else {
                reader.add_as_before(&path);
            }
        });
        options.named.iter().for_each(|path| reader.add(path.clone()));
        // A pointer that is gone counts, unless its work tree is gone too.
        for path in before.iter().flat_map(|before| before.entries.keys()) {
            if path.ends_with(COMMON_POINTER) && path.parent().and_then(nofollow::kind).is_none() {
                reader.add_as_before(path);
            }
        }
        SteeringSnapshot {
            has_closed_submodules,
            ..reader.snapshot
        }
    }

    /// Adds a path as if it had not changed, if it was there before.
    fn add_as_before(&mut self, path: &Path) {
        if let Some(state) = self.before.and_then(|before| before.entries.get(path)) {
            self.snapshot.entries.insert(path.to_owned(), state.clone());
        }
    }

    fn add(&mut self, path: PathBuf) {
        let Some(kind) = nofollow::kind(&path) else { return };
        let before = self.before.and_then(|before| before.entries.get(&path));
        let state = match kind {
            FileKind::Folder => SteeringState::Folder {
                is_expanded: self.options.keeps_contents && self.expand(&path, before),
            },
            FileKind::Regular => match read_todo_commands(&path) {
                Some(commands) if commands.is_empty() => SteeringState::File(self.read_file(&path, before)),
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
        self.snapshot.entries.insert(path, state);
    }

    /// Adds everything in a folder or nothing, and returns whether it did.
    ///
    /// Does what was done before, or unchanged files would seem new or gone. With too many new ones, the folder itself is
    /// what has changed.
    fn expand(&mut self, folder: &Path, before: Option<&SteeringState>) -> bool {
        let was_expanded = matches!(before, Some(SteeringState::Folder { is_expanded: true }));
        // A repository's files that run something are on the list themselves.
        let is_repository = || nofollow::kind(&folder.join("objects")).is_some();
        if !was_expanded && (!self.keeps_new || is_repository()) {
            return false;
        }
        let mut room = MAX_FILES;
        if !was_expanded {
            room = room.saturating_sub(self.snapshot.entries.len());
        }
        let Ok(entries) = OpenFolder::open(folder).and_then(|folder| folder.read_entries()) else {
            return false;
        };
        let mut paths = Vec::new();
        for entry in entries {
            let Ok(entry) = entry else { return false };
            let path = folder.join(entry.name);
            if self
                .before
                .is_none_or(|before| !before.entries.contains_key(&path))
            {
                let Some(left) = room.checked_sub(1) else {
                    return false;
                };
                room = left;
            }
            paths.push(path);
        }
        paths.into_iter().for_each(|path| self.add(path));
        true
    }

    /// Reads a file whose content is or was kept, with its mode.
    fn read_file(&mut self, path: &Path, before: Option<&SteeringState>) -> Option<(Vec<u8>, u32)> {
        let was_kept = matches!(before, Some(SteeringState::File(Some(_))));
        let may_keep = self.options.keeps_contents || path.ends_with(COMMON_POINTER);
        let keeps = was_kept || (may_keep && self.keeps_new && self.bytes < MAX_BYTES);
        if !keeps {
            return None;
        }
        let mut file = RegularFile::open(path).ok()?;
        let mode = file.metadata().mode() & 0o7777;
        let content = file.read(MAX_FILE).ok()?;
        self.bytes += content.len();
        (was_kept || self.bytes <= MAX_BYTES).then_some((content, mode))
    }
}

impl SteeringState {
    fn allows(&self, now: &Self) -> bool {
        match (self, now) {
            (Self::TodoList(Some(before)), Self::TodoList(Some(now))) => {
                now.iter().all(|command| before.contains(command))
            }
            (Self::File(None), Self::File(_)) => true,
            (Self::Folder { is_expanded: was }, Self::Folder { is_expanded: is }) => *is || !was,
            _ => self == now,
        }
    }

    /// Creates again what was at a path, which must be free.
    ///
    /// # Errors
    /// Something is there, its content was not kept, a link would lead elsewhere now, or the system refuses.
    pub(super) fn put_back(&self, path: &Path) -> io::Result<()> {
        let (folder, name) = OpenFolder::open_parent(path)?;
        match self {
            Self::Folder { .. } => OpenFolder::create_all(path).map(drop),
            Self::File(Some((content, mode))) => {
                // A full disk must not leave a part of it.
                let (mut temporary, mut file) = TemporaryFile::create_in(&folder, 0o600)?;
                file.write_all(content)?;
                file.set_permissions(Permissions::from_mode(*mode))?;
                temporary.rename_to_new(name)
            }
            Self::Link { target, leads_to } => {
                if std::fs::canonicalize(path.with_file_name(target)).ok() != *leads_to {
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
    let (folder, name) = OpenFolder::open_parent(path)?;
    folder.read_link(name)
}
