//! What all parts of one simulated world share: its dice, how bad it is, and who checks.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::check::Checker;
use super::dice::Dice;
use super::files::Files;
use crate::config::FailurePolicy;
use crate::domain::{Cost, Mode};
use crate::provider::CircuitPolicy;
use crate::turn::{Budgets, Conducts};

/// Mostly the default.
const POLICIES: [FailurePolicy; 4] = [
    FailurePolicy::Continue,
    FailurePolicy::Continue,
    FailurePolicy::Degrade,
    FailurePolicy::Fail,
];

/// A simulated world: one data folder, through as many crashes as it takes.
pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) knobs: Knobs,
    pub(super) files: Files,
    check: Mutex<Checker>,
    tickets: Mutex<u64>,
    /// What an overflow has named.
    learnt: Mutex<u64>,
    /// What the models do again and again, and for how many calls to come.
    mood: Mutex<(Mood, u64)>,
}

/// What a model may do again and again, so that the bounds of continues are met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// Nothing: each answer is like any other.
    Usual,
    /// Its answers are cut at the output limit.
    Truncates,
    /// It says nothing, or thinks only.
    Empty,
    /// It pauses.
    Pauses,
    /// It declines.
    Declines,
    /// Every prompt is too long for it.
    TooLong,
    /// It refuses pictures, whether there are any or not.
    Pictures,
    /// It is overloaded.
    Overloaded,
    /// Its answers break off.
    Breaks,
}

const MOODS: [Mood; 8] = [
    Mood::Truncates,
    Mood::Empty,
    Mood::Pauses,
    Mood::Declines,
    Mood::TooLong,
    Mood::Pictures,
    Mood::Overloaded,
    Mood::Breaks,
];

/// How bad a world is; drawn from its seed, so that worlds differ (a quiet disk with a mad user, …).
#[derive(Clone, Debug)]
pub(super) struct Knobs {
    pub(super) sessions: u64,
    pub(super) max_steps: u32,
    /// How often the output limit may be raised.
    pub(super) max_escalations: u32,
    pub(super) token_target: Option<u64>,
    /// Every so manieth prompt or steer shows a picture.
    pub(super) pictures: u64,
    /// All in thousandths.
    pub(super) call_fails: u32,
    pub(super) stream_fails: u32,
    pub(super) odd_answers: u32,
    /// How often a model falls into a mood.
    pub(super) moods: u32,
    pub(super) wants_tools: u32,
    pub(super) bad_tools: u32,
    /// How often a tool that changes something changes a file, and a person does.
    pub(super) writes: u32,
    pub(super) outages: u32,
    pub(super) slow_client: u32,
    pub(super) resolve_fails: u32,
    /// The longest pause of the provider in ms.
    pub(super) provider_ms: u64,
    pub(super) tool_ms: u64,
    /// Between two whims of the user in ms.
    pub(super) whim_ms: u64,
    /// Between two answers of the user in ms.
    pub(super) answer_ms: u64,
    pub(super) mode: Mode,
    pub(super) approval_timeout: Option<Duration>,
    /// The client takes questions.
    pub(super) questions: bool,
    pub(super) wall_time: Option<Duration>,
    pub(super) max_tool_calls: Option<u32>,
    pub(super) degrade: bool,
    /// Its model's price is known.
    pub(super) priced: bool,
    pub(super) budgets: Budgets,
    pub(super) idle: Duration,
    pub(super) slots: usize,
    pub(super) pool: usize,
    pub(super) yields: u32,
    pub(super) small_batches: u32,
    /// What the store keeps while the disk fails, in bytes.
    pub(super) memory: usize,
    pub(super) crashes: u32,
    /// At which moments hooks run, as bits.
    pub(super) hooks_at: u8,
    /// How often they do not just pass.
    pub(super) hooks_meddle: u32,
    /// When they meddle, they object, and nothing else.
    pub(super) hooks_object: bool,
    /// How often the model asks for the same once more.
    pub(super) repeats: u32,
    pub(super) conducts: Conducts,
    /// The model's window as it is told, and as it is for messages alone.
    pub(super) window: u64,
    pub(super) real_window: u64,
    pub(super) max_output: u32,
    /// The model takes no pictures.
    pub(super) blind: bool,
    pub(super) auto_compact: bool,
    pub(super) compaction_model: Option<&'static str>,
    /// Below this the retries of a model are drawn.
    pub(super) max_retries: u64,
    /// A second provider takes over from the first.
    pub(super) route: bool,
    /// Each provider has a model for overloads.
    pub(super) stand_in: bool,
    pub(super) circuit: CircuitPolicy,
    /// How often a call is one of `delegate`, and how long a sub-agent may work.
    pub(super) delegates: u32,
    pub(super) delegate_limit: Option<Duration>,
}

