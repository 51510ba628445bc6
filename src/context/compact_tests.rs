//! Tests of compaction: what goes, and that the history stays valid (I4) whatever goes.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::context::History;
use crate::context::results::*;
use crate::domain::{Event, MediaData, ToolCallStatus, ToolCallUpdate};

fn message(id: &str, role: Role, content: Vec<Block>) -> Event {
    Event::Message(Arc::new(Message {
        id: id.into(),
        role,
        content,
        incomplete: false,
        hidden: false,
    }))
}

fn text_message(id: &str, role: Role, text: &str) -> Event {
    message(id, role, vec![Block::Text(text.to_owned())])
}

fn calls(id: &str, calls: &[&str]) -> Event {
    let uses = calls.iter().map(|call| Block::ToolUse {
        id: (*call).into(),
        name: "bash".to_owned(),
        input: Arc::new(json!({"path": format!("{call}.rs")})),
        attached: None,
    });
    message(id, Role::Assistant, uses.collect())
}

fn result(id: &str, result: ToolResult) -> Event {
    let (name, status) = ("bash".to_owned(), ToolCallStatus::Completed);
    Event::ToolCall(ToolCallUpdate {
        result: Some(Arc::new(result)),
        ..ToolCallUpdate::new(id.into(), name, String::new(), status)
    })
}

fn history(events: &[Event]) -> History {
    let mut history = History::default();
    events.iter().for_each(|event| history.apply(event));
    history
}

/// Returns a prompt, followed by `rounds` of a call with its result.
fn long(rounds: usize) -> Vec<Event> {
    let mut events = vec![text_message("first", Role::User, "build it")];
    for n in 0..rounds {
        events.push(calls(&format!("m{n}"), &[&format!("c{n}")]));
        events.push(result(&format!("c{n}"), ToolResult::ok("x".repeat(3_000))));
    }
    events
}

fn compaction(summary: Option<Summary>) -> Compaction {
    Compaction {
        trigger: CompactTrigger::Threshold,
        tokens_before: 0,
        tokens_after: 0,
        messages_before: 0,
        messages_after: 0,
        summary,
        stubs: Vec::new(),
        shortened: Vec::new(),
        pictures: false,
        kept_pictures: 0,
    }
}

/// Returns the sizes for a window that is compacted when it is full.
fn sizes(window: u64) -> ContextSizes {
    ContextSizes::new(window, window, 0, 1.0)
}

/// Describes each message by one word.
fn shape(items: &[Arc<HistoryItem>]) -> Vec<String> {
    items
        .iter()
        .map(|item| match item.message.role {
            Role::Tool => "results".to_owned(),
            _ if item.message.text().starts_with(PREFIX) => "summary".to_owned(),
            _ => item.message.id.to_string(),
        })
        .collect()
}

#[test]
fn the_first_message_and_the_last_six_stay_and_no_call_loses_its_result() {
    let mut history = history(&long(10));
    let items = history.to_messages();
    let middle = find_compaction_range(&items, u64::MAX).unwrap();
    assert_eq!(middle.slice_items(&items).len(), 14);
    let summary = middle.build_summary(&items, &[], "notes".to_owned(), false);
    history.apply(&Event::Compacted(Arc::new(compaction(Some(summary)))));
    let after = history.to_messages();
    assert_eq!(
        shape(&after),
        [
            "first", "summary", "m7", "results", "m8", "results", "m9", "results"
        ]
    );
    assert_eq!(after[1].message.text(), format!("{PREFIX}\nnotes"));
    assert!(is_sufficient_reduction(
        estimate_total_tokens(&items),
        estimate_total_tokens(&after)
    ));
    // With one more message, the last six begin with results: their call stays too.
    history.apply(&text_message("more", Role::User, "more"));
    let mut grown = history.to_messages();
    grown.remove(1);
    let items = [&long_items(10)[..], &grown[7..]].concat();
    let until = super::find_compaction_range(&items, u64::MAX)
        .unwrap()
        .slice_items(&items)
        .last()
        .unwrap()
        .message
        .role;
    assert_eq!(
        until,
        Role::Tool,
        "what goes ends with the results of its last call"
    );
}

