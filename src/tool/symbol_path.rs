//! Qualified names of symbols, in the forms in which language servers and models write them.
//!
//! A path is the words of a name, from the outside: `Cart.total`, `Cart::total()`, `(*Cart).total`, and `(get) total` in
//! `impl Show for Cart` are all `Cart` and `total`. Must not ask the editor; see [`super::locate_symbol`].

use std::cmp::Reverse;

use super::{EditorLocation, EditorSymbol};
use crate::base::position::Range;

/// Splits a name into its path. Arguments, generics, and all before the last blank are left out.
pub(super) fn split_path(name: &str) -> Vec<String> {
    let name = name.trim().trim_start_matches("(anonymous namespace)");
    // C++'s operators end with their sign.
    let is_operator = |at: &usize| name[at + 8..].starts_with(|next| "([<>=+-*/%^&|~!, ".contains(next));
    let operator = name.find("operator").filter(is_operator);
    let (name, operator) = name.split_at(operator.unwrap_or(name.len()));
    let name = name.split_once(" : ").map_or(name, |(name, _)| name);
    let name = name.replace("->", ".").replace("?.", ".");
    let (mut plain, mut depth) = (String::new(), 0_usize);
    // Go's receivers begin with a bracket.
    for letter in name.trim_start_matches('(').chars() {
        match letter {
            '(' | '[' | '<' | '{' => depth += 1,
            ')' | ']' | '>' | '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    let own = plain.split_whitespace().next_back().unwrap_or_default();
    // Elixir's and Erlang's functions end with the number of their arguments.
    let own = match own.rsplit_once('/') {
        Some((name, count)) if count.parse::<u8>().is_ok() && !name.contains(['/', '\\']) => name,
        _ => own,
    };
    // PHP's namespaces; a single one is a macro of LaTeX, and CSS escapes signs.
    let mut inner = own.split('\\').skip(1);
    let is_namespace = own.matches('\\').count() > usize::from(own.starts_with('\\'))
        && inner.all(|word| word.starts_with(|letter: char| letter.is_alphabetic() || letter == '_'));
    let own = own.replace(if is_namespace { '\\' } else { '.' }, ".");
    let words = own
        .split(['.', ':', '#'])
        .map(|word| word.trim_matches(['"', '`', '*', '&']));
    let words = words.chain([operator]).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

pub(super) fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '$')
}

/// Returns how many words of `wanted` a symbol of this path has, from the end; `None` if it is another symbol. Either
/// may lack the outermost words, but the symbol must be in what `wanted` says that it is in.
pub(super) fn match_path(path: &[String], wanted: &[String]) -> Option<usize> {
    let pairs = path.iter().rev().zip(wanted.iter().rev());
    let count = pairs.take_while(|(own, wanted)| own == wanted).count();
    (count == path.len().min(wanted.len()) && count >= wanted.len().min(2)).then_some(count)
}

/// Returns the path of a symbol among those of its document.
pub(super) fn path_of(symbol: &EditorSymbol, outline: &[EditorSymbol]) -> Vec<String> {
    let around = find_containers(outline, &symbol.location).into_iter();
    let mut names: Vec<&str> = around.map(|one| one.name.as_str()).collect();
    let container = symbol.container.as_deref();
    // A field can be declared in a method of its class.
    let known = container.and_then(|container| names.iter().rposition(|name| *name == container));
    names.truncate(known.map_or(names.len(), |at| at + 1));
    names.extend(container.filter(|_| known.is_none()));
    names.push(&symbol.name);
    names.into_iter().flat_map(split_path).collect()
}

/// Returns the path of the symbol `name` that is declared at `at`. Language servers do not list each field that a method
/// declares by an assignment. Empty if nothing is known. `is_member`: a function cannot contain it.
pub(super) fn path_at(
    outline: &[EditorSymbol],
    at: &EditorLocation,
    name: &str,
    is_member: bool,
) -> Vec<String> {
    let around = find_containers(outline, at).into_iter();
    let around = around.map(|one| (one.kind, split_path(&one.name)));
    let is_named = |path: &[String]| path.last().is_some_and(|own| own == name);
    let around = around.filter(|(kind, path)| !is_member || !is_callable(*kind) || is_named(path));
    let mut path: Vec<String> = around.flat_map(|(_, path)| path).collect();
    if !is_named(&path) && !path.is_empty() {
        path.push(name.to_owned());
    }
    path
}

fn find_containers<'o>(outline: &'o [EditorSymbol], inner: &EditorLocation) -> Vec<&'o EditorSymbol> {
    let is_around =
        |outer: Range, inner: Range| outer.start <= inner.start && inner.end <= outer.end && outer != inner;
    let mut around: Vec<&EditorSymbol> = (outline.iter())
        .filter(|one| is_around(one.location.range, inner.range))
        .filter(|one| one.location.uri == inner.uri)
        .collect();
    around.sort_by_key(|one| (one.location.range.start, Reverse(one.location.range.end)));
    around
}

