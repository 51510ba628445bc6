//! The form that a server asks a user to fill in: a flat object of texts, numbers, yes or no, and choices.
//!
//! What the protocol does not allow is refused. Checking the answers is the job of [`super::form_values`].

use std::collections::BTreeSet;

use serde_json::Value;

use crate::base::text::{one_line, reveal_hidden_characters};

/// The most fields of a form.
const MAX_FIELDS: usize = 20;
/// The most choices of a field.
const MAX_OPTIONS: usize = 100;
/// The longest name of a field and the longest value of a choice, in bytes.
const MAX_NAME: usize = 200;
/// The longest text about a field, in characters.
const MAX_LABEL: usize = 300;
/// The longest answer that counts, in characters.
const MAX_TEXT: u64 = 10_000;
/// Parts of names of fields that ask for a secret.
#[rustfmt::skip]
const SECRETS: [&str; 10] = [
    "password", "passwd", "passphrase", "passcode", "secret", "token", "credential", "apikey",
    "privatekey", "cvv",
];

/// A form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Form {
    /// In the order of the schema. If it is unknown, required fields come first.
    pub fields: Vec<FormField>,
}

/// A field of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct FormField {
    /// The key of its value.
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub kind: FieldKind,
    pub is_required: bool,
    /// The value if the user gives none.
    pub default: Option<Value>,
}

/// Which values a field has.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    Text {
        /// In characters.
        min: u64,
        max: u64,
        format: Option<TextFormat>,
        /// A regular expression that some part of it matches.
        pattern: Option<String>,
    },
    Number {
        min: Option<f64>,
        max: Option<f64>,
        is_integer: bool,
    },
    YesNo,
    Choice(Vec<FieldOption>),
    Choices {
        options: Vec<FieldOption>,
        min: u64,
        max: u64,
    },
}

/// The format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    Email,
    Uri,
    Date,
    DateTime,
}

/// A choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldOption {
    pub value: String,
    pub label: String,
}

impl Form {
    /// Reads the schema of a form. `order` has the names of its fields in their order, because a [`Value`] loses it.
    /// Without it, the list of required fields gives an order.
    ///
    /// # Errors
    /// What is wrong with it, for the server.
    pub(super) fn read(schema: &Value, order: Option<&[String]>) -> Result<Self, String> {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err("requestedSchema must have the type object".to_owned());
        }
        let no_properties = serde_json::Map::new();
        let properties = match schema.get("properties") {
            None => &no_properties,
            Some(Value::Object(properties)) => properties,
            Some(_) => return Err("properties must be an object".to_owned()),
        };
        if properties.len() > MAX_FIELDS {
            return Err(format!("a form has at most {MAX_FIELDS} fields"));
        }
        let required: Vec<&str> = list_of(schema, "required").filter_map(Value::as_str).collect();
        if let Some(name) = required.iter().find(|name| !properties.contains_key(**name)) {
            return Err(format!("the required field {name:?} is not described"));
        }
        let mut fields = properties
            .iter()
            .map(|(name, property)| read_field(name, property, required.contains(&name.as_str())))
            .collect::<Result<Vec<_>, _>>()?;
        let order = order.map_or(required, |names| names.iter().map(String::as_str).collect());
        fields.sort_by_key(|field| {
            let position = order.iter().position(|name| *name == field.name);
            position.unwrap_or(MAX_FIELDS)
        });
        Ok(Self { fields })
    }
}

impl FormField {
    /// Returns whether the field seems to ask for a password or the like.
    pub fn looks_secret(&self) -> bool {
        let texts = [Some(&self.name), self.title.as_ref(), self.description.as_ref()];
        let squeeze = |text: &String| -> String {
            let letters = text.chars().filter(|c| c.is_alphanumeric());
            letters.flat_map(char::to_lowercase).collect()
        };
        let is_free = matches!(self.kind, FieldKind::Text { .. } | FieldKind::Number { .. });
        let is_pin = |word: &str| word.eq_ignore_ascii_case("pin");
        let mut texts = texts.into_iter().flatten();
        is_free
            && texts.any(|text| {
                // Other words contain it, such as "shipping".
                let has_pin = text.split(|c: char| !c.is_alphanumeric()).any(is_pin);
                let squeezed = squeeze(text);
                has_pin || SECRETS.iter().any(|secret| squeezed.contains(secret))
            })
    }
}

impl TextFormat {
    /// Returns its name in a JSON Schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Uri => "uri",
            Self::Date => "date",
            Self::DateTime => "date-time",
        }
    }

    /// Returns what a text of this format is, for the user.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Email => "an email address",
            Self::Uri => "an address such as https://example.com",
            Self::Date => "a date such as 2030-12-31",
            Self::DateTime => "a date and time such as 2030-12-31T23:59:00Z",
        }
    }
}

