//! Streaming Markdown: characters in, colored text out, append-only.
//!
//! Invariants: output never changes later, so text flows like typing and can be piped. It depends on the characters
//! alone, not on how the deltas split them. Only what is still undecided is held back: the start of a line, a word, a
//! link, a line of code, a table. Styles within a line are `wrap`'s job.
//!
//! A CommonMark parser cannot do this: it decides about a block at the block's end, or even the document's, and what was
//! shown would have to be erased. A dumb terminal, a pipe, and a line that scrolled away cannot erase.

use super::style::{Color, Styler, diff_color, measure_width, wrap_text};
use super::wrap::{LineWrapper, Spans};

/// The renderer of one message.
#[derive(Debug)]
pub(super) struct Markdown {
    styler: Styler,
    /// The columns of a table.
    full: usize,
    block: MarkdownBlock,
    spans: Spans,
    flow: LineWrapper,
    escape: Escape,
    table: Vec<String>,
    /// Something was already shown, so an empty line may precede the next block.
    has_output: bool,
    blank: bool,
}

/// The position within a foreign escape sequence, which is swallowed.
#[derive(Debug)]
enum Escape {
    None,
    Begun,
    /// Until a final byte, as in `ESC [ … m`.
    Control,
    /// Until a bell, or until another escape and its next character.
    Text,
}

impl Escape {
    fn consume_char(&mut self, ch: char) -> bool {
        let (next, swallowed) = match (&self, ch) {
            // A line feed ends every sequence: one that never ends must not swallow the message.
            (_, '\n') => (Self::None, false),
            (Self::None, '\u{1b}') => (Self::Begun, true),
            (Self::None, '\u{9b}') => (Self::Control, true),
            (Self::None, _) => (Self::None, false),
            (Self::Begun, '[') => (Self::Control, true),
            (Self::Begun, ']' | 'P' | '_' | '^' | 'X') => (Self::Text, true),
            (Self::Begun, ' '..='/') => (Self::Begun, true),
            (Self::Begun, _) => (Self::None, true),
            (Self::Control, ' '..='?') => (Self::Control, true),
            (Self::Control, _) => (Self::None, true),
            (Self::Text, '\u{7}' | '\u{9c}') => (Self::None, true),
            (Self::Text, '\u{1b}') => (Self::Begun, true),
            (Self::Text, _) => (Self::Text, true),
        };
        *self = next;
        swallowed
    }
}

/// The kind of line being read.
#[derive(Debug)]
enum MarkdownBlock {
    /// The start of a line, while its kind is undecided.
    Start(String),
    /// A line whose text flows to the output.
    Text,
    /// A fenced code block: its fence and the line so far.
    Code(Fence, String),
    /// A line that is rendered only when complete: a fence, a rule, a table row.
    Whole(String),
}

#[derive(Clone, Debug)]
struct Fence {
    ch: char,
    len: usize,
    indent: usize,
    lang: String,
}

/// What the start of a line reveals.
#[derive(Debug, PartialEq, Eq)]
enum BlockStart {
    Undecided,
    Whole,
    /// Text of this kind starts at this byte.
    Text(LineKind, usize),
}

#[derive(Debug, PartialEq, Eq)]
enum LineKind {
    Plain,
    Heading(usize),
    Bullet,
    /// An item of a list of tasks, and whether it is done.
    Task(bool),
    /// The number with its delimiter and space.
    Ordered(String),
    Quote,
}

impl Markdown {
    /// Creates a renderer for lines of at most `width` columns, and tables of at most `full`.
    pub(super) fn new(styler: Styler, width: usize, full: usize) -> Self {
        Self {
            styler,
            full,
            block: MarkdownBlock::Start(String::new()),
            spans: Spans::default(),
            flow: LineWrapper::new(styler, width),
            escape: Escape::None,
            table: Vec::new(),
            has_output: false,
            blank: false,
        }
    }

