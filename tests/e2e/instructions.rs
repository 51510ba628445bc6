//! Instruction files: the system prompt (R-LOOP-5) and skills.

use agentls::protocol::LoadSessionResult;
use serde_json::{Value, json};

use crate::harness::{Client, World};
use crate::mock_llm::{RecordedRequest, Reply};

/// Returns the system prompt of a request.
fn system(request: &RecordedRequest) -> String {
    let blocks = request.body["system"].as_array().cloned().unwrap_or_default();
    blocks
        .iter()
        .map(|block| block["text"].as_str().unwrap())
        .collect()
}

/// Returns code and message of a session's warnings.
fn warnings(client: &Client, session: &str) -> Vec<(String, String)> {
    let notes = client.all(session, "agent/warning");
    let pairs = notes.iter().map(|notification| {
        (
            notification.text("code").to_owned(),
            notification.text("message").to_owned(),
        )
    });
    pairs.collect()
}

/// Returns file name and trust of each file in each `agent/instructions` notification.
fn instructions(client: &Client, session: &str) -> Vec<Vec<String>> {
    let file = |file: &Value| {
        let name = file["path"]
            .as_str()
            .unwrap()
            .rsplit('/')
            .next()
            .unwrap()
            .to_owned();
        format!("{name} {}", file["trusted"])
    };
    let notes = client.all(session, "agent/instructions");
    let reports = notes.iter().map(|notification| {
        notification.params["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(file)
            .collect()
    });
    reports.collect()
}

fn in_user_folder(world: &World, name: &str, text: &str) {
    let path = world.path("config/agentls").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn user_and_workspace_files_form_the_system_prompt() {
    let world = World::new();
    in_user_folder(&world, "SOUL.md", "You are called Ada.");
    in_user_folder(&world, "AGENTS.md", "Prefer small functions.");
    world.write("AGENTS.md", "Run `make check`.\r\n");
    world.write("TOOLS.md", "Use grep for words.");
    // Trust changes the system prompt, and so the prefix of later requests.
    world.mock().allow_rewrites();
    let client = world.start();
    let session = client.session();
    client.ask(&session, "hello");
    let prompt = system(&world.wait_for_request(0));
    let at = |text: &str| {
        prompt
            .find(text)
            .unwrap_or_else(|| panic!("{text:?} is not in {prompt}"))
    };
    let places = ["called Ada", "small functions", "make check", "Use grep"].map(at);
    assert!(places.is_sorted(), "{prompt}");
    assert!(!prompt.contains('\r'));
    // Files of an untrusted folder are included, and labeled as untrusted.
    let expected = [
        "SOUL.md true",
        "AGENTS.md true",
        "AGENTS.md false",
        "TOOLS.md false",
    ];
    assert_eq!(instructions(&client, &session), [expected.map(str::to_owned)]);
    assert!(
        prompt.contains("AGENTS.md (from a folder that the user has not said to trust"),
        "{prompt}"
    );
    assert_eq!(warnings(&client, &session), []);
    // A change of trust is reported, but not as a change of a file.
    let trusted: Value = client.call(
        "agent/setTrust",
        json!({"folder": world.workspace(), "trusted": true}),
    );
    assert!(trusted.is_object());
    client.ask(&session, "again");
    assert!(!system(&world.wait_for_request(1)).contains("has not said to trust"));
    assert_eq!(instructions(&client, &session)[1][2], "AGENTS.md true");
    assert_eq!(warnings(&client, &session), []);
    // The result of a load lists the files, even if its page does not reach back to their notification.
    let page: LoadSessionResult = client.call("agent/loadSession", json!({"sessionId": session, "tail": 0}));
    let files = page.instructions.iter();
    let reported: Vec<(bool, bool)> = files
        .map(|file| (file.path.ends_with(".md"), file.trusted))
        .collect();
    assert_eq!(reported, [(true, true); 4]);
}

/// Returns a request without cache marks, which do not count for the provider's prefix cache.
fn without_marks(request: &RecordedRequest) -> String {
    let text = String::from_utf8(request.raw.to_vec()).unwrap();
    let marks = [
        r#","cache_control":{"type":"ephemeral"}"#,
        r#""cache_control":{"type":"ephemeral"},"#,
    ];
    marks.iter().fold(text, |text, mark| text.replace(mark, ""))
}

/// Returns the part of a request from `key` to the last `end`.
fn part<'a>(request: &'a str, key: &str, end: &str) -> &'a str {
    let start = request.find(key).unwrap();
    let rest = &request[start..];
    &rest[..rest.rfind(end).unwrap_or(rest.len())]
}

#[test]
fn each_request_repeats_the_bytes_of_the_one_before() {
    let world = World::new();
    in_user_folder(&world, "skills/a/SKILL.md", "---\ndescription: for a\n---\nbody");
    world.write("AGENTS.md", "Be careful.");
    for n in 0..20 {
        world.write(&format!("{n}.txt"), format!("file {n}\n"));
        world
            .mock()
            .push(Reply::tool("read_file", json!({"path": format!("{n}.txt")})));
        if n == 10 {
            world.mock().push(Reply::text("half way"));
        }
    }
    let client = world.start();
    let session = client.session_with(json!({"mode": "full"}));
    client.ask(&session, "read all");
    client.ask(&session, "go on");
    assert_eq!(world.requests(), 22);
    let requests: Vec<(String, Value)> = (0..22)
        .map(|n| {
            (
                without_marks(&world.wait_for_request(n)),
                world.wait_for_request(n).body.clone(),
            )
        })
        .collect();
    for pair in requests.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        for key in ["system", "tools"] {
            assert_eq!(
                serde_json::to_string(&before.1[key]).unwrap(),
                serde_json::to_string(&after.1[key]).unwrap()
            );
        }
        // The next request repeats everything up to the bracket that closes the messages, byte by byte.
        let messages = part(&before.0, "\"messages\":[", "]");
        let head = before.0.find("\"messages\":[").unwrap();
        assert_eq!(before.0[..head], after.0[..head]);
        assert!(
            messages.len() > 20 && after.0[head..].starts_with(messages),
            "{messages}\n{}",
            after.0
        );
    }
}

