//! Tests of the positions of symbols, with language servers that are simulated.

use std::sync::Arc;

use futures::future::BoxFuture;
use secrecy::SecretString;

use super::super::testing::ToolHarness;
use super::super::{DocumentEdit, EditorAbilities, EditorLink, NoEditor, language};
use super::*;
use crate::base::position::Range;
use crate::base::uri;

/// The line, the column, and the name of a symbol, or words of the refusal.
type Expected<'a> = Result<(u32, u32, &'a str), &'a str>;

fn range(start: (u32, u32), end: (u32, u32)) -> Range {
    let at = |(line, character)| Position { line, character };
    Range {
        start: at(start),
        end: at(end),
    }
}

/// A language server: the outline of a file, and where the symbols at its positions are defined.
#[derive(Default)]
struct Server {
    outlines: BTreeMap<String, Vec<EditorSymbol>>,
    definitions: BTreeMap<(u32, u32), (String, Range)>,
}

impl EditorLink for Server {
    fn abilities(&self) -> EditorAbilities {
        EditorAbilities::default()
    }

    fn apply(&self, edit: DocumentEdit) -> BoxFuture<'static, Result<(), EditorError>> {
        NoEditor.apply(edit)
    }

    fn save_document(&self, uri: String) -> BoxFuture<'static, Result<Option<String>, EditorError>> {
        NoEditor.save_document(uri)
    }

    fn request_credential(
        &self,
        provider: String,
    ) -> BoxFuture<'static, Result<Option<SecretString>, EditorError>> {
        NoEditor.request_credential(provider)
    }

    fn query_language(
        &self,
        query: LanguageQuery,
    ) -> BoxFuture<'static, Result<LanguageAnswer, EditorError>> {
        let uri = query.uri.unwrap();
        let mut answer = LanguageAnswer::default();
        if let Some(at) = query.position {
            let definition = self.definitions.get(&(at.line, at.character)).cloned();
            let definition = definition.map(|(uri, range)| EditorLocation { uri, range });
            answer.locations.extend(definition);
        } else {
            answer.symbols = self.outlines.get(&uri).cloned().unwrap_or_default();
        }
        Box::pin(async { Ok(answer) })
    }
}

/// A file `a` of this text, and its language server.
struct Fixture {
    harness: ToolHarness,
    server: Server,
    text: &'static str,
}

impl Fixture {
    fn new(text: &'static str) -> Self {
        let harness = ToolHarness::new();
        harness.write("a", text);
        Self {
            harness,
            server: Server::default(),
            text,
        }
    }

    fn uri(&self, file: &str) -> String {
        uri::uri_of(&self.harness.path(file))
    }

    fn add(&mut self, file: &str, name: &str, kind: u32, container: Option<&str>, at: (Range, Range)) {
        let uri = self.uri(file);
        let symbol = EditorSymbol {
            name: name.to_owned(),
            kind,
            location: EditorLocation {
                uri: uri.clone(),
                range: at.0,
            },
            selection: Some(at.1),
            container: container.map(str::to_owned),
        };
        self.server.outlines.entry(uri).or_default().push(symbol);
    }

    /// Declares a symbol of one line: `name` as the outline has it, at `word` in the line.
    fn declare(&mut self, line: u32, name: &str, container: Option<&str>, word: &str) {
        let text = self.text.lines().nth(line as usize).unwrap();
        let start = u32::try_from(text.find(word).unwrap()).unwrap();
        let end = start + u32::try_from(word.len()).unwrap();
        let whole = range((line, 0), (line, u32::try_from(text.len()).unwrap()));
        self.add(
            "a",
            name,
            6,
            container,
            (whole, range((line, start), (line, end))),
        );
    }

    /// Says that what is at the first place of `a` is defined at the second, which is in `file`.
    fn define(&mut self, used: (u32, u32), file: &str, at: (u32, u32)) {
        let location = (self.uri(file), range(at, (at.0, at.1 + 5)));
        self.server.definitions.insert(used, location);
    }

