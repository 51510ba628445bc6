//! Samples of everything that the store keeps: each kind of record in its fullest and its sparsest form.
//!
//! The golden files of the disk format contain them, so a sample only ever joins at the end of its list.

use std::sync::Arc;

use serde_json::json;

use crate::domain::*;
use crate::store::rows::PendingEvent;

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
        sandbox: None,
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

/// Every form of a block that has an optional part.
fn sparse_blocks() -> Vec<Block> {
    let reasoning = |signature| Block::Reasoning {
        text: "hm".into(),
        signature,
        redacted: false,
    };
    let call = |attached: Option<ProviderCall>| Block::ToolUse {
        id: "call_2".into(),
        name: "read".into(),
        input: Arc::new(json!(null)),
        attached: attached.map(Arc::new),
    };
    let reference = |kind| {
        Block::Reference(Reference {
            kind,
            path: "b.rs".into(),
            lines: None,
            text: String::new(),
        })
    };
    vec![
        reasoning(None),
        reasoning(Some(Signature {
            value: String::new(),
            origin: None,
        })),
        call(None),
        call(Some(ProviderCall {
            id: None,
            extra: None,
            origin: "api.example/m".into(),
        })),
        call(Some(ProviderCall {
            id: None,
            extra: Some(Arc::new(json!(null))),
            origin: "api.example/m".into(),
        })),
        reference(ReferenceKind::File),
        reference(ReferenceKind::Diagnostic),
    ]
}

fn sparse_messages() -> Vec<Event> {
    vec![
        message("msg_2", Role::User, vec![Block::Text("find the needle".into())]),
        message("msg_3", Role::Assistant, sparse_blocks()),
        message(
            "msg_4",
            Role::Tool,
            vec![Block::ToolResult {
                id: "call_2".into(),
                result: Arc::new(ToolResult::ok("")),
            }],
        ),
        Event::MessageRetracted {
            message: "msg_5".into(),
            tool_calls: Vec::new(),
        },
    ]
}

fn sparse_calls() -> Vec<Event> {
    let call = |status, exit_code, input| {
        Event::ToolCall(ToolCallUpdate {
            id: "call_2".into(),
            name: "read".into(),
            title: String::new(),
            status,
            input,
            result: None,
            diff: None,
            locations: Vec::new(),
            duration_ms: None,
            exit_code,
            parent: None,
        })
    };
    vec![
        call(ToolCallStatus::Pending, None, None),
        call(ToolCallStatus::Running, Some(-1), Some(Arc::new(json!(null)))),
        Event::ApprovalRequested(sparse_approval()),
        Event::ApprovalResolved {
            approval: "appr_2".into(),
            tool_call: "call_2".into(),
            decision: Decision::from_kind(DecisionKind::Deny),
            by: ResolvedBy::Timeout,
        },
    ]
}

fn sparse_approval() -> Approval {
    Approval {
        id: "appr_2".into(),
        diff: None,
        risk: Risk::Low,
        rule: None,
        ..approval()
    }
}

fn sparse_limit() -> Arc<Inquiry> {
    Arc::new(Inquiry {
        id: "ask_3".into(),
        parent: Some("call_0".into()),
        subject: RequestSubject::Limit(LimitReached {
            limit: LimitName::UnknownPrice,
            used: 0,
            most: u64::MAX,
            provider: None,
            model: None,
            message: String::new(),
        }),
    })
}

fn sparse_question() -> Arc<Inquiry> {
    Arc::new(Inquiry {
        id: "ask_4".into(),
        parent: Some("call_0".into()),
        subject: RequestSubject::Question(AgentQuestion {
            tool_call: None,
            text: "t".into(),
            detail: None,
            fields: vec![QuestionField {
                name: "n".into(),
                label: "l".into(),
                choices: Vec::new(),
                several: false,
                free: false,
                required: false,
            }],
        }),
    })
}

fn sparse_inquiries() -> Vec<Event> {
    let resolved = |inquiry, reply| Event::InquiryResolved {
        inquiry,
        reply,
        by: ResolvedBy::Cancel,
    };
    vec![
        Event::InquiryRequested(sparse_limit()),
        Event::InquiryRequested(sparse_question()),
        resolved(sparse_limit(), InquiryReply::Accept),
        resolved(sparse_limit(), InquiryReply::Stop),
        resolved(sparse_question(), InquiryReply::Dismissed),
    ]
}

