//! Warnings that concern the whole server and still apply, for `agent/status`.
//!
//! Owns the set of current warnings and reports the status. One-time warnings are sent elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;

use super::to_wire;
use crate::domain::{SandboxMethod, SandboxNetwork};
use crate::protocol::{ServerState, StatusNotification};
use crate::session::{ConfigStore, ServerActivity};
use crate::store::{StoreHandle, StoreHealth};
use crate::transport::outbox::{Outbox, Outgoing};
use crate::workspace::WorkspaceShared;

/// Warnings that a status lists; further ones are only counted.
const MAX_LISTED: usize = 20;

/// The current warnings; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerWarnings(watch::Sender<ActiveWarnings>);

#[derive(Clone, Debug, Default)]
struct ActiveWarnings {
    /// Whether the client has sent `initialized`.
    is_reporting: bool,
    /// Problems in the configuration of each folder that was read.
    folders: BTreeMap<PathBuf, Vec<String>>,
    /// What of the network the configuration of each folder gives to commands; `None` if it disables the sandbox.
    networks: BTreeMap<PathBuf, Option<SandboxNetwork>>,
    /// Says that the client names more workspace folders than are used.
    unused_folders: Option<String>,
    /// The store's last message; it applies while the disk fails.
    store: Option<String>,
}

impl ServerWarnings {
    /// Starts to report the status.
    pub(super) fn begin_reporting(&self) {
        self.0.send_modify(|active| active.is_reporting = true);
    }

    /// Replaces what the status tells of a folder's configuration: its problems, and the network that commands have in
    /// the sandbox, `None` if it disables that.
    pub(super) fn set_folder(&self, folder: &Path, problems: Vec<String>, network: Option<SandboxNetwork>) {
        self.0.send_if_modified(|active| {
            let before = active.folders.insert(folder.to_path_buf(), problems);
            let network_before = active.networks.insert(folder.to_path_buf(), network);
            network_before != Some(network) || before.as_ref() != active.folders.get(folder)
        });
    }

    /// Drops the warnings of a folder that is no longer in the workspace.
    pub(super) fn forget_folder(&self, folder: &Path) {
        self.0.send_if_modified(|active| {
            active.networks.remove(folder);
            active.folders.remove(folder).is_some()
        });
    }

    /// Returns the folders whose configuration was read.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        self.0.borrow().folders.keys().cloned().collect()
    }

    /// Sets or clears the message about workspace folders beyond the limit.
    pub(super) fn set_unused_folders(&self, message: Option<String>) {
        self.0.send_if_modified(|active| {
            std::mem::replace(&mut active.unused_folders, message.clone()) != message
        });
    }

    /// Sets or clears the store's message.
    pub(super) fn set_store(&self, message: Option<&str>) {
        let message = message.map(str::to_owned);
        self.0
            .send_if_modified(|active| std::mem::replace(&mut active.store, message.clone()) != message);
    }
}

impl ActiveWarnings {
    /// Returns the settings that confine commands the least: `Some(None)` if a folder disables the sandbox, and `None`
    /// if no configuration was read.
    fn find_widest_network(&self) -> Option<Option<SandboxNetwork>> {
        // `None` is less than every network.
        let has_disabled = self.networks.values().min()?.is_none();
        Some(self.networks.values().max()?.filter(|_| !has_disabled))
    }

    /// Returns the warnings that apply, each once.
    fn list_active(&self, health: StoreHealth) -> Vec<(&'static str, String)> {
        let store = self.store.iter().filter(|_| health != StoreHealth::Ok);
        let mut all: Vec<_> = store.map(|message| ("store", message.clone())).collect();
        all.extend(
            self.unused_folders
                .iter()
                .map(|message| ("workspace_folders", message.clone())),
        );
        let problems: BTreeSet<&String> = self.folders.values().flatten().collect();
        all.extend(problems.into_iter().map(|problem| ("config", problem.clone())));
        if all.len() > MAX_LISTED {
            let more = all.len() - MAX_LISTED;
            all.truncate(MAX_LISTED);
            all.push((
                "config",
                format!("and {more} more; agent/reloadConfig lists them all"),
            ));
        }
        all
    }
}

