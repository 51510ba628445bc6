//! MCP servers: who names them, what an untrusted folder may do, and how layers meet.

use secrecy::SecretString;

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
fn only_the_users_own_file_adjusts_servers_that_a_client_names() {
    let named = McpServerSettings {
        name: "peer".to_owned(),
        command: Some("peer".to_owned()),
        ..McpServerSettings::default()
    };
    for (user, workspace, is_adjusted) in [
        ("[mcp.peer]\ndeny_tools = ['x']\ntimeout_s = 5", "", true),
        ("[mcp.peer]\ndeny_tools = ['x']\nurl = 'ftp://h/'", "", false),
        ("", "[mcp.peer]\ntrust_annotations = true", false),
        (
            "[mcp.peer]\ndeny_tools = ['x']",
            "[mcp.peer]\nsampling = true",
            true,
        ),
        (
            "[mcp.peer]\ndeny_tools = ['x']",
            "[mcp.peer]\ndeny_tools = []",
            true,
        ),
        (
            "[mcp.peer]\ndeny_tools = ['x']",
            "[mcp.peer]\ncommand = 'y'",
            true,
        ),
        (
            "[mcp.peer]\ndeny_tools = ['x']",
            "[mcp.peer]\nurl = 'ftp://h/'",
            true,
        ),
    ] {
        let loaded = TestLayers {
            user,
            workspace,
            trusted: true,
            ..TestLayers::default()
        }
        .load();
        let own = loaded.mcp_adjustments.get("peer");
        let adjusted = own.map_or_else(|| named.clone(), |own| named.adjusted_by(own));
        assert_eq!(!adjusted.is_same(&named), is_adjusted, "{user} {workspace}");
        assert_eq!(adjusted.has_tool("x"), !is_adjusted);
        assert_eq!(adjusted.command, named.command);
        assert!(!adjusted.trust_annotations && !adjusted.sampling);
    }
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
    let named = untrusted.untrusted_mcp.iter();
    let named: Vec<_> = named.map(|server| (&*server.name, &*server.target)).collect();
    assert_eq!(
        named,
        [
            ("loose", "x"),
            ("mine", "other"),
            ("theirs", r#"theirs ["${HOME}"]"#)
        ]
    );
    let items = layers(false).describe().items;
    let replacing = items
        .iter()
        .filter(|item| item.detail.contains("replaces your own server"));
    let replacing: Vec<_> = replacing.map(|item| item.name.as_str()).collect();
    assert_eq!(replacing, ["mine"]);
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

#[test]
fn file_that_a_folder_adds_confines_a_server() {
    let load = |workspace: &'static str| {
        TestLayers {
            user: "[mcp.mine]\ncommand = 'mine'\nenv_file = '~/mine.env'",
            workspace,
            trusted: true,
            ..TestLayers::default()
        }
        .load()
    };
    let own = &load("").settings.mcp["mine"].clone();
    assert!(!own.is_from_folder);
    assert_eq!(own.env_file.as_deref(), Some(Path::new("/h/mine.env")));
    let theirs = &load("[mcp.mine]\nenv_file = 'their.env'").settings.mcp["mine"].clone();
    assert!(theirs.is_from_folder);
    assert_eq!(theirs.sandbox_policy(), SandboxPolicy::Workspace);
    assert_eq!(
        theirs.env_file.as_deref(),
        Some(Path::new("/w/.agentls/their.env"))
    );
    let moved = McpServerSettings {
        env_file: None,
        ..own.clone()
    };
    assert_ne!(moved.connection_fingerprint(), own.connection_fingerprint());
    // It must not start without what the file would give it.
    assert!(load("[mcp.mine]\nenv_file = '${NONE}'").settings.mcp.is_empty());
    assert!(load("[mcp.mine]\nenv_file = 3").settings.mcp.is_empty());
}

#[test]
fn inputs_of_vs_code_are_variables() {
    let layers = |env, trusted| TestLayers {
        vscode_json: r#"{
            "inputs": [{"type": "promptString", "id": "api-key", "description": "The key of\u202e x", "password": true}],
            "servers": {"theirs": {"command": "c", "args": ["${PORT:-80}"], "cwd": "sub", "envFile": "sub/.env",
                                   "env": {"API_KEY": "${input:api-key}"}, "autoApprove": ["*"]}}
        }"#,
        env,
        trusted,
        ..TestLayers::default()
    };
    let unset = layers(&[], true).load();
    assert!(unset.settings.mcp.is_empty());
    let problems = lines(&unset).concat();
    let expected = "the environment variable AGENTLS_INPUT_API_KEY is not set (set it to use the server: it is the \
                    value of `${input:api-key}`: The key of<U+202E> x)";
    assert!(problems.contains(expected), "{problems}");
    let set: &[(&str, &str)] = &[("AGENTLS_INPUT_API_KEY", "key-0123456789abcdef"), ("PORT", "")];
    let loaded = layers(set, true).load();
    assert_eq!(lines(&loaded), [""; 0]);
    let server = &loaded.settings.mcp["theirs"];
    assert_eq!(server.env["API_KEY"].expose_secret(), "key-0123456789abcdef");
    assert_eq!(server.args, ["80"]);
    // Relative paths start at the workspace folder, not at `.vscode`.
    assert_eq!(server.env_file.as_deref(), Some(Path::new("/w/sub/.env")));
    assert_eq!(server.cwd.as_deref(), Some(Path::new("/w/sub")));
    // Nothing is approved in advance, no command gets the variable, and the value is redacted.
    assert!(!server.trust_annotations && loaded.settings.approvals.allow.is_empty());
    let env = layers(set, true).env();
    assert!(
        loaded
            .settings
            .secret_env_names(&env)
            .contains("AGENTLS_INPUT_API_KEY")
    );
    let redactor = Redactor::from_settings(&loaded.settings);
    assert_eq!(redactor.redact_text("key-0123456789abcdef"), "***");
    // The trust question shows the file, and the variable instead of its value.
    assert!(layers(set, false).load().settings.mcp.is_empty());
    let items = layers(set, false).describe().items;
    let detail = &items[0].detail;
    assert!(detail.contains(r#"env_file = "sub/.env""#), "{detail}");
    assert!(
        detail.contains("${AGENTLS_INPUT_API_KEY}") && !detail.contains("0123"),
        "{detail}"
    );
}

#[test]
fn credentials_in_arguments_and_addresses_are_redacted() {
    let vscode_json = r#"{
        "inputs": [{"type": "promptString", "id": "figma", "password": true}, {"type": "promptString", "id": "team"}],
        "servers": {
            "figma": {"command": "c", "args": ["--figma=${input:figma}", "${input:team}", "${workspaceFolder}"]},
            "url": {"url": "https://h.example/${env:URL_TOKEN}/${env:HOST_NAME}"}
        }
    }"#;
    let env: &[(&str, &str)] = &[
        ("AGENTLS_INPUT_FIGMA", "figma-0123456789abcdef"),
        ("AGENTLS_INPUT_TEAM", "the-team-of-this-project"),
        ("URL_TOKEN", "url-0123456789abcdef"),
        ("HOST_NAME", "name-of-a-host-0123456789"),
        ("OWN_KEY", "own-0123456789abcdef"),
        ("JSON_TOKEN", "json-0123456789abcdef"),
        ("SHORT_TOKEN", "main"),
    ];
    let layers = |trusted| TestLayers {
        user: "[mcp.own]\ncommand = 'c'\nargs = ['Bearer ${OWN_KEY}', '${HOME}', '${SHORT_TOKEN}', '${NO_TOKEN:-}']",
        mcp_json: r#"{"mcpServers": {"json": {"command": "${JSON_TOKEN}", "cwd": "${userHome}"}}}"#,
        vscode_json,
        env,
        trusted,
        ..TestLayers::default()
    };
    let redactor = Redactor::from_settings(&layers(true).load().settings);
    for kind in ["own", "json", "figma", "url"] {
        let said = redactor
            .redact_text(&format!("{kind}-0123456789abcdef!"))
            .into_owned();
        assert_eq!(said, "***!", "{kind}");
        let content = redactor.redact_content(&format!("{kind}-0123456789abcdef!"));
        assert_eq!(content.as_deref(), Some("***!"), "{kind}");
    }
    let harmless = "in /h and /w, the-team-of-this-project has main on name-of-a-host-0123456789";
    assert_eq!(redactor.redact_text(harmless), harmless);
    assert_eq!(redactor.redact_content(harmless), None);
    // The files of an untrusted folder read no variable.
    let own = Redactor::from_settings(&layers(false).load().settings);
    let text = "url-0123456789abcdef";
    assert_eq!(own.redact_text(text), text);
}

#[test]
fn servers_with_other_names_in_files_are_listed_once() {
    let loaded = |trusted| {
        TestLayers {
            mcp_json: r#"{"mcpServers": {
                "foo.bar": {"command": "a", "sandbox": {}}, "My Server": {"command": "b", "sandbox": {}},
                "com.atlassian/mcp": {"type": "sse", "url": "https://h/"}
            }}"#,
            trusted,
            ..TestLayers::default()
        }
        .load()
    };
    let listed = |loaded: &LoadedConfig| -> Vec<String> {
        let unusable = loaded.list_unusable_mcp_servers(Path::new("/w"));
        unusable.into_iter().map(|server| server.name).collect()
    };
    let trusted = loaded(true);
    let usable: Vec<&str> = trusted.settings.mcp.keys().map(String::as_str).collect();
    assert_eq!(usable, ["My-Server", "foo-bar"]);
    assert_eq!(listed(&trusted), ["com-atlassian-mcp"]);
    assert_eq!(
        listed(&loaded(false)),
        ["My-Server", "foo-bar", "com-atlassian-mcp"]
    );
}

