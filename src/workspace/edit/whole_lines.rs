//! Finds a text by whole lines that differ in white space and typography only, and fits the new text to the place.
//!
//! Pure. Refuses by `None` whatever is not certain: a wrong edit is worse than a repeated one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::{Bound, Range};
use std::rc::Rc;

use similar::DiffTag;

use super::indentation::Indentation;
use super::replacement::Replacement;
use crate::workspace::line_diff::compare_lines;

/// Fewest characters of the old text that must match. A place that has only a bracket in common is no place.
const FEWEST_CHARACTERS: usize = 8;

/// A place in a text and what to put there.
pub(super) struct FittedEdit {
    pub(super) range: Range<usize>,
    pub(super) new: String,
    /// The number of the place's first line.
    pub(super) line: usize,
}

/// Where an old text is, by whole lines.
pub(super) enum WholeLines {
    Nowhere,
    /// At one place, but it is not certain what the new lines are to look like there. Says why, after "and".
    Unclear(&'static str),
    Once(FittedEdit),
    Often {
        /// The numbers of the first lines.
        lines: Vec<usize>,
        /// How many lines each place has.
        count: usize,
    },
}

/// The lines of a text, folded once for many searches. Line ends are `\n`.
pub(super) struct FoldedText<'t> {
    lines: Vec<&'t str>,
    /// Where each line begins.
    starts: Vec<usize>,
    /// Each line as [`fold`] makes it.
    keys: Vec<Rc<str>>,
    by_key: BTreeMap<Rc<str>, Vec<usize>>,
}

impl<'t> FoldedText<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        // As everywhere, a line feed at the end begins another line, which is empty.
        let lines: Vec<&str> = text.split('\n').collect();
        let keys: Vec<Rc<str>> = lines.iter().map(|line| fold(line).into()).collect();
        let (mut starts, mut by_key, mut next) = (Vec::new(), BTreeMap::new(), 0);
        for (at, key) in keys.iter().enumerate() {
            starts.push(next);
            next += lines[at].len() + 1;
            by_key.entry(key.clone()).or_insert_with(Vec::new).push(at);
        }
        Self {
            lines,
            starts,
            keys,
            by_key,
        }
    }

    /// Returns the lines with this key, in order.
    pub(super) fn find_key(&self, key: &str) -> &[usize] {
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }

    /// Iterates over the keys that begin with `start`, each once, with the lines that have it.
    pub(super) fn iter_keys<'a>(&'a self, start: &'a str) -> impl Iterator<Item = (&'a str, &'a [usize])> {
        let from = (Bound::Included(start), Bound::Unbounded);
        let keys = self.by_key.range::<str, _>(from);
        keys.map(|(key, lines)| (&**key, lines.as_slice()))
            .take_while(move |(key, _)| key.starts_with(start))
    }

    /// Finds `old`, and fits `new` to the place.
    pub(super) fn find(&self, old: &str, new: &str) -> WholeLines {
        let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
        // Empty lines round both are no part of the change. Those round the old text alone may be missing in the file.
        let (old_start, old_end) = count_blank_ends(&old);
        let end = old_end.min(new.iter().rev().take_while(|line| is_blank(line)).count());
        let start = old_start.min(
            new[..new.len() - end]
                .iter()
                .take_while(|line| is_blank(line))
                .count(),
        );
        let new = &new[start..new.len() - end];
        let found = find_lines(self, &old[start..old.len() - end], new);
        if matches!(found, WholeLines::Nowhere) && (start, end) != (old_start, old_end) {
            return find_lines(self, &old[old_start..old.len() - old_end], new);
        }
        found
    }
}

/// Finds a run of lines among others, given where each line is.
pub(super) fn find_run<'l, T: PartialEq>(
    lines: &'l [T],
    run: &'l [T],
    find_line: impl Fn(&'l T) -> &'l [usize],
) -> Vec<usize> {
    let places = (0..run.len()).map(|at| (at, find_line(&run[at])));
    let Some((offset, rarest)) = places.min_by_key(|(_, places)| places.len()) else {
        return Vec::new();
    };
    let starts = rarest.iter().filter_map(|at| at.checked_sub(offset));
    starts
        .filter(|at| lines.get(*at..at + run.len()) == Some(run))
        .collect()
}

