//! The parameters of the requests that a client sends, as far as we read them. Unknown members are ignored.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

/// `initialize`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct InitializeParams {
    pub(super) client_capabilities: ClientCapabilities,
    client_info: Value,
}

impl InitializeParams {
    /// Returns the client's name, or an empty text.
    pub(super) fn client_name(&self) -> &str {
        self.client_info["name"].as_str().unwrap_or_default()
    }
}

/// What the client can do. Whatever has an unexpected form counts as absent, as the protocol's schema demands.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ClientCapabilities(Value);

impl ClientCapabilities {
    pub(super) fn reads_files(&self) -> bool {
        self.0["fs"]["readTextFile"] == true
    }

    pub(super) fn writes_files(&self) -> bool {
        self.0["fs"]["writeTextFile"] == true
    }

    /// Whether the client can run this program in a terminal for a login. Older clients say it in `_meta`.
    pub(super) fn runs_logins(&self) -> bool {
        self.0["auth"]["terminal"] == true || self.0["_meta"]["terminal-auth"] == true
    }

    /// Whether the client shows `notice` updates.
    pub(super) fn shows_notices(&self) -> bool {
        self.0["session"]["notices"].is_object()
    }

    /// Whether the client shows forms.
    pub(super) fn shows_forms(&self) -> bool {
        self.0["elicitation"]["form"].is_object()
    }

    /// Whether the client asks its user to open addresses.
    pub(super) fn opens_urls(&self) -> bool {
        self.0["elicitation"]["url"].is_object()
    }
}

/// `authenticate`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AuthenticateParams {
    pub(super) method_id: String,
}

/// `session/new`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewSessionParams {
    pub(super) cwd: PathBuf,
    pub(super) additional_directories: Option<Vec<PathBuf>>,
}

/// `session/load`, `session/resume` and `session/fork`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LoadSessionParams {
    pub(super) session_id: String,
    pub(super) cwd: PathBuf,
    pub(super) additional_directories: Option<Vec<PathBuf>>,
}

/// `session/close`, `session/delete` and `session/cancel`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionParams {
    pub(super) session_id: String,
}

/// `session/list`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListSessionsParams {
    pub(super) cwd: Option<PathBuf>,
    pub(super) cursor: Option<String>,
}

/// `session/set_mode`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetModeParams {
    pub(super) session_id: String,
    pub(super) mode_id: String,
}

/// `session/set_config_option`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SetOptionParams {
    pub(super) session_id: String,
    pub(super) config_id: String,
    pub(super) value: Value,
}

/// `session/prompt`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptParams {
    pub(super) session_id: String,
    pub(super) prompt: Vec<ContentBlock>,
}

/// A part of a prompt.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ContentBlock {
    Text {
        text: String,
    },
    #[serde(rename_all = "camelCase")]
    Image {
        data: String,
        mime_type: String,
    },
    ResourceLink {
        name: String,
        uri: String,
    },
    Resource {
        resource: EmbeddedResource,
    },
    /// Audio, and whatever later versions add.
    #[serde(other)]
    Other,
}

/// The content of a resource that the client embeds.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EmbeddedResource {
    pub(super) uri: String,
    pub(super) text: Option<String>,
    pub(super) blob: Option<String>,
    pub(super) mime_type: Option<String>,
}

/// The answer to `session/request_permission`.
#[derive(Debug, Deserialize)]
pub(super) struct PermissionAnswer {
    pub(super) outcome: PermissionOutcome,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(super) enum PermissionOutcome {
    Cancelled,
    #[serde(rename_all = "camelCase")]
    Selected {
        option_id: String,
    },
}

/// The answer to `fs/read_text_file`.
#[derive(Debug, Deserialize)]
pub(super) struct FileText {
    pub(super) content: String,
}

/// The answer to `elicitation/create`.
#[derive(Debug, Deserialize)]
pub(super) struct FormAnswer {
    pub(super) action: String,
    #[serde(default)]
    pub(super) content: Option<serde_json::Map<String, Value>>,
}
