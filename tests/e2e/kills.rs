//! `kill -9` at random moments of random work, again and again in the same data folder.
//!
//! After each kill, everything that was shown is stored, and every turn and call has its end. No process survives,
//! nothing happens without approval, and the session continues (R-SESS-1, R-CANCEL, R-APPR-4, I3, I7, I8, I9, I16).
//!
//! `AGENTLS_KILLS` is the number of kills (default 200), `AGENTLS_KILLS_SEED` the seed of the plan; a failure prints
//! its seed. The same seed gives the same plan, but how far a server has come at the kill depends on the machine.

mod ledger;

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agentls::base::steering::RESERVED_FOLDERS;
use agentls::protocol::{LoadSessionResult, PromptResult};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::harness::{Client, Id, KilledOutput, Notification, Options, WAIT_LIMIT, World, now};
use crate::mock_llm::{RecordedRequest, Reply};
use ledger::Ledger;

/// Number of worlds that run in parallel: one waits while another works.
const WORLDS: usize = 4;
/// Number of server lives per pair of sessions; then the sessions are read in full and replaced.
const SERVER_RUNS: usize = 25;
/// Kills between two runs of the store's integrity check, which is slow.
const INTEGRITY: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Workload {
    Stream,
    Fast,
    Tools,
    Write,
    Bash,
    Background,
    Flood,
    Retry,
    Retract,
    Steer,
    Cancel,
    Two,
    Idle,
    Ending,
    StartUp,
    Delete,
}

const KINDS: [Workload; 18] = [
    Workload::Stream,
    Workload::Stream,
    Workload::Write,
    Workload::Fast,
    Workload::Tools,
    Workload::Write,
    Workload::Bash,
    Workload::Background,
    Workload::Flood,
    Workload::Retry,
    Workload::Retract,
    Workload::Steer,
    Workload::Cancel,
    Workload::Two,
    Workload::Idle,
    Workload::Ending,
    Workload::StartUp,
    Workload::Delete,
];

/// Counts of what the kills hit, printed at the end.
#[derive(Debug, Default)]
struct Figures {
    kinds: std::collections::BTreeMap<Workload, usize>,
    /// Turns that were cut.
    cut_turns: usize,
    /// Messages that were cut.
    incomplete: usize,
    /// The longest time for which lost text had been shown.
    lost: Duration,
    open_approvals: usize,
    resumed: usize,
    steers: usize,
    /// Temporary files left by a kill between write and rename.
    temporary: usize,
    deleted: usize,
}

struct Session {
    id: String,
    ledger: Ledger,
}

/// A request whose answer matters.
enum PendingRequest {
    Load,
    Steer(String),
    Decide(String, bool),
    Delete,
    Other,
}

struct KillRun {
    world: World,
    brief: Arc<AtomicBool>,
    rng: SmallRng,
    /// One session in mode `ask` and one in mode `full`.
    sessions: Vec<Session>,
    /// A session that was being deleted, and whether the deletion was confirmed.
    dying: Option<(Session, bool)>,
    /// Counter that makes each prompt and steer unique.
    mark_count: usize,
    killed: Instant,
    figures: Figures,
    /// The current activity, for failure messages.
    doing: String,
}

/// The life of one server.
struct ServerLife {
    client: Client,
    pending_requests: HashMap<Id, (usize, PendingRequest)>,
    /// The number of notifications that have been processed.
    known: usize,
}

impl ServerLife {
    fn ask(&mut self, session: usize, request: PendingRequest, method: &str, params: Value) {
        let id = self.client.send(method, params);
        self.pending_requests.insert(id, (session, request));
    }
}

