//! Reads git's index: which files are as they were staged or committed, and the blob of each of them.
//!
//! Compares size and time, as git does. Starts nothing, writes nothing, knows no settings. About anything that it does
//! not understand, such as a split index or an unknown extension, it reports nothing.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::file_stamp::FileStamp;
use super::git_folder::find_git_folder;
use super::real_path::real_path;
use crate::base::nofollow::RegularFile;

/// Longest index that is read, in bytes.
const MAX_INDEX: u64 = 64 << 20;

/// A snapshot of a work tree's index.
#[derive(Clone, PartialEq, Eq)]
pub struct GitIndex {
    root: PathBuf,
    bytes: Vec<u8>,
    /// Time of the last write, in nanoseconds since 1970.
    written: u128,
}

/// A file whose content git has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanFiles {
    pub path: PathBuf,
    /// The stamp that was compared.
    pub stamp: FileStamp,
    /// Name of the blob, in hexadecimal.
    pub id: String,
}

/// Some of the paths in an index.
#[derive(Debug, Default)]
pub struct TrackedPaths {
    pub wanted: Vec<PathBuf>,
    /// The folders of other repositories.
    pub submodules: Vec<PathBuf>,
}

/// An index that is split, for example.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the index cannot be read")]
pub struct UnknownIndex;

/// An index entry without its name.
struct IndexEntry<'a> {
    modified: u128,
    bytes: u32,
    id: &'a [u8],
    is_link: bool,
    is_submodule: bool,
    /// It represents all files in a folder that is not checked out.
    is_folder: bool,
    /// It describes the file on disk: no conflict, and not a file that git was told to skip.
    is_plain: bool,
}

impl GitIndex {
    /// Reads the index of the work tree `root`, which has a `.git`; `None` if there is none that can be read. Blocks.
    pub fn read(root: &Path) -> Option<Self> {
        let path = real_path(&find_git_folder(root)?.join("index")).ok()?;
        let mut file = RegularFile::open(&path).ok()?;
        let modified = file.metadata().modified().ok()?;
        Some(Self {
            root: root.to_owned(),
            bytes: file.read(MAX_INDEX).ok()?,
            written: modified.duration_since(UNIX_EPOCH).ok()?.as_nanos(),
        })
    }

    /// Returns what differs between two versions of an index: where it is, when it was written, and its checksum.
    pub fn version(&self) -> Vec<u8> {
        let mut version = self.root.as_os_str().as_bytes().to_vec();
        version.extend(self.written.to_be_bytes());
        version.extend(self.bytes.len().to_be_bytes());
        version.extend(&self.bytes[self.bytes.len().saturating_sub(20)..]);
        version
    }

    /// Returns the top folder of the work tree.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the tracked paths that are wanted, and the submodules.
    ///
    /// # Errors
    /// The index is of a kind that is not understood.
    pub fn find_tracked_paths(
        &self,
        is_wanted: impl Fn(&Path) -> bool,
    ) -> Result<TrackedPaths, UnknownIndex> {
        let find = |length| {
            let mut found = TrackedPaths::default();
            let mut has_folders = false;
            for_each_entry(&self.bytes, length, |name, entry| {
                let path = self.root.join(OsStr::from_bytes(name));
                has_folders |= entry.is_folder;
                if entry.is_submodule {
                    found.submodules.push(path);
                } else if is_wanted(&path) && found.wanted.last() != Some(&path) {
                    // In a conflict, a path has several entries.
                    found.wanted.push(path);
                }
            })?;
            (!has_folders).then_some(found)
        };
        [20, 32].into_iter().find_map(find).ok_or(UnknownIndex)
    }

    /// Returns those of `files` whose stamps show that they are as git has them.
    pub fn find_clean_files<'a>(
        &self,
        files: impl IntoIterator<Item = (&'a Path, FileStamp)>,
    ) -> Vec<CleanFiles> {
        let named = |(path, stamp): (&'a Path, FileStamp)| {
            let name = path.strip_prefix(&self.root).ok()?.to_str()?;
            Some((name.as_bytes(), (path, stamp)))
        };
        let wanted: HashMap<&[u8], (&Path, FileStamp)> = files.into_iter().filter_map(named).collect();
        // The index does not say how long its object names are. Parsing with the wrong length fails.
        [20, 32]
            .into_iter()
            .find_map(|length| self.match_entries(&wanted, length))
            .unwrap_or_default()
    }

