//! Confines commands (R-BOX): what they may read, write, and reach, enforced by the kernel.
//!
//! The server builds a [`SandboxPlan`] from settings ([`SandboxScope`]); the helper `agentls __exec` applies it to itself
//! before it starts the command ([`enter`]), so nothing of it ever touches the server. Must not know tools, approvals,
//! or sessions, and decides neither which commands are confined nor what happens after a refusal.
//!
//! Read on in [`plan`] for the rules, [`scope`] for the default ones, and [`linux`] for how they are enforced.

mod cache_layers;
mod caches;
mod expand;
mod home_paths;
mod links;
#[cfg(target_os = "linux")]
mod linux;
mod plan;
mod private_temp;
mod proxy_variables;
mod scope;
#[cfg(any(test, target_os = "macos"))]
mod seatbelt;
mod secret_places;
mod steering_files;
mod steering_inventory;
mod visible_paths;

pub use cache_layers::{locate_layers, remove_layers, remove_old_layers};
pub use expand::needs_privileges;
#[cfg(target_os = "linux")]
pub use linux::{
    BubblewrapCommand, check_inside, close_inherited_files, create_user_namespace, enter,
    list_relative_sockets,
};
pub use plan::{PathRule, SandboxPlan};
pub use private_temp::PrivateTemp;
pub use proxy_variables::list_proxy_variables;
pub use scope::SandboxScope;
#[cfg(target_os = "macos")]
pub use seatbelt::build_seatbelt_profile;
pub use secret_places::list_secret_places;
pub use steering_files::{find_linked_repository, find_outer_repository, read_pointer};
pub use steering_inventory::{COMMON_POINTER, name_reader, read_todo_commands, visit_steering_files};
pub use visible_paths::CommandNeeds;

/// A step of setting up the sandbox that failed. The command must not run.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step}: {source}")]
pub struct SandboxError {
    /// What was tried, as in "mount /proc".
    pub step: String,
    pub source: std::io::Error,
}

impl SandboxError {
    /// Creates the error of a step, for `map_err`.
    fn at<E: Into<std::io::Error>>(step: impl Into<String>) -> impl FnOnce(E) -> Self {
        move |source| Self {
            step: step.into(),
            source: source.into(),
        }
    }
}
