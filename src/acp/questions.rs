//! Questions to the client's user: approvals as `session/request_permission`, limits and questions as forms.
//!
//! Fail closed: an answer that is missing, malformed or unknown denies the call, or stops at the limit. A form whose
//! answers do not fit is shown again, but not without end. Dropping the
//! future of a question withdraws it from the client.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::client::ClientFacts;
use super::context::AcpContext;
use super::params::{FormAnswer, PermissionAnswer, PermissionOutcome};
use super::sink::{ClientQuestion, QuestionSubject};
use super::updates::{self, Notice};
use crate::base::{CancellationToken, uri};
use crate::domain::{
    AgentQuestion, Answers, Approval, Decision, DecisionKind, FileLocation, Inquiry, InquiryReply, LimitName,
    LimitReached, QuestionField, RequestSubject, SessionId, ToolCallId,
};
use crate::session::{CommandError, InquiryAnswer, SessionCommand, describe_rules, narrow_to_file};

/// The field of a limit's form.
const RAISE: &str = "raise_by";
/// How often a form whose answers do not fit is shown again.
const MAX_REPEATS: usize = 2;
/// The choice to continue, in the form of an unknown price.
const CONTINUE: &str = "continue";

/// The parameters of `elicitation/create`. A type of its own, because a [`Value`] sorts the fields by name.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FormRequest<'a> {
    session_id: &'a str,
    mode: &'static str,
    message: &'a Value,
    requested_schema: FormSchema<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
struct FormSchema<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    properties: FormFields<'a>,
    required: Vec<&'a str>,
}

/// The schemas of a form's fields by name, in order.
struct FormFields<'a>(Vec<(Cow<'a, str>, Value)>);

impl Serialize for FormFields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, schema)| (name, schema)))
    }
}

/// Asks a question and passes the answer on. Returns whether a person has answered, which a dismissal is not.
pub(super) async fn ask(
    state: &AcpContext,
    question: &ClientQuestion,
    dismissed: &CancellationToken,
) -> bool {
    let session = &question.session;
    let ask = async {
        match &question.subject {
            QuestionSubject::Approval(approval, places) => {
                ask_permission(state, session, approval, places).await
            }
            QuestionSubject::Inquiry(inquiry) => ask_inquiry(state, session, inquiry).await,
        }
    };
    tokio::select! { biased;
        () = dismissed.cancelled() => {}
        by_person = ask => return by_person,
    }
    match &question.subject {
        QuestionSubject::Approval(approval, _) => deny(state, session, approval).await,
        QuestionSubject::Inquiry(inquiry) => decline(state, session, inquiry).await,
    }
    false
}

/// Asks for a permission and passes the decision on. Returns whether a person has decided.
async fn ask_permission(
    state: &AcpContext,
    session: &SessionId,
    approval: &Approval,
    places: &[FileLocation],
) -> bool {
    let options = state.feeds.options(session);
    let mut content = Vec::new();
    if let Some(diff) = &approval.diff {
        content.extend(updates::diff_content(diff, places, &options.cwd));
    }
    let subject = approval
        .input
        .get("command")
        .or_else(|| approval.input.get("url"));
    let has_input = approval.input.as_object().is_some_and(|input| !input.is_empty());
    match subject.and_then(Value::as_str) {
        Some(subject) => content.push(updates::code_content("", subject)),
        None if approval.diff.is_none() && has_input => {
            content.push(updates::code_content("json", &format!("{:#}", approval.input)));
        }
        None => {}
    }
    let mut about = format!("{} ({})", approval.describe_reasons(), approval.cwd);
    if let Some(sandbox) = &approval.sandbox {
        about = format!("{about}\n{sandbox}");
    }
    content.push(updates::code_content("", &about));
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
    options.name_paths(&mut call);
    let rule = find_offered_rule(approval, places);
    let params = json!({
        "sessionId": session.as_str(),
        "toolCall": call,
        "options": permission_options(rule.as_deref()),
        "_meta": {"agentls": {
            "approvalId": approval.id.as_str(), "risk": approval.risk.name(), "why": approval.describe_reasons(),
            "rule": rule,
        }},
    });
    let answer = state
        .requests
        .send("session/request_permission", &params)
        .wait()
        .await;
    let choice = read_choice(answer);
    let by_person = choice.is_ok();
    let decision = choice.map_or_else(
        |feedback| Decision {
            feedback,
            ..Decision::from_kind(DecisionKind::Deny)
        },
        |kind| Decision {
            rule: rule.clone().filter(|_| kind == DecisionKind::AllowSession),
            ..Decision::from_kind(kind)
        },
    );
    match send_decision(state, session, approval, decision).await {
        // A settled one was canceled or decided by a rule meanwhile.
        Ok(()) | Err(CommandError::UnknownApproval(_)) => {}
        Err(error) => {
            tracing::warn!(%error, "a decision was not accepted, so the call is denied");
            deny(state, session, approval).await;
        }
    }
    by_person
}

