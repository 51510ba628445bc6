//! The client's documents, read and written through `fs/*` (R-ACP): unsaved buffers are the truth here too.
//!
//! A client of this protocol does not report its documents. So each file is read from it before a call touches the
//! file, and the overlay then knows the buffer. An edit is made only in the text that the call has seen: the buffer is
//! read again first, and once more afterwards, because only the text shows that the edit was made.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::client::ClientFacts;
use super::links::linked_file;
use super::params::{ContentBlock, FileText};
use crate::base::clock;
use crate::base::lexical_path::normalize_path;
use crate::base::position::{DocumentChange, apply_changes};
use crate::base::spawn::run_blocking;
use crate::base::text::one_line;
use crate::base::{nofollow, uri};
use crate::domain::SessionId;
use crate::tool::{DocumentEdit, EditorAbilities, EditorError, EditorLink};
use crate::transport::ClientRequests;
use crate::workspace::text_file::unix_lines;
use crate::workspace::{Buffer, WorkspaceShared};

/// Time after which an unanswered request counts as failed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The same after a request that was not answered, until the client answers one or the next prompt begins.
const SILENT_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest file that is read from the client, in bytes; longer ones are read from the disk only.
const MAX_SYNCED: u64 = 8 << 20;
/// Documents with unsaved text that are read again before a call that names no file, such as a search.
const MAX_REFRESHED: usize = 20;

/// Reaches the client's documents.
#[derive(Clone)]
pub(super) struct AcpEditor {
    facts: Arc<ClientFacts>,
    requests: ClientRequests,
    workspace: Arc<WorkspaceShared>,
    documents: Arc<Mutex<BTreeMap<PathBuf, SyncedDocument>>>,
    folders: Arc<Mutex<BTreeMap<SessionId, SessionFolder>>>,
    /// No two texts have the same version, not even those of a document that was forgotten in between: an edit must not
    /// be made in a text that it was not built for.
    last_version: Arc<AtomicI32>,
    /// The client has not answered the last request in time.
    is_silent: Arc<AtomicBool>,
}

/// A document as it was last read from the client.
#[derive(Clone)]
struct SyncedDocument {
    session: SessionId,
    /// A hash of the last text that was equal to the file. A buffer that shows it has nothing unsaved.
    saved: Option<u64>,
}

/// The folder of a session that the client has opened through a link.
struct SessionFolder {
    real: PathBuf,
    named: PathBuf,
}

impl AcpEditor {
    pub(super) fn new(
        facts: Arc<ClientFacts>,
        requests: ClientRequests,
        workspace: Arc<WorkspaceShared>,
    ) -> Self {
        Self {
            facts,
            requests,
            workspace,
            documents: Arc::default(),
            folders: Arc::default(),
            last_version: Arc::default(),
            is_silent: Arc::default(),
        }
    }

    fn can_read(&self) -> bool {
        ClientFacts::has(&self.facts.reads_files)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, SyncedDocument>> {
        // The lock guards plain values: a panic elsewhere leaves them valid.
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_folders(&self) -> MutexGuard<'_, BTreeMap<SessionId, SessionFolder>> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records how the client names the folder of a session. It knows its documents by that name.
    pub(super) fn note_folder(&self, session: &SessionId, real: &Path, named: &Path) {
        let (real, named) = (real.to_path_buf(), normalize_path(named));
        self.lock_folders()
            .insert(session.clone(), SessionFolder { real, named });
    }

    /// Forgets a session that the client has closed.
    pub(super) fn forget_folder(&self, session: &SessionId) {
        self.lock_folders().remove(session);
    }

    /// Returns the path by which the client knows a file or a folder.
    pub(super) fn client_path(&self, session: &SessionId, path: &Path) -> PathBuf {
        let folders = self.lock_folders();
        let named = folders.get(session).and_then(|folder| {
            let rest = path.strip_prefix(&folder.real).ok()?;
            Some(folder.named.join(rest).components().collect())
        });
        named.unwrap_or_else(|| path.to_path_buf())
    }

    async fn request(&self, method: &'static str, params: Value) -> Result<Value, EditorError> {
        let mut pending = self.requests.send(method, &params);
        let limit = if self.is_silent.load(Ordering::Relaxed) {
            SILENT_TIMEOUT
        } else {
            REQUEST_TIMEOUT
        };
        let answer = clock::timeout(limit, pending.wait()).await;
        self.is_silent.store(answer.is_err(), Ordering::Relaxed);
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(problem)) => Err(EditorError::Refused(one_line(&problem, 300))),
            Err(_) => Err(EditorError::Silent(limit)),
        }
    }