pub(super) fn is_callable(kind: u32) -> bool {
    // Method, constructor, function.
    [6, 9, 12].contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::position::Position;

    #[test]
    fn a_name_is_understood_as_servers_and_models_write_it() {
        for (name, path) in [
            ("total", "total"),
            ("Cart.total", "Cart total"),
            ("shop::Cart::total()", "shop Cart total"),
            ("Cart#total(items)", "Cart total"),
            ("cart->total", "cart total"),
            ("(*Cart).Total", "Cart Total"),
            ("(Cart).Total", "Cart Total"),
            ("(*Stack[T]).Push", "Stack Push"),
            ("Box<T>::get", "Box get"),
            ("add(int, a.b) : int", "add"),
            ("(get) total", "total"),
            ("impl Cart", "Cart"),
            ("impl<T> fmt::Display for Box<T>", "Box"),
            ("xs.each() callback", "callback"),
            ("(anonymous namespace)", ""),
            ("Cart::operator()", "Cart operator()"),
            ("operator->", "operator->"),
            ("operators.add", "operators add"),
            ("operator.add", "operator add"),
            ("operator bool", "operator bool"),
            ("Cart::~Cart", "Cart ~Cart"),
            ("\"quoted\"", "quoted"),
            ("[Symbol.iterator]", ""),
            ("#secret", "secret"),
            ("$total", "$total"),
            (".btn-primary", "btn-primary"),
            ("@keyframes spin", "spin"),
            ("--main-color", "--main-color"),
            ("App\\Models\\User::find", "App Models User find"),
            ("\\Shop\\Cart", "Shop Cart"),
            ("\\newcommand", "\\newcommand"),
            (".w-1\\/2", "w-1\\/2"),
            ("Cart.total/1", "Cart total"),
            ("def total/2", "total"),
            ("/users/1", "/users/1"),
            ("", ""),
        ] {
            assert_eq!(split_path(name).join(" "), path, "{name}");
        }
    }

    #[test]
    fn a_path_ends_with_the_container_that_the_server_names() {
        let symbol = |name: &str, container: Option<&str>, lines: (u32, u32)| {
            let [start, end] = [lines.0, lines.1].map(|line| Position { line, character: 0 });
            EditorSymbol {
                name: name.to_owned(),
                kind: 6,
                location: EditorLocation {
                    uri: "file:///x".to_owned(),
                    range: Range { start, end },
                },
                selection: None,
                container: container.map(str::to_owned),
            }
        };
        let mut outline = vec![
            symbol("Cart", None, (0, 9)),
            symbol("__init__", Some("Cart"), (1, 5)),
            symbol("total", Some("Cart"), (3, 4)),
            symbol("sum", Some("__init__"), (4, 5)),
            symbol("alone", Some("Order"), (12, 13)),
        ];
        let path = |index: usize, outline: &[EditorSymbol]| path_of(&outline[index], outline).join(".");
        assert_eq!(path(2, &outline), "Cart.total");
        assert_eq!(path(3, &outline), "Cart.__init__.sum");
        assert_eq!(path(4, &outline), "Order.alone");
        outline[0].location.uri = "file:///y".to_owned();
        assert_eq!(path(3, &outline), "__init__.sum");
    }

    #[test]
    fn a_qualifier_must_be_the_container() {
        let matches = |path, wanted| match_path(&split_path(path), &split_path(wanted));
        assert_eq!(matches("shop.Cart.total", "total"), Some(1));
        assert_eq!(matches("shop.Cart.total", "Cart.total"), Some(2));
        assert_eq!(matches("Cart.total", "shop.Cart.total"), Some(2));
        for wanted in ["Order.total", "shop.total", "mall.Cart.total", "Cart.totals"] {
            assert_eq!(matches("shop.Cart.total", wanted), None, "{wanted}");
        }
        assert_eq!(matches("total", "Cart.total"), None);
        assert_eq!(matches("", "total"), None);
    }
}
