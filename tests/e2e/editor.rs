//! Files that are open in the editor: read with their unsaved text and changed there (R-TOOL-3).
//!
//! The client plays an editor that obeys, lies, answers late, stays silent or quits.

use std::cell::RefCell;
use std::time::Duration;

use agentls::base::position::{DocumentChange, Position, PositionEncoding, Range, apply_changes};
use serde_json::{Value, json};

use crate::harness::{Client, Options, ServerRequest, World};
use crate::mock_llm::Reply;

const APPLY: &str = "workspace/applyEdit";
const SAVE: &str = "agent/saveDocuments";

/// Starts a server whose client announces that it can edit and save documents.
fn start(world: &World) -> Client {
    start_with(world, &["utf-16"], json!([]))
}

fn start_with(world: &World, encodings: &[&str], more_folders: Value) -> Client {
    launch(world, Options::default(), encodings, more_folders)
}

fn launch(world: &World, options: Options, encodings: &[&str], more_folders: Value) -> Client {
    let client = world.launch(options);
    client.take_requests();
    let mut params = client.initialize_params(None);
    params["capabilities"] = json!({
        "general": {"positionEncodings": encodings},
        "workspace": {"applyEdit": true, "workspaceEdit": {"documentChanges": true}},
        "experimental": {"agent": {"client": {"saveDocuments": true}}},
    });
    let folders = params["workspaceFolders"].as_array_mut().unwrap();
    folders.extend(more_folders.as_array().unwrap().clone());
    let answer: Value = client.call("initialize", params);
    assert_eq!(answer["capabilities"]["positionEncoding"], encodings[0]);
    let features = &answer["capabilities"]["experimental"]["agent"]["features"];
    assert!(features.to_string().contains("applyEdit"), "{features}");
    client.initialized();
    client
}

/// A document that is open in the editor.
struct Document<'a> {
    client: &'a Client,
    uri: String,
    state: RefCell<(i32, String)>,
}

impl<'a> Document<'a> {
    /// Opens it with version 0, as Neovim does.
    fn open(client: &'a Client, uri: String, text: &str) -> Self {
        client.notify(
            "textDocument/didOpen",
            json!({"textDocument": {"uri": uri, "languageId": "text", "version": 0, "text": text}}),
        );
        Self {
            client,
            uri,
            state: RefCell::new((0, text.to_owned())),
        }
    }

    fn text(&self) -> String {
        self.state.borrow().1.clone()
    }

    fn change_text(&self, text: &str) {
        let mut state = self.state.borrow_mut();
        *state = (state.0 + 1, text.to_owned());
        self.client.notify(
            "textDocument/didChange",
            json!({"textDocument": {"uri": self.uri, "version": state.0}, "contentChanges": [{"text": text}]}),
        );
    }

    /// Applies the requested edit.
    fn apply_edit(&self, request: &ServerRequest, encoding: PositionEncoding) {
        let change = &request.params["edit"]["documentChanges"][0];
        assert_eq!(change["textDocument"]["uri"], self.uri.as_str());
        assert_eq!(change["textDocument"]["version"], self.state.borrow().0);
        let mut text = self.text();
        for edit in change["edits"].as_array().unwrap().iter().rev() {
            let position = |name: &str| Position {
                line: u32::try_from(edit["range"][name]["line"].as_u64().unwrap()).unwrap(),
                character: u32::try_from(edit["range"][name]["character"].as_u64().unwrap()).unwrap(),
            };
            let range = Some(Range {
                start: position("start"),
                end: position("end"),
            });
            let fresh = edit["newText"].as_str().unwrap().to_owned();
            apply_changes(&mut text, &[DocumentChange { range, text: fresh }], encoding);
        }
        self.change_text(&text);
    }

    /// Does everything an honest editor does for one edit of a clean document.
    fn apply_and_save(&self) {
        let request = self.client.server_asks(APPLY);
        self.apply_edit(&request, PositionEncoding::Utf16);
        self.client.reply(&request, json!({"applied": true}));
        self.save();
    }

    fn save(&self) {
        let request = self.client.server_asks(SAVE);
        assert_eq!(request.params, json!({"uris": [self.uri]}));
        let path = self.uri.strip_prefix("file://").unwrap();
        std::fs::write(path, self.text()).unwrap();
        self.client
            .notify("textDocument/didSave", json!({"textDocument": {"uri": self.uri}}));
        self.client
            .reply(&request, json!({"saved": [self.uri], "failed": []}));
    }
}

