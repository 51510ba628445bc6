//! MCP servers: who names them, what an untrusted folder may do, and how layers meet.

use super::*;
use crate::domain::SandboxPolicy;

#[test]
fn servers_are_read_with_their_defaults() {
    let loaded = TestLayers {
        user: "[mcp.docs]\ncommand = 'docs'\n[mcp.web]\nurl = 'https://h.example/mcp'\nbearer_token_env = 'TOKEN'\n\
               [mcp.both]\ncommand = 'x'\nurl = 'https://h.example/'\n[mcp.'a b']\ncommand = 'x'\n\
               [mcp.bad]\nurl = 'ftp://x'\n[mcp.unset]\nurl = 'https://h.example/'\nbearer_token_env = 'NONE'",
        env: &[("TOKEN", "secret-token-of-the-server")],
        ..TestLayers::default()
    }
    .load();
    let names: Vec<&str> = loaded.settings.mcp.keys().map(String::as_str).collect();
    assert_eq!(names, ["docs", "web"]);
    let docs = &loaded.settings.mcp["docs"];
    assert!(docs.enabled && !docs.required && !docs.trust_annotations && !docs.is_from_folder);
    assert_eq!(docs.sandbox_policy(), SandboxPolicy::Off);
    assert_eq!(f64::from(docs.startup_timeout_s), 10.0);
    assert!(loaded.settings.mcp["web"].bearer_token.is_some());
    let problems = loaded
        .diagnostics
        .iter()
        .map(ToString::to_string)
        .collect::<String>();
    for part in [
        "remove one of them",
        "the name of an MCP server",
        "must be an address",
        "NONE is not set",
    ] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
    // No child process gets the token.
    let env = Env::from_vars([("TOKEN", "x")]);
    assert!(loaded.settings.secret_env_names(&env).contains("TOKEN"));
}

#[test]
fn servers_of_a_folder_need_trust_and_run_in_the_sandbox() {
    let layers = |trusted| TestLayers {
        user: "[mcp.mine]\ncommand = 'mine'\n[mcp.mine.env]\nKEY = 'own'\n[mcp.theirs]\ntimeout_s = 5",
        workspace: "[mcp.mine]\ncommand = 'other'\n[mcp.loose]\ncommand = 'x'\nsandbox = 'off'",
        mcp_json: r#"{"mcpServers": {"theirs": {"command": "theirs", "args": ["${HOME}"]}}}"#,
        trusted,
        ..TestLayers::default()
    };
    let untrusted = layers(false).load();
    let servers: Vec<&str> = untrusted.settings.mcp.keys().map(String::as_str).collect();
    assert_eq!(servers, ["mine"]);
    assert_eq!(untrusted.settings.mcp["mine"].command.as_deref(), Some("mine"));
    let trusted = layers(true).load();
    let servers = &trusted.settings.mcp;
    assert_eq!(servers["theirs"].args, ["/h"]);
    assert_eq!(servers["theirs"].sandbox_policy(), SandboxPolicy::Workspace);
    // What the user says of a server that only a folder names still counts.
    assert_eq!(f64::from(servers["theirs"].timeout_s), 5.0);
    // Another program gets nothing that was meant for the first.
    assert!(servers["mine"].command.as_deref() == Some("other") && servers["mine"].env.is_empty());
    assert!(servers["mine"].is_from_folder);
    assert_eq!(servers["loose"].sandbox_policy(), SandboxPolicy::Workspace);
    assert_eq!(servers["theirs"].source.as_deref(), Some(".mcp.json"));
    let described = layers(false).describe();
    let named = described.mcp_servers.iter();
    let named: Vec<_> = named.map(|server| (&*server.name, &*server.target)).collect();
    assert_eq!(
        named,
        [
            ("loose", "x"),
            ("mine", "other"),
            ("theirs", r#"theirs ["${HOME}"]"#)
        ]
    );
    let items = described.items;
    let listed: Vec<_> = items
        .iter()
        .filter(|item| item.kind == FolderItemKind::McpServer)
        .map(|item| (item.name.as_str(), item.command.as_deref()))
        .collect();
    assert_eq!(
        listed,
        [
            ("loose", Some("x")),
            ("mine", Some("other")),
            ("theirs", Some(r#"theirs ["${HOME}"]"#)),
        ]
    );
}

#[test]
fn variables_that_a_folder_adds_confine_a_server() {
    let loaded = TestLayers {
        user: "[mcp.mine]\ncommand = 'mine'",
        workspace: "[mcp.mine.env]\nNODE_OPTIONS = '--require ./x.js'",
        trusted: true,
        ..TestLayers::default()
    }
    .load();
    assert_eq!(
        loaded.settings.mcp["mine"].sandbox_policy(),
        SandboxPolicy::Workspace
    );
}
