//! One suite over all decoders, with streams in the APIs' real formats.
//!
//! Split at every byte, or fed byte by byte, a stream gives the same events. Cut off at any byte, it gives one clean
//! error. No tool call with incomplete input is ever completed.

mod findings;
mod gemini;
mod mutation;
mod ollama;
mod responses;
mod thoughts;

use std::collections::BTreeMap;

use super::anthropic::MessagesDecoder;
use super::decode::{DecodeError, EventQueue, StreamDecoder};
use super::error::ProviderFault;
use super::openai::ChatDecoder;
use super::stream::{SearchReport, StopReason, StreamEvent};
use crate::domain::{Cost, Usage};

type Make = fn() -> StreamDecoder;

fn messages() -> StreamDecoder {
    StreamDecoder::new(MessagesDecoder::default())
}

fn chat() -> StreamDecoder {
    StreamDecoder::new(ChatDecoder::default())
}

fn run<'a>(
    make: Make,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<StreamEvent>, Option<DecodeError>) {
    let (mut decoder, mut out, mut events) = (make(), EventQueue::default(), Vec::new());
    for chunk in chunks {
        let result = decoder.push(chunk, &mut out);
        while let Some(event) = out.take() {
            join(&mut events, event);
        }
        match result {
            Err(wrong) => return (events, Some(wrong)),
            Ok(_) if out.has_stopped() => return (events, None),
            Ok(_) => {}
        }
    }
    let result = decoder.finish_stream(&mut out);
    while let Some(event) = out.take() {
        join(&mut events, event);
    }
    (events, result.err())
}

/// Adds an event and joins pieces of one kind, because their boundaries depend on the chunks of bytes.
fn join(events: &mut Vec<StreamEvent>, event: StreamEvent) {
    // `findings` compares attachments.
    if matches!(event, StreamEvent::ToolUseAttached { .. }) {
        return;
    }
    match (events.last_mut(), &event) {
        (Some(StreamEvent::Text(a)), StreamEvent::Text(b))
        | (Some(StreamEvent::Reasoning(a)), StreamEvent::Reasoning(b)) => a.push_str(b),
        (Some(StreamEvent::ToolInput { index, json }), StreamEvent::ToolInput { index: i, json: more })
            if index == i =>
        {
            json.push_str(more);
        }
        _ => events.push(event),
    }
}

fn check(name: &str, make: Make, stream: &str, expected: &[StreamEvent]) {
    let (bytes, crlf) = (stream.as_bytes(), stream.replace('\n', "\r\n"));
    for bytes in [bytes, crlf.as_bytes()] {
        assert_eq!(run(make, [bytes]), (expected.to_vec(), None), "{name}");
        assert_eq!(
            run(make, bytes.chunks(1)),
            (expected.to_vec(), None),
            "{name}, byte by byte"
        );
    }
    for cut in 0..bytes.len() {
        let (events, wrong) = run(make, [&bytes[..cut], &bytes[cut..]]);
        assert_eq!(
            (events.as_slice(), wrong),
            (expected, None),
            "{name}, cut at {cut}"
        );
        check_cut_off(name, make, &bytes[..cut], expected);
    }
}

/// Checks a stream that was cut off: its events are the beginning of the expected ones, and it ends with an error.
fn check_cut_off(name: &str, make: Make, bytes: &[u8], expected: &[StreamEvent]) {
    let (events, wrong) = run(make, [bytes]);
    let stopped = matches!(events.last(), Some(StreamEvent::Stop(_)));
    assert_eq!(stopped, wrong.is_none(), "{name}, cut off at {}", bytes.len());
    let broken = matches!(
        wrong,
        None | Some(DecodeError::Failed(ProviderFault::BrokenStream, _))
    );
    assert!(broken, "{name}, cut off at {}: {wrong:?}", bytes.len());
    let text = |events: &[StreamEvent]| -> String {
        events
            .iter()
            .filter_map(|e| {
                if let StreamEvent::Text(t) = e {
                    Some(t.as_str())
                } else {
                    None
                }
            })
            .collect()
    };
    assert!(
        text(expected).starts_with(&text(&events)),
        "{name}, cut off at {}",
        bytes.len()
    );
    let mut inputs = BTreeMap::new();
    for event in &events {
        match event {
            StreamEvent::ToolInput { index, json } => {
                inputs.entry(*index).or_insert_with(String::new).push_str(json);
            }
            StreamEvent::ToolUseCompleted { index } => {
                assert!(expected.contains(event), "{name}: {event:?}");
                let parsed = serde_json::from_str::<serde_json::Value>(&inputs[index]);
                assert!(parsed.is_ok(), "{name}, cut off at {}: {inputs:?}", bytes.len());
            }
            _ => {}
        }
    }
}