/// Scripts the model: the last mark in its prompt, such as `#17 stream`, names what it does. While `brief` is set it
/// starts nothing new, because a resumed turn may never have reached the model before the kill.
fn model(brief: Arc<AtomicBool>) -> impl FnMut(&RecordedRequest) -> Option<Reply> + Send + 'static {
    let mut done: HashMap<String, usize> = HashMap::new();
    let words = |count: usize| (0..count).map(|n| format!("w{n} ")).collect::<String>();
    let ms = Duration::from_millis;
    move |request| {
        if brief.load(Ordering::Acquire) {
            return None;
        }
        let last_text = request.last_text();
        let Some((_, mark)) = last_text.rsplit_once('#') else {
            return Some(Reply::text(words(20)).every(ms(1)));
        };
        let (number, kind) = mark.split_once(' ')?;
        let times = done.entry(number.to_owned()).or_default();
        *times += 1;
        let first = *times == 1;
        Some(match kind.split_whitespace().next()? {
            "retry" if first => Reply::error(529, "overloaded_error", "busy"),
            "retract" if first => Reply::new().with_text(words(60)).every(ms(1)).reset(),
            "retry" | "retract" if *times == 2 => Reply::text(words(60)).every(ms(1)),
            _ if !first => return None,
            "stream" => Reply::new()
                .reasoning(words(60))
                .with_text(words(400))
                .every(ms(2)),
            "fast" => Reply::text(words(1_500)),
            "tools" => Reply::new()
                .with_text(words(10))
                .call("read_file", json!({"path": "a.txt"}))
                .call("read_file", json!({"path": "none.txt"}))
                .call("glob", json!({"pattern": "*.txt"}))
                .every(ms(1)),
            "write" => {
                let path = format!("w{number}.txt");
                Reply::new()
                    .with_text(words(5))
                    .call("write_file", json!({"path": path, "content": content(number)}))
            }
            "bash" => {
                let command =
                    format!("(setsid sleep 1000 &); echo started; sleep 1000; touch after-{number}");
                Reply::tool("bash", json!({"command": command}))
            }
            "steer" => Reply::tool("bash", json!({"command": "sleep 0.05; echo slept"})),
            "background" => Reply::tool("bash", json!({"command": "sleep 1000", "background": true})),
            "flood" => {
                let command = "yes 'a line of output' | head -c 600000; sleep 0.02; echo";
                Reply::tool("bash", json!({"command": command}))
            }
            _ => return None,
        })
    }
}

fn content(number: &str) -> String {
    format!("file {number}\n").repeat(500)
}

impl KillRun {
    fn new(seed: u64) -> Self {
        let world = World::new();
        world.write("a.txt", "a\n".repeat(100));
        let brief = Arc::new(AtomicBool::new(false));
        world.mock().respond_with(model(brief.clone()));
        Self {
            world,
            brief,
            rng: SmallRng::seed_from_u64(seed),
            sessions: Vec::new(),
            dying: None,
            mark_count: 0,
            killed: now(),
            figures: Figures::default(),
            doing: String::new(),
        }
    }

    fn kills(&mut self, kills: usize) {
        for kill in 0..kills {
            let kind = KINDS[self.rng.random_range(0..KINDS.len())];
            self.doing = format!("kill {kill}, {kind:?}");
            *self.figures.kinds.entry(kind).or_default() += 1;
            if kind == Workload::StartUp && !self.sessions.is_empty() {
                self.start_up();
            } else {
                let mut life = self.begin(kill);
                self.doing += ", working";
                self.work(kind, &mut life);
                self.end(life);
            }
            self.look_at_files();
            let wrong = self.world.mock().take_failures();
            assert!(wrong.is_empty(), "what the model was sent: {}", wrong.join("\n"));
            if kill % INTEGRITY == 0 {
                super::crash::check_store(&self.world);
            }
        }
        "the end".clone_into(&mut self.doing);
        let ServerLife {
            client,
            pending_requests,
            ..
        } = self.begin(0);
        for id in pending_requests.keys() {
            // An answer of an earlier life may already have settled the question, so a refusal is fine.
            let _ = client.answer(id);
        }
        drop(client);
        super::crash::check_store(&self.world);
    }

    /// Kills a server during its start, possibly while it repairs what the last kill cut.
    fn start_up(&mut self) {
        let client = self.world.launch(Options::default());
        let params = client.initialize_params(None);
        let mut life = ServerLife {
            client,
            pending_requests: HashMap::new(),
            known: 0,
        };
        let initialized = life.client.send("initialize", params);
        if self.rng.random_bool(0.8) {
            life.client.answer(&initialized).expect("it is initialized");
            life.client.initialized();
            for session in 0..self.sessions.len() {
                let params = json!({"sessionId": self.sessions[session].id, "tail": 1_000});
                life.ask(session, PendingRequest::Load, "agent/loadSession", params);
            }
        }
        let moment = now() + self.random_delay(40_000);
        while now() < moment {
            self.look(&mut life, moment);
        }
        self.end(life);
    }

