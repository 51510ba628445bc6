//! Questions to the client's user: approvals as `session/request_permission`, limits and questions as forms.
//!
//! Fail closed: an answer that is missing, malformed or unknown denies the call, or stops at the limit. Dropping the
//! future of a question takes it back from the client.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::client::ClientFacts;
use super::context::AcpContext;
use super::params::{FormAnswer, PermissionAnswer, PermissionOutcome};
use super::updates;
use crate::base::text::reveal_hidden_characters;
use crate::domain::{
    AgentQuestion, Answers, Approval, Decision, DecisionKind, FileLocation, Inquiry, InquiryReply, LimitName,
    LimitReached, QuestionField, RequestSubject, SessionId,
};
use crate::session::{CommandError, InquiryAnswer, SessionCommand};

/// The field of a limit's form.
const RAISE: &str = "raise_by";
/// The choice to continue, in the form of an unknown price.
const CONTINUE: &str = "continue";

/// Asks for a permission and passes the decision on.
pub(super) async fn ask_permission(
    state: &AcpContext,
    session: &SessionId,
    approval: &Approval,
    places: &[FileLocation],
) {
    let cwd = state.feeds.options(session).cwd;
    let mut content = Vec::new();
    if let Some(diff) = &approval.diff {
        content.extend(updates::diff_content(diff, places, &cwd));
    }
    let subject = approval
        .input
        .get("command")
        .or_else(|| approval.input.get("url"));
    if let Some(subject) = subject.and_then(Value::as_str) {
        content.push(updates::text_content(&reveal_hidden_characters(subject)));
    }
    let mut about = format!("{} ({})", approval.why, approval.cwd);
    if let Some(sandbox) = &approval.sandbox {
        about = format!("{about}\n{sandbox}");
    }
    content.push(updates::text_content(&about));
    let mut call = json!({
        "toolCallId": approval.tool_call.as_str(),
        "title": updates::text_block(&approval.title)["text"],
        "kind": updates::tool_kind(&approval.name),
        "status": "pending",
        "content": content,
        "locations": updates::locations(places),
    });
    if let Some(input) = updates::raw_input(&approval.input) {
        call["rawInput"] = input;
    }
    let params = json!({
        "sessionId": session.as_str(),
        "toolCall": call,
        "options": permission_options(approval),
        "_meta": {"agentls": {
            "approvalId": approval.id.as_str(), "risk": approval.risk.name(), "why": approval.why,
            "rule": approval.rule,
        }},
    });
    let answer = state
        .requests
        .send("session/request_permission", params)
        .wait()
        .await;
    let decision = read_decision(answer);
    match send_decision(state, session, approval, decision).await {
        // A settled one was canceled or decided by a rule meanwhile.
        Ok(()) | Err(CommandError::UnknownApproval(_)) => {}
        Err(error) => {
            tracing::warn!(%error, "a decision was not accepted, so the call is denied");
            let deny = Decision::from_kind(DecisionKind::Deny);
            let _ = send_decision(state, session, approval, deny).await;
        }
    }
}

async fn send_decision(
    state: &AcpContext,
    session: &SessionId,
    approval: &Approval,
    decision: Decision,
) -> Result<(), CommandError> {
    let approval = approval.id.clone();
    let command = |reply| SessionCommand::Decide {
        approval,
        decision,
        reply,
    };
    state.sessions.send_request(session, command).await
}

/// Returns the decisions that the user can choose from.
fn permission_options(approval: &Approval) -> Value {
    let option = |kind: DecisionKind, name: &str, icon: &str| json!({"optionId": kind.name(), "name": name, "kind": icon});
    let mut options = vec![option(DecisionKind::Allow, "Allow", "allow_once")];
    if let Some(rule) = &approval.rule {
        let rule = reveal_hidden_characters(rule);
        options.push(option(
            DecisionKind::AllowSession,
            &format!("Allow {rule} in this session"),
            "allow_always",
        ));
        options.push(option(
            DecisionKind::AllowAlways,
            &format!("Always allow {rule} in this workspace"),
            "allow_always",
        ));
    }
    options.push(option(DecisionKind::Deny, "Deny", "reject_once"));
    options.into()
}

/// Reads the client's decision. Whatever is not a clear yes denies.
fn read_decision(answer: Result<Value, String>) -> Decision {
    let deny = |feedback: Option<String>| Decision {
        feedback,
        ..Decision::from_kind(DecisionKind::Deny)
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(problem) => {
            tracing::warn!(problem, "the client did not ask for a permission");
            return deny(Some("the editor could not ask the user".to_owned()));
        }
    };
    match serde_json::from_value::<PermissionAnswer>(answer).map(|answer| answer.outcome) {
        Ok(PermissionOutcome::Selected { option_id }) => match DecisionKind::from_name(&option_id) {
            Some(kind) => Decision::from_kind(kind),
            None => deny(Some("the editor sent an unknown answer".to_owned())),
        },
        Ok(PermissionOutcome::Cancelled) => deny(None),
        Err(_) => deny(Some("the editor sent an unknown answer".to_owned())),
    }
}

