//! Parses a command line into simple commands. Knows bash's grammar, and nothing of rules or of what commands do.
//! `word` reads the words, `test_command` reads `[[ … ]]`.
//!
//! The promise is one-sided: a [`ParsedCommand`] without `unparsed_reason` lists **every** simple command that bash
//! would start, wherever it is: after `;`, `&&`, `|`, `&`, on another line, in a loop, a subshell, `$(…)`, backquotes,
//! `<(…)`, or a here-document. Each word is as the program would receive it, or [`ShellWord::Dynamic`] if only bash
//! knows it. Whatever is uncertain sets `unparsed_reason`. Parsing stops there, or goes on if only an effect is
//! uncertain.
//!
//! The parser is written by hand because of what must hold for hostile input: one pass, linear time, bounded recursion,
//! no panic. It needs no syntax tree: blocks (`if`, `while`, `{`) are not balanced. An invalid script may yield more
//! commands than bash would run, never fewer.

mod parsed;
mod syntax;
mod test_command;
mod word;

pub(crate) use parsed::{ParsedCommand, Redirect, ShellWord, SimpleCommand, WordTemplate};
pub(crate) use syntax::is_assignment;

/// The longest command line, in bytes, that is parsed.
const MAX_BYTES: usize = 64 * 1024;
/// The most simple commands of one line that are judged one by one.
const MAX_PARTS: usize = 256;
/// How deeply substitutions may be nested.
const MAX_DEPTH: usize = 16;

/// Parses a command line. Never fails: see [`ParsedCommand::unparsed_reason`].
pub(crate) fn parse(command: &str) -> ParsedCommand {
    let mut line = ParsedCommand::default();
    // bash does not treat these as a separator where we would, or the other way round.
    let is_unsupported =
        |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || (c.is_whitespace() && !c.is_ascii());
    if command.len() > MAX_BYTES {
        line.unparsed_reason = Some("it is too long");
        line.stopped_early = true;
    } else if command.contains(is_unsupported) {
        line.unparsed_reason = Some("it has control characters");
        line.stopped_early = true;
    } else {
        let mut reader = ShellReader::new(command, 0, &mut line);
        reader.read_commands(CommandTerminator::WithText);
    }
    line
}

/// Reads one script. `at` only moves forward.
struct ShellReader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// Whether the next command follows a `|`.
    piped: bool,
    /// Where the words of the command end that is being read.
    word_ends: Vec<usize>,
    line: &'a mut ParsedCommand,
    /// The here-documents whose text begins after this line, for each script that is being read.
    documents: Vec<Vec<HereDocument>>,
}

/// A here-document whose text is still to come.
struct HereDocument {
    end: String,
    strips_tabs: bool,
    expands: bool,
}

/// Where a script ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommandTerminator {
    /// At the end of the text.
    WithText,
    /// At the `)` of the substitution that contains it.
    WithParenthesis,
}

/// What a closing token must close.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ShellBlock {
    Subshell,
    Case,
}

/// What may follow at the current position.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WordPlace {
    /// A command.
    Command,
    /// After `)`, `}`, or `fi`: redirections, or the next part of the enclosing block.
    Closed,
}

/// How a reserved word changes what is read next.
enum Reserved {
    /// A command follows.
    Skip,
    /// A block ends.
    Close,
    For,
    Case,
    Esac,
    Function,
    Coproc,
}

fn parse_reserved_word(word: &str) -> Option<Reserved> {
    Some(match word {
        "{" | "!" | "time" | "if" | "then" | "elif" | "else" | "while" | "until" | "do" => Reserved::Skip,
        "}" | "fi" | "done" => Reserved::Close,
        "for" | "select" => Reserved::For,
        "case" => Reserved::Case,
        "esac" => Reserved::Esac,
        "function" => Reserved::Function,
        "coproc" => Reserved::Coproc,
        _ => return None,
    })
}

/// Returns whether a reserved word may follow a block without a separator: `if (a) then`.
fn can_follow_block(word: &str) -> bool {
    matches!(
        word,
        "then" | "do" | "done" | "fi" | "elif" | "else" | "esac" | "}"
    )
}

impl<'a> ShellReader<'a> {
    fn new(text: &'a str, depth: usize, line: &'a mut ParsedCommand) -> Self {
        Self {
            text,
            at: 0,
            depth,
            piped: false,
            word_ends: Vec::new(),
            line,
            documents: Vec::new(),
        }
    }

