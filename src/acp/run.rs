//! Assembles this edge and serves one client over stdin and stdout. It decides the order of the end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::client::ClientFacts;
use super::context::{AcpContext, SettingsHook};
use super::driver;
use super::editor::AcpEditor;
use super::service::{AcpService, LONG};
use super::sink::Feeds;
use crate::base::CancellationToken;
use crate::base::position::PositionEncoding;
use crate::base::spawn::spawn;
use crate::config::{ConfigSource, Redactor};
use crate::domain::Attendance;
use crate::session::{ServiceParts, Services, SessionManager};
use crate::store::Store;
use crate::transport::outbox::Outbox;
use crate::transport::{self, ClientRequests, Connection, Dialect, FrameWriter, Framing, Stdio};
use crate::workspace::WorkspaceShared;

/// The environment of the process.
pub struct AcpOptions {
    pub source: ConfigSource,
    /// Keeps known secrets out of the log and of stored content.
    pub redactor: Redactor,
    /// Folder of the session store.
    pub data: PathBuf,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// Stdin and stdout, already moved aside.
    pub stdio: Stdio,
    /// Called with the settings after each read, to set the log level.
    pub on_settings: SettingsHook,
    /// Time for which chunks of one message are collected before they leave (R-WIRE-3).
    pub delta_frame: Duration,
}

/// Serves until the client closes its end. Returns the exit code of the process.
///
/// # Errors
/// An I/O error if the store or the thread that writes to the client cannot start.
pub async fn run_acp(options: AcpOptions) -> std::io::Result<i32> {
    let outbox = Outbox::new(options.delta_frame);
    // Never long: each session has one timer, questions end with their calls, and a choice takes a request. The
    // driver takes them without waiting for anything.
    let (signal_sender, signals) = mpsc::unbounded_channel();
    let feeds = Feeds::new(outbox.clone(), signal_sender);
    let workspace = WorkspaceShared::new(&[], options.home);
    let (store, store_thread) = Store::start(options.data.clone(), Box::new(feeds.clone()))?;
    workspace.use_data_folder(&options.data);
    workspace.overlay().set_encoding(PositionEncoding::Utf8);
    let facts: Arc<ClientFacts> = Arc::default();
    let requests = ClientRequests::new(outbox.clone(), Dialect::AgentClient);
    let editor = Arc::new(AcpEditor::new(facts.clone(), requests.clone(), workspace.clone()));
    let (services, configured) = Services::assemble(ServiceParts {
        store,
        source: options.source,
        workspace: workspace.clone(),
        editor: editor.clone(),
        redactor: options.redactor,
        client_name: client_name(facts.clone()),
        attendance: read_attendance(facts.clone()),
    });
    let root = CancellationToken::new();
    let ending = CancellationToken::new();
    let state = Arc::new(AcpContext {
        sessions: SessionManager::new(services),
        configured,
        workspace,
        facts,
        requests: requests.clone(),
        editor,
        feeds,
        outbox: outbox.clone(),
        on_settings: options.on_settings,
        ending: ending.clone(),
        prompts: Default::default(),
        follow_ups: Default::default(),
        introductions: Default::default(),
    });
    // Never longer than the requests in progress.
    let (answered_sender, answered) = mpsc::unbounded_channel();
    let driver = spawn(driver::drive(state.clone(), signals, answered));
    let end_signals = spawn(transport::end_on_signal(root.clone()));
    let connection = Connection {
        input: options.stdio.input,
        service: AcpService {
            state: state.clone(),
            is_initialized: Arc::default(),
        },
        requests,
        written: FrameWriter::start(outbox.clone(), options.stdio.output, root.clone(), Framing::Lines)?,
        outbox,
        root,
        options: transport::ConnectionOptions {
            exempt: LONG,
            dialect: Dialect::AgentClient,
            answered: Some(answered_sender),
            ..transport::ConnectionOptions::default()
        },
    };
    let at_end = |_| async {
        // From here on, a canceled request no longer means that the user canceled.
        ending.cancel();
        state.sessions.shut_down().await;
        state.configured.mcp().shut_down().await;
        if state.sessions.flush().await.is_err() {
            tracing::warn!("the store ended before the server");
        }
    };
    let result = connection.serve_until_end(at_end).await;
    // The store's thread ends once the last handle is dropped.
    drop((driver, end_signals, state));
    store_thread.wait_for_last_commit().await;
    tracing::info!(end = ?result.end, "served");
    // The protocol has no farewell: a closed pipe is the normal end.
    Ok(i32::from(matches!(
        result.end,
        transport::EndReason::InputFailed | transport::EndReason::PipeBroken
    )))
}

fn client_name(facts: Arc<ClientFacts>) -> Arc<dyn Fn() -> String + Send + Sync> {
    Arc::new(move || facts.name.get().cloned().unwrap_or_default())
}

fn read_attendance(facts: Arc<ClientFacts>) -> Arc<dyn Fn() -> Attendance + Send + Sync> {
    Arc::new(move || {
        if ClientFacts::has(&facts.shows_forms) || ClientFacts::has(&facts.opens_urls) {
            Attendance::Questions
        } else {
            Attendance::Approvals
        }
    })
}
