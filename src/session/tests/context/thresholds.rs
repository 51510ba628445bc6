//! When a conversation is summarized before a call, and when no call is made.

use serde_json::json;

use super::mock_llm::Reply;
use super::*;

#[test]
fn large_prompts_and_a_small_window_never_block_a_session() {
    let scenario = configured("[model.\"other-model\"]\ncontext_window = 32768\n", "");
    scenario.mock().allow_rewrites();
    scenario
        .mock()
        .respond_with(|request| (request.raw.len() > 120_000).then(too_long));
    scenario.mock().default_reply(uncounted_ok());
    let client = scenario.start();
    let session = client.session_of_model("other/other-model");
    for round in 0..6 {
        let words = if round < 3 {
            "word ".repeat(9_400)
        } else {
            "short".to_owned()
        };
        let outcome = client.ask(&session, format!("q{round}: {words}"));
        assert_eq!(describe_end(&outcome), DONE, "{round}");
    }
    assert!(!compactions(&client, &session).is_empty());
    assert_eq!(client.warnings(&session, "compaction_failed"), [""; 0]);
}

/// Returns the messages of the request that follows a summary, where `last` is the number of the last prompt. Of what
/// was summarized, the user's newest messages stay, up to an eighth of the window.
fn expected_outline(last: usize) -> [String; 11] {
    [
        "user q0".to_owned(),
        format!("user q{}", last - 5),
        format!("user q{}", last - 4),
        format!("user q{}", last - 3),
        "user [Previous conversation summary]".to_owned(),
        "assistant ok".to_owned(),
        format!("user q{}", last - 2),
        "assistant ok".to_owned(),
        format!("user q{}", last - 1),
        "assistant ok".to_owned(),
        format!("user q{last}"),
    ]
}

#[test]
fn conversation_above_the_threshold_is_summarized_before_the_call() {
    // The threshold of a window of 30,000 tokens is 16,356.
    let scenario = configured("[model.small]\ncontext_window = 30000", "");
    let client = scenario.start();
    answer_requests_for_notes(&scenario);
    let session = session_of_model_with_rounds(&client, "mock/small", 0);
    let mut rounds = 0;
    while compactions(&client, &session).is_empty() {
        let prompt = long_prompt(&format!("q{rounds}")).repeat(2);
        assert_eq!(client.ask(&session, prompt).text, "ok");
        rounds += 1;
        assert!(rounds < 40, "it is never made smaller");
    }
    let last = rounds - 1;
    let compaction = compactions(&client, &session).swap_remove(0);
    assert_eq!(compaction.trigger, CompactTrigger::Threshold);
    // All of the summarized part but its last three.
    let dropped = last - 6;
    assert_eq!(
        summary_text(&compaction),
        format!(
            "the user wants lorem ipsum\n\n[{dropped} messages of the user from this part are only in these notes]"
        )
    );
    assert!(compaction.tokens_before > 16_356);
    assert!(compaction.tokens_after < 13_000);
    // The note about the environment is one more.
    assert_eq!(compaction.messages_before as usize, 2 * last + 2);
    let expected = expected_outline(last);
    assert_eq!(message_outline(&last_request(&scenario)), expected);
    let notes_request = scenario.wait_for_request(scenario.requests() - 2);
    assert!(asks_for_notes(&notes_request));
    let text = notes_request.last_text();
    let (before, transcript) = text.split_once("Transcript:").unwrap();
    assert!(before.contains("User: q0: lorem"), "{before}");
    assert!(transcript.contains("User: q1: lorem") && !transcript.contains("User: q0"));
    // The summary is not part of the conversation: its usage counts, but its answer is not a message.
    let shown = client
        .deltas(&session)
        .into_iter()
        .filter_map(|delta| match delta {
            Delta::Text { text, .. } => Some(text),
            _ => None,
        });
    assert_eq!(shown.collect::<String>(), "ok".repeat(rounds));
    assert_eq!(client.inspect(&session).metrics.compactions, 1);
    // The stored history is complete, and a restarted server sends the same request.
    drop(client);
    let client = scenario.start();
    client.load(&session);
    let stored = client.stored_events(&session);
    let messages = stored.iter().filter(|event| match event {
        Event::Message(message) => !message.hidden,
        _ => false,
    });
    assert_eq!(messages.count(), 2 * rounds);
    client.ask(&session, "next");
    let second_outline = message_outline(&last_request(&scenario));
    assert_eq!(second_outline[..expected.len()], expected);
}

