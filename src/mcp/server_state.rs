//! What is known of one MCP server: what it is started from, what it is doing, and what it offers.
//!
//! The supervisor writes the phase. The handle only notes in it that someone needs the server, so that whoever waits sees
//! that at once. It must not know how a server is started.

use std::future::pending;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tokio::sync::{Notify, watch};

use super::authorize::EndReason;
use super::connection::{
    McpClient, McpConnection, McpConnector, McpError, McpPeer, McpPrompt, McpRoot, McpTool,
};
use super::http::{HttpAccess, open_login_client};
use super::opening::{KnownOpenings, Opening};
use super::stderr::StderrTail;
use crate::base::clock::{self, Instant};
use crate::base::{CancellationToken, uri};
use crate::config::{McpServerSettings, NetworkSettings, Redactor, SandboxSettings};
use crate::oauth::{TokenSource, TokenStore};
use crate::workspace::WorkspaceShared;

/// What all servers share.
pub(super) struct McpHost {
    pub(super) workspace: Arc<WorkspaceShared>,
    /// Where servers have folders of their own; `None` without a data folder.
    pub(super) own_folders: Option<PathBuf>,
    /// The tokens of logins.
    pub(super) tokens: Option<TokenStore>,
    pub(super) redactor: Redactor,
    /// Replaces programs and addresses.
    pub(super) connector: Option<Arc<dyn McpConnector>>,
    /// Counts changes of any server's phase.
    pub(super) changes: watch::Sender<u64>,
    /// Counts changes of the workspace folders.
    pub(super) roots: watch::Sender<u64>,
    pub(super) openings: KnownOpenings,
}

/// What a server is started from.
pub(super) struct ServerSetup {
    pub(super) settings: McpServerSettings,
    pub(super) folder: PathBuf,
    pub(super) sandbox: Arc<SandboxSettings>,
    pub(super) network: NetworkSettings,
}

/// What a server is doing.
#[derive(Clone)]
pub(super) enum Phase {
    /// Nobody has needed it.
    Idle,
    Starting,
    Ready(Arc<ReadyServer>),
    Failed(McpError, NextStart),
}

/// When a server that has failed starts again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NextStart {
    /// After a short pause, if someone has needed it since. Whoever does waits for that.
    AfterPause { is_needed: bool },
    /// When someone needs it after this time.
    AfterRest(Instant),
    /// When someone needs it.
    WhenNeeded,
    /// Someone needs it, and the supervisor is about to start it or to find that it still needs a login.
    Undecided,
}

impl Phase {
    /// Returns whether nothing happens before someone needs the server.
    pub(super) fn is_settled(&self) -> bool {
        match self {
            Self::Starting | Self::Failed(_, NextStart::Undecided) => false,
            Self::Failed(_, NextStart::AfterPause { is_needed }) => !is_needed,
            _ => true,
        }
    }

    /// Notes that someone needs the server. Returns whether that changed anything.
    fn note_need(&mut self) -> bool {
        let next = match self {
            Self::Idle => Self::Starting,
            Self::Failed(error, NextStart::WhenNeeded) => Self::Failed(error.clone(), NextStart::Undecided),
            Self::Failed(error, NextStart::AfterPause { is_needed: false }) => {
                Self::Failed(error.clone(), NextStart::AfterPause { is_needed: true })
            }
            _ => return false,
        };
        *self = next;
        true
    }
}

impl NextStart {
    /// Continues the reason of a failure with how long the server still rests.
    pub(super) fn describe_rest(self) -> String {
        let Self::AfterRest(until) = self else {
            return String::new();
        };
        let seconds = until.saturating_duration_since(clock::now()).as_secs_f64().ceil();
        format!("; after three failures in a row, it is tried again in {seconds} s at the earliest")
    }
}

/// A server that answers.
#[derive(Clone)]
pub(super) struct ReadyServer {
    pub(super) connection: Arc<dyn McpConnection>,
    pub(super) tools: Vec<Arc<McpTool>>,
    pub(super) prompts: Vec<Arc<McpPrompt>>,
    /// Its first list of prompts is late.
    pub(super) awaits_prompts: bool,
    /// How many changes of the lists it had announced before they were read.
    pub(super) list_changes: u64,
    pub(super) last_read: ListRead,
}