    // ---- the text ----

    fn remaining_text(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.remaining_text().chars().next()
    }

    fn is_at_token(&self, token: &str) -> bool {
        self.remaining_text().starts_with(token)
    }

    fn eat_token(&mut self, token: &str) -> bool {
        let matched = self.is_at_token(token);
        if matched {
            self.at += token.len();
        }
        matched
    }

    fn next(&mut self) -> Option<char> {
        let ch = self.peek()?;
        self.at += ch.len_utf8();
        Some(ch)
    }

    /// Gives up: the rest of the text is not read.
    fn abort_parse(&mut self, reason: &'static str) {
        self.line.unparsed_reason.get_or_insert(reason);
        self.line.stopped_early = true;
        self.at = self.text.len();
    }

    fn abort_unsupported_syntax(&mut self) {
        self.abort_parse("it cannot be parsed");
    }

    /// Records that bash does more than the parts show. Parsing goes on, so that deny rules still see the rest.
    fn mark_hidden(&mut self, reason: &'static str) {
        self.line.unparsed_reason.get_or_insert(reason);
    }

    fn skip_blanks(&mut self) {
        while self.eat_token(" ") || self.eat_token("\t") || self.eat_token("\\\n") {}
    }

    fn skip_comment(&mut self) {
        if self.is_at_token("#") {
            self.at += self
                .remaining_text()
                .find('\n')
                .unwrap_or(self.remaining_text().len());
        }
    }

    /// Skips blanks, comments, and line ends.
    fn skip_trivia(&mut self) {
        loop {
            self.skip_blanks();
            self.skip_comment();
            if !self.is_at_token("\n") {
                return;
            }
            self.consume_line_end();
        }
    }

    fn consume_line_end(&mut self) {
        self.at += 1;
        let documents = self.documents.last_mut().map(std::mem::take).unwrap_or_default();
        for document in documents {
            self.read_here_document(&document);
        }
    }

    // ---- scripts ----

    /// Reads commands up to the end and past it.
    fn read_commands(&mut self, ends: CommandTerminator) {
        // Bounded recursion: hostile nesting must not overflow the stack.
        if self.depth >= MAX_DEPTH {
            return self.abort_parse("it is nested too deeply");
        }
        self.depth += 1;
        self.documents.push(Vec::new());
        // A substitution does not continue the pipe that contains it.
        let piped = std::mem::replace(&mut self.piped, false);
        let mut open = Vec::new();
        let mut position = WordPlace::Command;
        loop {
            self.skip_trivia();
            if self.at >= self.text.len() {
                if ends == CommandTerminator::WithParenthesis || !open.is_empty() {
                    self.abort_unsupported_syntax();
                }
                break;
            }
            if self.eat_token(";;&") || self.eat_token(";;") || self.eat_token(";&") {
                if open.last() != Some(&ShellBlock::Case) {
                    self.abort_unsupported_syntax();
                }
                self.read_case_patterns(&mut open);
                position = if open.last() == Some(&ShellBlock::Case) {
                    WordPlace::Command
                } else {
                    WordPlace::Closed
                };
            } else if !self.is_at_token("&>")
                && (self.eat_token(";")
                    || self.eat_token("&&")
                    || self.eat_token("&")
                    || self.eat_token("||"))
            {
                self.piped = false;
                position = WordPlace::Command;
            } else if self.eat_token("|&") || self.eat_token("|") {
                self.piped = true;
                position = WordPlace::Command;
            } else if self.eat_token(")") {
                match open.pop() {
                    Some(ShellBlock::Subshell) => position = WordPlace::Closed,
                    None if ends == CommandTerminator::WithParenthesis => break,
                    Some(ShellBlock::Case) | None => self.abort_unsupported_syntax(),
                }
            } else {
                position = self.read_command(position, &mut open);
            }
        }
        if self
            .documents
            .pop()
            .is_some_and(|documents| !documents.is_empty())
        {
            self.abort_parse("a here-document has no end");
        }
        self.piped = piped;
        self.depth -= 1;
    }

