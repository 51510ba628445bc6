//! The plain-text input of custom tools, as the JSON that the other modules know.
//!
//! The text becomes the only field of an object. Knows no single tool: the request says which tools take text.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::domain::{Block, Message, ToolSpec};

/// The field for a tool that the request does not define.
const UNKNOWN_FIELD: &str = "input";

/// The fields that hold the text of custom tools, by the tool's name.
#[derive(Debug, Default)]
pub(super) struct FreeformFields(HashMap<String, &'static str>);

impl FreeformFields {
    /// Collects the tools that take text.
    pub(super) fn from_tools(tools: &[ToolSpec]) -> Self {
        let fields = tools
            .iter()
            .filter_map(|tool| Some((tool.name.clone(), tool.freeform?.field)));
        Self(fields.collect())
    }

    /// Returns the start of the JSON input of a tool; the escaped text and [`CLOSING`] follow.
    pub(super) fn opening(&self, tool: &str) -> String {
        let field = self.0.get(tool).copied().unwrap_or(UNKNOWN_FIELD);
        format!("{{{}:\"", json!(field))
    }

    /// Returns the text of a call if it is one of a custom tool.
    pub(super) fn text_of<'v>(&self, tool: &str, input: &'v Value) -> Option<&'v str> {
        let field = self.0.get(tool)?;
        let fields = input.as_object().filter(|fields| fields.len() == 1)?;
        fields.get(*field)?.as_str()
    }

    /// Reports whether a message has a call of a custom tool.
    pub(super) fn has_call(&self, message: &Message) -> bool {
        message.content.iter().any(|block| match block {
            Block::ToolUse { name, input, .. } => self.text_of(name, input).is_some(),
            _ => false,
        })
    }
}

/// The end of the JSON input.
pub(super) const CLOSING: &str = "\"}";

/// Escapes a piece of the text. Pieces are escaped one by one.
pub(super) fn escape(piece: &str) -> String {
    let quoted = json!(piece).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
