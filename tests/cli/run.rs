//! `agentls run` as scripts use it: stdin, sessions, exit codes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::interrupt::is_gone;
use crate::terminal::WAIT_LIMIT;
use crate::{CommandResult, World, hello};

#[test]
fn a_picture_can_be_attached_and_what_cannot_is_named() {
    let world = World::with(hello());
    let dot = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
    fs::write(world.path("work/dot.gif"), dot).unwrap();
    fs::write(world.path("work/cut.gif"), &dot[..10]).unwrap();
    fs::write(world.path("work/tool"), b"\x7fELF\0").unwrap();
    world.run(&["run", "hello, see @dot.gif"]).assert_exit_code(0);
    world
        .run(&["run", "hello, see @cut.gif"])
        .assert_exit_code(0)
        .assert_stderr("`@cut.gif` was not attached")
        .assert_stderr("cannot be decoded");
    world
        .run(&["run", "hello, see @tool"])
        .assert_exit_code(0)
        .assert_stderr("`@tool` was not attached")
        .assert_stderr("it is a binary file");
}

/// The example of docs/providers.md.
#[test]
fn the_documented_cassette_plays() {
    let docs = include_str!("../../docs/providers.md");
    let example = docs
        .split("```json\n")
        .find(|block| block.starts_with("{\"cassette\""));
    let example = example.unwrap().split("```").next().unwrap();
    let cassette: Value = serde_json::from_str(example).unwrap();
    let world = World::with(cassette["exchanges"].clone());
    fs::write(world.path("work/notes.md"), "hello\n").unwrap();
    let read = world.run(&["run", "What do my notes say?", "--json"]);
    read.assert_exit_code(0)
        .assert_stdout("\"name\":\"read_file\"")
        .assert_stdout("The notes say hello.");
    for _ in 0..2 {
        world
            .run(&["run", "anything else"])
            .assert_exit_code(1)
            .assert_stderr("I know only the notes");
    }
}

impl World {
    /// Runs with `input` on stdin.
    fn run_piped(&self, args: &[&str], input: &[u8]) -> CommandResult {
        let mut child = self.start(args);
        let mut stdin = child.stdin.take().unwrap();
        // A run that is refused early closes stdin before it has read everything.
        let _ = stdin.write_all(input);
        drop(stdin);
        CommandResult::of(&child.wait_with_output().unwrap())
    }

