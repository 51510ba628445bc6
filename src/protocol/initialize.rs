//! The handshake: what both sides announce under `capabilities.experimental.agent`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::table;

/// The version of the protocol. Another `major` cannot be talked to; another `minor` can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProtocolVersion {
    /// Grows when something that clients rely on goes or changes.
    pub major: u32,
    /// Grows when something is added.
    pub minor: u32,
}

/// The version that this server speaks.
pub const PROTOCOL_VERSION: ProtocolVersion = ProtocolVersion { major: 1, minor: 0 };

/// What the server announces in `capabilities.experimental.agent` of its answer to `initialize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerCapability {
    /// The version of the protocol.
    pub protocol_version: ProtocolVersion,
    /// The requests and notifications that the server takes.
    pub methods: Vec<String>,
    /// The notifications that the server sends.
    pub notifications: Vec<String>,
    /// What else the server can do.
    pub features: Vec<Feature>,
}

/// Something that the lists of methods do not tell. Clients ignore words that they do not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Feature {
    /// Prompts may contain images.
    Images,
    /// Unsaved text of open documents is what the agent reads.
    UnsavedText,
    /// Files open in the editor are changed through `workspace/applyEdit`, where the client can.
    ApplyEdit,
    /// Prompts may wait for the turn's end (`agent/queue`).
    Queue,
    /// What turns change of files is told (`agent/turnDiff`) and can be taken back (`agent/revert`).
    Checkpoints,
    /// The agent may delegate to sub-agents, whose calls and retries carry `parentToolCallId`.
    SubAgents,
    /// API keys are asked for by `agent/getCredential`, where the client can.
    Credentials,
    /// What compilers and linters of the editor say is asked for by `agent/getDiagnostics`, where the client can.
    Diagnostics,
}

/// What a client may announce in `capabilities.experimental.agent` of `initialize`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClientCapability {
    /// What the client does for the server.
    #[serde(default)]
    pub client: ClientFlags,
}

/// What the client does for the server beyond what LSP has words for. Unknown flags are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientFlags {
    /// The client shows `agent/limitRequested` and `agent/questionRequested` to a person and answers them. Without it
    /// nothing is asked but approvals: a limit that is reached ends the turn.
    #[serde(default)]
    pub questions: bool,
    /// The client answers `agent/saveDocuments`. With it, and with LSP's `workspace.applyEdit` and
    /// `workspace.workspaceEdit.documentChanges`, files that are open in the editor are changed there; without, on the
    /// disk where the editor holds no unsaved change, else not at all.
    #[serde(default)]
    pub save_documents: bool,
    /// The client answers `agent/getCredential`, from a store that keeps secrets.
    #[serde(default)]
    pub get_credential: bool,
    /// The client answers `agent/getDiagnostics`. Without it the agent has no tool `diagnostics`.
    #[serde(default)]
    pub get_diagnostics: bool,
}

/// `initializationOptions` of `initialize`: settings as in the configuration file, over the files' ones,
/// and what only the editor knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InitializationOptions {
    /// Whether the editor trusts its workspace folders. What was said of a folder with `agent/setTrust` goes
    /// before this; of other folders than the workspace's it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted: Option<bool>,
    /// Settings, by the names of the configuration file.
    #[serde(flatten)]
    pub settings: Map<String, Value>,
}

impl InitializationOptions {
    /// Reads what a client sent. Nothing is refused: what is no object (Lua encodes an empty table as `[]`)
    /// is as good as nothing, and a `trusted` that is no yes or no stays among the settings, whose check
    /// complains of it.
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
    /// Reads what a client sent under `capabilities.experimental`. Nothing is refused: what cannot be read is as good as
    /// not sent.
    pub fn read(experimental: Option<&Value>) -> Self {
        let agent = experimental.and_then(|experimental| experimental.get("agent"));
        let flag = |name: &str| agent.and_then(|agent| agent.get("client")?.get(name)?.as_bool());
        Self {
            client: ClientFlags {
                questions: flag("questions").unwrap_or_default(),
                save_documents: flag("saveDocuments").unwrap_or_default(),
                get_credential: flag("getCredential").unwrap_or_default(),
                get_diagnostics: flag("getDiagnostics").unwrap_or_default(),
            },
        }
    }
}

impl ServerCapability {
    /// All of the table, and `features`.
    pub fn new(features: Vec<Feature>) -> Self {
        let names = |entries: &[table::Entry]| entries.iter().map(|entry| entry.method.to_owned()).collect();
        let mut methods: Vec<String> = names(table::REQUESTS);
        methods.extend(names(table::CLIENT_NOTIFICATIONS));
        Self {
            protocol_version: PROTOCOL_VERSION,
            methods,
            notifications: names(table::SERVER_NOTIFICATIONS),
            features,
        }
    }
}
