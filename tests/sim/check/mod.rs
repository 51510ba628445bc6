//! The checker: everything that is shown, asked of a provider, done by a tool or typed by the user comes by
//! here, and the invariants of the architecture are checked at once. The first violation freezes the world.
//!
//! In reading order: `seen` is what it remembers; `events` what is shown; `bounds` how often turns go on,
//! `conduct` how they bear themselves; `requests` what providers are sent; `circuits` whom may be called;
//! `ledger` what tools do; `phases` where turns are; `typed` what the user said and was answered, `queued` what of it
//! waits; `reverts` which files were put back; `forks` sessions made of others; `reload` what a store holds after a
//! crash or a quiet moment.

mod bounds;
mod circuits;
mod conduct;
mod deltas;
mod events;
mod forks;
mod inquiries;
mod joins;
mod ledger;
mod money;
mod phases;
mod queued;
mod reload;
mod requests;
mod reverts;
mod seen;
mod spent;
mod typed;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bounds::Bounds;
pub(super) use circuits::ObservedCall;
use circuits::ShownCircuit;
use conduct::PolicyRecord;
use money::MoneyChecker;
pub(super) use reload::ReloadedSession;
pub(super) use reverts::RequestedRevert;
use seen::{ShownCallState, ShownSession};
use typed::TypedInputs;
pub(super) use typed::{TypedAnswer, TypedKind};

use super::coverage::Coverage;
use super::joins::Joins;
use super::world::WorldSettings;
use agentls::base::{clock, sim_schedule};
use agentls::domain::{Approval, Mode, SessionId, ToolCallId, TurnId};

/// See the module.
pub(super) struct Checker {
    failure: Option<String>,
    log: VecDeque<String>,
    /// So many of the last lines are kept.
    kept: usize,
    hash: u64,
    lines: u64,
    degraded: bool,
    /// The store was known to fail until then, in virtual ms.
    failed_until: i64,
    /// It has lost something in this life, as it said.
    lost: bool,
    /// It may have lost something at some time.
    lossy: bool,
    /// When it has said so last: what it had taken in by then is shown after that.
    lost_at: Option<i64>,
    /// The server was asked to end.
    ending: bool,
    sessions: BTreeMap<SessionId, ShownSession>,
    /// Sessions in which the model has paused: its messages may follow each other.
    paused: BTreeSet<SessionId>,
    /// Forks that were asked for and not answered yet, and sessions that such have left.
    forking: u32,
    strays: BTreeSet<SessionId>,
    /// Whose deletion was asked for and not answered yet.
    deleting: BTreeSet<SessionId>,
    typed: BTreeMap<u64, TypedInputs>,
    labels: u64,
    /// Rules that were sent for the whole folder.
    folder_rules: Vec<String>,
    in_hand: BTreeMap<ToolCallId, ShownCallState>,
    /// What was stored and not shown is taken in.
    reloading: bool,
    /// When the last crash was, in virtual ms.
    crashed_at: i64,
    bounds: Bounds,
    /// Every so manieth prompt or steer shows a picture.
    pictures: u64,
    approvals_time_out: bool,
    money: MoneyChecker,
    manners: PolicyRecord,
    /// Of this life, by provider; and how many failures open one.
    circuits: BTreeMap<String, ShownCircuit>,
    circuit_failures: u32,
    /// Arguments that hooks gave.
    by_hook: BTreeMap<ToolCallId, serde_json::Value>,
    turns: u64,
    /// What has happened, for the coverage table.
    counts: BTreeMap<String, u64>,
    coverage: Coverage,
    joins: Joins,
}

impl Checker {
    pub(super) fn new(knobs: &WorldSettings, kept: usize) -> Self {
        Self {
            failure: None,
            log: VecDeque::new(),
            kept,
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
            reloading: false,
            crashed_at: 0,
            paused: BTreeSet::new(),
            bounds: Bounds {
                steps: knobs.max_steps,
                escalations: knobs.max_escalations,
            },
            pictures: knobs.pictures,
            approvals_time_out: knobs.approval_timeout.is_some(),
            money: MoneyChecker::new(knobs.budgets.clone(), knobs.max_tool_calls, knobs.priced),
            manners: PolicyRecord {
                conducts: knobs.conducts,
                hooks_at: knobs.hooks_at,
                degrade: knobs.degrade,
                prompt: knobs.slow_client == 0 && knobs.outages == 0,
            },
            circuits: BTreeMap::new(),
            circuit_failures: knobs.circuit.failures,
            by_hook: BTreeMap::new(),
            turns: 0,
            counts: BTreeMap::new(),
            coverage: Coverage::default(),
            joins: Joins::default(),
        }
    }

