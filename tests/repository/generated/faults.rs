//! The reference of provider faults, from the snapshots of the end-to-end tests.

use std::collections::BTreeMap;
use std::fs;

use super::top;

const INTRO: &str = "\
# Provider faults

<!-- Generated from tests/e2e/faults: UPDATE_PROTOCOL=1 cargo test --test repository -->

What agentls does for each fault of a provider, as its events. [Recovery](../recovery.md) explains them.

Each block is the snapshot of a test that runs against the Anthropic, Chat Completions, Responses, Gemini, and Ollama
APIs. A name that ends in `-ollama` has the events of a case that differ there. The last lines show the final text on the
screen and the number of requests. The tests use short waits and a `max_retry_after_s` of 5.
";

/// Renders `docs/reference/faults.md`.
pub(crate) fn page() -> String {
    let mut cases = BTreeMap::new();
    for entry in fs::read_dir(top().join("tests/e2e/faults/snapshots")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "snap") {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            cases.insert(name, fs::read_to_string(path).unwrap());
        }
    }
    assert!(!cases.is_empty());
    let mut page = INTRO.to_owned();
    for (name, snapshot) in cases {
        // insta's header ends with the second line of dashes.
        let events = snapshot.splitn(3, "---\n").nth(2).unwrap().trim_end();
        page.push_str(&format!("\n## {name}\n\n```text\n{events}\n```\n"));
    }
    page
}
