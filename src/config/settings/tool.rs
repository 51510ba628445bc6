//! The settings of tools and hooks: limits of all tools, the user's own tools, and commands that run in every turn.
//!
//! `resolve` checks what they say about each other; `command_tools` what an own tool may look like.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::untrusted::Untrusted;
use crate::config::values::{CommandLine, Seconds, StringList};
use crate::domain::{Mode, SandboxPolicy};

/// How long a call may run, unless configured.
const TIMEOUT: Duration = Duration::from_secs(120);
/// How long a tool is paused, unless configured (R-TOOL-4).
const COOLDOWN: Duration = Duration::from_secs(60);
/// How long a sub-agent may work, unless configured (R-SUB).
const DELEGATE_TIMEOUT: Duration = Duration::from_secs(300);

/// Tools.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ToolSettings {
    /// The shell.
    pub bash: BashSettings,
    /// Reading web pages.
    pub web_fetch: WebFetchSettings,
    /// Other tools, by name. One with a `command` is a tool of your own.
    #[serde(flatten)]
    pub others: BTreeMap<String, ToolTable>,
    /// The user's own tools that are valid, in the order of their names.
    #[serde(skip)]
    pub commands: Vec<CommandToolSettings>,
}

impl ToolSettings {
    /// Returns how long a call of this tool may run, without the time it waits for a user.
    pub fn timeout_for(&self, tool: &str) -> Duration {
        let own = match tool {
            "bash" => self.bash.timeout_s,
            "web_fetch" => self.web_fetch.timeout_s,
            _ => self.others.get(tool).and_then(|table| table.timeout_s),
        };
        let usual = || self.others.get("default").and_then(|table| table.timeout_s);
        match (own, tool) {
            (Some(own), _) => own.0,
            (None, "delegate") => DELEGATE_TIMEOUT,
            (None, _) => usual().map_or(TIMEOUT, |limit| limit.0),
        }
    }

    /// Returns how long this tool is paused after it repeatedly failed in the same way.
    pub fn cooldown_for(&self, tool: &str) -> Duration {
        let own = match tool {
            "bash" => self.bash.circuit_cooldown_s,
            "web_fetch" => self.web_fetch.circuit_cooldown_s,
            _ => self.others.get(tool).and_then(|table| table.circuit_cooldown_s),
        };
        let usual = || {
            self.others
                .get("default")
                .and_then(|table| table.circuit_cooldown_s)
        };
        own.or_else(usual).map_or(COOLDOWN, |pause| pause.0)
    }
}

/// A tool.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolTable {
    /// How long a call may run, in seconds, without the time it waits for a user. Default: 120.
    #[schemars(
        range(min = 0.001, max = 86_400),
        extend("default" = 120.0, "x-untrusted" = Untrusted::Any)
    )]
    pub timeout_s: Option<Seconds>,
    /// How long to pause a tool after it failed three times in a row in the same way, in seconds. Default: 60.
    #[schemars(
        range(min = 0.001, max = 86_400),
        extend("default" = 60.0, "x-untrusted" = Untrusted::Any)
    )]
    pub circuit_cooldown_s: Option<Seconds>,
    /// For a tool of your own: the command to run. One text for the shell, or a list of a program and its arguments.
    /// It reads its arguments as one JSON object and runs in the session's folder. Its output is the result; an exit
    /// code other than 0 is a failure.
    pub command: Option<CommandLine>,
    /// For a tool of your own: what it does and when to use it, for the model.
    pub description: Option<String>,
    /// For a tool of your own: the JSON Schema of its arguments (`type`, `properties`, `required`,
    /// `additionalProperties`, `items`, `enum`, `minimum`, `maximum`, `pattern`, `description`). Default: no arguments.
    #[schemars(extend("x-untrusted" = Untrusted::Never))]
    pub schema: Option<Map<String, Value>>,
    /// For a tool of your own: the kind of effect that a call has, which decides whether it needs approval. Default:
    /// `execute`.
    #[schemars(extend("default" = "execute"))]
    pub effect: Option<ToolEffect>,
    /// For a tool of your own: what its command may do while the sandbox is enabled. The mode may allow less.
    /// Default: what the mode allows; `workspace` in every mode if the command is in a project's file or you do not
    /// trust the folder.
    #[schemars(with = "Option<SandboxPolicySchema>", extend("x-untrusted" = Untrusted::Never))]
    pub sandbox: Option<SandboxPolicy>,
}

