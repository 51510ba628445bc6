//! Commands in the sandbox (R-BOX): what needs no approval there, what is refused, and the way out.
//!
//! `tests/parts/sandbox.rs` attacks the sandbox itself. Where this kernel lets nobody create user namespaces, these tests are
//! skipped and say so.
#![cfg(target_os = "linux")]
#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::harness::{Client, Config, Id, Notification, Options, World};
use crate::mock_llm::Reply;

/// A world with the sandbox, and a folder outside of its workspace.
pub struct Confined {
    pub world: World,
    outside: tempfile::TempDir,
}

impl Confined {
    pub fn new(tables: &str) -> Option<Self> {
        if !is_available("namespaces") {
            return None;
        }
        let world = World::with(Config {
            tables: format!("[sandbox]\nenabled = true\n{tables}"),
            ..Config::default()
        });
        Some(Self {
            world,
            outside: create_outside_tmp(),
        })
    }

    /// Returns the path of a file that commands could see, but not write.
    pub fn outside(&self) -> PathBuf {
        self.outside.path().join("file")
    }

    /// Returns a call that writes in the workspace, then outside.
    fn push_write(&self, outside_sandbox: bool) {
        let command = format!("echo in > inside; echo out > '{}'", self.outside().display());
        self.world.mock().push(Reply::tool(
            "bash",
            json!({"command": command, "outside_sandbox": outside_sandbox}),
        ));
    }
}

/// Returns whether commands can be confined by this method here; if not, the test says so.
pub fn is_available(method: &str) -> bool {
    #[expect(clippy::disallowed_methods, reason = "asks the program as a user would")]
    let probe = Command::new(env!("CARGO_BIN_EXE_agentls"))
        .args(["sandbox", "run", "--", "true"])
        .env("AGENTLS_SANDBOX_METHOD", method)
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .unwrap();
    if !probe.status.success() {
        let reason = String::from_utf8_lossy(&probe.stderr);
        eprintln!("skipped: the method {method} does not work here: {reason}");
    }
    probe.status.success()
}

/// Creates a folder that is not in `/tmp`, which is another folder in the sandbox. The repository may be there.
fn create_outside_tmp() -> tempfile::TempDir {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let home = std::env::home_dir().unwrap_or_default();
    let is_replaced = |folder: &PathBuf| folder.starts_with("/tmp") || folder.starts_with("/var/tmp");
    let folders = [target, "/var/lib".into(), home].into_iter();
    let mut created = folders
        .filter(|folder| !is_replaced(folder))
        .filter_map(|folder| tempfile::tempdir_in(folder).ok());
    created
        .next()
        .expect("a folder outside of /tmp that this user can write")
}

/// A session in the mode `autoEdit`, whose commands run without approval. Its client answers questions.
pub struct ConfinedSession {
    pub confined: Confined,
    pub client: Client,
    pub id: String,
}

impl ConfinedSession {
    /// Starts it with these lines of `[sandbox]`, and variables of the server.
    pub fn start(tables: &str, env: Vec<(String, String)>) -> Option<Self> {
        let confined = Confined::new(tables)?;
        let client = confined.world.start_with(Options {
            questions: true,
            env,
            ..Options::default()
        });
        let id = session_in(&client, "autoEdit");
        Some(Self { confined, client, id })
    }

    pub fn world(&self) -> &World {
        &self.confined.world
    }

    /// Starts a turn that calls a tool.
    pub fn start_tool(&self, tool: &str, input: Value) -> Id {
        self.world().mock().push(Reply::tool(tool, input));
        self.client.prompt(&self.id, "do it")
    }

    /// Starts a turn that runs a command.
    pub fn start_command(&self, command: &str) -> Id {
        self.start_tool("bash", json!({"command": command}))
    }

    /// Waits for the end of a turn, and returns the result of its call.
    pub fn finish(&self, turn: &Id) -> String {
        self.client.prompt_result(turn);
        last_result(self.world())
    }

    /// Runs a command in a turn of its own, and returns its result.
    pub fn run(&self, command: &str) -> String {
        self.finish(&self.start_command(command))
    }

