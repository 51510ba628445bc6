//! Converts from the wire to the domain. Checks every value here, once; an error names the parameter and the remedy.
//!
//! Reads no file: the caller, which has the workspace, resolves the references of a prompt.

mod prompt;

pub use prompt::{PromptPart, parse_prompt};

use std::cell::RefCell;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::de::value::MapDeserializer;
use serde_json::Value;

use super::error::RequestError;
use super::to_wire::content::{ContentPointer, DEFAULT_LIMIT, MAX_LIMIT};
use crate::domain::{ApprovalId, Decision, DecisionKind, InquiryId, InquiryReply};
use crate::protocol as wire;
use crate::session::InquiryAnswer;

/// Longest title in characters.
const MAX_TITLE: usize = 200;

/// Events that `agent/loadSession` returns by default for a client without any.
const DEFAULT_TAIL: u32 = 200;
/// Events that `agent/loadSession` returns at most.
const MAX_TAIL: u32 = 1_000;

/// Sessions that `agent/listSessions` returns by default.
const DEFAULT_SESSIONS: u32 = 50;
/// Sessions that `agent/listSessions` returns at most.
const MAX_SESSIONS: u32 = 200;

/// Parses params. Omitted params count as `{}`, for methods whose params are all optional.
///
/// # Errors
/// [`RequestError::BadParams`] with the field that is wrong or missing.
pub fn parse_params<T: DeserializeOwned>(value: Value) -> Result<T, RequestError> {
    let value = match value {
        Value::Null => Value::Object(serde_json::Map::new()),
        value => value,
    };
    let Value::Object(members) = value else {
        return Err(RequestError::invalid_param("params", "must be an object"));
    };
    let at = RefCell::new(None);
    let mut members = members.into_iter();
    // The member handed out last is the wrong one; after the end, a missing one is named in the error.
    let tracked_members = std::iter::from_fn(|| {
        let member = members.next();
        at.replace(member.as_ref().map(|(name, _)| name.clone()));
        member
    });
    T::deserialize(MapDeserializer::new(tracked_members)).map_err(|error: serde_json::Error| {
        let problem = error.to_string();
        let missing = problem
            .strip_prefix("missing field `")
            .and_then(|rest| rest.split('`').next());
        let field = at.take().or(missing.map(str::to_owned));
        RequestError::BadParams {
            field: field.unwrap_or_else(|| "params".to_owned()),
            problem,
        }
    })
}

/// Parses the user's answer to an approval.
///
/// # Errors
/// [`RequestError::BadParams`] if a field does not go with the decision, or has the wrong form.
pub fn parse_decision(params: wire::ApprovalRespondParams) -> Result<(ApprovalId, Decision), RequestError> {
    let wire::ApprovalRespondParams {
        approval_id,
        decision,
        feedback,
        input,
        rule,
    } = params;
    let kind = DecisionKind::from(decision);
    let (denies, keeps) = match kind {
        DecisionKind::Deny => (true, false),
        DecisionKind::Allow => (false, false),
        DecisionKind::AllowSession | DecisionKind::AllowAlways => (false, true),
    };
    if feedback.is_some() && !denies {
        return Err(RequestError::invalid_param(
            "feedback",
            "is allowed only with the decision deny",
        ));
    }
    match &input {
        Some(_) if denies => {
            return Err(RequestError::invalid_param(
                "input",
                "is not allowed with the decision deny",
            ));
        }
        Some(input) if !input.is_object() => {
            return Err(RequestError::invalid_param(
                "input",
                "must be an object with all arguments of the call",
            ));
        }
        Some(_) | None => {}
    }
    match rule.as_deref() {
        Some(_) if !keeps => {
            return Err(RequestError::invalid_param(
                "rule",
                "is allowed only with the decision allowSession or allowAlways",
            ));
        }
        Some(rule) if rule.trim().is_empty() => {
            return Err(RequestError::invalid_param("rule", "must not be empty"));
        }
        Some(_) | None => {}
    }
    let decision = Decision {
        kind,
        feedback: feedback.filter(|text| !text.trim().is_empty()),
        input: input.map(Arc::new),
        rule: rule.map(|rule| rule.trim().to_owned()),
    };
    Ok((ApprovalId::from(approval_id), decision))
}

/// Parses the user's answer to a limit. The amount stays as it is, because only the session knows its unit.
///
/// # Errors
/// [`RequestError::BadParams`] if `raiseBy` is not above 0 or comes with `stop`.
pub fn parse_limit_answer(
    params: wire::LimitRespondParams,
) -> Result<(InquiryId, InquiryAnswer), RequestError> {
    let wire::LimitRespondParams {
        limit_id,
        raise_by,
        stop,
    } = params;
    let answer = match (raise_by, stop) {
        (Some(_), true) => {
            return Err(RequestError::invalid_param(
                "raiseBy",
                "is not allowed together with stop",
            ));
        }
        (Some(by), false) if !(by.is_finite() && by > 0.0) => {
            return Err(RequestError::invalid_param("raiseBy", "must be more than 0"));
        }
        (Some(by), false) => InquiryAnswer::RaiseBy(by),
        (None, true) => InquiryAnswer::Reply(InquiryReply::Stop),
        // Only the session knows the limit, so it decides whether this answer fits.
        (None, false) => InquiryAnswer::Reply(InquiryReply::Accept),
    };
    Ok((InquiryId::from(limit_id), answer))
}

