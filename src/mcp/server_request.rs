//! What a server may request of us during a call of one of its tools.
//!
//! Plain values. `request_router` leads them to the call; who answers is `tool::mcp_requests`.

use tokio::sync::oneshot;

use super::elicitation::ElicitationRequest;
use super::sampling::SamplingRequest;
use crate::domain::HostTarget;

/// A request of a server.
#[derive(Debug)]
pub enum ServerRequest {
    /// Asks the user.
    Elicit(ElicitationRequest),
    /// Asks the model.
    Sample(SamplingRequest),
    /// Wants to connect to a host, from the sandbox.
    Connect(HostRequest),
}

/// A host that the program of a server wants to reach. The reply is closed once nobody waits for it.
#[derive(Debug)]
pub struct HostRequest {
    pub target: HostTarget,
    /// Whether the user allows it; `None` if nobody answered.
    pub reply: oneshot::Sender<Option<bool>>,
}
