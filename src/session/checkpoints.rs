//! What a turn changes of files: kept before, stored with what it came to, told at its end (R-SESS-3).

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use tokio::sync::oneshot;

use super::actor::Actor;
use super::contents::Contents;
use super::house::House;
use crate::config::Redactor;
use crate::domain::{
    ChangeKind, Event, FileChange, FileDiff, FileState, SessionId, Standing, TurnDiff, TurnId,
};
use crate::store::{StoreHandle, Write};
use crate::tool::{Checkpoints, Unseen};
use crate::workspace::Workspace;
use crate::workspace::checkpoint::{MAX_WATCHED, look, same_content};
use crate::workspace::diff::{Sides, unified};
use crate::workspace::text_file::TextFile;

/// The code of the warning that some of a command's changes may not be known.
const PARTIAL: &str = "checkpoint_partial";
/// So many files of a turn are listed.
const LISTED: usize = 300;
/// Diffs of a turn together, in bytes.
const DIFFS: usize = 96 << 10;

/// The changes of one turn.
pub(super) struct TurnCheckpoints {
    contents: Contents,
    redactor: Redactor,
    writes: StoreHandle,
    session: SessionId,
    turn: TurnId,
    changes: Mutex<Changes>,
    partial: AtomicBool,
    cut_short: AtomicBool,
}

/// In the order of the first change of each file.
#[derive(Default)]
struct Changes {
    list: Vec<FileChange>,
    places: HashMap<String, usize>,
}

impl TurnCheckpoints {
    pub(super) fn new(house: &House, session: &SessionId, turn: &TurnId) -> Self {
        Self {
            contents: Contents::new(house, session),
            redactor: house.redactor.clone(),
            writes: house.store.writes.clone(),
            session: session.clone(),
            turn: turn.clone(),
            changes: Mutex::default(),
            partial: AtomicBool::new(false),
            cut_short: AtomicBool::new(false),
        }
    }

    fn note(&self, new: &[FileChange]) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let Changes { list, places } = &mut *changes;
        for change in new {
            match places.get(&change.path) {
                Some(at) => list[*at].after.clone_from(&change.after),
                None => {
                    places.insert(change.path.clone(), list.len());
                    list.push(change.clone());
                }
            }
        }
    }

    fn take(&self) -> Vec<FileChange> {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *changes).list
    }
}

impl Checkpoints for TurnCheckpoints {
    fn keep(&self, bytes: &[u8]) -> Result<(), String> {
        self.contents.keep(bytes).map_err(|error| error.to_string())
    }

    fn record(&self, changes: Vec<FileChange>) -> BoxFuture<'static, Result<(), String>> {
        self.note(&changes);
        let (done, stored) = oneshot::channel();
        let write = Write::Changes {
            session: self.session.clone(),
            cause: self.turn.to_string(),
            anew: false,
            changes,
            done,
        };
        let writes = self.writes.clone();
        Box::pin(async move {
            writes.send(write).await.map_err(|error| error.to_string())?;
            stored.await.map_err(|_| "the session store has ended".to_owned())
        })
    }

    fn partial(&self, why: Unseen) {
        let flag = match why {
            Unseen::TooMany => &self.partial,
            Unseen::CutShort => &self.cut_short,
        };
        flag.store(true, Ordering::Relaxed);
    }
}

impl Actor {
    /// Tells what the turn that ends has changed.
    pub(super) async fn tell_changes(&mut self) {
        let Some(turn) = &self.turn else { return };
        let (checkpoints, id) = (turn.checkpoints.clone(), turn.id.clone());
        let too_many = checkpoints.partial.load(Ordering::Relaxed);
        let cut_short = checkpoints.cut_short.load(Ordering::Relaxed);
        let partial = too_many || cut_short;
        let changes = checkpoints.take();
        if partial {
            self.record(Event::Warning {
                code: PARTIAL.to_owned(),
                message: match too_many {
                    true => format!(
                        "there are more than {MAX_WATCHED} files: what commands changed of the others is not known \
                         and cannot be taken back"
                    ),
                    false => "the turn was cancelled before all that the command changed was looked at: it is not \
                              known and cannot be taken back"
                        .to_owned(),
                },
            });
        }
        if changes.is_empty() && !partial {
            return;
        }
        let (workspace, cwd) = (self.workspace(), self.info.cwd.clone());
        let told = tokio::task::spawn_blocking(move || {
            let shown = Shown {
                workspace: &workspace,
                cwd: &cwd,
                contents: &checkpoints.contents,
                redactor: &checkpoints.redactor,
            };
            shown.diff(id, &changes, partial)
        });
        // What panicked has been told of.
        if let Ok(diff) = told.await {
            self.record(Event::TurnDiff(Arc::new(diff)));
        }
    }
}

