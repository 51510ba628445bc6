//! What a command line itself says about the words that only the shell knows: values of variables, lists of loops, names
//! of new temporary files, and listings of the folder.
//!
//! Pure. A text counts only where it is certain. Marks stand for everything else. What the shell inherits is unknown,
//! except a few variables.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use crate::approval::programs::base_name;
use crate::approval::shell::{self, ParsedCommand, ShellWord, SimpleCommand, WordTemplate, is_assignment};
use crate::base::word_list::WordList;

/// Stands for any text.
pub(super) const ANY: char = '\u{2}';
/// Stands for any text that names something in the current folder or below it.
pub(super) const INNER: char = '\u{3}';
/// Stands for a file or folder that the line itself makes in a folder for temporary files.
const NEW_TEMPORARY: &str = "/tmp/.made-by-mktemp";

/// In how many ways the words of a command are read, and how many words an expansion may have.
pub(super) const MAX_TEXTS: usize = 64;
/// How many variables may be behind one another.
const MAX_DEPTH: usize = 6;
/// How much is looked at for one command line, in words.
const MAX_WORK: usize = 100_000;
/// How many expansions of a word are looked at.
const MAX_EXPANSIONS: usize = 32;
/// The longest value, and the longest script whose output is looked at, in bytes.
const MAX_SCRIPT: usize = 4 << 10;

/// Programs that print one word: a name without a slash if their arguments have none.
const SHORT_WORDS: WordList = WordList("date whoami id hostname uname nproc uuidgen arch");
/// Programs that print the name of one file.
const FILE_NAMES: WordList = WordList("basename dirname readlink realpath git cd pwd which");
/// Options of `find` that do not change what it prints: the names of files.
const FIND_TESTS: WordList = WordList(
    "-name -iname -path -ipath -type -maxdepth -mindepth -newer -mtime -mmin -ctime -cmin -atime -amin -size -empty -print \
    -print0 -not -o -or -a -and -prune",
);
/// Builtins after which any variable may have another value.
const CHANGING_BUILTINS: WordList = WordList("eval source . let (( declare typeset local");
/// Builtins that change the variables that they name.
const READING_BUILTINS: WordList = WordList("read mapfile readarray getopts wait unset");
/// Characters of a value that make it more than one certain word.
const SPECIAL: &[char] = &['*', '?', '[', '{', '~', ' ', '\t', '\n'];

/// What a line assigns.
#[derive(Debug)]
pub(super) struct LineVariables {
    values: BTreeMap<String, Vec<ShellWord>>,
    loops: BTreeMap<String, Vec<ShellWord>>,
    /// Variables that get further values.
    unknown: BTreeSet<String>,
    /// Whether all may get further values.
    is_uncertain: bool,
    /// How much may still be looked at.
    work_left: Cell<usize>,
}

/// Which of its values each variable has.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// The name, the number of its value, and how many there are.
    picks: Vec<(String, usize, usize)>,
    /// Whether loops have unknown values instead.
    is_unknown: bool,
}

impl Choice {
    pub(super) fn has_too_many(&self) -> bool {
        let counts = self.picks.iter().map(|(_, _, count)| *count);
        counts.fold(1, usize::saturating_mul) > MAX_TEXTS
    }

    pub(super) fn forget(&mut self) {
        self.picks.clear();
        self.is_unknown = true;
    }

    /// Goes on to the next values. Returns whether there are any.
    pub(super) fn advance(&mut self) -> bool {
        while let Some((_, at, count)) = self.picks.last_mut() {
            *at += 1;
            if at < count {
                return true;
            }
            self.picks.pop();
        }
        false
    }

    fn pick<T>(&mut self, name: &str, mut values: Vec<T>) -> Option<T> {
        if values.len() < 2 {
            return values.pop();
        }
        if self.is_unknown {
            return None;
        }
        let known = self.picks.iter().find(|(known, _, _)| known == name);
        let at = known.map_or(0, |(_, at, _)| *at);
        if known.is_none() {
            self.picks.push((name.to_owned(), 0, values.len()));
        }
        (at < values.len()).then(|| values.swap_remove(at))
    }
}

