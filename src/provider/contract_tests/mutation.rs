//! Mutation tests: every field of every event is changed to every other type, or removed. An optional field never
//! ends an answer, and never changes its text or its tool calls.

use serde_json::{Value, json};

use super::*;
use crate::provider::gemini::GeminiDecoder;
use crate::provider::ollama::OllamaDecoder;
use crate::provider::responses::ResponsesDecoder;

/// A stream of one API, with the only fields that may change or end an answer.
struct Api {
    name: &'static str,
    make: Make,
    events: Vec<Value>,
    /// Each entry is `kind of event:path`; a `*` matches any index in a list.
    needed: &'static [&'static str],
}

fn build_apis() -> [Api; 6] {
    [
        Api {
            name: "messages",
            make: messages,
            events: messages_events(),
            needed: &[
                "content_block_start:/type",
                "content_block_start:/index",
                "content_block_start:/content_block",
                "content_block_start:/content_block/type",
                "content_block_start:/content_block/name",
                "content_block_start:/content_block/text",
                "content_block_delta:/type",
                "content_block_delta:/index",
                "content_block_delta:/delta",
                "content_block_delta:/delta/type",
                "content_block_delta:/delta/text",
                "content_block_delta:/delta/partial_json",
            ],
        },
        Api {
            name: "chat",
            make: chat,
            events: chat_events(),
            needed: &[
                "chunk:/choices",
                "chunk:/choices/*",
                "chunk:/choices/*/index",
                "chunk:/choices/*/delta",
                "chunk:/choices/*/delta/content",
                "chunk:/choices/*/delta/tool_calls",
                "chunk:/choices/*/delta/tool_calls/*",
                "chunk:/choices/*/delta/tool_calls/*/index",
                "chunk:/choices/*/delta/tool_calls/*/function",
                "chunk:/choices/*/delta/tool_calls/*/function/name",
                "chunk:/choices/*/delta/tool_calls/*/function/arguments",
            ],
        },
        Api {
            name: "responses",
            make: || StreamDecoder::new(ResponsesDecoder::default()),
            events: responses_events(),
            needed: &[
                "response.output_item.added:/item/name",
                "response.output_text.delta:/type",
                "response.output_text.delta:/delta",
                "response.function_call_arguments.delta:/type",
                "response.function_call_arguments.delta:/delta",
                "response.completed:/type",
            ],
        },
        Api {
            name: "responses with custom tools",
            make: || StreamDecoder::new(ResponsesDecoder::default()),
            events: custom_tool_events(),
            needed: &[
                "response.output_item.added:/item/name",
                "response.output_text.delta:/type",
                "response.output_text.delta:/delta",
                "response.custom_tool_call_input.delta:/type",
                "response.custom_tool_call_input.delta:/delta",
                // Another text is a contradiction.
                "response.custom_tool_call_input.done:/input",
                "response.output_item.done:/item/input",
                "response.completed:/type",
            ],
        },
        Api {
            name: "gemini",
            make: || StreamDecoder::new(GeminiDecoder::default()),
            events: gemini_events(),
            needed: &[
                "chunk:/candidates",
                "chunk:/candidates/*",
                "chunk:/candidates/*/content",
                "chunk:/candidates/*/content/parts",
                "chunk:/candidates/*/content/parts/*",
                "chunk:/candidates/*/content/parts/*/text",
                "chunk:/candidates/*/content/parts/*/thought",
                "chunk:/candidates/*/content/parts/*/functionCall",
                "chunk:/candidates/*/content/parts/*/functionCall/name",
                "chunk:/candidates/*/content/parts/*/functionCall/args",
                "chunk:/candidates/*/content/parts/*/functionCall/args/path",
                "chunk:/candidates/*/content/parts/*/functionCall/args/x",
                "chunk:/candidates/*/finishReason",
            ],
        },
        Api {
            name: "ollama",
            make: || StreamDecoder::for_lines(OllamaDecoder::default()),
            events: ollama_events(),
            needed: &[
                "chunk:/done",
                "chunk:/message",
                "chunk:/message/content",
                "chunk:/message/tool_calls",
                "chunk:/message/tool_calls/*",
                "chunk:/message/tool_calls/*/function",
                "chunk:/message/tool_calls/*/function/name",
                "chunk:/message/tool_calls/*/function/arguments",
                "chunk:/message/tool_calls/*/function/arguments/path",
                "chunk:/message/tool_calls/*/function/arguments/x",
            ],
        },
    ]
}