#[test]
fn provider_token_count_corrects_the_next_estimate() {
    // The threshold of a window of 30,000 tokens is 16,356; the conversation is estimated at half of that.
    let scenario = configured("[model.small]\ncontext_window = 30000", "");
    let client = scenario.start();
    answer_requests_for_notes(&scenario);
    let session = session_of_model_with_rounds(&client, "mock/small", 8);
    // If the provider counts nothing, the usage shows the estimate.
    let used = client.all(&session, |event| match event {
        Event::Usage { context_used, .. } => Some(*context_used),
        _ => None,
    });
    let used = used.last().unwrap();
    assert!((4_500..16_356).contains(used), "{used}");
    scenario.push(Reply::text("ok").tokens(17_000, 0));
    client.ask(&session, "count");
    assert!(compactions(&client, &session).is_empty());
    client.ask(&session, "next");
    let compaction = compactions(&client, &session).swap_remove(0);
    assert_eq!(compaction.trigger, CompactTrigger::Threshold);
    assert!(
        (17_000..17_500).contains(&compaction.tokens_before),
        "{compaction:?}"
    );
}

#[test]
fn compaction_threshold_follows_the_settings() {
    let window = "[model.small]\ncontext_window = 40000";
    for (agent, compacts) in [
        ("", false),
        ("compaction_threshold = 0.6", true),
        ("compaction_limit = 22000", true),
        ("output_reserve = 10000", true),
        ("output_reserve = 10000\ncompaction_threshold = 0.9", false),
    ] {
        let scenario = configured(window, agent);
        let client = scenario.start();
        answer_requests_for_notes(&scenario);
        let session = session_of_model_with_rounds(&client, "mock/small", 8);
        scenario.push(Reply::text("ok").tokens(22_800, 0));
        client.ask(&session, "count");
        client.ask(&session, "next");
        assert_eq!(!compactions(&client, &session).is_empty(), compacts, "{agent:?}");
    }
}

#[test]
fn prompt_larger_than_the_window_fails_without_a_call() {
    let scenario = configured("[model.small]\ncontext_window = 20000", "");
    let client = scenario.start();
    let session = session_of_model_with_rounds(&client, "mock/small", 6);
    let (before, from) = (scenario.requests(), client.reasons(&session).len());
    let outcome = client.ask(&session, "x".repeat(100_000));
    assert_eq!(
        course(&client, &session, from, &outcome),
        ["prompt_too_long", FULL]
    );
    let message = outcome.end.error.unwrap().message;
    assert!(message.contains("20000 tokens"), "{message}");
    assert_eq!(scenario.requests(), before, "no provider is called");
}

#[test]
fn full_window_blocks_without_auto_compact() {
    let scenario = configured("[model.small]\ncontext_window = 20000", "auto_compact = false");
    let client = scenario.start();
    let session = session_of_model_with_rounds(&client, "mock/small", 6);
    scenario.push(too_long());
    let from = client.reasons(&session).len();
    let blocked = ["blocking_limit", "blocking_limit / failed / context_limit"];
    let outcome = client.ask(&session, "refused");
    assert_eq!(
        course(&client, &session, from, &outcome),
        blocked,
        "the provider says so"
    );
    let mut rounds = 0;
    let outcome = loop {
        let before = scenario.requests();
        let outcome = client.ask(&session, long_prompt("more"));
        if scenario.requests() == before {
            break outcome;
        }
        rounds += 1;
        assert!(rounds < 40, "the window never fills");
    };
    assert_eq!(describe_end(&outcome), blocked[1]);
    let action = outcome.end.error.unwrap().user_action.unwrap();
    assert!(action.contains("auto_compact"), "{action}");
    assert!(compactions(&client, &session).is_empty());
    // A compaction by hand still works.
    scenario.push(notes());
    assert_eq!(describe_end(&compact(&client, &session)), DONE);
    assert_eq!(client.ask(&session, "now?").text, "ok");
}

#[test]
fn another_model_may_write_the_summary() {
    for (named, model, path) in [
        ("other/cheap", "cheap", "/chat/completions"),
        // The first part is not a provider, so it belongs to the name.
        ("Org/model", "Org/model", "/messages"),
    ] {
        let scenario = configured("", &format!("compaction_model = {named:?}"));
        let client = scenario.start();
        let session = session_with_long_answers(&client);
        scenario.push(notes());
        compact(&client, &session);
        let request = last_request(&scenario);
        assert_eq!(request.body["model"], json!(model));
        assert!(request.path.ends_with(path), "{}", request.path);
        assert_eq!(last_window(&client, &session), 200_000);
    }
}
