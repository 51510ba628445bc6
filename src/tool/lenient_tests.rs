//! What models write instead of the arguments of our schemas, and what is made of it.

use serde_json::json;

use super::super::testing::ToolHarness;
use super::super::{Registry, create_builtin_tools};
use super::*;

fn regular(harness: &ToolHarness, tool: &str, arguments: &Value) -> Result<Option<RegularArguments>, String> {
    let registry = Registry::new(create_builtin_tools());
    prepare_call(registry.get(tool).unwrap(), arguments, &harness.cx).map(|(_, regular)| regular)
}

fn harness() -> ToolHarness {
    let harness = ToolHarness::new();
    for file in ["a.rs", "src/b.rs", "@scope/c.rs", "odd:12", "'quoted'"] {
        harness.write(file, "x\n");
    }
    harness
}

#[test]
fn unambiguous_arguments_are_corrected_and_told() {
    let edit = json!({"path": "a.rs", "edits": [{"old_text": "x", "new_text": "y"}]});
    let all = json!({"path": "a.rs", "edits": [{"old_text": "x", "new_text": "y", "replace_all": true}]});
    let read = json!({"path": "a.rs"});
    let lines = json!({"pattern": "x", "limit": 5});
    for (tool, given, want, note) in [
        (
            "update_plan",
            json!({"explanation": "so far", "plan": [{"step": "read", "status": "in_progress"}]}),
            &json!({"items": [{"text": "read", "status": "in_progress"}]}),
            "without the unknown field `explanation`; `items` for `plan`; `text` for `step`",
        ),
        (
            "grep",
            json!({"pattern": "x", "head_limit": 5, "-n": true}),
            &lines,
            "without the unknown field `-n`; `limit` for `head_limit`",
        ),
        (
            "grep",
            json!({"pattern": "x", "-i": true, "-A": 2, "-B": 2}),
            &json!({"pattern": "x", "ignore_case": true, "context": 2}),
            "`context` for `-A`; `context` alone, without the same `-B`; `ignore_case` for `-i`",
        ),
        (
            "grep",
            json!({"pattern": "x", "-A": 5, "-B": 2}),
            &json!({"pattern": "x", "context": 5}),
            "`context` 5 for `-A`; `context` 5 for `-B`",
        ),
        (
            "grep",
            json!({"pattern": "x", "context": 1, "-B": 4}),
            &json!({"pattern": "x", "context": 4}),
            "`context` 4 for `-B`",
        ),
        (
            "grep",
            json!({"pattern": "x", "limit": 5, "-C": "3"}),
            &json!({"pattern": "x", "limit": 5, "context": 3}),
            "`context` for `-C`; 3 for \"3\" in `context`",
        ),
        (
            "read_file",
            json!({"file_path": "a.rs"}),
            &read,
            "`path` for `file_path`",
        ),
        (
            "read_file",
            json!({"filePath": "a.rs"}),
            &read,
            "`path` for `filePath`",
        ),
        (
            "read_file",
            json!({"path": "a.rs", "file_path": "a.rs"}),
            &read,
            "`path` alone, without the same `file_path`",
        ),
        (
            "read_file",
            json!({"path": "\"a.rs\""}),
            &read,
            "`a.rs` for the path `\"a.rs\"`",
        ),
        (
            "read_file",
            json!({"path": "@a.rs"}),
            &read,
            "`a.rs` for the path `@a.rs`",
        ),
        (
            "read_file",
            json!({"path": "a.rs:12"}),
            &read,
            "`a.rs` for the path `a.rs:12`",
        ),
        (
            "read_file",
            json!({"path": "`@a.rs:12-20`"}),
            &read,
            "`a.rs` for the path ``@a.rs:12-20``",
        ),
        (
            "read_file",
            json!({"path": "a.rs:12:3"}),
            &read,
            "`a.rs` for the path `a.rs:12:3`",
        ),
        (
            "read_file",
            json!({"path": "a.rs", "explanation": "to see it", "limit": null, "encoding": null}),
            &json!({"path": "a.rs", "limit": null}),
            "without the unknown field `encoding`; without the unknown field `explanation`",
        ),
        (
            "read_file",
            json!({"path": "a.rs", "offset": "12", "limit": 5.0}),
            &json!({"path": "a.rs", "offset": 12, "limit": 5}),
            "5 for 5.0 in `limit`; 12 for \"12\" in `offset`",
        ),
        (
            "find_symbol",
            json!({"query": "Cart"}),
            &json!({"name": "Cart"}),
            "`name` for `query`",
        ),
        (
            "find_references",
            json!({"path": "a.rs", "name": "Cart"}),
            &json!({"path": "a.rs", "symbol": "Cart"}),
            "`symbol` for `name`",
        ),
        (
            "write_file",
            json!({"file_path": "'new.rs'", "contents": "x\n"}),
            &json!({"path": "new.rs", "content": "x\n"}),
            "`content` for `contents`; `path` for `file_path`; `new.rs` for the path `'new.rs'`",
        ),
        (
            "edit_file",
            json!({"path": "a.rs", "edits": [{"old_string": "x", "new_string": "y"}]}),
            &edit,
            "`new_text` for `new_string`; `old_text` for `old_string`",
        ),
        (
            "edit_file",
            json!({"path": "a.rs", "old_str": "x", "new_str": "y"}),
            &edit,
            "a list of one for `edits`; `new_text` for `new_str`; `old_text` for `old_str`",
        ),
        (
            "edit_file",
            json!({"file_path": "a.rs", "old_text": "x", "new_text": "y", "replace_all": "True", "reason": "z"}),
            &all,
            "a list of one for `edits`; `path` for `file_path`; without the unknown field `reason`; true for \"True\" \
             in `edits[0].replace_all`",
        ),
        (
            "edit_file",
            json!({"path": "a.rs", "edits": {"old_text": "x", "new_text": "y"}}),
            &edit,
            "a list of one for `edits`",
        ),
        (
            "edit_file",
            json!({"path": "a.rs", "edits": "[{\"oldText\": \"x\", \"newText\": \"y\"}]"}),
            &edit,
            "the JSON in the text of `edits`; `new_text` for `newText`; `old_text` for `oldText`",
        ),
        (
            "edit_file",
            json!({"path": "a.rs", "edits": "{\"old_text\": \"x\", \"new_text\": \"y\"}"}),
            &edit,
            "the JSON in the text of `edits`; a list of one for `edits`",
        ),
        (
            "bash",
            json!({"cmd": "ls", "cwd": "src", "run_in_background": "false", "timeout_s": "1.5"}),
            &json!({"command": "ls", "workdir": "src", "background": false, "timeout_s": 1.5}),
            "`command` for `cmd`; `workdir` for `cwd`; `background` for `run_in_background`; false for \"false\" in \
             `background`; 1.5 for \"1.5\" in `timeout_s`",
        ),
        (
            "read_file",
            json!({"path": "a.rs", "start_line": 3, "endLine": "7"}),
            &json!({"path": "a.rs", "offset": 3, "limit": 5}),
            "`limit` 5 for `endLine` and `start_line`; `offset` 3 for `endLine` and `start_line`",
        ),
        (
            "read_file",
            json!({"path": "a.rs", "end_line": 7}),
            &json!({"path": "a.rs", "offset": 1, "limit": 7}),
            "`limit` 7 for `end_line`; `offset` 1 for `end_line`",
        ),
        (
            "read_file",
            json!({"path": "a.rs", "start_line": 0}),
            &json!({"path": "a.rs", "offset": 1}),
            "`offset` 1 for `start_line`",
        ),
        (
            "bash",
            json!({"command": "ls", "timeout": 120}),
            &json!({"command": "ls", "timeout_s": 120.0}),
            "`timeout_s` 120 for `timeout`",
        ),
        (
            "bash",
            json!({"command": "ls", "timeout": 120_000}),
            &json!({"command": "ls", "timeout_s": 120.0}),
            "`timeout_s` 120 for `timeout`",
        ),
        (
            "bash",
            json!({"command": "ls", "timeoutMs": 500}),
            &json!({"command": "ls", "timeout_s": 0.5}),
            "`timeout_s` 0.5 for `timeoutMs`",
        ),
        (
            "grep",
            json!({"query": 12, "include": "*.rs", "directory": "src"}),
            &json!({"pattern": "12", "glob": "*.rs", "path": "src"}),
            "`path` for `directory`; `glob` for `include`; `pattern` for `query`; \"12\" for 12 in `pattern`",
        ),
    ] {
        let harness = harness();
        let found = regular(&harness, tool, &given).unwrap().expect("a correction");
        assert_eq!(&found.arguments, want, "{given}");
        let sorted = |note: &str| {
            let mut parts: Vec<String> = note.split("; ").map(str::to_owned).collect();
            parts.sort();
            parts
        };
        // The order depends on how JSON maps are built.
        let note = format!("[arguments corrected: {note}]");
        assert_eq!(
            sorted(
                found
                    .note
                    .trim_start_matches("[arguments corrected: ")
                    .trim_end_matches(']')
            ),
            sorted(
                note.trim_start_matches("[arguments corrected: ")
                    .trim_end_matches(']')
            ),
            "{given}"
        );
        // Once corrected, nothing is left to correct.
        assert_eq!(
            regular(&harness, tool, &found.arguments).unwrap(),
            None,
            "{given}"
        );
    }
}

