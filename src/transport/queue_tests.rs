//! Order, merging, rate limits and permits of the outbox's core.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::base::backpressure::{ByteBudget, SessionBudget};
use crate::base::clock;

const MS: Duration = Duration::from_millis(1);
const FRAME: Duration = Duration::from_millis(16);

fn open_queue(frame: Duration) -> (OutboundQueue, Instant) {
    let (mut queue, now) = (OutboundQueue::new(frame), clock::now());
    queue.open(now);
    (queue, now)
}

fn delta(stream: u64, group: u64, offset: usize, text: &str) -> Outgoing {
    Outgoing::Mergeable {
        key: (stream, group),
        head: format!("{stream}@{offset}:").into_bytes(),
        text: text.as_bytes().to_vec(),
        tail: b";",
        permit: None,
    }
}

fn event(group: u64, name: &str) -> Outgoing {
    Outgoing::Notification {
        body: name.as_bytes().to_vec(),
        group: Some(group),
        permit: None,
    }
}

fn response(group: Option<u64>, name: &str) -> Outgoing {
    Outgoing::Response {
        body: name.as_bytes().to_vec(),
        group,
    }
}

fn body(slot: &QueuedFrame) -> String {
    let body = [&slot.body[..], slot.tail].concat();
    String::from_utf8(body).unwrap()
}

fn drain(queue: &mut OutboundQueue, now: Instant) -> Vec<String> {
    std::iter::from_fn(|| queue.pop(now))
        .map(|slot| body(&slot))
        .collect()
}

#[test]
fn frames_carry_their_length() {
    let (mut queue, now) = open_queue(FRAME);
    queue.push(delta(1, 1, 0, "é"), now);
    queue.push(response(None, "{}"), now);
    let mut buffer = Vec::new();
    while let Some(slot) = queue.pop(now) {
        slot.write_to(&mut buffer);
    }
    assert_eq!(
        buffer,
        "Content-Length: 7\r\n\r\n1@0:é;Content-Length: 2\r\n\r\n{}".as_bytes()
    );
}

#[test]
fn waiting_deltas_merge_until_their_group_sends_something_else() {
    let (mut queue, now) = open_queue(Duration::ZERO);
    assert_eq!(queue.push(delta(1, 1, 0, "a"), now), WakeHint::Ready);
    assert_eq!(queue.push(delta(1, 1, 1, "b"), now), WakeHint::Nothing);
    queue.push(event(2, "other group"), now);
    queue.push(delta(1, 1, 2, "c"), now);
    queue.push(event(1, "own group"), now);
    queue.push(delta(1, 1, 3, "d"), now);
    queue.push(delta(2, 1, 0, "x"), now);
    queue.push(delta(1, 1, 4, "e"), now);
    let sent = drain(&mut queue, now);
    assert_eq!(
        sent,
        [
            "1@0:abc;",
            "other group",
            "own group",
            "1@3:d;",
            "2@0:x;",
            "1@4:e;"
        ]
    );
}

#[test]
fn a_delta_that_has_left_takes_no_more_text() {
    let (mut queue, now) = open_queue(Duration::ZERO);
    queue.push(delta(1, 1, 0, "a"), now);
    assert_eq!(drain(&mut queue, now), ["1@0:a;"]);
    queue.push(event(2, "fills the same place"), now);
    queue.push(delta(1, 1, 1, "b"), now);
    assert_eq!(drain(&mut queue, now), ["fills the same place", "1@1:b;"]);
}

#[test]
fn a_merged_slot_stays_under_its_limit() {
    for frame in [Duration::ZERO, FRAME] {
        let (mut queue, now) = open_queue(frame);
        let text = "x".repeat(10_000);
        for at in 0..20 {
            queue.push(delta(1, 1, at * 10_000, &text), now);
        }
        let slots = drain(&mut queue, now + FRAME);
        assert!(slots.iter().all(|slot| slot.len() <= MAX_MERGED));
        let offsets: Vec<&str> = slots.iter().map(|slot| slot.split(':').next().unwrap()).collect();
        assert_eq!(offsets, ["1@0", "1@60000", "1@120000", "1@180000"]);
    }
    let (mut queue, now) = open_queue(FRAME);
    queue.push(delta(1, 1, 0, &"x".repeat(200_000)), now);
    assert_eq!(drain(&mut queue, now).len(), 1, "one large delta is not cut");
}

