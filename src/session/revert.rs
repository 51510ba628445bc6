//! Reverts the files of a turn and of all later ones (R-SESS-3), except those that people changed since.
//!
//! The current content is stored and written down first, so that a kill in the middle loses nothing. The same revert
//! then continues where it stopped, and its redo takes back as much as was done. What state a file should have is
//! decided in `workspace::checkpoint`. This module must not know the actor, which records what was done.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::checkpoints::is_of;
use super::command::{CommandError, RevertReply, SessionInfo};
use super::content_reader::ContentReader;
use super::services::{Services, all_stored};
use crate::base::CancellationToken;
use crate::base::spawn::run_blocking;
use crate::domain::{
    ChangeKind, ChangeState, FileChange, FileDiff, FileState, SessionId, ToolCallId, TurnDiff, TurnId,
};
use crate::store::{StoreError, StoreHealth, StoreWrite};
use crate::tool::restore::{Current, read_current_file, restore_file};
use crate::tool::{ContentSink, NoCheckpoints, NoSpawner, NoUser, ToolContext};
use crate::workspace::Workspace;
use crate::workspace::checkpoint::{
    self, DesiredState, FoundFile, RestoreVerdict, collect_desired_states, same_content,
};
use crate::workspace::command_sandbox::CallSandbox;

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

/// A revert of the files of `turn` and of later ones, or with `redo` of the last such revert.
pub(super) struct RevertRequest {
    pub(super) turn: TurnId,
    /// Only report what would be done.
    pub(super) dry_run: bool,
    pub(super) redo: bool,
    pub(super) services: Arc<Services>,
    /// The session's view of files and the editor.
    pub(super) cx: ToolContext,
    pub(super) flushed: oneshot::Receiver<StoreHealth>,
}

/// What a revert should reach.
struct RevertGoal {
    turns: Vec<TurnId>,
    states: Vec<DesiredState>,
    /// What an interrupted revert of the same turn has done, by path.
    earlier: HashMap<String, FileChange>,
}

/// Returns the key under which a revert's changes are stored.
pub(super) fn revert_cause(turn: &TurnId) -> String {
    format!("revert of {turn}")
}

/// Reverts files. R-SESS-3: a running turn would change them meanwhile, so none may run.
///
/// # Errors
/// The turn is unknown, there is nothing to redo, or the store fails.
pub(super) async fn revert_files(request: RevertRequest) -> Result<RevertReply, CommandError> {
    let RevertRequest {
        turn,
        dry_run,
        redo,
        services,
        cx,
        flushed,
    } = request;
    // Changes that only memory has would be missing from the revert.
    all_stored(flushed.await.map_err(|_| StoreError::Closed)?)?;
    let reader = &services.store.reader;
    let turns = reader.list_turns(&cx.session).await?;
    let changes = reader.read_changes(&cx.session).await?;
    let goal = find_goal(&turn, redo, &turns, &changes)?;
    let contents = ContentReader::new(&services, &cx.session);
    let plan = plan_revert(&cx, &contents, goal.states, goal.earlier, !dry_run).await?;
    if dry_run {
        return to_reply(&cx, goal.turns, plan.items, plan.conflicts).await;
    }
    // By now the current content is stored. Write the plan down before anything is changed.
    if !plan.items.is_empty() {
        let changes = plan.items.iter().map(RevertItem::to_file_change);
        let changes = changes.chain(plan.earlier.iter().cloned()).collect();
        store_changes(&services, &cx.session, revert_cause(&turn), changes).await?;
    }
    let (done, conflicts) = restore_files(&cx, &contents, plan).await;
    to_reply(&cx, goal.turns, done, conflicts).await
}

