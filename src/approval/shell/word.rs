//! One word of a command line: quotes, escapes, and expansions, up to the text that the program receives.
//!
//! Hands commands inside expansions back to the reader of commands. Knows no grammar of commands.

use super::syntax::{is_assignment, is_name_char};
use super::{CommandTerminator, ShellReader, ShellWord, WordTemplate};

/// Characters that end a word unless they are quoted.
const WORD_TERMINATORS: &[char] = &[' ', '\t', '\n', ';', '|', '&', '<', '>', '(', ')'];

/// A word while it is being read.
#[derive(Default)]
struct WordBuilder {
    text: String,
    /// The unquoted text, with a NUL for each quoted piece.
    unquoted: String,
    quoted_tilde: bool,
    /// What makes it dynamic, and the text before that.
    dynamic: Option<(&'static str, String)>,
    /// See [`WordTemplate`].
    expansions: Vec<(usize, String)>,
}

impl WordBuilder {
    fn push(&mut self, ch: char) {
        self.unquoted.push(ch);
        self.text.push(ch);
    }

    fn push_quoted(&mut self, text: &str) {
        self.quoted_tilde |= self.text.is_empty() && text.starts_with('~');
        self.unquoted.push('\0');
        self.text.push_str(text);
    }

    fn mark_dynamic(&mut self, reason: &'static str) {
        if self.dynamic.is_none() {
            self.dynamic = Some((reason, self.text.clone()));
        }
        self.expansions.push((self.text.len(), String::new()));
        self.unquoted.push('\0');
    }

    /// Says how the last expansion is written.
    fn set_source(&mut self, source: &str) {
        if let Some((_, last)) = self.expansions.last_mut() {
            source.clone_into(last);
        }
    }

    /// Returns whether it may contain `{a,b}` or `{1..3}`; when in doubt, yes.
    fn has_braces(&self) -> bool {
        self.unquoted
            .split_once('{')
            .is_some_and(|(_, rest)| rest.contains('}') && (rest.contains(',') || rest.contains("..")))
    }

    fn is_glob(&self) -> bool {
        let set = self
            .unquoted
            .split_once('[')
            .is_some_and(|(_, rest)| rest.contains(']'));
        set || self.unquoted.contains(['*', '?'])
    }

    fn into_word(self) -> ShellWord {
        let tilde = self.unquoted.strip_prefix('~');
        let of_shell = |rest: &str| rest.starts_with(|c: char| matches!(c, '+' | '-') || c.is_ascii_digit());
        let dynamic = if let Some(dynamic) = self.dynamic.clone() {
            Some(dynamic)
        } else if self.has_braces() {
            Some(("brace expansion", self.text.clone()))
        } else if tilde.is_some_and(of_shell) {
            // `~+`, `~-`, and `~1` are folders that only the shell knows.
            Some(("a folder of the shell", String::new()))
        } else {
            None
        };
        if let Some((reason, mut known)) = dynamic {
            // Only the text before the first expansion is certain.
            known.truncate(known.find(['{', '*', '?', '[']).unwrap_or(known.len()));
            let template = WordTemplate {
                text: self.text,
                expansions: self.expansions,
            };
            return ShellWord::Dynamic {
                reason,
                known,
                template,
            };
        }
        ShellWord::Literal {
            glob: self.is_glob(),
            quoted: self.quoted_tilde,
            text: self.text,
        }
    }
}

impl<'a> ShellReader<'a> {
    /// Returns the text up to the next blank or operator without consuming it, to compare it with reserved words.
    pub(super) fn bare_word(&self) -> &'a str {
        let rest = self.remaining_text();
        // A line continuation ends the word here; `read_word` refuses one that would join two words.
        let end = rest.find(WORD_TERMINATORS).unwrap_or(rest.len());
        let end = rest[..end.saturating_add(1).min(rest.len())]
            .find("\\\n")
            .unwrap_or(end);
        &rest[..end]
    }