#[test]
fn a_frame_sends_two_notifications_and_the_rest_at_its_end() {
    let (mut queue, start) = open_queue(FRAME);
    let mut sent = Vec::new();
    for ms in 0..100_u32 {
        let now = start + MS * ms;
        for part in 0..10 {
            queue.push(delta(1, 1, (ms * 10 + part) as usize, "x"), now);
            sent.extend(drain(&mut queue, now).into_iter().map(|text| (ms, text)));
        }
    }
    // The first frame passes two deltas at once; each later one passes the held slot and one more.
    let times: Vec<u32> = sent.iter().map(|(ms, _)| *ms).collect();
    assert_eq!(times, [0, 0, 16, 16, 32, 32, 48, 48, 64, 64, 80, 80, 96, 96]);
    assert_eq!(sent[0].1, "1@0:x;");
    assert_eq!(sent[1].1, "1@1:x;");
    assert!(sent[2].1.starts_with("1@2:xxx"));
}

#[test]
fn ordinary_model_speed_is_never_delayed() {
    let (mut queue, start) = open_queue(FRAME);
    for n in 0..200 {
        let now = start + MS * 8 * n;
        queue.push(delta(1, 1, n as usize, "x"), now);
        assert_eq!(drain(&mut queue, now).len(), 1, "delta {n}");
    }
}

#[test]
fn a_held_delta_leaves_before_later_items_of_its_group() {
    let fill = |queue: &mut OutboundQueue, now| {
        for at in 0..4 {
            queue.push(delta(1, 1, at, "x"), now);
            let sent = drain(queue, now);
            assert_eq!(sent.is_empty(), at >= 2);
        }
    };
    let cases: [(Outgoing, &[&str]); 7] = [
        (event(1, "durable"), &["1@2:xx;", "durable"]),
        (event(2, "other group"), &["other group"]),
        (delta(9, 1, 0, "y"), &["9@0:y;"]),
        (delta(9, 2, 0, "y"), &["9@0:y;"]),
        (response(Some(1), "answer"), &["1@2:xx;", "answer"]),
        (response(Some(2), "answer"), &["answer"]),
        (response(None, "answer"), &["1@2:xx;", "answer"]),
    ];
    for (item, expected) in cases {
        let (mut queue, now) = open_queue(FRAME);
        fill(&mut queue, now);
        assert_eq!(queue.next_due(), Some(now + FRAME));
        queue.push(item, now + MS);
        assert_eq!(drain(&mut queue, now + MS), expected);
        let late = drain(&mut queue, now + FRAME);
        assert_eq!(
            late.len(),
            usize::from(expected.len() == 1),
            "held slots leave in the end: {late:?}"
        );
        assert_eq!(queue.next_due(), None);
    }
}

#[test]
fn the_wake_hint_says_when_to_look() {
    let (mut queue, now) = open_queue(FRAME);
    let effects: Vec<WakeHint> = (0..4)
        .map(|at| {
            let effect = queue.push(delta(1, 1, at, "x"), now);
            drain(&mut queue, now);
            effect
        })
        .collect();
    let due = WakeHint::ReadyAt(now + FRAME);
    assert_eq!(
        effects,
        [WakeHint::Ready, WakeHint::Ready, due, WakeHint::Nothing]
    );
}

#[test]
fn notifications_wait_for_initialized_and_answers_do_not() {
    let (mut queue, now) = (OutboundQueue::new(FRAME), clock::now());
    queue.push(event(1, "one"), now);
    queue.push(response(None, "initialize"), now);
    queue.push(delta(5, 1, 0, "a"), now);
    queue.push(delta(5, 1, 1, "b"), now);
    queue.push(response(Some(2), "other"), now);
    queue.push(response(Some(1), "prompt"), now);
    assert_eq!(drain(&mut queue, now), ["initialize", "other"]);
    queue.open(now);
    queue.push(event(1, "two"), now);
    assert_eq!(drain(&mut queue, now), ["one", "5@0:ab;", "prompt", "two"]);
}

