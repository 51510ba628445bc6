//! The tools that ask the editor's language servers, if the client answers `agent/languageQuery` (R-LANG).

use serde_json::{Value, json};

use crate::harness::{Client, Config, Options, ServerRequest, World};
use crate::mock_llm::{Gate, Reply};

const ASK: &str = "agent/languageQuery";
const CART: &str =
    "// total of a cart\nexport class Cart {\n  total(): number {\n    return add(1, 2);\n  }\n}\n";
const PRINT: &str =
    "import { Cart } from \"./cart\";\n\nexport function print(cart: Cart) {\n  show(cart.total());\n}\n";

pub fn start(world: &World) -> Client {
    start_with(world, json!({}))
}

/// Starts a server whose client also has these abilities of LSP.
fn start_with(world: &World, workspace: Value) -> Client {
    let flags = json!({"languageQueries": true, "codeFixes": true, "saveDocuments": true});
    start_with_flags(world, workspace, flags)
}

fn start_with_flags(world: &World, workspace: Value, flags: Value) -> Client {
    let client = world.launch(Options::default());
    client.take_requests();
    let mut params = client.initialize_params(None);
    params["capabilities"] = json!({
        "workspace": workspace,
        "experimental": {"agent": {"client": flags}},
    });
    let answer: Value = client.call("initialize", params);
    let features = &answer["capabilities"]["experimental"]["agent"]["features"];
    assert!(features.to_string().contains("languageQueries"), "{features}");
    client.initialized();
    client
}

pub fn range(start: (u32, u32), end: (u32, u32)) -> Value {
    json!({
        "start": {"line": start.0, "character": start.1},
        "end": {"line": end.0, "character": end.1},
    })
}

/// The symbols of `cart.ts`.
fn cart_symbols(world: &World) -> Value {
    let uri = world.uri("cart.ts");
    json!({"symbols": [
        {"name": "Cart", "kind": 5, "uri": uri, "range": range((1, 0), (5, 1)), "selectionRange": range((1, 13), (1, 17))},
        {"name": "total", "kind": 6, "uri": uri, "range": range((2, 2), (4, 3)),
         "selectionRange": range((2, 2), (2, 7)), "containerName": "Cart"},
    ]})
}

pub fn result(world: &World, request: usize) -> String {
    let message = world.wait_for_request(request);
    message.messages().last().unwrap().to_string()
}

pub fn query(client: &Client, kind: &str) -> ServerRequest {
    let request = client.server_asks(ASK);
    assert_eq!(request.params["kind"], kind, "{request:?}");
    request
}

#[test]
fn references_are_found_by_name_and_listed_with_what_encloses_them() {
    let world = World::new();
    world.write("cart.ts", CART);
    world.write("print.ts", PRINT);
    let args = json!({"symbol": "Cart.total", "path": "cart.ts"});
    world.mock().push(Reply::tool("find_references", args));
    let client = start(&world);
    // Reading needs no approval, even in mode `plan`.
    let session = client.session_with(json!({"mode": "plan"}));
    let id = client.prompt(&session, "who uses it?");

    let request = query(&client, "documentSymbols");
    assert_eq!(request.params["uri"], world.uri("cart.ts"));
    client.reply(&request, cart_symbols(&world));
    let request = query(&client, "references");
    // The declaration, not the comment in the first line.
    assert_eq!(request.params["position"], json!({"line": 2, "character": 2}));
    client.reply(
        &request,
        json!({"locations": [
            {"uri": world.uri("print.ts"), "range": range((3, 12), (3, 17))},
            {"uri": world.uri("cart.ts"), "range": range((2, 2), (2, 7))},
            {"uri": "file:///elsewhere/x.ts", "range": range((8, 0), (8, 5))},
        ]}),
    );
    for _ in 0..2 {
        let request = query(&client, "documentSymbols");
        if request.params["uri"] == world.uri("cart.ts") {
            client.reply(&request, cart_symbols(&world));
        } else {
            let print = json!({"name": "print", "kind": 12, "uri": world.uri("print.ts"),
                "range": range((2, 0), (4, 1)), "selectionRange": range((2, 16), (2, 21))});
            client.reply(&request, json!({"symbols": [print]}));
        }
    }
    assert_eq!(json!(client.prompt_result(&id).state), "completed");
    let text = result(&world, 1);
    let listed = "/elsewhere/x.ts:9\\ncart.ts:3: total(): number {  (in Cart)\\n\
                  print.ts:4: show(cart.total());  (in print)\\n[3 references in 3 files]";
    assert!(text.contains(listed), "{text}");
}

