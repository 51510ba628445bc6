//! Questions that are settled while a session is being opened.
//!
//! Whoever opens a session asks again what is open in its snapshot, which may be older than the events that have passed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::SessionId;

/// The sessions that are being opened; clones share them.
#[derive(Clone, Default)]
pub(super) struct Openings(Arc<Mutex<HashMap<SessionId, Settled>>>);

#[derive(Default)]
struct Settled {
    /// How many requests open the session.
    openings: usize,
    ids: HashSet<String>,
}

impl Openings {
    /// Notes from now on what is settled in a session, until the value is dropped.
    ///
    /// To be called before the snapshot is taken.
    pub(super) fn begin(&self, session: &SessionId) -> Opening {
        self.lock().entry(session.clone()).or_default().openings += 1;
        Opening {
            openings: self.clone(),
            session: session.clone(),
        }
    }

    /// Notes that a question is settled. To be called before anything is told of it.
    pub(super) fn settle(&self, session: &SessionId, id: &str) {
        if let Some(settled) = self.lock().get_mut(session) {
            settled.ids.insert(id.to_owned());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Settled>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that is being opened.
pub(super) struct Opening {
    openings: Openings,
    session: SessionId,
}

impl Opening {
    /// Calls `ask` unless the question was settled meanwhile.
    pub(super) fn ask_if_open(&self, id: &str, ask: impl FnOnce()) {
        // Under the lock, so that a settlement is told after the question.
        let openings = self.openings.lock();
        let is_settled = openings
            .get(&self.session)
            .is_some_and(|settled| settled.ids.contains(id));
        if !is_settled {
            ask();
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        let mut openings = self.openings.lock();
        if let Some(settled) = openings.get_mut(&self.session) {
            settled.openings -= 1;
            if settled.openings == 0 {
                openings.remove(&self.session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_still_open_is_asked_again() {
        let openings = Openings::default();
        let session = SessionId::from("ses_1");
        let asks = |opening: &Opening, id: &str| {
            let mut asked = false;
            opening.ask_if_open(id, || asked = true);
            asked
        };
        // Before: the snapshot has it as settled.
        openings.settle(&session, "a");
        let first = openings.begin(&session);
        let second = openings.begin(&session);
        openings.settle(&session, "b");
        openings.settle(&SessionId::from("ses_2"), "c");
        drop(first);
        assert_eq!(["a", "b", "c"].map(|id| asks(&second, id)), [true, false, true]);
        drop(second);
        assert!(openings.lock().is_empty());
    }
}
