//! The queue of prompts that wait for the turn's end. They are durable once they are accepted (I16), and each starts
//! when its turn comes.
//!
//! A turn that did not complete pauses the queue (R-CANCEL), until the user sends a prompt or a later turn completes. A
//! queue that a starting server finds in the store is paused too, because nobody expects a turn then.

use tokio::sync::oneshot;

use super::actor::Actor;
use super::command::{CommandError, QueueAction, QueueReply, Reply};
use super::command_queue::Gathered;
use super::inbox::KeyedMessage;
use super::messages::{make_title, user_message};
use super::services::SessionSettings;
use crate::base::{random, text};
use crate::domain::{Block, Event, PromptQueue, QueuedPrompt, TurnId, TurnTrigger};
use crate::store::{PendingEvent, PendingKey};

/// Characters of a prompt that the list shows.
const SHOWN: usize = 200;

impl Actor {
    /// Checks whether an action on the queue is possible, before anything is read for it.
    pub(super) fn check_queue_action(&self, action: &QueueAction) -> Result<(), CommandError> {
        match action {
            QueueAction::Add(_) if self.inbox.is_queue_full() => Err(CommandError::QueueFull),
            QueueAction::Remove(id) if !self.inbox.has_queued(Some(id)) => {
                Err(CommandError::UnknownPrompt(id.clone()))
            }
            QueueAction::SendNow(id) if !self.inbox.has_queued(id.as_deref()) => {
                Err(CommandError::UnknownPrompt(id.clone().unwrap_or_default()))
            }
            _ => Ok(()),
        }
    }

    /// Performs an action on the queue.
    pub(super) fn handle_queue_action(
        &mut self,
        action: QueueAction,
        mut gathered: Gathered,
        reply: Reply<QueueReply>,
    ) {
        match action {
            QueueAction::List => {
                let _ = reply.send(Ok(self.queue_reply()));
            }
            QueueAction::Add(content) => {
                // Expanded now, while the user who typed it can still see an error.
                let content = gathered.message.take().unwrap_or(content);
                self.enqueue_prompt(content, gathered, reply);
            }
            QueueAction::Edit(id, content) => {
                let content = gathered.message.take().unwrap_or(content);
                if !self.inbox.edit_queued(&id, &content) {
                    let _ = reply.send(Err(CommandError::UnknownPrompt(id)));
                    return;
                }
                let answer = self.queue_reply();
                let done = self.journal.answer_stored(reply, answer);
                let put = PendingEvent::Queued { key: id, content };
                self.record_queue_change(Vec::new(), vec![put], Some(done));
            }
            QueueAction::Remove(id) => {
                self.inbox.take_queued(Some(&id));
                let answer = self.queue_reply();
                let done = self.journal.answer_stored(reply, answer);
                self.record_queue_change(vec![PendingKey::for_queued(&id)], Vec::new(), Some(done));
            }
            QueueAction::SendNow(id) => self.send_now(id, gathered, reply),
        }
    }

    fn enqueue_prompt(&mut self, content: Vec<Block>, gathered: Gathered, reply: Reply<QueueReply>) {
        let key = format!("queued_{}", random::random_token(12));
        self.inbox.enqueue(key.clone(), content.clone());
        self.services.totals.queued_prompts.add(1);
        self.metrics.queued_prompts += 1;
        let pending = PendingEvent::Queued {
            key: key.clone(),
            content,
        };
        let (done, stored) = oneshot::channel();
        self.record_queue_change(Vec::new(), vec![pending], Some(done));
        // If no turn runs, the prompt starts immediately.
        let started = self.start_next_queued(gathered);
        let answer = QueueReply {
            added: Some(key),
            turn: started,
            ..self.queue_reply()
        };
        self.journal.answer_after(stored, reply, answer);
    }

    fn send_now(&mut self, id: Option<String>, gathered: Gathered, reply: Reply<QueueReply>) {
        let Some((key, content)) = self.inbox.take_queued(id.as_deref()) else {
            let _ = reply.send(Err(CommandError::UnknownPrompt(id.unwrap_or_default())));
            return;
        };
        self.state.queue_paused = false;
        let running = (self.turn.as_ref())
            .filter(|turn| turn.control.takes_steers() && !self.state.turns.is_compaction)
            .map(|turn| turn.id.clone());
        if let Some(turn) = running {
            return self.steer_with_queued((key, content), turn, reply);
        }
        self.inbox.send_next((key, content));
        let (done, stored) = oneshot::channel();
        self.record_queue_change(Vec::new(), Vec::new(), Some(done));
        let started = self.start_next_queued(gathered);
        let answer = QueueReply {
            turn: started,
            ..self.queue_reply()
        };
        self.journal.answer_after(stored, reply, answer);
    }

