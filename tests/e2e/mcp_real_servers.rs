//! The servers of the MCP project itself, over stdio and streamable HTTP (R-MCP).
//!
//! `tests/run.sh` installs them from npm. Without `AGENTLS_MCP_PEERS`, the tests say that they were skipped.
#![expect(clippy::print_stderr, reason = "a skipped test says why")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Client, Config, World};
use crate::mock_llm::Reply;

const ALLOW: &str = "[approvals]\nallow = [\"mcp:*\"]";

/// Returns the folder of the servers; `None` if they are not installed.
#[expect(clippy::disallowed_methods, reason = "tests/run.sh names the folder")]
pub(crate) fn find_packages() -> Option<PathBuf> {
    let folder = std::env::var_os("AGENTLS_MCP_PEERS");
    if folder.is_none() {
        eprintln!(
            "SKIPPED: AGENTLS_MCP_PEERS is not set; tests/run.sh installs the MCP servers from npm and sets it"
        );
    }
    folder.map(PathBuf::from)
}

/// Returns the program of a server; `None` if the servers are not installed.
fn server_script(name: &str) -> Option<PathBuf> {
    let script = find_packages()?.join(format!("node_modules/@modelcontextprotocol/{name}/dist/index.js"));
    assert!(
        script.is_file(),
        "{} is missing; run tests/run.sh",
        script.display()
    );
    Some(script)
}

/// Returns a world with one server named `real`.
fn world_with(server: &str) -> World {
    World::with(Config {
        tables: format!("[mcp.real]\nstartup_timeout_s = 60\nsampling = true\n{server}\n{ALLOW}"),
        ..Config::default()
    })
}

fn program(script: &Path, arguments: &[&str]) -> String {
    let mut words = vec![script.to_str().unwrap()];
    words.extend(arguments);
    format!("command = \"node\"\nargs = {words:?}")
}

/// A server at an address. Dropping it ends it.
struct HttpServer {
    child: Child,
    url: String,
}

impl HttpServer {
    #[expect(clippy::disallowed_methods, reason = "the test plays a foreign server")]
    fn start(script: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut child = Command::new("node")
            .arg(script)
            .arg("streamableHttp")
            .env("PORT", port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        lines
            .find(|line| line.as_ref().unwrap().contains("listening"))
            .unwrap()
            .unwrap();
        // What it writes later must not block it.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            url: format!("http://127.0.0.1:{port}/mcp"),
        }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The content of the model's last user or tool message.
fn last_content(world: &World) -> String {
    let request = world.wait_for_request(world.requests() - 1);
    request.messages().last().unwrap()["content"].to_string()
}

/// A session with the server `server-everything`.
struct Everything<'a> {
    world: &'a World,
    client: &'a Client,
    session: String,
}

impl Everything<'_> {
    fn push_call(&self, tool: &str, input: Value) {
        self.world
            .mock()
            .push(Reply::tool(&format!("mcp__real__{tool}"), input));
    }

    fn call(&self, tool: &str, input: Value) -> String {
        self.push_call(tool, input);
        self.client.ask(&self.session, "go");
        last_content(self.world)
    }

    fn prompt(&self, text: &str) -> String {
        self.world.mock().push(Reply::text("done"));
        self.client.ask(&self.session, text);
        last_content(self.world)
    }

    fn tools_work(&self) {
        let echoed = self.call("echo", json!({"message": "hello"}));
        assert!(echoed.contains("Echo: hello"), "{echoed}");
        let weather = self.call("get-structured-content", json!({"location": "Chicago"}));
        assert!(weather.contains("drizzle"), "{weather}");
        let image = self.call("get-tiny-image", json!({}));
        assert!(image.contains("image/png"), "{image}");
        let roots = self.call("get-roots-list", json!({}));
        let workspace = self.world.workspace().canonicalize().unwrap();
        assert!(roots.contains(workspace.to_str().unwrap()), "{roots}");
        let wrong = self.call("echo", json!({"words": 1}));
        assert!(wrong.contains("`message`: is missing"), "{wrong}");
    }

    fn progress_and_cancel_work(&self) {
        let tool = "trigger-long-running-operation";
        let done = self.call(tool, json!({"duration": 0.4, "steps": 4}));
        assert!(done.contains("operation completed"), "{done}");
        let deltas = self.client.all(&self.session, "agent/toolOutputDelta");
        let live: String = deltas.iter().map(|delta| delta.text("text").to_owned()).collect();
        assert!(live.contains("[1 of 4]") && live.contains("[3 of 4]"), "{live}");
        self.push_call(tool, json!({"duration": 600, "steps": 6000}));
        let id = self.client.prompt(&self.session, "go");
        self.client
            .next_matching(&self.session, "agent/toolOutputDelta", |delta| {
                delta.text("text").contains("of 6000")
            });
        self.client.cancel(&self.session);
        assert_eq!(json!(self.client.prompt_result(&id).state), "cancelled");
        let echoed = self.call("echo", json!({"message": "still here"}));
        assert!(echoed.contains("Echo: still here"), "{echoed}");
    }

