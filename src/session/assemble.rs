//! Builds what the sessions of a server share, alike for both edges. Knows no wire and starts no session.

use std::sync::Arc;
use std::time::Duration;

use super::config_store::ConfigStore;
use super::daily_spend::build_ledger;
use super::services::Services;
use crate::base::backpressure::ByteBudget;
use crate::base::counters::Totals;
use crate::config::{ConfigSource, Redactor};
use crate::domain::Attendance;
use crate::provider::CallSlots;
use crate::store::Store;
use crate::tool::{self, EditorLink, Registry};
use crate::workspace::WorkspaceShared;

/// Bytes of events that may be on their way to the client (architecture §3).
const PIPE_BYTES: usize = 1 << 20;
/// A session is unloaded after this idle time (R-SESS-6).
const IDLE: Duration = Duration::from_secs(30 * 60);

/// What an edge brings along for its sessions.
pub struct ServiceParts {
    pub store: Store,
    /// Where the configuration comes from; the names of the tools are added here.
    pub source: ConfigSource,
    pub workspace: Arc<WorkspaceShared>,
    pub editor: Arc<dyn EditorLink>,
    pub redactor: Redactor,
    pub client_name: Arc<dyn Fn() -> String + Send + Sync>,
    pub attendance: Arc<dyn Fn() -> Attendance + Send + Sync>,
}

impl Services {
    /// Builds what the sessions of a server share, and its configuration.
    pub fn assemble(parts: ServiceParts) -> (Arc<Self>, Arc<ConfigStore>) {
        let tools = Arc::new(Registry::new(tool::create_builtin_tools()));
        let mut source = parts.source;
        source.tools = tools.tool_names().into_iter().map(str::to_owned).collect();
        let configured = ConfigStore::new(
            source,
            parts.workspace,
            parts.redactor.clone(),
            parts.editor.clone(),
        );
        let configured = Arc::new(configured.with_store(parts.store.clone()));
        let services = Self {
            ledger: build_ledger(&parts.store),
            store: parts.store,
            profiles: configured.clone(),
            slots: Arc::new(CallSlots::default()),
            tools,
            editor: parts.editor,
            redactor: parts.redactor,
            totals: Arc::new(Totals::default()),
            pool: ByteBudget::new(PIPE_BYTES),
            client_name: parts.client_name,
            attendance: parts.attendance,
            idle: IDLE,
        };
        (Arc::new(services), configured)
    }
}
