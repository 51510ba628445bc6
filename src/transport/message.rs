//! Classifies a body: request, notification, answer, or an error to send back (R-WIRE-4).
//!
//! Each body gets exactly one verdict, and none causes a panic. A message that was meant as an answer is never
//! answered: otherwise two peers could send each other errors forever. If its id can be read, the caller that waits
//! for it gets an error. Knows JSON-RPC, but no method.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};
use tower_lsp::jsonrpc::{Error, ErrorCode, Id, Request, Response};

use crate::base::half_characters::replace_halves;
use crate::domain::error::{ErrorClass, ErrorCode as Code};

/// Longest accepted id in bytes. It is bounded because ids are kept while their requests run.
pub const MAX_ID: usize = 1_024;

/// Longest accepted method name in bytes. It is bounded because errors quote the name.
pub const MAX_METHOD: usize = 1_024;

/// Most values in a message: more than any editor sends, and few enough to be handled in a fraction of a second.
pub const MAX_VALUES: usize = 250_000;

/// Too many requests run at once. The same request may succeed later.
pub const OVERLOADED: ErrorCode = ErrorCode::ServerError(-32_000);

/// The verdict on a body.
#[derive(Debug, PartialEq)]
pub enum ClientMessage {
    /// A request, or a notification if it has no id.
    Call(Request),
    /// An answer to one of our requests.
    Answer(Response),
    /// An error to send back.
    Refused(Response),
    /// Dropped, with the reason for the log.
    Ignored(&'static str),
}

/// Builds an error with the `data` that all our errors carry (R-WIRE-6).
pub fn protocol_error(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Error {
    let message = message.into();
    let (name, class) = match code {
        ErrorCode::RequestCancelled => (Code::Cancelled, ErrorClass::Terminal),
        ErrorCode::InternalError => (Code::Internal, ErrorClass::Terminal),
        OVERLOADED => (Code::Protocol, ErrorClass::Retryable),
        _ => (Code::Protocol, ErrorClass::Terminal),
    };
    let data = json!({ "code": name.name(), "message": message, "class": class.name() });
    Error {
        code,
        message,
        data: Some(data),
    }
}

/// Builds the error for a fault on our side (-32603).
pub fn internal_error(message: impl Into<Cow<'static, str>>) -> Error {
    protocol_error(ErrorCode::InternalError, message)
}

/// Builds the error for a canceled request that its handler did not answer (-32800).
pub fn cancelled_error() -> Error {
    protocol_error(ErrorCode::RequestCancelled, "request was canceled")
}

/// Builds the error for a message that this server does not accept (-32600).
pub fn invalid_request_error(message: impl Into<Cow<'static, str>>) -> Error {
    protocol_error(ErrorCode::InvalidRequest, message)
}

/// Classifies a body. Never panics.
pub fn classify_message(body: &[u8]) -> ClientMessage {
    match std::str::from_utf8(body) {
        Ok(text) => classify_text(text),
        Err(_) => {
            let error = protocol_error(ErrorCode::ParseError, "body is not UTF-8");
            // Replacement characters keep the structure, so an id outside the bad bytes can still be read.
            refuse_by_outline(&String::from_utf8_lossy(body), error)
        }
    }
}

fn classify_text(text: &str) -> ClientMessage {
    if has_too_many_values(text) {
        let reason = format!("the message has more than {MAX_VALUES} values; send less at once");
        return refuse_by_outline(text, invalid_request_error(reason));
    }
    match serde_json::from_str::<TopLevelValue<Value>>(text) {
        Ok(TopLevelValue::Object(members)) => classify_members(*members),
        Ok(TopLevelValue::Array) => {
            refuse_request(Id::Null, invalid_request_error("batches are not supported"))
        }
        Ok(TopLevelValue::Other) => refuse_request(Id::Null, invalid_request_error("a message is an object")),
        // One round at most: the repaired text has no lone surrogates, so the next call repairs nothing.
        Err(error) => match replace_halves(text) {
            Some(repaired) => classify_text(&repaired),
            None => diagnose_json(text, &error),
        },
    }
}

/// Distinguishes invalid JSON from valid JSON that is unusable (nested too deeply, or numbers out of range).
fn diagnose_json(text: &str, error: &serde_json::Error) -> ClientMessage {
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        // An error of serde_json names a position and a kind, never the text.
        return refuse_request(
            Id::Null,
            protocol_error(ErrorCode::ParseError, format!("body is not JSON: {error}")),
        );
    }
    refuse_by_outline(text, invalid_request_error(format!("malformed message: {error}")))
}

/// Refuses a message of which only the outline is read.
fn refuse_by_outline(text: &str, error: Error) -> ClientMessage {
    match serde_json::from_str(text) {
        Ok(TopLevelValue::Object(members)) => refuse_unusable(&members, error),
        _ => refuse_request(Id::Null, error),
    }
}

/// Counts what begins or separates values, outside of strings. Each value costs many times its bytes in memory and time.
fn has_too_many_values(text: &str) -> bool {
    // Each takes a byte.
    if text.len() <= MAX_VALUES {
        return false;
    }
    let bytes = text.as_bytes();
    let (mut at, mut values) = (0, 0);
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b',' | b'[' | b'{' => values += 1,
            b'"' => at = find_string_end(bytes, at),
            _ => {}
        }
    }
    values > MAX_VALUES
}

