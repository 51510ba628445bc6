//! The look of text: colors or none, widths, and short forms of durations, token counts and prices.
//!
//! Pure. Text from outside that is measured here is also cleaned here; [`super::screen`] cleans everything again.

use std::path::Path;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::base::text;
use crate::config::Env;

/// A text style. Uses only the terminal theme's own sixteen colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Color {
    Bold,
    Dim,
    Struck,
    Red,
    Green,
    Yellow,
    Magenta,
    Cyan,
    BoldCyan,
    BoldRed,
    BoldYellow,
}

impl Color {
    const ALL: [Self; 11] = [
        Self::Bold,
        Self::Dim,
        Self::Struck,
        Self::Red,
        Self::Green,
        Self::Yellow,
        Self::Magenta,
        Self::Cyan,
        Self::BoldCyan,
        Self::BoldRed,
        Self::BoldYellow,
    ];

    /// Returns the leading escape sequence of `text`, if it is one of ours.
    pub(super) fn parse_sequence(text: &str) -> Option<&str> {
        let parameters = text.strip_prefix("\u{1b}[")?;
        let length = parameters.find('m')?;
        let code = &parameters[..length];
        let is_ours = code == "0" || Self::ALL.iter().any(|ink| ink.sgr_code() == code);
        is_ours.then(|| &text[..length + 3])
    }

    /// Returns the parameters of the escape sequence.
    pub(super) fn sgr_code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Struck => "2;9",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Magenta => "35",
            Self::Cyan => "36",
            Self::BoldCyan => "1;36",
            Self::BoldRed => "1;31",
            Self::BoldYellow => "1;33",
        }
    }
}

/// Applies styles, or leaves text plain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Styler {
    /// Whether to use colors.
    pub(super) use_color: bool,
    /// The terminal knows no escape sequences, so nothing drawn can be erased.
    pub(super) dumb: bool,
}

impl Styler {
    /// Enables colors on a terminal, unless `NO_COLOR` is set or the terminal is dumb.
    pub(super) fn from_env(env: &Env, terminal: bool) -> Self {
        let dumb = env.get("TERM") == Some("dumb");
        Self {
            // no-color.org: the variable counts only if it is not empty.
            use_color: terminal && !dumb && env.non_empty("NO_COLOR").is_none(),
            dumb,
        }
    }

    /// Returns `text` in this style.
    pub(super) fn paint_text(self, ink: Color, text: &str) -> String {
        if !self.use_color || text.is_empty() {
            return text.to_owned();
        }
        format!("\u{1b}[{}m{text}\u{1b}[0m", ink.sgr_code())
    }

    /// Returns the mark of the current entry of a list, or a space.
    pub(super) fn current_mark(self, is_current: bool) -> String {
        if is_current {
            self.paint_text(Color::Green, "●")
        } else {
            " ".to_owned()
        }
    }

    /// Returns `text` dimmed.
    pub(super) fn dim_text(self, text: &str) -> String {
        self.paint_text(Color::Dim, text)
    }
}

/// Returns the color of a line of a unified diff; `None` for context lines.
pub(super) fn diff_color(line: &str) -> Option<Color> {
    match line.as_bytes().first() {
        Some(b'+') => Some(Color::Green),
        Some(b'-') => Some(Color::Red),
        Some(b'@') => Some(Color::Cyan),
        _ => None,
    }
}

/// Returns how many columns a character takes. Callers draw a tab as four spaces.
pub(super) fn char_width(ch: char) -> usize {
    ch.width().unwrap_or(0)
}

/// Returns how many columns a plain text takes.
pub(super) fn measure_width(text: &str) -> usize {
    text.width()
}

/// Cleans text from outside and folds it into one line of at most `max` characters.
pub(super) fn clean_line(text: &str, max: usize) -> String {
    text::one_line(&text::strip_control_characters(text), max)
}

/// Cleans a line from outside and fits it to `max` columns: spreads tabs, and ends a cut with an ellipsis.
pub(super) fn fit_line(line: &str, max: usize) -> String {
    let line = text::strip_control_characters(line)
        .replace('\t', "    ")
        .replace('\n', " ");
    if measure_width(&line) <= max {
        return line;
    }
    let mut cut = String::new();
    // The ellipsis takes one column.
    let mut used = 1;
    for ch in line.chars() {
        used += char_width(ch);
        if used > max {
            break;
        }
        cut.push(ch);
    }
    cut.push('…');
    cut
}

/// Cleans a line from outside and splits it into pieces of at most `max` columns, so that all of it is visible.
pub(super) fn split_line(line: &str, max: usize) -> Vec<String> {
    let max = max.max(8);
    let (mut pieces, mut used) = (vec![String::new()], 0);
    for ch in text::strip_control_characters(line).replace('\t', "    ").chars() {
        if used + char_width(ch) > max {
            pieces.push(String::new());
            used = 0;
        }
        used += char_width(ch);
        if let Some(piece) = pieces.last_mut() {
            piece.push(ch);
        }
    }
    pieces
}

