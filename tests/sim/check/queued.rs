//! Prompts that wait for a turn's end: I16 over the queue, and that they wait no longer than they must (R-CANCEL).

use super::Checker;
use super::seen::ShownSession;
use super::typed::{TypedAnswer, TypedKind, label_of};
use agentls::base::clock;
use agentls::domain::{Block, PromptQueue, SessionId, TurnId};
use agentls::session::{CommandError, QueueReply};

/// A queue that is not held, and beside which nothing runs, goes on within this time, in virtual ms.
const PATIENCE_MS: i64 = 2_000;

impl Checker {
    /// Labels and keys of what waits, as far as the user knows.
    pub(crate) fn waiting_prompts(&self, session: &SessionId) -> Vec<(u64, String)> {
        let of = |(label, typed): (&u64, &super::typed::TypedInputs)| match &typed.answered {
            Some(TypedAnswer::Waits(Some(key))) if !typed.is_settled() && !typed.removed => {
                Some((*label, key.clone()))
            }
            _ => None,
        };
        let typed = self.typed.iter().filter(|(_, typed)| typed.session == *session);
        typed.filter_map(of).collect()
    }

    /// The user takes a prompt out of the queue, or puts another text in its place: until that is answered, who
    /// knows. Whether that was known before.
    pub(crate) fn begin_unqueue(&mut self, label: u64) -> bool {
        self.log_line(format!("takes #{label} out of the queue"));
        let typed = self.typed.get_mut(&label);
        typed.is_some_and(|typed| !std::mem::replace(&mut typed.excused, true))
    }

    /// That is answered.
    pub(crate) fn check_unqueue(
        &mut self,
        session: &SessionId,
        (label, was_known): (u64, bool),
        answer: &Result<QueueReply, CommandError>,
    ) {
        self.log_line(format!("#{label} out of the queue: {answer:?}"));
        let Some(typed) = self.typed.get_mut(&label) else {
            return;
        };
        let settled = typed.is_settled();
        match answer {
            Ok(_) if settled => {
                self.record_violation(format!("I16: #{label} is said, and was taken out of the queue"))
            }
            Ok(_) => typed.removed = true,
            Err(CommandError::UnknownPrompt(_)) if !settled => {
                // It is on its way; or was lost, which is seen when the store is. Or it was taken out before, and a
                // crash swallowed the answer.
                typed.excused = !was_known;
            }
            Err(refused) => {
                let refused = refused.clone();
                self.queue_refused(session, &refused);
            }
        }
    }

    /// The user asks for what waits.
    pub(crate) fn sends_now(&mut self, session: &SessionId) {
        self.log_line(format!("sends now, in {session}"));
        if let Some(seen) = self.sessions.get_mut(session) {
            seen.sent_now = true;
        }
    }

    /// An action on the queue is refused.
    pub(crate) fn queue_refused(&mut self, session: &SessionId, refused: &CommandError) {
        if let Err(why) = self.check_refusal(session, TypedKind::Queued, refused) {
            self.record_violation(why);
        }
    }

    /// Whether what was typed so began the turn.
    pub(super) fn begins_turn(&self, session: &SessionId, turn: &TurnId, kind: TypedKind) -> bool {
        let seen = self.sessions.get(session);
        let known = seen.and_then(|seen| seen.turns.get(turn));
        kind == TypedKind::Queued && known.is_some_and(|turn| turn.queued && turn.prompts == 0)
    }

    /// What waits is shown.
    pub(super) fn queue_shown(&mut self, session: &SessionId, queue: &PromptQueue) -> Result<(), String> {
        self.count_case("queue shown");
        for prompt in &queue.prompts {
            let label =
                label_of(&[Block::Text(prompt.text.clone())]).ok_or("I16: nobody typed what waits")?;
            let typed = self.typed.get_mut(&label).ok_or("I16: nobody typed what waits")?;
            let seen = self.sessions.get(session);
            // The record that took it out may be among those that a full store has lost, as the user was told.
            if let Some(seen) = seen.filter(|seen| seen.torn) {
                (typed.returned, typed.removed) = (None, false);
                typed.joined = typed.joined.take().filter(|turn| !seen.begun_in_vain(turn));
            }
            if typed.session != *session
                || typed.kind != TypedKind::Queued
                || typed.is_settled()
                || typed.removed
            {
                return Err(format!("I16: #{label} is shown to wait"));
            }
        }
        if let Some(seen) = self.sessions.get_mut(session) {
            let due = !queue.paused && !queue.prompts.is_empty();
            seen.due = due.then(|| (queue.prompts.len(), clock::wall_ms()));
        }
        Ok(())
    }
}

impl ShownSession {
    /// A turn of the queue ends at once when the store is full: then what it had begun with may wait once more.
    pub(super) fn begun_in_vain(&self, turn: &TurnId) -> bool {
        let known = self.turns.get(turn);
        self.torn && known.is_some_and(|turn| turn.queued && turn.steps == 0)
    }

    /// What waits and is not held begins a turn as soon as none runs.
    pub(super) fn nothing_stands_still(&self) -> Result<(), String> {
        match self.due {
            Some((count, since))
                if self.fold.turns.open_turn.is_none() && clock::wall_ms() > since + PATIENCE_MS =>
            {
                Err(format!("{count} prompts wait for nothing"))
            }
            _ => Ok(()),
        }
    }
}
