//! What the user wrote, as a message of the history and as a title.

use crate::base::text;
use crate::domain::{Block, Message};

/// The characters to which a title made from the first prompt is cut.
const TITLE_CHARS: usize = 80;

/// Wraps what the user wrote into a message.
pub(super) fn user_message(content: Vec<Block>) -> Message {
    Message {
        content,
        ..Message::user_text("")
    }
}

/// Makes a session's title from its first prompt.
pub(super) fn make_title(content: &[Block]) -> String {
    let texts: Vec<&str> = content
        .iter()
        .filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    text::one_line(&text::strip_control_characters(&texts.join(" ")), TITLE_CHARS)
}