/// Returns where the string that is open at `at` ends.
fn find_string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr::memchr2(b'"', b'\\', &bytes[at..]) {
        at += found + 1;
        if bytes[at - 1] == b'"' {
            return at;
        }
        // The escaped character may be a quote.
        at = bytes.len().min(at + 1);
    }
    bytes.len()
}

/// Classifies a message if only its outline can be read.
fn refuse_unusable(members: &Members<IgnoredAny>, error: Error) -> ClientMessage {
    match members.usable_id() {
        Some(id) if members.is_answer() => ClientMessage::Answer(Response::from_error(id, error)),
        None if members.is_answer() => ClientMessage::Ignored("an answer that cannot be read"),
        id => refuse_request(id.unwrap_or_default(), error),
    }
}

fn classify_members(members: Members<Value>) -> ClientMessage {
    if members.is_answer() {
        return judge_answer(members);
    }
    let id = members.usable_id();
    let refused = |reason: Cow<'static, str>| {
        refuse_request(id.clone().unwrap_or_default(), invalid_request_error(reason))
    };
    if let Some(name) = members.duplicate {
        return refused(format!("duplicate member {name}").into());
    }
    if let Err(reason) = members.check_version() {
        return refused(reason.into());
    }
    let method = match members.method {
        Some(Scalar::Text(method)) if method.len() <= MAX_METHOD => method,
        Some(Scalar::Text(_)) => return refused("method is longer than 1,024 bytes".into()),
        Some(_) => return refused("method is not a string".into()),
        None => return refused("neither a request nor an answer: no method, result or error".into()),
    };
    if members.result.is_some() || members.error.is_some() {
        return refused("both a request and an answer".into());
    }
    // An unusable id must not turn a request into a notification: a notification gets no answer (I1).
    if let (Some(given), None) = (&members.id, &id) {
        return refused(given.id_problem().into());
    }
    let mut request = Request::build(method);
    match members.params {
        Some(params @ (Value::Array(_) | Value::Object(_) | Value::Null)) => request = request.params(params),
        Some(_) => return refused("params is neither an object nor an array".into()),
        None => {}
    }
    if let Some(id) = id {
        request = request.id(id);
    }
    ClientMessage::Call(request.finish())
}

fn judge_answer(members: Members<Value>) -> ClientMessage {
    let Some(id) = members.usable_id() else {
        return ClientMessage::Ignored("an answer without a usable id");
    };
    let malformed = |reason: &'static str| {
        ClientMessage::Answer(Response::from_error(id.clone(), invalid_request_error(reason)))
    };
    if members.duplicate.is_some() {
        return malformed("the client's response has a duplicate member");
    }
    if members.check_version().is_err() {
        return malformed("the client's answer is not JSON-RPC 2.0");
    }
    match (members.result, members.error) {
        // Some peers send both, one of them null.
        (Some(result), None | Some(Value::Null)) => ClientMessage::Answer(Response::from_ok(id, result)),
        (None | Some(Value::Null), Some(error)) => match peer_error(error) {
            Some(error) => ClientMessage::Answer(Response::from_error(id, error)),
            None => malformed("the error in the client's answer has no code and message"),
        },
        (_, _) => malformed("the client's answer has a result and an error"),
    }
}

/// Converts the client's error. Unknown members are ignored.
fn peer_error(mut error: Value) -> Option<Error> {
    let code = ErrorCode::from(error.get("code")?.as_i64()?);
    let message = error.get("message")?.as_str()?.to_owned().into();
    let data = error.get_mut("data").map(Value::take);
    Some(Error { code, message, data })
}

fn refuse_request(id: Id, error: Error) -> ClientMessage {
    ClientMessage::Refused(Response::from_error(id, error))
}

/// The top-level value of a body.
enum TopLevelValue<V> {
    Object(Box<Members<V>>),
    Array,
    Other,
}

