//! Samples without optional parts.

use std::sync::Arc;

use serde_json::json;

use super::{approval, blocks, error, message};
use crate::domain::*;
use crate::store::rows::PendingEvent;

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
        losses: None,
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
            url: None,
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
                value_type: None,
                default: Vec::new(),
                schema: None,
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
        shortened: Vec::new(),
        pictures,
        kept_pictures: 0,
    }))
}

fn nested(event: Event) -> Event {
    Event::Nested(Box::new(SubagentEvent {
        parent: "call_0".into(),
        event,
    }))
}

pub(super) fn sparse_events() -> Vec<Event> {
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
                kept: Vec::new(),
                shortened: Vec::new(),
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

pub(super) fn sparse_pending() -> Vec<PendingEvent> {
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
