//! The shared state of one simulated world: its random numbers, its settings, its files and its checker.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::check::Checker;
use super::files::WrittenFiles;
use super::mcp::McpSettings;
use super::rng::Rng;
use agentls::config::FailurePolicy;
use agentls::domain::circuit::CircuitPolicy;
use agentls::domain::{Cost, Mode};
use agentls::turn::{AgentPolicy, Budgets};

/// The policies to draw from; the default is the most likely.
const POLICIES: [FailurePolicy; 4] = [
    FailurePolicy::Continue,
    FailurePolicy::Continue,
    FailurePolicy::Degrade,
    FailurePolicy::Fail,
];

/// A simulated world: one data folder across all its server runs.
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) settings: WorldSettings,
    pub(super) files: WrittenFiles,
    check: Mutex<Checker>,
    tickets: Mutex<u64>,
    /// The context window that an overflow error reported.
    learned_window: Mutex<u64>,
    /// What the models keep doing, and for how many more calls.
    behavior: Mutex<(ProviderBehavior, u64)>,
}

/// The agent that sessions can have instead of the default one.
pub(super) const OTHER_AGENT: &str = "careful";
/// The mode of [`OTHER_AGENT`].
pub(super) const OTHER_AGENT_MODE: Mode = Mode::Plan;

/// What a model can keep doing, so that turns reach the bounds of their continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProviderBehavior {
    /// Nothing special: each answer is independent.
    Usual,
    /// Its answers end at the output limit.
    Truncates,
    /// Its answers are empty or contain only reasoning.
    Empty,
    /// Its answers pause the turn.
    Pauses,
    /// It declines every request.
    Declines,
    /// Every prompt is too long for it.
    TooLong,
    /// It refuses pictures, even if the request contains none.
    Pictures,
    /// It is overloaded.
    Overloaded,
    /// Its answers stop early.
    Breaks,
}

const UNUSUAL_BEHAVIORS: [ProviderBehavior; 8] = [
    ProviderBehavior::Truncates,
    ProviderBehavior::Empty,
    ProviderBehavior::Pauses,
    ProviderBehavior::Declines,
    ProviderBehavior::TooLong,
    ProviderBehavior::Pictures,
    ProviderBehavior::Overloaded,
    ProviderBehavior::Breaks,
];

/// How difficult a world is. Each world draws its settings from its seed, so worlds differ: one may have a reliable
/// disk and an erratic user.
#[derive(Clone, Debug)]
pub(super) struct WorldSettings {
    pub(super) sessions: u64,
    pub(super) max_steps: u32,
    /// How often the output limit may be raised.
    pub(super) max_escalations: u32,
    pub(super) token_target: Option<u64>,
    /// Every n-th prompt or steer contains a picture.
    pub(super) pictures: u64,
    /// This chance and all others are in thousandths.
    pub(super) call_fails: u32,
    pub(super) stream_fails: u32,
    pub(super) malformed_answers: u32,
    /// How often a model enters a mood.
    pub(super) unusual_behavior: u32,
    pub(super) wants_tools: u32,
    pub(super) bad_tools: u32,
    /// How often a tool that can write changes a file, and how often a user does.
    pub(super) writes: u32,
    pub(super) outages: u32,
    pub(super) slow_client: u32,
    pub(super) resolve_fails: u32,
    /// The longest pause of the provider, in ms.
    pub(super) provider_ms: u64,
    pub(super) tool_ms: u64,
    /// The longest pause between two interferences of the user, in ms.
    pub(super) user_delay_ms: u64,
    /// The longest pause between two answers of the user, in ms.
    pub(super) answer_ms: u64,
    pub(super) mode: Mode,
    pub(super) approval_timeout: Option<Duration>,
    /// Whether the client supports questions.
    pub(super) questions: bool,
    pub(super) wall_time: Option<Duration>,
    pub(super) max_tool_calls: Option<u32>,
    pub(super) degrade: bool,
    /// Whether the model's price is known.
    pub(super) priced: bool,
    pub(super) budgets: Budgets,
    pub(super) idle: Duration,
    pub(super) slots: usize,
    pub(super) pool: usize,
    pub(super) yields: u32,
    pub(super) small_batches: u32,
    /// How much the store keeps in memory while the disk fails, in bytes.
    pub(super) memory: usize,
    pub(super) crashes: u32,
    /// The moments at which hooks run, as bits.
    pub(super) hooks_at: u8,
    /// How often hooks do something other than pass.
    pub(super) hook_change_rate: u32,
    /// Whether hooks that do not pass always object.
    pub(super) hooks_object: bool,
    /// How often the model repeats the same tool call.
    pub(super) repeats: u32,
    pub(super) policies: AgentPolicy,
    /// The model's window as configured; `real_window` is the true limit, for messages alone.
    pub(super) window: u64,
    pub(super) real_window: u64,
    pub(super) max_output: u32,
    /// Whether the model rejects pictures.
    pub(super) blind: bool,
    pub(super) auto_compact: bool,
    pub(super) compaction_model: Option<&'static str>,
    /// The exclusive upper bound of a model's retries.
    pub(super) max_retries: u64,
    /// Whether a second provider takes over from the first.
    pub(super) route: bool,
    /// Whether each provider has a fallback model for overloads.
    pub(super) substitute: bool,
    pub(super) circuit: CircuitPolicy,
    /// How often an answer with tool calls includes one of `delegate`; `delegate_limit` is its time limit.
    pub(super) delegates: u32,
    pub(super) delegate_limit: Option<Duration>,
    pub(super) mcp: McpSettings,
    /// Whether a client of the Agent Client Protocol uses the sessions too.
    pub(super) has_acp_client: bool,
}