    fn start(&self, args: &[&str]) -> Child {
        self.command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Returns all user messages in the order of the session list: the newest session first.
    fn user_messages(&self) -> Vec<String> {
        self.list_messages(false)
    }

    /// Returns the texts of the messages to the model that the user has not written, if they are `hidden`, or has.
    fn list_messages(&self, hidden: bool) -> Vec<String> {
        let listed = self.run(&["sessions", "--json"]);
        let sessions: Vec<Value> = serde_json::from_str(&listed.out).unwrap();
        let messages = sessions.iter().flat_map(|session| {
            let id = session["sessionId"].as_str().unwrap();
            let output = self.run(&["sessions", "show", id, "--json"]);
            let events: Vec<Value> = output
                .out
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            events.into_iter().filter(|event| {
                let params = &event["params"];
                params["role"] == "user" && params["hidden"].as_bool().unwrap_or_default() == hidden
            })
        });
        messages
            .map(|event| {
                let blocks = event["params"]["content"].as_array().unwrap().clone();
                let texts = blocks
                    .iter()
                    .map(|block| block["text"].as_str().unwrap().to_owned());
                texts.collect::<Vec<_>>().join("|")
            })
            .collect()
    }
}

fn last_line(done: &CommandResult) -> Value {
    serde_json::from_str(done.out.lines().last().unwrap()).unwrap()
}

#[test]
fn a_question_of_a_server_that_nobody_can_answer_is_reported() {
    let world = World::with(json!([
        {"when": {"prompt": "ask", "step": 0}, "events": [{"tool": {"name": "mcp__peer__elicit_form", "input": {}}}]},
        {"repeat": true, "events": [{"text": "Done with it."}]},
    ]));
    let config = world.path("home/.config/agentls/config.toml");
    let mine = fs::read_to_string(&config).unwrap();
    let peer = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/mcp_server.py");
    world.configure(&format!(
        "{mine}\n[mcp.peer]\ncommand = \"python3\"\nargs = [\"{peer}\"]\n"
    ));
    let done = world.run(&["run", "--yes", "ask"]);
    done.assert_exit_code(0)
        .assert_stdout("Done with it.")
        .assert_stderr("MCP server peer asked a question that was declined, because nobody can answer");
    // A prompt that is refused starts no session.
    let refused = world.run(&["run", "see @peer:note://nothing"]);
    refused.assert_exit_code(1).assert_stderr("note://nothing");
    assert!(!refused.err.contains("to resume"), "{}", refused.err);
}

#[test]
fn the_model_knows_who_gives_approvals() {
    for (arguments, words) in [
        (
            &["run", "hello"][..],
            "is refused if nobody is there to give it: edits",
        ),
        (
            &["run", "--yes", "hello"],
            "is always given at once, without a person: edits",
        ),
    ] {
        let world = World::with(hello());
        world.run(arguments).assert_exit_code(0);
        let messages = world.list_messages(true);
        assert!(
            messages.iter().any(|message| message.contains(words)),
            "{messages:?}"
        );
    }
}

#[test]
fn piped_stdin_becomes_context_of_the_prompt() {
    let world = World::with(hello());
    // The folder contains `x`, but `@x` in piped text is not a file reference.
    fs::write(world.path("work/x"), "").unwrap();
    let diff = b"diff --git a/x b/x\n-old @x\n+new\n";
    world
        .run_piped(&["run", "review this"], diff)
        .assert_exit_code(0)
        .assert_stdout("Hello");
    let messages = world.user_messages();
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert!(
        messages[0].starts_with("review this")
            && messages[0].contains("<stdin>\ndiff --git")
            && messages[0].ends_with("+new\n</stdin>"),
        "{messages:?}"
    );
    // Invalid UTF-8 is replaced with a warning; binary data is refused.
    world
        .run_piped(&["run", "-p", "look"], b"caf\xe9\n")
        .assert_exit_code(0)
        .assert_stderr("stdin is not UTF-8 in 1 places");
    assert!(world.user_messages()[0].contains("caf\u{fffd}"));
    world
        .run_piped(&["run", "look"], b"\x89PNG\0")
        .assert_exit_code(2)
        .assert_stderr("not text");
    world
        .run_piped(&["run", "look"], &vec![b'a'; 600 << 10])
        .assert_exit_code(2)
        .assert_stderr("exceeds 512 KiB");
    // Empty or blank input adds nothing to the prompt.
    for (args, input) in [(["run", "plain"], &b""[..]), (["run", "plain"], b" \n\n")] {
        world.run_piped(&args, input).assert_exit_code(0);
        assert_eq!(world.user_messages()[0], "plain");
    }
    world.run(&["run", "plain"]).assert_exit_code(0);
    assert_eq!(world.user_messages()[0], "plain");
    // Stdin may be a file, but not a folder.
    fs::write(world.path("work/notes"), "from a file").unwrap();
    let file = fs::File::open(world.path("work/notes")).unwrap();
    let output = world.command(&["run", "plain"]).stdin(file).output().unwrap();
    CommandResult::of(&output).assert_exit_code(0);
    assert!(world.user_messages()[0].contains("<stdin>\nfrom a file\n</stdin>"));
    let folder = fs::File::open(world.path("work")).unwrap();
    let output = world.command(&["run", "plain"]).stdin(folder).output().unwrap();
    CommandResult::of(&output)
        .assert_exit_code(2)
        .assert_stderr("cannot read stdin");
}

#[test]
fn prompt_comes_from_an_argument_or_stdin() {
    let world = World::with(hello());
    for args in [
        &["run", "hi there"][..],
        &["run", "-p", "hi there"],
        &["run", "--json", "hi there"],
    ] {
        world.run(args).assert_exit_code(0).assert_stdout("Hello");
        assert_eq!(world.user_messages()[0], "hi there");
    }
    for args in [&["run"][..], &["run", "-"], &["run", "-p", "-"]] {
        world
            .run_piped(args, b"from stdin\n")
            .assert_exit_code(0)
            .assert_stdout("Hello");
        assert_eq!(world.user_messages()[0], "from stdin", "{args:?}");
    }
    let count = world.user_messages().len();
    for (args, expected) in [
        (&["run", "fix", "the", "tests"][..], "quote a prompt"),
        (&["run", "-p", " "], "the prompt is empty"),
        (&["run", ""], "the prompt is empty"),
        (&["run"], "the prompt on stdin is empty"),
        (&["run", "-"], "the prompt on stdin is empty"),
        (&["run", "-p", "hi", "nowhere"], "nowhere is not a folder"),
        (&["run", "hi", "--cwd", "nowhere"], "nowhere is not a folder"),
        (
            &["run", "-p", "hi", ".", "--cwd", "."],
            "two working folders given",
        ),
        (&["run", "hi", "--frobnicate"], "--frobnicate"),
        (
            &["run", "hi", "--config", "gone.toml"],
            "file not found: gone.toml",
        ),
        (
            &["run", "hi", "--session", "ses_none"],
            "unknown session `ses_none`",
        ),
        (&["run", "hi", "--session", ""], "the session id is empty"),
    ] {
        world.run(args).assert_exit_code(2).assert_stderr(expected);
    }
    assert_eq!(world.user_messages().len(), count, "nothing was run");
    fs::create_dir(world.path("work/sub")).unwrap();
    world.run(&["run", "hi", "--cwd", "sub"]).assert_exit_code(0);
    world.run(&["sessions"]).assert_stdout("work/sub");
}

#[test]
fn waiting_for_stdin_is_announced_and_can_be_interrupted() {
    let world = World::with(hello());
    for json in [false, true] {
        let args = if json {
            &["run", "--json", "hi"][..]
        } else {
            &["run", "hi"]
        };
        let mut child = world.start(args);
        let stdin = child.stdin.take().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.contains("reading stdin until it ends"), "{line}");
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let done = CommandResult::of(&child.wait_with_output().unwrap());
        done.assert_exit_code(130);
        if json {
            let error = &last_line(&done)["error"];
            assert!(
                error["message"].as_str().unwrap().contains("interrupted"),
                "{error}"
            );
            assert!(error.as_object().unwrap().contains_key("sessionId"));
        }
        drop(stdin);
    }
    assert_eq!(world.user_messages().len(), 0);
    // Input that comes after the announcement still counts.
    let mut child = world.start(&["run", "hi"]);
    let mut stdin = child.stdin.take().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    err.read_line(&mut line).unwrap();
    stdin.write_all(b"late").unwrap();
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(world.user_messages()[0].contains("<stdin>\nlate\n</stdin>"));
}

