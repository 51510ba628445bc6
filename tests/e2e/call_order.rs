//! The order of the calls of one step: a call waits for earlier ones that it depends on, and for no other (R-TOOL-1).

use agentls::protocol::TurnState;
use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use serde_json::{Value, json};

use crate::approvals::results;
use crate::harness::{Client, Config, Id, World};
use crate::mock_llm::Reply;

/// A command that runs until [`end_wait`], and writes its text to `a.txt`.
const WAIT: &str = "sh wait.sh";

/// A world with a pipe, in which the scripts of the tests need no approval.
fn world_with_pipe() -> World {
    let world = World::with(Config {
        tables: "[approvals]\nallow = [\"bash(sh wait.sh)\", \"bash(sh link.sh)\"]\n\
                 [sandbox]\nenabled = false\n"
            .to_owned(),
        ..Config::default()
    });
    world.write("wait.sh", "cat pipe > a.txt\n");
    mkfifoat(CWD, world.workspace().join("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    world
}

/// Lets the command that reads the pipe end.
fn end_wait(world: &World, text: &str) {
    let pipe = world.workspace().join("pipe");
    let open = || rustix::fs::open(&pipe, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
    // A pipe that nobody reads yet cannot be opened.
    world.wait_until(|| open().is_ok_and(|pipe| rustix::io::write(pipe, text.as_bytes()).is_ok()));
}

fn edit(old: &str, new: &str) -> Value {
    json!({"path": "a.txt", "edits": [{"old_text": old, "new_text": new}]})
}

/// Returns the calls of a session that have the status, by title.
fn titles(client: &Client, session: &str, status: &str) -> Vec<String> {
    let calls = client.all(session, "agent/toolCall");
    let of_status = calls.iter().filter(|call| call.text("status") == status);
    of_status.map(|call| call.text("title").to_owned()).collect()
}

/// Starts a turn in which an edit, free in its mode, waits for a command. Returns the session and the prompt.
fn start_to_wait_and_write(world: &World, client: &Client) -> (String, Id) {
    let session = client.session_with(json!({"mode": "autoEdit"}));
    world.mock().push(
        Reply::new()
            .call("bash", json!({"command": WAIT}))
            .call("write_file", json!({"path": "b.txt", "content": "b"})),
    );
    let id = client.prompt(&session, "wait and write");
    client.tool_call(&session, "running");
    (session, id)
}

#[test]
fn edits_of_one_file_build_on_each_other() {
    let world = World::new();
    world.write("a.txt", "0\n");
    let client = world.start();
    let session = client.session_with(json!({"mode": "autoEdit"}));
    let steps = 0..20;
    world.mock().push(steps.fold(Reply::new(), |reply, step| {
        reply.call("edit_file", edit(&step.to_string(), &(step + 1).to_string()))
    }));
    client.ask(&session, "count");
    assert_eq!(world.read("a.txt").unwrap(), "20\n", "{:?}", results(&world, 1));
}

#[test]
fn an_edit_of_the_same_file_asks_with_the_difference_to_the_edited_file() {
    let world = World::new();
    world.write("a.txt", "one\n");
    let client = world.start();
    let session = client.session();
    world.mock().push(
        Reply::new()
            .call("edit_file", edit("one", "two"))
            .call("edit_file", edit("two", "three")),
    );
    let id = client.prompt(&session, "edit");
    client.decide(&client.next_approval(&session), "allow");
    let second = client.next_approval(&session);
    assert!(second.text("diff").contains("-two"), "{second:?}");
    client.decide(&second, "allow");
    client.prompt_result(&id);
    assert_eq!(world.read("a.txt").unwrap(), "three\n");
}

#[test]
fn questions_come_in_the_order_of_the_calls() {
    let world = World::new();
    world.write("large", "line\n".repeat(1_500));
    let client = world.start();
    let session = client.session();
    // The difference of the first takes the longest.
    let files = ["large", "a", "b", "c", "d", "e", "f", "g"];
    let calls = files.iter().fold(Reply::new(), |reply, file| {
        reply.call("write_file", json!({"path": file, "content": "new\n"}))
    });
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "large"})));
    world.mock().push(calls);
    let id = client.prompt(&session, "write all");
    for file in files {
        let question = client.next_approval(&session);
        assert_eq!(question.params["input"]["path"], file, "{question:?}");
        client.decide(&question, "deny");
    }
    client.prompt_result(&id);
}

