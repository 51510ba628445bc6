//! Tools with a simulated editor that is honest, lies, is stale, or is silent.

use std::sync::Mutex;

use futures::future::BoxFuture;
use serde_json::json;

use super::super::testing::ToolHarness;
use super::super::{EditorAbilities, EditorLink};
use super::*;
use crate::base::position::{ContentChange, PositionEncoding};
use crate::base::{CancellationToken, uri};

/// How the simulated editor behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Honest,
    /// Reports success and does nothing.
    Lies,
    /// The user types before the edit arrives, and the editor refuses it.
    Stale,
    /// The same, but the editor reports success, as stock Neovim does.
    StaleAndSaysYes,
    /// Does nothing and never answers.
    Silent,
    /// Makes the edit and never answers.
    MakesItAndIsSilent,
    /// Makes the edit, then the user types on before the editor answers.
    TypedOnto,
}

struct Simulated {
    way: Way,
    abilities: EditorAbilities,
    workspace: Arc<crate::workspace::Workspace>,
    /// Version and text.
    text: Mutex<(i32, String)>,
    path: std::path::PathBuf,
    asked: Mutex<Vec<DocumentEdit>>,
    saves: Result<Option<String>, EditorError>,
}

impl Simulated {
    fn show(&self, text: &str) {
        let version = {
            let mut now = self.text.lock().unwrap();
            *now = (now.0 + 1, text.to_owned());
            now.0
        };
        let whole = ContentChange {
            range: None,
            text: text.to_owned(),
        };
        self.workspace
            .overlay()
            .did_change(&uri::uri_of(&self.path), version, &[whole]);
    }

