//! Shows where a text that was not found may be meant to be: the difference to the closest lines. Pure.

use std::collections::HashMap;
use std::fmt::Write as _;

use similar::DiffTag;

use super::whole_lines::{fold, is_blank, split};
use crate::workspace::line_diff::compare_lines;

/// Most lines of a difference.
const MOST_LINES: usize = 60;
/// A line that is more frequent says little about the place.
const MOST_PLACES: usize = 50;
/// The share of the old text's letters that must be there, in percent.
const LEAST_SHARE: usize = 30;

/// Returns the end of a sentence that says where the first possible of `olds` almost is, if anywhere. Each has the name
/// that the model knows.
pub(super) fn describe<'o>(text: &str, olds: impl IntoIterator<Item = (&'o str, String)>) -> String {
    let lines = split(text);
    let found = olds.into_iter().find_map(|(old, name)| {
        let old = split(old);
        let start = find_start(&lines, &old)?;
        Some((start, old, name))
    });
    let Some((start, old, name)) = found else {
        return ", and nothing in the file is similar; read the file again".to_owned();
    };
    let end = (start + old.len()).min(lines.len());
    format!(
        ". The closest lines are {} to {end} (- is {name}, + is the file):\n{}",
        start + 1,
        format_difference(&old, &lines[start..end])
    )
}

/// A place that has the new text already, while the old one is nowhere.
pub(super) struct EarlierEdit {
    /// The number of its first line.
    pub(super) line: usize,
    /// It must be the place that is meant. Otherwise it may as well be another one that looks like the result.
    pub(super) is_certain: bool,
}

impl EarlierEdit {
    /// Finds the only place at which `new` stands by whole lines that are equal.
    ///
    /// It is certain if the old text shares a line with the new one that occurs nowhere else, if `new` is the whole
    /// text, or if it has too many lines for a coincidence and the old text resembles no other place.
    pub(super) fn find(text: &str, old: &str, new: &str) -> Option<Self> {
        const MANY_LINES: usize = 3;
        let has_words = |line: &&str| line.chars().any(char::is_alphanumeric);
        let new = new.trim_matches('\n');
        let wanted: Vec<&str> = new.split('\n').collect();
        let lines: Vec<&str> = text.split('\n').collect();
        let mut places = lines.windows(wanted.len()).enumerate();
        let at = places.find(|(_, there)| *there == wanted)?.0;
        if !wanted.iter().any(has_words) || places.any(|(_, there)| there == wanted) {
            return None;
        }
        let occurs_once = |line: &&str| lines.iter().filter(|there| *there == line).count() == 1;
        let mut kept = wanted
            .iter()
            .filter(|line| old.split('\n').any(|old| old == **line));
        let is_certain = kept.any(|line| has_words(line) && occurs_once(line))
            || new == text.trim_matches('\n')
            || wanted.iter().filter(|line| has_words(line)).count() >= MANY_LINES
                && find_start(&lines, &split(old)).is_none_or(|start| start.abs_diff(at) <= 1);
        Some(Self {
            line: at + 1,
            is_certain,
        })
    }
}

/// Lists places with their lines, for a text that stands at more than one.
pub(super) fn list_places(text: &str, numbers: &[usize], count: usize) -> String {
    let lines = split(text);
    let mut list = String::new();
    let mut shown = 0;
    for number in numbers {
        let end = (number - 1 + count).min(lines.len());
        if shown + count > MOST_LINES && shown > 0 {
            break;
        }
        // The lines round it are what tells the places apart.
        let first = (number - 1).saturating_sub(1);
        let around = &lines[first..(end + 1).min(lines.len())];
        for (number, line) in (first + 1..).zip(around) {
            let _ = write!(list, "\n{number:>6}\t{}", shorten(line));
            shown += 1;
        }
        list.push_str("\n---");
    }
    list.truncate(list.trim_end_matches("\n---").len());
    list
}

