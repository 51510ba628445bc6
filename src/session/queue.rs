//! The queue of prompts that wait for the turn's end. They are durable once they are accepted (I16), and each starts
//! when its turn comes.
//!
//! A turn that did not complete pauses the queue (R-CANCEL), until the user sends a prompt or a later turn completes. A
//! queue that a starting server finds in the store is paused too, because nobody expects a turn then.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use super::actor::Actor;
use super::command::{CommandError, QueueAction, QueueReply, Reply};
use super::commands::{make_title, user_message};
use crate::base::{random, text};
use crate::domain::{Block, Event, PromptQueue, QueuedPrompt, TurnId, TurnTrigger};
use crate::store::{PendingEvent, PendingKey};

/// The prompts of a session that may wait. More are rejected (R-ERR-2).
pub const MAX_QUEUED: usize = 100;

/// Characters of a prompt that the list shows.
const SHOWN: usize = 200;

impl Actor {
    /// Performs an action on the queue.
    pub(super) async fn handle_queue_action(&mut self, action: QueueAction, reply: Reply<QueueReply>) {
        if let Err(refused) = self.queue_ready(&action).await {
            let _ = reply.send(Err(refused));
            return;
        }
        match action {
            QueueAction::List => {
                let _ = reply.send(Ok(self.queue_reply()));
            }
            QueueAction::Add(content) => self.enqueue_prompt(content, reply).await,
            QueueAction::Edit(id, content) => {
                let content = match self.expand_slash_command(content).await {
                    Ok(content) => self.rewrite_references(content),
                    Err(refused) => return send_refusal(reply, refused),
                };
                match self.inbox.queue.iter_mut().find(|(known, _)| *known == id) {
                    Some((_, kept)) => kept.clone_from(&content),
                    None => return send_refusal(reply, CommandError::UnknownPrompt(id)),
                }
                let answer = self.queue_reply();
                let done = self.journal.answer_stored(reply, answer);
                self.record_queue_change(
                    Vec::new(),
                    vec![PendingEvent::Queued { key: id, content }],
                    Some(done),
                );
            }
            QueueAction::Remove(id) => {
                let Some(at) = self.inbox.queue.iter().position(|(known, _)| *known == id) else {
                    return send_refusal(reply, CommandError::UnknownPrompt(id));
                };
                self.inbox.queue.remove(at);
                let answer = self.queue_reply();
                let done = self.journal.answer_stored(reply, answer);
                self.record_queue_change(vec![PendingKey::for_queued(&id)], Vec::new(), Some(done));
            }
            QueueAction::SendNow(id) => self.send_now(id, reply).await,
        }
    }

    async fn queue_ready(&mut self, action: &QueueAction) -> Result<(), CommandError> {
        if *action == QueueAction::List {
            return self.ensure_row_loaded().await;
        }
        if self.residency.is_ending {
            return Err(CommandError::Ending);
        }
        self.check_writable()?;
        if self.turn.is_none() {
            self.open().await?;
        }
        Ok(())
    }

    async fn enqueue_prompt(&mut self, content: Vec<Block>, reply: Reply<QueueReply>) {
        if self.inbox.queue.len() >= MAX_QUEUED {
            return send_refusal(reply, CommandError::QueueFull);
        }
        // Expand a slash command now, while the user who typed it can still see an error.
        let content = match self.expand_slash_command(content).await {
            Ok(content) => self.rewrite_references(content),
            Err(refused) => return send_refusal(reply, refused),
        };
        let key = format!("queued_{}", random::random_token(12));
        self.inbox.queue.push_back((key.clone(), content.clone()));
        self.services.totals.queued_prompts.add(1);
        self.metrics.queued_prompts += 1;
        let pending = PendingEvent::Queued {
            key: key.clone(),
            content,
        };
        let (done, stored) = oneshot::channel();
        self.record_queue_change(Vec::new(), vec![pending], Some(done));
        // If no turn runs, the prompt starts immediately.
        let started = self.start_next_queued().await;
        let answer = QueueReply {
            added: Some(key),
            turn: started,
            ..self.queue_reply()
        };
        self.journal.answer_after(stored, reply, answer);
    }

