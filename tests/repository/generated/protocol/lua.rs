//! Renders the wire types as LuaCATS annotations, and the method names, for the Neovim client.

use std::fmt::Write as _;

use super::model::{FieldModel, FieldShape, ProtocolModel, TypeBody, TypeDef};
use super::{doc_line, short_name, wrap_line};
use agentls::protocol::table::{self, MethodEntry};
use agentls::protocol::{APPROVAL_KEYS, PROTOCOL_VERSION};

const WIDTH: usize = 100;

/// Words that Lua does not allow as a bare field name.
const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local",
    "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

pub(super) fn render_model(model: &ProtocolModel) -> String {
    let mut out = String::from(
        "---@meta agentls.protocol\n\n\
         -- Generated from the server's wire types by `UPDATE_PROTOCOL=1 cargo test --test repository`.\n\
         -- Change those, not this file.\n\n\
         local M = {}\n\n",
    );
    let _ = writeln!(
        out,
        "---The protocol's version. A server with another `major` cannot be talked to.\n\
         M.version = {{ major = {}, minor = {} }}\n",
        PROTOCOL_VERSION.major, PROTOCOL_VERSION.minor
    );
    approval_keys(&mut out);
    write_method_names(
        &mut out,
        "requests",
        "Requests, client to server.",
        table::REQUESTS,
    );
    write_method_names(
        &mut out,
        "client_notifications",
        "Notifications, client to server.",
        table::CLIENT_NOTIFICATIONS,
    );
    write_method_names(
        &mut out,
        "server_requests",
        "Requests, server to client.",
        table::SERVER_REQUESTS,
    );
    write_method_names(
        &mut out,
        "server_notifications",
        "Notifications, server to client.",
        table::SERVER_NOTIFICATIONS,
    );
    for of_type in &model.types {
        type_def(&mut out, of_type);
        out.push('\n');
    }
    out.push_str("return M\n");
    out
}

fn approval_keys(out: &mut String) {
    out.push_str(
        "---The keys that answer an approval, in every client.\n\
         ---@type { key: string, action: string, label: string }[]\n\
         M.approval_keys = {\n",
    );
    for entry in APPROVAL_KEYS {
        let _ = writeln!(
            out,
            "  {{ key = \"{}\", action = \"{}\", label = \"{}\" }},",
            entry.key,
            entry.action.name(),
            entry.label
        );
    }
    out.push_str("}\n\n");
}

fn write_method_names(out: &mut String, name: &str, about: &str, entries: &[MethodEntry]) {
    let _ = writeln!(out, "---{about}\nM.{name} = {{");
    for entry in entries {
        for line in wrap_line(&doc_line(entry.doc), WIDTH) {
            let _ = writeln!(out, "  ---{line}");
        }
        let _ = writeln!(out, "  {} = \"{}\",", short_name(entry), entry.method);
    }
    out.push_str("}\n\n");
}

fn type_def(out: &mut String, of_type: &TypeDef) {
    let name = &of_type.name;
    match &of_type.body {
        TypeBody::Object { fields, open } => {
            write_doc(out, &of_type.doc);
            let _ = writeln!(out, "---@class (exact) agentls.{name}");
            self::write_fields(out, fields);
            if *open {
                out.push_str("---@field [string] any\n");
            }
        }
        TypeBody::Words(words) => {
            write_doc(out, &of_type.doc);
            let _ = writeln!(out, "---@alias agentls.{name}");
            for word in words {
                let _ = writeln!(out, "---| \"{}\" # {}", word.text, word.doc);
            }
        }
        TypeBody::Tagged(variants) => {
            for variant in variants {
                write_doc(out, &variant.doc);
                let base = variant
                    .base
                    .as_ref()
                    .map(|base| format!(": agentls.{base}"))
                    .unwrap_or_default();
                let _ = writeln!(out, "---@class (exact) agentls.{name}.{}{base}", variant.tag);
                let _ = writeln!(out, "---@field type \"{}\"", variant.tag);
                self::write_fields(out, &variant.fields);
                out.push('\n');
            }
            write_doc(out, &of_type.doc);
            let _ = writeln!(out, "---@alias agentls.{name}");
            for variant in variants {
                let _ = writeln!(out, "---| agentls.{name}.{}", variant.tag);
            }
        }
        TypeBody::Alias(shape) => {
            write_doc(out, &of_type.doc);
            let _ = writeln!(out, "---@alias agentls.{name} {}", type_of(shape));
        }
    }
}

fn write_fields(out: &mut String, fields: &[FieldModel]) {
    for field in fields {
        let optional = if field.optional { "?" } else { "" };
        let name = if KEYWORDS.contains(&field.name.as_str()) {
            format!("[\"{}\"]", field.name)
        } else {
            field.name.clone()
        };
        let _ = writeln!(
            out,
            "---@field {name}{optional} {} {}",
            type_of(&field.shape),
            field.doc
        );
    }
}

fn type_of(shape: &FieldShape) -> String {
    match shape {
        FieldShape::Any => "any".to_owned(),
        FieldShape::String => "string".to_owned(),
        FieldShape::Integer => "integer".to_owned(),
        FieldShape::Number => "number".to_owned(),
        FieldShape::Boolean => "boolean".to_owned(),
        FieldShape::Named(name) => format!("agentls.{name}"),
        FieldShape::List(item) => match **item {
            FieldShape::OneOf(_) => format!("({})[]", type_of(item)),
            _ => format!("{}[]", type_of(item)),
        },
        FieldShape::Map(value) => format!("table<string, {}>", type_of(value)),
        FieldShape::OneOf(shapes) => shapes.iter().map(type_of).collect::<Vec<_>>().join("|"),
    }
}

fn write_doc(out: &mut String, text: &str) {
    for line in wrap_line(text, WIDTH).iter().filter(|line| !line.is_empty()) {
        let _ = writeln!(out, "---{line}");
    }
}
