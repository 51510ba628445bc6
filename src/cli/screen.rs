//! The terminal as something to append to: text that stays, and one line below it that does not.
//!
//! Knows columns and rows, so that what was shown last can be taken off again; knows nothing of what is
//! shown. The one place through which all lines for people go: nothing that acts on a terminal passes, but for line
//! feeds, tabs and our own colours.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};

use super::style::{Color, Styler, char_width, fit_line, wrap_text};
use crate::base::text::{escape_for_terminal, strip_control_characters};

/// Lines for reading are not longer than this, in columns.
const READABLE: usize = 100;

/// Where text goes.
pub(super) struct Screen {
    out: Box<dyn Write + Send>,
    terminal: bool,
    /// Columns and rows; asked again where it matters.
    size: fn() -> (usize, usize),
    /// How things are painted here.
    pub(super) styler: Styler,
    column: usize,
    row: u64,
    blank: bool,
    status: String,
    drawn: bool,
    /// Without empty lines.
    tight: bool,
}

/// A place to go back to: the beginning of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    row: u64,
    blank: bool,
    size: (usize, usize),
}

impl Screen {
    /// Standard output.
    pub(super) fn with_stdout(terminal: bool, styler: Styler) -> Self {
        let size: fn() -> (usize, usize) = if terminal { terminal_size } else { || (81, 24) };
        Self::with_output(Box::new(std::io::stdout()), terminal, size, styler)
    }

    /// Standard error.
    pub(super) fn with_stderr(terminal: bool, styler: Styler) -> Self {
        let size: fn() -> (usize, usize) = if terminal { terminal_size } else { || (81, 24) };
        Self::with_output(Box::new(std::io::stderr()), terminal, size, styler)
    }

    /// Anything.
    pub(super) fn with_output(
        out: Box<dyn Write + Send>,
        terminal: bool,
        size: fn() -> (usize, usize),
        styler: Styler,
    ) -> Self {
        Self {
            out,
            terminal,
            size,
            styler,
            column: 0,
            row: 0,
            blank: true,
            status: String::new(),
            drawn: false,
            tight: false,
        }
    }

    /// Whether it is a terminal.
    pub(super) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// How many columns a line of text may take.
    pub(super) fn width(&self) -> usize {
        (self.size)().0.saturating_sub(1).clamp(20, READABLE)
    }

    /// Leaves no empty lines between blocks from now on.
    pub(super) fn disable_gaps(&mut self) {
        self.tight = true;
    }

    /// Appends text; line feeds in it begin new lines.
    pub(super) fn write(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let columns = (self.size)().0;
        let text = &without_controls(text);
        let mut bytes = String::with_capacity(text.len() + 64);
        self.erase_status(&mut bytes);
        let mut chars = text.chars();
        while let Some(ch) = chars.next() {
            match ch {
                '\n' => {
                    // Raw mode needs both, and no terminal minds.
                    bytes.push_str(if self.terminal { "\r\n" } else { "\n" });
                    self.blank = self.column == 0;
                    self.column = 0;
                    self.row += 1;
                    continue;
                }
                '\u{1b}' => {
                    bytes.push(ch);
                    for ch in chars.by_ref() {
                        bytes.push(ch);
                        if ch.is_ascii_alphabetic() {
                            break;
                        }
                    }
                    continue;
                }
                _ => {}
            }
            let width = char_width(ch);
            if self.terminal && self.column + width > columns {
                self.row += 1;
                self.column = 0;
            }
            self.column += width;
            bytes.push(ch);
        }
        self.draw_status(&mut bytes);
        self.write_bytes(&bytes);
    }

    /// Appends a line of its own.
    pub(super) fn write_line(&mut self, text: &str) {
        self.fresh_line();
        self.write(&format!("{text}\n"));
    }

    /// Appends a line that begins with `first` (`columns` wide, painted or not) and is folded behind it.
    pub(super) fn write_entry(&mut self, first: &str, columns: usize, text: &str) {
        let room = self.width().saturating_sub(columns);
        let lines = wrap_text(text, room);
        let blank = " ".repeat(columns);
        for (number, line) in lines.iter().enumerate() {
            self.write_line(&format!("{}{line}", if number == 0 { first } else { &blank }));
        }
    }

    /// Someone else wrote a line, and the cursor stands at the beginning of the next.
    pub(super) fn note_foreign_newline(&mut self) {
        self.row += 1;
        self.column = 0;
        self.blank = false;
    }

    /// Ends a line that has begun.
    pub(super) fn fresh_line(&mut self) {
        if self.column > 0 {
            self.write("\n");
        }
    }

