//! The server's counters since its start.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CircuitInfo;

/// Params of `agent/metrics`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsParams {
    /// A session whose counts are included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// Result of `agent/metrics`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsResult {
    /// Counts of the whole server.
    pub totals: Counts,
    /// Durations.
    pub latencies: Latencies,
    /// The circuits of all providers in use, and those of the session's tools that are not closed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub circuits: Vec<CircuitInfo>,
    /// Counts of the requested session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionMetrics>,
}

/// Counters of activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Tokens sent to models.
    pub input_tokens: u64,
    /// Tokens received from models.
    pub output_tokens: u64,
    /// Provider calls made.
    pub requests: u64,
    /// Errors of any kind that reached a turn.
    pub errors: u64,
    /// Tool calls run.
    pub tool_calls: u64,
    /// Provider calls that were repeated.
    pub retries: u64,
    /// Summaries made of a history that grew too long.
    pub compactions: u64,
    /// Turns canceled.
    pub cancels: u64,
    /// Prompts that were queued for the end of a turn.
    #[serde(default)]
    pub queued_prompts: u64,
    /// Reverts and redos of file changes.
    #[serde(default)]
    pub reverts: u64,
}

/// Durations of calls, steps and cancels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Latencies {
    /// From a provider call to its first content.
    pub first_token: Histogram,
    /// One step of the loop.
    pub step: Histogram,
    /// One tool call, without the wait for the user.
    pub tool: Histogram,
    /// From a cancel to the turn's end.
    pub cancel: Histogram,
}

/// Durations in buckets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Histogram {
    /// Upper bounds of the buckets, in microseconds.
    pub bounds_us: Vec<u64>,
    /// Observations per bucket; one entry more than `boundsUs`, for values above the last bound.
    pub counts: Vec<u64>,
    /// The sum of all observations, in microseconds.
    pub sum_us: u64,
    /// Number of observations.
    pub count: u64,
}

/// Counts of one session since it was created; `queuedPrompts` and `reverts` since it was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionMetrics {
    /// The session.
    pub session_id: String,
    /// When the session was created, in ms since the Unix epoch.
    pub started_at: i64,
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts,
    /// Tool calls run, by the tool's name.
    pub tool_calls_by_name: BTreeMap<String, u64>,
    /// Errors by code, including those that ended no turn.
    pub errors_by_code: BTreeMap<String, u64>,
}
