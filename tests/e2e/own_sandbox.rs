//! What hooks and tools of one's own may do in the sandbox (R-BOX, R-CONF).
#![cfg(target_os = "linux")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Client, Config, Options, World};
use crate::mcp::peer_table;
use crate::mock_llm::Reply;
use crate::sandbox::Confined;

/// Returns a command that leaves a mark of its name for everything that it may do.
fn command(name: &str) -> String {
    format!(
        "cat >/dev/null; echo > in-{name}; echo > \"$HOME/out-{name}\"; grep -s secret \"$HOME/.ssh/key\" > key-{name}; true"
    )
}

fn hook(name: &str, more: &str) -> String {
    format!(
        "[hook.{name}]\non = 'prompt'\n{more}\ncommand = '''{}'''\n",
        command(name)
    )
}

fn tool(name: &str, more: &str) -> String {
    format!(
        "[tool.{name}]\ndescription = 'Tries.'\n{more}\ncommand = '''{}'''\n",
        command(name)
    )
}

/// Starts a server with a home folder that the sandbox shows, and trusts the workspace folder.
fn start(confined: &Confined, folder_settings: String) -> Client {
    start_with_method(confined, "namespaces", folder_settings)
}

fn start_with_method(confined: &Confined, method: &str, folder_settings: String) -> Client {
    let home = confined.outside().parent().unwrap().to_owned();
    std::fs::create_dir(home.join(".ssh")).unwrap();
    std::fs::write(home.join(".ssh/key"), "secret\n").unwrap();
    confined.world.write(".agentls/config.toml", folder_settings);
    let client = confined.world.start_with(Options {
        env: vec![
            ("HOME".to_owned(), home.display().to_string()),
            ("AGENTLS_SANDBOX_METHOD".to_owned(), method.to_owned()),
        ],
        ..Options::default()
    });
    let trust = json!({"folder": confined.world.workspace(), "trusted": true});
    let _: Value = client.call("agent/setTrust", trust);
    client
}

/// Removes the marks of a command, and returns whether it wrote outside of the workspace and in it, and read the key.
fn take_marks(confined: &Confined, name: &str) -> [bool; 3] {
    let outside = confined.outside().with_file_name(format!("out-{name}"));
    let inside = confined.world.workspace().join(format!("in-{name}"));
    let key = confined.world.read(&format!("key-{name}")).unwrap_or_default();
    [
        std::fs::remove_file(outside).is_ok(),
        std::fs::remove_file(inside).is_ok(),
        key.contains("secret"),
    ]
}

#[test]
fn hooks_are_confined_unless_the_users_own_file_says_otherwise() {
    let own = hook("own", "")
        + &hook("mine", "sandbox = 'workspace'")
        + &hook("strict", "sandbox = 'read_only'")
        + &hook("free", "sandbox = 'off'");
    let Some(confined) = Confined::new(&own) else {
        return;
    };
    let client = start(
        &confined,
        hook("theirs", "") + &hook("weak", "sandbox = 'off'") + "[hook.strict]\nsandbox = 'workspace'\n",
    );
    for (mode, own) in [
        ("full", [true, true, true]),
        ("autoEdit", [false, true, false]),
        ("plan", [false, true, false]),
    ] {
        confined.world.mock().push(Reply::text("done"));
        let session = client.session_with(json!({"mode": mode}));
        client.ask(&session, "hello");
        let warnings = client.all(&session, "agent/warning");
        assert!(warnings.is_empty(), "{warnings:?}");
        for (name, marks) in [
            ("own", own),
            ("free", [true, true, true]),
            ("mine", [false, true, false]),
            ("strict", [false, false, false]),
            ("theirs", [false, true, false]),
            ("weak", [false, true, false]),
        ] {
            assert_eq!(take_marks(&confined, name), marks, "{mode} {name}");
        }
    }
}

/// Returns the texts of the warnings about hooks that failed.
fn failures(client: &Client, session: &str) -> Vec<String> {
    let warnings = client.all(session, "agent/warning");
    let failed = warnings
        .iter()
        .filter(|warning| warning.text("code") == "hook_failed");
    failed.map(|warning| warning.text("message").to_owned()).collect()
}

