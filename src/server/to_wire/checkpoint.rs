//! Converts the file changes of turns, and the result of a revert.

use std::path::Path;

use super::truncate::{FieldBudget, escaped_len};
use crate::base::uri::uri_of;
use crate::domain::{self, TurnDiff};
use crate::protocol::{
    ChangeKind, ChangeState, EventHeader, FileDiff, RevertConflict, RevertResult, RevertedFile,
    TurnDiffNotification,
};
use crate::session::RevertReply;

/// Bytes of escaped JSON that all diffs of one notification may take.
const DIFFS: usize = 160 << 10;

/// Converts a turn's changes. Diffs without room are left out, because the files themselves show the same.
pub(super) fn turn_diff(
    header: EventHeader,
    diff: &TurnDiff,
    cutter: &mut FieldBudget,
) -> TurnDiffNotification {
    let mut remaining = DIFFS;
    let files = cutter.fit_list(&diff.files, |cutter, _, file| {
        let visible_diff = file
            .diff
            .as_ref()
            .map(|diff| super::sanitize::readable_diff(diff));
        let visible_diff = visible_diff.filter(|diff| match remaining.checked_sub(escaped_len(diff)) {
            Some(rest) => {
                remaining = rest;
                true
            }
            None => false,
        });
        FileDiff {
            path: cutter.fit_line(&file.path),
            kind: to_change_kind(file.kind),
            added: file.added,
            removed: file.removed,
            diff: visible_diff.map(|diff| diff.to_string()),
            unrestorable: !file.restorable,
        }
    });
    let unlisted = diff.unlisted + (diff.files.len() - files.len()) as u64;
    TurnDiffNotification {
        header,
        of_turn_id: diff.turn.to_string(),
        standing: match diff.state {
            domain::ChangeState::Made => ChangeState::Made,
            domain::ChangeState::Reverted => ChangeState::Reverted,
            domain::ChangeState::Redone => ChangeState::Redone,
        },
        files,
        unlisted: (unlisted > 0).then_some(unlisted),
        partial: diff.partial,
    }
}

/// Converts the result of a revert or a redo.
pub fn to_revert_result(reply: &RevertReply) -> RevertResult {
    let file = |(path, display_path, kind): &(String, String, domain::ChangeKind)| RevertedFile {
        path: display_path.clone(),
        uri: uri_of(Path::new(path)),
        kind: to_change_kind(*kind),
    };
    let conflict = |(path, display_path, reason): &(String, String, String)| RevertConflict {
        path: display_path.clone(),
        uri: uri_of(Path::new(path)),
        why: reason.clone(),
    };
    RevertResult {
        turn_ids: reply.turns.iter().map(ToString::to_string).collect(),
        files: reply.files.iter().map(file).collect(),
        conflicts: reply.conflicts.iter().map(conflict).collect(),
    }
}

fn to_change_kind(kind: domain::ChangeKind) -> ChangeKind {
    match kind {
        domain::ChangeKind::Created => ChangeKind::Created,
        domain::ChangeKind::Modified => ChangeKind::Modified,
        domain::ChangeKind::Deleted => ChangeKind::Deleted,
    }
}
