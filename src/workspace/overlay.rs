//! Owns the editor's open documents: the agent reads what the user sees (R-TOOL-3). One for the whole server.
//!
//! Notifications only touch memory, in order of arrival. Changes of parts of a text wait until
//! [`Overlay::apply_waiting_changes`] or a lookup applies them, because a text may be huge.
//!
//! Whether a document differs from the disk is found by comparing. That happens in [`Overlay::reconcile_with_disk`] (call
//! it off the async threads after open and save) and at every lookup. An editor reports neither that it reloaded a file
//! nor that an undo led back to the saved text. The text of a document that equals the disk is dropped (R-SESS-6).
//!
//! The server should request **full** document sync. With incremental sync, the first change of a clean document needs
//! the text before it, which is read back from the disk. If the disk has changed meanwhile, for example
//! by a formatter, the text is unknown until it is saved, opened again, or sent in full.
//! Must not know tools or the protocol's wire types.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::read_log::TextHash;
use super::resolve::real_path;
use super::text_file::{MAX_TEXT, TextFile, is_binary, is_displayed_as, unix_lines};
use super::watch::ExternalWrites;
use crate::base::nofollow::{self, OpenError, RegularFile};
use crate::base::position::{DocumentChange, PositionCursor, PositionEncoding};
use crate::base::uri;

/// What the editor has of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Nothing that is not on the disk too; also for a file that is not open.
    Saved,
    Unsaved(UnsavedDocument),
    /// Changes that could not be followed; the buffer may differ from the disk.
    Unknown,
}

/// An open document with unsaved text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsavedDocument {
    /// As the client writes it.
    pub uri: String,
    pub version: i32,
    pub text: Arc<str>,
}

/// An open document whose text is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedDocument {
    /// As the client writes it.
    pub uri: String,
    /// The version of `text`.
    pub version: i32,
    pub text: Arc<str>,
    /// Whether it contains text that is not on the disk.
    pub unsaved: bool,
}

/// All open documents. Documents that are not local files are ignored.
#[derive(Debug, Default)]
pub struct Overlay {
    open: Mutex<OpenDocuments>,
    external_writes: ExternalWrites,
}

#[derive(Debug, Default)]
struct OpenDocuments {
    encoding: PositionEncoding,
    by_uri: HashMap<String, OverlayEntry>,
    /// Several URIs may lead to the same file.
    by_path: HashMap<PathBuf, Vec<String>>,
    /// Texts that a caller waits for.
    expected: Vec<ExpectedEdit>,
}

#[derive(Debug)]
struct ExpectedEdit {
    uri: String,
    text: TextHash,
    sender: oneshot::Sender<()>,
}

/// Changes that wait to be applied, by notification.
type WaitingChanges = Vec<Arc<[DocumentChange]>>;

#[derive(Debug)]
struct OverlayEntry {
    path: PathBuf,
    version: i32,
    body: DocumentBody,
    /// What a held text does not contain yet.
    waiting: WaitingChanges,
    /// Held while they are applied, which happens without the lock of all documents.
    applying: Arc<Mutex<()>>,
}

#[derive(Debug)]
enum DocumentBody {
    /// Equal to the disk when compared. The hash recognizes the text when it is read back.
    Clean(TextHash),
    /// Not known to equal the disk.
    Held(Arc<str>),
    Lost,
}

impl Overlay {
    /// Sets the unit in which positions count characters. Call it before the first change.
    pub fn set_encoding(&self, encoding: PositionEncoding) {
        self.lock().encoding = encoding;
    }

    /// Records that the editor opened a document.
    pub fn did_open(&self, uri: &str, version: i32, text: &str) {
        let Some(path) = uri::path_of(uri).ok().and_then(|path| real_path(&path).ok()) else {
            return;
        };
        // A second open of the same URI must not leave a second entry.
        self.did_close(uri);
        let mut open = self.lock();
        open.notify_shown_text(uri, text);
        open.by_path.entry(path.clone()).or_default().push(uri.to_owned());
        let entry = OverlayEntry {
            path,
            version,
            body: DocumentBody::Held(text.into()),
            waiting: Vec::new(),
            applying: Arc::default(),
        };
        open.by_uri.insert(uri.to_owned(), entry);
    }