fn edit(path: &str, old: &str, new: &str) -> Reply {
    Reply::tool(
        "edit_file",
        json!({"path": path, "edits": [{"old_text": old, "new_text": new}]}),
    )
}

/// Returns the last message that the model got.
fn last_model_input(world: &World) -> String {
    let request = world.wait_for_request(world.requests() - 1);
    request.body["messages"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .to_string()
}

fn full_session(client: &Client) -> String {
    client.session_with(json!({"mode": "full"}))
}

#[test]
fn clean_document_is_edited_in_the_editor_and_saved() {
    for encoding in ["utf-16", "utf-8"] {
        let world = World::new();
        world.write("a.txt", "😀 one\nrest\n");
        let client = start_with(&world, &[encoding], json!([]));
        let session = full_session(&client);
        let document = Document::open(&client, world.uri("a.txt"), "😀 one\nrest\n");
        world.mock().push(edit("a.txt", "one", "two"));
        world
            .mock()
            .push(Reply::tool("bash", json!({"command": "cat a.txt"})));
        let id = client.prompt(&session, "do it");
        let request = client.server_asks(APPLY);
        assert_eq!(
            client.all(&session, "agent/turnStarted").len(),
            1,
            "what began before the request is reported before it"
        );
        let (at, counts) = match encoding {
            "utf-8" => (5, PositionEncoding::Utf8),
            _ => (3, PositionEncoding::Utf16),
        };
        // The edit covers only the changed text.
        let edits = &request.params["edit"]["documentChanges"][0]["edits"];
        assert_eq!(
            edits,
            &json!([{
                "range": {"start": {"line": 0, "character": at}, "end": {"line": 0, "character": at + 3}},
                "newText": "two",
            }])
        );
        document.apply_edit(&request, counts);
        client.reply(&request, json!({"applied": true}));
        document.save();
        client.prompt_result(&id);
        assert!(
            last_model_input(&world).contains("😀 two"),
            "{}",
            last_model_input(&world)
        );
        assert_eq!(world.read("a.txt").as_deref(), Some("😀 two\nrest\n"));
        // The next edit names the next version.
        world.mock().push(edit("a.txt", "rest", "end"));
        let id = client.prompt(&session, "and on");
        let request = client.server_asks(APPLY);
        document.apply_edit(&request, counts);
        client.reply(&request, json!({"applied": true}));
        document.save();
        client.prompt_result(&id);
        assert_eq!(world.read("a.txt").as_deref(), Some("😀 two\nend\n"));
    }
}

#[test]
fn unsaved_text_is_edited_and_stays_unsaved() {
    let world = World::new();
    world.write("a.txt", "one\n");
    let client = start(&world);
    let session = full_session(&client);
    let document = Document::open(&client, world.uri("a.txt"), "one\n");
    document.change_text("one\nmine\n");
    world.mock().push(edit("a.txt", "one", "two"));
    let id = client.prompt(&session, "do it");
    let request = client.server_asks(APPLY);
    document.apply_edit(&request, PositionEncoding::Utf16);
    client.reply(&request, json!({"applied": true}));
    client.prompt_result(&id);
    assert!(
        last_model_input(&world).contains("the file on disk and commands do not have this edit yet"),
        "{}",
        last_model_input(&world)
    );
    assert_eq!(document.text(), "two\nmine\n");
    assert_eq!(world.read("a.txt").as_deref(), Some("one\n"));
    assert_eq!(client.server_requests(), 0, "the editor is not asked to save it");
}

#[test]
fn edit_that_the_document_does_not_show_is_a_failure() {
    let world = World::new();
    world.write("a.txt", "one\n");
    let client = start(&world);
    let session = full_session(&client);
    let document = Document::open(&client, world.uri("a.txt"), "one\n");
    world.mock().push(edit("a.txt", "one", "two"));
    let id = client.prompt(&session, "do it");
    let request = client.server_asks(APPLY);
    client.reply(&request, json!({"applied": true}));
    client.prompt_result(&id);
    assert!(
        last_model_input(&world).contains("does not contain the edit"),
        "{}",
        last_model_input(&world)
    );
    assert_eq!(client.tool_call(&session, "failed").text("name"), "edit_file");
    // The reason of a refusal is quoted; a malformed answer counts as a failure.
    for (answer, expected) in [
        (
            json!({"applied": false, "failureReason": "not modifiable"}),
            "not modifiable",
        ),
        (json!({"applied": "perhaps"}), "refused"),
    ] {
        world.mock().push(edit("a.txt", "one", "two"));
        let id = client.prompt(&session, "again");
        let request = client.server_asks(APPLY);
        client.reply(&request, answer);
        client.prompt_result(&id);
        assert!(
            last_model_input(&world).contains(expected),
            "{}",
            last_model_input(&world)
        );
    }
    assert_eq!(world.read("a.txt").as_deref(), Some("one\n"));
    assert_eq!(document.text(), "one\n");
}

#[test]
fn text_typed_during_an_edit_is_kept_and_reported() {
    // Stock Neovim answers `applied: true` to a stale edit and does not apply it.
    for yes in [true, false] {
        let world = World::new();
        world.write("a.txt", "one\n");
        let client = start(&world);
        let session = full_session(&client);
        let document = Document::open(&client, world.uri("a.txt"), "one\n");
        world.mock().push(edit("a.txt", "one", "two"));
        let id = client.prompt(&session, "do it");
        let request = client.server_asks(APPLY);
        document.change_text("one\ntyped\n");
        client.reply(
            &request,
            json!({"applied": yes, "failureReason": "it has changed"}),
        );
        client.prompt_result(&id);
        assert!(
            last_model_input(&world).contains("2\\ttyped"),
            "{}",
            last_model_input(&world)
        );
        assert_eq!(document.text(), "one\ntyped\n");
        // The model has now read the typed text, so the edit goes through.
        world.mock().push(edit("a.txt", "one", "two"));
        let id = client.prompt(&session, "again");
        let request = client.server_asks(APPLY);
        document.apply_edit(&request, PositionEncoding::Utf16);
        client.reply(&request, json!({"applied": true}));
        client.prompt_result(&id);
        assert_eq!(document.text(), "two\ntyped\n");
        assert_eq!(world.read("a.txt").as_deref(), Some("one\n"));
    }
}

#[test]
fn text_typed_between_read_and_edit_is_kept_and_reported() {
    let world = World::new();
    world.write("a.txt", "one\n");
    let client = start(&world);
    let session = full_session(&client);
    let document = Document::open(&client, world.uri("a.txt"), "one\n");
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "a.txt"})));
    client.ask(&session, "read it");
    document.change_text("one\ntyped\n");
    world.mock().push(edit("a.txt", "one", "two"));
    let id = client.prompt(&session, "do it");
    let request = client.server_asks(APPLY);
    document.apply_edit(&request, PositionEncoding::Utf16);
    client.reply(&request, json!({"applied": true}));
    client.prompt_result(&id);
    assert_eq!(document.text(), "two\ntyped\n");
    for part in ["had changed since you read it", "+typed"] {
        assert!(
            last_model_input(&world).contains(part),
            "{}",
            last_model_input(&world)
        );
    }
}

