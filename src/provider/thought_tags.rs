//! Splits thoughts off the start of an answer, where local engines without a reasoning parser leave them:
//! `<think>…</think>`, or the channels of gpt-oss. A tag anywhere else is text, and so is one in a line of prose:
//! `<think> is a tag`.

use super::decode::EventQueue;
use super::stream::{StopReason, StreamEvent};

/// The tags, and what follows each.
static TAGS: [(&str, Section); 15] = [
    ("<think>", Section::Thought("</think>")),
    ("<thinking>", Section::Thought("</thinking>")),
    ("<thought>", Section::Thought("</thought>")),
    ("<reasoning>", Section::Thought("</reasoning>")),
    ("<|channel>thought", Section::Thought("<channel|>")),
    ("<seed:think>", Section::Thought("</seed:think>")),
    ("[THINK]", Section::Thought("[/THINK]")),
    ("◁think▷", Section::Thought("◁/think▷")),
    ("<|channel|>analysis<|message|>", Section::Thought("<|end|>")),
    (
        "<|start|>assistant<|channel|>analysis<|message|>",
        Section::Thought("<|end|>"),
    ),
    ("<|channel|>final<|message|>", Section::Text),
    ("<|start|>assistant<|channel|>final<|message|>", Section::Text),
    ("<|start|>assistant<|message|>", Section::Text),
    // The prompt may have opened the thought, and the model has closed it at once.
    ("</think>", Section::Text),
    ("</thinking>", Section::Text),
];

/// Returns whether a tag closes a thought. All others open something.
fn is_closing(tag: &str) -> bool {
    tag.starts_with("</")
}

