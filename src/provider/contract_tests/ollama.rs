//! Streams of Ollama's own API.

use super::*;
use crate::provider::ollama::OllamaDecoder;

fn ollama() -> StreamDecoder {
    StreamDecoder::for_lines(OllamaDecoder::default())
}

fn stream(messages: &[&str], done_reason: &str) -> String {
    let lines = messages.iter().map(|message| {
        format!("{{\"model\":\"m\",\"message\":{{\"role\":\"assistant\",{message}}},\"done\":false}}\n")
    });
    lines.collect::<String>()
        + &format!(
            "{{\"model\":\"m\",\"message\":{{\"role\":\"assistant\",\"content\":\"\"}},\"done\":true,\"done_reason\":\"{done_reason}\",\"prompt_eval_count\":25,\"eval_count\":9}}\n"
        )
}

#[test]
fn ollama_decodes_thoughts_text_and_calls() {
    let stream = stream(
        &[
            r#""content":"","thinking":"Let me see.""#,
            r#""content":"Grüße, ""#,
            r#""content":"\u4e16界 😀""#,
            r#""content":"","tool_calls":[{"function":{"name":"read_file","arguments":{"path":"a"}}},{"function":{"name":"list"}}]"#,
        ],
        "stop",
    );
    let mut expected = vec![reasoning("Let me see."), text("Grüße, 世界 😀")];
    expected.extend(tool(0, "read_file", r#"{"path":"a"}"#));
    expected.extend(tool(1, "list", "{}"));
    expected.extend([usage(25, 9, 0, 0), stop(StopReason::ToolUse)]);
    check("thoughts, text and calls", ollama, &stream, &expected);
}

#[test]
fn ollama_separates_thoughts_in_the_text() {
    let stream = stream(
        &[r#""content":"<thi""#, r#""content":"nk>Hm.\n</think>\nHi""#],
        "stop",
    );
    let expected = [
        reasoning("Hm."),
        text("Hi"),
        usage(25, 9, 0, 0),
        stop(StopReason::EndTurn),
    ];
    check("a thought in the text", ollama, &stream, &expected);
}

#[test]
fn ollama_keeps_a_tag_behind_separate_reasoning() {
    let stream = stream(
        &[
            r#""content":"","thinking":"Hm.""#,
            r#""content":"<think>\nopens it.""#,
        ],
        "stop",
    );
    let expected = [
        reasoning("Hm."),
        text("<think>\nopens it."),
        usage(25, 9, 0, 0),
        stop(StopReason::EndTurn),
    ];
    check("a tag in the text", ollama, &stream, &expected);
}

#[test]
fn ollama_decodes_every_end() {
    for (reason, expected) in [
        ("stop", StopReason::EndTurn),
        ("length", StopReason::MaxTokens),
        ("something new", StopReason::EndTurn),
    ] {
        let expected = [text("a"), usage(25, 9, 0, 0), stop(expected)];
        check(reason, ollama, &stream(&[r#""content":"a""#], reason), &expected);
    }
}

#[test]
fn ollama_reports_failures() {
    let wrong = |line: &str| run(ollama, [format!("{line}\n").as_bytes()]).1;
    let error = r#"{"error":"model runner has unexpectedly stopped"}"#;
    assert_eq!(wrong(error), Some(DecodeError::Reported(error.into())));
    for line in [
        "{nonsense",
        r#"{"message":{"content":"","tool_calls":[{"function":{}}]}}"#,
    ] {
        assert!(
            matches!(
                wrong(line),
                Some(DecodeError::Failed(ProviderFault::BrokenStream, _))
            ),
            "{line}"
        );
    }
}
