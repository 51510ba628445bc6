//! The only way to files and folders that a repository can provide: through a resolved absolute path, by descriptor,
//! never through a symbolic link.
//!
//! A path is judged (is it inside the workspace? is it secret?) before it is opened, and another process may replace
//! one of its parts in between. So the kernel refuses every link on the way, and what opens is what the path literally
//! names (I12). A pipe, device, or socket never blocks the caller. Lengths are checked on the descriptor.
//!
//! Knows nothing of workspaces; `workspace` decides which paths may be opened. `config` reads its files here too.

use std::ffi::{CStr, OsStr, OsString};
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read as _, Seek as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::{self, Access, AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

/// Never waits for a pipe's other end, never acquires a controlling terminal, and never reaches a child process.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);

const FOLDER: OFlags = READ.union(OFlags::DIRECTORY);

/// Enough to look up names in a folder, even without the permission to list it.
#[cfg(target_os = "linux")]
const PASS: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);
// Without `O_PATH`, the folder must be listable too.
#[cfg(not(target_os = "linux"))]
const PASS: OFlags = FOLDER;

/// The kind of thing that exists at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Regular,
    Folder,
    Link,
    Pipe,
    Socket,
    /// A device, or a kind that only this operating system has.
    Device,
}

impl From<FileType> for FileKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::Regular,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            FileType::Fifo => Self::Pipe,
            FileType::Socket => Self::Socket,
            _ => Self::Device,
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Regular => "a regular file",
            Self::Folder => "a folder",
            Self::Link => "a symbolic link",
            Self::Pipe => "a named pipe",
            Self::Socket => "a socket",
            Self::Device => "a device",
        })
    }
}

/// Why a file was not opened or read. The text completes "`path` cannot be read: …".
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nothing exists there.
    #[error("it does not exist")]
    Missing,
    /// Something other than a regular file exists there.
    #[error("it is {0}; only regular files are read")]
    NotRegular(FileKind),
    /// The file is longer than the caller accepts.
    #[error("it has {bytes} bytes; at most {max} are read")]
    TooLarge {
        /// The length, as far as known.
        bytes: u64,
        /// The caller's limit.
        max: u64,
    },
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for OpenError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::Missing,
            Errno::LOOP => Self::NotRegular(FileKind::Link),
            // A socket cannot be opened, nor can a device without a driver.
            Errno::NXIO | Errno::NODEV => Self::NotRegular(FileKind::Socket),
            errno => Self::Io(errno.into()),
        }
    }
}

/// An open regular file.
#[derive(Debug)]
pub struct RegularFile {
    file: File,
    meta: Metadata,
}

impl RegularFile {
    /// Opens the file at the resolved absolute `path`.
    ///
    /// # Errors
    /// Fails if nothing or something other than a regular file is there, or if a part of `path` is a symbolic link.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::of_descriptor(open(path, READ)?)
    }

    fn of_descriptor(descriptor: OwnedFd) -> Result<Self, OpenError> {
        let file = File::from(descriptor);
        // Checked on the descriptor: the path may lead to something else by now.
        let meta = file.metadata()?;
        if !meta.is_file() {
            let kind = FileType::from_raw_mode(fs::fstat(&file)?.st_mode);
            return Err(OpenError::NotRegular(kind.into()));
        }
        Ok(Self { file, meta })
    }

    /// Returns the metadata as of the opening.
    pub fn metadata(&self) -> &Metadata {
        &self.meta
    }

    /// Reads the whole content.
    ///
    /// # Errors
    /// Fails if the file is longer than `max` bytes, or if reading fails.
    pub fn read(&mut self, max: u64) -> Result<Vec<u8>, OpenError> {
        let bytes = self.meta.len();
        if bytes > max {
            return Err(OpenError::TooLarge { bytes, max });
        }
        let start = self.read_start(max + 1)?;
        // The file may have grown since, and some file systems report the length 0 for every file.
        if start.len() as u64 > max {
            Err(OpenError::TooLarge { bytes: max + 1, max })
        } else {
            Ok(start)
        }
    }

    /// Reads the first `most` bytes.
    ///
    /// # Errors
    /// Fails if reading fails.
    pub fn read_start(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let known = usize::try_from(self.meta.len().min(most)).unwrap_or(0);
        let mut bytes = Vec::with_capacity(known);
        // An earlier read may have moved the position.
        self.file.rewind()?;
        (&self.file).take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns the file, positioned at its start, for reading in pieces.
    ///
    /// # Errors
    /// Fails if the file cannot seek.
    pub fn into_file(mut self) -> io::Result<File> {
        self.file.rewind()?;
        Ok(self.file)
    }
}

