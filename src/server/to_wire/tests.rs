//! Golden notifications, and the properties of all of them: at most 256 KiB, and every cut field can be read whole.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::content::{self, ContentPointer};
use super::*;
use crate::domain::*;
use crate::protocol::{MAX_NOTIFICATION, table};

fn envelope(event: Event) -> Envelope {
    Envelope {
        session: SessionId::from("ses_1"),
        turn: Some(TurnId::from("turn_1")),
        seq: 7,
        at_ms: 1_000,
        event,
        permit: None,
        in_page: false,
    }
}

fn update() -> ToolCallUpdate {
    let (name, title) = ("bash".to_owned(), "cargo\n  test".to_owned());
    ToolCallUpdate::new("call_1".into(), name, title, ToolCallStatus::Pending)
}

fn turn_diff(path: &str, diff: &str) -> Event {
    let file = FileDiff {
        path: path.to_owned(),
        kind: ChangeKind::Modified,
        added: 1,
        removed: 1,
        diff: Some(diff.into()),
        restorable: false,
    };
    Event::TurnDiff(Arc::new(TurnDiff {
        turn: "turn_1".into(),
        state: ChangeState::Made,
        files: vec![file],
        unlisted: 2,
        partial: true,
    }))
}

fn limit() -> Arc<Inquiry> {
    Arc::new(Inquiry {
        id: InquiryId::from("ask_1"),
        parent: None,
        subject: RequestSubject::Limit(LimitReached {
            limit: LimitName::SessionCost,
            used: 5_120_000_000,
            most: 5_000_000_000,
            provider: Some("anthropic".to_owned()),
            model: Some("anthropic/m".to_owned()),
            message: "m".to_owned(),
        }),
    })
}

fn question(text: &str) -> Arc<Inquiry> {
    Arc::new(Inquiry {
        id: InquiryId::from("ask_2"),
        parent: None,
        subject: RequestSubject::Question(AgentQuestion::with_choices(text, None, &[("stop", "Stop")])),
    })
}

fn approval(input: Value, diff: Option<&str>) -> Approval {
    Approval {
        id: ApprovalId::from("appr_1"),
        tool_call: ToolCallId::from("call_1"),
        name: "bash".to_owned(),
        input: Arc::new(input),
        title: "cargo test".to_owned(),
        cwd: "/shop".to_owned(),
        diff: diff.map(Into::into),
        risk: Risk::High,
        why: "commands ask in this mode".to_owned(),
        sandbox: None,
        rule: Some("bash(cargo test*)".to_owned()),
        losses: None,
    }
}

fn end() -> TurnEnd {
    TurnEnd {
        reason: TerminalReason::AbortedStreaming,
        state: TurnState::Cancelled,
        usage: Usage {
            input: 1,
            output: 2,
            cache_read: 3,
            cache_write: 4,
        },
        cost: Some(Cost(1_500_000)),
        error: Some(AgentError::new(ErrorCode::Cancelled, "cancelled")),
        unused_steers: vec![vec![Block::Text("wait".to_owned())]],
    }
}

fn message(role: Role, content: Vec<Block>) -> Event {
    Event::Message(Arc::new(Message {
        id: MessageId::from("msg_1"),
        role,
        content,
        incomplete: true,
        hidden: false,
    }))
}

