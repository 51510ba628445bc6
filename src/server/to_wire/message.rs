//! Converts messages, their blocks, and the request of an approval.

use serde_json::Value;

use super::sanitize;
use super::truncate::FieldBudget;
use crate::base::text::reveal_hidden_characters;
use crate::domain::{Approval, Block, MediaData, Message, NamedLosses, OpenApproval, SessionId};
use crate::protocol::{
    ApprovalRequestedNotification, EventHeader, Image, Loss, MessageBlock, MessageNotification, MoreLosses,
    TruncatedFields,
};

/// Converts blocks uncut.
pub fn to_message_blocks(blocks: &[Block]) -> Vec<MessageBlock> {
    let mut cutter = FieldBudget::new_unlimited();
    list_shown_blocks(blocks)
        .into_iter()
        .map(|(_, block)| self::to_message_block(block, "", &mut cutter))
        .collect()
}

/// Returns the blocks that clients get, with their indices: all but documents, which the references before them name.
pub(super) fn list_shown_blocks(blocks: &[Block]) -> Vec<(usize, &Block)> {
    let is_shown = |block: &Block| !matches!(block, Block::Image(media) if media.is_document());
    let blocks = blocks.iter().enumerate();
    blocks.filter(|(_, block)| is_shown(block)).collect()
}

/// Converts an open approval for `agent/listApprovals` and `agent/loadSession`, exactly as it was requested.
pub fn open_approval(session: &SessionId, open: &OpenApproval) -> ApprovalRequestedNotification {
    let header = EventHeader {
        session_id: session.to_string(),
        seq: open.seq,
        turn_id: open.turn.as_ref().map(ToString::to_string),
        at: open.at_ms,
    };
    approval_requested(header, &open.approval)
}

/// Converts the request of an approval. A budget of its own cuts it the same way wherever it is shown.
pub(super) fn approval_requested(header: EventHeader, approval: &Approval) -> ApprovalRequestedNotification {
    let mut cutter = FieldBudget::new(header.seq);
    let mut more = TruncatedFields::new();
    ApprovalRequestedNotification {
        header,
        approval_id: approval.id.to_string(),
        tool_call_id: approval.tool_call.to_string(),
        name: cutter.fit_line(&approval.name),
        title: cutter.fit_title(&approval.title),
        cwd: cutter.fit_line(&approval.cwd),
        risk: approval.risk.into(),
        why: cutter.fit_line(&approval.describe_reasons()),
        // The user must see the whole rule, or it is not offered.
        rule: (approval.rule.as_ref())
            .filter(|rule| cutter.fit_line(rule) == **rule)
            .cloned(),
        other_why: (approval.losses.as_ref())
            .filter(|_| !approval.why.is_empty())
            .map(|_| cutter.fit_line(&approval.why)),
        loses: list_losses(approval, &mut cutter),
        loses_more: (approval.losses.as_ref()).and_then(count_unlisted),
        shown: sanitize::readable_subject(&approval.input)
            .map(|subject| cutter.text("", "shown", &subject, &mut more)),
        options: list_options(approval),
        input: cutter.fit_json("", "input", &approval.input, &mut more),
        diff: approval
            .diff
            .as_ref()
            .map(|diff| cutter.text("", "diff", &sanitize::readable_diff(diff), &mut more)),
        more,
    }
}

fn list_losses(approval: &Approval, cutter: &mut FieldBudget) -> Vec<Loss> {
    let losses = approval.losses.iter().flat_map(|losses| &losses.list.listed);
    losses
        .map(|loss| Loss {
            what: cutter.fit_line(&loss.what),
            bytes: loss.bytes,
        })
        .collect()
}

/// Returns how many losses the list leaves out; `None` if it leaves out none.
fn count_unlisted(losses: &NamedLosses) -> Option<MoreLosses> {
    let listed = losses.list.listed.len() as u64;
    let more = MoreLosses {
        count: losses.list.count.saturating_sub(listed),
        is_partial: losses.is_partial,
    };
    (more.count > 0 || more.is_partial).then_some(more)
}

