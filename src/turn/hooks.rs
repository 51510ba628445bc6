//! The hooks of a session (R-CONF), and the interface of what runs them.
//!
//! `hook_runs` runs them at their points of a turn; `hook_command` is the runner for commands.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::session_link::TurnStopped;
use crate::base::CancellationToken;
use crate::config::{HookMoment, HookSettings, SandboxSettings};
use crate::domain::{Mode, SandboxPolicy, SessionId, TurnId};
use crate::workspace::Workspace;

/// The end of a hook's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookExit {
    Exited {
        code: i32,
        stdout: String,
        stderr: String,
        /// What the sandbox refused to it, or may have refused.
        refused: Option<String>,
    },
    /// The command was not found, timed out, or was killed; the reason is for people.
    Failed(String),
}

/// Where a hook runs.
#[derive(Clone, Copy)]
pub struct HookContext<'a> {
    pub session: &'a SessionId,
    pub turn: &'a TurnId,
    pub cwd: &'a Path,
    pub workspace: &'a Workspace,
    pub sandbox: &'a Arc<SandboxSettings>,
    pub mode: Mode,
    /// The cancel of the turn, or of the call that the hook belongs to.
    pub cancel: &'a CancellationToken,
}

impl HookContext<'_> {
    /// Returns whether the user trusts the folder.
    pub(super) fn is_trusted(&self) -> bool {
        self.workspace.shared().is_trusted(self.cwd)
    }
}

/// Runs hooks. An implementation obeys the turn's cancel and leaves nothing running (I8).
pub trait HookRunner: Send + Sync {
    /// Runs one hook; `input` is the JSON on its standard input.
    ///
    /// # Errors
    /// [`TurnStopped`] if the turn was canceled. A failure of the hook itself is [`HookExit::Failed`].
    fn run_hook<'a>(
        &'a self,
        context: HookContext<'a>,
        hook: &'a HookSettings,
        input: Vec<u8>,
    ) -> BoxFuture<'a, Result<HookExit, TurnStopped>>;

    /// Returns the sandbox of the user's own hooks; `None` if it is that of the session.
    fn own_sandbox(&self) -> Option<&SandboxSettings> {
        None
    }
}

/// The hooks of a session's turns, with their runner.
#[derive(Clone)]
pub struct Hooks {
    hooks: Arc<[HookSettings]>,
    runner: Arc<dyn HookRunner>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hooks").field(&self.hooks).finish()
    }
}

impl Hooks {
    /// Creates the hooks, which `runner` runs in their order.
    pub fn new(hooks: Arc<[HookSettings]>, runner: Arc<dyn HookRunner>) -> Self {
        Self { hooks, runner }
    }

    /// Returns the hooks of a sub-agent: only those for tools. No user wrote its prompt, and its end is not the
    /// turn's.
    pub fn of_subagent(&self) -> Self {
        let around_tools = |hook: &&HookSettings| match hook.on {
            HookMoment::PreTool | HookMoment::PostTool => true,
            HookMoment::Prompt | HookMoment::Stop => false,
        };
        Self {
            hooks: self.hooks.iter().filter(around_tools).cloned().collect(),
            runner: self.runner.clone(),
        }
    }

    /// Returns the names of the hooks that the sandbox must confine because the settings say so, and that run without
    /// it too. `settings` are those of the session.
    pub(super) fn names_of_confined(&self, settings: &SandboxSettings) -> impl Iterator<Item = &str> {
        let own = self.runner.own_sandbox().unwrap_or(settings);
        let may_lack = |settings: &SandboxSettings| settings.enabled && !settings.required;
        let may_lack = [may_lack(own), may_lack(settings)];
        let confined = self.hooks.iter().filter(move |hook| {
            hook.sandbox.is_some_and(|policy| policy != SandboxPolicy::Off)
                && may_lack[usize::from(hook.is_from_folder)]
        });
        confined.map(|hook| hook.name.as_str())
    }

