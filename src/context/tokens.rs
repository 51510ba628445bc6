//! Token estimates (R-CTX-1): one token for about four ASCII characters, one for every other character.
//!
//! Pure; `turn` corrects the estimates by the usage that the provider reports.

use std::sync::Arc;

use crate::domain::{Block, MediaData, Message, ToolResult, ToolSpec};
use crate::provider::HistoryItem;

/// The estimate for one image, whatever its size.
const IMAGE_TOKENS: u64 = 1_600;
/// The least estimate for a document, about one page.
const PAGE_TOKENS: u64 = 2_500;
/// Characters of base64 per token of a document. Papers of text need more tokens, scanned pages fewer.
const DOCUMENT_CHARACTERS: u64 = 64;

/// Estimates the tokens of a message, including 4 for its frame.
pub fn estimate_message_tokens(message: &Message) -> u64 {
    message.content.iter().map(estimate_block_tokens).sum::<u64>() + 4
}

/// Estimates the tokens of all messages.
pub fn estimate_total_tokens(items: &[Arc<HistoryItem>]) -> u64 {
    items
        .iter()
        .map(|item| item.estimated_tokens(estimate_message_tokens))
        .sum()
}

fn estimate_block_tokens(block: &Block) -> u64 {
    match block {
        Block::Text(text) => estimate_text_tokens(text),
        Block::Reasoning { text, signature, .. } => {
            estimate_text_tokens(text) + signature.as_ref().map_or(0, |s| s.value.len() as u64 / 4)
        }
        Block::ToolUse {
            name,
            input,
            attached,
            ..
        } => {
            let extra = attached.as_ref().and_then(|call| call.extra.as_ref());
            estimate_text_tokens(name)
                + estimate_text_tokens(&input.to_string())
                + extra.map_or(0, |extra| extra.to_string().len() as u64 / 4)
        }
        Block::ToolResult { result, .. } => estimate_result_tokens(result),
        Block::Image(media) => estimate_media_tokens(media),
        Block::Reference(reference) => estimate_text_tokens(&reference.text) + 20,
    }
}

/// Estimates the tokens of a tool's result.
pub(super) fn estimate_result_tokens(result: &ToolResult) -> u64 {
    estimate_text_tokens(&result.text) + result.media.iter().map(estimate_media_tokens).sum::<u64>()
}

pub(super) fn estimate_media_tokens(media: &MediaData) -> u64 {
    if media.is_document() {
        PAGE_TOKENS.max(media.data.len() as u64 / DOCUMENT_CHARACTERS)
    } else {
        IMAGE_TOKENS
    }
}

/// Estimates the tokens that the specifications of tools take in a request.
pub fn estimate_tool_tokens(specs: &[ToolSpec]) -> u64 {
    let tools = specs.iter().map(|spec| {
        let schema = spec.schema.to_string();
        estimate_text_tokens(&spec.name)
            + estimate_text_tokens(&spec.description)
            + estimate_text_tokens(&schema)
            + spec
                .freeform
                .map_or(0, |freeform| estimate_text_tokens(freeform.grammar))
    });
    tools.sum()
}

/// Estimates the tokens of a text, rounded up.
pub fn estimate_text_tokens(text: &str) -> u64 {
    // Other scripts have far fewer characters in a token than English text.
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let wide = text.chars().count() as u64 - ascii;
    ascii.div_ceil(4) + wide
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_ascii_characters_or_one_other_are_a_token() {
        assert_eq!(estimate_text_tokens("abcd"), 1);
        assert_eq!(estimate_text_tokens("abcde"), 2);
        assert_eq!(estimate_text_tokens("日本"), 2);
    }
}
