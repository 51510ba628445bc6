//! Landlock: writes only where the plan allows them, and no signals or abstract sockets to the outside.
//!
//! Rules of Landlock only add. So it cannot protect a file in a writable folder or hide one in a readable tree: `mounts`
//! does that where it can.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    Scope, path_beneath_rules,
};

use crate::domain::SandboxMethod;
use crate::sandbox::SandboxError;
use crate::sandbox::plan::{PathRule, SandboxPlan, TEMPORARY};

/// The newest rights that we ask for. An older kernel ignores the ones that it does not know.
///
/// The ninth version adds connecting to Unix sockets, which is allowed only where writing is.
const RIGHTS: ABI = ABI::V9;

/// Device files that commands write, and the folder of pseudoterminals.
#[rustfmt::skip]
const DEVICES: [&str; 9] = [
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx",
    "/dev/pts", "/dev/shm",
];

/// Restricts this process. Without Landlock in the kernel, that is an error unless mounts enforce the rules as well.
pub(super) fn restrict_file_access(
    plan: &SandboxPlan,
    rules: &[(PathRule, PathBuf)],
) -> Result<(), SandboxError> {
    let status = build_ruleset(plan, rules)
        .map_err(io::Error::other)
        .map_err(SandboxError::at("restrict access to files"))?;
    if status == RulesetStatus::NotEnforced && plan.method == SandboxMethod::Landlock {
        let missing = io::Error::other("the kernel has no Landlock");
        return Err(SandboxError::at("restrict access to files")(missing));
    }
    Ok(())
}

fn build_ruleset(
    plan: &SandboxPlan,
    rules: &[(PathRule, PathBuf)],
) -> Result<RulesetStatus, landlock::RulesetError> {
    let write = AccessFs::from_write(RIGHTS);
    // Mounts protect what a rule of Landlock cannot.
    let named = rules.iter().filter(|(rule, _)| rule.is_writable());
    let temporary = if plan.method.has_namespaces() {
        TEMPORARY.map(Path::new).to_vec()
    } else {
        vec![plan.temp.as_path()]
    };
    let writable = named.map(|(_, path)| path.as_path());
    let writable = writable.chain(temporary).chain(DEVICES.map(Path::new));
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(write)?
        .scope(Scope::from_all(RIGHTS))?
        .create()?
        // Paths that do not exist are left out: nothing can be written there.
        .add_rules(path_beneath_rules(writable, write))?
        .restrict_self()?;
    Ok(status.ruleset)
}