    fn prompts_and_resources_work(&self) {
        let asked = self.prompt("/mcp__real__args-prompt \"New York\"");
        assert!(asked.contains("What's weather in New York?"), "{asked}");
        let embedded = self.prompt("/mcp__real__resource-prompt Text 1");
        assert!(embedded.contains("demo://resource/dynamic/text/1"), "{embedded}");
        let read = self.prompt("read @real:demo://resource/static/document/features.md");
        assert!(
            read.contains("<resource path=\\\"real:demo://resource/static/document/features.md\\\">"),
            "{read}"
        );
    }

    fn elicitation_works(&self) {
        self.push_call("trigger-elicitation-request", json!({}));
        let id = self.client.prompt(&self.session, "go");
        let question = self.client.next(&self.session, "agent/questionRequested");
        let fields = question.params["fields"].as_array().unwrap();
        assert_eq!(
            (fields.len(), &fields[0]["name"]),
            (13, &json!("name")),
            "{}",
            question.params
        );
        let answers = json!({
            "name": ["Ada"], "check": ["true"], "email": ["ada@example.org"], "birthdate": ["1815-12-10"],
            "integer": ["7"], "titledMultipleSelectEnum": ["fish-2", "fish-3"],
        });
        let respond = json!({"questionId": question.text("questionId"), "answers": answers});
        let _: Value = self.client.call("agent/questionRespond", respond);
        self.client.prompt_result(&id);
        let result = last_content(self.world);
        for part in [
            "- Name: Ada",
            "- Agreed to terms: true",
            "- Favorite Integer: 7",
            // Defaults stand for what was left out.
            "It was a dark and stormy night.",
            "- Favorite Number: 3.14",
            "Guitar",
            "fish-3",
            "pet-1",
        ] {
            assert!(result.contains(part), "{part}: {result}");
        }
        self.push_call(
            "trigger-url-elicitation",
            json!({"url": "https://peer.example/visit", "errorPath": true}),
        );
        let id = self.client.prompt(&self.session, "go");
        let visit = self
            .client
            .next_matching(&self.session, "agent/questionRequested", |asked| {
                asked.text("questionId") != question.text("questionId")
            });
        let respond = json!({"questionId": visit.text("questionId"), "dismissed": true});
        let _: Value = self.client.call("agent/questionRespond", respond);
        self.client.prompt_result(&id);
        let visit = last_content(self.world);
        // It names an address of its own.
        assert!(visit.contains("; the user must first open https://"), "{visit}");
    }

    fn sampling_works(&self) {
        self.push_call(
            "trigger-sampling-request",
            json!({"prompt": "Say it.", "maxTokens": 20}),
        );
        self.world.mock().push(Reply::text("It is said."));
        self.client.ask(&self.session, "go");
        let asked = self.world.wait_for_request(self.world.requests() - 2);
        assert!(asked.messages().last().unwrap().to_string().contains("Say it."));
        let result = last_content(self.world);
        assert!(
            result.contains("It is said.") && result.contains("endTurn"),
            "{result}"
        );
    }

    fn works(world: &World) {
        let client = world.start_asking();
        let everything = Everything {
            world,
            client: &client,
            session: client.session(),
        };
        everything.tools_work();
        everything.progress_and_cancel_work();
        everything.prompts_and_resources_work();
        everything.elicitation_works();
        everything.sampling_works();
    }
}

#[test]
fn server_everything_works_over_stdio() {
    if let Some(script) = server_script("server-everything") {
        Everything::works(&world_with(&program(&script, &["stdio"])));
    }
}

#[test]
fn server_everything_works_over_streamable_http() {
    if let Some(script) = server_script("server-everything") {
        let server = HttpServer::start(&script);
        Everything::works(&world_with(&format!("url = \"{}\"", server.url)));
    }
}

#[test]
fn server_filesystem_works_within_the_workspace_folders() {
    let Some(script) = server_script("server-filesystem") else {
        return;
    };
    let world = World::new();
    world.write("notes/a.txt", "the first note");
    // It takes the folders that it may read from our roots.
    let server = program(&script, &[world.workspace().to_str().unwrap()]);
    world.configure(Config {
        tables: format!("[mcp.real]\nstartup_timeout_s = 60\nsampling = true\n{server}\n{ALLOW}"),
        ..Config::default()
    });
    let client = world.start();
    let session = client.session();
    let call = |tool: &str, input: Value| {
        world
            .mock()
            .push(Reply::tool(&format!("mcp__real__{tool}"), input));
        client.ask(&session, "go");
        last_content(&world)
    };
    let note = world.workspace().join("notes/a.txt");
    let read = call("read_text_file", json!({"path": note}));
    assert!(read.contains("the first note"), "{read}");
    let listed = call("list_directory", json!({"path": note.parent()}));
    assert!(listed.contains("[FILE] a.txt"), "{listed}");
    let denied = call("read_text_file", json!({"path": "/etc/hostname"}));
    assert!(
        denied.contains("Access denied") && denied.contains("\"is_error\":true"),
        "{denied}"
    );
    let written = call("write_file", json!({"path": note, "content": "changed"}));
    assert!(written.contains("Successfully wrote"), "{written}");
    assert_eq!(world.read("notes/a.txt").as_deref(), Some("changed"));
}
