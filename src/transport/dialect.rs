//! The two protocols on top of JSON-RPC, as far as the transport must tell them apart.

use super::lines::Framing;

/// What the two protocols on top of JSON-RPC do differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// The Language Server Protocol: headers, `initialized`, `shutdown`, `exit`, and `$/cancelRequest`.
    #[default]
    LanguageServer,
    /// The Agent Client Protocol: lines, no life cycle besides `initialize`, and `$/cancel_request`.
    AgentClient,
}

impl Dialect {
    pub(super) fn framing(self) -> Framing {
        match self {
            Self::LanguageServer => Framing::Header,
            Self::AgentClient => Framing::Lines,
        }
    }

    /// Returns the notification that cancels a request, and its parameter with the id.
    pub(super) fn cancel_request(self) -> (&'static str, &'static str) {
        match self {
            Self::LanguageServer => ("$/cancelRequest", "id"),
            Self::AgentClient => ("$/cancel_request", "requestId"),
        }
    }

    /// Whether `method` is a notification that this loop handles itself.
    pub(super) fn is_control(self, method: &str) -> bool {
        method == self.cancel_request().0 || (self == Self::LanguageServer && method == "exit")
    }
}
