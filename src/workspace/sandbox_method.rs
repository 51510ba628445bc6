//! Finds out how commands can be confined on this machine, by trying it.
//!
//! Reading versions and settings of the kernel would only guess. What decides is whether a command starts.

use std::path::PathBuf;

use super::process::{Command, Launcher};
use crate::domain::{SandboxLevel, SandboxMethod, SandboxNetwork};
use crate::sandbox::SandboxPlan;

/// The methods of this system, the strongest first.
#[cfg(target_os = "linux")]
const METHODS: &[SandboxMethod] = &[
    SandboxMethod::Namespaces,
    SandboxMethod::Bubblewrap,
    SandboxMethod::Landlock,
];
#[cfg(target_os = "macos")]
const METHODS: &[SandboxMethod] = &[SandboxMethod::Seatbelt];
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
const METHODS: &[SandboxMethod] = &[];

/// The variable that forces a method, for tests and for finding faults.
pub const METHOD_VARIABLE: &str = "AGENTLS_SANDBOX_METHOD";

/// How commands are confined, and why not in a stronger way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectedMethod {
    pub method: SandboxMethod,
    /// Why each stronger method does not work, for users.
    pub failures: Vec<String>,
}

impl DetectedMethod {
    /// Returns why no stronger method is used, for users.
    pub fn explain(&self) -> String {
        if self.failures.is_empty() {
            format!("{METHOD_VARIABLE} is {:?}", self.method.name())
        } else {
            self.failures.join("; ")
        }
    }

    /// Checks whether commands may run with this method.
    ///
    /// # Errors
    /// A full sandbox is required, and this is not one; with the reason.
    pub fn check_required(&self, is_required: bool) -> Result<(), String> {
        if is_required && self.method.level() != SandboxLevel::Full {
            let name = self.method.name();
            return Err(format!(
                "the settings require a full one, not {name}; {}",
                self.explain()
            ));
        }
        Ok(())
    }
}

/// Returns the strongest method that works, or tries only the one that is forced.
///
/// Takes some milliseconds, so callers keep the result.
pub async fn detect_sandbox_method(
    launcher: &Launcher,
    forced: Option<SandboxMethod>,
    temp: PathBuf,
) -> DetectedMethod {
    let mut failures = Vec::new();
    let tried = match &forced {
        Some(method) => std::slice::from_ref(method),
        None => METHODS,
    };
    for method in tried {
        let plan = SandboxPlan {
            method: *method,
            network: SandboxNetwork::Offline,
            temp: temp.clone(),
            cache_layers: None,
            rules: Vec::new(),
        };
        match try_plan(launcher, plan).await {
            Ok(()) => {
                return DetectedMethod {
                    method: *method,
                    failures,
                };
            }
            Err(reason) => failures.push(format!("{}: {reason}", method.name())),
        }
    }
    DetectedMethod {
        method: SandboxMethod::None,
        failures,
    }
}

async fn try_plan(launcher: &Launcher, plan: SandboxPlan) -> Result<(), String> {
    let command = Command::from_script(":").sandbox(plan);
    let child = launcher.spawn(command).await.map_err(|error| error.to_string())?;
    let collected = child.collect_output(0).await;
    if collected.status.success() {
        Ok(())
    } else {
        Err("a command that does nothing failed in it".to_owned())
    }
}
