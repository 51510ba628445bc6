//! Streams of the Gemini API.

use super::*;
use crate::provider::gemini::GeminiDecoder;

fn gemini() -> StreamDecoder {
    StreamDecoder::new(GeminiDecoder::default())
}

/// Returns the stream with one event for each list of parts, and its last event.
fn stream(parts: &[&str], last: &str) -> String {
    let events = parts.iter().map(|parts| {
        format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{parts}],\"role\":\"model\"}},\"index\":0}}]}}\n\n")
    });
    events.collect::<String>() + &format!("data: {last}\n\n")
}

fn end(reason: &str) -> String {
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[{{"text":""}}],"role":"model"}},"finishReason":"{reason}","index":0}}],"usageMetadata":{{"promptTokenCount":35,"candidatesTokenCount":5,"thoughtsTokenCount":4,"cachedContentTokenCount":10}}}}"#
    )
}

#[test]
fn gemini_decodes_thoughts_text_and_calls() {
    let stream = stream(
        &[
            r#"{"text":"Let me see.","thought":true}"#,
            r#"{"text":"Grüße, "}"#,
            r#"{"text":"\u4e16界 😀"}"#,
            r#"{"functionCall":{"name":"read_file","args":{"path":"a"},"id":"c1"},"thoughtSignature":"sig"},{"functionCall":{"name":"list"}}"#,
        ],
        &end("STOP"),
    );
    let mut expected = vec![reasoning("Let me see."), text("Grüße, 世界 😀")];
    expected.extend(tool(0, "read_file", r#"{"path":"a"}"#));
    expected.extend(tool(1, "list", "{}"));
    expected.extend([usage(25, 9, 10, 0), stop(StopReason::ToolUse)]);
    check("thoughts, text and calls", gemini, &stream, &expected);
}

#[test]
fn gemini_decodes_searches() {
    let page = |uri: &str, title: &str| format!(r#"{{"web":{{"uri":"{uri}","title":"{title}"}}}}"#);
    let grounded = |words: &str, queries: &str, pages: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{words}\"}}],\"role\":\"model\"}},\"index\":0,\
             \"groundingMetadata\":{{\"webSearchQueries\":[{queries}],\"groundingChunks\":[{pages}],\
             \"searchEntryPoint\":{{\"renderedContent\":\"<b>x</b>\"}},\"groundingSupports\":[]}}}}]}}\n\n"
        )
    };
    let (a, b) = (page("https://a.org/", "a.org"), page("https://b.org/", "b.org"));
    let stream = grounded("Hats ", "\"hats\"", &a)
        + &grounded("and caps.", "\"hats\",\"caps\"", &format!("{a},{b}"))
        + &stream(&[], &end("STOP"));
    let expected = [
        text("Hats "),
        searches(1),
        source("https://a.org/", "a.org"),
        text("and caps."),
        searches(2),
        source("https://a.org/", "a.org"),
        source("https://b.org/", "b.org"),
        usage(25, 9, 10, 0),
        stop(StopReason::EndTurn),
    ];
    check("searches", gemini, &stream, &expected);
}

#[test]
fn gemini_keeps_every_signature() {
    let stream = stream(
        &[
            r#"{"text":"a","thoughtSignature":"s1"}"#,
            r#"{"functionCall":{"name":"f","args":{}},"thoughtSignature":"s2"}"#,
            r#"{"text":"","thoughtSignature":"s3"}"#,
        ],
        &end("STOP"),
    );
    let (mut decoder, mut out) = (gemini(), EventQueue::default());
    decoder.push(stream.as_bytes(), &mut out).unwrap();
    let mut found = Vec::new();
    while let Some(event) = out.take() {
        match event {
            StreamEvent::RedactedReasoning(signature) => found.push(signature),
            StreamEvent::ToolUseAttached { id: None, extra, .. } => found.push(extra.unwrap().to_string()),
            _ => {}
        }
    }
    assert_eq!(
        found,
        [
            r#"{"has_text":true,"thoughtSignature":"s1"}"#,
            r#"{"thoughtSignature":"s2"}"#,
            r#"{"has_text":false,"thoughtSignature":"s3"}"#,
        ]
    );
}

#[test]
fn gemini_decodes_every_finish_reason() {
    for (reason, expected) in [
        ("STOP", StopReason::EndTurn),
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("SAFETY", StopReason::Refusal(Some("SAFETY".into()))),
        (
            "PROHIBITED_CONTENT",
            StopReason::Refusal(Some("PROHIBITED_CONTENT".into())),
        ),
        ("SOMETHING_NEW", StopReason::EndTurn),
    ] {
        let stream = stream(&[r#"{"text":"a"}"#], &end(reason));
        let expected = [text("a"), usage(25, 9, 10, 0), stop(expected)];
        check(reason, gemini, &stream, &expected);
    }
    let blocked =
        r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":35}}"#;
    let expected = [
        usage(35, 0, 0, 0),
        stop(StopReason::Refusal(Some("PROHIBITED_CONTENT".into()))),
    ];
    check("blocked", gemini, &stream(&[], blocked), &expected);
}

#[test]
fn gemini_reports_failures() {
    let wrong = |last: &str| run(gemini, [stream(&[r#"{"text":"a"}"#], last).as_bytes()]).1;
    let fault = |last: &str| match wrong(last) {
        Some(DecodeError::Failed(fault, _)) => Some(fault),
        _ => None,
    };
    assert_eq!(
        fault(&end("MALFORMED_FUNCTION_CALL")),
        Some(ProviderFault::BrokenStream)
    );
    assert_eq!(
        fault(&end("MISSING_THOUGHT_SIGNATURE")),
        Some(ProviderFault::InvalidRequest)
    );
    assert_eq!(fault("{nonsense"), Some(ProviderFault::BrokenStream));
    let nameless = r#"{"candidates":[{"content":{"parts":[{"functionCall":{"args":{}}}]}}]}"#;
    assert_eq!(fault(nameless), Some(ProviderFault::BrokenStream));
    let overloaded = r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#;
    assert_eq!(wrong(overloaded), Some(DecodeError::Reported(overloaded.into())));
}