/// Denies a call, unless it is decided.
async fn deny(state: &AcpContext, session: &SessionId, approval: &Approval) {
    let deny = Decision::from_kind(DecisionKind::Deny);
    let _ = send_decision(state, session, approval, deny).await;
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

/// Returns the decisions that the user can choose from: one of each kind.
///
/// Some clients have one key for all options of a kind, and take the first of them, or the last. So "always" is the
/// decision that ends with the session.
fn permission_options(rule: Option<&str>) -> Value {
    let option = |kind: DecisionKind, name: &str, icon: &str| json!({"optionId": option_id(kind), "name": name, "kind": icon});
    let mut options = vec![option(DecisionKind::Allow, "Allow", "allow_once")];
    if let Some(rule) = rule {
        let covered = describe_rules(rule);
        options.push(option(
            DecisionKind::AllowSession,
            &format!("Allow {covered}, for this session"),
            "allow_always",
        ));
    }
    options.push(option(DecisionKind::Deny, "Deny", "reject_once"));
    options.into()
}

/// Returns the rule that "always" adds: for the file that the call changes instead of its folder, since nobody sees more
/// of it here than a button. The arguments do not say which file that is: a path may be a link.
fn find_offered_rule(approval: &Approval, places: &[FileLocation]) -> Option<String> {
    let rule = approval.rule.as_deref()?;
    let path = match places {
        [first, others @ ..] if others.iter().all(|other| other.uri == first.uri) => {
            uri::path_of(&first.uri).ok()
        }
        _ => None,
    };
    let narrow = path.and_then(|path| narrow_to_file(rule, &path));
    Some(narrow.unwrap_or_else(|| rule.to_owned()))
}

/// Returns the id of an option; `None` if the decision is not offered.
fn option_id(kind: DecisionKind) -> Option<&'static str> {
    match kind {
        DecisionKind::Allow => Some("allow"),
        DecisionKind::AllowSession => Some("allow_always"),
        DecisionKind::Deny => Some("deny"),
        DecisionKind::AllowAlways => None,
    }
}

/// Returns the decision that a person has chosen, or else the feedback of a denial.
fn read_choice(answer: Result<Value, String>) -> Result<DecisionKind, Option<String>> {
    let answer = answer.map_err(|problem| {
        tracing::warn!(problem, "the client did not ask for a permission");
        Some("the editor could not ask the user".to_owned())
    })?;
    let unknown = || Some("the editor sent an unknown answer".to_owned());
    match serde_json::from_value::<PermissionAnswer>(answer).map(|answer| answer.outcome) {
        Ok(PermissionOutcome::Selected { option_id: chosen }) => DecisionKind::ALL
            .into_iter()
            .find(|kind| option_id(*kind) == Some(chosen.as_str()))
            .ok_or_else(unknown),
        Ok(PermissionOutcome::Cancelled) => Err(None),
        Err(_) => Err(unknown()),
    }
}

