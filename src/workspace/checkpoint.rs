//! What files were and are (R-SESS-3): looked at, watched over a command, compared, put back. What looks or puts back
//! blocks. Where the contents are kept is others' affair.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use ignore::WalkBuilder;

use super::resolve::real_path;
use crate::base::{hash, random};
use crate::domain::{FileChange, FileState};

/// Larger files are not kept, in bytes.
pub const MAX_KEPT: u64 = 64 << 20;

/// So many files are watched while a command runs.
pub const MAX_WATCHED: usize = 20_000;

/// What is at a path, with the content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub state: FileState,
    /// The content of a file.
    pub bytes: Option<Vec<u8>>,
}

/// Looks at `path`, whose last part is not followed.
///
/// # Errors
/// The disk fails, or the file is larger than [`MAX_KEPT`].
pub fn look(path: &Path) -> io::Result<Found> {
    let alone = |state| Ok(Found { state, bytes: None });
    let meta = match path.symlink_metadata() {
        Ok(meta) => meta,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return alone(FileState::Absent);
        }
        Err(error) => return Err(error),
    };
    if meta.is_symlink() {
        return alone(match fs::read_link(path)?.into_os_string().into_string() {
            Ok(target) => FileState::Link { target },
            Err(_) => FileState::Unknown,
        });
    }
    if !meta.is_file() {
        return alone(FileState::Unknown);
    }
    if meta.len() > MAX_KEPT {
        let why = format!("it is larger than {} MiB", MAX_KEPT >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    let bytes = fs::read(path)?;
    Ok(Found {
        state: of_bytes(&bytes, mode(&meta)),
        bytes: Some(bytes),
    })
}

/// The state of a file with this content.
pub fn of_bytes(bytes: &[u8], mode: u32) -> FileState {
    FileState::File {
        hash: hash::sha256(bytes),
        bytes: bytes.len() as u64,
        mode,
    }
}

/// The permission bits of `path`; 0 where there is no file.
pub fn mode_of(path: &Path) -> u32 {
    path.symlink_metadata().map_or(0, |meta| mode(&meta))
}

#[cfg(unix)]
fn mode(meta: &Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    meta.permissions().mode() & 0o7777
}

#[cfg(not(unix))]
fn mode(_meta: &Metadata) -> u32 {
    0
}

/// Tells a file that was not touched from one that was, without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    bytes: u64,
    modified: u128,
    link: bool,
    mode: u32,
}

impl Stamp {
    /// The file's length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The stamp of a regular file or a link.
pub fn stamp(path: &Path) -> Option<Stamp> {
    let meta = path.symlink_metadata().ok()?;
    (meta.is_file() || meta.is_symlink()).then(|| stamp_of(&meta))
}

fn stamp_of(meta: &Metadata) -> Stamp {
    let modified = meta.modified().ok();
    let since = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Stamp {
        bytes: meta.len(),
        modified: since.map_or(0, |since| since.as_nanos()),
        link: meta.is_symlink(),
        mode: mode(meta),
    }
}

/// The files of the workspace at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    files: BTreeMap<PathBuf, Stamp>,
    /// There are more than were looked at.
    pub partial: bool,
}

/// Looks at the files below `roots`, up to `most` of them; not at what `.gitignore` and its like exclude. Blocks.
pub fn watch<'a>(roots: impl IntoIterator<Item = &'a Path>, most: usize) -> Watched {
    let mut watched = Watched::default();
    for root in roots {
        let in_repository = root.ancestors().any(|folder| folder.join(".git").exists());
        let walk = WalkBuilder::new(root)
            .parents(in_repository)
            .hidden(false)
            .require_git(in_repository)
            .follow_links(false)
            .filter_entry(|entry| {
                let own = [".git", ".hg", ".jj", ".svn"];
                entry.depth() == 0 || !own.iter().any(|own| entry.file_name() == *own)
            })
            .sort_by_file_name(std::ffi::OsStr::cmp)
            .build();
        for entry in walk.filter_map(Result::ok) {
            if !(entry.file_type()).is_some_and(|kind| kind.is_file() || kind.is_symlink()) {
                continue;
            }
            if watched.files.len() >= most {
                watched.partial = true;
                return watched;
            }
            if let Some(stamp) = stamp(entry.path()) {
                watched.files.insert(entry.into_path(), stamp);
            }
        }
    }
    watched
}

