//! What a server may request of us during a call of one of its tools.
//!
//! Plain values. `request_router` leads them to the call; who answers is `tool::mcp_requests`.

use super::elicitation::ElicitationRequest;
use super::sampling::SamplingRequest;

/// A request of a server.
#[derive(Debug)]
pub enum ServerRequest {
    /// Asks the user.
    Elicit(ElicitationRequest),
    /// Asks the model.
    Sample(SamplingRequest),
}
