//! Tests of the positions of symbols, and of the lists of places.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use secrecy::SecretString;
use serde_json::json;

use super::super::testing::ToolHarness;
use super::super::{DocumentEdit, EditorAbilities, EditorLink, NoEditor};
use super::*;

fn range(start: (u32, u32), end: (u32, u32)) -> Range {
    let at = |(line, character)| Position { line, character };
    Range {
        start: at(start),
        end: at(end),
    }
}

fn symbol(name: &str, kind: u32, range: Range, container: Option<&str>) -> EditorSymbol {
    EditorSymbol {
        name: name.to_owned(),
        kind,
        location: EditorLocation {
            uri: "file:///x".to_owned(),
            range,
        },
        selection: None,
        container: container.map(str::to_owned),
    }
}

#[test]
fn the_innermost_body_encloses_a_place() {
    let outline = [
        symbol("Cart", 5, range((0, 0), (9, 1)), None),
        symbol("total", 6, range((2, 2), (4, 3)), Some("Cart")),
        symbol("sum", 13, range((3, 4), (3, 20)), Some("total")),
    ];
    let name = |place| find_enclosing(&outline, place).map(|symbol| path_of(symbol, &outline).join("."));
    assert_eq!(name(range((3, 8), (3, 9))).as_deref(), Some("Cart.total"));
    assert_eq!(name(range((8, 0), (8, 1))).as_deref(), Some("Cart"));
    // The declaration itself is in what contains it.
    assert_eq!(name(range((2, 2), (2, 7))).as_deref(), Some("Cart"));
    assert_eq!(name(range((10, 0), (10, 1))), None);
}

#[tokio::test]
async fn a_file_that_may_not_be_read_is_only_named() {
    let harness = ToolHarness::new();
    harness.write("a.rs", "fn a() {}\n");
    harness.write(".env", "KEY=1\n");
    let outside = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(outside.path(), "hidden\n").unwrap();
    let at = |path: &std::path::Path| Place {
        at: EditorLocation {
            uri: uri::uri_of(path),
            range: range((0, 0), (0, 1)),
        },
        note: None,
    };
    let places = vec![
        at(&harness.path("a.rs")),
        at(&harness.path(".env")),
        at(outside.path()),
    ];
    let list = format_places(&harness.cx, places).await.unwrap();
    let outside = outside.path().canonicalize().unwrap();
    assert_eq!(
        list,
        format!("a.rs:1: fn a() {{}}\n.env:1\n{}:1\n", outside.display())
    );
}

/// An editor that answers no question; counts them.
#[derive(Default)]
struct SilentEditor(AtomicUsize);

impl EditorLink for SilentEditor {
    fn abilities(&self) -> EditorAbilities {
        EditorAbilities::default()
    }

    fn apply(&self, edit: DocumentEdit) -> BoxFuture<'static, Result<(), EditorError>> {
        NoEditor.apply(edit)
    }

    fn save_document(&self, uri: String) -> BoxFuture<'static, Result<Option<String>, EditorError>> {
        NoEditor.save_document(uri)
    }

    fn query_language(&self, _: LanguageQuery) -> BoxFuture<'static, Result<LanguageAnswer, EditorError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Err(EditorError::Silent(Duration::from_secs(5))) })
    }

    fn request_credential(
        &self,
        provider: String,
    ) -> BoxFuture<'static, Result<Option<SecretString>, EditorError>> {
        NoEditor.request_credential(provider)
    }
}

#[tokio::test]
async fn after_a_question_without_an_answer_there_is_no_second_one() {
    let mut harness = ToolHarness::new();
    harness.write("a.rs", "fn a() {}\n");
    let editor = Arc::new(SilentEditor::default());
    harness.cx.editor = editor.clone();
    for tool in ["find_references", "go_to_definition"] {
        let input = json!({"symbol": "a", "path": "a.rs"});
        let error = harness.call_tool(tool, input).await.unwrap_err();
        assert!(error.contains("did not answer within 5 s"), "{error}");
    }
    assert_eq!(editor.0.load(Ordering::Relaxed), 2);
}
