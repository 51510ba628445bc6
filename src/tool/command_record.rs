//! Records what commands change: when they end, and while they run, before another call changes more.
//!
//! A revert follows the records back to the first state of a file. A call that begins in the middle of a command would
//! otherwise take what the command has written for the person's work. Must not fail a call: what cannot be recorded is
//! logged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use super::command_snapshot::{self, FilesBefore, find_changes};
use super::{ToolContext, ToolError};
use crate::base::spawn::run_blocking;
use crate::domain::FileChange;
use crate::workspace::git_traces::GitTraces;
use crate::workspace::running_commands::SharedBase;
use crate::workspace::watch::WatchedTree;

/// A command whose changes will be recorded.
pub struct RecordedCommand {
    base: Arc<SharedBase>,
    git_traces: Arc<GitTraces>,
}

impl RecordedCommand {
    /// Takes a snapshot, and records what the commands that run already have changed so far. Returns that, too. `text` is the
    /// command's, which starts in `folder`.
    pub async fn begin(cx: &ToolContext, text: String, folder: PathBuf) -> Option<(Self, Vec<FileChange>)> {
        let running = cx.workspace.running_commands();
        let _recording = running.lock_recording().await;
        let FilesBefore { mut base, git_traces } = command_snapshot::snapshot_files(cx, text, folder).await?;
        let settled = settle_at(cx, running.list(), &base.watched, false).await;
        // What others have left is known now, too.
        base.known = cx.workspace.known_files().copy_states();
        let command = Self {
            base: running.add(base),
            git_traces,
        };
        Some((command, settled.unwrap_or_default()))
    }

    /// Notes what the command has left in git's folders, and removes the locks of a git that was stopped with it.
    pub async fn note_git_traces(&self, cx: &ToolContext, was_stopped: bool) -> Vec<String> {
        command_snapshot::note_git_traces(cx, self.git_traces.clone(), was_stopped).await
    }

    /// Compares with the snapshot and records what the command changed. Returns it; `None` if it could not be stored.
    pub async fn record_changes(self, cx: &ToolContext) -> Option<Vec<FileChange>> {
        let _recording = cx.workspace.running_commands().lock_recording().await;
        settle_now(cx, vec![self.base], true).await
    }
}

/// A file that only one call writes.
pub struct WriteClaim<'a> {
    cx: &'a ToolContext,
    path: PathBuf,
    /// The number of the write that was announced.
    announced: u64,
    _only_writer: OwnedMutexGuard<()>,
}

impl<'a> WriteClaim<'a> {
    /// Waits until no other call writes the resolved `path`. Hold the claim while reading, changing, and writing the file.
    /// Returns what running commands have changed until now, too.
    ///
    /// # Errors
    /// [`ToolError::Cancelled`].
    pub async fn take(cx: &'a ToolContext, path: &Path) -> Result<(Self, Vec<FileChange>), ToolError> {
        let take = async {
            let only_writer = cx.workspace.lock_unannounced(path).await;
            let settled = settle_running_commands(cx).await;
            let claim = Self {
                cx,
                path: path.to_owned(),
                announced: cx.workspace.announce_write(path),
                _only_writer: only_writer,
            };
            (claim, settled.unwrap_or_default())
        };
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => Err(ToolError::Cancelled),
            claim = take => Ok(claim),
        }
    }

    /// Records what running commands have changed until now, after the file was written: what they make of it later is
    /// theirs. Returns what was recorded; `None` if it could not be stored.
    pub async fn settle(&self) -> Option<Vec<FileChange>> {
        let settled = settle_running_commands(self.cx).await?;
        let running = self.cx.workspace.running_commands();
        running.forget_external_write(&self.path, self.announced);
        Some(settled)
    }
}

/// Records what the running commands of the session have changed so far.
async fn settle_running_commands(cx: &ToolContext) -> Option<Vec<FileChange>> {
    let running = cx.workspace.running_commands();
    if running.list().is_empty() {
        return Some(Vec::new());
    }
    let _recording = running.lock_recording().await;
    settle_now(cx, running.list(), false).await
}

async fn settle_now(
    cx: &ToolContext,
    commands: Vec<Arc<SharedBase>>,
    is_last: bool,
) -> Option<Vec<FileChange>> {
    let inner = cx.clone();
    let look = move || inner.workspace.live_tree(&inner.cwd).take_snapshot();
    let now = run_blocking(look).await.ok()?;
    settle_at(cx, commands, &now, is_last).await
}