#[test]
fn a_hook_that_the_sandbox_stops_says_so_and_how_to_allow_it() {
    let remedy = "To allow it, set `sandbox = \"off\"` next to the hook's `command` in your own config.toml: it can then \
                  read your keys, write all of your files, and use the network";
    let failing = |name: &str, command: &str| {
        format!("[hook.{name}]\non = 'prompt'\ncommand = '''cat >/dev/null; {command}'''\n")
    };
    let own = failing("a", "echo > \"$HOME/out\"")
        + &failing("b", "exec 3<>/dev/tcp/192.0.2.1/80")
        + &failing("c", "false")
        + &failing("d", "echo > \"$HOME/out\" || exit 2");
    let Some(confined) = Confined::new(&own) else {
        return;
    };
    let client = start(&confined, String::new());
    let session = client.session_with(json!({"mode": "ask"}));
    client.ask(&session, "hello");
    let failed = failures(&client, &session);
    let [file, network, other] = failed.as_slice() else {
        panic!("{failed:?}");
    };
    let outside = confined.outside().with_file_name("out");
    let refused = format!(
        "[the sandbox does not let this command write {}. {remedy}]",
        outside.display()
    );
    assert!(
        file.contains("exit code 1: ") && file.ends_with(&refused),
        "{file}"
    );
    assert!(
        network.contains("commands have no network") && network.contains(remedy),
        "{network}"
    );
    assert!(other.ends_with("exit code 1"), "{other}");
    let blocked = client.all(&session, "agent/warning").last().unwrap().clone();
    assert_eq!(blocked.text("code"), "hook_blocked");
    assert!(blocked.text("message").contains(remedy), "{blocked:?}");

    // Where no sandbox works, a hook just runs, unless the sandbox is required.
    for (settings, is_refused) in [("", false), ("required = true\n", true)] {
        let Some(confined) = Confined::new(&(settings.to_owned() + &hook("own", ""))) else {
            return;
        };
        let client = start_with_method(&confined, "none", String::new());
        confined.world.mock().push(Reply::text("done"));
        let session = client.session_with(json!({"mode": "ask"}));
        client.ask(&session, "hello");
        assert!(unconfined_warnings(&client, &session).is_empty());
        assert_eq!(take_marks(&confined, "own"), [!is_refused; 3], "{settings}");
        let failed = failures(&client, &session);
        assert_eq!(failed.len(), usize::from(is_refused), "{failed:?}");
        assert!(
            failed
                .iter()
                .all(|text| text.contains("cannot set up the sandbox: ") && text.ends_with(remedy))
        );
    }
}

#[test]
fn a_folder_cannot_stop_the_users_own_hook_by_a_stricter_sandbox() {
    for (method, strict) in [
        ("namespaces", "read_deny = ['GUARD']"),
        ("landlock", "required = true"),
    ] {
        let own = "[hook.guard]\non = 'prompt'\ncommand = 'exec bash \"$HOME/guard.sh\"'\n";
        let Some(confined) = Confined::new(own) else {
            return;
        };
        let guard = confined.outside().with_file_name("guard.sh");
        std::fs::write(&guard, "echo 'not today' >&2; exit 2\n").unwrap();
        let strict = strict.replace("GUARD", &guard.display().to_string());
        let theirs = hook("theirs", "") + &format!("[sandbox]\n{strict}\n");
        let client = start_with_method(&confined, method, theirs);
        let session = client.session_with(json!({"mode": "ask"}));
        let result = json!(client.ask(&session, "hello"));
        assert_eq!(result["reason"], "hook_stopped", "{method}");
        assert_eq!(confined.world.requests(), 0, "{method}");
    }
}

#[test]
fn tools_may_do_what_the_mode_and_their_own_policy_allow() {
    let own = tool("plain", "") + &tool("tight", "sandbox = 'read_only'") + &tool("free", "sandbox = 'off'");
    let Some(confined) = Confined::new(&own) else {
        return;
    };
    let client = start(&confined, tool("theirs", ""));
    for (mode, name, asks, marks) in [
        ("autoEdit", "plain", false, [false, true, false]),
        ("autoEdit", "tight", false, [false, false, false]),
        ("autoEdit", "free", true, [true, true, true]),
        ("autoEdit", "theirs", false, [false, true, false]),
        ("full", "plain", false, [true, true, true]),
        ("full", "tight", false, [false, false, false]),
        ("full", "free", false, [true, true, true]),
        ("full", "theirs", false, [false, true, false]),
    ] {
        let session = client.session_with(json!({"mode": mode}));
        confined.world.mock().push(Reply::tool(name, json!({})));
        confined.world.mock().push(Reply::text("done"));
        let id = client.prompt(&session, "try");
        if asks {
            let approval = client.next_approval(&session);
            let options = approval.params["options"].as_array().unwrap();
            assert_eq!(options.last().unwrap(), "runs outside the sandbox");
            client.decide(&approval, "allow");
        }
        client.prompt_result(&id);
        let asked = !client.all(&session, "agent/approvalRequested").is_empty();
        assert_eq!(
            (asked, take_marks(&confined, name)),
            (asks, marks),
            "{mode} {name}"
        );
    }
}