    async fn send_now(&mut self, id: Option<String>, reply: Reply<QueueReply>) {
        let at = match &id {
            Some(id) => self.inbox.queue.iter().position(|(known, _)| known == id),
            None => (!self.inbox.queue.is_empty()).then_some(0),
        };
        let Some((key, content)) = at.and_then(|at| self.inbox.queue.remove(at)) else {
            return send_refusal(reply, CommandError::UnknownPrompt(id.unwrap_or_default()));
        };
        self.state.queue_paused = false;
        let listens = |turn: &super::active_turn::ActiveTurn| turn.control.takes_steers();
        let running = (self.turn.as_ref())
            .filter(|turn| listens(turn) && !self.state.is_compaction)
            .map(|turn| turn.id.clone());
        if let Some(turn) = running {
            // Into the running turn as a steer; the store moves it in one transaction, so that a crash cannot lose it
            // (I16).
            self.inbox.steers.push_back((key.clone(), content.clone()));
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
            return self.record_queue_change(vec![PendingKey::for_queued(&key)], vec![steer], Some(done));
        }
        self.inbox.queue.push_front((key, content));
        self.inbox.send_next_now = true;
        let (done, stored) = oneshot::channel();
        self.record_queue_change(Vec::new(), Vec::new(), Some(done));
        let started = self.start_next_queued().await;
        let answer = QueueReply {
            turn: started,
            ..self.queue_reply()
        };
        self.journal.answer_after(stored, reply, answer);
    }

    /// Starts the next prompt if it is due. After a turn that did not complete, announces that the queue is paused.
    pub(super) async fn start_next_queued(&mut self) -> Option<TurnId> {
        if self.turn.is_some() || self.inbox.queue.is_empty() || !self.residency.deleting.is_empty() {
            return None;
        }
        let due = std::mem::take(&mut self.inbox.send_next_now);
        if self.residency.is_ending || (self.state.queue_paused && !due) {
            self.record_queue_change(Vec::new(), Vec::new(), None);
            return None;
        }
        if let Err(refused) = self.may_start().await {
            // No caller waits for an answer: the prompt stays queued, and the user sees that the queue is paused.
            tracing::warn!(session = %self.info.id, %refused, "could not start a queued prompt");
            self.state.queue_paused = true;
            self.record_queue_change(Vec::new(), Vec::new(), None);
            return None;
        }
        let (key, content) = self.inbox.queue.pop_front()?;
        self.state.queue_paused = false;
        // `turnEnded` announces the end; no caller waits for an answer.
        let handle = self.start_prompt(TurnTrigger::Queue, make_title(&content), content, |actor| {
            // Dequeued in the transaction that starts the turn, so a crash can neither lose nor repeat it.
            actor.record_queue_change(vec![PendingKey::for_queued(&key)], Vec::new(), None);
        });
        Some(handle.turn)
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
        let shown = |(id, content): &(String, Vec<Block>)| QueuedPrompt {
            id: id.clone(),
            text: text::one_line(
                &text::strip_control_characters(&user_message(content.clone()).text()),
                SHOWN,
            ),
        };
        PromptQueue {
            paused: self.state.queue_paused,
            prompts: self.inbox.queue.iter().map(shown).collect(),
        }
    }

    fn queue_reply(&self) -> QueueReply {
        QueueReply {
            paused: self.state.queue_paused,
            prompts: self.inbox.queue.iter().cloned().collect(),
            ..QueueReply::default()
        }
    }

    /// Takes over the queue from the store, paused until the user wants it.
    pub(super) fn take_queue(&mut self, pending: &[PendingEvent]) {
        let queued = |row: &PendingEvent| match row {
            PendingEvent::Queued { key, content } => Some((key.clone(), content.clone())),
            _ => None,
        };
        self.inbox.queue = pending.iter().filter_map(queued).collect::<VecDeque<_>>();
        self.state.queue_paused |= !self.inbox.queue.is_empty();
    }
}

fn send_refusal(reply: Reply<QueueReply>, refused: CommandError) {
    // The caller may be gone.
    let _ = reply.send(Err(refused));
}
