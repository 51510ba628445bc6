//! Reverts the files of a turn and of all later ones (R-SESS-3), except those that people changed since.
//!
//! The current content is stored and written down first, so that a kill in the middle loses nothing. The same revert
//! then continues where it stopped, and its redo takes back as much as was done. What state a file should have is
//! decided in `workspace::checkpoint`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::actor::Actor;
use super::checkpoints::is_of;
use super::command::{CommandError, RevertReply};
use super::content_reader::ContentReader;
use super::load::{all_stored, to_command_error};
use crate::base::CancellationToken;
use crate::base::spawn::run_blocking;
use crate::domain::{
    ChangeKind, ChangeState, Event, FileChange, FileDiff, FileState, ToolCallId, TurnDiff, TurnId,
};
use crate::store::{StoreError, StoreWrite};
use crate::tool::restore::{Current, read_current_file, restore_file};
use crate::tool::{NoCheckpoints, NoSpawner, NoUser, ToolContext};
use crate::workspace::checkpoint::{
    self, DesiredState, FoundFile, RestoreVerdict, collect_desired_states, same_content,
};

/// The files that the event lists.
const LISTED: usize = 300;

/// The files that are restored under one set of locks.
const AT_ONCE: usize = 200;

/// A file to restore.
struct RevertItem {
    path: PathBuf,
    /// Its current state; the content is stored.
    from: FileState,
    to: FileState,
    /// It is open in the editor.
    open: bool,
    unsaved: bool,
}

impl RevertItem {
    fn to_file_change(&self) -> FileChange {
        FileChange {
            path: self.path.display().to_string(),
            before: self.from.clone(),
            after: self.to.clone(),
        }
    }
}

#[derive(Default)]
struct RevertPlan {
    items: Vec<RevertItem>,
    /// What an earlier, interrupted revert of the same turn has restored and is still in place.
    earlier: Vec<FileChange>,
    conflicts: Vec<(String, String)>,
}

impl Actor {
    /// Reverts the files of `turn` and of later ones, or with `redo` takes the last such revert back.
    pub(super) async fn revert_turn(
        &mut self,
        turn: &TurnId,
        dry_run: bool,
        redo: bool,
    ) -> Result<RevertReply, CommandError> {
        // R-SESS-3: a running turn would change the files meanwhile, so a revert is refused until it has ended.
        self.may_start().await?;
        // Changes that only memory has would be missing from the revert.
        all_stored(self.flush().await.map_err(to_command_error)?)?;
        let reader = self.services.store.reader.clone();
        let turns = reader.list_turns(&self.info.id).await.map_err(to_command_error)?;
        let changes = reader
            .read_changes(&self.info.id)
            .await
            .map_err(to_command_error)?;
        let first = turns.iter().position(|known| known == turn);
        let turns = &turns[first.ok_or_else(|| CommandError::UnknownTurn(turn.clone()))?..];
        let cause = format!("revert of {turn}");
        let wanted: Vec<(usize, &FileChange)> = if redo {
            let reverted = changes.iter().filter(|(of, _)| *of == cause);
            reverted.map(|(_, change)| (0, change)).collect()
        } else {
            let place = |of: &str| turns.iter().position(|turn| is_of(of, turn));
            let mut wanted: Vec<_> = changes
                .iter()
                .filter_map(|(of, change)| Some((place(of)?, change)))
                .collect();
            wanted.sort_by_key(|(place, _)| *place);
            wanted
        };
        if redo && wanted.is_empty() {
            return Err(CommandError::NothingToRedo(turn.clone()));
        }
        let wishes = collect_desired_states(wanted.iter().map(|(_, change)| *change));
        let concerned: Vec<TurnId> = if redo {
            vec![turn.clone()]
        } else {
            let mut places: Vec<usize> = wanted.iter().map(|(place, _)| *place).collect();
            places.dedup();
            places.into_iter().map(|place| turns[place].clone()).collect()
        };
        // The part that an interrupted revert has done is recorded again, so that one redo takes back everything.
        let earlier: HashMap<String, FileChange> = if redo {
            HashMap::new()
        } else {
            let same = changes.iter().filter(|(of, _)| *of == cause);
            same.map(|(_, change)| (change.path.clone(), change.clone()))
                .collect()
        };
        let cx = self.revert_context();
        let plan = self.plan_revert(&cx, wishes, earlier, !dry_run).await?;
        if dry_run {
            return Ok(self.record_revert(concerned, &plan.items, plan.conflicts));
        }
        // By now the current content is stored. Write the plan down before anything is changed.
        if !plan.items.is_empty() {
            let changes = plan
                .items
                .iter()
                .map(RevertItem::to_file_change)
                .chain(plan.earlier.iter().cloned());
            self.store_changes(&cause, changes.collect()).await?;
        }
        let (done, conflicts) = self.restore_files(&cx, plan).await;
        let standing = if redo {
            ChangeState::Redone
        } else {
            ChangeState::Reverted
        };
        let reply = self.record_revert(concerned, &done, conflicts);
        if !reply.files.is_empty() {
            self.services.totals.reverts.add(1);
            self.metrics.reverts += 1;
            self.record_revert_diff(turn, standing, &reply);
            // A complete redo leaves nothing to redo.
            if redo && reply.conflicts.is_empty() {
                self.store_changes(&cause, Vec::new()).await?;
            }
            self.flush().await.map_err(to_command_error)?;
        }
        Ok(reply)
    }

