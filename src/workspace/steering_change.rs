//! One change of a file that makes programs run: what was done about it, and the renames.
//!
//! Follows no link and deletes nothing. Must not decide who has changed a file: `steering_watch` does.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::steering_snapshot::SteeringState;
use crate::base::nofollow::OpenFolder;

/// Goes before the name of what is put aside. No program obeys such a name.
const ASIDE: &str = "put-aside-";
/// Most names tried for one file.
const MAX_NAMES: u32 = 100;
/// A file or folder that makes programs run, and that a confined process created, changed, or removed.
#[derive(Debug)]
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
}

/// What was done about a change.
#[derive(Debug)]
pub enum SteeringOutcome {
    /// It has this name now, and what was there before is back, if anything was.
    Aside(PathBuf),
    /// Nothing yet: others may have made it.
    Undecided,
    /// It was removed, and is back.
    PutBack,
    /// It could not be put aside or back.
    Failed(io::Error),
}

impl SteeringChange {
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
    let (Some(parent), Some(name), Some(new)) = (from.parent(), from.file_name(), to.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    OpenFolder::open_for_traversal(parent)?.rename_to_new(name, new)
}
