//! What MCP servers ask the user during a call: forms and addresses (R-MCP).

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Client, Id, Notification, World};
use crate::mcp::{call_tool, world_with};
use crate::mock_llm::Reply;

const ALLOW: &str = "[approvals]\nallow = [\"mcp:*\"]";

/// Returns a world whose server logs what arrives, and the path of the log.
fn logging_world() -> (World, std::path::PathBuf) {
    let world = World::new();
    let log = world.path("peer.log");
    world.configure(crate::harness::Config {
        tables: crate::mcp::peer_table(&["--log", log.to_str().unwrap()], ALLOW),
        ..crate::harness::Config::default()
    });
    (world, log)
}

/// A turn that calls a tool, which asks.
struct AskingTurn<'a> {
    world: &'a World,
    client: &'a Client,
    session: String,
    prompt: Id,
}

impl<'a> AskingTurn<'a> {
    fn start(world: &'a World, client: &'a Client, tool: &str, input: Value) -> Self {
        let session = client.session();
        world
            .mock()
            .push(Reply::tool(&format!("mcp__peer__{tool}"), input));
        Self {
            world,
            client,
            prompt: client.prompt(&session, "go"),
            session,
        }
    }

    fn question(&self) -> Arc<Notification> {
        self.client.next(&self.session, "agent/questionRequested")
    }

    fn answer(&self, question: &Notification, answers: Value) {
        let id = question.text("questionId");
        let _: Value = self.client.call(
            "agent/questionRespond",
            json!({"questionId": id, "answers": answers}),
        );
    }

    fn dismiss(&self, question: &Notification) {
        let id = question.text("questionId");
        let _: Value = self.client.call(
            "agent/questionRespond",
            json!({"questionId": id, "dismissed": true}),
        );
    }

    /// Returns what the server got, after the turn.
    fn result(self) -> Value {
        self.client.prompt_result(&self.prompt);
        let request = self.world.wait_for_request(self.world.requests() - 1);
        let content = &request.messages().last().unwrap()["content"][0]["content"];
        let text = content.as_str().or_else(|| content[0]["text"].as_str()).unwrap();
        serde_json::from_str(text).unwrap_or_else(|_| json!(text))
    }
}

