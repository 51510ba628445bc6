//! Properties of every tool (R-TOOL-1, R-TOOL-2). A new tool needs a line in [`sample`].

use std::time::Duration;

use serde_json::{Value, json};

use super::create_builtin_tools;
use super::testing::ToolHarness;
use crate::base::clock;
use crate::domain::SandboxPolicy;
use crate::workspace::prompts::Sources;

/// Returns valid arguments for the tool.
fn sample(name: &str) -> Value {
    match name {
        "read_file" => json!({"path": "a.txt"}),
        "write_file" => json!({"path": "b.txt", "content": "new\n"}),
        "edit_file" => json!({"path": "a.txt", "edits": [{"old_text": "one", "new_text": "two"}]}),
        "apply_patch" => json!({"patch": "*** Update File: a.txt\n-one\n+two\n"}),
        "list_dir" => json!({}),
        "glob" => json!({"pattern": "*"}),
        "grep" => json!({"pattern": "one"}),
        "bash" => json!({"command": "true"}),
        "bash_output" => json!({"id": "bg1"}),
        "bash_kill" => json!({"id": "bg1"}),
        "update_plan" => json!({"items": [{"text": "x", "status": "pending"}]}),
        "delegate" => json!({"prompt": "look around"}),
        "ask_user" => json!({"question": "which?"}),
        "present_plan" => json!({"plan": "1. x"}),
        "read_skill" => json!({"name": "a"}),
        "web_search" => json!({"query": "hats"}),
        "web_fetch" => json!({"url": "https://example.com/"}),
        "diagnostics" => json!({}),
        "find_symbol" => json!({"name": "one"}),
        "rename_symbol" => json!({"symbol": "one", "path": "a.txt", "new_name": "two"}),
        "fix_code" => json!({"path": "a.txt", "line": 1}),
        "find_references" | "go_to_definition" => json!({"symbol": "one", "path": "a.txt"}),
        other => panic!("no sample for {other}"),
    }
}

fn create_harness() -> ToolHarness {
    let mut harness = ToolHarness::new();
    harness.write("a.txt", "one\n");
    harness.write("skills/a/SKILL.md", "---\ndescription: d\n---\nbody");
    let sources = Sources {
        user: Some(harness.root.clone()),
        ..Sources::default()
    };
    // As in plan mode, without which there is no plan to present.
    harness.cx.sandbox.policy = SandboxPolicy::ReadOnly;
    harness.cx.skills = sources.load_instructions().skills;
    harness
}

/// Returns why the arguments are refused.
fn refusal(name: &str, input: &Value) -> Option<String> {
    let tool = create_builtin_tools()
        .into_iter()
        .find(|tool| tool.name() == name)
        .unwrap();
    tool.prepare_call(input).err()
}

#[test]
fn schemas_are_plain_objects_that_describe_every_field() {
    fn described(schema: &Value, at: &str) {
        if let Some(fields) = schema.get("properties").and_then(Value::as_object) {
            assert_eq!(schema["additionalProperties"], json!(false), "{at}");
            for (name, field) in fields {
                let at = format!("{at}.{name}");
                let text = field["description"].as_str().unwrap_or_default();
                assert!(text.len() > 10, "{at} has no description");
                assert!(field["type"].is_string(), "{at}: {field}");
                described(field, &at);
            }
        }
        if let Some(items) = schema.get("items") {
            described(items, &format!("{at}[]"));
        }
    }
    for tool in create_builtin_tools() {
        let spec = tool.spec();
        assert_eq!(spec.schema["type"], "object", "{}", spec.name);
        assert!(
            spec.description.len() > 50 && !spec.description.contains("  "),
            "{}",
            spec.name
        );
        described(&spec.schema, &spec.name);
        let text = spec.schema.to_string();
        assert_eq!(spec.schema.get("description"), None, "{}", spec.name);
        for word in ["$ref", "$schema", "null", "oneOf", "const"] {
            assert!(!text.contains(word), "{}: {word} in {text}", spec.name);
        }
    }
}

