//! Round trips of every record, and the golden files of the disk format.

use proptest::prelude::*;
use serde_json::Value;
use std::fmt::Write as _;

use super::*;
use crate::domain::*;
use crate::store::rows::PendingEvent;
use crate::store::tests::samples;

proptest! {
    #[test]
    fn every_event_round_trips(event in any::<Event>()) {
        let (kind, text) = encode_event(&event).unwrap();
        prop_assert_eq!(decode_event(&kind, &text).unwrap(), event);
    }

    #[test]
    fn every_pending_value_round_trips(value in any::<PendingEvent>()) {
        let text = encode_pending(&value).unwrap();
        let key = value.key();
        prop_assert_eq!(decode_pending(key.kind.name(), &key.key, &text).unwrap(), value);
    }

    /// A record cut at any point is an error: it is never misread and never causes a panic.
    #[test]
    fn torn_records_are_errors(event in any::<Event>(), at in any::<prop::sample::Index>()) {
        let (kind, text) = encode_event(&event).unwrap();
        let torn = crate::base::text::prefix_within(&text, at.index(text.len()));
        prop_assert!(decode_event(&kind, torn).is_err());
    }
}

#[test]
fn records_of_other_versions_are_read_or_refused() {
    let newer = r#"{"why": "x", "until": 3, "new_field": {"a": [1]}}"#;
    assert_eq!(
        decode_event("wait", newer).unwrap(),
        Event::Wait {
            why: "x".into(),
            until: Some(3)
        }
    );
    let older = r#"{"id": "msg_1", "role": "user", "content": [{"text": "hi"}]}"#;
    assert!(matches!(decode_event("message", older), Ok(Event::Message(_))));
    for (kind, text, reason) in [
        ("hologram", "{}", "unknown kind `hologram`"),
        (
            "message",
            r#"{"id": "m", "role": "oracle", "content": []}"#,
            "unknown word `oracle` at line 1 column 28",
        ),
        ("wait", "", "EOF while parsing a value at line 1 column 0"),
    ] {
        assert_eq!(decode_event(kind, text).unwrap_err().to_string(), reason);
    }
}

/// The disk format is a contract: this file may only gain lines and optional fields.
#[test]
fn records_match_the_golden_file() {
    let mut text = String::new();
    for event in samples::events() {
        let (kind, json) = encode_event(&event).unwrap();
        writeln!(text, "{kind} {json}").unwrap();
        assert_eq!(decode_event(&kind, &json).unwrap(), event);
    }
    for pending in samples::pending() {
        let kind = pending.key().kind.name();
        writeln!(text, "pending {kind} {}", encode_pending(&pending).unwrap()).unwrap();
    }
    for change in samples::changes() {
        writeln!(text, "change {}", encode_change(&change).unwrap()).unwrap();
    }
    insta::assert_snapshot!(text);
}

/// All words that represent enums on disk.
#[test]
fn enum_words_match_the_golden_file() {
    fn all<T: Serialize + DeserializeOwned + Copy>(values: &[T]) -> String {
        let words: Vec<_> = values
            .iter()
            .map(|value| serde_json::to_value(value).unwrap())
            .collect();
        assert!(
            words
                .iter()
                .all(|word| serde_json::from_value::<T>(word.clone()).is_ok())
        );
        words
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" ")
    }
    let text = [
        all(&TerminalReason::ALL),
        all(&ContinueReason::ALL),
        all(&TurnState::ALL),
        all(&ErrorCode::ALL),
        all(&Mode::ALL),
        all(&Role::ALL),
        all(&ReferenceKind::ALL),
        all(&InstructionKind::ALL),
        all(&Risk::ALL),
        all(&PlanStatus::ALL),
        all(&ErrorClass::ALL),
        all(&ResolvedBy::ALL),
        all(&DecisionKind::ALL),
        all(&ToolCallStatus::ALL),
        all(&CircuitSubject::ALL),
        all(&CircuitState::ALL),
        all(&ChangeState::ALL),
        all(&ChangeKind::ALL),
        all(&TurnTrigger::ALL),
        all(&LimitName::ALL),
        all(&CompactTrigger::ALL),
    ]
    .join("\n");
    insta::assert_snapshot!(text);
}

