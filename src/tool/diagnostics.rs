//! `diagnostics`: reports what the editor's compilers and linters find, if the editor supports it (R-TOOL-3).
//!
//! Filters and formats findings. Must not run a compiler or linter; [`super::EditorLink`] asks the editor.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use super::files;
use super::output::refuse_input;
use super::{
    DiagnosticSeverity, DiagnosticsRequest, EditorDiagnostic, Tool, ToolContext, ToolError, ToolOutput,
};
use crate::base::nofollow::{self, FileKind};
use crate::base::text::{one_line, strip_control_characters};
use crate::base::uri;
use crate::domain::{Effect, EffectKind};

/// Most findings reported.
const MAX_REPORTED: usize = 200;
/// Longest message, in characters.
const MAX_MESSAGE: usize = 1_000;

/// The `diagnostics` tool.
pub struct Diagnostics;

/// The arguments of `diagnostics`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiagnosticsInput {
    /// A file, or a folder for all below it. Default: the whole workspace.
    path: Option<String>,
    /// Leave out what is less grave than this. Default: hint, which leaves out nothing.
    at_least: Option<AtLeast>,
}

/// How grave a finding must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum AtLeast {
    /// Errors alone.
    Error,
    /// And warnings.
    Warning,
    /// And what is worth knowing.
    Information,
    /// All.
    #[default]
    Hint,
}

impl AtLeast {
    fn to_severity(self) -> DiagnosticSeverity {
        match self {
            Self::Error => DiagnosticSeverity::Error,
            Self::Warning => DiagnosticSeverity::Warning,
            Self::Information => DiagnosticSeverity::Information,
            Self::Hint => DiagnosticSeverity::Hint,
        }
    }
}

impl Tool for Diagnostics {
    type Input = DiagnosticsInput;

    const NAME: &'static str = "diagnostics";

    const READS_WORKSPACE: bool = true;

    const DESCRIPTION: &'static str = "Tells what the user's editor reports of the files: errors and warnings \
        of compilers, linters and language servers, by line. Quicker than a build where it is enough. The editor \
        knows of files that are open, and of others as far as its language servers do; after an edit they may take \
        a few seconds. That nothing is reported proves nothing: run the build or the tests before you say it works.";

    fn call_title(&self, input: &DiagnosticsInput) -> String {
        match &input.path {
            Some(path) => files::format_title("Diagnostics of", path),
            None => "Diagnostics".to_owned(),
        }
    }

    fn predict_effect(&self, input: &DiagnosticsInput, cx: &ToolContext) -> Result<Effect, ToolError> {
        let target = cx
            .workspace
            .resolve_path(&cx.cwd, input.path.as_deref().unwrap_or("."))?;
        Ok(files::build_effect(EffectKind::Read, &[target]))
    }

    async fn run(&self, input: DiagnosticsInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let inner = cx.clone();
        let path = input.path.clone();
        let (uri, within) = files::run_blocking(&cx, move |_| {
            let Some(path) = path else { return Ok((None, None)) };
            let target = inner.resolve_path(&path)?.absolute;
            match nofollow::kind(&target) {
                Some(FileKind::Folder) => return Ok((None, Some(target))),
                Some(_) => {}
                None => {
                    let suggestions = files::suggest_similar_paths(&inner, &target);
                    return refuse_input(format!("`{path}` does not exist{suggestions}"));
                }
            }
            // If the file is open, use the URI as the editor spells it.
            let open = inner
                .workspace
                .overlay()
                .find_open_document(&target)
                .map(|open| open.uri);
            Ok((Some(open.unwrap_or_else(|| uri::uri_of(&target))), Some(target)))
        })
        .await?;
        let reply = tokio::select! { biased;
            () = cx.cancel.cancelled() => return Err(ToolError::Cancelled),
            answer = cx.editor.request_diagnostics(DiagnosticsRequest { uri, ..Default::default() }) => answer,
        };
        let found = reply
            .map_err(|error| ToolError::Reported(error.to_string()))?
            .found;
        let least = input.at_least.unwrap_or_default().to_severity();
        let inner = cx.clone();
        files::run_blocking(&cx, move |_| {
            Ok(format_diagnostics(&inner, found, within.as_deref(), least))
        })
        .await
    }
}

