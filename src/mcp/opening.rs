//! How a connection is opened: which revision of MCP a server speaks is found out, and remembered if that was hard.
//!
//! Since revision 2026-07-28, nothing precedes the first request, and `server/discover` tells what a server speaks. Older
//! servers must get `initialize` first. They answer `server/discover` by an error, as they should, or not at all, or by
//! something else, or they end.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, ErrorCode, ErrorData, JsonRpcError, JsonRpcMessage, JsonRpcResponse, ProtocolVersion,
    RequestId, ServerResult,
};
use rmcp::service::{ClientLifecycleMode, RxJsonRpcMessage, TxJsonRpcMessage};

use crate::base::clock::{self, Instant};

/// The longest wait for the answer to `server/discover`.
const MAX_PROBE: Duration = Duration::from_secs(5);
/// The part of the time for the start that this wait may take.
const PROBE_PART: u32 = 3;

/// By which request a connection is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// By `server/discover`. If the server does not know it or does not answer, by `initialize`.
    Either,
    /// By `initialize`.
    Initialize,
    /// By `initialize`, since the last start failed in both ways, so probably for another reason. Each further start is
    /// tried only once.
    InitializeAgain,
    /// By `server/discover`.
    Discover,
}

impl Opening {
    pub(super) fn lifecycle(self) -> ClientLifecycleMode {
        let preferred_versions = vec![ProtocolVersion::LATEST];
        match self {
            Self::Either => ClientLifecycleMode::Auto {
                preferred_versions,
                legacy_version: None,
            },
            Self::Initialize | Self::InitializeAgain => ClientLifecycleMode::Initialize,
            Self::Discover => ClientLifecycleMode::Discover { preferred_versions },
        }
    }

    /// Returns what a start shows that has worked without any surprise.
    pub(super) fn after_success(self) -> Option<Self> {
        (self == Self::InitializeAgain).then_some(Self::Initialize)
    }

    /// Returns how a server is opened after a start that has taken all its time: another start by `server/discover` would
    /// wait as long if that has blocked the server.
    pub(super) fn after_silence(self) -> Self {
        match self {
            Self::Either | Self::InitializeAgain => Self::InitializeAgain,
            Self::Initialize | Self::Discover => Self::Either,
        }
    }

    /// Returns how long a server that may take `startup` to start may take to answer `server/discover`; `None` without
    /// another way to open it.
    pub(super) fn probe_limit(self, startup: Duration) -> Option<Duration> {
        (self == Self::Either).then(|| (startup / PROBE_PART).min(MAX_PROBE))
    }
}

/// How servers are opened that do not answer `server/discover` as they should, by the fingerprint of their settings.
#[derive(Default)]
pub(super) struct KnownOpenings(Mutex<HashMap<u64, Opening>>);

impl KnownOpenings {
    pub(super) fn get(&self, server: u64) -> Opening {
        self.lock().get(&server).copied().unwrap_or(Opening::Either)
    }

    pub(super) fn remember(&self, server: u64, opening: Opening) {
        match opening {
            Opening::Either => self.lock().remove(&server),
            known => self.lock().insert(server, known),
        };
    }

