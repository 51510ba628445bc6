//! `agentls config`: prints the schema, and the problems in the configuration files.
//!
//! Runs without a server: it loads the files with [`crate::config`], as the server does, and only prints the result.

use std::path::Path;

use serde_json::json;

use super::screen::{Screen, print_json, print_to_stdout};
use super::style::Color;
use crate::config::{ConfigSeverity, ConfigSource, Diagnostic, FolderItemKind, Trust, export_json_schema};

/// Prints the JSON Schema of the configuration file.
pub(super) fn print_schema() -> std::io::Result<i32> {
    print_to_stdout(&format!("{:#}\n", export_json_schema()))?;
    Ok(0)
}

/// Prints the problems as JSON. Returns the exit code: 1 if there is an error.
pub(super) fn print_check(source: &ConfigSource, trust: &Trust, folder: &Path) -> std::io::Result<i32> {
    let problems = source.load_settings(Some(folder), trust).diagnostics;
    let has_error = problems.iter().any(is_error);
    let listed = problems.iter().map(|problem| {
        let mut listed = json!({
            "severity": problem.severity.name(), "file": problem.file, "line": problem.line,
            "column": problem.column, "key": problem.key, "message": problem.message,
        });
        if let Some(hint) = &problem.hint {
            listed["hint"] = json!(hint);
        }
        listed
    });
    let mut report = json!({
        "ok": !has_error,
        "files": find_config_files(source, folder),
        "problems": listed.collect::<Vec<_>>(),
    });
    if let Some(description) = describe_untrusted_settings(source, trust, folder) {
        report["untrusted"] = json!(format!("this folder {description}"));
    }
    print_json(&format!("{report:#}\n"))?;
    Ok(i32::from(has_error))
}

/// Prints one problem per line. Returns the exit code: 1 if there is an error.
pub(super) fn check_config(screen: &mut Screen, source: &ConfigSource, trust: &Trust, folder: &Path) -> i32 {
    let problems = source.load_settings(Some(folder), trust).diagnostics;
    let styler = screen.styler;
    for problem in &problems {
        let ink = match problem.severity {
            ConfigSeverity::Error => Color::BoldRed,
            ConfigSeverity::Warning => Color::BoldYellow,
        };
        let name = problem.severity.name();
        let line = problem.to_string();
        // Only the first match: the message may contain the same words.
        let painted = line.replacen(
            &format!(": {name}: "),
            &format!(": {}: ", styler.paint_text(ink, name)),
            1,
        );
        screen.write_line(&painted);
    }
    if problems.is_empty() {
        let read = find_config_files(source, folder);
        screen.write_line(&match read.as_slice() {
            [] => "no configuration file; using the defaults".to_owned(),
            read => format!("{}: no problems", read.join(", ")),
        });
    }
    if let Some(description) = describe_untrusted_settings(source, trust, folder) {
        screen.write_line(&format!(
            "not trusted: this folder {description}; run `/trust` in a chat to review it"
        ));
    }
    i32::from(problems.iter().any(is_error))
}

/// Describes what an untrusted folder's own files would do; `None` if it is trusted or they would do nothing.
pub(super) fn describe_untrusted_settings(
    source: &ConfigSource,
    trust: &Trust,
    folder: &Path,
) -> Option<String> {
    let described = source.describe_folder(folder, trust);
    if described.trusted {
        return None;
    }
    let of_kind = |kind| described.items.iter().filter(|item| item.kind == kind).count();
    let counts = [
        (of_kind(FolderItemKind::Hook), "hook"),
        (of_kind(FolderItemKind::Tool), "tool"),
        (of_kind(FolderItemKind::McpServer), "MCP server"),
        (of_kind(FolderItemKind::Setting), "setting"),
        (described.redirects.len(), "redirected provider"),
    ];
    let named: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, noun)| format!("{count} {noun}{}", if *count == 1 { "" } else { "s" }))
        .collect();
    (!named.is_empty()).then(|| format!("would activate {}", named.join(", ")))
}

/// Returns whether a problem is more than a warning.
pub(super) fn is_error(problem: &Diagnostic) -> bool {
    problem.severity == ConfigSeverity::Error
}

/// Returns the configuration files that exist.
pub(super) fn find_config_files(source: &ConfigSource, folder: &Path) -> Vec<String> {
    let user = source.places.as_ref().map(|places| places.config_file.clone());
    let own = ["config.toml", "config.local.toml"].map(|name| folder.join(".agentls").join(name));
    user.into_iter()
        .chain(own)
        .filter(|path| path.is_file())
        .map(|path| path.display().to_string())
        .collect()
}
