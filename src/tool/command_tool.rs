//! Tools that a user configures: a command with a schema (R-TOOL).
//!
//! The command reads the arguments as one JSON object from its input, and its output is the result. Arguments never
//! become part of a command line. [`run_command`] runs it like a command of `bash`.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};
use serde_json::Value;

use super::refusal::CommandOrigin;
use super::run_command::{self, Overtime};
use super::{DEFAULT_TIMEOUT, DynTool, PreparedCall, ToolContext, ToolError, ToolOutput, schema};
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::config::{CommandLine, CommandToolSettings, ToolEffect};
use crate::domain::{ArgumentSchema, Effect, EffectKind, SandboxPolicy, ToolSpec};
use crate::workspace::process::{Command, ExitStatus, Stdin};

/// A tool that a user configured.
#[derive(Debug)]
pub struct CommandTool {
    settings: CommandToolSettings,
    schema: ArgumentSchema,
}

/// A call with valid arguments.
struct CommandCall {
    tool: Arc<CommandTool>,
    input: Value,
}

impl CommandTool {
    /// Creates the tool that the settings describe.
    pub fn new(settings: CommandToolSettings) -> Self {
        Self {
            schema: ArgumentSchema::new(settings.schema.clone()),
            settings,
        }
    }

    /// Formats the command for people and rules.
    fn format_command(&self) -> String {
        match &self.settings.command {
            CommandLine::Shell(script) => script.trim().to_owned(),
            CommandLine::Argv(argv) => argv
                .iter()
                .map(|word| quote_word(word))
                .collect::<Vec<_>>()
                .join(" "),
        }
    }

    fn build_command(&self, input: &Value) -> Command {
        let command = match &self.settings.command {
            CommandLine::Shell(script) => Command::from_script(script),
            CommandLine::Argv(argv) => Command::from_argv(argv),
        };
        // Through standard input, so that no argument becomes part of a command line.
        let input = Stdin::Bytes(input.to_string().into_bytes());
        command.show_named_paths().stdin(input)
    }
}

/// Quotes a word as for a shell, so that rules see the same words as the program.
pub(super) fn quote_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

impl DynTool for CommandTool {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn owner(&self) -> Option<String> {
        Some("the configuration".to_owned())
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            freeform: None,
            name: self.settings.name.clone(),
            description: self.settings.description.clone(),
            schema: self.schema.sent().clone(),
        }
    }

    fn restore_names(&self, input: &Value) -> Result<Option<Value>, String> {
        self.schema.restore_names(input)
    }

    fn prepare_call(self: Arc<Self>, input: &Value) -> Result<Box<dyn PreparedCall>, String> {
        let input = self.restore_names(input)?.unwrap_or_else(|| input.clone());
        match schema::explain_mismatch(self.schema.own(), &input) {
            None => Ok(Box::new(CommandCall { tool: self, input })),
            Some(problem) => Err(format!("invalid arguments for {}: {problem}", self.settings.name)),
        }
    }
}

impl PreparedCall for CommandCall {
    /// Includes the arguments: they distinguish calls, and a user approves them.
    fn title(&self) -> String {
        let name = &self.tool.settings.name;
        if self.input.as_object().is_none_or(|fields| fields.is_empty()) {
            name.clone()
        } else {
            one_line(
                &format!("{name} {}", reveal_hidden_characters(&self.input.to_string())),
                160,
            )
        }
    }

    fn predict_effect(&self, _cx: &ToolContext) -> Result<Effect, ToolError> {
        Ok(Effect {
            kind: match self.tool.settings.effect {
                ToolEffect::Read => EffectKind::Read,
                ToolEffect::Write => EffectKind::Write,
                ToolEffect::Execute => EffectKind::Execute,
                ToolEffect::Network => EffectKind::Network,
            },
            sandbox: self.tool.settings.sandbox,
            // Rules judge the configured command; arguments cannot change it.
            ..Effect::from_command(self.tool.format_command())
        })
    }

    fn finishes_on_cancel(&self) -> bool {
        true
    }