#[test]
fn a_summary_in_the_first_place_becomes_a_part_of_the_next() {
    let mut history = history(&long(10));
    let items = history.to_messages();
    let all = CompactionRange { from: 0, until: 14 };
    let summary = all.build_summary(&items, &[], "earlier".to_owned(), false);
    history.apply(&Event::Compacted(Arc::new(compaction(Some(summary)))));
    let items = history.to_messages();
    assert_eq!(shape(&items)[..2], ["summary", "results"]);
    for range in [
        find_compaction_range(&items, u64::MAX),
        find_overflow_range(&items, u64::MAX, u64::MAX),
    ] {
        let range = range.unwrap();
        assert_eq!(shape(range.slice_items(&items))[0], "summary");
        assert!(build_summary_prompt(&items, range, None, None).contains("earlier"));
    }
}

fn long_items(rounds: usize) -> Vec<Arc<HistoryItem>> {
    history(&long(rounds)).to_messages()
}

#[test]
fn an_overflow_omits_more_until_the_rest_fits() {
    let prompt = |name: &str, bytes: usize| {
        let text = format!("{name} {}", "x".repeat(bytes));
        [
            text_message(name, Role::User, &text),
            text_message(&format!("of {name}"), Role::Assistant, "ok"),
        ]
    };
    let omitted = |first: usize, second: usize, room: u64| {
        let prompts = [prompt("p1", first), prompt("p2", second), prompt("p3", 9_000)].concat();
        let items = history(&prompts[..5]).to_messages();
        let range = find_overflow_range(&items, room, u64::MAX).map(|range| shape(range.slice_items(&items)));
        assert_eq!(find_compaction_range(&items, u64::MAX), None);
        range.unwrap()
    };
    assert_eq!(omitted(10, 9_000, u64::MAX), ["of p1", "p2", "of p2"]);
    // The first prompt goes only if that helps.
    assert_eq!(omitted(10, 9_000, 0), ["of p1", "p2", "of p2"]);
    assert_eq!(omitted(9_000, 9_000, 0), ["p1", "of p1", "p2", "of p2"]);
    assert_eq!(omitted(9_000, 30_000, u64::MAX), ["of p1", "p2", "of p2"]);
    let items = history(&prompt("only", 9_000)).to_messages();
    assert_eq!(find_overflow_range(&items, 0, u64::MAX), None);
    assert!(is_digest_worthwhile(100, 90) && !is_digest_worthwhile(39_681, 39_527));
}

#[test]
fn a_short_history_has_nothing_to_omit() {
    for rounds in 0..4 {
        assert_eq!(
            find_compaction_range(&long_items(rounds), u64::MAX),
            None,
            "{rounds}"
        );
    }
    assert!(find_compaction_range(&long_items(5), u64::MAX).is_some());
}

#[test]
fn a_later_compaction_replaces_the_summary() {
    let mut history = history(&long(10));
    for round in 0..3 {
        let items = history.to_messages();
        let middle = find_compaction_range(&items, u64::MAX).unwrap();
        let notes = format!("notes {round}");
        let summary = middle.build_summary(&items, &[], notes.clone(), false);
        history.apply(&Event::Compacted(Arc::new(compaction(Some(summary)))));
        let items = history.to_messages();
        assert_eq!(shape(&items)[..2], ["first", "summary"]);
        assert!(items[1].message.text().ends_with(&notes));
        for n in 0..4 {
            let id = format!("r{round}{n}");
            history.apply(&calls(&format!("m{id}"), &[&id]));
            history.apply(&result(&id, ToolResult::ok("y")));
        }
    }
}

