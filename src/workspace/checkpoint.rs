//! Owns what files were and are (R-SESS-3): inspects files, compares their states, and restores them.
//!
//! Inspecting and restoring block. Must not know where contents are kept: callers pass bytes in and get bytes back.
//! No link is followed on the way to a file, so a folder that became a link never leads a restore elsewhere.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, Stat, fchmod};

use super::write::TemporaryFile;
use crate::base::hash;
use crate::base::nofollow::{self, FileKind, OpenError, OpenFolder, kind_of};
use crate::domain::{FileChange, FileState};

/// Largest file whose content is kept, in bytes.
pub const MAX_FILE_BYTES: u64 = 64 << 20;

/// The conflict when a folder with files is in the place of a file to restore.
pub const FOLDER_IN_THE_WAY: &str = "it is now a folder";

/// The state of a path, with the content of a regular file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    pub state: FileState,
    /// Present for a regular file only.
    pub bytes: Option<Vec<u8>>,
}

/// Inspects `path` without following its last component.
///
/// A path that is reachable only through a link that one of its folders has become counts as absent. So does a folder
/// without files: a restore can remove it without losing anything.
///
/// # Errors
/// Fails if the disk fails or the file is larger than [`MAX_FILE_BYTES`].
pub fn inspect_file(path: &Path) -> io::Result<FoundFile> {
    let alone = |state| Ok(FoundFile { state, bytes: None });
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return alone(FileState::Unknown);
    };
    let looked =
        OpenFolder::open_for_traversal(parent).and_then(|folder| Ok((folder.entry_status(name)?, folder)));
    let (status, folder) = match looked {
        Ok(looked) => looked,
        Err(error) if is_absence(&error) => return alone(FileState::Absent),
        Err(error) => return Err(error),
    };
    match kind_of(&status) {
        FileKind::Folder if has_no_files(&folder.open_folder(name)?)? => return alone(FileState::Absent),
        FileKind::Link => {
            return alone(match folder.read_link(name)?.into_string() {
                Ok(target) => FileState::Link { target },
                // A stored target is text, so one that is not UTF-8 cannot be restored.
                Err(_) => FileState::Unknown,
            });
        }
        FileKind::Regular => {}
        // Neither a pipe nor a folder with files has a content that could be kept.
        _ => return alone(FileState::Unknown),
    }
    let bytes = folder
        .open_file(name)
        .and_then(|mut file| file.read(MAX_FILE_BYTES))
        .map_err(|error| match error {
            OpenError::TooLarge { .. } => {
                let message = format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20);
                io::Error::new(io::ErrorKind::FileTooLarge, message)
            }
            OpenError::Io(error) => error,
            error => io::Error::other(error),
        })?;
    Ok(FoundFile {
        state: regular_file_state(&bytes, mode_from_stat(&status)),
        bytes: Some(bytes),
    })
}

/// Returns whether nothing is there, or one of the folders on the way has become a link.
fn is_absence(error: &io::Error) -> bool {
    nofollow::is_link_error(error)
        || matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        )
}

/// Returns the state of a regular file with this content and these permission bits.
pub fn regular_file_state(bytes: &[u8], mode: u32) -> FileState {
    FileState::File {
        hash: hash::sha256(bytes),
        bytes: bytes.len() as u64,
        mode,
    }
}

/// Returns the permission bits of `path`, or 0 if there is no file.
pub fn mode_of(path: &Path) -> u32 {
    nofollow::status_of(path).map_or(0, |status| mode_from_stat(&status))
}

fn mode_from_stat(status: &Stat) -> u32 {
    #[expect(clippy::allow_attributes, reason = "needed on some systems only")]
    #[allow(clippy::useless_conversion, reason = "u16 on macOS")]
    let mode = u32::from(status.st_mode & 0o7777);
    // Mode 0 means unknown. The bit of a regular file changes nothing when the mode is set.
    if mode == 0 { REGULAR_FILE } else { mode }
}

/// The bit that says that a mode without permissions is known.
const REGULAR_FILE: u32 = 0o100_000;

