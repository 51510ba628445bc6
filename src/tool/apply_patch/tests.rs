//! The tool on real files: what it does, and what it refuses.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::tool::testing::ToolHarness;

const PATCH: &str = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+2\n*** Add File: new/b.txt\n+b\n*** Delete File: \
                     c.txt\n*** Update File: d.sh\n*** Move to: e/d.sh\n@@\n-run\n+walk\n*** End Patch\n";

fn patch(patch: &str) -> Value {
    json!({ "patch": patch })
}

fn create_harness() -> ToolHarness {
    let harness = ToolHarness::new();
    harness.write("a.txt", "one\r\ntwo\r\n");
    harness.write("c.txt", "gone\n");
    harness.write("d.sh", "#!/bin/sh\nrun\n");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(harness.path("d.sh"), mode).unwrap();
    harness
}

#[tokio::test]
async fn a_patch_changes_adds_deletes_and_moves_files() {
    let harness = create_harness();
    let preview = harness.preview_change("apply_patch", patch(PATCH)).await.unwrap();
    assert_eq!(
        preview.diff.as_deref(),
        Some(
            "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\r\n-two\r\n+2\r\n--- /dev/null\n+++ b/new/b.txt\n@@ -0,0 +1 \
             @@\n+b\n--- a/c.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n--- a/d.sh\n+++ b/e/d.sh\n@@ -1,2 +1,2 \
             @@\n #!/bin/sh\n-run\n+walk\n"
        )
    );
    assert_eq!(preview.locations.len(), 5);
    assert_eq!(harness.read("a.txt"), "one\r\ntwo\r\n");
    let output = harness.call_tool("apply_patch", patch(PATCH)).await.unwrap();
    assert_eq!(
        output.text,
        "edited a.txt (+1 −1 lines)\ncreated new/b.txt (+1 −0 lines)\ndeleted c.txt (−1 lines)\nmoved d.sh to e/d.sh (+1 \
         −1 lines)"
    );
    assert_eq!(output.diff, preview.diff);
    assert_eq!(harness.read("a.txt"), "one\r\n2\r\n");
    assert_eq!(harness.read("new/b.txt"), "b\n");
    assert_eq!(harness.read("e/d.sh"), "#!/bin/sh\nwalk\n");
    assert!(!harness.path("c.txt").exists() && !harness.path("d.sh").exists());
    let mode = harness.path("e/d.sh").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[tokio::test]
async fn a_patch_that_does_not_fit_changes_no_file() {
    let harness = create_harness();
    harness.write("twice.txt", "x\nx\n");
    std::fs::write(harness.path("raw"), b"\0\xff").unwrap();
    std::os::unix::fs::symlink("a.txt", harness.path("link")).unwrap();
    for (more, problem) in [
        (
            "*** Update File: a.txt\n-three\n+3",
            "`a.txt`: the hunk was not found",
        ),
        (
            "*** Update File: twice.txt\n-x\n+y",
            "`twice.txt`: the hunk fits at 2 places (lines 1, 2)",
        ),
        (
            "*** Update File: A.txt\n-one\n+1",
            "`A.txt` does not exist. Did you mean `a.txt`",
        ),
        (
            "*** Add File: a.txt\n+other",
            "`a.txt` exists already; change it with `*** Update File`",
        ),
        ("*** Delete File: nothing.txt", "`nothing.txt` does not exist"),
        ("*** Delete File: raw", "`raw` is not a text file"),
        ("*** Delete File: link", "reached through a link"),
        ("*** Delete File: .", "is not deleted"),
        (
            "*** Update File: a.txt\n*** Move to: d.sh",
            "`d.sh` exists already",
        ),
        (
            "*** Update File: a.txt\n*** Move to: x\n*** Delete File: a.txt",
            "names `a.txt` twice",
        ),
        ("nonsense", "`c.txt`: the hunk was not found"),
        ("*** Nonsense: x", "line 5 of the patch"),
    ] {
        let whole = format!("*** Begin Patch\n*** Update File: c.txt\n-gone\n+here\n{more}\n*** End Patch");
        let error = harness.call_expecting_error("apply_patch", patch(&whole)).await;
        assert!(error.contains(problem), "{more}: {error}");
        assert_eq!(harness.read("c.txt"), "gone\n", "{more}");
        harness
            .preview_change("apply_patch", patch(&whole))
            .await
            .unwrap_err();
    }
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_takes_only_exact_hunks() {
    let harness = create_harness();
    harness
        .call_tool("read_file", json!({"path": "c.txt"}))
        .await
        .unwrap();
    harness.write("c.txt", "gone\nby a user\n");
    for change in ["*** Update File: c.txt\n-gon\n+x", "*** Delete File: c.txt"] {
        harness.write("c.txt", "gone\nby a user\n");
        let fresh = harness.cx.workspace.read_log();
        fresh.record_text(&harness.path("c.txt"), "gone\n");
        let error = harness.call_expecting_error("apply_patch", patch(change)).await;
        assert!(
            error.contains("has changed since you read it") && error.contains("by a user"),
            "{error}"
        );
    }
    let fresh = harness.cx.workspace.read_log();
    fresh.record_text(&harness.path("c.txt"), "gone\n");
    let output = harness
        .call_tool("apply_patch", patch("*** Update File: c.txt\n-gone\n+here"))
        .await
        .unwrap();
    assert_eq!(harness.read("c.txt"), "here\nby a user\n");
    assert!(
        output.text.contains("the file had changed since you read it"),
        "{}",
        output.text
    );
}

#[tokio::test]
async fn unsaved_text_in_the_editor_is_never_lost() {
    let harness = create_harness();
    harness.open("c.txt", "typed\n");
    for change in [
        "*** Delete File: c.txt",
        "*** Update File: c.txt\n*** Move to: f.txt",
        "*** Update File: c.txt\n-typed\n+x",
        "*** Add File: c.txt\n+x",
    ] {
        let error = harness.call_expecting_error("apply_patch", patch(change)).await;
        assert!(
            error.contains("unsaved changes in the editor"),
            "{change}: {error}"
        );
    }
    assert_eq!(harness.read("c.txt"), "gone\n");
}

#[tokio::test]
async fn an_added_file_that_is_there_and_a_second_update_are_accepted() {
    let harness = create_harness();
    let change = "*** Add File: c.txt\n+gone\n*** Update File: a.txt\n-one\n+1\n*** Update File: a.txt\n-two\n+2\n*** Add File: \
                  empty\n";
    let preview = harness
        .preview_change("apply_patch", patch(change))
        .await
        .unwrap();
    assert!(preview.diff.unwrap().ends_with("--- /dev/null\n+++ b/empty\n"));
    let output = harness.call_tool("apply_patch", patch(change)).await.unwrap();
    assert_eq!(
        output.text,
        "c.txt already has this text\nedited a.txt in 2 places (+2 −2 lines)\ncreated empty (+0 −0 lines)"
    );
    assert_eq!(
        (harness.read("a.txt").as_str(), harness.read("empty").as_str()),
        ("1\r\n2\r\n", "")
    );
}

#[test]
fn the_effect_has_all_files_and_the_tools_that_would_do_the_same() {
    let harness = create_harness();
    let effect = harness.predict_effect("apply_patch", patch(PATCH)).unwrap();
    let paths = ["a.txt", "new/b.txt", "c.txt", "d.sh", "e/d.sh"];
    assert_eq!(effect.paths, paths.map(|path| harness.path(path)));
    assert!(!effect.outside && !effect.secret);
    assert_eq!(effect.stands_for, ["edit_file", "write_file"]);
    for (change, tools) in [
        ("*** Update File: a.txt\n-one", &["edit_file"][..]),
        ("*** Add File: x\n+x", &["write_file"]),
        ("*** Delete File: a.txt", &["write_file"]),
        ("*** Update File: a.txt\n*** Move to: x", &["write_file"]),
    ] {
        let effect = harness.predict_effect("apply_patch", patch(change)).unwrap();
        assert_eq!(effect.stands_for, tools, "{change}");
    }
    // The file that needs care is the first, wherever it is in the patch.
    for (path, outside, secret) in [
        ("../x", true, false),
        (".env", false, true),
        (".git/hooks/pre-commit", false, false),
    ] {
        for change in [
            format!("*** Add File: {path}\n+x"),
            format!("*** Update File: c.txt\n*** Move to: {path}"),
        ] {
            let whole = format!("*** Update File: a.txt\n-one\n{change}");
            let effect = harness.predict_effect("apply_patch", patch(&whole)).unwrap();
            assert_eq!((effect.outside, effect.secret), (outside, secret), "{change}");
            assert!(
                effect.subject.ends_with(path.trim_start_matches("..")),
                "{change}: {}",
                effect.subject
            );
        }
    }
}

#[test]
fn a_name_of_a_folder_is_no_file() {
    let harness = create_harness();
    for (tool, input) in [
        ("apply_patch", patch("*** Add File: dir/\n+x")),
        ("apply_patch", patch("*** Update File: c.txt\n*** Move to: dir/")),
        ("write_file", json!({"path": "dir/", "content": "x"})),
    ] {
        let refused = harness.predict_effect(tool, input).unwrap_err();
        assert!(refused.contains("`dir/` names a folder"), "{refused}");
    }
}