    pub fn next_question(&self) -> Arc<Notification> {
        self.client.next(&self.id, "agent/questionRequested")
    }

    /// Answers a question by one of its choices.
    pub fn answer(&self, question: &Notification, choice: &str) {
        let answers = json!({"questionId": question.text("questionId"), "answers": {"choice": [choice]}});
        let _: Value = self.client.call("agent/questionRespond", answers);
    }

    /// Returns how many questions were asked so far.
    pub fn count_questions(&self) -> usize {
        self.client.all(&self.id, "agent/questionRequested").len()
    }

    /// Returns how many approvals were requested so far.
    pub fn count_approvals(&self) -> usize {
        self.client.all(&self.id, "agent/approvalRequested").len()
    }
}

pub fn session_in(client: &Client, mode: &str) -> String {
    client.session_with(json!({"mode": mode}))
}

/// Returns the result of the last call, as the model sees it.
pub fn last_result(world: &World) -> String {
    let request = world.wait_for_request(world.requests() - 1);
    String::from_utf8_lossy(&request.raw).into_owned()
}

#[test]
fn a_sandboxed_command_is_free_in_auto_edit_and_writes_only_in_the_workspace() {
    let Some(confined) = Confined::new("") else { return };
    let world = &confined.world;
    let client = world.start();
    let session = session_in(&client, "autoEdit");
    confined.push_write(false);
    client.ask(&session, "write");
    assert!(client.all(&session, "agent/approvalRequested").is_empty());
    assert_eq!(world.read("inside").as_deref(), Some("in\n"));
    assert!(!confined.outside().exists());
    let result = last_result(world);
    assert!(result.contains("Read-only file system"), "{result}");
    assert!(
        result.contains("outside_sandbox"),
        "the model learns the way out: {result}"
    );
}

#[test]
fn the_way_out_of_the_sandbox_asks_and_works_once_it_is_allowed() {
    // Not even a rule for the command counts outside of the sandbox.
    let Some(confined) = Confined::new("[approvals]\nallow = [\"bash\"]") else {
        return;
    };
    let world = &confined.world;
    let client = world.start();
    let session = session_in(&client, "autoEdit");
    for (decision, written) in [("deny", false), ("allow", true)] {
        confined.push_write(true);
        let id = client.prompt(&session, "write");
        let approval = client.next_approval(&session);
        assert!(
            approval.text("why").contains("outside the sandbox"),
            "{approval:?}"
        );
        client.decide(&approval, decision);
        client.prompt_result(&id);
        assert_eq!(confined.outside().exists(), written, "{decision}");
    }
}

#[test]
fn a_refusal_is_named_even_if_the_command_succeeds() {
    let Some(session) = ConfinedSession::start("", Vec::new()) else {
        return;
    };
    let outside = session.confined.outside();
    let outside = outside.display();
    for (command, want) in [
        // First, because a result shows the earlier ones too. It is only text about a file that can be written.
        (
            "echo \"touch: cannot touch 'x': Permission denied\"; exit 1".to_owned(),
            String::new(),
        ),
        (
            format!("touch '{outside}' || true"),
            format!("does not let this command write {outside}"),
        ),
        (
            "echo 'curl: (6) Could not resolve host: a.example'".to_owned(),
            "may have refused a connection to a.example: commands have no network".to_owned(),
        ),
        (
            "unshare -n true; exit 0".to_owned(),
            "may have refused creating a namespace".to_owned(),
        ),
    ] {
        let result = session.run(&command);
        assert!(result.contains(&want), "{command}: {result}");
        assert_eq!(
            result.contains("[the sandbox"),
            !want.is_empty(),
            "{command}: {result}"
        );
    }
}

/// A program for 32-bit x86 that exits with 7, as the words of its file.
const PROGRAM_32: [u32; 24] = [
    // The head of the file: its format, kind, and processor, then the entry and where the segments are listed.
    0x464c_457f,
    0x0001_0101,
    0,
    0,
    0x0003_0002,
    1,
    0x0804_8054,
    52,
    0,
    0,
    0x0020_0034,
    1,
    0,
    // One segment, with everything.
    1,
    0,
    0x0804_8000,
    0x0804_8000,
    96,
    96,
    5,
    0x1000,
    // `mov eax, 1; mov ebx, 7; int 0x80`
    0x0000_01b8,
    0x0007_bb00,
    0x80cd_0000,
];

