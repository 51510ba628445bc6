//! Which symbol a qualified name means to the tools that ask the editor's language servers (R-LANG).

use serde_json::{Value, json};

use crate::harness::World;
use crate::language::{query, range, result, start};
use crate::mock_llm::Reply;

const SHOP: &str = "package shop\n\n// Total sums.\nfunc (i *Invoice) Total() int { return i.c.Total() }\n\n\
                    func (c *Cart) Total() int { return c.n }\n";

/// The outline of `shop.go`, with the names that gopls gives.
fn shop_symbols(world: &World) -> Value {
    let method = |name: &str, line: u32, start: u32, end: u32| {
        json!({"name": name, "kind": 6, "uri": world.uri("shop.go"), "range": range((line, 0), (line, end)),
            "selectionRange": range((line, start), (line, start + 5))})
    };
    json!({"symbols": [method("(*Invoice).Total", 3, 18, 52), method("(*Cart).Total", 5, 15, 41)]})
}

fn rename(world: &World, symbol: &str, path: &str, new_name: &str) {
    let args = json!({"symbol": symbol, "path": path, "new_name": new_name});
    world.mock().push(Reply::tool("rename_symbol", args));
}

fn edits(uri: &str, places: &[Value], text: &str) -> Value {
    let edits = places.iter().map(|at| json!({"range": at, "newText": text}));
    json!({"edits": [{"uri": uri, "edits": edits.collect::<Vec<_>>()}]})
}

#[test]
fn a_rename_changes_the_method_of_the_named_receiver_or_none() {
    for symbol in ["Cart.Total", "(*Cart).Total"] {
        let world = World::new();
        world.write("shop.go", SHOP);
        rename(&world, symbol, "shop.go", "Sum");
        rename(&world, "Order.Sum", "shop.go", "Amount");
        let client = start(&world);
        let id = client.prompt(&client.session_with(json!({"mode": "full"})), "rename it");
        client.reply(&query(&client, "documentSymbols"), shop_symbols(&world));
        let request = query(&client, "rename");
        assert_eq!(request.params["position"], json!({"line": 5, "character": 15}));
        let places = [range((3, 43), (3, 48)), range((5, 15), (5, 20))];
        client.reply(&request, edits(&world.uri("shop.go"), &places, "Sum"));
        // No receiver has this name, and nothing tells what the uses are.
        client.reply(&query(&client, "documentSymbols"), shop_symbols(&world));
        for _ in 0..2 {
            client.reply(&query(&client, "definition"), json!({}));
        }
        client.prompt_result(&id);
        let text = result(&world, 1);
        let done = "shop.go:6: renamed `Cart.Total` to `Sum` in 2 places of 1 file:\\nshop.go";
        assert!(text.contains(done), "{text}");
        let renamed = SHOP
            .replace("i.c.Total", "i.c.Sum")
            .replace("Cart) Total", "Cart) Sum");
        assert_eq!(world.read("shop.go"), Some(renamed));
        let text = result(&world, 2);
        let refusal =
            "shop.go has no `Order.Sum`, but `i.c.Sum` (line 4), `Sum` (line 6); give one of these names";
        assert!(text.contains(refusal), "{text}");
    }
}

#[test]
fn a_getter_is_found_in_its_class() {
    let world = World::new();
    let text = "class Cart { total() {} }\nclass Order { get total() {} }\n";
    world.write("a.ts", text);
    rename(&world, "Order.total", "a.ts", "amount");
    let client = start(&world);
    let id = client.prompt(&client.session_with(json!({"mode": "full"})), "rename it");
    let uri = world.uri("a.ts");
    let symbol = |name: &str, class: &str, line: u32, at: u32| {
        json!({"name": name, "kind": 6, "uri": uri, "range": range((line, at), (line, at + 5)),
            "selectionRange": range((line, at), (line, at + 5)), "containerName": class})
    };
    let symbols = [
        symbol("total", "Cart", 0, 13),
        symbol("(get) total", "Order", 1, 18),
    ];
    client.reply(&query(&client, "documentSymbols"), json!({"symbols": symbols}));
    let request = query(&client, "rename");
    assert_eq!(request.params["position"], json!({"line": 1, "character": 18}));
    client.reply(&request, edits(&uri, &[range((1, 18), (1, 23))], "amount"));
    client.prompt_result(&id);
    assert_eq!(world.read("a.ts"), Some(text.replace("get total", "get amount")));
    let done = "a.ts:2: renamed `Order.total` to `amount`";
    assert!(result(&world, 1).contains(done), "{}", result(&world, 1));
}