#[test]
fn calls_are_listed_like_references_and_an_editor_may_not_know_them() {
    let world = World::new();
    world.write("cart.ts", CART);
    world.write("print.ts", PRINT);
    for kind in ["incoming_calls", "outgoing_calls"] {
        let args = json!({"symbol": "total", "path": "cart.ts", "line": 3, "kind": kind});
        world.mock().push(Reply::tool("find_references", args));
    }
    let client = start(&world);
    let session = client.session();
    let id = client.prompt(&session, "who calls it?");
    let request = query(&client, "incomingCalls");
    assert_eq!(request.params["position"], json!({"line": 2, "character": 2}));
    let calls = json!({"locations": [{"uri": world.uri("print.ts"), "range": range((3, 12), (3, 17))}]});
    client.reply(&request, calls);
    let print = json!({"name": "print", "kind": 12, "uri": world.uri("print.ts"),
        "range": range((2, 0), (4, 1)), "selectionRange": range((2, 16), (2, 21))});
    client.reply(&query(&client, "documentSymbols"), json!({"symbols": [print]}));
    let error = json!({"code": -32803, "message": "the editor does not answer `outgoingCalls`"});
    let refusal = json!({"jsonrpc": "2.0", "id": query(&client, "outgoingCalls").id, "error": error});
    client.frame(refusal.to_string().as_bytes());
    client.prompt_result(&id);
    let text = result(&world, 1);
    assert!(
        text.contains("print.ts:4: show(cart.total());  (in print)\\n[1 call]"),
        "{text}"
    );
    let text = result(&world, 2);
    assert!(
        text.contains("the editor does not answer `outgoingCalls`"),
        "{text}"
    );
}

#[test]
fn references_are_looked_up_after_the_earlier_writes_of_the_step() {
    let world = World::new();
    world.write("cart.ts", CART);
    let find = json!({"symbol": "Cart.total", "path": "cart.ts"});
    world.mock().push(
        Reply::new()
            .call("write_file", json!({"path": "print.ts", "content": PRINT}))
            .call("find_references", find)
            .call("read_file", json!({"path": "cart.ts"})),
    );
    let client = start(&world);
    let session = client.session();
    let id = client.prompt(&session, "write, then find");
    let approval = client.next_approval(&session);
    // The other read does not wait.
    client.tool_call(&session, "completed");
    assert_eq!(client.server_requests(), 0);
    client.decide(&approval, "allow");
    let request = query(&client, "documentSymbols");
    assert_eq!(world.read("print.ts").as_deref(), Some(PRINT));
    client.reply(&request, cart_symbols(&world));
    client.reply(&query(&client, "references"), json!({"locations": []}));
    assert_eq!(json!(client.prompt_result(&id).state), "completed");
}

#[test]
fn a_definition_is_found_by_line_and_symbols_by_name() {
    let world = World::new();
    world.write("cart.ts", CART);
    world.write("print.ts", PRINT);
    let args = json!({"symbol": "Cart", "path": "print.ts", "line": 3, "find": "type"});
    world.mock().push(Reply::tool("go_to_definition", args));
    world
        .mock()
        .push(Reply::tool("find_symbol", json!({"name": "cart"})));
    let wrong = json!({"symbol": "Cart", "path": "print.ts", "line": 4});
    world.mock().push(Reply::tool("go_to_definition", wrong));
    let client = start(&world);
    let id = client.prompt(&client.session(), "where is it?");

    let request = query(&client, "typeDefinition");
    assert_eq!(request.params["position"], json!({"line": 2, "character": 28}));
    let found = json!({"uri": world.uri("cart.ts"), "range": range((1, 13), (1, 17))});
    client.reply(&request, json!({"locations": [found]}));
    client.reply(&query(&client, "documentSymbols"), json!({"symbols": []}));

    let request = query(&client, "workspaceSymbols");
    assert_eq!(request.params["query"], "cart");
    let mut found = cart_symbols(&world);
    found["symbols"].as_array_mut().unwrap().extend([
        json!({"name": "Cart", "kind": 5, "uri": "file:///elsewhere/x.ts", "range": range((0, 0), (0, 4))}),
        json!({"name": "CartItem", "kind": 11, "uri": world.uri("print.ts"), "range": range((0, 0), (0, 4))}),
    ]);
    client.reply(&request, found);

    assert_eq!(json!(client.prompt_result(&id).state), "completed");
    assert!(
        result(&world, 1).contains("\"cart.ts:2: export class Cart {\\n\""),
        "{}",
        result(&world, 1)
    );
    let symbols = result(&world, 2);
    let listed = "\"cart.ts:2: export class Cart {  (class Cart)\\n\
                  print.ts:1: import { Cart } from \\\"./cart\\\";  (interface CartItem)\\n\"";
    assert!(symbols.contains(listed), "{symbols}");
    // Without a question to the editor.
    let wrong = result(&world, 3);
    assert!(
        wrong.contains("`Cart` does not occur in line 4 of print.ts, but in lines 1, 3"),
        "{wrong}"
    );
}

