//! Commands: what they can see, and that none outlives its turn or the server (R-CANCEL, R-SEC, I8).

use serde_json::json;

use crate::harness::{Client, Id, Options, World};
use crate::mock_llm::Reply;

/// Starts a turn whose command runs, with children that try to escape.
fn start_command_turn(world: &World, client: &Client, session: &str) -> Id {
    let command = "setsid sleep 1000 & (sleep 1000 &) ; echo started; sleep 1000; touch after";
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": command})));
    let id = client.prompt(session, "run it");
    client.next_matching(session, "agent/toolOutputDelta", |notification| {
        notification.text("text").contains("started")
    });
    assert!(client.processes() > 1, "the command's processes can be seen");
    id
}

fn full_session(client: &Client) -> String {
    client.session_with(json!({"mode": "full"}))
}

#[test]
fn a_flood_of_output_is_shown_in_part_with_its_end() {
    let world = World::new();
    let client = world.start();
    let session = full_session(&client);
    let command = "yes 'a line of output' | head -c 50000000; echo; echo the last line";
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": command})));
    client.ask(&session, "print it");
    let deltas = client.all(&session, "agent/toolOutputDelta");
    let live: String = deltas.iter().map(|delta| delta.text("text").to_owned()).collect();
    assert!(
        live.len() < 1 << 20,
        "{} bytes in {} pieces",
        live.len(),
        deltas.len()
    );
    assert!(live.starts_with("a line of output\n") && live.ends_with("\nthe last line\n"));
    assert!(live.contains(" bytes of output are not shown here …]"));
}

#[test]
fn cancel_ends_a_command_and_all_its_processes() {
    for by_request in [false, true] {
        let world = World::new();
        let client = world.start();
        let session = full_session(&client);
        let id = start_command_turn(&world, &client, &session);
        let result = if !by_request {
            client.cancel(&session);
            client.prompt_result(&id)
        } else {
            client.cancel_request(&id);
            client.cancelled(&id)
        };
        assert_eq!(json!(result.reason), "aborted_tools");
        assert_eq!(client.processes(), 1, "only the server is left at the turn's end");
        client.tool_call(&session, "cancelled");
        assert_eq!(client.ask(&session, "go on").text, "ok");
        assert_eq!(world.read("after"), None);
    }
}

#[test]
fn server_exit_ends_its_commands() {
    // The test client checks for surviving processes after every exit.
    for killed in [false, true] {
        let world = World::new();
        let client = world.start();
        let session = full_session(&client);
        let id = start_command_turn(&world, &client, &session);
        if killed {
            client.kill();
        } else {
            client.close_input();
            assert_eq!(json!(client.prompt_result(&id).reason), "server_stopped");
            client.wait_for_exit();
            drop(client);
        }
        assert_eq!(world.read("after"), None);
        let client = world.start();
        let loaded = client.load(&session);
        let results = loaded
            .events
            .iter()
            .filter(|event| event.method == "agent/toolCall" && event.params.get("output").is_some());
        assert_eq!(results.count(), 1, "the call has its one result");
        assert_eq!(client.ask(&session, "go on").text, "ok");
    }
}

#[test]
fn commands_ask_for_approval_and_see_no_secrets() {
    let world = World::new();
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": "env; echo done"})));
    let client = world.start_with(Options {
        env: vec![("AGENTLS_SANDBOX_METHOD".to_owned(), "none".to_owned())],
        ..Options::default()
    });
    let session = client.session();
    let id = client.prompt(&session, "run it");
    let approval = client.next_approval(&session);
    assert_eq!((approval.text("name"), approval.text("risk")), ("bash", "high"));
    client.decide(&approval, "allow");
    client.prompt_result(&id);
    let raw = world.wait_for_request(1).raw.clone();
    let body = String::from_utf8_lossy(&raw);
    assert!(body.contains("PATH=") && body.contains("done"));
    for secret in world.secrets() {
        assert!(!body.contains(secret), "the model sees {secret}");
    }
}