    async fn plan_revert(
        &mut self,
        cx: &ToolContext,
        wishes: Vec<DesiredState>,
        mut earlier: HashMap<String, FileChange>,
        keep: bool,
    ) -> Result<RevertPlan, CommandError> {
        let (cx, contents) = (cx.clone(), ContentReader::new(&self.services, &self.info.id));
        let planned = run_blocking(move || {
            let mut plan = RevertPlan::default();
            let mut add = |plan: &mut RevertPlan, wish: DesiredState, now: Result<Current, String>| match now
                .and_then(|now| plan_revert_item(&cx, &wish, now, &contents, keep))
            {
                Ok(Some(item)) => plan.items.push(item),
                Ok(None) => plan.earlier.extend(earlier.remove(&wish.path)),
                Err(why) => plan.conflicts.push((wish.path, why)),
            };
            // Paths at which a folder is now, to be judged when all planned deletions are known.
            let mut in_the_way = Vec::new();
            for wish in wishes {
                match read_current_file(&cx, Path::new(&wish.path)) {
                    Ok(Current::Disk(FoundFile {
                        state: FileState::Unknown,
                        ..
                    })) => in_the_way.push(wish),
                    now => add(&mut plan, wish, now),
                }
            }
            // A folder that only contains files to be deleted is no obstacle.
            let going: HashSet<PathBuf> = (plan.items.iter())
                .filter(|item| item.to == FileState::Absent)
                .map(|item| item.path.clone())
                .collect();
            for wish in in_the_way {
                let now = judge_folder_in_the_way(Path::new(&wish.path), &going);
                add(&mut plan, wish, now);
            }
            // Deletions first, so that a folder is empty when a file must take its place.
            plan.items.sort_by(|a, b| {
                (a.to != FileState::Absent, &a.path).cmp(&(b.to != FileState::Absent, &b.path))
            });
            plan
        });
        planned.await.map_err(|_| to_command_error(StoreError::Closed))
    }

    async fn store_changes(&mut self, cause: &str, changes: Vec<FileChange>) -> Result<(), CommandError> {
        let (done, stored) = oneshot::channel();
        let write = StoreWrite::Changes {
            session: self.info.id.clone(),
            cause: cause.to_owned(),
            replaces_earlier: true,
            changes,
            done,
        };
        self.services
            .store
            .writes
            .send(write)
            .await
            .map_err(to_command_error)?;
        stored.await.map_err(|_| to_command_error(StoreError::Closed))
    }