    /// Sends a queued prompt into the running turn. The store moves it in one transaction, so that a crash cannot lose
    /// it (I16).
    fn steer_with_queued(&mut self, (key, content): KeyedMessage, turn: TurnId, reply: Reply<QueueReply>) {
        self.inbox.push_steer(key.clone(), content.clone());
        let steer = PendingEvent::Steer {
            key: key.clone(),
            turn: Some(turn.clone()),
            content,
        };
        let answer = QueueReply {
            turn: Some(turn),
            ..self.queue_reply()
        };
        let done = self.journal.answer_stored(reply, answer);
        self.record_queue_change(vec![PendingKey::for_queued(&key)], vec![steer], Some(done));
    }

    /// Returns whether a queued prompt starts now.
    pub(super) fn is_prompt_due(&self) -> bool {
        let is_leaving = self.residency.is_ending() || !self.residency.closing.is_empty();
        self.can_start_queued() && !is_leaving && self.inbox.is_due(self.state.queue_paused)
    }

    fn can_start_queued(&self) -> bool {
        self.turn.is_none() && !self.inbox.queued().is_empty() && self.residency.deleting.is_empty()
    }

    /// Starts the next prompt if it is due. After a turn that did not complete, announces that the queue is paused.
    pub(super) fn start_next_queued(&mut self, gathered: Gathered) -> Option<TurnId> {
        if !self.can_start_queued() {
            return None;
        }
        let is_due = self.is_prompt_due();
        self.inbox.forget_send_now();
        if !is_due {
            self.record_queue_change(Vec::new(), Vec::new(), None);
            return None;
        }
        if let Some(refused) = gathered.start_error {
            self.pause_queue(&refused);
            return None;
        }
        self.start_queued_prompt(gathered.settings?)
    }

    fn start_queued_prompt(&mut self, settings: SessionSettings) -> Option<TurnId> {
        let (key, content) = self.inbox.take_queued(None)?;
        self.state.queue_paused = false;
        let title = make_title(&content);
        // `turnEnded` announces the end; no caller waits for an answer.
        let handle = self.start_prompt(TurnTrigger::Queue, title, content, settings, |actor| {
            // Dequeued in the transaction that starts the turn, so a crash can neither lose nor repeat it.
            actor.record_queue_change(vec![PendingKey::for_queued(&key)], Vec::new(), None);
        });
        Some(handle.turn)
    }

    /// Leaves the next prompt in the queue, because no turn can start. No caller waits for an answer, but the user sees
    /// that the queue is paused.
    pub(super) fn pause_queue(&mut self, refused: &CommandError) {
        tracing::warn!(session = %self.info.id, %refused, "could not start a queued prompt");
        self.inbox.forget_send_now();
        self.state.queue_paused = true;
        self.record_queue_change(Vec::new(), Vec::new(), None);
    }

    fn record_queue_change(
        &mut self,
        drops: Vec<PendingKey>,
        puts: Vec<PendingEvent>,
        done: Option<oneshot::Sender<()>>,
    ) {
        let event = Event::QueueChanged(self.queue_state());
        self.record_in_turn(None, event, None, drops, puts, done);
    }

    /// Returns the queue as it is shown.
    pub(super) fn queue_state(&self) -> PromptQueue {
        let to_queued_prompt = |(id, content): &KeyedMessage| QueuedPrompt {
            id: id.clone(),
            text: text::one_line(
                &text::strip_control_characters(&user_message(content.clone()).text()),
                SHOWN,
            ),
        };
        PromptQueue {
            paused: self.state.queue_paused,
            prompts: self.inbox.queued().iter().map(to_queued_prompt).collect(),
        }
    }

    fn queue_reply(&self) -> QueueReply {
        QueueReply {
            paused: self.state.queue_paused,
            prompts: self.inbox.queued().iter().cloned().collect(),
            ..QueueReply::default()
        }
    }

    /// Takes over the queue from the store, paused until the user wants it.
    pub(super) fn take_queue(&mut self, pending: &[PendingEvent]) {
        let queued = |row: &PendingEvent| match row {
            PendingEvent::Queued { key, content } => Some((key.clone(), content.clone())),
            _ => None,
        };
        self.inbox.set_queue(pending.iter().filter_map(queued).collect());
        self.state.queue_paused |= !self.inbox.queued().is_empty();
    }
}
