//! Interprets the end of a hook: pure, no I/O.
//!
//! Exit code 0 passes, 2 blocks with the text of standard error, anything else is a failure of the hook itself. With
//! exit code 0, standard output that begins with `{` is a JSON answer; other output is ignored.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::hooks::HookExit;
use crate::base::text;
use crate::config::HookMoment;

/// The bytes of each output of a hook that are kept. The rest is read and discarded.
pub(super) const MAX_OUTPUT: usize = 256 << 10;

/// The characters to which a hook's message is cut, for the model and for people.
const MAX_WORDS: usize = 8_000;

/// What a hook decided.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HookDecision {
    /// No objection, and the new input if the hook changed it.
    Pass(Option<Value>),
    /// Block the prompt, the call or the end, for this reason.
    Block(String),
    /// End the turn, for this reason.
    End(String),
}

/// The JSON answer of a hook.
#[derive(Default, Deserialize)]
// Strict, so that a misspelled field is reported as a failure instead of being ignored.
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct HookOutput {
    decision: HookChoice,
    reason: Option<String>,
    /// At `pre_tool`: the tool's complete arguments.
    input: Option<Map<String, Value>>,
    /// At `prompt`: the text that the model reads instead.
    prompt: Option<String>,
    end_turn: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum HookChoice {
    #[default]
    Pass,
    Block,
}

/// Returns the decision of a hook. The error says how the hook failed.
pub(super) fn parse_hook_decision(moment: HookMoment, exit: &HookExit) -> Result<HookDecision, String> {
    let (code, stdout, stderr, refused) = match exit {
        HookExit::Exited {
            code,
            stdout,
            stderr,
            refused,
        } => (*code, stdout, stderr, refused),
        HookExit::Failed(reason) => return Err(reason.clone()),
    };
    match code {
        0 => parse_hook_answer(moment, stdout.trim()),
        2 => {
            let lines = [Some(sanitize_hook_message(stderr)), refused.clone()];
            let lines: Vec<String> = lines.into_iter().flatten().collect();
            Ok(HookDecision::Block(lines.join("\n")))
        }
        code => {
            let message = text::one_line(&text::strip_control_characters(stderr), 200);
            let mark = if message.is_empty() { "" } else { ": " };
            let refused = refused.iter().map(|refused| format!(" {refused}"));
            Err(format!(
                "exit code {code}{mark}{message}{}",
                refused.collect::<String>()
            ))
        }
    }
}

fn parse_hook_answer(moment: HookMoment, stdout: &str) -> Result<HookDecision, String> {
    if !stdout.starts_with('{') {
        return Ok(HookDecision::Pass(None));
    }
    let answer: HookOutput = serde_json::from_str(stdout).map_err(|error| {
        // The output was cut at the limit, so the parser's message would mislead.
        if stdout.len() >= MAX_OUTPUT {
            format!("its output exceeds {} KiB", MAX_OUTPUT >> 10)
        } else {
            format!("its output is malformed: {error}")
        }
    })?;
    for (there, at, name) in [
        (answer.input.is_some(), HookMoment::PreTool, "input"),
        (answer.prompt.is_some(), HookMoment::Prompt, "prompt"),
    ] {
        if there && moment != at {
            return Err(format!(
                "its output has `{name}`, which only a `{at}` hook may change"
            ));
        }
    }
    if answer
        .prompt
        .as_ref()
        .is_some_and(|prompt| prompt.trim().is_empty())
    {
        return Err("its output has an empty `prompt`".to_owned());
    }
    let reason = sanitize_hook_message(answer.reason.as_deref().unwrap_or_default());
    Ok(match (answer.end_turn, answer.decision) {
        (true, _) => HookDecision::End(reason),
        (false, HookChoice::Block) => HookDecision::Block(reason),
        (false, HookChoice::Pass) => {
            let input = answer.input.map(Value::Object);
            HookDecision::Pass(input.or(answer.prompt.map(Value::String)))
        }
    })
}

/// Cleans a hook's message for people, and supplies one if it is empty.
fn sanitize_hook_message(message: &str) -> String {
    let message = text::strip_control_characters(message.trim());
    if message.is_empty() {
        "it gave no reason".to_owned()
    } else {
        text::cut_middle(&message, MAX_WORDS).unwrap_or_else(|| message.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(moment: HookMoment, code: i32, stdout: &str, stderr: &str) -> Result<HookDecision, String> {
        parse_hook_decision(
            moment,
            &HookExit::Exited {
                code,
                stdout: stdout.to_owned(),
                stderr: stderr.to_owned(),
                refused: None,
            },
        )
    }

    #[test]
    fn a_refusal_of_the_sandbox_follows_the_hooks_own_message() {
        let decide = |code, stderr: &str| {
            parse_hook_decision(
                HookMoment::Stop,
                &HookExit::Exited {
                    code,
                    stdout: String::new(),
                    stderr: stderr.to_owned(),
                    refused: Some("[the sandbox]".to_owned()),
                },
            )
        };
        assert_eq!(decide(0, "x"), Ok(HookDecision::Pass(None)));
        assert_eq!(decide(1, "x\n"), Err("exit code 1: x [the sandbox]".to_owned()));
        assert_eq!(decide(1, ""), Err("exit code 1 [the sandbox]".to_owned()));
        let blocked = Ok(HookDecision::Block("x\n[the sandbox]".to_owned()));
        assert_eq!(decide(2, "x\n"), blocked);
    }

    #[test]
    fn exit_codes_and_json_answers_map_to_decisions() {
        use HookMoment::{PostTool, PreTool, Prompt, Stop};
        let pass = || Ok(HookDecision::Pass(None));
        let block = |reason: &str| Ok(HookDecision::Block(reason.to_owned()));
        let end = |reason: &str| Ok(HookDecision::End(reason.to_owned()));
        for (moment, code, stdout, stderr, wanted) in [
            (Stop, 0, "", "", pass()),
            (Stop, 0, "formatted 3 files\n", "warning", pass()),
            (Stop, 0, "{}", "", pass()),
            (Stop, 2, "{\"endTurn\": true}", " not yet\n", block("not yet")),
            (Stop, 2, "", "", block("it gave no reason")),
            (
                Stop,
                0,
                " {\"decision\": \"block\", \"reason\": \"no\"}\n",
                "",
                block("no"),
            ),
            (
                Stop,
                0,
                "{\"decision\": \"block\", \"endTurn\": true}",
                "",
                end("it gave no reason"),
            ),
            (
                Prompt,
                0,
                "{\"endTurn\": true, \"reason\": \"late\"}",
                "",
                end("late"),
            ),
            (
                PreTool,
                0,
                "{\"input\": {\"a\": 1}}",
                "",
                Ok(HookDecision::Pass(Some(json!({"a": 1})))),
            ),
            (
                PreTool,
                0,
                "{\"input\": {}, \"decision\": \"block\"}",
                "",
                block("it gave no reason"),
            ),
            (
                Prompt,
                0,
                "{\"prompt\": \"x\"}",
                "",
                Ok(HookDecision::Pass(Some(json!("x")))),
            ),
            (PostTool, 2, "", "look\u{1b}[31m", block("look")),
        ] {
            assert_eq!(
                of(moment, code, stdout, stderr),
                wanted,
                "{moment} {code} {stdout}"
            );
        }
    }

    #[test]
    fn malformed_answers_are_hook_failures() {
        use HookMoment::{PreTool, Prompt, Stop};
        for (moment, code, stdout, stderr, wanted) in [
            (Stop, 1, "", "", "exit code 1"),
            (Stop, 127, "", "x: not\nfound", "exit code 127: x: not found"),
            (Stop, 0, "{", "", "its output is malformed"),
            (
                Stop,
                0,
                "{\"endturn\": true}",
                "",
                "its output is malformed: unknown field `endturn`",
            ),
            (
                Stop,
                0,
                "{\"decision\": \"allow\"}",
                "",
                "its output is malformed",
            ),
            (Stop, 0, "{\"input\": {}}", "", "only a `pre_tool` hook"),
            (PreTool, 0, "{\"prompt\": \"x\"}", "", "only a `prompt` hook"),
            (PreTool, 0, "{\"input\": 1}", "", "its output is malformed"),
            (Prompt, 0, "{\"prompt\": \" \"}", "", "an empty `prompt`"),
        ] {
            let error = of(moment, code, stdout, stderr).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
        let failed = HookExit::Failed("timed out after 60 s".to_owned());
        assert_eq!(
            parse_hook_decision(Stop, &failed).unwrap_err(),
            "timed out after 60 s"
        );
    }
}