/// The members of a message; `V` holds the large ones.
struct Members<V> {
    jsonrpc: Option<Scalar>,
    id: Option<Scalar>,
    method: Option<Scalar>,
    params: Option<V>,
    result: Option<V>,
    error: Option<V>,
    /// A member that occurs more than once.
    duplicate: Option<&'static str>,
}

impl<V> Members<V> {
    fn usable_id(&self) -> Option<Id> {
        match &self.id {
            _ if self.duplicate == Some("id") => None,
            Some(Scalar::Int(number)) => Some(Id::Number(*number)),
            Some(Scalar::Text(text)) if text.len() <= MAX_ID => Some(Id::String(text.clone())),
            _ => None,
        }
    }

    fn is_answer(&self) -> bool {
        self.method.is_none() && (self.result.is_some() || self.error.is_some())
    }

    fn check_version(&self) -> Result<(), &'static str> {
        match &self.jsonrpc {
            Some(Scalar::Text(version)) if version == "2.0" => Ok(()),
            Some(_) => Err("jsonrpc is not \"2.0\""),
            None => Err("no member jsonrpc: \"2.0\""),
        }
    }
}

/// A member that must be a string or an integer. Any other value keeps only its kind.
#[derive(Debug)]
enum Scalar {
    Null,
    Int(i64),
    Text(String),
    OtherNumber,
    Other,
}

impl Scalar {
    fn id_problem(&self) -> &'static str {
        match self {
            Self::Null => "id is null",
            Self::OtherNumber => "id is not a whole number of 64 bits",
            Self::Text(_) => "id is longer than 1,024 bytes",
            Self::Int(_) | Self::Other => "id is neither a string nor a number",
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Scalar, E> {
        Ok(Scalar::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar::Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
        // The library represents numeric ids as `i64`.
        Ok(i64::try_from(number).map_or(Scalar::OtherNumber, Scalar::Int))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Scalar, E> {
        Ok(Scalar::OtherNumber)
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Scalar, A::Error> {
        drain_sequence(items)?;
        Ok(Scalar::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Scalar, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
}

/// Reads a sequence to its end. Ignored values do not recurse, so their depth is harmless.
fn drain_sequence<'de, A: SeqAccess<'de>>(mut items: A) -> Result<(), A::Error> {
    while items.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum MessageField {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    #[serde(other)]
    Unknown,
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for TopLevelValue<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TopVisitor(PhantomData))
    }
}

struct TopVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for TopVisitor<V> {
    type Value = TopLevelValue<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<TopLevelValue<V>, E> {
        Ok(TopLevelValue::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<TopLevelValue<V>, E> {
        Ok(TopLevelValue::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<TopLevelValue<V>, E> {
        Ok(TopLevelValue::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<TopLevelValue<V>, E> {
        Ok(TopLevelValue::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<TopLevelValue<V>, E> {
        Ok(TopLevelValue::Other)
    }

    fn visit_str<E>(self, _: &str) -> Result<TopLevelValue<V>, E> {
        Ok(TopLevelValue::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<TopLevelValue<V>, A::Error> {
        drain_sequence(items)?;
        Ok(TopLevelValue::Array)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<TopLevelValue<V>, A::Error> {
        let mut members = Members {
            jsonrpc: None,
            id: None,
            method: None,
            params: None,
            result: None,
            error: None,
            duplicate: None,
        };
        while let Some(field) = entries.next_key::<MessageField>()? {
            let duplicate = &mut members.duplicate;
            match field {
                MessageField::Jsonrpc => take(&mut entries, &mut members.jsonrpc, "jsonrpc", duplicate)?,
                MessageField::Id => take(&mut entries, &mut members.id, "id", duplicate)?,
                MessageField::Method => take(&mut entries, &mut members.method, "method", duplicate)?,
                MessageField::Params => take(&mut entries, &mut members.params, "params", duplicate)?,
                MessageField::Result => take(&mut entries, &mut members.result, "result", duplicate)?,
                MessageField::Error => take(&mut entries, &mut members.error, "error", duplicate)?,
                MessageField::Unknown => {
                    entries.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(TopLevelValue::Object(Box::new(members)))
    }
}

/// Reads a member's value into its slot. A second occurrence is noted and its value dropped.
fn take<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
    entries: &mut A,
    slot: &mut Option<T>,
    name: &'static str,
    duplicate: &mut Option<&'static str>,
) -> Result<(), A::Error> {
    if slot.is_none() {
        *slot = Some(entries.next_value()?);
        return Ok(());
    }
    // A duplicate id outranks other duplicates: neither of the two ids may be answered.
    if *duplicate != Some("id") {
        *duplicate = Some(name);
    }
    entries.next_value::<IgnoredAny>().map(drop)
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
