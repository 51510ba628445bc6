//! Where stored events go: converted, and pushed into the outbox in order. Called by the store's writer.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use super::server_warnings::ServerWarnings;
use super::to_wire::{self, delta};
use crate::domain::{Envelope, Event, EventSink};
use crate::transport::outbox::{Outbox, Outgoing};

/// Converts events and pushes them into the outbox.
pub(super) struct WireOutlet {
    outbox: Outbox,
    groups: KeyHasher,
    notices: ServerWarnings,
}

/// Names sessions and streams by numbers, for the outbox; the same name always gives the same number.
#[derive(Clone, Default)]
pub(super) struct KeyHasher(RandomState);

impl KeyHasher {
    /// The number of a session or a stream.
    pub(super) fn hash_name(&self, name: &str) -> u64 {
        self.0.hash_one(name)
    }

    fn hash_stream(&self, key: &delta::DeltaKey) -> u64 {
        self.0.hash_one(key)
    }
}

impl WireOutlet {
    pub(super) fn new(outbox: Outbox, notices: ServerWarnings) -> Self {
        Self {
            outbox,
            notices,
            groups: KeyHasher::default(),
        }
    }
}

impl EventSink for WireOutlet {
    fn publish_event(&mut self, mut envelope: Envelope) {
        let group = self.groups.hash_name(envelope.session.as_str());
        let mut permit = envelope.permit.take();
        if envelope.in_page {
            return;
        }
        if let Event::Delta(piece) = &envelope.event {
            for frame in delta::to_frames(&envelope, piece) {
                self.outbox.push(Outgoing::Mergeable {
                    key: (self.groups.hash_stream(&frame.key), group),
                    head: frame.head,
                    text: frame.text,
                    tail: delta::TAIL,
                    permit: permit.take(),
                });
            }
            return;
        }
        let body = to_wire::encode_frame(&to_wire::to_notification(&envelope));
        self.outbox.push(Outgoing::Notification {
            body,
            group: Some(group),
            permit,
        });
    }

    fn publish_warning(&mut self, code: &str, message: &str) {
        // What concerns one session does not stand for the server as a whole.
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
