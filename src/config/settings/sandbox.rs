//! The settings of the sandbox of commands.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::config::untrusted::Untrusted;
use crate::config::values::StringList;
use crate::domain::{HostRule, SandboxNetwork};

/// What the agent's commands may do on this machine (R-BOX).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxSettings {
    /// `true` confines the commands of `bash`, of your own tools, and of your hooks, except in the mode `full`. Default:
    /// true.
    #[schemars(extend("x-untrusted" = Untrusted::StricterSandbox))]
    pub enabled: bool,
    /// `true` refuses to run commands where the sandbox cannot be set up in full, and commands that ask to run outside of
    /// it. `false` runs them as if there were no sandbox, so that they need approval. Default: false.
    #[schemars(extend("x-untrusted" = Untrusted::StricterSandbox))]
    pub required: bool,
    /// What of the network confined commands may use: `false` for nothing, `"proxy"` for the hosts in `allow_hosts` and
    /// those that you allow when you are asked, `true` for everything. Default: false.
    #[serde(deserialize_with = "read_network")]
    #[schemars(with = "StatedNetwork", extend("default" = false, "x-untrusted" = Untrusted::StricterSandbox))]
    pub network: SandboxNetwork,
    /// The hosts that confined commands may reach with `network = "proxy"`, such as `registry.npmjs.org` or
    /// `*.example.com`. Without a port, an entry includes the ports 80 and 443. Lists of several config files are joined.
    /// Default: none.
    // Never from a folder, not even a trusted one: a command could send there what it reads.
    #[schemars(extend("x-untrusted" = Untrusted::StricterSandbox))]
    pub allow_hosts: StringList,
    /// Further folders that confined commands may write, besides the workspace, their temporary folder, and the caches
    /// of build tools. A relative path starts at the config file's folder.
    #[schemars(extend("x-untrusted" = Untrusted::StricterSandbox, "x-path" = true))]
    pub write: StringList,
    /// What confined commands read of your home folder. Default: `home`.
    #[schemars(extend("x-untrusted" = Untrusted::StricterSandbox))]
    pub read: HomeAccess,
    /// Further files and folders of your home folder that confined commands read with `read = "allowlist"`, such as
    /// `~/src/library`. Keys and tokens stay hidden. A relative path starts at the config file's folder. Default: none.
    #[schemars(extend("x-untrusted" = Untrusted::StricterSandbox, "x-path" = true))]
    pub read_allow: StringList,
    /// Further files and folders that confined commands must not read, besides keys and tokens in your home folder. The
    /// agent's own tools ask before they read them. `*`, `?`, and `[…]` match within one name, as in `keys/*.pem`. A
    /// relative path starts at the config file's folder. Lists of several config files are joined.
    #[schemars(extend("x-untrusted" = Untrusted::Any, "x-path" = true))]
    pub read_deny: StringList,
    /// Our own files with sessions, logs, and keys, which no confined command may read.
    #[serde(skip)]
    pub own_secrets: Vec<PathBuf>,
    /// The folder of our own configuration, which the next server obeys.
    #[serde(skip)]
    pub own_folder: Option<PathBuf>,
    /// The folder of our own data, which has the layers of caches.
    #[serde(skip)]
    pub own_data: Option<PathBuf>,
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            required: false,
            network: SandboxNetwork::default(),
            allow_hosts: StringList::default(),
            write: StringList::default(),
            read: HomeAccess::default(),
            read_allow: StringList::default(),
            read_deny: StringList::default(),
            own_secrets: Vec::new(),
            own_folder: None,
            own_data: None,
        }
    }
}

impl SandboxSettings {
    /// Returns whether commands may do something here that `other` does not let them do. `read_deny` does not count,
    /// because the lists of all layers are joined. A relative path always counts, because it starts at its own file's
    /// folder.
    pub fn allows_more_than(&self, other: &Self) -> bool {
        let adds = |own: &[String], others: &[String]| own.iter().any(|entry| !others.contains(entry));
        (other.enabled && !self.enabled)
            || (other.required && !self.required)
            || self.network > other.network
            || adds(&self.allow_hosts, &other.allow_hosts)
            || self.read < other.read
            || adds(&self.write, &other.write)
            || adds(&self.read_allow, &other.read_allow)
            || self
                .write
                .iter()
                .chain(self.read_allow.iter())
                .any(|path| !path.starts_with('/') && !path.starts_with("~/"))
    }

    /// Returns the entries of `allow_hosts`. Those that are not understood allow nothing.
    pub fn host_rules(&self) -> Vec<HostRule> {
        let parsed = self.allow_hosts.iter().map(|entry| HostRule::parse(entry));
        parsed.filter_map(Result::ok).collect()
    }
}

/// What commands read of the home folder. From the loosest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HomeAccess {
    /// All but keys, tokens, and what is private in known places.
    #[default]
    Home,
    /// Only the workspace, tool chains, caches of build tools, the settings of git, and what your settings name.
    Allowlist,
}

/// A part of the network, as the settings state it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
enum StatedNetwork {
    /// All or nothing.
    Flag(bool),
    /// By name.
    Named(NamedNetwork),
}

/// A part of the network that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum NamedNetwork {
    /// Some hosts, through a proxy.
    Proxy,
}

/// Reads the setting, which a flag or a name states.
fn read_network<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SandboxNetwork, D::Error> {
    let stated = StatedNetwork::deserialize(deserializer)?;
    Ok(match stated {
        StatedNetwork::Flag(false) => SandboxNetwork::Offline,
        StatedNetwork::Flag(true) => SandboxNetwork::Open,
        StatedNetwork::Named(NamedNetwork::Proxy) => SandboxNetwork::Proxy,
    })
}