#[test]
fn changed_file_is_reloaded_and_reported_at_the_next_turn() {
    let world = World::new();
    world.write("AGENTS.md", "version one");
    world.mock().allow_rewrites();
    let client = world.start();
    let session = client.session();
    client.ask(&session, "hello");
    let path = world.write("AGENTS.md", "version two");
    world.write("TOOLS.md", "new");
    client.ask(&session, "again");
    let prompt = system(&world.wait_for_request(1));
    assert!(
        prompt.contains("version two") && !prompt.contains("version one"),
        "{prompt}"
    );
    let changed = |message: String| ("instructions_changed".to_owned(), message);
    let tools = world.workspace().canonicalize().unwrap().join("TOOLS.md");
    assert_eq!(
        warnings(&client, &session),
        [
            changed(format!(
                "{} changed; reloaded it",
                path.canonicalize().unwrap().display()
            )),
            changed(format!("{} is new; loaded it", tools.display())),
        ]
    );
    // A restarted server knows which files the session has seen.
    client.kill();
    std::fs::remove_file(&path).unwrap();
    let client = world.start();
    client.load(&session);
    client.ask(&session, "once more");
    assert!(!system(&world.wait_for_request(2)).contains("version two"));
    let reported = warnings(&client, &session);
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert!(reported[0].1.ends_with("AGENTS.md was removed"), "{reported:?}");
    client.ask(&session, "nothing new");
    assert_eq!(instructions(&client, &session).len(), 1);
}

#[test]
fn unusable_instruction_files_warn_and_the_turn_continues() {
    let world = World::new();
    world.write("AGENTS.md", "0123456789abcde\n".repeat(640 << 10));
    let outside = world.path("secret.txt");
    std::fs::write(&outside, "do not tell").unwrap();
    std::os::unix::fs::symlink(&outside, world.workspace().join("SOUL.md")).unwrap();
    world.write(".agentls/skills/broken/SKILL.md", "---\nname: broken\n---\n");
    world.write(
        ".agentls/skills/good/SKILL.md",
        "---\nname: good\ndescription: does good\n---\n",
    );
    let client = world.start();
    let session = client.session();
    assert_eq!(client.ask(&session, "hello").text, "ok");
    let prompt = system(&world.wait_for_request(0));
    assert!(
        prompt.len() < 80_000 && prompt.contains("0123456789abcde"),
        "{}",
        prompt.len()
    );
    assert!(
        !prompt.contains("do not tell")
            && prompt.contains("- good: does good")
            && !prompt.contains("- broken")
    );
    let reported = warnings(&client, &session);
    assert!(
        reported.iter().all(|(code, _)| code == "instructions_problem"),
        "{reported:?}"
    );
    for wanted in [
        "AGENTS.md: it is too long (10485760 bytes)",
        "outside the workspace",
        "needs a `description`",
    ] {
        assert!(
            reported.iter().any(|(_, message)| message.contains(wanted)),
            "{reported:?}"
        );
    }
    // Each problem is reported once.
    client.ask(&session, "again");
    assert_eq!(warnings(&client, &session).len(), 3);
}

#[test]
fn skill_body_is_read_on_demand() {
    let world = World::new();
    world.write(
        ".agentls/skills/release/SKILL.md",
        "---\nname: release\ndescription: >\n  How to make\n  a release.\n---\n\nTag it.\n",
    );
    world.write(".agentls/skills/release/notes.md", "Ask Bo.");
    let read = |input| Reply::tool("read_skill", input);
    world.mock().push(read(json!({"name": "release"})));
    world
        .mock()
        .push(read(json!({"name": "release", "file": "notes.md"})));
    world.mock().push(read(json!({"name": "nothing"})));
    let client = world.start();
    // Reading a skill needs no approval, even in mode `plan`.
    let session = client.session_with(json!({"mode": "plan"}));
    client.ask(&session, "release it");
    let prompt = system(&world.wait_for_request(0));
    assert!(
        prompt.contains("- release: How to make a release.") && !prompt.contains("Tag it."),
        "{prompt}"
    );
    let results: Vec<String> = (1..4)
        .map(|n| world.wait_for_request(n).messages().last().unwrap().to_string())
        .collect();
    assert!(
        results[0].contains("Tag it.") && results[0].contains("The skill's folder:"),
        "{results:?}"
    );
    assert!(results[1].contains("Ask Bo."), "{results:?}");
    assert!(results[2].contains("unknown skill"), "{results:?}");
}

#[test]
fn read_skill_is_offered_only_if_there_is_a_skill() {
    let world = World::new();
    // A new skill changes the system prompt and the tools.
    world.mock().allow_rewrites();
    let client = world.start();
    let session = client.session();
    let has_tool = |request| {
        let request = world.wait_for_request(request);
        let tools = request.body["tools"].to_string();
        assert!(tools.contains("read_file"), "{tools}");
        tools.contains("read_skill")
    };
    client.ask(&session, "no skill yet");
    assert!(!has_tool(0));
    world.write(
        ".agentls/skills/release/SKILL.md",
        "---\ndescription: How to release.\n---\nTag it.\n",
    );
    client.ask(&session, "now there is one");
    assert!(has_tool(1));
}