/// Formats the findings by file and line, with a count per severity.
fn format_diagnostics(
    cx: &ToolContext,
    found: Vec<EditorDiagnostic>,
    within: Option<&Path>,
    least: DiagnosticSeverity,
) -> ToolOutput {
    let mut by_file: BTreeMap<String, Vec<EditorDiagnostic>> = BTreeMap::new();
    let (mut counts, mut left_out) = ([0usize; 4], 0usize);
    for one in found {
        let Ok(at) = cx.workspace.resolve_path(&cx.cwd, &one.uri) else {
            // Without a local path there is nothing to judge it by.
            continue;
        };
        let wanted = match within {
            // A secret file appears only if the call names it, since it was judged by that name.
            Some(within) => at.absolute.starts_with(within) && (!at.secret || at.absolute == within),
            None => at.inside && !at.secret,
        };
        if !wanted {
            continue;
        }
        if one.severity > least {
            left_out += 1;
            continue;
        }
        counts[one.severity as usize] += 1;
        by_file
            .entry(cx.workspace.format_for_model(&cx.cwd, &at.absolute))
            .or_default()
            .push(one);
    }
    let total: usize = counts.iter().sum();
    let mut text = String::new();
    let mut remaining = MAX_REPORTED;
    for (file, mut findings) in by_file {
        findings.sort_by_key(|one| (one.range.start, one.severity));
        for one in findings.iter().take(remaining) {
            write_diagnostic(&mut text, &file, one);
        }
        remaining = remaining.saturating_sub(findings.len());
    }
    if total == 0 {
        text.push_str("The editor reports nothing");
        text.push_str(if left_out > 0 { " so grave" } else { "" });
        text.push_str(".\n");
    } else {
        let _ = writeln!(text, "[{}]", format_counts(&counts));
    }
    if total > MAX_REPORTED {
        let _ = writeln!(
            text,
            "[only the first {MAX_REPORTED} are shown: ask for a file or a folder, or at_least error]"
        );
    }
    if left_out > 0 {
        let _ = writeln!(text, "[{left_out} less grave were left out]");
    }
    ToolOutput::text(text)
}

/// Writes a finding on a line.
pub(super) fn write_diagnostic(text: &mut String, file: &str, one: &EditorDiagnostic) {
    let at = one.range.start;
    let message = one_line(&strip_control_characters(&one.message), MAX_MESSAGE);
    let source = one.source.as_deref().map_or_else(String::new, |source| {
        format!(" ({})", one_line(&strip_control_characters(source), 60))
    });
    let _ = writeln!(
        text,
        "{file}:{}:{}: {}: {message}{source}",
        at.line + 1,
        at.character + 1,
        one.severity.name(),
    );
}

