//! Converts from the domain to the wire. The matches are exhaustive, so that a new event or variant does not compile
//! until its wire shape is decided.
//!
//! Invariant: only this module cuts long fields (R-WIRE-3). [`truncate`] shortens a field and writes the reference;
//! [`content`] finds the whole text for that reference. Deltas have their own form in [`delta`]: bytes that the outbox
//! merges by appending. Knows no sessions and reads no disk.

mod checkpoint;
pub mod content;
pub mod delta;
mod export;
mod inquiry;
mod mcp;
mod message;
mod names;
mod sanitize;
mod truncate;
mod trust;
mod values;

pub use checkpoint::to_revert_result;
pub use export::Export;
pub use inquiry::{OpenInquiryNotification, open_inquiry};
pub use mcp::{mcp_server_health, mcp_server_info, mcp_server_update};
pub use message::{open_approval, to_message_blocks};
pub use names::parse_effort;
pub use trust::{to_redirects, trust_item};
pub use values::{
    agent_info, command_info, error_data, prompt_result, queue_result, to_circuits, to_grant, to_metrics,
    to_provider_circuit, to_queue_state, to_sandbox_status, to_spent, to_token_usage, tool_info,
};

use serde::Serialize;

use self::sanitize::to_value;
use self::truncate::FieldBudget;
use crate::domain::{
    Block, Envelope, Event, InstructionFile, InstructionKind, ToolCallUpdate, Transition, TurnEnd,
};
use crate::protocol::{self as wire, EventHeader, ServerNotification, TruncatedFields};

/// Converts an event to its notification.
pub fn to_notification(envelope: &Envelope) -> ServerNotification {
    notification_cut(envelope, FieldBudget::new(envelope.seq))
}

fn notification_cut(envelope: &Envelope, cutter: FieldBudget) -> ServerNotification {
    let header = to_event_header(envelope);
    match &envelope.event {
        Event::Nested(nested) => {
            to_event_notification(header, &nested.event, Some(nested.parent.to_string()), cutter)
        }
        of_the_turn => to_event_notification(header, of_the_turn, None, cutter),
    }
}