#[test]
fn run_resumes_by_id_prefix_or_newest_session() {
    let world = World::with(hello());
    world
        .run(&["run", "-c", "first"])
        .assert_exit_code(0)
        .assert_stderr("this folder has no session yet");
    world.run(&["run", "second"]).assert_exit_code(0);
    let listed = world.run(&["sessions", "--json"]);
    let sessions: Vec<Value> = serde_json::from_str(&listed.out).unwrap();
    let ids: Vec<&str> = sessions
        .iter()
        .map(|session| session["sessionId"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 2);
    world.run(&["run", "-c", "third"]).assert_exit_code(0);
    world
        .run(&["sessions", "show", ids[0]])
        .assert_stdout("› second")
        .assert_stdout("› third");
    // The shortest prefix that is unique to the older session.
    let common = ids[0]
        .bytes()
        .zip(ids[1].bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let older = &ids[1][..=common];
    world
        .run(&["run", "--session", older, "fourth"])
        .assert_exit_code(0);
    world
        .run(&["sessions", "show", older])
        .assert_stdout("› first")
        .assert_stdout("› fourth");
    for args in [
        &["run", "--session", "ses_", "hi"][..],
        &["sessions", "show", "ses_"],
    ] {
        let ambiguous = world.run(args);
        ambiguous
            .assert_stderr("2 sessions begin with `ses_`")
            .assert_stderr(ids[0])
            .assert_stderr(ids[1]);
    }
    world.run(&["run", "--session", "ses_", "hi"]).assert_exit_code(2);
    // `-c` continues the newest session of this folder, not the newest of all.
    fs::create_dir(world.path("work/sub")).unwrap();
    world
        .run(&["run", "elsewhere", "--cwd", "sub"])
        .assert_exit_code(0);
    world.run(&["run", "-c", "fifth"]).assert_exit_code(0);
    // Use the whole id: the third session may share the short prefix.
    world.run(&["sessions", "show", ids[1]]).assert_stdout("› fifth");
}

#[test]
fn every_outcome_has_its_exit_code_and_session_id() {
    let world = World::with(hello());
    let json = |args: &[&str], code: i32| {
        let done = world.run(args);
        done.assert_exit_code(code);
        last_line(&done)
    };
    let done = json(&["run", "--json", "hi"], 0);
    assert!(
        done["result"]["sessionId"].as_str().unwrap().starts_with("ses_"),
        "{done}"
    );
    assert_eq!(done["result"]["denied"], 0);
    let failed = json(&["run", "--json", "fail"], 1);
    assert!(failed["result"]["sessionId"].is_string(), "{failed}");
    let denied = json(&["run", "--json", "write it"], 3);
    assert_eq!(
        (&denied["result"]["state"], &denied["result"]["denied"]),
        (&json!("completed"), &json!(1))
    );
    assert!(denied["result"]["sessionId"].is_string());
    let unknown = json(&["run", "--json", "--session", "ses_none", "hi"], 2);
    assert_eq!(unknown["error"]["sessionId"], "ses_none");
    assert!(
        unknown["error"]["message"]
            .as_str()
            .unwrap()
            .contains("unknown session")
    );
    world
        .run(&["run", "hi"])
        .assert_exit_code(0)
        .assert_stderr("to resume this session: agentls chat --session ses_");
    world
        .run(&["run", "--mode", "plan", "-y", "write it"])
        .assert_exit_code(3);
    let world = World::with(json!([
        {"repeat": true, "events": [{"text": "half an ans"}, {"stop": "max_tokens"}]},
    ]));
    let degraded = world.run(&["run", "--json", "hi"]);
    let degraded = last_line(degraded.assert_exit_code(4));
    assert_eq!(degraded["result"]["state"], "degraded", "{degraded}");
    assert!(degraded["result"]["sessionId"].is_string(), "{degraded}");
    let help = world.run(&["run", "--help"]);
    for line in [
        "130  canceled",
        "2  usage error",
        "1  failed",
        "4  degraded",
        "3  the turn",
        "0  done",
    ] {
        help.assert_stdout(line);
    }
}

#[test]
fn named_mode_wins_over_the_mode_of_a_continued_session() {
    let world = World::with(hello());
    let new = world.path("work/new.txt");
    world.run(&["run", "--mode", "full", "hello"]).assert_exit_code(0);
    world
        .run(&["run", "--continue", "--mode", "plan", "write it"])
        .assert_exit_code(3);
    assert!(!new.exists());
    world.run(&["run", "--continue", "write it"]).assert_exit_code(3);
    assert!(!new.exists(), "the session keeps the mode");
    let mut command = world.command(&["run", "--continue", "write it"]);
    command.env("AGENTLS_MODE", "autoEdit");
    CommandResult::of(&command.output().unwrap()).assert_exit_code(0);
    assert!(new.exists());
}

#[test]
fn second_interrupt_leaves_a_hung_server() {
    let world = World::with(hello());
    let mut child = world.start(&["run", "--json", "slow"]);
    drop(child.stdin.take());
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("agent/textDelta") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0);
    }
    let id = child.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let server = Pid::from_raw(children.trim().parse().unwrap()).unwrap();
    kill_process(server, Signal::STOP).unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    // Two pending signals merge into one, so repeat it until the second takes effect.
    let deadline = Instant::now() + WAIT_LIMIT;
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "it does not end");
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        std::thread::yield_now();
    }
    let mut last = String::new();
    for read in out.lines() {
        last = read.unwrap();
    }
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let error: Value = serde_json::from_str(&last).unwrap();
    assert!(
        error["error"]["sessionId"].as_str().unwrap().starts_with("ses_"),
        "{last}"
    );
    let mut stderr = String::new();
    std::io::Read::read_to_string(&mut err, &mut stderr).unwrap();
    assert!(stderr.contains("interrupted before the turn ended"), "{stderr}");
    is_gone(server);
}

