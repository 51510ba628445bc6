//! Typed settings (R-CONF): layers, trust, diagnostics with file and line, JSON Schema, environment, paths.
//!
//! Knows nothing about sessions, running providers or the wire.
//!
//! The path of a setting: text of a layer → `tree` (values with locations) → `${VAR}` → validation against the
//! published schema → trust → merge → [`file`](mod@file) (serde) → [`settings`] (what the rest of the program uses).

pub mod command_tools;
mod default_provider;
pub mod diagnostics;
pub mod env;
mod expand;
#[warn(missing_docs, reason = "each field's comment is its reference")]
pub mod file;
mod folder_items;
pub mod hooks;
pub mod layers;
mod names;
pub mod paths;
mod redirect;
mod resolve;
mod schema;
pub mod secrets;
pub mod settings;
mod tree;
mod trust;
mod validate;

pub use command_tools::{CommandToolSettings, ToolEffect};
pub use default_provider::{DefaultChoice, DefaultModel, select_default, select_for, selected_by_key};
pub use diagnostics::{ConfigSeverity, Diagnostic};
pub use env::Env;
pub use folder_items::{FolderItem, FolderItemKind};
pub use hooks::{CommandLine, HookMoment, HookSettings};
pub use layers::{
    ConfigSource, FileText, Flags, FolderDescription, LoadInputs, LoadedConfig, Trust, describe_folder,
    load_settings,
};
pub use names::{KEY_VARIABLES, providers_of_key};
pub use paths::ConfigPaths;
pub use redirect::ProviderRedirect;
pub use schema::export_json_schema;
pub use secrets::{RedactedPieces, Redactor, long_words};
pub use settings::{
    AgentSettings, ApprovalSettings, FailurePolicy, LogFormat, LogLevel, LoggingSettings, ModelSettings,
    NetworkSettings, OnCancel, OutputEscalation, ProviderKind, ProviderSettings, ReasoningEffort,
    RetryProfile, RetrySettings, RouteStep, ServerSettings, Settings, TimeLimits, ToolChoice, ToolSettings,
};

#[cfg(test)]
mod tests;
