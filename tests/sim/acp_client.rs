//! A simulated client of the Agent Client Protocol, next to the windows of the main protocol. It creates, prompts,
//! cancels, loads, forks, closes, deletes and changes sessions through the real edge, names MCP servers for them, and
//! answers its questions late, wrongly or never. `acp_answers` serves its files and fills in forms.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::acp_answers::{self, ClientFiles};
use super::check::{TypedAnswer, TypedKind};
use super::mcp;
use super::server_run::ServerRun;
use super::world::{OTHER_AGENT, World};
use agentls::acp::{AcpEdge, AcpEvents};
use agentls::base::CancellationToken;
use agentls::base::spawn::{AbortOnDrop, spawn};
use agentls::config::McpServerSettings;
use agentls::domain::{Block, Decision, DecisionKind, Mode, SessionId, TurnId};

/// The client and its edge.
pub(super) struct AcpClient {
    pub(super) server_run: Arc<ServerRun>,
    pub(super) edge: AcpEdge,
    last_id: AtomicI64,
    waiting: Mutex<Waiting>,
    files: Mutex<ClientFiles>,
    /// The sessions that this client has created and not deleted. No window shows them before a restart.
    created: Mutex<Vec<SessionId>>,
}

#[derive(Default)]
struct Waiting {
    /// Requests of the client that have no answer, by id.
    calls: BTreeMap<i64, (&'static str, oneshot::Sender<Value>)>,
    /// Requests to the client that it has not answered, by id.
    asked: BTreeMap<i64, Value>,
    /// Requests to the client that it has answered after the edge had canceled them, and before the cancellation
    /// arrived.
    crossed: BTreeSet<i64>,
}

/// Starts a client; returns its tasks.
pub(super) fn start_client(
    server_run: &Arc<ServerRun>,
    events: AcpEvents,
) -> (Arc<AcpClient>, Vec<AbortOnDrop<()>>) {
    let client = Arc::new(AcpClient {
        server_run: server_run.clone(),
        edge: AcpEdge::open(events, server_run.sessions.clone(), |configured| {
            configured.with_mcp(server_run.mcp.clone())
        }),
        last_id: AtomicI64::new(0),
        waiting: Mutex::default(),
        files: Mutex::default(),
        created: Mutex::default(),
    });
    let tasks = vec![
        spawn(read_frames(client.clone())),
        spawn(use_sessions(client.clone())),
        spawn(use_sessions(client.clone())),
        spawn(answer_questions(client.clone())),
        spawn(acp_answers::serve_files(client.clone())),
    ];
    (client, tasks)
}

impl AcpClient {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_files(&self) -> MutexGuard<'_, ClientFiles> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_created(&self) -> MutexGuard<'_, Vec<SessionId>> {
        self.created.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an unanswered request to the client.
    pub(super) fn find_asked(&self, fits: impl Fn(&Value) -> bool) -> Option<Value> {
        self.lock().asked.values().find(|asked| fits(asked)).cloned()
    }

    /// Answers a request, or refuses it, unless the edge has taken it back.
    pub(super) fn respond(&self, asked: &Value, answer: Option<Value>) {
        let Some(id) = asked["id"].as_i64() else { return };
        if self.lock().asked.remove(&id).is_none() {
            return;
        }
        if !self.edge.respond(id, answer) {
            self.lock().crossed.insert(id);
        }
    }

    /// Sends a request and returns its whole answer.
    async fn call(&self, method: &'static str, params: Value) -> Value {
        self.call_until(method, params, CancellationToken::new()).await
    }

    /// Sends a request that may be canceled, and returns its whole answer.
    async fn call_until(&self, method: &'static str, params: Value, cancel: CancellationToken) -> Value {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, answer) = oneshot::channel();
        self.lock().calls.insert(id, (method, sender));
        let running = spawn(self.edge.call(id, method, params, cancel));
        let answer = answer.await.unwrap_or_default();
        drop(running);
        answer
    }

    fn take_frame(&self, frame: Value) {
        let world = &self.server_run.world;
        let id = frame["id"].as_i64();
        match (frame["method"].as_str(), id) {
            (Some("session/update"), None) => world.lock_checker().check_acp_update(&frame["params"]),
            (Some("$/cancel_request"), None) => {
                let known = frame["params"]["requestId"].as_i64();
                let mut waiting = self.lock();
                let is_open = known
                    .is_some_and(|id| waiting.asked.remove(&id).is_some() || waiting.crossed.remove(&id));
                drop(waiting);
                if !is_open {
                    world
                        .lock_checker()
                        .record_violation(format!("ACP: nothing to take back: {frame}"));
                }
            }
            (Some(_), Some(id)) => {
                self.lock().asked.insert(id, frame);
            }
            (None, Some(id)) => {
                let Some((method, waiting)) = self.lock().calls.remove(&id) else {
                    let violation = format!("I1: a second answer, or one to no request: {frame}");
                    return world.lock_checker().record_violation(violation);
                };
                if let Some(turn) = frame["result"]["_meta"]["agentls"]["turnId"].as_str() {
                    world.lock_checker().acp_turn_answered(&TurnId::from(turn));
                }
                world.lock_checker().count_case(format!(
                    "ACP {method}: {}",
                    if frame["error"].is_null() {
                        "done"
                    } else {
                        "refused"
                    }
                ));
                // The caller may be gone.
                let _ = waiting.send(frame);
            }
            (_, None) => world
                .lock_checker()
                .record_violation(format!("ACP: an unknown frame: {frame}")),
        }
    }

