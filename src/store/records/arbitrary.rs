//! Arbitrary events and pending values, for property tests.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use crate::domain::*;
use crate::store::rows::PendingEvent;

fn text() -> impl Strategy<Value = String> {
    "(?s).{0,12}"
}

fn id<T: From<String> + std::fmt::Debug>() -> impl Strategy<Value = T> {
    "[a-z]{1,4}_[0-9a-z]{1,8}".prop_map(T::from)
}

fn arb_shared_text() -> impl Strategy<Value = Arc<str>> {
    text().prop_map(Arc::from)
}

fn arb_json() -> impl Strategy<Value = Arc<Value>> {
    // Floats with few digits: serde_json may parse long ones with a rounding error.
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i16>().prop_map(|n| Value::from(f64::from(n) / 8.0)),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(text(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
    .prop_map(Arc::new)
}

fn arb_usage() -> impl Strategy<Value = Usage> {
    any::<[u64; 4]>().prop_map(|[input, output, cache_read, cache_write]| Usage {
        input,
        output,
        cache_read,
        cache_write,
    })
}

fn arb_cost() -> impl Strategy<Value = Option<Cost>> {
    of(any::<u64>().prop_map(Cost))
}

fn arb_error() -> impl Strategy<Value = AgentError> {
    let classes = [ErrorClass::Retryable, ErrorClass::Terminal, ErrorClass::NonFatal];
    let words = (
        select(&ErrorCode::ALL[..]),
        select(classes.to_vec()),
        text(),
        of(text()),
        of(text()),
    );
    let more = (
        of(text()),
        of(any::<u16>()),
        of(text()),
        of(any::<u64>()),
        of(any::<i64>()),
        of(text()),
        of(any::<u32>()),
    );
    (words, more).prop_map(
        |(
            (code, class, message, cause, provider),
            (model, status, request_id, retry_after_ms, reset_at, user_action, attempts),
        )| AgentError {
            code,
            class,
            message,
            cause: cause.map(ErrorCause::from),
            provider,
            model,
            status,
            request_id,
            retry_after_ms,
            reset_at,
            user_action,
            attempts,
        },
    )
}

fn arb_image() -> impl Strategy<Value = ImageData> {
    (text(), arb_shared_text()).prop_map(|(media_type, data)| ImageData { media_type, data })
}

fn arb_tool_result() -> impl Strategy<Value = Arc<ToolResult>> {
    let full = (text(), any::<u64>()).prop_map(|(name, bytes)| ContentRef { name, bytes });
    (text(), vec(arb_image(), 0..2), any::<bool>(), of(full)).prop_map(|(text, images, is_error, full)| {
        Arc::new(ToolResult {
            text,
            images,
            is_error,
            full,
        })
    })
}

fn arb_reference() -> impl Strategy<Value = Reference> {
    let kinds = [
        ReferenceKind::File,
        ReferenceKind::Selection,
        ReferenceKind::Diagnostic,
    ];
    (select(kinds.to_vec()), text(), of(any::<(u32, u32)>()), text()).prop_map(|(kind, path, lines, text)| {
        Reference {
            kind,
            path,
            lines,
            text,
        }
    })
}

fn arb_signature() -> impl Strategy<Value = Signature> {
    (text(), of(text())).prop_map(|(value, origin)| Signature {
        value,
        origin: origin.map(Into::into),
    })
}

fn provider_call() -> impl Strategy<Value = ProviderCall> {
    (of(text()), of(arb_json()), text()).prop_map(|(id, extra, origin)| ProviderCall {
        id,
        extra,
        origin: origin.into(),
    })
}

fn arb_block() -> impl Strategy<Value = Block> {
    prop_oneof![
        text().prop_map(Block::Text),
        (text(), of(arb_signature()), any::<bool>()).prop_map(|(text, signature, redacted)| {
            Block::Reasoning {
                text,
                signature,
                redacted,
            }
        }),
        (id(), text(), arb_json(), of(provider_call())).prop_map(|(id, name, input, attached)| {
            Block::ToolUse {
                id,
                name,
                input,
                attached: attached.map(Arc::new),
            }
        }),
        (id(), arb_tool_result()).prop_map(|(id, result)| Block::ToolResult { id, result }),
        arb_image().prop_map(Block::Image),
        arb_reference().prop_map(Block::Reference),
    ]
}

fn arb_message() -> impl Strategy<Value = Message> {
    let roles = [Role::User, Role::Assistant, Role::Tool];
    (
        id(),
        select(roles.to_vec()),
        vec(arb_block(), 1..4),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(id, role, content, incomplete, hidden)| Message {
            id,
            role,
            content,
            incomplete,
            hidden,
        })
}

fn tool_call() -> impl Strategy<Value = ToolCallUpdate> {
    let statuses = [
        ToolCallStatus::Pending,
        ToolCallStatus::AwaitingApproval,
        ToolCallStatus::Running,
        ToolCallStatus::Completed,
        ToolCallStatus::Failed,
        ToolCallStatus::Denied,
        ToolCallStatus::Cancelled,
    ];
    let location = (text(), of(any::<u32>())).prop_map(|(uri, line)| FileLocation { uri, line });
    let first = (id(), text(), text(), select(statuses.to_vec()), of(arb_json()));
    let more = (
        of(arb_tool_result()),
        of(arb_shared_text()),
        vec(location, 0..3),
        of(any::<u64>()),
        (of(any::<i32>()), of(id())),
    );
    (first, more).prop_map(
        |((id, name, title, status, input), (result, diff, locations, duration_ms, (exit_code, parent)))| {
            ToolCallUpdate {
                id,
                name,
                title,
                status,
                input,
                result,
                diff,
                locations,
                duration_ms,
                exit_code,
                parent,
            }
        },
    )
}

fn arb_compacted() -> impl Strategy<Value = Event> {
    let summary =
        (id(), text(), id(), id(), any::<bool>()).prop_map(|(message, text, from, until, digest)| Summary {
            message,
            text,
            from,
            until,
            digest,
        });
    let counts = (any::<u64>(), any::<u64>(), any::<u32>(), any::<u32>());
    let rest = (of(summary), vec(id(), 0..3), any::<bool>());
    (select(&CompactTrigger::ALL[..]), counts, rest).prop_map(
        |(
            trigger,
            (tokens_before, tokens_after, messages_before, messages_after),
            (summary, stubs, pictures),
        )| {
            Event::Compacted(Arc::new(Compaction {
                trigger,
                tokens_before,
                tokens_after,
                messages_before,
                messages_after,
                summary,
                stubs,
                pictures,
            }))
        },
    )
}

fn arb_approval() -> impl Strategy<Value = Approval> {
    let risks = [Risk::Low, Risk::Medium, Risk::High];
    let first = (id(), id(), text(), arb_json(), text());
    let more = (
        text(),
        of(arb_shared_text()),
        select(risks.to_vec()),
        text(),
        of(text()),
    );
    (first, more).prop_map(
        |((id, tool_call, name, input, title), (cwd, diff, risk, why, rule))| Approval {
            id,
            tool_call,
            name,
            input,
            title,
            cwd,
            diff,
            risk,
            why,
            rule,
        },
    )
}

fn arb_limit_subject() -> impl Strategy<Value = RequestSubject> {
    let amounts = (any::<u64>(), any::<u64>());
    (
        select(&LimitName::ALL[..]),
        amounts,
        of(text()),
        of(text()),
        text(),
    )
        .prop_map(|(limit, (used, most), provider, model, message)| {
            RequestSubject::Limit(LimitReached {
                limit,
                used,
                most,
                provider,
                model,
                message,
            })
        })
}

fn arb_question_subject() -> impl Strategy<Value = RequestSubject> {
    let choice = (text(), text()).prop_map(|(value, label)| FieldChoice { value, label });
    let field = (text(), text(), vec(choice, 0..3), any::<[bool; 3]>()).prop_map(
        |(name, label, choices, [several, free, required])| QuestionField {
            name,
            label,
            choices,
            several,
            free,
            required,
        },
    );
    (of(id()), text(), of(text()), vec(field, 0..3)).prop_map(|(tool_call, text, detail, fields)| {
        RequestSubject::Question(AgentQuestion {
            tool_call,
            text,
            detail,
            fields,
        })
    })
}

fn arb_inquiry() -> impl Strategy<Value = Arc<Inquiry>> {
    (
        id(),
        prop_oneof![arb_limit_subject(), arb_question_subject()],
        of(id()),
    )
        .prop_map(|(id, subject, parent)| Arc::new(Inquiry { id, subject, parent }))
}

fn arb_reply() -> impl Strategy<Value = InquiryReply> {
    prop_oneof![
        any::<u64>().prop_map(InquiryReply::Raise),
        Just(InquiryReply::Accept),
        Just(InquiryReply::Stop),
        prop::collection::btree_map(text(), vec(text(), 0..3), 0..3).prop_map(InquiryReply::Answers),
        Just(InquiryReply::Dismissed),
    ]
}

fn arb_decision() -> impl Strategy<Value = Decision> {
    let kinds = [
        DecisionKind::Allow,
        DecisionKind::AllowSession,
        DecisionKind::AllowAlways,
        DecisionKind::Deny,
    ];
    (select(kinds.to_vec()), of(text()), of(arb_json()), of(text())).prop_map(
        |(kind, feedback, input, rule)| Decision {
            kind,
            feedback,
            input,
            rule,
        },
    )
}

fn turn_end() -> impl Strategy<Value = TurnEnd> {
    (
        select(TerminalReason::ALL),
        select(&TurnState::ALL[..]),
        arb_usage(),
        arb_cost(),
        of(arb_error()),
        vec(vec(arb_block(), 0..2), 0..2),
    )
        .prop_map(|(reason, state, usage, cost, error, unused_steers)| TurnEnd {
            reason,
            state,
            usage,
            cost,
            error,
            unused_steers,
        })
}

fn arb_retry() -> impl Strategy<Value = Event> {
    (
        text(),
        text(),
        any::<u32>(),
        any::<u32>(),
        any::<u64>(),
        any::<i64>(),
        arb_error(),
        text(),
    )
        .prop_map(
            |(provider, model, attempt, max_retries, delay_ms, resume_at, error, next)| Event::Retry {
                provider,
                model,
                attempt,
                max_retries,
                delay_ms,
                resume_at,
                error,
                next,
            },
        )
}

fn arb_circuit() -> impl Strategy<Value = Event> {
    let subjects = vec![CircuitSubject::Provider, CircuitSubject::Tool];
    let states = vec![CircuitState::Closed, CircuitState::Open, CircuitState::HalfOpen];
    (select(subjects), text(), select(states), of(any::<i64>())).prop_map(|(subject, name, state, until)| {
        Event::Circuit {
            subject,
            name,
            state,
            until,
        }
    })
}

fn arb_usage_event() -> impl Strategy<Value = Event> {
    (
        [arb_usage(), arb_usage(), arb_usage()],
        [arb_cost(), arb_cost(), arb_cost()],
        any::<[u64; 2]>(),
        of(text()),
    )
        .prop_map(
            |(
                [step, turn, session],
                [step_cost, turn_cost, session_cost],
                [context_used, window],
                provider,
            )| {
                Event::Usage {
                    step,
                    turn,
                    session,
                    step_cost,
                    turn_cost,
                    session_cost,
                    context_used,
                    window,
                    provider,
                }
            },
        )
}

fn arb_transition() -> impl Strategy<Value = Transition> {
    prop_oneof![
        select(ContinueReason::ALL).prop_map(Transition::Continue),
        select(TerminalReason::ALL).prop_map(Transition::Terminal),
    ]
}

/// Any durable event.
pub(crate) fn arb_event() -> BoxedStrategy<Event> {
    let settlers = [
        ResolvedBy::Person,
        ResolvedBy::Rule,
        ResolvedBy::Cancel,
        ResolvedBy::Timeout,
        ResolvedBy::NewPrompt,
    ];
    let statuses = [PlanStatus::Pending, PlanStatus::InProgress, PlanStatus::Completed];
    let instructions = (
        text(),
        select(&InstructionKind::ALL[..]),
        of(text()),
        any::<u64>(),
        text(),
        any::<bool>(),
        of(text()),
    )
        .prop_map(
            |(path, kind, name, bytes, fingerprint, trusted, problem)| InstructionFile {
                path,
                kind,
                name,
                bytes,
                fingerprint,
                trusted,
                problem,
            },
        );
    let item = (text(), select(statuses.to_vec())).prop_map(|(text, status)| PlanItem { text, status });
    prop_oneof![
        (
            select(vec![
                TurnTrigger::Prompt,
                TurnTrigger::Resume,
                TurnTrigger::Compact,
                TurnTrigger::Queue
            ]),
            of(id())
        )
            .prop_map(|(by, resumes)| Event::TurnStarted { by, resumes }),
        turn_end().prop_map(Event::TurnEnded),
        arb_message().prop_map(|message| Event::Message(Arc::new(message))),
        (id(), vec(id(), 0..3))
            .prop_map(|(message, tool_calls)| Event::MessageRetracted { message, tool_calls }),
        tool_call().prop_map(Event::ToolCall),
        arb_approval().prop_map(Event::ApprovalRequested),
        (id(), id(), arb_decision(), select(settlers.to_vec())).prop_map(
            |(approval, tool_call, decision, by)| Event::ApprovalResolved {
                approval,
                tool_call,
                decision,
                by
            }
        ),
        arb_inquiry().prop_map(Event::InquiryRequested),
        (arb_inquiry(), arb_reply(), select(settlers.to_vec()))
            .prop_map(|(inquiry, reply, by)| Event::InquiryResolved { inquiry, reply, by }),
        vec(item, 0..3).prop_map(Event::Plan),
        (arb_transition(), of(text()))
            .prop_map(|(transition, detail)| Event::Transition { transition, detail }),
        arb_retry(),
        (text(), of(any::<i64>())).prop_map(|(why, until)| Event::Wait { why, until }),
        arb_compacted(),
        (text(), text(), text()).prop_map(|(from, to, why)| Event::ModelSwitched { from, to, why }),
        arb_circuit(),
        arb_usage_event(),
        (text(), text()).prop_map(|(code, message)| Event::Warning { code, message }),
        (of(text()), of(select(&Mode::ALL[..])), of(text()), of(text())).prop_map(
            |(title, mode, model, effort)| Event::SessionUpdated {
                title,
                mode,
                model,
                effort
            }
        ),
        (any::<bool>(), vec((text(), text()), 0..3)).prop_map(|(paused, prompts)| {
            let prompts = prompts
                .into_iter()
                .map(|(id, text)| QueuedPrompt { id, text })
                .collect();
            Event::QueueChanged(PromptQueue { paused, prompts })
        }),
        vec(instructions, 0..3).prop_map(|files| Event::Instructions(files.into())),
        (id(), text(), text()).prop_map(|(parent, code, message)| {
            let event = Event::Warning { code, message };
            Event::Nested(Box::new(SubagentEvent { parent, event }))
        }),
    ]
    .boxed()
}

/// Any pending value.
pub(crate) fn arb_pending() -> impl Strategy<Value = PendingEvent> {
    prop_oneof![
        (id(), any::<u64>(), of(id()), text(), text()).prop_map(
            |(message, before, turn, text, reasoning)| {
                PendingEvent::Partial {
                    message,
                    before,
                    turn,
                    text,
                    reasoning,
                }
            }
        ),
        (id(), of(id()), vec(arb_block(), 0..3)).prop_map(|(key, turn, content)| PendingEvent::Steer {
            key,
            turn,
            content
        }),
        (id(), vec(arb_block(), 0..3)).prop_map(|(key, content)| PendingEvent::Queued { key, content }),
        (id(), arb_decision()).prop_map(|(approval, decision)| PendingEvent::Decision { approval, decision }),
        (of(id()), arb_approval(), any::<u64>(), any::<i64>()).prop_map(|(turn, approval, seq, at_ms)| {
            PendingEvent::Approval(OpenApproval {
                approval,
                seq,
                turn,
                at_ms,
            })
        }),
        (of(id()), arb_inquiry(), any::<u64>(), any::<i64>()).prop_map(|(turn, inquiry, seq, at_ms)| {
            PendingEvent::Inquiry(OpenInquiry {
                inquiry,
                seq,
                turn,
                at_ms,
            })
        }),
        (id(), arb_reply()).prop_map(|(inquiry, reply)| PendingEvent::Reply { inquiry, reply }),
    ]
}