#[test]
fn a_line_with_two_symbols_of_a_name_is_renamed_only_with_a_qualifier() {
    let world = World::new();
    let text = "class Cart:\n  def __init__(self, total):\n    self.total = total\n";
    world.write("a.py", text);
    for symbol in ["total", "self.total"] {
        let args = json!({"symbol": symbol, "path": "a.py", "line": 3, "new_name": "sum"});
        world.mock().push(Reply::tool("rename_symbol", args));
    }
    let client = start(&world);
    let id = client.prompt(&client.session_with(json!({"mode": "full"})), "rename it");
    let uri = world.uri("a.py");
    for _ in 0..2 {
        client.reply(&query(&client, "documentSymbols"), json!({"symbols": []}));
        for _ in 0..2 {
            let request = query(&client, "definition");
            let at = match request.params["position"]["character"].as_u64() {
                Some(9) => range((2, 9), (2, 14)),
                _ => range((1, 21), (1, 26)),
            };
            client.reply(&request, json!({"locations": [{"uri": uri, "range": at}]}));
        }
    }
    let request = query(&client, "rename");
    assert_eq!(request.params["position"], json!({"line": 2, "character": 9}));
    client.reply(&request, edits(&uri, &[range((2, 9), (2, 14))], "sum"));
    client.prompt_result(&id);
    let refusal = "`total` in a.py may be `self.total` (line 3), `total` (line 2); give one";
    assert!(result(&world, 1).contains(refusal), "{}", result(&world, 1));
    assert_eq!(world.read("a.py"), Some(text.replace("self.total", "self.sum")));
}

#[test]
fn a_class_of_css_keeps_its_dot() {
    let world = World::new();
    let text = ".btn-primary { top: 0 }\n.x .btn-primary { top: 1px }\n.btn-primary-lg { top: 2px }\n";
    world.write("a.css", text);
    for (symbol, name) in [
        (".btn-primary", "button"),
        ("btn-primary", "button"),
        (".btn-primary", ".button"),
    ] {
        rename(&world, symbol, "a.css", name);
    }
    let client = start(&world);
    let id = client.prompt(&client.session_with(json!({"mode": "full"})), "rename it");
    let uri = world.uri("a.css");
    for name in ["button", ".button"] {
        let class = json!({"name": ".btn-primary", "kind": 5, "uri": uri, "range": range((0, 0), (0, 23)),
            "selectionRange": range((0, 0), (0, 12))});
        client.reply(&query(&client, "documentSymbols"), json!({"symbols": [class]}));
        let request = query(&client, "rename");
        let places = [range((0, 0), (0, 12)), range((1, 3), (1, 15))];
        client.reply(&request, edits(&uri, &places, name));
    }
    client.prompt_result(&id);
    assert!(result(&world, 1).contains("such as `.`, `#`, or `?`: `.button`"));
    for (request, words) in [
        (
            1,
            "new_name: `button` is no name; give one of letters, digits, `_`, `$`, and `-`, with the signs",
        ),
        (
            2,
            "also change other text than the symbol's name, in line 2 of `a.css`",
        ),
        (
            3,
            "a.css:1: renamed `btn-primary` to `.button` in 2 places of 1 file",
        ),
    ] {
        assert!(
            result(&world, request).contains(words),
            "{}",
            result(&world, request)
        );
    }
    let renamed = text.replace(".btn-primary {", ".button {");
    assert_eq!(world.read("a.css"), Some(renamed));
}

#[test]
fn a_symbol_of_the_workspace_is_found_by_its_qualified_name() {
    let world = World::new();
    world.write(
        "a.ts",
        "class Cart { total() {} }\nclass Order { total() {} }\nfunction total() {}\n",
    );
    for name in ["Cart.total", "cart::tot", "Shop.total", "Shop.to"] {
        world
            .mock()
            .push(Reply::tool("find_symbol", json!({"name": name})));
    }
    let client = start(&world);
    let id = client.prompt(&client.session(), "where is it?");
    for name in ["total", "tot", "total", "to"] {
        let request = query(&client, "workspaceSymbols");
        assert_eq!(request.params["query"], name);
        let symbol = |line: u32, class: Option<&str>| {
            json!({"name": "total", "kind": 6, "uri": world.uri("a.ts"), "range": range((line, 0), (line, 19)),
                "containerName": class})
        };
        let symbols = [symbol(0, Some("Cart")), symbol(1, Some("Order")), symbol(2, None)];
        client.reply(&request, json!({"symbols": symbols}));
    }
    client.prompt_result(&id);
    for request in [1, 2] {
        let text = result(&world, request);
        let cart = "\"a.ts:1: class Cart { total() {} }  (method total in Cart)\\n\"";
        assert!(text.contains(cart), "{text}");
    }
    // What contains the third symbol is not known.
    let text = result(&world, 3);
    assert!(
        text.contains("\"a.ts:3: function total() {}  (method total)\\n\""),
        "{text}"
    );
    assert!(
        result(&world, 4).contains("know no such symbol"),
        "{}",
        result(&world, 4)
    );
}