    async fn run(self, questions: &[(&str, Option<u32>, Expected<'_>)]) {
        let mut cx = self.harness.cx.clone();
        cx.editor = Arc::new(self.server);
        for (symbol, line, expected) in questions {
            let target = language::open_target(&cx, "a").await.ok().unwrap();
            let found = locate_symbol(&cx, &target, symbol, *line).await;
            match (found, expected) {
                (Ok(found), Ok((line, character, name))) => {
                    let at = (found.0.line, found.0.character, found.1.as_str());
                    assert_eq!(at, (*line, *character, *name), "{symbol}");
                }
                (Err(error), Err(words)) => {
                    let error = format!("{error:?}");
                    assert!(error.contains(words), "{symbol}: {error}");
                }
                (Ok(found), Err(_)) => panic!("{symbol}: {found:?}"),
                (Err(error), Ok(_)) => panic!("{symbol}: {error:?}"),
            }
        }
    }
}

#[test]
fn a_name_is_found_as_a_whole_word() {
    let text = "totals\nlet x$total = 1\ntotal_2 ätotal\n  (total)\r\ntotal total\n.btn-lg .btn";
    let find = |name| {
        let found = find_name(text, name).into_iter();
        found.map(|one| (one.line, one.before.len())).collect::<Vec<_>>()
    };
    assert_eq!(find("total"), [(3, 3), (4, 0), (4, 6)]);
    assert_eq!(
        find_name(text, "total")[0].offset,
        text.find("(total").unwrap() + 1
    );
    assert_eq!(find("btn-lg"), [(5, 1)]);
    assert_eq!(find_name("a-b-c a-b", "a-b").len(), 1);
}

#[tokio::test]
async fn methods_of_go_are_told_apart_by_their_receivers() {
    let mut fixture = Fixture::new(
        "// Total sums.\nfunc (i *Invoice) Total() {}\ntype Cart struct{}\nfunc (c *Cart) Total() {}\n",
    );
    fixture.declare(1, "(*Invoice).Total", None, "Total");
    fixture.declare(2, "Cart", None, "Cart");
    fixture.declare(3, "(*Cart).Total", None, "Total");
    let cart = Ok((3, 15, "Cart.Total"));
    let both = "`Total` in a may be `Invoice.Total` (line 2), `Cart.Total` (line 4)";
    let other = "a has no `Order.Total`, but `Total` (line 1), `Invoice.Total` (line 2), `Cart.Total` (line 4); give one";
    fixture
        .run(&[
            ("Cart.Total", None, cart),
            ("(*Cart).Total", None, cart),
            ("shop.Cart.Total", None, cart),
            ("Invoice.Total", None, Ok((1, 18, "Invoice.Total"))),
            ("Cart.Total", Some(4), cart),
            ("Total", Some(4), Ok((3, 15, "Total"))),
            ("Total", None, Err(both)),
            ("Order.Total", None, Err(other)),
            (
                "Cart.Total",
                Some(2),
                Err("a has no `Cart.Total`, but `Invoice.Total` (line 2)"),
            ),
        ])
        .await;
}

#[tokio::test]
async fn methods_defined_outside_their_class_are_told_apart_by_their_qualifiers() {
    let text = "#include \"cart.h\"\nint Cart::total() {}\nint f() { return o.total() + c.total(); }\n";
    let mut fixture = Fixture::new(text);
    let header = "class Base { int total(); };\nclass Cart { int total(); };\n";
    fixture.harness.write("cart.h", header);
    fixture.declare(1, "Cart::total", Some("shop"), "total");
    for (line, class) in [(0, "Base"), (1, "Cart")] {
        let (whole, name) = (range((line, 0), (line, 28)), range((line, 6), (line, 10)));
        fixture.add("cart.h", class, 5, None, (whole, name));
        let name = range((line, 17), (line, 22));
        fixture.add("cart.h", "total", 6, Some(class), (name, name));
    }
    fixture.define((1, 10), "cart.h", (1, 17));
    fixture.define((2, 19), "cart.h", (0, 17));
    fixture.define((2, 31), "cart.h", (1, 17));
    let order = "a has no `Order.total`, but `shop.Cart.total` (line 2), \
                 `Base.total` (line 3)";
    fixture
        .run(&[
            ("Cart::total", None, Ok((1, 10, "shop.Cart.total"))),
            ("Base::total", None, Ok((2, 19, "Base.total"))),
            ("Cart::total", Some(3), Ok((2, 31, "Cart.total"))),
            ("Order::total", None, Err(order)),
        ])
        .await;
}

#[tokio::test]
async fn getters_callbacks_and_implementations_have_their_own_names() {
    let text = "class Cart { total() {} }\nclass Order {\n  get total() {}\n  set total(x) {}\n}\nxs.each((x) => {});\n\
                function each() {}\nimpl Show for Cart {\n  fn new() {}\n}\nimpl Order {\n  fn new() {}\n}\n";
    let mut fixture = Fixture::new(text);
    fixture.declare(0, "Cart", None, "Cart");
    fixture.declare(0, "total", Some("Cart"), "total");
    let class = (range((1, 0), (4, 1)), range((1, 6), (1, 11)));
    fixture.add("a", "Order", 5, None, class);
    fixture.declare(2, "(get) total", Some("Order"), "total");
    fixture.declare(3, "(set) total", Some("Order"), "total");
    fixture.declare(5, "xs.each() callback", None, "(x) => {}");
    fixture.declare(6, "each", None, "each");
    for (line, name) in [(7, "impl Show for Cart"), (10, "impl Order")] {
        let places = (range((line, 0), (line + 2, 1)), range((line, 0), (line, 4)));
        fixture.add("a", name, 19, None, places);
        fixture.declare(line + 1, "new", Some(name), "new");
    }
    // The property is one symbol.
    for line in [2, 3] {
        fixture.define((line, 6), "a", (2, 6));
    }
    fixture.define((0, 13), "a", (0, 13));
    fixture
        .run(&[
            ("Order.total", None, Ok((2, 6, "Order.total"))),
            ("(set) total", Some(4), Ok((3, 6, "total"))),
            ("Cart.total", None, Ok((0, 13, "Cart.total"))),
            (
                "total",
                None,
                Err("may be `Cart.total` (line 1), `Order.total` (line 3); give"),
            ),
            ("each", None, Ok((6, 9, "each"))),
            ("Order::new", None, Ok((11, 5, "Order.new"))),
            ("Cart::new", None, Ok((8, 5, "Cart.new"))),
        ])
        .await;
}

#[tokio::test]
async fn a_private_field_is_not_its_getter() {
    let text = "class Cart {\n  #total = 0;\n  get total() { return this.#total; }\n}\nc.total;\n";
    let mut fixture = Fixture::new(text);
    let class = (range((0, 0), (3, 1)), range((0, 6), (0, 10)));
    fixture.add("a", "Cart", 5, None, class);
    let field = range((1, 2), (1, 8));
    fixture.add("a", "#total", 8, Some("Cart"), (field, field));
    fixture.declare(2, "(get) total", Some("Cart"), "total");
    fixture
        .run(&[
            ("Cart.#total", None, Ok((1, 3, "Cart.total"))),
            ("#total", None, Ok((1, 3, "Cart.total"))),
            ("#total", Some(3), Ok((2, 29, "total"))),
            ("Cart.total", None, Ok((2, 6, "Cart.total"))),
            ("Cart#total", None, Ok((2, 6, "Cart.total"))),
            ("total", Some(2), Ok((1, 3, "total"))),
        ])
        .await;
    let mut fixture = Fixture::new("type Alias = u8;\nfn r#type() {}\n");
    fixture.declare(1, "type", None, "r#type");
    fixture.run(&[("type", None, Ok((1, 5, "type")))]).await;
}

#[tokio::test]
async fn a_line_with_several_symbols_of_a_name_needs_a_qualifier() {
    let text = "class Cart:\n  def __init__(self, total):\n    self.total = total\n    let total = c.total\n# total\n";
    let mut fixture = Fixture::new(text);
    let class = (range((0, 0), (3, 23)), range((0, 6), (0, 10)));
    fixture.add("a", "Cart", 5, None, class);
    let method = (range((1, 2), (3, 23)), range((1, 6), (1, 14)));
    fixture.add("a", "__init__", 6, Some("Cart"), method);
    let parameter = range((1, 21), (1, 26));
    fixture.add("a", "total", 13, Some("__init__"), (parameter, parameter));
    let local = range((3, 8), (3, 13));
    fixture.add("a", "total", 13, Some("__init__"), (local, local));
    fixture.define((1, 21), "a", (1, 21));
    fixture.define((2, 9), "a", (2, 9));
    fixture.define((2, 17), "a", (1, 21));
    fixture.define((3, 8), "a", (3, 8));
    fixture.define((3, 18), "a", (2, 9));
    let both = "`total` in a may be `Cart.total` (line 3), `Cart.__init__.total` (line 2); give";
    fixture
        .run(&[
            ("total", Some(3), Err(both)),
            ("self.total", Some(3), Ok((2, 9, "Cart.total"))),
            ("total", Some(2), Ok((1, 21, "total"))),
            ("total", Some(4), Ok((3, 8, "Cart.__init__.total"))),
            // The field, which the outline lacks, and not the parameter.
            ("Cart.total", None, Ok((2, 9, "Cart.total"))),
            (
                "total",
                Some(6),
                Err("does not occur in line 6 of a, but in lines 2, 3, 4, 5"),
            ),
        ])
        .await;
}

#[tokio::test]
async fn uses_are_of_one_symbol_or_refused() {
    let mut fixture = Fixture::new("// total\nc.total() + d.total()\nname name\nonce\n");
    fixture.define((1, 2), "b", (0, 3));
    fixture.define((1, 14), "b", (0, 3));
    fixture
        .run(&[
            ("total", None, Ok((1, 2, "c.total"))),
            ("c.total", None, Ok((1, 2, "c.total"))),
            ("once", None, Ok((3, 0, "once"))),
            ("name", None, Err("`name` in a may be `name` (line 3); give")),
            (
                "Cart.once",
                None,
                Err("a has no `Cart.once`, but `once` (line 4)"),
            ),
            ("other", None, Err("`other` does not occur in a; find_symbol")),
            ("", None, Err("does not occur")),
        ])
        .await;
    let many: &'static str = Box::leak("total total\n".repeat(20).into_boxed_str());
    Fixture::new(many)
        .run(&[("total", None, Err("`total` occurs too often in a; give `line`"))])
        .await;
}