/// Keeps the client's status bar up to date: sends a status at first, then one after each change.
pub(super) async fn report_status(
    mut activity: watch::Receiver<ServerActivity>,
    notices: ServerWarnings,
    store: StoreHandle,
    outbox: Outbox,
    configured: Arc<ConfigStore>,
    workspace: Arc<WorkspaceShared>,
) {
    let mut warnings = notices.0.subscribe();
    let mut circuits = configured.accounts().subscribe();
    let mut servers = configured.mcp().subscribe_changes();
    let mut last_sent: Option<StatusNotification> = None;
    loop {
        // Each source is marked as seen before it is read: a change in between wakes the loop again.
        let now = *activity.borrow_and_update();
        let health = store.health();
        let active = warnings.borrow_and_update().clone();
        if health == StoreHealth::Ok {
            notices.set_store(None);
        }
        circuits.mark_unchanged();
        servers.mark_unchanged();
        let open = configured.accounts().circuit_views();
        let open = open
            .iter()
            .filter_map(|(name, view)| to_wire::to_provider_circuit(name, view));
        // Trying the methods starts processes, which the server's start need not wait for.
        let sandbox = match active.find_widest_network() {
            Some(network) if now.has_sessions => {
                let method = match network {
                    Some(_) => workspace.sandbox().detect().await.method,
                    None => SandboxMethod::None,
                };
                Some(to_wire::to_sandbox_status(method, network))
            }
            Some(_) | None => None,
        };
        let status = StatusNotification {
            circuits: open.collect(),
            sandbox,
            mcp_servers: to_wire::mcp_server_health(&configured.mcp().list_live()),
            ..build_status(now, &active.list_active(health))
        };
        if active.is_reporting && last_sent.as_ref() != Some(&status) {
            let body = to_wire::encode_frame(&status.clone().into());
            outbox.push(Outgoing::Notification {
                body,
                group: None,
                permit: None,
            });
            last_sent = Some(status);
        }
        let works = health == StoreHealth::Ok;
        tokio::select! { biased;
            // An error means that the session manager is gone: the server ends.
            changed = activity.changed() => if changed.is_err() { return },
            _ = warnings.changed() => {}
            _ = circuits.changed() => {}
            _ = servers.changed() => {}
            () = store.until_health(|health| (health == StoreHealth::Ok) != works) => {}
        }
    }
}

fn build_status(now: ServerActivity, warnings: &[(&str, String)]) -> StatusNotification {
    StatusNotification {
        state: match now.turns {
            0 => ServerState::Idle,
            _ => ServerState::Busy,
        },
        running_turns: u32::try_from(now.turns).unwrap_or(u32::MAX),
        open_approvals: u32::try_from(now.approvals).unwrap_or(u32::MAX),
        line: None,
        circuits: Vec::new(),
        mcp_servers: Vec::new(),
        warnings: to_wire::to_active_warnings(warnings),
        sandbox: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_describes_the_folder_that_confines_the_least() {
        use SandboxNetwork::{Offline, Open, Proxy};
        let notices = ServerWarnings::default();
        let widest = || notices.0.borrow().find_widest_network();
        assert_eq!(widest(), None);
        for (folder, network, expected) in [
            ("/a", Some(Offline), Some(Offline)),
            ("/b", Some(Open), Some(Open)),
            ("/c", Some(Proxy), Some(Open)),
            ("/d", None, None),
        ] {
            notices.set_folder(Path::new(folder), Vec::new(), network);
            assert_eq!(widest(), Some(expected), "{folder}");
        }
        notices.forget_folder(Path::new("/d"));
        assert_eq!(widest(), Some(Some(Open)));
    }

    #[test]
    fn a_warning_is_listed_once_and_while_it_applies() {
        let notices = ServerWarnings::default();
        let warnings = |health| notices.0.borrow().list_active(health);
        notices.set_folder(Path::new("/a"), vec!["same".to_owned(), "one".to_owned()], None);
        notices.set_folder(Path::new("/b"), vec!["same".to_owned()], None);
        notices.set_store(Some("disk full"));
        let config = |text: &str| ("config", text.to_owned());
        assert_eq!(warnings(StoreHealth::Ok), [config("one"), config("same")]);
        assert_eq!(
            warnings(StoreHealth::Degraded { bytes: 1 })[0],
            ("store", "disk full".to_owned())
        );
        notices.forget_folder(Path::new("/a"));
        assert_eq!(warnings(StoreHealth::Ok), [config("same")]);
        notices.set_folder(Path::new("/b"), Vec::new(), None);
        assert_eq!(warnings(StoreHealth::Ok), []);
        notices.set_folder(Path::new("/b"), (0..50).map(|n| n.to_string()).collect(), None);
        let listed = warnings(StoreHealth::Ok);
        assert_eq!(listed.len(), MAX_LISTED + 1);
        assert!(listed[MAX_LISTED].1.starts_with("and 30 more"));
    }
}
