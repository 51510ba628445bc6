//! What a command line itself says about the words that only the shell knows: values of variables, lists of loops, names
//! of new temporary files, and listings of the folder.
//!
//! Pure. It returns each text that a word may have, with marks for what remains unknown. The order of assignments does
//! not count: every value that the line assigns is possible. What the shell inherits is unknown, except a few variables.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use crate::approval::programs::{STATE_BUILTINS, base_name};
use crate::approval::shell::{self, ParsedCommand, ShellWord, SimpleCommand, WordTemplate, is_assignment};
use crate::base::word_list::WordList;

/// Stands for any text.
pub(super) const ANY: char = '\u{2}';
/// Stands for any text that names something in the current folder or below it.
pub(super) const INNER: char = '\u{3}';
/// Stands for a file or folder that the line itself makes in a folder for temporary files.
const NEW_TEMPORARY: &str = "/tmp/.made-by-mktemp";

/// The most texts that a word may have.
const MAX_TEXTS: usize = 64;
/// How many variables may be behind one another.
const MAX_DEPTH: usize = 6;
/// How many words are looked at for one command line.
const MAX_WORDS: usize = 20_000;
/// How many expansions of a word are looked at.
const MAX_EXPANSIONS: usize = 32;
/// The longest script whose output is looked at, and the longest array, in bytes.
const MAX_SCRIPT: usize = 4 << 10;

/// Programs that print names of files, relative if those that they get are.
const LISTING_PROGRAMS: WordList = WordList("ls find gfind fd fdfind git rg grep tree");
/// Programs that pass on lines of their input.
const FILTERS: WordList = WordList("head tail sort uniq grep egrep rg tac cat tr xargs");
/// Programs that print a word without a slash.
const SHORT_WORDS: WordList = WordList("basename date whoami id hostname uname nproc seq wc uuidgen arch");
/// Builtins that set the variables that they name to what they read.
const READING_BUILTINS: WordList = WordList("read mapfile readarray getopts select wait");

/// What a line assigns.
#[derive(Debug)]
pub(super) struct LineVariables {
    values: BTreeMap<String, Vec<ShellWord>>,
    /// Variables that get further values.
    unknown: BTreeSet<String>,
    /// Whether all may get further values.
    has_eval: bool,
    /// How many words may still be looked at.
    words_left: Cell<usize>,
}

impl LineVariables {
    pub(super) fn new() -> Self {
        Self {
            values: BTreeMap::new(),
            unknown: BTreeSet::new(),
            has_eval: false,
            words_left: Cell::new(MAX_WORDS),
        }
    }

    /// Adds what a line assigns.
    pub(super) fn add_line(&mut self, line: &ParsedCommand) {
        for (name, values) in &line.loops {
            self.values
                .entry(name.clone())
                .or_default()
                .extend(values.iter().cloned());
        }
        for part in &line.commands {
            self.add_part(part);
        }
    }

    fn add_part(&mut self, part: &SimpleCommand) {
        // `export`, `env`, and others take assignments as arguments.
        for word in part.assignments.iter().chain(&part.words) {
            self.add_assignment(word);
        }
        let is_builtin = |word: &str| STATE_BUILTINS.contains(word) || word == "printf";
        let words = part.words.iter().filter_map(ShellWord::as_literal);
        let mut words = words.skip_while(|word| !is_builtin(word));
        let Some(name) = words.next() else { return };
        self.has_eval |= name == "eval";
        let rest: Vec<&str> = words.collect();
        if READING_BUILTINS.contains(name) || name == "printf" && rest.contains(&"-v") {
            self.unknown.extend(rest.into_iter().map(str::to_owned));
        }
    }

    fn add_assignment(&mut self, word: &ShellWord) {
        let text = match word {
            ShellWord::Literal { text, .. } => text,
            ShellWord::Dynamic { template, .. } => &template.text,
        };
        let Some((name, value)) = text.split_once('=').filter(|_| is_assignment(text)) else {
            return;
        };
        let start = text.len() - value.len();
        let value = match word {
            ShellWord::Literal { .. } => ShellWord::from_plain_text(value),
            ShellWord::Dynamic { template, .. } => ShellWord::Dynamic {
                reason: "a variable",
                known: String::new(),
                template: WordTemplate {
                    text: value.to_owned(),
                    expansions: (template.expansions.iter())
                        .map(|(at, source)| (at.saturating_sub(start), source.clone()))
                        .collect(),
                },
            },
        };
        let is_array = |value: &ShellWord| {
            matches!(value, ShellWord::Dynamic { template, .. }
                if template.expansions.iter().any(|(_, source)| source.starts_with('(')))
        };
        let name = match name.strip_suffix('+') {
            Some(name) if is_array(&value) => name,
            Some(name) => {
                self.unknown.insert(name.to_owned());
                name
            }
            None => name,
        };
        self.values.entry(name.to_owned()).or_default().push(value);
    }

    /// Returns the values that the line gives a variable.
    pub(super) fn list_values(&self, name: &str) -> Vec<String> {
        if self.values.contains_key(name) {
            self.find_values(name, 0)
        } else {
            Vec::new()
        }
    }

