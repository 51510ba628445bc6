//! A command line taken apart into simple commands. Knows bash's grammar (by `brush-parser`), nothing
//! of rules or of what a command does.
//!
//! The promise is one-sided: a [`Line`] without `hidden` lists **every** simple command that bash would
//! start, wherever it stands (after `;`, `&&`, `|`, `&`, on a further line, in a loop, a subshell, in
//! `$(…)`, backticks, `<(…)`, a here-document), each word as the program would get it, or
//! [`Word::Dynamic`] where only bash knows. What we cannot be sure of is `hidden`.
//!
//! The library recurses with the input and is exponential in nested `for ((`, so input is refused by a
//! count of its brackets and keywords before it sees it.

use brush_parser::ast;
use brush_parser::word::{self, Parameter, ParameterExpr, TildeExpr, WordPiece};
use brush_parser::{Parser, ParserOptions};

/// Longer command lines are not taken apart.
const MAX_BYTES: usize = 64 * 1024;
/// Brackets that open and keywords that nest, in all. A debug build takes up to 20 KiB of stack for
/// each, and worker threads have 2 MiB.
const MAX_OPENERS: usize = 64;
/// `((`: the library's time grows fourfold with each one nested.
const MAX_ARITHMETIC: usize = 4;
/// More simple commands than this are not judged one by one.
const MAX_PARTS: usize = 256;
/// Scripts within scripts.
const MAX_DEPTH: usize = 6;

/// A command line taken apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// All simple commands found.
    pub(crate) parts: Vec<Part>,
    /// Why commands may be missing from `parts`, for people: "a … is used".
    pub(crate) hidden: Option<&'static str>,
    /// A function is defined: names may mean something else from there on.
    pub(crate) defines: bool,
}

/// One simple command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    /// `NAME=value` before it, or alone.
    pub(crate) assignments: Vec<Word>,
    /// The command and its arguments.
    pub(crate) words: Vec<Word>,
    /// Files its input and output are redirected to; `/dev/null` and numbers are left out.
    pub(crate) redirects: Vec<Redirect>,
}

/// A redirection to or from a file.
#[derive(Clone, Debug)]
pub(crate) struct Redirect {
    /// It creates or changes the file.
    pub(crate) writes: bool,
    /// The file.
    pub(crate) target: Word,
}

/// A word as the program would get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// This text.
    Literal {
        /// Unquoted.
        text: String,
        /// Has unquoted `*`, `?` or `[`: may become names of files.
        glob: bool,
        /// Must be shown quoted: begins with a quoted `~`.
        quoted: bool,
    },
    /// Only bash knows. With what makes it so, for people.
    Dynamic(&'static str),
}

impl Word {
    fn plain(text: impl Into<String>) -> Self {
        Self::Literal {
            text: text.into(),
            glob: false,
            quoted: false,
        }
    }

    /// Its text, if it is known.
    pub(crate) fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal { text, .. } => Some(text),
            Self::Dynamic(_) => None,
        }
    }

    /// As rules see it: quoted only where it would be mistaken for something else.
    pub(crate) fn shown(&self) -> Option<String> {
        let Self::Literal { text, quoted, .. } = self else {
            return None;
        };
        let special = |c: char| c.is_whitespace() || "'\"\\;|&<>()$`".contains(c);
        let bare = !quoted && !text.is_empty() && !text.starts_with('#') && !text.contains(special);
        Some(if bare {
            text.clone()
        } else {
            format!("'{}'", text.replace('\'', "'\\''"))
        })
    }
}