/// Records what the commands have changed until `now`, at their end if it is the last time. The caller holds the lock for
/// recording.
async fn settle_at(
    cx: &ToolContext,
    commands: Vec<Arc<SharedBase>>,
    now: &WatchedTree,
    is_last: bool,
) -> Option<Vec<FileChange>> {
    let mut recorded = Some(Vec::new());
    for command in commands {
        let base = command.lock().clone();
        let Some((changes, next)) = find_changes(cx, base, now, is_last).await else {
            recorded = None;
            continue;
        };
        if !changes.is_empty()
            && let Err(reason) = cx.checkpoints.record_changes(changes.clone()).await
        {
            // The command has run; a failed record must not make its result an error.
            tracing::warn!(reason, "what a command changed was not recorded");
            recorded = None;
            continue;
        }
        // Only now: if this call is canceled before, the next one compares from the same base again.
        *command.lock() = next;
        if let Some(recorded) = &mut recorded {
            recorded.extend(changes);
        }
    }
    recorded
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::sync::{Mutex, PoisonError};

    use futures::future::BoxFuture;
    use serde_json::json;

    use super::*;
    use crate::domain::FileState;
    use crate::tool::testing::ToolHarness;
    use crate::tool::{Checkpoints, NoCheckpoints, PartialReason, RoomKind};
    use crate::workspace::checkpoint::{RestoreVerdict, collect_desired_states, inspect_file, same_content};

    /// Keeps the records in order, as the store does.
    #[derive(Debug, Default)]
    struct KeptRecords(Mutex<Vec<FileChange>>, Mutex<Vec<String>>);

    impl Checkpoints for KeptRecords {
        fn store_content(&self, bytes: &[u8]) -> Result<(), String> {
            let mut contents = self.1.lock().unwrap_or_else(PoisonError::into_inner);
            contents.push(String::from_utf8_lossy(bytes).into_owned());
            NoCheckpoints.store_content(bytes)
        }

        fn record_changes(&self, changes: Vec<FileChange>) -> BoxFuture<'static, Result<(), String>> {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(changes);
            NoCheckpoints.record_changes(Vec::new())
        }

        fn load_earlier_changes(&self) -> BoxFuture<'static, Vec<FileChange>> {
            NoCheckpoints.load_earlier_changes()
        }

        fn take_room(&self, room: RoomKind, bytes: u64) -> bool {
            NoCheckpoints.take_room(room, bytes)
        }

        fn mark_partial(&self, reason: PartialReason) {
            NoCheckpoints.mark_partial(reason);
        }
    }

    async fn begin(harness: &ToolHarness) -> (RecordedCommand, Vec<FileChange>) {
        let folder = harness.cx.cwd.clone();
        let begun = RecordedCommand::begin(&harness.cx, String::new(), folder).await;
        begun.unwrap()
    }

    /// What happens while commands run, in words: `begin 1`, `end 1`, `write a TEXT`, `remove a`, `edit a OLD NEW`.
    const OVERLAPS: [&[&str]; 8] = [
        &["begin 1", "write a x", "begin 2", "end 2", "end 1"],
        &[
            "begin 1",
            "write a x",
            "begin 2",
            "write b y",
            "end 2",
            "write a z",
            "end 1",
        ],
        &["begin 1", "write a x", "begin 2", "write a y", "end 2", "end 1"],
        &[
            "begin 1",
            "begin 2",
            "write a x",
            "end 2",
            "write a y",
            "begin 3",
            "write a z",
            "end 1",
            "end 3",
        ],
        &[
            "begin 1",
            "write new x",
            "begin 2",
            "write new y",
            "end 1",
            "remove new",
            "end 2",
        ],
        &["begin 1", "remove a", "begin 2", "write a x", "end 2", "end 1"],
        &["begin 1", "write a x", "edit a x y", "end 1"],
        &[
            "begin 1",
            "write a x",
            "write new x",
            "edit a x y",
            "write a z",
            "edit new x y",
            "end 1",
        ],
    ];

    /// A revert brings back what was there before the first of them.
    #[tokio::test]
    async fn calls_that_overlap_with_commands_can_be_reverted() {
        for steps in OVERLAPS {
            let (harness, kept) = harness_with_records();
            for name in ["a", "b"] {
                harness.write(name, "mine");
            }
            let paths = ["a", "b", "new"].map(|name| harness.path(name));
            let before = paths.clone().map(|path| inspect_file(&path).unwrap().state);
            let mut running: BTreeMap<&str, RecordedCommand> = BTreeMap::new();
            for step in steps {
                match step.split(' ').collect::<Vec<_>>()[..] {
                    ["begin", command] => {
                        let (begun, _) = begin(&harness).await;
                        running.insert(command, begun);
                    }
                    ["end", command] => {
                        let ended = running.remove(command).unwrap();
                        ended.record_changes(&harness.cx).await.unwrap();
                    }
                    ["write", name, text] => harness.write(name, text),
                    ["remove", name] => fs::remove_file(harness.path(name)).unwrap(),
                    ["edit", path, old, new] => {
                        let edits = json!({"path": path, "edits": [{"old_text": old, "new_text": new}]});
                        harness.call_tool("edit_file", edits).await.unwrap();
                    }
                    _ => panic!("{step}"),
                }
            }
            let records = kept.0.lock().unwrap();
            let desired = collect_desired_states(records.iter());
            for (path, before) in paths.iter().zip(&before) {
                let now = inspect_file(path).unwrap().state;
                let change = desired.iter().find(|desired| Path::new(&desired.path) == path);
                let Some(change) = change else {
                    assert!(same_content(&now, before), "{steps:?}: {records:?}");
                    continue;
                };
                assert!(same_content(&change.to, before), "{steps:?}: {records:?}");
                let verdict = change.evaluate_restore(|state| same_content(state, &now), true);
                assert!(
                    matches!(verdict, RestoreVerdict::PutBack | RestoreVerdict::Done),
                    "{steps:?}: {verdict:?} {records:?}"
                );
            }
        }
    }

    /// Returns the states before the changes that a harness's calls have recorded of a file.
    fn recorded_before(kept: &KeptRecords, path: &Path) -> Vec<FileState> {
        let records = kept.0.lock().unwrap();
        let of_path = records.iter().filter(|record| Path::new(&record.path) == path);
        of_path.map(|record| record.before.clone()).collect()
    }

    fn harness_with_records() -> (ToolHarness, Arc<KeptRecords>) {
        let mut harness = ToolHarness::new();
        let kept = Arc::new(KeptRecords::default());
        harness.cx.checkpoints = kept.clone();
        (harness, kept)
    }

    #[tokio::test]
    async fn no_copy_is_made_of_what_must_not_be_read() {
        let (harness, kept) = harness_with_records();
        let secrets = ["denied/notes", "data/a.txt", ".env", "id.pem"];
        for name in secrets.iter().chain(&["plain"]) {
            harness.write(name, &format!("old {name}"));
        }
        for (file, link) in [(".env", "link-of-env"), ("data/a.txt", "link-of-a")] {
            fs::hard_link(harness.path(file), harness.path(link)).unwrap();
        }
        let entries = ["denied", "data/*.txt"].map(str::to_owned);
        harness
            .cx
            .workspace
            .shared()
            .set_read_deny(&harness.cx.cwd, entries.into());
        // What the agent was allowed to read.
        harness
            .call_tool("read_file", json!({"path": ".env"}))
            .await
            .unwrap();
        let (command, _) = begin(&harness).await;
        for name in ["denied/notes", "link-of-env", "link-of-a", "id.pem", "plain"] {
            harness.write(name, &format!("new text of {name}"));
        }
        let changes = command.record_changes(&harness.cx).await.unwrap();
        let stored = kept.1.lock().unwrap().clone();
        assert_eq!(stored, ["old plain", "new text of plain"]);
        assert!(changes.len() > 5, "all are listed: {changes:?}");
    }

    /// A claim lasts while diagnostics are awaited, and a save is announced before it is written.
    #[tokio::test]
    async fn a_save_during_a_claim_stays_the_persons() {
        for is_announced_first in [true, false] {
            let (harness, kept) = harness_with_records();
            harness.write("a", "mine");
            let path = harness.path("a");
            let (command, _) = begin(&harness).await;
            let (claim, _) = WriteClaim::take(&harness.cx, &path).await.unwrap();
            harness.write("a", "edited");
            let announce = || harness.cx.workspace.external_writes().write(&path);
            if is_announced_first {
                announce();
            }
            claim.settle().await.unwrap();
            if !is_announced_first {
                announce();
            }
            harness.write("a", "saved by the person");
            drop(claim);
            command.record_changes(&harness.cx).await.unwrap();
            assert_eq!(recorded_before(&kept, &path), []);
        }
    }

    #[tokio::test]
    async fn an_ignored_file_that_is_read_meanwhile_is_not_new() {
        let (harness, kept) = harness_with_records();
        harness.write(".gitignore", "build\n");
        harness.write("build/ignored", "mine");
        let (command, _) = begin(&harness).await;
        let read = harness.call_tool("read_file", json!({"path": "build/ignored"}));
        read.await.unwrap();
        harness.write("build/ignored", "changed");
        command.record_changes(&harness.cx).await.unwrap();
        let before = recorded_before(&kept, &harness.path("build/ignored"));
        assert_eq!(before, [FileState::Unknown]);
    }
}
