//! Hundreds of bodies that no correct client sends, each with its one verdict.

use proptest::prelude::*;
use serde_json::{Value, json};
use tower_lsp::jsonrpc::{ErrorCode, Id, Response};

use super::{ClientMessage, MAX_VALUES, classify_message, protocol_error};
use crate::base::half_characters::replace_halves;

const PARSE: i64 = -32_700;
const INVALID: i64 = -32_600;

/// The expected verdict.
#[derive(Clone, Debug, PartialEq)]
enum ExpectedBody {
    /// Error code and id.
    Refused(i64, Value),
    Request(&'static str, Value),
    Notification(&'static str),
    /// Id and whether it is a success.
    Answer(Value, bool),
    Ignored,
}
use ExpectedBody::{Answer, Ignored, Notification, Refused};

fn id_value(id: &Id) -> Value {
    serde_json::to_value(id).unwrap()
}

fn verdict(body: &[u8]) -> ExpectedBody {
    match classify_message(body) {
        ClientMessage::Call(request) => {
            let method: &'static str = request.method().to_owned().leak();
            match request.id() {
                Some(id) => ExpectedBody::Request(method, id_value(id)),
                None => Notification(method),
            }
        }
        ClientMessage::Answer(response) => Answer(id_value(response.id()), response.is_ok()),
        ClientMessage::Refused(response) => {
            let error = response.error().expect("a refusal is an error");
            let data = error.data.as_ref().expect("every error carries data");
            assert_eq!(data["message"], json!(error.message));
            assert!(data["code"].is_string() && data["class"].is_string());
            assert!(error.message.len() < 200 && !error.message.ends_with('.'));
            // It is sent unchanged.
            let text = serde_json::to_string(&response).unwrap();
            let wire: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(wire["jsonrpc"], "2.0");
            Refused(error.code.code(), id_value(response.id()))
        }
        ClientMessage::Ignored(_) => Ignored,
    }
}

/// One text for each kind of JSON value, and some that are barely JSON.
fn values() -> Vec<(&'static str, String)> {
    let deep = |open: &str, close: &str, n: usize| format!("{}{}", open.repeat(n), close.repeat(n));
    vec![
        ("null", "null".into()),
        ("true", "true".into()),
        ("false", "false".into()),
        ("int", "7".into()),
        ("negative", "-7".into()),
        ("zero", "-0".into()),
        ("i64", i64::MIN.to_string()),
        ("beyond i64", "9223372036854775808".into()),
        ("u64", u64::MAX.to_string()),
        ("beyond u64", "18446744073709551616".into()),
        ("digits", "9".repeat(10_000)),
        ("fraction", "1.5".into()),
        ("whole fraction", "1.0".into()),
        ("exponent", "1e3".into()),
        ("infinite", "1e999".into()),
        ("tiny", "1e-999".into()),
        ("string", r#""word""#.into()),
        ("empty string", r#""""#.into()),
        ("number in a string", r#""7""#.into()),
        ("long string", format!("\"{}\"", "x".repeat(100_000))),
        ("lone high surrogate", r#""\ud800""#.into()),
        ("lone low surrogate", r#""\udc00x""#.into()),
        ("reversed surrogates", r#""\udc00\ud800""#.into()),
        ("pair", r#""\ud83d\ude00""#.into()),
        ("NUL", r#""\u0000""#.into()),
        ("array", "[]".into()),
        ("full array", "[1,[2],{\"a\":3}]".into()),
        ("object", "{}".into()),
        ("full object", "{\"a\":{\"b\":[null]}}".into()),
        ("same key twice", "{\"a\":1,\"a\":2}".into()),
        ("deep array", deep("[", "]", 100_000)),
        ("deep object", deep("{\"a\":[", "]}", 100_000)),
        ("just too deep", deep("[", "]", 128)),
    ]
}

/// Names from `values()` whose text is valid JSON, but not representable as a [`Value`].
fn unusable(kind: &str) -> bool {
    matches!(kind, "infinite" | "deep array" | "deep object" | "just too deep") || kind == "digits"
}

fn is_text(kind: &str) -> bool {
    kind.contains("string") || kind.contains("surrogate") || kind == "pair" || kind == "NUL"
}

fn is_structured(kind: &str) -> bool {
    ["array", "object", "twice", "deep"]
        .iter()
        .any(|part| kind.contains(part))
}

fn as_id(kind: &str, text: &str) -> Option<Value> {
    let usable = matches!(kind, "int" | "negative" | "i64") || (is_text(kind) && kind != "long string");
    usable.then(|| {
        let text = replace_halves(text).unwrap_or_else(|| text.to_owned());
        serde_json::from_str(&text).unwrap()
    })
}

type Table = Vec<(String, Vec<u8>, ExpectedBody)>;

fn member_table() -> Table {
    let mut table = Table::new();
    let mut add =
        |name: String, body: String, verdict: ExpectedBody| table.push((name, body.into_bytes(), verdict));
    for (kind, text) in values() {
        // jsonrpc
        let body = format!(r#"{{"jsonrpc":{text},"id":1,"method":"m"}}"#);
        add(format!("jsonrpc {kind}"), body, Refused(INVALID, scalar_id(kind)));
        // method
        for (id, expected) in [(r#","id":"a""#, json!("a")), ("", Value::Null)] {
            let body = format!(r#"{{"jsonrpc":"2.0","method":{text}{id}}}"#);
            let expect = match kind {
                _ if !is_text(kind) || kind == "long string" => Refused(
                    INVALID,
                    if breaks_scalar(kind) {
                        Value::Null
                    } else {
                        expected
                    },
                ),
                _ => {
                    let method: String =
                        serde_json::from_str(&replace_halves(&text).unwrap_or(text.clone())).unwrap();
                    let method: &'static str = method.leak();
                    if id.is_empty() {
                        Notification(method)
                    } else {
                        ExpectedBody::Request(method, expected)
                    }
                }
            };
            add(format!("method {kind}{id}"), body, expect);
        }
        // id, of a request and of an answer
        let known = as_id(kind, &text);
        let body = format!(r#"{{"jsonrpc":"2.0","id":{text},"method":"m","params":{{}}}}"#);
        let expect = known
            .clone()
            .map_or(Refused(INVALID, Value::Null), |id| ExpectedBody::Request("m", id));
        add(format!("id {kind}"), body, expect);
        let body = format!(r#"{{"jsonrpc":"2.0","id":{text},"result":0}}"#);
        let expect = match &known {
            Some(id) => Answer(id.clone(), true),
            // If its outline cannot be read, a message is not recognized as an answer.
            None if breaks_scalar(kind) => Refused(INVALID, Value::Null),
            None => Ignored,
        };
        add(format!("answer's id {kind}"), body, expect);
        // params
        for (id, expected) in [(r#","id":3"#, json!(3)), ("", Value::Null)] {
            let body = format!(r#"{{"jsonrpc":"2.0","method":"m"{id},"params":{text}}}"#);
            let good = kind == "null" || (is_structured(kind) && !unusable(kind));
            let expect = match (good, id.is_empty()) {
                (true, true) => Notification("m"),
                (true, false) => ExpectedBody::Request("m", expected),
                (false, _) => Refused(INVALID, expected),
            };
            add(format!("params {kind}{id}"), body, expect);
        }
        // result, alone and next to an error
        let body = format!(r#"{{"jsonrpc":"2.0","id":4,"result":{text}}}"#);
        add(format!("result {kind}"), body, Answer(json!(4), !unusable(kind)));
        let body = format!(r#"{{"jsonrpc":"2.0","id":4,"error":{{"code":1,"message":""}},"result":{text}}}"#);
        add(
            format!("result {kind} next to an error"),
            body,
            Answer(json!(4), false),
        );
        // error
        let body = format!(r#"{{"jsonrpc":"2.0","id":5,"error":{text}}}"#);
        add(format!("error {kind}"), body, Answer(json!(5), false));
        let body = format!(r#"{{"jsonrpc":"2.0","id":5,"error":{{"code":{text},"message":"x"}}}}"#);
        add(format!("error's code {kind}"), body, Answer(json!(5), false));
        // at the top
        let expect = Refused(INVALID, Value::Null);
        add(format!("top {kind}"), text.clone(), expect.clone());
        add(format!("batch of {kind}"), format!("[{text}]"), expect);
        // an unknown member
        let body = format!(r#"{{"x":{text},"jsonrpc":"2.0","id":6,"method":"m"}}"#);
        add(
            format!("unknown member {kind}"),
            body,
            ExpectedBody::Request("m", json!(6)),
        );
    }
    table
}

/// Scalars that break even the outline: numbers out of all range.
fn breaks_scalar(kind: &str) -> bool {
    matches!(kind, "infinite" | "digits")
}

fn scalar_id(kind: &str) -> Value {
    if breaks_scalar(kind) {
        Value::Null
    } else {
        json!(1)
    }
}

fn duplicates_table() -> Table {
    let members = [
        ("jsonrpc", r#""2.0""#),
        ("id", "1"),
        ("method", r#""m""#),
        ("params", "{}"),
    ];
    let mut table = Table::new();
    for (name, value) in members {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{}},"{name}":{value}}}"#);
        let id = if name == "id" { Value::Null } else { json!(1) };
        table.push((format!("{name} twice"), body.into_bytes(), Refused(INVALID, id)));
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"id":1,"method":"m","params":[],"{name}":{value}}}"#);
        table.push((
            format!("id and {name} twice"),
            body.into_bytes(),
            Refused(INVALID, Value::Null),
        ));
    }
    for (name, value) in [("jsonrpc", r#""2.0""#), ("result", "1")] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":1,"{name}":{value}}}"#);
        table.push((
            format!("answer with {name} twice"),
            body.into_bytes(),
            Answer(json!(1), false),
        ));
    }
    table
}

fn presence_table() -> Table {
    // Every set of members, each with a good value.
    let members = [
        ("jsonrpc", r#""2.0""#),
        ("id", r#""i""#),
        ("method", r#""m""#),
        ("params", "[]"),
        ("result", "1"),
        ("error", r#"{"code":1,"message":"no"}"#),
    ];
    (0_u32..64)
        .map(|set| {
            let has = |name: &str| {
                let at = members.iter().position(|(member, _)| *member == name).unwrap();
                set & (1 << at) != 0
            };
            let body: Vec<String> = members
                .iter()
                .filter(|(name, _)| has(name))
                .map(|(name, value)| format!(r#""{name}":{value}"#))
                .collect();
            let id = if has("id") { json!("i") } else { Value::Null };
            let answer = has("result") || has("error");
            let verdict = match (has("method"), answer) {
                (false, true) if !has("id") => Ignored,
                (false, true) => Answer(id, has("jsonrpc") && !has("error")),
                (true, false) if has("jsonrpc") && has("id") => ExpectedBody::Request("m", id),
                (true, false) if has("jsonrpc") => Notification("m"),
                _ => Refused(INVALID, id),
            };
            (
                format!("members {set:06b}"),
                format!("{{{}}}", body.join(",")).into_bytes(),
                verdict,
            )
        })
        .collect()
}

fn syntax_table() -> Table {
    let valid_body = r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,"é",null]}}"#.as_bytes();
    let mut table = Table::new();
    let mut add =
        |name: &str, body: Vec<u8>, verdict: ExpectedBody| table.push((name.to_owned(), body, verdict));
    for cut in 0..valid_body.len() {
        add(
            &format!("cut at {cut}"),
            valid_body[..cut].to_vec(),
            Refused(PARSE, Value::Null),
        );
    }
    for (name, body) in [
        ("spaces", "  \r\n\t "),
        ("word", "hello"),
        ("trailing comma", r#"{"jsonrpc":"2.0","id":1,"method":"m",}"#),
        (
            "two messages",
            r#"{"jsonrpc":"2.0","method":"m"}{"jsonrpc":"2.0","method":"m"}"#,
        ),
        ("trailing rubbish", r#"{"jsonrpc":"2.0","method":"m"} x"#),
        ("single quotes", "{'jsonrpc':'2.0'}"),
        ("comment", r#"{"jsonrpc":"2.0",/*x*/"method":"m"}"#),
        ("bare key", r#"{jsonrpc:"2.0"}"#),
        ("NaN", r#"{"jsonrpc":"2.0","method":"m","params":[NaN]}"#),
        ("plus", r#"{"jsonrpc":"2.0","method":"m","params":[+1]}"#),
        ("leading zero", r#"{"jsonrpc":"2.0","method":"m","params":[01]}"#),
        ("bare point", r#"{"jsonrpc":"2.0","method":"m","params":[1.]}"#),
        ("bad escape", r#"{"jsonrpc":"2.0","method":"m","params":["\q"]}"#),
        (
            "short escape",
            r#"{"jsonrpc":"2.0","method":"m","params":["\u12"]}"#,
        ),
        ("lone backslash", "\\"),
        ("raw line feed", "{\"jsonrpc\":\"2.0\",\"method\":\"a\nb\"}"),
        ("open array, deep", &"[".repeat(100_000)),
        ("open object, deep", &"{\"a\":".repeat(100_000)),
        ("closed wrongly", r#"{"jsonrpc":"2.0","method":"m"]"#),
        ("BOM", "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}"),
        ("header in the body", "Content-Length: 2\r\n\r\n{}"),
    ] {
        add(name, body.as_bytes().to_vec(), Refused(PARSE, Value::Null));
    }
    for (name, bad) in [
        ("invalid byte", &b"\xff"[..]),
        ("overlong", b"\xc0\xaf"),
        ("surrogate bytes", b"\xed\xa0\x80"),
        ("cut character", b"\xf0\x9f\x98"),
        ("beyond Unicode", b"\xf4\x90\x80\x80"),
    ] {
        let with = |before: &str, after: &str| [before.as_bytes(), bad, after.as_bytes()].concat();
        let body = with(r#"{"jsonrpc":"2.0","id":8,"method":"m","params":[""#, r#""]}"#);
        add(name, body, Refused(PARSE, json!(8)));
        add(
            name,
            with(r#"{"jsonrpc":"2.0","method":""#, r#""}"#),
            Refused(PARSE, Value::Null),
        );
        add(
            name,
            with(r#"{"jsonrpc":"2.0","id":8,"result":""#, r#""}"#),
            Answer(json!(8), false),
        );
        add(name, with(r#"{"jsonrpc":"2.0","result":""#, r#""}"#), Ignored);
        add(name, with("", ""), Refused(PARSE, Value::Null));
    }
    for (name, batch) in [
        ("empty batch", "[]"),
        (
            "batch",
            r#"[{"jsonrpc":"2.0","id":1,"method":"m"},{"jsonrpc":"2.0","method":"n"}]"#,
        ),
        ("batch of answers", r#"[{"jsonrpc":"2.0","id":1,"result":1}]"#),
    ] {
        add(name, batch.as_bytes().to_vec(), Refused(INVALID, Value::Null));
    }
    add(
        "spaces round it",
        b" \n{\"jsonrpc\":\"2.0\",\"method\":\"m\"}\r\n".to_vec(),
        Notification("m"),
    );
    table
}

#[test]
fn every_body_has_one_verdict() {
    let tables = [
        member_table(),
        duplicates_table(),
        presence_table(),
        syntax_table(),
    ];
    let mut count = 0;
    for (name, body, expected) in tables.into_iter().flatten() {
        count += 1;
        let actual = verdict(&body);
        assert_eq!(
            actual,
            expected,
            "{name}: {}",
            crate::base::text::prefix_within(&String::from_utf8_lossy(&body), 200)
        );
    }
    assert!(count >= 500, "{count} bodies");
}

#[test]
fn refusals_name_the_problem() {
    for (body, expected) in [
        ("[]", "batches are not supported"),
        ("3", "a message is an object"),
        ("{}", "no member jsonrpc: \"2.0\""),
        (
            r#"{"jsonrpc":"2.0"}"#,
            "neither a request nor an answer: no method, result or error",
        ),
        (r#"{"jsonrpc":"1.0","method":"m"}"#, "jsonrpc is not \"2.0\""),
        (r#"{"jsonrpc":"2.0","method":"m","id":null}"#, "id is null"),
        (
            r#"{"jsonrpc":"2.0","method":"m","id":1.5}"#,
            "id is not a whole number of 64 bits",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"m","id":[]}"#,
            "id is neither a string nor a number",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"m","method":"m"}"#,
            "duplicate member method",
        ),
    ] {
        let ClientMessage::Refused(response) = classify_message(body.as_bytes()) else {
            panic!("{body}");
        };
        assert_eq!(response.error().unwrap().message, expected, "{body}");
    }
}

#[test]
fn members_arrive_unchanged() {
    let ClientMessage::Call(call) = classify_message(
        br#"{"id":-1,"params":{"a":[1.5,"\ud800x\ud83d\ude00"]},"method":"a/b","jsonrpc":"2.0"}"#,
    ) else {
        panic!("a request");
    };
    assert_eq!((call.method(), call.id()), ("a/b", Some(&Id::Number(-1))));
    assert_eq!(call.params(), Some(&json!({"a": [1.5, "\u{fffd}x😀"]})));
    let answer = classify_message(
        br#"{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"no","data":[1],"more":2}}"#,
    );
    let mut error = protocol_error(ErrorCode::ServerError(-5), "no");
    error.data = Some(json!([1]));
    assert_eq!(
        answer,
        ClientMessage::Answer(Response::from_error(Id::Number(1), error))
    );
}

#[test]
fn only_unpaired_surrogates_are_replaced() {
    for (text, expected) in [
        (r"plain", None),
        (r"\ud83d\ude00", None),
        (r"\\ud800", None),
        (r"\u00e9\n\\", None),
        (r"\ud800", Some(r"\ufffd")),
        (r"a\uD800\u0041b", Some(r"a\ufffd\u0041b")),
        (r"\udc00\ud83d\ude00\ud800", Some(r"\ufffd\ud83d\ude00\ufffd")),
        (r"\\\ud800\", Some(r"\\\ufffd\")),
        (r"\ud800\ud83d\ude00", Some(r"\ufffd\ud83d\ude00")),
        (r"é\ud8", None),
        ("\\é", None),
    ] {
        assert_eq!(replace_halves(text).as_deref(), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        classify_message(&body);
    }

    #[test]
    fn a_damaged_body_never_panics(at in 0_usize..90, byte in any::<u8>(), remove in any::<bool>()) {
        let mut body = br#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,"\ud83d\ude00\n",null,true,1e5]}}"#.to_vec();
        let at = at.min(body.len() - 1);
        if remove { body.remove(at); } else { body[at] = byte; }
        classify_message(&body);
    }
}

#[test]
fn messages_with_too_many_values_are_refused_with_their_id() {
    let message = |value: &str, count: usize| {
        let values = vec![value; count].join(",");
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":[{values}]}}"#)
    };
    // The message has five values besides.
    for (value, each) in [("1", 1), ("\"\"", 1), ("[]", 2), (r#"{"a":[1,2]}"#, 4)] {
        let most = (MAX_VALUES - 5) / each;
        let fitting = verdict(message(value, most).as_bytes());
        assert_eq!(fitting, ExpectedBody::Request("m", json!(7)), "{value}");
        let refused = verdict(message(value, most + 2).as_bytes());
        assert_eq!(refused, Refused(INVALID, json!(7)), "{value}");
    }
    // What looks like values within a string is text.
    let text = json!({"text": ",[{\"\\,".repeat(MAX_VALUES)}).to_string();
    let verdict = verdict(message(&text, 1).as_bytes());
    assert_eq!(verdict, ExpectedBody::Request("m", json!(7)));
}
