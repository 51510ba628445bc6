//! Simulated people: each session has one who prompts, one who interferes, and one who answers questions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::sync::oneshot;

use super::check::{RequestedRevert, TypedAnswer, TypedKind};
use super::files::person_writes;
use super::model::LONGEST_TURN;
use super::server_run::ServerRun;
use agentls::base::clock;
use agentls::domain::{Approval, ApprovalId, Decision, DecisionKind, Mode, SessionId, TurnId};
use agentls::provider::Effort;
use agentls::session::{CommandError, QueueAction, QueueReply, SessionCommand, SessionInfo, TurnHandle};
use agentls::store::ContentChoice;

/// One window: a session at a time.
pub(super) struct ClientWindow {
    pub(super) life: Arc<ServerRun>,
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
        let life = &self.life;
        let info = SessionInfo {
            id: SessionId::new_random(),
            folder: crate::simulation::FOLDER.into(),
            cwd: crate::simulation::FOLDER.into(),
            agent: None,
        };
        let model = life.world.rng.chance(300).then(|| "sim/two".to_owned());
        let id = info.id.clone();
        let mode = *life.world.rng.pick_one(&[None, Some(life.world.knobs.mode)]);
        life.world
            .lock_checker()
            .add_session(&id, mode.unwrap_or(life.world.knobs.mode));
        let choice = ContentChoice {
            model,
            mode,
            effort: None,
        };
        life.sessions.create_session(info, choice);
        self.set_session(Some(id.clone()));
        id
    }
}

/// Prompts and resumes until the life has no turns left to give.
pub(super) async fn keep_prompting(window: Arc<ClientWindow>) {
    let (life, rng) = (&window.life, &window.life.world.rng);
    while life.world.take_ticket() {
        let rest = match rng.next_below(6) {
            0 | 1 => Duration::ZERO,
            2 | 3 => rng.draw_pause(200),
            4 => rng.draw_pause(5_000),
            _ => life.world.knobs.idle.min(Duration::from_secs(3_600)),
        };
        tokio::time::sleep(rest).await;
        let session = window.session_or_new();
        let waits = life.world.lock_checker().has_question(&session);
        match (rng.chance(if waits { 700 } else { 150 }), rng.chance(60)) {
            (true, _) => resume_turn(life, &session).await,
            (false, true) => request_compaction(life, &session).await,
            (false, false) => send_prompt(&window, &session).await,
        }
        if rng.chance(30) {
            window.set_session(None);
        }
    }
}

async fn send_prompt(window: &ClientWindow, session: &SessionId) {
    let life = &window.life;
    let (label, content) = life.world.lock_checker().label_input(session, TypedKind::Prompt);
    let (reply, answer) = oneshot::channel();
    if let Err(refused) = life
        .sessions
        .post_command(session, SessionCommand::Prompt { content, reply })
    {
        return life
            .world
            .lock_checker()
            .record_answer(label, TypedAnswer::Refused(refused));
    }
    if life.world.rng.chance(20) {
        // The client has gone before the answer: nobody wants the turn.
        return life
            .world
            .lock_checker()
            .record_answer(label, TypedAnswer::Unheard);
    }
    match expect_answer(life, answer.await) {
        Some(Ok(handle)) => {
            life.world
                .lock_checker()
                .record_answer(label, TypedAnswer::Accepted(handle.turn.clone()));
            await_turn_end(life, session, handle).await;
        }
        Some(Err(refused)) => {
            let unknown = matches!(refused, CommandError::UnknownSession(_));
            life.world
                .lock_checker()
                .record_answer(label, TypedAnswer::Refused(refused));
            if unknown {
                window.set_session(None);
            }
        }
        None => {}
    }
}

async fn resume_turn(life: &ServerRun, session: &SessionId) {
    let (reply, answer) = oneshot::channel();
    if life
        .sessions
        .post_command(session, SessionCommand::Resume { reply })
        .is_err()
    {
        return;
    }
    if let Some(Ok(handle)) = expect_answer(life, answer.await) {
        await_turn_end(life, session, handle).await;
    }
}