/// Reads the regular file at the resolved absolute `path`, of at most `max` bytes.
///
/// # Errors
/// See [`RegularFile::open`] and [`RegularFile::read`].
pub fn read(path: &Path, max: u64) -> Result<Vec<u8>, OpenError> {
    RegularFile::open(path)?.read(max)
}

/// Returns whether an open failed because a part of the path is a symbolic link.
pub fn is_link_error(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// Returns when the file at `path` was created on its disk, in ns since 1970; `None` if the system does not say. A file that
/// was moved keeps this time.
pub fn birth_ns(path: &Path) -> Option<u128> {
    let born = std::fs::symlink_metadata(path).ok()?.created().ok()?;
    Some(born.duration_since(UNIX_EPOCH).ok()?.as_nanos())
}

/// Returns the metadata of what is at the resolved absolute `path`; a link at its end is not followed.
///
/// # Errors
/// Fails if nothing is there, or if the system refuses.
pub fn status_of(path: &Path) -> io::Result<Stat> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok(fs::statat(open(parent, PASS)?, name, AtFlags::SYMLINK_NOFOLLOW)?),
        _ => Ok(fs::fstat(open(path, PASS)?)?),
    }
}

/// Returns the kind of what is at the resolved absolute `path`, or `None` if nothing is there or the system refuses.
pub fn kind(path: &Path) -> Option<FileKind> {
    status_of(path).ok().map(|status| kind_of(&status))
}

/// Extracts the file kind from metadata.
pub fn kind_of(status: &Stat) -> FileKind {
    FileType::from_raw_mode(status.st_mode).into()
}

/// An open folder. The names that its methods take are single parts of paths.
#[derive(Debug)]
pub struct OpenFolder(OwnedFd);

/// A directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    pub name: OsString,
    /// The kind of the entry itself; a link counts as a link.
    pub kind: FileKind,
}

