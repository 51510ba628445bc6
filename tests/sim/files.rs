//! The simulated workspace's files: real ones, so that what is kept, recorded and put back is what it is. Tools and a
//! user write them; every content is written once only, so that one look tells whose it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::world::World;
use agentls::base::hash;
use agentls::domain::{FileChange, FileState, SessionId, ToolCallId};
use agentls::tool::ToolContext;
use agentls::workspace::checkpoint::{FoundFile, inspect_file};

/// The files that there may be.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// What is at each path; none where nothing is.
pub(super) type Contents = BTreeMap<PathBuf, Option<String>>;

/// What was written.
pub(super) struct WrittenFiles {
    folder: PathBuf,
    known: Mutex<KnownContents>,
}

/// See [`WrittenFiles`].
#[derive(Default)]
pub(super) struct KnownContents {
    /// Whatever was ever written.
    pub(super) written: BTreeSet<String>,
    /// What sessions have recorded to have seen or made, hashes.
    pub(super) recorded: BTreeMap<SessionId, BTreeSet<String>>,
    /// What calls of tools have changed, in order.
    pub(super) changed: Vec<(SessionId, ToolCallId, FileChange)>,
    /// Grows with everything that may write.
    pub(super) moves: u64,
}

impl WrittenFiles {
    /// In the folder, which is there.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            known: Mutex::default(),
        }
    }

    pub(super) fn lock_known(&self) -> MutexGuard<'_, KnownContents> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is there now.
    pub(super) fn current_contents(&self) -> Contents {
        let read = |name| {
            let path = self.folder.join(name);
            let text = fs::read_to_string(&path).ok();
            (path, text)
        };
        NAMES.into_iter().map(read).collect()
    }

    /// One of them.
    fn pick_path(&self, world: &World) -> PathBuf {
        self.folder.join(world.rng.pick_one(&NAMES))
    }

    fn write(&self, path: &Path, content: Option<&str>) {
        let mut known = self.lock_known();
        known.moves += 1;
        known.written.extend(content.map(str::to_owned));
        // A disk that fails here is no disk of the simulated ones.
        let _ = match content {
            Some(content) => fs::write(path, content),
            None => fs::remove_file(path),
        };
    }
}

/// A user writes a file, or deletes it.
pub(super) fn person_writes(world: &World) {
    let path = world.files.pick_path(world);
    let content = format!("a person's {}", world.rng.next_u64());
    let content = world.rng.chance(850).then_some(content);
    world
        .lock_checker()
        .log_line(format!("a person writes {content:?}"));
    world.files.write(&path, content.as_deref());
}

/// A tool changes a file as `edit_file` does: kept and recorded before it is made, left alone if somebody was faster.
pub(super) async fn tool_writes(world: &Arc<World>, cx: &ToolContext) {
    let path = world.files.pick_path(world);
    let _only_writer = cx.workspace.lock(&path).await;
    let Ok(before) = inspect_file(&path) else { return };
    let content = format!("{} {}", cx.call, world.rng.next_u64());
    let content = world.rng.chance(850).then_some(content);
    let after = match &content {
        Some(text) => agentls::workspace::checkpoint::regular_file_state(text.as_bytes(), 0o644),
        None => FileState::Absent,
    };
    let change = FileChange {
        path: path.display().to_string(),
        before: before.state.clone(),
        after,
    };
    let kept = [before.bytes.as_deref(), content.as_deref().map(str::as_bytes)];
    if kept
        .into_iter()
        .flatten()
        .any(|bytes| cx.checkpoints.store_content(bytes).is_err())
    {
        return;
    }
    record_change(world, cx, &before, content.as_deref());
    if cx.checkpoints.record_changes(vec![change.clone()]).await.is_err() {
        return;
    }
    let same = inspect_file(&path).is_ok_and(|now| now.state == before.state);
    if same && !agentls::base::sim_schedule::is_frozen() {
        world
            .lock_checker()
            .log_line(format!("{} writes {content:?}", cx.call));
        world.files.write(&path, content.as_deref());
        let made = (cx.session.clone(), cx.call.clone(), change);
        world.files.lock_known().changed.push(made);
    }
}

fn record_change(world: &World, cx: &ToolContext, before: &FoundFile, after: Option<&str>) {
    let mut known = world.files.lock_known();
    let recorded = known.recorded.entry(cx.session.clone()).or_default();
    recorded.extend(before.bytes.as_deref().map(hash::sha256));
    recorded.extend(after.map(|text| hash::sha256(text.as_bytes())));
}
