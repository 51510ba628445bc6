//! Converts HTML to Markdown for a model: text, headings, lists, tables, code, and links.
//!
//! Works on the parser's tokens without a tree, in one pass and without recursion: a deeply nested page must not
//! overflow the stack, which would end the server. Invisible parts (scripts, hidden elements) are left out. Must not
//! load anything.

mod inline;
mod table;

use std::cell::RefCell;

use html5ever::TokenizerResult;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use url::Url;

use inline::{InlineLine, InlineMark};
use table::HtmlTable;

/// Longest Markdown, in bytes; the rest is left out.
const MAX_OUT: usize = 4 << 20;
/// Deepest nesting of lists and quotes that is shown.
const MAX_DEPTH: usize = 12;
/// How many bytes are read between two calls of `stop`.
const PIECE: usize = 16 << 10;
/// Longest address of a link, in bytes.
const MAX_ADDRESS: usize = 2_000;
/// A `main` element with less text than this, in bytes, does not count as the page.
const MIN_MAIN: usize = 200;
/// Elements without text to read, or with none of the page itself.
const WITHOUT_TEXT: &str = "\
    script style noscript template svg canvas iframe object audio video select textarea noembed noframes \
    nav dialog";
/// Elements whose end tag is always written.
const ALWAYS_ENDED: &str = "\
    div span section aside a ul ol table button label figure form header footer article h1 h2 h3 h4 h5 \
    h6 b i em strong small font pre blockquote";
/// Elements that begin a block.
const BLOCKS: &str = "\
    p div section article header footer aside main h1 h2 h3 h4 h5 h6 ul ol li dl dt dd table tr caption \
    figure figcaption blockquote address details summary fieldset legend form center body html head \
    hgroup option button";

/// A page as Markdown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::tool) struct MarkdownPage {
    pub(in crate::tool) title: String,
    /// The text as Markdown.
    pub(in crate::tool) text: String,
    /// The end of the page is missing.
    pub(in crate::tool) cut: bool,
}

/// Converts `html`, found at `url`; leaves out the rest once `stop` returns true.
pub(in crate::tool) fn convert_html(html: &str, url: &Url, stop: impl Fn() -> bool) -> MarkdownPage {
    // The tokenizer has only a shared reference to its sink.
    let writer = RefCell::new(MarkdownWriter::new(url.clone()));
    let tokenizer = Tokenizer::new(MarkdownSink(writer), TokenizerOpts::default());
    let input = BufferQueue::default();
    let (mut rest, mut cut) = (html, false);
    while !rest.is_empty() && !cut {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
        input.push_back(StrTendril::from(piece));
        // The tokenizer also stops after each script.
        while let TokenizerResult::Script(()) = tokenizer.feed(&input) {}
        // Asked after each piece, since feeding cannot be interrupted.
        (rest, cut) = (after, stop());
    }
    tokenizer.end();
    let page = tokenizer.sink.0.into_inner().into_page();
    MarkdownPage { cut, ..page }
}

struct MarkdownSink(RefCell<MarkdownWriter>);

impl TokenSink for MarkdownSink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut writer = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) => writer.handle_tag(&tag),
            Token::CharacterTokens(text) => {
                writer.text(&text);
                TokenSinkResult::Continue
            }
            Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::NullCharacterToken
            | Token::EOFToken
            | Token::ParseError(_) => TokenSinkResult::Continue,
        }
    }
}

/// A container of blocks.
enum BlockContext {
    /// A list; contains the next number of a numbered one.
    List(Option<u64>),
    /// A list item: its marker until that is written, and the indentation of its lines.
    Item {
        marker: Option<String>,
        indent: usize,
    },
    Quote,
}

/// Text that is copied unchanged.
struct CodeBlock {
    language: String,
    text: String,
}