impl OpenFolder {
    /// Opens the folder at the resolved absolute `path`.
    ///
    /// # Errors
    /// Fails if no folder is there, if a part of `path` is a symbolic link, or if the folder may not be listed.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(open(path, FOLDER)?))
    }

    /// Opens the folder at the resolved absolute `path` to reach its entries; this needs no permission to list it.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_for_traversal(path: &Path) -> io::Result<Self> {
        Ok(Self(open(path, PASS)?))
    }

    /// Opens the folder around the resolved absolute `path`, as [`Self::open_for_traversal`], and returns the entry's name.
    ///
    /// # Errors
    /// As [`Self::open`], or if `path` has no parent or name.
    pub fn open_parent(path: &Path) -> io::Result<(Self, &OsStr)> {
        match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => Ok((Self::open_for_traversal(parent)?, name)),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Like [`Self::open_for_traversal`], but creates the folder and its ancestors where they are missing.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn create_all(path: &Path) -> io::Result<Self> {
        let error = match open(path, PASS) {
            Ok(descriptor) => return Ok(Self(descriptor)),
            Err(error) => error,
        };
        // Only a missing folder is created; any other error is the caller's.
        let (Some(parent), Some(name)) = (path.parent().filter(|_| error == Errno::NOENT), path.file_name())
        else {
            return Err(error.into());
        };
        let parent = Self::create_all(parent)?;
        match fs::mkdirat(&parent.0, name, Mode::from_raw_mode(0o777)) {
            // Another process may have created it meanwhile. If that is a link or a file, `openat` below refuses it.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self(fs::openat(&parent.0, name, PASS, Mode::empty())?))
    }

    /// Iterates over the entries, in no particular order.
    ///
    /// # Errors
    /// Fails if the folder cannot be listed. Items fail one by one.
    pub fn read_entries(&self) -> io::Result<impl Iterator<Item = io::Result<FolderEntry>> + use<>> {
        // The iterator may outlive `self`, so it looks names up through a descriptor of its own.
        let own = self.0.as_fd().try_clone_to_owned()?;
        let entry = move |entry: rustix::io::Result<fs::DirEntry>| {
            let entry = entry?;
            let name = entry.file_name();
            let kind = match entry.file_type() {
                // Some file systems do not report the type.
                FileType::Unknown => fs::statat(&own, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |status| {
                        FileType::from_raw_mode(status.st_mode)
                    }),
                known => known,
            };
            Ok(FolderEntry {
                name: os_string(name),
                kind: kind.into(),
            })
        };
        let real = |entry: &rustix::io::Result<fs::DirEntry>| {
            !entry
                .as_ref()
                .is_ok_and(|entry| matches!(entry.file_name().to_bytes(), b"." | b".."))
        };
        Ok(Dir::read_from(&self.0)?.filter(real).map(entry))
    }

    /// Returns the metadata of the entry `name`; a link is not followed.
    ///
    /// # Errors
    /// Fails if nothing is there, or if the system refuses.
    pub fn entry_status(&self, name: &OsStr) -> io::Result<Stat> {
        Ok(fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Returns the target of the symbolic link `name`, as written in it.
    ///
    /// # Errors
    /// Fails if `name` is not a symbolic link.
    pub fn read_link(&self, name: &OsStr) -> io::Result<OsString> {
        let target = fs::readlinkat(&self.0, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Opens the regular file `name`.
    ///
    /// # Errors
    /// See [`RegularFile::open`].
    pub fn open_file(&self, name: &OsStr) -> Result<RegularFile, OpenError> {
        RegularFile::of_descriptor(fs::openat(&self.0, name, READ, Mode::empty())?)
    }

    /// Opens the folder `name`.
    ///
    /// # Errors
    /// See [`Self::open`].
    pub fn open_folder(&self, name: &OsStr) -> io::Result<Self> {
        Ok(Self(fs::openat(&self.0, name, FOLDER, Mode::empty())?))
    }

    /// Returns whether the permissions of `name` let us write it.
    pub fn is_writable(&self, name: &OsStr) -> bool {
        fs::accessat(&self.0, name, Access::WRITE_OK, AtFlags::empty()).is_ok()
    }

    /// Creates the file `name`, which must not exist yet, for writing.
    ///
    /// # Errors
    /// Fails if something is there, or if the system refuses.
    pub fn create_file(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        // EXCL refuses every existing name, even a link that leads nowhere.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Fails closed: a mode that does not fit is for the owner only.
        #[cfg_attr(
            target_os = "linux",
            expect(clippy::useless_conversion, reason = "u16 on macOS")
        )]
        let mode = Mode::from_raw_mode(mode.try_into().unwrap_or(0o600));
        Ok(fs::openat(&self.0, name, flags, mode)?.into())
    }

    /// Creates the symbolic link `name`, which must not exist yet.
    ///
    /// # Errors
    /// Fails if something is there, or if the system refuses.
    pub fn create_link(&self, target: impl AsRef<OsStr>, name: &OsStr) -> io::Result<()> {
        Ok(fs::symlinkat(target.as_ref(), &self.0, name)?)
    }

    /// Renames `from` to `to`, and atomically replaces what `to` was.
    ///
    /// # Errors
    /// Fails if the system refuses.
    pub fn rename_entry(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Renames `from` to `to`, which must not exist yet.
    ///
    /// # Errors
    /// Fails if something is at `to`, or if the system refuses.
    pub fn rename_to_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match fs::renameat_with(&self.0, from, &self.0, to, RenameFlags::NOREPLACE) {
            // The file system does not know the flag.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) if self.entry_status(to).is_err() => {
                self.rename_entry(from, to)
            }
            renamed => Ok(renamed?),
        }
    }

    /// Removes the entry `name`, unless it is a folder.
    ///
    /// # Errors
    /// Fails if the system refuses.
    pub fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes the empty folder `name`.
    ///
    /// # Errors
    /// Fails if the folder is not empty, or if the system refuses.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }
}

fn os_string(name: &CStr) -> OsString {
    OsStr::from_bytes(name.to_bytes()).to_owned()
}

/// Opens `path` if none of its parts is a symbolic link.
fn open(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    // The caller resolved the path before judging it. Anything that is not resolved was not judged.
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        return Err(Errno::INVAL);
    }
    #[cfg(target_os = "linux")]
    {
        use fs::ResolveFlags;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match fs::openat2(CWD, path, flags, Mode::empty(), resolve) {
            // NOSYS: kernels without `openat2`. PERM: seccomp filters that do not know the call.
            Err(Errno::NOSYS | Errno::PERM) => {}
            opened => return opened,
        }
    }
    open_by_parts(path, flags)
}

/// Does the same without the system call: opens each part relative to its folder's descriptor.
fn open_by_parts(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let mut at = PathBuf::new();
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name),
            other => at.push(other),
        }
    }
    let Some(last) = names.pop() else {
        return fs::openat(CWD, &at, flags, Mode::empty());
    };
    let mut folder = fs::openat(CWD, &at, PASS, Mode::empty())?;
    for name in names {
        folder = open_part(&folder, name, PASS)?;
    }
    open_part(&folder, last, flags)
}

