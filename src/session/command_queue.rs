//! What a session is asked to do and has not done yet: in order, and what each operation has read so far.
//!
//! It decides which operation may begin. It must not know how one is performed, nor what is read for it.

use std::collections::VecDeque;

use super::command::{CommandError, RevertReply, SessionCommand};
use super::io::JudgedName;
use super::services::SessionSettings;
use crate::domain::Block;

/// The operations of one session that may wait. More are refused as busy.
const MAX_WAITING: usize = 256;

/// Something that the actor does.
pub(super) enum Operation {
    Command(SessionCommand),
    /// Start the next queued prompt, if it is due.
    StartQueued,
    /// Unload the session, because it is idle.
    Unload,
}

/// Something that is read or written outside the actor before an operation is performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IoStep {
    Lock,
    ReadRow,
    Fold,
    ReadGrants,
    ExpandMessage,
    ReadSettings,
    JudgeName,
    CountEvents,
    RevertFiles,
    Delete,
    CheckStored,
}

/// What was read for an operation.
#[derive(Default)]
pub(super) struct Gathered {
    /// The number of commands that were taken with the operation; `None` if no client asked for it.
    pub(super) number: Option<u64>,
    /// The steps that were taken.
    pub(super) steps: Vec<IoStep>,
    /// The message as the model gets it.
    pub(super) message: Option<Vec<Block>>,
    /// What the message mentions and does not contain.
    pub(super) problems: Vec<String>,
    pub(super) settings: Option<SessionSettings>,
    pub(super) name: Option<JudgedName>,
    pub(super) reverted: Option<RevertReply>,
    pub(super) deleted: Option<Result<(), CommandError>>,
    /// Something must be repaired before the session is shown.
    pub(super) is_unsettled: bool,
    /// Why no turn can start.
    pub(super) start_error: Option<CommandError>,
    /// The store has the whole session.
    pub(super) is_stored: bool,
}

impl Gathered {
    pub(super) fn has_taken(&self, step: IoStep) -> bool {
        self.steps.contains(&step)
    }
}

/// An operation that is not done yet.
pub(super) struct PendingOperation {
    /// Distinguishes it from the session's other operations.
    pub(super) id: u64,
    pub(super) operation: Operation,
    pub(super) gathered: Gathered,
    /// The step that it waits for.
    step: Option<IoStep>,
}

impl PendingOperation {
    /// Returns whether it waits for what its message mentions, and changes nothing meanwhile.
    fn is_expanding(&self) -> bool {
        self.step == Some(IoStep::ExpandMessage)
    }
}

/// Operations of different groups do not depend on each other's order while a turn runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OrderGroup {
    Input,
    Answer,
    Mode,
    Model,
    Title,
    Look,
    Files,
    Departure,
    /// Waits for all others.
    Alone,
}

impl Operation {
    fn order_group(&self) -> OrderGroup {
        let Self::Command(command) = self else {
            return OrderGroup::Alone;
        };
        match command {
            SessionCommand::Prompt { .. }
            | SessionCommand::Resume { .. }
            | SessionCommand::Compact { .. }
            | SessionCommand::Steer { .. }
            | SessionCommand::Queue { .. } => OrderGroup::Input,
            SessionCommand::Decide { .. }
            | SessionCommand::Answer { .. }
            | SessionCommand::RevokeGrant { .. } => OrderGroup::Answer,
            SessionCommand::SetMode { .. } => OrderGroup::Mode,
            SessionCommand::SetModel { .. } | SessionCommand::SetAgent { .. } => OrderGroup::Model,
            SessionCommand::Rename { .. } => OrderGroup::Title,
            SessionCommand::Load { .. }
            | SessionCommand::Inspect { .. }
            | SessionCommand::Measure { .. }
            | SessionCommand::ResetCircuit { .. } => OrderGroup::Look,
            SessionCommand::Revert { .. } => OrderGroup::Files,
            SessionCommand::Delete { .. } | SessionCommand::Close { .. } => OrderGroup::Departure,
            #[cfg(feature = "sim")]
            SessionCommand::Settle { .. } | SessionCommand::Panic => OrderGroup::Alone,
            SessionCommand::End => OrderGroup::Alone,
        }
    }
}

/// The operations that are not done yet.
#[derive(Default)]
pub(super) struct CommandQueue {
    /// The number of commands taken so far.
    taken_count: u64,
    last_id: u64,
    /// The number of the command that chose the model.
    pub(super) model_choice: u64,
    /// Not begun, in their order.
    waiting: VecDeque<PendingOperation>,
    /// Begun, waiting for a step.
    in_progress: Vec<PendingOperation>,
}

impl CommandQueue {
    /// Adds a command from a client.
    ///
    /// # Errors
    /// Returns the command if too many wait.
    pub(super) fn push_command(&mut self, command: SessionCommand) -> Result<(), SessionCommand> {
        self.taken_count += 1;
        if self.waiting.len() >= MAX_WAITING {
            return Err(command);
        }
        let pending = self.new_pending(Some(self.taken_count), Operation::Command(command));
        self.waiting.push_back(pending);
        Ok(())
    }

    /// Adds an operation before all that wait.
    pub(super) fn push_first(&mut self, operation: Operation) {
        let pending = self.new_pending(None, operation);
        self.waiting.push_front(pending);
    }

