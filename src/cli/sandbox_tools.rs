//! What `agentls sandbox test` confines with: the method that works here, a temporary folder, and a plan.

use std::error::Error;
use std::path::PathBuf;

use crate::config::ConfigSource;
use crate::domain::{SandboxMethod, SandboxPolicy};
use crate::sandbox::{PrivateTemp, SandboxScope};
use crate::workspace::process::{Command, Launcher};
use crate::workspace::sandbox_method::{DetectedMethod, METHOD_VARIABLE, detect_sandbox_method};

/// The launcher, and how it confines commands.
pub(super) struct SandboxTools {
    pub(super) launcher: Launcher,
    pub(super) detected: DetectedMethod,
    pub(super) temp: PrivateTemp,
}

impl SandboxTools {
    /// Finds the method that works here.
    ///
    /// # Errors
    /// The temporary folder cannot be created, or the forced method is unknown.
    pub(super) async fn prepare(source: &ConfigSource) -> Result<Self, Box<dyn Error>> {
        let launcher = Launcher::new([]);
        PrivateTemp::remove_abandoned(&std::env::temp_dir());
        let temp = PrivateTemp::create_for_commands(&std::env::temp_dir())
            .map_err(|error| format!("cannot create a temporary folder: {error}"))?;
        let forced = match source.env.non_empty(METHOD_VARIABLE) {
            Some(name) => {
                let method = SandboxMethod::from_name(name);
                Some(method.ok_or_else(|| format!("{METHOD_VARIABLE}: no method is called {name:?}"))?)
            }
            None => None,
        };
        let detected = detect_sandbox_method(&launcher, forced, temp.path().to_owned()).await;
        Ok(Self {
            launcher,
            detected,
            temp,
        })
    }
}

/// Confines a command. The folder that it sees as `/tmp` is its temporary folder.
pub(super) fn confine(command: Command, scope: &SandboxScope, source: &ConfigSource) -> Command {
    let variable = |name: &str| source.env.non_empty(name).map(PathBuf::from);
    if scope.policy == SandboxPolicy::Workspace {
        scope.create_missing_caches(variable);
    }
    let plan = scope.build_plan(variable);
    let temp = plan.visible_temp().to_owned();
    command.sandbox(plan).env("TMPDIR", temp)
}