/// Asks about a limit or asks a question of the agent, and passes the answer on. Asks again if it does not fit. Returns
/// whether a person has answered.
async fn ask_inquiry(state: &AcpContext, session: &SessionId, inquiry: &Inquiry) -> bool {
    if let RequestSubject::Question(question) = &inquiry.subject
        && let Some(url) = &question.url
        && ClientFacts::has(&state.facts.opens_urls)
    {
        let answer = ask_to_visit(state, session, inquiry, question, url).await;
        let sent = send_answer(state, session, inquiry, answer).await;
        if let Err(error) = &sent {
            tracing::warn!(%error, "an answer was not accepted");
        }
        return sent.is_ok();
    }
    let mut given = Answers::new();
    let shows_forms = ClientFacts::has(&state.facts.shows_forms);
    let attempts = if shows_forms { MAX_REPEATS + 1 } else { 0 };
    let mut problem = (!shows_forms).then(|| "the editor shows no forms".to_owned());
    for _ in 0..attempts {
        let answer = ask_form(state, session, inquiry, &mut given, problem.as_deref()).await;
        match send_answer(state, session, inquiry, answer).await {
            Ok(()) => return true,
            Err(CommandError::BadReply(reason)) => problem = Some(reason),
            Err(error) => {
                tracing::warn!(%error, "an answer was not accepted, so it counts as none");
                problem = None;
                break;
            }
        }
    }
    let Some(problem) = problem else {
        decline(state, session, inquiry).await;
        return false;
    };
    let fitting = keep_fitting(inquiry, &given).filter(|_| attempts > 0);
    let title = match &fitting {
        Some(_) => {
            format!("A question was answered without the fields that did not fit {attempts} times: {problem}")
        }
        None if attempts == 0 => format!("A question counts as declined, because {problem}"),
        None => format!(
            "A question counts as declined, because the answers did not fit {attempts} times: {problem}"
        ),
    };
    let notice = Notice::new("warning", "question_declined", title);
    let shows_notices = ClientFacts::has(&state.facts.shows_notices);
    let update = notice.into_update(shows_notices, &format!("note_{}", inquiry.id));
    state.feeds.send(session, update);
    if let Some(fitting) = fitting {
        let answer = InquiryAnswer::Reply(InquiryReply::Answers(fitting));
        return send_answer(state, session, inquiry, answer).await.is_ok();
    }
    decline(state, session, inquiry).await;
    false
}

/// Returns the answers that fit, if there are some and the agent can do without the rest.
fn keep_fitting(inquiry: &Inquiry, given: &Answers) -> Option<Answers> {
    let RequestSubject::Question(question) = &inquiry.subject else {
        return None;
    };
    let fitting = question.fields.iter().filter(|field| fits(field, given));
    let fitting: Answers = fitting
        .filter_map(|field| given.get_key_value(&field.name))
        .map(|(name, values)| (name.clone(), values.clone()))
        .collect();
    (!fitting.is_empty() && question.find_answer_problem(&fitting).is_none()).then_some(fitting)
}

/// Gives the answer of somebody who does not answer, unless there is one.
async fn decline(state: &AcpContext, session: &SessionId, inquiry: &Inquiry) {
    let default = InquiryAnswer::Reply(inquiry.default_reply());
    let _ = send_answer(state, session, inquiry, default).await;
}

/// Asks the user to open an address, and returns whether they agree.
async fn ask_to_visit(
    state: &AcpContext,
    session: &SessionId,
    inquiry: &Inquiry,
    question: &AgentQuestion,
    url: &str,
) -> InquiryAnswer {
    let params = json!({
        "sessionId": session.as_str(), "mode": "url", "elicitationId": inquiry.id.as_str(), "url": url,
        "message": updates::text_block(&question.text)["text"],
    });
    let answer = state.requests.send("elicitation/create", &params).wait().await;
    // The first choice agrees.
    let field = question.fields.first();
    let choice =
        field.and_then(|field| Some((field.name.clone(), vec![field.choices.first()?.value.clone()])));
    InquiryAnswer::Reply(match choice {
        Some(choice) if answer.is_ok_and(|answer| answer["action"] == "accept") => {
            InquiryReply::Answers(Answers::from([choice]))
        }
        _ => inquiry.default_reply(),
    })
}

/// Shows a form, and returns its answer. `problem` is why an earlier answer does not fit; then the form has only the
/// fields that do not fit, and `given` has the others.
async fn ask_form(
    state: &AcpContext,
    session: &SessionId,
    inquiry: &Inquiry,
    given: &mut Answers,
    problem: Option<&str>,
) -> InquiryAnswer {
    let (text, schema) = match &inquiry.subject {
        RequestSubject::Limit(limit) => (limit.message.clone(), limit_schema(limit)),
        RequestSubject::Question(question) => {
            let is_shown = |field: &QuestionField| problem.is_none() || !fits(field, given);
            (question_text(question), question_schema(question, is_shown))
        }
    };
    let text = match problem {
        Some(problem) => format!("{problem}\n\n{text}"),
        None => text,
    };
    let params = FormRequest {
        session_id: session.as_str(),
        mode: "form",
        message: &updates::text_block(&text)["text"],
        requested_schema: schema,
        tool_call_id: inquiry.tool_call().map(ToolCallId::as_str),
    };
    let answer = match serde_json::value::to_raw_value(&params) {
        Ok(params) => state.requests.send("elicitation/create", &params).wait().await,
        Err(error) => Err(error.to_string()),
    };
    read_form(inquiry, answer, given)
}

