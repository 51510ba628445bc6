//! Sandboxed commands with `network = "proxy"` (R-BOX): which hosts they reach, what is asked, and real programs.
//!
//! The servers are on the loopback addresses of this machine. `127.0.0.2` is one that programs do not exclude from their
//! proxy, and `localhost` is a name that is asked about like any other.
#![cfg(target_os = "linux")]
#![expect(clippy::print_stderr, reason = "a skipped test says so")]
#![expect(
    clippy::disallowed_methods,
    reason = "the tests prepare packages with the programs of this machine"
)]

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, Config, Notification, Options, World};
use crate::mock_llm::Reply;
use crate::sandbox::{Confined, last_result, session_in};

/// An HTTP server with fixed files. It records the paths of its requests.
struct FileServer {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl FileServer {
    fn start(address: &str, files: impl FnOnce(u16) -> HashMap<String, Vec<u8>>) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (files, requests) = (files(port), Arc::new(Mutex::new(Vec::new())));
        let seen = requests.clone();
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that went away is no failure of the server.
                let _ = serve_file(stream, &files, &seen);
            }
        });
        Self { port, requests }
    }

    fn hello(address: &str) -> Self {
        let files = HashMap::from([("/hello".to_owned(), b"hello from outside\n".to_vec())]);
        Self::start(address, |_| files)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve_file(
    mut stream: TcpStream,
    files: &HashMap<String, Vec<u8>>,
    seen: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let found = files.get(&path);
    seen.lock().unwrap().push(path.clone());
    let kind = if path.ends_with('/') {
        "text/html"
    } else {
        "application/octet-stream"
    };
    let body = found.map(Vec::as_slice).unwrap_or_default();
    let status = if found.is_some() {
        "200 OK"
    } else {
        "404 Not Found"
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(body)
}

/// Starts the sandbox with these allowed hosts.
fn proxied(hosts: &[String]) -> Option<Confined> {
    Confined::new(&format!("network = \"proxy\"\nallow_hosts = {hosts:?}"))
}

fn push_bash(world: &World, command: &str) {
    let input = json!({"command": command});
    world.mock().push(Reply::tool("bash", input));
}

/// Runs a command in a turn of its own, and returns its result.
fn run(world: &World, client: &Client, session: &str, command: &str) -> String {
    push_bash(world, command);
    client.ask(session, "run it");
    last_result(world)
}

fn answer(client: &Client, question: &Notification, choice: &str) {
    let answers = json!({"questionId": question.text("questionId"), "answers": {"choice": [choice]}});
    let _: Value = client.call("agent/questionRespond", answers);
}

fn questions(client: &Client, session: &str) -> usize {
    client.all(session, "agent/questionRequested").len()
}

/// Requests a page through the proxy, whatever the variables exclude.
fn curl(url: &str) -> String {
    format!("curl -sS --noproxy '' {url}")
}

#[test]
fn an_allowed_host_is_reached_through_the_proxy_and_nothing_else_is() {
    let server = FileServer::hello("127.0.0.2");
    let port = server.port;
    let udp = UdpSocket::bind("127.0.0.2:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let udp_port = udp.local_addr().unwrap().port();
    let Some(confined) = proxied(&[format!("127.0.0.2:{port}")]) else {
        return;
    };
    let world = &confined.world;
    let client = world.start_asking();
    let session = session_in(&client, "autoEdit");
    let url = format!("http://127.0.0.2:{port}/hello");
    let result = run(
        world,
        &client,
        &session,
        &format!("curl -sS {url}; curl -sSp {url}; echo status $?"),
    );
    assert_eq!(result.matches("hello from outside").count(), 2, "{result}");
    assert!(result.contains("status 0"), "{result}");
    assert_eq!(server.requests(), ["/hello", "/hello"]);
    let direct = format!(
        "curl -sS --noproxy '*' {url} && echo OPEN\n\
         (: <> /dev/tcp/127.0.0.2/{port}) && echo OPEN\n\
         echo x > /dev/udp/127.0.0.2/{udp_port}\n\
         curl -sS --noproxy '*' http://example.com/ && echo OPEN\n\
         getent hosts example.com && echo OPEN\n\
         curl -sS http://10.1.2.3/ http://169.254.169.254/ && echo status $?"
    );
    let result = run(world, &client, &session, &direct);
    assert!(!result.contains("\\nOPEN"), "{result}");
    assert!(result.contains("Could not resolve host"), "{result}");
    for refused in [
        "10.1.2.3:80 was refused: its address is in a private network",
        "169.254.169.254:80 was refused: its address is a link-local address",
    ] {
        // In the answer of the proxy, and in the note.
        assert_eq!(result.matches(refused).count(), 2, "{result}");
    }
    assert_eq!(server.requests().len(), 2, "nothing went around the proxy");
    let received = udp.recv(&mut [0; 8]).unwrap_err();
    assert_eq!(received.kind(), ErrorKind::WouldBlock);
    assert_eq!(questions(&client, &session), 0);
    assert!(client.all(&session, "agent/approvalRequested").is_empty());
}

#[test]
fn another_host_is_asked_about_once_and_remembered_for_the_session() {
    let server = FileServer::hello("127.0.0.1");
    let port = server.port;
    // The entry opens the address, but does not name `localhost`.
    let Some(confined) = proxied(&[format!("127.0.0.1:{port}")]) else {
        return;
    };
    let world = &confined.world;
    let client = world.start_asking();
    let session = session_in(&client, "autoEdit");
    let page = curl(&format!("http://localhost:{port}/hello"));
    push_bash(world, &format!("{page} & {page} & wait; {page}"));
    let id = client.prompt(&session, "fetch it");
    let question = client.next(&session, "agent/questionRequested");
    assert_eq!(
        question.text("text"),
        format!("The command wants to connect to localhost:{port}. Allow it?")
    );
    assert!(question.text("detail").contains("curl"), "{}", question.params);
    answer(&client, &question, "allow");
    client.prompt_result(&id);
    let result = last_result(world);
    assert_eq!(result.matches("hello from outside").count(), 3, "{result}");
    let result = run(world, &client, &session, &page);
    assert!(!result.contains("was refused"), "{result}");
    assert_eq!(server.requests().len(), 4);
    assert_eq!(questions(&client, &session), 1);
    // Another session asks for itself.
    let other = session_in(&client, "autoEdit");
    push_bash(world, &page);
    let id = client.prompt(&other, "fetch it");
    let question = client.next(&other, "agent/questionRequested");
    answer(&client, &question, "deny");
    client.prompt_result(&id);
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn a_denied_host_is_reported_to_the_command_and_to_the_model() {
    let Some(confined) = proxied(&[]) else { return };
    let world = &confined.world;
    let client = world.start_asking();
    let session = session_in(&client, "autoEdit");
    let command = "curl -sS -w 'code %{http_code}' http://denied.invalid/; curl -sS https://denied.invalid/";
    push_bash(world, command);
    let id = client.prompt(&session, "fetch it");
    let question = client.next(&session, "agent/questionRequested");
    answer(&client, &question, "deny");
    client.prompt_result(&id);
    let result = last_result(world);
    for expected in [
        "agentls sandbox: denied.invalid:80 was refused",
        "code 403",
        "[the sandbox refused connections:",
        "denied.invalid:443 was refused: the user denied it for this session",
        "allow_hosts",
    ] {
        assert!(result.contains(expected), "{expected}: {result}");
    }
    run(world, &client, &session, "curl -sS http://denied.invalid/");
    assert_eq!(questions(&client, &session), 1);
}

#[test]
fn without_a_user_or_an_answer_other_hosts_are_denied() {
    let Some(confined) = proxied(&["*.example.invalid".to_owned()]) else {
        return;
    };
    let world = &confined.world;
    let client = world.start();
    let session = session_in(&client, "autoEdit");
    let result = run(world, &client, &session, "curl -sS http://nobody.invalid/");
    assert!(result.contains("nobody answered the question"), "{result}");
    client.close_input();
    client.wait_for_exit();

    let client = world.start_asking();
    let session = session_in(&client, "autoEdit");
    for _ in 0..2 {
        push_bash(
            world,
            "curl -sS http://dismissed.invalid/ http://dismissed.invalid/",
        );
        let id = client.prompt(&session, "fetch it");
        // What nobody decided is asked again, but not within one command.
        let question = client.next(&session, "agent/questionRequested");
        let dismissed = json!({"questionId": question.text("questionId"), "dismissed": true});
        let _: Value = client.call("agent/questionRespond", dismissed);
        client.prompt_result(&id);
        assert!(last_result(world).contains("dismissed.invalid:80 was refused"));
    }
}

#[test]
fn a_command_cannot_flood_the_user_with_hosts() {
    let Some(confined) = proxied(&[]) else { return };
    let world = &confined.world;
    let client = world.start_asking();
    let session = session_in(&client, "autoEdit");
    push_bash(
        world,
        "for i in $(seq 14); do curl -s -o /dev/null -w '%{http_code}\\n' http://h$i.invalid/ & done; wait",
    );
    let id = client.prompt(&session, "fetch them");
    for number in 1..=10 {
        let question = client.next(&session, "agent/questionRequested");
        assert_eq!(questions(&client, &session), number, "one at a time");
        answer(&client, &question, "deny");
    }
    client.prompt_result(&id);
    assert_eq!(questions(&client, &session), 10);
    let result = last_result(world);
    assert_eq!(result.matches("403").count(), 14, "{result}");
    assert_eq!(result.matches("asked about 10 hosts").count(), 4, "{result}");
}

#[test]
fn a_cancel_ends_a_command_whose_question_is_open() {
    let Some(confined) = proxied(&[]) else { return };
    let client = confined.world.start_asking();
    let session = session_in(&client, "autoEdit");
    push_bash(&confined.world, "curl -sS http://waiting.invalid/; sleep 1000");
    let id = client.prompt(&session, "fetch it");
    client.next(&session, "agent/questionRequested");
    let start = crate::harness::now();
    client.cancel(&session);
    assert_eq!(json!(client.prompt_result(&id).reason), "aborted_tools");
    // R-CANCEL allows 2.5 s; the rest is slack for a busy machine.
    assert!(
        start.elapsed() < Duration::from_millis(2_500 + 1_000),
        "{:?}",
        start.elapsed()
    );
    client.next(&session, "agent/questionResolved");
    assert_eq!(client.processes(), 1, "only the server is left");
}

#[test]
fn a_question_is_withdrawn_when_its_command_ends() {
    let Some(confined) = proxied(&[]) else { return };
    let world = &confined.world;
    let client = world.start_asking();
    let session = session_in(&client, "autoEdit");
    push_bash(world, "curl -sS -m 1 http://waiting.invalid/");
    let id = client.prompt(&session, "fetch it");
    client.next(&session, "agent/questionRequested");
    let resolved = client.next(&session, "agent/questionResolved");
    assert!(resolved.params["answers"].is_null(), "{}", resolved.params);
    assert_eq!(json!(client.prompt_result(&id).state), "completed");
}

#[test]
fn the_time_limit_does_not_count_the_wait_for_an_answer() {
    let server = FileServer::hello("127.0.0.1");
    let port = server.port;
    let Some(confined) = proxied(&[format!("127.0.0.1:{port}")]) else {
        return;
    };
    let world = &confined.world;
    let client = world.start_asking();
    let session = session_in(&client, "autoEdit");
    let command = curl(&format!("http://localhost:{port}/hello"));
    let input = json!({"command": command, "timeout_s": 2});
    world.mock().push(Reply::tool("bash", input));
    let id = client.prompt(&session, "fetch it");
    let question = client.next(&session, "agent/questionRequested");
    // Longer than the limit, on purpose.
    std::thread::sleep(Duration::from_millis(2_500));
    answer(&client, &question, "allow");
    client.prompt_result(&id);
    let result = last_result(world);
    assert!(result.contains("hello from outside"), "{result}");
    assert!(!result.contains("timed out"), "{result}");
}

#[test]
fn a_background_command_that_outlives_its_turn_asks_nobody() {
    let Some(confined) = proxied(&[]) else { return };
    let world = &confined.world;
    let client = world.start_asking();
    let session = session_in(&client, "autoEdit");
    let command =
        "while [ ! -e go ]; do sleep 0.05; done; curl -sS http://late.invalid/; echo > gone; sleep 1000";
    let input = json!({"command": command, "background": true});
    world.mock().push(Reply::tool("bash", input));
    client.ask(&session, "start it");
    world.write("go", "");
    world.wait_until(|| world.read("gone").is_some());
    let read = Reply::tool("bash_output", json!({"id": "bg1"}));
    world.mock().push(read);
    client.ask(&session, "read it");
    let result = last_result(world);
    assert!(
        result.contains("[the sandbox refused connections:\\nlate.invalid:80"),
        "{result}"
    );
    assert_eq!(questions(&client, &session), 0);
}

#[test]
fn the_command_line_denies_other_hosts_with_a_message() {
    let server = FileServer::hello("127.0.0.2");
    let Some(confined) = proxied(&[format!("127.0.0.2:{}", server.port)]) else {
        return;
    };
    let world = &confined.world;
    let script = format!(
        "curl -sS http://127.0.0.2:{}/hello; curl -sS http://other.invalid/",
        server.port
    );
    let output = Command::new(env!("CARGO_BIN_EXE_agentls"))
        .args(["sandbox", "run", "--", "bash", "-c", &script])
        .current_dir(world.workspace())
        .env_clear()
        .envs(world.env())
        .output()
        .unwrap();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(stdout.starts_with("hello from outside\n"), "{stdout}{stderr}");
    assert!(
        stderr.contains("agentls: other.invalid:80 was refused"),
        "{stdout}{stderr}"
    );
}

#[test]
fn without_a_network_of_their_own_commands_have_none() {
    let server = FileServer::hello("127.0.0.2");
    let url = format!("http://127.0.0.2:{}/hello", server.port);
    let Some(confined) = proxied(&[format!("127.0.0.2:{}", server.port)]) else {
        return;
    };
    let world = &confined.world;
    let client = world.start_with(Options {
        env: vec![("AGENTLS_SANDBOX_METHOD".to_owned(), "landlock".to_owned())],
        ..Options::default()
    });
    let session = session_in(&client, "autoEdit");
    push_bash(world, &format!("curl -sS {url}; echo end $HTTP_PROXY."));
    let id = client.prompt(&session, "fetch it");
    // Such a sandbox does not replace an approval.
    client.decide(&client.next_approval(&session), "allow");
    client.prompt_result(&id);
    let result = last_result(world);
    assert!(result.contains("end ."), "{result}");
    assert!(server.requests().is_empty(), "{result}");
}

#[test]
fn entries_that_are_not_understood_are_errors_and_allow_nothing() {
    let world = World::with(Config {
        tables: "[sandbox]\nnetwork = \"proxy\"\nallow_hosts = [\"*\", \"http://a.example\", \"b.example\"]"
            .to_owned(),
        ..Config::default()
    });
    let output = Command::new(env!("CARGO_BIN_EXE_agentls"))
        .args(["config", "check"])
        .current_dir(world.workspace())
        .env_clear()
        .envs(world.env())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        stdout.matches("error: sandbox.allow_hosts").count(),
        2,
        "{stdout}"
    );
    assert_eq!(output.status.code(), Some(1), "{stdout}");
}

/// Returns what a program prints, without the blanks around it; `None` if it is not there, which is printed.
fn print_of(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok();
    let printed = output
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    if printed.is_none() {
        eprintln!("skipped: {program} {} does not work here", args.join(" "));
    }
    printed
}

/// Runs a shell script in a folder outside of the sandbox.
fn prepare(folder: &Path, script: &str) {
    let status = Command::new("bash")
        .args(["-ec", script])
        .current_dir(folder)
        .status()
        .unwrap();
    assert!(status.success(), "{script}");
}

/// Runs a package manager against a registry, and expects its end to be printed.
fn run_package_manager(server: &FileServer, command: &str, env: Vec<(String, String)>) -> Option<Confined> {
    let confined = proxied(&[format!("127.0.0.2:{}", server.port)])?;
    let world = &confined.world;
    let client = world.start_with(Options {
        questions: true,
        env,
        ..Options::default()
    });
    let session = session_in(&client, "autoEdit");
    let result = run(world, &client, &session, &format!("{command} && echo all done"));
    assert!(result.contains("all done"), "{result}");
    assert!(!result.contains("was refused"), "{result}");
    assert!(!server.requests().is_empty(), "the registry was used");
    Some(confined)
}

#[test]
fn pip_installs_through_the_proxy() {
    let Some(python) = print_of("python3", &["-c", "import sys, pip; print(sys.executable)"]) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let wheel = "agentls_demo-1.0-py3-none-any.whl";
    prepare(
        folder.path(),
        &format!(
            "{python} - <<'P'\nimport zipfile\nw = zipfile.ZipFile('{wheel}', 'w')\n\
             w.writestr('agentls_demo.py', 'print(\"imported\")')\n\
             i = 'agentls_demo-1.0.dist-info/'\n\
             w.writestr(i + 'METADATA', 'Metadata-Version: 2.1\\nName: agentls-demo\\nVersion: 1.0\\n')\n\
             w.writestr(i + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
             w.writestr(i + 'RECORD', '')\nP"
        ),
    );
    let index = format!("<a href=\"/files/{wheel}\">{wheel}</a>");
    let bytes = std::fs::read(folder.path().join(wheel)).unwrap();
    let server = FileServer::start("127.0.0.2", |_| {
        HashMap::from([
            ("/simple/agentls-demo/".to_owned(), index.into_bytes()),
            (format!("/files/{wheel}"), bytes),
        ])
    });
    let command = format!(
        "{python} -m pip install -q --disable-pip-version-check --target lib --trusted-host 127.0.0.2 \
         --index-url http://127.0.0.2:{}/simple/ agentls-demo && PYTHONPATH=lib {python} -c 'import agentls_demo'",
        server.port
    );
    run_package_manager(&server, &command, Vec::new());
}

#[test]
fn npm_installs_through_the_proxy() {
    let Some(npm) = print_of("bash", &["-c", "npm --version >/dev/null && command -v npm"]) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    prepare(
        folder.path(),
        "mkdir package; echo 'console.log(\"loaded\")' > package/index.js\n\
         echo '{\"name\": \"agentls-demo\", \"version\": \"1.0.0\"}' > package/package.json\n\
         tar czf package.tgz package",
    );
    let bytes = std::fs::read(folder.path().join("package.tgz")).unwrap();
    let server = FileServer::start("127.0.0.2", |port| {
        let about = json!({
            "name": "agentls-demo",
            "dist-tags": {"latest": "1.0.0"},
            "versions": {"1.0.0": {
                "name": "agentls-demo",
                "version": "1.0.0",
                "dist": {"tarball": format!("http://127.0.0.2:{port}/agentls-demo-1.0.0.tgz")},
            }},
        });
        HashMap::from([
            ("/agentls-demo".to_owned(), about.to_string().into_bytes()),
            ("/agentls-demo-1.0.0.tgz".to_owned(), bytes),
        ])
    });
    let command = format!(
        "{npm} install --no-audit --no-fund --registry http://127.0.0.2:{}/ agentls-demo && \
         node -e 'require(\"agentls-demo\")'",
        server.port
    );
    let path = std::env::var("PATH").unwrap();
    run_package_manager(&server, &command, vec![("PATH".to_owned(), path)]);
}

#[test]
fn cargo_downloads_through_the_proxy() {
    let Some(toolchains) = print_of("bash", &["-c", "cargo --version >/dev/null && rustup show home"]) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    prepare(
        folder.path(),
        "mkdir -p agentls-demo-1.0.0/src; echo 'pub fn one() -> u8 { 1 }' > agentls-demo-1.0.0/src/lib.rs\n\
         printf '[package]\\nname = \"agentls-demo\"\\nversion = \"1.0.0\"\\nedition = \"2021\"\\n' \
         > agentls-demo-1.0.0/Cargo.toml\n\
         tar czf demo.crate agentls-demo-1.0.0; sha256sum demo.crate | cut -d' ' -f1 > sum",
    );
    let bytes = std::fs::read(folder.path().join("demo.crate")).unwrap();
    let sum = std::fs::read_to_string(folder.path().join("sum")).unwrap();
    let server = FileServer::start("127.0.0.2", |port| {
        let config = json!({"dl": format!("http://127.0.0.2:{port}/dl/{{crate}}-{{version}}")});
        let entry = json!({
            "name": "agentls-demo", "vers": "1.0.0", "deps": [], "cksum": sum.trim(), "features": {}, "yanked": false,
        });
        HashMap::from([
            ("/config.json".to_owned(), config.to_string().into_bytes()),
            ("/ag/en/agentls-demo".to_owned(), entry.to_string().into_bytes()),
            ("/dl/agentls-demo-1.0.0".to_owned(), bytes),
        ])
    });
    let command = format!(
        "mkdir -p src; echo > src/lib.rs; printf '[package]\\nname = \"user\"\\nversion = \"0.1.0\"\\n\
         edition = \"2021\"\\n[dependencies]\\nagentls-demo = {{ version = \"1\", registry = \"local\" }}\\n' \
         > Cargo.toml; CARGO_REGISTRIES_LOCAL_INDEX=sparse+http://127.0.0.2:{}/ cargo fetch",
        server.port
    );
    let variable = |name: &str, value: String| (name.to_owned(), value);
    run_package_manager(
        &server,
        &command,
        vec![
            variable("PATH", std::env::var("PATH").unwrap()),
            variable("RUSTUP_HOME", toolchains),
        ],
    );
    assert!(server.requests().contains(&"/dl/agentls-demo-1.0.0".to_owned()));
}
