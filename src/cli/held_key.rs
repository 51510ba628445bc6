//! A letter that may answer a question, held for the moment in which it may still begin a word.
//!
//! Typed words and keys that are held down never answer a question. A letter acts only on an empty line, if no key
//! preceded it within [`REST`], unless at the same question, and none follows within [`QUIET`]. Pure: the caller passes
//! the time and the key. `turn` decides what an answer does.

use std::time::Duration;

use super::keys::Key;
use crate::base::clock::Instant;

/// How long a letter waits for another key before it acts.
pub(super) const QUIET: Duration = Duration::from_secs(1);

/// How long no key is pressed before the first that may answer a question. Longer than the delay after which a
/// terminal repeats a key that is down.
pub(super) const REST: Duration = Duration::from_millis(600);

/// The letter that waits, if any, and the keys before it.
#[derive(Debug, Default)]
pub(super) struct HeldKey {
    pending: Option<HeldLetter>,
    previous: Option<PreviousKey>,
    /// The question that was open at the first key after the last rest.
    question: Option<String>,
}

#[derive(Debug)]
struct PreviousKey {
    at: Instant,
    is_escape: bool,
}

#[derive(Debug)]
struct HeldLetter {
    letter: char,
    question: String,
    due: Instant,
}

/// What a key does at an open question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyRole {
    /// The key waits; no later key has decided about it yet.
    Held,
    /// The held letter answers: Enter confirmed it.
    Answer(char),
    /// The key is text. Contains the held letter, which precedes it.
    Text(Option<char>),
    /// The key discards the held letter and does nothing else.
    Dropped,
}

impl HeldKey {
    /// Records a key and the question that is open. Returns whether the key may decide anything. Esc may, unless it
    /// repeats an Esc.
    pub(super) fn note_key(&mut self, key: &Key, now: Instant, question: Option<&str>) -> bool {
        let is_escape = matches!(key, Key::Esc | Key::Alt(_));
        let previous = self.previous.replace(PreviousKey { at: now, is_escape });
        let previous = previous.filter(|key| now.saturating_duration_since(key.at) < REST);
        if previous.is_none() {
            self.question = question.map(str::to_owned);
        }
        let may_decide = match previous {
            Some(previous) if is_escape => !previous.is_escape,
            Some(_) => question.is_some() && self.question.as_deref() == question,
            None => true,
        };
        // What follows a line that was sent is the next line.
        self.question.take_if(|_| *key == Key::Enter);
        may_decide
    }

    /// Makes the keys wait for a rest, since others may have been pressed that were not seen here.
    pub(super) fn require_rest(&mut self, now: Instant) {
        let is_escape = true;
        self.previous = Some(PreviousKey { at: now, is_escape });
        self.question = None;
    }

    /// Decides what a key does at `question`.
    pub(super) fn take(&mut self, key: &Key, now: Instant, question: &str, may_answer: bool) -> KeyRole {
        match (self.pending.take(), key) {
            (Some(pending), Key::Char(_) | Key::Paste(_)) => KeyRole::Text(Some(pending.letter)),
            // Another question may have taken the place of the one that the letter was pressed at.
            (Some(pending), Key::Enter) if pending.question == question => KeyRole::Answer(pending.letter),
            (Some(_), _) => KeyRole::Dropped,
            (None, Key::Char(letter)) if may_answer => {
                self.pending = Some(HeldLetter {
                    letter: *letter,
                    question: question.to_owned(),
                    due: now + QUIET,
                });
                KeyRole::Held
            }
            (None, _) => KeyRole::Text(None),
        }
    }