/// How changes are shown.
struct Shown<'a> {
    workspace: &'a Workspace,
    cwd: &'a Path,
    contents: &'a Contents,
    redactor: &'a Redactor,
}

impl Shown<'_> {
    fn diff(&self, turn: TurnId, changes: &[FileChange], partial: bool) -> TurnDiff {
        let mut room = DIFFS;
        let mut files = Vec::new();
        let mut unlisted = 0;
        for change in changes {
            let Some(kind) = change.kind() else { continue };
            if files.len() >= LISTED {
                unlisted += 1;
                continue;
            }
            files.push(self.file(change, kind, &mut room));
        }
        TurnDiff {
            turn,
            standing: Standing::Made,
            files,
            unlisted,
            partial,
        }
    }

    fn file(&self, change: &FileChange, kind: ChangeKind, room: &mut usize) -> FileDiff {
        let mut file = FileDiff {
            path: self.workspace.show(self.cwd, Path::new(&change.path)),
            kind,
            added: 0,
            removed: 0,
            diff: None,
            restorable: change.before != FileState::Unknown,
        };
        let (Some(before), Some(after)) = (
            self.text(change, &change.before),
            self.text(change, &change.after),
        ) else {
            return file;
        };
        let sides = match kind {
            ChangeKind::Created => Sides::OnlyNew,
            ChangeKind::Modified => Sides::Both,
            ChangeKind::Deleted => Sides::OnlyOld,
        };
        if *room == 0 {
            return file;
        }
        let diff = unified(&file.path, sides, &before, &after);
        (file.added, file.removed) = (diff.added as u64, diff.removed as u64);
        match room.checked_sub(diff.text.len()) {
            Some(left) => {
                *room = left;
                let clean = self.redactor.redact_content(&diff.text);
                file.diff = Some(clean.unwrap_or(diff.text).into());
            }
            None => *room = 0,
        }
        file
    }

    /// The text of one side of the change; none of what is no text.
    fn text(&self, change: &FileChange, state: &FileState) -> Option<String> {
        let now = || {
            let found = look(Path::new(&change.path)).ok()?;
            same_content(&found.state, &change.after).then_some(found.bytes)?
        };
        match state {
            FileState::Absent => Some(String::new()),
            FileState::Link { target } => Some(format!("{target}\n")),
            FileState::Unknown => None,
            FileState::File { hash, .. } => {
                let bytes = (self.contents.read(hash)).or_else(|| (state == &change.after).then(now)?)?;
                Some(TextFile::decode(bytes).ok()?.text)
            }
        }
    }
}

/// What the model is told of files that were put back.
pub(super) fn note(told: &[(Standing, String)]) -> String {
    const NAMED: usize = 50;
    let mut note = String::from(
        "[The user has put files back since you last spoke; read them again before you rely on them.",
    );
    for (standing, head) in [
        (Standing::Reverted, "Your changes were taken back in"),
        (Standing::Redone, "Your changes were made again in"),
    ] {
        let mut paths: Vec<&str> = Vec::new();
        for (_, path) in told.iter().filter(|(of, _)| *of == standing) {
            if !paths.contains(&path.as_str()) {
                paths.push(path);
            }
        }
        if paths.is_empty() {
            continue;
        }
        let more = paths.len().saturating_sub(NAMED);
        paths.truncate(NAMED);
        note.push_str(&format!(" {head}: {}", paths.join(", ")));
        if more > 0 {
            note.push_str(&format!(" and {more} more"));
        }
        note.push('.');
    }
    note.push(']');
    note
}
