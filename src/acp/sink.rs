//! Where stored events go: through the feed of their session into the outbox, in order. The store's writer calls it.
//!
//! Keeps I7: an event reaches the client only after the store or a warning has it. What needs the runtime (timers,
//! questions to the client) is passed on as a [`FeedSignal`].

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::feed::{FeedOptions, ReplayTail, SessionFeed, to_notification};
use super::opening::{Opening, Openings};
use super::updates::Notice;
use crate::base::clock::{self, Instant};
use crate::domain::{
    Approval, DeltaEnvelope, Envelope, Event, EventSink, FileLocation, Inquiry, SessionId, ToolCallId,
};
use crate::transport::outbox::{Outbox, Outgoing};

/// What the sink leaves to a task.
#[derive(Debug)]
pub(super) enum FeedSignal {
    /// The feed of a session has something to release at this time.
    Due(SessionId, Instant),
    Question(ClientQuestion),
    /// The question with this id is settled.
    Settled(String),
    /// The user has canceled. That dismisses what an interrupted turn has left open; a running turn settles its own.
    Canceled(SessionId),
    /// A client closes the session. The sender is dropped once its questions are withdrawn.
    Closing(SessionId, oneshot::Sender<()>),
    /// The session's model, effort or mode has changed.
    OptionsChanged(SessionId),
}

/// A question to the client's user.
#[derive(Debug)]
pub(super) struct ClientQuestion {
    pub(super) session: SessionId,
    pub(super) subject: QuestionSubject,
    /// An interrupted turn has left it open. The last answer resumes the turn.
    pub(super) is_left_open: bool,
}

/// What a question is about.
#[derive(Debug)]
pub(super) enum QuestionSubject {
    /// An approval, and the places of its call.
    Approval(Box<Approval>, Vec<FileLocation>),
    Inquiry(Arc<Inquiry>),
}

impl ClientQuestion {
    /// Returns the id of the approval or the inquiry.
    pub(super) fn id(&self) -> &str {
        match &self.subject {
            QuestionSubject::Approval(approval, _) => approval.id.as_str(),
            QuestionSubject::Inquiry(inquiry) => inquiry.id.as_str(),
        }
    }
}

/// The feeds of all sessions; clones share them.
#[derive(Clone)]
pub(super) struct Feeds {
    outbox: Outbox,
    shared: Arc<Mutex<BTreeMap<SessionId, FeedSlot>>>,
    signals: mpsc::UnboundedSender<FeedSignal>,
    openings: Openings,
}

struct FeedSlot {
    feed: SessionFeed,
    /// The time that was signaled last.
    signaled: Option<Instant>,
    /// The places of calls that may need approval.
    places: HashMap<ToolCallId, Vec<FileLocation>>,
}

impl Feeds {
    pub(super) fn new(outbox: Outbox, signals: mpsc::UnboundedSender<FeedSignal>) -> Self {
        Self {
            outbox,
            shared: Arc::default(),
            signals,
            openings: Openings::default(),
        }
    }

    /// Sets how a session is shown from now on.
    pub(super) fn set_options(&self, session: &SessionId, options: FeedOptions) {
        self.with_feed(session, |slot| {
            slot.feed.set_options(options);
            Vec::new()
        });
    }

    /// Forgets a session.
    pub(super) fn remove(&self, session: &SessionId) {
        self.shared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(session);
    }

    /// Sends an update of a session, after everything that its feed has sent.
    pub(super) fn send(&self, session: &SessionId, update: Value) {
        self.outbox.push(to_notification(session.as_str(), update, None));
    }

    /// Sends a session's list of commands as of a change of MCP servers, unless the client has a newer one, or the same
    /// and the session was not opened again.
    pub(super) fn show_commands(&self, session: &SessionId, change: u64, update: Value, is_opened: bool) {
        self.with_feed(session, |slot| slot.feed.show_commands(change, update, is_opened));
    }

    /// Returns the sessions whose client has a list of commands.
    pub(super) fn list_sessions_with_commands(&self) -> Vec<SessionId> {
        let feeds = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let with_commands = feeds.iter().filter(|(_, slot)| slot.feed.shows_commands());
        with_commands.map(|(session, _)| session.clone()).collect()
    }

    /// Forgets the notes of earlier loads that are not among these.
    pub(super) fn begin_notes(&self, session: &SessionId, notes: &[Notice]) {
        self.with_feed(session, |slot| {
            slot.feed.begin_notes(notes);
            Vec::new()
        });
    }

    /// Shows something outside a turn.
    pub(super) fn add_note(&self, session: &SessionId, notice: Notice) {
        self.with_feed(session, |slot| slot.feed.add_note(notice));
    }

    /// Releases what is due in a session.
    pub(super) fn handle_timer(&self, session: &SessionId) {
        self.with_feed(session, |slot| {
            slot.signaled = None;
            slot.feed.handle_timer(clock::now())
        });
    }

    /// Returns how a session is shown.
    pub(super) fn options(&self, session: &SessionId) -> FeedOptions {
        let feeds = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        feeds
            .get(session)
            .map(|slot| slot.feed.options().clone())
            .unwrap_or_default()
    }

    /// Begins to replay a session's history. To be called before its snapshot is taken.
    pub(super) fn begin_replay(&self, session: &SessionId) -> ReplayGuard {
        self.with_feed(session, |slot| {
            slot.feed.begin_replay();
            Vec::new()
        });
        ReplayGuard {
            feeds: self.clone(),
            session: session.clone(),
            tail: ReplayTail::default(),
        }
    }

