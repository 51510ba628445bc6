//! Asks the user what an MCP server wants to know during a call, with the question mechanism of `ask_user`.
//!
//! The question names the server and its fields. Nothing answers it but the user: no rule, no default mode, no model.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::context::ask_withdrawing;
use super::progress::ToolProgress;
use super::{ToolContext, UserPrompt};
use crate::base::text::{one_line, reveal_hidden_characters};
use crate::domain::user_request::CHOICE_FIELD;
use crate::domain::{AgentQuestion, FieldChoice, FieldType, InquiryReply, QuestionField};
use crate::mcp::{
    Elicitation, ElicitationAnswer, ElicitationRequest, FieldKind, FieldOption, Form, FormField, Requested,
};

/// How often a form whose answers do not fit is asked again.
const MAX_REPEATS: usize = 2;
/// The longest message of a server in a warning, in characters.
const MAX_MESSAGE: usize = 200;
/// What is said of a field whose name looks like that of a secret.
const SECRET: &str = "looks like a secret: it is sent to the server and stays in this session's history";
/// The answer that accepts.
const ACCEPT: &str = "accept";
/// The answer that declines.
const DECLINE: &str = "decline";

/// Answers what the server asks during a call. `call` is the name of the tool.
pub(super) async fn answer_elicitation(cx: &ToolContext, call: &str, request: ElicitationRequest) {
    let ElicitationRequest {
        elicitation,
        is_of_this_session,
        mut reply,
    } = request;
    let source = QuestionSource {
        call,
        is_of_this_session,
    };
    let answer = tokio::select! { biased;
        // The server has given up.
        () = reply.closed() => return,
        answer = ask(cx.asker.as_ref(), source, &elicitation) => answer,
    };
    let answer = match answer {
        Ok(answer) => answer,
        Err(_) if cx.cancel.is_cancelled() => ElicitationAnswer::Cancel,
        Err(unanswered) => {
            let (warning, answer) = unanswered.into_warning(server_of(call), &elicitation.message);
            // Without a receiver the turn has ended.
            let _ = cx.send_progress(warning).await;
            answer
        }
    };
    // The server may have given up meanwhile.
    let _ = reply.send(answer);
}

/// What the server asks about.
#[derive(Clone, Copy)]
struct QuestionSource<'a> {
    /// The name of the called tool, with its server.
    call: &'a str,
    /// `false` if it may be a call of another session.
    is_of_this_session: bool,
}

impl QuestionSource<'_> {
    fn describe(self) -> String {
        let call = self.call;
        if self.is_of_this_session {
            format!("It asks during a call of {call}.")
        } else {
            format!(
                "It asks during a call of {call} or during one of another session, which uses this server too."
            )
        }
    }
}

/// Why a question has no answer, or not the whole one.
#[derive(Debug, PartialEq)]
enum Unanswered {
    /// The turn was canceled, or the client takes no questions.
    Nobody,
    /// Some answers did not fit.
    Unfit {
        /// The reasons.
        problems: String,
        /// The values that fit; `None` if the server needs others.
        rest: Option<serde_json::Map<String, Value>>,
    },
}

impl Unanswered {
    /// Returns what the person learns, and what the server gets.
    fn into_warning(self, server: &str, message: &str) -> (ToolProgress, ElicitationAnswer) {
        match self {
            Self::Nobody => {
                let message = one_line(&reveal_hidden_characters(message), MAX_MESSAGE);
                let warning = ToolProgress::QuestionUnheard {
                    server: server.to_owned(),
                    message: format!(
                        "MCP server {server} asked a question that was declined, because nobody can answer it here: \
                         {message}"
                    ),
                };
                (warning, ElicitationAnswer::Decline)
            }
            Self::Unfit { problems, rest } => {
                let outcome = match rest {
                    Some(_) => "answered without the fields that",
                    None => "declined, because the answers",
                };
                let warning = format!(
                    "the question of MCP server {server} was {outcome} did not fit {} times: {problems}",
                    MAX_REPEATS + 1
                );
                let answer = rest.map_or(ElicitationAnswer::Decline, |rest| {
                    ElicitationAnswer::Accept(Some(rest))
                });
                (ToolProgress::QuestionDeclined(warning), answer)
            }
        }
    }
}

