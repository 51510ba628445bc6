//! What a turn works with: its identity, the services that it shares with its sub-agents, its settings, and what an
//! earlier turn left.
//!
//! The session builds it at the turn's start. It holds no state of the loop; that is `loop_state`'s.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::calibration::TokenCalibration;
use super::circuit::ToolCircuits;
use super::command_failures::CommandFailures;
use super::ledger::TurnBudget;
use super::session_link::SessionLink;
use super::settings::{SystemPrompt, TurnSettings};
use crate::base::CancellationToken;
use crate::base::counters::{Counter, Totals};
use crate::config::Redactor;
use crate::context::OpenCall;
use crate::domain::{ApprovalId, Attendance, Inquiry, InstructionFile, SessionId, TurnId};
use crate::provider::CallSlots;
use crate::tool::{Checkpoints, ContentSink, EditorLink, Spawner, TurnTools};
use crate::workspace::Workspace;

/// Everything that one turn, or a sub-agent within one, needs.
#[derive(Clone)]
pub struct TurnContext {
    pub session: SessionId,
    pub turn: TurnId,
    /// Nesting depth of a sub-agent; 0 for the turn itself.
    pub depth: u32,
    /// Connects to the session's actor.
    pub link: SessionLink,
    /// Canceled to stop the turn.
    pub cancel: CancellationToken,
    pub workspace: Arc<Workspace>,
    pub tools: TurnTools,
    /// Starts sub-agents.
    pub spawner: Arc<dyn Spawner>,
    /// The system prompt and the skills; empty until [`load_system_prompt`](super::load_system_prompt) fills them.
    pub prompt: SystemPrompt,
    pub services: Arc<TurnServices>,
    pub settings: TurnSettings,
    pub resumption: Resumption,
}

/// What a turn shares with its sub-agents, and in part with all turns of the server.
pub struct TurnServices {
    /// Forceful cancel: skip graceful shutdown.
    pub force_cancel: CancellationToken,
    /// The directory that relative paths and commands start from.
    pub cwd: PathBuf,
    /// The server-wide limit of concurrent provider calls (R-WIRE-2).
    pub slots: Arc<CallSlots>,
    pub totals: Arc<Totals>,
    /// Knows the API keys that tool output must not reveal (I15).
    pub redactor: Redactor,
    /// Edits files that are open in the editor.
    pub editor: Arc<dyn EditorLink>,
    /// Stores output that is too long for the model.
    pub content_sink: Arc<dyn ContentSink>,
    /// Keeps the contents of files from before the turn changed them.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// What the turn may spend, its sub-agents included (I10).
    pub budget: Arc<TurnBudget>,
    pub statistics: Arc<SessionStatistics>,
    /// The MCP servers whose questions nobody can answer, as far as the user knows.
    pub unheard_servers: Mutex<BTreeSet<String>>,
    /// Who answers what the turn asks.
    pub attendance: Attendance,
}

impl TurnServices {
    /// Notes that nobody can answer the questions of a server. Returns whether that is new.
    pub fn note_unheard_server(&self, server: String) -> bool {
        let mut known = self
            .unheard_servers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        known.insert(server)
    }
}

/// What the turns of a session measure and pass on to later ones.
#[derive(Debug, Default)]
pub struct SessionStatistics {
    /// The circuit breakers of the session's tools.
    pub circuits: Mutex<ToolCircuits>,
    /// The commands that failed in the running turn.
    pub command_failures: Mutex<CommandFailures>,
    /// How the session's providers count tokens, learned over its turns.
    pub calibration: Arc<TokenCalibration>,
    /// Counts the model calls of the session.
    pub requests: Counter,
    /// What runs unconfined although it should not, as far as the user knows.
    pub unconfined: Mutex<BTreeSet<String>>,
}

/// What earlier turns left to this one. A sub-agent starts with nothing but what its parent announced.
#[derive(Clone, Default)]
pub struct Resumption {
    /// The session has no earlier turn.
    pub is_first_turn: bool,
    /// The instruction files that were last announced to the session.
    pub announced_instructions: Option<Arc<[InstructionFile]>>,
    /// The model that answered last, as `provider/model`, if there was a switch since one was selected.
    pub answering: Option<String>,
    /// Providers whose circuits were announced to the session as not closed.
    pub open_circuits: Vec<String>,
    /// Calls that an earlier turn left open. This turn settles them first.
    pub carried: Vec<CarriedCall>,
    /// Requests to the user that an earlier turn left open. This turn asks them again first.
    pub inquiries: Vec<Arc<Inquiry>>,
}

/// The purpose of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnTask {
    /// Answer the prompt.
    Answer,
    /// Make the history smaller (`agent/compact`).
    Compact {
        /// What the summary must keep, in the user's words.
        instructions: Option<String>,
    },
}

/// An open call of an interrupted turn. Its approval keeps its id.
#[derive(Clone, Debug)]
pub struct CarriedCall {
    pub call: OpenCall,
    pub approval: Option<ApprovalId>,
}
