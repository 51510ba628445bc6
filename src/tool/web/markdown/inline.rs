//! A paragraph in progress: folds white space, and puts emphasis and links around their text.
//!
//! Bounded in time and size for any nesting. Must not know blocks; the parent module places the result.

/// Largest total of all paragraphs of a page, in bytes: a link can be longer than the HTML it is made of.
const MAX_TOTAL: usize = 8 << 20;
/// Most nested marks that are tracked.
const MAX_OPEN: usize = 16;

/// A mark around text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InlineMark {
    Strong,
    Emphasis,
    Code,
    Struck,
}

impl InlineMark {
    /// Returns the mark that an element stands for.
    pub(super) fn from_element(element: &str) -> Option<Self> {
        match element {
            "strong" | "b" => Some(Self::Strong),
            "em" | "i" => Some(Self::Emphasis),
            "code" | "kbd" | "samp" | "tt" => Some(Self::Code),
            "del" | "s" | "strike" => Some(Self::Struck),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Strong => "**",
            Self::Emphasis => "_",
            Self::Code => "`",
            Self::Struck => "~~",
        }
    }
}

/// A paragraph in progress.
#[derive(Debug, Default)]
pub(super) struct InlineLine {
    text: String,
    /// White space was read, and is written before the next text.
    blank: bool,
    /// Open marks and where they began. A mark that is never ended is not written.
    open: Vec<(InlineMark, usize)>,
    /// Where the open link began, and its target.
    link: Option<(usize, Option<String>)>,
    /// Bytes of all paragraphs so far.
    total: usize,
}

impl InlineLine {
    /// Adds text, with each run of white space as one blank.
    pub(super) fn push(&mut self, text: &str) {
        if self.is_full() {
            return;
        }
        self.total += text.len();
        for (number, word) in text
            .split(|c: char| c.is_whitespace() && c != '\u{a0}')
            .enumerate()
        {
            self.blank |= number > 0;
            if word.is_empty() {
                continue;
            }
            if std::mem::take(&mut self.blank) && !self.text.is_empty() && !self.text.ends_with('\n') {
                self.write_blank();
            }
            self.text.push_str(word);
        }
    }

    /// Writes a blank; marks and links that begin here begin after it.
    fn write_blank(&mut self) {
        let at = self.text.len();
        self.text.push(' ');
        let marks = self.open.iter_mut().map(|(_, from)| from);
        for from in marks.chain(self.link.as_mut().map(|(from, _)| from)) {
            *from += usize::from(*from == at);
        }
    }

    /// Returns whether there is no room for more of the page.
    pub(super) fn is_full(&self) -> bool {
        self.total > MAX_TOTAL
    }

    /// Adds a blank if there is text on both sides.
    pub(super) fn add_blank(&mut self) {
        self.blank = true;
    }

    /// Adds a line break within the paragraph.
    pub(super) fn line_break(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.blank = false;
    }

    pub(super) fn begin_mark(&mut self, mark: InlineMark) {
        if self.open.len() < MAX_OPEN {
            self.open.push((mark, self.text.len()));
        }
    }

    pub(super) fn end_mark(&mut self, mark: InlineMark) {
        let Some(at) = self.open.iter().rposition(|(open, _)| *open == mark) else {
            return;
        };
        let (_, from) = self.open[at];
        self.open.truncate(at);
        // Code within code, or bold within bold, adds nothing.
        if from >= self.text.len() || self.open.iter().any(|(open, _)| *open == mark) {
            return;
        }
        // The mark is inserted before the link's text, so the link moves with it.
        if let Some((link, _)) = &mut self.link
            && *link >= from
        {
            *link += mark.as_str().len();
        }
        self.text.insert_str(from, mark.as_str());
        self.text.push_str(mark.as_str());
    }

    /// Begins a link, and ends the previous one.
    pub(super) fn begin_link(&mut self, to: Option<String>) {
        self.end_link();
        self.link = Some((self.text.len(), to));
    }

    pub(super) fn end_link(&mut self) {
        let Some((from, Some(to))) = self.link.take() else {
            return;
        };
        let label = self.text.get(from..).unwrap_or_default().trim();
        self.total += to.len();
        if label.is_empty() || self.is_full() {
            return;
        }
        // Marks that begin in the link and are still open would be split.
        self.open.retain(|(_, at)| *at <= from);
        let link = format!("[{}]({to})", label.replace('\n', " "));
        self.text.truncate(from);
        self.text.push_str(&link);
    }

    /// Takes the finished paragraph and begins the next one.
    pub(super) fn take(&mut self) -> String {
        // A link around several paragraphs goes to the first one with text.
        let text = &self.text;
        let later = self
            .link
            .take_if(|(from, _)| text.get(*from..).is_none_or(|label| label.trim().is_empty()));
        self.end_link();
        self.link = later.map(|(_, to)| (0, to));
        self.open.clear();
        self.blank = false;
        std::mem::take(&mut self.text).trim().to_owned()
    }
}
