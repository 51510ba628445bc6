//! The schema of a tool's arguments, with names that every provider accepts.
//!
//! Messages refuses a whole request for one name of an argument such as `filter[id]`. Models see another name then, and
//! calls are named back before they are checked. The new names depend on the schema only, so that a history stays valid.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::base::hash::sha256;
use crate::base::text::{one_line, reveal_hidden_characters};

/// The longest name that all providers accept.
const MAX_NAME: usize = 64;

/// Characters of the digest that keeps new names apart.
const DIGEST: usize = 8;

/// Keywords whose values are data, not schemas.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];

/// Keywords with a schema for each of their entries.
const SCHEMA_MAPS: [&str; 3] = ["$defs", "definitions", "patternProperties"];

/// Keywords with what an argument demands of others: their names, or a schema.
const DEPENDENCIES: [&str; 3] = ["dependencies", "dependentRequired", "dependentSchemas"];

/// A JSON Schema of arguments as the tool states it, and as models see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentSchema {
    own: Arc<Value>,
    sent: Arc<Value>,
    /// The tool's names by those that models see, if they differ.
    names: BTreeMap<String, String>,
}

impl ArgumentSchema {
    /// Renames the arguments that some provider refuses.
    pub fn new(own: impl Into<Arc<Value>>) -> Self {
        let own = own.into();
        let mut all = BTreeSet::new();
        rename_arguments(&own, &mut |name| {
            all.insert(name.to_owned());
            name.to_owned()
        });
        let mut renamed: BTreeMap<String, String> = BTreeMap::new();
        let mut names = BTreeMap::new();
        for name in all.iter().filter(|name| !is_accepted(name)) {
            let mut sent = build_accepted_name(name, name);
            while all.contains(&sent) || names.contains_key(&sent) {
                sent = build_accepted_name(name, &sent);
            }
            names.insert(sent.clone(), name.clone());
            renamed.insert(name.clone(), sent);
        }
        let sent = if names.is_empty() {
            own.clone()
        } else {
            let rename = |name: &str| renamed.get(name).map_or_else(|| name.to_owned(), String::clone);
            Arc::new(rename_arguments(&own, &mut { rename }))
        };
        Self { own, sent, names }
    }

    /// Returns the schema as the tool states it.
    pub fn own(&self) -> &Arc<Value> {
        &self.own
    }

    /// Returns the schema for models.
    pub fn sent(&self) -> &Arc<Value> {
        &self.sent
    }

    /// Returns the arguments of a call with the tool's own names; `None` if all names are its own.
    ///
    /// # Errors
    /// An argument has two values, one for each of its names. The text is for the model.
    pub fn restore_names(&self, arguments: &Value) -> Result<Option<Value>, String> {
        if self.names.is_empty() {
            return Ok(None);
        }
        self.restore(arguments).map(Some)
    }

    fn restore(&self, arguments: &Value) -> Result<Value, String> {
        Ok(match arguments {
            Value::Object(fields) => {
                let mut restored = Map::new();
                for (name, value) in fields {
                    let own = self.names.get(name).unwrap_or(name);
                    if restored.insert(own.clone(), self.restore(value)?).is_some() {
                        return Err(format!("`{own}` is given twice"));
                    }
                }
                Value::Object(restored)
            }
            Value::Array(items) => {
                let items: Result<_, String> = items.iter().map(|item| self.restore(item)).collect();
                Value::Array(items?)
            }
            other => other.clone(),
        })
    }
}

/// Returns the schema with each name of an argument replaced by what `rename` returns.
fn rename_arguments(schema: &Value, rename: &mut dyn FnMut(&str) -> String) -> Value {
    let words = match schema {
        Value::Object(words) => words,
        Value::Array(schemas) => {
            return schemas
                .iter()
                .map(|schema| rename_arguments(schema, rename))
                .collect();
        }
        other => return other.clone(),
    };
    let mut renamed = Map::new();
    for (word, value) in words {
        let value = match (word.as_str(), value) {
            ("properties", Value::Object(properties)) => rename_properties(properties, rename),
            ("required", names @ Value::Array(_)) => rename_texts(names, rename),
            ("$ref", Value::String(pointer)) => json!(rename_pointer(pointer, rename)),
            (word, Value::Object(demands)) if DEPENDENCIES.contains(&word) => {
                let entries = demands.iter().map(|(name, demand)| {
                    let demand = match demand {
                        Value::Array(_) => rename_texts(demand, rename),
                        schema => rename_arguments(schema, rename),
                    };
                    (rename(name), demand)
                });
                Value::Object(entries.collect())
            }
            (word, value) if DATA.contains(&word) => value.clone(),
            (word, Value::Object(schemas)) if SCHEMA_MAPS.contains(&word) => {
                let entries = schemas
                    .iter()
                    .map(|(key, schema)| (key.clone(), rename_arguments(schema, rename)));
                Value::Object(entries.collect())
            }
            (_, value) => rename_arguments(value, rename),
        };
        renamed.insert(word.clone(), value);
    }
    Value::Object(renamed)
}