impl Part {
    /// What makes a word of it dynamic.
    pub(crate) fn dynamic(&self) -> Option<&'static str> {
        let redirects = self.redirects.iter().map(|redirect| &redirect.target);
        self.assignments
            .iter()
            .chain(&self.words)
            .chain(redirects)
            .find_map(|word| match word {
                Word::Dynamic(why) => Some(*why),
                Word::Literal { .. } => None,
            })
    }

    /// The command as rules see it, if all of it is known.
    pub(crate) fn text(&self) -> Option<String> {
        let words: Option<Vec<String>> = self
            .assignments
            .iter()
            .chain(&self.words)
            .map(Word::shown)
            .collect();
        words.map(|words| words.join(" "))
    }

    /// The file that it writes by redirection.
    pub(crate) fn writes(&self) -> Option<&Word> {
        self.redirects
            .iter()
            .find(|redirect| redirect.writes)
            .map(|redirect| &redirect.target)
    }
}

/// Takes a command line apart. Never fails: see [`Line::hidden`].
pub(crate) fn parse(command: &str) -> Line {
    let mut walk = Walk {
        line: Line::default(),
        depth: 0,
        options: ParserOptions {
            // `bash -c` starts without extglob.
            enable_extended_globbing: false,
            ..ParserOptions::default()
        },
    };
    walk.script(command);
    walk.line
}

/// Why the library must not see a text.
fn refusal(script: &str) -> Option<&'static str> {
    if script.len() > MAX_BYTES {
        return Some("it is too long");
    }
    // bash drops or keeps what the library splits at, and the other way round.
    let odd = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || (c.is_whitespace() && !c.is_ascii());
    if script.contains(odd) {
        return Some("it has control characters");
    }
    let brackets = script.bytes().filter(|b| matches!(b, b'(' | b'{' | b'`')).count();
    let keywords = script
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| {
            matches!(
                *word,
                "if" | "while" | "until" | "for" | "case" | "select" | "coproc" | "function"
            )
        })
        .count();
    if brackets + keywords > MAX_OPENERS || script.matches("((").count() > MAX_ARITHMETIC {
        return Some("it is nested too deeply");
    }
    None
}

struct Walk {
    line: Line,
    depth: usize,
    options: ParserOptions,
}

impl Walk {
    fn hide(&mut self, why: &'static str) {
        self.line.hidden.get_or_insert(why);
    }

    fn script(&mut self, script: &str) {
        if let Some(why) = refusal(script) {
            return self.hide(why);
        }
        if self.depth >= MAX_DEPTH {
            return self.hide("it is nested too deeply");
        }
        let options = self.options.clone();
        // The library indexes and unwraps in places; a panic there means no more than "not understood".
        let parsed = std::panic::catch_unwind(|| Parser::new(script.as_bytes(), &options).parse_program());
        let Ok(Ok(program)) = parsed else {
            return self.hide("it is not understood");
        };
        self.depth += 1;
        for list in &program.complete_commands {
            self.list(list);
        }
        self.depth -= 1;
    }

    fn push(&mut self, part: Part) {
        if self.line.parts.len() >= MAX_PARTS {
            self.hide("it has too many commands");
        } else {
            self.line.parts.push(part);
        }
    }

    fn list(&mut self, list: &ast::CompoundList) {
        for ast::CompoundListItem(and_or, _) in &list.0 {
            for (_, pipeline) in and_or {
                for command in &pipeline.seq {
                    self.command(command);
                }
            }
        }
    }

    fn command(&mut self, command: &ast::Command) {
        match command {
            ast::Command::Simple(simple) => self.simple(simple),
            ast::Command::Compound(compound, redirects) => {
                self.compound(compound);
                self.redirects(redirects.as_ref());
            }
            ast::Command::Function(function) => {
                self.line.defines = true;
                let ast::FunctionBody(body, redirects) = &function.body;
                self.compound(body);
                self.redirects(redirects.as_ref());
            }
            ast::Command::ExtendedTest(test, redirects) => {
                self.expression("[[", &test.to_string());
                self.redirects(redirects.as_ref());
            }
        }
    }

