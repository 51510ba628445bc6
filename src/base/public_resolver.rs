//! Keeps HTTP clients away from addresses that are not public, when they connect.
//!
//! The guard is the resolver of the connection itself. So a name that resolves to another address the second time leads
//! nowhere. It does not see hosts that are written as addresses, nor names that a proxy looks up: callers check those.

use std::net::{IpAddr, SocketAddr};

use futures::FutureExt;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::not_public;

/// Resolves names without addresses that are not public.
#[derive(Clone, Debug, Default)]
pub struct PublicResolver {
    /// Hosts that may have any address, since the user chose them.
    chosen: Vec<String>,
}

/// A name that resolves to no public address.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotPublic(pub &'static str);

impl PublicResolver {
    /// Creates a resolver that leaves the hosts in `chosen` alone.
    pub fn new(chosen: Vec<String>) -> Self {
        Self { chosen }
    }
}

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let is_chosen = self.chosen.iter().any(|chosen| chosen == name.as_str());
        async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let non_public_kind = |address: IpAddr| if is_chosen { None } else { not_public(address) };
            let first = found.iter().find_map(|address| non_public_kind(address.ip()));
            let public: Vec<SocketAddr> = found
                .into_iter()
                .filter(|address| non_public_kind(address.ip()).is_none())
                .collect();
            // A name with both kinds of addresses is reached at the public ones only.
            match (public.is_empty(), first) {
                (true, Some(kind)) => Err(NotPublic(kind).into()),
                _ => Ok(Box::new(public.into_iter()) as Addrs),
            }
        }
        .boxed()
    }
}

/// Returns whether a name never belongs to a public host.
pub fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    !name.contains('.')
        || [
            ".localhost",
            ".local",
            ".internal",
            ".lan",
            ".home.arpa",
            ".intranet",
            ".corp",
        ]
        .iter()
        .any(|ending| name.ends_with(ending))
}
