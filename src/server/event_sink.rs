//! Where stored events go: converted, then pushed into the outbox in order. The store's writer calls it.
//!
//! Keeps I7: an event reaches the client only after the store or a warning has it. Knows no session state.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use super::server_warnings::ServerWarnings;
use super::to_wire::{self, delta};
use crate::domain::{DeltaEnvelope, Envelope, EventSink};
use crate::transport::outbox::{Outbox, Outgoing};

/// Converts events and pushes them into the outbox.
pub(super) struct WireEventSink {
    outbox: Outbox,
    groups: KeyHasher,
    notices: ServerWarnings,
}

/// Maps names of sessions and streams to numbers for the outbox. Equal names get equal numbers.
#[derive(Clone, Default)]
pub(super) struct KeyHasher(RandomState);

impl KeyHasher {
    /// Returns the number of a session or a stream.
    pub(super) fn hash_name(&self, name: &str) -> u64 {
        self.0.hash_one(name)
    }

    fn hash_stream(&self, key: &delta::DeltaKey) -> u64 {
        self.0.hash_one(key)
    }
}

impl WireEventSink {
    pub(super) fn new(outbox: Outbox, notices: ServerWarnings) -> Self {
        Self {
            outbox,
            notices,
            groups: KeyHasher::default(),
        }
    }
}

impl EventSink for WireEventSink {
    fn publish_event(&mut self, mut envelope: Envelope) {
        let group = self.groups.hash_name(envelope.session.as_str());
        let permit = envelope.permit.take();
        if envelope.in_page {
            // The client reads this event in the page of `agent/loadSession`; sending it too would duplicate it.
            return;
        }
        let body = to_wire::encode_frame(&to_wire::to_notification(&envelope));
        self.outbox.push(Outgoing::Notification {
            body,
            group: Some(group),
            permit,
        });
    }

    fn publish_delta(&mut self, mut envelope: DeltaEnvelope) {
        let group = self.groups.hash_name(envelope.session.as_str());
        let mut permit = envelope.permit.take();
        if envelope.in_page {
            return;
        }
        for frame in delta::to_frames(&envelope) {
            self.outbox.push(Outgoing::Mergeable {
                key: (self.groups.hash_stream(&frame.key), group),
                head: frame.head,
                text: frame.text,
                tail: delta::TAIL,
                // The first frame carries the permit for all of them.
                permit: permit.take(),
            });
        }
    }

    fn publish_warning(&mut self, code: &str, message: &str) {
        // A warning of another code concerns one session, so it is not a status of the server.
        if code == "store" {
            self.notices.set_store(Some(message));
        }
        let body = to_wire::encode_frame(&to_wire::server_warning(code, message));
        self.outbox.push(Outgoing::Notification {
            body,
            group: None,
            permit: None,
        });
    }
}