    /// Reads a word; `None` if there is none.
    pub(super) fn read_word(&mut self) -> Option<ShellWord> {
        let start = self.at;
        let mut built = WordBuilder::default();
        while let Some(ch) = self.peek() {
            match ch {
                '<' | '>' if self.remaining_text()[1..].starts_with('(') => {
                    self.at += 2;
                    built.mark_dynamic("another command's output");
                    self.read_commands(CommandTerminator::WithParenthesis);
                }
                '(' if built.unquoted.ends_with('=') && is_assignment(&self.text[start..self.at]) => {
                    let start = self.at;
                    self.read_array();
                    built.mark_dynamic("an array");
                    built.set_source(&self.text[start..self.at]);
                }
                _ if WORD_TERMINATORS.contains(&ch) => break,
                '\\' if self.is_at_token("\\\n") => {
                    // Before a blank, the word ends. Otherwise bash continues the word or an operator, which is too
                    // easily misread.
                    if !self.remaining_text()[2..].starts_with([' ', '\t', '\n']) {
                        self.abort_unsupported_syntax();
                    }
                    break;
                }
                '\\' | '\'' | '"' => self.read_quoted(ch, &mut built),
                '$' => self.read_dollar(&mut built),
                '`' => self.read_backquotes(&mut built),
                _ => {
                    self.at += ch.len_utf8();
                    built.push(ch);
                }
            }
        }
        let raw = &self.text[start..self.at];
        let has_pending_document = self
            .documents
            .last()
            .is_some_and(|documents| !documents.is_empty());
        // The here-document begins after this line, but the word goes past its end: too easily misread.
        if has_pending_document && raw.contains('\n') {
            self.abort_parse("a here-document cannot be parsed");
        }
        (self.at > start).then(|| built.into_word())
    }

    /// Reads what a backslash or a quote makes literal.
    fn read_quoted(&mut self, quote: char, built: &mut WordBuilder) {
        self.at += 1;
        match quote {
            '\\' => match self.next() {
                Some(escaped) => built.push_quoted(escaped.encode_utf8(&mut [0; 4])),
                None => self.abort_unsupported_syntax(),
            },
            '\'' => {
                if let Some(text) = self.read_until('\'') {
                    built.push_quoted(text);
                }
            }
            _ => {
                built.push_quoted("");
                self.read_double_quotes(built);
            }
        }
    }

    fn read_dollar(&mut self, built: &mut WordBuilder) {
        if self.is_at_token("$'") {
            self.read_ansi_quotes(built);
        } else if self.eat_token("$\"") {
            built.mark_dynamic("a translated text");
            self.read_double_quotes(built);
        } else if !self.read_expansion(built) {
            built.push('$');
        }
    }

    /// Reads the text up to a quote, and past it.
    fn read_until(&mut self, quote: char) -> Option<&str> {
        let start = self.at;
        match self.remaining_text().find(quote) {
            Some(length) => {
                self.at += length + quote.len_utf8();
                Some(&self.text[start..start + length])
            }
            None => {
                self.abort_unsupported_syntax();
                None
            }
        }
    }

    /// Reads double-quoted text, after the opening `"`.
    fn read_double_quotes(&mut self, built: &mut WordBuilder) {
        loop {
            match self.peek() {
                None => return self.abort_unsupported_syntax(),
                Some('"') => {
                    self.at += 1;
                    return;
                }
                Some(ch) => self.read_quoted_char(ch, built),
            }
        }
    }

    /// Reads one character inside double quotes or a here-document.
    fn read_quoted_char(&mut self, ch: char, built: &mut WordBuilder) {
        match ch {
            '\\' => {
                self.at += 1;
                match self.peek() {
                    Some('\n') => self.at += 1,
                    Some(escaped @ ('$' | '`' | '"' | '\\')) => {
                        self.at += 1;
                        built.text.push(escaped);
                    }
                    Some(_) | None => built.text.push('\\'),
                }
            }
            '$' => {
                if !self.read_expansion(built) {
                    built.push_quoted("$");
                }
            }
            '`' => self.read_backquotes(built),
            _ => {
                self.at += ch.len_utf8();
                built.text.push(ch);
            }
        }
    }

    /// Reads the whole text of a here-document for its expansions.
    pub(super) fn scan_here_document(&mut self) {
        let mut built = WordBuilder::default();
        while let Some(ch) = self.peek() {
            self.read_quoted_char(ch, &mut built);
        }
    }

