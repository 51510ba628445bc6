//! A page of the web that a search found. Plain values.

use serde::{Deserialize, Serialize};

/// A source that a web search names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebSource {
    pub url: String,
    /// Empty if the provider names none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
}