#[test]
fn what_the_user_said_stays_word_for_word_up_to_a_limit() {
    let mut events = long(4);
    events.push(text_message("pasted", Role::User, &"log ".repeat(25_000)));
    for n in 0..4 {
        events.push(text_message(&format!("u{n}"), Role::User, &"wish ".repeat(400)));
        events.push(text_message(&format!("a{n}"), Role::Assistant, "ok"));
    }
    for n in 0..4 {
        events.push(calls(&format!("last{n}"), &[&format!("l{n}")]));
        events.push(result(&format!("l{n}"), ToolResult::ok("y")));
    }
    let mut history = history(&events);
    for (window, kept) in [
        (200_000, &["u0", "u1", "u2", "u3"][..]),
        (10_000, &["u2", "u3"]),
        // The model has not answered it.
        (100, &["u3"]),
    ] {
        let items = history.to_messages();
        let middle = find_compaction_range(&items, u64::MAX).unwrap();
        let found = middle.find_kept(&items, &sizes(window));
        assert_eq!(shape(&found), kept, "{window}");
    }
    let items = history.to_messages();
    let middle = find_compaction_range(&items, u64::MAX).unwrap();
    let kept = middle.find_kept(&items, &sizes(10_000));
    let dropped = middle.describe_dropped(&items, &kept);
    assert_eq!(
        dropped.as_deref(),
        Some("[3 messages of the user from this part are only in these notes]")
    );
    let digest = build_digest(middle.slice_items(&items), &kept);
    assert!(
        digest.contains("said: wish") && digest.matches("said: wish").count() == 2,
        "{digest}"
    );
    let summary = middle.build_summary(&items, &kept, digest, true);
    history.apply(&Event::Compacted(Arc::new(compaction(Some(summary)))));
    assert_eq!(
        shape(&history.to_messages())[..4],
        ["first", "u2", "u3", "summary"]
    );
    // They are the user's messages for the next compaction too.
    let items = history.to_messages();
    let middle = find_compaction_range(&items, u64::MAX).unwrap();
    assert_eq!(shape(middle.slice_items(&items))[..3], ["u2", "u3", "summary"]);
}

#[test]
fn all_that_the_user_said_stays_unless_the_history_must_shrink() {
    let mut events = vec![text_message("first", Role::User, "build it")];
    for n in 0..8 {
        events.push(text_message(&format!("u{n}"), Role::User, &"wish ".repeat(400)));
        events.push(text_message(&format!("a{n}"), Role::Assistant, "ok"));
    }
    events.extend(long(3).into_iter().skip(1));
    let items = history(&events).to_messages();
    let middle = find_compaction_range(&items, u64::MAX).unwrap();
    let all = ["u0", "u1", "u2", "u3", "u4", "u5", "u6", "u7"];
    assert_eq!(shape(&middle.find_kept(&items, &sizes(200_000))), all);
    assert_eq!(shape(&middle.find_fewer_kept(&items, &sizes(200_000))), all[6..]);
}

#[test]
fn all_that_the_user_said_stays_if_there_is_much_else_to_omit() {
    let mut events = long(4);
    events.push(text_message("pasted", Role::User, &"log ".repeat(5_000)));
    events.push(calls("read", &["r"]));
    events.push(result("r", ToolResult::ok("z".repeat(40_000))));
    for n in 0..4 {
        events.push(calls(&format!("last{n}"), &[&format!("l{n}")]));
        events.push(result(&format!("l{n}"), ToolResult::ok("y")));
    }
    let items = history(&events).to_messages();
    let middle = find_compaction_range(&items, u64::MAX).unwrap();
    let kept = middle.find_kept(&items, &sizes(200_000));
    assert!(shape(&kept).contains(&"pasted".to_owned()), "{:?}", shape(&kept));
    assert_eq!(middle.describe_dropped(&items, &kept), None);
}

