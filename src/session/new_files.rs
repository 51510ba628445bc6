//! Warns of files that make programs run and that background processes may have created while no turn ran.
//!
//! The turn itself looks when it begins and ends. Must not ask: a question belongs to a call.

use futures::FutureExt;

use super::actor::{Actor, IoResult};
use super::residency::LoadState;
use crate::domain::Event;
use crate::turn::NEW_STEERING_FILES;

impl Actor {
    /// Looks for what a process has created that has ended by now. During a turn, its end does that: what its commands are
    /// creating is for their own check.
    pub(super) fn look_for_new_files(&mut self) {
        let Some(workspace) = self.resources.workspace.clone().filter(|_| self.turn.is_none()) else {
            return;
        };
        let cwd = self.info.cwd.clone();
        let look = async move { IoResult::NewFiles(workspace.warn_of_new_steering(&cwd).await) };
        self.mailbox.io.push(look.boxed());
    }

    pub(super) fn warn_of_new_files(&mut self, warning: Option<String>) {
        // The session may have been deleted meanwhile.
        if let Some(message) = warning
            && self.residency.stage == LoadState::Open
        {
            let code = NEW_STEERING_FILES.to_owned();
            self.record_event(Event::Warning { code, message });
        }
    }

    /// Warns of what the session's processes have created up to their end, and stores the warning.
    pub(super) async fn warn_before_departure(&mut self) {
        let Some(workspace) = self.resources.workspace.clone() else {
            return;
        };
        let warning = workspace.warn_of_new_steering(&self.info.cwd).await;
        if warning.is_some() {
            self.warn_of_new_files(warning);
            // If the store has ended, the next agentls finds the record of the watch.
            let _ = self.journal.flush_now(&self.services.store.writes).await;
        }
    }
}