struct MarkdownWriter {
    /// The address that links are relative to.
    base: Url,
    out: String,
    title: String,
    in_title: bool,
    around: Vec<BlockContext>,
    line: InlineLine,
    /// What the line begins with, such as the number signs of a heading.
    lead: &'static str,
    code: Option<CodeBlock>,
    table: Option<HtmlTable>,
    /// Number of open tables inside the table.
    inner_tables: usize,
    /// The element being left out, and how many elements of its name are open.
    hidden: Option<(String, usize)>,
    /// Where the page's main part begins and ends in `out`.
    main: (Option<usize>, Option<usize>),
    /// The last block belonged to an item, so the next item follows without an empty line.
    tight: bool,
}

impl MarkdownWriter {
    fn new(base: Url) -> Self {
        Self {
            base,
            out: String::new(),
            title: String::new(),
            in_title: false,
            around: Vec::new(),
            line: InlineLine::default(),
            lead: "",
            code: None,
            table: None,
            inner_tables: 0,
            hidden: None,
            main: (None, None),
            tight: false,
        }
    }

    fn into_page(mut self) -> MarkdownPage {
        self.end_code();
        self.end_table();
        self.end_paragraph();
        let (start, end) = self.main;
        let end = end.unwrap_or(self.out.len());
        let main = start.map_or("", |start| self.out[start.min(end)..end].trim());
        let text = if main.len() >= MIN_MAIN {
            main
        } else {
            self.out.trim()
        };
        MarkdownPage {
            title: self.title.split_whitespace().collect::<Vec<_>>().join(" "),
            text: text.to_owned(),
            cut: false,
        }
    }

    fn text(&mut self, text: &str) {
        if self.hidden.is_some() || self.out.len() > MAX_OUT {
            return;
        }
        if self.in_title {
            self.title.push_str(text);
        } else if let Some(code) = &mut self.code {
            code.text.push_str(text);
        } else {
            self.line.push(text);
        }
    }

    fn handle_tag(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name: &str = &tag.name;
        let starts = tag.kind == TagKind::StartTag;
        match self.is_left_out(tag, name, starts) {
            true => {}
            false if self.line.is_full() || self.out.len() > MAX_OUT => {}
            false if starts => self.start(tag, name),
            false => self.end_element(name),
        }
        // Elements in which the parser must not look for tags.
        let raw = match name {
            "script" => RawKind::ScriptData,
            "style" | "iframe" | "noembed" | "noframes" | "xmp" => RawKind::Rawtext,
            "title" | "textarea" => RawKind::Rcdata,
            _ => return TokenSinkResult::Continue,
        };
        if starts {
            TokenSinkResult::RawData(raw)
        } else {
            TokenSinkResult::Continue
        }
    }

    /// Returns whether a tag belongs to something that is left out.
    fn is_left_out(&mut self, tag: &Tag, name: &str, starts: bool) -> bool {
        if let Some((hidden, open)) = &mut self.hidden {
            if *hidden == name {
                *open = if starts { *open + 1 } else { *open - 1 };
                if *open == 0 {
                    self.hidden = None;
                }
            }
            return true;
        }
        let leaves_out =
            starts && !tag.self_closing && (is_listed(WITHOUT_TEXT, name) || is_hidden(tag, name));
        if leaves_out {
            self.hidden = Some((name.to_owned(), 1));
        }
        leaves_out
    }

