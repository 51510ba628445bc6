//! What the parser returns: simple commands and their words.

/// A parsed command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParsedCommand {
    /// All simple commands found, in order.
    pub(crate) commands: Vec<SimpleCommand>,
    /// Where the words of each command end in the text that contains it, in bytes.
    pub(crate) word_ends: Vec<Vec<usize>>,
    /// Why commands may be missing from `parts`, or may do more than they show; for users: "it starts a coprocess".
    pub(crate) unparsed_reason: Option<&'static str>,
    /// Whether the rest of the text was not read.
    pub(crate) stopped_early: bool,
    /// Whether it defines a function, so that names may mean something else from there on.
    pub(crate) defines_function: bool,
    /// The variable and the values of each `for` loop.
    pub(crate) loops: Vec<(String, Vec<ShellWord>)>,
    /// The texts of here-documents and here-strings, as scripts.
    pub(crate) input_texts: Vec<String>,
}

/// One simple command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SimpleCommand {
    /// Each `NAME=value` before the command, or alone.
    pub(crate) assignments: Vec<ShellWord>,
    /// The command and its arguments.
    pub(crate) words: Vec<ShellWord>,
    /// The files that its input and output are redirected to, without `/dev/null` and descriptors.
    pub(crate) redirects: Vec<Redirect>,
}

/// A redirection to or from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    /// Whether it creates or changes the file.
    pub(crate) writes: bool,
    /// Whether it removes what the file contains.
    pub(crate) truncates: bool,
    pub(crate) target: ShellWord,
}

/// A word as the program would receive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShellWord {
    /// A known text.
    Literal {
        /// The text without quotes.
        text: String,
        /// Whether it contains an unquoted `*`, `?`, or `[`, and so may expand to file names.
        glob: bool,
        /// Whether it begins with a quoted `~`, and so must be shown in quotes.
        quoted: bool,
    },
    /// A text that only bash knows.
    Dynamic {
        /// What makes it dynamic, for users.
        reason: &'static str,
        /// The known start; anything may follow, even more words.
        known: String,
        template: WordTemplate,
    },
}

/// What is written in a dynamic word. Scripts in it do not count when words are compared: they are commands of their own.
#[derive(Clone, Debug, Default, Eq)]
pub(crate) struct WordTemplate {
    /// The text without quotes and expansions.
    pub(crate) text: String,
    /// Where in the text an expansion belongs, in bytes, and the expansion as written: `$x`, `$(ls)`, or nothing if it is
    /// of another kind.
    pub(crate) expansions: Vec<(usize, String)>,
}

impl PartialEq for WordTemplate {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl ShellWord {
    pub(crate) fn from_plain_text(text: impl Into<String>) -> Self {
        Self::Literal {
            text: text.into(),
            glob: false,
            quoted: false,
        }
    }

    pub(crate) fn new_dynamic(reason: &'static str) -> Self {
        Self::Dynamic {
            reason,
            known: String::new(),
            template: WordTemplate {
                text: String::new(),
                expansions: vec![(0, String::new())],
            },
        }
    }

    /// Returns the word as a part of a script, with its expansions as they are written.
    pub(crate) fn to_script(&self) -> String {
        let template = match self {
            Self::Literal { text, .. } => return text.clone(),
            Self::Dynamic { template, .. } => template,
        };
        let mut script = template.text.clone();
        for (at, source) in template.expansions.iter().rev() {
            script.insert_str(*at, if source.is_empty() { "$UNKNOWN" } else { source });
        }
        script
    }

    /// Returns the text, if it is known.
    pub(crate) fn as_literal(&self) -> Option<&str> {
        match self {
            Self::Literal { text, .. } => Some(text),
            Self::Dynamic { .. } => None,
        }
    }

    /// Returns the word as rules see it: in quotes only where it would be mistaken for something else.
    pub(crate) fn to_rule_text(&self) -> Option<String> {
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

impl SimpleCommand {
    /// Returns what makes one of its words dynamic.
    pub(crate) fn find_dynamic_reason(&self) -> Option<&'static str> {
        let redirects = self.redirects.iter().map(|redirect| &redirect.target);
        self.assignments
            .iter()
            .chain(&self.words)
            .chain(redirects)
            .find_map(|word| match word {
                ShellWord::Dynamic { reason, .. } => Some(*reason),
                ShellWord::Literal { .. } => None,
            })
    }

    /// Returns the command as rules see it, if all of it is known.
    pub(crate) fn text(&self) -> Option<String> {
        let words: Option<Vec<String>> = self
            .assignments
            .iter()
            .chain(&self.words)
            .map(ShellWord::to_rule_text)
            .collect();
        words.map(|words| words.join(" "))
    }

    /// Returns the file that it writes by a redirection.
    pub(crate) fn find_written_file(&self) -> Option<&ShellWord> {
        self.redirects
            .iter()
            .find(|redirect| redirect.writes)
            .map(|redirect| &redirect.target)
    }
}