    /// Records a change of a document. See the module about incremental changes.
    ///
    /// Returns whether the caller has to let [`Overlay::apply_waiting_changes`] run on another thread.
    pub fn did_change(&self, uri: &str, version: i32, mut changes: Vec<DocumentChange>) -> bool {
        let mut open = self.lock();
        let Some(entry) = open.by_uri.get_mut(uri) else {
            return false;
        };
        entry.version = version;
        // Whatever precedes the last full text does not matter.
        if let Some(at) = changes.iter().rposition(|change| change.range.is_none()) {
            let later = changes.split_off(at + 1);
            let full = changes.swap_remove(at).text;
            changes = later;
            entry.replace_text(&full);
            if changes.is_empty() {
                open.notify_shown_text(uri, &full);
                return false;
            }
        }
        entry.hold_clean_text();
        if changes.is_empty() || !matches!(entry.body, DocumentBody::Held(_)) {
            return false;
        }
        entry.waiting.push(changes.into());
        entry.waiting.len() == 1
    }

    /// Applies the changes of a document that wait. Blocks: it copies the text.
    pub fn apply_waiting_changes(&self, uri: &str) {
        let applying = self.lock().by_uri.get(uri).map(|entry| entry.applying.clone());
        let Some(applying) = applying else {
            return;
        };
        let _applying = applying.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let open = self.lock();
            let Some((base, waiting)) = open.find_waiting_changes(uri) else {
                return;
            };
            let encoding = open.encoding;
            drop(open);
            let (mut text, mut cursor) = (base.to_string(), PositionCursor::default());
            for changes in &waiting {
                cursor.apply_changes(&mut text, changes, encoding);
                // After each notification: a user may type on right after an edit that is expected.
                self.lock().notify_shown_text(uri, &text);
            }
            self.lock().finish_changes(uri, &base, &text, waiting.len());
        }
    }

    /// Locks the documents once no change of these waits. Blocks.
    fn lock_up_to_date(&self, uris: &[impl AsRef<str>]) -> MutexGuard<'_, OpenDocuments> {
        loop {
            let open = self.lock();
            let is_behind = |uri: &&str| open.find_waiting_changes(uri).is_some();
            let Some(uri) = uris.iter().map(AsRef::as_ref).find(is_behind) else {
                return open;
            };
            drop(open);
            self.apply_waiting_changes(uri);
        }
    }

    /// Returns a receiver that fires when the editor next shows `text` in the document.
    ///
    /// Line ends and a final line end are ignored. Call it before asking the editor to edit: a user may type on right
    /// away.
    pub fn expect_text(&self, uri: &str, text: &str) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut open = self.lock();
        // Callers that gave up are removed here, so that the list cannot grow.
        open.expected.retain(|expected| !expected.sender.is_closed());
        open.expected.push(ExpectedEdit {
            uri: uri.to_owned(),
            text: hash_ignoring_final_newline(text),
            sender,
        });
        receiver
    }

    /// Returns the record of writes by others, which also learns of saved documents.
    pub fn external_writes(&self) -> &ExternalWrites {
        &self.external_writes
    }

    /// Returns the unit in which positions count characters.
    pub fn position_encoding(&self) -> PositionEncoding {
        self.lock().encoding
    }

    /// Records that the editor saved a document; `text` is given if the client sends it.
    pub fn did_save(&self, uri: &str, text: Option<&str>) {
        if let Some(entry) = self.lock().by_uri.get_mut(uri) {
            // A command that runs meanwhile must not be charged with the user's save.
            self.external_writes.write(&entry.path);
            match text {
                Some(text) => entry.replace_text(text),
                // Whatever was saved is on the disk now.
                None if matches!(entry.body, DocumentBody::Lost) => {
                    if let Some(text) = on_disk(&entry.path) {
                        entry.body = DocumentBody::Held(text.into());
                    }
                }
                None => {}
            }
        }
    }

    /// Records that the editor closed a document; unsaved text is gone.
    pub fn did_close(&self, uri: &str) {
        let mut open = self.lock();
        let Some(entry) = open.by_uri.remove(uri) else {
            return;
        };
        if let Some(uris) = open.by_path.get_mut(&entry.path) {
            uris.retain(|other| other != uri);
            if uris.is_empty() {
                open.by_path.remove(&entry.path);
            }
        }
    }

    /// Compares a document with the disk and drops its text if they are equal. Blocks.
    pub fn reconcile_with_disk(&self, uri: &str) {
        // The lock is not held while the disk is read: notifications must not wait for it.
        let held_document = self.lock_up_to_date(&[uri]).find_held_document(uri);
        if let Some((path, document)) = held_document
            && compare_with_disk(&path, &document.text) == VersionOrder::Same
        {
            self.mark_clean(&document);
        }
    }

    /// Returns what the editor has of the resolved `path`. Blocks: it compares with the disk.
    pub fn lookup_buffer(&self, path: &Path) -> Buffer {
        let uris = self.lock().by_path.get(path).cloned().unwrap_or_default();
        // Collect under the lock and compare without it, since comparing reads the disk.
        let (documents, lost) = {
            let open = self.lock_up_to_date(&uris);
            let documents: Vec<UnsavedDocument> = uris
                .iter()
                .filter_map(|uri| Some(open.find_held_document(uri)?.1))
                .collect();
            let lost = |uri: &String| matches!(open.by_uri.get(uri), Some(entry) if matches!(entry.body, DocumentBody::Lost));
            (documents, uris.iter().any(lost))
        };
        for document in documents {
            match compare_with_disk(path, &document.text) {
                VersionOrder::Same => self.mark_clean(&document),
                VersionOrder::BlankAndNew => {}
                VersionOrder::Different => return Buffer::Unsaved(document),
            }
        }
        if lost { Buffer::Unknown } else { Buffer::Saved }
    }

    /// Returns whether the editor has anything of `path` that is not on the disk. Blocks.
    pub fn is_dirty(&self, path: &Path) -> bool {
        self.lookup_buffer(path) != Buffer::Saved
    }

    /// Returns the document that is open for the resolved `path`; with several, the one with unsaved text. Blocks.
    ///
    /// `None` if none is open, or if its text is unknown, for example because the disk changed below a clean document.
    pub fn find_open_document(&self, path: &Path) -> Option<OpenedDocument> {
        let uris = self.lock().by_path.get(path).cloned().unwrap_or_default();
        let mut found = uris.iter().filter_map(|uri| self.find_opened_at(uri, path));
        let first = found.next()?;
        if first.unsaved {
            return Some(first);
        }
        Some(found.find(|other| other.unsaved).unwrap_or(first))
    }

    fn find_opened_at(&self, uri: &str, path: &Path) -> Option<OpenedDocument> {
        let (version, content) = {
            let open = self.lock_up_to_date(&[uri]);
            let entry = open.by_uri.get(uri)?;
            let content = match &entry.body {
                DocumentBody::Held(text) => Ok(text.clone()),
                DocumentBody::Clean(hash) => Err(*hash),
                DocumentBody::Lost => return None,
            };
            (entry.version, content)
        };
        let (text, unsaved) = match content {
            Ok(text) => {
                let unsaved = compare_with_disk(path, &text) == VersionOrder::Different;
                (text, unsaved)
            }
            Err(hash) => {
                let text = on_disk(path).filter(|text| TextHash::from_text(text) == hash)?;
                (text.into(), false)
            }
        };
        // The document may have changed while the disk was read.
        let still = self.lock().by_uri.get(uri).map(|entry| entry.version) == Some(version);
        still.then(|| OpenedDocument {
            uri: uri.to_owned(),
            version,
            text,
            unsaved,
        })
    }

    /// Returns how many texts are kept, and their total size in bytes.
    pub fn measure_held_texts(&self) -> (usize, usize) {
        let open = self.lock();
        open.by_uri
            .values()
            .fold((0, 0), |(count, bytes), entry| match &entry.body {
                DocumentBody::Held(text) => (count + 1, bytes + text.len()),
                DocumentBody::Clean(_) | DocumentBody::Lost => (count, bytes),
            })
    }

    fn mark_clean(&self, compared: &UnsavedDocument) {
        let mut open = self.lock();
        // Only the text that was compared: a change may have come meanwhile.
        if let Some(entry) = open.by_uri.get_mut(&compared.uri)
            && entry.waiting.is_empty()
            && matches!(&entry.body, DocumentBody::Held(text) if Arc::ptr_eq(text, &compared.text))
        {
            entry.body = DocumentBody::Clean(TextHash::from_text(&compared.text));
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenDocuments> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenDocuments {
    /// Notifies those who wait for the text that the editor now shows.
    fn notify_shown_text(&mut self, uri: &str, text: &str) {
        if !self.expected.iter().any(|expected| expected.uri == uri) {
            return;
        }
        let hash = hash_ignoring_final_newline(text);
        for expected in std::mem::take(&mut self.expected) {
            if expected.uri == uri && expected.text == hash {
                // The waiter may have given up.
                let _ = expected.sender.send(());
            } else if !expected.sender.is_closed() {
                self.expected.push(expected);
            }
        }
    }

    /// Returns the text of a document and the changes that wait to be applied to it, if there are any.
    fn find_waiting_changes(&self, uri: &str) -> Option<(Arc<str>, WaitingChanges)> {
        let entry = self.by_uri.get(uri).filter(|entry| !entry.waiting.is_empty())?;
        match &entry.body {
            DocumentBody::Held(text) => Some((text.clone(), entry.waiting.clone())),
            DocumentBody::Clean(_) | DocumentBody::Lost => None,
        }
    }

    /// Replaces the text by that with its first `count` waiting changes, unless it was replaced meanwhile.
    fn finish_changes(&mut self, uri: &str, base: &Arc<str>, text: &str, count: usize) {
        if let Some(entry) = self.by_uri.get_mut(uri)
            && matches!(&entry.body, DocumentBody::Held(held) if Arc::ptr_eq(held, base))
        {
            entry.body = DocumentBody::Held(text.into());
            entry.waiting.drain(..count);
        }
    }

    fn find_held_document(&self, uri: &str) -> Option<(PathBuf, UnsavedDocument)> {
        let entry = self.by_uri.get(uri)?;
        let DocumentBody::Held(text) = &entry.body else {
            return None;
        };
        let document = UnsavedDocument {
            uri: uri.to_owned(),
            version: entry.version,
            text: text.clone(),
        };
        Some((entry.path.clone(), document))
    }
}

impl OverlayEntry {
    /// Replaces the text, whatever changes wait.
    fn replace_text(&mut self, text: &str) {
        self.waiting.clear();
        self.body = DocumentBody::Held(text.into());
    }

    /// Reads a clean text back, so that a change can apply to it.
    fn hold_clean_text(&mut self) {
        if let DocumentBody::Clean(hash) = self.body {
            // The disk counts only while it still has the text that the editor had.
            let text = on_disk(&self.path).filter(|text| TextHash::from_text(text) == hash);
            self.body = text.map_or(DocumentBody::Lost, |text| DocumentBody::Held(text.into()));
        }
    }
}

/// Largest file that is compared with a document, in bytes.
const MAX_DOCUMENT: u64 = 4 * MAX_TEXT as u64;

fn on_disk(path: &Path) -> Option<String> {
    let bytes = nofollow::read(path, MAX_DOCUMENT).ok()?;
    Some(TextFile::from_bytes(bytes).ok()?.text)
}

/// Hashes a text without its last line end, which editors store apart from the text.
fn hash_ignoring_final_newline(text: &str) -> TextHash {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    TextHash::from_text(text.strip_suffix('\r').unwrap_or(text))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VersionOrder {
    Same,
    /// The file does not exist, and the document is blank.
    BlankAndNew,
    Different,
}

/// Ignores line ends: editors show a file with mixed ones as if it had one kind.
fn compare_with_disk(path: &Path, text: &str) -> VersionOrder {
    let mut file = match RegularFile::open(path) {
        Ok(file) => file,
        Err(OpenError::Missing) if text.trim().is_empty() => return VersionOrder::BlankAndNew,
        Err(_) => return VersionOrder::Different,
    };
    // No supported encoding turns one byte into more than four; this avoids reading a file that cannot be equal.
    let same = file
        .read(4 * text.len() as u64 + 16)
        .is_ok_and(|bytes| is_text_of(bytes, text));
    if same {
        VersionOrder::Same
    } else {
        VersionOrder::Different
    }
}

/// Whether `text` is what an editor shows of a file with these bytes. It may know an old encoding, or not.
fn is_text_of(bytes: Vec<u8>, text: &str) -> bool {
    if !is_binary(&bytes) && str::from_utf8(&bytes).is_err() && is_displayed_as(&bytes, text) {
        return true;
    }
    TextFile::from_any_bytes(bytes).is_ok_and(|disk| {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        unix_lines(&disk.text) == unix_lines(text)
    })
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::base::position::{Position, Range};

    struct DocumentPlace {
        _dir: TempDir,
        path: PathBuf,
        uri: String,
        overlay: Overlay,
    }

    fn create_test_document(disk: &str) -> DocumentPlace {
        let dir = TempDir::new().unwrap();
        let path = dir.path().canonicalize().unwrap().join("a b.txt");
        fs::write(&path, disk).unwrap();
        DocumentPlace {
            uri: uri::uri_of(&path),
            overlay: Overlay::default(),
            path,
            _dir: dir,
        }
    }

    fn make_full_change(text: &str) -> Vec<DocumentChange> {
        vec![DocumentChange {
            range: None,
            text: text.to_owned(),
        }]
    }

    fn insert(line: u32, text: &str) -> Vec<DocumentChange> {
        let at = Position { line, character: 0 };
        vec![DocumentChange {
            range: Some(Range { start: at, end: at }),
            text: text.to_owned(),
        }]
    }

    impl DocumentPlace {
        fn text(&self) -> Option<String> {
            match self.overlay.lookup_buffer(&self.path) {
                Buffer::Unsaved(document) => Some(document.text.to_string()),
                Buffer::Saved => None,
                Buffer::Unknown => Some("?".to_owned()),
            }
        }
    }

    #[test]
    fn unsaved_text_is_seen_and_saved_text_is_dropped() {
        let p = create_test_document("one\n");
        p.overlay.did_open(&p.uri, 1, "one\n");
        assert_eq!(p.overlay.measure_held_texts(), (1, 4));
        p.overlay.reconcile_with_disk(&p.uri);
        assert_eq!((p.overlay.measure_held_texts(), p.text()), ((0, 0), None));
        p.overlay.did_change(&p.uri, 2, make_full_change("two\n"));
        assert_eq!(p.text().as_deref(), Some("two\n"));
        assert!(p.overlay.is_dirty(&p.path));
        let opened = p.overlay.find_open_document(&p.path).unwrap();
        assert_eq!(
            (opened.version, opened.unsaved, &*opened.text),
            (2, true, "two\n")
        );
        fs::write(&p.path, "two\n").unwrap();
        p.overlay.did_save(&p.uri, None);
        p.overlay.reconcile_with_disk(&p.uri);
        assert_eq!((p.overlay.measure_held_texts(), p.text()), ((0, 0), None));
    }

    #[test]
    fn an_undo_or_a_reload_makes_a_document_clean_again() {
        let p = create_test_document("one\n");
        p.overlay.did_open(&p.uri, 1, "one\n");
        p.overlay.did_change(&p.uri, 2, make_full_change("two\n"));
        p.overlay.did_change(&p.uri, 3, make_full_change("one\n"));
        assert_eq!((p.text(), p.overlay.measure_held_texts()), (None, (0, 0)));
        fs::write(&p.path, "formatted\n").unwrap();
        p.overlay.did_change(&p.uri, 4, make_full_change("formatted\n"));
        assert_eq!(p.text(), None);
    }

    #[test]
    fn a_change_during_the_comparison_is_kept() {
        let p = create_test_document("one\n");
        p.overlay.did_open(&p.uri, 1, "one\n");
        let compared = p.overlay.lock().find_held_document(&p.uri).unwrap().1;
        p.overlay.did_change(&p.uri, 2, make_full_change("two\n"));
        p.overlay.mark_clean(&compared);
        assert_eq!(p.text().as_deref(), Some("two\n"));
    }

    #[test]
    fn line_ends_and_byte_order_marks_do_not_make_a_document_dirty() {
        let p = create_test_document("\u{feff}a\r\nb\nc");
        p.overlay.did_open(&p.uri, 1, "a\nb\nc");
        assert_eq!(p.text(), None);
    }

    #[test]
    fn incremental_changes_start_from_the_disk() {
        let p = create_test_document("one\r\ntwo\r\n");
        p.overlay.did_open(&p.uri, 1, "one\r\ntwo\r\n");
        p.overlay.reconcile_with_disk(&p.uri);
        p.overlay.did_change(&p.uri, 2, insert(1, "x"));
        p.overlay.did_change(&p.uri, 3, insert(0, "y"));
        assert_eq!(p.text().as_deref(), Some("yone\r\nxtwo\r\n"));
    }

    #[test]
    fn a_text_that_could_not_be_followed_is_unknown_until_sent_again() {
        let p = create_test_document("one\n");
        p.overlay.did_open(&p.uri, 1, "one\n");
        p.overlay.reconcile_with_disk(&p.uri);
        fs::write(&p.path, "other\n").unwrap();
        p.overlay.did_change(&p.uri, 2, insert(0, "x"));
        assert_eq!(p.overlay.lookup_buffer(&p.path), Buffer::Unknown);
        assert!(p.overlay.is_dirty(&p.path));
        p.overlay.did_change(&p.uri, 3, make_full_change("told\n"));
        assert_eq!(p.text().as_deref(), Some("told\n"));
        fs::write(&p.path, "told\n").unwrap();
        p.overlay.reconcile_with_disk(&p.uri);
        fs::write(&p.path, "other\n").unwrap();
        p.overlay.did_change(&p.uri, 4, insert(0, "x"));
        p.overlay.did_save(&p.uri, None);
        assert_eq!(p.text(), None);
    }

    #[test]
    fn closing_forgets_a_document_and_links_lead_to_the_same_file() {
        let p = create_test_document("one\n");
        let link = p.path.with_file_name("link");
        std::os::unix::fs::symlink(&p.path, &link).unwrap();
        let other = uri::uri_of(&link);
        p.overlay.did_open(&p.uri, 1, "one\n");
        p.overlay.did_open(&other, 1, "through the link\n");
        assert_eq!(p.text().as_deref(), Some("through the link\n"));
        p.overlay.did_close(&other);
        assert_eq!(p.text(), None);
        p.overlay.did_change(&other, 2, make_full_change("late"));
        assert_eq!(p.text(), None);
        p.overlay.did_open("untitled:x", 1, "text");
        assert_eq!(p.overlay.measure_held_texts(), (0, 0));
    }

    #[test]
    fn a_new_file_with_text_is_unsaved() {
        let p = create_test_document("");
        fs::remove_file(&p.path).unwrap();
        p.overlay.did_open(&p.uri, 0, "\n");
        assert_eq!(p.text(), None, "nothing was written yet");
        assert!(!p.overlay.find_open_document(&p.path).unwrap().unsaved);
        p.overlay.did_change(&p.uri, 1, make_full_change("x\n"));
        assert_eq!(p.text().as_deref(), Some("x\n"));
    }

    #[test]
    fn an_open_document_carries_the_version_of_its_text() {
        let p = create_test_document("one\r\n");
        assert_eq!(p.overlay.find_open_document(&p.path), None);
        p.overlay.did_open(&p.uri, 0, "one\r\n");
        for settled in [false, true] {
            if settled {
                p.overlay.reconcile_with_disk(&p.uri);
            }
            let opened = p.overlay.find_open_document(&p.path).unwrap();
            assert_eq!(
                (opened.version, opened.unsaved, &*opened.text),
                (0, false, "one\r\n")
            );
        }
        // A command changed the file, and the editor has not reloaded it: what it shows is unknown.
        fs::write(&p.path, "other\n").unwrap();
        assert_eq!(p.overlay.find_open_document(&p.path), None);
        p.overlay.did_change(&p.uri, 1, make_full_change("other\n"));
        assert!(!p.overlay.find_open_document(&p.path).unwrap().unsaved);
    }

    #[test]
    fn a_waiter_is_notified_once_its_text_was_shown() {
        let p = create_test_document("one\n");
        p.overlay.did_open(&p.uri, 1, "one\n");
        let mut confirmation = p.overlay.expect_text(&p.uri, "two\r\n");
        drop(p.overlay.expect_text(&p.uri, "nobody waits"));
        p.overlay.did_change(&p.uri, 2, make_full_change("tw\n"));
        assert!(confirmation.try_recv().is_err());
        p.overlay.did_change(&p.uri, 3, make_full_change("two"));
        p.overlay
            .did_change(&p.uri, 4, make_full_change("two and typed on"));
        assert_eq!(confirmation.try_recv(), Ok(()));
        assert!(p.overlay.lock().expected.is_empty());
    }

    #[test]
    fn changes_wait_until_the_text_is_needed() {
        let p = create_test_document("one\n");
        p.overlay.did_open(&p.uri, 1, "one\n");
        let mut confirmation = p.overlay.expect_text(&p.uri, "xone");
        assert!(
            p.overlay.did_change(&p.uri, 2, insert(0, "x")),
            "somebody must apply it"
        );
        assert!(
            !p.overlay.did_change(&p.uri, 3, insert(0, "y")),
            "the same one applies this"
        );
        assert_eq!(p.overlay.measure_held_texts(), (1, 4), "the text is as before");
        assert!(confirmation.try_recv().is_err());
        assert_eq!(p.text().as_deref(), Some("yxone\n"));
        assert_eq!(
            confirmation.try_recv(),
            Ok(()),
            "the text between the changes counts"
        );
        // A full text does not need the changes before it.
        assert!(p.overlay.did_change(&p.uri, 4, insert(0, "z")));
        assert!(!p.overlay.did_change(&p.uri, 5, make_full_change("two\n")));
        p.overlay.apply_waiting_changes(&p.uri);
        assert_eq!(p.text().as_deref(), Some("two\n"));
    }
}