#[test]
fn a_definition_comes_with_documentation_if_its_file_may_be_read() {
    let world = World::new();
    world.write("cart.ts", CART);
    world.write("print.ts", PRINT);
    let args = json!({"symbol": "total", "path": "print.ts", "line": 4});
    for _ in 0..3 {
        world.mock().push(Reply::tool("go_to_definition", args.clone()));
    }
    let client = start(&world);
    let id = client.prompt(&client.session(), "where is it?");
    let found = |uri: String| json!({"locations": [{"uri": uri, "range": range((2, 2), (2, 7))}]});
    for hover in [
        json!({"text": format!("{}\u{1b}{}", "a".repeat(1_000), "b".repeat(1_000))}),
        json!("no text"),
    ] {
        client.reply(&query(&client, "definition"), found(world.uri("cart.ts")));
        client.reply(&query(&client, "documentSymbols"), json!({}));
        let request = query(&client, "hover");
        assert_eq!(request.params["uri"], world.uri("print.ts"));
        assert_eq!(request.params["position"], json!({"line": 3, "character": 12}));
        client.reply(&request, hover);
    }
    // A type may tell the value of a constant.
    client.reply(&query(&client, "definition"), found(world.uri(".env")));
    client.prompt_result(&id);
    let (place, text) = ("cart.ts:3: total(): number {\\n", result(&world, 1));
    let shown = format!(
        "{place}[signature and documentation]\\n{}{} […]\\n",
        "a".repeat(1_000),
        "b".repeat(500)
    );
    assert!(text.contains(&shown), "{text}");
    let text = result(&world, 2);
    assert!(text.contains(place) && !text.contains("documentation"), "{text}");
    assert!(result(&world, 3).contains(".env:3"), "{}", result(&world, 3));
}

#[test]
fn a_cancel_reaches_the_client_and_bad_answers_are_harmless() {
    let world = World::new();
    world.write("cart.ts", CART);
    let client = start(&world);
    let session = client.session();
    let ask = || {
        world
            .mock()
            .push(Reply::tool("find_symbol", json!({"path": "cart.ts"})))
    };
    ask();
    let id = client.prompt(&session, "what is there?");
    client.reply(&client.server_asks(ASK), json!({"symbols": 3}));
    client.prompt_result(&id);
    assert!(
        result(&world, 1).contains("its answer is malformed: invalid type: integer `3`, expected a sequence"),
        "{}",
        result(&world, 1)
    );
    ask();
    let id = client.prompt(&session, "what is there?");
    let request = client.server_asks(ASK);
    client.cancel(&session);
    assert_eq!(json!(client.prompt_result(&id).state), "cancelled");
    client.server_cancels(&request);
    client.reply(&request, json!({"symbols": []}));
    ask();
    let id = client.prompt(&session, "and now?");
    // An answer without anything is an answer.
    client.reply(&client.server_asks(ASK), Value::Null);
    client.prompt_result(&id);
    let last = world.mock().requests().len() - 1;
    assert!(
        result(&world, last).contains("know no such symbol"),
        "{}",
        result(&world, last)
    );
}

#[test]
fn a_file_that_is_read_in_part_comes_with_its_outline() {
    let world = World::new();
    world.write("cart.ts", CART.repeat(400));
    world
        .mock()
        .push(Reply::tool("read_file", json!({"path": "cart.ts"})));
    let client = start(&world);
    let id = client.prompt(&client.session(), "read it");
    let request = query(&client, "documentSymbols");
    assert_eq!(request.params["uri"], world.uri("cart.ts"));
    client.reply(&request, cart_symbols(&world));
    assert_eq!(json!(client.prompt_result(&id).state), "completed");
    let text = result(&world, 1);
    let outline = "continue with offset 2001]\\n[outline of the file: the line of each symbol]\\n\
                   2\\tclass Cart\\n3\\tmethod total in Cart\\n";
    assert!(text.contains(outline), "{}", &text[text.len() - 300..]);
}