    /// Reads the client's text of a file.
    async fn read_text(&self, session: &SessionId, path: &Path) -> Result<String, EditorError> {
        let read = |path: &Path| {
            let params = json!({"sessionId": session.as_str(), "path": path});
            self.request("fs/read_text_file", params)
        };
        let named = self.client_path(session, path);
        let answer = match read(&named).await {
            Err(EditorError::Refused(_)) if named != path => {
                let answer = read(path).await?;
                // Its documents have other names than its folder.
                self.forget_folder(session);
                answer
            }
            answer => answer?,
        };
        match serde_json::from_value::<FileText>(answer) {
            Ok(text) => Ok(text.content),
            Err(_) => Err(EditorError::Failed("its answer is malformed".to_owned())),
        }
    }

    /// Reads a file from the client into the overlay.
    ///
    /// A file that the client cannot read is not open there, unless it had unsaved text: that text counts until the
    /// client answers, so that no edit is made on the disk below it.
    async fn sync_file(&self, session: &SessionId, path: &Path) {
        let text = self.read_text(session, path).await;
        let (editor, session, path) = (self.clone(), session.clone(), path.to_path_buf());
        let noted = run_blocking(move || match text {
            Ok(text) => editor.note_text(&session, &path, &text),
            Err(error) => {
                tracing::debug!(%error, "a file was not read from the client");
                if !editor.workspace.overlay().is_dirty(&path) {
                    editor.forget(&path);
                }
            }
        });
        if let Err(error) = noted.await {
            tracing::warn!(%error, "a document was not compared with its file");
        }
    }

    /// Begins a prompt: reads the files that it links to.
    pub(super) async fn begin_prompt(&self, session: &SessionId, prompt: &[ContentBlock]) {
        self.is_silent.store(false, Ordering::Relaxed);
        let files: Vec<PathBuf> = prompt.iter().filter_map(linked_file).collect();
        if !files.is_empty() {
            self.sync_documents(session, &files).await;
        }
    }

    /// Records what the client has of a file. Blocks: it compares with the disk.
    fn note_text(&self, session: &SessionId, path: &Path, text: &str) {
        let overlay = self.workspace.overlay();
        let uri = uri::uri_of(path);
        let hash = hash_text(text);
        let mut saved = self.lock().get(path).and_then(|known| known.saved);
        // The version of a text stays while the text does, or an edit of it would be refused.
        let same = overlay
            .find_open_document(path)
            .filter(|opened| &*opened.text == text);
        let version = same.map_or_else(
            || self.last_version.fetch_add(1, Ordering::Relaxed).wrapping_add(1),
            |opened| opened.version,
        );
        overlay.did_open(&uri, version, text);
        if overlay.lookup_buffer(path) == Buffer::Saved {
            saved = Some(hash);
        } else if saved == Some(hash) {
            // The file has changed below a clean buffer that the client has not loaded again yet.
            overlay.did_close(&uri);
        }
        let document = SyncedDocument {
            session: session.clone(),
            saved,
        };
        self.lock().insert(path.to_path_buf(), document);
    }

    fn forget(&self, path: &Path) {
        self.workspace.overlay().did_close(&uri::uri_of(path));
        self.lock().remove(path);
    }

