//! Finds what a local engine has left in the text of an answer: tool calls and the end of a thought. Nothing of it is
//! ever run or taken back; the user learns which switch of the engine is missing.

use serde_json::Value;

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

/// How calls begin in the texts of models: Hermes, Qwen, GLM, Llama, Kimi, DeepSeek, MiniMax, Mistral, Granite, Phi,
/// Cohere, Liquid, and gpt-oss.
#[rustfmt::skip]
const CALL_MARKS: [&str; 26] = [
    "<function_call>", "<|START_ACTION|>", "<|python_start|>", "<|tool_call_start|>",
    "<tool_call>", "<function=", "<|tool_calls_section_begin|>", "<|tool_call_begin|>",
    "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜DSML｜function_calls>", "<minimax:tool_call>",
    "[TOOL_CALLS]", "<|python_tag|>", "<|tool_call|>", "<|tool_call>", "<start_function_call>",
    "<tool_calls>", "<function_calls>", "<invoke name=", "functools[",
    "<|start|>assistant<|channel|>commentary to=", "<|start|>assistant to=", "<|channel|>commentary to=",
    "<|channel|>analysis to=", "to=functions.",
];

/// How far behind its mark a call names its tool, in characters.
const NAME_DISTANCE: usize = 200;

/// How Cohere's models introduce the JSON of their calls.
const ACTION: &str = "Action:";

/// Returns whether a text has a call of one of these tools outside of code. Its mark begins a line, or the call follows
/// it directly. The name of a tool comes soon after, because prose about the mark has none. Calls alone, without a mark,
/// are JSON or a list as in Python.
pub(super) fn has_call(text: &str, tools: &[&str]) -> bool {
    let whole = text.trim();
    if is_json_call(whole, tools) || is_action(whole, tools) || is_python_call(whole, tools) {
        return true;
    }
    let prose = remove_code(text);
    CALL_MARKS.iter().any(|mark| {
        prose.match_indices(mark).any(|(at, _)| {
            let rest = &prose[at + mark.len()..];
            let begins_line =
                prose[..at].trim_end_matches([' ', '\t']).ends_with('\n') || prose[..at].trim().is_empty();
            (begins_line || rest.starts_with(['{', '[']) || rest.starts_with('<') && !rest.starts_with("</"))
                && names_tool(rest, tools)
        })
    })
}

/// Returns whether a whole answer is the JSON of calls, bare or as one block of code.
fn is_json_call(text: &str, tools: &[&str]) -> bool {
    let json = unfence(text).unwrap_or(text);
    match serde_json::from_str(json) {
        Ok(Value::Array(calls)) => !calls.is_empty() && calls.iter().all(|call| is_call(call, tools)),
        Ok(call) => is_call(&call, tools),
        Err(_) => false,
    }
}

/// Returns whether JSON calls one of these tools. The definition of a tool looks similar.
fn is_call(json: &Value, tools: &[&str]) -> bool {
    let call = ["function", "function_call"]
        .iter()
        .find(|key| json[**key].is_object());
    let call = call.map_or(json, |key| &json[*key]);
    let name = call["name"].as_str().or(call["tool_name"].as_str());
    let is_definition = !call["description"].is_null() || !call["parameters"]["properties"].is_null();
    let has_input = ["arguments", "parameters"]
        .iter()
        .any(|key| call[*key].is_object() || call[*key].is_string());
    has_input && !is_definition && name.is_some_and(|name| tools.contains(&name))
}

/// Returns whether a text ends with calls as Cohere's models write them: a line `Action:`, and JSON with `tool_name`.
fn is_action(text: &str, tools: &[&str]) -> bool {
    text.rsplit_once(ACTION).is_some_and(|(before, json)| {
        let begins_line = before.is_empty() || before.ends_with('\n');
        begins_line && json.contains("\"tool_name\"") && is_json_call(json.trim(), tools)
    })
}

