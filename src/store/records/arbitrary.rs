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

fn shared() -> impl Strategy<Value = Arc<str>> {
    text().prop_map(Arc::from)
}

fn json() -> impl Strategy<Value = Arc<Value>> {
    // Floats of few digits: serde_json may read long ones back one step off.
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

fn usage() -> impl Strategy<Value = Usage> {
    any::<[u64; 4]>().prop_map(|[input, output, cache_read, cache_write]| Usage {
        input,
        output,
        cache_read,
        cache_write,
    })
}

fn cost() -> impl Strategy<Value = Option<Cost>> {
    of(any::<u64>().prop_map(Cost))
}

fn error() -> impl Strategy<Value = AgentError> {
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
            cause: cause.map(Cause::from),
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

fn image() -> impl Strategy<Value = ImageData> {
    (text(), shared()).prop_map(|(media_type, data)| ImageData { media_type, data })
}

fn result() -> impl Strategy<Value = Arc<ToolResult>> {
    let full = (text(), any::<u64>()).prop_map(|(name, bytes)| ContentRef { name, bytes });
    (text(), vec(image(), 0..2), any::<bool>(), of(full)).prop_map(|(text, images, is_error, full)| {
        Arc::new(ToolResult {
            text,
            images,
            is_error,
            full,
        })
    })
}

fn reference() -> impl Strategy<Value = Reference> {
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

fn signature() -> impl Strategy<Value = Signature> {
    (text(), of(text())).prop_map(|(value, origin)| Signature {
        value,
        origin: origin.map(Into::into),
    })
}

fn provider_call() -> impl Strategy<Value = ProviderCall> {
    (of(text()), of(json()), text()).prop_map(|(id, extra, origin)| ProviderCall {
        id,
        extra,
        origin: origin.into(),
    })
}

fn block() -> impl Strategy<Value = Block> {
    prop_oneof![
        text().prop_map(Block::Text),
        (text(), of(signature()), any::<bool>()).prop_map(|(text, signature, redacted)| Block::Reasoning {
            text,
            signature,
            redacted
        }),
        (id(), text(), json(), of(provider_call())).prop_map(|(id, name, input, attached)| Block::ToolUse {
            id,
            name,
            input,
            attached: attached.map(Arc::new)
        }),
        (id(), result()).prop_map(|(id, result)| Block::ToolResult { id, result }),
        image().prop_map(Block::Image),
        reference().prop_map(Block::Reference),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let roles = [Role::User, Role::Assistant, Role::Tool];
    (
        id(),
        select(roles.to_vec()),
        vec(block(), 1..4),
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
    let location = (text(), of(any::<u32>())).prop_map(|(uri, line)| Location { uri, line });
    let first = (id(), text(), text(), select(statuses.to_vec()), of(json()));
    let more = (
        of(result()),
        of(shared()),
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

fn compacted() -> impl Strategy<Value = Event> {
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

fn approval() -> impl Strategy<Value = Approval> {
    let risks = [Risk::Low, Risk::Medium, Risk::High];
    let first = (id(), id(), text(), json(), text());
    let more = (text(), of(shared()), select(risks.to_vec()), text(), of(text()));
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

fn limit() -> impl Strategy<Value = RequestSubject> {
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

fn question() -> impl Strategy<Value = RequestSubject> {
    let choice = (text(), text()).prop_map(|(value, label)| Choice { value, label });
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

fn inquiry() -> impl Strategy<Value = Arc<Inquiry>> {
    (id(), prop_oneof![limit(), question()], of(id()))
        .prop_map(|(id, subject, parent)| Arc::new(Inquiry { id, subject, parent }))
}

fn reply() -> impl Strategy<Value = InquiryReply> {
    prop_oneof![
        any::<u64>().prop_map(InquiryReply::Raise),
        Just(InquiryReply::Accept),
        Just(InquiryReply::Stop),
        prop::collection::btree_map(text(), vec(text(), 0..3), 0..3).prop_map(InquiryReply::Answers),
        Just(InquiryReply::Dismissed),
    ]
}

fn decision() -> impl Strategy<Value = Decision> {
    let kinds = [
        DecisionKind::Allow,
        DecisionKind::AllowSession,
        DecisionKind::AllowAlways,
        DecisionKind::Deny,
    ];
    (select(kinds.to_vec()), of(text()), of(json()), of(text())).prop_map(|(kind, feedback, input, rule)| {
        Decision {
            kind,
            feedback,
            input,
            rule,
        }
    })
}

fn turn_end() -> impl Strategy<Value = TurnEnd> {
    (
        select(TerminalReason::ALL),
        select(&TurnState::ALL[..]),
        usage(),
        cost(),
        of(error()),
        vec(vec(block(), 0..2), 0..2),
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

fn retry() -> impl Strategy<Value = Event> {
    (
        text(),
        text(),
        any::<u32>(),
        any::<u32>(),
        any::<u64>(),
        any::<i64>(),
        error(),
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

fn circuit() -> impl Strategy<Value = Event> {
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

fn spent() -> impl Strategy<Value = Event> {
    (
        [usage(), usage(), usage()],
        [cost(), cost(), cost()],
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

fn transition() -> impl Strategy<Value = Transition> {
    prop_oneof![
        select(ContinueReason::ALL).prop_map(Transition::Continue),
        select(TerminalReason::ALL).prop_map(Transition::Terminal),
    ]
}

/// Any durable event.
pub(crate) fn event() -> BoxedStrategy<Event> {
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
        message().prop_map(|message| Event::Message(Arc::new(message))),
        (id(), vec(id(), 0..3))
            .prop_map(|(message, tool_calls)| Event::MessageRetracted { message, tool_calls }),
        tool_call().prop_map(Event::ToolCall),
        approval().prop_map(Event::ApprovalRequested),
        (id(), id(), decision(), select(settlers.to_vec())).prop_map(
            |(approval, tool_call, decision, by)| Event::ApprovalResolved {
                approval,
                tool_call,
                decision,
                by
            }
        ),
        inquiry().prop_map(Event::InquiryRequested),
        (inquiry(), reply(), select(settlers.to_vec()))
            .prop_map(|(inquiry, reply, by)| Event::InquiryResolved { inquiry, reply, by }),
        vec(item, 0..3).prop_map(Event::Plan),
        (transition(), of(text())).prop_map(|(transition, detail)| Event::Transition { transition, detail }),
        retry(),
        (text(), of(any::<i64>())).prop_map(|(why, until)| Event::Wait { why, until }),
        compacted(),
        (text(), text(), text()).prop_map(|(from, to, why)| Event::ModelSwitched { from, to, why }),
        circuit(),
        spent(),
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
pub(crate) fn pending() -> impl Strategy<Value = PendingEvent> {
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
        (id(), of(id()), vec(block(), 0..3)).prop_map(|(key, turn, content)| PendingEvent::Steer {
            key,
            turn,
            content
        }),
        (id(), vec(block(), 0..3)).prop_map(|(key, content)| PendingEvent::Queued { key, content }),
        (id(), decision()).prop_map(|(approval, decision)| PendingEvent::Decision { approval, decision }),
        (of(id()), approval(), any::<u64>(), any::<i64>()).prop_map(|(turn, approval, seq, at_ms)| {
            PendingEvent::Approval(OpenApproval {
                approval,
                seq,
                turn,
                at_ms,
            })
        }),
        (of(id()), inquiry(), any::<u64>(), any::<i64>()).prop_map(|(turn, inquiry, seq, at_ms)| {
            PendingEvent::Inquiry(OpenInquiry {
                inquiry,
                seq,
                turn,
                at_ms,
            })
        }),
        (id(), reply()).prop_map(|(inquiry, reply)| PendingEvent::Reply { inquiry, reply }),
    ]
}