#[test]
fn invalid_arguments_are_refused_by_name_and_valid_ones_are_not() {
    for tool in create_builtin_tools() {
        let name = tool.name();
        assert_eq!(refusal(name, &sample(name)), None);
        let schema = tool.spec().schema;
        let fields = schema["properties"].as_object().unwrap();
        let required: Vec<&str> = schema["required"]
            .as_array()
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();

        let mut unknown = sample(name);
        unknown["surely_unknown"] = json!(1);
        let text = refusal(name, &unknown).unwrap();
        assert!(
            text.contains(name) && text.contains("`surely_unknown`: unknown field"),
            "{text}"
        );
        for field in fields.keys() {
            let mut wrong = sample(name);
            wrong[field] = json!({"not": "right"});
            let text = refusal(name, &wrong).unwrap();
            assert!(text.contains(&format!("`{field}`: expected")), "{text}");
            // Models write null for what they omit.
            let mut null = sample(name);
            null[field] = Value::Null;
            assert_eq!(
                refusal(name, &null).is_some(),
                required.contains(&field.as_str()),
                "{name}.{field}"
            );
        }
        for field in required {
            let mut missing = sample(name);
            missing.as_object_mut().unwrap().remove(field);
            let text = refusal(name, &missing).unwrap();
            assert!(text.contains(&format!("`{field}`: is missing")), "{text}");
        }
        for wrong in [json!("text"), json!([]), json!(null), json!(3)] {
            assert!(
                refusal(name, &wrong).unwrap().contains("expected an object"),
                "{name} {wrong}"
            );
        }
    }
}

#[test]
fn titles_are_one_safe_line() {
    let evil = "a\nb\u{1b}[31m\u{202e}".repeat(50);
    for tool in create_builtin_tools() {
        let mut input = sample(tool.name());
        for value in input.as_object_mut().unwrap().values_mut() {
            if value.is_string() {
                *value = json!(evil);
            }
        }
        let title = tool.prepare_call(&input).unwrap().title();
        assert!(!title.is_empty() && title.chars().count() <= 202, "{title}");
        assert!(
            !title.chars().any(|c| c.is_control() || c == '\u{202e}'),
            "{title:?}"
        );
    }
}

#[tokio::test]
async fn all_tools_run_and_a_cancelled_call_ends() {
    for tool in create_builtin_tools() {
        let name = tool.name();
        // Commands need the binary as their helper: see `tests/bash_tool.rs`. There is no network and no editor here
        // either.
        if name.starts_with("bash") {
            continue;
        }
        let of_editor = [
            "diagnostics",
            "find_symbol",
            "find_references",
            "go_to_definition",
            "rename_symbol",
            "fix_code",
        ];
        if !["web_fetch", "web_search"].contains(&name) && !of_editor.contains(&name) {
            create_harness().call_tool(name, sample(name)).await.unwrap();
        }

        let harness = create_harness();
        harness.cx.cancel.cancel();
        let call = harness.call_tool(name, sample(name));
        let result = clock::timeout(Duration::from_secs(5), call).await;
        let result = result.unwrap_or_else(|_| panic!("{name} does not end"));
        // A read may be done before it notices the cancel; a change must not begin.
        if let Err(error) = &result {
            assert_eq!(error, "canceled", "{name}");
        }
        if ["write_file", "edit_file", "update_plan"].contains(&name) {
            assert!(result.is_err(), "{name} went on after the cancel");
            assert_eq!(harness.read("a.txt"), "one\n");
            assert!(!harness.path("b.txt").exists());
        }
    }
}

#[tokio::test]
async fn effects_report_outside_and_secret_paths() {
    let harness = create_harness();
    for (name, args) in [
        ("read_file", json!({"path": "PATH"})),
        ("write_file", json!({"path": "PATH", "content": ""})),
        ("edit_file", json!({"path": "PATH", "edits": []})),
        ("apply_patch", json!({"patch": "*** Delete File: PATH"})),
        ("list_dir", json!({"path": "PATH"})),
        ("grep", json!({"path": "PATH", "pattern": "x"})),
        ("glob", json!({"path": "PATH", "pattern": "x"})),
    ] {
        for (path, outside, secret) in [
            ("a.txt", false, false),
            ("../x", true, false),
            ("sub/.env", false, true),
        ] {
            let args: Value = serde_json::from_str(&args.to_string().replace("PATH", path)).unwrap();
            let effect = harness.predict_effect(name, args).unwrap();
            assert_eq!(
                (effect.outside, effect.secret),
                (outside, secret),
                "{name} {path}"
            );
            assert!(
                !effect.subject.is_empty() && effect.paths[0].is_absolute(),
                "{name}"
            );
            if !outside {
                assert_eq!(effect.subject, path, "{name}");
            }
        }
    }
}