impl Watched {
    /// What is different now: the paths, each with its stamp as it was; none where there was nothing.
    pub fn changed(&self, now: &Self) -> Vec<(PathBuf, Option<Stamp>)> {
        let mut changed = Vec::new();
        for (path, was) in &self.files {
            match now.files.get(path) {
                Some(is) if is == was => {}
                Some(_) => changed.push((path.clone(), Some(*was))),
                // Not looked at any more is not gone.
                None if now.partial && stamp(path) == Some(*was) => {}
                None => changed.push((path.clone(), Some(*was))),
            }
        }
        // Where not all was looked at, what is not known may have been there.
        if !self.partial {
            let new = now.files.keys().filter(|path| !self.files.contains_key(*path));
            changed.extend(new.map(|path| (path.clone(), None)));
        }
        changed.sort_by(|a, b| a.0.cmp(&b.0));
        changed
    }

    /// The stamp of a file.
    pub fn stamp(&self, path: &Path) -> Option<Stamp> {
        self.files.get(path).copied()
    }
}

/// Files whose content is kept, as they were last known.
#[derive(Debug, Default)]
pub struct KnownFiles {
    known: Mutex<HashMap<PathBuf, (Stamp, FileState)>>,
}

impl KnownFiles {
    /// The content of `path` under this stamp is kept as `state`.
    pub fn note(&self, path: &Path, stamp: Stamp, state: FileState) {
        self.lock().insert(path.to_owned(), (stamp, state));
    }

    /// What is kept of `path` as it is under this stamp.
    pub fn get(&self, path: &Path, stamp: Stamp) -> Option<FileState> {
        let known = self.lock();
        let (at, state) = known.get(path)?;
        (*at == stamp).then(|| state.clone())
    }

    /// All paths.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, (Stamp, FileState)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a file is to be again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The file.
    pub path: String,
    /// What it shall be.
    pub to: FileState,
    /// What it was in between: of these, nothing is lost that is not kept.
    pub known: Vec<FileState>,
    /// Between two of the changes it was something that none of them had made or found: somebody else's work.
    pub others: bool,
}

/// How a wish stands to what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is so already.
    Done,
    /// It can be put back.
    PutBack,
    /// Somebody has changed it since, or its old content is not known.
    Conflict(&'static str),
}

/// What the files of these changes, in order, are to be if all of them are taken back.
pub fn wishes<'a>(changes: impl IntoIterator<Item = &'a FileChange>) -> Vec<Wish> {
    let mut wishes: Vec<Wish> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for change in changes {
        let at = *places.entry(&change.path).or_insert_with(|| {
            wishes.push(Wish {
                path: change.path.clone(),
                to: change.before.clone(),
                known: Vec::new(),
                others: false,
            });
            wishes.len() - 1
        });
        let wish = &mut wishes[at];
        wish.others |= wish.is_news(&change.before);
        wish.known.push(change.before.clone());
        wish.known.push(change.after.clone());
    }
    wishes
}

impl Wish {
    /// Whether it was found as nothing that was known of it, though it was known how it was left.
    fn is_news(&self, found: &FileState) -> bool {
        let left = self.known.last().is_some_and(|left| *left != FileState::Unknown);
        left && *found != FileState::Unknown && !self.known.iter().any(|known| same_content(known, found))
    }

