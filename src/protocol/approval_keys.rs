//! The one table of keys that answer an approval.
//!
//! `chat` reads it directly. The tables of the Neovim plugin, the VS Code extension and protocol.md are generated from
//! it. Knows nothing of terminals or editors.

use super::Decision;

/// The effect of a key at an open approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApprovalAction {
    /// Answers with this decision. A client may first ask for the reason of a denial.
    Decide(Decision),
    /// Opens the arguments for editing.
    Edit,
    /// Shows the whole diff.
    ShowDiff,
}

impl ApprovalAction {
    /// Returns the name in the generated tables: the wire name of a decision, or `edit` or `diff`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decide(Decision::Allow) => "allow",
            Self::Decide(Decision::AllowSession) => "allowSession",
            Self::Decide(Decision::AllowAlways) => "allowAlways",
            Self::Decide(Decision::Deny) => "deny",
            Self::Edit => "edit",
            Self::ShowDiff => "diff",
        }
    }
}

/// A key and its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalKey {
    /// The letter in lowercase. Uppercase has the same effect.
    pub key: char,
    /// The effect of the key.
    pub action: ApprovalAction,
    /// A label for a button or a menu.
    pub label: &'static str,
}

/// All keys, in the order that clients list them. Enter alone never answers (R-APPR-1).
pub const APPROVAL_KEYS: [ApprovalKey; 6] = [
    ApprovalKey {
        key: 'y',
        action: ApprovalAction::Decide(Decision::Allow),
        label: "Allow",
    },
    ApprovalKey {
        key: 'n',
        action: ApprovalAction::Decide(Decision::Deny),
        label: "Deny",
    },
    ApprovalKey {
        key: 's',
        action: ApprovalAction::Decide(Decision::AllowSession),
        label: "Allow for this session",
    },
    ApprovalKey {
        key: 'a',
        action: ApprovalAction::Decide(Decision::AllowAlways),
        label: "Always allow",
    },
    ApprovalKey {
        key: 'e',
        action: ApprovalAction::Edit,
        label: "Edit",
    },
    ApprovalKey {
        key: 'd',
        action: ApprovalAction::ShowDiff,
        label: "Show diff",
    },
];

/// Returns the effect of a letter, or `None` if it has none.
pub fn approval_action(letter: char) -> Option<ApprovalAction> {
    let letter = letter.to_ascii_lowercase();
    APPROVAL_KEYS
        .iter()
        .find(|entry| entry.key == letter)
        .map(|entry| entry.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_and_action_appears_once() {
        for (index, entry) in APPROVAL_KEYS.iter().enumerate() {
            assert_eq!(approval_action(entry.key), Some(entry.action));
            assert_eq!(
                approval_action(entry.key.to_ascii_uppercase()),
                Some(entry.action)
            );
            for other in &APPROVAL_KEYS[index + 1..] {
                assert!(
                    entry.key != other.key && entry.action != other.action,
                    "{entry:?}"
                );
            }
        }
        assert_eq!(approval_action('q'), None);
        assert_eq!(approval_action('\r'), None);
    }
}
