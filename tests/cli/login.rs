//! `agentls login` and `agentls logout`: where a key comes from, what tries it, and what is stored.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::termios::LocalModes;
use serde_json::Value;

use crate::{CommandResult, World};

/// The key that the provider of these tests accepts.
const GOOD: &str = "sk-canary-good-0123456789";
const BAD: &str = "sk-canary-bad-0123456789";

/// Starts a provider with a list of two models, which accepts one key only. Returns its address.
fn start_provider() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines();
            let head: Vec<String> = lines
                .by_ref()
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let (status, body) = if head.iter().any(|line| line.contains(GOOD)) {
                ("200 OK", r#"{"data":[{"id":"one"},{"id":"two"}]}"#)
            } else {
                (
                    "401 Unauthorized",
                    r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
                )
            };
            let length = body.len();
            let _ = write!(
                &stream,
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
        }
    });
    address
}

/// A world whose provider `anthropic` is at this address.
fn world_at(address: &str) -> World {
    let world = World::new();
    world.configure(&format!("[provider.anthropic]\nbase_url = \"{address}\"\n"));
    world
}

impl World {
    fn pipe_key(&self, args: &[&str], input: &str, env: &[(&str, &str)]) -> CommandResult {
        let mut command = self.command(&[&["login"], args].concat());
        command.envs(env.iter().copied());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A refused command line is not read.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let done = CommandResult::of(&child.wait_with_output().unwrap());
        assert!(
            !done.out.contains("canary") && !done.err.contains("canary"),
            "{}",
            done.err
        );
        done
    }

    fn key_file(&self) -> std::path::PathBuf {
        self.path("home/.local/share/agentls/keys.json")
    }
}

