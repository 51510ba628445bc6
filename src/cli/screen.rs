//! The terminal as an append-only log: permanent text, and one temporary status line below it.
//!
//! Tracks rows and columns, so that recent text can be erased again; knows nothing about its meaning. All lines for
//! people pass through here. Invariant: no control character or sequence reaches a terminal, except line feeds and our
//! own colors.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::OnceLock;

use rustix::termios::tcgetwinsize;

use super::style::{Color, Styler, char_width, fit_line, wrap_text};
use crate::base::text::{escape_for_terminal, strip_control_characters};

/// The maximum width of a line for reading, in columns.
const READABLE: usize = 100;

/// An output with a status line, or a plain stream.
pub(super) struct Screen {
    out: Box<dyn Write + Send>,
    terminal: bool,
    /// Returns columns and rows; called again at each use, because a terminal may be resized.
    size: fn() -> (usize, usize),
    /// The style of everything written here.
    pub(super) styler: Styler,
    /// The cursor's column.
    column: usize,
    /// Rows written so far.
    row: u64,
    /// The line above the cursor is empty.
    blank: bool,
    status: String,
    /// The status line is on the screen.
    drawn: bool,
    /// Suppresses empty lines between blocks.
    tight: bool,
}

/// The start of a line that [`Screen::erase_to`] can return to.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatusMark {
    row: u64,
    blank: bool,
    size: (usize, usize),
}

impl Screen {
    /// Writes to standard output.
    pub(super) fn with_stdout(terminal: bool, styler: Styler) -> Self {
        // `width` subtracts one column, so 81 yields lines of 80.
        let size: fn() -> (usize, usize) = if terminal { terminal_size } else { || (81, 24) };
        Self::with_output(Box::new(WatchedStdout), terminal, size, styler)
    }

    /// Writes to standard error.
    pub(super) fn with_stderr(terminal: bool, styler: Styler) -> Self {
        let size: fn() -> (usize, usize) = if terminal { terminal_size } else { || (81, 24) };
        Self::with_output(Box::new(std::io::stderr()), terminal, size, styler)
    }

    /// Writes to any output; `size` returns columns and rows.
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

    /// Returns whether the output is a terminal.
    pub(super) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Returns how many columns a line of prose may use: 20 to 100.
    pub(super) fn width(&self) -> usize {
        (self.size)().0.saturating_sub(1).clamp(20, READABLE)
    }

    /// Returns how many columns a diff, a table or the output of a command may use: all, and at least 20.
    pub(super) fn full_width(&self) -> usize {
        (self.size)().0.saturating_sub(1).max(20)
    }

    /// Returns the row of the log where text continues.
    pub(super) fn row(&self) -> u64 {
        self.row
    }

    /// Returns how many rows the terminal has.
    pub(super) fn height(&self) -> usize {
        (self.size)().1
    }

    /// Returns whether there are status lines.
    pub(super) fn has_status(&self) -> bool {
        self.terminal && !self.styler.dumb
    }

    /// Suppresses empty lines between blocks from now on.
    pub(super) fn disable_gaps(&mut self) {
        self.tight = true;
    }

    /// Appends text that may contain line feeds and our colors.
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
                    // Raw mode needs the carriage return; other modes tolerate it.
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
            // The terminal wraps here on its own; count the row so that `erase_to` finds its way back.
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

    /// Appends a line, and starts on a new one if necessary.
    pub(super) fn write_line(&mut self, text: &str) {
        self.fresh_line();
        self.write(&format!("{text}\n"));
    }

    /// Appends a line that starts with `first` (`columns` wide, colored or not). Wrapped lines align behind it.
    pub(super) fn write_entry(&mut self, first: &str, columns: usize, text: &str) {
        let available = self.width().saturating_sub(columns);
        let lines = wrap_text(text, available);
        let blank = " ".repeat(columns);
        for (number, line) in lines.iter().enumerate() {
            self.write_line(&format!("{}{line}", if number == 0 { first } else { &blank }));
        }
    }

    /// Records that something else ended a line: the cursor is at the start of the next one.
    pub(super) fn note_foreign_newline(&mut self) {
        self.row += 1;
        self.column = 0;
        self.blank = false;
    }

    /// Ends the current line if it contains text.
    pub(super) fn fresh_line(&mut self) {
        if self.column > 0 {
            self.write("\n");
        }
    }

    /// Ensures exactly one empty line before the next text.
    pub(super) fn write_gap(&mut self) {
        self.fresh_line();
        if !self.blank && !self.tight {
            self.write("\n");
        }
    }

    /// Sets the status lines; empty text removes them. Only terminals have them. A colored line must fit.
    pub(super) fn set_status(&mut self, text: &str) {
        if !self.has_status() || (text == self.status && self.drawn) {
            return;
        }
        let mut bytes = String::new();
        self.erase_status(&mut bytes);
        text.clone_into(&mut self.status);
        self.draw_status(&mut bytes);
        self.write_bytes(&bytes);
    }

    /// Returns the start of the next line, for [`Self::erase_to`].
    pub(super) fn mark_line(&mut self) -> StatusMark {
        self.fresh_line();
        StatusMark {
            row: self.row,
            blank: self.blank,
            size: (self.size)(),
        }
    }