    /// Reads one command, or as much of it as precedes the next separator or block.
    fn read_command(&mut self, position: WordPlace, open: &mut Vec<ShellBlock>) -> WordPlace {
        if position == WordPlace::Command {
            if self.eat_token("((") {
                return self.read_arithmetic_command();
            }
            if self.eat_token("(") {
                open.push(ShellBlock::Subshell);
                return WordPlace::Command;
            }
            if self.is_at_test() {
                return self.read_test_command();
            }
        }
        let word = self.bare_word();
        // After a pipe, `time` is a program.
        if let Some(kind) = parse_reserved_word(word).filter(|_| !(self.piped && word == "time"))
            && (position == WordPlace::Command || can_follow_block(word))
        {
            let word_is_time = word == "time";
            self.at += word.len();
            return self.read_reserved_word(&kind, word_is_time, open);
        }
        let start = self.at;
        let part = self.read_simple_command();
        if position == WordPlace::Closed && !(part.words.is_empty() && part.assignments.is_empty()) {
            self.abort_unsupported_syntax();
        }
        // A bare separator yields nothing; a redirection that was omitted leaves nothing to judge.
        if !part.words.is_empty() || !part.assignments.is_empty() || !part.redirects.is_empty() {
            self.push(part);
        }
        // Without progress, the loop of the caller would never end.
        if self.at == start {
            self.abort_unsupported_syntax();
        }
        position
    }

    fn read_reserved_word(
        &mut self,
        kind: &Reserved,
        is_time: bool,
        open: &mut Vec<ShellBlock>,
    ) -> WordPlace {
        match kind {
            Reserved::Skip => {
                if is_time {
                    self.skip_blanks();
                    if matches!(self.bare_word(), "-p" | "--") {
                        self.at += 2;
                    }
                }
                WordPlace::Command
            }
            Reserved::Close => WordPlace::Closed,
            Reserved::For => {
                self.read_for_clause();
                WordPlace::Command
            }
            Reserved::Case => self.read_case_clause(open),
            Reserved::Esac => {
                if open.pop() != Some(ShellBlock::Case) {
                    self.abort_unsupported_syntax();
                }
                WordPlace::Closed
            }
            Reserved::Function => {
                self.line.defines_function = true;
                self.skip_blanks();
                self.read_word();
                self.skip_blanks();
                if self.is_at_token("(")
                    && self.remaining_text()[1..]
                        .trim_start_matches([' ', '\t'])
                        .starts_with(')')
                {
                    self.at += self.remaining_text().find(')').map_or(0, |at| at + 1);
                }
                WordPlace::Command
            }
            Reserved::Coproc => {
                // It may have a name, and it sets variables.
                self.mark_hidden("it starts a coprocess");
                WordPlace::Command
            }
        }
    }

    /// Reads `case WORD in` and the patterns of the first branch.
    fn read_case_clause(&mut self, open: &mut Vec<ShellBlock>) -> WordPlace {
        self.skip_blanks();
        self.read_word();
        self.skip_trivia();
        if self.bare_word() == "in" {
            self.at += 2;
            open.push(ShellBlock::Case);
            self.read_case_patterns(open);
        } else {
            self.abort_unsupported_syntax();
        }
        if open.last() == Some(&ShellBlock::Case) {
            WordPlace::Command
        } else {
            WordPlace::Closed
        }
    }

    /// Reads the patterns of the next `case` branch, up to their `)`, or the `esac` that closes it.
    fn read_case_patterns(&mut self, open: &mut Vec<ShellBlock>) {
        self.skip_trivia();
        if self.bare_word() == "esac" {
            self.at += 4;
            open.pop();
            return;
        }
        self.eat_token("(");
        loop {
            self.skip_blanks();
            self.read_word();
            self.skip_blanks();
            if self.eat_token(")") {
                return;
            }
            if !self.eat_token("|") {
                return self.abort_unsupported_syntax();
            }
        }
    }