fn ollama_events() -> Vec<Value> {
    let piece = |message: Value| json!({"model": "m", "created_at": "2026-11-01T00:00:00Z", "message": message, "done": false});
    let call = |name: &str, arguments: Value| json!({"id": "c", "function": {"index": 0, "name": name, "arguments": arguments}});
    vec![
        piece(json!({"role": "assistant", "content": "", "thinking": "hm"})),
        piece(json!({"role": "assistant", "content": "I look "})),
        piece(json!({"role": "assistant", "content": "at it.", "images": null})),
        piece(
            json!({"role": "assistant", "content": "", "tool_calls": [call("read_file", json!({"path": "a"})),
            call("list", json!({"x": 1}))]}),
        ),
        json!({"model": "m", "created_at": "2026-11-01T00:00:00Z", "message": {"role": "assistant", "content": ""},
            "done": true, "done_reason": "stop", "total_duration": 5, "load_duration": 1, "prompt_eval_count": 35,
            "prompt_eval_duration": 1, "eval_count": 9, "eval_duration": 1}),
    ]
}

fn gemini_events() -> Vec<Value> {
    let piece = |part: Value| {
        json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}], "modelVersion": "m",
            "responseId": "r", "usageMetadata": {"promptTokenCount": 35, "totalTokenCount": 35,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 35}]}})
    };
    let call = |name: &str, args: Value| json!({"functionCall": {"name": name, "args": args, "id": "c"}, "thoughtSignature": "s"});
    vec![
        piece(json!({"text": "hm", "thought": true})),
        piece(json!({"text": "I look "})),
        piece(json!({"text": "at it.", "thoughtSignature": "s"})),
        piece(call("read_file", json!({"path": "a"}))),
        piece(call("list", json!({"x": 1}))),
        json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "", "thoughtSignature": "s"}]},
            "groundingMetadata": {"webSearchQueries": ["hats"], "groundingChunks": [{"web": {"uri": "https://a.org/",
            "title": "a.org"}}], "groundingSupports": [], "searchEntryPoint": {"renderedContent": "x"}},
            "finishReason": "STOP", "finishMessage": null, "index": 0, "safetyRatings": []}], "promptFeedback": null,
            "usageMetadata": {"promptTokenCount": 35, "candidatesTokenCount": 5, "thoughtsTokenCount": 4,
            "cachedContentTokenCount": 10, "totalTokenCount": 44}}),
    ]
}

fn messages_events() -> Vec<Value> {
    let delta =
        |index: u32, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let start = |index: u32, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let end = |index: u32| json!({"type": "content_block_stop", "index": index});
    vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "content": [], "stop_reason": null, "container": {"id": "c"}, "usage": {"input_tokens": 25, "output_tokens": 1,
            "cache_read_input_tokens": 3, "cache_creation_input_tokens": 7, "service_tier": "standard",
            "cache_creation": {"ephemeral_5m_input_tokens": 7}, "server_tool_use": {"web_search_requests": 0}}}}),
        json!({"type": "ping"}),
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Let me see."})),
        delta(0, json!({"type": "signature_delta", "signature": "EqQB"})),
        end(0),
        start(1, json!({"type": "redacted_thinking", "data": "opaque"})),
        end(1),
        start(
            7,
            json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
        ),
        delta(7, json!({"type": "input_json_delta", "partial_json": ""})),
        end(7),
        start(
            8,
            json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "caller": {"type": "direct"},
            "content": [{"type": "web_search_result", "url": "https://a.org/", "title": "A", "page_age": null,
            "encrypted_content": "x"}]}),
        ),
        end(8),
        start(2, json!({"type": "text", "text": "", "citations": null})),
        delta(
            2,
            json!({"type": "citations_delta", "citation": {"type": "web_search_result_location",
            "url": "https://a.org/", "title": "A", "encrypted_index": "x", "cited_text": "y"}}),
        ),
        delta(2, json!({"type": "text_delta", "text": "I look "})),
        delta(2, json!({"type": "text_delta", "text": "at it."})),
        end(2),
        start(
            3,
            json!({"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {}}),
        ),
        delta(
            3,
            json!({"type": "input_json_delta", "partial_json": "{\"path\":"}),
        ),
        delta(3, json!({"type": "input_json_delta", "partial_json": "\"a\"}"})),
        end(3),
        start(
            4,
            json!({"type": "tool_use", "id": "toolu_2", "name": "list", "input": {}}),
        ),
        delta(
            4,
            json!({"type": "input_json_delta", "partial_json": "{\"x\":1}"}),
        ),
        end(4),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null, "stop_details": null},
            "usage": {"output_tokens": 89, "input_tokens": 25}, "context_management": {"applied_edits": []}}),
        json!({"type": "message_stop"}),
    ]
}

