//! What a user does in a repository: sessions in each mode, typical tool calls, edits, references, slash commands, and
//! commands in a terminal. The user denies every question, except about the edits that the walk itself asks for.

use std::collections::BTreeSet;
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::planter::Canaries;
use crate::harness::{Client, Options, WAIT_LIMIT, World, contents, now, pause};
use crate::mock_llm::Reply;
use crate::revert::{edit, revert};

/// Read-only commands, which are free in every mode.
const READ_ONLY: [&str; 17] = [
    "git status",
    "echo git init; git status",
    "git status -vv",
    "git diff",
    "git log -p",
    "git show",
    "git branch -a",
    "git stash list",
    "git worktree list",
    "git remote -v",
    "git blame a.txt",
    "git grep needle",
    "git -C inner/inner-repository status",
    "cd inner/inner-repository && git diff",
    "ls -la",
    "cat a.txt",
    "cat notes.txt README.md",
];

/// A turn of the walk.
type Step = fn(&mut Walk<'_>);

/// All steps in the repository's main folder.
pub const STEPS: [(&str, Step); 8] = [
    ("lists", list_everything),
    ("mode plan", |walk| read_in_mode("plan", walk)),
    ("mode ask", |walk| read_in_mode("ask", walk)),
    ("mode autoEdit", |walk| read_in_mode("autoEdit", walk)),
    ("edit, revert, and redo", edit_and_revert),
    ("mode full", run_commands),
    ("references and slash commands", send_references),
    ("terminal", run_in_terminal),
];

/// A server in the repository, and what has been looked at so far.
pub struct Walk<'a> {
    pub client: Client,
    world: &'a World,
    canaries: &'a Canaries,
    requests_seen: usize,
    /// What commands printed in the terminal since the last look.
    printed: Vec<u8>,
    environment: Vec<(String, String)>,
}

impl<'a> Walk<'a> {
    /// Starts a server in the repository. No frame may contain a secret of the attacks that `is_secret` accepts.
    /// Without `in_sandbox` nothing but the guards themselves stops an attack.
    pub fn start(
        world: &'a World,
        canaries: &'a Canaries,
        in_sandbox: bool,
        is_secret: impl Fn(&str) -> bool,
    ) -> Self {
        let path = ":bin:./node_modules/.bin:.:/usr/local/bin:/usr/bin:/bin".to_owned();
        let mut environment = vec![("PATH".to_owned(), path)];
        environment.extend(canaries.variables.borrow().iter().cloned());
        if !in_sandbox {
            environment.push(("AGENTLS_SANDBOX_METHOD".to_owned(), "none".to_owned()));
        }
        let client = world.start_with(Options {
            env: environment.clone(),
            secrets: canaries.secrets(is_secret),
            ..Options::default()
        });
        Self {
            client,
            world,
            canaries,
            requests_seen: 0,
            printed: Vec::new(),
            environment,
        }
    }

    /// Returns the names of the attacks that had an effect since the last call.
    pub fn take_effects(&mut self) -> BTreeSet<String> {
        assert_eq!(self.world.mock().pending(), 0, "a turn ended early");
        let mut effects = self.canaries.take_fired(self.world);
        let requests = self.world.mock().requests();
        for request in &requests[self.requests_seen..] {
            effects.extend(self.canaries.leaked(&request.raw));
        }
        self.requests_seen = requests.len();
        effects.extend(self.canaries.leaked(&self.printed));
        assert_is_plain(&std::mem::take(&mut self.printed));
        effects
    }

    /// Ends the server and returns all effects, those of the stored data and the log included.
    pub fn finish(mut self) -> BTreeSet<String> {
        let mut effects = self.take_effects();
        let Self {
            world,
            canaries,
            client,
            ..
        } = self;
        drop(client);
        effects.extend(canaries.take_fired(world));
        for folder in ["data", "state", "tmp"] {
            for bytes in contents(&world.path(folder)).values() {
                effects.extend(canaries.leaked(bytes));
            }
        }
        effects
    }

