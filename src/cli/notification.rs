//! Accessors for single notifications: sequence number, text, and whether the text is complete. Pure.

use crate::protocol::{MessageBlock, MessageNotification, ServerNotification};

/// Returns the `seq` of a durable notification; `None` for transient ones.
pub(super) fn read_seq(notification: &ServerNotification) -> Option<u64> {
    use ServerNotification as N;
    match notification {
        N::TurnStarted(params) => Some(params.header.seq),
        N::TurnEnded(params) => Some(params.header.seq),
        N::Message(params) => Some(params.header.seq),
        N::MessageRetracted(params) => Some(params.header.seq),
        N::ToolCall(params) => Some(params.header.seq),
        N::ApprovalRequested(params) => Some(params.header.seq),
        N::ApprovalResolved(params) => Some(params.header.seq),
        N::LimitRequested(params) => Some(params.header.seq),
        N::LimitResolved(params) => Some(params.header.seq),
        N::QuestionRequested(params) => Some(params.header.seq),
        N::QuestionResolved(params) => Some(params.header.seq),
        N::Plan(params) => Some(params.header.seq),
        N::TurnDiff(params) => Some(params.header.seq),
        N::Transition(params) => Some(params.header.seq),
        N::Retry(params) => Some(params.header.seq),
        N::Wait(params) => Some(params.header.seq),
        N::Compacted(params) => Some(params.header.seq),
        N::ModelSwitched(params) => Some(params.header.seq),
        N::Circuit(params) => Some(params.header.seq),
        N::Usage(params) => Some(params.header.seq),
        N::Warning(params) => params.seq,
        N::SessionUpdated(params) => Some(params.header.seq),
        N::Instructions(params) => Some(params.header.seq),
        N::TextDelta(_)
        | N::ReasoningDelta(_)
        | N::ToolInputDelta(_)
        | N::ToolOutputDelta(_)
        | N::McpServerUpdated(_)
        | N::Status(_) => None,
    }
}

/// Returns whether the message's text was cut for the wire, so that it cannot be compared.
pub(super) fn is_cut(message: &MessageNotification) -> bool {
    let is_cut_block =
        |block: &MessageBlock| matches!(block, MessageBlock::Text { more, .. } if !more.is_empty());
    !message.more.is_empty() || message.content.iter().any(is_cut_block)
}

/// Returns the text of a message, without reasoning and tool calls.
pub(super) fn extract_message_text(message: &MessageNotification) -> String {
    extract_content_text(&message.content)
}

pub(super) fn join_text_blocks(blocks: &[MessageBlock]) -> String {
    let text = blocks.iter().filter_map(|block| match block {
        MessageBlock::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    text.collect::<Vec<_>>().join(" ")
}

/// Returns the text of a prompt, with a placeholder for each reference and image.
pub(super) fn extract_content_text(content: &[MessageBlock]) -> String {
    let mut output = String::new();
    for block in content {
        match block {
            MessageBlock::Text { text, .. } => output.push_str(text),
            MessageBlock::Reference { path, .. } => output.push_str(&format!(" @{path}")),
            MessageBlock::Image(_) => output.push_str(" [image]"),
            MessageBlock::Reasoning { .. }
            | MessageBlock::ToolUse { .. }
            | MessageBlock::ToolResult { .. } => {}
        }
    }
    output
}
