//! One task per session, the only writer of its state.
//!
//! Handlers post a [`SessionCommand`]; the actor numbers events, hands them to the store's writer, runs at most
//! one turn (I2), and settles its end (I3) however it came: done, cancelled, panicked, stopped with the
//! server, or found dead when the session is next loaded. Knows no wire shape and no client.

mod actor;
mod cancel_queue;
mod checkpoints;
mod command;
mod commands;
mod config_store;
mod content_reader;
mod counts;
mod daily_spend;
mod editor_credentials;
mod finish;
mod fork;
mod inquiries;
mod load;
mod manager;
mod models;
mod queue;
mod revert;
mod services;
mod state;
mod subagent;
mod system_prompt;
#[cfg(test)]
mod tests;
mod turn_events;
mod wall_time;

pub use command::{
    CommandError, InquiryAnswer, LoadReply, PartialMessage, QueueAction, QueueReply, RevertReply,
    SessionCommand, SessionInfo, SessionMetrics, SessionSnapshot, TurnHandle, TurnOutcome,
};
pub use config_store::{ConfigStore, FolderConfig};
pub use daily_spend::build_ledger;
pub use manager::{ServerActivity, SessionManager};
pub use models::{ListedModel, ListedProvider, ModelListing, ModelVerdict, Models};
pub use queue::MAX_QUEUED;
pub use services::{Rules, Services, SettingsSource, TurnSettings};
pub use state::SessionState;
