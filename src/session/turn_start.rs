//! How a turn is started, and stopped from outside.
//!
//! It builds what the turn's task gets from the session. What the task reports is in `turn_events`.

use std::sync::{Arc, Mutex};

use tokio::sync::{mpsc, oneshot};

use super::active_turn::{ActiveTurn, PromptReview, TurnControl, TurnReport, TurnSpending};
use super::actor::Actor;
use super::checkpoints::TurnCheckpoints;
use super::command::TurnHandle;
use super::pausable_deadline::PausableDeadline;
use super::services::SessionSettings;
use super::subagent::{SubagentFactory, run_delegating_turn};
use crate::base::CancellationToken;
use crate::base::clock;
use crate::base::spawn::spawn;
use crate::config::{HookMoment, StringList};
use crate::domain::{FinalAnswer, Inquiry, TerminalReason, TurnId};
use crate::tool::{NoSpawner, ToolRecords, TurnTools};
use crate::turn::{
    CarriedCall, Resumption, SessionLink, SystemPrompt, TurnContext, TurnServices, TurnSettings, TurnSpend,
    TurnTask,
};
use crate::workspace::Workspace;

/// Messages of a turn that may wait for the actor; beyond it the turn waits.
const TURN_QUEUE: usize = 64;

impl Actor {
    /// Returns the session's workspace, which is opened when it is first needed.
    pub(super) fn session_workspace(&mut self) -> Arc<Workspace> {
        let (profiles, info) = (&self.services.profiles, &self.info);
        self.resources
            .workspace
            .get_or_insert_with(|| profiles.open_workspace(info))
            .clone()
    }

    /// Returns the tools that the session's agent may use.
    fn select_tools(&mut self, profile: &SessionSettings, records: &ToolRecords) -> TurnTools {
        let tools = self.services.client_tools(&profile.own_tools);
        // Held between turns too, so that the servers go on running. What is not configured any more ends.
        self.resources.mcp.clone_from(&profile.mcp);
        profile.build_turn_tools(&tools, &StringList::default(), records)
    }