    /// Reads `for NAME [in words]`, up to `do`.
    fn read_for_clause(&mut self) {
        self.skip_blanks();
        if self.is_at_token("((") {
            return self.abort_parse("it has a loop over an expression");
        }
        let name = self.bare_word();
        if name.is_empty() || !name.chars().all(syntax::is_name_char) {
            return self.abort_unsupported_syntax();
        }
        self.at += name.len();
        let mut values = Vec::new();
        let mut has_list = false;
        self.skip_trivia();
        if self.bare_word() == "in" {
            self.at += 2;
            has_list = true;
            loop {
                self.skip_blanks();
                self.skip_comment();
                if self.at >= self.text.len() || self.peek().is_some_and(|c| matches!(c, ';' | '\n')) {
                    break;
                }
                let start = self.at;
                values.extend(self.read_word());
                if self.at == start {
                    return self.abort_unsupported_syntax();
                }
            }
        }
        if !has_list {
            values.push(ShellWord::new_dynamic("a variable"));
        }
        self.line.loops.push((name.to_owned(), values.clone()));
        values.retain(|_| has_list);
        // Names that control bash or other programs have a capital or `_`: PATH, npm_config_script_shell.
        let steers = name.contains(|c: char| c.is_ascii_uppercase() || c == '_') || name == "histchars";
        values.retain(|value| matches!(value, ShellWord::Dynamic { .. }));
        if steers || !values.is_empty() {
            // Listed as an assignment, so that it is judged like one.
            self.push(SimpleCommand {
                assignments: [ShellWord::from_plain_text(format!("{name}="))]
                    .into_iter()
                    .chain(values)
                    .collect(),
                ..SimpleCommand::default()
            });
        }
    }

    /// Reads `(( … ))`: it runs no program, but evaluates variables, so only bash knows the result.
    fn read_arithmetic_command(&mut self) -> WordPlace {
        if !self.read_arithmetic() {
            self.abort_parse("it has an expression that cannot be parsed");
        }
        self.push(SimpleCommand {
            words: vec![
                ShellWord::from_plain_text("(("),
                ShellWord::new_dynamic("an expression"),
            ],
            ..SimpleCommand::default()
        });
        WordPlace::Closed
    }

    fn push(&mut self, part: SimpleCommand) {
        // Fails closed: the rest becomes `hidden`, so the line cannot be judged by its parts.
        if self.line.commands.len() >= MAX_PARTS {
            self.abort_parse("it has too many commands");
        } else {
            self.line.commands.push(part);
            self.line.word_ends.push(std::mem::take(&mut self.word_ends));
        }
    }

    // ---- simple commands ----

    fn read_simple_command(&mut self) -> SimpleCommand {
        let mut part = SimpleCommand::default();
        self.word_ends.clear();
        loop {
            self.skip_blanks();
            self.skip_comment();
            let Some(ch) = self.peek() else { break };
            let substitution = self.is_at_token("<(") || self.is_at_token(">(");
            match ch {
                '\n' | ';' | '|' | ')' => break,
                '&' if !self.is_at_token("&>") => break,
                '(' => {
                    self.read_function_parentheses(&mut part);
                    break;
                }
                '<' | '>' | '&' if !substitution => self.read_redirect(&mut part),
                _ => self.read_argument(&mut part),
            }
        }
        part
    }

    /// Reads the parentheses of `name()`: the previous word is a function's name, and its body follows.
    fn read_function_parentheses(&mut self, part: &mut SimpleCommand) {
        self.at += 1;
        self.skip_blanks();
        if part.words.len() == 1 && part.assignments.is_empty() && self.eat_token(")") {
            self.line.defines_function = true;
            *part = SimpleCommand::default();
        } else {
            self.abort_unsupported_syntax();
        }
    }

    fn read_argument(&mut self, part: &mut SimpleCommand) {
        let digits = self
            .remaining_text()
            .bytes()
            .take_while(u8::is_ascii_digit)
            .count();
        if digits > 0 && self.remaining_text()[digits..].starts_with(['<', '>']) {
            self.at += digits;
            return self.read_redirect(part);
        }
        let start = self.at;
        let Some(word) = self.read_word() else {
            return self.abort_unsupported_syntax();
        };
        let raw = &self.text[start..self.at];
        if raw.starts_with('{') && (self.is_at_token("<") || self.is_at_token(">")) {
            if syntax::is_descriptor_name(raw) {
                // bash writes the descriptor's number into the variable: `{PATH}>f`.
                self.mark_hidden("a redirection sets a variable");
                return self.read_redirect(part);
            }
            if raw.contains('[') {
                return self.abort_unsupported_syntax();
            }
        }
        if part.words.is_empty() && syntax::is_assignment(raw) {
            if syntax::is_element(raw) {
                self.abort_parse("it sets an element of an array");
            }
            part.assignments.push(word);
            return;
        }
        self.word_ends.push(self.at);
        if let (true, ShellWord::Literal { text, glob: true, .. }) = (part.words.is_empty(), &word) {
            // Which program runs depends on the files of the folder.
            let end = text.find(['*', '?', '[']).unwrap_or(text.len());
            part.words.push(ShellWord::Dynamic {
                reason: "a pattern",
                known: text[..end].to_owned(),
                template: WordTemplate {
                    text: text.clone(),
                    expansions: Vec::new(),
                },
            });
        } else {
            part.words.push(word);
        }
    }