/// After every test the harness searches the client's messages, the store and the log for keys.
#[test]
fn key_in_tool_output_is_redacted_everywhere() {
    let world = World::new();
    let client = world.start();
    let session = full_session(&client);
    let [.., key] = world.secrets() else {
        unreachable!()
    };
    world.write("a.txt", format!("the key is {key}\nand this is not\n"));
    // The key is printed in two pieces, followed by more output than the model gets.
    let slowly = "k=$(sed -n 's/the key is //p' a.txt); printf 'got %s' ${k:0:9}; sleep 0.3; echo ${k:9} done; \
         yes \"$(cat a.txt)\" | head -6000";
    let edit = json!({"path": "a.txt", "edits": [{"old_text": "and this is not", "new_text": "nor this"}]});
    let wrong = json!({"path": "a.txt", "edits": [{"old_text": "the kay is", "new_text": "x"}]});
    let calls = [
        ("read_file", json!({"path": "a.txt"})),
        ("grep", json!({"pattern": "key is"})),
        ("bash", json!({"command": slowly})),
        ("edit_file", edit),
        ("edit_file", wrong),
    ];
    for (tool, input) in calls {
        let before = world.requests();
        world.mock().push(Reply::tool(tool, input.clone()));
        client.ask(&session, "run it");
        let raw = world.wait_for_request(before + 1).raw.clone();
        let body = String::from_utf8_lossy(&raw);
        assert!(!body.contains(key.as_str()), "{tool}: the model sees the key");
        if tool != "edit_file" {
            assert!(body.contains("***"), "{tool}: {body}");
        }
    }
    let live: String = client
        .all(&session, "agent/toolOutputDelta")
        .iter()
        .map(|notification| notification.text("text").to_owned())
        .collect();
    assert!(
        live.starts_with("got *** done\nthe key is ***\n"),
        "{}",
        &live[..60]
    );
    assert!(!live.contains(key.as_str()));
    let cut = client.all(&session, "agent/toolCall");
    let more = cut
        .iter()
        .find_map(|call| call.params["more"]["output"]["ref"].as_str());
    let page: serde_json::Value = client.call(
        "agent/readContent",
        json!({"sessionId": session, "ref": more.expect("a reference"), "offset": 0, "limit": 1_000}),
    );
    assert!(
        page["text"]
            .as_str()
            .unwrap()
            .starts_with("got *** done\nthe key is ***\n")
    );
    // The file itself still contains the key.
    assert_eq!(world.read("a.txt"), Some(format!("the key is {key}\nnor this\n")));
    // The diff hides the key, and a revert restores it.
    let diff = client.next(&session, "agent/turnDiff");
    let diff_text = diff.params["files"][0]["diff"].as_str().unwrap();
    assert!(
        diff_text.contains(" the key is ***\n-and this is not\n+nor this\n"),
        "{diff_text}"
    );
    let turn = diff.text("ofTurnId");
    let _: serde_json::Value = client.call("agent/revert", json!({"sessionId": session, "turnId": turn}));
    assert_eq!(
        world.read("a.txt"),
        Some(format!("the key is {key}\nand this is not\n"))
    );
}

