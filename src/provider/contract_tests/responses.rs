//! Streams of the Responses API, under the same checks as the other decoders.

use super::*;
use crate::domain::{FreeformInput, ToolSpec};
use crate::provider::responses::ResponsesDecoder;

fn new_responses_decoder() -> StreamDecoder {
    StreamDecoder::new(ResponsesDecoder::default())
}

/// Builds a stream from events between the API's usual first and last ones.
fn build_response_stream(events: &[&str], end: &str) -> String {
    let created = r#"{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[],"usage":null}}"#;
    let mut stream = String::new();
    for data in [created].iter().chain(events).chain([&end]) {
        let kind = data.split('"').nth(3).unwrap();
        stream.push_str(&format!("event: {kind}\ndata: {data}\n\n"));
    }
    stream
}

const COMPLETED: &str = r#"{"type":"response.completed","sequence_number":99,"response":{"id":"resp_1","status":"completed","error":null,"incomplete_details":null,"output":[],"usage":{"input_tokens":35,"input_tokens_details":{"cached_tokens":10},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":44}}}"#;

#[test]
fn responses_decode_reasoning_text_and_tools() {
    let stream = build_response_stream(
        &[
            r#"{"type":"response.in_progress","response":{"status":"in_progress"}}"#,
            r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"early"}}"#,
            r#"{"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}"#,
            r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"Let me "}"#,
            r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":0,"delta":"see. 🤔"}"#,
            r#"{"type":"response.reasoning_summary_text.done","item_id":"rs_1","output_index":0,"summary_index":0,"text":"Let me see. 🤔"}"#,
            r#"{"type":"response.reasoning_summary_part.done","item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"Let me see. 🤔"}}"#,
            r#"{"type":"response.reasoning_summary_part.added","item_id":"rs_1","output_index":0,"summary_index":1,"part":{"type":"summary_text","text":""}}"#,
            r#"{"type":"response.reasoning_summary_text.delta","item_id":"rs_1","output_index":0,"summary_index":1,"delta":"So."}"#,
            r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Let me see. 🤔"},{"type":"summary_text","text":"So."}],"encrypted_content":"gAAA"}}"#,
            r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}}"#,
            r#"{"type":"response.content_part.added","item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}"#,
            r#"{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"Grüße, ","logprobs":[]}"#,
            r#"{"type":"some.new_event","what":[1,2]}"#,
            r#"{"type":"response.output_text.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"\u4e16界 \ud83d\ude00"}"#,
            r#"{"type":"response.output_text.done","item_id":"msg_1","output_index":1,"content_index":0,"text":"Grüße, 世界 😀"}"#,
            r#"{"type":"response.content_part.done","item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","text":"Grüße, 世界 😀","annotations":[]}}"#,
            r#"{"type":"response.output_item.done","output_index":1,"item":{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Grüße, 世界 😀","annotations":[]}]}}"#,
            r#"{"type":"response.output_item.added","output_index":2,"item":{"id":"ws_1","type":"web_search_call","status":"in_progress"}}"#,
            r#"{"type":"response.output_item.done","output_index":2,"item":{"id":"ws_1","type":"web_search_call","status":"completed"}}"#,
            r#"{"type":"response.output_item.added","output_index":3,"item":{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"call_1","name":"read_file"}}"#,
            r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":3,"delta":"{\"path\": \"sr"}"#,
            r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":3,"delta":"c/ü.rs\"}"}"#,
            r#"{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":3,"arguments":"{\"path\": \"src/ü.rs\"}"}"#,
            r#"{"type":"response.output_item.done","output_index":3,"item":{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"path\": \"src/ü.rs\"}","call_id":"call_1","name":"read_file"}}"#,
            r#"{"type":"response.output_item.added","output_index":4,"item":{"id":"fc_2","type":"function_call","status":"in_progress","arguments":"","call_id":"call_2","name":"list"}}"#,
            r#"{"type":"response.output_item.done","output_index":4,"item":{"id":"fc_2","type":"function_call","status":"completed","arguments":"","call_id":"call_2","name":"list"}}"#,
        ],
        COMPLETED,
    );
    let mut expected = vec![
        reasoning("Let me see. 🤔\n\nSo."),
        StreamEvent::ReasoningSignature(r#"{"encrypted_content":"gAAA","id":"rs_1"}"#.into()),
        text("Grüße, 世界 😀"),
        searches(1),
    ];
    expected.extend(tool(0, "read_file", r#"{"path": "src/ü.rs"}"#));
    expected.push(StreamEvent::ToolUseStarted {
        index: 1,
        name: "list".into(),
    });
    expected.push(usage(25, 9, 10, 0));
    // Only the end of the answer shows whether an empty input is complete.
    expected.push(StreamEvent::ToolInput {
        index: 1,
        json: "{}".into(),
    });
    expected.push(StreamEvent::ToolUseCompleted { index: 1 });
    expected.push(stop(StopReason::ToolUse));
    check(
        "reasoning, text and tools",
        new_responses_decoder,
        &stream,
        &expected,
    );
}

fn patch_decoder() -> StreamDecoder {
    let freeform = FreeformInput {
        field: "patch",
        grammar: "",
    };
    let tool = ToolSpec {
        name: "apply_patch".into(),
        description: String::new(),
        schema: serde_json::Value::Null.into(),
        freeform: Some(freeform),
    };
    StreamDecoder::new(ResponsesDecoder::new(&[tool], true))
}

#[test]
fn responses_decode_the_plain_text_of_custom_tools() {
    let added = r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"ctc_1","type":"custom_tool_call","status":"in_progress","call_id":"call_1","name":"apply_patch","input":""}}"#;
    let pieces = [
        r#"{"type":"response.custom_tool_call_input.delta","item_id":"ctc_1","output_index":0,"delta":"+\"ü\"\n"}"#,
        r#"{"type":"response.custom_tool_call_input.delta","item_id":"ctc_1","output_index":0,"delta":"\\t 世"}"#,
    ];
    let input_done = r#"{"type":"response.custom_tool_call_input.done","item_id":"ctc_1","output_index":0,"input":"+\"ü\"\n\\t 世"}"#;
    let done = r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"ctc_1","type":"custom_tool_call","status":"completed","call_id":"call_1","name":"apply_patch","input":"+\"ü\"\n\\t 世"}}"#;
    let end = r#"{"type":"response.completed"}"#;
    let mut expected = tool(0, "apply_patch", r#"{"patch":"+\"ü\"\n\\t 世"}"#).to_vec();
    expected.push(stop(StopReason::ToolUse));
    for (name, events) in [
        ("all events", &[added, pieces[0], pieces[1], input_done, done][..]),
        (
            "without the end of the input",
            &[added, pieces[0], pieces[1], done],
        ),
        (
            "without the end of the item",
            &[added, pieces[0], pieces[1], input_done],
        ),
        ("only the whole input", &[added, input_done]),
        ("only the whole item", &[done]),
        ("pieces before the name", &[pieces[0], pieces[1], done]),
    ] {
        check(
            name,
            patch_decoder,
            &build_response_stream(events, end),
            &expected,
        );
    }
    // Without an end, nothing shows whether the text is complete; it must not be taken for the whole.
    let other = input_done.replace("世", "界");
    for events in [
        &[added, pieces[0], pieces[1]][..],
        &[added, pieces[0], done],
        &[added, pieces[0], pieces[1], &other],
    ] {
        let stream = build_response_stream(events, end);
        let (_, wrong) = run(patch_decoder, [stream.as_bytes()]);
        assert!(wrong.is_some(), "{stream}");
    }
    // A call that was cut off never runs.
    let cut = r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}"#;
    let half = done.replace("completed", "incomplete");
    for events in [&[added, pieces[0]][..], &[added, pieces[0], pieces[1], &half]] {
        let (events, wrong) = run(patch_decoder, [build_response_stream(events, cut).as_bytes()]);
        assert_eq!(wrong, None);
        assert!(
            !events
                .iter()
                .any(|event| matches!(event, StreamEvent::ToolUseCompleted { .. })),
            "{events:?}"
        );
        assert_eq!(events.last(), Some(&stop(StopReason::MaxTokens)));
    }
    // A tool that the request does not define.
    let unknown = done.replace("apply_patch", "other");
    let mut expected = tool(0, "other", r#"{"input":"+\"ü\"\n\\t 世"}"#).to_vec();
    expected.push(stop(StopReason::ToolUse));
    check(
        "unknown tool",
        patch_decoder,
        &build_response_stream(&[&unknown], end),
        &expected,
    );
}

