//! The user's choice of mode, model and effort, which new sessions of a folder start with.

use super::command::SessionInfo;
use crate::base::clock;
use crate::domain::Mode;
use crate::store::{ContentChoice, RowWrite, StoreWrite};

/// Returns the write that remembers a choice for new sessions of the folder, or `None` if there is nothing to remember.
/// The mode `full` applies only to the session for which it was chosen.
pub(super) fn remembered_choice_write(info: &SessionInfo, mut choice: ContentChoice) -> Option<StoreWrite> {
    choice.mode = choice.mode.filter(|mode| *mode != Mode::Full);
    if choice == ContentChoice::default() {
        return None;
    }
    Some(StoreWrite::Row(RowWrite::RememberChoice {
        folder: info.folder.display().to_string(),
        agent: info.agent.clone().unwrap_or_default(),
        choice,
        at_ms: clock::wall_ms(),
    }))
}
