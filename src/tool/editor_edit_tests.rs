//! Tools with a simulated editor that is honest, lies, is stale, or is silent.

use std::sync::Mutex;

use futures::future::BoxFuture;
use serde_json::json;

use super::super::testing::ToolHarness;
use super::super::{EditorAbilities, EditorLink};
use super::*;
use crate::base::position::{DocumentChange, PositionEncoding};
use crate::base::{CancellationToken, uri};

/// How the simulated editor behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EditorBehavior {
    Applies,
    /// Reports success and does nothing.
    FalseSuccess,
    /// The user types before the edit arrives, and the editor refuses it.
    Stale,
    /// The same, but the editor reports success, as stock Neovim does.
    StaleFalseSuccess,
    /// Does nothing and never answers.
    Silent,
    /// Makes the edit and never answers.
    AppliesSilently,
    /// Makes the edit, then the user types on before the editor answers.
    TypedAfterEdit,
}

struct Simulated {
    behavior: EditorBehavior,
    abilities: EditorAbilities,
    workspace: Arc<crate::workspace::Workspace>,
    /// Version and text.
    text: Mutex<(i32, String)>,
    path: std::path::PathBuf,
    edits: Mutex<Vec<DocumentEdit>>,
    saves: Result<Option<String>, EditorError>,
}

impl Simulated {
    fn show(&self, text: &str) {
        let version = {
            let mut now = self.text.lock().unwrap();
            *now = (now.0 + 1, text.to_owned());
            now.0
        };
        let change = DocumentChange {
            range: None,
            text: text.to_owned(),
        };
        self.workspace
            .overlay()
            .did_change(&uri::uri_of(&self.path), version, vec![change]);
    }

    fn make(&self, edit: &DocumentEdit) {
        let mut text = self.text.lock().unwrap().1.clone();
        for edit in edit.edits.iter().rev() {
            let change = DocumentChange {
                range: Some(edit.range),
                text: edit.text.clone(),
            };
            crate::base::position::apply_changes(&mut text, &[change], PositionEncoding::Utf16);
        }
        self.show(&text);
    }
}

/// The editor behind the trait, while the test keeps a handle of its own.
#[derive(Clone)]
struct EditorHandle(Arc<Simulated>);

impl EditorLink for EditorHandle {
    fn abilities(&self) -> EditorAbilities {
        self.0.abilities
    }

    fn apply(&self, edit: DocumentEdit) -> BoxFuture<'static, Result<(), EditorError>> {
        let editor = self.0.clone();
        Box::pin(async move {
            let (version, text) = editor.text.lock().unwrap().clone();
            assert_eq!(edit.version, version);
            editor.edits.lock().unwrap().push(edit.clone());
            match editor.behavior {
                EditorBehavior::Applies => editor.make(&edit),
                EditorBehavior::TypedAfterEdit => {
                    editor.make(&edit);
                    let edited = editor.text.lock().unwrap().1.clone();
                    editor.show(&format!("{edited}typed\n"));
                }
                EditorBehavior::FalseSuccess => {}
                EditorBehavior::Stale => {
                    editor.show(&format!("{text}typed\n"));
                    return Err(EditorError::Refused("it has changed".to_owned()));
                }
                EditorBehavior::StaleFalseSuccess => editor.show(&format!("{text}typed\n")),
                EditorBehavior::Silent => {
                    clock::sleep(Duration::from_secs(10)).await;
                    return Err(EditorError::Silent(Duration::from_secs(10)));
                }
                EditorBehavior::AppliesSilently => {
                    editor.make(&edit);
                    clock::sleep(Duration::from_secs(10)).await;
                    return Err(EditorError::Silent(Duration::from_secs(10)));
                }
            }
            Ok(())
        })
    }

    fn save_document(&self, _uri: String) -> BoxFuture<'static, Result<Option<String>, EditorError>> {
        let editor = self.0.clone();
        Box::pin(async move {
            if editor.saves == Ok(None) {
                std::fs::write(&editor.path, &editor.text.lock().unwrap().1).unwrap();
            }
            editor.saves.clone()
        })
    }

    fn request_credential(
        &self,
        _: String,
    ) -> BoxFuture<'static, Result<Option<secrecy::SecretString>, EditorError>> {
        Box::pin(async { Ok(None) })
    }
}

