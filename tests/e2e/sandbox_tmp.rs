//! `/tmp` of commands in the sandbox (R-BOX): what they see of the machine's, and what is said about their own.
#![cfg(target_os = "linux")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::harness::{Config, Options, World};
use crate::mcp::{call_tool, peer_script};
use crate::mock_llm::Reply;
use crate::sandbox::{Confined, ConfinedSession, is_available, last_result};

/// The start of the note about files in the private folder.
const NOTE: &str = "is a private folder of this session";

#[test]
fn files_that_a_command_leaves_in_its_tmp_are_reported_once() {
    let Some(session) = ConfinedSession::start("", Vec::new()) else {
        return;
    };
    let kept = "rm $(mktemp); echo > inside";
    assert!(!session.run(kept).contains("[note"));
    let result = session.run("echo > /tmp/a.txt; mkdir /tmp/out; echo > /tmp/out/deep");
    assert!(
        result.contains(NOTE) && result.contains("(a.txt, out/)"),
        "{result}"
    );
    // The person sees the result of the call as the model does.
    let call = session.client.all(&session.id, "agent/toolCall").pop().unwrap();
    assert!(call.params.to_string().contains(NOTE), "{:?}", call.params);
    // Each request repeats the results so far.
    let result = session.run("cat /tmp/a.txt /tmp/out/deep; echo > /tmp/out/more");
    assert_eq!(result.matches("[note").count(), 1, "{result}");
    let result = session.run("echo > /var/tmp/b.txt; exit 3");
    assert!(
        result.contains("[note: also in the private /tmp: b.txt]"),
        "{result}"
    );
    assert_eq!(result.matches("[note").count(), 2, "{result}");
    assert!(!Path::new("/tmp/a.txt").exists());
}

#[test]
fn files_of_a_background_command_in_its_tmp_are_reported_too() {
    let Some(session) = ConfinedSession::start("", Vec::new()) else {
        return;
    };
    let command = json!({"command": "echo > /tmp/left; sleep 1000", "background": true});
    let turn = session.start_tool("bash", command);
    session.finish(&turn);
    // A later command sees the file as soon as it is there.
    let result = session.run("until [ -e /tmp/left ]; do sleep 0.02; done");
    assert!(result.contains("(left)"), "{result}");
    let ended = json!({"command": "echo > /tmp/second", "background": true});
    let turn = session.start_tool("bash", ended);
    session.finish(&turn);
    let turn = session.start_tool("bash_output", json!({"id": "bg2", "wait_s": 60}));
    let result = session.finish(&turn);
    assert!(
        result.contains("[note: also in the private /tmp: second]"),
        "{result}"
    );
}

#[test]
fn without_namespaces_the_note_names_the_temporary_folder() {
    let method = ("AGENTLS_SANDBOX_METHOD".to_owned(), "landlock".to_owned());
    // A sandbox that holds only in part asks.
    let allowed = "[approvals]\nallow = [\"bash\"]";
    let Some(session) = ConfinedSession::start(allowed, vec![method]) else {
        return;
    };
    if !is_available("landlock") {
        return;
    }
    let result = session.run("echo > $TMPDIR/a.txt");
    let expected =
        "is a temporary folder of this session's commands. What was written there (a.txt) is removed";
    assert!(result.contains(expected), "{result}");
    assert!(!result.contains("not visible"), "{result}");
}

/// A folder in the machine's `/tmp` with a copy of the scripted MCP server, a module that it imports, and a link.
struct Programs {
    folder: tempfile::TempDir,
    link: PathBuf,
}

