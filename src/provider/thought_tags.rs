//! Splits thoughts off the start of an answer, where local engines without a reasoning parser leave them:
//! `<think>…</think>`. A tag anywhere else is text.

use super::decode::EventQueue;
use super::stream::StreamEvent;

/// The tags around a thought.
const TAGS: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];

/// The splitter of one answer. Its result does not depend on where pieces end.
#[derive(Debug, Default)]
pub(crate) struct ThoughtSplitter {
    section: Section,
    /// What has arrived and cannot be decided yet.
    held: String,
    /// White space that comes next belongs to a tag.
    skips_space: bool,
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
    /// Passes on the next piece of text, as far as it is decided.
    pub(crate) fn push(&mut self, text: &str, out: &mut EventQueue) {
        if matches!(self.section, Section::Text) {
            out.push_content(StreamEvent::Text(text.to_owned()));
            return;
        }
        self.held.push_str(text);
        while self.split_held(out) {}
    }

    /// Passes on what is held, because the answer ends or something other than text follows.
    pub(crate) fn flush(&mut self, out: &mut EventQueue) {
        let held = std::mem::take(&mut self.held);
        if matches!(self.section, Section::Thought(_)) {
            out.push_content(StreamEvent::Reasoning(held.trim_end().to_owned()));
        } else {
            self.section = Section::Text;
            out.push_content(StreamEvent::Text(held));
        }
    }

    /// Returns whether a tag was found, so that more may be decided.
    fn split_held(&mut self, out: &mut EventQueue) -> bool {
        if self.skips_space {
            self.held = self.held.trim_start().to_owned();
            self.skips_space = self.held.is_empty();
        }
        match self.section {
            Section::Start => self.split_start(out),
            Section::Thought(close) => self.split_thought(close, out),
            Section::Text => false,
        }
    }

    fn split_start(&mut self, out: &mut EventQueue) -> bool {
        let start = self.held.trim_start();
        for (open, close) in TAGS {
            // The prompt may have opened the thought, and the model has closed it at once.
            for (tag, next) in [(open, Section::Thought(close)), (close, Section::Start)] {
                if let Some(rest) = start.strip_prefix(tag) {
                    self.held = rest.to_owned();
                    (self.section, self.skips_space) = (next, true);
                    return true;
                }
            }
        }
        if !TAGS
            .iter()
            .any(|(open, close)| open.starts_with(start) || close.starts_with(start))
        {
            self.flush(out);
        }
        false
    }

    fn split_thought(&mut self, close: &str, out: &mut EventQueue) -> bool {
        let end = self.held.find(close);
        let cut_tag = (1..close.len())
            .rev()
            .find(|length| self.held.ends_with(&close[..*length]));
        let thought = &self.held[..end.unwrap_or(self.held.len() - cut_tag.unwrap_or(0))];
        // White space before the tag is not part of the thought.
        let thought = thought.trim_end().to_owned();
        let decided = end.map_or(thought.len(), |at| at + close.len());
        self.held.drain(..decided);
        out.push_content(StreamEvent::Reasoning(thought));
        if end.is_some() {
            (self.section, self.skips_space) = (Section::Start, true);
        }
        end.is_some()
    }
}
