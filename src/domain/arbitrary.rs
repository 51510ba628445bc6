//! Arbitrary values for property tests, where a derive needs help: ids, JSON, and lists that stay short.

use std::sync::Arc;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::Value;

use super::{Answers, Event, Message, TurnEnd};

/// Returns ids, which contain no character that a key of the store could misread.
pub(super) fn arb_id() -> impl Strategy<Value = Arc<str>> {
    "[a-z]{1,4}_[0-9a-z]{1,8}".prop_map(Arc::from)
}

/// Returns short lists: by default, a list of lists grows to thousands of items.
pub(crate) fn arb_list<T: Arbitrary>() -> impl Strategy<Value = Vec<T>> {
    vec(any::<T>(), 0..3)
}

/// Returns answers to a few questions.
pub(super) fn arb_answers() -> impl Strategy<Value = Answers> {
    btree_map(any::<String>(), arb_list(), 0..3)
}

/// Returns any JSON, or nothing.
pub(super) fn arb_optional_json() -> impl Strategy<Value = Option<Arc<Value>>> {
    proptest::option::of(arb_json())
}

/// Returns any JSON.
pub(super) fn arb_json() -> impl Strategy<Value = Arc<Value>> {
    // Floats with few digits: serde_json may parse long ones with a rounding error.
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i16>().prop_map(|n| Value::from(f64::from(n) / 8.0)),
        "(?s).{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map("(?s).{0,12}", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
    .prop_map(Arc::new)
}

/// Returns events that a sub-agent may report; never a nested one.
pub(super) fn arb_inner_event() -> BoxedStrategy<Event> {
    prop_oneof![
        any::<(String, String)>().prop_map(|(code, message)| Event::Warning { code, message }),
        any::<Arc<Message>>().prop_map(Event::Message),
        any::<TurnEnd>().prop_map(Event::TurnEnded),
    ]
    .boxed()
}
