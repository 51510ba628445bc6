//! Provider faults, each case over every kind of API: what the user sees, the number of requests, and that each wait
//! was as long as announced.
//!
//! The table "When the provider fails" in `docs/recovery.md` says the same in words. Each case has its own session and
//! its own provider, so its own account; all cases of one API kind share a server.

pub mod cases;

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;

use crate::harness::{Client, Config, World, event_log, screen, short};
use crate::mock_llm::Api;
use crate::tls_server;
use cases::{Case, Where, cases};

/// Time that a busy machine may add to a wait.
const SLACK: Duration = Duration::from_secs(30);

/// Waits between retries, in ms, without the random part: see the configuration below.
const WAITS: [u64; 3] = [20, 40, 50];

fn kind(api: Api) -> &'static str {
    match api {
        Api::Anthropic => "anthropic",
        Api::OpenAi => "openai",
        Api::Responses => "openai-responses",
        Api::Gemini => "gemini",
        Api::Ollama => "ollama",
    }
}

/// Returns the address of a port on which nothing listens.
fn unused_address() -> String {
    let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    format!("http://{}", free.local_addr().unwrap())
}

fn provider(world: &World, api: Api, case: &Case) -> String {
    let base = match case.at {
        Where::Mock => world.mock().url_for(api),
        Where::Nobody => unused_address(),
        Where::UnknownCertificate => format!("https://{}", tls_server::start()),
    };
    let mut more = case.settings.to_owned();
    if !case.substitute.is_empty() {
        more.push_str(&format!("\nfallback_model = \"{}\"", model(case, STAND_IN)));
    }
    if !case.next.is_empty() {
        more.push_str(&format!("\nfallback = \"{}{NEXT}\"", account(case)));
    }
    let first = provider_table(api, &base, &account(case), &model(case, FIRST), &more);
    if case.next.is_empty() {
        first
    } else {
        first + &next_provider(world, api, case)
    }
}

/// The configuration of the provider that takes over.
fn next_provider(world: &World, api: Api, case: &Case) -> String {
    let base = world.mock().url_for(api);
    let name = format!("{}{NEXT}", account(case));
    provider_table(api, &base, &name, &model(case, NEXT), "")
}

fn provider_table(api: Api, base: &str, name: &str, model: &str, more: &str) -> String {
    format!(
        "[provider.{name}]\nkind = \"{kind}\"\nbase_url = \"{base}\"\napi_key = \"key\"\nmodel = \"{model}\"\n\
         initial_backoff_ms = {}\nmax_backoff_ms = {}\nmax_retry_after_s = 5\n{more}\n",
        WAITS[0],
        WAITS[2],
        kind = kind(api),
    )
}

/// The name of a case's provider.
fn account(case: &Case) -> String {
    format!("case-{}", case.name)
}

/// Suffixes of a case's model names: the first model, its `fallback_model`, and the next provider's.
const FIRST: &str = "";
const STAND_IN: &str = "-small";
const NEXT: &str = "-next";

fn model(case: &Case, which: &str) -> String {
    format!("{}{which}-model", account(case))
}

/// Sets up cases of an API in a world: providers with the scripted answers, and files.
pub fn prepare_cases(world: &World, api: Api, cases: &[Case], tables: &str) {
    let names: BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len(), "a name is used twice");
    let providers = cases.iter().map(|case| provider(world, api, case));
    let tables = providers.collect::<String>() + tables;
    world.configure(Config {
        tables,
        ..Config::default()
    });
    for name in ["a.txt", "b.txt", "c.txt"] {
        world.write(name, "a\n");
    }
    world.write("large.txt", "a line that says nothing\n".repeat(400));
    // A compacted history changes the prefix of the requests.
    world.mock().allow_rewrites();
    for case in cases {
        for (which, replies) in [
            (FIRST, &case.replies),
            (STAND_IN, &case.substitute),
            (NEXT, &case.next),
        ] {
            for reply in replies {
                world
                    .mock()
                    .push_for(&format!("\"{}\"", model(case, which)), reply.clone());
            }
        }
    }
}

/// Returns the model that a case asks first, with its provider.
pub fn first_model(case: &Case) -> String {
    format!("{}/{}", account(case), model(case, FIRST))
}

fn run(api: Api) {
    let world = World::new();
    let cases = cases(api);
    prepare_cases(&world, api, &cases, "");
    let client = world.start();
    // All cases run at the same time, because many of them spend seconds waiting.
    let prompts: Vec<_> = cases
        .iter()
        .map(|case| {
            let session = client.session_with(json!({"model": first_model(case), "mode": "full"}));
            let id = client.prompt(&session, case.prompt.clone());
            (case, session, id)
        })
        .collect();
    for (case, session, id) in prompts {
        client.prompt_result(&id);
        check(&world, &client, api, case, &session);
    }
    assert_eq!(world.mock().pending(), 0, "the mock has unused answers");
}

