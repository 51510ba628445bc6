//! Round trips of every record, and the golden files of the disk format.

use std::fmt::Write as _;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::domain::*;
use crate::store::rows::PendingEvent;

proptest! {
    #[test]
    fn every_event_round_trips(event in arbitrary::arb_event()) {
        let (kind, text) = encode_event(&event).unwrap().unwrap();
        prop_assert_eq!(decode_event(kind, &text).unwrap(), event);
    }

    #[test]
    fn every_pending_value_round_trips(value in arbitrary::arb_pending()) {
        let text = encode_pending(&value).unwrap();
        let key = value.key();
        prop_assert_eq!(decode_pending(key.kind.as_word(), &key.key, &text).unwrap(), value);
    }

    /// A record cut at any point is an error: it is never misread and never causes a panic.
    #[test]
    fn torn_records_are_errors(event in arbitrary::arb_event(), at in any::<prop::sample::Index>()) {
        let (kind, text) = encode_event(&event).unwrap().unwrap();
        let torn = crate::base::text::prefix_within(&text, at.index(text.len()));
        prop_assert!(decode_event(kind, torn).is_err());
    }
}

#[test]
fn deltas_are_not_stored() {
    let delta = Event::Delta(Delta::Text {
        message: MessageId::from("msg_1"),
        offset: 0,
        text: "x".into(),
    });
    assert!(encode_event(&delta).unwrap().is_none());
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
    for (kind, text, why) in [
        ("hologram", "{}", "unknown kind `hologram`"),
        (
            "message",
            r#"{"id": "m", "role": "oracle", "content": []}"#,
            "unknown word `oracle` at line 1 column 28",
        ),
        ("wait", "", "EOF while parsing a value at line 1 column 0"),
    ] {
        assert_eq!(decode_event(kind, text).unwrap_err().to_string(), why);
    }
}

/// The disk format is a contract: this file may only gain lines and optional fields.
#[test]
fn records_match_the_golden_file() {
    let mut text = String::new();
    for event in samples() {
        let (kind, json) = encode_event(&event).unwrap().unwrap();
        writeln!(text, "{kind} {json}").unwrap();
        assert_eq!(decode_event(kind, &json).unwrap(), event);
    }
    for pending in pending_samples() {
        let kind = pending.key().kind.as_word();
        writeln!(text, "pending {kind} {}", encode_pending(&pending).unwrap()).unwrap();
    }
    insta::assert_snapshot!(text);
}

/// All words that represent enums on disk.
#[test]
fn enum_words_match_the_golden_file() {
    fn all<T: StoredWord + Copy>(values: &[T]) -> String {
        let words: Vec<_> = values.iter().map(StoredWord::as_word).collect();
        assert!(words.iter().all(|word| T::from_word(word).is_some()));
        words.join(" ")
    }
    let text = [
        all(TerminalReason::ALL),
        all(ContinueReason::ALL),
        all(&TurnState::ALL),
        all(&ErrorCode::ALL),
        all(&Mode::ALL),
        all(&[Role::User, Role::Assistant, Role::Tool]),
        all(&[
            ReferenceKind::File,
            ReferenceKind::Selection,
            ReferenceKind::Diagnostic,
        ]),
        all(&InstructionKind::ALL),
        all(&[Risk::Low, Risk::Medium, Risk::High]),
        all(&[PlanStatus::Pending, PlanStatus::InProgress, PlanStatus::Completed]),
        all(&[ErrorClass::Retryable, ErrorClass::Terminal, ErrorClass::NonFatal]),
        all(&[
            ResolvedBy::Person,
            ResolvedBy::Rule,
            ResolvedBy::Cancel,
            ResolvedBy::Timeout,
            ResolvedBy::NewPrompt,
        ]),
        all(&[
            DecisionKind::Allow,
            DecisionKind::AllowSession,
            DecisionKind::AllowAlways,
            DecisionKind::Deny,
        ]),
        all(&[
            ToolCallStatus::Pending,
            ToolCallStatus::AwaitingApproval,
            ToolCallStatus::Running,
            ToolCallStatus::Completed,
            ToolCallStatus::Failed,
            ToolCallStatus::Denied,
            ToolCallStatus::Cancelled,
        ]),
        all(&[CircuitSubject::Provider, CircuitSubject::Tool]),
        all(&[CircuitState::Closed, CircuitState::Open, CircuitState::HalfOpen]),
    ]
    .join("\n");
    insta::assert_snapshot!(text);
}