fn text(text: &str) -> StreamEvent {
    StreamEvent::Text(text.into())
}

fn reasoning(text: &str) -> StreamEvent {
    StreamEvent::Reasoning(text.into())
}

fn usage(input: u64, output: u64, cache_read: u64, cache_write: u64) -> StreamEvent {
    StreamEvent::Usage {
        usage: Usage {
            input,
            output,
            cache_read,
            cache_write,
        },
        cost: None,
    }
}

fn tool(index: u32, name: &str, json: &str) -> [StreamEvent; 3] {
    [
        StreamEvent::ToolUseStarted {
            index,
            name: name.into(),
        },
        StreamEvent::ToolInput {
            index,
            json: json.into(),
        },
        StreamEvent::ToolUseCompleted { index },
    ]
}

fn searches(count: u32) -> StreamEvent {
    StreamEvent::Search(SearchReport::Searches(count))
}

fn source(url: &str, title: &str) -> StreamEvent {
    StreamEvent::Search(SearchReport::Source(crate::domain::WebSource {
        url: url.into(),
        title: title.into(),
    }))
}

fn stop(reason: StopReason) -> StreamEvent {
    StreamEvent::Stop(reason)
}

const MESSAGE_START: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":7,"cache_read_input_tokens":3,"output_tokens":1,"service_tier":"standard"}}}

"#;

const AGAIN: &str = "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":0}}}\n\n";

fn anthropic(events: &str) -> String {
    format!("{MESSAGE_START}{events}")
}

#[test]
fn messages_decode_thinking_text_and_tools() {
    let stream = anthropic(
        r#"event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"see. 🤔"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"opaque"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}

event: some_new_event
data: {"type":"some_new_event","what":[1,2]}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Grüße, "}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"new_delta","x":1}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"\u4e16界 \ud83d\ude00"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: content_block_start
data: {"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_1","name":"read_file","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"path\": \"sr"}}

event: content_block_delta
data: {"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"c/ü.rs\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":4}

event: content_block_start
data: {"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"toolu_2","name":"list","input":{}}}

event: content_block_stop
data: {"type":"content_block_stop","index":5}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89}}

event: message_stop
data: {"type":"message_stop"}

"#,
    );
    let mut expected = vec![
        usage(25, 1, 3, 7),
        reasoning("Let me see. 🤔"),
        StreamEvent::ReasoningSignature("EqQB".into()),
        StreamEvent::RedactedReasoning("opaque".into()),
        text("Grüße, 世界 😀"),
    ];
    expected.extend(tool(4, "read_file", r#"{"path": "src/ü.rs"}"#));
    expected.push(StreamEvent::ToolUseStarted {
        index: 5,
        name: "list".into(),
    });
    expected.push(usage(25, 89, 3, 7));
    // Only the end of the answer shows whether an empty input is complete.
    expected.push(StreamEvent::ToolInput {
        index: 5,
        json: "{}".into(),
    });
    expected.push(StreamEvent::ToolUseCompleted { index: 5 });
    expected.push(stop(StopReason::ToolUse));
    check("thinking, text and tools", messages, &stream, &expected);
}

#[test]
fn messages_decode_searches() {
    let stream = anthropic(
        r#"event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"I look. "}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"hats\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"https://a.org/","title":"A","encrypted_content":"x","page_age":null},{"type":"web_search_result","url":"https://b.org/","title":"B","encrypted_content":"y"}]}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"web_search_tool_result","tool_use_id":"srvtoolu_2","content":{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: content_block_start
data: {"type":"content_block_start","index":4,"content_block":{"type":"text","text":"","citations":[]}}

event: content_block_delta
data: {"type":"content_block_delta","index":4,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","url":"https://b.org/","title":"B","encrypted_index":"z","cited_text":"hats"}}}

event: content_block_delta
data: {"type":"content_block_delta","index":4,"delta":{"type":"text_delta","text":"Hats."}}

event: content_block_stop
data: {"type":"content_block_stop","index":4}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9,"server_tool_use":{"web_search_requests":2}}}

event: message_stop
data: {"type":"message_stop"}

"#,
    );
    let expected = [
        usage(25, 1, 3, 7),
        text("I look. "),
        source("https://a.org/", "A"),
        source("https://b.org/", "B"),
        StreamEvent::Search(SearchReport::Failed("max_uses_exceeded".into())),
        source("https://b.org/", "B"),
        text("Hats."),
        usage(25, 9, 3, 7),
        searches(2),
        stop(StopReason::EndTurn),
    ];
    check("searches", messages, &stream, &expected);
}

