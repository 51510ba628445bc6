//! Answers one request of a command: opens a tunnel, forwards the request to its host, or refuses it.
//!
//! The target is the one of the request line. The header `Host` is replaced by it, so that the host that was allowed is
//! the one that is asked.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::dial::{DialError, Resolver, connect_target};
use super::gate::HostGate;
use super::idle::{IDLE_LIMIT, IdleStream};
use crate::base::error_chain::innermost_message;
use crate::base::spawn::{AbortOnDrop, spawn};
use crate::domain::HostTarget;

/// Largest head of a request and of a response, in bytes.
pub(super) const MAX_HEAD: usize = 64 << 10;

/// Headers that concern one connection only.
const PER_CONNECTION: [HeaderName; 8] = [
    header::CONNECTION,
    header::PROXY_AUTHORIZATION,
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];
/// Not standard, but common.
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// A tunnel that was promised to the command.
pub(super) struct Tunnel {
    /// The command's end, once the response has been sent.
    pub(super) client: OnUpgrade,
    pub(super) server: IdleStream<TcpStream>,
}

/// Answers the requests of a connection.
#[derive(Clone)]
pub(super) struct Forwarder {
    gate: Arc<HostGate>,
    resolver: Arc<dyn Resolver>,
}

impl Forwarder {
    pub(super) fn new(gate: Arc<HostGate>, resolver: Arc<dyn Resolver>) -> Self {
        Self { gate, resolver }
    }

    /// Returns the response, and the tunnel if the request opened one.
    pub(super) async fn answer_request(
        &self,
        request: Request<Incoming>,
    ) -> (Response<ProxyBody>, Option<Tunnel>) {
        if request.method() == Method::CONNECT {
            return match self.open_tunnel(request).await {
                Ok(tunnel) => (Response::new(ProxyBody::Text(None)), Some(tunnel)),
                Err(response) => (response, None),
            };
        }
        let answered = self.forward_request(request).await;
        (answered.unwrap_or_else(|response| response), None)
    }

    async fn open_tunnel(&self, request: Request<Incoming>) -> Result<Tunnel, Response<ProxyBody>> {
        let authority = request.uri().authority();
        let target = authority.and_then(|authority| HostTarget::parse(authority.as_str(), None));
        let target = target.ok_or_else(|| refuse_request("CONNECT needs HOST:PORT"))?;
        let server = self.connect(&target).await?;
        Ok(Tunnel {
            client: hyper::upgrade::on(request),
            server,
        })
    }

    async fn forward_request(
        &self,
        mut request: Request<Incoming>,
    ) -> Result<Response<ProxyBody>, Response<ProxyBody>> {
        let target = read_target(request.uri()).ok_or_else(|| {
            refuse_request("this proxy takes CONNECT, and http:// URLs without a user name")
        })?;
        let server = self.connect(&target).await?;
        rewrite_request(&mut request, &target).ok_or_else(|| refuse_request("the URL is not valid"))?;
        let unanswered = |error: hyper::Error| {
            let reason = innermost_message(&error);
            respond(
                StatusCode::BAD_GATEWAY,
                format!("{target} does not answer: {reason}"),
            )
        };
        let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
            .max_buf_size(MAX_HEAD)
            .handshake(TokioIo::new(server))
            .await
            .map_err(unanswered)?;
        let driver = spawn(async move {
            // Its error also ends the body, which reports it.
            let _ = connection.await;
        });
        let mut response = sender.send_request(request).await.map_err(unanswered)?;
        remove_connection_headers(response.headers_mut());
        Ok(response.map(|body| ProxyBody::Forwarded {
            body,
            _driver: driver,
        }))
    }

    /// Connects to a target if that is allowed; the error is the response.
    async fn connect(&self, target: &HostTarget) -> Result<IdleStream<TcpStream>, Response<ProxyBody>> {
        let allowed = self.gate.request_access(target).await;
        let connected = match allowed {
            Ok(()) => connect_target(&self.gate, self.resolver.as_ref(), target).await,
            Err(denial) => Err(DialError::Denied(denial)),
        };
        match connected {
            Ok(stream) => Ok(IdleStream::new(stream, IDLE_LIMIT)),
            Err(DialError::Denied(denial)) => Err(respond(StatusCode::FORBIDDEN, denial.describe(target))),
            Err(DialError::Unresolved) => Err(respond(
                StatusCode::BAD_GATEWAY,
                format!("cannot resolve {}", target.host),
            )),
            Err(DialError::Unreachable(error)) => Err(respond(
                StatusCode::BAD_GATEWAY,
                format!("cannot connect to {target}: {error}"),
            )),
        }
    }
}

/// Returns the target of a request with a whole URL.
fn read_target(url: &Uri) -> Option<HostTarget> {
    // Encrypted pages come through `CONNECT`. To fetch them here would need the command's trust.
    let is_http = url.scheme_str() == Some("http");
    HostTarget::parse(url.authority().filter(|_| is_http)?.as_str(), Some(80))
}

/// Turns a request to a proxy into one to the target itself.
fn rewrite_request(request: &mut Request<Incoming>, target: &HostTarget) -> Option<()> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let uri: Uri = path.parse().ok()?;
    let host = match target.port {
        80 => target.host.to_string(),
        _ => target.to_string(),
    };
    let host = HeaderValue::from_str(&host).ok()?;
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_11;
    remove_connection_headers(request.headers_mut());
    request.headers_mut().insert(header::HOST, host);
    Some(())
}

/// Removes the headers that are not passed on, and those that `Connection` names.
fn remove_connection_headers(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in PER_CONNECTION.iter().chain([&PROXY_CONNECTION]).chain(&named) {
        headers.remove(name);
    }
}

fn refuse_request(message: &str) -> Response<ProxyBody> {
    respond(StatusCode::BAD_REQUEST, message.to_owned())
}

/// Returns a response of the proxy itself, with one line that says why.
fn respond(status: StatusCode, message: String) -> Response<ProxyBody> {
    let line = format!("agentls sandbox: {message}\n");
    let mut response = Response::new(ProxyBody::Text(Some(line.into())));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

/// The body of a response.
pub(super) enum ProxyBody {
    /// A text of the proxy.
    Text(Option<Bytes>),
    /// What the host sends.
    Forwarded {
        body: Incoming,
        /// Moves the bytes; ends with the body.
        _driver: AbortOnDrop<()>,
    },
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Forwarded { body, .. } => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(text) => text.is_none(),
            Self::Forwarded { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            Self::Forwarded { body, .. } => body.size_hint(),
        }
    }
}