#[test]
fn a_folder_does_not_decide_how_the_user_logs_in() {
    let load = |workspace: &'static str| {
        TestLayers {
            user: "[mcp.wiki]\nurl = 'https://wiki.example/mcp'\noauth_client_id = 'mine'\noauth_scopes = ['read']\n\
                   oauth_callback_port = 8080",
            workspace,
            trusted: true,
            ..TestLayers::default()
        }
        .load()
    };
    assert_eq!(load("").settings.mcp["wiki"].oauth_callback_port, Some(8080));
    let wiki =
        &load("[mcp.wiki]\noauth_client_id = 'theirs'\noauth_scopes = ['admin']\noauth_callback_port = 8081")
            .settings
            .mcp["wiki"]
            .clone();
    assert!(wiki.oauth_client_id.is_none() && wiki.oauth_scopes.is_empty());
    assert_eq!(wiki.oauth_callback_port, None);
    // A privileged port is refused, and with it the server.
    assert!(
        load("[mcp.wiki]\noauth_callback_port = 80")
            .settings
            .mcp
            .is_empty()
    );
    // Another address is another server, which the user's client id is not meant for.
    let wiki = &load("[mcp.wiki]\nurl = 'https://other.example/mcp'").settings.mcp["wiki"].clone();
    assert!(wiki.oauth_client_id.is_none() && wiki.oauth_scopes.is_empty());
    let other = "[mcp.wiki]\nurl = 'https://other.example/mcp'\noauth_client_id = 'theirs'";
    assert_eq!(
        load(other).settings.mcp["wiki"].oauth_client_id.as_deref(),
        Some("theirs")
    );
}