#[test]
fn a_program_that_is_ended_for_a_system_call_is_explained() {
    let Some(session) = ConfinedSession::start("", Vec::new()) else {
        return;
    };
    let path = session.world().workspace().join("program");
    std::fs::write(&path, PROGRAM_32.map(u32::to_le_bytes).concat()).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    #[expect(clippy::disallowed_methods, reason = "runs it outside of the sandbox")]
    let outside = Command::new(&path).status();
    if !outside.is_ok_and(|status| status.code() == Some(7)) {
        eprintln!("skipped: no 32-bit programs run here");
        return;
    }
    for (count, (command, ending)) in [
        // The shell becomes the program.
        ("./program", "killed by signal 31"),
        ("sh -c './program; exit $?' 2> /dev/null", "exit code: 159"),
        ("./program; true", "Bad system call"),
    ]
    .into_iter()
    .enumerate()
    {
        // It shows the earlier ones too.
        let result = session.run(command);
        assert!(result.contains(ending), "{command}: {result}");
        let refusals = result
            .matches("[the sandbox may have refused a system call")
            .count();
        assert_eq!(refusals, count + 1, "{command}: {result}");
    }
}

#[test]
fn read_deny_holds_for_commands_and_for_the_agents_own_tools() {
    let Some(session) = ConfinedSession::start("", Vec::new()) else {
        return;
    };
    let world = session.world();
    for (file, text) in [
        ("keys/a.pem", "needle one"),
        ("keys/a.txt", "needle two"),
        ("private/b", "needle three"),
    ] {
        world.write(file, text);
    }
    for (target, link) in [("private", "link"), ("private/b", "AGENTS.md")] {
        std::os::unix::fs::symlink(target, world.workspace().join(link)).unwrap();
    }
    // The settings of a folder that nobody trusts may restrict more.
    let settings = "[sandbox]\nread_deny = ['../keys/*.pem', '../link']\n";
    world.write(".agentls/config.toml", settings);
    let _: Value = session.client.call("agent/reloadConfig", json!({}));
    // It names such files, so it asks. Nobody but the user can let it read them, and not in the sandbox.
    let turn = session.start_command("cat keys/a.pem private/b keys/a.txt");
    session
        .client
        .decide(&session.client.next_approval(&session.id), "allow");
    let result = session.finish(&turn);
    assert!(result.contains("needle two"), "{result}");
    assert!(
        !result.contains("needle one") && !result.contains("needle three"),
        "{result}"
    );
    let grep = session.start_tool("grep", json!({"pattern": "needle"}));
    let result = session.finish(&grep);
    assert!(result.contains("keys/a.txt"), "{result}");
    assert!(
        !result.contains("needle one") && !result.contains("needle three"),
        "{result}"
    );
    for path in ["keys/a.pem", "private/b", "link/b"] {
        let turn = session.start_tool("read_file", json!({"path": path}));
        let approval = session.client.next_approval(&session.id);
        assert!(approval.text("why").contains("secret"), "{}", approval.params);
        session.client.decide(&approval, "deny");
        let result = session.finish(&turn);
        assert!(
            !result.contains("needle one") && !result.contains("needle three"),
            "{result}"
        );
    }
    let read = session.start_tool("read_file", json!({"path": "keys/a.txt"}));
    assert!(session.finish(&read).contains("needle two"));
    assert_eq!(session.count_approvals(), 4);
}

#[test]
fn nothing_runs_outside_of_a_required_sandbox() {
    let Some(confined) = Confined::new("required = true\n[approvals]\nallow = [\"bash\"]") else {
        return;
    };
    let client = confined.world.start();
    for mode in ["ask", "autoEdit"] {
        let session = session_in(&client, mode);
        confined.push_write(true);
        client.ask(&session, "write");
        let result = last_result(&confined.world);
        assert!(result.contains("require the sandbox"), "{result}");
        assert!(client.all(&session, "agent/approvalRequested").is_empty());
        assert!(!confined.outside().exists());
    }
}