#[test]
fn a_form_is_asked_and_its_values_reach_the_server() {
    let world = world_with(&[], ALLOW);
    let client = world.start_asking();
    let turn = AskingTurn::start(&world, &client, "elicit_form", json!({}));
    let question = turn.question();
    assert_eq!(question.text("text"), "The MCP server peer asks: Who are you?");
    assert!(
        question.text("detail").contains("a call of peer/elicit_form"),
        "{}",
        question.params
    );
    let fields = question.params["fields"].as_array().unwrap();
    let names: Vec<&str> = fields
        .iter()
        .map(|field| field["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["name", "email", "age", "share", "agree", "color", "size", "tags"]
    );
    assert_eq!(
        fields[0]["label"],
        "Your name [name]: As it should appear. (2 to 20 characters)"
    );
    // Clients that show forms need no words of the label.
    let name =
        json!({"title": "Your name", "description": "As it should appear.", "minLength": 2, "maxLength": 20});
    assert_eq!(fields[0]["schema"], name);
    let age = json!({"title": "age", "type": "integer", "minimum": 0, "maximum": 150});
    assert_eq!(fields[2]["schema"], age);
    assert_eq!(fields[4]["default"], json!(["false"]));
    assert_eq!(fields[5]["choices"][0], json!({"value": "red", "label": "Red"}));
    assert_eq!(fields[7]["several"], true);
    turn.answer(
        &question,
        json!({"name": ["Ada"], "age": ["36"], "color": ["green"], "share": ["0.5"], "size": ["l"], "tags": ["a", "c"]}),
    );
    assert_eq!(
        turn.result()["result"],
        json!({"action": "accept", "content": {
            "name": "Ada", "age": 36, "agree": false, "color": "green", "share": 0.5, "size": "l", "tags": ["a", "c"],
        }})
    );
}

#[test]
fn answers_that_do_not_fit_are_asked_again() {
    let world = world_with(&[], ALLOW);
    let client = world.start_asking();
    let turn = AskingTurn::start(&world, &client, "elicit_form", json!({}));
    let first = turn.question();
    turn.answer(&first, json!({"name": ["A"], "age": ["old"], "color": ["green"]}));
    let second = client.next_matching(&turn.session, "agent/questionRequested", |question| {
        question.text("questionId") != first.text("questionId")
    });
    let detail = second.text("detail").to_owned();
    assert!(
        detail.contains("name: must be 2 to 20 characters") && detail.contains("age: must be a whole number"),
        "{detail}"
    );
    let fields = second.params["fields"].as_array().unwrap();
    let names: Vec<&Value> = fields.iter().map(|field| &field["name"]).collect();
    assert_eq!(names, ["name", "age"]);
    turn.answer(&second, json!({"name": ["Ada"]}));
    assert_eq!(
        turn.result()["result"],
        json!({"action": "accept", "content": {"name": "Ada", "agree": false, "color": "green"}})
    );
}

#[test]
fn answers_that_never_fit_decline_with_a_warning() {
    let world = world_with(&[], ALLOW);
    let client = world.start_asking();
    let turn = AskingTurn::start(&world, &client, "elicit_form", json!({}));
    let mut last = turn.question();
    for repeat in 0..3 {
        turn.answer(&last, json!({"name": ["A"]}));
        if repeat < 2 {
            let before = last.text("questionId").to_owned();
            last = client.next_matching(&turn.session, "agent/questionRequested", |question| {
                question.text("questionId") != before
            });
        }
    }
    let session = turn.session.clone();
    assert_eq!(turn.result()["result"], json!({"action": "decline"}));
    let warnings = client.all(&session, "agent/warning");
    let message = warnings[0].text("message");
    assert!(
        message.contains("did not fit 3 times: name: must be 2 to 20 characters"),
        "{message}"
    );
}

#[test]
fn nobody_to_ask_declines_and_a_bad_form_is_refused() {
    let world = world_with(&[], ALLOW);
    let client = world.start();
    let session = client.session();
    for tool in ["elicit_form", "elicit_url"] {
        let declined = call_tool(&world, &client, &session, tool, json!({}));
        assert!(declined.contains("decline"), "{declined}");
    }
    let warnings = client.all(&session, "agent/warning");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    for warning in warnings {
        assert_eq!(warning.text("code"), "mcp_question_declined");
        let start = "MCP server peer asked a question that was declined, because nobody can answer it here: ";
        assert!(warning.text("message").starts_with(start), "{warning:?}");
    }
    // Once in a turn is enough.
    let declined = call_tool(&world, &client, &session, "elicit", json!({"times": 3}));
    assert_eq!(declined.matches("decline").count(), 3, "{declined}");
    assert_eq!(client.all(&session, "agent/warning").len(), 3);
    let nested = call_tool(&world, &client, &session, "elicit_bad_form", json!({}));
    assert!(
        nested.contains("-32602") && nested.contains("only string, number"),
        "{nested}"
    );
    let sampled = call_tool(&world, &client, &session, "sample", json!({}));
    assert!(
        sampled.contains("-32601") && sampled.contains("does not let this server ask their model"),
        "{sampled}"
    );
}

#[test]
fn an_address_is_shown_to_the_person() {
    let world = world_with(&[], ALLOW);
    let client = world.start_asking();
    let turn = AskingTurn::start(&world, &client, "elicit_url", json!({}));
    let question = turn.question();
    assert!(
        question
            .text("detail")
            .starts_with("https://peer.example/sign-in?id=1\n"),
        "{}",
        question.params
    );
    turn.answer(&question, json!({"choice": ["accept"]}));
    assert_eq!(turn.result()["result"], json!({"action": "accept"}));
    let turn = AskingTurn::start(
        &world,
        &client,
        "elicit_url",
        json!({"url": "file:///etc/passwd"}),
    );
    assert_eq!(turn.result()["error"]["code"], -32602);
}

#[test]
fn a_server_has_one_open_question_and_a_bounded_number() {
    let (world, log) = logging_world();
    let client = world.start_asking();
    let turn = AskingTurn::start(&world, &client, "elicit", json!({"times": 3, "together": true}));
    let question = turn.question();
    // The other two are refused while it is open.
    world.wait_until(|| {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.matches("another request of this server is open").count() == 2
    });
    turn.dismiss(&question);
    let answers = turn.result();
    let refused = answers
        .as_array()
        .unwrap()
        .iter()
        .filter(|answer| answer["error"].is_object());
    assert_eq!(refused.count(), 2, "{answers}");
    let turn = AskingTurn::start(&world, &client, "elicit", json!({"times": 12}));
    let mut seen = Vec::new();
    for _ in 0..10 {
        let question = client.next_matching(&turn.session, "agent/questionRequested", |question| {
            !seen.contains(&question.text("questionId").to_owned())
        });
        seen.push(question.text("questionId").to_owned());
        turn.dismiss(&question);
    }
    let answers = turn.result();
    assert_eq!(answers[9]["result"]["action"], "decline", "{answers}");
    assert!(
        answers[10]["error"]["message"]
            .as_str()
            .unwrap()
            .contains("too often"),
        "{answers}"
    );
}

#[test]
fn a_cancel_answers_cancel_and_withdraws_the_question() {
    let (world, log) = logging_world();
    let client = world.start_asking();
    let turn = AskingTurn::start(&world, &client, "elicit_form", json!({}));
    turn.question();
    client.cancel(&turn.session);
    assert_eq!(json!(client.prompt_result(&turn.prompt).state), "cancelled");
    let resolved = client.next(&turn.session, "agent/questionResolved");
    assert!(resolved.params["answers"].is_null(), "{}", resolved.params);
    world.wait_until(|| {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.contains("\"action\": \"cancel\"")
    });
}

#[test]
fn the_time_of_the_person_does_not_count() {
    let world = world_with(&[], &format!("timeout_s = 300\n{ALLOW}"));
    let client = world.start_asking();
    let turn = AskingTurn::start(&world, &client, "elicit", json!({"pause": 0.3}));
    let question = turn.question();
    // Longer than the limit of the call.
    client.advance(Duration::from_secs(600));
    client.settled();
    turn.dismiss(&question);
    assert_eq!(turn.result()[0]["result"]["action"], "decline");
}

#[test]
fn a_call_that_needs_a_visit_is_made_again_once_the_user_has_been_there() {
    for (choice, expected) in [
        ("accept", "welcome"),
        (
            "decline",
            "Sign in first; the user must first open https://peer.example/sign-in; the user has not",
        ),
    ] {
        let world = world_with(&["--more"], ALLOW);
        let client = world.start_asking();
        let turn = AskingTurn::start(&world, &client, "visit_first", json!({}));
        let question = turn.question();
        assert_eq!(
            question.text("text"),
            "The MCP server peer asks you to open an address: Sign in."
        );
        let detail = question.text("detail");
        assert!(detail.starts_with("https://peer.example/sign-in\n"), "{detail}");
        turn.answer(&question, json!({"choice": [choice]}));
        let result = turn.result();
        assert!(result.to_string().contains(expected), "{result}");
    }
}