fn list_of<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn read_field(name: &str, property: &Value, is_required: bool) -> Result<FormField, String> {
    if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
        return Err("the name of a field is unusable".to_owned());
    }
    let wrong = |reason: &str| format!("field {name:?}: {reason}");
    let kind = match property.get("type").and_then(Value::as_str) {
        Some("string") => read_string(property),
        Some("number") => Ok(read_number(property, false)),
        Some("integer") => Ok(read_number(property, true)),
        Some("boolean") => Ok(FieldKind::YesNo),
        Some("array") => read_choices(property),
        _ => Err("only string, number, integer, boolean, and an array of choices are possible"),
    };
    let text = |key: &str| {
        let text = property.get(key).and_then(Value::as_str)?;
        Some(one_line(&reveal_hidden_characters(text), MAX_LABEL)).filter(|text| !text.is_empty())
    };
    let mut field = FormField {
        name: name.to_owned(),
        title: text("title"),
        description: text("description"),
        kind: kind.map_err(wrong)?,
        is_required,
        default: None,
    };
    // A default that does not fit is none.
    field.default = property
        .get("default")
        .filter(|default| field.accepts(default))
        .cloned();
    Ok(field)
}

fn read_string(property: &Value) -> Result<FieldKind, &'static str> {
    if let Some(options) = read_options(property)? {
        return Ok(FieldKind::Choice(options));
    }
    let limit = |key: &str| property.get(key).and_then(Value::as_u64);
    let format = match property.get("format").and_then(Value::as_str) {
        Some("email") => Some(TextFormat::Email),
        Some("uri") => Some(TextFormat::Uri),
        Some("date") => Some(TextFormat::Date),
        Some("date-time") => Some(TextFormat::DateTime),
        _ => None,
    };
    let pattern = property.get("pattern").and_then(Value::as_str);
    Ok(FieldKind::Text {
        pattern: pattern
            .filter(|pattern| pattern.len() <= MAX_NAME && !pattern.chars().any(char::is_control))
            .map(str::to_owned),
        min: limit("minLength").unwrap_or(0),
        max: limit("maxLength").unwrap_or(MAX_TEXT).min(MAX_TEXT),
        format,
    })
}

fn read_number(property: &Value, is_integer: bool) -> FieldKind {
    let limit = |key: &str| property.get(key).and_then(Value::as_f64);
    FieldKind::Number {
        min: limit("minimum"),
        max: limit("maximum"),
        is_integer,
    }
}

fn read_choices(property: &Value) -> Result<FieldKind, &'static str> {
    let items = property.get("items").unwrap_or(&Value::Null);
    let options = read_options(items)?.ok_or("the items of an array must be choices")?;
    let limit = |key: &str| property.get(key).and_then(Value::as_u64);
    Ok(FieldKind::Choices {
        min: limit("minItems").unwrap_or(0),
        max: limit("maxItems").unwrap_or(u64::MAX),
        options,
    })
}

/// Reads the choices of `enum`, with or without names, of `oneOf`, or of `anyOf`.
fn read_options(schema: &Value) -> Result<Option<Vec<FieldOption>>, &'static str> {
    const MALFORMED: &str = "the choices are malformed";
    let titled = schema.get("oneOf").or_else(|| schema.get("anyOf"));
    let mut options = Vec::new();
    if let Some(titled) = titled {
        for option in titled.as_array().ok_or(MALFORMED)? {
            let value = option.get("const").and_then(Value::as_str).ok_or(MALFORMED)?;
            let title = option.get("title").and_then(Value::as_str);
            options.push(build_option(value, title));
        }
    } else if let Some(values) = schema.get("enum") {
        let names: Vec<&Value> = list_of(schema, "enumNames").collect();
        for (at, value) in values.as_array().ok_or(MALFORMED)?.iter().enumerate() {
            let value = value.as_str().ok_or(MALFORMED)?;
            options.push(build_option(value, names.get(at).and_then(|name| name.as_str())));
        }
    } else {
        return Ok(None);
    }
    let values: BTreeSet<&str> = options.iter().map(|option| option.value.as_str()).collect();
    if options.is_empty() || options.len() > MAX_OPTIONS || values.len() < options.len() {
        return Err("there must be 1 to 100 different choices");
    }
    if values.iter().any(|value| value.len() > MAX_NAME) {
        return Err("the value of a choice is too long");
    }
    Ok(Some(options))
}

