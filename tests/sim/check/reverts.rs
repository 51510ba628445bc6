//! Restored files (R-SESS-3): a revert never loses user text, reports every change that it makes, leaves out none, and is
//! reversible. A command makes nothing unrecoverable that was there before it (I17).

use std::path::Path;

use super::Checker;
use super::memory::ShownSession;
use super::typed::TypedKind;
use crate::files::{Contents, WrittenFiles};
use agentls::base::hash;
use agentls::domain::{Event, FileChange, FileState, SessionId, ToolCallId, TurnId};
use agentls::session::{CommandError, RevertReply};
use agentls::store::StoredEvent;

/// A revert that the user requested, with the file contents before and after it.
pub(crate) struct RequestedRevert {
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
    pub(crate) dry_run: bool,
    pub(crate) redo: bool,
    pub(crate) before: Contents,
    pub(crate) after: Contents,
    /// Nothing else wrote files in the meantime.
    pub(crate) alone: bool,
    /// How many writes and reverts had happened when the user sent the request, and when the answer arrived.
    pub(crate) moves: (u64, u64),
}

/// The last revert, valid until the next write.
pub(super) struct MadeChange {
    turn: TurnId,
    paths: Vec<String>,
    before: Contents,
    moves: u64,
}

impl Checker {
    /// A turn of the session that changed files; any turn if none did.
    pub(crate) fn turn_to_revert(
        &self,
        files: &WrittenFiles,
        session: &SessionId,
        pick: u64,
    ) -> Option<TurnId> {
        let shown_session = self.sessions.get(session)?;
        let known = files.lock_known();
        let calls = known
            .changed
            .iter()
            .rev()
            .filter_map(|(_, call, _)| shown_session.calls.get(call));
        let turns: Vec<&TurnId> = calls.map(|call| &call.turn).take(8).collect();
        match pick.checked_rem(turns.len() as u64) {
            Some(at) => turns.get(at as usize).map(|turn| (*turn).clone()),
            None => self.any_turn(session, pick),
        }
    }

    /// The server answers a revert request.
    pub(crate) fn check_revert(
        &mut self,
        files: &WrittenFiles,
        request: RequestedRevert,
        answer: &Result<RevertReply, CommandError>,
    ) {
        self.log_line(format!(
            "revert of {} (dry {}, redo {}): {answer:?}",
            request.turn, request.dry_run, request.redo
        ));
        let checked = match answer {
            Ok(reply) => self.revert_made(files, request, reply),
            Err(CommandError::TurnRunning(_)) => Ok(()),
            Err(CommandError::NothingToRedo(_)) if request.redo => Ok(()),
            // The turn's records are among those that a failing store lost.
            Err(CommandError::UnknownTurn(_)) if self.is_torn(&request.session) => Ok(()),
            Err(refused) => self.check_refusal(&request.session, TypedKind::Steer, refused),
        };
        if let Err(violation) = checked {
            self.record_violation(violation);
        }
    }

    fn is_torn(&self, session: &SessionId) -> bool {
        self.sessions
            .get(session)
            .is_none_or(|shown_session| shown_session.is_cut_off)
    }