fn rename_properties(properties: &Map<String, Value>, rename: &mut dyn FnMut(&str) -> String) -> Value {
    let mut renamed = Map::new();
    for (name, schema) in properties {
        let mut schema = rename_arguments(schema, rename);
        let sent = rename(name);
        if let (true, Value::Object(words)) = (sent != *name, &mut schema) {
            // The new name says less than the own one.
            let own = one_line(&reveal_hidden_characters(name), 100);
            let rest = words
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let description = format!("`{own}`. {rest}").trim_end().to_owned();
            words.insert("description".to_owned(), json!(description));
        }
        renamed.insert(sent, schema);
    }
    Value::Object(renamed)
}

fn rename_texts(names: &Value, rename: &mut dyn FnMut(&str) -> String) -> Value {
    let names = names.as_array().into_iter().flatten();
    names
        .map(|name| {
            name.as_str()
                .map_or_else(|| name.clone(), |name| json!(rename(name)))
        })
        .collect()
}

/// Renames the arguments in a pointer within the schema, such as `#/properties/filter[id]`.
fn rename_pointer(pointer: &str, rename: &mut dyn FnMut(&str) -> String) -> String {
    let mut renamed: Vec<String> = Vec::new();
    let mut keyword = "";
    for piece in pointer.split('/') {
        let is_argument = keyword == "properties" || DEPENDENCIES.contains(&keyword);
        let is_entry = is_argument || SCHEMA_MAPS.contains(&keyword);
        let name = unescape(piece);
        let sent = if is_argument { rename(&name) } else { name.clone() };
        renamed.push(if sent == name { piece.to_owned() } else { sent });
        // What follows the name of an entry is a keyword again.
        keyword = if is_entry { "" } else { piece };
    }
    renamed.join("/")
}

/// Returns the name that a piece of a pointer in a URL stands for.
fn unescape(piece: &str) -> String {
    let mut bytes = Vec::with_capacity(piece.len());
    let mut rest = piece.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let escaped =
            (tail.get(..2)).filter(|digits| byte == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let escaped = escaped.and_then(|digits| str::from_utf8(digits).ok());
        let escaped = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(byte));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    let name = String::from_utf8(bytes).unwrap_or_else(|_| piece.to_owned());
    name.replace("~1", "/").replace("~0", "~")
}

fn is_accepted_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

fn is_accepted(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_accepted_character)
}