impl Programs {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let link = folder.path().with_extension("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        std::os::unix::fs::symlink("/bin/sh", folder.path().join("bin/sh")).unwrap();
        // Shows that it runs, that it reads what is next to it, and that it cannot change that.
        let script = format!(
            "#!{}/bin/sh\ncat >/dev/null\ncat \"${{0%/*}}/../data\" > \"$1\"\necho >> \"${{0%/*}}/../data\"\ntrue\n",
            link.display()
        );
        std::fs::write(folder.path().join("bin/tool"), script).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path().join("bin/tool"), mode).unwrap();
        std::fs::write(folder.path().join("data"), "data\n").unwrap();
        std::fs::copy(peer_script(), folder.path().join("peer.py")).unwrap();
        Self { folder, link }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn is_unchanged(&self) -> bool {
        std::fs::read_to_string(self.folder.path().join("data")).unwrap() == "data\n"
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.link);
    }
}

#[test]
fn hooks_and_tools_in_tmp_run_in_the_sandbox() {
    for method in ["namespaces", "bubblewrap", "landlock"] {
        let programs = Programs::new();
        let program = programs.path("bin/tool");
        let tables = format!(
            "[hook.own]\non = 'prompt'\ncommand = ['{program}', 'hook-ran']\n\
             [hook.shell]\non = 'prompt'\ncommand = '''exec sh '{program}' shell-ran'''\n\
             [tool.own]\ndescription = 'Runs.'\ncommand = ['{}/bin/tool', 'tool-ran']\n\
             [approvals]\nallow = ['own']\n",
            programs.link.display()
        );
        let Some(confined) = Confined::new(&tables).filter(|_| is_available(method)) else {
            continue;
        };
        let env = vec![("AGENTLS_SANDBOX_METHOD".to_owned(), method.to_owned())];
        let client = confined.world.start_with(Options {
            env,
            ..Options::default()
        });
        let session = client.session_with(json!({"mode": "autoEdit"}));
        confined.world.mock().push(Reply::tool("own", json!({})));
        confined.world.mock().push(Reply::text("done"));
        client.ask(&session, "go");
        for name in ["hook-ran", "shell-ran", "tool-ran"] {
            assert_eq!(
                confined.world.read(name).as_deref(),
                Some("data\n"),
                "{method}: {name}"
            );
        }
        assert!(programs.is_unchanged(), "{method}");
    }
}

#[test]
fn mcp_servers_in_tmp_run_in_the_sandbox() {
    let programs = Programs::new();
    let peer = programs.path("peer.py");
    for (place, arguments) in [
        ("an argument", format!("command = 'python3'\nargs = ['{peer}']")),
        (
            "a script",
            format!("command = 'sh'\nargs = ['-c', \"exec python3 '{peer}'\"]"),
        ),
        (
            "the folder",
            format!(
                "command = 'python3'\nargs = ['peer.py']\ncwd = '{}'",
                programs.path("")
            ),
        ),
        (
            "a variable",
            format!("command = 'sh'\nargs = ['-c', 'exec python3 $PEER']\nenv = {{ PEER = '{peer}' }}"),
        ),
    ] {
        let Some(_) = Confined::new("") else { return };
        let tables = format!(
            "[sandbox]\nenabled = true\n[mcp.peer]\n{arguments}\nsandbox = 'read_only'\n\
             [approvals]\nallow = [\"mcp:peer/*\"]\n"
        );
        let world = World::with(Config {
            tables,
            ..Config::default()
        });
        let client = world.start();
        let session = client.session();
        let echoed = call_tool(&world, &client, &session, "echo", json!({"text": "it works"}));
        assert!(echoed.contains("it works"), "{place}: {echoed}");
    }
}

#[test]
fn what_the_model_names_in_tmp_is_not_shown_to_its_command() {
    let Some(session) = ConfinedSession::start("", Vec::new()) else {
        return;
    };
    let programs = Programs::new();
    let data = programs.path("data");
    let result = session.run(&format!("A={data} cat {data}"));
    assert!(result.contains("No such file"), "{result}");
    assert!(
        result.contains("does not let this command see the machine's"),
        "{result}"
    );
    assert!(last_result(session.world()).contains(&data));
}
