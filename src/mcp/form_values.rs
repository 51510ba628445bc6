//! The values of a form: from the words of the user to JSON that fits the server's schema.

use std::collections::BTreeMap;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use serde_json::{Map, Number, Value};
use url::Url;

use super::form::{FieldKind, FieldOption, Form, FormField, TextFormat};
use super::schema::is_odd_pattern;
use crate::base::text::reveal_hidden_characters;

/// The value for yes. The other one is [`NO`].
pub(super) const YES: &str = "true";
/// The value for no.
pub(super) const NO: &str = "false";

impl Form {
    /// Converts the user's answers, by name of the field. A field without an answer has its default.
    ///
    /// # Errors
    /// What is wrong, by name of the field, for the user.
    pub fn to_values(
        &self,
        answers: &BTreeMap<String, Vec<String>>,
    ) -> Result<Map<String, Value>, BTreeMap<String, String>> {
        let (mut values, mut problems) = (Map::new(), BTreeMap::new());
        for field in &self.fields {
            let given: &[String] = answers.get(&field.name).map_or(&[], Vec::as_slice);
            match field.to_value(given) {
                Ok(None) => {}
                Ok(Some(value)) => {
                    values.insert(field.name.clone(), value);
                }
                Err(problem) => _ = problems.insert(field.name.clone(), problem),
            }
        }
        if problems.is_empty() {
            Ok(values)
        } else {
            Err(problems)
        }
    }
}

impl FormField {
    /// Returns what a value must be, for people; `None` if anything goes, or the choices say it.
    pub fn describe_values(&self) -> Option<String> {
        match &self.kind {
            FieldKind::Text {
                min,
                max,
                format,
                pattern,
            } => {
                let length = match (*min, *max) {
                    (0, 10_000..) => None,
                    (0, max) => Some(format!("at most {max} characters")),
                    (min, 10_000..) => Some(format!("at least {min} characters")),
                    (min, max) => Some(format!("{min} to {max} characters")),
                };
                let format = format.map(|format| format.describe().to_owned());
                let pattern = pattern
                    .as_ref()
                    .map(|pattern| format!("text that matches {}", reveal_hidden_characters(pattern)));
                let parts: Vec<String> = format.into_iter().chain(length).chain(pattern).collect();
                (!parts.is_empty()).then(|| parts.join(", "))
            }
            FieldKind::Number { min, max, is_integer } => {
                let kind = if *is_integer { "a whole number" } else { "a number" };
                Some(match (min, max) {
                    (Some(min), Some(max)) => format!("{kind} from {min} to {max}"),
                    (Some(min), None) => format!("{kind} from {min} on"),
                    (None, Some(max)) => format!("{kind} up to {max}"),
                    (None, None) => kind.to_owned(),
                })
            }
            FieldKind::YesNo | FieldKind::Choice(_) => None,
            FieldKind::Choices { min, max, options } => match (*min, *max) {
                (0, max) if max >= options.len() as u64 => None,
                (min, max) => Some(format!("{min} to {} choices", max.min(options.len() as u64))),
            },
        }
    }

    /// Returns whether a JSON value fits.
    pub(super) fn accepts(&self, value: &Value) -> bool {
        let words = match value {
            Value::String(text) => vec![text.clone()],
            Value::Array(items) => {
                let texts = items.iter().map(Value::as_str);
                match texts.collect::<Option<Vec<_>>>() {
                    Some(texts) => texts.into_iter().map(str::to_owned).collect(),
                    None => return false,
                }
            }
            other => vec![other.to_string()],
        };
        matches!(self.convert(&words), Ok(converted) if converted == *value)
    }

    fn to_value(&self, given: &[String]) -> Result<Option<Value>, String> {
        // Clients may send an empty text for a field that was left empty.
        let is_empty = given.iter().all(|text| text.is_empty());
        if !is_empty {
            return self.convert(given).map(Some);
        }
        match (&self.default, self.is_required) {
            (Some(default), _) => Ok(Some(default.clone())),
            (None, false) => Ok(None),
            (None, true) => match &self.kind {
                FieldKind::Text {
                    min: 0,
                    format: None,
                    pattern: None,
                    ..
                } if !given.is_empty() => Ok(Some(Value::from(""))),
                FieldKind::Choices { min: 0, .. } => Ok(Some(Value::Array(Vec::new()))),
                _ => Err("needs an answer".to_owned()),
            },
        }
    }

