//! Renders the reference part of protocol.md.

use std::fmt::Write as _;

use super::doc_line;
use super::model::{FieldModel, FieldShape, ProtocolModel, TypeBody, TypeDef};
use agentls::protocol::APPROVAL_KEYS;
use agentls::protocol::table::{self, EXAMPLES, MessageKind, MethodEntry};

pub(super) fn render_model(model: &ProtocolModel) -> String {
    let mut out = String::from(
        "<!-- Written by `UPDATE_PROTOCOL=1 cargo test --test repository` from the wire types. -->\n",
    );
    out.push_str("\n## Requests, client to server\n");
    for entry in table::REQUESTS {
        self::write_entry(&mut out, model, entry);
    }
    out.push_str("\n## Notifications, client to server\n");
    for entry in table::CLIENT_NOTIFICATIONS {
        self::write_entry(&mut out, model, entry);
    }
    out.push_str("\n## Requests, server to client\n");
    for entry in table::SERVER_REQUESTS {
        self::write_entry(&mut out, model, entry);
    }
    out.push_str("\n## Notifications, server to client\n\nEvery durable one begins with this head:\n\n");
    write_table(&mut out, &collect_head_fields(model));
    for entry in table::SERVER_NOTIFICATIONS {
        self::write_entry(&mut out, model, entry);
    }
    approval_keys(&mut out);
    out.push_str("\n## Types\n");
    for of_type in &model.types {
        if section_of(&of_type.name).is_none() {
            let _ = writeln!(out, "\n### {}\n\n{}", of_type.name, of_type.doc);
            write_body(&mut out, of_type, &[]);
        }
    }
    out.push('\n');
    out
}

fn approval_keys(out: &mut String) {
    out.push_str(
        "\n## Keys that answer an approval\n\n\
         The same in every client. Enter alone never answers.\n\n\
         | key | action | label |\n|---|---|---|\n",
    );
    for entry in APPROVAL_KEYS {
        let _ = writeln!(
            out,
            "| `{}` | `{}` | {} |",
            entry.key,
            entry.action.name(),
            entry.label
        );
    }
}

fn write_entry(out: &mut String, model: &ProtocolModel, entry: &MethodEntry) {
    let _ = writeln!(out, "\n### `{}`\n\n{}", entry.method, doc_line(entry.doc));
    let head = match entry.kind {
        MessageKind::Durable => {
            out.push_str("\nDurable.\n");
            self::collect_head_fields(model)
        }
        MessageKind::Transient => {
            out.push_str("\nTransient.\n");
            Vec::new()
        }
        MessageKind::Request | MessageKind::ClientNotification | MessageKind::ServerRequest => Vec::new(),
    };
    if let Some(params) = model.get(entry.params.name) {
        if let Some(more) = own_doc(params) {
            let _ = writeln!(out, "\n{more}");
        }
        if let TypeBody::Object { fields, .. } = &params.body
            && fields.iter().any(|field| !head.contains(&field))
        {
            out.push_str("\nParams:\n");
        }
        write_body(out, params, &head);
    }
    match entry.result.as_ref().and_then(|result| model.get(result.name)) {
        Some(result) if section_of(&result.name).is_some_and(|owner| owner.method == entry.method) => {
            out.push_str("\nResult:\n");
            write_body(out, result, &[]);
        }
        Some(result) => {
            let _ = writeln!(out, "\nResult: {}.", format_link(&result.name));
        }
        None => {}
    }
    if let Some(example) = extract_example(entry.method) {
        let _ = writeln!(out, "\n```json\n{example}\n```");
    }
}

/// Returns what the type's own comment says after "Params of …".
fn own_doc(params: &TypeDef) -> Option<&str> {
    let rest = params.doc.strip_prefix("Params of ")?;
    let (_, rest) = rest.split_once(". ")?;
    Some(rest)
}

