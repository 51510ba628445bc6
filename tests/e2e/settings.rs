//! Settings while the server runs: trust, the editor's options and their changes, workspace folders, and the status
//! that reports problems with them.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Client, Options, World};
use crate::mock_llm::{Gate, Reply};

/// Starts a server with these `initializationOptions`.
fn start(world: &World, options: Value) -> Client {
    let client = world.launch(Options::default());
    let mut params = client.initialize_params(None);
    params["initializationOptions"] = options;
    let _: Value = client.call("initialize", params);
    client.initialized();
    client
}

/// Creates a folder whose own settings are permissive; they apply only if the folder is trusted.
fn create_permissive_folder(folder: &Path) {
    std::fs::create_dir_all(folder.join(".agentls")).unwrap();
    std::fs::write(
        folder.join(".agentls/config.toml"),
        "[agent.default]\nmode = \"autoEdit\"\n",
    )
    .unwrap();
}

/// Returns the mode of a new session in `cwd`.
fn new_session_mode(client: &Client, cwd: &Path) -> String {
    let created: Value = client.call("agent/newSession", json!({"cwd": cwd}));
    created["mode"].as_str().unwrap().to_owned()
}

fn set_trust(client: &Client, folder: impl Into<Value>, trusted: bool) {
    let params = json!({"folder": folder.into(), "trusted": trusted});
    let _: Value = client.call("agent/setTrust", params);
}

fn display_path(path: &Path) -> String {
    path.display().to_string()
}

/// Waits for the next status that matches.
fn next_status(client: &Client, is: impl Fn(&Value) -> bool) -> Value {
    client
        .next_matching("", "agent/status", |notification| is(&notification.params))
        .params
        .clone()
}

fn warnings(status: &Value) -> Vec<String> {
    let warnings = status["warnings"].as_array().cloned().unwrap_or_default();
    warnings
        .iter()
        .map(|warning| format!("{}: {}", warning["code"].as_str().unwrap(), warning["message"]))
        .collect()
}

#[test]
fn trusted_option_covers_workspace_folders_and_yields_to_the_user() {
    let world = World::new();
    let (own, foreign) = (world.workspace(), world.path("foreign"));
    create_permissive_folder(&own);
    create_permissive_folder(&foreign);
    let client = start(&world, json!({"trusted": true}));
    assert_eq!(new_session_mode(&client, &own), "autoEdit");
    assert_eq!(new_session_mode(&client, &foreign), "ask", "no workspace folder");
    set_trust(&client, display_path(&own), false);
    set_trust(&client, display_path(&foreign), true);
    for _ in 0..2 {
        assert_eq!(new_session_mode(&client, &own), "ask");
        assert_eq!(new_session_mode(&client, &foreign), "autoEdit");
    }
    drop(client);
    for option in [json!({"trusted": true}), json!({"trusted": false}), json!({})] {
        let client = start(&world, option.clone());
        assert_eq!(new_session_mode(&client, &own), "ask", "{option}");
        assert_eq!(new_session_mode(&client, &foreign), "autoEdit", "{option}");
    }
}

#[test]
fn trusted_option_does_not_cover_folders_of_stored_sessions() {
    let world = World::new();
    let foreign = world.path("foreign");
    create_permissive_folder(&foreign);
    let client = world.start();
    let session = client.session_with(json!({"cwd": foreign}));
    client.ask(&session, "hello");
    drop(client);
    let client = start(&world, json!({"trusted": true}));
    client.load(&session);
    assert_eq!(new_session_mode(&client, &foreign), "ask");
}

#[test]
fn spellings_of_a_folder_are_equivalent() {
    let world = World::new();
    let own = world.workspace();
    create_permissive_folder(&own);
    let link = world.path("link");
    std::os::unix::fs::symlink(&own, &link).unwrap();
    let spellings = [
        format!("file://{}/", own.display()),
        format!("{}/", own.display()),
        format!("{}/./x/..", own.display()),
        format!("file://{}", link.display()),
    ];
    std::fs::create_dir(own.join("x")).unwrap();
    let mut trusted = false;
    for spelled in &spellings {
        trusted = !trusted;
        let client = world.start();
        set_trust(&client, spelled.as_str(), trusted);
        drop(client);
        let client = world.start();
        let wanted = if trusted { "autoEdit" } else { "ask" };
        assert_eq!(new_session_mode(&client, &own), wanted, "{spelled}");
        for other in &spellings {
            let created: Value = client.call("agent/newSession", json!({"cwd": other}));
            assert_eq!(created["mode"], wanted, "{spelled}, {other}");
        }
    }
    // Sessions and grants treat the spellings alike, too.
    let client = world.start();
    let session = client.session_with(json!({"cwd": link, "mode": "ask"}));
    world
        .mock()
        .push(Reply::tool("write_file", json!({"path": "a", "content": "x"})));
    let id = client.prompt(&session, "do it");
    client.decide(&client.next_approval(&session), "allowAlways");
    client.prompt_result(&id);
    for cwd in &spellings {
        let listed: Value = client.call("agent/listSessions", json!({"cwd": cwd}));
        assert_eq!(listed["sessions"][0]["sessionId"], session, "{cwd}");
    }
    let grants: Value = client.call("agent/listGrants", json!({}));
    assert_eq!(grants["grants"].as_array().unwrap().len(), 1, "{grants}");
    let grant = json!({"grantId": grants["grants"][0]["grantId"]});
    let _: Value = client.call("agent/revokeGrant", grant.clone());
    let error = client.refused("agent/revokeGrant", grant);
    assert_eq!(error.data["refusal"], "unknownGrant");
}

