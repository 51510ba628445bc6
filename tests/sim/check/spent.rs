//! Facts that the simulated world knows independently and the server must report. Each token that providers
//! count for a turn and its sub-agents appears exactly once (I10, I14). Content from outside marks the
//! session (R-TOOL-7).

use super::Checker;
use super::memory::ShownSession;
use crate::tools;
use agentls::base::sim_schedule;
use agentls::domain::{Event, SessionId, Usage};
use agentls::mcp::server_of_tool;

/// Tokens that providers counted for a session in this server run, and tokens that the server reported.
#[derive(Default)]
pub(super) struct CountedTokens {
    counted: Usage,
    reported: Usage,
}

impl Checker {
    /// A provider reports how many tokens an answer used.
    pub(crate) fn counts_tokens(&mut self, session: &SessionId, usage: Usage) {
        if sim_schedule::is_frozen() {
            return;
        }
        self.log_line(format!("{session} is counted {usage:?}"));
        if let Some(shown_session) = self.sessions.get_mut(session) {
            shown_session.tokens.counted += usage;
        }
    }
}

impl ShownSession {
    /// Records whether the event contains outside content: every simulated tool counts as external to the
    /// product.
    pub(super) fn comes_from_outside(&mut self, event: &Event) {
        if let Event::ToolCall(update) = event {
            let has_run = update.status.is_final() && update.duration_ms.is_some();
            if has_run && tools::brings_foreign_content(&update.name) {
                self.foreign.add(server_of_tool(&update.name));
            }
        }
    }

    /// The server never reports more tokens than providers counted.
    pub(super) fn check_usage(&mut self, event: &Event) -> Result<(), String> {
        let Event::Usage { step, .. } = event else {
            return Ok(());
        };
        self.tokens.reported += *step;
        let CountedTokens { counted, reported } = &self.tokens;
        let exceeds = reported.input > counted.input
            || reported.output > counted.output
            || reported.cache_read > counted.cache_read
            || reported.cache_write > counted.cache_write;
        if exceeds && !self.is_cut_off {
            Err(format!(
                "I10: the server reports {reported:?}; the providers counted only {counted:?}"
            ))
        } else {
            Ok(())
        }
    }

    /// When nothing is running, the server has reported every counted token.
    pub(super) fn check_all_usage_reported(&self) -> Result<(), String> {
        let CountedTokens { counted, reported } = &self.tokens;
        if reported == counted || self.is_cut_off {
            Ok(())
        } else {
            Err(format!(
                "I10: the server reports {reported:?}; the providers counted {counted:?}"
            ))
        }
    }
}
