//! The sandbox of commands in plain values: what it allows, how it is enforced, and how much that holds (R-BOX).

use std::fmt;

use serde::Deserialize;

use super::words::word_enum;

/// What a command may do, in broad terms. From the strictest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxPolicy {
    /// Writes nothing but its temporary folder.
    ReadOnly,
    /// Writes in the workspace folders, its temporary folder, and the caches of build tools.
    #[default]
    Workspace,
    /// Not confined.
    Off,
}

/// How the command of a call would run, as far as an approval needs to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Confinement {
    /// With the user's full rights: the sandbox is off, or does not hold in full.
    #[default]
    None,
    /// In a sandbox that holds in full, so that it can do no harm outside of the workspace.
    Sandboxed,
    /// Without the sandbox that there is, because the call asks for that.
    Declined,
}

word_enum! {
    /// What of the network a command may use. From the strictest.
    #[derive(Default)]
    pub enum SandboxNetwork {
        /// Nothing but a loopback interface of its own.
        #[default]
        Offline = "offline",
        /// Like [`SandboxNetwork::Offline`], with a proxy of this program that connects to allowed hosts.
        Proxy = "proxy",
        /// Everything.
        Open = "network",
    }
}

word_enum! {
    /// How the operating system enforces the policy. `AGENTLS_SANDBOX_METHOD` has the same words.
    pub enum SandboxMethod {
        /// Linux namespaces that this program sets up itself, with Landlock and seccomp.
        Namespaces = "namespaces",
        /// The same namespaces, set up by the program bubblewrap, with Landlock and seccomp.
        Bubblewrap = "bubblewrap",
        /// Landlock and seccomp alone.
        Landlock = "landlock",
        /// `sandbox-exec` of macOS, which nobody has tried yet.
        Seatbelt = "seatbelt",
        /// Nothing: commands are not confined.
        None = "none",
    }
}

word_enum! {
    /// How much of the policy a method enforces.
    pub enum SandboxLevel {
        /// Nothing of it.
        None = "none",
        /// Writes outside the workspace and the network, but neither steering files nor secrets.
        Partial = "partial",
        /// All of it.
        Full = "full",
    }
}

impl SandboxMethod {
    /// Returns how much this method enforces.
    pub fn level(self) -> SandboxLevel {
        match self {
            Self::Namespaces | Self::Bubblewrap => SandboxLevel::Full,
            // Not full before it has been tried: a full sandbox replaces approvals.
            Self::Landlock | Self::Seatbelt => SandboxLevel::Partial,
            Self::None => SandboxLevel::None,
        }
    }

    /// Returns whether commands have mounts, processes, and a network of their own.
    pub fn has_namespaces(self) -> bool {
        matches!(self, Self::Namespaces | Self::Bubblewrap)
    }

    /// Returns the most that a command gets of the network that the settings give it. A proxy needs a network of the
    /// command's own; without one, nothing would lead through it alone.
    pub fn limit_network(self, network: SandboxNetwork) -> SandboxNetwork {
        if network == SandboxNetwork::Proxy && !self.has_namespaces() {
            SandboxNetwork::Offline
        } else {
            network
        }
    }

    /// Describes what holds with these settings, for people: the level, and the network unless commands have none.
    pub fn describe(self, network: SandboxNetwork) -> String {
        let level = self.level();
        match self.limit_network(network) {
            _ if level == SandboxLevel::None => level.to_string(),
            SandboxNetwork::Offline => level.to_string(),
            SandboxNetwork::Proxy => format!("{level}, network by proxy"),
            SandboxNetwork::Open => format!("{level}, network open"),
        }
    }
}

impl fmt::Display for SandboxLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for SandboxPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadOnly => "read_only",
            Self::Workspace => "workspace",
            Self::Off => "off",
        })
    }
}