#[test]
fn silent_editor_delays_no_cancel_and_times_out_after_ten_seconds() {
    let world = World::new();
    world.write("a.txt", "one\n");
    let frozen = Options {
        frozen: true,
        ..Options::default()
    };
    let client = launch(&world, frozen, &["utf-16"], json!([]));
    let session = full_session(&client);
    let _document = Document::open(&client, world.uri("a.txt"), "one\n");
    world.mock().push(edit("a.txt", "one", "two"));
    let id = client.prompt(&session, "do it");
    let late = client.server_asks(APPLY);
    client.cancel(&session);
    // The edit has a moment to end. Nothing shows when that begins, so it passes in steps, which add up to less than 10 s.
    let steps = std::cell::Cell::new(0);
    world.wait_until(|| {
        if steps.replace(steps.get() + 1) < 90 {
            client.advance(Duration::from_millis(100));
        }
        client.settled();
        !client.all(&session, "agent/turnEnded").is_empty()
    });
    assert_eq!(json!(client.prompt_result(&id).reason), "aborted_tools");
    // A late answer is harmless.
    client.reply(&late, json!({"applied": true}));
    world.mock().push(edit("a.txt", "one", "two"));
    let id = client.prompt(&session, "do it");
    let never = client.server_asks(APPLY);
    client.advance(Duration::from_millis(9_999));
    client.settled();
    assert!(client.take_answer(&id).is_none(), "it waits for the editor");
    client.advance(Duration::from_millis(1));
    client.prompt_result(&id);
    assert!(
        last_model_input(&world).contains("did not answer within 10 s"),
        "{}",
        last_model_input(&world)
    );
    client.reply(&never, json!({"applied": false}));
    client.settled();
    assert_eq!(world.read("a.txt").as_deref(), Some("one\n"));
}

