//! Property tests over arbitrary bytes: nothing panics, a stream has exactly one end, and chunk boundaries make no
//! difference. The same holds for what a cassette plays.

use std::sync::Arc;

use futures::StreamExt;
use proptest::prelude::*;
use proptest::sample::select;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::account::tests::build_account;
use super::classify::{self, RefusedResponse};
use super::fuzz_tests::{DECODERS, check_order, decode_answer, decode_events};
use super::request::tests::build_request;
use super::script::Script;
use super::{Provider, ProviderFault};
use crate::config::ApiKind;
use crate::domain::Message;

/// Generates bytes that look like a stream, and some that do not.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let frames = [
        "data: ",
        "data:",
        "event: error\n",
        ":",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "\u{feff}",
        "id: 1\n",
    ];
    let piece = prop_oneof![
        3 => select(frames.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        4 => json().prop_map(|text| format!("data: {text}\n\n").into_bytes()),
        1 => json().prop_map(String::into_bytes),
        2 => prop::collection::vec(any::<u8>(), 0..12),
    ];
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

/// Generates a value that one of the APIs could send, with unusual numbers and texts.
fn json() -> impl Strategy<Value = String> {
    let shapes = [
        r#"{"type":"message_start","message":{"usage":{"input_tokens":N,"output_tokens":N,"cache_read_input_tokens":N}}}"#,
        r#"{"type":"content_block_start","index":I,"content_block":{"type":"text","text":"S"}}"#,
        r#"{"type":"content_block_start","index":I,"content_block":{"type":"thinking","thinking":"S","signature":"S"}}"#,
        r#"{"type":"content_block_start","index":I,"content_block":{"type":"redacted_thinking","data":"S"}}"#,
        r#"{"type":"content_block_start","index":I,"content_block":{"type":"tool_use","id":"S","name":"S","input":{}}}"#,
        r#"{"type":"content_block_start","index":I,"content_block":{"type":"tool_use","name":"S","input":{"a":N}}}"#,
        r#"{"type":"content_block_delta","index":I,"delta":{"type":"text_delta","text":"S"}}"#,
        r#"{"type":"content_block_delta","index":I,"delta":{"type":"thinking_delta","thinking":"S"}}"#,
        r#"{"type":"content_block_delta","index":I,"delta":{"type":"signature_delta","signature":"S"}}"#,
        r#"{"type":"content_block_delta","index":I,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}"#,
        r#"{"type":"content_block_start","index":I,"content_block":{"type":"web_search_tool_result","content":[{"url":"S","title":"S"}]}}"#,
        r#"{"type":"content_block_start","index":I,"content_block":{"type":"web_search_tool_result","content":{"error_code":"S"}}}"#,
        r#"{"type":"content_block_delta","index":I,"delta":{"type":"citations_delta","citation":{"url":"S"}}}"#,
        r#"{"type":"message_delta","delta":{},"usage":{"server_tool_use":{"web_search_requests":N}}}"#,
        r#"{"type":"response.output_item.done","output_index":I,"item":{"type":"web_search_call","status":"R"}}"#,
        r#"{"type":"response.output_text.annotation.added","output_index":I,"annotation":{"type":"url_citation","url":"S","title":"S"}}"#,
        r#"{"candidates":[{"groundingMetadata":{"webSearchQueries":["S"],"groundingChunks":[{"web":{"uri":"S","title":"S"}}]}}]}"#,
        r#"{"type":"content_block_stop","index":I}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"R"},"usage":{"output_tokens":N}}"#,
        r#"{"type":"message_stop"}"#,
        r#"{"type":"ping"}"#,
        r#"{"type":"S"}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"S","reasoning_content":"S","refusal":"S"}}]}"#,
        r#"{"choices":[{"index":I,"delta":{"tool_calls":[{"index":I,"id":"S","function":{"name":"S","arguments":"{"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"id":"S","function":{"arguments":{"a":N}}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":N,"function":{"name":"S"}},{"function":{"name":""}}]}}]}"#,
        r#"{"choices":[{"delta":{"function_call":{"name":"S","arguments":"S"}},"finish_reason":"R"}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"R"}]}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":N,"completion_tokens":N,"total_tokens":N,"cost":N,
            "prompt_tokens_details":{"cached_tokens":N,"cache_write_tokens":N}}}"#,
        r#"{"type":"response.created","response":{"status":"in_progress"}}"#,
        r#"{"type":"response.output_item.added","output_index":I,"item":{"type":"message","content":[]}}"#,
        r#"{"type":"response.output_item.added","output_index":I,"item":{"type":"reasoning","id":"S","summary":[]}}"#,
        r#"{"type":"response.output_item.added","output_index":I,"item":{"type":"function_call","name":"S","arguments":""}}"#,
        r#"{"type":"response.output_item.done","output_index":I,"item":{"type":"message","content":[{"type":"output_text","text":"S"},{"refusal":"S"}]}}"#,
        r#"{"type":"response.output_item.done","output_index":I,"item":{"type":"reasoning","summary":[{"text":"S"}],"encrypted_content":"S"}}"#,
        r#"{"type":"response.output_item.done","output_index":I,"item":{"type":"function_call","name":"S","arguments":"{}","status":"R"}}"#,
        r#"{"type":"response.output_item.done","output_index":I,"item":{"type":"S"}}"#,
        r#"{"type":"response.output_text.delta","output_index":I,"delta":"S"}"#,
        r#"{"type":"response.refusal.delta","output_index":I,"delta":"S"}"#,
        r#"{"type":"response.reasoning_summary_part.added","output_index":I,"summary_index":I}"#,
        r#"{"type":"response.reasoning_summary_text.delta","output_index":I,"delta":"S"}"#,
        r#"{"type":"response.reasoning_text.delta","output_index":N,"delta":"S"}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":I,"delta":"{\"a\":"}"#,
        r#"{"type":"response.completed","response":{"status":"R","usage":{"input_tokens":N,"output_tokens":N,"input_tokens_details":{"cached_tokens":N}}}}"#,
        r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"R"}}}"#,
        r#"{"type":"response.failed","response":{"error":{"code":"S","message":"S"}}}"#,
        r#"{"type":"response.completed"}"#,
        r#"{"error":{"message":"S","type":"S","code":N}}"#,
        "[DONE]",
        "null",
    ];
    let reasons = [
        "stop",
        "tool_calls",
        "length",
        "content_filter",
        "end_turn",
        "tool_use",
        "pause_turn",
        "S",
        "error",
        "incomplete",
        "failed",
    ];
    let numbers = [
        "0",
        "1",
        "4294967295",
        "18446744073709551615",
        "-1",
        "1e400",
        "0.5",
        "null",
    ];
    (
        select(shapes.to_vec()),
        0..3_u32,
        select(numbers.to_vec()),
        "[a-zé\\\\\"]{0,5}",
        select(reasons.to_vec()),
    )
        .prop_map(|(shape, index, number, text, reason)| {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            let filled = shape
                .replace('\n', "")
                .replace(":I", &format!(":{index}"))
                .replace(":N", &format!(":{number}"));
            filled
                .replace("\"R\"", &format!("\"{reason}\""))
                .replace("\"S\"", &format!("\"{text}\""))
        })
}