fn chat_events() -> Vec<Value> {
    let chunk = |delta: Value, finish: Value| {
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "provider": "p",
            "system_fingerprint": null, "service_tier": "x", "choices": [{"index": 0, "delta": delta, "logprobs": null,
            "finish_reason": finish, "native_finish_reason": null}]})
    };
    let call = |call: Value| chunk(json!({"tool_calls": [call]}), Value::Null);
    vec![
        chunk(
            json!({"role": "assistant", "content": "", "refusal": null}),
            Value::Null,
        ),
        chunk(
            json!({"reasoning": "hm", "reasoning_content": "hm", "reasoning_details": [{"type": "reasoning.text",
                "text": "hm", "signature": null, "format": "f", "index": 0}]}),
            Value::Null,
        ),
        chunk(json!({"content": "I look ", "annotations": []}), Value::Null),
        chunk(
            json!({"content": "at it.", "extra_content": {"google": {"thought_signature": "s"}}}),
            Value::Null,
        ),
        call(
            json!({"index": 0, "id": "call_1", "type": "function", "function": {"name": "read_file", "arguments": ""},
            "extra_content": {"google": {"thought_signature": "s"}}}),
        ),
        call(json!({"index": 0, "function": {"arguments": "{\"path\":"}})),
        call(json!({"index": 0, "function": {"arguments": "\"a\"}"}})),
        call(
            json!({"index": 1, "id": "call_2", "type": "function", "function": {"name": "list", "arguments": "{\"x\":1}"}}),
        ),
        chunk(json!({}), json!("tool_calls")),
        json!({"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 35,
            "completion_tokens": 9, "total_tokens": 44, "cost": 0.1, "is_byok": false,
            "cost_details": {"upstream_inference_cost": null}, "prompt_tokens_details": {"cached_tokens": 10,
            "cache_write_tokens": 5}, "completion_tokens_details": {"reasoning_tokens": 4}}}),
    ]
}

fn responses_events() -> Vec<Value> {
    let added = |at: u32, item: Value| json!({"type": "response.output_item.added", "output_index": at, "item": item});
    let done =
        |at: u32, item: Value| json!({"type": "response.output_item.done", "output_index": at, "item": item});
    let piece = |kind: &str, at: u32, id: &str, delta: &str| {
        json!({"type": kind, "sequence_number": 5, "item_id": id, "output_index": at, "content_index": 0, "delta": delta,
            "logprobs": [], "obfuscation": "x"})
    };
    let call = |id: &str, call_id: &str, name: &str, arguments: &str, status: &str| {
        json!({"id": id, "type": "function_call", "status": status, "arguments": arguments, "call_id": call_id,
            "name": name})
    };
    let arguments = "response.function_call_arguments.delta";
    vec![
        json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": [],
            "usage": null, "error": null}}),
        added(0, json!({"id": "rs_1", "type": "reasoning", "summary": []})),
        json!({"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "output_index": 0, "summary_index": 0,
            "part": {"type": "summary_text", "text": ""}}),
        piece("response.reasoning_summary_text.delta", 0, "rs_1", "hm"),
        done(
            0,
            json!({"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}],
            "content": null, "encrypted_content": "gAAA"}),
        ),
        added(
            1,
            json!({"id": "msg_1", "type": "message", "role": "assistant", "phase": "commentary", "content": []}),
        ),
        piece("response.output_text.delta", 1, "msg_1", "I look "),
        piece("response.output_text.delta", 1, "msg_1", "at it."),
        json!({"type": "response.output_text.done", "item_id": "msg_1", "output_index": 1, "text": "I look at it."}),
        done(
            1,
            json!({"id": "msg_1", "type": "message", "role": "assistant", "phase": "commentary", "status": "completed",
            "content": [{"type": "output_text", "text": "I look at it.", "annotations": [{"type": "url_citation",
            "url": "https://a.org/", "title": "A", "start_index": 0, "end_index": 6}]}]}),
        ),
        json!({"type": "response.output_text.annotation.added", "item_id": "msg_1", "output_index": 1,
            "content_index": 0, "annotation_index": 0, "annotation": {"type": "url_citation", "url": "https://a.org/",
            "title": "A", "start_index": 0, "end_index": 6}}),
        added(
            4,
            json!({"id": "ws_1", "type": "web_search_call", "status": "in_progress"}),
        ),
        json!({"type": "response.web_search_call.searching", "item_id": "ws_1", "output_index": 4}),
        done(
            4,
            json!({"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search",
            "query": "hats", "queries": ["hats"], "sources": [{"type": "url", "url": "https://a.org/"}]}}),
        ),
        added(2, call("fc_1", "call_1", "read_file", "", "in_progress")),
        piece(arguments, 2, "fc_1", "{\"path\":"),
        piece(arguments, 2, "fc_1", "\"a\"}"),
        done(
            2,
            call("fc_1", "call_1", "read_file", "{\"path\":\"a\"}", "completed"),
        ),
        added(3, call("fc_2", "call_2", "list", "", "in_progress")),
        piece(arguments, 3, "fc_2", "{\"x\":1}"),
        done(3, call("fc_2", "call_2", "list", "{\"x\":1}", "completed")),
        json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "error": null,
            "incomplete_details": null, "output": [], "usage": {"input_tokens": 35, "output_tokens": 9,
            "input_tokens_details": {"cached_tokens": 10}, "output_tokens_details": {"reasoning_tokens": 4}}}}),
    ]
}

