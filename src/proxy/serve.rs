//! Accepts a command's connections, and serves HTTP on each until it ends or becomes a tunnel.
//!
//! Everything is bounded: the connections of a command and of the server, the size of a request's head, and how long
//! anything may be idle. What a request does is in [`super::forward`].

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::dial::Resolver;
use super::forward::{Forwarder, MAX_HEAD, Tunnel};
use super::gate::HostGate;
use super::idle::{IDLE_LIMIT, IdleStream};
use crate::base::clock;
use crate::base::spawn::spawn;

/// Most connections of one command at once. Further ones wait.
const MAX_CONNECTIONS: usize = 64;
/// Most connections of all commands at once, since each takes two of the server's open files.
static CONNECTIONS: Semaphore = Semaphore::const_new(192);
/// Most headers of a request.
const MAX_HEADERS: usize = 100;
/// How long a connection may take to send the head of its next request.
const HEAD_LIMIT: Duration = Duration::from_secs(60);
/// Pause after a connection could not be accepted, such as for want of open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves connections forever; dropping the future closes them.
pub(super) async fn serve_connections(
    listener: TcpListener,
    gate: Arc<HostGate>,
    resolver: Arc<dyn Resolver>,
) {
    let mut connections = FuturesUnordered::new();
    loop {
        let accept = async {
            let permit = CONNECTIONS.acquire().await.ok();
            (permit, listener.accept().await)
        };
        tokio::select! {
            (permit, accepted) = accept, if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    let forwarder = Forwarder::new(gate.clone(), resolver.clone());
                    connections.push(spawn(async move {
                        let _permit = permit;
                        serve_connection(stream, forwarder).await;
                    }));
                }
                Err(error) => {
                    tracing::debug!(%error, "the proxy of a command cannot accept a connection");
                    clock::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.next(), if !connections.is_empty() => {}
        }
    }
}

/// Serves one connection. Errors end it: the command sees that, and nobody else is concerned.
async fn serve_connection(stream: TcpStream, forwarder: Forwarder) {
    let tunnel = Arc::new(Mutex::new(None));
    let service = service_fn(|request| {
        let (forwarder, tunnel) = (forwarder.clone(), tunnel.clone());
        async move {
            let (response, opened) = forwarder.answer_request(request).await;
            *tunnel.lock().unwrap_or_else(PoisonError::into_inner) = opened;
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    let opened = tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let (Ok(()), Some(Tunnel { client, mut server })) = (served, opened)
        && let Ok(client) = client.await
    {
        let mut client = IdleStream::new(TokioIo::new(client), IDLE_LIMIT);
        // Either side ends it, and an error is an end too.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}
