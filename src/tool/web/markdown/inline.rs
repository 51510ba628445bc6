//! A paragraph in progress: blanks folded, emphasis and links put round what they hold.

/// Most bytes that all paragraphs of a page may take: links are longer than what they are made of.
const MAX_TOTAL: usize = 8 << 20;
/// How many marks are told apart that stand in one another.
const MAX_OPEN: usize = 16;

/// Something that is put round text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InlineMark {
    Strong,
    Emphasis,
    Code,
    Struck,
}

impl InlineMark {
    /// What an element means.
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
    /// A blank came, and is written before what follows.
    blank: bool,
    /// Marks that are open, and where they began. What is not ended is no mark.
    open: Vec<(InlineMark, usize)>,
    /// Where the open link began, and where it leads.
    link: Option<(usize, Option<String>)>,
    /// Bytes of all paragraphs so far.
    total: usize,
}

impl InlineLine {
    /// Adds text, with runs of blanks as one.
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

    /// What begins here begins behind the blank.
    fn write_blank(&mut self) {
        let at = self.text.len();
        self.text.push(' ');
        let marks = self.open.iter_mut().map(|(_, from)| from);
        for from in marks.chain(self.link.as_mut().map(|(from, _)| from)) {
            *from += usize::from(*from == at);
        }
    }

    /// There is no room for more of the page.
    pub(super) fn is_full(&self) -> bool {
        self.total > MAX_TOTAL
    }

    /// A blank, where there is text on both sides.
    pub(super) fn add_blank(&mut self) {
        self.blank = true;
    }

    /// A line's end within the paragraph.
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
        // Code within code, or bold within bold, says nothing more.
        if from >= self.text.len() || self.open.iter().any(|(open, _)| *open == mark) {
            return;
        }
        if let Some((link, _)) = &mut self.link
            && *link >= from
        {
            *link += mark.as_str().len();
        }
        self.text.insert_str(from, mark.as_str());
        self.text.push_str(mark.as_str());
    }

    /// Begins a link, and ends the one before.
    pub(super) fn begin_link(&mut self, to: Option<String>) {
        self.end_link();
        self.link = Some((self.text.len(), to));
    }

    pub(super) fn end_link(&mut self) {
        let Some((from, Some(to))) = self.link.take() else {
            return;
        };
        let held = self.text.get(from..).unwrap_or_default().trim();
        self.total += to.len();
        if held.is_empty() || self.is_full() {
            return;
        }
        // Marks that begin in the link and are still open would be cut through.
        self.open.retain(|(_, at)| *at <= from);
        let whole = format!("[{}]({to})", held.replace('\n', " "));
        self.text.truncate(from);
        self.text.push_str(&whole);
    }

    /// The paragraph as it is; the next one begins.
    pub(super) fn take(&mut self) -> String {
        // A link round several paragraphs is the first one's that says something.
        let text = &self.text;
        let later = self
            .link
            .take_if(|(from, _)| text.get(*from..).is_none_or(|held| held.trim().is_empty()));
        self.end_link();
        self.link = later.map(|(_, to)| (0, to));
        self.open.clear();
        self.blank = false;
        std::mem::take(&mut self.text).trim().to_owned()
    }
}