    /// Starts a server on what the last one left, and checks it.
    fn begin(&mut self, kill: usize) -> ServerLife {
        let mut life = ServerLife {
            client: self.world.start(),
            pending_requests: HashMap::new(),
            known: 0,
        };
        self.doing += ", loading";
        for session in 0..self.sessions.len() {
            let id = self.sessions[session].id.clone();
            let loaded: LoadSessionResult = life
                .client
                .call("agent/loadSession", json!({"sessionId": id, "tail": 1_000}));
            let mut wrong = Vec::new();
            let ledger = &mut self.sessions[session].ledger;
            ledger.check(&loaded, self.killed, &mut self.figures, &mut wrong);
            for reference in ledger.take_refs() {
                let read: Value = life.client.call(
                    "agent/readContent",
                    json!({"sessionId": id, "ref": reference, "limit": 1_000}),
                );
                if read["text"].as_str().is_none_or(str::is_empty) {
                    wrong.push(format!("{reference} has nothing: {read}"));
                }
            }
            self.assert_no_violations(session, &wrong);
            self.continue_session(session, &mut life, &loaded);
        }
        self.look_for_deleted(&life.client);
        self.look_at_files();
        if self.sessions.is_empty() || kill % SERVER_RUNS == SERVER_RUNS - 1 {
            self.renew(&life.client);
            // Pending answers concern the old sessions.
            life.pending_requests.clear();
        }
        life
    }