#[test]
fn changed_settings_override_initialization_options() {
    let world = World::new();
    let options = json!({
        "agent": {"default": {"mode": "plan", "max_iterations": 7}},
        "approvals": {"deny": ["bash"]},
    });
    let client = start(&world, options);
    let session = client.session_with(json!({"mode": "full"}));
    let configure = |settings: Value| {
        client.notify("workspace/didChangeConfiguration", json!({"settings": settings}));
    };
    let bash_is_denied = || {
        world
            .mock()
            .push(Reply::tool("bash", json!({"command": "touch ran"})));
        let result = client.ask(&session, "run it");
        let ran = world.workspace().join("ran");
        let denied = !ran.exists();
        let _ = std::fs::remove_file(ran);
        (denied, json!(result.reason))
    };
    assert_eq!(new_session_mode(&client, &world.workspace()), "plan");
    assert_eq!(bash_is_denied(), (true, json!("completed")));
    // An unrelated change keeps the options.
    configure(json!({"agentls": {"agent": {"default": {"max_iterations": 1}}}}));
    assert_eq!(new_session_mode(&client, &world.workspace()), "plan");
    assert_eq!(bash_is_denied(), (true, json!("max_turns")));
    // Without an `agentls` section, everything stays as before.
    for unrelated in [json!({"other": 1}), json!([]), Value::Null] {
        configure(unrelated);
        assert_eq!(bash_is_denied(), (true, json!("max_turns")));
    }
    // The editor sends its settings in full: a missing setting no longer applies.
    for empty in [json!({}), json!([]), Value::Null] {
        configure(json!({"agentls": empty}));
        assert_eq!(new_session_mode(&client, &world.workspace()), "plan");
        assert_eq!(bash_is_denied(), (true, json!("completed")), "{empty}");
    }
    configure(json!({"agentls": {"agent": {"default": {"mode": "autoEdit"}}}}));
    assert_eq!(new_session_mode(&client, &world.workspace()), "autoEdit");
    // A null removes an option.
    configure(json!({"agentls": {"agent": {"default": {"mode": null}}, "approvals": {"deny": null}}}));
    assert_eq!(new_session_mode(&client, &world.workspace()), "ask");
    assert_eq!(bash_is_denied(), (false, json!("completed")));
}

#[test]
fn invalid_options_never_fail_the_handshake() {
    let world = World::new();
    let rest = json!({"default": {"mode": "plan"}});
    for (options, expects_warnings) in [
        (json!([]), false),
        (json!(""), false),
        (json!(7), false),
        (Value::Null, false),
        (json!([1, 2]), false),
        (json!({"trusted": null, "agent": rest}), false),
        (json!({"trusted": "yes", "agent": rest}), true),
        (
            json!({"trusted": [display_path(&world.workspace())], "agent": rest}),
            true,
        ),
        (json!({"trusted": {}, "agent": rest, "approvals": 7}), true),
        (
            json!({"agent": {"default": {"mode": "plan", "max_iterations": "many"}}}),
            true,
        ),
    ] {
        let client = start(&world, options.clone());
        let wanted = if options.is_object() { "plan" } else { "ask" };
        assert_eq!(new_session_mode(&client, &world.workspace()), wanted, "{options}");
        let active_warnings = warnings(&next_status(&client, |_| true));
        let all_from_options = active_warnings
            .iter()
            .all(|line| line.starts_with("config: \"initializationOptions"));
        assert!(
            all_from_options && active_warnings.is_empty() != expects_warnings,
            "{options}: {active_warnings:?}"
        );
    }
}