impl WorldSettings {
    fn draw_settings(rng: &Rng, seed: u64) -> Self {
        let seconds = Duration::from_secs;
        Self {
            sessions: 1 + rng.next_below(4),
            max_steps: *rng.pick_one(&[1, 3, 8, 50]),
            max_escalations: *rng.pick_one(&[1, 1, 3]),
            token_target: *rng.pick_one(&[None, None, None, Some(150), Some(5_000)]),
            pictures: *rng.pick_one(&[23, 23, 2]),
            call_fails: *rng.pick_one(&[0, 0, 30, 300]),
            stream_fails: *rng.pick_one(&[0, 0, 30, 300]),
            malformed_answers: *rng.pick_one(&[0, 0, 50, 300]),
            unusual_behavior: *rng.pick_one(&[0, 30, 150, 400]),
            wants_tools: *rng.pick_one(&[50, 400, 700]),
            bad_tools: *rng.pick_one(&[0, 100, 500]),
            writes: *rng.pick_one(&[0, 600, 1_000]),
            outages: *rng.pick_one(&[0, 0, 2, 20]),
            slow_client: *rng.pick_one(&[0, 0, 100, 800]),
            resolve_fails: *rng.pick_one(&[0, 0, 50]),
            provider_ms: *rng.pick_one(&[0, 20, 500, 5_000]),
            tool_ms: *rng.pick_one(&[0, 50, 2_000, 14_000]),
            user_delay_ms: *rng.pick_one(&[20, 300, 3_000]),
            answer_ms: *rng.pick_one(&[100, 3_000, 60_000]),
            mode: *rng.pick_one(&[
                Mode::Ask,
                Mode::Ask,
                Mode::Ask,
                Mode::AutoEdit,
                Mode::Full,
                Mode::Plan,
            ]),
            approval_timeout: *rng.pick_one(&[None, Some(seconds(5)), Some(seconds(60))]),
            questions: rng.chance(500),
            wall_time: *rng.pick_one(&[None, None, None, Some(seconds(1)), Some(seconds(20))]),
            max_tool_calls: *rng.pick_one(&[None, None, Some(1), Some(6)]),
            degrade: rng.chance(400),
            priced: rng.chance(700),
            budgets: draw_budgets(rng),
            idle: *rng.pick_one(&[Duration::from_millis(5), seconds(1), seconds(30), seconds(1_800)]),
            slots: *rng.pick_one(&[1, 2, 256]),
            pool: *rng.pick_one(&[600, 4_096, 1 << 20]),
            yields: *rng.pick_one(&[0, 50, 400]),
            small_batches: *rng.pick_one(&[0, 100, 700]),
            memory: *rng.pick_one(&[usize::MAX, usize::MAX, 20_000, 2_000]),
            crashes: *rng.pick_one(&[0, 500, 950]),
            hooks_at: *rng.pick_one(&[0, 0, 0, 0b1111, 0b0001, 0b0110, 0b1000]),
            hook_change_rate: *rng.pick_one(&[0, 50, 400, 1_000]),
            hooks_object: rng.chance(300),
            repeats: *rng.pick_one(&[0, 0, 100, 950]),
            policies: AgentPolicy {
                planning: rng.chance(200),
                planning_prompt: None,
                reflection: *rng.pick_one(&[None, None, Some(1), Some(3)]),
                reflection_prompt: None,
                tool_failure: *rng.pick_one(&POLICIES),
                tool_timeout: *rng.pick_one(&POLICIES),
                subagent_failure: *rng.pick_one(&POLICIES),
                // The simulated editor has no language servers.
                new_errors_wait: None,
            },
            window: *rng.pick_one(&[200_000, 200_000, 6_000, 2_500]),
            real_window: *rng.pick_one(&[u64::MAX, u64::MAX, 3_000, 1_000]),
            max_output: *rng.pick_one(&[8_000, 64_000]),
            blind: rng.chance(300),
            auto_compact: rng.chance(850),
            compaction_model: *rng.pick_one(&[None, None, Some("sim/cheap")]),
            max_retries: *rng.pick_one(&[1, 4, 4, 12]),
            route: rng.chance(500),
            substitute: rng.chance(300),
            circuit: CircuitPolicy {
                failures: *rng.pick_one(&[1, 2, 5]),
                rest: *rng.pick_one(&[seconds(1), seconds(30)]),
            },
            delegates: *rng.pick_one(&[0, 100, 300, 700]),
            delegate_limit: *rng.pick_one(&[None, Some(seconds(1)), Some(seconds(20))]),
            // These come from sequences of their own, so that worlds without them stay as they were.
            mcp: McpSettings::draw_settings(seed),
            has_acp_client: Rng::new(seed ^ 0x6163_7020_636c_6965).chance(150),
        }
    }
}