    fn new_pending(&mut self, number: Option<u64>, operation: Operation) -> PendingOperation {
        self.last_id += 1;
        PendingOperation {
            id: self.last_id,
            operation,
            gathered: Gathered {
                number,
                ..Gathered::default()
            },
            step: None,
        }
    }

    /// Takes the next operation that may begin. Without a turn there is one at a time, except that the session can be
    /// looked at while a message waits for an MCP server. While a turn runs, an operation waits only for earlier ones of
    /// its group, so that none holds up an answer that the turn needs.
    pub(super) fn take_next(&mut self, has_turn: bool) -> Option<PendingOperation> {
        let may_begin = |at: &usize| {
            let group = self.waiting[*at].operation.order_group();
            if !has_turn || group == OrderGroup::Alone {
                let mut begun = self.in_progress.iter();
                return *at == 0 && begun.all(|begun| group == OrderGroup::Look && begun.is_expanding());
            }
            let earlier = self.in_progress.iter().chain(self.waiting.range(..*at));
            !{ earlier }.any(|earlier| earlier.operation.order_group() == group)
        };
        let at = (0..self.waiting.len()).find(may_begin)?;
        self.waiting.remove(at)
    }

    /// Keeps an operation until its step is taken.
    pub(super) fn hold(&mut self, mut pending: PendingOperation, step: IoStep) {
        pending.step = Some(step);
        self.in_progress.push(pending);
    }

    /// Takes the operation whose step was taken.
    pub(super) fn take_started(&mut self, id: u64) -> Option<PendingOperation> {
        let at = self.in_progress.iter().position(|pending| pending.id == id)?;
        Some(self.in_progress.remove(at))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.in_progress.is_empty()
    }

    /// The number of commands up to which all are done.
    pub(super) fn done_through(&self) -> u64 {
        let open = self.in_progress.iter().chain(&self.waiting);
        let first = open.filter_map(|pending| pending.gathered.number).min();
        first.map_or(self.taken_count, |first| first - 1)
    }

    /// Drops everything. Whoever waits for an answer learns that the session has ended.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.in_progress.clear();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::domain::Mode;

    fn rename(title: &str) -> SessionCommand {
        SessionCommand::Rename {
            title: title.to_owned(),
            reply: oneshot::channel().0,
        }
    }

    fn set_mode() -> SessionCommand {
        SessionCommand::SetMode {
            mode: Mode::Plan,
            reply: oneshot::channel().0,
        }
    }

    fn queue_of(commands: impl IntoIterator<Item = SessionCommand>) -> CommandQueue {
        let mut queue = CommandQueue::default();
        for command in commands {
            assert!(queue.push_command(command).is_ok());
        }
        queue
    }

    #[test]
    fn without_a_turn_operations_run_one_at_a_time_in_order() {
        let mut queue = queue_of([rename("a"), set_mode()]);
        let first = queue.take_next(false).unwrap();
        let id = first.id;
        queue.hold(first, IoStep::Lock);
        assert!(queue.take_next(false).is_none());
        assert_eq!(queue.done_through(), 0);
        drop(queue.take_started(id));
        assert_eq!(queue.done_through(), 1);
        assert!(matches!(
            queue.take_next(false).unwrap().operation,
            Operation::Command(SessionCommand::SetMode { .. })
        ));
        assert_eq!(queue.done_through(), 2);
    }

    #[test]
    fn during_a_turn_an_operation_waits_only_for_its_own_kind() {
        let mut queue = queue_of([rename("a"), rename("b"), set_mode()]);
        let first = queue.take_next(true).unwrap();
        queue.hold(first, IoStep::Lock);
        assert!(matches!(
            queue.take_next(true).unwrap().operation,
            Operation::Command(SessionCommand::SetMode { .. })
        ));
        assert!(
            queue.take_next(true).is_none(),
            "the second title waits for the first"
        );
        assert_eq!(
            queue.done_through(),
            0,
            "a cancel waits for all commands before it"
        );
    }

    #[test]
    fn a_message_that_waits_for_a_server_holds_up_no_look() {
        let inspect = || SessionCommand::Inspect {
            reply: oneshot::channel().0,
        };
        for (step, may_look) in [(IoStep::ExpandMessage, true), (IoStep::Fold, false)] {
            let mut queue = queue_of([rename("a"), inspect(), set_mode(), inspect()]);
            let first = queue.take_next(false).unwrap();
            queue.hold(first, step);
            assert_eq!(queue.take_next(false).is_some(), may_look, "{step:?}");
            assert!(
                queue.take_next(false).is_none(),
                "the mode waits, and what follows it"
            );
        }
    }

    #[test]
    fn own_operations_come_first_and_alone() {
        let mut queue = queue_of([rename("a")]);
        let pending = queue.take_next(true).unwrap();
        let id = pending.id;
        queue.hold(pending, IoStep::Lock);
        queue.push_first(Operation::StartQueued);
        assert!(queue.take_next(true).is_none());
        drop(queue.take_started(id));
        assert!(matches!(
            queue.take_next(false).unwrap().operation,
            Operation::StartQueued
        ));
    }

    #[test]
    fn too_many_commands_are_refused() {
        let mut queue = queue_of((0..MAX_WAITING).map(|_| set_mode()));
        assert!(queue.push_command(set_mode()).is_err());
    }
}
