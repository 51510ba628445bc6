//! The scripted MCP server of `tests/peers`, and a browser that signs in without a user.

#![expect(
    dead_code,
    unreachable_pub,
    reason = "each test crate uses its own part of it"
)]
#![expect(clippy::expect_used, reason = "a peer that fails fails its test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use url::Url;

/// Returns the path of the scripted server, a Python program.
pub fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/mcp_server.py")
}

/// Returns a `[mcp.NAME]` table that starts the scripted server over stdio.
pub fn stdio_table(name: &str, arguments: &[&str], more: &str) -> String {
    let script = script();
    let mut words = vec![script.to_str().expect("a path")];
    words.extend(arguments);
    format!("[mcp.{name}]\ncommand = \"python3\"\nargs = {words:?}\n{more}\n")
}

/// The scripted server over HTTP. Dropping it ends it.
pub struct HttpPeer {
    pub url: Url,
    log: tempfile::NamedTempFile,
    child: Child,
}

impl HttpPeer {
    /// Starts the server with further arguments.
    #[expect(clippy::disallowed_methods, reason = "the test plays a foreign server")]
    pub fn start(arguments: &[&str]) -> Self {
        let log = tempfile::NamedTempFile::new().expect("a log");
        let mut child = Command::new("python3")
            .arg(script())
            .arg("--http")
            .arg("--log")
            .arg(log.path())
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Python 3 runs");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let url = Url::parse(line.trim()).expect("the URL of the peer");
        Self { url, log, child }
    }

    /// Returns the events that the server has logged.
    pub fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log.path()).expect("the log");
        let lines = text.lines();
        lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Returns the steps of authorization that the server has logged, by name.
    pub fn oauth_steps(&self, step: &str) -> Vec<Value> {
        let events = self.events().into_iter().map(|event| event["oauth"].clone());
        events.filter(|event| event["step"] == step).collect()
    }
}

impl Drop for HttpPeer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens an address on this machine, and returns the answer's status line, `Location`, and body.
pub fn visit(url: &str) -> (String, Option<String>, String) {
    let url = Url::parse(url).expect("a URL");
    let port = url.port_or_known_default().expect("a port");
    let mut stream = TcpStream::connect((url.host_str().expect("a host"), port)).expect("a connection");
    let target = &url[url::Position::BeforePath..];
    write!(
        stream,
        "GET {target} HTTP/1.1\r\nHost: {port}\r\nConnection: close\r\n\r\n"
    )
    .expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let location = head.lines().find_map(|line| line.strip_prefix("Location: "));
    let status = head.lines().next().unwrap_or_default().to_owned();
    (status, location.map(str::to_owned), body.to_owned())
}

/// Logs in at the scripted authorization server, as a browser would. Returns the last page.
pub fn log_in_by_browser(url: &str) -> String {
    let (status, location, body) = visit(url);
    match location {
        Some(location) => visit(&location).2,
        None => format!("{status}: {body}"),
    }
}
