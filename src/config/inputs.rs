//! Everything that a configuration depends on, as plain values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{ConfigPaths, Env, LoginKeys};

/// The content of a file, or why it could not be read.
#[derive(Clone, Debug, Hash)]
pub struct FileText {
    pub path: PathBuf,
    pub bytes: Result<Vec<u8>, String>,
}

/// The command line's overrides. They take precedence over every other layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--provider`, for the agent `default`.
    pub provider: Option<String>,
    /// `--model`, for the agent `default`.
    pub model: Option<String>,
    /// `--mode`, for the agent `default`.
    pub mode: Option<String>,
    /// `--log`: a level or a filter.
    pub log: Option<String>,
}

impl Flags {
    /// Reads the variables with the same values.
    pub(super) fn from_env(env: &Env) -> Self {
        let value = |name: &str| env.non_empty(name).map(str::to_owned);
        Self {
            provider: value("AGENTLS_PROVIDER"),
            model: value("AGENTLS_MODEL"),
            mode: value("AGENTLS_MODE"),
            log: value("AGENTLS_LOG"),
        }
    }
}

/// Everything that a configuration depends on.
#[derive(Clone, Debug)]
pub struct LoadInputs<'a> {
    pub env: &'a Env,
    /// The user's folders; `None` without a home folder.
    pub places: Option<&'a ConfigPaths>,
    /// The keys that `agentls login` has stored.
    pub keys: &'a LoginKeys,
    /// The user's config file.
    pub user: Option<FileText>,
    /// The workspace root that owns `workspace` and `local`.
    pub root: Option<&'a Path>,
    /// The root's `.agentls/config.toml`.
    pub workspace: Option<FileText>,
    /// The root's `.agentls/config.local.toml`.
    pub local: Option<FileText>,
    /// The root's files of other programs that name MCP servers, from lowest to highest.
    pub foreign_mcp: Vec<FileText>,
    /// `initializationOptions`, in the shape of a config file.
    pub options: Option<&'a Value>,
    /// The editor's later settings, which override the options. A `null` removes the option.
    pub editor: Option<&'a Value>,
    pub flags: &'a Flags,
    /// The user's decisions about folders, from the store.
    pub trust: &'a Trust,
    /// Resolves the links in a path, because a folder may be spelled in several ways.
    pub canonicalize: fn(&Path) -> PathBuf,
    /// The names of all tools, to detect a misspelled one. If empty, names are not checked.
    pub tools: &'a [String],
}

/// The user's decisions about folders.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// The trusted folders, with the [`FolderDescription::fingerprint`](super::FolderDescription::fingerprint) of what
    /// the user accepted. Without one, whatever the files activate is accepted.
    pub folders: BTreeMap<PathBuf, Option<String>>,
    /// Accepted redirects: folder, provider and exact target.
    pub redirects: BTreeSet<(PathBuf, String, String)>,
}
