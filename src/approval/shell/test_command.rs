//! `[[ … ]]`, token by token.
//!
//! Decides where a test ends: commands follow its `]]` again. Does not understand tokens for which bash has special
//! rules (regular expressions with parentheses, extended patterns).

use super::{ShellReader, ShellWord, SimpleCommand, WordPlace};

/// Operators whose operands bash evaluates as expressions or subscripts: `x -eq y` runs what `x` contains.
const EVALUATING: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"];

impl ShellReader<'_> {
    pub(super) fn is_at_test(&self) -> bool {
        self.bare_word() == "[["
    }

    /// Reads a test, from `[[` past its `]]`.
    pub(super) fn read_test_command(&mut self) -> WordPlace {
        self.at += 2;
        let mut words = vec![ShellWord::from_plain_text("[[")];
        if self.read_test_tokens(&mut words).is_none() {
            self.abort_parse("it has a test that cannot be parsed");
        }
        words.push(ShellWord::from_plain_text("]]"));
        let evaluates = |word: &ShellWord| word.as_literal().is_some_and(|text| EVALUATING.contains(&text));
        // The value of a variable may be an expression that runs a command.
        if words.iter().any(evaluates) {
            self.mark_hidden("a test evaluates what a variable holds");
        }
        self.push(SimpleCommand {
            words,
            ..SimpleCommand::default()
        });
        WordPlace::Closed
    }

    /// Reads the tokens up to `]]`; `None` if bash may see other tokens.
    fn read_test_tokens(&mut self, words: &mut Vec<ShellWord>) -> Option<()> {
        // `[[(` is a test too, but too rare to be worth the code.
        self.peek().filter(|c| matches!(c, ' ' | '\t'))?;
        loop {
            self.skip_blanks();
            if self.bare_word() == "]]" {
                self.at += 2;
                return Some(());
            }
            let operator = ["&&", "||", "(", ")", "<", ">"]
                .into_iter()
                .find(|operator| self.is_at_token(operator));
            match operator {
                _ if self.is_at_token("<(") || self.is_at_token(">(") => self.read_test_word(words)?,
                Some(operator) => {
                    self.at += operator.len();
                    // `<<`, `>>`, and `((` are other tokens.
                    if self.is_at_token(operator) && operator != ")" {
                        return None;
                    }
                    words.push(ShellWord::from_plain_text(operator));
                }
                None => self.read_test_word(words)?,
            }
        }
    }

    fn read_test_word(&mut self, words: &mut Vec<ShellWord>) -> Option<()> {
        self.peek()
            .filter(|c| !matches!(c, '\n' | ';' | '&' | '|' | '#'))?;
        let word = self.read_word()?;
        let before = words.last().and_then(ShellWord::as_literal);
        let ends = |c: char| matches!(c, ' ' | '\t') || c == ')' && before != Some("=~");
        self.peek().filter(|c| ends(*c))?;
        words.push(match word {
            // Nothing in a test expands to file names.
            ShellWord::Literal { text, quoted, .. } => ShellWord::Literal {
                text,
                glob: false,
                quoted,
            },
            dynamic @ ShellWord::Dynamic { .. } => dynamic,
        });
        // bash reads a regular expression as one token, including its operators.
        let expects_regex = words.last().and_then(ShellWord::as_literal) == Some("=~");
        self.skip_blanks();
        let is_operator = |c: char| matches!(c, '(' | ')' | '<' | '>' | '&' | '|');
        (!(expects_regex && self.peek().is_some_and(is_operator))).then_some(())
    }
}