#[test]
fn a_prompt_in_progress_stays_and_is_shortened_if_it_is_too_long() {
    let mut events = long(4);
    events.push(text_message("answer", Role::Assistant, "done"));
    let task = format!("start {} end", "wish ".repeat(40_000));
    events.push(text_message("task", Role::User, &task));
    for n in 4..9 {
        events.push(calls(&format!("m{n}"), &[&format!("c{n}")]));
        events.push(result(&format!("c{n}"), ToolResult::ok("x".repeat(30_000))));
    }
    let mut history = history(&events);
    let items = history.to_messages();
    for (window, is_whole) in [(400_000, true), (100_000, false), (8_000, false)] {
        let sizes = sizes(window);
        let middle = find_compaction_range(&items, sizes.retained).unwrap();
        for kept in [
            middle.find_kept(&items, &sizes),
            middle.find_fewer_kept(&items, &sizes),
        ] {
            let tokens = estimate_total_tokens(&kept);
            assert_eq!(shape(&kept).last().unwrap(), "task", "{window}");
            assert!(
                tokens <= sizes.prompt.max(500) + sizes.kept + 60,
                "{window}: {tokens}"
            );
        }
        let kept = middle.find_kept(&items, &sizes);
        assert_eq!(kept.last().unwrap().message.text() == task, is_whole, "{window}");
    }
    // Twice, as the second summary finds it.
    for window in [100_000, 8_000] {
        let items = history.to_messages();
        let middle = find_compaction_range(&items, 10_000).unwrap();
        let kept = middle.find_kept(&items, &sizes(window));
        assert_eq!(middle.describe_dropped(&items, &kept), None);
        let summary = middle.build_summary(&items, &kept, "notes".to_owned(), false);
        history.apply(&Event::Compacted(Arc::new(compaction(Some(summary)))));
        let after = history.to_messages();
        let prompt = after
            .iter()
            .find(|item| item.message.id.as_str() == "task")
            .unwrap();
        let text = prompt.message.text();
        assert!(
            text.starts_with("start wish") && text.contains("wish  end\n[shortened: "),
            "{text}"
        );
        assert_eq!(text.matches("[shortened: ").count(), 1);
        let cut: usize = text
            .split("[… ")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        let frame = "\n[… N characters cut …]\n\n".len() - "N".len() - 4 + SHORTENED_PROMPT.len();
        let left = text.chars().count() - frame - cut.to_string().len();
        assert_eq!(cut + left, task.chars().count());
        assert_eq!(shape(&after)[..3], ["first", "task", "summary"]);
        for n in 0..4 {
            let call = format!("again{n}{window}");
            history.apply(&calls(&format!("m{call}"), &[&call]));
            history.apply(&result(&call, ToolResult::ok("x".repeat(30_000))));
        }
    }
}

#[test]
fn a_summary_of_unknown_messages_changes_nothing() {
    let mut history = history(&long(10));
    let before = shape(&history.to_messages());
    let summary = Summary {
        message: "s".into(),
        text: "notes".to_owned(),
        from: "lost".into(),
        until: "m7".into(),
        kept: Vec::new(),
        shortened: Vec::new(),
        digest: false,
    };
    history.apply(&Event::Compacted(Arc::new(compaction(Some(summary)))));
    assert_eq!(shape(&history.to_messages()), before);
}

#[test]
fn old_large_results_become_stubs_once() {
    let mut history = history(&long(10));
    let items = history.to_messages();
    let stubs = choose_stubs(&items, &sizes(200_000), 0).calls;
    // The last six of the 21 messages contain three results.
    assert_eq!(stubs.len(), 7);
    let smaller = Compaction {
        stubs,
        ..compaction(None)
    };
    history.apply(&Event::Compacted(Arc::new(smaller)));
    let after = history.to_messages();
    assert_eq!(after.len(), items.len());
    assert_eq!(choose_stubs(&after, &sizes(200_000), 0).calls, []);
    assert!(is_sufficient_reduction(
        estimate_total_tokens(&items),
        estimate_total_tokens(&after)
    ));
    let Block::ToolResult { result, .. } = &after[2].message.content[0] else {
        panic!("a result");
    };
    assert!(result.text.contains("3000 characters"), "{}", result.text);
    assert!(
        result
            .text
            .ends_with("make the call again, for a part of it if that is enough]")
    );
}

#[test]
fn a_stub_names_where_all_of_the_result_is_stored() {
    let location = "[the whole output has 12 bytes; read_file and grep take the path `tool-output:c`]";
    let long = "x".repeat(3_000);
    for text in [
        format!("{long}\n{location}"),
        format!("[the whole output has 9 bytes; nothing]\n{long}\n{location}\n[a note]"),
        format!("{long}\n[shortened, because the context window has no room for more; {location}]"),
    ] {
        let stub = stub_tool_result(&ToolResult::ok(&text)).text;
        let end = format!("characters; {}", &location[1..]);
        assert!(
            stub.trim_end_matches(']').ends_with(end.trim_end_matches(']')),
            "{stub}"
        );
    }
}

