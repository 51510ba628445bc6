//! The sandbox of commands in plain values: what it allows, how it is enforced, and how much that holds (R-BOX).

use std::fmt;

use serde::Deserialize;

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

/// What of the network a command may use. From the strictest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SandboxNetwork {
    /// Nothing but a loopback interface of its own.
    #[default]
    Offline,
    /// Like [`SandboxNetwork::Offline`], with a proxy of this program that connects to allowed hosts.
    Proxy,
    /// Everything.
    Open,
}

/// How the operating system enforces the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SandboxMethod {
    /// Linux namespaces that this program sets up itself, with Landlock and seccomp.
    Namespaces,
    /// The same namespaces, set up by the program bubblewrap, with Landlock and seccomp.
    Bubblewrap,
    /// Landlock and seccomp alone.
    Landlock,
    /// `sandbox-exec` of macOS, which nobody has tried yet.
    Seatbelt,
    /// Nothing: commands are not confined.
    None,
}

/// How much of the policy a method enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SandboxLevel {
    /// Nothing of it.
    None,
    /// Writes outside the workspace and the network, but neither steering files nor secrets.
    Partial,
    /// All of it.
    Full,
}

impl SandboxNetwork {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Offline, "offline"),
        (Self::Proxy, "proxy"),
        (Self::Open, "network"),
    ];

    /// Returns its word in a plan.
    pub fn word(self) -> &'static str {
        let found = Self::ALL.iter().find(|(network, _)| *network == self);
        found.map_or("", |(_, word)| word)
    }

    /// Returns the network of this word.
    pub fn from_word(word: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| *known == word);
        found.map(|(network, _)| *network)
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

    /// Returns the method of this name, as in `AGENTLS_SANDBOX_METHOD`.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [
            Self::Namespaces,
            Self::Bubblewrap,
            Self::Landlock,
            Self::Seatbelt,
            Self::None,
        ];
        all.into_iter().find(|method| method.name() == name)
    }

    /// Returns its name for people and settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
            Self::Seatbelt => "seatbelt",
            Self::None => "none",
        }
    }
}

impl fmt::Display for SandboxLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Partial => "partial",
            Self::Full => "full",
        })
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