/// Returns a tool that declares its effect, and leaves marks in the workspace and outside.
fn declared_tool(name: &str, effect: &str) -> String {
    format!(
        "[tool.{name}]\ndescription = 'Tries.'\neffect = '{effect}'\n\
         command = 'echo > in-{name}; echo > \"$HOME/out-{name}\"'\n"
    )
}

/// Returns the texts of the warnings about what runs unconfined.
fn unconfined_warnings(client: &Client, session: &str) -> Vec<String> {
    let warnings = client.all(session, "agent/warning");
    let missing = warnings
        .iter()
        .filter(|warning| warning.text("code") == "sandbox_missing");
    missing
        .map(|warning| warning.text("message").to_owned())
        .collect()
}

#[test]
fn where_the_sandbox_does_not_hold_in_full_nothing_runs_with_less_in_silence() {
    for (method, option, rights) in [
        (
            "none",
            "runs outside the sandbox, which does not work here",
            "does not work",
        ),
        (
            "landlock",
            "runs in the sandbox (partial, writes in the workspace)",
            "holds only in part",
        ),
    ] {
        let server = "[mcp.watched]\ncommand = 'no-such-program'\nsandbox = 'workspace'\n";
        let own = hook("plain", "") + &declared_tool("free", "read") + server;
        let Some(confined) = Confined::new(&own) else {
            return;
        };
        let world = &confined.world;
        let client = start_with_method(
            &confined,
            method,
            declared_tool("theirs", "read") + &declared_tool("write", "write") + &hook("weak", ""),
        );
        for (mode, name, option) in [
            ("plan", "theirs", None),
            ("ask", "theirs", Some(option)),
            ("autoEdit", "write", Some(option)),
        ] {
            let session = client.session_with(json!({"mode": mode}));
            world.mock().push(Reply::tool(name, json!({})));
            world.mock().push(Reply::text("done"));
            let id = client.prompt(&session, "try");
            if let Some(option) = option {
                let approval = client.next_approval(&session);
                assert_eq!(approval.params["options"], json!([option]), "{method} {name}");
                assert!(approval.text("why").starts_with("runs a command"), "{approval:?}");
                client.decide(&approval, "deny");
            }
            client.prompt_result(&id);
            let asked = client.all(&session, "agent/approvalRequested").len();
            assert_eq!(asked, usize::from(option.is_some()), "{method} {mode} {name}");
            assert_eq!(take_marks(&confined, name), [false; 3], "{method} {mode} {name}");
        }
        let session = client.session_with(json!({"mode": "plan"}));
        // The user alone declared this one, without asking for a sandbox.
        world.mock().push(Reply::tool("free", json!({})));
        for prompt in ["one", "two"] {
            world.mock().push(Reply::text("done"));
            client.ask(&session, prompt);
        }
        assert!(client.all(&session, "agent/approvalRequested").is_empty());
        let warnings = unconfined_warnings(&client, &session);
        let [warning] = warnings.as_slice() else {
            panic!("{method}: {warnings:?}");
        };
        assert!(warning.contains(rights), "{warning}");
        let named = "the hook `weak`, the MCP server watched;";
        assert!(warning.contains(named), "{warning}");
    }
}

#[test]
fn a_call_of_an_mcp_server_shows_how_its_program_is_confined() {
    let Some(confined) = Confined::new("") else { return };
    for (setting, option) in [
        ("", "its server runs outside the sandbox"),
        (
            "sandbox = 'workspace'",
            "its server runs in the sandbox (full, writes in the workspace)",
        ),
        (
            "sandbox = 'read_only'",
            "its server runs in the sandbox (full, read-only)",
        ),
    ] {
        confined.world.configure(Config {
            tables: "[sandbox]\nenabled = true\n".to_owned() + &peer_table(&[], setting),
            ..Config::default()
        });
        let client = confined.world.start();
        let session = client.session_with(json!({"mode": "autoEdit"}));
        let call = Reply::tool("mcp__peer__echo", json!({"text": "x"}));
        confined.world.mock().push(call);
        confined.world.mock().push(Reply::text("done"));
        let id = client.prompt(&session, "try");
        let approval = client.next_approval(&session);
        assert_eq!(approval.params["options"], json!([option]), "{setting}");
        client.decide(&approval, "deny");
        client.prompt_result(&id);
        assert!(unconfined_warnings(&client, &session).is_empty());
    }
}