fn open_part(folder: &OwnedFd, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    fs::openat(folder, name, flags, Mode::empty()).map_err(|error| {
        // For a link in the place of a folder, the system reports "not a folder".
        let is_link = || {
            fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Symlink)
        };
        match error {
            Errno::NOTDIR if is_link() => Errno::LOOP,
            error => error,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn create_temp_dir() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        (dir, path)
    }

    fn read_both_ways(path: &Path) -> String {
        let by_path = read(path, 100).map(|bytes| String::from_utf8(bytes).unwrap());
        let by_parts = open_by_parts(path, READ)
            .map_err(OpenError::from)
            .and_then(RegularFile::of_descriptor)
            .and_then(|mut file| file.read(100))
            .map(|bytes| String::from_utf8(bytes).unwrap());
        let words = |result: Result<String, OpenError>| result.unwrap_or_else(|error| error.to_string());
        let (by_path, by_parts) = (words(by_path), words(by_parts));
        assert_eq!(by_path, by_parts, "{}", path.display());
        by_path
    }

    #[test]
    fn only_regular_files_of_a_bounded_length_are_read_and_no_link_is_followed() {
        let (_dir, dir) = create_temp_dir();
        std::fs::create_dir_all(dir.join("a/b")).unwrap();
        std::fs::write(dir.join("a/b/file"), "text").unwrap();
        std::fs::write(dir.join("long"), "x".repeat(101)).unwrap();
        symlink("b", dir.join("a/link")).unwrap();
        symlink("file", dir.join("a/b/link")).unwrap();
        symlink("/dev/zero", dir.join("zero")).unwrap();
        symlink("loop", dir.join("loop")).unwrap();
        fs::mkfifoat(CWD, dir.join("pipe"), Mode::RUSR).unwrap();
        let _listener = UnixListener::bind(dir.join("socket")).unwrap();
        std::fs::File::create(dir.join("sparse"))
            .unwrap()
            .set_len(10 << 30)
            .unwrap();
        for (path, expected) in [
            ("a/b/file", "text"),
            (
                "a/link/file",
                "it is a symbolic link; only regular files are read",
            ),
            ("a/b/link", "it is a symbolic link; only regular files are read"),
            ("zero", "it is a symbolic link; only regular files are read"),
            ("loop", "it is a symbolic link; only regular files are read"),
            ("pipe", "it is a named pipe; only regular files are read"),
            ("socket", "it is a socket; only regular files are read"),
            ("a", "it is a folder; only regular files are read"),
            ("nothing", "it does not exist"),
            ("long", "it has 101 bytes; at most 100 are read"),
            ("sparse", "it has 10737418240 bytes; at most 100 are read"),
        ] {
            assert_eq!(read_both_ways(&dir.join(path)), expected, "{path}");
        }
        assert_eq!(
            read_both_ways(Path::new("/dev/zero")),
            "it is a device; only regular files are read"
        );
        // The file system reports the length 0; the read is bounded all the same.
        let long = read(Path::new("/proc/cpuinfo"), 10).unwrap_err();
        assert!(matches!(long, OpenError::TooLarge { .. }), "{long}");
    }

    #[test]
    fn an_unresolved_path_is_refused() {
        let (_dir, dir) = create_temp_dir();
        std::fs::write(dir.join("file"), "text").unwrap();
        for path in [dir.join("x/../file"), PathBuf::from("Cargo.toml")] {
            let error = RegularFile::open(&path).unwrap_err();
            assert!(matches!(&error, OpenError::Io(error) if error.kind() == io::ErrorKind::InvalidInput));
        }
    }

    #[test]
    fn names_in_a_folder_are_opened_and_created_without_links() {
        let (_dir, dir) = create_temp_dir();
        std::fs::create_dir(dir.join("below")).unwrap();
        std::fs::write(dir.join("file"), "text").unwrap();
        symlink("below", dir.join("folder-link")).unwrap();
        symlink("file", dir.join("file-link")).unwrap();
        symlink("new", dir.join("dangling")).unwrap();
        let folder = OpenFolder::open(&dir).unwrap();
        assert!(folder.open_folder(OsStr::new("below")).is_ok());
        assert!(folder.open_folder(OsStr::new("folder-link")).is_err());
        assert!(folder.open_file(OsStr::new("file")).is_ok());
        let linked = folder.open_file(OsStr::new("file-link"));
        assert!(matches!(linked, Err(OpenError::NotRegular(FileKind::Link))));
        for name in ["file", "file-link", "dangling", "below"] {
            assert!(folder.create_file(OsStr::new(name), 0o600).is_err(), "{name}");
        }
        assert!(!dir.join("new").exists());
        assert_eq!(read(&dir.join("file"), 10).unwrap(), b"text");
    }

    #[test]
    fn folders_are_created_and_listed_without_links() {
        let (_dir, dir) = create_temp_dir();
        OpenFolder::create_all(&dir.join("a/b/c")).unwrap();
        symlink("a", dir.join("link")).unwrap();
        assert!(OpenFolder::create_all(&dir.join("link/new")).is_err());
        assert!(OpenFolder::open(&dir.join("link")).is_err());
        assert!(!dir.join("a/new").exists());
        let mut entries: Vec<FolderEntry> = OpenFolder::open(&dir)
            .unwrap()
            .read_entries()
            .unwrap()
            .map(Result::unwrap)
            .collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let kinds: Vec<FileKind> = entries.iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, [FileKind::Folder, FileKind::Link]);
        assert_eq!(kind(&dir.join("link")), Some(FileKind::Link));
        assert_eq!(kind(&dir.join("link/b")), None);
    }
}
