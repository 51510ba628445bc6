//! The wire types as a plain list, parsed from their JSON Schemas.
//!
//! It knows exactly the schemas that our types produce. Another schema is a bug and panics, but only in a test.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{doc_line, list_types};

/// All types, in the order of their first use in the table.
pub(super) struct ProtocolModel {
    pub(super) types: Vec<TypeDef>,
}

/// A named type.
pub(super) struct TypeDef {
    pub(super) name: String,
    pub(super) doc: String,
    pub(super) body: TypeBody,
}

/// The definition of a named type.
pub(super) enum TypeBody {
    /// An object; `open` if it accepts any further fields.
    Object { fields: Vec<FieldModel>, open: bool },
    /// One of these string values.
    Words(Vec<EnumWord>),
    /// One of these objects; their field `type` distinguishes them.
    Tagged(Vec<VariantModel>),
    /// Another type, or one of several.
    Alias(FieldShape),
}

/// A value of an enum.
pub(super) struct EnumWord {
    pub(super) text: String,
    pub(super) doc: String,
}

/// An object of a tagged union.
pub(super) struct VariantModel {
    pub(super) tag: String,
    pub(super) doc: String,
    /// A type whose fields it also has.
    pub(super) base: Option<String>,
    pub(super) fields: Vec<FieldModel>,
}

/// A field of an object.
#[derive(PartialEq)]
pub(super) struct FieldModel {
    pub(super) name: String,
    pub(super) doc: String,
    pub(super) shape: FieldShape,
    pub(super) optional: bool,
}

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldShape {
    Any,
    String,
    Integer,
    Number,
    Boolean,
    Named(String),
    List(Box<FieldShape>),
    Map(Box<FieldShape>),
    OneOf(Vec<FieldShape>),
}

impl ProtocolModel {
    /// Parses the definitions.
    pub(super) fn read(definitions: Map<String, Value>) -> Self {
        let mut order = TypeOrder {
            definitions: &definitions,
            visited: BTreeSet::new(),
            names: Vec::new(),
        };
        for of_type in list_types() {
            order.visit_type(of_type.name);
        }
        let types = order
            .names
            .iter()
            .map(|name| type_def(name, &definitions[name]))
            .collect();
        Self { types }
    }

    /// Returns the type with that name.
    pub(super) fn get(&self, name: &str) -> Option<&TypeDef> {
        self.types.iter().find(|of_type| of_type.name == name)
    }
}

struct TypeOrder<'a> {
    definitions: &'a Map<String, Value>,
    visited: BTreeSet<String>,
    names: Vec<String>,
}

impl TypeOrder<'_> {
    /// Lists a type, then the types that it uses.
    fn visit_type(&mut self, name: &str) {
        if self.visited.insert(name.to_owned()) {
            self.names.push(name.to_owned());
            self.visit_value(&self.definitions[name]);
        }
    }

    fn visit_value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    self.visit_type(strip_ref_prefix(reference));
                }
                fields.values().for_each(|field| self.visit_value(field));
            }
            Value::Array(items) => items.iter().for_each(|item| self.visit_value(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

fn type_def(name: &str, schema: &Value) -> TypeDef {
    TypeDef {
        name: name.to_owned(),
        doc: extract_doc(schema),
        body: parse_body(schema),
    }
}

fn parse_body(schema: &Value) -> TypeBody {
    if let Some(Value::Array(options)) = schema.get("oneOf") {
        let is_word = |option: &Value| option.get("const").is_some();
        if options.iter().all(is_word) {
            return TypeBody::Words(options.iter().map(parse_word).collect());
        }
        return TypeBody::Tagged(options.iter().map(parse_variant).collect());
    }
    if schema.get("type") == Some(&"object".into()) && !is_map(schema) {
        return TypeBody::Object {
            fields: parse_fields(schema),
            open: schema.get("additionalProperties") == Some(&true.into()),
        };
    }
    TypeBody::Alias(parse_shape(schema))
}

fn parse_word(option: &Value) -> EnumWord {
    EnumWord {
        text: text(&option["const"]),
        doc: extract_doc(option),
    }
}

fn parse_variant(option: &Value) -> VariantModel {
    let mut fields = parse_fields(option);
    fields.retain(|field| field.name != "type");
    VariantModel {
        tag: text(&option["properties"]["type"]["const"]),
        doc: extract_doc(option),
        base: option
            .get("$ref")
            .map(|reference| strip_ref_prefix(&text(reference)).to_owned()),
        fields,
    }
}

/// Returns the required fields in declaration order, then the optional ones by name: a schema keeps no other order.
fn parse_fields(schema: &Value) -> Vec<FieldModel> {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let required: Vec<String> = schema["required"]
        .as_array()
        .map(|names| names.iter().map(text).collect())
        .unwrap_or_default();
    let optional = properties.keys().filter(|name| !required.contains(*name));
    required
        .iter()
        .map(|name| (name, false))
        .chain(optional.map(|name| (name, true)))
        .map(|(name, optional)| FieldModel {
            name: name.clone(),
            doc: extract_doc(&properties[name]),
            shape: parse_shape(&properties[name]),
            optional,
        })
        .collect()
}

fn parse_shape(schema: &Value) -> FieldShape {
    if let Some(reference) = schema.get("$ref") {
        return FieldShape::Named(strip_ref_prefix(&text(reference)).to_owned());
    }
    if let Some(Value::Array(options)) = schema.get("anyOf") {
        let mut shapes: Vec<_> = options
            .iter()
            .filter(|option| !is_null(option))
            .map(parse_shape)
            .collect();
        if shapes.len() == 1 {
            return shapes.remove(0);
        }
        return FieldShape::OneOf(shapes);
    }
    let name = match schema.get("type") {
        None => return FieldShape::Any,
        Some(Value::Array(names)) => names.iter().map(text).find(|name| name != "null"),
        Some(name) => Some(text(name)),
    };
    match name.as_deref() {
        Some("string") => FieldShape::String,
        Some("integer") => FieldShape::Integer,
        Some("number") => FieldShape::Number,
        Some("boolean") => FieldShape::Boolean,
        Some("array") => FieldShape::List(Box::new(parse_shape(&schema["items"]))),
        Some("object") if is_map(schema) => {
            FieldShape::Map(Box::new(parse_shape(&schema["additionalProperties"])))
        }
        _ => panic_unknown_schema(schema),
    }
}

fn is_map(schema: &Value) -> bool {
    schema.get("properties").is_none()
        && schema
            .get("additionalProperties")
            .is_some_and(|values| values.is_object())
}

fn is_null(schema: &Value) -> bool {
    schema.get("type") == Some(&"null".into())
}

fn extract_doc(schema: &Value) -> String {
    doc_line(
        schema
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default(),
    )
}

fn strip_ref_prefix(reference: &str) -> &str {
    reference.strip_prefix("#/$defs/").unwrap_or(reference)
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => panic_unknown_schema(other),
    }
}

fn panic_unknown_schema(schema: &Value) -> ! {
    #[expect(clippy::panic, reason = "only the drift test comes here, and it must fail")]
    {
        panic!("the generator does not know this schema: {schema}")
    }
}