/// The edits that rename `total` to `sum` in both files.
fn rename_edits(world: &World) -> Value {
    let edit = |at: Value| json!([{"range": at, "newText": "sum"}]);
    json!({"edits": [
        {"uri": world.uri("print.ts"), "edits": edit(range((3, 12), (3, 17)))},
        {"uri": world.uri("cart.ts"), "edits": edit(range((2, 2), (2, 7)))},
    ]})
}

#[test]
fn a_rename_is_approved_as_a_whole_and_can_be_reverted() {
    let world = World::new();
    world.write("cart.ts", CART);
    world.write("print.ts", PRINT);
    let args = json!({"symbol": "total", "path": "cart.ts", "line": 3, "new_name": "sum"});
    let other_file = json!({"path": "print.ts"});
    world.mock().push(
        Reply::new()
            .call("rename_symbol", args)
            .call("read_file", other_file),
    );
    let client = start(&world);
    let session = client.session();
    let id = client.prompt(&session, "rename it");
    // The only question: what is judged and shown is what is made.
    let request = query(&client, "rename");
    assert_eq!(request.params["query"], "sum");
    assert_eq!(request.params["position"], json!({"line": 2, "character": 2}));
    client.reply(&request, rename_edits(&world));
    let approval = client.next_approval(&session);
    let diff = approval.text("diff");
    assert!(
        diff.contains("+++ b/cart.ts") && diff.contains("+  sum(): number {"),
        "{diff}"
    );
    assert!(
        diff.contains("+++ b/print.ts") && diff.contains("+  show(cart.sum());"),
        "{diff}"
    );
    assert_eq!(world.read("print.ts").as_deref(), Some(PRINT));
    client.decide(&approval, "allow");
    let turn = client.prompt_result(&id);
    assert_eq!(client.all(&session, "agent/approvalRequested").len(), 1);
    assert_eq!(client.server_requests(), 0);
    assert_eq!(json!(turn.state), "completed");
    let text = result(&world, 1);
    let listed =
        "renamed `total` to `sum` in 2 places of 2 files:\\ncart.ts (+1 −1 lines)\\nprint.ts (+1 −1 lines)";
    assert!(text.contains(listed), "{text}");
    assert!(
        text.contains("show(cart.sum());"),
        "the read waits for the rename: {text}"
    );
    assert_eq!(world.read("cart.ts"), Some(CART.replace("total()", "sum()")));
    assert_eq!(world.read("print.ts"), Some(PRINT.replace("total()", "sum()")));
    let _: Value = client.call(
        "agent/revert",
        json!({"sessionId": session, "turnId": turn.turn_id}),
    );
    assert_eq!(world.read("cart.ts").as_deref(), Some(CART));
    assert_eq!(world.read("print.ts").as_deref(), Some(PRINT));
}

#[test]
fn a_rename_changes_all_files_as_approved_or_none() {
    let world = World::new();
    world.write("cart.ts", CART);
    world.write("print.ts", PRINT);
    let args = json!({"symbol": "total", "path": "cart.ts", "line": 3, "new_name": "sum"});
    for _ in 0..2 {
        world.mock().push(Reply::tool("rename_symbol", args.clone()));
    }
    let client = start_with(
        &world,
        json!({"applyEdit": true, "workspaceEdit": {"documentChanges": true}}),
    );
    let session = client.session();
    let id = client.prompt(&session, "rename it");
    client.reply(&query(&client, "rename"), rename_edits(&world));
    let approval = client.next_approval(&session);
    let longer = format!("{PRINT}show(0);\n");
    world.write("print.ts", &longer);
    client.decide(&approval, "allow");

    // The second call finds the new text, which the editor does not let it change after `cart.ts` was changed.
    client.reply(&query(&client, "rename"), rename_edits(&world));
    client.notify(
        "textDocument/didOpen",
        json!({"textDocument": {"uri": world.uri("print.ts"), "languageId": "text", "version": 0, "text": longer}}),
    );
    client.decide(&client.next_approval(&session), "allow");
    let request = client.server_asks("workspace/applyEdit");
    assert_eq!(world.read("cart.ts"), Some(CART.replace("total()", "sum()")));
    client.reply(
        &request,
        json!({"applied": false, "failureReason": "not modifiable"}),
    );
    client.prompt_result(&id);
    let text = result(&world, 1);
    assert!(
        text.contains("`print.ts` has changed since the user was asked; nothing was changed"),
        "{text}"
    );
    let text = result(&world, 2);
    assert!(
        text.contains("no file was changed: `print.ts` was not changed: the editor refused: not modifiable"),
        "{text}"
    );
    assert_eq!(world.read("cart.ts").as_deref(), Some(CART));
    assert_eq!(world.read("print.ts"), Some(longer));
}

