//! One task per session, the only writer of its state.
//!
//! Handlers post a [`SessionCommand`]. The actor numbers events (I6), hands them to the store's writer (I7), and runs
//! at most one turn (I2). It settles the turn's end (I3) however it came: done, canceled, panicked, stopped with the
//! server, or found unfinished when the session is loaded.
//!
//! This module must not know wire shapes or clients. Start reading with `actor` for the loop, `commands` for what a
//! client can ask, and `turn_events` for what a turn reports.

mod active_turn;
mod actor;
mod approvals;
mod assemble;
mod cancel_queue;
mod checkpoints;
mod choices;
mod command;
mod command_queue;
mod commands;
mod config_store;
mod content_reader;
mod counts;
mod daily_spend;
mod editor_credentials;
mod finish;
mod fork;
mod inbox;
mod inquiries;
mod io;
mod journal;
mod live_sessions;
mod load;
mod manager;
mod mentions;
mod messages;
mod models;
mod new_files;
mod open;
mod panic_recovery;
mod pausable_deadline;
mod pictures;
mod questions;
mod queue;
mod record;
mod references;
mod repair;
mod residency;
mod revert;
mod server_content;
mod services;
mod snapshot;
mod state;
mod steps;
mod stored;
mod subagent;
mod system_prompt;
#[cfg(feature = "sim")]
mod test_requests;
#[cfg(test)]
mod tests;
mod turn_events;
mod turn_start;
mod wall_time;

pub use crate::approval::{describe_rules, narrow_to_file};
pub use assemble::ServiceParts;
pub use command::{
    CommandError, EffortChoice, InquiryAnswer, LoadReply, OpenQuestions, PartialMessage, QueueAction,
    QueueReply, RevertReply, SessionChoice, SessionCommand, SessionInfo, SessionMetrics, SessionSnapshot,
    TurnHandle, TurnOutcome,
};
pub use config_store::{ConfigStore, FolderConfig};
pub use daily_spend::build_ledger;
pub use inbox::MAX_QUEUED;
pub use live_sessions::ServerActivity;
pub use manager::SessionManager;
pub use models::{ListedModel, ListedProvider, ModelListing, ModelVerdict, Models};
pub use open::{CreatedSession, NewSession, NewSessionError};
pub use references::{PendingReference, TextSpan, resolve_reference};
pub use services::{Rules, Services, SessionSettings, SettingsSource, SubagentModel};
pub use state::{OpenWork, RouteRecord, SessionSpending, SessionState, TurnRecord};
pub use stored::StoredTrust;