/// The same answer, with calls of custom tools.
fn custom_tool_events() -> Vec<Value> {
    let mut events = responses_events();
    for event in &mut events {
        let text = event.to_string();
        if !text.contains("fc_") {
            continue;
        }
        let text = text
            .replace("function_call_arguments", "custom_tool_call_input")
            .replace("function_call", "custom_tool_call")
            .replace("\"arguments\"", "\"input\"");
        *event = serde_json::from_str(&text).unwrap();
    }
    for (at, id) in [(2, "fc_1"), (3, "fc_2")] {
        let is_end =
            |event: &Value| event["type"] == "response.output_item.done" && event["output_index"] == at;
        let end = events.iter().position(is_end).unwrap();
        let input = events[end]["item"]["input"].clone();
        events.insert(
            end,
            json!({"type": "response.custom_tool_call_input.done", "item_id": id, "output_index": at, "input": input}),
        );
    }
    events
}

/// The text and tool calls of an answer, and its end.
#[derive(Debug, PartialEq)]
struct CollectedAnswer {
    text: String,
    /// By index in the answer.
    calls: BTreeMap<u32, (String, Value)>,
    stop: Option<StopReason>,
}

fn collect_answer(events: &[StreamEvent]) -> CollectedAnswer {
    let mut answer = CollectedAnswer {
        text: String::new(),
        calls: BTreeMap::new(),
        stop: None,
    };
    let mut names = BTreeMap::new();
    let mut inputs = BTreeMap::<u32, String>::new();
    for event in events {
        match event {
            StreamEvent::Text(text) => answer.text.push_str(text),
            StreamEvent::ToolUseStarted { index, name } => {
                assert!(names.insert(*index, name.clone()).is_none(), "two calls {index}");
            }
            StreamEvent::ToolInput { index, json } => inputs.entry(*index).or_default().push_str(json),
            StreamEvent::ToolUseCompleted { index } => {
                let input = serde_json::from_str(&inputs[index]).unwrap_or(Value::Null);
                let known = answer.calls.insert(*index, (names[index].clone(), input));
                assert!(known.is_none(), "two ends of call {index}");
            }
            StreamEvent::Stop(stop) => answer.stop = Some(stop.clone()),
            _ => {}
        }
    }
    answer
}

/// Decodes events as a stream. Messages and Responses send the kind of an event twice: inside it and as its SSE name.
fn decode_events(api: &Api, events: &[Value]) -> (Vec<StreamEvent>, Option<DecodeError>) {
    let mut stream = String::new();
    if api.name == "ollama" {
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        return run(api.make, [lines.as_bytes()]);
    }
    for (event, original) in events.iter().zip(&api.events) {
        if let Some(name) = original["type"].as_str() {
            stream.push_str(&format!("event: {name}\n"));
        }
        stream.push_str(&format!("data: {event}\n\n"));
    }
    if api.name == "chat" {
        stream.push_str(DONE);
    }
    run(api.make, [stream.as_bytes()])
}