#[test]
fn a_rename_needs_the_permission_for_every_file_and_text_that_fits() {
    let world = World::new();
    world.write("cart.ts", CART);
    world.write("print.ts", PRINT);
    world.configure(Config {
        tables: "[approvals]\ndeny = [\"edit_file(print.ts)\"]\n".to_owned(),
        ..Config::default()
    });
    let args = json!({"symbol": "total", "path": "cart.ts", "line": 3, "new_name": "sum"});
    for _ in 0..3 {
        world.mock().push(Reply::tool("rename_symbol", args.clone()));
    }
    let client = start(&world);
    let id = client.prompt(&client.session_with(json!({"mode": "full"})), "rename it");
    client.reply(&query(&client, "rename"), rename_edits(&world));
    // A position beyond the end of the file.
    let only = json!([{"uri": world.uri("cart.ts"), "edits": [{"range": range((40, 0), (40, 5)), "newText": "sum"}]}]);
    let edit = |at: Value| json!({"range": at, "newText": "sum"});
    let overlapping = [edit(range((2, 2), (2, 7))), edit(range((2, 4), (2, 7)))];
    let overlapping = json!([{"uri": world.uri("cart.ts"), "edits": overlapping}]);
    for edits in [&only, &overlapping] {
        client.reply(&query(&client, "rename"), json!({"edits": edits}));
    }
    client.prompt_result(&id);
    assert!(
        result(&world, 1).contains("denied by the rule `edit_file(print.ts)`"),
        "{}",
        result(&world, 1)
    );
    assert!(
        result(&world, 2).contains("is not as the language servers know it"),
        "{}",
        result(&world, 2)
    );
    let overlap = result(&world, 3);
    assert!(overlap.contains("replace a part of `cart.ts` twice"), "{overlap}");
    assert_eq!(world.read("cart.ts").as_deref(), Some(CART));
}

#[test]
fn a_rename_that_is_more_than_a_rename_is_refused_before_anybody_is_asked() {
    let world = World::new();
    world.write("cart.ts", CART);
    world.write("print.ts", PRINT);
    for name in ["", "a b", "sum", "sum", "sum", "sum"] {
        let args = json!({"symbol": "total", "path": "cart.ts", "line": 3, "new_name": name});
        world.mock().push(Reply::tool("rename_symbol", args));
    }
    let client = start(&world);
    let session = client.session();
    let id = client.prompt(&session, "rename it");
    let file = |uri: String, edits: Value| json!({"edits": [{"uri": uri, "edits": edits}]});
    // A file that the workspace does not have.
    let elsewhere = json!([{"range": range((0, 0), (0, 5)), "newText": "sum"}]);
    client.reply(
        &query(&client, "rename"),
        file("file:///elsewhere/x.ts".to_owned(), elsewhere),
    );
    // Other text.
    for edit in [range((3, 11), (3, 14)), range((2, 2), (3, 10))] {
        let edits = json!([{"range": edit, "newText": "sum"}]);
        client.reply(&query(&client, "rename"), file(world.uri("cart.ts"), edits));
    }
    // The right place, but more than the name.
    let edits = json!([{"range": range((2, 2), (2, 7)), "newText": "sum(){};evil"}]);
    client.reply(&query(&client, "rename"), file(world.uri("cart.ts"), edits));
    client.prompt_result(&id);
    assert!(client.all(&session, "agent/approvalRequested").is_empty());
    for (request, words) in [
        (1, "new_name: `` is no name"),
        (2, "new_name: `a b` is no name"),
        (3, "x.ts`, which is outside the workspace"),
        (
            4,
            "also change other text than the symbol's name, in line 4 of `cart.ts`",
        ),
        (
            5,
            "also change other text than the symbol's name, in line 3 of `cart.ts`",
        ),
        (
            6,
            "also change other text than the symbol's name, in line 3 of `cart.ts`",
        ),
    ] {
        let text = result(&world, request);
        assert!(text.contains(words), "{text}");
    }
    assert_eq!(world.read("cart.ts").as_deref(), Some(CART));
}

