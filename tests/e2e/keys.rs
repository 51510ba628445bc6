//! Keys stay in the server (R-SEC, I15): commands can neither inherit nor read them, and no text sends one to a model.

use serde_json::{Value, json};

use crate::harness::{Options, World};
use crate::mock_llm::Reply;

/// Runs a command and returns its output as the model sees it.
fn output_of(world: &World, options: Options, command: impl Fn(u32) -> String) -> String {
    let client = world.start_with(options);
    let session = client.session_with(json!({"mode": "full"}));
    let command = command(client.pid());
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": command})));
    client.ask(&session, "run it");
    world.wait_for_request(1).body.to_string()
}

#[test]
fn commands_cannot_read_the_servers_environment_or_memory() {
    let world = World::new();
    if !world.has_ordinary_user() {
        println!("NOT TESTED: this namespace has no user but root");
        return;
    }
    let options = Options {
        ordinary_user: true,
        ..Options::default()
    };
    let output = output_of(&world, options, |server| {
        let owner = std::os::unix::fs::MetadataExt::uid(
            &std::fs::metadata(format!("/proc/{server}/environ")).unwrap(),
        );
        assert_eq!(owner, 0, "the kernel hides the server from its own user");
        format!(
            "for f in /proc/{server}/environ /proc/{server}/mem /proc/{server}/auxv /proc/$PPID/environ /proc/$PPID/mem; do \
             if head -c 1 $f >/dev/null 2>&1; then echo o''pened $f; fi; done; \
             head -c 1 /proc/$$/environ >/dev/null && echo own environment; ls /proc/self/fd >/dev/null && echo own files; id -u"
        )
    });
    assert!(!output.contains("opened"), "{output}");
    assert!(output.contains("own environment\\nown files\\n"), "{output}");
    assert!(
        !output.contains("own files\\n0\\n"),
        "the command is an ordinary user's: {output}"
    );
}

#[test]
fn commands_do_not_inherit_credential_variables() {
    let world = World::new();
    world.configure(crate::harness::Config {
        tables: "[tool.bash]\npass_env = ['NPM_TOKEN']\n\
                 [hook.h]\non = 'stop'\ncommand = 'env > hook.txt'\n"
            .to_owned(),
        ..crate::harness::Config::default()
    });
    let secret = world.secrets()[2].clone();
    let env = [
        ("GITHUB_TOKEN", "g"),
        ("AWS_SECRET_ACCESS_KEY", "a"),
        ("AWS_ACCESS_KEY_ID", "i"),
        ("DATABASE_URL", "postgres://u:pw@h/db"),
        ("HARMLESS_COPY", secret.as_str()),
        ("NPM_TOKEN", "n"),
        ("SSH_AUTH_SOCK", "/run/ssh"),
        ("TOKENIZERS_PARALLELISM", "false"),
    ];
    let options = Options {
        env: env
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        ..Options::default()
    };
    let output = output_of(&world, options, |_| {
        "env > command.txt; env | cut -d= -f1".to_owned()
    });
    for name in ["NPM_TOKEN", "SSH_AUTH_SOCK", "TOKENIZERS_PARALLELISM"] {
        assert!(output.contains(name), "{name}: {output}");
    }
    for file in ["command.txt", "hook.txt"] {
        let got = world.read(file).unwrap_or_else(|| panic!("{file}"));
        for (name, _) in &env[..5] {
            assert!(!got.contains(name), "{name} in {file}: {got}");
        }
        assert!(
            !got.contains("E2E_SECRET_KEY") && got.contains("NPM_TOKEN=n"),
            "{got}"
        );
    }
}

#[test]
fn key_in_any_text_reaches_neither_the_model_nor_the_store() {
    let world = World::new();
    // The key of another provider: this one must not see it either.
    let key = world.secrets()[2].clone();
    world.write("AGENTS.md", format!("Use {key}-agents.\n"));
    world.write(
        ".agentls/skills/deploy/SKILL.md",
        format!("---\ndescription: deploys with {key}\n---\nThe key is {key}.\n"),
    );
    world.write(
        ".agentls/commands/ship.md",
        format!("Ship $ARGUMENTS with {key}.\n"),
    );
    world.write("notes.txt", format!("first\nkey = {key}\n"));
    let client = world.start();
    let session = client.session();
    world
        .mock()
        .push(Reply::tool("read_skill", json!({"name": "deploy"})));
    client.ask(&session, "/ship it");
    client.ask(
        &session,
        json!([
            {"type": "text", "text": format!("is {key} right?")},
            {"type": "reference", "uri": world.uri("notes.txt")},
            {"type": "selection", "uri": world.uri("notes.txt"), "text": format!("unsaved {key}"),
             "range": {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}}},
        ]),
    );
    let opened = json!({"uri": world.uri("open.txt"), "languageId": "text", "version": 1, "text": format!("open {key}")});
    client.notify("textDocument/didOpen", json!({"textDocument": opened}));
    client.ask(
        &session,
        json!([{"type": "reference", "uri": world.uri("open.txt")}]),
    );
    let title = json!({"sessionId": session, "title": format!("about {key}")});
    let _: serde_json::Value = client.call("agent/renameSession", title);
    let export: serde_json::Value = client.call("agent/exportSession", json!({"sessionId": session}));
    assert!(
        export["text"].as_str().unwrap().contains("is *** right?"),
        "{export}"
    );
    // The harness also checks everything that was sent to the client, stored and logged.
    let sent: Vec<String> = world
        .mock()
        .requests()
        .iter()
        .map(|request| request.body.to_string())
        .collect();
    assert!(sent.iter().all(|body| !body.contains(&key)), "{sent:?}");
    for redacted in [
        "Use ***-agents.",
        "deploys with ***",
        "The key is ***.",
        "Ship it with ***.",
        "is *** right?",
        "key = ***",
        "unsaved ***",
        "open ***",
    ] {
        assert!(sent.last().unwrap().contains(redacted), "{redacted}");
    }
}