/// Returns an edit of `path`.
fn edit(id: &str, path: &str) -> [Event; 2] {
    let input = Arc::new(json!({"path": path}));
    edit_with(id, "edit_file", input)
}

fn edit_with(id: &str, name: &str, input: Arc<Value>) -> [Event; 2] {
    let name = name.to_owned();
    let call = Block::ToolUse {
        id: id.into(),
        name,
        input,
        attached: None,
    };
    [
        message(&format!("m_{id}"), Role::Assistant, vec![call]),
        result(id, ToolResult::ok("edited")),
    ]
}

#[test]
fn outdated_results_become_stubs_many_at_once() {
    // Each result has 25,000 tokens; the last 20 messages are recent.
    let with_results = |count: usize| {
        let mut events = vec![text_message("first", Role::User, "build it")];
        for n in 0..count {
            events.push(calls(&format!("m{n}"), &[&format!("c{n}")]));
            events.push(result(&format!("c{n}"), ToolResult::ok("x".repeat(100_000))));
        }
        events
    };
    let outdated = |events: &[Event]| {
        let ids = outdated_results(&history(events).to_messages(), &sizes(200_000));
        ids.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        outdated(&with_results(11)),
        [""; 0],
        "one result saves too little"
    );
    assert_eq!(outdated(&with_results(12)), ["c0", "c1"]);
    // What was read of a file that was edited is still needed.
    let mut events = with_results(12);
    events.extend(edit("e", "c1.rs"));
    assert_eq!(outdated(&events), ["c0", "c2"]);
    let patch = json!({"patch": "*** Update File: c0.rs\n*** Move to: c2.rs\n"});
    let mut patched = with_results(14);
    patched.extend(edit_with("p", "apply_patch", Arc::new(patch)));
    assert_eq!(outdated(&patched), ["c1", "c3", "c4"]);
    let stubs = outdated_results(&history(&events).to_messages(), &sizes(200_000));
    events.push(Event::Compacted(Arc::new(Compaction {
        stubs,
        ..compaction(None)
    })));
    assert_eq!(outdated(&events), [""; 0]);
}

#[test]
fn the_work_is_described_as_it_is() {
    let plan = |id: &str, text: &str| {
        let input = json!({"items": [{"text": text, "status": "in_progress"}, {"text": "then", "status": "pending"}]});
        let name = "update_plan".to_owned();
        let call = Block::ToolUse {
            id: id.into(),
            name,
            input: Arc::new(input),
            attached: None,
        };
        [
            message(&format!("m_{id}"), Role::Assistant, vec![call]),
            result(id, ToolResult::ok("shown")),
        ]
    };
    let mut events = vec![text_message("first", Role::User, "build it")];
    events.extend(plan("p1", "first draft"));
    events.extend(plan("p2", "the parser"));
    events.extend(edit("e1", "b.rs"));
    events.extend(edit("e2", "a.rs"));
    events.extend(edit("e3", "a.rs"));
    let patch = json!({"patch": "*** Add File: c.rs\n+*** Add File: text.rs\n*** Delete File: d.rs\n"});
    events.extend(edit_with("e5", "apply_patch", Arc::new(patch)));
    let [call, _] = edit("e4", "failed.rs");
    events.extend([call, result("e4", ToolResult::error("no match"))]);
    events.extend(long(4).split_off(1));
    let items = history(&events).to_messages();
    let middle = find_compaction_range(&items, u64::MAX).unwrap();
    let processes = ["bg1: npm run dev".to_owned()];
    assert_eq!(
        describe_work(&items, middle, &processes),
        "## State of the work\nPlan:\n- [in progress] the parser\n- [pending] then\nFiles changed so far:\n- a.rs\n\
         - b.rs\n- c.rs\n- d.rs\nBackground processes that run now:\n- bg1: npm run dev"
    );
    let idle = history(&long(10)).to_messages();
    let middle = find_compaction_range(&idle, u64::MAX).unwrap();
    assert_eq!(describe_work(&idle, middle, &[]), "");
    // A later digest leaves out an earlier state.
    let earlier = format!("{PREFIX}\n- notes\n\n{WORK_HEADING}\nPlan:\n- [pending] old");
    let summary = Message {
        hidden: true,
        ..Message::user_text(earlier)
    };
    assert_eq!(build_digest(&[HistoryItem::new(summary)], &[]), "- notes");
}

