//! Everything published from the wire types: JSON Schema, TypeScript, Lua, and the reference in protocol.md.
//!
//! [`model`] parses the schemas of all types in the table into one plain list; one file per language renders it.
//! The parent compares the result with the repository, and writes it under `UPDATE_PROTOCOL=1`. This module writes no
//! files itself.

mod lua;
mod markdown;
mod model;
mod typescript;

use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use agentls::protocol::PROTOCOL_VERSION;
use agentls::protocol::table::{self, MethodEntry, TypeRef};
use model::ProtocolModel;

/// The markers around the generated part of protocol.md.
const BEGIN: &str = "<!-- generated:begin -->";
const END: &str = "<!-- generated:end -->";

/// A generated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GeneratedFile {
    pub(crate) path: &'static str,
    /// Its expected content.
    pub(crate) text: String,
}

/// Generates all files. `protocol_md` is the current page, whose part between the markers is replaced.
///
/// Returns `None` if the page has no markers.
pub(crate) fn generate_files(protocol_md: &str) -> Option<Vec<GeneratedFile>> {
    let model = ProtocolModel::read(collect_definitions());
    let (before, rest) = protocol_md.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    let page = format!("{before}{BEGIN}\n{}{END}{after}", markdown::render_model(&model));
    Some(vec![
        GeneratedFile {
            path: "editors/protocol.schema.json",
            text: build_schema(),
        },
        GeneratedFile {
            path: "editors/vscode/src/protocol.ts",
            text: typescript::render_model(&model),
        },
        GeneratedFile {
            path: "editors/nvim/lua/agentls/protocol.lua",
            text: lua::render_model(&model),
        },
        GeneratedFile {
            path: "protocol.md",
            text: page,
        },
    ])
}

/// Collects the schemas of all types, by name.
fn collect_definitions() -> Map<String, Value> {
    let mut generator = SchemaGenerator::default();
    for of_type in list_types() {
        (of_type.schema)(&mut generator);
    }
    generator.take_definitions(true)
}

/// Lists the types that the table and the handshake name, in their order.
fn list_types() -> impl Iterator<Item = &'static TypeRef> {
    table::iter_entries()
        .flat_map(|entry| std::iter::once(&entry.params).chain(&entry.result))
        .chain(table::OTHER_TYPES)
}

/// Builds the published schema: the types, and the types of each method.
fn build_schema() -> String {
    let reference = |of_type: &TypeRef| json!({"$ref": format!("#/$defs/{}", of_type.name)});
    let methods = |entries: &[MethodEntry]| -> Value {
        let methods: Map<String, Value> = entries
            .iter()
            .map(|entry| {
                let mut types =
                    json!({"description": doc_line(entry.doc), "params": reference(&entry.params)});
                if let Some(result) = &entry.result {
                    types["result"] = reference(result);
                }
                (entry.method.to_owned(), types)
            })
            .collect();
        methods.into()
    };
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "agentls protocol",
        "protocolVersion": PROTOCOL_VERSION,
        "requests": methods(table::REQUESTS),
        "clientNotifications": methods(table::CLIENT_NOTIFICATIONS),
        "serverRequests": methods(table::SERVER_REQUESTS),
        "serverNotifications": methods(table::SERVER_NOTIFICATIONS),
        "$defs": collect_definitions(),
    });
    format!("{schema:#}\n")
}

/// Joins a doc comment to one line.
fn doc_line(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the last part of a method's name.
fn short_name(entry: &MethodEntry) -> &'static str {
    entry.method.rsplit('/').next().unwrap_or(entry.method)
}

/// Wraps a line at spaces so that no part is longer than `width` characters, except a longer word.
fn wrap_line(line: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in line.split(' ') {
        match lines.last_mut() {
            Some(last) if last.chars().count() + 1 + word.chars().count() <= width => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
