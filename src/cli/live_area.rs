//! The rows below the log: the open question, the line that is typed, and what is in progress.
//!
//! The view says what happens, and draws what [`LiveArea::render`] returns. Nothing here is part of the log.

use std::time::Duration;

use super::sent_lines::SentLines;
use super::style::{Color, Styler, fit_line, measure_width};
use crate::base::clock::{self, Instant};
use crate::base::text;

/// One frame per 100 ms.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// The columns of an activity next to what the user sent.
const MAX_ACTIVITY: usize = 20;
/// The columns that an activity has at least.
const MIN_ACTIVITY: usize = 9;
/// While text arrives more often than this, it needs no line that moves.
const PAUSE: Duration = Duration::from_secs(1);
/// After this many seconds without a message, the line of a model's answer stands out.
const SILENCE_S: u64 = 10;

/// What is in progress.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Activity {
    Nothing,
    /// The model works, with a description. The line counts the seconds up, and shows when nothing arrives.
    Model(String),
    /// The model answers, with text in the log.
    Answering,
    /// Something else works, which may be silent for long.
    Waiting(String),
    /// Paused until this wall-clock time in milliseconds; the line counts down.
    Until(String, i64),
}

/// The question that keys answer now.
struct OpenQuestion {
    /// What is asked, in lines that fit. Shown when the question's own block is not right above.
    head: Vec<String>,
    /// The head is shown in any case: others wait behind this one, or its block is higher than the screen.
    needs_head: bool,
    keys: String,
    /// The row of the log behind the question's block.
    row: u64,
}

/// The state of these rows.
pub(super) struct LiveArea {
    question: Option<OpenQuestion>,
    doing: Activity,
    since: Instant,
    /// When the server last sent something.
    heard: Instant,
    /// The server does not answer.
    is_hung: bool,
    draft: String,
    /// The draft is for a field of the question instead of a message.
    is_field: bool,
    /// Esc cancels the turn.
    pub(super) can_stop: bool,
    pub(super) sent_lines: SentLines,
}

impl LiveArea {
    pub(super) fn new() -> Self {
        let now = clock::now();
        Self {
            question: None,
            doing: Activity::Nothing,
            since: now,
            heard: now,
            is_hung: false,
            draft: String::new(),
            is_field: false,
            can_stop: false,
            sent_lines: SentLines::default(),
        }
    }

    /// Sets the activity, and restarts its clock if it is another one.
    pub(super) fn set_activity(&mut self, doing: Activity) {
        if self.doing != doing {
            self.doing = doing;
            self.since = clock::now();
        }
    }

    /// Replaces the description of the activity. Its clock goes on.
    pub(super) fn describe_activity(&mut self, doing: Activity) {
        self.doing = doing;
    }

    /// Notes that the server has sent something.
    pub(super) fn note_message(&mut self) {
        self.heard = clock::now();
        self.is_hung = false;
    }

    /// Says that the server does not answer, until it sends something.
    pub(super) fn note_hang(&mut self) {
        self.is_hung = true;
    }

    /// Sets the line being typed, and whether it is for a field of the question.
    pub(super) fn set_draft(&mut self, draft: &str, is_field: bool) {
        draft.clone_into(&mut self.draft);
        self.is_field = is_field;
    }

    /// Opens a question whose block ends before this row of the log.
    pub(super) fn open_question(&mut self, head: Vec<String>, keys: String, row: u64, needs_head: bool) {
        self.question = Some(OpenQuestion {
            head,
            needs_head,
            keys,
            row,
        });
    }

    /// Replaces the head of the open question, if there is one: another one waits behind it.
    pub(super) fn update_head(&mut self, head: Vec<String>) {
        if let Some(question) = &mut self.question {
            question.head = head;
            question.needs_head = true;
        }
    }

    pub(super) fn close_question(&mut self) {
        self.question = None;
    }

    /// Returns the lines for a log that continues in this row: colored ones fit into `width` columns.
    pub(super) fn render(&self, styler: Styler, width: usize, row: u64) -> String {
        let mut lines = Vec::new();
        if let Some(question) = &self.question {
            if row != question.row || question.needs_head {
                lines.extend(question.head.iter().cloned());
            }
            lines.extend(question.keys.lines().map(str::to_owned));
        }
        if !self.draft.is_empty() {
            lines.push(self.render_draft(width));
        } else if self.question.is_none() {
            lines.push(self.render_activity(styler, width));
        } else if !self.sent_lines.is_empty() {
            lines.push(self.sent_lines.describe_last(0, width));
        }
        lines.join("\n")
    }

    fn render_draft(&self, width: usize) -> String {
        let available = width.saturating_sub(4);
        let visible = text::strip_control_characters(&self.draft).replace('\n', "⏎");
        // Keep the end of the line visible, because that is where the user types.
        let skip = measure_width(&visible).saturating_sub(available);
        let visible: String = visible.chars().skip(skip).collect();
        let is_message = self.question.is_some() && !self.is_field;
        let hint = if is_message {
            " (a message; Esc empties it)"
        } else {
            ""
        };
        format!("› {visible}▏{hint}")
    }

    fn render_activity(&self, styler: Styler, width: usize) -> String {
        if self.is_hung {
            let line = fit_line(
                "! the server does not answer · Ctrl-C twice leaves, `agentls -c` goes on",
                width,
            );
            return styler.paint_text(Color::Yellow, &line);
        }
        let now = clock::now();
        let elapsed = now.saturating_duration_since(self.since).as_millis() as u64;
        let silence = now.saturating_duration_since(self.heard);
        // Text that flows moves by itself.
        if self.doing == Activity::Answering && silence < PAUSE && self.sent_lines.is_empty() {
            return String::new();
        }
        let silent = silence.as_secs();
        let frame = SPINNER[(elapsed / 100) as usize % SPINNER.len()];
        let is_model = matches!(self.doing, Activity::Model(_) | Activity::Answering);
        let is_silent = is_model && silent >= SILENCE_S;
        let clock = match elapsed {
            // The silence is a clock too.
            0..1_000 => String::new(),
            _ if is_silent => String::new(),
            _ => format!(" · {} s", elapsed / 1_000),
        };
        let stop = if self.can_stop { " · Esc stops" } else { "" };
        let silence = if is_silent {
            format!(" · nothing for {silent} s")
        } else {
            String::new()
        };
        let activity = match &self.doing {
            Activity::Nothing => "",
            Activity::Answering => "answering",
            Activity::Model(activity) | Activity::Waiting(activity) | Activity::Until(activity, _) => {
                activity
            }
        };
        let line = match &self.doing {
            Activity::Nothing => String::new(),
            Activity::Answering | Activity::Model(_) | Activity::Waiting(_) => {
                let room = if self.sent_lines.is_empty() {
                    let used = measure_width(&clock) + measure_width(&silence) + measure_width(stop);
                    width.saturating_sub(2 + used).max(MIN_ACTIVITY)
                } else {
                    MAX_ACTIVITY
                };
                format!("{frame} {}{clock}{silence}", fit_line(activity, room))
            }
            Activity::Until(_, until) => {
                let remaining = (until - clock::wall_ms()).max(0) as f64 / 1_000.0;
                format!("{frame} {activity} {remaining:.1} s")
            }
        };
        if !self.sent_lines.is_empty() {
            let sent = self.sent_lines.describe_last(measure_width(&line), width);
            return format!("{line}{sent}");
        }
        if line.is_empty() {
            return line;
        }
        let line = fit_line(&format!("{line}{stop}"), width);
        if is_silent {
            return styler.paint_text(Color::Yellow, &line);
        }
        line
    }
}