#[test]
fn a_rename_may_complete_and_shorten_shorthands() {
    let world = World::new();
    let text = "const total = 1;\nsend({ total });\nconst { total: sum } = get();\nexport { total };\n";
    world.write("a.ts", text);
    let args = json!({"symbol": "total", "path": "a.ts", "line": 1, "new_name": "sum"});
    world.mock().push(Reply::tool("rename_symbol", args));
    let client = start(&world);
    let id = client.prompt(&client.session_with(json!({"mode": "full"})), "rename it");
    let edits = json!([
        {"range": range((0, 6), (0, 11)), "newText": "sum"},
        {"range": range((1, 12), (1, 12)), "newText": ": sum"},
        {"range": range((2, 8), (2, 15)), "newText": ""},
        {"range": range((3, 9), (3, 14)), "newText": "sum as total"},
    ]);
    let edits = json!({"edits": [{"uri": world.uri("a.ts"), "edits": edits}]});
    client.reply(&query(&client, "rename"), edits);
    client.prompt_result(&id);
    let expected =
        "const sum = 1;\nsend({ total: sum });\nconst { sum } = get();\nexport { sum as total };\n";
    assert_eq!(world.read("a.ts").as_deref(), Some(expected));
}

/// Answers with quick fixes: a preferred one for both files after another one.
fn reply_with_fixes(client: &Client, world: &World) {
    let request = query(client, "quickFixes");
    assert_eq!(request.params["uri"], world.uri("print.ts"));
    assert_eq!(request.params["position"], json!({"line": 3, "character": 0}));
    let at_end = json!([{"range": range((6, 0), (6, 0)), "newText": "// sum\n"}]);
    let other = json!([{"uri": world.uri("cart.ts"), "edits": at_end}]);
    let best = rename_edits(world)["edits"].clone();
    client.reply(
        &request,
        json!({"fixes": [
            {"title": "Declare\n'total'", "edits": other},
            {"title": "Use 'sum'", "isPreferred": true, "edits": best},
        ]}),
    );
}

#[test]
fn a_quick_fix_is_listed_unasked_and_made_after_an_approval() {
    let world = World::new();
    world.write("cart.ts", CART);
    world.write("print.ts", PRINT);
    let fix = |title: &str| json!({"path": "print.ts", "line": 4, "fix": title});
    world.mock().push(
        Reply::new()
            .call("fix_code", json!({"path": "print.ts", "line": 4}))
            .call("fix_code", fix("Use 'sum'"))
            .call("read_file", json!({"path": "print.ts"})),
    );
    world.mock().push(Reply::tool("fix_code", fix("Declare 'total'")));
    let client = start(&world);
    let session = client.session();
    let id = client.prompt(&session, "fix it");
    reply_with_fixes(&client, &world);
    // The only question: what is judged and shown is what is made.
    reply_with_fixes(&client, &world);
    let approval = client.next_approval(&session);
    let diff = approval.text("diff");
    assert!(diff.contains("+++ b/cart.ts\n"), "{diff}");
    assert!(diff.contains("+  show(cart.sum());"), "{diff}");
    assert_eq!(world.read("print.ts").as_deref(), Some(PRINT));
    client.decide(&approval, "allow");
    reply_with_fixes(&client, &world);
    let approval = client.next_approval(&session);
    client.decide(&approval, "allow");
    let turn = client.prompt_result(&id);
    assert_eq!(client.all(&session, "agent/approvalRequested").len(), 2);
    assert_eq!(client.server_requests(), 0);
    let text = result(&world, 1);
    assert!(
        text.contains("The editor offers:\\nUse 'sum'\\nDeclare 'total'\""),
        "{text}"
    );
    let made = "applied `Use 'sum'`:\\nprint.ts (+1 −1 lines)\\ncart.ts (+1 −1 lines)\\n--- a/print.ts\\n+++ b/print.ts\\n";
    assert!(text.contains(made), "{text}");
    assert!(text.contains("4\\t  show(cart.sum());"), "the read waits: {text}");
    let fixed = CART.replace("total()", "sum()");
    assert_eq!(world.read("cart.ts"), Some(format!("{fixed}// sum\n")));
    let _: Value = client.call(
        "agent/revert",
        json!({"sessionId": session, "turnId": turn.turn_id}),
    );
    assert_eq!(world.read("cart.ts").as_deref(), Some(CART));
    assert_eq!(world.read("print.ts").as_deref(), Some(PRINT));
}