#[test]
fn failed_command_shows_its_exit_code_and_last_lines() {
    let world = World::with(json!([
        {"when": {"prompt": "test", "step": 0}, "events": [
            {"tool": {"name": "bash", "input": {"command": "for i in $(seq 40); do echo line $i; done; exit 7"}}}]},
        {"repeat": true, "events": [{"text": "It failed."}]},
    ]));
    let done = world.run(&["run", "-y", "test it"]);
    done.assert_exit_code(0)
        .assert_stderr("✗ exit 7")
        .assert_stderr("line 40");
    assert!(!done.err.contains("line 1\n"), "{}", done.err);
}

#[test]
fn a_run_shows_no_question_that_nobody_can_answer_and_quiet_shows_no_progress() {
    let world = World::with(hello());
    let denied = world.run(&["run", "write it"]);
    denied.assert_exit_code(3).assert_stderr("denied: Write new.txt");
    assert!(
        !denied.err.contains('╭') && !denied.err.contains("+hello"),
        "{}",
        denied.err
    );
    let quiet = world.run(&["run", "-q", "write it"]);
    quiet.assert_exit_code(3).assert_stdout("That was it.");
    assert_eq!(quiet.err, "");
    world
        .run(&["run", "--quiet", "fail"])
        .assert_exit_code(1)
        .assert_stderr("");
}