/// Reading web pages.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebFetchSettings {
    /// How long a call may take, in seconds, without the time it waits for a user. Default: 120.
    #[schemars(
        range(min = 0.001, max = 86_400),
        extend("default" = 120.0, "x-untrusted" = Untrusted::Any)
    )]
    pub timeout_s: Option<Seconds>,
    /// The same as for other tools. Default: 60.
    #[schemars(
        range(min = 0.001, max = 86_400),
        extend("default" = 60.0, "x-untrusted" = Untrusted::Any)
    )]
    pub circuit_cooldown_s: Option<Seconds>,
    /// Hosts on this machine or the private network that may be read, such as `localhost:3000` or `wiki.example.com`. A
    /// host without a port includes all its ports. Default: none.
    // Never from an untrusted folder: it would open what only this machine or its network can reach.
    pub private_hosts: Vec<String>,
}

/// The shell.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BashSettings {
    /// How long a command may run, in seconds, without the time it waits for a user. Default: 120.
    #[schemars(
        range(min = 0.001, max = 86_400),
        extend("default" = 120.0, "x-untrusted" = Untrusted::Any)
    )]
    pub timeout_s: Option<Seconds>,
    /// The same as for other tools. Default: 60.
    #[schemars(
        range(min = 0.001, max = 86_400),
        extend("default" = 60.0, "x-untrusted" = Untrusted::Any)
    )]
    pub circuit_cooldown_s: Option<Seconds>,
    /// What a cancel does to a running command. Default: `interrupt`.
    #[schemars(extend("x-untrusted" = Untrusted::Any))]
    pub on_cancel: OnCancel,
    /// How long `on_cancel = "finish"` waits for the command to end, in seconds. Default: 5.
    #[schemars(range(min = 1, max = 600), extend("x-untrusted" = Untrusted::Any))]
    pub finish_timeout_s: Seconds,
    /// Variables that commands receive even if this configuration names them (in `${…}`) or they contain a known API
    /// key.
    pub pass_env: Vec<String>,
}

impl Default for BashSettings {
    fn default() -> Self {
        Self {
            timeout_s: None,
            circuit_cooldown_s: None,
            on_cancel: OnCancel::default(),
            finish_timeout_s: Seconds::from(5.0),
            pass_env: Vec::new(),
        }
    }
}

/// What a cancel does to a running command (R-CANCEL).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnCancel {
    /// Interrupts it immediately; it ends within 2.5 s.
    #[default]
    Interrupt,
    /// Waits up to `finish_timeout_s` for it to end, then interrupts it.
    Finish,
}

/// The schema of [`SandboxPolicy`].
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum SandboxPolicySchema {
    /// It writes nothing but its temporary folder.
    ReadOnly,
    /// It writes in the workspace folders, its temporary folder, and the caches of build tools.
    Workspace,
    /// It is not confined. Only in your own configuration: a project's files cannot say this.
    Off,
}

/// The kind of effect that a call of your own tool has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ToolEffect {
    /// It reads and changes nothing: needs no approval in any mode.
    Read,
    /// It changes files of the workspace: needs no approval in `autoEdit`.
    Write,
    /// It may do anything: needs approval, except in `full`.
    #[default]
    Execute,
    /// It uses the network: needs approval, except in `full`.
    Network,
}

/// A command that the model can call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandToolSettings {
    /// The NAME of `[tool.NAME]`.
    pub name: String,
    /// What the tool does and when to use it, for the model.
    pub description: String,
    /// The command; it reads the arguments as one JSON object.
    pub command: CommandLine,
    /// The JSON Schema of the arguments.
    pub schema: Arc<Value>,
    /// The kind of effect that a call has.
    pub effect: ToolEffect,
    /// What the command may do in the sandbox; by the mode if `None`.
    pub sandbox: Option<SandboxPolicy>,
    /// A file of the workspace folder names the command.
    pub is_from_folder: bool,
}

