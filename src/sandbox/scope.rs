//! The default rules: what commands may write, and which secrets they must not read (R-BOX).

use std::path::{Path, PathBuf};

use super::cache_layers::create_private;
use super::caches::{create_missing_caches, list_caches};
use super::plan::{PathRule, REPLACED, SandboxPlan};
use super::private_temp::is_shared_temp;
use super::secret_places::{list_home_secrets, list_named_secrets, list_system_secrets};
use crate::domain::{SandboxMethod, SandboxNetwork, SandboxPolicy};

/// Everything that decides about the sandbox of a command.
#[derive(Clone, Debug)]
pub struct SandboxScope {
    pub policy: SandboxPolicy,
    pub method: SandboxMethod,
    /// The workspace folders.
    pub workspace: Vec<PathBuf>,
    pub home: Option<PathBuf>,
    /// The folder that becomes `/tmp`; it must exist.
    pub temp: PathBuf,
    pub network: SandboxNetwork,
    /// Further paths that commands may write (`[sandbox] write`).
    pub extra_write: Vec<PathBuf>,
    /// Further paths that commands must not read: our own store, log, and configurations, and `[sandbox] read_deny`.
    pub extra_hide: Vec<PathBuf>,
    /// Paths in the workspace that stay read-only.
    pub extra_read_only: Vec<PathBuf>,
    /// Paths below the machine's temporary folders that the command needs; see [`super::CommandNeeds`].
    pub visible: Vec<PathBuf>,
    /// What commands see of the home folder, of which they see nothing else; `None` if they see all but secrets. See
    /// [`super::CommandNeeds::list_home_paths`].
    pub shown_home: Option<Vec<PathBuf>>,
    /// The folder for what commands change in caches; see [`super::locate_layers`].
    pub cache_layers: Option<PathBuf>,
}

impl SandboxScope {
    /// Builds the plan of a command. `variable` returns the value of a variable of its environment.
    ///
    /// Later rules win, so secrets come after everything that is writable, and caches after the home folder.
    pub fn build_plan(&self, variable: impl Fn(&str) -> Option<PathBuf>) -> SandboxPlan {
        let network = self.method.limit_network(self.network);
        let resolver = (network == SandboxNetwork::Open).then(|| PathBuf::from("/etc/resolv.conf"));
        let path = variable("PATH").unwrap_or_default();
        let programs = std::env::split_paths(&path)
            .filter(|folder| folder.starts_with("/run") || folder.starts_with("/var/run"));
        let mut rules: Vec<_> = with_rule(PathRule::Reach, programs.chain(resolver)).collect();
        // First, so that they neither undo what may be written below them nor show what is hidden.
        if self.method.has_namespaces() {
            rules.extend(with_rule(PathRule::Visible, self.visible.iter().cloned()));
        }
        let caches = list_caches(self.home.as_deref(), self.method, &variable).into_iter();
        let caches: Vec<_> = caches.map(|cache| (cache.rule, cache.path)).collect();
        if let Some(shown) = &self.shown_home
            && !self.workspace.iter().any(|folder| self.is_around_home(folder))
            // Such a home folder is replaced as a whole already, or is all that there is.
            && !REPLACED.iter().any(|folder| self.is_home_around(folder))
        {
            rules.extend(with_rule(PathRule::Empty, self.home.iter().cloned()));
            rules.extend(with_rule(PathRule::Visible, shown.iter().cloned()));
            let caches = caches.iter().map(|(_, path)| path.clone());
            rules.extend(with_rule(PathRule::Visible, caches));
        }
        let mut folders = self.workspace.clone();
        // Outer folders first: the rule of one around another would undo those of the inner one's files.
        folders.sort_by_key(|folder| folder.components().count());
        let folders = folders.into_iter();
        if self.policy == SandboxPolicy::Workspace {
            let (around_home, others) = folders.partition::<Vec<_>, _>(|folder| self.is_around_home(folder));
            if !around_home.is_empty() {
                // Not the home folder itself: Landlock cannot take anything back.
                let around = around_home
                    .into_iter()
                    .filter(|folder| Some(folder) != self.home.as_ref());
                rules.extend(with_rule(PathRule::Workspace, around));
                rules.extend(with_rule(PathRule::HomeWorkspace, self.home.iter().cloned()));
            }
            rules.extend(caches);
            rules.extend(with_rule(PathRule::Write, self.extra_write.iter().cloned()));
            rules.extend(with_rule(PathRule::Workspace, others.into_iter()));
            rules.extend(with_rule(
                PathRule::ReadOnly,
                self.extra_read_only.iter().cloned(),
            ));
        } else {
            // A workspace below `/tmp` would be hidden by the command's own `/tmp`.
            rules.extend(with_rule(PathRule::ReadOnly, folders));
        }
        rules.extend(self.list_hidden(&variable));
        SandboxPlan {
            method: self.method,
            network,
            temp: self.temp.clone(),
            cache_layers: self.cache_layers.clone(),
            rules,
        }
    }