    /// Checks that nothing is left open at a quiet moment.
    pub(super) fn check_is_quiet(&self) {
        let waiting = self.lock();
        let open: Vec<&str> = waiting
            .calls
            .values()
            .map(|(method, _)| *method)
            .filter(|method| *method == "session/prompt")
            .collect();
        let mut check = self.server_run.world.lock_checker();
        if !open.is_empty() {
            check.record_violation(format!("I1: the client still waits for {open:?}"));
        }
        if !waiting.crossed.is_empty() {
            check.record_violation(format!(
                "ACP: answers that nobody waited for: {:?}",
                waiting.crossed
            ));
        }
        check.check_acp_texts();
        let approvals = check.open_approvals();
        for asked in waiting.asked.values() {
            let id = &asked["params"]["_meta"]["agentls"]["approvalId"];
            let is_open = approvals
                .iter()
                .any(|(_, approval, _)| *id == approval.id.as_str());
            if asked["method"] == "session/request_permission" && !is_open {
                check.record_violation(format!("ACP: a settled approval was not taken back: {id}"));
            }
        }
    }
}

async fn read_frames(client: Arc<AcpClient>) {
    loop {
        let frames = client.edge.take_frames().await;
        if frames.is_empty() {
            return;
        }
        for frame in frames {
            client.take_frame(frame);
        }
    }
}

/// Uses random sessions at random moments.
async fn use_sessions(client: Arc<AcpClient>) {
    let server = &client.server_run;
    let rng = &server.world.rng;
    client
        .call(
            "initialize",
            json!({"protocolVersion": 1, "clientCapabilities": {
                "elicitation": {"form": {}}, "fs": {"readTextFile": true, "writeTextFile": true},
            }}),
        )
        .await;
    loop {
        agentls::base::clock::sleep(
            Duration::from_millis(1) + rng.draw_pause(server.world.settings.user_delay_ms * 4),
        )
        .await;
        let sessions = server.world.lock_checker().session_ids();
        if sessions.is_empty() {
            agentls::base::clock::sleep(Duration::from_secs(1)).await;
            continue;
        }
        let session = rng.pick_one(&sessions).clone();
        match rng.next_below(16) {
            0..4 => send_prompt(&client, &session).await,
            4 | 5 => cancel_session(&client, &session).await,
            6 if rng.chance(300) => load_session(&client, &session, "session/load").await,
            7 => load_session(&client, &session, "session/resume").await,
            8 => set_mode(&client, &session).await,
            9 if rng.chance(300) => close_session(&client, &session).await,
            10 => {
                client.call("session/list", json!({})).await;
            }
            11 if rng.chance(300) => create_session(&client).await,
            12 if rng.chance(300) => delete_session(&client).await,
            13 => set_option(&client, &session).await,
            14 => acp_answers::edit_document(&client, &session).await,
            15 if rng.chance(200) => fork_session(&client, &session).await,
            _ => agentls::base::clock::sleep(rng.draw_pause(10_000)).await,
        }
    }
}

/// Cancels a session's turn, or answers what an interrupted one has left open.
async fn cancel_session(client: &AcpClient, session: &SessionId) {
    {
        let mut check = client.server_run.world.lock_checker();
        check.note_cancel(session, None);
        let deny = Decision::from_kind(DecisionKind::Deny);
        let (approvals, inquiries) = (check.open_approvals(), check.open_inquiries());
        for (_, approval, _) in approvals.iter().filter(|(of, ..)| of == session) {
            check.note_decision(session, approval, &deny);
        }
        for (_, inquiry, _) in inquiries.iter().filter(|(of, ..)| of == session) {
            check.note_reply_sent(session, &inquiry.id, &inquiry.default_reply());
        }
    }
    let params = json!({"sessionId": session.as_str()});
    client.edge.notify("session/cancel", params).await;
}

/// Creates a session, and prompts in it, sometimes while it chooses agents for the session.
async fn create_session(client: &AcpClient) {
    let world = &client.server_run.world;
    let params = json!({"cwd": world.files.folder(), "mcpServers": draw_servers(world)});
    let created = &client.call("session/new", params).await["result"];
    let mode = created["modes"]["currentModeId"]
        .as_str()
        .and_then(Mode::from_name);
    let (Some(session), Some(mode)) = (created["sessionId"].as_str(), mode) else {
        return;
    };
    let session = SessionId::from(session);
    world.lock_checker().add_session(&session, mode);
    client.lock_created().push(session.clone());
    if world.rng.chance(300) {
        // Some editors do not wait for the answer.
        futures::join!(choose_agents(client, &session), send_prompt(client, &session));
    } else {
        send_prompt(client, &session).await;
    }
}

/// Chooses one agent after the other for a session, or one that does not exist.
async fn choose_agents(client: &AcpClient, session: &SessionId) {
    let world = &client.server_run.world;
    for _ in 0..=world.rng.next_below(3) {
        let agent = *world.rng.pick_one(&["default", OTHER_AGENT, "unknown"]);
        if agent != "unknown" {
            world.lock_checker().sends_agent(session);
        }
        let params = json!({"sessionId": session.as_str(), "configId": "agent", "value": agent});
        let answer = client.call("session/set_config_option", params).await;
        let mode = &answer["result"]["configOptions"][0]["currentValue"];
        if let Some(mode) = mode.as_str().and_then(Mode::from_name) {
            world.lock_checker().agent_chosen(session, agent, mode);
        }
    }
}

/// Deletes one of the client's own sessions.
async fn delete_session(client: &AcpClient) {
    let server = &client.server_run;
    let session = {
        let mut created = client.lock_created();
        if created.is_empty() {
            return;
        }
        let nth = server.world.rng.next_below(created.len() as u64) as usize;
        created.swap_remove(nth)
    };
    server.world.lock_checker().begin_delete(&session);
    // The deletion cancels a running turn first.
    server.world.lock_checker().note_cancel(&session, None);
    server.delete_begins();
    let answer = client
        .call("session/delete", json!({"sessionId": session.as_str()}))
        .await;
    let is_deleted = answer["result"].is_object();
    server.world.lock_checker().delete_answered(&session, is_deleted);
    server.delete_ends();
}

/// Sets an option: a mode, an effort, or one that does not exist.
async fn set_option(client: &AcpClient, session: &SessionId) {
    let world = &client.server_run.world;
    let mode = *world.rng.pick_one(&Mode::ALL);
    let (option, value) = match world.rng.next_below(6) {
        0..3 => ("mode", mode.name()),
        3 => ("effort", "high"),
        4 => ("model", "sim/unknown"),
        _ => ("mood", "good"),
    };
    if option == "mode" {
        world.lock_checker().sends_mode(session, mode);
    }
    let params = json!({"sessionId": session.as_str(), "configId": option, "value": value});
    let answer = client.call("session/set_config_option", params).await;
    // After a refusal, the mode may have changed anyway: the answer lists all options, which may fail.
    if option == "mode" && answer["result"].is_object() {
        world
            .lock_checker()
            .check_change_answer(session, &format!("mode {mode}"), &Ok(()));
    }
}

async fn send_prompt(client: &AcpClient, session: &SessionId) {
    let world = &client.server_run.world;
    if !world.take_ticket() {
        return agentls::base::clock::sleep(Duration::from_secs(1)).await;
    }
    let (label, content) = world.lock_checker().label_input(session, TypedKind::Prompt);
    let convert = |block: &Block| match block {
        Block::Image(image) => json!({"type": "image", "mimeType": image.media_type, "data": &*image.data}),
        Block::Text(text) => json!({"type": "text", "text": text}),
        other => unreachable!("a user types no {other:?}"),
    };
    let prompt: Vec<Value> = content.iter().map(convert).collect();
    let params = json!({"sessionId": session.as_str(), "prompt": prompt});
    let cancel = CancellationToken::new();
    let request = client.call_until("session/prompt", params, cancel.clone());
    let answer = if world.rng.chance(100) {
        let cancels = async {
            agentls::base::clock::sleep(world.rng.draw_pause(10_000)).await;
            let mut check = world.lock_checker();
            let (own, open) = (check.joined_turn(label), check.open_turn(session));
            // It reaches no turn of somebody else.
            if own == open {
                check.note_cancel(session, own.as_ref());
                cancel.cancel();
            }
        };
        tokio::join!(request, cancels).0
    } else {
        request.await
    };
    let turn = answer["result"]["_meta"]["agentls"]["turnId"].as_str();
    let known = turn.map_or(TypedAnswer::Unanswered, |turn| {
        TypedAnswer::Accepted(TurnId::from(turn))
    });
    world.lock_checker().record_answer(label, known);
}

/// Returns the params of the methods that open a stored session.
fn open_params(world: &World, session: &SessionId) -> Value {
    let (folder, servers) = (crate::simulation::FOLDER, draw_servers(world));
    json!({"sessionId": session.as_str(), "cwd": folder, "mcpServers": servers})
}

/// Draws the MCP servers that the client names, in worlds where clients do so.
fn draw_servers(world: &World) -> Value {
    if !world.settings.mcp.is_named {
        return json!([]);
    }
    let entry = |server: McpServerSettings| json!({"name": server.name, "command": server.command, "args": [], "env": []});
    mcp::draw_named_servers(world).into_iter().map(entry).collect()
}

/// Forks a session, and prompts in the fork.
async fn fork_session(client: &AcpClient, session: &SessionId) {
    let server = &client.server_run;
    server.world.lock_checker().begin_fork(session, None);
    let params = open_params(&server.world, session);
    let answer = client.call("session/fork", params).await;
    let Some(fork) = answer["result"]["sessionId"].as_str() else {
        return server.world.lock_checker().fork_failed();
    };
    let fork = SessionId::from(fork);
    server.check_fork(session, &fork).await;
    if server.world.lock_checker().session_ids().contains(&fork) {
        client.lock_created().push(fork.clone());
        send_prompt(client, &fork).await;
    }
}

async fn load_session(client: &AcpClient, session: &SessionId, method: &'static str) {
    let world = &client.server_run.world;
    let replays = method == "session/load";
    if replays && !world.lock_checker().acp_load_begins(session) {
        return;
    }
    let answer = client.call(method, open_params(world, session)).await;
    if replays {
        world
            .lock_checker()
            .acp_load_ended(session, answer["error"].is_null());
    }
}

async fn set_mode(client: &AcpClient, session: &SessionId) {
    let world = &client.server_run.world;
    let mode = *world.rng.pick_one(&Mode::ALL);
    world.lock_checker().sends_mode(session, mode);
    let params = json!({"sessionId": session.as_str(), "modeId": mode.name()});
    let answer = client.call("session/set_mode", params).await;
    if answer["result"].is_object() {
        world
            .lock_checker()
            .check_change_answer(session, &format!("mode {mode}"), &Ok(()));
    }
}

async fn close_session(client: &AcpClient, session: &SessionId) {
    let server = &client.server_run;
    if server.world.lock_checker().any_turn(session, 0).is_none() {
        // Nothing of it may be stored yet, so it would be gone.
        return;
    }
    server.world.lock_checker().note_close(session);
    client
        .call("session/close", json!({"sessionId": session.as_str()}))
        .await;
    server.world.lock_checker().note_closed(session);
}

/// Answers questions of the edge, each after a random pause. Some stay open, and another window answers them.
async fn answer_questions(client: Arc<AcpClient>) {
    let world = &client.server_run.world;
    let rng = &world.rng;
    loop {
        agentls::base::clock::sleep(Duration::from_millis(1) + rng.draw_pause(world.settings.answer_ms))
            .await;
        let asked = {
            let waiting = client.lock();
            let nth = rng.next_below(waiting.asked.len() as u64) as usize;
            waiting.asked.values().nth(nth).cloned()
        };
        let Some(asked) = asked else {
            agentls::base::clock::sleep(rng.draw_pause(3_000)).await;
            continue;
        };
        match asked["method"].as_str() {
            Some("elicitation/create") if rng.chance(700) => acp_answers::answer_form(&client, &asked),
            _ => {}
        }
        if asked["method"] != "session/request_permission" {
            continue;
        }
        let approval = &asked["params"]["_meta"]["agentls"]["approvalId"];
        let open = world.lock_checker().open_approvals();
        let open = open.iter().find(|(_, open, _)| *approval == open.id.as_str());
        let (kind, outcome) = match rng.next_below(8) {
            0..3 => (
                DecisionKind::Allow,
                json!({"outcome": "selected", "optionId": "allow"}),
            ),
            3 if rng.chance(200) => (
                DecisionKind::AllowSession,
                json!({"outcome": "selected", "optionId": "allow_always"}),
            ),
            4 | 5 => (
                DecisionKind::Deny,
                json!({"outcome": "selected", "optionId": "deny"}),
            ),
            6 => (DecisionKind::Deny, json!({"outcome": "cancelled"})),
            _ => (DecisionKind::Deny, json!("nonsense")),
        };
        if let Some((session, approval, _)) = open {
            let decision = Decision::from_kind(kind);
            world.lock_checker().note_decision(session, approval, &decision);
            // Whatever does not fit counts as a denial.
            let deny = Decision::from_kind(DecisionKind::Deny);
            world.lock_checker().note_decision(session, approval, &deny);
        }
        client.respond(&asked, Some(json!({"outcome": outcome})));
    }
}
