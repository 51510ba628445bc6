//! The official client library against `agentls acp`: prompt, permission with diff, files, cancel, list, load, modes,
//! options, and MCP servers. Every frame is checked against the protocol's schema.
//!
//! `AGENTLS_BIN` names the program; without it, the debug build of this repository is used.

#[path = "../../support/mock_llm.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod mock_llm;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use acp_client_tests::FrameChecker;
use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, ClientCapabilities, ContentBlock, CreateElicitationRequest, EnvVariable,
    FileSystemCapabilities, InitializeRequest, ListSessionsRequest, LoadSessionRequest, McpServer,
    McpServerStdio, NewSessionRequest, PermissionOptionKind, PromptRequest, ReadTextFileRequest,
    ReadTextFileResponse, RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionId, SessionNotification, SessionUpdate, SetSessionConfigOptionRequest,
    SetSessionModeRequest, StopReason, TextContent, ToolCallContent, WriteTextFileRequest,
    WriteTextFileResponse,
};
use agent_client_protocol::{Agent, ByteStreams};
use mock_llm::{Gate, MockLlm, Reply};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::Notify;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

fn program() -> PathBuf {
    std::env::var_os("AGENTLS_BIN").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/agentls"),
        PathBuf::from,
    )
}

/// The folders and the configuration of one test.
struct World {
    dir: tempfile::TempDir,
    mock: MockLlm,
}

impl World {
    fn new() -> Self {
        let world = Self {
            dir: tempfile::tempdir().unwrap(),
            mock: MockLlm::start(),
        };
        for folder in ["work", "config/agentls"] {
            std::fs::create_dir_all(world.path(folder)).unwrap();
        }
        world.configure("");
        world
    }