    fn start(&mut self, tag: &Tag, name: &str) {
        if self.code.is_some() {
            return self.start_in_code(tag, name);
        }
        match name {
            "title" => self.in_title = true,
            "base" => {
                let base = find_attribute(tag, "href").and_then(|href| self.base.join(href).ok());
                // Every relative link repeats the base, so a long one would multiply.
                if let Some(base) = base.filter(|base| base.as_str().len() <= MAX_ADDRESS) {
                    self.base = base;
                }
            }
            "br" => self.line.line_break(),
            "hr" => {
                self.end_paragraph();
                self.write_block("---");
            }
            "img" => self.write_image(tag),
            "a" => {
                let to = find_attribute(tag, "href").and_then(|href| self.resolve_link(href));
                self.line.begin_link(to);
            }
            "main" => {
                self.end_paragraph();
                // Only the first `main` counts.
                self.main.0.get_or_insert(self.out.len());
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.end_paragraph();
                self.lead = to_heading_marker(name);
            }
            "pre" | "xmp" => self.begin_code(find_code_language(tag)),
            "blockquote" => {
                self.end_paragraph();
                self.enter_container(BlockContext::Quote);
            }
            "ul" | "menu" => {
                self.end_paragraph();
                self.enter_container(BlockContext::List(None));
            }
            "ol" => {
                self.end_paragraph();
                let first = find_attribute(tag, "start").and_then(|start| start.trim().parse().ok());
                self.enter_container(BlockContext::List(Some(first.unwrap_or(1))));
            }
            "li" => self.begin_item(),
            "dd" => {
                self.end_paragraph();
                self.lead = ": ";
            }
            "table" => self.begin_table(),
            "tr" => {
                // End tags of rows and cells are optional in HTML.
                self.end_cell();
                if let Some(table) = &mut self.table {
                    table.begin_row();
                }
            }
            "td" | "th" => {
                self.end_cell();
                match &mut self.table {
                    Some(table) => table.begin_cell(),
                    None => self.end_paragraph(),
                }
            }
            _ => match InlineMark::from_element(name) {
                Some(mark) => self.line.begin_mark(mark),
                None if is_listed(BLOCKS, name) => self.end_paragraph(),
                None => {}
            },
        }
    }

    fn end_element(&mut self, name: &str) {
        if self.code.is_some() {
            return match name {
                "pre" | "xmp" | "body" | "html" => self.end_code(),
                name if is_listed(BLOCKS, name) => self.code_line(),
                _ => {}
            };
        }
        match name {
            "title" => self.in_title = false,
            "a" => self.line.end_link(),
            "br" => self.line.line_break(),
            "main" => {
                self.end_paragraph();
                if self.main.0.is_some() {
                    self.main.1.get_or_insert(self.out.len());
                }
            }
            "blockquote" => self.leave_container(|around| matches!(around, BlockContext::Quote)),
            "ul" | "ol" | "menu" => self.leave_container(|around| matches!(around, BlockContext::List(_))),
            "li" => self.end_item(),
            "table" => self.end_table(),
            "td" | "th" | "tr" => self.end_cell(),
            _ => match InlineMark::from_element(name) {
                Some(mark) => self.line.end_mark(mark),
                None if is_listed(BLOCKS, name) => self.end_paragraph(),
                None => {}
            },
        }
    }

    // ---- code ----

    fn begin_code(&mut self, language: String) {
        // A table around code only places the code next to its line numbers.
        if self.table.is_some() {
            self.spread_table();
        }
        self.end_paragraph();
        self.code = Some(CodeBlock {
            language,
            text: String::new(),
        });
    }

    fn start_in_code(&mut self, tag: &Tag, name: &str) {
        let Some(code) = &mut self.code else { return };
        match name {
            "br" => code.text.push('\n'),
            "code" if code.language.is_empty() => code.language = find_code_language(tag),
            name if is_listed(BLOCKS, name) => self.code_line(),
            _ => {}
        }
    }

    /// Starts a new line of code: highlighters put each line in an element of its own.
    fn code_line(&mut self) {
        if let Some(code) = &mut self.code
            && !code.text.is_empty()
            && !code.text.ends_with('\n')
        {
            code.text.push('\n');
        }
    }

    fn end_code(&mut self) {
        let Some(code) = self.code.take() else { return };
        let text = code.text.trim_matches('\n');
        if text.trim().is_empty() {
            return;
        }
        // Longer than any run of backticks inside, so that the code cannot end the block.
        let fence = "`".repeat(longest_run(text).max(2) + 1);
        self.write_block(&format!("{fence}{}\n{text}\n{fence}", code.language));
    }

    // ---- tables ----

