//! Ids as newtypes: opaque strings whose prefix tells a reader what they identify.
//!
//! The store and the wire use the same strings. The prefix is for people; no code depends on it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::random;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(test, derive(proptest_derive::Arbitrary))]
        pub struct $name(
            #[cfg_attr(test, proptest(strategy = "super::arbitrary::arb_id()"))] Arc<str>,
        );

        impl $name {
            /// Returns a new id: 100 random bits, so two are never equal in practice.
            pub fn new_random() -> Self {
                Self(format!(concat!($prefix, "_{}"), random::random_token(20)).into())
            }

            /// Returns the id as stored and sent.
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
    /// Identifies a durable conversation.
    SessionId, "ses"
);
id!(
    /// Identifies a turn: one prompt and all that follows until the agent rests.
    TurnId, "turn"
);
id!(
    /// Identifies a unit of history.
    MessageId, "msg"
);
id!(
    /// Identifies a tool call. Ours, not the provider's: unique, and valid for every API.
    ToolCallId, "call"
);
id!(
    /// Identifies a question about an effect.
    ApprovalId, "appr"
);
id!(
    /// Identifies a question about a limit, or one that the agent asks.
    InquiryId, "ask"
);