/// Returns the fields of the header of durable events.
fn collect_head_fields(model: &ProtocolModel) -> Vec<&FieldModel> {
    // The params of `agent/turnStarted` are that header and its own fields.
    let Some(TypeBody::Object { fields, .. }) =
        model.get("TurnStartedNotification").map(|started| &started.body)
    else {
        return Vec::new();
    };
    let own = ["by", "resumes"];
    fields
        .iter()
        .filter(|field| !own.contains(&field.name.as_str()))
        .collect()
}

fn write_body(out: &mut String, of_type: &TypeDef, without: &[&FieldModel]) {
    match &of_type.body {
        TypeBody::Object { fields, .. } => {
            let fields: Vec<_> = fields.iter().filter(|field| !without.contains(field)).collect();
            if !fields.is_empty() {
                out.push('\n');
                write_table(out, &fields);
            }
        }
        TypeBody::Words(words) => {
            out.push('\n');
            for word in words {
                let _ = writeln!(out, "- `\"{}\"`: {}", word.text, word.doc);
            }
        }
        TypeBody::Tagged(variants) => {
            for variant in variants {
                let _ = writeln!(out, "\n`\"type\": \"{}\"`: {}", variant.tag, variant.doc);
                if let Some(base) = &variant.base {
                    let _ = writeln!(out, "With the fields of {}.", format_link(base));
                }
                if !variant.fields.is_empty() {
                    out.push('\n');
                    write_table(out, &variant.fields.iter().collect::<Vec<_>>());
                }
            }
        }
        TypeBody::Alias(shape) => {
            let _ = writeln!(out, "\n{}", type_of(shape));
        }
    }
}

fn write_table(out: &mut String, fields: &[&FieldModel]) {
    out.push_str("| field | type | |\n|---|---|---|\n");
    for field in fields {
        let optional = if field.optional { "?" } else { "" };
        let _ = writeln!(
            out,
            "| `{}{optional}` | {} | {} |",
            field.name,
            type_of(&field.shape),
            field.doc.replace('|', "\\|")
        );
    }
}

fn type_of(shape: &FieldShape) -> String {
    match shape {
        FieldShape::Any => "any JSON".to_owned(),
        FieldShape::String => "string".to_owned(),
        FieldShape::Integer => "integer".to_owned(),
        FieldShape::Number => "number".to_owned(),
        FieldShape::Boolean => "boolean".to_owned(),
        FieldShape::Named(name) => format_link(name),
        FieldShape::List(item) => format!("list of {}", type_of(item)),
        FieldShape::Map(value) => format!("object of {}", type_of(value)),
        FieldShape::OneOf(shapes) => shapes.iter().map(type_of).collect::<Vec<_>>().join(" or "),
    }
}

/// Returns the method whose section describes a type, or `None` for types of the last section.
fn section_of(name: &str) -> Option<&'static MethodEntry> {
    table::iter_entries().find(|entry| {
        entry.params.name == name
            || entry
                .result
                .as_ref()
                .is_some_and(|result| result.name == name && name != "EmptyResult")
    })
}

fn format_link(name: &str) -> String {
    match section_of(name) {
        Some(entry) if entry.params.name == name => {
            let anchor = entry.method.replace('/', "").to_lowercase();
            format!("[`{}`](#{anchor})", entry.method)
        }
        Some(entry) => {
            let anchor = entry.method.replace('/', "").to_lowercase();
            format!("[that of `{}`](#{anchor})", entry.method)
        }
        None => format!("[{name}](#{})", name.to_lowercase()),
    }
}

/// Returns an entry's example as written in the file, so with its fields in a sensible order.
fn extract_example(method: &str) -> Option<String> {
    let (_, rest) = EXAMPLES.split_once(&format!("\n  \"{method}\": {{"))?;
    let (inside, _) = rest.split_once("\n  }")?;
    let lines: Vec<&str> = inside
        .lines()
        .map(|line| line.strip_prefix("  ").unwrap_or(line))
        .collect();
    Some(format!("{{{}\n}}", lines.join("\n")))
}