/// Returns a name that resembles `name`. Another `seed` gives another one.
fn build_accepted_name(name: &str, seed: &str) -> String {
    let kept: String = name
        .chars()
        .map(|c| if is_accepted_character(c) { c } else { '_' })
        .take(MAX_NAME - DIGEST - 1)
        .collect();
    format!("{kept}_{}", &sha256(seed.as_bytes())[..DIGEST])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: [&str; 7] = [
        "$.xgafv",
        "@odata.x",
        "rule_name[]",
        "期間",
        " ",
        "",
        "a_name_of_seventy_characters_which_is_longer_than_any_provider_accepts",
    ];

    #[test]
    fn ordinary_schemas_are_not_copied() {
        let own = Arc::new(json!({"type": "object", "properties": {"a.b-c_1": {"type": "string"}}}));
        let schema = ArgumentSchema::new(own.clone());
        assert!(Arc::ptr_eq(schema.sent(), &own));
        let arguments = json!({"$.xgafv": 1});
        assert_eq!(schema.restore_names(&arguments), Ok(None));
    }

    #[test]
    fn refused_names_are_replaced_at_every_depth_and_restored() {
        let nested = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}});
        for name in ODD {
            let own = json!({
                "type": "object",
                "properties": {name: {"type": "string", "description": "Why."}, "list": {"type": "array", "items": nested(name)}},
                "required": [name, "list"],
            });
            let schema = ArgumentSchema::new(own);
            let properties = schema.sent()["properties"].as_object().unwrap();
            let inner = schema.sent()["properties"]["list"]["items"]["properties"]
                .as_object()
                .unwrap();
            assert!(
                properties
                    .keys()
                    .chain(inner.keys())
                    .all(|name| is_accepted(name)),
                "{properties:?}"
            );
            let sent = inner.keys().next().unwrap();
            assert_eq!(schema.sent()["required"], json!([sent, "list"]));
            let description = properties[sent]["description"].as_str().unwrap();
            assert!(
                description.starts_with('`') && description.ends_with("`. Why."),
                "{description}"
            );
            let arguments = json!({sent: "x", "list": [{sent: "y"}, {name: "z"}]});
            assert_eq!(
                schema.restore_names(&arguments).unwrap().unwrap(),
                json!({name: "x", "list": [{name: "y"}, {name: "z"}]})
            );
            let twice = schema.restore_names(&json!({sent: "x", name: "y"}));
            assert!(twice.unwrap_err().ends_with("is given twice"));
        }
    }

    #[test]
    fn new_names_are_unique_and_always_the_same() {
        let taken = build_accepted_name("a[]", "a[]");
        let string = json!({"type": "string"});
        let own = json!({"properties": {"a[]": string, "a{}": string, taken.as_str(): string}});
        let schema = ArgumentSchema::new(own.clone());
        assert_eq!(schema.sent()["properties"].as_object().unwrap().len(), 3);
        assert_eq!(schema, ArgumentSchema::new(own));
        let kept = json!({taken.as_str(): "mine"});
        assert_eq!(
            schema
                .restore_names(&kept)
                .unwrap()
                .unwrap_or_else(|| kept.clone()),
            kept
        );
    }

    #[test]
    fn what_names_arguments_elsewhere_gets_the_new_names() {
        let string = json!({"type": "string"});
        let own = json!({
            "properties": {
                "a[]": string, "b/%~": string, "properties": {"properties": {"a[]": string}},
                "c": {"$ref": "#/properties/a[]"}, "d": {"$ref": "#/properties/a%5B%5D/items/0"},
                "e": {"$ref": "#/properties/b~1%25~0"}, "f": {"$ref": "#/properties/properties/properties/a[]"},
                "g": {"$ref": "#/$defs/properties/a[]"}, "h": {"$ref": "#/dependencies/a[]"},
            },
            "dependentRequired": {"a[]": ["b/%~", "c"], "c": ["a[]"]},
            "dependencies": {"a[]": ["b/%~"], "c": {"required": ["a[]"]}},
            "dependentSchemas": {"a[]": {"required": ["b/%~"]}},
        });
        let schema = ArgumentSchema::new(own);
        let [a, b] = ["a[]", "b/%~"].map(|name| build_accepted_name(name, name));
        let sent = schema.sent();
        let pointers = ["c", "d", "e", "f", "g", "h"].map(|name| sent["properties"][name]["$ref"].clone());
        let wanted = [
            format!("#/properties/{a}"),
            format!("#/properties/{a}/items/0"),
            format!("#/properties/{b}"),
            format!("#/properties/properties/properties/{a}"),
            "#/$defs/properties/a[]".to_owned(),
            format!("#/dependencies/{a}"),
        ];
        assert_eq!(pointers, wanted.map(Value::from));
        assert_eq!(sent["dependentRequired"], json!({a.as_str(): [b, "c"], "c": [a]}));
        assert_eq!(
            sent["dependencies"],
            json!({a.as_str(): [b], "c": {"required": [a]}})
        );
        assert_eq!(sent["dependentSchemas"], json!({a.as_str(): {"required": [b]}}));
    }

    #[test]
    fn keywords_and_data_keep_their_names() {
        let own = json!({
            "$defs": {"properties": {"$ref": "#/$defs/B"}},
            "properties": {"properties": {"default": {"properties": {"a[]": 1}}, "enum": ["b[]"]}, "c[]": {"$comment": "x"}},
        });
        let schema = ArgumentSchema::new(own);
        assert_eq!(
            schema.sent()["$defs"],
            json!({"properties": {"$ref": "#/$defs/B"}})
        );
        let inner = &schema.sent()["properties"]["properties"];
        assert_eq!(
            inner,
            &json!({"default": {"properties": {"a[]": 1}}, "enum": ["b[]"]})
        );
    }
}