async fn ask(
    asker: &dyn UserPrompt,
    source: QuestionSource<'_>,
    elicitation: &Elicitation,
) -> Result<ElicitationAnswer, Unanswered> {
    match &elicitation.requested {
        Requested::Visit(url) => {
            let question = build_visit(source, &elicitation.message, url.as_str());
            Ok(
                match ask_withdrawing(asker, question).await.ok_or(Unanswered::Nobody)? {
                    InquiryReply::Answers(answers) if is_accepted(&answers) => {
                        ElicitationAnswer::Accept(None)
                    }
                    _ => ElicitationAnswer::Decline,
                },
            )
        }
        Requested::Form(form) => ask_form(asker, source, &elicitation.message, form).await,
    }
}

async fn ask_form(
    asker: &dyn UserPrompt,
    source: QuestionSource<'_>,
    message: &str,
    form: &Form,
) -> Result<ElicitationAnswer, Unanswered> {
    let (mut answers, mut problems) = (BTreeMap::new(), BTreeMap::new());
    for _ in 0..=MAX_REPEATS {
        let question = build_form(source, message, form, &problems);
        let reply = ask_withdrawing(asker, question).await;
        let InquiryReply::Answers(given) = reply.ok_or(Unanswered::Nobody)? else {
            return Ok(ElicitationAnswer::Decline);
        };
        // A form without fields only asks for consent.
        if form.fields.is_empty() && !is_accepted(&given) {
            return Ok(ElicitationAnswer::Decline);
        }
        answers.retain(|name, _| !problems.contains_key(name));
        answers.extend(given);
        match form.to_values(&answers) {
            Ok(values) => return Ok(ElicitationAnswer::Accept(Some(values))),
            Err(wrong) => problems = wrong,
        }
    }
    answers.retain(|name, _| !problems.contains_key(name));
    Err(Unanswered::Unfit {
        problems: describe_problems(&problems).join("; "),
        rest: form.to_values(&answers).ok(),
    })
}

fn describe_problems(problems: &BTreeMap<String, String>) -> Vec<String> {
    let problems = problems.iter();
    problems
        .map(|(name, problem)| format!("{name}: {problem}"))
        .collect()
}

fn is_accepted(answers: &BTreeMap<String, Vec<String>>) -> bool {
    let chosen = answers.get(CHOICE_FIELD).and_then(|values| values.first());
    chosen.is_some_and(|chosen| chosen == ACCEPT)
}

/// Returns the server of a tool.
pub(super) fn server_of(call: &str) -> &str {
    call.split_once('/').map_or(call, |(server, _)| server)
}

fn build_visit(source: QuestionSource<'_>, message: &str, url: &str) -> AgentQuestion {
    let question = AgentQuestion::with_choices(
        format!(
            "The MCP server {} asks you to open an address: {message}",
            server_of(source.call)
        ),
        Some(format!(
            "{url}\n{} agentls does not open the address, and does not see what you enter there. Open it only if you \
             know it.",
            source.describe()
        )),
        &[(ACCEPT, "I have opened it"), (DECLINE, "Decline")],
    );
    AgentQuestion {
        url: Some(url.to_owned()),
        ..question
    }
}

/// Asks for all fields, or only for those whose answers have problems. Belongs to no call: a call that was interrupted
/// must not run again for its question.
fn build_form(
    source: QuestionSource<'_>,
    message: &str,
    form: &Form,
    problems: &BTreeMap<String, String>,
) -> AgentQuestion {
    let text = format!("The MCP server {} asks: {message}", server_of(source.call));
    let sent = format!("{} Your answers go to the server.", source.describe());
    let mut detail = describe_problems(problems);
    detail.push(sent);
    let detail = detail.join("\n");
    if form.fields.is_empty() {
        return AgentQuestion::with_choices(text, Some(detail), &[(ACCEPT, "Accept"), (DECLINE, "Decline")]);
    }
    let fields = form.fields.iter();
    let fields = fields.filter(|field| problems.is_empty() || problems.contains_key(&field.name));
    AgentQuestion {
        tool_call: None,
        text,
        detail: Some(detail),
        fields: fields.map(build_field).collect(),
        url: None,
    }
}