#[test]
fn only_a_key_that_the_provider_accepts_is_stored_and_used() {
    let world = world_at(&start_provider());
    world
        .pipe_key(&["anthropic"], BAD, &[])
        .assert_exit_code(1)
        .assert_stderr("anthropic refuses the key")
        .assert_stderr("nothing was stored");
    assert!(!world.key_file().exists());
    world
        .pipe_key(&["anthropic", "--with-key", "-"], &format!("{GOOD}\n"), &[])
        .assert_exit_code(0)
        .assert_stdout("✓ anthropic accepts the key and lists 2 models")
        .assert_stdout("only you can read it")
        .assert_stdout("Prompts go to anthropic with");
    let mode = world.key_file().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    world
        .run(&["login", "--list"])
        .assert_stdout("anthropic `agentls login`");
    let listed = world.run(&["login", "--list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(listed[0]["provider"], "anthropic");
    assert_eq!(listed[0]["unusedLogin"], false);
    let doctor = world.run(&["doctor"]);
    doctor
        .assert_stdout("from `agentls login`: anthropic")
        .assert_stdout("anthropic answered in");
    assert!(!doctor.out.contains("canary"), "{}", doctor.out);
    world
        .run(&["logout"])
        .assert_exit_code(0)
        .assert_stdout("removed the key of anthropic");
    world.run(&["logout", "anthropic"]).assert_exit_code(1);
    world
        .run(&["login", "--list"])
        .assert_stdout("no provider has a key");
}

#[test]
fn what_wins_over_a_stored_key_is_named() {
    let world = world_at(&start_provider());
    let env = [("ANTHROPIC_API_KEY", "sk-ant-other-0123456789")];
    world
        .pipe_key(&["anthropic"], GOOD, &env)
        .assert_exit_code(0)
        .assert_stdout("ANTHROPIC_API_KEY is set, and wins over the stored key");
    let mut list = world.command(&["login", "--list"]);
    let listed = CommandResult::of(&list.envs(env).output().unwrap());
    listed.assert_stdout("ANTHROPIC_API_KEY; it wins over the key of the login");
    let mut logout = world.command(&["logout"]);
    CommandResult::of(&logout.envs(env).output().unwrap())
        .assert_stdout("anthropic still has a key, from ANTHROPIC_API_KEY");
}

#[test]
fn a_key_that_cannot_be_tried_is_stored_only_on_request() {
    // Nothing listens there.
    let world = world_at("http://127.0.0.1:9");
    world
        .pipe_key(&["anthropic"], GOOD, &[])
        .assert_exit_code(1)
        .assert_stdout("the key was not checked")
        .assert_stderr("`--no-check` stores a key without trying it");
    assert!(!world.key_file().exists());
    world
        .pipe_key(&["anthropic", "--no-check"], GOOD, &[])
        .assert_exit_code(0);
    assert!(world.key_file().exists());
    for (args, input, problem) in [
        (&["groqq"][..], GOOD, "did you mean groq?"),
        (&["ollama"], GOOD, "ollama needs no key"),
        (&["groq"], " \n", "no key was given"),
        (&["groq"], "two words", "another character that no key has"),
        (&[], GOOD, "name the provider"),
    ] {
        let done = world.pipe_key(args, input, &[]);
        done.assert_exit_code(1).assert_stderr(problem);
    }
}

#[test]
fn a_key_file_that_cannot_be_used_is_reported_and_kept() {
    let world = world_at(&start_provider());
    let file = world.key_file();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    for (text, mode, problem) in [
        ("[{", 0o600, "it is damaged; move it away and log in again"),
        ("[]", 0o644, "others can read it; remove it and log in again"),
    ] {
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        for args in [
            &["logout"][..],
            &["logout", "groq"],
            &["login", "--list"],
            &["login", "--list", "--json"],
        ] {
            let done = world.run(args);
            done.assert_exit_code(1).assert_stderr(problem);
            assert!(
                !done.out.contains("no provider has a key"),
                "{args:?}: {}",
                done.out
            );
        }
        let stored = world.pipe_key(&["anthropic"], GOOD, &[]);
        stored.assert_exit_code(1).assert_stderr(problem);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}

#[test]
fn more_than_a_key_is_refused_and_not_cut() {
    let world = world_at(&start_provider());
    let long = "k".repeat(64 * 1024 + 1);
    world
        .pipe_key(&["anthropic", "--no-check"], &long, &[])
        .assert_exit_code(1)
        .assert_stderr("standard input has more than 64 KiB, too long for a key; nothing was stored");
    assert!(!world.key_file().exists());
    world
        .pipe_key(&["anthropic", "--no-check"], &long[1..], &[])
        .assert_exit_code(0);
}

#[test]
fn a_terminal_asks_for_provider_and_key_and_shows_no_key() {
    let world = world_at(&start_provider());
    let mut login = world.terminal(&["acp", "login"], &[], 80);
    login.wait_for_text("Provider (");
    login.send_keys("zzz\r");
    login.wait_for_text("no provider matches");
    login.send_keys("anth\r");
    login.wait_for_text("Key for anthropic (not shown");
    login.send_keys(&format!("{GOOD}\r"));
    let shown = login.wait_for_text("Prompts go to anthropic");
    assert!(!shown.contains("canary"), "{shown}");
    assert_eq!(login.wait_for_exit(), 0);
    let stored = fs::read_to_string(world.key_file()).unwrap();
    assert!(stored.contains(GOOD));
    // A cancel stores nothing, and leaves the terminal as it was.
    let mut login = world.terminal(&["login", "groq"], &[], 80);
    login.wait_for_text("Key for groq");
    assert!(!login.modes().contains(LocalModes::ECHO));
    login.send_keys("sk-half\u{3}");
    login.wait_for_text("canceled; nothing was stored");
    assert!(login.modes().contains(LocalModes::ECHO));
    assert_eq!(login.wait_for_exit(), 130);
    assert_eq!(fs::read_to_string(world.key_file()).unwrap(), stored);
}

#[test]
fn a_person_decides_about_a_key_that_could_not_be_tried() {
    let world = world_at("http://127.0.0.1:9");
    for (answer, is_stored) in [("n\r", false), ("y\r", true)] {
        let mut login = world.terminal(&["login", "anthropic"], &[], 80);
        login.wait_for_text("Key for anthropic");
        login.send_keys(&format!("{GOOD}\r"));
        login.wait_for_text("the key was not checked");
        login.wait_for_text("Keep the key anyway?");
        login.send_keys(answer);
        assert_eq!(login.wait_for_exit(), i32::from(!is_stored));
        assert_eq!(world.key_file().exists(), is_stored);
    }
}
