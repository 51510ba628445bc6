//! Assembles the server and serves one client over stdin and stdout.
//!
//! The only place that knows all parts of the server; it decides the order of the end. Serving itself is the job of
//! [`crate::transport`].

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::client_info::ClientInfo;
use super::editor::ClientEditor;
use super::event_sink::WireEventSink;
use super::handlers::mcp::report_mcp_servers;
use super::server_warnings::{ServerWarnings, report_status};
use super::service::Service;
use super::state::{ServerContext, SettingsHook, folder_key};
use crate::base::CancellationToken;
use crate::base::spawn::spawn;
use crate::config::{ConfigSource, Redactor};
use crate::domain::Attendance;
use crate::protocol::table::method;
use crate::session::{ServiceParts, Services, SessionManager};
use crate::store::Store;
use crate::tool;
use crate::transport::outbox::Outbox;
use crate::transport::{self, ClientRequests, Connection, Dialect, FrameWriter, Framing, Stdio};
use crate::workspace::WorkspaceShared;

/// The environment of the server.
pub struct ServeOptions {
    pub source: ConfigSource,
    /// Keeps known secrets out of the log and of stored content.
    pub redactor: Redactor,
    /// Folder of the session store.
    pub data: PathBuf,
    /// The folder where the server was started.
    pub cwd: PathBuf,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// Stdin and stdout, already moved aside.
    pub stdio: Stdio,
    /// Called with the settings after each read, to set the log level.
    pub on_settings: SettingsHook,
    /// Time for which deltas of one message are collected before they leave (R-WIRE-3).
    pub delta_frame: Duration,
}

/// Returns the names of the tools that every session has.
pub fn tool_names() -> Vec<String> {
    let tools = tool::Registry::new(tool::create_builtin_tools());
    tools.tool_names().into_iter().map(str::to_owned).collect()
}

/// Serves until the client disconnects or sends `exit`. Returns the exit code of the process.
///
/// # Errors
/// An I/O error if the store or the thread that writes to the client cannot start.
pub async fn run_server(options: ServeOptions) -> std::io::Result<i32> {
    let outbox = Outbox::new(options.delta_frame);
    let notices = ServerWarnings::default();
    let outlet = WireEventSink::new(outbox.clone(), notices.clone());
    let workspace = WorkspaceShared::new(&[], options.home);
    let (store, store_thread) = Store::start(options.data.clone(), Box::new(outlet))?;
    workspace.use_data_folder(&options.data);
    let client: Arc<Mutex<ClientInfo>> = Arc::default();
    let requests = ClientRequests::new(outbox.clone(), Dialect::LanguageServer);
    let editor = Arc::new(ClientEditor::new(
        client.clone(),
        store.writes.clone(),
        requests.clone(),
    ));
    let writes = store.writes.clone();
    let (services, configured) = Services::assemble(ServiceParts {
        store,
        source: options.source,
        workspace: workspace.clone(),
        editor,
        redactor: options.redactor,
        client_name: client_name(client.clone()),
        attendance: read_attendance(client.clone()),
    });
    let root = CancellationToken::new();
    let ending = CancellationToken::new();
    let state = Arc::new(ServerContext {
        sessions: SessionManager::new(services),
        configured: configured.clone(),
        workspace,
        cwd: folder_key(&options.cwd),
        client,
        outbox: outbox.clone(),
        notices: notices.clone(),
        on_settings: options.on_settings,
        ending: ending.clone(),
    });
    let status = spawn(report_status(
        state.sessions.subscribe_activity(),
        notices,
        writes,
        outbox.clone(),
        configured.clone(),
        state.workspace.clone(),
    ));
    let servers = spawn(report_mcp_servers(
        configured.mcp().clone(),
        outbox.clone(),
        state.sessions.redactor().clone(),
    ));
    // Like `status`, this task ends when its handle is dropped.
    let signals = spawn(transport::end_on_signal(root.clone()));
    let connection = Connection {
        input: options.stdio.input,
        service: Service::new(state.clone()),
        requests,
        written: FrameWriter::start(
            outbox.clone(),
            options.stdio.output,
            root.clone(),
            Framing::Header,
        )?,
        outbox,
        root,
        options: transport::ConnectionOptions {
            // These answer with the result of a turn, which ends by itself once it is canceled.
            exempt: &[method::PROMPT, method::RESUME_TURN, method::COMPACT],
            ..transport::ConnectionOptions::default()
        },
    };
    let at_end = |_| async {
        // From here on, a canceled request no longer means that the user canceled.
        ending.cancel();
        state.sessions.shut_down().await;
        state.configured.mcp().shut_down().await;
        // All session locks are released and every end is stored. The flush also passes stored events on to the client.
        if state.sessions.flush().await.is_err() {
            tracing::warn!("the store ended before the server");
        }
    };
    let result = connection.serve_until_end(at_end).await;
    // The store's thread ends once the last handle is dropped.
    drop((status, servers, signals, state));
    store_thread.wait_for_last_commit().await;
    tracing::info!(end = ?result.end, "served");
    Ok(i32::from(result.exit_code()))
}

fn client_name(client: Arc<Mutex<ClientInfo>>) -> Arc<dyn Fn() -> String + Send + Sync> {
    Arc::new(move || client.lock().unwrap_or_else(PoisonError::into_inner).name.clone())
}

fn read_attendance(client: Arc<Mutex<ClientInfo>>) -> Arc<dyn Fn() -> Attendance + Send + Sync> {
    Arc::new(move || client.lock().unwrap_or_else(PoisonError::into_inner).attendance)
}