#[test]
fn messages_decode_every_stop_reason() {
    let block = r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}

"#;
    let end = |delta: &str| {
        let end = format!(
            "data: {{\"type\":\"message_delta\",\"delta\":{delta},\"usage\":{{\"output_tokens\":2}}}}\n\n"
        );
        // Some gateways send the start twice, and some end with OpenAI's marker.
        anthropic(&format!(
            "{AGAIN}{block}{end}data: {{\"type\":\"message_stop\"}}\n\ndata: [DONE]\n\n"
        ))
    };
    for (delta, reason) in [
        (
            r#"{"stop_reason":"end_turn","stop_sequence":null}"#,
            StopReason::EndTurn,
        ),
        (
            r#"{"stop_reason":"stop_sequence","stop_sequence":"x"}"#,
            StopReason::EndTurn,
        ),
        (r#"{"stop_reason":"max_tokens"}"#, StopReason::MaxTokens),
        (r#"{"stop_reason":"pause_turn"}"#, StopReason::PauseTurn),
        (
            r#"{"stop_reason":"model_context_window_exceeded"}"#,
            StopReason::WindowFull,
        ),
        (r#"{"stop_reason":"refusal"}"#, StopReason::Refusal(None)),
        (
            r#"{"stop_reason":"refusal","stop_details":{"explanation":"no"}}"#,
            StopReason::Refusal(Some("no".into())),
        ),
        (r#"{"stop_reason":"something_new"}"#, StopReason::EndTurn),
        (r#"{"stop_reason":"tool_use"}"#, StopReason::EndTurn),
    ] {
        let expected = [usage(25, 1, 3, 7), text("a"), usage(25, 2, 3, 7), stop(reason)];
        check(delta, messages, &end(delta), &expected);
    }
}

#[test]
fn messages_tool_call_cut_at_the_output_limit_is_not_completed() {
    for partial in ["{\\\"path\\\": \\\"sr", ""] {
        let stream = anthropic(&format!(
            r#"data: {{"type":"content_block_start","index":0,"content_block":{{"type":"tool_use","id":"t","name":"w","input":{{}}}}}}

data: {{"type":"content_block_delta","index":0,"delta":{{"type":"input_json_delta","partial_json":"{partial}"}}}}

data: {{"type":"content_block_stop","index":0}}

data: {{"type":"message_delta","delta":{{"stop_reason":"max_tokens"}},"usage":{{"output_tokens":1}}}}

data: {{"type":"message_stop"}}

"#
        ));
        let (events, wrong) = run(messages, [stream.as_bytes()]);
        assert_eq!(wrong, None);
        assert!(
            !events
                .iter()
                .any(|event| matches!(event, StreamEvent::ToolUseCompleted { .. })),
            "{events:?}"
        );
        assert_eq!(events.last(), Some(&stop(StopReason::MaxTokens)));
    }
}

#[test]
fn malformed_messages_streams_end_with_an_error() {
    let decode_error = |events: &str| run(messages, [anthropic(events).as_bytes()]).1;
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    assert_eq!(
        decode_error(&format!("event: error\ndata: {overloaded}\n\n")),
        Some(DecodeError::Reported(overloaded.into()))
    );
    let untyped = r#"{"error":{"message":"x"}}"#;
    assert_eq!(
        decode_error(&format!("data: {untyped}\n\n")),
        Some(DecodeError::Reported(untyped.into()))
    );
    for events in [
        "",
        "data: {not json}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":9,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}}\n\n",
    ] {
        assert!(
            matches!(
                decode_error(events),
                Some(DecodeError::Failed(ProviderFault::BrokenStream, _))
            ),
            "{events}"
        );
    }
}

fn chunk(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\
         \"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":{finish}}}]}}\n\n"
    )
}

