//! Prompts that wait for the end of a turn: I16 for the queue, and a bound on how long they wait (R-CANCEL).

use super::Checker;
use super::memory::ShownSession;
use super::typed::{TypedAnswer, TypedKind, label_of};
use agentls::base::clock;
use agentls::domain::{Block, PromptQueue, SessionId, TurnId};
use agentls::session::{CommandError, QueueReply};

/// How soon a queue that is not paused must start a turn once none is running, in virtual ms.
const QUEUE_START_TIMEOUT_MS: i64 = 2_000;

impl Checker {
    /// Labels and keys of the queued prompts, as far as the user knows them.
    pub(crate) fn waiting_prompts(&self, session: &SessionId) -> Vec<(u64, String)> {
        let waiting_key = |(label, typed): (&u64, &super::typed::TypedInputs)| match &typed.answer {
            Some(TypedAnswer::Waits(Some(key))) if !typed.is_settled() && !typed.removed => {
                Some((*label, key.clone()))
            }
            _ => None,
        };
        let typed = self.typed.iter().filter(|(_, typed)| typed.session == *session);
        typed.filter_map(waiting_key).collect()
    }

    /// The user removes a prompt from the queue or replaces its text. Until the server answers, either result
    /// is possible. Returns whether the checker still expected the prompt to arrive.
    pub(crate) fn begin_unqueue(&mut self, label: u64) -> bool {
        self.log_line(format!("takes #{label} out of the queue"));
        for other in self.labels_of_same_prompt(label) {
            self.typed.entry(other).and_modify(|typed| typed.excused = true);
        }
        let typed = self.typed.get_mut(&label);
        typed.is_some_and(|typed| !std::mem::replace(&mut typed.excused, true))
    }

    /// The server has answered the request to remove or replace a prompt.
    pub(crate) fn check_unqueue(
        &mut self,
        session: &SessionId,
        (label, was_known): (u64, bool),
        answer: &Result<QueueReply, CommandError>,
    ) {
        self.log_line(format!("#{label} out of the queue: {answer:?}"));
        if answer.is_ok() {
            for other in self.labels_of_same_prompt(label) {
                self.typed.entry(other).and_modify(|typed| typed.removed = true);
            }
        }
        let Some(typed) = self.typed.get_mut(&label) else {
            return;
        };
        let settled = typed.is_settled();
        match answer {
            Ok(_) if settled => self.record_violation(format!(
                "I16: the server removed #{label} from the queue after delivering or returning it"
            )),
            Ok(_) => typed.removed = true,
            Err(CommandError::UnknownPrompt(_)) if !settled => {
                // The prompt is being delivered, or a crash lost it, which the check of the store detects.
                // Otherwise an earlier removal succeeded and a crash lost its answer.
                typed.excused = !was_known;
            }
            Err(refused) => {
                let refused = refused.clone();
                self.queue_refused(session, &refused);
            }
        }
    }

    /// Labels of other texts of the same queued prompt. A failing store can lose an edit; the user then knows the prompt
    /// by its old and its new text, and what happens to one happens to both.
    fn labels_of_same_prompt(&self, label: u64) -> Vec<u64> {
        let waiting_key = |typed: &super::typed::TypedInputs| match &typed.answer {
            Some(TypedAnswer::Waits(Some(key))) if !typed.is_settled() => Some(key.clone()),
            _ => None,
        };
        let Some(key) = self.typed.get(&label).and_then(waiting_key) else {
            return Vec::new();
        };
        let same = self
            .typed
            .iter()
            .filter(|(other, typed)| **other != label && waiting_key(typed).as_ref() == Some(&key));
        same.map(|(other, _)| *other).collect()
    }

    /// The user asks the server to send the queued prompts now.
    pub(crate) fn sends_now(&mut self, session: &SessionId) {
        self.log_line(format!("sends now, in {session}"));
        if let Some(shown_session) = self.sessions.get_mut(session) {
            shown_session.sent_now = true;
        }
    }

    /// The server refuses a request about the queue.
    pub(crate) fn queue_refused(&mut self, session: &SessionId, refused: &CommandError) {
        if let Err(violation) = self.check_refusal(session, TypedKind::Queued, refused) {
            self.record_violation(violation);
        }
    }

    /// Whether this input started the turn.
    pub(super) fn begins_turn(&self, session: &SessionId, turn: &TurnId, kind: TypedKind) -> bool {
        let shown_session = self.sessions.get(session);
        let known = shown_session.and_then(|shown_session| shown_session.turns.get(turn));
        kind == TypedKind::Queued && known.is_some_and(|turn| turn.queued && turn.prompts == 0)
    }

    /// The server shows the queue.
    pub(super) fn queue_shown(&mut self, session: &SessionId, queue: &PromptQueue) -> Result<(), String> {
        self.count_case("queue shown");
        for prompt in &queue.prompts {
            let label = label_of(&[Block::Text(prompt.text.clone())])
                .ok_or("I16: the queue contains a prompt that the user never sent")?;
            let typed = self
                .typed
                .get_mut(&label)
                .ok_or("I16: the queue contains a prompt that the user never sent")?;
            let shown_session = self.sessions.get(session);
            // A full store may have lost the record that removed the prompt; it warned the user about that.
            if let Some(shown_session) = shown_session.filter(|shown_session| shown_session.is_cut_off) {
                (typed.returned, typed.removed) = (None, false);
                typed.joined = typed
                    .joined
                    .take()
                    .filter(|turn| !shown_session.was_started_for_nothing(turn));
            }
            if typed.session != *session
                || typed.kind != TypedKind::Queued
                || typed.is_settled()
                || typed.removed
            {
                return Err(format!(
                    "I16: the queue contains #{label}, which was removed or delivered or belongs elsewhere"
                ));
            }
        }
        if let Some(shown_session) = self.sessions.get_mut(session) {
            let due = !queue.paused && !queue.prompts.is_empty();
            shown_session.due = due.then(|| (queue.prompts.len(), clock::wall_ms()));
        }
        Ok(())
    }
}

impl ShownSession {
    /// A queued turn ends at once if the store is full; the prompt that started it may then be queued again.
    pub(super) fn was_started_for_nothing(&self, turn: &TurnId) -> bool {
        let known = self.turns.get(turn);
        self.is_cut_off && known.is_some_and(|turn| turn.queued && turn.steps == 0)
    }

    /// A queue that is not paused starts a turn as soon as none is running.
    pub(super) fn check_queue_progress(&self) -> Result<(), String> {
        match self.due {
            Some((count, since))
                if self.fold.turns.open_turn.is_none()
                    && clock::wall_ms() > since + QUEUE_START_TIMEOUT_MS =>
            {
                Err(format!("{count} prompts are queued although no turn is running"))
            }
            _ => Ok(()),
        }
    }
}