#[test]
fn in_the_mode_ask_a_sandboxed_command_asks_at_a_low_risk() {
    let Some(confined) = Confined::new("") else { return };
    let client = confined.world.start();
    let session = session_in(&client, "ask");
    confined.push_write(false);
    let id = client.prompt(&session, "write");
    let approval = client.next_approval(&session);
    assert_eq!(approval.text("risk"), "low");
    assert!(approval.text("why").contains("in the sandbox"), "{approval:?}");
    client.decide(&approval, "allow");
    client.prompt_result(&id);
    assert!(!confined.outside().exists());
    assert_eq!(confined.world.read("inside").as_deref(), Some("in\n"));
}

#[test]
fn one_answer_lasts_for_the_session_inside_and_outside_of_the_sandbox() {
    let Some(confined) = Confined::new("") else { return };
    let client = confined.world.start();
    let session = session_in(&client, "ask");
    for (outside, rule) in [
        (false, "bash_sandboxed(touch inside)"),
        (true, "bash_outside(touch inside)"),
    ] {
        let touch = json!({"command": "touch inside", "outside_sandbox": outside});
        confined.world.mock().push(Reply::tool("bash", touch.clone()));
        let id = client.prompt(&session, "touch");
        let approval = client.next_approval(&session);
        assert_eq!(approval.text("rule"), rule);
        client.decide(&approval, "allowSession");
        client.prompt_result(&id);
        confined.world.mock().push(Reply::tool("bash", touch));
        client.ask(&session, "touch again");
    }
    assert_eq!(client.all(&session, "agent/approvalRequested").len(), 2);
    // Another line outside of the sandbox asks.
    let other = json!({"command": "true", "outside_sandbox": true});
    confined.world.mock().push(Reply::tool("bash", other.clone()));
    let id = client.prompt(&session, "another");
    client.decide(&client.next_approval(&session), "allowAlways");
    client.prompt_result(&id);
    // "Always" holds in other sessions, for exactly that line.
    let session = session_in(&client, "ask");
    confined.world.mock().push(Reply::tool("bash", other));
    client.ask(&session, "again");
    assert!(client.all(&session, "agent/approvalRequested").is_empty());
    let longer = json!({"command": "true; true", "outside_sandbox": true});
    confined.world.mock().push(Reply::tool("bash", longer));
    let id = client.prompt(&session, "more");
    client.decide(&client.next_approval(&session), "deny");
    client.prompt_result(&id);
}

#[test]
fn with_the_network_a_sandboxed_command_needs_approval() {
    let Some(confined) = Confined::new("network = true") else {
        return;
    };
    let client = confined.world.start();
    let session = session_in(&client, "autoEdit");
    confined.push_write(false);
    let id = client.prompt(&session, "write");
    let approval = client.next_approval(&session);
    assert_eq!(approval.text("risk"), "high");
    client.decide(&approval, "allow");
    client.prompt_result(&id);
    assert!(!confined.outside().exists(), "it is confined all the same");
}

#[test]
fn commands_are_not_confined_in_the_mode_full() {
    let Some(confined) = Confined::new("") else { return };
    let client = confined.world.start();
    let session = session_in(&client, "full");
    confined.push_write(false);
    client.ask(&session, "write");
    assert!(confined.outside().exists());
}

#[test]
fn commands_that_read_run_in_the_mode_plan() {
    let Some(confined) = Confined::new("") else { return };
    let client = confined.world.start();
    let session = session_in(&client, "plan");
    confined.world.write("a", "text");
    let command = json!({"command": "cat a"});
    confined.world.mock().push(Reply::tool("bash", command));
    client.ask(&session, "read");
    assert!(last_result(&confined.world).contains("text"));
}