    /// Lists the rules for what is hidden, which come last.
    fn list_hidden(&self, variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<(PathRule, PathBuf)> {
        let home = self.home.as_deref();
        let mut rules = home.map_or_else(Vec::new, |home| list_home_secrets(home, &self.workspace));
        let mut named = list_named_secrets(&variable);
        // A value such as `/` must not hide the workspace, nor the folders that each command gets for itself.
        let own = REPLACED.map(PathBuf::from);
        let folders: Vec<&PathBuf> = self.workspace.iter().chain(&self.home).chain(&own).collect();
        named.retain(|(_, path)| !folders.iter().any(|folder| folder.starts_with(path)));
        rules.extend(named);
        // The command finds its own folder of them elsewhere.
        if self.method.has_namespaces() {
            let shared = self.temp.parent().filter(|folder| is_shared_temp(folder));
            rules.extend(shared.map(|folder| (PathRule::Hide, folder.to_owned())));
        }
        rules.extend(with_rule(PathRule::Hide, list_system_secrets()));
        rules.extend(with_rule(PathRule::Hide, self.extra_hide.iter().cloned()));
        rules
    }

    /// Creates the missing caches of build tools that commands may write, for programs on the PATH, and the folder of their
    /// layers. Blocks on the disk.
    pub fn create_missing_caches(&self, variable: impl Fn(&str) -> Option<PathBuf>) {
        let caches = list_caches(self.home.as_deref(), self.method, &variable);
        create_missing_caches(&self.build_plan(&variable), &caches, variable("PATH").as_deref());
        // Only what exists can be hidden, so our data folder must not appear with the first command.
        if let Some(layers) = &self.cache_layers {
            // Without it, caches are read-only.
            let _ = create_private(layers);
        }
    }

    /// Returns whether a folder is the home folder, or is in it.
    fn is_home_around(&self, folder: &str) -> bool {
        self.home
            .as_ref()
            .is_some_and(|home| Path::new(folder).starts_with(home))
    }

    /// Returns whether a folder is the home folder, or one around it.
    fn is_around_home(&self, folder: &Path) -> bool {
        self.home.as_ref().is_some_and(|home| home.starts_with(folder))
    }
}

fn with_rule(
    rule: PathRule,
    paths: impl Iterator<Item = PathBuf>,
) -> impl Iterator<Item = (PathRule, PathBuf)> {
    paths.map(move |path| (rule, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(policy: SandboxPolicy) -> SandboxScope {
        SandboxScope {
            policy,
            method: SandboxMethod::Namespaces,
            workspace: vec!["/home/u/project".into()],
            home: Some("/home/u".into()),
            temp: "/tmp/agentls-sandbox-1/private".into(),
            network: SandboxNetwork::Offline,
            extra_write: vec!["/data/cache".into()],
            extra_hide: vec![
                "/home/u/.local/share/agentls".into(),
                "/home/u/project/keys".into(),
            ],
            extra_read_only: vec!["/home/u/project/tools/hooks".into()],
            visible: vec!["/tmp/tools".into()],
            shown_home: None,
            cache_layers: None,
        }
    }

    #[test]
    fn the_workspace_policy_writes_the_workspace_and_caches_but_reads_no_secrets() {
        let variables = |name: &str| match name {
            "CARGO_HOME" => Some(PathBuf::from("/opt/cargo")),
            "GOCACHE" => Some(PathBuf::from("/")),
            "PIP_CACHE_DIR" => Some(PathBuf::from("pip")),
            "XDG_CACHE_HOME" => Some(PathBuf::from("/x/cache")),
            "GOPATH" => Some(PathBuf::from("/g/one:/g/two")),
            _ => None,
        };
        let plan = scope(SandboxPolicy::Workspace).build_plan(variables);
        for (path, rule) in [
            ("/home/u/project/src/lib.rs", Some(PathRule::Workspace)),
            ("/home/u/project/keys/a", Some(PathRule::Hide)),
            ("/home/u/project/tools/hooks/a", Some(PathRule::ReadOnly)),
            ("/tmp/agentls-sandbox-1/other", Some(PathRule::Hide)),
            ("/home/u/.cargo/registry/src/x", Some(PathRule::Cache)),
            ("/home/u/.cargo/bin/cargo", None),
            ("/home/u/.cargo/credentials.toml", Some(PathRule::Blank)),
            (
                "/home/u/.vscode-server/data/User/History/1/x",
                Some(PathRule::Hide),
            ),
            ("/home/u/.vscode-server/extensions/x/bin/y", None),
            ("/home/u/.config/Code/User/History/1/x", Some(PathRule::Hide)),
            ("/home/u/.config/Code/User/settings.json", None),
            ("/home/u/.local/share/Trash/files/.env", Some(PathRule::Hide)),
            ("/home/u/.config/restic/password", Some(PathRule::Hide)),
            ("/home/u/.claude/projects/p/x.jsonl", Some(PathRule::Hide)),
            ("/home/u/.claude/skills/x/SKILL.md", None),
            ("/home/u/.codex/sessions/x", Some(PathRule::Hide)),
            ("/home/u/.vault_pass", Some(PathRule::Hide)),
            ("/home/u/.monero/wallets/x", Some(PathRule::Hide)),
            ("/home/u/Maildir/new/x", Some(PathRule::Hide)),
            // R and conda fail if they cannot open theirs.
            ("/home/u/.Renviron", Some(PathRule::Blank)),
            ("/home/u/.condarc", Some(PathRule::Blank)),
            ("/home/u/.ssh/id_ed25519", Some(PathRule::Hide)),
            ("/home/u/.local/share/agentls/store.db", Some(PathRule::Hide)),
            ("/home/u/other/file", None),
            ("/opt/cargo/registry/index", Some(PathRule::Cache)),
            ("/opt/cargo/bin/x", None),
            ("/data/cache/x", Some(PathRule::Write)),
            ("/x/cache/pip/http", Some(PathRule::Cache)),
            ("/x/cache/other", None),
            ("/g/one/pkg/sumdb/x", Some(PathRule::Cache)),
            ("/g/one/bin/x", None),
            ("/g/two/pkg/mod/x", None),
            ("/home/u/.yarn/berry/cache/x", Some(PathRule::Cache)),
            ("/home/u/.yarn/berry/index/x", Some(PathRule::Cache)),
            ("/home/u/.yarn/berry/plugins/x", None),
            ("/usr/lib/x", None),
        ] {
            assert_eq!(plan.find_rule(Path::new(path)), rule, "{path}");
        }
    }

    #[test]
    fn secrets_are_hidden_where_variables_place_them() {
        let variables = |name: &str| match name {
            "XDG_CONFIG_HOME" => Some(PathBuf::from("/etc/u")),
            "CARGO_HOME" => Some(PathBuf::from("/opt/cargo")),
            "KUBECONFIG" => Some(PathBuf::from("/k/one:relative:/k/two")),
            "GNUPGHOME" => Some(PathBuf::from("/home")),
            "NETRC" => Some(PathBuf::from("/n/netrc")),
            "DOCKER_HOST" => Some(PathBuf::from("unix:///s/docker.sock")),
            "CONTAINER_HOST" => Some(PathBuf::from("tcp://home:2375")),
            "DBUS_SESSION_BUS_ADDRESS" => Some(PathBuf::from("unix:path=/s/bus,guid=1;unix:path=/s/bus2")),
            "GPG_AGENT_INFO" => Some(PathBuf::from("/s/agent:1:1")),
            "SSH_AUTH_SOCK" => Some(PathBuf::from("/s/ssh")),
            "RCLONE_CONFIG" => Some(PathBuf::from("/r/rclone.conf")),
            "CODEX_HOME" | "CLAUDE_CONFIG_DIR" => Some(PathBuf::from("/c")),
            "TF_CLI_CONFIG_FILE" => Some(PathBuf::from("/r/tfrc")),
            "XDG_DATA_HOME" => Some(PathBuf::from("/x/data")),
            "XDG_STATE_HOME" => Some(PathBuf::from("/x/state")),
            "XDG_CACHE_HOME" => Some(PathBuf::from("/x/cache")),
            "RESTIC_PASSWORD_FILE" => Some(PathBuf::from("/r/restic")),
            "COMPOSER_HOME" | "PULUMI_HOME" => Some(PathBuf::from("/r/home")),
            // A command has a folder of its own there.
            "XDG_RUNTIME_DIR" => Some(PathBuf::from("/tmp")),
            _ => None,
        };
        for policy in [SandboxPolicy::Workspace, SandboxPolicy::ReadOnly] {
            let plan = scope(policy).build_plan(variables);
            for (path, rule) in [
                ("/c/sessions/x", Some(PathRule::Hide)),
                ("/c/projects/x", Some(PathRule::Hide)),
                ("/etc/u/gh/hosts.yml", Some(PathRule::Hide)),
                ("/etc/u/git/credentials", Some(PathRule::Blank)),
                ("/home/u/.config/gh/hosts.yml", Some(PathRule::Hide)),
                ("/opt/cargo/credentials.toml", Some(PathRule::Blank)),
                ("/opt/cargo/config.toml", None),
                ("/k/one", Some(PathRule::Hide)),
                ("/k/two", Some(PathRule::Hide)),
                ("/n/netrc", Some(PathRule::Blank)),
                ("/s/docker.sock", Some(PathRule::Hide)),
                ("/s/bus", Some(PathRule::Hide)),
                ("/s/bus2", Some(PathRule::Hide)),
                ("/s/agent", Some(PathRule::Hide)),
                ("/s/ssh", Some(PathRule::Hide)),
                ("/s/other", None),
                ("/r/rclone.conf", Some(PathRule::Hide)),
                ("/c/auth.json", Some(PathRule::Hide)),
                ("/c/.credentials.json", Some(PathRule::Hide)),
                ("/c/.claude.json", Some(PathRule::Blank)),
                ("/c/settings.json", None),
                ("/r/tfrc", Some(PathRule::Blank)),
                ("/r/other", None),
                ("/etc/u/pip/pip.conf", Some(PathRule::Blank)),
                ("/home/u/.config/JetBrains/Idea1/c.kdbx", Some(PathRule::Hide)),
                ("/home/u/.local/share/uv/tools", None),
                ("/x/data/opencode/auth.json", Some(PathRule::Hide)),
                ("/x/data/gem/credentials", Some(PathRule::Blank)),
                ("/x/data/uv/tools", None),
                ("/x/state/bash_history", Some(PathRule::Hide)),
                ("/x/cache/huggingface/token", Some(PathRule::Hide)),
                ("/r/restic", Some(PathRule::Hide)),
                ("/r/home/auth.json", Some(PathRule::Blank)),
                ("/r/home/credentials.json", Some(PathRule::Hide)),
                ("/home/x", None),
                ("/tmp/x", None),
                ("/home/u/other", None),
                (
                    "/home/u/.config/Code/User/globalStorage/state.vscdb",
                    Some(PathRule::Hide),
                ),
                ("/home/u/.config/Code/User/settings.json", None),
                ("/home/u/.claude.json", Some(PathRule::Blank)),
            ] {
                assert_eq!(plan.find_rule(Path::new(path)), rule, "{path}");
            }
        }
    }

    #[test]
    fn what_is_in_run_is_reached_only_where_programs_need_it() {
        let path = |name: &str| (name == "PATH").then(|| PathBuf::from("/usr/bin:/run/user/1/fnm/bin:run"));
        for (network, reached) in [
            (SandboxNetwork::Offline, vec!["/run/user/1/fnm/bin"]),
            (
                SandboxNetwork::Open,
                vec!["/run/user/1/fnm/bin", "/etc/resolv.conf"],
            ),
        ] {
            let scope = SandboxScope {
                network,
                ..scope(SandboxPolicy::ReadOnly)
            };
            let rules = scope.build_plan(path).rules.into_iter();
            let found: Vec<_> = rules.filter(|(rule, _)| *rule == PathRule::Reach).collect();
            let expected: Vec<_> = reached
                .iter()
                .map(|path| (PathRule::Reach, path.into()))
                .collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_a_command_needs_is_shown_only_where_a_folder_replaces_it_and_undoes_no_other_rule() {
        let scope = SandboxScope {
            workspace: vec!["/tmp/tools/ws".into()],
            extra_hide: vec!["/tmp/tools/keys".into()],
            ..scope(SandboxPolicy::Workspace)
        };
        let plan = scope.build_plan(|_| None);
        for (path, rule) in [
            ("/tmp/tools/bin/a", Some(PathRule::Visible)),
            ("/tmp/tools/ws/a", Some(PathRule::Workspace)),
            ("/tmp/tools/keys/a", Some(PathRule::Hide)),
            ("/tmp/other", None),
        ] {
            assert_eq!(plan.find_rule(Path::new(path)), rule, "{path}");
        }
        let partial = SandboxScope {
            method: SandboxMethod::Landlock,
            ..scope
        };
        assert_eq!(
            partial.build_plan(|_| None).find_rule(Path::new("/tmp/tools/a")),
            None
        );
    }

    #[test]
    fn an_empty_home_folder_shows_only_what_is_named_and_no_secrets() {
        let shown = ["/home/u/.rustup", "/home/u/.config/gh"].map(PathBuf::from);
        for policy in [SandboxPolicy::Workspace, SandboxPolicy::ReadOnly] {
            let mut scope = SandboxScope {
                shown_home: Some(shown.to_vec()),
                ..scope(policy)
            };
            let plan = scope.build_plan(|_| None);
            let [workspace, cache] = if policy == SandboxPolicy::Workspace {
                [PathRule::Workspace, PathRule::Cache]
            } else {
                [PathRule::ReadOnly, PathRule::Visible]
            };
            for (path, rule) in [
                ("/home/u/diary", PathRule::Empty),
                ("/home/u/.rustup/x", PathRule::Visible),
                ("/home/u/.config/gh/hosts.yml", PathRule::Hide),
                ("/home/u/project/x", workspace),
                ("/home/u/.npm/x", cache),
            ] {
                assert_eq!(plan.find_rule(Path::new(path)), Some(rule), "{path}");
            }
            scope.workspace.push("/home/u".into());
            let plan = scope.build_plan(|_| None);
            assert!(
                !plan.rules.iter().any(|(rule, _)| *rule == PathRule::Empty),
                "it is the workspace"
            );
        }
    }

    #[test]
    fn the_read_only_policy_writes_nothing() {
        let plan = scope(SandboxPolicy::ReadOnly).build_plan(|_| None);
        let may_write = |(rule, _): &(PathRule, PathBuf)| rule.is_writable() || *rule == PathRule::Workspace;
        assert!(!plan.rules.iter().any(may_write));
        assert_eq!(plan.find_rule(Path::new("/home/u/.ssh/x")), Some(PathRule::Hide));
    }

    #[test]
    fn secrets_stay_hidden_if_the_home_folder_is_the_workspace() {
        let scope = SandboxScope {
            workspace: vec!["/home/u".into()],
            ..scope(SandboxPolicy::Workspace)
        };
        let plan = scope.build_plan(|_| None);
        assert_eq!(
            plan.find_rule(Path::new("/home/u/.aws/credentials")),
            Some(PathRule::Hide)
        );
        assert_eq!(
            plan.find_rule(Path::new("/home/u/notes")),
            Some(PathRule::HomeWorkspace)
        );
        assert_eq!(
            plan.find_rule(Path::new("/home/u/.npm/x")),
            Some(PathRule::Cache),
            "a cache"
        );
    }

    #[test]
    fn an_outer_workspace_folder_never_undoes_the_rules_of_an_inner_one() {
        for workspace in [["/w", "/w/sub"], ["/w/sub", "/w"]] {
            let scope = SandboxScope {
                workspace: workspace.map(PathBuf::from).to_vec(),
                ..scope(SandboxPolicy::Workspace)
            };
            let rules = scope.build_plan(|_| None).rules;
            let folders: Vec<_> = rules
                .iter()
                .filter(|(rule, _)| *rule == PathRule::Workspace)
                .collect();
            let expected = ["/w", "/w/sub"].map(|path| (PathRule::Workspace, PathBuf::from(path)));
            assert_eq!(folders, expected.iter().collect::<Vec<_>>(), "{workspace:?}");
        }
    }

    #[test]
    fn the_home_folder_is_one_in_a_workspace_around_it_too() {
        let scope = SandboxScope {
            workspace: vec!["/home".into(), "/home/u/project".into()],
            ..scope(SandboxPolicy::Workspace)
        };
        let plan = scope.build_plan(|_| None);
        for (path, rule) in [
            ("/home/shared", PathRule::Workspace),
            ("/home/u/.bashrc", PathRule::HomeWorkspace),
            ("/home/u/project/src", PathRule::Workspace),
        ] {
            assert_eq!(plan.find_rule(Path::new(path)), Some(rule), "{path}");
        }
    }
}