#[test]
fn dropping_a_slot_releases_its_bytes() {
    let pool = ByteBudget::new(1_000);
    let account = pool.open_session(1_000);
    let (mut queue, now) = open_queue(FRAME);
    let push = |queue: &mut OutboundQueue, at: usize| {
        let Outgoing::Mergeable {
            key,
            head,
            text,
            tail,
            ..
        } = delta(1, 1, at, "x")
        else {
            unreachable!()
        };
        let permit = Some(account.take(10));
        queue.push(
            Outgoing::Mergeable {
                key,
                head,
                text,
                tail,
                permit,
            },
            now,
        );
    };
    push(&mut queue, 0);
    push(&mut queue, 1);
    let slot = queue.pop(now).unwrap();
    assert_eq!(pool.bytes_in_flight(), 20);
    assert_eq!(queue.unbounded_bytes(), 0);
    drop(slot);
    assert_eq!(pool.bytes_in_flight(), 0);
    push(&mut queue, 2);
    drain(&mut queue, now);
    push(&mut queue, 3);
    assert_eq!(pool.bytes_in_flight(), 10, "held");
    queue.clear();
    assert_eq!(pool.bytes_in_flight(), 0);
}

#[test]
fn bytes_without_a_permit_are_counted() {
    let (mut queue, now) = open_queue(Duration::ZERO);
    queue.push(response(None, "12345"), now);
    queue.push(delta(1, 1, 0, "x"), now);
    queue.push(delta(1, 1, 1, "yz"), now);
    assert_eq!(queue.unbounded_bytes(), 5 + 8);
    drain(&mut queue, now);
    assert_eq!(queue.unbounded_bytes(), 0);
}

#[test]
fn idle_groups_are_removed() {
    let (mut queue, start) = open_queue(FRAME);
    for group in 0..10_000 {
        let now = start + FRAME * u32::try_from(group).unwrap();
        queue.push(delta(group, group, 0, "x"), now);
        drain(&mut queue, now);
    }
    assert!(queue.groups.len() <= 2 * FIRST_SWEEP_AT, "{}", queue.groups.len());
}

#[derive(Clone, Debug)]
enum Op {
    Delta { group: u64, stream: u64, length: usize },
    Event(u64),
    Response(Option<u64>),
    Pop(usize),
    Wait(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => (0_u64..3, 0_u64..2, prop_oneof![8 => 1_usize..6, 1 => 20_000_usize..40_000])
            .prop_map(|(group, stream, length)| Op::Delta { group, stream: group * 10 + stream, length }),
        2 => (0_u64..3).prop_map(Op::Event),
        1 => proptest::option::of(0_u64..3).prop_map(Op::Response),
        3 => (1_usize..5).prop_map(Op::Pop),
        3 => (0_u64..20).prop_map(Op::Wait),
    ];
    proptest::collection::vec(op, 0..200)
}

/// The pushed items, in order. Each text consists of push numbers, so that its bytes name the push.
#[derive(Default)]
struct QueueModel {
    /// For each push: its group, and its stream if it is a delta.
    pushes: Vec<(Option<u64>, Option<u64>)>,
    offsets: HashMap<u64, usize>,
    /// Pushes that are answers: nothing earlier may follow them.
    answers: Vec<usize>,
}

impl QueueModel {
    fn token(&self) -> String {
        format!("<{}>", self.pushes.len())
    }
}

fn run(
    ops: &[Op],
    frame: Duration,
    open_at: usize,
    account: &Arc<SessionBudget>,
) -> (QueueModel, Vec<String>) {
    let (mut queue, mut now) = (OutboundQueue::new(frame), clock::now());
    let (mut model, mut sent) = (QueueModel::default(), Vec::new());
    for (at, op) in ops.iter().enumerate() {
        if at == open_at {
            queue.open(now);
        }
        let token = model.token();
        match op {
            Op::Delta {
                group,
                stream,
                length,
            } => {
                let text = format!("{token}{}", "x".repeat(*length));
                let offset = model.offsets.entry(*stream).or_default();
                let Outgoing::Mergeable {
                    key,
                    head,
                    text: bytes,
                    tail,
                    ..
                } = delta(*stream, *group, *offset, &text)
                else {
                    unreachable!()
                };
                *offset += text.len();
                let permit = Some(account.take(text.len()));
                queue.push(
                    Outgoing::Mergeable {
                        key,
                        head,
                        text: bytes,
                        tail,
                        permit,
                    },
                    now,
                );
                model.pushes.push((Some(*group), Some(*stream)));
            }
            Op::Event(group) => {
                queue.push(event(*group, &token), now);
                model.pushes.push((Some(*group), None));
            }
            Op::Response(group) => {
                queue.push(response(*group, &token), now);
                if group.is_none() && at >= open_at {
                    model.answers.push(model.pushes.len());
                }
                model.pushes.push((*group, None));
            }
            Op::Pop(count) => {
                for _ in 0..*count {
                    sent.extend(queue.pop(now).map(|slot| body(&slot)));
                }
            }
            Op::Wait(ms) => now += MS * u32::try_from(*ms).unwrap(),
        }
    }
    queue.open(now);
    queue.release_all();
    sent.extend(drain(&mut queue, now));
    assert_eq!(queue.unbounded_bytes(), 0);
    (model, sent)
}

