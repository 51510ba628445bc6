//! Replaces the rules of a plan by rules for what exists. Runs in the helper, and after a command that failed.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

use super::plan::{PathRule, SandboxPlan, TEMPORARY, find_rule, is_in_empty, is_temporary};
use super::{SandboxError, steering_files};

/// Most rules of one workspace folder, since each is a mount.
const MAX_EXPANDED: usize = 2_000;

impl SandboxPlan {
    /// Returns what a command may do with a path whose links are resolved. `None` if the command may have something
    /// else there, or the plan cannot be enforced. Blocks on the disk.
    pub fn find_access(&self, path: &Path) -> Option<PathRule> {
        let rules = expand_rules(self).ok()?;
        let own = if self.method.has_namespaces() {
            TEMPORARY
        } else {
            ["/proc", "/dev"]
        };
        match find_rule(&rules, path) {
            None if path.starts_with(&self.temp) || own.iter().any(|folder| path.starts_with(folder)) => None,
            rule => Some(rule.unwrap_or(PathRule::ReadOnly)),
        }
    }

    /// Returns whether the command's own temporary folder hides a file that the machine has at a path, whose links are
    /// resolved. Blocks on the disk.
    pub fn hides_temporary(&self, path: &Path) -> bool {
        let exists = |path: &Path| fs::symlink_metadata(path).is_ok();
        let own = TEMPORARY.iter().find_map(|folder| path.strip_prefix(folder).ok());
        self.method.has_namespaces()
            && own.is_some_and(|below| !exists(&self.temp.join(below)))
            && self.find_rule(path).is_none()
            && exists(path)
    }
}

/// Returns whether only the privileges of root let this process write a path, or create it: another user owns it, or the
/// folder around it. Commands in the sandbox have none. Blocks on the disk.
pub fn needs_privileges(path: &Path) -> bool {
    const GROUP_WRITE: u32 = 0o020;
    const WRITE_BY_OTHERS: u32 = 0o002;
    let found = path.ancestors().find_map(|part| fs::metadata(part).ok());
    geteuid().is_root()
        && found.is_some_and(|found| {
            let is_of_group = found.gid() == getegid().as_raw();
            let granting = if is_of_group { GROUP_WRITE } else { WRITE_BY_OTHERS };
            found.uid() != 0 && found.mode() & granting == 0
        })
}

/// Replaces rules that depend on what exists. Links are resolved: a rule for a link is one for its target.
///
/// Only links that the user made are followed to something writable. A command could have made those in a workspace.
pub(super) fn expand_rules(plan: &SandboxPlan) -> Result<Vec<(PathRule, PathBuf)>, SandboxError> {
    let (mut rules, mut protected) = (Vec::new(), Vec::new());
    for (rule, path) in &plan.rules {
        // A link may lead from one workspace folder or `.git` into another, whose rules must not undo that. What is
        // hidden stays hidden.
        if matches!(rule, PathRule::Hide | PathRule::Blank) {
            add_protected(&mut rules, &mut protected);
        }
        // What does not exist cannot be mounted on; see `scope` for how little that leaves open. Most do not: one look is
        // quicker than resolving each part.
        let Ok(real) = fs::symlink_metadata(path).and_then(|_| fs::canonicalize(path)) else {
            continue;
        };
        // Many link `~/.bash_history` there. Without the device, programs fail.
        if real == Path::new("/dev/null") {
            continue;
        }
        let is_writable = matches!(
            rule,
            PathRule::Write | PathRule::Cache | PathRule::Workspace | PathRule::HomeWorkspace
        );
        if is_writable && real.parent().is_none() {
            let refused =
                io::Error::other("the root folder cannot be a workspace folder; open a folder below it");
            return Err(SandboxError::at("make / writable")(refused));
        }
        let expand: fn(&Path) -> Vec<(PathRule, PathBuf)> = match rule {
            PathRule::Workspace => steering_files::expand_workspace,
            PathRule::HomeWorkspace => steering_files::expand_home,
            PathRule::Write
            | PathRule::Cache
            | PathRule::ReadOnly
            | PathRule::Empty
            | PathRule::Hide
            | PathRule::Blank => {
                rules.push((*rule, real));
                continue;
            }
            PathRule::Visible => {
                if is_temporary(&real) || is_in_empty(&rules, &real) {
                    rules.push((PathRule::ReadOnly, real));
                }
                continue;
            }
            PathRule::Reach => {
                // Not a folder, which may contain sockets.
                if real.starts_with("/run") && real.is_file() {
                    rules.push((PathRule::ReadOnly, real));
                }
                continue;
            }
        };
        let is_of_workspace = *rule == PathRule::Workspace;
        // The home folder may be a link of the system, and is none that a command could make.
        if real != *path && is_of_workspace {
            let replaced = io::Error::other("it leads elsewhere now");
            return Err(SandboxError::at(format!(
                "use the workspace folder {}",
                path.display()
            ))(replaced));
        }
        let expanded = expand(&real);
        if expanded.len() > MAX_EXPANDED {
            let too_many = io::Error::other("it has too many files that make programs run");
            return Err(SandboxError::at(format!("protect {}", path.display()))(too_many));
        }
        for (rule, path) in expanded {
            match fs::canonicalize(&path) {
                // `find_linked_repository` has resolved its paths too.
                Ok(real) if rule == PathRule::ReadOnly && is_of_workspace => protected.push((rule, real)),
                Ok(real) if rule != PathRule::Write || real == path => rules.push((rule, real)),
                Ok(_) | Err(_) => {}
            }
        }
    }
    add_protected(&mut rules, &mut protected);
    Ok(pin_folders(rules))
}