/// Converts an event. `parent` is the call that delegated to the sub-agent which the event is about.
fn to_event_notification(
    header: EventHeader,
    event: &Event,
    parent: Option<String>,
    mut cutter: FieldBudget,
) -> ServerNotification {
    match event {
        Event::TurnStarted { by, resumes } => wire::TurnStartedNotification {
            header,
            by: Some((*by).into()),
            resumes: resumes.as_ref().map(ToString::to_string),
        }
        .into(),
        Event::TurnEnded(end) => turn_ended(header, end, &mut cutter).into(),
        Event::Message(message) => message::to_message_notification(header, message, &mut cutter).into(),
        Event::MessageRetracted { message, tool_calls } => wire::MessageRetractedNotification {
            header,
            message_id: message.to_string(),
            tool_call_ids: cutter.fit_list(tool_calls, |cutter, _, id| cutter.fit_line(id.as_str())),
        }
        .into(),
        Event::ToolCall(update) => tool_call(header, update, &mut cutter).into(),
        Event::ApprovalRequested(approval) => message::approval_requested(header, approval).into(),
        Event::ApprovalResolved {
            approval,
            tool_call,
            decision,
            by,
        } => {
            let mut more = TruncatedFields::new();
            wire::ApprovalResolvedNotification {
                header,
                approval_id: approval.to_string(),
                tool_call_id: tool_call.to_string(),
                decision: decision.kind.into(),
                by: (*by).into(),
                feedback: decision
                    .feedback
                    .as_ref()
                    .map(|text| cutter.text("", "feedback", text, &mut more)),
                input: decision
                    .input
                    .as_ref()
                    .map(|input| cutter.fit_json("", "input", input, &mut more)),
                rule: decision.rule.as_ref().map(|rule| cutter.fit_line(rule)),
                more,
            }
            .into()
        }
        Event::InquiryRequested(inquiry) => inquiry::to_request_notification(header, inquiry),
        Event::InquiryResolved { inquiry, reply, by } => {
            inquiry::to_resolved_notification(header, inquiry, reply, *by, &mut cutter)
        }
        Event::Plan { items } => {
            let visible_items = cutter.fit_list(items, |cutter, _, item| values::plan_item(cutter, item));
            let mut more = TruncatedFields::new();
            if visible_items.len() < items.len() {
                cutter.add_full_reference("items", content::to_plan_json(items).len(), &mut more);
            }
            wire::PlanNotification {
                header,
                items: visible_items,
                more,
            }
            .into()
        }
        Event::Transition { transition, detail } => {
            let (kind, reason) = match *transition {
                Transition::Continue(reason) => (
                    wire::TransitionKind::Continue,
                    wire::TransitionReason::Continue(reason.into()),
                ),
                Transition::Terminal(reason) => (
                    wire::TransitionKind::Terminal,
                    wire::TransitionReason::Terminal(reason.into()),
                ),
            };
            wire::TransitionNotification {
                header,
                kind,
                reason,
                detail: detail.as_ref().map(|detail| cutter.fit_line(detail)),
                parent_tool_call_id: parent,
            }
            .into()
        }
        Event::Retry {
            provider,
            model,
            attempt,
            max_retries,
            delay_ms,
            resume_at,
            error,
            next,
        } => wire::RetryNotification {
            header,
            provider: cutter.fit_line(provider),
            model: cutter.fit_line(model),
            attempt: *attempt,
            max_retries: *max_retries,
            delay_ms: *delay_ms,
            resume_at: *resume_at,
            error: error_data(error),
            next: cutter.fit_line(next),
            parent_tool_call_id: parent,
        }
        .into(),
        Event::Wait { why, until } => wire::WaitNotification {
            header,
            why: cutter.fit_line(why),
            until: *until,
            parent_tool_call_id: parent,
        }
        .into(),
        Event::Compacted(compaction) => {
            let mut more = TruncatedFields::new();
            let summary = compaction.summary.as_ref();
            wire::CompactedNotification {
                header,
                trigger: compaction.trigger.into(),
                tokens_before: compaction.tokens_before,
                tokens_after: compaction.tokens_after,
                messages_before: compaction.messages_before,
                messages_after: compaction.messages_after,
                summary: summary.map(|summary| cutter.text("", "summary", &summary.text, &mut more)),
                digest: summary.is_some_and(|summary| summary.digest),
                parent_tool_call_id: parent,
                more,
            }
            .into()
        }
        Event::ModelSwitched { from, to, why } => wire::ModelSwitchedNotification {
            header,
            from: cutter.fit_line(from),
            to: cutter.fit_line(to),
            why: cutter.fit_line(why),
            parent_tool_call_id: parent,
        }
        .into(),
        Event::Circuit {
            subject,
            name,
            state,
            until,
        } => wire::CircuitNotification {
            header,
            subject: (*subject).into(),
            name: cutter.fit_line(name),
            state: (*state).into(),
            until: *until,
            parent_tool_call_id: parent,
        }
        .into(),
        Event::Usage {
            step,
            turn,
            session,
            step_cost,
            turn_cost,
            session_cost,
            context_used,
            window,
            provider,
        } => wire::UsageNotification {
            header,
            step: to_spent(step, *step_cost),
            turn: to_spent(turn, *turn_cost),
            session: to_spent(session, *session_cost),
            context_used: *context_used,
            context_window: *window,
            provider: provider.as_ref().map(|provider| cutter.fit_line(provider)),
        }
        .into(),
        Event::Warning { code, message } => wire::WarningNotification {
            session_id: Some(header.session_id),
            seq: Some(header.seq),
            turn_id: header.turn_id,
            at: Some(header.at),
            code: cutter.fit_line(code),
            message: cutter.fit_line(message),
            parent_tool_call_id: parent,
        }
        .into(),
        Event::SessionUpdated {
            title,
            mode,
            model,
            effort,
        } => wire::SessionUpdatedNotification {
            header,
            title: title.as_ref().map(|title| cutter.fit_line(title)),
            mode: mode.map(Into::into),
            model: model.as_ref().map(|model| cutter.fit_line(model)),
            effort: effort.as_deref().and_then(names::parse_effort),
            queue: None,
        }
        .into(),
        Event::QueueChanged(queue) => wire::SessionUpdatedNotification {
            header,
            title: None,
            mode: None,
            model: None,
            effort: None,
            queue: Some(values::to_queue_state(queue)),
        }
        .into(),
        Event::TurnDiff(diff) => checkpoint::turn_diff(header, diff, &mut cutter).into(),
        Event::Instructions { files } => {
            let listed_files = cutter.fit_list(files, |cutter, _, file| instruction_file(file, cutter));
            wire::InstructionsNotification {
                header,
                left_out: Some((files.len() - listed_files.len()) as u64).filter(|left_out| *left_out > 0),
                files: listed_files,
            }
            .into()
        }
        // A nested event is never nested itself; if it were, the outer parent would be as good.
        Event::Nested(nested) => self::to_event_notification(header, &nested.event, parent, cutter),
    }
}

/// Converts as many instruction files as one message has room for.
pub fn instruction_files(files: &[InstructionFile]) -> Vec<wire::InstructionFile> {
    FieldBudget::new(0).fit_list(files, |cutter, _, file| instruction_file(file, cutter))
}

fn instruction_file(file: &InstructionFile, cutter: &mut FieldBudget) -> wire::InstructionFile {
    wire::InstructionFile {
        path: cutter.fit_line(&file.path),
        kind: match file.kind {
            InstructionKind::Prompt => wire::InstructionKind::Prompt,
            InstructionKind::Soul => wire::InstructionKind::Soul,
            InstructionKind::Agents => wire::InstructionKind::Agents,
            InstructionKind::Tools => wire::InstructionKind::Tools,
            InstructionKind::Skill => wire::InstructionKind::Skill,
        },
        name: file.name.as_ref().map(|name| cutter.fit_line(name)),
        bytes: file.bytes,
        trusted: file.trusted,
        problem: file.problem.as_ref().map(|problem| cutter.fit_line(problem)),
    }
}

