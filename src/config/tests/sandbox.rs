//! Tests of what hooks and tools of one's own may do in the sandbox, by who states it.

use super::*;
use crate::domain::SandboxPolicy;

/// Returns the policies of the hook and the tool `x`.
fn policies(loaded: &LoadedConfig) -> [Option<SandboxPolicy>; 2] {
    let tool = loaded
        .settings
        .tools
        .commands
        .iter()
        .find(|tool| tool.name == "x");
    [loaded.settings.hooks["x"].sandbox, tool.unwrap().sandbox]
}

fn both(command: &str, sandbox: &str) -> String {
    let line = |key: &str, value: &str| match value {
        "" => String::new(),
        value => format!("{key} = '{value}'\n"),
    };
    let shared = line("command", command) + &line("sandbox", sandbox);
    let (on, description) = match command {
        "" => ("", ""),
        _ => ("on = 'stop'\n", "description = 'd'\n"),
    };
    format!("[hook.x]\n{on}{shared}[tool.x]\n{description}{shared}")
}

#[test]
fn a_folder_can_only_confine_more() {
    use SandboxPolicy::{Off, ReadOnly, Workspace};
    for (user, folder, [hook, tool], problems) in [
        (both("a", ""), String::new(), [None, None], 0),
        (both("a", "off"), String::new(), [Some(Off), Some(Off)], 0),
        (
            String::new(),
            both("a", ""),
            [Some(Workspace), Some(Workspace)],
            0,
        ),
        (
            String::new(),
            both("a", "read_only"),
            [Some(ReadOnly), Some(ReadOnly)],
            0,
        ),
        (
            String::new(),
            both("a", "off"),
            [Some(Workspace), Some(Workspace)],
            2,
        ),
        // What the user states about their own command is not meant for the folder's.
        (
            both("a", "off"),
            both("b", ""),
            [Some(Workspace), Some(Workspace)],
            0,
        ),
        (
            both("a", "off"),
            both("", "read_only"),
            [Some(ReadOnly), Some(ReadOnly)],
            0,
        ),
        (
            both("a", "off"),
            both("", "workspace"),
            [Some(Workspace), Some(Workspace)],
            0,
        ),
        (
            both("a", "read_only"),
            both("", "workspace"),
            [Some(ReadOnly), Some(ReadOnly)],
            2,
        ),
        (
            both("a", "read_only"),
            both("b", "workspace"),
            [Some(ReadOnly), Some(ReadOnly)],
            2,
        ),
        (
            both("a", "workspace"),
            both("", "off"),
            [Some(Workspace), Some(Workspace)],
            2,
        ),
    ] {
        let loaded = TestLayers {
            user: &user,
            workspace: &folder,
            trusted: true,
            ..TestLayers::default()
        }
        .load();
        assert_eq!(policies(&loaded), [hook, tool], "{user} / {folder}");
        assert_eq!(loaded.diagnostics.len(), problems, "{user} / {folder}");
    }
}

#[test]
fn problems_with_a_policy_are_reported() {
    let loaded = TestLayers {
        workspace: "[hook.x]\non = 'stop'\ncommand = 'a'\nsandbox = 'off'\n[tool.grep]\nsandbox = 'off'\n",
        user: "[hook.y]\non = 'stop'\ncommand = 'a'\nsandbox = 'none'\n[tool.glob]\nsandbox = 'workspace'\n",
        trusted: true,
        tools: &["glob", "grep"],
        ..TestLayers::default()
    }
    .load();
    assert_eq!(
        lines(&loaded),
        [
            "/h/c.toml:4:1: error: hook.y.sandbox: `none` is not one of `read_only`, `workspace`, `off`",
            "/w/.agentls/config.toml:4:1: error: hook.x.sandbox: ignored: a project's file can only restrict, and \
             `workspace` holds already (state it in your own config file, with the command)",
            "/w/.agentls/config.toml:6:1: error: tool.grep.sandbox: ignored: a project's file can only restrict, and \
             `workspace` holds already (state it in your own config file, with the command)",
            "/h/c.toml:6:1: error: tool.glob.sandbox: has no effect here; it applies to tools with a `command`",
        ]
    );
    // A policy that cannot be read must not become another one.
    assert!(!loaded.settings.hooks.contains_key("y"));
}