    /// One empty line between what was and what comes.
    pub(super) fn write_gap(&mut self) {
        self.fresh_line();
        if !self.blank && !self.tight {
            self.write("\n");
        }
    }

    /// The line that does not stay; empty: none. Only on a terminal.
    pub(super) fn set_status(&mut self, text: &str) {
        if !self.terminal || self.styler.dumb || (text == self.status && self.drawn) {
            return;
        }
        let mut bytes = String::new();
        self.erase_status(&mut bytes);
        text.clone_into(&mut self.status);
        self.draw_status(&mut bytes);
        self.write_bytes(&bytes);
    }

    /// The beginning of the line that follows.
    pub(super) fn mark_line(&mut self) -> Mark {
        self.fresh_line();
        Mark {
            row: self.row,
            blank: self.blank,
            size: (self.size)(),
        }
    }

    /// Takes off all that was written since `mark`; false when it cannot be reached any more.
    pub(super) fn erase_to(&mut self, mark: Mark) -> bool {
        let size = (self.size)();
        let rows = self.row.saturating_sub(mark.row);
        if !self.terminal || self.styler.dumb || size != mark.size || rows + 2 > size.1 as u64 {
            return false;
        }
        let mut bytes = String::new();
        self.erase_status(&mut bytes);
        if rows > 0 {
            bytes.push_str(&format!("\u{1b}[{rows}A"));
        }
        bytes.push_str("\r\u{1b}[J");
        self.row = mark.row;
        self.column = 0;
        self.blank = mark.blank;
        self.draw_status(&mut bytes);
        self.write_bytes(&bytes);
        true
    }

    fn erase_status(&mut self, bytes: &mut String) {
        if self.drawn {
            bytes.push_str("\u{1b}[J");
            self.drawn = false;
        }
    }

    /// Draws the status in the next row, and leaves the cursor where text goes on.
    fn draw_status(&mut self, bytes: &mut String) {
        if self.status.is_empty() {
            return;
        }
        let columns = (self.size)().0;
        // Colours would be cut with the text, so the status is painted as a whole.
        let line = self
            .styler
            .dim_text(&fit_line(&self.status, columns.saturating_sub(1)));
        if self.column == 0 {
            bytes.push_str(&format!("{line}\r"));
        } else {
            bytes.push_str(&format!(
                "\r\n{line}\u{1b}[1A\u{1b}[{}G",
                (self.column + 1).min(columns)
            ));
        }
        self.drawn = true;
    }

    fn write_bytes(&mut self, bytes: &str) {
        // Who stops reading our output has seen enough.
        let _ = self.out.write_all(bytes.as_bytes());
        let _ = self.out.flush();
    }
}

/// The text without controls and hidden characters; our own colours stay.
fn without_controls(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return strip_control_characters(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        let colour = Color::parse_sequence(&rest[at..]);
        match colour {
            Some(colour) => {
                clean.push_str(&strip_control_characters(&rest[..at]));
                clean.push_str(colour);
                rest = &rest[at + colour.len()..];
            }
            None => {
                // A sequence of another's: up to the next of ours it is cleaned as one text.
                let next = rest[at + 1..]
                    .match_indices('\u{1b}')
                    .map(|(found, _)| at + 1 + found);
                let next = next
                    .into_iter()
                    .find(|next| Color::parse_sequence(&rest[*next..]).is_some());
                let (foreign, after) = rest.split_at(next.unwrap_or(rest.len()));
                clean.push_str(&strip_control_characters(foreign));
                rest = after;
            }
        }
    }
    clean.push_str(&strip_control_characters(rest));
    clean.into()
}

/// Writes JSON to standard output; on a terminal nothing in it acts there.
pub(super) fn print_json(json: &str) -> std::io::Result<bool> {
    if std::io::stdout().is_terminal() {
        print_to_stdout(&escape_for_terminal(json))
    } else {
        print_to_stdout(json)
    }
}

/// Writes to standard output for programs; false when nobody reads it any more, which is no failure.
pub(super) fn print_to_stdout(text: &str) -> std::io::Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.set_status("");
    }
}

fn terminal_size() -> (usize, usize) {
    // One that does not know its size says 0.
    let (columns, rows) = crossterm::terminal::size().unwrap_or_default();
    let known = |size: u16, usual: usize, least: u16| match size {
        0 => usual,
        size => usize::from(size.max(least)),
    };
    (known(columns, 80, 20), known(rows, 24, 5))
}

