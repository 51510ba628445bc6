//! Finds what a local engine has left in the text of an answer: tool calls and the end of a thought. Nothing of it is
//! ever run or taken back; the user learns which switch of the engine is missing.

use super::context::TurnContext;
use super::emit::emit_warning;
use super::session_link::TurnStopped;

/// The code of the warning that a model wrote a tool call as text.
const CALL_IN_TEXT: &str = "call_in_text";

/// The code of the warning that an answer contains the end of a thought.
const THOUGHT_IN_TEXT: &str = "thought_in_text";

/// What the user can do about calls in texts.
pub(super) const CALL_SWITCHES: &str = "if you run the engine of the model yourself, start it so that it recognizes \
                                        tool calls: vLLM with --enable-auto-tool-choice --tool-call-parser NAME, \
                                        SGLang with --tool-call-parser NAME, llama.cpp with --jinja";

/// Tells the model that its call was not one.
pub(super) const CALL_QUESTION: &str = "Your message has a tool call in its text. It was not recognized as a call, and \
                                        nothing was run. To call a tool, use the API's tool calls, not text. If you did not \
                                        want to call a tool, give your answer without such a mark.";

/// How calls begin in the texts of models: Hermes, Qwen, GLM, Llama, Kimi, DeepSeek, MiniMax, Mistral.
const CALL_MARKS: [&str; 9] = [
    "<tool_call>",
    "<function=",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜DSML｜function_calls>",
    "<minimax:tool_call>",
    "[TOOL_CALLS]",
];

/// Returns whether a text has a tool call outside of code. Its mark begins a line, or the call follows it directly, so
/// that prose about the mark does not count.
pub(super) fn has_call(text: &str) -> bool {
    let prose = remove_code(text);
    CALL_MARKS.iter().any(|mark| {
        prose.match_indices(mark).any(|(at, _)| {
            let rest = &prose[at + mark.len()..];
            let begins_line =
                prose[..at].trim_end_matches([' ', '\t']).ends_with('\n') || prose[..at].trim().is_empty();
            begins_line || rest.starts_with('{') || rest.starts_with('<') && !rest.starts_with("</")
        })
    })
}

/// Returns whether a thought whose start was in the prompt ends in a text, outside of code and at the end of a line.
fn has_thought_end(text: &str) -> bool {
    let prose = remove_code(text);
    let mut lines = prose.lines();
    lines
        .find(|line| line.contains("<think") || line.contains("</think"))
        .is_some_and(|line| {
            let line = line.trim_end();
            !line.contains("<think") && (line.ends_with("</think>") || line.ends_with("</thinking>"))
        })
}

/// Removes fenced and quoted code.
fn remove_code(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut is_fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            prose.extend(line.split('`').step_by(2));
        }
        prose.push('\n');
    }
    prose
}

/// Warns of what the engine has left in an answer, once per session and kind.
pub(super) async fn warn_of_marks(cx: &TurnContext, model: &str, text: &str) -> Result<(), TurnStopped> {
    let (code, message) = if has_call(text) {
        let message = format!("{model} wrote a tool call as text, and nothing was run; {CALL_SWITCHES}");
        (CALL_IN_TEXT, message)
    } else if has_thought_end(text) {
        let message = format!(
            "the answer of {model} begins with its thoughts, up to `</think>`; if you run the engine of the model \
             yourself, start it so that it separates them: vLLM or SGLang with --reasoning-parser NAME, llama.cpp with \
             --jinja"
        );
        (THOUGHT_IN_TEXT, message)
    } else {
        return Ok(());
    };
    if cx.services.statistics.calibration.record_notice(code) {
        emit_warning(cx, code, message).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_in_texts_are_found_outside_of_code_and_prose() {
        for call in [
            "<tool_call>\n{\"name\":\"read_file\",\"arguments\":{}}\n</tool_call>",
            "I will look. <tool_call>{\"name\":\"read_file\"}</tool_call>",
            "I use `ls`:\n  <tool_call>\n<function=bash>\n<parameter=command>ls</parameter>",
            "<function=bash>\n<parameter=command>\nls",
            "So:\n<tool_call>read_file\n<arg_key>path</arg_key><arg_value>a</arg_value></tool_call>",
            "ok<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{}",
            "Now.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>bash\n```json\n{}\n```",
            "<minimax:tool_call>\n<invoke name=\"bash\">",
            "[TOOL_CALLS][{\"name\": \"bash\"}]",
            "```\ncode\n```\n<tool_call>{}",
        ] {
            assert!(has_call(call), "{call}");
        }
        for text in [
            "",
            "The mark is `<tool_call>{}`.",
            "Qwen writes:\n```xml\n<tool_call>\n{}\n</tool_call>\n```\nand waits.",
            "Between <tool_call> and </tool_call> is JSON.",
            "An empty <tool_call></tool_call> is allowed.",
        ] {
            assert!(!has_call(text), "{text}");
        }
    }

    #[test]
    fn the_end_of_a_thought_is_found_outside_of_code_and_prose() {
        for text in [
            "Let me see.\n</think>\n\nHello.",
            "Let me see.</think> \nHi",
            "Hm.\n</thinking>",
        ] {
            assert!(has_thought_end(text), "{text}");
        }
        for text in [
            "The tag `</think>`\nends it.",
            "```\n</think>\n```",
            "The tag </think> ends it.",
            "An example:\n<think>\nHm.\n</think>\n",
        ] {
            assert!(!has_thought_end(text), "{text}");
        }
    }
}