#[test]
fn without_a_full_sandbox_commands_ask_or_are_refused() {
    let Some(confined) = Confined::new("") else { return };
    let world = &confined.world;
    for (method, required) in [
        ("none", false),
        ("landlock", false),
        ("none", true),
        ("landlock", true),
    ] {
        world.configure(Config {
            tables: format!("[sandbox]\nenabled = true\nrequired = {required}"),
            ..Config::default()
        });
        let client = world.start_with(Options {
            env: vec![("AGENTLS_SANDBOX_METHOD".to_owned(), method.to_owned())],
            ..Options::default()
        });
        let session = session_in(&client, "autoEdit");
        let command = json!({"command": "echo ran"});
        world.mock().push(Reply::tool("bash", command));
        // It only reads, so it is free without a sandbox too.
        client.ask(&session, "echo");
        let was_refused = last_result(world).contains("cannot set up the sandbox");
        assert_eq!(was_refused, required, "{method}: {}", last_result(world));
        if required {
            // Nobody is asked about a command that cannot run.
            confined.push_write(false);
            client.ask(&session, "write");
            assert!(last_result(world).contains("cannot set up the sandbox"));
            assert!(client.all(&session, "agent/approvalRequested").is_empty());
            continue;
        }
        confined.push_write(false);
        let id = client.prompt(&session, "write");
        let approval = client.next_approval(&session);
        assert_eq!(approval.text("risk"), "high", "{method}");
        client.decide(&approval, "deny");
        client.prompt_result(&id);
    }
}

#[test]
fn a_cancel_ends_a_sandboxed_command_with_all_its_processes() {
    let Some(confined) = Confined::new("") else { return };
    let client = confined.world.start();
    let session = session_in(&client, "autoEdit");
    let command = "trap '' INT TERM; setsid sleep 1000 & (setsid sleep 1000 &); echo started; sleep 1000";
    confined
        .world
        .mock()
        .push(Reply::tool("bash", json!({"command": command})));
    let id = client.prompt(&session, "run it");
    client.next_matching(&session, "agent/toolOutputDelta", |notification| {
        notification.text("text").contains("started")
    });
    client.cancel(&session);
    assert_eq!(json!(client.prompt_result(&id).reason), "aborted_tools");
    assert_eq!(client.processes(), 1, "only the server is left");
}

#[test]
fn background_commands_are_confined_too() {
    let Some(confined) = Confined::new("") else { return };
    let world = &confined.world;
    let client = world.start();
    let session = session_in(&client, "autoEdit");
    let command = format!(
        "echo out > '{}'; echo in > inside; sleep 1000",
        confined.outside().display()
    );
    let input = json!({"command": command, "background": true});
    world.mock().push(Reply::tool("bash", input));
    client.ask(&session, "start it");
    let result = last_result(world);
    assert!(
        result.contains("only this very command reaches its ports"),
        "{result}"
    );
    world.wait_until(|| world.read("inside").is_some());
    assert!(!confined.outside().exists());
    client.close_input();
    client.wait_for_exit();
}

#[test]
fn a_session_keeps_its_temporary_folder_from_command_to_command() {
    let Some(confined) = Confined::new("") else { return };
    let world = &confined.world;
    let client = world.start();
    let session = session_in(&client, "autoEdit");
    for command in ["echo kept > /tmp/note", "cat /tmp/note"] {
        world
            .mock()
            .push(Reply::tool("bash", json!({"command": command})));
        client.ask(&session, "go");
    }
    assert!(last_result(world).contains("kept"));
    let other = session_in(&client, "autoEdit");
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": "cat /tmp/note"})));
    client.ask(&other, "read");
    assert!(
        last_result(world).contains("No such file"),
        "another session has its own"
    );
}

/// Returns the last note about the environment in a request.
fn note_of(world: &World, request: usize) -> String {
    let request = world.wait_for_request(request);
    request.environment_notes().last().unwrap().clone()
}

