//! `apply_patch`: patches as plain text over the Responses API, one approval for all files, revert, and who gets the
//! tool.

use serde_json::{Value, json};

use crate::harness::{Config, World};
use crate::mock_llm::Reply;

const MODEL: &str = "responses/gpt-5.3-codex";

const PATCH: &str = "*** Begin Patch\n*** Update File: src/a.txt\n@@\n one\n-two\n+2 \"two\"\n*** Update File: src/b.txt\n@@ second\n \
                     print(x)\n-print(y)\n+print(z)\n*** Add File: new/c.txt\n+c\n*** Delete File: gone.txt\n*** Update File: old.sh\n*** Move to: \
                     bin/new.sh\n@@\n-run\n+walk\n*** End Patch\n";

const FILES: [(&str, &str); 4] = [
    ("src/a.txt", "one\ntwo\n"),
    (
        "src/b.txt",
        "first part\n  print(x)\n  print(y)\nsecond part\n  print(x)\n  print(y)\n",
    ),
    ("gone.txt", "old\n"),
    ("old.sh", "run\n"),
];

#[test]
fn a_model_is_told_only_of_the_tools_that_it_has() {
    let world = World::new();
    world.mock().push(Reply::tool("frobnicate", json!({})));
    let client = world.start();
    client.ask(&client.session(), "edit it");
    let result = world.wait_for_request(1).messages().last().unwrap().to_string();
    assert!(result.contains("unknown tool"), "{result}");
    assert!(
        result.contains("edit_file") && !result.contains("apply_patch"),
        "{result}"
    );
}

fn world_with(config: Config) -> World {
    let world = World::with(config);
    for (path, text) in FILES {
        world.write(path, text);
    }
    world
}

/// Returns the names of the tools in a request that change files, each with its type.
fn edit_tools(world: &World, request: usize) -> Vec<String> {
    let body = &world.wait_for_request(request).body;
    let tools = body["tools"].as_array().unwrap().iter();
    let names = tools.map(|tool| {
        let kind = tool["type"].as_str().unwrap_or_default();
        let name = tool["name"].as_str().or(tool["function"]["name"].as_str());
        format!("{kind} {}", name.unwrap_or_default())
    });
    names
        .filter(|name| {
            ["edit_file", "write_file", "apply_patch"]
                .iter()
                .any(|tool| name.ends_with(tool))
        })
        .collect()
}

/// Returns the items of a request that belong to calls.
fn call_items(world: &World, request: usize) -> Vec<Value> {
    let request = world.wait_for_request(request);
    let items = request.messages().iter();
    items
        .filter(|item| item["call_id"].is_string())
        .cloned()
        .collect()
}

#[test]
fn a_patch_is_approved_as_a_whole_and_can_be_reverted() {
    let world = world_with(Config::default());
    world.mock().push(Reply::custom("apply_patch", PATCH));
    let client = world.start();
    let session = client.session_with(json!({"model": MODEL}));
    let id = client.prompt(&session, "patch it");
    let approval = client.next_approval(&session);
    assert_eq!(approval.params["input"], json!({"patch": PATCH}));
    assert_eq!(approval.text("title"), "Patch src/a.txt and 5 more files");
    assert!(
        approval
            .text("why")
            .starts_with("changes src/a.txt and 5 more files"),
        "{:?}",
        approval.params
    );
    let diff = approval.text("diff");
    for part in [
        "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2 \"two\"\n",
        "--- a/src/b.txt\n+++ b/src/b.txt\n@@ -3,4 +3,4 @@\n   print(y)\n second part\n   print(x)\n-  print(y)\n+  print(z)\n",
        "--- /dev/null\n+++ b/new/c.txt\n@@ -0,0 +1 @@\n+c\n",
        "--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n",
        "--- a/old.sh\n+++ b/bin/new.sh\n@@ -1 +1 @@\n-run\n+walk\n",
    ] {
        assert!(diff.contains(part), "{part} is missing in {diff}");
    }
    for (path, text) in FILES {
        assert_eq!(
            world.read(path).as_deref(),
            Some(text),
            "nothing is written before the approval"
        );
    }
    client.decide(&approval, "allow");
    let turn = client.prompt_result(&id);
    assert_eq!(json!(turn.state), "completed");
    assert_eq!(world.read("src/a.txt").as_deref(), Some("one\n2 \"two\"\n"));
    assert_eq!(
        world.read("src/b.txt").as_deref(),
        Some("first part\n  print(x)\n  print(y)\nsecond part\n  print(x)\n  print(z)\n")
    );
    assert_eq!(world.read("new/c.txt").as_deref(), Some("c\n"));
    assert_eq!(world.read("bin/new.sh").as_deref(), Some("walk\n"));
    assert_eq!((world.read("gone.txt"), world.read("old.sh")), (None, None));

    assert_eq!(
        edit_tools(&world, 0),
        ["function write_file", "custom apply_patch"]
    );
    let [call, output] = call_items(&world, 1).try_into().unwrap();
    assert_eq!(
        call,
        json!({"type": "custom_tool_call", "call_id": "call_mock0", "name": "apply_patch", "input": PATCH})
    );
    assert_eq!(
        (&output["type"], &output["call_id"]),
        (&json!("custom_tool_call_output"), &call["call_id"])
    );
    let text = output["output"].as_str().unwrap();
    for line in [
        "edited src/a.txt (+1 −1 lines)",
        "the hunk differs from the file in white space or typography; made at line 5",
        "created new/c.txt (+1 −0 lines)",
        "deleted gone.txt (−1 lines)",
        "moved old.sh to bin/new.sh (+1 −1 lines)",
    ] {
        assert!(text.contains(line), "{line} is missing in {text}");
    }

    let revert = |redo: bool| -> Value {
        let params = json!({"sessionId": session, "turnId": turn.turn_id, "redo": redo});
        client.call("agent/revert", params)
    };
    let reverted = revert(false);
    assert_eq!(reverted["conflicts"], json!([]), "{reverted}");
    for (path, text) in FILES {
        assert_eq!(world.read(path).as_deref(), Some(text));
    }
    assert_eq!((world.read("new/c.txt"), world.read("bin/new.sh")), (None, None));
    revert(true);
    assert_eq!((world.read("gone.txt"), world.read("old.sh")), (None, None));
    assert_eq!(world.read("bin/new.sh").as_deref(), Some("walk\n"));
}