#[test]
fn a_later_summary_keeps_the_plan_and_the_files_of_an_earlier_one() {
    let summary = |text: &str| {
        HistoryItem::new(Message {
            hidden: true,
            ..Message::user_text(format!("{PREFIX}\n{text}"))
        })
    };
    let mut events = vec![text_message("first", Role::User, "build it")];
    events.extend(edit("e1", "c.rs"));
    events.extend(long(4).split_off(1));
    let mut items = history(&events).to_messages();
    // The notes may repeat an older state; what follows them counts.
    let before = "- notes\n\n## State of the work\nPlan:\n- [pending] old\n\n## State of the work\nPlan:\n\
                  - [completed] parse\n- [in progress] test\nFiles changed so far:\n- a.rs\n- and 7 more\n\
                  Background processes that run now:\n- bg1: gone";
    items.insert(1, summary(before));
    let middle = find_compaction_range(&items, u64::MAX).unwrap();
    assert_eq!(
        describe_work(&items, middle, &[]),
        "## State of the work\nPlan:\n- [completed] parse\n- [in progress] test\nFiles changed so far:\n- a.rs\n\
         - c.rs\n- and 7 more"
    );
    items[1] = summary("- notes");
    assert_eq!(
        describe_work(&items, middle, &[]),
        "## State of the work\nFiles changed so far:\n- c.rs"
    );
}

#[test]
fn refused_pictures_are_removed_from_messages_and_results() {
    let picture = MediaData {
        media_type: "image/png".into(),
        data: "iVBO".into(),
    };
    let mut history = history(&[
        message(
            "u",
            Role::User,
            vec![Block::Text("see".into()), Block::Image(picture.clone())],
        ),
        calls("m", &["c"]),
        result(
            "c",
            ToolResult {
                media: vec![picture],
                ..ToolResult::ok("a picture")
            },
        ),
    ]);
    assert!(has_media(&history.to_messages()));
    let without = Compaction {
        pictures: true,
        trigger: CompactTrigger::Picture,
        ..compaction(None)
    };
    let few = Compaction {
        kept_pictures: 1,
        trigger: CompactTrigger::Overflow,
        ..without.clone()
    };
    let fewer = apply_to_copy(&history.to_messages(), &few);
    assert_eq!(
        fewer[0].message.text(),
        "see[a picture was here; the context window has no room for it]"
    );
    assert!(has_media(&fewer) && !has_media(&fewer[..2]));
    history.apply(&Event::Compacted(Arc::new(without)));
    let items = history.to_messages();
    assert!(!has_media(&items));
    assert_eq!(items.len(), 3);
    assert_eq!(
        items[0].message.text(),
        "see[a picture was here; the API refused it]"
    );
}

#[test]
fn the_oldest_pictures_go_until_the_rest_fits() {
    let picture = MediaData {
        media_type: "image/png".into(),
        data: "iVBOR".into(),
    };
    let message = Message {
        content: vec![Block::Image(picture); 3],
        ..Message::user_text("")
    };
    let items = [
        HistoryItem::new(message),
        HistoryItem::new(Message::user_text("see")),
    ];
    let total = estimate_total_tokens(&items);
    let choose = |items: &[_], goal| {
        let choice = choose_kept_media(items, MediaStubs::for_model(true, true), goal)?;
        Some((choice.kept, choice.left_out, choice.fits))
    };
    for (goal, chosen) in [
        (total, None),
        (total - 1, Some((2, 1, true))),
        (total - 1_600, Some((1, 2, true))),
        (0, Some((0, 3, false))),
    ] {
        assert_eq!(choose(&items, goal), chosen, "{goal}");
    }
    assert_eq!(choose(&items[1..], 0), None);
}

