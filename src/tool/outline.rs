//! Adds the outline of a file to the start of its text, from the editor's language servers (R-LANG).
//!
//! With it, a model goes on at the lines that matter. Only a help: without an editor, or if it does not answer in
//! time, nothing is added and the text stays as it is.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use super::language::{describe_symbol, outline_query};
use super::{EditorSymbol, ToolContext, ToolOutput, files};
use crate::base::clock;
use crate::base::uri;

/// Time for the language servers to answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Most symbols that are listed.
const MAX_SYMBOLS: usize = 200;
/// Most bytes of the list. In a small window, it is a quarter of a result.
const MAX_BYTES: usize = 8 << 10;

/// Appends the symbols of the resolved `path` with their lines.
pub(super) async fn append_outline(cx: &ToolContext, path: &Path, output: &mut ToolOutput) {
    if let Some(symbols) = request_symbols(cx, path).await {
        let max_bytes = MAX_BYTES.min(cx.max_result_bytes(usize::MAX) / 4);
        output.text.push_str(&format_outline(symbols, max_bytes));
    }
}

/// Returns the symbols; `None` if the editor does not answer in time or the turn is canceled.
async fn request_symbols(cx: &ToolContext, path: &Path) -> Option<Vec<EditorSymbol>> {
    if !cx.editor.abilities().language {
        return None;
    }
    let (inner, looked_up) = (cx.clone(), path.to_owned());
    let open = files::run_blocking(cx, move |_| {
        Ok(inner.workspace.overlay().find_open_document(&looked_up))
    });
    let uri = open
        .await
        .ok()?
        .map_or_else(|| uri::uri_of(path), |open| open.uri);
    let answer = clock::timeout(TIMEOUT, cx.editor.query_language(outline_query(uri)));
    tokio::select! { biased;
        () = cx.cancel.cancelled() => None,
        answer = answer => Some(answer.ok()?.ok()?.symbols),
    }
}

fn format_outline(mut symbols: Vec<EditorSymbol>, max_bytes: usize) -> String {
    if symbols.len() > MAX_SYMBOLS {
        symbols.retain(is_landmark);
    }
    symbols.sort_by_key(|symbol| symbol.location.range.start);
    let total = symbols.len();
    let mut list = String::new();
    let mut listed = 0;
    for symbol in symbols.iter().take(MAX_SYMBOLS) {
        let range = symbol.selection.unwrap_or(symbol.location.range);
        let line = format!("{}\t{}\n", range.start.line + 1, describe_symbol(symbol));
        if list.len() + line.len() > max_bytes {
            break;
        }
        list.push_str(&line);
        listed += 1;
    }
    if total == 0 {
        return String::new();
    }
    let mut outline = format!("\n[outline of the file: the line of each symbol]\n{list}");
    if listed < total {
        let _ = write!(
            outline,
            "[{} more symbols; find_symbol finds them by their names]",
            total - listed
        );
    }
    outline
}

/// Returns whether the symbol helps to find the way in a file that has many: a type, a function, or what contains them.
fn is_landmark(symbol: &EditorSymbol) -> bool {
    // Module, namespace, package, class, method, constructor, enum, interface, function, struct.
    [2, 3, 4, 5, 6, 9, 10, 11, 12, 23].contains(&symbol.kind)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::future::BoxFuture;
    use secrecy::SecretString;
    use serde_json::json;

    use super::super::testing::ToolHarness;
    use super::super::{
        DocumentEdit, EditorAbilities, EditorError, EditorLink, EditorLocation, LanguageAnswer, LanguageQuery,
    };
    use super::*;
    use crate::base::clock;
    use crate::base::position::{Position, Range};

    fn symbol(line: u32, kind: u32, name: &str) -> EditorSymbol {
        let at = Position { line, character: 0 };
        EditorSymbol {
            name: name.to_owned(),
            kind,
            location: EditorLocation {
                uri: "file:///x".to_owned(),
                range: Range { start: at, end: at },
            },
            selection: None,
            container: None,
        }
    }

    /// Answers with these symbols; `None` never answers.
    struct LanguageServers(Option<Vec<EditorSymbol>>);

    impl EditorLink for LanguageServers {
        fn abilities(&self) -> EditorAbilities {
            EditorAbilities {
                language: true,
                ..EditorAbilities::default()
            }
        }

        fn apply(&self, _edit: DocumentEdit) -> BoxFuture<'static, Result<(), EditorError>> {
            Box::pin(std::future::pending())
        }

        fn save_document(&self, _uri: String) -> BoxFuture<'static, Result<Option<String>, EditorError>> {
            Box::pin(std::future::pending())
        }

        fn request_credential(
            &self,
            _provider: String,
        ) -> BoxFuture<'static, Result<Option<SecretString>, EditorError>> {
            Box::pin(std::future::pending())
        }

        fn query_language(
            &self,
            _query: LanguageQuery,
        ) -> BoxFuture<'static, Result<LanguageAnswer, EditorError>> {
            let Some(symbols) = self.0.clone() else {
                return Box::pin(std::future::pending());
            };
            Box::pin(async {
                Ok(LanguageAnswer {
                    symbols,
                    ..LanguageAnswer::default()
                })
            })
        }
    }

    fn harness(servers: LanguageServers) -> ToolHarness {
        let mut harness = ToolHarness::new();
        harness.cx.editor = Arc::new(servers);
        harness.write("long.rs", &"x\n".repeat(2_500));
        harness.write("short.rs", "x\n");
        harness
    }

    #[tokio::test]
    async fn only_the_start_of_a_long_file_comes_with_an_outline() {
        let harness = harness(LanguageServers(Some(vec![
            symbol(2_400, 12, "last"),
            symbol(0, 5, "Cart"),
        ])));
        let read = async |args| harness.call_tool("read_file", args).await.unwrap().text;
        let text = read(json!({"path": "long.rs"})).await;
        let end = "continue with offset 2001]\n[outline of the file: the line of each symbol]\n\
                   1\tclass Cart\n2401\tfunction last\n";
        assert!(text.ends_with(end), "{}", &text[text.len() - 200..]);
        for args in [
            json!({"path": "long.rs", "offset": 2_001}),
            json!({"path": "long.rs", "limit": 5}),
            json!({"path": "short.rs"}),
        ] {
            assert!(!read(args.clone()).await.contains("outline"), "{args}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_language_servers_cost_two_seconds_and_nothing_else() {
        let harness = harness(LanguageServers(None));
        let start = clock::now();
        let args = json!({"path": "long.rs"});
        let text = harness.call_tool("read_file", args).await.unwrap().text;
        assert!(text.ends_with("continue with offset 2001]"));
        assert!(start.elapsed() <= TIMEOUT + Duration::from_millis(100));
    }

    #[test]
    fn a_long_outline_lists_what_matters() {
        let mut symbols: Vec<EditorSymbol> = (0..300).map(|line| symbol(line, 13, "local")).collect();
        symbols.push(symbol(150, 12, "run"));
        let outline = format_outline(symbols, MAX_BYTES);
        assert!(outline.ends_with("symbol]\n151\tfunction run\n"), "{outline}");
        let many = (0..300).map(|line| symbol(line, 12, "f")).collect();
        let outline = format_outline(many, MAX_BYTES);
        assert!(
            outline.ends_with("200\tfunction f\n[100 more symbols; find_symbol finds them by their names]")
        );
        let wide = (0..300).map(|line| symbol(line, 12, &"f".repeat(80))).collect();
        assert!(format_outline(wide, MAX_BYTES).len() < MAX_BYTES + 200);
        assert_eq!(format_outline(Vec::new(), MAX_BYTES), "");
    }
}
