//! The parts of what a server sends: results, prompts, resources, and messages for a model. Plain values.

/// A part of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpContent {
    Text(String),
    Image {
        media_type: String,
        /// In base64.
        data: String,
    },
    /// A document within the result.
    Document {
        uri: String,
        text: String,
    },
    /// A document elsewhere.
    Link {
        uri: String,
        name: String,
    },
    /// What no model can read, such as sound.
    Other(String),
}