/// Returns whether a whole answer is a list of calls as Llama's models write them: `[bash(command="ls")]`.
fn is_python_call(text: &str, tools: &[&str]) -> bool {
    let list = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let Some(mut rest) = list else {
        return false;
    };
    loop {
        let Some((name, arguments)) = rest.split_once('(') else {
            return false;
        };
        let Some(end) = find_closing(arguments).filter(|_| tools.contains(&name.trim())) else {
            return false;
        };
        let (arguments, after) = (arguments[..end].trim(), arguments[end + 1..].trim_start());
        let has_key = arguments.split_once('=').is_some_and(|(key, value)| {
            !value.starts_with('=') && key.trim_end().chars().all(|c| c.is_alphanumeric() || c == '_')
        });
        if !arguments.is_empty() && !has_key {
            return false;
        }
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None => return after.is_empty(),
        }
    }
}

/// Returns where the parenthesis closes in which a text begins. Those in strings of Python do not count.
fn find_closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote, mut is_escaped) = (0_usize, None, false);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(mark), _) => quote = Some(mark).filter(|mark| *mark != letter),
            (None, '"' | '\'') => quote = Some(letter),
            (None, '(') => depth += 1,
            (None, ')') if depth == 0 => return Some(at),
            (None, ')') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

/// Returns the content of a text that is one block of code.
fn unfence(text: &str) -> Option<&str> {
    let (first, rest) = text.split_once('\n')?;
    let open = opened_fence(first)?;
    let (content, last) = rest.rsplit_once('\n')?;
    closes_fence(last, open).then_some(content)
}

/// Returns whether the start of a text has the name of a tool as a whole word.
fn names_tool(text: &str, tools: &[&str]) -> bool {
    let end = text
        .char_indices()
        .nth(NAME_DISTANCE)
        .map_or(text.len(), |(at, _)| at);
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    tools.iter().any(|tool| {
        text[..end].match_indices(tool).any(|(at, _)| {
            !text[..at].ends_with(is_of_name) && !text[at + tool.len()..].starts_with(is_of_name)
        })
    })
}

/// Returns whether a thought whose start was in the prompt ends in a text, outside of code: in a line of its own, or at
/// the end of a paragraph.
fn has_thought_end(text: &str) -> bool {
    let prose = remove_code(text);
    let mut lines = prose.lines();
    let tagged = lines.find(|line| line.contains("<think") || line.contains("</think"));
    let line = tagged.unwrap_or_default().trim_end();
    let before = line
        .strip_suffix("</think>")
        .or_else(|| line.strip_suffix("</thinking>"));
    let ends_paragraph = lines.next().is_none_or(|next| next.trim().is_empty());
    !line.contains("<think") && before.is_some_and(|before| before.trim().is_empty() || ends_paragraph)
}

/// Replaces each piece of fenced, indented, or quoted code by a backtick.
fn remove_code(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut paragraph = String::new();
    let mut fence: Option<&str> = None;
    // Indented lines in a paragraph are prose.
    let mut may_indent = true;
    for line in text.lines() {
        let is_blank = line.trim().is_empty();
        let is_code = if let Some(open) = fence {
            fence = Some(open).filter(|open| !closes_fence(line, open));
            true
        } else {
            fence = opened_fence(line);
            fence.is_some() || may_indent && !is_blank && (line.starts_with("    ") || line.starts_with('\t'))
        };
        may_indent = is_code || is_blank;
        if !may_indent {
            paragraph.push_str(line);
            paragraph.push('\n');
            continue;
        }
        push_without_quotes(&paragraph, &mut prose);
        paragraph.clear();
        prose.push_str(if is_code { "`\n" } else { "\n" });
    }
    push_without_quotes(&paragraph, &mut prose);
    prose
}

/// Returns the run of characters with which a line opens a block of code.
fn opened_fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let (run, info) = line.split_at(line.len() - line.trim_start_matches(mark).len());
    // Backticks behind three backticks quote code within the line.
    (run.len() >= 3 && !(mark == '`' && info.contains('`'))).then_some(run)
}