/// Every event, with the fields of its notification besides the header.
fn golden() -> Vec<(Event, &'static str, Value)> {
    let usage = json!({"inputTokens": 1, "outputTokens": 2, "cacheReadTokens": 3, "cacheWriteTokens": 4});
    let spent = |cost: Option<f64>| {
        let mut value = usage.clone();
        if let Some(cost) = cost {
            value["costUsd"] = cost.into();
        }
        value
    };
    vec![
        (
            Event::TurnStarted {
                by: TurnTrigger::Resume,
                resumes: Some(TurnId::from("turn_0")),
            },
            "agent/turnStarted",
            json!({"by": "resume", "resumes": "turn_0"}),
        ),
        (
            Event::TurnEnded(end()),
            "agent/turnEnded",
            json!({
                "reason": "aborted_streaming", "state": "cancelled", "usage": usage, "costUsd": 0.0015,
                "error": {"code": "cancelled", "message": "cancelled", "class": "terminal"},
                "unusedSteers": [[{"type": "text", "text": "wait"}]],
            }),
        ),
        (
            message(
                Role::Assistant,
                vec![
                    Block::Reasoning {
                        text: "hm".to_owned(),
                        signature: Some(Signature {
                            value: "sig".to_owned(),
                            origin: None,
                        }),
                        redacted: false,
                    },
                    Block::Reasoning {
                        text: "opaque".to_owned(),
                        signature: None,
                        redacted: true,
                    },
                    Block::Text("hi".to_owned()),
                    Block::ToolUse {
                        id: ToolCallId::from("call_1"),
                        name: "bash".to_owned(),
                        input: Arc::new(json!({"command": "ls"})),
                        attached: None,
                    },
                ],
            ),
            "agent/message",
            json!({
                "messageId": "msg_1", "role": "assistant", "incomplete": true,
                "content": [
                    {"type": "reasoning", "text": "hm"},
                    {"type": "reasoning", "text": ""},
                    {"type": "text", "text": "hi"},
                    {"type": "toolUse", "toolCallId": "call_1", "name": "bash", "input": {"command": "ls"}},
                ],
            }),
        ),
        (
            message(
                Role::User,
                vec![
                    Block::ToolResult {
                        id: ToolCallId::from("call_1"),
                        result: Arc::new(ToolResult::error("no")),
                    },
                    Block::Image(MediaData {
                        media_type: "image/png".to_owned(),
                        data: "aGk=".into(),
                    }),
                    Block::Reference(Reference {
                        kind: ReferenceKind::Selection,
                        path: "src/a.rs".to_owned(),
                        lines: Some((3, 4)),
                        text: "fn a() {}".to_owned(),
                    }),
                ],
            ),
            "agent/message",
            json!({
                "messageId": "msg_1", "role": "user", "incomplete": true,
                "content": [
                    {"type": "toolResult", "toolCallId": "call_1", "isError": true},
                    {"type": "image", "mediaType": "image/png", "data": "aGk="},
                    {
                        "type": "reference", "kind": "selection", "path": "src/a.rs", "startLine": 3,
                        "endLine": 4, "text": "fn a() {}",
                    },
                ],
            }),
        ),
        (
            Event::MessageRetracted {
                message: MessageId::from("msg_1"),
                tool_calls: vec![ToolCallId::from("call_1")],
            },
            "agent/messageRetracted",
            json!({"messageId": "msg_1", "toolCallIds": ["call_1"]}),
        ),
        (
            Event::ToolCall(ToolCallUpdate {
                status: ToolCallStatus::AwaitingApproval,
                input: Some(Arc::new(json!({"command": "cargo test"}))),
                parent: Some(ToolCallId::from("call_0")),
                ..update()
            }),
            "agent/toolCall",
            json!({
                "toolCallId": "call_1", "name": "bash", "title": "cargo test", "status": "awaitingApproval",
                "input": {"command": "cargo test"}, "parentToolCallId": "call_0",
            }),
        ),
        (
            Event::ToolCall(ToolCallUpdate {
                status: ToolCallStatus::Completed,
                result: Some(Arc::new(ToolResult {
                    full: Some(ContentRef {
                        name: "call_1".to_owned(),
                        bytes: 99,
                    }),
                    ..ToolResult::ok("\u{1b}[32mok\u{1b}[0m\r\n")
                })),
                diff: Some("-a\n+b\n".into()),
                locations: vec![FileLocation {
                    uri: "file:///a".to_owned(),
                    line: Some(2),
                }],
                duration_ms: Some(12),
                exit_code: Some(0),
                ..update()
            }),
            "agent/toolCall",
            json!({
                "toolCallId": "call_1", "name": "bash", "title": "cargo test", "status": "completed",
                "output": "ok\n", "diff": "-a\n+b\n", "locations": [{"uri": "file:///a", "line": 2}],
                "durationMs": 12, "exitCode": 0, "more": {"output": {"ref": "c:call_1", "bytes": 99}},
            }),
        ),
        (
            Event::ApprovalRequested(approval(json!({"command": "cargo test"}), Some("-a\n"))),
            "agent/approvalRequested",
            json!({
                "approvalId": "appr_1", "toolCallId": "call_1", "name": "bash",
                "input": {"command": "cargo test"}, "title": "cargo test", "cwd": "/shop", "diff": "-a\n",
                "shown": "cargo test",
                "risk": "high", "why": "commands ask in this mode", "rule": "bash(cargo test*)",
            }),
        ),
        (
            Event::ApprovalRequested(approval(
                json!({"command": "ls \u{202e}txt", "background": true, "timeout_s": 2.5}),
                None,
            )),
            "agent/approvalRequested",
            json!({
                "approvalId": "appr_1", "toolCallId": "call_1", "name": "bash",
                "input": {"command": "ls \u{202e}txt", "background": true, "timeout_s": 2.5},
                "title": "cargo test", "cwd": "/shop", "shown": "ls <U+202E>txt",
                "options": ["keeps running in the background", "goes on in the background after 2.5 s"],
                "risk": "high", "why": "commands ask in this mode", "rule": "bash(cargo test*)",
            }),
        ),
        (
            Event::ApprovalResolved {
                approval: ApprovalId::from("appr_1"),
                tool_call: ToolCallId::from("call_1"),
                decision: Decision {
                    feedback: Some("no".to_owned()),
                    ..Decision::from_kind(DecisionKind::Deny)
                },
                by: ResolvedBy::NewPrompt,
            },
            "agent/approvalResolved",
            json!({
                "approvalId": "appr_1", "toolCallId": "call_1", "decision": "deny", "by": "newPrompt",
                "feedback": "no",
            }),
        ),
        (
            turn_diff("a.txt", "-a\n+b\n"),
            "agent/turnDiff",
            json!({
                "ofTurnId": "turn_1", "standing": "made", "unlisted": 2, "partial": true, "files": [
                    {"path": "a.txt", "kind": "modified", "added": 1, "removed": 1, "diff": "-a\n+b\n",
                     "unrestorable": true},
                ],
            }),
        ),
        (
            Event::InquiryRequested(limit()),
            "agent/limitRequested",
            json!({
                "limitId": "ask_1", "limit": "max_session_cost", "used": 5.12, "max": 5.0, "message": "m",
                "provider": "anthropic", "model": "anthropic/m",
            }),
        ),
        (
            Event::InquiryResolved {
                inquiry: limit(),
                reply: InquiryReply::Raise(2_500_000_000),
                by: ResolvedBy::Person,
            },
            "agent/limitResolved",
            json!({
                "limitId": "ask_1", "limit": "max_session_cost", "outcome": "raised", "raisedBy": 2.5,
                "by": "person",
            }),
        ),
        (
            Event::InquiryRequested(question("Go on?")),
            "agent/questionRequested",
            json!({
                "questionId": "ask_2", "text": "Go on?", "fields": [
                    {"name": "choice", "choices": [{"value": "stop", "label": "Stop"}], "required": true},
                ],
            }),
        ),
        (
            Event::InquiryResolved {
                inquiry: question("Go on?"),
                reply: InquiryReply::Answers(Answers::from([("choice".to_owned(), vec!["stop".to_owned()])])),
                by: ResolvedBy::Person,
            },
            "agent/questionResolved",
            json!({"questionId": "ask_2", "answers": {"choice": ["stop"]}, "by": "person"}),
        ),
        (
            Event::Plan {
                items: vec![PlanItem {
                    text: "look".to_owned(),
                    status: PlanStatus::InProgress,
                }],
            },
            "agent/plan",
            json!({"items": [{"text": "look", "status": "inProgress"}]}),
        ),
        (
            Event::Transition {
                transition: Transition::Continue(ContinueReason::NextTurn),
                detail: None,
            },
            "agent/transition",
            json!({"kind": "continue", "reason": "next_turn"}),
        ),
        (
            Event::Transition {
                transition: Transition::Terminal(TerminalReason::MaxTurns),
                detail: Some("50 steps".to_owned()),
            },
            "agent/transition",
            json!({"kind": "terminal", "reason": "max_turns", "detail": "50 steps"}),
        ),
        (
            Event::Compacted(Arc::new(Compaction {
                trigger: CompactTrigger::Overflow,
                tokens_before: 150_000,
                tokens_after: 20_000,
                messages_before: 90,
                messages_after: 8,
                summary: Some(Summary {
                    message: "msg_9".into(),
                    text: "notes".to_owned(),
                    from: "msg_1".into(),
                    until: "msg_8".into(),
                    kept: Vec::new(),
                    shortened: Vec::new(),
                    digest: true,
                }),
                stubs: vec!["call_1".into()],
                shortened: Vec::new(),
                pictures: true,
                kept_pictures: 0,
            })),
            "agent/compacted",
            json!({
                "trigger": "overflow", "tokensBefore": 150_000, "tokensAfter": 20_000, "messagesBefore": 90,
                "messagesAfter": 8, "summary": "notes", "digest": true,
            }),
        ),
        (
            Event::Retry {
                provider: "anthropic".to_owned(),
                model: "m".to_owned(),
                attempt: 1,
                max_retries: 3,
                delay_ms: 1_100,
                resume_at: 2_100,
                error: AgentError {
                    class: ErrorClass::Retryable,
                    status: Some(529),
                    retry_after_ms: Some(1_000),
                    ..AgentError::new(ErrorCode::ProviderError, "anthropic API error")
                        .with_cause("overloaded")
                },
                next: "fails".to_owned(),
            },
            "agent/retry",
            json!({
                "provider": "anthropic", "model": "m", "attempt": 1, "maxRetries": 3, "delayMs": 1_100,
                "resumeAt": 2_100, "next": "fails",
                "error": {
                    "code": "provider_error", "message": "anthropic API error", "class": "retryable",
                    "cause": "overloaded", "status": 529, "retryAfterMs": 1_000,
                },
            }),
        ),
        (
            Event::Wait {
                why: "a full services".to_owned(),
                until: Some(9),
            },
            "agent/wait",
            json!({"why": "a full services", "until": 9}),
        ),
        (
            Event::ModelSwitched {
                from: "a/m".to_owned(),
                to: "b/n".to_owned(),
                why: "w".to_owned(),
            },
            "agent/modelSwitched",
            json!({"from": "a/m", "to": "b/n", "why": "w"}),
        ),
        (
            Event::Circuit {
                subject: CircuitSubject::Tool,
                name: "bash".to_owned(),
                state: CircuitState::HalfOpen,
                until: None,
            },
            "agent/circuit",
            json!({"subject": "tool", "name": "bash", "state": "halfOpen"}),
        ),
        (
            Event::Usage {
                step: end().usage,
                turn: end().usage,
                session: end().usage,
                step_cost: None,
                turn_cost: Some(Cost(1_500_000)),
                session_cost: Some(Cost(2_000_000_000)),
                context_used: 8,
                window: 200_000,
                provider: Some("mock".to_owned()),
            },
            "agent/usage",
            json!({
                "step": spent(None), "turn": spent(Some(0.0015)), "session": spent(Some(2.0)),
                "contextUsed": 8, "contextWindow": 200_000, "provider": "mock",
            }),
        ),
        (
            Event::Warning {
                code: "c".to_owned(),
                message: "m".to_owned(),
            },
            "agent/warning",
            json!({"code": "c", "message": "m"}),
        ),
        (
            Event::SessionUpdated {
                title: Some("t".to_owned()),
                mode: Some(Mode::AutoEdit),
                model: None,
                effort: Some("high".to_owned()),
            },
            "agent/sessionUpdated",
            json!({"title": "t", "mode": "autoEdit", "effort": "high"}),
        ),
        (
            Event::Instructions {
                files: Arc::new([instruction_file("/w/AGENTS.md")]),
            },
            "agent/instructions",
            json!({"files": [{"path": "/w/AGENTS.md", "kind": "agents", "bytes": 3, "trusted": false, "problem": "p"}]}),
        ),
    ]
}