    /// Restores the files, those that are open through the editor. Files that changed meanwhile are left alone.
    async fn restore_files(
        &mut self,
        cx: &ToolContext,
        plan: RevertPlan,
    ) -> (Vec<RevertItem>, Vec<(String, String)>) {
        let RevertPlan {
            items,
            earlier: _,
            mut conflicts,
        } = plan;
        let contents = ContentReader::new(&self.services, &self.info.id);
        let (open, closed): (Vec<RevertItem>, Vec<RevertItem>) =
            items.into_iter().partition(|item| item.open);
        let mut done = Vec::new();
        let mut closed = closed.into_iter();
        loop {
            let some: Vec<RevertItem> = closed.by_ref().take(AT_ONCE).collect();
            if some.is_empty() {
                break;
            }
            // In the order of their names, as every other multi-file operation locks them; otherwise two could
            // deadlock.
            let paths: BTreeSet<PathBuf> = some.iter().map(|item| item.path.clone()).collect();
            let mut only_writer = Vec::new();
            for path in &paths {
                only_writer.push(cx.workspace.lock(path).await);
            }
            let contents = contents.clone();
            let put = run_blocking(move || {
                some.into_iter()
                    .map(|item| (restore_on_disk(&item, &contents), item))
                    .collect::<Vec<_>>()
            });
            for (outcome, item) in put.await.unwrap_or_default() {
                match outcome {
                    Ok(()) => done.push(item),
                    Err(why) => conflicts.push((item.path.display().to_string(), why)),
                }
            }
        }
        for item in open {
            match restore_in_editor(cx, &item, &contents).await {
                Ok(()) => done.push(item),
                Err(why) => conflicts.push((item.path.display().to_string(), why)),
            }
        }
        (done, conflicts)
    }

    fn record_revert(
        &mut self,
        turns: Vec<TurnId>,
        items: &[RevertItem],
        conflicts: Vec<(String, String)>,
    ) -> RevertReply {
        let (workspace, cwd) = (self.session_workspace(), self.info.cwd.clone());
        let shown = |path: &Path| workspace.format_for_model(&cwd, path);
        let file = |item: &RevertItem| {
            let kind = match (&item.from, &item.to) {
                (FileState::Absent, _) => ChangeKind::Created,
                (_, FileState::Absent) => ChangeKind::Deleted,
                _ => ChangeKind::Modified,
            };
            (item.path.display().to_string(), shown(&item.path), kind)
        };
        let conflict = |(path, why): (String, String)| {
            let shown = shown(Path::new(&path));
            (path, shown, why)
        };
        let mut files: Vec<_> = items.iter().map(file).collect();
        let mut conflicts: Vec<_> = conflicts.into_iter().map(conflict).collect();
        files.sort_by(|a, b| a.0.cmp(&b.0));
        conflicts.sort_by(|a, b| a.0.cmp(&b.0));
        RevertReply {
            turns,
            files,
            conflicts,
        }
    }

    fn record_revert_diff(&mut self, turn: &TurnId, standing: ChangeState, reply: &RevertReply) {
        let file = |(_, path, kind): &(String, String, ChangeKind)| FileDiff {
            path: path.clone(),
            kind: *kind,
            added: 0,
            removed: 0,
            diff: None,
            restorable: true,
        };
        let diff = TurnDiff {
            turn: turn.clone(),
            state: standing,
            files: reply.files.iter().take(LISTED).map(file).collect(),
            unlisted: reply.files.len().saturating_sub(LISTED) as u64,
            partial: false,
        };
        self.record_in_turn(
            None,
            Event::TurnDiff(Arc::new(diff)),
            None,
            Vec::new(),
            Vec::new(),
            None,
        );
    }

    fn revert_context(&mut self) -> ToolContext {
        let workspace = self.session_workspace();
        ToolContext {
            session: self.info.id.clone(),
            call: ToolCallId::new_random(),
            cwd: self.info.cwd.clone(),
            workspace,
            skills: Arc::default(),
            editor: self.services.editor.clone(),
            asker: Arc::new(NoUser),
            spawner: Arc::new(NoSpawner),
            cancel: CancellationToken::new(),
            force_cancel: CancellationToken::new(),
            time_limit: None,
            progress: mpsc::channel(1).0,
            content_sink: self.content_sink(),
            checkpoints: Arc::new(NoCheckpoints),
            allows_uncheckpointed: true,
            judged: None,
        }
    }
}

