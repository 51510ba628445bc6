//! Values with locations: the form of TOML text and JSON options before validation and merging.
//!
//! Knows syntax, not settings. A TOML syntax error costs only the lines that it makes doubtful, and the paths of the
//! lost settings are recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostics::Diagnostic;
use super::location::ConfigLocation;

/// How many syntax errors of a file are listed individually.
const MAX_ERRORS: usize = 20;

/// A value and its location.
#[derive(Clone, Debug)]
pub(super) struct SpannedValue {
    pub(super) at: ConfigLocation,
    /// The text before its variables were expanded. Show this one: the expanded text may be a secret.
    pub(super) raw: Option<Box<str>>,
    pub(super) node: Node,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    Date(String),
    List(Vec<SpannedValue>),
    Table(BTreeMap<String, SpannedValue>),
}

impl SpannedValue {
    pub(super) fn new(at: ConfigLocation, node: Node) -> Self {
        Self { at, raw: None, node }
    }

    pub(super) fn new_table(at: ConfigLocation) -> Self {
        Self::new(at, Node::Table(BTreeMap::new()))
    }

    /// Returns the value at a path of keys.
    pub(super) fn find(&self, path: &[&str]) -> Option<&SpannedValue> {
        path.iter().try_fold(self, |tree, key| match &tree.node {
            Node::Table(entries) => entries.get(*key),
            _ => None,
        })
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.node {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_f64(&self) -> Option<f64> {
        match self.node {
            Node::Integer(number) => Some(number as f64),
            Node::Float(number) => Some(number),
            _ => None,
        }
    }

    /// Inserts `tree` at a path and creates tables on the way. The path must not lead through a plain value.
    pub(super) fn insert_at(&mut self, path: &[&str], tree: SpannedValue) {
        let Node::Table(entries) = &mut self.node else {
            return;
        };
        match path {
            [] => {}
            [last] => {
                entries.insert((*last).to_owned(), tree);
            }
            [first, rest @ ..] => entries
                .entry((*first).to_owned())
                .or_insert_with(|| SpannedValue::new_table(tree.at.clone()))
                .insert_at(rest, tree),
        }
    }

    /// Removes and returns the value at a path.
    pub(super) fn take(&mut self, path: &[&str]) -> Option<SpannedValue> {
        let Node::Table(entries) = &mut self.node else {
            return None;
        };
        match path {
            [] => None,
            [last] => entries.remove(*last),
            [first, rest @ ..] => entries.get_mut(*first)?.take(rest),
        }
    }

    /// Merges `upper` over `self`: tables entry by entry, other values by replacement. Lists at a path for which
    /// `joins` returns true are joined without repetitions.
    pub(super) fn merge_overlay(&mut self, upper: SpannedValue, path: &str, joins: &dyn Fn(&str) -> bool) {
        match (&mut self.node, upper.node) {
            (Node::Table(lower), Node::Table(upper)) => {
                for (key, value) in upper {
                    let inner = join(path, &key);
                    match lower.get_mut(&key) {
                        Some(below) => below.merge_overlay(value, &inner, joins),
                        None => {
                            lower.insert(key, value);
                        }
                    }
                }
            }
            (Node::List(lower), Node::List(upper)) if joins(path) => {
                for item in upper {
                    if !lower.iter().any(|have| have.text() == item.text()) {
                        lower.push(item);
                    }
                }
            }
            (_, node) => {
                *self = SpannedValue {
                    at: upper.at,
                    raw: upper.raw,
                    node,
                }
            }
        }
    }

    /// Converts to JSON for serde.
    pub(super) fn to_json(&self) -> Value {
        match &self.node {
            Node::Text(text) | Node::Date(text) => Value::from(text.as_str()),
            Node::Integer(number) => Value::from(*number),
            Node::Float(number) => Value::from(*number),
            Node::Bool(yes) => Value::from(*yes),
            Node::List(items) => items.iter().map(SpannedValue::to_json).collect(),
            Node::Table(entries) => Value::Object(
                entries
                    .iter()
                    .map(|(key, tree)| (key.clone(), tree.to_json()))
                    .collect(),
            ),
        }
    }

    /// Converts to JSON with the names of variables instead of their values.
    pub(super) fn raw_json(&self) -> Value {
        match (&self.raw, &self.node) {
            (Some(raw), _) => Value::from(&**raw),
            (None, Node::List(items)) => items.iter().map(SpannedValue::raw_json).collect(),
            (None, Node::Table(entries)) => Value::Object(
                entries
                    .iter()
                    .map(|(key, tree)| (key.clone(), tree.raw_json()))
                    .collect(),
            ),
            _ => self.to_json(),
        }
    }

    /// Converts from JSON; `null` counts as absent.
    pub(super) fn from_json(value: &Value, at: &ConfigLocation) -> Option<Self> {
        let node = match value {
            Value::Null => return None,
            Value::Bool(yes) => Node::Bool(*yes),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => Node::Integer(integer),
                None => Node::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Node::Text(text.clone()),
            Value::Array(items) => Node::List(
                items
                    .iter()
                    .filter_map(|item| Self::from_json(item, at))
                    .collect(),
            ),
            Value::Object(entries) => Node::Table(
                entries
                    .iter()
                    .filter_map(|(key, value)| Some((key.clone(), Self::from_json(value, at)?)))
                    .collect(),
            ),
        };
        Some(Self::new(at.clone(), node))
    }
}

/// Returns the path of an entry of the table at `path`. Quotes keys with dots: `model."gpt-4.1".input`.
pub(super) fn join(path: &str, key: &str) -> String {
    let quoted;
    let key = if key.contains(['.', '"']) || key.is_empty() {
        quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
        &quoted
    } else {
        key
    };
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Joins keys to a path.
pub(super) fn join_keys(keys: &[&str]) -> String {
    keys.iter().fold(String::new(), |path, key| join(&path, key))
}

/// Splits a path into its keys.
pub(super) fn split_keys(path: &str) -> Vec<String> {
    let mut keys = vec![String::new()];
    let mut quoted = false;
    let mut chars = path.chars();
    while let Some(ch) = chars.next() {
        match (ch, keys.last_mut()) {
            ('"', _) => quoted = !quoted,
            ('.', _) if !quoted => keys.push(String::new()),
            ('\\', Some(key)) if quoted => key.extend(chars.next()),
            (_, Some(key)) => key.push(ch),
            (_, None) => {}
        }
    }
    keys
}

/// The result of parsing a file.
pub(super) struct Parsed {
    pub(super) tree: SpannedValue,
    pub(super) problems: Vec<Diagnostic>,
    /// Settings that were stated but could not be read.
    pub(super) failed: BTreeSet<String>,
}

/// Parses TOML. Leaves out what syntax errors affect, and keeps the rest.
pub(super) fn parse_toml(bytes: &[u8], path: &Path) -> Parsed {
    let top = ConfigLocation::start_of_file(path);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let lines = LineIndex::from_bytes(&bytes[..error.valid_up_to()]);
            let at = lines.location_at(error.valid_up_to(), &top);
            let problem = Diagnostic::new_error(&at, "", "not UTF-8 text; the file is not used");
            return Parsed {
                tree: SpannedValue::new_table(top),
                problems: vec![problem],
                failed: BTreeSet::new(),
            };
        }
    };
    let lines = LineIndex::from_bytes(text.as_bytes());
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut problems = Vec::new();
    let mut tainted = Vec::new();
    let hidden = errors.len().saturating_sub(MAX_ERRORS);
    for (index, error) in errors.into_iter().enumerate() {
        let span = error.span().unwrap_or(0..0);
        tainted.push(lines.find_tainted_range(text, &span));
        if index < MAX_ERRORS {
            let at = lines.location_at(span.start, &top);
            problems.push(Diagnostic::new_error(
                &at,
                "",
                format!("TOML: {}", error.message()),
            ));
            if index + 1 == MAX_ERRORS && hidden > 0 {
                problems.push(Diagnostic::new_error(
                    &at,
                    "",
                    format!("and {hidden} more syntax errors"),
                ));
            }
        }
    }
    // `is_tainted` needs sorted, separate ranges for its binary search: a file may contain 100,000 errors.
    let tainted = merge_ranges(tainted);
    let mut reader = TreeReader {
        lines: &lines,
        top: &top,
        tainted,
        failed: BTreeSet::new(),
    };
    let entries = reader.read_table(document.get_ref(), "");
    let failed = reader.failed;
    Parsed {
        tree: SpannedValue::new(top, Node::Table(entries)),
        problems,
        failed,
    }
}

struct TreeReader<'a> {
    lines: &'a LineIndex,
    top: &'a ConfigLocation,
    /// Byte ranges that syntax errors made doubtful, sorted and without overlaps.
    tainted: Vec<Range<usize>>,
    failed: BTreeSet<String>,
}