    /// Returns the known documents with unsaved text. Blocks.
    fn list_unsaved(&self) -> Vec<PathBuf> {
        let known: Vec<PathBuf> = self.lock().keys().cloned().collect();
        let unsaved = known
            .into_iter()
            .filter(|path| self.workspace.overlay().is_dirty(path));
        unsaved.take(MAX_REFRESHED).collect()
    }

    async fn apply_edit(self, edit: DocumentEdit) -> Result<(), EditorError> {
        let failed = |reason: &str| EditorError::Failed(reason.to_owned());
        let path = uri::path_of(&edit.uri).map_err(|_| failed("the document is not a file"))?;
        let Some(document) = self.lock().get(&path).cloned() else {
            return Err(failed("the document is not open"));
        };
        let (session, inner) = (document.session, self.clone());
        let now = self.read_text(&session, &path).await?;
        let opened = {
            let path = path.clone();
            run_blocking(move || inner.workspace.overlay().find_open_document(&path)).await
        };
        let Ok(Some(opened)) = opened else {
            return Err(failed("the document is not open"));
        };
        // Not the version from before the reading: meanwhile another call may have noted the text that was read.
        let is_current = opened.version == edit.version;
        if !is_current || unix_lines(&now) != unix_lines(&opened.text) {
            // The tool then finds the newer text and shows it to the model. Another call may have noted it already.
            if is_current {
                self.clone().note_text_async(session, path, now).await;
            }
            return Err(EditorError::Refused("the text has changed meanwhile".to_owned()));
        }
        let mut text = now;
        let encoding = self.workspace.overlay().position_encoding();
        // All positions refer to the text before the edit, so the last edit is made first.
        let mut edits = edit.edits;
        edits.sort_by_key(|edit| edit.range.start);
        let changes = edits.into_iter().rev().map(|edit| DocumentChange {
            range: Some(edit.range),
            text: edit.text,
        });
        apply_changes(&mut text, &changes.collect::<Vec<_>>(), encoding);
        let named = self.client_path(&session, &path);
        let params = json!({"sessionId": session.as_str(), "path": named, "content": text});
        self.request("fs/write_text_file", params).await?;
        let shown = self.read_text(&session, &path).await?;
        // Many editors change what they save, as by a formatter. One that shows the text from before has not taken it.
        if shown != text && unix_lines(&shown) != unix_lines(&opened.text) {
            self.clone()
                .note_text_async(session.clone(), path.clone(), text)
                .await;
        }
        self.note_text_async(session, path, shown).await;
        Ok(())
    }

    async fn note_text_async(self, session: SessionId, path: PathBuf, text: String) {
        // A panic there leaves the overlay as it was, and the edit counts as not made.
        let _ = run_blocking(move || self.note_text(&session, &path, &text)).await;
    }
}

impl EditorLink for AcpEditor {
    fn abilities(&self) -> EditorAbilities {
        let writes = self.can_read() && ClientFacts::has(&self.facts.writes_files);
        EditorAbilities {
            apply: writes,
            create: writes,
            save: writes,
            saves_edits: writes,
            ..EditorAbilities::default()
        }
    }

