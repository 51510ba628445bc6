//! The proxy of one command, from its settings to the task that serves it.

use std::sync::Arc;

use tokio::net::TcpListener;

use super::dial::SystemResolver;
use super::gate::{HostGate, SessionHosts};
use super::prompt::HostPrompt;
use super::report::ProxyReport;
use super::serve;
use crate::base::spawn::{AbortOnDrop, spawn};
use crate::domain::HostRule;

/// Where servers are that the command starts itself: they are in its own network.
const OWN_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The proxy of one command.
pub struct CommandProxy {
    rules: Vec<HostRule>,
    session: Arc<SessionHosts>,
    prompt: Arc<dyn HostPrompt>,
    report: Arc<ProxyReport>,
}

impl CommandProxy {
    /// Creates the proxy of a command that may reach the hosts of `rules`, and those that the user allows.
    pub fn new(rules: Vec<HostRule>, session: Arc<SessionHosts>, prompt: Arc<dyn HostPrompt>) -> Self {
        Self {
            rules,
            session,
            prompt,
            report: Arc::default(),
        }
    }

    /// Returns what happens in the proxy.
    pub fn report(&self) -> Arc<ProxyReport> {
        self.report.clone()
    }

    /// Returns the hosts that the command reaches without the proxy, as in `NO_PROXY`: its own servers, unless a rule
    /// names their host.
    pub fn direct_hosts(&self) -> String {
        let is_own = |host: &&str| !self.rules.iter().any(|rule| rule.has_host(host));
        let hosts = OWN_HOSTS.into_iter().filter(is_own);
        let hosts: Vec<&str> = hosts.map(|host| host.trim_matches(['[', ']'])).collect();
        hosts.join(",")
    }

    /// Serves the command's connections until the task is dropped, which closes them all.
    ///
    /// # Errors
    /// The socket is not usable by the runtime.
    pub fn serve(&self, listener: std::net::TcpListener) -> std::io::Result<AbortOnDrop<()>> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let (gate, asking) = HostGate::new(
            self.rules.clone(),
            self.session.clone(),
            self.prompt.clone(),
            self.report.clone(),
        );
        let gate = Arc::new(gate);
        Ok(spawn(async move {
            // Both in one task, so that it owns everything.
            tokio::join!(
                asking,
                serve::serve_connections(listener, gate, Arc::new(SystemResolver))
            );
        }))
    }
}
