//! `.mcp.json` and `.vscode/mcp.json` as other programs read them: files with variables, inputs, and defaults (R-MCP).

use std::os::unix::fs::symlink;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Value, json};

use crate::harness::{Client, Config, Options, World, leaks};
use crate::mcp::{call_tool, peer_script, peer_table, servers, world_with};
use crate::mock_llm::Reply;

/// Returns a server of a file that writes these variables to `seen-NAME`, and then is the scripted server.
fn spying_server(name: &str, variables: &[&str]) -> Value {
    let shown: Vec<String> = variables.iter().map(|name| format!("\"${name}\"")).collect();
    let script = peer_script().display().to_string();
    let shown = shown.join(" ");
    json!({
        "command": "sh",
        "args": ["-c", format!("printf '%s\\n' {shown} >seen-{name}; exec python3 '{script}'")],
    })
}

fn trust_workspace(world: &World, client: &Client) {
    let trust = json!({"folder": world.workspace(), "trusted": true});
    let _: Value = client.call("agent/setTrust", trust);
}

#[test]
fn file_of_vs_code_gives_its_program_all_variables() {
    let world = world_with(&[], "[approvals]\nallow = [\"mcp:peer/*\"]");
    // The folder's server replaces the user's.
    world.mock().allow_rewrites();
    let variables = ["FROM_FILE", "IN_BOTH", "API_KEY", "MODE", "LEVEL"];
    let mut server = spying_server("peer", &variables);
    server["envFile"] = json!("${workspaceFolder}/.env");
    server["env"] = json!({
        "IN_BOTH": "env", "API_KEY": "${input:api-key}", "MODE": "${input:mode}", "LEVEL": "${NOT_SET:-low}",
    });
    let inputs = json!([
        {"type": "promptString", "id": "api-key", "description": "The key", "password": true},
        {"type": "pickString", "id": "mode", "description": "The mode", "options": ["a", "b"], "default": "b"},
    ]);
    let file = json!({"inputs": inputs, "servers": {"peer": server}});
    world.write(".vscode/mcp.json", file.to_string());
    world.write(
        ".env",
        "# Variables.\nexport FROM_FILE=\"$HOME file\"\nIN_BOTH=file\n",
    );
    let key = "canary-input-0123456789";
    let client = world.start_with(Options {
        env: vec![("AGENTLS_INPUT_API_KEY".to_owned(), key.to_owned())],
        secrets: vec![key.to_owned()],
        ..Options::default()
    });
    trust_workspace(&world, &client);
    let session = client.session();
    let environment = call_tool(&world, &client, &session, "environment", json!({}));
    assert!(
        environment.contains("FROM_FILE") && !environment.contains("AGENTLS_INPUT"),
        "{environment}"
    );
    let seen = world.read("seen-peer").unwrap();
    assert_eq!(seen, format!("$HOME file\nenv\n{key}\nb\nlow\n"));
}

#[test]
fn credentials_in_arguments_and_addresses_are_hidden() {
    let world = world_with(&[], "[approvals]\nallow = [\"mcp:peer/*\"]");
    world.mock().allow_rewrites();
    let peer = peer_script().display().to_string();
    let script = format!("python3 '{peer}'; echo \"rejected $1 and $2\" >&2; exit 3");
    let arguments = json!(["-c", script, "sh", "${input:figma}", "--auth=${env:SPEC_TOKEN}"]);
    let inputs = json!([{"type": "promptString", "id": "figma", "password": true}]);
    let servers_of_file = json!({
        "peer": {"command": "sh", "args": arguments},
        "remote": {"url": "http://127.0.0.1:9/${env:SPEC_TOKEN}/mcp"},
    });
    let file = json!({"inputs": inputs, "servers": servers_of_file});
    world.write(".vscode/mcp.json", file.to_string());
    let [input, token] = ["canary-input-0123456789", "canary-token-0123456789"].map(str::to_owned);
    let secrets = vec![input.clone(), token.clone()];
    let client = world.start_with(Options {
        env: vec![
            ("AGENTLS_INPUT_FIGMA".to_owned(), input),
            ("SPEC_TOKEN".to_owned(), token),
        ],
        secrets: secrets.clone(),
        ..Options::default()
    });
    trust_workspace(&world, &client);
    let session = client.session();
    let crashed = call_tool(&world, &client, &session, "crash", json!({}));
    assert!(crashed.contains("rejected *** and --auth=***"), "{crashed}");
    let warnings = client.all(&session, "agent/warning");
    let warned = warnings.iter().any(|warning| {
        let text = warning.params.to_string();
        text.contains("rejected *** and --auth=***")
    });
    assert!(warned, "{warnings:?}");
    let listed = servers(&client);
    let target = |name: &str| {
        let server = listed.iter().find(|server| server["name"] == name).unwrap();
        server["target"].as_str().unwrap().to_owned()
    };
    assert!(
        target("peer").ends_with("sh *** --auth=***"),
        "{}",
        target("peer")
    );
    assert_eq!(target("remote"), "http://127.0.0.1:9/***/mcp");
    for request in world.mock().requests() {
        let sent = String::from_utf8_lossy(&request.raw);
        assert!(secrets.iter().all(|secret| !sent.contains(secret)), "{sent}");
    }
    drop(client);
    assert_eq!(leaks(&world.data(), &secrets), [""; 0]);
}

