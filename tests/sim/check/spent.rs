//! What the simulated world knows by itself and the product has to tell: the tokens that providers counted, the turn's and
//! its sub-agents', each once (I10, I14); and whether anything has come from outside (R-TOOL-7).

use super::Checker;
use super::seen::ShownSession;
use crate::tools;
use agentls::base::sim_schedule;
use agentls::domain::{Event, SessionId, Usage};

/// What was counted for a session in this life, and what of it was told.
#[derive(Default)]
pub(super) struct CountedTokens {
    counted: Usage,
    told: Usage,
}

impl Checker {
    /// A provider tells how many tokens an answer took.
    pub(crate) fn counts_tokens(&mut self, session: &SessionId, usage: Usage) {
        if sim_schedule::is_frozen() {
            return;
        }
        self.log_line(format!("{session} is counted {usage:?}"));
        if let Some(seen) = self.sessions.get_mut(session) {
            seen.tokens.counted += usage;
        }
    }
}

impl ShownSession {
    /// What an event brings: every tool of the simulator is none of the product's own.
    pub(super) fn comes_from_outside(&mut self, event: &Event) {
        if let Event::ToolCall(update) = event {
            let ran = update.status.is_final() && update.duration_ms.is_some();
            self.foreign |= ran && tools::NAMES.contains(&update.name.as_str());
        }
    }

    /// No more is told than was counted.
    pub(super) fn check_usage(&mut self, event: &Event) -> Result<(), String> {
        let Event::Usage { step, .. } = event else {
            return Ok(());
        };
        self.tokens.told += *step;
        let CountedTokens { counted, told } = &self.tokens;
        let more = told.input > counted.input
            || told.output > counted.output
            || told.cache_read > counted.cache_read
            || told.cache_write > counted.cache_write;
        if more && !self.torn {
            Err(format!("I10: {told:?} is told, {counted:?} was counted"))
        } else {
            Ok(())
        }
    }

    /// Nothing runs: all that was counted is told.
    pub(super) fn all_is_told(&self) -> Result<(), String> {
        let CountedTokens { counted, told } = &self.tokens;
        if told == counted || self.torn {
            Ok(())
        } else {
            Err(format!("I10: {told:?} is told, {counted:?} was counted"))
        }
    }
}