    /// Reads `$'…'`.
    fn read_ansi_quotes(&mut self, built: &mut WordBuilder) {
        self.at += 2;
        let start = self.at;
        loop {
            match self.next() {
                None => return self.abort_unsupported_syntax(),
                Some('\\') => {
                    self.next();
                    built.mark_dynamic("escapes in $'…'");
                }
                Some('\'') => break,
                Some(_) => {}
            }
        }
        let text = &self.text[start..self.at - 1];
        built.push_quoted(text);
    }

    /// Reads an expansion, and returns whether there was one. Consumes a plain `$` in any case.
    fn read_expansion(&mut self, built: &mut WordBuilder) -> bool {
        let start = self.at;
        let is_expansion = self.read_dollar_form(built);
        if is_expansion && built.dynamic.is_some() {
            built.set_source(&self.text[start..self.at]);
        }
        is_expansion
    }

    fn read_dollar_form(&mut self, built: &mut WordBuilder) -> bool {
        self.at += 1;
        if self.eat_token("((") {
            built.mark_dynamic("an expression");
            if !self.read_arithmetic() {
                self.abort_parse("it has an expression that cannot be parsed");
            }
            return true;
        }
        if self.eat_token("(") {
            built.mark_dynamic("another command's output");
            self.read_commands(CommandTerminator::WithParenthesis);
            return true;
        }
        if self.eat_token("{") {
            built.mark_dynamic("a variable");
            self.read_parameter_expansion();
            return true;
        }
        match self.peek() {
            Some('[') => {
                self.abort_parse("it has an expression that cannot be parsed");
                true
            }
            Some('\\') if self.is_at_token("\\\n") => {
                self.abort_unsupported_syntax();
                true
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                self.at += self
                    .remaining_text()
                    .bytes()
                    .take_while(|b| b.is_ascii_alphanumeric() || *b == b'_')
                    .count();
                built.mark_dynamic("a variable");
                true
            }
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => {
                self.at += 1;
                built.mark_dynamic("a variable");
                true
            }
            Some(_) | None => false,
        }
    }

    /// Reads a parameter expansion after `${`, up to its `}`. Accepts only forms that cannot contain a command.
    fn read_parameter_expansion(&mut self) {
        let Some(length) = self.remaining_text().find('}') else {
            return self.abort_unsupported_syntax();
        };
        match classify_expansion(&self.remaining_text()[..length]) {
            ParameterExpansion::Reads => {}
            ParameterExpansion::Sets => self.mark_hidden("it sets a variable in an expansion"),
            ParameterExpansion::Evaluates => self.mark_hidden("it evaluates what a variable holds"),
            ParameterExpansion::Unknown => {
                return self.abort_parse("it has an expansion that cannot be parsed");
            }
        }
        self.at += length + 1;
    }

    /// Reads an expression after `((`, up to `))`.
    ///
    /// Accepts only text that cannot mean two subshells and cannot contain a command.
    pub(super) fn read_arithmetic(&mut self) -> bool {
        let mut depth = 0_usize;
        let bytes = self.remaining_text().as_bytes();
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b'(' if at > 0 && bytes[at - 1] == b'$' => return false,
                b'(' => depth += 1,
                b')' if depth > 0 => depth -= 1,
                b')' => {
                    let closed = bytes.get(at + 1) == Some(&b')');
                    if names_variable(&self.remaining_text()[..at]) {
                        self.mark_hidden("it evaluates what a variable holds");
                    }
                    self.at += at + 2 * usize::from(closed);
                    return closed;
                }
                b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' | b'&' | b'|' | b'~' | b'^'
                | b'?' | b':' | b',' | b'_' | b'$' | b' ' | b'\t' => {}
                _ if byte.is_ascii_alphanumeric() => {}
                _ => return false,
            }
        }
        false
    }

    /// Reads the array after `NAME=`, from its `(` on.
    fn read_array(&mut self) {
        self.at += 1;
        // Arrays nest words in words, so they count toward the depth.
        if self.depth >= super::MAX_DEPTH {
            return self.abort_unsupported_syntax();
        }
        self.depth += 1;
        loop {
            self.skip_trivia();
            if self.at >= self.text.len() {
                self.abort_unsupported_syntax();
                break;
            }
            if self.eat_token(")") {
                break;
            }
            if self.read_word().is_none() {
                self.abort_unsupported_syntax();
            }
        }
        self.depth -= 1;
    }

    fn read_backquotes(&mut self, built: &mut WordBuilder) {
        self.at += 1;
        built.mark_dynamic("another command's output");
        let start = self.at;
        let Some(length) = self.remaining_text().find('`') else {
            return self.abort_unsupported_syntax();
        };
        let script = &self.text[start..start + length];
        // Inside backquotes, a backslash may escape a nested backquote.
        if script.contains('\\') {
            return self.abort_parse("it has escapes inside backquotes");
        }
        self.at += length + 1;
        built.set_source(&self.text[start - 1..self.at]);
        let mut inner = ShellReader::new(script, self.depth, self.line);
        inner.read_commands(CommandTerminator::WithText);
    }
}