/// The splitter of one answer. Its result does not depend on where pieces end.
#[derive(Debug, Default)]
pub(crate) struct ThoughtSplitter {
    section: Section,
    /// What has arrived and cannot be decided yet.
    held: String,
    /// White space that comes next belongs to a tag, except the indentation of a line.
    skips_space: bool,
    /// The thought that no tag has closed yet.
    open_thought: String,
    /// A tag has closed a thought, and no text has followed. Another thought may.
    has_closed: bool,
    /// The last thought that was passed on has ended, so the next one begins a paragraph.
    has_ended: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum Section {
    /// Before any text, where a thought may begin.
    #[default]
    Start,
    /// In a thought that ends with this tag.
    Thought(&'static str),
    Text,
}

impl ThoughtSplitter {
    /// `is_needed`: the server may be an engine that leaves thoughts in the text. From any other, such a text is an answer.
    pub(crate) fn new(is_needed: bool) -> Self {
        let section = if is_needed { Section::Start } else { Section::Text };
        Self {
            section,
            ..Self::default()
        }
    }

    /// Passes on the next piece of text, as far as it is decided.
    pub(crate) fn push(&mut self, text: &str, out: &mut EventQueue) {
        if matches!(self.section, Section::Text) && !self.skips_space {
            out.push_content(StreamEvent::Text(text.to_owned()));
            return;
        }
        self.held.push_str(text);
        while self.split_held(out) {}
    }

    /// Records that the engine separates thoughts itself, so that a tag at the start of the text is prose.
    pub(crate) fn expect_text(&mut self, out: &mut EventQueue) {
        if matches!(self.section, Section::Start) {
            // What follows a closed thought belongs to its tag.
            if std::mem::take(&mut self.skips_space) {
                self.held.clear();
            }
            self.pass_on_text(out);
        }
    }

    /// Passes on what is held, because the answer ends or something other than text follows.
    pub(crate) fn flush(&mut self, out: &mut EventQueue) {
        match self.section {
            Section::Start if self.skips_space => {
                self.held.clear();
                (self.section, self.skips_space) = (Section::Text, false);
            }
            Section::Start => {
                let whole = self.tags().find(|(tag, _)| *tag == self.held.trim());
                if let Some((_, next)) = whole {
                    self.held.clear();
                    (self.section, self.skips_space) = (*next, true);
                } else {
                    self.pass_on_text(out);
                }
            }
            Section::Thought(_) => {
                let held = std::mem::take(&mut self.held);
                self.push_thought(held.trim_end(), out);
            }
            Section::Text => {
                self.held.clear();
                self.skips_space = false;
            }
        }
    }

    /// Ends the answer. If nothing closes its thought, the model has not thought but answered, so that the answer is text,
    /// too. An answer that was cut may lack the tag.
    pub(crate) fn finish(&mut self, stop: &StopReason, out: &mut EventQueue) {
        self.flush(out);
        let thought = std::mem::take(&mut self.open_thought);
        if *stop == StopReason::EndTurn {
            out.push_content(StreamEvent::Text(thought));
        }
    }

    /// Returns whether a tag was found, so that more may be decided.
    fn split_held(&mut self, out: &mut EventQueue) -> bool {
        if self.skips_space {
            self.skip_space();
        }
        if self.skips_space {
            return false;
        }
        match self.section {
            Section::Start => self.split_start(out),
            Section::Thought(close) => self.split_thought(close, out),
            Section::Text => {
                self.pass_on_text(out);
                false
            }
        }
    }

    /// Drops white space up to the last line break, and all of it within a line. What follows it decides.
    fn skip_space(&mut self) {
        let length = self.held.len() - self.held.trim_start().len();
        let line_break = self.held[..length].rfind('\n');
        self.skips_space = length == self.held.len();
        let dropped = if self.skips_space {
            line_break.unwrap_or(0)
        } else {
            line_break.map_or(length, |at| at + 1)
        };
        self.held.drain(..dropped);
    }

    /// Returns the tags that count now.
    fn tags(&self) -> impl Iterator<Item = &'static (&'static str, Section)> + use<> {
        let has_closed = self.has_closed;
        TAGS.iter()
            .filter(move |(tag, _)| !(has_closed && is_closing(tag)))
    }

    fn split_start(&mut self, out: &mut EventQueue) -> bool {
        let start = self.held.trim_start();
        let found = self
            .tags()
            .find_map(|(tag, next)| Some((*tag, start.strip_prefix(tag)?, *next)));
        // `None` if only what follows decides.
        let is_tag = match found {
            Some((_, rest, Section::Thought(_))) => rest.chars().next().map(|c| !matches!(c, ' ' | '\t')),
            Some((tag, rest, _)) if is_closing(tag) => rest
                .trim_start_matches([' ', '\t'])
                .chars()
                .next()
                .map(|c| matches!(c, '\n' | '\r')),
            Some(_) => Some(true),
            None if self.tags().any(|(tag, _)| tag.starts_with(start)) => None,
            None => Some(false),
        };
        match (is_tag, found) {
            (Some(true), Some((_, rest, next))) => {
                self.held = rest.to_owned();
                (self.section, self.skips_space) = (next, true);
                return true;
            }
            (Some(_), _) => self.pass_on_text(out),
            (None, _) => {}
        }
        false
    }

    fn split_thought(&mut self, close: &str, out: &mut EventQueue) -> bool {
        let end = self.held.find(close);
        let cut_tag = (1..close.len())
            .rev()
            .find(|length| close.is_char_boundary(*length) && self.held.ends_with(&close[..*length]));
        let thought = &self.held[..end.unwrap_or(self.held.len() - cut_tag.unwrap_or(0))];
        // White space before the tag is not part of the thought.
        let thought = thought.trim_end().to_owned();
        let decided = end.map_or(thought.len(), |at| at + close.len());
        self.held.drain(..decided);
        self.push_thought(&thought, out);
        if end.is_some() {
            self.has_ended |= !self.open_thought.is_empty();
            self.open_thought.clear();
            (self.section, self.skips_space, self.has_closed) = (Section::Start, true, true);
        }
        end.is_some()
    }

    fn push_thought(&mut self, thought: &str, out: &mut EventQueue) {
        self.open_thought.push_str(thought);
        if self.has_ended && !thought.is_empty() {
            self.has_ended = false;
            out.push_content(StreamEvent::Reasoning("\n\n".to_owned()));
        }
        out.push_content(StreamEvent::Reasoning(thought.to_owned()));
    }

    /// Passes on what is held as text, and everything after it.
    fn pass_on_text(&mut self, out: &mut EventQueue) {
        self.section = Section::Text;
        out.push_content(StreamEvent::Text(std::mem::take(&mut self.held)));
    }
}