fn compaction(summary: Option<Summary>, stubs: Vec<ToolCallId>) -> Event {
    let pictures = summary.is_some();
    Event::Compacted(Arc::new(Compaction {
        trigger: CompactTrigger::Overflow,
        tokens_before: 4,
        tokens_after: 3,
        messages_before: 2,
        messages_after: 1,
        summary,
        stubs,
        pictures,
    }))
}

fn nested(event: Event) -> Event {
    Event::Nested(Box::new(SubagentEvent {
        parent: "call_0".into(),
        event,
    }))
}

fn sparse_events() -> Vec<Event> {
    let mut events = vec![
        Event::TurnStarted {
            by: TurnTrigger::Queue,
            resumes: None,
        },
        Event::TurnEnded(TurnEnd {
            reason: TerminalReason::Completed,
            state: TurnState::Completed,
            usage: Usage::default(),
            cost: None,
            error: Some(AgentError::new(ErrorCode::Internal, "m")),
            unused_steers: Vec::new(),
        }),
    ];
    events.extend(sparse_messages());
    events.extend(sparse_calls());
    events.extend(sparse_inquiries());
    events.extend([
        Event::Wait {
            why: String::new(),
            until: None,
        },
        compaction(
            Some(Summary {
                message: "msg_6".into(),
                text: "s".into(),
                from: "msg_2".into(),
                until: "msg_3".into(),
                digest: true,
            }),
            vec!["call_1".into()],
        ),
        compaction(None, Vec::new()),
        Event::Circuit {
            subject: CircuitSubject::Tool,
            name: "bash".into(),
            state: CircuitState::HalfOpen,
            until: None,
        },
        Event::Usage {
            step: Usage::default(),
            turn: Usage::default(),
            session: Usage::default(),
            step_cost: None,
            turn_cost: Some(Cost(2)),
            session_cost: None,
            context_used: 0,
            window: 0,
            provider: None,
        },
        Event::SessionUpdated {
            title: None,
            mode: None,
            model: None,
            effort: None,
        },
        Event::TurnDiff(Arc::new(TurnDiff {
            turn: "turn_1".into(),
            state: ChangeState::Made,
            files: vec![FileDiff {
                path: "b.txt".into(),
                kind: ChangeKind::Deleted,
                added: 0,
                removed: 0,
                diff: None,
                restorable: false,
            }],
            unlisted: 0,
            partial: false,
        })),
        Event::QueueChanged(PromptQueue {
            paused: false,
            prompts: vec![QueuedPrompt {
                id: "queued_2".into(),
                text: String::new(),
            }],
        }),
        Event::QueueChanged(PromptQueue::default()),
        Event::Instructions {
            files: Arc::new([InstructionFile {
                path: "/w/AGENTS.md".into(),
                kind: InstructionKind::Agents,
                name: None,
                bytes: 0,
                fingerprint: String::new(),
                trusted: false,
                problem: None,
            }]),
        },
        nested(Event::Warning {
            code: "z".into(),
            message: "a".into(),
        }),
        nested(Event::Retry {
            provider: "p".into(),
            model: "m".into(),
            attempt: 1,
            max_retries: 2,
            delay_ms: 3,
            resume_at: -4,
            error: error(),
            next: "n".into(),
        }),
        nested(message("msg_7", Role::Assistant, sparse_blocks())),
    ]);
    events
}

fn sparse_pending() -> Vec<PendingEvent> {
    let reply = |inquiry: &str, reply| PendingEvent::Reply {
        inquiry: inquiry.into(),
        reply,
    };
    vec![
        PendingEvent::Partial {
            message: "msg_8".into(),
            before: 0,
            turn: None,
            text: String::new(),
            reasoning: String::new(),
        },
        PendingEvent::Steer {
            key: "2".into(),
            turn: None,
            content: blocks(),
        },
        PendingEvent::Queued {
            key: "2".into(),
            content: Vec::new(),
        },
        PendingEvent::Decision {
            approval: "appr_2".into(),
            decision: Decision::from_kind(DecisionKind::Allow),
        },
        PendingEvent::Approval(OpenApproval {
            approval: sparse_approval(),
            seq: 0,
            turn: None,
            at_ms: -1,
        }),
        PendingEvent::Inquiry(OpenInquiry {
            inquiry: sparse_question(),
            seq: 0,
            turn: None,
            at_ms: -1,
        }),
        reply("ask_2", InquiryReply::Raise(1)),
        reply("ask_3", InquiryReply::Accept),
        reply(
            "ask_4",
            InquiryReply::Answers(Answers::from([("n".into(), Vec::new())])),
        ),
        reply("ask_5", InquiryReply::Dismissed),
    ]
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
                pictures: false,
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
