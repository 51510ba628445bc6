//! Which files and commands ask, and how a long result is shown.

use serde_json::json;

use super::mock_llm::Reply;
use super::scenario::{Scenario, bash, fake_bash};
use super::{AFTER_DENIAL, edit};
use crate::domain::*;

/// Creates a scenario with a file outside the workspace, and `link` in the workspace to it.
fn with_file_outside() -> Scenario {
    let scenario = Scenario::new();
    std::fs::write(scenario.path("outside.txt"), "outside\n").unwrap();
    link(&scenario, "../outside.txt", "link");
    scenario
}

fn link(scenario: &Scenario, target: &str, name: &str) {
    std::os::unix::fs::symlink(target, scenario.workspace().join(name)).unwrap();
}

#[test]
fn read_only_commands_run_freely_unless_they_touch_protected_files() {
    let scenario = with_file_outside();
    scenario.write("a.txt", "hello\n");
    scenario.write("sub/.env", "TOKEN=1\n");
    link(&scenario, "sub/.env", "notes.txt");
    let client = scenario.start_with_tools([fake_bash()]);
    for free in ["cat a.txt | head -1 && ls", "cd sub && ls", "grep -c hello a.txt"] {
        client.call_freely(&client.session(), bash(free));
    }
    for protected in [
        "cat notes.txt",
        "cat n*",
        "cat link",
        "cat ../outside.txt",
        "cd .. && ls",
        "grep -r TOKEN .",
        "sort *",
        "ls > out",
        "./a.txt",
    ] {
        client.call_asking(&client.session(), bash(protected), DecisionKind::Deny);
    }
}

#[test]
fn secret_files_and_files_outside_the_workspace_ask() {
    let scenario = with_file_outside();
    scenario.write(".env", "TOKEN=1\n");
    let outside = scenario.path("outside.txt");
    std::fs::create_dir(scenario.path("tmp")).unwrap();
    link(&scenario, "../tmp", "away");
    let sibling = scenario.path("beside.txt");
    let client = scenario.start();
    for (tool, input) in [
        ("read_file", json!({"path": ".env"})),
        ("read_file", json!({"path": outside})),
        ("read_file", json!({"path": "../outside.txt"})),
        ("read_file", json!({"path": "link"})),
        ("write_file", json!({"path": "away/new.txt", "content": "x"})),
        ("write_file", json!({"path": sibling, "content": "x"})),
        ("write_file", json!({"path": "../beside.txt", "content": "x"})),
        // Edits that do not apply: their error messages would quote the files.
        ("edit_file", edit(".env", "TOKEM=1", "x")),
        ("edit_file", edit("../outside.txt", "outsidf", "x")),
        ("edit_file", edit(&outside.to_string_lossy(), "", "x")),
        ("edit_file", edit("link", "outsidf", "x")),
        ("edit_file", edit("../outside.tx", "x", "x")),
        ("write_file", json!({"path": ".env", "content": "x"})),
        ("write_file", json!({"path": outside, "content": "x"})),
    ] {
        for mode in [Mode::Ask, Mode::AutoEdit] {
            let session = client.session_in_mode(mode);
            let call = Reply::tool(tool, input.clone());
            let approval = client.call_asking(&session, call, DecisionKind::Deny);
            assert_eq!(approval.risk, Risk::High, "{mode} {tool} {input}");
            let results = scenario.tool_results(scenario.requests() - 1);
            assert_eq!(
                results,
                [format!("Denied by user{AFTER_DENIAL}")],
                "{mode} {tool} {input}"
            );
        }
    }
    // Once the call is allowed, the model learns why the edit failed.
    let call = Reply::tool("edit_file", edit(".env", "TOKEM=1", "x"));
    client.call_asking(&client.session(), call, DecisionKind::Allow);
    let results = scenario.tool_results(scenario.requests() - 1);
    assert!(results[0].contains("+TOKEN=1"), "{results:?}");
    assert!(!sibling.exists() && !scenario.path("tmp/new.txt").exists());
}

#[test]
fn long_tool_result_is_cut_for_the_model_and_kept_in_full() {
    let scenario = Scenario::new();
    for n in 0..4_000 {
        scenario.write(&format!("many/file-with-a-long-name-{n:05}.txt"), "");
    }
    let client = scenario.start();
    let session = client.session();
    client.call_freely(&session, Reply::tool("glob", json!({"pattern": "many/**"})));
    let shown = &scenario.tool_results(1)[0];
    assert!(shown.chars().count() <= 31_000);
    // The result states the size of the cut and keeps both ends.
    assert!(
        shown.contains("\n[… ") && shown.contains(" left out here, "),
        "{shown}"
    );
    assert!(shown.starts_with("many/file-with-a-long-name-00000.txt\n"));
    // The full text is kept and can be read in pages.
    let call = client.next_call(&session, ToolCallStatus::Completed);
    let full = call.result.unwrap().full.clone().expect("where all of it is");
    let (mut full_text, mut offset) = (String::new(), 0);
    while offset < full.bytes {
        let piece = client.sessions.read_content(&session, &full.name, offset, 20_000);
        let piece = client.wait_for(piece).unwrap().unwrap();
        full_text.push_str(&piece.text);
        offset = piece.next;
    }
    // The tool returns at most a thousand results.
    for n in 0..1_000 {
        let line = format!("many/file-with-a-long-name-{n:05}.txt\n");
        assert!(full_text.contains(&line), "{line}");
    }
}
