//! Simulated users. Each window has one that prompts, one that interferes, one that decides approvals and one that
//! answers inquiries (`replies`).

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::sync::oneshot;

use super::check::{RequestedRevert, TypedAnswer, TypedKind};
use super::files::write_as_user;
use super::mcp;
use super::model::LONGEST_TURN;
use super::server_run::ServerRun;
use agentls::base::CancellationToken;
use agentls::base::clock;
use agentls::domain::{Approval, ApprovalId, Decision, DecisionKind, Mode, SessionId, TurnId};
use agentls::provider::Effort;
use agentls::session::{
    CommandError, EffortChoice, QueueAction, QueueReply, SessionCommand, SessionInfo, TurnHandle,
};
use agentls::store::ContentChoice;

/// One window, which shows one session at a time.
pub(super) struct ClientWindow {
    pub(super) server_run: Arc<ServerRun>,
    pub(super) session: Mutex<Option<SessionId>>,
}

impl ClientWindow {
    fn current_session(&self) -> Option<SessionId> {
        self.session
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set_session(&self, session: Option<SessionId>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    fn session_or_new(&self) -> SessionId {
        if let Some(session) = self.current_session() {
            return session;
        }
        let server = &self.server_run;
        let info = SessionInfo {
            id: SessionId::new_random(),
            folder: crate::simulation::FOLDER.into(),
            cwd: crate::simulation::FOLDER.into(),
            agent: None,
        };
        let model = server.world.rng.chance(300).then(|| "sim/two".to_owned());
        let id = info.id.clone();
        let mode = *server
            .world
            .rng
            .pick_one(&[None, Some(server.world.settings.mode)]);
        server
            .world
            .lock_checker()
            .add_session(&id, mode.unwrap_or(server.world.settings.mode));
        let choice = ContentChoice {
            model,
            mode,
            effort: None,
        };
        server.sessions.create_session(info, choice);
        self.set_session(Some(id.clone()));
        id
    }
}

/// Prompts, resumes and compacts until the server run has used up its turns.
pub(super) async fn keep_prompting(window: Arc<ClientWindow>) {
    let (server, rng) = (&window.server_run, &window.server_run.world.rng);
    while server.world.take_ticket() {
        let rest = match rng.next_below(6) {
            0 | 1 => Duration::ZERO,
            2 | 3 => rng.draw_pause(200),
            4 => rng.draw_pause(5_000),
            _ => server.world.settings.idle.min(Duration::from_secs(3_600)),
        };
        agentls::base::clock::sleep(rest).await;
        let session = window.session_or_new();
        let has_question = server.world.lock_checker().has_question(&session);
        match (rng.chance(if has_question { 700 } else { 150 }), rng.chance(60)) {
            (true, _) => resume_turn(server, &session).await,
            (false, true) => request_compaction(server, &session).await,
            (false, false) => send_prompt(&window, &session).await,
        }
        if rng.chance(30) {
            window.set_session(None);
        }
    }
}

async fn send_prompt(window: &ClientWindow, session: &SessionId) {
    let server = &window.server_run;
    let (label, content) = server
        .world
        .lock_checker()
        .label_input(session, TypedKind::Prompt);
    let (reply, answer) = oneshot::channel();
    if let Err(refused) = server.sessions.post_command(
        session,
        SessionCommand::Prompt {
            content,
            canceled: CancellationToken::new(),
            reply,
        },
    ) {
        return server
            .world
            .lock_checker()
            .record_answer(label, TypedAnswer::Refused(refused));
    }
    if server.world.rng.chance(20) {
        // The client disconnects before the answer, so nobody waits for the turn's outcome.
        return server
            .world
            .lock_checker()
            .record_answer(label, TypedAnswer::Unanswered);
    }
    match expect_answer(server, answer.await) {
        Some(Ok(handle)) => {
            server
                .world
                .lock_checker()
                .record_answer(label, TypedAnswer::Accepted(handle.turn.clone()));
            await_turn_end(server, session, handle).await;
        }
        Some(Err(refused)) => {
            let unknown = matches!(refused, CommandError::UnknownSession(_));
            server
                .world
                .lock_checker()
                .record_answer(label, TypedAnswer::Refused(refused));
            if unknown {
                window.set_session(None);
            }
        }
        None => {}
    }
}

async fn resume_turn(server: &ServerRun, session: &SessionId) {
    let (reply, answer) = oneshot::channel();
    if server
        .sessions
        .post_command(session, SessionCommand::Resume { reply })
        .is_err()
    {
        return;
    }
    if let Some(Ok(handle)) = expect_answer(server, answer.await) {
        await_turn_end(server, session, handle).await;
    }
}

async fn request_compaction(server: &ServerRun, session: &SessionId) {
    let instructions = server.world.rng.chance(300).then(|| "keep it short".to_owned());
    let (reply, answer) = oneshot::channel();
    let command = SessionCommand::Compact { instructions, reply };
    if server.sessions.post_command(session, command).is_err() {
        return;
    }
    server.world.lock_checker().asks_compaction(session);
    match expect_answer(server, answer.await) {
        Some(Ok(handle)) => await_turn_end(server, session, handle).await,
        Some(Err(_)) => server.world.lock_checker().compaction_refused(session),
        None => {}
    }
}

/// I1: only the server's shutdown or a deletion may leave a command without an answer.
fn expect_answer<T>(server: &ServerRun, answer: Result<T, oneshot::error::RecvError>) -> Option<T> {
    let received = answer.ok();
    if received.is_none() && !server.world.lock_checker().is_ending() && !server.is_deleting() {
        server
            .world
            .lock_checker()
            .record_violation("I1: a command was not answered".to_owned());
    }
    received
}

/// Waits for the turn's end in most cases. I13: every turn ends.
async fn await_turn_end(server: &ServerRun, session: &SessionId, handle: TurnHandle) {
    if server.world.rng.chance(100) {
        return;
    }
    let turn = handle.turn.clone();
    match agentls::base::clock::timeout(LONGEST_TURN, handle.wait_for_outcome()).await {
        Err(_) => server
            .world
            .lock_checker()
            .record_violation(format!("I13: {turn} of {session} does not end")),
        Ok(None) if server.world.lock_checker().is_ending() || server.is_deleting() => {}
        Ok(None) => server
            .world
            .lock_checker()
            .record_violation(format!("I1: {turn} of {session} has no outcome")),
        Ok(Some(outcome)) => server.world.lock_checker().check_outcome(session, &outcome),
    }
}

/// Steers, cancels, changes settings, loads, reverts, forks and deletes, all at random moments.
pub(super) async fn interfere_at_random(window: Arc<ClientWindow>) {
    let (server, rng) = (&window.server_run, &window.server_run.world.rng);
    loop {
        agentls::base::clock::sleep(
            Duration::from_millis(1) + rng.draw_pause(server.world.settings.user_delay_ms),
        )
        .await;
        let Some(session) = window.current_session() else {
            agentls::base::clock::sleep(Duration::from_secs(1)).await;
            continue;
        };
        if server.world.lock_checker().open_turn(&session).is_none() && rng.chance(700) {
            // Little can happen while nothing runs, so skip ahead.
            agentls::base::clock::sleep(rng.draw_pause(60_000)).await;
        }
        match rng.next_below(40) {
            0..9 if server.world.lock_checker().open_turn(&session).is_none() && rng.chance(950) => {}
            0..9 => send_steer(server, &session).await,
            9..12 => cancel_turn(server, &session),
            12 => set_mode(server, &session).await,
            13..15 => change_queue(server, &session).await,
            15 => rename_session(server, &session).await,
            16 if rng.chance(server.world.settings.writes) => write_as_user(&server.world),
            17 | 30..33 if rng.chance(server.world.settings.writes) => request_revert(server, &session).await,
            18..20 => set_model(server, &session).await,
            20..23 => load_session(server, &session, false).await,
            23..25 => load_session(server, &session, true).await,
            25..27 => inspect_session(server, &session).await,
            27 if rng.chance(100) => delete_session(&window, &session).await,
            29 if rng.chance(100) => fork_session(&window, &session).await,
            28 => decide_unknown_approval(server, &session).await,
            _ => agentls::base::clock::sleep(rng.draw_pause(10_000)).await,
        }
    }
}

/// Names MCP servers for sessions, and restarts them, at random moments. Does nothing in worlds without servers.
pub(super) async fn name_mcp_servers(window: Arc<ClientWindow>) {
    let (server, rng) = (&window.server_run, &window.server_run.world.rng);
    let settings = &server.world.settings.mcp;
    while settings.has_servers() {
        agentls::base::clock::sleep(Duration::from_millis(1) + rng.draw_pause(20_000)).await;
        let Some(session) = window.current_session() else {
            continue;
        };
        let folder = Path::new(crate::simulation::FOLDER);
        match rng.next_below(4) {
            0 | 1 if settings.is_named => {
                let named = mcp::draw_named_servers(&server.world);
                let registration = mcp::folder_servers(&server.world);
                server.mcp.name_servers(&session, folder, &named, &registration);
            }
            2 if settings.is_named => server.mcp.forget_session(&session),
            3 => {
                server.mcp.restart_server(folder, "alpha");
            }
            _ => server.mcp.note_roots_changed(),
        }
    }
}

async fn send_steer(server: &ServerRun, session: &SessionId) {
    let expected = match server.world.rng.next_below(3) {
        0 => server.world.lock_checker().open_turn(session),
        1 if server.world.rng.chance(200) => Some(TurnId::from("turn_of_another_day")),
        _ => None,
    };
    let (label, content) = server.world.lock_checker().label_input(session, TypedKind::Steer);
    let (reply, answer) = oneshot::channel();
    let command = SessionCommand::Steer {
        content,
        expected,
        canceled: CancellationToken::new(),
        reply,
    };
    if let Err(refused) = server.sessions.post_command(session, command) {
        return server
            .world
            .lock_checker()
            .record_answer(label, TypedAnswer::Refused(refused));
    }
    match expect_answer(server, answer.await) {
        Some(Ok(turn)) => server
            .world
            .lock_checker()
            .record_answer(label, TypedAnswer::Accepted(turn)),
        Some(Err(refused)) => server
            .world
            .lock_checker()
            .record_answer(label, TypedAnswer::Refused(refused)),
        None => {}
    }
}

/// Queues one more prompt, or edits, removes, sends or lists the queued ones.
async fn change_queue(server: &ServerRun, session: &SessionId) {
    let (check, rng) = (|| server.world.lock_checker(), &server.world.rng);
    let waiting = check().waiting_prompts(session);
    let picked = waiting
        .get(rng.next_below(waiting.len() as u64) as usize)
        .cloned();
    let send_action = async |action| expect_answer(server, send_queue_action(server, session, action).await);
    match (picked, rng.next_below(6)) {
        (Some((old, key)), 0) => {
            let (label, content) = check().label_input(session, TypedKind::Queued);
            let was_known = check().begin_unqueue(old);
            let Some(answer) = send_action(QueueAction::Edit(key.clone(), content)).await else {
                return;
            };
            check().check_unqueue(session, (old, was_known), &answer);
            check().record_answer(
                label,
                match answer {
                    Ok(_) => TypedAnswer::Waits(Some(key)),
                    Err(refused) => TypedAnswer::Refused(refused),
                },
            );
        }
        (Some((old, key)), 1) => {
            let was_known = check().begin_unqueue(old);
            let Some(answer) = send_action(QueueAction::Remove(key)).await else {
                return;
            };
            check().check_unqueue(session, (old, was_known), &answer);
        }
        (Some((label, key)), 2) => {
            let key = rng.chance(500).then_some(key);
            check().sends_now(session);
            let Some(answer) = send_action(QueueAction::SendNow(key.clone())).await else {
                return;
            };
            match answer {
                Ok(QueueReply { turn: Some(turn), .. }) if key.is_some() => {
                    check().record_answer(label, TypedAnswer::Accepted(turn));
                }
                Ok(_) => {}
                Err(refused) => check().queue_refused(session, &refused),
            }
        }
        (_, 3) => {
            if let Some(Err(refused)) = send_action(QueueAction::List).await {
                check().queue_refused(session, &refused);
            }
        }
        _ if server.world.take_ticket() => {
            let (label, content) = check().label_input(session, TypedKind::Queued);
            let Some(answer) = send_action(QueueAction::Add(content)).await else {
                return;
            };
            check().record_answer(
                label,
                match answer {
                    Ok(reply) => TypedAnswer::Waits(reply.added),
                    Err(refused) => TypedAnswer::Refused(refused),
                },
            );
        }
        _ => {}
    }
}

/// Reverts a turn's file changes or redoes them, often one right after the other.
async fn request_revert(server: &ServerRun, session: &SessionId) {
    let (rng, files) = (&server.world.rng, &server.world.files);
    let pick = rng.next_u64();
    let Some(turn) = server.world.lock_checker().turn_to_revert(files, session, pick) else {
        return;
    };
    for redo in [rng.chance(150), true] {
        let dry_run = rng.chance(150);
        let (moves, before) = (files.lock_known().moves, files.current_contents());
        let reverted = turn.clone();
        let command = |reply| SessionCommand::Revert {
            turn: reverted,
            dry_run,
            redo,
            reply,
        };
        // The checker would attribute a concurrent revert to this one, so record whether there was any.
        let alone = server.revert_begins();
        let answer = server.sessions.send_request(session, command).await;
        let (unmoved, now) = {
            let mut known = files.lock_known();
            let unmoved = known.moves == moves;
            known.moves += u64::from(!dry_run);
            (unmoved, known.moves)
        };
        let request = RequestedRevert {
            session: session.clone(),
            turn: turn.clone(),
            dry_run,
            redo,
            before,
            after: files.current_contents(),
            alone: server.revert_ends() && alone && unmoved,
            moves: (moves, now),
        };
        server.world.lock_checker().check_revert(files, request, &answer);
        if rng.chance(500) {
            return;
        }
    }
}

async fn send_queue_action(
    server: &ServerRun,
    session: &SessionId,
    action: QueueAction,
) -> Result<Result<QueueReply, CommandError>, oneshot::error::RecvError> {
    let (reply, answer) = oneshot::channel();
    let command = SessionCommand::Queue {
        action,
        canceled: CancellationToken::new(),
        reply,
    };
    match server.sessions.post_command(session, command) {
        Ok(()) => answer.await,
        Err(refused) => Ok(Err(refused)),
    }
}

fn cancel_turn(server: &ServerRun, session: &SessionId) {
    let rng = &server.world.rng;
    let turn = match rng.next_below(4) {
        0 => None,
        1 => server.world.lock_checker().any_turn(session, rng.next_u64()),
        _ => server.world.lock_checker().open_turn(session),
    };
    for _ in 0..=u32::from(rng.chance(300)) {
        server.world.lock_checker().note_cancel(session, turn.as_ref());
        server.sessions.cancel_turn(session, turn.as_ref());
    }
}

async fn set_mode(server: &ServerRun, session: &SessionId) {
    let mode = *server.world.rng.pick_one(&Mode::ALL);
    server.world.lock_checker().sends_mode(session, mode);
    let answer = server
        .sessions
        .send_request(session, |reply| SessionCommand::SetMode { mode, reply })
        .await;
    server
        .world
        .lock_checker()
        .check_change_answer(session, &format!("mode {mode}"), &answer);
}

async fn rename_session(server: &ServerRun, session: &SessionId) {
    let title = format!("t{}", server.world.rng.next_below(1_000_000));
    let change = format!("title {title}");
    let answer = server
        .sessions
        .send_request(session, |reply| SessionCommand::Rename { title, reply })
        .await;
    server
        .world
        .lock_checker()
        .check_change_answer(session, &change, &answer);
}

async fn set_model(server: &ServerRun, session: &SessionId) {
    let model = server.world.rng.chance(500).then(|| "sim/three".to_owned());
    let high = EffortChoice::Chosen(Effort::High);
    let effort = server.world.rng.chance(500).then_some(high);
    // Renaming already checks this kind of answer.
    let set = |reply| SessionCommand::SetModel {
        model,
        effort,
        refused: None,
        reply,
    };
    let _ = server.sessions.send_request(session, set).await;
}

/// Loads the session as one more window does.
pub(super) async fn load_session(server: &ServerRun, session: &SessionId, read_only: bool) {
    let loaded = server
        .sessions
        .send_request(session, |reply| SessionCommand::Load { read_only, reply })
        .await;
    match loaded {
        Ok(loaded) => {
            if loaded.passed.await.is_ok() {
                server.world.lock_checker().check_snapshot(
                    session,
                    &loaded.snapshot,
                    loaded.partial.as_ref(),
                    read_only,
                );
            }
        }
        Err(refused) => server.world.lock_checker().not_loaded(session, &refused),
    }
}

async fn inspect_session(server: &ServerRun, session: &SessionId) {
    match server
        .sessions
        .send_request(session, |reply| SessionCommand::Inspect { reply })
        .await
    {
        Ok(_) => {}
        Err(refused) => server.world.lock_checker().not_loaded(session, &refused),
    }
}

async fn delete_session(window: &ClientWindow, session: &SessionId) {
    let server = &window.server_run;
    server.world.lock_checker().begin_delete(session);
    // The deletion cancels a running turn first.
    server.world.lock_checker().note_cancel(session, None);
    server.delete_begins();
    let deleted = server
        .sessions
        .send_request(session, |reply| SessionCommand::Delete { reply })
        .await;
    server
        .world
        .lock_checker()
        .delete_answered(session, deleted.is_ok());
    if deleted.is_ok() {
        window.set_session(None);
        let (reply, answer) = oneshot::channel();
        let posted = server
            .sessions
            .post_command(session, SessionCommand::Inspect { reply });
        if posted.is_ok() && matches!(answer.await, Ok(Ok(_))) {
            server
                .world
                .lock_checker()
                .record_violation(format!("{session} is deleted but can still be inspected"));
        }
    }
    server.delete_ends();
}

/// Forks the session; the window may continue in the fork.
async fn fork_session(window: &ClientWindow, session: &SessionId) {
    let server = &window.server_run;
    let (check, rng) = (|| server.world.lock_checker(), &server.world.rng);
    let turn = check()
        .any_turn(session, rng.next_u64())
        .filter(|_| rng.chance(500));
    check().begin_fork(session, turn.as_ref());
    let forked = server.sessions.fork_session(session, turn.clone()).await;
    let fork = match forked {
        Ok((fork, _)) => fork,
        Err(refused) => return check().fork_refused(session, turn.as_ref(), &refused),
    };
    server.check_fork(session, &fork).await;
    if rng.chance(500) && check().session_ids().contains(&fork) {
        window.set_session(Some(fork));
    }
}

async fn decide_unknown_approval(server: &ServerRun, session: &SessionId) {
    let approval = ApprovalId::from("appr_of_another_day");
    let decision = Decision::from_kind(DecisionKind::Allow);
    let decide = |reply| SessionCommand::Decide {
        approval,
        decision,
        reply,
    };
    if server.sessions.send_request(session, decide).await.is_ok() {
        server
            .world
            .lock_checker()
            .record_violation("I1: a decision on an unknown approval was accepted".to_owned());
    }
}

/// Decides open approvals, each after a random pause.
pub(super) async fn answer_approvals(window: Arc<ClientWindow>) {
    let (server, rng) = (&window.server_run, &window.server_run.world.rng);
    loop {
        agentls::base::clock::sleep(
            Duration::from_millis(1) + rng.draw_pause(server.world.settings.answer_ms),
        )
        .await;
        let open = server.world.lock_checker().open_approvals();
        let Some((session, approval, running)) =
            open.get(rng.next_below(open.len() as u64) as usize).cloned()
        else {
            agentls::base::clock::sleep(rng.draw_pause(3_000)).await;
            continue;
        };
        if !running && rng.chance(900) {
            continue;
        }
        let is_accepted = decide_approval(server, &session, &approval).await;
        if !is_accepted && !running {
            // The approval already has a decision, so a retry fails until somebody resumes the turn.
            agentls::base::clock::sleep(Duration::from_secs(60)).await;
        }
        if rng.chance(100) {
            decide_approval(server, &session, &approval).await;
        }
    }
}

/// Returns whether the session accepted the decision.
async fn decide_approval(server: &ServerRun, session: &SessionId, approval: &Approval) -> bool {
    let rng = &server.world.rng;
    let kind = *rng.pick_one(&[
        DecisionKind::Allow,
        DecisionKind::Allow,
        DecisionKind::AllowSession,
        DecisionKind::AllowAlways,
        DecisionKind::Deny,
        DecisionKind::Deny,
    ]);
    let is_wide = matches!(kind, DecisionKind::AllowSession | DecisionKind::AllowAlways);
    // Keep wide grants rare, because they end the approvals of a session.
    let kind = if is_wide && rng.chance(800) {
        DecisionKind::Allow
    } else {
        kind
    };
    let mut input = json!({"how": "ok", "ms": 3, "parts": 1});
    if let Some(tag) = approval.input.get("tag") {
        // The arguments of an MCP tool have one.
        input["tag"] = tag.clone();
    }
    let decision = Decision {
        kind,
        feedback: rng.chance(200).then(|| "not so".to_owned()),
        input: rng.chance(150).then(|| Arc::new(input)),
        rule: None,
    };
    server
        .world
        .lock_checker()
        .note_decision(session, approval, &decision);
    let is_found = matches!(
        server.sessions.find_asking_session(&approval.id).await,
        Ok(Some(_))
    );
    let (id, sent) = (approval.id.clone(), decision.clone());
    let answer = server
        .sessions
        .send_request(session, |reply| SessionCommand::Decide {
            approval: id,
            decision: sent,
            reply,
        })
        .await;
    if answer.is_ok() && !is_found {
        server.world.lock_checker().record_violation(format!(
            "the session of {} cannot be found by its id",
            approval.id
        ));
    }
    let is_accepted = answer.is_ok();
    server
        .world
        .lock_checker()
        .check_decision_answer(session, approval, decision, &answer);
    is_accepted
}

/// Reads output as a slow client does, so that its permits return late.
pub(super) async fn read_slowly(server: Arc<ServerRun>) {
    loop {
        agentls::base::clock::sleep(Duration::from_millis(1) + server.world.rng.draw_pause(300)).await;
        let count = server.world.rng.next_below(20);
        let read: Vec<_> = {
            let mut unread = server.unread.lock().unwrap_or_else(PoisonError::into_inner);
            let count = unread.len().min(count as usize);
            unread.drain(..count).collect()
        };
        if read.is_empty() {
            agentls::base::clock::sleep(Duration::from_secs(2)).await;
        }
        drop(read);
    }
}

/// Waits until no turn has run for a while. I13: that moment comes.
pub(super) async fn wait_until_quiet(server: &ServerRun) {
    let mut until = clock::now() + LONGEST_TURN;
    let mut quiet = 0;
    let mut running = BTreeSet::new();
    while quiet < 12 {
        if clock::now() > until {
            return server
                .world
                .lock_checker()
                .record_violation(format!("I13: {running:?} do not end"));
        }
        let now = server.world.lock_checker().running_turns();
        if now != running {
            // Queued prompts start turns too, so progress extends the deadline.
            until = clock::now() + LONGEST_TURN;
        }
        running = now;
        quiet = if running.is_empty() { quiet + 1 } else { 0 };
        agentls::base::clock::sleep(Duration::from_millis(250)).await;
    }
}
