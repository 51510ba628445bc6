//! One task per session, the only writer of its state.
//!
//! Handlers post a [`Command`]; the actor numbers events, hands them to the store's writer, runs at most
//! one turn (I2), and settles its end (I3) however it came: done, cancelled, panicked, stopped with the
//! server, or found dead when the session is next loaded. Knows no wire shape and no client.

mod actor;
mod answers;
mod briefing;
mod cancels;
mod checkpoints;
mod clock;
mod command;
mod configured;
mod contents;
mod counts;
mod days;
mod fork;
mod house;
mod inquiries;
mod keys;
mod models;
mod opening;
mod queue;
mod revert;
mod sessions;
mod settle;
mod state;
mod subagent;
#[cfg(test)]
mod tests;
mod turn_side;

pub use command::{
    Command, LoadReply, Partial, QueueAction, QueueReply, Refused, RevertReply, Said, SessionInfo,
    SessionMetrics, Snapshot, TurnHandle, TurnOutcome,
};
pub use configured::{Configured, Folder};
pub use days::ledger;
pub use house::{House, Profile, Profiles, Rules};
pub use models::{Listed, ListedModel, ListedProvider, ModelVerdict, Models};
pub use queue::MAX_QUEUED;
pub use sessions::{Activity, Sessions};
pub use state::SessionState;