/// Finds `old` in some whole lines of `text`, and fits `new` to the place. The result is about the whole text.
pub(super) fn find_within(text: &str, scope: Range<usize>, old: &str, new: &str) -> WholeLines {
    let (start, above) = (scope.start, text[..scope.start].matches('\n').count());
    match FoldedText::new(&text[scope]).find(old, new) {
        WholeLines::Once(found) => WholeLines::Once(FittedEdit {
            range: start + found.range.start..start + found.range.end,
            new: found.new,
            line: above + found.line,
        }),
        WholeLines::Often { lines, count } => WholeLines::Often {
            lines: lines.into_iter().map(|line| above + line).collect(),
            count,
        },
        other @ (WholeLines::Nowhere | WholeLines::Unclear(_)) => other,
    }
}

/// Finds `old`, which is a part of a line, where letters differ in typography only; `None` unless that is one place.
pub(super) fn find_part(text: &str, old: &str, new: &str) -> Option<FittedEdit> {
    let plain = |text: &str| -> String { text.chars().map(to_plain_letter).collect() };
    let (wanted, folded) = (plain(old), plain(text));
    let has_blank_end = old.ends_with(char::is_whitespace) || new.ends_with(char::is_whitespace);
    if old.contains('\n') || has_blank_end || wanted.len() < FEWEST_CHARACTERS {
        return None;
    }
    let mut found = folded.match_indices(&wanted);
    let (at, _) = found.next()?;
    let next = at + folded[at..].chars().next().map_or(1, char::len_utf8);
    if folded[next..].contains(&wanted) {
        return None;
    }
    // The letters are as many, but not as long.
    let start = folded[..at].chars().count();
    let offset = |count: usize| text.char_indices().nth(count).map_or(text.len(), |(at, _)| at);
    let range = offset(start)..offset(start + wanted.chars().count());
    let there = &text[range.clone()];
    let letters = learn_letters(std::iter::once((old, there)));
    Some(FittedEdit {
        new: keep_ends(old, new, there, &letters),
        line: text[..range.start].matches('\n').count() + 1,
        range,
    })
}

/// Counts the empty lines at the start and at the end, without overlap.
fn count_blank_ends(lines: &[&str]) -> (usize, usize) {
    let start = lines.iter().take_while(|line| is_blank(line)).count();
    let rest = &lines[start..];
    (start, rest.iter().rev().take_while(|line| is_blank(line)).count())
}

fn find_lines(text: &FoldedText, old: &[&str], new: &[&str]) -> WholeLines {
    let wanted: Vec<Rc<str>> = old.iter().map(|line| fold(line).into()).collect();
    if wanted.iter().map(|line| line.chars().count()).sum::<usize>() < FEWEST_CHARACTERS {
        return WholeLines::Nowhere;
    }
    let places = find_run(&text.keys, &wanted, |key| text.find_key(key));
    match places[..] {
        [] => WholeLines::Nowhere,
        [at] => match fit(old, new, &text.lines[at..at + old.len()]) {
            Err(reason) => WholeLines::Unclear(reason),
            Ok(new) => WholeLines::Once(build_edit(text, at, old.len(), new)),
        },
        _ => WholeLines::Often {
            lines: places.iter().map(|at| at + 1).collect(),
            count: old.len(),
        },
    }
}

fn build_edit(text: &FoldedText, at: usize, count: usize, new: Vec<String>) -> FittedEdit {
    let (lines, start) = (&text.lines, text.starts[at]);
    let length: usize = lines[at..at + count].iter().map(|line| line.len() + 1).sum();
    let is_last = at + count == lines.len();
    // The line feed after it goes too if nothing is left, unless there is none.
    let end = start + length - usize::from(!new.is_empty() || is_last);
    FittedEdit {
        range: start..end,
        new: new.join("\n"),
        line: at + 1,
    }
}

const UNCLEAR_INDENTATION: &str = "how its indentation differs is not clear";
const UNCLEAR_TWINS: &str =
    "it has equal lines where those of the file differ, so which of them change is not clear";
const UNCLEAR_LINES: &str = "its lines differ from the file's in blanks or typography, and which of the new lines keep \
                             these is not clear";