#[test]
fn a_client_secret_is_named_by_the_user_alone() {
    let load = |user: &'static str, workspace: &'static str| {
        TestLayers {
            user,
            workspace,
            trusted: true,
            env: &[("SECRET", "s3cret-of-a-client")],
            ..TestLayers::default()
        }
        .load()
    };
    const NAMED: &str = "[mcp.wiki]\nurl = 'https://wiki.example/mcp'\noauth_client_id = 'mine'\n\
                         oauth_client_secret_env = 'SECRET'";
    let own = load(NAMED, "");
    let (id, secret) = own.settings.mcp["wiki"].client_credentials().unwrap();
    assert_eq!(
        (id.as_str(), secret.expose_secret()),
        ("mine", "s3cret-of-a-client")
    );
    let is_known = |secret: &SecretString| secret.expose_secret() == "s3cret-of-a-client";
    assert!(own.settings.iter_secrets().any(is_known));
    let env = Env::from_vars([("SECRET", "x")]);
    assert!(own.settings.secret_env_names(&env).contains("SECRET"));
    let theirs = load("", NAMED);
    let wiki = &theirs.settings.mcp["wiki"];
    assert!(wiki.client_credentials().is_none());
    assert!(!theirs.settings.iter_secrets().any(is_known));
    let problems: String = theirs.diagnostics.iter().map(ToString::to_string).collect();
    assert!(
        problems.contains("oauth_client_secret_env") && problems.contains("only your own config file"),
        "{problems}"
    );
    // An address of the folder's never gets it.
    let moved = "[mcp.wiki]\nurl = 'https://other.example/mcp'\noauth_client_id = 'mine'";
    for user in [NAMED, "[mcp.wiki]\noauth_client_secret_env = 'SECRET'"] {
        let moved = load(user, moved);
        assert!(moved.settings.mcp["wiki"].client_credentials().is_none());
    }
    let unset = "[mcp.wiki]\nurl = 'https://wiki.example/mcp'\noauth_client_secret_env = 'NONE'";
    assert!(load(unset, "").settings.mcp.is_empty());
}

