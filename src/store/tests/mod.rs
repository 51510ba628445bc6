//! The store as a whole, through its public interface and over real files.

mod damage;
mod degraded;
mod past_versions;
mod reading;
pub(super) mod samples;
mod writing;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use super::*;
use crate::base::spawn::{AbortOnDrop, spawn};
use crate::domain::*;

/// Everything that reached the outlet, as short words: `m1` a durable event, `+text` a delta, `!text` a warning.
#[derive(Clone, Default)]
pub(super) struct PublishedWords(Arc<Mutex<Vec<String>>>);

impl PublishedWords {
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn push(&self, word: String) {
        self.0.lock().unwrap().push(word);
    }
}

/// An outlet that records each event, and whether it was in the database by then.
pub(super) struct Witness {
    published: PublishedWords,
    database: std::path::PathBuf,
}

impl EventSink for Witness {
    fn publish_event(&mut self, envelope: Envelope) {
        let seq = envelope.seq;
        let stored = is_stored(&self.database, &envelope.session, seq);
        let page = if envelope.in_page { " in page" } else { "" };
        let word = format!("{}{seq}{page}", if stored { "stored " } else { "unstored " });
        self.published.push(word);
    }

    fn publish_delta(&mut self, envelope: DeltaEnvelope) {
        self.published.push(format!("+{}", envelope.delta.text()));
    }

    fn publish_warning(&mut self, code: &str, message: &str) {
        self.published.push(format!("!{code}: {message}"));
    }
}

fn is_stored(database: &Path, session: &SessionId, seq: u64) -> bool {
    let Ok(connection) = Connection::open(database) else {
        return false;
    };
    let Ok(Some(num)) = apply::find_session_number(&connection, session) else {
        return false;
    };
    connection
        .prepare("SELECT 1 FROM events WHERE id = ?")
        .unwrap()
        .exists([apply::event_id(num, seq)])
        .unwrap()
}

/// A store that runs inline in a folder of its own.
pub(super) struct StoreFixture {
    pub(super) folder: Arc<tempfile::TempDir>,
    pub(super) store: Store,
    pub(super) published: PublishedWords,
    pub(super) commits: Arc<AtomicUsize>,
    pub(super) fault: Arc<Mutex<Option<WriteFault>>>,
    driver: Option<AbortOnDrop<()>>,
}

impl StoreFixture {
    pub(super) fn new() -> Self {
        Self::in_folder(Arc::new(tempfile::tempdir().unwrap()))
    }

    /// Another server on the same store.
    pub(super) fn in_folder(folder: Arc<tempfile::TempDir>) -> Self {
        let published = PublishedWords::default();
        let (commits, fault) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(None)));
        let hook = {
            let (commits, fault) = (commits.clone(), fault.clone());
            Box::new(move || {
                commits.fetch_add(1, Ordering::Relaxed);
                *fault.lock().unwrap()
            })
        };
        let witness = Witness {
            published: published.clone(),
            database: folder.path().join("store.db"),
        };
        let (store, driver) = Store::start_inline(folder.path().to_owned(), Box::new(witness), Some(hook));
        Self {
            folder,
            store,
            published,
            commits,
            fault,
            driver: Some(spawn(driver)),
        }
    }

    pub(super) fn commits(&self) -> usize {
        self.commits.swap(0, Ordering::Relaxed)
    }

    pub(super) fn set_fault(&self, fault: Option<WriteFault>) {
        *self.fault.lock().unwrap() = fault;
    }

    pub(super) async fn send(&self, write: StoreWrite) {
        self.store.writes.send(write).await.unwrap();
    }

    pub(super) async fn barrier(&self) -> StoreHealth {
        self.store.writes.flush_writes().await.unwrap()
    }

    /// Creates the sessions.
    pub(super) async fn create(&self, ids: &[&str]) {
        for (at, id) in ids.iter().enumerate() {
            let row = SessionRow::new((*id).into(), "/w", "/w", 1_000 + at as i64);
            self.send(StoreWrite::Row(RowWrite::CreateSession(Box::new(row))))
                .await;
        }
        self.barrier().await;
        self.published.take();
        self.commits();
    }

    pub(super) fn database(&self) -> Connection {
        Connection::open(self.folder.path().join("store.db")).unwrap()
    }

    /// Kills the server: nothing is flushed, closed or reported.
    pub(super) fn kill(mut self) -> Arc<tempfile::TempDir> {
        drop(self.driver.take());
        self.folder.clone()
    }

    /// Ends the server in an orderly way.
    pub(super) async fn close(mut self) -> (Arc<tempfile::TempDir>, PublishedWords) {
        drop(self.store);
        self.driver.take().unwrap().await.unwrap();
        (self.folder, self.published)
    }
}

pub(super) fn envelope(session: &str, seq: u64, event: Event) -> Envelope {
    Envelope {
        session: session.into(),
        turn: Some("turn_1".into()),
        seq,
        at_ms: 2_000 + seq as i64,
        event,
        permit: None,
        in_page: false,
    }
}

pub(super) fn append(session: &str, seq: u64, event: Event) -> StoreWrite {
    StoreWrite::Append {
        envelope: envelope(session, seq, event),
        drops: Vec::new(),
        puts: Vec::new(),
        done: None,
    }
}

/// Builds the same write for an event that the client reads in a page.
pub(super) fn append_in_page(session: &str, seq: u64, event: Event) -> StoreWrite {
    StoreWrite::Append {
        envelope: Envelope {
            in_page: true,
            ..envelope(session, seq, event)
        },
        drops: Vec::new(),
        puts: Vec::new(),
        done: None,
    }
}

pub(super) fn delta(session: &str, text: &str) -> StoreWrite {
    StoreWrite::Delta(DeltaEnvelope {
        session: session.into(),
        turn: Some("turn_1".into()),
        delta: Delta::Text {
            message: "msg_1".into(),
            offset: 0,
            text: text.into(),
        },
        permit: None,
        in_page: false,
    })
}

pub(super) fn build_warning(text: &str) -> Event {
    Event::Warning {
        code: "x".into(),
        message: text.into(),
    }
}

pub(super) fn build_message(id: &str, role: Role, text: &str) -> Event {
    Event::Message(Arc::new(Message {
        id: id.into(),
        role,
        content: vec![Block::Text(text.into())],
        incomplete: false,
        hidden: false,
    }))
}

pub(super) fn seqs(page: &EventPage) -> Vec<u64> {
    page.events.iter().map(|event| event.seq).collect()
}