    fn run(self: Box<Self>, mut cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        async move {
            if cx.cancel.is_cancelled() {
                return Err(ToolError::Cancelled);
            }
            let settings = &self.tool.settings;
            // The mode `full` trusts the model, not the folder.
            if settings.sandbox.is_none() && !cx.workspace.shared().is_trusted(&cx.cwd) {
                cx.sandbox.policy = cx.sandbox.policy.min(SandboxPolicy::Workspace);
            }
            let origin = CommandOrigin::Configured {
                is_from_folder: settings.is_from_folder,
            };
            let limit = cx.time_limit.unwrap_or(DEFAULT_TIMEOUT);
            let command = run_command::prepare_command(self.tool.build_command(&self.input), &cx);
            let done = run_command::run_to_end(command, limit, Overtime::Stop, origin, &cx).await?;
            let failed = done.status != Some(ExitStatus::Code(0));
            Ok(ToolOutput {
                is_error: done.output.is_error || failed,
                ..done.output
            })
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::ToolHarness;
    use super::*;

    fn tool(command: CommandLine, effect: ToolEffect) -> Arc<CommandTool> {
        Arc::new(CommandTool::new(CommandToolSettings {
            name: "deploy".to_owned(),
            description: "Deploys.".to_owned(),
            command,
            schema: json!({
                "type": "object",
                "properties": {
                    "env": {"type": "string", "enum": ["test", "live"]},
                    "tag": {"type": "string", "pattern": "^v[0-9]+$"},
                    "share": {"type": "number", "minimum": 0, "maximum": 0.5},
                },
                "required": ["env"],
                "additionalProperties": false,
            })
            .into(),
            effect,
            sandbox: None,
            is_from_folder: false,
        }))
    }

    #[test]
    fn arguments_are_checked_against_the_configured_schema() {
        let tool = tool(CommandLine::Shell("x".to_owned()), ToolEffect::Execute);
        for (input, expected) in [
            (json!({}), "`env`: is missing"),
            (json!({"env": "prod"}), "`env`: expected one of test, live"),
            (
                json!({"env": "test", "tag": "1"}),
                "`tag`: must match the pattern ^v[0-9]+$",
            ),
            (
                json!({"env": "test", "share": 0.75}),
                "`share`: must be at most 0.5, got 0.75",
            ),
            (json!({"env": "test", "x": 1}), "`x`: unknown field"),
            (json!([]), "expected an object"),
        ] {
            let Err(error) = tool.clone().prepare_call(&input) else {
                panic!("{input} was taken")
            };
            assert!(
                error.starts_with("invalid arguments for deploy: ") && error.contains(expected),
                "{input}: {error}"
            );
        }
        let good = json!({"env": "test", "tag": "v1", "share": 0.5});
        assert!(tool.prepare_call(&good).is_ok());
    }

    #[test]
    fn arguments_with_refused_names_reach_the_command_under_their_own() {
        let settings = CommandToolSettings {
            schema: json!({"type": "object", "properties": {"filter[id]": {"type": "string"}}}).into(),
            ..tool(CommandLine::Shell("x".to_owned()), ToolEffect::Read)
                .settings
                .clone()
        };
        let tool = Arc::new(CommandTool::new(settings));
        let sent = tool.spec().schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .next()
            .cloned()
            .unwrap();
        assert!(sent.starts_with("filter_id__"), "{sent}");
        for name in [&*sent, "filter[id]"] {
            let Ok(call) = tool.clone().prepare_call(&json!({name: "7"})) else {
                panic!("{name} was refused")
            };
            assert_eq!(call.title(), r#"deploy {"filter[id]":"7"}"#);
        }
    }

    #[test]
    fn rules_see_the_command_and_people_see_the_arguments() {
        let harness = ToolHarness::new();
        let argv = |words: &[&str]| CommandLine::Argv(words.iter().map(|word| (*word).to_owned()).collect());
        for (command, effect, kind, subject) in [
            (
                CommandLine::Shell(" make deploy\n".to_owned()),
                ToolEffect::Execute,
                EffectKind::Execute,
                "make deploy",
            ),
            (
                argv(&["./d.sh", "--to=a", "it's; rm"]),
                ToolEffect::Network,
                EffectKind::Network,
                r"./d.sh --to=a 'it'\''s; rm'",
            ),
            (argv(&["d"]), ToolEffect::Read, EffectKind::Read, "d"),
            (argv(&["d", ""]), ToolEffect::Write, EffectKind::Write, "d ''"),
        ] {
            let Ok(call) = tool(command, effect).prepare_call(&json!({"env": "live"})) else {
                panic!("refused")
            };
            let found = call.predict_effect(&harness.cx).unwrap();
            assert_eq!((found.kind, found.subject.as_str()), (kind, subject));
            assert_eq!(call.title(), r#"deploy {"env":"live"}"#);
        }
    }
}
