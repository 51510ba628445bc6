//! The measurements. Each one starts its own program and runs for both programs in turn.
//!
//! *Added* time runs from the moment the provider hands an event to its socket until the client has read the
//! frame that contains it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::ReceivedFrame;
use crate::mock_llm::{RecordedRequest, Reply};
use crate::report::{Figures, Unit};
use crate::world::{Cpu, Target, World, memory, sleeps};

/// A named measurement.
pub type Measure = (&'static str, fn(&Target, &mut Figures));

/// All measurements, in the order of the table.
pub const MEASURES: &[Measure] = &[
    ("start", start),
    ("mcp", measure_unused_mcp_servers),
    ("memory", memory_use),
    ("prompt", prompt),
    ("steady", steady),
    ("flood", flood),
    ("cancel-stream", cancel_stream),
    ("cancel-bash", cancel_bash),
    ("cancel-retry", cancel_retry),
    ("history", history),
    ("hundred", measure_hundred_sessions),
    ("rest", measure_idle),
];

const STARTS: usize = 20;
const PROMPTS: usize = 60;
const ROUNDS: usize = 100;
const BASH_ROUNDS: usize = 60;
/// Number of deltas of the steady stream, and the time between two; timers add about 1 ms.
const STEADY: (usize, Duration) = (300, Duration::from_millis(9));
const FLOOD: usize = 100_000;
const FLOODS: usize = 3;
/// Messages before the measured steps, and the number of measured steps.
const HISTORY: [(usize, usize); 3] = [(1, 40), (100, 40), (1_000, 40)];
const SESSIONS: usize = 100;
/// Number of deltas of each of the many streams, and the time between two.
const PARALLEL_DELTAS: (usize, Duration) = (35, Duration::from_millis(100));
const REST: Duration = Duration::from_secs(2);

/// Whether few rounds are enough, since nobody reads the figures.
static IS_SHORT: AtomicBool = AtomicBool::new(false);

/// Makes all measurements short, so that they only show that they work.
pub fn shorten() {
    IS_SHORT.store(true, Ordering::Relaxed);
}

/// Returns how often to measure, or how much.
fn amount(usual: usize) -> usize {
    if IS_SHORT.load(Ordering::Relaxed) {
        usual.div_ceil(50)
    } else {
        usual
    }
}

/// As long as an ordinary sentence or two.
const PROMPT: &str = "Please look at the function that parses the header of a frame, and tell me what it does \
                      when the length is missing, given twice, or larger than what is allowed.";

/// A stream of numbered deltas, so that each frame can be matched with its time of sending.
fn numbered(count: usize) -> Reply {
    Reply::deltas((0..count).map(|n| format!("{n:05} ")))
}

fn start(target: &Target, values: &mut Figures) {
    let world = World::start(target);
    let starts = (0..amount(STARTS)).map(|_| world.start_another().start);
    values.times("start → initialize answered", starts.collect());
    let ready = (0..amount(STARTS)).map(|_| {
        let mut client = world.start_another();
        let started = Instant::now();
        client.call("agent/newSession", json!({}));
        client.start + started.elapsed()
    });
    values.median("start → session ready", ready.collect());
}

/// Measures the start and the memory with MCP servers that are configured and not used.
fn measure_unused_mcp_servers(target: &Target, values: &mut Figures) {
    let servers = (0..5).map(|n| format!("\n[mcp.unused{n}]\ncommand = \"unused\"\n"));
    let mut world = World::start_with(target, &servers.collect::<String>());
    let starts = (0..amount(STARTS)).map(|_| world.start_another().start);
    values.median("5 MCP servers: start → initialize answered", starts.collect());
    world.session();
    let (rss, pss) = memory(world.client.pid());
    values.set("5 MCP servers: RSS with a session", Unit::Megabytes, rss);
    values.set("5 MCP servers: PSS with a session", Unit::Megabytes, pss);
}

fn memory_use(target: &Target, values: &mut Figures) {
    let mut world = World::start(target);
    let session = world.session();
    let pid = world.client.pid();
    let (rss, pss) = memory(pid);
    values.set("RSS with a session", Unit::Megabytes, rss);
    values.set("PSS with a session", Unit::Megabytes, pss);
    world.run_prompt(&session, PROMPT, "");
    world.mock.push(Reply::flood(100_000, 10));
    world.run_prompt(&session, PROMPT, "");
    let (rss, pss) = memory(pid);
    values.set("RSS after 10,000 deltas", Unit::Megabytes, rss);
    values.set("PSS after 10,000 deltas", Unit::Megabytes, pss);
}

fn prompt(target: &Target, values: &mut Figures) {
    let mut world = World::start(target);
    let (mut requests, mut deltas) = (Vec::new(), Vec::new());
    let session = world.session();
    // The pass-through sends a request as large as the server's first one.
    let request_path = first_request_path(values, &world);
    world.run_prompt(&session, PROMPT, &request_path);
    values.keep_request("first", &world.wait_for_request(0).raw);
    for _ in 0..amount(PROMPTS) {
        let index = world.requests();
        let (id, at) = world.prompt_like(&session, PROMPT, &request_path);
        let request = world.wait_for_request(index);
        requests.push(request.at - at);
        let delta = world.client.next("agent/textDelta");
        let first = request.progress().first_byte.expect("it was answered");
        deltas.push(delta.at.saturating_duration_since(first));
        world.client.answer(id);
        world.client.discard_kept();
    }
    values.times("prompt → request at the provider", requests);
    values.times("first delta, added", deltas);
}

/// Returns the path of a file with the server's first request.
fn first_request_path(values: &Figures, world: &World) -> String {
    request_path(values, world, "first")
}

fn request_path(values: &Figures, world: &World, name: &str) -> String {
    let path = world.path(name);
    match values.request(name) {
        Some(raw) => {
            std::fs::write(&path, raw).expect("a file");
            path
        }
        None => String::new(),
    }
}

/// Pushes the added time of each numbered delta in a frame.
fn added(frame: &ReceivedFrame, sent: &[Instant], out: &mut Vec<Duration>) {
    let params = frame.params();
    for word in params["text"].as_str().unwrap_or_default().split_whitespace() {
        let number: usize = word.parse().expect("a number");
        // Two events precede the deltas: the starts of the message and of the block.
        out.push(frame.at.saturating_duration_since(sent[number + 2]));
    }
}

fn steady(target: &Target, values: &mut Figures) {
    let mut world = World::start(target);
    let session = world.session();
    world.run_prompt(&session, PROMPT, "");
    world.mock.push(numbered(STEADY.0).every(STEADY.1));
    let index = world.requests();
    let before = Cpu::of(world.client.pid());
    let (id, _) = world.prompt(&session, PROMPT);
    let request = world.wait_for_request(index);
    world.client.answer(id);
    let spent = Cpu::of(world.client.pid()).since(&before);
    let sent = request.sent();
    let mut times = Vec::new();
    while times.len() < STEADY.0 {
        let frame = world.client.next_frame("all deltas");
        if frame.is("agent/textDelta") {
            added(&frame, &sent, &mut times);
        }
    }
    values.times("100 deltas/s, added", times);
    values.set(
        "100 deltas/s, CPU per delta",
        Unit::Microseconds,
        spent / STEADY.0 as f64,
    );
}

fn flood(target: &Target, values: &mut Figures) {
    let mut world = World::start(target);
    let session = world.session();
    world.run_prompt(&session, PROMPT, "");
    let (mut rates, mut costs, mut frames) = (Vec::new(), Vec::new(), Vec::new());
    let deltas_sent = amount(FLOOD);
    for _ in 0..amount(FLOODS) {
        world.mock.push(Reply::flood(10 * deltas_sent, 10));
        let index = world.requests();
        let before = Cpu::of(world.client.pid());
        world.prompt(&session, PROMPT);
        let mut deltas = Vec::new();
        let end = loop {
            let frame = world.client.next_frame("the flood's end");
            if frame.is("agent/turnEnded") {
                break frame.at;
            }
            if frame.is("agent/textDelta") {
                deltas.push(frame);
            }
        };
        let cost = Cpu::of(world.client.pid()).since(&before);
        let request = world.wait_for_request(index);
        let first = request.progress().first_byte.expect("it was answered");
        rates.push(deltas_sent as f64 / (end - first).as_secs_f64());
        costs.push(cost / deltas_sent as f64);
        frames.push(deltas.len() as f64);
        let text = deltas
            .iter()
            .map(|frame| frame.params()["text"].as_str().map_or(0, str::len));
        assert_eq!(
            text.sum::<usize>(),
            10 * deltas_sent,
            "what is fast has to be whole too"
        );
        world.client.next_answer();
    }
    values.record_median("flood of 100,000: deltas/s taken in", Unit::PerSecond, rates);
    values.record_median("flood of 100,000: CPU per delta", Unit::Microseconds, costs);
    values.record_median("flood of 100,000: frames to the client", Unit::Count, frames);
}

/// Brings turns into a phase, cancels them, and returns the time until each turn ended.
fn cancels(
    world: &mut World,
    rounds: usize,
    reply: &Reply,
    phase: &str,
    mut each: impl FnMut(&World, &Arc<RecordedRequest>, Instant),
) -> Vec<Duration> {
    let session = world.session();
    world.run_prompt(&session, PROMPT, "");
    let mut times = Vec::new();
    for _ in 0..rounds {
        world.mock.push(reply.clone());
        let index = world.requests();
        let (id, _) = world.prompt(&session, PROMPT);
        world.client.next(phase);
        let at = world.client.notify("agent/cancel", json!({"sessionId": session}));
        times.push(world.client.next("agent/turnEnded").at - at);
        each(world, &world.wait_for_request(index), at);
        world.client.answer(id);
        world.client.discard_kept();
    }
    times
}

fn cancel_stream(target: &Target, values: &mut Figures) {
    let mut world = World::start(target);
    let reply = Reply::text("some words").stall();
    let mut closed = Vec::new();
    let times = cancels(
        &mut world,
        amount(ROUNDS),
        &reply,
        "agent/textDelta",
        |world, request, at| {
            closed.push(world.wait_for_close(request).saturating_duration_since(at));
        },
    );
    values.times("cancel while streaming → turnEnded", times);
    values.times("cancel while streaming → connection closed", closed);
}

fn cancel_bash(target: &Target, values: &mut Figures) {
    let mut world = World::start(target);
    let reply = Reply::tool("bash", json!({"command": "echo up; sleep 600"}));
    let times = cancels(
        &mut world,
        amount(BASH_ROUNDS),
        &reply,
        "agent/toolOutputDelta",
        |_, _, _| {},
    );
    values.times("cancel in bash → turnEnded", times);
}

fn cancel_retry(target: &Target, values: &mut Figures) {
    let mut world = World::start(target);
    let reply = Reply::error(429, "rate_limit_error", "slow down").header("retry-after", "900");
    let times = cancels(&mut world, amount(ROUNDS), &reply, "agent/retry", |_, _, _| {});
    values.times("cancel while waiting for a retry → turnEnded", times);
}

/// Measures turns of one step in a session that has grown. The pass-through has no history: its request carries
/// the body of the server's request.
fn history(target: &Target, values: &mut Figures) {
    let mut world = World::start(target);
    world.mock.default_reply(Reply::text(PROMPT));
    let session = world.session();
    let (pid, mut messages) = (world.client.pid(), 0);
    for (length, steps) in HISTORY.map(|(length, steps)| (amount(length), amount(steps))) {
        let name = format!("history {length}");
        let request_path = request_path(values, &world, &name);
        if matches!(target, Target::PassThrough) {
            world.run_prompt(&session, PROMPT, &request_path);
        } else {
            while messages + 1 < length {
                world.run_prompt(&session, PROMPT, "");
                messages += 2;
            }
        }
        let index = world.requests();
        let started = Instant::now();
        let before = Cpu::of(pid);
        for _ in 0..steps {
            world.run_prompt(&session, PROMPT, &request_path);
        }
        let spent = Cpu::of(pid).since(&before) / steps as f64;
        let wall = started.elapsed() / u32::try_from(steps).unwrap_or(1);
        messages += 2 * steps;
        let sent = world.wait_for_request(index + steps / 2).raw.clone();
        values.keep_request(&name, &sent);
        values.set(
            &format!("a step at {length} messages of history: bytes sent"),
            Unit::Count,
            sent.len() as f64,
        );
        values.set(
            &format!("a step at {length} messages of history: CPU"),
            Unit::Microseconds,
            spent,
        );
        values.median(
            &format!("a step at {length} messages of history: time"),
            vec![wall],
        );
    }
}

fn measure_hundred_sessions(target: &Target, values: &mut Figures) {
    let mut world = World::start(target);
    let sessions: Vec<String> = (0..SESSIONS).map(|_| world.session()).collect();
    world
        .mock
        .default_reply(numbered(PARALLEL_DELTAS.0).every(PARALLEL_DELTAS.1));
    let before = Cpu::of(world.client.pid());
    let started = Instant::now();
    let mut names = HashMap::new();
    for (n, session) in sessions.iter().enumerate() {
        // The name tells the provider's requests apart.
        let name = format!("session-{n:03}");
        world.prompt(session, &name);
        names.insert(session.clone(), name);
    }
    world.wait_for_request(SESSIONS - 1);
    // Halfway through, cancel one session after the other while the rest keep streaming.
    let mut cancels = Vec::new();
    std::thread::sleep(PARALLEL_DELTAS.1 * 15);
    for session in &sessions[..50] {
        let at = world.client.notify("agent/cancel", json!({"sessionId": session}));
        cancels.push((session.clone(), at));
        std::thread::sleep(Duration::from_millis(30));
    }
    let (mut notes, mut end_times) = (Vec::new(), HashMap::new());
    while end_times.len() < SESSIONS {
        let frame = world.client.next_frame("the end of all turns");
        if frame.is("agent/textDelta") {
            notes.push(frame);
        } else if frame.is("agent/turnEnded") {
            let session = frame.params()["sessionId"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            end_times.insert(session, frame.at);
        }
    }
    let spent = Cpu::of(world.client.pid()).since(&before);
    let took = started.elapsed();
    let requests = world.mock.requests();
    let sent: HashMap<String, Vec<Instant>> = requests
        .iter()
        .map(|request| (name_of(request), request.sent()))
        .collect();
    let mut times = Vec::new();
    for frame in &notes {
        let session = frame.params()["sessionId"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        added(frame, &sent[&names[&session]], &mut times);
    }
    values.times("100 sessions at 10 deltas/s each, added", times);
    let ends = cancels.iter().map(|(session, at)| end_times[session] - *at);
    values.times(
        "100 sessions streaming, cancel of one → turnEnded",
        ends.collect(),
    );
    let share = spent / took.as_secs_f64() / 1e6 * 100.0;
    values.set("100 sessions streaming: CPU of one core", Unit::Percent, share);
}

/// Returns the session name in a request of the measurement with many sessions.
fn name_of(request: &RecordedRequest) -> String {
    let text = request.last_text();
    let at = text.find("session-").expect("a name");
    text[at..at + 11].to_owned()
}

fn measure_idle(target: &Target, values: &mut Figures) {
    let mut world = World::start(target);
    let session = world.session();
    world.run_prompt(&session, PROMPT, "");
    // Give the work after a turn time to finish.
    std::thread::sleep(Duration::from_millis(500));
    let pid = world.client.pid();
    let (before, slept) = (Cpu::of(pid), sleeps(pid));
    std::thread::sleep(REST);
    let spent = Cpu::of(pid).since(&before);
    let per_second = REST.as_secs_f64();
    values.set("at rest: CPU per second", Unit::Microseconds, spent / per_second);
    let wakeups = (sleeps(pid) - slept) as f64 / per_second;
    values.set("at rest: wake-ups per second", Unit::Count, wakeups);
}