    /// How it stands to what is there; `is` tells whether a state is what is there, `exactly` with its mode.
    pub fn judge(&self, is: impl Fn(&FileState) -> bool, exactly: bool) -> Verdict {
        if self.to == FileState::Unknown {
            return Verdict::Conflict("its content before the change is not known");
        }
        if exactly && is(&self.to) {
            return Verdict::Done;
        }
        if self.others {
            return Verdict::Conflict("somebody else changed it between two of these changes");
        }
        match self
            .known
            .iter()
            .any(|state| *state != FileState::Unknown && is(state))
        {
            true => Verdict::PutBack,
            false => Verdict::Conflict("it was changed since"),
        }
    }
}

/// Whether both are the same content, whatever their modes.
pub fn same_content(a: &FileState, b: &FileState) -> bool {
    match (a, b) {
        (FileState::File { hash: a, .. }, FileState::File { hash: b, .. }) => a == b,
        (FileState::Unknown, _) | (_, FileState::Unknown) => false,
        (a, b) => a == b,
    }
}

/// Puts a state back at `path`, whole or not at all: a file or link is made beside it and renamed over it. Not flushed:
/// what it puts there and what was there are both kept, and flushing ten thousand files takes a minute. Blocks.
///
/// # Errors
/// Why not, for people.
pub fn put_back(path: &Path, state: &FileState, bytes: Option<&[u8]>) -> Result<(), String> {
    let said = |error: io::Error| error.to_string();
    let folder = path.parent().ok_or("it has no folder")?;
    if real_path(folder).map_err(|error| error.to_string())? != folder {
        return Err("its folder now leads somewhere else".to_owned());
    }
    if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return Err("a folder is there now".to_owned());
    }
    match state {
        FileState::Unknown => Err("its content is not known".to_owned()),
        FileState::Absent => match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(said(error)),
            Ok(()) | Err(_) => Ok(()),
        },
        FileState::File { mode, .. } => {
            let bytes = bytes.ok_or("its kept content is missing")?;
            beside(path, folder, |new| {
                fs::write(new, bytes)?;
                set_mode(new, *mode)
            })
        }
        FileState::Link { target } => beside(path, folder, |new| link(target, new)),
    }
}

fn beside(path: &Path, folder: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), String> {
    let new = folder.join(format!(".agentls-{}.tmp", random::token(12)));
    let made = fs::create_dir_all(folder)
        .and_then(|()| make(&new))
        .and_then(|()| fs::rename(&new, path));
    made.map_err(|error| {
        let _ = fs::remove_file(&new);
        error.to_string()
    })
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    match mode {
        0 => Ok(()),
        mode => fs::set_permissions(path, fs::Permissions::from_mode(mode)),
    }
}