    /// A violation: remembered, and the world stands still.
    pub(super) fn record_violation(&mut self, what: String) {
        if self.failure.is_none() {
            self.log_line(format!("VIOLATION {what}"));
            self.failure = Some(what);
        }
        sim_schedule::freeze_tasks();
    }

    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Adds a line to the log, which is the world's fingerprint too.
    pub(super) fn log_line(&mut self, line: String) {
        self.hash = line.as_bytes().chunks(8).fold(self.hash, |hash, word| {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            let mixed = (hash ^ u64::from_le_bytes(bytes)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^ (mixed >> 29)
        });
        self.lines += 1;
        if self.log.len() >= self.kept {
            self.log.pop_front();
        }
        self.log.push_back(format!("{:>12} {line}", clock::wall_ms()));
    }

    pub(super) fn log_lines(&self) -> impl Iterator<Item = &String> {
        self.log.iter()
    }

    /// The fingerprint of all that has happened, and of how many lines.
    pub(super) fn fingerprint(&self) -> (u64, u64) {
        (self.hash, self.lines)
    }

    pub(super) fn count_case(&mut self, what: impl Into<String>) {
        *self.counts.entry(what.into()).or_default() += 1;
    }

    fn count_many(&mut self, what: &str, times: usize) {
        for _ in 0..times {
            self.count_case(what);
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

    /// Turns that have ended.
    pub(super) fn ended_turns(&self) -> u64 {
        self.turns
    }

    pub(super) fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Whether what is shown now may be among what the store has just said to have lost.
    pub(super) fn has_just_lost(&self) -> bool {
        self.lost_at == Some(clock::wall_ms())
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending
    }

    pub(super) fn begin_shutdown(&mut self) {
        self.ending = true;
    }

    /// A session was made, with this mode.
    pub(super) fn add_session(&mut self, session: &SessionId, mode: Mode) {
        self.sessions.insert(session.clone(), ShownSession::new(mode));
    }

    /// A session's deletion is asked for: from now on it may be unknown.
    pub(super) fn begin_delete(&mut self, session: &SessionId) {
        self.log_line(format!("deletes {session}"));
        self.deleting.insert(session.clone());
    }

    /// The deletion is answered.
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

    /// The session's running turn, as far as it has been shown.
    pub(super) fn open_turn(&self, session: &SessionId) -> Option<TurnId> {
        self.sessions.get(session)?.fold.turns.open_turn.clone()
    }

    /// Some turn of the session, running or not.
    pub(super) fn any_turn(&self, session: &SessionId, pick: u64) -> Option<TurnId> {
        let turns = &self.sessions.get(session)?.turns;
        let at = pick.checked_rem(turns.len() as u64)?;
        turns.keys().nth(at as usize).cloned()
    }

    /// Whether the session waits for an answer.
    pub(super) fn has_question(&self, session: &SessionId) -> bool {
        self.sessions
            .get(session)
            .is_some_and(|seen| !seen.fold.open.approvals.is_empty())
    }

    /// All open approvals, and whether their turns run.
    pub(super) fn open_approvals(&self) -> Vec<(SessionId, Approval, bool)> {
        let of = |(id, seen): (&SessionId, &ShownSession)| {
            let (id, running) = (id.clone(), seen.fold.turns.open_turn.is_some());
            let open = seen.fold.open.approvals.clone();
            open.into_iter()
                .map(move |open| (id.clone(), open.approval, running))
        };
        self.sessions.iter().flat_map(of).collect()
    }

    /// Turns that have no end yet.
    pub(super) fn running_turns(&self) -> BTreeSet<TurnId> {
        self.sessions
            .values()
            .filter_map(|seen| seen.fold.turns.open_turn.clone())
            .collect()
    }
}
