//! `list_dir`: lists what is in a folder. Must not descend or read contents.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;

use schemars::JsonSchema;
use serde::Deserialize;

use super::files;
use super::output::refuse_input;
use super::walk::{MAX_RESULTS, MAX_TIME, WalkBound, WalkEnd};
use super::{Tool, ToolContext, ToolError, ToolOutput};
use crate::base::nofollow::{self, FileKind, OpenFolder};
use crate::base::text::name_in_list;
use crate::domain::{Effect, EffectKind};

/// Most entries of a folder that are examined.
const MAX_ENTRIES: usize = 100_000;

/// The `list_dir` tool.
pub struct ListDir;

/// The arguments of `list_dir`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListDirInput {
    /// The folder. Default: the working directory.
    path: Option<String>,
}

impl ListDirInput {
    fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(".")
    }
}

impl Tool for ListDir {
    type Input = ListDirInput;

    const NAME: &'static str = "list_dir";

    const DESCRIPTION: &'static str = "Lists what is in a folder, hidden and ignored entries included: \
        folders first and with a slash, files with their size in bytes, links with their target. Gives at \
        most 1000 entries. To find files in folders below use glob.";

    fn call_title(&self, input: &ListDirInput) -> String {
        files::format_title("List", input.path())
    }

    fn predict_effect(&self, input: &ListDirInput, cx: &ToolContext) -> Result<Effect, ToolError> {
        let target = cx.resolve_path(input.path())?;
        Ok(files::build_effect(EffectKind::Read, &[target]))
    }

    async fn run(&self, input: ListDirInput, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let inner = cx.clone();
        files::run_blocking(&cx, move |stop| {
            list_folder(&inner, &input, &WalkBound::new(stop, MAX_TIME)).map(ToolOutput::text)
        })
        .await
    }
}

fn list_folder(cx: &ToolContext, input: &ListDirInput, bound: &WalkBound) -> Result<String, ToolError> {
    let target = cx.resolve_path(input.path())?;
    let path = &target.absolute;
    match nofollow::kind(path) {
        Some(FileKind::Folder) => {}
        Some(FileKind::Regular) => {
            return refuse_input(format!("`{}` is a file; use read_file", target.display));
        }
        // A link here has appeared since the path was resolved.
        Some(kind) => return refuse_input(format!("`{}` is {kind}, not a folder", target.display)),
        None => {
            let suggestions = files::suggest_similar_paths(cx, path);
            return refuse_input(format!("`{}` does not exist{suggestions}", target.display));
        }
    }
    let failed = |error: io::Error| {
        files::explain_io_error(format!("cannot list `{}`: {error}", target.display), &error)
    };
    let folder = OpenFolder::open(path).map_err(failed)?;
    let mut entries = Vec::new();
    let mut end = None;
    for entry in folder.read_entries().map_err(failed)? {
        match bound.check_end() {
            Some(WalkEnd::Cancelled) => return Err(ToolError::Cancelled),
            Some(WalkEnd::TimeUp) => {
                end = Some("stopped after 10 seconds; there may be more");
                break;
            }
            None => {}
        }
        // All entries are collected before sorting, so their number is bounded.
        if entries.len() == MAX_ENTRIES {
            end = Some("not all entries were looked at");
            break;
        }
        let entry = entry.map_err(failed)?;
        // `false` sorts first, so folders come before files.
        entries.push((entry.kind != FileKind::Folder, entry.name));
    }
    entries.sort();
    let mut notes: Vec<String> = end.map(str::to_owned).into_iter().collect();
    if entries.len() > MAX_RESULTS {
        notes.push(format!(
            "the first {MAX_RESULTS} of {} entries; use glob to narrow",
            entries.len()
        ));
    }
    let mut text = String::new();
    // Only the entries shown cost a status call.
    for (_, name) in entries.iter().take(MAX_RESULTS) {
        let _ = writeln!(text, "{}", describe_entry(&folder, name));
    }
    if text.is_empty() && notes.is_empty() {
        text.push_str("[the folder is empty]\n");
    }
    if !notes.is_empty() {
        let _ = writeln!(text, "[{}]", notes.join("; "));
    }
    if input.path.is_none() {
        text.push_str(&other_folders(cx));
    }
    Ok(text)
}

fn describe_entry(folder: &OpenFolder, entry: &OsStr) -> String {
    let status = folder.entry_status(entry).ok();
    let name = entry.to_string_lossy();
    let name = name_in_list(&name);
    match status.map(|status| (nofollow::kind_of(&status), status.st_size)) {
        Some((FileKind::Folder, _)) => format!("{name}/"),
        Some((FileKind::Link, _)) => {
            let target = folder.read_link(entry).unwrap_or_default();
            format!("{name} -> {}", name_in_list(&target.to_string_lossy()))
        }
        Some((FileKind::Regular, bytes)) => format!("{name} ({bytes})"),
        _ => format!("{name} (special)"),
    }
}

fn other_folders(cx: &ToolContext) -> String {
    let names: Vec<String> = cx
        .workspace
        .resolve_roots(&cx.cwd)
        .iter()
        .filter(|root| !cx.cwd.starts_with(root.path()))
        .map(|root| format!("{}/", cx.workspace.format_for_model(&cx.cwd, root.path())))
        .collect();
    if names.is_empty() {
        String::new()
    } else {
        format!("[other workspace folders: {}]\n", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::ToolHarness;
    use super::*;

    #[tokio::test]
    async fn folders_are_listed_first() {
        let harness = ToolHarness::with_folders(&["app", "lib"]);
        harness.write("z/x", "");
        harness.write(".hidden", "12345");
        harness.write("a.txt", "");
        #[cfg(unix)]
        std::os::unix::fs::symlink("z", harness.path("link")).unwrap();
        let text = harness.call_tool("list_dir", json!({})).await.unwrap().text;
        assert_eq!(
            text,
            "z/\n.hidden (5)\na.txt (0)\nlink -> z\n[other workspace folders: lib/]\n"
        );
        assert_eq!(
            harness
                .call_tool("list_dir", json!({"path": "lib"}))
                .await
                .unwrap()
                .text,
            "[the folder is empty]\n"
        );
        assert_eq!(
            harness
                .call_tool("list_dir", json!({"path": "link"}))
                .await
                .unwrap()
                .text,
            "x (0)\n"
        );
        assert!(
            harness
                .call_expecting_error("list_dir", json!({"path": "a.txt"}))
                .await
                .contains("use read_file")
        );
        assert!(
            harness
                .call_expecting_error("list_dir", json!({"path": "lin"}))
                .await
                .contains("Did you mean `link`?")
        );
        assert!(
            harness
                .predict_effect("list_dir", json!({"path": ".."}))
                .unwrap()
                .outside
        );
    }

    #[tokio::test]
    async fn a_list_that_ends_early_says_so() {
        let harness = ToolHarness::new();
        harness.write("a", "");
        let input: ListDirInput = serde_json::from_value(json!({})).unwrap();
        let stop = crate::base::CancellationToken::new();
        let bound = WalkBound::new(&stop, std::time::Duration::ZERO);
        assert_eq!(
            list_folder(&harness.cx, &input, &bound).unwrap(),
            "[stopped after 10 seconds; there may be more]\n"
        );
    }

    #[tokio::test]
    async fn long_lists_are_cut_with_a_note() {
        let harness = ToolHarness::new();
        for n in 0..=MAX_RESULTS {
            harness.write(&n.to_string(), "");
        }
        let text = harness.call_tool("list_dir", json!({})).await.unwrap().text;
        assert!(text.ends_with("[the first 1000 of 1001 entries; use glob to narrow]\n"));
    }
}
