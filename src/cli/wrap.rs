//! The inside of a line: emphasis, code and links as they arrive ([`Spans`]), and word wrapping ([`LineWrapper`]).
//!
//! Knows characters and widths, and nothing about blocks: `markdown` decides what a line is. Output is append-only, so
//! each decision waits until its characters are complete.

use super::style::{Styler, char_width};

/// The longest link to wait for, in bytes of text and address.
const LONGEST_LINK: usize = 400;

/// Wraps words into lines and keeps the style across line breaks.
#[derive(Debug, Default)]
pub(super) struct LineWrapper {
    styler: Styler,
    max: usize,
    out: String,
    column: usize,
    /// The prefix of wrapped lines.
    hang: String,
    hang_width: usize,
    spaces: usize,
    word: String,
    word_width: usize,
    /// Styles as parameters of the escape sequence: for the next character, at the word's end, at the output's end.
    wanted: String,
    word_look: String,
    out_look: String,
}

impl LineWrapper {
    pub(super) fn new(styler: Styler, max: usize) -> Self {
        Self {
            styler,
            max,
            ..Self::default()
        }
    }

    /// Returns the output since the last call.
    pub(super) fn take_output(&mut self) -> String {
        std::mem::take(&mut self.out)
    }

    /// Appends complete, colored lines. Only valid between lines.
    pub(super) fn push_raw(&mut self, lines: &str) {
        self.out.push_str(lines);
    }

    /// Starts a line with `first`; wrapped lines start with `hang`.
    pub(super) fn begin_with_prefix(&mut self, first: &str, hang: &str) {
        self.out.push_str(&self.styler.dim_text(first));
        self.column = super::style::measure_width(first);
        self.hang_width = super::style::measure_width(hang);
        self.hang = self.styler.dim_text(hang);
    }

    /// Sets the style of the next characters, as parameters of the escape sequence.
    pub(super) fn set_style(&mut self, look: &str) {
        if self.styler.use_color {
            look.clone_into(&mut self.wanted);
        }
    }

    pub(super) fn push_char(&mut self, ch: char) {
        if ch == ' ' {
            self.flush();
            self.spaces += 1;
            return;
        }
        let width = char_width(ch);
        // Text in wide scripts has no spaces to wrap at, and a word longer than a line must break somewhere.
        if width > 1 || self.word_width + width > self.max.saturating_sub(self.hang_width) {
            self.flush();
        }
        if self.word_look != self.wanted {
            self.word.push_str(&switch_style(&self.word_look, &self.wanted));
            self.word_look.clone_from(&self.wanted);
        }
        self.word.push(ch);
        self.word_width += width;
        if width > 1 {
            self.flush();
        }
    }

    pub(super) fn end_line(&mut self) {
        self.flush();
        if !self.out_look.is_empty() {
            self.out.push_str("\u{1b}[0m");
        }
        self.wanted.clear();
        self.word_look.clear();
        self.out_look.clear();
        self.hang.clear();
        (self.spaces, self.column, self.hang_width) = (0, 0, 0);
        self.out.push('\n');
    }

    fn flush(&mut self) {
        if self.word.is_empty() {
            return;
        }
        // The first word of a line never wraps, however long: it would only leave an empty line.
        let fits = self.column.saturating_add(self.spaces + self.word_width) <= self.max;
        if fits || self.column <= self.hang_width {
            self.out.extend(std::iter::repeat_n(' ', self.spaces));
            self.column += self.spaces;
        } else {
            // The style ends before the line break, so that it does not color the hanging prefix.
            let stop = switch_style(&self.out_look, "");
            let start = switch_style("", &self.out_look);
            self.out.push_str(&format!("{stop}\n{}{start}", self.hang));
            self.column = self.hang_width;
        }
        self.out.push_str(&self.word);
        self.column += self.word_width;
        self.out_look.clone_from(&self.word_look);
        self.word.clear();
        (self.spaces, self.word_width) = (0, 0);
    }
}

/// Returns the sequence that switches from one style to another.
fn switch_style(from: &str, to: &str) -> String {
    let stop = if from.is_empty() { "" } else { "\u{1b}[0m" };
    match to {
        "" => stop.to_owned(),
        to => format!("{stop}\u{1b}[{to}m"),
    }
}

/// Emphasis, code and links within a line. Unclosed spans end with the line.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// The style of the whole line.
    pub(super) base: &'static str,
    bold: bool,
    italic: bool,
    struck: bool,
    /// Inside code that this many backticks close.
    code: Option<usize>,
    underlined: bool,
    /// Marks whose effect depends on the next character.
    run: Option<(char, usize)>,
    escape: bool,
    /// The text after a `[` that may become a link.
    link: Option<String>,
    /// Treats a `[` as plain text.
    no_links: bool,
    before: char,
}

impl Spans {
    pub(super) fn begin_line(&mut self, flow: &mut LineWrapper) {
        // The start of a line counts as white space before a mark.
        self.before = ' ';
        self.apply_style(flow);
    }