async fn request_compaction(life: &ServerRun, session: &SessionId) {
    let instructions = life.world.rng.chance(300).then(|| "keep it short".to_owned());
    let (reply, answer) = oneshot::channel();
    let command = SessionCommand::Compact { instructions, reply };
    if life.sessions.post_command(session, command).is_err() {
        return;
    }
    life.world.lock_checker().asks_compaction(session);
    match expect_answer(life, answer.await) {
        Some(Ok(handle)) => await_turn_end(life, session, handle).await,
        Some(Err(_)) => life.world.lock_checker().compaction_refused(session),
        None => {}
    }
}

/// I1: a command whose answer was dropped has none; only the server's end may do that.
fn expect_answer<T>(life: &ServerRun, answer: Result<T, oneshot::error::RecvError>) -> Option<T> {
    let heard = answer.ok();
    if heard.is_none() && !life.world.lock_checker().is_ending() && !life.is_deleting() {
        life.world
            .lock_checker()
            .record_violation("I1: a command was not answered".to_owned());
    }
    heard
}

/// Waits for the turn's end, mostly; I13: it comes.
async fn await_turn_end(life: &ServerRun, session: &SessionId, handle: TurnHandle) {
    if life.world.rng.chance(100) {
        return;
    }
    let turn = handle.turn.clone();
    match tokio::time::timeout(LONGEST_TURN, handle.wait_for_outcome()).await {
        Err(_) => life
            .world
            .lock_checker()
            .record_violation(format!("I13: {turn} of {session} does not end")),
        Ok(None) if life.world.lock_checker().is_ending() || life.is_deleting() => {}
        Ok(None) => life
            .world
            .lock_checker()
            .record_violation(format!("I1: {turn} of {session} has no outcome")),
        Ok(Some(outcome)) => life.world.lock_checker().check_outcome(session, &outcome),
    }
}

/// Steers, cancels, changes the mode, looks, deletes: whenever it likes.
pub(super) async fn interfere_at_random(window: Arc<ClientWindow>) {
    let (life, rng) = (&window.life, &window.life.world.rng);
    loop {
        tokio::time::sleep(Duration::from_millis(1) + rng.draw_pause(life.world.knobs.whim_ms)).await;
        let Some(session) = window.current_session() else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        if life.world.lock_checker().open_turn(&session).is_none() && rng.chance(700) {
            // Little can happen while nothing runs; nights are long.
            tokio::time::sleep(rng.draw_pause(60_000)).await;
        }
        match rng.next_below(40) {
            0..9 if life.world.lock_checker().open_turn(&session).is_none() && rng.chance(950) => {}
            0..9 => send_steer(life, &session).await,
            9..12 => cancel_turn(life, &session),
            12 => set_mode(life, &session).await,
            13..15 => change_queue(life, &session).await,
            15 => rename_session(life, &session).await,
            16 if rng.chance(life.world.knobs.writes) => person_writes(&life.world),
            17 | 30..33 if rng.chance(life.world.knobs.writes) => request_revert(life, &session).await,
            18..20 => set_model(life, &session).await,
            20..23 => load_session(life, &session, false).await,
            23..25 => load_session(life, &session, true).await,
            25..27 => inspect_session(life, &session).await,
            27 if rng.chance(100) => delete_session(&window, &session).await,
            29 if rng.chance(100) => fork_session(&window, &session).await,
            28 => wrong_decision(life, &session).await,
            _ => tokio::time::sleep(rng.draw_pause(10_000)).await,
        }
    }
}

async fn send_steer(life: &ServerRun, session: &SessionId) {
    let expected = match life.world.rng.next_below(3) {
        0 => life.world.lock_checker().open_turn(session),
        1 if life.world.rng.chance(200) => Some(TurnId::from("turn_of_another_day")),
        _ => None,
    };
    let (label, content) = life.world.lock_checker().label_input(session, TypedKind::Steer);
    let (reply, answer) = oneshot::channel();
    let command = SessionCommand::Steer {
        content,
        expected,
        reply,
    };
    if let Err(refused) = life.sessions.post_command(session, command) {
        return life
            .world
            .lock_checker()
            .record_answer(label, TypedAnswer::Refused(refused));
    }
    match expect_answer(life, answer.await) {
        Some(Ok(turn)) => life
            .world
            .lock_checker()
            .record_answer(label, TypedAnswer::Accepted(turn)),
        Some(Err(refused)) => life
            .world
            .lock_checker()
            .record_answer(label, TypedAnswer::Refused(refused)),
        None => {}
    }
}