    /// Writes the configuration.
    fn configure(&self, tables: &str) {
        let config = format!(
            "[provider.mock]\nkind = \"anthropic\"\nbase_url = \"{}\"\napi_key = \"key\"\nmodel = \"mock-model\"\n\
             [agent.default]\nprovider = \"mock\"\n{tables}",
            self.mock.anthropic_url()
        );
        std::fs::write(self.path("config/agentls/config.toml"), config).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// What the client has seen.
#[derive(Clone, Default)]
struct Seen {
    text: Arc<Mutex<String>>,
    text_grew: Arc<Notify>,
    diffs: Arc<Mutex<Vec<String>>>,
    buffer: Arc<Mutex<String>>,
}

/// Starts the program and returns its pipes, with a checker between.
fn start(
    world: &World,
) -> (
    tokio::process::Child,
    ByteStreams<impl futures::AsyncWrite + Send + 'static, impl futures::AsyncRead + Send + 'static>,
) {
    let mut child = tokio::process::Command::new(program())
        .arg("acp")
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", world.dir.path())
        .env("XDG_CONFIG_HOME", world.path("config"))
        .env("XDG_DATA_HOME", world.path("data"))
        .env("XDG_STATE_HOME", world.path("state"))
        .current_dir(world.path("work"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts; build it first, or set AGENTLS_BIN");
    let checker = Arc::new(Mutex::new(FrameChecker::default()));
    let (client_out, to_agent) = tokio::io::duplex(1 << 20);
    let (from_agent, client_in) = tokio::io::duplex(1 << 20);
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let sent = checker.clone();
    tokio::spawn(async move {
        let mut lines = BufReader::new(to_agent).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            sent.lock().unwrap().note_sent(&line);
            stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        }
    });
    tokio::spawn(async move {
        let mut from_agent = from_agent;
        let mut lines = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            // A panic here closes the pipe, and so fails the test.
            checker.lock().unwrap().check_received(&line);
            if from_agent
                .write_all(format!("{line}\n").as_bytes())
                .await
                .is_err()
            {
                return;
            }
        }
    });
    (
        child,
        ByteStreams::new(client_out.compat_write(), client_in.compat()),
    )
}

fn text_prompt(session: &SessionId, text: &str) -> PromptRequest {
    PromptRequest::new(session.clone(), vec![ContentBlock::Text(TextContent::new(text))])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_client_works_with_every_frame_valid() {
    let world = World::new();
    std::fs::write(world.path("work/a.txt"), "disk\n").unwrap();
    let seen = Seen::default();
    *seen.buffer.lock().unwrap() = "buffer\n".to_owned();
    let (mut child, streams) = start(&world);
    let (updates, permissions, reads, writes) = (seen.clone(), seen.clone(), seen.clone(), seen.clone());
    let file = world.path("work/a.txt");
    agent_client_protocol::Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _cx| {
                if let SessionUpdate::AgentMessageChunk(chunk) | SessionUpdate::UserMessageChunk(chunk) =
                    notification.update
                    && let ContentBlock::Text(text) = chunk.content
                {
                    updates.text.lock().unwrap().push_str(&text.text);
                    updates.text_grew.notify_one();
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _cx| {
                for content in request.tool_call.fields.content.iter().flatten() {
                    if let ToolCallContent::Diff(diff) = content {
                        permissions.diffs.lock().unwrap().push(diff.new_text.clone());
                    }
                }
                let kinds: Vec<_> = request.options.iter().map(|option| option.kind).collect();
                assert_eq!(
                    kinds,
                    [
                        PermissionOptionKind::AllowOnce,
                        PermissionOptionKind::AllowAlways,
                        PermissionOptionKind::RejectOnce,
                    ]
                );
                let id = request.options[0].option_id.clone();
                responder.respond(RequestPermissionResponse::new(
                    RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(id)),
                ))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |_: ReadTextFileRequest, responder, _cx| {
                let text = reads.buffer.lock().unwrap().clone();
                responder.respond(ReadTextFileResponse::new(text))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .on_receive_request(
            async move |request: WriteTextFileRequest, responder, _cx| {
                std::fs::write(&request.path, &request.content).unwrap();
                *writes.buffer.lock().unwrap() = request.content;
                responder.respond(WriteTextFileResponse::new())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(streams, async |connection: ConnectionTo<Agent>| {
            use_every_method(&connection, &world, &seen, &file).await
        })
        .await
        .unwrap();
    let status = child.wait().await.unwrap();
    assert!(status.success(), "{status}");
}

async fn use_every_method(
    connection: &ConnectionTo<Agent>,
    world: &World,
    seen: &Seen,
    file: &Path,
) -> Result<(), agent_client_protocol::Error> {
    let files = FileSystemCapabilities::new()
        .read_text_file(true)
        .write_text_file(true);
    let initialized = connection
        .send_request(
            InitializeRequest::new(ProtocolVersion::V1)
                .client_capabilities(ClientCapabilities::new().fs(files)),
        )
        .block_task()
        .await?;
    assert!(initialized.agent_capabilities.load_session);
    let created = connection
        .send_request(NewSessionRequest::new(world.path("work")))
        .block_task()
        .await?;
    let session = created.session_id;
    assert_eq!(created.modes.unwrap().available_modes.len(), 4);

    let edit = json!({"path": "a.txt", "edits": [{"old_text": "buffer", "new_text": "edited"}]});
    world
        .mock
        .push(Reply::tool("read_file", json!({"path": "a.txt"})));
    world.mock.push(Reply::tool("edit_file", edit));
    world.mock.push(Reply::tool(
        "update_plan",
        json!({"items": [{"text": "one", "status": "completed"}]}),
    ));
    world.mock.push(Reply::text("all done"));
    let answer = connection
        .send_request(text_prompt(&session, "edit"))
        .block_task()
        .await?;
    assert_eq!(answer.stop_reason, StopReason::EndTurn);
    assert_eq!(*seen.diffs.lock().unwrap(), ["edited\n"]);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "edited\n");
    assert!(seen.text.lock().unwrap().ends_with("all done"));

    for mode in ["plan", "ask"] {
        connection
            .send_request(SetSessionModeRequest::new(session.clone(), mode))
            .block_task()
            .await?;
    }
    let options = connection
        .send_request(SetSessionConfigOptionRequest::new(
            session.clone(),
            "effort",
            "high",
        ))
        .block_task()
        .await?;
    assert_eq!(options.config_options.len(), 3);

    let gate = Gate::new();
    world.mock.push(Reply::text("never ends").gate(&gate));
    let running = connection.send_request(text_prompt(&session, "talk"));
    world.mock.wait_gate(&gate).await;
    // Only what has arrived is part of the session.
    while !seen.text.lock().unwrap().ends_with("never ends") {
        seen.text_grew.notified().await;
    }
    connection.send_notification(CancelNotification::new(session.clone()))?;
    assert_eq!(running.block_task().await?.stop_reason, StopReason::Cancelled);

    let listed = connection
        .send_request(ListSessionsRequest::new().cwd(world.path("work")))
        .block_task()
        .await?;
    assert_eq!(listed.sessions.len(), 1);
    seen.text.lock().unwrap().clear();
    connection
        .send_request(LoadSessionRequest::new(session.clone(), world.path("work")))
        .block_task()
        .await?;
    assert_eq!(*seen.text.lock().unwrap(), "editall donetalknever ends");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_servers_that_the_official_client_names_are_used() {
    let world = World::new();
    let titles: Arc<Mutex<Vec<String>>> = Arc::default();
    let (mut child, streams) = start(&world);
    let asked = titles.clone();
    agent_client_protocol::Client
        .v1()
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _cx| {
                asked
                    .lock()
                    .unwrap()
                    .extend(request.tool_call.fields.title.clone());
                let id = request.options[0].option_id.clone();
                responder.respond(RequestPermissionResponse::new(
                    RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(id)),
                ))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(streams, async |connection: ConnectionTo<Agent>| {
            let initialize = InitializeRequest::new(ProtocolVersion::V1);
            let initialized = connection.send_request(initialize).block_task().await?;
            let supported = initialized.agent_capabilities.mcp_capabilities;
            assert!(supported.http && !supported.sse);
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../peers/mcp_server.py");
            let server = McpServerStdio::new("peer", "python3")
                .args(vec![script.display().to_string()])
                .env(vec![EnvVariable::new("PEER_LANGUAGE", "en")]);
            let request =
                NewSessionRequest::new(world.path("work")).mcp_servers(vec![McpServer::Stdio(server)]);
            let session = connection.send_request(request).block_task().await?.session_id;
            world.mock.push(Reply::tool("mcp__peer__environment", json!({})));
            world.mock.push(Reply::text("done"));
            let prompt = text_prompt(&session, "look");
            let answer = connection.send_request(prompt).block_task().await?;
            assert_eq!(answer.stop_reason, StopReason::EndTurn);
            Ok(())
        })
        .await
        .unwrap();
    assert!(child.wait().await.unwrap().success());
    assert_eq!(*titles.lock().unwrap(), ["peer/environment"]);
    let requests = world.mock.requests();
    let result = serde_json::to_string(requests[1].messages().last().unwrap()).unwrap();
    assert!(result.contains("PEER_LANGUAGE"), "{result}");
}

/// A server by the official SDK, and the official client: everything that a server offers, and everything that it asks.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_the_official_sdk_is_used() {
    let world = World::new();
    let server = env!("CARGO_BIN_EXE_rmcp_server");
    world.configure(&format!(
        "[mcp.peer]\ncommand = {server:?}\nsampling = true\n[approvals]\nallow = [\"mcp:peer/*\"]\n"
    ));
    let (mut child, streams) = start(&world);
    let updates: Arc<Mutex<String>> = Arc::default();
    let shown = updates.clone();
    agent_client_protocol::Client
        .v1()
        .on_receive_notification(
            async move |notification: SessionNotification, _cx| {
                let text = serde_json::to_string(&notification).unwrap();
                shown.lock().unwrap().push_str(&text);
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: CreateElicitationRequest, responder, _cx| {
                let request = serde_json::to_value(&request).unwrap();
                assert!(
                    request["requestedSchema"]["properties"]["age"].is_object(),
                    "{request}"
                );
                let answer = json!({"action": "accept", "content": {"name": "Ada"}});
                responder.respond(serde_json::from_value(answer).unwrap())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(streams, async |connection: ConnectionTo<Agent>| {
            let capabilities = serde_json::from_value(json!({"elicitation": {"form": {}}})).unwrap();
            let initialize = InitializeRequest::new(ProtocolVersion::V1).client_capabilities(capabilities);
            connection.send_request(initialize).block_task().await?;
            let request = NewSessionRequest::new(world.path("work"));
            let session = connection.send_request(request).block_task().await?.session_id;
            for call in ["count", "ask", "summarize", "grow", "grown"] {
                world
                    .mock
                    .push(Reply::tool(&format!("mcp__peer__{call}"), json!({})));
                if call == "summarize" {
                    world.mock.push(Reply::text("a summary"));
                }
            }
            // The change of the tools makes the prompt cache miss.
            world.mock.allow_rewrites();
            for answer in ["called", "reviewed", "noted"] {
                world.mock.push(Reply::text(answer));
            }
            for text in ["call", "/mcp__peer__review a.rs", "see @peer:note://one"] {
                let prompt = text_prompt(&session, text);
                let answer = connection.send_request(prompt).block_task().await?;
                assert_eq!(answer.stop_reason, StopReason::EndTurn);
            }
            Ok(())
        })
        .await
        .unwrap();
    assert!(child.wait().await.unwrap().success());
    let requests = world.mock.requests();
    let history = serde_json::to_string(requests.last().unwrap().messages()).unwrap();
    let history = history.replace('\\', "");
    for part in [
        "counted",
        r#"{"action":"accept","content":{"name":"Ada"}}"#,
        "a summary",
        "has grown",
        "is there",
        r#"Review with {"file":"a.rs"}."#,
        "The text of the note.",
    ] {
        assert!(history.contains(part), "{part}: {history}");
    }
    let updates = updates.lock().unwrap();
    assert!(updates.contains("[1 of 2] half"), "{updates}");
}

/// The test servers in the SDK's package: over both transports, and by another SDK.
#[tokio::test(flavor = "multi_thread")]
async fn the_test_servers_of_the_official_sdk_are_used() {
    let server = env!("CARGO_BIN_EXE_rmcp_calculator");
    let mut over_http = tokio::process::Command::new(server)
        .arg("http")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(over_http.stdout.take().unwrap()).lines();
    let url = lines.next_line().await.unwrap().unwrap();
    let mut calls = vec![
        ("mcp__local__sum", json!({"a": 40, "b": 2}), "42"),
        ("mcp__remote__sub", json!({"a": 1, "b": 1001}), "-1000"),
        ("mcp__remote__sum", json!({"a": "many"}), "is_error"),
    ];
    let mut servers = format!("[mcp.local]\ncommand = {server:?}\n[mcp.remote]\nurl = {url:?}\n");
    let world = World::new();
    match std::env::var_os("AGENTLS_MCP_PEERS") {
        None => println!("no AGENTLS_MCP_PEERS, so without the server for Node"),
        Some(peers) => {
            // Node looks for packages next to the script.
            let script = world.path("server.mjs");
            std::fs::copy(concat!(env!("RMCP_TESTS"), "/test_with_js/server.js"), &script).unwrap();
            let packages = Path::new(&peers).join("node_modules");
            std::os::unix::fs::symlink(packages, world.path("node_modules")).unwrap();
            servers += &format!("[mcp.node]\ncommand = \"node\"\nargs = [{script:?}]\n");
            calls.push(("mcp__node__add", json!({"a": 20, "b": 3}), "23"));
        }
    }
    // After an answer of one server, the calls of another ask in every other mode.
    world.configure(&format!("mode = \"full\"\n{servers}"));
    let (mut child, streams) = start(&world);
    agent_client_protocol::Client
        .v1()
        .connect_with(streams, async |connection: ConnectionTo<Agent>| {
            let initialize = InitializeRequest::new(ProtocolVersion::V1);
            connection.send_request(initialize).block_task().await?;
            let request = NewSessionRequest::new(world.path("work"));
            let session = connection.send_request(request).block_task().await?.session_id;
            for (tool, arguments, _) in &calls {
                world.mock.push(Reply::tool(tool, arguments.clone()));
            }
            world.mock.push(Reply::text("done"));
            let prompt = text_prompt(&session, "calculate");
            let answer = connection.send_request(prompt).block_task().await?;
            assert_eq!(answer.stop_reason, StopReason::EndTurn);
            Ok(())
        })
        .await
        .unwrap();
    assert!(child.wait().await.unwrap().success());
    let requests = world.mock.requests();
    let messages = requests.last().unwrap().messages();
    let results = messages.iter().map(ToString::to_string);
    let results: Vec<String> = results
        .filter(|message| message.contains("tool_result"))
        .collect();
    assert_eq!(results.len(), calls.len());
    for ((tool, _, want), result) in calls.iter().zip(&results) {
        assert!(result.contains(want), "{tool}: {result}");
        assert_eq!(
            *want == "is_error",
            result.contains("is_error"),
            "{tool}: {result}"
        );
    }
}