/// Returns whether a line closes the block that a run of characters has opened: with at least as many, and nothing else.
fn closes_fence(line: &str, open: &str) -> bool {
    line.trim()
        .strip_prefix(open)
        .is_some_and(|rest| rest.chars().all(|c| open.starts_with(c)))
}

/// Appends a paragraph without its quoted code: what is between two equal runs of backticks.
fn push_without_quotes(paragraph: &str, prose: &mut String) {
    let mut rest = paragraph;
    while let Some(at) = rest.find('`') {
        let length = count_backticks(&rest[at..]);
        let (before, after) = (&rest[..at], &rest[at + length..]);
        prose.push_str(before);
        if let Some(end) = find_run(after, length) {
            prose.push('`');
            rest = &after[end + length..];
        } else {
            prose.push_str(&rest[at..at + length]);
            rest = after;
        }
    }
    prose.push_str(rest);
}

/// Returns where a run of exactly `length` backticks begins.
fn find_run(text: &str, length: usize) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].find('`').map(|at| from + at) {
        let found = count_backticks(&text[at..]);
        if found == length {
            return Some(at);
        }
        from = at + found;
    }
    None
}

fn count_backticks(text: &str) -> usize {
    text.len() - text.trim_start_matches('`').len()
}

/// Warns of what the engine has left in an answer, once per session and kind. `has_call`: a tool call is in it.
pub(super) async fn warn_of_marks(
    cx: &TurnContext,
    model: &str,
    text: &str,
    has_call: bool,
) -> Result<(), TurnStopped> {
    let (code, message) = if has_call {
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
            "```\ncode\n```\n<tool_call>{\"name\": \"bash\"}",
            "<tool_call>\n{\n    \"name\": \"bash\",\n    \"arguments\": {}\n}",
            "A ` alone.\n\n<tool_call>{\"name\": \"bash\", \"arguments\": {\"command\": \"echo `date`\"}}",
            "~~~\n```\n~~~\n<tool_call>{\"name\": \"bash\"}",
            "<|python_tag|>{\"name\": \"bash\", \"parameters\": {}}",
            "<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{}<|call|>",
            "<|start|>assistant<|channel|>commentary to=functions.read_file<|message|>{}",
            "to=functions.bash json\n{}",
            "<function_calls>\n<invoke name=\"bash\">",
            "<|tool_call|>[{\"name\": \"bash\", \"arguments\": {}}]",
            "functools[{\"name\": \"bash\", \"arguments\": {}}]",
            "<|tool_call>call:bash{command:<|\"|>ls<|\"|>}<tool_call|>",
            "<start_function_call>call:bash{command:<escape>ls<escape>}<end_function_call>",
            "{\"function_call\": {\"name\": \"bash\", \"arguments\": \"{}\"}}",
            "<tool_calls>\n[{\"name\": \"bash\"}]",
            "{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}",
            " [{\"name\": \"bash\", \"parameters\": {}}] ",
            "```json\n{\"name\": \"bash\", \"arguments\": \"{}\"}\n```",
            "```\n{\"function\": {\"name\": \"bash\", \"arguments\": {}}}\n```\n",
            "<function_call> {\"name\": \"bash\", \"arguments\": {}}",
            "So: <tool_call>[{\"name\": \"bash\", \"arguments\": {}}]",
            "<|START_ACTION|>[\n{\"tool_call_id\": \"0\", \"tool_name\": \"bash\", \"parameters\": {}}\n]<|END_ACTION|>",
            "Plan: I will look.\nAction: ```json\n[{\"tool_name\": \"bash\", \"parameters\": {}}]\n```",
            "Action: [{\"tool_name\": \"bash\", \"parameters\": {}}]",
            "[bash(command=\"echo ')' \\\"(\")]",
            "[read_file(path='a', lines=(1, 2)), bash()]",
            "<|python_start|>[bash(command=\"ls\")]<|python_end|>",
            "<|tool_call_start|>[bash(command=\"ls\")]<|tool_call_end|>",
            "<|python_tag|>bash.call(command=\"ls\")",
        ] {
            assert!(has_call(call, &["bash", "read_file"]), "{call}");
            assert!(!has_call(call, &["read", "ash", "write_file"]), "{call}");
            assert!(!has_call(call, &[]), "{call}");
        }
        for text in [
            "",
            "The mark is `<tool_call>{bash}`.",
            "The mark is `\n<tool_call>bash`.",
            "The mark is ``<tool_call>{bash}``.",
            "The mark is ``<tool_call>{`bash`}``, and ` is none.",
            "Qwen writes:\n```xml\n<tool_call>\n{bash}\n</tool_call>\n```\nand waits.",
            "````\n```\n<tool_call>bash\n```\n<tool_call>bash\n````\n",
            "```\n~~~\n<tool_call>bash\n```` no end\n<tool_call>bash\n  `````",
            "It writes:\n\n    <tool_call>\n\n    <tool_call>bash\n",
            "\t<tool_call>bash",
            "```\ncode\n```\n    <tool_call>bash",
            "Between <tool_call> and </tool_call> is the JSON of bash.",
            "An empty <tool_call></tool_call> of bash is allowed.",
            "<tool_call> is the tag that Qwen puts before a call.",
            "Qwen opens a call with\n<tool_call> and closes it with </tool_call>.",
            "<tool_call> is the tag of bashful models, and of re-bash",
            &format!("<tool_call>{}bash", " ".repeat(NAME_DISTANCE)),
            "A call is:\n```json\n{\"name\": \"bash\", \"arguments\": {}}\n```",
            "```json\n{\"name\": \"bash\", \"arguments\": {}}\n```\nThat is how a call looks.",
            "{\"name\": \"bash\", \"arguments\": {}} is a call.",
            "{\"name\": \"bash\", \"version\": \"5.2\"}",
            "[{\"name\": \"bash\"}, {\"name\": \"fish\"}]",
            "[]",
            "{\"name\": \"bash\", \"description\": \"Runs.\", \"parameters\": {}}",
            "{\"name\": \"bash\", \"parameters\": {\"properties\": {}}}",
            "```json\n{\"name\": \"bash\", \"arguments\": {}}\n```\n```json\n{}\n```",
            "The model writes <function_calls> before it calls bash.",
            "Harmony has `<|channel|>commentary to=functions.bash` for calls.",
            "Set to=functions.bash in the header.",
            "[bash(command=\"ls\")] is how Llama calls.",
            "```python\n[bash(command=\"ls\")]\n```",
            "[bash(command)]",
            "[bash(command=\"ls\"), fish(command=\"ls\")]",
            "[bash(command=\"ls)]",
            "[bash(command == \"ls\")]",
            "bash(command=\"ls\")",
            "[bash](https://example.org/a=b)",
            "Action: run bash.",
            "An Action: [{\"tool_name\": \"bash\", \"parameters\": {}}]",
            "Action: ```json\n[{\"name\": \"bash\", \"parameters\": {}}]\n```",
            "Cohere begins a call with `<|START_ACTION|>[{\"tool_name\": \"bash\"`.",
        ] {
            assert!(!has_call(text, &["bash"]), "{text}");
        }
    }

    #[test]
    fn the_end_of_a_thought_is_found_outside_of_code_and_prose() {
        for text in [
            "Let me see.\n</think>\n\nHello.",
            "Let me see.</think> \n\nHi",
            "Let me see.\n </think> \nHi",
            "Hm.\n</thinking>",
            "Hm.</think>",
        ] {
            assert!(has_thought_end(text), "{text}");
        }
        for text in [
            "The tag `</think>`\nends it.",
            "```\n</think>\n```",
            "The tag </think> ends it.",
            "A thought ends with </think>\nand the answer follows.",
            "A thought ends with </think>\n```\ncode\n```",
            "An example:\n<think>\nHm.\n</think>\n",
        ] {
            assert!(!has_thought_end(text), "{text}");
        }
    }
}