/// The model reads an output that was cut, in every mode and in a fork too, and nobody is asked.
#[test]
fn a_long_output_is_cut_and_read_back_by_its_path() {
    let world = World::new();
    // Another mode is another system prompt.
    world.mock().allow_rewrites();
    let client = world.start();
    let session = full_session(&client);
    let command = json!({"command": "seq 20000; exit 3"});
    world.mock().push(Reply::tool("bash", command));
    client.ask(&session, "count");
    let body = String::from_utf8_lossy(&world.wait_for_request(1).raw).into_owned();
    let (_, rest) = body.split_once("1\\n2\\n3\\n").expect("the start of the output");
    let (output, _) = rest
        .split_once(" bytes; ")
        .expect("the length of the whole output");
    assert!(output.len() < 14_000, "{} bytes, with escapes", output.len());
    assert!(output.contains("\\n20000\\nexit code: 3\\n[the whole output has 108894"));
    let (_, rest) = rest
        .split_once("read_file and grep take the path `")
        .expect("the path");
    let (path, _) = rest.split_once('`').unwrap();
    let read_back = |session: &str| {
        let before = world.requests();
        let read = json!({"path": path, "offset": 12_345, "limit": 1});
        let search = json!({"path": path, "pattern": "^1999[89]$"});
        world
            .mock()
            .push(Reply::tool("read_file", read).call("grep", search));
        client.ask(session, "look");
        String::from_utf8_lossy(&world.wait_for_request(before + 1).raw).into_owned()
    };
    let fork: serde_json::Value = client.call("agent/forkSession", json!({"sessionId": session}));
    let _: serde_json::Value = client.call("agent/setMode", json!({"sessionId": session, "mode": "plan"}));
    for session in [&session, fork["sessionId"].as_str().unwrap()] {
        let body = read_back(session);
        assert!(body.contains("12345\\t12345\\n"));
        assert!(body.contains(&format!("{path}:19998:19998\\n{path}:19999:19999\\n")));
    }
    // Another session has no such output.
    let body = read_back(&client.session());
    assert!(body.contains("there is no such output in this session"));
}

#[test]
fn on_cancel_setting_comes_from_the_sessions_own_folder() {
    let world = World::new();
    world.write(".agentls/config.toml", "[tool.bash]\non_cancel = \"finish\"\n");
    let impatient_folder = world.path("hasty");
    std::fs::create_dir_all(&impatient_folder).unwrap();
    let client = world.start();
    for patient in [true, false] {
        let folders = [world.workspace(), impatient_folder.clone()];
        let [own, other] = if patient { [0, 1] } else { [1, 0] };
        let at = |n: usize| client.session_with(json!({"mode": "full", "cwd": folders[n]}));
        let session = at(own);
        // Read the other folder's settings last, so that a mix-up would show.
        let _: serde_json::Value = client.call("agent/reloadConfig", json!({}));
        client.ask(&session, "hello");
        client.ask(&at(other), "hello");
        world.mock().push(Reply::tool(
            "bash",
            json!({"command": "echo started; until [ -e go ]; do sleep 0.02; done; echo x > finished"}),
        ));
        let id = client.prompt(&session, "run it");
        client.next_matching(&session, "agent/toolOutputDelta", |notification| {
            notification.text("text").contains("started")
        });
        client.ask(&at(other), "hello");
        client.cancel(&session);
        let go = || std::fs::write(folders[own].join("go"), "").unwrap();
        if patient {
            go();
        }
        assert_eq!(json!(client.prompt_result(&id).reason), "aborted_tools");
        go();
        assert_eq!(
            folders[own].join("finished").exists(),
            patient,
            "patient: {patient}"
        );
    }
}

#[test]
fn git_settings_from_the_environment_are_kept() {
    let world = World::new();
    let settings = [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "user.name"),
        ("GIT_CONFIG_VALUE_0", "somebody"),
    ];
    let client = world.start_with(Options {
        env: settings
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        ..Options::default()
    });
    let session = full_session(&client);
    let command = "git config user.name; git config core.fsmonitor";
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": command})));
    client.ask(&session, "run it");
    let sent = String::from_utf8_lossy(&world.wait_for_request(1).raw).into_owned();
    assert!(sent.contains("somebody\\nfalse"), "{sent}");
}

/// Waits until a file that a command writes to stops growing, because nobody reads the command's output. Nothing shows
/// that. A pause that a busy machine makes is harmless: the command would only write on for a while.
fn wait_until_blocked(world: &World, name: &str) {
    world.wait_until(|| world.read(name).is_some());
    crate::harness::wait_until_stable("the command's file", || world.read(name));
}