#[test]
fn every_event_has_its_notification() {
    for (event, method, mut expected) in golden() {
        let envelope = envelope(event);
        let notification = to_notification(&envelope);
        assert_eq!(notification.method(), method);
        for (name, value) in [
            ("sessionId", json!("ses_1")),
            ("seq", json!(7)),
            ("turnId", json!("turn_1")),
            ("at", json!(1_000)),
        ] {
            expected[name] = value;
        }
        assert_eq!(to_value(&notification), expected, "{method}");
        let parsed = ServerNotification::parse(method, expected).unwrap().unwrap();
        assert_eq!(parsed, notification);
        let record = event_record(&envelope);
        assert_eq!(record.method, method);
    }
}

#[test]
fn the_golden_events_cover_the_table() {
    let covered: Vec<_> = golden().into_iter().map(|(_, method, _)| method).collect();
    for entry in table::SERVER_NOTIFICATIONS {
        if entry.kind == table::MessageKind::Durable {
            assert!(covered.contains(&entry.method), "{}", entry.method);
        }
    }
}

#[test]
fn a_frame_is_json_rpc() {
    let body = encode_frame(&server_warning("store_failed", "disk full"));
    assert_eq!(
        String::from_utf8(body).unwrap(),
        r#"{"jsonrpc":"2.0","method":"agent/warning","params":{"code":"store_failed","message":"disk full"}}"#
    );
}