    /// Erases everything written since `mark`. Returns false if those rows are out of reach.
    pub(super) fn erase_to(&mut self, mark: StatusMark) -> bool {
        let size = (self.size)();
        let rows = self.row.saturating_sub(mark.row);
        // A resize rewraps rows, and rows that scrolled away cannot be reached; in both cases the count is wrong.
        let below = self.status.lines().count().max(1) as u64;
        if !self.has_status() || size != mark.size || rows + below + 1 > size.1 as u64 {
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

    /// Draws the status in the next rows, then returns the cursor to where text continues.
    fn draw_status(&mut self, bytes: &mut String) {
        if self.status.is_empty() {
            return;
        }
        let (columns, rows) = (self.size)();
        let lines: Vec<&str> = self.status.lines().collect();
        // The end matters most. The row where text continues must stay in reach.
        let hidden = lines.len().saturating_sub(rows.saturating_sub(2).max(1));
        let paint = |line: &&str| {
            if line.contains('\u{1b}') {
                return without_controls(line).into_owned();
            }
            self.styler.dim_text(&fit_line(line, columns.saturating_sub(1)))
        };
        let painted: Vec<String> = lines[hidden..].iter().map(paint).collect();
        let mut up = painted.len() - 1;
        if self.column > 0 {
            bytes.push_str("\r\n");
            up += 1;
        }
        bytes.push_str(&painted.join("\r\n"));
        if up > 0 {
            bytes.push_str(&format!("\u{1b}[{up}A"));
        }
        if self.column > 0 {
            bytes.push_str(&format!("\u{1b}[{}G", (self.column + 1).min(columns)));
        } else {
            bytes.push('\r');
        }
        self.drawn = true;
    }

    fn write_bytes(&mut self, bytes: &str) {
        // If the reader of our output is gone, there is no one to tell.
        let _ = self.out.write_all(bytes.as_bytes());
        let _ = self.out.flush();
    }
}

/// Returns the text without control and invisible characters; keeps our own colors.
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
                // A foreign sequence: clean everything up to our next color as one piece.
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

/// Writes JSON to standard output; escapes it on a terminal, so that nothing in it acts there.
pub(super) fn print_json(json: &str) -> std::io::Result<bool> {
    if std::io::stdout().is_terminal() {
        print_to_stdout(&escape_for_terminal(json))
    } else {
        print_to_stdout(json)
    }
}

/// Writes to standard output for programs. Returns false if the reader is gone, which is not an error.
pub(super) fn print_to_stdout(text: &str) -> std::io::Result<bool> {
    let mut out = WatchedStdout;
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// The first failure to write to standard output.
static STDOUT_FAILURE: OnceLock<String> = OnceLock::new();

/// Returns why something could not be written to standard output. A reader that has gone away is not an error.
pub(super) fn stdout_failure() -> Option<&'static str> {
    STDOUT_FAILURE.get().map(String::as_str)
}

/// Standard output, whose first failure is kept: most writers have nobody to report it to.
struct WatchedStdout;

impl WatchedStdout {
    fn note_failure<T>(result: std::io::Result<T>) -> std::io::Result<T> {
        result.inspect_err(|error| {
            if error.kind() != std::io::ErrorKind::BrokenPipe {
                STDOUT_FAILURE.get_or_init(|| error.to_string());
            }
        })
    }
}

impl Write for WatchedStdout {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Self::note_failure(std::io::stdout().write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Self::note_failure(std::io::stdout().flush())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A status line must not stay behind on the shell's screen.
        self.set_status("");
    }
}

fn terminal_size() -> (usize, usize) {
    let size = tcgetwinsize(std::io::stdout()).or_else(|_| tcgetwinsize(std::io::stderr()));
    // A terminal that does not know its size reports 0.
    let (columns, rows) = size.map_or((0, 0), |size| (size.ws_col, size.ws_row));
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

    /// Records the output, and renders it as a terminal of 40 columns would.
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
                use_color: false,
                dumb: false,
            };
            Screen::with_output(Box::new(self.clone()), terminal, || (40, 12), styler)
        }

        pub(in crate::cli) fn raw_text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }

        /// Returns the visible rows without trailing white space.
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
    fn status_stays_below_the_text_and_leaves_no_trace() {
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
    fn several_status_lines_stay_below_the_text() {
        let paper = Paper::default();
        let mut screen = paper.open_screen(true);
        screen.set_status("one\ntwo");
        screen.write("hello ");
        assert_eq!(paper.visible_rows(), ["hello", "one", "two"]);
        let mark = screen.mark_line();
        screen.write("world\nnext\n");
        assert_eq!(paper.visible_rows(), ["hello", "world", "next", "one", "two"]);
        assert!(screen.erase_to(mark));
        assert_eq!(paper.visible_rows(), ["hello", "one", "two"]);
        // More than fits: the last ones, which hold the keys.
        let many: Vec<String> = (1..=30).map(|number| format!("line {number}")).collect();
        screen.set_status(&many.join("\n"));
        assert_eq!(paper.visible_rows().len(), 11);
        assert_eq!(paper.visible_rows().last().unwrap(), "line 30");
        screen.set_status("");
        assert_eq!(paper.visible_rows(), ["hello"]);
    }

    #[test]
    fn erase_removes_wrapped_lines_too() {
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
    fn only_own_colors_reach_the_terminal() {
        let paper = Paper::default();
        let mut screen = paper.open_screen(false);
        let evil = "a\u{1b}]52;c;eA==\u{7}b\u{1b}[2Jc\u{1b}[8md\u{9b}1Je\u{202e}\u{e0041}\u{200b}\u{7}";
        screen.write_line(&format!("\u{1b}[1;31mred\u{1b}[0m {evil} \u{1b}[2mdim\u{1b}[0m"));
        let raw = paper.raw_text();
        assert_eq!(raw, "\u{1b}[1;31mred\u{1b}[0m abcde \u{1b}[2mdim\u{1b}[0m\n");
    }

    #[test]
    fn consecutive_gaps_make_one_empty_line() {
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