    /// Returns whether any hook runs at that point.
    pub fn has_hooks_for(&self, moment: HookMoment) -> bool {
        self.hooks.iter().any(|hook| hook.on == moment)
    }

    /// Returns whether a hook around tools is for one of `tools` but not for `other`, which does the same work with
    /// other arguments.
    pub fn tell_apart(&self, tools: &[&str], other: &str) -> bool {
        self.hooks.iter().any(|hook| {
            matches!(hook.on, HookMoment::PreTool | HookMoment::PostTool)
                && tools.iter().any(|tool| hook.matches_tool(tool))
                && !hook.matches_tool(other)
        })
    }

    /// Returns the hooks of that point, in their order. With the names of a tool, only those that match one of them.
    pub(super) fn find_hooks<'a>(
        &'a self,
        moment: HookMoment,
        names: &'a [&'a str],
    ) -> impl Iterator<Item = &'a HookSettings> {
        let is_due = move |hook: &&HookSettings| {
            let is_for_tool = names.is_empty() || names.iter().any(|name| hook.matches_tool(name));
            hook.on == moment && is_for_tool
        };
        self.hooks.iter().filter(is_due)
    }

    /// Runs one hook.
    pub(super) fn run_hook<'a>(
        &'a self,
        context: HookContext<'a>,
        hook: &'a HookSettings,
        input: Vec<u8>,
    ) -> BoxFuture<'a, Result<HookExit, TurnStopped>> {
        self.runner.run_hook(context, hook, input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::StringList;

    struct NoRunner(SandboxSettings);

    impl HookRunner for NoRunner {
        fn run_hook<'a>(
            &'a self,
            _: HookContext<'a>,
            _: &'a HookSettings,
            _: Vec<u8>,
        ) -> BoxFuture<'a, Result<HookExit, TurnStopped>> {
            Box::pin(std::future::pending())
        }

        fn own_sandbox(&self) -> Option<&SandboxSettings> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_project_that_requires_the_sandbox_hides_no_hook_of_the_user() {
        let hook = |name: &str, sandbox, is_from_folder| HookSettings {
            name: name.to_owned(),
            sandbox,
            is_from_folder,
            ..HookSettings::default()
        };
        let read_only = Some(SandboxPolicy::ReadOnly);
        let all = [
            hook("own", read_only, false),
            hook("theirs", read_only, true),
            hook("unset", None, false),
            hook("free", Some(SandboxPolicy::Off), false),
        ];
        let settings = |required| SandboxSettings {
            required,
            ..SandboxSettings::default()
        };
        for (own, project, named) in [
            (false, false, &["own", "theirs"][..]),
            (false, true, &["own"]),
            (true, true, &[]),
        ] {
            let hooks = Hooks::new(Arc::new(all.clone()), Arc::new(NoRunner(settings(own))));
            let found: Vec<String> = hooks
                .names_of_confined(&settings(project))
                .map(str::to_owned)
                .collect();
            assert_eq!(found, named, "{own} {project}");
        }
    }

    #[test]
    fn hooks_for_one_tool_alone_tell_it_apart() {
        for (on, tools, tells_apart) in [
            (HookMoment::PreTool, &["edit_file"][..], true),
            (HookMoment::PostTool, &["bash", "write_*"], true),
            (HookMoment::PreTool, &["edit_file", "apply_patch"], false),
            (HookMoment::PreTool, &["bash"], false),
            (HookMoment::PreTool, &[], false),
            (HookMoment::Stop, &["edit_file"], false),
        ] {
            let hook = HookSettings {
                on,
                tool: StringList(tools.iter().map(|tool| (*tool).to_owned()).collect()),
                ..HookSettings::default()
            };
            let hooks = Hooks::new([hook].into(), Arc::new(NoRunner(SandboxSettings::default())));
            let found = hooks.tell_apart(&["edit_file", "write_file"], "apply_patch");
            assert_eq!(found, tells_apart, "{on} {tools:?}");
        }
    }
}