    /// Returns the texts that a word may have. A text may be several words.
    pub(super) fn expand(&self, word: &ShellWord) -> Vec<String> {
        limit_texts(self.expand_at(word, 0))
    }

    fn expand_at(&self, word: &ShellWord, depth: usize) -> Vec<String> {
        let template = match word {
            ShellWord::Literal { text, .. } => return vec![text.clone()],
            ShellWord::Dynamic { template, .. } => template,
        };
        let Some(left) = self.words_left.get().checked_sub(1) else {
            return unknown();
        };
        self.words_left.set(left);
        if template.expansions.len() > MAX_EXPANSIONS
            || template
                .expansions
                .iter()
                .any(|(_, source)| source.len() > MAX_SCRIPT)
        {
            return unknown();
        }
        if let ("", [(0, source)]) = (template.text.as_str(), template.expansions.as_slice())
            && let Some(list) = source.strip_prefix('(').and_then(|list| list.strip_suffix(')'))
        {
            // The elements of an array.
            let words = shell::parse(&format!(": {list}")).commands.into_iter();
            let words = words.flat_map(|part| part.words.into_iter().skip(1));
            return limit_texts(words.flat_map(|word| self.expand_at(&word, depth)).collect());
        }
        let mut texts = vec![String::new()];
        let mut from = 0;
        for (at, source) in &template.expansions {
            let before = template.text.get(from..*at).unwrap_or_default();
            from = *at;
            let values = self.expand_source(source, depth);
            let joined = texts.iter().take(MAX_TEXTS).flat_map(|start| {
                let values = values.iter();
                values.map(move |value| format!("{start}{before}{value}"))
            });
            texts = limit_texts(joined.collect());
        }
        let end = template.text.get(from..).unwrap_or_default();
        let texts = texts.into_iter().map(|text| text + end);
        limit_texts(texts.flat_map(|text| expand_braces(&text, 0)).collect())
    }

    /// Returns the values of an expansion, as it is written.
    fn expand_source(&self, source: &str, depth: usize) -> Vec<String> {
        if depth == MAX_DEPTH {
            return unknown();
        }
        if source.starts_with("$((") {
            return vec![INNER.to_string()];
        }
        let output = (source.strip_prefix("$(").and_then(|rest| rest.strip_suffix(')')))
            .or_else(|| source.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')));
        if let Some(script) = output {
            return self.expand_output(script, depth + 1);
        }
        let Some(parameter) = source.strip_prefix('$') else {
            return unknown();
        };
        let parameter = (parameter
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}')))
        .unwrap_or(parameter);
        if parameter.len() > 1 && parameter.starts_with('#') {
            return vec![INNER.to_string()];
        }
        let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = parameter
            .find(|c| !is_in_name(c))
            .unwrap_or(parameter.len())
            .max(1);
        let Some((name, operator)) = parameter.split_at_checked(length) else {
            return unknown();
        };
        let operator = match operator.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((_, operator)) => operator,
            None => operator,
        };
        self.apply_operator(self.find_values(name, depth + 1), operator)
    }

    fn apply_operator(&self, values: Vec<String>, operator: &str) -> Vec<String> {
        let plain = operator.strip_prefix(':').unwrap_or(operator);
        let default = |word: &str| {
            if word.contains('$') {
                ANY.to_string()
            } else {
                word.to_owned()
            }
        };
        if plain.is_empty() || plain.starts_with('?') {
            return values;
        }
        if let Some(word) = plain.strip_prefix(['-', '=']) {
            return values.into_iter().chain([default(word)]).collect();
        }
        if let Some(word) = plain.strip_prefix('+') {
            return vec![default(word), String::new()];
        }
        if plain == "##*/" {
            let name = |value: &String| base_name(value.trim_end_matches('/')).to_owned();
            return values.iter().map(name).collect();
        }
        let ending = plain
            .strip_prefix('%')
            .filter(|ending| !ending.contains(['*', '?', '[', '$', '%']));
        if let Some(ending) = ending {
            let shorten = |value: &String| value.strip_suffix(ending).unwrap_or(value).to_owned();
            return values.iter().map(shorten).collect();
        }
        if values.iter().all(|value| is_inner(value)) {
            vec![INNER.to_string()]
        } else {
            unknown()
        }
    }

    fn find_values(&self, name: &str, depth: usize) -> Vec<String> {
        if self.has_eval || self.unknown.contains(name) || depth > MAX_DEPTH {
            return unknown();
        }
        match (self.values.get(name), name) {
            (Some(values), _) => {
                let values = values.iter().take(MAX_TEXTS);
                limit_texts(values.flat_map(|value| self.expand_at(value, depth)).collect())
            }
            // Words are relative to every folder of the line.
            (None, "PWD" | "OLDPWD") => vec![".".to_owned()],
            (None, "HOME") => vec!["~".to_owned()],
            (None, "TMPDIR" | "TMP" | "TEMP") => vec!["/tmp".to_owned()],
            (
                None,
                "#" | "?" | "$" | "!" | "-" | "RANDOM" | "SECONDS" | "UID" | "EUID" | "PPID" | "BASHPID",
            ) => {
                vec![INNER.to_string()]
            }
            (None, _) => unknown(),
        }
    }