    fn revert_made(
        &mut self,
        files: &WrittenFiles,
        request: RequestedRevert,
        reply: &RevertReply,
    ) -> Result<(), String> {
        let action = if request.redo { "redo" } else { "revert" };
        self.count_case(format!("{action} of {} files", reply.files.len()));
        self.count_many("conflict of a revert", reply.conflicts.len());
        let Some(shown_session) = self.sessions.get_mut(&request.session) else {
            return Ok(());
        };
        let last = shown_session.reverted.take();
        if !request.alone {
            return Ok(());
        }
        let known = files.lock_known();
        let recorded = known.recorded.get(&request.session);
        for (path, before) in &request.before {
            let after = request.after.get(path).cloned().flatten();
            let name = path.display().to_string();
            let is_reported = reply.files.iter().any(|(file, ..)| *file == name);
            if *before == after {
                continue;
            }
            if request.dry_run || !is_reported {
                return Err(format!(
                    "R-SESS-3: a {action} changed {name} without reporting it"
                ));
            }
            let was_known = before.as_ref().is_none_or(|text| {
                recorded.is_some_and(|recorded| recorded.contains(&hash::sha256(text.as_bytes())))
            });
            if !was_known {
                return Err(format!(
                    "R-SESS-3: a {action} overwrote the unrecorded content {before:?} of {name}"
                ));
            }
        }
        if request.dry_run {
            return Ok(());
        }
        let is_mentioned = |path: &String| {
            reply.files.iter().any(|(of, ..)| of == path) || reply.conflicts.iter().any(|(of, ..)| of == path)
        };
        for (path, now) in &request.after {
            let path = path.display().to_string();
            if request.redo || shown_session.cut_short || is_mentioned(&path) {
                continue;
            }
            if let Ok(Some(wanted)) = shown_session.content_before(&request.turn, &path, &known.changed)
                && !is_content(wanted.as_deref(), now.as_deref())
            {
                return Err(format!(
                    "R-SESS-3: a revert left out {path} with {now:?}; expected {wanted:?}"
                ));
            }
        }
        let paths: Vec<String> = reply.files.iter().map(|(path, ..)| path.clone()).collect();
        for path in &paths {
            let now = request.after.get(Path::new(path)).cloned().flatten();
            let wanted = match (request.redo, &last) {
                (true, Some(change)) if change.turn == request.turn && change.moves == request.moves.0 => {
                    change
                        .paths
                        .contains(path)
                        .then(|| change.before.get(Path::new(path)).cloned().flatten())
                }
                (true, _) => None,
                // A crash may have lost changes that a failing store kept only in memory.
                (false, _) if shown_session.cut_short => None,
                (false, _) => shown_session.content_before(&request.turn, path, &known.changed)?,
            };
            if wanted
                .as_ref()
                .is_some_and(|wanted| !is_content(wanted.as_deref(), now.as_deref()))
            {
                return Err(format!(
                    "R-SESS-3: {path} contains {now:?} after a {action}; expected {wanted:?}"
                ));
            }
        }
        if !request.redo && !paths.is_empty() {
            shown_session.reverted = Some(MadeChange {
                turn: request.turn,
                paths,
                before: request.before,
                moves: request.moves.1,
            });
        }
        Ok(())
    }

    /// A command has changed a file; `stored` is what its session has stored of the file since the command began.
    pub(crate) fn check_command_change(
        &mut self,
        call: &ToolCallId,
        change: &FileChange,
        stored: &[FileChange],
    ) {
        self.count_case("file changed by a command".to_owned());
        let has_before = stored.iter().any(|by| by.before == change.before);
        let has_after = stored.iter().any(|by| by.after == change.after);
        if !has_before || !has_after {
            self.record_violation(format!("I17: {call} made {change:?}, and stored {stored:?}"));
        }
    }

    /// After a crash no file is partially written, and every change that a tool left is reversible.
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
                return self.record_violation(format!(
                    "R-SESS-3: {} contains {content:?}, which was never written in full",
                    path.display()
                ));
            }
            let hash = hash::sha256(content.as_bytes());
            let by = known
                .changed
                .iter()
                .rev()
                .find(|(_, _, change)| is_hash(&change.after, &hash));
            let Some((session, call, _)) = by else { continue };
            let record = recorded.iter().find(|(id, _)| id == session);
            let Some((_, changes)) = record else { continue };
            if !lossy && !changes.iter().any(|change| is_hash(&change.after, &hash)) {
                return self.record_violation(format!(
                    "R-SESS-3: {call} of {session} changed {} without a record: {changes:?}; all: {:?}",
                    path.display(),
                    known.changed
                ));
            }
        }
    }
}

/// Whether `now` is the wanted content, given as text or as a hash.
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
    /// The content of `path` before the first change by `turn` or a later one: a hash, or `None` if absent.
    /// Returns `Ok(None)` if that content is unknown.
    fn content_before(
        &self,
        turn: &TurnId,
        path: &str,
        changed: &[(SessionId, ToolCallId, FileChange)],
    ) -> Result<Option<Option<String>>, String> {
        if self.is_cut_off {
            return Ok(None);
        }
        let is_turn_start = |stored: &&StoredEvent| matches!(stored.event, Event::TurnStarted { .. });
        let turns: Vec<_> = self
            .events
            .iter()
            .filter(is_turn_start)
            .map(|stored| stored.turn.as_ref())
            .collect();
        let Some(from) = turns.iter().position(|known| *known == Some(turn)) else {
            return Ok(None);
        };
        let changes = changed
            .iter()
            .filter(|(_, _, change)| change.path == path && change.kind().is_some())
            .filter_map(|(_, call, change)| {
                let call_turn = &self.calls.get(call)?.turn;
                let position = turns.iter().position(|known| *known == Some(call_turn))?;
                (position >= from).then_some(change)
            });
        let mut known: Vec<&FileState> = Vec::new();
        for change in changes {
            if !known.is_empty() && !known.contains(&&change.before) {
                return Err(format!(
                    "R-SESS-3: {path} was restored although somebody else had changed it to {:?}",
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
