//! Learns from lines that match how a file is indented where the old text is indented otherwise. Pure.

use std::collections::HashMap;

/// How indentation of the old text becomes that of the file.
pub(super) struct Indentation<'a> {
    /// By the old text's indentation; `None` where it stands for more than one of the file.
    known: HashMap<&'a str, Option<&'a str>>,
    /// What holds for all lines; all must agree on a new one.
    rules: Vec<Rule<'a>>,
}

/// A way to translate any indentation.
#[derive(Clone, Copy, Debug)]
enum Rule<'a> {
    Same,
    /// The file has this before each line.
    Added(&'a str),
    /// The old text has this before each line.
    Removed(&'a str),
    /// Each unit of the old text is one of the file.
    Units(&'static str, &'static str),
}

/// Units of indentation.
const UNITS: [&str; 5] = ["\t", " ", "  ", "    ", "        "];

impl<'a> Indentation<'a> {
    /// Learns from pairs of an indentation in the old text and that of the same line in the file.
    pub(super) fn learn(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let pairs: Vec<(&str, &str)> = pairs.collect();
        let mut known: HashMap<&str, Option<&str>> = HashMap::new();
        for (old, there) in &pairs {
            let entry = known.entry(*old).or_insert(Some(*there));
            if *entry != Some(*there) {
                *entry = None;
            }
        }
        let rules = list_rules(&pairs);
        Self { known, rules }
    }

    /// Indents `text`, which is `line` without its indentation, as the file would. `None` if that is not certain.
    pub(super) fn fit(&self, line: &str, text: &str) -> Option<String> {
        if text.trim().is_empty() {
            return Some(String::new());
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        if let Some(known) = self.known.get(indent) {
            return known.map(|known| known.to_owned() + text);
        }
        let mut translated = self.rules.iter().map(|rule| rule.translate(indent));
        let first = translated.next()??;
        translated
            .all(|other| other.as_ref() == Some(&first))
            .then(|| first + text)
    }
}

/// Returns the rules that hold for all pairs. If nothing differs, there is no need for others.
fn list_rules<'a>(pairs: &[(&'a str, &'a str)]) -> Vec<Rule<'a>> {
    let holds = |rule: &Rule| {
        let mut pairs = pairs.iter();
        pairs.all(|(old, there)| rule.translate(old).as_deref() == Some(there))
    };
    let Some((old, there)) = pairs.first() else {
        return vec![Rule::Same];
    };
    if holds(&Rule::Same) {
        return vec![Rule::Same];
    }
    let moved = [
        there.strip_suffix(old).map(Rule::Added),
        old.strip_suffix(there).map(Rule::Removed),
    ];
    let units = UNITS
        .iter()
        .flat_map(|old| UNITS.iter().map(move |there| Rule::Units(old, there)));
    moved.into_iter().flatten().chain(units).filter(holds).collect()
}

impl Rule<'_> {
    fn translate(&self, indent: &str) -> Option<String> {
        match self {
            Self::Same => Some(indent.to_owned()),
            Self::Added(prefix) => {
                // Tabs before blanks mean that the two are indented by different units.
                let is_mixed = prefix.contains('\t') != indent.contains('\t');
                (indent.is_empty() || !is_mixed).then(|| (*prefix).to_owned() + indent)
            }
            Self::Removed(prefix) => indent.strip_prefix(prefix).map(str::to_owned),
            Self::Units(old, there) => {
                let depth = indent.len() / old.len();
                (old.repeat(depth) == indent).then(|| there.repeat(depth))
            }
        }
    }
}
