//! The checker observes every event, provider request, tool effect and user command of a simulated world. It
//! checks the architecture's invariants at once; the first violation freezes the world.
//!
//! In reading order: `memory` holds what the checker remembers, and `events` checks what the server shows.
//! `bounds` limits how often a turn continues; `conduct` checks policies, hooks and loop guards. `requests`
//! checks what providers receive; `circuits` checks which of them the server may call. `ledger` checks what
//! tools do, and `mcp` what MCP servers receive; `phases` records which phase each turn is in. `typed` checks what the user sends and how the
//! server answers; `queued` checks the prompts that wait. `reverts` checks restored files, and `forks` checks
//! forked sessions. `acp` checks what a client of the Agent Client Protocol sees. `reload` compares the store with what was shown, after a crash or at a quiet moment.

mod acp;
mod bounds;
mod circuits;
mod conduct;
mod deltas;
mod events;
mod forks;
mod inquiries;
mod joins;
mod ledger;
mod mcp;
mod memory;
mod money;
mod phases;
mod queued;
mod reload;
mod requests;
mod reverts;
mod spent;
mod typed;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use acp::AcpScreen;
use bounds::Bounds;
pub(super) use circuits::ObservedCall;
use circuits::ShownCircuit;
use conduct::PolicyRecord;
use mcp::McpRecord;
use memory::{ShownCallState, ShownSession};
use money::MoneyChecker;
pub(super) use reload::ReloadedSession;
pub(super) use reverts::RequestedRevert;
use typed::TypedInputs;
pub(super) use typed::{TypedAnswer, TypedKind};

use super::coverage::Coverage;
use super::joins::Joins;
use super::world::WorldSettings;
use agentls::base::{clock, sim_schedule};
use agentls::domain::{Approval, Mode, SessionId, ToolCallId, TurnId};

/// Checks one simulated world; see the module documentation.
pub(super) struct Checker {
    failure: Option<String>,
    log: VecDeque<String>,
    /// The maximum number of log lines to keep.
    max_log_lines: usize,
    hash: u64,
    lines: u64,
    degraded: bool,
    /// Until when store failures are expected, in virtual ms.
    failed_until: i64,
    /// The store has reported lost records in this server run.
    lost: bool,
    /// The store may have lost records in any server run.
    lossy: bool,
    /// When the store last reported a loss. Events that it accepted earlier may appear after the report.
    lost_at: Option<i64>,
    /// The server has been asked to shut down.
    ending: bool,
    sessions: BTreeMap<SessionId, ShownSession>,
    /// Sessions in which the model has paused: two of its messages may be adjacent.
    paused: BTreeSet<SessionId>,
    /// The number of fork requests without an answer.
    forking: u32,
    /// Sessions of forks that are in progress or that a crash interrupted.
    strays: BTreeSet<SessionId>,
    /// Sessions with a deletion request that has no answer yet.
    deleting: BTreeSet<SessionId>,
    typed: BTreeMap<u64, TypedInputs>,
    labels: u64,
    /// Rules that the user sent for the whole folder.
    folder_rules: Vec<String>,
    in_hand: BTreeMap<ToolCallId, ShownCallState>,
    mcp: McpRecord,
    acp: AcpScreen,
    /// The checker is processing events that the store holds but no client has seen.
    reloading: bool,
    /// When the server last crashed, in virtual ms.
    crashed_at: i64,
    bounds: Bounds,
    /// One in this many prompts or steers contains an image.
    pictures: u64,
    approvals_time_out: bool,
    money: MoneyChecker,
    policy_record: PolicyRecord,
    /// Circuits of this server run, by provider.
    circuits: BTreeMap<String, ShownCircuit>,
    /// How many consecutive failures open a circuit.
    circuit_failures: u32,
    /// Arguments that hooks substituted.
    by_hook: BTreeMap<ToolCallId, serde_json::Value>,
    turns: u64,
    /// How often each case occurred, for the coverage table.
    counts: BTreeMap<String, u64>,
    coverage: Coverage,
    joins: Joins,
}

impl Checker {
    pub(super) fn new(settings: &WorldSettings, max_log_lines: usize) -> Self {
        Self {
            failure: None,
            log: VecDeque::new(),
            max_log_lines,
            hash: 0xcbf2_9ce4_8422_2325,
            lines: 0,
            degraded: false,
            failed_until: i64::MIN,
            lost: false,
            lossy: false,
            lost_at: None,
            ending: false,
            sessions: BTreeMap::new(),
            forking: 0,
            strays: BTreeSet::new(),
            deleting: BTreeSet::new(),
            typed: BTreeMap::new(),
            labels: 0,
            folder_rules: Vec::new(),
            in_hand: BTreeMap::new(),
            mcp: McpRecord::default(),
            acp: AcpScreen::default(),
            reloading: false,
            crashed_at: 0,
            paused: BTreeSet::new(),
            bounds: Bounds {
                steps: settings.max_steps,
                escalations: settings.max_escalations,
            },
            pictures: settings.pictures,
            approvals_time_out: settings.approval_timeout.is_some(),
            money: MoneyChecker::new(settings.budgets.clone(), settings.max_tool_calls, settings.priced),
            policy_record: PolicyRecord {
                policies: settings.policies.clone(),
                hooks_at: settings.hooks_at,
                degrade: settings.degrade,
                prompt: settings.slow_client == 0 && settings.outages == 0,
            },
            circuits: BTreeMap::new(),
            circuit_failures: settings.circuit.failures,
            by_hook: BTreeMap::new(),
            turns: 0,
            counts: BTreeMap::new(),
            coverage: Coverage::default(),
            joins: Joins::default(),
        }
    }