#[test]
fn cancel_of_a_flooding_command_keeps_its_output_and_its_stages() {
    for (on_cancel, client_reads) in [
        ("interrupt", true),
        ("finish", true),
        ("interrupt", false),
        ("finish", false),
    ] {
        let name = format!("{on_cancel}, the client reads: {client_reads}");
        let world = World::with(crate::harness::Config {
            tables: format!("[tool.bash]\non_cancel = \"{on_cancel}\"\n"),
            ..crate::harness::Config::default()
        });
        let client = world.start();
        let session = full_session(&client);
        let command = "trap 'echo interrupted; exit 3' INT; echo started; n=0; \
             while [ ! -e stop ]; do n=$((n+1)); echo $n > count; echo \"line $n\"; done; echo finished";
        world
            .mock()
            .push(Reply::tool("bash", json!({"command": command})));
        let id = client.prompt(&session, "run it");
        client.next_matching(&session, "agent/toolOutputDelta", |notification| {
            notification.text("text").contains("line 1")
        });
        if !client_reads {
            client.stop_reading();
            wait_until_blocked(&world, "count");
        }
        let count = world.read("count");
        client.cancel(&session);
        // The server has the cancel once it answers a later request, or once it reads the output again. The signal
        // may also end a command inside the blocked write.
        if client_reads {
            drop(client.call::<serde_json::Value>("agent/metrics", json!({"sessionId": session})))
        } else {
            world.wait_until(|| world.read("count") != count || client.processes() == 1)
        }
        if on_cancel == "finish" {
            world.write("stop", "");
        }
        if !client_reads {
            // The cancel takes effect although the client does not read.
            world.wait_until(|| client.processes() == 1);
            client.resume_reading();
        }
        assert_eq!(json!(client.prompt_result(&id).reason), "aborted_tools", "{name}");
        assert_eq!(client.processes(), 1, "{name}: only the server is left");
        let tool_call = client.tool_call(&session, "cancelled");
        // Behind it is where the whole output can be read.
        let output = tool_call
            .text("output")
            .split("\n[the whole output has ")
            .next()
            .unwrap();
        let last = match on_cancel {
            "finish" => "finished\ncanceled while it ran",
            _ => "interrupted\ncanceled while it ran\nexit code: 3",
        };
        assert!(
            output.starts_with("started\nline 1\n") && output.ends_with(last),
            "{name}: {} … {}",
            &output[..output.floor_char_boundary(200)],
            &output[output.ceil_char_boundary(output.len().saturating_sub(200))..]
        );
        assert_eq!(client.ask(&session, "go on").text, "ok");
        let raw = world.wait_for_request(1).raw.clone();
        assert!(
            String::from_utf8_lossy(&raw).contains("canceled while it ran"),
            "{name}: the model reads it"
        );
    }
}

/// Commands that attack their helper so that a child survives. They wait until the test has seen them start: a
/// helper that dies before it reports the start is a different error.
const ATTACKS: [&str; 4] = [
    "setsid sleep 1000 & echo started; until [ -e go ]; do sleep 0.01; done; kill -KILL $PPID; sleep 1000",
    "setsid sleep 1000 & echo started; until [ -e go ]; do sleep 0.01; done; kill -STOP $PPID; sleep 1000",
    "h=$PPID; ( (setsid sleep 1000 &) & ); echo started; until [ -e go ]; do sleep 0.01; done; kill -SEGV $h; sleep 1000",
    "h=$PPID; (setsid sh -c \"until [ -e go ]; do sleep 0.01; done; kill -KILL $h; sleep 1000\" &); echo started; sleep 1000",
];

#[test]
fn no_child_survives_a_cancel_or_exit_by_killing_the_helper() {
    for attack in ATTACKS {
        for end in ["cancel", "end of input"] {
            let world = World::new();
            let client = world.start();
            let session = full_session(&client);
            world.mock().push(Reply::tool("bash", json!({"command": attack})));
            let id = client.prompt(&session, "run it");
            client.next_matching(&session, "agent/toolOutputDelta", |notification| {
                notification.text("text").contains("started")
            });
            world.write("go", "");
            if end == "cancel" {
                client.cancel(&session);
                client.prompt_result(&id);
                assert_eq!(client.processes(), 1, "{attack}: only the server is left");
            } else {
                client.close_input();
                client.prompt_result(&id);
                client.wait_for_exit();
                // The test client checks for survivors.
            }
        }
    }
}

