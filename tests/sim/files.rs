//! The files of the simulated workspace. They are real files, so the simulation stores, records and restores real
//! content.
//!
//! Tools and users write them. Every content is unique, so a file's content identifies its writer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::world::World;
use agentls::base::hash;
use agentls::domain::{FileChange, FileState, SessionId, ToolCallId};
use agentls::tool::{RecordedCommand, ToolContext, WriteClaim};
use agentls::workspace::checkpoint::{FoundFile, inspect_file};

/// The names that a file can have.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// The content of each path; `None` if the file does not exist.
pub(super) type Contents = BTreeMap<PathBuf, Option<String>>;

/// The workspace's folder, and what the simulation knows about its files.
pub(super) struct WrittenFiles {
    folder: PathBuf,
    known: Mutex<KnownContents>,
}

/// The history of the files in [`WrittenFiles`], for the checker.
#[derive(Default)]
pub(super) struct KnownContents {
    /// Every content that was ever written.
    pub(super) written: BTreeSet<String>,
    /// Hashes of the contents that each session has recorded as found or written.
    pub(super) recorded: BTreeMap<SessionId, BTreeSet<String>>,
    /// The changes that tool calls made, in order.
    pub(super) changed: Vec<(SessionId, ToolCallId, FileChange)>,
    /// How many contents were drawn.
    drawn: usize,
    /// Grows with every operation that may write, so equal values prove that no file changed in between.
    pub(super) moves: u64,
}

impl WrittenFiles {
    /// Uses an existing folder.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            known: Mutex::default(),
        }
    }

    pub(super) fn lock_known(&self) -> MutexGuard<'_, KnownContents> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads the files as they are now.
    pub(super) fn current_contents(&self) -> Contents {
        let read = |name| {
            let path = self.folder.join(name);
            let text = fs::read_to_string(&path).ok();
            (path, text)
        };
        NAMES.into_iter().map(read).collect()
    }

    /// Draws a content that no file has had. Its length is unique, too: writes follow each other faster than the times of
    /// files change.
    fn draw_content(&self, world: &World, writer: &str) -> String {
        let mut known = self.lock_known();
        known.drawn += 1;
        format!("{writer} {}{}", world.rng.next_u64(), ".".repeat(known.drawn))
    }

    fn current_states(&self) -> BTreeMap<PathBuf, FileState> {
        let paths = NAMES.into_iter().map(|name| self.folder.join(name));
        paths
            .map(|path| {
                let found = inspect_file(&path).map(|found| found.state);
                (path, found.unwrap_or(FileState::Unknown))
            })
            .collect()
    }

    pub(super) fn pick_path(&self, world: &World) -> PathBuf {
        self.folder.join(world.rng.pick_one(&NAMES))
    }

    fn write(&self, path: &Path, content: Option<&str>) {
        let mut known = self.lock_known();
        known.moves += 1;
        known.written.extend(content.map(str::to_owned));
        // The simulated disk is the store's. A failure of the real one here is not part of the simulation.
        let _ = match content {
            Some(content) => fs::write(path, content),
            None => fs::remove_file(path),
        };
    }
}

/// Writes or deletes a file as a user does.
pub(super) fn write_as_user(world: &World) {
    let path = world.files.pick_path(world);
    let content = world.files.draw_content(world, "a person's");
    let content = world.rng.chance(850).then_some(content);
    world
        .lock_checker()
        .log_line(format!("a user writes {content:?}"));
    world.files.write(&path, content.as_deref());
}

