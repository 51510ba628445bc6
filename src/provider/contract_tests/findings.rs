//! Streams that real servers send, each of which was once decoded incorrectly.

use serde_json::{Value, json};

use super::*;
use crate::provider::responses::ResponsesDecoder;

fn new_responses_decoder() -> StreamDecoder {
    StreamDecoder::new(ResponsesDecoder::default())
}

/// Returns all events, including attachments to calls.
fn decode_all(make: Make, stream: &str) -> (Vec<StreamEvent>, Option<DecodeError>) {
    let (mut decoder, mut out) = (make(), EventQueue::default());
    let result = decoder.push(stream.as_bytes(), &mut out);
    let result = match (result, out.has_stopped()) {
        (Ok(_), false) => decoder.finish_stream(&mut out),
        (result, _) => result.map(drop),
    };
    (std::iter::from_fn(|| out.take()).collect(), result.err())
}

fn to_sse_stream(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn collect_text(events: &[StreamEvent]) -> String {
    events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

fn collect_attachments(events: &[StreamEvent]) -> Vec<(u32, Option<&str>, Option<&Value>)> {
    events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::ToolUseAttached { index, id, extra } => {
                Some((*index, id.as_deref(), extra.as_ref()))
            }
            _ => None,
        })
        .collect()
}

/// Returns the name and input of each completed call.
fn collect_calls(events: &[StreamEvent]) -> Vec<(String, String)> {
    let mut names = BTreeMap::new();
    let mut inputs = BTreeMap::<u32, String>::new();
    let mut calls = Vec::new();
    for event in events {
        match event {
            StreamEvent::ToolUseStarted { index, name } => drop(names.insert(*index, name.clone())),
            StreamEvent::ToolInput { index, json } => inputs.entry(*index).or_default().push_str(json),
            StreamEvent::ToolUseCompleted { index } => {
                calls.push((names[index].clone(), inputs[index].clone()));
            }
            _ => {}
        }
    }
    calls
}

fn to_owned_calls(calls: &[(&str, &str)]) -> Vec<(String, String)> {
    calls
        .iter()
        .map(|(name, input)| (name.to_string(), input.to_string()))
        .collect()
}

#[test]
fn a_cost_of_any_shape_does_not_end_the_answer() {
    for (shape, expected) in [
        (
            json!({"total_cost": 0.5, "request_cost": 0.1}),
            Some(Cost(500_000_000)),
        ),
        (json!({"x": 1}), None),
        (json!("much"), None),
        (json!(0.5), Some(Cost(500_000_000))),
    ] {
        let usage =
            json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "cost": shape}});
        let stream = deltas(&[r#"{"content":"a"}"#], "stop") + &to_sse_stream(&[usage]) + DONE;
        let (events, wrong) = run(chat, [stream.as_bytes()]);
        assert_eq!(wrong, None);
        let StreamEvent::Usage { usage, cost } = &events[1] else {
            panic!("{events:?}");
        };
        assert_eq!((usage.input, usage.output, *cost), (3, 2, expected), "{shape}");
    }
}

#[test]
fn a_usage_count_of_the_wrong_type_is_absent_and_not_zero() {
    let counted = |last: Value| {
        let first = json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}});
        let stream =
            deltas(&[r#"{"content":"a"}"#], "stop") + &to_sse_stream(&[first, json!({"usage": last})]) + DONE;
        let (events, wrong) = run(chat, [stream.as_bytes()]);
        assert_eq!(wrong, None);
        events
            .into_iter()
            .rfind(|event| matches!(event, StreamEvent::Usage { .. }))
            .unwrap()
    };
    assert_eq!(
        counted(json!({"prompt_tokens": "3", "completion_tokens": null})),
        usage(3, 2, 0, 0)
    );
    assert_eq!(
        counted(json!({"prompt_tokens": null, "completion_tokens": 4, "total_tokens": 10})),
        usage(6, 4, 0, 0)
    );
    assert_eq!(
        counted(json!({"prompt_tokens": 3.0, "completion_tokens": 4.0})),
        usage(3, 4, 0, 0)
    );
}