/// Builds a warning that concerns the whole server.
pub fn server_warning(code: &str, message: &str) -> ServerNotification {
    let mut cutter = FieldBudget::new(0);
    wire::WarningNotification {
        session_id: None,
        seq: None,
        turn_id: None,
        at: None,
        code: cutter.fit_line(code),
        message: cutter.fit_line(message),
        parent_tool_call_id: None,
    }
    .into()
}

/// Converts the current warnings of the whole server (code and message) for `agent/status`.
pub fn to_active_warnings(warnings: &[(&str, String)]) -> Vec<wire::ServerWarning> {
    let mut cutter = FieldBudget::new(0);
    let warning = |(code, message): &(&str, String)| wire::ServerWarning {
        code: (*code).to_owned(),
        message: cutter.fit_line(message),
    };
    warnings.iter().map(warning).collect()
}

/// Converts a stored event for `agent/loadSession`.
pub fn event_record(envelope: &Envelope) -> wire::EventRecord {
    let notification = to_notification(envelope);
    wire::EventRecord {
        method: notification.method().to_owned(),
        params: to_value(&notification),
    }
}

/// Converts a stored event uncut, except for the request of an approval or an inquiry.
fn full_record(envelope: &Envelope) -> wire::EventRecord {
    let notification = notification_cut(envelope, FieldBudget::new_unlimited());
    wire::EventRecord {
        method: notification.method().to_owned(),
        params: to_value(&notification),
    }
}

/// Builds the header of an event's notification.
pub fn to_event_header(envelope: &Envelope) -> EventHeader {
    EventHeader {
        session_id: envelope.session.to_string(),
        seq: envelope.seq,
        turn_id: envelope.turn.as_ref().map(ToString::to_string),
        at: envelope.at_ms,
    }
}

/// Encodes a notification as the body of a JSON-RPC frame.
pub fn encode_frame(notification: &ServerNotification) -> Vec<u8> {
    #[derive(Serialize)]
    struct NotificationBody<'a> {
        jsonrpc: &'static str,
        method: &'static str,
        params: &'a ServerNotification,
    }
    let body = NotificationBody {
        jsonrpc: "2.0",
        method: notification.method(),
        params: notification,
    };
    #[expect(clippy::expect_used, reason = "wire types have string keys and derived impls")]
    serde_json::to_vec(&body).expect("wire types serialise")
}

fn turn_ended(header: EventHeader, end: &TurnEnd, cutter: &mut FieldBudget) -> wire::TurnEndedNotification {
    let unused_steers = cutter.fit_list(&end.unused_steers, |cutter, index, steer| {
        message::cut_blocks(steer, &format!("unusedSteers/{index}"), cutter)
    });
    let mut more = TruncatedFields::new();
    let kept_count: usize = unused_steers.iter().map(Vec::len).sum();
    let count_shown = |steer: &Vec<Block>| message::list_shown_blocks(steer).len();
    if kept_count < end.unused_steers.iter().map(count_shown).sum() {
        let full_length = content::to_steers_json(&end.unused_steers).len();
        cutter.add_full_reference("unusedSteers", full_length, &mut more);
    }
    wire::TurnEndedNotification {
        header,
        reason: end.reason.into(),
        state: end.state.into(),
        usage: to_token_usage(&end.usage),
        cost_usd: end.cost.map(crate::domain::Cost::to_usd),
        error: end.error.as_ref().map(error_data),
        unused_steers,
        more,
    }
}

fn tool_call(
    header: EventHeader,
    update: &ToolCallUpdate,
    cutter: &mut FieldBudget,
) -> wire::ToolCallNotification {
    let mut more = TruncatedFields::new();
    wire::ToolCallNotification {
        header,
        tool_call_id: update.id.to_string(),
        name: cutter.fit_line(&update.name),
        title: cutter.fit_title(&update.title),
        status: update.status.into(),
        locations: update
            .locations
            .iter()
            .take(values::MAX_LOCATIONS)
            .map(|location| values::to_location(cutter, location))
            .collect(),
        output: update
            .result
            .as_ref()
            .map(|result| cutter.fit_output(result, &mut more)),
        diff: update
            .diff
            .as_ref()
            .map(|diff| cutter.text("", "diff", &sanitize::readable_diff(diff), &mut more)),
        input: update
            .input
            .as_ref()
            .map(|input| cutter.fit_json("", "input", input, &mut more)),
        images: update
            .result
            .as_ref()
            .map(|result| {
                let pictures: Vec<_> = result.pictures().collect();
                cutter.fit_list(&pictures, |cutter, index, image| {
                    message::to_image(image, &format!("images/{index}"), cutter)
                })
            })
            .unwrap_or_default(),
        duration_ms: update.duration_ms,
        exit_code: update.exit_code,
        parent_tool_call_id: update.parent.as_ref().map(ToString::to_string),
        more,
    }
}

#[cfg(test)]
mod tests;