/// Changes a file as `edit_file` does: it stores and records the change first, and skips it if the file has changed
/// since.
pub(super) async fn tool_writes(world: &Arc<World>, cx: &ToolContext) {
    let path = world.files.pick_path(world);
    let Ok((claim, settled)) = WriteClaim::take(cx, &path).await else {
        return;
    };
    note_records(world, cx, &settled);
    let Ok(before) = inspect_file(&path) else { return };
    let content = world.files.draw_content(world, cx.call.as_str());
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
    let contents = [before.bytes.as_deref(), content.as_deref().map(str::as_bytes)];
    if contents
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
    let is_unchanged = inspect_file(&path).is_ok_and(|now| now.state == before.state);
    if is_unchanged && !agentls::base::sim_schedule::is_frozen() {
        world
            .lock_checker()
            .log_line(format!("{} writes {content:?}", cx.call));
        world.files.write(&path, content.as_deref());
        let entry = (cx.session.clone(), cx.call.clone(), change);
        world.files.lock_known().changed.push(entry);
        let settled = claim.settle().await;
        note_records(world, cx, &settled.unwrap_or_default());
    }
}

/// Changes files as a command does, which looks at nothing before. Checks that all that was there can come back.
pub(super) async fn command_writes(world: &Arc<World>, cx: &ToolContext) {
    let cx = ToolContext {
        cwd: world.files.folder().to_owned(),
        ..cx.clone()
    };
    let work = async {
        let known = world.files.lock_known().changed.len();
        let before = world.files.current_states();
        for _ in 0..=world.rng.next_below(3) {
            if cx.cancel.is_cancelled() || agentls::base::sim_schedule::is_frozen() {
                break;
            }
            let path = world.files.pick_path(world);
            let content = world.files.draw_content(world, cx.call.as_str());
            let content = world.rng.chance(600).then_some(content);
            world
                .lock_checker()
                .log_line(format!("the command {} writes {content:?}", cx.call));
            world.files.write(&path, content.as_deref());
            agentls::base::clock::sleep(world.rng.draw_pause(1_000)).await;
        }
        (known, before, world.files.current_states())
    };
    let begun = RecordedCommand::begin(&cx, String::new(), cx.cwd.clone()).await;
    let (command, settled) = begun.map_or((None, Vec::new()), |(command, settled)| (Some(command), settled));
    note_records(world, &cx, &settled);
    let (known, before, after) = work.await;
    let Some(command) = command else { return };
    let Some(recorded) = command.record_changes(&cx).await else {
        return;
    };
    note_records(world, &cx, &recorded);
    let made = world.files.lock_known().changed[known..].to_vec();
    for (path, before) in before {
        let change = FileChange {
            path: path.display().to_string(),
            after: after[&path].clone(),
            before,
        };
        // What other sessions wrote meanwhile is theirs.
        let is_of_others = |(session, _, by): &(SessionId, ToolCallId, FileChange)| {
            *session != cx.session && by.path == change.path
        };
        if change.kind().is_none() || made.iter().any(is_of_others) {
            continue;
        }
        let of_session = made
            .iter()
            .filter(|(session, _, by)| *session == cx.session && by.path == change.path);
        let stored: Vec<FileChange> = of_session.map(|(_, _, by)| by.clone()).collect();
        world
            .lock_checker()
            .check_command_change(&cx.call, &change, &stored);
    }
}

/// Notes what was stored as made by commands. It has what people wrote meanwhile, since nobody can tell it from what a
/// command wrote.
fn note_records(world: &World, cx: &ToolContext, stored: &[FileChange]) {
    let states = stored.iter().flat_map(|change| [&change.before, &change.after]);
    let hashes = states.filter_map(|state| match state {
        FileState::File { hash, .. } => Some(hash.clone()),
        _ => None,
    });
    let mut known = world.files.lock_known();
    known
        .recorded
        .entry(cx.session.clone())
        .or_default()
        .extend(hashes);
    let entries = stored
        .iter()
        .map(|change| (cx.session.clone(), cx.call.clone(), change.clone()));
    known.changed.extend(entries);
}

fn record_change(world: &World, cx: &ToolContext, before: &FoundFile, after: Option<&str>) {
    let mut known = world.files.lock_known();
    let recorded = known.recorded.entry(cx.session.clone()).or_default();
    recorded.extend(before.bytes.as_deref().map(hash::sha256));
    recorded.extend(after.map(|text| hash::sha256(text.as_bytes())));
}
