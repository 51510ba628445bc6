//! Checks that every generated file is current. With `UPDATE_PROTOCOL=1` it writes the files instead.

mod cli;
mod configuration;
mod faults;
mod manual;
mod protocol;

use std::fs;
use std::path::Path;

use protocol::generate_files;

/// Compares the files, or writes them if `UPDATE_PROTOCOL` is set.
#[track_caller]
fn check(files: impl IntoIterator<Item = (&'static str, String)>) {
    #[expect(clippy::disallowed_methods, reason = "the switch of this test")]
    let update = std::env::var_os("UPDATE_PROTOCOL").is_some();
    let mut stale = Vec::new();
    for (name, text) in files {
        let path = top().join(name);
        if fs::read_to_string(&path).is_ok_and(|current| current == text) {
            continue;
        }
        if update {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
        } else {
            stale.push(name);
        }
    }
    assert!(
        stale.is_empty(),
        "{stale:?} are stale: run UPDATE_PROTOCOL=1 cargo test --test repository"
    );
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Escapes a text for one cell of a Markdown table.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}

#[test]
fn published_types_are_current() {
    let page = fs::read_to_string(top().join("protocol.md")).unwrap();
    let files = generate_files(&page).expect("protocol.md has the markers of its generated part");
    check(files.into_iter().map(|file| (file.path, file.text)));
}

#[test]
fn schema_of_the_configuration_is_current() {
    let schema = agentls::config::generate_annotated_schema();
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    check([("src/config/schema.json", text)]);
}

#[test]
fn configuration_reference_is_current() {
    check([("docs/reference/configuration.md", configuration::page())]);
}

#[test]
fn command_line_reference_is_current() {
    let reference = cli::page();
    let manual = manual::page(&reference);
    check([
        ("docs/reference/cli.md", reference),
        ("docs/man/agentls.1", manual),
    ]);
}

#[test]
fn fault_reference_is_current() {
    check([("docs/reference/faults.md", faults::page())]);
}
