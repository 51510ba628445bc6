//! What `agentls sandbox test` confines with: the method that works here, a temporary folder, and a plan.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use crate::config::ConfigSource;
use crate::domain::{SandboxMethod, SandboxNetwork, SandboxPolicy};
use crate::sandbox::{PathRule, PrivateTemp, SandboxPlan, SandboxScope, remove_layers};
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

    /// Returns whether what commands change in caches of build tools is kept apart, by trying it where our data is.
    ///
    /// # Errors
    /// The folder for it cannot be created.
    pub(super) async fn keeps_caches_apart(&self, source: &ConfigSource) -> Result<bool, Box<dyn Error>> {
        let data = source.places.as_ref().map(|own| own.data_dir.as_path());
        let existing = data
            .into_iter()
            .flat_map(Path::ancestors)
            .find(|folder| folder.is_dir());
        let folder = PrivateTemp::create_in(existing.unwrap_or(&std::env::temp_dir()))?;
        let (cache, layers) = (folder.path().join("cache"), folder.path().join("layers"));
        fs::create_dir(&cache)?;
        let plan = SandboxPlan {
            method: self.detected.method,
            network: SandboxNetwork::Offline,
            temp: self.temp.path().to_owned(),
            cache_layers: Some(layers.clone()),
            rules: vec![(PathRule::Cache, cache.clone())],
        };
        let command = Command::from_script(": > file").current_dir(&cache).sandbox(plan);
        let output = self.launcher.spawn(command).await?.collect_output(0).await;
        remove_layers(&layers)?;
        Ok(output.status.success() && !cache.join("file").exists())
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
