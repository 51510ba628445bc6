//! Explains to the model what the sandbox refused to a command, and how to ask for more (R-BOX).
//!
//! Never claims what the output of a command alone says: a path is checked against the sandbox, and everything else is
//! worded as a possibility. Nothing here runs anything.

use std::path::Path;

use super::command_network;
use super::refusal_messages::{FileError, RefusedAction, find_refused_actions};
use crate::base::spawn::run_blocking;
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::domain::{SandboxNetwork, SandboxPolicy};
use crate::workspace::command_sandbox::CallSandbox;
use crate::workspace::process::ExitStatus;
use crate::workspace::{PathRule, SandboxAccess};

/// How much of the end of an output is read, in bytes. Programs report there what stopped them.
const READ_BYTES: usize = 4_000;
/// Most paths that a note names.
const MAX_PATHS: usize = 3;
/// Longest path that a note names, in characters.
const MAX_PATH: usize = 600;
/// The signal that ends a program for a system call (`SIGSYS`).
const BAD_CALL: i32 = rustix::process::Signal::SYS.as_raw();
/// The exit code of a shell whose program that signal ended.
const BAD_CALL_CODE: i32 = 128 + BAD_CALL;

/// Returns how the user lets a hook do what the sandbox refuses. A policy counts only for a command of the same file.
pub fn hook_remedy(is_from_folder: bool) -> &'static str {
    if is_from_folder {
        "To allow it, copy the hook to your own config.toml, with `sandbox = \"off\"`: it can then read your keys, write \
         all of your files, and use the network"
    } else {
        "To allow it, set `sandbox = \"off\"` next to the hook's `command` in your own config.toml: it can then read your \
         keys, write all of your files, and use the network"
    }
}

/// Whose command it is, which decides what the model can do about a refusal of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandOrigin {
    /// `bash`, which can run a command outside of the sandbox.
    Bash,
    /// A tool of a project's settings or of the user's, which state what its command may do.
    Configured { is_from_folder: bool },
    /// A hook, of a project's settings or of the user's.
    Hook { is_from_folder: bool },
}

/// What decides how refusals of the sandbox are explained to the model.
pub struct Refusals {
    origin: CommandOrigin,
    access: SandboxAccess,
    policy: SandboxPolicy,
    /// Whether the settings let nothing run outside of the sandbox.
    is_required: bool,
    has_failed: bool,
    /// Whether it ended as one whose system call was refused.
    has_bad_call: bool,
}

impl Refusals {
    /// `status` is that of its end; `None` if it still runs.
    pub fn new(
        origin: CommandOrigin,
        access: SandboxAccess,
        sandbox: &CallSandbox,
        status: Option<ExitStatus>,
    ) -> Self {
        Self {
            origin,
            access,
            policy: sandbox.policy,
            is_required: sandbox.settings.required,
            has_failed: status.is_some_and(|status| status != ExitStatus::Code(0)),
            has_bad_call: matches!(
                status,
                Some(ExitStatus::Signal(BAD_CALL) | ExitStatus::Code(BAD_CALL_CODE))
            ),
        }
    }

    /// Returns a note about what the sandbox refused to a command with this output, or may have refused.
    ///
    /// The hosts that its proxy refused are known, so they are always named.
    pub async fn explain(self, output: &str, refused_hosts: Vec<String>) -> Option<String> {
        if let Some(refused) = command_network::format_refusals(&refused_hosts) {
            return Some(refused);
        }
        let start = output.len().saturating_sub(READ_BYTES);
        let end = &output[output.ceil_char_boundary(start)..];
        let mut actions = find_refused_actions(end, self.has_failed);
        if self.has_bad_call && !actions.contains(&RefusedAction::SystemCall) {
            actions.insert(0, RefusedAction::SystemCall);
        }
        if actions.is_empty() {
            return None;
        }
        // Checking the paths reads the disk.
        let described = run_blocking(move || {
            let described = self.describe_actions(&actions, |path| self.access.find_rule(path))?;
            let remedy = self.describe_remedy();
            let more = self.describe_server_remedy(&actions).unwrap_or_default();
            Some(format!("[the sandbox {described}. {remedy}{more}]"))
        });
        described.await.ok()?
    }