#[test]
fn a_fix_that_the_editor_does_not_offer_is_refused_with_those_that_it_does() {
    let world = World::new();
    world.write("cart.ts", CART);
    world.write("print.ts", PRINT);
    let fix = json!({"path": "print.ts", "line": 4, "fix": "Use 'sums'"});
    for args in [
        json!({"path": "print.ts"}),
        json!({"path": "print.ts", "fix": "Use 'sums'"}),
        fix.clone(),
        fix.clone(),
        fix,
        json!({"path": "print.ts", "line": 4}),
        json!({"path": "../print.ts", "line": 4, "fix": "Use 'sums'"}),
    ] {
        world.mock().push(Reply::tool("fix_code", args));
    }
    let client = start(&world);
    let session = client.session();
    let id = client.prompt(&session, "fix it");
    reply_with_fixes(&client, &world);
    client.reply(&query(&client, "quickFixes"), json!({}));
    let error = json!({"code": -32803, "message": "the language server is not ready"});
    let refusal = json!({"jsonrpc": "2.0", "id": query(&client, "quickFixes").id, "error": error});
    client.frame(refusal.to_string().as_bytes());
    client.reply(&query(&client, "quickFixes"), Value::Null);
    client.prompt_result(&id);
    assert!(client.all(&session, "agent/approvalRequested").is_empty());
    for (request, words) in [
        (1, "give the `line` of the problem"),
        (2, "give the `line` of the problem"),
        (
            3,
            "no fix is called `Use 'sums'`. The editor offers:\\nUse 'sum'\\nDeclare 'total'\"",
        ),
        (4, "The editor offers no fix for this line."),
        (5, "the editor refused: the language server is not ready"),
        (6, "\"The editor offers no fix for this line.\""),
        (7, "outside the workspace"),
    ] {
        let text = result(&world, request);
        assert!(text.contains(words), "{text}");
    }
    assert_eq!(world.read("print.ts").as_deref(), Some(PRINT));
}

#[test]
fn a_fix_is_not_made_in_another_text_or_after_a_cancel() {
    let world = World::new();
    world.write("cart.ts", CART);
    world.write("print.ts", PRINT);
    let args = json!({"path": "print.ts", "line": 4, "fix": "Use 'sum'"});
    let gate = Gate::new();
    world.mock().push(Reply::tool("fix_code", args.clone()));
    world
        .mock()
        .push(Reply::tool("fix_code", args.clone()).gate(&gate));
    world.mock().push(Reply::tool("fix_code", args.clone()));
    let client = start_with(
        &world,
        json!({"applyEdit": true, "workspaceEdit": {"documentChanges": true}}),
    );
    let uri = world.uri("print.ts");
    let change = |version: u32, text: &str| {
        let document = json!({"uri": uri, "version": version});
        let changes = json!([{"text": text}]);
        client.notify(
            "textDocument/didChange",
            json!({"textDocument": document, "contentChanges": changes}),
        );
    };
    client.notify(
        "textDocument/didOpen",
        json!({"textDocument": {"uri": uri, "languageId": "text", "version": 1, "text": PRINT}}),
    );
    let session = client.session();
    let id = client.prompt(&session, "fix it");
    // While the language server computes.
    let request = client.server_asks(ASK);
    change(2, &format!("// new\n{PRINT}"));
    client.reply(
        &request,
        json!({"fixes": [{"title": "Use 'sum'", "edits": rename_edits(&world)["edits"]}]}),
    );
    // While the user is asked, in the next call.
    world.wait_at_gate(&gate);
    change(3, PRINT);
    // The call begins after the server knows the change.
    client.settled();
    gate.release();
    reply_with_fixes(&client, &world);
    let approval = client.next_approval(&session);
    change(4, &format!("{PRINT}// new\n"));
    client.decide(&approval, "allow");
    // While the editor is asked for the edit, which names the version that it is for.
    reply_with_fixes(&client, &world);
    client.decide(&client.next_approval(&session), "allow");
    let request = client.server_asks("workspace/applyEdit");
    let document = &request.params["edit"]["documentChanges"][0]["textDocument"];
    assert_eq!(*document, json!({"uri": uri, "version": 4}));
    client.reply(&request, json!({"applied": false, "failureReason": "newer text"}));
    client.prompt_result(&id);
    for (request, words) in [
        (1, "`print.ts` is not as the language servers know it; try again"),
        (
            2,
            "`print.ts` has changed since the user was asked; nothing was changed",
        ),
        (3, "`print.ts` was not changed: the editor refused: newer text"),
    ] {
        let text = result(&world, request);
        assert!(text.contains(words), "{text}");
    }
    world.mock().push(Reply::tool("fix_code", args));
    let id = client.prompt(&session, "again");
    let request = query(&client, "quickFixes");
    client.cancel(&session);
    assert_eq!(json!(client.prompt_result(&id).state), "cancelled");
    client.server_cancels(&request);
    assert_eq!(world.read("cart.ts").as_deref(), Some(CART));
    assert_eq!(world.read("print.ts").as_deref(), Some(PRINT));
}

