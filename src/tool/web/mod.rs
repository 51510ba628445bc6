//! The way to pages of the web: which addresses may be read, the request, what came in words that a model reads.
//!
//! Knows nothing of tools. Everything that comes through here is somebody else's: nothing of it may decide where else
//! is looked, how much is kept, or how long it takes.

mod address;
mod body;
mod client;
pub(super) mod markdown;

pub(super) use body::{ContentKind, FetchedBody};
pub(super) use client::{Fetched, Web};