/// The parser of URLs encodes some characters, and makes others small.
#[test]
fn credentials_in_addresses_are_hidden_however_urls_encode_them() {
    let world = World::new();
    let file = json!({"servers": {
        "a-host": {"url": "http://${env:HOST_TOKEN}.invalid/mcp"},
        "b-path": {"url": "http://127.0.0.1:9/x/${env:PATH_TOKEN}/y"},
        "c-user": {"url": "http://${env:USER_TOKEN}@127.0.0.1:9/"},
        "d-query": {"url": "http://127.0.0.1:9/${env:QUERY_TOKEN}"},
    }});
    world.write(".vscode/mcp.json", file.to_string());
    let env = [
        ("HOST_TOKEN", "CANARY-Host-0123456789"),
        ("PATH_TOKEN", "canary \"é\" %41-0123456789"),
        ("USER_TOKEN", "canary-User:|0123456789"),
        ("QUERY_TOKEN", "canary-path?canary-query"),
    ];
    let encoded = [
        "canary-host-0123456789",
        "canary%20%22%C3%A9%22%20%41-0123456789",
        "canary-User:%7C0123456789",
        "canary-path",
    ];
    let secrets = env.iter().map(|(_, value)| *value).chain(encoded);
    let client = world.start_with(Options {
        env: env
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        secrets: secrets.map(str::to_owned).collect(),
        ..Options::default()
    });
    trust_workspace(&world, &client);
    let listed = servers(&client);
    let targets: Vec<&str> = listed
        .iter()
        .filter_map(|server| server["target"].as_str())
        .collect();
    assert_eq!(
        targets,
        [
            "http://***.invalid/mcp",
            "http://127.0.0.1:9/x/***/y",
            "http://***@127.0.0.1:9/",
            "http://127.0.0.1:9/***"
        ]
    );
}

#[test]
fn project_gives_its_program_no_file_of_elsewhere() {
    let world = World::new();
    let outside = world.path("outside.env");
    std::fs::write(&outside, "TAKEN=canary-outside\n").unwrap();
    world.configure(Config {
        tables: peer_table(
            &[],
            &format!("env_file = {outside:?}\n[approvals]\nallow = [\"mcp:peer/*\"]"),
        ),
        ..Config::default()
    });
    symlink(&outside, world.workspace().join("link.env")).unwrap();
    mkfifoat(CWD, world.workspace().join("fifo.env"), Mode::RUSR).unwrap();
    world.write("bad.env", "GOOD=1\ncanary-line\n");
    let outside_of = "is outside of the workspace folder";
    let refused = [
        ("up", "../outside.env", outside_of),
        ("link", "link.env", outside_of),
        ("fifo", "fifo.env", "is a named pipe"),
        ("none", "none.env", "none.env cannot be read: it does not exist"),
        ("bad", "bad.env", "bad.env cannot be used: line 2"),
    ];
    let named = refused.iter().map(|(name, file, _)| {
        let mut server = spying_server(name, &["TAKEN"]);
        server["envFile"] = json!(file);
        ((*name).to_owned(), server)
    });
    let named: serde_json::Map<String, Value> = named.collect();
    world.write(".mcp.json", json!({"mcpServers": named}).to_string());
    let client = world.start_with(Options {
        secrets: vec!["canary-outside".to_owned(), "canary-line".to_owned()],
        ..Options::default()
    });
    trust_workspace(&world, &client);
    let session = client.session();
    world.mock().push(Reply::text("nothing"));
    client.ask(&session, "go");
    let listed = servers(&client);
    for (name, _, reason) in refused {
        let server = listed.iter().find(|server| server["name"] == name).unwrap();
        assert_eq!(server["state"], "failed", "{server}");
        let said = server["reason"].as_str().unwrap();
        assert!(said.contains(reason) && !said.contains("sandbox"), "{said}");
        assert!(world.read(&format!("seen-{name}")).is_none(), "{name} ran");
    }
    // The user's own server may use any file.
    let environment = call_tool(&world, &client, &session, "environment", json!({}));
    assert!(environment.contains("TAKEN"), "{environment}");
}