    /// Forgets what only failures have shown.
    pub(super) fn forget_failures(&self, server: u64) {
        let mut openings = self.lock();
        if openings.get(&server) == Some(&Opening::InitializeAgain) {
            openings.remove(&server);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Opening>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The input of a program, to find out whether the program has read it. Dropped before the program shall end by the end
/// of its input.
pub(super) struct ProgramInput {
    pipe: OwnedFd,
    is_refused: Arc<AtomicBool>,
}

impl ProgramInput {
    pub(super) fn of(pipe: &impl AsFd) -> Option<Self> {
        Some(Self {
            pipe: pipe.as_fd().try_clone_to_owned().ok()?,
            is_refused: Arc::default(),
        })
    }

    /// Returns where it is noted that a write failed because the program reads no more.
    pub(super) fn refusal(&self) -> Arc<AtomicBool> {
        self.is_refused.clone()
    }

    /// Returns whether the program has not read all; false where the system does not tell.
    pub(super) fn has_unread(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
            || rustix::io::ioctl_fionread(&self.pipe).is_ok_and(|count| count > 0)
    }
}

/// What happens to a server that does not answer `server/discover` in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SilentServer {
    /// It gets `initialize` on the same connection.
    Goes,
    /// The connection ends, since an unanswered request blocks it.
    Closes,
}

/// Watches the answer to `server/discover`, so that anything unusable counts as that of an older server.
pub(super) struct Probe {
    limit: Option<Duration>,
    silent: SilentServer,
    state: ProbeState,
}

enum ProbeState {
    Idle,
    /// There is a limit once the request has left.
    Open {
        id: RequestId,
        due: Option<Instant>,
    },
    Expired {
        id: RequestId,
    },
    /// The answer came after the limit, and the server speaks a revision that knows the request.
    LateDiscovery,
}

impl Probe {
    /// Creates a watch for a server that may take `startup` to start.
    pub(super) fn new(opening: Opening, startup: Duration, silent: SilentServer) -> Self {
        Self {
            limit: opening.probe_limit(startup),
            silent,
            state: ProbeState::Idle,
        }
    }

    /// Returns whether the server did not answer in time.
    pub(super) fn has_expired(&self) -> bool {
        matches!(self.state, ProbeState::Expired { .. } | ProbeState::LateDiscovery)
    }

    /// Returns whether the answer is still due.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, ProbeState::Open { .. })
    }

    /// Returns whether the server answered properly, but after the limit.
    pub(super) fn is_late_discovery(&self) -> bool {
        matches!(self.state, ProbeState::LateDiscovery)
    }

    pub(super) fn begin(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        if let JsonRpcMessage::Request(sent) = message
            && self.limit.is_some()
            && matches!(sent.request, ClientRequest::DiscoverRequest(_))
        {
            let id = sent.id.clone();
            self.state = ProbeState::Open { id, due: None };
        }
    }

    pub(super) fn note_sent(&mut self) {
        if let (ProbeState::Open { due: due @ None, .. }, Some(limit)) = (&mut self.state, self.limit) {
            *due = Some(clock::now() + limit);
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        match &self.state {
            ProbeState::Open { due, .. } => *due,
            _ => None,
        }
    }

    /// Returns what is received in the place of an answer that did not come in time; `None` ends the connection.
    pub(super) fn expire(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let ProbeState::Open { id, .. } = std::mem::replace(&mut self.state, ProbeState::Idle) else {
            return None;
        };
        self.state = ProbeState::Expired { id: id.clone() };
        (self.silent == SilentServer::Goes).then(|| refuse(id, "no answer in time"))
    }

    /// Returns the message to pass on; `None` if it is an answer for which nobody waits any more.
    pub(super) fn mend(
        &mut self,
        message: RxJsonRpcMessage<RoleClient>,
    ) -> Option<RxJsonRpcMessage<RoleClient>> {
        let (answered, is_discovery) = match &message {
            JsonRpcMessage::Response(JsonRpcResponse { id, result, .. }) => {
                (Some(id), matches!(result, ServerResult::DiscoverResult(_)))
            }
            JsonRpcMessage::Error(JsonRpcError { id, .. }) => (id.as_ref(), false),
            _ => return Some(message),
        };
        match &self.state {
            ProbeState::Expired { id } if answered == Some(id) => {
                if is_discovery {
                    self.state = ProbeState::LateDiscovery;
                }
                None
            }
            // Nothing else was asked, so this is the answer.
            ProbeState::Open { id, .. } => {
                let id = id.clone();
                self.state = ProbeState::Idle;
                Some(match message {
                    JsonRpcMessage::Error(error) => JsonRpcMessage::error(error.error, Some(id)),
                    JsonRpcMessage::Response(_) if !is_discovery => refuse(id, "another kind of answer"),
                    discovery => discovery,
                })
            }
            _ => Some(message),
        }
    }
}

fn refuse(id: RequestId, reason: &'static str) -> RxJsonRpcMessage<RoleClient> {
    JsonRpcMessage::error(
        ErrorData::new(ErrorCode::METHOD_NOT_FOUND, reason, None),
        Some(id),
    )
}
