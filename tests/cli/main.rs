//! The command line and its terminal clients: the real binary, which starts a real server.
//!
//! The model is a cassette (`kind = "script"`), so no network is needed.

#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(
    clippy::disallowed_methods,
    reason = "a test starts what it tests, and looks at the clock"
)]

mod chat;
mod docs;
mod doctor;
mod interrupt;
#[cfg(target_os = "linux")]
mod limits;
mod login;
mod mcp;
#[path = "../support/mcp_peer.rs"]
mod mcp_peer;
mod models;
mod run;
mod terminal;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// A home folder, a workspace, and a provider that plays a cassette.
struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        for folder in ["home/.config/agentls", "work", "tmp"] {
            fs::create_dir_all(world.path(folder)).unwrap();
        }
        world
    }

    /// Creates a world with this cassette as its only provider.
    fn with(exchanges: Value) -> Self {
        let world = Self::new();
        let cassette = json!({"cassette": 1, "exchanges": exchanges});
        fs::write(world.path("cassette.json"), cassette.to_string()).unwrap();
        let path = world.path("cassette.json");
        world.configure(&format!(
            "[provider.mine]\nkind = \"script\"\ncassette = \"{}\"\nmodel = \"m\"\n\n[agent.default]\nprovider = \"mine\"\n",
            path.display()
        ));
        world
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(path)
    }

    fn configure(&self, config: &str) {
        fs::write(self.path("home/.config/agentls/config.toml"), config).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentls"));
        command
            .args(args)
            // The developer's own keys and settings must not reach the program.
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            // The same answers on machines with and without a sandbox.
            .env("AGENTLS_SANDBOX_METHOD", "none")
            .current_dir(self.path("work"))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> CommandResult {
        CommandResult::of(&self.command(args).output().unwrap())
    }
}

struct CommandResult {
    code: Option<i32>,
    out: String,
    err: String,
}

impl CommandResult {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout.clone()).unwrap(),
            err: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }

    #[track_caller]
    fn assert_exit_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "out: {}\nerr: {}", self.out, self.err);
        self
    }

    #[track_caller]
    fn assert_stdout(&self, text: &str) -> &Self {
        // A line may be wrapped at any blank.
        let unfolded = self.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            self.out.contains(text) || unfolded.contains(text),
            "no {text:?} in: {}\nerr: {}",
            self.out,
            self.err
        );
        self
    }

    #[track_caller]
    fn assert_stderr(&self, text: &str) -> &Self {
        assert!(
            self.err.contains(text),
            "no {text:?} in: {}\nout: {}",
            self.err,
            self.out
        );
        self
    }
}

fn hello() -> Value {
    json!([
        {"when": {"prompt": "write", "step": 0}, "repeat": true, "events": [
            {"tool": {"name": "write_file", "input": {"path": "new.txt", "content": "hello\n"}}}]},
        {"when": {"prompt": "write", "step": 1}, "repeat": true, "events": [{"text": "That was it."}]},
        {"when": {"prompt": "slow"}, "repeat": true, "events": [
            {"text": "word ".repeat(2_000), "chunk": 5, "delay_ms": 20}]},
        {"when": {"prompt": "fail"}, "repeat": true, "events": [
            {"error": {"status": 401, "message": "invalid x-api-key"}}]},
        {"repeat": true, "events": [{"text": "Hello **there**.\u{1b}[31m"}]},
    ])
}

#[test]
fn demo_runs_end_to_end_without_a_home() {
    let world = World::new();
    let mut command = world.command(&["demo", "--yes"]);
    command
        .env("HOME", "/nonexistent")
        .env("ANTHROPIC_API_KEY", "sk-ant-canary");
    let done = CommandResult::of(&command.output().unwrap());
    done.assert_exit_code(0);
    for landmark in [
        "no key, no network",
        "Read cart.py",
        "↺ discarded",
        "Overloaded (529)",
        "attempt 2 of 4",
        "? Edit cart.py",
        "-    return result - discount",
        "+    return result * (1 - discount / 100)",
        "allowed automatically",
        "edited cart.py",
        "■ canceled",
        "✓ the edit was written to disk, reverted and restored",
        "✓ the cancel took",
        "events of the session are stored, without a gap",
        "agentls doctor",
    ] {
        done.assert_stdout(landmark);
    }
    assert!(!done.out.contains("missing"), "{}", done.out);
    assert!(!done.out.contains('\u{1b}'), "no colors without a terminal");
    assert_eq!(
        fs::read_dir(world.path("tmp")).unwrap().count(),
        0,
        "the scratch folder is gone"
    );
    assert_eq!(
        fs::read_dir(world.path("home/.config/agentls")).unwrap().count(),
        0
    );
}