    fn assert_no_violations(&self, session: usize, wrong: &[String]) {
        let id = &self.sessions[session].id;
        assert!(
            wrong.is_empty(),
            "{id}: {} things are wrong:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
    }

    /// Asserts that the next prompt works or that the cut turn can be resumed.
    fn continue_session(&mut self, session: usize, life: &mut ServerLife, loaded: &LoadSessionResult) {
        let id = self.sessions[session].id.clone();
        let resumes = loaded.state.resumable_turn_id.is_some() && self.rng.random_bool(0.4);
        self.brief.store(resumes, Ordering::Release);
        let request = if resumes {
            self.figures.resumed += 1;
            if let Some(open) = loaded.open_approvals.first()
                && self.rng.random_bool(0.3)
            {
                self.decide(session, life, &open.approval_id, open.name == "write_file");
            }
            life.client.send("agent/resumeTurn", json!({"sessionId": id}))
        } else {
            let prompt = self.mark("after");
            self.sessions[session].ledger.record_input(&prompt);
            life.client.prompt(&id, prompt)
        };
        let deadline = now() + WAIT_LIMIT;
        let answer = loop {
            if let Some(answer) = life.client.take_answer(&request) {
                break answer;
            }
            assert!(now() < deadline, "{id} does not go on, resumed: {resumes}");
            for notification in self.look(life, now() + Duration::from_millis(50)) {
                let bash = notification.text("name") == "bash";
                self.decide(session, life, notification.text("approvalId"), !bash);
            }
        };
        let turn_result: PromptResult = match answer {
            Ok(result) => serde_json::from_value(result).expect("a prompt's result"),
            Err(error) => panic!("{id} does not go on, resumed: {resumes}: {error:?}"),
        };
        self.brief.store(false, Ordering::Release);
        assert_eq!(
            json!(turn_result.reason),
            "completed",
            "resumed: {resumes}: {turn_result:?}"
        );
    }

    /// Reads the sessions in full one last time and opens new ones.
    fn renew(&mut self, client: &Client) {
        for session in 0..self.sessions.len() {
            let Session { id, ledger } = &mut self.sessions[session];
            let mut wrong = Vec::new();
            let mut before = ledger.last() + 100_000;
            while before > 1 {
                let page: LoadSessionResult = client.call(
                    "agent/loadSession",
                    json!({"sessionId": id, "beforeSeq": before, "tail": 300}),
                );
                ledger.page(&page, &mut wrong);
                before = page
                    .events
                    .first()
                    .map_or(0, |first| first.params["seq"].as_u64().unwrap_or(0));
            }
            self.assert_no_violations(session, &wrong);
        }
        self.sessions = ["ask", "full"]
            .map(|mode| Session {
                id: client.session_with(json!({"mode": mode})),
                ledger: Ledger::default(),
            })
            .into();
        // An empty session is not stored, so give each one a turn.
        for session in 0..self.sessions.len() {
            let prompt = self.mark("after");
            self.sessions[session].ledger.record_input(&prompt);
            client.ask(&self.sessions[session].id, prompt);
        }
    }

    /// Asserts that a session that was being deleted exists completely or not at all.
    fn look_for_deleted(&mut self, client: &Client) {
        let Some((mut session, confirmed)) = self.dying.take() else {
            return;
        };
        let request = client.send(
            "agent/loadSession",
            json!({"sessionId": session.id, "tail": 1_000}),
        );
        let mut wrong = Vec::new();
        let found = client.answer(&request);
        match &found {
            Ok(loaded) => {
                let loaded = serde_json::from_value(loaded.clone()).expect("a page");
                session
                    .ledger
                    .check(&loaded, self.killed, &mut self.figures, &mut wrong);
            }
            Err(error) if error.data["refusal"] == "unknownSession" => self.figures.deleted += 1,
            Err(error) => wrong.push(format!("it is refused with {error:?}")),
        }
        if confirmed && found.is_ok() {
            wrong.push("it was deleted and is there".to_owned());
        }
        let listed: Value = client.call("agent/listSessions", json!({}));
        let listed = listed["sessions"].as_array().into_iter().flatten();
        if listed
            .filter(|listed| listed["sessionId"] == session.id.as_str())
            .count()
            != usize::from(found.is_ok())
        {
            wrong.push("it is listed otherwise than it is there".to_owned());
        }
        assert!(
            wrong.is_empty(),
            "the deleted {}: {}",
            session.id,
            wrong.join("\n")
        );
    }

    /// Works until the moment of the kill.
    fn work(&mut self, kind: Workload, life: &mut ServerLife) {
        // Writes mostly happen in the session that asks for approval.
        let one = usize::from(
            self.rng
                .random_bool(if kind == Workload::Write { 0.2 } else { 0.5 }),
        );
        let mut later: Vec<(Instant, usize, DelayedAction)> = Vec::new();
        match kind {
            Workload::Idle | Workload::StartUp => {}
            Workload::Two => {
                let kinds = [
                    Workload::Stream,
                    Workload::Fast,
                    Workload::Tools,
                    Workload::Write,
                    Workload::Bash,
                    Workload::Flood,
                ];
                for session in 0..2 {
                    let kind = kinds[self.rng.random_range(0..kinds.len())];
                    self.start(session, kind, life);
                }
            }
            Workload::Steer => {
                let kind = if self.rng.random_bool(0.5) {
                    Workload::Steer
                } else {
                    Workload::Stream
                };
                self.start(1, kind, life);
                for _ in 0..self.rng.random_range(1..4) {
                    later.push((now() + self.random_delay(80_000), 1, DelayedAction::Steer));
                }
            }
            Workload::Cancel => {
                let kinds = [Workload::Stream, Workload::Bash, Workload::Tools];
                let kind = kinds[self.rng.random_range(0..kinds.len())];
                self.start(one, kind, life);
                later.push((now() + self.random_delay(150_000), one, DelayedAction::Cancel));
            }
            Workload::Ending => {
                self.start(one, Workload::Stream, life);
                later.push((now() + self.random_delay(100_000), one, DelayedAction::CloseInput));
            }
            Workload::Delete => {
                let id = life.client.session();
                let mut ledger = Ledger::default();
                let prompt = self.mark("after");
                ledger.record_input(&prompt);
                life.client.ask(&id, prompt);
                self.dying = Some((
                    Session {
                        id: id.clone(),
                        ledger,
                    },
                    false,
                ));
                life.ask(
                    usize::MAX,
                    PendingRequest::Delete,
                    "agent/deleteSession",
                    json!({"sessionId": id}),
                );
            }
            kind => self.start(one, kind, life),
        }
        // The moment is a random time, or a random number of notifications.
        let long = !matches!(kind, Workload::Idle | Workload::Delete | Workload::StartUp);
        let (limit, max) = if self.rng.random_bool(0.6) {
            (self.random_delay(if long { 700_000 } else { 20_000 }), usize::MAX)
        } else {
            let limit = Duration::from_millis(if long { 700 } else { 20 });
            (limit, life.known + self.rng.random_range(1..60))
        };
        let moment = now() + limit;
        while now() < moment && life.known < max {
            let next = later
                .iter()
                .map(|(at, ..)| *at)
                .min()
                .unwrap_or(moment)
                .min(moment);
            for notification in self.look(life, next) {
                let session = self
                    .sessions
                    .iter()
                    .position(|known| known.id == notification.text("sessionId"));
                // Some approvals are never answered.
                if let (Some(session), true) = (session, self.rng.random_bool(0.6)) {
                    let allow = self.rng.random_bool(0.7);
                    let decision = DelayedAction::Decide(notification.text("approvalId").to_owned(), allow);
                    later.push((now() + self.random_delay(60_000), session, decision));
                }
            }
            let (due, rest) = later.into_iter().partition(|(at, ..)| *at <= now());
            later = rest;
            for (_, session, action) in due {
                self.act(session, action, life);
            }
        }
    }

    fn act(&mut self, session: usize, action: DelayedAction, life: &mut ServerLife) {
        let id = self.sessions[session].id.clone();
        match action {
            DelayedAction::Steer => {
                let prompt = self.mark("steered");
                self.sessions[session].ledger.record_input(&prompt);
                let params = json!({"sessionId": id, "prompt": prompt});
                life.ask(session, PendingRequest::Steer(prompt), "agent/steer", params);
            }
            DelayedAction::Cancel => life.client.cancel(&id),
            DelayedAction::CloseInput => life.client.close_input(),
            DelayedAction::Decide(approval, allow) => self.decide(session, life, &approval, allow),
        }
    }

    fn decide(&mut self, session: usize, life: &mut ServerLife, approval: &str, allow: bool) {
        self.sessions[session].ledger.decides(approval, allow);
        let decision = if allow { "allow" } else { "deny" };
        let params = json!({"approvalId": approval, "decision": decision});
        life.ask(
            session,
            PendingRequest::Decide(approval.to_owned(), allow),
            "agent/approvalRespond",
            params,
        );
    }

    fn start(&mut self, session: usize, kind: Workload, life: &mut ServerLife) {
        let prompt = self.mark(&format!("{kind:?}").to_lowercase());
        let Session { id, ledger } = &mut self.sessions[session];
        ledger.record_input(&prompt);
        let params = json!({"sessionId": id, "prompt": prompt});
        life.ask(session, PendingRequest::Other, "agent/prompt", params);
    }

    /// Waits for new notifications and returns the approval requests among them.
    fn look(&mut self, life: &mut ServerLife, until: Instant) -> Vec<Arc<Notification>> {
        let new = life.client.arrived(life.known, until);
        life.known += new.len();
        new.into_iter()
            .filter(|notification| notification.method == "agent/approvalRequested")
            .collect()
    }

    /// Kills the server and records what it had shown and accepted.
    fn end(&mut self, life: ServerLife) {
        let ServerLife {
            client,
            pending_requests,
            ..
        } = life;
        let killed_output: KilledOutput = client.killed();
        self.killed = killed_output.at;
        for session in 0..self.sessions.len() {
            let mut wrong = Vec::new();
            let Session { id, ledger } = &mut self.sessions[session];
            ledger.record_killed_output(id, &killed_output, &mut wrong);
            self.assert_no_violations(session, &wrong);
        }
        if let Some((session, _)) = &mut self.dying {
            let mut wrong = Vec::new();
            session
                .ledger
                .record_killed_output(&session.id, &killed_output, &mut wrong);
            assert!(wrong.is_empty(), "{}: {}", session.id, wrong.join("\n"));
        }
        for (id, (session, request)) in pending_requests {
            let Some(Ok(answer)) = killed_output.answers.get(&id) else {
                continue;
            };
            let mut wrong = Vec::new();
            match request {
                PendingRequest::Load => {
                    let loaded = serde_json::from_value(answer.clone()).expect("a page");
                    self.sessions[session].ledger.page(&loaded, &mut wrong);
                    self.assert_no_violations(session, &wrong);
                }
                PendingRequest::Steer(prompt) => {
                    self.figures.steers += 1;
                    self.sessions[session].ledger.accepted(&prompt);
                }
                PendingRequest::Decide(approval, allow) => {
                    self.sessions[session].ledger.decision_accepted(&approval, allow);
                }
                PendingRequest::Delete => self.dying.iter_mut().for_each(|(_, confirmed)| *confirmed = true),
                PendingRequest::Other => {}
            }
        }
    }

    /// Asserts that every written file was allowed and is complete.
    fn look_at_files(&mut self) {
        if self.sessions.is_empty() {
            return;
        }
        let mut unexplained = HashSet::new();
        for entry in std::fs::read_dir(self.world.workspace())
            .expect("the workspace")
            .flatten()
        {
            let name = entry.file_name().into_string().expect("a name");
            let number = name.strip_prefix('w').and_then(|rest| rest.strip_suffix(".txt"));
            match number {
                None if name == "a.txt" => {}
                None if name.starts_with(".agentls-") && name.ends_with(".tmp") => {
                    std::fs::remove_file(entry.path()).expect("it is removed");
                    self.figures.temporary += 1;
                }
                // The next server with a session here removes them, as far as they are empty.
                None if RESERVED_FOLDERS.contains(&&*name) => {
                    std::fs::remove_dir(entry.path()).expect("nothing is in it");
                    self.figures.temporary += 1;
                }
                None => {
                    unexplained.insert(name);
                }
                Some(number) => {
                    let is_complete =
                        std::fs::read_to_string(entry.path()).is_ok_and(|text| text == content(number));
                    assert!(is_complete, "{name} is written by halves");
                    std::fs::remove_file(entry.path()).expect("it is removed");
                    let ask_ledger = &self.sessions[0].ledger;
                    let full = self.sessions[1].ledger.has_input(&format!("#{number} write"));
                    let allowed = ask_ledger.allowed(|params| params["input"]["path"] == name.as_str());
                    assert!(full || allowed, "{name} was written and not allowed");
                }
            }
        }
        assert!(
            unexplained.is_empty(),
            "no change explains these files: {unexplained:?}"
        );
    }

    fn mark(&mut self, kind: &str) -> String {
        self.mark_count += 1;
        format!("#{} {kind}", self.mark_count)
    }

    /// Returns a random time below `max` microseconds, usually a short one.
    fn random_delay(&mut self, max: u64) -> Duration {
        let rng: f64 = self.rng.random();
        Duration::from_micros((rng * rng * max as f64) as u64)
    }
}

/// An action at a later moment.
enum DelayedAction {
    Steer,
    Cancel,
    CloseInput,
    Decide(String, bool),
}

fn from_environment(name: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "the switches of this test")]
    let value = std::env::var(name).ok()?;
    Some(value.parse().expect("a number"))
}