    fn convert(&self, given: &[String]) -> Result<Value, String> {
        if let FieldKind::Choices { options, min, max } = &self.kind {
            let count = given.len() as u64;
            if count < *min || count > *max {
                return Err(self.describe_values().unwrap_or_default());
            }
            let chosen = given.iter().map(|value| find_option(options, value));
            return chosen.collect::<Result<Vec<_>, _>>().map(Value::from);
        }
        let [text] = given else {
            return Err("takes one answer".to_owned());
        };
        let must_be = || format!("must be {}", self.describe_values().unwrap_or_default());
        match &self.kind {
            FieldKind::Text {
                min,
                max,
                format,
                pattern,
            } => {
                let length = text.chars().count() as u64;
                let fits = format.is_none_or(|format| has_format(text, format));
                let fits = fits
                    && pattern
                        .as_ref()
                        .is_none_or(|pattern| matches_pattern(text, pattern));
                let fits = fits && (*min..=*max).contains(&length);
                if fits {
                    Ok(Value::from(text.as_str()))
                } else {
                    Err(must_be())
                }
            }
            FieldKind::Number { min, max, is_integer } => {
                let number = parse_number(text.trim(), *is_integer).ok_or_else(must_be)?;
                let size = number.as_f64().unwrap_or(f64::NAN);
                let fits = min.is_none_or(|min| size >= min) && max.is_none_or(|max| size <= max);
                if fits {
                    Ok(Value::Number(number))
                } else {
                    Err(must_be())
                }
            }
            FieldKind::YesNo => match text.as_str() {
                YES => Ok(Value::Bool(true)),
                NO => Ok(Value::Bool(false)),
                _ => Err("must be yes or no".to_owned()),
            },
            FieldKind::Choice(options) => find_option(options, text).map(Value::from),
            FieldKind::Choices { .. } => Err("takes several answers".to_owned()),
        }
    }
}

fn find_option<'a>(options: &'a [FieldOption], value: &str) -> Result<&'a str, String> {
    let known = options.iter().find(|option| option.value == value);
    let known = known.map(|option| option.value.as_str());
    known.ok_or_else(|| format!("{value:?} is not one of the choices"))
}

fn parse_number(text: &str, is_integer: bool) -> Option<Number> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    let number = text.parse::<f64>().ok().filter(|_| !is_integer)?;
    // `None` for what JSON does not know, such as an infinite number.
    Number::from_f64(number)
}

/// Returns whether a text has a format. Not strict where only the server can know.
fn has_format(text: &str, format: TextFormat) -> bool {
    match format {
        TextFormat::Email => matches!(
            text.split_once('@'),
            Some((name, host)) if !name.is_empty() && !host.is_empty()
                && !host.contains('@') && !text.contains(char::is_whitespace)
        ),
        TextFormat::Uri => Url::parse(text).is_ok(),
        TextFormat::Date => is_date(text),
        TextFormat::DateTime => match text.split_once(['T', 't']) {
            Some((date, time)) => is_date(date) && is_time(time),
            None => false,
        },
    }
}

/// Returns whether a text matches a pattern. One that only JavaScript understands is left to the server.
fn matches_pattern(text: &str, pattern: &str) -> bool {
    is_odd_pattern(pattern)
        || RegexMatcher::new(pattern)
            .map_or(true, |matcher| matcher.is_match(text.as_bytes()).unwrap_or(true))
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else {
        return false;
    };
    let month = number_of(month, 2).unwrap_or(0);
    let year = number_of(year, 4);
    let is_leap = year.is_some_and(|year| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => return false,
    };
    year.is_some() && number_of(day, 2).is_some_and(|day| (1..=days).contains(&day))
}