impl TreeReader<'_> {
    fn read_table(&mut self, table: &DeTable<'_>, path: &str) -> BTreeMap<String, SpannedValue> {
        let mut entries = BTreeMap::new();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let path = join(path, name);
            let entry_span = key.span().start.min(value.span().start)..value.span().end.max(key.span().end);
            // The span of a table is only its header, so its entries are checked one by one.
            let spoiled = !value.get_ref().is_table() && self.is_tainted(&entry_span);
            match self.value(value, &path) {
                Some(node) if !spoiled => {
                    let at = self.lines.location_at(key.span().start, self.top);
                    entries.insert(name.to_owned(), SpannedValue::new(at, node));
                }
                _ => {
                    self.failed.insert(path);
                }
            }
        }
        entries
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, path: &str) -> Option<Node> {
        Some(match value.get_ref() {
            DeValue::String(text) => Node::Text(text.to_string()),
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(number) => Node::Integer(number),
                // Too large for any setting; NaN makes the range check report it.
                Err(_) => Node::Float(f64::NAN),
            },
            DeValue::Float(number) => Node::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(yes) => Node::Bool(*yes),
            DeValue::Datetime(date) => Node::Date(date.to_string()),
            DeValue::Array(items) => {
                let mut list = Vec::new();
                for item in items.iter() {
                    let at = self.lines.location_at(item.span().start, self.top);
                    list.extend(self.value(item, path).map(|node| SpannedValue::new(at, node)));
                }
                Node::List(list)
            }
            DeValue::Table(table) => Node::Table(self.read_table(table, path)),
        })
    }

    fn is_tainted(&self, span: &Range<usize>) -> bool {
        let first = self.tainted.partition_point(|bad| bad.end <= span.start);
        self.tainted
            .get(first)
            .is_some_and(|bad| bad.start < span.end.max(span.start + 1))
    }
}