#[test]
fn a_document_that_the_model_cannot_read_is_not_removed_in_place_of_a_picture() {
    let media = |media_type: &str| {
        Block::Image(MediaData {
            media_type: media_type.into(),
            data: "iVBOR".into(),
        })
    };
    let message = Message {
        content: vec![media("image/png"), media("image/png"), media("application/pdf")],
        ..Message::user_text("")
    };
    let items = [HistoryItem::new(message)];
    let stubs = MediaStubs::for_model(true, false);
    let total = estimate_total_tokens(&replace_media(&items, stubs).unwrap());
    for (goal, left_out) in [(total - 1, 1), (0, 2)] {
        let choice = choose_kept_media(&items, stubs, goal).unwrap();
        let smaller = Compaction {
            pictures: true,
            kept_pictures: choice.kept,
            trigger: CompactTrigger::Overflow,
            ..compaction(None)
        };
        let items = apply_to_copy(&items, &smaller);
        let rest = iter_media(&items[0].message);
        let kept = Vec::from_iter(rest.map(|media| media.media_type.to_string()));
        assert_eq!(choice.left_out, left_out);
        assert_eq!(kept.len() as u32, 3 - left_out, "{kept:?}");
        assert_eq!(kept.last().unwrap(), "application/pdf");
    }
}

#[test]
fn the_digest_lists_prompts_files_the_last_error_and_tools() {
    let items = history(&[
        text_message("u", Role::User, "fix the parser"),
        calls("m1", &["a", "b"]),
        result("a", ToolResult::ok("fine")),
        result("b", ToolResult::error("no such file")),
        text_message("m2", Role::Assistant, "done"),
        text_message("u2", Role::User, "and the tests"),
    ])
    .to_messages();
    assert_eq!(
        build_digest(&items, &[]),
        "- the user said: fix the parser\n- the user said: and the tests\n- files touched: a.rs, b.rs\n\
         - the last error: no such file\n- tools used: bash 2"
    );
}

#[test]
fn the_transcript_shortens_each_result() {
    let items = long_items(7);
    let range = find_compaction_range(&items, u64::MAX).unwrap();
    let text = build_summary_prompt(&items, range, Some("keep the numbers"), None);
    assert!(text.contains("Agent: calls bash {\"path\":\"c0.rs\"}"));
    assert!(text.contains("keep the numbers"));
    let results = range.slice_items(&items).len() / 2;
    assert!(text.len() < results * 2_000, "{}", text.len());
}

#[test]
fn the_summarizing_model_reads_the_first_message_once() {
    let items = long_items(7);
    let range = find_compaction_range(&items, u64::MAX).unwrap();
    let text = build_summary_prompt(&items, range, None, None);
    assert!(text.starts_with("The user's first message, which stays:\n\nUser: build it\n\nTranscript:\n\n"));
    assert_eq!(text.matches("build it").count(), 1);
    let huge = [
        vec![HistoryItem::new(Message::user_text("x".repeat(100_000)))],
        items[1..].to_vec(),
    ]
    .concat();
    let longer = build_summary_prompt(&huge, range, None, None).len() - text.len();
    assert!(longer < MAX_TASK_CHARACTERS + 100, "{longer}");
}

#[test]
fn a_range_that_does_not_fit_loses_its_older_half() {
    let mut events = long(2);
    for n in 0..4 {
        events.push(text_message(&format!("u{n}"), Role::User, "next"));
        events.push(text_message(&format!("a{n}"), Role::Assistant, "ok"));
    }
    let items = history(&events).to_messages();
    let mut middle = find_compaction_range(&items, u64::MAX);
    let mut lengths = Vec::new();
    while let Some(part) = middle {
        lengths.push(part.slice_items(&items).len());
        middle = part.without_older_half(&items);
    }
    assert_eq!(lengths, [6, 2, 1]);
}

