//! Summaries that fail, or whose own request is too long.

use serde_json::json;

use super::mock_llm::Reply;
use super::scenario::Scenario;
use super::*;

/// Lets three summaries fail, each in another way. Each is replaced by a digest.
fn fail_three_summaries(client: &Client, session: &SessionId) {
    // An empty summary, one that is not shorter, and an error each count as a failure.
    let failures = [
        Reply::new().tokens(0, 0),
        Reply::text("blah ".repeat(4_000)).tokens(0, 0),
        Reply::error(401, "authentication_error", "no such key"),
    ];
    for (n, failure) in failures.into_iter().enumerate() {
        client.scenario.push_all([too_long(), failure]);
        let outcome = client.ask(session, long_prompt(&format!("p{n}")));
        assert_eq!(outcome.text, "ok", "{n}");
        let all = compactions(client, session);
        assert_eq!(all.len(), n + 1);
        let summary = all[n].summary.as_ref().unwrap();
        assert!(summary.digest, "{n}: {summary:?}");
        assert!(summary.text.contains("the user said: q1"), "{summary:?}");
        assert_eq!(client.warnings(session, "compaction_failed").len(), n + 1);
        assert_eq!(
            client.warnings(session, "compaction_rests").len(),
            usize::from(n == 2)
        );
        for more in 0..3 {
            client.ask(session, long_prompt(&format!("p{n}{more}")));
        }
    }
}

#[test]
fn failed_summaries_fall_back_to_a_digest_and_disable_compaction_after_three() {
    let scenario = Scenario::new();
    let client = scenario.start();
    let session = session_with_rounds(&client, 6);
    fail_three_summaries(&client, &session);
    let (before, from) = (scenario.requests(), client.reasons(&session).len());
    scenario.push(too_long());
    let outcome = client.ask(&session, "again");
    assert_eq!(
        course(&client, &session, from, &outcome),
        ["prompt_too_long", FULL]
    );
    assert_eq!(scenario.requests(), before + 1, "no summary is requested");
    // It stays disabled after a restart; a successful manual compaction enables it again.
    drop(client);
    let client = scenario.start();
    client.load(&session);
    scenario.push(too_long());
    assert_eq!(describe_end(&client.ask(&session, "again")), FULL);
    scenario.push(notes());
    compact(&client, &session);
    for more in 0..3 {
        client.ask(&session, long_prompt(&format!("r{more}")));
    }
    scenario.push_all([too_long(), notes()]);
    assert_eq!(client.ask(&session, "and now?").text, "ok");
}

#[test]
fn overflowing_summary_request_shrinks_at_most_three_times() {
    let scenario = Scenario::new();
    let client = scenario.start();
    for (refusals, is_digest) in [(3, false), (4, true)] {
        let session = session_with_rounds(&client, 20);
        let before = scenario.requests();
        scenario.push(too_long());
        scenario.push_all((0..refusals).map(|_| too_long()));
        if !is_digest {
            scenario.push(notes());
        }
        assert_eq!(client.ask(&session, "and now?").text, "ok");
        let sizes: Vec<usize> = (before + 1..scenario.requests() - 1)
            .map(|at| scenario.wait_for_request(at))
            .inspect(|request| assert!(asks_for_notes(request)))
            .map(|request| request.raw.len())
            .collect();
        assert_eq!(sizes.len(), 4);
        assert!(
            sizes.windows(2).all(|pair| pair[1] < pair[0] * 2 / 3),
            "{sizes:?}"
        );
        let compaction = compactions(&client, &session).swap_remove(0);
        let summary = compaction.summary.as_ref().unwrap();
        assert_eq!(summary.digest, is_digest, "{summary:?}");
        // A digest covers the part that the model could not read.
        assert!(summary.text.contains("the user said: q1"), "{summary:?}");
    }
}

/// vLLM counts the output limit into the window, and names both.
#[test]
fn a_summary_whose_output_limit_is_refused_is_requested_with_less() {
    let vllm = "'max_tokens' is too large: 8000. This model's maximum context length is 16384 tokens and your request has \
                12000 input tokens (8000 > 16384 - 12000).";
    for (words, limit, later, window) in [
        (vllm, 4_384, 4_096, 16_384),
        (
            "max_tokens is too large: 8000. This model supports at most 2048 completion tokens",
            2_048,
            2_048,
            200_000,
        ),
        ("max_tokens is above the maximum", 4_000, 4_000, 200_000),
    ] {
        let scenario = configured("", "compaction_model = \"other/cheap\"");
        let client = scenario.start();
        let session = session_with_long_answers(&client);
        scenario.push_all([Reply::error(400, "x", words), notes()]);
        assert_eq!(describe_end(&compact(&client, &session)), DONE, "{words}");
        let sent = || last_request(&scenario).body["max_tokens"].clone();
        assert_eq!(sent(), json!(limit), "{words}");
        assert!(!compactions(&client, &session)[0].summary.as_ref().unwrap().digest);
        // The next one knows it.
        add_long_answers(&client, &session, "r", 6);
        scenario.push(notes());
        let before = scenario.requests();
        assert_eq!(describe_end(&compact(&client, &session)), DONE, "{words}");
        assert_eq!(
            (scenario.requests() - before, sent()),
            (1, json!(later)),
            "{words}"
        );
        client.scenario.mock().default_reply(uncounted_ok());
        let other = session_of_model_with_rounds(&client, "other/cheap", 1);
        assert_eq!(last_window(&client, &other), window, "{words}");
    }
}