impl LineVariables {
    pub(super) fn new() -> Self {
        Self {
            values: BTreeMap::new(),
            loops: BTreeMap::new(),
            unknown: BTreeSet::new(),
            is_uncertain: false,
            work_left: Cell::new(MAX_WORK),
        }
    }

    /// Counts work, and returns whether there may be more of it.
    pub(super) fn count_work(&self, words: usize) -> bool {
        self.work_left.set(self.work_left.get().saturating_sub(words));
        self.work_left.get() > 0
    }

    /// Adds what a line assigns.
    pub(super) fn add_line(&mut self, line: &ParsedCommand) {
        self.is_uncertain |= line.stopped_early;
        for (name, values) in &line.loops {
            let list = self.loops.entry(name.clone()).or_default();
            list.extend(values.iter().cloned());
            values.iter().for_each(|value| self.find_hidden_assignment(value));
        }
        for part in &line.commands {
            self.add_part(part);
        }
    }

    /// `${x:=y}`
    fn find_hidden_assignment(&mut self, word: &ShellWord) {
        self.is_uncertain |= matches!(word, ShellWord::Dynamic { template, .. }
            if template.expansions.iter().any(|(_, source)| source.starts_with("${") && source.contains('=')));
    }

    fn add_part(&mut self, part: &SimpleCommand) {
        let targets = part.redirects.iter().map(|redirect| &redirect.target);
        for word in part.assignments.iter().chain(&part.words).chain(targets) {
            self.find_hidden_assignment(word);
        }
        let mut words = part.words.iter().skip_while(|word| {
            let name = word.as_literal().unwrap_or_default();
            WordList("command builtin exec time -p --").contains(name)
        });
        let name = words.next().and_then(ShellWord::as_literal).unwrap_or_default();
        let sets = matches!(name, "export" | "readonly");
        // Other commands get their assignments for themselves.
        for word in &part.assignments {
            self.add_assignment(word, part.words.is_empty());
        }
        for word in &part.words {
            self.add_assignment(word, sets);
        }
        self.is_uncertain |= CHANGING_BUILTINS.contains(name);
        let reads = READING_BUILTINS.contains(name)
            || name == "printf" && part.words.iter().any(|word| word.as_literal() == Some("-v"));
        for word in words {
            match word {
                ShellWord::Literal { text, .. } if reads => _ = self.unknown.insert(text.clone()),
                ShellWord::Dynamic { template, .. } if reads || sets => {
                    self.is_uncertain |= reads || !is_assignment(&template.text);
                }
                _ => {}
            }
        }
    }

    fn add_assignment(&mut self, word: &ShellWord, is_lasting: bool) {
        let text = match word {
            ShellWord::Literal { text, .. } => text,
            ShellWord::Dynamic { template, .. } => &template.text,
        };
        let Some((name, value)) = text.split_once('=').filter(|_| is_assignment(text)) else {
            return;
        };
        // The parser lists `NAME=` for some loops.
        let is_loop = value.is_empty() && word.as_literal().is_some() && self.loops.contains_key(name);
        if is_loop {
            return;
        }
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
        self.is_uncertain |= name == "IFS" && is_lasting;
        let plain = name.split(['+', '[']).next().unwrap_or_default();
        if !is_lasting || plain != name {
            self.unknown.insert(plain.to_owned());
        }
        self.values.entry(plain.to_owned()).or_default().push(value);
    }

    /// Returns the value that the line gives a variable, or a mark if that is uncertain.
    pub(super) fn find_value(&self, name: &str) -> Option<String> {
        match self.values.get(name)?.as_slice() {
            [value] => self.expand_all(value, 0).pop(),
            _ => Some(ANY.to_string()),
        }
    }

    /// Returns the words that bash makes of a word.
    pub(super) fn expand(&self, word: &ShellWord, choice: &mut Choice) -> Vec<String> {
        self.expand_at(word, choice, 0).unwrap_or_else(unknown)
    }

