//! The paths of complete outputs whose results were cut: `tool-output:NAME`, which only `read_file` and `grep` take.
//!
//! Such a path is not a file path: it leads to one stored content of the call's own session, and nowhere else in the data
//! folder. So it needs no approval, it stays valid in a fork, and it ends with the session. What was stored is free of
//! keys already. Must not know how contents are stored.

use super::ToolError;
use crate::base::text::one_line;
use crate::domain::{ContentRef, Effect};

/// Start of every such path.
const PREFIX: &str = "tool-output:";

/// Tools that take such a path.
pub const READERS: [&str; 2] = ["read_file", "grep"];

/// Returns the name of the stored content that `path` means, or `None` if it is the path of a file.
pub(super) fn stored_name(path: &str) -> Option<&str> {
    path.strip_prefix(PREFIX)
}

/// Builds the effect of reading the stored content at `path`: none, because the model has caused and partly seen it.
pub(super) fn build_effect(path: &str) -> Effect {
    Effect {
        subject: path.to_owned(),
        ..Effect::none()
    }
}

/// Returns the error of a call that cannot read the stored content `name`.
pub(super) fn explain_unreadable(name: &str, reason: &str) -> ToolError {
    ToolError::WrongInput(format!("cannot read `{PREFIX}{}`: {reason}", one_line(name, 150)))
}

/// Returns the error of a tool that was given such a path but needs the path of a file.
pub(super) fn refuse_stored_path(path: &str) -> ToolError {
    ToolError::WrongInput(format!(
        "`{}` is the output of a call, not a file; only read_file and grep take it",
        one_line(path, 150)
    ))
}

/// Describes for the model where the complete output is, if it has one of the tools that read it.
pub fn describe_location(full: &ContentRef, has_tool: impl Fn(&str) -> bool) -> Option<String> {
    let readers: Vec<&str> = READERS.into_iter().filter(|tool| has_tool(tool)).collect();
    let verb = match readers.len() {
        0 => return None,
        1 => "takes",
        _ => "take",
    };
    Some(format!(
        "[the whole output has {} bytes; {} {verb} the path `{PREFIX}{}`]",
        full.bytes,
        readers.join(" and "),
        full.name
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::ToolHarness;
    use super::*;

    fn harness_with_output(text: &str) -> ToolHarness {
        let harness = ToolHarness::new();
        let mut writer = harness
            .cx
            .content_sink
            .create_writer("call_1-output.txt")
            .unwrap();
        writer.append_text(text).unwrap();
        writer.finish().unwrap();
        harness
    }

    #[tokio::test]
    async fn read_file_and_grep_take_the_path_of_an_output() {
        let lines: String = (1..=3_000).map(|n| format!("line {n}\n")).collect();
        let harness = harness_with_output(&lines);
        let path = "tool-output:call_1-output.txt";
        let read = json!({"path": path, "offset": 2_500, "limit": 1});
        assert_eq!(
            harness.call_tool("read_file", read).await.unwrap().text,
            "[the whole output of a call]\n2500\tline 2500\n[lines 2500 to 2500; continue with offset 2501]"
        );
        let search = json!({"path": path, "pattern": "^line 299[89]$", "context": 1});
        assert_eq!(
            harness.call_tool("grep", search).await.unwrap().text,
            format!(
                "{path}-2997-line 2997\n{path}:2998:line 2998\n{path}:2999:line 2999\n{path}-3000-line 3000\n"
            )
        );
    }

    #[tokio::test]
    async fn the_path_of_an_output_leads_to_nothing_else() {
        let harness = harness_with_output("x");
        for tool in ["read_file", "grep"] {
            let arguments = |path: &str| match tool {
                "grep" => json!({"path": path, "pattern": "x"}),
                _ => json!({ "path": path }),
            };
            let effect = harness
                .predict_effect(tool, arguments("tool-output:call_1-output.txt"))
                .unwrap();
            assert_eq!(effect, build_effect("tool-output:call_1-output.txt"));
            for path in ["tool-output:other", "tool-output:../x", "tool-output:"] {
                let refusal = harness.call_expecting_error(tool, arguments(path)).await;
                assert!(refusal.contains("there is no such output"), "{refusal}");
            }
        }
        let path = "tool-output:call_1-output.txt";
        for (tool, arguments) in [
            ("write_file", json!({"path": path, "content": "y"})),
            ("list_dir", json!({"path": path})),
            ("glob", json!({"path": path, "pattern": "*"})),
        ] {
            let refusal = harness.call_expecting_error(tool, arguments).await;
            assert!(
                refusal.contains("is the output of a call, not a file"),
                "{refusal}"
            );
        }
        assert!(!harness.path(path).exists());
    }

    #[test]
    fn only_tools_that_the_agent_has_are_named() {
        let full = ContentRef {
            name: "call_1".to_owned(),
            bytes: 7,
        };
        for (tools, want) in [
            (
                &["bash", "grep", "read_file"][..],
                Some("[the whole output has 7 bytes; read_file and grep take the path `tool-output:call_1`]"),
            ),
            (
                &["grep"],
                Some("[the whole output has 7 bytes; grep takes the path `tool-output:call_1`]"),
            ),
            (&["bash"], None),
        ] {
            let location = describe_location(&full, |tool| tools.contains(&tool));
            assert_eq!(location.as_deref(), want);
        }
    }
}