/// Finds each cut field of `value`: the shown part, its reference and its length.
fn cuts(value: &Value, found: &mut Vec<(Value, String, u64)>) {
    match value {
        Value::Object(fields) => {
            if let Some(more) = fields.get("more").and_then(Value::as_object) {
                for (name, more) in more {
                    let carried = fields.get(name).cloned().unwrap_or_default();
                    let reference = more["ref"].as_str().unwrap().to_owned();
                    found.push((carried, reference, more["bytes"].as_u64().unwrap()));
                }
            }
            for (name, field) in fields {
                if name != "more" && name != "input" {
                    cuts(field, found);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| cuts(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Checks that no notification is too long, and that each cut field is found whole by its reference.
fn check(event: Event) -> usize {
    let envelope = envelope(event);
    let notification = to_notification(&envelope);
    let length = encode_frame(&notification).len();
    assert!(length <= MAX_NOTIFICATION, "{}: {length}", notification.method());
    let mut found = Vec::new();
    cuts(&to_value(&notification), &mut found);
    for (carried, reference, bytes) in &found {
        let Some(ContentPointer::Event { seq: 7, path }) = ContentPointer::parse(reference) else {
            panic!("{reference}");
        };
        let full_text =
            content::extract_field(&envelope.event, &path).unwrap_or_else(|| panic!("{reference}"));
        assert_eq!(full_text.len() as u64, *bytes, "{reference}");
        if let (Value::String(carried), false) = (carried, path.ends_with("input")) {
            assert!(full_text.starts_with(carried.as_str()), "{reference}");
        }
    }
    found.len()
}

#[test]
fn huge_events_stay_below_the_limit() {
    // The worst text for JSON: every byte becomes six.
    let bells = "\u{1}".repeat(300_000);
    let long = "é".repeat(150_000);
    let object = json!({"path": "a", "content": long, "bells": bells});
    let list = json!(vec![0; 50_000]);
    let image = MediaData {
        media_type: "image/png".to_owned(),
        data: "A".repeat(500_000).into(),
    };
    let tool_use = |input: &Value| Block::ToolUse {
        id: ToolCallId::new_random(),
        name: "n".repeat(5_000),
        input: Arc::new(input.clone()),
        attached: None,
    };
    let reference = Block::Reference(Reference {
        kind: ReferenceKind::File,
        path: bells.clone(),
        lines: None,
        text: long.clone(),
    });
    let blocks = vec![
        Block::Text(bells.clone()),
        Block::Text(long.clone()),
        tool_use(&object),
        tool_use(&list),
        Block::Image(image.clone()),
        reference,
        Block::Text(long.clone()),
    ];
    let result = ToolResult {
        media: vec![image.clone(); 3],
        ..ToolResult::ok(long.clone())
    };
    let cut = [
        check(message(Role::Assistant, blocks.clone())),
        check(message(Role::User, vec![Block::Text("x".to_owned()); 5_000])),
        check(message(
            Role::Assistant,
            vec![tool_use(&json!(vec![0; 30])); 3_000],
        )),
        check(Event::TurnEnded(TurnEnd {
            unused_steers: vec![blocks.clone(), blocks],
            error: Some(
                AgentError::new(ErrorCode::ProviderError, bells.clone()).with_user_action(long.clone()),
            ),
            ..end()
        })),
        check(Event::TurnEnded(TurnEnd {
            unused_steers: vec![vec![Block::Text("x".to_owned())]; 5_000],
            ..end()
        })),
        check(Event::ToolCall(ToolCallUpdate {
            name: bells.clone(),
            title: bells.clone(),
            input: Some(Arc::new(object.clone())),
            result: Some(Arc::new(result)),
            diff: Some(long.clone().into()),
            locations: vec![
                FileLocation {
                    uri: long[..10_000].to_owned(),
                    line: None
                };
                500
            ],
            ..update()
        })),
        check(Event::ApprovalRequested(approval(object.clone(), Some(&bells)))),
        check(Event::ApprovalRequested(approval(list, Some(&long)))),
        check(Event::ApprovalResolved {
            approval: ApprovalId::new_random(),
            tool_call: ToolCallId::new_random(),
            decision: Decision {
                feedback: Some(bells.clone()),
                input: Some(Arc::new(object)),
                ..Decision::from_kind(DecisionKind::Deny)
            },
            by: ResolvedBy::Person,
        }),
        check(Event::InquiryRequested(question(&long))),
        check(Event::InquiryResolved {
            inquiry: question("?"),
            reply: InquiryReply::Answers(Answers::from([("choice".to_owned(), vec![long.clone(); 3])])),
            by: ResolvedBy::Person,
        }),
        check(Event::Plan {
            items: vec![
                PlanItem {
                    text: long[..10_000].to_owned(),
                    status: PlanStatus::Pending
                };
                500
            ],
        }),
    ];
    assert!(cut.iter().all(|count| *count > 0), "{cut:?}");
    for event in [
        Event::MessageRetracted {
            message: MessageId::new_random(),
            tool_calls: vec![ToolCallId::new_random(); 50_000],
        },
        Event::Transition {
            transition: Transition::Continue(ContinueReason::NextTurn),
            detail: Some(bells.clone()),
        },
        Event::Wait {
            why: bells.clone(),
            until: None,
        },
        Event::ModelSwitched {
            from: bells.clone(),
            to: long.clone(),
            why: bells.clone(),
        },
        Event::Circuit {
            subject: CircuitSubject::Provider,
            name: bells.clone(),
            state: CircuitState::Open,
            until: Some(1),
        },
        Event::Warning {
            code: bells.clone(),
            message: long.clone(),
        },
        turn_diff(&bells, &bells),
        Event::SessionUpdated {
            title: Some(bells),
            mode: None,
            model: Some(long.clone()),
            effort: None,
        },
        Event::Instructions {
            files: vec![instruction_file(&long); 2_000].into(),
        },
    ] {
        check(event);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_mixture_stays_below_the_limit(
        blocks in prop::collection::vec((0_usize..4, "[\\x00-\\x7f]{1,3}|\\PC{1,3}", 1_usize..60_000), 0..12)
    ) {
        let blocks: Vec<_> = blocks
            .into_iter()
            .map(|(kind, unit, times)| {
                let text = unit.repeat(times);
                match kind {
                    0 => Block::Text(text),
                    1 => Block::Reasoning { text, signature: None, redacted: false },
                    2 => Block::ToolUse {
                        id: ToolCallId::new_random(),
                        name: unit,
                        input: Arc::new(json!({"text": text})),
                        attached: None,
                    },
                    _ => Block::Reference(Reference {
                        kind: ReferenceKind::File,
                        path: unit,
                        lines: Some((1, 2)),
                        text,
                    }),
                }
            })
            .collect();
        check(message(Role::Assistant, blocks));
    }
}

fn instruction_file(path: &str) -> InstructionFile {
    InstructionFile {
        path: path.to_owned(),
        kind: InstructionKind::Agents,
        name: None,
        bytes: 3,
        fingerprint: "f".to_owned(),
        trusted: false,
        problem: Some("p".to_owned()),
    }
}