fn build_field(field: &FormField) -> QuestionField {
    let choices: Vec<FieldChoice> = match &field.kind {
        FieldKind::Text { .. } | FieldKind::Number { .. } => Vec::new(),
        FieldKind::YesNo => vec![build_choice("true", "Yes"), build_choice("false", "No")],
        FieldKind::Choice(options) | FieldKind::Choices { options, .. } => options
            .iter()
            .map(|FieldOption { value, label }| build_choice(value, label))
            .collect(),
    };
    QuestionField {
        name: field.name.clone(),
        label: build_label(field),
        choices,
        several: matches!(field.kind, FieldKind::Choices { .. }),
        free: false,
        // An empty answer stands for the default.
        required: field.is_required && field.default.is_none(),
        value_type: match &field.kind {
            FieldKind::Number { is_integer: true, .. } => Some(FieldType::Integer),
            FieldKind::Number { .. } => Some(FieldType::Number),
            FieldKind::YesNo => Some(FieldType::Boolean),
            FieldKind::Text { .. } | FieldKind::Choice(_) | FieldKind::Choices { .. } => None,
        },
        default: match &field.default {
            None => Vec::new(),
            Some(Value::Array(values)) => values.iter().map(to_answer).collect(),
            Some(value) => vec![to_answer(value)],
        },
        schema: Some(Arc::new(build_schema(field))),
    }
}

/// Returns what a JSON Schema says of a field besides its type and its choices.
fn build_schema(field: &FormField) -> Value {
    let mut schema = serde_json::Map::new();
    let mut add = |keyword: &str, value: Option<Value>| {
        schema.extend(value.map(|value| (keyword.to_owned(), value)));
    };
    let title = field.title.as_deref().unwrap_or(&field.name);
    add("title", Some(title.into()));
    let secret = field.looks_secret().then_some(SECRET);
    let description: Vec<&str> = field.description.as_deref().into_iter().chain(secret).collect();
    add(
        "description",
        (!description.is_empty()).then(|| description.join("; ").into()),
    );
    let least = |min: u64| (min > 0).then(|| min.into());
    let most = |max: u64| (max <= u64::from(u32::MAX)).then(|| max.into());
    match &field.kind {
        FieldKind::Text {
            min,
            max,
            format,
            pattern,
        } => {
            add("pattern", pattern.as_deref().map(Value::from));
            add("minLength", least(*min));
            add("maxLength", most(*max));
            add("format", format.map(|format| format.name().into()));
        }
        FieldKind::Number { min, max, is_integer } => {
            // Clients expect whole bounds of whole numbers.
            let to_bound = |bound: f64, whole: f64| {
                if *is_integer {
                    Value::from(whole as i64)
                } else {
                    Value::from(bound)
                }
            };
            add("minimum", min.map(|min| to_bound(min, min.ceil())));
            add("maximum", max.map(|max| to_bound(max, max.floor())));
        }
        FieldKind::Choices { min, max, options } => {
            add("minItems", least(*min));
            add("maxItems", most(*max).filter(|_| *max < options.len() as u64));
        }
        FieldKind::YesNo | FieldKind::Choice(_) => {}
    }
    Value::Object(schema)
}