    /// Describes what was refused for certain, then the first thing that may have been.
    fn describe_actions(
        &self,
        actions: &[RefusedAction],
        find_rule: impl Fn(&Path) -> Option<PathRule>,
    ) -> Option<String> {
        let mut certain: Vec<String> = Vec::new();
        let mut possible = None;
        for action in actions {
            let RefusedAction::File { paths, error } = action else {
                possible = possible.or_else(|| self.describe_possibility(action));
                continue;
            };
            let protected = paths.iter().find_map(|path| {
                let named = Path::new(path);
                let verb = if *error == FileError::Missing && self.access.hides_temporary(named) {
                    "see the machine's"
                } else {
                    self.find_refused_access(find_rule(named)?, *error, named)?
                };
                let path = one_line(&reveal_hidden_characters(path), MAX_PATH);
                Some(format!("{verb} {path}"))
            });
            match protected {
                Some(text) if !certain.contains(&text) && certain.len() < MAX_PATHS => certain.push(text),
                Some(_) => {}
                // A command may have changed its folder, so a relative path may be elsewhere.
                None if !paths.iter().any(|path| path.starts_with('/')) => {
                    possible = possible.or_else(|| self.describe_possibility(action));
                }
                None => {}
            }
        }
        let certain =
            (!certain.is_empty()).then(|| format!("does not let this command {}", certain.join(" or ")));
        let possible = possible.map(|possible| format!("may have refused {possible}"));
        match (certain, possible) {
            (Some(certain), Some(possible)) => Some(format!("{certain}, and {possible}")),
            (certain, possible) => certain.or(possible),
        }
    }