/// Gives the new lines the look of the place: lines that stay are the file's, others get its indentation.
///
/// # Errors
/// Why it is not certain what they look like there.
fn fit(old: &[&str], new: &[&str], there: &[&str]) -> Result<Vec<String>, &'static str> {
    let pairs = old.iter().zip(there).filter(|(old, _)| !is_blank(old));
    let indentation = Indentation::learn(pairs.clone().map(|(old, there)| (indent(old), indent(there))));
    let letters = learn_letters(pairs.clone().map(|(old, there)| (*old, *there)));
    // If each old line has blanks at its end that the file lacks, those of the new lines mean nothing either.
    let has_blank_end = |line: &str| line.len() > line.trim_end().len();
    let drops_ends = pairs
        .clone()
        .all(|(old, there)| has_blank_end(old) && !has_blank_end(there));
    let twins = find_twins(old, there);
    let mut fitted = Vec::new();
    for change in compare_lines(old, new, None) {
        let (tag, from, to) = change.as_tag_tuple();
        if tag == DiffTag::Equal {
            fitted.extend(there[from].iter().map(|line| (*line).to_owned()));
            continue;
        }
        if old[from.clone()].iter().any(|line| twins.contains(line)) {
            return Err(UNCLEAR_TWINS);
        }
        let new = &new[to];
        let texts = fit_texts(&old[from.clone()], new, &there[from.clone()], &letters)?;
        for (line, text) in new.iter().zip(texts) {
            let is_traced = from.len() == new.len();
            let text = if drops_ends && !is_traced {
                text.trim_end()
            } else {
                &text
            };
            fitted.push(indentation.fit(line, text).ok_or(UNCLEAR_INDENTATION)?);
        }
    }
    Ok(fitted)
}

/// Returns the new lines without their indentation. What they keep of the old lines is as the file has it.
fn fit_texts(
    old: &[&str],
    new: &[&str],
    there: &[&str],
    letters: &HashMap<char, char>,
) -> Result<Vec<String>, &'static str> {
    const LEAST_SIMILARITY: f64 = 0.4;
    /// More are too much work.
    const MOST_PAIRS: usize = 1_000;
    const LONGEST_LINE: usize = 300;
    let keep = |at: usize, new: &str| keep_ends(old[at].trim_start(), new, there[at].trim_start(), letters);
    let new = new.iter().map(|line| line.trim_start());
    if old.len() == new.len() {
        return Ok(new.enumerate().map(|(at, line)| keep(at, line)).collect());
    }
    // A new line may come from any similar one that the letters do not explain.
    let differs = |at: &usize| exchange(old[*at].trim(), letters) != there[*at].trim();
    let differing: Vec<usize> = (0..old.len()).filter(differs).collect();
    if differing.len() * new.len() > MOST_PAIRS {
        return Err(UNCLEAR_LINES);
    }
    let mut taken = HashSet::new();
    let mut texts = Vec::new();
    for line in new {
        let is_similar = |at: &&usize| {
            let (old, line) = (old[**at].trim(), line.trim());
            old.len().max(line.len()) > LONGEST_LINE
                || strsim::normalized_levenshtein(old, line) >= LEAST_SIMILARITY
        };
        let plain = exchange(line, letters);
        let kept = differing
            .iter()
            .filter(is_similar)
            .map(|at| (*at, keep(*at, line)));
        let kept: Vec<(usize, String)> = kept.filter(|(_, text)| *text != plain).collect();
        texts.push(match kept.as_slice() {
            [] => plain,
            [(at, text)] if taken.insert(*at) => text.clone(),
            _ => return Err(UNCLEAR_LINES),
        });
    }
    Ok(texts)
}

/// Returns the old lines that are there more than once, for different lines of the file.
fn find_twins<'a>(old: &[&'a str], there: &[&str]) -> HashSet<&'a str> {
    let mut first = HashMap::new();
    let pairs = old.iter().zip(there);
    let twins = pairs.filter(|(old, there)| *first.entry(**old).or_insert(**there) != **there);
    twins.map(|(old, _)| *old).collect()
}