#[test]
fn responses_with_only_whole_items_are_decoded() {
    let stream = build_response_stream(
        &[
            r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"}}"#,
            r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"reasoning","id":"rs_2","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]}}"#,
            r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"message","content":[{"type":"output_text","text":"a"}]}}"#,
            r#"{"type":"response.output_item.done","output_index":3,"item":{"type":"function_call","call_id":"c","name":"a","arguments":"{\"x\":1}"}}"#,
        ],
        r#"{"type":"response.completed"}"#,
    );
    let mut expected = vec![
        StreamEvent::RedactedReasoning(r#"{"encrypted_content":"gAAA","id":"rs_1"}"#.into()),
        reasoning("hm"),
        text("a"),
    ];
    expected.extend(tool(0, "a", r#"{"x":1}"#));
    expected.push(stop(StopReason::ToolUse));
    check("whole items", new_responses_decoder, &stream, &expected);
}

#[test]
fn responses_decode_every_end() {
    let text_delta = r#"{"type":"response.output_text.delta","output_index":0,"delta":"a"}"#;
    let usual = [text_delta];
    let refusal = [
        r#"{"type":"response.refusal.delta","output_index":0,"delta":"I "}"#,
        r#"{"type":"response.refusal.delta","output_index":0,"delta":"won't"}"#,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"refusal","refusal":"I won't"}]}}"#,
    ];
    let words = Some("I won't".to_owned());
    let filtered = r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}"#;
    for (events, end, has_text, reason) in [
        (
            &usual[..],
            r#"{"type":"response.completed","response":{}}"#,
            true,
            StopReason::EndTurn,
        ),
        (
            &usual,
            r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}"#,
            true,
            StopReason::MaxTokens,
        ),
        (
            &usual,
            r#"{"type":"response.completed","response":{"status":"incomplete","incomplete_details":{"reason":"something_new"}}}"#,
            true,
            StopReason::MaxTokens,
        ),
        (&usual, filtered, true, StopReason::Refusal(None)),
        (&refusal, filtered, false, StopReason::Refusal(words.clone())),
        (
            &refusal,
            r#"{"type":"response.completed","response":{"status":"completed"}}"#,
            false,
            StopReason::Refusal(words),
        ),
    ] {
        let mut expected = vec![stop(reason)];
        if has_text {
            expected.insert(0, text("a"));
        }
        check(
            end,
            new_responses_decoder,
            &build_response_stream(events, end),
            &expected,
        );
        // Some gateways send the start twice, and some end with the marker of Chat Completions.
        let repeated_start = "data: {\"type\":\"response.created\",\"response\":{}}\n\n";
        let stream = format!(
            "{repeated_start}{}data: [DONE]\n\n",
            build_response_stream(events, end)
        );
        check(end, new_responses_decoder, &stream, &expected);
    }
}