/// Returns whether the answer to a field fits.
fn fits(field: &QuestionField, given: &Answers) -> bool {
    let values = given.get(&field.name).map_or(&[][..], Vec::as_slice);
    field.find_value_problem(values).is_none()
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

fn limit_schema(limit: &LimitReached) -> FormSchema<'static> {
    let field = match limit.limit {
        LimitName::UnknownPrice => json!({
            "type": "string", "title": "Continue without the limit?",
            "oneOf": [{"const": CONTINUE, "title": "Continue"}, {"const": "stop", "title": "Stop"}],
        }),
        name => json!({
            "type": if name.is_money() { "number" } else { "integer" },
            "minimum": if name.is_money() { 0.01 } else { 1.0 },
            "title": format!("Raise the limit ({}) by", name.display_name()),
            "description": "Decline to stop here.",
        }),
    };
    FormSchema {
        kind: "object",
        properties: FormFields(vec![(RAISE.into(), field)]),
        required: vec![RAISE],
    }
}

fn question_text(question: &AgentQuestion) -> String {
    match &question.detail {
        Some(detail) => format!("{}\n\n{detail}", question.text),
        None => question.text.clone(),
    }
}

/// Builds the form of a question. What is missing in both fields of [`own_text_name`] is asked for again.
fn question_schema(question: &AgentQuestion, is_shown: impl Fn(&QuestionField) -> bool) -> FormSchema<'_> {
    let mut properties = Vec::new();
    let mut required = Vec::new();
    for field in question.fields.iter().filter(|field| is_shown(field)) {
        properties.push((field.name.as_str().into(), field_schema(field)));
        if let Some(name) = own_text_name(question, field) {
            let schema = json!({"type": "string", "title": "Or in your own words"});
            properties.push((name.into(), schema));
        } else if field.required {
            required.push(field.name.as_str());
        }
    }
    FormSchema {
        kind: "object",
        properties: FormFields(properties),
        required,
    }
}

/// Returns the name of the second field of the form that a field with choices and free text needs: a form has no field
/// for both.
fn own_text_name(question: &AgentQuestion, field: &QuestionField) -> Option<String> {
    if !field.free || field.choices.is_empty() || field.value_type.is_some() {
        return None;
    }
    let mut name = format!("{}_text", field.name);
    while question.fields.iter().any(|other| other.name == name) {
        name.push('_');
    }
    Some(name)
}

fn field_schema(field: &QuestionField) -> Value {
    let choices: Vec<Value> = field
        .choices
        .iter()
        .map(|choice| json!({"const": choice.value, "title": choice.label}))
        .collect();
    let mut schema = if let Some(value_type) = field.value_type {
        json!({"type": value_type.name()})
    } else if choices.is_empty() {
        json!({"type": "string"})
    } else if field.several {
        json!({"type": "array", "items": {"anyOf": choices}})
    } else {
        json!({"type": "string", "oneOf": choices})
    };
    match field.schema.as_deref() {
        Some(Value::Object(more)) => {
            for (keyword, value) in more {
                schema[keyword] = value.clone();
            }
        }
        _ if field.label.is_empty() => {}
        _ => schema["title"] = field.label.as_str().into(),
    }
    if let Some(default) = default_value(field) {
        schema["default"] = default;
    }
    schema
}

fn default_value(field: &QuestionField) -> Option<Value> {
    let first = field.default.first()?;
    match field.value_type {
        None if field.several => Some(json!(field.default)),
        None => Some(json!(first)),
        Some(_) => serde_json::from_str(first).ok(),
    }
}

/// Reads the answer to a form. Answers to a question join those in `given` that fit.
fn read_form(inquiry: &Inquiry, answer: Result<Value, String>, given: &mut Answers) -> InquiryAnswer {
    let default = || InquiryAnswer::Reply(inquiry.default_reply());
    let Some(Ok(FormAnswer { action, content })) = answer.ok().map(serde_json::from_value) else {
        return default();
    };
    if action != "accept" {
        return default();
    }
    let content = content.unwrap_or_default();
    match &inquiry.subject {
        RequestSubject::Limit(_) => match content.get(RAISE) {
            Some(Value::String(choice)) if choice == CONTINUE => InquiryAnswer::Reply(InquiryReply::Accept),
            Some(Value::Number(by)) => InquiryAnswer::RaiseBy(by.as_f64().unwrap_or(0.0)),
            _ => default(),
        },
        RequestSubject::Question(question) => {
            // The user cannot do anything about a field that the form does not have, so it is ignored.
            for field in &question.fields {
                if !fits(field, given) {
                    given.remove(&field.name);
                }
                let mut values = content.get(&field.name).map(to_texts).unwrap_or_default();
                if let Some(name) = own_text_name(question, field) {
                    let own = content.get(&name).map(to_texts).unwrap_or_default();
                    let is_given = own.iter().any(|text| !text.trim().is_empty());
                    // Own words choose nothing, even if they are those of a choice.
                    let is_choice = |text: &str| field.choices.iter().any(|choice| choice.value == text);
                    let quote = |text: String| {
                        if is_choice(text.trim()) {
                            format!("{text:?}")
                        } else {
                            text
                        }
                    };
                    let own = own.into_iter().map(quote);
                    values.retain(|value| !value.trim().is_empty() && (field.several || !is_given));
                    values.extend(own.filter(|_| is_given));
                }
                if !values.is_empty() {
                    given.insert(field.name.clone(), values);
                }
            }
            InquiryAnswer::Reply(InquiryReply::Answers(given.clone()))
        }
    }
}