    /// Returns each text that a word may become.
    fn expand_all(&self, word: &ShellWord, depth: usize) -> Vec<String> {
        let mut choice = Choice::default();
        let mut texts = Vec::new();
        loop {
            texts.extend(self.expand_at(word, &mut choice, depth).unwrap_or_else(unknown));
            if choice.has_too_many() || texts.len() > MAX_TEXTS {
                return unknown();
            }
            if !choice.advance() {
                return texts;
            }
        }
    }

    /// Returns the words that bash makes of a word, or `None` if there may be several of any kind.
    fn expand_at(&self, word: &ShellWord, choice: &mut Choice, depth: usize) -> Option<Vec<String>> {
        let template = match word {
            ShellWord::Literal { text, .. } => return Some(vec![text.clone()]),
            ShellWord::Dynamic { template, .. } => template,
        };
        let sources = template.expansions.iter().map(|(_, source)| source.len());
        let is_long = template.expansions.len() > MAX_EXPANSIONS || sources.max() > Some(MAX_SCRIPT);
        if is_long || depth > MAX_DEPTH || !self.count_work(1 + template.text.len() / 32) {
            return None;
        }
        match (template.text.as_str(), template.expansions.as_slice()) {
            ("", [(_, source)]) => return self.expand_source(source, choice, depth),
            (text, []) if text.starts_with("~+") || text.starts_with("~-") => return None,
            _ => {}
        }
        let mut text = String::new();
        let mut from = 0;
        for (at, source) in &template.expansions {
            text += template.text.get(from..*at)?;
            from = *at;
            let words = self.expand_source(source, choice, depth)?;
            let [value] = words.as_slice() else { return None };
            // These stand for folders with longer names.
            let is_folder = ["~", ".", "/tmp"]
                .iter()
                .any(|folder| value == folder || value.starts_with(&format!("{folder}/")));
            let next = template.text.get(from..)?;
            let is_ended = next.is_empty() && template.expansions.last() == Some(&(*at, source.clone()));
            if is_folder && !text.is_empty()
                || matches!(value.as_str(), "~" | "." | "/tmp") && !is_ended && !next.starts_with('/')
                || value.contains('{')
            {
                return None;
            }
            text += value;
        }
        text += template.text.get(from..)?;
        let is_misplaced = text.starts_with(NEW_TEMPORARY) && text.contains("/..");
        (!is_misplaced && text.len() <= 2 * MAX_SCRIPT).then(|| expand_braces(&text))
    }