#[test]
fn run_prints_only_the_answer_on_stdout() {
    let world = World::with(hello());
    let done = world.run(&["run", "-p", "hi"]);
    done.assert_exit_code(0);
    assert_eq!(done.out, "Hello **there**.\n");
    let mut child = world
        .command(&["run", "-p", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"hi\n").unwrap();
    CommandResult::of(&child.wait_with_output().unwrap())
        .assert_exit_code(0)
        .assert_stdout("Hello");
    world
        .run(&["run", "-p", " "])
        .assert_exit_code(2)
        .assert_stderr("the prompt is empty");
    world
        .run(&["run", "-p", "hi", "nowhere"])
        .assert_exit_code(2)
        .assert_stderr("nowhere is not a folder");
    world
        .run(&["run", "-p", "hi", "--session", "ses_none"])
        .assert_exit_code(2)
        .assert_stderr("unknown session `ses_none`; see `agentls sessions`");
    let failed = world.run(&["run", "-p", "fail"]);
    failed
        .assert_exit_code(1)
        .assert_stderr("invalid x-api-key")
        .assert_stderr("→ check the key");
    assert_eq!(failed.out, "");
}

#[test]
fn run_denies_what_needs_approval_unless_told_otherwise() {
    let world = World::with(hello());
    let denied = world.run(&["run", "-p", "write it"]);
    denied
        .assert_exit_code(3)
        .assert_stderr("denied")
        .assert_stderr("--yes")
        .assert_stderr("⊘ Write new.txt\n  Denied by user: nobody approves");
    assert!(denied.err.contains("approval"), "the reason: {}", denied.err);
    assert!(!world.path("work/new.txt").exists());
    let allowed = world.run(&["run", "-y", "-p", "write it"]);
    allowed
        .assert_exit_code(0)
        .assert_stdout("That was it.")
        .assert_stderr("allowed by --yes");
    assert_eq!(fs::read_to_string(world.path("work/new.txt")).unwrap(), "hello\n");
    fs::remove_file(world.path("work/new.txt")).unwrap();
    let by_mode = world.run(&["run", "--mode", "autoEdit", "-p", "write it"]);
    by_mode.assert_exit_code(0);
    assert!(!by_mode.err.contains("allowed by"), "{}", by_mode.err);
    assert!(world.path("work/new.txt").exists());
}

#[test]
fn run_prints_json_lines() {
    let world = World::with(hello());
    let done = world.run(&["run", "--json", "-p", "hi"]);
    done.assert_exit_code(0);
    assert_eq!(done.err, "");
    let lines: Vec<Value> = done
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (result, notifications) = lines.split_last().unwrap();
    assert_eq!(result["result"]["state"], "completed");
    // JSON keeps what the model wrote, control characters included.
    assert_eq!(result["result"]["text"], "Hello **there**.\u{1b}[31m");
    let methods: Vec<&str> = notifications
        .iter()
        .map(|line| line["method"].as_str().unwrap())
        .collect();
    for method in [
        "agent/turnStarted",
        "agent/textDelta",
        "agent/message",
        "agent/turnEnded",
    ] {
        assert!(methods.contains(&method), "{methods:?}");
    }
    let failed = world.run(&["run", "--json", "-p", "fail"]);
    failed
        .assert_exit_code(1)
        .assert_stdout(r#""code":"provider_error""#);
}

#[test]
fn ctrl_c_cancels_a_run() {
    let world = World::with(hello());
    let mut child = world
        .command(&["run", "--json", "-p", "slow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut output = String::new();
    let mut bytes = [0; 4_096];
    while !output.contains("agent/textDelta") {
        let n = out.read(&mut bytes).unwrap();
        assert!(n > 0, "{output}");
        output += &String::from_utf8_lossy(&bytes[..n]);
    }
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    out.read_to_string(&mut output).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{output}");
    let result: Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
    assert_eq!(result["result"]["state"], "cancelled");
    assert!(result["result"]["sessionId"].is_string(), "{result}");
}

#[test]
fn sessions_are_listed_shown_renamed_and_deleted() {
    let world = World::with(hello());
    world
        .run(&["sessions"])
        .assert_exit_code(0)
        .assert_stdout("no sessions");
    world
        .run(&["run", "-p", "a peculiar question"])
        .assert_exit_code(0);
    world.run(&["run", "-p", "another"]).assert_exit_code(0);
    let listed = world.run(&["sessions", "--json"]);
    let sessions: Vec<Value> = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(sessions.len(), 2, "{}", listed.out);
    let id = sessions[1]["sessionId"].as_str().unwrap();
    world
        .run(&["sessions"])
        .assert_stdout(id)
        .assert_stdout("a peculiar question")
        .assert_stdout("just now");
    let found = world.run(&["sessions", "search", "peculiar"]);
    found.assert_exit_code(0).assert_stdout(id);
    assert!(!found.out.contains("another"), "{}", found.out);
    let output = world.run(&["sessions", "show", &id[..12]]);
    output
        .assert_exit_code(0)
        .assert_stdout("› a peculiar question")
        .assert_stdout("Hello there.");
    world
        .run(&["sessions", "show", id, "--json"])
        .assert_exit_code(0)
        .assert_stdout("agent/turnEnded");
    world
        .run(&["sessions", "rename", id, "Better", "title"])
        .assert_exit_code(0);
    world.run(&["sessions", "list"]).assert_stdout("Better title");
    world
        .run(&["sessions", "delete", id])
        .assert_exit_code(1)
        .assert_stderr("--yes");
    world
        .run(&["sessions", "delete", id, "--yes"])
        .assert_exit_code(0);
    let listing = world.run(&["sessions"]);
    assert!(!listing.out.contains(id), "{}", listing.out);
    world
        .run(&["sessions", "show", id])
        .assert_exit_code(1)
        .assert_stderr("unknown session `");
    world.run(&["sessions", "show", "ses_"]).assert_exit_code(0);
    // A later run continues a session.
    let id = sessions[0]["sessionId"].as_str().unwrap();
    world
        .run(&["run", "--session", id, "-p", "and more"])
        .assert_exit_code(0);
    world
        .run(&["sessions", "show", id])
        .assert_stdout("› another")
        .assert_stdout("› and more");
}

#[test]
fn config_test_prints_the_verdict_and_runs_nothing() {
    let world = World::new();
    let config = "[approvals]\nallow = [\"bash(cargo test *)\"]\ndeny = [\"bash(git push *)\"]\n\
                  require_approval = ['bash(wc *)']\n";
    world.configure(config);
    fs::write(world.path("work/.env"), "KEY=x\n").unwrap();
    let location = |line: u32| {
        format!(
            "{}:{line}",
            world.path("home/.config/agentls/config.toml").display()
        )
    };
    let test = |command: &str| world.run(&["config", "test", command]);
    test("ls | head")
        .assert_exit_code(0)
        .assert_stdout("allowed: it only reads");
    test("cargo test --lib")
        .assert_exit_code(0)
        .assert_stdout("rule: bash(cargo test *)")
        .assert_stdout(&location(2));
    test("touch x")
        .assert_exit_code(1)
        .assert_stdout("asked: runs a command · not in your allow rules: `touch x`")
        .assert_stdout("risk: medium")
        .assert_stdout("would remember: bash(touch x)");
    test("wc .env.example")
        .assert_exit_code(1)
        .assert_stdout("always asks")
        .assert_stdout(&location(4))
        .assert_stdout("would remember: bash(wc .env.example)");
    test("grep -r KEY .")
        .assert_exit_code(1)
        .assert_stdout("looks like a secret")
        .assert_stdout("risk: high");
    test("cat /etc/hosts")
        .assert_exit_code(1)
        .assert_stdout("outside the workspace")
        .assert_stdout("bash(cat /etc/hosts)");
    test("ls; git push")
        .assert_exit_code(3)
        .assert_stdout("denied")
        .assert_stdout(&location(3));
    assert!(!world.path("work/x").exists());
    // A repository can hide a program of the system behind its own.
    fs::create_dir(world.path("work/bin")).unwrap();
    fs::write(world.path("work/bin/ls"), "#!/bin/sh\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(world.path("work/bin/ls"), executable).unwrap();
    let path = format!("{}:/usr/bin:/bin", world.path("work/bin").display());
    let mut shadowed = world.command(&["config", "test", "ls"]);
    CommandResult::of(&shadowed.env("PATH", path).output().unwrap())
        .assert_exit_code(1)
        .assert_stdout("runs a program of the workspace");
    // Other tools, modes and folders.
    world
        .run(&["config", "test", "a.txt", "--tool", "write_file"])
        .assert_exit_code(1)
        .assert_stdout("writes a.txt");
    world
        .run(&[
            "config",
            "test",
            "AGENTS.md",
            "--tool",
            "edit_file",
            "--mode",
            "autoEdit",
        ])
        .assert_exit_code(1)
        .assert_stdout("writes a file that steers agents");
    world
        .run(&["config", "test", "make", "--mode", "plan"])
        .assert_exit_code(3);
    world
        .run(&["config", "test", "make", "--mode", "full"])
        .assert_exit_code(0);
    world
        .run(&["config", "test", "x", "--tool", "bsh"])
        .assert_exit_code(2)
        .assert_stdout("unknown tool `bsh`");
    world
        .run(&["config", "test", "x", "--cwd", "/no/such"])
        .assert_exit_code(2);
    let json = world.run(&["config", "test", "touch x", "--json"]);
    let json: Value = serde_json::from_str(&json.assert_exit_code(1).out).unwrap();
    assert_eq!(json["verdict"], "asked");
    assert_eq!(json["risk"], "medium");
    assert_eq!(json["always"], "bash(touch x)");
    assert_eq!(json["grantsConsidered"], true);
}

#[test]
fn config_check_reports_problems_by_file_and_line() {
    let world = World::new();
    world
        .run(&["config", "check"])
        .assert_exit_code(0)
        .assert_stdout("using the defaults");
    world.configure("[agent.default]\nmode = \"ask\"\nmax_stepz = 3\nmax_steps = \"many\"\n");
    let checked = world.run(&["config", "check"]);
    let file = world.path("home/.config/agentls/config.toml");
    checked
        .assert_exit_code(1)
        .assert_stdout(&format!("{}:3:", file.display()))
        .assert_stdout("max_steps")
        .assert_stdout(&format!("{}:4:", file.display()))
        .assert_stdout(": error: ");
    world.configure("[agent.default]\nmode = \"ask\"\n");
    world
        .run(&["config", "check"])
        .assert_exit_code(0)
        .assert_stdout("no problems");
    // A fallback chain of three preset providers.
    world.configure(
        "[provider.anthropic]\napi_key = \"a\"\nmodel = \"claude-sonnet-4-20250514\"\nmax_retries = 3\n\
         fallback = \"openrouter\"\n[provider.openrouter]\napi_key = \"b\"\nmodel = \"anthropic/claude-sonnet-4\"\n\
         max_retries = 2\nfallback = \"eachlabs\"\n[provider.eachlabs]\napi_key = \"c\"\nmodel = \"m\"\n\
         [agent.default]\nprovider = \"anthropic\"\n",
    );
    world
        .run(&["config", "check"])
        .assert_exit_code(0)
        .assert_stdout("no problems");
    world
        .run(&["config", "check", "--config", "/no/such.toml"])
        .assert_exit_code(1);
    world.configure("[tool.bsh]\ntimeout_s = 3\n");
    world
        .run(&["config"])
        .assert_stdout("bsh")
        .assert_stdout("`bash`");
    let schema = world.run(&["config", "schema"]);
    let schema: Value = serde_json::from_str(&schema.assert_exit_code(0).out).unwrap();
    assert!(schema["properties"]["provider"].is_object());
}

#[test]
fn doctor_reports_the_provider_and_no_secret() {
    let world = World::new();
    let mut command = world.command(&["doctor", "--offline"]);
    command.env("ANTHROPIC_API_KEY", "sk-ant-canary-0123456789");
    let done = CommandResult::of(&command.output().unwrap());
    done.assert_exit_code(0)
        .assert_stdout("in the environment: ANTHROPIC_API_KEY")
        .assert_stdout("because ANTHROPIC_API_KEY is set")
        .assert_stdout("using anthropic with claude-sonnet-")
        .assert_stdout("priced at list price")
        .assert_stdout("starts and initializes")
        .assert_stdout("windows and prices as of ")
        .assert_stdout("0 sessions")
        // Its last line depends on the age of the data about models.
        .assert_stdout("works");
    assert!(
        !format!("{}{}", done.out, done.err).contains("canary"),
        "{}",
        done.out
    );
    world.configure("[agent.default]\nprovider = \"nobody\"\n");
    world
        .run(&["doctor", "--offline"])
        .assert_exit_code(1)
        .assert_stdout("✗ ")
        .assert_stdout("→ ");
    // Without a provider, doctor warns instead of reporting that everything works.
    world.configure("");
    let offline = world.run(&["doctor", "--offline"]);
    offline
        .assert_exit_code(0)
        .assert_stdout("! provider")
        .assert_stdout("Everything required works; see the ! lines.");
}

/// Answers one request with `head` and `body`; the thread returns the head of the request.
fn serve_one_response(head: &'static str, body: &'static str) -> (u16, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        let mut byte = [0];
        while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
            request.push(byte[0]);
        }
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {head}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )
        .unwrap();
        String::from_utf8(request).unwrap()
    });
    (port, thread)
}

#[test]
fn doctor_checks_the_providers_address_and_key() {
    let world = World::new();
    let ask = |port: u16| {
        world.configure(&format!(
            "[provider.work]\nkind = \"anthropic\"\nbase_url = \"http://127.0.0.1:{port}\"\napi_key = \"sk-canary-012345\"\nmodel = \"claude-sonnet-5\"\n"
        ));
        world.run(&["doctor"])
    };
    let (port, thread) = serve_one_response("200 OK", r#"{"data":[{"id":"a"},{"id":"claude-sonnet-5"}]}"#);
    ask(port)
        .assert_exit_code(0)
        .assert_stdout("lists 2 models")
        .assert_stdout("✓ model")
        .assert_stdout("priced at list price: $2 in, $10 out");
    let request = thread.join().unwrap().to_lowercase();
    // Anthropic's default page has only 20 models.
    assert!(request.starts_with("get /v1/models?limit=1000 "), "{request}");
    assert!(request.contains("x-api-key: sk-canary-012345"), "{request}");
    let (port, thread) = serve_one_response(
        "200 OK",
        r#"{"data":[{"id":"claude-sonnet-7"},{"id":"claude-opus-7"}]}"#,
    );
    ask(port)
        .assert_exit_code(1)
        .assert_stdout("✗ model")
        .assert_stdout("work lists 2 models, but not claude-sonnet-5")
        .assert_stdout("set [provider.work] model to claude-sonnet-7");
    thread.join().unwrap();
    let (port, thread) = serve_one_response(
        "401 Unauthorized",
        r#"{"type":"error","error":{"type":"authentication_error","message":"bad key sk-canary-012345"}}"#,
    );
    let refused = ask(port);
    refused
        .assert_exit_code(1)
        .assert_stdout("bad key")
        .assert_stdout("→ check the key in [provider.work]");
    assert!(!refused.out.contains("canary"), "{}", refused.out);
    thread.join().unwrap();
    let (port, thread) = serve_one_response("404 Not Found", "{}");
    ask(port).assert_exit_code(0).assert_stdout("it lists no models");
    thread.join().unwrap();
    // The listener is gone.
    ask(port).assert_exit_code(1).assert_stdout("✗ reachable");
}

#[test]
fn version_completions_help_and_usage_errors_work() {
    let world = World::new();
    world
        .run(&["--version"])
        .assert_exit_code(0)
        .assert_stdout(env!("CARGO_PKG_VERSION"));
    world
        .run(&["completions", "bash"])
        .assert_exit_code(0)
        .assert_stdout("AGENTLS_COMPLETE");
    world
        .run(&["completions", "fish"])
        .assert_exit_code(0)
        .assert_stdout("--command agentls");
    world
        .run(&["--help"])
        .assert_exit_code(0)
        .assert_stdout("demo")
        .assert_stdout("chat")
        .assert_stdout("doctor");
    world
        .run(&["chat"])
        .assert_exit_code(1)
        .assert_stderr("agentls run");
    world
        .run(&["nonsense"])
        .assert_exit_code(2)
        .assert_stderr("nonsense");
    for model in ["second/", "/m", " "] {
        let refused = world.run(&["run", "--model", model, "-p", "hi"]);
        refused.assert_exit_code(2).assert_stderr("names no model");
    }
    let mut without_home = world.command(&["run", "-p", "hi"]);
    without_home.env("HOME", "/proc/nowhere");
    let done = CommandResult::of(&without_home.output().unwrap());
    // The store cannot be created there, and the error says why.
    assert_ne!(done.code, Some(0));
    assert_ne!(done.err, "");
}

#[test]
fn shells_complete_the_names_of_sessions_models_and_agents() {
    let world = World::with(hello());
    world.run(&["run", "-p", "hi"]).assert_exit_code(0);
    let complete = |words: &[&str]| {
        let mut command = world.command(&["--", "agentls"]);
        command.args(words);
        command.env("AGENTLS_COMPLETE", "fish");
        let done = CommandResult::of(&command.output().unwrap());
        assert_eq!(done.code, Some(0), "{words:?}: {}", done.err);
        done.out
    };
    let sessions = world.run(&["sessions", "--json"]).out;
    let sessions: Value = serde_json::from_str(&sessions).unwrap();
    let id = sessions[0]["sessionId"].as_str().unwrap();
    for words in [
        &["resume", ""][..],
        &["chat", "--session", &id[..6]],
        &["sessions", "show", ""],
    ] {
        assert!(complete(words).contains(id), "{words:?}: {}", complete(words));
    }
    assert!(!complete(&["resume", "x"]).contains(id));
    assert!(complete(&["run", "--model", ""]).contains('/'));
    assert!(complete(&["chat", "--agent", ""]).contains("default"));
    assert!(complete(&["run", "--provider", "anth"]).contains("anthropic"));
    assert!(complete(&["chat", "--effort", "m"]).contains("medium"));
    assert!(complete(&["--mode", "au"]).contains("autoEdit"));
    // Without the variable of clap itself, which an editor may set, a command runs as always.
    let mut version = world.command(&["--version"]);
    version.env("COMPLETE", "fish");
    CommandResult::of(&version.output().unwrap()).assert_stdout(env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_completion_leaves_a_store_of_an_older_version_as_it_is() {
    let world = World::with(hello());
    world.run(&["run", "-p", "hi"]).assert_exit_code(0);
    let path = world.path("home/.local/share/agentls/store.db");
    let version = |set: Option<i64>| -> i64 {
        let store = rusqlite::Connection::open(&path).unwrap();
        if let Some(version) = set {
            store.pragma_update(None, "user_version", version).unwrap();
        }
        store
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .unwrap()
    };
    version(Some(8));
    let mut command = world.command(&["--", "agentls", "resume", ""]);
    command.env("AGENTLS_COMPLETE", "fish");
    CommandResult::of(&command.output().unwrap())
        .assert_exit_code(0)
        .assert_stdout("ses_");
    assert_eq!(version(None), 8);
    // Nothing is created, either.
    let home = world.path("new");
    let mut command = world.command(&["--", "agentls", "run", "--model", ""]);
    command.env("AGENTLS_COMPLETE", "fish").env("HOME", &home);
    CommandResult::of(&command.output().unwrap()).assert_exit_code(0);
    assert!(!home.exists());
}

#[test]
fn failed_write_to_stdout_is_an_error() {
    let world = World::with(hello());
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for args in [
        &["run", "-p", "hi"][..],
        &["run", "--json", "-p", "hi"],
        &["config", "schema"],
        &["completions", "bash"],
        &["models", "--offline"],
        &["models", "--offline", "--json"],
        &["sessions", "list"],
        &["config", "check"],
        &["mcp", "list"],
        &["docs"],
    ] {
        let output = world.command(args).stdout(full()).stderr(Stdio::piped()).output();
        CommandResult::of(&output.unwrap())
            .assert_exit_code(1)
            .assert_stderr("No space left");
    }
}

#[test]
fn run_ends_when_the_reader_of_its_json_leaves() {
    let world = World::with(hello());
    let mut child = world
        .command(&["run", "--json", "-p", "slow"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut byte = [0];
    child.stdout.take().unwrap().read_exact(&mut byte).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn mistyped_mode_or_config_path_is_a_usage_error() {
    let world = World::with(hello());
    world
        .run(&["run", "-y", "--mode", "pln", "-p", "write"])
        .assert_exit_code(2)
        .assert_stderr("'plan'");
    world
        .run(&["run", "-y", "--config", "gone.toml", "-p", "write"])
        .assert_exit_code(2)
        .assert_stderr("file not found: gone.toml");
    assert!(!world.path("work/new.txt").exists());
}

#[test]
fn server_at_a_terminal_says_that_it_waits_for_an_editor() {
    let world = World::new();
    for args in [&[][..], &["serve"]] {
        let mut serve = world.terminal(args, &[], 80);
        serve.wait_for_text("waiting for an editor on stdin");
        serve.send_keys("\u{4}");
        serve.wait_for_exit();
    }
    // A server whose stdin is not a terminal prints nothing.
    let output = world.command(&["serve"]).output().unwrap();
    assert_eq!(CommandResult::of(&output).err, "");
}
