//! The simulated client and the simulated disk, which connect the store's writer to the checker.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::world::World;
use agentls::base::backpressure::Permit;
use agentls::base::clock::{self, Instant};
use agentls::base::sim_schedule;
use agentls::domain::{DeltaEnvelope, Envelope, EventSink};
use agentls::store::{FaultHook, StoreReader, WriteFault};

/// When this server run crashes, unless it crashes at a poll of a task.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CrashPoints {
    /// The crash replaces the commit with this number, counted from now.
    pub(super) commit: Option<u64>,
    /// The crash replaces the delivery of the event with this number, counted from now.
    pub(super) event: Option<u64>,
}

/// The permits of output that a slow client has not read yet.
pub(super) type Unread = Arc<Mutex<VecDeque<Permit>>>;

/// The client: it passes everything that it receives to the checker.
pub(super) struct SimClient {
    pub(super) world: Arc<World>,
    pub(super) unread: Unread,
    pub(super) crash: Option<u64>,
    /// Reads the store now and then, to check that published events are stored.
    pub(super) reader: Arc<Mutex<Option<StoreReader>>>,
    /// The edge of a client of the Agent Client Protocol.
    pub(super) acp: Option<Box<dyn EventSink>>,
}

impl EventSink for SimClient {
    fn publish_event(&mut self, mut envelope: Envelope) {
        if !self.accept_output(envelope.permit.take()) {
            return;
        }
        if self.world.rng.chance(20) {
            self.check_is_stored(&envelope);
        }
        self.world.lock_checker().check_event(&envelope);
        if let Some(acp) = &mut self.acp {
            // What a load or a fork contains comes with a replay.
            if !envelope.in_page {
                self.world.lock_checker().note_acp_event(
                    &envelope.session,
                    envelope.turn.as_ref(),
                    &envelope.event,
                );
            }
            acp.publish_event(envelope);
        }
    }

    fn publish_delta(&mut self, mut envelope: DeltaEnvelope) {
        if self.accept_output(envelope.permit.take()) {
            self.world.lock_checker().check_shown_delta(&envelope);
            if let Some(acp) = &mut self.acp {
                acp.publish_delta(envelope);
            }
        }
    }

    fn publish_warning(&mut self, code: &str, message: &str) {
        if !sim_schedule::is_frozen() {
            self.world.lock_checker().note_warning(code, message);
        }
    }
}

impl SimClient {
    /// Takes output, sometimes as a slow client does; returns `false` after a crash.
    fn accept_output(&mut self, permit: Option<Permit>) -> bool {
        if let Some(remaining) = self.crash.as_mut() {
            *remaining = remaining.saturating_sub(1);
            if *remaining == 0 {
                sim_schedule::freeze_tasks();
            }
        }
        if sim_schedule::is_frozen() {
            return false;
        }
        if let Some(permit) = permit
            && self.world.rng.chance(self.world.settings.slow_client)
        {
            let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
            unread.push_back(permit);
        }
        true
    }

    /// I7: the store contains an event before the client sees it, unless a warning announced a loss.
    fn check_is_stored(&self, envelope: &Envelope) {
        let check = self.world.lock_checker();
        if check.is_degraded() || check.has_just_lost_events() {
            return;
        }
        drop(check);
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(reader), seq) = (reader.as_ref(), envelope.seq) else {
            return;
        };
        let found = futures::FutureExt::now_or_never(reader.read_event(&envelope.session, seq));
        match found {
            Some(Ok(Some(Ok(stored)))) if stored.event == envelope.event => {}
            other => {
                let text =
                    format!("I7: the client sees event {seq}, but the store does not contain it: {other:?}");
                self.world.lock_checker().record_violation(text);
            }
        }
    }
}

/// The disk: it fails for a while now and then, and for good after a crash.
pub(super) fn disk_faults(world: Arc<World>, mut crash: Option<u64>) -> FaultHook {
    let mut outage: Option<(Instant, WriteFault)> = None;
    Box::new(move || {
        if let Some(remaining) = crash.as_mut() {
            *remaining = remaining.saturating_sub(1);
            if *remaining == 0 {
                sim_schedule::freeze_tasks();
            }
        }
        if sim_schedule::is_frozen() {
            return Some(WriteFault::Io);
        }
        let now = clock::now();
        if let Some((until, fault)) = outage
            && now < until
        {
            return Some(fault);
        }
        outage = None;
        if world.rng.chance(world.settings.outages) {
            let fault = *world
                .rng
                .pick_one(&[WriteFault::DiskFull, WriteFault::Io, WriteFault::Busy]);
            outage = Some((now + world.rng.draw_pause(20_000), fault));
            return Some(fault);
        }
        None
    })
}