/// Asserts I4 on a history as it is sent.
fn assert_valid(items: &[Arc<HistoryItem>]) {
    let mut due: Vec<&ToolCallId> = Vec::new();
    for item in items {
        match item.message.role {
            Role::Tool => {
                let got: Vec<_> = item
                    .message
                    .content
                    .iter()
                    .filter_map(|block| match block {
                        Block::ToolResult { id, .. } => Some(id),
                        _ => None,
                    })
                    .collect();
                assert_eq!(got, due);
                due.clear();
            }
            _ => {
                assert!(due.is_empty(), "calls without results");
                due = item.message.tool_uses().map(|(id, _, _)| id).collect();
            }
        }
    }
    assert!(due.is_empty());
    assert_eq!(items[0].message.role, Role::User);
}

proptest! {
    #[test]
    fn any_history_stays_valid(steps in prop::collection::vec((0u8..5, 1usize..3), 0..60)) {
        let mut history = history(&[text_message("first", Role::User, "go")]);
        for (n, (step, count)) in steps.into_iter().enumerate() {
            match step {
                0 => history.apply(&text_message(&format!("u{n}"), Role::User, "more")),
                1 => history.apply(&text_message(&format!("a{n}"), Role::Assistant, "ok")),
                2 | 3 => {
                    let ids: Vec<String> = (0..count).map(|call| format!("c{n}_{call}")).collect();
                    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
                    history.apply(&calls(&format!("m{n}"), &ids));
                    for id in ids {
                        history.apply(&result(id, ToolResult::ok("z".repeat(count * 1_500))));
                    }
                }
                _ => {
                    let items = history.to_messages();
                    let summary = find_compaction_range(&items, u64::MAX).map(|middle| {
                        let kept = middle.find_fewer_kept(&items, &sizes(2_000));
                        let digest = build_digest(middle.slice_items(&items), &kept);
                        middle.build_summary(&items, &kept, digest, true)
                    });
                    let smaller = Compaction {
                        stubs: choose_stubs(&items, &sizes(200_000), 0).calls,
                        ..compaction(summary)
                    };
                    history.apply(&Event::Compacted(Arc::new(smaller)));
                    prop_assert!(history.to_messages().len() <= items.len());
                }
            }
            assert_valid(&history.to_messages());
        }
    }

    #[test]
    fn inputs_of_any_kind_are_rendered(value in any::<i64>(), text in ".{0,3000}") {
        let input: Value = json!({"path": value, "text": text});
        let items = vec![HistoryItem::new(Message {
            role: Role::Assistant,
            content: vec![Block::ToolUse { id: "c".into(), name: "t".into(), input: Arc::new(input), attached: None }],
            ..Message::user_text("")
        })];
        let all = CompactionRange { from: 0, until: 1 };
        prop_assert!(build_summary_prompt(&items, all, None, None).len() < 10_000);
        let _ = build_digest(&items, &[]);
    }
}

#[test]
fn a_model_gets_only_the_media_that_it_accepts() {
    let media = |media_type: &str| MediaData {
        media_type: media_type.into(),
        data: "data".into(),
    };
    let both = ToolResult {
        media: vec![media("image/png"), media(crate::domain::PDF)],
        ..ToolResult::ok("read")
    };
    let items = history(&[calls("m", &["c"]), result("c", both)]).to_messages();
    let replaced = |pictures, documents| {
        let items = replace_media(&items, MediaStubs::for_model(pictures, documents))?;
        match &items[1].message.content[0] {
            Block::ToolResult { result, .. } => Some((result.text.clone(), result.media.clone())),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(replaced(true, true), None);
    let (text, kept) = replaced(true, false).unwrap();
    assert!(text.starts_with("read\n[the document is not shown"), "{text}");
    assert_eq!(kept, [media("image/png")]);
    let (text, kept) = replaced(false, false).unwrap();
    assert!(
        text.contains("pdftotext") && text.contains("a picture is here"),
        "{text}"
    );
    assert!(kept.is_empty());
    // Larger documents count more.
    let count = |length| {
        let document = MediaData {
            data: "x".repeat(length).into(),
            ..media(crate::domain::PDF)
        };
        crate::context::tokens::estimate_result_tokens(&ToolResult {
            media: vec![document],
            ..ToolResult::default()
        })
    };
    assert_eq!((count(10), count(640_000)), (2_500, 10_000));
}