#[test]
fn random_kills_lose_nothing_shown_and_sessions_continue() {
    let kills = from_environment("AGENTLS_KILLS").unwrap_or(200) as usize;
    let seed = from_environment("AGENTLS_KILLS_SEED").unwrap_or_else(rand::random);
    let start = now();
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..WORLDS)
            .map(|at| {
                let share = kills / WORLDS + usize::from(at < kills % WORLDS);
                scope.spawn(move || {
                    let mut run = KillRun::new(seed.wrapping_add(at as u64));
                    // Catch the panic, so that the failure can name the seed and the activity.
                    let outcome = catch_unwind(AssertUnwindSafe(|| run.kills(share)));
                    match outcome {
                        Ok(()) => Ok(run.figures),
                        Err(cause) => Err((cause, run.doing)),
                    }
                })
            })
            .collect();
        for (at, run) in runs.into_iter().enumerate() {
            match run.join().expect("a run") {
                Ok(figures) => eprintln!("world {at}: {figures:?}"),
                Err((cause, doing)) => {
                    let cause = cause.downcast_ref::<String>().map_or("a panic", String::as_str);
                    panic!("AGENTLS_KILLS={kills} AGENTLS_KILLS_SEED={seed}, world {at}, {doing}: {cause}");
                }
            }
        }
    });
    eprintln!("{kills} kills, seed {seed}, {:?}", start.elapsed());
}
