//! The handshake: what both sides announce under `capabilities.experimental.agent`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::table::method;

/// The version of the protocol. Versions with different `major` are incompatible; a different `minor` is compatible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProtocolVersion {
    /// Increases when something that clients rely on is removed or changed.
    pub major: u32,
    /// Increases when something is added.
    pub minor: u32,
}

/// The version of this server.
pub const PROTOCOL_VERSION: ProtocolVersion = ProtocolVersion { major: 1, minor: 0 };

/// The server's announcement, in `capabilities.experimental.agent` of its answer to `initialize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerCapability {
    /// The version of the protocol.
    pub protocol_version: ProtocolVersion,
    /// The requests and notifications that the server accepts.
    pub methods: Vec<String>,
    /// The notifications that the server sends.
    pub notifications: Vec<String>,
    /// Further abilities of the server.
    pub features: Vec<Feature>,
}

/// An ability that the lists of methods do not show. Clients ignore unknown values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Feature {
    /// Prompts may contain images.
    Images,
    /// The agent reads the unsaved text of open documents.
    UnsavedText,
    /// Files open in the editor are changed through `workspace/applyEdit`, if the client supports it.
    ApplyEdit,
    /// Prompts may wait for the end of a turn (`agent/queue`).
    Queue,
    /// File changes of turns are reported (`agent/turnDiff`) and can be reverted (`agent/revert`).
    Checkpoints,
    /// The agent may delegate to sub-agents, whose calls and retries carry `parentToolCallId`.
    SubAgents,
    /// The server requests API keys by `agent/getCredential`, if the client supports it.
    Credentials,
    /// The server requests the editor's diagnostics by `agent/getDiagnostics`, if the client supports it.
    Diagnostics,
    /// The server asks the editor's language servers by `agent/languageQuery`, if the client supports it.
    LanguageQueries,
}

/// A client's announcement, in `capabilities.experimental.agent` of `initialize`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClientCapability {
    /// What the client does for the server.
    #[serde(default)]
    pub client: ClientFlags,
}

/// What the client does for the server beyond LSP. Unknown flags are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientFlags {
    /// The client shows `agent/limitRequested` and `agent/questionRequested` to the user and answers them. Without it,
    /// the server requests approvals only: reaching a limit ends the turn.
    #[serde(default)]
    pub questions: bool,
    /// The client allows every call that needs approval without asking anybody, as `agentls run --yes` does. The
    /// environment note of the model says so. Questions are not asked then.
    #[serde(default)]
    pub approves: bool,
    /// The client answers `agent/saveDocuments`. With it, and with LSP's `workspace.applyEdit` and
    /// `workspace.workspaceEdit.documentChanges`, the editor changes the files that it has open. Without it, they are
    /// changed on disk, unless the editor holds unsaved changes.
    #[serde(default)]
    pub save_documents: bool,
    /// The client answers `agent/getCredential` from a secret store.
    #[serde(default)]
    pub get_credential: bool,
    /// The client answers `agent/getDiagnostics`. Without it, the agent has no `diagnostics` tool.
    #[serde(default)]
    pub get_diagnostics: bool,
    /// The client answers `agent/languageQuery`. Without it, the agent has no `find_symbol`, `find_references`,
    /// `go_to_definition`, and `rename_symbol` tools.
    #[serde(default)]
    pub language_queries: bool,
    /// The client also answers for the kinds `quickFixes` and `format`. Without it, the agent has no `fix_code` tool.
    #[serde(default)]
    pub code_fixes: bool,
}

/// `initializationOptions` of `initialize`: settings as in the configuration files, which they override, and facts that
/// only the editor knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InitializationOptions {
    /// Whether the editor trusts its workspace folders. A decision made with `agent/setTrust` takes precedence. Other
    /// folders are not affected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted: Option<bool>,
    /// Settings, by their names in the configuration file.
    #[serde(flatten)]
    pub settings: Map<String, Value>,
}

impl InitializationOptions {
    /// Reads what a client sent; never fails.
    ///
    /// A value that is not an object counts as empty, because Lua encodes an empty table as `[]`. A `trusted` that is
    /// not a boolean stays among the settings, whose validation reports it.
    pub fn read(given: Option<Value>) -> Self {
        let Some(Value::Object(mut settings)) = given else {
            return Self::default();
        };
        let trusted = match settings.get("trusted") {
            Some(Value::Bool(trusted)) => Some(*trusted),
            _ => None,
        };
        if trusted.is_some() {
            settings.remove("trusted");
        }
        Self { trusted, settings }
    }
}

impl ClientCapability {
    /// Reads what a client sent under `capabilities.experimental`; never fails. Unreadable parts count as absent.
    pub fn read(experimental: Option<&Value>) -> Self {
        let agent = experimental.and_then(|experimental| experimental.get("agent"));
        let flag = |name: &str| agent.and_then(|agent| agent.get("client")?.get(name)?.as_bool());
        Self {
            client: ClientFlags {
                questions: flag("questions").unwrap_or_default(),
                approves: flag("approves").unwrap_or_default(),
                save_documents: flag("saveDocuments").unwrap_or_default(),
                get_credential: flag("getCredential").unwrap_or_default(),
                get_diagnostics: flag("getDiagnostics").unwrap_or_default(),
                language_queries: flag("languageQueries").unwrap_or_default(),
                code_fixes: flag("codeFixes").unwrap_or_default(),
            },
        }
    }
}

impl ServerCapability {
    /// Announces everything in the table, and `features`.
    pub fn new(features: Vec<Feature>) -> Self {
        let names = |names: &[&str]| names.iter().copied().map(str::to_owned).collect();
        Self {
            protocol_version: PROTOCOL_VERSION,
            methods: names(method::FROM_CLIENT),
            notifications: names(method::NOTIFICATIONS),
            features,
        }
    }
}