    /// Returns when the held letter answers on its own.
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.pending.as_ref().map(|pending| pending.due)
    }

    /// Takes the held letter out. The flag tells whether it may answer `question`: only if it was pressed at that
    /// question.
    pub(super) fn release_letter(&mut self, question: Option<&str>) -> Option<(char, bool)> {
        let pending = self.pending.take()?;
        Some((pending.letter, question == Some(pending.question.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock;
    use crate::protocol::{APPROVAL_KEYS, approval_action};

    /// Types a sentence with this gap between its keys. Returns the answers and the text.
    fn typed(sentence: &str, gap: Duration) -> (Vec<char>, String) {
        let (mut held_key, mut now) = (HeldKey::default(), clock::now());
        let (mut answers, mut text) = (Vec::new(), String::new());
        for letter in sentence.chars() {
            now += gap;
            if held_key.due_at().is_some_and(|due| due <= now) {
                answers.extend(held_key.release_letter(Some("q")).map(|(letter, _)| letter));
            }
            if !text.is_empty() {
                text.push(letter);
                continue;
            }
            let may_answer = approval_action(letter).is_some();
            if let KeyRole::Text(first) = held_key.take(&Key::Char(letter), now, "q", may_answer) {
                text.extend(first);
                text.push(letter);
            }
        }
        answers.extend(held_key.release_letter(Some("q")).map(|(letter, _)| letter));
        (answers, text)
    }

    #[tokio::test(start_paused = true)]
    async fn typed_words_never_answer_but_a_single_key_does() {
        for sentence in [
            "why do you need this?",
            "yes but why",
            "always",
            "say",
            "no",
            "need",
            "do",
        ] {
            for gap in [0, 50, 349] {
                let (answers, text) = typed(sentence, Duration::from_millis(gap));
                assert_eq!((answers.as_slice(), text.as_str()), (&[][..], sentence), "{gap}");
            }
        }
        // The first letter matches no key, so even slow typing is text.
        let slow = Duration::from_secs(5);
        assert_eq!(typed("why so", slow), (vec![], "why so".to_owned()));
        for entry in APPROVAL_KEYS {
            assert_eq!(typed(&entry.key.to_string(), slow).0, [entry.key]);
        }
    }

    /// Presses keys with these pauses in ms before them, each while this question is open. Returns what may decide.
    fn noted(keys: &[(u64, Key, Option<&str>)]) -> Vec<bool> {
        let (mut held_key, mut now) = (HeldKey::default(), clock::now());
        let note = |(pause, key, question): &(u64, Key, Option<&str>)| {
            now += Duration::from_millis(*pause);
            held_key.note_key(key, now, *question)
        };
        keys.iter().map(note).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn key_that_was_down_when_its_question_appeared_decides_nothing() {
        for key in [
            Key::Char('y'),
            Key::Char('1'),
            Key::Enter,
            Key::Esc,
            Key::Alt('y'),
        ] {
            let repeats = |pause, question| (pause, key.clone(), question);
            let keys = [
                repeats(0, None),
                repeats(500, None),
                repeats(40, Some("one")),
                repeats(500, Some("one")),
                repeats(40, Some("two")),
                repeats(600, Some("two")),
                repeats(500, Some("three")),
            ];
            let may_decide = [true, false, false, false, false, true, false];
            assert_eq!(noted(&keys), may_decide, "{key:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn keys_of_one_question_follow_each_other_and_esc_works_at_once() {
        let keys = [
            (0, Key::Char('1'), Some("one")),
            (100, Key::Char('3'), Some("one")),
            (100, Key::Enter, Some("one")),
            (100, Key::Enter, Some("two")),
            (100, Key::Esc, Some("two")),
            (100, Key::Esc, Some("two")),
            (100, Key::Char('y'), Some("two")),
            (600, Key::Char('y'), Some("two")),
            (100, Key::Enter, Some("two")),
            (100, Key::Char('y'), Some("two")),
        ];
        let may_decide = [true, true, true, false, true, false, false, true, true, false];
        assert_eq!(noted(&keys), may_decide);
        let mut held_key = HeldKey::default();
        let now = clock::now();
        held_key.note_key(&Key::Char('e'), now, Some("one"));
        held_key.require_rest(now);
        assert!(!held_key.note_key(&Key::Char('y'), now + Duration::from_millis(599), Some("one")));
    }

    #[tokio::test(start_paused = true)]
    async fn held_letter_answers_only_the_question_it_was_pressed_at() {
        let (mut held_key, now) = (HeldKey::default(), clock::now());
        assert_eq!(held_key.take(&Key::Char('y'), now, "one", true), KeyRole::Held);
        assert_eq!(held_key.due_at(), Some(now + QUIET));
        assert_eq!(held_key.release_letter(Some("two")), Some(('y', false)));
        assert_eq!(held_key.release_letter(Some("one")), None);
        for (key, role) in [
            (Key::Enter, KeyRole::Answer('y')),
            (Key::Esc, KeyRole::Dropped),
            (Key::Backspace, KeyRole::Dropped),
            (Key::Paste("y".into()), KeyRole::Text(Some('y'))),
        ] {
            held_key.take(&Key::Char('y'), now, "one", true);
            assert_eq!(held_key.take(&key, now, "one", false), role);
            assert_eq!(held_key.due_at(), None);
        }
        held_key.take(&Key::Char('y'), now, "one", true);
        assert_eq!(held_key.take(&Key::Enter, now, "two", true), KeyRole::Dropped);
    }
}