    /// Returns what a script prints, if its text shows that.
    fn expand_output(&self, script: &str, depth: usize) -> Vec<String> {
        let line = shell::parse(script);
        let mut names = Vec::new();
        let mut is_relative = line.unparsed_reason.is_none();
        for part in &line.commands {
            let Some(name) = part.words.first().and_then(ShellWord::as_literal) else {
                return unknown();
            };
            names.push(base_name(name));
            let texts = part.words[1..]
                .iter()
                .flat_map(|word| self.expand_at(word, depth));
            is_relative &= texts.into_iter().all(|text| is_inner(&text));
        }
        let words = match line.commands.as_slice() {
            [part] => &part.words[1..],
            _ => &[],
        };
        match names.as_slice() {
            ["mktemp", ..] => return vec![NEW_TEMPORARY.to_owned()],
            ["pwd"] => return vec![".".to_owned()],
            ["echo"] => {
                return limit_texts(
                    words
                        .iter()
                        .flat_map(|word| self.expand_at(word, depth))
                        .collect(),
                );
            }
            ["ls"] if !words.is_empty() && words.iter().all(is_pattern_of_files) => {
                let patterns = words.iter().filter_map(ShellWord::as_literal);
                return patterns.map(str::to_owned).collect();
            }
            ["find"] if is_relative && let Some(named) = find_name_filter(words) => {
                return vec![named.replace('*', &INNER.to_string())];
            }
            _ => {}
        }
        let is_short = names.last().is_some_and(|name| SHORT_WORDS.contains(name));
        let lists = (names.first()).is_some_and(|name| LISTING_PROGRAMS.contains(name))
            && names[1..].iter().all(|name| FILTERS.contains(name));
        if is_short || lists && is_relative {
            vec![INNER.to_string()]
        } else {
            unknown()
        }
    }
}

/// Returns whether a word of `ls` names files and most likely no folder: `*.log`.
fn is_pattern_of_files(word: &ShellWord) -> bool {
    let text = word.as_literal().unwrap_or_default();
    text.rsplit_once("*.")
        .is_some_and(|(_, ending)| !ending.contains('/'))
}

/// Returns whether a text names nothing outside the current folder.
fn is_inner(text: &str) -> bool {
    !text.starts_with(['/', '~']) && !text.contains(ANY) && !text.split('/').any(|part| part == "..")
}

fn unknown() -> Vec<String> {
    vec![ANY.to_string()]
}

fn limit_texts(texts: Vec<String>) -> Vec<String> {
    let is_long = texts.iter().map(String::len).sum::<usize>() > 64 << 10;
    if is_long || texts.len() > MAX_TEXTS {
        return unknown();
    }
    texts
}

/// Returns what bash makes of `{a,b}`. What is quoted may be expanded, too.
fn expand_braces(text: &str, depth: usize) -> Vec<String> {
    let as_it_is = vec![text.to_owned()];
    let Some(start) = text.find('{').filter(|_| depth < MAX_DEPTH) else {
        return as_it_is;
    };
    let mut level = 0_usize;
    let mut cuts = vec![start];
    let mut end = None;
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at < start) {
        match c {
            '{' => level += 1,
            '}' if level == 1 => {
                end = Some(at);
                break;
            }
            '}' => level = level.saturating_sub(1),
            ',' if level == 1 => cuts.push(at),
            _ => {}
        }
    }
    let Some(end) = end else { return as_it_is };
    let (before, after) = (&text[..start], &text[end + 1..]);
    if cuts.len() == 1 {
        // A range is made of numbers or letters.
        let Some((first, last)) = text[start + 1..end].split_once("..") else {
            return as_it_is;
        };
        if let (Ok(first), Ok(last)) = (first.parse::<i16>(), last.parse::<i16>()) {
            let numbers = (first.min(last)..=first.max(last)).take(MAX_TEXTS + 1);
            let texts =
                numbers.flat_map(|number| expand_braces(&format!("{before}{number}{after}"), depth + 1));
            return limit_texts(texts.collect());
        }
        return expand_braces(&format!("{before}{INNER}{after}"), depth + 1);
    }
    cuts.push(end);
    let parts = cuts.windows(2).map(|cut| &text[cut[0] + 1..cut[1]]);
    let texts = parts.flat_map(|part| expand_braces(&format!("{before}{part}{after}"), depth + 1));
    limit_texts(texts.take(MAX_TEXTS + 1).collect())
}

/// Returns the pattern of names that limits what `find` acts on, if there is one and nothing widens it again.
pub(super) fn find_name_filter(words: &[ShellWord]) -> Option<&str> {
    let widens = |word: &ShellWord| {
        word.as_literal()
            .is_none_or(|word| matches!(word, "-o" | "-or" | "," | "!" | "-not"))
    };
    if words.iter().any(widens) {
        return None;
    }
    let at = words.iter().position(|word| word.as_literal() == Some("-name"))?;
    words.get(at + 1).and_then(ShellWord::as_literal)
}
