//! Renders the wire types as TypeScript for the VS Code client.

use std::fmt::Write as _;

use super::model::{FieldModel, FieldShape, ProtocolModel, TypeBody, TypeDef};
use super::{doc_line, short_name, wrap_line};
use agentls::protocol::table::{self, MethodEntry};
use agentls::protocol::{APPROVAL_KEYS, PROTOCOL_VERSION};

const WIDTH: usize = 100;

pub(super) fn render_model(model: &ProtocolModel) -> String {
    let mut out = String::from(
        "// Generated from the server's wire types by `UPDATE_PROTOCOL=1 cargo test --test repository`.\n\
         // Change those, not this file.\n\n",
    );
    let _ = writeln!(
        out,
        "/** The protocol's version. A server with another `major` cannot be talked to. */\n\
         export const protocolVersion = {{ major: {}, minor: {} }} as const;\n",
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
        "clientNotifications",
        "Notifications, client to server.",
        table::CLIENT_NOTIFICATIONS,
    );
    write_method_names(
        &mut out,
        "serverRequests",
        "Requests, server to client.",
        table::SERVER_REQUESTS,
    );
    write_method_names(
        &mut out,
        "serverNotifications",
        "Notifications, server to client.",
        table::SERVER_NOTIFICATIONS,
    );
    type_map(
        &mut out,
        "RequestTypes",
        "Params and result of each request.",
        table::REQUESTS,
    );
    type_map(
        &mut out,
        "ClientNotificationTypes",
        "Params of each notification, client to server.",
        table::CLIENT_NOTIFICATIONS,
    );
    type_map(
        &mut out,
        "ServerRequestTypes",
        "Params and result of each request, server to client.",
        table::SERVER_REQUESTS,
    );
    type_map(
        &mut out,
        "ServerNotificationTypes",
        "Params of each notification, server to client.",
        table::SERVER_NOTIFICATIONS,
    );
    out.push_str(
        "/** Any notification of the server: a union that `method` tells apart. */\n\
         export type ServerNotification = {\n  \
           [M in keyof ServerNotificationTypes]: { method: M; params: ServerNotificationTypes[M] };\n\
         }[keyof ServerNotificationTypes];\n",
    );
    for of_type in &model.types {
        out.push('\n');
        type_def(&mut out, of_type);
    }
    out
}

fn approval_keys(out: &mut String) {
    out.push_str(
        "/** The keys that answer an approval, in every client. */\nexport const approvalKeys = [\n",
    );
    for entry in APPROVAL_KEYS {
        let _ = writeln!(
            out,
            "  {{ key: \"{}\", action: \"{}\", label: \"{}\" }},",
            entry.key,
            entry.action.name(),
            entry.label
        );
    }
    out.push_str("] as const;\n\n");
}

fn write_method_names(out: &mut String, name: &str, about: &str, entries: &[MethodEntry]) {
    let _ = writeln!(out, "/** {about} */\nexport const {name} = {{");
    for entry in entries {
        write_doc(out, "  ", entry.doc);
        let _ = writeln!(out, "  {}: \"{}\",", short_name(entry), entry.method);
    }
    out.push_str("} as const;\n\n");
}

fn type_map(out: &mut String, name: &str, about: &str, entries: &[MethodEntry]) {
    let _ = writeln!(out, "/** {about} */\nexport interface {name} {{");
    for entry in entries {
        let params = entry.params.name;
        let _ = match &entry.result {
            Some(result) => writeln!(
                out,
                "  \"{}\": {{ params: {params}; result: {} }};",
                entry.method, result.name
            ),
            None => writeln!(out, "  \"{}\": {params};", entry.method),
        };
    }
    out.push_str("}\n\n");
}

fn type_def(out: &mut String, of_type: &TypeDef) {
    let name = &of_type.name;
    write_doc(out, "", &of_type.doc);
    match &of_type.body {
        TypeBody::Object { fields, open } => {
            let _ = writeln!(out, "export interface {name} {{");
            self::write_fields(out, "  ", fields);
            if *open {
                out.push_str("  [name: string]: unknown;\n");
            }
            out.push_str("}\n");
        }
        TypeBody::Words(words) => {
            let _ = write!(out, "export type {name} =");
            for word in words {
                out.push('\n');
                write_doc(out, "  ", &word.doc);
                let _ = write!(out, "  | \"{}\"", word.text);
            }
            out.push_str(";\n");
        }
        TypeBody::Tagged(variants) => {
            let _ = write!(out, "export type {name} =");
            for variant in variants {
                out.push('\n');
                write_doc(out, "  ", &variant.doc);
                match &variant.base {
                    Some(base) => {
                        let _ = write!(out, "  | ({{ type: \"{}\" }} & {base})", variant.tag);
                    }
                    None => {
                        let _ = writeln!(out, "  | {{\n      type: \"{}\";", variant.tag);
                        self::write_fields(out, "      ", &variant.fields);
                        out.push_str("    }");
                    }
                }
            }
            out.push_str(";\n");
        }
        TypeBody::Alias(shape) => {
            let _ = writeln!(out, "export type {name} = {};", type_of(shape));
        }
    }
}

fn write_fields(out: &mut String, indent: &str, fields: &[FieldModel]) {
    for field in fields {
        write_doc(out, indent, &field.doc);
        let optional = if field.optional { "?" } else { "" };
        let _ = writeln!(
            out,
            "{indent}{}{optional}: {};",
            field.name,
            type_of(&field.shape)
        );
    }
}

fn type_of(shape: &FieldShape) -> String {
    match shape {
        FieldShape::Any => "unknown".to_owned(),
        FieldShape::String => "string".to_owned(),
        FieldShape::Integer | FieldShape::Number => "number".to_owned(),
        FieldShape::Boolean => "boolean".to_owned(),
        FieldShape::Named(name) => name.clone(),
        FieldShape::List(item) => match **item {
            FieldShape::OneOf(_) => format!("({})[]", type_of(item)),
            _ => format!("{}[]", type_of(item)),
        },
        FieldShape::Map(value) => format!("Record<string, {}>", type_of(value)),
        FieldShape::OneOf(shapes) => shapes.iter().map(type_of).collect::<Vec<_>>().join(" | "),
    }
}

fn write_doc(out: &mut String, indent: &str, text: &str) {
    let text = doc_line(text).replace("*/", "* /");
    if text.is_empty() {
        return;
    }
    if indent.len() + text.len() + 7 <= WIDTH {
        let _ = writeln!(out, "{indent}/** {text} */");
        return;
    }
    let _ = writeln!(out, "{indent}/**");
    for line in wrap_line(&text, WIDTH - indent.len() - 3) {
        let _ = writeln!(out, "{indent} * {line}");
    }
    let _ = writeln!(out, "{indent} */");
}
