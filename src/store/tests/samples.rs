//! Samples of everything that the store keeps: each kind of record in its fullest and its sparsest form.
//!
//! The golden files of the disk format contain them, so a sample only ever joins at the end of its list.

mod sparse;

use std::sync::Arc;

use serde_json::json;

use crate::domain::*;
use crate::store::rows::PendingEvent;
use sparse::{sparse_events, sparse_pending};

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
        needs_login: false,
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

fn image() -> MediaData {
    MediaData {
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
                media: vec![image()],
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
            url: None,
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
                value_type: None,
                default: Vec::new(),
                schema: None,
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
        sandbox: None,
        rule: Some("bash(ls*)".into()),
        losses: None,
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

/// Returns an event of every kind with every optional field, then events that show the other forms.
pub(in crate::store) fn events() -> Vec<Event> {
    let mut events = full_events();
    events.extend(sparse_events());
    events
}

fn full_events() -> Vec<Event> {
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
        Event::Plan {
            items: vec![PlanItem {
                text: "do".into(),
                status: PlanStatus::InProgress,
            }],
        },
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
        Event::Instructions {
            files: Arc::new([InstructionFile {
                path: "/w/skills/a/SKILL.md".into(),
                kind: InstructionKind::Skill,
                name: Some("a".into()),
                bytes: 7,
                fingerprint: "f".into(),
                trusted: true,
                problem: Some("p".into()),
            }]),
        },
    ]
}

/// Returns a pending value of every kind with every optional field, then values that show the other forms.
pub(in crate::store) fn pending() -> Vec<PendingEvent> {
    let mut pending = full_pending();
    pending.extend(sparse_pending());
    pending
}

fn full_pending() -> Vec<PendingEvent> {
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

fn message(id: &str, role: Role, content: Vec<Block>) -> Event {
    Event::Message(Arc::new(Message {
        id: id.into(),
        role,
        content,
        incomplete: false,
        hidden: false,
    }))
}

/// Returns a change of a file between any two states.
pub(in crate::store) fn changes() -> Vec<FileChange> {
    let file = FileState::File {
        hash: "h".into(),
        bytes: 3,
        mode: 0o644,
    };
    let link = FileState::Link {
        target: "../t".into(),
    };
    let change = |path: &str, before: &FileState, after: &FileState| FileChange {
        path: path.into(),
        before: before.clone(),
        after: after.clone(),
    };
    vec![
        change("/w/new", &FileState::Absent, &file),
        change("/w/link", &link, &FileState::Absent),
        change("/w/other", &FileState::Unknown, &link),
    ]
}

/// Records in the forms of earlier versions, and how they read.
pub(in crate::store) fn early_records() -> Vec<(&'static str, &'static str, Event)> {
    let started = |by, resumes: Option<&str>| Event::TurnStarted {
        by,
        resumes: resumes.map(Into::into),
    };
    let usage = Usage {
        input: 1,
        ..Usage::default()
    };
    vec![
        ("turn_started", "{}", started(TurnTrigger::Prompt, None)),
        (
            "turn_started",
            r#"{"resumes":"turn_0"}"#,
            started(TurnTrigger::Resume, Some("turn_0")),
        ),
        (
            "message",
            r#"{"id":"msg_20","role":"assistant","content":[{"reasoning":{"text":"hm","signature":"s"}},{"tool_use":{"id":"call_1","name":"bash","input":{}}}]}"#,
            message(
                "msg_20",
                Role::Assistant,
                vec![
                    Block::Reasoning {
                        text: "hm".into(),
                        signature: Some(Signature {
                            value: "s".into(),
                            origin: None,
                        }),
                        redacted: false,
                    },
                    Block::ToolUse {
                        id: "call_1".into(),
                        name: "bash".into(),
                        input: Arc::new(json!({})),
                        attached: None,
                    },
                ],
            ),
        ),
        (
            "usage",
            r#"{"step":{"input":1},"turn":{"input":1},"session":{"input":1},"context_used":2,"window":3}"#,
            Event::Usage {
                step: usage,
                turn: usage,
                session: usage,
                step_cost: None,
                turn_cost: None,
                session_cost: None,
                context_used: 2,
                window: 3,
                provider: None,
            },
        ),
        (
            "compacted",
            r#"{"trigger":"manual"}"#,
            Event::Compacted(Arc::new(Compaction {
                trigger: CompactTrigger::Manual,
                tokens_before: 0,
                tokens_after: 0,
                messages_before: 0,
                messages_after: 0,
                summary: None,
                stubs: Vec::new(),
                shortened: Vec::new(),
                pictures: false,
                kept_pictures: 0,
            })),
        ),
        (
            "turn_diff",
            r#"{"turn":"turn_1","standing":"made","files":[]}"#,
            Event::TurnDiff(Arc::new(TurnDiff {
                turn: "turn_1".into(),
                state: ChangeState::Made,
                files: Vec::new(),
                unlisted: 0,
                partial: false,
            })),
        ),
        (
            "wait",
            r#"{"why":"x","until":3,"of_a_later_version":{"a":[1]}}"#,
            Event::Wait {
                why: "x".into(),
                until: Some(3),
            },
        ),
    ]
}