    /// Returns the words of an expansion, as it is written.
    fn expand_source(&self, source: &str, choice: &mut Choice, depth: usize) -> Option<Vec<String>> {
        if source.starts_with("$((") {
            return Some(vec![INNER.to_string()]);
        }
        let output = (source.strip_prefix("$(").and_then(|rest| rest.strip_suffix(')')))
            .or_else(|| source.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')));
        if let Some(script) = output {
            return self.expand_output(script, choice, depth + 1);
        }
        let parameter = source.strip_prefix('$')?;
        let braced = parameter.strip_prefix('{');
        let parameter = braced.map_or(Some(parameter), |rest| rest.strip_suffix('}'))?;
        let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if let Some(length_of) = parameter.strip_prefix('#') {
            return (length_of.chars().all(is_in_name)).then(|| vec![INNER.to_string()]);
        }
        let length = parameter.find(|c| !is_in_name(c)).unwrap_or(parameter.len());
        let (name, operator) = parameter.split_at_checked(length.max(1))?;
        let words = self.find_values(name, choice, depth + 1)?;
        if matches!(operator, "" | "[@]" | "[*]") {
            return Some(words);
        }
        let [value] = words.as_slice() else { return None };
        apply_operator(name, value, operator, choice).map(|value| vec![value])
    }

    fn find_values(&self, name: &str, choice: &mut Choice, depth: usize) -> Option<Vec<String>> {
        let values = self.values.get(name).map_or(&[][..], Vec::as_slice);
        let is_unknown = self.is_uncertain || self.unknown.contains(name) || depth > MAX_DEPTH;
        match (values, self.loops.get(name)) {
            ([value], None) if !is_unknown => self.expand_value(name, value, choice, depth),
            ([], Some(list)) if !is_unknown => {
                let texts = list.iter().flat_map(|value| self.expand_all(value, depth));
                let texts: Vec<String> = texts.take(MAX_TEXTS + 1).collect();
                if choice.is_unknown || texts.len() > MAX_TEXTS || texts.iter().any(|text| text.contains(ANY))
                {
                    return None;
                }
                let forms = texts.into_iter().flat_map(|text| find_forms(vec![text]));
                choice.pick(name, forms.collect())
            }
            ([], None) => find_inherited(name, self.is_uncertain),
            _ => self.pick_any(name, choice),
        }
    }

    /// Returns the words of a variable with an uncertain value. It may contain options.
    fn pick_any(&self, name: &str, choice: &mut Choice) -> Option<Vec<String>> {
        let may_split = |value: &ShellWord| match value {
            ShellWord::Literal { text, .. } => text.contains(char::is_whitespace),
            ShellWord::Dynamic { template, .. } => {
                template.text.contains(char::is_whitespace)
                    || (template.expansions.iter()).any(|(_, source)| source.starts_with('('))
            }
        };
        if self
            .values
            .get(name)
            .is_some_and(|values| values.iter().any(may_split))
        {
            let words = Some(vec!["-r".to_owned(), ANY.to_string()]);
            if choice.is_unknown {
                return words;
            }
            return choice.pick(name, vec![None, words])?;
        }
        None
    }

    fn expand_value(
        &self,
        name: &str,
        value: &ShellWord,
        choice: &mut Choice,
        depth: usize,
    ) -> Option<Vec<String>> {
        let words = match value {
            ShellWord::Literal { text, .. } if text.len() > MAX_SCRIPT => None,
            ShellWord::Literal { text, .. }
                if !self.count_work(1 + text.len() / 32) || text.contains(&SPECIAL[..5]) =>
            {
                None
            }
            ShellWord::Literal { text, .. } => Some(vec![text.clone()]),
            ShellWord::Dynamic { template, .. } => {
                match (template.text.as_str(), template.expansions.as_slice()) {
                    ("", [(_, list)]) if list.starts_with('(') => self.expand_array(list, choice, depth),
                    (text, _) if text.contains(SPECIAL) => None,
                    _ => return self.expand_at(value, choice, depth),
                }
            }
        };
        match words.map(find_forms) {
            Some(forms)
                if (forms.len() == 1 || !choice.is_unknown)
                    && forms.iter().all(|words| words.len() <= MAX_TEXTS) =>
            {
                choice.pick(name, forms)
            }
            _ => self.pick_any(name, choice),
        }
    }

    fn expand_array(&self, list: &str, choice: &mut Choice, depth: usize) -> Option<Vec<String>> {
        let list = list.strip_prefix('(')?.strip_suffix(')')?;
        if !self.count_work(1 + list.len() / 2) {
            return None;
        }
        let line = shell::parse(&format!(": {list}"));
        let (None, [part]) = (line.unparsed_reason, line.commands.as_slice()) else {
            return None;
        };
        let mut words = Vec::new();
        for word in part.words.get(1..)? {
            match word {
                // An element with a subscript.
                ShellWord::Literal { text, .. } if text.starts_with('[') => return None,
                ShellWord::Dynamic { template, .. } if template.text.starts_with('[') => return None,
                word => words.extend(self.expand_at(word, choice, depth + 1).unwrap_or_else(unknown)),
            }
        }
        Some(words)
    }

    /// Returns what a script prints, if its text shows that. Several names are two words.
    fn expand_output(&self, script: &str, choice: &mut Choice, depth: usize) -> Option<Vec<String>> {
        if !self.count_work(1 + script.len()) {
            return None;
        }
        let line = shell::parse(script);
        if line.unparsed_reason.is_some() || line.defines_function {
            return None;
        }
        let mut parts = Vec::new();
        for part in &line.commands {
            let name = base_name(part.words.first()?.as_literal()?);
            let mut texts = Vec::new();
            for word in &part.words[1..] {
                texts.extend(self.expand_at(word, choice, depth).unwrap_or_else(unknown));
            }
            parts.push((name, texts));
        }
        let has_no_place = |text: &String| !text.contains(['/', '~', ANY]);
        match parts.as_slice() {
            [("mktemp", _)] => return Some(vec![NEW_TEMPORARY.to_owned()]),
            [("pwd", _)] => return Some(vec![".".to_owned()]),
            [("ls", texts)] if !texts.is_empty() && texts.iter().all(|text| is_pattern_of_files(text)) => {
                return Some([texts.as_slice(), texts].concat());
            }
            [(name, texts)] if SHORT_WORDS.contains(name) && texts.iter().all(has_no_place) => {
                return Some(vec![INNER.to_string()]);
            }
            [("printf", texts)]
                if texts
                    .iter()
                    .all(|text| has_no_place(text) && is_printed_as_it_is(text)) =>
            {
                return Some(vec![INNER.to_string()]);
            }
            _ => {}
        }
        let is_pipeline =
            !script.contains([';', '&', '\n', '`', '(', '{', '<', '>']) && !script.contains("||");
        let (name, texts) = parts.first()?;
        let filters = parts.get(1..)?.iter();
        if is_pipeline
            && prints_names(name, texts)
            && filters.into_iter().all(|(name, texts)| is_filter(name, texts))
        {
            let named = find_name_filter(&line.commands.first()?.words).filter(|_| *name == "find");
            let named = named.map(|named| format!("{INNER}/{}", named.replace('*', &INNER.to_string())));
            let text = named.unwrap_or_else(|| INNER.to_string());
            return Some(vec![text.clone(), text]);
        }
        parts
            .iter()
            .all(|(name, _)| FILE_NAMES.contains(name))
            .then(unknown)
    }
}

/// Returns whether a text names files in the folder, and most likely no folder: `*.log`.
fn is_pattern_of_files(text: &str) -> bool {
    let ending = text.rsplit_once("*.").map(|(_, ending)| ending);
    is_inner(text) && ending.is_some_and(|ending| !ending.contains('/'))
}

/// Returns whether a program with these arguments prints only names of files that are relative.
fn prints_names(name: &str, texts: &[String]) -> bool {
    let mut options = texts.iter().filter(|text| text.starts_with('-'));
    let has_letters = |text: &String, letters: &str| text[1..].chars().all(|letter| letters.contains(letter));
    let prints = match name {
        "ls" => options.all(|text| has_letters(text, "1trSdA")),
        "find" => options.all(|text| FIND_TESTS.contains(text)),
        "grep" => {
            texts.first().is_some_and(|text| text.contains('l'))
                && options.all(|text| has_letters(text, "rRlLiEFwIs"))
        }
        "rg" => {
            texts
                .first()
                .is_some_and(|text| text == "--files" || text == "-l")
                && options.all(|text| text == "--files" || has_letters(text, "liwFs"))
        }
        "git" => match texts.first().map(String::as_str) {
            Some("ls-files") => !options.any(|text| text.starts_with("--f")),
            Some("diff") => {
                let known = WordList("--name-only --cached --staged --relative");
                texts.iter().any(|text| text == "--name-only") && options.all(|text| known.contains(text))
            }
            _ => false,
        },
        _ => false,
    };
    prints && texts.iter().all(|text| is_inner(text))
}

/// Returns whether a program with these arguments passes on lines of its input.
fn is_filter(name: &str, texts: &[String]) -> bool {
    let mut operands = texts.iter().filter(|text| !text.starts_with('-'));
    match name {
        "head" | "tail" => operands.all(|text| text.parse::<i32>().is_ok()),
        "sort" | "uniq" | "tac" => {
            operands.next().is_none() && !texts.iter().any(|text| text.starts_with("-o"))
        }
        "grep" => {
            let options = texts.iter().filter(|text| text.starts_with('-'));
            operands.count() == 1
                && options
                    .into_iter()
                    .all(|text| matches!(text.as_str(), "-v" | "-E" | "-i" | "-vE"))
        }
        _ => false,
    }
}

/// Returns the value of a variable that the line does not set.
fn find_inherited(name: &str, is_uncertain: bool) -> Option<Vec<String>> {
    let value = match name {
        "@" | "*" => return None,
        "#" | "?" | "$" | "!" | "RANDOM" | "SECONDS" | "UID" | "EUID" | "PPID" | "BASHPID" => {
            INNER.to_string()
        }
        // Words are relative to every folder of the line.
        "PWD" if !is_uncertain => ".".to_owned(),
        "HOME" if !is_uncertain => "~".to_owned(),
        "TMPDIR" if !is_uncertain => "/tmp".to_owned(),
        _ => ANY.to_string(),
    };
    Some(vec![value])
}

fn apply_operator(name: &str, value: &str, operator: &str, choice: &mut Choice) -> Option<String> {
    if let Some(default) = operator.strip_prefix(":-").or_else(|| operator.strip_prefix('-')) {
        let is_plain = !default.contains(SPECIAL) && !default.contains(['$', '\'', '"', '\\']);
        if value.contains(ANY) || !is_plain {
            return value.contains(ANY).then(|| ANY.to_string());
        }
        let mut values = vec![value.to_owned(), default.to_owned()];
        values.dedup();
        return choice.pick(&format!("{name}-"), values);
    }
    // What stands for a longer name cannot be shortened.
    if value.contains([ANY, INNER]) || matches!(value, "" | "." | "~" | "/tmp" | NEW_TEMPORARY) {
        return None;
    }
    if operator == "##*/" {
        return (!value.ends_with(['/', '*'])).then(|| base_name(value).to_owned());
    }
    let ending = operator.strip_prefix('%')?;
    let is_plain = !ending.contains(SPECIAL) && !ending.contains(['%', '$', '\'', '"', '\\']);
    match value.strip_suffix(ending).filter(|_| is_plain) {
        Some(rest) => Some(rest.to_owned()),
        None => (is_plain && !value.contains(['*', '?', '['])).then(|| value.to_owned()),
    }
}

/// Returns words as they are and, if that makes a difference, as bash splits them without quotes.
fn find_forms(words: Vec<String>) -> Vec<Vec<String>> {
    if !words.iter().any(|word| word.contains(char::is_whitespace)) {
        return vec![words];
    }
    let split = words.iter().flat_map(|word| word.split_whitespace());
    let split = split.map(str::to_owned).collect();
    vec![words, split]
}

/// Returns whether a text names nothing outside the current folder.
fn is_inner(text: &str) -> bool {
    !text.starts_with(['/', '~']) && !text.contains(ANY) && !text.split('/').any(|part| part == "..")
}

fn unknown() -> Vec<String> {
    vec![ANY.to_string()]
}

/// Returns what bash makes of `{a,b}` and `{1..3}`. What else may be in braces is unknown.
fn expand_braces(text: &str) -> Vec<String> {
    let (Some((before, _)), Some((_, after))) = (text.split_once('{'), text.rsplit_once('}')) else {
        return vec![text.to_owned()];
    };
    let Some(inner) = text.get(before.len() + 1..text.len() - after.len() - 1) else {
        return vec![text.to_owned()];
    };
    let join = |part: &str| format!("{before}{part}{after}");
    let parts: Vec<&str> = inner.split(',').collect();
    if !inner.contains(['{', '}']) && parts.len() > 1 && parts.len() <= MAX_TEXTS {
        return parts.into_iter().map(join).collect();
    }
    let numbers = inner.split_once("..").and_then(|(first, last)| {
        let parse = |number: &str| {
            number
                .parse::<u16>()
                .ok()
                .filter(|parsed| parsed.to_string() == number)
        };
        Some((parse(first)?, parse(last)?))
    });
    match numbers {
        Some((first, last)) if usize::from(first.abs_diff(last)) < MAX_TEXTS => {
            let numbers = first.min(last)..=first.max(last);
            numbers.map(|number| join(&number.to_string())).collect()
        }
        _ => vec![join(&ANY.to_string())],
    }
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

/// Returns whether `printf` prints a text unchanged, apart from tabs and line ends, and the text contains no `..`.
fn is_printed_as_it_is(text: &str) -> bool {
    let codes = ['\\', '%'];
    !text.contains("..") && !text.replace("\\n", "").replace("\\t", "").contains(codes)
}
