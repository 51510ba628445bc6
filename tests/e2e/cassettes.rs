//! Records traffic of every provider kind and plays it back: the run repeats exactly, and the tape has no secrets.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::harness::{Client, Config, World, event_log};
use crate::mock_llm::{Gate, Reply};

const KINDS: [&str; 3] = ["anthropic", "openai", "openai-responses"];

/// A configuration with one provider, which has the same name when it records and when it plays.
fn provider(world: &World, kind: &str, lines: &str) -> Config {
    let base = match kind {
        "anthropic" => world.mock().anthropic_url(),
        _ => world.mock().openai_url(),
    };
    let [_, header, ..] = world.secrets() else {
        unreachable!()
    };
    let key = format!(
        "api_key = \"${{E2E_SECRET_KEY}}\"\nheaders = {{ x-canary = \"Bearer {header}\" }}\nbase_url = \"{base}\""
    );
    let key = if kind == "script" { String::new() } else { key };
    Config {
        full_text: Some(format!(
            "[provider.work]\nkind = \"{kind}\"\nmodel = \"work-model\"\ninitial_backoff_ms = 20\n\
             max_backoff_ms = 50\n{key}\n{lines}\n[agent.default]\nprovider = \"work\"\n[logging]\nfilter = \"warn\"\n",
        )),
        ..Config::default()
    }
}

const PROMPTS: [&str; 5] = ["look into it", "count", "something bad", "decline it", "think"];

fn replies(world: &World) -> Vec<Reply> {
    let all = world.secrets().join(" and ");
    vec![
        Reply::error(429, "rate_limit_error", &format!("slow down, {all}"))
            .header("retry-after-ms", "30")
            .header("request-id", "req_7"),
        Reply::text("I look.").call_raw("read_file", "{ \"path\": \"a.txt\" }", 5),
        Reply::text("half of the an").close(),
        Reply::text("the whole answer").tokens(70, 5).cached(20, 0),
        Reply::text("one, tw").stop("max_tokens"),
        Reply::text("one, two, three"),
        Reply::error(400, "invalid_request_error", &format!("nonsense with {all}")),
        Reply::text("no").stop("refusal"),
        Reply::new().reasoning("hm, hm").with_text("so be it"),
    ]
}

fn run_prompts(client: &Client) -> Vec<String> {
    let session = client.session();
    for prompt in PROMPTS {
        client.ask(&session, prompt);
    }
    event_log(client, &session)
}

#[test]
fn recorded_session_plays_back_identically() {
    for kind in KINDS {
        let world = World::new();
        let tape = world.path("tapes/work.jsonl");
        world.configure(provider(
            &world,
            kind,
            &format!("record = \"{}\"", tape.display()),
        ));
        let replies = replies(&world);
        let calls = replies.len();
        replies.into_iter().for_each(|reply| world.mock().push(reply));
        let client = world.start();
        world.write("a.txt", format!("the key is {}\n", world.secrets()[0]));
        let original = run_prompts(&client);
        assert_eq!(world.requests(), calls, "{kind}");
        // A call that the client cancels.
        let gate = Gate::new();
        world.mock().push(Reply::text("half").gate(&gate));
        let session = client.session();
        let id = client.prompt(&session, "never mind");
        client.next(&session, "agent/textDelta");
        client.cancel(&session);
        client.prompt_result(&id);
        world.wait_until(|| std::fs::read_to_string(&tape).unwrap().contains("cancelled"));
        drop(client);

        let text = std::fs::read_to_string(&tape).unwrap();
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), calls + 1, "{kind}: {text}");
        assert!(
            lines.iter().all(|line| line["recorded"]["kind"] == kind),
            "{kind}: {text}"
        );
        let first = &lines[0]["events"][0]["error"];
        assert_eq!(
            (&first["status"], &first["retry_after_ms"], &first["request_id"]),
            (&429.into(), &30.into(), &"req_7".into()),
            "{kind}: {first}"
        );
        for secret in world.secrets() {
            assert!(!text.contains(secret.as_str()), "{kind}: {secret} is in {text}");
        }
        let mode = std::fs::metadata(&tape).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{kind}");

        world.configure(provider(
            &world,
            "script",
            &format!("cassette = \"{}\"", tape.display()),
        ));
        let request_count = world.requests();
        let client = world.start();
        // The server no longer knows the key.
        world.write("a.txt", "the key is secret\n");
        let played = run_prompts(&client);
        assert_eq!(played, original, "{kind}");
        assert_eq!(world.requests(), request_count, "{kind}");
        // A recorded cancel plays as a cut stream.
        let session = client.session();
        client.ask(&session, "never mind");
        let log = event_log(&client, &session).join("\n");
        assert!(
            log.contains("the call was broken off when it was recorded"),
            "{kind}: {log}"
        );
    }
}

#[test]
fn killed_server_leaves_only_complete_tape_lines() {
    let world = World::new();
    let tape = world.path("work.jsonl");
    world.configure(provider(
        &world,
        "anthropic",
        &format!("record = \"{}\"", tape.display()),
    ));
    world.mock().default_reply(Reply::flood(200_000, 1_000));
    for round in 0..3 {
        let client = world.start();
        let session = client.session();
        client.ask(&session, "one");
        let before = world.requests();
        let _ = client.prompt(&session, "two");
        world.wait_for_request(before);
        client.kill();
        let text = std::fs::read_to_string(&tape).unwrap();
        assert!(text.ends_with('\n'), "round {round}");
        let is_complete = text
            .lines()
            .all(|line| serde_json::from_str::<Value>(line).is_ok());
        assert!(is_complete && text.lines().count() > round, "round {round}");
    }
}

#[test]
fn unwritable_tape_warns_once_and_fails_no_call() {
    let world = World::new();
    world.configure(provider(&world, "openai", "record = \"/dev/full\""));
    let client = world.start();
    let session = client.session();
    for _ in 0..3 {
        assert_eq!(client.ask(&session, "hello").text, "ok");
    }
    world.wait_until(|| client.log().contains("cannot record calls to"));
    assert_eq!(client.log().matches("cannot record calls to").count(), 1);
    let warnings = client.all(&session, "agent/warning");
    let warnings: Vec<_> = warnings
        .iter()
        .filter(|notification| notification.text("code") == "recording_failed")
        .map(|notification| notification.text("message"))
        .collect();
    assert!(
        warnings.len() == 1
            && warnings[0].contains("cannot record calls of")
            && warnings[0].contains("to /dev/full: "),
        "{warnings:?}"
    );
}