/// What an expansion `${…}` does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ParameterExpansion {
    /// Yields a text.
    Reads,
    /// Assigns: `${x:=y}`.
    Sets,
    /// Runs what a value contains: an expression may hold `a[$(command)]`, and `@P` expands a prompt.
    Evaluates,
    Unknown,
}

/// Classifies an expansion. Only the forms listed here are understood.
fn classify_expansion(inner: &str) -> ParameterExpansion {
    // Quotes, nested expansions, and substitutions in `${…}` have rules of their own.
    if inner.contains(['\'', '"', '`', '\\', '{', '(', ')', '<', '>', '\n']) || inner.contains("$[") {
        return ParameterExpansion::Unknown;
    }
    let (parameter, is_length) = match inner.strip_prefix('#') {
        Some(rest) if rest.starts_with(is_name_char) || matches!(rest, "@" | "*") => (rest, true),
        _ => (inner, false),
    };
    let name = parameter.find(|c| !is_name_char(c)).unwrap_or(parameter.len());
    let special = parameter.starts_with(['@', '*', '#', '?', '-', '$', '!']);
    let digits = parameter.bytes().take_while(u8::is_ascii_digit).count();
    let rest = match (name, digits) {
        (0, _) if special => &parameter[1..],
        (0, _) => return ParameterExpansion::Unknown,
        (_, 0) => &parameter[name..],
        (_, digits) => &parameter[digits..],
    };
    let (subscript, operator) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((subscript, operator)) => (Some(subscript), operator),
        None => (None, rest),
    };
    if subscript.is_some_and(|text| !matches!(text, "@" | "*") && !text.bytes().all(|b| b.is_ascii_digit())) {
        return ParameterExpansion::Evaluates;
    }
    let (colon, word) = match operator.strip_prefix(':') {
        Some(word) => (true, word),
        None => (false, operator),
    };
    match word.chars().next() {
        None if !colon => ParameterExpansion::Reads,
        _ if is_length => ParameterExpansion::Unknown,
        Some('-' | '+' | '?') => ParameterExpansion::Reads,
        Some('=') => ParameterExpansion::Sets,
        Some('@') if !colon => ParameterExpansion::Evaluates,
        Some('#' | '%' | '/' | '^' | ',') if !colon => ParameterExpansion::Reads,
        // An offset and a length are expressions.
        _ if colon
            && word
                .chars()
                .all(|c| c.is_ascii_digit() || matches!(c, ' ' | ':' | '-')) =>
        {
            ParameterExpansion::Reads
        }
        _ if colon => ParameterExpansion::Evaluates,
        _ => ParameterExpansion::Unknown,
    }
}

/// Returns whether an expression contains a variable: bash evaluates its value, which may be `a[$(command)]`.
fn names_variable(expression: &str) -> bool {
    let mut in_number = false;
    expression.chars().any(|c| {
        let starts_name = !in_number && (c.is_ascii_alphabetic() || matches!(c, '_' | '$'));
        in_number = c.is_ascii_digit() || in_number && c.is_ascii_alphanumeric();
        starts_name
    })
}