#[test]
fn a_patch_with_a_hunk_that_does_not_fit_changes_nothing_and_asks_nobody() {
    let world = world_with(Config::default());
    let patch = "*** Begin Patch\n*** Update File: src/a.txt\n-one\n+1\n*** Update File: src/b.txt\n   print(x)\n-  print(why)\n+  print(z)\n*** End Patch";
    world.mock().push(Reply::custom("apply_patch", patch));
    let ambiguous = "*** Begin Patch\n*** Update File: src/b.txt\n   print(x)\n-  print(y)\n*** End Patch";
    world.mock().push(Reply::custom("apply_patch", ambiguous));
    let client = world.start();
    let session = client.session_with(json!({"model": MODEL}));
    client.ask(&session, "patch it");
    assert!(client.all(&session, "agent/approvalRequested").is_empty());
    for (path, text) in FILES {
        assert_eq!(world.read(path).as_deref(), Some(text));
    }
    let results = call_items(&world, 2);
    let (first, second) = (
        results[1]["output"].as_str().unwrap(),
        results[3]["output"].as_str().unwrap(),
    );
    assert!(
        first.contains("`src/b.txt`: the hunk was not found. The closest lines are"),
        "{first}"
    );
    assert!(first.contains("(- is the patch, + is the file)"), "{first}");
    assert!(
        second.contains("the hunk fits at 2 places (lines 2, 5)"),
        "{second}"
    );
}

