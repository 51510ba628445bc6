//! MCP servers: each call belongs to a call of a session (I9) and runs at most once, and no connection outlives the
//! server (I8).

use std::collections::BTreeMap;

use super::Checker;
use super::memory::ShownSession;
use agentls::base::sim_schedule;
use agentls::domain::{SessionId, ToolCallId};

impl ShownSession {
    /// Returns the call whose arguments contain the tag.
    fn find_tagged_call(&self, tag: u64) -> Option<ToolCallId> {
        let mut calls = self.calls.iter();
        let found =
            calls.find(|(_, call)| call.input.get("tag").and_then(serde_json::Value::as_u64) == Some(tag));
        found.map(|(id, _)| id.clone())
    }
}

/// What the checker knows about MCP servers.
#[derive(Default)]
pub(super) struct McpRecord {
    /// The sessions whose models have written calls, and whether each call has run, by tag.
    written: BTreeMap<u64, (SessionId, Option<ToolCallId>)>,
    /// The open connections, by server.
    open: BTreeMap<String, u32>,
}

impl McpRecord {
    /// Forgets which calls of a session have run: the store has lost the events, so they may run again.
    pub(super) fn forget_runs(&mut self, session: &SessionId) {
        let written = self.written.values_mut();
        written
            .filter(|(of, _)| of == session)
            .for_each(|(_, ran)| *ran = None);
    }
}

impl Checker {
    /// A model writes a call of an MCP server's tool. Returns the call's tag.
    pub(crate) fn write_mcp_call(&mut self, session: &SessionId) -> u64 {
        let tag = self.mcp.written.len() as u64 + 1;
        self.mcp.written.insert(tag, (session.clone(), None));
        tag
    }

    /// A server receives a call. Returns the id under which its end is reported.
    pub(crate) fn mcp_call_begins(&mut self, tag: u64, name: &str, how: &str) -> ToolCallId {
        let unknown = ToolCallId::from(format!("mcp_call_{tag}"));
        if sim_schedule::is_frozen() {
            return unknown;
        }
        let Some((session, ran)) = self.mcp.written.get(&tag).cloned() else {
            self.record_violation(format!("I9: {name} receives a call that no model has written"));
            return unknown;
        };
        if let Some(earlier) = ran {
            self.record_violation(format!("{earlier} reaches its MCP server twice"));
        }
        // Events may lag behind the effect.
        let call = self
            .sessions
            .get(&session)
            .and_then(|shown_session| shown_session.find_tagged_call(tag));
        let call = call.unwrap_or(unknown);
        if let Some((_, ran)) = self.mcp.written.get_mut(&tag) {
            *ran = Some(call.clone());
        }
        self.effect_begins(&session, &call, name, how, true);
        call
    }

    /// A server continues to work on a call.
    pub(crate) fn mcp_call_goes_on(&mut self, tag: u64) {
        if let Some((session, Some(call))) = self.mcp.written.get(&tag).cloned() {
            self.effect_goes_on(&session, &call);
        }
    }

    pub(crate) fn mcp_connection_opens(&mut self, server: &str) {
        if !sim_schedule::is_frozen() {
            self.log_line(format!("MCP server {server} starts"));
            *self.mcp.open.entry(server.to_owned()).or_default() += 1;
        }
    }

    pub(crate) fn mcp_connection_ends(&mut self, server: &str) {
        if !sim_schedule::is_frozen() {
            self.log_line(format!("MCP server {server} ends"));
            if let Some(open) = self.mcp.open.get_mut(server) {
                *open -= 1;
            }
        }
    }

    /// A server run begins: what ran before its crash is gone.
    pub(crate) fn forget_mcp_connections(&mut self) {
        self.mcp.open.clear();
    }

    /// All MCP servers must have ended.
    pub(crate) fn check_mcp_ended(&mut self) {
        let left: Vec<String> = self
            .mcp
            .open
            .iter()
            .filter(|(_, open)| **open > 0)
            .map(|(server, open)| format!("{open} of {server}"))
            .collect();
        if !left.is_empty() {
            self.record_violation(format!("I8: connections to MCP servers are left: {left:?}"));
        }
    }
}
