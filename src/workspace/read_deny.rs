//! The paths that `[sandbox] read_deny` names: hidden from confined commands, and secrets for everything else. And the
//! further names of secrets, which are secrets too.
//!
//! An entry is a path, or a pattern whose `*`, `?`, and `[…]` match within one name. Reads links and lists folders, so
//! all of it blocks.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::file_stamp::FileStamp;
use super::real_path::real_path;
use super::secret_links::{SecretLinkCache, SecretLinks, SecretSources};
use crate::base::glob::GlobPattern;
use crate::base::nofollow::OpenFolder;

/// Most names that the patterns of one list are compared with.
const MAX_NAMES: usize = 20_000;
/// Most paths that the patterns of one list may match. A command pays for each.
const MAX_MATCHES: usize = 500;

/// Paths that nobody reads without a question.
#[derive(Clone, Debug, Default)]
pub struct ReadDeny {
    /// As the settings name them, and with their links resolved.
    paths: Vec<(PathBuf, PathBuf)>,
    patterns: Vec<PathPattern>,
    /// What the patterns match now; `None` if that is too much.
    matches: Option<Vec<PathBuf>>,
    links: SecretLinks,
}

/// A folder, and a pattern for each further name.
#[derive(Clone, Debug)]
struct PathPattern {
    folder: PathBuf,
    names: Vec<GlobPattern>,
}

impl ReadDeny {
    /// Reads the entries of a list, which are absolute.
    pub fn new(entries: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut read = Self {
            matches: Some(Vec::new()),
            ..Self::default()
        };
        let mut names = MAX_NAMES;
        for path in entries {
            if let Some(pattern) = PathPattern::parse(&path) {
                // What a matching link leads to is covered too.
                let found = pattern.list_matches(&mut names);
                let targets = found.iter().flatten().cloned().map(with_target);
                read.paths.extend(targets.filter(|(path, real)| path != real));
                read.matches = (read.matches.zip(found)).map(|(all, found)| [all, found].concat());
                read.patterns.push(pattern);
            }
            // A file may have the name of a pattern, such as `[id]`.
            read.paths.push(with_target(path));
        }
        read
    }

    /// Adds the hard links of secrets, and of what the list names. `own` are our own keys.
    #[must_use]
    pub(super) fn with_links(
        mut self,
        home: Option<&Path>,
        folder: Option<&Path>,
        own: &[PathBuf],
        cache: Arc<SecretLinkCache>,
    ) -> Self {
        let named = self.paths.iter().map(|(named, _)| named);
        let places = named.chain(self.matches.iter().flatten()).chain(own);
        let sources = SecretSources {
            home: home.map(Path::to_owned),
            folder: folder.map(Path::to_owned),
            places: places.cloned().collect(),
            is_partial: self.matches.is_none(),
        };
        self.links = SecretLinks::new(sources, cache);
        self
    }

    /// Adds a folder whose files have too many names to be compared.
    #[must_use]
    pub(super) fn with_folder(mut self, folder: PathBuf) -> Self {
        self.paths.push(with_target(folder));
        self
    }

    /// Returns whether an entry names a path, or a folder around it, or it is a hard link of a secret.
    pub fn covers(&self, path: &Path) -> bool {
        self.names(path) || self.links.covers(path)
    }

    /// As [`Self::covers`], for a file with this stamp.
    pub fn covers_stamped(&self, path: &Path, stamp: &FileStamp) -> bool {
        self.names(path) || self.links.covers_stamp(stamp)
    }

    fn names(&self, path: &Path) -> bool {
        let is_below = |(named, real): &(PathBuf, PathBuf)| path.starts_with(named) || path.starts_with(real);
        self.paths.iter().any(is_below) || self.patterns.iter().any(|pattern| pattern.covers(path))
    }

    /// Returns the paths, with what the patterns match now; `None` if that is too much.
    pub fn list_paths(self) -> Option<Vec<PathBuf>> {
        let mut paths: Vec<PathBuf> = self.paths.into_iter().map(|(named, _)| named).collect();
        let mut names = MAX_NAMES;
        let most = paths.len() + MAX_MATCHES;
        for pattern in &self.patterns {
            paths.extend(pattern.list_matches(&mut names)?);
        }
        (paths.len() <= most).then_some(paths)
    }
}

impl PathPattern {
    /// Reads a path; `None` if it is not a pattern.
    fn parse(path: &Path) -> Option<Self> {
        let is_pattern = |part: &Component| part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
        let parts: Vec<Component> = path.components().collect();
        let start = parts.iter().position(is_pattern)?;
        // From a name that is not a valid pattern on, everything is covered.
        let names = parts[start..]
            .iter()
            .map_while(|part| to_matcher(part.as_os_str()));
        let folder: PathBuf = parts[..start].iter().collect();
        Some(Self {
            folder: real_path(&folder).unwrap_or(folder),
            names: names.collect(),
        })
    }

    fn covers(&self, real: &Path) -> bool {
        let Ok(rest) = real.strip_prefix(&self.folder) else {
            return false;
        };
        let mut parts = rest.components();
        let mut names = self.names.iter();
        names.all(|name| parts.next().is_some_and(|part| name.is_match(part)))
    }

