//! This edge without its connection, for the simulator: requests come as values, and the frames to the client are taken
//! from the outbox.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;
use tower_lsp::jsonrpc::{Error, Id, Request, Response};
use tower_service::Service;

use super::client::ClientFacts;
use super::context::AcpContext;
use super::driver;
use super::editor::AcpEditor;
use super::service::AcpService;
use super::sink::{FeedSignal, Feeds};
use crate::base::position::{Position, Range};
use crate::base::spawn::{AbortOnDrop, spawn};
use crate::base::{CancellationToken, uri};
use crate::config::{ConfigSource, Redactor};
use crate::domain::{EventSink, SessionId};
use crate::session::{ConfigStore, SessionManager};
use crate::tool::{DocumentEdit, EditorLink};
use crate::transport::outbox::Outbox;
use crate::transport::{ClientRequests, Dialect, Framing, with_cancel_token};
use crate::workspace::WorkspaceShared;
use crate::workspace::text_edits::TextEdit;

/// How long chunks of one message are collected before they leave.
const DELTA_FRAME: Duration = Duration::from_millis(16);
/// The most bytes that are taken from the outbox at once.
const BATCH: usize = 64 << 10;

/// The part of the edge that exists before the store.
pub struct AcpEvents {
    outbox: Outbox,
    feeds: Feeds,
    signals: mpsc::UnboundedReceiver<FeedSignal>,
}

impl AcpEvents {
    /// Creates the part. Nothing leaves before [`AcpEdge::open`].
    #[expect(clippy::new_without_default, reason = "it creates channels")]
    pub fn new() -> Self {
        let outbox = Outbox::new(DELTA_FRAME);
        let (sender, signals) = mpsc::unbounded_channel();
        Self {
            feeds: Feeds::new(outbox.clone(), sender),
            outbox,
            signals,
        }
    }

    /// Returns where the store publishes its events.
    pub fn sink(&self) -> Box<dyn EventSink> {
        Box::new(self.feeds.clone())
    }
}

/// Starts each line that the simulated user types.
pub const TYPED: &str = "typed ";

/// The edge of one client.
pub struct AcpEdge {
    state: Arc<AcpContext>,
    service: AcpService,
    _driver: AbortOnDrop<()>,
    _answered: mpsc::UnboundedSender<Id>,
}

impl AcpEdge {
    /// Opens the edge on these sessions. `adjust` gives it the simulated parts of the configuration.
    pub fn open(
        events: AcpEvents,
        sessions: SessionManager,
        adjust: impl FnOnce(ConfigStore) -> ConfigStore,
    ) -> Self {
        let AcpEvents {
            outbox,
            feeds,
            signals,
        } = events;
        let workspace = WorkspaceShared::new(&[], None);
        let facts: Arc<ClientFacts> = Arc::default();
        let requests = ClientRequests::new(outbox.clone(), Dialect::AgentClient);
        let editor = Arc::new(AcpEditor::new(facts.clone(), requests.clone(), workspace.clone()));
        let configured = ConfigStore::new(
            ConfigSource::default(),
            workspace.clone(),
            Redactor::default(),
            editor.clone(),
        );
        let state = Arc::new(AcpContext {
            sessions,
            configured: Arc::new(adjust(configured)),
            workspace,
            facts,
            requests,
            editor,
            feeds,
            outbox: outbox.clone(),
            on_settings: Box::new(|_| {}),
            ending: CancellationToken::new(),
            prompts: Default::default(),
            follow_ups: Default::default(),
            introductions: Default::default(),
        });
        let (_answered, answered) = mpsc::unbounded_channel();
        outbox.open();
        Self {
            service: AcpService {
                state: state.clone(),
                is_initialized: Arc::default(),
            },
            _driver: spawn(driver::drive(state.clone(), signals, answered)),
            state,
            _answered,
        }
    }

    /// Answers a request. The answer leaves after the frames before it. `cancel` is the client's `$/cancel_request`.
    pub fn call(
        &self,
        id: i64,
        method: &'static str,
        params: Value,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let request = Request::build(method).id(id).params(params).finish();
        let answer = self.service.clone().call(request);
        let state = self.state.clone();
        let handler = async move {
            let answer: Result<Option<Response>, Infallible> = answer.await;
            if let Ok(Some(answer)) = answer {
                state.outbox.push_response(&answer, None);
                // Its introduction would read a folder, which does not exist.
                state.finish_request(answer.id());
            }
        };
        with_cancel_token(cancel, handler).boxed()
    }

    /// Replaces the first line of the client's text of a file that does not start with [`TYPED`], as a tool does. Returns
    /// whether the client made the edit, or nothing if the client has no such document or line.
    pub async fn edit_document(&self, session: &SessionId, path: PathBuf, text: &str) -> Option<bool> {
        let editor = &self.state.editor;
        editor.sync_documents(session, std::slice::from_ref(&path)).await;
        let opened = self.state.workspace.overlay().find_open_document(&path)?;
        let mut lines = opened.text.split('\n').enumerate();
        let (line, old) = lines.find(|(_, line)| !line.starts_with(TYPED))?;
        let start = Position {
            line: u32::try_from(line).ok()?,
            character: 0,
        };
        let end = Position {
            character: u32::try_from(old.len()).ok()?,
            ..start
        };
        let edit = DocumentEdit {
            uri: uri::uri_of(&path),
            version: opened.version,
            edits: vec![TextEdit {
                range: Range { start, end },
                text: text.to_owned(),
            }],
            label: String::new(),
        };
        Some(editor.apply(edit).await.is_ok())
    }

    /// Takes a notification.
    pub async fn notify(&self, method: &'static str, params: Value) {
        let request = Request::build(method).params(params).finish();
        let _: Result<Option<Response>, Infallible> = self.service.clone().call(request).await;
    }

    /// Takes the client's answer to a request, or its refusal. Returns whether the request was open.
    pub fn respond(&self, id: i64, result: Option<Value>) -> bool {
        let id = Id::Number(id);
        self.state.requests.take_answer(match result {
            Some(result) => Response::from_ok(id, result),
            None => Response::from_error(id, Error::internal_error()),
        })
    }

    /// Waits for frames. Returns none at the end.
    pub async fn take_frames(&self) -> Vec<Value> {
        let mut batch = Vec::new();
        let mut bytes = Vec::new();
        if self.state.outbox.take(&mut batch, BATCH).await {
            for frame in &batch {
                frame.write_framed(&mut bytes, Framing::Lines);
            }
        }
        let frames = serde_json::Deserializer::from_slice(&bytes).into_iter();
        frames.map(Result::unwrap_or_default).collect()
    }
}