fn cut<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// Generates texts with words that error classification looks for.
fn words() -> impl Strategy<Value = String> {
    let known = [
        "maximum context length is ",
        "tokens > ",
        " > ",
        "must be <= ",
        "limit ",
        "2026-12-01 at 00:00 utc",
        "9999-99-99",
        "0000-00-00t99:99",
        "regain access on ",
        "insufficient_quota",
        "<title>",
        "</title>",
        "<html>",
        "\"retryDelay\": \"",
        "32s\"",
        "PerMinute",
        "18446744073709551616",
        "200,000",
        "İ",
        "é",
        "\u{fffd}",
    ];
    let piece = prop_oneof![3 => select(known.to_vec()).prop_map(str::to_owned), 2 => "\\PC{0,6}"];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn error_body() -> impl Strategy<Value = String> {
    let shaped = || {
        (words(), words(), any::<u64>()).prop_map(|(message, code, number)| {
            serde_json::json!({"error": {"message": message, "type": code, "code": number, "status": code,
            "n_ctx": number, "metadata": {"raw": message}}, "request_id": code})
            .to_string()
        })
    };
    prop_oneof![
        words(),
        shaped(),
        shaped().prop_map(|body| format!("[{body}]")),
        json(),
        words().prop_map(|text| serde_json::json!({"detail": [{"msg": text}, text]}).to_string()),
    ]
}

/// Generates an event of a cassette.
fn beat() -> impl Strategy<Value = String> {
    prop_oneof![
        ("[a-zé]{0,6}", prop::option::of(0..4_usize)).prop_map(|(text, chunk)| match chunk {
            Some(chunk) => format!(r#"{{"text": "{text}", "chunk": {chunk}, "delay_ms": 20}}"#),
            None => format!(r#"{{"text": "{text}"}}"#),
        }),
        Just(r#"{"reasoning": "hm", "chunk": 1}"#.to_owned()),
        Just(r#"{"delay_ms": 300}"#.to_owned()),
        Just(r#"{"tool": {"name": "t", "input": {"a": 1}}}"#.to_owned()),
        Just(r#"{"usage": {"input": 18446744073709551615, "cost": 1e300}}"#.to_owned()),
        select(vec![
            "tool_use",
            "max_tokens",
            "refusal",
            "pause_turn",
            "window_full",
            "other"
        ])
        .prop_map(|stop| format!(r#"{{"stop": "{stop}"}}"#)),
        any::<u16>().prop_map(|status| format!(r#"{{"error": {{"status": {status}, "message": "no"}}}}"#)),
        Just(r#"{"cut": true}"#.to_owned()),
    ]
}

proptest! {
    #[test]
    fn chunk_boundaries_do_not_change_server_sent_events(bytes in bytes(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let whole = decode_events([&bytes[..]]);
        prop_assert_eq!(&decode_events(cut(&bytes, &cuts)), &whole);
        prop_assert_eq!(&decode_events(bytes.chunks(1)), &whole);
    }

    #[test]
    fn any_bytes_decode_to_exactly_one_end(bytes in bytes(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        for make in DECODERS {
            let (events, failure) = decode_answer(make(), [&bytes[..]]);
            prop_assert_eq!(check_order(&events), failure.is_none(), "{:?}", events);
            prop_assert_eq!(&decode_answer(make(), cut(&bytes, &cuts)), &(events, failure));
        }
    }

    #[test]
    fn any_refusal_is_classified_with_a_bounded_message(
        status in prop_oneof![select(vec![200_u16, 302, 400, 401, 402, 403, 404, 413, 429, 500, 529]), any::<u16>()],
        body in error_body(),
        kind in select(vec![ApiKind::Anthropic, ApiKind::OpenAi, ApiKind::Responses, ApiKind::Gemini, ApiKind::Ollama]),
        base in select(vec!["https://api.example.com/v1", "http://localhost:11434/v1"]),
        headers in prop::collection::vec(
            (select(vec!["retry-after", "retry-after-ms", "x-ratelimit-reset", "request-id", "location", "content-type"]), words()),
            0..3,
        ),
    ) {
        let account = build_account("work", kind, base);
        let headers: HeaderMap = headers
            .iter()
            .filter_map(|(name, value)| {
                Some((HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).ok()?))
            })
            .collect();
        let refusal = RefusedResponse { account: &account, model: "m", status, headers: &headers, body: &body, parts: None };
        for failure in [classify::classify_response(&refusal), classify::classify_stream_error(&account, "m", &body)] {
            let error = account.build_provider_error("m", failure);
            prop_assert!(!error.message.trim().is_empty(), "{:?}", error);
            prop_assert!(error.message.chars().count() <= 2_001, "{}", error.message.len());
        }
    }

    #[test]
    fn any_cassette_plays_exactly_one_end(beats in prop::collection::vec(beat(), 0..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let script = Script::parse("demo", &format!(r#"{{"events": [{}]}}"#, beats.join(","))).unwrap();
        let request = Arc::new(build_request("m", vec![Message::user_text("hello")]));
        runtime.block_on(async {
            let mut stream = match script.open_stream(request.clone()).await {
                Ok(stream) => stream,
                Err(error) => {
                    prop_assert_ne!(error.fault, ProviderFault::Local);
                    return Ok(());
                }
            };
            let (mut events, mut wrong) = (Vec::new(), 0);
            while let Some(event) = stream.next().await {
                prop_assert_eq!(wrong, 0, "something behind the error");
                match event {
                    Ok(event) => events.push(event),
                    Err(_) => wrong += 1,
                }
            }
            prop_assert_eq!(check_order(&events), wrong == 0);
            // The exchange is used up.
            prop_assert!(script.open_stream(request.clone()).await.is_err());
            Ok(())
        })?;
    }

    #[test]
    fn any_cassette_text_parses_or_fails_without_panic(text in prop_oneof![words(), json(), error_body()], keep in any::<prop::sample::Index>()) {
        let _ = Script::parse("demo", &text);
        let good = r#"{"cassette": 1, "exchanges": [{"events": [{"text": "é"}, {"stop": "end_turn"}]}]}"#;
        let kept = keep.index(good.len());
        prop_assert!(!good.is_char_boundary(kept) || Script::parse("demo", &good[..kept]).is_err());
    }
}