const ALL: EditorAbilities = EditorAbilities {
    apply: true,
    create: false,
    save: true,
    saves_edits: false,
    credentials: false,
    diagnostics: false,
    language: false,
    code_fixes: false,
};

/// Creates a harness whose editor has `a.txt` open; `unsaved` is its text there if it differs from the disk.
fn create_harness(
    behavior: EditorBehavior,
    disk: &str,
    unsaved: Option<&str>,
) -> (ToolHarness, Arc<Simulated>) {
    create_harness_with(behavior, disk, unsaved, ALL, Ok(None))
}

fn create_harness_with(
    behavior: EditorBehavior,
    disk: &str,
    unsaved: Option<&str>,
    abilities: EditorAbilities,
    saves: Result<Option<String>, EditorError>,
) -> (ToolHarness, Arc<Simulated>) {
    let mut harness = ToolHarness::new();
    harness.write("a.txt", disk);
    let text = unsaved.unwrap_or(disk).to_owned();
    let editor = Arc::new(Simulated {
        behavior,
        abilities,
        workspace: harness.cx.workspace.clone(),
        text: Mutex::new((0, text.clone())),
        path: harness.path("a.txt"),
        edits: Mutex::default(),
        saves,
    });
    harness.cx.editor = Arc::new(EditorHandle(editor.clone()));
    let uri = uri::uri_of(&editor.path);
    harness.cx.workspace.overlay().did_open(&uri, 0, &text);
    harness.cx.workspace.overlay().reconcile_with_disk(&uri);
    (harness, editor)
}

fn one_to_two() -> serde_json::Value {
    json!({"path": "a.txt", "edits": [{"old_text": "one", "new_text": "two"}]})
}

impl Simulated {
    fn now(&self) -> String {
        self.text.lock().unwrap().1.clone()
    }
}

