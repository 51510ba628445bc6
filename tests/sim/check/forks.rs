//! Forked sessions: a fork contains the parent's history up to the end of a turn, and nothing that was
//! pending.

use super::Checker;
use super::memory::ShownSession;
use super::typed::TypedKind;
use crate::files::WrittenFiles;
use agentls::domain::{Event, SessionId, TurnId};
use agentls::session::CommandError;
use agentls::store::{SessionRow, StoredEvent};

impl Checker {
    /// The user requests a fork: events of a session that the checker does not know may appear.
    pub(crate) fn begin_fork(&mut self, session: &SessionId, turn: Option<&TurnId>) {
        self.log_line(format!("forks {session} at {turn:?}"));
        self.forking += 1;
    }

    /// Whether the session belongs to a fork in progress, or to one that a crash interrupted.
    pub(super) fn is_forked_now(&mut self, session: &SessionId) -> bool {
        if !self.sessions.contains_key(session) && self.forking > 0 {
            self.strays.insert(session.clone());
        }
        self.strays.contains(session)
    }

    /// The server refused the fork.
    pub(crate) fn fork_refused(
        &mut self,
        session: &SessionId,
        turn: Option<&TurnId>,
        refused: &CommandError,
    ) {
        self.log_line(format!("the fork of {session} is refused: {refused:?}"));
        self.forking -= 1;
        let running = |turn: &TurnId| {
            let shown_session = self.sessions.get(session);
            shown_session.is_none_or(|shown_session| {
                shown_session.is_cut_off || shown_session.turns.get(turn).is_none_or(|turn| !turn.ended)
            })
        };
        let is_justified = match refused {
            CommandError::UnknownTurn(_) => turn.is_some_and(running),
            // Once a turn's end was shown, the store contains the turn, unless a failing store lost it.
            CommandError::NothingToFork(_) => {
                let shown_session = self.sessions.get(session);
                self.lost
                    || shown_session.is_none_or(|shown_session| {
                        shown_session.is_cut_off || !shown_session.turns.values().any(|turn| turn.ended)
                    })
            }
            _ => self.check_refusal(session, TypedKind::Prompt, refused).is_ok(),
        };
        if !is_justified {
            self.record_violation(format!(
                "I1: the server refused the fork of {session} without a valid reason: {refused:?}"
            ));
        }
    }

    /// The server made no fork, or could not open it.
    pub(crate) fn fork_failed(&mut self) {
        self.forking -= 1;
    }

    /// The server made the fork: compares its stored events with those of its parent.
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
        // If the store fails, its contents for the fork are unpredictable.
        let is_complete = !self.degraded && !self.lost;
        let Some((row, events)) = found.filter(|_| is_complete) else {
            self.strays.insert(fork.clone());
            return;
        };
        if let Some(parent) = self.sessions.get(session)
            && !parent.is_cut_off
            && let Err(violation) = parent.is_parent_of(&events)
        {
            return self.record_violation(format!("{fork}, a fork of {session}: {violation}"));
        }
        self.strays.remove(fork);
        let mut shown_session = ShownSession::new(row.mode);
        let parent = self.sessions.get(session);
        shown_session.is_cut_off = parent.is_none_or(|parent| parent.is_cut_off);
        shown_session.cut_short = parent.is_none_or(|parent| parent.cut_short);
        for stored in &events {
            shown_session.learn_event(stored);
        }
        shown_session.safe = shown_session.events.len();
        self.sessions.insert(fork.clone(), shown_session);
        if self.paused.contains(session) {
            self.paused.insert(fork.clone());
        }
        let mut known = files.lock_known();
        let recorded = known.recorded.get(session).cloned();
        known.recorded.insert(fork.clone(), recorded.unwrap_or_default());
    }
}

impl ShownSession {
    /// A fork's events are those of this session, up to the end of a turn.
    fn is_parent_of(&self, fork: &[StoredEvent]) -> Result<(), String> {
        let of_turns = |stored: &&StoredEvent| stored.turn.is_some();
        let last = fork.iter().rev().find(of_turns);
        if last.is_some_and(|last| !matches!(last.event, Event::TurnEnded(_))) {
            return Err(format!("the fork ends in the middle of a turn: {last:?}"));
        }
        if let Some(wrong) = fork.iter().zip(1..).find(|(stored, seq)| stored.seq != *seq) {
            return Err(format!("I6: sequence number out of order: {wrong:?}"));
        }
        let parent_events = self.events.iter().filter(|stored| {
            !matches!(
                stored.event,
                Event::QueueChanged(_) | Event::InquiryRequested(_) | Event::InquiryResolved { .. }
            )
        });
        let mut parent_events = parent_events.peekable();
        for stored in fork.iter().filter(of_turns) {
            // A fork omits approvals that were open, and events that belong to no turn.
            while let Some(other) = parent_events.peek()
                && !is_same(other, stored)
            {
                let may_be_omitted =
                    matches!(other.event, Event::ApprovalRequested(_)) || other.turn.is_none();
                if !may_be_omitted {
                    return Err(format!("the fork contains {stored:?} but lacks {other:?}"));
                }
                parent_events.next();
            }
            if parent_events.next().is_none() {
                return Err(format!("the fork contains {stored:?}, which its parent does not"));
            }
        }
        Ok(())
    }
}

fn is_same(a: &StoredEvent, b: &StoredEvent) -> bool {
    let same = match (&a.event, &b.event) {
        (
            Event::Usage {
                step: a,
                session: total,
                ..
            },
            Event::Usage {
                step: b,
                session,
                provider,
                ..
            },
        ) => a == b && total == session && provider.is_none(),
        (a, b) => a == b,
    };
    same && a.turn == b.turn && a.at_ms == b.at_ms
}