/// Draws budgets small enough to be reached: a simulated answer costs up to a tenth of a cent.
fn draw_budgets(rng: &Rng) -> Budgets {
    let some = |most: u64| rng.chance(300).then(|| Cost(1 + rng.next_below(most)));
    let budgets = Budgets {
        turn: some(3_000_000),
        session: some(20_000_000),
        day: some(100_000_000),
        ..Budgets::default()
    };
    let at = some(60_000_000).map(|most| ("sim".to_owned(), most));
    Budgets {
        providers: Arc::new(at.into_iter().collect()),
        ..budgets
    }
}

impl World {
    pub(super) fn new(seed: u64, lines: usize, files: PathBuf) -> Arc<Self> {
        let rng = Rng::new(seed);
        let settings = WorldSettings::draw_settings(&rng, seed);
        let check = Mutex::new(Checker::new(&settings, lines));
        Arc::new(Self {
            rng,
            settings,
            files: WrittenFiles::new(files),
            check,
            tickets: Mutex::new(0),
            learned_window: Mutex::new(u64::MAX),
            behavior: Mutex::new((ProviderBehavior::Usual, 0)),
        })
    }

    /// Returns the mood of the model for the next call.
    pub(super) fn current_behavior(&self) -> ProviderBehavior {
        let mut behavior = self.behavior.lock().unwrap_or_else(PoisonError::into_inner);
        match behavior.1.checked_sub(1) {
            Some(remaining) => behavior.1 = remaining,
            None if self.rng.chance(self.settings.unusual_behavior) => {
                *behavior = (*self.rng.pick_one(&UNUSUAL_BEHAVIORS), self.rng.next_below(12));
            }
            None => behavior.0 = ProviderBehavior::Usual,
        }
        behavior.0
    }

    /// The known size of the model's window.
    pub(super) fn context_window(&self) -> u64 {
        let learned = *self.learned_window.lock().unwrap_or_else(PoisonError::into_inner);
        self.settings.window.min(learned)
    }

    /// Stores the window that an overflow error reported.
    pub(super) fn learn_window(&self, window: u64) {
        *self.learned_window.lock().unwrap_or_else(PoisonError::into_inner) = window;
    }

    pub(super) fn lock_checker(&self) -> MutexGuard<'_, Checker> {
        self.check.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets how many turns the next server run may start.
    pub(super) fn grant_tickets(&self, turns: u64) {
        *self.tickets.lock().unwrap_or_else(PoisonError::into_inner) = turns;
    }

    /// Takes the right to start one more turn; returns whether any was left.
    pub(super) fn take_ticket(&self) -> bool {
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let is_granted = *tickets > 0;
        *tickets = tickets.saturating_sub(1);
        is_granted
    }
}