/// How the last read of the lists went.
#[derive(Clone, PartialEq)]
pub(super) enum ListRead {
    Done,
    /// It takes long and goes on. Nobody waits for it any more.
    Late,
    /// The lists from before stay in use. Nobody waits for the next read.
    Failed {
        error: McpError,
        retry_at: Instant,
    },
}

/// What the supervisor shares with the handle.
pub(super) struct ServerShared {
    pub(super) host: Arc<McpHost>,
    pub(super) setup: ServerSetup,
    pub(super) phase: watch::Sender<Phase>,
    pub(super) restart: Notify,
    /// Counts the changes of lists that the server has announced.
    pub(super) list_changes: watch::Sender<u64>,
    pub(super) stop: CancellationToken,
    stderr: Mutex<Arc<StderrTail>>,
    /// What it offered last, as long as it runs or starts again by itself.
    last_ready: Mutex<Option<Arc<ReadyServer>>>,
    /// It has answered a call since it started.
    pub(super) has_answered: AtomicBool,
    /// How often it has become ready, or its lists were read again.
    pub(super) times_ready: AtomicU64,
}

impl ServerShared {
    pub(super) fn new(host: Arc<McpHost>, setup: ServerSetup) -> Self {
        Self {
            host,
            setup,
            phase: watch::channel(Phase::Idle).0,
            restart: Notify::new(),
            list_changes: watch::channel(0).0,
            stop: CancellationToken::new(),
            stderr: Mutex::default(),
            last_ready: Mutex::default(),
            has_answered: AtomicBool::new(false),
            times_ready: AtomicU64::new(0),
        }
    }

    /// Returns how requests are authorized, for a server that is an address.
    pub(super) fn build_access(&self, end_reason: &EndReason, opening: Opening) -> HttpAccess {
        let ServerSetup {
            settings, network, ..
        } = &self.setup;
        let tokens = settings.login_address().zip(self.host.tokens.clone());
        let tokens = tokens.and_then(|(url, store)| {
            // An error means that no token is sent there.
            let client = open_login_client(settings, &url, network).ok()?;
            Some(Arc::new(TokenSource::new(client, store)))
        });
        HttpAccess {
            tokens,
            redactor: self.host.redactor.clone(),
            end_reason: end_reason.clone(),
            probe_limit: opening.probe_limit(settings.startup_timeout_s.0),
        }
    }

    /// Returns when the tokens of the server changed last.
    pub(super) async fn find_token_change(&self) -> Option<SystemTime> {
        let (url, store) = self
            .setup
            .settings
            .login_address()
            .zip(self.host.tokens.as_ref())?;
        store.find_last_change(&url).await
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        if let Phase::Ready(ready) = &phase {
            if ready.last_read == ListRead::Done {
                self.times_ready.fetch_add(1, Ordering::Relaxed);
            }
            self.set_last_ready(Some(ready.clone()));
        }
        self.phase.send_replace(phase);
        self.note_change();
    }

    /// Starts the server if nobody has needed it yet, or if it has failed and does not rest.
    pub(super) fn need(&self) {
        // A server that was stopped for good has no supervisor. Checked with the phase locked: the last phase is `Idle`.
        let begun = |phase: &mut Phase| !self.stop.is_cancelled() && phase.note_need();
        if self.phase.send_if_modified(begun) {
            self.note_change();
        }
    }

    /// Starts the server again at once.
    pub(super) fn start_again(&self) {
        let server = self.setup.settings.connection_fingerprint();
        self.host.openings.forget_failures(server);
        let begun = self.phase.send_if_modified(|phase| {
            // While the phase is locked, so that the supervisor never sees one without the other.
            self.restart.notify_one();
            let is_new = !matches!(phase, Phase::Starting) && !self.stop.is_cancelled();
            if is_new {
                *phase = Phase::Starting;
            }
            is_new
        });
        if begun {
            self.note_change();
        }
    }