    /// Reads a redirection, from its operator on.
    fn read_redirect(&mut self, part: &mut SimpleCommand) {
        // Longer operators come before their own prefixes.
        const OPERATORS: &[&str] = &[
            "&>>", "&>", "<<<", "<<-", "<<", "<>", "<&-", "<&", "<", ">>", ">|", ">&-", ">&", ">",
        ];
        let Some(operator) = OPERATORS
            .iter()
            .copied()
            .find(|operator| self.eat_token(operator))
        else {
            return self.abort_unsupported_syntax();
        };
        // This closes a descriptor; text directly after it is a separate word.
        if matches!(operator, ">&-" | "<&-") {
            return;
        }
        self.skip_blanks();
        let start = self.at;
        let Some(target) = self.read_word() else {
            return self.abort_unsupported_syntax();
        };
        let raw = &self.text[start..self.at];
        match operator {
            // Text for the input, not a file.
            "<<<" => return self.line.input_texts.push(target.to_script()),
            "<<" | "<<-" => return self.queue_here_document(&target, raw, operator),
            "<&" | ">&" if target.as_literal().is_some_and(syntax::is_descriptor) => return,
            _ => {}
        }
        if syntax::is_connection(&target) {
            self.mark_hidden("it opens a network connection");
        }
        let harmless = target.as_literal().is_some_and(|text| {
            matches!(
                text,
                "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/stdin" | "/dev/tty"
            )
        });
        if !harmless {
            part.redirects.push(Redirect {
                writes: !matches!(operator, "<" | "<&"),
                truncates: !matches!(operator, "<" | "<&" | "<>" | ">>" | "&>>"),
                target,
            });
        }
    }

    // ---- here-documents ----

    fn queue_here_document(&mut self, end: &ShellWord, raw: &str, operator: &str) {
        let document = match end {
            ShellWord::Literal { text, .. } if !text.contains('\n') => HereDocument {
                end: text.clone(),
                strips_tabs: operator == "<<-",
                expands: !raw.contains(['\'', '"', '\\']),
            },
            ShellWord::Literal { .. } | ShellWord::Dynamic { .. } => return self.abort_unsupported_syntax(),
        };
        if let Some(documents) = self.documents.last_mut() {
            documents.push(document);
        }
    }

    /// Reads the text of a here-document, from its first line on.
    fn read_here_document(&mut self, document: &HereDocument) {
        let start = self.at;
        loop {
            let rest = self.remaining_text();
            if rest.is_empty() {
                return self.abort_parse("a here-document has no end");
            }
            let length = rest.find('\n').unwrap_or(rest.len());
            let line = &rest[..length];
            let unindented = if document.strips_tabs {
                line.trim_start_matches('\t')
            } else {
                line
            };
            if unindented == document.end {
                let body = &self.text[start..self.at];
                self.at += length;
                if self.is_at_token("\n") {
                    self.at += 1;
                }
                // In the text, a backslash keeps an expansion for the program that reads it.
                let script = if document.expands {
                    body.replace("\\$", "$")
                } else {
                    body.to_owned()
                };
                self.line.input_texts.push(script);
                if document.expands {
                    self.expand_document(body);
                }
                return;
            }
            self.at += (length + 1).min(rest.len());
        }
    }

    fn expand_document(&mut self, body: &str) {
        // bash joins such lines, which may create or destroy the end marker.
        if body.contains("\\\n") {
            return self.abort_parse("a here-document cannot be parsed");
        }
        if !body.contains(['$', '`']) {
            return;
        }
        let mut inner = ShellReader::new(body, self.depth, self.line);
        inner.scan_here_document();
    }
}

#[cfg(test)]
mod tests;