/// The numbers of pushes, in the order they were sent.
fn tokens(sent: &[String]) -> Vec<usize> {
    let all = sent.concat();
    all.split('<')
        .skip(1)
        .map(|part| part.split('>').next().unwrap().parse().unwrap())
        .collect()
}

proptest! {
    #[test]
    fn order_offsets_and_text_hold(
        ops in ops(),
        frame in prop_oneof![Just(Duration::ZERO), Just(FRAME)],
        open_at in 0_usize..20,
    ) {
        let pool = ByteBudget::new(usize::MAX);
        let account = pool.open_session(usize::MAX);
        let (model, sent) = run(&ops, frame, open_at, &account);
        prop_assert_eq!(pool.bytes_in_flight(), 0, "all room is given back");
        // Each push leaves exactly once.
        let order = tokens(&sent);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        prop_assert_eq!(&sorted, &(0..model.pushes.len()).collect::<Vec<_>>());
        // In order within each group.
        for group in 0..3 {
            let of_group: Vec<usize> =
                order.iter().copied().filter(|push| model.pushes[*push].0 == Some(group)).collect();
            // Deltas of different streams may pass each other, nothing else may.
            for (place, push) in of_group.iter().enumerate() {
                let passed = of_group[place..].iter().filter(|later| *later < push);
                for later in passed {
                    let (one, other) = (model.pushes[*push].1, model.pushes[*later].1);
                    prop_assert!(one.is_some() && other.is_some() && one != other, "group {group}: {of_group:?}");
                }
            }
        }
        // An answer without a group comes after everything pushed before it.
        for answer in &model.answers {
            let place = order.iter().position(|push| push == answer).unwrap();
            prop_assert!(order[place..].iter().all(|later| later >= answer));
        }
        // Each offset equals the length of the text that the client has so far.
        let mut lengths: HashMap<u64, usize> = HashMap::new();
        for slot in sent.iter().filter(|slot| slot.ends_with(';')) {
            let (stream, rest) = slot.split_once('@').unwrap();
            let (offset, text) = rest.split_once(':').unwrap();
            let length = lengths.entry(stream.parse().unwrap()).or_default();
            prop_assert_eq!(offset.parse::<usize>().unwrap(), *length);
            *length += text.len() - 1;
        }
        lengths.retain(|_, length| *length > 0);
        prop_assert_eq!(lengths, model.offsets);
    }

    #[test]
    fn rate_holds_for_each_stream(pushes in proptest::collection::vec((0_u64..6_000, 0_usize..3), 1..300)) {
        let (mut queue, start) = open_queue(FRAME);
        let (mut now, mut times) = (start, [const { Vec::new() }; 3]);
        let mut lengths = [0; 3];
        let take = |queue: &mut OutboundQueue, times: &mut [Vec<Instant>; 3], at: Instant| {
            for sent in drain(queue, at) {
                let stream: usize = sent.split('@').next().unwrap().parse().unwrap();
                times[stream].push(at);
            }
        };
        for (gap, stream) in &pushes {
            let next = now + Duration::from_micros(*gap);
            // The writer wakes when something is due.
            while let Some(due) = queue.next_due().filter(|due| *due <= next) {
                take(&mut queue, &mut times, due);
            }
            now = next;
            let first = lengths[*stream] == 0;
            queue.push(delta(*stream as u64, 1, lengths[*stream], "x"), now);
            lengths[*stream] += 1;
            take(&mut queue, &mut times, now);
            prop_assert!(!first || times[*stream] == [now], "the first is never held");
        }
        let frames = (now - start).as_millis() / 16 + 2;
        for times in times {
            // Two per frame, wherever frames start: never more than four within the length of one frame.
            for window in times.windows(5) {
                prop_assert!(window[4] - window[0] >= FRAME, "{window:?}");
            }
            prop_assert!(times.len() as u128 <= frames * 2);
        }
    }
}
