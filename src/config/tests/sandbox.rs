//! Tests of what hooks and tools of one's own may do in the sandbox, by who states it.

use super::*;
use crate::config::HomeAccess;
use crate::domain::{SandboxNetwork, SandboxPolicy};

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

/// Loads a file of the user and one of a folder.
fn load_folder(user: &str, folder: &str, trusted: bool) -> LoadedConfig {
    TestLayers {
        user,
        workspace: folder,
        trusted,
        ..TestLayers::default()
    }
    .load()
}

#[test]
fn no_folder_loosens_the_sandbox_of_the_user() {
    for (user, folder) in [
        ("", "enabled = false"),
        ("enabled = true", "enabled = false"),
        ("required = true", "required = false"),
        ("", "network = true"),
        ("", "network = 'proxy'"),
        ("network = 'proxy'", "network = true"),
        ("", "allow_hosts = ['a.example']"),
        (
            "allow_hosts = 'a.example'",
            "allow_hosts = ['a.example', 'b.example']",
        ),
        ("", "write = '/x'"),
        ("write = ['/x']", "write = ['/x', '/y']"),
        ("read = 'allowlist'", "read = 'home'"),
        ("read = 'allowlist'", "read_allow = '~/x'"),
        // Not the same folder: each starts at its own file.
        ("write = ['x']", "write = ['x']"),
    ] {
        let user = format!("[sandbox]\n{user}");
        let own = load_folder(&user, "", true);
        for trusted in [true, false] {
            let loaded = load_folder(&user, &format!("[sandbox]\n{folder}"), trusted);
            assert_eq!(loaded.settings.sandbox, own.settings.sandbox, "{user} / {folder}");
            let key = folder.split(' ').next().unwrap();
            assert_eq!(
                lines(&loaded),
                [format!(
                    "/w/.agentls/config.toml:2:{}: warning: sandbox.{key}: ignored: a project's file can only restrict \
                     the sandbox, even if its folder is trusted (to allow it, set it in your own config file)",
                    loaded.diagnostics[0].column
                )],
                "{user} / {folder}"
            );
        }
    }
}

#[test]
fn patterns_that_do_not_do_what_they_seem_to_are_errors() {
    let user =
        "[sandbox]\nwrite = ['/x/*', '/y']\nread_deny = ['/a/**/b', '/c/*.pem', '~/[id]', '/k/[a*.pem']";
    let lines = lines(&load_folder(user, "", false));
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(
        lines[2].contains("\"/k/[a*.pem\" is not a valid pattern"),
        "{lines:?}"
    );
    assert!(lines[0].contains("\"/x/*\" is a pattern"), "{lines:?}");
    assert!(
        lines[1].contains("in \"/a/**/b\", `**` covers one folder"),
        "{lines:?}"
    );
}

#[test]
fn any_folder_tightens_the_sandbox_of_the_user() {
    let user =
        "[sandbox]\nenabled = false\nnetwork = true\nallow_hosts = ['a.example']\nwrite = ['/x', '/y']";
    let folder = "[sandbox]\nenabled = true\nrequired = true\nnetwork = false\nallow_hosts = ['a.example']\n\
                  write = ['/x']\nread = 'allowlist'\nread_deny = ['/z']";
    for trusted in [true, false] {
        let loaded = load_folder(user, folder, trusted);
        let sandbox = &loaded.settings.sandbox;
        assert!(lines(&loaded).is_empty(), "{:?}", lines(&loaded));
        assert!(sandbox.enabled && sandbox.required, "{trusted}");
        assert_eq!(sandbox.network, SandboxNetwork::Offline);
        assert_eq!(*sandbox.write, ["/x"]);
        assert_eq!(*sandbox.read_deny, ["/z"]);
        assert_eq!(sandbox.read, HomeAccess::Allowlist);
        // Commands of an untrusted folder must not run without a question only because they are confined now.
        let asks = (!trusted).then_some(SandboxedCommands::Ask);
        assert_eq!(loaded.settings.approvals.sandboxed, asks, "{trusted}");
    }
    let own = format!("{user}\n[approvals]\nsandboxed = 'allow'");
    let loaded = load_folder(&own, folder, false);
    assert_eq!(
        loaded.settings.approvals.sandboxed,
        Some(SandboxedCommands::Allow)
    );
    // What holds by default loosens nothing.
    let loaded = load_folder("", "[sandbox]\nnetwork = false\nrequired = true", false);
    assert_eq!(loaded.settings.approvals.sandboxed, None);
    assert!(loaded.settings.sandbox.required && loaded.diagnostics.is_empty());
}

#[test]
fn an_untrusted_folder_may_ask_about_sandboxed_commands() {
    use SandboxedCommands::{Allow, Ask};
    let stated = |value: &str| format!("[approvals]\nsandboxed = '{value}'");
    for (user, folder, result, problems) in [
        (String::new(), stated("ask"), Some(Ask), 0),
        (stated("allow"), stated("ask"), Some(Ask), 0),
        (stated("allow"), stated("allow"), Some(Allow), 0),
        (String::new(), stated("allow"), None, 1),
        (stated("ask"), stated("allow"), Some(Ask), 1),
    ] {
        let loaded = load_folder(&user, &folder, false);
        assert_eq!(loaded.settings.approvals.sandboxed, result, "{user} / {folder}");
        assert_eq!(loaded.diagnostics.len(), problems, "{user} / {folder}");
        // Refusing what loosens loses no rule, so nothing else asks.
        assert!(
            loaded.settings.approvals.unreadable.is_empty(),
            "{user} / {folder}"
        );
    }
}