/// The ranges in a schema hold: a number is refused, never changed silently (R-TOOL-2).
#[tokio::test]
async fn numbers_beyond_their_range_are_refused() {
    let harness = super::testing::ToolHarness::new();
    harness.write("a.txt", "one\n");
    for (tool, args, expected) in [
        (
            "grep",
            serde_json::json!({"pattern": "one", "context": 50}),
            "invalid arguments for grep: `context`: must be at most 10, got 50",
        ),
        (
            "read_file",
            serde_json::json!({"path": "a.txt", "limit": 0}),
            "invalid arguments for read_file: `limit`: must be at least 1, got 0",
        ),
    ] {
        assert_eq!(harness.call_expecting_error(tool, args).await, expected);
    }
    let call = harness.call_tool("read_file", serde_json::json!({"path": "a.txt", "offset": 0}));
    assert_eq!(call.await.unwrap().text, "1\tone\n");
}

/// Keeps swapping a folder and a file of the workspace for links to the outside and back.
struct Swapper {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<u64>>,
}

impl Swapper {
    fn start(harness: &ToolHarness) -> Self {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let flag = stop.clone();
        let pairs = [("sub", "sub-link"), ("file.txt", "file-link")]
            .map(|(name, link)| (harness.path(name), harness.path(link)));
        let thread = std::thread::spawn(move || {
            let mut swaps = 0;
            while !flag.load(std::sync::atomic::Ordering::Relaxed) {
                for (name, link) in &pairs {
                    renameat_with(CWD, name, CWD, link, RenameFlags::EXCHANGE).unwrap();
                }
                swaps += 1;
                std::thread::yield_now();
            }
            swaps
        });
        let thread = Some(thread);
        Self { stop, thread }
    }

    fn swaps(mut self) -> u64 {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_swap_between_check_and_use_leads_no_call_outside() {
    const ROUNDS: usize = 600;
    let harness = ToolHarness::with_folders(&["work"]);
    let outside = harness.path("../outside");
    std::fs::create_dir(&outside).unwrap();
    for name in ["data.txt", "canary-name.txt", "file.txt"] {
        std::fs::write(outside.join(name), "canary-text\n").unwrap();
    }
    harness.write("sub/data.txt", "needle\n");
    harness.write("file.txt", "needle\n");
    std::os::unix::fs::symlink(&outside, harness.path("sub-link")).unwrap();
    std::os::unix::fs::symlink(outside.join("file.txt"), harness.path("file-link")).unwrap();
    let swapper = Swapper::start(&harness);
    let mut ran = 0;
    for round in 0..ROUNDS {
        for (name, input) in [
            ("read_file", json!({"path": "sub/data.txt"})),
            ("read_file", json!({"path": "file.txt"})),
            ("read_file", json!({"path": "sub/no-such.txt"})),
            ("grep", json!({"pattern": "needle|canary", "path": "sub"})),
            ("grep", json!({"pattern": "needle|canary"})),
            ("glob", json!({"pattern": "sub/*"})),
            ("glob", json!({"pattern": "**/*.txt"})),
            ("list_dir", json!({"path": "sub"})),
            (
                "write_file",
                json!({"path": format!("sub/new/{round}.txt"), "content": "written"}),
            ),
        ] {
            let Some(result) = harness.judged_call(name, input).await else {
                continue;
            };
            ran += usize::from(result.is_ok());
            let text = result.map_or_else(|error| error, |output| output.text);
            assert!(!text.contains("canary"), "{name}: {text}");
        }
    }
    let swaps = swapper.swaps();
    assert!(ran > ROUNDS && swaps > 100, "{ran} calls, {swaps} swaps");
    let mut names: Vec<_> = std::fs::read_dir(&outside)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["canary-name.txt", "data.txt", "file.txt"],
        "nothing was written outside"
    );
}

#[tokio::test]
async fn a_call_is_bound_to_the_paths_that_were_judged() {
    let harness = ToolHarness::with_folders(&["work"]);
    harness.write("file.txt", "inside\n");
    std::fs::write(harness.path("../other.txt"), "outside\n").unwrap();
    let mut cx = harness.cx.clone();
    cx.judged = Some([harness.path("file.txt")].into());
    std::fs::remove_file(harness.path("file.txt")).unwrap();
    std::os::unix::fs::symlink("../other.txt", harness.path("file.txt")).unwrap();
    let error = cx.resolve_path("file.txt").unwrap_err().to_string();
    assert_eq!(
        error,
        "`file.txt` leads somewhere else than when the call was checked; call the tool again"
    );
    // A path outside that was approved is as good as one inside.
    cx.judged = Some(
        [cx.workspace
            .resolve_path(&cx.cwd, "../other.txt")
            .unwrap()
            .absolute]
        .into(),
    );
    assert!(cx.resolve_path("../other.txt").is_ok());
}