#[tokio::test]
async fn a_clean_document_is_edited_in_the_editor_and_saved() {
    let (harness, editor) = create_harness(EditorBehavior::Applies, "one\nrest\n", None);
    let output = harness.call_tool("edit_file", one_to_two()).await.unwrap();
    assert_eq!(output.text, "edited a.txt (+1 −1 lines)");
    assert!(output.diff.is_some());
    assert_eq!(
        (editor.now(), harness.read("a.txt")),
        ("two\nrest\n".to_owned(), "two\nrest\n".to_owned())
    );
    let edit = editor.edits.lock().unwrap().remove(0);
    assert_eq!(
        (edit.version, edit.edits.len(), edit.edits[0].text.as_str()),
        (0, 1, "two")
    );
    // The model knows the text, so the next edit is made too.
    let args = json!({"path": "a.txt", "content": "all new\n"});
    harness.call_tool("write_file", args).await.unwrap();
    assert_eq!(harness.read("a.txt"), "all new\n");
    assert_eq!(editor.edits.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn unsaved_text_is_edited_and_stays_unsaved() {
    let (harness, editor) = create_harness(EditorBehavior::Applies, "one\n", Some("mine\none\n"));
    let read = harness
        .call_tool("read_file", json!({"path": "a.txt"}))
        .await
        .unwrap();
    assert!(read.text.contains("mine"), "{}", read.text);
    let output = harness.call_tool("edit_file", one_to_two()).await.unwrap();
    assert!(
        output
            .text
            .contains("the file on disk and commands do not have this edit yet"),
        "{}",
        output.text
    );
    assert_eq!(
        (editor.now(), harness.read("a.txt")),
        ("mine\ntwo\n".to_owned(), "one\n".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn success_counts_only_if_the_document_shows_the_edit() {
    let (harness, editor) = create_harness(EditorBehavior::FalseSuccess, "one\n", None);
    let refusal = harness.call_expecting_error("edit_file", one_to_two()).await;
    assert!(
        refusal.contains("the document does not contain the edit"),
        "{refusal}"
    );
    assert_eq!(
        (editor.now(), harness.read("a.txt")),
        ("one\n".to_owned(), "one\n".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn text_typed_meanwhile_is_kept_and_reported() {
    for behavior in [EditorBehavior::Stale, EditorBehavior::StaleFalseSuccess] {
        let (harness, editor) = create_harness(behavior, "one\n", None);
        let refusal = harness.call_expecting_error("edit_file", one_to_two()).await;
        assert!(
            refusal.contains("changed in the editor in the meantime"),
            "{behavior:?}: {refusal}"
        );
        assert!(refusal.contains("2\ttyped"), "{behavior:?}: {refusal}");
        assert_eq!(
            (editor.now(), harness.read("a.txt")),
            ("one\ntyped\n".to_owned(), "one\n".to_owned())
        );
    }
    // Typed after the model read the file and before its edit: the edit leaves it, and the model learns of it.
    let (harness, editor) = create_harness(EditorBehavior::Applies, "one\n", None);
    harness
        .call_tool("read_file", json!({"path": "a.txt"}))
        .await
        .unwrap();
    editor.show("one\ntyped\n");
    let output = harness.call_tool("edit_file", one_to_two()).await.unwrap();
    assert!(
        output.text.contains("had changed since you read it") && output.text.contains("+typed"),
        "{}",
        output.text
    );
    assert_eq!(
        (editor.now(), harness.read("a.txt")),
        ("two\ntyped\n".to_owned(), "one\n".to_owned())
    );
}

#[tokio::test]
async fn typing_right_after_the_edit_does_not_hide_it() {
    let (harness, editor) = create_harness(EditorBehavior::TypedAfterEdit, "one\n", Some("one!\n"));
    harness.call_tool("edit_file", one_to_two()).await.unwrap();
    assert_eq!(editor.now(), "two!\ntyped\n");
    let edit = json!({"path": "a.txt", "edits": [{"old_text": "two", "new_text": "x"}]});
    let output = harness.call_tool("edit_file", edit).await.unwrap();
    assert!(output.text.contains("\n+typed"), "{}", output.text);
}

#[tokio::test(start_paused = true)]
async fn a_silent_editor_is_an_error_unless_the_document_shows_the_edit() {
    let (silent, editor) = create_harness(EditorBehavior::Silent, "one\n", None);
    let refusal = silent.call_expecting_error("edit_file", one_to_two()).await;
    assert!(refusal.contains("did not answer within 10 s"), "{refusal}");
    assert_eq!(editor.now(), "one\n");
    let (speechless, editor) = create_harness(EditorBehavior::AppliesSilently, "one\n", None);
    speechless.call_tool("edit_file", one_to_two()).await.unwrap();
    assert_eq!(
        (editor.now(), speechless.read("a.txt")),
        ("two\n".to_owned(), "two\n".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_editor_does_not_delay_a_cancel() {
    let (mut harness, _) = create_harness(EditorBehavior::Silent, "one\n", None);
    harness.cx.cancel = CancellationToken::new();
    let cancel = harness.cx.cancel.clone();
    let start = crate::base::clock::now();
    let refusal = {
        let call = harness.call_expecting_error("edit_file", one_to_two());
        let (refusal, ()) = tokio::join!(call, async {
            clock::sleep(Duration::from_secs(1)).await;
            cancel.cancel();
        });
        refusal
    };
    assert!(refusal.contains("canceled"), "{refusal}");
    assert!(
        start.elapsed() < Duration::from_millis(1_100),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn a_failed_save_is_reported() {
    for (saves, expected) in [
        (
            Ok(Some("it is read-only in the editor".to_owned())),
            "(it is read-only in the editor)",
        ),
        (
            Err(EditorError::Silent(Duration::from_secs(10))),
            "did not answer within 10 s",
        ),
    ] {
        let (harness, editor) = create_harness_with(EditorBehavior::Applies, "one\n", None, ALL, saves);
        let output = harness.call_tool("edit_file", one_to_two()).await.unwrap();
        assert!(output.text.contains(expected), "{}", output.text);
        assert!(output.text.contains("commands do not see it"), "{}", output.text);
        assert_eq!(
            (editor.now(), harness.read("a.txt")),
            ("two\n".to_owned(), "one\n".to_owned())
        );
    }
}

#[tokio::test]
async fn without_edit_support_clean_documents_change_on_disk_and_unsaved_ones_are_refused() {
    for (apply, save) in [(false, false), (true, false), (false, true)] {
        let abilities = EditorAbilities { apply, save, ..ALL };
        let (harness, editor) =
            create_harness_with(EditorBehavior::Applies, "one\n", None, abilities, Ok(None));
        harness.call_tool("edit_file", one_to_two()).await.unwrap();
        assert_eq!(harness.read("a.txt"), "two\n");
        assert!(editor.edits.lock().unwrap().is_empty());
    }
    let abilities = EditorAbilities::default();
    let (harness, _) = create_harness_with(
        EditorBehavior::Applies,
        "one\n",
        Some("one\nmine\n"),
        abilities,
        Ok(None),
    );
    let refusal = harness.call_expecting_error("edit_file", one_to_two()).await;
    assert!(refusal.contains("has unsaved changes in the editor"), "{refusal}");
    assert_eq!(harness.read("a.txt"), "one\n");
    // The client can edit but not save: unsaved text stays unsaved anyway.
    let abilities = EditorAbilities {
        apply: true,
        create: false,
        save: false,
        saves_edits: false,
        credentials: false,
        diagnostics: false,
        language: false,
        code_fixes: false,
    };
    let (harness, editor) = create_harness_with(
        EditorBehavior::Applies,
        "one\n",
        Some("one\nmine\n"),
        abilities,
        Ok(None),
    );
    harness.call_tool("edit_file", one_to_two()).await.unwrap();
    assert_eq!(editor.now(), "two\nmine\n");
}

#[tokio::test]
async fn text_that_an_editor_may_not_keep_is_edited_on_disk() {
    for disk in ["one\r\nmixed\n", "one\rold\n"] {
        let (harness, editor) = create_harness(EditorBehavior::Applies, disk, None);
        harness.call_tool("edit_file", one_to_two()).await.unwrap();
        assert!(editor.edits.lock().unwrap().is_empty());
        assert_eq!(harness.read("a.txt"), disk.replace("one", "two"));
    }
    let (harness, _) = create_harness(EditorBehavior::Applies, "x", Some("one\rold\n"));
    let refusal = harness.call_expecting_error("edit_file", one_to_two()).await;
    assert!(refusal.contains("carriage returns"), "{refusal}");
    // A command changed the file, and the editor has not reloaded it.
    let (harness, editor) = self::create_harness(EditorBehavior::Applies, "zero\n", None);
    harness.write("a.txt", "one\n");
    harness.call_tool("edit_file", one_to_two()).await.unwrap();
    assert_eq!(harness.read("a.txt"), "two\n");
    assert!(editor.edits.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_new_file_that_is_open_and_blank_is_written_in_the_editor() {
    let (harness, editor) = create_harness(EditorBehavior::Applies, "", None);
    std::fs::remove_file(harness.path("a.txt")).unwrap();
    editor.show("\n");
    let output = harness
        .call_tool("write_file", json!({"path": "a.txt", "content": "new\n"}))
        .await
        .unwrap();
    assert_eq!(output.text, "created a.txt (+1 −0 lines)");
    assert_eq!(
        (editor.now(), harness.read("a.txt")),
        ("new\n".to_owned(), "new\n".to_owned())
    );
}