#[test]
fn call_ids_and_signatures_are_attached_to_their_calls() {
    let extra = json!({"google": {"thought_signature": "s"}});
    let chunk = json!({"choices": [{"delta": {"tool_calls": [
        {"index": 0, "id": "functions.bash:0", "function": {"name": "bash", "arguments": "{}"}, "extra_content": extra},
        {"index": 1, "id": "", "function": {"name": "bash", "arguments": "{}"}}]}, "finish_reason": "tool_calls"}]});
    let (events, _) = decode_all(chat, &to_sse_stream(&[chunk]));
    assert_eq!(
        collect_attachments(&events),
        [(0, Some("functions.bash:0"), Some(&extra))]
    );

    let block = json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}}});
    let (events, _) = decode_all(messages, &to_sse_stream(&[block]));
    assert_eq!(collect_attachments(&events), [(0, Some("toolu_1"), None)]);

    let item = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "bash", "arguments": "{}"});
    let item = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    let (events, _) = decode_all(new_responses_decoder, &to_sse_stream(&[item]));
    assert_eq!(collect_attachments(&events), [(0, Some("call_1"), None)]);
}

#[test]
fn opaque_reasoning_is_stored_unchanged() {
    let details = |details: Value| chunk(&json!({"reasoning_details": details}).to_string(), "null");
    let text = |text: Value, signature: Value| json!([{"type": "reasoning.text", "text": text, "signature": signature, "format": "f", "index": 0}]);
    let encrypted =
        |data: &str, id: &str| json!([{"type": "reasoning.encrypted", "data": data, "id": id, "index": 1}]);
    let signed =
        json!({"content": "yes", "extra_content": {"google": {"thought_signature": "s"}}}).to_string();
    let stream = details(text(json!("Let me "), Value::Null))
        + &details(text(json!("see."), Value::Null))
        + &details(text(Value::Null, json!("sig")))
        + &details(encrypted("AAA", "1"))
        + &details(encrypted("BBB", "2"))
        + &deltas(&[&signed], "stop")
        + DONE;
    let (events, wrong) = decode_all(chat, &stream);
    assert_eq!(wrong, None);
    let [
        StreamEvent::Reasoning(reasoning),
        _,
        StreamEvent::RedactedReasoning(opaque),
        _,
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(reasoning, "Let me see.");
    assert_eq!(
        serde_json::from_str::<Value>(opaque).unwrap(),
        json!({
            "reasoning_details": [
                {"type": "reasoning.text", "text": "Let me see.", "signature": "sig", "format": "f", "index": 0},
                {"type": "reasoning.encrypted", "data": "AAA", "id": "1", "index": 1},
                {"type": "reasoning.encrypted", "data": "BBB", "id": "2", "index": 1},
            ],
            "extra_content": {"google": {"thought_signature": "s"}},
        })
    );
}

#[test]
fn a_message_that_repeats_its_pieces_is_decoded_once() {
    let piece = |delta: Value, message: &str, finish: Value| json!({"choices": [{"delta": delta, "message": {"role": "assistant", "content": message}, "finish_reason": finish}]});
    let events = [
        piece(json!({"role": "assistant", "content": "Hel"}), "Hel", Value::Null),
        piece(json!({"content": "lo"}), "Hello", Value::Null),
        piece(json!({}), "Hello", json!("stop")),
    ];
    let (events, wrong) = decode_all(chat, &(to_sse_stream(&events) + DONE));
    assert_eq!((collect_text(&events).as_str(), wrong), ("Hello", None));
}

#[test]
fn an_answer_with_a_stop_reason_is_complete() {
    let text =
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "a"}});
    let call = json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "tool_use", "id": "t", "name": "list", "input": {"x": 1}}});
    let end = |reason: &str| json!({"type": "message_delta", "delta": {"stop_reason": reason}});
    let (events, wrong) = decode_all(messages, &to_sse_stream(&[text.clone(), end("end_turn")]));
    assert_eq!((events.last(), wrong), (Some(&stop(StopReason::EndTurn)), None));
    let (events, wrong) = decode_all(messages, &to_sse_stream(&[call, end("tool_use")]));
    assert_eq!(
        (collect_calls(&events), wrong),
        (to_owned_calls(&[("list", r#"{"x":1}"#)]), None)
    );
    let (_, wrong) = decode_all(messages, &to_sse_stream(&[text]));
    assert!(
        matches!(wrong, Some(DecodeError::Failed(ProviderFault::BrokenStream, _))),
        "{wrong:?}"
    );
}

/// Covers llama.cpp, servers that always send index 0, and gateways that change the ids.
#[test]
fn response_items_are_distinguished_without_a_reliable_index() {
    let sent = |index: fn(u32) -> Option<u32>, id: fn(&str) -> Option<String>| {
        let event = |kind: &str, at: u32, name: &str, item: Option<Value>, delta: &str| {
            let mut event = json!({"type": kind});
            if let Some(index) = index(at) {
                event["output_index"] = json!(index);
            }
            if let Some(mut item) = item {
                if let Some(id) = id(name) {
                    item["id"] = json!(id);
                }
                event["item"] = item;
            } else {
                event["item_id"] = json!(id(name));
                event["delta"] = json!(delta);
            }
            event
        };
        let call = |call_id: &str, name: &str, arguments: &str| json!({"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments});
        let (added, done) = ("response.output_item.added", "response.output_item.done");
        let arguments = "response.function_call_arguments.delta";
        to_sse_stream(&[
            event(
                added,
                0,
                "rs",
                Some(json!({"type": "reasoning", "summary": []})),
                "",
            ),
            event("response.reasoning_text.delta", 0, "rs", None, "hm"),
            event(
                done,
                0,
                "rs",
                Some(json!({"type": "reasoning", "content": [{"text": "hm"}]})),
                "",
            ),
            event(
                added,
                1,
                "msg",
                Some(json!({"type": "message", "content": []})),
                "",
            ),
            event("response.output_text.delta", 1, "msg", None, "so"),
            event(
                done,
                1,
                "msg",
                Some(json!({"type": "message", "content": [{"text": "so"}]})),
                "",
            ),
            event(added, 2, "fc_a", Some(call("a", "one", "")), ""),
            event(arguments, 2, "fc_a", None, "{\"x\""),
            event(arguments, 2, "fc_a", None, ":1}"),
            event(done, 2, "fc_a", Some(call("a", "one", "{\"x\":1}")), ""),
            event(added, 3, "fc_b", Some(call("b", "two", "")), ""),
            event(arguments, 3, "fc_b", None, "{\"y\":2}"),
            event(done, 3, "fc_b", Some(call("b", "two", "{\"y\":2}")), ""),
            json!({"type": "response.completed", "response": {"status": "completed"}}),
        ])
    };
    use std::sync::atomic::{AtomicU32, Ordering};
    static FRESH: AtomicU32 = AtomicU32::new(0);
    let named = |id: &str| Some(id.to_owned());
    let none = |_: &str| None;
    let changing = |_: &str| Some(FRESH.fetch_add(1, Ordering::Relaxed).to_string());
    for (case, stream) in [
        ("both", sent(Some, named)),
        ("no index", sent(|_| None, named)),
        ("neither", sent(|_| None, none)),
        ("no id", sent(Some, none)),
        ("always 0", sent(|_| Some(0), named)),
        ("always 0, no id", sent(|_| Some(0), none)),
        ("changing ids", sent(Some, changing)),
    ] {
        let (events, wrong) = decode_all(new_responses_decoder, &stream);
        assert_eq!((collect_text(&events).as_str(), wrong), ("so", None), "{case}");
        let reasons = events
            .iter()
            .filter(|event| matches!(event, StreamEvent::Reasoning(_)));
        assert_eq!(reasons.count(), 1, "{case}");
        assert_eq!(
            collect_calls(&events),
            to_owned_calls(&[("one", r#"{"x":1}"#), ("two", r#"{"y":2}"#)]),
            "{case}"
        );
    }
}

#[test]
fn pieces_of_parallel_calls_stay_with_their_call() {
    let arguments = |id: &str, delta: &str| json!({"type": "response.function_call_arguments.delta", "item_id": id, "delta": delta});
    let call = |kind: &str, id: &str, name: &str| json!({"type": kind, "item": {"type": "function_call", "call_id": id, "name": name, "arguments": ""}});
    let events = [
        call("response.output_item.added", "fc_a", "one"),
        call("response.output_item.added", "fc_b", "two"),
        arguments("fc_a", "{\"x\""),
        arguments("fc_b", "{\"y\""),
        arguments("fc_a", ":1}"),
        arguments("fc_b", ":2}"),
        call("response.output_item.done", "fc_a", "one"),
        call("response.output_item.done", "fc_b", "two"),
        json!({"type": "response.completed"}),
    ];
    let (events, wrong) = decode_all(new_responses_decoder, &to_sse_stream(&events));
    assert_eq!(wrong, None);
    assert_eq!(
        collect_calls(&events),
        to_owned_calls(&[("one", r#"{"x":1}"#), ("two", r#"{"y":2}"#)])
    );
}

#[test]
fn a_second_message_voids_the_first_or_breaks_the_stream() {
    let start =
        |id: &str| json!({"type": "message_start", "message": {"id": id, "usage": {"input_tokens": 5}}});
    let text = |text: &str| json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": text}});
    let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}});
    let (events, wrong) = decode_all(
        messages,
        &to_sse_stream(&[start("1"), start("2"), text("b"), end.clone()]),
    );
    assert_eq!((collect_text(&events).as_str(), wrong), ("b", None));
    let (events, wrong) = decode_all(
        messages,
        &to_sse_stream(&[start("1"), text("a"), start("1"), end.clone()]),
    );
    assert_eq!((collect_text(&events).as_str(), wrong), ("a", None));
    let (events, wrong) = decode_all(
        messages,
        &to_sse_stream(&[start("1"), text("a"), start("2"), text("b"), end]),
    );
    assert!(
        matches!(wrong, Some(DecodeError::Failed(ProviderFault::BrokenStream, _))),
        "{events:?}"
    );
    assert!(!events.iter().any(|event| matches!(event, StreamEvent::Stop(_))));

    let created = |id: &str| json!({"type": "response.created", "response": {"id": id}});
    let text_delta = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "a"});
    let (_, wrong) = decode_all(
        new_responses_decoder,
        &to_sse_stream(&[created("1"), text_delta, created("2")]),
    );
    assert!(
        matches!(wrong, Some(DecodeError::Failed(ProviderFault::BrokenStream, _))),
        "{wrong:?}"
    );
}

#[test]
fn error_messages_in_every_form_are_kept() {
    let decoders: [(&str, Make, &str); 3] = [
        (
            "messages",
            messages,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}"#,
        ),
        ("chat", chat, r#"{"choices":[{"delta":{"content":"a"}}]}"#),
        (
            "responses",
            new_responses_decoder,
            r#"{"type":"response.output_text.delta","output_index":0,"delta":"a"}"#,
        ),
    ];
    for (name, make, first) in decoders {
        for error_message in [
            "error: {\"code\":500,\"message\":\"the pump is broken\"}\n\n",
            "error: {\"code\":500,\"message\":\"the pump is broken\"}",
            "event: error\ndata: {\"code\":500,\"message\":\"the pump is broken\"}\n\n",
            "event: error\ndata: the pump is broken\n\n",
            "data: the pump is broken\n\n",
            "data: \"the pump is broken\"\n\n",
            "data: {\"error\":{\"message\":\"the pump is broken\"}}\n\n",
            "data: {\"error\":\"the pump is broken\"}\n\n",
            "data: [{\"error\":{\"message\":\"the pump is broken\"}}]\n\n",
            "data: {\"type\":\"unheard_of\",\"error\":{\"message\":\"the pump is broken\"}}\n\n",
            "{\"error\":{\"message\":\"the pump is broken\"}}\n",
            "{\n \"error\": {\n \"message\": \"the pump is broken\"}\n}\n",
            "upstream: the pump is broken\n",
        ] {
            let (events, wrong) = decode_all(make, &format!("data: {first}\n\n{error_message}"));
            let Some(DecodeError::Reported(words)) = wrong else {
                panic!("{name} {error_message}: {wrong:?}");
            };
            assert!(
                words.contains("the pump is broken"),
                "{name} {error_message}: {words}"
            );
            assert!(
                !events.iter().any(|event| matches!(event, StreamEvent::Stop(_))),
                "{name} {error_message}"
            );
        }
        let (_, wrong) = decode_all(
            make,
            &format!("data: {first}\n\ndata: {{the pump is broken}}\n\n"),
        );
        let Some(DecodeError::Failed(ProviderFault::BrokenStream, words)) = wrong else {
            panic!("{name}: {wrong:?}");
        };
        assert!(words.contains("the pump is broken"), "{name}: {words}");
    }
    let failed = json!({"type": "response.failed", "response": {"error": null, "status_details": "the pump is broken"}});
    let (_, wrong) = decode_all(new_responses_decoder, &to_sse_stream(&[failed]));
    assert!(format!("{wrong:?}").contains("the pump is broken"), "{wrong:?}");
}

#[test]
fn messages_with_phases_are_separated_and_labelled() {
    let message = |at: u32, phase: Value, text: &str| {
        json!({"type": "response.output_item.done", "output_index": at,
            "item": {"type": "message", "phase": phase, "content": [{"type": "output_text", "text": text}]}})
    };
    let end = json!({"type": "response.completed"});
    let phase = |phase: Value| StreamEvent::RedactedReasoning(json!({"phase": phase}).to_string());
    let first = message(0, json!("commentary"), "I look.");
    let (events, _) = decode_all(
        new_responses_decoder,
        &to_sse_stream(&[
            first.clone(),
            message(1, json!("final_answer"), "Done."),
            end.clone(),
        ]),
    );
    let expected = [
        phase(json!("commentary")),
        text("I look."),
        phase(json!("final_answer")),
        text("\n\nDone."),
        stop(StopReason::EndTurn),
    ];
    assert_eq!(events, expected);
    let (events, _) = decode_all(
        new_responses_decoder,
        &to_sse_stream(&[first, message(1, Value::Null, "Done."), end.clone()]),
    );
    assert_eq!(events[2..4], [phase(Value::Null), text("\n\nDone.")]);
    let unlabelled = [
        message(0, Value::Null, "I look."),
        message(1, Value::Null, "Done."),
        end,
    ];
    let (events, _) = decode_all(new_responses_decoder, &to_sse_stream(&unlabelled));
    assert_eq!(events[0], text("I look.\n\nDone."));
}

#[test]
fn parallel_calls_with_one_index_stay_separate() {
    let call = |id: &str, name: &str, arguments: &str| {
        let call = json!({"index": 0, "id": id, "function": {"name": name, "arguments": arguments}});
        json!({"tool_calls": [call]}).to_string()
    };
    for id in ["", "same"] {
        for (first, second) in [("a", "b"), ("a", "a")] {
            let stream = deltas(
                &[&call(id, first, r#"{"x":1}"#), &call(id, second, r#"{"y":2}"#)],
                "tool_calls",
            ) + DONE;
            let (events, wrong) = decode_all(chat, &stream);
            assert_eq!(wrong, None);
            assert_eq!(
                collect_calls(&events),
                to_owned_calls(&[(first, r#"{"x":1}"#), (second, r#"{"y":2}"#)]),
                "{id} {second}"
            );
        }
        // Calls in pieces, with the name only in the first piece of each.
        let pieces = [
            call(id, "a", ""),
            call(id, "", r#"{"x":"#),
            call(id, "", "1}"),
            call(id, "a", ""),
            call(id, "", r#"{"y":2}"#),
        ];
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let (events, _) = decode_all(chat, &(deltas(&pieces, "tool_calls") + DONE));
        assert_eq!(
            collect_calls(&events),
            to_owned_calls(&[("a", r#"{"x":1}"#), ("a", r#"{"y":2}"#)]),
            "{id}"
        );
    }
    let unnamed = deltas(
        &[r#"{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}"#],
        "tool_calls",
    ) + DONE;
    assert!(decode_all(chat, &unnamed).1.is_some());
}

#[test]
fn usage_inside_the_choice_is_counted() {
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop",
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}]});
    let (events, _) = decode_all(
        chat,
        &(chunk(r#"{"content":"a"}"#, "null") + &to_sse_stream(&[end]) + DONE),
    );
    assert_eq!(events, [text("a"), usage(3, 2, 0, 0), stop(StopReason::EndTurn)]);
}

#[test]
fn pieces_that_contradict_the_whole_input_break_the_stream() {
    let call = |kind: &str, arguments: &str| {
        json!({"type": kind, "output_index": 0, "item": {"type": "function_call", "call_id": "c", "name": "a",
            "arguments": arguments}})
    };
    let piece =
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{\"x\":1}"});
    let ends = |arguments: &str| {
        let added = call("response.output_item.added", "");
        let done = call("response.output_item.done", arguments);
        decode_all(
            new_responses_decoder,
            &to_sse_stream(&[added, piece.clone(), done, json!({"type": "response.completed"})]),
        )
        .1
    };
    for same in ["{\"x\": 1}", "", "{}"] {
        assert_eq!(ends(same), None, "{same}");
    }
    assert!(matches!(
        ends("{\"x\":2}"),
        Some(DecodeError::Failed(ProviderFault::BrokenStream, _))
    ));
}

#[test]
fn thoughts_at_the_start_of_a_text_become_reasoning() {
    let (thought, answer) = (|| reasoning("Hm, <b>."), || text("Hi </think>."));
    for (content, expected) in [
        (
            "<think>\nHm, <b>.\n</think>\n\nHi </think>.",
            vec![thought(), answer()],
        ),
        (
            "\n<thinking>Hm, <b>.</thinking>Hi </think>.",
            vec![thought(), answer()],
        ),
        ("<think>\n\n</think>\n\nHi </think>.", vec![answer()]),
        ("</think>\n\nHi </think>.", vec![answer()]),
        (
            "<think>\nHm, <b>.\n</think> \n \n    let x;\n",
            vec![thought(), text("    let x;\n")],
        ),
        (
            "<think>\n  Hm, <b>.\n</think>  Hi </think>.",
            vec![reasoning("  Hm, <b>."), answer()],
        ),
        ("<think>\nHm, <b>.\n</think>\n\n ", vec![thought()]),
        ("</thinking> \r\nHi </think>.", vec![answer()]),
        ("\n</think>", vec![]),
        ("</think> ends it.\n", vec![text("</think> ends it.\n")]),
        ("</think>ends it.", vec![text("</think>ends it.")]),
        (
            "<think>\nHm, <b>.\n</think>\n<think>\nopens it.\n</think>\n",
            vec![reasoning("Hm, <b>.\n\nopens it.")],
        ),
        (
            "<think>\nHm, <b>.\n</think>\n\n<think>\n\n</think>\n\nHi </think>.",
            vec![thought(), answer()],
        ),
        (
            "<think>Hm, <b>.</think><think> is it.",
            vec![thought(), text("<think> is it.")],
        ),
        (
            "<reasoning>Hm, <b>.</reasoning>Hi </think>.",
            vec![thought(), answer()],
        ),
        (
            "<|channel>thought\nHm, <b>.<channel|>Hi </think>.",
            vec![thought(), answer()],
        ),
        ("[THINK]Hm, <b>.[/THINK]Hi </think>.", vec![thought(), answer()]),
        (
            "<thought>\nHm, <b>.\n</thought>\nHi </think>.",
            vec![thought(), answer()],
        ),
        (
            "<seed:think>Hm, <b>.</seed:think>Hi </think>.",
            vec![thought(), answer()],
        ),
        ("◁think▷Hm, <b>.◁/think▷Hi </think>.", vec![thought(), answer()]),
        (
            "<|channel|>analysis<|message|>Hm, <b>.<|end|><|start|>assistant<|channel|>final<|message|>Hi </think>.",
            vec![thought(), answer()],
        ),
        ("<|channel|>final<|message|>Hi </think>.", vec![answer()]),
        (
            "<|channel|>analysis<|message|>Hm, <b>.<|end|>Hi </think>.",
            vec![thought(), answer()],
        ),
        (
            "<|channel|> begins a channel.",
            vec![text("<|channel|> begins a channel.")],
        ),
        (
            "<think>Hm, <b>.</think></think>\n",
            vec![thought(), text("</think>\n")],
        ),
        (
            "<think>\nHm, <b>.\n</th",
            vec![reasoning("Hm, <b>.\n</th"), text("Hm, <b>.\n</th")],
        ),
        ("<think>", vec![]),
        ("<think> begins it.", vec![text("<think> begins it.")]),
        ("\n<thinking>\tbegins it.", vec![text("\n<thinking>\tbegins it.")]),
        ("\n Hi <think>a</think>", vec![text("\n Hi <think>a</think>")]),
        ("`<think>` begins", vec![text("`<think>` begins")]),
        ("<thin", vec![text("<thin")]),
        (" \n", vec![text(" \n")]),
    ] {
        for size in 1..=content.chars().count() {
            let chars: Vec<char> = content.chars().collect();
            let mut deltas: Vec<Value> = chars
                .chunks(size)
                .map(|piece| json!({"choices": [{"delta": {"content": piece.iter().collect::<String>()}}]}))
                .collect();
            deltas.push(json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}));
            let events = run(chat, [to_sse_stream(&deltas).as_bytes()]).0;
            let expected = [expected.as_slice(), &[stop(StopReason::EndTurn)]].concat();
            assert_eq!(events, expected, "{content:?} in pieces of {size}");
        }
    }
}

#[test]
fn every_api_separates_thoughts_in_the_text() {
    let messages_stream = |pieces: &[&str]| {
        let mut events = vec![json!({"type": "message_start", "message": {}})];
        events.push(
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        );
        events.extend(pieces.iter().map(|piece| {
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}})
        }));
        events.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}));
        events.push(json!({"type": "message_stop"}));
        to_sse_stream(&events)
    };
    let responses_stream = |pieces: &[&str]| {
        let delta =
            |piece: &&str| json!({"type": "response.output_text.delta", "output_index": 0, "delta": piece});
        let mut events: Vec<Value> = pieces.iter().map(delta).collect();
        events.push(json!({"type": "response.completed", "response": {}}));
        to_sse_stream(&events)
    };
    let end = stop(StopReason::EndTurn);
    for (pieces, expected) in [
        (
            &["<thi", "nk>Hm.</th", "ink>Hi"][..],
            vec![reasoning("Hm."), text("Hi"), end.clone()],
        ),
        (
            &["Hi <think>a</think>"],
            vec![text("Hi <think>a</think>"), end.clone()],
        ),
        (&["<thi"], vec![text("<thi"), end.clone()]),
    ] {
        assert_eq!(
            run(messages, [messages_stream(pieces).as_bytes()]).0,
            expected,
            "{pieces:?}"
        );
        let events = run(new_responses_decoder, [responses_stream(pieces).as_bytes()]).0;
        assert_eq!(events, expected, "{pieces:?}");
    }
}

#[test]
fn an_open_thought_is_the_answer_only_at_a_regular_end() {
    let content = json!({"choices": [{"delta": {"content": "<think>\nHm."}}]});
    let call = json!({"index": 0, "id": "c", "function": {"name": "list", "arguments": "{}"}});
    let (cut, called) = (
        json!({"choices": [{"delta": {}, "finish_reason": "length"}]}),
        json!({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "stop"}]}),
    );
    for last in [cut, called] {
        let events = run(chat, [to_sse_stream(&[content.clone(), last]).as_bytes()]).0;
        assert_eq!(
            (&events[0], collect_text(&events)),
            (&reasoning("Hm."), String::new())
        );
    }
}

#[test]
fn a_tag_behind_separate_reasoning_is_text() {
    let answer = "<think>\nopens a thought, </think>\ncloses it.";
    for field in ["reasoning_content", "reasoning"] {
        let stream = to_sse_stream(&[
            json!({"choices": [{"delta": {"content": "\n"}}]}),
            json!({"choices": [{"delta": {field: "Hm."}}]}),
            json!({"choices": [{"delta": {"content": answer}}]}),
            json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
        ]);
        let events = run(chat, [stream.as_bytes()]).0;
        let expected = [
            text("\n"),
            reasoning("Hm."),
            text(answer),
            stop(StopReason::EndTurn),
        ];
        assert_eq!(events, expected, "{field}");
    }
    let parts = json!([{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": answer}]);
    let stream = to_sse_stream(&[
        json!({"choices": [{"delta": {"content": parts}}]}),
        json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
    ]);
    let events = run(chat, [stream.as_bytes()]).0;
    assert_eq!(events[..2], [reasoning("Hm."), text(answer)]);
}

#[test]
fn text_before_a_tool_call_stays_before_it() {
    let call = json!({"index": 0, "id": "c", "function": {"name": "list", "arguments": "{}"}});
    let stream = to_sse_stream(&[
        json!({"choices": [{"delta": {"content": "\n"}}]}),
        json!({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}),
    ]);
    let events = run(chat, [stream.as_bytes()]).0;
    assert_eq!(events[0], text("\n"));
}