#[test]
fn responses_tool_call_cut_at_the_output_limit_is_not_completed() {
    let stream = build_response_stream(
        &[
            r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","name":"a","arguments":"{}","status":"completed"}}"#,
            r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","name":"b","arguments":""}}"#,
            r#"{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"x\":"}"#,
            r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","name":"b","arguments":"{\"x\":","status":"incomplete"}}"#,
        ],
        r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}"#,
    );
    let (events, wrong) = run(new_responses_decoder, [stream.as_bytes()]);
    assert_eq!(wrong, None);
    let completed: Vec<_> = events
        .iter()
        .filter(|event| matches!(event, StreamEvent::ToolUseCompleted { .. }))
        .collect();
    assert_eq!(completed, [&StreamEvent::ToolUseCompleted { index: 0 }]);
    assert_eq!(events.last(), Some(&stop(StopReason::MaxTokens)));
}

#[test]
fn malformed_responses_streams_end_with_an_error() {
    let text_delta = r#"{"type":"response.output_text.delta","output_index":0,"delta":"a"}"#;
    let wrong = |end: &str| {
        run(
            new_responses_decoder,
            [build_response_stream(&[text_delta], end).as_bytes()],
        )
        .1
    };
    for error_event in [
        r#"{"type":"error","code":"server_error","message":"x","param":null}"#,
        r#"{"type":"error","error":{"type":"server_error","message":"x"}}"#,
    ] {
        assert_eq!(
            wrong(error_event),
            Some(DecodeError::Reported(error_event.into()))
        );
    }
    let failed = r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"x"}}}"#;
    assert_eq!(
        wrong(failed),
        Some(DecodeError::Reported(
            r#"{"error":{"code":"rate_limit_exceeded","message":"x"}}"#.into()
        ))
    );
    let untyped = run(
        new_responses_decoder,
        [b"data: {\"error\":{\"message\":\"x\"}}\n\n".as_slice()],
    )
    .1;
    assert_eq!(
        untyped,
        Some(DecodeError::Reported(r#"{"error":{"message":"x"}}"#.into()))
    );
    for end in [
        r#"{"type":"response.cancelled","response":{}}"#,
        r#"{"type":"response.in_progress"}"#,
        r#"{"type":"response.completed""#,
        r#"{"type":"response.function_call_arguments.delta","output_index":9,"delta":"{"}"#,
    ] {
        assert!(
            matches!(
                wrong(end),
                Some(DecodeError::Failed(ProviderFault::BrokenStream, _))
            ),
            "{end}"
        );
    }
    assert!(run(new_responses_decoder, [b"".as_slice()]).1.is_some());
}

#[test]
fn responses_decode_searches() {
    let added = |at: u32| {
        format!(
            r#"{{"type":"response.output_item.added","output_index":{at},"item":{{"id":"ws_{at}","type":"web_search_call","status":"in_progress"}}}}"#
        )
    };
    let done = |at: u32, rest: &str| {
        format!(
            r#"{{"type":"response.output_item.done","output_index":{at},"item":{{"id":"ws_{at}","type":"web_search_call",{rest}}}}}"#
        )
    };
    let citation =
        r#"{"type":"url_citation","start_index":0,"end_index":5,"url":"https://a.org/","title":"A"}"#;
    let events = [
        added(0),
        r#"{"type":"response.web_search_call.searching","item_id":"ws_0","output_index":0}"#.to_owned(),
        done(0, r#""status":"completed","action":{"type":"search","query":"hats"}"#),
        done(1, r#""status":"completed","action":{"type":"open_page","url":"https://a.org/"}"#),
        done(2, r#""status":"completed","action":{"type":"search","query":"caps"}"#),
        done(3, r#""status":"failed","action":{"type":"search","query":"x"}"#),
        r#"{"type":"response.output_item.added","output_index":4,"item":{"id":"msg_1","type":"message","content":[]}}"#.to_owned(),
        r#"{"type":"response.output_text.delta","item_id":"msg_1","output_index":4,"content_index":0,"delta":"Hats."}"#.to_owned(),
        format!(r#"{{"type":"response.output_text.annotation.added","item_id":"msg_1","output_index":4,"content_index":0,"annotation_index":0,"annotation":{citation}}}"#),
        format!(r#"{{"type":"response.output_item.done","output_index":4,"item":{{"id":"msg_1","type":"message","content":[{{"type":"output_text","text":"Hats.","annotations":[{citation},{{"type":"file_citation","file_id":"f"}}]}}]}}}}"#),
    ];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let stream = build_response_stream(&events, COMPLETED);
    let expected = [
        searches(1),
        searches(2),
        StreamEvent::Search(SearchReport::Failed("failed".into())),
        text("Hats."),
        source("https://a.org/", "A"),
        source("https://a.org/", "A"),
        usage(25, 9, 10, 0),
        stop(StopReason::EndTurn),
    ];
    check("searches", new_responses_decoder, &stream, &expected);
}