/// A command of yours that runs at a certain moment of every turn. It reads one JSON object. Exit code 0 passes, 2
/// blocks with the text on standard error. A JSON object on standard output may change the input or end the turn.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HookSettings {
    /// The NAME of `[hook.NAME]`.
    #[serde(skip)]
    pub name: String,
    /// When it runs.
    pub on: HookMoment,
    /// The command: one text for the shell, or a list of a program and its arguments. It runs in the session's folder.
    pub command: CommandLine,
    /// For `pre_tool` and `post_tool`: only tools whose name matches one of these; `*` matches any characters.
    /// Default: all tools.
    pub tool: StringList,
    /// How long the command may run, in seconds. Default: 60.
    #[schemars(range(min = 0.001, max = 86_400))]
    pub timeout_s: Seconds,
    /// `false` disables the hook. Default: true.
    pub enabled: bool,
    /// What the command may do while the sandbox is enabled. Default: `workspace`; in the mode `full` it is `off`, unless
    /// the command is in a project's file or you do not trust the folder.
    #[schemars(with = "Option<SandboxPolicySchema>")]
    pub sandbox: Option<SandboxPolicy>,
    /// A file of the workspace folder names the command.
    #[serde(skip)]
    pub is_from_folder: bool,
}

impl Default for HookSettings {
    fn default() -> Self {
        Self {
            name: String::new(),
            on: HookMoment::default(),
            command: CommandLine::default(),
            tool: StringList::default(),
            timeout_s: Seconds::from(60.0),
            enabled: true,
            sandbox: None,
            is_from_folder: false,
        }
    }
}

impl HookSettings {
    /// Returns what the command may do in a session with this mode, in a folder that the user trusts or not.
    pub fn sandbox_policy(&self, mode: Mode, is_trusted: bool) -> SandboxPolicy {
        let by_mode = match mode {
            Mode::Full if is_trusted => SandboxPolicy::Off,
            // The mode `plan` limits the model, and a hook does what its user wrote.
            Mode::Plan | Mode::Ask | Mode::AutoEdit | Mode::Full => SandboxPolicy::Workspace,
        };
        self.sandbox.unwrap_or(by_mode)
    }

    /// Returns whether the hook applies to the tool with this name.
    pub fn matches_tool(&self, tool: &str) -> bool {
        self.tool.is_empty() || self.tool.matches_name(tool)
    }
}

/// The moment of a turn at which a hook runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookMoment {
    /// The user sent a prompt, and no model has seen it.
    #[default]
    Prompt,
    /// The model requests a tool, and no approval has been asked for.
    PreTool,
    /// A tool has run, and the model has not seen its result.
    PostTool,
    /// The model has answered, and the turn would end.
    Stop,
}

impl HookMoment {
    /// Returns the name in the configuration and in a hook's input.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::PreTool => "pre_tool",
            Self::PostTool => "post_tool",
            Self::Stop => "stop",
        }
    }
}

impl fmt::Display for HookMoment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hook_without_tools_matches_all_tools() {
        let hook = |tools: &[&str]| HookSettings {
            tool: StringList(tools.iter().map(|tool| (*tool).to_owned()).collect()),
            ..HookSettings::default()
        };
        assert!(hook(&[]).matches_tool("x"));
        assert!(hook(&["a", "x*"]).matches_tool("xy"));
        assert!(!hook(&["a"]).matches_tool("xy"));
    }

    #[test]
    fn only_the_mode_full_does_not_confine_a_hook_that_states_no_policy() {
        use SandboxPolicy::{Off, ReadOnly, Workspace};
        for (stated, policies) in [
            (None, [Workspace, Workspace, Workspace, Off]),
            (Some(Workspace), [Workspace; 4]),
            (Some(ReadOnly), [ReadOnly; 4]),
            (Some(Off), [Off; 4]),
        ] {
            let hook = HookSettings {
                sandbox: stated,
                ..HookSettings::default()
            };
            let found = [Mode::Plan, Mode::Ask, Mode::AutoEdit, Mode::Full]
                .map(|mode| hook.sandbox_policy(mode, true));
            assert_eq!(found, policies, "{stated:?}");
            let untrusted = hook.sandbox_policy(Mode::Full, false);
            assert_eq!(untrusted, stated.unwrap_or(Workspace), "{stated:?}");
        }
    }
}