/// One more prompt for after the turn, or something with one of those that wait.
async fn change_queue(life: &ServerRun, session: &SessionId) {
    let (check, rng) = (|| life.world.lock_checker(), &life.world.rng);
    let waiting = check().waiting_prompts(session);
    let one = waiting
        .get(rng.next_below(waiting.len() as u64) as usize)
        .cloned();
    let ask = async |action| expect_answer(life, send_queue_action(life, session, action).await);
    match (one, rng.next_below(6)) {
        (Some((old, key)), 0) => {
            let (label, content) = check().label_input(session, TypedKind::Queued);
            let was_known = check().begin_unqueue(old);
            let Some(answer) = ask(QueueAction::Edit(key.clone(), content)).await else {
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
            let Some(answer) = ask(QueueAction::Remove(key)).await else {
                return;
            };
            check().check_unqueue(session, (old, was_known), &answer);
        }
        (Some((label, key)), 2) => {
            let key = rng.chance(500).then_some(key);
            check().sends_now(session);
            let Some(answer) = ask(QueueAction::SendNow(key.clone())).await else {
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
            if let Some(Err(refused)) = ask(QueueAction::List).await {
                check().queue_refused(session, &refused);
            }
        }
        _ if life.world.take_ticket() => {
            let (label, content) = check().label_input(session, TypedKind::Queued);
            let Some(answer) = ask(QueueAction::Add(content)).await else {
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

/// Puts files back, or takes that back; often right after each other.
async fn request_revert(life: &ServerRun, session: &SessionId) {
    let (rng, files) = (&life.world.rng, &life.world.files);
    let pick = rng.next_u64();
    let Some(turn) = life.world.lock_checker().turn_to_revert(files, session, pick) else {
        return;
    };
    for redo in [rng.chance(150), true] {
        let dry_run = rng.chance(150);
        let (moves, before) = (files.lock_known().moves, files.current_contents());
        let of = turn.clone();
        let command = |reply| SessionCommand::Revert {
            turn: of,
            dry_run,
            redo,
            reply,
        };
        // Others who put files back at the same time would be taken for it.
        let alone = life.revert_begins();
        let answer = life.sessions.send_request(session, command).await;
        let (unmoved, now) = {
            let mut known = files.lock_known();
            let unmoved = known.moves == moves;
            known.moves += u64::from(!dry_run);
            (unmoved, known.moves)
        };
        let asked = RequestedRevert {
            session: session.clone(),
            turn: turn.clone(),
            dry_run,
            redo,
            before,
            after: files.current_contents(),
            alone: life.revert_ends() && alone && unmoved,
            moves: (moves, now),
        };
        life.world.lock_checker().check_revert(files, asked, &answer);
        if rng.chance(500) {
            return;
        }
    }
}

async fn send_queue_action(
    life: &ServerRun,
    session: &SessionId,
    action: QueueAction,
) -> Result<Result<QueueReply, CommandError>, oneshot::error::RecvError> {
    let (reply, answer) = oneshot::channel();
    match life
        .sessions
        .post_command(session, SessionCommand::Queue { action, reply })
    {
        Ok(()) => answer.await,
        Err(refused) => Ok(Err(refused)),
    }
}

fn cancel_turn(life: &ServerRun, session: &SessionId) {
    let rng = &life.world.rng;
    let turn = match rng.next_below(4) {
        0 => None,
        1 => life.world.lock_checker().any_turn(session, rng.next_u64()),
        _ => life.world.lock_checker().open_turn(session),
    };
    for _ in 0..=u32::from(rng.chance(300)) {
        life.world.lock_checker().note_cancel(session, turn.as_ref());
        life.sessions.cancel_turn(session, turn.as_ref());
    }
}

async fn set_mode(life: &ServerRun, session: &SessionId) {
    let mode = *life.world.rng.pick_one(&Mode::ALL);
    life.world.lock_checker().sends_mode(session, mode);
    let answer = life
        .sessions
        .send_request(session, |reply| SessionCommand::SetMode { mode, reply })
        .await;
    life.world
        .lock_checker()
        .check_change_answer(session, &format!("mode {mode}"), &answer);
}

async fn rename_session(life: &ServerRun, session: &SessionId) {
    let title = format!("t{}", life.world.rng.next_below(1_000_000));
    let what = format!("title {title}");
    let answer = life
        .sessions
        .send_request(session, |reply| SessionCommand::Rename { title, reply })
        .await;
    life.world
        .lock_checker()
        .check_change_answer(session, &what, &answer);
}

async fn set_model(life: &ServerRun, session: &SessionId) {
    let model = life.world.rng.chance(500).then(|| "sim/three".to_owned());
    let effort = life.world.rng.chance(500).then_some(Effort::High);
    // Its answer is like that of a new name.
    let set = |reply| SessionCommand::SetModel { model, effort, reply };
    let _ = life.sessions.send_request(session, set).await;
}

/// Shows the session to one more window.
pub(super) async fn load_session(life: &ServerRun, session: &SessionId, read_only: bool) {
    let loaded = life
        .sessions
        .send_request(session, |reply| SessionCommand::Load { read_only, reply })
        .await;
    match loaded {
        Ok(loaded) => {
            if loaded.passed.await.is_ok() {
                life.world.lock_checker().check_snapshot(
                    session,
                    &loaded.snapshot,
                    loaded.partial.as_ref(),
                    read_only,
                );
            }
        }
        Err(refused) => life.world.lock_checker().not_loaded(session, &refused),
    }
}

async fn inspect_session(life: &ServerRun, session: &SessionId) {
    match life
        .sessions
        .send_request(session, |reply| SessionCommand::Inspect { reply })
        .await
    {
        Ok(_) => {}
        Err(refused) => life.world.lock_checker().not_loaded(session, &refused),
    }
}

async fn delete_session(window: &ClientWindow, session: &SessionId) {
    let life = &window.life;
    life.world.lock_checker().begin_delete(session);
    // A turn that runs is canceled first.
    life.world.lock_checker().note_cancel(session, None);
    life.delete_begins();
    let deleted = life
        .sessions
        .send_request(session, |reply| SessionCommand::Delete { reply })
        .await;
    life.world
        .lock_checker()
        .delete_answered(session, deleted.is_ok());
    if deleted.is_ok() {
        window.set_session(None);
        let (reply, answer) = oneshot::channel();
        let posted = life
            .sessions
            .post_command(session, SessionCommand::Inspect { reply });
        if posted.is_ok() && matches!(answer.await, Ok(Ok(_))) {
            life.world
                .lock_checker()
                .record_violation(format!("{session} is deleted and can be looked at"));
        }
    }
    life.delete_ends();
}

/// A new session of what there is; the window goes on in it, maybe.
async fn fork_session(window: &ClientWindow, session: &SessionId) {
    let life = &window.life;
    let (check, rng) = (|| life.world.lock_checker(), &life.world.rng);
    let turn = check()
        .any_turn(session, rng.next_u64())
        .filter(|_| rng.chance(500));
    check().begin_fork(session, turn.as_ref());
    let made = life.sessions.fork_session(session, turn.clone()).await;
    let fork = match made {
        Ok((fork, _)) => fork,
        Err(refused) => return check().fork_refused(session, turn.as_ref(), &refused),
    };
    let reader = &life.sessions.services().store.reader;
    let mut events = Vec::new();
    let mut pages = reader.walk_events(&fork, 0);
    while let Ok(Some(page)) = pages.next().await {
        events.extend(page.events);
    }
    let row = reader.read_session(&fork).await.ok().flatten();
    check().check_fork(&life.world.files, session, &fork, row.map(|row| (row, events)));
    if rng.chance(500) && check().session_ids().contains(&fork) {
        window.set_session(Some(fork));
    }
}

async fn wrong_decision(life: &ServerRun, session: &SessionId) {
    let approval = ApprovalId::from("appr_of_another_day");
    let decision = Decision::from_kind(DecisionKind::Allow);
    let decide = |reply| SessionCommand::Decide {
        approval,
        decision,
        reply,
    };
    if life.sessions.send_request(session, decide).await.is_ok() {
        life.world
            .lock_checker()
            .record_violation("I1: a decision on nothing was accepted".to_owned());
    }
}

/// Answers questions, sooner or later.
pub(super) async fn answer_approvals(window: Arc<ClientWindow>) {
    let (life, rng) = (&window.life, &window.life.world.rng);
    loop {
        tokio::time::sleep(Duration::from_millis(1) + rng.draw_pause(life.world.knobs.answer_ms)).await;
        let open = life.world.lock_checker().open_approvals();
        let Some((session, approval, running)) =
            open.get(rng.next_below(open.len() as u64) as usize).cloned()
        else {
            tokio::time::sleep(rng.draw_pause(3_000)).await;
            continue;
        };
        if !running && rng.chance(900) {
            continue;
        }
        let taken = decide_approval(life, &session, &approval).await;
        if !taken && !running {
            // It is decided, and waits for the turn to be resumed: who asks all the time hears the same.
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        if rng.chance(100) {
            decide_approval(life, &session, &approval).await;
        }
    }
}

/// Whether the decision was taken.
async fn decide_approval(life: &ServerRun, session: &SessionId, approval: &Approval) -> bool {
    let rng = &life.world.rng;
    let kind = *rng.pick_one(&[
        DecisionKind::Allow,
        DecisionKind::Allow,
        DecisionKind::AllowSession,
        DecisionKind::AllowAlways,
        DecisionKind::Deny,
        DecisionKind::Deny,
    ]);
    let wide = matches!(kind, DecisionKind::AllowSession | DecisionKind::AllowAlways);
    // Wide grants are rare, or soon nothing would be asked any more.
    let kind = if wide && rng.chance(800) {
        DecisionKind::Allow
    } else {
        kind
    };
    let decision = Decision {
        kind,
        feedback: rng.chance(200).then(|| "not so".to_owned()),
        input: rng
            .chance(150)
            .then(|| Arc::new(json!({"how": "ok", "ms": 3, "parts": 1}))),
        rule: None,
    };
    life.world
        .lock_checker()
        .note_decision(session, approval, &decision);
    let found = matches!(life.sessions.asked_by(&approval.id).await, Ok(Some(_)));
    let (id, sent) = (approval.id.clone(), decision.clone());
    let answer = life
        .sessions
        .send_request(session, |reply| SessionCommand::Decide {
            approval: id,
            decision: sent,
            reply,
        })
        .await;
    if answer.is_ok() && !found {
        life.world
            .lock_checker()
            .record_violation(format!("{} cannot be found by its id", approval.id));
    }
    let taken = answer.is_ok();
    life.world
        .lock_checker()
        .check_decision_answer(session, approval, decision, &answer);
    taken
}

/// A client that reads slowly gives room back late.
pub(super) async fn read_slowly(life: Arc<ServerRun>) {
    loop {
        tokio::time::sleep(Duration::from_millis(1) + life.world.rng.draw_pause(300)).await;
        let count = life.world.rng.next_below(20);
        let read: Vec<_> = {
            let mut unread = life.unread.lock().unwrap_or_else(PoisonError::into_inner);
            let count = unread.len().min(count as usize);
            unread.drain(..count).collect()
        };
        if read.is_empty() {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        drop(read);
    }
}

/// Waits until no turn has run for a while; I13: that comes.
pub(super) async fn wait_until_quiet(life: &ServerRun) {
    let mut until = clock::now() + LONGEST_TURN;
    let mut quiet = 0;
    let mut running = BTreeSet::new();
    while quiet < 12 {
        if clock::now() > until {
            return life
                .world
                .lock_checker()
                .record_violation(format!("I13: {running:?} never end"));
        }
        let now = life.world.lock_checker().running_turns();
        if now != running {
            // What waits in queues has its turns too.
            until = clock::now() + LONGEST_TURN;
        }
        running = now;
        quiet = if running.is_empty() { quiet + 1 } else { 0 };
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}
