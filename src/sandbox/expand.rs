//! Replaces the rules of a plan by rules for what exists. Runs in the helper.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::plan::{PathRule, SandboxPlan};
use super::{SandboxError, steering_files};

/// Replaces rules that depend on what exists. Links are resolved: a rule for a link is one for its target.
///
/// Only links that the user made are followed to something writable. A command could have made those in a workspace.
pub(super) fn expand_rules(plan: &SandboxPlan) -> Result<Vec<(PathRule, PathBuf)>, SandboxError> {
    let mut rules = Vec::new();
    for (rule, path) in &plan.rules {
        // What does not exist cannot be mounted on; see `scope` for how little that leaves open.
        let Ok(real) = fs::canonicalize(path) else {
            continue;
        };
        if *rule != PathRule::Workspace {
            rules.push((*rule, real));
            continue;
        }
        if real != *path {
            let replaced = io::Error::other("it leads elsewhere now");
            return Err(SandboxError::at(format!(
                "use the workspace folder {}",
                path.display()
            ))(replaced));
        }
        for (rule, path) in steering_files::expand_workspace(&real) {
            match fs::canonicalize(&path) {
                // `find_linked_repository` has resolved its paths too.
                Ok(real) if rule != PathRule::Write || real == path => rules.push((rule, real)),
                Ok(_) | Err(_) => {}
            }
        }
    }
    Ok(rules)
}