/// Parses the user's answer to a question.
///
/// # Errors
/// [`RequestError::BadParams`] unless exactly one of `answers` and `dismissed` is there.
pub fn parse_question_answer(
    params: wire::QuestionRespondParams,
) -> Result<(InquiryId, InquiryAnswer), RequestError> {
    let wire::QuestionRespondParams {
        question_id,
        answers,
        dismissed,
    } = params;
    let reply = match (answers, dismissed) {
        (Some(_), true) => {
            return Err(RequestError::invalid_param(
                "answers",
                "is not allowed together with dismissed",
            ));
        }
        (Some(answers), false) => InquiryReply::Answers(answers),
        (None, true) => InquiryReply::Dismissed,
        (None, false) => {
            return Err(RequestError::invalid_param(
                "answers",
                "is missing; send it, or dismissed",
            ));
        }
    };
    Ok((InquiryId::from(question_id), InquiryAnswer::Reply(reply)))
}

/// Parses a new title.
///
/// # Errors
/// [`RequestError::BadParams`] unless it is one line of 1 to 200 characters.
pub fn parse_title(params: &wire::RenameSessionParams) -> Result<String, RequestError> {
    let title = params.title.trim();
    if title.is_empty() {
        return Err(RequestError::invalid_param("title", "must not be empty"));
    }
    if title.contains(char::is_control) {
        return Err(RequestError::invalid_param(
            "title",
            "must be one line of plain text",
        ));
    }
    if title.chars().count() > MAX_TITLE {
        return Err(RequestError::invalid_param(
            "title",
            format!("must be at most {MAX_TITLE} characters long"),
        ));
    }
    Ok(title.to_owned())
}

/// The wanted events of a session: the last `tail` of those between `after` and `before`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRange {
    /// Only events with a larger number; 0 for all.
    pub after: u64,
    /// Only events with a smaller number; `None` for all.
    pub before: Option<u64>,
    /// Largest number of events; the last ones are taken.
    pub tail: u32,
}

/// Parses the page that `agent/loadSession` requests.
///
/// # Errors
/// [`RequestError::BadParams`] if `tail` is above 1,000.
pub fn parse_page(params: &wire::LoadSessionParams) -> Result<EventRange, RequestError> {
    // A client that has events asks for what it missed, so the default covers as much as possible.
    let default = match params.after_seq {
        Some(_) => MAX_TAIL,
        None => DEFAULT_TAIL,
    };
    let tail = params.tail.unwrap_or(default);
    if tail > MAX_TAIL {
        return Err(RequestError::invalid_param(
            "tail",
            format!("must be at most {MAX_TAIL}"),
        ));
    }
    Ok(EventRange {
        after: params.after_seq.unwrap_or(0),
        before: params.before_seq,
        tail,
    })
}

/// Returns the number of sessions that `agent/listSessions` may return.
///
/// # Errors
/// [`RequestError::BadParams`] unless `limit` is from 1 to 200.
pub fn parse_session_limit(params: &wire::ListSessionsParams) -> Result<u32, RequestError> {
    match params.limit {
        None => Ok(DEFAULT_SESSIONS),
        Some(limit @ 1..=MAX_SESSIONS) => Ok(limit),
        Some(_) => Err(RequestError::invalid_param(
            "limit",
            format!("must be from 1 to {MAX_SESSIONS}"),
        )),
    }
}

/// Parses a request of `agent/readContent`: the pointer, and the largest number of bytes.
///
/// # Errors
/// [`RequestError::BadParams`] for a limit out of range, [`RequestError::UnknownContent`] for a foreign reference.
pub fn parse_content_request(
    params: &wire::ReadContentParams,
) -> Result<(ContentPointer, u64), RequestError> {
    let limit = params.limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(RequestError::invalid_param(
            "limit",
            format!("must be from 1 to {MAX_LIMIT}"),
        ));
    }
    let pointer = ContentPointer::parse(&params.reference)
        .ok_or_else(|| RequestError::UnknownContent(params.reference.clone()))?;
    Ok((pointer, limit))
}

/// A request of `agent/queue`.
pub enum QueueRequest {
    List,
    Add(wire::PromptContent),
    Edit(String, wire::PromptContent),
    Remove(String),
    /// Sends this prompt now, or the next one.
    SendNow(Option<String>),
}

