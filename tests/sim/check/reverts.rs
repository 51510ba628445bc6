//! Files that are put back (R-SESS-3): what a user wrote is never lost by it, what it says it did it did, and what it
//! did can be taken back.

use std::path::Path;

use super::Checker;
use super::seen::ShownSession;
use super::typed::TypedKind;
use crate::files::{Contents, WrittenFiles};
use agentls::base::hash;
use agentls::domain::{Event, FileChange, FileState, SessionId, TurnId};
use agentls::session::{CommandError, RevertReply};
use agentls::store::StoredEvent;

/// A revert that was asked for, and what was there before and after it.
pub(crate) struct RequestedRevert {
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
    pub(crate) dry_run: bool,
    pub(crate) redo: bool,
    pub(crate) before: Contents,
    pub(crate) after: Contents,
    /// Nobody else wrote meanwhile.
    pub(crate) alone: bool,
    /// How many writes and reverts there had been when it was sent, and when it was answered.
    pub(crate) moves: (u64, u64),
}

/// A revert that was made, until somebody writes.
pub(super) struct MadeChange {
    turn: TurnId,
    paths: Vec<String>,
    before: Contents,
    moves: u64,
}

impl Checker {
    /// A turn of the session that has changed files; any where none has.
    pub(crate) fn turn_to_revert(
        &self,
        files: &WrittenFiles,
        session: &SessionId,
        pick: u64,
    ) -> Option<TurnId> {
        let seen = self.sessions.get(session)?;
        let known = files.lock_known();
        let calls = known
            .changed
            .iter()
            .rev()
            .filter_map(|(_, call, _)| seen.calls.get(call));
        let turns: Vec<&TurnId> = calls.map(|call| &call.turn).take(8).collect();
        match pick.checked_rem(turns.len() as u64) {
            Some(at) => turns.get(at as usize).map(|turn| (*turn).clone()),
            None => self.any_turn(session, pick),
        }
    }

    /// A revert is answered.
    pub(crate) fn check_revert(
        &mut self,
        files: &WrittenFiles,
        asked: RequestedRevert,
        answer: &Result<RevertReply, CommandError>,
    ) {
        self.log_line(format!(
            "revert of {} (dry {}, redo {}): {answer:?}",
            asked.turn, asked.dry_run, asked.redo
        ));
        let checked = match answer {
            Ok(reply) => self.revert_made(files, asked, reply),
            Err(CommandError::TurnRunning(_)) => Ok(()),
            Err(CommandError::NothingToRedo(_)) if asked.redo => Ok(()),
            // Its records are among those that a failing store has lost.
            Err(CommandError::UnknownTurn(_)) if self.is_torn(&asked.session) => Ok(()),
            Err(refused) => self.check_refusal(&asked.session, TypedKind::Steer, refused),
        };
        if let Err(why) = checked {
            self.record_violation(why);
        }
    }

    fn is_torn(&self, session: &SessionId) -> bool {
        self.sessions.get(session).is_none_or(|seen| seen.torn)
    }

    fn revert_made(
        &mut self,
        files: &WrittenFiles,
        asked: RequestedRevert,
        reply: &RevertReply,
    ) -> Result<(), String> {
        let what = if asked.redo { "redo" } else { "revert" };
        self.count_case(format!("{what} of {} files", reply.files.len()));
        self.count_many("conflict of a revert", reply.conflicts.len());
        let Some(seen) = self.sessions.get_mut(&asked.session) else {
            return Ok(());
        };
        let last = seen.reverted.take();
        if !asked.alone {
            return Ok(());
        }
        let known = files.lock_known();
        let recorded = known.recorded.get(&asked.session);
        for (path, before) in &asked.before {
            let after = asked.after.get(path).cloned().flatten();
            let name = path.display().to_string();
            let told = reply.files.iter().any(|(file, ..)| *file == name);
            if *before == after {
                continue;
            }
            if asked.dry_run || !told {
                return Err(format!(
                    "R-SESS-3: {name} is changed by a {what} that does not say so"
                ));
            }
            let was_known = before.as_ref().is_none_or(|text| {
                recorded.is_some_and(|recorded| recorded.contains(&hash::sha256(text.as_bytes())))
            });
            if !was_known {
                return Err(format!(
                    "R-SESS-3: {before:?} of {name} is overwritten by a {what}"
                ));
            }
        }
        if asked.dry_run {
            return Ok(());
        }
        let paths: Vec<String> = reply.files.iter().map(|(path, ..)| path.clone()).collect();
        for path in &paths {
            let now = asked.after.get(Path::new(path)).cloned().flatten();
            let wanted = match (asked.redo, &last) {
                (true, Some(made)) if made.turn == asked.turn && made.moves == asked.moves.0 => made
                    .paths
                    .contains(path)
                    .then(|| made.before.get(Path::new(path)).cloned().flatten()),
                (true, _) => None,
                // Of what a failing store did not write before a crash nothing is known.
                (false, _) if seen.cut_short => None,
                (false, _) => seen.content_before(&asked.turn, path, &known.changed)?,
            };
            if wanted
                .as_ref()
                .is_some_and(|wanted| !is_content(wanted.as_deref(), now.as_deref()))
            {
                return Err(format!(
                    "R-SESS-3: {path} is {now:?} after a {what}, and should be {wanted:?}"
                ));
            }
        }
        if !asked.redo && !paths.is_empty() {
            seen.reverted = Some(MadeChange {
                turn: asked.turn,
                paths,
                before: asked.before,
                moves: asked.moves.1,
            });
        }
        Ok(())
    }