    fn begin_table(&mut self) {
        if self.table.is_some() {
            self.inner_tables += 1;
            return;
        }
        self.end_paragraph();
        self.table = Some(HtmlTable::default());
    }

    /// Adds the line to the open cell.
    fn end_cell(&mut self) {
        match &mut self.table {
            Some(table) if self.inner_tables == 0 => {
                let text = self.line.take();
                table.end_cell(&text);
            }
            Some(_) => self.line.add_blank(),
            None => self.end_paragraph(),
        }
    }

    fn end_table(&mut self) {
        if self.inner_tables > 0 {
            self.inner_tables -= 1;
            return;
        }
        self.end_cell();
        if let Some(table) = self.table.take() {
            let text = table.into_markdown();
            if !text.is_empty() {
                self.write_block(&text);
            }
        }
    }

    /// Gives up the table: writes its cells as blocks, one below the other.
    fn spread_table(&mut self) {
        self.end_cell();
        self.inner_tables = 0;
        if let Some(table) = self.table.take() {
            for cell in table.into_cells() {
                self.write_block(&cell);
            }
        }
    }

    // ---- lists and quotations ----

    // Deeper levels are merged into the last one, which bounds the prefix of each line. Tables cannot contain blocks.
    fn enter_container(&mut self, around: BlockContext) {
        if self.around.len() < MAX_DEPTH && self.table.is_none() {
            self.around.push(around);
        }
    }

    /// Leaves the innermost container that fits, and all inside it.
    fn leave_container(&mut self, fits: impl Fn(&BlockContext) -> bool) {
        self.end_paragraph();
        if let Some(at) = self.around.iter().rposition(fits) {
            self.around.truncate(at);
        }
        if !self
            .around
            .iter()
            .any(|around| matches!(around, BlockContext::List(_)))
        {
            self.tight = false;
        }
    }

    fn begin_item(&mut self) {
        self.end_item();
        // A cell of a Markdown table is one line, so items stay inline.
        if self.table.is_some() {
            self.line.push(" - ");
            return;
        }
        let marker = match self.around.last_mut() {
            Some(BlockContext::List(Some(number))) => {
                let marker = format!("{number}. ");
                // The page chooses the first number, which may be the largest one.
                *number = number.saturating_add(1);
                marker
            }
            _ => "- ".to_owned(),
        };
        let indent = marker.len();
        self.enter_container(BlockContext::Item {
            marker: Some(marker),
            indent,
        });
    }

    /// Ends the open item. Items need no end tag: the next item or the end of the list ends them.
    fn end_item(&mut self) {
        self.end_paragraph();
        let of_list = self
            .around
            .iter()
            .rposition(|around| matches!(around, BlockContext::List(_)));
        let item = |around: &BlockContext| matches!(around, BlockContext::Item { .. });
        let from = of_list.map_or(0, |at| at + 1);
        if let Some(at) = self.around[from..].iter().position(item) {
            self.around.truncate(from + at);
        }
    }

    // ---- blocks ----

    fn end_paragraph(&mut self) {
        if self.table.is_some() {
            return self.line.add_blank();
        }
        let text = self.line.take();
        let lead = std::mem::take(&mut self.lead);
        if !text.is_empty() {
            match lead {
                "" => self.write_block(&text),
                lead => self.write_block(&format!("{lead}{}", text.replace('\n', " "))),
            }
        }
    }

    /// Writes a block, with the prefix of its containers before each line.
    fn write_block(&mut self, text: &str) {
        if self.out.len() > MAX_OUT {
            return;
        }
        let begins_item = self
            .around
            .iter()
            .any(|around| matches!(around, BlockContext::Item { marker: Some(_), .. }));
        if !self.out.is_empty() {
            self.out.push('\n');
            if !(self.tight && begins_item) {
                let prefix = self.take_line_prefix(true);
                self.out.push_str(prefix.trim_end());
                self.out.push('\n');
            }
        }
        for (number, line) in text.split('\n').enumerate() {
            if number > 0 {
                self.out.push('\n');
            }
            let prefix = self.take_line_prefix(false);
            if line.is_empty() {
                self.out.push_str(prefix.trim_end())
            } else {
                self.out.push_str(&prefix);
                self.out.push_str(line);
            }
        }
        self.tight = self
            .around
            .iter()
            .any(|around| matches!(around, BlockContext::Item { .. }));
    }