fn error() -> AgentError {
    AgentError {
        code: ErrorCode::ProviderError,
        class: ErrorClass::Retryable,
        message: "anthropic API error".into(),
        cause: Some("rate limit exceeded".to_owned().into()),
        provider: Some("anthropic".into()),
        model: Some("m".into()),
        status: Some(429),
        request_id: Some("req_1".into()),
        retry_after_ms: Some(1_000),
        reset_at: Some(7),
        user_action: Some("wait".into()),
        attempts: Some(2),
    }
}

fn usage() -> Usage {
    Usage {
        input: 1,
        output: 2,
        cache_read: 3,
        cache_write: 4,
    }
}

fn image() -> ImageData {
    ImageData {
        media_type: "image/png".into(),
        data: "AAAA".into(),
    }
}

fn blocks() -> Vec<Block> {
    vec![
        Block::Text("hi".into()),
        Block::Reasoning {
            text: "hm".into(),
            signature: Some(Signature {
                value: "s".into(),
                origin: Some("api.example/m".into()),
            }),
            redacted: true,
        },
        Block::ToolUse {
            id: "call_1".into(),
            name: "bash".into(),
            input: Arc::new(json!({"command": "ls"})),
            attached: Some(Arc::new(ProviderCall {
                id: Some("functions.bash:0".into()),
                extra: Some(Arc::new(json!({"google": {"thought_signature": "s"}}))),
                origin: "api.example/m".into(),
            })),
        },
        Block::ToolResult {
            id: "call_1".into(),
            result: Arc::new(ToolResult {
                text: "out".into(),
                images: vec![image()],
                is_error: true,
                full: Some(ContentRef {
                    name: "call_1".into(),
                    bytes: 9,
                }),
            }),
        },
        Block::Image(image()),
        Block::Reference(Reference {
            kind: ReferenceKind::Selection,
            path: "src/a.rs".into(),
            lines: Some((1, 2)),
            text: "fn".into(),
        }),
    ]
}

fn limit() -> Arc<Inquiry> {
    Arc::new(Inquiry {
        id: "ask_1".into(),
        parent: None,
        subject: RequestSubject::Limit(LimitReached {
            limit: LimitName::ProviderDayCost,
            used: 5_120_000_000,
            most: 5_000_000_000,
            provider: Some("anthropic".into()),
            model: Some("anthropic/m".into()),
            message: "m".into(),
        }),
    })
}

fn question() -> Arc<Inquiry> {
    Arc::new(Inquiry {
        id: "ask_2".into(),
        parent: None,
        subject: RequestSubject::Question(AgentQuestion {
            tool_call: Some("call_1".into()),
            text: "t".into(),
            detail: Some("d".into()),
            fields: vec![QuestionField {
                name: "choice".into(),
                label: "l".into(),
                choices: vec![FieldChoice {
                    value: "stop".into(),
                    label: "Stop".into(),
                }],
                several: true,
                free: true,
                required: true,
            }],
        }),
    })
}

fn approval() -> Approval {
    Approval {
        id: "appr_1".into(),
        tool_call: "call_1".into(),
        name: "bash".into(),
        input: Arc::new(json!({"command": "ls"})),
        title: "ls".into(),
        cwd: "/w".into(),
        diff: Some("+x".into()),
        risk: Risk::High,
        why: "a command".into(),
        rule: Some("bash(ls*)".into()),
    }
}

fn decision() -> Decision {
    Decision {
        kind: DecisionKind::AllowAlways,
        feedback: Some("f".into()),
        input: Some(Arc::new(json!(null))),
        rule: Some("r".into()),
    }
}

