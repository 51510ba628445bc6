//! Converts inquiries to limits and questions.

use serde_json::Value;

use super::sanitize::to_json;
use super::truncate::FieldBudget;
use crate::domain::{
    AgentQuestion, Answers, Cost, Inquiry, InquiryReply, LimitName, LimitReached, OpenInquiry, QuestionField,
    RequestSubject, ResolvedBy, SessionId,
};
use crate::protocol::{self as wire, EventHeader, ServerNotification, TruncatedFields};

/// An open inquiry as it was requested, for `agent/listApprovals` and `agent/loadSession`.
pub enum OpenInquiryNotification {
    Limit(wire::LimitRequestedNotification),
    Question(wire::QuestionRequestedNotification),
}

/// Converts an open inquiry as it was requested.
pub fn open_inquiry(session: &SessionId, open: &OpenInquiry) -> OpenInquiryNotification {
    let header = EventHeader {
        session_id: session.to_string(),
        seq: open.seq,
        turn_id: open.turn.as_ref().map(ToString::to_string),
        at: open.at_ms,
    };
    to_open_request(header, &open.inquiry)
}

pub(super) fn to_request_notification(header: EventHeader, inquiry: &Inquiry) -> ServerNotification {
    match to_open_request(header, inquiry) {
        OpenInquiryNotification::Limit(limit) => limit.into(),
        OpenInquiryNotification::Question(question) => question.into(),
    }
}

fn to_open_request(header: EventHeader, inquiry: &Inquiry) -> OpenInquiryNotification {
    let mut cutter = FieldBudget::new(header.seq);
    let id = inquiry.id.to_string();
    let parent = inquiry.parent.as_ref().map(ToString::to_string);
    match &inquiry.subject {
        RequestSubject::Limit(reached) => {
            let LimitReached {
                limit,
                used,
                most,
                provider,
                model,
                message,
            } = reached;
            OpenInquiryNotification::Limit(wire::LimitRequestedNotification {
                header,
                limit_id: id,
                limit: (*limit).into(),
                used: to_amount(*limit, *used),
                max: to_amount(*limit, *most),
                provider: provider.as_ref().map(|provider| cutter.fit_line(provider)),
                model: model.as_ref().map(|model| cutter.fit_line(model)),
                message: cutter.fit_line(message),
                parent_tool_call_id: parent,
            })
        }
        RequestSubject::Question(question) => {
            let AgentQuestion {
                tool_call,
                text,
                detail,
                fields,
                url: _,
            } = question;
            let mut more = TruncatedFields::new();
            OpenInquiryNotification::Question(wire::QuestionRequestedNotification {
                question_id: id,
                tool_call_id: tool_call.as_ref().map(ToString::to_string),
                parent_tool_call_id: parent,
                text: cutter.text("", "text", text, &mut more),
                detail: detail
                    .as_ref()
                    .map(|detail| cutter.text("", "detail", detail, &mut more)),
                fields: cutter.fit_list(fields, |cutter, _, field| self::to_question_field(cutter, field)),
                more,
                header,
            })
        }
    }
}

fn to_question_field(cutter: &mut FieldBudget, field: &QuestionField) -> wire::QuestionField {
    let QuestionField {
        name,
        label,
        choices,
        several,
        free,
        required,
        value_type,
        default,
        schema,
    } = field;
    let mut schema = schema.as_deref().cloned();
    if let (Some(Value::Object(schema)), Some(value_type)) = (&mut schema, value_type) {
        schema.insert("type".to_owned(), value_type.name().into());
    }
    // A part of them would be wrong.
    let schema = schema.filter(|schema| cutter.take_uncut(schema.to_string().len()));
    let default_fits = cutter.take_uncut(default.iter().map(String::len).sum());
    wire::QuestionField {
        name: cutter.fit_line(name),
        label: cutter.fit_line(label),
        choices: cutter.fit_list(choices, |cutter, _, choice| wire::QuestionChoice {
            value: cutter.fit_line(&choice.value),
            label: cutter.fit_line(&choice.label),
        }),
        several: *several,
        free: *free,
        required: *required,
        default: if default_fits { default.clone() } else { Vec::new() },
        schema,
    }
}

pub(super) fn to_resolved_notification(
    header: EventHeader,
    inquiry: &Inquiry,
    reply: &InquiryReply,
    by: ResolvedBy,
    cutter: &mut FieldBudget,
) -> ServerNotification {
    let id = inquiry.id.to_string();
    match &inquiry.subject {
        RequestSubject::Limit(reached) => wire::LimitResolvedNotification {
            header,
            limit_id: id,
            limit: reached.limit.into(),
            outcome: match reply {
                InquiryReply::Raise(_) => wire::LimitOutcome::Raised,
                InquiryReply::Accept => wire::LimitOutcome::Accepted,
                InquiryReply::Stop | InquiryReply::Answers(_) | InquiryReply::Dismissed => {
                    wire::LimitOutcome::Stopped
                }
            },
            raised_by: match reply {
                InquiryReply::Raise(by) => Some(to_amount(reached.limit, *by)),
                InquiryReply::Accept
                | InquiryReply::Stop
                | InquiryReply::Answers(_)
                | InquiryReply::Dismissed => None,
            },
            by: by.into(),
        }
        .into(),
        RequestSubject::Question(_) => {
            let mut more = TruncatedFields::new();
            wire::QuestionResolvedNotification {
                header,
                question_id: id,
                answers: match reply {
                    InquiryReply::Answers(answers) => Some(to_answers(answers, cutter, &mut more)),
                    InquiryReply::Raise(_)
                    | InquiryReply::Accept
                    | InquiryReply::Stop
                    | InquiryReply::Dismissed => None,
                },
                by: by.into(),
                more,
            }
            .into()
        }
    }
}

fn to_answers(
    answers: &Answers,
    cutter: &mut FieldBudget,
    more: &mut TruncatedFields,
) -> std::collections::BTreeMap<String, Vec<String>> {
    let full_length = to_json(answers).len();
    if cutter.take_uncut(full_length) {
        return answers.clone();
    }
    cutter.add_full_reference("answers", full_length, more);
    let line = |cutter: &mut FieldBudget, text: &String| cutter.fit_line(text);
    let pairs: Vec<_> = answers.iter().collect();
    let cut = cutter.fit_list(&pairs, |cutter, _, (name, values)| {
        let values = cutter.fit_list(values, |cutter, _, value| line(cutter, value));
        (line(cutter, name), values)
    });
    cut.into_iter().collect()
}

/// Converts an amount: US dollars for a money limit, otherwise a plain number.
fn to_amount(limit: LimitName, amount: u64) -> f64 {
    if limit.is_money() {
        Cost(amount).to_usd()
    } else {
        amount as f64
    }
}

impl From<LimitName> for wire::LimitName {
    fn from(limit: LimitName) -> Self {
        match limit {
            LimitName::Steps => Self::MaxSteps,
            LimitName::ToolCalls => Self::MaxToolCalls,
            LimitName::TurnCost => Self::MaxTurnCost,
            LimitName::SessionCost => Self::MaxSessionCost,
            LimitName::DayCost => Self::MaxDayCost,
            LimitName::ProviderDayCost => Self::MaxProviderDayCost,
            LimitName::WallTime => Self::MaxWallTimeS,
            LimitName::UnknownPrice => Self::UnknownPrice,
        }
    }
}