fn deltas(deltas: &[&str], finish: &str) -> String {
    let mut stream: String = deltas.iter().map(|delta| chunk(delta, "null")).collect();
    stream.push_str(&chunk("{}", &format!("\"{finish}\"")));
    stream
}

const USAGE: &str = r#"data: {"id":"c","choices":[],"usage":{"prompt_tokens":35,"completion_tokens":9,"total_tokens":44,"prompt_tokens_details":{"cached_tokens":10},"completion_tokens_details":{"reasoning_tokens":4}}}

"#;

const DONE: &str = "data: [DONE]\n\n";

#[test]
fn chat_decodes_text_tools_and_usage() {
    let stream = deltas(
        &[
            r#"{"role":"assistant","content":"","refusal":null}"#,
            r#"{"content":"Grüße, "}"#,
            r#"{"content":"\u4e16界 😀"}"#,
            r#"{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"read_file","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"a\"}"}}]}"#,
            r#"{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"list","arguments":""}}]}"#,
        ],
        "tool_calls",
    );
    let mut expected = vec![text("Grüße, 世界 😀")];
    expected.extend(tool(0, "read_file", r#"{"path":"a"}"#));
    let completed = expected.pop().unwrap();
    expected.push(StreamEvent::ToolUseStarted {
        index: 1,
        name: "list".into(),
    });
    expected.push(usage(25, 9, 10, 0));
    expected.push(completed);
    expected.push(StreamEvent::ToolInput {
        index: 1,
        json: "{}".into(),
    });
    expected.push(StreamEvent::ToolUseCompleted { index: 1 });
    expected.push(stop(StopReason::ToolUse));
    let stream = format!(": OPENROUTER PROCESSING\n\n{stream}{USAGE}{DONE}");
    check("text, tools and usage", chat, &stream, &expected);
}

#[test]
fn chat_decodes_reasoning_under_every_field_name() {
    for first in [
        r#"{"reasoning_content":"hm"}"#,
        r#"{"reasoning":"hm"}"#,
        r#"{"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm"}]}"#,
        r#"{"reasoning":"","reasoning_details":[{"type":"reasoning.summary","summary":"hm"}]}"#,
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}"#,
        r#"{"content":"","reasoning_content":"hm","reasoning":null}"#,
    ] {
        let stream = deltas(&[first, r#"{"content":"yes","reasoning_content":null}"#], "stop") + DONE;
        let mut expected = vec![reasoning("hm"), text("yes"), stop(StopReason::EndTurn)];
        // The server that gave these details requires them back unchanged.
        let delta: serde_json::Value = serde_json::from_str(first).unwrap();
        if let Some(details) = delta.get("reasoning_details") {
            let opaque = serde_json::json!({"reasoning_details": details}).to_string();
            expected.insert(2, StreamEvent::RedactedReasoning(opaque));
        }
        check(first, chat, &stream, &expected);
    }
}

/// The streams of the other APIs are repaired in the same place.
#[test]
fn characters_that_are_cut_in_two_are_joined() {
    let pieces = [
        r#"{"content":"Go \ud83d"}"#,
        r#"{"content":"\ude80 now"}"#,
        r#"{"content":" \ud83d!"}"#,
    ];
    let stream = deltas(&pieces, "stop") + DONE;
    let expected = [text("Go 🚀 now \u{fffd}!"), stop(StopReason::EndTurn)];
    check("halves", chat, &stream, &expected);
}

#[test]
fn chat_decodes_every_variant_of_tool_calls() {
    let call = r#"{"function":{"name":"a","arguments":"{\"x\":1}"}"#;
    let two: &[&[&str]] = &[
        // Indexes, ids, or neither; whole calls or pieces.
        &[&format!(
            r#"{{"tool_calls":[{call},"index":0}},{{"index":1,"function":{{"name":"b","arguments":"{{}}"}}}}]}}"#
        )],
        &[&format!(
            r#"{{"tool_calls":[{call}}},{{"function":{{"name":"b","arguments":"{{}}"}}}}]}}"#
        )],
        &[
            &format!(r#"{{"tool_calls":[{call},"id":"1"}}]}}"#),
            r#"{"tool_calls":[{"id":"2","function":{"name":"b","arguments":"{}"}}]}"#,
        ],
        // Every call has index 0.
        &[
            &format!(r#"{{"tool_calls":[{call},"index":0,"id":"1"}}]}}"#),
            r#"{"tool_calls":[{"index":0,"id":"2","function":{"name":"b","arguments":"{}"}}]}"#,
        ],
        // The arguments are an object.
        &[
            r#"{"tool_calls":[{"index":0,"function":{"name":"a","arguments":{"x":1}}},{"index":1,"function":{"name":"b","arguments":{}}}]}"#,
        ],
        // Every piece repeats the name, and pieces have no index.
        &[
            r#"{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":"{\"x\""}}]}"#,
            r#"{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":":1}"}}]}"#,
            r#"{"tool_calls":[{"id":"2","function":{"name":"b","arguments":""}}]}"#,
            r#"{"tool_calls":[{"function":{"arguments":"{}"}}]}"#,
        ],
        // The input arrives before the name.
        &[
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\""}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"name":"a","arguments":":1}"}}]}"#,
            r#"{"tool_calls":[{"index":1,"function":{"name":"b","arguments":"{}"}}]}"#,
        ],
    ];
    let [started_a, input_a, completed_a] = tool(0, "a", r#"{"x":1}"#);
    let [started_b, input_b, completed_b] = tool(1, "b", "{}");
    let expected = [
        started_a,
        input_a,
        started_b,
        input_b,
        completed_a,
        completed_b,
        stop(StopReason::ToolUse),
    ];
    for calls in two {
        // Several servers say "stop" where they mean "tool_calls".
        for finish in ["tool_calls", "stop"] {
            let stream = deltas(calls, finish) + DONE;
            check(&format!("{calls:?}"), chat, &stream, &expected);
        }
    }
    let old = deltas(
        &[r#"{"function_call":{"name":"a","arguments":"{\"x\":1}"}}"#],
        "function_call",
    ) + DONE;
    let expected: Vec<_> = tool(0, "a", r#"{"x":1}"#)
        .into_iter()
        .chain([stop(StopReason::ToolUse)])
        .collect();
    check("function_call", chat, &old, &expected);
}

#[test]
fn chat_decodes_every_finish_reason() {
    for (finish, reason) in [
        ("stop", StopReason::EndTurn),
        ("length", StopReason::MaxTokens),
        ("content_filter", StopReason::Refusal(None)),
        ("sensitive", StopReason::Refusal(None)),
        ("safety", StopReason::Refusal(None)),
        ("SAFETY", StopReason::Refusal(None)),
        ("PROHIBITED_CONTENT", StopReason::Refusal(None)),
        ("content_filtered", StopReason::Refusal(None)),
        ("guardrail_intervened", StopReason::Refusal(None)),
        ("tool_calls", StopReason::EndTurn),
        ("something_new", StopReason::EndTurn),
    ] {
        // With and without the closing marker, and with the usage in the last piece.
        for end in [DONE, ""] {
            let stream = deltas(&[r#"{"content":"a"}"#], finish) + end;
            check(finish, chat, &stream, &[text("a"), stop(reason.clone())]);
        }
    }
    let refused = deltas(&[r#"{"refusal":"I "}"#, r#"{"refusal":"won't"}"#], "stop") + DONE;
    check(
        "refusal",
        chat,
        &refused,
        &[stop(StopReason::Refusal(Some("I won't".into())))],
    );
    let full_message = r#"data: {"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}"#;
    let (events, wrong) = run(chat, [full_message.as_bytes()]);
    assert_eq!(
        (events, wrong),
        (vec![text("a"), stop(StopReason::EndTurn)], None)
    );
}

#[test]
fn chat_decodes_usage_in_every_format() {
    let with = |usage: &str| {
        let stream = deltas(&[r#"{"content":"a"}"#], "stop")
            + &format!("data: {{\"choices\":[],\"usage\":{usage}}}\n\n")
            + DONE;
        run(chat, [stream.as_bytes()]).0[1].clone()
    };
    assert_eq!(
        with(r#"{"prompt_tokens":35,"completion_tokens":9}"#),
        usage(35, 9, 0, 0)
    );
    let deepseek = r#"{"prompt_tokens":35,"completion_tokens":9,"prompt_cache_hit_tokens":30,"prompt_cache_miss_tokens":5}"#;
    assert_eq!(with(deepseek), usage(5, 9, 30, 0));
    let moonshot = r#"{"prompt_tokens":35,"completion_tokens":9,"cached_tokens":30}"#;
    assert_eq!(with(moonshot), usage(5, 9, 30, 0));
    let impossible = r#"{"prompt_tokens":1e18,"completion_tokens":9}"#;
    assert_eq!(with(impossible), stop(StopReason::EndTurn));
    let uncounted = r#"{"prompt_tokens":35,"completion_tokens":9,"total_tokens":100}"#;
    assert_eq!(with(uncounted), usage(35, 65, 0, 0));
    let router = r#"{"prompt_tokens":35,"completion_tokens":9,"cost":0.0125,"prompt_tokens_details":{"cached_tokens":20,"cache_write_tokens":5}}"#;
    let expected = StreamEvent::Usage {
        usage: Usage {
            input: 10,
            output: 9,
            cache_read: 20,
            cache_write: 5,
        },
        cost: Some(Cost(12_500_000)),
    };
    assert_eq!(with(router), expected);
    assert_eq!(with("null"), stop(StopReason::EndTurn));
}

#[test]
fn chat_tool_call_cut_at_the_output_limit_is_not_completed() {
    let calls = r#"{"tool_calls":[{"index":0,"function":{"name":"a","arguments":"{}"}},{"index":1,"function":{"name":"b","arguments":"{\"x\":"}}]}"#;
    let (events, wrong) = run(chat, [(deltas(&[calls], "length") + DONE).as_bytes()]);
    assert_eq!(wrong, None);
    let completed: Vec<_> = events
        .iter()
        .filter(|event| matches!(event, StreamEvent::ToolUseCompleted { .. }))
        .collect();
    assert_eq!(completed, [&StreamEvent::ToolUseCompleted { index: 0 }]);
}

#[test]
fn malformed_chat_streams_end_with_an_error() {
    let first_chunk = chunk(r#"{"content":"a"}"#, "null");
    let wrong = |rest: &str| run(chat, [format!("{first_chunk}{rest}").as_bytes()]).1;
    for error_event in [
        r#"{"error":{"message":"x","code":502}}"#,
        r#"{"error":"stopped"}"#,
        r#"{"object":"error","message":"x","code":400}"#,
        r#"{"id":"c","error":{"code":"server_error","message":"x"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}"#,
    ] {
        assert_eq!(
            wrong(&format!("data: {error_event}\n\n{DONE}")),
            Some(DecodeError::Reported(error_event.into()))
        );
    }
    assert!(matches!(
        wrong(""),
        Some(DecodeError::Failed(ProviderFault::BrokenStream, _))
    ));
    assert!(matches!(
        wrong("data: {\n\n"),
        Some(DecodeError::Failed(ProviderFault::BrokenStream, _))
    ));
    let overloaded = chunk("{}", "\"insufficient_system_resource\"");
    assert!(matches!(
        wrong(&overloaded),
        Some(DecodeError::Failed(ProviderFault::Overloaded, _))
    ));
    // A closing marker without a reason is valid after text, but not after half a tool call or after nothing.
    assert_eq!(wrong(DONE), None);
    let half = chunk(
        r#"{"tool_calls":[{"index":0,"function":{"name":"a","arguments":"{"}}]}"#,
        "null",
    );
    assert!(wrong(&format!("{half}{DONE}")).is_some());
    assert!(run(chat, [DONE.as_bytes()]).1.is_some());
}