/// Returns which files a revert concerns, and what state they should have.
fn find_goal(
    turn: &TurnId,
    redo: bool,
    turns: &[TurnId],
    changes: &[(String, FileChange)],
) -> Result<RevertGoal, CommandError> {
    let first = turns.iter().position(|known| known == turn);
    let turns = &turns[first.ok_or_else(|| CommandError::UnknownTurn(turn.clone()))?..];
    let cause = revert_cause(turn);
    let reverted = changes.iter().filter(|(of, _)| *of == cause);
    if redo {
        let wanted: Vec<&FileChange> = reverted.map(|(_, change)| change).collect();
        if wanted.is_empty() {
            return Err(CommandError::NothingToRedo(turn.clone()));
        }
        return Ok(RevertGoal {
            turns: vec![turn.clone()],
            states: collect_desired_states(wanted),
            earlier: HashMap::new(),
        });
    }
    let turn_index = |of: &str| turns.iter().position(|turn| is_of(of, turn));
    let wanted = changes.iter();
    let mut wanted: Vec<(usize, &FileChange)> = wanted
        .filter_map(|(of, change)| Some((turn_index(of)?, change)))
        .collect();
    wanted.sort_by_key(|(index, _)| *index);
    let mut places: Vec<usize> = wanted.iter().map(|(index, _)| *index).collect();
    places.dedup();
    Ok(RevertGoal {
        turns: places.into_iter().map(|index| turns[index].clone()).collect(),
        states: collect_desired_states(wanted.iter().map(|(_, change)| *change)),
        // The part that an interrupted revert has done is recorded again, so that one redo takes back everything.
        earlier: reverted
            .map(|(_, change)| (change.path.clone(), change.clone()))
            .collect(),
    })
}

async fn plan_revert(
    cx: &ToolContext,
    contents: &ContentReader,
    desired_states: Vec<DesiredState>,
    mut earlier: HashMap<String, FileChange>,
    keep: bool,
) -> Result<RevertPlan, CommandError> {
    let (cx, contents) = (cx.clone(), contents.clone());
    let planned = run_blocking(move || {
        let mut plan = RevertPlan::default();
        let mut add = |plan: &mut RevertPlan, desired: DesiredState, now: Result<Current, String>| match now
            .and_then(|now| plan_revert_item(&cx, &desired, now, &contents, keep))
        {
            Ok(Some(item)) => plan.items.push(item),
            Ok(None) => plan.earlier.extend(earlier.remove(&desired.path)),
            Err(reason) => plan.conflicts.push((desired.path, reason)),
        };
        // Paths at which a folder is now, to be judged when all planned deletions are known.
        let mut in_the_way = Vec::new();
        for desired in desired_states {
            match read_current_file(&cx, Path::new(&desired.path)) {
                Ok(Current::Disk(FoundFile {
                    state: FileState::Unknown,
                    ..
                })) => in_the_way.push(desired),
                now => add(&mut plan, desired, now),
            }
        }
        // A folder that contains only files to be deleted does not block.
        let going: HashSet<PathBuf> = (plan.items.iter())
            .filter(|item| item.to == FileState::Absent)
            .map(|item| item.path.clone())
            .collect();
        for desired in in_the_way {
            let now = judge_folder_in_the_way(Path::new(&desired.path), &going);
            add(&mut plan, desired, now);
        }
        // Deletions first, so that a folder is empty when a file must take its place.
        plan.items
            .sort_by(|a, b| (a.to != FileState::Absent, &a.path).cmp(&(b.to != FileState::Absent, &b.path)));
        plan
    });
    planned.await.map_err(|_| StoreError::Closed.into())
}

async fn store_changes(
    services: &Services,
    session: &SessionId,
    cause: String,
    changes: Vec<FileChange>,
) -> Result<(), CommandError> {
    let (done, stored) = oneshot::channel();
    let write = StoreWrite::Changes {
        session: session.clone(),
        cause,
        replaces_earlier: true,
        changes,
        done,
    };
    services.store.writes.send(write).await?;
    stored.await.map_err(|_| StoreError::Closed.into())
}

/// Restores the files, those that are open through the editor. Files that changed meanwhile are left alone.
async fn restore_files(
    cx: &ToolContext,
    contents: &ContentReader,
    plan: RevertPlan,
) -> (Vec<RevertItem>, Vec<(String, String)>) {
    let RevertPlan {
        items,
        earlier: _,
        mut conflicts,
    } = plan;
    let (open, closed): (Vec<RevertItem>, Vec<RevertItem>) = items.into_iter().partition(|item| item.open);
    let mut done = Vec::new();
    let mut closed = closed.into_iter();
    loop {
        let some: Vec<RevertItem> = closed.by_ref().take(AT_ONCE).collect();
        if some.is_empty() {
            break;
        }
        // In the order of their names, as every other multi-file operation locks them; otherwise two could deadlock.
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
                Err(reason) => conflicts.push((item.path.display().to_string(), reason)),
            }
        }
    }
    for item in open {
        match restore_in_editor(cx, &item, contents).await {
            Ok(()) => done.push(item),
            Err(reason) => conflicts.push((item.path.display().to_string(), reason)),
        }
    }
    (done, conflicts)
}