#[test]
fn a_read_waits_for_an_earlier_command_and_a_plan_does_not() {
    let world = world_with_pipe();
    world.write("a.txt", "old\n");
    let client = world.start();
    let session = client.session();
    world.mock().push(
        Reply::new()
            .call(
                "update_plan",
                json!({"items": [{"text": "wait", "status": "pending"}]}),
            )
            .call("bash", json!({"command": WAIT}))
            .call("read_file", json!({"path": "a.txt"}))
            .call(
                "update_plan",
                json!({"items": [{"text": "read", "status": "completed"}]}),
            ),
    );
    let id = client.prompt(&session, "write and read");
    // The plan does not depend on the command, so it is ready although the command still runs.
    client.tool_call(&session, "completed");
    client.tool_call(&session, "completed");
    end_wait(&world, "new\n");
    client.prompt_result(&id);
    let results = results(&world, 1);
    assert!(results[2].contains("new"), "{results:?}");
}

#[test]
fn commands_run_in_order_even_if_the_later_one_is_allowed_first() {
    let world = world_with_pipe();
    world.write("a.txt", "");
    let client = world.start();
    let session = client.session();
    let [first, second] = ["first", "second"].map(|word| format!("echo {word} >> a.txt"));
    world.mock().push(
        Reply::new()
            .call("bash", json!({"command": first}))
            .call("bash", json!({"command": second})),
    );
    let id = client.prompt(&session, "run both");
    let questions = [client.next_approval(&session), client.next_approval(&session)];
    let [first, second] = ["first", "second"].map(|word| {
        questions
            .iter()
            .find(|question| question.text("title").contains(word))
            .unwrap()
    });
    client.decide(second, "allow");
    client.next(&session, "agent/approvalResolved");
    assert_eq!(titles(&client, &session, "running"), [""; 0]);
    client.decide(first, "allow");
    client.prompt_result(&id);
    assert_eq!(world.read("a.txt").unwrap(), "first\nsecond\n");
}

#[test]
fn a_call_that_waited_is_judged_by_the_mode_of_that_time() {
    let world = world_with_pipe();
    let client = world.start();
    let (session, id) = start_to_wait_and_write(&world, &client);
    let _: Value = client.call("agent/setMode", json!({"sessionId": session, "mode": "plan"}));
    end_wait(&world, "done\n");
    client.prompt_result(&id);
    client.tool_call(&session, "denied");
    assert_eq!(world.read("b.txt"), None);
}

#[test]
fn a_call_that_waited_is_judged_by_the_files_of_that_time() {
    let world = world_with_pipe();
    let outside = world.path("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("a.txt"), "not yours\n").unwrap();
    world.write("link.sh", format!("ln -s '{}' inside\n", outside.display()));
    let client = world.start();
    let session = client.session();
    world.mock().push(
        Reply::new()
            .call("bash", json!({"command": "sh link.sh"}))
            .call("read_file", json!({"path": "inside/a.txt"})),
    );
    let id = client.prompt(&session, "link and read");
    let question = client.next_approval(&session);
    assert_eq!(question.text("name"), "read_file", "{question:?}");
    client.decide(&question, "deny");
    client.prompt_result(&id);
    let results = results(&world, 1);
    assert!(results[1].starts_with("Denied by user"), "{results:?}");
}

#[test]
fn a_cancel_ends_the_wait_for_an_earlier_call() {
    let world = world_with_pipe();
    let client = world.start();
    let (session, id) = start_to_wait_and_write(&world, &client);
    client.cancel(&session);
    assert_eq!(client.prompt_result(&id).state, TurnState::Cancelled);
    assert_eq!(world.read("b.txt"), None);
    assert_eq!(titles(&client, &session, "cancelled").len(), 2);
}
