//! Real work of sandboxed commands in the mode `autoEdit` (R-BOX): builds, tests, and installations, with no question.
//!
//! What is downloaded comes from a registry on a loopback address, through the proxy. Where a program is not installed,
//! its test is skipped and says so.
#![cfg(target_os = "linux")]
#![expect(clippy::print_stderr, reason = "a skipped test says so")]
#![expect(
    clippy::disallowed_methods,
    reason = "the tests prepare packages with the programs of this machine"
)]

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::harness::FileServer;
use crate::sandbox::ConfinedSession;

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

/// Runs a command that uses a registry, if there is one, and expects that it succeeds and that nobody is asked.
/// Returns false if there is no sandbox here.
fn do_work(
    server: Option<&FileServer>,
    files: &[(&str, &str)],
    command: &str,
    env: Vec<(String, String)>,
) -> bool {
    let settings = server.map_or_else(String::new, |server| {
        format!(
            "network = \"proxy\"\nallow_hosts = [\"127.0.0.2:{}\"]",
            server.port
        )
    });
    let Some(case) = ConfinedSession::start(&settings, env) else {
        return false;
    };
    for (name, text) in files {
        case.world().write(name, text);
    }
    let result = case.run(&format!("({command}) && echo all $((1 + 1)) done"));
    // The command itself is a part of the request too, so its text would prove nothing.
    assert!(result.contains("all 2 done"), "{result}");
    assert!(!result.contains("was refused"), "{result}");
    assert_eq!(case.count_approvals() + case.count_questions(), 0, "{result}");
    true
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
    let has_run = do_work(Some(&server), &[], &command, Vec::new());
    assert!(!has_run || !server.requests().is_empty(), "the registry was used");
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
    let has_run = do_work(Some(&server), &[], &command, vec![("PATH".to_owned(), path)]);
    assert!(!has_run || !server.requests().is_empty(), "the registry was used");
}

#[test]
fn cargo_downloads_builds_and_tests() {
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
    let manifest = "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n\
         agentls-demo = { version = \"1\", registry = \"local\" }\n";
    let files = [
        ("Cargo.toml", manifest),
        (
            "build.rs",
            "fn main() { println!(\"cargo::rustc-env=BUILT=yes\"); }",
        ),
        ("src/lib.rs", "pub fn two() -> u8 { agentls_demo::one() + 1 }"),
        (
            "src/main.rs",
            "fn main() { println!(\"{} {}\", user::two(), env!(\"BUILT\")); }",
        ),
        ("tests/it.rs", CARGO_TEST),
    ];
    let command = format!(
        "export CARGO_REGISTRIES_LOCAL_INDEX=sparse+http://127.0.0.2:{}/; \
         cargo build -q && [ \"$(target/debug/user)\" = '2 yes' ] && cargo test",
        server.port
    );
    let variable = |name: &str, value: String| (name.to_owned(), value);
    let env = vec![
        variable("PATH", std::env::var("PATH").unwrap()),
        variable("RUSTUP_HOME", toolchains),
    ];
    let has_run = do_work(Some(&server), &files, &command, env);
    assert!(!has_run || server.requests().contains(&"/dl/agentls-demo-1.0.0".to_owned()));
}

/// A test with a server, a temporary file, and a process, as real ones have.
const CARGO_TEST: &str = r#"
use std::net::{TcpListener, TcpStream};

#[test]
fn the_crate_works() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    TcpStream::connect(server.local_addr().unwrap()).unwrap();
    let file = std::env::temp_dir().join("test");
    std::fs::write(&file, [user::two()]).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), [2]);
    assert!(std::process::Command::new(env!("CARGO_BIN_EXE_user")).status().unwrap().success());
}
"#;

#[test]
fn npm_tests_a_package() {
    let Some(npm) = print_of("bash", &["-c", "npm --version >/dev/null && command -v npm"]) else {
        return;
    };
    let files = [
        (
            "package.json",
            r#"{"name": "demo", "version": "1.0.0", "scripts": {"test": "node --test"}}"#,
        ),
        ("demo.test.js", NODE_TEST),
    ];
    let path = std::env::var("PATH").unwrap();
    do_work(
        None,
        &files,
        &format!("{npm} test"),
        vec![("PATH".to_owned(), path)],
    );
}

/// A test with a server and a temporary file.
const NODE_TEST: &str = r#"
const test = require("node:test"), assert = require("node:assert"), http = require("node:http");
const fs = require("node:fs"), os = require("node:os"), path = require("node:path");

test("serves", async () => {
  const server = http.createServer((request, response) => response.end("hello")).listen(0, "127.0.0.1");
  await new Promise((done) => server.once("listening", done));
  const response = await fetch(`http://127.0.0.1:${server.address().port}/`);
  assert.equal(await response.text(), "hello");
  server.closeAllConnections();
  server.close();
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "demo-"));
  fs.writeFileSync(path.join(folder, "file"), "x");
});
"#;

#[test]
fn pytest_tests_a_project() {
    // `tests/run.sh` installs it into a folder of its own.
    let folder = std::env::var("AGENTLS_PYTEST").unwrap_or_default();
    let find = format!("import sys; sys.path.append({folder:?}); import pytest; print(sys.executable)");
    let Some(python) = print_of("python3", &["-c", &find]) else {
        return;
    };
    let files = [
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\ntestpaths = [\"tests\"]\npythonpath = [\".\"]\n",
        ),
        ("demo.py", "def two():\n    return 2\n"),
        ("tests/test_demo.py", PYTEST_TEST),
    ];
    do_work(
        None,
        &files,
        &format!("{python} -m pytest -q"),
        // Not in the command: what it names below /tmp is not shown to it.
        vec![("PYTHONPATH".to_owned(), folder)],
    );
}

/// A test with a server and a temporary folder.
const PYTEST_TEST: &str = "
import socket
import demo

def test_two(tmp_path):
    (tmp_path / 'file').write_text(str(demo.two()))
    with socket.create_server(('127.0.0.1', 0)) as server:
        socket.create_connection(server.getsockname()).close()
    assert (tmp_path / 'file').read_text() == '2'
";

#[test]
fn make_builds_and_git_commits() {
    if print_of("make", &["--version"]).is_none() || print_of("git", &["--version"]).is_none() {
        return;
    }
    let files = [
        ("Makefile", "all: built\nbuilt: source\n\tcp source built\n"),
        ("source", "text\n"),
    ];
    // The settings of the repository are the user's, and the agent does not change them.
    let command = "make && cmp source built && git init -q . && git add -A && \
        git -c user.name=demo -c user.email=demo@example.com commit -qm first && git log --oneline | grep first";
    do_work(None, &files, command, Vec::new());
}