#[test]
fn no_folder_allows_commands_outside_of_the_sandbox() {
    let folder = "[approvals]\nallow = ['bash_outside(make install)', 'bash(make test *)']\n\
                  deny = ['bash_outside(make clean)']";
    let loaded = load_folder("[approvals]\nallow = 'bash_outside(true)'", folder, true);
    let approvals = &loaded.settings.approvals;
    assert_eq!(*approvals.allow, ["bash_outside(true)", "bash(make test *)"]);
    assert_eq!(*approvals.deny, ["bash_outside(make clean)"]);
    assert!(approvals.unreadable.is_empty());
    assert_eq!(
        lines(&loaded),
        [
            "/w/.agentls/config.toml:2:10: warning: approvals.allow: ignored: a project's file can only restrict the \
             sandbox, even if its folder is trusted (to allow it, set it in your own config file)"
        ]
    );
    let single = load_folder("", "[approvals]\nallow = 'bash_outside(true)'", true);
    assert!(single.settings.approvals.allow.is_empty());
}

#[test]
fn no_folder_chooses_the_mode_full() {
    for (user, folder, modes) in [
        ("", "[agent.default]\nmode = 'full'", [Mode::Ask; 2]),
        ("", "[agent.default]\nmode = '${FULL}'", [Mode::Ask; 2]),
        (
            "[agent.default]\nmode = 'autoEdit'",
            "[agent.x]\nmode = 'full'",
            [Mode::AutoEdit; 2],
        ),
        (
            "[agent.default]\nmode = 'full'\n[agent.x]\nmode = 'plan'",
            "[agent.x]\nmode = 'full'",
            [Mode::Full, Mode::Plan],
        ),
    ] {
        for trusted in [true, false] {
            let layers = TestLayers {
                user,
                workspace: folder,
                env: &[("FULL", "full")],
                trusted,
                ..TestLayers::default()
            };
            let loaded = layers.load();
            let agents = &loaded.settings.agents;
            let found = ["default", "x"].map(|name| agents.get(name).unwrap_or(&agents["default"]).mode);
            assert_eq!(found, modes, "{user} / {folder}");
            let reported = lines(&loaded);
            assert_eq!(reported.len(), 1, "{reported:?}");
            if !folder.contains('$') {
                let expected = "cannot choose this mode, which has no sandbox, even if its folder is trusted";
                assert!(reported[0].contains(expected), "{reported:?}");
            }
            assert!(layers.describe().items.is_empty(), "{folder}");
        }
    }
    // What the user chose may be repeated, and a folder can still be less strict than `ask`.
    for (user, mode) in [("[agent.default]\nmode = 'full'", "full"), ("", "autoEdit")] {
        let loaded = load_folder(user, &format!("[agent.default]\nmode = '{mode}'"), true);
        assert_eq!(loaded.settings.default_agent().mode.name(), mode);
        assert!(loaded.diagnostics.is_empty(), "{:?}", lines(&loaded));
    }
}

#[test]
fn the_question_about_trust_lists_nothing_that_trust_does_not_activate() {
    let described = TestLayers {
        workspace: "[sandbox]\nenabled = false\nrequired = true\n[approvals]\n\
                    allow = ['bash_outside(x)', 'bash(make)']\n[hook.x]\non = 'stop'\ncommand = 'a'\nsandbox = 'off'",
        ..TestLayers::default()
    }
    .describe();
    let listed: Vec<_> = described
        .items
        .iter()
        .map(|item| format!("{}: {}", item.name, item.detail))
        .collect();
    assert_eq!(
        listed,
        [
            "x: on = \"stop\", from .agentls/config.toml:8",
            "approvals.allow: [\"bash(make)\"], from .agentls/config.toml:5"
        ]
    );
}

#[test]
fn a_folder_does_not_change_the_sandbox_of_the_users_own_hooks() {
    let user = "[sandbox]\nread_deny = ['/a']\n";
    let folder =
        "[sandbox]\nrequired = true\nread_deny = ['/b']\n[hook.theirs]\non = 'stop'\ncommand = 'a'\n";
    for trusted in [true, false] {
        let loaded = load_folder(user, folder, trusted);
        let sandbox = &loaded.settings.sandbox;
        assert!(sandbox.required && sandbox.read_deny.len() == 2, "{trusted}");
        let own = &loaded.own_sandbox;
        assert!(!own.required && own.read_deny.to_vec() == ["/a"], "{trusted}");
        let hook = loaded.settings.hooks.get("theirs");
        assert_eq!(hook.map(|hook| hook.is_from_folder), trusted.then_some(true));
    }
}

#[test]
fn own_commands_that_run_code_of_the_folder_are_warned_of_unless_confined() {
    let hook = |name: &str, more: &str| {
        format!("[hook.{name}]\non = 'stop'\ncommand = 'npx prettier --check .'\n{more}\n")
    };
    let tool = "[tool.deploy]\ndescription = 'Deploys.'\ncommand = ['./scripts/deploy']\nsandbox = 'off'\n";
    let loaded = TestLayers {
        user: &(hook("free", "") + &hook("confined", "sandbox = 'workspace'") + tool),
        workspace: &hook("theirs", ""),
        trusted: true,
        ..TestLayers::default()
    }
    .load();
    let hint = "(set `sandbox = \"workspace\"`, or name a program elsewhere by its path)";
    assert_eq!(
        lines(&loaded),
        [
            format!(
                "/h/c.toml:3:1: warning: hook.free.command: `npx` is, or looks for, code of the session's folder, so \
                 what is in a repository would run in the mode `full` outside of the sandbox {hint}"
            ),
            format!(
                "/h/c.toml:11:1: warning: tool.deploy.command: `./scripts/deploy` is, or looks for, code of the \
                 session's folder, so what is in a repository would run outside of the sandbox {hint}"
            ),
        ]
    );
}
