//! The provider faults of the main protocol, seen through this one: nothing stale is left on the screen (R-ACP).
//!
//! Each case must leave the texts that the main protocol leaves, which its snapshots hold. If text is held until the end
//! of its message, no line about discarded text appears at all.

use serde_json::{Value, json};

use super::client::AcpClient;
use crate::faults::cases::{Case, cases, streams};
use crate::faults::{first_model, prepare_cases, snapshot_name};
use crate::harness::{World, is_sample, short};
use crate::mock_llm::Api;

/// The default, in which text is shown at once.
const SHOWN_AT_ONCE: &str = "";
/// The settings in which text is held until the end of its message.
const HELD_TO_THE_END: &str = "\n[acp]\nhold_text_ms = 600000\n";
/// The settings in which some cases show text that is discarded later.
const HELD_FOR_A_WHILE: &str = "\n[acp]\nhold_text_ms = 250\n";

fn run(api: Api, cases: Vec<Case>, settings: &str) {
    let world = World::new();
    prepare_cases(&world, api, &cases, settings);
    // All cases run at the same time, because many of them spend seconds waiting. Each has a provider, and each session
    // lists the models of all providers of its client, so few sessions share a client.
    let groups: Vec<CaseGroup> = cases
        .chunks(20)
        .map(|cases| CaseGroup::start(&world, cases))
        .collect();
    for (name, updates) in groups.iter().flat_map(CaseGroup::wait) {
        let (screen, discarded) = read_screen(updates.iter());
        let screen: Vec<String> = screen.iter().map(|text| short(text)).collect();
        let mut screen = format!("screen: [{}]", screen.join(", "));
        if api == Api::Responses {
            // In this API a second text is a message of its own, so a blank line separates it.
            screen = screen.replace(r#""here \n\nI am""#, r#""here I am""#);
        }
        assert_eq!(screen, expected_screen(name, api), "{name}, {api:?}");
        if settings == HELD_TO_THE_END {
            assert_eq!(discarded, 0, "{name}: stale text was shown");
        }
    }
}

/// Cases in sessions of one client.
struct CaseGroup {
    client: AcpClient,
    /// The name of each, its session, and its prompt.
    prompts: Vec<(String, String, i64)>,
}

impl CaseGroup {
    fn start(world: &World, cases: &[Case]) -> Self {
        let client = AcpClient::start(world, json!({}));
        let start = |case: &Case| {
            let session = client.new_session(world);
            for (option, value) in [("model", first_model(case).as_str()), ("mode", "full")] {
                let params = json!({"sessionId": session, "configId": option, "value": value});
                client.call("session/set_config_option", params);
            }
            let params = json!({"sessionId": session, "prompt": to_blocks(&case.prompt)});
            let id = client.request("session/prompt", params);
            (case.name.to_owned(), session, id)
        };
        let prompts = cases.iter().map(start).collect();
        Self { client, prompts }
    }

    /// Returns the name of each case and the updates of its session, once all have ended.
    fn wait(&self) -> Vec<(&str, Vec<Value>)> {
        for (_, _, id) in &self.prompts {
            self.client.answer(*id);
        }
        let updates = self.client.taken_session_updates();
        let of = |session: &str| {
            let own = updates.iter().filter(|(of, _)| of == session);
            own.map(|(_, update)| update.clone()).collect()
        };
        let cases = self.prompts.iter();
        cases
            .map(|(name, session, _)| (name.as_str(), of(session)))
            .collect()
    }
}

/// Converts a prompt of the main protocol.
fn to_blocks(prompt: &Value) -> Value {
    let Value::Array(blocks) = prompt else {
        return json!([{"type": "text", "text": prompt}]);
    };
    let convert = |block: &Value| match block["mediaType"].as_str() {
        Some(media_type) => json!({"type": "image", "mimeType": media_type, "data": block["data"]}),
        None => block.clone(),
    };
    blocks.iter().map(convert).collect()
}

/// Returns the texts that a reader takes as the answer, and the number of lines about discarded text.
fn read_screen<'a>(updates: impl Iterator<Item = &'a Value>) -> (Vec<String>, usize) {
    let mut texts: Vec<(String, String)> = Vec::new();
    let mut discarded = 0;
    for update in updates.filter(|update| update["sessionUpdate"] == "agent_message_chunk") {
        let own = &update["_meta"]["agentls"];
        if own["event"] == "messageRetracted" {
            discarded += 1;
            texts.retain(|(id, _)| own["messageId"] != id.as_str());
            continue;
        }
        let id = update["messageId"].as_str().unwrap();
        let text = update["content"]["text"].as_str().unwrap();
        match texts.iter_mut().find(|(known, _)| known == id) {
            Some((_, all)) => all.push_str(text),
            None => texts.push((id.to_owned(), text.to_owned())),
        }
    }
    (texts.into_iter().map(|(_, text)| text).collect(), discarded)
}

/// Reads what the main protocol leaves on the screen.
fn expected_screen(case: &str, api: Api) -> String {
    let path = format!(
        "{}/tests/e2e/faults/snapshots/{}.snap",
        env!("CARGO_MANIFEST_DIR"),
        snapshot_name(case, api)
    );
    let snapshot = std::fs::read_to_string(path).unwrap();
    let line = snapshot.lines().find(|line| line.starts_with("screen: "));
    line.unwrap().to_owned()
}

/// A sample has all faults over one API, with the default settings. Of the others, it has those within a stream: they
/// are what holding text and the APIs' formats change.
fn sampled(api: Api) -> Vec<Case> {
    if is_sample() { streams(api) } else { cases(api) }
}

#[test]
fn faults_over_the_messages_api() {
    run(Api::Anthropic, cases(Api::Anthropic), SHOWN_AT_ONCE);
}

#[test]
fn faults_over_the_messages_api_with_held_text() {
    run(Api::Anthropic, sampled(Api::Anthropic), HELD_TO_THE_END);
}

#[test]
fn faults_over_the_messages_api_with_a_short_hold() {
    run(Api::Anthropic, sampled(Api::Anthropic), HELD_FOR_A_WHILE);
}

#[test]
fn faults_over_chat_completions() {
    run(Api::OpenAi, sampled(Api::OpenAi), SHOWN_AT_ONCE);
}

#[test]
fn faults_over_chat_completions_with_held_text() {
    run(Api::OpenAi, streams(Api::OpenAi), HELD_TO_THE_END);
}

#[test]
fn faults_over_the_responses_api() {
    run(Api::Responses, sampled(Api::Responses), SHOWN_AT_ONCE);
}

#[test]
fn faults_over_the_responses_api_with_held_text() {
    run(Api::Responses, streams(Api::Responses), HELD_TO_THE_END);
}

#[test]
fn faults_over_the_gemini_api_with_a_short_hold() {
    run(Api::Gemini, streams(Api::Gemini), HELD_FOR_A_WHILE);
}

#[test]
fn faults_over_ollamas_api_with_a_short_hold() {
    run(Api::Ollama, streams(Api::Ollama), HELD_FOR_A_WHILE);
}