/// Takes from the file what an old and a new line have in common at their start and end.
fn keep_ends(old: &str, new: &str, there: &str, letters: &HashMap<char, char>) -> String {
    if old == there {
        return exchange(new, letters);
    }
    let (old, new, there) = (split_units(old), split_units(new), split_units(there));
    let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old[head..].iter().rev().zip(new[head..].iter().rev());
    let tail = rest.take_while(|(old, new)| old == new).count();
    // Old text and file have the same units, except white space at the end.
    let start = &there[..head.min(there.len())];
    let end = &there[there.len().saturating_sub(tail).max(start.len())..];
    let middle = exchange(&new[head..new.len() - tail].concat(), letters);
    // A quote of the file and one of the new text are no pair.
    let is_odd = |kept: &[&str]| {
        let quotes = kept
            .iter()
            .filter(|unit| ("\u{201c}".."\u{2020}").contains(*unit));
        quotes.count() % 2 == 1
    };
    if middle.contains('"') && (is_odd(start) || is_odd(end)) {
        return exchange(&new.concat(), letters);
    }
    start.concat() + &middle + &end.concat()
}

/// Splits a line into letters and runs of white space.
fn split_units(line: &str) -> Vec<&str> {
    let mut units = Vec::new();
    let mut rest = line.trim_end();
    while let Some(first) = rest.chars().next() {
        let length = if first.is_whitespace() {
            rest.len() - rest.trim_start().len()
        } else {
            first.len_utf8()
        };
        let (unit, others) = rest.split_at(length);
        units.push(unit);
        rest = others;
    }
    units
}

/// Returns the letters to replace by plain ones: those that the old text has where the file has a plain one, and others of
/// their kind, quotes or dashes. If the old text has the plain one too, others are meant. Those that the file has elsewhere
/// in the same lines stay.
fn learn_letters<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> HashMap<char, char> {
    let (mut letters, mut kept) = (HashMap::new(), HashSet::new());
    for (old, there) in pairs {
        let (old, there) = (fold_spaces(old), fold_spaces(there));
        for (old, there) in old.chars().zip(there.chars()) {
            if old == there {
                kept.insert(old);
            } else if there.is_ascii() {
                letters.insert(old, there);
            }
        }
    }
    let bent: HashSet<char> = letters.values().copied().collect();
    for letter in ('\u{2010}'..='\u{201f}').chain(['\u{2212}']) {
        let plain = to_plain_letter(letter);
        let other_quote = match plain {
            '\'' => '"',
            '"' => '\'',
            other => other,
        };
        if bent.contains(&plain) || bent.contains(&other_quote) && !kept.contains(&plain) {
            letters.insert(letter, plain);
        }
    }
    letters.retain(|letter, _| !kept.contains(letter));
    letters
}

/// Returns a line with single blanks between its words, and none round them.
fn fold_spaces(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn exchange(line: &str, letters: &HashMap<char, char>) -> String {
    line.chars()
        .map(|letter| *letters.get(&letter).unwrap_or(&letter))
        .collect()
}

/// Returns the lines of a text; a line feed at its end begins no further one.
pub(super) fn split(text: &str) -> Vec<&str> {
    if text.is_empty() {
        return Vec::new();
    }
    text.strip_suffix('\n').unwrap_or(text).split('\n').collect()
}

pub(super) fn is_blank(line: &str) -> bool {
    line.trim().is_empty()
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// Returns a line without what may differ: white space round it and its amount within, and kinds of quotes and dashes.
pub(super) fn fold(line: &str) -> String {
    fold_spaces(line).chars().map(to_plain_letter).collect()
}

/// Makes blanks of typography plain ones, if the old text has some and the file has none.
pub(super) fn plain_blanks(text: &str, edit: Replacement) -> Replacement {
    if !edit.old.contains(is_special_blank) || text.contains(is_special_blank) {
        return edit;
    }
    let plain = |text: &str| text.replace(is_special_blank, " ");
    Replacement {
        old: plain(&edit.old),
        new: plain(&edit.new),
        ..edit
    }
}

/// Returns whether it is a blank of typography, such as a no-break space.
fn is_special_blank(letter: char) -> bool {
    letter.is_whitespace() && !letter.is_ascii()
}

/// Returns the plain form of a quote, a dash, or a blank, and other letters as they are.
fn to_plain_letter(letter: char) -> char {
    match letter {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        other if is_special_blank(other) => ' ',
        other => other,
    }
}