    fn make(&self, edit: &DocumentEdit) {
        let mut text = self.text.lock().unwrap().1.clone();
        for edit in edit.edits.iter().rev() {
            let change = ContentChange {
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
struct Hands(Arc<Simulated>);

impl EditorLink for Hands {
    fn abilities(&self) -> EditorAbilities {
        self.0.abilities
    }

    fn apply(&self, edit: DocumentEdit) -> BoxFuture<'static, Result<(), EditorError>> {
        let editor = self.0.clone();
        Box::pin(async move {
            let (version, text) = editor.text.lock().unwrap().clone();
            assert_eq!(edit.version, version);
            editor.asked.lock().unwrap().push(edit.clone());
            match editor.way {
                Way::Honest => editor.make(&edit),
                Way::TypedOnto => {
                    editor.make(&edit);
                    let made = editor.text.lock().unwrap().1.clone();
                    editor.show(&format!("{made}typed\n"));
                }
                Way::Lies => {}
                Way::Stale => {
                    editor.show(&format!("{text}typed\n"));
                    return Err(EditorError::Refused("it has changed".to_owned()));
                }
                Way::StaleAndSaysYes => editor.show(&format!("{text}typed\n")),
                Way::Silent => {
                    tokio::time::sleep(Duration::from_secs(10)).await;
                    return Err(EditorError::Silent(Duration::from_secs(10)));
                }
                Way::MakesItAndIsSilent => {
                    editor.make(&edit);
                    tokio::time::sleep(Duration::from_secs(10)).await;
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
    save: true,
    credentials: false,
    diagnostics: false,
};

/// Creates a harness whose editor has `a.txt` open; `unsaved` is its text there if it differs from the disk.
fn bench(way: Way, disk: &str, unsaved: Option<&str>) -> (ToolHarness, Arc<Simulated>) {
    bench_with(way, disk, unsaved, ALL, Ok(None))
}

fn bench_with(
    way: Way,
    disk: &str,
    unsaved: Option<&str>,
    abilities: EditorAbilities,
    saves: Result<Option<String>, EditorError>,
) -> (ToolHarness, Arc<Simulated>) {
    let mut bench = ToolHarness::new();
    bench.write("a.txt", disk);
    let text = unsaved.unwrap_or(disk).to_owned();
    let editor = Arc::new(Simulated {
        way,
        abilities,
        workspace: bench.cx.workspace.clone(),
        text: Mutex::new((0, text.clone())),
        path: bench.path("a.txt"),
        asked: Mutex::default(),
        saves,
    });
    bench.cx.editor = Arc::new(Hands(editor.clone()));
    let uri = uri::uri_of(&editor.path);
    bench.cx.workspace.overlay().did_open(&uri, 0, &text);
    bench.cx.workspace.overlay().reconcile_with_disk(&uri);
    (bench, editor)
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
    let (bench, editor) = bench(Way::Honest, "one\nrest\n", None);
    let output = bench.call_tool("edit_file", one_to_two()).await.unwrap();
    assert_eq!(output.text, "edited a.txt (+1 −1 lines)");
    assert!(output.diff.is_some());
    assert_eq!(
        (editor.now(), bench.read("a.txt")),
        ("two\nrest\n".to_owned(), "two\nrest\n".to_owned())
    );
    let edit = editor.asked.lock().unwrap().remove(0);
    assert_eq!(
        (edit.version, edit.edits.len(), edit.edits[0].text.as_str()),
        (0, 1, "two")
    );
    // The model knows the text, so the next edit is made too.
    let again = json!({"path": "a.txt", "content": "all new\n"});
    bench.call_tool("write_file", again).await.unwrap();
    assert_eq!(bench.read("a.txt"), "all new\n");
    assert_eq!(editor.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn unsaved_text_is_edited_and_stays_unsaved() {
    let (bench, editor) = bench(Way::Honest, "one\n", Some("mine\none\n"));
    let read = bench
        .call_tool("read_file", json!({"path": "a.txt"}))
        .await
        .unwrap();
    assert!(read.text.contains("mine"), "{}", read.text);
    let output = bench.call_tool("edit_file", one_to_two()).await.unwrap();
    assert!(
        output
            .text
            .contains("the file on disk and commands do not have this edit yet"),
        "{}",
        output.text
    );
    assert_eq!(
        (editor.now(), bench.read("a.txt")),
        ("mine\ntwo\n".to_owned(), "one\n".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn success_counts_only_if_the_document_shows_the_edit() {
    let (bench, editor) = bench(Way::Lies, "one\n", None);
    let refusal = bench.call_expecting_error("edit_file", one_to_two()).await;
    assert!(
        refusal.contains("the document does not contain the edit"),
        "{refusal}"
    );
    assert_eq!(
        (editor.now(), bench.read("a.txt")),
        ("one\n".to_owned(), "one\n".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn text_typed_meanwhile_is_kept_and_reported() {
    for way in [Way::Stale, Way::StaleAndSaysYes] {
        let (bench, editor) = bench(way, "one\n", None);
        let refusal = bench.call_expecting_error("edit_file", one_to_two()).await;
        assert!(
            refusal.contains("changed in the editor in the meantime"),
            "{way:?}: {refusal}"
        );
        assert!(refusal.contains("2\ttyped"), "{way:?}: {refusal}");
        assert_eq!(
            (editor.now(), bench.read("a.txt")),
            ("one\ntyped\n".to_owned(), "one\n".to_owned())
        );
    }
    // Typed after the model read the file and before its edit: the editor is not asked.
    let (bench, editor) = bench(Way::Honest, "one\n", None);
    bench
        .call_tool("read_file", json!({"path": "a.txt"}))
        .await
        .unwrap();
    editor.show("one\ntyped\n");
    let refusal = bench.call_expecting_error("edit_file", one_to_two()).await;
    assert!(
        refusal.contains("has changed since you read it") && refusal.contains("typed"),
        "{refusal}"
    );
    assert!(editor.asked.lock().unwrap().is_empty());
    // Now the model knows it.
    bench.call_tool("edit_file", one_to_two()).await.unwrap();
    assert_eq!(
        (editor.now(), bench.read("a.txt")),
        ("two\ntyped\n".to_owned(), "one\n".to_owned())
    );
}

#[tokio::test]
async fn typing_right_after_the_edit_does_not_hide_it() {
    let (bench, editor) = bench(Way::TypedOnto, "one\n", Some("one!\n"));
    bench.call_tool("edit_file", one_to_two()).await.unwrap();
    assert_eq!(editor.now(), "two!\ntyped\n");
    let refusal = bench
        .call_expecting_error(
            "edit_file",
            json!({"path": "a.txt", "edits": [{"old_text": "two", "new_text": "x"}]}),
        )
        .await;
    assert!(refusal.contains("typed"), "{refusal}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_editor_is_an_error_unless_the_document_shows_the_edit() {
    let (silent, editor) = bench(Way::Silent, "one\n", None);
    let refusal = silent.call_expecting_error("edit_file", one_to_two()).await;
    assert!(refusal.contains("did not answer within 10 s"), "{refusal}");
    assert_eq!(editor.now(), "one\n");
    let (speechless, editor) = bench(Way::MakesItAndIsSilent, "one\n", None);
    speechless.call_tool("edit_file", one_to_two()).await.unwrap();
    assert_eq!(
        (editor.now(), speechless.read("a.txt")),
        ("two\n".to_owned(), "two\n".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_editor_does_not_delay_a_cancel() {
    let (mut bench, _) = bench(Way::Silent, "one\n", None);
    bench.cx.cancel = CancellationToken::new();
    let cancel = bench.cx.cancel.clone();
    let begun = crate::base::clock::now();
    let refusal = {
        let call = bench.call_expecting_error("edit_file", one_to_two());
        let (refusal, ()) = tokio::join!(call, async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            cancel.cancel();
        });
        refusal
    };
    assert!(refusal.contains("cancelled"), "{refusal}");
    assert!(
        begun.elapsed() < Duration::from_millis(1_100),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn a_failed_save_is_reported() {
    for (saves, says) in [
        (
            Ok(Some("it is read-only in the editor".to_owned())),
            "(it is read-only in the editor)",
        ),
        (
            Err(EditorError::Silent(Duration::from_secs(10))),
            "did not answer within 10 s",
        ),
    ] {
        let (bench, editor) = bench_with(Way::Honest, "one\n", None, ALL, saves);
        let output = bench.call_tool("edit_file", one_to_two()).await.unwrap();
        assert!(output.text.contains(says), "{}", output.text);
        assert!(output.text.contains("commands do not see it"), "{}", output.text);
        assert_eq!(
            (editor.now(), bench.read("a.txt")),
            ("two\n".to_owned(), "one\n".to_owned())
        );
    }
}

#[tokio::test]
async fn without_edit_support_clean_documents_change_on_disk_and_unsaved_ones_are_refused() {
    for (apply, save) in [(false, false), (true, false), (false, true)] {
        let abilities = EditorAbilities { apply, save, ..ALL };
        let (bench, editor) = bench_with(Way::Honest, "one\n", None, abilities, Ok(None));
        bench.call_tool("edit_file", one_to_two()).await.unwrap();
        assert_eq!(bench.read("a.txt"), "two\n");
        assert!(editor.asked.lock().unwrap().is_empty());
    }
    let abilities = EditorAbilities::default();
    let (bench, _) = bench_with(Way::Honest, "one\n", Some("one\nmine\n"), abilities, Ok(None));
    let refusal = bench.call_expecting_error("edit_file", one_to_two()).await;
    assert!(refusal.contains("has unsaved changes in the editor"), "{refusal}");
    assert_eq!(bench.read("a.txt"), "one\n");
    // The client can edit but not save: unsaved text stays unsaved anyway.
    let abilities = EditorAbilities {
        apply: true,
        save: false,
        credentials: false,
        diagnostics: false,
    };
    let (bench, editor) = bench_with(Way::Honest, "one\n", Some("one\nmine\n"), abilities, Ok(None));
    bench.call_tool("edit_file", one_to_two()).await.unwrap();
    assert_eq!(editor.now(), "two\nmine\n");
}

#[tokio::test]
async fn text_that_an_editor_may_not_keep_is_edited_on_disk() {
    for disk in ["one\r\nmixed\n", "one\rold\n"] {
        let (bench, editor) = bench(Way::Honest, disk, None);
        bench.call_tool("edit_file", one_to_two()).await.unwrap();
        assert!(editor.asked.lock().unwrap().is_empty());
        assert_eq!(bench.read("a.txt"), disk.replace("one", "two"));
    }
    let (bench, _) = bench(Way::Honest, "x", Some("one\rold\n"));
    let refusal = bench.call_expecting_error("edit_file", one_to_two()).await;
    assert!(refusal.contains("carriage returns"), "{refusal}");
    // A command changed the file, and the editor has not reloaded it.
    let (bench, editor) = self::bench(Way::Honest, "zero\n", None);
    bench.write("a.txt", "one\n");
    bench.call_tool("edit_file", one_to_two()).await.unwrap();
    assert_eq!(bench.read("a.txt"), "two\n");
    assert!(editor.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_new_file_that_is_open_and_blank_is_written_in_the_editor() {
    let (bench, editor) = bench(Way::Honest, "", None);
    std::fs::remove_file(bench.path("a.txt")).unwrap();
    editor.show("\n");
    let output = bench
        .call_tool("write_file", json!({"path": "a.txt", "content": "new\n"}))
        .await
        .unwrap();
    assert_eq!(output.text, "created a.txt (+1 −0 lines)");
    assert_eq!(
        (editor.now(), bench.read("a.txt")),
        ("new\n".to_owned(), "new\n".to_owned())
    );
}