    /// Opens sessions in a repository inside the repository, and looks around there.
    pub fn open_repository(&mut self, folder: &str) {
        let cwd = self.world.workspace().join(folder);
        for mode in ["plan", "full"] {
            let session = self.client.session_with(json!({"cwd": cwd, "mode": mode}));
            let commands: &[&str] = match mode {
                "plan" => &READ_ONLY[..12],
                // Each of these was allowed, and still shows nothing of another repository or folder.
                _ => &[
                    "echo git init; git status",
                    "git diff",
                    "git log -p",
                    "git blame a.txt",
                    "git commit --allow-empty -m x",
                ],
            };
            let calls: Vec<_> = commands.iter().map(|command| bash(command)).collect();
            self.turn(&session, &calls, false);
        }
    }

    /// Runs a program of the repository, and reads in it, where commands in the sandbox need no approval.
    pub fn run_program(&mut self) {
        let session = self.client.session_with(json!({"mode": "autoEdit"}));
        let calls = ["git status", "git worktree list", "./unconfined.sh"].map(bash);
        self.turn(&session, &calls, false);
    }

    /// Runs a turn that makes these calls, and answers every question alike. Returns its id.
    fn turn(&self, session: &str, calls: &[(&str, Value)], allow: bool) -> String {
        // Several calls per answer run at once, which is quicker.
        for calls in calls.chunks(5) {
            let reply = calls.iter().fold(Reply::new(), |reply, (name, input)| {
                reply.call(name, input.clone())
            });
            self.world.mock().push(reply);
        }
        self.world.mock().push(Reply::text("done"));
        let mut known = self.client.notes().len();
        let id = self.client.prompt(session, "look around");
        let start = now();
        let result = loop {
            assert!(
                start.elapsed() < WAIT_LIMIT,
                "too slow: {calls:?}; fired: {:?}",
                self.canaries.take_fired(self.world)
            );
            if let Some(answer) = self.client.take_answer(&id) {
                break answer.unwrap();
            }
            let arrived = self.client.arrived(known, now() + Duration::from_millis(50));
            known += arrived.len();
            for notification in arrived {
                if notification.method == "agent/approvalRequested" {
                    self.client
                        .decide(&notification, if allow { "allow" } else { "deny" });
                }
            }
        };
        assert_eq!(
            result["text"],
            "done",
            "{calls:?}: {result}; fired: {:?}",
            self.canaries.take_fired(self.world)
        );
        result["turnId"].as_str().unwrap().to_owned()
    }
}

fn bash(command: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command}))
}

/// Asserts that a text cannot control a terminal, or hide or reorder what is shown.
fn assert_is_plain(printed: &[u8]) {
    let text = String::from_utf8_lossy(printed);
    let hidden = text.chars().find(|c| {
        (c.is_control() && *c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{e0000}'..='\u{e007f}')
    });
    assert_eq!(hidden, None, "{text}");
}

/// Asks for every list that a client shows.
fn list_everything(walk: &mut Walk<'_>) {
    let session = walk.client.session();
    let spy = walk.client.session_with(json!({"agent": "spy"}));
    for (method, params) in [
        ("agent/listCommands", json!({"sessionId": session})),
        ("agent/listTools", json!({"sessionId": session})),
        ("agent/listAgents", json!({})),
        ("agent/listModels", json!({})),
        ("agent/listSessions", json!({})),
        ("agent/listGrants", json!({})),
        ("agent/reloadConfig", json!({})),
        ("agent/describeTrust", json!({"folder": walk.world.workspace()})),
    ] {
        let _: Value = walk.client.call(method, params);
    }
    walk.turn(&spy, &[("read_file", json!({"path": "a.txt"}))], false);
}

/// Reads and searches as a model does, and runs read-only commands and a few that the folder would allow.
fn read_in_mode(mode: &str, walk: &mut Walk<'_>) {
    let session = walk.client.session_with(json!({"mode": mode}));
    let mut calls = vec![
        ("list_dir", json!({})),
        ("glob", json!({"pattern": "**", "hidden": true})),
        ("grep", json!({"pattern": "needle|leak", "hidden": true})),
        ("deploy", json!({})),
    ];
    for entry in std::fs::read_dir(walk.world.workspace()).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        calls.push(("read_file", json!({"path": name})));
    }
    for name in [
        "docs/key.txt",
        "sub/up/.ssh/id_rsa",
        "sub/readme.txt",
        ".git/config",
    ] {
        calls.push(("read_file", json!({"path": name})));
    }
    for skill in ["plain", "linked", "outside", "pipe", "large"] {
        calls.push(("read_skill", json!({"name": skill})));
    }
    calls.push(("read_skill", json!({"name": "plain", "file": "key.txt"})));
    calls.extend(READ_ONLY.map(bash));
    calls.push(bash("./allowed.sh"));
    calls.push(bash("./unconfined.sh"));
    walk.turn(&session, &calls, false);
}