/// Returns whether the folder contains nothing but such folders.
fn has_no_files(folder: &OpenFolder) -> io::Result<bool> {
    for entry in folder.read_entries()? {
        let entry = entry?;
        if entry.kind != FileKind::Folder || !has_no_files(&folder.open_folder(&entry.name)?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lists the files below the folder `path`, at most `most` and one more; `None` if `path` is not a folder.
///
/// The one more tells the caller that there are too many.
///
/// # Errors
/// Fails if the disk fails.
pub fn files_below(path: &Path, most: usize) -> io::Result<Option<Vec<PathBuf>>> {
    if nofollow::kind(path) != Some(FileKind::Folder) {
        return Ok(None);
    }
    let (mut files, mut folders) = (Vec::new(), vec![path.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in OpenFolder::open(&folder)?.read_entries()? {
            let entry = entry?;
            let path = folder.join(entry.name);
            match entry.kind {
                FileKind::Folder => folders.push(path),
                _ if files.len() > most => return Ok(Some(files)),
                _ => files.push(path),
            }
        }
    }
    Ok(Some(files))
}

/// The state that a file should have again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredState {
    pub path: String,
    pub to: FileState,
    /// Every state it had in between. Their contents are kept, so overwriting one of them loses nothing.
    pub known: Vec<FileState>,
    /// Whether someone else changed it in between.
    pub foreign: bool,
}

/// Whether a desired state can be restored over what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreVerdict {
    /// The file has the desired state already.
    Done,
    PutBack,
    /// Someone has changed it since, or its old content is unknown. The text says which.
    Conflict(&'static str),
}

/// Computes the states that undo all of `changes`, which are given oldest first.
pub fn collect_desired_states<'a>(changes: impl IntoIterator<Item = &'a FileChange>) -> Vec<DesiredState> {
    let mut desired_states: Vec<DesiredState> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    // A change without a kind had no effect or was never made.
    for change in changes.into_iter().filter(|change| change.kind().is_some()) {
        let at = *places.entry(&change.path).or_insert_with(|| {
            desired_states.push(DesiredState {
                path: change.path.clone(),
                to: change.before.clone(),
                known: vec![change.before.clone()],
                foreign: false,
            });
            desired_states.len() - 1
        });
        desired_states[at].foreign |=
            classify_origin(&desired_states[at].known, change) == ChangeOrigin::FromElsewhere;
        desired_states[at].known.push(change.before.clone());
        desired_states[at].known.push(change.after.clone());
    }
    desired_states
}

/// The origin of the state that a change started from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeOrigin {
    /// A known state: the original, or one that an earlier change left.
    FromKnown,
    /// A state that someone else made.
    FromElsewhere,
}

/// Classifies the state that `change` started from, given the known states of the file.
pub fn classify_origin(known: &[FileState], change: &FileChange) -> ChangeOrigin {
    let same = |state: &FileState| same_content(state, &change.before);
    // Two unknown states never compare equal, so allow them where nothing else is known.
    if known.iter().any(same) || known == [FileState::Unknown] && change.before == FileState::Unknown {
        ChangeOrigin::FromKnown
    } else {
        ChangeOrigin::FromElsewhere
    }
}

impl DesiredState {
    /// Compares the desired state with what is there.
    ///
    /// `is` tells whether a state has the content that is there; `exactly` whether the desired mode is there too.
    pub fn evaluate_restore(&self, is: impl Fn(&FileState) -> bool, exactly: bool) -> RestoreVerdict {
        if self.to == FileState::Unknown {
            return RestoreVerdict::Conflict("its old content is unknown");
        }
        // First: a file that already has the desired state does not conflict, whoever changed it.
        if exactly && is(&self.to) {
            return RestoreVerdict::Done;
        }
        if self.foreign {
            return RestoreVerdict::Conflict("it was changed by someone else between these changes");
        }
        if self
            .known
            .iter()
            .any(|state| *state != FileState::Unknown && is(state))
        {
            RestoreVerdict::PutBack
        } else {
            RestoreVerdict::Conflict("it has changed since")
        }
    }
}

/// Returns whether both have the same content, whatever their modes.
pub fn same_content(a: &FileState, b: &FileState) -> bool {
    match (a, b) {
        (FileState::File { hash: a, .. }, FileState::File { hash: b, .. }) => a == b,
        (FileState::Unknown, _) | (_, FileState::Unknown) => false,
        (a, b) => a == b,
    }
}

/// Restores a state at `path`, fully or not at all: a file or link is created next to it and renamed over it.
///
/// Nothing is flushed: the old and the new content are both kept, and flushing ten thousand files takes a minute.
/// Blocks.
///
/// # Errors
/// Returns the reason as text for people.
pub fn restore_file_state(path: &Path, state: &FileState, bytes: Option<&[u8]>) -> Result<(), String> {
    let describe_error = |error: io::Error| {
        if nofollow::is_link_error(&error) {
            "its folder now leads somewhere else".to_owned()
        } else {
            error.to_string()
        }
    };
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err("it has no folder".to_owned());
    };
    // Opened once, so that a link swapped in later cannot redirect the steps below.
    let folder = match (OpenFolder::open_for_traversal(parent), state) {
        (Ok(folder), _) => folder,
        (Err(error), FileState::Absent) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        // The folder may have been deleted together with the file.
        (Err(_), _) => OpenFolder::create_all(parent).map_err(describe_error)?,
    };
    // A folder without files counts as absent, as in `inspect_file`. One with files is never removed.
    if (folder.entry_status(name)).is_ok_and(|status| kind_of(&status) == FileKind::Folder) {
        let there = folder.open_folder(name).map_err(describe_error)?;
        match (has_no_files(&there).map_err(describe_error)?, state) {
            (false, _) => return Err(FOLDER_IN_THE_WAY.to_owned()),
            (true, FileState::Absent) => return Ok(()),
            (true, _) => remove_hollow(&folder, name).map_err(describe_error)?,
        }
    }
    match state {
        FileState::Unknown => Err("its content is unknown".to_owned()),
        FileState::Absent => match folder.remove_file(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(describe_error(error)),
            Ok(()) | Err(_) => Ok(()),
        },
        FileState::File { mode, .. } => {
            let bytes = bytes.ok_or("its stored content is missing")?;
            write_restored_file(&folder, name, bytes, *mode).map_err(describe_error)
        }
        FileState::Link { target } => TemporaryFile::create_link(&folder, target)
            .and_then(|mut link| link.rename_to(name))
            .map_err(describe_error),
    }
}

