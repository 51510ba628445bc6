//! What the turns of a session changed, as a client was told: which of it stands, and which was taken back.

use crate::protocol::{Standing, TurnDiffNotification};

/// So many turns are remembered.
const REMEMBERED: usize = 100;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Turns that changed files, the oldest first, and whether that was taken back.
    made: Vec<(TurnDiffNotification, bool)>,
    /// What was taken back, by the turn that was named.
    reverted: Vec<String>,
}

impl Changes {
    /// Takes in what was told.
    pub(super) fn record_diff(&mut self, diff: &TurnDiffNotification) {
        let turn = &diff.of_turn_id;
        let from = self.made.iter().position(|(made, _)| made.of_turn_id == *turn);
        match diff.standing {
            Standing::Made => {
                self.made.push((diff.clone(), false));
                let old = self.made.len().saturating_sub(REMEMBERED);
                self.made.drain(..old);
            }
            Standing::Reverted => {
                self.reverted.retain(|other| other != turn);
                self.reverted.push(turn.clone());
                self.set_reverted(from, true);
            }
            Standing::Redone => {
                self.reverted.retain(|other| other != turn);
                self.set_reverted(from, false);
            }
        }
    }

    fn set_reverted(&mut self, from: Option<usize>, taken_back: bool) {
        let concerned = self.made.iter_mut().skip(from.unwrap_or(usize::MAX));
        concerned.for_each(|(_, back)| *back = taken_back);
    }

    /// The turn to name so that the last `turns` turns whose changes stand are taken back.
    pub(super) fn to_revert(&self, turns: usize) -> Option<String> {
        let mut stand = self.made.iter().rev().filter(|(_, back)| !back);
        let (first, _) = stand.nth(turns.checked_sub(1)?)?;
        Some(first.of_turn_id.clone())
    }

    /// The turn to name so that what was taken back last is made again.
    pub(super) fn to_redo(&self) -> Option<String> {
        self.reverted.last().cloned()
    }

    /// What the last turn but `turns - 1` that changed files made.
    pub(super) fn find_recent_diff(&self, turns: usize) -> Option<&TurnDiffNotification> {
        let (diff, _) = self.made.iter().rev().nth(turns.checked_sub(1)?)?;
        Some(diff)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_stands_is_taken_back_and_what_was_taken_back_made_again() {
        let mut changes = Changes::default();
        let mut told = |turn: &str, standing: &str| {
            let diff = json!({"sessionId": "s", "seq": 1, "at": 1, "ofTurnId": turn, "standing": standing, "files": []});
            changes.record_diff(&serde_json::from_value(diff).unwrap());
            [changes.to_revert(1), changes.to_revert(2), changes.to_redo()].map(Option::unwrap_or_default)
        };
        assert_eq!(told("a", "made"), ["a", "", ""]);
        assert_eq!(told("b", "made"), ["b", "a", ""]);
        assert_eq!(told("b", "reverted"), ["a", "", "b"]);
        assert_eq!(told("a", "reverted"), ["", "", "a"]);
        assert_eq!(told("a", "redone"), ["b", "a", "b"]);
        assert_eq!(told("c", "made"), ["c", "b", "b"]);
        assert_eq!(changes.find_recent_diff(1).unwrap().of_turn_id, "c");
        assert_eq!(changes.find_recent_diff(3).unwrap().of_turn_id, "a");
        assert!(changes.find_recent_diff(0).is_none() && changes.find_recent_diff(4).is_none());
    }
}
