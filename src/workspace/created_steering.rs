//! Watches for files that make programs run and that confined commands create: puts them aside, by another name.
//!
//! The sandbox protects such files only where they exist. What a command created is renamed before anything else
//! happens, and comes back if the user keeps it. Must not know how users are asked.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::watch::ExternalWriteWatch;
use crate::base::nofollow::{self, FileKind, OpenFolder};
use crate::sandbox::{list_steering_paths, name_reader};

/// Goes before the name of what is put aside. No program obeys such a name.
const ASIDE: &str = "put-aside-";
/// Most names tried for one file.
const MAX_NAMES: u32 = 100;
/// Most files that are looked at in a created folder.
const MAX_FILES: usize = 1_000;

/// The watch of one session and its sub-agents.
#[derive(Debug, Default)]
pub(super) struct SteeringWatch {
    state: Mutex<WatchState>,
}

#[derive(Debug, Default)]
struct WatchState {
    /// Confined commands that run, in the background too.
    running: usize,
    /// From before the first of them started, until the first look after the last has ended.
    since: Option<Since>,
}

/// What was there when the watch began, and who else has written since.
#[derive(Debug)]
struct Since {
    known: BTreeSet<PathBuf>,
    /// Also knows what tools write, whose changes were judged or approved.
    external: ExternalWriteWatch,
}

/// One confined command; it counts as running until this is dropped.
#[derive(Debug)]
pub struct WatchedCommand {
    watch: Arc<SteeringWatch>,
}

/// A file or folder that a command created, and that makes programs run.
#[derive(Debug)]
pub struct CreatedSteering {
    pub path: PathBuf,
    /// Who obeys it, for people.
    pub reader: &'static str,
    /// Its new name, or why it still has the old one.
    pub aside: io::Result<PathBuf>,
}

impl SteeringWatch {
    /// Registers a command that starts. Reads the folders if it is the first, so it blocks.
    pub(super) fn start_command(
        self: &Arc<Self>,
        folders: &[PathBuf],
        external: impl FnOnce() -> ExternalWriteWatch,
    ) -> WatchedCommand {
        let mut state = self.lock();
        state.running += 1;
        state.since.get_or_insert_with(|| Since {
            // Before the listing, so that no write of others during it is missed.
            external: external(),
            known: list_all(folders),
        });
        WatchedCommand { watch: self.clone() }
    }

    /// Returns whether the watch has begun, and a path was not there then.
    pub(super) fn is_new(&self, path: &Path) -> bool {
        let state = self.lock();
        state
            .since
            .as_ref()
            .is_some_and(|since| !since.known.contains(path))
    }

    /// Renames what commands have created since the watch began. Blocks.
    ///
    /// `is_plain_repository` returns whether a new repository runs nothing, as after `git init`.
    pub(super) fn put_created_aside(
        &self,
        folders: &[PathBuf],
        is_plain_repository: impl Fn(&Path) -> bool,
    ) -> Vec<CreatedSteering> {
        // Locked to the end: two commands that end at once must not rename the same file.
        let mut state = self.lock();
        let Some(since) = &state.since else {
            return Vec::new();
        };
        let (mut created, mut examined) = (Vec::new(), Vec::<PathBuf>::new());
        for path in list_all(folders) {
            // The list is sorted, so a folder comes before what is in it.
            let is_inside = examined.last().is_some_and(|outer| path.starts_with(outer));
            if is_inside || since.known.contains(&path) {
                continue;
            }
            if !path.ends_with(".git") || !is_plain_repository(&path) {
                created.extend(since.exclude_other_writers(path.clone()));
            }
            examined.push(path);
        }
        if state.running == 0 {
            state.since = None;
        }
        let put_aside = |path: PathBuf| CreatedSteering {
            reader: name_reader(&path),
            aside: rename_aside(&path),
            path,
        };
        created.into_iter().map(put_aside).collect()
    }