fn to_texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(to_texts).collect(),
        Value::Null => Vec::new(),
        other => vec![other.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_sent_in_their_order() {
        let fields = ["zone", "age", "name"].map(|name| QuestionField {
            name: name.to_owned(),
            free: true,
            required: name != "age",
            ..QuestionField::default()
        });
        let mut question = AgentQuestion::with_choices("Who?", None, &[]);
        question.fields = fields.into();
        let schema = serde_json::to_string(&question_schema(&question, |_| true)).unwrap();
        let text = r#"{"type":"string"}"#;
        assert_eq!(
            schema,
            format!(
                r#"{{"type":"object","properties":{{"zone":{text},"age":{text},"name":{text}}},"required":["zone","name"]}}"#
            )
        );
    }

    #[test]
    fn a_field_with_choices_and_free_text_is_two_fields_of_a_form() {
        let mut question = AgentQuestion::with_choices("Which?", None, &[("a", "Take A"), ("b", "Take B")]);
        question.fields[0].free = true;
        let choices = json!([{"const": "a", "title": "Take A"}, {"const": "b", "title": "Take B"}]);
        let own = json!({"type": "string", "title": "Or in your own words"});
        let schema = |question: &AgentQuestion| json!(question_schema(question, |_| true));
        let wanted = json!({"choice": {"type": "string", "oneOf": choices}, "choice_text": own});
        assert_eq!(
            schema(&question),
            json!({"type": "object", "properties": wanted, "required": []})
        );
        let read = |question: &AgentQuestion, content: Value| {
            let inquiry = Inquiry {
                id: "ask_1".into(),
                parent: None,
                subject: RequestSubject::Question(question.clone()),
            };
            let mut given = Answers::new();
            read_form(
                &inquiry,
                Ok(json!({"action": "accept", "content": content})),
                &mut given,
            );
            given.remove("choice").unwrap_or_default()
        };
        let cases = [
            (json!({"choice": "b"}), json!(["b"])),
            (json!({"choice": "b", "choice_text": " "}), json!(["b"])),
            (json!({"choice": "", "choice_text": "C"}), json!(["C"])),
            (json!({"choice": "b", "choice_text": "C"}), json!(["C"])),
            (json!({"choice": "b", "choice_text": "a"}), json!(["\"a\""])),
            (json!({"choice": "", "choice_text": ""}), json!([])),
            // From a client that has a field for both.
            (json!({"choice": "C"}), json!(["C"])),
        ];
        for (content, wanted) in cases {
            assert_eq!(json!(read(&question, content.clone())), wanted, "{content}");
        }
        question.fields[0].several = true;
        question.fields.push(QuestionField {
            name: "choice_text".to_owned(),
            ..QuestionField::default()
        });
        let properties = &schema(&question)["properties"];
        assert_eq!(
            properties["choice"],
            json!({"type": "array", "items": {"anyOf": choices}})
        );
        assert_eq!(properties["choice_text_"], own);
        let content = json!({"choice": ["a", "b"], "choice_text": "other", "choice_text_": "C"});
        assert_eq!(read(&question, content), ["a", "b", "C"]);
    }

    #[test]
    fn a_limit_cannot_be_raised_by_nothing() {
        for limit in LimitName::ALL
            .into_iter()
            .filter(|limit| *limit != LimitName::UnknownPrice)
        {
            let schema = json!(limit_schema(&LimitReached {
                limit,
                used: 2,
                most: 1,
                provider: None,
                model: None,
                message: String::new(),
            }));
            let least = schema["properties"][RAISE]["minimum"].as_f64().unwrap();
            assert!(limit.convert_to_amount(least) > 0, "{schema}");
        }
    }
}