/// Sorts ranges and merges those that overlap.
fn merge_ranges(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Converts byte offsets to lines and columns.
struct LineIndex {
    text: Vec<u8>,
    starts: Vec<usize>,
}

impl LineIndex {
    fn from_bytes(text: &[u8]) -> Self {
        let starts = std::iter::once(0)
            .chain(memchr::memchr_iter(b'\n', text).map(|at| at + 1))
            .collect();
        Self {
            text: text.to_vec(),
            starts,
        }
    }

    fn index_at(&self, offset: usize) -> usize {
        self.starts
            .partition_point(|start| *start <= offset)
            .saturating_sub(1)
    }

    fn location_at(&self, offset: usize, file: &ConfigLocation) -> ConfigLocation {
        let offset = offset.min(self.text.len());
        let index = self.index_at(offset);
        let before = &self.text[self.starts[index]..offset];
        // Columns count characters: skip UTF-8 continuation bytes.
        let column = before.iter().filter(|byte| **byte & 0xC0 != 0x80).count() + 1;
        ConfigLocation {
            origin: file.origin.clone(),
            line: u32::try_from(index + 1).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }

    /// Returns the range that an error at `span` makes doubtful: its lines. After a broken table header it extends to
    /// the next header, because the entries would land in another table.
    fn find_tainted_range(&self, text: &str, span: &Range<usize>) -> Range<usize> {
        let first = self.index_at(span.start.min(text.len()));
        let mut last = self.index_at(span.end.min(text.len()));
        let line = |index: usize| {
            let end = self.starts.get(index + 1).copied().unwrap_or(text.len());
            &text[self.starts[index]..end]
        };
        if line(first).trim_start().starts_with('[') {
            while last + 1 < self.starts.len() && !line(last + 1).trim_start().starts_with('[') {
                last += 1;
            }
        }
        self.starts[first]
            ..self
                .starts
                .get(last + 1)
                .copied()
                .unwrap_or(text.len())
                .max(self.starts[first] + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Parsed {
        parse_toml(text.as_bytes(), Path::new("/c.toml"))
    }

    #[test]
    fn values_have_line_and_column() {
        let parsed = parse("a = 1\n[t.\"ü.x\"]\n  b = 'x'\nl = [\n 1,\n 2]\n");
        assert!(parsed.problems.is_empty());
        let b = parsed.tree.find(&["t", "ü.x", "b"]).unwrap();
        assert_eq!((b.at.line, b.at.column, b.text()), (3, 3, Some("x")));
        let Node::List(items) = &parsed.tree.find(&["t", "ü.x", "l"]).unwrap().node else {
            panic!()
        };
        assert_eq!((items[1].at.line, items[1].at.column), (6, 2));
    }

    #[test]
    fn syntax_error_costs_only_its_lines() {
        for (text, line, kept, lost) in [
            ("a = 1\nb = = 2\nc = 3\n", 2, &["a", "c"][..], &["b"][..]),
            ("a = 1\nb = https://x\nc = 3\n", 2, &["a", "c"], &["b"]),
            ("a = 1\na = 2\nc = 3\n", 2, &["a", "c"], &[]),
            (
                "a = 1\n[t\nx = 1\ny = 2\n[u]\nz = 3\n",
                2,
                &["a", "u"],
                &["x", "y"],
            ),
            ("a = 1\nb = \"open\nc = 3\n", 2, &["a", "c"], &["b"]),
        ] {
            let parsed = parse(text);
            assert!(!parsed.problems.is_empty(), "{text}");
            assert_eq!(parsed.problems[0].line, line, "{text} {:?}", parsed.problems);
            for key in kept {
                assert!(
                    parsed.tree.find(&[key]).is_some(),
                    "{key} of {text}: {:?}",
                    parsed.tree
                );
            }
            for key in lost {
                assert!(
                    parsed.tree.find(&[key]).is_none(),
                    "{key} of {text}: {:?}",
                    parsed.tree
                );
                assert!(
                    parsed.tree.find(&["t", key]).is_none(),
                    "{key} of {text}: {:?}",
                    parsed.tree
                );
            }
        }
        assert!(parse("[p]\nbase_url = https://x\n").failed.contains("p.base_url"));
    }

    #[test]
    fn paths_quote_unusual_keys() {
        for keys in [
            &["a", "b.c", "d"][..],
            &["a", "b", "c.d"],
            &["", "x"],
            &["q\"u.o", "b\\", "\\."],
            &["\"", "."],
        ] {
            assert_eq!(split_keys(&join_keys(keys)), keys, "{}", join_keys(keys));
        }
        assert_eq!(
            join_keys(&["model", "gpt-4.1", "input"]),
            "model.\"gpt-4.1\".input"
        );
    }

    #[test]
    fn many_syntax_errors_are_summarized() {
        let parsed = parse(&format!("{}\n[t]\nx = 1\n", "= =\n".repeat(100_000)));
        assert_eq!(parsed.problems.len(), MAX_ERRORS + 1);
        assert!(parsed.tree.find(&["t", "x"]).is_some());
    }

    #[test]
    fn invalid_utf8_is_reported_with_its_line() {
        let parsed = parse_toml(b"a = 1\nb = \"\xff\"\n", Path::new("/c.toml"));
        assert_eq!((parsed.problems[0].line, parsed.problems[0].column), (2, 6));
    }

    #[test]
    fn overlay_replaces_values_joins_named_lists() {
        let mut low = parse("[a]\nx = 1\ny = 2\nl = ['p', 'q']\nm = ['p']\n").tree;
        let high = parse("[a]\ny = 3\nl = ['q', 'r']\nm = ['z']\n").tree;
        low.merge_overlay(high, "", &|path| path == "a.l");
        assert_eq!(
            low.to_json(),
            serde_json::json!({"a": {"x": 1, "y": 3, "l": ["p", "q", "r"], "m": ["z"]}})
        );
    }
}