#[test]
fn no_child_of_a_hook_or_background_command_survives_its_helper() {
    for attack in &ATTACKS[..2] {
        let world = World::with(crate::harness::Config {
            tables: "[hook.h]\non = 'stop'\ncommand = '''setsid sleep 1000 & kill -KILL $PPID'''\n"
                .to_owned(),
            ..crate::harness::Config::default()
        });
        let client = world.start();
        let session = full_session(&client);
        world.write("go", "");
        world.mock().push(Reply::tool(
            "bash",
            json!({"command": attack, "background": true}),
        ));
        world
            .mock()
            .push(Reply::tool("bash_output", json!({"id": "bg1", "wait_s": 1})));
        world.mock().push(Reply::tool("bash_kill", json!({"id": "bg1"})));
        client.ask(&session, "run it");
        assert_eq!(client.processes(), 1, "{attack}: only the server is left");
    }
}

/// A person starts the server from a shell whose editor waits for them.
#[test]
fn programs_that_open_an_editor_end_at_once_and_free_the_repository() {
    let world = World::new();
    let editor = world.write("editor.sh", "exec sleep 1000\n");
    let editor = format!("sh {}", editor.display());
    let env = ["EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR"];
    let client = world.start_with(Options {
        env: env.map(|name| (name.to_owned(), editor.clone())).to_vec(),
        ..Options::default()
    });
    let session = full_session(&client);
    let setup = "git init -q && git config user.name t && git config user.email t@example.invalid \
                 && for n in 1 2; do echo $n > f && git add f && git commit -qm $n; done";
    let run = |command: &str| {
        world
            .mock()
            .push(Reply::tool("bash", json!({ "command": command })));
        client.ask(&session, "run it");
        let call = client.next_matching(&session, "agent/toolCall", |call| {
            matches!(call.text("status"), "completed" | "failed")
        });
        call.text("output").to_owned()
    };
    run(setup);
    for command in [
        "echo 3 > f; git commit -a",
        "git checkout -q f; git rebase -i HEAD~1",
    ] {
        let output = run(command);
        assert!(output.contains("no editor here"), "{command}: {output}");
    }
    for command in ["vi f", "EDITOR=vim git commit -a"] {
        let output = run(command);
        assert!(output.contains("would wait for a person"), "{command}: {output}");
    }
    let output = run("git add f && git commit -q --amend --no-edit --allow-empty && git log --format=%s");
    assert!(output.starts_with("2\n1"), "{output}");
}

#[test]
fn a_command_of_any_length_runs() {
    let world = World::new();
    let client = world.start();
    let session = full_session(&client);
    let body = "0123456789abcde\n".repeat(20_000);
    for (name, background) in [("front", false), ("back", true)] {
        let command = format!("cat > {name}.part <<'END'\n{body}END\nmv {name}.part {name}");
        let input = json!({ "command": command, "background": background });
        world.mock().push(Reply::tool("bash", input));
        client.ask(&session, "write it");
        client.tool_call(&session, "completed");
        world.wait_until(|| world.read(name).is_some());
        assert_eq!(world.read(name).as_ref(), Some(&body), "{name}");
    }
}

/// Tools such as direnv set these for a folder, and the agent may write the file.
#[test]
fn a_shell_starts_with_no_file_of_the_workspace() {
    for (value, was_run) in [("work/start.sh", false), ("own.sh", true)] {
        let world = World::new();
        let script = format!("echo x >{}\n", world.path("ran").display());
        std::fs::write(world.path(value), script).unwrap();
        let file = world.path(value).display().to_string();
        let client = world.start_with(Options {
            env: vec![("BASH_ENV".to_owned(), file.clone()), ("ENV".to_owned(), file)],
            ..Options::default()
        });
        let session = client.session_with(json!({"mode": "full"}));
        world.mock().push(Reply::tool(
            "bash",
            json!({"command": "echo hi; sh -c 'echo ho'"}),
        ));
        client.ask(&session, "Go");
        let message = world.wait_for_request(1).messages().last().unwrap().to_string();
        assert!(message.contains("hi") && message.contains("ho"), "{message}");
        assert_eq!(world.path("ran").exists(), was_run, "{value}");
    }
}