/// Returns whether a text is a time with its zone, such as `12:30:00Z` or `12:30:00.5+02:00`.
fn is_time(text: &str) -> bool {
    let zone = text.find(['Z', 'z', '+', '-']);
    let Some((time, zone)) = zone.map(|at| text.split_at(at)) else {
        return false;
    };
    let is_zone = match zone.strip_prefix(['+', '-']) {
        Some(offset) => is_clock(offset, 2),
        None => zone.eq_ignore_ascii_case("z"),
    };
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    is_zone
        && is_clock(clock, 3)
        && !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_clock(text: &str, parts: usize) -> bool {
    let numbers: Option<Vec<u32>> = text.split(':').map(|part| number_of(part, 2)).collect();
    let limits = [23, 59, 60];
    numbers.is_some_and(|numbers| {
        numbers.len() == parts && numbers.iter().zip(limits).all(|(number, limit)| *number <= limit)
    })
}

fn number_of(text: &str, digits: usize) -> Option<u32> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form() -> Form {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 2, "maxLength": 5},
                "email": {"type": "string", "format": "email"},
                "age": {"type": "integer", "minimum": 0, "maximum": 150},
                "share": {"type": "number", "default": 0.5},
                "agree": {"type": "boolean", "default": false},
                "size": {"type": "string", "enum": ["s", "l"]},
                "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
                "odd": {"type": "string", "pattern": "^(?!x)"},
                "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "maxItems": 2},
            },
            "required": ["name"],
        });
        Form::read(&schema, None).unwrap()
    }

    fn convert(answers: &[(&str, &[&str])]) -> Result<Value, String> {
        let answers = answers.iter().map(|(name, values)| {
            let values = values.iter().map(|value| (*value).to_owned()).collect();
            ((*name).to_owned(), values)
        });
        let values = form().to_values(&answers.collect());
        values.map(Value::Object).map_err(|problems| {
            let problems = problems
                .iter()
                .map(|(name, problem)| format!("{name}: {problem}"));
            problems.collect::<Vec<_>>().join("; ")
        })
    }

    #[test]
    fn answers_become_values_of_the_right_types() {
        let all: &[(&str, &[&str])] = &[
            ("name", &["Ada"]),
            ("email", &["ada@example.org"]),
            ("age", &[" 36 "]),
            ("share", &["1.25"]),
            ("agree", &["true"]),
            ("size", &["l"]),
            ("code", &["ABC"]),
            ("odd", &["x"]),
            ("tags", &["a", "c"]),
        ];
        assert_eq!(
            convert(all).unwrap(),
            json!({
                "name": "Ada", "email": "ada@example.org", "age": 36, "share": 1.25, "agree": true, "size": "l", "code": "ABC", "odd": "x",
                "tags": ["a", "c"],
            })
        );
        // Fields without an answer have their default, or are left out.
        assert_eq!(
            convert(&[("name", &["Ada"]), ("email", &[""]), ("tags", &[])]).unwrap(),
            json!({"name": "Ada", "share": 0.5, "agree": false})
        );
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (name, given, expected) in [
            ("name", &["A"][..], "name: must be 2 to 5 characters"),
            ("name", &[][..], "name: needs an answer"),
            ("email", &["ada"], "email: must be an email address"),
            ("age", &["1.5"], "age: must be a whole number from 0 to 150"),
            ("age", &["151"], "age: must be a whole number"),
            ("share", &["NaN"], "share: must be a number"),
            ("code", &["ABCD"], "code: must be text that matches ^[A-Z]{3}$"),
            ("agree", &["maybe"], "agree: must be yes or no"),
            ("size", &["m"], "size: \"m\" is not one of the choices"),
            ("size", &["s", "l"], "size: takes one answer"),
            ("tags", &["a", "b", "c"], "tags: 0 to 2 choices"),
            ("tags", &["d"], "tags: \"d\" is not one"),
        ] {
            let mut answers: Vec<(&str, &[&str])> = vec![(name, given)];
            if name != "name" {
                answers.push(("name", &["Ada"]));
            }
            let error = convert(&answers).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn formats_are_checked() {
        for (format, good, bad) in [
            (
                TextFormat::Email,
                &["a@b"][..],
                &["a@", "@b", "a b@c", "a@b@c", "a"][..],
            ),
            (TextFormat::Uri, &["https://a.example/x"], &["a.example"]),
            (
                TextFormat::Date,
                &["2024-02-29", "1999-12-31"],
                &[
                    "2023-02-29",
                    "2024-13-01",
                    "24-01-01",
                    "2024-1-1",
                    "2024-04-31",
                    "2024-01-00",
                ],
            ),
            (
                TextFormat::DateTime,
                &["2024-02-29T12:30:00Z", "2024-01-01t00:00:60.25+02:00"],
                &[
                    "2024-01-01",
                    "2024-01-01T12:30:00",
                    "2024-01-01T25:00:00Z",
                    "2024-01-01T12:30Z",
                ],
            ),
        ] {
            for text in good {
                assert!(has_format(text, format), "{text}");
            }
            for text in bad {
                assert!(!has_format(text, format), "{text}");
            }
        }
    }

    #[test]
    fn values_are_described() {
        let form = form();
        let described = |name: &str| {
            let field = form.fields.iter().find(|field| field.name == name);
            field.and_then(FormField::describe_values).unwrap_or_default()
        };
        assert_eq!(described("name"), "2 to 5 characters");
        assert_eq!(described("email"), "an email address");
        assert_eq!(described("share"), "a number");
        assert_eq!(described("agree"), "");
        assert_eq!(described("tags"), "0 to 2 choices");
    }
}