#[test]
fn modes_and_rules_for_edits_judge_each_file_of_a_patch() {
    let approvals = "[approvals]\nallow = [\"edit_file(src/**)\"]\ndeny = [\"edit_file(gone.txt)\"]\n";
    let world = world_with(Config {
        tables: approvals.to_owned(),
        ..Config::default()
    });
    let client = world.start();
    let run = |mode: &str, patch: &str| {
        world.mock().push(Reply::custom("apply_patch", patch));
        let session = client.session_with(json!({"model": MODEL, "mode": mode}));
        client.ask(&session, "patch it");
        let request = world.requests() - 1;
        call_items(&world, request)[1]["output"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let planned = run("plan", PATCH);
    assert!(
        planned.contains("denied by the rule `edit_file(gone.txt)`"),
        "{planned}"
    );
    let edit = "*** Update File: src/a.txt\n-two\n+2";
    let planned = run("plan", edit);
    assert!(planned.contains("plan mode is read only"), "{planned}");
    let denied = run("full", PATCH);
    assert!(
        denied.contains("denied by the rule `edit_file(gone.txt)`"),
        "{denied}"
    );
    for (path, text) in FILES {
        assert_eq!(world.read(path).as_deref(), Some(text));
    }
    // A rule for edits allows edits, and nothing else of a patch.
    assert!(run("ask", edit).contains("edited src/a.txt"));
    world
        .mock()
        .push(Reply::custom("apply_patch", "*** Delete File: src/a.txt"));
    let session = client.session_with(json!({"model": MODEL}));
    let id = client.prompt(&session, "delete it");
    let approval = client.next_approval(&session);
    client.decide(&approval, "deny");
    client.prompt_result(&id);
    assert_eq!(world.read("src/a.txt").as_deref(), Some("one\n2\n"));
}

#[test]
fn a_fallback_to_another_api_gets_patches_as_ordinary_calls() {
    let world = World::new();
    world.configure(Config {
        full_text: Some(format!(
            "[provider.responses]\nkind = \"openai-responses\"\nbase_url = \"{base}\"\napi_key = \"key-of-one\"\nmodel = \
             \"gpt-5.3-codex\"\nfallback = \"other\"\ninitial_backoff_ms = 20\nmax_backoff_ms = 50\nmax_retries = 1\n\n[provider.other]\nkind = \
             \"openai\"\nbase_url = \"{base}\"\napi_key = \"key-of-two\"\nmodel = \"other-model\"\n\n[agent.default]\nprovider = \
             \"responses\"\n\n[logging]\nfilter = \"debug\"\n",
            base = world.mock().openai_url(),
        )),
        ..Config::default()
    });
    world.write("src/a.txt", "one\ntwo\n");
    let patch = "*** Begin Patch\n*** Update File: src/a.txt\n-two\n+2\n*** End Patch\n";
    world.mock().push(Reply::custom("apply_patch", patch));
    // Both tries of the next step fail, so the other provider takes over within the turn.
    world.mock().push(Reply::error(503, "api_error", "down"));
    world.mock().push(Reply::error(503, "api_error", "down"));
    let edit = json!({"path": "src/a.txt", "edits": [{"old_text": "one", "new_text": "1"}]});
    world.mock().push(Reply::tool("edit_file", edit));
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    let turn = client.ask(&session, "patch it");
    assert_eq!(json!(turn.state), "completed");
    assert_eq!(world.read("src/a.txt").as_deref(), Some("1\n2\n"));
    assert_eq!(
        edit_tools(&world, 0),
        ["function write_file", "custom apply_patch"]
    );
    let taken_over = world.wait_for_request(3);
    assert_eq!(taken_over.body["model"], "other-model");
    assert_eq!(
        edit_tools(&world, 3),
        ["function write_file", "function edit_file"]
    );
    let call = taken_over
        .messages()
        .iter()
        .find_map(|message| message["tool_calls"].get(0))
        .unwrap();
    assert_eq!(call["type"], "function");
    assert_eq!(call["function"]["name"], "apply_patch");
    let arguments: Value = serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({"patch": patch}));
    let result = taken_over
        .messages()
        .iter()
        .find(|message| message["role"] == "tool")
        .unwrap();
    assert!(result.to_string().contains("edited src/a.txt"), "{result}");
}

#[test]
fn the_model_the_agent_and_hooks_decide_who_gets_patches() {
    let edits = ["function write_file", "function edit_file"];
    let patches = ["function write_file", "custom apply_patch"];
    let hook =
        |tools: &str| format!("[hook.guard]\non = \"pre_tool\"\ntool = {tools}\ncommand = \"exit 0\"\n");
    for (model, agent, tables, expected) in [
        (MODEL, "", String::new(), &patches[..]),
        ("responses/gpt-4o", "", String::new(), &edits),
        ("other/gpt-5.3-codex", "", String::new(), &edits),
        (
            MODEL,
            "",
            "[model.\"gpt-5.3-codex\"]\nedit_tool = \"edit_file\"\n".to_owned(),
            &edits,
        ),
        (
            "responses/responses-model",
            "",
            "[model.responses-model]\nedit_tool = \"apply_patch\"\n".to_owned(),
            &patches,
        ),
        (
            "other/other-model",
            "",
            "[model.other-model]\nedit_tool = \"apply_patch\"\n".to_owned(),
            &["function write_file", "function apply_patch"],
        ),
        (
            MODEL,
            "deny_tools = [\"edit_file\"]",
            String::new(),
            &["function write_file"],
        ),
        (MODEL, "deny_tools = [\"apply_patch\"]", String::new(), &edits),
        (
            MODEL,
            "tools = [\"read_file\", \"edit_file\"]",
            String::new(),
            &["function edit_file"],
        ),
        (MODEL, "tools = [\"*_file\"]", String::new(), &patches),
        // Such a hook reads the arguments of `edit_file`, so a patch would get past it.
        (MODEL, "", hook("[\"edit_file\"]"), &edits),
        (MODEL, "", hook("[\"edit_file\", \"apply_patch\"]"), &patches),
    ] {
        let world = world_with(Config {
            agent: agent.to_owned(),
            tables: tables.clone(),
            ..Config::default()
        });
        let client = world.start();
        let session = client.session_with(json!({"model": model, "mode": "full"}));
        if expected == ["function write_file", "function apply_patch"] {
            let patch = "*** Update File: src/a.txt\n-two\n+2";
            world
                .mock()
                .push(Reply::tool("apply_patch", json!({"patch": patch})));
        }
        client.ask(&session, "hello");
        assert_eq!(edit_tools(&world, 0), expected, "{model} {agent} {tables}");
        let is_patched = world.requests() == 2;
        let text = if is_patched { "one\n2\n" } else { "one\ntwo\n" };
        assert_eq!(world.read("src/a.txt").as_deref(), Some(text));
    }
}