    /// After a crash no file is torn, and what a tool has left can be taken back.
    pub(crate) fn files_left(
        &mut self,
        files: &WrittenFiles,
        recorded: &[(SessionId, Vec<FileChange>)],
        lossy: bool,
    ) {
        let known = files.lock_known();
        for (path, content) in files.current_contents() {
            let Some(content) = content else { continue };
            if !known.written.contains(&content) {
                return self.record_violation(format!("R-SESS-3: {} holds {content:?}", path.display()));
            }
            let hash = hash::sha256(content.as_bytes());
            let by = known
                .changed
                .iter()
                .rev()
                .find(|(_, _, change)| is_hash(&change.after, &hash));
            let Some((session, call, _)) = by else { continue };
            let kept = recorded.iter().find(|(id, _)| id == session);
            let Some((_, changes)) = kept else { continue };
            if !lossy && !changes.iter().any(|change| is_hash(&change.after, &hash)) {
                return self.record_violation(format!(
                    "R-SESS-3: what {call} of {session} has written to {} is not recorded: {changes:?}; done was {:?}",
                    path.display(),
                    known.changed
                ));
            }
        }
    }
}

/// Whether `now` is what was wanted.
fn is_content(wanted: Option<&str>, now: Option<&str>) -> bool {
    match wanted {
        Some(hash) if hash.starts_with("hash ") => {
            now.is_some_and(|now| hash[5..] == hash::sha256(now.as_bytes()))
        }
        other => other == now,
    }
}

fn is_hash(state: &FileState, hash: &str) -> bool {
    matches!(state, FileState::File { hash: of, .. } if of == hash)
}

impl ShownSession {
    /// What `path` was before the first change that `turn` or a later one has made of it: a hash, or nothing; none where
    /// that is not known.
    fn content_before(
        &self,
        turn: &TurnId,
        path: &str,
        changed: &[(SessionId, agentls::domain::ToolCallId, FileChange)],
    ) -> Result<Option<Option<String>>, String> {
        if self.torn {
            return Ok(None);
        }
        let begun = |stored: &&StoredEvent| matches!(stored.event, Event::TurnStarted { .. });
        let turns: Vec<_> = self
            .events
            .iter()
            .filter(begun)
            .map(|stored| stored.turn.as_ref())
            .collect();
        let Some(from) = turns.iter().position(|known| *known == Some(turn)) else {
            return Ok(None);
        };
        let changes = changed
            .iter()
            .filter(|(_, _, change)| change.path == path && change.kind().is_some())
            .filter_map(|(_, call, change)| {
                let of = &self.calls.get(call)?.turn;
                let place = turns.iter().position(|known| *known == Some(of))?;
                (place >= from).then_some(change)
            });
        let mut known: Vec<&FileState> = Vec::new();
        for change in changes {
            if !known.is_empty() && !known.contains(&&change.before) {
                return Err(format!(
                    "R-SESS-3: {path} is put back, though another's {:?} was there",
                    change.before
                ));
            }
            known.extend([&change.before, &change.after]);
        }
        Ok(match known.first() {
            Some(FileState::Absent) => Some(None),
            Some(FileState::File { hash, .. }) => Some(Some(format!("hash {hash}"))),
            Some(FileState::Link { .. } | FileState::Unknown) | None => None,
        })
    }
}