    fn sync_documents(&self, session: &SessionId, paths: &[PathBuf]) -> BoxFuture<'static, ()> {
        if !self.can_read() {
            return Box::pin(async {});
        }
        let (editor, session, paths) = (self.clone(), session.clone(), paths.to_vec());
        Box::pin(async move {
            let inner = editor.clone();
            let listed = run_blocking(move || {
                let mut files: Vec<PathBuf> = paths.into_iter().filter(|path| is_text_file(path)).collect();
                if files.is_empty() {
                    files = inner.list_unsaved();
                }
                files
            });
            let files = listed.await.unwrap_or_default();
            join_all(files.iter().map(|path| editor.sync_file(&session, path))).await;
        })
    }

    fn apply(&self, edit: DocumentEdit) -> BoxFuture<'static, Result<(), EditorError>> {
        Box::pin(self.clone().apply_edit(edit))
    }

    fn create_file(
        &self,
        session: &SessionId,
        path: PathBuf,
        text: String,
    ) -> BoxFuture<'static, Result<(), EditorError>> {
        let (editor, session) = (self.clone(), session.clone());
        Box::pin(async move {
            let named = editor.client_path(&session, &path);
            let params = json!({"sessionId": session.as_str(), "path": named, "content": text});
            editor.request("fs/write_text_file", params).await.map(|_| ())
        })
    }

    /// Clients save what they write. Whether this one has done so shows on the disk.
    fn save_document(&self, _uri: String) -> BoxFuture<'static, Result<Option<String>, EditorError>> {
        Box::pin(async { Ok(None) })
    }

    fn request_credential(
        &self,
        _provider: String,
    ) -> BoxFuture<'static, Result<Option<SecretString>, EditorError>> {
        Box::pin(async { Ok(None) })
    }
}

fn hash_text(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Whether a path leads to a file that tools can load as text.
fn is_text_file(path: &Path) -> bool {
    nofollow::status_of(path).is_ok_and(|status| {
        let is_small = u64::try_from(status.st_size).is_ok_and(|size| size <= MAX_SYNCED);
        is_small && nofollow::kind_of(&status) == nofollow::FileKind::Regular
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::dialect::Dialect;
    use crate::transport::outbox::Outbox;

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_waited_for_once_in_a_prompt_and_its_unsaved_text_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("a.txt");
        std::fs::write(&path, "on the disk").unwrap();
        let (workspace, facts) = (WorkspaceShared::new(&[], None), ClientFacts::default());
        facts.reads_files.store(true, Ordering::Relaxed);
        let requests = ClientRequests::new(Outbox::new(Duration::ZERO), Dialect::AgentClient);
        let editor = AcpEditor::new(Arc::new(facts), requests.clone(), workspace.clone());
        let session = SessionId::from("s");
        editor.note_text(&session, &path, "unsaved");
        let sync = async || {
            let begun = crate::base::clock::now();
            editor.sync_documents(&session, std::slice::from_ref(&path)).await;
            begun.elapsed().as_secs()
        };
        assert_eq!((sync().await, sync().await), (10, 1));
        assert!(workspace.overlay().is_dirty(&path));
        // It counts as open with this text, until the text is on the disk.
        std::fs::write(&path, "unsaved").unwrap();
        assert_eq!(sync().await, 1);
        assert!(workspace.overlay().find_open_document(&path).is_none());
        editor.begin_prompt(&session, &[]).await;
        assert_eq!(sync().await, 10);
        let answer = async {
            let refused = || {
                let error = tower_lsp::jsonrpc::Error::internal_error();
                tower_lsp::jsonrpc::Response::from_error(5.into(), error)
            };
            // The request is sent after a look at the disk, which another thread takes.
            while !requests.take_answer(refused()) {
                tokio::task::yield_now().await;
            }
        };
        let (took, ()) = tokio::join!(sync(), answer);
        assert_eq!(took, 0);
        assert_eq!(sync().await, 10);
    }

    #[test]
    fn a_document_that_was_forgotten_gets_a_new_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("a.txt");
        std::fs::write(&path, "on the disk").unwrap();
        let workspace = WorkspaceShared::new(&[], None);
        let requests = ClientRequests::new(Outbox::new(Duration::ZERO), Dialect::AgentClient);
        let editor = AcpEditor::new(Arc::default(), requests, workspace.clone());
        let versions = ["one", "two"].map(|text| {
            editor.note_text(&SessionId::from("s"), &path, text);
            let version = workspace.overlay().find_open_document(&path).unwrap().version;
            editor.forget(&path);
            version
        });
        assert_ne!(versions[0], versions[1]);
    }
}
