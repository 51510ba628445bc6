//! The final answer of a turn or a sub-agent, assembled from the assistant messages that make it up.
//!
//! Pure: knows the loop's decisions ([`Transition`]), and nothing of events or stores.

use super::reason::{ContinueReason, Transition};

/// The text of the last assistant message, preceded by the text of the messages that it continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FinalAnswer {
    text: String,
    /// Whether the next message continues this text instead of replacing it.
    continues: bool,
}

impl FinalAnswer {
    /// Appends the text of a completed or cut assistant message, or starts over if the message begins a new answer.
    pub fn push_message(&mut self, text: &str) {
        // One decision covers one message: taking the flag makes the message after it start a new answer by default.
        if !std::mem::take(&mut self.continues) {
            self.text.clear();
        }
        self.text.push_str(text);
    }

    /// Records a decision of the loop: whether the next message continues this answer or starts another.
    pub fn record_transition(&mut self, transition: Transition) {
        use ContinueReason as Reason;
        let Transition::Continue(reason) = transition else {
            return;
        };
        match reason {
            Reason::MaxOutputTokensRecovery | Reason::PauseTurn => self.continues = true,
            Reason::NextTurn
            | Reason::StopHookBlocking
            | Reason::TokenBudgetContinuation
            | Reason::Planning
            | Reason::Reflection => self.continues = false,
            // The same request is made again, and its answer replaces the failed one. What held for the failed
            // attempt holds for the next one too, so the flag stays.
            Reason::MaxOutputTokensEscalate
            | Reason::CollapseDrainRetry
            | Reason::ReactiveCompactRetry
            | Reason::ImageRetry
            | Reason::EmptyResponseRetry
            | Reason::ModelFallback => {}
        }
    }

    /// Returns the text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text without a copy.
    pub fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    enum AnswerStep {
        Says(&'static str),
        Decides(ContinueReason),
    }
    use AnswerStep::{Decides, Says};
    use ContinueReason as Reason;

    #[test]
    fn continuations_are_joined_and_new_answers_replace() {
        let cases: Vec<(Vec<AnswerStep>, &str)> = vec![
            (vec![Says("a"), Decides(Reason::NextTurn), Says("b")], "b"),
            (
                vec![
                    Says("a"),
                    Decides(Reason::MaxOutputTokensRecovery),
                    Says("b"),
                    Decides(Reason::MaxOutputTokensRecovery),
                    Says("c"),
                ],
                "abc",
            ),
            (vec![Says("a"), Decides(Reason::PauseTurn), Says("b")], "ab"),
            (
                vec![
                    Says("a"),
                    Decides(Reason::PauseTurn),
                    Decides(Reason::ModelFallback),
                    Decides(Reason::EmptyResponseRetry),
                    Says("b"),
                ],
                "ab",
            ),
            (
                vec![
                    Says("a"),
                    Decides(Reason::PauseTurn),
                    Says("b"),
                    Decides(Reason::NextTurn),
                    Says("c"),
                ],
                "c",
            ),
            (
                vec![
                    Says("a"),
                    Decides(Reason::PauseTurn),
                    Says("b"),
                    Decides(Reason::StopHookBlocking),
                    Says("c"),
                    Decides(Reason::PauseTurn),
                    Says("d"),
                ],
                "cd",
            ),
        ];
        for (steps, expected) in cases {
            let mut answer = FinalAnswer::default();
            for step in steps {
                match step {
                    Says(text) => answer.push_message(text),
                    Decides(reason) => answer.record_transition(Transition::Continue(reason)),
                }
            }
            assert_eq!(answer.text(), expected);
            assert_eq!(answer.into_text(), expected);
        }
    }
}