    /// Lets the next need start a server that has failed: its rest is over, or it still lacks a login.
    pub(super) fn set_startable(&self) {
        self.phase.send_if_modified(|phase| match phase {
            Phase::Failed(_, NextStart::AfterPause { is_needed: true }) => false,
            Phase::Failed(_, next) => {
                *next = NextStart::WhenNeeded;
                true
            }
            _ => false,
        });
        self.note_change();
    }

    /// Waits until someone needs the server.
    pub(super) async fn wait_until_needed(&self) {
        let is_needed = |phase: &Phase| !phase.is_settled();
        // The channel is open as long as this exists.
        let _ = self.phase.subscribe().wait_for(is_needed).await;
    }

    pub(super) fn list_changes(&self) -> u64 {
        *self.list_changes.borrow()
    }

    /// Waits until the server has announced a change of its lists since they were read, or a read that failed is due again.
    pub(super) async fn wait_until_lists_change(&self) {
        let ready = self.last_ready();
        let known = ready.as_ref().map_or(0, |ready| ready.list_changes);
        let retry = async {
            match ready.as_ref().map(|ready| &ready.last_read) {
                Some(ListRead::Failed { retry_at, .. }) => clock::sleep_until(*retry_at).await,
                _ => pending().await,
            }
        };
        let mut changes = self.list_changes.subscribe();
        tokio::select! { biased;
            // The channel is open as long as this exists.
            _ = changes.wait_for(|count| *count > known) => {}
            () = retry => {}
        }
    }

    /// Waits until all changes of lists that the server has announced up to now were read, or it does not run. Lists that
    /// are too old count as changed. Reads that are late or have failed are not waited for.
    pub(super) async fn wait_until_lists_current(&self) {
        if self
            .last_ready()
            .is_some_and(|ready| ready.last_read == ListRead::Done && ready.connection.are_lists_stale())
        {
            self.note_lists_changed();
        }
        let announced = self.list_changes();
        let is_current = |phase: &Phase| match phase {
            Phase::Ready(ready) => ready.last_read != ListRead::Done || ready.list_changes >= announced,
            _ => true,
        };
        // The channel is open as long as this exists.
        let _ = self.phase.subscribe().wait_for(is_current).await;
    }

    pub(super) fn last_ready(&self) -> Option<Arc<ReadyServer>> {
        self.last_ready
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn set_last_ready(&self, ready: Option<Arc<ReadyServer>>) {
        *self.last_ready.lock().unwrap_or_else(PoisonError::into_inner) = ready;
    }

    pub(super) fn note_change(&self) {
        self.host.changes.send_modify(|count| *count += 1);
    }

    pub(super) fn current_stderr(&self) -> Arc<StderrTail> {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn reset_stderr(&self) -> Arc<StderrTail> {
        let tail = Arc::<StderrTail>::default();
        *self.stderr.lock().unwrap_or_else(PoisonError::into_inner) = tail.clone();
        tail
    }
}

impl McpClient for ServerShared {
    fn redact(&self, said: &mut serde_json::Value) {
        self.host.redactor.redact_json(said);
    }

    fn list_roots(&self) -> Vec<McpRoot> {
        let folders = self.host.workspace.workspace_folders();
        let mut roots: Vec<McpRoot> = folders
            .iter()
            .map(|root| McpRoot {
                uri: uri::uri_of(root.path()),
                name: root.name().to_owned(),
            })
            .collect();
        if roots.is_empty() {
            let name = self.setup.folder.file_name().unwrap_or_default();
            roots.push(McpRoot {
                uri: uri::uri_of(&self.setup.folder),
                name: name.to_string_lossy().into_owned(),
            });
        }
        roots
    }

    fn allows_sampling(&self) -> bool {
        self.setup.settings.sampling
    }

    fn note_lists_changed(&self) {
        self.list_changes.send_modify(|count| *count += 1);
    }
}

impl ReadyServer {
    pub(super) fn peer(&self) -> &McpPeer {
        self.connection.peer()
    }
}