    fn match_entries(
        &self,
        wanted: &HashMap<&[u8], (&Path, FileStamp)>,
        length: usize,
    ) -> Option<Vec<CleanFiles>> {
        let mut clean = Vec::new();
        for_each_entry(&self.bytes, length, |name, entry| {
            let Some((path, stamp)) = wanted.get(name) else {
                return;
            };
            // A file written at the same moment as the index may have been written again afterwards.
            let settled = entry.modified < self.written;
            let same = entry.modified == stamp.modified()
                && u64::from(entry.bytes) == stamp.bytes()
                && entry.is_link == stamp.is_link();
            if entry.is_plain && settled && same {
                clean.push(CleanFiles {
                    path: (*path).to_owned(),
                    stamp: *stamp,
                    id: to_hex(entry.id),
                });
            }
        })?;
        Some(clean)
    }
}

impl std::fmt::Debug for GitIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GitIndex")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

fn to_hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits
        .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)]))
        .collect()
}

/// Visits all entries. Returns `None` if this is not an index that we understand; discard what was visited then.
fn for_each_entry(bytes: &[u8], length: usize, mut visit: impl FnMut(&[u8], &IndexEntry<'_>)) -> Option<()> {
    let version = match (bytes.get(..4)?, read_u32(bytes, 4)?) {
        (b"DIRC", version @ 2..=4) => version,
        _ => return None,
    };
    let count = read_u32(bytes, 8)?;
    // The index ends with a checksum, which is as long as an object name.
    let end = bytes.len().checked_sub(length)?;
    let bytes = &bytes[..end];
    let mut at = 12;
    let mut name = Vec::new();
    for _ in 0..count {
        let begin = at;
        let flags = read_u16(bytes, begin + 40 + length)?;
        at = begin + 42 + length;
        let mut more = 0;
        // The extended flags, which version 2 does not have.
        if flags & 0x4000 != 0 {
            more = if version >= 3 {
                read_u16(bytes, at)?
            } else {
                return None;
            };
            at += 2;
        }
        // Version 4 stores how much of the previous name to drop.
        let cut = match version {
            4 => read_varint(bytes, &mut at)?,
            _ => name.len(),
        };
        name.truncate(name.len().checked_sub(cut)?);
        let piece = memchr::memchr(0, bytes.get(at..)?)?;
        name.extend_from_slice(&bytes[at..at + piece]);
        at += piece;
        let next = match version {
            4 => at + 1,
            _ => begin + (at - begin) / 8 * 8 + 8,
        };
        // Entries are padded with NULs. Anything else means that the format is not the assumed one.
        if bytes.get(at..next)?.iter().any(|byte| *byte != 0) {
            return None;
        }
        at = next;
        let kind = read_u32(bytes, begin + 24)? >> 12;
        let entry = IndexEntry {
            modified: u128::from(read_u32(bytes, begin + 8)?) * 1_000_000_000
                + u128::from(read_u32(bytes, begin + 12)?),
            bytes: read_u32(bytes, begin + 36)?,
            id: bytes.get(begin + 40..begin + 40 + length)?,
            is_link: kind == 0o12,
            is_submodule: kind == 0o16,
            is_folder: kind == 0o04,
            // First flags: assume-valid and conflict stage. Extended flags: skip-worktree and intent-to-add.
            is_plain: matches!(kind, 0o10 | 0o12) && flags & 0xb000 == 0 && more & 0x6000 == 0,
        };
        visit(&name, &entry);
    }
    while at < bytes.len() {
        let sign = bytes.get(at..at + 4)?;
        // A lowercase signature marks an extension that must be understood. `sdir` only allows folders as entries.
        if sign[0].is_ascii_lowercase() && sign != b"sdir" {
            return None;
        }
        at = at
            .checked_add(8)?
            .checked_add(read_u32(bytes, at + 4)? as usize)?;
    }
    (at == bytes.len()).then_some(())
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_be_bytes(word))
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    let half = bytes.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_be_bytes(half))
}