#[test]
fn the_status_and_the_questions_show_the_level_of_the_sandbox() {
    let Some(confined) = Confined::new("") else { return };
    let client = confined.world.start();
    let status = client.next("", "agent/status");
    assert!(
        status.params["sandbox"].is_null(),
        "nothing is tried at the start"
    );
    let session = client.session_with(json!({"mode": "ask"}));
    // Before its first turn.
    let status = client.next_matching("", "agent/status", |status| !status.params["sandbox"].is_null());
    confined
        .world
        .mock()
        .push(Reply::tool("bash", json!({"command": "make"})));
    confined.world.mock().push(Reply::text("done"));
    let id = client.prompt(&session, "build");
    let sandbox = &status.params["sandbox"];
    assert_eq!(sandbox["level"], "full");
    assert_eq!(sandbox["network"], "offline");
    assert_eq!(
        sandbox["policies"][0],
        json!({"mode": "plan", "policy": "readOnly"})
    );
    let approval = client.next_approval(&session);
    assert_eq!(
        approval.params["options"],
        json!(["runs in the sandbox (full, writes in the workspace)"])
    );
    // As after a reconnect.
    let open: Value = client.call("agent/listApprovals", json!({"sessionId": session}));
    assert_eq!(open["approvals"][0]["options"], approval.params["options"]);
    client.decide(&approval, "deny");
    client.prompt_result(&id);
    drop(client);

    // With the network, both say so. Without the sandbox, the status says that it is off, and questions say nothing.
    for (setting, [method, level, network], options) in [
        (
            "network = true",
            [json!("namespaces"), json!("full"), json!("open")],
            json!(["runs in the sandbox (full, network open, writes in the workspace)"]),
        ),
        (
            "enabled = false",
            [json!("off"), json!("none"), Value::Null],
            Value::Null,
        ),
    ] {
        confined.world.configure(Config {
            tables: format!("[sandbox]\n{setting}\n"),
            ..Config::default()
        });
        let client = confined.world.start();
        let session = client.session_with(json!({"mode": "ask"}));
        confined
            .world
            .mock()
            .push(Reply::tool("bash", json!({"command": "make"})));
        confined.world.mock().push(Reply::text("done"));
        let id = client.prompt(&session, "build");
        let status = client.next_matching("", "agent/status", |status| status.params["state"] == "busy");
        let sandbox = &status.params["sandbox"];
        assert_eq!(sandbox["method"], method, "{setting}");
        assert_eq!(sandbox["level"], level, "{setting}");
        assert_eq!(sandbox["network"], network, "{setting}");
        let approval = client.next_approval(&session);
        assert_eq!(approval.params["options"], options, "{setting}");
        client.decide(&approval, "deny");
        client.prompt_result(&id);
    }
}

/// Has a git that leaves a mark look at an untrusted repository, and returns whether it could.
fn git_leaves_a_mark(world: &World, mode: &str, folder: &Path) -> bool {
    let (programs, mark) = (folder.join("bin"), folder.join("mark"));
    std::fs::create_dir_all(&programs).unwrap();
    let path = "/usr/local/bin:/usr/bin:/bin";
    let script = format!(
        "#!/bin/sh\necho > '{}'\nPATH='{path}' exec git \"$@\"\n",
        mark.display()
    );
    std::fs::write(programs.join("git"), script).unwrap();
    std::fs::set_permissions(programs.join("git"), PermissionsExt::from_mode(0o755)).unwrap();
    let script = "git init -q . && echo one > file && git add file";
    crate::git::run(world, script, &mark);
    let client = world.start_with(Options {
        env: vec![("PATH".to_owned(), format!("{}:{path}", programs.display()))],
        ..Options::default()
    });
    let session = client.session_with(json!({"mode": mode}));
    let call = |command: &str| Reply::tool("bash", json!({"command": command}));
    world.mock().push(call("git status"));
    world.mock().push(call("echo changed > file"));
    world.mock().push(Reply::text("done"));
    client.ask(&session, "look");
    let results = world.wait_for_request(2).body.to_string();
    assert!(results.contains("Changes to be committed"), "{results}");
    mark.exists()
}

#[test]
fn git_that_looks_at_an_untrusted_repository_can_only_read() {
    let Some(confined) = Confined::new("") else { return };
    let folder = confined.outside().parent().unwrap().to_owned();
    assert!(!git_leaves_a_mark(&confined.world, "autoEdit", &folder));
    let open = World::with(Config {
        tables: "[sandbox]\nenabled = false\n".to_owned(),
        ..Config::default()
    });
    assert!(
        git_leaves_a_mark(&open, "full", &folder),
        "without the sandbox it can"
    );
}
