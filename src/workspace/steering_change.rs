//! One change of a file that makes programs run: what was done about it, and the renames.
//!
//! Follows no link and deletes nothing. No file has another name without somebody being told: what is dropped before, as
//! after a cancel, waits for the next check. Must not decide who has changed a file: `steering_watch` does.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::steering_snapshot::SteeringState;
use crate::base::nofollow::OpenFolder;

/// Goes before the name of what is put aside. No program obeys such a name.
const ASIDE: &str = "put-aside-";
/// Most names tried for one file.
const MAX_NAMES: u32 = 100;

/// Changes of a workspace folder that were dropped before anybody was told.
pub(super) type UnreportedChanges = Arc<Mutex<Vec<SteeringChange>>>;

/// A file or folder that makes programs run, and that a confined process created, changed, or removed.
#[derive(Debug, Default)]
pub struct SteeringChange {
    pub path: PathBuf,
    /// Who obeys it, for people.
    pub reader: &'static str,
    pub outcome: SteeringOutcome,
    /// What to put back when it is put aside.
    pub(super) original: Option<SteeringState>,
    /// Why that failed.
    pub not_put_back: Option<io::Error>,
    /// Undecided changes are not reported again while this exists.
    pub(super) asked: Arc<()>,
    /// Where it goes if it is dropped.
    pub(super) unreported: Option<UnreportedChanges>,
}

/// What was done about a change.
#[derive(Debug, Default)]
pub enum SteeringOutcome {
    /// It has this name now, and what was there before is back, if anything was.
    Aside(PathBuf),
    /// Nothing yet: others may have made it. It is found again.
    #[default]
    Undecided,
    /// It was removed, and is back.
    PutBack,
    /// It could not be put aside or back.
    Failed(io::Error),
}

impl SteeringChange {
    /// Records that somebody is told for sure.
    pub fn mark_reported(&mut self) {
        self.unreported = None;
    }

    /// Says what happened to it and who obeys it, for people and the model.
    pub fn describe(&self, show_path: impl Fn(&Path) -> String) -> String {
        let (path, reader) = (show_path(&self.path), self.reader);
        match &self.outcome {
            SteeringOutcome::Aside(aside) => {
                let not_put_back = self.not_put_back.as_ref().map_or_else(String::new, |error| {
                    format!(", and what was there before could not be put back: {error}")
                });
                let aside = show_path(aside);
                format!("`{path}` (obeyed by {reader}) is now `{aside}`{not_put_back}")
            }
            SteeringOutcome::Undecided => {
                format!("`{path}` (obeyed by {reader}) appeared while a process ran in the sandbox")
            }
            SteeringOutcome::PutBack => {
                format!("a command in the sandbox removed `{path}`, which {reader} obeys; it is back")
            }
            SteeringOutcome::Failed(error) => format!(
                "a command in the sandbox changed `{path}`, which {reader} obeys, and putting it aside or back \
                 failed: {error}"
            ),
        }
    }

    /// Renames it, and puts back what was there. Blocks.
    pub(super) fn put_aside(&mut self) {
        self.outcome = match rename_aside(&self.path) {
            Ok(aside) => SteeringOutcome::Aside(aside),
            Err(error) => SteeringOutcome::Failed(error),
        };
        if let (SteeringOutcome::Aside(_), Some(original)) = (&self.outcome, &self.original) {
            self.not_put_back = original.put_back(&self.path).err();
        }
    }
}

impl Drop for SteeringChange {
    fn drop(&mut self) {
        if let Some(unreported) = self.unreported.take()
            && !matches!(self.outcome, SteeringOutcome::Undecided)
        {
            tracing::warn!(path = %self.path.display(), outcome = ?self.outcome, "nobody was told of a change yet");
            let mut unreported = unreported.lock().unwrap_or_else(PoisonError::into_inner);
            unreported.push(std::mem::take(self));
        }
    }
}

/// Renames a path so that no program obeys it, and returns its new path.
pub(super) fn rename_aside(path: &Path) -> io::Result<PathBuf> {
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
pub(super) fn rename_beside(from: &Path, to: &Path) -> io::Result<()> {
    let (folder, name) = OpenFolder::open_parent(from)?;
    folder.rename_to_new(name, to.file_name().unwrap_or_default())
}
