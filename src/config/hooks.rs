//! Hooks of the configuration (R-CONF): what a table says, and what is made of it.
//!
//! Who runs them, and what their answers mean, is the turn's affair.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::file::StringOrList;

/// How long a hook may run.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A command of the person's that is run at a moment of every turn. It reads one JSON object; exit code 0 passes, 2
/// blocks with what it wrote to standard error, and a JSON object on standard output may change the input or end the
/// turn.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HookTable {
    /// When it runs.
    pub on: Option<HookMoment>,
    /// The command: one text for the shell, or a list of a program and its arguments. Runs in the session's folder.
    pub command: Option<StringOrList>,
    /// At `pre_tool` and `post_tool`: only for tools whose name fits one of these; `*` stands for any characters.
    /// Default: all tools.
    pub tool: Option<StringOrList>,
    /// How long it may run, in seconds. Default: 60.
    #[schemars(range(min = 0.001, max = 86_400), extend("default" = 60.0))]
    pub timeout_s: Option<f64>,
    /// `false` switches it off. Default: true.
    #[schemars(extend("default" = true))]
    pub enabled: Option<bool>,
}

/// A moment of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookMoment {
    /// The person said something, and no model has seen it.
    Prompt,
    /// The model asks for a tool, and nobody was asked for approval.
    PreTool,
    /// A tool has run, and the model has not seen its result.
    PostTool,
    /// The model has answered, and the turn would end.
    Stop,
}

impl HookMoment {
    /// Its name in the configuration and in what a hook reads.
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

/// A hook that runs.
#[derive(Clone, PartialEq, Eq)]
pub struct HookSettings {
    /// Its name in the config.
    pub name: String,
    /// When it runs.
    pub on: HookMoment,
    /// What runs.
    pub command: CommandLine,
    /// Patterns of tools' names; empty: all.
    pub tools: Vec<String>,
    /// How long it may run.
    pub timeout: Duration,
}

/// What a hook, or a tool of the person's own, runs.
#[derive(Clone, PartialEq, Eq)]
pub enum CommandLine {
    /// A script for the shell.
    Shell(String),
    /// A program and its arguments.
    Argv(Vec<String>),
}

/// Without its command, which may hold what no log should.
impl fmt::Debug for HookSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookSettings")
            .field("name", &self.name)
            .field("on", &self.on)
            .finish_non_exhaustive()
    }
}

impl HookSettings {
    /// Whether it is meant for a tool of that name.
    pub fn matches_tool(&self, tool: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|pattern| matches_pattern(pattern, tool))
    }
}

/// Whether a name fits a pattern, in which `*` stands for any characters.
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

/// Hooks in the order of their names, and what is wrong with which key of which.
pub(super) fn build_hooks(
    tables: BTreeMap<String, HookTable>,
    failed: &dyn Fn(&str, &str) -> bool,
) -> (Vec<HookSettings>, Vec<(String, &'static str, &'static str)>) {
    let (mut good, mut wrong) = (Vec::new(), Vec::new());
    for (name, table) in tables {
        // A hook whose tools cannot be read must not run for all of them.
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
    fn no_tools_are_all_tools() {
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