fn to_answer(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn build_choice(value: &str, label: &str) -> FieldChoice {
    FieldChoice {
        value: value.to_owned(),
        label: label.to_owned(),
    }
}

/// Describes a field: its title, its name, what it is for, and which values it takes.
fn build_label(field: &FormField) -> String {
    let mut label = match &field.title {
        Some(title) if *title != field.name => format!("{title} [{}]", field.name),
        _ => field.name.clone(),
    };
    if let Some(description) = &field.description {
        label.push_str(&format!(": {description}"));
    }
    let mut notes: Vec<String> = field.describe_values().into_iter().collect();
    match &field.default {
        Some(default) => notes.push(format!("default: {}", to_answer(default))),
        None if !field.is_required => notes.push("optional".to_owned()),
        None => {}
    }
    if field.looks_secret() {
        notes.push(SECRET.to_owned());
    }
    if notes.is_empty() {
        label
    } else {
        format!("{label} ({})", notes.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::future::BoxFuture;
    use serde_json::json;

    use super::*;

    /// A user who gives these answers in turn, and none after them.
    struct Person {
        replies: Mutex<Vec<Value>>,
        questions: Mutex<Vec<AgentQuestion>>,
    }

    impl UserPrompt for Person {
        fn request_reply(&self, question: AgentQuestion) -> BoxFuture<'static, Option<InquiryReply>> {
            self.questions.lock().unwrap().push(question);
            let reply = self.replies.lock().unwrap().pop();
            Box::pin(async move {
                let reply = reply?;
                Some(match serde_json::from_value(reply) {
                    Ok(answers) => InquiryReply::Answers(answers),
                    Err(_) => InquiryReply::Dismissed,
                })
            })
        }
    }

    async fn ask_person(
        params: Value,
        replies: &[Value],
    ) -> (Result<ElicitationAnswer, Unanswered>, Vec<AgentQuestion>) {
        let person = Person {
            replies: Mutex::new(replies.iter().rev().cloned().collect()),
            questions: Mutex::default(),
        };
        let elicitation = Elicitation::read(&params, None).unwrap();
        let source = QuestionSource {
            call: "peer/echo",
            is_of_this_session: false,
        };
        let answer = ask(&person, source, &elicitation).await;
        (answer, person.questions.into_inner().unwrap())
    }

    fn form() -> Value {
        json!({"message": "Who are you?", "requestedSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "title": "Your name", "minLength": 2, "maxLength": 20},
                "agree": {"type": "boolean", "default": false},
                "password": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            },
            "required": ["name"],
        }})
    }

    #[tokio::test]
    async fn a_form_names_the_server_and_its_fields() {
        let (answer, questions) = ask_person(form(), &[json!({"name": ["Ada"], "tags": ["a", "b"]})]).await;
        let Ok(ElicitationAnswer::Accept(Some(values))) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(
            Value::Object(values),
            json!({"name": "Ada", "agree": false, "tags": ["a", "b"]})
        );
        let question = &questions[0];
        assert_eq!(question.text, "The MCP server peer asks: Who are you?");
        assert!(question.detail.as_ref().unwrap().contains("a call of peer/echo"));
        assert_eq!(question.tool_call, None);
        let labels: Vec<&str> = question.fields.iter().map(|field| field.label.as_str()).collect();
        assert_eq!(
            labels,
            [
                "Your name [name] (2 to 20 characters)",
                "agree (default: false)",
                "password (optional; looks like a secret: it is sent to the server and stays in this session's history)",
                "tags (optional)"
            ]
        );
        let required: Vec<bool> = question.fields.iter().map(|field| field.required).collect();
        assert_eq!(required, [true, false, false, false]);
        assert!(question.fields[3].several);
        let agree = &question.fields[1];
        assert_eq!(
            (agree.value_type, &*agree.default),
            (Some(FieldType::Boolean), &["false".to_owned()][..])
        );
    }

    #[tokio::test]
    async fn only_fields_whose_answers_do_not_fit_are_asked_again_a_few_times() {
        let bad = json!({"name": ["A"]});
        let mixed = json!({"name": ["A"], "tags": ["a"]});
        let good = json!({"name": ["Ada"]});
        let (answer, questions) = ask_person(form(), &[mixed, good]).await;
        let Ok(ElicitationAnswer::Accept(Some(values))) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(
            Value::Object(values),
            json!({"name": "Ada", "agree": false, "tags": ["a"]})
        );
        let names: Vec<&str> = questions[1]
            .fields
            .iter()
            .map(|field| field.name.as_str())
            .collect();
        assert_eq!(names, ["name"]);
        let detail = questions[1].detail.as_ref().unwrap();
        assert!(
            detail.starts_with("name: must be 2 to 20 characters\n"),
            "{detail}"
        );
        let (answer, questions) = ask_person(form(), &vec![bad; 5]).await;
        let unfit = Unanswered::Unfit {
            problems: "name: must be 2 to 20 characters".to_owned(),
            rest: None,
        };
        assert_eq!((answer, questions.len()), (Err(unfit), 3));
    }

    #[tokio::test]
    async fn what_fits_is_sent_without_an_optional_field_that_never_does() {
        let first = json!({"name": ["Ada"], "tags": ["c"]});
        let again = json!({"tags": ["c"]});
        let (answer, _) = ask_person(form(), &[first, again.clone(), again]).await;
        let (warning, answer) = answer.unwrap_err().into_warning("peer", "Who?");
        let ToolProgress::QuestionDeclined(warning) = warning else {
            panic!("{warning:?}");
        };
        assert!(warning.contains("was answered without the fields"), "{warning}");
        let ElicitationAnswer::Accept(Some(values)) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(Value::Object(values), json!({"name": "Ada", "agree": false}));
    }

    #[tokio::test]
    async fn a_field_keeps_what_its_schema_says() {
        let params = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {
            "name": {"type": "string", "title": "Your name", "minLength": 2, "maxLength": 20},
            "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
            "day": {"type": "string", "format": "date", "description": "of birth"},
            "at": {"type": "string", "format": "date-time"},
            "age": {"type": "integer", "minimum": 0.5, "maximum": 150},
            "share": {"type": "number", "minimum": 0.5},
            "pin": {"type": "string"},
            "tags": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string", "enum": ["a", "b", "c"]}},
        }}});
        let (_, questions) = ask_person(params, &[]).await;
        let schemas = questions[0].fields.iter();
        let schemas: BTreeMap<&str, &Value> = schemas
            .map(|field| (field.name.as_str(), &**field.schema.as_ref().unwrap()))
            .collect();
        assert_eq!(
            json!(schemas),
            json!({
                "name": {"title": "Your name", "minLength": 2, "maxLength": 20},
                "code": {"title": "code", "pattern": "^[A-Z]{3}$", "maxLength": 10_000},
                "day": {"title": "day", "format": "date", "description": "of birth", "maxLength": 10_000},
                "at": {"title": "at", "format": "date-time", "maxLength": 10_000},
                "age": {"title": "age", "minimum": 1, "maximum": 150},
                "share": {"title": "share", "minimum": 0.5},
                "pin": {"title": "pin", "description": SECRET, "maxLength": 10_000},
                "tags": {"title": "tags", "minItems": 1, "maxItems": 2},
            })
        );
    }

    #[tokio::test]
    async fn only_the_user_accepts() {
        let (dismissed, _) = ask_person(form(), &[json!("dismissed")]).await;
        assert_eq!(dismissed, Ok(ElicitationAnswer::Decline));
        let (nobody, _) = ask_person(form(), &[]).await;
        assert_eq!(nobody, Err(Unanswered::Nobody));
        let empty = json!({"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}});
        for (choice, expected) in [
            ("accept", ElicitationAnswer::Accept(Some(serde_json::Map::new()))),
            ("decline", ElicitationAnswer::Decline),
        ] {
            let (answer, _) = ask_person(empty.clone(), &[json!({"choice": [choice]})]).await;
            assert_eq!(answer, Ok(expected));
        }
    }

    #[tokio::test]
    async fn an_address_is_shown_and_not_opened() {
        let params = json!({"mode": "url", "message": "Sign in.", "url": "https://peer.example/x?y=1"});
        let (answer, questions) = ask_person(params.clone(), &[json!({"choice": ["accept"]})]).await;
        assert_eq!(answer, Ok(ElicitationAnswer::Accept(None)));
        assert!(
            questions[0]
                .detail
                .as_ref()
                .unwrap()
                .starts_with("https://peer.example/x?y=1\n")
        );
        assert!(
            questions[0]
                .text
                .contains("peer asks you to open an address: Sign in.")
        );
        let (answer, _) = ask_person(params, &[json!({"choice": ["decline"]})]).await;
        assert_eq!(answer, Ok(ElicitationAnswer::Decline));
    }
}
