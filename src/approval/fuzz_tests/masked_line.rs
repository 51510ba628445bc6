//! A reading of command lines that knows only quotes, backslashes, and comments: simple enough to be checked by eye.

use crate::base::word_list::WordList;

/// A command line without the text that quotes, backslashes, and comments make harmless.
pub(super) struct MaskedLine {
    /// As long as the line. A quoted byte is a `q`, one of a comment a blank; expansions in double quotes stay.
    bytes: Vec<u8>,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quoting {
    None,
    Single,
    /// `$'…'`, in which a backslash escapes the quote.
    Ansi,
    Double,
    Comment,
}

/// Words after which a command follows, or which end a block.
const RESERVED: WordList = WordList("! if then elif else while until do done fi");

/// Words and characters whose lines are not lists of commands only.
const NOT_A_LIST: &[&str] = &[
    "(", ")", "{", "}", "[[", "<<", "case", "for", "select", "function", "time", "coproc",
];

/// Files to which a command that only reads may write.
const HARMLESS: WordList = WordList("/dev/null /dev/stdout /dev/stderr /dev/tty /dev/stdin");

impl MaskedLine {
    pub(super) fn new(line: &str) -> Self {
        let text = line.as_bytes();
        let mut bytes = text.to_vec();
        let mut quoting = Quoting::None;
        let mut at = 0;
        while at < text.len() {
            let (next, length) = mask(text, at, quoting, &mut bytes);
            quoting = next;
            at += length;
        }
        Self { bytes }
    }

    fn contains(&self, text: &str) -> bool {
        memchr::memmem::find(&self.bytes, text.as_bytes()).is_some()
    }

    /// Checks a line that counts as reading, in which the parser found this many commands.
    pub(super) fn check_reading(&self, line: &str, commands: usize) {
        if self.contains("<<") {
            return;
        }
        for hidden in ["`", "$(", "<(", ">("] {
            assert!(!self.contains(hidden), "{hidden:?} counts as reading: {line:?}");
        }
        if !["[[", "((", "${"].iter().any(|text| self.contains(text)) {
            self.check_redirects(line);
        }
        if !NOT_A_LIST.iter().any(|text| self.contains(text)) {
            let seen = self.count_commands();
            assert!(
                seen <= commands,
                "{seen} commands, of which {commands} were parsed: {line:?}"
            );
        }
    }

    /// Checks that each redirection leads to a descriptor or to a harmless file.
    fn check_redirects(&self, line: &str) {
        let mut at = 0;
        while let Some(found) = memchr::memchr(b'>', &self.bytes[at..]) {
            at += found + 1;
            let operators = count(&self.bytes[at..], |byte| b">|&".contains(&byte));
            let to_descriptor = self.bytes[at..at + operators].contains(&b'&');
            at += operators;
            // This closes a descriptor. What follows directly is a word of its own.
            if to_descriptor && self.bytes.get(at) == Some(&b'-') {
                continue;
            }
            at += count(&self.bytes[at..], |byte| b" \t".contains(&byte));
            let length = count(&self.bytes[at..], |byte| !b" \t\n;|&<>()".contains(&byte));
            let target: String = line.as_bytes()[at..at + length]
                .iter()
                .map(|byte| char::from(*byte))
                .filter(|ch| !matches!(ch, '\'' | '"' | '\\'))
                .collect();
            let is_descriptor = target.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
            assert!(
                to_descriptor && is_descriptor || HARMLESS.contains(&target),
                "a command that writes {target:?} counts as reading: {line:?}"
            );
        }
    }

    /// Counts the commands that surely are some, in a line that is a list of commands.
    fn count_commands(&self) -> usize {
        let has_command = |segment: &&[u8]| {
            !segment.iter().any(|byte| b"<>".contains(byte))
                && segment
                    .split(|byte| b" \t\\".contains(byte))
                    .filter_map(|word| std::str::from_utf8(word).ok())
                    .any(|word| {
                        word.starts_with(|c: char| c.is_ascii_alphabetic()) && !RESERVED.contains(word)
                    })
        };
        self.bytes
            .split(|byte| b";|&\n".contains(byte))
            .filter(has_command)
            .count()
    }

    /// Returns the line with more blanks where they change nothing. `None` if some could change the line.
    pub(super) fn with_more_blanks(&self, line: &str) -> Option<String> {
        if self.contains("<<") || line.ends_with('\\') {
            return None;
        }
        let mut spaced = " ".to_owned();
        for (at, ch) in line.char_indices() {
            spaced.push(ch);
            if ch == ' ' && self.bytes[at] == b' ' {
                spaced.push_str("  ");
            }
        }
        spaced.push(' ');
        Some(spaced)
    }
}

fn count(bytes: &[u8], matches: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|byte| matches(**byte)).count()
}

/// Masks what begins at a byte. Returns what the next byte belongs to, and how many bytes were read.
fn mask(text: &[u8], at: usize, quoting: Quoting, masked: &mut [u8]) -> (Quoting, usize) {
    let escapes = text[at] == b'\\' && at + 1 < text.len();
    let hide = |masked: &mut [u8], length: usize| masked[at..at + length].fill(b'q');
    match (quoting, text[at]) {
        (Quoting::None, b'\\') if escapes && text[at + 1] == b'\n' => {
            masked[at..at + 2].fill(b' ');
            (quoting, 2)
        }
        (Quoting::None | Quoting::Double | Quoting::Ansi, b'\\') if escapes => {
            hide(masked, 2);
            (quoting, 2)
        }
        (Quoting::None, b'\'') => {
            hide(masked, 1);
            let is_ansi = at > 0 && masked[at - 1] == b'$';
            (if is_ansi { Quoting::Ansi } else { Quoting::Single }, 1)
        }
        (Quoting::None, b'"') => {
            hide(masked, 1);
            (Quoting::Double, 1)
        }
        (Quoting::None, b'#') if at == 0 || b" \t\n;&|()".contains(&masked[at - 1]) => {
            masked[at] = b' ';
            (Quoting::Comment, 1)
        }
        (Quoting::None, _) => (Quoting::None, 1),
        (Quoting::Comment, b'\n') => (Quoting::None, 1),
        (Quoting::Comment, _) => {
            masked[at] = b' ';
            (Quoting::Comment, 1)
        }
        (Quoting::Single | Quoting::Ansi, b'\'') | (Quoting::Double, b'"') => {
            hide(masked, 1);
            (Quoting::None, 1)
        }
        (Quoting::Double, b'`' | b'$') => (Quoting::Double, 1),
        (Quoting::Double, b'(') if masked[at - 1] == b'$' => (Quoting::Double, 1),
        (Quoting::Single | Quoting::Ansi | Quoting::Double, _) => {
            hide(masked, 1);
            (quoting, 1)
        }
    }
}
