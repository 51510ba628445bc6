//! Sessions that are made of others: a fork has what was said and done up to the end of a turn, and nothing that waits.

use super::Checker;
use super::seen::ShownSession;
use super::typed::TypedKind;
use crate::files::WrittenFiles;
use agentls::domain::{Event, SessionId, TurnId};
use agentls::session::CommandError;
use agentls::store::{SessionRow, StoredEvent};

impl Checker {
    /// A fork is asked for: a session that nobody knows may be seen.
    pub(crate) fn begin_fork(&mut self, session: &SessionId, turn: Option<&TurnId>) {
        self.log_line(format!("forks {session} at {turn:?}"));
        self.forking += 1;
    }

    /// Whether the session is one that a fork makes, or has left when it was cut.
    pub(super) fn is_forked_now(&mut self, session: &SessionId) -> bool {
        if !self.sessions.contains_key(session) && self.forking > 0 {
            self.strays.insert(session.clone());
        }
        self.strays.contains(session)
    }

    /// It is refused.
    pub(crate) fn fork_refused(
        &mut self,
        session: &SessionId,
        turn: Option<&TurnId>,
        refused: &CommandError,
    ) {
        self.log_line(format!("the fork of {session} is refused: {refused:?}"));
        self.forking -= 1;
        let running = |turn: &TurnId| {
            let seen = self.sessions.get(session);
            seen.is_none_or(|seen| seen.torn || seen.turns.get(turn).is_none_or(|turn| !turn.ended))
        };
        let fair = match refused {
            CommandError::UnknownTurn(_) => turn.is_some_and(running),
            // Of a turn of which an end was shown, the store has it, but for what a failing one has lost.
            CommandError::NothingToFork(_) => {
                let seen = self.sessions.get(session);
                self.lost || seen.is_none_or(|seen| seen.torn || !seen.turns.values().any(|turn| turn.ended))
            }
            _ => self.check_refusal(session, TypedKind::Prompt, refused).is_ok(),
        };
        if !fair {
            self.record_violation(format!("I1: the fork of {session} is refused: {refused:?}"));
        }
    }

    /// It is made; what the store has of it.
    pub(crate) fn check_fork(
        &mut self,
        files: &WrittenFiles,
        session: &SessionId,
        fork: &SessionId,
        found: Option<(SessionRow, Vec<StoredEvent>)>,
    ) {
        self.log_line(format!("{fork} is a fork of {session}"));
        self.count_case("fork");
        self.forking -= 1;
        // What a store that fails has of it nobody knows.
        let whole = !self.degraded && !self.lost;
        let Some((row, events)) = found.filter(|_| whole) else {
            self.strays.insert(fork.clone());
            return;
        };
        if let Some(parent) = self.sessions.get(session)
            && !parent.torn
            && let Err(why) = parent.is_parent_of(&events)
        {
            return self.record_violation(format!("{fork}, a fork of {session}: {why}"));
        }
        self.strays.remove(fork);
        let mut seen = ShownSession::new(row.mode);
        let parent = self.sessions.get(session);
        seen.torn = parent.is_none_or(|parent| parent.torn);
        seen.cut_short = parent.is_none_or(|parent| parent.cut_short);
        for stored in &events {
            seen.learn_event(stored);
        }
        seen.safe = seen.events.len();
        self.sessions.insert(fork.clone(), seen);
        if self.paused.contains(session) {
            self.paused.insert(fork.clone());
        }
        let mut known = files.lock_known();
        let recorded = known.recorded.get(session).cloned();
        known.recorded.insert(fork.clone(), recorded.unwrap_or_default());
    }
}

impl ShownSession {
    /// The fork's events are those of this session, up to the end of a turn.
    fn is_parent_of(&self, fork: &[StoredEvent]) -> Result<(), String> {
        let of_turns = |stored: &&StoredEvent| stored.turn.is_some();
        let last = fork.iter().rev().find(of_turns);
        if last.is_some_and(|last| !matches!(last.event, Event::TurnEnded(_))) {
            return Err(format!("it ends in the midst of a turn: {last:?}"));
        }
        if let Some(wrong) = fork.iter().zip(1..).find(|(stored, seq)| stored.seq != *seq) {
            return Err(format!("I6: {wrong:?}"));
        }
        let mine = self.events.iter().filter(|stored| {
            !matches!(
                stored.event,
                Event::QueueChanged(_) | Event::InquiryRequested(_) | Event::InquiryResolved { .. }
            )
        });
        let mut mine = mine.peekable();
        for stored in fork.iter().filter(of_turns) {
            // Approvals that were open then, and what is no turn's.
            while let Some(other) = mine.peek()
                && !is_same(other, stored)
            {
                let left = matches!(other.event, Event::ApprovalRequested(_)) || other.turn.is_none();
                if !left {
                    return Err(format!("{stored:?} is there, {other:?} is not"));
                }
                mine.next();
            }
            if mine.next().is_none() {
                return Err(format!("{stored:?} never happened"));
            }
        }
        Ok(())
    }
}

fn is_same(a: &StoredEvent, b: &StoredEvent) -> bool {
    let same = match (&a.event, &b.event) {
        (
            Event::Usage {
                step: a, session: of, ..
            },
            Event::Usage {
                step: b,
                session,
                provider,
                ..
            },
        ) => a == b && of == session && provider.is_none(),
        (a, b) => a == b,
    };
    same && a.turn == b.turn && a.at_ms == b.at_ms
}