#[cfg(test)]
pub(super) mod testing {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What was written, and how a terminal of 40 columns would show it.
    #[derive(Clone, Default)]
    pub(in crate::cli) struct Paper(pub(in crate::cli) Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Paper {
        pub(in crate::cli) fn open_screen(&self, terminal: bool) -> Screen {
            let styler = Styler {
                colour: false,
                dumb: false,
            };
            Screen::with_output(Box::new(self.clone()), terminal, || (40, 12), styler)
        }

        pub(in crate::cli) fn raw_text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }

        /// Rows of text, without white space at their ends.
        pub(in crate::cli) fn visible_rows(&self) -> Vec<String> {
            let mut rows: Vec<Vec<char>> = vec![Vec::new()];
            let (mut row, mut column) = (0, 0);
            let raw = self.raw_text();
            let mut chars = raw.chars();
            while let Some(ch) = chars.next() {
                match ch {
                    '\r' => column = 0,
                    '\n' => row += 1,
                    '\u{1b}' => {
                        assert_eq!(chars.next(), Some('['));
                        let mut number = String::new();
                        let end = chars.by_ref().find(|ch| {
                            number.push(*ch);
                            ch.is_ascii_alphabetic()
                        });
                        number.pop();
                        let number = number.parse().unwrap_or(1);
                        match end.unwrap() {
                            'A' => row -= number,
                            'G' => column = number - 1,
                            'J' => {
                                rows.truncate(row + 1);
                                if let Some(last) = rows.get_mut(row) {
                                    last.truncate(column);
                                }
                            }
                            'm' => {}
                            other => panic!("unknown sequence {other}"),
                        }
                    }
                    _ => {
                        if column + char_width(ch) > 40 {
                            row += 1;
                            column = 0;
                        }
                        rows.resize(rows.len().max(row + 1), Vec::new());
                        let line = &mut rows[row];
                        line.resize(line.len().max(column + 1), ' ');
                        line[column] = ch;
                        column += char_width(ch);
                    }
                }
            }
            let text = |row: &Vec<char>| row.iter().collect::<String>().trim_end().to_owned();
            let mut lines: Vec<String> = rows.iter().map(text).collect();
            while lines.last().is_some_and(String::is_empty) {
                lines.pop();
            }
            lines
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Paper;

    #[test]
    fn the_status_stays_below_and_goes_without_a_trace() {
        let paper = Paper::default();
        let mut screen = paper.open_screen(true);
        screen.set_status("working");
        assert_eq!(paper.visible_rows(), ["working"]);
        screen.write("hello ");
        assert_eq!(paper.visible_rows(), ["hello", "working"]);
        screen.write("world\nnext");
        assert_eq!(paper.visible_rows(), ["hello world", "next", "working"]);
        screen.set_status("still");
        assert_eq!(paper.visible_rows(), ["hello world", "next", "still"]);
        drop(screen);
        assert_eq!(paper.visible_rows(), ["hello world", "next"]);
    }

    #[test]
    fn takes_off_what_was_written_also_where_it_wrapped() {
        let paper = Paper::default();
        let mut screen = paper.open_screen(true);
        screen.write_line("stays");
        let mark = screen.mark_line();
        screen.set_status("s");
        screen.write(&format!("{}\nand more", "x".repeat(90)));
        assert!(screen.erase_to(mark));
        screen.set_status("");
        screen.write_line("instead");
        assert_eq!(paper.visible_rows(), ["stays", "instead"]);
        screen.write(&"\n".repeat(20));
        assert!(!screen.erase_to(mark), "out of reach");
        assert!(!Paper::default().open_screen(false).erase_to(mark));
    }

    #[test]
    fn nothing_but_our_colours_acts_on_the_terminal() {
        let paper = Paper::default();
        let mut screen = paper.open_screen(false);
        let evil = "a\u{1b}]52;c;eA==\u{7}b\u{1b}[2Jc\u{1b}[8md\u{9b}1Je\u{202e}\u{e0041}\u{200b}\u{7}";
        screen.write_line(&format!("\u{1b}[1;31mred\u{1b}[0m {evil} \u{1b}[2mdim\u{1b}[0m"));
        let raw = paper.raw_text();
        assert_eq!(raw, "\u{1b}[1;31mred\u{1b}[0m abcde \u{1b}[2mdim\u{1b}[0m\n");
    }

    #[test]
    fn one_empty_line_is_enough() {
        let paper = Paper::default();
        let mut screen = paper.open_screen(false);
        screen.write_gap();
        screen.write("a");
        screen.write_gap();
        screen.write_gap();
        screen.write_line("b");
        assert_eq!(paper.raw_text(), "a\n\nb\n");
    }
}
