//! HTTP without sockets, for tests: clients reach servers of the same process through pipes in memory.
//!
//! With a socket, tokio's paused clock would leap ahead while bytes are on their way. Everything above the connection
//! is the real code: requests are encoded, and answers are decoded and classified, as over the network.

use std::collections::BTreeMap;
use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use hyper::body::{Body, Incoming};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use url::Url;

use crate::base::spawn::{AbortOnDrop, spawn};

/// The client's end of a connection.
pub(crate) trait ClientStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ClientStream for T {}

/// Opens a connection to a server.
pub(crate) type Connect = Arc<dyn Fn() -> Box<dyn ClientStream> + Send + Sync>;

static SERVERS: Mutex<BTreeMap<String, Connect>> = Mutex::new(BTreeMap::new());

fn lock_servers() -> MutexGuard<'static, BTreeMap<String, Connect>> {
    SERVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a server reachable under its hosts until it is dropped.
#[derive(Debug)]
pub(crate) struct InProcessServer(Vec<String>);

impl InProcessServer {
    /// Registers a server. No other server of the process may have the same hosts.
    pub(crate) fn register(hosts: Vec<String>, connect: Connect) -> Self {
        let mut servers = lock_servers();
        for host in &hosts {
            servers.insert(host.clone(), connect.clone());
        }
        Self(hosts)
    }
}

impl Drop for InProcessServer {
    fn drop(&mut self) {
        lock_servers().retain(|host, _| !self.0.contains(host));
    }
}

/// Returns how to connect to the host of `url`, if a server of this process has it.
pub(super) fn find_server(url: &Url) -> Option<Connect> {
    lock_servers().get(url.host_str()?).cloned()
}

/// Sends a request over a new connection.
///
/// # Errors
///
/// The connection ends before the head of the response.
pub(super) async fn send(
    connect: &Connect,
    request: reqwest::RequestBuilder,
) -> reqwest::Result<reqwest::Response> {
    let mut request: hyper::Request<reqwest::Body> = request.build()?.try_into()?;
    // A server expects the path alone.
    if let Some(path) = request.uri().path_and_query().cloned() {
        *request.uri_mut() = path.into();
    }
    match exchange(connect, request).await {
        Ok(response) => Ok(response),
        Err(error) => Err(to_reqwest_error(error).await),
    }
}

async fn exchange(
    connect: &Connect,
    request: hyper::Request<reqwest::Body>,
) -> hyper::Result<reqwest::Response> {
    let io = TokioIo::new(connect());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
    // Its failures show in the response or its body.
    let connection = spawn(async move { drop(connection.await) });
    let response = sender.send_request(request).await?;
    let response = response.map(|incoming| {
        reqwest::Body::wrap_stream(AnswerBody {
            incoming,
            _connection: connection,
        })
    });
    Ok(response.into())
}

/// A response body whose connection closes when it is dropped.
struct AnswerBody {
    incoming: Incoming,
    _connection: AbortOnDrop<()>,
}

impl Stream for AnswerBody {
    type Item = hyper::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(Pin::new(&mut self.incoming).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// Wraps an error as reqwest does. Its own constructors are private, so a failing body yields the error.
async fn to_reqwest_error(error: impl Error + Send + Sync + 'static) -> reqwest::Error {
    let body = futures::stream::iter([Err::<Bytes, _>(error)]);
    let response = hyper::Response::new(reqwest::Body::wrap_stream(body));
    let read = reqwest::Response::from(response).bytes().await;
    read.expect_err("a body that fails")
}