fn samples() -> Vec<Event> {
    vec![
        Event::TurnStarted {
            by: TurnTrigger::Resume,
            resumes: Some("turn_0".into()),
        },
        Event::TurnStarted {
            by: TurnTrigger::Prompt,
            resumes: None,
        },
        Event::TurnEnded(TurnEnd {
            reason: TerminalReason::ModelError,
            state: TurnState::Failed,
            usage: usage(),
            cost: Some(Cost(5)),
            error: Some(error()),
            unused_steers: vec![vec![Block::Text("steer".into())]],
        }),
        Event::Message(Arc::new(Message {
            id: "msg_1".into(),
            role: Role::Assistant,
            content: blocks(),
            incomplete: true,
            hidden: true,
        })),
        Event::MessageRetracted {
            message: "msg_1".into(),
            tool_calls: vec!["call_1".into()],
        },
        Event::ToolCall(ToolCallUpdate {
            id: "call_1".into(),
            name: "bash".into(),
            title: "ls".into(),
            status: ToolCallStatus::Completed,
            input: Some(Arc::new(json!({"command": "ls"}))),
            result: Some(Arc::new(ToolResult::ok("a"))),
            diff: Some("+x".into()),
            locations: vec![FileLocation {
                uri: "file:///w/a".into(),
                line: Some(3),
            }],
            duration_ms: Some(12),
            exit_code: None,
            parent: Some("call_0".into()),
        }),
        Event::ApprovalRequested(approval()),
        Event::ApprovalResolved {
            approval: "appr_1".into(),
            tool_call: "call_1".into(),
            decision: decision(),
            by: ResolvedBy::NewPrompt,
        },
        Event::InquiryRequested(limit()),
        Event::InquiryRequested(question()),
        Event::InquiryResolved {
            inquiry: limit(),
            reply: InquiryReply::Raise(5_000_000_000),
            by: ResolvedBy::Person,
        },
        Event::InquiryResolved {
            inquiry: question(),
            reply: InquiryReply::Answers(Answers::from([("choice".into(), vec!["stop".into()])])),
            by: ResolvedBy::Person,
        },
        Event::Plan(vec![PlanItem {
            text: "do".into(),
            status: PlanStatus::InProgress,
        }]),
        Event::Transition {
            transition: Transition::Continue(ContinueReason::NextTurn),
            detail: Some("d".into()),
        },
        Event::Transition {
            transition: Transition::Terminal(TerminalReason::Completed),
            detail: None,
        },
        Event::Retry {
            provider: "anthropic".into(),
            model: "m".into(),
            attempt: 1,
            max_retries: 3,
            delay_ms: 500,
            resume_at: 9,
            error: error(),
            next: "again".into(),
        },
        Event::Wait {
            why: "slot".into(),
            until: Some(3),
        },
        Event::ModelSwitched {
            from: "anthropic/m".into(),
            to: "openrouter/n".into(),
            why: "w".into(),
        },
        Event::Circuit {
            subject: CircuitSubject::Provider,
            name: "anthropic".into(),
            state: CircuitState::Open,
            until: Some(3),
        },
        Event::Usage {
            step: usage(),
            turn: usage(),
            session: usage(),
            step_cost: Some(Cost(1)),
            turn_cost: None,
            session_cost: Some(Cost(3)),
            context_used: 10,
            window: 200,
            provider: Some("anthropic".into()),
        },
        Event::Warning {
            code: "store".into(),
            message: "w".into(),
        },
        Event::SessionUpdated {
            title: Some("t".into()),
            mode: Some(Mode::AutoEdit),
            model: Some("p/m".into()),
            effort: Some("high".into()),
        },
        Event::TurnDiff(Arc::new(TurnDiff {
            turn: "turn_1".into(),
            state: ChangeState::Reverted,
            files: vec![FileDiff {
                path: "a.txt".into(),
                kind: ChangeKind::Modified,
                added: 1,
                removed: 2,
                diff: Some("-a".into()),
                restorable: true,
            }],
            unlisted: 3,
            partial: true,
        })),
        Event::QueueChanged(PromptQueue {
            paused: true,
            prompts: vec![QueuedPrompt {
                id: "queued_1".into(),
                text: "then this".into(),
            }],
        }),
        Event::Instructions(Arc::new([InstructionFile {
            path: "/w/skills/a/SKILL.md".into(),
            kind: InstructionKind::Skill,
            name: Some("a".into()),
            bytes: 7,
            fingerprint: "f".into(),
            trusted: true,
            problem: Some("p".into()),
        }])),
    ]
}

fn pending_samples() -> Vec<PendingEvent> {
    vec![
        PendingEvent::Partial {
            message: "msg_1".into(),
            before: 7,
            turn: Some("turn_1".into()),
            text: "par".into(),
            reasoning: "hm".into(),
        },
        PendingEvent::Steer {
            key: "1".into(),
            turn: Some("turn_1".into()),
            content: vec![Block::Text("steer".into())],
        },
        PendingEvent::Queued {
            key: "1".into(),
            content: vec![Block::Text("next".into())],
        },
        PendingEvent::Decision {
            approval: "appr_1".into(),
            decision: decision(),
        },
        PendingEvent::Approval(OpenApproval {
            approval: approval(),
            seq: 7,
            turn: Some("turn_1".into()),
            at_ms: 8,
        }),
        PendingEvent::Inquiry(OpenInquiry {
            inquiry: limit(),
            seq: 7,
            turn: Some("turn_1".into()),
            at_ms: 8,
        }),
        PendingEvent::Reply {
            inquiry: "ask_1".into(),
            reply: InquiryReply::Stop,
        },
    ]
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