fn check(world: &World, client: &Client, api: Api, case: &Case, session: &str) {
    let name = format!("{}, {}", case.name, kind(api));
    let mut lines = event_log(client, session);
    let on_screen: Vec<String> = screen(client, session).iter().map(|text| short(text)).collect();
    lines.push(format!("screen: [{}]", on_screen.join(", ")));
    let requests = check_waits(world, client, case, (session, FIRST), &name);
    lines.push(format!("requests: {requests}"));
    for (which, replies) in [(STAND_IN, &case.substitute), (NEXT, &case.next)] {
        let requests = check_waits(world, client, case, (session, which), &name);
        if replies.is_empty() {
            assert_eq!(requests, 0, "{name}")
        } else {
            lines.push(format!("requests to {}: {requests}", model(case, which)))
        }
    }
    compare(client, case, api, session, &lines);
}

/// Asserts that each gap between two calls of a model matches its announced wait; returns the number of calls.
fn check_waits(
    world: &World,
    client: &Client,
    case: &Case,
    (session, which): (&str, &str),
    name: &str,
) -> usize {
    let model = model(case, which);
    let requests: Vec<_> = world
        .mock()
        .requests()
        .into_iter()
        .filter(|request| request.body["model"] == model)
        .collect();
    let retries = client.all(session, "agent/retry");
    let retries = retries
        .iter()
        .filter(|notification| notification.text("model") == model);
    for (at, notification) in retries.enumerate() {
        let delay = notification.params["delayMs"].as_u64().unwrap();
        let own = WAITS[at.min(WAITS.len() - 1)];
        let expected = match case.requested_wait {
            Some((least, most)) if at == 0 => least..=most + 250,
            _ => own..=own + own / 4 + 1,
        };
        assert!(
            expected.contains(&delay),
            "{name}: wait {at} of {delay} ms, {expected:?} was right"
        );
        let [before, after] = [requests.get(at), requests.get(at + 1)];
        let (Some(before), Some(after)) = (before, after) else {
            continue;
        };
        let gap = after.at - before.at;
        let least = Duration::from_millis(delay);
        assert!(
            gap >= least && gap < least + SLACK + case.takes,
            "{name}: wait {at} took {gap:?}, announced: {delay} ms"
        );
    }
    requests.len()
}

fn compare(client: &Client, case: &Case, api: Api, session: &str, lines: &[String]) {
    let mut text = normalize(&lines.join("\n"), &account(case));
    if kind(api) == "openai-responses" {
        // In this API a second text is a message of its own, so a blank line separates it.
        text = text.replace(r#""here \n\nI am""#, r#""here I am""#);
    }
    if matches!(api, Api::Gemini | Api::Ollama) && case.name == "cut-in-tool" {
        // In these APIs a call arrives whole, so nothing is seen of a cut one.
        text = text.replace(
            "messageRetracted\n",
            "toolInputDelta \"{\\\"path\\\": \\\"x\\\", \\\"con\"\nmessageRetracted, with 1 tool call\n",
        );
    }
    if api == Api::Gemini {
        // This API says why it ended an answer.
        text = text
            .replace("refused: SAFETY", "refused")
            .replace(": \"SAFETY\"", "");
    }
    if let Some(retry_after) = client
        .all(session, "agent/retry")
        .first()
        .map(|notification| notification.params["error"]["retryAfterMs"].to_string())
        && case.requested_wait.is_some_and(|(least, most)| least < most)
    {
        // The value depends on when the test runs.
        text = text.replace(&retry_after, "SOME");
    }
    if let Some(end) = client.all(session, "agent/turnEnded").first()
        && end.params["error"]["code"] == "circuit_open"
    {
        for field in ["retryAfterMs", "resetAt"] {
            text = text.replace(&end.params["error"][field].to_string(), "SOME");
        }
    }
    let name = snapshot_name(case.name, api);
    insta::with_settings!({snapshot_path => "faults/snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(name, text);
    });
}

/// Cases that end differently over Ollama's API: its errors are bare texts without a kind, a line that is no JSON breaks
/// the answer, and no answer says that the model refuses.
const OTHER_AT_OLLAMA: [&str; 4] = [
    "error-event-permanent",
    "malformed-sse",
    "refused-by-the-model",
    "stray-lines",
];

/// Returns the name of the snapshot of a case.
pub fn snapshot_name(case: &str, api: Api) -> String {
    if api == Api::Ollama && OTHER_AT_OLLAMA.contains(&case) {
        format!("{case}-ollama")
    } else {
        case.to_owned()
    }
}

/// Replaces names and ports, so that the text is the same for every API kind and machine.
fn normalize(text: &str, name: &str) -> String {
    let text = text
        .replace(&format!("{name}-model"), "the-model")
        .replace(name, "the-provider");
    let mut clean = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("127.0.0.1:") {
        clean.push_str(&rest[..at]);
        clean.push_str("HOST");
        rest = rest[at + "127.0.0.1:".len()..].trim_start_matches(|c: char| c.is_ascii_digit());
    }
    clean + rest
}

#[test]
fn faults_over_the_messages_api() {
    run(Api::Anthropic);
}

#[test]
fn faults_over_chat_completions() {
    run(Api::OpenAi);
}

#[test]
fn faults_over_the_responses_api() {
    run(Api::Responses);
}

#[test]
fn faults_over_the_gemini_api() {
    run(Api::Gemini);
}

#[test]
fn faults_over_ollamas_api() {
    run(Api::Ollama);
}