/// Parses a request of `agent/queue`.
///
/// # Errors
/// [`RequestError::BadParams`] if the action needs a prompt or a prompt id that is missing.
pub fn parse_queue(params: wire::QueueParams) -> Result<QueueRequest, RequestError> {
    let wire::QueueParams {
        session_id: _,
        action,
        prompt_id,
        prompt,
    } = params;
    let id = |id: Option<String>| {
        id.ok_or_else(|| RequestError::invalid_param("promptId", "must name the prompt"))
    };
    let require_prompt = |value: Option<_>| {
        value.ok_or_else(|| RequestError::invalid_param("prompt", "must contain the prompt to queue"))
    };
    Ok(match action {
        wire::QueueAction::List => QueueRequest::List,
        wire::QueueAction::Add => QueueRequest::Add(require_prompt(prompt)?),
        wire::QueueAction::Edit => QueueRequest::Edit(id(prompt_id)?, require_prompt(prompt)?),
        wire::QueueAction::Remove => QueueRequest::Remove(id(prompt_id)?),
        wire::QueueAction::SendNow => QueueRequest::SendNow(prompt_id),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn respond(value: Value) -> Result<(ApprovalId, Decision), RequestError> {
        parse_decision(parse_params(value).unwrap())
    }

    #[test]
    fn a_decision_accepts_only_its_own_fields() {
        let (id, decision) = respond(json!({
            "approvalId": "appr_1", "decision": "allowAlways", "rule": " bash(ls*) ", "input": {"command": "ls"}
        }))
        .unwrap();
        assert_eq!(id.as_str(), "appr_1");
        assert_eq!(decision.kind, DecisionKind::AllowAlways);
        assert_eq!(decision.rule.as_deref(), Some("bash(ls*)"));
        for (value, expected) in [
            (
                json!({"decision": "allow", "feedback": "x"}),
                "feedback: is allowed only with the decision deny",
            ),
            (
                json!({"decision": "deny", "input": {}}),
                "input: is not allowed with",
            ),
            (
                json!({"decision": "allow", "input": "ls"}),
                "input: must be an object",
            ),
            (
                json!({"decision": "allow", "rule": "x"}),
                "rule: is allowed only with the decision allowSession",
            ),
            (
                json!({"decision": "allowAlways", "rule": " "}),
                "rule: must not be empty",
            ),
        ] {
            let mut value = value;
            value["approvalId"] = "appr_1".into();
            let error = respond(value).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn the_wrong_or_missing_parameter_is_named() {
        let error = parse_params::<wire::PromptParams>(json!({"prompt": "hi"})).unwrap_err();
        let RequestError::BadParams { field, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(field, "sessionId");
        for (value, wrong) in [
            (json!({"sessionId": 7, "prompt": "hi"}), "sessionId"),
            (json!({"sessionId": "s", "prompt": 7}), "prompt"),
            (
                json!({"sessionId": "s", "prompt": [{"type": "text"}], "unknown": 1}),
                "prompt",
            ),
            (json!([]), "params"),
        ] {
            let error = parse_params::<wire::PromptParams>(value).unwrap_err();
            let RequestError::BadParams { field, .. } = &error else {
                panic!("{error}");
            };
            assert_eq!(field, wrong);
        }
        let error =
            parse_params::<wire::SetModeParams>(json!({"sessionId": "s", "mode": "yolo"})).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("expected one of `plan`, `ask`, `autoEdit`, `full`")
        );
        assert!(parse_params::<wire::ListApprovalsParams>(Value::Null).is_ok());
    }

    #[test]
    fn event_pages_have_limits() {
        let page_of = |value: Value| parse_page(&parse_params(value).unwrap());
        assert_eq!(page_of(json!({"sessionId": "s"})).unwrap().tail, 200);
        assert_eq!(
            page_of(json!({"sessionId": "s", "afterSeq": 7})).unwrap(),
            EventRange {
                after: 7,
                before: None,
                tail: 1_000
            }
        );
        assert!(page_of(json!({"sessionId": "s", "tail": 1001})).is_err());
    }

    #[test]
    fn titles_must_be_one_line() {
        let title_of = |text: &str| {
            parse_title(&wire::RenameSessionParams {
                session_id: "s".to_owned(),
                title: text.to_owned(),
            })
        };
        assert_eq!(title_of(" basket ").unwrap(), "basket");
        for wrong in ["", " \n", "a\nb", &"x".repeat(201)] {
            assert!(title_of(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn content_is_read_within_limits() {
        let content_of = |value: Value| parse_content_request(&parse_params(value).unwrap());
        let (pointer, limit) = content_of(json!({"sessionId": "s", "ref": "c:out"})).unwrap();
        assert_eq!((pointer, limit), (ContentPointer::Kept("out".to_owned()), 65_536));
        assert!(content_of(json!({"sessionId": "s", "ref": "c:out", "limit": 0})).is_err());
        assert!(content_of(json!({"sessionId": "s", "ref": "out"})).is_err());
    }
}