/// Removes a folder that contains only folders; fails at the first file.
fn remove_hollow(parent: &OpenFolder, name: &OsStr) -> io::Result<()> {
    let folder = parent.open_folder(name)?;
    for entry in folder.read_entries()? {
        remove_hollow(&folder, &entry?.name)?;
    }
    parent.remove_folder(name)
}

fn write_restored_file(folder: &OpenFolder, name: &OsStr, bytes: &[u8], mode: u32) -> io::Result<()> {
    // Mode 0 means unknown: the file gets the default bits. Otherwise it stays private until its bits are set.
    let (mut temporary, mut file) = TemporaryFile::create_in(folder, if mode == 0 { 0o666 } else { 0o600 })?;
    file.write_all(bytes)?;
    if mode != 0 {
        fchmod(&file, Mode::from_raw_mode(mode))?;
    }
    temporary.rename_to(name)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn create_temp_dir() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    fn make_file_change(path: &str, before: FileState, after: FileState) -> FileChange {
        FileChange {
            path: path.to_owned(),
            before,
            after,
        }
    }

    #[test]
    fn every_kind_of_state_is_restored() {
        let (_dir, dir) = create_temp_dir();
        let path = dir.join("deep/er/a");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, b"bin\0ary").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        let file = inspect_file(&path).unwrap();
        fs::remove_file(&path).unwrap();
        symlink("../elsewhere", &path).unwrap();
        let linked = inspect_file(&path).unwrap();
        assert_eq!(
            linked.state,
            FileState::Link {
                target: "../elsewhere".to_owned()
            }
        );
        fs::remove_dir_all(dir.join("deep")).unwrap();
        assert_eq!(inspect_file(&path).unwrap().state, FileState::Absent);
        for found in [&file, &linked, &file] {
            restore_file_state(&path, &found.state, found.bytes.as_deref()).unwrap();
            assert_eq!(inspect_file(&path).unwrap(), *found);
        }
        restore_file_state(&path, &FileState::Absent, None).unwrap();
        restore_file_state(&path, &FileState::Absent, None).unwrap();
        assert!(!path.exists());
        fs::create_dir_all(path.join("b/c")).unwrap();
        assert_eq!(inspect_file(&path).unwrap().state, FileState::Absent);
        fs::write(path.join("b/d"), "").unwrap();
        assert_eq!(inspect_file(&path).unwrap().state, FileState::Unknown);
        assert_eq!(files_below(&path, 9).unwrap(), Some(vec![path.join("b/d")]));
        let refused = restore_file_state(&path, &file.state, file.bytes.as_deref());
        assert_eq!(refused.unwrap_err(), FOLDER_IN_THE_WAY);
        fs::remove_file(path.join("b/d")).unwrap();
        restore_file_state(&path, &FileState::Absent, None).unwrap();
        assert!(path.join("b/c").is_dir());
        restore_file_state(&path, &file.state, file.bytes.as_deref()).unwrap();
        assert_eq!(inspect_file(&path).unwrap(), file);
        assert_eq!(files_below(&path, 9).unwrap(), None);
    }

    #[test]
    fn a_file_without_permissions_comes_back_without_them() {
        let (_dir, dir) = create_temp_dir();
        let path = dir.join("a");
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        // Only root can read it, so only root keeps it.
        let Ok(found) = inspect_file(&path) else { return };
        fs::remove_file(&path).unwrap();
        restore_file_state(&path, &found.state, found.bytes.as_deref()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0);
        assert_eq!(inspect_file(&path).unwrap(), found);
    }

    #[test]
    fn a_folder_that_became_a_link_is_not_followed() {
        let (_dir, dir) = create_temp_dir();
        let (_other, other) = create_temp_dir();
        symlink(&other, dir.join("sub")).unwrap();
        let state = regular_file_state(b"x", 0);
        assert!(restore_file_state(&dir.join("sub/a"), &state, Some(b"x")).is_err());
        assert!(!other.join("a").exists());
        fs::write(other.join("a"), "x").unwrap();
        assert_eq!(inspect_file(&dir.join("sub/a")).unwrap().state, FileState::Absent);
    }

    #[test]
    fn only_files_that_nobody_else_changed_are_restored() {
        let (one, two, three) = (
            regular_file_state(b"1", 0),
            regular_file_state(b"2", 0),
            regular_file_state(b"3", 0),
        );
        let chain = [
            make_file_change("a", one.clone(), two.clone()),
            make_file_change("b", FileState::Absent, one.clone()),
            make_file_change("a", two.clone(), three.clone()),
            make_file_change("c", FileState::Unknown, one.clone()),
            make_file_change("d", one.clone(), two.clone()),
            make_file_change("d", three.clone(), two.clone()),
            make_file_change("e", one.clone(), two.clone()),
            make_file_change("e", one.clone(), one.clone()),
            make_file_change("e", one.clone(), three.clone()),
            make_file_change("f", one.clone(), one.clone()),
        ];
        let desired_states = collect_desired_states(&chain);
        let [a, b, c, d, e] = desired_states.as_slice() else {
            panic!("{desired_states:?}")
        };
        let judge = |desired: &DesiredState, now: &FileState| {
            desired.evaluate_restore(|state| same_content(state, now), true)
        };
        assert_eq!(judge(a, &three), RestoreVerdict::PutBack);
        assert_eq!(judge(a, &two), RestoreVerdict::PutBack);
        assert_eq!(judge(a, &one), RestoreVerdict::Done);
        assert!(matches!(
            judge(a, &regular_file_state(b"4", 0)),
            RestoreVerdict::Conflict(_)
        ));
        assert!(matches!(
            judge(a, &FileState::Absent),
            RestoreVerdict::Conflict(_)
        ));
        assert_eq!(judge(b, &one), RestoreVerdict::PutBack);
        assert_eq!(judge(b, &FileState::Absent), RestoreVerdict::Done);
        assert!(matches!(judge(c, &one), RestoreVerdict::Conflict(_)));
        assert!(
            matches!(judge(d, &two), RestoreVerdict::Conflict(_)),
            "another's change in between"
        );
        assert_eq!(judge(d, &one), RestoreVerdict::Done);
        assert_eq!(judge(e, &three), RestoreVerdict::PutBack);
    }

    #[test]
    fn changes_by_others_between_two_turns_are_conflicts() {
        let (one, two, theirs, three) = (
            regular_file_state(b"1", 0),
            regular_file_state(b"2", 0),
            regular_file_state(b"p", 0),
            regular_file_state(b"3", 0),
        );
        let judged = |chain: &[FileChange]| {
            let desired_states = collect_desired_states(chain);
            desired_states[0].evaluate_restore(|state| same_content(state, &three), true)
        };
        let found = [
            make_file_change("a", one.clone(), two.clone()),
            make_file_change("a", theirs.clone(), three.clone()),
        ];
        assert!(matches!(judged(&found), RestoreVerdict::Conflict(why) if why.contains("between")));
        // Undone and changed again: nobody else was involved.
        let after_undo = [
            make_file_change("a", one.clone(), two.clone()),
            make_file_change("a", one.clone(), three.clone()),
        ];
        assert_eq!(judged(&after_undo), RestoreVerdict::PutBack);
        // A command left an unknown state, so the next one may be someone else's.
        let unknown = [
            make_file_change("a", one.clone(), FileState::Unknown),
            make_file_change("a", theirs, three.clone()),
        ];
        assert!(matches!(judged(&unknown), RestoreVerdict::Conflict(_)));
    }
}