#[cfg(not(unix))]
fn set_mode(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn link(target: &str, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
fn link(_target: &str, _path: &Path) -> io::Result<()> {
    Err(io::Error::other("links are not made on this platform"))
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    fn change(path: &str, before: FileState, after: FileState) -> FileChange {
        FileChange {
            path: path.to_owned(),
            before,
            after,
        }
    }

    #[test]
    fn every_kind_of_state_is_put_back() {
        let (_dir, dir) = place();
        let path = dir.join("deep/er/a");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, b"bin\0ary").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        let file = look(&path).unwrap();
        fs::remove_file(&path).unwrap();
        symlink("../elsewhere", &path).unwrap();
        let linked = look(&path).unwrap();
        assert_eq!(
            linked.state,
            FileState::Link {
                target: "../elsewhere".to_owned()
            }
        );
        fs::remove_dir_all(dir.join("deep")).unwrap();
        assert_eq!(look(&path).unwrap().state, FileState::Absent);
        for found in [&file, &linked, &file] {
            put_back(&path, &found.state, found.bytes.as_deref()).unwrap();
            assert_eq!(look(&path).unwrap(), *found);
        }
        put_back(&path, &FileState::Absent, None).unwrap();
        put_back(&path, &FileState::Absent, None).unwrap();
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        assert_eq!(
            put_back(&path, &file.state, file.bytes.as_deref()).unwrap_err(),
            "a folder is there now"
        );
    }

    #[test]
    fn a_folder_that_became_a_link_is_not_followed() {
        let (_dir, dir) = place();
        let (_other, other) = place();
        symlink(&other, dir.join("sub")).unwrap();
        let state = of_bytes(b"x", 0);
        assert!(put_back(&dir.join("sub/a"), &state, Some(b"x")).is_err());
        assert!(!other.join("a").exists());
    }

    #[test]
    fn what_a_command_changed_is_seen() {
        let (_dir, dir) = place();
        for name in ["same", "changed", "gone", "linked"] {
            fs::write(dir.join(name), name).unwrap();
        }
        let before = watch([dir.as_path()], 100);
        assert!(!before.partial);
        fs::write(dir.join("changed"), "longer than before").unwrap();
        fs::remove_file(dir.join("gone")).unwrap();
        fs::remove_file(dir.join("linked")).unwrap();
        symlink("same", dir.join("linked")).unwrap();
        fs::write(dir.join("new"), "").unwrap();
        let changed = before.changed(&watch([dir.as_path()], 100));
        let names: Vec<_> = changed
            .iter()
            .map(|(path, was)| (path.file_name().unwrap().to_str().unwrap(), was.is_some()))
            .collect();
        assert_eq!(
            names,
            [
                ("changed", true),
                ("gone", true),
                ("linked", true),
                ("new", false)
            ]
        );
        let part = watch([dir.as_path()], 2);
        assert!(part.partial);
        assert_eq!(part.changed(&part), []);
        // What was not looked at before is not taken for new.
        assert_eq!(part.changed(&watch([dir.as_path()], 100)), []);
    }

    #[test]
    fn only_what_nobody_else_changed_is_put_back() {
        let (one, two, three) = (of_bytes(b"1", 0), of_bytes(b"2", 0), of_bytes(b"3", 0));
        let chain = [
            change("a", one.clone(), two.clone()),
            change("b", FileState::Absent, one.clone()),
            change("a", two.clone(), three.clone()),
            change("c", FileState::Unknown, one.clone()),
        ];
        let wishes = wishes(&chain);
        let [a, b, c] = wishes.as_slice() else {
            panic!("{wishes:?}")
        };
        let judge = |wish: &Wish, now: &FileState| wish.judge(|state| same_content(state, now), true);
        assert_eq!(judge(a, &three), Verdict::PutBack);
        assert_eq!(judge(a, &two), Verdict::PutBack);
        assert_eq!(judge(a, &one), Verdict::Done);
        assert!(matches!(judge(a, &of_bytes(b"4", 0)), Verdict::Conflict(_)));
        assert!(matches!(judge(a, &FileState::Absent), Verdict::Conflict(_)));
        assert_eq!(judge(b, &one), Verdict::PutBack);
        assert_eq!(judge(b, &FileState::Absent), Verdict::Done);
        assert!(matches!(judge(c, &one), Verdict::Conflict(_)));
    }

    #[test]
    fn what_somebody_else_did_between_two_turns_is_not_lost() {
        let (one, two, theirs, three) = (
            of_bytes(b"1", 0),
            of_bytes(b"2", 0),
            of_bytes(b"p", 0),
            of_bytes(b"3", 0),
        );
        let judged = |chain: &[FileChange]| {
            let wishes = wishes(chain);
            wishes[0].judge(|state| same_content(state, &three), true)
        };
        let found = [
            change("a", one.clone(), two.clone()),
            change("a", theirs.clone(), three.clone()),
        ];
        assert!(matches!(judged(&found), Verdict::Conflict(why) if why.contains("between")));
        // Taken back and changed anew, it was nobody else.
        let again = [
            change("a", one.clone(), two.clone()),
            change("a", one.clone(), three.clone()),
        ];
        assert_eq!(judged(&again), Verdict::PutBack);
        // What a command has left is not known: no one can tell.
        let unknown = [
            change("a", one.clone(), FileState::Unknown),
            change("a", theirs, three.clone()),
        ];
        assert_eq!(judged(&unknown), Verdict::PutBack);
    }
}