impl Knobs {
    fn draw(dice: &Dice) -> Self {
        let seconds = Duration::from_secs;
        Self {
            sessions: 1 + dice.below(4),
            max_steps: *dice.pick(&[1, 3, 8, 50]),
            max_escalations: *dice.pick(&[1, 1, 3]),
            token_target: *dice.pick(&[None, None, None, Some(150), Some(5_000)]),
            pictures: *dice.pick(&[23, 23, 2]),
            call_fails: *dice.pick(&[0, 0, 30, 300]),
            stream_fails: *dice.pick(&[0, 0, 30, 300]),
            odd_answers: *dice.pick(&[0, 0, 50, 300]),
            moods: *dice.pick(&[0, 30, 150, 400]),
            wants_tools: *dice.pick(&[50, 400, 700]),
            bad_tools: *dice.pick(&[0, 100, 500]),
            writes: *dice.pick(&[0, 300, 900]),
            outages: *dice.pick(&[0, 0, 2, 20]),
            slow_client: *dice.pick(&[0, 0, 100, 800]),
            resolve_fails: *dice.pick(&[0, 0, 50]),
            provider_ms: *dice.pick(&[0, 20, 500, 5_000]),
            tool_ms: *dice.pick(&[0, 50, 2_000, 14_000]),
            whim_ms: *dice.pick(&[20, 300, 3_000]),
            answer_ms: *dice.pick(&[100, 3_000, 60_000]),
            mode: *dice.pick(&[
                Mode::Ask,
                Mode::Ask,
                Mode::Ask,
                Mode::AutoEdit,
                Mode::Full,
                Mode::Plan,
            ]),
            approval_timeout: *dice.pick(&[None, Some(seconds(5)), Some(seconds(60))]),
            questions: dice.chance(500),
            wall_time: *dice.pick(&[None, None, None, Some(seconds(1)), Some(seconds(20))]),
            max_tool_calls: *dice.pick(&[None, None, Some(1), Some(6)]),
            degrade: dice.chance(400),
            priced: dice.chance(700),
            budgets: budgets(dice),
            idle: *dice.pick(&[Duration::from_millis(5), seconds(1), seconds(30), seconds(1_800)]),
            slots: *dice.pick(&[1, 2, 256]),
            pool: *dice.pick(&[600, 4_096, 1 << 20]),
            yields: *dice.pick(&[0, 50, 400]),
            small_batches: *dice.pick(&[0, 100, 700]),
            memory: *dice.pick(&[usize::MAX, usize::MAX, 20_000, 2_000]),
            crashes: *dice.pick(&[0, 500, 950]),
            hooks_at: *dice.pick(&[0, 0, 0, 0b1111, 0b0001, 0b0110, 0b1000]),
            hooks_meddle: *dice.pick(&[0, 50, 400, 1_000]),
            hooks_object: dice.chance(300),
            repeats: *dice.pick(&[0, 0, 100, 950]),
            conducts: Conducts {
                planning: dice.chance(200),
                reflection: *dice.pick(&[None, None, Some(1), Some(3)]),
                tool_failure: *dice.pick(&POLICIES),
                tool_timeout: *dice.pick(&POLICIES),
                subagent_failure: *dice.pick(&POLICIES),
            },
            window: *dice.pick(&[200_000, 200_000, 6_000, 2_500]),
            real_window: *dice.pick(&[u64::MAX, u64::MAX, 3_000, 1_000]),
            max_output: *dice.pick(&[8_000, 64_000]),
            blind: dice.chance(300),
            auto_compact: dice.chance(850),
            compaction_model: *dice.pick(&[None, None, Some("sim/cheap")]),
            max_retries: *dice.pick(&[1, 4, 4, 12]),
            route: dice.chance(500),
            stand_in: dice.chance(300),
            circuit: CircuitPolicy {
                failures: *dice.pick(&[1, 2, 5]),
                rest: *dice.pick(&[seconds(1), seconds(30)]),
            },
            delegates: *dice.pick(&[0, 100, 300, 700]),
            delegate_limit: *dice.pick(&[None, Some(seconds(1)), Some(seconds(20))]),
        }
    }
}

/// A simulated answer costs up to a tenth of a cent.
fn budgets(dice: &Dice) -> Budgets {
    let some = |most: u64| dice.chance(300).then(|| Cost(1 + dice.below(most)));
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
        let dice = Dice::new(seed);
        let knobs = Knobs::draw(&dice);
        let check = Mutex::new(Checker::new(&knobs, lines));
        Arc::new(Self {
            dice,
            knobs,
            files: Files::new(files),
            check,
            tickets: Mutex::new(0),
            learnt: Mutex::new(u64::MAX),
            mood: Mutex::new((Mood::Usual, 0)),
        })
    }

    /// What the model that is asked now is like.
    pub(super) fn mood(&self) -> Mood {
        let mut mood = self.mood.lock().unwrap_or_else(PoisonError::into_inner);
        match mood.1.checked_sub(1) {
            Some(left) => mood.1 = left,
            None if self.dice.chance(self.knobs.moods) => {
                *mood = (*self.dice.pick(&MOODS), self.dice.below(12));
            }
            None => mood.0 = Mood::Usual,
        }
        mood.0
    }

    /// The model's window, as far as is known.
    pub(super) fn window(&self) -> u64 {
        let learnt = *self.learnt.lock().unwrap_or_else(PoisonError::into_inner);
        self.knobs.window.min(learnt)
    }

    /// An overflow has named the window.
    pub(super) fn learn_window(&self, window: u64) {
        *self.learnt.lock().unwrap_or_else(PoisonError::into_inner) = window;
    }

    pub(super) fn check(&self) -> MutexGuard<'_, Checker> {
        self.check.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many turns may be begun in the life to come.
    pub(super) fn grant_tickets(&self, turns: u64) {
        *self.tickets.lock().unwrap_or_else(PoisonError::into_inner) = turns;
    }

    /// Takes the right to begin one more turn.
    pub(super) fn take_ticket(&self) -> bool {
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let had = *tickets > 0;
        *tickets = tickets.saturating_sub(1);
        had
    }
}