/// Returns the options of a command that change what it does, and how it is confined.
fn list_options(approval: &Approval) -> Vec<String> {
    let mut options = call_options(&approval.input);
    options.extend(approval.sandbox.clone());
    options
}

fn call_options(input: &Value) -> Vec<String> {
    let mut options = Vec::new();
    if input.get("command").is_none() {
        return options;
    }
    if input.get("background").and_then(Value::as_bool) == Some(true) {
        options.push("keeps running in the background".to_owned());
    }
    if let Some(folder) = input.get("workdir").and_then(Value::as_str) {
        options.push(format!("runs in the folder {}", reveal_hidden_characters(folder)));
    }
    if let Some(seconds) = input.get("timeout_s").and_then(Value::as_f64) {
        options.push(format!("goes on in the background after {seconds} s"));
    }
    options
}

pub(super) fn to_message_notification(
    header: EventHeader,
    message: &Message,
    cutter: &mut FieldBudget,
) -> MessageNotification {
    let content = cut_blocks(&message.content, "content", cutter);
    let mut more = TruncatedFields::new();
    if content.len() < list_shown_blocks(&message.content).len() {
        let full_length = sanitize::to_json(&to_message_blocks(&message.content)).len();
        cutter.add_full_reference("content", full_length, &mut more);
    }
    MessageNotification {
        header,
        message_id: message.id.to_string(),
        role: message.role.into(),
        content,
        incomplete: message.incomplete,
        hidden: message.hidden,
        more,
    }
}

/// Converts as many blocks as fit, each cut. `path` is the path of the list.
pub(super) fn cut_blocks(blocks: &[Block], path: &str, cutter: &mut FieldBudget) -> Vec<MessageBlock> {
    cutter.fit_list(&list_shown_blocks(blocks), |cutter, _, (index, block)| {
        self::to_message_block(block, &format!("{path}/{index}"), cutter)
    })
}

pub(super) fn to_image(image: &MediaData, path: &str, cutter: &mut FieldBudget) -> Image {
    let mut more = TruncatedFields::new();
    let is_complete = cutter.take_uncut(image.data.len());
    if !is_complete {
        more.insert(
            "data".to_owned(),
            cutter.build_reference(&sanitize::path(path, "data"), image.data.len()),
        );
    }
    Image {
        media_type: cutter.fit_line(&image.media_type),
        data: is_complete.then(|| image.data.to_string()),
        more,
    }
}

fn to_message_block(block: &Block, path: &str, cutter: &mut FieldBudget) -> MessageBlock {
    let mut more = TruncatedFields::new();
    match block {
        Block::Text(text) => MessageBlock::Text {
            text: cutter.text(path, "text", text, &mut more),
            more,
        },
        // Opaque reasoning and signatures are meant for the provider alone.
        Block::Reasoning { redacted: true, .. } => MessageBlock::Reasoning {
            text: String::new(),
            more,
        },
        Block::Reasoning { text, .. } => MessageBlock::Reasoning {
            text: cutter.text(path, "text", text, &mut more),
            more,
        },
        // Data that a provider attached to its call is meant for the provider alone.
        Block::ToolUse { id, name, input, .. } => MessageBlock::ToolUse {
            tool_call_id: id.to_string(),
            name: cutter.fit_line(name),
            input: cutter.fit_json(path, "input", input, &mut more),
            more,
        },
        Block::ToolResult { id, result } => MessageBlock::ToolResult {
            tool_call_id: id.to_string(),
            is_error: result.is_error,
        },
        Block::Image(data) => MessageBlock::Image(to_image(data, path, cutter)),
        Block::Reference(reference) => MessageBlock::Reference {
            kind: reference.kind.into(),
            path: cutter.fit_line(&reference.path),
            start_line: reference.lines.map(|(first, _)| first),
            end_line: reference.lines.map(|(_, last)| last),
            text: cutter.text(path, "text", &reference.text, &mut more),
            more,
        },
    }
}
