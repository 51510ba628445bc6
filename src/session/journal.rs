//! The journal: numbers what happens, and passes it to the store in order.
//!
//! It keeps the order of writes and the answers that wait for them. It must not know what an event means; the fold is
//! [`super::state`], and the store's own queue and its bound are [`crate::store`].

use std::collections::VecDeque;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::oneshot;

use super::command::Reply;
use crate::base::backpressure::SessionBudget;
use crate::domain::SessionId;
use crate::store::{PendingEvent, SkippedRow, StoreError, StoreHandle, StoreHealth, StoreWrite, WritePermit};

/// Events on their way to the store, and the answers that wait for them.
pub(super) struct Journal {
    session: SessionId,
    /// The number of the last event.
    seq: u64,
    /// Writes that wait for room in the store's queue.
    writes: VecDeque<StoreWrite>,
    /// Answers that wait until what they confirm is stored (I16).
    answers: FuturesUnordered<BoxFuture<'static, ()>>,
    /// Unreadable records that were not reported yet.
    skipped: Vec<SkippedRow>,
    /// The client reads what is recorded now in the page that it is loading.
    pub(super) is_loading_page: bool,
    pub(super) byte_budget: Arc<SessionBudget>,
}

impl Journal {
    pub(super) fn new(session: SessionId, byte_budget: Arc<SessionBudget>) -> Self {
        Self {
            session,
            seq: 0,
            writes: VecDeque::new(),
            answers: FuturesUnordered::new(),
            skipped: Vec::new(),
            is_loading_page: false,
            byte_budget,
        }
    }

    /// Numbers an event. The stored numbers have no gap (I6).
    pub(super) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    pub(super) fn push(&mut self, write: StoreWrite) {
        self.writes.push_back(write);
    }

    /// Stores something that no event records yet, and tells `done` when that is done.
    pub(super) fn put_pending(&mut self, pending: PendingEvent, done: Option<oneshot::Sender<()>>) {
        self.push(StoreWrite::Put {
            session: self.session.clone(),
            pending,
            done,
        });
    }

    /// The number of writes that wait, as a mark for [`Self::join_writes_since`].
    pub(super) fn mark(&self) -> usize {
        self.writes.len()
    }

    /// Makes one of all writes since `mark`: all or none of them is stored.
    pub(super) fn join_writes_since(&mut self, mark: usize) {
        let writes = self.writes.drain(mark..).collect();
        self.push(StoreWrite::Together(writes));
    }

    pub(super) fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// Returns whether nothing waits for the store.
    pub(super) fn is_idle(&self) -> bool {
        self.writes.is_empty() && self.answers.is_empty()
    }

    /// Uses the room that the store has granted, and whatever more there is.
    pub(super) fn send_writes(&mut self, granted: Result<WritePermit, StoreError>, store: &StoreHandle) {
        let Ok(permit) = granted else {
            // The store has ended with the server: nothing can be stored or shown any more.
            self.writes.clear();
            return;
        };
        if let Some(write) = self.writes.pop_front() {
            permit.send(write);
        }
        while let Some(write) = self.writes.pop_front() {
            if let Err(write) = store.try_send(write) {
                // Back to the front: writes keep their order (R-WIRE-1).
                self.writes.push_front(*write);
                break;
            }
        }
    }

    /// Returns what fires when everything that was recorded so far is stored and sent.
    pub(super) fn flush(&mut self) -> oneshot::Receiver<StoreHealth> {
        let (done, flushed) = oneshot::channel();
        self.push(StoreWrite::Barrier(done));
        flushed
    }

    /// Sends everything that waits to the store, and waits until it is stored and sent. Only for the session's end,
    /// when nothing else runs.
    pub(super) async fn flush_now(&mut self, store: &StoreHandle) -> Result<StoreHealth, StoreError> {
        while let Some(write) = self.writes.pop_front() {
            store.send(write).await?;
        }
        store.flush_writes().await
    }

    /// The number of the last durable event.
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    /// Goes on after event `seq`, as the store has it. `skipped` are records that could not be read.
    pub(super) fn restart_at(&mut self, seq: u64, skipped: Vec<SkippedRow>) {
        self.seq = seq;
        self.skipped = skipped;
    }

    pub(super) fn has_skipped(&self) -> bool {
        !self.skipped.is_empty()
    }

    pub(super) fn set_skipped(&mut self, skipped: Vec<SkippedRow>) {
        self.skipped = skipped;
    }

    /// Takes the unreadable records, which are reported once.
    pub(super) fn take_skipped(&mut self) -> Vec<SkippedRow> {
        std::mem::take(&mut self.skipped)
    }

    /// Answers with `answer` when the write that is given the returned sender is stored.
    pub(super) fn answer_stored<T: Send + 'static>(
        &mut self,
        reply: Reply<T>,
        answer: T,
    ) -> oneshot::Sender<()> {
        let (done, stored) = oneshot::channel();
        self.answer_after(stored, reply, answer);
        done
    }

    /// Answers with `answer` once `stored` fires.
    pub(super) fn answer_after<T: Send + 'static>(
        &mut self,
        stored: oneshot::Receiver<impl Send + 'static>,
        reply: Reply<T>,
        answer: T,
    ) {
        let answering = async move {
            let answer = match stored.await {
                Ok(_) => Ok(answer),
                Err(_) => Err(StoreError::Closed.into()),
            };
            // The caller may be gone.
            let _ = reply.send(answer);
        };
        self.answers.push(answering.boxed());
    }

    pub(super) fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Waits until the next answer has been given; `None` when none waits.
    pub(super) async fn next_answer(&mut self) -> Option<()> {
        self.answers.next().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::backpressure::ByteBudget;
    use crate::session::CommandError;

    fn new_journal() -> Journal {
        Journal::new(
            SessionId::from("ses_1"),
            ByteBudget::new(1 << 20).open_session(1 << 10),
        )
    }

    #[test]
    fn events_are_numbered_without_a_gap() {
        let mut journal = new_journal();
        assert_eq!([journal.next_seq(), journal.next_seq()], [1, 2]);
    }

    #[test]
    fn writes_since_a_mark_become_one() {
        let mut journal = new_journal();
        let (done, _stored) = oneshot::channel();
        journal.push(StoreWrite::Barrier(done));
        let mark = journal.mark();
        journal.put_pending(steer("a"), None);
        journal.put_pending(steer("b"), None);
        journal.join_writes_since(mark);
        assert_eq!(journal.writes.len(), 2);
        assert!(matches!(&journal.writes[1], StoreWrite::Together(writes) if writes.len() == 2));
    }

    #[tokio::test]
    async fn answer_waits_until_its_write_is_stored() {
        let mut journal = new_journal();
        let (reply, mut answer) = oneshot::channel();
        let done = journal.answer_stored(reply, 7);
        assert!(futures::poll!(Box::pin(journal.next_answer())).is_pending());
        assert!(answer.try_recv().is_err(), "nothing is confirmed yet");
        done.send(()).unwrap();
        journal.next_answer().await;
        assert_eq!(answer.await.unwrap(), Ok(7));
        assert!(journal.is_idle());
    }

    #[tokio::test]
    async fn answer_is_an_error_if_the_store_ends_first() {
        let mut journal = new_journal();
        let (reply, answer) = oneshot::channel();
        drop(journal.answer_stored(reply, ()));
        journal.next_answer().await;
        assert!(matches!(answer.await.unwrap(), Err(CommandError::Store(_))));
    }

    fn steer(key: &str) -> PendingEvent {
        PendingEvent::Steer {
            key: key.to_owned(),
            turn: None,
            content: Vec::new(),
        }
    }
}