    /// Returns what the sandbox refuses with this error at a path with this rule, if it does.
    fn find_refused_access(&self, rule: PathRule, error: FileError, path: &Path) -> Option<&'static str> {
        let has_mounts = self.access.has_mounts();
        match (rule, error) {
            (
                PathRule::Write | PathRule::Cache | PathRule::Workspace | PathRule::HomeWorkspace,
                FileError::Denied,
            ) => {
                let is_refused = self.access.lacks_privileges(path);
                is_refused.then_some("use the privileges of root to write another user's")
            }
            (PathRule::Write | PathRule::Workspace | PathRule::HomeWorkspace, _) => None,
            // Those of a plan, which become others when it is applied.
            (PathRule::Visible | PathRule::Reach, _) => None,
            // ssh-keygen calls a key missing that it cannot read.
            (PathRule::Hide | PathRule::Empty, FileError::Denied | FileError::Missing) if has_mounts => {
                Some("read")
            }
            // Mounts have an error of their own, so the file itself denies this.
            (PathRule::ReadOnly, FileError::Denied) if has_mounts => None,
            (_, FileError::Missing) => None,
            // It is the error for what was not created because of a mount.
            (_, FileError::NotCreated) if !has_mounts => None,
            (
                PathRule::ReadOnly | PathRule::Cache | PathRule::Empty | PathRule::Hide | PathRule::Blank,
                _,
            ) => Some("write"),
        }
    }

    /// Describes what cannot be checked; `None` if the sandbox refuses no such thing.
    fn describe_possibility(&self, action: &RefusedAction) -> Option<String> {
        let network = self.access.network();
        Some(match action {
            RefusedAction::File { paths, error } => match error {
                FileError::ReadOnly if self.has_failed => {
                    format!("a write: {}", self.describe_writable())
                }
                FileError::Denied if self.has_failed && paths.is_empty() => {
                    "access to a file or socket: commands read no secrets, and reach no sockets of other programs"
                        .to_owned()
                }
                FileError::ReadOnly | FileError::Denied | FileError::NotCreated | FileError::Missing => return None,
            },
            RefusedAction::Host(host) => {
                let host = host.as_deref().map(|host| format!(" to {host}")).unwrap_or_default();
                let reason = match network {
                    SandboxNetwork::Open => return None,
                    SandboxNetwork::Offline => "commands have no network",
                    SandboxNetwork::Proxy => {
                        "commands have no network but its HTTP proxy, which programs find in the variable HTTPS_PROXY"
                    }
                };
                format!("a connection{host}: {reason}")
            }
            RefusedAction::Server => match network {
                SandboxNetwork::Open => {
                    "a connection to a socket: commands reach no sockets of other programs".to_owned()
                }
                _ if self.access.has_mounts() => {
                    "a connection to another program: commands reach only servers that they start themselves"
                        .to_owned()
                }
                SandboxNetwork::Offline | SandboxNetwork::Proxy => {
                    "a connection: commands have no network, not even on this machine".to_owned()
                }
            },
            RefusedAction::Signal => {
                "a signal to a process: commands reach only processes that they start themselves".to_owned()
            }
            RefusedAction::SystemCall => {
                "a system call, and ended the program for it: 32-bit programs and others for another processor do not \
                 run"
                    .to_owned()
            }
            RefusedAction::Privilege(what) => {
                // Landlock leaves the network to seccomp, whose error is the same.
                let what = what.unwrap_or(if self.access.has_mounts() {
                    "a privileged operation"
                } else {
                    "a connection or a privileged operation"
                });
                format!("{what}: commands have no privileges")
            }
        })
    }

    fn describe_writable(&self) -> &'static str {
        match self.policy {
            SandboxPolicy::ReadOnly => "commands write only temporary files here",
            SandboxPolicy::Workspace | SandboxPolicy::Off => {
                "commands write only in the workspace, in temporary files, and in caches of build tools"
            }
        }
    }

    /// Tells how to reach a server of `bash` in the background, which has a network of its own.
    fn describe_server_remedy(&self, actions: &[RefusedAction]) -> Option<&'static str> {
        let may_ask = self.policy != SandboxPolicy::ReadOnly && !self.is_required;
        let is_meant = actions.contains(&RefusedAction::Server) && self.access.has_own_network();
        (self.origin == CommandOrigin::Bash && may_ask && is_meant).then_some(
            ". A server that runs in the background of the sandbox is reached by no other command: end it, and start \
             it with \"outside_sandbox\": true first",
        )
    }

    fn describe_remedy(&self) -> &'static str {
        match (self.origin, self.policy) {
            // The mode plan, which denies commands outside of the sandbox.
            (CommandOrigin::Bash, SandboxPolicy::ReadOnly) => "The mode plan allows no more",
            (CommandOrigin::Bash, _) if self.is_required => {
                "The user's settings require it; if the task needs more, tell the user"
            }
            (CommandOrigin::Bash, _) => {
                "If the task needs it, call bash again with the same command, \"outside_sandbox\": true, and the \
                 reason in \"description\": the user is asked"
            }
            (CommandOrigin::Configured { .. }, _) => {
                "This tool has no way out of it; if the task needs one, tell the user"
            }
            (CommandOrigin::Hook { is_from_folder }, _) => hook_remedy(is_from_folder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::SandboxMethod;
    use crate::sandbox::SandboxPlan;
    use crate::workspace::process::Command;

    fn refusals(origin: CommandOrigin, policy: SandboxPolicy, network: SandboxNetwork) -> Refusals {
        refusals_with(SandboxMethod::Namespaces, origin, policy, network)
    }

    fn refusals_with(
        method: SandboxMethod,
        origin: CommandOrigin,
        policy: SandboxPolicy,
        network: SandboxNetwork,
    ) -> Refusals {
        let plan = SandboxPlan {
            method,
            network,
            temp: "/tmp/private".into(),
            cache_layers: None,
            rules: Vec::new(),
        };
        let access = Command::from_script("x")
            .sandbox(plan)
            .confinement()
            .unwrap()
            .access;
        let sandbox = CallSandbox {
            policy,
            ..CallSandbox::default()
        };
        Refusals::new(origin, access, &sandbox, Some(ExitStatus::Code(1)))
    }

    /// Explains an output, in a sandbox that hides `/secret`, protects `/ws/.git/config`, and lets `/ws` be written.
    fn explain(refusals: &Refusals, output: &str) -> Option<String> {
        let actions = find_refused_actions(output, refusals.has_failed);
        refusals.describe_actions(&actions, |path| {
            let path = Path::new("/ws").join(path);
            let rules = [
                ("/ws/.git/config", PathRule::ReadOnly),
                ("/ws", PathRule::Write),
                ("/secret", PathRule::Hide),
            ];
            let found = rules.iter().find(|(folder, _)| path.starts_with(folder));
            Some(found.map_or(PathRule::ReadOnly, |(_, rule)| *rule))
        })
    }

    #[test]
    fn a_path_is_named_only_if_the_sandbox_protects_it() {
        let refusals = refusals(
            CommandOrigin::Bash,
            SandboxPolicy::Workspace,
            SandboxNetwork::Offline,
        );
        for (output, want) in [
            (
                "touch: cannot touch '/etc/zz': Read-only file system",
                Some("does not let this command write /etc/zz"),
            ),
            (
                "bash: line 1: .git/config: Read-only file system",
                Some("does not let this command write .git/config"),
            ),
            (
                "cat: /secret/key: Permission denied\nmkdir: cannot create directory ‘/opt/x’: Read-only file system",
                Some("does not let this command read /secret/key or write /opt/x"),
            ),
            // The files themselves deny these.
            ("cat: /etc/shadow: Permission denied", None),
            ("bash: line 1: ./run.sh: Permission denied", None),
            (
                "Error: ENOENT: no such file or directory, mkdir '/opt/a/b'",
                Some("does not let this command write /opt/a/b"),
            ),
            ("Error: ENOENT: no such file or directory, mkdir '/ws/a/b'", None),
            (
                "error: Couldn't load public key /secret/id.pub: No such file or directory",
                Some("does not let this command read /secret/id.pub"),
            ),
            ("cat: /opt/none: No such file or directory", None),
            (
                "verifying module: open /opt/go/pkg/sumdb/sum.golang.org/latest: no such file or directory",
                Some("does not let this command write /opt/go/pkg/sumdb/sum.golang.org/latest"),
            ),
            (
                "Error connecting to agent: Permission denied",
                Some("may have refused a connection to another program"),
            ),
            // After a `cd`, it could be anywhere.
            (
                "touch: cannot touch 'y': Read-only file system",
                Some("may have refused a write: commands write only in the workspace"),
            ),
            (
                "touch: cannot touch '/etc/zz': Read-only file system\ncurl: (6) Could not resolve host: a.example",
                Some(
                    "write /etc/zz, and may have refused a connection to a.example: commands have no network",
                ),
            ),
            (
                "unshare: unshare failed: Operation not permitted",
                Some("may have refused creating a namespace"),
            ),
        ] {
            let text = explain(&refusals, output);
            match want {
                Some(want) => assert!(
                    text.as_deref().is_some_and(|text| text.contains(want)),
                    "{output}: {text:?}"
                ),
                None => assert_eq!(text, None, "{output}"),
            }
        }
    }

    #[test]
    fn what_the_commands_own_folders_refuse_is_recognized() {
        let machine = tempfile::tempdir_in("/tmp").unwrap();
        let own = tempfile::tempdir_in("/var/tmp").unwrap();
        for file in ["hidden", "both"] {
            std::fs::write(machine.path().join(file), "").unwrap();
        }
        let name = Path::new(machine.path().file_name().unwrap());
        std::fs::create_dir(own.path().join(name)).unwrap();
        std::fs::write(own.path().join(name).join("both"), "").unwrap();
        let missing = |file: &str| {
            let path = machine.path().join(file);
            format!("cat: {}: No such file or directory", path.display())
        };
        let with = |method| {
            let plan = SandboxPlan {
                method,
                network: SandboxNetwork::Offline,
                temp: own.path().to_owned(),
                cache_layers: None,
                rules: vec![(PathRule::Write, machine.path().join("ws"))],
            };
            let command = Command::from_script("x").sandbox(plan);
            Refusals {
                access: command.confinement().unwrap().access,
                ..refusals(
                    CommandOrigin::Bash,
                    SandboxPolicy::Workspace,
                    SandboxNetwork::Offline,
                )
            }
        };
        let refusals = with(SandboxMethod::Namespaces);
        let explain = |refusals: &Refusals, output: &str| {
            let actions = find_refused_actions(output, true);
            refusals.describe_actions(&actions, |path| refusals.access.find_rule(path))
        };
        let hidden = machine.path().join("hidden");
        for (output, want) in [
            (
                missing("hidden"),
                Some(format!("see the machine's {}", hidden.display())),
            ),
            // The command removed its own, or it never existed, or it is in the workspace.
            (missing("both"), None),
            (missing("neither"), None),
            (missing("ws/x"), None),
            (missing("../../etc/hostname"), None),
            (
                "touch: cannot touch '/run/zz': Read-only file system".to_owned(),
                Some("write /run/zz".to_owned()),
            ),
            (
                "bash: line 1: /dev/zz: Read-only file system".to_owned(),
                Some("write /dev/zz".to_owned()),
            ),
            ("cat: /proc/1/environ: Permission denied".to_owned(), None),
        ] {
            let want = want.map(|want| format!("does not let this command {want}"));
            assert_eq!(explain(&refusals, &output), want, "{output}");
        }
        let partial = with(SandboxMethod::Landlock);
        assert_eq!(explain(&partial, &missing("hidden")), None);
    }

    #[test]
    fn root_reads_that_it_has_no_privileges_over_the_files_of_others() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let folder = tempfile::tempdir_in("/var/lib").unwrap();
        let [own, foreign] = ["own", "foreign"].map(|name| folder.path().join(name));
        for path in [&own, &foreign] {
            std::fs::create_dir(path).unwrap();
        }
        std::os::unix::fs::chown(&foreign, Some(65_534), Some(65_534)).unwrap();
        let refusals = refusals(
            CommandOrigin::Bash,
            SandboxPolicy::Workspace,
            SandboxNetwork::Offline,
        );
        let explain = |path: &Path| {
            let output = format!("touch: cannot touch '{}': Permission denied", path.display());
            let actions = find_refused_actions(&output, true);
            refusals.describe_actions(&actions, |_| Some(PathRule::Workspace))
        };
        let text = explain(&foreign.join("new")).unwrap();
        assert!(
            text.contains("not let this command use the privileges of root"),
            "{text}"
        );
        assert_eq!(explain(&own.join("new")), None);
        std::fs::set_permissions(&foreign, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert_eq!(explain(&foreign.join("new")), None);
    }

    #[test]
    fn the_network_is_named_only_if_it_is_limited() {
        let output = "curl: (6) Could not resolve host: a.example";
        for (network, want) in [
            (SandboxNetwork::Offline, Some("no network")),
            (SandboxNetwork::Proxy, Some("HTTPS_PROXY")),
            (SandboxNetwork::Open, None),
        ] {
            let refusals = refusals(CommandOrigin::Bash, SandboxPolicy::Workspace, network);
            let text = explain(&refusals, output);
            assert_eq!(text.is_some(), want.is_some(), "{network:?}");
            assert!(text.unwrap_or_default().contains(want.unwrap_or_default()));
        }
    }

    #[test]
    fn a_server_is_explained_by_what_commands_reach() {
        use SandboxMethod::{Landlock, Namespaces};
        for (method, network, want) in [
            (
                Namespaces,
                SandboxNetwork::Offline,
                "only servers that they start",
            ),
            (Namespaces, SandboxNetwork::Open, "no sockets of other programs"),
            (Landlock, SandboxNetwork::Offline, "not even on this machine"),
        ] {
            let refusals = refusals_with(method, CommandOrigin::Bash, SandboxPolicy::Workspace, network);
            let text = explain(&refusals, "connect: Connection refused").unwrap();
            assert!(text.contains(want), "{method:?} {network:?}: {text}");
        }
        let refusals = refusals_with(
            Landlock,
            CommandOrigin::Bash,
            SandboxPolicy::Workspace,
            SandboxNetwork::Offline,
        );
        let text = explain(&refusals, "PermissionError: [Errno 1] Operation not permitted");
        assert!(text.unwrap().contains("a connection or a privileged operation"));
        // Landlock makes nothing missing.
        let text = explain(
            &refusals,
            "Error: ENOENT: no such file or directory, mkdir '/opt/a/b'",
        );
        assert_eq!(text, None);
        // Landlock has no error of its own for writes.
        let text = explain(&refusals, "touch: cannot touch '/etc/zz': Permission denied");
        assert!(text.unwrap().contains("does not let this command write /etc/zz"));
    }

    #[tokio::test]
    async fn only_a_server_outside_the_sandbox_is_reached_by_other_commands() {
        let output =
            "curl: (7) Failed to connect to 127.0.0.1 port 8000 after 0 ms: Couldn't connect to server";
        let explain = async |method, policy, network| {
            let refusals = refusals_with(method, CommandOrigin::Bash, policy, network);
            refusals.explain(output, Vec::new()).await.unwrap()
        };
        use SandboxNetwork::{Offline, Open};
        use SandboxPolicy::{ReadOnly, Workspace};
        for (method, policy, network, is_advised) in [
            (SandboxMethod::Namespaces, Workspace, Offline, true),
            (SandboxMethod::Namespaces, ReadOnly, Offline, false),
            (SandboxMethod::Namespaces, Workspace, Open, false),
            (SandboxMethod::Landlock, Workspace, Offline, false),
        ] {
            let note = explain(method, policy, network).await;
            assert_eq!(note.contains("end it, and start it"), is_advised, "{note}");
        }
    }

    #[tokio::test]
    async fn the_remedy_is_what_the_call_can_do() {
        use SandboxPolicy::{ReadOnly, Workspace};
        let output = "curl: (6) Could not resolve host: a.example";
        for (origin, policy, is_required, want) in [
            (CommandOrigin::Bash, Workspace, false, "\"outside_sandbox\": true"),
            (CommandOrigin::Bash, Workspace, true, "settings require it"),
            (CommandOrigin::Bash, ReadOnly, false, "mode plan allows no more"),
            (
                CommandOrigin::Configured {
                    is_from_folder: false,
                },
                Workspace,
                false,
                "tell the user",
            ),
            (
                CommandOrigin::Configured { is_from_folder: true },
                ReadOnly,
                false,
                "tell the user",
            ),
        ] {
            let refusals = Refusals {
                is_required,
                ..refusals(origin, policy, SandboxNetwork::Offline)
            };
            let note = refusals.explain(output, Vec::new()).await.unwrap();
            assert!(note.contains(want) && !note.contains('\n'), "{note}");
            let offers = origin == CommandOrigin::Bash && policy == Workspace && !is_required;
            assert_eq!(note.contains("outside_sandbox"), offers, "{note}");
        }
        let proxied = refusals(CommandOrigin::Bash, Workspace, SandboxNetwork::Proxy);
        let note = proxied.explain("", vec!["a.example: denied".to_owned()]).await;
        assert!(note.unwrap().contains("a.example: denied"));
    }
}
