//! What the client said about itself.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the client said about itself in `initialize`.
#[derive(Debug, Default)]
pub(super) struct ClientFacts {
    pub(super) name: OnceLock<String>,
    pub(super) reads_files: AtomicBool,
    pub(super) writes_files: AtomicBool,
    pub(super) shows_notices: AtomicBool,
    pub(super) shows_forms: AtomicBool,
    pub(super) opens_urls: AtomicBool,
}

impl ClientFacts {
    /// Whether the client has said this.
    pub(super) fn has(fact: &AtomicBool) -> bool {
        fact.load(Ordering::Relaxed)
    }
}