/// Collects the paths of all values in `value`, below `path`.
fn collect_paths(value: &Value, path: &str, into: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(at, item)| (at.to_string(), item))
            .collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        let path = format!("{path}/{name}");
        collect_paths(child, &path, into);
        into.push(path);
    }
}

fn mutate_event(event: &Value, path: &str, change: Option<&Value>) -> Value {
    let mut event = event.clone();
    match change {
        Some(value) => *event.pointer_mut(path).unwrap() = value.clone(),
        None => {
            let (parent, name) = path.rsplit_once('/').unwrap();
            match event.pointer_mut(parent).unwrap() {
                Value::Object(fields) => drop(fields.remove(name)),
                Value::Array(items) => drop(items.remove(name.parse().unwrap())),
                _ => unreachable!(),
            }
        }
    }
    event
}

#[test]
fn mutated_optional_fields_change_nothing() {
    let values = [
        json!(null),
        json!(7),
        json!(-1.5),
        json!(true),
        json!("x"),
        json!({}),
        json!({"x": 1}),
        json!([]),
        json!([1]),
    ];
    let changes: Vec<Option<&Value>> = values.iter().map(Some).chain([None]).collect();
    let mut wrongs = Vec::new();
    for api in build_apis() {
        let (events, wrong) = decode_events(&api, &api.events);
        let original = collect_answer(&events);
        assert_eq!(
            (wrong, &*original.text, original.calls.len()),
            (None, "I look at it.", 2),
            "{}",
            api.name
        );
        let mut unused: Vec<&str> = api.needed.to_vec();
        for (at, event) in api.events.iter().enumerate() {
            let kind = event["type"].as_str().unwrap_or("chunk");
            let mut paths = Vec::new();
            collect_paths(event, "", &mut paths);
            for path in paths {
                let location: Vec<&str> = path
                    .split('/')
                    .map(|name| if name.parse::<usize>().is_ok() { "*" } else { name })
                    .collect();
                let location = format!("{kind}:{}", location.join("/"));
                for change in &changes {
                    let mut events = api.events.clone();
                    events[at] = mutate_event(event, &path, *change);
                    let (events, wrong) = decode_events(&api, &events);
                    if wrong.is_none() && collect_answer(&events) == original {
                        continue;
                    }
                    unused.retain(|needed| *needed != location);
                    if !api.needed.contains(&&*location) {
                        wrongs.push(format!("{} {location} to {change:?}: {wrong:?}", api.name));
                    }
                }
            }
        }
        assert!(
            unused.is_empty(),
            "{}: not needed after all: {unused:?}",
            api.name
        );
    }
    assert!(
        wrongs.is_empty(),
        "{} changes:\n{}",
        wrongs.len(),
        wrongs.join("\n")
    );
}

/// A needed field with a wrong type ends the answer instead of leaving a hole in it.
#[test]
fn no_mutation_leaves_a_hole_in_a_completed_call() {
    for api in build_apis() {
        let original = collect_answer(&decode_events(&api, &api.events).0);
        for (at, event) in api.events.iter().enumerate() {
            let mut paths = Vec::new();
            collect_paths(event, "", &mut paths);
            // Inside the arguments of a whole call, a change is another call of the model.
            let is_inside = |path: &&String| path.contains("/args/") || path.contains("/arguments/");
            for path in paths.iter().filter(|path| !is_inside(path)) {
                for change in [json!(7), json!([7]), json!(true)] {
                    let mut events = api.events.clone();
                    events[at] = mutate_event(event, path, Some(&change));
                    let (events, wrong) = decode_events(&api, &events);
                    let answer = collect_answer(&events);
                    // A different index belongs to another choice, and a piece that says `done` is the last one.
                    if wrong.is_none() && !path.ends_with("/index") && path != "/done" {
                        assert_eq!(answer.text, original.text, "{} {path} to {change}", api.name);
                    }
                    for (_, input) in answer.calls.into_values() {
                        let known = original
                            .calls
                            .values()
                            .any(|(_, expected_input)| *expected_input == input);
                        assert!(
                            known || !input.is_object(),
                            "{} {path} to {change}: {input}",
                            api.name
                        );
                    }
                }
            }
        }
    }
}