#[test]
fn key_in_a_provider_response_is_never_shown() {
    let world = World::new();
    let keys = [world.secrets()[0].clone(), world.secrets()[2].clone()];
    let client = world.start();
    let session = client.session();
    for key in &keys {
        let refusal = Reply::error(400, "invalid_request_error", &format!("no {key}"));
        world
            .mock()
            .push(refusal.header("request-id", &format!("req-{key}")));
        let failed = client.ask(&session, "go");
        let error_text = serde_json::to_string(&failed).unwrap();
        assert!(
            error_text.contains("req-") && !error_text.contains(key),
            "{error_text}"
        );
        world.mock().push(
            Reply::new()
                .with_text("half")
                .fail("api_error", &format!("broke at {key}"))
                .header("request-id", &format!("req-{key}")),
        );
        client.ask(&session, "again");
    }
    let metrics: serde_json::Value = client.call("agent/metrics", json!({"sessionId": session}));
    assert!(keys.iter().all(|key| !metrics.to_string().contains(key)));
}

/// Creates a folder of programs that record that they ran.
pub(crate) fn create_traps(folder: &std::path::Path, names: &[&str]) {
    std::fs::create_dir_all(folder).unwrap();
    for name in names {
        let path = folder.join(name);
        std::fs::write(
            &path,
            format!("#!/bin/sh\necho trap-{name}\necho {name} >> \"$TRAPPED\"\n"),
        )
        .unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
}

#[test]
fn bash_and_git_never_come_from_the_workspace() {
    let world = World::new();
    let trapped = world.path("trapped");
    let names = ["bash", "sh", "git", "ls"];
    for folder in ["bin", "node_modules/.bin"] {
        create_traps(&world.workspace().join(folder), &names);
    }
    create_traps(&world.workspace(), &names);
    world.write(".git/HEAD", "ref: refs/heads/main\n");
    let inside = world.workspace().join("bin");
    let env = [
        (
            "PATH",
            format!("bin::./node_modules/.bin:{}:/usr/bin:/bin:", inside.display()),
        ),
        ("TRAPPED", trapped.display().to_string()),
    ];
    let options = Options {
        env: env.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        ..Options::default()
    };
    let output = output_of(&world, options, |_| {
        "echo changed > file; echo path:$PATH; cd /; ls >/dev/null; echo done".to_owned()
    });
    let expected = format!("path:{}:/usr/bin:/bin\\ndone", inside.display());
    assert!(output.contains(&expected), "{output}");
    // A command may find workspace programs through an absolute PATH entry; the server must not.
    assert_eq!(std::fs::read_to_string(trapped).unwrap(), "ls\n");
}

/// Creates a repository with a folder `sub` whose own `bash` and `git` come first on the PATH. Returns the variables for
/// a server, and the file that exists once one of them has run.
pub(crate) fn trap_programs(world: &World) -> (Vec<(String, String)>, std::path::PathBuf) {
    let (programs, trapped) = (world.workspace().join("bin"), world.path("trapped"));
    create_traps(&programs, &["bash", "sh", "git"]);
    crate::environment::git(world, &["init", "-q"]);
    world.write("sub/a.txt", "a\n");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display());
    let env = [("PATH", path), ("TRAPPED", trapped.display().to_string())];
    (
        env.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        trapped,
    )
}

#[test]
fn programs_of_the_repository_run_unasked_in_no_session_without_workspace_folders() {
    for folder in ["", "sub"] {
        let world = World::new();
        let (env, trapped) = trap_programs(&world);
        let client = world.launch(Options {
            env,
            ..Options::default()
        });
        let mut params = client.initialize_params(None);
        params["workspaceFolders"] = json!(null);
        let _: Value = client.call("initialize", params);
        client.initialized();
        let new: Value = client.call("agent/newSession", json!({"cwd": world.workspace().join(folder)}));
        let session = new["sessionId"].as_str().unwrap();
        world.mock().push(Reply::tool(
            "bash",
            json!({"command": "ls", "workdir": world.workspace().join("sub")}),
        ));
        client.ask(session, "go");
        let listed = world.wait_for_request(1).messages().last().unwrap().to_string();
        assert!(listed.contains("a.txt") && !listed.contains("trap"), "{listed}");
        world
            .mock()
            .push(Reply::tool("bash", json!({"command": "git status --short"})));
        let id = client.prompt(session, "go");
        let asked = client.next(session, "agent/approvalRequested");
        let why = asked.text("why");
        assert!(
            why.contains("runs a program of the workspace: ") && why.contains("/bin/git"),
            "{why}"
        );
        client.cancel(session);
        client.prompt_result(&id);
        assert!(!trapped.exists());
    }
}

#[test]
fn data_and_log_folders_become_private_and_links_are_not_followed() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    let world = World::new();
    let folders = ["data/agentls", "state/agentls"].map(|name| world.path(name));
    for folder in &folders {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::set_permissions(folder, PermissionsExt::from_mode(0o777)).unwrap();
    }
    let log = folders[1].join("agentls.log");
    symlink(world.path("elsewhere.log"), &log).unwrap();
    let client = world.start();
    let session = client.session();
    client.ask(&session, "hello");
    for folder in &folders {
        assert_eq!(
            folder.metadata().unwrap().mode() & 0o777,
            0o700,
            "{}",
            folder.display()
        );
    }
    assert!(!world.path("elsewhere.log").exists());
    drop(client);
    let stderr = std::fs::read_to_string(world.path("stderr-0")).unwrap();
    assert!(stderr.contains("it is a symbolic link"), "{stderr}");
}