#[test]
fn editor_that_quits_during_a_request_ends_the_server_in_time() {
    let world = World::new();
    world.write("a.txt", "one\n");
    let client = start(&world);
    let session = full_session(&client);
    let _document = Document::open(&client, world.uri("a.txt"), "one\n");
    world.mock().push(edit("a.txt", "one", "two"));
    let id = client.prompt(&session, "do it");
    let _ = client.server_asks(APPLY);
    client.close_input();
    assert_eq!(json!(client.prompt_result(&id).reason), "server_stopped");
    client.wait_for_exit();
    drop(client);
    assert_eq!(world.read("a.txt").as_deref(), Some("one\n"));
}

#[test]
fn without_apply_edit_clean_files_change_on_disk_and_dirty_ones_are_refused() {
    let world = World::new();
    world.write("a.txt", "one\n");
    // This client fails the test if the server sends it a request.
    let client = world.start();
    let session = full_session(&client);
    let document = Document::open(&client, world.uri("a.txt"), "one\n");
    world.mock().push(edit("a.txt", "one", "two"));
    client.ask(&session, "do it");
    assert_eq!(world.read("a.txt").as_deref(), Some("two\n"));
    document.change_text("mine\ntwo\n");
    world.mock().push(edit("a.txt", "two", "three"));
    client.ask(&session, "do it");
    assert!(
        last_model_input(&world).contains("does not accept edits"),
        "{}",
        last_model_input(&world)
    );
    assert_eq!(world.read("a.txt").as_deref(), Some("two\n"));
}

#[test]
fn same_path_in_two_roots_is_kept_apart() {
    let world = World::new();
    world.write("a.txt", "one\n");
    let other = world.path("other");
    std::fs::create_dir_all(&other).unwrap();
    std::fs::write(other.join("a.txt"), "one\n").unwrap();
    let uri = format!("file://{}", other.display());
    let client = start_with(&world, &["utf-16"], json!([{"uri": uri, "name": "other"}]));
    let session = full_session(&client);
    let here = Document::open(&client, world.uri("a.txt"), "one\n");
    let there = Document::open(&client, format!("{uri}/a.txt"), "one\n");
    world.mock().push(edit("other/a.txt", "one", "there"));
    world.mock().push(edit("a.txt", "one", "here"));
    let id = client.prompt(&session, "do it");
    there.apply_and_save();
    here.apply_and_save();
    client.prompt_result(&id);
    assert_eq!(
        (here.text(), there.text()),
        ("here\n".to_owned(), "there\n".to_owned())
    );
    assert_eq!(world.read("a.txt").as_deref(), Some("here\n"));
    assert_eq!(std::fs::read_to_string(other.join("a.txt")).unwrap(), "there\n");
    assert!(
        last_model_input(&world).contains("edited a.txt"),
        "{}",
        last_model_input(&world)
    );
    // References by a user are named in the same way.
    client.ask(&session, json!([{"type": "reference", "uri": there.uri}]));
    let messages = client.all(&session, "agent/message");
    let message = messages
        .iter()
        .rfind(|notification| notification.params["role"] == "user")
        .unwrap();
    assert_eq!(message.params["content"][0]["path"], "other/a.txt");
}

#[test]
fn allowed_edit_is_applied_in_the_editor() {
    let world = World::new();
    world.write("a.txt", "one\nrest\n");
    let client = start(&world);
    let session = client.session();
    let document = Document::open(&client, world.uri("a.txt"), "one\nrest\n");
    world.mock().push(edit("a.txt", "one", "two"));
    let id = client.prompt(&session, "do it");
    let approval = client.next_approval(&session);
    assert!(approval.text("diff").contains("+two"));
    client.decide(&approval, "allow");
    document.apply_and_save();
    client.prompt_result(&id);
    assert_eq!(world.read("a.txt").as_deref(), Some("two\nrest\n"));
}