    fn list_matches(&self, names: &mut usize) -> Option<Vec<PathBuf>> {
        let mut found = vec![self.folder.clone()];
        for matcher in &self.names {
            let mut next = Vec::new();
            for folder in found {
                let real = real_path(&folder).unwrap_or_else(|_| folder.clone());
                let entries = OpenFolder::open(&real).and_then(|folder| folder.read_entries());
                for entry in entries.into_iter().flatten().flatten() {
                    *names = names.checked_sub(1)?;
                    if matcher.is_match(&entry.name) {
                        next.push(folder.join(&entry.name));
                    }
                }
            }
            found = next;
        }
        Some(found)
    }
}

fn with_target(path: PathBuf) -> (PathBuf, PathBuf) {
    let real = real_path(&path).unwrap_or_else(|_| path.clone());
    (path, real)
}

fn to_matcher(name: &OsStr) -> Option<GlobPattern> {
    GlobPattern::for_names(name.to_str()?).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn entries_cover_what_they_name_and_list_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for folder in ["keys", "app/[id]", "app/i"] {
            fs::create_dir_all(base.join(folder)).unwrap();
        }
        for file in ["keys/a.pem", "keys/.b.pem", "keys/a.txt", "notes"] {
            fs::write(base.join(file), "").unwrap();
        }
        symlink("keys", base.join("link")).unwrap();
        fs::create_dir_all(base.join("live/x")).unwrap();
        symlink("../../archive/key1", base.join("live/x/key")).unwrap();
        let entries = [
            "link/*.pem",
            "app/[id]",
            "notes",
            "missing/x",
            "live/*/key",
            "bad/[x",
        ]
        .map(|entry| base.join(entry));
        let denied = ReadDeny::new(entries);
        for (path, expected) in [
            ("keys/a.pem", true),
            ("keys/new.pem", true),
            ("keys/a.pem/below", true),
            ("keys/a.txt", false),
            ("keys", false),
            ("app/[id]/x", true),
            ("app/i/x", true),
            ("app/x", false),
            ("notes", true),
            ("notes2", false),
            ("missing/x/y", true),
            ("archive/key1", true),
            ("archive/key2", false),
            ("bad/anything", true),
        ] {
            assert_eq!(denied.covers(&base.join(path)), expected, "{path}");
        }
        let listed = denied.list_paths().unwrap();
        for path in ["keys/a.pem", "keys/.b.pem", "app/[id]", "app/i", "notes"] {
            assert!(listed.contains(&base.join(path)), "{path}: {listed:?}");
        }
        assert!(!listed.contains(&base.join("keys/a.txt")), "{listed:?}");
    }

    #[test]
    fn a_folder_denies_reading_only_in_its_own_sessions() {
        use super::super::{Workspace, WorkspaceShared};
        use crate::domain::{CommandFiles, FileUsage, FileWord, FindingKind};
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let shared = WorkspaceShared::new(&[], None);
        let session = Workspace::new(shared.clone());
        shared.set_read_deny(&base.join("a"), vec!["../b/*".to_owned(), "key".to_owned()]);
        shared.set_read_deny(&base.join("b"), Vec::new());
        let is_secret = |cwd: &str, given: &str| {
            let resolved = session.resolve_path(&base.join(cwd), given).unwrap();
            resolved.secret
        };
        assert!(is_secret("a", "key") && is_secret("a/sub", "../key") && is_secret("a", "../b/x"));
        assert!(!is_secret("a", "data/store.db"));
        std::fs::create_dir_all(base.join("a/data")).unwrap();
        shared.use_data_folder(&base.join("a/data"));
        assert!(is_secret("a", "data/store.db") && is_secret("", "a/data/x/y") && !is_secret("a", "data2/x"));
        assert!(!is_secret("a/data/tree", "src/x"), "a workspace in it");
        assert!(!is_secret("b", "x") && !is_secret("b", "../a/key") && !is_secret("abc", "../a/key"));
        std::fs::write(base.join("a/key"), "").unwrap();
        for (cwd, findings) in [("a", vec![FindingKind::Secret]), ("", Vec::new())] {
            let files = CommandFiles {
                words: vec![FileWord {
                    part: 0,
                    text: base.join("a/key").display().to_string(),
                    glob: false,
                    usage: FileUsage::Read,
                }],
                ..CommandFiles::default()
            };
            let found = session.look_up_files(&base.join(cwd), &files);
            assert_eq!(
                found.iter().map(|found| found.kind).collect::<Vec<_>>(),
                findings,
                "{cwd}"
            );
        }
    }

    #[test]
    fn a_hard_link_of_what_an_entry_names_is_covered() {
        use super::super::WorkspaceShared;
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        fs::create_dir(base.join("keys")).unwrap();
        for (file, link) in [("token", "a"), ("keys/b.pem", "b"), ("keys/c.txt", "c")] {
            fs::write(base.join(file), "").unwrap();
            fs::hard_link(base.join(file), base.join(link)).unwrap();
        }
        let shared = WorkspaceShared::new(&[], None);
        shared.set_read_deny(&base, vec!["token".to_owned(), "keys/*.pem".to_owned()]);
        let denied = shared.read_deny(Some(&base));
        for (link, is_covered) in [("a", true), ("b", true), ("c", false)] {
            assert_eq!(denied.covers(&base.join(link)), is_covered, "{link}");
        }
    }

    #[test]
    fn too_many_matches_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..=MAX_MATCHES {
            fs::write(dir.path().join(number.to_string()), "").unwrap();
        }
        let denied = ReadDeny::new([dir.path().join("*")]);
        assert!(denied.covers(&dir.path().canonicalize().unwrap().join("7")));
        assert_eq!(denied.list_paths(), None);
    }
}