#[test]
fn a_token_is_never_sent_next_to_another_authorization_or_host() {
    for (settings, expected) in [
        ("url = 'https://h.example/mcp'", true),
        ("url = 'https://h.example/mcp'\nheaders = {X-Team = 'a'}", true),
        (
            "url = 'https://h.example/mcp'\nheaders = {authorization = 'Basic x'}",
            false,
        ),
        (
            "url = 'https://h.example/mcp'\nheaders = {HOST = 'other.example'}",
            false,
        ),
        ("url = 'https://h.example/mcp'\nbearer_token_env = 'TOKEN'", false),
        ("command = 'x'", false),
    ] {
        let user = format!("[mcp.s]\n{settings}");
        let loaded = TestLayers {
            user: &user,
            env: &[("TOKEN", "secret-token-of-the-server")],
            ..TestLayers::default()
        }
        .load();
        assert_eq!(
            loaded.settings.mcp["s"].login_address().is_some(),
            expected,
            "{settings}"
        );
    }
}

#[test]
fn the_trust_question_shows_variables_that_are_not_set() {
    let layers = |env| TestLayers {
        workspace: "[mcp.ours]\ncommand = '${PROGRAM}'",
        vscode_json: r#"{"servers": {"theirs": {"command": "c", "args": ["x.py", "${input:api-key}"], "env": {"KEY": "${NONE}"}}}}"#,
        env,
        ..TestLayers::default()
    };
    let described = layers(&[]).describe();
    let items: Vec<_> = described
        .items
        .iter()
        .map(|item| (&*item.name, item.command.as_deref()))
        .collect();
    assert_eq!(
        items,
        [
            ("ours", Some("${PROGRAM}")),
            ("theirs", Some(r#"c ["x.py","${AGENTLS_INPUT_API_KEY}"]"#))
        ]
    );
    let detail = &described.items[1].detail;
    assert!(detail.contains(r#"env = {"KEY":"${NONE}"}"#), "{detail}");
    let named = layers(&[]).load().untrusted_mcp;
    assert_eq!(named[0].target, "${PROGRAM}");
    let secret = TestLayers {
        mcp_json: r#"{"mcpServers": {"theirs": {"url": "https://ada:pw@h/mcp?key=q", "headers":
            {"Authorization": "Bearer abcdefghijklmnop", "X-Region": "eu", "X-Token": "Bearer ${TOKEN}"}}}}"#,
        ..TestLayers::default()
    };
    let detail = &secret.describe().items[0].detail;
    let shown = r#"headers = {"Authorization":"hidden","X-Region":"eu","X-Token":"Bearer ${TOKEN}"}, "#;
    assert!(detail.contains(shown), "{detail}");
    assert!(
        detail.contains(r#"url = "https://ada:hidden@h/mcp?hidden""#),
        "{detail}"
    );
    // What was shown counts, whether a variable is set later or not.
    let set = layers(&[("PROGRAM", "p"), ("NONE", "n"), ("AGENTLS_INPUT_API_KEY", "k")]).describe();
    assert_eq!(set.fingerprint, described.fingerprint);
}