/// A change made in the editor is reverted there. A user's unsaved text stays, and text typed since is not
/// overwritten, just as on disk (R-SESS-3).
#[test]
fn revert_goes_through_the_editor_and_keeps_text_typed_since() {
    let world = World::new();
    world.write("a.txt", "one\n");
    let client = start(&world);
    let session = full_session(&client);
    let document = Document::open(&client, world.uri("a.txt"), "one\nunsaved\n");
    let change = || {
        let request = client.server_asks(APPLY);
        document.apply_edit(&request, PositionEncoding::Utf16);
        client.reply(&request, json!({"applied": true}));
    };
    world.mock().push(edit("a.txt", "one", "1"));
    world.mock().push(Reply::text("done"));
    let prompt = client.prompt(&session, "edit it");
    change();
    let turn = client.prompt_result(&prompt).turn_id;
    assert_eq!(document.text(), "1\nunsaved\n");
    let revert = |redo: bool| {
        let params = json!({"sessionId": session, "turnId": turn, "redo": redo});
        client.send("agent/revert", params)
    };
    let revert_id = revert(false);
    change();
    let answer = client.answer(&revert_id).unwrap();
    assert_eq!(answer["files"][0]["path"], "a.txt");
    assert_eq!(answer["conflicts"], json!([]));
    assert_eq!(document.text(), "one\nunsaved\n");
    assert_eq!(world.read("a.txt").unwrap(), "one\n");
    let revert_id = revert(true);
    change();
    assert_eq!(client.answer(&revert_id).unwrap()["conflicts"], json!([]));
    assert_eq!(document.text(), "1\nunsaved\n");
    document.change_text("1\nunsaved\nand more\n");
    client.settled();
    let answer = client.answer(&revert(false)).unwrap();
    assert_eq!(answer["files"], json!([]));
    assert_eq!(answer["conflicts"][0]["why"], "it has changed since");
    assert_eq!(document.text(), "1\nunsaved\nand more\n");
}

/// A document without unsaved text is restored in the editor and saved.
#[test]
fn revert_of_a_clean_document_saves_it() {
    let world = World::new();
    world.write("a.txt", "one\r\ntwo\r\n");
    let client = start(&world);
    let session = full_session(&client);
    let document = Document::open(&client, world.uri("a.txt"), "one\r\ntwo\r\n");
    world.mock().push(edit("a.txt", "one", "1"));
    world.mock().push(Reply::text("done"));
    let prompt = client.prompt(&session, "edit it");
    document.apply_and_save();
    let turn = client.prompt_result(&prompt).turn_id;
    assert_eq!(world.read("a.txt").unwrap(), "1\r\ntwo\r\n");
    let revert_id = client.send("agent/revert", json!({"sessionId": session, "turnId": turn}));
    document.apply_and_save();
    assert_eq!(client.answer(&revert_id).unwrap()["conflicts"], json!([]));
    assert_eq!(document.text(), "one\r\ntwo\r\n");
    assert_eq!(world.read("a.txt").unwrap(), "one\r\ntwo\r\n");
}

/// A command changes a file of which a user has unsaved text: the revert leaves both.
#[test]
fn revert_skips_a_file_with_unsaved_text() {
    let world = World::new();
    world.write("a.txt", "one\n");
    world.write("b.txt", "one\n");
    let client = start(&world);
    let session = full_session(&client);
    for name in ["a.txt", "b.txt"] {
        world.mock().push(Reply::tool("read_file", json!({"path": name})));
    }
    let command = "echo two > a.txt; echo two > b.txt";
    world
        .mock()
        .push(Reply::tool("bash", json!({"command": command})));
    world.mock().push(Reply::text("done"));
    let turn = client.ask(&session, "do it").turn_id;
    let document = Document::open(&client, world.uri("a.txt"), "two\n");
    document.change_text("two\nand a person's\n");
    client.settled();
    let params = json!({"sessionId": session, "turnId": turn, "dryRun": true});
    let would: Value = client.call("agent/revert", params);
    let params = json!({"sessionId": session, "turnId": turn});
    let done: Value = client.call("agent/revert", params);
    assert_eq!(done, would);
    assert_eq!(done["files"].as_array().unwrap().len(), 1);
    assert_eq!(done["conflicts"][0]["path"], "a.txt");
    assert_eq!(world.read("a.txt").unwrap(), "two\n");
    assert_eq!(world.read("b.txt").unwrap(), "one\n");
    assert_eq!(document.text(), "two\nand a person's\n");
}