fn build_option(value: &str, title: Option<&str>) -> FieldOption {
    let label = title.filter(|title| !title.trim().is_empty()).unwrap_or(value);
    FieldOption {
        value: value.to_owned(),
        label: one_line(&reveal_hidden_characters(label), MAX_LABEL),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(properties: Value) -> Result<Form, String> {
        Form::read(&json!({"type": "object", "properties": properties}), None)
    }

    fn kind(property: Value) -> FieldKind {
        form(json!({"a": property})).unwrap().fields.remove(0).kind
    }

    #[test]
    fn every_kind_of_choice_is_read() {
        let options = |values: &[(&str, &str)]| -> Vec<FieldOption> {
            let option = |(value, label): &(&str, &str)| FieldOption {
                value: (*value).to_owned(),
                label: (*label).to_owned(),
            };
            values.iter().map(option).collect()
        };
        let titled = json!([{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]);
        let named = options(&[("r", "Red"), ("g", "Green")]);
        assert_eq!(
            kind(json!({"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]})),
            FieldKind::Choice(named.clone())
        );
        assert_eq!(
            kind(json!({"type": "string", "enum": ["r", "g"]})),
            FieldKind::Choice(options(&[("r", "r"), ("g", "g")]))
        );
        assert_eq!(
            kind(json!({"type": "string", "oneOf": titled})),
            FieldKind::Choice(named.clone())
        );
        for items in [
            json!({"anyOf": titled}),
            json!({"oneOf": titled}),
            json!({"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}),
        ] {
            let read = kind(json!({"type": "array", "items": items, "minItems": 1, "maxItems": 2}));
            let expected = FieldKind::Choices {
                options: named.clone(),
                min: 1,
                max: 2,
            };
            assert_eq!(read, expected);
        }
    }

    #[test]
    fn what_the_protocol_does_not_allow_is_refused() {
        for property in [
            json!({"type": "object", "properties": {"b": {"type": "string"}}}),
            json!({"type": "array", "items": {"type": "string"}}),
            json!({"type": "array", "items": {"type": "object"}}),
            json!({"type": ["string", "null"]}),
            json!({"type": "string", "enum": []}),
            json!({"type": "string", "enum": [1]}),
            json!({"type": "string", "enum": ["a", "a"]}),
            json!({"type": "string", "oneOf": [{"title": "x"}]}),
            json!({"$ref": "#/definitions/a"}),
            json!("string"),
            json!(null),
        ] {
            let error = form(json!({"a": property})).unwrap_err();
            assert!(error.starts_with("field \"a\": "), "{error}");
        }
        assert!(form(json!({"": {"type": "string"}})).is_err());
        assert!(
            Form::read(
                &json!({"type": "object", "properties": {}, "required": ["x"]}),
                None
            )
            .is_err()
        );
        assert!(Form::read(&json!({"type": "array"}), None).is_err());
        assert!(Form::read(&json!({}), None).is_err());
        let many = (0..=MAX_FIELDS).map(|number| (number.to_string(), json!({"type": "boolean"})));
        assert!(form(Value::Object(many.collect())).is_err());
    }

    #[test]
    fn fields_have_the_order_of_the_schema_or_of_the_required_ones() {
        let text = json!({"type": "string"});
        let schema = json!({
            "type": "object",
            "properties": {"a": text, "b": text, "z": text, "m": text},
            "required": ["z", "b"],
        });
        let names = |order: Option<&[String]>| -> Vec<String> {
            let form = Form::read(&schema, order).unwrap();
            form.fields.into_iter().map(|field| field.name).collect()
        };
        assert_eq!(names(None), ["z", "b", "a", "m"]);
        let order = ["m", "z", "a", "b"].map(str::to_owned);
        assert_eq!(names(Some(&order)), order);
    }

    #[test]
    fn fields_that_ask_for_secrets_are_recognized() {
        let looks_secret =
            |name: &str, property: Value| form(json!({name: property})).unwrap().fields[0].looks_secret();
        let text = json!({"type": "string"});
        assert!(looks_secret("dbPassword", text.clone()));
        assert!(looks_secret("API-Key", text.clone()));
        assert!(looks_secret("card_PIN", json!({"type": "integer"})));
        assert!(!looks_secret("shipping", text.clone()));
        assert!(looks_secret(
            "x",
            json!({"type": "string", "title": "Access token"})
        ));
        assert!(looks_secret(
            "x",
            json!({"type": "string", "description": "Your pass-phrase"})
        ));
        assert!(!looks_secret("name", text));
        assert!(!looks_secret("token", json!({"type": "boolean"})));
    }

    #[test]
    fn a_default_that_does_not_fit_is_none() {
        let default = |property: Value| form(json!({"a": property})).unwrap().fields.remove(0).default;
        assert_eq!(default(json!({"type": "integer", "default": 3})), Some(json!(3)));
        assert_eq!(default(json!({"type": "integer", "default": 3.5})), None);
        assert_eq!(
            default(json!({"type": "string", "enum": ["a"], "default": "b"})),
            None
        );
        assert_eq!(default(json!({"type": "boolean", "default": "yes"})), None);
    }
}