    /// Notes from now on which questions of a session are settled. To be called before its snapshot is taken.
    pub(super) fn begin_opening(&self, session: &SessionId) -> Opening {
        self.openings.begin(session)
    }

    /// Asks what an earlier turn has left open, unless it was settled since the opening began.
    pub(super) fn ask_again(&self, opening: &Opening, question: ClientQuestion) {
        let id = question.id().to_owned();
        opening.ask_if_open(&id, || self.signal(FeedSignal::Question(question)));
    }

    /// Dismisses what an interrupted turn has left open in a session.
    pub(super) fn dismiss_left_open(&self, session: &SessionId) {
        self.signal(FeedSignal::Canceled(session.clone()));
    }

    /// Withdraws the questions of a session. Once this returns, the session gets no answer to them.
    pub(super) async fn withdraw_questions(&self, session: &SessionId) {
        let (done, withdrawn) = oneshot::channel();
        self.signal(FeedSignal::Closing(session.clone(), done));
        // The sender is only dropped.
        let _ = withdrawn.await;
    }

    /// Lets a feed act, and sends what it returns. Pushed under the lock, so that a feed's order is that of the outbox.
    fn with_feed(&self, session: &SessionId, act: impl FnOnce(&mut FeedSlot) -> Vec<Outgoing>) {
        let mut feeds = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = feeds.entry(session.clone()).or_insert_with(|| FeedSlot {
            feed: SessionFeed::new(session.as_str(), FeedOptions::default()),
            signaled: None,
            places: HashMap::new(),
        });
        for item in act(slot) {
            self.outbox.push(item);
        }
        if let Some(due) = slot.feed.next_due()
            && slot.signaled.is_none_or(|signaled| due < signaled)
        {
            slot.signaled = Some(due);
            self.signal(FeedSignal::Due(session.clone(), due));
        }
    }

    fn signal(&self, signal: FeedSignal) {
        // The task is gone only at the end.
        let _ = self.signals.send(signal);
    }

    fn signal_event(&self, session: &SessionId, event: &Event, places: Vec<FileLocation>) {
        let ask = |subject| {
            self.signal(FeedSignal::Question(ClientQuestion {
                session: session.clone(),
                subject,
                is_left_open: false,
            }));
        };
        let settle = |id: &str| {
            self.openings.settle(session, id);
            self.signal(FeedSignal::Settled(id.to_owned()));
        };
        match event {
            Event::ApprovalRequested(approval) => {
                ask(QuestionSubject::Approval(Box::new(approval.clone()), places));
            }
            Event::ApprovalResolved { approval, .. } => settle(approval.as_str()),
            Event::InquiryRequested(inquiry) => ask(QuestionSubject::Inquiry(inquiry.clone())),
            Event::InquiryResolved { inquiry, .. } => settle(inquiry.id.as_str()),
            Event::SessionUpdated {
                mode, model, effort, ..
            } if mode.is_some() || model.is_some() || effort.is_some() => {
                self.signal(FeedSignal::OptionsChanged(session.clone()));
            }
            _ => {}
        }
    }
}

/// A replay of a session's history. Its drop shows what the replay leaves to the feed.
pub(super) struct ReplayGuard {
    feeds: Feeds,
    session: SessionId,
    pub(super) tail: ReplayTail,
}

impl Drop for ReplayGuard {
    fn drop(&mut self) {
        let tail = &self.tail;
        self.feeds
            .with_feed(&self.session, |slot| slot.feed.end_replay(tail, clock::now()));
    }
}

impl EventSink for Feeds {
    fn publish_event(&mut self, mut envelope: Envelope) {
        let session = envelope.session.clone();
        // What the client is loading comes with the replay, and its open questions after it.
        let in_page = envelope.in_page;
        let mut places = Vec::new();
        self.with_feed(&session, |slot| {
            match &envelope.event {
                Event::ToolCall(update) if update.status.is_final() => {
                    slot.places.remove(&update.id);
                }
                Event::ToolCall(update) if !update.locations.is_empty() => {
                    slot.places.insert(update.id.clone(), update.locations.clone());
                }
                Event::ApprovalRequested(approval) => {
                    places = slot.places.get(&approval.tool_call).cloned().unwrap_or_default();
                }
                _ => {}
            }
            if in_page {
                Vec::new()
            } else {
                slot.feed.handle_event(&mut envelope)
            }
        });
        let is_question = matches!(
            envelope.event,
            Event::ApprovalRequested(_) | Event::InquiryRequested(_)
        );
        if !(in_page && is_question) {
            self.signal_event(&session, &envelope.event, places);
        }
    }

    fn publish_delta(&mut self, envelope: DeltaEnvelope) {
        if envelope.in_page {
            return;
        }
        let session = envelope.session.clone();
        self.with_feed(&session, |slot| slot.feed.handle_delta(envelope, clock::now()));
    }

    fn publish_warning(&mut self, code: &str, message: &str) {
        tracing::warn!(code, message, "a warning that belongs to no session");
        let feeds = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions: Vec<SessionId> = feeds.keys().cloned().collect();
        drop(feeds);
        for session in sessions {
            self.add_note(&session, Notice::new("warning", code, message));
        }
    }
}