/// Formats counts such as `2 errors, 1 warning`.
fn format_counts(counts: &[usize; 4]) -> String {
    let kinds = ["error", "warning", "note", "hint"].iter().zip(counts);
    let parts = kinds
        .filter(|(_, count)| **count > 0)
        .map(|(kind, count)| match count {
            1 => format!("1 {kind}"),
            count => format!("{count} {kind}s"),
        });
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::future::BoxFuture;
    use serde_json::json;

    use super::super::testing::ToolHarness;
    use super::super::{DiagnosticsAnswer, DocumentEdit, EditorAbilities, EditorError, EditorLink};
    use super::*;
    use crate::base::position::{Position, Range};

    /// Reports these findings, and records the requests.
    struct Finds {
        found: Vec<EditorDiagnostic>,
        requests: Arc<std::sync::Mutex<Vec<Option<String>>>>,
    }

    impl EditorLink for Finds {
        fn abilities(&self) -> EditorAbilities {
            EditorAbilities::default()
        }

        fn apply(&self, _: DocumentEdit) -> BoxFuture<'static, Result<(), EditorError>> {
            unreachable!("nothing is edited")
        }

        fn save_document(&self, _: String) -> BoxFuture<'static, Result<Option<String>, EditorError>> {
            unreachable!("nothing is saved")
        }

        fn request_credential(
            &self,
            _: String,
        ) -> BoxFuture<'static, Result<Option<secrecy::SecretString>, EditorError>> {
            unreachable!("no key is asked for")
        }

        fn request_diagnostics(
            &self,
            request: DiagnosticsRequest,
        ) -> BoxFuture<'static, Result<DiagnosticsAnswer, EditorError>> {
            self.requests.lock().unwrap().push(request.uri);
            let found = self.found.clone();
            let unreported = Vec::new();
            Box::pin(async move { Ok(DiagnosticsAnswer { found, unreported }) })
        }
    }

    fn finding(
        harness: &ToolHarness,
        path: &str,
        line: u32,
        grade: DiagnosticSeverity,
        message: &str,
    ) -> EditorDiagnostic {
        let at = Position { line, character: 4 };
        EditorDiagnostic {
            uri: uri::uri_of(&harness.path(path)),
            range: Range { start: at, end: at },
            severity: grade,
            message: message.to_owned(),
            source: Some("rustc".to_owned()),
        }
    }

    #[tokio::test]
    async fn findings_are_reported_by_file_and_line() {
        let mut harness = ToolHarness::new();
        for path in ["src/a.rs", "b.rs", ".env"] {
            harness.write(path, "x\n");
        }
        let found = vec![
            finding(
                &harness,
                "src/a.rs",
                9,
                DiagnosticSeverity::Warning,
                "unused\nvariable",
            ),
            finding(
                &harness,
                "src/a.rs",
                2,
                DiagnosticSeverity::Error,
                "no such \u{1b}[31mname",
            ),
            finding(&harness, "b.rs", 0, DiagnosticSeverity::Hint, "could be shorter"),
            finding(
                &harness,
                ".env",
                0,
                DiagnosticSeverity::Error,
                "SECRET=1 is not a name",
            ),
            finding(
                &harness,
                "../outside.rs",
                0,
                DiagnosticSeverity::Error,
                "elsewhere",
            ),
        ];
        let requests = Arc::default();
        harness.cx.editor = Arc::new(Finds {
            found,
            requests: Arc::clone(&requests),
        });
        let text = |args| async { harness.call_tool("diagnostics", args).await.unwrap().text };
        assert_eq!(
            text(json!({})).await,
            "b.rs:1:5: hint: could be shorter (rustc)\n\
             src/a.rs:3:5: error: no such name (rustc)\n\
             src/a.rs:10:5: warning: unused variable (rustc)\n\
             [1 error, 1 warning, 1 hint]\n"
        );
        assert_eq!(
            text(json!({"path": "src", "at_least": "error"})).await,
            "src/a.rs:3:5: error: no such name (rustc)\n[1 error]\n[1 less grave were left out]\n"
        );
        assert_eq!(
            text(json!({"path": "b.rs", "at_least": "warning"})).await,
            "The editor reports nothing so grave.\n[1 less grave were left out]\n"
        );
        let of_file = Some(uri::uri_of(&harness.path("b.rs")));
        assert_eq!(*requests.lock().unwrap(), [None, None, of_file]);
        // A secret file that the call names was approved.
        assert!(
            harness
                .predict_effect("diagnostics", json!({"path": ".env"}))
                .unwrap()
                .secret
        );
        assert!(text(json!({"path": ".env"})).await.contains("SECRET=1"));
        let wrong = harness
            .call_expecting_error("diagnostics", json!({"path": "src/b.rs"}))
            .await;
        assert!(wrong.contains("does not exist"), "{wrong}");
    }
}