/// Returns an absent file if the folder at `path` contains only files to be deleted.
fn judge_folder_in_the_way(path: &Path, going: &HashSet<PathBuf>) -> Result<Current, String> {
    let below = checkpoint::files_below(path, going.len()).map_err(|error| error.to_string())?;
    match below {
        Some(files) if files.iter().all(|file| going.contains(file)) => Ok(Current::Disk(FoundFile {
            state: FileState::Absent,
            bytes: None,
        })),
        Some(_) => Err(checkpoint::FOLDER_IN_THE_WAY.to_owned()),
        None => Err("it is no longer a file".to_owned()),
    }
}

/// Plans one file whose current state is `now`. Returns `None` if nothing is to be done. With `keep`, stores the
/// current content.
fn plan_revert_item(
    cx: &ToolContext,
    wish: &DesiredState,
    now: Current,
    contents: &ContentReader,
    keep: bool,
) -> Result<Option<RevertItem>, String> {
    let path = PathBuf::from(&wish.path);
    // A file that is not text is judged by the disk, unless it was changed in the editor, which alone knows its
    // encoding.
    let now = match &now {
        Current::Shown(..) => {
            let on_disk = |state: &FileState| now.is_in_state(state, |_| None);
            let bytes = on_disk(&wish.to) || wish.known.iter().any(on_disk);
            now.resolve_shown(!bytes)
        }
        Current::Disk(_) | Current::Unsaved(_) => now,
    };
    let is = |state: &FileState| now.is_in_state(state, |hash| contents.read(hash));
    let exactly = match (&now, &wish.to) {
        (Current::Disk(found), FileState::File { mode, .. }) => {
            *mode == 0 || matches!(&found.state, FileState::File { mode: has, .. } if has == mode)
        }
        _ => true,
    };
    match wish.evaluate_restore(is, exactly) {
        RestoreVerdict::Done => return Ok(None),
        RestoreVerdict::Conflict(why) => return Err(why.to_owned()),
        RestoreVerdict::PutBack => {}
    }
    if let FileState::File { hash, .. } = &wish.to
        && contents.read(hash).is_none()
    {
        return Err("its old content was not kept".to_owned());
    }
    if keep && let Some(bytes) = now.bytes() {
        (contents.store_content(bytes))
            .map_err(|error| format!("its current content could not be kept: {error}"))?;
    }
    Ok(Some(RevertItem {
        open: cx.workspace.overlay().find_open_document(&path).is_some(),
        unsaved: matches!(now, Current::Unsaved(_)),
        from: now.to_file_state(),
        to: wish.to.clone(),
        path,
    }))
}

fn restore_on_disk(item: &RevertItem, contents: &ContentReader) -> Result<(), String> {
    // Checked again under the lock: the file may have changed since it was planned.
    let now = checkpoint::inspect_file(&item.path).map_err(|error| error.to_string())?;
    if !same_content(&now.state, &item.from) {
        return Err("it has just changed".to_owned());
    }
    let bytes = match &item.to {
        FileState::File { hash, .. } => contents.read(hash),
        FileState::Absent | FileState::Link { .. } | FileState::Unknown => None,
    };
    checkpoint::restore_file_state(&item.path, &item.to, bytes.as_deref())
}

async fn restore_in_editor(
    cx: &ToolContext,
    item: &RevertItem,
    contents: &ContentReader,
) -> Result<(), String> {
    let (contents, to, path) = (contents.clone(), item.to.clone(), item.path.clone());
    let unsaved = item.unsaved;
    let looked = {
        let cx = cx.clone();
        run_blocking(move || {
            let bytes = match &to {
                FileState::File { hash, .. } => contents.read(hash),
                FileState::Absent | FileState::Link { .. } | FileState::Unknown => None,
            };
            Ok::<_, String>((read_current_file(&cx, &path)?.resolve_shown(unsaved), bytes))
        })
    };
    let (now, bytes) = looked.await.map_err(|error| error.to_string())??;
    let same = now.to_file_state() == item.from && matches!(now, Current::Unsaved(_)) == unsaved;
    if !same {
        return Err("it has just changed".to_owned());
    }
    restore_file(cx, &item.path, now, item.to.clone(), bytes).await
}
