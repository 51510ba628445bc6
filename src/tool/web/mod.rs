//! Access to web pages: the request, and the response as text for a model.
//!
//! Must not know tools. Everything that arrives here is from outside: it must not decide what else is requested, how
//! much is kept, or how long that takes.

mod body;
mod client;
pub(super) mod markdown;

pub(super) use body::{ContentKind, FetchedBody};
pub(super) use client::{FetchError, FetchResult, Web};