/// Finds the line at which most of `old` would be in place.
fn find_start(lines: &[&str], old: &[&str]) -> Option<usize> {
    let wanted: Vec<String> = old.iter().map(|line| fold(line)).collect();
    let mut places: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| !is_blank(line)) {
        places.entry(fold(line)).or_default().push(at);
    }
    let mut votes: HashMap<usize, usize> = HashMap::new();
    for (number, line) in wanted.iter().enumerate() {
        let found = places.get(line).filter(|found| found.len() <= MOST_PLACES);
        for at in found.into_iter().flatten() {
            // A line more or less before it moves the place.
            let start = at.saturating_sub(number);
            for (near, weight) in [(start.saturating_sub(1), 1), (start, 2), (start + 1, 1)] {
                *votes.entry(near).or_default() += weight * line.len();
            }
        }
    }
    let all: usize = wanted.iter().map(String::len).sum();
    let best = votes
        .into_iter()
        .max_by_key(|(start, votes)| (*votes, usize::MAX - start));
    if let Some((start, votes)) = best
        && votes * 100 >= 2 * LEAST_SHARE * all
    {
        return Some(start);
    }
    let (number, _) = wanted.iter().enumerate().max_by_key(|(_, line)| line.len())?;
    find_similar_line(lines, old[number]).map(|at| at.saturating_sub(number))
}

/// Finds the line most similar to `wanted`, within a bound of work.
fn find_similar_line(lines: &[&str], wanted: &str) -> Option<usize> {
    /// The product of lengths, to which the time of a comparison is proportional.
    const MOST_WORK: usize = 20_000_000;
    const LONGEST_LINE: usize = 300;
    const LEAST_SIMILARITY: f64 = 0.6;
    let wanted = wanted.trim();
    if wanted.is_empty() || wanted.len() > LONGEST_LINE {
        return None;
    }
    let mut work = 0;
    let mut best = (LEAST_SIMILARITY, None);
    for (at, line) in lines.iter().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.len() > LONGEST_LINE {
            continue;
        }
        work += line.len() * wanted.len();
        if work > MOST_WORK {
            break;
        }
        let similarity = strsim::normalized_levenshtein(line, wanted);
        if similarity > best.0 {
            best = (similarity, Some(at));
        }
    }
    best.1
}

/// Shows a difference, shortened so that lines of both sides are in it.
fn format_difference(old: &[&str], there: &[&str]) -> String {
    /// Most lines of a part that both sides share, if not all lines fit.
    const MOST_SHARED: usize = 6;
    let changes = compare_lines(old, there, None);
    let total = changes.iter().map(|change| match change.as_tag_tuple() {
        (DiffTag::Equal, from, _) => from.len(),
        (_, from, to) => from.len() + to.len(),
    });
    let is_too_long = total.sum::<usize>() > MOST_LINES;
    let mut shown: Vec<String> = Vec::new();
    let mut more = 0;
    for change in changes {
        let (tag, from, to) = change.as_tag_tuple();
        let left = MOST_LINES - shown.len();
        if tag == DiffTag::Equal {
            let mut lines: Vec<String> = old[from].iter().map(|line| format!(" {line}")).collect();
            if is_too_long && lines.len() > MOST_SHARED + 1 {
                let middle = MOST_SHARED / 2..lines.len() - MOST_SHARED / 2;
                let mark = format!("[{} equal lines]", middle.len());
                lines.splice(middle, [mark]);
            }
            more += lines.len().saturating_sub(left);
            shown.extend(lines.into_iter().take(left));
            continue;
        }
        let removed = from.len().min((left / 2).max(left.saturating_sub(to.len())));
        let added = to.len().min(left - removed);
        more += from.len() - removed + to.len() - added;
        shown.extend(old[from].iter().take(removed).map(|line| format!("-{line}")));
        shown.extend(there[to].iter().take(added).map(|line| format!("+{line}")));
    }
    let lines = shown.iter().map(|line| shorten(line));
    let mut text = lines.collect::<Vec<_>>().join("\n");
    if more > 0 {
        let _ = write!(text, "\n[{more} more lines]");
    }
    text
}

/// Cuts a line that is too long to show.
fn shorten(line: &str) -> String {
    const LONGEST: usize = 200;
    let mut shown: String = line.chars().take(LONGEST).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    shown
}
