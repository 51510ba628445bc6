//! Arguments that are not as the schema says, and the folder of a command: what is judged is what runs (I9).

use serde_json::{Value, json};

use crate::harness::{Client, Config, Options, World};
use crate::mock_llm::Reply;

fn world(approvals: &str) -> World {
    World::with(Config {
        tables: format!("[approvals]\n{approvals}\n"),
        ..Config::default()
    })
}

/// Starts without a sandbox, so that only the text of a command decides.
fn start(world: &World) -> Client {
    world.start_with(Options {
        env: vec![("AGENTLS_SANDBOX_METHOD".to_owned(), "none".to_owned())],
        ..Options::default()
    })
}

/// Returns the last result that the model has read.
fn last_result(world: &World) -> String {
    let request = world.wait_for_request(world.requests() - 1);
    request.messages().last().unwrap()["content"][0].to_string()
}

#[test]
fn rules_and_people_see_the_corrected_arguments() {
    let world = world("deny = [\"read_file(hidden/**)\"]");
    world.write("hidden/a.txt", "treasure\n");
    let client = start(&world);
    let session = client.session();
    world
        .mock()
        .push(Reply::tool("read_file", json!({"file_path": "@hidden/a.txt:1"})));
    client.ask(&session, "read it");
    let result = last_result(&world);
    assert!(
        result.contains("denied by the rule") && !result.contains("treasure"),
        "{result}"
    );

    let write = json!({"file_path": "'b.txt'", "contents": "new\n", "explanation": "as you said"});
    world.mock().push(Reply::tool("write_file", write));
    let id = client.prompt(&session, "write it");
    let approval = client.next_approval(&session);
    let corrected = json!({"path": "b.txt", "content": "new\n"});
    assert_eq!(approval.params["input"], corrected);
    client.decide(&approval, "allow");
    client.prompt_result(&id);
    assert_eq!(world.read("b.txt").as_deref(), Some("new\n"));
    let result = last_result(&world);
    assert!(
        result.contains("[arguments corrected: ") && result.contains("`path` for `file_path`"),
        "{result}"
    );
    let inputs: Vec<Value> = client
        .all(&session, "agent/toolCall")
        .iter()
        .filter(|call| call.params["name"] == "write_file")
        .filter_map(|call| call.params.get("input").cloned())
        .collect();
    assert!(
        !inputs.is_empty() && inputs.iter().all(|input| *input == corrected),
        "{inputs:?}"
    );
}

/// Models see another name of an argument whose name a provider refuses.
#[test]
fn hooks_and_people_see_an_argument_under_its_own_name() {
    let tables = "[tool.find]\ndescription = \"Finds.\"\ncommand = \"cat\"\n\
                  [tool.find.schema.properties.\"filter[id]\"]\ntype = \"string\"\n\
                  [hook.h]\non = \"pre_tool\"\ncommand = \"cat > seen.json\"\n";
    let world = World::with(Config {
        tables: tables.to_owned(),
        ..Config::default()
    });
    let client = world.start();
    let session = client.session();
    client.ask(&session, "hello");
    let tools = world.wait_for_request(0).body["tools"].clone();
    let find = tools
        .as_array()
        .unwrap()
        .iter()
        .find(|tool| tool["name"] == "find");
    let properties = &find.unwrap()["input_schema"]["properties"];
    let sent = properties.as_object().unwrap().keys().next().unwrap();
    assert!(sent.starts_with("filter_id__"), "{sent}");
    world.mock().push(Reply::tool("find", json!({sent: "7"})));
    let id = client.prompt(&session, "find it");
    let approval = client.next_approval(&session);
    let own = json!({"filter[id]": "7"});
    assert_eq!(approval.params["input"], own);
    let seen: Value = serde_json::from_str(&world.read("seen.json").unwrap()).unwrap();
    assert_eq!(seen["input"], own, "{seen}");
    client.decide(&approval, "allow");
    client.prompt_result(&id);
    assert!(last_result(&world).contains("filter[id]"));
}

#[test]
fn command_runs_in_the_folder_by_which_it_was_judged() {
    let world = world("allow = [\"bash(touch made)\"]");
    world.write("sub/b.txt", "in the folder\n");
    std::os::unix::fs::symlink("/usr", world.workspace().join("leak")).unwrap();
    let client = start(&world);
    let session = client.session();
    let run = |command: &str, workdir: &str| {
        let input = json!({"command": command, "workdir": workdir});
        world.mock().push(Reply::tool("bash", input));
        client.prompt(&session, "run it")
    };
    // What only reads is free there, and a rule for a command covers folders inside the workspace, as it does with cd.
    for (command, want) in [
        ("pwd && cat b.txt", "/sub\\nin the folder"),
        ("touch made", "(no output)"),
    ] {
        client.prompt_result(&run(command, "sub"));
        let result = last_result(&world);
        assert!(result.contains(want), "{command}: {result}");
    }
    assert_eq!(
        (world.read("sub/made").as_deref(), world.read("made")),
        (Some(""), None)
    );
    // Files count from that folder.
    for command in ["cat ../../x.txt", "touch other"] {
        let id = run(command, "sub");
        let approval = client.next_approval(&session);
        assert!(approval.text("cwd").ends_with("/sub"), "{}", approval.params);
        assert_eq!(approval.text("title"), format!("in sub: {command}"));
        assert_eq!(approval.params["options"][0], "runs in the folder sub");
        client.decide(&approval, "deny");
        client.prompt_result(&id);
    }
    for folder in ["leak", "/usr", ".."] {
        client.prompt_result(&run("ls", folder));
        let result = last_result(&world);
        assert!(result.contains("is outside the workspace"), "{folder}: {result}");
    }
}

#[test]
fn a_name_with_a_prefix_is_judged_and_kept_as_the_real_tool() {
    let world = world("deny = [\"read_file(hidden/**)\"]");
    world.write("hidden/a.txt", "treasure\n");
    world.write("a.txt", "shown\n");
    let client = start(&world);
    let session = client.session();
    for (name, path, words) in [
        ("functions.read_file", "a.txt", "shown"),
        ("Read_File", "hidden/a.txt", "denied by the rule"),
        ("default_api.read_file", "hidden/a.txt", "denied by the rule"),
    ] {
        world.mock().push(Reply::tool(name, json!({"path": path})));
        client.ask(&session, "read it");
        let result = last_result(&world);
        assert!(result.contains(words) && !result.contains("treasure"), "{result}");
        let request = world.wait_for_request(world.requests() - 1);
        assert!(!request.body.to_string().contains(name), "{}", request.body);
    }
    let calls = client.all(&session, "agent/toolCall");
    assert!(calls.iter().all(|call| call.params["name"] == "read_file"));
}