/// Adds rules of a workspace that make something read-only. What is not writable is so already: mounted again, a
/// target of a link in the workspace would appear over what the command has in its place, such as its own `/tmp`.
fn add_protected(rules: &mut Vec<(PathRule, PathBuf)>, protected: &mut Vec<(PathRule, PathBuf)>) {
    protected.retain(|(_, path)| find_rule(rules, path).is_some_and(PathRule::is_writable));
    rules.append(protected);
}

/// Adds the folders between a path with a rule and the writable folder around it, as writable.
///
/// Each becomes a mount point, which cannot be renamed. Otherwise a command could move the folder around a protected
/// file, and put another one in its place.
fn pin_folders(rules: Vec<(PathRule, PathBuf)>) -> Vec<(PathRule, PathBuf)> {
    let mut pinned: Vec<BTreeSet<PathBuf>> = vec![BTreeSet::new(); rules.len()];
    for (at, (_, path)) in rules.iter().enumerate() {
        let around = rules[..at].iter().rposition(|(_, named)| path.starts_with(named));
        let Some(around) = around.filter(|around| rules[*around].0 == PathRule::Write) else {
            continue;
        };
        let folder = &rules[around].1;
        let between = path.ancestors().skip(1).take_while(|between| between != folder);
        pinned[around].extend(
            between
                .filter(|between| between.starts_with(folder))
                .map(PathBuf::from),
        );
    }
    // Right behind the writable folder: later, they would undo the rules of other paths below them.
    let with_pinned = rules.into_iter().zip(pinned);
    with_pinned
        .flat_map(|(rule, folders)| {
            let folders = folders.into_iter().map(|folder| (PathRule::Write, folder));
            std::iter::once(rule).chain(folders)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{SandboxMethod, SandboxNetwork};

    #[test]
    fn a_secret_that_is_a_link_to_the_null_device_hides_no_device() {
        let home = tempfile::tempdir().unwrap();
        let history = home.path().join(".bash_history");
        std::os::unix::fs::symlink("/dev/null", &history).unwrap();
        let plan = SandboxPlan {
            method: SandboxMethod::Namespaces,
            network: SandboxNetwork::Offline,
            temp: home.path().to_owned(),
            cache_layers: None,
            rules: vec![(PathRule::Hide, history)],
        };
        assert_eq!(expand_rules(&plan).unwrap(), []);
    }

    #[test]
    fn folders_between_are_pinned_and_no_rule_changes() {
        let rules: Vec<(PathRule, PathBuf)> = [
            (PathRule::Write, "/ws"),
            (PathRule::Write, "/ws/.git"),
            (PathRule::ReadOnly, "/ws/.git/config"),
            (PathRule::Write, "/ws/.git/modules/a"),
            (PathRule::ReadOnly, "/ws/.git/modules/a/config"),
            (PathRule::Write, "/ws/.git/modules/group/b"),
            (PathRule::ReadOnly, "/ws/.git/modules/group/b/config"),
            (PathRule::ReadOnly, "/ws/.jj/repo/config.toml"),
            (PathRule::Hide, "/home/u/.ssh"),
        ]
        .map(|(rule, path)| (rule, path.into()))
        .to_vec();
        let pinned = pin_folders(rules.clone());
        let added = pinned.iter().filter(|rule| !rules.contains(rule));
        let added: Vec<&Path> = added.map(|(_, path)| path.as_path()).collect();
        let wanted = [
            "/ws/.jj",
            "/ws/.jj/repo",
            "/ws/.git/modules",
            "/ws/.git/modules/group",
        ];
        assert_eq!(added, wanted.map(Path::new));
        for (_, path) in &rules {
            for below in [path.clone(), path.join("below")] {
                assert_eq!(find_rule(&pinned, &below), find_rule(&rules, &below), "{below:?}");
            }
        }
    }
}