#[test]
fn max_steps_limits_the_model_calls() {
    let world = World::with(hello());
    world
        .run(&["run", "--yes", "--max-steps", "1", "write it"])
        .assert_exit_code(1)
        .assert_stderr("reached 1 iterations")
        .assert_stderr("raise --max-steps");
    world
        .run(&["run", "--yes", "--max-steps", "2", "write it"])
        .assert_exit_code(0)
        .assert_stdout("That was it.");
    world
        .run(&["run", "--max-steps", "0", "write it"])
        .assert_exit_code(2);
}

#[test]
fn max_cost_limits_a_prompt_and_effort_is_what_the_session_uses() {
    let world = World::with(hello());
    let config = fs::read_to_string(world.path("home/.config/agentls/config.toml")).unwrap();
    world.configure(&format!("{config}\n[model.m]\ninput = 1000\noutput = 1000\n"));
    world
        .run(&["run", "--max-cost", "0.000001", "hello"])
        .assert_exit_code(1)
        .assert_stderr("raise --max-cost, or max_turn_cost");
    world
        .run(&["run", "--max-cost", "1000", "hello"])
        .assert_exit_code(0);
    world
        .run(&["run", "--max-cost", "cheap", "hello"])
        .assert_exit_code(2);
}

/// Answers chat completions. Returns the port, and the body of each request.
fn serve_completions() -> (u16, std::sync::mpsc::Receiver<Value>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut length, mut line) = (0, String::new());
            while stream.read_line(&mut line).unwrap() > 2 {
                let lower = line.to_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let is_post = length > 0;
            let (kind, answer) = if is_post {
                let chunk =
                    json!({"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]});
                ("text/event-stream", format!("data: {chunk}\n\ndata: [DONE]\n\n"))
            } else {
                ("application/json", "{\"data\":[]}".to_owned())
            };
            let size = answer.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {size}\r\nconnection: close\r\n\r\n"
            );
            stream.get_mut().write_all((head + &answer).as_bytes()).unwrap();
            if is_post {
                let _ = sender.send(serde_json::from_slice(&body).unwrap());
            }
        }
    });
    (port, receiver)
}

#[test]
fn effort_applies_to_new_and_to_resumed_sessions() {
    let world = World::new();
    let (port, requests) = serve_completions();
    world.configure(&format!(
        "[provider.local]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\nmodel = \"m\"\n\
         temperature = 0.25\nextra_body = {{ top_k = 20 }}\n[agent.default]\nprovider = \"local\"\n"
    ));
    let done = world.run(&["run", "--effort", "low", "--json", "hello"]);
    let session = last_line(done.assert_exit_code(0))["result"]["sessionId"].clone();
    let sent = requests.recv().unwrap();
    assert_eq!(sent["reasoning_effort"], "low");
    assert_eq!((&sent["temperature"], &sent["top_k"]), (&json!(0.25), &json!(20)));
    let resume = [
        "run",
        "--session",
        session.as_str().unwrap(),
        "more",
        "--effort",
        "high",
    ];
    world.run(&resume).assert_exit_code(0);
    assert_eq!(requests.recv().unwrap()["reasoning_effort"], "high");
    world.run(&["run", "plain"]).assert_exit_code(0);
    assert_eq!(requests.recv().unwrap()["reasoning_effort"], Value::Null);
}

#[test]
fn an_old_session_that_was_only_looked_at_can_be_resumed() {
    let world = World::with(hello());
    let done = world.run(&["run", "--json", "hello"]);
    let done = last_line(done.assert_exit_code(0));
    let session = done["result"]["sessionId"].as_str().unwrap();
    let path = world.path("home/.local/share/agentls/store.db");
    let store = rusqlite::Connection::open(path).unwrap();
    let sql = "WITH RECURSIVE n (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < 250)
               INSERT INTO sessions (id, folder, cwd, title, mode, created_ms, updated_ms)
               SELECT 'ses_n' || n, '/w', '/w', 'newer', 'ask', 1, updated_ms + n FROM n JOIN sessions WHERE num = 1";
    assert_eq!(store.execute(sql, []).unwrap(), 250);
    drop(store);
    let mut chat = world.terminal(&["chat", "--session", session], &[], 80);
    chat.wait_for_text("› ");
    chat.send_keys("/quit\r");
    chat.wait_for_text(&format!(
        "to resume this session: agentls chat --session {session}"
    ));
    chat.raw_until_end();
}
