//! Ids as newtypes: opaque strings with a prefix that tells people what they look at.

use std::fmt;
use std::sync::Arc;

use crate::base::random;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// A new id, never given out before.
            pub fn new_random() -> Self {
                Self(format!(concat!($prefix, "_{}"), random::random_token(20)).into())
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// A durable conversation.
    SessionId, "ses"
);
id!(
    /// One prompt and all that follows until the agent rests.
    TurnId, "turn"
);
id!(
    /// A unit of history.
    MessageId, "msg"
);
id!(
    /// A call of a tool. Ours, not the provider's: unique, and valid for every API.
    ToolCallId, "call"
);
id!(
    /// A question about an effect.
    ApprovalId, "appr"
);
id!(
    /// A question about a limit, or one of the agent's own.
    InquiryId, "ask"
);