/// Describes what was done, with paths as the model sees them.
async fn to_reply(
    cx: &ToolContext,
    turns: Vec<TurnId>,
    items: Vec<RevertItem>,
    conflicts: Vec<(String, String)>,
) -> Result<RevertReply, CommandError> {
    let cx = cx.clone();
    let described = run_blocking(move || {
        let format_path = |path: &Path| cx.workspace.format_for_model(&cx.cwd, path);
        let file = |item: &RevertItem| {
            let kind = match (&item.from, &item.to) {
                (FileState::Absent, _) => ChangeKind::Created,
                (_, FileState::Absent) => ChangeKind::Deleted,
                _ => ChangeKind::Modified,
            };
            (item.path.display().to_string(), format_path(&item.path), kind)
        };
        let conflict = |(path, reason): (String, String)| {
            let display_path = format_path(Path::new(&path));
            (path, display_path, reason)
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
    });
    described.await.map_err(|_| StoreError::Closed.into())
}

/// Returns the event's list of the files that a revert has restored.
pub(super) fn to_revert_diff(turn: &TurnId, state: ChangeState, reply: &RevertReply) -> TurnDiff {
    let file = |(_, path, kind): &(String, String, ChangeKind)| FileDiff {
        path: path.clone(),
        kind: *kind,
        added: 0,
        removed: 0,
        diff: None,
        restorable: true,
    };
    TurnDiff {
        turn: turn.clone(),
        state,
        files: reply.files.iter().take(LISTED).map(file).collect(),
        unlisted: reply.files.len().saturating_sub(LISTED) as u64,
        partial: false,
    }
}

/// Builds the context of a session's own file operations, which no turn and no user takes part in.
pub(super) fn revert_context(
    services: &Services,
    info: &SessionInfo,
    workspace: Arc<Workspace>,
    content_sink: Arc<dyn ContentSink>,
) -> ToolContext {
    ToolContext {
        session: info.id.clone(),
        call: ToolCallId::new_random(),
        cwd: info.cwd.clone(),
        workspace,
        skills: Arc::default(),
        editor: services.editor.clone(),
        asker: Arc::new(NoUser),
        spawner: Arc::new(NoSpawner),
        model: None,
        cancel: CancellationToken::new(),
        force_cancel: CancellationToken::new(),
        time_limit: None,
        progress: mpsc::channel(1).0,
        content_sink,
        checkpoints: Arc::new(NoCheckpoints),
        new_errors_wait: None,
        allows_uncheckpointed: true,
        is_carried: false,
        judged: None,
        narrowed: None,
        sandbox: CallSandbox::default(),
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
    desired: &DesiredState,
    now: Current,
    contents: &ContentReader,
    keep: bool,
) -> Result<Option<RevertItem>, String> {
    let path = PathBuf::from(&desired.path);
    // A file that is not text is judged by the disk, unless it was changed in the editor, which alone knows its
    // encoding.
    let now = match &now {
        Current::Shown(..) => {
            let on_disk = |state: &FileState| now.is_in_state(state, |_| None);
            let bytes = on_disk(&desired.to) || desired.known.iter().any(on_disk);
            now.resolve_display(!bytes)
        }
        Current::Disk(_) | Current::Unsaved(_) => now,
    };
    let is = |state: &FileState| now.is_in_state(state, |hash| contents.read(hash));
    let exactly = match (&now, &desired.to) {
        (Current::Disk(found), FileState::File { mode, .. }) => {
            *mode == 0 || matches!(&found.state, FileState::File { mode: has, .. } if has == mode)
        }
        _ => true,
    };
    match desired.evaluate_restore(is, exactly) {
        RestoreVerdict::Done => return Ok(None),
        RestoreVerdict::Conflict(reason) => return Err(reason.to_owned()),
        RestoreVerdict::PutBack => {}
    }
    if let FileState::File { hash, .. } = &desired.to
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
        to: desired.to.clone(),
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
            Ok::<_, String>((read_current_file(&cx, &path)?.resolve_display(unsaved), bytes))
        })
    };
    let (now, bytes) = looked.await.map_err(|error| error.to_string())??;
    let same = now.to_file_state() == item.from && matches!(now, Current::Unsaved(_)) == unsaved;
    if !same {
        return Err("it has just changed".to_owned());
    }
    restore_file(cx, &item.path, now, item.to.clone(), bytes).await
}