    /// Adds text and returns what can be shown of it.
    pub(super) fn push(&mut self, text: &str) -> String {
        for ch in text.chars() {
            match ch {
                _ if self.escape.consume_char(ch) => {}
                '\n' => self.line_ends(),
                '\t' => (0..4).for_each(|_| self.take(' ')),
                // Characters that reorder text would make a user read something else than what is there.
                _ if ch.is_control() || matches!(ch, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {}
                _ => self.take(ch),
            }
        }
        self.flow.take_output()
    }

    /// Ends the message: returns the held-back rest and ends the line.
    pub(super) fn finish(&mut self) -> String {
        let pending = match &self.block {
            MarkdownBlock::Start(line) | MarkdownBlock::Whole(line) | MarkdownBlock::Code(_, line) => {
                !line.is_empty()
            }
            MarkdownBlock::Text => true,
        };
        if pending {
            self.line_ends();
        }
        self.end_table();
        self.flow.take_output()
    }

    fn take(&mut self, ch: char) {
        match &mut self.block {
            MarkdownBlock::Code(_, line) | MarkdownBlock::Whole(line) => line.push(ch),
            MarkdownBlock::Text => self.spans.take(ch, &mut self.flow),
            MarkdownBlock::Start(line) => {
                line.push(ch);
                match classify_line(line) {
                    BlockStart::Undecided => {}
                    BlockStart::Whole => self.block = MarkdownBlock::Whole(std::mem::take(line)),
                    BlockStart::Text(kind, from) => {
                        let line = std::mem::take(line);
                        self.begin_text(kind, &line, from);
                    }
                }
            }
        }
    }

    fn line_ends(&mut self) {
        match std::mem::replace(&mut self.block, MarkdownBlock::Start(String::new())) {
            MarkdownBlock::Start(line) if line.trim().is_empty() => {
                self.end_table();
                self.blank = true;
            }
            // The line ended before its start revealed its kind.
            MarkdownBlock::Start(line) | MarkdownBlock::Whole(line) => self.push_complete_line(&line),
            MarkdownBlock::Text => {
                self.spans.end_line(&mut self.flow);
                self.flow.end_line();
            }
            MarkdownBlock::Code(fence, line) => {
                if fence.is_closed_by(&line) {
                    self.blank = true;
                } else {
                    self.code_line(&fence, &line);
                    self.block = MarkdownBlock::Code(fence, String::new());
                }
            }
        }
    }

    fn begin_text(&mut self, kind: LineKind, line: &str, from: usize) {
        self.end_table();
        self.begin_line();
        let indent = " ".repeat(line.len() - line.trim_start().len());
        let plain = !self.styler.use_color;
        match kind {
            LineKind::Plain => self.flow.begin_with_prefix(&indent, &indent),
            LineKind::Heading(level) => {
                let marks = format!("{} ", "#".repeat(level));
                self.flow.begin_with_prefix(if plain { &marks } else { "" }, "");
                self.spans.base = if level <= 2 { "1;36" } else { "1" };
            }
            LineKind::Bullet => self
                .flow
                .begin_with_prefix(&format!("{indent}• "), &format!("{indent}  ")),
            LineKind::Task(is_done) => {
                let mark = if is_done { "☑" } else { "☐" };
                self.flow
                    .begin_with_prefix(&format!("{indent}{mark} "), &format!("{indent}  "));
            }
            LineKind::Ordered(number) => {
                let hang = " ".repeat(indent.len() + number.len());
                self.flow.begin_with_prefix(&format!("{indent}{number}"), &hang);
            }
            LineKind::Quote => {
                self.flow.begin_with_prefix("▎ ", "▎ ");
                self.spans.base = "2";
            }
        }
        self.block = MarkdownBlock::Text;
        self.spans.begin_line(&mut self.flow);
        for ch in line[from..].chars() {
            self.spans.take(ch, &mut self.flow);
        }
    }

    fn push_complete_line(&mut self, line: &str) {
        let bare = line.trim();
        if bare.starts_with('|') {
            // The widths of the columns depend on every row, so a table waits for its end.
            self.table.push(bare.to_owned());
            return;
        }
        if let Some(fence) = Fence::parse_line(line) {
            self.end_table();
            self.blank = true;
            self.block = MarkdownBlock::Code(fence, String::new());
            return;
        }
        if is_rule(bare) {
            self.end_table();
            self.begin_line();
            let rule = "─".repeat(self.full.min(40));
            self.flow.push_raw(&format!("{}\n", self.styler.dim_text(&rule)));
            return;
        }
        let at = line.len() - line.trim_start().len();
        // A line that ends before it can be a task.
        let is_bullet = ["- ", "* ", "+ "].iter().any(|mark| line[at..].starts_with(mark));
        if is_bullet {
            self.begin_text(LineKind::Bullet, line, at + 2);
        } else {
            self.begin_text(LineKind::Plain, line, at);
        }
        self.line_ends();
    }

    fn code_line(&mut self, fence: &Fence, line: &str) {
        self.begin_line();
        let spaces = line.len() - line.trim_start_matches(' ').len();
        // CommonMark: the lines of a block lose the indentation of its fence.
        let line = &line[spaces.min(fence.indent)..];
        let color = match fence.lang.as_str() {
            "diff" | "patch" => diff_color(line),
            _ => Some(Color::Cyan),
        };
        let painted = color.map_or_else(|| line.to_owned(), |color| self.styler.paint_text(color, line));
        let indent = if line.is_empty() { "" } else { "  " };
        self.flow.push_raw(&format!("{indent}{painted}\n"));
    }

    fn begin_line(&mut self) {
        if self.has_output && self.blank {
            self.flow.push_raw("\n");
        }
        self.has_output = true;
        self.blank = false;
    }

    fn end_table(&mut self) {
        if self.table.is_empty() {
            return;
        }
        let rows = std::mem::take(&mut self.table);
        self.begin_line();
        let text = render_table(self.styler, self.full, &rows);
        self.flow.push_raw(&text);
    }
}

impl Fence {
    fn parse_line(line: &str) -> Option<Self> {
        let bare = line.trim_start();
        let ch = bare.chars().next().filter(|ch| matches!(ch, '`' | '~'))?;
        let len = bare.chars().take_while(|other| *other == ch).count();
        let info = bare[len..].trim();
        // CommonMark: a backtick after the run makes it inline code.
        if len < 3 || ch == '`' && info.contains('`') {
            return None;
        }
        Some(Self {
            ch,
            len,
            indent: line.len() - bare.len(),
            lang: info.split_whitespace().next().unwrap_or_default().to_lowercase(),
        })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let bare = line.trim();
        bare.len() >= self.len && bare.chars().all(|ch| ch == self.ch)
    }
}

fn is_rule(bare: &str) -> bool {
    ['-', '*', '_']
        .iter()
        .any(|mark| bare.len() >= 3 && bare.chars().all(|ch| ch == *mark))
}

/// Classifies a line from as few characters as possible, so that its text can flow early.
fn classify_line(line: &str) -> BlockStart {
    let bare = line.trim_start_matches(' ');
    let at = line.len() - bare.len();
    let Some(first) = bare.chars().next() else {
        return BlockStart::Undecided;
    };
    let run = bare.chars().take_while(|ch| *ch == first).count();
    let after = bare.chars().nth(run);
    match first {
        '|' => BlockStart::Whole,
        '`' | '~' | '-' | '*' | '_' if run >= 3 && after.is_none() => {
            // Could still become a fence, a rule, or `***bold and italic***`.
            if matches!(first, '`' | '~') {
                BlockStart::Whole
            } else {
                BlockStart::Undecided
            }
        }
        '`' | '~' | '_' if after.is_none() => BlockStart::Undecided,
        '-' | '*' | '+' => match (run, after) {
            (1, Some(' ')) => classify_bullet(bare, at),
            (_, None) => BlockStart::Undecided,
            (3.., Some(' ')) if bare.trim_end().len() == run => BlockStart::Undecided,
            _ => BlockStart::Text(LineKind::Plain, at),
        },
        '#' => match (run, after) {
            (1..=6, Some(' ')) => BlockStart::Text(LineKind::Heading(run), at + run + 1),
            (1..=6, None) => BlockStart::Undecided,
            _ => BlockStart::Text(LineKind::Plain, at),
        },
        '>' => match bare.chars().nth(1) {
            None => BlockStart::Undecided,
            Some(' ') => BlockStart::Text(LineKind::Quote, at + 2),
            Some(_) => BlockStart::Text(LineKind::Quote, at + 1),
        },
        '0'..='9' => classify_ordered_item(bare, at),
        _ => BlockStart::Text(LineKind::Plain, at),
    }
}

/// Tells a task, `- [ ] words`, from another item. `at` is where the item starts.
fn classify_bullet(bare: &str, at: usize) -> BlockStart {
    let item = &bare[2..];
    match item {
        _ if item.starts_with("[ ] ") => BlockStart::Text(LineKind::Task(false), at + 6),
        _ if item.starts_with("[x] ") || item.starts_with("[X] ") => {
            BlockStart::Text(LineKind::Task(true), at + 6)
        }
        _ if ["[ ] ", "[x] ", "[X] "].iter().any(|mark| mark.starts_with(item)) => BlockStart::Undecided,
        _ => BlockStart::Text(LineKind::Bullet, at + 2),
    }
}

fn classify_ordered_item(bare: &str, at: usize) -> BlockStart {
    let digits = bare.chars().take_while(char::is_ascii_digit).count();
    let mut rest = bare[digits..].chars();
    match (rest.next(), rest.next()) {
        // CommonMark allows nine digits.
        (None, _) if digits <= 9 => BlockStart::Undecided,
        (Some('.' | ')'), None) => BlockStart::Undecided,
        (Some('.' | ')'), Some(' ')) if digits <= 9 => {
            let number = bare[..digits + 2].to_owned();
            BlockStart::Text(LineKind::Ordered(number), at + digits + 2)
        }
        _ => BlockStart::Text(LineKind::Plain, at),
    }
}

/// Splits a table's row into cells.
fn split_row(row: &str) -> Vec<String> {
    // `\u{1}` protects escaped bars from the split; `push` has removed it from the input.
    let inner = row.trim_matches('|').replace("\\|", "\u{1}");
    let cells = inner.split('|');
    cells.map(|cell| cell.trim().replace('\u{1}', "|")).collect()
}

fn is_divider(row: &[String]) -> bool {
    let is_dashes = |cell: &String| !cell.is_empty() && cell.chars().all(|ch| matches!(ch, '-' | ':'));
    row.iter().all(is_dashes)
}

/// Renders a table; the first row is its head. Shrinks and wraps wide columns until it fits.
fn render_table(styler: Styler, max: usize, rows: &[String]) -> String {
    let mut rows: Vec<Vec<String>> = rows.iter().map(|row| split_row(row)).collect();
    rows.retain(|row| !is_divider(row));
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    for row in &mut rows {
        row.resize(columns, String::new());
        row.iter_mut()
            .for_each(|cell| *cell = render_inline(styler, cell));
    }
    let shown_width = |cell: &str| measure_width(&strip_colors(cell));
    let widest = |column: usize| rows.iter().map(|row| shown_width(&row[column])).max();
    let mut widths: Vec<usize> = (0..columns).filter_map(widest).collect();
    let available = max.saturating_sub(columns.saturating_sub(1) * 3);
    let fits = widths.iter().sum::<usize>() <= available;
    while widths.iter().sum::<usize>() > available {
        match widths.iter_mut().max() {
            Some(widest) if *widest > 8 => *widest -= 1,
            _ => break,
        }
    }
    let fold_cell = |(cell, width): (&String, &usize)| {
        if fits {
            vec![cell.clone()]
        } else {
            wrap_text(&strip_colors(cell), *width)
        }
    };
    let mut out = String::new();
    for (number, row) in rows.iter().enumerate() {
        let folded: Vec<Vec<String>> = row.iter().zip(&widths).map(fold_cell).collect();
        let height = folded.iter().map(Vec::len).max().unwrap_or(1).max(1);
        for line in 0..height {
            let cells = folded
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, width))| {
                    let cell = cell.get(line).map_or("", String::as_str);
                    let padding = width.saturating_sub(shown_width(cell));
                    let styled = match number {
                        0 => styler.paint_text(Color::Bold, cell),
                        _ => cell.to_owned(),
                    };
                    styled + &" ".repeat(if column + 1 < columns { padding } else { 0 })
                });
            let text = cells.collect::<Vec<_>>().join(&styler.dim_text(" │ "));
            out.push_str(text.trim_end());
            out.push('\n');
        }
        if number == 0 {
            let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            out.push_str(&styler.dim_text(&rules.join("─┼─")));
            out.push('\n');
        }
    }
    out
}

/// Removes the colors from a text that this module colored.
fn strip_colors(painted: &str) -> String {
    let mut pieces = painted.split("\u{1b}[");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| {
        text + piece.split_once('m').map_or("", |(_, rest)| rest)
    })
}

/// Renders one line of text without block structure.
fn render_inline(styler: Styler, text: &str) -> String {
    let mut flow = LineWrapper::new(styler, usize::MAX);
    let mut spans = Spans::default();
    spans.begin_line(&mut flow);
    text.chars().for_each(|ch| spans.take(ch, &mut flow));
    spans.end_line(&mut flow);
    flow.end_line();
    flow.take_output().trim_end_matches('\n').to_owned()
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