    /// Returns the prefix of a line; the marker of an item only for its first line.
    ///
    /// `between` means the empty line before a block, which takes no marker.
    fn take_line_prefix(&mut self, between: bool) -> String {
        let mut prefix = String::new();
        for around in &mut self.around {
            match around {
                BlockContext::List(_) => {}
                BlockContext::Quote => prefix.push_str("> "),
                BlockContext::Item { marker, indent } => match marker.take_if(|_| !between) {
                    Some(marker) => prefix.push_str(&marker),
                    None => prefix.extend(std::iter::repeat_n(' ', *indent)),
                },
            }
        }
        prefix
    }

    // ---- addresses ----

    /// Returns the target of a link; `None` for one that leads nowhere else.
    fn resolve_link(&self, href: &str) -> Option<String> {
        let href = href.trim();
        if href.is_empty() || href.starts_with('#') || href.len() > MAX_ADDRESS {
            return None;
        }
        let url = self.base.join(href).ok()?;
        // A model cannot follow `javascript:` or `data:` links.
        matches!(url.scheme(), "http" | "https" | "mailto").then(|| url.to_string())
    }

    fn write_image(&mut self, tag: &Tag) {
        let alt = find_attribute(tag, "alt").map(str::trim).unwrap_or_default();
        // An image without a text says nothing to a model.
        if alt.is_empty() {
            return;
        }
        match find_attribute(tag, "src").and_then(|src| self.resolve_link(src)) {
            Some(src) => self.line.push(&format!("![{alt}]({src})")),
            None => self.line.push(alt),
        }
    }
}

/// Returns whether `names`, separated by blanks, contain `name`.
fn is_listed(names: &str, name: &str) -> bool {
    names.split(' ').any(|listed| listed == name)
}

fn find_attribute<'t>(tag: &'t Tag, name: &str) -> Option<&'t str> {
    let found = tag
        .attrs
        .iter()
        .find(|attribute| &*attribute.name.local == name)?;
    Some(&found.value)
}

/// Returns whether an element is hidden.
///
/// Only elements whose end tag is always written count: otherwise the rest of the page would be hidden.
fn is_hidden(tag: &Tag, name: &str) -> bool {
    let styled = || {
        let style = find_attribute(tag, "style").unwrap_or_default();
        let style: String = style.chars().filter(|c| !c.is_whitespace()).collect();
        let style = style.to_ascii_lowercase();
        style.contains("display:none") || style.contains("visibility:hidden")
    };
    is_listed(ALWAYS_ENDED, name)
        && (find_attribute(tag, "hidden").is_some()
            || find_attribute(tag, "aria-hidden") == Some("true")
            || styled())
}

fn to_heading_marker(name: &str) -> &'static str {
    match name {
        "h1" => "# ",
        "h2" => "## ",
        "h3" => "### ",
        "h4" => "#### ",
        "h5" => "##### ",
        _ => "###### ",
    }
}

/// Returns the language that a highlighter's class names.
fn find_code_language(tag: &Tag) -> String {
    let class = find_attribute(tag, "class").unwrap_or_default();
    let named = |word: &str| {
        let name = word
            .strip_prefix("language-")
            .or_else(|| word.strip_prefix("lang-"))
            .or_else(|| word.strip_prefix("highlight-source-"))?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "+#-_.".contains(c);
        (!name.is_empty() && name.len() <= 20 && name.chars().all(plain)).then(|| name.to_owned())
    };
    class.split_whitespace().find_map(named).unwrap_or_default()
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in text.bytes() {
        run = if c == b'`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests;
