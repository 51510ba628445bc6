//! The figures of a run, as a table and as JSON. It knows units and aims, not how a figure is measured.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unit {
    Milliseconds,
    Microseconds,
    /// Mebibytes, shown as MB.
    Megabytes,
    PerSecond,
    Count,
    Percent,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "ms",
            Self::Microseconds => "µs",
            Self::Megabytes => "MB",
            Self::PerSecond => "/s",
            Self::Count => "",
            Self::Percent => "%",
        }
    }
}

/// The aims of the design, by the name of the figure.
const TARGETS: &[(&str, &str)] = &[
    ("start → initialize answered, p50", "< 10 ms"),
    ("RSS with a session", "< 15 MB"),
    ("RSS after 10,000 deltas", "< 20 MB"),
    ("prompt → request at the provider, p50", "< 5 ms"),
    ("first delta, added, p50", "< 1 ms, < 2×"),
    ("100 deltas/s, added, p50", "< 1 ms"),
    ("flood of 100,000: deltas/s taken in", "> 100000 /s"),
    ("cancel while streaming → turnEnded, p99", "< 4 ms"),
    ("100 sessions streaming, cancel of one → turnEnded, p99", "< 2×"),
    ("at rest: CPU per second", "0"),
    ("cancel in bash → turnEnded, p99", "< 4 ms"),
    ("cancel while waiting for a retry → turnEnded, p99", "< 4 ms"),
    ("binary", "< 15 MB"),
];

/// The figures of one program, in the order of measurement.
#[derive(Debug, Default)]
pub struct Figures {
    figures: Vec<(String, Unit, f64)>,
    requests: HashMap<String, Vec<u8>>,
}

impl Figures {
    /// Records a figure.
    pub fn set(&mut self, name: &str, unit: Unit, value: f64) {
        self.figures.push((name.to_owned(), unit, value));
    }

    /// Records the median of several values.
    pub fn record_median(&mut self, name: &str, unit: Unit, mut all: Vec<f64>) {
        all.sort_by(f64::total_cmp);
        self.set(name, unit, all[all.len() / 2]);
    }

    /// Records the median of several times.
    pub fn median(&mut self, name: &str, times: Vec<Duration>) {
        let all = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        self.record_median(name, Unit::Milliseconds, all);
    }

    /// Records the median and the 99th percentile of many times.
    pub fn times(&mut self, name: &str, mut times: Vec<Duration>) {
        times.sort();
        for percent in [50, 99] {
            // The nearest-rank percentile.
            let rank = (times.len() * percent).div_ceil(100).max(1);
            let value = times[rank - 1].as_secs_f64() * 1e3;
            self.set(&format!("{name}, p{percent}"), Unit::Milliseconds, value);
        }
    }

    /// Keeps a request's body, so that the other program can send as much.
    pub fn keep_request(&mut self, name: &str, raw: &[u8]) {
        self.requests
            .entry(name.to_owned())
            .or_insert_with(|| raw.to_vec());
    }

    /// Returns a kept request body.
    pub fn request(&self, name: &str) -> Option<&Vec<u8>> {
        self.requests.get(name)
    }

    /// Creates an empty set of figures with the kept requests of `other`.
    pub fn with_requests_of(other: &Self) -> Self {
        Self {
            figures: Vec::new(),
            requests: other.requests.clone(),
        }
    }

    /// Appends the figures of a measurement.
    pub fn extend(&mut self, more: Self) {
        self.figures.extend(more.figures);
        self.requests.extend(more.requests);
    }
}

struct Row<'a> {
    name: &'a str,
    unit: Unit,
    value: f64,
    bare: Option<f64>,
}

fn rows<'a>(agentls: &'a Figures, bare: &'a Figures) -> impl Iterator<Item = Row<'a>> {
    agentls.figures.iter().map(|(name, unit, value)| Row {
        name,
        unit: *unit,
        value: *value,
        bare: bare
            .figures
            .iter()
            .find(|(other, ..)| other == name)
            .map(|(.., value)| *value),
    })
}

impl Row<'_> {
    fn ratio(&self) -> Option<f64> {
        self.bare.filter(|bare| *bare > 0.0).map(|bare| self.value / bare)
    }

    fn target(&self) -> &'static str {
        TARGETS
            .iter()
            .find(|(name, _)| *name == self.name)
            .map_or("", |(_, target)| target)
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        0.0..1.0 => format!("{value:.3}"),
        1.0..100.0 => format!("{value:.2}"),
        _ => format!("{value:.0}"),
    }
}

/// Renders a Markdown table.
pub fn table(agentls: &Figures, bare: &Figures) -> String {
    let mut lines = vec![[
        "measure".to_owned(),
        "agentls".into(),
        "pass-through".into(),
        "ratio".into(),
        "aim".into(),
    ]];
    for row in rows(agentls, bare) {
        let format_value = |value| format!("{} {}", number(value), row.unit.name()).trim().to_owned();
        lines.push([
            row.name.to_owned(),
            format_value(row.value),
            row.bare.map(format_value).unwrap_or_default(),
            row.ratio()
                .map(|ratio| format!("{}×", number(ratio)))
                .unwrap_or_default(),
            row.target().to_owned(),
        ]);
    }
    let width = |column: usize| {
        lines
            .iter()
            .map(|line| line[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..5).map(width).collect();
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(&widths) {
            out.push_str(&format!("| {cell:width$} "));
        }
        out.push_str("|\n");
        if at == 0 {
            widths
                .iter()
                .for_each(|width| out.push_str(&format!("|{}", "-".repeat(width + 2))));
            out.push_str("|\n");
        }
    }
    out
}

/// Renders the same rows as JSON.
pub fn json(agentls: &Figures, bare: &Figures) -> Value {
    let rows = rows(agentls, bare).map(|row| {
        json!({
            "name": row.name, "unit": row.unit.name(), "agentls": row.value,
            "passThrough": row.bare, "ratio": row.ratio(), "aim": row.target(),
        })
    });
    rows.collect()
}
