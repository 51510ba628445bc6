//! What a command made of the workspace's files (R-SESS-3), found by size and time. Taken back can be what is known as it
//! was: what this session has read or written before, and what is new.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{ToolContext, Unseen};
use crate::domain::{FileChange, FileState};
use crate::workspace::checkpoint::{self, MAX_WATCHED, Stamp, Watched};

/// Contents that a command left are kept up to this length, in bytes, for the diff.
const KEPT_AFTER: u64 = 1 << 20;

/// Looks at the files before the command, and keeps those that the session knows.
pub(super) async fn before(cx: &ToolContext) -> Option<Watched> {
    let inner = cx.clone();
    let watched = tokio::task::spawn_blocking(move || {
        let watched = watch(&inner);
        let workspace = &inner.workspace;
        let known: BTreeSet<PathBuf> = workspace.reads().paths().into_iter().collect();
        for path in known.into_iter().chain(workspace.known().paths()) {
            if let Some(stamp) = watched.stamp(&path)
                && workspace.known().get(&path, stamp).is_none()
            {
                keep(&inner, &path, stamp);
            }
        }
        watched
    });
    // What panicked has been told of; the command runs all the same.
    watched.await.ok()
}

/// Records what the command has changed.
pub(super) async fn after(cx: &ToolContext, before: Option<Watched>) {
    let Some(before) = before else { return };
    let inner = cx.clone();
    let changes = tokio::task::spawn_blocking(move || {
        let now = watch(&inner);
        if before.partial || now.partial {
            inner.checkpoints.partial(Unseen::TooMany);
        }
        let changed = before.changed(&now);
        changed
            .into_iter()
            .filter_map(|(path, was)| change(&inner, &path, was))
            .collect::<Vec<_>>()
    });
    if let Ok(changes) = changes.await
        && !changes.is_empty()
        && let Err(why) = cx.checkpoints.record(changes).await
    {
        tracing::warn!(why, "what a command changed was not recorded");
    }
}

fn watch(cx: &ToolContext) -> Watched {
    let roots = cx.workspace.roots(&cx.cwd);
    checkpoint::watch(roots.iter().map(|root| root.path()), MAX_WATCHED)
}

fn keep(cx: &ToolContext, path: &Path, stamp: Stamp) -> Option<FileState> {
    let found = checkpoint::look(path).ok()?;
    if let Some(bytes) = &found.bytes {
        cx.checkpoints.keep(bytes).ok()?;
    }
    // Written while it was read, it is not what the stamp says.
    (checkpoint::stamp(path) == Some(stamp)).then(|| {
        cx.workspace.known().note(path, stamp, found.state.clone());
        found.state
    })
}

fn change(cx: &ToolContext, path: &Path, was: Option<Stamp>) -> Option<FileChange> {
    let before = match was {
        None => FileState::Absent,
        Some(stamp) => cx
            .workspace
            .known()
            .get(path, stamp)
            .unwrap_or(FileState::Unknown),
    };
    let after = match checkpoint::stamp(path) {
        None => FileState::Absent,
        Some(stamp) if stamp.bytes() <= KEPT_AFTER => keep(cx, path, stamp).unwrap_or(FileState::Unknown),
        Some(_) => checkpoint::look(path).map_or(FileState::Unknown, |found| found.state),
    };
    Some(FileChange {
        path: path.to_str()?.to_owned(),
        before,
        after,
    })
    .filter(|change| change.kind().is_some())
}