#[test]
fn workspace_folder_changes_update_trust_and_file_access() {
    let world = World::new();
    let second = world.path("second");
    create_permissive_folder(&second);
    let client = start(&world, json!({"trusted": true}));
    let session = client.session_with(json!({"mode": "autoEdit"}));
    let change = |added: bool| {
        // Some editors send a folder with a trailing slash.
        let folder = json!([{"uri": format!("file://{}/", second.display()), "name": "second"}]);
        let (added, removed) = if added {
            (folder, json!([]))
        } else {
            (json!([]), folder)
        };
        let event = json!({"added": added, "removed": removed});
        client.notify("workspace/didChangeWorkspaceFolders", json!({"event": event}));
    };
    for inside in [false, true, false] {
        if inside || world.requests() > 0 {
            change(inside);
        }
        let wanted = if inside { "autoEdit" } else { "ask" };
        assert_eq!(new_session_mode(&client, &second), wanted);
        let path = display_path(&second.join("file"));
        world.mock().push(Reply::tool(
            "write_file",
            json!({"path": path, "content": wanted}),
        ));
        let before = client.all(&session, "agent/approvalRequested").len();
        let id = client.prompt(&session, "write");
        if !inside {
            client.decide(&client.next_approval(&session), "allow");
        }
        client.prompt_result(&id);
        assert_eq!(std::fs::read_to_string(second.join("file")).unwrap(), wanted);
        let approvals = client.all(&session, "agent/approvalRequested").len() - before;
        assert_eq!(approvals, usize::from(!inside), "inside: {inside}");
        std::fs::remove_file(second.join("file")).unwrap();
    }
    // Notes tell the folders, so that no change misses the prompt cache.
    let request = world.wait_for_request(world.requests() - 1);
    let notes = request.environment_notes();
    assert!(
        notes.last().unwrap().contains("Changed:\n- workspace folders: "),
        "{notes:?}"
    );
}

#[test]
fn status_is_sent_first_and_on_every_change() {
    let world = World::new();
    let client = world.start();
    let first = next_status(&client, |_| true);
    assert_eq!(
        first,
        json!({"state": "idle", "runningTurns": 0, "openApprovals": 0})
    );
    let gate = Gate::new();
    world.mock().push(Reply::text("thinking").gate(&gate));
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": "touch made"})));
    let (one, two) = (client.session(), client.session());
    let first = client.prompt(&one, "hello");
    world.wait_at_gate(&gate);
    let second = client.prompt(&two, "run it");
    let approval = client.next_approval(&two);
    let busy = next_status(&client, |status| status["openApprovals"] == 1);
    assert_eq!(
        (&busy["state"], &busy["runningTurns"]),
        (&json!("busy"), &json!(2))
    );
    client.decide(&approval, "allow");
    client.prompt_result(&second);
    gate.release();
    client.prompt_result(&first);
    let idle = next_status(&client, |status| status["state"] == "idle");
    assert_eq!(idle["runningTurns"], 0);
}

#[test]
fn status_lists_configuration_problems_until_fixed() {
    let world = World::new();
    create_permissive_folder(&world.workspace());
    world.write(".agentls/config.local.toml", "[agent.default]\nmodle = \"x\"\n");
    let client = world.start();
    let active_warnings = warnings(&next_status(&client, |_| true));
    assert_eq!(active_warnings.len(), 2, "{active_warnings:?}");
    let of = |text: &str| {
        active_warnings
            .iter()
            .any(|line| line.starts_with("config: ") && line.contains(text))
    };
    assert!(of("modle") && of("is not trusted"), "{active_warnings:?}");
    let warning_count = client.all("", "agent/warning").len();
    assert_eq!(warning_count, 2);
    // Trust resolves one of the two problems.
    set_trust(&client, display_path(&world.workspace()), true);
    let active_warnings = warnings(&next_status(&client, |status| warnings(status).len() == 1));
    assert!(active_warnings[0].contains("modle"), "{active_warnings:?}");
    // A turn does not change the warnings.
    let session = client.session();
    client.ask(&session, "hello");
    let idle = next_status(&client, |status| {
        status["state"] == "idle" && !warnings(status).is_empty()
    });
    assert_eq!(warnings(&idle), active_warnings);
    std::fs::remove_file(world.workspace().join(".agentls/config.local.toml")).unwrap();
    let reloaded: Value = client.call("agent/reloadConfig", json!({}));
    assert_eq!(reloaded["problems"], json!([]));
    assert_eq!(
        warnings(&next_status(&client, |status| warnings(status).is_empty())),
        [""; 0]
    );
}

#[test]
fn status_reports_a_failing_disk_until_it_recovers() {
    let world = World::new();
    let database = world.data().join("store.db");
    std::fs::create_dir_all(&database).unwrap();
    let client = world.start();
    assert_eq!(
        warnings(&next_status(&client, |_| true)),
        [""; 0],
        "nobody knows yet"
    );
    let session = client.session();
    assert_eq!(client.ask(&session, "hello").text, "ok");
    let failing = warnings(&next_status(&client, |status| !warnings(status).is_empty()));
    assert!(
        failing[0].starts_with("store: ") && failing[0].contains("keeping events in memory"),
        "{failing:?}"
    );
    std::fs::remove_dir(&database).unwrap();
    next_status(&client, |status| warnings(status).is_empty());
    assert_eq!(client.ask(&session, "again").text, "ok");
}
