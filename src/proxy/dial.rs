//! Connects to an allowed host: resolves its name once, and connects only to an address that was checked.
//!
//! Must not decide whether a host is allowed. An address that is not public needs an entry that spells out the host or
//! this address, so that a name cannot lead into a private network.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::base::clock::timeout;
use futures::future::{BoxFuture, FutureExt};
use tokio::net::TcpStream;
use url::Host;

use super::gate::HostGate;
use super::report::Denial;
use crate::base::address::not_public;
use crate::domain::HostTarget;

/// Time limit for resolving a name.
const LOOK_UP: Duration = Duration::from_secs(10);
/// Time limit for connecting to one address.
const CONNECT: Duration = Duration::from_secs(10);
/// Most addresses of a host that are tried.
const MAX_ADDRESSES: usize = 4;

/// Resolves names.
pub(super) trait Resolver: Send + Sync {
    /// Returns the addresses of a name.
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// Resolves names as every program on this machine does.
pub(super) struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        }
        .boxed()
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum DialError {
    Denied(Denial),
    Unresolved,
    Unreachable(io::Error),
}

/// Connects to a target that the gate allows.
pub(super) async fn connect_target(
    gate: &HostGate,
    resolver: &dyn Resolver,
    target: &HostTarget,
) -> Result<TcpStream, DialError> {
    let found = match &target.host {
        Host::Ipv4(address) => vec![IpAddr::from(*address)],
        Host::Ipv6(address) => vec![IpAddr::from(*address)],
        Host::Domain(name) => {
            let looked_up = timeout(LOOK_UP, resolver.resolve(name)).await;
            looked_up.ok().and_then(Result::ok).unwrap_or_default()
        }
    };
    let checked = check_addresses(gate, target, &found)?;
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in checked.into_iter().take(MAX_ADDRESSES) {
        // By address: a second lookup could have another result.
        match timeout(CONNECT, TcpStream::connect(SocketAddr::new(address, target.port))).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(DialError::Unreachable(last))
}

/// Returns those of the addresses that may be connected to.
fn check_addresses(gate: &HostGate, target: &HostTarget, found: &[IpAddr]) -> Result<Vec<IpAddr>, DialError> {
    let is_named = gate.is_named(target);
    let mut refused = None;
    let mut checked = Vec::new();
    for address in found {
        let at_address = HostTarget {
            host: match address.to_canonical() {
                IpAddr::V4(address) => Host::Ipv4(address),
                IpAddr::V6(address) => Host::Ipv6(address),
            },
            port: target.port,
        };
        match not_public(*address) {
            Some(kind) if !is_named && !gate.is_named(&at_address) => refused = Some(kind),
            Some(_) | None => checked.push(*address),
        }
    }
    match (checked.is_empty(), refused) {
        (false, _) => Ok(checked),
        (true, Some(kind)) => {
            gate.record_refusal(target, Denial::Private(kind));
            Err(DialError::Denied(Denial::Private(kind)))
        }
        (true, None) => Err(DialError::Unresolved),
    }
}