    fn compound(&mut self, compound: &ast::CompoundCommand) {
        match compound {
            ast::CompoundCommand::Arithmetic(command) => self.expression("((", &command.expr.value),
            ast::CompoundCommand::ArithmeticForClause(clause) => {
                let parts = [&clause.initializer, &clause.condition, &clause.updater];
                for expr in parts.into_iter().flatten() {
                    self.expression("((", &expr.value);
                }
                self.list(&clause.body.list);
            }
            ast::CompoundCommand::BraceGroup(group) => self.list(&group.list),
            ast::CompoundCommand::Subshell(subshell) => self.list(&subshell.list),
            ast::CompoundCommand::ForClause(clause) => {
                // The variable may be PATH.
                let name = Word::plain(format!("{}=", clause.variable_name));
                let values = clause.values.iter().flatten().map(|value| self.word(value));
                let values = values.filter(|value| matches!(value, Word::Dynamic(_))).collect();
                self.loop_over(name, values);
                self.list(&clause.body.list);
            }
            ast::CompoundCommand::CaseClause(clause) => {
                self.word(&clause.value);
                for case in &clause.cases {
                    for pattern in &case.patterns {
                        self.word(pattern);
                    }
                    if let Some(list) = &case.cmd {
                        self.list(list);
                    }
                }
            }
            ast::CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition);
                self.list(&clause.then);
                for branch in clause.elses.iter().flatten() {
                    if let Some(condition) = &branch.condition {
                        self.list(condition);
                    }
                    self.list(&branch.body);
                }
            }
            ast::CompoundCommand::WhileClause(clause) | ast::CompoundCommand::UntilClause(clause) => {
                let ast::WhileOrUntilClauseCommand(condition, body, _) = clause;
                self.list(condition);
                self.list(&body.list);
            }
            ast::CompoundCommand::Coprocess(coprocess) => self.command(&coprocess.body),
        }
    }

    /// A loop's variable is harmless where its name is in small letters: those that steer programs are
    /// in capitals.
    fn loop_over(&mut self, name: Word, values: Vec<Word>) {
        let steers = name
            .literal()
            .is_some_and(|name| name.chars().any(|c| c.is_ascii_uppercase()));
        if steers || !values.is_empty() {
            self.push(Part {
                assignments: [name].into_iter().chain(values).collect(),
                ..Part::default()
            });
        }
    }

    /// `[[ … ]]` and `(( … ))`: no program, but names in them are evaluated, so only bash knows.
    fn expression(&mut self, opener: &str, source: &str) {
        if substitutes(source) {
            self.hide("it has commands inside an expression");
        }
        self.push(Part {
            words: vec![Word::plain(opener), Word::Dynamic("an expression")],
            ..Part::default()
        });
    }

    fn simple(&mut self, simple: &ast::SimpleCommand) {
        let mut part = Part::default();
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            self.item(item, &mut part, Side::Prefix);
        }
        if let Some(name) = &simple.word_or_name {
            let word = match self.word(name) {
                Word::Literal { glob: true, .. } => Word::Dynamic("a pattern"),
                word => word,
            };
            part.words.push(word);
        }
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut part, Side::Suffix);
        }
        self.push(part);
    }

    fn item(&mut self, item: &ast::CommandPrefixOrSuffixItem, part: &mut Part, side: Side) {
        match item {
            ast::CommandPrefixOrSuffixItem::IoRedirect(redirect) => self.redirect(redirect, part),
            ast::CommandPrefixOrSuffixItem::Word(word) => {
                let word = self.word(word);
                part.words.push(word);
            }
            ast::CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                let scalar = matches!(assignment.value, ast::AssignmentValue::Scalar(_));
                let word = if scalar && matches!(assignment.name, ast::AssignmentName::VariableName(_)) {
                    self.word(word)
                } else {
                    if substitutes(&word.value) {
                        self.hide("it has commands inside an array");
                    }
                    Word::Dynamic("an array")
                };
                match side {
                    Side::Prefix => part.assignments.push(word),
                    Side::Suffix => part.words.push(word),
                }
            }
            ast::CommandPrefixOrSuffixItem::ProcessSubstitution(_, subshell) => {
                self.list(&subshell.list);
                part.words.push(Word::Dynamic("another command's output"));
            }
        }
    }

    /// Redirections of a compound command, as a part of their own.
    fn redirects(&mut self, list: Option<&ast::RedirectList>) {
        let mut part = Part::default();
        for redirect in list.iter().flat_map(|list| &list.0) {
            self.redirect(redirect, &mut part);
        }
        if !part.redirects.is_empty() {
            self.push(part);
        }
    }

    fn redirect(&mut self, redirect: &ast::IoRedirect, part: &mut Part) {
        let (writes, target) = match redirect {
            ast::IoRedirect::File(_, kind, target) => (
                writes(kind),
                match target {
                    ast::IoFileRedirectTarget::Filename(word) => self.word(word),
                    ast::IoFileRedirectTarget::Fd(_) => return,
                    ast::IoFileRedirectTarget::ProcessSubstitution(_, subshell) => {
                        self.list(&subshell.list);
                        Word::Dynamic("another command's output")
                    }
                    ast::IoFileRedirectTarget::Duplicate(word) => match self.word(word) {
                        Word::Literal { text, .. } if is_descriptor(&text) => return,
                        word => word,
                    },
                },
            ),
            ast::IoRedirect::OutputAndError(word, _) => (true, self.word(word)),
            ast::IoRedirect::HereString(_, word) => {
                // Text for the input, no file; what is in it may run.
                self.word(word);
                return;
            }
            ast::IoRedirect::HereDocument(_, document) => {
                if document.requires_expansion {
                    self.document(&document.doc.value);
                }
                return;
            }
        };
        let harmless = target.literal().is_some_and(|text| {
            matches!(
                text,
                "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/stdin" | "/dev/tty"
            )
        });
        if !harmless {
            part.redirects.push(Redirect { writes, target });
        }
    }

    fn document(&mut self, text: &str) {
        if !text.contains(['$', '`']) {
            return;
        }
        if let Some(why) = refusal(text) {
            return self.hide(why);
        }
        match word::parse_heredoc(text, &self.options) {
            Ok(pieces) => {
                let mut built = Built::default();
                self.pieces(&pieces, Quotes::Double, text, &mut built);
            }
            Err(_) => self.hide("a here-document is not understood"),
        }
    }

    fn word(&mut self, word: &ast::Word) -> Word {
        let raw = word.value.as_str();
        if raw
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_./=:,+@%^".contains(&b))
        {
            return Word::plain(raw);
        }
        let options = self.options.clone();
        let Ok(Ok(pieces)) = std::panic::catch_unwind(|| word::parse(raw, &options)) else {
            self.hide("a word is not understood");
            return Word::Dynamic("a word that is not understood");
        };
        let mut built = Built::default();
        self.pieces(&pieces, Quotes::None, raw, &mut built);
        if built.has_brace_expansion() {
            built.dynamic.get_or_insert("brace expansion");
        }
        match built.dynamic {
            Some(why) => Word::Dynamic(why),
            None => Word::Literal {
                glob: built.glob,
                quoted: built.quoted_tilde,
                text: built.text,
            },
        }
    }

    fn pieces(&mut self, pieces: &[word::WordPieceWithSource], quotes: Quotes, raw: &str, built: &mut Built) {
        for piece in pieces {
            match &piece.piece {
                WordPiece::Text(text) => self.text_piece(text, quotes, built),
                WordPiece::SingleQuotedText(text) => built.push_quoted(text),
                WordPiece::AnsiCQuotedText(text) if !text.contains('\\') => built.push_quoted(text),
                WordPiece::AnsiCQuotedText(_) => {
                    built.dynamic.get_or_insert("escapes in $'…'");
                }
                WordPiece::DoubleQuotedSequence(inner) => {
                    built.push_quoted("");
                    self.pieces(inner, Quotes::Double, raw, built);
                }
                WordPiece::GettextDoubleQuotedSequence(inner) => {
                    built.dynamic.get_or_insert("a translated text");
                    self.pieces(inner, Quotes::Double, raw, built);
                }
                WordPiece::TildeExpansion(TildeExpr::Home) => built.text.push('~'),
                WordPiece::TildeExpansion(TildeExpr::UserHome(user)) => {
                    built.text.push('~');
                    built.text.push_str(user);
                }
                WordPiece::TildeExpansion(_) => {
                    built.dynamic.get_or_insert("a folder of the shell");
                }
                WordPiece::ParameterExpansion(expression) => {
                    built.dynamic.get_or_insert("a variable");
                    if !is_simple(expression) && substitutes(raw) {
                        self.hide("it has commands inside a variable's expansion");
                    }
                }
                WordPiece::ArithmeticExpression(expression) => {
                    built.dynamic.get_or_insert("an expression");
                    if substitutes(&expression.value) {
                        self.hide("it has commands inside an expression");
                    }
                }
                WordPiece::CommandSubstitution(script) => {
                    built.dynamic.get_or_insert("another command's output");
                    self.script(script);
                }
                WordPiece::BackquotedCommandSubstitution(script) => {
                    built.dynamic.get_or_insert("another command's output");
                    if script.contains('\\') {
                        self.hide("it has escapes inside backquotes");
                    }
                    self.script(script);
                }
                WordPiece::EscapeSequence(escape) => {
                    built.push_quoted(escape.strip_prefix('\\').unwrap_or(escape));
                }
            }
        }
    }

    fn text_piece(&mut self, text: &str, quotes: Quotes, built: &mut Built) {
        match quotes {
            Quotes::Double => built.push_quoted(&text.replace("\\\n", "")),
            Quotes::None => {
                // None of these can stand unquoted in a word: the library and we disagree.
                if text.contains(|c: char| c.is_whitespace() || "'\"\\;|&<>()$`".contains(c)) {
                    self.hide("a word is not understood");
                    built.dynamic.get_or_insert("a word that is not understood");
                }
                built.glob |= text.contains(['*', '?', '[']);
                built.unquoted.push_str(text);
                built.text.push_str(text);
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Prefix,
    Suffix,
}

#[derive(Clone, Copy)]
enum Quotes {
    None,
    Double,
}

/// A word while its pieces are put together.
#[derive(Default)]
struct Built {
    text: String,
    /// The unquoted text; one NUL for each quoted piece.
    unquoted: String,
    glob: bool,
    quoted_tilde: bool,
    dynamic: Option<&'static str>,
}

impl Built {
    fn push_quoted(&mut self, text: &str) {
        self.quoted_tilde |= self.text.is_empty() && text.starts_with('~');
        self.unquoted.push('\0');
        self.text.push_str(text);
    }

    /// `{a,b}` and `{1..3}`, generously.
    fn has_brace_expansion(&self) -> bool {
        self.unquoted
            .split_once('{')
            .is_some_and(|(_, rest)| rest.contains('}') && (rest.contains(',') || rest.contains("..")))
    }
}

fn writes(kind: &ast::IoFileRedirectKind) -> bool {
    match kind {
        ast::IoFileRedirectKind::Read | ast::IoFileRedirectKind::DuplicateInput => false,
        ast::IoFileRedirectKind::Write
        | ast::IoFileRedirectKind::Append
        | ast::IoFileRedirectKind::ReadAndWrite
        | ast::IoFileRedirectKind::Clobber
        | ast::IoFileRedirectKind::DuplicateOutput => true,
    }
}

/// `1`, `-`, `2-` after `>&`.
fn is_descriptor(text: &str) -> bool {
    let digits = text.strip_suffix('-').unwrap_or(text);
    !text.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a text may start commands when it is expanded.
fn substitutes(text: &str) -> bool {
    text.contains('`') || text.contains("$(") || text.contains("<(") || text.contains(">(")
}

/// `$x`, `${x}`, `$1`: nothing in it can start a command.
fn is_simple(expression: &ParameterExpr) -> bool {
    matches!(
        expression,
        ParameterExpr::Parameter {
            parameter: Parameter::Positional(_) | Parameter::Special(_) | Parameter::Named(_),
            indirect: false,
        }
    )
}

#[cfg(test)]
mod tests;
