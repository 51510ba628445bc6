//! What a confined command may do, so that an error in its output can be attributed to the sandbox or not.
//!
//! Must not know the messages of programs; `tool` reads them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::real_path::real_path;
use crate::domain::SandboxNetwork;
use crate::proxy::ProxyReport;
use crate::sandbox::{PathRule, SandboxPlan, needs_privileges};

/// How a command is confined.
#[derive(Clone, Debug)]
pub struct CommandConfinement {
    pub access: SandboxAccess,
    /// What its proxy refused, if it has one.
    pub network: Option<Arc<ProxyReport>>,
}

/// What a confined command may do with files and the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxAccess {
    plan: SandboxPlan,
    /// The folder that it runs in.
    folder: PathBuf,
    /// Folders that exist only while it runs, so that it cannot create them.
    reserved: Vec<PathBuf>,
}

impl SandboxAccess {
    pub(super) fn new(plan: SandboxPlan, folder: PathBuf) -> Self {
        Self {
            plan,
            folder,
            reserved: Vec::new(),
        }
    }

    /// Records folders that are read-only although they do not exist when the command has ended.
    pub(super) fn add_reserved(&mut self, reserved: &[PathBuf]) {
        self.reserved.extend_from_slice(reserved);
    }

    /// Returns what the command may do with a path, which starts at its folder if it is relative; `None` if that is not
    /// known. Blocks on the disk.
    pub fn find_rule(&self, named: &Path) -> Option<PathRule> {
        let real = real_path(&self.folder.join(named)).ok()?;
        if self.reserved.iter().any(|reserved| real.starts_with(reserved)) {
            return Some(PathRule::ReadOnly);
        }
        self.plan.find_access(&real)
    }

    /// Returns whether its own temporary folder hides what the machine has at an absolute path. Blocks on the disk.
    pub fn hides_temporary(&self, named: &Path) -> bool {
        real_path(named).is_ok_and(|real| self.plan.hides_temporary(&real))
    }

    /// Returns whether it lacks the privileges of root to write a path. Blocks on the disk.
    pub fn lacks_privileges(&self, named: &Path) -> bool {
        needs_privileges(&self.folder.join(named))
    }

    /// Returns where it finds its temporary folder.
    pub fn visible_temp(&self) -> &Path {
        self.plan.visible_temp()
    }

    /// Returns what it may use of the network.
    pub fn network(&self) -> SandboxNetwork {
        self.plan.network
    }

    /// Returns whether nothing outside of the command reaches its servers.
    pub fn has_own_network(&self) -> bool {
        self.has_mounts() && self.plan.network != SandboxNetwork::Open
    }

    /// Returns whether mounts make files read-only. Otherwise Landlock denies the access, with another error.
    pub fn has_mounts(&self) -> bool {
        self.plan.method.has_namespaces()
    }
}
