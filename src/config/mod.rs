//! Typed settings (R-CONF): layers, trust, diagnostics with file and line, JSON Schema, environment, paths.
//!
//! Knows nothing about sessions, running providers or the wire.
//!
//! The path of a setting: text of a layer → `tree` (values with locations) → `${VAR}` → validation against the
//! schema of [`settings`] → trust → merge → [`settings`] (serde, then `resolve`).

mod api_kind;
mod command_tools;
mod default_provider;
pub mod diagnostics;
pub mod env;
mod expand;
mod folder_code;
mod folder_items;
mod foreign_inputs;
mod foreign_mcp;
mod inputs;
pub mod layers;
mod location;
mod login_keys;
mod logins;
mod mcp_names;
mod model_name;
mod names;
pub mod paths;
mod proxies;
mod redirect;
mod resolve;
mod schema;
pub mod secrets;
#[warn(missing_docs, reason = "each field's comment is its reference")]
pub mod settings;
mod tree;
mod trust;
mod untrusted;
mod unusable_mcp;
mod validate;
mod values;

pub use api_kind::ApiKind;
pub use default_provider::{DefaultChoice, DefaultModel, select_default, select_for, selected_by_key};
pub use diagnostics::{ConfigSeverity, Diagnostic, HOW_TO_TRUST};
pub use env::Env;
pub use folder_items::{FolderItem, FolderItemKind};
pub use inputs::{FileText, Flags, LoadInputs, Trust};
pub use layers::{ConfigSource, FolderDescription, LoadedConfig, describe_folder, load_settings};
pub use login_keys::{KeyFile, KeyFileStamp, LoginKeys};
pub use mcp_names::{MAX_NAMED_MCP_SERVERS, usable_mcp_names};
pub use model_name::{HasModel, follow_prefix, provider_prefix, strip_provider};
pub use names::{
    key_variable, key_variables, missing_key_hint, preset_at, providers_of_key, providers_with_key, takes_key,
};
pub use paths::ConfigPaths;
pub use redirect::ProviderRedirect;
pub use schema::{export_json_schema, generate_annotated_schema};
pub use secrets::{RedactedPieces, Redactor, long_words};
pub use settings::{
    AgentSettings, ApprovalSettings, CacheTtl, CommandToolSettings, EditTool, FailurePolicy, HomeAccess,
    HookMoment, HookSettings, LimitPolicy, LogFormat, LogLevel, LoggingSettings, McpServerSettings,
    ModelPrefix, ModelSettings, NetworkSettings, OnCancel, OutputEscalation, ProviderSettings, ProxyAddress,
    ReasoningEffort, RetryPolicy, RetryProfile, SandboxSettings, SandboxedCommands, ServerSettings, Settings,
    ToolChoice, ToolEffect, ToolSettings, Verbosity,
};
pub use untrusted::Untrusted;
pub use values::{CommandLine, Milliseconds, Seconds, StringList};

#[cfg(test)]
mod tests;