#[test]
fn regular_arguments_and_odd_names_stay_as_they_are() {
    for (tool, given) in [
        ("read_file", json!({"path": "a.rs", "offset": 1})),
        ("read_file", json!({"path": "odd:12"})),
        ("read_file", json!({"path": "'quoted'"})),
        ("read_file", json!({"path": "@scope/c.rs"})),
        ("read_file", json!({"path": "missing.rs:12"})),
        ("read_file", json!({"path": "tool-output:call_1:12"})),
        ("read_file", json!({"path": "/nowhere/at/all:12"})),
        ("write_file", json!({"path": "@new/d.rs", "content": "12"})),
        (
            "write_file",
            json!({"path": "data.json", "content": "{\"a\": \"true\"}"}),
        ),
        (
            "edit_file",
            json!({"path": "a.rs", "edits": [{"old_text": "[1]", "new_text": "false"}]}),
        ),
        ("bash", json!({"command": "ls", "description": "List"})),
    ] {
        assert_eq!(regular(&harness(), tool, &given).unwrap(), None, "{given}");
    }
}

#[test]
fn what_has_two_readings_is_refused() {
    for (tool, given, problem) in [
        // A field that could change the meaning is never dropped.
        (
            "write_file",
            json!({"path": "a", "content": "x", "overwrite": false}),
            "`overwrite`: unknown field",
        ),
        (
            "write_file",
            json!({"path": "a", "content": "x", "append": true}),
            "`append`: unknown field",
        ),
        (
            "read_file",
            json!({"path": "a.rs", "reason": {"a": 1}}),
            "`reason`: unknown field",
        ),
        // Milliseconds or seconds?
        (
            "bash",
            json!({"command": "ls", "timeout": 1000}),
            "`timeout`: unknown field",
        ),
        // Two different values for one field.
        (
            "read_file",
            json!({"path": "a.rs", "file_path": "b.rs"}),
            "`file_path`: unknown field",
        ),
        (
            "read_file",
            json!({"file": "a.rs", "file_path": "b.rs"}),
            "unknown field",
        ),
        (
            "edit_file",
            json!({"path": "a.rs", "edits": [], "old_text": "x", "new_text": "y"}),
            "unknown field",
        ),
        (
            "edit_file",
            json!({"path": "a.rs", "old_text": "x"}),
            "`edits[0].new_text`: is missing",
        ),
        (
            "edit_file",
            json!({"path": "a.rs", "edits": "x"}),
            "`edits`: expected a list",
        ),
        (
            "write_file",
            json!({"path": "a", "content": {"a": 1}}),
            "`content`: expected a string",
        ),
        (
            "write_file",
            json!({"path": "a", "content": 1.50}),
            "`content`: expected a string",
        ),
        (
            "grep",
            json!({"pattern": "x", "hidden": "yes"}),
            "`hidden`: expected true or false",
        ),
        (
            "grep",
            json!({"pattern": "x", "hidden": 1}),
            "`hidden`: expected true or false",
        ),
        (
            "read_file",
            json!({"path": "a.rs", "limit": "5.5"}),
            "`limit`: expected a whole number",
        ),
        (
            "read_file",
            json!({"path": "a.rs", "limit": "0"}),
            "`limit`: must be at least 1",
        ),
    ] {
        let refusal = regular(&harness(), tool, &given).unwrap_err();
        assert!(refusal.contains(problem), "{given}: {refusal}");
    }
}

/// The policy must judge what will run.
#[tokio::test]
async fn the_effect_is_that_of_the_regular_arguments() {
    let harness = harness();
    let registry = Registry::new(create_builtin_tools());
    for (tool, given) in [
        ("read_file", json!({"file_path": "@.env:3"})),
        (
            "edit_file",
            json!({"filename": "\".env\"", "old_str": "x", "new_str": "y"}),
        ),
    ] {
        harness.write(".env", "x\n");
        let (call, _) = prepare_call(registry.get(tool).unwrap(), &given, &harness.cx).unwrap();
        let effect = call.predict_effect(&harness.cx).unwrap();
        assert!(effect.secret, "{given}");
        assert_eq!(effect.paths, [harness.path(".env")]);
    }
}