#[test]
fn the_model_is_told_what_the_sandbox_allows() {
    let settings = "network = \"proxy\"\nallow_hosts = [\"registry.example\"]\nwrite = [\"/data/cache\"]";
    let Some(session) = ConfinedSession::start(settings, Vec::new()) else {
        return;
    };
    let (world, client) = (session.world(), &session.client);
    client.ask(&session.id, "one");
    client.ask(&session.id, "two");
    let first = note_of(world, 0);
    for part in [
        "commands run in a sandbox (full)",
        "the workspace folders, and caches of build tools, and /data/cache",
        "reaches registry.example; asks the user about other hosts",
        "outside_sandbox",
    ] {
        assert!(first.contains(part), "{part}: {first}");
    }
    assert_eq!(note_of(world, 1), first, "nothing has changed");
    let set_mode = |mode: &str| {
        let _: Value = client.call("agent/setMode", json!({"sessionId": session.id, "mode": mode}));
    };
    set_mode("plan");
    client.ask(&session.id, "three");
    let plan = note_of(world, 2);
    assert!(
        plan.contains("write only in /tmp (private to them, removed with the session); not"),
        "{plan}"
    );
    set_mode("full");
    client.ask(&session.id, "four");
    let full = note_of(world, 3);
    assert!(!full.contains("commands run in a sandbox"), "{full}");
}

#[test]
fn the_model_is_told_how_much_a_weaker_sandbox_holds() {
    for (method, expected) in [
        ("landlock", Some("commands run in a sandbox (partial)")),
        ("none", None),
    ] {
        let method = vec![("AGENTLS_SANDBOX_METHOD".to_owned(), method.to_owned())];
        let Some(session) = ConfinedSession::start("", method) else {
            return;
        };
        session.client.ask(&session.id, "one");
        let note = note_of(session.world(), 0);
        let told = expected.unwrap_or("commands run in a sandbox");
        assert_eq!(note.contains(told), expected.is_some(), "{note}");
    }
}

#[test]
fn a_background_command_learns_what_the_sandbox_refused_too() {
    let Some(session) = ConfinedSession::start("", Vec::new()) else {
        return;
    };
    let command = format!("echo out > '{}' || exit 3", session.confined.outside().display());
    let turn = session.start_tool("bash", json!({"command": command, "background": true}));
    session.finish(&turn);
    let turn = session.start_tool("bash_output", json!({"id": "bg1", "wait_s": 60}));
    let result = session.finish(&turn);
    let refused = format!(
        "does not let this command write {}",
        session.confined.outside().display()
    );
    assert!(result.contains(&refused), "{result}");
}

/// What of the process of the server a command could read, as paths below its folder in `/proc`.
const OF_SERVER: [&str; 6] = ["environ", "maps", "mem", "fd", "root", "cwd"];

#[expect(clippy::disallowed_methods, reason = "the test looks for a program")]
fn has_bubblewrap() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("bwrap").exists())
}

#[test]
fn the_process_of_the_server_is_closed_to_commands() {
    let is_root = rustix::process::geteuid().is_root();
    for method in ["namespaces", "bubblewrap", "landlock", "none"] {
        if method == "bubblewrap" && !has_bubblewrap() {
            println!("NOT TESTED: the sandbox by bubblewrap, which is not installed");
            continue;
        }
        let variables = vec![("AGENTLS_SANDBOX_METHOD".to_owned(), method.to_owned())];
        let Some(session) = ConfinedSession::start("", variables) else {
            return;
        };
        let pid = session.client.pid();
        // Of its files the first byte is read, or for the memory only opened; of its folders the target.
        let script = format!(
            "cd /proc/{pid}\nfor i in environ maps; do head -c 1 $i > /dev/null && echo read-${{#X}}-$i; done\n\
             (: < mem) && echo read-${{#X}}-mem\n\
             readlink fd/0 && echo read-${{#X}}-fd; for i in root cwd; do readlink $i && echo read-${{#X}}-$i; done; true"
        );
        let turn = session.start_command(&script);
        // An environment looks like a secret, so even a confined command asks.
        let client = &session.client;
        client.decide(&client.next_approval(&session.id), "allow");
        let result = session.finish(&turn);
        for path in OF_SERVER {
            let was_read = result.contains(&format!("read-0-{path}"));
            if method == "none" && is_root {
                assert!(was_read, "root reads {path} without a sandbox: {result}");
            } else {
                assert!(!was_read, "{path} with {method}: {result}");
            }
        }
    }
}
