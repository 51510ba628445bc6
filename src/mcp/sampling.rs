//! What a server asks a model through us (sampling), and the answer.
//!
//! Checks what a server asks; who asks the model is `tool::mcp_sampling`.

#![expect(
    deprecated,
    reason = "revision 2026-07-28 of MCP deprecates sampling, but the servers of today ask for it"
)]

use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, Role, SamplingMessage as RmcpMessage,
    SamplingMessageContentBlock as RmcpBlock,
};
use tokio::sync::oneshot;

use super::content::McpContent;

/// The most messages of a request.
const MAX_MESSAGES: usize = 100;
/// The longest text of a request, in bytes.
const MAX_TEXT: usize = 1 << 20;
/// The most texts that end an answer.
const MAX_STOPS: usize = 16;

/// What a server asks a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// The system prompt that the server wants.
    pub system: Option<String>,
    /// At least one; the first and the last are the user's.
    pub messages: Vec<SamplingMessage>,
    /// The longest answer, in tokens.
    pub max_tokens: u32,
    /// Texts before which the answer ends.
    pub stops: Vec<String>,
}

/// A message of the conversation that the server makes up.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingMessage {
    pub is_from_assistant: bool,
    pub content: Vec<McpContent>,
}

/// The answer of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingAnswer {
    /// The name of the model.
    pub model: String,
    pub text: String,
    pub stop: SamplingStop,
}

/// Why the answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingStop {
    Complete,
    MaxTokens,
    /// At one of the texts that the server named.
    StopText,
}

/// A request that waits for its answer. The reply is closed once nobody waits for it.
#[derive(Debug)]
pub struct SamplingRequest {
    pub sampling: Sampling,
    /// The error is for the server.
    pub reply: oneshot::Sender<Result<SamplingAnswer, String>>,
}

impl Sampling {
    /// Reads the parameters of `sampling/createMessage`.
    ///
    /// # Errors
    /// What is wrong with them, for the server.
    pub(super) fn read(params: CreateMessageRequestParams) -> Result<Self, String> {
        if params.tools.is_some_and(|tools| !tools.is_empty()) {
            return Err("the model cannot call tools of a server".to_owned());
        }
        if params.messages.is_empty() || params.messages.len() > MAX_MESSAGES {
            return Err(format!("there must be 1 to {MAX_MESSAGES} messages"));
        }
        if params.max_tokens == 0 {
            return Err("maxTokens must be at least 1".to_owned());
        }
        let messages = params.messages.into_iter().map(read_message);
        let messages: Vec<SamplingMessage> = messages.collect::<Result<_, _>>()?;
        let is_from_user = |message: Option<&SamplingMessage>| message.is_some_and(|m| !m.is_from_assistant);
        if !is_from_user(messages.first()) || !is_from_user(messages.last()) {
            return Err("the first and the last message must have the role user".to_owned());
        }
        let stops = params.stop_sequences.unwrap_or_default().into_iter();
        let read = Self {
            system: params.system_prompt.filter(|text| !text.trim().is_empty()),
            messages,
            max_tokens: params.max_tokens,
            stops: stops.filter(|text| !text.is_empty()).take(MAX_STOPS).collect(),
        };
        if read.text_size() > MAX_TEXT {
            return Err(format!("the texts have more than {MAX_TEXT} bytes"));
        }
        Ok(read)
    }

    fn text_size(&self) -> usize {
        let contents = self.messages.iter().flat_map(|message| &message.content);
        let texts = contents.map(|content| match content {
            McpContent::Text(text) => text.len(),
            _ => 0,
        });
        texts.sum::<usize>() + self.system.as_ref().map_or(0, String::len)
    }
}

fn read_message(message: RmcpMessage) -> Result<SamplingMessage, String> {
    let blocks = message.content.into_vec().into_iter();
    let content = blocks.map(|block| {
        Ok(match block {
            RmcpBlock::Text(text) => McpContent::Text(text.text),
            RmcpBlock::Image(image) => McpContent::Image {
                media_type: image.mime_type,
                data: image.data,
            },
            RmcpBlock::Audio(_) => McpContent::Other("sound".to_owned()),
            _ => return Err("a message can contain text, images, and sound only".to_owned()),
        })
    });
    let content: Vec<McpContent> = content.collect::<Result<_, _>>()?;
    let is_empty = |content: &McpContent| matches!(content, McpContent::Text(text) if text.trim().is_empty());
    if content.iter().all(is_empty) {
        return Err("a message is empty".to_owned());
    }
    Ok(SamplingMessage {
        is_from_assistant: message.role == Role::Assistant,
        content,
    })
}

impl SamplingAnswer {
    pub(super) fn into_result(self) -> CreateMessageResult {
        let stop = match self.stop {
            SamplingStop::Complete => CreateMessageResult::STOP_REASON_END_TURN,
            SamplingStop::MaxTokens => CreateMessageResult::STOP_REASON_END_MAX_TOKEN,
            SamplingStop::StopText => CreateMessageResult::STOP_REASON_END_SEQUENCE,
        };
        let message = RmcpMessage::assistant_text(self.text);
        CreateMessageResult::new(message, self.model).with_stop_reason(stop)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(params: Value) -> Result<Sampling, String> {
        Sampling::read(serde_json::from_value(params).unwrap())
    }

    fn text(role: &str, text: &str) -> Value {
        json!({"role": role, "content": {"type": "text", "text": text}})
    }

    #[test]
    fn a_request_is_read_with_its_parts() {
        let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
        let several = json!({"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]});
        let sampling = read(json!({
            "messages": [text("user", "Hello."), text("assistant", "Yes?"), several],
            "systemPrompt": "Be brief.",
            "maxTokens": 50,
            "stopSequences": ["END", ""],
            "temperature": 0.5,
            "includeContext": "allServers",
            "modelPreferences": {"hints": [{"name": "other"}]},
        }))
        .unwrap();
        assert_eq!(sampling.system.as_deref(), Some("Be brief."));
        assert_eq!(
            (sampling.max_tokens, sampling.stops),
            (50, vec!["END".to_owned()])
        );
        let roles: Vec<bool> = sampling.messages.iter().map(|m| m.is_from_assistant).collect();
        assert_eq!(roles, [false, true, false]);
        assert_eq!(sampling.messages[2].content.len(), 2);
    }

    #[test]
    fn what_no_model_can_answer_is_refused() {
        let call = json!({"role": "assistant", "content": {"type": "tool_use", "id": "1", "name": "x", "input": {}}});
        let tool = json!({"name": "x", "inputSchema": {"type": "object"}});
        for (messages, more, expected) in [
            (json!([]), json!({}), "1 to 100"),
            (json!(vec![text("user", "x"); 101]), json!({}), "1 to 100"),
            (json!([text("user", " ")]), json!({}), "empty"),
            (json!([text("assistant", "x")]), json!({}), "role user"),
            (
                json!([text("user", "x"), text("assistant", "x")]),
                json!({}),
                "role user",
            ),
            (
                json!([text("user", "x"), call, text("user", "x")]),
                json!({}),
                "text, images",
            ),
            (
                json!([text("user", &"x".repeat(MAX_TEXT + 1))]),
                json!({}),
                "bytes",
            ),
            (json!([text("user", "x")]), json!({"maxTokens": 0}), "at least 1"),
            (json!([text("user", "x")]), json!({"tools": [tool]}), "tools"),
        ] {
            let mut params = json!({"messages": messages, "maxTokens": 9});
            params
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            let reason = read(params).unwrap_err();
            assert!(reason.contains(expected), "{reason}");
        }
    }
}