/// Asks about a limit or asks a question of the agent, and passes the answer on.
pub(super) async fn ask_inquiry(state: &AcpContext, session: &SessionId, inquiry: &Inquiry) {
    let answer = if ClientFacts::has(&state.facts.shows_forms) {
        let form = match &inquiry.subject {
            RequestSubject::Limit(limit) => limit_form(limit),
            RequestSubject::Question(question) => question_form(question),
        };
        let mut params = form;
        params["sessionId"] = session.as_str().into();
        params["mode"] = "form".into();
        if let Some(call) = inquiry.tool_call() {
            params["toolCallId"] = call.as_str().into();
        }
        let answer = state.requests.send("elicitation/create", params).wait().await;
        read_form(inquiry, answer)
    } else {
        InquiryAnswer::Reply(inquiry.default_reply())
    };
    let sent = send_answer(state, session, inquiry, answer).await;
    if sent.is_err() {
        // An answer that does not fit counts as none.
        let default = InquiryAnswer::Reply(inquiry.default_reply());
        let _ = send_answer(state, session, inquiry, default).await;
    }
}

async fn send_answer(
    state: &AcpContext,
    session: &SessionId,
    inquiry: &Inquiry,
    answer: InquiryAnswer,
) -> Result<(), CommandError> {
    let inquiry = inquiry.id.clone();
    let command = |reply| SessionCommand::Answer {
        inquiry,
        answer,
        reply,
    };
    state.sessions.send_request(session, command).await
}

fn limit_form(limit: &LimitReached) -> Value {
    let properties = match limit.limit {
        LimitName::UnknownPrice => json!({RAISE: {
            "type": "string", "title": "Continue without the limit?",
            "oneOf": [{"const": CONTINUE, "title": "Continue"}, {"const": "stop", "title": "Stop"}],
        }}),
        name => json!({RAISE: {
            "type": "number", "minimum": 0,
            "title": format!("Raise the limit ({}) by", name.display_name()),
            "description": "Decline to stop here.",
        }}),
    };
    json!({
        "message": limit.message,
        "requestedSchema": {"type": "object", "properties": properties, "required": [RAISE]},
    })
}

fn question_form(question: &AgentQuestion) -> Value {
    let mut properties = Map::new();
    for field in &question.fields {
        properties.insert(field.name.clone(), field_schema(field));
    }
    let required: Vec<&str> = question
        .fields
        .iter()
        .filter(|field| field.required)
        .map(|field| field.name.as_str())
        .collect();
    let message = match &question.detail {
        Some(detail) => format!("{}\n\n{detail}", question.text),
        None => question.text.clone(),
    };
    json!({
        "message": updates::text_block(&message)["text"],
        "requestedSchema": {"type": "object", "properties": properties, "required": required},
    })
}

fn field_schema(field: &QuestionField) -> Value {
    let choices: Vec<Value> = field
        .choices
        .iter()
        .map(|choice| json!({"const": choice.value, "title": choice.label}))
        .collect();
    let mut schema = if choices.is_empty() || field.free {
        // A form has no field with choices and free text, so the choices are named in the description.
        let mut schema = json!({"type": "string"});
        let labels: Vec<&str> = field.choices.iter().map(|choice| choice.value.as_str()).collect();
        if !labels.is_empty() {
            schema["description"] = format!("{}, or your own text", labels.join(", ")).into();
        }
        schema
    } else if field.several {
        json!({"type": "array", "items": {"anyOf": choices}})
    } else {
        json!({"type": "string", "oneOf": choices})
    };
    if !field.label.is_empty() {
        schema["title"] = field.label.as_str().into();
    }
    schema
}

fn read_form(inquiry: &Inquiry, answer: Result<Value, String>) -> InquiryAnswer {
    let default = || InquiryAnswer::Reply(inquiry.default_reply());
    let Some(Ok(FormAnswer { action, content })) = answer.ok().map(serde_json::from_value) else {
        return default();
    };
    let Some(content) = content.filter(|_| action == "accept") else {
        return default();
    };
    match &inquiry.subject {
        RequestSubject::Limit(_) => match content.get(RAISE) {
            Some(Value::String(choice)) if choice == CONTINUE => InquiryAnswer::Reply(InquiryReply::Accept),
            Some(Value::Number(by)) => InquiryAnswer::RaiseBy(by.as_f64().unwrap_or(0.0)),
            _ => default(),
        },
        RequestSubject::Question(_) => {
            let answers: Answers = content
                .into_iter()
                .map(|(name, value)| (name, to_texts(value)))
                .collect();
            let given = answers.into_iter().filter(|(_, values)| !values.is_empty());
            InquiryAnswer::Reply(InquiryReply::Answers(given.collect::<BTreeMap<_, _>>()))
        }
    }
}

fn to_texts(value: Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.into_iter().flat_map(to_texts).collect(),
        Value::Null => Vec::new(),
        other => vec![other.to_string()],
    }
}