#[test]
fn a_fix_needs_the_permission_for_every_file_and_stays_in_the_workspace() {
    let world = World::new();
    world.write("cart.ts", CART);
    world.write("print.ts", PRINT);
    world.configure(Config {
        tables: "[approvals]\ndeny = [\"edit_file(cart.ts)\"]\n".to_owned(),
        ..Config::default()
    });
    let args = json!({"path": "print.ts", "line": 4, "fix": "Use 'sum'"});
    for _ in 0..2 {
        world.mock().push(Reply::tool("fix_code", args.clone()));
    }
    let client = start(&world);
    let id = client.prompt(&client.session_with(json!({"mode": "full"})), "fix it");
    reply_with_fixes(&client, &world);
    let elsewhere = json!([{"uri": "file:///elsewhere/x.ts", "edits": [{"range": range((0, 0), (0, 0)), "newText": "x"}]}]);
    client.reply(
        &query(&client, "quickFixes"),
        json!({"fixes": [{"title": "Use 'sum'", "edits": elsewhere}]}),
    );
    client.prompt_result(&id);
    for (request, words) in [
        (1, "denied by the rule `edit_file(cart.ts)`"),
        (2, "x.ts`, which is outside the workspace"),
    ] {
        let text = result(&world, request);
        assert!(text.contains(words), "{text}");
    }
    assert_eq!(world.read("print.ts").as_deref(), Some(PRINT));
}

#[test]
fn a_file_is_formatted_after_an_approval_and_only_if_that_changes_it() {
    let world = World::new();
    world.write("a.ts", "let a=1;\r\nlet  b;");
    for line in 1..5 {
        // The line makes the calls differ; the formatter does not need it.
        let args = json!({"path": "a.ts", "fix": "format", "line": line});
        world.mock().push(Reply::tool("fix_code", args));
    }
    let client = start(&world);
    let session = client.session();
    let id = client.prompt(&session, "format it");
    let format = |edits: Value| {
        let request = query(&client, "format");
        assert_eq!(request.params.get("position"), None);
        client.reply(
            &request,
            json!({"edits": [{"uri": world.uri("a.ts"), "edits": edits}]}),
        );
    };
    format(json!([
        {"range": range((1, 3), (1, 5)), "newText": " "},
        {"range": range((0, 5), (0, 6)), "newText": " = "},
        {"range": range((1, 6), (1, 7)), "newText": ";\n"},
    ]));
    let approval = client.next_approval(&session);
    assert!(approval.text("diff").contains("+let a = 1;"), "{approval:?}");
    client.decide(&approval, "allow");
    client.reply(&query(&client, "format"), json!({}));
    format(json!([{"range": range((0, 0), (0, 3)), "newText": "let"}]));
    let error = json!({"code": -32803, "message": "no formatter"});
    let refusal = json!({"jsonrpc": "2.0", "id": query(&client, "format").id, "error": error});
    client.frame(refusal.to_string().as_bytes());
    client.prompt_result(&id);
    assert_eq!(client.all(&session, "agent/approvalRequested").len(), 1);
    assert_eq!(world.read("a.ts").as_deref(), Some("let a = 1;\r\nlet b;\r\n"));
    for (request, words) in [
        (1, "applied `format`:\\na.ts (+2 −2 lines)\\n--- a/a.ts\\n"),
        (2, "`format` changes nothing"),
        (3, "`format` changes nothing"),
        (4, "no formatter"),
    ] {
        let text = result(&world, request);
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn tools_are_missing_without_the_client_capability() {
    let list_tools = |client: &Client, world: &World| {
        client.ask(&client.session(), "hello");
        world.wait_for_request(0).body["tools"].to_string()
    };
    let world = World::new();
    let client = world.start();
    let tools = list_tools(&client, &world);
    for name in [
        "find_symbol",
        "find_references",
        "go_to_definition",
        "rename_symbol",
        "fix_code",
    ] {
        assert!(!tools.contains(name), "{name}");
    }
    // An older client knows fewer kinds; and without the request, further kinds mean nothing.
    for (flags, has_rename) in [
        (json!({"languageQueries": true}), true),
        (json!({"languageQueries": true, "codeFixes": false}), true),
        (json!({"codeFixes": true}), false),
    ] {
        let world = World::new();
        let client = start_with_flags(&world, json!({}), flags);
        let tools = list_tools(&client, &world);
        assert_eq!(tools.contains("rename_symbol"), has_rename, "{tools}");
        assert!(!tools.contains("fix_code"), "{tools}");
    }
}