    /// Starts a turn's task. `begin` records `TurnStarted` and the events that belong to the start.
    pub(super) fn start_turn(
        &mut self,
        profile: SessionSettings,
        task: TurnTask,
        carried: Vec<CarriedCall>,
        inquiries: Vec<Arc<Inquiry>>,
        begin: impl FnOnce(&mut Self),
    ) -> TurnHandle {
        let id = TurnId::new_random();
        let (messages, inbox) = mpsc::channel(TURN_QUEUE);
        let (cancel, force_cancel) = (CancellationToken::new(), CancellationToken::new());
        // A turn's settings are fixed at its start, so a reload never changes a running turn.
        let tools = self.services.tool_names(&profile);
        let tools = tools.into_iter().map(str::to_owned).collect();
        self.questions.set_rules(&profile.rules, tools);
        let workspace = self.session_workspace();
        workspace.set_on_cancel(profile.on_cancel);
        let answers = task == TurnTask::Answer;
        let spend = TurnSpend {
            budgets: profile.budgets.clone(),
            session: self.state.spending.known_cost,
            session_raised: self.state.spending.raised,
            unpriced: self.state.spending.accepted_unpriced.clone(),
            ..TurnSpend::default()
        };
        let checkpoints = Arc::new(TurnCheckpoints::new(&self.services, &self.info.id, &id));
        let records = ToolRecords {
            loaded: self.resources.loaded_tools.clone(),
            ..ToolRecords::default()
        };
        let context = TurnContext {
            session: self.info.id.clone(),
            turn: id.clone(),
            depth: 0,
            link: SessionLink::new(messages, self.journal.byte_budget.clone(), cancel.clone()),
            cancel: cancel.clone(),
            workspace,
            tools: self.select_tools(&profile, &records),
            spawner: Arc::new(NoSpawner),
            prompt: SystemPrompt::default(),
            services: Arc::new(TurnServices {
                force_cancel: force_cancel.clone(),
                cwd: self.info.cwd.clone(),
                slots: self.services.slots.clone(),
                totals: self.services.totals.clone(),
                redactor: self.services.redactor.clone(),
                editor: self.services.editor.clone(),
                content_sink: self.content_sink(),
                checkpoints: checkpoints.clone(),
                budget: Arc::new(
                    self.services
                        .ledger
                        .open(spend, profile.turn.limits.max_tool_calls),
                ),
                statistics: self.resources.statistics.clone(),
                unheard_servers: Mutex::default(),
                attendance: (self.services.attendance)(),
            }),
            settings: TurnSettings {
                choice: self.state.choice.to_model_choice(&self.info),
                mode: self.state.choice.mode,
                limits: self.services.adjust_limits(&profile),
                ..profile.turn.clone()
            },
            resumption: Resumption {
                is_first_turn: self.state.history.is_empty(),
                announced_instructions: self.state.instructions.clone(),
                answering: self.state.route.answering.clone(),
                open_circuits: self.state.route.open_circuits.iter().cloned().collect(),
                carried,
                inquiries,
            },
        };
        let subagents = SubagentFactory::new(&self.services, &self.info, &profile, records);
        let has_prompt_hooks = context.settings.hooks.has_hooks_for(HookMoment::Prompt);
        let wall_time = profile.wall_time.filter(|_| answers);
        let (waiter, outcome) = oneshot::channel();
        let (tell_passed, passed) = oneshot::channel();
        self.turn = Some(ActiveTurn {
            id: id.clone(),
            settings: profile,
            known_model: self.state.choice.model.clone(),
            control: TurnControl {
                task: spawn(run_delegating_turn(context, task, subagents)),
                messages: inbox,
                cancel,
                force_cancel,
                stopping: None,
                is_closing: false,
                returned: None,
            },
            review: PromptReview {
                has_prompt_hooks,
                prompt: None,
            },
            clock: PausableDeadline::start_with_limit(wall_time),
            checkpoints,
            spending: TurnSpending::default(),
            report: TurnReport {
                waiter: Some(waiter),
                end_forwarded: Some(tell_passed),
                answer: FinalAnswer::default(),
                compacted: None,
            },
        });
        // Before `turnStarted` is recorded, so that a cancel that names the turn is never taken for a stale one.
        self.mailbox.cancels.note_turn_started(&id);
        self.residency.live_sessions.set_running(&self.info.id, true);
        let mark = self.journal.mark();
        begin(self);
        // All or nothing: a crash must not leave a turn without its prompt (I16).
        self.journal.join_writes_since(mark);
        TurnHandle {
            turn: id,
            outcome,
            passed,
        }
    }

    /// Stops the running turn from outside. Its end is settled when its task has returned. A second call skips graceful
    /// shutdown.
    pub(super) fn stop_turn(&mut self, reason: TerminalReason) {
        let Some(turn) = self.turn.as_mut() else { return };
        if turn.control.stopping.is_some() {
            turn.control.force_cancel.cancel();
            return;
        }
        turn.control.stopping = Some((reason, clock::now()));
        // R-CANCEL: at the server's end there is no time for `on_cancel`.
        if reason == TerminalReason::ServerStopped {
            turn.control.force_cancel.cancel();
        }
        turn.control.cancel.cancel();
    }

    /// Aborts the task of a turn that did not stop in time. Its processes die with it.
    pub(super) fn drop_turn(&mut self) {
        tracing::error!(session = %self.info.id, "a stopped turn did not end in time and was aborted");
        if let Some(turn) = self.turn.as_mut() {
            // Its files do not answer: it ends without the list of what it has changed.
            if let Some((result, _)) = turn.control.returned.take() {
                return self.end_turn(result);
            }
            turn.control.task.abort();
            // Restart the limit, so that it does not fire again while the aborted task is being dropped.
            if let Some((_, since)) = turn.control.stopping.as_mut() {
                *since = clock::now();
            }
        }
    }
}
