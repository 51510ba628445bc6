//! The file changes of a session's turns as the server reported them: which are in effect, and which were reverted.
//!
//! Pure. It only chooses the turn that `/undo` and `/redo` name; the server owns the checkpoints.

use crate::protocol::{ChangeState, TurnDiffNotification};

/// How many turns are remembered.
const REMEMBERED: usize = 100;

/// The record of a session's changes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Turns that changed files, the oldest first, each with whether it is reverted.
    diffs: Vec<(TurnDiffNotification, bool)>,
    /// Reverted turns by the id that was named, the last reverted at the end.
    reverted: Vec<String>,
}

impl Changes {
    /// Records a reported diff.
    pub(super) fn record_diff(&mut self, diff: &TurnDiffNotification) {
        let turn = &diff.of_turn_id;
        let from = self
            .diffs
            .iter()
            .position(|(recorded, _)| recorded.of_turn_id == *turn);
        match diff.standing {
            ChangeState::Made => {
                self.diffs.push((diff.clone(), false));
                let old = self.diffs.len().saturating_sub(REMEMBERED);
                self.diffs.drain(..old);
            }
            ChangeState::Reverted => {
                self.reverted.retain(|other| other != turn);
                self.reverted.push(turn.clone());
                self.set_reverted(from, true);
            }
            ChangeState::Redone => {
                self.reverted.retain(|other| other != turn);
                self.set_reverted(from, false);
            }
        }
    }

    fn set_reverted(&mut self, from: Option<usize>, taken_back: bool) {
        // A revert names the oldest turn, and takes back every turn from there on.
        let concerned = self.diffs.iter_mut().skip(from.unwrap_or(usize::MAX));
        concerned.for_each(|(_, back)| *back = taken_back);
    }

    /// Returns the turn to name in order to revert the last `turns` changes in effect.
    pub(super) fn to_revert(&self, turns: usize) -> Option<String> {
        let mut stand = self.diffs.iter().rev().filter(|(_, back)| !back);
        let (first, _) = stand.nth(turns.checked_sub(1)?)?;
        Some(first.of_turn_id.clone())
    }

    /// Returns the turn to name in order to redo the last revert.
    pub(super) fn to_redo(&self) -> Option<String> {
        self.reverted.last().cloned()
    }

    /// Returns the diff of the last turn but `turns - 1`, reverted or not.
    pub(super) fn find_recent_diff(&self, turns: usize) -> Option<&TurnDiffNotification> {
        let (diff, _) = self.diffs.iter().rev().nth(turns.checked_sub(1)?)?;
        Some(diff)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn revert_and_redo_name_the_right_turn() {
        let mut changes = Changes::default();
        let mut record_change = |turn: &str, state: &str| {
            let diff = json!({"sessionId": "s", "seq": 1, "at": 1, "ofTurnId": turn, "standing": state, "files": []});
            changes.record_diff(&serde_json::from_value(diff).unwrap());
            [changes.to_revert(1), changes.to_revert(2), changes.to_redo()].map(Option::unwrap_or_default)
        };
        assert_eq!(record_change("a", "made"), ["a", "", ""]);
        assert_eq!(record_change("b", "made"), ["b", "a", ""]);
        assert_eq!(record_change("b", "reverted"), ["a", "", "b"]);
        assert_eq!(record_change("a", "reverted"), ["", "", "a"]);
        assert_eq!(record_change("a", "redone"), ["b", "a", "b"]);
        assert_eq!(record_change("c", "made"), ["c", "b", "b"]);
        assert_eq!(changes.find_recent_diff(1).unwrap().of_turn_id, "c");
        assert_eq!(changes.find_recent_diff(3).unwrap().of_turn_id, "a");
        assert!(changes.find_recent_diff(0).is_none() && changes.find_recent_diff(4).is_none());
    }
}