#[test]
fn early_records_read_as_before() {
    for (kind, text, event) in samples::early_records() {
        assert_eq!(decode_event(kind, text).unwrap(), event, "{kind} {text}");
    }
}

/// Several changes of one file by one turn are one row, which reads as two changes.
#[test]
fn a_change_of_an_already_changed_file_reads_as_two() {
    let text = r#"{"before":{"is":"absent"},"was":{"is":"unknown"},"after":{"is":"link","target":"t"}}"#;
    let change = |before: FileState, after: FileState| FileChange {
        path: "/w/a".into(),
        before,
        after,
    };
    let link = FileState::Link { target: "t".into() };
    assert_eq!(
        decode_change("/w/a", text).unwrap(),
        [
            change(FileState::Absent, FileState::Unknown),
            change(FileState::Unknown, link),
        ]
    );
}

/// What happens to a record of which one value is missing, `null`, or a word that no version wrote.
#[test]
fn damaged_records_read_as_before() {
    let mut table = std::collections::BTreeSet::new();
    for event in samples::events() {
        let (kind, text) = encode_event(&event).unwrap();
        let reread = |text: &str| {
            let event = decode_event(&kind, text).ok()?;
            Some(encode_event(&event).unwrap().1)
        };
        table.extend(describe_damage(&kind, &text, reread));
    }
    for pending in samples::pending() {
        let (key, text) = (pending.key(), encode_pending(&pending).unwrap());
        let reread = |text: &str| {
            let pending = decode_pending(key.kind.name(), &key.key, text).ok()?;
            Some(encode_pending(&pending).unwrap())
        };
        table.extend(describe_damage(key.kind.name(), &text, reread));
    }
    for change in samples::changes() {
        let reread = |text: &str| {
            let change = decode_change(&change.path, text).ok()?.remove(0);
            Some(encode_change(&change).unwrap())
        };
        table.extend(describe_damage(
            "change",
            &encode_change(&change).unwrap(),
            reread,
        ));
    }
    insta::assert_snapshot!(table.into_iter().collect::<Vec<_>>().join("\n"));
}

/// Damages each value of a record in turn, and describes what becomes of it.
fn describe_damage(kind: &str, text: &str, reread: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let record: Value = serde_json::from_str(text).unwrap();
    let mut pointers = Vec::new();
    list_pointers(&record, String::new(), &mut pointers);
    let outcome = |damaged: Value, pointer: &str| {
        let Some(reread) = reread(&damaged.to_string()) else {
            return "error".to_owned();
        };
        let reread: Value = serde_json::from_str(&reread).unwrap();
        match reread.pointer(pointer) {
            Some(value) => value.to_string(),
            None => "absent".to_owned(),
        }
    };
    let mut lines = Vec::new();
    for pointer in pointers {
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        let replaced = |by: Value| {
            let mut damaged = record.clone();
            *damaged.pointer_mut(&pointer).unwrap() = by;
            outcome(damaged, &pointer)
        };
        let mut damaged = record.clone();
        let missing = match damaged.pointer_mut(parent).unwrap() {
            Value::Object(fields) => {
                fields.remove(name);
                outcome(damaged, &pointer)
            }
            _ => "-".to_owned(),
        };
        lines.push(format!(
            "{kind} {pointer}: missing={missing} null={} alien={} number={}",
            replaced(Value::Null),
            replaced("alien".into()),
            replaced((-1).into())
        ));
    }
    lines
}

fn list_pointers(value: &Value, at: String, found: &mut Vec<String>) {
    if !at.is_empty() {
        found.push(at.clone());
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                list_pointers(value, format!("{at}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                list_pointers(item, format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn an_early_turn_record_derives_its_trigger_from_resumes() {
    for (json, asker) in [
        ("{}", TurnTrigger::Prompt),
        (r#"{"resumes":"turn_0"}"#, TurnTrigger::Resume),
        (r#"{"by":"prompt"}"#, TurnTrigger::Prompt),
    ] {
        let Ok(Event::TurnStarted { by, .. }) = decode_event("turn_started", json) else {
            panic!("{json}");
        };
        assert_eq!(by, asker, "{json}");
    }
    assert!(decode_event("turn_started", r#"{"by":"nobody"}"#).is_err());
}