/// Lets the agent edit a file, and undoes and redoes the edit.
fn edit_and_revert(walk: &mut Walk<'_>) {
    let session = walk.client.session_with(json!({"mode": "ask"}));
    let read = ("read_file", json!({"path": "a.txt"}));
    let turn = walk.turn(&session, &[read, edit("a.txt", "needle", "noodle")], true);
    assert_eq!(walk.world.read("a.txt").unwrap(), "noodle two\n");
    revert(&walk.client, &session, &turn, json!({}));
    assert_eq!(walk.world.read("a.txt").unwrap(), "needle two\n");
    revert(&walk.client, &session, &turn, json!({"redo": true}));
    revert(&walk.client, &session, &turn, json!({}));
}

/// Runs commands that are not read-only, and a session in the folder's own mode.
fn run_commands(walk: &mut Walk<'_>) {
    let session = walk.client.session_with(json!({"mode": "full"}));
    let address = walk.world.read("address.txt").unwrap();
    let commands = [
        "git statusx",
        "git commit --allow-empty -m x",
        "git commit --allow-empty",
        "git add b.cmd",
        "printenv DEPLOY_TOKEN",
        "echo more >> sub/new.txt",
    ];
    let mut calls: Vec<_> = commands.map(bash).into();
    calls.push(("deploy", json!({})));
    calls.push(("web_fetch", json!({"url": address})));
    for call in calls {
        // One call per turn: those of one answer run at once, and git locks the repository.
        walk.turn(&session, &[call], false);
    }
    let session = walk.client.session();
    walk.turn(&session, &[bash("./mode.sh")], false);
}

/// Sends references to files and all slash commands. Only the content counts: each may be sent or refused.
fn send_references(walk: &mut Walk<'_>) {
    let session = walk.client.session_with(json!({"mode": "plan"}));
    let mut prompts: Vec<Value> = [
        "README.md",
        "notes.txt",
        "docs/key.txt",
        "pipe.txt",
        "endless.txt",
        "loop",
        "large.txt",
    ]
    .map(|name| json!([{"type": "reference", "uri": walk.world.uri(name)}]))
    .into();
    for name in ["plain", "linked", "endless", "pipe"] {
        prompts.push(json!(format!("/{name} now")));
    }
    for prompt in prompts {
        let id = walk.client.prompt(&session, prompt);
        let _ = walk.client.answer(&id);
    }
}

/// Runs the program's own commands in the repository.
fn run_in_terminal(walk: &mut Walk<'_>) {
    let commands: [&[&str]; 7] = [
        &["doctor"],
        &["config", "check"],
        &["config", "test", "git status"],
        &["models"],
        &["sessions"],
        &["sessions", "search", "needle"],
        &["run", "--mode", "plan", "look around"],
    ];
    for arguments in commands {
        let output = walk.world.path("printed");
        let file = File::create(&output).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_agentls"))
            .args(arguments)
            .env_clear()
            .envs(walk.world.env())
            .envs(walk.environment.iter().cloned())
            .current_dir(walk.world.workspace())
            .stdin(Stdio::null())
            .stderr(file.try_clone().unwrap())
            .stdout(file)
            .spawn()
            .unwrap();
        let deadline = now() + WAIT_LIMIT;
        while child.try_wait().unwrap().is_none() {
            if now() > deadline {
                child.kill().unwrap();
                panic!("{arguments:?} does not end");
            }
            pause();
        }
        walk.printed.extend(std::fs::read(output).unwrap());
    }
}