    /// Gives a file its name back, because the user keeps it.
    ///
    /// # Errors
    /// Something else has the name now, or the system refuses.
    pub(super) fn restore_kept(&self, path: &Path, aside: &Path) -> io::Result<()> {
        rename_beside(aside, path)?;
        if let Some(since) = &mut self.lock().since {
            since.known.insert(path.to_owned());
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, WatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WatchedCommand {
    fn drop(&mut self) {
        let mut state = self.watch.lock();
        state.running = state.running.saturating_sub(1);
    }
}

impl Since {
    /// Returns what of a new path no one but a command can have written.
    fn exclude_other_writers(&self, path: PathBuf) -> Vec<PathBuf> {
        let is_others = |file: &Path| self.external.has_external_write(file);
        let is_folder = nofollow::kind(&path) == Some(FileKind::Folder);
        let mut files = BTreeSet::new();
        if !is_folder || !list_files(&path, &mut files) {
            return if is_others(&path) { Vec::new() } else { vec![path] };
        }
        if !files.iter().any(|file| is_others(file)) {
            return vec![path];
        }
        files.into_iter().filter(|file| !is_others(file)).collect()
    }
}

fn list_all(folders: &[PathBuf]) -> BTreeSet<PathBuf> {
    folders
        .iter()
        .flat_map(|folder| list_steering_paths(folder))
        .collect()
}

/// Lists the files below a folder. Returns false if there are too many, or if it cannot be listed.
fn list_files(folder: &Path, files: &mut BTreeSet<PathBuf>) -> bool {
    let Ok(entries) = OpenFolder::open(folder).and_then(|folder| folder.read_entries()) else {
        return false;
    };
    for entry in entries {
        let Ok(entry) = entry else { return false };
        let path = folder.join(&entry.name);
        let is_listed = match entry.kind {
            FileKind::Folder => list_files(&path, files),
            _ => files.insert(path),
        };
        if !is_listed || files.len() > MAX_FILES {
            return false;
        }
    }
    true
}

/// Renames a path so that no program obeys it, and returns its new path.
fn rename_aside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default();
    for number in 1..=MAX_NAMES {
        let mut aside = OsString::from(ASIDE);
        if number > 1 {
            aside.push(format!("{number}-"));
        }
        aside.push(name);
        let aside = path.with_file_name(aside);
        match rename_beside(path, &aside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            renamed => return renamed.map(|()| aside),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Renames an entry to a new name in the same folder, which no part of the path may reach through a link.
fn rename_beside(from: &Path, to: &Path) -> io::Result<()> {
    let (Some(parent), Some(name), Some(new)) = (from.parent(), from.file_name(), to.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    OpenFolder::open_for_traversal(parent)?.rename_to_new(name, new)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::workspace::watch::ExternalWrites;

    struct Fixture {
        _dir: tempfile::TempDir,
        folders: Vec<PathBuf>,
        watch: Arc<SteeringWatch>,
        external: ExternalWrites,
    }

    impl Fixture {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            Self {
                folders: vec![dir.path().canonicalize().unwrap()],
                _dir: dir,
                watch: Arc::default(),
                external: ExternalWrites::default(),
            }
        }

        fn write(&self, file: &str) -> PathBuf {
            let path = self.folders[0].join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, file).unwrap();
            path
        }

        fn start(&self) -> WatchedCommand {
            self.watch
                .start_command(&self.folders, || self.external.start_watch())
        }

        /// Returns the names of what is put aside, before and after.
        fn put_aside(&self) -> Vec<(String, String)> {
            let name = |path: &Path| path.strip_prefix(&self.folders[0]).unwrap().display().to_string();
            let created = self.watch.put_created_aside(&self.folders, |_| false);
            created
                .iter()
                .map(|created| (name(&created.path), name(created.aside.as_ref().unwrap())))
                .collect()
        }
    }

    fn pair(before: &str, after: &str) -> (String, String) {
        (before.to_owned(), after.to_owned())
    }

    #[test]
    fn only_what_a_command_created_is_put_aside() {
        let fixture = Fixture::new();
        fixture.write("AGENTS.md");
        fixture.write(".git/config");
        drop(fixture.start());
        for file in [
            ".vscode/tasks.json",
            ".git/hooks/pre-commit",
            "src/lib.rs",
            "CLAUDE.md",
            "put-aside-CLAUDE.md",
        ] {
            fixture.write(file);
        }
        fixture.external.write(&fixture.write(".cargo/config.toml"));
        fixture.external.write(&fixture.write(".envrc"));
        let expected = [
            pair(".git/hooks", ".git/put-aside-hooks"),
            pair(".vscode", "put-aside-.vscode"),
            pair("CLAUDE.md", "put-aside-2-CLAUDE.md"),
        ];
        assert_eq!(fixture.put_aside(), expected);
        assert_eq!(
            fs::read_to_string(fixture.folders[0].join("put-aside-.vscode/tasks.json")).unwrap(),
            ".vscode/tasks.json"
        );
        fixture.write(".vscode/later.json");
        assert!(fixture.put_aside().is_empty(), "no command ran since");
    }

    #[test]
    fn the_watch_lasts_while_a_command_runs() {
        let fixture = Fixture::new();
        let background = fixture.start();
        drop(fixture.start());
        assert!(fixture.put_aside().is_empty());
        let kept = fixture.write(".vscode/a");
        assert_eq!(fixture.put_aside().len(), 1);
        let folder = kept.parent().unwrap();
        fixture
            .watch
            .restore_kept(folder, &folder.with_file_name("put-aside-.vscode"))
            .unwrap();
        assert!(fixture.put_aside().is_empty(), "the user keeps it");
        fixture.external.write(&fixture.write(".idea/by_tool"));
        fixture.write(".idea/by_command");
        drop(background);
        // Only the tool's file was approved in the new folder.
        assert_eq!(
            fixture.put_aside(),
            [pair(".idea/by_command", ".idea/put-aside-by_command")]
        );
    }

    #[test]
    fn a_link_is_renamed_itself_and_nothing_is_replaced() {
        let fixture = Fixture::new();
        let outside = tempfile::tempdir().unwrap();
        drop(fixture.start());
        std::os::unix::fs::symlink(outside.path(), fixture.folders[0].join(".vscode")).unwrap();
        assert_eq!(fixture.put_aside(), [pair(".vscode", "put-aside-.vscode")]);
        assert!(outside.path().exists());
        let (path, aside) = (
            fixture.write(".vscode"),
            fixture.folders[0].join("put-aside-.vscode"),
        );
        let error = fixture.watch.restore_kept(&path, &aside).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }
}