/// Reads a number in git's encoding: seven bits per byte, plus one for each continuation byte.
fn read_varint(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let mut value = 0_usize;
    loop {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value = value.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        value = value.checked_add(1)?;
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::fs;

    use super::super::file_stamp::read_stamp;
    use super::*;

    /// Runs git in `folder`, isolated from the user's settings.
    #[expect(clippy::disallowed_methods, reason = "a repository to look at")]
    fn run_git(folder: &Path, args: &[&str]) {
        let done = std::process::Command::new("git")
            .current_dir(folder)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
            .args(args)
            .output()
            .unwrap();
        assert!(done.status.success(), "{args:?}: {done:?}");
    }

    fn create_repository(more: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        run_git(&root, &[&["init", "-q"], more].concat());
        for name in ["a", "dir/b", "dir/bc", "dir/deep/much longer name than that", "é"] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("a", root.join("link")).unwrap();
        // The index must be younger than the files.
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        for name in ["a", "dir/b", "dir/bc", "dir/deep/much longer name than that", "é"] {
            let file = fs::File::options().write(true).open(root.join(name)).unwrap();
            file.set_modified(old).unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        run_git(&root, &["add", "."]);
        (dir, root)
    }

    /// Returns the names of the clean files.
    fn list_clean_files(root: &Path) -> Vec<String> {
        let names = [
            "a",
            "dir/b",
            "dir/bc",
            "dir/deep/much longer name than that",
            "link",
            "é",
            "none",
        ];
        let paths: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
        let files = paths
            .iter()
            .filter_map(|path| Some((path.as_path(), read_stamp(path)?)));
        let index = GitIndex::read(root).unwrap();
        let mut clean: Vec<String> = index
            .find_clean_files(files)
            .into_iter()
            .map(|clean| clean.path.strip_prefix(root).unwrap().display().to_string())
            .collect();
        clean.sort();
        clean
    }

    #[test]
    fn all_versions_and_both_hashes_are_read() {
        let all = [
            "a",
            "dir/b",
            "dir/bc",
            "dir/deep/much longer name than that",
            "link",
            "é",
        ];
        for (init, version) in [
            (&[][..], "2"),
            (&[], "4"),
            (&["--object-format=sha256"], "2"),
            (&["--object-format=sha256"], "4"),
        ] {
            let (_dir, root) = create_repository(init);
            run_git(&root, &["update-index", "--index-version", version]);
            assert_eq!(list_clean_files(&root), all, "{init:?} {version}");
            let id = |name: &str| {
                let path = root.join(name);
                let index = GitIndex::read(&root).unwrap();
                index.find_clean_files([(path.as_path(), read_stamp(&path).unwrap())])[0]
                    .id
                    .clone()
            };
            if init.is_empty() {
                // `printf a | git hash-object --stdin`
                assert_eq!(id("a"), "2e65efe2a145dda7ee51d1741299f848e5bf752e");
            }
            run_git(&root, &["update-index", "--assume-unchanged", "a"]);
            run_git(&root, &["update-index", "--skip-worktree", "dir/b"]);
            fs::write(root.join("dir/bc"), "xx/bc").unwrap();
            fs::write(root.join("none"), "").unwrap();
            run_git(&root, &["add", "-N", "none"]);
            assert_eq!(
                list_clean_files(&root),
                ["dir/deep/much longer name than that", "link", "é"],
                "{init:?} {version}"
            );
        }
    }

    #[test]
    fn a_file_written_together_with_the_index_is_not_trusted() {
        let (_dir, root) = create_repository(&[]);
        let mut index = GitIndex::read(&root).unwrap();
        let path = root.join("a");
        let stamp = read_stamp(&path).unwrap();
        index.written = stamp.modified() + 1;
        assert_eq!(index.find_clean_files([(path.as_path(), stamp)]).len(), 1);
        index.written = stamp.modified();
        assert_eq!(index.find_clean_files([(path.as_path(), stamp)]), []);
    }

    #[test]
    fn a_split_or_missing_index_reports_nothing() {
        let (_dir, root) = create_repository(&[]);
        run_git(&root, &["update-index", "--split-index"]);
        assert_eq!(list_clean_files(&root), Vec::<String>::new());
        fs::remove_file(root.join(".git/index")).unwrap();
        assert_eq!(GitIndex::read(&root), None);
        fs::create_dir(root.join(".git/index")).unwrap();
        assert_eq!(GitIndex::read(&root), None);
    }

    #[test]
    fn a_linked_work_tree_has_its_own_index() {
        let (_dir, root) = create_repository(&[]);
        run_git(&root, &["commit", "-qm", "first"]);
        let (_other, other) = {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().canonicalize().unwrap().join("tree");
            (dir, path)
        };
        run_git(&root, &["worktree", "add", "-q", other.to_str().unwrap()]);
        assert!(other.join(".git").is_file());
        assert!(GitIndex::read(&other).is_some());
        fs::write(other.join(".git"), "gitdir: ../nowhere\n").unwrap();
        assert_eq!(GitIndex::read(&other), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), version in 0_u32..6) {
            let mut head = b"DIRC".to_vec();
            head.extend(version.to_be_bytes());
            head.extend(2_u32.to_be_bytes());
            head.append(&mut bytes);
            for length in [20, 32] {
                let _ = for_each_entry(&head, length, |_, _| {});
            }
        }

        #[test]
        fn a_truncated_index_is_rejected(cut in 1_usize..400) {
            let mut index = b"DIRC\0\0\0\x02\0\0\0\x01".to_vec();
            index.extend([0; 24]);
            index.extend(0o100_644_u32.to_be_bytes());
            index.extend([0; 32]);
            index.extend([0, 1, b'a']);
            index.extend([0; 8 - (63 % 8)]);
            index.extend([0; 20]);
            let whole = |index: &[u8]| for_each_entry(index, 20, |_, _| {}).is_some();
            prop_assert!(whole(&index));
            index.truncate(index.len().saturating_sub(cut));
            prop_assert!(!whole(&index));
        }
    }
}