    pub(super) fn take(&mut self, ch: char, flow: &mut LineWrapper) {
        if self.link.is_some() {
            return self.take_in_link(ch, flow);
        }
        if let Some((mark, count)) = self.run {
            if ch == mark {
                self.run = Some((mark, count + 1));
                return;
            }
            self.run = None;
            self.handle_marks(mark, count, Some(ch), flow);
        }
        if std::mem::take(&mut self.escape) {
            if !ch.is_ascii_punctuation() {
                self.push_char('\\', flow);
            }
            return self.push_char(ch, flow);
        }
        match ch {
            '`' => self.run = Some((ch, 1)),
            _ if self.code.is_some() => self.push_char(ch, flow),
            '*' | '_' | '~' => self.run = Some((ch, 1)),
            '\\' => self.escape = true,
            '[' if !self.no_links => self.link = Some(String::new()),
            _ => self.push_char(ch, flow),
        }
    }

    pub(super) fn end_line(&mut self, flow: &mut LineWrapper) {
        if self.link.is_some() {
            self.no_link(flow);
        }
        if let Some((mark, count)) = self.run.take() {
            self.handle_marks(mark, count, None, flow);
        }
        if self.escape {
            self.push_char('\\', flow);
        }
        *self = Self::default();
    }

    fn take_in_link(&mut self, ch: char, flow: &mut LineWrapper) {
        let Some(link) = &mut self.link else { return };
        link.push(ch);
        let Some(end) = link.find(']') else {
            if link.len() > LONGEST_LINK {
                self.no_link(flow);
            }
            return;
        };
        let address = &link[end + 1..];
        match address.chars().next() {
            None => {}
            Some('(') if ch == ')' => {
                let (text, address) = (link[..end].to_owned(), address[1..address.len() - 1].to_owned());
                self.link = None;
                self.show_link(&text, &address, flow);
            }
            Some('(') if link.len() <= LONGEST_LINK && ch != ' ' => {}
            Some(_) => self.no_link(flow),
        }
    }

    /// Gives up on a link: the held-back characters are text.
    fn no_link(&mut self, flow: &mut LineWrapper) {
        let pending = self.link.take().unwrap_or_default();
        // Or the same `[` would start a link again.
        self.no_links = true;
        if let Some((mark, count)) = self.run.take() {
            self.handle_marks(mark, count, Some('['), flow);
        }
        self.push_char('[', flow);
        pending.chars().for_each(|ch| self.take(ch, flow));
        self.no_links = false;
    }

    fn show_link(&mut self, text: &str, address: &str, flow: &mut LineWrapper) {
        self.no_links = true;
        self.underlined = true;
        self.apply_style(flow);
        text.chars().for_each(|ch| self.take(ch, flow));
        if let Some((mark, count)) = self.run.take() {
            self.handle_marks(mark, count, None, flow);
        }
        self.underlined = false;
        self.apply_style(flow);
        self.no_links = false;
        if address.starts_with("http") && address != text {
            flow.set_style("2");
            format!(" ({address})").chars().for_each(|ch| flow.push_char(ch));
            self.apply_style(flow);
        }
    }

    /// Applies a complete run of marks; `next` is the character after it.
    fn handle_marks(&mut self, mark: char, count: usize, next: Option<char>, flow: &mut LineWrapper) {
        let word = |ch: char| ch.is_alphanumeric();
        let opens = next.is_some_and(|next| !next.is_whitespace()) && !word(self.before);
        // `_` inside a word is part of a name such as `snake_case`.
        let closes = !self.before.is_whitespace() && (mark != '_' || !next.is_some_and(word));
        let acts = match (mark, count) {
            ('`', _) => match self.code {
                None => {
                    self.code = Some(count);
                    true
                }
                Some(open) if open == count => {
                    self.code = None;
                    true
                }
                Some(_) => false,
            },
            _ if self.code.is_some() => false,
            ('~', 2) => toggle_flag(&mut self.struck, opens, closes),
            ('*' | '_', 1) => toggle_flag(&mut self.italic, opens, closes),
            ('*' | '_', 2) => toggle_flag(&mut self.bold, opens, closes),
            ('*' | '_', 3) if self.bold == self.italic => {
                toggle_flag(&mut self.bold, opens, closes) && toggle_flag(&mut self.italic, opens, closes)
            }
            _ => false,
        };
        self.apply_style(flow);
        // Without colors, code keeps its backticks, so that it remains recognizable.
        if !acts || mark == '`' && !flow.styler.use_color {
            for _ in 0..count {
                self.push_char(mark, flow);
            }
        } else if mark == '`' {
            // For the marks that follow, code counts as a word.
            self.before = 'x';
        }
    }

    fn push_char(&mut self, ch: char, flow: &mut LineWrapper) {
        self.before = ch;
        flow.push_char(ch);
    }

    fn apply_style(&self, flow: &mut LineWrapper) {
        let mut codes = vec![self.base];
        codes.extend(self.bold.then_some("1"));
        codes.extend(self.italic.then_some("3"));
        codes.extend(self.underlined.then_some("4"));
        codes.extend(self.struck.then_some("9"));
        codes.extend(self.code.map(|_| "36"));
        codes.retain(|code| !code.is_empty());
        flow.set_style(&codes.join(";"));
    }
}

fn toggle_flag(on: &mut bool, opens: bool, closes: bool) -> bool {
    let acts = if *on { closes } else { opens };
    *on ^= acts;
    acts
}
