//! A scripted MCP client without a model, which drives our client code for conformance suites:
//!
//! ```sh
//! cargo run --example mcp_client -- http://127.0.0.1:3000/mcp     # a server at an address, as the last argument
//! cargo run --example mcp_client -- -- COMMAND ARGUMENT…          # a program
//! npx @modelcontextprotocol/conformance client --command "target/debug/examples/mcp_client" --suite core
//! ```
//!
//! It connects, lists tools, prompts, and resources, and uses each once. Forms are accepted with their defaults.
//! Programs are started by the binary that `AGENTLS` names; by default the one next to the folder of the examples.
#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a tool for tests that reports to its terminal"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use agentls::base::CancellationToken;
use agentls::config::{McpServerSettings, Redactor};
use agentls::domain::SessionId;
use agentls::mcp::{
    ElicitationAnswer, ElicitationRequest, McpCall, McpFolder, McpManager, McpRegistration, Requested,
    ServedTool, ServerRequest,
};
use agentls::workspace::WorkspaceShared;
use agentls::workspace::process::Launcher;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

/// The name of the server.
const SERVER: &str = "peer";
/// How long the server may take to start.
const START: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let mut settings = McpServerSettings {
        name: SERVER.to_owned(),
        ..McpServerSettings::default()
    };
    if words.first().is_some_and(|word| word == "--") && words.len() > 1 {
        settings.command = Some(words.remove(1));
        settings.args = words.split_off(1);
    } else if let Some(url) = words.pop() {
        settings.url = Some(url);
    } else {
        println!("usage: mcp_client URL | mcp_client -- COMMAND ARGUMENT…");
        return ExitCode::from(2);
    }
    let cwd = std::env::current_dir().expect("a folder");
    let workspace = WorkspaceShared::new(&[], None);
    workspace.set_launcher(Launcher::with_helper(find_agentls(), []));
    let manager = McpManager::new(workspace, None, Redactor::default());
    let registration = McpRegistration {
        servers: Arc::from([settings]),
        ..McpRegistration::default()
    };
    let folder = manager
        .open_folder(&cwd, &registration)
        .expect("one server is enabled");
    let used = use_server(&folder).await;
    drop(folder);
    manager.shut_down().await;
    match used {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("failed: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn find_agentls() -> PathBuf {
    match std::env::var_os("AGENTLS") {
        Some(path) => path.into(),
        None => {
            let own = std::env::current_exe().expect("a path");
            own.parent()
                .and_then(|folder| folder.parent())
                .expect("a folder")
                .join("agentls")
        }
    }
}

async fn use_server(folder: &McpFolder) -> Result<(), String> {
    let cancel = CancellationToken::new();
    let link = folder.connect_server(SERVER, START).await?;
    for tool in folder.list_tools() {
        let called = call_tool(&tool).await;
        println!("tool {}: {called}", tool.tool.name);
    }
    for served in link.list_prompts() {
        let arguments = served.prompt.arguments.iter();
        let arguments: Map<String, Value> = arguments
            .map(|argument| (argument.name.clone(), json!("text")))
            .collect();
        let messages = link.get_prompt(&served.prompt, arguments, &cancel).await;
        println!("prompt {}: {messages:?}", served.name);
    }
    for resource in link.list_resources().await.map_err(|error| error.to_string())? {
        let contents = link.read_resource(&resource.uri, &cancel).await;
        println!("resource {}: {contents:?}", resource.uri);
    }
    Ok(())
}

async fn call_tool(tool: &ServedTool) -> String {
    let (progress, mut reports) = mpsc::channel(16);
    let (requests, mut requested) = mpsc::channel(1);
    let call = McpCall {
        session: SessionId::from("test".to_owned()),
        tool: tool.tool.name.clone(),
        arguments: make_arguments(tool.tool.schema.own()),
        limit: Duration::from_secs(30),
        cancel: CancellationToken::new(),
        progress,
        requests,
    };
    let print = async {
        while let Some(report) = reports.recv().await {
            print!("progress of {}: {report}", tool.tool.name);
        }
    };
    let answer = async {
        while let Some(request) = requested.recv().await {
            let ServerRequest::Elicit(ElicitationRequest {
                elicitation, reply, ..
            }) = request
            else {
                // Without a setting that allows it, no server asks a model.
                continue;
            };
            println!("elicitation: {elicitation:?}");
            let answer = match elicitation.requested {
                Requested::Visit(_) => ElicitationAnswer::Decline,
                Requested::Form(form) => match form.to_values(&BTreeMap::new()) {
                    Ok(values) => ElicitationAnswer::Accept(Some(values)),
                    Err(_) => ElicitationAnswer::Decline,
                },
            };
            // The server may have given up.
            let _ = reply.send(answer);
        }
    };
    let (result, (), ()) = tokio::join!(tool.call(call), print, answer);
    format!("{result:?}")
}

/// Makes arguments of the right types: 5 and 3 are what the conformance suite adds.
fn make_arguments(schema: &Value) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut numbers = [5, 3].into_iter().cycle();
    let properties = properties.into_iter().flatten();
    properties
        .map(|(name, property)| {
            let first = property.pointer("/enum/0").cloned();
            let made = || match property.get("type").and_then(Value::as_str) {
                Some("number" | "integer") => json!(numbers.next()),
                Some("boolean") => json!(true),
                Some("array") => json!([]),
                Some("object") => json!({}),
                _ => json!("text"),
            };
            (name.clone(), first.unwrap_or_else(made))
        })
        .collect()
}