/// Wraps text at word ends into lines of at most `max` columns; cuts longer words.
pub(super) fn wrap_text(text: &str, max: usize) -> Vec<String> {
    let max = max.max(8);
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            let mut word = word.to_owned();
            if !line.is_empty() && measure_width(&line) + 1 + measure_width(&word) > max {
                lines.push(std::mem::take(&mut line));
            }
            while measure_width(&word) > max {
                let mut used = 0;
                let fits = |(at, ch): (usize, char)| {
                    used += char_width(ch);
                    (used <= max).then_some(at + ch.len_utf8())
                };
                let at = word.char_indices().map_while(fits).last().unwrap_or(1);
                let rest = word.split_off(at);
                lines.push(std::mem::replace(&mut word, rest));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(&word);
        }
        lines.push(line);
    }
    lines
}

/// Wraps text like [`wrap_text`], and pairs the first line with `mark`, the others with a space.
pub(super) fn hang_lines<'a>(
    text: &str,
    max: usize,
    mark: &'a str,
) -> impl Iterator<Item = (&'a str, String)> + use<'a> {
    let marks = std::iter::once(mark).chain(std::iter::repeat(" "));
    marks.zip(wrap_text(text, max))
}

/// Formats a duration: `340 ms`, `1.2 s`, `1 min 1 s`.
pub(super) fn format_duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        _ => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
    }
}

/// Formats a token count: `950`, `12.3k`.
pub(super) fn format_tokens(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..100_000 => format!("{:.1}k", count as f64 / 1_000.0),
        _ => format!("{}k", count / 1_000),
    }
}

/// Formats the price of used tokens: `free`, `$1.37`, or `price unknown`.
pub(super) fn cost_of_use(usd: Option<f64>) -> String {
    match usd {
        None => "price unknown".to_owned(),
        Some(0.0) => "free".to_owned(),
        Some(usd) => format_dollars(usd),
    }
}

/// Formats an amount: `$0.0042`, `$1.37`.
pub(super) fn format_dollars(usd: f64) -> String {
    if usd == 0.0 {
        "$0".to_owned()
    } else if usd < 0.1 {
        format!("${usd:.4}")
    } else {
        format!("${usd:.2}")
    }
}

/// Formats an age in words.
pub(super) fn format_age(then: i64, now: i64) -> String {
    let minutes = (now - then).max(0) / 60_000;
    match minutes {
        0 => "just now".to_owned(),
        1..60 => format!("{minutes} min ago"),
        60..1_440 => format!("{} h ago", minutes / 60),
        _ => match minutes / 1_440 {
            1 => "yesterday".to_owned(),
            days => format!("{days} days ago"),
        },
    }
}

/// Formats a path with `~` for the home folder.
pub(super) fn format_path(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_fits_and_wraps_by_columns() {
        assert_eq!(fit_line("short", 5), "short");
        assert_eq!(fit_line("a\tlong line", 8), "a    lo…");
        assert_eq!(fit_line("\u{1b}[31mred", 9), "red");
        assert_eq!(measure_width(&fit_line("日本語日本語", 7)), 7);
        assert_eq!(split_line("+  日本語日本\tx", 9), ["+  日本語", "日本    x"]);
        assert_eq!(split_line("", 9), [""]);
        assert_eq!(wrap_text("one two three", 9), ["one two", "three"]);
        assert_eq!(
            wrap_text("aaaaaaaaaaaaaaaaaaaa b", 8),
            ["aaaaaaaa", "aaaaaaaa", "aaaa b"]
        );
        assert_eq!(wrap_text("a\n\nb", 8), ["a", "", "b"]);
    }

    #[test]
    fn amounts_have_short_forms() {
        assert_eq!(
            [
                format_duration(5),
                format_duration(1_234),
                format_duration(61_000)
            ],
            ["5 ms", "1.2 s", "1 min 1 s"]
        );
        assert_eq!(
            [format_tokens(999), format_tokens(12_345), format_tokens(250_000)],
            ["999", "12.3k", "250k"]
        );
        assert_eq!(
            [format_dollars(0.0), format_dollars(0.0042), format_dollars(1.366)],
            ["$0", "$0.0042", "$1.37"]
        );
        assert_eq!(
            [None, Some(0.0), Some(1.366)].map(cost_of_use),
            ["price unknown", "free", "$1.37"]
        );
    }

    #[test]
    fn colors_respect_no_color_and_dumb_terminals() {
        let plain = Env::from_vars([("NO_COLOR", "1")]);
        assert!(!Styler::from_env(&plain, true).use_color);
        assert!(!Styler::from_env(&plain, true).dumb);
        assert!(Styler::from_env(&Env::from_vars([("TERM", "dumb")]), true).dumb);
        assert!(!Styler::from_env(&Env::default(), false).use_color);
        assert!(Styler::from_env(&Env::default(), true).use_color);
        assert_eq!(
            Styler {
                use_color: false,
                dumb: false
            }
            .paint_text(Color::Red, "x"),
            "x"
        );
    }

    #[test]
    fn age_is_described_in_words() {
        let minute = 60_000;
        for (ago, words) in [
            (0, "just now"),
            (-5, "just now"),
            (3, "3 min ago"),
            (150, "2 h ago"),
            (1_500, "yesterday"),
            (10_000, "6 days ago"),
        ] {
            assert_eq!(format_age(0, ago * minute), words);
        }
    }
}