    /// Records the first violation and freezes the world, so that the log ends where it happened.
    pub(super) fn record_violation(&mut self, violation: String) {
        if self.failure.is_none() {
            self.log_line(format!("VIOLATION {violation}"));
            self.failure = Some(violation);
        }
        sim_schedule::freeze_tasks();
    }

    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Adds a line to the log and to the world's fingerprint.
    pub(super) fn log_line(&mut self, line: String) {
        self.hash = line.as_bytes().chunks(8).fold(self.hash, |hash, word| {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            let mixed = (hash ^ u64::from_le_bytes(bytes)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^ (mixed >> 29)
        });
        self.lines += 1;
        if self.log.len() >= self.max_log_lines {
            self.log.pop_front();
        }
        self.log.push_back(format!("{:>12} {line}", clock::wall_ms()));
    }

    pub(super) fn log_lines(&self) -> impl Iterator<Item = &String> {
        self.log.iter()
    }

    /// The hash of all log lines, and their number.
    pub(super) fn fingerprint(&self) -> (u64, u64) {
        (self.hash, self.lines)
    }

    pub(super) fn count_case(&mut self, label: impl Into<String>) {
        *self.counts.entry(label.into()).or_default() += 1;
    }

    fn count_many(&mut self, label: &str, times: usize) {
        for _ in 0..times {
            self.count_case(label);
        }
    }

    pub(super) fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    pub(super) fn joins(&self) -> &Joins {
        &self.joins
    }

    pub(super) fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// The number of turns that have ended.
    pub(super) fn ended_turns(&self) -> u64 {
        self.turns
    }

    pub(super) fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Whether the events shown now may be among those that the store has just reported as lost.
    pub(super) fn has_just_lost_events(&self) -> bool {
        self.lost_at == Some(clock::wall_ms())
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending
    }

    pub(super) fn begin_shutdown(&mut self) {
        self.ending = true;
    }

    /// A session was created with this mode.
    pub(super) fn add_session(&mut self, session: &SessionId, mode: Mode) {
        self.sessions.insert(session.clone(), ShownSession::new(mode));
    }

    /// The user requests a session's deletion: from now on the server may report the session as unknown.
    pub(super) fn begin_delete(&mut self, session: &SessionId) {
        self.log_line(format!("deletes {session}"));
        self.deleting.insert(session.clone());
    }

    /// The server has answered the deletion request.
    pub(super) fn delete_answered(&mut self, session: &SessionId, is_gone: bool) {
        self.deleting.remove(session);
        if is_gone {
            self.forget_session(session);
        }
    }

    fn forget_session(&mut self, session: &SessionId) {
        self.sessions.remove(session);
        self.count_case("session gone");
        self.typed.retain(|_, typed| typed.session != *session);
    }

    pub(super) fn session_ids(&self) -> Vec<SessionId> {
        self.sessions.keys().cloned().collect()
    }

    /// The session's running turn, according to the events shown so far.
    pub(super) fn open_turn(&self, session: &SessionId) -> Option<TurnId> {
        self.sessions.get(session)?.fold.turns.open_turn.clone()
    }

    /// Any turn of the session, running or ended.
    pub(super) fn any_turn(&self, session: &SessionId, pick: u64) -> Option<TurnId> {
        let turns = &self.sessions.get(session)?.turns;
        let at = pick.checked_rem(turns.len() as u64)?;
        turns.keys().nth(at as usize).cloned()
    }

    /// Whether the session has an open approval.
    pub(super) fn has_question(&self, session: &SessionId) -> bool {
        self.sessions
            .get(session)
            .is_some_and(|shown_session| !shown_session.fold.open.approvals.is_empty())
    }

    /// All open approvals, and whether the turn of each is running.
    pub(super) fn open_approvals(&self) -> Vec<(SessionId, Approval, bool)> {
        let approvals_of = |(id, shown_session): (&SessionId, &ShownSession)| {
            let (id, running) = (id.clone(), shown_session.fold.turns.open_turn.is_some());
            let open = shown_session.fold.open.approvals.clone();
            open.into_iter()
                .map(move |open| (id.clone(), open.approval, running))
        };
        self.sessions.iter().flat_map(approvals_of).collect()
    }

    /// The turns that have not ended yet.
    pub(super) fn running_turns(&self) -> BTreeSet<TurnId> {
        self.sessions
            .values()
            .filter_map(|shown_session| shown_session.fold.turns.open_turn.clone())
            .collect()
    }
}
