//! Prompts that arrive while a canceled one still ends, as when a user presses stop and goes on typing.

use serde_json::json;

use super::client::{AcpClient, chunk_text};
use crate::harness::{Config, World};
use crate::mock_llm::Reply;

/// A canceled turn whose command finishes once there is a file `go`, and then writes `ended`.
struct EndingTurn {
    world: World,
    client: AcpClient,
    session: String,
    prompt: i64,
}

impl EndingTurn {
    fn start() -> Self {
        let world = World::with(Config {
            // A busy machine may need longer than usual for what happens until the command may end.
            tables: "[tool.bash]\non_cancel = \"finish\"\nfinish_timeout_s = 60\n".to_owned(),
            ..Config::default()
        });
        let client = AcpClient::start(&world, json!({}));
        let session = client.new_session(&world);
        client.call(
            "session/set_mode",
            json!({"sessionId": session, "modeId": "full"}),
        );
        let command = "echo started; until [ -e go ]; do sleep 0.02; done; touch ended";
        world
            .mock()
            .push(Reply::tool("bash", json!({"command": command})));
        let prompt = client.prompt(&session, "run");
        // A file would appear too early: until the server knows that the command runs, a cancel kills it.
        client.take(|message| {
            let update = &message["params"]["update"];
            update["content"].to_string().contains("started")
        });
        let turn = Self {
            world,
            client,
            session,
            prompt,
        };
        turn.cancel();
        turn
    }

    fn cancel(&self) {
        self.client
            .notify("session/cancel", json!({"sessionId": self.session}));
    }

    /// Sends a prompt that the model answers.
    fn prompt(&self, text: &str) -> i64 {
        self.world.mock().push(Reply::text(text));
        self.client.prompt(&self.session, text)
    }

    fn stop_reason(&self, prompt: i64) -> String {
        let answer = self.client.answer(prompt);
        let reason = answer["result"]["stopReason"].as_str();
        reason.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Lets the canceled turn end, which must not have been killed.
    fn finish(&self) {
        assert_eq!(self.world.requests(), 1, "nothing runs before the end");
        assert_eq!(self.world.read("ended"), None);
        self.world.write("go", "");
        assert_eq!(self.stop_reason(self.prompt), "cancelled");
        assert!(self.world.read("ended").is_some());
    }
}

#[test]
fn a_prompt_after_a_cancel_waits_for_the_end_of_the_canceled_turn() {
    let turn = EndingTurn::start();
    let second = turn.prompt("second");
    let refused = turn
        .client
        .answer(turn.client.prompt(&turn.session, "one too many"));
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("a prompt is running"), "{message}");
    turn.finish();
    assert_eq!(turn.stop_reason(second), "end_turn");
    let updates = turn.client.taken_updates();
    assert_eq!(chunk_text(&updates, "agent_message_chunk"), "second");
    assert_eq!(turn.world.requests(), 2);
}

#[test]
fn a_cancel_ends_the_prompt_that_waits_and_not_the_command_before_it() {
    let turn = EndingTurn::start();
    let second = turn.client.prompt(&turn.session, "second");
    turn.cancel();
    assert_eq!(turn.stop_reason(second), "cancelled");
    let third = turn.client.prompt(&turn.session, "third");
    turn.client
        .notify("$/cancel_request", json!({"requestId": third}));
    assert_eq!(turn.stop_reason(third), "cancelled");
    let last = turn.prompt("last");
    turn.finish();
    assert_eq!(turn.stop_reason(last), "end_turn");
    let request = turn.world.mock().requests().pop().unwrap();
    let messages = serde_json::to_string(request.messages()).unwrap();
    assert!(messages.contains("last"), "{messages}");
    assert!(
        !messages.contains("second") && !messages.contains("third"),
        "{messages}"
    );
}

#[test]
fn a_close_ends_the_prompt_that_waits() {
    let turn = EndingTurn::start();
    let second = turn.client.prompt(&turn.session, "second");
    let closing = turn
        .client
        .request("session/close", json!({"sessionId": turn.session}));
    assert_eq!(turn.stop_reason(second), "cancelled");
    turn.finish();
    assert_eq!(turn.client.answer(closing)["result"], json!({}));
    let later = turn.prompt("later");
    assert_eq!(turn.stop_reason(later), "end_turn");
    assert_eq!(turn.world.requests(), 2);
}
