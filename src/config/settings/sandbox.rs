//! The settings of the sandbox of commands.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::untrusted::Untrusted;
use crate::config::values::StringList;

/// What the agent's commands may do on this machine (R-BOX).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxSettings {
    /// `true` confines the commands of `bash` and of your own tools, except in the mode `full`. Default: true.
    pub enabled: bool,
    /// `true` refuses to run commands where the sandbox cannot be set up in full. `false` runs them there as if there
    /// were no sandbox, so that they need approval. Default: false.
    pub required: bool,
    /// Whether confined commands may use the network. Default: false.
    pub network: bool,
    /// Further folders that confined commands may write, besides the workspace, their temporary folder, and the caches
    /// of build tools. A relative path starts at the config file's folder.
    #[schemars(extend("x-path" = true))]
    pub write: StringList,
    /// Further files and folders that confined commands must not read, besides keys and tokens in your home folder. A
    /// relative path starts at the config file's folder. Lists of several config files are joined.
    #[schemars(extend("x-untrusted" = Untrusted::Any, "x-path" = true))]
    pub read_deny: StringList,
    /// Our own files with sessions, logs, and keys, which no confined command may read.
    #[serde(skip)]
    pub own_secrets: Vec<PathBuf>,
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            required: false,
            network: false,
            write: StringList::default(),
            read_deny: StringList::default(),
            own_secrets: Vec::new(),
        }
    }
}
