//! Hooks of the configuration (R-CONF): validates their tables and builds their settings.
//!
//! Running them and interpreting their answers is the turn's job.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::file::StringOrList;

/// How long a hook may run, unless configured.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A command of yours that runs at a certain moment of every turn. It reads one JSON object. Exit code 0 passes, 2
/// blocks with the text on standard error. A JSON object on standard output may change the input or end the turn.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HookTable {
    /// When it runs.
    pub on: Option<HookMoment>,
    /// The command: one text for the shell, or a list of a program and its arguments. It runs in the session's folder.
    pub command: Option<StringOrList>,
    /// For `pre_tool` and `post_tool`: only tools whose name matches one of these; `*` matches any characters.
    /// Default: all tools.
    pub tool: Option<StringOrList>,
    /// How long the command may run, in seconds. Default: 60.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 60.0))]
    pub timeout_s: Option<f64>,
    /// `false` disables the hook. Default: true.
    #[schemars(extend("default" = true))]
    pub enabled: Option<bool>,
}

/// The moment of a turn at which a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookMoment {
    /// The user sent a prompt, and no model has seen it.
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

/// A hook that is enabled and valid.
#[derive(Clone, PartialEq, Eq)]
pub struct HookSettings {
    pub name: String,
    pub on: HookMoment,
    pub command: CommandLine,
    /// Patterns of tool names; empty matches all.
    pub tools: Vec<String>,
    pub timeout: Duration,
}

/// The command of a hook or of a tool of the user's own.
#[derive(Clone, PartialEq, Eq)]
pub enum CommandLine {
    /// A script for the shell.
    Shell(String),
    /// A program and its arguments.
    Argv(Vec<String>),
}

/// Omits the command, which may contain secrets.
impl fmt::Debug for HookSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookSettings")
            .field("name", &self.name)
            .field("on", &self.on)
            .finish_non_exhaustive()
    }
}

impl HookSettings {
    /// Returns whether the hook applies to the tool with this name.
    pub fn matches_tool(&self, tool: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|pattern| matches_pattern(pattern, tool))
    }
}

/// Returns whether a name matches a pattern, in which `*` matches any characters.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(name) = name.strip_prefix(head) else {
        return false;
    };
    (0..=name.len())
        .filter(|at| name.is_char_boundary(*at))
        .any(|at| matches_pattern(rest, &name[at..]))
}

/// Builds the hooks in the order of their names. The second list contains the hook, key and reason of each problem.
pub(super) fn build_hooks(
    tables: BTreeMap<String, HookTable>,
    failed: &dyn Fn(&str, &str) -> bool,
) -> (Vec<HookSettings>, Vec<(String, &'static str, &'static str)>) {
    let (mut good, mut wrong) = (Vec::new(), Vec::new());
    for (name, table) in tables {
        // An unreadable `tool` must not make the hook run for all tools.
        if ["on", "command", "tool", "enabled"]
            .iter()
            .any(|key| failed(&name, key))
        {
            continue;
        }
        let mut say = |key, why| wrong.push((name.clone(), key, why));
        let Some(on) = table.on else {
            say("on", "needs `on`: `prompt`, `pre_tool`, `post_tool` or `stop`");
            continue;
        };
        let command = match table.command {
            Some(StringOrList::One(script)) if !script.trim().is_empty() => CommandLine::Shell(script),
            Some(StringOrList::Many(argv)) if argv.first().is_some_and(|program| !program.is_empty()) => {
                CommandLine::Argv(argv)
            }
            Some(_) | None => {
                say("command", "needs a `command`");
                continue;
            }
        };
        let tools = table.tool.map(StringOrList::into_vec).unwrap_or_default();
        if !tools.is_empty() && matches!(on, HookMoment::Prompt | HookMoment::Stop) {
            say(
                "tool",
                "has no effect here; it applies to `pre_tool` and `post_tool`",
            );
        }
        // Last, so that the problems of a disabled hook are reported too.
        if table.enabled == Some(false) {
            continue;
        }
        good.push(HookSettings {
            name,
            on,
            command,
            tools,
            timeout: table.timeout_s.map_or(TIMEOUT, |seconds| {
                Duration::try_from_secs_f64(seconds).unwrap_or(TIMEOUT)
            }),
        });
    }
    (good, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, fits) in [
            ("bash", "bash", true),
            ("bash", "bash_output", false),
            ("bash*", "bash_output", true),
            ("*", "", true),
            ("*_file", "edit_file", true),
            ("*_file", "edit_files", false),
            ("mcp:*/get*", "mcp:a/b/get_x", true),
            ("*a*a*", "ba", false),
            ("é*", "éa", true),
            ("", "bash", false),
        ] {
            assert_eq!(matches_pattern(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn hook_without_tools_matches_all_tools() {
        let hook = |tools: &[&str]| HookSettings {
            name: "h".to_owned(),
            on: HookMoment::PreTool,
            command: CommandLine::Shell("true".to_owned()),
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            timeout: TIMEOUT,
        };
        assert!(hook(&[]).matches_tool("x"));
        assert!(hook(&["a", "x*"]).matches_tool("xy"));
        assert!(!hook(&["a"]).matches_tool("xy"));
    }
}
